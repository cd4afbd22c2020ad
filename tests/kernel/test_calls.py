"""Calls from cells, in every form in which a person writes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import NewPage
from .kernels import Cell, Kernel
from .page import Page
from .waiting import eventually

pytestmark = pytest.mark.kernel

ADD = "%pagetools call add a=1 b=2"


# Awaiting


def test_a_call_can_be_awaited(kernel: Kernel, page: Page) -> None:
    assert kernel.value("await tools.add(a=1, b=2)") == 3


def test_a_call_is_sent_when_it_is_made_and_can_be_awaited_in_a_later_cell(
    kernel: Kernel, page: Page
) -> None:
    kernel.run("call = tools.add(a=1, b=2);")
    page.wait_for("call")
    assert kernel.value("await call, await call") == (3, 3)


def test_fifty_calls_can_be_gathered(kernel: Kernel, page: Page) -> None:
    gathered = kernel.value(
        "import asyncio\nawait asyncio.gather(*(tools.add(a=n, b=1) for n in range(50)))"
    )
    assert gathered == list(range(1, 51))
    assert len(page.all("call")) == 50


def test_a_timeout_ends_a_call_and_tells_the_page(kernel: Kernel, page: Page) -> None:
    cell = kernel.fail("await tools.hang(timeout=0.3)")
    assert cell.ename == "CallTimeoutError"
    page.wait_for("cancel")


def test_a_wait_for_ends_a_call_and_tells_the_page(kernel: Kernel, page: Page) -> None:
    cell = kernel.fail("import asyncio\nawait asyncio.wait_for(tools.hang(), 0.3)")
    assert cell.ename == "TimeoutError"
    page.wait_for("cancel")


def test_a_cell_can_wait_for_a_tool_that_comes_later(
    kernel: Kernel, port: int, new_page: NewPage
) -> None:
    cell = kernel.submit("tool = await tools.wait_for('add', timeout=20)\nawait tool(a=2, b=2)")
    kernel.pump(0.1)
    assert not cell.done
    new_page(port)
    kernel.finish(cell)
    assert cell.value == 4


# The magic


def test_the_magic_gives_the_value(kernel: Kernel, page: Page) -> None:
    assert kernel.value(ADD) == 3


def test_the_magic_can_be_assigned(kernel: Kernel, page: Page) -> None:
    cell = kernel.run(f"x = {ADD}")
    assert cell.results == []
    assert kernel.value("x") == 3


def test_the_magic_works_in_a_loop(kernel: Kernel, page: Page) -> None:
    kernel.run("sums = []\nfor n in range(5):\n    s = %pagetools call add a=$n b=10\n")
    kernel.run("for n in range(5):\n    s = %pagetools call add a=$n b=10\n    sums.append(s)")
    assert kernel.value("sums") == [10, 11, 12, 13, 14]


def test_the_magic_works_in_a_function(kernel: Kernel, page: Page) -> None:
    kernel.run(f"def total():\n    value = {ADD}\n    return value + 1")
    assert kernel.value("total()") == 4


def test_the_magic_works_in_a_try_block(kernel: Kernel, page: Page) -> None:
    kernel.run(
        "try:\n    %pagetools call fail\nexcept Exception as problem:\n    caught = problem.name"
    )
    assert kernel.value("caught") == "RangeError"


def test_the_magic_works_in_a_cell_that_also_awaits(kernel: Kernel, page: Page) -> None:
    kernel.run(f"first = await tools.add(a=1, b=1)\nx = {ADD}\nlast = await tools.add(a=2, b=2)")
    assert kernel.value("first, x, last") == (2, 3, 4)


@pytest.mark.parametrize("code", [f"%time {ADD}", f"%%time\n{ADD}", f"%%time\nx = {ADD}\nx"])
def test_the_magic_can_be_timed(kernel: Kernel, page: Page, code: str) -> None:
    cell = kernel.run(code)
    assert cell.value == 3
    assert "Wall time" in cell.stdout


def test_the_magic_can_be_captured(kernel: Kernel, page: Page) -> None:
    cell = kernel.run(f"%%capture captured\nprint('said')\n{ADD}")
    assert (cell.results, cell.displays, cell.stdout) == ([], [], "")
    assert kernel.value("captured.stdout") == "said\n"
    assert kernel.value("[o.data['text/plain'] for o in captured.outputs]") == ["3"]


@pytest.mark.parametrize(
    "body", ['{"a": 1, "b": 2}', "a: 1\nb: 2", '{\n  "a": 1,\n  "b": 2\n}\n', "a: $one\nb: 2"]
)
def test_arguments_can_come_from_the_cell_as_json_or_yaml(
    kernel: Kernel, page: Page, body: str
) -> None:
    kernel.run("one = 1")
    assert kernel.value(f"%%pagetools call add\n{body}") == 3


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        ('text="buy milk"', "buy milk"),
        ('text="$5"', "$5"),
        ("text='$5'", "$5"),
        ("text=$5", "$5"),
        ("text={price}", "{price}"),
        ('text="{price}"', "{price}"),
        ("text=$word", "from Python"),
        ('text="$word"', "$word"),
        ('text:="as JSON"', "as JSON"),
        ("text=Grüße", "Grüße"),
        ('text="semi;colon;"', "semi;colon;"),
    ],
)
def test_text_is_sent_as_it_was_typed(kernel: Kernel, page: Page, typed: str, sent: str) -> None:
    kernel.run("word, price = 'from Python', 5")
    assert kernel.value(f"%pagetools call echo {typed}") == sent
    assert page.wait_for("call")["args"] == {"text": sent}


@pytest.mark.parametrize(
    "typed", ["items=$things", 'items:=["a", {"b": 1}]', 'items=["a", {"b": 1}]']
)
def test_arrays_come_from_variables_and_json(kernel: Kernel, page: Page, typed: str) -> None:
    kernel.run("things = ['a', {'b': 1}]")
    assert kernel.value(f"%pagetools call items {typed}") == ["a", {"b": 1}]


def test_a_semicolon_silences_the_value(kernel: Kernel, page: Page) -> None:
    assert kernel.run(f"{ADD};").results == []
    assert page.wait_for("call")["args"] == {"a": 1, "b": 2}


def test_the_magic_waits_for_a_tool_that_comes_later(
    kernel: Kernel, port: int, new_page: NewPage
) -> None:
    cell = kernel.submit("%pagetools wait add --timeout 20")
    kernel.pump(0.1)
    assert not cell.done
    new_page(port)
    kernel.finish(cell)
    assert "add" in cell.stdout


# Without awaiting


def test_result_waits_for_the_value(kernel: Kernel, page: Page) -> None:
    assert kernel.value("tools.add(a=1, b=2).result()") == 3
    assert kernel.value("tools.soon().result()") == "late"


def test_result_can_give_up_and_leave_the_call_as_it_is(kernel: Kernel, page: Page) -> None:
    kernel.run("call = tools.soon()")
    kernel.run("try:\n    call.result(timeout=0.01)\nexcept TimeoutError:\n    gave_up = True")
    assert kernel.value("gave_up") is True
    assert kernel.value("await call") == "late"
    assert page.all("cancel") == []


def test_a_call_can_be_cancelled(kernel: Kernel, page: Page) -> None:
    kernel.run("call = tools.hang()\ncall.cancel('enough')")
    assert page.wait_for("cancel")["reason"] == "enough"
    assert kernel.fail("await call").ename == "CallCancelledError"
    assert kernel.value("call.state.name") == "CANCELLED"


# Other threads and loops

OTHER_LOOP = """
import asyncio, threading
def work():
    async def both():
        return [await tools.add(a=1, b=2), await tools.soon()]
    found.append(asyncio.run(both()))
