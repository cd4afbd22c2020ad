"""Tab completion after ``%pagetools``: verbs, tools, argument names, tabs.

Knows IPython's completer, whose matcher API is provisional; where it is missing there is no
completion and nothing else changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .errors import PageToolsError

_LINE = re.compile(r"%{1,2}pagetools[ \t]+(?P<typed>.*)$")


def install(shell: InteractiveShell, verbs: Iterable[str]) -> None:
    """Add the completion to a shell, in place of an earlier one.

    Args:
        shell: The shell.
        verbs: What may come after ``%pagetools``.
    """
    uninstall(shell)
    matchers = getattr(shell.Completer, "custom_matchers", None)
    try:
        matcher = _matcher(list(verbs))
    except ImportError:
        return
    if matchers is not None:
        matchers.append(matcher)


def uninstall(shell: InteractiveShell) -> None:
    """Undo `install`."""
    matchers = getattr(shell.Completer, "custom_matchers", None)
    if matchers is not None:
        matchers[:] = [m for m in matchers if getattr(m, "__module__", None) != __name__]


def _matcher(verbs: list[str]) -> Callable[..., Any]:
    from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

    @context_matcher()
    def match(context: CompletionContext) -> dict[str, Any]:
        found = _LINE.search(context.line_with_cursor[: context.cursor_position])
        if found is None:
            return {"completions": []}
        *before, begun = found["typed"].split(" ")
        return {
            "completions": [
                SimpleCompletion(option)
                for option in _options(before, verbs)
                if option.startswith(begun)
            ],
            "matched_fragment": begun,
            "suppress": True,
            "do_not_suppress": set(),
        }

    matcher: Callable[..., Any] = match
    return matcher


def _options(before: list[str], verbs: list[str]) -> list[str]:
    """What may come after these words."""
    from .arguments import quote_word
    from .browser_tabs import tabs
    from .callables import tools

    if not before:
        return verbs
    verb, *words = before
    if before[-1] == "--tab" or before == ["pin"]:
        return [quote_word(label) for label in tabs._ipython_key_completions_()]
    if before == ["strict"]:
        return ["on", "off"]
    if before == ["open"]:
        return ["demo"]
    if before == ["doctor"]:
        return [quote_word(tab.url) for tab in tabs]
    rest = _without_options(words)
    if verb not in ("call", "wait"):
        return []
    if not rest:
        return [quote_word(name) for name in tools]
    if verb == "wait":
        return []
    try:
        properties = tools[rest[0]].schema.properties
    except PageToolsError:
        return []
    given = {word.partition("=")[0].rstrip(":") for word in rest[1:]}
    return [f"{name}=" for name in properties if name not in given and quote_word(name) == name]


def _without_options(words: list[str]) -> list[str]:
    """Drop ``--tab Shop`` and the like, which stand before the tool as often as behind it."""
    rest: list[str] = []
    takes_value = False
    for word in words:
        if word.startswith("--"):
            takes_value = "=" not in word and word not in ("--no-validate", "--strict")
        elif takes_value:
            takes_value = False
        else:
            rest.append(word)
    return rest
