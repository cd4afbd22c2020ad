"""Arguments as a person types them after ``%pagetools call NAME``, read into typed values.

Knows text and schemas. Does not know magics, tools or calls.
"""

from __future__ import annotations

import builtins
import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .errors import InvalidArgumentsError
from .frames import refuse_constant
from .schema import InputSchema
from .text import brief, kind_of, shorten


class Typed(NamedTuple):
    """One ``key=value`` as it was typed.

    Attributes:
        key: Name of the argument.
        text: The value without quotes.
        quoted: Whether quotes were used.
        json: Whether it can be read as JSON: written with ``:=``, or an array or object.
        bare: Whether it only looks like JSON, for want of ``:=``; a tool that asks for text
            gets the text.
        value: The JSON value, if it is one.
    """

    key: str
    text: str
    quoted: bool = False
    json: bool = False
    bare: bool = False
    value: Any = None


def split_arguments(text: str, options: Options) -> list[Typed]:
    """Take apart ``title="buy milk" count:=3 data=$frame --timeout 5``.

    Args:
        text: What was typed after the tool's name.
        options: Takes what begins with ``--``.

    Raises:
        InvalidArgumentsError: If the text cannot be read, with the argument's name as path.
    """
    found: dict[str, Typed] = {}
    position = options.read(text, 0)
    while position < len(text):
        key, is_json, position = _read_key(text, position)
        if key in found:
            raise InvalidArgumentsError("given twice", path=key)
        found[key], position = _read_value(text, position, key, is_json)
        position = options.read(text, position)
    return list(found.values())


