"""A tool's JSON Schema seen from Python: signature, help text, validation.

Knows schemas. Does not know tools, tabs or calls.

Page schemas are untrusted: only local ``$ref`` is followed, patterns run in a linear-time or
bounded engine (jsonschema-rs), and a schema that cannot be compiled switches validation off
for its tool, with the reason kept, instead of making the tool unusable.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import itertools
import json
import keyword
import types
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import unquote

from .errors import InvalidArgumentsError
from .text import SHOWN_CHARS, brief, clean, kind_of, listing, shorten

_OPENERS = (
    "patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf",
    "if", "$ref", "$dynamicRef", "dependentSchemas",
)  # fmt: skip
"""Keywords beside ``properties`` through which a schema may allow further arguments."""

_PYTHON_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}


MAX_HELP_CHARS = 20_000

MAX_EXPANSION = 20_000
"""How many subschemas a schema may come to once each ``$ref`` is followed; one that refers to
itself many times over would keep the validator, and the kernel with it, busy for ever."""


MAX_UNFOLLOWED = 16
"""How many references by anchor, by identifier or at run time a schema may hold. They are not
followed to count; fewer than these cannot multiply to much."""


class _Omitted:
    """Default of an optional argument: it is left out, which is not the same as None."""

    def __repr__(self) -> str:
        return "<omitted>"


OMITTED = _Omitted()


class _Validator(Protocol):
    """The part of a jsonschema-rs validator that is used here."""

    def iter_errors(self, instance: Any) -> Any: ...


class InputSchema:
    """One tool's input schema, compiled at first use and kept for the tool's life.

    Args:
        schema: JSON Schema of the arguments object; None or ``{}`` accepts anything.

    Attributes:
        properties: Declared arguments, name to schema.
        required: Names that must be given.
        open: Whether arguments that are not declared are allowed.
    """

    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        self.schema = dict(schema or {})
        properties = self.schema.get("properties")
        self.properties: dict[str, Any] = properties if isinstance(properties, dict) else {}
        required = self.schema.get("required")
        self.required = frozenset(
            name
            for name in (required if isinstance(required, list) else ())
            if isinstance(name, str)
        )
        self.open = self._is_open()

    def _is_open(self) -> bool:
        # JSON Schema lets undeclared arguments through unless told otherwise, and hardly any
        # page says so; a misspelt keyword would vanish without a word. So an argument list is
        # taken as complete unless the schema opens it in some explicit way.
        extra = self.schema.get("additionalProperties")
        if extra is not None:
            return extra is not False
        return not self.properties or any(key in self.schema for key in _OPENERS)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """Signature with a keyword-only parameter for each argument that Python can name."""
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if name in self.required else self._default(sub),
                annotation=annotation(sub),
            )
            for name, sub in self.properties.items()
            if name.isidentifier() and not keyword.iskeyword(name)
        ]
        parameters.sort(key=lambda p: p.default is not inspect.Parameter.empty)
        if self.open or len(parameters) < len(self.properties):
            taken = {p.name for p in parameters}
            underscores = itertools.count(0)
            rest = next(n for u in underscores if (n := "kwargs" + "_" * u) not in taken)
            parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature(parameters)

    @staticmethod
    def _default(schema: object) -> Any:
        return schema["default"] if isinstance(schema, dict) and "default" in schema else OMITTED

    @functools.cached_property
    def _compiled(self) -> tuple[_Validator | None, str | None]:
        import jsonschema_rs  # loaded at the first call, not at %load_ext

        if not self.schema:
            return None, None
        try:
            if _expansion(self.schema) > MAX_EXPANSION:
                return None, f"its references come to more than {MAX_EXPANSION:,} subschemas"
            # Page schemas use "format" for things that are no formats, such as a regular
            # expression for colours, so formats are not asserted.
            return jsonschema_rs.validator_for(
                self.schema, validate_formats=False, retriever=_refuse_remote
            ), None
        except (ValueError, TypeError, RecursionError) as problem:
            return None, shorten(str(problem).splitlines()[0], 300)

    @property
    def problem(self) -> str | None:
        """Why the schema cannot be used for validation, or None."""
        return self._compiled[1]

    def bind(self, args: Mapping[str, Any]) -> None:
        """Check that the names are ones the tool knows.

        Raises:
            InvalidArgumentsError: If a required argument is missing, or one is not declared
                and the schema does not open itself to others.
        """
        # A misspelt name first: it usually explains why another one is missing.
        for name in () if self.open else args:
            if name not in self.properties:
                close = difflib.get_close_matches(name, self.properties, n=1)
                hint = f'did you mean "{close[0]}"? ' if close else ""
                raise InvalidArgumentsError(f"unknown argument; {hint}{self._takes()}", path=name)
        missing = [name for name in self.properties if name in self.required and name not in args]
        if missing:
            raise InvalidArgumentsError(
                f"missing; {self._takes()}", path=listing(missing, len(missing))
            )

    def _takes(self) -> str:
        if not self.properties:
            return "the tool takes no arguments"
        names = [name if name in self.required else f"[{name}]" for name in self.properties]
        return f"the tool takes {listing(names, len(names))}"

    def validate(self, args: Mapping[str, Any]) -> None:
        """Check the values against the schema.

        Raises:
            InvalidArgumentsError: At the first value that does not fit, with its path.
        """
        validator, _ = self._compiled
        if validator is None:
            return
        try:
            error = next(iter(validator.iter_errors(args)), None)
        except UnicodeEncodeError:
            return  # a lone surrogate, which JSON allows and the validator cannot read
        if error is not None:
            raise InvalidArgumentsError(_explain(error), path=json_path(error.instance_path))


def _expansion(root: dict[str, Any]) -> int:
    """How many subschemas ``root`` comes to once local references are followed.

    A reference back to where it came from counts once if it lies deeper in the arguments: how
    often it is followed then depends on them, and they are the caller's own. One at the same
    place would be followed for ever.
    """
    sizes: dict[int, int] = {}
    open_at: dict[int, int] = {}
    places = itertools.count(1)
    unfollowed = 0

    def size(node: Any, place: int) -> int:
        nonlocal unfollowed
        if not isinstance(node, (dict, list)):
            return 0
        if id(node) in open_at:
            return MAX_EXPANSION + 1 if open_at[id(node)] == place else 1
        if id(node) in sizes:
            return sizes[id(node)]
        open_at[id(node)] = place
        total = 1
        for key, child in node.items() if isinstance(node, dict) else (("", c) for c in node):
            stays = isinstance(node, list) or key in _IN_PLACE
            total += size(child, place if stays else next(places))
        for reference in _references(node):
            if reference == "#" or reference.startswith("#/"):
                total += size(_local(root, reference), place)
            else:
                unfollowed += 1
        del open_at[id(node)]
        sizes[id(node)] = min(total, MAX_EXPANSION + 1)
        return sizes[id(node)]

    total = size(root, 0)
    return total if unfollowed <= MAX_UNFOLLOWED else MAX_EXPANSION + 1


_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
"""Keywords whose subschemas look at the same place in the arguments."""


def _references(node: Any) -> list[str]:
    """References that a schema makes; those made at run time with a mark that is no pointer."""
    if not isinstance(node, dict):
        return []
    named = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return named + ["?" for key in ("$dynamicRef", "$recursiveRef") if key in node]


def _local(root: Any, reference: str) -> Any:
    """The part of ``root`` that a local JSON pointer names; None when there is none."""
    target = root
    for step in unquote(reference).removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdigit() and int(name) < len(target):
            target = target[int(name)]
        elif isinstance(target, dict):
            target = target.get(name)
        else:
            return None
    return target


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"remote $ref {shorten(uri)} is not fetched")


def _explain(error: Any) -> str:
    """Say what was expected and what came; jsonschema-rs words only where it says it better."""
    kind = error.kind
    if kind.name == "type":
        return f"expected {' or '.join(kind.types)}, got {_got(error.instance)}"
    if kind.name == "enum":
        options = [_json(option, SHOWN_CHARS) for option in kind.options]
        got = error.instance
        shown = kind_of(got) if isinstance(got, (list, dict)) else _json(got, 60)
        return f"expected one of {listing(options, len(options))}, got {shown}"
    if kind.name == "required":
        return f"missing required property {_json(kind.property, SHOWN_CHARS)}"
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        names = [_json(name, SHOWN_CHARS) for name in kind.unexpected]
        return f"unknown property {listing(names, len(names))}"
    return shorten(error.message, 300)


def _got(value: object) -> str:
    kind = kind_of(value)
    return kind if kind in ("array", "object", "null") else f"{kind} {_json(value, 60)}"


def _json(value: object, limit: int) -> str:
    return shorten(json.dumps(value, default=brief), limit)


def json_path(path: list[str | int]) -> str:
    """Write a path the way a programmer reads it, such as ``items[2].price``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def annotation(schema: object) -> Any:
    """Python type that says what a schema means, for signatures; empty when it says nothing."""
    if not isinstance(schema, dict):
        return inspect.Parameter.empty
    options = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if isinstance(options, list) and all(isinstance(o, (str, int, bool)) for o in options):
        return Literal[tuple(options)] if len(options) <= 12 else type(options[0])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return _union([annotation(option) for option in schema[key]])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        # Each kind once: a list of equal kinds in nested items would double at every level.
        distinct = dict.fromkeys(kind for kind in kinds if isinstance(kind, str))
        return _union([annotation({**schema, "type": kind}) for kind in distinct])
    if kinds == "array":
        item = annotation(schema.get("items"))
        return list if item is inspect.Parameter.empty else types.GenericAlias(list, (item,))
    if not isinstance(kinds, str):
        return inspect.Parameter.empty
    return _PYTHON_TYPES.get(kinds, inspect.Parameter.empty)


