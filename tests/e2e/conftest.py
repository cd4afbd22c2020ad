"""A real browser, a web server of another origin, and a bridge on a thread of its own."""

from __future__ import annotations

import functools
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from pagetools_ipy import Tools
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.host import ThreadHost

from ..browser import launch

Opener = Callable[[str], Page]


@pytest.fixture(scope="package")  # its loop counts as running until it is closed
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    running = Bridge(ThreadHost())
    running.start(0)
    yield running
    running.stop()


@pytest.fixture
def tools(bridge: Bridge) -> Tools:
    return Tools(lambda: bridge)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class Site:
    """A web server on a port of its own: another origin than the bridge's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        handler = functools.partial(_Quiet, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://localhost:{self._server.server_port}"

    def add(self, name: str, html: str) -> str:
        (self.folder / name).write_text(
            f"<!doctype html><meta charset=utf-8><title>{name}</title>{html}", "utf-8"
        )
        return f"{self.url}/{name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    server = Site(tmp_path)
    yield server
    server.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens a URL in a tab of a context of its own, closed at the end."""
    context = browser.new_context()

    def opener(url: str) -> Page:
        page = context.new_page()
        page.goto(url)
        return page

    yield opener
    context.close()


def eventually(check: Callable[[], object], seconds: float = 5) -> float:
    """Wait until ``check()`` is true; returns how long that took, in seconds."""
    started = time.monotonic()
    while not check():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"not within {seconds} s: {check}")
        time.sleep(0.01)
    return time.monotonic() - started
