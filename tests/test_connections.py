"""`connections`: what is known of one connection, and how it is shown to others."""

from __future__ import annotations

from typing import Any

import pytest

from pagetools_ipy import PageToolDirectory, format_page_tools_changed
from pagetools_ipy.connections import MAX_ENDED, ActiveTabs, Connection, Registration, TabView
from pagetools_ipy.errors import PageGoneError
from pagetools_ipy.messages import (
    Hello,
    HelloFrame,
    HelloTab,
    Register,
    Source,
    State,
    TabHint,
    ToolDescriptor,
    digest,
)

from .helpers import Clock, FakePage, counted_ids, run


def connect(
    client_id: str = "c1", *, order: int = 1, now: float = 1000.0, tabs: ActiveTabs | None = None
) -> Connection:
    return Connection(client_id, lambda _: None, None, order, now, tabs or ActiveTabs())


def greet(connection: Connection, **seen: Any) -> None:
    """What the directory does with a hello."""
    frame = HelloFrame(seen.pop("top", True))
    hello = Hello(HelloTab(id="t", **seen), frame)
    connection.hello = hello
    connection.look(hello.tab, 1000.0)


def state(**seen: Any) -> State:
    return State(**{"seq": 1, "url": "", "title": "", "visible": False, "focused": False, **seen})


def declare(connection: Connection, ns: str, *names: str, **fields: Any) -> Registration:
    tools = tuple(ToolDescriptor(name) for name in names)
    registration = Registration(connection, Register(ns, [], **fields), tools, 1000.0)
    connection.registrations[ns] = registration
    return registration


# Active tabs


def test_one_tab_is_in_front_of_each_window() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w1", "host")
    tabs.activate(2, "w2", "host")
    assert [tab in tabs for tab in (1, 2, 3)] == [True, True, False]
    tabs.activate(3, "w1", "host")
    assert [tab in tabs for tab in (1, 2, 3)] == [False, True, True]


def test_a_tab_that_moves_to_another_window_leaves_its_own_without_a_front() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w1", "host")
    tabs.activate(2, "w2", "host")
    tabs.activate(1, "w2", "host")
    assert [tab in tabs for tab in (1, 2)] == [True, False]
    tabs.activate(3, "w1", "host")
    assert [tab in tabs for tab in (1, 2, 3)] == [True, False, True]


def test_late_news_of_a_tab_that_was_replaced_change_nothing() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w", "host")
    tabs.activate(2, "w", "host")
    tabs.deactivate(1)
    tabs.deactivate(7)
    assert 2 in tabs
    tabs.deactivate(2)
    tabs.deactivate(2)
    assert 2 not in tabs


def test_saying_the_same_again_changes_nothing() -> None:
    tabs = ActiveTabs()
    for _ in range(3):
        tabs.activate(1, "w", "host")
    assert 1 in tabs
    tabs.deactivate(1)
    assert 1 not in tabs


def test_what_a_host_said_is_forgotten_with_it_and_what_others_said_is_not() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w1", "a")
    tabs.activate(2, "w2", "b")
    tabs.activate(3, "w3", "a")
    tabs.activate(3, "w3", "b")  # the last word counts
    tabs.forget("a")
    tabs.forget("nobody")
    assert [tab in tabs for tab in (1, 2, 3)] == [False, True, True]


def test_windows_and_tabs_may_be_numbers_or_words_or_unknown() -> None:
    tabs = ActiveTabs()
    tabs.activate("tab", None, "host")
    tabs.activate(2**70, 5, "host")
    assert "tab" in tabs
    tabs.activate("other", None, "host")
    assert [tab in tabs for tab in ("tab", "other", 2**70)] == [False, True, True]


# One connection


def test_a_connection_that_said_nothing_goes_by_its_id() -> None:
    connection = connect()
    assert (connection.label, connection.tab_id) == ("c1", "c1")
    assert (connection.is_top, connection.active, connection.gone) == (True, False, False)
    assert connection.focus == (False, False, False, 0.0, 1000.0, 1)


