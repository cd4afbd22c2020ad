"""`schema`: a tool's JSON Schema as a signature, as help, as a check; never as a danger."""

from __future__ import annotations

import inspect
import json
import socket
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy.errors import InvalidArgumentsError
from pagetools_ipy.schema import OMITTED, InputSchema, annotation, describe, json_path

EMPTY = inspect.Parameter.empty

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

Schema = dict[str, Any]


def of(properties: Schema, *required: str, **more: Any) -> InputSchema:
    return InputSchema(
        {"type": "object", "properties": properties, "required": list(required), **more}
    )


def check(schema: InputSchema, args: Schema) -> None:
    schema.bind(args)
    schema.validate(args)


def refused(schema: InputSchema, args: Schema) -> str:
    with pytest.raises(InvalidArgumentsError) as raised:
        check(schema, args)
    return str(raised.value)


# Types


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, str),
        ({"type": "integer"}, int),
        ({"type": "number"}, float),
        ({"type": "boolean"}, bool),
        ({"type": "object"}, dict),
        ({"type": "null"}, None),
        ({"type": "array"}, list),
        ({"type": "array", "items": {"type": "string"}}, list[str]),
        ({"type": "array", "items": {}}, list),
        ({"type": "array", "items": True}, list),
        ({"type": "array", "items": [{"type": "string"}]}, list),
        (
            {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            list[list[int]],
        ),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {}}}}, list[dict]),
        ({"type": ["string", "null"]}, str | None),
        ({"type": ["integer", "string", "boolean"]}, int | str | bool),
        ({"type": ["array", "null"], "items": {"type": "string"}}, list[str] | None),
        ({"type": ["string"]}, str),
        ({"type": []}, EMPTY),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, str | None),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, int | str),
        ({"anyOf": [{"type": "string"}, {}]}, EMPTY),
        ({"anyOf": []}, EMPTY),
        ({"enum": ["a", "b"]}, Literal["a", "b"]),
        ({"type": "string", "enum": ["", "b"]}, Literal["", "b"]),
        ({"enum": [1, 2, True]}, Literal[1, 2, True]),
        (
            {"type": "string", "enum": [f"v{i}" for i in range(12)]},
            Literal[tuple(f"v{i}" for i in range(12))],
        ),
        ({"type": "string", "enum": [f"v{i}" for i in range(13)]}, str),
        ({"type": "number", "enum": [0.5, 1.5]}, float),
        ({"type": ["string", "null"], "enum": ["a", None]}, str | None),
        ({"const": "a"}, Literal["a"]),
        ({"const": {"a": 1}}, EMPTY),
        (
            {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
            Literal["a"] | Literal["b"],
        ),
        (
            {
                "type": "string",
                "enum": ["a", "b"],
                "anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}],
            },
            Literal["a", "b"],
        ),
        ({}, EMPTY),
        ({"description": "x"}, EMPTY),
        ({"$ref": "#/$defs/x"}, EMPTY),
        (True, EMPTY),
        (None, EMPTY),
        ("string", EMPTY),
        ({"type": "text"}, EMPTY),
        ({"type": 3}, EMPTY),
        ({"type": {"_def": 1}}, EMPTY),
        ({"type": [["string"]]}, inspect.Parameter.empty),
        ({"type": [{"a": 1}]}, EMPTY),
        ({"enum": "abc"}, EMPTY),
        ({"enum": {"a": 1}, "type": "string"}, str),
        ({"enum": [], "type": "string"}, str),
        ({"anyOf": {"type": "string"}}, EMPTY),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_schema_is_a_python_type_where_it_says_one(schema: object, expected: object) -> None:
    assert annotation(schema) == expected


# Signatures


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (InputSchema(None), "(**kwargs)"),
        (InputSchema({}), "(**kwargs)"),
        (InputSchema({"type": "object"}), "(**kwargs)"),
        (InputSchema({"type": "object", "properties": {}}), "(**kwargs)"),
        (InputSchema({"properties": {}, "additionalProperties": False}), "()"),
        (of({"a": {"type": "string"}}), "(*, a: str = <omitted>)"),
        (of({"a": {"type": "string"}}, "a"), "(*, a: str)"),
        (
            of({"a": {}, "b": {"type": "integer"}, "c": {"type": "string"}}, "b", "c"),
            "(*, b: int, c: str, a=<omitted>)",
        ),
        (
            of({"n": {"type": "integer", "default": 3}, "s": {"default": None}}),
            "(*, n: int = 3, s=None)",
        ),
        (of({"n": {"type": "integer", "default": 3}}, "n"), "(*, n: int)"),
        (
            of({"s": {"type": "string", "enum": ["a", "b"], "default": "a"}}),
            "(*, s: Literal['a', 'b'] = 'a')",
        ),
        (of({"s": {"type": ["string", "null"]}}, "s"), "(*, s: str | None)"),
        (of({"s": {"type": "array", "items": {"type": "string"}}}, "s"), "(*, s: list[str])"),
        # more arguments may come
        (of({"a": {}}, additionalProperties=True), "(*, a=<omitted>, **kwargs)"),
        (of({"a": {}}, additionalProperties={"type": "string"}), "(*, a=<omitted>, **kwargs)"),
        (of({"a": {}}, additionalProperties=False), "(*, a=<omitted>)"),
        (of({"a": {}}, patternProperties={"^x": {}}), "(*, a=<omitted>, **kwargs)"),
        (of({"a": {}}, allOf=[{}]), "(*, a=<omitted>, **kwargs)"),
        (of({"a": {}}, **{"$ref": "#/$defs/x"}), "(*, a=<omitted>, **kwargs)"),
        # names that Python cannot write
        (of({"a-b": {}, "c": {}}), "(*, c=<omitted>, **kwargs)"),
        (of({"class": {}}, "class"), "(**kwargs)"),
        (of({"": {}, "1a": {}, "a b": {}, "x.y": {}}), "(**kwargs)"),
        (of({"None": {}, "True": {}}), "(**kwargs)"),
        # names that Python code has other uses for
        (
            of({name: {} for name in ("self", "args", "timeout", "name", "id", "type")}),
            "(*, self=<omitted>, args=<omitted>, timeout=<omitted>, name=<omitted>, "
            "id=<omitted>, type=<omitted>)",
        ),
        (
            of({"match": {}, "print": {}, "été": {}}),
            "(*, match=<omitted>, print=<omitted>, été=<omitted>)",
        ),
        (of({"kwargs": {}, "a-b": {}}), "(*, kwargs=<omitted>, **kwargs_)"),
        (
            of({"kwargs": {}, "kwargs_": {}}, additionalProperties=True),
            "(*, kwargs=<omitted>, kwargs_=<omitted>, **kwargs__)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_signature_says_what_a_tool_takes(schema: InputSchema, expected: str) -> None:
    assert str(schema.signature).replace("typing.", "") == expected


def test_a_signature_exists_whatever_the_arguments_are_called() -> None:
    names = ("kwargs", "more", "_kwargs", "_more_")
    schema = of({name: {} for name in names}, additionalProperties=True)
    parameters = schema.signature.parameters
    assert set(names) < set(parameters)
    assert [p.kind for p in parameters.values()][-1] is inspect.Parameter.VAR_KEYWORD


def test_the_signature_binds_like_the_tools_call() -> None:
    schema = of({"title": {"type": "string"}, "count": {"type": "integer"}}, "title")
    bound = schema.signature.bind(title="milk")
    assert bound.arguments == {"title": "milk"}
    assert schema.signature.parameters["count"].default is OMITTED
    for args in ({}, {"title": "milk", "colour": 1}):
        with pytest.raises(TypeError):
            schema.signature.bind(**args)


# Help


def test_help_is_the_pages_own_words_and_its_arguments() -> None:
    schema = of(
        {
            "title": {"type": "string", "description": "What to\n   buy."},
            "count": {"type": "integer", "default": 1, "description": "How many"},
            "where": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "unit": {"enum": ["kg", "l"], "description": "Unit: kg or l"},
            "data": {"default": ["é" * 100]},
            "free-form": {},
        },
        "title",
        "unit",
    )
    assert describe("  Adds to the list.\n\nTwice if asked.  ", schema).split("\n") == [
        "Adds to the list.",
        "",
        "Twice if asked.",
        "",
        "Args:",
        "    title (str): What to buy.",
        "    count (int, default 1): How many",
        "    where (str | None, optional)",
        "    tags (list[str], optional)",
        "    unit (Literal['kg', 'l']): Unit: kg or l",
        '    data (any, default ["' + r"\u00e9" * 9 + r"\u0…)",
        "    free-form (any, optional)",
    ]


@pytest.mark.parametrize(
    ("description", "schema", "expected"),
    [
        ("Reports.", InputSchema(None), "Reports."),
        ("Reports.", InputSchema({"type": "object", "properties": {}}), "Reports."),
        ("", InputSchema(None), "The page gives no description."),
        (" \n ", InputSchema(None), "The page gives no description."),
        (
            "Reports.",
            InputSchema({"properties": {"a": {"type": "text"}}}),
            "Reports.\n\nArgs:\n    a (any, optional)\n\nArguments are not validated: "
            "\"text\" is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
    ],
)
def test_help_of_tools_that_say_little(
    description: str, schema: InputSchema, expected: str
) -> None:
    assert describe(description, schema) == expected


def test_help_leaves_the_pages_own_words_as_they_are() -> None:
    words = "Runs code:\n\n    for x in xs:\n        print(x):  "
    assert describe(words, InputSchema(None)) == words.strip()
    schema = of({"a": {"type": "string", "description": "One of these:"}})
    assert "One of these:" in describe("", schema)


HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202etxt\u200b\x9b"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "description": HOSTILE}}},
        {"properties": {HOSTILE: {"type": "string"}}},
        {"properties": {"a": {"enum": [HOSTILE]}}},
        {"properties": {"a": {"default": HOSTILE}}},
        {"properties": {"a": {"pattern": f"({HOSTILE}"}}},
        {"$ref": f"http://localhost/{HOSTILE}"},
    ],
    ids=["description", "name", "enum", "default", "pattern", "ref"],
)
def test_help_shows_nothing_that_a_terminal_would_obey(schema: Schema) -> None:
    text = describe("Reports.", InputSchema(schema))
    assert [char for char in text if not char.isprintable() and char not in "\n\t"] == []


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        ({"properties": {HOSTILE: {}}, "required": [HOSTILE]}, {}),
        ({"properties": {HOSTILE: {}}}, {"a": 1}),
        ({"properties": {"a": {"const": HOSTILE}}}, {"a": 1}),
        ({"properties": {"a": {"enum": [HOSTILE]}}}, {"a": 1}),
        ({"properties": {"a": {"required": [HOSTILE]}}}, {"a": {}}),
        ({"properties": {"a": {"pattern": f"^{HOSTILE[10:]}$"}}}, {"a": "b"}),
    ],
    ids=["missing", "unknown", "const", "enum", "required", "pattern"],
)
def test_errors_show_nothing_that_a_terminal_would_obey(schema: Schema, args: Schema) -> None:
    text = refused(InputSchema(schema), args)
    assert [char for char in text if not char.isprintable() and char not in "\n\t"] == []


