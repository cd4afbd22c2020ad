"""Serves pages that carry the embed of ``@mcp-b/webmcp-local-relay``, unchanged.

Knows the dialect that the embed speaks with its relay, and translates it, so that the bridge
sees a page like any other. Does not know what becomes of a message.

The dialect has less to say than ours: nothing of focus, of a new title or address, or of
progress, and a call that was sent cannot be cancelled.

Older embeds have the ``Origin`` of whoever serves them, which need not be that of the page. So
the header decides who comes in, and what the embed says of its page counts only where that is of
this machine as well.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from .. import frames
from ..errors import BridgeError, MessageError
from ..text import shorten
from . import Link, OnLink
from .loopback import (
    HOST,
    LoopbackServer,
    bind_first,
    is_loopback_origin,
    offered_protocols,
    origin_of,
    text_response,
)
from .websocket import WebSocketLink

Json = dict[str, Any]

FIRST_PORT = 9333
LAST_PORT = 9345
"""Embeds try one port after the other, and browsers make whoever fails often wait: what listens
on a port beyond this one is not found in time."""

HELLO_SECONDS = 10.0
"""How long an embed may take to say hello: it asks its page for the tools first."""

RELAY_PROTOCOL = "webmcp-relay.v1"
"""Subprotocol of a relay that joins another one."""

REFUSED = 1008


def bind_mcpb(saved: int | None = None) -> socket.socket:
    """Take a port on which embeds look for their relay, at once.

    Args:
        saved: The port it had before, to be tried first: an embed that has been connected goes
            on to look there only.

    Raises:
        BridgeError: If none can be had.
    """
    before = [saved] if saved else []
    ports = list(dict.fromkeys([*before, *range(FIRST_PORT, LAST_PORT + 1)]))
    try:
        return bind_first(ports)
    except OSError:
        raise BridgeError(
            f"none of the ports {FIRST_PORT} to {LAST_PORT} can be used, and an MCP-B embed looks "
            "no further; end what uses one, perhaps an MCP-B relay or the bridge of another "
            "notebook",
            port=FIRST_PORT,
        ) from None


# Who may come in


@dataclass(frozen=True, slots=True)
class Page:
    """What an embed says of its page in its hello.

    Attributes:
        header: Origin of its socket, as the browser tells it; empty for a program.
        origin: Origin of its page, as the embed tells it.
    """

    tab_id: str
    url: str
    title: str
    header: str
    origin: str

    @classmethod
    def read(cls, hello: dict[Any, Any], header: str) -> Page:
        """Read a hello; what is missing or of the wrong kind stays empty."""
        tab_id, url, title, origin = (
            value if isinstance(value := hello.get(key), str) else ""
            for key in ("tabId", "url", "title", "origin")
        )
        return cls(tab_id, url, title, header, origin or header)

    @property
    def refusal(self) -> str:
        """Why it is not let in, and what can be done; empty if it is."""
        if not is_loopback_origin(self.origin):
            return (
                f"{_name(self.origin)} is not on this machine; put pagetools.js with the token "
                "into the page (`%pagetools snippet`), or attach the browser (`%pagetools attach`)"
            )
        if not is_loopback_origin(self.header):
            return (
                f"the embed comes from {_name(self.header)}, and nothing proves that it is in a "
                f"page of {self.origin}; serve embed.js and widget.html with the page, take "
                "version 4 of the embed, or put pagetools.js into the page (`%pagetools snippet`)"
            )
        return ""

    @property
    def label(self) -> str:
        """Its title, with a mark where only the embed's word tells whose page it is."""
        return self.title if self.origin == self.header else f"{self.title} (origin unverified)"


def _name(origin: str) -> str:
    return "somewhere without an origin" if origin in ("", "null") else shorten(origin)


