"""When the time of a pending call is up.

Knows calls and the loop's clock. Does not know what ending a call means to its page.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from .calls import PageCall

TICK = 0.25
"""Longest time in seconds that one look at the clock may charge to pending calls.

A loop that was blocked by a cell for a minute gets one tick on the bill, not a minute.
"""

GRACE = 0.1
"""Seconds that answers get to come out of their sockets after the loop was blocked."""

RESOLUTION = 0.001
"""Seconds by which a deadline may come early, so that rounding never makes the timer spin."""

SWEEP_FROM = 64
"""How many deadlines may be kept before those of finished calls are looked for."""


class Deadlines:
    """Ends calls whose time is up, counting only time in which the loop was running.

    One heap and one timer serve all calls; while none is pending there is no timer.
    """

    def __init__(self, expire: Callable[[PageCall], None]) -> None:
        self._expire = expire
        self._heap: list[tuple[float, int, PageCall]] = []
        self._running = 0.0
        self._looked_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._added = 0
        self._sweep_at = SWEEP_FROM

    def add(self, call: PageCall) -> None:
        """Start the clock for a call; without effect when its timeout is None."""
        if call.timeout is None:
            return
        loop = asyncio.get_running_loop()
        self._charge(loop)
        self._added += 1
        due = self._running + call.timeout
        heapq.heappush(self._heap, (due, self._added, call))
        if len(self._heap) >= self._sweep_at:
            self._drop_finished()
        if (
            self._timer is None
            or self._loop is not loop
            or due - self._running < self._timer.when() - loop.time()
        ):
            self._arm(loop, due - self._running)

    def _drop_finished(self) -> None:
        """Forget answered calls, which would else stay until their deadline passes."""
        self._heap = [entry for entry in self._heap if not entry[2].done()]
        heapq.heapify(self._heap)
        self._sweep_at = max(SWEEP_FROM, 2 * len(self._heap))

    def _charge(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        if self._timer is not None:
            self._running += min(now - self._looked_at, TICK)
        self._looked_at = now

    def _arm(self, loop: asyncio.AbstractEventLoop, wait: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop = loop
        self._timer = loop.call_later(min(TICK, max(0.0, wait)), self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        blocked = self._timer is not None and loop.time() - self._timer.when() > TICK
        self._charge(loop)
        self._timer = None
        while self._heap and (self._heap[0][2].done() or self._is_due(blocked)):
            call = heapq.heappop(self._heap)[2]
            if not call.done():
                self._expire(call)
        if self._heap:
            self._arm(loop, GRACE if blocked else self._heap[0][0] - self._running)

    def _is_due(self, blocked: bool) -> bool:
        # After a block, answers that lie unread in a socket come first.
        return not blocked and self._heap[0][0] - self._running < RESOLUTION
