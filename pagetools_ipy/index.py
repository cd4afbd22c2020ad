"""Where everything is: connections by tab, tools by name, and who would answer a call.

Knows connections and registrations. Does not know messages or calls.

Tools are indexed by name and answers are remembered until something changes, so that a call
costs the same however many pages are connected. Only `ToolIndex.list` and `ToolIndex.tabs`
walk over everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from .connections import ActiveTabs, Connection, PageToolRegistration, Registration, TabView
from .errors import InvalidArgumentsError, NoPageConnectedError, TabNotFoundError, ToolNotFoundError
from .messages import ToolDescriptor
from .routing import Choice, best_by_namespace, choose
from .schema import InputSchema
from .text import brief, shorten

MAX_NAMES_IN_ERROR = 200

Registrations = list[PageToolRegistration]
Tabs = list[TabView]


class Route(NamedTuple):
    """Who would answer a call to one of its tools.

    Attributes:
        choice: The registration, and why it.
        name: The tool's name within it.
    """

    choice: Choice[Registration]
    name: str

    @property
    def registration(self) -> Registration:
        return self.choice.candidate

    @property
    def tool(self) -> ToolDescriptor:
        """The tool as its page declares it."""
        return self.registration.by_name[self.name]

    @property
    def schema(self) -> InputSchema:
        """The tool's input schema, compiled once."""
        return self.registration.schema(self.name)

    @property
    def help(self) -> str:
        """Help text of the tool."""
        return self.registration.help(self.name)