found = []
thread = threading.Thread(target=work)
thread.start()
while thread.is_alive():
    await asyncio.sleep(0.01)
found
"""


def test_another_thread_can_await_in_a_loop_of_its_own(kernel: Kernel, page: Page) -> None:
    assert kernel.value(OTHER_LOOP) == [[3, "late"]]


def test_another_thread_can_wait_without_a_loop(kernel: Kernel, page: Page) -> None:
    call = "lambda: [tools.add(a=1, b=2).result(), tools.soon().result()]"
    assert kernel.value(f"import asyncio\nawait asyncio.to_thread({call})") == [3, "late"]


def test_a_call_made_in_one_loop_can_be_awaited_in_another(kernel: Kernel, page: Page) -> None:
    kernel.run("import asyncio\nasync def get(call): return await call\ncall = tools.soon()")
    assert kernel.value("await asyncio.to_thread(lambda: asyncio.run(get(call)))") == "late"


def test_cancelling_in_another_loop_tells_the_page(kernel: Kernel, page: Page) -> None:
    kernel.run(
        "import asyncio\n"
        "async def give_up():\n"
        "    try:\n"
        "        await asyncio.wait_for(tools.hang(), 0.2)\n"
        "    except TimeoutError:\n"
        "        return 'gave up'\n"
        "await asyncio.to_thread(lambda: asyncio.run(give_up()))"
    )
    page.wait_for("cancel")


@pytest.fixture
def subshell(kernel: Kernel) -> Iterator[str]:
    """A second shell of the kernel, whose cells run on a thread with a loop of its own."""
    if kernel.value("import ipykernel\nipykernel.version_info[0]") < 7:
        pytest.skip("no subshells in this ipykernel")
    reply = kernel.ask_control("create_subshell_request", {})
    yield reply["subshell_id"]
    kernel.ask_control("delete_subshell_request", {"subshell_id": reply["subshell_id"]})


@pytest.mark.parametrize("code", ["await tools.add(a=1, b=2)", ADD, "tools.add(a=1, b=2).result()"])
def test_a_subshell_can_call(kernel: Kernel, page: Page, subshell: str, code: str) -> None:
    assert kernel.value(code, subshell=subshell) == 3
    assert kernel.value("import threading\nthreading.current_thread().name", subshell).startswith(
        "subshell-"
    )


def test_a_subshell_can_call_while_the_main_shell_waits_for_a_call(
    kernel: Kernel, page: Page, subshell: str
) -> None:
    kernel.run("pass")
    blocked = kernel.submit("%pagetools call hang --timeout none")
    hanging = page.wait_for("call")
    assert kernel.value("await tools.add(a=1, b=2)", subshell=subshell) == 3
    assert kernel.value(ADD, subshell=subshell) == 3
    assert not blocked.done
    page.answer(hanging, "at last")
    kernel.finish(blocked)
    assert blocked.value == "at last"


def test_a_bridge_started_from_a_subshell_serves_the_main_shell(
    kernel: Kernel, port: int, host: str, new_page: NewPage, subshell: str
) -> None:
    kernel.run("%pagetools stop", subshell=subshell)
    flag = "--thread" if host == "thread" else ""
    kernel.run(f"%pagetools start --port {port} {flag}", subshell=subshell)
    new_page(port)
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert kernel.value(ADD) == 3
    assert kernel.value(ADD, subshell=subshell) == 3


# What is shown


def _told(kernel: Kernel, cell: Cell, text: str) -> bool:
    """Whether the call that is the cell's last expression shows this now."""
    kernel.pump(0.01)
    (shown,) = cell.displays
    assert all(update["transient"] == shown["transient"] for update in cell.updates)
    now = (cell.updates or [shown])[-1]["data"]
    return text in now["text/plain"] and text in now["text/html"]


