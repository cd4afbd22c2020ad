"""Brings links to the pages of a running browser, through its debugging port.

Knows how targets are found, and finds the browser again when it was restarted. Does not know
what goes on in a target (`cdp_target`), or what messages mean.

Everything here runs on a thread of its own. New pages and frames are paused by the browser
until our script is in them, and they must not wait for a cell that keeps the bridge's loop busy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ..devtools import BrowserSocket, CommandError, DevTools, Json, Socket
from ..errors import BridgeError, BrowserError
from ..host import ThreadHost
from . import OnLink
from .cdp_control import TargetControl
from .cdp_documents import TabOfTargets
from .cdp_link import CdpLink, Document
from .cdp_target import Target

if TYPE_CHECKING:
    from ..endpoints import Endpoint

_logger = logging.getLogger(__name__)

RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)
"""Pauses between attempts to find a browser again; the last one goes on."""

LOAD_SECONDS = 10.0
"""How long a page that is opened is waited for to be loaded."""

SETTLE_SECONDS = 2.5
"""How long tabs may take to say what they have before `CdpTransport.start` returns."""

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
# Without a filter: what it left out would be held all the same, for ever.
_HIDDEN = ("devtools://", "chrome-extension://", "chrome-untrusted://")
"""Pages that no person takes for a tab."""


class CdpTransport:
    """A browser that is attached to; see `Transport`.

    Args:
        endpoint: Where its debugging port is.
        binding: Name of the function that carries texts out of its pages.
        script: What is run in every document.
        stays: Whether to look for it again when it has gone.
        open_socket: Connects to an address; another one in tests.

    Attributes:
        endpoint: Where its debugging port is.
        address: Where that was found last, a ``ws://`` address; another one for each browser.
        product: What the browser calls itself, such as ``Chrome/156.0.8078.114``.
        is_over: Whether it has gone for good.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        binding: str,
        script: str,
        stays: bool = True,
        open_socket: Callable[[str], object] = BrowserSocket.connect,
    ) -> None:
        self.endpoint = endpoint
        self.address = ""
        self.product = ""
        self.is_over = False
        self._binding = binding
        self._script = script
        self._stays = stays
        self._open_socket = open_socket
        self._host = ThreadHost()
        self._browser: Browser | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_attached(self) -> bool:
        """Whether the browser is there now."""
        return self._browser is not None

    @property
    def name(self) -> str:
        """What it is and where, in words."""
        return f"{self.product.replace('/', ' ', 1)} on {self.endpoint.label}"

    @property
    def standing(self) -> str:
        """What it is, and whether it is there, in words."""
        if not self._stays:
            return f"Opened {self.name}"
        if self.is_attached:
            return f"Attached to {self.name}"
        return f"Waiting for {self.name} to be back"

    async def start(self, on_link: OnLink) -> None:
        """Attach, and return once it is known what its tabs have.

        Raises:
            BrowserError: If it cannot be attached to.
        """
        bridge_loop = asyncio.get_running_loop()

        def make_link(document: Document) -> CdpLink:
            link = CdpLink(document, bridge_loop, self._host.loop)
            link.open(on_link)
            return link

        try:
            await self._host.relay(self._begin(make_link))
        except BaseException:
            await asyncio.to_thread(self.leave)
            raise

    async def _begin(self, make_link: Callable[[Document], CdpLink]) -> None:
        browser = await self._attach(make_link)
        self._keeping = asyncio.ensure_future(self._keep(browser, make_link))
        await browser.settled(SETTLE_SECONDS)

    async def _attach(self, make_link: Callable[[Document], CdpLink]) -> Browser:
        self.address = await self.endpoint.resolve()
        socket: Socket = await self._open_socket(self.address)  # type: ignore[misc]
        browser = Browser(socket, make_link, binding=self._binding, script=self._script)
        try:
            self.product = await browser.begin()
        except BaseException:
            browser.close()
            raise
        self._browser = browser
        return browser

    async def _keep(self, browser: Browser, make_link: Callable[[Document], CdpLink]) -> None:
        while True:
            await browser.gone()
            self._browser = None
            if not self._stays or self._is_closed:
                break
            browser = await self._find_again(make_link)
        self.is_over = True

    async def _find_again(self, make_link: Callable[[Document], CdpLink]) -> Browser:
        attempt = 0
        while True:
            await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
            attempt += 1
            try:
                return await self._attach(make_link)
            except BrowserError:
                continue
            except Exception:
                _logger.exception("%s could not be attached to again", self.endpoint.label)

    def control(self, tab_id: str) -> TargetControl | None:
        """What steers one of its tabs; None if it has no such tab. From any thread."""

        def find() -> TargetControl | None:
            browser = self._browser
            target = browser.page(tab_id) if browser is not None else None
            if browser is None or target is None:
                return None
            return TargetControl(self._host, browser.devtools, target, browser.pages)

        with suppress(BridgeError):
            return self._host.run(find)
        return None

    def tab_ids(self) -> frozenset[str]:
        """Identifiers of its tabs. From any thread."""
        browser = self._browser
        if browser is None:
            return frozenset()
        with suppress(BridgeError):
            return self._host.run(browser.tab_ids)
        return frozenset()

    async def open(self, url: str) -> TargetControl:
        """Open a page, in the empty tab the browser began with or in a new one, and wait until
        it is loaded. To be awaited on any loop.

        Raises:
            BrowserError: If the browser does not.
        """
        return await self._host.relay(self._open(url))

    async def _open(self, url: str) -> TargetControl:
        browser = self._browser
        if browser is None:
            raise BrowserError("the browser has gone", endpoint=self.endpoint.label)
        target = browser.take_first_page() or await browser.new_page()
        await target.settled.wait()
        control = TargetControl(self._host, browser.devtools, target, browser.pages)
        await control.show(url, LOAD_SECONDS)
        return control

    async def quit(self) -> None:
        """Ask the browser to end."""
        browser = self._browser
        if browser is not None:
            with suppress(CommandError):
                await self._host.relay(browser.quit())

    async def close(self) -> None:
        """See `Transport.close`; the browser stays as it is."""
        await asyncio.to_thread(self.leave)

    def leave(self) -> None:
        """The same for code that cannot await. Not to be called on the browser's thread."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(BridgeError):
                self._host.run(self._end)
            self._host.close()

    def _end(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        if self._browser is not None:
            self._browser.close()


class Browser:
    """One connection to a browser and its targets. Everything runs on the browser's loop.

    Args:
        socket: The connection.
        make_link: Brings a link to the bridge.
        binding: As for `CdpTransport`.
        script: As for `CdpTransport`.

    Attributes:
        devtools: Takes commands.
    """

    def __init__(
        self,
        socket: Socket,
        make_link: Callable[[Document], CdpLink],
        *,
        binding: str,
        script: str,
    ) -> None:
        self.devtools = DevTools(socket, self._on_event)
        self._make_link = make_link
        self._binding = binding
        self._script = script
        self._targets: dict[str, Target] = {}
        self._awaited: dict[str, asyncio.Future[Target]] = {}
        self._first_page: Target | None = None
        self._listening = asyncio.ensure_future(self._listen())

    async def begin(self) -> str:
        """Attach to all pages there are and to come.

        Returns:
            What the browser calls itself.

        Raises:
            CommandError: If the browser refuses.
        """
        version = await self.devtools.send("Browser.getVersion")
        await self.devtools.send("Target.setDiscoverTargets", {"discover": True})
        await self.devtools.send("Target.setAutoAttach", _ATTACH)
        pages = self.pages()
        self._first_page = pages[0] if len(pages) == 1 else None
        return str(version.get("product", ""))

    async def _listen(self) -> None:
        try:
            await self.devtools.listen()
        finally:
            self._forget_targets()
            self.devtools.close()  # it would go on to hold new pages for us

    def _forget_targets(self) -> None:
        for target in tuple(self._targets.values()):
            target.close()
        self._targets.clear()

    async def gone(self) -> None:
        """Return when the connection has ended."""
        await asyncio.wait([self._listening])

    async def settled(self, seconds: float) -> None:
        """Return when it is known how every target stands, or time is up."""
        waiting = [asyncio.ensure_future(t.settled.wait()) for t in self._targets.values()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()

    def tab_ids(self) -> frozenset[str]:
        """Identifiers of all tabs."""
        return frozenset(target.tab.id for target in self._targets.values())

    def pages(self) -> list[Target]:
        """All tabs."""
        return [target for target in self._targets.values() if target.is_page]

    def page(self, tab_id: str) -> Target | None:
        """The tab with one of our identifiers."""
        return next((target for target in self.pages() if target.tab.id == tab_id), None)

    def take_first_page(self) -> Target | None:
        """The empty tab that the browser began with; None if it is in use or gone."""
        first, self._first_page = self._first_page, None
        if (
            first is not None
            and first in self._targets.values()
            and first.info["url"] == "about:blank"
        ):
            return first
        return None

    async def new_page(self) -> Target:
        """Open an empty tab.

        Raises:
            CommandError: If the browser does not.
        """
        created = await self.devtools.send("Target.createTarget", {"url": "about:blank"})
        target_id = created["targetId"]
        for target in self._targets.values():
            if target.info["targetId"] == target_id:
                return target
        awaited = self._awaited[target_id] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(awaited, 10)
        except TimeoutError:
            raise CommandError("Target.createTarget", "the new tab cannot be attached to") from None
        finally:
            del self._awaited[target_id]

    async def quit(self) -> None:
        """Ask the browser to end, and wait until it has left."""
        await self.devtools.send("Browser.close")
        await asyncio.wait([self._listening], timeout=5)

    def close(self) -> None:
        """Leave the browser, without waiting."""
        self._forget_targets()
        self.devtools.close()
        self._listening.cancel()

    # Targets

    def _on_event(self, method: str, params: Json, session: str) -> None:
        try:
            if method == "Target.attachedToTarget":
                self._attached(params, session)
            elif method == "Target.detachedFromTarget":
                self._detached(params["sessionId"])
            elif method == "Target.targetInfoChanged":
                self._changed(params["targetInfo"])
            elif session in self._targets:
                self._targets[session].on_event(method, params)
        except Exception:
            # Contained: what one page brings about must not cost the others.
            _logger.exception("%s could not be taken in", method)

    def _attached(self, params: Json, parent: str) -> None:
        session, info = params["sessionId"], params["targetInfo"]
        is_ours = info["type"] in ("page", "iframe") and not info["url"].startswith(_HIDDEN)
        if not is_ours or info.get("subtype") == "prerender":
            if params["waitingForDebugger"]:
                self.devtools.send("Runtime.runIfWaitingForDebugger", session=session)
            return
        above = self._targets.get(parent)
        tab = TabOfTargets(info["targetId"]) if above is None else above.tab
        target = self._targets[session] = Target(
            self.devtools,
            session,
            info,
            tab,
            self._make_link,
            is_taken=lambda tab_id: any(
                other.tab is not tab and other.tab.id == tab_id for other in self._targets.values()
            ),
            binding=self._binding,
            script=self._script,
        )
        target.set_up(params["waitingForDebugger"])
        if info["targetId"] in self._awaited:
            self._awaited[info["targetId"]].set_result(target)

    def _detached(self, session: str) -> None:
        target = self._targets.pop(session, None)
        if target is not None:
            target.close()

    def _changed(self, info: Json) -> None:
        for target in self._targets.values():
            if target.info["targetId"] == info["targetId"]:
                target.on_info(info)
