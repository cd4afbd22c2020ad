"""`calls`: one outcome, whoever waits for it and from wherever."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from pagetools_ipy.calls import (
    WAKE_EVERY,
    CallState,
    PageCall,
    Step,
    Target,
    block_thread,
    cancelled,
    timed_out,
    wake_often,
)
from pagetools_ipy.errors import (
    BridgeError,
    CallCancelledError,
    CallTimeoutError,
    InvalidArgumentsError,
    PageGoneError,
    PageToolError,
)
from pagetools_ipy.limits import check_timeout

from .helpers import run, settle, virtual_loop

T = TypeVar("T")

TARGET = Target("c1", "shop", "buy", "Shop", "last focused of 2")


def cancel_it(call: PageCall, state: CallState, reason: str) -> None:
    call.settle(state, cancelled(call, reason))


def make_call(**options: Any) -> PageCall:
    """A call on the running loop."""
    given: dict[str, Any] = {
        "timeout": 15.0,
        "cancel": cancel_it,
        "decode": None,
        "block": block_thread,
        **options,
    }
    target = given.pop("target", TARGET)
    return PageCall("id1", target, {"thing": "milk"}, **given)


def outcomes() -> dict[CallState, Any]:
    return {
        CallState.ANSWERED: {"sold": 1},
        CallState.FAILED: PageToolError("sold out", tool="shop/buy", tab="Shop"),
        CallState.TIMED_OUT: CallTimeoutError("shop/buy", "Shop", 15.0),
        CallState.GONE: PageGoneError("shop/buy", "Shop", sent=True),
        CallState.CANCELLED: CallCancelledError("shop/buy", "Shop", "why not"),
    }


ENDS = list(outcomes())
each_end = pytest.mark.parametrize("state", ENDS, ids=lambda state: state.name)


# What a call says of itself


def test_a_call_knows_who_answers_and_how_it_stands() -> None:
    async def scenario() -> None:
        call = make_call()
        assert (call.id, call.args, call.timeout) == ("id1", {"thing": "milk"}, 15.0)
        assert (call.tool, call.tab, call.client_id) == ("shop/buy", "Shop", "c1")
        assert call.why == "last focused of 2"
        assert (call.state, call.done(), call.progress) == (CallState.PENDING, False, None)

    run(scenario())


def test_the_duration_runs_until_the_outcome() -> None:
    async def scenario() -> None:
        call = make_call()
        assert call.duration == 0
        await asyncio.sleep(2)
        assert call.duration == 2
        call.settle(CallState.ANSWERED, None)
        await asyncio.sleep(2)
        assert call.duration == 2

    run(scenario())


# One outcome


@each_end
def test_the_first_outcome_is_the_only_one(state: CallState) -> None:
    async def scenario() -> None:
        call = make_call()
        outcome = outcomes()[state]
        assert call.settle(state, outcome) is True
        for other, late in outcomes().items():
            assert call.settle(other, late) is False
        call.cancel()
        assert (call.state, call.done()) == (state, True)
        for _ in range(2):  # awaiting again gives the same again
            if state is CallState.ANSWERED:
                assert await call is outcome
                assert call.result() is outcome
                continue
            with pytest.raises(type(outcome)) as raised:
                await call
            assert raised.value is outcome
            with pytest.raises(type(outcome)) as raised:
                call.result()
            assert raised.value is outcome

    run(scenario())


@each_end
def test_everyone_who_waits_gets_the_outcome(state: CallState) -> None:
    async def scenario() -> None:
        call = make_call()
        tasks = [asyncio.ensure_future(wait(call)) for _ in range(3)]
        await settle()
        outcome = outcomes()[state]
        call.settle(state, outcome)
        assert await asyncio.gather(*tasks) == [outcome] * 3

    async def wait(call: PageCall) -> Any:
        try:
            return await call
        except Exception as problem:
            return problem

    run(scenario())


def test_an_answer_wakes_who_waits_at_once() -> None:
    async def scenario() -> None:
        call = make_call()
        task = asyncio.ensure_future(wait(call))
        await asyncio.sleep(10 * WAKE_EVERY + 0.05)
        call.settle(CallState.ANSWERED, 1)
        answered_at = virtual_loop().now
        await task
        assert virtual_loop().now == answered_at

    async def wait(call: PageCall) -> Any:
        return await call

    run(scenario())


def test_waiting_wakes_often_so_that_an_interrupt_is_noticed() -> None:
    async def scenario() -> None:
        loop = virtual_loop()
        woken: list[float] = []
        real = loop._run_once  # type: ignore[attr-defined]

        def counting() -> None:
            woken.append(loop.now)
            real()

        loop._run_once = counting  # type: ignore[attr-defined]
        future = loop.create_future()
        loop.call_later(3, future.set_result, None)
        await wake_often(future)
        gaps = [later - earlier for earlier, later in zip(woken, woken[1:], strict=False)]
        assert max(gaps) <= WAKE_EVERY + 1e-6

    run(scenario())


def test_waiting_leaves_no_timer_behind() -> None:
    async def scenario() -> None:
        call = make_call()
        virtual_loop().call_later(1, call.settle, CallState.ANSWERED, 1)
        await call
        scheduled = virtual_loop()._scheduled  # type: ignore[attr-defined]
        assert [timer for timer in scheduled if not timer.cancelled()] == []

    run(scenario())


def test_cancelling_who_waits_cancels_the_call_and_says_so_in_one_line() -> None:
    async def scenario() -> None:
        call = make_call()
        task = asyncio.ensure_future(wait(call))
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert call.state is CallState.CANCELLED
        with pytest.raises(CallCancelledError) as cancellation:
            await call
        assert cancellation.value.reason == "the awaiting cell or task was cancelled"
        assert raised.value._render_traceback_() == [  # type: ignore[attr-defined]
            "CancelledError: shop/buy was cancelled; its page was told to stop"
        ]

    async def wait(call: PageCall) -> Any:
        return await call

    run(scenario())


def test_a_shorter_patience_of_the_caller_cancels_the_call() -> None:
    async def scenario() -> None:
        call = make_call()
        with pytest.raises(TimeoutError) as raised:
            await asyncio.wait_for(call, 1)
        assert not isinstance(raised.value, CallTimeoutError)
        assert call.state is CallState.CANCELLED

    run(scenario())


# Decoding


def test_the_value_is_decoded_once() -> None:
    async def scenario() -> None:
        seen: list[Any] = []

        def decode(value: Any) -> Any:
            seen.append(value)
            return {"decoded": value}

        call = make_call(decode=decode)
        call.settle(CallState.ANSWERED, 1)
        assert await call == await call == {"decoded": 1}
        assert seen == [1]

    run(scenario())


def test_a_value_that_is_decoded_to_an_error_is_a_failure_of_the_tool() -> None:
    async def scenario() -> None:
        failure = PageToolError("sold out")

        def decode(value: Any) -> Any:
            raise failure

        call = make_call(decode=decode)
        assert call.settle(CallState.ANSWERED, 1) is True
        assert call.state is CallState.FAILED
        with pytest.raises(PageToolError) as raised:
            await call
        assert raised.value is failure
        assert (failure.tool, failure.tab) == ("shop/buy", "Shop")

    run(scenario())


def test_only_values_are_decoded() -> None:
    async def scenario() -> None:
        call = make_call(decode=pytest.fail)
        call.settle(CallState.GONE, outcomes()[CallState.GONE])
        assert call.state is CallState.GONE

    run(scenario())


# Progress


def test_progress_is_kept_and_told_to_listeners_who_hear_of_the_outcome_too() -> None:
    async def scenario() -> None:
        call = make_call()
        heard: list[tuple[CallState, Step | None]] = []
        call.on_change(lambda c: heard.append((c.state, c.progress)))
        one, two = Step(1, 2), Step(2, 2)
        call.advance(one)
        call.advance(two)
        call.settle(CallState.ANSWERED, None)
        call.advance(Step(3, 2))
        call.settle(CallState.GONE, None)
        assert heard == [
            (CallState.PENDING, one),
            (CallState.PENDING, two),
            (CallState.ANSWERED, two),
        ]

    run(scenario())


@each_end
def test_a_listener_that_comes_late_hears_of_the_outcome_at_once(state: CallState) -> None:
    async def scenario() -> None:
        call = make_call()
        call.settle(state, outcomes()[state])
        heard: list[CallState] = []
        call.on_change(lambda c: heard.append(c.state))
        assert heard == [state]

    run(scenario())


def test_a_listener_that_raises_hurts_neither_the_call_nor_the_others() -> None:
    async def scenario() -> None:
        call = make_call()
        heard: list[int] = []

        def bad(_: PageCall) -> None:
            raise ValueError("display")

        call.on_change(bad)
        call.on_change(lambda _: heard.append(1))
        call.advance(Step(1))
        call.settle(CallState.ANSWERED, 1)
        assert await call == 1
        assert heard == [1, 1]

    run(scenario())


def test_a_listener_hears_of_the_outcome_when_it_can_be_had() -> None:
    async def scenario() -> None:
        call = make_call()
        results: list[Any] = []
        call.on_change(lambda c: results.append(c.result()))
        call.settle(CallState.ANSWERED, 5)
        assert results == [5]

    run(scenario())


@pytest.mark.parametrize("state", [CallState.TIMED_OUT, CallState.GONE, CallState.CANCELLED])
def test_a_partial_result_is_attached_to_the_error(state: CallState) -> None:
    async def scenario() -> None:
        call = make_call()
        call.advance(Step(1, value=["a"]))
        error = outcomes()[state]
        call.settle(state, error)
        assert error.partial == ["a"]
        call.advance(Step(2))
        assert error.partial == ["a"]
        call.advance(Step(3, value=["a", "b"]))
        assert error.partial == ["a", "b"]
        assert call.progress == Step(1, value=["a"])

    run(scenario())


def test_an_answer_has_no_partial_result() -> None:
    async def scenario() -> None:
        call = make_call()
        call.settle(CallState.ANSWERED, 1)
        call.advance(Step(1, value=2))
        assert await call == 1
        assert call.progress is None

    run(scenario())


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (Step(1), "1"),
        (Step(0.5), "0.5"),
        (Step(1, 4), "1/4"),
        (Step(1, 0), "1"),
        (Step(1, 4, "loading"), "1/4 loading"),
        (Step(1, None, "loading"), "1 loading"),
        (Step(1, 4, ""), "1/4"),
        (Step(2.0, 3.0, None, "value"), "2/3"),
        (Step(123456789.0), "1.23457e+08"),
        (Step(math.inf, math.nan), "inf/nan"),
    ],
)
def test_a_step_is_shown_in_few_words(step: Step, text: str) -> None:
    assert str(step) == text


# Other threads


@contextmanager
def serving() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """A loop that runs on a thread of its own; gives what runs a function on it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def on_loop(function: Callable[[], T]) -> T:
        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), loop).result(10)

    try:
        yield on_loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def later(on_loop: Callable[[Callable[[], Any]], Any], call: PageCall, state: CallState) -> None:
    """Settle a call once somebody waits for it."""

    def settle_when_awaited() -> None:
        if call._outcome._done_callbacks or call._outcome._waiters:  # type: ignore[attr-defined]
            call.settle(state, outcomes()[state])
        else:
            asyncio.get_running_loop().call_soon(settle_when_awaited)

    on_loop(settle_when_awaited)


