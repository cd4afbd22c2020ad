"""A server on the loopback interface: its port, who may speak to it, its start and its end.

Knows sockets, HTTP and origins. Does not know what is said over a connection.

Only this machine is listened to, and that is no protection by itself: every web page the
person opens can reach a loopback port, and another name can be made to resolve to it. So the
``Host`` must be ours, and whoever serves a connection looks at its ``Origin``.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from weakref import WeakSet

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.typing import Subprotocol

from ..limits import MAX_MESSAGE_BYTES, MAX_URL_CHARS
from . import OnLink

_logger = logging.getLogger(__name__)
# At debug level the library logs handshake headers, and the token is in one of them.
_logger.setLevel(logging.INFO)

HOST = "127.0.0.1"

HANDSHAKE_SECONDS = 10
"""How long a connection may take to say that it is a page."""

MAX_REFUSALS = 20
"""How many of the last pages that were not let in are remembered."""

CLOSE_SECONDS = 1
"""How long pages may take to take leave."""


# Browsers write an origin in one way only: no user, no path, lower case, no default port. They
# resolve *.localhost to loopback without asking anyone (RFC 6761, 6.3).
_LOOPBACK_ORIGIN = re.compile(
    r"https?://(localhost|127\.0\.0\.1|\[::1\]|([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+localhost)"
    r"(:(?P<port>[0-9]{1,5}))?"
)


def is_loopback_origin(origin: str) -> bool:
    """Whether an ``Origin`` header names a page of this machine, compared exactly."""
    found = _LOOPBACK_ORIGIN.fullmatch(origin)
    return found is not None and int(found["port"] or 0) <= 65535


def bind_first(ports: Sequence[int]) -> socket.socket:
    """Take the first loopback port of several that can be had, at once.

    Raises:
        OSError: If none can be had, for the last one.
    """
    for port in ports[:-1]:
        with suppress(OSError):
            return socket.create_server((HOST, port), backlog=1024)
    return socket.create_server((HOST, ports[-1]), backlog=1024)


class Refusal(NamedTuple):
    """A page that was not let in.

    Attributes:
        at: When, in seconds since the epoch.
        origin: Where it said that it comes from; may be empty.
        code, reason: What it was told.
    """

    at: float
    origin: str
    code: int
    reason: str


class LoopbackServer:
    """A server for WebSockets and a few requests; see `Transport`.

    Args:
        listener: A bound and listening socket.

    Attributes:
        refusals: The last pages that were not let in, the oldest first.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._server: Server | None = None
        self._released = False
        self._accepted: WeakSet[ServerConnection] = WeakSet()
        self._on_link: OnLink | None = None
        self.refusals: deque[Refusal] = deque(maxlen=MAX_REFUSALS)
        self.port: int = listener.getsockname()[1]

    async def serve(self, connection: ServerConnection, on_link: OnLink) -> None:
        """Serve one connection, whose handshake is done."""
        raise NotImplementedError

    def answer(self, request: Request, origin: str) -> Response | None:
        """Answer a request; None goes on with its WebSocket handshake."""
        raise NotImplementedError

    def select(self, offered: Sequence[str]) -> str | None:
        """One of the subprotocols that were offered."""
        # A browser fails the handshake when it offered something and nothing is selected.
        return offered[0] if offered else None

    async def start(self, on_link: OnLink) -> None:
        """See `Transport.start`."""
        self._on_link = on_link
        if self._is_released():
            return
        try:
            server = await serve(
                self._handle,
                sock=self._listener,
                create_connection=self._accept,  # type: ignore[arg-type]  # a factory will do
                process_request=self._check,
                process_response=_no_sniffing,
                select_subprotocol=self._select,
                # A pong comes from the browser's network code whatever the page does, and a cell
                # that blocks the loop would make healthy pages look dead.
                ping_timeout=None,
                # Both ends are on one machine: deflate costs a quarter and saves nothing.
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                max_queue=256,
                open_timeout=None,  # see _expect_handshake
                close_timeout=CLOSE_SECONDS,
                logger=_logger,
                server_header=None,
            )
        except OSError:
            if self._is_released():  # while it began to serve
                return
            raise
        self._server = server
        if self._is_released():
            await self.close()

    def _accept(self, *args: Any, **options: Any) -> ServerConnection:
        connection = ServerConnection(*args, **options)
        self._accepted.add(connection)
        self._expect_handshake(connection)
        return connection

    def _expect_handshake(self, connection: ServerConnection) -> None:
        """Give up a connection that does not say what it wants, but not one that did so while
        a cell kept the loop from listening."""
        loop = connection.loop
        due = loop.time() + HANDSHAKE_SECONDS

        def look() -> None:
            if connection.state is State.CONNECTING:
                if loop.time() - due > 1:
                    self._expect_handshake(connection)
                else:
                    connection.transport.abort()

        loop.call_at(due, look)

    def _is_released(self) -> bool:
        return self._released

    def release_port(self) -> None:
        """Stop listening at once, so that the port can be taken again. Idempotent."""
        self._released = True
        if self._server is not None:
            self._server.server.close()
        else:
            self._listener.close()

    async def close(self) -> None:
        """See `Transport.close`."""
        self.release_port()
        if self._server is not None:
            self._server.close(reason="the bridge was stopped")
            # Browsers open connections ahead of need and say nothing on them.
            for connection in tuple(self._accepted):
                if connection.state is State.CONNECTING:
                    connection.transport.abort()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), 2 * CLOSE_SECONDS)

    def _select(self, _: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        selected = self.select(offered)
        return None if selected is None else Subprotocol(selected)

    async def _handle(self, connection: ServerConnection) -> None:
        assert self._on_link is not None
        await self.serve(connection, self._on_link)

    def _check(self, _: ServerConnection, request: Request) -> Response | None:
        headers = request.headers
        host, origin = single_header(headers, "Host"), single_header(headers, "Origin")
        if host is None or origin is None:
            return text_response(HTTPStatus.BAD_REQUEST, "Host and Origin may be given once.\n")
        name, _colon, port = host.rpartition(":")
        if name not in (HOST, "localhost", "[::1]") or port != str(self.port):
            told = "This host name is not the bridge's.\n"
            return text_response(HTTPStatus.MISDIRECTED_REQUEST, told)
        return self.answer(request, origin)

    def note(self, connection: ServerConnection, code: int, reason: str) -> None:
        """Remember that a page was not let in."""
        origin = origin_of(connection)
        self.refusals.append(Refusal(time.time(), origin[:MAX_URL_CHARS], code, reason))


def origin_of(connection: ServerConnection) -> str:
    """Where a connection comes from, as the browser tells it; empty for a program."""
    assert connection.request is not None
    return single_header(connection.request.headers, "Origin") or ""


def single_header(headers: Headers, name: str) -> str | None:
    """A header's value, empty when it is missing; None when it is given more than once."""
    values = headers.get_all(name)
    return None if len(values) > 1 else "".join(values)


def offered_protocols(headers: Headers) -> list[str]:
    """The subprotocols that a handshake offers."""
    return [p.strip() for h in headers.get_all("Sec-WebSocket-Protocol") for p in h.split(",")]


def _no_sniffing(connection: ServerConnection, request: Request, response: Response) -> None:
    # Answers of the library's own, such as 426, come through here as well.
    response.headers["X-Content-Type-Options"] = "nosniff"


def text_response(status: HTTPStatus, body: str) -> Response:
    """An answer in plain text."""
    return response(status, "text/plain; charset=utf-8", body.encode())


def response(status: HTTPStatus, kind: str, body: bytes) -> Response:
    """An answer of one kind of content."""
    headers = Headers()
    headers["Content-Type"] = kind
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    return Response(status.value, status.phrase, headers, body)
