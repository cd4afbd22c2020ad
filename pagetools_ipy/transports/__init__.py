"""What a link and a transport are. Nothing here moves a message.

A link is one connection from one document. A transport brings links: it listens, or attaches,
and hands each new link to the bridge for as long as the link lives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from ..results import Image

__all__ = ["FLOOD", "Link", "OnLink", "PageControl", "Transport"]


FLOOD = 4429
"""Close code for a page that says more than can be taken in, or does not read."""


class Link(Protocol):
    """One document's connection, moving messages and nothing else.

    Iterating gives what the page sends, decoded from JSON, until the link ends, however it
    ends. What cannot be decoded is answered with ``rejected`` and left out.
    """

    def send(self, message: dict[str, Any]) -> None:
        """Hand a message over for sending, in order, without waiting.

        Raises:
            ConnectionError: If the link has ended, or its peer does not keep up.
        """

    def close(self, code: int, reason: str) -> None:
        """End the link, without waiting; ``reason`` is for the page. Idempotent."""

    def __aiter__(self) -> AsyncIterator[object]: ...


OnLink = Callable[[Link], Awaitable[None]]
"""Called with each new link; the link is closed when it returns."""


class Transport(Protocol):
    """A way in for pages."""

    async def start(self, on_link: OnLink) -> None:
        """Begin to bring links to ``on_link``."""

    async def close(self) -> None:
        """Bring no more links and end those there are. Idempotent."""


class PageControl(Protocol):
    """Steers a tab; every method may be awaited on any loop.

    Raises:
        BrowserError: If the browser refuses, does not answer in time, or the tab has gone.
    """

    async def navigate(self, url: str, timeout: float | None) -> None: ...
    async def reload(self, timeout: float | None) -> None: ...
    async def screenshot(self, *, full_page: bool) -> Image: ...
    async def answer_dialog(self, accept: bool, text: str | None) -> None: ...
    async def probe(self, expression: str) -> object: ...
