"""The contract of a `Link`, held against every implementation there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from pagetools_ipy.endpoints import Endpoint
from pagetools_ipy.transports import Link
from pagetools_ipy.transports.cdp import CdpTransport
from pagetools_ipy.transports.websocket import WebSocketTransport, bind

from .conftest import DEADLINE
from .fake_browser import BINDING, FakeBrowser
from .helpers import MemoryLink, Message

T = TypeVar("T")


def within(awaitable: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(awaitable, DEADLINE)


class Peer(Protocol):
    """The page at the other end of a link."""

    async def say(self, message: object) -> None:
        """Send one message."""

    async def hear(self) -> Message:
        """The next message that came."""

    async def leave(self) -> None:
        """End the connection as a page does that is closed."""

    async def vanish(self) -> None:
        """End the connection without a word, as a browser does that crashes."""

    async def ended(self) -> tuple[int, str]:
        """Close code and reason, once the bridge's side has ended the link."""


class MemoryPeer:
    def __init__(self, link: MemoryLink) -> None:
        self._link = link
        self._heard = 0

    async def say(self, message: object) -> None:
        self._link.page_says(message)

    async def hear(self) -> Message:
        for _ in range(1000):
            if len(self._link.to_page) > self._heard:
                break
            await asyncio.sleep(0)
        self._heard += 1
        return self._link.to_page[self._heard - 1]

    async def leave(self) -> None:
        self._link.close(1001, "")

    async def vanish(self) -> None:
        self._link.close(1006, "")

    async def ended(self) -> tuple[int, str]:
        assert self._link.closed is not None
        return self._link.closed


class SocketPeer:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def say(self, message: object) -> None:
        await self._socket.send(json.dumps(message))

    async def hear(self) -> Message:
        message: Message = json.loads(await self._socket.recv())
        return message

    async def leave(self) -> None:
        await self._socket.close(1001)

    async def vanish(self) -> None:
        self._socket.transport.abort()

    async def ended(self) -> tuple[int, str]:
        with suppress(ConnectionClosed):
            async for _ in self._socket:
                pass
        assert self._socket.close_code is not None
        return self._socket.close_code, self._socket.close_reason or ""


class BrowserPeer:
    """A page in a scripted browser, which lives on a thread of its own."""

    def __init__(self, browser: FakeBrowser, loop: asyncio.AbstractEventLoop) -> None:
        self._browser = browser
        self._loop = loop
        self._heard = 0

    def _do(self, function: Callable[..., object], *args: object) -> None:
        self._loop.call_soon_threadsafe(function, *args)

    async def say(self, message: object) -> None:
        self._do(self._browser.page_says, "s1", 1, message)

    async def hear(self) -> Message:
        while True:
            delivered = self._browser.delivered("s1")
            if len(delivered) > self._heard:
                self._heard += 1
                return delivered[self._heard - 1]
            await asyncio.sleep(0.001)

    async def leave(self) -> None:
        gone = {"executionContextId": 1}
        self._do(self._browser.event, "Runtime.executionContextDestroyed", gone, "s1")

    async def vanish(self) -> None:
        self._do(self._browser.event, "Target.detachedFromTarget", {"sessionId": "s1"})

    async def ended(self) -> tuple[int, str]:
        while (message := await self.hear())["type"] != "closed":
            pass
        return message["code"], message["reason"]


Pair = tuple[Link, Peer]
Connect = Callable[[], AbstractAsyncContextManager[Pair]]


@asynccontextmanager
async def memory() -> AsyncIterator[Pair]:
    link = MemoryLink()
    yield link, MemoryPeer(link)


@asynccontextmanager
async def websocket() -> AsyncIterator[Pair]:
    links: asyncio.Queue[Link] = asyncio.Queue()
    enough = asyncio.Event()

    async def on_link(link: Link) -> None:
        links.put_nowait(link)
        await enough.wait()

    transport = WebSocketTransport(bind(0), "token")
    await transport.start(on_link)
    url = f"ws://127.0.0.1:{transport.port}/tools"
    try:
        async with connect(
            url, origin=Origin("http://localhost"), compression=None, proxy=None, max_size=None
        ) as socket:
            yield await within(links.get()), SocketPeer(socket)
    finally:
        enough.set()
        await transport.close()


