"""`claims`: who holds a tab's identifier is asked whether it is there."""

from __future__ import annotations

import asyncio

import pytest

from pagetools_ipy.claims import LATE, PATIENCE, TabClaims
from pagetools_ipy.connections import Connection

from .helpers import World, run, settle, virtual_loop

AT_LAST = PATIENCE * 3
"""Long enough for any verdict."""


class Court:
    """Claims, and what they ask and decide."""

    def __init__(self) -> None:
        self.claims = TabClaims(self._ask, self._settle)
        self.asked: list[str] = []
        self.verdicts: list[tuple[str, str, bool]] = []
        self.answers: set[str] = set()
        """Who answers at once."""
        self._world = World()

    def _ask(self, holder: Connection) -> None:
        self.asked.append(holder.client_id)
        if holder.client_id in self.answers:
            self.claims.answered(holder)

    def _settle(self, newcomer: Connection, holder: Connection, is_there: bool) -> None:
        self.verdicts.append((newcomer.client_id, holder.client_id, is_there))

    def connect(self, *client_ids: str) -> list[Connection]:
        return [self._world.connect(client_id) for client_id in client_ids]

    @property
    def is_idle(self) -> bool:
        timers = virtual_loop()._scheduled  # type: ignore[attr-defined]
        return not (
            self.claims._open or self.claims._timers or [t for t in timers if not t.cancelled()]
        )


@pytest.fixture
def court() -> Court:
    return Court()


def test_a_holder_that_answers_keeps_its_place(court: Court) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.claims.contest(newcomer, holder)
        await asyncio.sleep(PATIENCE - 0.1)
        assert (court.asked, court.verdicts) == (["holder"], [])
        court.claims.answered(holder)
        assert court.verdicts == [("newcomer", "holder", True)]
        await asyncio.sleep(AT_LAST)
        assert len(court.verdicts) == 1
        assert court.is_idle

    run(scenario())


def test_a_holder_that_is_silent_loses_it(court: Court) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.claims.contest(newcomer, holder)
        await asyncio.sleep(PATIENCE)
        assert court.verdicts == [("newcomer", "holder", False)]
        court.claims.answered(holder)
        assert len(court.verdicts) == 1
        assert court.is_idle

    run(scenario())


def test_a_holder_may_answer_while_it_is_asked(court: Court) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.answers.add("holder")
        court.claims.contest(newcomer, holder)
        assert court.verdicts == [("newcomer", "holder", True)]
        assert court.is_idle

    run(scenario())


def test_a_holder_that_leaves_makes_room_at_once(court: Court) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.claims.contest(newcomer, holder)
        court.claims.left(holder)
        assert court.verdicts == [("newcomer", "holder", False)]
        assert court.is_idle

    run(scenario())


def test_without_a_loop_the_holder_counts_as_being_there(court: Court) -> None:
    holder, newcomer = court.connect("holder", "newcomer")
    court.claims.contest(newcomer, holder)
    assert (court.asked, court.verdicts) == ([], [("newcomer", "holder", True)])


@pytest.mark.parametrize("is_there", [True, False])
def test_several_newcomers_wait_for_one_answer_from_the_first_on(
    court: Court, is_there: bool
) -> None:
    async def scenario() -> None:
        holder, one, two = court.connect("holder", "one", "two")
        court.claims.contest(one, holder)
        await asyncio.sleep(PATIENCE / 2)
        court.claims.contest(two, holder)
        if is_there:
            court.claims.answered(holder)
        await asyncio.sleep(PATIENCE / 2)
        assert court.asked == ["holder"]
        assert court.verdicts == [("one", "holder", is_there), ("two", "holder", is_there)]
        assert court.is_idle

    run(scenario())


def test_a_newcomer_that_leaves_is_not_decided_on(court: Court) -> None:
    async def scenario() -> None:
        holder, one, two = court.connect("holder", "one", "two")
        court.claims.contest(one, holder)
        court.claims.contest(two, holder)
        court.claims.left(one)
        await asyncio.sleep(AT_LAST)
        assert court.verdicts == [("two", "holder", False)]

    run(scenario())


def test_each_holder_is_asked_by_itself(court: Court) -> None:
    async def scenario() -> None:
        mute, awake, one, two = court.connect("mute", "awake", "one", "two")
        court.claims.contest(one, mute)
        court.claims.contest(two, awake)
        court.claims.answered(awake)
        await asyncio.sleep(AT_LAST)
        assert court.verdicts == [("two", "awake", True), ("one", "mute", False)]

    run(scenario())


def test_what_nobody_asked_decides_nothing(court: Court) -> None:
    async def scenario() -> None:
        (page,) = court.connect("page")
        court.claims.answered(page)
        court.claims.left(page)
        assert court.verdicts == []

    run(scenario())


@pytest.mark.parametrize("answers", [True, False])
def test_a_verdict_that_comes_late_waits_for_what_may_lie_unread(
    court: Court, answers: bool
) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.claims.contest(newcomer, holder)
        virtual_loop().block(60)
        await settle()
        assert court.verdicts == []
        if answers:
            court.claims.answered(holder)
        await asyncio.sleep(PATIENCE)
        assert court.verdicts == [("newcomer", "holder", answers)]
        assert court.is_idle

    run(scenario())


@pytest.mark.parametrize(("late", "verdicts"), [(LATE - 0.1, 1), (LATE + 0.1, 0)])
def test_a_little_late_is_in_time(court: Court, late: float, verdicts: int) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.claims.contest(newcomer, holder)
        virtual_loop().block(PATIENCE + late)
        await settle()
        assert len(court.verdicts) == verdicts

    run(scenario())


def test_after_closing_nothing_is_decided(court: Court) -> None:
    async def scenario() -> None:
        holder, newcomer = court.connect("holder", "newcomer")
        court.claims.contest(newcomer, holder)
        court.claims.close()
        court.claims.answered(holder)
        await asyncio.sleep(AT_LAST)
        assert court.verdicts == []
        assert court.is_idle

    run(scenario())