async def converse(
    peer: Link, header: str, greeting: Json, on_link: OnLink, relays: OnLink | None
) -> str:
    """Greet whoever has connected, find out who it is, and bring it where it belongs.

    Args:
        peer: The connection.
        header: Its origin, as the browser tells it; empty for a program.
        greeting: What a relay says first.
        on_link: Takes pages that are let in.
        relays: Takes relays that join; None lets none in.

    Returns:
        Why it was not let in; empty if it was.
    """
    peer.send(greeting)
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = await _first_word(peer, header)
    except TimeoutError:
        return await _turn_away(peer, f"it did not say what it is within {HELLO_SECONDS:g} s")
    match hello:
        case {"type": "hello", **about}:
            page = Page.read(about, header)
            if page.refusal:
                return await _reject(peer, page.refusal)
            # Newer embeds give up if this takes a second.
            peer.send({"type": "hello/accepted"})
            await on_link(McpbLink(peer, page))
        case {"type": "relay/hello"}:
            if relays is None or header:
                return await _turn_away(peer, "a relay joins as a program, and if asked for")
            await relays(peer)
        case _:
            return await _turn_away(peer, "it did not begin by saying what it is")
    return ""


async def _first_word(peer: Link, header: str) -> object:
    """The message that says what it is; None if there is none."""
    async for raw in peer:
        match raw:
            case {"type": "hello" | "relay/hello"}:
                return raw
        if not is_loopback_origin(header):
            break  # who will not be let in is not listened to for long
    return None


async def _reject(peer: Link, why: str) -> str:
    peer.send({"type": "hello/rejected", "reason": "host-origin-not-allowed", "message": why})
    return await _turn_away(peer, why)


async def _turn_away(peer: Link, why: str) -> str:
    # Embeds are told to close by themselves and cannot, as browsers refuse this code to them.
    peer.close(REFUSED, "not let in")
    async for _ in peer:
        pass
    return why


# What a page says and is told


class McpbLink:
    """A page that an embed speaks for; see `Link`.

    A ``cancel`` is not passed on, as the dialect has none: the tool runs to its end, and its
    answer is late.

    Args:
        embed: The connection.
        page: What the embed said of its page.
    """

    def __init__(self, embed: Link, page: Page) -> None:
        self._embed = embed
        self._page = page
        self._question = 0

    def send(self, message: Json) -> None:
        """See `Link.send`."""
        match message:
            case {"type": "call", "callId": call_id, "name": name, "args": args}:
                invoke = {"type": "invoke", "callId": call_id, "toolName": name, "args": args}
                self._embed.send(invoke)
            case {"type": "ping", "n": number}:
                self._question = number
                self._embed.send({"type": "ping"})

    def close(self, code: int, reason: str) -> None:
        """See `Link.close`."""
        self._embed.close(code, reason)

    async def __aiter__(self) -> AsyncIterator[object]:
        yield self._hello()
        async for raw in self._embed:
            message = self._translate(raw)
            if message is not None:
                yield message

    def _hello(self) -> Json:
        page = self._page
        return {
            "v": 1,
            "type": "hello",
            "tab": {"id": page.tab_id, "url": page.url, "title": page.label},
            "client": {"name": "webmcp-local-relay"},
        }

    def _translate(self, raw: object) -> Json | None:
        match raw:
            case {"type": "tools/list" | "tools/changed", "tools": list(tools)}:
                ns = self._page.origin
                return {"v": 1, "type": "register", "ns": ns, "tools": [*map(_tool, tools)]}
            case {"type": "result", "callId": call_id, **rest}:
                return {"v": 1, "type": "result", "callId": call_id, **outcome(rest.get("result"))}
            case {"type": "pong"}:
                return {"v": 1, "type": "pong", "n": self._question}
            case _:
                return None


_KINDS = {
    "description": str,
    "title": str,
    "inputSchema": dict,
    "outputSchema": dict,
    "annotations": dict,
}


def _tool(raw: object) -> object:
    """A tool without what is of the wrong kind, which an MCP-B relay leaves out as well."""
    if not isinstance(raw, dict):
        return raw
    fit = {key: raw[key] for key, kind in _KINDS.items() if isinstance(raw.get(key), kind)}
    return {"name": raw.get("name"), **fit}


# What a tool returned

