"""`tables`: tools and tabs in columns and in HTML, everything a page said as text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from pagetools_ipy import PageToolDirectory
from pagetools_ipy.tables import tabs_html, tabs_text, tools_html, tools_text
from pagetools_ipy.views import TabState

from .helpers import Clock, FakePage, counted_ids, tool


def make_directory() -> PageToolDirectory:
    return PageToolDirectory(now=Clock(), new_id=counted_ids("c"))


def shop(directory: PageToolDirectory, number: int = 1, title: str = "Shop") -> FakePage:
    page = FakePage(directory)
    page.hello(f"tab-{number}", doc=f"d{number}", title=title, url="http://localhost/shop")
    page.register(
        "shop",
        tool(
            "buy",
            description="Buys a thing.\n\nNow.",
            inputSchema={
                "properties": {"thing": {}, "count": {"type": "integer"}},
                "required": ["thing"],
            },
        ),
        tool("list"),
    )
    return page


def cells(html: str) -> list[list[str]]:
    """The texts of a table's cells, as a browser reads them."""

    class Reader(HTMLParser):
        rows: list[list[str]]
        tags: set[str]

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.tags.add(tag)
            if tag == "tr":
                self.rows.append([])
            if tag in ("td", "th"):
                self.rows[-1].append("")

        def handle_data(self, data: str) -> None:
            self.rows[-1][-1] += data

    reader = Reader()
    reader.rows, reader.tags = [], set()
    reader.feed(html)
    assert reader.tags == {"table", "thead", "tbody", "tr", "th", "td"}
    return reader.rows


def test_nothing_is_said_in_words() -> None:
    assert tools_text([]) == "No tools are declared."
    assert tools_html([]) == "<p>No tools are declared.</p>"
    assert tabs_text([]) == "No page is connected."
    assert tabs_html([]) == "<p>No page is connected.</p>"


def test_tools_are_shown_with_what_they_take_and_do_and_where_they_are() -> None:
    directory = make_directory()
    shop(directory)
    assert tools_text(directory.list()) == (
        "TOOL       TAKES           DOES                TAB\n"
        "shop/buy   thing, [count]  Buys a thing. Now.  Shop\n"
        "shop/list                  Does list           Shop"
    )
    assert cells(tools_html(directory.list())) == [
        ["tool", "takes", "does", "tab"],
        ["shop/buy", "thing, [count]", "Buys a thing. Now.", "Shop"],
        ["shop/list", "", "Does list", "Shop"],
    ]


def test_tools_that_another_tab_answers_for_are_marked() -> None:
    directory = make_directory()
    shop(directory, 1, "Old")
    shop(directory, 2, "New")
    lines = tools_text(directory.list()).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines] == [
        "TAB",
        "Old (shadowed)",
        "Old (shadowed)",
        "New",
        "New",
    ]


def test_tabs_are_shown_with_how_they_are_seen() -> None:
    directory = make_directory()
    shop(directory).state(1, title="Shop", url="http://localhost/shop", visible=True)
    FakePage(directory).hello("t2", doc="x", title="Mail", url="http://localhost/mail")
    FakePage(directory).hello("t3", doc="y", visible=True, focused=True, title="", url="")
    directory.pin("t2")
    assert tabs_text(directory.tabs()) == (
        "NO  TITLE  URL                    STATE           TOOLS                ID\n"
        "0   Shop   http://localhost/shop  visible         shop/buy, shop/list  tab-1\n"
        "1   Mail   http://localhost/mail  hidden, pinned                       t2\n"
        "2                                 focused                              t3"
    )
    assert cells(tabs_html(directory.tabs())) == [
        ["no", "title", "url", "state", "tools", "id"],
        ["0", "Shop", "http://localhost/shop", "visible", "shop/buy, shop/list", "tab-1"],
        ["1", "Mail", "http://localhost/mail", "hidden, pinned", "", "t2"],
        ["2", "", "", "focused", "", "t3"],
    ]


