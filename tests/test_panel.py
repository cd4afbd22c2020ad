"""`Panel`: follows a bridge, says what changed, and does what its buttons say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pagetools_ipy import panel_view as view
from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.host import Host
from pagetools_ipy.panel import FLUSH_EVERY, SHOWN_CALLS, Panel

from .helpers import NO_REPLY, FakePage, Message, run, settle, virtual_loop

A_WHILE = 2 * FLUSH_EVERY


@dataclass
class World:
    """A panel in a running loop, with the front end's copy of its state."""

    directory: PageToolDirectory
    panel: Panel
    bridge: dict[str, Any]
    sent: list[Message] = field(default_factory=list)

    def page(
        self, tab: str, *tools: str, handlers: dict[str, Any] | None = None, **hello: Any
    ) -> FakePage:
        page = FakePage(self.directory, handlers)
        page.hello(tab, doc=f"doc {tab}", title=hello.pop("title", tab), **hello)
        page.register("shop", *(tools or ("buy",)))
        return page

    def take(self) -> list[Message]:
        """The messages since the last time."""
        taken, self.sent[:] = list(self.sent), []
        return taken

    async def ask(self, kind: str, **fields: Any) -> Message:
        self.panel.receive({"kind": kind, "re": "r1", **fields})
        await settle()
        (answer,) = [m for m in self.sent if m["kind"] == "reply" and "started" not in m]
        return answer

    def tab(self, tab_id: str) -> Message:
        (found,) = [tab for tab in self.panel.state["tabs"] if tab["id"] == tab_id]
        return cast(Message, found)


def play(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    escaped: list[dict[str, Any]] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: escaped.append(context))
        host = cast(Host, type("FakeHost", (), {"loop": loop})())
        bridge = {"state": "running", "port": 9319, "url": "http://127.0.0.1:9319"}
        directory = PageToolDirectory(now=loop.time)
        panel = Panel(host, directory, lambda: dict(bridge))
        world = World(directory, panel, bridge)
        copy = panel.state

        def send(message: Message) -> None:
            nonlocal copy
            message = json.loads(json.dumps(message))
            world.sent.append(message)
            if message["kind"] == "delta":
                assert message["seq"] == copy["seq"] + 1
                copy = view.apply(copy, message, SHOWN_CALLS)
                assert copy == panel.state

        panel.send = send
        panel.open()
        await scenario(world)
        panel.close()
        directory.close()

    run(scene())
    assert escaped == []


def test_what_is_there_when_it_is_opened_is_shown() -> None:
    async def scenario(world: World) -> None:
        world.page("one")
        await asyncio.sleep(A_WHILE)
        late = Panel(world.panel._host, world.directory, lambda: dict(world.bridge))
        late.open()
        for panel in (world.panel, late):
            assert [tab["id"] for tab in panel.state["tabs"]] == ["one"]
            assert panel.state["answers"] == {"shop": "one"}
        late.close()

    play(scenario)


def test_the_first_change_after_a_pause_is_told_at_once_and_the_next_ones_together() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one")
        await asyncio.sleep(1)
        world.take()
        seen = {"url": "http://localhost/"}
        page.state(1, title="On", **seen)
        await settle()
        assert [m["tabs"] for m in world.take()] == [{"one": {"title": "On"}}]
        for number in range(2, 32):
            page.state(number, title=f"O{number}", **seen)
            await asyncio.sleep(0.01)
        await asyncio.sleep(A_WHILE)
        told = world.take()
        assert len(told) <= 5
        assert told[-1]["tabs"] == {"one": {"title": "O31"}}

    play(scenario)


def test_nothing_is_told_when_nothing_that_is_shown_has_changed() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one")
        await asyncio.sleep(1)
        world.take()
        page.state(1, title="one", url="http://localhost/")
        page.register("shop", "buy")
        await asyncio.sleep(A_WHILE)
        assert world.take() == []

    play(scenario)


def test_a_change_of_focus_tells_of_two_tabs_and_who_answers_and_of_nothing_else() -> None:
    async def scenario(world: World) -> None:
        tools = [f"tool_{n}" for n in range(20)]
        pages = [world.page(f"tab {n}", *tools) for n in range(100)]
        pages[0].state(1, title="tab 0", focused=True, visible=True)
        await asyncio.sleep(1)
        world.take()
        pages[0].state(2, title="tab 0")
        pages[7].state(1, title="tab 7", focused=True, visible=True)
        await settle()
        (delta,) = world.take()
        assert set(delta) == {"kind", "seq", "tabs", "answers"}
        assert set(delta["tabs"]) == {"tab 0", "tab 7"}
        assert delta["answers"] == {"shop": "tab 7"}
        assert len(json.dumps(delta)) < 500

    play(scenario)


