"""What arrives while a blocking call waits is not lost: it waits its turn."""

from __future__ import annotations

import pytest

from .conftest import NewPage
from .kernels import Kernel
from .page import Page
from .waiting import eventually

pytestmark = pytest.mark.kernel

LISTEN = """
heard = []
def _opened(comm, message):
    comm.on_msg(lambda message: heard.append(message['content']['data']['n']))
get_ipython().kernel.comm_manager.register_target('probe', _opened)
"""

BLOCKING = pytest.mark.parametrize(
    "code",
    ["x = %pagetools call hang --timeout 20", "x = tools.hang().result()"],
    ids=["magic", "result"],
)


@BLOCKING
def test_comm_messages_and_cells_that_arrive_during_the_wait_are_handled_after_it(
    kernel: Kernel, page: Page, code: str
) -> None:
    kernel.run(LISTEN)
    comm = f"probe-{len(code)}"
    kernel.send("comm_open", {"comm_id": comm, "target_name": "probe", "data": {}})
    waiting = kernel.submit(code)
    request = page.wait_for("call")
    for number in range(5):
        kernel.send("comm_msg", {"comm_id": comm, "data": {"n": number}})
    queued = [kernel.submit(f"x, {number}") for number in range(3)]
    kernel.send("comm_msg", {"comm_id": comm, "data": {"n": 5}})
    kernel.pump(0.5)
    assert not waiting.done
    page.answer(request, "done")
    kernel.finish(waiting, *queued)
    assert [cell.value for cell in queued] == [("done", number) for number in range(3)]
    eventually(lambda: bool(kernel.value("heard") == list(range(6))), "every message was handled")


@BLOCKING
def test_nothing_is_lost_in_a_wait_that_is_interrupted(
    kernel: Kernel, page: Page, code: str
) -> None:
    kernel.run(LISTEN)
    comm = f"interrupted-{len(code)}"
    kernel.send("comm_open", {"comm_id": comm, "target_name": "probe", "data": {}})
    waiting = kernel.submit(code)
    page.wait_for("call")
    kernel.send("comm_msg", {"comm_id": comm, "data": {"n": 1}})
    queued = kernel.submit("'ran'")
    kernel.interrupt()
    kernel.wait(waiting)
    assert waiting.ename == "KeyboardInterrupt"
    kernel.finish(queued)
    assert queued.value == "ran"
    assert kernel.value("heard") == [1]


def test_a_run_of_blocking_cells_all_get_their_answers(kernel: Kernel, page: Page) -> None:
    """A cell that comes while another one waits used to be dropped by nested event loops."""
    cells = [kernel.submit("%pagetools call soon") for _ in range(10)]
    cells += [kernel.submit(f"%pagetools call add a={n} b=1") for n in range(10)]
    kernel.finish(*cells)
    assert [cell.value for cell in cells] == ["late"] * 10 + list(range(1, 11))


def test_pages_come_and_go_while_a_blocking_call_waits(
    kernel: Kernel, port: int, page: Page, new_page: NewPage
) -> None:
    waiting = kernel.submit("%pagetools call hang --timeout none --ns demo")
    request = page.wait_for("call")
    for number in range(5):
        new_page(port, ns=f"visitor {number}").leave()
    stays = new_page(port, ns="stays")
    kernel.pump(0)
    assert not waiting.done
    page.answer(request, "answered")
    kernel.finish(waiting)
    assert waiting.value == "answered"
    assert stays.is_open
    assert kernel.value("%pagetools call add a=1 b=2 --ns stays") == 3


def test_a_task_of_the_person_goes_on_while_a_blocking_call_waits(
    kernel: Kernel, page: Page
) -> None:
    """And it is still there afterwards, in whichever loop it runs."""
    kernel.run(
        "import asyncio\nticks = []\n"
        "async def tick():\n"
        "    while True:\n"
        "        ticks.append(1)\n"
        "        await asyncio.sleep(0.01)\n"
        "task = asyncio.ensure_future(tick())"
    )
    assert kernel.value("%pagetools call soon") == "late"
    assert kernel.value("before = len(ticks)\nawait asyncio.sleep(0.2)\nlen(ticks) > before")
    kernel.run("task.cancel();")


def test_a_blocking_call_in_a_task_and_one_in_a_cell_both_get_their_answers(
    kernel: Kernel, page: Page
) -> None:
    assert kernel.value(
        "import asyncio\n"
        "async def block(): return tools.soon().result()\n"
        "task = asyncio.ensure_future(block())\n"
        "x = tools.soon().result()\n"
        "x, await task"
    ) == ("late", "late")
