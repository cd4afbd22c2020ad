"""Serves pages on the loopback interface: messages over WebSocket, the page client over HTTP.

Knows sockets, HTTP and who may come in. Does not know what messages mean.

Only this machine is listened to, and that is no protection by itself: every web page the
person opens can reach a loopback port, and another name can be made to resolve to it. So the
``Host`` must be ours, and the ``Origin`` must be a loopback one unless the page brings the
token.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import mimetypes
import re
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from importlib import resources
from typing import Any, NamedTuple
from weakref import WeakSet

from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.typing import Subprotocol

from .. import frames, messages
from ..errors import BridgeError, MessageError
from ..limits import MAX_MESSAGE_BYTES, MAX_URL_CHARS
from . import OnLink

_logger = logging.getLogger(__name__)
# At debug level the library logs handshake headers, and the token is in one of them.
_logger.setLevel(logging.INFO)

HOST = "127.0.0.1"
DEFAULT_PORT = 9319
PORTS_TRIED = 10
SOCKET_PATH = "/tools"
PROTOCOL = "pagetools.v1"
CHECK_PROTOCOL = "pagetools.check"
"""Asked for by who only wants to know whether a page is let in."""
TOKEN_PREFIX = "pagetools.token."

BAD_TOKEN = 4401
BAD_ORIGIN = 4403
FLOOD = 4429

HANDSHAKE_SECONDS = 10
"""How long a connection may take to say that it is a page."""

MAX_REFUSALS = 20
"""How many of the last pages that were not let in are remembered."""

CLOSE_SECONDS = 1
"""How long pages may take to take leave."""

MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""How much may wait for a page that does not read before its link is ended."""

_STATIC = resources.files("pagetools_ipy") / "static"
_PARTS = sorted(part.name for part in (_STATIC / "pagetools").iterdir())

FILES = {
    "/pagetools.js": "pagetools.js",
    **{f"/pagetools/{part}": f"pagetools/{part}" for part in _PARTS if part.endswith(".js")},
    "/demo": "demo.html",
    "/demo.js": "demo.js",
    "/demo.css": "demo.css",
    "/doctor": "doctor.html",
    "/doctor.js": "doctor.js",
    "/doctor.css": "doctor.css",
    "/examination.js": "examination.js",
}
"""What is served, and from which file of the package; nothing else on disk can be reached."""


# Browsers write an origin in one way only: no user, no path, lower case, no default port. They
# resolve *.localhost to loopback without asking anyone (RFC 6761, 6.3).
_LOOPBACK_ORIGIN = re.compile(
    r"https?://(localhost|127\.0\.0\.1|\[::1\]|([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+localhost)"
    r"(:(?P<port>[0-9]{1,5}))?"
)


def bind(port: int | None = None) -> socket.socket:
    """Take a loopback port, at once.

    Args:
        port: Exactly this one; None takes the first free one of ten from 9319 on.

    Raises:
        BridgeError: If it is taken, or all ten are.
    """
    if port is not None and not 0 <= port <= 65535:
        raise BridgeError(f"expected a port from 0 to 65535, got {port}", port=port)
    candidates = [port] if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED)
    for candidate in candidates:
        try:
            return socket.create_server((HOST, candidate), backlog=1024)
        except OSError as problem:
            failure = problem.strerror or str(problem)
    if port is not None:
        raise BridgeError(
            f"port {port} cannot be used ({failure}); leave --port out to take a free one, or end "
            "what uses it, perhaps the bridge of another notebook",
            port=port,
        )
    last = DEFAULT_PORT + PORTS_TRIED - 1
    raise BridgeError(
        f"none of the ports {DEFAULT_PORT} to {last} can be used ({failure}); "
        "choose another with --port",
        port=DEFAULT_PORT,
    )


def is_loopback_origin(origin: str) -> bool:
    """Whether an ``Origin`` header names a page of this machine, compared exactly."""
    found = _LOOPBACK_ORIGIN.fullmatch(origin)
    return found is not None and int(found["port"] or 0) <= 65535


class WebSocketLink:
    """A page's WebSocket."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._closing: asyncio.Task[None] | None = None

    def send(self, message: dict[str, Any]) -> None:
        """See `Link.send`."""
        if self._closing is not None or self._connection.close_code is not None:
            raise ConnectionError("the link has ended")
        # broadcast() is the library's way to write without waiting; it leaves the question of
        # a peer that does not read to its caller.
        if self._connection.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.close(FLOOD, "the page does not read what it is sent")
            raise ConnectionError("the page does not read what it is sent")
        broadcast([self._connection], frames.encode(message), text=True)

    def close(self, code: int, reason: str) -> None:
        """See `Link.close`."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._connection.close(code, reason))

    async def __aiter__(self) -> AsyncIterator[object]:
        try:
            async for frame in self._connection:
                try:
                    raw = frames.decode(frame)
                except MessageError as problem:
                    self.send(messages.dump(messages.Rejected(problem.reason, problem.problem, "")))
                else:
                    yield raw
        except (ConnectionClosed, ConnectionError):
            return


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


