"""What pages say of themselves: which tab they are, what the person sees, that they are there.

Knows tabs, the messages about them, and how time passes for a tab whose page is away. Does not
know tools or calls.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable

from .claims import TabClaims
from .connections import Connection, TabRecord
from .heartbeat import Heartbeat
from .limits import MAX_MESSAGE_BYTES, MAX_NAME_CHARS, MAX_TITLE_CHARS
from .messages import Activation, Blocked, BridgeMessage, Hello, Ping, Pong, State, Welcome
from .tab_index import TabIndex
from .text import clean

SUPERSEDED = 4409
"""Close code for a connection in whose place another one stands."""


class Presence:
    """Keeps the tabs true to what their pages say.

    Args:
        tabs: The tabs.
        touched: To be told of every change of a tab.
        send: Sends a message to a page.
        drop: Forgets a connection.
        now: Clock, in seconds since the epoch.
        ignored: Counts messages that had no effect, by reason.
    """

    def __init__(
        self,
        tabs: TabIndex,
        *,
        touched: Callable[[TabRecord | None], None],
        send: Callable[[Connection, BridgeMessage], object],
        drop: Callable[[Connection], None],
        now: Callable[[], float],
        ignored: Counter[str],
    ) -> None:
        self._tabs = tabs
        self._touched = touched
        self._send = send
        self._drop = drop
        self._now = now
        self._ignored = ignored
        self._heartbeat = Heartbeat(
            lambda connection, number: send(connection, Ping(number)),
            lambda connection: touched(connection.tab),
        )
        self._claims = TabClaims(self._heartbeat.ask, self._settle)
        self._ageing: asyncio.TimerHandle | None = None

    # What pages say

    def greet(self, connection: Connection, hello: Hello) -> None:
        """Take in what a page says of itself, and welcome it once its tab is clear."""
        connection.greet(hello, self._now())
        self._touched(connection.tab)
        self._heartbeat.watch(connection)
        self._claims.withdraw(connection)
        self._claim(connection, hello)

    def _claim(self, connection: Connection, hello: Hello) -> None:
        tab_id = clean(hello.tab.id, MAX_NAME_CHARS)
        if self._tabs.is_reserved(tab_id, connection):
            self._admit(connection, secrets.token_hex(16), "duplicate")
            return
        record = self._tabs.tabs.get(tab_id)
        others = () if record is None else tuple(record.documents.values())
        for other in others:
            if other is connection or other.hello is None:
                continue
            if hello.tab.doc_id and other.hello.tab.doc_id == hello.tab.doc_id:
                # A page may be reached by its own socket and through its browser; it is its
                # client that goes quiet on one of them, when calls that run there are answered.
                if other.hello.client.via == hello.client.via:
                    self._supersede(other, "this page has opened another connection")
            elif other.is_top and hello.frame.top:
                # A page closes its connection before its tab opens the next one, so another
                # document of this tab that is still there is another tab.
                self._claims.contest(connection, other)
                return
        self._admit(connection, tab_id or connection.client_id)

    def _settle(self, newcomer: Connection, holder: Connection, is_there: bool) -> None:
        assert newcomer.hello is not None
        if is_there:
            self._admit(newcomer, secrets.token_hex(16), "duplicate")
        else:
            self._supersede(holder, "another page has taken the place of this silent one")
            self._claim(newcomer, newcomer.hello)

    def _admit(self, connection: Connection, tab_id: str, reason: str | None = None) -> None:
        connection.admitted = True
        self._tabs.move(connection, tab_id)
        self._send(connection, Welcome(connection.client_id, tab_id, MAX_MESSAGE_BYTES, reason))

    def _supersede(self, connection: Connection, why: str) -> None:
        if not connection.gone:
            self._drop(connection)
            if connection.close is not None:
                connection.close(SUPERSEDED, why)

    def look(self, connection: Connection, state: State) -> None:
        """Note what the person sees of a page."""
        if state.seq <= connection.state_seq:
            self._ignored["stale state"] += 1
            return
        connection.state_seq = state.seq
        connection.asleep = state.asleep
        connection.look(state, self._now())
        self._touched(connection.tab)

    def block(self, connection: Connection, message: Blocked) -> None:
        """Note why a page cannot answer, or that it can again."""
        connection.blocked = clean(message.reason, MAX_TITLE_CHARS)
        connection.asleep = message.asleep
        self._touched(connection.tab)

    def activate(self, connection: Connection, message: Activation) -> None:
        """Note which tab is in front of its window."""
        active_tabs, tab = self._tabs.active_tabs, message.tab
        if message.active:
            active_tabs.activate(tab.chrome_tab_id, tab.window_id, connection.client_id)
        else:
            active_tabs.deactivate(tab.chrome_tab_id)
        self._touched(None)

    def answered(self, connection: Connection, _: Pong) -> None:
        """Note that a page is there."""
        self._heartbeat.answered(connection)
        self._claims.answered(connection)

    # What time does

    def left(self, connection: Connection) -> None:
        """Note that a connection is gone."""
        self._heartbeat.forget(connection)
        self._claims.left(connection)
        self._age()

    def _age(self) -> None:
        if self._ageing is not None:
            self._ageing.cancel()
            self._ageing = None
        turn = self._tabs.age()
        if turn is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop nobody is told; whoever looks sees the state of that time
        self._ageing = loop.call_later(max(0.0, turn - self._now()), self._turn)

    def _turn(self) -> None:
        for tab in self._tabs.away():
            self._touched(tab)
        self._age()

    def close(self) -> None:
        """Forget what was to be done."""
        self._heartbeat.close()
        self._claims.close()
        if self._ageing is not None:
            self._ageing.cancel()
            self._ageing = None
