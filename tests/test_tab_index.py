"""`tab_index`: which connections and tabs there are, and which one a person means."""

from __future__ import annotations

from typing import Any

import pytest

from pagetools_ipy.connections import (
    ASLEEP_SECONDS,
    GONE_SECONDS,
    NEXT_PAGE_SECONDS,
    RELOAD_SECONDS,
)
from pagetools_ipy.errors import TabNotFoundError
from pagetools_ipy.messages import Hello, HelloTab
from pagetools_ipy.tab_index import MAX_LEFT_TABS, MAX_TABS_IN_ERROR
from pagetools_ipy.views import TabState

from .helpers import World


def ids(world: World) -> list[str]:
    return [tab.id for tab in world.tabs.in_order()]


def refusal(world: World, selector: object, client_id: str | None = None) -> TabNotFoundError:
    """What is said when nothing that is there is meant."""
    with pytest.raises(TabNotFoundError) as raised:
        world.tabs.documents(selector, client_id)
    return raised.value


# Finding


def test_a_tab_can_be_given_in_many_ways() -> None:
    world = World()
    one = world.page("c1", "t1", title="Shop", url="http://localhost/shop?q=1")
    two = world.page("c2", "t2", title="Blog", url="http://localhost/blog")
    tabs = world.tabs.views()
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
        assert world.tabs.clients_of(selector) == clients, selector
    for selector in ("shop", "localhost", "T1", "t", 2, -3, None, "", b"t1", ["t1"], 0.0, True):
        assert world.tabs.clients_of(selector) == frozenset(), selector


def test_an_id_counts_before_a_title_and_a_title_before_the_start_of_a_url() -> None:
    world = World()
    world.page("c1", "t1", title="t2", url="http://localhost/a")
    world.page("c2", "t2", title="http://localhost/", url="http://localhost/b")
    world.page("c3", "t3", title="c1")
    assert world.tabs.clients_of("t2") == {"c2"}
    assert world.tabs.clients_of("c1") == {"c1"}
    assert world.tabs.clients_of("http://localhost/") == {"c2"}


def test_anything_with_an_id_stands_for_its_tab() -> None:
    class Handle:
        id: Any = "t1"

    world = World()
    world.page("c1", "t1")
    assert world.tabs.clients_of(Handle()) == {"c1"}
    Handle.id = 7
    assert world.tabs.clients_of(Handle()) == frozenset()


def test_an_empty_text_names_no_tab() -> None:
    """Least of all one that has no title yet."""
    world = World()
    world.connect("c1")
    assert world.tabs.clients_of("") == frozenset()


@pytest.mark.parametrize("selector", ["t1", 0, "Shop", "http://localhost/shop"])
def test_a_tab_is_all_its_frames_however_it_is_named(selector: object) -> None:
    world = World()
    world.page("c1", "t1", title="Shop", url="http://localhost/shop")
    frame = world.page("c2", "t1", top=False, title="Pay", url="http://pay/")
    world.declare(frame, "pay", "send")
    assert world.tabs.clients_of(selector) == {"c1", "c2"}
    assert world.found("send", tab=selector) == ("c2", "pay", "send")


def test_a_connection_that_is_not_there_is_named_with_those_that_are() -> None:
    world = World()
    world.page("c1", "t1", title="Shop")
    world.page("c2", "t1", top=False, title="Pay")
    with pytest.raises(TabNotFoundError) as raised:
        world.found("buy", client_id="c9")
    assert (raised.value.selector, raised.value.live) == ("c9", {"t1": "Shop"})
    with pytest.raises(TabNotFoundError) as raised:
        world.found("buy", tab="t9")
    assert (raised.value.selector, raised.value.live) == ("t9", {"t1": "Shop"})


def test_a_text_that_fits_several_tabs_means_all_of_them_or_the_best_placed_one() -> None:
    world = World()
    for number in range(3):
        world.page(f"c{number}", f"t{number}", title="Shop", url=f"http://localhost/{number}")
    world.page("other", "t9", title="Blog", url="http://elsewhere/")
    world.tabs.connections["c1"].last_focused_at = 99.0
    for selector in ("Shop", "http://localhost/"):
        assert set(world.tabs.documents(selector, None)) == {"c0", "c1", "c2"}
        assert world.tabs.find(selector).id == "t1"
    world.tabs.connections["c0"].visible = True
    world.index.touch(None)
    assert world.tabs.find("Shop").id == "t0"