def test_a_tab_that_reloads_keeps_its_place_and_is_gone_when_it_does_not_come_back() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one")
        world.page("two")
        await asyncio.sleep(1)
        page.disconnect()
        await settle()
        assert (world.tab("one")["state"], world.tab("one")["number"]) == ("reloading", 0)
        assert [app["tools"] for app in world.tab("one")["apps"]] == [["buy"]]
        await asyncio.sleep(4)
        assert (world.tab("one")["state"], world.tab("one")["number"]) == ("gone", None)
        assert world.tab("two")["number"] == 0
        await asyncio.sleep(30)
        assert [tab["id"] for tab in world.panel.state["tabs"]] == ["two"]

    play(scenario)


def test_a_tab_that_comes_back_is_the_same_one() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one")
        world.page("two")
        await asyncio.sleep(1)
        page.disconnect()
        world.page("one", title="again")
        await asyncio.sleep(A_WHILE)
        assert [tab["id"] for tab in world.panel.state["tabs"]] == ["one", "two"]
        assert world.tab("one")["title"] == "again"

    play(scenario)


def test_who_would_answer_follows_pin_and_withdrawal() -> None:
    async def scenario(world: World) -> None:
        one, two = world.page("one"), world.page("two", focused=True)
        await asyncio.sleep(1)
        assert world.panel.state["answers"] == {"shop": "two"}
        world.panel.receive({"kind": "pin", "tab": "one"})
        await asyncio.sleep(A_WHILE)
        assert world.panel.state["answers"] == {"shop": "one"}
        assert world.panel.state["pinned"] == "one"
        world.panel.receive({"kind": "pin", "tab": None})
        await asyncio.sleep(A_WHILE)
        assert world.panel.state["pinned"] is None
        one.register("shop")
        two.register("shop")
        await asyncio.sleep(A_WHILE)
        assert world.panel.state["answers"] == {}

    play(scenario)


def test_a_call_is_followed_from_its_beginning_to_its_end() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one", handlers={"buy": lambda args: NO_REPLY})
        await asyncio.sleep(1)
        call = world.directory.start(world.directory.route("buy"))
        await settle()
        (shown,) = world.panel.state["calls"]
        assert (shown["state"], shown["tabId"]) == ("pending", "one")
        page.say("progress", callId=call.id, progress=1, total=2)
        await asyncio.sleep(A_WHILE)
        assert world.panel.state["calls"][0]["progress"]["done"] == 1
        page.result(call.id, "bought")
        await asyncio.sleep(A_WHILE)
        (shown,) = world.panel.state["calls"]
        assert (shown["state"], shown["note"]) == ("answered", "'bought'")
        assert world.panel._live == {}

    play(scenario)


def test_of_thousands_of_calls_a_few_are_shown_and_none_hangs() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one", handlers={"buy": lambda args: NO_REPLY})
        await asyncio.sleep(1)
        calls = [world.directory.start(world.directory.route("buy")) for _ in range(1000)]
        await asyncio.sleep(A_WHILE)
        assert 0 < len(world.panel.state["calls"]) <= 2 * SHOWN_CALLS
        for call in calls:
            page.result(call.id, 1)
        await asyncio.sleep(A_WHILE)
        shown = world.panel.state["calls"]
        assert len(shown) <= SHOWN_CALLS
        assert {call["state"] for call in shown} == {"answered"}
        assert all(len(m.get("calls", [])) <= 3 * SHOWN_CALLS for m in world.take())
        assert (world.panel._live, world.panel._dirty_calls) == ({}, {})

    play(scenario)


def test_a_call_can_be_cancelled() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one", handlers={"buy": lambda args: NO_REPLY})
        call = world.directory.start(world.directory.route("buy"))
        world.panel.receive({"kind": "cancel", "id": call.id})
        world.panel.receive({"kind": "cancel", "id": "another"})
        await asyncio.sleep(A_WHILE)
        assert world.panel.state["calls"][0]["state"] == "cancelled"
        assert page.all("cancel")[0]["callId"] == call.id

    play(scenario)


