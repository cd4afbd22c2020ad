"""Limits on what pages and callers may say, and how names, schemas and arguments are held to them.

Knows single values. Does not know messages, tools or pages.
"""

from __future__ import annotations

import math
from typing import Any

from .errors import InvalidArgumentsError, MessageError
from .text import brief, kind_of

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
MAX_NAMESPACES = 64
MAX_TOOLS = 256
MAX_NAME_CHARS = 128
MAX_DESCRIPTION_CHARS = 4096
MAX_TITLE_CHARS = 256
MAX_URL_CHARS = 2048
MAX_SCHEMA_DEPTH = 32
MAX_SCHEMA_NODES = 2000
MAX_SCHEMA_CHARS = 64 * 1024
MAX_ARGUMENT_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer a page reads back exactly (ECMAScript Number.MAX_SAFE_INTEGER)."""


def check_name(name: str, path: str) -> None:
    """Refuse a tool or namespace name that a person could not see or type.

    Raises:
        MessageError: If it is empty, over 128 characters, padded, or holds invisible characters.
    """
    if not name:
        raise MessageError("expected a name, got an empty string", path=path)
    if len(name) > MAX_NAME_CHARS:
        raise MessageError(
            f"expected at most {MAX_NAME_CHARS} characters, got {len(name):,}",
            path=path,
            reason="too_large",
        )
    # isprintable() is False for controls, bidi marks, zero-width characters and surrogates.
    if not name.isprintable() or name != name.strip():
        shown = ascii(name if len(name) <= 40 else name[:39] + "…")
        raise MessageError(
            f"expected visible characters, no space around, got {shown}",
            path=path,
        )


def check_tree(tree: object, path: str) -> None:
    """Bound a schema before anything walks, hashes or compiles it.

    Raises:
        MessageError: If it has too many levels, values or characters.
    """
    nodes = chars = 0
    level: list[object] = [tree]
    for _ in range(MAX_SCHEMA_DEPTH):
        children: list[object] = []
        for node in level:
            nodes += 1
            if isinstance(node, dict):
                chars += sum(len(str(key)) for key in node)
                children.extend(node.values())
            elif isinstance(node, list):
                children.extend(node)
            elif isinstance(node, str):
                chars += len(node)
        if nodes > MAX_SCHEMA_NODES or chars > MAX_SCHEMA_CHARS:
            raise MessageError(
                f"expected at most {MAX_SCHEMA_NODES:,} values and {MAX_SCHEMA_CHARS:,} "
                "characters, got more",
                path=path,
                reason="too_large",
            )
        if not children:
            return
        level = children
    raise MessageError(
        f"expected at most {MAX_SCHEMA_DEPTH} levels, got more", path=path, reason="too_large"
    )


def check_arguments(args: object) -> dict[str, Any]:
    """Make sure that arguments reach the page as they are.

    Returns:
        The arguments as plain JSON types, in containers of their own: subclasses such as an
        ``IntEnum`` or a named tuple become what they are made of.

    Raises:
        InvalidArgumentsError: If they are not an object, or hold something JSON or a page's
            numbers cannot carry: NaN, infinity, an integer beyond 2**53 - 1, a key that is no
            string, a value of another type, or more than 64 levels.
    """
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise InvalidArgumentsError(f"expected an object of arguments, got {kind_of(args)}")
    plain: dict[str, Any] = _plain(args, "", MAX_ARGUMENT_DEPTH)
    return plain


def _plain(value: Any, path: str, levels: int) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return _plain_integer(int(value), path)
        case float():
            if not math.isfinite(value):
                raise InvalidArgumentsError(
                    f"expected a finite number, got {value}, which JSON cannot carry", path=path
                )
            return float(value)
        case dict() | list() | tuple() if levels == 0:
            raise InvalidArgumentsError(
                f"expected at most {MAX_ARGUMENT_DEPTH} levels, got more", path=path
            )
        case dict():
            return {
                _plain_key(key, path): _plain(item, f"{path}.{key}" if path else key, levels - 1)
                for key, item in value.items()
            }
        case list() | tuple():
            return [_plain(item, f"{path}[{n}]", levels - 1) for n, item in enumerate(value)]
        case _:
            raise InvalidArgumentsError(
                f"expected a JSON value, got {type(value).__name__}; convert it first", path=path
            )


def _plain_integer(value: int, path: str) -> int:
    if abs(value) > MAX_SAFE_INTEGER:
        raise InvalidArgumentsError(
            f"expected an integer up to 2**53 - 1, got {brief(value, 40)}, which a page would "
            "round; send it as a string",
            path=path,
        )
    return value


def _plain_key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidArgumentsError(f"expected string keys, got {brief(key)}", path=path)
    return str.__str__(key)


def check_timeout(timeout: float | None) -> float | None:
    """Refuse a timeout that is no positive number of seconds and not None.

    Raises:
        InvalidArgumentsError: If so.
    """
    if timeout is None:
        return None
    try:
        seconds = math.nan if isinstance(timeout, (bool, str, bytes)) else float(timeout)
    except OverflowError:
        seconds = math.inf
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds) or seconds <= 0:
        raise InvalidArgumentsError(
            f"expected a positive number of seconds, or None for ever, got {brief(timeout)}",
            path="timeout",
        )
    return None if math.isinf(seconds) else seconds
