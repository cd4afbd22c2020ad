"""A page's messages between the thread that talks to its browser and the bridge's loop.

Knows the two loops. Does not know the browser or what a message means.

The browser has a thread of its own because it pauses every new page until our script is in it:
no page may wait for a cell that keeps the bridge's loop busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Protocol

from . import FLOOD, OnLink

MAX_UNREAD = 64 * 1024 * 1024
"""How much of one page may wait for the bridge's loop, in characters, before its link is ended."""

MAX_REPORTED = 1024 * 1024
"""How much may wait before reports of progress are left out, of which more will come."""

MESSAGE_COST = 512
"""What each message counts for beside its text."""


class Document(Protocol):
    """The browser's side of a link; its methods are called on the browser's loop."""

    def deliver(self, message: dict[str, Any]) -> None:
        """Take a message to the page."""

    def closed(self, link: CdpLink, code: int, reason: str) -> None:
        """The bridge has ended one of its links."""


class CdpLink:
    """A document's link; see `Link`.

    Args:
        document: Where messages go.
        bridge_loop: The bridge's loop; `send`, `close` and iterating are for it alone.
        browser_loop: The loop that talks to the browser; `feed` and `end` are for it alone.
    """

    def __init__(
        self,
        document: Document,
        bridge_loop: asyncio.AbstractEventLoop,
        browser_loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._document = document
        self._bridge_loop = bridge_loop
        self._browser_loop = browser_loop
        self._queue: asyncio.Queue[tuple[object, int]] = asyncio.Queue()
        # Each counted on its own loop only.
        self._fed = self._taken = 0
        self._has_ended = False

    def open(self, on_link: OnLink) -> None:
        """Bring the link to the bridge. To be called on the browser's loop."""

        async def serve() -> None:
            await on_link(self)
            self.close(1000, "")

        with suppress(RuntimeError):  # the bridge's loop has been closed
            asyncio.run_coroutine_threadsafe(serve(), self._bridge_loop)

    # For the bridge's loop

    def send(self, message: dict[str, Any]) -> None:
        """See `Link.send`."""
        if self._has_ended:
            raise ConnectionError("the link has ended")
        self._cross(self._browser_loop, self._document.deliver, message)

    def close(self, code: int, reason: str) -> None:
        """See `Link.close`."""
        if not self._has_ended:
            self._has_ended = True
            self._queue.put_nowait((_END, 0))
            with suppress(ConnectionError):
                self._cross(self._browser_loop, self._document.closed, self, code, reason)

    async def __aiter__(self) -> AsyncIterator[object]:
        while True:
            raw, cost = await self._queue.get()
            self._taken += cost
            if raw is _END:
                return
            yield raw

    def _cross(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any
    ) -> None:
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop has been closed
            raise ConnectionError("the link has ended") from None

    # For the browser's loop

    def feed(self, raw: object, size: int = 0) -> None:
        """Take what the page says, a text of ``size`` characters."""
        unread = self._fed - self._taken
        if unread > MAX_UNREAD:
            self.end()
            self._document.closed(self, FLOOD, "the page says more than can be taken in")
        elif unread < MAX_REPORTED or not _is_report(raw):
            self._put(raw, size + MESSAGE_COST)

    def end(self) -> None:
        """The document has gone."""
        self._put(_END, 0)

    def _put(self, raw: object, cost: int) -> None:
        self._fed += cost
        with suppress(ConnectionError):
            self._cross(self._bridge_loop, self._took, raw, cost)

    def _took(self, raw: object, cost: int) -> None:
        if raw is _END:
            self._has_ended = True
        self._queue.put_nowait((raw, cost))


def _is_report(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "progress"


_END = object()