def test_a_call_by_hand_is_checked_sent_answered_and_written_as_a_cell() -> None:
    async def scenario(world: World) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        page = FakePage(world.directory, {"buy": lambda args: {"bought": args["n"]}})
        page.hello("one", title="Shop")
        page.say("register", ns="shop", tools=[{"name": "buy", "inputSchema": schema}])
        answer = await world.ask("call", tab="one", ns="shop", name="buy", args={"n": 2})
        assert answer["ok"] is True
        assert json.loads(answer["value"]) == {"bought": 2}
        assert answer["cell"] == "await tools.buy(n=2)"
        (started,) = [m for m in world.take() if "started" in m]
        assert started["re"] == "r1"
        assert started["started"] == page.last_call["callId"]

        answer = await world.ask("call", tab="one", ns="shop", name="buy", args={"n": "two"})
        assert answer["ok"] is False
        assert answer["error"] == 'shop/buy: n: expected integer, got string "two"'
        assert len(page.all("call")) == 1

    play(scenario)


def test_a_call_by_hand_that_takes_long_is_answered_once_at_its_end() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one", handlers={"buy": lambda args: NO_REPLY})
        request = {"kind": "call", "re": "r", "tab": "one", "ns": "shop", "name": "buy"}
        world.panel.receive({**request, "args": {}})
        await settle()
        call_id = page.last_call["callId"]
        page.say("progress", callId=call_id, progress=1)
        page.say("progress", callId=call_id, progress=2)
        page.result(call_id, error={"name": "Error", "message": "sold out"})
        await settle()
        replies = [m for m in world.take() if m["kind"] == "reply" and "ok" in m]
        assert [m["error"] for m in replies] == ["Error: sold out"]

    play(scenario)


CELLS = [
    ("alone", "await tools.buy(n=1)"),
    ("another app has the name", 'await tools["shop/buy"](n=1)'),
    ("another tab would answer", 'await tabs["one"].buy(n=1)'),
    ("several tabs have the title", 'await tabs["t1"].buy(n=1)'),
    (
        "another tab would answer and the tab has two apps",
        'await tabs["one"].tools["shop/buy"](n=1)',
    ),
]


@pytest.mark.parametrize(("situation", "cell"), CELLS)
def test_the_cell_makes_the_same_call(situation: str, cell: str) -> None:
    async def scenario(world: World) -> None:
        page = world.page("t1", title="one")
        if situation == "another app has the name":
            FakePage(world.directory).register("bakery", "buy")
        if situation.startswith("another tab would answer"):
            world.page("t2", title="two", focused=True)
        if situation == "several tabs have the title":
            world.page("t2", title="one", focused=True)
        if situation.endswith("two apps"):
            page.register("bakery", "buy")
        answer = await world.ask("cell", tab="t1", ns="shop", name="buy", args={"n": 1})
        assert answer["cell"] == cell

    play(scenario)


def test_a_tool_that_changes_only_its_description_is_told_of() -> None:
    async def scenario(world: World) -> None:
        page = world.page("one")
        await asyncio.sleep(1)
        world.take()
        page.register("shop", {"name": "buy", "description": "Buys it"})
        await settle()
        (delta,) = world.take()
        assert set(delta["tabs"]["one"]) == {"apps"}

    play(scenario)


def test_details_of_one_tabs_tools_are_given_when_asked_for() -> None:
    async def scenario(world: World) -> None:
        world.page("one", "buy", "sell")
        world.page("two", "other")
        answer = await world.ask("tools", tab="one")
        assert [tool["name"] for tool in answer["tools"]] == ["buy", "sell"]

    play(scenario)


def test_the_whole_state_and_the_snippets_are_given_when_asked_for() -> None:
    async def scenario(world: World) -> None:
        world.page("one")
        await asyncio.sleep(A_WHILE)
        answer = await world.ask("snapshot")
        assert answer["state"] == world.panel.state
        world.take()
        answer = await world.ask("snippet")
        assert "http://127.0.0.1:9319/pagetools.js" in answer["snippets"][0]["text"]

    play(scenario)


@pytest.mark.parametrize(
    "request_",
    [None, 1, [], {}, {"kind": "shutdown"}, {"kind": []}, {"kind": "cancel"}, {"kind": "call"}],
)
def test_a_request_that_makes_no_sense_hurts_nobody(request_: Any) -> None:
    async def scenario(world: World) -> None:
        world.panel.receive(request_)
        await settle()
        world.take()
        assert (await world.ask("snapshot"))["state"]["seq"] >= 0

    play(scenario)


