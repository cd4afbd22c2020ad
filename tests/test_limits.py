"""`limits`, `text`: what is too much, too odd or not safe to show."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy.errors import InvalidArgumentsError, MessageError
from pagetools_ipy.frames import encode
from pagetools_ipy.limits import check_arguments, check_name, check_tree
from pagetools_ipy.schema import InputSchema
from pagetools_ipy.text import clean

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

# Names


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "add_todo",
        "cart.add",
        "cart/add",
        "add-todo",
        "add todo",
        "a  b",
        "__class__",
        "class",
        "0",
        "été",
        "添加",
        "добавить",
        "אבג",
        "😀",
        "❤\ufe0f",
        "<script>alert(1)</script>",
        "../../etc/passwd",
        "%s{}$x`",
        "a" * 128,
        "😀" * 128,
    ],
)
def test_a_name_a_person_can_see_is_fine(name: str) -> None:
    check_name(name, "ns")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (" a", "' a'"),
        ("a ", "'a '"),
        (" ", "' '"),
        ("a\tb", r"'a\tb'"),
        ("a\nb", r"'a\nb'"),
        ("a\r", r"'a\r'"),
        ("a\x00", r"'a\x00'"),
        ("\x1b[31mred", r"'\x1b[31mred'"),
        ("a\x7f", r"'a\x7f'"),
        ("a\x85b", r"'a\x85b'"),
        ("a\x9b31m", r"'a\x9b31m'"),
        ("a\xa0b", r"'a\xa0b'"),
        ("a\xadb", r"'a\xadb'"),
        ("a\u200bb", r"'a\u200bb'"),
        ("a\u200db", r"'a\u200db'"),
        ("a\u2028b", r"'a\u2028b'"),
        ("a\u202eb", r"'a\u202eb'"),
        ("a\u2066b", r"'a\u2066b'"),
        ("a\u3000b", r"'a\u3000b'"),
        ("\ufeffa", r"'\ufeffa'"),
        ("a\ud800", r"'a\ud800'"),
        ("a\ue000", r"'a\ue000'"),
        ("\x00" * 100, "'" + r"\x00" * 39 + r"\u2026'"),
    ],
)
def test_a_name_that_could_mislead_is_refused_and_shown_escaped(name: str, shown: str) -> None:
    with pytest.raises(MessageError) as raised:
        check_name(name, "tools[2].name")
    assert str(raised.value) == (
        f"tools[2].name: expected visible characters, no space around, got {shown}"
    )
    assert raised.value.reason == "invalid"


def test_a_name_that_is_empty_or_too_long_is_refused() -> None:
    with pytest.raises(MessageError, match="^ns: expected a name, got an empty string$"):
        check_name("", "ns")
    with pytest.raises(MessageError) as raised:
        check_name("a" * 12345, "ns")
    assert str(raised.value) == "ns: expected at most 128 characters, got 12,345"
    assert raised.value.reason == "too_large"


# Text to show


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("é 添加 😀 אבג", "é 添加 😀 אבג"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
        # kept
        ("a\nb\tc", "a\nb\tc"),
        # ANSI: colours, cursor, erase, private modes, two-character sequences
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;196mred", "red"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("a\x1b[?25lb", "ab"),
        ("a\x1bMb\x1bDc", "abc"),
        ("a\x1b", "a"),
        ("a\x1b[", "a["),
        # OSC: window titles and links, ended by BEL, by ST or not at all
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x1b]0;never ended", "a"),
        # an escape that only appears when something else is taken out
        ("a\x1b\u200b[31mb", "a[31mb"),
        ("a\x1b\x1b[31m[31mb", "a[31mb"),
        # C0 and C1 controls
        ("a\x00\x07\x08b", "ab"),
        ("a\x7f\x9b\x9db", "ab"),
        ("a\rb", "a b"),
        ("a\x0b\x0c\x85b", "a   b"),
        # bidi controls and marks
        ("a\u202ab\u202bc\u202cd\u202de\u202ef", "abcdef"),
        ("a\u2066b\u2067c\u2068d\u2069e", "abcde"),
        ("a\u200eb\u200fc\u061cd", "abcd"),
        # zero width and other invisible ones
        ("a\u200bb\u200cc\u200dd\u2060e\ufefff", "abcdef"),
        ("a\xadb", "ab"),
        ("a\U000e0041b", "ab"),
        ("a\ud800b", "ab"),
        ("a\ue000b\U0010ffffc", "abc"),
        # spaces of all kinds
        ("a\xa0b\u2003c\u3000d\u2028e\u2029f", "a b c d e f"),
    ],
)
def test_text_is_made_safe_to_show(text: str, expected: str) -> None:
    assert clean(text, 100) == expected


def test_text_is_cut_after_it_was_cleaned() -> None:
    assert clean("\x00" * 50 + "abcdef", 5) == "abcd…"
    assert clean("abcde", 5) == "abcde"
    assert clean("abcdef", 5) == "abcd…"


def test_a_hostile_text_is_cleaned_in_no_time() -> None:
    """Each of these would take minutes if cleaning looked at every start anew."""
    for unit in ("\x1b", "\x1b]", "\x1b[", "\x1b[0;", "\x1b]0;\x1b"):
        assert len(clean(unit * 100_000, 100)) <= 100


@REPEATABLE
@given(
    st.lists(
        st.characters() | st.sampled_from(list("\x1b[]m;0\x07\\\x9b\u202e\ud800\xa0")),
        max_size=40,
    ).map("".join)
)
def test_any_text_becomes_safe_and_stays_so(text: str) -> None:
    safe = clean(text, 20)
    assert len(safe) <= 20
    assert all(char.isprintable() or char in "\n\t" for char in safe)
    assert clean(safe, 20) == safe


# Schemas


def nested(levels: int) -> Any:
    tree: Any = 0
    for _ in range(levels - 1):
        tree = [tree]
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        None,
        {},
        "x" * 65_536,
        {"x" * 65_536: 1},
        [0] * 1999,
        {str(number): number for number in range(1999)},
        nested(32),
        {"a": [{"b": nested(29)}]},
        {"a" * 30_000: "b" * 35_536},
    ],
    ids=lambda tree: f"{type(tree).__name__}",
)
def test_a_schema_within_the_limits_is_fine(tree: object) -> None:
    check_tree(tree, "schema")


MUCH = "s: expected at most 2,000 values and 65,536 characters, got more"
DEEP = "s: expected at most 32 levels, got more"


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ("x" * 65_537, MUCH),
        ({"x" * 65_537: 1}, MUCH),
        ({"a" * 30_000: ["b" * 35_537]}, MUCH),
        ([0] * 2000, MUCH),
        ({str(number): number for number in range(2000)}, MUCH),
        ([[0] * 100] * 100, MUCH),
        (nested(33), DEEP),
        (nested(100_000), DEEP),
        ({"a": {"b": nested(31)}}, DEEP),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_schema_beyond_the_limits_is_refused(tree: object, text: str) -> None:
    with pytest.raises(MessageError) as raised:
        check_tree(tree, "s")
    assert (str(raised.value), raised.value.reason) == (text, "too_large")


def test_a_schema_that_contains_itself_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(MessageError):
        check_tree(tree, "s")


# Arguments


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"": 0},
        {"a": None, "b": True, "c": "x", "d": 1, "e": 1.5, "f": [], "g": {}},
        {"a": [1, [2, {"b": [3, 4]}]]},
        {"n": 2**53 - 1, "m": -(2**53 - 1)},
        {"n": 1e308, "m": -0.0, "k": 5e-324},
        {"s": "\ud800", "\udfff": 1},
        {"a": nested(64)},
        {"name": 1, "id": 2, "format": 3, "args": 4, "timeout": 5, "type": 6, "self": 7},
        collections.OrderedDict(a=1),
    ],
    ids=lambda args: ",".join(args).encode("ascii", "replace").decode(),
)
def test_arguments_that_reach_a_page_as_they_are_pass(args: dict[str, Any]) -> None:
    assert check_arguments(args) == args


def test_no_arguments_are_an_empty_object() -> None:
    assert check_arguments(None) == {}


def finite(value: object) -> str:
    return f"expected a finite number, got {value}, which JSON cannot carry"


def json_value(kind: str) -> str:
    return f"expected a JSON value, got {kind}; convert it first"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([1], "expected an object of arguments, got array"),
        ("a=1", "expected an object of arguments, got string"),
        (1, "expected an object of arguments, got number"),
        (True, "expected an object of arguments, got boolean"),
        ({1}, "expected an object of arguments, got set"),
        ({"a": math.nan}, f"a: {finite('nan')}"),
        ({"a": math.inf}, f"a: {finite('inf')}"),
        ({"a": [0, {"b": [-math.inf]}]}, f"a[1].b[0]: {finite('-inf')}"),
        (
            {"n": 2**53},
            "n: expected an integer up to 2**53 - 1, got 9007199254740992, which a page would "
            "round; send it as a string",
        ),
        (
            {"n": -(2**53)},
            "n: expected an integer up to 2**53 - 1, got -9007199254740992, which a page would "
            "round; send it as a string",
        ),
        (
            {"n": 10**100},
            f"n: expected an integer up to 2**53 - 1, got 1{'0' * 38}…, which a page would "
            "round; send it as a string",
        ),
        ({"a": b"x"}, f"a: {json_value('bytes')}"),
        ({"a": {1, 2}}, f"a: {json_value('set')}"),
        ({"a": object()}, f"a: {json_value('object')}"),
        ({"a": 1j}, f"a: {json_value('complex')}"),
        ({"a": decimal.Decimal(1)}, f"a: {json_value('Decimal')}"),
        ({"a": [datetime.date(2024, 2, 29)]}, f"a[0]: {json_value('date')}"),
        ({"a": range(3)}, f"a: {json_value('range')}"),
        ({3: "x"}, "expected string keys, got 3"),
        ({"a": [{None: 1}]}, "a[0]: expected string keys, got None"),
        ({"a": {("x" * 500,): 1}}, f"a: expected string keys, got ('{'x' * 117}…"),
        ({"a": nested(65)}, f"a{'[0]' * 39}[…: expected at most 64 levels, got more"),
    ],
    ids=str,
)
def test_arguments_a_page_could_not_read_are_refused_with_their_place(
    args: object, text: str
) -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        check_arguments(args)
    assert str(raised.value) == text


def test_an_integer_of_thousands_of_digits_is_refused_like_any_other() -> None:
    """Python itself refuses to print one."""
    with pytest.raises(InvalidArgumentsError, match=r"2\*\*53 - 1"):
        check_arguments({"n": 10**5000})


def test_arguments_that_contain_themselves_are_refused() -> None:
    cycle: dict[str, Any] = {}
    cycle["a"] = [cycle, cycle]
    with pytest.raises(InvalidArgumentsError, match="64 levels"):
        check_arguments(cycle)


class Kelvin(float):
    """What numpy.float64 is: a float by inheritance."""


class Count(int):
    pass


class Words(str):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Kelvin(1.5),
        Count(3),
        Words("x"),
        [Kelvin(1.5)],
        Colour.RED,
        Level.HIGH,
        Point(1, 2),
        (1, 2),
        collections.OrderedDict(a=1),
        collections.defaultdict(int, a=1),
        collections.Counter("a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_accepted_can_be_validated_and_written(value: object) -> None:
    """An argument is refused when it is checked, or it arrives; nothing between fails on it."""
    try:
        args = check_arguments({"a": value})
    except InvalidArgumentsError:
        return
    schema = InputSchema({"properties": {"a": {"type": ["number", "string", "array", "object"]}}})
    schema.validate(args)
    assert json.loads(encode(args)) == {"a": list(value) if isinstance(value, tuple) else value}


SAFE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
ODD = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.complex_numbers()
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=2)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=5,
)


@REPEATABLE
@given(st.dictionaries(st.text(max_size=5), SAFE, max_size=4))
def test_any_json_object_passes_and_survives_the_way_to_the_page(args: dict[str, Any]) -> None:
    assert check_arguments(args) == args
    assert json.loads(encode(args)) == args


@REPEATABLE
@given(ODD)
def test_anything_else_passes_or_is_refused_in_one_way(args: Any) -> None:
    refusal, checked = "", {}
    try:
        checked = check_arguments(args)
    except InvalidArgumentsError as problem:
        refusal = str(problem)
    assert len(refusal) < 1000
    written = json.dumps(checked, allow_nan=False)
    assert json.loads(written) == json.loads(encode(checked))
