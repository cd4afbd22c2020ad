"""Every limit in one place, and how names, texts, schemas and arguments are held to them.

Knows single values. Does not know messages, tools or pages.
"""

from __future__ import annotations

import math
import re
from typing import Any

from .errors import InvalidArgumentsError, MessageError, kind_of, shorten

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
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

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


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
        raise MessageError(
            f"expected visible characters, no space around, got {ascii(shorten(name, 40))}",
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


def clean(text: str, limit: int) -> str:
    """Make a page's text safe to show: no control, bidi or invisible characters, bounded."""
    if not text.isprintable():
        text = _ANSI.sub("", text)
        text = "".join(c if c.isprintable() or c in "\n\t" else " " * c.isspace() for c in text)
    return shorten(text, limit)


def check_arguments(args: object) -> dict[str, Any]:
    """Make sure that arguments reach the page as they are.

    Raises:
        InvalidArgumentsError: If they are not an object, or hold something JSON or a page's
            numbers cannot carry: NaN, infinity, an integer beyond 2**53 - 1, a key that is no
            string, a value of another type, or more than 64 levels.
    """
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise InvalidArgumentsError(f"expected an object of arguments, got {kind_of(args)}")
    _check_value(args, "", MAX_ARGUMENT_DEPTH)
    return args


def _check_value(value: object, path: str, levels: int) -> None:
    match value:
        case None | bool() | str():
            return
        case int():
            if abs(value) > MAX_SAFE_INTEGER:
                raise InvalidArgumentsError(
                    f"expected an integer up to 2**53 - 1, got {shorten(str(value), 40)}, which a "
                    "page would round; send it as a string",
                    path=path,
                )
        case float():
            if not math.isfinite(value):
                raise InvalidArgumentsError(
                    f"expected a finite number, got {value}, which JSON cannot carry", path=path
                )
        case dict() | list() | tuple() if levels == 0:
            raise InvalidArgumentsError(
                f"expected at most {MAX_ARGUMENT_DEPTH} levels, got more", path=shorten(path)
            )
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InvalidArgumentsError(
                        f"expected string keys, got {shorten(repr(key))}", path=path
                    )
                _check_value(item, f"{path}.{key}" if path else key, levels - 1)
        case list() | tuple():
            for position, item in enumerate(value):
                _check_value(item, f"{path}[{position}]", levels - 1)
        case _:
            raise InvalidArgumentsError(
                f"expected a JSON value, got {type(value).__name__}; convert it first", path=path
            )
