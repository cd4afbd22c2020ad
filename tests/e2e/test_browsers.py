"""A real browser is started and ended, however its end comes, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect

from pagetools_ipy.browsers import LaunchedBrowser, find_browser
from pagetools_ipy.endpoints import Endpoint, parse_endpoint
from pagetools_ipy.errors import BrowserError

from ..cdp import Chromium
from .conftest import Site, eventually

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(os.name == "nt", reason="signals, and /tmp"),
]

DEADLINE = 15.0
"""Seconds within which a browser is gone, on a machine that is busy."""

KERNEL = """
import asyncio, json, os, sys
from pagetools_ipy.browsers import LaunchedBrowser

async def main():
    browser = await LaunchedBrowser.launch(headless=True)
    print(json.dumps([browser.pid, browser.endpoint.port, str(browser.profile)]), flush=True)
    return browser

browser = asyncio.run(main())
"""
"""Starts a browser, as a kernel does, and says where it is."""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, short enough for Chromium's socket, and empty at the end."""
    del tmp_path  # is made where temporary files usually are
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PAGETOOLS_BROWSER", find_browser())
    yield folder
    assert list(folder.iterdir()) == []
    folder.rmdir()


class Started:
    """What there is of a browser: its guard and all its processes, its port, its folder."""

    def __init__(self, pid: int, port: int, profile: Path) -> None:
        guard = psutil.Process(pid).parent()
        assert guard is not None
        self.guard = guard
        self.main = psutil.Process(pid)
        self.processes = [guard, *guard.children(recursive=True)]
        self.port = port
        self.folder = profile.parent

    def left(self) -> list[psutil.Process]:
        """The processes that are still there."""
        found = [process for process in self.processes if process.is_running()]
        # An orphan that has ended is there until process 1 asks how, which is not up to us.
        with suppress(psutil.NoSuchProcess):
            if self.guard in found and self.guard.status() == psutil.STATUS_ZOMBIE:
                found.remove(self.guard)
        return found

    def is_there(self) -> bool:
        """Whether anything of it is left."""
        return bool(self.left()) or self.folder.exists()

    def assert_gone(self) -> None:
        assert self.left() == []
        assert not self.folder.exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", self.port)).close()


def started(browser: LaunchedBrowser) -> Started:
    return Started(browser.pid, browser.endpoint.port, browser.profile)


@contextmanager
def kernel(more: str) -> Iterator[tuple[subprocess.Popen[str], Started]]:
    """A process that started a browser and then does ``more``."""
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL + more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        there = None
        try:
            pid, port, profile = json.loads(process.stdout.readline())
            there = Started(pid, port, Path(profile))
            yield process, there
        finally:
            process.kill()
            eventually(lambda: there is None or not there.is_there(), DEADLINE)


async def using(browser: LaunchedBrowser, use: Callable[[Chromium], Awaitable[Any]]) -> Any:
    """Steer a browser that was started."""
    async with connect(await browser.endpoint.resolve(), proxy=None) as socket:
        chromium = Chromium("", socket)
        listening = asyncio.create_task(chromium.listen())
        result = await use(chromium)
    await listening
    return result


def test_it_is_an_ordinary_browser_with_webmcp_and_one_empty_page(site: Site) -> None:
    url = site.add("page.html", "<p>Hello")

    async def look(chromium: Chromium) -> tuple[list[str], Any]:
        before = await chromium.targets()
        page = await chromium.open(url)
        await page.until(f"location.href === '{url}'")
        registers = await page.evaluate("typeof document.modelContext?.registerTool")
        return list(before.values()), registers

    async def main() -> tuple[list[str], Any]:
        browser = await LaunchedBrowser.launch(headless=True)
        try:
            return await using(browser, look)
        finally:
            await browser.close()

    assert asyncio.run(main()) == (["about:blank"], "function")


def test_closing_it_leaves_nothing() -> None:
    async def main() -> Started:
        browser = await LaunchedBrowser.launch(headless=True)
        there = started(browser)
        assert len(there.processes) > 3
        await browser.close()
        return there

    asyncio.run(main()).assert_gone()