def test_a_call_as_last_expression_shows_its_progress_and_its_outcome(
    kernel: Kernel, page: Page
) -> None:
    cell = kernel.run("call = tools.hang(timeout=None)\ncall")
    assert cell.results == []
    assert "<progress" in cell.displays[0]["data"]["text/html"]
    assert _told(kernel, cell, "pending")

    request = page.wait_for("call")

    def step_is_told() -> bool:
        # Drawings are ten a second at most, so a single report might come too early for one.
        page.progress(request, 3, 7, "sorting")
        return _told(kernel, cell, "3/7 sorting")

    eventually(step_is_told, "the progress is shown")
    page.answer(request, "sorted at last")
    eventually(lambda: _told(kernel, cell, "sorted at last"), "the outcome is shown")
    assert "<progress" not in cell.updates[-1]["data"]["text/html"]


def test_a_call_that_is_done_shows_its_value_at_once(kernel: Kernel, page: Page) -> None:
    cell = kernel.run("call = tools.add(a=1, b=2)\nawait call\ncall")
    assert _told(kernel, cell, "3 after")


def test_quick_calls_all_show_their_outcome(kernel: Kernel, page: Page) -> None:
    cells = [kernel.run("tools.add(a=1, b=2)") for _ in range(30)]
    eventually(lambda: all(_told(kernel, c, "3 after") for c in cells), "all are shown", 3)


def test_a_failed_call_that_nobody_awaits_shows_why_and_logs_nothing(
    kernel: Kernel, page: Page
) -> None:
    cell = kernel.run("tools.fail()")
    eventually(lambda: _told(kernel, cell, "the cart is full"), "the failure is shown", 3)
    kernel.run("import gc\ngc.collect();")
    assert kernel.stderr == ""
