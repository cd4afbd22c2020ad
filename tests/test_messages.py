"""`messages`, `frames`: what pages say is read strictly, what the bridge says written exactly."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy import PageToolDirectory, messages
from pagetools_ipy.errors import MessageError
from pagetools_ipy.frames import decode, encode
from pagetools_ipy.messages import (
    ActivatedTab,
    Activation,
    Blocked,
    Call,
    Cancel,
    Hello,
    HelloClient,
    HelloFrame,
    HelloTab,
    PageError,
    Ping,
    Pong,
    Progress,
    Register,
    Registered,
    Rejected,
    Result,
    Source,
    State,
    TabHint,
    ToolDescriptor,
    Welcome,
    digest,
    dump,
    parse,
    parse_tools,
)

from .helpers import FakePage, counted_ids, tool

REPEATABLE = settings(max_examples=80, deadline=None, derandomize=True, database=None)

Raw = dict[str, Any]

MINIMAL: dict[str, tuple[Raw, messages.PageMessage]] = {
    "hello": ({"tab": {"id": "t"}}, Hello(HelloTab("t"))),
    "register": ({"ns": "n", "tools": []}, Register("n", [])),
    "state": (
        {"seq": 0, "url": "", "title": "", "visible": False, "focused": False},
        State(0, "", "", False, False),
    ),
    "blocked": ({"reason": ""}, Blocked("")),
    "activation": (
        {"tab": {"chromeTabId": 1}, "active": True},
        Activation(ActivatedTab(1), True),
    ),
    "result": ({"callId": "c", "ok": True}, Result("c", True)),
    "progress": ({"callId": "c", "progress": 1}, Progress("c", 1.0)),
    "pong": ({"n": 1}, Pong(1)),
}
"""Each message with no more than it must have."""

FULL: dict[str, tuple[Raw, messages.PageMessage]] = {
    "hello": (
        {
            "tab": {
                "id": "t",
                "docId": "d",
                "url": "http://localhost/",
                "title": "Shop",
                "visible": True,
                "focused": True,
                "lastFocusedAgo": 2500,
            },
            "frame": {"top": False},
            "client": {"name": "pagetools.js", "version": "1.0"},
        },
        Hello(
            HelloTab("t", "d", "http://localhost/", "Shop", True, True, 2500.0),
            HelloFrame(False),
            HelloClient("pagetools.js", "1.0"),
        ),
    ),
    "register": (
        {
            "ns": "n",
            "tools": [{"name": "a"}, 3],
            "hash": "h",
            "url": "http://localhost/",
            "tab": {
                "chromeTabId": 7,
                "windowId": "w",
                "targetId": "T",
                "url": "http://localhost/tab",
                "title": "Shop",
            },
            "source": {"root": "/src"},
        },
        Register(
            "n",
            [{"name": "a"}, 3],
            "h",
            "http://localhost/",
            TabHint(7, "w", "T", "http://localhost/tab", "Shop"),
            Source("/src"),
        ),
    ),
    "state": (
        {
            **{"seq": 2**60, "url": "u", "title": "t"},
            **{"visible": True, "focused": True, "asleep": True},
        },
        State(2**60, "u", "t", True, True, True),
    ),
    "blocked": ({"reason": "frozen", "asleep": True}, Blocked("frozen", True)),
    "activation": (
        {"tab": {"chromeTabId": "7", "windowId": 1}, "active": False},
        Activation(ActivatedTab("7", 1), False),
    ),
    "result": (
        {"callId": "c", "ok": False, "value": {"a": [None]}, "error": "words"},
        Result("c", False, {"a": [None]}, "words"),
    ),
    "progress": (
        {"callId": "c", "progress": 0.5, "total": 2, "message": "half", "value": [1]},
        Progress("c", 0.5, 2.0, "half", [1]),
    ),
    "pong": ({"n": -1}, Pong(-1)),
}
"""Each message with everything it may have."""

each_type = pytest.mark.parametrize("name", messages.PAGE_MESSAGES)


def says(name: str, fields: Raw) -> Raw:
    return {"v": 1, "type": name, **copy.deepcopy(fields)}


def refused(raw: object) -> MessageError:
    with pytest.raises(MessageError) as raised:
        parse(raw)
    return raised.value


def attempt(function: Callable[[Any], Any], argument: object) -> Any:
    """What it returns, or its `MessageError`; anything else it raises is a failure."""
    try:
        return function(argument)
    except MessageError as problem:
        return problem


# Reading


@each_type
def test_a_message_with_only_its_required_fields_is_read(name: str) -> None:
    raw, expected = MINIMAL[name]
    assert parse(says(name, raw)) == expected
    assert parse({"type": name, **raw}) == expected  # a missing version is 1


@each_type
def test_a_message_with_all_its_fields_is_read(name: str) -> None:
    raw, expected = FULL[name]
    assert parse(says(name, raw)) == expected


@each_type
def test_fields_nobody_knows_are_ignored_at_every_level(name: str) -> None:
    raw, expected = FULL[name]
    newer = says(name, raw)
    for level in (newer, *(value for value in newer.values() if isinstance(value, dict))):
        if level is not newer.get("value"):
            level |= {"brandNew": {"x": [1]}, "": None, "été": 2}
    assert parse(newer) == expected


def test_explicit_nulls_are_like_missing_fields_where_a_field_may_be_missing() -> None:
    nulls = dict.fromkeys(("hash", "url", "tab", "source"))
    assert parse(says("register", {"ns": "n", "tools": [], **nulls})) == Register("n", [])
    hint = dict.fromkeys(("chromeTabId", "windowId", "targetId", "url", "title"))
    raw = {"ns": "n", "tools": [], "tab": hint, "source": {"root": None}}
    assert parse(says("register", raw)) == Register("n", [], tab=TabHint(), source=Source())


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("hello", "tab"),
        ("hello", "tab.id"),
        ("register", "ns"),
        ("register", "tools"),
        ("state", "seq"),
        ("state", "url"),
        ("state", "title"),
        ("state", "visible"),
        ("state", "focused"),
        ("blocked", "reason"),
        ("activation", "tab"),
        ("activation", "tab.chromeTabId"),
        ("activation", "active"),
        ("result", "callId"),
        ("result", "ok"),
        ("progress", "callId"),
        ("progress", "progress"),
        ("pong", "n"),
    ],
)
def test_a_required_field_that_is_missing_is_named(name: str, missing: str) -> None:
    raw = says(name, FULL[name][0])
    *parents, last = missing.split(".")
    holder = raw
    for parent in parents:
        holder = holder[parent]
    del holder[last]
    problem = refused(raw)
    assert (problem.path, problem.problem, problem.reason) == (missing, "missing", "invalid")


SAMPLES: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "number": 3,
    "string": "x",
    "array": [],
    "object": {},
}
"""A value of each JSON type."""

FIELD_TYPES: dict[str, dict[str, str]] = {
    "hello": {
        "tab": "object",
        "tab.id": "string",
        "tab.docId": "string",
        "tab.url": "string",
        "tab.title": "string",
        "tab.visible": "boolean",
        "tab.focused": "boolean",
        "tab.lastFocusedAgo": "number or null",
        "frame": "object",
        "frame.top": "boolean",
        "client": "object",
        "client.name": "string",
        "client.version": "string",
    },
    "register": {
        "ns": "string",
        "tools": "array",
        "hash": "string or null",
        "url": "string or null",
        "tab": "object or null",
        "tab.chromeTabId": "number or string or null",
        "tab.windowId": "number or string or null",
        "tab.targetId": "string or null",
        "tab.url": "string or null",
        "tab.title": "string or null",
        "source": "object or null",
        "source.root": "string or null",
    },
    "state": {
        "seq": "number",
        "url": "string",
        "title": "string",
        "visible": "boolean",
        "focused": "boolean",
        "asleep": "boolean",
    },
    "blocked": {"reason": "string", "asleep": "boolean"},
    "activation": {
        "tab": "object",
        "tab.chromeTabId": "number or string",
        "tab.windowId": "number or string or null",
        "active": "boolean",
    },
    "result": {"callId": "string", "ok": "boolean"},
    "progress": {
        "callId": "string",
        "progress": "number",
        "total": "number or null",
        "message": "string or null",
    },
    "pong": {"n": "number"},
}


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [(name, *field) for name, fields in FIELD_TYPES.items() for field in fields.items()],
)
def test_a_field_of_the_wrong_type_says_where_what_and_what_came(
    name: str, path: str, expected: str
) -> None:
    for kind in set(SAMPLES) - set(expected.split(" or ")):
        raw = says(name, MINIMAL[name][0])
        *parents, last = path.split(".")
        holder = raw
        for parent in parents:
            holder = holder.setdefault(parent, {})
        holder[last] = SAMPLES[kind]
        problem = refused(raw)
        assert str(problem) == f"{path}: expected {expected}, got {kind}"
        assert problem.reason == "invalid"


@pytest.mark.parametrize(
    ("name", "path"),
    [("state", "seq"), ("pong", "n"), ("activation", "tab.chromeTabId")],
)
def test_a_fraction_in_place_of_a_whole_number_is_refused_in_words_that_help(
    name: str, path: str
) -> None:
    raw = says(name, FULL[name][0])
    *parents, last = path.split(".")
    holder = raw
    for parent in parents:
        holder = holder[parent]
    holder[last] = 1.5
    problem = refused(raw)
    assert problem.path == path
    expected, _, got = problem.problem.removeprefix("expected ").partition(", got ")
    assert got not in expected.split(" or ")


@pytest.mark.parametrize(
    ("raw", "text", "reason"),
    [
        ("x", "expected a message object, got string", "type"),
        (None, "expected a message object, got null", "type"),
        ([{}], "expected a message object, got array", "type"),
        (True, "expected a message object, got boolean", "type"),
        (1, "expected a message object, got number", "type"),
        ({}, "type: expected string, got null", "type"),
        ({"type": None}, "type: expected string, got null", "type"),
        ({"type": ["hello"]}, "type: expected string, got array", "type"),
        ({"type": {}}, "type: expected string, got object", "type"),
        ({"v": 2, "type": "pong", "n": 1}, "v: expected version 1, got 2", "version"),
        ({"v": "1", "type": "pong", "n": 1}, "v: expected version 1, got '1'", "version"),
        ({"v": None, "type": "pong", "n": 1}, "v: expected version 1, got None", "version"),
        ({"v": False, "type": "pong", "n": 1}, "v: expected version 1, got False", "version"),
        (
            {"v": "x" * 200, "type": "pong"},
            f"v: expected version 1, got '{'x' * 118}…",
            "version",
        ),
        ({"v": 2}, "v: expected version 1, got 2", "version"),
    ],
)
def test_what_is_no_message_of_this_version_is_refused(raw: object, text: str, reason: str) -> None:
    problem = refused(raw)
    assert (str(problem), problem.reason) == (text, reason)


@pytest.mark.parametrize("name", ["", "Hello", "hello ", "welcome", "call", "brandNew", "\ud800"])
def test_a_type_of_another_version_or_of_the_bridge_is_no_message(name: str) -> None:
    assert parse({"v": 1, "type": name, "n": "wrong"}) is None


@pytest.mark.parametrize("number", [10**30, -(10**30), 10**400])
def test_whole_numbers_of_any_size_are_read_or_refused(number: int) -> None:
    """JSON does not bound them."""
    assert parse({"type": "pong", "n": number}) == Pong(number)
    activation = parse({"type": "activation", "tab": {"chromeTabId": number}, "active": True})
    assert activation == Activation(ActivatedTab(number), True)


def test_progress_that_no_float_can_hold_is_refused() -> None:
    problem = refused({"type": "progress", "callId": "c", "progress": 10**400})
    assert str(problem) == "progress: number out of range"


DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "raw",
    [
        DEEP,
        {"type": DEEP},
        {"type": "pong", "v": DEEP},
        {"type": "pong", "n": DEEP},
        {"type": "hello", "tab": DEEP},
        {"type": "register", "ns": "n", "tools": DEEP},
    ],
    ids=["message", "type", "v", "n", "tab", "tools"],
)
def test_deep_nesting_where_it_does_not_belong_costs_the_message_only(raw: object) -> None:
    assert isinstance(attempt(parse, raw), (MessageError, Register))


@pytest.mark.parametrize("error", [DEEP, {"message": DEEP}, {"name": DEEP}, {"data": DEEP}])
def test_a_failure_is_read_however_deep_it_is_nested(error: object) -> None:
    message = parse({"type": "result", "callId": "c", "ok": False, "error": error})
    assert isinstance(message, Result)
    assert isinstance(message.page_error().message, str)


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "pong", "n": 1, "\ud800": 1},
        {"type": "hello", "tab": {"id": "t", "\udfff": 1}},
        {"type": "result", "callId": "\ud800", "ok": True, "value": {"\ud800": "\ud800"}},
    ],
)
def test_lone_surrogates_anywhere_in_a_message_do_no_harm(raw: Raw) -> None:
    """``JSON.stringify`` escapes them, and `decode` lets them through."""
    assert parse(raw) is not None


@pytest.mark.parametrize(
    ("name", "field"), [("hello", "tab"), ("hello", "frame"), ("activation", "tab")]
)
def test_a_lone_surrogate_in_place_of_an_object_is_refused_like_any_text(
    name: str, field: str
) -> None:
    raw = {**says(name, MINIMAL[name][0]), field: "\ud800"}
    assert str(refused(raw)) == f"{field}: expected object, got string"


@pytest.mark.parametrize("levels", [300, 600, 900])
def test_a_lone_surrogate_beside_deep_nesting_does_no_harm(levels: int) -> None:
    raw = decode(
        r'{"type":"pong","n":1,"\ud800":1,"x":' + '{"x":' * levels + "1" + "}" * (levels + 1)
    )
    assert isinstance(attempt(parse, raw), (Pong, MessageError))


def test_a_lone_surrogate_in_a_name_does_not_end_the_connection() -> None:
    directory = PageToolDirectory(new_id=counted_ids())
    page = FakePage(directory)
    page.say("register", ns="n", tools=[{"name": "a", "\ud800": 1}, tool("b")])
    assert [t.name for t in directory.list()[0].tools] in (["a", "b"], ["b"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, PageError("Error", "the page gave no reason")),
        ("", PageError("Error", "")),
        ("sold out", PageError("Error", "sold out")),
        ({}, PageError("Error", "")),
        (
            {"name": "RangeError", "message": "sold out", "stack": "at x", "data": {"left": 0}},
            PageError("RangeError", "sold out", "at x", {"left": 0}),
        ),
        ({"name": "", "message": None, "stack": None, "data": None}, PageError("Error", "")),
        ({"name": 3, "message": ["a"], "stack": 4}, PageError("3", "['a']", "4")),
        ({"data": [], "code": 7}, PageError("Error", "", None, [])),
        (False, PageError("Error", "False")),
        (0, PageError("Error", "0")),
        ([1, 2], PageError("Error", "[1, 2]")),
    ],
)
def test_a_failure_comes_in_one_form_whatever_the_page_sent(
    error: object, expected: PageError
) -> None:
    message = parse({"type": "result", "callId": "c", "ok": False, "error": error})
    assert isinstance(message, Result)
    assert message.page_error() == expected


# Tools


def test_a_tool_is_read_with_all_and_with_only_required_fields() -> None:
    full = {
        "name": "add",
        "description": "Adds",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "string"},
        "annotations": {"readOnlyHint": True},
        "title": "Add",
        "execute": None,
    }
    tools, problems = parse_tools([full, {"name": "bare"}])
    assert tools == (
        ToolDescriptor(
            "add",
            "Adds",
            {"type": "object"},
            {"type": "string"},
            {"readOnlyHint": True},
            "Add",
        ),
        ToolDescriptor("bare"),
    )
    assert problems == []


def test_of_too_many_tools_the_first_are_kept_and_one_problem_says_so() -> None:
    tools, problems = parse_tools([tool(f"t{number}") for number in range(300)])
    assert [t.name for t in tools] == [f"t{number}" for number in range(256)]
    assert [(str(p), p.reason) for p in problems] == [
        ("tools: expected at most 256 tools, got 300; the rest is left out", "too_large")
    ]


def test_exactly_as_many_tools_as_allowed_are_no_problem() -> None:
    tools, problems = parse_tools([tool(f"t{number}") for number in range(256)])
    assert (len(tools), problems) == (256, [])


def test_the_first_of_several_tools_of_one_name_is_kept_and_the_others_are_named() -> None:
    tools, problems = parse_tools(
        [tool("a", title="first"), tool("b"), tool("a", title="second"), tool("a")]
    )
    assert [(t.name, t.title) for t in tools] == [("a", "first"), ("b", None)]
    assert [(str(p), p.reason) for p in problems] == [
        (
            f'tools[{position}].name: "a" is declared by tools[0] already; '
            "names are unique within a namespace",
            "duplicate",
        )
        for position in (2, 3)
    ]


def nested(levels: int) -> Raw:
    schema: Raw = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("raw", "text", "reason"),
    [
        (None, "tools[0]: expected object, got null", "invalid"),
        ("add", "tools[0]: expected object, got string", "invalid"),
        ([], "tools[0]: expected object, got array", "invalid"),
        ({}, "tools[0].name: missing", "invalid"),
        ({"name": 3}, "tools[0].name: expected string, got number", "invalid"),
        ({"name": None}, "tools[0].name: expected string, got null", "invalid"),
        ({"name": ""}, "tools[0].name: expected a name, got an empty string", "invalid"),
        (
            {"name": "a" * 129},
            "tools[0].name: expected at most 128 characters, got 129",
            "too_large",
        ),
        (
            {"name": "a\u202eb"},
            "tools[0].name: expected visible characters, no space around, got 'a\\u202eb'",
            "invalid",
        ),
        (
            {"name": "a", "description": None},
            "tools[0].description: expected string, got null",
            "invalid",
        ),
        (
            {"name": "a", "description": ["x"]},
            "tools[0].description: expected string, got array",
            "invalid",
        ),
        (
            {"name": "a", "title": 3},
            "tools[0].title: expected string or null, got number",
            "invalid",
        ),
        (
            {"name": "a", "inputSchema": '{"type":"object"}'},
            "tools[0].inputSchema: expected object or null, got string",
            "invalid",
        ),
        (
            {"name": "a", "inputSchema": True},
            "tools[0].inputSchema: expected object or null, got boolean",
            "invalid",
        ),
        (
            {"name": "a", "outputSchema": []},
            "tools[0].outputSchema: expected object or null, got array",
            "invalid",
        ),
        (
            {"name": "a", "annotations": 1},
            "tools[0].annotations: expected object or null, got number",
            "invalid",
        ),
        (
            {"name": "a", "inputSchema": nested(40)},
            "tools[0].inputSchema: expected at most 32 levels, got more",
            "too_large",
        ),
        (
            {"name": "a", "outputSchema": {"enum": [0] * 3000}},
            "tools[0].outputSchema: expected at most 2,000 values and 65,536 characters, got more",
            "too_large",
        ),
        (
            {"name": "a", "annotations": {"x": "y" * 70_000}},
            "tools[0].annotations: expected at most 2,000 values and 65,536 characters, got more",
            "too_large",
        ),
        (
            {"name": "a", "inputSchema": {"x": DEEP}},
            "tools[0].inputSchema: expected at most 32 levels, got more",
            "too_large",
        ),
    ],
)
def test_a_bad_tool_is_refused_and_costs_itself_only(raw: object, text: str, reason: str) -> None:
    tools, problems = parse_tools([raw, tool("good")])
    assert [t.name for t in tools] == ["good"]
    assert [(str(p), p.reason) for p in problems] == [(text, reason)]


@pytest.mark.parametrize("raw", [3, {"name": ""}, {"name": "x" * 10**6}, {"name": "\x00" * 99}])
def test_what_is_wrong_with_a_tool_is_told_in_few_words(raw: object) -> None:
    (problem,) = parse_tools([raw])[1]
    assert len(str(problem)) < 300


def test_a_tools_words_are_made_safe_to_show_and_bounded() -> None:
    raw = tool("a", description="\x1b[1m" + "d" * 5000, title="\u202e" + "t" * 300)
    ((read,), _) = parse_tools([raw])
    assert read.description == "d" * 4095 + "…"
    assert read.title == "t" * 255 + "…"


# The digest

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}
TOOL = ToolDescriptor("n", "d", SCHEMA, {"x": 1}, {"y": 2}, "t")


def test_the_digest_is_64_hexadecimal_digits_also_of_nothing() -> None:
    for tools in ((), (TOOL,), (TOOL, TOOL)):
        assert re.fullmatch(r"[0-9a-f]{64}", digest(tools))


def test_the_digest_is_the_same_today_and_tomorrow() -> None:
    """Pages and notebooks may keep it."""
    assert digest(()) == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"


def test_the_order_of_keys_does_not_change_the_digest() -> None:
    turned = {"properties": {"b": {}, "a": {"type": "string"}}, "type": "object"}
    same = ToolDescriptor("n", "d", turned, {"x": 1}, {"y": 2}, "t")
    assert digest((TOOL,)) == digest((same,))


def test_the_order_of_tools_changes_the_digest() -> None:
    a, b = ToolDescriptor("a"), ToolDescriptor("b")
    assert digest((a, b)) != digest((b, a))
    assert digest((a,)) != digest((a, b))


@pytest.mark.parametrize(
    "other",
    [
        ToolDescriptor("m", "d", SCHEMA, {"x": 1}, {"y": 2}, "t"),
        ToolDescriptor("n", "e", SCHEMA, {"x": 1}, {"y": 2}, "t"),
        ToolDescriptor("n", "d", {"type": "object"}, {"x": 1}, {"y": 2}, "t"),
        ToolDescriptor("n", "d", None, {"x": 1}, {"y": 2}, "t"),
        ToolDescriptor("n", "d", SCHEMA, {"x": 2}, {"y": 2}, "t"),
        ToolDescriptor("n", "d", SCHEMA, None, {"y": 2}, "t"),
        ToolDescriptor("n", "d", SCHEMA, {"x": 1}, {"y": 3}, "t"),
        ToolDescriptor("n", "d", SCHEMA, {"x": 1}, None, "t"),
        ToolDescriptor("n", "d", SCHEMA, {"x": 1}, {"y": 2}, "u"),
        ToolDescriptor("n", "d", SCHEMA, {"x": 1}, {"y": 2}, None),
        ToolDescriptor("n", "d", {**SCHEMA, "type": "é"}, {"x": 1}, {"y": 2}, "t"),
        ToolDescriptor("n", "d", SCHEMA, {"x": "1"}, {"y": 2}, "t"),
        ToolDescriptor("n", "d", SCHEMA, {"x": True}, {"y": 2}, "t"),
    ],
)
def test_every_field_of_a_tool_changes_the_digest(other: ToolDescriptor) -> None:
    assert digest((TOOL,)) != digest((other,))


def test_no_schema_and_an_empty_one_are_different_tool_sets() -> None:
    assert digest((ToolDescriptor("n"),)) != digest((ToolDescriptor("n", input_schema={}),))


def test_odd_values_have_a_digest_too() -> None:
    odd = {"\ud800": "\udfff", "big": 10**40, "float": 1e300, "inf": math.inf}
    assert len(digest((ToolDescriptor("n", input_schema=odd),))) == 64


@pytest.mark.parametrize(
    "message",
    [
        *[message for _, message in FULL.values()],
        TOOL,
        TabHint(),
        Source(),
        PageError(),
        Welcome("c", "t", 1),
        Registered("n", "h"),
        Rejected("c", "m", "p"),
        Call("c", "n", "t", {}),
        Cancel("c", "r"),
        Ping(1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_was_said_cannot_be_changed(message: Any) -> None:
    for name in message.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(message, name, None)


# Writing


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            Welcome("c", "t", 1024),
            {"v": 1, "type": "welcome", "clientId": "c", "tabId": "t", "maxBytes": 1024},
        ),
        (
            Welcome("c", "t", 1024, "duplicate"),
            {
                "v": 1,
                "type": "welcome",
                "clientId": "c",
                "tabId": "t",
                "maxBytes": 1024,
                "reason": "duplicate",
            },
        ),
        (Registered("n", "h"), {"v": 1, "type": "registered", "ns": "n", "hash": "h"}),
        (
            Rejected("invalid", "expected string", ""),
            {
                "v": 1,
                "type": "rejected",
                "code": "invalid",
                "message": "expected string",
                "path": "",
            },
        ),
        (
            Call("c", "n", "t", {}),
            {"v": 1, "type": "call", "callId": "c", "ns": "n", "name": "t", "args": {}},
        ),
        (
            Call("c", "n", "t", {"a": None, "b": [1]}),
            {
                "v": 1,
                "type": "call",
                "callId": "c",
                "ns": "n",
                "name": "t",
                "args": {"a": None, "b": [1]},
            },
        ),
        (
            Cancel("c", "too late"),
            {"v": 1, "type": "cancel", "callId": "c", "reason": "too late"},
        ),
        (Ping(0), {"v": 1, "type": "ping", "n": 0}),
    ],
)
def test_each_message_of_the_bridge_is_written_exactly(
    message: messages.BridgeMessage, expected: Raw
) -> None:
    plain = dump(message)
    assert plain == expected
    assert list(plain)[:2] == ["v", "type"]
    assert json.loads(encode(plain)) == expected


def test_every_message_of_the_bridge_has_a_type_of_its_own() -> None:
    names = [m.__struct_config__.tag for m in messages.BRIDGE_MESSAGES]
    assert names == ["welcome", "registered", "rejected", "call", "cancel", "ping"]


def test_lone_surrogates_are_escaped_and_everything_else_survives() -> None:
    message = {"a": "x\ud800", "\udfff": ["é", "😀", 1.5, None, True]}
    written = encode(message)
    assert b"\\ud800" in written
    assert b"\\udfff" in written
    written.decode("utf-8")
    assert json.loads(written) == message
    assert decode(written.decode()) == message


# Reading frames


@pytest.mark.parametrize(
    ("frame", "value"),
    [
        ("{}", {}),
        ("null", None),
        (" [1, 2.5, true]\n", [1, 2.5, True]),
        ('"é😀\\u00e9\\ud83d\\ude00"', "é😀é😀"),
        (r'"\ud800"', "\ud800"),
        (r'{"\udfff": ["\ud800x", 1]}', {"\udfff": ["\ud800x", 1]}),
        (r'["\ud800", "é"]', ["\ud800", "é"]),
        ("9007199254740993", 9007199254740993),
        ("1" * 400, int("1" * 400)),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("[" * 100 + "]" * 100, json.loads("[" * 100 + "]" * 100)),
    ],
)
def test_a_json_text_is_read(frame: str, value: object) -> None:
    assert decode(frame) == value


@pytest.mark.parametrize(
    ("frame", "text", "reason"),
    [
        (b"{}", "expected a text frame, got a binary one", "binary"),
        (b"", "expected a text frame, got a binary one", "binary"),
        ("", "expected JSON: Expecting value: line 1 column 1 (char 0)", "json"),
        ("{", "expected JSON: Expecting property name enclosed in double quotes", "json"),
        ("{} {}", "expected JSON: Extra data: line 1 column 4 (char 3)", "json"),
        ("NaN", "expected JSON: NaN is not JSON", "json"),
        ("Infinity", "expected JSON: Infinity is not JSON", "json"),
        ('{"a": [-Infinity]}', "expected JSON: -Infinity is not JSON", "json"),
        ("'a'", "expected JSON: Expecting value", "json"),
        ('"a\nb"', "expected JSON: Invalid control character", "json"),
        ("[" * 100_000, "expected JSON, got one nested too deeply", "json"),
        ("[" * 100_000 + "]" * 100_000, "expected JSON, got one nested too deeply", "json"),
        ('{"a":' * 100_000, "expected JSON, got one nested too deeply", "json"),
        ("1" * 5000, "expected JSON: Exceeds the limit", "json"),
        ('"\ud800', "expected JSON: Unterminated string", "json"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_json_text_is_refused(frame: str | bytes, text: str, reason: str) -> None:
    with pytest.raises(MessageError) as raised:
        decode(frame)
    assert str(raised.value).startswith(text)
    assert (raised.value.reason, raised.value.path) == (reason, "")
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("frame", ["1e999", '{"a": [-1e999]}'])
def test_a_number_that_would_become_infinite_is_refused(frame: str) -> None:
    with pytest.raises(MessageError):
        decode(frame)


def test_deep_nesting_behind_a_lone_surrogate_is_refused_too() -> None:
    """The slower reader, which takes lone surrogates, has a limit of its own."""
    with pytest.raises(MessageError):
        decode(r'["\ud800",' + "[" * 100_000)


# What must hold for anything

TEXT = st.text(max_size=8) | st.sampled_from(["\ud800", "x\udfff"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=6,
)
KEYS = st.sampled_from(
    "v type ns tools hash url tab source seq title visible focused active callId ok value error "
    "progress total message n frame client id docId chromeTabId windowId name top".split()
)
PAGE_LIKE = st.builds(
    lambda name, fields: {"type": name, **MINIMAL[name][0], **fields},
    st.sampled_from(list(messages.PAGE_MESSAGES)),
    st.dictionaries(
        KEYS.filter(lambda key: key not in ("v", "type")) | TEXT,
        SCALARS | st.dictionaries(KEYS | TEXT, SCALARS, max_size=4) | st.lists(SCALARS),
        max_size=3,
    ),
)


def check_parsing(raw: object) -> None:
    found = attempt(parse, raw)
    if isinstance(found, MessageError):
        assert len(str(found)) < 4096
        assert found.reason in ("type", "version", "invalid")
    else:
        assert found is None or isinstance(found, tuple(messages.PAGE_MESSAGES.values()))


@REPEATABLE
@given(JSON | st.dictionaries(KEYS | TEXT, JSON, max_size=6))
def test_any_json_is_a_message_or_refused_in_one_way(raw: object) -> None:
    check_parsing(raw)


@REPEATABLE
@given(PAGE_LIKE)
def test_a_message_with_any_fields_is_read_or_refused_in_one_way(raw: object) -> None:
    check_parsing(raw)


@REPEATABLE
@given(st.lists(JSON | st.fixed_dictionaries({"name": TEXT}, optional={"title": TEXT}), max_size=4))
def test_any_list_of_tools_is_read_one_by_one(raw: list[Any]) -> None:
    tools, problems = parse_tools(raw)
    assert len(tools) + len(problems) == len(raw)
    assert len(digest(tools)) == 64


@REPEATABLE
@given(TEXT | st.text('{}[]",:0123456789.eE+-\\untrfalsd \ud800', max_size=30))
def test_any_text_is_json_or_refused_in_one_way(text: str) -> None:
    found = attempt(decode, text)
    if isinstance(found, MessageError):
        assert found.reason == "json"
    else:
        assert json.loads(text) == found


@REPEATABLE
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_what_is_written_is_read_back_the_same(message: Raw) -> None:
    written = encode(message)
    assert decode(written.decode("utf-8")) == message
    json.loads(written, parse_constant=pytest.fail)
