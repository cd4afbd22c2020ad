"""`changes`: listeners hear of the net effect, once per quiet period, and waiters of any."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy.changes import ChangeSignal, Listeners, Pulse

from .helpers import run, settle, virtual_loop


def listening(signal: ChangeSignal) -> list[float]:
    """The times at which the signal fires, counted from now."""
    fired: list[float] = []
    started = virtual_loop().now
    signal.subscribe(lambda: fired.append(round(virtual_loop().now - started, 3)))
    return fired


def test_a_change_is_told_after_the_quiet_period() -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        signal.replace((), ["a"])
        await asyncio.sleep(0.49)
        assert fired == []
        await asyncio.sleep(10)
        assert fired == [0.5]

    run(scenario())


def test_each_change_within_it_prolongs_the_quiet_period() -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        for item in "abc":
            signal.replace((), [item])
            await asyncio.sleep(0.3)
        await asyncio.sleep(10)
        assert fired == [1.1]

    run(scenario())


def test_a_set_that_never_rests_is_told_of_after_four_quiet_periods() -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        for number in range(50):
            signal.replace([number - 1], [number])
            await asyncio.sleep(0.1)
        assert fired == pytest.approx([2.0, 4.1], abs=0.11)

    run(scenario())


@pytest.mark.parametrize(
    "steps",
    [
        [([], ["a"]), (["a"], [])],
        [(["a"], []), ([], ["a"])],
        [(["a"], ["b"]), (["b"], ["a"])],
        [([], ["a", "a"]), (["a"], []), (["a"], [])],
        [(["a"], ["a"])],
        [([], [])],
        [(["a", "b"], ["b", "a"])],
    ],
)
def test_what_cancels_out_is_not_told(steps: list[tuple[list[str], list[str]]]) -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        for gone, come in steps:
            signal.replace(gone, come)
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)
        assert fired == []

    run(scenario())


def test_the_number_of_equal_items_counts() -> None:
    """Two tabs of one app are not the same as one."""

    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        signal.replace((), ["a"])
        await asyncio.sleep(1)
        signal.replace((), ["a"])
        await asyncio.sleep(1)
        signal.replace(["a"], ())
        await asyncio.sleep(1)
        assert fired == [0.5, 1.5, 2.5]

    run(scenario())


def test_what_was_told_is_the_base_of_the_next_comparison() -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        signal.replace((), ["a"])
        await asyncio.sleep(1)
        signal.replace(["a"], ())
        await asyncio.sleep(1)
        assert fired == [0.5, 1.5]

    run(scenario())


def test_nothing_new_does_not_put_off_what_is_to_be_told() -> None:
    """Pages without tools come and go."""

    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        signal.replace((), ["a"])
        await asyncio.sleep(0.3)
        signal.replace((), ())
        await asyncio.sleep(10)
        assert fired == [0.5]

    run(scenario())


def test_without_a_quiet_period_or_a_loop_it_is_told_at_once() -> None:
    fired: list[str] = []

    async def scenario() -> None:
        signal = ChangeSignal(0)
        signal.subscribe(lambda: fired.append("no period"))
        signal.replace((), ["a"])
        assert fired == ["no period"]

    run(scenario())
    signal = ChangeSignal(0.5)
    signal.subscribe(lambda: fired.append("no loop"))
    signal.replace((), ["a"])
    signal.replace((), ())
    signal.replace(["x"], ["x"])
    assert fired == ["no period", "no loop"]


def test_a_change_is_told_on_the_loop_it_is_made_on() -> None:
    """A loop that is gone takes its timer with it."""
    signal = ChangeSignal(0.5)
    fired: list[int] = []
    signal.subscribe(lambda: fired.append(1))

    async def change(item: str) -> None:
        signal.replace((), [item])

    async def change_and_wait(item: str) -> None:
        signal.replace((), [item])
        await asyncio.sleep(1)

    run(change("a"))
    assert fired == []
    run(change_and_wait("b"))
    assert fired == [1]


def test_a_listener_that_raises_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    signal = ChangeSignal(0)
    fired: list[int] = []

    def bad() -> None:
        raise ValueError("listener")

    signal.subscribe(bad)
    signal.subscribe(lambda: fired.append(1))
    signal.replace((), ["a"])
    signal.replace((), ["b"])
    assert fired == [1, 1]
    assert caplog.text.count("a listener failed") == 2


def test_a_listener_may_subscribe_unsubscribe_and_change_things() -> None:
    signal = ChangeSignal(0)
    fired: list[str] = []
    stops: dict[str, Callable[[], None]] = {}

    def first() -> None:
        fired.append("first")
        stops["first"]()
        stops["late"] = signal.subscribe(lambda: fired.append("late"))
        signal.replace((), ["from a listener"])

    stops["first"] = signal.subscribe(first)
    stops["second"] = signal.subscribe(lambda: fired.append("second"))
    signal.replace((), ["a"])
    assert fired == ["first", "second", "late", "second"]


def test_the_same_listener_twice_is_two_subscriptions() -> None:
    signal = ChangeSignal(0)
    fired: list[int] = []

    def listener() -> None:
        fired.append(1)

    stop = signal.subscribe(listener)
    signal.subscribe(listener)
    signal.replace((), ["a"])
    stop()
    stop()
    signal.replace((), ["b"])
    assert fired == [1, 1, 1]


def test_a_closed_signal_tells_nothing_more() -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        fired = listening(signal)
        signal.replace((), ["a"])
        signal.close()
        signal.close()
        scheduled = virtual_loop()._scheduled  # type: ignore[attr-defined]
        assert [timer for timer in scheduled if not timer.cancelled()] == []
        await asyncio.sleep(10)
        signal.replace((), ["b"])
        await asyncio.sleep(10)
        assert fired == []

    run(scenario())


ITEMS = st.lists(st.sampled_from("abc"), max_size=3)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(ITEMS, st.sampled_from([0.0, 0.2, 0.6, 3.0])), max_size=12))
def test_it_fires_if_and_only_if_the_items_differ_from_what_was_told(
    steps: list[tuple[list[str], float]],
) -> None:
    async def scenario() -> None:
        signal = ChangeSignal(0.5)
        now: Counter[str] = Counter()
        told: Counter[str] = Counter()

        def hear() -> None:
            assert now != told
            told.clear()
            told.update(now)

        signal.subscribe(hear)
        for items, pause in steps:
            signal.replace(list(now.elements()), items)
            now = Counter(items)
            await asyncio.sleep(pause)
        await asyncio.sleep(3)
        assert now == told

    run(scenario())


# Listeners


def test_listeners_are_told_what_happened_in_the_order_of_subscribing() -> None:
    listeners: Listeners[[int, str]] = Listeners()
    told: list[tuple[str, int, str]] = []
    stop = listeners.subscribe(lambda number, text: told.append(("one", number, text)))
    listeners.subscribe(lambda number, text: told.append(("two", number, text)))
    listeners.tell(1, text="a")
    stop()
    stop()
    listeners.tell(2, text="b")
    assert told == [("one", 1, "a"), ("two", 1, "a"), ("two", 2, "b")]
    listeners.close()
    listeners.tell(3, text="c")
    assert len(told) == 3


def test_a_listener_that_is_subscribed_while_others_are_told_hears_of_the_next() -> None:
    listeners: Listeners[[]] = Listeners()
    told: list[str] = []

    def first() -> None:
        told.append("first")
        listeners.subscribe(lambda: told.append("late"))

    listeners.subscribe(first)
    listeners.tell()
    assert told == ["first"]
    listeners.tell()
    assert told == ["first", "first", "late"]


# Waiting for any change


class NotYet(Exception):
    """What keeps an attempt from succeeding."""


class Attempts:
    """Succeeds at the given attempt, with its number."""

    def __init__(self, success: float = float("inf")) -> None:
        self.made = 0
        self._success = success

    def __call__(self) -> int:
        self.made += 1
        if self.made < self._success:
            raise NotYet(self.made)
        return self.made


def test_what_succeeds_at_once_waits_for_nothing() -> None:
    async def scenario() -> None:
        pulse = Pulse()
        assert await pulse.until(Attempts(1), (NotYet,), 0) == 1
        assert len(pulse) == 0

    run(scenario())


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_it_is_tried_again_at_each_beat(timeout: float | None) -> None:
    async def scenario() -> None:
        pulse, attempts = Pulse(), Attempts(4)
        waiting = asyncio.create_task(pulse.until(attempts, (NotYet,), timeout))
        for made in (1, 2, 3):
            await settle()
            assert (attempts.made, len(pulse), waiting.done()) == (made, 1, False)
            pulse.beat()
            pulse.beat()
        assert await waiting == 4
        assert len(pulse) == 0

    run(scenario())


def test_when_time_is_up_the_error_of_the_last_attempt_stands() -> None:
    async def scenario() -> None:
        pulse, attempts = Pulse(), Attempts()
        started = virtual_loop().now
        with pytest.raises(NotYet, match="2"):
            await pulse.until(attempts, (NotYet,), 3)
        assert virtual_loop().now - started == 3
        assert len(pulse) == 0

    run(scenario())


def test_beats_do_not_put_off_the_end_of_the_wait() -> None:
    async def scenario() -> None:
        pulse, attempts = Pulse(), Attempts()
        waiting = asyncio.create_task(pulse.until(attempts, (NotYet,), 3))
        for _ in range(5):
            await asyncio.sleep(0.5)
            pulse.beat()
        await asyncio.sleep(0.5)
        await settle()
        assert waiting.done()
        assert isinstance(waiting.exception(), NotYet)

    run(scenario())


def test_another_error_ends_the_wait() -> None:
    async def scenario() -> None:
        pulse = Pulse()
        with pytest.raises(ZeroDivisionError):
            await pulse.until(lambda: 1 // 0, (NotYet,), None)

    run(scenario())


def test_who_stops_waiting_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        pulse = Pulse()
        waiting = asyncio.create_task(pulse.until(Attempts(), (NotYet,), None))
        others = [asyncio.create_task(pulse.until(Attempts(2), (NotYet,), None)) for _ in "ab"]
        await settle()
        waiting.cancel()
        pulse.beat()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.gather(*others) == [2, 2]
        assert len(pulse) == 0

    run(scenario())
