"""Which connections and tabs there are, and which one a person means.

Knows connections and tabs. Does not know tools or messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .active_tabs import ActiveTabs
from .connections import Connection, TabRecord
from .errors import TabNotFoundError
from .views import TabState, TabView

MAX_TABS_IN_ERROR = 200

MAX_LEFT_TABS = 256
"""How many tabs without a page are kept at most, the latest ones."""

_NUMBERED = (TabState.CONNECTED, TabState.NOT_RESPONDING, TabState.RELOADING)
"""Where a tab stands that has a number."""


class TabIndex:
    """Connections and tabs, found by whatever a person calls them.

    Args:
        now: Clock, in seconds since the epoch.
        touched: Is told of every change, with the tab that changed; None stands for any.

    Attributes:
        connections: Every connection, by ``client_id``.
        tabs: Every tab, by id, also one whose page is away.
        active_tabs: Which of them are in front of their windows.
    """

    def __init__(
        self, now: Callable[[], float], touched: Callable[[TabRecord | None], None]
    ) -> None:
        self.connections: dict[str, Connection] = {}
        self.tabs: dict[str, TabRecord] = {}
        self.active_tabs = ActiveTabs()
        self._now = now
        self._touched = touched
        self._left: dict[str, TabRecord] = {}
        self._pinned: tuple[str, str] | None = None

    # Changing

    def is_reserved(self, tab_id: str, connection: Connection) -> bool:
        """Whether this is the identifier of another connection, by which it is called: no page
        may take it for its tab."""
        other = self.connections.get(tab_id)
        if other is None or other is connection:
            return False
        return not other.admitted or other.tab.id != tab_id

    def add(self, connection: Connection) -> None:
        """Take in a connection; until it says otherwise it is a tab of its own."""
        self.connections[connection.client_id] = connection
        self.tabs[connection.tab.id] = connection.tab
        self._touched(connection.tab)

    def remove(self, client_id: str) -> Connection | None:
        """Forget a connection and what it reported; None if it is not there."""
        connection = self.connections.pop(client_id, None)
        if connection is None:
            return None
        connection.gone = True
        tab = connection.tab
        tab.leave(connection, self._now())
        if not tab.documents:
            if connection.admitted:
                self._keep(tab)
            else:
                del self.tabs[tab.id]
        if self.active_tabs.forget(client_id):
            self._touched(None)
        self._touched(tab)
        return connection

    def _keep(self, tab: TabRecord) -> None:
        self._left[tab.id] = tab
        if len(self._left) > MAX_LEFT_TABS:
            self._drop(next(iter(self._left)))

    def _drop(self, tab_id: str) -> None:
        del self.tabs[tab_id]
        self._touched(self._left.pop(tab_id))

    def move(self, connection: Connection, tab_id: str) -> None:
        """Put a connection under another tab."""
        before, now = connection.tab, self._now()
        if before.id != tab_id:
            before.leave(connection, now)
            if not before.documents:
                del self.tabs[before.id]
            tab = self.tabs.get(tab_id)
            if tab is None:
                tab = self.tabs[tab_id] = TabRecord(tab_id, before.order, now)
                tab.pinned = self.pinned == tab_id
            self._left.pop(tab_id, None)
            tab.join(connection)
            self._touched(before)
        self._touched(connection.tab)

    def age(self) -> float | None:
        """Drop the tabs that left long ago.

        Returns:
            When time alone changes a tab's state next; None if it changes none.
        """
        now = self._now()
        for tab in self.away():
            if tab.is_over(now):
                self._drop(tab.id)
        return min((tab.next_turn(now) for tab in self.away()), default=None)

    def away(self) -> list[TabRecord]:
        """The tabs whose page is away."""
        return list(self._left.values())

    def clear(self) -> None:
        """Forget every tab, and which one was pinned."""
        self._left.clear()
        self.tabs.clear()
        self._pinned = None
        self._touched(None)

    # Pinning

    @property
    def pinned(self) -> str | None:
        """Identifier of the tab that was pinned, whether it is there or not."""
        return None if self._pinned is None else self._pinned[0]

    def pin(self, selector: object) -> None:
        """Have one tab answer before all others; None ends that.

        Raises:
            TabNotFoundError: If it is not there.
        """
        tab = None if selector is None else self.find(selector)
        before = self.tabs.get(self.pinned or "")
        if before is not None:
            before.pinned = False
        self._pinned = None
        if tab is not None:
            tab.pinned = True
            self._pinned = tab.id, tab.label
        self._touched(None)

    def require_pinned(self) -> None:
        """Refuse to go on while the pinned tab is away: no other is to answer in its place.

        Raises:
            TabNotFoundError: If it is.
        """
        if self._pinned is not None:
            tab_id, label = self._pinned
            tab = self.tabs.get(tab_id)
            if tab is None or not tab.documents:
                state = TabState.GONE if tab is None else tab.state(self._now())
                raise self._not_found(label, state, pinned=True)

    # Finding

    def find(self, selector: object) -> TabRecord:
        """The tab that is meant, the best placed of several; its page may be away.

        Args:
            selector: Its id, that of a connection, title, URL or start of its URL, its number,
                or anything with an ``id``.

        Raises:
            TabNotFoundError: If there is none.
        """
        found = self._matching(selector)
        if not found:
            raise self._not_found(selector)
        return max(found, key=lambda tab: (bool(tab.documents), tab.attention, tab.order))

    def documents(self, selector: object, client_id: str | None) -> dict[str, Connection]:
        """The connections that are meant.

        Args:
            selector: As for `find`; all tabs that fit; None for any.
            client_id: Only this connection, or those of the tab with this id; None for any.

        Raises:
            TabNotFoundError: If there is none, or its page is away.
        """
        scope = self.connections
        if selector is not None:
            tabs = self._matching(selector)
            scope = {key: c for tab in tabs for key, c in tab.documents.items()}
            if not scope:
                raise self._not_found(*self._describe(tabs, selector))
        if client_id is not None:
            found = self.tabs.get(client_id)
            members = found.documents if found else {client_id: None}
            named = {key: scope[key] for key in members if key in scope}
            if not named:
                raise self._not_found(*self._describe([found] if found else [], client_id))
            scope = named
        return scope

    def _describe(self, tabs: list[TabRecord], selector: object) -> tuple[object, TabState | None]:
        """What was asked for, and where it stands if it is known and away."""
        away = [tab for tab in tabs if not tab.documents]
        return (away[0].label, away[0].state(self._now())) if away else (selector, None)

    def _matching(self, selector: object) -> list[TabRecord]:
        if isinstance(selector, int) and not isinstance(selector, bool):
            tabs = self.numbered()
            return [tabs[selector]] if -len(tabs) <= selector < len(tabs) else []
        if isinstance(selector, str):
            found = self._matching_text(selector)
            if not found and selector.isdecimal():
                return self._matching(int(selector))  # as it is typed after --tab
            return found
        tab = self.tabs.get(getattr(selector, "id", ""))
        return [tab] if tab else []

    def _matching_text(self, text: str) -> list[TabRecord]:
        if text in self.tabs:
            return [self.tabs[text]]
        if text in self.connections:
            return [self.connections[text].tab]
        if not text:
            return []
        here, away = list(self.connections.values()), self.away()
        found = (
            [c.tab for c in here if text in (c.title, c.url)]
            or [c.tab for c in here if c.url.startswith(text)]
            or [tab for tab in away if text in (tab.title, tab.url)]
        )
        return list({tab.id: tab for tab in found}.values())

    def _not_found(
        self, selector: object, state: TabState | None = None, *, pinned: bool = False
    ) -> TabNotFoundError:
        alive = [tab for tab in self.in_order() if tab.documents]
        live = {tab.id: tab.label for tab in alive[:MAX_TABS_IN_ERROR]}
        words = state.value if state else ""
        return TabNotFoundError(selector, live, total=len(alive), state=words, pinned=pinned)

    # Listing

    def in_order(self) -> list[TabRecord]:
        """Every tab, also one whose page is away, in the order in which they first came."""
        return sorted(self.tabs.values(), key=lambda tab: tab.order)

    def numbered(self) -> list[TabRecord]:
        """The tabs that have a number, which is their place here."""
        now = self._now()
        return [tab for tab in self.in_order() if tab.state(now) in _NUMBERED]

    def views(self) -> list[TabView]:
        """Snapshot of every tab, in order."""
        now, number, views = self._now(), 0, []
        for tab in self.in_order():
            is_numbered = tab.state(now) in _NUMBERED
            views.append(tab.view(number if is_numbered else None, now))
            number += is_numbered
        return views

    def view(self, tab: TabRecord) -> TabView:
        """Snapshot of one tab."""
        numbered = self.numbered()
        return tab.view(numbered.index(tab) if tab in numbered else None, self._now())

    def glance(self, tab_ids: Iterable[str]) -> list[TabView]:
        """Snapshot of some tabs, without their numbers, for which all would be looked at."""
        now = self._now()
        return [self.tabs[key].view(None, now) for key in tab_ids if key in self.tabs]

    def clients_of(self, selector: object) -> frozenset[str]:
        """Identifiers of the connections of the tabs that fit; empty if there is none."""
        return frozenset(key for tab in self._matching(selector) for key in tab.documents)
