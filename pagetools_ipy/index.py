"""Which tools there are, and who would answer a call.

Knows registrations, and tabs as a scope. Does not know messages or calls.

Tools are indexed by name and answers are remembered until something changes, so that a call
costs the same however many pages are connected. Only `ToolIndex.list` walks over everything.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeVar

from .connections import Connection, Registration, TabRecord
from .errors import InvalidArgumentsError, NoPageConnectedError, ToolNotFoundError
from .messages import ToolDescriptor
from .routing import Choice, best_by_namespace, choose
from .schema import InputSchema
from .tab_index import TabIndex
from .text import brief, shorten
from .views import PageToolRegistration

MAX_NAMES_IN_ERROR = 200

Registrations = list[PageToolRegistration]


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
    """Tools of all connections, found by name.

    Args:
        now: Clock, in seconds since the epoch.
        touched: Is told of every change, with the tab that changed; None stands for any.

    Attributes:
        tabs: Connections and tabs.
        strict: Whether one app in several tabs is ambiguous.
    """

    def __init__(
        self, now: Callable[[], float], touched: Callable[[TabRecord | None], None]
    ) -> None:
        self.tabs = TabIndex(now, self.touch)
        self.strict = False
        self._touched = touched
        self._by_name: dict[str, dict[tuple[str, str], Registration]] = {}
        self._by_ns: dict[str, dict[str, Registration]] = {}
        self._routes: dict[tuple[str, str | None, bool], Choice[Registration]] = {}
        self._listed: Registrations | None = None

    # Changing

    def remove(self, client_id: str) -> Connection | None:
        """Forget a connection with its tools; None if it is not there."""
        connection = self.tabs.connections.get(client_id)
        if connection is not None:
            # Before anybody is told: whoever then asks for a route must not get this one.
            for registration in connection.registrations.values():
                self._unindex(registration)
        return self.tabs.remove(client_id)

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
            self._by_ns.setdefault(ns, {})[new.client_id] = new
            for name in new.by_name:
                self._by_name.setdefault(name, {})[new.key] = new
        self.touch(connection.tab)
        return old

    def touch(self, tab: TabRecord | None) -> None:
        """Forget what was derived; to be called after any change, of focus as well.

        Args:
            tab: Whose; None if it may be any.
        """
        self._routes.clear()
        self._listed = None
        for record in self.tabs.tabs.values() if tab is None else (tab,):
            record.forget_attention()
        self._touched(tab)

    def _unindex(self, registration: Registration) -> None:
        _take(self._by_ns, registration.ns, registration.client_id)
        for name in registration.by_name:
            _take(self._by_name, name, registration.key)

    # Finding

    def route(
        self,
        name: str,
        *,
        ns: str | None = None,
        client_id: str | None = None,
        tab: object = None,
        strict: bool | None = None,
    ) -> Route:
        """Find who would answer a call.

        Args:
            name: Name of the tool, or ``ns/name``.
            ns: Only this namespace.
            client_id: Only this connection, or the tab with this id.
            tab: Only this tab; see `TabIndex.find`.
            strict: Whether one app in several tabs is ambiguous; None leaves it to the policy.

        Raises:
            NoPageConnectedError: If no page is connected.
            TabNotFoundError: If ``client_id``, ``tab`` or the pinned tab is not there.
            ToolNotFoundError: If nobody there has the tool.
            AmbiguousToolError: If several different tools have the name.
        """
        for path, text in (("name", name), ("ns", ns or ""), ("client_id", client_id or "")):
            if not isinstance(text, str):
                raise InvalidArgumentsError(f"expected a string, got {brief(text)}", path=path)
        strict = self.strict if strict is None else strict
        is_narrowed = client_id is not None or tab is not None
        if not is_narrowed:
            self.tabs.require_pinned()
        if not self.tabs.connections and not (is_narrowed and self.tabs.away()):
            raise NoPageConnectedError
        if is_narrowed:
            scope = self.tabs.documents(tab, client_id)
            return _route_within(scope, name, ns, strict, _where(scope, client_id))
        ns, name = _qualified(name, ns, self._is_offered)
        choice = self._routes.get((name, ns, strict))
        if choice is None:
            holders = self._by_name.get(name, {}).values()
            choice = _choose(name, ns, holders, self._by_name, "", strict)
            self._routes[name, ns, strict] = choice
        return Route(choice, name)

    def _is_offered(self, name: str, ns: str | None) -> bool:
        holders = self._by_name.get(name, {})
        return bool(holders) if ns is None else any(holder == ns for _, holder in holders)

    # Listing

    def registrations(self) -> list[Registration]:
        """What is declared now, in the order of connecting and declaring."""
        return [r for c in self.tabs.connections.values() for r in c.registrations.values()]

    def list(self) -> Registrations:
        """Snapshot of every registration: those in an active tab first, else in order."""
        if self._listed is None:
            everything = self.registrations()
            best = best_by_namespace(everything)
            rows = [r.snapshot(shadowed=best[r.ns] is not r) for r in everything]
            rows.sort(key=lambda row: not row.active_tab)
            self._listed = rows
        return self._listed.copy()

    def best_of(self, ns: str) -> Registration | None:
        """The registration that stands for a namespace; None if nobody declares it."""
        holders = list(self._by_ns.get(ns, {}).values())
        if not holders:
            return None
        attention = [holder.connection.tab.attention for holder in holders]
        best = max(attention)
        if attention.count(best) == 1:
            return holders[attention.index(best)]
        tied = (h for h, its in zip(holders, attention, strict=True) if its == best)
        return max(tied, key=lambda holder: holder.focus)


K = TypeVar("K")
V = TypeVar("V")


def _take(groups: dict[str, dict[K, V]], group: str, key: K) -> None:
    """Take an item out of its group, and the group away when it was the last."""
    members = groups[group]
    del members[key]
    if not members:
        del groups[group]


def _where(scope: dict[str, Connection], client_id: str | None) -> str:
    if client_id is not None:
        return f"in client {shorten(client_id)}"
    label = next(iter(scope.values())).tab.label
    return f'in tab "{shorten(label)}"'


def _route_within(
    scope: dict[str, Connection], name: str, ns: str | None, strict: bool, where: str
) -> Route:
    registrations = [r for c in scope.values() for r in c.registrations.values()]

    def is_offered(name: str, ns: str | None) -> bool:
        return any(name in r.by_name and ns in (None, r.ns) for r in registrations)

    ns, name = _qualified(name, ns, is_offered)
    holders = [r for r in registrations if name in r.by_name]
    names = dict.fromkeys(n for r in registrations for n in r.by_name)
    return Route(_choose(name, ns, holders, names, where, strict), name)


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
    strict: bool,
) -> Choice[Registration]:
    holders = list(holders)
    candidates = [holder for holder in holders if ns is None or holder.ns == ns]
    if candidates:
        return choose(name, candidates, strict=strict)
    if ns is not None:
        where = f'in namespace "{shorten(ns)}" {where}'.rstrip()
        names = [f"{holder.ns}/{name}" for holder in holders] or names
    known = tuple(itertools.islice(names, MAX_NAMES_IN_ERROR))
    raise ToolNotFoundError(name, known, total=len(names), scope=where)
