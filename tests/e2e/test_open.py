"""Browsers that are opened and attached to from a notebook's cells, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pagetools_ipy.browsers import find_browser

from ..cdp import chromium
from ..conftest import Notebook
from ..kernel.kernels import Kernel, free_port
from ..kernel.test_terminal import Terminal
from .conftest import eventually
from .person import Pages

pytestmark = [
    pytest.mark.browser,
    pytest.mark.kernel,
    pytest.mark.skipif(os.name == "nt", reason="signals, and /tmp"),
]

DEADLINE = 15.0
"""Seconds within which a browser is there or gone, on a machine that is busy."""


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    served = Pages()
    yield served
    served.close()


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files, short enough for Chromium's socket; at the end no browser
    has left anything in it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("PAGETOOLS_BROWSER", find_browser())
    yield folder
    eventually(lambda: not list(folder.glob("pagetools*")), DEADLINE)


def browsers(folder: Path) -> list[psutil.Process]:
    """The processes of browsers whose profile is in a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"{folder}/" in " ".join(process.info["cmdline"] or ())
    ]


def test_in_a_terminal_pages_are_listed_when_the_prompt_is_back_and_leaving_ends_the_browser(
    pages: Pages, temporary: Path, tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.type("%load_ext pagetools_ipy")
        terminal.type("from pagetools_ipy import tools, tabs")
        terminal.type(f"%pagetools start --port {free_port()}")
        terminal.expect("own thread")
        terminal.type(f"%pagetools open {pages.url('page.html', name='one')} --headless")
        terminal.expect(": 1 tab, 1 tool.")
        terminal.type("await tools.one()")
        terminal.expect("Out[5]: 'one'")
        terminal.type("len(tabs), sorted(tools)")
        terminal.expect("(1, ['one'])")
        terminal.type(f"%pagetools open {pages.url('page.html', name='two', legacy='1')}")
        terminal.expect(": 2 tabs, 2 tools.")
        terminal.type("%pagetools close")
        terminal.expect("Ended 1 browser.")
        assert browsers(temporary) == []
        terminal.type(f"%pagetools open {pages.url('page.html', name='one')} --headless")
        terminal.expect(": 1 tab, 1 tool.")
        terminal.type("exit")
        terminal.process.wait(10)
        eventually(lambda: browsers(temporary) == [], DEADLINE)
    finally:
        terminal.close()


@pytest.fixture(params=["", "--thread"], ids=["kernel", "thread"])
def kernel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel with a running bridge, on either host."""
    with Kernel(tmp_path) as running:
        running.load()
        running.run(f"%pagetools start --port {free_port()} {request.param}")
        yield running


def test_in_a_kernel_pages_are_opened_in_one_browser_and_called(
    kernel: Kernel, pages: Pages
) -> None:
    cell = kernel.run(f"%pagetools open {pages.url('page.html', name='one', more='1')} --headless")
    assert ": 1 tab, 5 tools." in cell.stdout
    assert kernel.value("sorted(tools)") == ["one", "run", "soon", "waits", "where"]
    cell = kernel.run(f"%pagetools open {pages.url('page.html', name='two', legacy='1')}")
    assert ": 2 tabs, 6 tools." in cell.stdout
    titles = kernel.value("from pagetools_ipy import tabs; [tab.title for tab in tabs]")
    assert titles == ["one", "two"]
    assert kernel.value("await tools.one()") == "one"
    assert kernel.value("tools.two().result()") == "two"
    shot = kernel.run("await tabs[0].screenshot()")
    assert "image/png" in shot.results[-1]["data"]
    assert "No browser was attached to." in kernel.run("%pagetools detach").stdout
    assert "Ended 1 browser." in kernel.run("%pagetools close").stdout


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(30)", "await tools.waits(timeout=None)", "%pagetools call waits"],
)
def test_an_interrupt_is_for_the_cell_and_not_for_the_browser(
    kernel: Kernel, pages: Pages, code: str
) -> None:
    kernel.run(f"%pagetools open {pages.url('page.html', name='one', more='1')} --headless")
    cell = kernel.submit(code)
    kernel.interrupt(0.5)
    kernel.wait(cell)
    assert not cell.ok
    assert kernel.value("await tools.one()") == "one"


def test_a_restart_and_a_kill_of_the_kernel_end_the_browser(
    kernel: Kernel, pages: Pages, temporary: Path
) -> None:
    kernel.run(f"%pagetools open {pages.url('page.html', name='one')} --headless")
    was = browsers(temporary)
    kernel.restart(kill=False)
    eventually(lambda: not any(process.is_running() for process in was), DEADLINE)
    kernel.load()
    kernel.run("%pagetools start")
    cell = kernel.run(f"%pagetools open {pages.url('page.html', name='one')} --headless")
    assert ": 1 tab, 1 tool." in cell.stdout
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)
    eventually(lambda: browsers(temporary) == [], DEADLINE)


def test_new_tabs_do_not_wait_for_a_cell_that_blocks_the_kernel(
    pages: Pages, tmp_path: Path
) -> None:
    async def main() -> None:
        async with chromium("--enable-features=WebMCPTesting") as browser:
            with Kernel(tmp_path) as kernel:
                kernel.load()
                kernel.run(f"%pagetools start --port {free_port()}")
                kernel.run(f"%pagetools attach {browser.address}")
                code = "print('busy', flush=True)\nimport time; time.sleep(8)"
                busy = kernel.submit(code)
                kernel.wait_for_output(busy, "busy")
                for name in "abc":
                    page = await browser.open(pages.url("page.html", name=name, legacy="1"))
                    ready = "document.readyState === 'complete'"
                    await page.until(f"document.title === '{name}' && {ready}")
                    assert await page.evaluate("window.found") == "object"
                assert not busy.done
                kernel.finish(busy)
                listed = kernel.value("await tools.wait_for('c'); sorted(tools)")
                assert listed == ["a", "b", "c"]
                assert kernel.value("await tools.a()") == "a"

    asyncio.run(main())


def test_what_the_verbs_say_of_a_browser_without_webmcp(pages: Pages, notebook: Notebook) -> None:
    async def main() -> None:
        async with chromium() as plain:
            await plain.open(pages.url("page.html", name="a", legacy="1"))
            await asyncio.to_thread(talk, plain.address)

    def talk(address: str) -> None:
        notebook.run("%pagetools start --port 0")
        said = notebook.run(f"%pagetools attach {address}").text
        assert said.startswith("Attached to Chrome ")
        assert "Its own WebMCP is off" in said
        again = notebook.run(f"%pagetools attach {address}")
        assert "is attached to already" in again.text
        assert "Attached to Chrome " in notebook.run("%pagetools status").text
        assert notebook.run("%pagetools detach").text == "Left 1 browser.\n"
        assert "nothing listens on port 1" in notebook.run("%pagetools attach 1").text
        opened = notebook.run("%pagetools open 127.0.0.1:1 --headless")
        assert "could not be loaded" in opened.text
        assert notebook.run("%pagetools close").text == "Ended 1 browser.\n"

    asyncio.run(main())
