"""`connections`: what is known of one connection, and how it is shown to others."""

from __future__ import annotations

from typing import Any

import pytest

from pagetools_ipy import PageToolDirectory
from pagetools_ipy.active_tabs import ActiveTabs
from pagetools_ipy.connections import (
    ASLEEP_SECONDS,
    GONE_SECONDS,
    MAX_ENDED,
    NEXT_PAGE_SECONDS,
    RELOAD_SECONDS,
    Attention,
    Connection,
    Registration,
    TabRecord,
)
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
from pagetools_ipy.views import FrameView, TabState

from .helpers import Clock, FakePage, counted_ids, run


def connect(
    client_id: str = "c1", *, order: int = 1, now: float = 1000.0, tabs: ActiveTabs | None = None
) -> Connection:
    return Connection(client_id, lambda _: None, None, order, now, tabs or ActiveTabs())


def greet(connection: Connection, **seen: Any) -> None:
    """What the directory does with a hello."""
    frame = HelloFrame(seen.pop("top", True))
    hello = Hello(HelloTab(id="t", **seen), frame)
    connection.greet(hello, 1000.0)


def state(**seen: Any) -> State:
    return State(**{"seq": 1, "url": "", "title": "", "visible": False, "focused": False, **seen})


def declare(connection: Connection, ns: str, *names: str, **fields: Any) -> Registration:
    tools = tuple(ToolDescriptor(name) for name in names)
    registration = Registration(connection, Register(ns, [], **fields), tools, 1000.0)
    connection.registrations[ns] = registration
    return registration


# One connection


def test_a_connection_that_said_nothing_goes_by_its_id() -> None:
    connection = connect()
    assert (connection.tab.label, connection.tab.id) == ("c1", "c1")
    assert (connection.is_top, connection.active, connection.gone) == (True, False, False)
    assert connection.focus == (False, False, False, False, 0.0, False, 1000.0, 1)
    assert not connection.admitted


def test_it_goes_by_its_title_or_else_its_url() -> None:
    connection = connect()
    greet(connection, url="http://localhost/")
    assert connection.tab.label == "http://localhost/"
    greet(connection, url="http://localhost/", title="Shop")
    assert connection.tab.label == "Shop"


