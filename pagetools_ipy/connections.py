"""What is known of each connection, registration and tab.

Knows single connections and tabs. Does not know how they compare (`routing`), how they are
found (`index`), or what a message does to the whole (`directory`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from .active_tabs import ActiveTabs
from .calls import PageCall
from .limits import MAX_TITLE_CHARS, MAX_URL_CHARS
from .messages import Hello, HelloTab, Register, State, ToolDescriptor, digest
from .routing import Focus
from .schema import InputSchema, describe
from .text import clean
from .views import App, FrameView, PageToolRegistration, TabRef, TabState, TabView

MAX_ENDED = 256
"""How many finished calls a connection remembers, to tell late results from stray ones."""

RELOAD_SECONDS = 3.0
"""How long a tab whose page left counts as reloading; a page seldom takes longer to be back."""

NEXT_PAGE_SECONDS = 1.0
"""The same where its page was put aside, perhaps for the next one of the same tab."""

GONE_SECONDS = 30.0
"""How long a tab that is gone is still shown."""

ASLEEP_SECONDS = 600.0
"""How long a tab that is asleep is still shown; by then browsers have discarded such a page."""


class Connection:
    """One document's connection: how to reach it, what it declared, what it owes.

    Attributes:
        client_id: Identifier given by the directory.
        tab: The tab it is in; one of its own until the page tells.
        registrations: Declared namespaces, in the order of declaring.
        pending: Calls that were sent and not answered, by call id.
        ended: Recently finished calls by id; None for an answered one, so that its value is
            not kept alive.
        silent: Whether its page does not answer when asked.
        blocked: Why its page cannot answer, as a host in the browser says; else empty.
        admitted: Whether its page is in the tab it said, and so can come back to it.
    """

    def __init__(
        self,
        client_id: str,
        send: Callable[[dict[str, Any]], None],
        close: Callable[[int, str], None] | None,
        order: int,
        now: float,
        active_tabs: ActiveTabs,
    ) -> None:
        self.client_id = client_id
        self.send = send
        self.close = close
        self.order = order
        self.last_synced_at = now
        self.gone = False
        self.silent = False
        self.blocked = ""
        self.asleep = False
        self.admitted = False
        self.hello: Hello | None = None
        self.chrome_tab_id: int | str | None = None
        self.url = ""
        self.title = ""
        self.visible = False
        self.focused = False
        self.last_focused_at = 0.0
        self.state_seq = -1
        self.registrations: dict[str, Registration] = {}
        self.pending: dict[str, PageCall] = {}
        self.ended: OrderedDict[str, PageCall | None] = OrderedDict()
        self._active_tabs = active_tabs
        self.tab = TabRecord(client_id, order, now)
        self.tab.join(self)

    @property
    def is_top(self) -> bool:
        """Whether this is the tab's main document, not a frame in it."""
        return self.hello is None or self.hello.frame.top

    @property
    def active(self) -> bool:
        """Whether a browser-side host says that this tab is in front of its window."""
        return self.chrome_tab_id is not None and self.chrome_tab_id in self._active_tabs

    @property
    def focus(self) -> Focus:
        """Where it stands when the person's attention decides: as its tab does, within it by
        itself."""
        return Focus(*self.tab.attention, self.focused, self.last_synced_at, self.order)

    @property
    def apps(self) -> tuple[App, ...]:
        """What it declares, by name."""
        return tuple(registration.app for registration in self.registrations.values())

    def greet(self, hello: Hello, now: float) -> None:
        """Note who the page says it is."""
        self.hello = hello
        ago = hello.tab.last_focused_ago
        if ago is not None:
            self.last_focused_at = max(self.last_focused_at, now - max(0.0, ago) / 1000)
        self.look(hello.tab, now)

    def look(self, seen: HelloTab | State, now: float) -> None:
        """Note what the page reports of itself."""
        self.url = clean(seen.url, MAX_URL_CHARS)
        self.title = clean(seen.title, MAX_TITLE_CHARS)
        self.visible = seen.visible
        if seen.focused != self.focused:
            self.last_focused_at = now  # at its end too: that is when it was last looked at
        self.focused = seen.focused
        self.last_synced_at = now

    def note(self, message: Register, now: float) -> None:
        """Note what a registration says of its page, where the page did not say it itself."""
        self.last_synced_at = now
        hint = message.tab
        if hint is not None and hint.chrome_tab_id is not None:
            self.chrome_tab_id = hint.chrome_tab_id
        if self.hello is None:
            url = message.url or (hint and hint.url) or self.url
            title = (hint and hint.title) or self.title
            self.url = clean(url, MAX_URL_CHARS)
            self.title = clean(title, MAX_TITLE_CHARS)

    def remember(self, call_id: str, call: PageCall | None) -> None:
        """Keep a finished call's id for a while; the call itself if it may still report."""
        self.ended[call_id] = call
        if len(self.ended) > MAX_ENDED:
            self.ended.popitem(last=False)

    def view(self) -> FrameView:
        """The document as others see it."""
        return FrameView(
            client_id=self.client_id,
            url=self.url,
            title=self.title,
            top=self.is_top,
            visible=self.visible,
            focused=self.focused,
            namespaces=tuple(self.registrations),
            webmcp=clean(self.hello.client.webmcp, 16) if self.hello else "",
            has_greeted=self.hello is not None,
        )


