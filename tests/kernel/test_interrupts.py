"""The stop button: it ends what the cell waits for, tells the page, and harms nobody else."""

from __future__ import annotations

import pytest

from .conftest import NewKernel, NewPage, RecordSeconds
from .kernels import INTERRUPTED, SETTLED_AFTER, Cell, Kernel, free_port
from .page import Page, demo_tools
from .waiting import eventually

pytestmark = pytest.mark.kernel

AWAIT = "await tools.hang(timeout=None)"
MAGIC = "%pagetools call hang --timeout none"
RESULT = "tools.hang(timeout=None).result()"
FORMS = pytest.mark.parametrize("code", [AWAIT, MAGIC, RESULT], ids=["await", "magic", "result"])

SOON = 2.0
"""Seconds that an interrupt may take on a busy machine; it is to be 0.5 on an idle one."""

QUIET_AFTER = 1.0
"""Seconds after which nothing else wakes the kernel's loop: no message, no debounced change."""

ROUNDS = 12


def interrupt(kernel: Kernel, page: Page, cell: Cell, after: float = SETTLED_AFTER) -> float:
    """Interrupt a cell whose call the page has got; returns how many seconds it took."""
    page.wait_for("call")
    began = kernel.interrupt(after)
    kernel.wait(cell)
    assert cell.ename in INTERRUPTED
    page.wait_for("cancel")
    return cell.replied_at - began


@FORMS
def test_an_interrupt_ends_the_call_soon_and_tells_the_page(
    kernel: Kernel, page: Page, code: str, record_seconds: RecordSeconds
) -> None:
    seconds = interrupt(kernel, page, kernel.submit(code), QUIET_AFTER)
    record_seconds("interrupt", seconds)
    assert seconds < SOON
    assert len(page.all("cancel")) == 1
    assert kernel.value("1 + 1") == 2
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert kernel.value("%pagetools call add a=1 b=2") == 3


def test_an_interrupt_ends_every_call_of_a_gather(kernel: Kernel, page: Page) -> None:
    cell = kernel.submit(
        "import asyncio\nawait asyncio.gather(*(tools.hang(timeout=None) for _ in range(3)))"
    )
    for _ in range(3):
        page.wait_for("call")
    kernel.interrupt()
    kernel.wait(cell)
    for _ in range(3):
        page.wait_for("cancel")
    called = {message["callId"] for message in page.all("call")}
    assert {message["callId"] for message in page.all("cancel")} == called


def test_an_interrupt_leaves_calls_alone_that_the_cell_does_not_wait_for(
    kernel: Kernel, page: Page
) -> None:
    kernel.run("other = tools.hang(timeout=None);")
    other = page.wait_for("call")
    interrupt(kernel, page, kernel.submit(MAGIC))
    interrupt(kernel, page, kernel.submit(AWAIT))
    assert kernel.value("other.done()") is False
    page.answer(other, "still here")
    assert kernel.value("await other") == "still here"


@FORMS
def test_an_answer_after_the_interrupt_is_dropped(kernel: Kernel, page: Page, code: str) -> None:
    late_results = (
        "from pagetools_ipy import bridge as _b\n_b.current().directory.ignored['late result']"
    )
    before = kernel.value(late_results)
    interrupt(kernel, page, kernel.submit(code))
    page.answer(page.all("call")[0], "too late")
    eventually(lambda: bool(kernel.value(late_results) == before + 1), "it is counted")
    assert kernel.value("await tools.add(a=1, b=2)") == 3


def test_the_stop_button_stops_a_wait_for_a_tool(
    kernel: Kernel, port: int, record_seconds: RecordSeconds
) -> None:
    for code in ("await tools.wait_for('never')", "%pagetools wait never --timeout 60"):
        cell = kernel.submit(f"print('waits', flush=True)\n{code}")
        kernel.wait_for_output(cell, "waits")
        began = kernel.interrupt(QUIET_AFTER)
        kernel.wait(cell)
        assert cell.ename in INTERRUPTED
        record_seconds("interrupt", cell.replied_at - began)
        assert cell.replied_at - began < SOON


