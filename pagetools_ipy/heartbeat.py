"""Asks pages now and then whether they are there.

Knows connections and the loop's clock. Does not know what silence means to others.

A WebSocket pong proves nothing about a page: a frozen, looping or paused one has its browser
answer. So the page itself is asked, from here, since timers of hidden pages run once a minute.
Silence counts only while the loop is listening: after a cell has blocked it, everybody is asked
anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from .connections import Connection

ROUND = 5.0
"""Seconds between two rounds; a page that owes an answer to a call is asked in each."""

IDLE_ROUNDS = 3
"""In how many rounds an idle page is asked once."""

MISSES = 2
"""How many questions in a row go unanswered before a page counts as not responding."""

LATE = 0.5
"""By how many seconds a round may be late before the loop counts as having been blocked."""


@dataclass(slots=True)
class _Pulse:
    connection: Connection
    is_asked: bool = False
    misses: int = 0
    rounds_left: int = IDLE_ROUNDS


class Heartbeat:
    """Keeps `Connection.silent` true to how a page answers.

    There is one timer for all, and none while nobody is watched.

    Args:
        ask: Sends a numbered question to a page, which it answers with the number.
        changed: Is told of a connection that fell silent or spoke again.
    """

    def __init__(
        self, ask: Callable[[Connection, int], object], changed: Callable[[Connection], None]
    ) -> None:
        self._ask = ask
        self._changed = changed
        self._pulses: dict[str, _Pulse] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0

    def watch(self, connection: Connection) -> None:
        """Begin to ask a page. Needs a running loop; without one nobody is asked."""
        self._pulses[connection.client_id] = _Pulse(connection)
        connection.silent = False
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._arm(loop)

    def forget(self, connection: Connection) -> None:
        """Ask it no more."""
        self._pulses.pop(connection.client_id, None)
        if not self._pulses:
            self.close()

    def answered(self, connection: Connection) -> None:
        """Note that a page has answered a question."""
        pulse = self._pulses.get(connection.client_id)
        if pulse is not None:
            pulse.is_asked, pulse.misses = False, 0
        if connection.silent:
            connection.silent = False
            self._changed(connection)

    def ask(self, connection: Connection) -> None:
        """Ask a page now."""
        self._number += 1
        self._ask(connection, self._number)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(ROUND, self._round, loop)

    def _round(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._timer is not None
        was_blocked = loop.time() - self._timer.when() > LATE
        self._arm(loop)
        for pulse in tuple(self._pulses.values()):
            if pulse.connection.gone:  # on account of one asked just before
                continue
            pulse.rounds_left -= 1
            if pulse.is_asked and not was_blocked:
                self._missed(pulse)
            if pulse.is_asked or pulse.rounds_left <= 0 or pulse.connection.pending:
                pulse.is_asked, pulse.rounds_left = True, IDLE_ROUNDS
                self.ask(pulse.connection)

    def _missed(self, pulse: _Pulse) -> None:
        pulse.misses += 1
        if pulse.misses >= MISSES and not pulse.connection.silent:
            pulse.connection.silent = True
            self._changed(pulse.connection)

    def close(self) -> None:
        """Ask nobody any more."""
        self._pulses.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