@each_end
def test_a_call_can_be_awaited_on_the_loop_of_another_thread(state: CallState) -> None:
    async def wait(call: PageCall) -> Any:
        try:
            return await call
        except Exception as problem:
            return problem

    with serving() as on_loop:
        call = on_loop(make_call)
        later(on_loop, call, state)
        found = asyncio.run(wait(call))
        assert type(found) is type(outcomes()[state])
        assert asyncio.run(wait(call)) is found  # and again, on yet another loop


@each_end
def test_result_blocks_another_thread_until_the_outcome(state: CallState) -> None:
    with serving() as on_loop:
        call = on_loop(make_call)
        later(on_loop, call, state)
        if state is CallState.ANSWERED:
            assert call.result() == {"sold": 1}
        else:
            with pytest.raises(type(outcomes()[state])):
                call.result()


@pytest.mark.parametrize("timeout", [0, -1, 0.01])
def test_running_out_of_patience_in_result_leaves_the_call_as_it_is(timeout: float) -> None:
    with serving() as on_loop:
        call = on_loop(make_call)
        with pytest.raises(TimeoutError) as raised:
            call.result(timeout)
        assert not isinstance(raised.value, CallTimeoutError)
        assert not call.done()
        on_loop(lambda: call.settle(CallState.ANSWERED, 1))
        assert call.result(timeout) == 1


