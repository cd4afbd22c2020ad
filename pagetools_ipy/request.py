"""What a verb of ``%pagetools`` is given, and what all of them need.

Knows IPython's display. Does not know any verb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

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
