"""`index`: connections by tab, tools by name, and who would answer."""

from __future__ import annotations

from typing import Any

import pytest

from pagetools_ipy.connections import Connection, Registration
from pagetools_ipy.errors import (
    AmbiguousToolError,
    NoPageConnectedError,
    TabNotFoundError,
    ToolNotFoundError,
)
from pagetools_ipy.index import MAX_NAMES_IN_ERROR, ToolIndex
from pagetools_ipy.messages import Hello, HelloFrame, HelloTab, Register, ToolDescriptor


class World:
    """An index, and short words for what happens to it."""

    def __init__(self) -> None:
        self.index = ToolIndex()
        self._order = 0

    def connect(self, client_id: str) -> Connection:
        self._order += 1
        connection = Connection(
            client_id, lambda _: None, None, self._order, float(self._order), self.index.active_tabs
        )
        self.index.add(connection)
        return connection

    def page(self, client_id: str, tab: str, *, top: bool = True, **seen: Any) -> Connection:
        """A connection that told which tab it is in."""
        connection = self.connect(client_id)
        connection.hello = Hello(HelloTab(tab, **seen), HelloFrame(top))
        connection.look(connection.hello.tab, float(self._order))
        self.index.move_to_tab(connection, tab)
        return connection

    def declare(self, connection: Connection, ns: str, *names: str) -> Registration:
        tools = tuple(ToolDescriptor(name) for name in names)
        registration = Registration(connection, Register(ns, []), tools, float(self._order))
        self.index.declare(connection, ns, registration)
        return registration

    def found(self, name: str, **narrowing: Any) -> tuple[str, str, str]:
        route = self.index.route(name, **narrowing)
        return route.registration.client_id, route.registration.ns, route.name


# Coming and going


def test_what_was_declared_is_found_until_it_is_withdrawn_or_its_page_goes() -> None:
    world = World()
    page = world.connect("c1")
    other = world.connect("c2")
    world.declare(page, "shop", "buy", "sell")
    world.declare(page, "blog", "post")
    assert world.found("buy") == ("c1", "shop", "buy")
    assert world.index.declare(page, "shop", None) is not None
    assert world.index.declare(page, "shop", None) is None
    with pytest.raises(ToolNotFoundError) as raised:
        world.found("buy")
    assert raised.value.available == ("post",)
    assert world.index.remove("c1") is page
    assert page.gone
    assert world.index.remove("c1") is None
    with pytest.raises(ToolNotFoundError) as raised:
        world.found("post")
    assert raised.value.available == ()
    world.index.remove(other.client_id)
    with pytest.raises(NoPageConnectedError):
        world.found("post")


def test_nothing_stays_behind_when_everyone_has_gone() -> None:
    world = World()
    for number in range(5):
        page = world.page(f"c{number}", f"t{number % 2}")
        world.declare(page, "shop", "buy", f"tool{number}")
        world.found("buy", tab=f"t{number % 2}")
    world.found("buy")
    for number in range(5):
        world.index.remove(f"c{number}")
    index = world.index
    assert (index.connections, index._by_tab, index._by_name, index._routes) == ({}, {}, {}, {})
    assert (index.list(), index.tabs()) == ([], [])


def test_a_route_is_remembered_until_something_changes() -> None:
    world = World()
    one, two = world.page("c1", "t1"), world.page("c2", "t2")
    world.declare(one, "shop", "buy")
    world.declare(two, "shop", "buy")
    assert world.index.route("buy").choice is world.index.route("buy").choice
    assert world.found("buy")[0] == "c2"
    one.last_focused_at = 99.0
    world.index.touch()
    assert world.found("buy")[0] == "c1"
    world.index.move_to_tab(one, "t3")
    assert world.found("buy", tab="t3")[0] == "c1"
    world.index.remove("c1")
    assert world.found("buy")[0] == "c2"


# Names


