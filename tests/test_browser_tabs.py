"""`browser_tabs`: tabs as Python objects that always tell how things are."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pagetools_ipy import bridge as bridges, browser_tabs, host as hosts, tabs
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.browser_tabs import Tab, Tabs, list_clients
from pagetools_ipy.connections import GONE_SECONDS, RELOAD_SECONDS
from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.errors import BridgeError, TabNotFoundError, ToolNotFoundError
from pagetools_ipy.views import TabState

from .conftest import NewPage
from .helpers import Clock, FakePage, Message, counted_ids, run


class Desk:
    """A bridge whose host is the calling thread, and the tabs of it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.directory = PageToolDirectory(now=self.clock, new_id=counted_ids("c"))
        self.host = self
        self.is_running = True
        self.tabs = Tabs(self._current)

    def run(self, function: Callable[[], Any]) -> Any:
        return function()

    def _current(self) -> Any:
        if not self.is_running:
            raise BridgeError("the bridge is not running")
        return self

    def page(
        self,
        tab: str,
        *tools: str,
        handlers: dict[str, Callable[[Message], Any]] | None = None,
        **seen: Any,
    ) -> FakePage:
        self.clock.now += 1
        page = FakePage(self.directory, handlers)
        page.hello(tab, doc=f"document of {page.client_id}", **seen)
        if tools:
            page.register("shop", *tools)
        return page


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def shop(desk: Desk) -> FakePage:
    return desk.page("t1", "buy", title="Shop", url="http://localhost/shop", visible=True)


@pytest.fixture
def blog(desk: Desk, shop: FakePage) -> FakePage:
    return desk.page("t2", title="Blog", url="http://localhost/blog")


# One tab


def test_a_tab_tells_how_it_is_now(desk: Desk, shop: FakePage) -> None:
    tab = desk.tabs[0]
    assert (tab.id, tab.title, tab.url) == ("t1", "Shop", "http://localhost/shop")
    assert (tab.state, tab.visible, tab.focused) == (TabState.CONNECTED, True, False)
    assert (tab.active, tab.pinned, tab.last_focused_at) == (False, False, 0.0)
    assert (tab.connected_at, tab.client_ids) == (1001.0, (shop.client_id,))
    assert tab.namespaces == ("shop",)
    assert [(frame.client_id, frame.top) for frame in tab.frames] == [(shop.client_id, True)]
    desk.clock.now += 5
    shop.state(1, title="Cart", url="http://localhost/cart", visible=True, focused=True)
    shop.say("register", ns="cart", tools=[], tab={"chromeTabId": 7})
    shop.say("activation", tab={"chromeTabId": 7}, active=True)
    assert (tab.id, tab.title, tab.url) == ("t1", "Cart", "http://localhost/cart")
    assert (tab.focused, tab.active, tab.last_focused_at) == (True, True, 1006.0)


def test_a_tab_that_is_gone_tells_what_was_known_of_it(desk: Desk, shop: FakePage) -> None:
    shop.state(1, title="Shop", url="http://localhost/shop", visible=True, focused=True)
    tab = desk.tabs[0]
    tab.pin()
    shop.disconnect()
    for seconds, state in (
        (0.0, TabState.RELOADING),
        (RELOAD_SECONDS, TabState.GONE),
        (GONE_SECONDS, TabState.GONE),
    ):
        desk.clock.now += seconds
        desk.directory._tabs.age()
        assert tab.state is state
        assert (tab.title, tab.url, tab.namespaces) == ("Shop", "http://localhost/shop", ("shop",))
        assert (tab.visible, tab.focused, tab.active) == (False, False, False)
        assert (tab.frames, tab.client_ids, tab.last_focused_at) == ((), (), 1001.0)
        assert tab.pinned


def test_a_tab_outlives_the_bridge(desk: Desk, shop: FakePage) -> None:
    tab = desk.tabs[0]
    desk.is_running = False
    assert (tab.state, tab.title, tab.visible) == (TabState.GONE, "Shop", False)
    assert repr(tab) == '<Tab "Shop" http://localhost/shop, gone, 1 tool>'
    with pytest.raises(BridgeError):
        tab.pin()
    desk.is_running = True
    assert tab.state is TabState.CONNECTED


