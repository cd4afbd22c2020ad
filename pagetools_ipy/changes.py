"""Signals of change: a debounced one for the set of tools, and one for every change.

Knows what was added and taken away, as opaque hashable items. Does not know tools or pages.

Only the net effect counts: an item that goes and comes back within the quiet period leaves
nothing to tell. The bookkeeping is a counted difference to what was last told, so that a
change costs the same however much there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

_log = logging.getLogger(__name__)

MAX_QUIET_PERIODS = 4
"""A set that never comes to rest is told of after this many quiet periods all the same."""


class ChangeSignal:
    """Tells listeners, once per quiet period, that the set of items is another one.

    Args:
        debounce: Quiet period in seconds; 0 tells at once.
    """

    def __init__(self, debounce: float) -> None:
        self._debounce = debounce
        self._difference: Counter[Hashable] = Counter()
        self._listeners: dict[object, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first_change = 0.0
        self._last_change = 0.0

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener()`` called at each change; returns what ends that."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

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
        for listener in tuple(self._listeners.values()):
            try:
                listener()
            except Exception:
                _log.exception("a listener to tool changes failed")

    def close(self) -> None:
        """Forget listeners and what has not been told."""
        self._listeners.clear()
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

    async def next(self, timeout: float | None) -> None:
        """Wait for the next beat, at most ``timeout`` seconds; None waits for ever."""
        beat = asyncio.get_running_loop().create_future()
        self._waiting.add(beat)
        try:
            await asyncio.wait({beat}, timeout=timeout)
        finally:
            self._waiting.discard(beat)

    def beat(self) -> None:
        """Wake everybody who waits now."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