def bind_arguments(
    typed: Iterable[Typed], schema: InputSchema, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Read typed-in values as what a tool asks for.

    Args:
        typed: What `split_arguments` gave.
        schema: The tool's schema.
        variables: Python variables that a value ``$name`` may refer to.

    Raises:
        InvalidArgumentsError: If a value cannot be read as what the schema asks for, or a
            variable does not exist.
    """
    args: dict[str, Any] = {}
    for key, text, quoted, is_json, bare, value in typed:
        asked = schema.properties.get(key)
        kinds = kinds_of(asked)
        if is_json and not (bare and kinds and not {"array", "object"} & set(kinds)):
            args[key] = value
        elif not quoted and text.startswith("$") and text[1:].isidentifier():
            args[key] = _variable(text[1:], variables, key)
        else:
            args[key] = read_typed(text, asked, key, quoted=quoted)
    return args


def skip_space(text: str, position: int) -> int:
    """Position of the next character that is no space."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _read_key(text: str, position: int) -> tuple[str, bool, int]:
    end = position
    while end < len(text) and not text[end].isspace() and text[end] not in "='\"":
        end += 1
    key = text[position:end]
    if end >= len(text) or text[end] != "=" or not key.rstrip(":"):
        raise InvalidArgumentsError(
            f"expected name=value, got {shorten(text[position:], 40)!r}; "
            'write text with spaces as name="…" and JSON as name:=[…]'
        )
    return key.removesuffix(":"), key.endswith(":"), end + 1


def _read_value(text: str, position: int, key: str, is_json: bool) -> tuple[Typed, int]:
    if is_json:
        value, end = _read_json(text, position, key)
        return Typed(key, text[position:end], json=True, value=value), end
    if text[position : position + 1] in ("[", "{") and _is_json(text, position):
        value, end = _read_json(text, position, key)
        return Typed(key, text[position:end], json=True, bare=True, value=value), end
    word, end = read_word(text, position, key)
    return Typed(key, word, quoted=text[position:end] != word), end


def _is_json(text: str, position: int) -> bool:
    """Whether it is JSON, or would be but for NaN; else it is text that begins like JSON."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, position)
    except (ValueError, RecursionError):
        return False
    return not text[end : end + 1].strip()


def _read_json(text: str, position: int, key: str) -> tuple[Any, int]:
    source, offset, end = text, position, -1
    if text[position : position + 1] == "'":  # a shell habit: tags:='["a", "b"]'
        source, end = read_word(text, position, key)
        offset = 0
    try:
        value, stop = json.JSONDecoder(parse_constant=refuse_constant).raw_decode(source, offset)
    except (ValueError, RecursionError) as problem:
        raise InvalidArgumentsError(
            f"expected JSON, got {shorten(text[position:], 40)!r} ({problem})", path=key
        ) from None
    rest = source[stop:] if end >= 0 else source[stop : stop + 1]
    if rest.strip():
        raise InvalidArgumentsError(
            f"expected one JSON value, got more: {shorten(source[stop:], 40)!r}", path=key
        )
    return value, stop if end < 0 else end


def read_word(text: str, position: int, key: str = "") -> tuple[str, int]:
    """Read one shell-like word: quotes group, a backslash escapes a quote or a backslash.

    Returns:
        The word without its quotes, and the position behind it.

    Raises:
        InvalidArgumentsError: If a quote is not closed.
    """
    word: list[str] = []
    quote = ""
    while position < len(text):
        char = text[position]
        if char == "\\" and quote != "'" and text[position + 1 : position + 2] in ("\\", "'", '"'):
            position += 1
            word.append(text[position])
        elif quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "'\"":
            quote = char
        elif char.isspace():
            break
        else:
            word.append(char)
        position += 1
    if quote:
        raise InvalidArgumentsError(f"the quote {quote} is not closed", path=key)
    return "".join(word), position


def quote_word(word: str) -> str:
    """Write ``word`` so that `read_word` reads it as it is."""
    if word and word.isprintable() and not word.startswith("--") and not set(word) & set("'\" \\"):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _variable(name: str, variables: Mapping[str, Any], key: str) -> Any:
    if name in variables:
        return variables[name]
    if hasattr(builtins, name):
        raise InvalidArgumentsError(f"${name} is a builtin, not a variable of yours", path=key)
    close = difflib.get_close_matches(name, list(variables), n=1)
    hint = f"; did you mean ${close[0]}?" if close else "; quote the text if you meant it as it is"
    raise InvalidArgumentsError(f"no variable ${name}{hint}", path=key)


def read_typed(text: str, schema: object, path: str, *, quoted: bool = False) -> Any:
    """Read one typed-in value as what the schema asks for.

    Args:
        text: The value without quotes.
        schema: Schema of this argument; without one, unquoted text that is JSON is taken as
            JSON and everything else as a string.
        path: Name of the argument, for errors.
        quoted: Whether it was written in quotes.

    Raises:
        InvalidArgumentsError: If the text cannot be read as any of the types allowed.
    """
    for option in _options(schema):
        if text == (option if isinstance(option, str) else json.dumps(option)):
            return option
    kinds = kinds_of(schema)
    if not kinds:
        return text if quoted else _json_or_text(text)
    # A string is the last resort: "3" for integer-or-string means the number.
    for kind in sorted(kinds, key=lambda kind: kind == "string"):
        try:
            return _READERS[kind](text)
        except (ValueError, RecursionError):
            continue
    raise InvalidArgumentsError(
        f"expected {' or '.join(kinds)}, got {shorten(text, 60)!r}", path=path
    )


def _options(schema: object) -> list[Any]:
    """Values a schema lists: its ``enum`` or ``const``, or those of its alternatives."""
    if not isinstance(schema, dict):
        return []
    listed = schema.get("enum")
    found = list(listed) if isinstance(listed, list) else []
    found += [schema["const"]] if "const" in schema else []
    for key in ("anyOf", "oneOf"):
        alternatives = schema.get(key)
        for alternative in alternatives if isinstance(alternatives, list) else ():
            found += _options(alternative)
    return found


def kinds_of(schema: object) -> list[str]:
    """JSON types a schema names, in its order; empty when it names none."""
    if not isinstance(schema, dict):
        return []
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return [kinds] if kinds in _READERS else []
    if isinstance(kinds, list):
        return [kind for kind in kinds if kind in _READERS]
    found: list[str] = []
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        for option in options if isinstance(options, list) else ():
            found += [kind for kind in kinds_of(option) if kind not in found]
    return found


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return text


def _read_boolean(text: str) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _read_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _read_as(kind: type) -> Any:
    def read(text: str) -> Any:
        value = json.loads(text, parse_constant=refuse_constant)
        if not isinstance(value, kind):
            raise ValueError(text)
        return value

    return read


_READERS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": _read_number,
    "boolean": _read_boolean,
    "array": _read_as(list),
    "object": _read_as(dict),
    "null": _read_as(type(None)),
}


class Options:
    """Reads ``--tab "My shop" --timeout 5`` between and after other words.

    Args:
        kinds: What each option takes: a function from text to value, or None for a switch.
    """

    def __init__(self, kinds: Mapping[str, Callable[[str], Any] | None]) -> None:
        self._kinds = kinds
        self.values: dict[str, Any] = {}

    def read(self, text: str, position: int) -> int:
        """Read options for as long as there are any; returns the position behind them.

        Raises:
            InvalidArgumentsError: If an option is unknown, lacks its value, or cannot be read.
        """
        position = skip_space(text, position)
        while text.startswith("--", position):
            word, position = read_word(text, position)
            name, has_value, value = word.removeprefix("--").partition("=")
            if name not in self._kinds:
                known = ", ".join(f"--{kind}" for kind in self._kinds) or "none"
                raise InvalidArgumentsError(f"unknown option; there are: {known}", path=word)
            convert = self._kinds[name]
            if convert is None:
                self.values[name] = True
            else:
                if not has_value:
                    position = skip_space(text, position)
                    value, position = read_word(text, position, f"--{name}")
                self.values[name] = _converted(convert, value, f"--{name}")
            position = skip_space(text, position)
        return position


def _converted(convert: Callable[[str], Any], text: str, path: str) -> Any:
    try:
        if not text:
            raise ValueError
        return convert(text)
    except ValueError:
        raise InvalidArgumentsError(f"expected a value, got {text!r}", path=path) from None


def read_body(body: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Read arguments from a cell: JSON, or YAML, whose superset of JSON people like to type.

    Args:
        body: The cell's text; empty gives no arguments.
        variables: Python variables that a value ``$name`` may refer to.

    Raises:
        InvalidArgumentsError: If it is neither, or is not an object.
    """
    looks_like_json = body.lstrip().startswith(("{", "["))
    try:
        value = json.loads(body, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as json_problem:
        import yaml  # loaded when a cell is not JSON

        if looks_like_json and _is_json(body, len(body) - len(body.lstrip())):
            raise InvalidArgumentsError(f"expected JSON in the cell: {json_problem}") from None
        try:
            value = yaml.safe_load(body)
        except Exception as problem:  # its constructors raise whatever Python's do
            told = json_problem if looks_like_json else problem
            raise InvalidArgumentsError(f"expected JSON or YAML in the cell: {told}") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidArgumentsError(f"expected arguments by name in the cell, got {kind_of(value)}")
    for key in value:
        if not isinstance(key, str):
            raise InvalidArgumentsError(f"expected names in the cell, got {brief(key)}; quote it")
    return {
        key: _variable(item[1:], variables, key)
        if isinstance(item, str) and item.startswith("$") and item[1:].isidentifier()
        else item
        for key, item in value.items()
    }