# Names


@pytest.mark.parametrize(
    ("schema", "args", "text"),
    [
        (of({"title": {}}, "title"), {}, "title: missing; the tool takes title"),
        (
            of({"a": {}, "b": {}, "c": {}}, "b", "a"),
            {"c": 1},
            "a, b: missing; the tool takes a, b, [c]",
        ),
        (
            of({"title": {}, "count": {}}, "title"),
            {"title": 1, "tilte": 2},
            'tilte: unknown argument; did you mean "title"? the tool takes title, [count]',
        ),
        (
            of({"title": {}}),
            {"xyz": 2},
            "xyz: unknown argument; the tool takes [title]",
        ),
        (
            InputSchema({"properties": {}, "additionalProperties": False}),
            {"a": 1},
            "a: unknown argument; the tool takes no arguments",
        ),
        (
            of({f"a{i:02}": {} for i in range(20)}),
            {"b": 1},
            "b: unknown argument; the tool takes "
            + ", ".join(f"[a{i:02}]" for i in range(12))
            + " and 8 more",
        ),
        (
            of({"title": {}}, "title"),
            {"tilte": 1},
            'tilte: unknown argument; did you mean "title"? the tool takes title',
        ),
    ],
)
def test_wrong_names_say_what_the_tool_takes(schema: InputSchema, args: Schema, text: str) -> None:
    assert refused(schema, args) == text