class _FakeEndpoint(Endpoint):
    async def resolve(self) -> str:
        return "ws://nowhere"


@asynccontextmanager
async def cdp() -> AsyncIterator[Pair]:
    links: asyncio.Queue[Link] = asyncio.Queue()
    enough = asyncio.Event()
    browsers: list[tuple[FakeBrowser, asyncio.AbstractEventLoop]] = []

    async def on_link(link: Link) -> None:
        links.put_nowait(link)
        await enough.wait()

    async def open_socket(_: str) -> FakeBrowser:
        browser = FakeBrowser()
        browsers.append((browser, asyncio.get_running_loop()))
        browser.attach("s1", "t1")
        browser.context("s1", 1, "t1")
        browser.page_says("s1", 1, {"type": "hello", "tab": {"id": "tab-1"}})
        return browser

    endpoint = _FakeEndpoint("a scripted browser", "127.0.0.1", 1)
    transport = CdpTransport(endpoint, binding=BINDING, script="", open_socket=open_socket)
    await transport.start(on_link)
    try:
        link = await within(links.get())
        await within(take(link, 1))  # its hello
        yield link, BrowserPeer(*browsers[0])
    finally:
        enough.set()
        await transport.close()


pytestmark = pytest.mark.parametrize("connected", [memory, websocket, cdp])


async def take(link: Link, count: int) -> list[object]:
    """The next messages from the page."""
    found: list[object] = []
    async for message in link:
        found.append(message)
        if len(found) == count:
            break
    return found


async def drain(link: Link) -> list[object]:
    """All messages from the page until the link ends."""
    return [message async for message in link]


def over(connected: Connect, scenario: Callable[[Link, Peer], Awaitable[None]]) -> None:
    """Run a scenario over a fresh link."""

    async def main() -> None:
        async with connected() as (link, peer):
            await scenario(link, peer)

    asyncio.run(main())