def test_a_tab_is_the_same_one_after_a_reload(desk: Desk, shop: FakePage, blog: FakePage) -> None:
    tab = desk.tabs["Shop"]
    shop.disconnect()
    assert tab.state is TabState.RELOADING
    desk.page("t1", title="Shop again")
    assert (tab.state, tab.title) == (TabState.CONNECTED, "Shop again")
    assert desk.tabs[0] == tab


def test_tabs_are_equal_when_they_are_the_same_tab(
    desk: Desk, shop: FakePage, blog: FakePage
) -> None:
    one, again, other = desk.tabs["t1"], desk.tabs[0], desk.tabs[1]
    assert one == again
    assert one != other
    assert one != "t1"
    assert len({one, again, other}) == 2


@pytest.mark.parametrize(
    ("seen", "declared", "expected"),
    [
        (
            {"title": "Shop", "url": "http://shop/", "focused": True},
            1,
            '<Tab 0 "Shop" http://shop/, focused, 1 tool>',
        ),
        ({"title": "", "url": "http://shop/"}, 2, '<Tab 0 "http://shop/", hidden, 2 tools>'),
        ({"title": "", "url": "", "visible": True}, 0, '<Tab 0 "t1", visible, 0 tools>'),
        (
            {"title": "x" * 100, "url": "u" * 100},
            250,
            f'<Tab 0 "{"x" * 59}…" {"u" * 79}…, hidden, 250 tools>',
        ),
    ],
)
def test_a_tab_is_shown_in_one_line(
    desk: Desk, seen: Message, declared: int, expected: str
) -> None:
    desk.page("t1", *[f"tool{number}" for number in range(declared)], **seen)
    assert repr(desk.tabs[0]) == expected


def test_a_tab_is_shown_as_a_table_of_one_row(desk: Desk, shop: FakePage, blog: FakePage) -> None:
    html = desk.tabs[1]._repr_html_()
    assert html.count("<tr>") == 2
    assert "Blog" in html


def test_a_tab_that_went_before_another_does_not_change_what_its_handle_means(
    desk: Desk, shop: FakePage, blog: FakePage
) -> None:
    tab = desk.tabs[1]
    shop.disconnect()
    desk.clock.now += RELOAD_SECONDS
    assert repr(tab).startswith('<Tab 0 "Blog"')


# Its tools


def test_a_tabs_tools_are_its_attributes(desk: Desk) -> None:
    for tab in ("t1", "t2"):
        desk.page(tab, "buy", "title", handlers={"buy": lambda args, tab=tab: [tab, args]})

    async def scenario() -> None:
        for tab in desk.tabs:
            assert await tab.buy(n=1) == [tab.id, {"n": 1}]
            assert await tab.shop.buy() == [tab.id, {}]
            assert await tab.tools["shop/buy"]() == [tab.id, {}]

    run(scenario())
    assert desk.tabs[0].title == "Page"
    assert desk.tabs[0].tools.title.full_name == "shop/title"


def test_what_is_no_tool_of_the_tab_is_no_attribute(
    desk: Desk, shop: FakePage, blog: FakePage
) -> None:
    tab = desk.tabs["Blog"]
    with pytest.raises(ToolNotFoundError) as raised:
        _ = tab.buy
    assert raised.value.scope == 'in tab "Blog"'
    assert not hasattr(tab, "buy")
    for name in ("_repr_png_", "__wrapped__", "_ipython_display_", "getdoc"):
        assert not hasattr(tab, name), name


@pytest.mark.parametrize(
    ("seconds", "state"),
    [
        (0.0, "reloading"),
        (RELOAD_SECONDS, "gone"),
    ],
)
def test_a_call_to_a_tab_that_is_away_goes_nowhere(
    desk: Desk, shop: FakePage, blog: FakePage, seconds: float, state: str
) -> None:
    blog.register("shop", "buy")
    tab = desk.tabs["Shop"]
    buy = tab.buy
    shop.disconnect()
    desk.clock.now += seconds
    for attempt in (lambda: tab.buy, buy, lambda: tab.tools["buy"]):
        with pytest.raises(TabNotFoundError) as raised:
            attempt()
        assert str(raised.value) == f"tab 'Shop' is {state}; live tabs: t2 \"Blog\""
    assert blog.all("call") == []