def test_of_tabs_that_are_placed_alike_the_latest_is_meant() -> None:
    world = World()
    for number in range(3):
        world.page(f"c{number}", f"t{number}", title="Shop")
    assert world.tabs.find("Shop").id == "t2"


def test_a_number_is_a_place_and_may_be_typed_as_text() -> None:
    world = World()
    world.page("c1", "t1")
    world.page("c2", "t2")
    for selector, tab in ((0, "t1"), ("0", "t1"), ("1", "t2"), (-1, "t2")):
        assert world.tabs.find(selector).id == tab, selector
    for selector in (2, "2", "-1", "1.0", "1 ", True):
        with pytest.raises(TabNotFoundError):
            world.tabs.find(selector)
    world.page("c3", "t3", title="1")
    assert world.tabs.find("1").id == "t3"


def test_a_client_id_is_that_of_a_connection_or_of_a_tab() -> None:
    world = World()
    world.page("c1", "t1", title="Shop")
    world.page("c2", "t1", top=False)
    world.page("c3", "t2", title="Shop")
    for selector, client_id, expected in (
        (None, None, {"c1", "c2", "c3"}),
        (None, "c2", {"c2"}),
        (None, "t1", {"c1", "c2"}),
        ("t1", "c2", {"c2"}),
        ("t1", "t1", {"c1", "c2"}),
        ("Shop", "t2", {"c3"}),
    ):
        found = world.tabs.documents(selector, client_id)
        assert set(found) == expected, (selector, client_id)
    for selector, client_id in (("t1", "c3"), ("t1", "t2"), (None, "Shop"), ("Shop", "")):
        error = refusal(world, selector, client_id)
        assert (error.selector, error.state) == (client_id, "")


def test_a_tab_whose_page_is_away_can_be_found_and_not_be_called() -> None:
    world = World()
    world.page("c1", "t1", title="Shop")
    world.page("c2", "t2", title="Blog")
    world.tabs.remove("c1")
    for selector in ("t1", 0, world.tabs.tabs["t1"]):
        assert world.tabs.find(selector).id == "t1"
        assert world.tabs.clients_of(selector) == frozenset()
        error = refusal(world, selector)
        assert (error.selector, error.state, error.live) == ("Shop", "reloading", {"t2": "Blog"})
    error = refusal(world, None, "t1")
    assert (error.selector, error.state) == ("Shop", "reloading")
    world.clock.now += RELOAD_SECONDS
    assert refusal(world, "t1").state == "gone"
    assert refusal(world, "t2", "t1").state == "gone"
    world.clock.now += GONE_SECONDS
    world.tabs.age()
    error = refusal(world, "t1")
    assert (error.selector, error.state) == ("t1", "")


def test_a_tab_that_is_there_is_meant_before_one_that_is_away() -> None:
    world = World()
    first, second = world.page("c1", "t1", title="Shop"), world.page("c2", "t2", title="Shop")
    first.last_focused_at, second.last_focused_at = 99.0, 0.0
    world.tabs.remove("c1")
    assert world.tabs.find("Shop").id == "t2"


def test_an_error_names_only_so_many_tabs_and_says_how_many_there_are() -> None:
    world = World()
    for number in range(MAX_TABS_IN_ERROR + 5):
        world.page(f"c{number}", f"t{number}")
    error = refusal(world, "nowhere")
    assert (len(error.live), error.total) == (MAX_TABS_IN_ERROR, MAX_TABS_IN_ERROR + 5)
    assert list(error.live)[:2] == ["t0", "t1"]


# Coming and going


def test_a_page_that_never_said_anything_leaves_no_tab() -> None:
    world = World()
    world.connect("c1")
    assert ids(world) == ["c1"]
    assert world.tabs.remove("c1") is not None
    assert (ids(world), world.tabs.away()) == ([], [])
    assert world.tabs.remove("c1") is None


def test_a_tab_is_away_when_its_last_document_has_left() -> None:
    world = World()
    world.page("c1", "t1")
    world.page("c2", "t1", top=False)
    world.tabs.remove("c1")
    assert world.tabs.away() == []
    world.tabs.remove("c2")
    assert [tab.id for tab in world.tabs.away()] == ["t1"]


