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
import json
import keyword
import types
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from .errors import InvalidArgumentsError, kind_of, listing, shorten

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
            rest = next(n for n in ("kwargs", "more", "_kwargs", "_more_") if n not in taken)
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
        for error in validator.iter_errors(args):
            raise InvalidArgumentsError(
                _explain(error), path=json_path(error.instance_path)
            ) from None


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"remote $ref {shorten(uri)} is not fetched")


def _explain(error: Any) -> str:
    """Say what was expected and what came; jsonschema-rs words only where it says it better."""
    kind = error.kind
    if kind.name == "type":
        got = kind_of(error.instance)
        return f"expected {' or '.join(kind.types)}, got {got}{_quoted(error.instance)}"
    if kind.name == "enum":
        options = [json.dumps(option) for option in kind.options]
        return f"expected one of {listing(options, len(options))}, got{_quoted(error.instance)}"
    if kind.name == "required":
        return f"missing required property {json.dumps(kind.property)}"
    if kind.name in ("additionalProperties", "unevaluatedProperties"):
        return f"unknown property {listing([json.dumps(name) for name in kind.unexpected])}"
    return str(error.message)


def _quoted(value: object) -> str:
    if isinstance(value, (dict, list)) or value is None:
        return ""
    return f" {shorten(json.dumps(value), 60)}"


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
        return _union([annotation({**schema, "type": kind}) for kind in kinds])
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


def describe(description: str, schema: InputSchema) -> str:
    """Help text of a tool: the page's own words, then its arguments with theirs."""
    lines = [description.strip() or "The page gives no description."]
    if schema.properties:
        lines += ["", "Args:"]
        for name, sub in schema.properties.items():
            lines.append(f"    {name} ({_type_text(sub, name in schema.required)}): {_about(sub)}")
    if schema.problem:
        lines += ["", f"Arguments are not validated: {schema.problem}"]
    return "\n".join(line.rstrip(": ") if line.startswith("    ") else line for line in lines)


def _about(schema: object) -> str:
    text = schema.get("description") if isinstance(schema, dict) else None
    return " ".join(text.split()) if isinstance(text, str) else ""


def _type_text(schema: object, required: bool) -> str:
    kind = annotation(schema)
    text = "any" if kind is inspect.Parameter.empty else inspect.formatannotation(kind)
    if isinstance(schema, dict) and "default" in schema:
        return f"{text}, default {shorten(json.dumps(schema['default']), 60)}"
    return text if required else f"{text}, optional"
