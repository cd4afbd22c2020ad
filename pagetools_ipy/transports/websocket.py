"""Serves pages on the loopback interface: messages over WebSocket, the page client over HTTP.

Knows the files of the page's side and who may come in. Does not know what messages mean.

The ``Origin`` must be a loopback one unless the page brings the token.
"""

from __future__ import annotations

import asyncio
import hmac
import mimetypes
import socket
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from importlib import resources
from typing import Any

from websockets.asyncio.server import ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from .. import frames, messages
from ..errors import BridgeError, MessageError
from . import FLOOD, OnLink
from .loopback import (
    LoopbackServer,
    bind_first,
    is_loopback_origin,
    offered_protocols,
    origin_of,
    response,
    text_response,
)

DEFAULT_PORT = 9319
PORTS_TRIED = 10
SOCKET_PATH = "/tools"
PROTOCOL = "pagetools.v1"
CHECK_PROTOCOL = "pagetools.check"
"""Asked for by who only wants to know whether a page is let in."""
TOKEN_PREFIX = "pagetools.token."

BAD_TOKEN = 4401
BAD_ORIGIN = 4403

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


def bind(port: int | None = None) -> socket.socket:
    """Take a loopback port, at once.

    Args:
        port: Exactly this one; None takes the first free one of ten from 9319 on.

    Raises:
        BridgeError: If it is taken, or all ten are.
    """
    if port is not None and not 0 <= port <= 65535:
        raise BridgeError(f"expected a port from 0 to 65535, got {port}", port=port)
    last = DEFAULT_PORT + PORTS_TRIED - 1
    try:
        return bind_first([port] if port is not None else range(DEFAULT_PORT, last + 1))
    except OSError as problem:
        failure = problem.strerror or str(problem)
    if port is not None:
        raise BridgeError(
            f"port {port} cannot be used ({failure}); leave --port out to take a free one, or end "
            "what uses it, perhaps the bridge of another notebook",
            port=port,
        )
    raise BridgeError(
        f"none of the ports {DEFAULT_PORT} to {last} can be used ({failure}); "
        "choose another with --port",
        port=DEFAULT_PORT,
    )


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


class WebSocketTransport(LoopbackServer):
    """The bridge's server: ``/tools`` for pages, and the files they load.

    Args:
        listener: A bound and listening socket, from `bind`.
        token: Lets a page of any origin in.
    """

    def __init__(self, listener: socket.socket, token: str) -> None:
        super().__init__(listener)
        self._token = token

    async def serve(self, connection: ServerConnection, on_link: OnLink) -> None:
        """See `LoopbackServer.serve`."""
        refusal = self._refuse(connection)
        if refusal is not None:
            # Refused after the handshake, since a page cannot read why a handshake failed.
            self.note(connection, *refusal)
            await connection.close(*refusal)
        elif connection.subprotocol == CHECK_PROTOCOL:
            await connection.close(1000, "this page is let in")
        else:
            await on_link(WebSocketLink(connection))

    def _refuse(self, connection: ServerConnection) -> tuple[int, str] | None:
        assert connection.request is not None
        offered = offered_protocols(connection.request.headers)
        tokens = [p.removeprefix(TOKEN_PREFIX) for p in offered if p.startswith(TOKEN_PREFIX)]
        if tokens:
            if hmac.compare_digest(tokens[0].encode(), self._token.encode()):
                return None
            return BAD_TOKEN, "the token is not this bridge's; copy the snippet again"
        origin = origin_of(connection)
        if is_loopback_origin(origin):
            return None
        who = "a page without an origin" if origin in ("", "null") else origin
        return BAD_ORIGIN, f"{who} is not on this machine and brings no token"[:120]

    def select(self, offered: Sequence[str]) -> str | None:
        """See `LoopbackServer.select`; never the token, which is offered as if it were one."""
        names = [name for name in offered if not name.startswith(TOKEN_PREFIX)]
        return PROTOCOL if PROTOCOL in names else super().select(names)

    def answer(self, request: Request, origin: str) -> Response | None:
        """See `LoopbackServer.answer`."""
        if request.method not in ("GET", "HEAD"):
            told = text_response(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered.\n")
            told.headers["Allow"] = "GET, HEAD"
            return told
        path = request.path.partition("?")[0]
        if path == SOCKET_PATH:
            return None
        if path == "/health":
            told = text_response(HTTPStatus.OK, "pagetools bridge\n")
            # Pages probe this before they dial, also such as embed only what allows it.
            told.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        elif path in FILES:
            told = _file(FILES[path], origin)
        else:
            told = text_response(HTTPStatus.NOT_FOUND, "Not found.\n")
        if request.method == "HEAD":
            told.body = b""
        return told


def _file(name: str, origin: str) -> Response:
    body = (_STATIC / name).read_bytes()
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind = "text/javascript" if name.endswith(".js") else kind
    told = response(HTTPStatus.OK, f"{kind}; charset=utf-8", body)
    told.headers["Cache-Control"] = "no-cache"
    told.headers["Vary"] = "Origin"
    # A module script of another origin is only run with leave; give it to whom we let in.
    if is_loopback_origin(origin):
        told.headers["Access-Control-Allow-Origin"] = origin
        told.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return told
