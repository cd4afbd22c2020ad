"""`deadlines`: calls end when the time in which their loop was running is up, and not before."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy.calls import CallState, PageCall, Target, block_thread
from pagetools_ipy.deadlines import GRACE, RESOLUTION, SWEEP_FROM, TICK, Deadlines

from .helpers import run, settle, virtual_loop

TARGET = Target("c", "shop", "buy", "Shop", "the only one")


class Book:
    """Deadlines, and when they ended which call."""

    def __init__(self) -> None:
        self.deadlines = Deadlines(self._expire)
        self.started = virtual_loop().now
        self.ended: dict[str, float] = {}
        self._added = 0

    def _expire(self, call: PageCall) -> None:
        assert call.id not in self.ended
        self.ended[call.id] = virtual_loop().now - self.started
        call.settle(CallState.TIMED_OUT, TimeoutError())

    def add(self, timeout: float | None, name: str = "") -> PageCall:
        self._added += 1
        call = PageCall(
            name or str(self._added),
            TARGET,
            {},
            timeout=timeout,
            cancel=lambda *_: None,
            decode=None,
            block=block_thread,
        )
        self.deadlines.add(call)
        return call

    @property
    def kept(self) -> int:
        return len(self.deadlines._heap)

    @property
    def timer(self) -> asyncio.TimerHandle | None:
        return self.deadlines._timer


def answer(call: PageCall) -> None:
    call.settle(CallState.ANSWERED, None)


@pytest.mark.parametrize("timeout", [0.001, 0.1, TICK, 1, 15, 3600])
def test_a_call_ends_when_its_time_is_up(timeout: float) -> None:
    async def scenario() -> None:
        book = Book()
        call = book.add(timeout)
        await asyncio.sleep(timeout - 2 * RESOLUTION)
        assert not call.done() or timeout <= 2 * RESOLUTION
        await asyncio.sleep(4 * RESOLUTION)
        assert call.state is CallState.TIMED_OUT
        assert book.ended["1"] == pytest.approx(timeout, abs=2 * RESOLUTION)

    run(scenario())


def test_without_a_timeout_nothing_is_kept_and_nothing_ends() -> None:
    async def scenario() -> None:
        book = Book()
        call = book.add(None)
        assert (book.kept, book.timer) == (0, None)
        await asyncio.sleep(1e6)
        assert not call.done()

    run(scenario())


def test_calls_end_in_the_order_of_their_deadlines_and_of_their_start() -> None:
    async def scenario() -> None:
        book = Book()
        for name, timeout in (("c", 3.0), ("a", 1.0), ("d", 3.0), ("b", 2.0), ("e", 3.0)):
            book.add(timeout, name)
        await asyncio.sleep(10)
        assert list(book.ended) == ["a", "b", "c", "d", "e"]

    run(scenario())


def test_a_call_started_later_counts_from_its_own_start() -> None:
    async def scenario() -> None:
        book = Book()
        book.add(10, "long")
        await asyncio.sleep(3.3)
        book.add(1, "short")
        await asyncio.sleep(20)
        assert book.ended == {"short": pytest.approx(4.3), "long": pytest.approx(10)}

    run(scenario())


def test_a_call_with_more_time_does_not_put_off_one_with_less() -> None:
    async def scenario() -> None:
        book = Book()
        book.add(0.2, "short")
        await asyncio.sleep(0.1)
        book.add(10, "long")
        await asyncio.sleep(0.1 + 2 * RESOLUTION)
        assert list(book.ended) == ["short"]

    run(scenario())


def test_one_timer_serves_however_many_calls() -> None:
    async def scenario() -> None:
        book = Book()
        before = live_timers()
        for number in range(100):
            book.add(0.2 - number / 1000)
            assert live_timers() == before + 1

    run(scenario())


def live_timers() -> int:
    scheduled = virtual_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in scheduled)


def test_time_without_any_call_pending_does_not_count_for_the_next() -> None:
    async def scenario() -> None:
        book = Book()
        answer(book.add(1))
        await asyncio.sleep(1000)
        book.add(2, "late")
        await asyncio.sleep(10)
        assert book.ended == {"late": pytest.approx(1002)}

    run(scenario())


def test_there_is_no_timer_while_nothing_is_pending() -> None:
    async def scenario() -> None:
        book = Book()
        assert book.timer is None
        call = book.add(100)
        assert book.timer is not None
        answer(call)
        await asyncio.sleep(2 * TICK)
        assert book.timer is None
        assert book.kept == 0

    run(scenario())


def test_thousands_of_calls_end_each_at_its_time() -> None:
    async def scenario() -> None:
        book = Book()
        calls = [book.add(0.05 + number % 100 / 10) for number in range(3000)]
        await asyncio.sleep(20)
        assert all(call.state is CallState.TIMED_OUT for call in calls)
        for call in calls:
            assert call.timeout is not None
            assert book.ended[call.id] == pytest.approx(call.timeout, abs=2 * RESOLUTION)

    run(scenario())


def test_answered_calls_are_swept_out_long_before_their_deadline() -> None:
    async def scenario() -> None:
        book = Book()
        waiting = [book.add(3600) for _ in range(10)]
        most = 0
        for _ in range(5000):
            answer(book.add(3600))
            most = max(most, book.kept)
        assert most <= SWEEP_FROM
        assert not any(call.done() for call in waiting)
        await asyncio.sleep(3601)
        assert len(book.ended) == 10

    run(scenario())


def test_sweeping_costs_little_while_many_calls_are_pending() -> None:
    """It is done when the number has doubled, not at each call."""
    swept = 0

    async def scenario() -> None:
        nonlocal swept
        book = Book()
        real = book.deadlines._drop_finished

        def counting() -> None:
            nonlocal swept
            swept += 1
            real()

        book.deadlines._drop_finished = counting  # type: ignore[method-assign]
        for _ in range(3000):
            book.add(60)
        assert book.kept == 3000

    run(scenario())
    assert swept <= 7


# Blocked loops


def test_a_minute_in_which_the_loop_was_blocked_is_charged_as_one_tick() -> None:
    async def scenario() -> None:
        book = Book()
        book.add(15)
        await asyncio.sleep(1)
        virtual_loop().block(60)
        await asyncio.sleep(30)
        assert 60 + 15 - TICK <= book.ended["1"] <= 60 + 15 + GRACE

    run(scenario())


def test_after_a_block_answers_come_first_even_for_a_call_that_was_nearly_due() -> None:
    async def scenario() -> None:
        book = Book()
        call = book.add(1)
        await asyncio.sleep(0.9)
        virtual_loop().block(60)
        await settle()
        assert not call.done()
        await asyncio.sleep(GRACE / 2)
        answer(call)
        await asyncio.sleep(10)
        assert book.ended == {}

    run(scenario())


def test_the_grace_after_a_block_is_short() -> None:
    async def scenario() -> None:
        book = Book()
        book.add(1)
        await asyncio.sleep(0.9)
        virtual_loop().block(60)
        await asyncio.sleep(GRACE + 0.01)
        assert list(book.ended) == ["1"]

    run(scenario())


def test_each_block_in_a_row_of_them_is_given_its_grace() -> None:
    async def scenario() -> None:
        book = Book()
        call = book.add(2)
        for _ in range(20):
            virtual_loop().block(5)
            await asyncio.sleep(GRACE / 20)
        assert not call.done()
        await asyncio.sleep(2 * GRACE)
        assert call.done()

    run(scenario())


def test_a_call_started_right_after_a_block_takes_no_grace_from_the_others() -> None:
    """The cell that blocked goes on to make the next call before the loop runs again."""

    async def scenario() -> None:
        book = Book()
        book.add(1, "old")
        await asyncio.sleep(0.9)
        virtual_loop().block(60)
        book.add(0.02, "new")
        await settle()
        assert book.ended == {}
        await asyncio.sleep(5)
        assert set(book.ended) == {"old", "new"}

    run(scenario())


def test_a_short_stutter_is_no_block() -> None:
    async def scenario() -> None:
        book = Book()
        book.add(1)
        await asyncio.sleep(0.95)
        virtual_loop().block(0.1)
        await settle()
        assert list(book.ended) == ["1"]

    run(scenario())


def test_a_loop_that_is_used_after_another_keeps_time_too() -> None:
    """A terminal runs each cell in a loop of its own."""
    ended: list[str] = []

    def expire(call: PageCall) -> None:
        ended.append(call.id)
        call.settle(CallState.TIMED_OUT, TimeoutError())

    deadlines = Deadlines(expire)

    async def scenario(name: str, seconds: float) -> None:
        call = PageCall(
            name,
            TARGET,
            {},
            timeout=1,
            cancel=lambda *_: None,
            decode=None,
            block=block_thread,
        )
        deadlines.add(call)
        await asyncio.sleep(seconds)

    run(scenario("left behind", 0.1))
    run(scenario("second", 3))
    assert "second" in ended


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "answer", "sleep", "block"]),
            st.sampled_from([0.03, 0.2, 0.6, 1.7, 4.0]),
        ),
        max_size=25,
    )
)
def test_no_call_ends_early_and_none_is_forgotten(steps: list[tuple[str, float]]) -> None:
    async def scenario() -> None:
        book = Book()
        loop = virtual_loop()
        started: dict[str, float] = {}
        open_calls: list[PageCall] = []
        blocks, blocked = 0, 0.0
        for what, amount in steps:
            if what == "add":
                call = book.add(amount)
                started[call.id] = loop.now - book.started
                open_calls.append(call)
            elif what == "answer" and open_calls:
                answer(open_calls.pop(0))
            elif what == "block":
                loop.block(amount)
                blocked += amount
                blocks += 1
            else:
                await asyncio.sleep(amount)
        await asyncio.sleep(10)
        for call in open_calls:
            assert call.timeout is not None
            assert call.state is CallState.TIMED_OUT
            ran = book.ended[call.id] - started[call.id]
            assert ran >= call.timeout - RESOLUTION
            assert ran <= call.timeout + blocked + blocks * GRACE + RESOLUTION
        assert (book.kept, book.timer) == (0, None)

    run(scenario())
