"""The browser's tabs as Python objects: ``tabs[0].title``, ``await tabs["Shop"].search(q="tea")``.

Knows the bridge. Does not know notebooks: what makes tables and completion work here are plain
Python protocols.

A `Tab` is a handle: it always tells how its tab is now, and goes on to tell what was known of
it when it is gone. Looking is free and sends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, overload

from . import bridge as _bridge
from .bridge import Bridge
from .callables import Scope, Tools
from .directory import PageToolDirectory
from .errors import BridgeError, TabNotFoundError
from .limits import check_timeout
from .results import Image
from .tables import tabs_html, tabs_text
from .text import count, shorten
from .transports import PageControl
from .views import FrameView, TabState, TabView

T = TypeVar("T")

LISTED_SECONDS = 1.0
"""How long a page may take to declare its tools once it is loaded."""

SETTLE_SECONDS = 0.3
"""How long nothing more may come before what there is counts as all."""


class Tab:
    """One tab of a browser.

    Its tools can be called as its attributes, ``await tab.add_todo(title="milk")``; those whose
    names are taken here by ``tab.tools.title``. A call to a tab that is gone is a
    `TabNotFoundError` and goes to no other one.

    Attributes:
        id: Its identifier; stays the same when it reloads or crashes and when the bridge or
            the kernel is started anew.
    """

    def __init__(self, source: Callable[[], Bridge], view: TabView) -> None:
        self._source = source
        self._seen = view
        self.id = view.id

    def _view(self) -> TabView:
        self._seen = self._ask() or replace(
            self._seen,
            state=TabState.GONE,
            number=None,
            visible=False,
            focused=False,
            active=False,
            frames=(),
        )
        return self._seen

    def _ask(self) -> TabView | None:
        """How it is; None if it is not known any more. Fails where a cell blocks the bridge."""
        try:
            bridge = self._source()
        except BridgeError:
            return None
        try:
            return bridge.host.run(lambda: bridge.directory.tab(self))
        except TabNotFoundError:
            return None

    @property
    def state(self) -> TabState:
        """Where it stands, a `TabState`."""
        return self._view().state

    @property
    def blocked(self) -> str:
        """Why its page cannot answer now, such as the text of a dialog; else empty."""
        return self._view().blocked

    @property
    def title(self) -> str:
        """Title of its page, or the last one it had."""
        return self._view().title

    @property
    def url(self) -> str:
        """Address of its page, or the last one it had."""
        return self._view().url

    @property
    def visible(self) -> bool:
        """Whether it can be seen; it is not while another tab of its window is in front."""
        return self._view().visible

    @property
    def focused(self) -> bool:
        """Whether it has the keyboard."""
        return self._view().focused

    @property
    def active(self) -> bool:
        """Whether a host in the browser says that it is in front of its window."""
        return self._view().active

    @property
    def last_focused_at(self) -> float:
        """When it last had the keyboard, in seconds since the epoch; 0 for never."""
        return self._view().last_focused_at

    @property
    def connected_at(self) -> float:
        """When it first connected, in seconds since the epoch."""
        return self._view().connected_at

    @property
    def pinned(self) -> bool:
        """Whether it answers before all others."""
        return self._view().pinned

    @property
    def client_ids(self) -> tuple[str, ...]:
        """Connections of its documents, the page itself first."""
        return self._view().client_ids

    @property
    def frames(self) -> tuple[FrameView, ...]:
        """Its documents, the page itself first: each with ``client_id url title top``."""
        return self._view().frames

    @property
    def namespaces(self) -> tuple[str, ...]:
        """What the apps in it call themselves."""
        return self._view().namespaces

    @property
    def tools(self) -> Tools:
        """Its tools alone."""
        return Tools(self._source, Scope(tab=self))

    def pin(self) -> None:
        """Have it answer before all others until ``tabs.unpin()``.

        While it is away, calls that name no tab fail and go to no other one.

        Raises:
            TabNotFoundError: If it is gone.
            BridgeError: If the bridge is not running.
        """
        bridge = self._source()
        bridge.host.run(lambda: bridge.directory.pin(self))

    # In a browser that is attached to

    def _control(self) -> PageControl:
        bridge = self._source()
        bridge.host.run(lambda: bridge.directory.tab(self))
        return bridge.browsers.control(self.id)

    async def navigate(self, url: str, *, timeout: float | None = 30.0) -> None:
        """Go to another page and wait until it is loaded. Cancelling ends the wait only.

        Args:
            url: Its address.
            timeout: Seconds to wait; None waits for ever.

        Raises:
            BrowserError: If the tab is not in a browser that is attached to, or the page is not
                loaded.
            TabNotFoundError: If the tab is gone.
            BridgeError: If the bridge is not running.
        """
        await self._control().navigate(url, check_timeout(timeout))
        await self._listed()

    async def reload(self, *, timeout: float | None = 30.0) -> None:
        """Load the page again and wait until it is; otherwise as `navigate`."""
        await self._control().reload(check_timeout(timeout))
        await self._listed()

    async def _listed(self) -> None:
        bridge = self._source()
        await bridge.host.relay(listed(bridge, [self.id]))

    async def screenshot(self, *, full_page: bool = False) -> Image:
        """Take a picture of the page, which shows itself in a notebook.

        A tab that is hidden comes to the front of its window for as long.

        Args:
            full_page: Whether all of it, not only what fits into its window.

        Raises:
            BrowserError: As for `navigate`.
            TabNotFoundError: If the tab is gone.
            BridgeError: If the bridge is not running.
        """
        return await self._control().screenshot(full_page=full_page)

    async def answer_dialog(self, accept: bool = True, text: str | None = None) -> None:
        """Close the dialog (alert, confirm, prompt) that the page shows.

        Args:
            accept: Whether with OK, not with Cancel.
            text: What to type into a prompt.

        Raises:
            BrowserError: If there is no dialog, or as for `navigate`.
            TabNotFoundError: If the tab is gone.
            BridgeError: If the bridge is not running.
        """
        await self._control().answer_dialog(accept, text)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.tools, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.tools)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tab) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        view = self._view()
        number = "" if view.number is None else f" {view.number}"
        tools = count(len(view.tools), "tool")
        url = f" {shorten(view.url, 80)}" if view.title else ""
        return f'<Tab{number} "{shorten(view.label, 60)}"{url}, {view.standing}, {tools}>'

    def _repr_html_(self) -> str:
        return tabs_html([self._view()])


class Tabs:
    """The tabs whose pages are connected, in the order in which they first came.

    ``tabs[0]`` goes by number, ``tabs["Shop"]`` by id, title, URL or the start of it. A tab
    that reloads keeps its place; one that is asleep or gone has none.

    Args:
        source: Gives the running bridge.
    """

    def __init__(self, source: Callable[[], Bridge] = _bridge.current) -> None:
        self._source = source

    def _ask(self, question: Callable[[PageToolDirectory], T]) -> T:
        bridge = self._source()
        return bridge.host.run(lambda: question(bridge.directory))

    def _views(self, *, all: bool = False) -> list[TabView]:
        try:
            self._source()
        except BridgeError:  # not running; one that a cell blocks is another matter
            return []
        views = self._ask(lambda directory: directory.tabs(all=all))
        # A page that is just connecting comes last, and has nothing to show yet.
        return [view for view in views if view.is_known]

    def _tab(self, view: TabView) -> Tab:
        return Tab(self._source, view)

    def __len__(self) -> int:
        return len(self._views())

    def __iter__(self) -> Iterator[Tab]:
        return iter([self._tab(view) for view in self._views()])

    @overload
    def __getitem__(self, selector: slice) -> list[Tab]: ...
    @overload
    def __getitem__(self, selector: int | str | Tab) -> Tab: ...
    def __getitem__(self, selector: object) -> Tab | list[Tab]:
        """The tab that is meant, or those of a slice.

        Raises:
            TabNotFoundError: If there is none; also a LookupError.
            BridgeError: If the bridge is not running.
        """
        if isinstance(selector, slice):
            return list(self)[selector]
        return self._tab(self._ask(lambda directory: directory.tab(selector)))

    def __contains__(self, selector: object) -> bool:
        try:
            self._source()
        except BridgeError:
            return False
        try:
            return self._ask(lambda directory: directory.tab(selector)).number is not None
        except TabNotFoundError:
            return False

    @property
    def focused(self) -> Tab | None:
        """The tab that has the keyboard; None if none of them has it."""
        focused = [view for view in self._views() if view.focused]
        return self._tab(max(focused, key=lambda view: view.last_focused_at)) if focused else None

    @property
    def last(self) -> Tab | None:
        """The tab the person looks at, or looked at last; None if none is connected."""
        views = [view for view in self._views() if view.frames]
        return self._tab(max(views, key=lambda view: view.attention)) if views else None

    @property
    def pinned(self) -> Tab | None:
        """The tab that was pinned; None if none was, or it is not known any more."""
        pinned = [view for view in self._views(all=True) if view.pinned]
        return self._tab(pinned[0]) if pinned else None

    def unpin(self) -> None:
        """Let where the person looks decide again.

        Raises:
            BridgeError: If the bridge is not running.
        """
        self._ask(lambda directory: directory.pin(None))

    def _ipython_key_completions_(self) -> list[str]:
        return [view.label for view in self._views()]

    def __repr__(self) -> str:
        return tabs_text(self._views(all=True))

    def _repr_html_(self) -> str:
        return tabs_html(self._views(all=True))


async def listed(bridge: Bridge, tab_ids: Iterable[str], seconds: float = LISTED_SECONDS) -> None:
    """Return when some tabs whose pages have just come have tools, or none in time.

    To be awaited on the bridge's loop.
    """
    tab_ids, changed = list(tab_ids), asyncio.Event()
    end = bridge.directory.watch(lambda _: changed.set())
    try:
        async with asyncio.timeout(seconds):
            while not all(view.tools for view in bridge.directory.glance(tab_ids)):
                changed.clear()
                await changed.wait()
            changed.set()
            while changed.is_set():  # what comes first is seldom all
                changed.clear()
                await asyncio.sleep(SETTLE_SECONDS)
    except TimeoutError:
        pass  # most pages have none
    finally:
        end()


tabs = Tabs()
"""The tabs of everything that is connected to this process's bridge."""


def list_clients() -> list[dict[str, Any]]:
    """The connected tabs in plain JSON, for programs.

    Returns:
        For each tab ``id``, ``url``, ``title``, ``visible``, ``focused``, ``connectedAt`` in
        milliseconds since the epoch, and ``tools``, each as ``ns/name``. The ``id`` can be
        given as ``client_id`` or ``tab`` of a call.

    Raises:
        BridgeError: If the bridge is not running.
    """
    bridge = _bridge.current()
    return bridge.host.run(bridge.directory.list_clients)
