"""Whether a page runs, which a page that is frozen or held does not.

Knows two questions to a page. Does not know what follows from their answers.
"""

from __future__ import annotations

import asyncio
import enum

from ..devtools import FOREVER, CommandError, DevTools, Json

# A task of the page's own, which a frozen page does not run.
_TASK = """new Promise((done) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => done(true);
  port2.postMessage(0);
})"""


class Pace(enum.Enum):
    """How a page runs."""

    RUNS = "runs"
    FROZEN = "frozen"  # it answers, but does nothing by itself
    HELD = "held"  # it does not even answer


class Probe:
    """The question to a page whether it runs, asked once.

    Args:
        devtools: The browser.
        session: The session of the page.
        context: Which document of it, by the browser's unique name; its main one by default.
    """

    def __init__(self, devtools: DevTools, session: str, context: str = "") -> None:
        where = {"uniqueContextId": context} if context else {}
        task = {"expression": _TASK, "awaitPromise": True, **where}
        send = devtools.send
        self._answers = send(
            "Runtime.evaluate", {"expression": "0", **where}, session, deadline=FOREVER
        )
        self._runs = send("Runtime.evaluate", task, session, deadline=FOREVER)

    async def pace(self, seconds: float) -> Pace:
        """How the page runs, going by what it shows within some seconds."""
        await asyncio.wait([self._runs], timeout=seconds)
        if self._runs.done():
            return Pace.RUNS
        return Pace.FROZEN if self._answers.done() else Pace.HELD

    async def until_it_runs(self) -> bool:
        """Return when it does; False when its document went before."""
        try:
            reply: Json = await self._runs
        except CommandError:
            return False
        return "exceptionDetails" not in reply
