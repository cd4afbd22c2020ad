"""Tools and tabs as tables, in plain text and in HTML.

Knows snapshots. Everything a page said is shown as text: escaped in HTML, in columns of a
bounded width in plain text.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from .messages import ToolDescriptor
from .text import shorten
from .views import PageToolRegistration, TabView

MAX_CELL = 1000
"""How many characters of a text a cell holds."""

_TOOL_HEAD = ("TOOL", "TAKES", "DOES", "TAB")
_TOOL_WIDTHS = (36, 44, 48, 28)
_TAB_HEAD = ("NO", "TITLE", "URL", "STATE", "TOOLS", "ID")
_NO_TAB = "No page is connected."
_TAB_WIDTHS = (4, 32, 48, 44, 60, 12)


def tools_text(rows: Sequence[PageToolRegistration]) -> str:
    """The tools in columns: name, what each takes and does, and in which tab it is."""
    return _text(_TOOL_HEAD, _TOOL_WIDTHS, _tool_rows(rows), "No tools are declared.")


def tools_html(rows: Sequence[PageToolRegistration]) -> str:
    """The tools as an HTML table."""
    return _html(_TOOL_HEAD, _tool_rows(rows), "No tools are declared.")


def tabs_text(tabs: Sequence[TabView]) -> str:
    """The tabs in columns: number, title, URL, how it stands, tools, id."""
    return _text(_TAB_HEAD, _TAB_WIDTHS, _tab_rows(tabs), _NO_TAB)


def tabs_html(tabs: Sequence[TabView]) -> str:
    """The tabs as an HTML table."""
    return _html(_TAB_HEAD, _tab_rows(tabs), _NO_TAB)


def _tool_rows(rows: Sequence[PageToolRegistration]) -> list[tuple[str, ...]]:
    return [_tool_row(row, tool) for row in rows for tool in row.tools]


def _tool_row(row: PageToolRegistration, tool: ToolDescriptor) -> tuple[str, ...]:
    schema = tool.input_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    takes = ", ".join(
        name if isinstance(required, list) and name in required else f"[{name}]"
        for name in (properties if isinstance(properties, dict) else ())
    )
    tab = row.tab.title or row.url or row.client_id
    mark = " (shadowed)" if row.shadowed else ""
    return f"{row.ns}/{tool.name}", takes, tool.description, f"{tab}{mark}"


def _tab_rows(tabs: Sequence[TabView]) -> list[tuple[str, ...]]:
    return [
        (
            "" if tab.number is None else str(tab.number),
            tab.title,
            tab.url,
            f"{tab.standing}, pinned" if tab.pinned else tab.standing,
            ", ".join(tab.tools),
            shorten(tab.id, 12),
        )
        for tab in tabs
    ]


def _text(
    head: tuple[str, ...], widths: tuple[int, ...], rows: list[tuple[str, ...]], empty: str
) -> str:
    if not rows:
        return empty
    table = [head, *(tuple(shorten(cell, MAX_CELL) for cell in row) for row in rows)]
    fitting = [
        min(limit, max(len(row[column]) for row in table)) for column, limit in enumerate(widths)
    ]
    return "\n".join(
        "  ".join(
            shorten(cell, width).ljust(width) for cell, width in zip(row, fitting, strict=True)
        ).rstrip()
        for row in table
    )


def _html(head: tuple[str, ...], rows: list[tuple[str, ...]], empty: str) -> str:
    if not rows:
        return f"<p>{empty}</p>"
    left = " style='text-align:left'"
    names = "".join(f"<th{left}>{name.lower()}</th>" for name in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td{left}>{html.escape(shorten(cell, MAX_CELL))}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