_TIMEOUT = "Host response timeout"
_NOT_JSON = "Testing tool returned invalid JSON: "
_NO_OBJECT = "Testing tool response was not an object"
_SHOWN_UNITS = 200
"""How much of a text that is not JSON the embed shows, in UTF-16 units."""

_GAVE_UP = (
    "the page's embed waited no longer for the tool, which may still be running: version 2.2 "
    "waits 10 s; later ones 60 s, or as the script tag's data-request-timeout says. Through "
    "pagetools.js (`%pagetools snippet`) or `%pagetools attach` there is no such limit"
)
_LOST = (
    "the tool ran, but the page's embed cannot pass on what it returned, only objects and short "
    "texts. Use a later version of the embed, pagetools.js or `%pagetools attach`"
)


def outcome(result: object) -> Json:
    """What became of a call, as the rest of a ``result`` message.

    Args:
        result: What the embed gave, None where it gave nothing: what the tool returned, or MCP
            content blocks that are marked as an error.
    """
    if not isinstance(result, dict) or result.get("isError") is not True:
        return {"ok": True, "value": result}
    text = _text_of(result.get("content"))
    if text.startswith(_TIMEOUT):
        return _failed("TimeoutError", _GAVE_UP)
    if text.startswith(_NOT_JSON):
        return _not_json(text.removeprefix(_NOT_JSON))
    if text == _NO_OBJECT:
        return _failed("DataError", _LOST)
    return _failed("Error", text, result.get("structuredContent"))


def _not_json(shown: str) -> Json:
    """The outcome of a tool that returned a text: the embed fails, and says which text it was."""
    if len(shown.encode("utf-16-le", "surrogatepass")) // 2 >= _SHOWN_UNITS:
        return _failed("DataError", f"{_LOST}. It begins with: {shown}")
    return {"ok": True, "value": None if shown == "undefined" else shown}


def _failed(name: str, message: str, data: object = None) -> Json:
    return {"ok": False, "error": {"name": name, "message": message, "data": data}}


def _text_of(content: object) -> str:
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


# The server


class _Socket(WebSocketLink):
    """A peer's WebSocket. What cannot be decoded is left out: the dialect has no answer to it."""

    def __aiter__(self) -> _Socket:
        return self

    async def __anext__(self) -> object:
        while True:
            try:
                return frames.decode(await self._connection.recv())
            except MessageError:
                continue
            except ConnectionClosed:
                raise StopAsyncIteration from None


class McpbTransport(LoopbackServer):
    """The server that embeds take for their relay.

    Args:
        listener: A bound and listening socket, from `bind_mcpb`.
        relays: Takes MCP-B relays that join as clients; they are programs of this machine and
            bring no token. None lets none in.
    """

    def __init__(self, listener: socket.socket, *, relays: OnLink | None = None) -> None:
        super().__init__(listener)
        self._relays = relays
        self._greeting = {
            "type": "server-hello",
            "service": "webmcp-local-relay",
            "version": 1,
            "host": HOST,
            "port": self.port,
            "instanceId": secrets.token_hex(16),
            "label": "pagetools",
        }

    @property
    def lets_relays_in(self) -> bool:
        """Whether MCP-B relays may join."""
        return self._relays is not None

    async def serve(self, connection: ServerConnection, on_link: OnLink) -> None:
        """See `LoopbackServer.serve`."""
        header, peer = origin_of(connection), _Socket(connection)
        with suppress(ConnectionError):  # it left while it was greeted
            why = await converse(peer, header, self._greeting, on_link, self._relays)
            if why:
                self.note(connection, REFUSED, why)

    def answer(self, request: Request, origin: str) -> Response | None:
        """See `LoopbackServer.answer`."""
        if request.path.partition("?")[0] != "/":
            return text_response(HTTPStatus.NOT_FOUND, "Not found.\n")
        # In the handshake already: a relay takes whoever greets it for one of its kind.
        if self._relays is None and RELAY_PROTOCOL in offered_protocols(request.headers):
            told = "Relays may join after `%pagetools start --mcpb --relay`.\n"
            return text_response(HTTPStatus.FORBIDDEN, told)
        return None
