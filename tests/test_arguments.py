"""`arguments`: what a person types after a tool's name becomes typed values, or one clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy.arguments import (
    Options,
    bind_arguments,
    kinds_of,
    read_body,
    read_typed,
    read_word,
    split_arguments,
)
from pagetools_ipy.errors import InvalidArgumentsError
from pagetools_ipy.schema import InputSchema

REPEATABLE = settings(max_examples=80, deadline=None, derandomize=True, database=None)

Args = dict[str, Any]

FRAME = object()
VARIABLES: Args = {"frame": FRAME, "prices": [1, 2], "_x": None}


def options() -> Options:
    return Options({"timeout": float, "tab": str, "quiet": None})


def read(text: str, properties: Args | None = None) -> Args:
    schema = InputSchema(None if properties is None else {"properties": properties})
    return bind_arguments(split_arguments(text, options()), schema, VARIABLES)


def refused(text: str, properties: Args | None = None) -> str:
    with pytest.raises(InvalidArgumentsError) as raised:
        read(text, properties)
    return str(raised.value)


# Without a schema


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", {}),
        ("   ", {}),
        ("a=1", {"a": 1}),
        ("  a=1  ", {"a": 1}),
        ("a=-1.5e3", {"a": -1500.0}),
        ("a=true b=false c=null", {"a": True, "b": False, "c": None}),
        ("a=True", {"a": "True"}),
        ("a=milk", {"a": "milk"}),
        ("a=1 b=two c=3", {"a": 1, "b": "two", "c": 3}),
        ("a=1\nb=2\tc=3", {"a": 1, "b": 2, "c": 3}),
        ("a=1\xa0b=2", {"a": 1, "b": 2}),
        ("a=", {"a": ""}),
        ("a= b=", {"a": "", "b": ""}),
        # quotes
        ('title="buy milk"', {"title": "buy milk"}),
        ("title='buy milk'", {"title": "buy milk"}),
        ('a="1"', {"a": "1"}),
        ('a=""', {"a": ""}),
        ('a="null" b="true"', {"a": "null", "b": "true"}),
        ('a="it\'s"', {"a": "it's"}),
        ("a='say \"hi\"'", {"a": 'say "hi"'}),
        (r'a="say \"hi\""', {"a": 'say "hi"'}),
        (r'a="back\\slash"', {"a": r"back\slash"}),
        (r"a='no \escape'", {"a": r"no \escape"}),
        (r"a=C:\temp\x", {"a": r"C:\temp\x"}),
        (r"a=\"x", {"a": '"x'}),
        ('a=x"y z"w', {"a": "xy zw"}),
        ('a="two\nlines"', {"a": "two\nlines"}),
        # odd names and values
        ("a=b=c", {"a": "b=c"}),
        ("url=http://h/x?a=b&c=d#e", {"url": "http://h/x?a=b&c=d#e"}),
        ("a.b=1 a-b=2 a/b=3 été=4 添加=5", {"a.b": 1, "a-b": 2, "a/b": 3, "été": 4, "添加": 5}),
        ("a=--tab", {"a": "--tab"}),
        ("name=1 id=2 format=3 args=4 timeout=5 type=6", {
            "name": 1, "id": 2, "format": 3, "args": 4, "timeout": 5, "type": 6,
        }),
        ("a=NaN b=Infinity", {"a": "NaN", "b": "Infinity"}),
        ("a=1,2", {"a": "1,2"}),
        ("a=01", {"a": "01"}),
        # JSON
        ("a:=1", {"a": 1}),
        ('a:="x y" b=2', {"a": "x y", "b": 2}),
        ('a:="1"', {"a": "1"}),
        ("a:=[1, 2] b=3", {"a": [1, 2], "b": 3}),
        ('a:={"x": [1, {"y": "} z"}]} b:=null', {"a": {"x": [1, {"y": "} z"}]}, "b": None}),
        ("a:='[1, 2]' b=3", {"a": [1, 2], "b": 3}),
        ("""a:='{"x": "y z"}'""", {"a": {"x": "y z"}}),
        (r'a:="\u00e9\ud83d\ude00"', {"a": "é😀"}),
        ("a=[1, 2] b=3", {"a": [1, 2], "b": 3}),
        ('a={"x": 1}', {"a": {"x": 1}}),
        ("a=[draft]", {"a": "[draft]"}),
        ("a=[1]x", {"a": "[1]x"}),
        ("a={x} b=1", {"a": "{x}", "b": 1}),
        ('a="[1]"', {"a": "[1]"}),
        # variables
        ("a=$frame b=$prices", {"a": FRAME, "b": [1, 2]}),
        ("a=$_x", {"a": None}),
        ('a="$frame"', {"a": "$frame"}),
        ("a='$frame'", {"a": "$frame"}),
        ('a:="$frame"', {"a": "$frame"}),
        ("a=$1", {"a": "$1"}),
        ("a=$", {"a": "$"}),
        ("a=$frame.T b=x$frame c=$$frame", {"a": "$frame.T", "b": "x$frame", "c": "$$frame"}),
    ],
)  # fmt: skip
def test_typed_text_is_read_as_what_it_looks_like(text: str, args: Args) -> None:
    assert read(text) == args


NAME_VALUE = 'write text with spaces as name="…" and JSON as name:=[…]'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milk", f"expected name=value, got 'milk'; {NAME_VALUE}"),
        ("a=1 milk", f"expected name=value, got 'milk'; {NAME_VALUE}"),
        ("title=buy milk", f"expected name=value, got 'milk'; {NAME_VALUE}"),
        ("a = 1", f"expected name=value, got 'a = 1'; {NAME_VALUE}"),
        ("=1", f"expected name=value, got '=1'; {NAME_VALUE}"),
        (":=1", f"expected name=value, got ':=1'; {NAME_VALUE}"),
        ('"a b"=1', f"expected name=value, got '\"a b\"=1'; {NAME_VALUE}"),
        ("'a'=1", f"expected name=value, got \"'a'=1\"; {NAME_VALUE}"),
        ("x" * 200, f"expected name=value, got '{'x' * 39}…'; {NAME_VALUE}"),
        ("- a=1", f"expected name=value, got '- a=1'; {NAME_VALUE}"),
        ("a=1 a=2", "a: given twice"),
        ("a=1 a:=2", "a: given twice"),
        ('a="x', 'a: the quote " is not closed'),
        ("a='x y", "a: the quote ' is not closed"),
        (r'a="x\"', 'a: the quote " is not closed'),
        ("a:=", "a: expected JSON, got '' (Expecting value: line 1 column 4 (char 3))"),
        ("a:= 1", "a: expected JSON, got ' 1' (Expecting value: line 1 column 4 (char 3))"),
        ("a:=milk", "a: expected JSON, got 'milk' (Expecting value: line 1 column 4 (char 3))"),
        ("a:=NaN", "a: expected JSON, got 'NaN' (NaN is not JSON)"),
        ("a:=[-Infinity]", "a: expected JSON, got '[-Infinity]' (-Infinity is not JSON)"),
        (
            "a:=[1, 2",
            "a: expected JSON, got '[1, 2' (Expecting ',' delimiter: line 1 column 9 (char 8))",
        ),
        (
            "a:='[1'",
            "a: expected JSON, got \"'[1'\" (Expecting ',' delimiter: line 1 column 3 (char 2))",
        ),
        ("a:=1x", "a: expected one JSON value, got more: 'x'"),
        ("a:=[1]b=2", "a: expected one JSON value, got more: 'b=2'"),
        ("a:='1 2'", "a: expected one JSON value, got more: ' 2'"),
        ("a:='[1", "a: the quote ' is not closed"),
        ("a=$fram", "a: no variable $fram; did you mean $frame?"),
        (
            "a=$nothing_like_it",
            "a: no variable $nothing_like_it; quote the text if you meant it as it is",
        ),
        ("a=$print", "a: $print is a builtin, not a variable of yours"),
        ("a=$class", "a: no variable $class; quote the text if you meant it as it is"),
    ],
)
def test_what_cannot_be_read_says_what_was_expected(text: str, message: str) -> None:
    assert refused(text) == message


@pytest.mark.parametrize(
    "text",
    ["a:=" + "[" * 5000, "a=" + "[" * 5000, "a:=" + '{"x":' * 5000, "a=" + "1" * 5000, "[" * 5000],
)
def test_more_than_python_can_read_is_text_or_an_error(text: str) -> None:
    refusal = ""
    try:
        read(text)
    except InvalidArgumentsError as problem:
        refusal = str(problem)
    assert len(refusal) < 1000


# With a schema


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "3", "3"),
        ("string", "true", "true"),
        ("string", "null", "null"),
        ("string", "[1]", "[1]"),
        ("string", '{"a": 1}', '{"a": 1}'),
        ("string", '"buy milk"', "buy milk"),
        ("string", "", ""),
        ("integer", "3", 3),
        ("integer", "-3", -3),
        ("integer", '"3"', 3),
        ("integer", "9007199254740993", 9007199254740993),
        ("number", "3", 3),
        ("number", "3.5", 3.5),
        ("number", "1e3", 1000.0),
        ("number", "-.5", -0.5),
        ("boolean", "true", True),
        ("boolean", "TRUE", True),
        ("boolean", "yes", True),
        ("boolean", "on", True),
        ("boolean", "1", True),
        ("boolean", "False", False),
        ("boolean", "no", False),
        ("boolean", "Off", False),
        ("boolean", "0", False),
        ("array", "[1, 2]", [1, 2]),
        ("array", "[]", []),
        ("array", '"[1, 2]"', [1, 2]),
        ("object", '{"a": 1}', {"a": 1}),
        ("null", "null", None),
        (["string", "null"], "null", None),
        (["string", "null"], "x", "x"),
        (["null", "string"], "3", "3"),
        (["string", "integer"], "3", 3),
        (["string", "integer"], "x", "x"),
        (["integer", "boolean"], "1", 1),
        (["integer", "null"], "null", None),
        (["array", "string"], "x", "x"),
    ],
)
def test_a_value_is_read_as_the_type_the_tool_asks_for(kind: object, text: str, value: Any) -> None:
    args = read(f"a={text}", {"a": {"type": kind}})
    assert args == {"a": value}
    assert type(args["a"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("integer", "x", "a: expected integer, got 'x'"),
        ("integer", "3.0", "a: expected integer, got '3.0'"),
        ("integer", "", "a: expected integer, got ''"),
        ("integer", "true", "a: expected integer, got 'true'"),
        ("integer", "x" * 100, f"a: expected integer, got '{'x' * 59}…'"),
        ("integer", "1" * 5000, f"a: expected integer, got '{'1' * 59}…'"),
        ("number", "3,5", "a: expected number, got '3,5'"),
        ("boolean", "2", "a: expected boolean, got '2'"),
        ("boolean", "", "a: expected boolean, got ''"),
        ("array", "1,2", "a: expected array, got '1,2'"),
        ("array", "null", "a: expected array, got 'null'"),
        ("array", '"{}"', "a: expected array, got '{}'"),
        ("object", "x", "a: expected object, got 'x'"),
        ("null", "x", "a: expected null, got 'x'"),
        (["integer", "null"], "x", "a: expected integer or null, got 'x'"),
        (["null", "boolean", "array"], "x", "a: expected null or boolean or array, got 'x'"),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_both(
    kind: object, text: str, message: str
) -> None:
    assert refused(f"a={text}", {"a": {"type": kind}}) == message


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({}, "3", 3),
        ({}, "x", "x"),
        (True, "3", 3),
        (None, "x", "x"),
        ({"type": "text"}, "3", 3),
        ({"type": {"_def": 1}}, "3", 3),
        ({"type": []}, "3", 3),
        ({"type": ["text", "string"]}, "3", "3"),
        ({"$ref": "#/$defs/x"}, "3", 3),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "3", "3"),
        ({"oneOf": [{"type": "integer"}, {"anyOf": [{"type": "string"}]}]}, "3", 3),
        ({"anyOf": {"type": "string"}}, "3", 3),
        ({"type": "string", "enum": ["1", "2"]}, "1", "1"),
        ({"type": "integer", "enum": [1, 2]}, "1", 1),
        ({"type": ["integer", "string"], "enum": ["1", 1]}, "1", "1"),
        ({"type": ["boolean", "string"], "enum": ["yes", True]}, "yes", "yes"),
        ({"type": "string", "enum": ["", "x"]}, '""', ""),
        ({"type": ["string", "null"], "enum": ["x", None]}, "null", None),
        ({"type": "array", "enum": [[1, 2], [3]]}, "[1, 2]", [1, 2]),
        ({"type": "string", "enum": "abc"}, "a", "a"),
        ({"type": "string", "enum": ["x"]}, "y", "y"),  # the schema itself will say no
    ],
)
def test_schemas_of_all_kinds_say_how_text_is_read(schema: Any, text: str, value: Any) -> None:
    args = read(f"a={text}", {"a": schema})
    assert args == {"a": value}
    assert type(args["a"]) is type(value)


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": ["true", "false", "null"]}, "null", "null"),
        ({"const": "1"}, "1", "1"),
        ({"anyOf": [{"const": "1", "title": "One"}, {"const": "2", "title": "Two"}]}, "1", "1"),
    ],
)
def test_options_say_how_text_is_read_where_no_type_does(
    schema: Args, text: str, value: Any
) -> None:
    """Otherwise the only text a person can type is one that the tool refuses."""
    args = read(f"a={text}", {"a": schema})
    assert args == {"a": value}
    assert type(args["a"]) is type(value)


@pytest.mark.parametrize(
    "schema",
    [{"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}],
)
@pytest.mark.parametrize("text", ["[1]", '{"a": 1}'])
def test_text_that_looks_like_json_is_text_for_a_tool_that_takes_text_or_nothing(
    schema: Args, text: str
) -> None:
    assert read(f"a={text}", {"a": schema}) == {"a": text}


def test_json_that_was_asked_for_stays_json_whatever_the_schema_says() -> None:
    text = {"a": {"type": "string"}}
    assert read("a:=[1]", text) == {"a": [1]}
    assert read("a:=3", text) == {"a": 3}


def test_a_variable_is_passed_as_it_is_whatever_the_schema_says() -> None:
    assert read("a=$prices", {"a": {"type": "string"}}) == {"a": [1, 2]}
    assert read("a=$frame", {"a": {"type": "integer"}}) == {"a": FRAME}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        (None, []),
        (True, []),
        ({}, []),
        ({"type": "integer"}, ["integer"]),
        ({"type": "text"}, []),
        ({"type": ["null", "string", 3]}, ["null", "string"]),
        (
            {
                "anyOf": [{"type": "null"}, {"type": ["string", "null"]}],
                "oneOf": [{"type": "array"}],
            },
            ["null", "string", "array"],
        ),
        ({"anyOf": 3}, []),
        ({"type": "string", "anyOf": [{"type": "null"}]}, ["string"]),
    ],
)
def test_the_types_a_schema_names_are_found_in_its_order(schema: object, kinds: list[str]) -> None:
    assert kinds_of(schema) == kinds


# Options


@pytest.mark.parametrize(
    ("text", "args", "values"),
    [
        ("--quiet", {}, {"quiet": True}),
        ("--timeout 5 a=1", {"a": 1}, {"timeout": 5.0}),
        ("a=1 --timeout 5", {"a": 1}, {"timeout": 5.0}),
        ("a=1 --timeout 5 b=2", {"a": 1, "b": 2}, {"timeout": 5.0}),
        ("--timeout=5", {}, {"timeout": 5.0}),
        ("--timeout   5   --quiet", {}, {"timeout": 5.0, "quiet": True}),
        ("--quiet a=1 --tab x b=2 --timeout 3", {"a": 1, "b": 2}, {
            "quiet": True, "tab": "x", "timeout": 3.0,
        }),
        ('--tab "My shop" a=1', {"a": 1}, {"tab": "My shop"}),
        ('--tab="My shop" a=1', {"a": 1}, {"tab": "My shop"}),
        ("--tab 'a b'", {}, {"tab": "a b"}),
        ("--tab http://h/?a=b", {}, {"tab": "http://h/?a=b"}),
        ("--tab=a=b", {}, {"tab": "a=b"}),
        ("--tab 1 --tab 2", {}, {"tab": "2"}),
        ("a:=[1] --quiet b={} --tab t", {"a": [1], "b": {}}, {"quiet": True, "tab": "t"}),
        ("tab=1 --tab 2", {"tab": 1}, {"tab": "2"}),
        ("a=x--quiet", {"a": "x--quiet"}, {}),
        ('a="--quiet"', {"a": "--quiet"}, {}),
    ],
)  # fmt: skip
def test_options_may_come_before_between_and_after_arguments(
    text: str, args: Args, values: Args
) -> None:
    taken = options()
    typed = split_arguments(text, taken)
    assert bind_arguments(typed, InputSchema(None), {}) == args
    assert taken.values == values


THERE_ARE = "unknown option; there are: --timeout, --tab, --quiet"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--nope", f"--nope: {THERE_ARE}"),
        ("a=1 --nope=3", f"--nope=3: {THERE_ARE}"),
        ("--", f"--: {THERE_ARE}"),
        ("--=3", f"--=3: {THERE_ARE}"),
        ("--Quiet", f"--Quiet: {THERE_ARE}"),
        ("--timeout", "--timeout: expected a value, got ''"),
        ("--timeout=", "--timeout: expected a value, got ''"),
        ("--timeout soon", "--timeout: expected a value, got 'soon'"),
        ("--timeout --quiet", "--timeout: expected a value, got '--quiet'"),
        ('--tab ""', "--tab: expected a value, got ''"),
        ("--tab 'x", "--tab: the quote ' is not closed"),
    ],
)
def test_an_option_that_cannot_be_read_says_why(text: str, message: str) -> None:
    assert refused(text) == message


def test_where_there_are_no_options_an_option_says_so() -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        split_arguments("--x", Options({}))
    assert str(raised.value) == "--x: unknown option; there are: none"


@pytest.mark.parametrize(
    ("text", "word", "end"),
    [
        ("", "", 0),
        ("add a=1", "add", 3),
        ('"my tool" a=1', "my tool", 9),
        (r"a\"b c", 'a"b', 4),
        ("\\", "\\", 1),
        (r"\x", r"\x", 2),
    ],
)
def test_a_word_ends_at_a_space_outside_quotes(text: str, word: str, end: int) -> None:
    assert read_word(text, 0) == (word, end)


# Cells


@pytest.mark.parametrize(
    ("body", "args"),
    [
        ("", {}),
        (" \n\n", {}),
        ("null", {}),
        ("{}", {}),
        ("# only a comment", {}),
        ('{"a": 1, "b": ["x", null]}', {"a": 1, "b": ["x", None]}),
        ('\n  {"a": {"b": true}}\n', {"a": {"b": True}}),
        ("a: 1\nb: [x, y]\nc:\n  d: true", {"a": 1, "b": ["x", "y"], "c": {"d": True}}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("{a: 1, b: milk}", {"a": 1, "b": "milk"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("été: é\n添加: 😀", {"été": "é", "添加": "😀"}),
        ("a: $prices", {"a": [1, 2]}),
        ('{"a": "$frame", "b": {"c": "$frame"}}', {"a": FRAME, "b": {"c": "$frame"}}),
        ('a: "$1"\nb: $', {"a": "$1", "b": "$"}),
    ],
)
def test_a_cell_holds_json_or_yaml(body: str, args: Args) -> None:
    assert read_body(body, VARIABLES) == args


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("- 1", "expected arguments by name in the cell, got array"),
        ("[1]", "expected arguments by name in the cell, got array"),
        ("milk", "expected arguments by name in the cell, got string"),
        ("3", "expected arguments by name in the cell, got number"),
        ("true", "expected arguments by name in the cell, got boolean"),
        (
            '{"a": 1',
            "expected JSON or YAML in the cell: Expecting ',' delimiter: line 1 column 8 (char 7)",
        ),
        (
            '{"a": 1}}',
            "expected JSON or YAML in the cell: Extra data: line 1 column 9 (char 8)",
        ),
        ("a: [1", "expected JSON or YAML in the cell: while parsing a flow sequence"),
        ("a: 1\n---\nb: 2", "expected JSON or YAML in the cell: expected a single document"),
        ("a\x00: 1", "expected JSON or YAML in the cell: unacceptable character #x0000"),
        ("? [1]\n: 2", "expected JSON or YAML in the cell: while constructing a mapping"),
        (
            "a: !!python/object/apply:os.getcwd []",
            "expected JSON or YAML in the cell: could not determine a constructor for the tag",
        ),
        ("1: x", "expected names in the cell, got 1; quote it"),
        ("a: $fram", "a: no variable $fram; did you mean $frame?"),
        ("a: $open", "a: $open is a builtin, not a variable of yours"),
    ],
)
def test_a_cell_that_cannot_be_read_says_why(body: str, message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        read_body(body, VARIABLES)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "body",
    [
        "due: 2024-02-30",
        "due: 0000-00-00",
        "at: 2024-01-01 25:00:00",
        "at: 2024-01-01 00:00:00+99:99",
        "n: " + "1" * 5000,
        "n: !!int x",
        'n: !!int ""',
        "n: !!float x",
        "n: !!bool x",
        "n: !!timestamp x",
    ],
    ids=lambda body: body[:30],
)
def test_a_cell_yaml_stumbles_over_is_an_error_like_any_other(body: str) -> None:
    with pytest.raises(InvalidArgumentsError):
        read_body(body, {})


@pytest.mark.parametrize("body", ['{"a": NaN}', '{"a": [Infinity]}'])
def test_a_number_that_json_does_not_have_is_not_turned_into_text(body: str) -> None:
    """JSON refuses it; read as YAML it would be the word."""
    with pytest.raises(InvalidArgumentsError):
        read_body(body, {})


def test_a_cell_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(InvalidArgumentsError, match="expected JSON or YAML in the cell"):
        read_body("[" * 600, {})


# What must hold for anything

PIECES = st.sampled_from(
    "a b = := [ ] { } , : ' \" \\ 1 - -- --tab --quiet $ $frame true null NaN 1e999 é".split()
    + [" ", "\n", "\x00", "\ud800"]
)
TYPED_TEXT = st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=20)
KINDS = ["string", "integer", "number", "boolean", "array", "object", "null"]
SCHEMAS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), max_size=3),
        "enum": st.lists(st.none() | st.integers() | st.text(max_size=2), max_size=3),
    },
)


@REPEATABLE
@given(TYPED_TEXT, SCHEMAS)
def test_any_text_is_read_or_refused_in_one_way(text: str, schema: Any) -> None:
    try:
        args = read(text, {"a": schema, "b": schema})
    except InvalidArgumentsError as problem:
        args = {"refused": str(problem)}
    assert len(str(args)) < 10_000


@REPEATABLE
@given(TYPED_TEXT | st.sampled_from(KINDS), SCHEMAS)
def test_any_value_is_read_or_refused_in_one_way(text: str, schema: Any) -> None:
    try:
        value = read_typed(text, schema, "a")
    except InvalidArgumentsError as problem:
        value = str(problem)
    assert value is None or isinstance(value, (str, int, float, list, dict))


YAML_LIKE = st.lists(
    st.sampled_from(
        "a : - [ ] { } , &x *x !!int !!bool 2024-02-30 1:30 0x ~ | > ' \" % ? <<: $a 1e999".split()
        + [" ", "\n", ": ", "- "]
    ),
    max_size=10,
).map("".join)


@REPEATABLE
@given(YAML_LIKE | st.text(max_size=15))
def test_any_cell_is_read_or_refused_in_one_way(body: str) -> None:
    try:
        args: Any = read_body(body, {})
    except InvalidArgumentsError as problem:
        args = {"refused": str(problem)}
    assert isinstance(args, dict)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


@REPEATABLE
@given(VALUES, VALUES, SCHEMAS)
def test_json_behind_a_colon_arrives_as_it_is(one: Any, two: Any, schema: Any) -> None:
    text = f"a:={json.dumps(one)} --quiet b:={json.dumps(two, ensure_ascii=False)} --tab t"
    assert read(text, {"a": schema, "b": schema}) == {"a": one, "b": two}


@REPEATABLE
@given(st.text(max_size=10))
def test_text_in_quotes_arrives_as_it_is(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    assert read(f'a="{escaped}" b=1', {"a": {"type": "string"}}) == {"a": text, "b": 1}


@REPEATABLE
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_a_cell_of_json_arrives_as_it_is(args: Args) -> None:
    variables = {value[1:]: value for value in args.values() if isinstance(value, str)}
    assert read_body(json.dumps(args), variables) == args