def test_a_tab_that_comes_back_keeps_its_number_and_what_it_was() -> None:
    world = World()
    world.page("c1", "t1").last_focused_at = 99.0
    world.page("c2", "t2")
    before = world.tabs.views()[0]
    world.tabs.remove("c1")
    away = world.tabs.views()[0]
    assert (away.state, away.number, away.frames) == (TabState.RELOADING, 0, ())
    world.page("c3", "t1")
    after = world.tabs.views()[0]
    assert after.client_ids == ("c3",)
    for part in ("id", "number", "state", "last_focused_at", "connected_at"):
        assert getattr(after, part) == getattr(before, part), part
    assert world.tabs.away() == []


def test_a_document_that_goes_to_another_tab_leaves_its_own_to_the_others() -> None:
    world = World()
    page = world.page("c1", "t1")
    world.page("c2", "t1", top=False)
    world.tabs.move(page, "t2")
    assert {tab.id: list(tab.documents) for tab in world.tabs.in_order()} == {
        "t1": ["c2"],
        "t2": ["c1"],
    }
    world.tabs.move(page, "t1")
    assert ids(world) == ["t1"]


@pytest.mark.parametrize(
    ("asleep", "turns"),
    [
        (False, [(RELOAD_SECONDS, TabState.GONE), (GONE_SECONDS, None)]),
        (True, [(NEXT_PAGE_SECONDS, TabState.ASLEEP), (ASLEEP_SECONDS, None)]),
    ],
)
def test_time_moves_a_tab_whose_page_is_away_on(
    asleep: bool, turns: list[tuple[float, TabState | None]]
) -> None:
    world = World()
    world.page("c1", "t1").asleep = asleep
    world.page("c2", "t2")
    assert world.tabs.age() is None
    world.tabs.remove("c1")
    left_at = world.clock.now
    for seconds, state in turns:
        turn = world.tabs.age()
        assert turn == left_at + seconds
        world.clock.now = turn - 0.01
        world.tabs.age()
        before = world.tabs.views()[0]
        world.clock.now = turn
        world.tabs.age()
        after = {view.id: view.state for view in world.tabs.views()}
        assert before.id == "t1"
        assert after.get("t1") == state != before.state
    assert world.tabs.age() is None
    assert ids(world) == ["t2"]


def test_the_next_turn_is_that_of_whichever_tab_is_first() -> None:
    world = World()
    world.page("c1", "t1").asleep = True
    world.page("c2", "t2")
    world.tabs.remove("c1")
    world.clock.now += 1
    world.tabs.remove("c2")
    assert world.tabs.age() == world.clock.now + RELOAD_SECONDS
    world.clock.now += RELOAD_SECONDS
    assert world.tabs.age() == world.clock.now - RELOAD_SECONDS + GONE_SECONDS


def test_a_tab_that_is_asleep_or_gone_has_no_number() -> None:
    world = World()
    for number in range(4):
        world.page(f"c{number}", f"t{number}")
    world.tabs.connections["c0"].asleep = True
    world.tabs.connections["c3"].silent = True
    world.tabs.remove("c0")
    world.tabs.remove("c1")
    assert [tab.id for tab in world.tabs.numbered()] == ["t0", "t1", "t2", "t3"]
    world.clock.now += NEXT_PAGE_SECONDS
    assert [tab.id for tab in world.tabs.numbered()] == ["t1", "t2", "t3"]
    world.clock.now += RELOAD_SECONDS
    assert [(view.state, view.number) for view in world.tabs.views()] == [
        (TabState.ASLEEP, None),
        (TabState.GONE, None),
        (TabState.CONNECTED, 0),
        (TabState.NOT_RESPONDING, 1),
    ]
    assert world.tabs.view(world.tabs.tabs["t0"]).number is None
    assert world.tabs.view(world.tabs.tabs["t3"]).number == 1


def test_some_tabs_are_looked_at_without_looking_at_the_others() -> None:
    world = World()
    for number in range(3):
        world.page(f"c{number}", f"t{number}")
    seen = world.tabs.glance(["t2", "t0", "no such tab"])
    assert [(view.id, view.number) for view in seen] == [("t2", None), ("t0", None)]


