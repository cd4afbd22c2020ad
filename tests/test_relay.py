"""Relays that join: what they are shown, under which names, and the calls they make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.messages import ToolDescriptor
from pagetools_ipy.relay import RelayPeers, call_result, public_names, wire_tool
from pagetools_ipy.results import from_page
from pagetools_ipy.views import PageToolRegistration, TabRef

from .helpers import NO_REPLY, FakePage, MemoryLink, Message, run, settle


def declared(tab: str, *names: str, ns: str = "app", client: str = "") -> PageToolRegistration:
    return PageToolRegistration(
        client_id=client or f"client-{tab}",
        ns=ns,
        url="http://localhost/",
        tab=TabRef(tab, "http://localhost/", tab),
        source=None,
        hash=None,
        digest="",
        tools=tuple(map(ToolDescriptor, names)),
        registered_at=1000.0,
        active_tab=False,
        shadowed=False,
    )


def meant(*rows: PageToolRegistration) -> dict[str, tuple[str, str, str]]:
    """By public name: tab, namespace and tool."""
    return {
        name: (offer.registration.tab.id, offer.registration.ns, offer.tool.name)
        for name, offer in public_names(rows).items()
    }


# ---- names


def test_a_name_that_one_tab_has_stays_as_it_is() -> None:
    assert meant(declared("aaaa-1", "add", "cart.add")) == {
        "add": ("aaaa-1", "app", "add"),
        "cart_add": ("aaaa-1", "app", "cart.add"),
    }


def test_a_name_that_several_tabs_have_tells_which() -> None:
    assert meant(declared("bb-2222", "add", "own"), declared("aaaa-1", "add")) == {
        "add_aaaa": ("aaaa-1", "app", "add"),
        "add_bb_2": ("bb-2222", "app", "add"),
        "own": ("bb-2222", "app", "own"),
    }


def test_tools_that_still_have_one_name_are_numbered_and_none_is_lost() -> None:
    one_tab = declared("t1", "a.b", "a-b", "a_b_2", "a/b")
    assert meant(one_tab, declared("t1", "a.b", ns="other")) == {
        "a_b": ("t1", "app", "a.b"),
        "a_b_2": ("t1", "app", "a-b"),
        "a_b_2_2": ("t1", "app", "a_b_2"),
        "a_b_3": ("t1", "app", "a/b"),
        "a_b_4": ("t1", "other", "a.b"),
    }


def test_tools_of_the_relay_itself_keep_their_names() -> None:
    assert list(meant(declared("t1", "webmcp_list_tools"))) == ["webmcp_list_tools_2"]


def test_names_do_not_follow_the_order_of_tabs() -> None:
    rows = declared("t1", "a", ns="x"), declared("t1", "a", ns="y"), declared("t2", "b")
    assert meant(*rows) == meant(*reversed(rows))


WORDS = st.text("ab._é/ ", min_size=1, max_size=4)


@given(
    st.lists(
        st.builds(
            lambda tab, names, ns, client: declared(tab, *names, ns=ns, client=client),
            st.sampled_from(["t", "tab-1", "tab-2", "é"]),
            st.lists(WORDS | WORDS.map(lambda w: w * 60), unique=True, max_size=4),
            WORDS,
            WORDS,
        ),
        max_size=6,
        unique_by=lambda row: (row.client_id, row.ns),
    )
)
def test_every_tool_has_a_name_of_its_own_that_mcp_clients_take(
    rows: list[PageToolRegistration],
) -> None:
    names = public_names(rows)
    assert len(names) == sum(len(row.tools) for row in rows)
    for name in names:
        assert len(name) <= 128
        assert name.isascii()
        assert name.replace("_", "a").isalnum()


# ---- tools

ANY = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (None, ANY),
        ({}, ANY),
        ({"type": "object"}, ANY),
        ({"properties": {"x": {}}}, {"type": "object", "properties": {"x": {}}}),
        (
            {"type": "object", "properties": {"x": {}}, "required": ["x"], "$defs": {"y": True}},
            {"type": "object", "properties": {"x": {}}, "required": ["x"], "$defs": {"y": True}},
        ),
        ({"type": "string"}, ANY),
        ({"type": ["object", "null"]}, ANY),
        ({"properties": []}, ANY),
        ({"properties": {"x": True}}, ANY),
        ({"required": "x"}, ANY),
        ({"required": [1]}, ANY),
    ],
)
def test_a_schema_that_relays_do_not_take_is_any_object(schema: Any, shown: Message) -> None:
    assert wire_tool("x", ToolDescriptor("x", input_schema=schema))["inputSchema"] == shown


def test_a_tool_shows_what_relays_understand() -> None:
    tool = ToolDescriptor(
        "a.b",
        "Does it",
        title="A",
        output_schema={"type": "object"},
        annotations={"readOnlyHint": True, "untrustedContentHint": True},
    )
    assert wire_tool("a_b", tool) == {
        "name": "a_b",
        "description": "Does it",
        "title": "A",
        "inputSchema": ANY,
        "annotations": {"readOnlyHint": True},
    }
    odd = ToolDescriptor("x", annotations={"readOnlyHint": "yes"})
    assert "annotations" not in wire_tool("x", odd)


# ---- results


def text(words: str) -> Message:
    return {"type": "text", "text": words}


IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("hi é", {"content": [text("hi é")]}),
        (None, {"content": [text("null")]}),
        (3, {"content": [text("3")]}),
        ([1, {"a": "é"}], {"content": [text('[1, {"a": "é"}]')]}),
        ({"a": 1}, {"content": [text('{"a": 1}')], "structuredContent": {"a": 1}}),
        (
            {"content": [text("hi"), IMAGE, AUDIO], "structuredContent": {"n": 1}},
            {"content": [text("hi"), IMAGE, AUDIO], "structuredContent": {"n": 1}},
        ),
        (
            {"content": [{**text("hi"), "annotations": 3}], "structuredContent": [1]},
            {"content": [text("hi")]},
        ),
        (
            {"content": [{"type": "text"}, {**IMAGE, "data": "?"}, {"type": "odd"}]},
            {
                "content": [
                    text('{"type": "text"}'),
                    text('{"type": "image", "data": "?", "mimeType": "image/png"}'),
                    text('{"type": "odd"}'),
                ]
            },
        ),
    ],
)
def test_whatever_a_tool_returned_becomes_an_mcp_result(value: Any, result: Message) -> None:
    assert call_result(from_page(value)) == result


# ---- a relay that has joined


class Relay(MemoryLink):
    """A relay that joins a directory."""

    def __init__(self, directory: PageToolDirectory) -> None:
        super().__init__()
        self.attempts = 0
        self.task = asyncio.ensure_future(RelayPeers(directory).join(self))

    def send(self, message: Message) -> None:
        self.attempts += 1
        super().send(message)

    async def say(self, type: str, **fields: Any) -> None:
        self.page_says({"type": type, **fields})
        await settle()

    async def listed(self) -> list[str]:
        await self.say("relay/list-tools")
        listing = self.to_page[-1]
        assert listing["type"] == "relay/tools"
        return [tool["name"] for tool in listing["tools"]]

    async def call(self, name: str, **fields: Any) -> Message:
        """The result of a tool that answers at once."""
        await self.say("relay/invoke", callId="c1", toolName=name, **fields)
        answer = self.to_page[-1]
        assert (answer["type"], answer["callId"]) == ("relay/result", "c1")
        result: Message = answer["result"]
        return result


def page_of(directory: PageToolDirectory, tab: str, **handlers: Any) -> FakePage:
    page = FakePage(directory, handlers)
    page.hello(tab, doc=f"doc-{tab}", title=f"Title of {tab}", url=f"http://localhost/{tab}")
    page.register("app", *(handlers or ("add",)))
    return page


@asynccontextmanager
async def joined() -> AsyncIterator[tuple[PageToolDirectory, Relay]]:
    directory = PageToolDirectory(now=lambda: 1000.0)
    relay = Relay(directory)
    await settle()
    yield directory, relay
    relay.close(1000, "")
    await relay.task
    directory.close()


def test_it_is_shown_tools_and_the_tabs_they_are_in() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page = page_of(directory, "tab-1", add=None, buy=None)
            page.register("other", "add")
            assert await relay.listed() == ["add", "buy", "add_2"]
            (listing,) = relay.to_page
            assert listing["sources"] == [
                {
                    "sourceId": "tab-1",
                    "tabId": "tab-1",
                    "url": "http://localhost/tab-1",
                    "title": "Title of tab-1",
                    "connectedAt": 1_000_000,
                    "lastSeenAt": 1_000_000,
                    "toolCount": 3,
                }
            ]
            assert listing["toolSourceMap"] == dict.fromkeys(["add", "buy", "add_2"], ["tab-1"])

    run(scenario())


def test_it_calls_the_tool_that_the_name_stands_for() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            for tab in ("aaaa", "bbbb"):
                page_of(directory, tab, add=lambda args, tab=tab: {"in": tab, **args})
            assert await relay.listed() == ["add_aaaa", "add_bbbb"]
            for tab in ("aaaa", "bbbb"):
                result = await relay.call(f"add_{tab}", args={"n": 1})
                assert result["structuredContent"] == {"in": tab, "n": 1}

    run(scenario())


def test_a_name_means_what_it_meant_when_the_tools_were_listed() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page_of(directory, "bbbb", add=lambda args: "b")
            assert await relay.listed() == ["add"]
            page_of(directory, "aaaa", add=lambda args: "a")
            assert await relay.call("add") == {"content": [text("b")]}

    run(scenario())


def test_a_reloaded_page_answers_under_its_old_name() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page_of(directory, "tab-1", add=lambda args: "before").disconnect()
            page = page_of(directory, "tab-1", add=lambda args: "first")
            assert await relay.listed() == ["add"]
            page.disconnect()
            page_of(directory, "tab-1", add=lambda args: "again")
            assert await relay.call("add") == {"content": [text("again")]}

    run(scenario())


def test_it_is_told_once_when_the_tools_are_others() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page_of(directory, "aaaa")
            page_of(directory, "bbbb")
            await asyncio.sleep(1)
            (told,) = relay.to_page
            assert told["type"] == "relay/tools-changed"
            assert [tool["name"] for tool in told["tools"]] == ["add_aaaa", "add_bbbb"]
            assert {"sources", "toolSourceMap"} <= set(told)

    run(scenario())


def test_failures_are_results_that_say_why() -> None:
    def explode(args: Message) -> None:
        raise ValueError("too hot")

    async def scenario() -> None:
        async with joined() as (directory, relay):
            page = page_of(directory, "tab-1", explode=explode, blocks=lambda args: refused)
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
            page.register("typed", {"name": "typed", "inputSchema": schema})
            await relay.listed()
            assert "too hot" in why(await relay.call("explode"))
            assert "no entry" in why(await relay.call("blocks"))
            assert "expected" in why(await relay.call("typed", args={"n": "one"}))
            assert "expected an object" in why(await relay.call("explode", args=[1]))
            assert 'no tool "explod"' in why(await relay.call("explod"))
            page.disconnect()
            assert why(await relay.call("explode"))

    refused = {"isError": True, "content": [text("no entry")]}
    run(scenario())


def why(result: Message) -> str:
    assert result["isError"] is True
    (block,) = result["content"]
    words: str = block["text"]
    return words


def test_a_page_that_goes_during_a_call_fails_it_at_once() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page = page_of(directory, "tab-1", add=lambda args: NO_REPLY)
            await relay.listed()
            await relay.say("relay/invoke", callId="c1", toolName="add")
            page.disconnect()
            await settle()
            assert "went away" in why(relay.to_page[-1]["result"])

    run(scenario())


def test_calls_of_a_relay_that_leaves_are_cancelled() -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page = page_of(directory, "tab-1", add=lambda args: NO_REPLY)
            await relay.listed()
            await relay.say("relay/invoke", callId="c1", toolName="add")
            relay.close(1001, "")
            await settle()
            assert page.all("cancel")
            told = relay.attempts
            page_of(directory, "tab-2")
            await asyncio.sleep(1)
            assert relay.attempts == told

    run(scenario())


@pytest.mark.parametrize(
    "junk",
    [
        None,
        3,
        "text",
        [],
        {},
        {"type": "relay/unknown"},
        {"type": "relay/invoke"},
        {"type": "relay/invoke", "callId": 3, "toolName": "add"},
        {"type": "relay/invoke", "callId": "c", "toolName": None},
    ],
)
def test_what_is_not_in_its_dialect_is_passed_over(junk: object) -> None:
    async def scenario() -> None:
        async with joined() as (directory, relay):
            page_of(directory, "tab-1")
            relay.page_says(junk)
            assert await relay.listed() == ["add"]
            assert len(relay.to_page) == 1

    run(scenario())
