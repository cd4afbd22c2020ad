"""The panel's messages, as a front end sees them: while cells run, block and await."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import NewPage
from .kernels import Cell, Kernel
from .page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

WIDGET = "application/vnd.jupyter.widget-view+json"
BLOCKED = "print('blocked', flush=True)\nimport time\ntime.sleep(2)"
AWAITING = "print('awaits', flush=True)\nimport asyncio\nawait asyncio.sleep(2)"
AT_ONCE = 1.5
"""Seconds within which a person takes something to happen at once."""


class FrontEnd:
    """The panel's model in a front end.

    Args:
        kernel: Where the panel is.
        view: What the cell that shows the panel displayed.
    """

    def __init__(self, kernel: Kernel, view: dict[str, Any]) -> None:
        self.kernel = kernel
        self.comm = view[WIDGET]["model_id"]

    def messages(self) -> list[dict[str, Any]]:
        """What the panel has sent so far."""
        return [
            message["content"]["data"]["content"]
            for message in self.kernel.comm_messages
            if message["content"].get("comm_id") == self.comm
            and message["content"]["data"].get("method") == "custom"
        ]

    def titles(self) -> set[str]:
        """Titles of tabs it has sent so far."""
        deltas = [tab for m in self.messages() for tab in m.get("tabs", {}).values()]
        return {tab["title"] for tab in deltas if "title" in tab}

    def say(self, method: str, **data: Any) -> None:
        self.kernel.send("comm_msg", {"comm_id": self.comm, "data": {"method": method, **data}})

    def ask(self, kind: str, **fields: Any) -> None:
        self.say("custom", content={"kind": kind, "re": kind, **fields})

    def reply(self, kind: str) -> dict[str, Any] | None:
        return next(
            (m for m in self.messages() if m.get("re") == kind and "started" not in m), None
        )

    def seconds_until(self, condition: Callable[[], object], cell: Cell | None = None) -> float:
        """How long it takes until ``condition()`` is true, while ``cell`` runs."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < 10
            assert cell is None or not cell.done, "only when the cell had ended"
            self.kernel.pump(0.02)
        return time.monotonic() - began


@pytest.fixture
def front(kernel: Kernel, port: int) -> FrontEnd:
    del kernel.comm_messages[:]
    return FrontEnd(kernel, kernel.run("%pagetools").displays[0]["data"])


@pytest.fixture
def titled(front: FrontEnd, port: int, new_page: NewPage) -> Page:
    """A page whose title the panel knows."""
    page = new_page(port, title="Before")
    front.seconds_until(lambda: "Before" in front.titles())
    return page


def rename(page: Page, title: str) -> None:
    page.title = title
    page.state()


def test_a_saved_notebook_keeps_counts_and_nothing_a_page_said(
    kernel: Kernel, titled: Page
) -> None:
    shown = kernel.run("%pagetools").displays[0]["data"]
    assert shown["text/html"].startswith("<p>pagetools: bridge on port ")
    assert "tool" in shown["text/html"]
    assert "Before" not in str(shown)


def test_the_panel_follows_between_cells_and_while_one_awaits(
    kernel: Kernel, front: FrontEnd, titled: Page
) -> None:
    rename(titled, "Between")
    assert front.seconds_until(lambda: "Between" in front.titles()) < AT_ONCE
    cell = kernel.submit(AWAITING)
    kernel.wait_for_output(cell, "awaits")
    rename(titled, "Awaiting")
    assert front.seconds_until(lambda: "Awaiting" in front.titles(), cell) < AT_ONCE
    kernel.finish(cell)


def test_while_a_cell_blocks_the_thread_host_follows_and_the_kernel_host_catches_up(
    kernel: Kernel, host: str, front: FrontEnd, titled: Page
) -> None:
    cell = kernel.submit(BLOCKED)
    kernel.wait_for_output(cell, "blocked")
    rename(titled, "Blocked")
    if host == "thread":
        assert front.seconds_until(lambda: "Blocked" in front.titles(), cell) < AT_ONCE
        kernel.finish(cell)
    else:
        kernel.finish(cell)
        assert front.seconds_until(lambda: "Blocked" in front.titles()) < AT_ONCE


def test_its_buttons_work_while_a_cell_awaits(
    kernel: Kernel, front: FrontEnd, titled: Page
) -> None:
    cell = kernel.submit(AWAITING)
    kernel.wait_for_output(cell, "awaits")
    front.ask("call", tab=titled.tab_id, ns="demo", name="add", args={"a": 1, "b": 2})
    assert front.seconds_until(lambda: front.reply("call"), cell) < AT_ONCE
    kernel.finish(cell)
    answer = front.reply("call")
    assert answer is not None
    assert (answer["ok"], answer["value"]) == (True, "3")


def test_a_call_that_a_cell_awaits_can_be_cancelled_in_it(
    kernel: Kernel, front: FrontEnd, titled: Page
) -> None:
    cell = kernel.submit("await tools.on('Before').hang(timeout=None)")
    titled.wait_for("call")
    pending: list[str] = []

    def is_shown() -> bool:
        calls = [call for m in front.messages() for call in m.get("calls", [])]
        pending[:] = [call["id"] for call in calls if call["tool"] == "demo/hang"]
        return bool(pending)

    front.seconds_until(is_shown, cell)
    front.ask("cancel", id=pending[0])
    kernel.wait(cell)
    assert cell.ename == "CallCancelledError"
    assert "cancelled in the panel" in cell.evalue
    titled.wait_for("cancel")


def test_a_front_end_that_is_loaded_anew_gets_the_present_state(
    kernel: Kernel, front: FrontEnd, titled: Page
) -> None:
    rename(titled, "Present")
    front.seconds_until(lambda: "Present" in front.titles())
    front.say("request_state")

    def state() -> dict[str, Any] | None:
        updates = [
            message["content"]["data"]["state"]["state"]
            for message in kernel.comm_messages
            if message["content"].get("comm_id") == front.comm
            and message["content"]["data"].get("method") == "update"
        ]
        return updates[-1] if updates else None

    front.seconds_until(state)
    shown = state()
    assert shown is not None
    assert "Present" in {tab["title"] for tab in shown["tabs"]}
    assert shown["seq"] <= max(m["seq"] for m in front.messages() if m["kind"] == "delta")


def test_it_says_that_the_bridge_was_stopped_and_goes_on_with_the_next(
    kernel: Kernel, host: str, port: int, front: FrontEnd
) -> None:
    def bridges() -> list[str]:
        return [m["bridge"]["state"] for m in front.messages() if "bridge" in m]

    kernel.run("%pagetools stop")
    front.seconds_until(lambda: "stopped" in bridges())
    kernel.start_bridge(host)
    front.seconds_until(lambda: bridges()[-1] == "running")
    again = kernel.run("%pagetools").displays[0]["data"]
    assert again[WIDGET]["model_id"] == front.comm
