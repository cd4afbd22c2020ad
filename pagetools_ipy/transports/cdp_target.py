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
from collections.abc import Callable
from typing import Any

from .. import frames, messages
from ..devtools import CommandError, DevTools, Json
from ..errors import MessageError
from ..invocations import Invocations
from ..limits import MAX_TITLE_CHARS
from ..text import clean
from .cdp_documents import Context, StandIn, TabOfTargets
from .cdp_link import CdpLink, Document
from .cdp_probe import runs

SETUP_SECONDS = 1.5
"""How long a page may take to let us in before it counts as held by something."""

STAND_IN_AFTER = 0.4
"""How long a page's own client may take to speak before a stand-in speaks for it."""

PROBE_SECONDS = 4.0
"""How long a page may take to show that it runs."""

LAST_WORD_SECONDS = 2.0
"""How long a document that was left is waited for: the browser may still tell how its calls
ended, and of a form it tells what the next page says."""

HELD = "a dialog, a debugger or a long computation holds the page"
FROZEN = "the browser has frozen the page; look at the tab to wake it"
DISCARDED = "the browser has put the page out of memory; look at the tab to load it again"
VIA = "debugger"

CRASHED = "the page crashed; reload it"

MakeLink = Callable[[Document], CdpLink]


class Target:
    """One target and its session.

    Args:
        devtools: The browser.
        session: Our session with the target.
        info: What the browser says of it, ``TargetInfo`` of the protocol.
        tab: The tab it belongs to.
        make_link: Brings a link to the bridge.
        binding: Name of the function that carries texts out of pages.
        script: What is run in every document.

    Attributes:
        blocked: Why its page cannot answer now; empty when it can.
        settled: Set once it is known how the target stands.
    """

    def __init__(
        self,
        devtools: DevTools,
        session: str,
        info: Json,
        tab: TabOfTargets,
        make_link: MakeLink,
        *,
        binding: str,
        script: str,
    ) -> None:
        self.session = session
        self.tab = tab
        self.info = info
        self.is_page = info["type"] == "page"
        self.blocked = ""
        self.is_asleep = False
        self.settled = asyncio.Event()
        self._has_spoken = asyncio.Event()
        self.loaded = asyncio.Event()
        self._devtools = devtools
        self._make_link = make_link
        self._binding = binding
        self._script = script
        self._contexts: dict[int, Context] = {}
        self._left: set[Context] = set()
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
            "Page.javascriptDialogClosed": lambda _: self.block(""),
            "Page.loadEventFired": lambda _: self.loaded.set(),
            "Inspector.targetCrashed": self._crashed,
            "Inspector.targetReloadedAfterCrash": lambda _: self.block(""),
        }

    # Getting in

    def set_up(self, is_paused: bool) -> None:
        """Have the client run in every document of the target, from the next one on before the
        page's own scripts; and let the target go on, if it is paused."""
        send = self._send
        of_children = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        has_process = send("Target.setAutoAttach", of_children)
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
        self._spawn(self._watch_setup(has_process, answers))

    async def _watch_setup(
        self, has_process: asyncio.Future[Json], answers: list[asyncio.Future[Json]]
    ) -> None:
        await asyncio.wait(answers, timeout=SETUP_SECONDS)
        if not all(answer.done() for answer in answers):
            # Only a tab without a page in memory has this answered by the browser itself.
            self.is_asleep = has_process.done()
            self.block(DISCARDED if self.is_asleep else HELD)
            self.stand_in()
            self.settled.set()
        try:
            await asyncio.gather(*answers)
        except CommandError:
            return  # said already; what was asked for is done when the page comes back
        self.is_asleep = False
        if self.blocked in (HELD, DISCARDED):
            self.block("")
        if not self.is_page:
            self.settled.set()
            return
        self.expect_client()
        await self._look_if_frozen()
        await self._has_spoken.wait()
        self.settled.set()

    async def _look_if_frozen(self) -> None:
        is_frozen = not await runs(self._devtools, self.session, SETUP_SECONDS)
        if self.blocked in ("", FROZEN):
            self.block(FROZEN if is_frozen else "")

    def _send(
        self, method: str, params: Json | None = None, deadline: float = 3600.0
    ) -> asyncio.Future[Json]:
        return self._devtools.send(method, params, self.session, deadline=deadline)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What the browser tells

    def on_event(self, method: str, params: Json) -> None:
        """Take in an event of its session."""
        handler = self._handlers.get(method)
        if handler is not None:
            handler(params)

    def on_info(self, info: Json) -> None:
        """Take in another title or address."""
        self.info = info
        if self._stand_in.link is not None:
            self._stand_in.said(self._hello_of_info())

    def _context_created(self, params: Json) -> None:
        context = params["context"]
        about = context.get("auxData", {})
        if about.get("isDefault"):
            created = Context(context["uniqueId"], about.get("frameId", ""), self.deliver)
            self._contexts[context["id"]] = created
            if created.frame_id == self.info["targetId"] and self.is_page:
                self.expect_client()

    def _context_destroyed(self, params: Json) -> None:
        context = self._contexts.pop(params["executionContextId"], None)
        if context is not None:
            self._leave(context)

    def _leave_all(self) -> None:
        contexts = list(self._contexts.values())
        self._contexts.clear()
        for context in contexts:
            self._leave(context)

    def _leave(self, context: Context) -> None:
        """End a document's link, or wait for the last word of those who are to speak for it."""
        context.is_left = True
        if context.link is None:
            return
        if not context.calls:
            self._end(context)
            return
        self._left.add(context)
        context.retire()  # the next document is the tab's page now
        asyncio.get_running_loop().call_later(LAST_WORD_SECONDS, self._expire, context)

    def _expire(self, context: Context) -> None:
        if context in self._left:
            self._end(context)

    def _end(self, context: Context) -> None:
        self._left.discard(context)
        for call_id in tuple(context.calls):
            self._invocations.forget(call_id)
        context.calls.clear()
        if context.link is not None:
            context.link.end()
            context.link = None

    def _dialog_opened(self, params: Json) -> None:
        kind, text = params.get("type", "dialog"), params.get("message", "")
        what = "asks whether to leave it" if kind == "beforeunload" else f"shows: {text}"
        self.block(clean(f"{kind} {what}".strip(), MAX_TITLE_CHARS))

    def _crashed(self, _: Json) -> None:
        self._leave_all()
        self.block(CRASHED)
        self.stand_in()

    def block(self, reason: str) -> None:
        """Note why the page cannot answer; nothing when it can again."""
        if reason == self.blocked:
            return
        self.blocked = reason
        for context in self._contexts.values():
            context.said(self._blocked_message())
        self._stand_in.said(self._blocked_message())

    def _blocked_message(self) -> Json:
        return {"type": "blocked", "reason": self.blocked, "asleep": self.is_asleep}

    # What pages say

    def _spoke(self, params: Json) -> None:
        context = self._contexts.get(params["executionContextId"])
        if params["name"] != self._binding or context is None:
            return
        try:
            raw = frames.decode(params["payload"])
        except MessageError as problem:
            self.deliver(
                context, messages.dump(messages.Rejected(problem.reason, problem.problem, ""))
            )
            return
        kind = raw.get("type") if isinstance(raw, dict) else None
        if kind == "hello":
            self._greet(context, raw)  # type: ignore[arg-type]
        elif kind == "quiet":
            self._quiet(context, raw)  # type: ignore[arg-type]
        elif kind == "bye":
            self._put_aside(context)
        elif kind == "native":
            self._invoke(context, raw)  # type: ignore[arg-type]
        else:
            context.said(raw)
            if context.is_retired and not context.open_calls:
                self._end(context)

    def _greet(self, context: Context, hello: Json) -> None:
        tab, frame = hello.get("tab"), hello.get("frame")
        is_top = context.frame_id == self.info["targetId"] and self.is_page
        if isinstance(tab, dict):
            hello["tab"] = {**tab, "id": self._tab_id(tab, is_top)}
        hello["frame"] = {**(frame if isinstance(frame, dict) else {}), "top": is_top}
        client = hello.get("client")
        hello["client"] = {**(client if isinstance(client, dict) else {}), "via": VIA}
        context.hello = hello
        context.is_left = context.is_retired = False
        self._left.discard(context)
        if context.link is None:
            context.open_calls.clear()
            context.link = self._make_link(context)
        context.said(hello)
        if self.blocked:
            context.said(self._blocked_message())
        if is_top:
            self.tab.is_elsewhere = False
            self._client_spoke()
            if self.blocked == FROZEN:
                self._spawn(self._look_if_frozen())

    def _tab_id(self, tab: Json, is_top: bool) -> str:
        proposed = tab.get("id")
        return self.tab.named(proposed if is_top and isinstance(proposed, str) else "")

    def _quiet(self, context: Context, raw: Json) -> None:
        """The page reaches the bridge by itself, so that it would be there twice."""
        if context.frame_id == self.info["targetId"] and self.is_page:
            if isinstance(raw.get("tabId"), str):
                self.tab.id = raw["tabId"]
            self.tab.is_elsewhere = True
            self._client_spoke()
        context.retire()
        if not context.open_calls:
            self._end(context)

    def _put_aside(self, context: Context) -> None:
        """The page is left for another one, or frozen; only in the second case it stays."""
        is_top = bool(context.hello.get("frame", {}).get("top"))
        self._leave(context)
        if is_top:
            self.expect_client()
            self._spawn(self._look_if_frozen())

    def _client_spoke(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stand_in.end()
        self._has_spoken.set()

    def _invoke(self, context: Context, raw: Json) -> None:
        """Call a tool whose function only the browser has, for the client."""
        call_id, name = raw.get("callId"), raw.get("name")
        if context.link is None or not isinstance(call_id, str) or not isinstance(name, str):
            return

        def answer(outcome: Json) -> None:
            context.calls.discard(call_id)
            context.said({"type": "result", "callId": call_id, **outcome})
            if context.is_left and not context.calls:
                self._end(context)

        context.calls.add(call_id)
        self._invocations.start(call_id, context.frame_id, name, raw.get("args"), answer)

    # What the bridge says

    def deliver(self, context: Context, message: Json) -> None:
        """Take a message to a document's client."""
        kind = message.get("type")
        if kind == "cancel" and message["callId"] in context.calls:
            context.calls.discard(message["callId"])
            self._invocations.cancel(message["callId"])
        elif kind == "ping":
            self._spawn(self._pong(context, message["n"]))
        elif not context.is_left:
            if kind == "welcome" and context.hello.get("frame", {}).get("top"):
                self.tab.id = message["tabId"]
            text = json.dumps(json.dumps(message))
            call = f"globalThis[{json.dumps(self._binding)}]({text})"
            # The person asked for the call: what a page may do on a click it may do now.
            where = {
                "expression": call,
                "uniqueContextId": context.unique_id,
                "userGesture": kind == "call",
            }
            # Where it does not arrive, the page is held: it is asked by and by whether it runs.
            self._send("Runtime.evaluate", where)
            if kind == "call":
                context.open_calls.add(message["callId"])

    async def _pong(self, context: Context, number: int) -> None:
        where = self._devtools, self.session, PROBE_SECONDS, context.unique_id
        if not context.is_left and await runs(*where):
            context.said({"type": "pong", "n": number})

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
        if not self.is_page or has_client or self.tab.is_elsewhere or self._stand_in.link:
            return
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
        tab = {
            "id": self.tab.named(""),
            "docId": self.session,
            "url": self.info.get("url", ""),
            "title": self.info.get("title", ""),
        }
        return {
            "type": "hello",
            "tab": tab,
            "frame": {"top": False},
            "client": {"name": "pagetools"},
        }

    def close(self) -> None:
        """The target has gone, or we from it."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._invocations.close()
        for context in (*self._contexts.values(), *self._left):
            self._end(context)
        self._contexts.clear()
        self._stand_in.end()
        self.settled.set()
