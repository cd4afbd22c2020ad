"""Errors are one readable line in a notebook, and ordinary exceptions in Python."""

from __future__ import annotations

import re

import pytest

from .conftest import NewPage
from .kernels import INTERRUPTED, Cell, Kernel, free_port
from .page import Page

pytestmark = pytest.mark.kernel

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def assert_one_line(cell: Cell, ename: str, *words: str) -> None:
    """The front end gets one line that begins with the class and says what the value says."""
    assert cell.ename == ename
    (line,) = cell.traceback
    assert "\n" not in line
    assert ANSI.sub("", line).startswith(f"{ename}: ")
    for word in words:
        assert word in line
    if ename not in INTERRUPTED:  # these have no text of their own
        assert cell.evalue
        assert cell.evalue in line


FAILURES = [
    ("await tools.fail()", "PageToolError", ["demo/fail", "RangeError", "the cart is full"]),
    ("%pagetools call fail", "PageToolError", ["demo/fail", "RangeError", "the cart is full"]),
    ("tools.fail().result()", "PageToolError", ["the cart is full"]),
    ("tools.ad(a=1, b=2)", "ToolNotFoundError", ['"ad"', 'did you mean "add"']),
    ("tools['ad']", "ToolNotFoundError", ['"ad"', "add"]),
    ("%pagetools call ad", "ToolNotFoundError", ['"ad"', "add"]),
    ("tools.add(a=1)", "InvalidArgumentsError", ["demo/add", "b", "missing"]),
    ("tools.add(a=1, b='x')", "InvalidArgumentsError", ["demo/add", "b", "expected integer"]),
    ("tools.add(a=1, b=2, c=3)", "InvalidArgumentsError", ["c"]),
    ("%pagetools call add a=x b=2", "InvalidArgumentsError", ["a", "expected integer"]),
    ("%pagetools call add a=1 b=$nope", "InvalidArgumentsError", ["$nope"]),
    ("%%pagetools call add\n{broken", "InvalidArgumentsError", ["JSON"]),
    ("await tools.hang(timeout=0.1)", "CallTimeoutError", ["demo/hang", "0.1 s"]),
    ("%pagetools call hang --timeout 0.1", "CallTimeoutError", ["demo/hang", "0.1 s"]),
    ("tools.on('nowhere').add(a=1, b=2)", "TabNotFoundError", ["nowhere", "Demo"]),
    ("await tools.wait_for('nope', timeout=0.1)", "ToolWaitTimeoutError", ["nope", "0.1 s"]),
    ("%pagetools wait nope --timeout 0.1", "ToolWaitTimeoutError", ["nope", "0.1 s"]),
    ("c = tools.hang()\nc.cancel('no need')\nawait c", "CallCancelledError", ["no need"]),
    ("%pagetools start --port 99999", "BridgeError", ["port"]),
    ("%pagetools start --port x", "InvalidArgumentsError", ["--port"]),
]


@pytest.mark.parametrize(("code", "ename", "words"), FAILURES, ids=lambda v: str(v)[:40])
def test_an_error_is_one_line_that_says_what_is_wrong(
    kernel: Kernel, page: Page, code: str, ename: str, words: list[str]
) -> None:
    assert_one_line(kernel.fail(code), ename, *words)


@pytest.mark.parametrize("code", ["%pagetools nonsense", "%pagetools call", "%pagetools stop now"])
def test_a_usage_error_is_one_line(kernel: Kernel, page: Page, code: str) -> None:
    before = kernel.stderr
    cell = kernel.fail(code)
    assert cell.ename == "UsageError"
    kernel.pump(0.1)
    assert kernel.stderr == f"{before}UsageError: {cell.evalue}\n"
    kernel.stderr = before


def test_the_same_tool_of_two_apps_is_one_line(
    kernel: Kernel, port: int, page: Page, new_page: NewPage
) -> None:
    new_page(port, ns="other", title="Other")
    cell = kernel.fail("await tools.add(a=1, b=2)")
    assert_one_line(cell, "AmbiguousToolError", "demo/add", "other/add")


@pytest.mark.parametrize("code", ["await tools.hang()", "%pagetools call hang"])
def test_a_page_that_leaves_during_a_call_is_one_line(
    kernel: Kernel, page: Page, code: str
) -> None:
    cell = kernel.submit(code)
    page.wait_for("call")
    page.leave()
    kernel.wait(cell)
    assert_one_line(cell, "PageGoneError", "demo/hang", "may have run")