def test_when_the_keyboard_comes_and_when_it_goes_are_times_of_being_looked_at() -> None:
    connection = connect()
    for now, focused, expected in (
        (1.0, False, 0.0),
        (2.0, True, 2.0),
        (3.0, True, 2.0),
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


def record(*connections: Connection) -> TabRecord:
    tab = TabRecord("t", 1, 10.0)
    for connection in connections:
        tab.join(connection)
    return tab


def test_a_tab_is_shown_by_its_main_document_and_counts_what_any_of_them_knows() -> None:
    tabs = ActiveTabs()
    frame = connect("frame", order=1, now=10.0, tabs=tabs)
    main = connect("main", order=2, now=20.0, tabs=tabs)
    greet(frame, title="Ad", url="http://ads/", top=False, focused=True)
    greet(main, title="Shop", url="http://localhost/", visible=True)
    declare(frame, "ad", "skip")
    declare(main, "shop", "buy", "sell")
    declare(frame, "shop", "buy", "rent")
    frame.chrome_tab_id = 7
    tabs.activate(7, 1, "host")
    view = record(frame, main).view(3, 1000.0)
    assert (view.id, view.title, view.url, view.label) == ("t", "Shop", "http://localhost/", "Shop")
    assert view.client_ids == ("main", "frame")
    assert (view.visible, view.focused, view.active, view.pinned) == (True, True, True, False)
    assert (view.last_focused_at, view.connected_at, view.number) == (1000.0, 10.0, 3)
    assert view.namespaces == ("shop", "ad")
    assert view.tools == ("shop/buy", "shop/sell", "shop/rent", "ad/skip")
    assert view.frames == (
        FrameView("main", "http://localhost/", "Shop", True, True, False, ("shop",)),
        FrameView("frame", "http://ads/", "Ad", False, False, True, ("ad", "shop")),
    )


def test_a_tab_of_frames_only_is_shown_by_the_first_of_them() -> None:
    first, second = connect("c1", order=1), connect("c2", order=2)
    greet(first, title="First", top=False)
    greet(second, title="Second", top=False)
    assert record(second, first).title == "First"


@pytest.mark.parametrize(
    ("title", "url", "label"), [("T", "u", "T"), ("", "u", "u"), ("", "", "t")]
)
def test_a_tab_goes_by_its_title_or_url_or_id(title: str, url: str, label: str) -> None:
    connection = connect()
    greet(connection, title=title, url=url)
    tab = record(connection)
    assert (tab.label, tab.view(0, 1000.0).label) == (label, label)
    tab.leave(connection, 1000.0)
    assert (tab.label, tab.view(0, 1000.0).label) == (label, label)


def test_a_document_is_ranked_as_its_tab_and_within_it_by_itself() -> None:
    one, two = connect("c1", order=1, now=1.0), connect("c2", order=2, now=2.0)
    tab = record(one, two)
    two.look(state(visible=True, focused=True), 5.0)
    tab.pinned = True
    seen = (True, False, True, True, 5.0)
    assert one.focus == (*seen, False, 1.0, 1)
    assert two.focus == (*seen, True, 5.0, 2)


def test_when_it_was_looked_at_outlives_its_documents() -> None:
    one, two = connect("c1"), connect("c2", order=2)
    tab = record(one, two)

    def attention() -> Attention:
        tab.forget_attention()
        return tab.attention

    for connection, now in ((one, 5.0), (two, 6.0)):
        connection.look(state(focused=True), now)
    tab.leave(one, 7.0)
    assert attention() == (False, False, True, False, 7.0)
    two.look(state(), 8.0)
    tab.leave(two, 9.0)
    assert attention() == (False, False, False, False, 8.0)
    assert tab.left_at == 9.0


def test_its_attention_is_summed_up_once_until_something_changes() -> None:
    connection = connect()
    tab = record(connection)
    assert tab.attention is tab.attention
    connection.visible = True
    assert not tab.attention.visible
    tab.forget_attention()
    assert tab.attention.visible


def test_what_stays_of_a_tab_is_what_its_last_document_was() -> None:
    main, frame = connect("c1"), connect("c2", order=2)
    greet(main, title="Shop", url="http://localhost/")
    greet(frame, title="Ad", url="http://ads/", top=False)
    declare(main, "shop", "buy")
    declare(frame, "ad", "skip")
    tab = record(main, frame)
    tab.leave(frame, 1.0)
    tab.leave(main, 2.0)
    view = tab.view(None, 3.0)
    assert (view.title, view.url, view.tools) == ("Shop", "http://localhost/", ("shop/buy",))
    assert (view.frames, view.visible, view.focused, view.active) == ((), False, False, False)


@pytest.mark.parametrize(
    ("asleep", "seconds", "expected", "turns"),
    [
        (False, 0.0, TabState.RELOADING, RELOAD_SECONDS),
        (False, RELOAD_SECONDS - 0.1, TabState.RELOADING, RELOAD_SECONDS),
        (False, RELOAD_SECONDS, TabState.GONE, GONE_SECONDS),
        (False, GONE_SECONDS, TabState.GONE, GONE_SECONDS),
        (True, 0.0, TabState.RELOADING, NEXT_PAGE_SECONDS),
        (True, NEXT_PAGE_SECONDS - 0.1, TabState.RELOADING, NEXT_PAGE_SECONDS),
        (True, NEXT_PAGE_SECONDS, TabState.ASLEEP, ASLEEP_SECONDS),
        (True, ASLEEP_SECONDS, TabState.ASLEEP, ASLEEP_SECONDS),
    ],
)
def test_where_a_tab_stands_whose_page_left(
    asleep: bool, seconds: float, expected: TabState, turns: float
) -> None:
    connection = connect()
    connection.asleep = asleep
    tab = record(connection)
    tab.leave(connection, 100.0)
    assert tab.state(100.0 + seconds) is expected
    assert tab.next_turn(100.0 + seconds) == 100.0 + turns
    stays = ASLEEP_SECONDS if asleep else GONE_SECONDS
    assert (tab.is_over(99.9 + stays), tab.is_over(100.0 + stays)) == (False, True)


def test_a_tab_does_not_respond_when_none_of_its_documents_does() -> None:
    one, two = connect("c1"), connect("c2", order=2)
    tab = record(one, two)
    for silent, expected in (
        ((False, False), TabState.CONNECTED),
        ((True, False), TabState.CONNECTED),
        ((True, True), TabState.NOT_RESPONDING),
    ):
        one.silent, two.silent = silent
        assert tab.state(1000.0) is expected, silent


@pytest.mark.parametrize(
    ("ago", "expected"), [(None, 0.0), (0, 1000.0), (2500.0, 997.5), (-5.0, 1000.0)]
)
def test_a_page_may_know_when_it_was_looked_at_before_it_connected(
    ago: float | None, expected: float
) -> None:
    connection = connect()
    greet(connection, last_focused_ago=ago)
    assert connection.last_focused_at == expected
    greet(connection, last_focused_ago=5000.0)
    assert connection.last_focused_at == max(expected, 995.0)


def test_what_is_declared_of_an_app_has_a_digest_that_is_another_when_anything_changes() -> None:
    main, frame = connect("c1"), connect("c2", order=2)
    greet(main)
    greet(frame, top=False)
    tab, seen = record(main, frame), set()
    for names, connection in ((["buy"], main), (["buy", "sell"], main), (["buy"], frame)):
        declare(connection, "shop", *names)
        (app,) = tab.apps
        assert app == tab.apps[0]
        seen.add(app.digest)
    assert len(seen) == 3


def test_a_clock_that_is_set_back_does_not_keep_a_tab() -> None:
    connection = connect()
    tab = record(connection)
    tab.leave(connection, 10_000.0)
    assert tab.state(5_000.0) is TabState.RELOADING
    assert tab.state(5_000.0 + RELOAD_SECONDS) is TabState.GONE
    assert tab.is_over(5_000.0 + GONE_SECONDS)
