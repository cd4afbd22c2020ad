"""The live panel's side in the kernel: follows tabs and calls, and does what its buttons say.

Knows the directory and the host's loop. Does not know what carries its messages to a front
end, or what that makes of them.

Changes are gathered and sent at most ten times a second; the first one after a pause at once.
``Panel.state`` is the whole at the time of the last message, replaced and never changed in
place, so that any thread may read it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from . import panel_view as view
from .calls import PageCall
from .cells import call_cell, page_snippets
from .directory import PageToolDirectory
from .errors import PageToolsError
from .host import Host
from .panel_view import Json
from .results import from_page
from .text import brief, count, shorten

_logger = logging.getLogger(__name__)

FLUSH_EVERY = 0.1
"""Shortest time in seconds between two messages about changes."""

SHOWN_CALLS = 20
"""How many finished calls are shown, and how many of those on their way at most."""

CALL_TIMEOUT = 120.0
"""Seconds granted to a call made by hand; it has a button to cancel it."""


class Panel:
    """What a front end shows of one bridge.

    Args:
        host: Whose loop everything here runs on.
        directory: What is followed.
        bridge: What is to be said of the bridge itself.

    Attributes:
        send: Takes each message for the front end.
        state: Everything, as of the last message.
    """

    def __init__(
        self, host: Host, directory: PageToolDirectory, bridge: Callable[[], Json]
    ) -> None:
        self.send: Callable[[Json], None] = lambda message: None
        self.state: Json = {"seq": 0, "bridge": bridge(), "tabs": [], "answers": {}}
        self.state |= {"pinned": None, "calls": []}
        self._host = host
        self._directory = directory
        self._bridge = bridge
        self._dirty: set[str] = set()
        self._all_dirty = True
        self._live: dict[str, tuple[PageCall, float]] = {}
        self._dirty_calls: dict[str, tuple[PageCall, float]] = {}
        self._timer: asyncio.Handle | None = None
        self._flushed_at = float("-inf")
        self._unwatch: list[Callable[[], None]] = []
        self._requests: dict[str, Callable[[Json], Json | None]] = {
            "snapshot": lambda request: {"state": self.state},
            "snippet": self._snippet,
            "tools": self._tools,
            "call": self._call,
            "cell": lambda request: {"cell": self._cell(request)},
            "cancel": self._cancel,
            "pin": self._pin,
        }

    def open(self) -> None:
        """Begin to follow. To be called on the host's loop."""
        self._unwatch = [
            self._directory.watch(self._tab_changed),
            self._directory.watch_calls(self._call_began),
        ]
        self.flush()

    def take_over(self, other: Panel) -> None:
        """Go on where another panel stopped, so that a front end sees one story."""
        self.send, self.state = other.send, other.state

    def close(self) -> None:
        """Say how things stand at the end, and follow no more. To be called on the loop."""
        for unwatch in self._unwatch:
            unwatch()
        if self._unwatch:
            self._all_dirty = True
            self.flush()
        self._unwatch = []

    def summary(self) -> str:
        """The panel in one line of counts, without anything a page said."""
        bridge, tabs = self.state["bridge"], self.state["tabs"]
        if bridge["state"] != "running":
            return "pagetools: the bridge is stopped"
        connected = [tab for tab in tabs if tab["number"] is not None]
        tools = sum(len(app["tools"]) for tab in connected for app in tab["apps"])
        return (
            f"pagetools: bridge on port {bridge['port']}, {count(len(connected), 'tab')}, "
            f"{count(tools, 'tool')}"
        )

    # Following

    def _tab_changed(self, tab_id: str | None) -> None:
        if tab_id is None:
            self._all_dirty = True
        else:
            self._dirty.add(tab_id)
        self._plan()

    def _call_began(self, call: PageCall) -> None:
        self._live[call.id] = call, time.time() - call.duration
        call.on_change(self._call_changed)
        self._call_changed(call)

    def _call_changed(self, call: PageCall) -> None:
        if call.id in self._live:
            self._dirty_calls[call.id] = self._live[call.id]
            if call.done():
                del self._live[call.id]
            self._plan()

    def _plan(self) -> None:
        if self._timer is None:
            loop = self._host.loop
            wait = self._flushed_at + FLUSH_EVERY - loop.time()
            # Even at once is not before the present message has been dealt with as a whole.
            self._timer = (
                loop.call_later(wait, self.flush) if wait > 0 else loop.call_soon(self.flush)
            )

    def flush(self) -> None:
        """Send what has changed since the last time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._flushed_at = self._host.loop.time()
        delta = {**self._tabs_delta(), **self._calls_delta()}
        bridge = self._bridge()
        delta |= view.changes(
            {key: self.state[key] for key in ("bridge", "pinned")},
            {"bridge": bridge, "pinned": self._directory.pinned},
        )
        if delta:
            delta["seq"] = self.state["seq"] + 1
            self.state = view.apply(self.state, delta, SHOWN_CALLS)
            self._send({"kind": "delta", **delta})

    def _send(self, message: Json) -> bool:
        try:
            self.send(message)
        except Exception:  # whatever carries it, pages and calls must not suffer
            _logger.exception("the panel could not be told")
            return False
        return True

    def _tabs_delta(self) -> Json:
        if not self._dirty and not self._all_dirty:
            return {}
        known = {tab["id"]: tab for tab in self.state["tabs"]}
        only = None if self._all_dirty else self._dirty
        now = self._look(known, only)
        gone = [key for key in (known if only is None else only) if key in known and key not in now]
        if only is not None and (gone or any(_moved(known.get(key), now[key]) for key in now)):
            self._all_dirty = True  # tabs come and go seldom: then every number is looked at
            return self._tabs_delta()
        touched = [tab for tabs in (known, now) for key, tab in tabs.items() if self._is_dirty(key)]
        answers = self._answers_delta({app["ns"] for tab in touched for app in tab["apps"]})
        self._dirty, self._all_dirty = set(), False
        delta: Json = {}
        changed = {key: view.changes(known.get(key, {}), tab) for key, tab in now.items()}
        if any(changed.values()):
            delta["tabs"] = {key: fields for key, fields in changed.items() if fields}
        if gone:
            delta["removed"] = gone
        if only is None and list(now) != list(known):
            delta["order"] = list(now)
        if answers:
            delta["answers"] = answers
        return delta

    def _look(self, known: Json, only: set[str] | None) -> Json:
        """The tabs as they are now, by id."""
        if only is None:
            return {tab.id: view.tab_state(tab) for tab in self._directory.tabs(all=True)}
        looked_at = {tab.id: view.tab_state(tab) for tab in self._directory.glance(only)}
        for key, tab in looked_at.items():
            tab["number"] = known.get(key, {}).get("number")
        return looked_at

    def _is_dirty(self, tab_id: str) -> bool:
        return self._all_dirty or tab_id in self._dirty

    def _answers_delta(self, namespaces: set[str]) -> Json:
        before = self.state["answers"]
        after = {ns: self._directory.best_of(ns) for ns in namespaces}
        return {ns: tab for ns, tab in after.items() if before.get(ns) != tab}

    def _calls_delta(self) -> Json:
        changed, self._dirty_calls = self._dirty_calls, {}
        # Of thousands only the last ones are shown, and the end of what is shown already.
        shown = {call["id"] for call in self.state["calls"] if call["state"] == "pending"}
        done = [key for key, (call, _) in changed.items() if call.done() and key not in shown]
        begun = [key for key, (call, _) in changed.items() if not call.done() and key not in shown]
        skipped = {*done[:-SHOWN_CALLS], *begun[: -max(1, SHOWN_CALLS - len(shown))]}
        calls = [
            view.call_state(call, started_at)
            for key, (call, started_at) in changed.items()
            if key not in skipped
        ]
        return {"calls": calls} if calls else {}

    # What the front end asks for

    def receive(self, request: Any) -> None:
        """Take a message from the front end, from any thread."""
        try:
            self._host.loop.call_soon_threadsafe(self._take, request)
        except RuntimeError:  # the loop is closed
            if isinstance(request, dict):
                self._reply(request, {"ok": False, "error": "the bridge is stopped", "ms": None})

    def _take(self, request: Any) -> None:
        kind = request.get("kind") if isinstance(request, dict) else None
        if not isinstance(kind, str) or kind not in self._requests:
            _logger.debug("the panel sent something unknown: %s", brief(request))
            return
        try:
            answer = self._requests[kind](request)
        except Exception as problem:
            if not isinstance(problem, PageToolsError):
                _logger.exception("a request of the panel failed")
            answer = {"ok": False, "error": shorten(str(problem), 1000), "ms": None}
        if answer is not None:
            self._reply(request, answer)

    def _reply(self, request: Json, answer: Json) -> None:
        head = {"kind": "reply", "re": request.get("re")}
        if not self._send({**head, **answer}):
            self._send({**head, "ok": False, "error": "the answer cannot be sent", "ms": None})

    def _snippet(self, request: Json) -> Json:
        snippets = page_snippets(self._bridge()["url"])
        return {"snippets": [snippet._asdict() for snippet in snippets]}

    def _tools(self, request: Json) -> Json:
        rows = (row for row in self._directory.list() if row.tab.id == request["tab"])
        return {"tools": [view.tool_details(row.ns, tool) for row in rows for tool in row.tools]}

    def _call(self, request: Json) -> Json | None:
        name, ns, args = request["name"], request["ns"], request["args"]
        cell = self._cell(request)
        try:
            route = self._directory.route(name, ns=ns, tab=_handle(request["tab"]))
            call = self._directory.start(
                route, args, timeout=CALL_TIMEOUT, decode=from_page, validate=True
            )
        except PageToolsError as problem:
            return {"ok": False, "error": shorten(str(problem), 1000), "ms": None, "cell": cell}
        self._reply(request, {"started": call.id})
        call.on_change(partial(self._call_ended, request, cell))
        return None

    def _call_ended(self, request: Json, cell: str, call: PageCall) -> None:
        if call.done():
            self._reply(request, {**view.outcome(call), "cell": cell})

    def _cell(self, request: Json) -> str:
        name, ns, tab_id, args = (request[key] for key in ("name", "ns", "tab", "args"))
        meant = self._directory.route(name, ns=ns, tab=_handle(tab_id)).registration
        ways: list[dict[str, Any]] = [{}, {"ns": ns}, {"tab": self._label(tab_id)}]
        for options in ways:
            with suppress(PageToolsError):
                if self._directory.route(name, **options).registration is meant:
                    return call_cell(name, args, **options)
        return call_cell(name, args, ns=ns, tab=self._label(tab_id))

    def _label(self, tab_id: str | None) -> str | None:
        """The tab's title where that says which one is meant, else its identifier."""
        if tab_id is None:
            return None
        tab = self._directory.tab(_handle(tab_id))
        is_meant = self._directory.clients_of(tab.title) == set(tab.client_ids)
        return tab.title if tab.title and is_meant else tab_id

    def _cancel(self, request: Json) -> None:
        if request["id"] in self._live:
            self._live[request["id"]][0].cancel("cancelled in the panel")

    def _pin(self, request: Json) -> None:
        self._directory.pin(_handle(request["tab"]))


class _Handle(NamedTuple):
    """Names a tab by its identifier alone, which a text might not do."""

    id: str


def _handle(tab_id: str | None) -> _Handle | None:
    return None if tab_id is None else _Handle(tab_id)


def _moved(before: Json | None, after: Json) -> bool:
    return before is None or before["state"] != after["state"]