@pytest.mark.parametrize("code", ["await tools.hang()", "%pagetools call hang"])
def test_an_interrupted_call_is_one_line(kernel: Kernel, page: Page, code: str) -> None:
    cell = kernel.submit(code)
    page.wait_for("call")
    kernel.interrupt()
    kernel.wait(cell)
    assert cell.ename in INTERRUPTED
    assert_one_line(cell, cell.ename, "demo/hang")


@pytest.mark.parametrize(
    "code", ["await tools.wait_for('never')", "%pagetools wait never --timeout 30"]
)
def test_an_interrupted_wait_is_one_line(kernel: Kernel, page: Page, code: str) -> None:
    cell = kernel.submit(f"print('waits', flush=True)\n{code}")
    kernel.wait_for_output(cell, "waits")
    kernel.interrupt()
    kernel.wait(cell)
    assert cell.ename in INTERRUPTED
    assert_one_line(cell, cell.ename)


@pytest.mark.parametrize(
    "code",
    [
        "await tools.fail()",
        "await tools.hang(timeout=0.1)",
        "await tools.wait_for('nope', timeout=0.1)",
        "await asyncio.to_thread(tools.fail().result)",
        "%pagetools wait nope --timeout 0.1",
    ],
)
def test_an_error_that_was_told_is_not_logged_as_well(
    kernel: Kernel, page: Page, code: str
) -> None:
    kernel.run("import asyncio, gc")
    before = kernel.stderr
    kernel.fail(code)
    kernel.run("import sys\nsys.last_value = sys.last_traceback = sys.last_exc = None")
    kernel.run("gc.collect();")
    kernel.pump(0.1)
    assert kernel.stderr == before


@pytest.mark.parametrize("code", ["await tools.add(a=1, b=2)", "%pagetools call add a=1 b=2"])
def test_no_page_is_one_line_with_the_way_out(
    kernel: Kernel, port: int, new_page: NewPage, code: str
) -> None:
    cell = kernel.fail(code)
    assert_one_line(cell, "NoPageConnectedError", "%pagetools open URL", "%pagetools snippet")


@pytest.mark.parametrize(
    "code",
    ["await tools.add(a=1, b=2)", "%pagetools call add a=1 b=2", "%pagetools tabs"],
)
def test_no_bridge_is_one_line_with_the_way_out(kernel: Kernel, host: str, code: str) -> None:
    kernel.run("%pagetools stop")
    try:
        assert_one_line(kernel.fail(code), "BridgeError", "%pagetools start")
    finally:
        kernel.start_bridge(host, free_port())


CATCH = """
import pagetools_ipy as p
caught = []
try:
    {code}
except p.{ename} as problem:
    caught = [isinstance(problem, p.PageToolsError), {attributes}]
caught
"""

CAUGHT = [
    (
        "await tools.fail()",
        "PageToolError",
        "problem.name, problem.page_message, problem.data, problem.tool, problem.tab",
        ["RangeError", "the cart is full", {"limit": 3}, "demo/fail", "Demo"],
    ),
    (
        "%pagetools call fail",
        "PageToolError",
        "problem.name, 'x.js' in problem.stack",
        ["RangeError", True],
    ),
    (
        "await tools.hang(timeout=0.1)",
        "CallTimeoutError",
        "isinstance(problem, TimeoutError), problem.timeout, problem.tool",
        [True, 0.1, "demo/hang"],
    ),
    (
        "tools.ad",
        "ToolNotFoundError",
        "isinstance(problem, AttributeError), problem.name, problem.close",
        [True, "ad", ["add"]],
    ),
    (
        "tools.add(a=1, b='x')",
        "InvalidArgumentsError",
        "isinstance(problem, ValueError), problem.path, problem.tool",
        [True, "b", "demo/add"],
    ),
    ("tools.on('nowhere').add(a=1, b=2)", "TabNotFoundError", "problem.selector", ["nowhere"]),
]


@pytest.mark.parametrize(("code", "ename", "attributes", "expected"), CAUGHT)
def test_an_error_can_be_caught_by_its_class_and_carries_data(
    kernel: Kernel,
    page: Page,
    code: str,
    ename: str,
    attributes: str,
    expected: list[object],
) -> None:
    caught = kernel.value(CATCH.format(code=code, ename=ename, attributes=attributes))
    assert caught == [True, *expected]


def test_a_page_that_leaves_during_a_call_can_be_caught(kernel: Kernel, page: Page) -> None:
    code = "await tools.hang()"
    cell = kernel.submit(CATCH.format(code=code, ename="PageGoneError", attributes="problem.sent"))
    page.wait_for("call")
    page.leave()
    kernel.finish(cell)
    assert cell.value == [True, True]