class Attention(NamedTuple):
    """What is known of where the person looks, of a tab as a whole; see `routing.Focus`."""

    pinned: bool
    active: bool
    focused: bool
    visible: bool
    last_focused_at: float


class TabRecord:
    """A tab: its documents now, and what stays of it when its page is away.

    Attributes:
        id: Identifier of the tab.
        order: Running number of the first connection it had; tabs are numbered in this order.
        connected_at: When that was, in seconds since the epoch.
        documents: Its connections, by ``client_id``.
        pinned: Whether it answers before all others.
        left_at: When its last document went; of no meaning while there is one.
    """

    def __init__(self, tab_id: str, order: int, now: float) -> None:
        self.id = tab_id
        self.order = order
        self.connected_at = now
        self.documents: dict[str, Connection] = {}
        self.pinned = False
        self.left_at = now
        self._asleep = False
        self._page_was_seen = False
        self._title = self._url = ""
        self._looked_at = 0.0
        self._attention: Attention | None = None
        self._apps: tuple[App, ...] = ()

    def join(self, connection: Connection) -> None:
        """Take in a document."""
        self.documents[connection.client_id] = connection
        connection.tab = self
        self._page_was_seen = self._page_was_seen and not connection.is_top

    def leave(self, connection: Connection, now: float) -> None:
        """Let a document go; of the last one, remember what was seen."""
        looked_at = now if connection.focused else connection.last_focused_at
        self._looked_at = max(self._looked_at, looked_at)
        # The page itself and its frames go one after the other; it is known by the page.
        if connection.is_top or (len(self.documents) == 1 and not self._page_was_seen):
            self._title, self._url, self._apps = self.title, self.url, self.apps
            self._asleep, self._page_was_seen = connection.asleep, connection.is_top
        if len(self.documents) == 1:
            self.left_at = now
        del self.documents[connection.client_id]

    @property
    def sorted_documents(self) -> list[Connection]:
        """Its documents, the page itself first."""
        return sorted(self.documents.values(), key=lambda c: (not c.is_top, c.order))

    @property
    def _main(self) -> Connection | None:
        documents = self.documents.values()
        if len(documents) > 1:
            return self.sorted_documents[0]
        return next(iter(documents), None)

    @property
    def title(self) -> str:
        main = self._main
        return self._title if main is None else main.title

    @property
    def url(self) -> str:
        main = self._main
        return self._url if main is None else main.url

    @property
    def label(self) -> str:
        """What a person knows it by: title, else URL, else its identifier."""
        return self.title or self.url or self.id

    @property
    def apps(self) -> tuple[App, ...]:
        """What its documents declare, or declared last; one entry a namespace."""
        if not self.documents:
            return self._apps
        if len(self.documents) == 1:
            return next(iter(self.documents.values())).apps
        by_ns: dict[str, App] = {}
        for connection in self.sorted_documents:
            for app in connection.apps:
                other = by_ns.setdefault(app.ns, app)
                if other is not app:
                    names = dict.fromkeys(other.tools + app.tools)
                    by_ns[app.ns] = App(app.ns, tuple(names), other.digest + app.digest)
        return tuple(by_ns.values())

    @property
    def blocked(self) -> str:
        """Why its page cannot answer now, where that is known; else empty."""
        for connection in self.documents.values():
            if connection.blocked:
                return connection.blocked
        return ""

    def forget_attention(self) -> None:
        """To be called whenever what makes its attention has changed."""
        self._attention = None

    @property
    def attention(self) -> Attention:
        """Where it stands when the person's attention decides."""
        if self._attention is None:
            self._attention = self._sum_up()
        return self._attention

    def _sum_up(self) -> Attention:
        looked_at, active, focused, visible = self._looked_at, False, False, False
        for connection in self.documents.values():
            active = active or connection.active
            focused = focused or connection.focused
            visible = visible or connection.visible
            looked_at = max(looked_at, connection.last_focused_at)
        return Attention(self.pinned, active, focused, visible, looked_at)

    def state(self, now: float) -> TabState:
        """Where it stands at the time ``now``."""
        if self.documents:
            if self.blocked:
                is_asleep = any(connection.asleep for connection in self.documents.values())
                return TabState.ASLEEP if is_asleep else TabState.NOT_RESPONDING
            is_silent = all(connection.silent for connection in self.documents.values())
            return TabState.NOT_RESPONDING if is_silent else TabState.CONNECTED
        if self._away(now) < self._grace:
            return TabState.RELOADING
        return TabState.ASLEEP if self._asleep else TabState.GONE

    def is_over(self, now: float) -> bool:
        """Whether it is to be forgotten, as its page stayed away."""
        return self._away(now) >= self._stays

    def _away(self, now: float) -> float:
        """Seconds since its last document went."""
        self.left_at = min(self.left_at, now)  # the clock may have been set back
        return now - self.left_at

    @property
    def _stays(self) -> float:
        return ASLEEP_SECONDS if self._asleep else GONE_SECONDS

    def next_turn(self, now: float) -> float:
        """When time alone changes its state next, if its page stays away."""
        is_reloading = self.state(now) is TabState.RELOADING
        return self.left_at + (self._grace if is_reloading else self._stays)

    @property
    def _grace(self) -> float:
        """How long it counts as reloading; one put aside is followed at once by the next page,
        or by none."""
        return NEXT_PAGE_SECONDS if self._asleep else RELOAD_SECONDS

    def view(self, number: int | None, now: float) -> TabView:
        """The tab as others see it."""
        attention = self.attention
        return TabView(
            id=self.id,
            number=number,
            state=self.state(now),
            blocked=self.blocked,
            title=self.title,
            url=self.url,
            visible=attention.visible,
            focused=attention.focused,
            active=attention.active,
            pinned=attention.pinned,
            last_focused_at=attention.last_focused_at,
            connected_at=self.connected_at,
            frames=tuple(connection.view() for connection in self.sorted_documents),
            apps=self.apps,
        )


