"""What is known of each connection, registration and tab, and how it is shown to others.

Knows single connections. Does not know how they compare (`routing`), how they are found, or
what a message does to the whole (`directory`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from .calls import PageCall
from .limits import MAX_TITLE_CHARS, MAX_URL_CHARS
from .messages import Hello, HelloTab, Register, State, ToolDescriptor, digest
from .routing import Focus
from .schema import InputSchema, describe
from .text import clean

MAX_ENDED = 256
"""How many finished calls a connection remembers, to tell late results from stray ones."""


class ActiveTabs:
    """Which tab is in front in each window, as browser-side hosts report it.

    A report lives as long as the connection that made it.
    """

    def __init__(self) -> None:
        self._front: dict[Hashable, tuple[Hashable, str]] = {}
        self._window_of: dict[Hashable, Hashable] = {}

    def __contains__(self, tab: Hashable) -> bool:
        return tab in self._window_of

    def activate(self, tab: Hashable, window: Hashable, reporter: str) -> None:
        """Note that ``tab`` came to the front of ``window``; it leaves any other window."""
        self.deactivate(tab)
        before = self._front.get(window)
        if before is not None:
            del self._window_of[before[0]]
        self._front[window] = (tab, reporter)
        self._window_of[tab] = window

    def deactivate(self, tab: Hashable) -> None:
        """Note that ``tab`` is not in front. Says nothing of the tab that is, so late news of
        a tab that had been replaced already has no effect."""
        if tab in self._window_of:
            del self._front[self._window_of.pop(tab)]

    def forget(self, reporter: str) -> None:
        """Drop what ``reporter`` said."""
        for tab, who in tuple(self._front.values()):
            if who == reporter:
                self.deactivate(tab)


class Connection:
    """One document's connection: how to reach it, what it declared, what it owes.

    Attributes:
        client_id: Identifier given by the directory.
        tab_id: Identifier of its tab; its own ``client_id`` until the page tells one.
        registrations: Declared namespaces, in the order of declaring.
        pending: Calls that were sent and not answered, by call id.
        ended: Recently finished calls by id; None for an answered one, so that its value is
            not kept alive.
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
        self.tab_id = client_id
        self.send = send
        self.close = close
        self.order = order
        self.connected_at = self.last_synced_at = now
        self.gone = False
        self.hello: Hello | None = None
        self.chrome_tab_id: int | str | None = None
        self.url = ""
        self.title = ""
        self.visible = False
        self.focused = False
        self.last_focused_at = 0.0
        self.last_pong = 0
        self.state_seq = -1
        self.registrations: dict[str, Registration] = {}
        self.pending: dict[str, PageCall] = {}
        self.ended: OrderedDict[str, PageCall | None] = OrderedDict()
        self._active_tabs = active_tabs

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
        """Where it stands when the person's attention decides."""
        return Focus(
            self.active,
            self.focused,
            self.visible,
            self.last_focused_at,
            self.last_synced_at,
            self.order,
        )

    @property
    def label(self) -> str:
        """What a person knows it by: title, else URL, else its identifier."""
        return self.title or self.url or self.client_id

    def look(self, seen: HelloTab | State, now: float) -> None:
        """Note what the page reports of itself."""
        self.url = clean(seen.url, MAX_URL_CHARS)
        self.title = clean(seen.title, MAX_TITLE_CHARS)
        self.visible = seen.visible
        if seen.focused or self.focused:
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
        return self.connection.label

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
        connection, hint = self.connection, self.hint
        return PageToolRegistration(
            client_id=self.client_id,
            ns=self.ns,
            url=connection.url,
            tab=TabRef(
                id=connection.tab_id,
                url=connection.url,
                title=connection.title,
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


@dataclass(frozen=True, slots=True)
class TabRef:
    """The tab a registration comes from.

    Attributes:
        id: Our identifier; the others are the browser's, known when a host in it tells them.
    """

    id: str
    url: str
    title: str
    chrome_tab_id: int | str | None = None
    window_id: int | str | None = None
    target_id: str | None = None


@dataclass(frozen=True, slots=True)
class PageToolRegistration:
    """One namespace of one connection, as it was when it was listed.

    Attributes:
        client_id: Connection that declares it.
        ns: Namespace: one app's name for its tool set.
        url: Where the page is now.
        tab: The tab it is in.
        source: Root of the page's source code, when it says so.
        hash: The page's own hash of the set, only for information.
        digest: Our digest of the set; another one means other tools.
        tools: The tools, in the page's order.
        registered_at: When it was last declared, in seconds since the epoch.
        active_tab: Whether a browser-side host says that its tab is in front.
        shadowed: Whether calls to this namespace go to a better placed tab instead.
    """

    client_id: str
    ns: str
    url: str
    tab: TabRef
    source: str | None
    hash: str | None
    digest: str
    tools: tuple[ToolDescriptor, ...]
    registered_at: float
    active_tab: bool
    shadowed: bool


@dataclass(frozen=True, slots=True)
class PageToolSummary:
    """Counts of connections, namespaces and tools."""

    clients: int
    namespaces: int
    tools: int


@dataclass(frozen=True, slots=True)
class TabView:
    """One tab, as it was when it was listed.

    Attributes:
        id: Identifier of the tab; stays the same when it reloads.
        client_ids: Connections of its documents, the main one first.
        title: Title of its main document.
        url: URL of its main document.
        visible: Whether it can be seen.
        focused: Whether it has the keyboard.
        active: Whether a browser-side host says that it is in front of its window.
        last_focused_at: When it last had the keyboard, in seconds since the epoch, or 0.
        connected_at: When it connected, in the same unit.
        namespaces: Declared namespaces.
        tools: Declared tools, as ``ns/name``.
    """

    id: str
    client_ids: tuple[str, ...]
    title: str
    url: str
    visible: bool
    focused: bool
    active: bool
    last_focused_at: float
    connected_at: float
    namespaces: tuple[str, ...]
    tools: tuple[str, ...]

    @property
    def label(self) -> str:
        """What a person knows it by: title, else URL, else its identifier."""
        return self.title or self.url or self.id

    @classmethod
    def of(cls, tab_id: str, connections: Iterable[Connection]) -> TabView:
        """View of the tab that these connections are the documents of."""
        documents = sorted(connections, key=lambda c: (not c.is_top, c.order))
        main = documents[0]
        registrations = [r for c in documents for r in c.registrations.values()]
        return cls(
            id=tab_id,
            client_ids=tuple(c.client_id for c in documents),
            title=main.title,
            url=main.url,
            visible=any(c.visible for c in documents),
            focused=any(c.focused for c in documents),
            active=any(c.active for c in documents),
            last_focused_at=max(c.last_focused_at for c in documents),
            connected_at=min(c.connected_at for c in documents),
            namespaces=tuple(dict.fromkeys(r.ns for r in registrations)),
            tools=tuple(dict.fromkeys(f"{r.ns}/{t.name}" for r in registrations for t in r.tools)),
        )


def format_page_tools_changed(registrations: Iterable[PageToolRegistration]) -> str:
    """Say in one line which tools there are now, and which tab is active.

    Args:
        registrations: What `PageToolDirectory.list` gives.
    """
    rows = list(registrations)
    names = dict.fromkeys(f"{row.ns}/{tool.name}" for row in rows for tool in row.tools)
    if not names:
        return "page tools changed: none registered"
    active = next((row.tab for row in rows if row.active_tab), None)
    where = f" (active tab: {_one_line(active.title or active.url)})" if active else ""
    return f"page tools changed: {', '.join(names)}{where}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
