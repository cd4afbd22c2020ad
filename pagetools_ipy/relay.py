"""Shows the tools of all pages to MCP-B relays that join as clients, and through them to agents.

Knows what such a relay asks and is told, and what it takes for a name, a tool and a result: one
that does not fit costs it the whole list. Does not know how it is connected.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from .directory import PageToolDirectory
from .errors import PageToolsError, TabNotFoundError, ToolNotFoundError
from .index import Route
from .messages import ToolDescriptor
from .results import ToolResult, from_page
from .transports import Link
from .views import PageToolRegistration

Json = dict[str, Any]

MAX_NAME_CHARS = 128
"""How long the name of a tool may be for MCP clients."""

CALL_SECONDS = 600.0
"""How long a tool may take; whoever asked has given up long before, and cannot say so."""

_OWN_NAMES = (
    "webmcp_list_sources",
    "webmcp_list_tools",
    "webmcp_call_tool",
    "webmcp_open_page",
)
"""Tools of the relays themselves, which fail on a second one of that name."""


class RelayPeers:
    """Serves relays.

    Args:
        directory: Whose tools they see.
    """

    def __init__(self, directory: PageToolDirectory) -> None:
        self._directory = directory

    async def join(self, link: Link) -> None:
        """Serve one relay for as long as it is connected; its calls end with it."""
        peer = _Peer(self._directory, link)
        unsubscribe = self._directory.on_change(peer.tell_change)
        try:
            async for raw in link:
                peer.take(raw)
        finally:
            unsubscribe()
            peer.leave()


class Offer(NamedTuple):
    """A tool, and who declares it."""

    registration: PageToolRegistration
    tool: ToolDescriptor


class _Peer:
    """One relay. A name means to it what it meant in the list it was sent last."""

    def __init__(self, directory: PageToolDirectory, link: Link) -> None:
        self._directory = directory
        self._link = link
        self._offers: dict[str, Offer] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, raw: object) -> None:
        """Do what it asks; what is not in its dialect is passed over."""
        match raw:
            case {"type": "relay/list-tools"}:
                self._send(self._listing("relay/tools"))
            case {"type": "relay/invoke", "callId": str(call_id), "toolName": str(name), **rest}:
                task = asyncio.ensure_future(self._invoke(call_id, name, rest.get("args")))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def tell_change(self) -> None:
        """Send it the tools there are now."""
        self._send(self._listing("relay/tools-changed"))

    def leave(self) -> None:
        """Stop what it asked for."""
        for task in self._tasks:
            task.cancel()

    def _send(self, message: Json) -> None:
        with suppress(ConnectionError):  # it has left, and the end of its link comes to us next
            self._link.send(message)

    def _listing(self, kind: str) -> Json:
        self._offers = public_names(self._directory.list())
        return {
            "type": kind,
            "tools": [wire_tool(name, offer.tool) for name, offer in self._offers.items()],
            "sources": sources(self._offers.values()),
            "toolSourceMap": {
                name: [offer.registration.tab.id] for name, offer in self._offers.items()
            },
        }

    async def _invoke(self, call_id: str, name: str, args: Any) -> None:
        try:
            result = call_result(await self._call(name, args))
        except PageToolsError as problem:
            result = failure(str(problem))
        except RecursionError:
            result = failure(f"what {name} returned is nested too deeply to be passed on")
        self._send({"type": "relay/result", "callId": call_id, "result": result})

    async def _call(self, name: str, args: Any) -> Any:
        offer = self._offers.get(name)
        if offer is None:
            raise ToolNotFoundError(name, list(self._offers))
        return await self._directory.start(
            self._route(offer), args, timeout=CALL_SECONDS, decode=from_page, validate=True
        )

    def _route(self, offer: Offer) -> Route:
        registration, name = offer.registration, offer.tool.name
        route = self._directory.route
        try:
            return route(name, ns=registration.ns, client_id=registration.client_id)
        except TabNotFoundError:
            # The page may have been reloaded, of which nobody is told when its tools are the same.
            return route(name, ns=registration.ns, tab=registration.tab)


# Names


def public_names(registrations: Iterable[PageToolRegistration]) -> dict[str, Offer]:
    """Give every tool a name of its own, of the characters that all MCP clients take.

    A tool that several tabs have is told apart by the start of its tab's identifier, and what
    still has the same name by a number.
    """
    # In an order that does not follow the person's eyes: names are to stay.
    rows = sorted(registrations, key=lambda row: (row.tab.id, row.client_id, row.ns))
    offers = [Offer(row, tool) for row in rows for tool in row.tools]
    tabs: defaultdict[str, set[str]] = defaultdict(set)
    for offer in offers:
        tabs[_sanitised(offer.tool.name)].add(offer.registration.tab.id)
    names: dict[str, Offer] = {}
    for offer in offers:
        name = _sanitised(offer.tool.name)
        suffix = f"_{_sanitised(offer.registration.tab.id)[:4]}" if len(tabs[name]) > 1 else ""
        names[_free_name(name, suffix, names)] = offer
    return names


def _sanitised(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:MAX_NAME_CHARS]


def _free_name(name: str, suffix: str, taken: dict[str, Offer]) -> str:
    candidate, number = _joined(name, suffix), 1
    while candidate in taken or candidate in _OWN_NAMES:
        number += 1
        candidate = _joined(name, f"{suffix}_{number}")
    return candidate


def _joined(name: str, suffix: str) -> str:
    return name[: MAX_NAME_CHARS - len(suffix)] + suffix


# Tools and where they are


def wire_tool(name: str, tool: ToolDescriptor) -> Json:
    """A tool as relays take it.

    Its output schema is left out: clients refuse a result that does not fit it.
    """
    wire: Json = {"name": name, "inputSchema": _input_schema(tool.input_schema)}
    if tool.description:
        wire["description"] = tool.description
    if tool.title:
        wire["title"] = tool.title
    hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
    told = {key: value for key, value in (tool.annotations or {}).items() if key in hints}
    if told and all(isinstance(value, bool) for value in told.values()):
        wire["annotations"] = told
    return wire


def _input_schema(schema: Json | None) -> Json:
    """A schema of an object, which is all that MCP has; any object where it is another."""
    given = {"type": "object", "properties": {}, **(schema or {})}
    properties, required = given["properties"], given.get("required", [])
    fits = (
        given["type"] == "object"
        and isinstance(properties, dict)
        and all(isinstance(value, dict) for value in properties.values())
        and isinstance(required, list)
        and all(isinstance(key, str) for key in required)
    )
    return given if fits else {"type": "object", "properties": {}}


def sources(offers: Iterable[Offer]) -> list[Json]:
    """The tabs that have tools, as relays know them; times are in milliseconds."""
    found: dict[str, Json] = {}
    for registration, _ in offers:
        tab, at = registration.tab, int(registration.registered_at * 1000)
        source = found.setdefault(
            tab.id,
            {
                "sourceId": tab.id,
                "tabId": tab.id,
                "url": tab.url,
                "title": tab.title,
                "connectedAt": at,
                "lastSeenAt": at,
                "toolCount": 0,
            },
        )
        source["connectedAt"] = min(source["connectedAt"], at)
        source["lastSeenAt"] = max(source["lastSeenAt"], at)
        source["toolCount"] += 1
    return list(found.values())


# Results


def call_result(value: Any) -> Json:
    """What a tool returned, as an MCP result."""
    if isinstance(value, ToolResult):
        result: Json = {"content": [_block(block) for block in value.blocks]}
        structured = value.structured
    else:
        text = value if isinstance(value, str) else _json(value)
        result, structured = {"content": [{"type": "text", "text": text}]}, value
    if isinstance(structured, dict):
        result["structuredContent"] = structured
    return result


def _block(block: Json) -> Json:
    """A content block as it is where relays understand it, else as the text of its JSON."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image" | "audio"} if ToolResult(({**block, "type": "image"},)).images:
            return {key: block[key] for key in ("type", "data", "mimeType")}
        case _:
            return {"type": "text", "text": _json(block)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def failure(text: str) -> Json:
    """Why there is no result, as an MCP result."""
    return {"isError": True, "content": [{"type": "text", "text": text}]}
