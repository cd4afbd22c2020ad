"""What several test modules share: a fake page, an in-memory link, a loop without waiting."""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pagetools_ipy.connections import Connection, Registration
from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.index import ToolIndex
from pagetools_ipy.messages import Hello, HelloFrame, HelloTab, Register, ToolDescriptor

T = TypeVar("T")

NO_REPLY = object()
"""What a handler returns to leave a call unanswered."""

Message = dict[str, Any]


class _InstantSelector(selectors.BaseSelector):
    """Waits for nothing: moves the loop's clock forward instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = self._real.select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("the test waits for something that never comes")
            self._loop.now += max(0.0, timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> Any:
        return self._real.unregister(fileobj)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once; ``now`` is its clock in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(_InstantSelector(self))

    def time(self) -> float:
        return self.now

    def block(self, seconds: float) -> None:
        """What a cell does that keeps the loop from running."""
        self.now += seconds


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a `VirtualLoop`."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def virtual_loop() -> VirtualLoop:
    """The running `VirtualLoop`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def settle() -> None:
    """Let everything that is ready run, without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


def counted_ids(prefix: str = "id") -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"{prefix}{next(numbers)}"


class Clock:
    """A clock that moves when told; call it for the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def tool(name: str, **fields: Any) -> Message:
    """A tool as a page declares it."""
    return {"name": name, "description": f"Does {name}", **fields}


class FakePage:
    """A page as the directory sees one: declares tools, answers calls and pings, goes away.

    A ``silent`` one answers neither; a ``broken`` one cannot be sent to.

    Args:
        directory: The directory to connect to.
        handlers: What each tool does: takes the arguments, returns the value, raises, or
            returns `NO_REPLY`.
    """

    def __init__(
        self,
        directory: PageToolDirectory,
        handlers: dict[str, Callable[[Message], Any]] | None = None,
    ) -> None:
        self.directory = directory
        self.handlers = handlers or {}
        self.received: list[Message] = []
        self.closed: tuple[int, str] | None = None
        self.broken = self.silent = False
        self.client_id = directory.add_connection(self._receive, self._close)

    def _close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def _receive(self, message: Message) -> None:
        if self.broken:
            raise ConnectionError("broken")
        self.received.append(message)
        if self.silent:
            return
        if message["type"] == "ping":
            self.say("pong", n=message["n"])
        if message["type"] != "call" or message["name"] not in self.handlers:
            return
        try:
            value = self.handlers[message["name"]](message["args"])
        except Exception as problem:
            error = {"name": type(problem).__name__, "message": str(problem)}
            self.result(message["callId"], error=error)
        else:
            if value is not NO_REPLY:
                self.result(message["callId"], value)

    def say(self, type: str, **fields: Any) -> None:
        self.directory.handle_client_message(self.client_id, {"v": 1, "type": type, **fields})

    def hello(
        self,
        tab: str = "tab-1",
        *,
        doc: str = "doc-1",
        title: str = "Page",
        url: str = "http://localhost/",
        visible: bool = False,
        focused: bool = False,
        top: bool = True,
        focused_ago: float | None = None,
    ) -> None:
        self.say(
            "hello",
            tab={
                "id": tab,
                "docId": doc,
                "url": url,
                "title": title,
                "visible": visible,
                "focused": focused,
                "lastFocusedAgo": focused_ago,
            },
            frame={"top": top},
        )

    def register(self, ns: str, *tools: Message | str, **fields: Any) -> None:
        named = [tool(t) if isinstance(t, str) else t for t in tools]
        self.say("register", ns=ns, tools=named, **fields)

    def result(self, call_id: str, value: Any = None, *, error: Any = None) -> None:
        if error is None:
            self.say("result", callId=call_id, ok=True, value=value)
        else:
            self.say("result", callId=call_id, ok=False, error=error)

    def state(self, seq: int, **fields: Any) -> None:
        seen = {"url": "", "title": "", "visible": False, "focused": False, **fields}
        self.say("state", seq=seq, **seen)

    def disconnect(self) -> None:
        self.directory.remove_connection(self.client_id)

    def all(self, type: str) -> list[Message]:
        """The messages of one type that came, in order."""
        return [message for message in self.received if message["type"] == type]

    @property
    def last_call(self) -> Message:
        return self.all("call")[-1]


class World:
    """An index of tools and tabs, and short words for what happens to it.

    A second passes with each connection. ``touched`` collects what it says of changes.

    Args:
        now: Clock to go by; one of its own by default.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.clock = Clock()
        self.touched: list[str | None] = []
        self.index = ToolIndex(
            now or self.clock, lambda tab: self.touched.append(None if tab is None else tab.id)
        )
        self.tabs = self.index.tabs
        self._orders = itertools.count(1)

    def connect(self, client_id: str) -> Connection:
        self.clock.now += 1
        connection = Connection(
            client_id,
            lambda _: None,
            None,
            next(self._orders),
            self.clock.now,
            self.tabs.active_tabs,
        )
        self.tabs.add(connection)
        return connection

    def page(self, client_id: str, tab: str, *, top: bool = True, **seen: Any) -> Connection:
        """A connection that told which tab it is in."""
        connection = self.connect(client_id)
        connection.greet(Hello(HelloTab(tab, **seen), HelloFrame(top)), self.clock.now)
        connection.admitted = True
        self.tabs.move(connection, tab)
        return connection

    def declare(self, connection: Connection, ns: str, *names: str) -> Registration:
        tools = tuple(ToolDescriptor(name) for name in names)
        registration = Registration(connection, Register(ns, []), tools, self.clock.now)
        self.index.declare(connection, ns, registration)
        return registration

    def found(self, name: str, **narrowing: Any) -> tuple[str, str, str]:
        """Who would answer: connection, namespace and tool."""
        route = self.index.route(name, **narrowing)
        return route.registration.client_id, route.registration.ns, route.name


class MemoryLink:
    """A link whose two ends are in this process: the bridge's end, with a page's beside it."""

    def __init__(self) -> None:
        self._to_bridge: asyncio.Queue[Any] = asyncio.Queue()
        self.to_page: list[Message] = []
        self.closed: tuple[int, str] | None = None

    def send(self, message: Message) -> None:
        if self.closed is not None:
            raise ConnectionError("the link has ended")
        self.to_page.append(message)

    def close(self, code: int, reason: str) -> None:
        if self.closed is None:
            self.closed = (code, reason)
            self._to_bridge.put_nowait(NO_REPLY)

    def page_says(self, message: Any) -> None:
        self._to_bridge.put_nowait(message)

    async def __aiter__(self) -> AsyncIterator[object]:
        while (message := await self._to_bridge.get()) is not NO_REPLY:
            yield message


Scenario = Callable[[], Awaitable[None]]
