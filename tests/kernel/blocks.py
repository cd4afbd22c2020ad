"""Cells that block their kernel for a minute, and the pages around them.

They take as long as many other tests together, so they are started before all others and are
looked at when their turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .kernels import HOSTS, Cell, Kernel, free_port
from .page import Page, RawPage, Tool
from .waiting import eventually

LONG = 60
"""Seconds for which the cells of one kernel block it."""

ONE_CELL = [
    "import asyncio, time\n"
    "sent = tools.add(a=20, b=22)\n"
    "waiting = asyncio.ensure_future(tools.add(a=1, b=2))\n"
    f"time.sleep({LONG})"
]
"""Begins with two calls, whose answers have to wait as long."""

RUN_ALL = [f"import time\ntime.sleep({LONG / 3 + 1})"] * 3
"""Each longer than the keepalive of a WebSocket server, which may look at it between them."""


@dataclass
class Blocked:
    """A kernel whose cells block it, and its pages.

    Attributes:
        half: Had sent half of its handshake before, and sent the rest during the block.
        mute: Was connected before and answers no ping.
        before: Was connected before and sent messages during the block.
        during: Connects during the block.
        was_let_in_at_once: Whether ``during`` was served while the cells still blocked.
    """

    kernel: Kernel
    cells: list[Cell]
    half: RawPage
    mute: RawPage
    before: Page
    during: Page
    was_let_in_at_once: bool = False

    def close(self) -> None:
        self.half.close()
        self.mute.close()
        self.before.leave()
        self.during.leave()


Blocks = dict[tuple[str, str], Blocked]
"""By host, and by ``one cell`` or ``run all``."""


def _block(kernel: Kernel, host: str, codes: list[str]) -> Blocked:
    kernel.load()
    port = kernel.start_bridge(host, free_port())
    half, mute = RawPage(port), RawPage(port)
    half.shake_hands(half=True)
    mute.shake_hands()
    before = Page(port, title="before")  # connected last, so that the others are by now
    eventually(mute.is_open, "the raw page is connected")
    mute.say("register", ns="mute", tools=[])

    first = kernel.submit("print('blocked', flush=True)\n" + codes[0])
    kernel.wait_for_output(first, "blocked")
    cells = [first, *(kernel.submit(code) for code in codes[1:])]
    if codes is ONE_CELL:
        before.wait_for("call")
    for number in range(20):
        before.title = f"before {number}"
        before.state()
    before.tools["added"] = Tool(lambda args: "added while blocked")
    before.register()
    half.shake_hands()
    during = Page(port, title="during", ns="during", open_timeout=LONG + 40, wait=False)
    return Blocked(kernel, cells, half, mute, before, during)


@contextmanager
def long_blocks(directory: Path) -> Iterator[Blocks]:
    """Kernels that block for a long time."""
    found: Blocks = {}
    with ExitStack() as stack:
        for host in HOSTS:
            for kind, codes in (("one cell", ONE_CELL), ("run all", RUN_ALL)):
                place = directory / f"{host} {kind}"
                place.mkdir()
                kernel = stack.enter_context(Kernel(place))
                found[host, kind] = blocked = _block(kernel, host, codes)
                stack.callback(blocked.close)
        for blocked in found.values():
            blocked.kernel.pump(0.5)
            served = bool(blocked.during.all("registered"))
            blocked.was_let_in_at_once = served and not blocked.cells[0].done
        yield found
