"""What a verb of ``%pagetools`` is given, and what all of them need.

Knows IPython's display. Does not know any verb.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

if TYPE_CHECKING:
    from .bridge import Bridge


class Request(NamedTuple):
    """What a verb is given.

    Attributes:
        shell: The shell it was typed in.
        line: What follows the verb.
        cell: The cell's text, for a cell magic.
        variables: Python variables that ``$name`` may refer to.
    """

    shell: InteractiveShell
    line: str = ""
    cell: str | None = None
    variables: Mapping[str, Any] = {}


def the_bridge() -> Bridge:
    """The running bridge.

    Raises:
        BridgeError: If none is running.
    """
    from . import bridge

    return bridge.current()


def page_address(request: Request, typed: str) -> str:
    """What a person types into an address bar, as a URL; ``demo``, a variable as ``$name`` and
    the path of a file as well."""
    if typed == "demo":
        return f"{the_bridge().url}/demo"
    if typed.startswith("$") and typed[1:] in request.variables:
        return str(request.variables[typed[1:]])
    if not typed:
        raise UsageError("which page? `%pagetools open URL`")
    if re.match(r"[a-z][a-z0-9+.-]*:(?![0-9])", typed, re.IGNORECASE):
        return typed
    if Path(typed).exists():
        return Path(typed).resolve().as_uri()
    host = urlsplit(f"//{typed}").hostname or ""
    is_here = host in ("localhost", "127.0.0.1", "::1") or host.endswith(".localhost")
    return f"{'http' if is_here else 'https'}://{typed}"


def words_and_options(
    line: str, kinds: dict[str, Callable[[str], Any] | None]
) -> tuple[list[str], dict[str, Any]]:
    """Read a line of words with options before, between and after them.

    Args:
        line: The line.
        kinds: As for `Options`.
    """
    from .arguments import Options, read_word

    options, words = Options(kinds), []
    position = options.read(line, 0)
    while position < len(line):
        word, position = read_word(line, position)
        words.append(word)
        position = options.read(line, position)
    return words, options.values


def only_options(line: str, kinds: dict[str, Callable[[str], Any] | None]) -> dict[str, Any]:
    """Read a line of options; see `words_and_options`.

    Raises:
        UsageError: If there is a word that is none.
    """
    words, options = words_and_options(line, kinds)
    if words:
        raise UsageError(f"unexpected {words[0]!r}; `%pagetools help` shows what there is")
    return options


def one_word(
    line: str, kinds: dict[str, Callable[[str], Any] | None]
) -> tuple[str, dict[str, Any]]:
    """Read a line of one word at most, and options; see `words_and_options`.

    Raises:
        UsageError: If there are more words.
    """
    words, options = words_and_options(line, kinds)
    if len(words) > 1:
        raise UsageError(f"unexpected {words[1]!r}; `%pagetools help` shows what there is")
    return (words[0] if words else ""), options


def show(text: str, html: str) -> None:
    """Show something in a notebook, or as text where there is none."""
    display({"text/plain": text, "text/html": html}, raw=True)
