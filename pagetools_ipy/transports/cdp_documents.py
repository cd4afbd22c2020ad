"""The documents of a target, and what stands in for one.

Knows what is remembered of each, and how long one that was left still has its say. Does not
know the browser.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .. import frames
from ..invocations import Invocations
from ..limits import MAX_MESSAGE_BYTES, MAX_NAME_CHARS, MAX_NAMESPACES
from .cdp_link import CdpLink

Json = dict[str, Any]

LAST_WORD_SECONDS = 2.0
"""How long a document that was left is waited for: the browser may still tell how its calls
ended, and of a form it tells what the next page says."""


CHANGE_OVER_SECONDS = 0.5
"""How long a page that reaches the bridge by itself is told of twice, so that its tools are there
all the time."""


class TabOfTargets:
    """What the targets of one tab have in common.

    Attributes:
        target_id: The browser's name for the tab; stays the same wherever it navigates.
        id: Our identifier of it, once known.
        is_elsewhere: Whether its page reaches the bridge by itself.
    """

    def __init__(self, target_id: str) -> None:
        self.target_id = target_id
        self.id = ""
        self.is_elsewhere = False

    def named(self, proposed: str) -> str:
        """Its identifier; the first one that is proposed stays."""
        self.id = self.id or proposed or self.target_id
        return self.id


class Context:
    """A document's scripts: where its client runs. Takes messages as `Document` does.

    Args:
        unique_id: The browser's name for it, never used again.
        frame_id: The frame it is in.
        invocations: Calls tools whose function only the browser has.
        deliver: Takes a message to its client.
        lost: Is told that the bridge has ended its link.

    Attributes:
        link: Its link, once its client has said hello.
        hello: What its client said of it last.
        is_left: Whether it is not the frame's document any more.
    """

    def __init__(
        self,
        unique_id: str,
        frame_id: str,
        invocations: Invocations,
        *,
        deliver: Callable[[Context, Json], None],
        lost: Callable[[Context], None],
    ) -> None:
        self.unique_id = unique_id
        self.frame_id = frame_id
        self.link: CdpLink | None = None
        self.hello: Json = {}
        self.is_left = False
        self._invocations = invocations
        self._deliver = deliver
        self._lost = lost
        self._is_retired = False
        self._namespaces: set[str] = set()
        self._open: set[str] = set()  # calls that are neither answered nor cancelled
        self._native: set[str] = set()  # those of them that the browser makes
        self._expiry: asyncio.TimerHandle | None = None

    # For the link

    def deliver(self, message: Json) -> None:
        """See `Document.deliver`."""
        kind, call_id = message.get("type"), message.get("callId", "")
        if kind == "call":
            self._open.add(call_id)
        elif kind == "cancel":
            self._open.discard(call_id)
            if call_id in self._native:
                self._native.discard(call_id)
                self._invocations.cancel(call_id)
                self._end_if_done()
                return
        self._deliver(self, message)
        if kind == "cancel":
            self._end_if_done()

    def closed(self, link: CdpLink, code: int, reason: str) -> None:
        """See `Document.closed`."""
        if link is self.link:
            self._forget()
            self._deliver(self, {"v": 1, "type": "closed", "code": code, "reason": reason})
            self._lost(self)

    # What its client says

    def greet(self, hello: Json, make_link: Callable[[Context], CdpLink]) -> None:
        """Take in what it says of itself."""
        self.hello, self.is_left, self._is_retired = hello, False, False
        self._stop_expiry()
        if self.link is None:
            self.link = make_link(self)
        self.said(hello)

    def said(self, raw: object, size: int = 0) -> None:
        """Pass on what it says, a text of ``size`` characters."""
        if self.link is None:
            return
        kind = raw.get("type") if isinstance(raw, dict) else None
        if isinstance(raw, dict) and kind == "register":
            self._note_namespace(raw.get("ns"))
        elif isinstance(raw, dict) and kind == "result":
            self._open.discard(str(raw.get("callId")))
        self.link.feed(raw, size)
        if kind == "result":
            self._end_if_done()

    def _note_namespace(self, ns: object) -> None:
        is_sound = isinstance(ns, str) and len(ns) <= MAX_NAME_CHARS
        if is_sound and len(self._namespaces) < MAX_NAMESPACES:
            self._namespaces.add(str(ns))

    def invoke(self, raw: Json) -> None:
        """Have the browser make one of the calls that its client was asked for."""
        call_id, name = raw.get("callId"), raw.get("name")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return
        if call_id not in self._open or call_id in self._native:
            return  # cancelled before its client came to it; or asked for twice
        self._native.add(call_id)

        def answer(outcome: Json) -> None:
            self._native.discard(call_id)
            self.said({"type": "result", "callId": call_id, **_bounded(outcome)})

        self._invocations.start(call_id, self.frame_id, name, raw.get("args"), answer)

    # Its end

    def retire(self) -> None:
        """Have others take its place in the tab; it still answers what it was asked."""
        if self.link is None or self._is_retired:
            return
        self._is_retired = True
        self.said({**self.hello, "frame": {"top": False}})
        for ns in tuple(self._namespaces):
            self.said({"type": "register", "ns": ns, "tools": []})
        self._end_if_done()

    def make_way(self) -> None:
        """Retire when its page has surely declared its tools over its own connection."""
        if self.link is not None and not self._is_retired:
            self._stop_expiry()
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(CHANGE_OVER_SECONDS, self.retire)

    def leave(self) -> None:
        """It is not the frame's document any more. Those calls that the browser makes may yet be
        answered, and are waited for; the others have gone with it."""
        self.is_left = True
        for call_id in tuple(self._native):
            if not self._invocations.has_begun(call_id):  # the next document must not get it
                self._invocations.forget(call_id)
                self._native.discard(call_id)
        if not self._native:
            self.end()
        elif self.link is not None:
            self._open &= self._native
            self.retire()
            loop = asyncio.get_running_loop()
            self._stop_expiry()
            self._expiry = loop.call_later(LAST_WORD_SECONDS, self.end)

    def _end_if_done(self) -> None:
        if (self._is_retired or self.is_left) and not self._open:
            self.end()

    def end(self) -> None:
        """End its link."""
        link = self.link
        self._forget()
        if link is not None:
            link.end()

    def _forget(self) -> None:
        self._stop_expiry()
        self.link = None
        for call_id in self._native:
            self._invocations.forget(call_id)
        self._open.clear()
        self._native.clear()
        self._namespaces.clear()

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


def _bounded(outcome: Json) -> Json:
    """The outcome of a call, unless it is larger than a page may send."""
    size = len(frames.encode(outcome))
    if size <= MAX_MESSAGE_BYTES:
        return outcome
    message = f"result too large: {size:,} bytes > {MAX_MESSAGE_BYTES:,}"
    return {"ok": False, "error": {"name": "RangeError", "message": message}}


class StandIn:
    """Speaks for a tab whose page does not: it is held, not in memory, or none of ours.

    Args:
        deliver: Takes a message that concerns the tab.
    """

    def __init__(self, deliver: Callable[[Json], None]) -> None:
        self.link: CdpLink | None = None
        self._deliver = deliver

    def deliver(self, message: Json) -> None:
        """See `Document.deliver`."""
        self._deliver(message)

    def closed(self, link: CdpLink, code: int, reason: str) -> None:
        """See `Document.closed`."""
        if link is self.link:
            self.link = None

    def said(self, raw: Json) -> None:
        """Say something in the page's place, if it speaks for one now."""
        if self.link is not None:
            self.link.feed(raw)

    def end(self) -> None:
        """Speak for the page no more."""
        if self.link is not None:
            self.link.end()
            self.link = None