def test_two_at_once_know_nothing_of_each_other() -> None:
    async def main() -> tuple[Started, Started]:
        first, second = await asyncio.gather(
            LaunchedBrowser.launch(headless=True), LaunchedBrowser.launch(headless=True)
        )
        there = started(first), started(second)
        await first.close()
        there[0].assert_gone()
        assert second.is_running
        await second.endpoint.resolve()
        await second.close()
        return there

    one, other = asyncio.run(main())
    assert one.port != other.port
    other.assert_gone()


def test_a_person_who_closes_it_leaves_nothing() -> None:
    async def main() -> Started:
        browser = await LaunchedBrowser.launch(headless=True)
        there = started(browser)
        await using(browser, lambda chromium: chromium.send("Browser.close"))
        await asyncio.to_thread(eventually, lambda: not browser.is_running, DEADLINE)
        there.assert_gone()
        await browser.close()
        return there

    asyncio.run(main()).assert_gone()


def test_a_kernel_that_is_killed_leaves_nothing() -> None:
    with kernel("sys.stdin.read()") as (process, there):
        process.kill()
        process.wait()
        eventually(lambda: not there.is_there(), DEADLINE)
        there.assert_gone()


def test_a_kernel_that_is_killed_while_its_children_live_leaves_nothing() -> None:
    # What is forked holds the pipe to the guard open.
    fork = """
child = os.fork()
if not child:
    import time
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
"""
    with kernel(fork) as (process, there):
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
        process.wait()
        try:
            eventually(lambda: not there.is_there(), DEADLINE)
            there.assert_gone()
            assert child.is_running()
        finally:
            child.kill()


def test_a_kernel_that_ends_by_itself_leaves_nothing() -> None:
    with kernel("import atexit; atexit.register(browser.close_now); sys.stdin.read()") as (
        process,
        there,
    ):
        process.communicate("")
        assert process.returncode == 0
        there.assert_gone()


def test_an_interrupt_is_for_the_kernel_alone() -> None:
    wait = """
try:
    print("ready", flush=True)
    sys.stdin.read()
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.read()
"""
    with kernel(wait) as (process, there):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert all(p.is_running() for p in (there.guard, there.main))
        socket.create_connection(("127.0.0.1", there.port)).close()


def test_a_profile_that_is_kept_is_used_again_but_by_one_at_a_time(
    site: Site, tmp_path: Path
) -> None:
    url = site.add("page.html", "")
    profile = tmp_path / "profile"

    async def remember(chromium: Chromium) -> None:
        page = await chromium.open(url)
        await page.until(f"location.href === '{url}' && (document.cookie = 'kept=1; max-age=99')")
        await chromium.send("Browser.close")

    async def recall(chromium: Chromium) -> str:
        page = await chromium.open(url)
        return await page.until("document.cookie")

    async def main() -> str:
        browser = await LaunchedBrowser.launch(headless=True, profile=profile)
        with pytest.raises(BrowserError, match=f"uses the profile {profile}; close it or"):
            await LaunchedBrowser.launch(headless=True, profile=profile)
        await using(browser, remember)
        await browser.close()

        again = await LaunchedBrowser.launch(headless=True, profile=profile)
        try:
            return await using(again, recall)
        finally:
            await again.close()

    assert asyncio.run(main()) == "kept=1"
    assert profile.is_dir()


def test_a_browser_is_found_by_its_profile_while_it_runs(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    written = profile / "DevToolsActivePort"

    def names(port: int) -> bool:
        return written.exists() and written.read_text().startswith(f"{port}\n")

    async def find(browser: LaunchedBrowser) -> Endpoint:
        # The browser listens a moment before it writes down where.
        await asyncio.to_thread(eventually, lambda: names(browser.endpoint.port), DEADLINE)
        (endpoint,) = parse_endpoint(profile)
        assert await endpoint.resolve() == await browser.endpoint.resolve()
        return endpoint

    async def main() -> None:
        first = await LaunchedBrowser.launch(headless=True, profile=profile)
        endpoint = await find(first)
        await first.close()
        with pytest.raises(BrowserError, match="nothing listens on the port it had"):
            await endpoint.resolve()

        second = await LaunchedBrowser.launch(headless=True, profile=profile)
        assert endpoint.port != (await find(second)).port
        assert await endpoint.resolve() == await second.endpoint.resolve()
        await second.close()

    asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_where_there_is_no_display_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BrowserError, match=r"ended at once, saying: .*\$DISPLAY"):
        asyncio.run(LaunchedBrowser.launch(headless=False))
