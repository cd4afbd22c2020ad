"""Which event loop the bridge lives in, and how other code reaches it.

Knows loops, threads and interrupts. Does not know what runs in them.

* `KernelHost`: the kernel's own loop. Nothing is served while a cell blocks, nothing is lost
  either. Code that cannot await gets a nested run of that loop.
* `ThreadHost`: a private loop on a daemon thread, which goes on while cells block.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from .calls import WAKE_EVERY, PageCall, block_thread, wake_often
from .errors import BridgeError

T = TypeVar("T")

PATIENCE_SECONDS = 10
"""How long another thread waits for a loop that a cell may be blocking, perhaps for its sake."""

_STOPPED = "the bridge was stopped"

DRAIN_SECONDS = 1.5
"""How long tasks may take to end by themselves when a thread host is closed."""


class Host(Protocol):
    """A loop, and ways to it from any thread."""

    name: str
    loop: asyncio.AbstractEventLoop

    def run(self, function: Callable[[], T]) -> T:
        """Call ``function`` on the loop's thread and return what it returns."""

    async def relay(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await ``coroutine`` on the loop, from whichever loop this runs in.

        Cancelling cancels it.
        """

    def block_on(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` on the loop and wait for it without awaiting.

        Raises:
            KeyboardInterrupt: If interrupted; the coroutine is cancelled then.
        """

    def block(self, call: PageCall, timeout: float | None) -> None:
        """Wait without awaiting until ``call`` is done or ``timeout`` seconds have passed."""

    def close(self) -> None:
        """Give up what the host owns. Idempotent."""


class _ForeignThreads:
    """How threads other than the loop's own reach it."""

    loop: asyncio.AbstractEventLoop
    _thread: int

    def _is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def run(self, function: Callable[[], T]) -> T:
        if self._is_here():
            return function()
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

        def step() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            try:
                outcome.set_result(function())
            except BaseException as problem:
                outcome.set_exception(problem)

        try:
            self.loop.call_soon_threadsafe(step)
        except RuntimeError:
            raise BridgeError(_STOPPED) from None
        try:
            with _interrupts() as interrupt:
                return interrupt.outcome(lambda: self._wait(outcome, PATIENCE_SECONDS))
        except TimeoutError:
            if not outcome.cancel():
                return outcome.result()
            raise BridgeError(
                f"the bridge's loop has not run for {PATIENCE_SECONDS} s: a cell blocks the "
                "kernel; await in the cell, or use `%pagetools start --thread`"
            ) from None

    async def relay(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self.loop:
            return await wake_often(self.loop.create_task(coroutine))
        submitted = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        outcome = asyncio.wrap_future(submitted)
        try:
            while not outcome.done():
                await asyncio.wait([outcome], timeout=WAKE_EVERY)
                if self.loop.is_closed() and not outcome.done():
                    raise BridgeError(_STOPPED)
        finally:
            outcome.cancel()
        return outcome.result()

    def block_on(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with _interrupts() as interrupt:
            submitted = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
            interrupt.then(submitted.cancel)
            return interrupt.outcome(lambda: self._wait(submitted))

    def _wait(self, outcome: concurrent.futures.Future[T], patience: float = math.inf) -> T:
        give_up_at = time.monotonic() + patience
        while not self.loop.is_closed():
            try:
                # In short waits, so that an interrupt is noticed on every platform.
                return outcome.result(WAKE_EVERY)
            except TimeoutError:
                if outcome.done() or time.monotonic() > give_up_at:
                    raise
        raise BridgeError(_STOPPED)


class KernelHost(_ForeignThreads):
    """The kernel's own event loop, that of its main shell.

    Args:
        loop: The loop; it runs on the main thread and belongs to the kernel.
    """

    name = "kernel"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        main = threading.main_thread().ident
        assert main is not None
        self._thread = main

    def block_on(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """See `Host.block_on`."""
        if not self._is_here():
            return super().block_on(coroutine)
        try:
            self._let_nest()
        except ValueError as problem:
            coroutine.close()
            raise BridgeError(
                f"this kernel's loop cannot be run from within ({problem}); await the call, or "
                "use `%pagetools stop` and `%pagetools start --thread`"
            ) from None
        with _interrupts() as interrupt, _outer_pass_kept_whole(self.loop):
            task = self.loop.create_task(coroutine)
            interrupt.then(lambda: self.loop.call_soon_threadsafe(task.cancel))
            return interrupt.outcome(lambda: self.loop.run_until_complete(task))

    def _let_nest(self) -> None:
        """Make the loop re-entrant, at the first blocking call and not before: it patches
        asyncio for the whole process."""
        import nest_asyncio2

        nest_asyncio2.apply(self.loop)

    def block(self, call: PageCall, timeout: float | None) -> None:
        """See `Host.block`."""
        if self._is_here():
            self.block_on(_settled(call, self.loop, timeout))
        else:
            block_thread(call, timeout)

    def close(self) -> None:
        """See `Host.close`; the loop is the kernel's and stays."""


async def _settled(call: PageCall, loop: asyncio.AbstractEventLoop, timeout: float | None) -> None:
    await asyncio.wait({call.settled_on(loop)}, timeout=timeout)


@contextmanager
def _outer_pass_kept_whole(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Leave the pass of the loop that a nested run interrupts as many callbacks as it counted.

    At the first nested run the interrupted pass is asyncio's own, begun before the loop was
    made re-entrant. It takes as many callbacks as it counted when it began; the nested run
    takes them first, and the kernel would die of "pop from an empty deque".
    """
    ready: Any = getattr(loop, "_ready", ())
    owed = len(ready)
    try:
        yield
    finally:
        for _ in range(owed - len(ready)):
            loop.call_soon(_nothing)


def _nothing() -> None:
    pass


class _Interrupt:
    """Whether there was an interrupt, and what it is to cancel."""

    def __init__(self) -> None:
        self._seen = False
        self._cancel: Callable[[], object] | None = None

    def __call__(self, *_: object) -> None:
        self._seen = True
        if self._cancel is not None:
            self._cancel()

    def then(self, cancel: Callable[[], object]) -> None:
        """Have an interrupt, also one that came already, call ``cancel``."""
        self._cancel = cancel
        if self._seen:
            cancel()

    def outcome(self, wait: Callable[[], T]) -> T:
        """What ``wait`` gives; KeyboardInterrupt if there was one, even at its last moment."""
        try:
            result = wait()
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            if not self._seen:
                raise
            raise KeyboardInterrupt from None
        if self._seen:
            raise KeyboardInterrupt
        return result


@contextmanager
def _interrupts() -> Iterator[_Interrupt]:
    """Take interrupts for the time of a wait.

    A KeyboardInterrupt is raised wherever the thread happens to be: in a nested run in the
    middle of another page's message as often as not, which would end that page's connection;
    after a call was sent and before anybody could cancel it; or with a future's lock just
    taken, which the bridge's thread would then wait for without end.
    """
    interrupt = _Interrupt()
    try:
        previous = signal.signal(signal.SIGINT, interrupt)
    except ValueError:  # not the main thread of the main interpreter: no signals come here
        yield interrupt
        return
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)


class ThreadHost(_ForeignThreads):
    """A private loop on a daemon thread."""

    name = "thread"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(_c_task)
        self._runner = threading.Thread(target=self._serve, name="pagetools", daemon=True)
        self._runner.start()
        assert self._runner.ident is not None
        self._thread = self._runner.ident

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def block_on(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """See `Host.block_on`."""
        if self._is_here():
            coroutine.close()
            raise BridgeError("this would block the bridge's own thread; await it")
        return super().block_on(coroutine)

    def block(self, call: PageCall, timeout: float | None) -> None:
        """See `Host.block`."""
        with _interrupts() as interrupt:
            interrupt.then(lambda: call.cancel("interrupted"))
            interrupt.outcome(lambda: block_thread(call, timeout))

    def close(self) -> None:
        """Let what runs come to its end, then end the thread. To be called from another one."""
        draining = self._drain()
        try:
            asyncio.run_coroutine_threadsafe(draining, self.loop)
        except RuntimeError:  # closed already
            draining.close()
        self._runner.join(2 * DRAIN_SECONDS)
        self._thread = -1  # the system gives a thread's identifier to a later one

    async def _drain(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await asyncio.wait(rest, timeout=DRAIN_SECONDS)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self.loop.shutdown_asyncgens()
        self.loop.stop()


def _c_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    # nest_asyncio, which a person may have applied, replaces asyncio.Task with a version that
    # breaks timeouts in every loop of the process; the C type is out of its reach.
    import _asyncio

    return _asyncio.Task(coroutine, loop=loop, **options)