def test_a_name_with_slashes_is_read_as_what_exists() -> None:
    world = World()
    page = world.connect("c1")
    world.declare(page, "a", "x", "b/x")
    world.declare(page, "a/b", "y")
    world.declare(page, "n/s", "p/q/r")
    assert world.found("a/x") == ("c1", "a", "x")
    assert world.found("b/x") == ("c1", "a", "b/x")
    assert world.found("a/b/x") == ("c1", "a", "b/x")
    assert world.found("a/b/y") == ("c1", "a/b", "y")
    assert world.found("n/s/p/q/r") == ("c1", "n/s", "p/q/r")
    assert world.found("p/q/r", ns="n/s") == ("c1", "n/s", "p/q/r")
    for name in ("a/y", "a/", "/x", "/", "n/s/p", "a//x"):
        with pytest.raises(ToolNotFoundError) as raised:
            world.found(name)
        assert raised.value.name == name


def test_a_namespace_that_is_given_is_not_read_out_of_the_name() -> None:
    world = World()
    world.declare(world.connect("c1"), "a", "x")
    with pytest.raises(ToolNotFoundError) as raised:
        world.found("a/x", ns="a")
    assert raised.value.name == "a/x"


def test_a_tool_that_another_page_calls_like_it_does_not_hide_one() -> None:
    """What one tab declares must not change what is found in another."""
    world = World()
    one, two = world.page("c1", "t1"), world.page("c2", "t2")
    world.declare(one, "cart", "add")
    assert world.found("cart/add", tab="t1") == ("c1", "cart", "add")
    world.declare(two, "shop", "cart/add")
    assert world.found("cart/add", tab="t1") == ("c1", "cart", "add")


def test_the_error_says_where_was_looked_and_what_is_there() -> None:
    world = World()
    one, two = world.page("c1", "t1", title="Shop"), world.page("c2", "t2", title="Blog")
    world.declare(one, "shop", "buy")
    world.declare(two, "blog", "post")
    for narrowing, scope, available in (
        ({}, "", ("buy", "post")),
        ({"tab": "t1"}, 'in tab "Shop"', ("buy",)),
        ({"client_id": "c2"}, "in client c2", ("post",)),
        ({"tab": "t2", "client_id": "c2"}, "in client c2", ("post",)),
        ({"ns": "nope"}, 'in namespace "nope"', ("buy", "post")),
        ({"ns": "nope", "tab": "t1"}, 'in namespace "nope" in tab "Shop"', ("buy",)),
    ):
        with pytest.raises(ToolNotFoundError) as raised:
            world.index.route("sell", **narrowing)
        assert (raised.value.scope, raised.value.available) == (scope, available), narrowing


def test_a_tool_in_another_namespace_is_named_with_it() -> None:
    world = World()
    world.declare(world.connect("c1"), "shop", "buy", "sell")
    with pytest.raises(ToolNotFoundError) as raised:
        world.found("buy", ns="blog")
    assert raised.value.available == ("shop/buy",)


def test_only_so_many_names_are_kept_in_an_error() -> None:
    world = World()
    world.declare(world.connect("c1"), "n", *[f"t{i}" for i in range(300)])
    with pytest.raises(ToolNotFoundError) as raised:
        world.found("x")
    assert len(raised.value.available) == MAX_NAMES_IN_ERROR
    assert raised.value.total == 300


# Narrowing


def test_an_app_opened_twice_is_ambiguous_only_with_another_app() -> None:
    world = World()
    one, two, three = (world.page(f"c{i}", f"t{i}") for i in (1, 2, 3))
    for page in (one, two):
        world.declare(page, "shop", "search")
    world.declare(three, "blog", "search")
    with pytest.raises(AmbiguousToolError) as raised:
        world.found("search")
    assert [c.client_id for c in raised.value.candidates] == ["c3", "c2", "c1"]
    assert world.found("search", ns="shop") == ("c2", "shop", "search")
    assert world.found("shop/search") == ("c2", "shop", "search")
    assert world.found("search", tab="t1") == ("c1", "shop", "search")
    assert world.index.route("search", tab="t1").choice.why == "the only one"
    assert world.index.route("search", ns="shop").choice.why == "last heard from of 2"