@pytest.mark.parametrize(
    "schema",
    [
        InputSchema(None),
        InputSchema({}),
        InputSchema({"type": "object", "properties": {}}),
        of({"a": {}}, additionalProperties=True),
        of({"a": {}}, additionalProperties={"type": "integer"}),
        of({"a": {}}, patternProperties={"^b": {}}),
        of({"a": {}}, anyOf=[{}]),
        InputSchema({"properties": "text"}),
    ],
)
def test_a_schema_that_is_open_takes_any_name(schema: InputSchema) -> None:
    assert schema.open
    schema.bind({"b": 1, "anything else": 2})


@pytest.mark.parametrize(
    "required", ["title", {"title": True}, [["title"], 3, None], None, True, ["other"]]
)
def test_only_a_list_of_declared_names_makes_names_required(required: object) -> None:
    schema = InputSchema({"properties": {"title": {}}, "required": required})
    schema.bind({})


# Values


@pytest.mark.parametrize(
    ("properties", "args", "text"),
    [
        ({"a": {"type": "string"}}, {"a": 3}, "a: expected string, got number 3"),
        ({"a": {"type": "string"}}, {"a": None}, "a: expected string, got null"),
        ({"a": {"type": "string"}}, {"a": [1, 2]}, "a: expected string, got array"),
        ({"a": {"type": "number"}}, {"a": "x"}, 'a: expected number, got string "x"'),
        (
            {"a": {"type": "number"}},
            {"a": "x" * 100},
            f'a: expected number, got string "{"x" * 58}…',
        ),
        ({"a": {"type": "integer"}}, {"a": 1.5}, "a: expected integer, got number 1.5"),
        ({"a": {"type": "boolean"}}, {"a": 0}, "a: expected boolean, got number 0"),
        ({"a": {"type": "array"}}, {"a": {}}, "a: expected array, got object"),
        (
            {"a": {"type": ["string", "null"]}},
            {"a": True},
            "a: expected null or string, got boolean true",
        ),
        (
            {"a": {"enum": ["x", "y", 3, None]}},
            {"a": "z"},
            'a: expected one of "x", "y", 3, null, got "z"',
        ),
        (
            {"a": {"enum": list(range(20))}},
            {"a": 20},
            "a: expected one of " + ", ".join(map(str, range(12))) + " and 8 more, got 20",
        ),
        (
            {"a": {"type": "object", "required": ["b", "c"]}},
            {"a": {"b": 1}},
            'a: missing required property "c"',
        ),
        (
            {"a": {"properties": {"b": {}}, "additionalProperties": False}},
            {"a": {"b": 1, "c": 2}},
            'a: unknown property "c"',
        ),
        (
            {"a": {"properties": {"b": {}}, "unevaluatedProperties": False}},
            {"a": {"b": 1, "c": 2}},
            'a: unknown property "c"',
        ),
        ({"a": {"minimum": 3}}, {"a": 2}, "a: 2 is less than the minimum of 3"),
        ({"a": {"maximum": 3}}, {"a": 4}, "a: 4 is greater than the maximum of 3"),
        ({"a": {"minLength": 2}}, {"a": "é"}, 'a: "é" is shorter than 2 characters'),
        ({"a": {"maxItems": 1}}, {"a": [1, 2]}, "a: [1,2] has more than 1 item"),
        ({"a": {"pattern": "^[0-9]+$"}}, {"a": "x"}, 'a: "x" does not match "^[0-9]+$"'),
        (
            {"a": {"type": "array", "items": {"properties": {"price": {"type": "number"}}}}},
            {"a": [{}, {}, {"price": "3"}]},
            'a[2].price: expected number, got string "3"',
        ),
        (
            {"a": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}},
            {"a": [[1], [2, "x"]]},
            'a[1][1]: expected number, got string "x"',
        ),
        ({"a": False}, {"a": 1}, "a: False schema does not allow 1"),
        (
            {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
            {"a": 3},
            "a: 3 is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_does_not_fit_says_what_was_expected_and_what_came(
    properties: Schema, args: Schema, text: str
) -> None:
    assert refused(of(properties), args) == text


@pytest.mark.parametrize(("value", "kind"), [(None, "null"), ([1], "array"), ({}, "object")])
def test_a_value_that_is_none_of_the_options_is_named_whatever_it_is(
    value: object, kind: str
) -> None:
    text = refused(of({"a": {"enum": ["x"]}}), {"a": value})
    assert text.startswith('a: expected one of "x", got ')
    assert kind in text


def test_a_list_of_unknown_properties_says_how_many_it_leaves_out() -> None:
    schema = of({"a": {"properties": {"b": {}}, "additionalProperties": False}})
    text = refused(schema, {"a": {f"x{i:02}": 1 for i in range(30)}})
    assert text.endswith("and 18 more")


@pytest.mark.parametrize(
    ("properties", "args"),
    [
        ({"a": {"type": "integer"}}, {"a": 3}),
        ({"a": {"type": "integer"}}, {"a": 3.0}),
        ({"a": {"type": "number"}}, {"a": 3}),
        ({"a": {"type": "string"}}, {}),
        ({"a": {"type": "array", "items": {"type": "integer"}}}, {"a": (1, 2)}),
        ({"a": {"format": "^#[0-9a-f]{6}$"}}, {"a": "red"}),
        ({"a": {"type": "string", "format": "email"}}, {"a": "no address"}),
        ({"a": {"type": "string"}}, {"a": "\ud800"}),
        ({"a": {"x-order": 1, "type": "string"}}, {"a": ""}),
        ({name: {"type": "string"} for name in ("name", "id", "args", "type")}, {"name": "x"}),
    ],
)
def test_values_that_fit_pass(properties: Schema, args: Schema) -> None:
    check(of(properties), args)


@pytest.mark.parametrize("args", [{"a": {"\ud800": 1}}, {"\ud800": 1}])
def test_a_key_that_is_no_unicode_text_is_validated_like_any_other(args: Schema) -> None:
    """Such keys are accepted, and sent escaped."""
    check(of({"a": {"type": "object"}}, additionalProperties=True), args)


@pytest.mark.parametrize(
    ("draft", "items"),
    [
        ("http://json-schema.org/draft-07/schema#", "items"),
        ("http://json-schema.org/draft-07/schema", "items"),
        ("https://json-schema.org/draft/2019-09/schema", "items"),
        ("https://json-schema.org/draft/2020-12/schema", "prefixItems"),
    ],
)
def test_a_schema_is_read_by_the_draft_it_names(draft: str, items: str) -> None:
    pair = {items: [{"type": "string"}, {"type": "integer"}]}
    schema = of({"a": pair}, **{"$schema": draft})
    assert schema.problem is None
    schema.validate({"a": ["x", 1]})
    assert refused(schema, {"a": ["x", "y"]}) == 'a[1]: expected integer, got string "y"'


# References


@pytest.mark.parametrize(
    ("where", "ref"),
    [("$defs", "#/$defs/price"), ("definitions", "#/definitions/price")],
)
def test_a_reference_within_the_schema_is_followed(where: str, ref: str) -> None:
    schema = of({"a": {"$ref": ref}}, **{where: {"price": {"type": "number"}}})
    assert schema.problem is None
    assert refused(schema, {"a": "x"}) == 'a: expected number, got string "x"'


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}}
    schema = InputSchema(tree)
    schema.validate({"child": {"child": {"n": 1}}})
    assert refused(schema, {"child": {"child": {"n": "x"}}}).startswith("child.child.n: ")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that nobody is to knock at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "URL/x.json"},
        {"$schema": "URL/meta.json"},
        {"$id": "URL/here.json", "$ref": "there.json"},
        {"$id": "URL/here.json", "properties": {"a": {"$ref": "there.json#/x"}}},
        {"properties": {"a": {"$ref": "URL/x.json#/$defs/y"}}},
        {"properties": {"a": {"$dynamicRef": "URL/x.json#y"}}},
        {"allOf": [{"$ref": "URL/x.json"}]},
    ],
)
def test_a_remote_reference_is_never_fetched_and_only_switches_validation_off(
    schema: Schema, listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    text = json.dumps(schema).replace("URL", f"http://127.0.0.1:{port}")
    remote = InputSchema(json.loads(text))
    assert remote.problem
    remote.bind({"a": 1})
    remote.validate({"a": 1})
    assert "Arguments are not validated: " in describe("", remote)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_file_is_never_read(tmp_path: Any) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "string"}')
    schema = InputSchema({"properties": {"a": {"$ref": secret.as_uri()}}})
    assert schema.problem
    schema.validate({"a": 1})


