"""`cells`: the Python that makes a call, and what connects a page."""

from __future__ import annotations

from typing import Any

import pytest

from pagetools_ipy.browser_tabs import Tab
from pagetools_ipy.callables import Tools
from pagetools_ipy.cells import NOT_TOOLS, call_cell, literal, page_snippets

CELLS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("add", {}, {}, "await tools.add()"),
    ("add", {"title": "milk", "n": 2}, {}, 'await tools.add(title="milk", n=2)'),
    ("add", {"done": True, "note": None}, {}, "await tools.add(done=True, note=None)"),
    ("cart.add", {}, {}, 'await tools["cart.add"]()'),
    ("class", {}, {}, 'await tools["class"]()'),
    ("_x", {}, {}, 'await tools["_x"]()'),
    ("on", {}, {}, 'await tools["on"]()'),
    ("add", {"user-id": 1, "a": 2}, {}, 'await tools.add(a=2, **{"user-id": 1})'),
    ("add", {"from": 1}, {}, 'await tools.add(**{"from": 1})'),
    ("add", {}, {"ns": "todo"}, 'await tools["todo/add"]()'),
    ("add", {}, {"tab": "Shop"}, 'await tabs["Shop"].add()'),
    ("title", {}, {"tab": "Shop"}, 'await tabs["Shop"].tools["title"]()'),
    ("add", {}, {"tab": "Shop", "ns": "todo"}, 'await tabs["Shop"].tools["todo/add"]()'),
]


@pytest.mark.parametrize(("name", "args", "where", "cell"), CELLS)
def test_a_call_is_written_as_a_person_would(
    name: str, args: dict[str, Any], where: dict[str, Any], cell: str
) -> None:
    assert call_cell(name, args, **where) == cell


VALUES = ['"', "'", "\\", "\n", "it's", '"quoted" and it\'s', "é\u2028", "", 1.5, -3, None, True]


@pytest.mark.parametrize("value", [*VALUES, VALUES, {"a": VALUES, 'b"': {}}])
def test_a_literal_is_read_back_as_the_value(value: Any) -> None:
    assert eval(literal(value)) == value


def test_no_attribute_of_tools_or_of_a_tab_is_taken_for_a_tool() -> None:
    own = {name for cls in (Tools, Tab) for name in dir(cls) if not name.startswith("_")}
    assert own | {"id"} <= NOT_TOOLS


def test_the_snippets_name_the_bridge() -> None:
    snippets = page_snippets("http://127.0.0.1:9319")
    assert [s.title for s in snippets] == [
        "In the page",
        "As a bookmark",
        "In the browser's console",
    ]
    assert all("http://127.0.0.1:9319/pagetools.js" in snippet.text for snippet in snippets)
