"""Pages with an MCP-B embed: what it says and is told, who is let in, and the server for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.errors import BridgeError, CallCancelledError, PageGoneError, PageToolError
from pagetools_ipy.results import ToolResult, from_page
from pagetools_ipy.transports import Link, mcpb
from pagetools_ipy.transports.mcpb import McpbLink, McpbTransport, Page, bind_mcpb, converse
from pagetools_ipy.transports.websocket import bind

from .conftest import DEADLINE
from .helpers import MemoryLink, Message, run, settle, virtual_loop

T = TypeVar("T")

HERE = "http://127.0.0.1:8101"
GREETING = {"type": "server-hello"}
TOOL = {"name": "add_todo", "description": "Add one", "inputSchema": {"type": "object"}}


class Embed(MemoryLink):
    """An embed that has connected to a bridge.

    Args:
        directory: Whose pages it joins.
        header: Origin that its browser tells.
        relays: Takes relays, if any are let in.
    """

    def __init__(
        self,
        directory: PageToolDirectory,
        header: str = HERE,
        relays: Callable[[Link], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._directory = directory
        self.task = asyncio.ensure_future(converse(self, header, GREETING, self._pump, relays))

    async def _pump(self, link: Link) -> None:
        client_id = self._directory.add_connection(link.send, link.close)
        async for raw in link:
            self._directory.handle_client_message(client_id, raw)
        self._directory.remove_connection(client_id)

    async def say(self, type: str, **fields: Any) -> None:
        self.page_says({"type": type, **fields})
        await settle()

    async def hello(self, **fields: Any) -> None:
        says = {"tabId": "tab-1", "origin": HERE, "title": "Shop", "url": f"{HERE}/shop.html"}
        await self.say("hello", **{**says, **fields})

    async def list(self, *tools: Any) -> None:
        await self.say("tools/list", tools=list(tools or [TOOL]))

    def told(self, type: str) -> list[Message]:
        return [message for message in self.to_page if message["type"] == type]

    async def answer(self, **fields: Any) -> None:
        await self.say("result", callId=self.told("invoke")[-1]["callId"], **fields)

    async def leave(self) -> None:
        self.close(1001, "")
        await settle()


def tools_of(directory: PageToolDirectory) -> list[str]:
    return [name for tab in directory.tabs() for name in tab.tools]


@asynccontextmanager
async def connected(**hello: Any) -> AsyncIterator[tuple[PageToolDirectory, Embed]]:
    """A page with one tool."""
    directory = PageToolDirectory()
    embed = Embed(directory)
    await embed.hello(**hello)
    await embed.list()
    yield directory, embed
    directory.close()
    await settle()


# ---- what it says


def test_an_embed_is_greeted_by_what_it_takes_for_a_relay() -> None:
    transport = McpbTransport(bind(0))
    greeting = transport._greeting
    transport.release_port()
    assert {key: greeting[key] for key in ("type", "service", "version", "host", "port")} == {
        "type": "server-hello",
        "service": "webmcp-local-relay",
        "version": 1,
        "host": "127.0.0.1",
        "port": transport.port,
    }
    assert isinstance(greeting["instanceId"], str)


def test_a_hello_is_accepted_at_once_and_makes_a_tab() -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        embed = Embed(directory)
        await settle()
        assert embed.to_page == [GREETING]
        assert directory.tabs() == []
        before = virtual_loop().time()
        await embed.hello()
        assert embed.to_page == [GREETING, {"type": "hello/accepted"}]
        assert virtual_loop().time() == before
        (tab,) = directory.tabs()
        assert (tab.id, tab.title, tab.url) == ("tab-1", "Shop", f"{HERE}/shop.html")
        assert (tab.visible, tab.focused) == (False, False)
        await embed.leave()

    run(scenario())


def test_its_tools_are_listed_under_its_origin() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            (row,) = directory.list()
            assert row.ns == HERE
            assert [(t.name, t.description, t.input_schema) for t in row.tools] == [
                ("add_todo", "Add one", {"type": "object"})
            ]
            await embed.say("tools/changed", tools=[{"name": "other"}, {"name": "third"}])
            assert tools_of(directory) == [f"{HERE}/other", f"{HERE}/third"]
            await embed.say("tools/changed", tools=[])
            assert tools_of(directory) == []
            assert len(directory.tabs()) == 1

    run(scenario())


def test_fields_of_a_wrong_kind_are_left_out_and_a_bad_tool_costs_itself_only() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            odd = {
                "name": "odd",
                "description": None,
                "inputSchema": "{",
                "annotations": [],
                "x": 1,
            }
            good = {"name": "good", "title": "Good", "annotations": {"readOnlyHint": True}}
            await embed.list(odd, "no tool", {"description": "no name"}, None, good)
            (row,) = directory.list()
            first, second = row.tools
            assert (first.name, first.description, first.input_schema) == ("odd", "", None)
            assert (second.title, second.annotations) == ("Good", {"readOnlyHint": True})

    run(scenario())


def test_tools_count_only_after_a_hello() -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        embed = Embed(directory)
        await embed.list()
        assert directory.list() == []
        await embed.hello()
        assert directory.list() == []
        await embed.list()
        assert tools_of(directory) == [f"{HERE}/add_todo"]
        await embed.leave()

    run(scenario())


@pytest.mark.parametrize(
    "junk",
    [
        None,
        3,
        "text",
        [],
        {},
        {"type": 3},
        {"type": "news"},
        {"type": "hello"},
        {"type": "register", "ns": "evil", "tools": []},
        {"type": "tools/list"},
        {"type": "tools/list", "tools": "many"},
        {"type": "tools/changed", "tools": {"name": "x"}},
        {"type": "result"},
        {"type": "result", "callId": 3},
        {"type": "result", "callId": "unknown", "result": {}},
        {"type": "pong"},
    ],
)
def test_what_is_not_in_the_dialect_changes_nothing(junk: object) -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            call = directory.start(directory.route("add_todo"))
            embed.page_says(junk)
            await settle()
            assert tools_of(directory) == [f"{HERE}/add_todo"]
            assert embed.closed is None
            await embed.answer(result={"n": 1})
            assert await call == {"n": 1}

    run(scenario())


@pytest.mark.parametrize("tab_id", [None, 3, "", "missing"])
def test_a_hello_without_a_proper_tab_id_makes_a_tab_all_the_same(tab_id: object) -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        embed = Embed(directory)
        fields = {"type": "hello"} if tab_id == "missing" else {"type": "hello", "tabId": tab_id}
        embed.page_says(fields)
        await settle()
        await embed.list()
        assert tools_of(directory) == [f"{HERE}/add_todo"]
        await embed.leave()

    run(scenario())


# ---- calls


def test_a_call_is_an_invocation_by_the_tools_own_name() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            call = directory.start(directory.route("add_todo"), {"title": "milk"})
            (invoke,) = embed.told("invoke")
            assert invoke == {
                "type": "invoke",
                "callId": call.id,
                "toolName": "add_todo",
                "args": {"title": "milk"},
            }
            await embed.answer(result={"n": 1})
            assert await call == {"n": 1}

    run(scenario())


BLOCKS = {"content": [{"type": "text", "text": "hi"}], "structuredContent": {"n": 1}}


def is_error(text: str, **fields: Any) -> Message:
    return {"isError": True, "content": [{"type": "text", "text": text}], **fields}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"result": BLOCKS}, BLOCKS),
        ({"result": {"a": 1}}, {"a": 1}),
        ({"result": {}}, {}),
        ({"result": "text"}, "text"),
        ({"result": [1, 2]}, [1, 2]),
        ({"result": None}, None),
        ({}, None),
        ({"result": {"isError": False, "content": []}}, {"isError": False, "content": []}),
        ({"result": {"isError": "true"}}, {"isError": "true"}),
        # What the embed cannot pass on, but tells in its error.
        ({"result": is_error("Testing tool returned invalid JSON: just text")}, "just text"),
        ({"result": is_error("Testing tool returned invalid JSON: undefined")}, None),
        ({"result": is_error("Testing tool returned invalid JSON: ")}, ""),
    ],
)
def test_what_a_tool_returned_is_the_value(result: Message, value: object) -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            call = directory.start(directory.route("add_todo"))
            await embed.answer(**result)
            assert await call == value

    run(scenario())


def test_content_blocks_are_read_as_from_any_page() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            call = directory.start(directory.route("add_todo"), decode=from_page)
            await embed.answer(result=BLOCKS)
            value = await call
            assert isinstance(value, ToolResult)
            assert (value.text, value.structured) == ("hi", {"n": 1})

    run(scenario())


async def failure_of(result: Message) -> PageToolError:
    async with connected() as (directory, embed):
        call = directory.start(directory.route("add_todo"))
        await embed.answer(result=result)
        with pytest.raises(PageToolError) as raised:
            await call
        return raised.value


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (is_error("kaboom"), "kaboom"),
        ({"isError": True}, "(no message)"),
        ({"isError": True, "content": "odd"}, "(no message)"),
        ({"isError": True, "content": [3, {"type": "image"}, {"text": 4}]}, "(no message)"),
        ({"isError": True, "content": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
    ],
)
def test_a_failure_keeps_the_pages_words(result: Message, words: str) -> None:
    error = run(failure_of(result))
    assert (error.name, error.page_message, error.data) == ("Error", words, None)


def test_a_failure_keeps_what_is_structured() -> None:
    assert run(failure_of(is_error("no", structuredContent={"code": 7}))).data == {"code": 7}


def test_an_embed_that_waited_no_longer_says_why_and_what_to_do() -> None:
    error = run(failure_of(is_error("Host response timeout: webmcp.tools.invoke")))
    assert error.name == "TimeoutError"
    for words in ("10 s", "may still be running", "data-request-timeout", "pagetools.js", "attach"):
        assert words in error.page_message


def test_a_text_that_the_embed_cut_is_an_error_that_shows_its_beginning() -> None:
    for text in ("x" * 200, "🎉" * 100):  # both of 200 UTF-16 units
        error = run(failure_of(is_error(f"Testing tool returned invalid JSON: {text}")))
        assert "the tool ran" in error.page_message
        assert error.page_message.endswith(text)


def test_a_value_that_the_embed_cannot_pass_on_is_an_error_that_says_so() -> None:
    error = run(failure_of(is_error("Testing tool response was not an object")))
    assert "the tool ran" in error.page_message


def test_a_page_that_leaves_during_a_call_fails_it_at_once() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            call = directory.start(directory.route("add_todo"))
            before = virtual_loop().time()
            await embed.leave()
            with pytest.raises(PageGoneError) as raised:
                await call
            assert raised.value.sent is True
            assert virtual_loop().time() == before

    run(scenario())


def test_a_cancel_stays_here_and_the_late_answer_is_dropped() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            call = directory.start(directory.route("add_todo"))
            told = len(embed.to_page)
            call.cancel()
            with pytest.raises(CallCancelledError):
                await call
            await embed.answer(result={})
            assert len(embed.to_page) == told
            assert directory.ignored["late result"] == 1

    run(scenario())


# ---- presence


def test_a_page_is_asked_whether_it_is_there() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            states = []
            for _ in range(8):
                await asyncio.sleep(5)
                while len(embed.told("ping")) > len(states):
                    states.append(directory.tabs()[0].state.value)
                    await embed.say("pong")
            assert states == ["connected", "connected"]
            assert embed.told("ping") == [{"type": "ping"}] * 2
            await asyncio.sleep(40)  # from here on it does not answer
            assert directory.tabs()[0].state.value == "not responding"

    run(scenario())


def test_an_answer_has_the_number_of_the_question() -> None:
    async def scenario() -> None:
        embed = MemoryLink()
        link = McpbLink(embed, Page.read({"type": "hello", "tabId": "t"}, HERE))
        said = aiter(link)
        await anext(said)
        for number in (7, 8):
            link.send({"type": "ping", "n": number})
            embed.page_says({"type": "pong"})
            assert await anext(said) == {"v": 1, "type": "pong", "n": number}

    run(scenario())


def test_two_pages_with_one_tab_id_are_two_tabs() -> None:
    async def scenario() -> None:
        async with connected() as (directory, first):
            second = Embed(directory)
            await second.hello()
            await second.list()
            await first.say("pong")
            await second.say("pong")
            one, two = directory.tabs()
            assert one.id == "tab-1"
            assert two.id not in ("tab-1", "")
            for tab, embed in ((one, first), (two, second)):
                call = directory.start(directory.route("add_todo", tab=tab))
                assert embed.told("invoke")[-1]["callId"] == call.id
                await embed.answer(result={})
                await call
            await second.leave()

    run(scenario())


def test_a_reloaded_page_is_the_same_tab() -> None:
    async def scenario() -> None:
        async with connected() as (directory, embed):
            await embed.leave()
            again = Embed(directory)
            await again.hello(title="Shop again")
            (tab,) = directory.tabs()
            assert (tab.id, tab.title) == ("tab-1", "Shop again")
            await again.leave()

    run(scenario())


# ---- who is let in

CDN = "https://cdn.example"
THEIRS = "https://shop.example"


@pytest.mark.parametrize(
    ("header", "origin", "words"),
    [
        (THEIRS, THEIRS, f"{THEIRS} is not on this machine"),
        ("http://localhost.evil.example", None, "not on this machine"),
        ("http://127.0.0.1.evil.example", None, "not on this machine"),
        ("http://127.0.0.1:8101/", None, "not on this machine"),
        ("", None, "without an origin"),
        ("null", "null", "without an origin"),
        (CDN, THEIRS, f"{THEIRS} is not on this machine"),
        (CDN, HERE, f"comes from {CDN}"),
        (HERE, THEIRS, f"{THEIRS} is not on this machine"),
        ("", HERE, "comes from somewhere without an origin"),
        ("null", HERE, "comes from somewhere without an origin"),
    ],
)
def test_others_are_told_why_they_are_not_let_in(
    header: str, origin: str | None, words: str
) -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        embed = Embed(directory, header)
        await embed.hello(origin=origin)
        assert embed.closed == (1008, "not let in")
        (told,) = embed.to_page[1:]
        assert (told["type"], told["reason"]) == ("hello/rejected", "host-origin-not-allowed")
        assert words in told["message"]
        assert "pagetools.js" in told["message"]
        await embed.hello()
        assert directory.tabs() == []
        assert embed.to_page[1:] == [told]
        await embed.task

    run(scenario())


@pytest.mark.parametrize("header", [HERE, "http://localhost", "https://[::1]:8443"])
def test_pages_of_this_machine_are_let_in(header: str) -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        embed = Embed(directory, header)
        await embed.hello(origin=header)
        await embed.list()
        (row,) = directory.list()
        assert (row.ns, row.tab.title) == (header, "Shop")
        await embed.leave()

    run(scenario())


def test_an_origin_that_only_the_embed_tells_is_marked() -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        embed = Embed(directory, "http://127.0.0.1:8102")
        await embed.hello()
        await embed.list()
        (row,) = directory.list()
        assert (row.ns, row.tab.title) == (HERE, "Shop (origin unverified)")
        await embed.leave()

    run(scenario())


def test_relays_are_not_let_in_unless_asked_for() -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        peer = Embed(directory, header="")
        await peer.say("relay/hello")
        assert peer.closed == (1008, "not let in")
        assert peer.to_page == [GREETING]

    run(scenario())


def test_a_relay_is_taken_to_where_relays_belong_and_a_page_cannot_pose_as_one() -> None:
    async def scenario() -> None:
        heard: list[object] = []

        async def relays(peer: Link) -> None:
            heard.extend([raw async for raw in peer])

        directory = PageToolDirectory()
        relay, page = Embed(directory, "", relays), Embed(directory, HERE, relays)
        for peer in (relay, page):
            await peer.say("relay/hello")
            await peer.say("relay/list-tools")
        assert relay.closed is None
        assert page.closed == (1008, "not let in")
        await relay.leave()
        assert heard == [{"type": "relay/list-tools"}]

    run(scenario())


# ---- the port


def test_the_port_it_had_is_tried_first() -> None:
    with contextlib.closing(bind(0)) as probe:
        saved = probe.getsockname()[1]
    with contextlib.closing(bind_mcpb(saved)) as listener:
        assert listener.getsockname() == ("127.0.0.1", saved)


def test_the_first_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(bind(0)) as probe:
        port = probe.getsockname()[1]
        monkeypatch.setattr(mcpb, "FIRST_PORT", port)
        monkeypatch.setattr(mcpb, "LAST_PORT", port + 1)
        with contextlib.closing(bind_mcpb()) as listener:
            assert listener.getsockname()[1] == port + 1


def test_no_port_is_an_error_that_says_which_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(bind(0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(mcpb, "FIRST_PORT", port)
        monkeypatch.setattr(mcpb, "LAST_PORT", port)
        with pytest.raises(BridgeError, match=f"ports {port} to {port} can be used") as raised:
            bind_mcpb(port)
        assert raised.value.port == port


# ---- the server


def within(awaitable: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(awaitable, DEADLINE)


class Served:
    """A running server whose pages answer nothing."""

    def __init__(self, relays: bool) -> None:
        self.directory = PageToolDirectory()
        self.transport = McpbTransport(bind(0), relays=self._relay if relays else None)
        self.heard: asyncio.Queue[object] = asyncio.Queue()

    async def pump(self, link: Link) -> None:
        async for raw in link:
            self.heard.put_nowait(raw)
        self.heard.put_nowait("gone")

    async def _relay(self, peer: Link) -> None:
        peer.send({"type": "relay/tools"})

    @asynccontextmanager
    async def peer(
        self,
        origin: str | None,
        *protocols: str,
        path: str = "/",
        name: str = "127.0.0.1",
        **options: Any,
    ) -> AsyncIterator[ClientConnection]:
        async with connect(
            f"ws://{name}:{self.transport.port}{path}",
            host="127.0.0.1",
            origin=None if origin is None else Origin(origin),
            subprotocols=[Subprotocol(p) for p in protocols] or None,
            proxy=None,
            **options,
        ) as socket:
            yield socket


def serve(scenario: Callable[[Served], Awaitable[None]], *, relays: bool = False) -> None:
    async def main() -> None:
        served = Served(relays)
        await served.transport.start(served.pump)
        try:
            await scenario(served)
        finally:
            await within(served.transport.close())

    asyncio.run(main())


async def heard(socket: ClientConnection) -> Message:
    message: Message = json.loads(await within(socket.recv()))
    return message


PAGE_PROTOCOLS = ("webmcp-discovery.v1", "webmcp.v1")


def test_an_embed_finds_connects_and_is_read() -> None:
    async def scenario(served: Served) -> None:
        async with served.peer(HERE, *PAGE_PROTOCOLS) as socket:
            assert socket.subprotocol == "webmcp-discovery.v1"
            greeting = await heard(socket)
            assert (greeting["type"], greeting["port"]) == ("server-hello", served.transport.port)
            await socket.send("{not json")
            await socket.send(b"binary")
            await socket.send(json.dumps({"type": "hello", "tabId": "t", "origin": HERE}))
            assert await heard(socket) == {"type": "hello/accepted"}
            hello: Any = await within(served.heard.get())
            assert (hello["type"], hello["tab"]["id"]) == ("hello", "t")
            await socket.send("{not json")
            await socket.send(json.dumps({"type": "tools/list", "tools": []}))
            register: Any = await within(served.heard.get())
            assert register["type"] == "register"
        assert await within(served.heard.get()) == "gone"

    serve(scenario)


def test_a_result_may_have_ten_megabytes() -> None:
    async def scenario(served: Served) -> None:
        async with served.peer(HERE, *PAGE_PROTOCOLS) as socket:
            await socket.send(json.dumps({"type": "hello", "tabId": "t"}))
            await within(served.heard.get())
            text = "x" * 10_000_000
            await socket.send(json.dumps({"type": "result", "callId": "1", "result": text}))
            result: Any = await within(served.heard.get())
            assert result["value"] == text

    serve(scenario)


def test_who_is_not_let_in_hears_why_before_the_server_closes() -> None:
    async def scenario(served: Served) -> None:
        async with served.peer(CDN, *PAGE_PROTOCOLS) as socket:
            await socket.send(json.dumps({"type": "hello", "tabId": "t", "origin": HERE}))
            assert [(await heard(socket))["type"] for _ in range(2)] == [
                "server-hello",
                "hello/rejected",
            ]
            with pytest.raises(ConnectionClosed):
                await within(socket.recv())
            assert (socket.close_code, socket.close_reason) == (1008, "not let in")
        assert served.heard.empty()
        await within(served.transport.close())
        (refusal,) = served.transport.refusals
        assert (refusal.origin, refusal.code) == (CDN, 1008)
        assert f"comes from {CDN}" in refusal.reason

    serve(scenario)


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ({"path": "/tools"}, 404),
        ({"path": "/pagetools.js"}, 404),
        ({"name": "evil.example"}, 421),
        ({"additional_headers": {"Origin": "http://localhost"}}, 400),
    ],
)
def test_other_places_and_names_are_not_served(place: dict[str, Any], status: int) -> None:
    async def scenario(served: Served) -> None:
        with pytest.raises(InvalidStatus) as raised:
            async with served.peer(HERE, *PAGE_PROTOCOLS, **place):
                pass
        assert raised.value.response.status_code == status

    serve(scenario)


@pytest.mark.parametrize("protocols", [("webmcp-relay.v1", "webmcp.v1"), ("webmcp-relay.v1",)])
def test_a_relay_is_refused_in_the_handshake_unless_asked_for(protocols: tuple[str, ...]) -> None:
    async def refused(served: Served) -> None:
        with pytest.raises(InvalidStatus) as raised:
            async with served.peer(None, *protocols):
                pass
        assert raised.value.response.status_code == 403
        assert b"--relay" in raised.value.response.body

    async def taken(served: Served) -> None:
        async with served.peer(None, *protocols) as socket:
            assert socket.subprotocol == "webmcp-relay.v1"
            await socket.send(json.dumps({"type": "relay/hello"}))
            assert [(await heard(socket))["type"] for _ in range(2)] == [
                "server-hello",
                "relay/tools",
            ]

    serve(refused)
    serve(taken, relays=True)


def test_a_closed_server_ends_its_pages_and_frees_its_port() -> None:
    async def scenario(served: Served) -> None:
        async with served.peer(HERE, *PAGE_PROTOCOLS) as socket:
            await socket.send(json.dumps({"type": "hello", "tabId": "t"}))
            await within(served.heard.get())
            await within(served.transport.close())
            assert await within(served.heard.get()) == "gone"
            bind(served.transport.port).close()

    serve(scenario)
