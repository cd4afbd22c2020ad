"""One target of a browser: a tab, or a frame of one that has a process of its own.

Knows what the debugging port tells of a target's documents, dialogs and crashes, and puts our
page client into each document. Does not know sockets, or how targets are found.

The client in a document speaks the wire protocol; its texts come out through a function that
the browser puts into the page (`Runtime.addBinding`) and go in as a function call. So a page
that is attached to is the same to the bridge as one that loads the client itself. What the
client cannot tell, as its page is held by a dialog or is not even in memory, is told here in
its place, by a stand-in.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from .. import frames, messages
from ..devtools import FOREVER, CommandError, DevTools, Json
from ..errors import MessageError
from ..invocations import Invocations
from ..limits import MAX_MESSAGE_BYTES, MAX_TITLE_CHARS
from ..page_script import delivery
from ..text import clean
from .cdp_documents import Context, StandIn, TabOfTargets
from .cdp_link import CdpLink, Document
from .cdp_loading import Loading
from .cdp_probe import Pace, Probe

_logger = logging.getLogger(__name__)

SETUP_SECONDS = 1.5
"""How long a page may take to let us in, and to show that it runs."""

STAND_IN_AFTER = 0.4
"""How long a page's own client may take to speak before a stand-in speaks for it."""

HELD = "a dialog, a debugger or a long computation holds the page"
FROZEN = "the browser has frozen the page; look at the tab to wake it"
DISCARDED = "the browser has put the page out of memory; look at the tab to load it again"
CRASHED = "the page crashed; reload it"

VIA = "debugger"
"""What carries the messages, as hello tells it."""

_OF_CHILDREN = {
    "autoAttach": True,
    "waitForDebuggerOnStart": True,
    "flatten": True,
}  # without a filter: workers that it left out would be held all the same, for ever

MakeLink = Callable[[Document], CdpLink]