def test_a_call_can_be_cancelled_from_another_thread() -> None:
    with serving() as on_loop:
        call = on_loop(make_call)
        call.cancel("enough")
        with pytest.raises(CallCancelledError) as raised:
            call.result(10)
        assert raised.value.reason == "enough"
        assert call.state is CallState.CANCELLED


def test_cancelling_who_waits_on_another_loop_cancels_the_call() -> None:
    async def give_up(call: PageCall) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.01)

    with serving() as on_loop:
        call = on_loop(make_call)
        asyncio.run(give_up(call))
        with pytest.raises(CallCancelledError):
            call.result(10)


def test_listeners_are_called_on_the_bridges_thread() -> None:
    with serving() as on_loop:
        call = on_loop(make_call)
        threads: list[int] = []
        call.on_change(lambda _: threads.append(threading.get_ident()))
        call.cancel()
        on_loop(lambda: None)
        assert threads == [on_loop(threading.get_ident)]
        assert threads != [threading.get_ident()]


def test_cancelling_when_the_loop_is_closed_has_no_effect() -> None:
    with serving() as on_loop:
        call = on_loop(make_call)
    call.cancel()
    assert call.state is CallState.PENDING


def test_waiting_on_a_loop_that_is_closed_meanwhile_does_no_harm() -> None:
    with serving() as on_loop:
        call = on_loop(make_call)
        other = asyncio.new_event_loop()
        waiter = call.settled_on(other)
        other.close()
        on_loop(lambda: call.settle(CallState.ANSWERED, 1))
        assert not waiter.done()
        assert call.result() == 1


