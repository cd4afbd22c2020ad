"""A scripted page: speaks the wire protocol on a thread of its own, as a browser's tab would.

Knows the wire protocol. Does not import the package, so that both ends cannot be wrong in the
same way.
"""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol
from websockets.uri import parse_uri

ORIGIN = "http://localhost:3000"
REDIAL_EVERY = 0.1

NO_REPLY = object()
"""What a handler returns to leave a call unanswered."""

Message = dict[str, Any]
Handler = Callable[[Message], Any]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class After:
    """What a handler returns to have ``value`` sent after some seconds."""

    seconds: float
    value: Any


class ToolFault(Exception):
    """What a handler raises to fail as JavaScript code does."""

    def __init__(self, name: str, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.fields = {"name": name, "message": message, "stack": f"{name}: {message}\n    at x.js"}
        if data is not None:
            self.fields["data"] = data


@dataclass(frozen=True)
class Tool:
    """A tool of a page: what it does and the types of its arguments."""

    handler: Handler
    types: Mapping[str, str] = field(default_factory=dict)

    def declared(self, name: str) -> Message:
        properties = {argument: {"type": kind} for argument, kind in self.types.items()}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return {"name": name, "description": f"Does {name}", "inputSchema": schema}


def _fail(_: Message) -> Any:
    raise ToolFault("RangeError", "the cart is full", {"limit": 3})


def demo_tools() -> dict[str, Tool]:
    """Tools that most tests can do with."""
    return {
        "add": Tool(lambda args: args["a"] + args["b"], {"a": "integer", "b": "integer"}),
        "echo": Tool(lambda args: args["text"], {"text": "string"}),
        "items": Tool(lambda args: args["items"], {"items": "array"}),
        "fail": Tool(_fail),
        "hang": Tool(lambda args: NO_REPLY),
        "soon": Tool(lambda args: After(0.2, "late")),
    }


class RawPage:
    """A page whose every byte is sent when the test says so, and whose pongs never are."""

    def __init__(self, port: int) -> None:
        uri = parse_uri(f"ws://127.0.0.1:{port}/tools")
        self._protocol = ClientProtocol(uri, origin=Origin(ORIGIN), max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self._request = b"".join(self._protocol.data_to_send())
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.failure: Exception | None = None

    def shake_hands(self, *, half: bool = False) -> None:
        """Send the first half of the handshake, or all that is left of it."""
        end = len(self._request) // 2 if half else len(self._request)
        self._socket.sendall(self._request[:end])
        self._request = self._request[end:]

    def say(self, type: str, **fields: Any) -> None:
        """Send one message."""
        self._protocol.send_text(json.dumps({"v": 1, "type": type, **fields}).encode())
        for data in self._protocol.data_to_send():
            self._socket.sendall(data)

    def is_open(self) -> bool:
        """Whether the handshake is done and the bridge has not ended the connection since."""
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while data := self._socket.recv(65536):
                self._protocol.receive_data(data)
                self._protocol.data_to_send()  # pongs, which stay here
        self._socket.settimeout(10)
        self.failure = self._protocol.handshake_exc or self._protocol.parser_exc
        return self._protocol.state is State.OPEN

    def close(self) -> None:
        """Close the socket without a word. Idempotent."""
        self._socket.close()


class Page:
    """A page that is connected to the bridge on ``port``, or tries to be.

    Args:
        port: Where the bridge listens.
        tools: Its tools by name; `demo_tools` by default.
        ns: Namespace it declares them in.
        title: Title of its tab.
        origin: Where it was loaded from; None sends no such header.
        token: Secret to bring along.
        redial: Whether to connect again whenever the connection is lost or refused.
        open_timeout: Seconds the handshake may take.
        wait: Whether to return only when its tools are registered.
    """

    def __init__(
        self,
        port: int,
        tools: dict[str, Tool] | None = None,
        *,
        ns: str = "demo",
        title: str = "Demo",
        origin: str | None = ORIGIN,
        token: str | None = None,
        redial: bool = False,
        open_timeout: float = 10.0,
        wait: bool = True,
    ) -> None:
        self.tools = demo_tools() if tools is None else tools
        self.ns = ns
        self.title = title
        self.received: list[Message] = []
        self.sent: Counter[str] = Counter()
        self.closed: tuple[int, str] | None = None
        self.failure: Exception | None = None
        number = next(_numbers)
        self.tab_id, self._doc_id = f"tab-{number}", f"doc-{number}"
        self._url = f"ws://127.0.0.1:{port}/tools"
        self._origin = Origin(origin) if origin is not None else None
        self._token = token
        self._redial = redial
        self._open_timeout = open_timeout
        self._seen: Counter[str] = Counter()
        self._sequence = itertools.count(1)
        self._news = threading.Condition()
        self._connection: ClientConnection | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"page {number}", daemon=True)
        self._thread.start()
        if wait:
            self.wait_for("registered", timeout=open_timeout)

    # Its life

    def _run(self) -> None:
        while not self._leaving.is_set():
            try:
                self._live()
            except (OSError, WebSocketException) as problem:
                self.failure = problem
            if not self._redial:
                break
            self._leaving.wait(REDIAL_EVERY)
        with self._news:
            self._news.notify_all()

    def _live(self) -> None:
        protocols = [f"pagetools.token.{self._token}", "pagetools.v1"] if self._token else []
        connection = connect(
            self._url,
            origin=self._origin,
            subprotocols=[Subprotocol(p) for p in protocols] or None,
            open_timeout=self._open_timeout,
            close_timeout=1,
            ping_interval=None,
            compression=None,
            max_size=None,
            proxy=None,
        )
        with connection:
            self._connection, self.closed = connection, None
            self._greet()
            with suppress(ConnectionClosed):
                for frame in connection:
                    self._receive(json.loads(frame))
        with self._news:
            self.closed = (connection.close_code or 1006, connection.close_reason or "")
            self._news.notify_all()

    def _greet(self) -> None:
        with suppress(ConnectionClosed):  # refused; the close code says why
            self.say(
                "hello",
                tab={"id": self.tab_id, "docId": self._doc_id, **self._seen_by_person()},
                frame={"top": True},
                client={"name": "scripted", "version": "1"},
            )
            self.register()

    def _seen_by_person(self) -> Message:
        url = f"http://localhost:3000/{self.tab_id}"
        return {"url": url, "title": self.title, "visible": True, "focused": False}

    @property
    def is_open(self) -> bool:
        """Whether it is connected now."""
        return self._thread.is_alive() and self._connection is not None and self.closed is None

    def leave(self) -> None:
        """Close the connection, as a tab that is closed does. Idempotent."""
        self._leaving.set()
        if self._connection is not None:
            self._connection.close()
        self._thread.join(timeout=5)

    # What it says

    def say(self, type: str, **fields: Any) -> None:
        """Send one message."""
        assert self._connection is not None
        self._connection.send(json.dumps({"v": 1, "type": type, **fields}))
        self.sent[type] += 1

    def register(self) -> None:
        """Declare its tools."""
        self.say("register", ns=self.ns, tools=[t.declared(n) for n, t in self.tools.items()])

    def state(self) -> None:
        """Tell its title and what the person sees of it."""
        self.say("state", seq=next(self._sequence), **self._seen_by_person())

    def answer(self, call: Message, value: Any) -> None:
        """Send the value of a call that its handler left open."""
        self.say("result", callId=call["callId"], ok=True, value=value)

    def progress(self, call: Message, done: float, total: float, message: str) -> None:
        """Tell how far a call is."""
        self.say("progress", callId=call["callId"], progress=done, total=total, message=message)

    @contextmanager
    def flood(self, per_second: int = 200) -> Iterator[None]:
        """Send so many messages a second for as long as the block lasts.

        Every other one declares all tools again, which keeps the bridge busy: what hits it
        then, hits it in the middle of one of these.
        """
        enough = threading.Event()

        def pour() -> None:
            started, count = time.monotonic(), 0
            with suppress(ConnectionClosed):
                while not enough.wait(0.002):
                    while count < (time.monotonic() - started) * per_second:
                        (self.register if count % 2 else self.state)()
                        count += 1

        pouring = threading.Thread(target=pour, name="flood", daemon=True)
        pouring.start()
        try:
            yield
        finally:
            enough.set()
            pouring.join(timeout=5)

    # What it hears

    def _receive(self, message: Message) -> None:
        with self._news:
            self.received.append(message)
            self._news.notify_all()
        if message["type"] == "call":
            self._answer(message)
        elif message["type"] == "ping":
            self.say("pong", n=message["n"])

    def _answer(self, call: Message) -> None:
        try:
            value = self.tools[call["name"]].handler(call["args"])
        except ToolFault as fault:
            self.say("result", callId=call["callId"], ok=False, error=fault.fields)
            return
        if isinstance(value, After):
            timer = threading.Timer(value.seconds, self._answer_late, (call, value.value))
            timer.daemon = True
            timer.start()
        elif value is not NO_REPLY:
            self.answer(call, value)

    def _answer_late(self, call: Message, value: Any) -> None:
        with suppress(ConnectionClosed):
            self.answer(call, value)

    def all(self, type: str) -> list[Message]:
        """The messages of one type that came, in order."""
        return [message for message in tuple(self.received) if message["type"] == type]

    def wait_for(self, type: str, timeout: float = 10.0, *, total: int = 0) -> Message:
        """The next message of a type that was not waited for before.

        Args:
            type: Type of the message.
            timeout: Seconds to wait.
            total: Which one, counted from the beginning, instead of the next one.

        Raises:
            AssertionError: If it does not come in time.
        """
        self._seen[type] = wanted = total or self._seen[type] + 1
        with self._news:
            self._news.wait_for(
                lambda: len(self.all(type)) >= wanted or not self._thread.is_alive(), timeout
            )
        found = self.all(type)
        if len(found) < wanted:
            self._seen[type] -= 1
            raise AssertionError(
                f"no {type!r} within {timeout:g} s; closed: {self.closed}, "
                f"failure: {self.failure!r}, last heard: {self.received[-3:]}"
            )
        return found[wanted - 1]

    def wait_closed(self, timeout: float = 10.0) -> tuple[int, str]:
        """Close code and reason, once the connection has ended.

        Raises:
            AssertionError: If it does not end in time.
        """
        with self._news:
            self._news.wait_for(lambda: self.closed is not None, timeout)
        assert self.closed is not None, f"still open after {timeout:g} s"
        return self.closed
