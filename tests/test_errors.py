"""`errors`, `text`: the class, the code, the sentence and the one line in a notebook."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from typing import Any, NamedTuple

import pytest

from pagetools_ipy import errors
from pagetools_ipy.errors import (
    AmbiguousToolError,
    BridgeError,
    BrowserError,
    CallCancelledError,
    CallRefusedError,
    CallTimeoutError,
    InvalidArgumentsError,
    MessageError,
    NoPageConnectedError,
    PageGoneError,
    PageToolError,
    PageToolsError,
    ResultTimeoutError,
    TabNotFoundError,
    ToolNotFoundError,
    ToolWaitTimeoutError,
)
from pagetools_ipy.text import brief, kind_of, listing, shorten, stopped_in_one_line


class Place(NamedTuple):
    client_id: str
    ns: str
    label: str


EXAMPLES: list[tuple[PageToolsError, str, str]] = [
    (PageToolsError("it broke"), "page_tools_error", "it broke"),
    (
        BridgeError("port 9319 cannot be used", port=9319),
        "bridge",
        "port 9319 cannot be used",
    ),
    (
        NoPageConnectedError(),
        "no_page_connected",
        "no page is connected; `%pagetools open URL` opens one, "
        "`%pagetools snippet` connects yours",
    ),
    (
        ToolNotFoundError("add_tod", ["add_todo", "draw"]),
        "tool_not_found",
        'no tool "add_tod"; did you mean "add_todo"? Available: add_todo, draw',
    ),
    (
        ToolWaitTimeoutError("add", 2.5, NoPageConnectedError()),
        "tool_wait_timeout",
        '"add" did not come within 2.5 s: no page is connected; `%pagetools open URL` opens one, '
        "`%pagetools snippet` connects yours",
    ),
    (
        AmbiguousToolError("search", [Place("c1", "shop", "Shop"), Place("c2", "blog", "Blog")]),
        "ambiguous_tool",
        '"search" is offered 2 times and none of them is the tab you look at: '
        'shop/search in "Shop" (client c1), blog/search in "Blog" (client c2); narrow it with '
        "ns=, tab= or client_id=, in a notebook tools.<namespace>.<name> or tools.on(tab).<name>",
    ),
    (
        TabNotFoundError("Shop", {"t1": "Blog", "t2": "Mail"}),
        "tab_not_found",
        'no tab \'Shop\'; live tabs: t1 "Blog", t2 "Mail"',
    ),
    (
        InvalidArgumentsError("expected number, got string", path="a[0]", tool="shop/buy"),
        "invalid_arguments",
        "shop/buy: a[0]: expected number, got string",
    ),
    (
        CallTimeoutError("shop/buy", "Shop", 15.0),
        "call_timeout",
        'shop/buy in "Shop" did not answer within 15 s and was told to stop; grant more with '
        "timeout= (None waits for ever)",
    ),
    (
        ResultTimeoutError("shop/buy", "Shop", 2),
        "result_timeout",
        'shop/buy in "Shop" is still running after 2 s; ask again, or cancel it',
    ),
    (
        PageGoneError("shop/buy", "Shop", sent=True),
        "page_gone",
        'shop/buy in "Shop": the page went away before it answered; the call had been sent and '
        "may have run, so check before you repeat it",
    ),
    (
        CallCancelledError("shop/buy", "Shop", "no longer needed"),
        "call_cancelled",
        'shop/buy in "Shop" was cancelled: no longer needed',
    ),
    (
        PageToolError("sold out", name="RangeError", tool="shop/buy", tab="Shop"),
        "page_tool",
        'shop/buy in "Shop": RangeError: sold out',
    ),
    (
        CallRefusedError("lab/run_cell", "Lab", "it would wait for itself"),
        "call_refused",
        'lab/run_cell in "Lab" was not called: it would wait for itself',
    ),
    (
        BrowserError("nothing listens there", endpoint="port 9222"),
        "browser",
        "nothing listens there",
    ),
    (
        MessageError("expected string, got number", path="tools[1].name"),
        "message",
        "tools[1].name: expected string, got number",
    ),
]

TABS_NOT_FOUND = [
    (TabNotFoundError(7, {}), "no tab 7; live tabs: none"),
    (
        TabNotFoundError("Shop", {"t1": "Blog"}, total=900),
        "no tab 'Shop'; live tabs: t1 \"Blog\" and 899 more",
    ),
    (
        TabNotFoundError("Shop", {"t1": "Blog"}, state="reloading"),
        "tab 'Shop' is reloading; live tabs: t1 \"Blog\"",
    ),
    (
        TabNotFoundError("Shop", {}, state="gone", pinned=True),
        "the pinned tab 'Shop' is gone (`%pagetools unpin` lets others answer); live tabs: none",
    ),
]


@pytest.mark.parametrize(("error", "text"), TABS_NOT_FOUND)
def test_a_tab_that_is_known_and_away_is_told_from_one_that_is_not_there(
    error: TabNotFoundError, text: str
) -> None:
    assert str(error) == text
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (text, vars(error))


each_example = pytest.mark.parametrize(
    ("error", "code", "text"), EXAMPLES, ids=[type(e).__name__ for e, _, _ in EXAMPLES]
)


@each_example
def test_each_error_has_its_code_and_its_sentence(
    error: PageToolsError, code: str, text: str
) -> None:
    assert error.code == code
    assert str(error) == text


@each_example
def test_each_error_shows_as_one_line_without_frames(
    error: PageToolsError, code: str, text: str
) -> None:
    assert error._render_traceback_() == [f"{type(error).__name__}: {text}"]
    assert "\n" not in text


def test_every_public_error_is_in_the_table_and_no_two_share_a_code() -> None:
    classes = {type(error).__name__ for error, _, _ in EXAMPLES}
    assert classes == set(errors.__all__)
    codes = [code for _, code, _ in EXAMPLES]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize(
    ("error_type", "builtin"),
    [
        (ToolNotFoundError, AttributeError),
        (ToolNotFoundError, KeyError),
        (ToolWaitTimeoutError, TimeoutError),
        (TabNotFoundError, LookupError),
        (CallTimeoutError, TimeoutError),
        (InvalidArgumentsError, ValueError),
    ],
)
def test_errors_are_caught_by_what_python_would_raise_there(
    error_type: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error_type, builtin)
    assert issubclass(error_type, PageToolsError)


def test_a_key_error_quotes_nothing_twice() -> None:
    """``str(KeyError("x"))`` is ``'x'`` with quotes; ours is a sentence."""
    assert str(ToolNotFoundError("x", [])).startswith('no tool "x"')


def test_attributes_hold_what_a_program_needs() -> None:
    place = Place("c1", "shop", "Shop")
    problem = NoPageConnectedError()
    attributes: list[tuple[Any, dict[str, object]]] = [
        (BridgeError("p", port=1), {"port": 1}),
        (BridgeError("p"), {"port": None}),
        (
            ToolNotFoundError("x", ["a"], total=9, scope="in y"),
            {"name": "x", "available": ("a",), "total": 9, "scope": "in y"},
        ),
        (ToolNotFoundError("x", ["a", "b"]), {"total": 2, "close": []}),
        (
            ToolWaitTimeoutError("x", 3, problem),
            {"name": "x", "timeout": 3, "problem": problem},
        ),
        (AmbiguousToolError("x", [place]), {"name": "x", "candidates": (place,)}),
        (
            TabNotFoundError(3, {"t": "T"}),
            {"selector": 3, "live": {"t": "T"}, "total": 1, "state": "", "pinned": False},
        ),
        (
            TabNotFoundError(3, {"t": "T"}, total=9, state="gone", pinned=True),
            {"total": 9, "state": "gone", "pinned": True},
        ),
        (
            InvalidArgumentsError("p", path="a", tool="n/t"),
            {"problem": "p", "path": "a", "tool": "n/t"},
        ),
        (InvalidArgumentsError("p"), {"path": "", "tool": ""}),
        (
            CallTimeoutError("n/t", "T", 2.0),
            {"tool": "n/t", "tab": "T", "timeout": 2.0, "partial": None, "errno": None},
        ),
        (PageGoneError("n/t", "T", sent=False), {"sent": False, "partial": None}),
        (CallCancelledError("n/t", "T", "why"), {"reason": "why", "partial": None}),
        (
            PageToolError("m", name="E", stack="s", data=[1], tool="n/t", tab="T"),
            {
                "page_message": "m",
                "name": "E",
                "stack": "s",
                "data": [1],
                "tool": "n/t",
                "tab": "T",
            },
        ),
        (CallRefusedError("n/t", "T", "why"), {"tool": "n/t", "tab": "T", "reason": "why"}),
        (BrowserError("p"), {"endpoint": ""}),
        (BrowserError("p", endpoint="e"), {"endpoint": "e"}),
        (PageToolError("m"), {"name": "Error", "stack": None, "data": None, "tool": ""}),
        (MessageError("p"), {"reason": "invalid", "path": "", "problem": "p"}),
        (MessageError("p", reason="json"), {"reason": "json"}),
    ]
    for error, expected in attributes:
        assert {name: getattr(error, name) for name in expected} == expected, error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ToolNotFoundError("x", []),
            'no tool "x": no tool is declared there; `%pagetools tabs` shows what is connected',
        ),
        (
            ToolNotFoundError("x", ["alpha"], scope='in tab "Shop"'),
            'no tool "x" in tab "Shop"; Available: alpha',
        ),
        (
            ToolNotFoundError("tool_1", [f"tool_{i}" for i in range(10, 13)]),
            'no tool "tool_1"; did you mean "tool_12" or "tool_11" or "tool_10"? '
            "Available: tool_10, tool_11, tool_12",
        ),
        (
            ToolNotFoundError("x", [f"a{i:02}" for i in range(14)], total=5000),
            'no tool "x"; Available: '
            + ", ".join(f"a{i:02}" for i in range(12))
            + " and 4,988 more",
        ),
        (TabNotFoundError(7, {}), "no tab 7; live tabs: none"),
        (InvalidArgumentsError("p"), "p"),
        (InvalidArgumentsError("p", path="a"), "a: p"),
        (InvalidArgumentsError("p", tool="n/t"), "n/t: p"),
        (
            CallTimeoutError("n/t", "T", 0.25),
            'n/t in "T" did not answer within 0.25 s and was told to stop; grant more with '
            "timeout= (None waits for ever)",
        ),
        (
            PageGoneError("n/t", "T", sent=False),
            'n/t in "T": the page went away before it answered; nothing was sent',
        ),
        (
            CallTimeoutError("n/t", "T", 1, "alert shows: hi"),
            'n/t in "T" did not answer within 1 s and was told to stop: alert shows: hi',
        ),
        (PageToolError("m"), "Error: m"),
        (MessageError("p"), "p"),
        (
            AmbiguousToolError("s", [Place("c", "n", "L")], reason="two are pinned"),
            '"s" is offered 1 times and two are pinned: n/s in "L" (client c); narrow it with '
            "ns=, tab= or client_id=, in a notebook tools.<namespace>.<name> or "
            "tools.on(tab).<name>",
        ),
    ],
)
def test_sentences_adapt_to_what_is_known(error: PageToolsError, text: str) -> None:
    assert str(error) == text


LONG = "x" * 100_000
NAMES = [f"{number:03}{'n' * 125}" for number in range(200)]
"""Names as long as a page may declare them."""


@pytest.mark.parametrize(
    "error",
    [
        ToolNotFoundError(LONG, NAMES, total=100_000),
        ToolNotFoundError(NAMES[5], NAMES, total=100_000),
        ToolWaitTimeoutError(LONG, 3, ToolNotFoundError(LONG, NAMES)),
        AmbiguousToolError(LONG, [Place("c", LONG, LONG)] * 5000),
        TabNotFoundError(LONG, {f"{i}{LONG}": LONG for i in range(20)}),
        TabNotFoundError([LONG], {}),
        InvalidArgumentsError(LONG, path=LONG, tool=LONG),
        CallTimeoutError(LONG, LONG, 1e9, LONG),
        CallRefusedError(LONG, LONG, LONG),
        BrowserError(LONG, endpoint=LONG),
        PageGoneError(LONG, LONG, sent=True),
        CallCancelledError(LONG, LONG, LONG),
        PageToolError(LONG, name=LONG, stack=LONG, data=LONG, tool=LONG, tab=LONG),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_sentence_stays_small_whatever_it_is_about(error: PageToolsError) -> None:
    assert len(str(error)) < 4096


def test_an_ambiguity_names_the_connection_whatever_the_title() -> None:
    """Connections are what two tabs with one long title can be told apart by."""
    title = "Quarterly figures of the northern region, with forecasts and all the footnotes" * 2
    places = [Place(f"client-{i}", f"app{i}", title) for i in range(2)]
    text = str(AmbiguousToolError("export_to_spreadsheet", places))
    assert "client-0" in text
    assert "client-1" in text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, asyncio.CancelledError])
def test_being_stopped_shows_as_one_line(stop: type[BaseException]) -> None:
    with pytest.raises(stop) as raised, stopped_in_one_line("shop/buy was interrupted"):
        raise stop
    assert raised.value._render_traceback_() == [  # type: ignore[attr-defined]
        f"{stop.__name__}: shop/buy was interrupted"
    ]


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 3, ""),
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("abcd", 1, "…"),
        ("é" * 5, 4, "ééé…"),
    ],
)
def test_shortening_marks_what_is_missing(text: str, limit: int, expected: str) -> None:
    assert shorten(text, limit) == expected


@pytest.mark.parametrize(
    ("items", "total", "expected"),
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b"], 2, "a, b"),
        (["a", "b"], 5, "a, b and 3 more"),
        (["a"] * 13, 13, ", ".join(["a"] * 12) + " and 1 more"),
        (["a" * 200], 1, "a" * 119 + "…"),
    ],
)
def test_a_listing_says_how_many_it_leaves_out(
    items: list[str], total: int | None, expected: str
) -> None:
    assert listing(iter(items), total) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (0, "number"),
        (1.5, "number"),
        ("", "string"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
        (b"", "bytes"),
        ({1}, "set"),
    ],
)
def test_values_are_named_by_their_json_type(value: object, kind: str) -> None:
    assert kind_of(value) == kind


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_anything_can_be_named_in_a_sentence() -> None:
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    for value, text in (
        (None, "None"),
        ("a\nb", r"'a\nb'"),
        ([1, 2], "[1, 2]"),
        ("x" * 50, "'" + "x" * 18 + "…"),
        (deep, "array"),
        ({"a": deep}, "object"),
        (10**5000, "number"),
        (Unshowable(), "Unshowable"),
    ):
        assert brief(value, 20) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("\x1b[31mred\x1b[0m \u202etxt\u200b", "red txt"),
        ("  kept  ", "  kept  "),
    ],
)
def test_what_a_sentence_quotes_is_safe_and_on_one_line(text: str, shown: str) -> None:
    assert shorten(text) == shown


@pytest.mark.parametrize("error", [e for e, _, _ in EXAMPLES], ids=lambda e: type(e).__name__)
def test_errors_survive_being_sent_to_another_process(error: PageToolsError) -> None:
    if isinstance(error, AmbiguousToolError):
        error.candidates = ()  # in a bridge they refer to live connections
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again).keys() == vars(error).keys()
