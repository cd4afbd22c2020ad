"""Signals of change: a debounced one for the set of tools, and one for every change.

Knows what was added and taken away, as opaque hashable items. Does not know tools or pages.

Only the net effect counts: an item that goes and comes back within the quiet period leaves
nothing to tell. The bookkeeping is a counted difference to what was last told, so that a
change costs the same however much there is.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, ParamSpec, TypeVar

_log = logging.getLogger(__name__)

MAX_QUIET_PERIODS = 4
"""A set that never comes to rest is told of after this many quiet periods all the same."""


P = ParamSpec("P")
T = TypeVar("T")


class Listeners(Generic[P]):
    """Functions to call when something happens; one that raises disturbs no other."""

    def __init__(self) -> None:
        self._functions: dict[object, Callable[P, None]] = {}

    def subscribe(self, function: Callable[P, None]) -> Callable[[], None]:
        """Have ``function`` called from now on; returns what ends that."""
        key = object()
        self._functions[key] = function

        def unsubscribe() -> None:
            self._functions.pop(key, None)

        return unsubscribe

    def tell(self, *args: P.args, **options: P.kwargs) -> None:
        """Call them all."""
        for function in tuple(self._functions.values()):
            try:
                function(*args, **options)
            except Exception:
                _log.exception("a listener failed")

    def close(self) -> None:
        """Forget them all."""
        self._functions.clear()


class ChangeSignal:
    """Tells listeners, once per quiet period, that the set of items is another one.

    Args:
        debounce: Quiet period in seconds; 0 tells at once.
    """

    def __init__(self, debounce: float) -> None:
        self._debounce = debounce
        self._difference: Counter[Hashable] = Counter()
        self._listeners: Listeners[[]] = Listeners()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first_change = 0.0
        self._last_change = 0.0

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener()`` called at each change; returns what ends that."""
        return self._listeners.subscribe(listener)

    def replace(self, gone: Iterable[Hashable], come: Iterable[Hashable]) -> None:
        """Note that items were taken away and others added."""
        changes = [(item, -1) for item in gone] + [(item, 1) for item in come]
        for item, step in changes:
            self._difference[item] += step
            if not self._difference[item]:
                del self._difference[item]
        if changes:
            self._schedule()

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._fire()  # without a loop there is nothing to wait with
            return
        if not self._debounce:
            self._fire()
            return
        self._last_change = loop.time()
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._first_change = self._last_change
            self._timer = loop.call_at(self._last_change + self._debounce, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        due = min(
            self._last_change + self._debounce,
            self._first_change + self._debounce * MAX_QUIET_PERIODS,
        )
        if loop.time() < due and self._difference:
            self._timer = loop.call_at(due, self._look, loop)
        else:
            self._timer = None
            self._fire()

    def _fire(self) -> None:
        if not self._difference:
            return
        self._difference.clear()
        self._listeners.tell()

    def close(self) -> None:
        """Forget listeners and what has not been told."""
        self._listeners.close()
        self._difference.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Pulse:
    """Wakes whoever waits for the next change, whatever it is, without a quiet period."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    async def until(
        self, attempt: Callable[[], T], not_yet: tuple[type[Exception], ...], timeout: float | None
    ) -> T:
        """Try again at each beat for as long as ``attempt()`` raises one of ``not_yet``.

        Args:
            timeout: Seconds after which the error of the last attempt stands; None for never.
        """
        loop = asyncio.get_running_loop()
        give_up_at = math.inf if timeout is None else loop.time() + timeout
        while True:
            try:
                return attempt()
            except not_yet:
                if loop.time() >= give_up_at:
                    raise
            beat = loop.create_future()
            self._waiting.add(beat)
            try:
                rest = None if timeout is None else give_up_at - loop.time()
                await asyncio.wait({beat}, timeout=rest)
            finally:
                self._waiting.discard(beat)

    def beat(self) -> None:
        """Wake everybody who waits now."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
