"""Pending calls: one deadline, exactly one outcome, and the handle a cell awaits.

Knows calls and time. Does not know who answers them or how they are sent.

A call is settled on the loop it was started on, and may be awaited, cancelled or waited for
from any loop and any thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import html
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from .errors import (
    BridgeError,
    CallCancelledError,
    CallTimeoutError,
    PageToolError,
    ResultTimeoutError,
)
from .limits import check_timeout
from .text import shorten, stopped_in_one_line

T = TypeVar("T")

WAKE_EVERY = 0.2
"""Seconds between two wake-ups of the loop of an awaiting cell.

ipykernel notes an interrupt but does not wake an idle loop for it (ipython/ipykernel#881), so
without these the stop button would do nothing until something else happened.
"""


SHOWN_VALUE = 200
"""How many characters of a value the line about a call shows."""


class CallState(enum.Enum):
    """Where a call stands. It leaves PENDING once and never changes again."""

    PENDING = "pending"  # sent, not answered
    ANSWERED = "answered"  # the page returned a value
    FAILED = "failed"  # the page's tool failed
    TIMED_OUT = "timed out"  # no answer in time; the page was told to stop
    GONE = "gone"  # the page went away first
    CANCELLED = "cancelled"  # cancelled from this side; the page was told to stop


@dataclass(frozen=True, slots=True)
class Step:
    """How far the tool says it is.

    Attributes:
        progress: Done so far, in the tool's own unit.
        total: All there is to do in that unit, or None.
        message: The tool's words, or None.
        value: A partial result, or None.
    """

    progress: float
    total: float | None = None
    message: str | None = None
    value: Any = None

    def __str__(self) -> str:
        amount = f"{self.progress:g}" + (f"/{self.total:g}" if self.total else "")
        return f"{amount} {self.message}" if self.message else amount


@dataclass(frozen=True, slots=True)
class Target:
    """Who answers a call, and why.

    Attributes:
        client_id: Connection the call is sent to.
        ns: Namespace of the tool.
        name: Name of the tool.
        tab: Title or URL of the tab.
        why: Why this tab, such as ``last focused of 2``.
        tab_id: Identifier of the tab.
    """

    client_id: str
    ns: str
    name: str
    tab: str
    why: str
    tab_id: str = ""

    @property
    def tool(self) -> str:
        return f"{self.ns}/{self.name}"


_MARKS = {CallState.ANSWERED: "✓"}

Canceller = Callable[["PageCall", CallState, str], None]
Blocker = Callable[["PageCall", "float | None"], None]


class PageCall:
    """A call that is on its way: await it, ask how it stands, or cancel it.

    It was sent when you got it. ``await call`` gives the tool's value or raises a
    `PageToolsError`; cancelling the awaiting task cancels the call and tells the page.

    Attributes:
        id: Identifier of the call on the wire.
        args: Arguments that were sent.
        timeout: Seconds granted, counted while the bridge's loop runs; None for ever.
        state: Where it stands, a `CallState`.
        progress: Last progress the tool reported, a `Step` with ``progress``, ``total``,
            ``message``, ``value``; None before the first.
    """

    def __init__(
        self,
        call_id: str,
        target: Target,
        args: dict[str, Any],
        *,
        timeout: float | None,
        cancel: Canceller,
        decode: Callable[[Any], Any] | None,
        block: Blocker,
    ) -> None:
        self.id = call_id
        self.args = args
        self.timeout = timeout
        self.state = CallState.PENDING
        self.progress: Step | None = None
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._cancel = cancel
        self._decode = decode
        self._block = block
        self._started = self._loop.time()
        self._ended: float | None = None
        self._outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._listeners: list[Callable[[PageCall], None]] = []

    # What a person asks

    @property
    def tool(self) -> str:
        """The tool, as ``ns/name``."""
        return self._target.tool

    @property
    def tab(self) -> str:
        """Title or URL of the tab that answers."""
        return self._target.tab

    @property
    def tab_id(self) -> str:
        """Identifier of the tab that answers."""
        return self._target.tab_id

    @property
    def client_id(self) -> str:
        """Connection the call was sent to."""
        return self._target.client_id

    @property
    def why(self) -> str:
        """Why this tab answers, such as ``last focused of 2``."""
        return self._target.why

    @property
    def duration(self) -> float:
        """Seconds from sending to the outcome, or to now."""
        return (self._loop.time() if self._ended is None else self._ended) - self._started

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._outcome.done()

    @property
    def error(self) -> BaseException | None:
        """The error it ended with; None while it is pending or if it was answered."""
        return self._outcome.exception() if self.done() else None

    def result(self, timeout: float | None = None) -> Any:
        """Block until the outcome, for code that cannot await.

        Args:
            timeout: Seconds to wait here; None waits for the call's own deadline. Running out
                of it leaves the call as it is.

        Raises:
            PageToolsError: As awaiting the call would.
            ResultTimeoutError: If ``timeout`` ran out first; also a TimeoutError.
            BridgeError: If waiting here would keep the answer from being received.
            KeyboardInterrupt: If interrupted; the call is cancelled then.
        """
        with stopped_in_one_line(f"{self.tool} was interrupted; its page was told to stop"):
            try:
                if not self.done():
                    self._block(self, _patience(timeout))
                if not self.done():
                    raise ResultTimeoutError(self.tool, self.tab, timeout or 0.0)
                return self._outcome.result(0)
            except KeyboardInterrupt:
                self.cancel("interrupted")
                raise

    def cancel(self, reason: str = "cancelled") -> None:
        """Cancel the call and tell the page to stop. Without effect on a finished call.

        May be called from any thread.

        Args:
            reason: Words for the page and for `CallCancelledError`.
        """
        if _running_loop() is self._loop:
            self._cancel(self, CallState.CANCELLED, reason)
        else:
            with suppress(RuntimeError):  # the loop is closed: nothing is pending any more
                self._loop.call_soon_threadsafe(self._cancel, self, CallState.CANCELLED, reason)

    def on_change(self, listener: Callable[[PageCall], None]) -> None:
        """Have ``listener(call)`` called at each progress and at the outcome, on the bridge's
        thread; at once if the call is done."""
        listeners = self._listeners
        listeners.append(listener)
        if self.done():  # perhaps just now, on the bridge's thread: whoever takes it out tells it
            with suppress(ValueError):
                listeners.remove(listener)
                listener(self)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        with stopped_in_one_line(f"{self.tool} was cancelled; its page was told to stop"):
            try:
                await wake_often(self.settled_on(asyncio.get_running_loop()))
            except asyncio.CancelledError:
                self.cancel("the awaiting cell or task was cancelled")
                raise
        return self._outcome.result()

    def settled_on(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """A future of ``loop``, to be called on its thread, that is done when the call is."""
        waiter: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def wake(_: object) -> None:
            if loop is self._loop:
                finish()
            else:
                with suppress(RuntimeError):  # that loop was closed meanwhile
                    loop.call_soon_threadsafe(finish)

        self._outcome.add_done_callback(wake)
        return waiter

    # What the directory does

    def advance(self, step: Step) -> None:
        """Note progress, or attach a late partial result to the error that ended the call."""
        if self.done():
            error = self._outcome.exception()
            if error is not None and step.value is not None:
                error.partial = step.value  # type: ignore[attr-defined]
            return
        self.progress = step
        for listener in tuple(self._listeners):
            self._tell(listener)

    def settle(self, state: CallState, outcome: Any) -> bool:
        """Give the call its outcome: a value when ANSWERED, else an exception.

        Returns:
            Whether this was the outcome; False if it had one already.
        """
        if self.done():
            return False
        if state is CallState.ANSWERED and self._decode is not None:
            try:
                outcome = self._decode(outcome)
            except Exception as failure:  # whatever it is, the call must not stay open
                state, outcome = CallState.FAILED, failure
                if isinstance(failure, PageToolError):
                    failure.tool, failure.tab = self.tool, self.tab
        self._ended = self._loop.time()
        self.state = state
        if state is CallState.ANSWERED:
            self._outcome.set_result(outcome)
        else:
            if self.progress is not None and hasattr(outcome, "partial"):
                outcome.partial = self.progress.value
            self._outcome.set_exception(outcome)
        while self._listeners:
            self._tell(self._listeners.pop(0))
        return True

    def _tell(self, listener: Callable[[PageCall], None]) -> None:
        with suppress(Exception):  # a broken display must not break the call
            listener(self)

    # What is shown

    def _outcome_text(self) -> str:
        match self.state:
            case CallState.PENDING:
                step = f", {self.progress}" if self.progress else ""
                return f"pending for {self.duration:.1f} s{step}"
            case CallState.ANSWERED:
                value = shorten(repr(self._outcome.result()), SHOWN_VALUE)
                return f"{value} after {self.duration * 1000:.0f} ms"
            case _:
                return f"{self.state.value}, {self._outcome.exception()}"

    def __repr__(self) -> str:
        where = f'in "{shorten(self.tab, 60)}" ({self.why})'
        return f"<PageCall {self.tool} {where}: {self._outcome_text()}>"

    def _repr_html_(self) -> str:
        mark = _MARKS.get(self.state, "✗")
        if self.state is CallState.PENDING:
            step = self.progress
            done = f' value="{step.progress:g}" max="{step.total:g}"' if step and step.total else ""
            mark = f"<progress{done} style='vertical-align:middle;width:8em'></progress>"
        tool, text = html.escape(self.tool), html.escape(self._outcome_text())
        where = html.escape(f"{shorten(self.tab, 60)}, {self.why}")
        return (
            f"<div>{mark} <code>{tool}</code> <small style='opacity:.7'>in {where}</small>"
            f"<div style='padding-left:1.4em;overflow-wrap:anywhere'>{text}</div></div>"
        )


def block_thread(call: PageCall, timeout: float | None) -> None:
    """Block the calling thread until ``call`` is done or ``timeout`` seconds have passed.

    Raises:
        BridgeError: If this is the thread that must receive the answer.
    """
    if _running_loop() is call._loop:
        raise BridgeError("result() would block the loop that must receive the answer; await it")
    give_up_at = None if timeout is None else time.monotonic() + timeout
    while not call.done():
        # In short waits, so that an interrupt is noticed on every platform.
        rest = WAKE_EVERY if give_up_at is None else give_up_at - time.monotonic()
        if rest <= 0:
            return
        concurrent.futures.wait([call._outcome], min(rest, WAKE_EVERY))


async def wake_often(future: asyncio.Future[T]) -> T:
    """Await ``future`` without being deaf to an interrupt. Cancelling cancels it."""
    loop = future.get_loop()
    timer: asyncio.TimerHandle

    def tick() -> None:
        nonlocal timer
        timer = loop.call_later(WAKE_EVERY, tick)

    tick()
    try:
        return await future
    finally:
        timer.cancel()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _patience(timeout: float | None) -> float | None:
    """Seconds to wait for a result; none at all is a way to ask whether it is there."""
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout <= 0:
        return 0.0
    return check_timeout(timeout)


def timed_out(call: PageCall, why: str = "") -> CallTimeoutError:
    """The error of a call whose time is up; ``why`` says what kept its page from answering."""
    return CallTimeoutError(call.tool, call.tab, call.timeout or 0.0, why)


def cancelled(call: PageCall, reason: str) -> CallCancelledError:
    """The error of a call that was cancelled from this side."""
    return CallCancelledError(call.tool, call.tab, reason)
