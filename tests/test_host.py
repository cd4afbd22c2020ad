"""`ThreadHost` and `KernelHost`: reaching their loop from any thread, and interrupts."""

from __future__ import annotations

import _asyncio
import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest

from pagetools_ipy import BridgeError, host as host_module
from pagetools_ipy.host import Host, KernelHost, ThreadHost

from .conftest import DEADLINE, interrupt

T = TypeVar("T")


@pytest.fixture
def host() -> Iterator[ThreadHost]:
    host = ThreadHost()
    yield host
    host.close()


def in_thread(function: Callable[[], T]) -> T:
    """Call a function on a thread of its own and return what it returns."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(function())
        except BaseException as problem:
            failure.append(problem)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    if failure:
        raise failure[0]
    assert outcome, "the function did not return"
    return outcome[0]


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def fail() -> None:
    await asyncio.sleep(0)
    raise LookupError("not here")


class Endless:
    """A coroutine that waits for ever, and what became of it."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cancelled = threading.Event()

    async def wait(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


# The thread host


def test_a_function_is_called_on_the_hosts_thread(host: ThreadHost) -> None:
    assert host.run(lambda: threading.current_thread().name) == "pagetools"
    assert host.run(lambda: asyncio.get_running_loop() is host.loop)
    assert in_thread(lambda: host.run(lambda: threading.current_thread().name)) == "pagetools"


def test_a_function_can_be_called_from_within_another_loop(host: ThreadHost) -> None:
    async def cell() -> str:
        return host.run(lambda: threading.current_thread().name)

    assert asyncio.run(cell()) == "pagetools"


def test_a_call_from_the_hosts_own_thread_does_not_wait_for_itself(host: ThreadHost) -> None:
    assert host.run(lambda: host.run(lambda: host.run(lambda: 42))) == 42


@pytest.mark.parametrize("kind", [LookupError, SystemExit, KeyboardInterrupt])
def test_what_a_function_raises_reaches_the_caller_and_not_the_host(
    host: ThreadHost, kind: type[BaseException]
) -> None:
    def fail() -> None:
        raise kind("it failed")

    with pytest.raises(kind, match="it failed"):
        host.run(fail)
    assert host.run(lambda: "still here") == "still here"


def test_functions_of_many_threads_are_called_one_at_a_time(host: ThreadHost) -> None:
    count = 0

    def add() -> None:
        nonlocal count
        seen = count
        time.sleep(0)
        count = seen + 1

    threads = [
        threading.Thread(target=lambda: [host.run(add) for _ in range(50)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert count == 400


def test_a_coroutine_is_awaited_on_the_hosts_loop_from_another_loop(host: ThreadHost) -> None:
    assert asyncio.run(host.relay(thread_name())) == "pagetools"
    assert in_thread(lambda: asyncio.run(host.relay(thread_name()))) == "pagetools"


def test_a_coroutine_is_awaited_from_the_hosts_own_loop(host: ThreadHost) -> None:
    assert host.block_on(host.relay(thread_name())) == "pagetools"


def test_what_a_relayed_coroutine_raises_reaches_who_awaits_it(host: ThreadHost) -> None:
    with pytest.raises(LookupError, match="not here"):
        asyncio.run(host.relay(fail()))
    with pytest.raises(LookupError, match="not here"):
        host.block_on(host.relay(fail()))


def test_cancelling_who_awaits_cancels_the_coroutine_from_another_loop(host: ThreadHost) -> None:
    endless = Endless()

    async def cell() -> None:
        task = asyncio.ensure_future(host.relay(endless.wait()))
        await asyncio.to_thread(endless.started.wait, DEADLINE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cell())
    assert endless.cancelled.wait(DEADLINE)


def test_cancelling_who_awaits_cancels_the_coroutine_from_the_hosts_loop(host: ThreadHost) -> None:
    endless = Endless()

    async def on_the_loop() -> None:
        task = asyncio.ensure_future(host.relay(endless.wait()))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    host.block_on(on_the_loop())
    assert endless.cancelled.wait(DEADLINE)


def test_a_timeout_around_a_relay_cancels_the_coroutine(host: ThreadHost) -> None:
    endless = Endless()
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(host.relay(endless.wait()), 0.02))
    assert endless.cancelled.wait(DEADLINE)


def test_code_that_cannot_await_blocks_on_a_coroutine(host: ThreadHost) -> None:
    assert host.block_on(thread_name()) == "pagetools"
    assert in_thread(lambda: host.block_on(thread_name())) == "pagetools"
    with pytest.raises(LookupError, match="not here"):
        host.block_on(fail())


def test_a_coroutine_that_is_running_may_block_on_the_hosts_loop(host: ThreadHost) -> None:
    async def cell() -> str:
        return host.block_on(thread_name())

    assert asyncio.run(cell()) == "pagetools"


def test_an_interrupt_ends_the_block_and_cancels_the_coroutine(host: ThreadHost) -> None:
    endless = Endless()
    with interrupt(after=endless.started), pytest.raises(KeyboardInterrupt):
        host.block_on(endless.wait())
    assert endless.cancelled.wait(DEADLINE)
    assert host.block_on(thread_name()) == "pagetools"


def test_an_interrupt_of_one_block_leaves_the_others_alone(host: ThreadHost) -> None:
    mine, theirs = Endless(), Endless()
    bystander = asyncio.run_coroutine_threadsafe(theirs.wait(), host.loop)
    assert theirs.started.wait(DEADLINE)
    with interrupt(after=mine.started), pytest.raises(KeyboardInterrupt):
        host.block_on(mine.wait())
    assert mine.cancelled.wait(DEADLINE)
    assert not theirs.cancelled.is_set()
    bystander.cancel()
    assert theirs.cancelled.wait(DEADLINE)


def test_blocking_the_hosts_own_thread_is_refused_at_once(host: ThreadHost) -> None:
    with pytest.raises(BridgeError, match="await it"):
        host.run(lambda: host.block_on(thread_name()))


def test_tasks_are_the_c_kind_whatever_has_been_done_to_asyncio(
    host: ThreadHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Replaced(asyncio.Task):  # type: ignore[type-arg]
        pass

    for owner in (asyncio, asyncio.tasks):
        monkeypatch.setattr(owner, "Task", Replaced)

    async def kinds() -> tuple[type, type]:
        async with asyncio.timeout(DEADLINE):
            inner = asyncio.create_task(asyncio.sleep(0), name="inner")
            await inner
        assert inner.get_name() == "inner"
        return type(asyncio.current_task()), type(inner)

    assert host.block_on(kinds()) == (_asyncio.Task, _asyncio.Task)
    assert asyncio.run(host.relay(kinds())) == (_asyncio.Task, _asyncio.Task)


def test_tasks_are_the_c_kind_in_a_host_made_after_asyncio_was_patched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for owner in (asyncio, asyncio.tasks):
        monkeypatch.setattr(owner, "Task", asyncio.tasks._PyTask)  # type: ignore[attr-defined]

    async def kind() -> type:
        return type(asyncio.current_task())

    host = ThreadHost()
    try:
        assert host.block_on(kind()) is _asyncio.Task
    finally:
        host.close()


def test_closing_ends_thread_and_loop() -> None:
    before = set(threading.enumerate())
    host = ThreadHost()
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    host.close()
    assert not thread.is_alive()
    assert host.loop.is_closed()
    assert set(threading.enumerate()) == before


def test_closing_again_does_nothing() -> None:
    host = ThreadHost()
    host.close()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        host.close()
        host.close()
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


def test_closing_lets_what_is_about_to_end_come_to_its_end() -> None:
    host, ended = ThreadHost(), threading.Event()

    async def soon() -> None:
        await asyncio.sleep(0.05)
        ended.set()

    asyncio.run_coroutine_threadsafe(soon(), host.loop)
    host.close()
    assert ended.is_set()


def test_closing_cancels_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "DRAIN_SECONDS", 0.05)
    host, endless = ThreadHost(), Endless()
    asyncio.run_coroutine_threadsafe(endless.wait(), host.loop)
    assert endless.started.wait(DEADLINE)
    host.close()
    assert endless.cancelled.is_set()
    assert host.loop.is_closed()


def test_a_closed_host_does_not_leave_its_caller_waiting() -> None:
    host = ThreadHost()
    host.close()
    with pytest.raises(BridgeError, match="stopped"):
        host.run(lambda: None)


def test_a_call_that_comes_while_the_host_closes_is_not_left_waiting() -> None:
    host, last_moment = ThreadHost(), threading.Event()
    stop = host.loop.stop

    def stop_slowly() -> None:
        stop()
        last_moment.set()
        time.sleep(0.05)  # while the loop still takes calls and makes none any more

    host.loop.stop = stop_slowly  # type: ignore[method-assign]
    ended = threading.Event()

    def call() -> None:
        last_moment.wait(DEADLINE)
        with suppress(RuntimeError, BridgeError):
            host.run(lambda: None)
        ended.set()

    threading.Thread(target=call, daemon=True).start()
    host.close()
    assert ended.wait(1)


def test_hosts_do_not_get_into_each_others_way() -> None:
    hosts = [ThreadHost() for _ in range(5)]
    assert len({host.run(threading.get_ident) for host in hosts}) == 5
    hosts.pop().close()
    for host in hosts:
        assert host.block_on(thread_name()) == "pagetools"
        host.close()


# The kernel host, on a loop that runs on the main thread as a kernel's does


def in_kernel(cell: Callable[[KernelHost], Awaitable[None]]) -> None:
    async def main() -> None:
        await cell(KernelHost(asyncio.get_running_loop()))

    asyncio.run(main())


def test_the_kernel_host_calls_directly_on_its_own_thread() -> None:
    loop = asyncio.new_event_loop()
    try:
        assert KernelHost(loop).run(threading.current_thread) is threading.main_thread()
    finally:
        loop.close()


def test_the_kernel_host_is_reached_from_other_threads() -> None:
    async def cell(host: KernelHost) -> None:
        def work() -> tuple[str, str]:
            return (
                host.run(lambda: threading.current_thread().name),
                host.block_on(thread_name()),
            )

        assert await asyncio.to_thread(work) == ("MainThread", "MainThread")

    in_kernel(cell)


def test_the_kernel_host_raises_in_the_thread_that_asked() -> None:
    async def cell(host: KernelHost) -> None:
        def wrong() -> None:
            raise LookupError("not here")

        for ask in (lambda: host.run(wrong), lambda: host.block_on(fail())):
            with pytest.raises(LookupError, match="not here"):
                await asyncio.to_thread(ask)

    in_kernel(cell)


def test_the_kernel_host_relays_within_its_loop_and_from_a_subshells() -> None:
    async def cell(host: KernelHost) -> None:
        assert await host.relay(thread_name()) == "MainThread"
        subshell = await asyncio.to_thread(lambda: asyncio.run(host.relay(thread_name())))
        assert subshell == "MainThread"
        with pytest.raises(LookupError, match="not here"):
            await host.relay(fail())
        with pytest.raises(LookupError, match="not here"):
            await asyncio.to_thread(lambda: asyncio.run(host.relay(fail())))

    in_kernel(cell)


def test_cancelling_in_a_subshell_cancels_the_coroutine_in_the_kernel() -> None:
    async def cell(host: KernelHost) -> None:
        endless = Endless()

        def subshell() -> None:
            asyncio.run(asyncio.wait_for(host.relay(endless.wait()), 0.02))

        with pytest.raises(TimeoutError):
            await asyncio.to_thread(subshell)
        await asyncio.to_thread(endless.cancelled.wait, DEADLINE)
        assert endless.cancelled.is_set()

    in_kernel(cell)


def test_cancelling_a_cell_cancels_the_coroutine_it_awaits() -> None:
    async def cell(host: KernelHost) -> None:
        endless = Endless()
        task = asyncio.ensure_future(host.relay(endless.wait()))
        while not endless.started.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert endless.cancelled.is_set()

    in_kernel(cell)


def test_closing_the_kernel_host_leaves_the_kernels_loop_alone() -> None:
    async def cell(host: KernelHost) -> None:
        host.close()
        host.close()
        assert await host.relay(thread_name()) == "MainThread"

    in_kernel(cell)


def test_a_loop_that_cannot_be_nested_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: Host) -> None:
        raise ValueError("Can't patch loop of type <class 'uvloop.Loop'>")

    monkeypatch.setattr(KernelHost, "_let_nest", refuse)

    async def cell(host: KernelHost) -> None:
        with pytest.raises(BridgeError, match=r"uvloop.*await the call.*start --thread"):
            host.block_on(thread_name())

    in_kernel(cell)


# Nested runs, each in a process of its own: nest_asyncio2 patches asyncio for good.

NESTED = """
import asyncio, signal, sys, threading
from pagetools_ipy.host import KernelHost

async def double(number):
    await asyncio.sleep(0.01)
    return 2 * number

async def fail():
    await asyncio.sleep(0)
    raise LookupError("not here")

class Endless:
    state = "not started"
    async def wait(self):
        self.state = "waiting"
        asyncio.get_running_loop().call_later(0.02, self.began)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.state = "cancelled"
            raise
    def began(self):
        pass

def interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

"""


def run_nested(cell: str) -> list[str]:
    """Run a cell on a loop of its own, in a new process, and return what it printed."""
    script = NESTED + "async def cell(host):\n" + textwrap.indent(textwrap.dedent(cell), "    ")
    script += (
        "\nasync def main():\n    await cell(KernelHost(asyncio.get_running_loop()))"
        "\n\nasyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_the_first_nested_run_leaves_the_pass_it_interrupts_whole() -> None:
    """Its callbacks are taken by the nested run, and asyncio's own pass has counted them."""
    assert run_nested("""
        loop, ran = asyncio.get_running_loop(), []

        def blocks():
            ran.append(host.block_on(double(21)))

        loop.call_soon(blocks)
        for number in range(50):
            loop.call_soon(ran.append, number)
        while len(ran) < 51:
            await asyncio.sleep(0)
        print(sorted(ran) == sorted([*range(50), 42]))
    """) == ["True"]


def test_a_cell_blocks_on_a_coroutine_of_the_loop_it_runs_in() -> None:
    assert run_nested("""
        print("nest_asyncio2" in sys.modules)
        print(host.block_on(double(21)))
        print("nest_asyncio2" in sys.modules)
        try:
            host.block_on(fail())
        except LookupError as problem:
            print(problem)

        async def nested(depth):
            return depth if depth == 3 else host.block_on(nested(depth + 1))

        print(host.block_on(nested(0)))

        ticks = []

        async def tick():
            while True:
                ticks.append(len(ticks))
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        host.block_on(double(1))
        ticking.cancel()
        print(len(ticks) > 1)
        print(await asyncio.to_thread(host.block_on, double(4)))
        print(host.run(lambda: threading.current_thread() is threading.main_thread()))
    """) == ["False", "42", "True", "not here", "3", "True", "8", "True"]


def test_a_loop_that_does_not_run_is_run() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            NESTED + "loop = asyncio.new_event_loop()\n"
            "print(KernelHost(loop).block_on(double(4)))\nloop.close()",
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("8\n", "")


def test_an_interrupt_of_a_nested_wait_cancels_what_is_waited_for_and_nothing_else() -> None:
    assert run_nested("""
        bystander, waited = Endless(), Endless()
        standing_by = asyncio.create_task(bystander.wait())
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        waited.began = interrupt
        before = signal.getsignal(signal.SIGINT)
        try:
            host.block_on(waited.wait())
        except KeyboardInterrupt:
            print("interrupted")
        print(waited.state, bystander.state)
        print(signal.getsignal(signal.SIGINT) is before)
        seen = ticks
        for _ in range(5):
            await asyncio.sleep(0)
        print(ticks > seen, ticking.done(), standing_by.done())
        print(host.block_on(double(21)))
        ticking.cancel()
        standing_by.cancel()
    """) == ["interrupted", "cancelled waiting", "True", "True False False", "42"]


def test_interrupts_that_come_while_another_task_runs_do_not_hit_it() -> None:
    assert run_nested("""
        hit = 0

        async def busy():
            nonlocal hit
            try:
                while True:
                    sum(range(20_000))
                    await asyncio.sleep(0)
            except KeyboardInterrupt:
                hit += 1

        working = asyncio.create_task(busy())
        interrupted = 0
        for _ in range(10):
            waited = Endless()
            waited.began = lambda: threading.Thread(target=interrupt).start()
            try:
                host.block_on(waited.wait())
            except KeyboardInterrupt:
                interrupted += 1
        print(interrupted, hit, working.done())
        working.cancel()
    """) == ["10 0 False"]


def test_an_interrupt_is_not_lost_when_the_answer_comes_at_the_same_moment() -> None:
    assert run_nested("""
        async def answered():
            await asyncio.sleep(0)
            signal.raise_signal(signal.SIGINT)
            return "answer"

        try:
            print(host.block_on(answered()))
        except KeyboardInterrupt:
            print("interrupted")
    """) == ["interrupted"]


def test_a_coroutine_that_is_cancelled_by_others_is_no_interrupt() -> None:
    assert run_nested("""
        waited = Endless()
        waited.began = lambda: [t.cancel() for t in asyncio.all_tasks() if "wait" in repr(t)]
        try:
            host.block_on(waited.wait())
        except asyncio.CancelledError:
            print("cancelled")
        print(signal.getsignal(signal.SIGINT) is not None)
    """) == ["cancelled", "True"]


def test_a_thread_is_told_when_the_loop_it_waits_for_is_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cell that waits for threads of its own would else wait for ever."""
    monkeypatch.setattr("pagetools_ipy.host.PATIENCE_SECONDS", 0.1)
    host, release, ran = ThreadHost(), threading.Event(), []
    try:
        host.loop.call_soon_threadsafe(release.wait)
        with pytest.raises(BridgeError, match="a cell blocks the kernel"):
            host.run(lambda: ran.append("too late"))
        release.set()
        assert host.run(lambda: "again") == "again"
        assert ran == []
    finally:
        release.set()
        host.close()