class Registration:
    """The tools one connection declares under one namespace."""

    def __init__(
        self,
        connection: Connection,
        message: Register,
        tools: tuple[ToolDescriptor, ...],
        now: float,
    ) -> None:
        self.connection = connection
        self.ns = message.ns
        self.tools = tools
        self.by_name = {tool.name: tool for tool in tools}
        self.digest = digest(tools)
        self.app = App(message.ns, tuple(self.by_name), self.digest[:8])
        self.hash = message.hash
        self.hint = message.tab
        self.source = message.source
        self.registered_at = now
        self._schemas: dict[str, InputSchema] = {}
        self._help: dict[str, str] = {}

    @property
    def client_id(self) -> str:
        return self.connection.client_id

    @property
    def label(self) -> str:
        return self.connection.tab.label

    @property
    def focus(self) -> Focus:
        return self.connection.focus

    @property
    def key(self) -> tuple[str, str]:
        return self.connection.client_id, self.ns

    @property
    def content(self) -> tuple[str, str]:
        """What makes the tool set another one: not who declares it, nor where it is seen."""
        return self.ns, self.digest

    def schema(self, name: str) -> InputSchema:
        """Input schema of one of the tools, compiled once."""
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = InputSchema(self.by_name[name].input_schema)
        return schema

    def help(self, name: str) -> str:
        """Help text of one of the tools, written once."""
        text = self._help.get(name)
        if text is None:
            description = self.by_name[name].description
            text = self._help[name] = describe(description, self.schema(name))
        return text

    def snapshot(self, *, shadowed: bool) -> PageToolRegistration:
        """The registration as others see it."""
        connection, tab, hint = self.connection, self.connection.tab, self.hint
        return PageToolRegistration(
            client_id=self.client_id,
            ns=self.ns,
            url=connection.url,
            tab=TabRef(
                id=tab.id,
                url=tab.url,
                title=tab.title,
                chrome_tab_id=hint.chrome_tab_id if hint else None,
                window_id=hint.window_id if hint else None,
                target_id=hint.target_id if hint else None,
            ),
            source=self.source.root if self.source else None,
            hash=self.hash,
            digest=self.digest,
            tools=self.tools,
            registered_at=self.registered_at,
            active_tab=connection.active,
            shadowed=shadowed,
        )
