"""The person's browsers, for Python code: attach to one that runs, start one with some pages.

Knows the bridge and its tabs. Does not know how browsers are reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import bridge as _bridge
from .bridge import Bridge
from .browser_tabs import Tab, listed, tabs

if TYPE_CHECKING:
    from .transports.cdp import CdpTransport

GLANCE_SECONDS = 0.3
"""How long the tabs of a browser that runs may take to declare what they have."""


async def attach(where: int | str | Path | None = None, *, remote: bool = False) -> list[Tab]:
    """List the tabs of a browser that is running, unchanged, and keep to it when it is restarted.

    Args:
        where: Its debugging port, an address, or the folder of its profile; None looks where
            browsers usually are, and then at port 9222.
        remote: Whether it may be on another machine.

    Returns:
        Its tabs.

    Raises:
        BrowserError: If none can be attached to.
        BridgeError: If the bridge is not running.
    """
    bridge = _bridge.current()
    browser = await bridge.host.relay(attach_browser(bridge, where, remote=remote))
    return _tabs(browser.tab_ids())


async def attach_browser(
    bridge: Bridge, where: object = None, *, remote: bool = False
) -> CdpTransport:
    """The same for code on the bridge's loop; gives the browser."""
    browser = await bridge.browsers.attach(where, remote=remote)
    await listed(bridge, browser.tab_ids(), GLANCE_SECONDS)
    return browser


async def detach() -> int:
    """Leave the browsers that were attached to; returns how many they were.

    Raises:
        BridgeError: If the bridge is not running.
    """
    bridge = _bridge.current()
    return await bridge.host.relay(bridge.browsers.detach())


async def open_browser(
    *urls: str, headless: bool | None = None, profile: Path | None = None
) -> list[Tab]:
    """Start Chrome, Chromium or Edge with some pages, or open them in the one started before.

    It ends with `close_browsers`, or with this process.

    Args:
        urls: Addresses of the pages.
        headless: Whether it shows no window; None means where there is no display.
        profile: Folder of a profile to use and keep; None makes one for the time being.

    Returns:
        The tabs of the pages, in the order of the addresses; they are loaded.

    Raises:
        BrowserError: If there is no browser, or it or a page does not start.
        BridgeError: If the bridge is not running.
    """
    bridge = _bridge.current()
    opening = open_pages(bridge, urls, headless=headless, profile=profile)
    _, tab_ids = await bridge.host.relay(opening)
    return _tabs(tab_ids)


async def open_pages(
    bridge: Bridge,
    urls: Sequence[str],
    *,
    headless: bool | None = None,
    profile: Path | None = None,
) -> tuple[CdpTransport, list[str]]:
    """The same for code on the bridge's loop; gives the browser and identifiers of the tabs."""
    opened = await bridge.browsers.open(urls, headless=headless, profile=profile)
    await listed(bridge, opened.tab_ids)
    return opened.browser, opened.tab_ids


async def close_browsers() -> int:
    """End the browsers that were started; returns how many they were.

    Raises:
        BridgeError: If the bridge is not running.
    """
    bridge = _bridge.current()
    return await bridge.host.relay(bridge.browsers.close())


def _tabs(tab_ids: Iterable[str]) -> list[Tab]:
    known = {tab.id: tab for tab in tabs}
    return [known[tab_id] for tab_id in tab_ids if tab_id in known]
