"""The verbs about browsers: ``%pagetools attach``, ``detach``, ``open`` and ``close``.

Knows what a person reads about browsers. Does not know how they are reached.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from .request import Request, one_word, only_options, page_address, the_bridge, words_and_options
from .text import count, stopped_in_one_line

if TYPE_CHECKING:
    from .bridge import Bridge
    from .transports.cdp import CdpTransport


def attach(request: Request) -> None:
    """List the tabs of a browser that is running, and print what there is."""
    from .browsing import attach_browser

    where, options = one_word(request.line, {"remote": None})
    bridge = the_bridge()
    with stopped_in_one_line("attaching was interrupted"):
        browser = bridge.host.block_on(attach_browser(bridge, where or None, **options))
    _report("Attached to", bridge, browser)


def detach(request: Request) -> None:
    """Leave the browsers that were attached to."""
    only_options(request.line, {})
    bridge = the_bridge()
    left = bridge.host.block_on(bridge.browsers.detach())
    others = "; `%pagetools close` ends what was opened" if bridge.browsers.attached else ""
    print(f"Left {count(left, 'browser')}." if left else f"No browser was attached to{others}.")


def open_pages(request: Request) -> None:
    """Start a browser with some pages, and print what there is."""
    from . import browsing

    urls, options = words_and_options(request.line, {"headless": None, "profile": Path})
    if not urls:
        raise UsageError("which page? `%pagetools open URL`")
    bridge = the_bridge()
    addresses = [page_address(request, url) for url in urls]
    with stopped_in_one_line("opening was interrupted; `%pagetools close` ends what was started"):
        browser, _ = bridge.host.block_on(browsing.open_pages(bridge, addresses, **options))
    _report("Opened in", bridge, browser)


def close(request: Request) -> None:
    """End the browsers that were started."""
    only_options(request.line, {})
    bridge = the_bridge()
    ended = bridge.host.block_on(bridge.browsers.close())
    others = "; `%pagetools detach` leaves what was attached to" if bridge.browsers.attached else ""
    print(f"Ended {count(ended, 'browser')}." if ended else f"No browser was started{others}.")


def _report(what: str, bridge: Bridge, browser: CdpTransport) -> None:
    tab_ids = browser.tab_ids()
    views = [v for v in bridge.host.run(bridge.directory.tabs) if v.id in tab_ids]
    tools = sum(len(view.tools) for view in views)
    print(f"{what} {browser.name}: {count(len(views), 'tab')}, {count(tools, 'tool')}.")
    frames = [frame for view in views for frame in view.frames]
    # Other pages are in no secure context, and have none whether it is on or off.
    offered = {f.webmcp for f in frames if f.webmcp and f.url.startswith(("https:", "http://127."))}
    if offered and "native" not in offered:
        print(
            "Its own WebMCP is off, so pages get one from here; those that were open before need "
            "a reload. To have the browser's own, start it with --enable-features=WebMCP."
        )
