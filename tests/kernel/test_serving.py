"""Pages are served between cells and while a cell awaits; while one blocks, nothing is lost."""

from __future__ import annotations

import pytest

from .blocks import LONG, Blocks
from .conftest import NewPage
from .kernels import HOSTS, Kernel
from .waiting import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]

TABS = """
from pagetools_ipy import bridge as _b
_d = _b.current().directory
sorted((t.title, list(t.tools)) for t in _b.current().host.run(_d.tabs) if t.frames and t.title)
"""


def test_a_page_connects_and_declares_its_tools_while_no_cell_runs(
    kernel: Kernel, port: int, new_page: NewPage
) -> None:
    page = new_page(port, title="Between cells")
    page.wait_for("welcome")
    assert kernel.value(TABS)[0][0] == "Between cells"
    assert kernel.value("sorted(tools)") == sorted(page.tools)


def test_a_page_that_leaves_between_cells_is_gone_in_the_next(
    kernel: Kernel, port: int, new_page: NewPage
) -> None:
    new_page(port).leave()
    eventually(lambda: bool(kernel.value(TABS) == []), "the page is gone")
    assert kernel.fail("await tools.add(a=1, b=2)").ename == "NoPageConnectedError"


def test_a_page_is_served_while_a_cell_awaits(kernel: Kernel, port: int, new_page: NewPage) -> None:
    cell = kernel.submit("import asyncio\nawait asyncio.sleep(1.5)\nawait tools.add(a=1, b=2)")
    page = new_page(port)
    kernel.pump(0)
    assert not cell.done
    assert page.all("welcome")
    kernel.finish(cell)
    assert cell.value == 3


def test_a_page_is_served_after_a_cell_blocked(
    kernel: Kernel, port: int, host: str, new_page: NewPage
) -> None:
    before = new_page(port, title="before")
    cell = kernel.submit("print('blocked', flush=True)\nimport time\ntime.sleep(1.5)")
    kernel.wait_for_output(cell, "blocked")
    during = new_page(port, title="during", wait=False)
    if host == "thread":
        during.wait_for("registered")
        assert not cell.done
    kernel.finish(cell)
    during.wait_for("registered", total=1)
    assert [title for title, _ in kernel.value(TABS)] == ["before", "during"]
    assert before.is_open
    assert during.is_open


def test_the_thread_host_serves_while_a_cell_computes(
    kernel: Kernel, port: int, host: str, new_page: NewPage
) -> None:
    if host != "thread":
        pytest.skip("the kernel host serves after it")
    cell = kernel.submit("import time\nend = time.time() + 1.5\nwhile time.time() < end: pass")
    new_page(port).wait_for("welcome")
    kernel.pump(0)
    assert not cell.done
    kernel.finish(cell)


def test_six_blocking_cells_run_at_once_lose_no_page_and_no_answer(
    kernel: Kernel, port: int, new_page: NewPage
) -> None:
    pages = [new_page(port, title=f"page {n}") for n in range(3)]
    code = "import time\ncalls{0} = [tools.add(a=n, b={0}) for n in range(5)]\ntime.sleep(2)"
    cells = [kernel.submit(code.format(number)) for number in range(6)]
    late = new_page(port, title="page late", open_timeout=40, wait=False)
    last = kernel.submit("[await call for call in calls0 + calls5]")
    for page in pages:
        page.state()
    kernel.finish(*cells, last, timeout=40)
    assert last.value == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    late.wait_for("registered")
    titles = [title for title, _ in kernel.value(TABS)]
    assert titles == ["page 0", "page 1", "page 2", "page late"]
    assert all(page.is_open for page in [*pages, late])


# The long blocks


@pytest.mark.parametrize("host_of_block", HOSTS)
def test_a_cell_that_blocks_for_a_minute_loses_no_tab_no_message_and_no_answer(
    blocks: Blocks, host_of_block: str
) -> None:
    blocked = blocks[host_of_block, "one cell"]
    kernel, before, during = blocked.kernel, blocked.before, blocked.during
    kernel.finish(*blocked.cells, timeout=LONG + 30)
    assert kernel.value("await sent, await waiting") == (42, 3)
    during.wait_for("registered")
    assert before.is_open
    assert during.is_open
    tabs = kernel.value(TABS)
    assert [title for title, _ in tabs] == ["before 19", "during"]
    assert "demo/added" in tabs[0][1]
    assert kernel.value("await tools.on(ns='demo').added()") == "added while blocked"
    assert kernel.value("%pagetools call add a=2 b=2 --ns during") == 4
    assert kernel.stderr == ""


@pytest.mark.parametrize("host_of_block", HOSTS)
def test_a_page_that_comes_during_a_long_block_is_served_at_once_by_the_thread_host_only(
    blocks: Blocks, host_of_block: str
) -> None:
    assert blocks[host_of_block, "one cell"].was_let_in_at_once is (host_of_block == "thread")


@pytest.mark.parametrize("host_of_block", HOSTS)
def test_a_page_in_the_middle_of_its_handshake_when_a_cell_blocks_gets_in_all_the_same(
    blocks: Blocks, host_of_block: str
) -> None:
    blocked = blocks[host_of_block, "one cell"]
    blocked.kernel.finish(*blocked.cells, timeout=LONG + 30)
    eventually(blocked.half.is_open, "the page is connected")


@pytest.mark.parametrize("host_of_block", HOSTS)
def test_a_page_that_answers_no_ping_is_not_given_up(blocks: Blocks, host_of_block: str) -> None:
    blocked = blocks[host_of_block, "one cell"]
    blocked.kernel.finish(*blocked.cells, timeout=LONG + 30)
    assert blocked.mute.is_open()


@pytest.mark.parametrize("host_of_block", HOSTS)
def test_three_long_cells_run_at_once_lose_no_page(blocks: Blocks, host_of_block: str) -> None:
    blocked = blocks[host_of_block, "run all"]
    kernel = blocked.kernel
    kernel.finish(*blocked.cells, timeout=LONG + 40)
    blocked.during.wait_for("registered")
    assert [title for title, _ in kernel.value(TABS)] == ["before 19", "during"]
    assert kernel.value("await tools.on(ns='demo').added()") == "added while blocked"
    assert blocked.before.is_open
    assert blocked.during.is_open
    assert kernel.stderr == ""