def test_a_request_that_cannot_be_met_is_answered_with_why() -> None:
    async def scenario(world: World) -> None:
        world.page("one")
        answer = await world.ask("pin", tab="no such")
        assert "no tab" in answer["error"]
        world.take()
        answer = await world.ask("call", tab="no such", ns="shop", name="buy", args={})
        assert answer["ok"] is False

    play(scenario)


def test_it_ends_with_the_bridge_stopped_and_nobody_there() -> None:
    async def scenario(world: World) -> None:
        world.page("one")
        await asyncio.sleep(1)
        world.take()
        world.bridge["state"] = "stopped"
        world.directory.close()
        world.panel.close()
        last = world.take()[-1]
        assert last["bridge"]["state"] == "stopped"
        assert world.panel.state["tabs"] == []
        assert world.panel.state["answers"] == {}
        world.panel.close()
        await asyncio.sleep(1)
        assert world.take() == []

    play(scenario)


def test_a_request_to_a_bridge_that_is_gone_is_answered_with_that() -> None:
    async def scenario(world: World) -> None:
        closed = asyncio.new_event_loop()
        closed.close()
        world.panel._host.loop = closed
        world.panel.receive({"kind": "snapshot", "re": "r1"})
        (answer,) = world.take()
        assert (answer["re"], answer["error"]) == ("r1", "the bridge is stopped")
        world.panel._host.loop = asyncio.get_running_loop()

    play(scenario)


def test_an_answer_that_cannot_be_carried_is_said_to_be_so() -> None:
    async def scenario(world: World) -> None:
        send = world.panel.send

        def refuse_tools(message: Message) -> None:
            if "tools" in message:
                raise ValueError("surrogates not allowed")
            send(message)

        world.page("one")
        world.panel.send = refuse_tools
        answer = await world.ask("tools", tab="one")
        assert answer["error"] == "the answer cannot be sent"

    play(scenario)


def test_a_title_that_a_frame_of_another_tab_has_too_does_not_stand_for_the_tab() -> None:
    async def scenario(world: World) -> None:
        world.page("shop", title="Shop")
        world.page("board", title="Dashboard", focused=True)
        frame = FakePage(world.directory)
        frame.hello("board", doc="frame", title="Shop", top=False)
        answer = await world.ask("cell", tab="shop", ns="shop", name="buy", args={})
        assert answer["cell"] == 'await tabs["shop"].buy()'

    play(scenario)


def test_another_bridges_panel_goes_on_where_it_stopped() -> None:
    async def scenario(world: World) -> None:
        world.page("one")
        await asyncio.sleep(1)
        world.bridge["state"] = "stopped"
        world.directory.close()
        world.panel.close()
        seq = world.panel.state["seq"]
        world.take()
        directory = PageToolDirectory(now=virtual_loop().time)
        bridge = {"state": "running", "port": 9320, "url": ""}
        second = Panel(world.panel._host, directory, lambda: bridge)
        second.take_over(world.panel)
        FakePage(directory).register("blog", "post")
        second.send = world.sent.append
        second.open()
        (delta,) = world.take()
        assert delta["seq"] == seq + 1
        assert delta["bridge"] == bridge
        assert list(delta["answers"]) == ["blog"]
        second.close()
        directory.close()

    play(scenario)


def test_a_front_end_that_cannot_be_told_disturbs_no_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: World) -> None:
        def refuse(message: Message) -> None:
            raise RuntimeError("no comm")

        world.panel.send = refuse
        world.page("one", handlers={"buy": lambda args: "bought"})
        assert await world.directory.call("buy") == "bought"
        await asyncio.sleep(A_WHILE)
        world.panel.send = world.sent.append

    play(scenario)
    assert "the panel could not be told" in caplog.text


def test_the_counts_say_nothing_of_what_pages_said() -> None:
    async def scenario(world: World) -> None:
        world.page("one", "buy", "sell", title="secret")
        await asyncio.sleep(A_WHILE)
        assert world.panel.summary() == "pagetools: bridge on port 9319, 1 tab, 2 tools"
        world.bridge["state"] = "stopped"
        world.directory.strict = True
        await asyncio.sleep(A_WHILE)
        assert world.panel.summary() == "pagetools: the bridge is stopped"

    play(scenario)