# Odd schemas


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"type": {"_def": {"typeName": "ZodObject"}}},
        {"_def": {"typeName": "ZodObject"}, "_cached": None, "shape": {}},
        {"properties": {"a": {"_def": {"typeName": "ZodString"}, "description": {}}}},
        {"type": "object", "properties": {"a": {"type": {"kind": "string"}}}},
        {"type": "object", "properties": {"a": "string", "b": None, "c": 3}},
        {"properties": []},
        {"properties": None, "required": None, "additionalProperties": None},
        {"required": "a"},
        {"$ref": "#/nowhere"},
        {"$ref": 3},
        {"$id": "::"},
        {"$schema": "unknown"},
        {"$schema": ""},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"pattern": "(?<=a+)b"}}},
        {"properties": {"a": {"enum": []}}},
        {"properties": {"a": {"enum": "abc"}}},
        {"properties": {"a": {"default": {"b": [None]}}}},
        {"properties": {"a": {"minimum": 1e400}}},
        {"properties": {"a": {"minimum": 10**400}}},
        {"properties": {"\ud800": {}}},
        {"properties": {"": {}, "a b": {}, "été": {}, "添加": {"type": "string"}}},
        {"properties": {"a": {"format": "^#[0-9a-f]{6}$", "type": "string"}}},
        {"title": 3, "description": [], "$comment": {}, "examples": {}, "readOnly": 1},
    ],
    ids=lambda schema: str(schema).encode("ascii", "replace").decode()[:60],
)
def test_an_odd_schema_never_stands_in_the_way_of_a_call(schema: Schema) -> None:
    odd = InputSchema(schema)
    assert str(odd.signature).startswith("(")
    assert describe("Reports.", odd).startswith("Reports.")
    assert odd.problem is None or (odd.problem and len(odd.problem) <= 300)
    odd.bind({name: "x" for name in odd.properties})
    odd.validate({})