@pytest.mark.parametrize("state", [CallState.ANSWERED, CallState.FAILED])
def test_a_call_is_not_done_before_its_outcome_can_be_had(state: CallState) -> None:
    """Another thread may look at any time, also in the middle of settling."""

    async def scenario() -> None:
        call = make_call()
        outcome = call._outcome
        name = "set_result" if state is CallState.ANSWERED else "set_exception"
        real = getattr(outcome, name)
        too_early: list[BaseException] = []

        def looking(value: Any) -> None:
            if call.done():
                try:
                    call.result(0)
                except concurrent.futures.TimeoutError as problem:
                    too_early.append(problem)
            real(value)

        setattr(outcome, name, looking)
        call.settle(state, outcomes()[state])
        assert too_early == []

    run(scenario())


# Blocking


def test_result_on_the_bridges_own_thread_says_to_await_instead() -> None:
    async def scenario() -> None:
        call = make_call()
        with pytest.raises(BridgeError) as raised:
            call.result()
        assert str(raised.value) == (
            "result() would block the loop that must receive the answer; await it"
        )
        assert not call.done()

    run(scenario())


def test_the_host_decides_how_result_waits() -> None:
    async def scenario() -> None:
        asked: list[tuple[PageCall, float | None]] = []

        def block(call: PageCall, timeout: float | None) -> None:
            asked.append((call, timeout))
            call.settle(CallState.ANSWERED, "nested")

        call = make_call(block=block)
        assert call.result(3) == "nested"
        assert call.result() == "nested"
        assert asked == [(call, 3)]

    run(scenario())


def test_an_interrupt_while_blocking_cancels_the_call_and_shows_one_line() -> None:
    async def scenario() -> None:
        def block(call: PageCall, timeout: float | None) -> None:
            raise KeyboardInterrupt

        call = make_call(block=block)
        with pytest.raises(KeyboardInterrupt) as raised:
            call.result()
        assert raised.value._render_traceback_() == [  # type: ignore[attr-defined]
            "KeyboardInterrupt: shop/buy was interrupted; its page was told to stop"
        ]
        with pytest.raises(CallCancelledError) as cancellation:
            await call
        assert cancellation.value.reason == "interrupted"

    run(scenario())


# What is shown


def shown(state: CallState, **options: Any) -> tuple[str, str]:
    """Repr and HTML of a call that has been on its way for 1.25 seconds."""

    async def scenario() -> tuple[str, str]:
        steps = options.pop("steps", ())
        outcome = options.pop("outcome", outcomes().get(state))
        call = make_call(**options)
        await asyncio.sleep(1.25)
        for step in steps:
            call.advance(step)
        if state is not CallState.PENDING:
            call.settle(state, outcome)
        return repr(call), call._repr_html_()

    return run(scenario())