def test_a_cell_may_catch_the_interrupt_and_go_on(kernel: Kernel, page: Page) -> None:
    cell = kernel.submit(
        "try:\n    %pagetools call hang --timeout none\n"
        "except KeyboardInterrupt:\n    after = %pagetools call add a=1 b=2\nafter"
    )
    page.wait_for("call")
    kernel.interrupt()
    kernel.finish(cell)
    assert cell.value == 3


def test_an_interrupt_ends_ordinary_code_as_before_once_a_call_has_blocked(
    kernel: Kernel, page: Page
) -> None:
    kernel.run("%pagetools call add a=1 b=2")
    cell = kernel.submit("print('sleeps', flush=True)\nimport time\ntime.sleep(20)")
    kernel.wait_for_output(cell, "sleeps")
    kernel.interrupt()
    kernel.wait(cell, timeout=5)
    assert cell.ename == "KeyboardInterrupt"
    assert page.is_open


def test_an_interrupt_in_the_moment_in_which_the_call_is_sent_still_tells_the_page(
    kernel: Kernel, page: Page
) -> None:
    for _ in range(40):
        cell = kernel.submit(MAGIC)
        page.wait_for("call")
        kernel.interrupt(after=0)
        kernel.wait(cell)
        assert cell.ename in INTERRUPTED
        page.wait_for("cancel", timeout=2)
        assert len(cell.traceback) == 1


INTERRUPTED_WITH_THE_LOCK = """
import signal

class Condition:
    # Interrupted right after its lock was taken, before anybody could see to its release.
    def __init__(self, condition):
        self._condition, self._first = condition, True
    def acquire(self, *args):
        taken = self._condition.acquire(*args)
        if self._first:
            self._first = False
            signal.raise_signal(signal.SIGINT)
        return taken
    def __enter__(self):
        return self._condition.__enter__()
    def __exit__(self, *problem):
        return self._condition.__exit__(*problem)
    def __getattr__(self, name):
        return getattr(self._condition, name)

call = tools.hang(timeout=None)
call._outcome._condition = Condition(call._outcome._condition)
call.result()
"""


def test_an_interrupt_in_a_wait_leaves_no_lock_for_the_bridge_to_run_into(
    new_kernel: NewKernel, new_page: NewPage
) -> None:
    """The thread host waits with concurrent.futures, which takes locks without such care.

    Now and then an interrupt comes right then; here it always does, if it is still so.
    """
    kernel = new_kernel()
    kernel.load()
    page = new_page(kernel.start_bridge("thread", free_port()))
    cell = kernel.submit(INTERRUPTED_WITH_THE_LOCK)
    page.wait_for("call")
    kernel.interrupt()  # the second one, where the wait is another one by now
    page.wait_for("cancel", timeout=5)
    kernel.wait(cell)
    assert cell.ename == "KeyboardInterrupt"
    assert kernel.value("await tools.add(a=1, b=2)") == 3


@FORMS
def test_interrupts_never_hit_a_page_that_sends_much(
    kernel: Kernel, port: int, new_page: NewPage, code: str, record_seconds: RecordSeconds
) -> None:
    echo = demo_tools()["echo"]
    many = {f"tool_{number}": echo for number in range(100)}
    busy = new_page(port, {"echo": echo, **many}, title="busy", ns="busy")
    called = new_page(port)
    took: list[float] = []
    with busy.flood(200):
        for _ in range(ROUNDS):
            took.append(interrupt(kernel, called, kernel.submit(code)))
    record_seconds("interrupt", max(took))
    assert max(took) < SOON
    assert min(busy.sent["state"], busy.sent["register"]) >= ROUNDS * 5
    assert busy.is_open
    assert called.is_open
    assert kernel.value("await tools.add(a=1, b=2), await tools.busy.echo(text='x')") == (3, "x")
    assert kernel.value("%pagetools call echo text=y --ns busy") == "y"
    assert len(busy.all("welcome")) == len(called.all("welcome")) == 1
    assert kernel.stderr == ""