def test_what_is_sent_arrives_in_order(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        for number in range(500):
            link.send({"n": number})
        heard = [(await within(peer.hear()))["n"] for _ in range(500)]
        assert heard == list(range(500))

    over(connected, scenario)


def test_what_the_page_sends_arrives_in_order_and_decoded(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        said: list[Any] = [{"n": n} for n in range(300)]
        said += [{"a": [1, 2.5, None, True]}, [], "text", 7, None, False, {}]
        for message in said:
            await peer.say(message)
        assert await within(take(link, len(said))) == said

    over(connected, scenario)


def test_both_directions_keep_their_order_while_both_are_busy(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        async def talk() -> None:
            for number in range(200):
                await peer.say({"n": number})

        async def echo() -> None:
            async for message in link:
                assert isinstance(message, dict)
                link.send({"echo": message["n"]})
                if message["n"] == 199:
                    return

        echoing = asyncio.create_task(echo())
        await within(talk())
        heard = [(await within(peer.hear()))["echo"] for _ in range(200)]
        assert heard == list(range(200))
        await within(echoing)

    over(connected, scenario)


@pytest.mark.parametrize(
    "text",
    [
        "grüße, 買う牛乳, 🛒🇩🇪",
        "\x00\x01\x1f\x7f\u2028\u2029",
        "lone \ud83d and \udc00 surrogates",
        'quotes " and \\ backslashes',
    ],
    ids=["unicode", "controls", "lone surrogates", "quotes"],
)
def test_any_text_survives_both_ways(connected: Connect, text: str) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        message = {"text": text, text: [text]}
        link.send(message)
        assert await within(peer.hear()) == message
        await peer.say(message)
        assert await within(take(link, 1)) == [message]
        link.send({"still": "there"})
        assert await within(peer.hear()) == {"still": "there"}

    over(connected, scenario)


def test_a_message_of_a_megabyte_survives_both_ways(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        message = {"text": "x" * 1_000_000}
        link.send(message)
        assert await within(peer.hear()) == message
        await peer.say(message)
        assert await within(take(link, 1)) == [message]

    over(connected, scenario)


@pytest.mark.parametrize("how", ["leave", "vanish"])
def test_iteration_ends_when_the_page_goes(connected: Connect, how: str) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        found: asyncio.Queue[object] = asyncio.Queue()

        async def collect() -> None:
            async for message in link:
                found.put_nowait(message)

        collecting = asyncio.create_task(collect())
        await peer.say({"n": 1})
        assert await within(found.get()) == {"n": 1}
        await within(getattr(peer, how)())
        await within(collecting)
        assert found.empty()

    over(connected, scenario)


def test_what_came_before_a_page_left_politely_is_still_given(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        said = [{"n": number} for number in range(50)]
        for message in said:
            await peer.say(message)
        _, given = await within(asyncio.gather(peer.leave(), drain(link)))
        assert given == said

    over(connected, scenario)


def test_iteration_ends_when_our_side_closes(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        draining = asyncio.create_task(drain(link))
        await asyncio.sleep(0)
        link.close(4000, "enough")
        assert await within(draining) == []
        await within(peer.ended())

    over(connected, scenario)


@pytest.mark.parametrize("how", ["leave", "vanish"])
def test_sending_after_the_page_went_is_a_connection_error(connected: Connect, how: str) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        draining = asyncio.create_task(drain(link))
        await within(getattr(peer, how)())
        await within(draining)
        with pytest.raises(ConnectionError):
            link.send({"too": "late"})
        with pytest.raises(ConnectionError):
            link.send({"still": "too late"})

    over(connected, scenario)


def test_sending_after_our_side_closed_is_a_connection_error_at_once(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        link.send({"n": 1})
        link.close(4000, "enough")
        with pytest.raises(ConnectionError):
            link.send({"n": 2})
        assert await within(peer.hear()) == {"n": 1}
        assert await within(peer.ended()) == (4000, "enough")
        with pytest.raises(ConnectionError):
            link.send({"n": 3})

    over(connected, scenario)


def test_closing_carries_code_and_reason(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        link.close(4409, "this page has opened another connection, grüße")
        assert await within(peer.ended()) == (
            4409,
            "this page has opened another connection, grüße",
        )

    over(connected, scenario)


def test_closing_twice_is_closing_once(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        link.close(4001, "first")
        link.close(4002, "second")
        assert await within(peer.ended()) == (4001, "first")
        link.close(4003, "third")
        assert await within(drain(link)) == []

    over(connected, scenario)


@pytest.mark.parametrize("how", ["leave", "vanish"])
def test_closing_a_link_whose_page_has_gone_does_nothing(connected: Connect, how: str) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        draining = asyncio.create_task(drain(link))
        await within(getattr(peer, how)())
        await within(draining)
        link.close(4000, "too late")
        link.close(4000, "too late")
        with pytest.raises(ConnectionError):
            link.send({})

    over(connected, scenario)


def test_sending_and_closing_within_the_iteration_works(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        async def answer() -> list[object]:
            found: list[object] = []
            async for message in link:
                found.append(message)
                link.send({"answer": len(found)})
                if len(found) == 2:
                    link.close(4000, "done")
            return found

        answering = asyncio.create_task(answer())
        await peer.say("one")
        assert await within(peer.hear()) == {"answer": 1}
        await peer.say("two")
        assert await within(peer.hear()) == {"answer": 2}
        assert await within(peer.ended()) == (4000, "done")
        assert await within(answering) == ["one", "two"]

    over(connected, scenario)


def test_a_cancelled_iteration_leaves_the_link_usable(connected: Connect) -> None:
    async def scenario(link: Link, peer: Peer) -> None:
        draining = asyncio.create_task(drain(link))
        await asyncio.sleep(0)
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        link.send({"n": 1})
        assert await within(peer.hear()) == {"n": 1}
        link.close(4000, "enough")
        await within(peer.ended())

    over(connected, scenario)
