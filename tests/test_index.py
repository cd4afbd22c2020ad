"""`index`: tools by name, and who would answer."""

from __future__ import annotations

import pytest

from pagetools_ipy.errors import (
    AmbiguousToolError,
    NoPageConnectedError,
    TabNotFoundError,
    ToolNotFoundError,
)
from pagetools_ipy.index import MAX_NAMES_IN_ERROR

from .helpers import World

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
    assert (index._by_name, index._by_ns, index._routes, index.list()) == ({}, {}, {}, [])


def test_a_route_is_remembered_until_something_changes() -> None:
    world = World()
    one, two = world.page("c1", "t1"), world.page("c2", "t2")
    world.declare(one, "shop", "buy")
    world.declare(two, "shop", "buy")
    assert world.index.route("buy").choice is world.index.route("buy").choice
    assert world.found("buy")[0] == "c2"
    one.last_focused_at = 99.0
    world.index.touch(None)
    assert world.found("buy")[0] == "c1"
    world.tabs.move(one, "t3")
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


def test_where_no_page_is_connected_a_tab_that_is_away_is_named_all_the_same() -> None:
    world = World()
    world.declare(world.page("c1", "t1", title="Shop"), "shop", "buy")
    world.index.remove("c1")
    for narrowing in ({}, {"ns": "shop"}):
        with pytest.raises(NoPageConnectedError):
            world.found("buy", **narrowing)
    for narrowing in ({"tab": "t1"}, {"client_id": "t1"}, {"tab": 0}):
        with pytest.raises(TabNotFoundError) as raised:
            world.found("buy", **narrowing)
        assert (raised.value.state, raised.value.live) == ("reloading", {})


def test_whether_one_is_strict_is_part_of_what_is_remembered() -> None:
    world = World()
    for number in range(2):
        world.declare(world.page(f"c{number}", f"t{number}"), "shop", "buy")
    for _ in range(2):
        assert world.found("buy", strict=False)[0] == "c1"
        with pytest.raises(AmbiguousToolError):
            world.found("buy", strict=True)
        assert world.found("buy", strict=True, tab="t0")[0] == "c0"


# Listing


def test_the_list_marks_the_shadowed_and_puts_active_tabs_first() -> None:
    world = World()
    pages = [world.page(f"c{i}", f"t{i}") for i in range(4)]
    for page in pages[:3]:
        world.declare(page, "shop", "buy")
    world.declare(pages[3], "blog", "post")
    pages[1].chrome_tab_id = 7
    world.tabs.active_tabs.activate(7, 1, "host")
    world.index.touch(None)
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


def test_who_asks_for_a_route_when_a_page_leaves_does_not_get_that_page() -> None:
    world = World()
    routes: list[str] = []
    for number in (1, 2):
        world.declare(world.page(f"c{number}", f"t{number}"), "shop", "buy")
    world.index._touched = lambda _: routes.append(world.found("buy")[0])
    world.index.remove("c2")
    assert set(routes) == {"c1"}
    assert world.found("buy")[0] == "c1"
