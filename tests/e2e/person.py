"""A person who attaches to a running browser, with pages in it that know nothing of us.

A pytest plugin on top of `desktop`, whose browser and bridge these are.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from pagetools_ipy import PageToolError, ToolResult, Tools
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.browser_tabs import Tab, Tabs

from ..cdp import Chromium, Page, ProtocolError, chromium
from .desktop import EXTENSION, Desktop, Loop

HERE = Path(__file__).parent
FOLDERS = (HERE / "attach", HERE / "surfaces", HERE / "pages")
NPM = HERE.parent / "npm" / "node_modules"
TYPES = {".html": "text/html", ".js": "text/javascript"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        name = parts.path[1:]
        places = [NPM / name[4:]] if name.startswith("npm/") else [at / name for at in FOLDERS]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            self.send_error(404)
            return
        text = file.read_text("utf-8")
        if file.suffix == ".html":
            text = Template(text).safe_substitute(dict(parse_qsl(parts.query)))
        self.send_response(200)
        self.send_header("Content-Type", f"{TYPES[file.suffix]}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class Pages(ThreadingHTTPServer):
    """Serves the pages of the folders, on two sites.

    Attributes:
        here, there: The origins of the two.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.here = f"http://127.0.0.1:{self.server_port}"
        self.there = f"http://localhost:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self._thread.start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser may well go away in the middle of a page."""

    def url(self, file: str, *, there: bool = False, **words: str) -> str:
        """Address of a page; what takes the place of ``$words`` in it is in the query."""
        return f"{self.there if there else self.here}/{file}?{urlencode(words)}"

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Person:
    """Opens pages in a browser, and attaches to it.

    Attributes:
        browser: The browser, steered by somebody else than the bridge.
        pages: What is on the web.
        url: Address of a page; see `Pages.url`.
        desktop: Where it all is.
    """

    def __init__(self, desktop: Desktop, pages: Pages) -> None:
        self.desktop = desktop
        self.browser = desktop.browser
        self.pages = pages
        self.url = pages.url
        self.until = desktop.until

    @property
    def bridge(self) -> Bridge:
        return self.desktop.bridge

    @property
    def tabs(self) -> Tabs:
        return self.desktop.tabs

    @property
    def tools(self) -> Tools:
        return self.desktop.tools

    async def is_alone(self) -> None:
        """Wait until the tabs that were closed are gone; one that is loading may go on instead."""
        async with asyncio.timeout(5):
            while len(targets := await self.browser.targets()) > 1:
                for target_id, url in targets.items():
                    if url != "about:blank":
                        with suppress(ProtocolError):
                            await self.browser.send("Target.closeTarget", targetId=target_id)
                await asyncio.sleep(0.02)

    @property
    def web(self) -> list[Tab]:
        """The tabs that show a page of the web."""
        return [tab for tab in self.tabs if tab.url.startswith("http")]

    async def attach(self, bridge: Bridge | None = None) -> None:
        """Have a bridge attach to the browser."""
        bridge = bridge or self.bridge
        await bridge.host.relay(bridge.browsers.attach(self.browser.address))

    async def detach(self) -> None:
        await self.bridge.host.relay(self.bridge.browsers.detach())

    async def show(self, url: str, *, attach: bool | None = None) -> Page:
        """Open a page in a new tab, as one who types its address, and wait until it is loaded;
        attach after that, before that, or not now."""
        if attach is False:
            await self.attach()
        page = await self.browser.open()
        if self.bridge.browsers.attached:
            await page.until("window.pagetools")  # nobody types as fast as the tests
        await page.send("Page.navigate", url=url)
        await page.until(f"location.href === {url!r} && document.readyState === 'complete'")
        if attach:
            await self.attach()
        return page

    async def listed(self, *names: str, tools: Tools | None = None, seconds: float = 5.0) -> None:
        """Wait until these tools can be called, and no others."""
        where = self.tools if tools is None else tools
        try:
            await self.until(lambda: sorted(where) == sorted(names), seconds)
        except AssertionError:
            raise AssertionError(f"expected {sorted(names)}, got {sorted(where)}") from None

    async def tab_at(self, url: str) -> Tab:
        """The tab with a page, once it is listed."""
        await self.until(lambda: any(tab.url == url for tab in self.tabs))
        return self.tabs[url]

    @staticmethod
    async def outcome(call: Awaitable[Any]) -> object:
        """What a call ends with; of content blocks, the text and what is structured."""
        try:
            value = await call
        except PageToolError as error:
            if isinstance(error.data, ToolResult):
                return f"error: {error.data.text}"
            # What follows is the way to see what is hidden.
            return f"{error.name}: {error.page_message}".split(";")[0]
        return (value.text, value.structured) if isinstance(value, ToolResult) else value

    @property
    def most_tabs(self) -> Callable[[], int]:
        """Begins to count; gives what tells how many tabs of the web there were at the most."""
        directory, loop = self.bridge.directory, self.bridge.host.loop
        most = 0

        def look() -> None:
            nonlocal most
            views = [v for v in directory.tabs() if v.is_known and v.url.startswith("http")]
            # One that waits for its identifier goes by that of its connection.
            most = max(most, sum(view.id not in view.client_ids for view in views))

        # What a message changes, it changes in steps; only all of them count.
        self.bridge.host.run(lambda: directory.watch(lambda _: loop.call_soon(look) and None))
        return lambda: most


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    served = Pages()
    yield served
    served.close()


@pytest.fixture(scope="module")
def native_chrome(loop: Loop) -> Iterator[Chromium]:
    """A browser with WebMCP, in which every site has a process of its own."""
    launched = chromium(*EXTENSION, "--enable-features=WebMCPTesting", "--site-per-process")
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def plain_chrome(loop: Loop) -> Iterator[Chromium]:
    """A browser without WebMCP."""
    launched = chromium()
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


@pytest.fixture
def person(desktop: Desktop, pages: Pages) -> Iterator[Person]:
    """A person whose bridge is not attached to anything yet, with one empty tab."""
    person = Person(desktop, pages)
    desktop.loop.run(person.is_alone())
    yield person
    person.bridge.browsers.leave()