def test_a_schema_that_cannot_be_compiled_keeps_the_names_it_declares() -> None:
    schema = InputSchema({"properties": {"title": {"type": "text"}}, "required": ["title"]})
    assert schema.problem
    assert refused(schema, {}) == "title: missing; the tool takes title"
    schema.validate({"title": object()})


def test_a_schema_is_compiled_once_and_only_when_needed() -> None:
    schema = of({"a": {"type": "string"}})
    assert "_compiled" not in vars(schema)
    schema.bind({"a": 1})
    assert "_compiled" not in vars(schema)
    compiled = schema._compiled
    schema.validate({"a": "x"})
    assert schema._compiled is compiled


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
WORDS = st.sampled_from(
    "type properties required items enum const anyOf oneOf allOf not if $ref $defs default "
    "additionalProperties patternProperties pattern minimum format description title a b".split()
)
ANY_SCHEMA = st.recursive(
    SCALARS | st.sampled_from(["string", "object", "array", "#", "#/$defs/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@REPEATABLE
@given(
    st.dictionaries(WORDS, ANY_SCHEMA, max_size=5),
    st.dictionaries(st.sampled_from("abc"), ANY_SCHEMA, max_size=3),
)
def test_any_object_may_stand_in_for_a_schema(schema: Schema, properties: Schema) -> None:
    odd = InputSchema({**schema, "properties": properties})
    assert isinstance(odd.signature, inspect.Signature)
    assert describe("", odd)
    refusal = ""
    try:
        check(odd, {"a": 1})
    except InvalidArgumentsError as problem:
        refusal = str(problem)
    assert len(refusal) < 4096


# Schemas that are meant to hurt

BUDGET = 0.25
"""Seconds that one look at a hostile schema may take."""


def seconds(function: Any, *args: Any) -> float:
    started = time.process_time()  # not the clock on the wall, which other processes share
    try:
        function(*args)
    except InvalidArgumentsError:
        pass
    return time.process_time() - started


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 5000 + "!"),
        ("^(a|aa)+$", "a" * 5000 + "!"),
        (r"^(\w+\s?)*$(?!x)", "word " * 2000 + "!"),
        (r"(x+x+)+y\1", "x" * 2000),
        ("^(?=(a+)+b)(a|aa)+$", "a" * 5000),
        (r"(.*)*(?!a)\1\1\1x", "ab" * 1000),
        ("(((a{0,100}){0,100}){0,100}){0,100}", "a" * 60),
    ],
)
def test_a_pattern_cannot_stop_the_clock(pattern: str, text: str) -> None:
    schema = of({"a": {"type": "string", "pattern": pattern}})
    assert seconds(lambda: schema.problem) < BUDGET
    assert seconds(schema.validate, {"a": text}) < BUDGET
    names = InputSchema({"patternProperties": {pattern: {"type": "string"}}})
    assert seconds(names.validate, {text: "x"}) < BUDGET


