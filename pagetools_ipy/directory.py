"""Who is connected, what each page declares, where the person looks, and calls between them.

Knows what each message means for the whole. Does not know transports: a connection is an id
and a ``send``. Everything runs on one thread, that of the loop the calls are made on.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from . import messages
from .calls import PageCall
from .changes import ChangeSignal, Listeners, Pulse
from .connections import Connection, TabRecord
from .declarations import Declarations
from .errors import (
    BridgeError,
    MessageError,
    NoPageConnectedError,
    TabNotFoundError,
    ToolNotFoundError,
    ToolWaitTimeoutError,
)
from .index import Registrations, Route, ToolIndex
from .limits import check_timeout
from .messages import (
    Activation,
    Blocked,
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
from .presence import Presence
from .text import shorten
from .views import PageToolSummary, TabView

_logger = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], None]
Close = Callable[[int, str], None]
Tabs = list[TabView]
Clients = list[dict[str, Any]]


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
        self._index = ToolIndex(self._now, self._touched)
        self._tabs = self._index.tabs
        self._order = itertools.count(1)
        self._closed = False
        self._pulse = Pulse()
        self._signal = ChangeSignal(change_debounce)
        self._watchers: Listeners[[str | None]] = Listeners()
        self.ignored: Counter[str] = Counter()
        """How many messages had no effect, by reason."""
        self._calls = PendingCalls(self._send, self._new_id, self.ignored)
        self._presence = Presence(
            self._tabs,
            touched=self._index.touch,
            send=self._send,
            drop=lambda connection: self.remove_connection(connection.client_id),
            now=self._now,
            ignored=self.ignored,
        )
        self._declarations = Declarations(
            self._index, self._signal, send=self._send, reject=self._reject, now=self._now
        )
        self._handlers: dict[type[PageMessage], Callable[[Connection, Any], None]] = {
            Hello: self._presence.greet,
            Register: self._declarations.take,
            State: self._presence.look,
            Blocked: self._presence.block,
            Activation: self._presence.activate,
            Result: self._calls.answer,
            Progress: self._calls.progress,
            Pong: self._presence.answered,
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
        while client_id in self._tabs.tabs:  # a page may have guessed it for its tab
            client_id = self._new_id()
        order, active_tabs = next(self._order), self._tabs.active_tabs
        self._tabs.add(Connection(client_id, send, close, order, self._now(), active_tabs))
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
        self._presence.left(connection)
        self._declarations.left(connection)
        self._log(f"page {client_id} disconnected")

    # Messages from pages

    def handle_client_message(self, client_id: str, raw: object) -> None:
        """Take a message from a page, as decoded from JSON.

        Never raises on account of what the page sent: a message that is not in the protocol is
        answered with ``rejected`` and where its fault lies.
        """
        connection = self._tabs.connections.get(client_id)
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

    def _touched(self, tab: TabRecord | None) -> None:
        self._pulse.beat()
        self._watchers.tell(None if tab is None else tab.id)

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

    # Calls

    async def call(
        self,
        name: str,
        args: dict[str, Any] | None = None,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
        strict: bool | None = None,
        timeout: float | None = 15.0,
    ) -> Any:
        """Call a page's tool and return what it returned, as JSON.

        Cancelling tells the page to stop; the call is over then, whatever the page does.

        Args:
            name: Name of the tool, or ``ns/name``.
            args: Arguments by name; they are sent as they are.
            ns: Only this namespace.
            client_id: Only this connection, or the tab with this id.
            tab: Only this tab: id, title, URL or its start, number in `tabs`, or with an ``id``.
            strict: Whether one app in several tabs is ambiguous; None leaves it to the policy.
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
        route = self.route(name, ns=ns, client_id=client_id, tab=tab, strict=strict)
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
            CallRefusedError: If the call is not to be made.
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
        strict: bool | None = None,
    ) -> Route:
        """Find who would answer a call; arguments and errors are those of `call`."""
        return self._index.route(name, ns=ns, client_id=client_id, tab=tab, strict=strict)

    async def wait_for(
        self,
        name: str,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
        strict: bool | None = None,
        timeout: float | None = 30.0,
    ) -> Route:
        """Wait until a call to this tool would be answered, and say by whom.

        Args:
            name: Name of the tool, or ``ns/name``.
            ns, client_id, tab, strict: Narrow it down, as in `call`.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            ToolWaitTimeoutError: If it did not come in time.
            BridgeError: If the bridge was stopped meanwhile.
            AmbiguousToolError: If several different tools have the name.
        """

        def attempt() -> Route:
            if self._closed:
                raise BridgeError(f'the bridge was stopped while "{shorten(name)}" was waited for')
            return self.route(name, ns=ns, client_id=client_id, tab=tab, strict=strict)

        not_yet = (NoPageConnectedError, TabNotFoundError, ToolNotFoundError)
        try:
            return await self._pulse.until(attempt, not_yet, check_timeout(timeout))
        except not_yet as problem:
            assert timeout is not None
            raise ToolWaitTimeoutError(name, timeout, problem) from None

    # What is there

    def list(self) -> Registrations:
        """Every registration: those in an active tab first, else in the order they came.

        Where several connections declare one namespace, all but the one that answers are
        marked ``shadowed``.
        """
        return self._index.list()

    def clients_of(self, tab: object) -> frozenset[str]:
        """Identifiers of the connections of one tab, given as in `call`; empty if it is gone."""
        return self._tabs.clients_of(tab)

    def tabs(self, *, all: bool = False) -> Tabs:
        """Every tab that can be addressed, in the order in which they first came.

        A tab that reloads keeps its place.

        Args:
            all: Also those that are asleep or just gone.
        """
        return [view for view in self._tabs.views() if all or view.number is not None]

    def glance(self, tab_ids: Iterable[str]) -> Tabs:
        """Those of these tabs that are known, without their numbers: costs the same however
        many others there are."""
        return self._tabs.glance(tab_ids)

    def tab(self, selector: object) -> TabView:
        """One tab, given as in `call`; its page may be away.

        Raises:
            TabNotFoundError: If it is not known, or not any more.
        """
        return self._tabs.view(self._tabs.find(selector))

    def list_clients(self) -> Clients:
        """The connected tabs in plain JSON: for each ``id``, ``url``, ``title``, ``visible``,
        ``focused``, ``connectedAt`` in milliseconds since the epoch, and ``tools``, each as
        ``ns/name``."""
        return [view.as_client() for view in self._tabs.views() if view.frames]

    def best_of(self, ns: str) -> str | None:
        """Identifier of the tab that answers calls to a namespace; None if nobody does."""
        best = self._index.best_of(ns)
        return None if best is None else best.connection.tab.id

    # How it is to be done

    def pin(self, tab: object) -> None:
        """Have one tab answer before all others until it is unpinned; None unpins.

        While a pinned tab is away, calls that name no tab fail and go to no other one.

        Args:
            tab: The tab, given as in `call`.

        Raises:
            TabNotFoundError: If it is not there.
        """
        self._tabs.pin(tab)

    @property
    def pinned(self) -> str | None:
        """Identifier of the pinned tab, also while it is away."""
        return self._tabs.pinned

    @property
    def strict(self) -> bool:
        """Whether one app in several tabs is ambiguous, as different apps are."""
        return self._index.strict

    @strict.setter
    def strict(self, strict: bool) -> None:
        self._index.strict = strict
        self._index.touch(None)

    def block_with(self, block: Callable[[PageCall, float | None], None]) -> None:
        """Set how `PageCall.result` waits: ``block(call, seconds)`` returns when the call is
        done or the time is up. By default it blocks the calling thread."""
        self._calls.block = block

    def refuse_with(self, refuses: Callable[[str, str], str]) -> None:
        """Set which calls are not made: ``refuses(url, name)`` says why a tool of the tab with
        this address is not to be called, and nothing where it may be."""
        self._calls.refuses = refuses

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

    def watch(self, watcher: Callable[[str | None], None]) -> Callable[[], None]:
        """Have ``watcher(tab_id)`` called at once at every change of a tab, of focus as well;
        with None if it may be any tab. Returns a function that ends that."""
        return self._watchers.subscribe(watcher)

    def watch_calls(self, watcher: Callable[[PageCall], None]) -> Callable[[], None]:
        """Have ``watcher(call)`` called when a call was sent. Returns a function that ends
        that."""
        return self._calls.watchers.subscribe(watcher)

    def summary(self) -> PageToolSummary:
        """Counts of connections, tabs, namespaces and tools."""
        registrations = self._index.registrations()
        return PageToolSummary(
            clients=len(self._tabs.connections),
            tabs=sum(bool(tab.documents) for tab in self._tabs.tabs.values()),
            namespaces=len(registrations),
            tools=sum(len(r.tools) for r in registrations),
        )

    def close(self) -> None:
        """Fail what is pending, tell who waits, and forget everyone."""
        self._closed = True
        self._pulse.beat()
        for client_id in tuple(self._tabs.connections):
            self._remove(client_id, "the bridge was stopped")
        self._presence.close()
        self._tabs.clear()
        self._watchers.close()
        self._calls.watchers.close()
        self._signal.close()


def _counted_ids() -> Callable[[], str]:
    # The prefix keeps identifiers of an earlier run from meaning anything in this one.
    prefix, numbers = secrets.token_hex(4), itertools.count(1)
    return lambda: f"{prefix}-{next(numbers)}"