def test_it_goes_by_its_title_or_else_its_url() -> None:
    connection = connect()
    greet(connection, url="http://localhost/")
    assert connection.label == "http://localhost/"
    greet(connection, url="http://localhost/", title="Shop")
    assert connection.label == "Shop"


def test_when_the_keyboard_comes_and_when_it_goes_are_times_of_being_looked_at() -> None:
    connection = connect()
    for now, focused, expected in (
        (1.0, False, 0.0),
        (2.0, True, 2.0),
        (3.0, True, 3.0),
        (4.0, False, 4.0),
        (5.0, False, 4.0),
        (6.0, True, 6.0),
    ):
        connection.look(state(focused=focused), now)
        assert (connection.last_focused_at, connection.last_synced_at) == (expected, now)
        assert connection.focused is focused


def test_what_a_page_says_of_itself_is_made_safe_and_bounded() -> None:
    connection = connect()
    connection.look(state(title="\x1b[31m" + "t" * 500, url="http://h/\u202e" + "u" * 5000), 1.0)
    assert connection.title == "t" * 255 + "…"
    assert len(connection.url) == 2048
    assert "\u202e" not in connection.url


def test_a_registration_tells_of_its_page_only_what_the_page_did_not_say() -> None:
    hint = TabHint(7, 1, "T", "http://localhost/tab", "From the host")
    silent = connect()
    silent.note(Register("n", [], url="http://localhost/page", tab=hint), 5.0)
    assert (silent.url, silent.title) == ("http://localhost/page", "From the host")
    assert (silent.chrome_tab_id, silent.last_synced_at) == (7, 5.0)
    silent.note(Register("n", []), 6.0)  # nothing new is no reason to forget
    assert (silent.url, silent.title, silent.chrome_tab_id) == (
        "http://localhost/page",
        "From the host",
        7,
    )
    silent.note(Register("n", [], tab=TabHint(url="http://localhost/other")), 7.0)
    assert (silent.url, silent.chrome_tab_id) == ("http://localhost/other", 7)

    greeted = connect()
    greet(greeted, url="http://localhost/own", title="Own")
    greeted.note(Register("n", [], url="http://localhost/page", tab=hint), 5.0)
    assert (greeted.url, greeted.title, greeted.chrome_tab_id) == (
        "http://localhost/own",
        "Own",
        7,
    )


def test_it_is_active_while_a_host_says_so_of_its_tab() -> None:
    tabs = ActiveTabs()
    connection = connect(tabs=tabs)
    tabs.activate(7, 1, "host")
    assert not connection.active
    connection.chrome_tab_id = 7
    assert connection.active
    assert connection.focus.active
    tabs.deactivate(7)
    assert not connection.active


def test_only_the_last_finished_calls_are_remembered() -> None:
    connection = connect()
    for number in range(MAX_ENDED + 10):
        connection.remember(str(number), None)
    assert len(connection.ended) == MAX_ENDED
    assert "9" not in connection.ended
    assert "10" in connection.ended


def test_an_error_about_a_page_is_one_line_whatever_its_title() -> None:
    """``document.title`` has no line breaks, but a page may send any text."""
    directory = PageToolDirectory(now=Clock(), new_id=counted_ids())
    page = FakePage(directory)
    page.hello(title="Two\nlines\tand a tab")
    page.register("shop", "buy")

    async def scenario() -> str:
        call = directory.start(directory.route("buy"))
        page.disconnect()
        with pytest.raises(PageGoneError) as raised:
            await call
        return str(raised.value)

    assert "\n" not in run(scenario())


# Registrations


def test_a_registration_is_known_by_what_it_holds_not_by_who_declares_it() -> None:
    one, two = connect("c1"), connect("c2", order=2)
    a = declare(one, "shop", "buy", hash="x")
    b = declare(two, "shop", "buy", url="http://localhost/")
    assert a.content == b.content == ("shop", digest((ToolDescriptor("buy"),)))
    assert a.content != declare(one, "blog", "buy").content
    assert a.content != declare(one, "shop", "buy", "sell").content
    assert (a.key, b.key) == (("c1", "shop"), ("c2", "shop"))