def test_only_the_latest_tabs_that_left_are_kept() -> None:
    world = World()
    for number in range(MAX_LEFT_TABS + 2):
        world.page(f"c{number}", f"t{number}")
        world.tabs.remove(f"c{number}")
    assert (len(world.tabs.away()), len(world.tabs.tabs)) == (MAX_LEFT_TABS, MAX_LEFT_TABS)
    assert ids(world)[0] == "t2"
    assert "t1" in world.touched[-2:]


def test_every_change_is_told_with_the_tab_it_is_of() -> None:
    world = World()

    def told() -> list[str | None]:
        now, world.touched[:] = list(world.touched), []
        return now

    page = world.connect("c1")
    assert told() == ["c1"]
    page.greet(Hello(HelloTab("t1")), 1.0)
    page.admitted = True
    world.tabs.move(page, "t1")
    assert told() == ["c1", "t1"]
    world.tabs.move(page, "t1")
    assert told() == ["t1"]
    world.tabs.pin("t1")
    assert told() == [None]
    world.tabs.remove("c1")
    assert told() == ["t1"]
    world.clock.now += GONE_SECONDS
    world.tabs.age()
    assert told() == ["t1"]
    world.tabs.clear()
    assert told() == [None]


def test_what_is_forgotten_at_the_end_is_all() -> None:
    world = World()
    world.page("c1", "t1")
    world.tabs.pin("t1")
    world.tabs.remove("c1")
    world.tabs.clear()
    assert (ids(world), world.tabs.away(), world.tabs.pinned) == ([], [], None)


# Pinning


def test_one_tab_at_a_time_is_pinned() -> None:
    world = World()
    for number in range(2):
        world.page(f"c{number}", f"t{number}", title=f"Tab {number}")
    for selector, pinned in (("t0", "t0"), ("Tab 1", "t1"), (0, "t0"), (None, None), (None, None)):
        world.tabs.pin(selector)
        assert world.tabs.pinned == pinned
        assert [view.id for view in world.tabs.views() if view.pinned] == [pinned] * bool(pinned)


def test_what_cannot_be_pinned_leaves_the_pin_where_it_was() -> None:
    world = World()
    world.page("c1", "t1")
    world.tabs.pin("t1")
    with pytest.raises(TabNotFoundError):
        world.tabs.pin("nowhere")
    assert world.tabs.pinned == "t1"


def test_a_pinned_tab_is_required_to_be_there_and_is_pinned_again_when_it_is_back() -> None:
    world = World()
    world.tabs.require_pinned()
    world.page("c1", "t1", title="Shop")
    world.page("c2", "t2", title="Blog")
    world.tabs.pin("t1")
    world.tabs.require_pinned()
    world.tabs.remove("c1")
    for seconds, state in ((0.0, "reloading"), (RELOAD_SECONDS, "gone"), (GONE_SECONDS, "gone")):
        world.clock.now += seconds
        world.tabs.age()
        with pytest.raises(TabNotFoundError) as raised:
            world.tabs.require_pinned()
        error = raised.value
        assert (error.selector, error.state, error.pinned) == ("Shop", state, True)
        assert error.live == {"t2": "Blog"}
    assert "t1" not in world.tabs.tabs
    world.page("c3", "t1")
    world.tabs.require_pinned()
    assert world.tabs.find("t1").pinned


def test_a_pin_whose_tab_is_forgotten_can_be_given_to_another() -> None:
    world = World()
    world.page("c1", "t1")
    world.page("c2", "t2")
    world.tabs.pin("t1")
    world.tabs.remove("c1")
    world.clock.now += GONE_SECONDS
    world.tabs.age()
    world.tabs.pin("t2")
    world.page("c3", "t1")
    assert [view.id for view in world.tabs.views() if view.pinned] == ["t2"]


# Listing


def test_tabs_are_listed_in_the_order_in_which_they_came() -> None:
    world = World()
    first, second = world.connect("c1"), world.connect("c2")
    world.tabs.move(second, "t2")  # the later page says hello first
    world.tabs.move(first, "t1")
    assert [tab.id for tab in world.tabs.views()] == ["t1", "t2"]


def test_a_page_that_says_hello_again_keeps_its_tabs_number() -> None:
    world = World()
    first = world.page("c1", "t1")
    world.page("c2", "t2")
    world.tabs.move(first, "t1")
    assert [tab.id for tab in world.tabs.views()] == ["t1", "t2"]
