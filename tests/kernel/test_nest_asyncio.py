"""A person who has nest_asyncio2 applied keeps a bridge that works."""

from __future__ import annotations

import pytest

from .conftest import NewKernel, NewPage
from .kernels import HOSTS, INTERRUPTED, Kernel, free_port
from .page import Page

pytestmark = pytest.mark.kernel

APPLY = "import nest_asyncio2\nnest_asyncio2.apply()"


def assert_all_works(kernel: Kernel, page: Page, port: int, new_page: NewPage) -> None:
    late = new_page(port, ns="late")
    assert kernel.value("await tools.on(ns='late').add(a=1, b=2)") == 3
    assert kernel.value("await tools.on(ns='demo').soon()") == "late"
    assert kernel.value("%pagetools call soon --ns demo") == "late"
    assert kernel.value("tools.on(ns='demo').add(a=1, b=2).result()") == 3
    gathered = "import asyncio\nawait asyncio.gather(*(tools.on(ns='demo').soon() for _ in '123'))"
    assert kernel.value(gathered) == ["late"] * 3
    assert kernel.value("asyncio.run(asyncio.wait_for(tools.on(ns='demo').soon(), 5))") == "late"
    assert kernel.fail("await tools.on(ns='demo').hang(timeout=0.2)").ename == "CallTimeoutError"
    page.wait_for("cancel")
    for code in ("await tools.on(ns='demo').hang()", "%pagetools call hang --ns demo"):
        calls = len(page.all("call"))
        cell = kernel.submit(code)
        page.wait_for("call", total=calls + 1)
        kernel.interrupt()
        kernel.wait(cell)
        assert cell.ename in INTERRUPTED
        page.wait_for("cancel")
    assert page.is_open
    assert late.is_open
    assert kernel.value("1 + 1") == 2


@pytest.mark.parametrize("where", HOSTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_bridge_works_when_nest_asyncio2_is_applied(
    new_kernel: NewKernel, new_page: NewPage, where: str, when: str
) -> None:
    kernel = new_kernel()
    kernel.load()
    if when == "before":
        kernel.run(APPLY)
    port = kernel.start_bridge(where, free_port())
    page = new_page(port, redial=True)
    if when == "after":
        kernel.run(APPLY)
    assert_all_works(kernel, page, port, new_page)
    kernel.run("%pagetools stop")
    kernel.start_bridge(where, port)
    page.wait_for("registered", total=2)
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert kernel.value("%pagetools call add a=1 b=2") == 3
    assert kernel.stderr == ""