def test_completion_offers_a_tabs_tools_beside_its_own_names(
    desk: Desk, shop: FakePage, blog: FakePage
) -> None:
    blog.register("blog", "post")
    names = dir(desk.tabs["Shop"])
    assert {"buy", "shop", "title", "pin", "tools"} <= set(names)
    assert not {"post", "blog"} & set(names)
    assert names == sorted(names)


def test_looking_at_a_tab_sends_nothing(desk: Desk, shop: FakePage) -> None:
    before = len(shop.received)
    tab = desk.tabs[0]
    for look in (repr, dir, hash, lambda tab: tab.buy, lambda tab: tab._repr_html_()):
        look(tab)
    assert len(shop.received) == before


def current() -> Any:
    raise BridgeError("the bridge is not running")


def test_a_tab_can_be_copied_and_pickled(desk: Desk, shop: FakePage) -> None:
    tab = Tab(current, desk.directory.tab("t1"))
    for again in (copy.copy(tab), copy.deepcopy(tab), pickle.loads(pickle.dumps(tab))):
        assert again == tab
        assert again.title == "Shop"


# All of them


def test_tabs_are_a_sequence_in_the_order_in_which_they_came(
    desk: Desk, shop: FakePage, blog: FakePage
) -> None:
    tabs = desk.tabs
    assert len(tabs) == 2
    assert [tab.id for tab in tabs] == ["t1", "t2"]
    assert [tab.id for tab in tabs[:1]] == ["t1"]
    assert [tab.id for tab in tabs[::-1]] == ["t2", "t1"]
    assert tabs[5:] == []


@pytest.mark.parametrize(
    "selector", ["t2", "c2", "Blog", "http://localhost/blog", "http://localhost/b", 1, -1, "1"]
)
def test_a_tab_can_be_got_in_many_ways(
    desk: Desk, shop: FakePage, blog: FakePage, selector: int | str
) -> None:
    tab = desk.tabs[selector]
    assert tab.id == "t2"
    assert selector in desk.tabs
    assert desk.tabs[tab] == tab
    assert tab in desk.tabs


@pytest.mark.parametrize("selector", ["t9", 2, -3, "", None, 1.5])
def test_a_tab_that_is_not_there_is_a_lookup_error(
    desk: Desk, shop: FakePage, blog: FakePage, selector: Any
) -> None:
    with pytest.raises(LookupError) as raised:
        _ = desk.tabs[selector]
    assert isinstance(raised.value, TabNotFoundError)
    assert raised.value.live == {"t1": "Shop", "t2": "Blog"}
    assert selector not in desk.tabs


def test_a_tab_that_is_gone_is_known_by_its_id_and_not_among_the_tabs(
    desk: Desk, shop: FakePage, blog: FakePage
) -> None:
    shop.disconnect()
    assert "t1" in desk.tabs
    assert [tab.id for tab in desk.tabs] == ["t1", "t2"]
    desk.clock.now += RELOAD_SECONDS
    assert "t1" not in desk.tabs
    assert desk.tabs["t1"].state is TabState.GONE
    assert [tab.id for tab in desk.tabs] == ["t2"]
    assert [line.split()[0] for line in repr(desk.tabs).splitlines()] == ["NO", "Shop", "0"]


def test_the_tab_one_looks_at_or_looked_at_last(desk: Desk, shop: FakePage, blog: FakePage) -> None:
    def now() -> tuple[str | None, str | None]:
        return tuple(tab and tab.id for tab in (desk.tabs.focused, desk.tabs.last))  # type: ignore[return-value]

    assert now() == (None, "t1")  # it is visible
    shop.state(1)
    assert now() == (None, "t2")  # both are hidden; it came later
    desk.clock.now += 1
    shop.state(2, focused=True, visible=True)
    assert now() == ("t1", "t1")
    desk.clock.now += 1
    blog.state(3, focused=True, visible=True)  # in another browser
    assert now() == ("t2", "t2")
    blog.state(4)
    shop.state(5)
    desk.clock.now += 1
    assert now() == (None, "t2")
    blog.disconnect()
    assert now() == (None, "t1")
    shop.disconnect()
    assert now() == (None, None)