def _union(kinds: list[Any]) -> Any:
    if not kinds or inspect.Parameter.empty in kinds:
        return inspect.Parameter.empty
    joined = kinds[0]
    for kind in kinds[1:]:
        try:
            joined = joined | kind
        except TypeError:  # None | None, or a Literal beside None on some versions
            return inspect.Parameter.empty
    return joined


class Parameter(NamedTuple):
    """An argument in words: its type as Python writes it, and what the page says of it."""

    name: str
    type: str
    required: bool
    default: str | None
    description: str


def describe_parameters(schema: InputSchema) -> list[Parameter]:
    """The declared arguments in words."""
    return [
        Parameter(shorten(name), _type(sub), name in schema.required, _default(sub), _about(sub))
        for name, sub in schema.properties.items()
    ]


def describe(description: str, schema: InputSchema) -> str:
    """Help text of a tool: the page's own words, then its arguments with theirs."""
    lines = [description.strip() or "The page gives no description."]
    if schema.properties:
        lines += ["", "Args:"]
        for name, kind, required, default, about in describe_parameters(schema):
            mark = f", default {default}" if default else "" if required else ", optional"
            lines.append(f"    {name} ({kind}{mark})" + (f": {about}" if about else ""))
    if schema.problem:
        lines += ["", f"Arguments are not validated: {schema.problem}"]
    return clean("\n".join(lines), MAX_HELP_CHARS)


def _about(schema: object) -> str:
    text = schema.get("description") if isinstance(schema, dict) else None
    return shorten(text, 1000) if isinstance(text, str) else ""


def _type(schema: object) -> str:
    kind = annotation(schema)
    return "any" if kind is inspect.Parameter.empty else shorten(inspect.formatannotation(kind))


def _default(schema: object) -> str | None:
    if isinstance(schema, dict) and "default" in schema:
        return _json(schema["default"], 60)
    return None
