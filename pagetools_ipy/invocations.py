"""Calls to tools whose function only the browser has, made through its ``WebMCP`` domain.

Knows the domain's commands and events, for one session. Does not know pages or links.

What comes back is coarser than what a page says itself. The browser writes results as text and
reads them again, so that the text "42" becomes a number; and it leaves text unread when it holds
nothing beyond Latin-1, which is made good here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .devtools import FOREVER, CommandError, DevTools, Json

OnAnswer = Callable[[Json], None]
"""Takes the rest of a ``result`` message: ``ok`` with ``value`` or ``error``."""

MAX_EARLY = 256
"""How many answers are kept that came before it was known what they answer."""

_LATIN_1 = re.compile("[\x80-\xff]")


@dataclass(eq=False, slots=True)
class _Invocation:
    call_id: str
    answer: OnAnswer
    number: str = ""  # the browser's name for it, once known
    is_made: bool = False
    is_cancelled: bool = False


class Invocations:
    """The calls of one session that are on their way.

    Args:
        devtools: The browser.
        session: The session of the page, or of a frame with a process of its own.
    """

    def __init__(self, devtools: DevTools, session: str) -> None:
        self._devtools = devtools
        self._session = session
        self._enabled: asyncio.Future[Json] | None = None
        self._by_call: dict[str, _Invocation] = {}
        self._by_number: dict[str, _Invocation] = {}
        self._early: dict[str, Json] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._by_call

    def start(self, call_id: str, frame_id: str, name: str, args: Any, answer: OnAnswer) -> None:
        """Call a tool; ``answer`` is called once, unless the call is cancelled or forgotten."""
        invocation = self._by_call[call_id] = _Invocation(call_id, answer)
        call = {"frameId": frame_id, "toolName": name, "input": args or {}}
        task = asyncio.ensure_future(self._invoke(invocation, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _invoke(self, invocation: _Invocation, call: Json) -> None:
        try:
            # Only now, as the browser then tells of every tool that comes and goes.
            await self._enable()
            if self._by_call.get(invocation.call_id) is not invocation:
                return  # nobody waits for it any more
            invocation.is_made = True
            # A page that is busy takes the call late; the call's own deadline ends the wait.
            reply = await self._devtools.send(
                "WebMCP.invokeTool", call, self._session, deadline=FOREVER
            )
        except CommandError as problem:
            error = {"name": "BrowserError", "message": str(problem)}
            self._end(invocation, {"ok": False, "error": error})
            return
        invocation.number = reply["invocationId"]
        if invocation.is_cancelled:
            self._cancel(invocation)
        elif invocation.call_id in self._by_call:
            self._by_number[invocation.number] = invocation
            # The browser may tell the outcome before it tells of which invocation.
            if invocation.number in self._early:
                self.responded(self._early.pop(invocation.number))

    async def _enable(self) -> None:
        if self._enabled is None:
            self._enabled = self._devtools.send(
                "WebMCP.enable", session=self._session, deadline=FOREVER
            )
        enabling = self._enabled
        try:
            await enabling
        except CommandError:
            if self._enabled is enabling:
                self._enabled = None  # the next call tries again
            raise

    def has_begun(self, call_id: str) -> bool:
        """Whether the browser was told of the call."""
        invocation = self._by_call.get(call_id)
        return invocation is not None and invocation.is_made

    def responded(self, event: Json) -> None:
        """Take in ``WebMCP.toolResponded``; others' invocations are told of as well."""
        number = event["invocationId"]
        if number in self._by_number:
            self._end(self._by_number[number], _outcome(event))
        elif len(self._by_number) < len(self._by_call) and len(self._early) < MAX_EARLY:
            self._early[number] = event

    def _end(self, invocation: _Invocation, outcome: Json | None) -> None:
        is_expected = self._by_call.pop(invocation.call_id, None) is not None
        self._by_number.pop(invocation.number, None)
        if len(self._by_number) == len(self._by_call):
            self._early.clear()
        if is_expected and outcome is not None:
            invocation.answer(outcome)

    def cancel(self, call_id: str) -> None:
        """Tell the page to stop; nothing is answered any more."""
        invocation = self._by_call.get(call_id)
        if invocation is not None:
            self._end(invocation, None)
            invocation.is_cancelled = True
            if invocation.number:
                self._cancel(invocation)

    def _cancel(self, invocation: _Invocation) -> None:
        cancelled = {"invocationId": invocation.number}
        self._devtools.send("WebMCP.cancelInvocation", cancelled, self._session)

    def forget(self, call_id: str) -> None:
        """Wait for its answer no more."""
        invocation = self._by_call.get(call_id)
        if invocation is not None:
            self._end(invocation, None)

    def close(self) -> None:
        """Wait for nothing any more."""
        for task in self._tasks:
            task.cancel()
        self._by_call.clear()
        self._by_number.clear()
        self._early.clear()


def _outcome(event: Json) -> Json:
    match event.get("status"):
        case "Completed":
            return {"ok": True, "value": _value(event.get("output"))}
        case "Canceled":
            problem = "the page or the browser cancelled it, as a form does that is reset"
            return {"ok": False, "error": {"name": "AbortError", "message": problem}}
        case _:
            return {"ok": False, "error": _error(event)}


def _value(output: Any) -> Any:
    if output == "undefined":
        return None
    if isinstance(output, str) and _LATIN_1.search(output):
        try:
            return json.loads(output)
        except (ValueError, RecursionError):
            return output
    return output


def _error(event: Json) -> Json:
    exception = event.get("exception") or {}
    text = event.get("errorText") or exception.get("description") or ""
    if not text and "value" in exception:  # something was thrown that is no error
        thrown = exception["value"]
        text = thrown if isinstance(thrown, str) else json.dumps(thrown)
    elif exception.get("type") == "undefined":
        text = "undefined"
    first, _, rest = text.partition("\n")
    name, colon, message = first.partition(": ")
    if not colon or not re.fullmatch(r"[A-Za-z_$][\w$]*", name):
        name, message = exception.get("className") or "Error", first
    message = message or "the tool failed and the browser gave no reason"
    lines = rest.split("\n") if rest else []
    told = [line for line in lines if not line.lstrip().startswith("at ")]
    return {
        "name": name,
        "message": "\n".join([message, *told]),
        "stack": text if len(told) < len(lines) else None,
    }
