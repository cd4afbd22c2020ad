"""A person's desktop: a browser with real windows, pages to open in it, a bridge to look at them.

A pytest plugin, for modules that name it in ``pytest_plugins``. Their tests are async and run on
the browser's loop, on a thread of its own: Playwright, which other tests use, keeps the main
thread's busy.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from pagetools_ipy import Tools
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.browser_tabs import Tab, Tabs
from pagetools_ipy.host import ThreadHost

from ..cdp import Chromium, Page, chromium

HERE = Path(__file__).parent
PAGES = HERE / "pages"
TYPES = {".html": "text/html", ".js": "text/javascript"}
DEADLINE = 5.0

EXTENSION = [
    f"--load-extension={HERE / 'duplicator'}",
    "--disable-features=DisableLoadExtensionCommandLineSwitch",
]


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run async tests that take a `Desktop` on its loop."""
    desktop = pyfuncitem.funcargs.get("desktop")
    if not (isinstance(desktop, Desktop) and inspect.iscoroutinefunction(pyfuncitem.obj)):
        return None
    taken = inspect.signature(pyfuncitem.obj).parameters
    desktop.loop.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in taken}))
    return True


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return running.result()
        finally:
            running.cancel()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.visited.add(f"http://{self.headers['Host']}{self.path}")
        if "prerender" in self.headers.get("Sec-Purpose", ""):
            self.server.prerendered.add(parts.path)
        file = PAGES / parts.path.removeprefix("/")
        if not file.is_file():
            self.send_error(404)
            return
        if file.name == "pause.js":
            time.sleep(self.server.pause)
        text = Template(file.read_text("utf-8")).safe_substitute(dict(parse_qsl(parts.query)))
        self.send_response(200)
        self.send_header("Content-Type", f"{TYPES[file.suffix]}; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


class Site(ThreadingHTTPServer):
    """Serves the pages; words of the query take the place of ``$words`` in them.

    Attributes:
        pause: Seconds that a page takes to load its first script.
        visited: What was asked for.
        prerendered: Paths that were asked for by pages nobody has looked at.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reset()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def reset(self) -> None:
        self.pause = 0.0
        self.visited: set[str] = set()
        self.prerendered: set[str] = set()


class Desktop:
    """What a test needs: `open` pages, then look at `tabs` and call `tools`.

    Attributes:
        origins: Where the pages are served: three origins of this machine, on two sites.
    """

    def __init__(
        self,
        loop: Loop,
        browser: Chromium,
        duplicator: Page | None,
        sites: Sequence[Site],
        bridge: Bridge,
    ) -> None:
        self.loop = loop
        self.browser = browser
        self._duplicator = duplicator
        self.site, other = sites
        self.bridge = bridge
        self.tabs = Tabs(lambda: self.bridge)
        self.tools = Tools(lambda: self.bridge)
        self.origins = (
            f"http://localhost:{self.site.server_port}",
            f"http://127.0.0.1:{self.site.server_port}",
            f"http://localhost:{other.server_port}",
        )

    def url(self, file: str = "app.html", origin: int = 0, **words: str) -> str:
        """Address of a page, with what the ``$words`` in it stand for."""
        words = {"bridge": self.bridge.url, "ns": "shop", "name": "Shop", **words}
        return f"{self.origins[origin]}/{file}?{urlencode(words)}"

    async def open(self, name: str = "Shop", *, new_window: bool = False, ns: str = "shop") -> Page:
        """Open the app in front and wait until its tools can be called."""
        page = await self.browser.open(self.url(name=name, ns=ns), new_window=new_window)
        await self.tab(page)
        return page

    async def open_notebook(self, *, new_window: bool = False) -> Page:
        """Open a page that is none of ours in front, as a notebook is."""
        return await self.browser.open(new_window=new_window)

    async def opened_by(self, page: Page, script: str) -> Page:
        """The page that a script in another one opens."""
        before = await self.browser.targets()
        await page.evaluate(script)
        async with asyncio.timeout(DEADLINE):
            while True:
                if new := set(await self.browser.targets()) - set(before):
                    return await self.browser.attach(new.pop())
                await asyncio.sleep(0.01)

    @staticmethod
    async def until(check: Callable[[], object], seconds: float = DEADLINE) -> None:
        """Wait until ``check()`` is true."""
        give_up_at = time.monotonic() + seconds
        while not check():
            assert time.monotonic() < give_up_at, f"not within {seconds} s"
            await asyncio.sleep(0.005)

    async def tab(self, page: Page) -> Tab:
        """What Python knows a page's tab as, once its tools can be called."""
        status = await page.until("pagetools.status().state === 'open' && pagetools.status()")
        await self.until(lambda: self._offers(status["tabId"], status["namespaces"]))
        return self.tabs[status["tabId"]]

    def _offers(self, tab_id: str, namespaces: list[str]) -> bool:
        tab = next((tab for tab in self.tabs if tab.id == tab_id), None)
        return tab is not None and set(namespaces) <= set(tab.namespaces)

    @asynccontextmanager
    async def restarted_bridge(self) -> AsyncIterator[None]:
        """Another bridge in place of this one, on the same port."""
        port = self.bridge.port
        self.bridge.stop()
        self.bridge = Bridge(ThreadHost())
        self.bridge.start(port)
        try:
            yield
        finally:
            self.bridge.stop()

    @property
    def known(self) -> list[str]:
        """Identifiers of all tabs that are remembered, also of those that are away."""
        everything = self.bridge.host.run(lambda: self.bridge.directory.tabs(all=True))
        return [tab.id for tab in everything]

    @property
    def clients(self) -> int:
        """How many connections there are, whatever they belong to."""
        return self.bridge.host.run(self.bridge.directory.summary).clients

    @property
    def duplicator(self) -> Page:
        """The worker of the extension that does to tabs what a person does."""
        if self._duplicator is None:
            pytest.skip("this browser loads no extension from its command line")
        return self._duplicator


async def _duplicator(browser: Chromium) -> Page | None:
    """Attached to at once, as it would go to sleep without a session."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE):
            while True:
                for target_id in await browser.targets("service_worker"):
                    return await browser.attach(target_id)
                await asyncio.sleep(0.05)
    assert "google" in browser.path, "only Google Chrome refuses to load extensions"
    return None


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    running = Loop()
    yield running
    running.close()


@pytest.fixture(scope="module")
def chrome(loop: Loop) -> Iterator[Chromium]:
    launched = chromium(*EXTENSION)
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def duplicator(loop: Loop, chrome: Chromium) -> Page | None:
    return loop.run(_duplicator(chrome))


@pytest.fixture(scope="module")
def sites() -> Iterator[list[Site]]:
    served = [Site(), Site()]
    yield served
    for site in served:
        site.close()


@pytest.fixture
def desktop(
    loop: Loop, chrome: Chromium, duplicator: Page | None, sites: list[Site], bridge: Bridge
) -> Iterator[Desktop]:
    """A browser with one empty tab, and a bridge that no page has found yet."""
    for site in sites:
        site.reset()
    yield Desktop(loop, chrome, duplicator, sites, bridge)
    loop.run(chrome.close_all())