def test_a_tab_whose_page_is_away_is_shown_with_what_it_was() -> None:
    clock = Clock()
    directory = PageToolDirectory(now=clock, new_id=counted_ids("c"))
    page, other = shop(directory, 1), shop(directory, 2, "Other")
    page.disconnect()
    other.disconnect()
    for seconds, number, state in ((0.0, "0", "reloading"), (5.0, "", "gone")):
        clock.now += seconds
        row = cells(tabs_html(directory.tabs(all=True)))[1]
        assert row == [
            number,
            "Shop",
            "http://localhost/shop",
            state,
            "shop/buy, shop/list",
            "tab-1",
        ]


def test_a_tab_without_a_title_goes_by_its_url_or_its_connection() -> None:
    directory = make_directory()
    FakePage(directory).register("a", "x", url="http://localhost/a")
    FakePage(directory).register("b", "y")
    lines = tools_text(directory.list()).splitlines()
    assert [line.split()[-1] for line in lines] == ["TAB", "http://localhost/a", "c2"]


@pytest.mark.parametrize("state", list(TabState))
def test_there_is_room_for_a_tabs_state_and_that_it_is_pinned(state: TabState) -> None:
    directory = make_directory()
    shop(directory)
    directory.pin(0)
    view = replace(directory.tab(0), state=state, visible=True)
    assert f"{view.standing}, pinned  " in tabs_text([view])


def test_columns_have_bounds_whatever_a_page_says() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello("i" * 100, title="t" * 200, url="u" * 200)
    wide = tool(
        "x" * 128,
        description="d" * 4000,
        inputSchema={"properties": {f"p{i}": {} for i in range(99)}},
    )
    page.register("n" * 128, wide, *[f"tool{number}" for number in range(50)])
    lines = tools_text(directory.list()).splitlines()
    assert len(lines) == 52
    assert max(map(len, lines)) == 36 + 44 + 48 + 28 + 3 * 2
    row = lines[1]
    assert (row[35], row[36:38], row[81]) == ("…", "  ", "…")
    (head, row) = tabs_text(directory.tabs()).splitlines()
    assert len(row) == 2 + 32 + 48 + len("hidden") + 60 + 12 + 5 * 2
    assert head.split() == ["NO", "TITLE", "URL", "STATE", "TOOLS", "ID"]
    assert row.endswith("  " + "i" * 11 + "…")


def test_line_breaks_in_a_pages_words_break_no_row() -> None:
    directory = make_directory()
    FakePage(directory).register("n", tool("a", description="x\n\ty\n\n z"))
    assert tools_text(directory.list()).splitlines()[1].split() == ["n/a", "x", "y", "z", "c1"]


@pytest.mark.parametrize(
    "words", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a & b", "\"'`<b>"]
)
def test_markup_in_a_pages_words_is_shown_and_not_obeyed(words: str) -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello(words, title=words, url=words)
    schema = {"properties": {words: {}}, "required": [words]}
    page.register(words, tool(words, description=words, inputSchema=schema))
    assert cells(tools_html(directory.list()))[1] == [f"{words}/{words}", words, words, words]
    tab = cells(tabs_html(directory.tabs()))[1]
    assert tab[1:-1] == [words, words, "hidden", f"{words}/{words}"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": None, "required": 3},
        {"properties": {"a": 3}, "required": "a"},
        {"properties": {"a": {}}, "required": {"a": 1}},
        {"properties": {"a": {}}, "required": [["a"], None]},
    ],
)
def test_odd_schemas_are_shown_too(schema: Any) -> None:
    directory = make_directory()
    FakePage(directory).register("n", tool("t", inputSchema=schema))
    assert tools_text(directory.list()).splitlines()[1].startswith("n/t")
    assert cells(tools_html(directory.list()))[1][0] == "n/t"


def test_names_of_arguments_hold_nothing_that_a_terminal_would_obey() -> None:
    directory = make_directory()
    hostile = "\x1b[31mred\x1b]0;title\x07\u202e\u200b\x9b"
    FakePage(directory).register("n", tool("t", inputSchema={"properties": {hostile: {}}}))
    for shown in (tools_text(directory.list()), tools_html(directory.list())):
        assert [char for char in shown if not char.isprintable() and char != "\n"] == []