class Target:
    """One target and its session.

    Args:
        devtools: The browser.
        session: Our session with the target.
        info: What the browser says of it, ``TargetInfo`` of the protocol.
        tab: The tab it belongs to.
        make_link: Brings a link to the bridge.
        is_taken: Whether another tab of the browser has an identifier of ours.
        binding: Name of the function that carries texts out of pages.
        script: What is run in every document.

    Attributes:
        blocked: Why its page cannot answer now; empty when it can.
        settled: Set once it is known how the target stands.
        loading: The loading of its next document.
        has_dialog: Whether its page shows a dialog.
    """

    def __init__(
        self,
        devtools: DevTools,
        session: str,
        info: Json,
        tab: TabOfTargets,
        make_link: MakeLink,
        *,
        is_taken: Callable[[str], bool],
        binding: str,
        script: str,
    ) -> None:
        self.session = session
        self.tab = tab
        self.info = info
        self.is_page = info["type"] == "page"
        self.blocked = ""
        self.settled = asyncio.Event()
        self.loading = Loading()
        self.has_dialog = False
        self._is_asleep = False
        self._has_spoken = asyncio.Event()
        self._devtools = devtools
        self._make_link = make_link
        self._is_taken = is_taken
        self._binding = binding
        self._script = script
        self._contexts: dict[int, Context] = {}
        self._lingering: set[Context] = set()
        self._asked: set[Context] = set()
        self._invocations = Invocations(devtools, session)
        self._stand_in = StandIn(self._deliver_to_stand_in)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, Callable[[Json], None]] = {
            "Runtime.executionContextCreated": self._context_created,
            "Runtime.executionContextDestroyed": self._context_destroyed,
            "Runtime.executionContextsCleared": lambda _: self._leave_all(),
            "Runtime.bindingCalled": self._spoke,
            "WebMCP.toolResponded": self._invocations.responded,
            "Page.javascriptDialogOpening": self._dialog_opened,
            "Page.javascriptDialogClosed": self._dialog_closed,
            "Page.frameNavigated": self._navigated,
            "Page.loadEventFired": lambda _: self.loading.loaded(),
            "Inspector.targetCrashed": self._crashed,
            "Inspector.targetReloadedAfterCrash": lambda _: self._block(""),
        }

    # Getting in

    def set_up(self, is_paused: bool) -> None:
        """Have the client run in every document of the target, from the next one on before the
        page's own scripts; and let the target go on, if it is paused."""
        send = self._send
        has_process = send("Target.setAutoAttach", _OF_CHILDREN)
        answers = [
            send("Page.enable"),
            send("Runtime.enable"),
            send("Runtime.addBinding", {"name": self._binding}),
            send(
                "Page.addScriptToEvaluateOnNewDocument",
                {"source": self._script, "runImmediately": True},
            ),
        ]
        if is_paused:
            send("Runtime.runIfWaitingForDebugger")
        self._spawn(self._settle(has_process, answers))

    async def _settle(
        self, has_process: asyncio.Future[Json], answers: list[asyncio.Future[Json]]
    ) -> None:
        """Find out how the target stands."""
        try:
            await asyncio.wait(answers, timeout=SETUP_SECONDS)
            if not all(answer.done() for answer in answers):
                # Only a tab without a page in memory has this answered by the browser itself.
                self._is_asleep = has_process.done()
                held_by = DISCARDED if self._is_asleep else HELD
                self._block(self.blocked or held_by)
                self.stand_in()
                self.settled.set()
                await asyncio.gather(*answers)
                self._is_asleep = False
                if self.blocked == held_by:
                    self._block("")
            if self.is_page:
                self.expect_client()
                await self._look_if_it_runs()
                await self._has_spoken.wait()
        finally:
            self.settled.set()

    async def _look_if_it_runs(self) -> None:
        """Find out whether the page runs; where it does not, go on to look in the background."""
        probe = Probe(self._devtools, self.session)
        pace = await probe.pace(SETUP_SECONDS)
        if pace is not Pace.RUNS and not self.blocked:
            reason = FROZEN if pace is Pace.FROZEN else HELD
            self._block(reason)
            self._spawn(self._unblock(probe, reason))

    async def _unblock(self, probe: Probe, reason: str) -> None:
        await probe.until_it_runs()
        if self.blocked == reason:
            self._block("")

    def _send(self, method: str, params: Json | None = None) -> asyncio.Future[Json]:
        return self._devtools.send(method, params, self.session, deadline=FOREVER)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        problem = None if task.cancelled() else task.exception()
        # What is refused or late has been noted where it matters.
        if problem is not None and not isinstance(problem, CommandError):
            _logger.error("a page could not be looked after", exc_info=problem)

    # What the browser tells

    def on_event(self, method: str, params: Json) -> None:
        """Take in an event of its session."""
        if method in self._handlers:
            self._handlers[method](params)

    def on_info(self, info: Json) -> None:
        """Take in another title or address."""
        self.info = info
        if self._stand_in.link is not None:
            self._stand_in.said(self._hello_of_info())

    def _context_created(self, params: Json) -> None:
        context = params["context"]
        about = context.get("auxData", {})
        if not about.get("isDefault"):
            return
        created = self._contexts[context["id"]] = Context(
            context["uniqueId"],
            about.get("frameId", ""),
            self._invocations,
            deliver=self.deliver,
            lost=self._lost,
        )
        if self._is_main(created):
            self.loading.committed()  # of a page that was held, the browser tells no more
            self.tab.is_elsewhere = False
            self.expect_client()

    def _is_main(self, context: Context) -> bool:
        """Whether it is the tab's page, not a frame in it."""
        return self.is_page and context.frame_id == str(self.info["targetId"])

    def _context_destroyed(self, params: Json) -> None:
        context = self._contexts.pop(params["executionContextId"], None)
        if context is not None:
            self._leave(context)

    def _leave_all(self) -> None:
        while self._contexts:
            _, context = self._contexts.popitem()
            self._leave(context)

    def _leave(self, context: Context) -> None:
        self._lingering = {lingering for lingering in self._lingering if lingering.link}
        context.leave()
        if context.link is not None:
            self._lingering.add(context)

    def _navigated(self, params: Json) -> None:
        if params["frame"]["id"] == self.info["targetId"]:
            self.loading.committed()

    def _dialog_opened(self, params: Json) -> None:
        kind, text = params.get("type", "dialog"), params.get("message", "")
        self.has_dialog = True
        what = "asks whether to leave it" if kind == "beforeunload" else f"shows: {text}"
        self._block(clean(f"{kind} {what}".strip(), MAX_TITLE_CHARS))

    def _dialog_closed(self, _: Json) -> None:
        self.has_dialog = False
        self._block("")

    def _crashed(self, _: Json) -> None:
        self._leave_all()
        for context in tuple(self._lingering):
            context.end()  # nobody is left to have a last word
        self.tab.is_elsewhere = False
        self.loading.fail("the page crashed")
        self._block(CRASHED)
        self.stand_in()

    def _block(self, reason: str) -> None:
        """Note why the page cannot answer; nothing when it can again."""
        if reason == self.blocked:
            return
        self.blocked = reason
        if self.is_page and self.tab.is_elsewhere:
            # Its own connection cannot tell, so that somebody else speaks for as long.
            self._speak_for_it() if reason else self._stand_in.end()
            return
        for context in self._contexts.values():
            context.said(self._blocked_message())
        self._stand_in.said(self._blocked_message())

    def _blocked_message(self) -> Json:
        return {"type": "blocked", "reason": self.blocked, "asleep": self._is_asleep}

    # What pages say

    def _spoke(self, params: Json) -> None:
        context, payload = self._contexts.get(params["executionContextId"]), params["payload"]
        if params["name"] != self._binding or context is None:
            return
        try:
            if len(payload) > MAX_MESSAGE_BYTES:
                raise MessageError(
                    f"expected at most {MAX_MESSAGE_BYTES:,} bytes, got more", reason="too_large"
                )
            raw: Any = frames.decode(payload)
        except MessageError as problem:
            told = messages.Rejected(problem.reason, problem.problem, "")
            self.deliver(context, messages.dump(told))
            return
        match raw:
            case {"type": "hello"}:
                self._greet(context, raw)
            case {"type": "quiet"}:
                self._quiet(context, raw)
            case {"type": "bye"}:
                self._put_aside(context)
            case {"type": "native"}:
                context.invoke(raw)
            case _:
                context.said(raw, len(payload))

    def _greet(self, context: Context, hello: Json) -> None:
        tab, frame, client = hello.get("tab"), hello.get("frame"), hello.get("client")
        is_main = self._is_main(context)
        if isinstance(tab, dict):
            proposed = tab.get("id")
            is_named = is_main and isinstance(proposed, str)
            hello["tab"] = {**tab, "id": self.tab.named(str(proposed) if is_named else "")}
        hello["frame"] = {**(frame if isinstance(frame, dict) else {}), "top": is_main}
        hello["client"] = {**(client if isinstance(client, dict) else {}), "via": VIA}
        context.greet(hello, self._make_link)
        if self.blocked:
            context.said(self._blocked_message())
        if is_main:
            self.tab.is_elsewhere = False
            self._client_spoke()

    def _quiet(self, context: Context, raw: Json) -> None:
        """The page reaches the bridge by itself, so that it would be there twice."""
        if self._is_main(context):
            tab_id = raw.get("tabId")
            if isinstance(tab_id, str) and not self._is_taken(tab_id):
                self.tab.id = tab_id
            self.tab.is_elsewhere = True
            self._client_spoke()
        context.make_way()

    def _put_aside(self, context: Context) -> None:
        """The page is left for another one, or frozen; only in the second case it stays."""
        self._leave(context)
        if self._is_main(context):
            self.expect_client()
            self._spawn(self._look_if_it_runs())

    def _client_spoke(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stand_in.end()
        self._has_spoken.set()

    # What the bridge says

    def deliver(self, context: Context, message: Json) -> None:
        """Take a message to a document's client."""
        kind = message.get("type")
        if context.is_left:
            return
        if kind == "ping":
            if context not in self._asked:
                self._spawn(self._pong(context, message["n"]))
            return
        if kind == "welcome" and self._is_main(context):
            self.tab.id = message["tabId"]
        # Where it does not arrive, the page is held: it is asked by and by whether it runs.
        call = {
            "expression": delivery(self._binding, json.dumps(message)),
            "uniqueContextId": context.unique_id,
            # The person asked for the call: what a page may do on a click it may do now.
            "userGesture": kind == "call",
        }
        self._send("Runtime.evaluate", call)

    async def _pong(self, context: Context, number: int) -> None:
        self._asked.add(context)
        try:
            probe = Probe(self._devtools, self.session, context.unique_id)
            if await probe.until_it_runs():
                context.said({"type": "pong", "n": number})
        finally:
            self._asked.discard(context)

    def _lost(self, context: Context) -> None:
        """The bridge has ended a document's link."""
        if self._is_main(context):
            self.expect_client()

    # Speaking for a page

    def expect_client(self) -> None:
        """Wait for the page's client to speak, a moment and no longer."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(STAND_IN_AFTER, self.stand_in)

    def stand_in(self) -> None:
        """Speak for the page, unless its client does."""
        self._timer = None
        self._has_spoken.set()
        has_client = any(context.link for context in self._contexts.values())
        if self.is_page and not has_client and not self.tab.is_elsewhere:
            self._speak_for_it()

    def _speak_for_it(self) -> None:
        if self._stand_in.link is None:
            self._stand_in.link = self._make_link(self._stand_in)
            self._stand_in.said(self._hello_of_info())
        if self.blocked:
            self._stand_in.said(self._blocked_message())

    def _deliver_to_stand_in(self, message: Json) -> None:
        if message["type"] == "welcome":
            self.tab.id = message["tabId"]
        elif message["type"] == "ping" and not self.blocked:
            self._stand_in.said({"type": "pong", "n": message["n"]})

    def _hello_of_info(self) -> Json:
        seen = {"url": self.info.get("url", ""), "title": self.info.get("title", "")}
        tab = {"id": self.tab.named(""), "docId": self.session, **seen}
        client = {"name": "pagetools", "via": VIA}
        return {"type": "hello", "tab": tab, "frame": {"top": False}, "client": client}

    def close(self) -> None:
        """The target has gone, or we from it."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self.loading.fail("the tab has gone")
        self._invocations.close()
        for context in (*self._contexts.values(), *self._lingering):
            context.end()
        self._contexts.clear()
        self._stand_in.end()
        self.settled.set()
