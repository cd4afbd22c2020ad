"""The documents of a target, and what stands in for one.

Knows what is remembered of each. Does not know the browser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cdp_link import CdpLink

Json = dict[str, Any]


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
        deliver: Takes a message to its client.

    Attributes:
        hello: What its client said of it last.
        namespaces: What it declared.
        calls: Calls to it that the browser was asked to make.
        open_calls: Calls to it that are not answered yet.
        is_retired: Whether it is told of no more, and only answers what it was asked.
        is_left: Whether it is not the frame's document any more.
    """

    def __init__(
        self, unique_id: str, frame_id: str, deliver: Callable[[Context, Json], None]
    ) -> None:
        self.unique_id = unique_id
        self.frame_id = frame_id
        self.link: CdpLink | None = None
        self.hello: Json = {}
        self.namespaces: set[str] = set()
        self.calls: set[str] = set()
        self.open_calls: set[str] = set()
        self.is_retired = False
        self.is_left = False
        self._deliver = deliver

    def deliver(self, message: Json) -> None:
        """See `Document.deliver`."""
        self._deliver(self, message)

    def closed(self, code: int, reason: str) -> None:
        """See `Document.closed`."""
        if self.link is not None:
            self.link = None
            self.deliver({"v": 1, "type": "closed", "code": code, "reason": reason})

    def said(self, raw: object) -> None:
        """Pass on what its client says."""
        if self.link is None:
            return
        if isinstance(raw, dict) and raw.get("type") == "register":
            self.namespaces.add(str(raw.get("ns")))
        elif isinstance(raw, dict) and raw.get("type") == "result":
            self.open_calls.discard(str(raw.get("callId")))
        self.link.feed(raw)

    def retire(self) -> None:
        """Have others take its place in the tab; it still answers what it was asked."""
        if self.link is not None and not self.is_retired:
            self.is_retired = True
            self.link.feed({**self.hello, "frame": {"top": False}})
            for ns in self.namespaces:
                self.link.feed({"type": "register", "ns": ns, "tools": []})


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

    def closed(self, code: int, reason: str) -> None:
        """See `Document.closed`."""
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
