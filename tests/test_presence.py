"""`presence`: tabs follow what their pages say, and what time does when they say nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pagetools_ipy.claims import PATIENCE
from pagetools_ipy.connections import (
    ASLEEP_SECONDS,
    GONE_SECONDS,
    NEXT_PAGE_SECONDS,
    RELOAD_SECONDS,
    Connection,
)
from pagetools_ipy.heartbeat import IDLE_ROUNDS, MISSES, ROUND
from pagetools_ipy.limits import MAX_MESSAGE_BYTES, MAX_NAME_CHARS
from pagetools_ipy.messages import (
    ActivatedTab,
    Activation,
    BridgeMessage,
    Hello,
    HelloFrame,
    HelloTab,
    Ping,
    Pong,
    State,
    Welcome,
)
from pagetools_ipy.presence import SUPERSEDED, Presence
from pagetools_ipy.views import TabState

from .helpers import Clock, World, run, virtual_loop

UNTIL_SILENT = ROUND * (IDLE_ROUNDS + MISSES)


class Office:
    """Presence over an index, with pages that answer pings unless they are mute."""

    def __init__(self, now: Callable[[], float] = lambda: virtual_loop().now) -> None:
        self.now = now
        self.world = World(now)
        self.tabs = self.world.tabs
        self.sent: dict[str, list[BridgeMessage]] = {}
        self.closed: dict[str, tuple[int, str]] = {}
        self.mute: set[str] = set()
        self.ignored: Counter[str] = Counter()
        self.presence = Presence(
            self.tabs,
            touched=self.world.index.touch,
            send=self._send,
            drop=lambda connection: self.drop(connection.client_id),
            now=now,
            ignored=self.ignored,
        )
        self._orders = 0

    def _send(self, connection: Connection, message: BridgeMessage) -> bool:
        client_id = connection.client_id
        self.sent.setdefault(client_id, []).append(message)
        if isinstance(message, Ping) and client_id not in self.mute:
            self.presence.answered(connection, Pong(message.n))
        return True

    def connect(self, client_id: str, *, mute: bool = False) -> Connection:
        def close(code: int, reason: str) -> None:
            self.closed[client_id] = (code, reason)

        self._orders += 1
        connection = Connection(
            client_id, lambda _: None, close, self._orders, self.now(), self.tabs.active_tabs
        )
        self.tabs.add(connection)
        if mute:
            self.mute.add(client_id)
        return connection

    def page(
        self, client_id: str, tab: str, doc: str = "", *, mute: bool = False, **seen: Any
    ) -> Connection:
        connection = self.connect(client_id, mute=mute)
        top = seen.pop("top", True)
        hello = Hello(HelloTab(tab, doc or client_id, **seen), HelloFrame(top))
        self.presence.greet(connection, hello)
        return connection

    def drop(self, client_id: str) -> None:
        connection = self.tabs.remove(client_id)
        if connection is not None:
            self.presence.left(connection)

    def welcomes(self, client_id: str) -> list[Welcome]:
        return [m for m in self.sent.get(client_id, []) if isinstance(m, Welcome)]

    def states(self) -> dict[str, TabState]:
        return {view.id: view.state for view in self.tabs.views()}

    def members(self) -> dict[str, tuple[str, ...]]:
        return {view.id: view.client_ids for view in self.tabs.views()}


# Who a page is


def test_a_page_is_welcomed_into_the_tab_it_says_it_is_in() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1")
        assert office.sent["c1"] == [Welcome("c1", "t1", MAX_MESSAGE_BYTES, None)]
        assert office.members() == {"t1": ("c1",)}

    run(scenario())


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", "c1"),
        ("\x1b\u202e", "c1"),
        ("t\x001", "t1"),
        ("x" * 500, "x" * (MAX_NAME_CHARS - 1) + "…"),
    ],
)
def test_the_identifier_of_a_tab_is_made_safe(said: str, expected: str) -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", said)
        assert office.welcomes("c1")[0].tab_id == expected
        assert office.members() == {expected: ("c1",)}

    run(scenario())


def test_a_holder_that_answers_makes_the_newcomer_a_tab_of_its_own() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1")
        office.page("c2", "t1")
        (welcome,) = office.welcomes("c2")
        assert welcome.reason == "duplicate"
        assert len(welcome.tab_id) == 32
        assert office.members() == {"t1": ("c1",), welcome.tab_id: ("c2",)}

    run(scenario())


def test_a_holder_that_is_silent_gives_way_and_is_closed() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", mute=True)
        office.page("c2", "t1")
        assert office.welcomes("c2") == []
        assert office.members() == {"t1": ("c1",), "c2": ("c2",)}
        await asyncio.sleep(PATIENCE)
        assert [(w.tab_id, w.reason) for w in office.welcomes("c2")] == [("t1", None)]
        assert office.closed["c1"][0] == SUPERSEDED
        assert office.members() == {"t1": ("c2",)}

    run(scenario())


def test_a_holder_that_leaves_while_it_is_asked_gives_way_at_once() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", mute=True)
        office.page("c2", "t1")
        office.drop("c1")
        assert [(w.tab_id, w.reason) for w in office.welcomes("c2")] == [("t1", None)]
        assert office.closed == {}

    run(scenario())


def test_the_first_of_several_newcomers_takes_a_silent_ones_place() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", mute=True)
        for client_id in ("c2", "c3", "c4"):
            office.page(client_id, "t1")
        await asyncio.sleep(PATIENCE)
        reasons = {c: [w.reason for w in office.welcomes(c)] for c in ("c2", "c3", "c4")}
        assert reasons == {"c2": [None], "c3": ["duplicate"], "c4": ["duplicate"]}
        assert office.members()["t1"] == ("c2",)
        assert len(office.members()) == 3

    run(scenario())


def test_a_chain_of_silent_ones_gives_way_one_after_the_other() -> None:
    async def scenario() -> None:
        office = Office()
        for client_id in ("c1", "c2", "c3"):
            office.page(client_id, "t1", mute=True)
        await asyncio.sleep(2 * PATIENCE)
        assert office.members() == {"t1": ("c3",)}
        assert set(office.closed) == {"c1", "c2"}

    run(scenario())


def test_another_connection_of_the_same_document_takes_the_place_of_the_first() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", "doc")
        office.page("c2", "t1", "doc")
        assert office.closed["c1"] == (SUPERSEDED, "this page has opened another connection")
        assert office.members() == {"t1": ("c2",)}
        assert office.welcomes("c2")[0].reason is None

    run(scenario())


def test_a_connection_that_cannot_be_closed_is_forgotten_all_the_same() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", "doc").close = None
        office.page("c2", "t1", "doc")
        assert office.members() == {"t1": ("c2",)}

    run(scenario())


def test_frames_join_their_tab_whoever_holds_it() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("frame", "t1", top=False, mute=True)
        office.page("top", "t1", mute=True)
        office.page("other", "t1", top=False)
        assert office.members() == {"t1": ("top", "frame", "other")}
        assert [len(office.welcomes(c)) for c in ("frame", "top", "other")] == [1, 1, 1]

    run(scenario())


def test_a_page_without_a_document_id_is_nobody_elses_connection() -> None:
    async def scenario() -> None:
        office = Office()
        for client_id in ("c1", "c2"):
            hello = Hello(HelloTab("t1"), HelloFrame(False))
            office.presence.greet(office.connect(client_id), hello)
        assert office.members() == {"t1": ("c1", "c2")}

    run(scenario())


def test_no_page_takes_the_identifier_of_another_connection_for_its_tab() -> None:
    """Calls are addressed by it, and it can be guessed."""

    async def scenario() -> None:
        office = Office()
        office.connect("c1")
        office.page("c3", "t3")
        for number, wanted in enumerate(("c1", "c3")):
            intruder = office.page(f"x{number}", wanted)
            assert intruder.tab.id not in ("c1", "c3", "t3", wanted)
        assert office.members()["c1"] == ("c1",)
        assert office.members()["t3"] == ("c3",)

    run(scenario())


def test_a_page_that_says_hello_again_stays_or_goes_to_the_other_tab() -> None:
    async def scenario() -> None:
        office = Office()
        page = office.page("c1", "t1", "doc")
        for tab in ("t1", "t2"):
            office.presence.greet(page, Hello(HelloTab(tab, "doc")))
            assert office.members() == {tab: ("c1",)}
        assert [w.tab_id for w in office.welcomes("c1")] == ["t1", "t1", "t2"]

    run(scenario())


def test_without_a_loop_who_holds_a_tab_keeps_it() -> None:
    office = Office(Clock())
    office.page("c1", "t1", mute=True)
    office.page("c2", "t1")
    assert office.welcomes("c2")[0].reason == "duplicate"
    office.drop("c1")
    assert office.states()["t1"] is TabState.RELOADING


# What a page says


def test_only_news_that_are_newer_count() -> None:
    async def scenario() -> None:
        office = Office()
        page = office.page("c1", "t1")
        for seq, title in ((2, "two"), (1, "one"), (2, "two again"), (3, "three")):
            office.presence.look(page, State(seq, "", title, False, False))
        assert page.title == "three"
        assert office.ignored == {"stale state": 2}

    run(scenario())


def test_activations_come_and_go() -> None:
    async def scenario() -> None:
        office = Office()
        page, host = office.page("c1", "t1"), office.connect("host")
        page.chrome_tab_id = 7
        for active in (True, False):
            office.presence.activate(host, Activation(ActivatedTab(7, 1), active))
            assert office.tabs.views()[0].active is active

    run(scenario())


def test_a_tab_is_not_active_any_more_when_who_said_so_has_gone() -> None:
    async def scenario() -> None:
        office = Office()
        page, host = office.page("c1", "t1"), office.connect("host")
        page.chrome_tab_id = 7
        office.presence.activate(host, Activation(ActivatedTab(7, 1), True))
        assert office.tabs.views()[0].active
        office.drop("host")
        assert not office.tabs.views()[0].active

    run(scenario())


@pytest.mark.parametrize(("ago", "expected"), [(None, 0.0), (2000.0, 998.0)])
def test_a_page_may_tell_when_it_was_looked_at_last(ago: float | None, expected: float) -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", last_focused_ago=ago)
        assert office.tabs.views()[0].last_focused_at == expected

    run(scenario())


# What time does


def test_a_page_that_answers_no_ping_is_not_responding_until_it_does() -> None:
    async def scenario() -> None:
        office = Office()
        page = office.page("c1", "t1", mute=True)
        office.page("c2", "t2")
        office.world.touched.clear()
        await asyncio.sleep(UNTIL_SILENT)
        assert office.states() == {"t1": TabState.NOT_RESPONDING, "t2": TabState.CONNECTED}
        assert office.world.touched == ["t1"]
        office.presence.answered(page, Pong(1))
        assert office.states()["t1"] is TabState.CONNECTED
        assert office.world.touched == ["t1", "t1"]

    run(scenario())


def test_a_connection_that_said_no_hello_is_not_asked() -> None:
    async def scenario() -> None:
        office = Office()
        office.connect("c1", mute=True)
        await asyncio.sleep(UNTIL_SILENT)
        assert office.sent == {}
        assert office.states() == {"c1": TabState.CONNECTED}

    run(scenario())


def test_a_tab_goes_through_its_states_and_each_of_them_is_told() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1")
        office.drop("c1")
        office.world.touched.clear()
        seen = []
        for seconds in (RELOAD_SECONDS - 0.1, 0.1, GONE_SECONDS - RELOAD_SECONDS - 0.1, 0.1):
            await asyncio.sleep(seconds)
            seen.append((office.states().get("t1"), len(office.world.touched)))
        assert seen == [
            (TabState.RELOADING, 0),
            (TabState.GONE, 1),
            (TabState.GONE, 1),
            (None, 3),
        ]
        assert set(office.world.touched) == {"t1"}

    run(scenario())


def test_a_tab_that_is_asleep_is_kept_for_long() -> None:
    async def scenario() -> None:
        office = Office()
        page = office.page("c1", "t1")
        office.presence.look(page, State(1, "", "", False, False, asleep=True))
        office.drop("c1")
        office.world.touched.clear()
        await asyncio.sleep(NEXT_PAGE_SECONDS - 0.1)
        assert (office.states(), office.world.touched) == ({"t1": TabState.RELOADING}, [])
        await asyncio.sleep(0.1)
        assert (office.states(), office.world.touched) == ({"t1": TabState.ASLEEP}, ["t1"])
        await asyncio.sleep(ASLEEP_SECONDS - NEXT_PAGE_SECONDS - 0.1)
        assert office.states() == {"t1": TabState.ASLEEP}
        await asyncio.sleep(0.1)
        assert office.states() == {}

    run(scenario())


def test_a_page_that_woke_up_again_before_it_left_was_not_asleep() -> None:
    async def scenario() -> None:
        office = Office()
        page = office.page("c1", "t1")
        for seq, asleep in enumerate((True, False)):
            office.presence.look(page, State(seq, "", "", False, False, asleep=asleep))
        office.drop("c1")
        await asyncio.sleep(RELOAD_SECONDS)
        assert office.states() == {"t1": TabState.GONE}

    run(scenario())


def test_a_tab_that_is_back_in_time_is_never_gone() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1")
        for number in range(2, 6):
            office.drop(f"c{number - 1}")
            await asyncio.sleep(RELOAD_SECONDS - 1)
            assert office.states() == {"t1": TabState.RELOADING}
            office.page(f"c{number}", "t1")
            await asyncio.sleep(GONE_SECONDS)
            assert office.states() == {"t1": TabState.CONNECTED}

    run(scenario())


def test_after_closing_nothing_is_to_be_done() -> None:
    async def scenario() -> None:
        office = Office()
        office.page("c1", "t1", mute=True)
        office.page("c2", "t1")
        office.page("c3", "t3")
        office.drop("c3")
        for _ in range(2):
            office.presence.close()
        timers = virtual_loop()._scheduled  # type: ignore[attr-defined]
        assert [timer for timer in timers if not timer.cancelled()] == []

    run(scenario())