class WebSocketTransport:
    """The bridge's server: ``/tools`` for pages, and the files they load.

    Args:
        listener: A bound and listening socket, from `bind`.
        token: Lets a page of any origin in.

    Attributes:
        refusals: The last pages that were not let in, the oldest first.
    """

    def __init__(self, listener: socket.socket, token: str) -> None:
        self._listener = listener
        self._token = token
        self._server: Server | None = None
        self._released = False
        self._accepted: WeakSet[ServerConnection] = WeakSet()
        self._on_link: OnLink | None = None
        self.refusals: deque[Refusal] = deque(maxlen=MAX_REFUSALS)
        self.port: int = listener.getsockname()[1]

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
                process_request=self._answer_http,
                process_response=_no_sniffing,
                select_subprotocol=_select_subprotocol,
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

    async def _handle(self, connection: ServerConnection) -> None:
        assert self._on_link is not None
        refusal = self._refuse(connection)
        if refusal is not None:
            # Refused after the handshake, since a page cannot read why a handshake failed.
            self._note(connection, *refusal)
            await connection.close(*refusal)
        elif connection.subprotocol == CHECK_PROTOCOL:
            await connection.close(1000, "this page is let in")
        else:
            await self._on_link(WebSocketLink(connection))

    def _note(self, connection: ServerConnection, code: int, reason: str) -> None:
        assert connection.request is not None
        origin = single_header(connection.request.headers, "Origin") or ""
        self.refusals.append(Refusal(time.time(), origin[:MAX_URL_CHARS], code, reason))

    def _refuse(self, connection: ServerConnection) -> tuple[int, str] | None:
        request = connection.request
        assert request is not None
        offered = offered_protocols(request.headers)
        tokens = [p.removeprefix(TOKEN_PREFIX) for p in offered if p.startswith(TOKEN_PREFIX)]
        if tokens:
            if hmac.compare_digest(tokens[0].encode(), self._token.encode()):
                return None
            return BAD_TOKEN, "the token is not this bridge's; copy the snippet again"
        origin = single_header(request.headers, "Origin") or ""
        if is_loopback_origin(origin):
            return None
        who = "a page without an origin" if origin in ("", "null") else origin
        return BAD_ORIGIN, f"{who} is not on this machine and brings no token"[:120]

    def _answer_http(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer what is not a WebSocket handshake; None goes on with the handshake."""
        host, origin = (
            single_header(request.headers, "Host"),
            single_header(request.headers, "Origin"),
        )
        if host is None or origin is None:
            return text_response(HTTPStatus.BAD_REQUEST, "Host and Origin may be given once.\n")
        if not self._is_our_host(host):
            return text_response(
                HTTPStatus.MISDIRECTED_REQUEST, "This host name is not the bridge's.\n"
            )
        if request.method not in ("GET", "HEAD"):
            response = text_response(
                HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered.\n"
            )
            response.headers["Allow"] = "GET, HEAD"
            return response
        path = request.path.partition("?")[0]
        if path == SOCKET_PATH:
            return None
        if path == "/health":
            response = text_response(HTTPStatus.OK, "pagetools bridge\n")
            # Pages probe this before they dial, also such as embed only what allows it.
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        elif path in FILES:
            response = _file(FILES[path], origin)
        else:
            response = text_response(HTTPStatus.NOT_FOUND, "Not found.\n")
        if request.method == "HEAD":
            response.body = b""
        return response

    def _is_our_host(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        return name in (HOST, "localhost", "[::1]") and port == str(self.port)


def single_header(headers: Headers, name: str) -> str | None:
    """A header's value, empty when it is missing; None when it is given more than once."""
    values = headers.get_all(name)
    return None if len(values) > 1 else "".join(values)


def _no_sniffing(connection: ServerConnection, request: Request, response: Response) -> None:
    # Answers of the library's own, such as 426, come through here as well.
    response.headers["X-Content-Type-Options"] = "nosniff"


def offered_protocols(headers: Headers) -> list[str]:
    return [p.strip() for h in headers.get_all("Sec-WebSocket-Protocol") for p in h.split(",")]


def _select_subprotocol(
    connection: ServerConnection, offered: Sequence[Subprotocol]
) -> Subprotocol | None:
    # A browser fails the handshake when it offered something and nothing is selected.
    names = [p for p in offered if not p.startswith(TOKEN_PREFIX)]
    return next((p for p in names if p == PROTOCOL), names[0] if names else None)


def text_response(status: HTTPStatus, body: str) -> Response:
    return _response(status, "text/plain; charset=utf-8", body.encode())


def _file(name: str, origin: str) -> Response:
    body = (_STATIC / name).read_bytes()
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind = "text/javascript" if name.endswith(".js") else kind
    response = _response(HTTPStatus.OK, f"{kind}; charset=utf-8", body)
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Vary"] = "Origin"
    # A module script of another origin is only run with leave; give it to whom we let in.
    if is_loopback_origin(origin):
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


def _response(status: HTTPStatus, kind: str, body: bytes) -> Response:
    headers = Headers()
    headers["Content-Type"] = kind
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    return Response(status.value, status.phrase, headers, body)
