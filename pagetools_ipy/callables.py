"""Page tools as Python callables: ``tools.add_todo(title="milk")``.

Knows the bridge and what a caller narrowed. Does not know notebooks: what makes completion,
help and signatures work here are plain Python protocols.

Looking is free: attributes, ``dir()``, signatures and help read what the bridge knows already
and send nothing.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from . import bridge as _bridge
from .bridge import Bridge
from .calls import PageCall
from .directory import PageToolDirectory
from .errors import BridgeError, InvalidArgumentsError, NoPageConnectedError, ToolNotFoundError
from .index import Route
from .limits import check_timeout
from .messages import ToolDescriptor
from .results import from_page
from .schema import InputSchema
from .tables import tools_html
from .text import brief, shorten, stopped_in_one_line
from .views import PageToolRegistration

DEFAULT_TIMEOUT = 15.0
"""Seconds a call may take unless told otherwise."""

_NEVER_TOOLS = frozenset({"getdoc", "mro"})
"""Names that IPython and inspect call on objects they look at; only ``tools["getdoc"]`` gives
a tool of such a name, so that looking never runs one."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller narrowed down, and how calls are to be made there.

    Attributes:
        ns: Only this namespace.
        tab: Only this tab: id, title, URL or its start, number, or anything with an ``id``.
        client_id: Only this connection, or the tab with this id.
        strict: Whether one app in several tabs is ambiguous; None leaves it to the policy.
        timeout: Seconds a call may take; None for ever.
        validate: Whether arguments are held to the tool's schema before they are sent.
    """

    ns: str | None = None
    tab: object = None
    client_id: str | None = None
    strict: bool | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    validate: bool = True

    def route(self, directory: PageToolDirectory, name: str) -> Route:
        return directory.route(
            name, ns=self.ns, client_id=self.client_id, tab=self.tab, strict=self.strict
        )

    def rows(self, directory: PageToolDirectory) -> list[PageToolRegistration]:
        """The registrations that lie in the scope."""
        clients = None if self.tab is None else directory.clients_of(self.tab)
        return [
            row
            for row in directory.list()
            if self.ns in (None, row.ns)
            and self.client_id in (None, row.client_id, row.tab.id)
            and (clients is None or row.client_id in clients)
        ]


class _Unset:
    def __repr__(self) -> str:
        return "<unchanged>"


UNSET = _Unset()


class PageTool:
    """One tool of a page, called like a function.

    ``tool(title="milk")`` checks the arguments, sends the call and returns a `PageCall` to
    await. Which tab answers is decided anew at each call. A keyword ``timeout`` sets the
    seconds granted to this call, unless the tool itself takes an argument of that name; `on`
    always does.

    Attributes:
        name: The tool's name, as it was asked for.
        full_name: The same as ``ns/name``.
        description: The page's own words about it.
        input_schema: JSON Schema of its arguments, or None.
        schema: The same, compiled.
    """

    def __init__(
        self, source: Callable[[], Bridge], scope: Scope, name: str, route: Route | None
    ) -> None:
        self._source = source
        self._scope = scope
        self.name = self.__name__ = name
        self.full_name = f"{route.registration.ns}/{route.name}" if route else name
        self.description = route.tool.description if route else ""
        self.input_schema = route.tool.input_schema if route else None
        self.schema = route.schema if route else InputSchema(None)
        if route is not None:
            self.__signature__ = route.schema.signature
            self.__doc__ = route.help

    def on(
        self,
        tab: object = UNSET,
        *,
        ns: str | None | _Unset = UNSET,
        client_id: str | None | _Unset = UNSET,
        strict: bool | None | _Unset = UNSET,
        timeout: float | None | _Unset = UNSET,
        validate: bool | _Unset = UNSET,
    ) -> PageTool:
        """The same tool, narrowed down as `Tools.on` does."""
        scope = _narrowed(
            self._scope,
            tab=tab,
            ns=ns,
            client_id=client_id,
            strict=strict,
            timeout=timeout,
            validate=validate,
        )
        return PageTool(self._source, scope, self.name, _peek(self._source, scope, self.name))

    def __call__(self, /, **arguments: Any) -> PageCall:
        running, scope = self._source(), self._scope

        def start() -> PageCall:
            route, timeout = scope.route(running.directory, self.name), scope.timeout
            if "timeout" in arguments and "timeout" not in route.schema.properties:
                timeout = arguments.pop("timeout")
            return running.directory.start(
                route, arguments, timeout=timeout, decode=from_page, validate=scope.validate
            )

        return running.host.run(start)

    def __getattr__(self, name: str) -> Any:
        """A tool of the namespace that has the same name as this tool, if there is one."""
        if not name.startswith("_") and name not in _NEVER_TOOLS:
            namesake = Tools(self._source, replace(self._scope, ns=self.name))
            if namesake.registrations():
                return getattr(namesake, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        signature = getattr(self, "__signature__", "(...)")
        about = shorten(" ".join(self.description.split()), 100)
        return f"<PageTool {self.name}{signature}{': ' + about if about else ''}>"


class Tools:
    """The tools of connected pages, as attributes and items.

    ``tools.add_todo(title="milk")`` calls one; ``tools["odd-name"]`` takes any name, also as
    ``ns/name``; ``tools.todo.add_todo`` goes by namespace; ``tools.on(tab)`` narrows down.

    Args:
        source: Gives the running bridge.
        scope: What has been narrowed down already.
    """

    def __init__(
        self, source: Callable[[], Bridge] = _bridge.current, scope: Scope | None = None
    ) -> None:
        self._source = source
        self._scope = scope or Scope()

    def on(
        self,
        tab: object = UNSET,
        *,
        ns: str | None | _Unset = UNSET,
        client_id: str | None | _Unset = UNSET,
        strict: bool | None | _Unset = UNSET,
        timeout: float | None | _Unset = UNSET,
        validate: bool | _Unset = UNSET,
    ) -> Tools:
        """The tools of a part of what is connected, or called in another manner.

        What is not given stays as it is.

        Args:
            tab: Only this tab: a `Tab`, its id, title, URL or start of its URL, its number, or
                a connection's id. A call to a tab that is gone is
                an error; it never goes to another one.
            ns: Only this namespace.
            client_id: Only this connection, or the tab with this id.
            strict: Whether one app in several tabs is ambiguous; None leaves it to the policy.
            timeout: Seconds a call may take, 15 unless told otherwise; None for ever.
            validate: Whether arguments are held to the tool's schema before they are sent.

        Raises:
            InvalidArgumentsError: If ``timeout`` is no positive number and not None.
        """
        scope = _narrowed(
            self._scope,
            tab=tab,
            ns=ns,
            client_id=client_id,
            strict=strict,
            timeout=timeout,
            validate=validate,
        )
        return Tools(self._source, scope)

    async def wait_for(self, name: str, *, timeout: float | None = 30.0) -> PageTool:
        """Wait until a page offers a tool, and return it.

        Cancelling has no effect but to stop waiting.

        Args:
            name: Name of the tool, or ``ns/name``.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            ToolWaitTimeoutError: If it did not come in time.
            BridgeError: If the bridge is not running.
        """
        running, scope = self._source(), self._scope
        waiting = running.directory.wait_for(
            name,
            ns=scope.ns,
            client_id=scope.client_id,
            tab=scope.tab,
            strict=scope.strict,
            timeout=timeout,
        )
        with stopped_in_one_line(f'"{shorten(name)}" is not waited for any more'):
            route = await running.host.relay(waiting)
        return PageTool(self._source, scope, name, route)

    # Looking

    def __getattr__(self, name: str) -> Any:
        # IPython and Jedi probe many names; underscores are theirs, never a page's.
        if name.startswith("_") or name in _NEVER_TOOLS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return self[name]
        except ToolNotFoundError as problem:
            found = self._by_alias(name)
            if found is None:
                raise problem from None
            return found

    def __getitem__(self, name: str) -> PageTool:
        return PageTool(self._source, self._scope, name, _peek(self._source, self._scope, name))

    def _by_alias(self, name: str) -> PageTool | Tools | None:
        """A tool whose name only becomes an identifier, or a namespace."""
        rows = self.registrations()
        for row in rows:
            for tool in row.tools:
                if _alias(tool.name) == name:
                    return self[tool.name]
        for row in rows:
            if self._scope.ns is None and _alias(row.ns) == name:
                return self.on(ns=row.ns)
        return None

    def registrations(self) -> list[PageToolRegistration]:
        """What is declared in scope, active tabs first; nothing where no bridge runs."""
        try:
            running = self._source()
        except BridgeError:
            return []
        return running.host.run(lambda: self._scope.rows(running.directory))

    def _tools(self) -> dict[str, ToolDescriptor]:
        tools: dict[str, ToolDescriptor] = {}
        for row in self.registrations():
            for tool in row.tools:
                tools.setdefault(tool.name, tool)
        return tools

    def __dir__(self) -> list[str]:
        rows = self.registrations()
        names = {_alias(tool.name) for row in rows for tool in row.tools}
        if self._scope.ns is None:
            names |= {_alias(row.ns) for row in rows}
        public = {
            name
            for name in names
            if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
        } - _NEVER_TOOLS
        return sorted({*public, "on", "registrations", "wait_for"})

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._tools())

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools())

    def __len__(self) -> int:
        return len(self._tools())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._tools()

    def __repr__(self) -> str:
        names = list(self._tools())
        if not names:
            return "<Tools: none; `%pagetools status` says what is connected>"
        shown = ", ".join(shorten(name, 40) for name in names[:20])
        return f"<Tools: {shown}{f' and {len(names) - 20} more' if len(names) > 20 else ''}>"

    def _repr_html_(self) -> str:
        return tools_html(self.registrations())


def _narrowed(scope: Scope, **changes: Any) -> Scope:
    given = {key: value for key, value in changes.items() if value is not UNSET}
    if "timeout" in given:
        check_timeout(given["timeout"])
    for key in ("ns", "client_id"):
        if not isinstance(given.get(key, ""), (str, type(None))):
            raise InvalidArgumentsError(f"expected a string, got {brief(given[key])}", path=key)
    return replace(scope, **given)


def _peek(source: Callable[[], Bridge], scope: Scope, name: str) -> Route | None:
    """Who would answer now; None where nobody is there to ask, which only a call minds.

    Raises:
        ToolNotFoundError: If pages are connected and none in the scope has the tool.
        AmbiguousToolError: If several different tools have the name.
        TabNotFoundError: If the tab the scope names is not there.
    """
    try:
        running = source()
        return running.host.run(lambda: scope.route(running.directory, name))
    except (BridgeError, NoPageConnectedError):
        return None


def _alias(name: str) -> str:
    """The name a tool goes by as an attribute, such as ``cart_add`` for ``cart.add``."""
    return "".join(char if f"_{char}".isidentifier() else "_" for char in name)


tools = Tools()
"""The tools of everything that is connected to this process's bridge."""