class ToolIndex:
    """Connections and their tools, found by id, by tab and by tool name."""

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.active_tabs = ActiveTabs()
        self._by_tab: dict[str, dict[str, Connection]] = {}
        self._by_name: dict[str, dict[tuple[str, str], Registration]] = {}
        self._routes: dict[tuple[str, str | None], Choice[Registration]] = {}
        self._listed: Registrations | None = None

    # Changing

    def add(self, connection: Connection) -> None:
        """Take in a connection; until it says otherwise it is a tab of its own."""
        self.connections[connection.client_id] = connection
        self.move_to_tab(connection, connection.tab_id)

    def remove(self, client_id: str) -> Connection | None:
        """Forget a connection with its tools and what it reported; None if it is not there."""
        connection = self.connections.pop(client_id, None)
        if connection is None:
            return None
        connection.gone = True
        self._leave_tab(connection)
        for registration in connection.registrations.values():
            self._unindex(registration)
        self.active_tabs.forget(client_id)
        self.touch()
        return connection

    def move_to_tab(self, connection: Connection, tab_id: str) -> None:
        """Put a connection under another tab."""
        self._leave_tab(connection)
        connection.tab_id = tab_id
        self._by_tab.setdefault(tab_id, {})[connection.client_id] = connection
        self.touch()

    def in_tab(self, tab_id: str) -> tuple[Connection, ...]:
        """Connections of one tab."""
        return tuple(self._by_tab.get(tab_id, {}).values())

    def declare(
        self, connection: Connection, ns: str, new: Registration | None
    ) -> Registration | None:
        """Replace what ``connection`` declares under ``ns``; None withdraws it.

        Returns:
            What it declared there before.
        """
        old = connection.registrations.pop(ns, None)
        if old is not None:
            self._unindex(old)
        if new is not None:
            connection.registrations[ns] = new
            for name in new.by_name:
                self._by_name.setdefault(name, {})[new.key] = new
        self.touch()
        return old

    def touch(self) -> None:
        """Forget what was derived; to be called after any change of focus or activity."""
        self._routes.clear()
        self._listed = None

    def _leave_tab(self, connection: Connection) -> None:
        members = self._by_tab.get(connection.tab_id, {})
        members.pop(connection.client_id, None)
        if not members:
            self._by_tab.pop(connection.tab_id, None)

    def _unindex(self, registration: Registration) -> None:
        for name in registration.by_name:
            holders = self._by_name[name]
            del holders[registration.key]
            if not holders:
                del self._by_name[name]

    # Finding

    def route(
        self,
        name: str,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
    ) -> Route:
        """Find who would answer a call.

        Args:
            name: Name of the tool, or ``ns/name``.
            ns: Only this namespace.
            client_id: Only this connection.
            tab: Only this tab: its id, title, URL or start of its URL, its number in `tabs`,
                or anything with an ``id``.

        Raises:
            NoPageConnectedError: If no page is connected.
            TabNotFoundError: If ``client_id`` or ``tab`` is not there.
            ToolNotFoundError: If nobody there has the tool.
            AmbiguousToolError: If several different tools have the name.
        """
        for path, text in (("name", name), ("ns", ns or ""), ("client_id", client_id or "")):
            if not isinstance(text, str):
                raise InvalidArgumentsError(f"expected a string, got {brief(text)}", path=path)
        if not self.connections:
            raise NoPageConnectedError
        if client_id is not None or tab is not None:
            return self._route_within(name, ns, client_id, tab)
        ns, name = _qualified(name, ns, self._is_offered)
        choice = self._routes.get((name, ns))
        if choice is None:
            holders = self._by_name.get(name, {}).values()
            choice = self._routes[name, ns] = _choose(name, ns, holders, self._by_name, "")
        return Route(choice, name)

    def _is_offered(self, name: str, ns: str | None) -> bool:
        holders = self._by_name.get(name, {})
        return bool(holders) if ns is None else any(holder == ns for _, holder in holders)

    def _route_within(self, name: str, ns: str | None, client_id: str | None, tab: object) -> Route:
        scope, where = list(self.connections.values()), ""
        if tab is not None:
            scope = self._find_tab(tab)
            where = f'in tab "{shorten(scope[0].label)}"'
        if client_id is not None:
            scope = [c for c in scope if c.client_id == client_id]
            where = f"in client {shorten(client_id)}"
            if not scope:
                live = {c.client_id: c.label for c in self.connections.values()}
                raise TabNotFoundError(client_id, live)
        registrations = [r for c in scope for r in c.registrations.values()]

        def is_offered(name: str, ns: str | None) -> bool:
            return any(name in r.by_name and ns in (None, r.ns) for r in registrations)

        ns, name = _qualified(name, ns, is_offered)
        holders = [r for r in registrations if name in r.by_name]
        names = dict.fromkeys(n for r in registrations for n in r.by_name)
        return Route(_choose(name, ns, holders, names, where), name)

    def clients_of(self, tab: object) -> frozenset[str]:
        """Identifiers of the connections of one tab; empty if it is gone."""
        try:
            return frozenset(c.client_id for c in self._find_tab(tab))
        except TabNotFoundError:
            return frozenset()

    def _find_tab(self, selector: object) -> list[Connection]:
        found: Iterable[Connection] = ()
        if isinstance(selector, int) and not isinstance(selector, bool):
            tabs = self._in_order()
            if -len(tabs) <= selector < len(tabs):
                found = self.in_tab(tabs[selector])
        elif isinstance(selector, str):
            found = self.in_tab(selector) or self._find_text(selector)
            if not found and selector.isdecimal():
                return self._find_tab(int(selector))  # as it is typed after --tab
        elif isinstance(tab_id := getattr(selector, "id", None), str):
            found = self.in_tab(tab_id)
        if not found:
            raise TabNotFoundError(selector, {tab.id: tab.label for tab in self.tabs()})
        return list(found)

    def _find_text(self, text: str) -> list[Connection]:
        if text in self.connections:
            return [self.connections[text]]
        everyone = self.connections.values()
        exact = [c for c in everyone if text and text in (c.title, c.url)]
        found = exact or [c for c in everyone if text and c.url.startswith(text)]
        # A tab is all its frames, whichever of them was named.
        return [c for tab_id in dict.fromkeys(c.tab_id for c in found) for c in self.in_tab(tab_id)]

    def _in_order(self) -> Sequence[str]:
        """Identifiers of the tabs, in the order in which their documents connected."""
        first = {
            tab: min(c.order for c in members.values()) for tab, members in self._by_tab.items()
        }
        return sorted(first, key=first.__getitem__)

    # Listing

    def registrations(self) -> list[Registration]:
        """What is declared now, in the order of connecting and declaring."""
        return [r for c in self.connections.values() for r in c.registrations.values()]

    def list(self) -> Registrations:
        """Snapshot of every registration: those in an active tab first, else in order."""
        if self._listed is None:
            everything = self.registrations()
            best = best_by_namespace(everything)
            rows = [r.snapshot(shadowed=best[r.ns] is not r) for r in everything]
            rows.sort(key=lambda row: not row.active_tab)
            self._listed = rows
        return self._listed.copy()

    def tabs(self) -> Tabs:
        """Snapshot of every tab, in the order in which they came, with its frames."""
        return [TabView.of(tab_id, self.in_tab(tab_id)) for tab_id in self._in_order()]


def _qualified(
    name: str, ns: str | None, is_offered: Callable[[str, str | None], bool]
) -> tuple[str | None, str]:
    """Read ``ns/name``; either part may itself hold slashes, so what is offered decides."""
    if ns is None and "/" in name and not is_offered(name, None):
        parts = name.split("/")
        for cut in range(1, len(parts)):
            head, rest = "/".join(parts[:cut]), "/".join(parts[cut:])
            if is_offered(rest, head):
                return head, rest
    return ns, name


def _choose(
    name: str,
    ns: str | None,
    holders: Iterable[Registration],
    names: Collection[str],
    where: str,
) -> Choice[Registration]:
    holders = list(holders)
    candidates = [holder for holder in holders if ns is None or holder.ns == ns]
    if candidates:
        return choose(name, candidates)
    if ns is not None:
        where = f'in namespace "{shorten(ns)}" {where}'.rstrip()
        names = [f"{holder.ns}/{name}" for holder in holders] or names
    known = tuple(itertools.islice(names, MAX_NAMES_IN_ERROR))
    raise ToolNotFoundError(name, known, total=len(names), scope=where)