def words(html: str) -> str:
    """The text of a piece of HTML."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (CallState.PENDING, "pending for 1.2 s"),
        (CallState.ANSWERED, "{'sold': 1} after 1250 ms"),
        (CallState.FAILED, 'failed, shop/buy in "Shop": Error: sold out'),
        (
            CallState.TIMED_OUT,
            'timed out, shop/buy in "Shop" did not answer within 15 s and was told to stop; '
            "grant more with timeout= (None waits for ever)",
        ),
        (
            CallState.GONE,
            'gone, shop/buy in "Shop": the page went away before it answered; the call had been '
            "sent and may have run, so check before you repeat it",
        ),
        (CallState.CANCELLED, 'cancelled, shop/buy in "Shop" was cancelled: why not'),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_call_shows_how_it_stands(state: CallState, text: str) -> None:
    plain, html = shown(state)
    assert plain == f'<PageCall shop/buy in "Shop" (last focused of 2): {text}>'
    read = words(html)
    for part in ("shop/buy", "Shop", "last focused of 2", text.split(" ")[0].rstrip(",")):
        assert part.replace("'", "&#x27;") in read
    assert ("<progress" in html) is (state is CallState.PENDING)


def test_progress_is_shown_in_words_and_as_a_bar() -> None:
    plain, html = shown(CallState.PENDING, steps=[Step(1, 4, "one <b>"), Step(2, 4, "two <b>")])
    assert plain.endswith(": pending for 1.2 s, 2/4 two <b>>")
    assert '<progress value="2" max="4"' in html
    assert "2/4 two &lt;b&gt;" in html
    for steps in ([], [Step(1)], [Step(1, 0)]):
        plain, html = shown(CallState.PENDING, steps=steps)
        assert "<progress " in html
        assert "value=" not in html


def test_what_a_call_shows_is_bounded() -> None:
    target = Target("c", "n", "t", "T" * 1000, "the only one")
    for state in CallState:
        outcome = "v" * 100_000 if state is CallState.ANSWERED else outcomes().get(state)
        plain, html = shown(state, target=target, outcome=outcome)
        assert len(plain) < 1000
        assert len(html) < 2000
        assert "T" * 59 + "…" in plain


HOSTILE = "<script>alert(1)</script>\"'&"


@pytest.mark.parametrize("state", CallState)
def test_markup_in_a_pages_words_is_escaped(state: CallState) -> None:
    target = Target("c", HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    outcome = {
        CallState.ANSWERED: HOSTILE,
        CallState.FAILED: PageToolError(HOSTILE, name=HOSTILE),
        CallState.GONE: PageGoneError(HOSTILE, HOSTILE, sent=True),
    }.get(state, CallCancelledError(HOSTILE, HOSTILE, HOSTILE))
    _, html = shown(state, target=target, outcome=outcome, steps=[Step(1, 2, HOSTILE, HOSTILE)])
    assert "<script" not in html
    assert "&lt;script&gt;" in html


# Timeouts


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [(None, None), (math.inf, None), (1, 1.0), (0.001, 0.001), (1e9, 1e9)],
)
def test_a_timeout_is_a_positive_number_or_none(timeout: Any, expected: float | None) -> None:
    found = check_timeout(timeout)
    assert found == expected
    assert found is None or type(found) is float


@pytest.mark.parametrize("timeout", [0, -1, 0.0, -math.inf, math.nan, "5", True, False, [5], 1j])
def test_any_other_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        check_timeout(timeout)
    assert str(raised.value) == (
        f"timeout: expected a positive number of seconds, or None for ever, got {timeout!r}"
    )


def test_a_timeout_beyond_all_numbers_is_for_ever_or_refused() -> None:
    try:
        found = check_timeout(10**400)
    except InvalidArgumentsError:
        found = None
    assert found is None


def test_errors_of_a_call_name_it() -> None:
    async def scenario() -> None:
        call = make_call()
        late, stopped = timed_out(call), cancelled(call, "why")
        assert (late.tool, late.tab, late.timeout) == ("shop/buy", "Shop", 15.0)
        assert (stopped.tool, stopped.tab, stopped.reason) == ("shop/buy", "Shop", "why")

    run(scenario())
