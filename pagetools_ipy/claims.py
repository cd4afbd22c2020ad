"""Which tab a document is in, when another one says that it is the same.

Knows connections and the loop's clock. Does not know messages or tabs.

A browser copies a tab's storage, and the identifier in it, when it duplicates the tab. The page
client notices by itself as a rule; the last word is had here. Whoever holds the identifier is
asked whether it is there. If it answers, the newcomer is a duplicate and gets an identifier of
its own; if it is silent, its page is no more and the newcomer takes its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .connections import Connection

PATIENCE = 1.0
"""Seconds that the holder of an identifier has to answer, while the loop listens."""

LATE = 0.5
"""By how many seconds a verdict may be late before the loop counts as having been blocked."""


class TabClaims:
    """Documents that wait for the holder of their tab's identifier to answer.

    Args:
        ask: Asks a page whether it is there.
        settle: Is told of a newcomer, the holder, and whether the holder is there.
    """

    def __init__(
        self,
        ask: Callable[[Connection], object],
        settle: Callable[[Connection, Connection, bool], None],
    ) -> None:
        self._ask = ask
        self._settle = settle
        self._open: dict[str, tuple[Connection, list[Connection]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def contest(self, newcomer: Connection, holder: Connection) -> None:
        """Ask ``holder`` whether it is there. Without a running loop it counts as being there."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._settle(newcomer, holder, True)
            return
        _, waiting = self._open.setdefault(holder.client_id, (holder, []))
        waiting.append(newcomer)
        if holder.client_id not in self._timers:
            self._arm(loop, holder)
            self._ask(holder)

    def _arm(self, loop: asyncio.AbstractEventLoop, holder: Connection) -> None:
        self._timers[holder.client_id] = loop.call_later(PATIENCE, self._expire, loop, holder)

    def _expire(self, loop: asyncio.AbstractEventLoop, holder: Connection) -> None:
        if loop.time() - self._timers[holder.client_id].when() > LATE:
            self._arm(loop, holder)  # the answer may lie unread
        else:
            self._end(holder, is_there=False)

    def answered(self, holder: Connection) -> None:
        """Note that a page has answered, whatever it was asked."""
        self._end(holder, is_there=True)

    def left(self, connection: Connection) -> None:
        """Note that a connection is gone, be it a holder or a newcomer."""
        self.withdraw(connection)
        self._end(connection, is_there=False)

    def withdraw(self, newcomer: Connection) -> None:
        """Have it wait for nobody's answer any more."""
        for _, waiting in self._open.values():
            if newcomer in waiting:
                waiting.remove(newcomer)

    def _end(self, holder: Connection, *, is_there: bool) -> None:
        timer = self._timers.pop(holder.client_id, None)
        if timer is None:
            return
        timer.cancel()
        _, waiting = self._open.pop(holder.client_id)
        for newcomer in waiting:
            if not newcomer.gone:  # on account of one settled just before
                self._settle(newcomer, holder, is_there)

    def close(self) -> None:
        """Settle nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._open.clear()
