"""The Python cell that makes a call, and what to put into a page to connect it.

Knows how either is written. Does not know the bridge.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any, NamedTuple

NOT_TOOLS = frozenset(
    "active answer_dialog blocked client_ids connected_at focused frames getdoc id "
    "last_focused_at mro namespaces navigate on pin pinned registrations reload screenshot state "
    "title tools url visible wait_for".split()
)
"""Attributes of ``tools`` and of a `Tab` that are no tools, whatever a page declares."""


def call_cell(
    name: str, args: Mapping[str, Any], *, ns: str | None = None, tab: str | None = None
) -> str:
    """The cell that calls a tool.

    Args:
        name: The tool.
        args: Its arguments.
        ns: Namespace, where the name alone would not do.
        tab: Title or identifier of the tab, where another one would answer.
    """
    holder = "tools" if tab is None else f"tabs[{literal(tab)}]"
    if ns is None and _is_plain(name) and name not in NOT_TOOLS:
        callee = f"{holder}.{name}"
    else:
        holder = holder if tab is None else f"{holder}.tools"
        callee = f"{holder}[{literal(name if ns is None else f'{ns}/{name}')}]"
    plain = [f"{key}={literal(value)}" for key, value in args.items() if _is_plain(key)]
    odd = {key: value for key, value in args.items() if not _is_plain(key)}
    if odd:
        plain.append(f"**{literal(odd)}")
    return f"await {callee}({', '.join(plain)})"


def _is_plain(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def literal(value: Any) -> str:
    """A JSON value as Python writes it, with double quotes."""
    match value:
        case str():
            text = repr(value)
            inner = text[1:-1]
            return f'"{inner}"' if text[0] == "'" and '"' not in inner else text
        case dict():
            items = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
            return f"{{{', '.join(items)}}}"
        case list() | tuple():
            return f"[{', '.join(literal(item) for item in value)}]"
        case _:
            return repr(value)


class Snippet(NamedTuple):
    """Text to put somewhere."""

    title: str
    text: str


def page_snippets(url: str) -> list[Snippet]:
    """What connects a page to the bridge at ``url``."""
    script = f"{url}/pagetools.js"
    load = f"const s=document.createElement('script');s.type='module';s.src='{script}'"
    return [
        Snippet("In the page", f'<script type="module" src="{script}"></script>'),
        Snippet("As a bookmark", f"javascript:(()=>{{{load};document.head.append(s)}})()"),
        Snippet("In the browser's console", f"await import('{script}')"),
    ]


DECLARE = Snippet(
    "Then, in the page",
    "pagetools.register('shop', [{name: 'search', description: 'Search the shop',\n"
    "  inputSchema: {type: 'object', properties: {q: {type: 'string'}}, required: ['q']},\n"
    "  execute: async ({q}) => ({hits: await search(q)})}])",
)
"""How a page declares tools."""