def doubling(levels: int, reference: str, target: str, mark: dict[str, str], **top: str) -> Schema:
    """A schema whose every definition asks twice for the next one."""

    def numbered(fields: dict[str, str], level: int) -> Schema:
        return {key: value.replace("N", str(level)) for key, value in fields.items()}

    definitions = {
        f"d{level}": {
            **numbered(mark, level),
            "allOf": [numbered({reference: target}, level + 1)] * 2,
        }
        for level in range(levels)
    }
    definitions[f"d{levels}"] = numbered(mark, levels)
    return {**top, "$defs": definitions, **numbered({reference: target}, 0)}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(25, "$ref", "#/$defs/dN", {}),
        doubling(25, "$ref", "#/%24defs/dN", {}),
        doubling(25, "$ref", "#aN", {"$anchor": "aN"}),
        doubling(25, "$dynamicRef", "#aN", {"$dynamicAnchor": "aN"}),
        doubling(25, "$ref", "http://h/#/$defs/dN", {}, **{"$id": "http://h/"}),
        doubling(25, "$ref", "dN", {"$id": "http://h/dN"}, **{"$id": "http://h/"}),
        doubling(25, "$ref", "urn:dN", {"$id": "urn:dN"}),
    ],
    ids=["pointer", "escaped", "anchor", "dynamic", "absolute", "relative", "urn"],
)
def test_references_that_multiply_cannot_stop_the_clock(schema: Schema) -> None:
    """25 levels, since each further one doubles the time; a page may send hundreds."""
    hostile = InputSchema(schema)
    assert seconds(lambda: hostile.problem) + seconds(hostile.validate, {"a": 1}) < BUDGET


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_references_that_go_round_in_circles_cannot_stop_the_clock(key: str) -> None:
    """Thirteen definitions that each ask for the next two, the last for the first again."""
    ring = {
        f"d{n}": {key: [{"$ref": f"#/$defs/d{(n + step) % 13}"} for step in (1, 2)]}
        for n in range(13)
    }
    hostile = InputSchema({"$defs": ring, "$ref": "#/$defs/d0"})
    assert seconds(lambda: hostile.problem) + seconds(hostile.validate, {"a": 1}) < BUDGET


def test_types_that_multiply_cannot_stop_the_clock() -> None:
    """Three levels of 80 types; a page may send five of 300."""
    schema: Schema = {"type": "string"}
    for _ in range(3):
        schema = {"type": ["array"] * 80, "items": schema}
    tool = of({"a": schema})
    assert seconds(lambda: tool.signature) < BUDGET


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}])
def test_a_schema_that_is_nothing_but_itself_ends(schema: Schema) -> None:
    assert seconds(InputSchema(schema).validate, {"a": 1}) < BUDGET


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", 0, "b"], "a[0].b"),
        ([0], "[0]"),
        ([0, "a"], "[0].a"),
        (["a", "b", 1, 2], "a.b[1][2]"),
        (["a.b"], "a.b"),
    ],
)
def test_paths_read_like_python(path: list[str | int], text: str) -> None:
    assert json_path(path) == text
