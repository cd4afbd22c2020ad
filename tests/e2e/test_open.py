"""Browsers that cells open and attach to, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pagetools_ipy.browsers import find_browser

from ..cdp import chromium
from ..conftest import Notebook
from ..kernel.kernels import HOSTS, Kernel, free_port
from ..kernel.test_terminal import Terminal
from .conftest import eventually

if TYPE_CHECKING:
    from .person import Pages

pytest_plugins = ["tests.e2e.desktop", "tests.e2e.person"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.kernel,
    pytest.mark.skipif(os.name == "nt", reason="signals, and /tmp"),
]

DEADLINE = 15.0
"""Seconds within which a browser is gone, on a machine that is busy."""
BLOCKED_SECONDS = 5
ALL = ["a", "run", "soon", "waits", "where"]


def elsewhere(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on another thread: Playwright, in other tests, keeps this one's loop busy."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, short enough for Chromium's socket; of what the browsers had
    there, nothing is left at the end."""
    del tmp_path  # is made where temporary files usually are
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PAGETOOLS_BROWSER", find_browser())
    yield folder
    eventually(lambda: not list(folder.glob("pagetools*")), DEADLINE)
    shutil.rmtree(folder)


@pytest.fixture
def url(pages: Pages) -> str:
    """A page with five tools."""
    return pages.url("page.html", name="a", more="1")


def processes(folder: Path) -> list[psutil.Process]:
    """Those of browsers that have their profile in a folder."""
    running = psutil.process_iter(["cmdline"])
    return [p for p in running if f"{folder}/pagetools" in " ".join(p.info["cmdline"] or ())]


def main_processes(folder: Path) -> list[psutil.Process]:
    """The same, one of each browser."""
    lines = [(p, " ".join(p.info["cmdline"])) for p in processes(folder)]
    return [p for p, line in lines if "--remote-debugging-port" in line and "--type=" not in line]


def test_in_a_terminal_pages_are_listed_when_the_prompt_is_back(
    pages: Pages, url: str, temporary: Path, tmp_path: Path
) -> None:
    other = pages.url("page.html", name="b", legacy="1")
    terminal = Terminal(tmp_path)
    try:
        terminal.type("%load_ext pagetools_ipy")
        terminal.type("from pagetools_ipy import tools, tabs")
        terminal.type(f"%pagetools start --port {free_port()}")
        terminal.type(f"%pagetools open {url} --headless")
        terminal.expect(": 1 tab, 5 tools.")
        terminal.type("[tab.title for tab in tabs], await tools.a()")
        terminal.expect("Out[5]: (['a'], 'a')")
        terminal.type(f"%pagetools open {other}")
        terminal.expect(": 2 tabs, 6 tools.")
        terminal.type("[tab.title for tab in tabs], await tools.b()")
        terminal.expect("Out[7]: (['a', 'b'], 'b')")
        terminal.type("%pagetools close")
        terminal.expect("Ended 1 browser.")
        assert processes(temporary) == []
        terminal.type(f"%pagetools open {url} --headless")
        terminal.expect(": 1 tab, 5 tools.")
        assert len(main_processes(temporary)) > 0
        terminal.type("exit")
        terminal.process.wait(DEADLINE)
        assert processes(temporary) == []
    finally:
        terminal.close()


@pytest.mark.parametrize("host", HOSTS)
def test_in_a_kernel_a_browser_lives_as_long_as_it_is_wanted(
    host: str, pages: Pages, url: str, temporary: Path, tmp_path: Path
) -> None:
    def opens(address: str) -> str:
        return kernel.run(f"%pagetools open {address} --headless").stdout

    with Kernel(tmp_path) as kernel:
        kernel.load()
        kernel.run("from pagetools_ipy import tabs; import time")
        kernel.start_bridge(host, free_port())
        assert ": 1 tab, 5 tools." in opens(url)
        assert kernel.value("[tab.title for tab in tabs], sorted(tools)") == (["a"], ALL)
        assert kernel.value("await tools.a(), tools.a().result()") == ("a", "a")
        picture = kernel.run("await tabs[0].screenshot()").results[-1]["data"]
        assert "image/png" in picture
        second = kernel.run(f"%pagetools open {pages.url('page.html', name='b', legacy='1')}")
        assert ": 2 tabs, 6 tools." in second.stdout
        assert "No browser was attached to" in kernel.run("%pagetools detach").stdout

        for waiting in ("time.sleep(30)", "await tools.waits()", "%pagetools call waits"):
            cell = kernel.submit(waiting)
            kernel.interrupt()
            kernel.wait(cell)
            assert not cell.ok
        assert kernel.value("await tools.b()") == "b"

        before = processes(temporary)
        kernel.restart(kill=False)
        eventually(lambda: not any(process.is_running() for process in before), DEADLINE)

        kernel.load()
        kernel.start_bridge(host)
        assert ": 1 tab, 5 tools." in opens(url)
        assert processes(temporary)
        kernel.restart(kill=True)
        eventually(lambda: processes(temporary) == [], DEADLINE)


def test_a_cell_that_blocks_holds_no_new_page_of_the_browser(
    pages: Pages, url: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with chromium("--enable-features=WebMCPTesting") as browser:
            kernel.run(f"%pagetools attach {browser.address}")
            blocked = kernel.submit(
                f"print('blocked', flush=True); import time; time.sleep({BLOCKED_SECONDS})"
            )
            kernel.wait_for_output(blocked, "blocked")
            for name in ("b", "c"):
                began = time.monotonic()
                page = await browser.open()
                await page.until("window.pagetools", 1)  # nobody types as fast as the tests
                await page.send("Page.navigate", url=pages.url("page.html", name=name, legacy="1"))
                await page.until("document.readyState === 'complete' && window.found", 1)
                assert time.monotonic() - began < 2
                assert await page.evaluate("window.found") == "object"
            kernel.pump(0.1)
            assert not blocked.done
            kernel.finish(blocked)
            assert kernel.value("await tools.wait_for('c'); await tools.b(), sorted(tools)") == (
                "b",
                ["b", "c"],
            )

    with Kernel(tmp_path) as kernel:
        kernel.load()
        kernel.start_bridge("kernel", free_port())
        elsewhere(main())


def test_it_is_said_what_a_browser_lacks_and_what_there_is(
    pages: Pages, notebook: Notebook
) -> None:
    def said(line: str) -> str:
        output = notebook.run(f"%pagetools {line}")
        return output.text if output.error is None else str(output.error)

    def look(address: str) -> None:
        assert "16 tools.\nIts own WebMCP is off, so pages get one from here;" in said(
            f"attach {address}"
        )
        assert said(f"attach {address}").startswith("Attached to Chrom")  # as it is already
        assert "Attached to Chrom" in said("status")
        assert said("detach") == "Left 1 browser.\n"
        assert "Attached to" not in said("status")
        assert said("close") == "No browser was started.\n"
        assert "which page? `%pagetools open URL`" in said("open")
        nowhere = f"127.0.0.1:{free_port()}"
        assert "could not be loaded: net::ERR_CONNECTION_REFUSED" in said(
            f"open {nowhere} --headless"
        )
        assert said("close") == "Ended 1 browser.\n"

    async def main() -> None:
        async with chromium() as plain:
            page = await plain.open(pages.url("table.html", place="page", before="", library=""))
            await page.until("document.title === 'Table' && document.readyState === 'complete'")
            await asyncio.to_thread(look, plain.address)

    notebook.run("%pagetools start --port 0")
    elsewhere(main())
