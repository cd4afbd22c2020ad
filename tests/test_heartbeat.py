"""`heartbeat`: pages are asked now and then, and silence counts while the loop listens."""

from __future__ import annotations

import asyncio

import pytest

from pagetools_ipy.connections import Connection
from pagetools_ipy.heartbeat import IDLE_ROUNDS, LATE, MISSES, ROUND, Heartbeat

from .helpers import World, run, settle, virtual_loop

IDLE = ROUND * IDLE_ROUNDS
"""Seconds between two questions to an idle page."""


class Ward:
    """A heartbeat, and what it asks and finds."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat(self._ask, self._changed)
        self.asked: list[tuple[str, float]] = []
        self.numbers: list[int] = []
        self.changes: list[tuple[str, bool]] = []
        self.mute: set[str] = set()
        self._world = World()
        self._started: float | None = None

    def _ask(self, connection: Connection, number: int) -> None:
        self.asked.append((connection.client_id, virtual_loop().now - 1000.0))
        self.numbers.append(number)
        if connection.client_id not in self.mute:
            self.heartbeat.answered(connection)

    def _changed(self, connection: Connection) -> None:
        self.changes.append((connection.client_id, connection.silent))

    def watch(self, client_id: str, *, mute: bool = False, busy: bool = False) -> Connection:
        connection = self._world.connect(client_id)
        if mute:
            self.mute.add(client_id)
        if busy:
            connection.pending["call"] = None  # type: ignore[assignment]
        self.heartbeat.watch(connection)
        return connection

    def asked_at(self, client_id: str) -> list[float]:
        return [at for who, at in self.asked if who == client_id]


@pytest.fixture
def ward() -> Ward:
    return Ward()


def timers() -> int:
    scheduled = virtual_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in scheduled)


def test_an_idle_page_is_asked_now_and_then_and_one_that_owes_an_answer_in_each_round(
    ward: Ward,
) -> None:
    async def scenario() -> None:
        ward.watch("idle")
        ward.watch("busy", busy=True)
        await asyncio.sleep(2 * IDLE)
        assert ward.asked_at("idle") == [IDLE, 2 * IDLE]
        assert ward.asked_at("busy") == [ROUND * n for n in range(1, 2 * IDLE_ROUNDS + 1)]
        assert ward.changes == []
        assert ward.numbers == list(range(1, len(ward.numbers) + 1))

    run(scenario())


def test_a_page_that_does_not_answer_is_asked_again_in_each_round_and_then_is_silent(
    ward: Ward,
) -> None:
    async def scenario() -> None:
        page = ward.watch("page", mute=True)
        await asyncio.sleep(IDLE + ROUND * (MISSES - 1))
        assert not page.silent
        await asyncio.sleep(ROUND)
        assert page.silent
        assert ward.changes == [("page", True)]
        await asyncio.sleep(ROUND * 5)
        assert ward.asked_at("page") == [IDLE + ROUND * n for n in range(MISSES + 6)]
        assert ward.changes == [("page", True)]

    run(scenario())


def test_a_page_that_speaks_again_is_not_silent_any_more(ward: Ward) -> None:
    async def scenario() -> None:
        page = ward.watch("page", mute=True)
        await asyncio.sleep(IDLE + ROUND * MISSES)
        ward.heartbeat.answered(page)
        assert not page.silent
        assert ward.changes == [("page", True), ("page", False)]
        asked = len(ward.asked)
        await asyncio.sleep(ROUND)
        assert len(ward.asked) == asked

    run(scenario())


def test_an_answer_makes_earlier_misses_good(ward: Ward) -> None:
    async def scenario() -> None:
        page = ward.watch("page", mute=True)
        await asyncio.sleep(IDLE + ROUND * (MISSES - 1))
        ward.heartbeat.answered(page)
        await asyncio.sleep(IDLE + ROUND * (MISSES - 2))
        assert ward.changes == []

    run(scenario())


def test_one_pages_silence_is_no_other_pages(ward: Ward) -> None:
    async def scenario() -> None:
        mute, awake = ward.watch("mute", mute=True), ward.watch("awake")
        await asyncio.sleep(10 * IDLE)
        assert (mute.silent, awake.silent) == (True, False)

    run(scenario())


def test_silence_while_the_loop_was_blocked_counts_for_nothing(ward: Ward) -> None:
    async def scenario() -> None:
        page = ward.watch("page", mute=True)
        await asyncio.sleep(IDLE)
        for _ in range(10):  # "run all": cells that block, with gaps in between
            virtual_loop().block(60)
            await settle()
        assert ward.changes == []
        assert len(ward.asked) == 11  # everybody who owes an answer is asked anew
        ward.heartbeat.answered(page)
        await asyncio.sleep(ROUND * MISSES)
        assert ward.changes == []

    run(scenario())


@pytest.mark.parametrize(("late", "silent"), [(LATE - 0.1, True), (LATE + 0.1, False)])
def test_a_round_may_be_a_little_late(ward: Ward, late: float, silent: bool) -> None:
    async def scenario() -> None:
        page = ward.watch("page", mute=True)
        await asyncio.sleep(IDLE + ROUND * (MISSES - 1))
        virtual_loop().block(ROUND + late)
        await settle()
        assert page.silent is silent

    run(scenario())


def test_who_is_forgotten_is_not_asked_and_without_anybody_there_is_no_timer(ward: Ward) -> None:
    async def scenario() -> None:
        one, two = ward.watch("one"), ward.watch("two")
        assert timers() == 1
        ward.heartbeat.forget(one)
        await asyncio.sleep(IDLE)
        assert ward.asked == [("two", IDLE)]
        ward.heartbeat.forget(two)
        ward.heartbeat.forget(two)
        assert timers() == 0

    run(scenario())


def test_a_page_may_go_while_it_is_asked(ward: Ward) -> None:
    async def scenario() -> None:
        one, two = ward.watch("one"), ward.watch("two")

        def ask(connection: Connection, number: int) -> None:
            ward.heartbeat.forget(one)
            ward.heartbeat.forget(two)

        ward.heartbeat._ask = ask
        await asyncio.sleep(IDLE)
        assert timers() == 0

    run(scenario())


def test_an_answer_nobody_waits_for_changes_nothing(ward: Ward) -> None:
    async def scenario() -> None:
        page = ward._world.connect("page")
        ward.heartbeat.answered(page)
        assert ward.changes == []

    run(scenario())


def test_without_a_loop_nobody_is_asked_and_with_one_everybody(ward: Ward) -> None:
    ward.watch("early")
    assert ward.heartbeat._timer is None

    async def scenario() -> None:
        ward.watch("late")
        await asyncio.sleep(IDLE)
        assert ward.asked == [("early", IDLE), ("late", IDLE)]

    run(scenario())


def test_after_closing_nobody_is_asked(ward: Ward) -> None:
    async def scenario() -> None:
        ward.watch("page")
        ward.heartbeat.close()
        ward.heartbeat.close()
        assert timers() == 0
        await asyncio.sleep(10 * IDLE)
        assert ward.asked == []

    run(scenario())
