"""Text for people: made safe to show, bounded, joined.

Knows strings. Everything that a sentence quotes from a page, or from a caller, passes here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SHOWN_ITEMS = 12
"""How many names a sentence lists before it says how many more there are."""

SHOWN_CHARS = 120
"""How much of one name, title or URL a sentence quotes."""


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def clean(text: str, limit: int) -> str:
    """Make a page's text safe to show: no control, bidi or invisible characters, bounded."""
    if not text.isprintable():
        text = _ANSI.sub("", text)
        text = "".join(c if c.isprintable() or c in "\n\t" else " " * c.isspace() for c in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shorten(text: str, limit: int = SHOWN_CHARS) -> str:
    """Make any text fit a sentence: safe to show, on one line, at most ``limit`` characters."""
    if not text.isprintable():
        text = " ".join(clean(text, 2 * limit).split())
    return clean(text, limit)


def brief(value: object, limit: int = SHOWN_CHARS) -> str:
    """What ``value`` looks like, for a sentence; its kind where it cannot be written."""
    try:
        return shorten(repr(value), limit)
    except Exception:  # nested too deeply, too many digits, or an object that cannot be shown
        return kind_of(value)


def listing(items: Iterable[str], total: int | None = None, limit: int = SHOWN_CHARS) -> str:
    """Join names for a sentence, bounded whatever the directory holds."""
    shown = [shorten(item, limit) for _, item in zip(range(SHOWN_ITEMS), items, strict=False)]
    rest = (total or 0) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest > 0 else "")


def count(number: int, noun: str) -> str:
    """A number of things, such as ``1 tab`` or ``1,200 tabs``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def kind_of(value: object) -> str:
    """Name a value's JSON type, for sentences."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
        case _:
            return type(value).__name__


@contextmanager
def stopped_in_one_line(text: str) -> Iterator[None]:
    """Have IPython show an interrupt or a cancellation in here as one line, without our frames."""
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt) as stop:
        lines = [f"{type(stop).__name__}: {text}"]
        stop._render_traceback_ = lambda: lines  # type: ignore[union-attr]
        raise
