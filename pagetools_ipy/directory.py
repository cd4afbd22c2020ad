"""Who is connected, what each page declares, where the person looks, and calls between them.

Knows what each message means for the whole. Does not know transports: a connection is an id
and a ``send``. Everything runs on one thread, that of the loop the calls are made on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import messages
from .calls import PageCall
from .changes import ChangeSignal, Pulse
from .connections import Connection, PageToolSummary, Registration
from .errors import (
    BridgeError,
    MessageError,
    NoPageConnectedError,
    TabNotFoundError,
    ToolNotFoundError,
    ToolWaitTimeoutError,
)
from .index import Registrations, Route, Tabs, ToolIndex
from .limits import MAX_MESSAGE_BYTES, MAX_NAME_CHARS, check_name, check_timeout
from .messages import (
    Activation,
    Hello,
    PageMessage,
    Pong,
    Progress,
    Register,
    Rejected,
    Result,
    State,
)
from .pending import PendingCalls
from .text import clean, shorten

_logger = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], None]
Close = Callable[[int, str], None]

SUPERSEDED = 4409
"""Close code for a connection whose document has opened another one."""


class PageToolDirectory:
    """The live registry of page-declared tools and of the connections that back them.

    Args:
        now: Clock for time stamps, in seconds since the epoch; `time.time` by default.
            Timeouts use the event loop's own clock.
        new_id: Makes the identifiers of connections and calls; a random prefix with a running
            number by default.
        change_debounce: Quiet period in seconds before listeners are told of a change.
        log: Takes a line about each connection and each message that was refused; the module's
            logger at debug level by default.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] | None = None,
        new_id: Callable[[], str] | None = None,
        change_debounce: float = 0.5,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._now = now or time.time
        self._new_id = new_id or _counted_ids()
        self._log = log or _logger.debug
        self._index = ToolIndex()
        self._order = itertools.count(1)
        self._closed = False
        self._pulse = Pulse()
        self._signal = ChangeSignal(change_debounce)
        self.ignored: Counter[str] = Counter()
        """How many messages had no effect, by reason."""
        self._calls = PendingCalls(self._send, self._new_id, self.ignored)
        self._handlers: dict[type[PageMessage], Callable[[Connection, Any], None]] = {
            Hello: self._on_hello,
            Register: self._on_register,
            State: self._on_state,
            Activation: self._on_activation,
            Result: self._calls.answer,
            Progress: self._calls.progress,
            Pong: self._on_pong,
        }

    # Connections

    def add_connection(self, send: Send, close: Close | None = None) -> str:
        """Take in a page's connection.

        Args:
            send: Sends one message, given as a plain object, to the page. If it raises, the
                message counts as not sent.
            close: Closes the connection with a code and a reason; called when another
                connection of the same document takes its place.

        Returns:
            The identifier of the connection, its ``client_id``.
        """
        client_id = self._new_id()
        self._index.add(
            Connection(
                client_id, send, close, next(self._order), self._now(), self._index.active_tabs
            )
        )
        self._log(f"page {client_id} connected")
        return client_id

    def remove_connection(self, client_id: str) -> None:
        """Forget a connection: its tools, its focus, and fail its pending calls.

        Without effect when there is no such connection.
        """
        self._remove(client_id, "the page went away")

    def _remove(self, client_id: str, why: str) -> None:
        connection = self._index.remove(client_id)
        if connection is None:
            return
        self._calls.lose(connection, why)
        self._signal.replace([r.content for r in connection.registrations.values()], ())
        self._log(f"page {client_id} disconnected")

    # Messages from pages

    def handle_client_message(self, client_id: str, raw: object) -> None:
        """Take a message from a page, as decoded from JSON.

        Never raises on account of what the page sent: a message that is not in the protocol is
        answered with ``rejected`` and where its fault lies.
        """
        connection = self._index.connections.get(client_id)
        if connection is None:
            self.ignored["unknown connection"] += 1
            return
        try:
            message = messages.parse(raw)
        except MessageError as problem:
            self._reject(connection, problem)
            self._calls.unreadable(connection, raw, problem)
            return
        if message is None:
            self.ignored["unknown type"] += 1
            return
        self._handlers[type(message)](connection, message)
        if self._pulse and not isinstance(message, (Result, Progress, Pong)):
            self._pulse.beat()

    def _reject(self, connection: Connection, problem: MessageError) -> None:
        self.ignored["rejected"] += 1
        self._log(f"page {connection.client_id}: {problem}")
        self._send(connection, Rejected(problem.reason, problem.problem, problem.path))

    def _send(self, connection: Connection, message: messages.BridgeMessage) -> bool:
        try:
            connection.send(messages.dump(message))
        except Exception as problem:  # whatever a transport raises, it concerns this page only
            self._log(f"page {connection.client_id}: could not be sent to: {problem!r}")
            return False
        return True

    def _on_hello(self, connection: Connection, hello: Hello) -> None:
        tab_id, reason = clean(hello.tab.id, MAX_NAME_CHARS), None
        for other in self._index.in_tab(tab_id):
            if other is connection or other.hello is None:
                continue
            if hello.tab.doc_id and other.hello.tab.doc_id == hello.tab.doc_id:
                self._supersede(other)
            elif other.hello.frame.top and hello.frame.top:
                # A page closes its connection before its tab opens the next one, so another
                # live document with this id is another tab: a duplicate copies the storage.
                tab_id, reason = secrets.token_hex(16), "duplicate"
        connection.hello = hello
        connection.look(hello.tab, self._now())
        self._index.move_to_tab(connection, tab_id or connection.client_id)
        self._send(
            connection,
            messages.Welcome(connection.client_id, connection.tab_id, MAX_MESSAGE_BYTES, reason),
        )

    def _supersede(self, connection: Connection) -> None:
        self.remove_connection(connection.client_id)
        if connection.close is not None:
            connection.close(SUPERSEDED, "this page has opened another connection")

    def _on_register(self, connection: Connection, message: Register) -> None:
        try:
            check_name(message.ns, "ns")
        except MessageError as problem:
            self._reject(connection, problem)
            return
        tools, problems = messages.parse_tools(message.tools)
        for fault in problems:
            self._reject(connection, fault)
        now = self._now()
        connection.note(message, now)
        new = Registration(connection, message, tools, now) if tools else None
        old = self._index.declare(connection, message.ns, new)
        digest = new.digest if new else messages.digest(())
        self._send(connection, messages.Registered(message.ns, message.hash or digest))
        gone = [old.content] if old else []
        come = [new.content] if new else []
        if gone != come:
            self._signal.replace(gone, come)

    def _on_state(self, connection: Connection, state: State) -> None:
        if state.seq <= connection.state_seq:
            self.ignored["stale state"] += 1
            return
        connection.state_seq = state.seq
        connection.look(state, self._now())
        self._index.touch()

    def _on_activation(self, connection: Connection, message: Activation) -> None:
        if message.active:
            self._index.active_tabs.activate(
                message.tab.chrome_tab_id, message.tab.window_id, connection.client_id
            )
        else:
            self._index.active_tabs.deactivate(message.tab.chrome_tab_id)
        self._index.touch()

    def _on_pong(self, connection: Connection, message: Pong) -> None:
        connection.last_pong = message.n

    # Calls

    async def call(
        self,
        name: str,
        args: dict[str, Any] | None = None,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
        timeout: float | None = 15.0,
    ) -> Any:
        """Call a page's tool and return what it returned, as JSON.

        Cancelling tells the page to stop; the call is over then, whatever the page does.

        Args:
            name: Name of the tool, or ``ns/name``.
            args: Arguments by name; they are sent as they are.
            ns: Only this namespace.
            client_id: Only this connection.
            tab: Only this tab: id, title, URL or its start, number in `tabs`, or with an ``id``.
            timeout: Seconds to wait, counted while the loop runs; None waits for ever.

        Raises:
            NoPageConnectedError: If no page is connected.
            TabNotFoundError: If ``client_id`` or ``tab`` is not there.
            ToolNotFoundError: If nobody there has the tool.
            AmbiguousToolError: If several different tools have the name.
            InvalidArgumentsError: If ``args`` is no object, or JSON cannot carry it.
            CallTimeoutError: If no answer came in time.
            PageGoneError: If the page went away first.
            PageToolError: If the tool failed.
        """
        route = self.route(name, ns=ns, client_id=client_id, tab=tab)
        return await self.start(route, args, timeout=timeout)

    def start(
        self,
        route: Route,
        args: dict[str, Any] | None = None,
        *,
        timeout: float | None = 15.0,
        decode: Callable[[Any], Any] | None = None,
        validate: bool = False,
    ) -> PageCall:
        """Send a call and return its handle. Needs a running loop.

        Args:
            route: Who is to answer, from `route`.
            args: Arguments by name; they are sent as they are.
            timeout: Seconds to wait, counted while the loop runs; None waits for ever.
            decode: Makes the returned JSON into the call's value; may raise a `PageToolError`.
            validate: Whether to hold the arguments to the tool's input schema first.

        Raises:
            InvalidArgumentsError: If ``args`` is no object, JSON cannot carry it, it does not
                fit the schema, or ``timeout`` is no positive number.
            PageGoneError: If the page has gone since; nothing was sent then.
        """
        return self._calls.start(route, args, timeout, decode, validate)

    def route(
        self,
        name: str,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
    ) -> Route:
        """Find who would answer a call; arguments and errors are those of `call`."""
        return self._index.route(name, ns=ns, client_id=client_id, tab=tab)

    async def wait_for(
        self,
        name: str,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
        timeout: float | None = 30.0,
    ) -> Route:
        """Wait until a call to this tool would be answered, and say by whom.

        Args:
            name: Name of the tool, or ``ns/name``.
            ns, client_id, tab: Narrow it down, as in `call`.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            ToolWaitTimeoutError: If it did not come in time.
            BridgeError: If the bridge was stopped meanwhile.
            AmbiguousToolError: If several different tools have the name.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + (check_timeout(timeout) or math.inf)
        while True:
            if self._closed:
                raise BridgeError(f'the bridge was stopped while "{shorten(name)}" was waited for')
            try:
                return self.route(name, ns=ns, client_id=client_id, tab=tab)
            except (NoPageConnectedError, TabNotFoundError, ToolNotFoundError) as problem:
                rest = give_up_at - loop.time()
                if rest <= 0:
                    assert timeout is not None
                    raise ToolWaitTimeoutError(name, timeout, problem) from None
            await self._pulse.next(None if rest == math.inf else rest)

    # What is there

    def list(self) -> Registrations:
        """Every registration: those in an active tab first, else in the order they came.

        Where several connections declare one namespace, all but the one that answers are
        marked ``shadowed``.
        """
        return self._index.list()

    def clients_of(self, tab: object) -> frozenset[str]:
        """Identifiers of the connections of one tab, given as in `call`; empty if it is gone."""
        return self._index.clients_of(tab)

    def tabs(self) -> Tabs:
        """Every connected tab, in the order in which they came; frames are within theirs."""
        return self._index.tabs()

    def block_with(self, block: Callable[[PageCall, float | None], None]) -> None:
        """Set how `PageCall.result` waits: ``block(call, seconds)`` returns when the call is
        done or the time is up. By default it blocks the calling thread."""
        self._calls.block = block

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener()`` called when the set of tools has changed.

        It is called once per quiet period, and only if the set is another one than last told:
        repeating a registration, a reload that restores it, and where the person looks are not
        changes. A listener that raises disturbs no other. Outside a running loop there is no
        quiet period.

        Returns:
            A function that ends the subscription.
        """
        return self._signal.subscribe(listener)

    def summary(self) -> PageToolSummary:
        """Counts of connections, namespaces and tools."""
        registrations = self._index.registrations()
        return PageToolSummary(
            clients=len(self._index.connections),
            namespaces=len(registrations),
            tools=sum(len(r.tools) for r in registrations),
        )

    def close(self) -> None:
        """Fail what is pending, tell who waits, and forget everyone."""
        self._closed = True
        self._pulse.beat()
        for client_id in tuple(self._index.connections):
            self._remove(client_id, "the bridge was stopped")
        self._signal.close()


def _counted_ids() -> Callable[[], str]:
    # The prefix keeps identifiers of an earlier run from meaning anything in this one.
    prefix, numbers = secrets.token_hex(4), itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"
