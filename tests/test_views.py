"""`views`: what others see of tabs and registrations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pagetools_ipy.messages import ToolDescriptor
from pagetools_ipy.views import (
    App,
    FrameView,
    PageToolRegistration,
    TabRef,
    TabState,
    TabView,
    format_page_tools_changed,
)

TAB = TabView(
    id="t1",
    number=0,
    blocked="",
    state=TabState.CONNECTED,
    title="Shop",
    url="http://localhost/",
    visible=False,
    focused=False,
    active=False,
    pinned=False,
    last_focused_at=0.0,
    connected_at=1000.5,
    frames=(
        FrameView("c1", "http://localhost/", "Shop", True, True, False, ("shop",)),
        FrameView("c2", "http://ads/", "Ad", False, True, False, ()),
    ),
    apps=(App("shop", ("buy", "sell"), "1"), App("ad", ("skip",), "2")),
)


@pytest.mark.parametrize(
    ("title", "url", "label"),
    [("Shop", "http://x/", "Shop"), ("", "http://x/", "http://x/"), ("", "", "t1")],
)
def test_a_tab_goes_by_its_title_or_url_or_id(title: str, url: str, label: str) -> None:
    assert replace(TAB, title=title, url=url).label == label


@pytest.mark.parametrize(
    ("changes", "standing"),
    [
        ({}, "hidden"),
        ({"visible": True}, "visible"),
        ({"visible": True, "focused": True}, "focused"),
        ({"focused": True}, "focused"),
        ({"state": TabState.RELOADING, "focused": True}, "reloading"),
        ({"state": TabState.NOT_RESPONDING, "visible": True}, "not responding"),
        ({"state": TabState.ASLEEP}, "asleep"),
        ({"state": TabState.GONE}, "gone"),
    ],
)
def test_where_a_tab_stands_is_how_it_is_seen_unless_something_is_the_matter(
    changes: dict[str, object], standing: str
) -> None:
    assert replace(TAB, **changes).standing == standing  # type: ignore[arg-type]


def test_what_a_person_looks_at_counts_before_what_they_looked_at_last() -> None:
    ranked = [
        replace(TAB, number=None),
        TAB,
        replace(TAB, number=1),
        replace(TAB, last_focused_at=5.0),
        replace(TAB, visible=True),
        replace(TAB, focused=True),
        replace(TAB, active=True),
    ]
    assert sorted(reversed(ranked), key=lambda tab: tab.attention) == ranked
    assert replace(TAB, pinned=True).attention == TAB.attention


def test_what_is_in_a_tab() -> None:
    assert TAB.client_ids == ("c1", "c2")
    assert TAB.namespaces == ("shop", "ad")
    assert TAB.tools == ("shop/buy", "shop/sell", "ad/skip")
    away = replace(TAB, frames=(), apps=())
    assert (away.client_ids, away.namespaces, away.tools) == ((), (), ())


def test_a_tab_in_plain_json() -> None:
    assert TAB.as_client() == {
        "id": "t1",
        "url": "http://localhost/",
        "title": "Shop",
        "visible": False,
        "focused": False,
        "connectedAt": 1000500,
        "tools": ["shop/buy", "shop/sell", "ad/skip"],
    }


def row(
    ns: str, *names: str, active: bool = False, title: str = "", url: str = ""
) -> PageToolRegistration:
    return PageToolRegistration(
        client_id="c1",
        ns=ns,
        url=url,
        tab=TabRef("t1", url, title),
        source=None,
        hash=None,
        digest="",
        tools=tuple(map(ToolDescriptor, names)),
        registered_at=0.0,
        active_tab=active,
        shadowed=False,
    )


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([], "none registered"),
        ([row("shop", active=True, title="Shop")], "none registered"),
        (
            [row("shop", "buy", "sell"), row("shop", "sell", "buy"), row("blog", "buy")],
            "shop/buy, shop/sell, blog/buy",
        ),
        (
            [row("shop", "buy", title="Other"), row("blog", "post", active=True, title="A\nblog")],
            "shop/buy, blog/post (active tab: A blog)",
        ),
        ([row("n", "t", active=True, url="http://x/")], "n/t (active tab: http://x/)"),
    ],
)
def test_the_line_about_a_change_names_each_tool_once_and_the_active_tab(
    rows: list[PageToolRegistration], line: str
) -> None:
    assert format_page_tools_changed(iter(rows)) == f"page tools changed: {line}"
