"""Tab completion after ``%pagetools``: verbs, tools, argument names.

Knows IPython's completer, whose matcher API is provisional; where it is missing there is no
completion and nothing else changes.
"""

from __future__ import annotations

import re
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .errors import PageToolsError

_LINE = re.compile(r"%{1,2}pagetools[ \t]+(?P<typed>.*)$")

try:
    from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
except ImportError:  # an IPython without the provisional API
    _matcher: Any = None
else:

    @context_matcher()
    def _matcher(context: CompletionContext) -> dict[str, Any]:
        found = _LINE.search(context.line_with_cursor[: context.cursor_position])
        if found is None:
            return {"completions": []}
        words = found["typed"].split(" ")
        begun = words[-1]
        completions = [SimpleCompletion(c) for c in _options(words[:-1]) if c.startswith(begun)]
        return {
            "completions": completions,
            "matched_fragment": begun,
            "suppress": True,
            "do_not_suppress": set(),
        }


def _options(before: list[str]) -> list[str]:
    """What may come after these words."""
    from .callables import tools
    from .magics import VERBS

    if not before:
        return list(VERBS)
    verb, *rest = before
    if verb not in ("call", "wait"):
        return []
    if not rest:
        return list(tools)
    try:
        properties = tools[rest[0]].schema.properties
    except PageToolsError:
        return []
    given = {word.partition("=")[0].rstrip(":") for word in rest[1:]}
    return [f"{name}=" for name in properties if name not in given] if verb == "call" else []


def install(shell: InteractiveShell) -> None:
    """Add the completion to a shell; once is enough."""
    matchers = getattr(shell.Completer, "custom_matchers", None)
    if _matcher is not None and matchers is not None and _matcher not in matchers:
        matchers.append(_matcher)


def uninstall(shell: InteractiveShell) -> None:
    """Undo `install`."""
    matchers = getattr(shell.Completer, "custom_matchers", None)
    if matchers is not None and _matcher in matchers:
        matchers.remove(_matcher)