def test_a_tab_is_pinned_until_it_is_unpinned(desk: Desk, shop: FakePage, blog: FakePage) -> None:
    tabs = desk.tabs
    assert tabs.pinned is None
    tabs["Shop"].pin()
    assert tabs.pinned == tabs["Shop"]
    tabs["Blog"].pin()
    assert tabs.pinned == tabs["Blog"]
    assert not tabs["Shop"].pinned
    blog.disconnect()
    desk.clock.now += RELOAD_SECONDS
    assert tabs.pinned is not None
    assert tabs.pinned.id == "t2"
    for _ in range(2):
        tabs.unpin()
        assert tabs.pinned is None


def test_what_is_gone_for_good_cannot_be_pinned(desk: Desk, shop: FakePage) -> None:
    tab = desk.tabs[0]
    shop.disconnect()
    desk.clock.now += GONE_SECONDS
    desk.directory._tabs.age()
    with pytest.raises(TabNotFoundError):
        tab.pin()


def test_completion_of_keys_offers_what_a_person_knows_a_tab_by(desk: Desk) -> None:
    desk.page("t1", title="Shop")
    desk.page("t2", title="", url="http://localhost/")
    desk.page("t3", title="", url="")
    labels = desk.tabs._ipython_key_completions_()
    assert labels == ["Shop", "http://localhost/", "t3"]
    assert [desk.tabs[label].id for label in labels] == ["t1", "t2", "t3"]


def test_tabs_are_shown_as_a_table(desk: Desk, shop: FakePage, blog: FakePage) -> None:
    assert [line.split()[1] for line in repr(desk.tabs).splitlines()] == ["TITLE", "Shop", "Blog"]
    assert desk.tabs._repr_html_().count("<tr>") == 3


def test_without_a_bridge_there_are_no_tabs_and_asking_for_one_says_why(desk: Desk) -> None:
    desk.is_running = False
    tabs = desk.tabs
    assert (len(tabs), list(tabs), tabs[:]) == (0, [], [])
    assert (tabs.focused, tabs.last, tabs.pinned) == (None, None, None)
    assert tabs._ipython_key_completions_() == []
    assert repr(tabs) == "No page is connected."
    assert tabs._repr_html_() == "<p>No page is connected.</p>"
    assert "t1" not in tabs
    for ask in (lambda: tabs["t1"], lambda: tabs[0], tabs.unpin):
        with pytest.raises(BridgeError):
            ask()


# Of this process


def test_the_tabs_of_this_process_are_those_of_its_bridge(
    bridge: Bridge, new_page: NewPage
) -> None:
    page = new_page({"buy": lambda args: args})
    page.hello("t1", title="Shop", url="http://localhost/")
    page.register("shop", "buy")
    (tab,) = browser_tabs.tabs
    assert tab.buy(n=1).result(5) == {"n": 1}
    (client,) = list_clients()
    assert client.pop("connectedAt") == int(tab.connected_at * 1000)
    assert client == {
        "id": "t1",
        "url": "http://localhost/",
        "title": "Shop",
        "visible": False,
        "focused": False,
        "tools": ["shop/buy"],
    }
    assert pickle.loads(pickle.dumps(tab)).title == "Shop"
    bridges.stop()
    with pytest.raises(BridgeError):
        list_clients()
    assert tab.state is TabState.GONE


def test_a_bridge_that_a_cell_blocks_is_an_error_and_no_tab_counts_as_gone(
    bridge: Bridge, new_page: NewPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_page().hello("t1", title="Shop")
    tab = tabs[0]
    monkeypatch.setattr(hosts, "PATIENCE_SECONDS", 0.05)
    unblock = threading.Event()
    bridge.host.loop.call_soon_threadsafe(unblock.wait)
    try:
        for look in (lambda: len(tabs), lambda: tab.state, lambda: "Shop" in tabs):
            with pytest.raises(BridgeError, match="a cell blocks"):
                look()
    finally:
        unblock.set()
    assert tab.state is TabState.CONNECTED
