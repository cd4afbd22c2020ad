"""Commands to a browser and events from it, over one socket of its debugging port.

Knows the envelope of the Chrome DevTools Protocol, in which one socket carries the sessions of
all tabs. Does not know what a command does.

Every command has a deadline of its own: a tab that crashed, froze or shows a dialog answers
nothing, and nobody else is to wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import broadcast
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from .errors import BrowserError

_logger = logging.getLogger(__name__)

Json = dict[str, Any]
OnEvent = Callable[[str, Json, str], None]
"""Is told of an event: its name, what it says, and the session it is of, empty for the browser."""

COMMAND_SECONDS = 5.0
"""How long a command may take, unless it is said otherwise."""

FOREVER = 24 * 3600.0
"""For what a page answers when it comes to it, and what ends with the page or the connection."""

CONNECT_SECONDS = 10.0
"""How long a browser may take to let us in; some ask the person first."""

# Whatever pages write to their consoles comes along, and is of no use here.
_CONSOLE = '{"method":"Runtime.consoleAPICalled"'


class CommandError(BrowserError):
    """The browser refused a command, did not answer it in time, or has gone.

    Attributes:
        method: The command.
        is_late: Whether no answer came in time; one that comes later is dropped.
    """

    def __init__(self, method: str, problem: str, *, is_late: bool = False) -> None:
        super().__init__(f"{method}: {problem}")
        self.method = method
        self.is_late = is_late


class Socket(Protocol):
    """Carries the texts of one connection; iterating ends when the connection does."""

    def send(self, text: str) -> None:
        """Hand a text over without waiting. Without effect when the connection has ended."""

    def close(self) -> None:
        """End the connection without waiting. Idempotent."""

    def __aiter__(self) -> AsyncIterator[str]: ...


class BrowserSocket:
    """The WebSocket to a browser."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, address: str) -> BrowserSocket:
        """Connect to a browser's ``ws://`` address.

        Raises:
            BrowserError: If nothing answers there, or the browser refuses.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                # Headers a browser is wary of stay out; pages' results may be of any size.
                connection = await connect(
                    address,
                    max_size=None,
                    ping_interval=None,
                    compression=None,
                    proxy=None,
                    user_agent_header=None,
                )
        except InvalidStatus as problem:
            status = problem.response.status_code
            raise BrowserError(f"the browser refused the connection (HTTP {status})") from None
        except TimeoutError:
            raise BrowserError(
                f"the browser did not let us in within {CONNECT_SECONDS:g} s; does it ask you, "
                "in a window of its own, whether to allow debugging?"
            ) from None
        except (OSError, WebSocketException) as problem:
            raise BrowserError(f"cannot connect to the browser: {problem}") from None
        return cls(connection)

    def send(self, text: str) -> None:
        """See `Socket.send`."""
        # The library's way to write without waiting.
        broadcast([self._connection], text)

    def close(self) -> None:
        """See `Socket.close`."""
        self._connection.transport.abort()

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            async for text in self._connection:
                yield text if isinstance(text, str) else text.decode()
        except ConnectionClosed:
            return


class DevTools:
    """One connection to a browser.

    Args:
        socket: Carries it.
        on_event: Is told of events, in the order they come, while `listen` runs.
    """

    def __init__(self, socket: Socket, on_event: OnEvent) -> None:
        self._socket = socket
        self._on_event = on_event
        self._waiting: dict[int, tuple[str, asyncio.Future[Json], asyncio.TimerHandle]] = {}
        self._last = 0
        self._is_over = False

    def send(
        self,
        method: str,
        params: Json | None = None,
        session: str = "",
        *,
        deadline: float = COMMAND_SECONDS,
    ) -> asyncio.Future[Json]:
        """Send a command, at once; to be called on the connection's loop.

        Args:
            method: Such as ``Page.reload``.
            params: What goes with it.
            session: The session it is for; empty for the browser as a whole.
            deadline: Seconds within which it is to be answered.

        Returns:
            A future of what it gives, or of a `CommandError`. It may be left alone.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Json] = loop.create_future()
        outcome.add_done_callback(_looked_at)
        if self._is_over:
            outcome.set_exception(CommandError(method, "the browser has gone"))
            return outcome
        self._last += 1
        number = self._last
        message: Json = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        timer = loop.call_later(deadline, self._expire, number, deadline)
        self._waiting[number] = method, outcome, timer
        # Escaped to ASCII: a page's lone surrogates must not end the connection.
        self._socket.send(json.dumps(message))
        return outcome

    def _expire(self, number: int, deadline: float) -> None:
        method, outcome, _ = self._waiting.pop(number)
        if not outcome.done():
            problem = f"no answer within {deadline:g} s"
            outcome.set_exception(CommandError(method, problem, is_late=True))

    async def listen(self) -> None:
        """Take in what the browser says, until the connection ends."""
        try:
            async for text in self._socket:
                if not text.startswith(_CONSOLE):
                    try:
                        self._take(_read(text))
                    except Exception:
                        # Contained: without an answer from here no new page would go on.
                        _logger.exception("what the browser said could not be taken in")
        finally:
            self._is_over = True
            for method, outcome, timer in self._waiting.values():
                timer.cancel()
                if not outcome.done():
                    outcome.set_exception(CommandError(method, "the browser has gone"))
            self._waiting.clear()

    def _take(self, message: Json) -> None:
        if "id" not in message:
            self._on_event(message["method"], message["params"], message.get("sessionId", ""))
            return
        if message["id"] not in self._waiting:
            return  # its time was up
        method, outcome, timer = self._waiting.pop(message["id"])
        timer.cancel()
        if outcome.done():
            return  # nobody wants to know
        if "error" in message:
            problem = message["error"].get("message", "refused")
            outcome.set_exception(CommandError(method, problem))
        else:
            outcome.set_result(message["result"])

    def close(self) -> None:
        """End the connection, without waiting; the browser then forgets what was set up over it."""
        self._socket.close()


def _read(text: str) -> Json:
    try:
        message: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        message = json.loads(text)  # lone surrogates, which pages may well send
    return message


def _looked_at(outcome: asyncio.Future[Json]) -> None:
    """Tell asyncio that somebody knows of a failure, also where nobody awaits it."""
    if not outcome.cancelled():
        outcome.exception()