def test_a_tab_can_be_given_in_many_ways() -> None:
    world = World()
    one = world.page("c1", "t1", title="Shop", url="http://localhost/shop?q=1")
    two = world.page("c2", "t2", title="Blog", url="http://localhost/blog")
    tabs = world.index.tabs()
    for selector, page in (
        ("t1", one),
        ("c1", one),
        ("Shop", one),
        ("http://localhost/shop?q=1", one),
        ("http://localhost/shop", one),
        ("http://localhost/s", one),
        (0, one),
        (-2, one),
        (1, two),
        (tabs[1], two),
        ("http://localhost/", None),
    ):
        clients = {"c1", "c2"} if page is None else {page.client_id}
        assert world.index.clients_of(selector) == clients, selector
    for selector in ("shop", "localhost", "T1", "t", 2, -3, None, "", b"t1", ["t1"], 0.0, True):
        assert world.index.clients_of(selector) == frozenset(), selector


def test_an_id_counts_before_a_title_and_a_title_before_the_start_of_a_url() -> None:
    world = World()
    world.page("c1", "t1", title="t2", url="http://localhost/a")
    world.page("c2", "t2", title="http://localhost/", url="http://localhost/b")
    world.page("c3", "t3", title="c1")
    assert world.index.clients_of("t2") == {"c2"}
    assert world.index.clients_of("c1") == {"c1"}
    assert world.index.clients_of("http://localhost/") == {"c2"}


def test_anything_with_an_id_stands_for_its_tab() -> None:
    class Handle:
        id: Any = "t1"

    world = World()
    world.page("c1", "t1")
    assert world.index.clients_of(Handle()) == {"c1"}
    Handle.id = 7
    assert world.index.clients_of(Handle()) == frozenset()


def test_an_empty_text_names_no_tab() -> None:
    """Least of all one that has no title yet."""
    world = World()
    world.connect("c1")
    assert world.index.clients_of("") == frozenset()


@pytest.mark.parametrize("selector", ["t1", 0, "Shop", "http://localhost/shop"])
def test_a_tab_is_all_its_frames_however_it_is_named(selector: object) -> None:
    world = World()
    world.page("c1", "t1", title="Shop", url="http://localhost/shop")
    frame = world.page("c2", "t1", top=False, title="Pay", url="http://pay/")
    world.declare(frame, "pay", "send")
    assert world.index.clients_of(selector) == {"c1", "c2"}
    assert world.found("send", tab=selector) == ("c2", "pay", "send")


def test_a_connection_that_is_not_there_is_named_with_those_that_are() -> None:
    world = World()
    world.page("c1", "t1", title="Shop")
    world.page("c2", "t1", top=False, title="Pay")
    with pytest.raises(TabNotFoundError) as raised:
        world.found("buy", client_id="c9")
    assert (raised.value.selector, raised.value.live) == ("c9", {"c1": "Shop", "c2": "Pay"})
    with pytest.raises(TabNotFoundError) as raised:
        world.found("buy", tab="t9")
    assert (raised.value.selector, raised.value.live) == ("t9", {"t1": "Shop"})


# Listing


def test_tabs_are_listed_in_the_order_in_which_they_came() -> None:
    world = World()
    first, second = world.connect("c1"), world.connect("c2")
    world.index.move_to_tab(second, "t2")  # the later page says hello first
    world.index.move_to_tab(first, "t1")
    assert [tab.id for tab in world.index.tabs()] == ["t1", "t2"]


def test_a_page_that_says_hello_again_keeps_its_tabs_number() -> None:
    world = World()
    first = world.page("c1", "t1")
    world.page("c2", "t2")
    world.index.move_to_tab(first, "t1")
    assert [tab.id for tab in world.index.tabs()] == ["t1", "t2"]


def test_the_list_marks_the_shadowed_and_puts_active_tabs_first() -> None:
    world = World()
    pages = [world.page(f"c{i}", f"t{i}") for i in range(4)]
    for page in pages[:3]:
        world.declare(page, "shop", "buy")
    world.declare(pages[3], "blog", "post")
    pages[1].chrome_tab_id = 7
    world.index.active_tabs.activate(7, 1, "host")
    world.index.touch()
    assert [(r.client_id, r.ns, r.active_tab, r.shadowed) for r in world.index.list()] == [
        ("c1", "shop", True, False),
        ("c0", "shop", False, True),
        ("c2", "shop", False, True),
        ("c3", "blog", False, False),
    ]


def test_a_list_that_is_changed_by_its_receiver_changes_nobody_elses() -> None:
    world = World()
    world.declare(world.connect("c1"), "shop", "buy")
    world.index.list().clear()
    assert len(world.index.list()) == 1
