"""The browsers a bridge is attached to, and those it started.

Knows their lifecycle. Does not know tabs, tools or notebooks.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import BrowserError

if TYPE_CHECKING:
    from .browsers import LaunchedBrowser
    from .endpoints import Endpoint
    from .transports import OnLink
    from .transports.cdp import CdpTransport
    from .transports.cdp_control import TargetControl


class Opened(NamedTuple):
    """What `Attachments.open` opened: the browser, and identifiers of the tabs."""

    browser: CdpTransport
    tab_ids: list[str]


class Attachments:
    """Attaches to browsers, and starts and ends them.

    Args:
        on_link: Brings a page's link to the bridge.
    """

    def __init__(self, on_link: OnLink) -> None:
        self._on_link = on_link
        self._port = 0
        self._key = ""
        self._attached: list[CdpTransport] = []
        self._launched: dict[CdpTransport, LaunchedBrowser] = {}

    def belong_to(self, port: int, token: str) -> None:
        """Note which bridge this is: its port, and what stays the same when it is restarted."""
        self._port = port
        self._key = hashlib.sha256(token.encode()).hexdigest()[:12]

    @property
    def attached(self) -> list[CdpTransport]:
        """The browsers that are attached to, in the order in which they were."""
        return [browser for browser in tuple(self._attached) if not browser.is_over]

    async def attach(self, where: object = None, *, remote: bool = False) -> CdpTransport:
        """Attach to a running browser, to the first one found of several, unless it is already.

        Args:
            where: Port, address or profile folder; None looks where browsers usually are.
            remote: Whether it may be on another machine.

        Raises:
            BrowserError: If none can be attached to.
        """
        from .endpoints import parse_endpoint

        problem: BrowserError | None = None
        for endpoint in parse_endpoint(where, remote=remote):
            try:
                return await self._attach(endpoint, stays=True)
            except BrowserError as failure:
                problem = problem or failure
        assert problem is not None
        raise problem

    async def _attach(self, endpoint: Endpoint, *, stays: bool) -> CdpTransport:
        from .page_script import page_script
        from .transports.cdp import CdpTransport

        address = await endpoint.resolve()
        for browser in self.attached:
            if browser.address == address:
                return browser
        binding = f"__pagetools_{self._key}"
        transport = CdpTransport(
            endpoint,
            binding=binding,
            script=page_script(binding, self._key, self._port),
            stays=stays,
        )
        transport.address = address  # so that it is not attached to twice at a time
        self._attached.append(transport)
        try:
            await transport.start(self._on_link)
        except BaseException:
            self._forget(transport)
            raise
        return transport

    def _forget(self, transport: CdpTransport) -> None:
        if transport in self._attached:
            self._attached.remove(transport)

    async def open(
        self,
        urls: Sequence[str] = (),
        *,
        headless: bool | None = None,
        profile: Path | None = None,
    ) -> Opened:
        """Start a browser and open pages in it, or open them in the one that was started before.

        Args:
            urls: Addresses of the pages.
            headless: Whether it shows no window; None means where there is no display.
            profile: Folder of a profile to use and keep; None makes one for the time being.

        Raises:
            BrowserError: If there is no browser, or it or a page does not start.
        """
        from .browsers import LaunchedBrowser

        await self._sweep()
        transport = None
        if profile is None:
            started = ((one, its) for one, its in self._launched.items() if not one.is_over)
            alike = (one for one, its in started if headless in (None, its.headless))
            transport = next(alike, None)
        if transport is None:
            launched = await LaunchedBrowser.launch(headless=headless, profile=profile)
            try:
                transport = await self._attach(launched.endpoint, stays=False)
            except BaseException:
                await launched.close()
                raise
            self._launched[transport] = launched
        opened = await asyncio.gather(
            *(transport.open(url) for url in urls), return_exceptions=True
        )
        for outcome in opened:
            if isinstance(outcome, BaseException):
                raise outcome
        tab_ids = [one.tab_id for one in opened if not isinstance(one, BaseException)]
        return Opened(transport, tab_ids)

    async def _sweep(self) -> None:
        """Forget browsers that a person has closed."""
        for transport, launched in tuple(self._launched.items()):
            if not launched.is_running or transport.is_over:
                await self._end(transport)

    async def detach(self) -> int:
        """Leave the browsers that were attached to; those that were started stay.

        Returns:
            How many were left.
        """
        others = [browser for browser in self._attached if browser not in self._launched]
        for browser in others:
            self._forget(browser)
            await browser.close()
        return len(others)

    async def close(self) -> int:
        """End the browsers that were started.

        Returns:
            How many were ended.
        """
        browsers = tuple(self._launched)
        for browser in browsers:
            await self._end(browser)
        return len(browsers)

    async def _end(self, transport: CdpTransport) -> None:
        self._forget(transport)
        launched = self._launched.pop(transport, None)
        if launched is not None:
            await transport.quit()
            await transport.close()
            await launched.close()

    def leave(self) -> None:
        """Leave all browsers and end those that were started, for code that cannot await."""
        for transport in tuple(self._attached):
            with suppress(BrowserError):
                transport.leave()
        for launched in tuple(self._launched.values()):
            launched.close_now()
        self._attached.clear()
        self._launched.clear()

    def control(self, tab_id: str) -> TargetControl:
        """What steers a tab.

        Raises:
            BrowserError: If no browser that is attached to has it.
        """
        for transport in tuple(self._attached):
            control = transport.control(tab_id)
            if control is not None:
                return control
        raise BrowserError(
            "this tab is not in a browser that is attached to; `%pagetools attach` attaches to "
            "one, `%pagetools open` starts one"
        )
