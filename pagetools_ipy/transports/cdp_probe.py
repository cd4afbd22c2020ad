"""Whether a page runs, which a page that is frozen or held does not.

Knows one question to a page. Does not know what follows from its answer.
"""

from __future__ import annotations

from ..devtools import CommandError, DevTools

# A task of the page's own, which a frozen page does not run.
_PROBE = """new Promise((done) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => done(true);
  port2.postMessage(0);
})"""


async def runs(devtools: DevTools, session: str, deadline: float, context: str = "") -> bool:
    """Whether a page runs tasks of its own.

    Args:
        devtools: The browser.
        session: The session of the page.
        deadline: Seconds it has to show that it does.
        context: Which document of it, by the browser's unique name; its main one by default.
    """
    where = {"uniqueContextId": context} if context else {}
    probe = {"expression": _PROBE, "awaitPromise": True, **where}
    try:
        reply = await devtools.send("Runtime.evaluate", probe, session, deadline=deadline)
    except CommandError as problem:
        # Of a document that has just been left there is nothing to say.
        return not problem.is_late
    return "exceptionDetails" not in reply
