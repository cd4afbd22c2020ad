"""What others see of registrations and tabs: snapshots, in plain frozen data.

Knows what is shown. Does not know how it came about.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .messages import ToolDescriptor


class TabState(enum.Enum):
    """Where a tab stands."""

    CONNECTED = "connected"  # its page is there
    RELOADING = "reloading"  # its page has just left; most often it comes back
    NOT_RESPONDING = "not responding"  # connected, but its page does not answer
    ASLEEP = "asleep"  # its page was frozen, or lies in the back/forward cache
    GONE = "gone"  # its page left and did not come back


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
    """Counts of connections, tabs, namespaces and tools."""

    clients: int
    tabs: int
    namespaces: int
    tools: int


class App(NamedTuple):
    """A namespace with the names of its tools, and a digest of all that is declared of them."""

    ns: str
    tools: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class FrameView:
    """One document of a tab: the page itself, or a frame in it.

    Attributes:
        client_id: Its connection.
        top: Whether it is the page itself.
        namespaces: What it declares.
        webmcp: Whose WebMCP it has: ``native``, ``polyfill``, ``own`` (ours) or ``none``; empty
            when it did not say.
        has_greeted: Whether it has said what it is.
    """

    client_id: str
    url: str
    title: str
    top: bool
    visible: bool
    focused: bool
    namespaces: tuple[str, ...]
    webmcp: str = ""
    has_greeted: bool = True


@dataclass(frozen=True, slots=True)
class TabView:
    """One tab, as it was when it was listed.

    Attributes:
        id: Identifier of the tab; stays the same when it reloads.
        number: Its place among the tabs that can be addressed; None when it cannot be.
        state: Where it stands, a `TabState`.
        blocked: Why its page cannot answer now, where that is known; else empty.
        title, url: What its page says of itself, or said last.
        visible, focused: What the person sees of it.
        active: Whether a browser-side host says that it is in front of its window.
        pinned: Whether it was pinned: it answers before all others.
        last_focused_at: When it last had the keyboard, in seconds since the epoch; 0 for never.
        connected_at: When it first connected, in the same unit.
        frames: Its documents, the page itself first; none while it is away.
        apps: What it declares, or declared last.
    """

    id: str
    number: int | None
    state: TabState
    blocked: str
    title: str
    url: str
    visible: bool
    focused: bool
    active: bool
    pinned: bool
    last_focused_at: float
    connected_at: float
    frames: tuple[FrameView, ...]
    apps: tuple[App, ...]

    @property
    def is_known(self) -> bool:
        """Whether it has said anything of itself yet."""
        return not self.frames or any(f.has_greeted or f.namespaces for f in self.frames)

    @property
    def label(self) -> str:
        """What a person knows it by: title, else URL, else its identifier."""
        return self.title or self.url or self.id

    @property
    def standing(self) -> str:
        """Where it stands: its state, with the reason where it is known, or how it is seen."""
        if self.state is not TabState.CONNECTED:
            return f"{self.state.value}: {self.blocked}" if self.blocked else self.state.value
        return "focused" if self.focused else "visible" if self.visible else "hidden"

    @property
    def attention(self) -> tuple[bool, bool, bool, float, int]:
        """What ranks it among others: where the person looks, or looked last."""
        seen = self.active, self.focused, self.visible, self.last_focused_at
        return (*seen, -1 if self.number is None else self.number)

    @property
    def client_ids(self) -> tuple[str, ...]:
        """Connections of its documents, the page itself first."""
        return tuple(frame.client_id for frame in self.frames)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """What its apps call themselves."""
        return tuple(app.ns for app in self.apps)

    @property
    def tools(self) -> tuple[str, ...]:
        """Its tools, as ``ns/name``."""
        return tuple(f"{app.ns}/{name}" for app in self.apps for name in app.tools)

    def as_client(self) -> dict[str, Any]:
        """The tab as `list_clients` gives it, in plain JSON."""
        return {
            "id": self.id,
            "url": self.url,
            "title": self.title,
            "visible": self.visible,
            "focused": self.focused,
            "connectedAt": int(self.connected_at * 1000),
            "tools": list(self.tools),
        }


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