def test_a_schema_is_made_once_for_each_tool() -> None:
    schema = {"properties": {"a": {}}}
    connection = connect()
    tools = (ToolDescriptor("a", input_schema=schema), ToolDescriptor("b"))
    registration = Registration(connection, Register("n", []), tools, 1.0)
    assert registration.schema("a") is registration.schema("a")
    assert list(registration.schema("a").properties) == ["a"]
    assert registration.schema("b").open
    with pytest.raises(KeyError):
        registration.schema("c")


def test_a_snapshot_keeps_what_was_when_it_was_taken() -> None:
    connection = connect()
    greet(connection, title="Shop", url="http://localhost/")
    hint = TabHint(7, 1, "T", None, None)
    registration = declare(connection, "shop", "buy", hash="h", tab=hint, source=Source("/src"))
    row = registration.snapshot(shadowed=True)
    connection.look(state(title="Later"), 2.0)
    assert (row.tab.title, row.tab.url, row.tab.id) == ("Shop", "http://localhost/", "c1")
    assert (row.tab.chrome_tab_id, row.tab.window_id, row.tab.target_id) == (7, 1, "T")
    assert (row.hash, row.source, row.shadowed, row.registered_at) == ("h", "/src", True, 1000.0)
    assert row.digest == registration.digest
    with pytest.raises(AttributeError):
        row.ns = "other"  # type: ignore[misc]


def test_a_snapshot_without_hints_has_none() -> None:
    row = declare(connect(), "shop", "buy").snapshot(shadowed=False)
    assert (row.tab.chrome_tab_id, row.tab.window_id, row.tab.target_id) == (None, None, None)
    assert (row.hash, row.source, row.tab.title) == (None, None, "")


# Tabs


def test_a_tab_is_shown_by_its_main_document_and_counts_what_any_of_them_knows() -> None:
    tabs = ActiveTabs()
    frame = connect("frame", order=1, now=10.0, tabs=tabs)
    main = connect("main", order=2, now=20.0, tabs=tabs)
    greet(frame, title="Ad", url="http://ads/", top=False, focused=True)
    greet(main, title="Shop", url="http://localhost/", visible=True)
    declare(frame, "ad", "skip")
    declare(main, "shop", "buy", "sell")
    declare(frame, "shop", "buy")
    frame.chrome_tab_id = 7
    tabs.activate(7, 1, "host")
    view = TabView.of("t", [frame, main])
    assert (view.id, view.title, view.url, view.label) == ("t", "Shop", "http://localhost/", "Shop")
    assert view.client_ids == ("main", "frame")
    assert (view.visible, view.focused, view.active) == (True, True, True)
    assert (view.last_focused_at, view.connected_at) == (1000.0, 10.0)
    assert view.namespaces == ("shop", "ad")
    assert view.tools == ("shop/buy", "shop/sell", "ad/skip")


def test_a_tab_of_frames_only_is_shown_by_the_first_of_them() -> None:
    first, second = connect("c1", order=1), connect("c2", order=2)
    greet(first, title="First", top=False)
    greet(second, title="Second", top=False)
    assert TabView.of("t", [second, first]).title == "First"


@pytest.mark.parametrize(
    ("title", "url", "label"), [("T", "u", "T"), ("", "u", "u"), ("", "", "the id")]
)
def test_a_tab_goes_by_its_title_or_url_or_id(title: str, url: str, label: str) -> None:
    connection = connect()
    greet(connection, title=title, url=url)
    assert TabView.of("the id", [connection]).label == label


# The line about a change


def test_the_change_line_names_each_tool_once_in_order() -> None:
    one, two = connect("c1"), connect("c2", order=2)
    rows = [
        declare(one, "shop", "buy", "sell").snapshot(shadowed=False),
        declare(two, "shop", "sell", "buy").snapshot(shadowed=True),
        declare(two, "blog", "buy").snapshot(shadowed=False),
    ]
    assert format_page_tools_changed(iter(rows)) == (
        "page tools changed: shop/buy, shop/sell, blog/buy"
    )
