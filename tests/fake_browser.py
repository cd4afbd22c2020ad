"""A browser's debugging port, scripted: what is sent to it is noted, what it says is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pagetools_ipy.page_script import delivery

Json = dict[str, Any]
Answer = Callable[[Json], Any]

BINDING = "__pagetools"

REFUSED = object()
"""What an answer gives to have the command refused."""

SILENT = object()
"""What an answer gives to leave the command unanswered."""


class FakeBrowser:
    """The socket to a scripted browser.

    Commands are answered with ``{}`` unless `answers` says otherwise.

    Attributes:
        sent: Every command, in order.
        answers: By method, what is answered; takes the command's message.
        closed: Whether our side has ended the connection.
    """

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self.answers: dict[str, Answer] = {}
        self.closed = False
        self._said: asyncio.Queue[str | None] = asyncio.Queue()

    # The socket

    def send(self, text: str) -> None:
        command = json.loads(text)
        self.sent.append(command)
        answer = self.answers.get(command["method"], lambda _: {})(command)
        if answer is REFUSED:
            self.say({"id": command["id"], "error": {"code": -32000, "message": "no such thing"}})
        elif answer is not SILENT:
            self.say({"id": command["id"], "result": answer})

    def close(self) -> None:
        self.closed = True
        self.leave()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (text := await self._said.get()) is not None:
            yield text

    # What a test has it do

    def say(self, message: Json) -> None:
        """Send a message as it is."""
        self._said.put_nowait(json.dumps(message))

    def event(self, method: str, params: Json | None = None, session: str = "") -> None:
        """Tell of an event."""
        message = {"method": method, "params": params or {}}
        self.say({**message, "sessionId": session} if session else message)

    def leave(self) -> None:
        """End the connection."""
        self._said.put_nowait(None)

    def attach(self, session: str, target: str, url: str = "http://shop/", **fields: Any) -> None:
        """Tell that a tab, or a frame with a process of its own, is attached."""
        info = {"targetId": target, "type": "page", "url": url, "title": "Shop", "attached": True}
        parent = fields.pop("parent", "")
        params = {
            "sessionId": session,
            "targetInfo": {**info, **fields.pop("info", {})},
            "waitingForDebugger": fields.pop("waiting", False),
        }
        self.event("Target.attachedToTarget", params, parent)

    def context(self, session: str, number: int, frame: str, unique: str = "") -> None:
        """Tell that a document has come."""
        context = {
            "id": number,
            "uniqueId": unique or f"{session}.{number}",
            "auxData": {"isDefault": True, "frameId": frame},
        }
        self.event("Runtime.executionContextCreated", {"context": context}, session)

    def page_says(self, session: str, number: int, message: object) -> None:
        """Have the client in a document say something."""
        said = {"name": BINDING, "payload": json.dumps(message), "executionContextId": number}
        self.event("Runtime.bindingCalled", said, session)

    def delivered(self, session: str) -> list[Json]:
        """What was taken to the clients of a session, in order."""
        calls = (p["expression"] for p in self.commands("Runtime.evaluate", session))
        head = delivery(BINDING, "").removesuffix('"")')
        return [
            json.loads(json.loads(call.removeprefix(head)[:-1]))
            for call in calls
            if call.startswith(head)
        ]

    def commands(self, method: str, session: str | None = None) -> list[Json]:
        """What was asked of it with one method."""
        return [
            c.get("params", {})
            for c in self.sent
            if c["method"] == method and session in (None, c.get("sessionId"))
        ]
