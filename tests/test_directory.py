"""`PageToolDirectory`: connections, declarations, calls, focus, the change signal."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pagetools_ipy import (
    AmbiguousToolError,
    BridgeError,
    CallCancelledError,
    CallState,
    CallTimeoutError,
    InvalidArgumentsError,
    NoPageConnectedError,
    PageGoneError,
    PageToolDirectory,
    PageToolError,
    TabNotFoundError,
    ToolNotFoundError,
    ToolWaitTimeoutError,
    format_page_tools_changed,
)
from pagetools_ipy.limits import MAX_NAMESPACES
from pagetools_ipy.views import PageToolSummary

from .helpers import NO_REPLY, Clock, FakePage, counted_ids, run, settle, tool, virtual_loop


def make_directory(**options: Any) -> PageToolDirectory:
    return PageToolDirectory(now=Clock(), new_id=counted_ids(), **options)


def echo(args: dict[str, Any]) -> dict[str, Any]:
    return {"echo": args}


# Declaring


def test_a_registration_is_listed_with_everything_the_page_said() -> None:
    clock = Clock()
    directory = PageToolDirectory(now=clock, new_id=counted_ids("c"))
    page = FakePage(directory)
    page.register(
        "todo",
        tool("add", inputSchema={"type": "object"}),
        url="http://localhost:3000/",
        hash="h1",
        tab={"chromeTabId": 7, "windowId": 1, "targetId": "T", "title": "Todo"},
        source={"root": "/src"},
    )
    (row,) = directory.list()
    assert (row.client_id, row.ns, row.url, row.hash, row.source) == (
        "c1",
        "todo",
        "http://localhost:3000/",
        "h1",
        "/src",
    )
    assert [t.name for t in row.tools] == ["add"]
    assert row.tools[0].input_schema == {"type": "object"}
    assert (row.tab.title, row.tab.chrome_tab_id, row.tab.window_id) == ("Todo", 7, 1)
    assert row.registered_at == clock.now
    assert (row.active_tab, row.shadowed) == (False, False)
    assert len(row.digest) == 64


def test_registered_is_answered_with_the_namespace_and_a_hash() -> None:
    page = FakePage(make_directory())
    page.register("todo", "add")
    page.register("chart", "draw", hash="mine")
    first, second = page.all("registered")
    assert (first["ns"], len(first["hash"])) == ("todo", 64)
    assert second == {"v": 1, "type": "registered", "ns": "chart", "hash": "mine"}


def test_declaring_a_namespace_again_replaces_its_tools() -> None:
    directory = make_directory()
    page = FakePage(directory, {"new": echo, "old": echo})
    page.register("todo", "old", "kept")
    page.register("todo", "new", "kept")
    (row,) = directory.list()
    assert [t.name for t in row.tools] == ["new", "kept"]
    with pytest.raises(ToolNotFoundError):
        run(directory.call("old"))
    assert run(directory.call("new")) == {"echo": {}}


def test_an_empty_declaration_withdraws_the_namespace() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")
    page.register("todo")
    assert directory.list() == []
    assert page.all("registered")[-1]["ns"] == "todo"


def test_one_bad_tool_does_not_drop_the_others() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.say("register", ns="todo", tools=[tool("a"), {"name": 3}, tool("b"), tool("a")])
    assert [t.name for t in directory.list()[0].tools] == ["a", "b"]
    assert [(m["code"], m["path"]) for m in page.all("rejected")] == [
        ("invalid", "tools[1].name"),
        ("duplicate", "tools[3].name"),
    ]
    assert page.all("rejected")[0]["message"] == "expected string, got number"


def test_the_digest_is_ours_and_ignores_the_pages_hash() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add", hash="same")
    before = directory.list()[0].digest
    page.register("todo", "add", hash="other")
    assert directory.list()[0].digest == before
    page.register("todo", "add", "remove", hash="same")
    assert directory.list()[0].digest != before


@pytest.mark.parametrize(
    ("message", "code", "path"),
    [
        ("text", "type", ""),
        (None, "type", ""),
        ([], "type", ""),
        ({"ns": "x"}, "type", "type"),
        ({"type": 4}, "type", "type"),
        ({"v": 99, "type": "register", "ns": "x", "tools": []}, "version", "v"),
        ({"v": True, "type": "register", "ns": "x", "tools": []}, "version", "v"),
        ({"type": "register", "tools": []}, "invalid", "ns"),
        ({"type": "register", "ns": "", "tools": []}, "invalid", "ns"),
        ({"type": "register", "ns": "a\u202eb", "tools": []}, "invalid", "ns"),
        ({"type": "register", "ns": "x" * 200, "tools": []}, "too_large", "ns"),
        ({"type": "register", "ns": "x", "tools": {}}, "invalid", "tools"),
        ({"type": "hello", "tab": {"id": 3}}, "invalid", "tab.id"),
        ({"type": "activation", "tab": {}, "active": True}, "invalid", "tab.chromeTabId"),
        ({"type": "result", "callId": "x"}, "invalid", "ok"),
        ({"type": "state", "seq": "1"}, "invalid", "seq"),
    ],
)
def test_what_is_not_in_the_protocol_is_answered_with_where_it_is_wrong(
    message: Any, code: str, path: str
) -> None:
    directory = make_directory()
    page = FakePage(directory)
    directory.handle_client_message(page.client_id, message)
    (rejected,) = page.all("rejected")
    assert (rejected["code"], rejected["path"]) == (code, path)
    assert directory.ignored["rejected"] == 1


def test_an_unknown_message_type_is_counted_and_not_answered() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.say("brandNew", x=1)
    assert page.received == []
    assert directory.ignored == {"unknown type": 1}


def test_messages_of_unknown_connections_are_counted() -> None:
    directory = make_directory()
    directory.handle_client_message("nobody", {"type": "register", "ns": "x", "tools": []})
    assert directory.ignored == {"unknown connection": 1}


def test_hello_is_welcomed_with_the_tab_id_it_brought() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello("tab-9", title="Shop", url="http://localhost/shop", visible=True)
    (welcome,) = page.all("welcome")
    assert (welcome["clientId"], welcome["tabId"]) == (page.client_id, "tab-9")
    assert welcome["maxBytes"] > 1_000_000
    (tab,) = directory.tabs()
    assert (tab.id, tab.title, tab.url, tab.visible) == (
        "tab-9",
        "Shop",
        "http://localhost/shop",
        True,
    )


def test_a_second_document_with_the_same_tab_id_gets_an_id_of_its_own() -> None:
    directory = make_directory()
    first, second = FakePage(directory), FakePage(directory)
    first.hello("tab-1", doc="a")
    second.hello("tab-1", doc="b")
    welcome = second.all("welcome")[0]
    assert welcome["tabId"] != "tab-1"
    assert welcome["reason"] == "duplicate"
    assert len(directory.tabs()) == 2


def test_the_same_document_connecting_again_takes_the_place_of_its_old_connection() -> None:
    directory = make_directory()
    old, new = FakePage(directory), FakePage(directory)
    old.hello("tab-1", doc="a")
    old.register("todo", "add")
    new.hello("tab-1", doc="a")
    assert old.closed is not None
    assert old.closed[0] == 4409
    (tab,) = directory.tabs()
    assert tab.client_ids == (new.client_id,)
    assert directory.list() == []


def test_frames_are_listed_under_their_tab() -> None:
    directory = make_directory()
    frame, top = FakePage(directory), FakePage(directory)
    frame.hello("tab-1", doc="inner", title="Ad", top=False)
    top.hello("tab-1", doc="outer", title="Shop")
    frame.register("ad", "skip")
    (tab,) = directory.tabs()
    assert tab.title == "Shop"
    assert tab.client_ids == (top.client_id, frame.client_id)
    assert tab.tools == ("ad/skip",)


def test_state_updates_title_url_and_focus_and_old_news_are_ignored() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello("tab-1", title="Old")
    page.state(2, title="New", url="http://localhost/new", visible=True, focused=True)
    page.state(1, title="Older still")
    (tab,) = directory.tabs()
    assert (tab.title, tab.url, tab.focused) == ("New", "http://localhost/new", True)
    assert directory.ignored == {"stale state": 1}


def test_hostile_text_is_made_safe_to_show() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello("tab-1", title="\x1b[31mred\u202e\u200b" + "x" * 1000)
    page.say("register", ns="n", tools=[tool("t", description="a\x1b]0;evil\x07b\u2066c\nd")])
    assert directory.tabs()[0].title.startswith("redxxx")
    assert len(directory.tabs()[0].title) == 256
    assert directory.list()[0].tools[0].description == "abc\nd"


# Calling


def test_a_call_returns_what_the_page_returned() -> None:
    directory = make_directory()
    page = FakePage(directory, {"add": echo})
    page.register("todo", "add")
    assert run(directory.call("add", {"title": "milk"})) == {"echo": {"title": "milk"}}
    assert page.last_call == {
        "v": 1,
        "type": "call",
        "callId": page.last_call["callId"],
        "ns": "todo",
        "name": "add",
        "args": {"title": "milk"},
    }


def test_a_tool_can_be_named_with_its_namespace() -> None:
    directory = make_directory()
    page = FakePage(directory, {"add": echo, "a/b": echo})
    page.register("x/y", "add", "a/b")
    assert run(directory.call("x/y/add")) == {"echo": {}}
    assert run(directory.call("a/b")) == {"echo": {}}
    assert run(directory.call("x/y/a/b")) == {"echo": {}}


def test_a_failing_tool_raises_with_the_pages_own_words() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello(title="Shop")
    page.register("shop", "buy")

    async def scenario() -> PageToolError:
        call = asyncio.create_task(directory.call("buy"))
        await settle()
        error = {"name": "RangeError", "message": "sold out", "stack": "at x", "data": {"left": 0}}
        page.result(page.last_call["callId"], error=error)
        with pytest.raises(PageToolError) as raised:
            await call
        return raised.value

    error = run(scenario())
    assert (error.name, error.page_message, error.stack, error.data) == (
        "RangeError",
        "sold out",
        "at x",
        {"left": 0},
    )
    assert (error.tool, error.tab) == ("shop/buy", "Shop")


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        ("plain words", "Error", "plain words"),
        ({}, "Error", "(no message)"),
        ({"message": 5}, "Error", "5"),
        ([1], "Error", "[1]"),
    ],
)
def test_a_failure_may_come_in_any_form(error: Any, name: str, message: str) -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("shop", "buy")

    async def scenario() -> None:
        call = asyncio.create_task(directory.call("buy"))
        await settle()
        page.result(page.last_call["callId"], error=error)
        with pytest.raises(PageToolError) as raised:
            await call
        assert (raised.value.name, raised.value.page_message) == (name, message)

    run(scenario())


def test_no_page_connected_says_so() -> None:
    with pytest.raises(NoPageConnectedError):
        run(make_directory().call("add"))


def test_an_unknown_tool_lists_what_exists() -> None:
    directory = make_directory()
    FakePage(directory).register("todo", "add_todo", "list_todos")
    with pytest.raises(ToolNotFoundError) as raised:
        run(directory.call("add_tod"))
    assert raised.value.available == ("add_todo", "list_todos")
    assert raised.value.close == ["add_todo", "list_todos"][:1]
    assert 'did you mean "add_todo"?' in str(raised.value)


def test_an_error_text_stays_small_whatever_is_connected() -> None:
    directory = make_directory()
    FakePage(directory, {}).register("n", *[f"tool_{i}_{'x' * 80}" for i in range(250)])
    with pytest.raises(ToolNotFoundError) as raised:
        run(directory.call("y" * 10_000))
    assert len(str(raised.value)) < 4096
    assert "238 more" in str(raised.value)


def test_the_same_name_in_two_namespaces_is_ambiguous_and_lists_the_candidates() -> None:
    directory = make_directory()
    shop, blog = FakePage(directory), FakePage(directory)
    shop.hello("t1", title="Shop")
    blog.hello("t2", title="Blog", doc="d2")
    shop.register("shop", "search")
    blog.register("blog", "search")
    with pytest.raises(AmbiguousToolError) as raised:
        run(directory.call("search"))
    assert {(c.ns, c.client_id) for c in raised.value.candidates} == {
        ("shop", shop.client_id),
        ("blog", blog.client_id),
    }
    assert "Shop" in str(raised.value)
    assert "Blog" in str(raised.value)


def test_an_ambiguous_name_can_be_narrowed_in_every_way() -> None:
    directory = make_directory()
    shop = FakePage(directory, {"search": lambda _: "shop"})
    blog = FakePage(directory, {"search": lambda _: "blog"})
    shop.hello("t1", title="Shop", url="http://localhost/shop?q=1")
    blog.hello("t2", title="Blog", url="http://localhost/blog", doc="d2")
    shop.register("shop", "search")
    blog.register("blog", "search")
    (shop_tab, _) = directory.tabs()
    for narrowing in (
        {"ns": "shop"},
        {"client_id": shop.client_id},
        {"tab": "t1"},
        {"tab": shop.client_id},
        {"tab": "Shop"},
        {"tab": "http://localhost/shop"},
        {"tab": 0},
        {"tab": -2},
        {"tab": shop_tab},
        {"tab": "t1", "client_id": shop.client_id, "ns": "shop"},
    ):
        assert run(directory.call("search", **narrowing)) == "shop", narrowing


@pytest.mark.parametrize("selector", ["nope", 5, "", 1.5, object(), True])
def test_a_tab_that_is_not_there_is_an_error_naming_the_live_ones(selector: object) -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.hello("t1", title="Shop")
    page.register("shop", "search")
    with pytest.raises(TabNotFoundError) as raised:
        run(directory.call("search", tab=selector))
    assert raised.value.live == {"t1": "Shop"}


def test_a_gone_tab_is_never_replaced_by_another() -> None:
    directory = make_directory()
    first, second = FakePage(directory), FakePage(directory)
    first.hello("t1", doc="a")
    second.hello("t2", doc="b")
    for page in (first, second):
        page.register("shop", "search")
    handle = directory.tabs()[0]
    first.disconnect()
    for narrowing in ({"tab": handle}, {"client_id": first.client_id}):
        with pytest.raises(TabNotFoundError):
            run(directory.call("search", **narrowing))


def test_a_client_outside_the_given_tab_is_not_found() -> None:
    directory = make_directory()
    first, second = FakePage(directory), FakePage(directory)
    first.hello("t1", doc="a")
    second.hello("t2", doc="b")
    with pytest.raises(TabNotFoundError):
        run(directory.call("search", tab="t1", client_id=second.client_id))


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"x": float("nan")}, "x"),
        ({"x": [1, {"y": float("inf")}]}, "x[1].y"),
        ({"n": 2**53}, "n"),
        ({"n": -(2**60)}, "n"),
        ({"b": b"bytes"}, "b"),
        ({"s": {1, 2}}, "s"),
        ({"d": {3: "x"}}, "d"),
        ([1], ""),
        ("text", ""),
    ],
)
def test_arguments_a_page_could_not_read_are_refused_before_sending(args: Any, path: str) -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")
    with pytest.raises(InvalidArgumentsError) as raised:
        run(directory.call("add", args))
    assert raised.value.path == path
    assert page.all("call") == []


def test_arguments_nested_too_deeply_are_refused() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    directory = make_directory()
    FakePage(directory).register("todo", "add")
    with pytest.raises(InvalidArgumentsError, match="64 levels"):
        run(directory.call("add", {"x": deep}))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_a_timeout_that_is_no_positive_number_is_refused(timeout: Any) -> None:
    directory = make_directory()
    FakePage(directory).register("todo", "add")
    with pytest.raises(InvalidArgumentsError) as raised:
        run(directory.call("add", timeout=timeout))
    assert raised.value.path == "timeout"


# Ends of a call


def test_a_call_that_is_not_answered_times_out_and_the_page_is_told() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        started = virtual_loop().now
        with pytest.raises(CallTimeoutError) as raised:
            await directory.call("add", timeout=15)
        assert 15 <= virtual_loop().now - started < 15.5
        assert isinstance(raised.value, TimeoutError)
        assert raised.value.timeout == 15

    run(scenario())
    (cancel,) = page.all("cancel")
    assert cancel["callId"] == page.last_call["callId"]


def test_no_timeout_waits_for_ever() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> Any:
        call = asyncio.create_task(directory.call("add", timeout=None))
        await asyncio.sleep(3600)
        page.result(page.last_call["callId"], "at last")
        return await call

    assert run(scenario()) == "at last"


def test_time_in_which_the_loop_was_blocked_does_not_count() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> Any:
        call = asyncio.create_task(directory.call("add", timeout=15))
        await asyncio.sleep(1)
        virtual_loop().block(60)
        await settle()
        assert not call.done()
        for _ in range(8):  # "run all": blocking cells with tiny gaps
            virtual_loop().block(2.6)
            await asyncio.sleep(0.0005)
        assert not call.done()
        page.result(page.last_call["callId"], "queued answer")
        return await call

    assert run(scenario()) == "queued answer"


def test_deadlines_end_the_right_calls_in_order() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")
    ended: list[float] = []

    async def one(timeout: float) -> None:
        with pytest.raises(CallTimeoutError):
            await directory.call("add", timeout=timeout)
        ended.append(timeout)

    async def scenario() -> None:
        await asyncio.gather(*(one(t) for t in (3, 0.1, 2, 0.05, 1)))

    run(scenario())
    assert ended == [0.05, 0.1, 1, 2, 3]


def test_answered_calls_leave_no_deadline_behind() -> None:
    directory = make_directory()
    FakePage(directory, {"add": echo}).register("todo", "add")

    async def scenario() -> None:
        for _ in range(1000):
            await directory.call("add")
        deadlines = directory._calls._deadlines
        assert len(deadlines._heap) < 150

    run(scenario())


def test_a_page_that_goes_away_fails_its_calls_at_once() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        call = asyncio.create_task(directory.call("add"))
        await settle()
        page.disconnect()
        with pytest.raises(PageGoneError) as raised:
            await call
        assert raised.value.sent is True

    run(scenario())


def test_a_call_that_could_not_be_sent_says_so() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")
    page.broken = True
    with pytest.raises(PageGoneError) as raised:
        run(directory.call("add"))
    assert raised.value.sent is False


def test_a_route_to_a_page_that_has_gone_sends_nothing() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        route = directory.route("add")
        page.disconnect()
        with pytest.raises(PageGoneError) as raised:
            directory.start(route)
        assert raised.value.sent is False

    run(scenario())


def test_cancelling_the_awaiting_task_tells_the_page() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        call = asyncio.create_task(directory.call("add"))
        await settle()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(scenario())
    assert [m["callId"] for m in page.all("cancel")] == [page.last_call["callId"]]


def test_cancelling_the_handle_ends_the_call_with_a_reason() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        call = directory.start(directory.route("add"))
        call.cancel("no longer needed")
        call.cancel("again")
        assert call.state is CallState.CANCELLED
        with pytest.raises(CallCancelledError) as raised:
            await call
        assert raised.value.reason == "no longer needed"

    run(scenario())
    assert [m["reason"] for m in page.all("cancel")] == ["no longer needed"]


def test_late_duplicate_foreign_and_stray_results_are_counted_and_change_nothing() -> None:
    directory = make_directory()
    page, other = FakePage(directory), FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        call = directory.start(directory.route("add"))
        other.result(call.id, "forged")
        assert not call.done()
        page.result(call.id, "true")
        page.result(call.id, "again")
        assert await call == "true"
        given_up = directory.start(directory.route("add"))
        given_up.cancel()
        page.result(given_up.id, "late")
        page.result("made up", 1)
        assert given_up.state is CallState.CANCELLED

    run(scenario())
    assert directory.ignored == {
        "foreign result": 1,
        "duplicate result": 1,
        "late result": 1,
        "stray result": 1,
    }


def test_a_result_that_cannot_be_read_fails_its_call_at_once() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")

    async def scenario() -> None:
        call = directory.start(directory.route("add"))
        page.say("result", callId=call.id, ok="yes")
        with pytest.raises(PageToolError, match="ok: expected boolean, got string"):
            await call

    run(scenario())


def test_progress_is_kept_and_a_late_partial_result_is_attached_to_the_error() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "import")
    seen: list[str] = []

    async def scenario() -> None:
        call = directory.start(directory.route("import"))
        call.on_change(lambda c: seen.append(str(c.progress)))
        page.say("progress", callId=call.id, progress=1, total=4, message="one", value=["a"])
        assert call.progress is not None
        assert (call.progress.progress, call.progress.total) == (1, 4)
        call.cancel()
        with pytest.raises(CallCancelledError) as raised:
            await call
        assert raised.value.partial == ["a"]
        page.say("progress", callId=call.id, progress=2, value=["a", "b"])
        assert raised.value.partial == ["a", "b"]
        page.say("progress", callId="made up", progress=2)

    run(scenario())
    assert seen == ["1/4 one", "1/4 one"]
    assert directory.ignored == {"stray progress": 1}


def test_a_page_may_answer_while_the_call_is_being_sent() -> None:
    directory = make_directory()
    FakePage(directory, {"add": echo}).register("todo", "add")

    async def scenario() -> None:
        call = directory.start(directory.route("add"), {"x": 1})
        assert call.done()
        assert await call == {"echo": {"x": 1}}
        assert call.result() == {"echo": {"x": 1}}

    run(scenario())


# Focus


def test_one_tab_is_active_in_a_window_and_stale_news_clobber_nothing() -> None:
    directory = make_directory()
    host, a, b = FakePage(directory), FakePage(directory), FakePage(directory)
    a.register("shop", "search", tab={"chromeTabId": 1, "windowId": 9})
    b.register("blog", "search", tab={"chromeTabId": 2, "windowId": 9})

    def active() -> list[str]:
        return [row.ns for row in directory.list() if row.active_tab]

    host.say("activation", tab={"chromeTabId": 1, "windowId": 9}, active=True)
    assert active() == ["shop"]
    host.say("activation", tab={"chromeTabId": 2, "windowId": 9}, active=True)
    assert active() == ["blog"]
    host.say("activation", tab={"chromeTabId": 1, "windowId": 9}, active=False)
    assert active() == ["blog"]
    assert [row.ns for row in directory.list()] == ["blog", "shop"]
    host.say("activation", tab={"chromeTabId": 2}, active=False)
    assert active() == []


def test_active_state_dies_with_the_connection_that_reported_it() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("shop", "search", tab={"chromeTabId": 1})
    page.say("activation", tab={"chromeTabId": 1}, active=True)
    page.disconnect()
    FakePage(directory).register("shop", "search", tab={"chromeTabId": 1})
    assert [row.active_tab for row in directory.list()] == [False]


def test_the_active_tab_answers_when_different_tools_share_a_name() -> None:
    directory = make_directory()
    shop = FakePage(directory, {"search": lambda _: "shop"})
    blog = FakePage(directory, {"search": lambda _: "blog"})
    shop.register("shop", "search", tab={"chromeTabId": 1})
    blog.register("blog", "search", tab={"chromeTabId": 2})
    blog.say("activation", tab={"chromeTabId": 2, "windowId": 0}, active=True)
    assert run(directory.call("search")) == "blog"


def test_of_one_app_in_two_tabs_the_one_looked_at_last_answers_and_the_other_is_shadowed() -> None:
    clock = Clock()
    directory = PageToolDirectory(now=clock, new_id=counted_ids())
    first = FakePage(directory, {"search": lambda _: "first"})
    second = FakePage(directory, {"search": lambda _: "second"})
    for number, page in enumerate((first, second)):
        page.hello(f"t{number}", doc=f"d{number}", title=f"Tab {number}")
        page.register("shop", "search")
    assert run(directory.call("search")) == "second"
    clock.now += 10
    first.state(1, visible=True, focused=True)
    clock.now += 10
    first.state(2, visible=False, focused=False)  # the notebook came to the front
    second.state(1, title="heard from later")
    assert run(directory.call("search")) == "first"
    assert {row.client_id: row.shadowed for row in directory.list()} == {
        first.client_id: False,
        second.client_id: True,
    }

    async def scenario() -> str:
        return directory.start(directory.route("search")).why

    assert run(scenario()) == "last focused of 2"
    first.disconnect()
    assert [row.shadowed for row in directory.list()] == [False]


# Which tab answers


def make_shops(directory: PageToolDirectory, count: int = 2) -> list[FakePage]:
    """One app in several tabs, each of which says which one it is."""
    pages = []
    for number in range(count):
        page = FakePage(directory, {"buy": lambda _, number=number: number})
        page.hello(f"t{number}", doc=f"d{number}", title="Shop", url=f"http://localhost/{number}")
        page.register("shop", "buy")
        pages.append(page)
    return pages


def test_of_several_tabs_that_fit_a_text_the_best_placed_one_answers() -> None:
    directory = make_directory()
    first, *_, outside = make_shops(directory, 4)
    outside.state(1, title="Other", url="http://elsewhere/", visible=True, focused=True)
    assert run(directory.call("buy")) == 3
    assert run(directory.call("buy", tab="Shop")) == 2
    first.state(1, title="Shop", visible=True)
    assert run(directory.call("buy", tab="Shop")) == 0
    assert directory.tab("Shop").id == "t0"
    assert directory.route("buy", tab="Shop").choice.why == "visible of 3"


def test_a_tabs_id_can_be_given_as_client_id() -> None:
    directory = make_directory()
    make_shops(directory)
    frame = FakePage(directory, {"pay": echo})
    frame.hello("t0", doc="frame", top=False)
    frame.register("bank", "pay")
    (client, _) = directory.list_clients()
    assert run(directory.call("buy", client_id=client["id"])) == 0
    assert run(directory.call("pay", client_id="t0")) == {"echo": {}}
    with pytest.raises(TabNotFoundError):
        run(directory.call("buy", client_id="t0", tab="t1"))


def test_a_tab_is_looked_at_whichever_of_its_documents_has_the_keyboard() -> None:
    directory = make_directory()
    page, _ = make_shops(directory)
    frame = FakePage(directory, {"buy": lambda _: "frame"})
    frame.hello("t0", doc="frame", top=False, focused=True)
    assert run(directory.call("buy")) == 0
    frame.register("shop", "buy")
    assert run(directory.call("buy")) == "frame"
    assert directory.best_of("shop") == "t0"
    frame.state(1)
    page.state(1, focused=True)
    assert run(directory.call("buy")) == 0


def test_a_pinned_tab_answers_before_all_others() -> None:
    directory = make_directory()
    _, looked_at = make_shops(directory)
    looked_at.state(1, title="Shop", visible=True, focused=True)
    assert directory.pinned is None
    directory.pin("t0")
    assert directory.pinned == "t0"
    assert run(directory.call("buy")) == 0
    assert directory.route("buy").choice.why == "pinned of 2"
    assert directory.best_of("shop") == "t0"
    assert [row.shadowed for row in directory.list()] == [False, True]
    assert run(directory.call("buy", tab="t1")) == 1
    directory.pin(None)
    assert run(directory.call("buy")) == 1


def test_a_pinned_tab_answers_of_different_apps_too() -> None:
    directory = make_directory()
    make_shops(directory, 1)
    blog = FakePage(directory, {"buy": lambda _: "blog"})
    blog.hello("t9", doc="d9")
    blog.register("blog", "buy")
    with pytest.raises(AmbiguousToolError):
        run(directory.call("buy"))
    directory.pin("t9")
    assert run(directory.call("buy")) == "blog"
    assert directory.route("buy").choice.why == "in the pinned tab, of 2"


def test_a_tool_the_pinned_tab_does_not_have_is_answered_by_others() -> None:
    directory = make_directory()
    make_shops(directory, 1)
    FakePage(directory).hello("t9", doc="d9")
    directory.pin("t9")
    assert run(directory.call("buy")) == 0


def test_while_a_pinned_tab_is_away_only_calls_that_name_a_tab_are_made() -> None:
    directory = make_directory()
    first, second = make_shops(directory)
    directory.pin("t0")
    first.disconnect()
    for narrowing in ({}, {"ns": "shop"}):
        with pytest.raises(TabNotFoundError) as raised:
            run(directory.call("buy", **narrowing))
        assert raised.value.pinned
        assert str(raised.value) == (
            "the pinned tab 'Shop' is reloading (`%pagetools unpin` lets others answer); "
            'live tabs: t1 "Shop"'
        )
    assert run(directory.call("buy", tab="t1")) == 1
    assert run(directory.call("buy", client_id=second.client_id)) == 1
    second.disconnect()
    with pytest.raises(TabNotFoundError, match="pinned"):
        run(directory.call("buy"))
    directory.pin(None)
    with pytest.raises(NoPageConnectedError):
        run(directory.call("buy"))


def test_waiting_for_a_tool_waits_for_the_pinned_tab_to_come_back() -> None:
    directory = make_directory()
    first, _ = make_shops(directory)
    directory.pin("t0")
    first.disconnect()

    async def scenario() -> None:
        waiting = asyncio.create_task(directory.wait_for("buy"))
        await settle()
        assert not waiting.done()
        (again,) = make_shops(directory, 1)
        assert (await waiting).registration.client_id == again.client_id

    run(scenario())


@pytest.mark.parametrize("is_policy", [True, False])
def test_strictness_asks_rather_than_picks_unless_a_tab_is_pinned(is_policy: bool) -> None:
    directory = make_directory()
    make_shops(directory)
    directory.strict = is_policy
    options: dict[str, Any] = {} if is_policy else {"strict": True}
    with pytest.raises(AmbiguousToolError) as raised:
        run(directory.call("buy", **options))
    assert raised.value.reason == "the policy is strict, which picks none of several tabs"
    assert [c.ns for c in raised.value.candidates] == ["shop", "shop"]
    with pytest.raises(AmbiguousToolError):
        run(directory.call("buy", tab="Shop", **options))
    assert run(directory.call("buy", tab="t0", **options)) == 0
    assert run(directory.call("buy", strict=False)) == 1
    directory.pin("t0")
    assert run(directory.call("buy", **options)) == 0


def test_strictness_is_remembered_until_it_is_given_up() -> None:
    directory = make_directory()
    make_shops(directory)
    assert directory.strict is False
    assert run(directory.call("buy")) == 1
    directory.strict = True
    assert directory.strict is True
    with pytest.raises(AmbiguousToolError):
        run(directory.call("buy"))
    directory.strict = False
    assert run(directory.call("buy")) == 1


# Tabs over time


def test_clients_are_listed_in_plain_json() -> None:
    clock = Clock()
    directory = PageToolDirectory(now=clock, new_id=counted_ids())
    clock.now += 0.5
    shop = FakePage(directory)
    shop.hello("t1", title="Shop", url="http://localhost/", visible=True, focused=True)
    shop.register("shop", "buy", "sell")
    frame, silent, away = (FakePage(directory) for _ in range(3))
    frame.hello("t1", doc="frame", top=False)
    frame.register("ad", "skip")
    away.hello("t3", doc="d3")
    away.disconnect()
    first, second = directory.list_clients()
    assert first == {
        "id": "t1",
        "url": "http://localhost/",
        "title": "Shop",
        "visible": True,
        "focused": True,
        "connectedAt": 1000500,
        "tools": ["shop/buy", "shop/sell", "ad/skip"],
    }
    assert json.loads(json.dumps(first)) == first
    assert type(first["connectedAt"]) is int
    assert second == {
        "id": silent.client_id,
        "url": "",
        "title": "",
        "visible": False,
        "focused": False,
        "connectedAt": 1000500,
        "tools": [],
    }


def ticking(**options: Any) -> PageToolDirectory:
    """A directory that goes by the clock of the running `VirtualLoop`."""
    loop = virtual_loop()
    return PageToolDirectory(now=loop.time, new_id=counted_ids(), **options)


def standing(directory: PageToolDirectory) -> dict[str, tuple[str, int | None]]:
    return {tab.id: (tab.state.value, tab.number) for tab in directory.tabs(all=True)}


def test_a_tab_that_reloads_keeps_its_place_and_one_that_stays_away_loses_it() -> None:
    async def scenario() -> None:
        directory = ticking()
        first, second = make_shops(directory)
        first.disconnect()
        assert standing(directory) == {"t0": ("reloading", 0), "t1": ("connected", 1)}
        assert [tab.id for tab in directory.tabs()] == ["t0", "t1"]
        await asyncio.sleep(2)
        make_shops(directory, 1)
        assert standing(directory) == {"t0": ("connected", 0), "t1": ("connected", 1)}
        second.state(1, title="Blog", url="http://blog/", asleep=True)
        second.disconnect()
        assert standing(directory) == {"t0": ("connected", 0), "t1": ("reloading", 1)}
        await asyncio.sleep(1)
        assert standing(directory) == {"t0": ("connected", 0), "t1": ("asleep", None)}
        directory.remove_connection(directory.tab("t0").client_ids[0])
        await asyncio.sleep(3)
        assert standing(directory) == {"t0": ("gone", None), "t1": ("asleep", None)}
        assert directory.tabs() == []
        await asyncio.sleep(27)
        assert standing(directory) == {"t1": ("asleep", None)}
        await asyncio.sleep(569)
        assert standing(directory) == {}

    run(scenario())


def test_when_it_was_looked_at_survives_a_reload_and_a_restart_of_the_bridge() -> None:
    async def scenario() -> None:
        directory = ticking()
        first, second = make_shops(directory)
        first.state(1, visible=True, focused=True)
        await asyncio.sleep(1)
        first.state(2)
        looked_at = directory.tab("t0").last_focused_at
        assert looked_at == virtual_loop().now
        await asyncio.sleep(1)
        first.disconnect()
        make_shops(directory, 1)
        assert directory.tab("t0").last_focused_at == looked_at
        assert await directory.call("buy") == 0

        restarted = ticking()
        make_shops(restarted)
        again = FakePage(restarted, {"buy": lambda _: "looked at"})
        again.hello("t2", doc="d2", focused_ago=60_000)
        again.register("shop", "buy")
        FakePage(restarted).hello("t3", doc="d3", focused_ago=90_000)
        make_shops(restarted, 1)
        assert await restarted.call("buy") == "looked at"

    run(scenario())


def test_a_page_that_answers_no_ping_is_not_responding_and_can_be_called_all_the_same() -> None:
    async def scenario() -> None:
        directory = ticking()
        page, _ = make_shops(directory)
        page.silent = True
        await asyncio.sleep(60)
        assert standing(directory) == {"t0": ("not responding", 0), "t1": ("connected", 1)}
        call = asyncio.create_task(directory.call("buy", tab="t0"))
        await settle()
        page.silent = False
        page.result(page.last_call["callId"], "at last")
        assert await call == "at last"
        await asyncio.sleep(5)
        assert standing(directory)["t0"] == ("connected", 0)

    run(scenario())


def test_a_blocked_cell_makes_no_page_look_unwell() -> None:
    async def scenario() -> None:
        directory = ticking()
        pages = make_shops(directory)
        for page in pages:
            page.silent = True
        for _ in range(20):
            virtual_loop().block(60)
            await settle()
        assert {state for state, _ in standing(directory).values()} == {"connected"}

    run(scenario())


def test_a_page_that_owes_an_answer_is_asked_more_often() -> None:
    async def scenario() -> None:
        directory = ticking()
        page, idle = make_shops(directory)
        page.handlers = {"buy": lambda _: NO_REPLY}
        call = directory.start(directory.route("buy", tab="t0"), timeout=None)
        await asyncio.sleep(60)
        assert (len(page.all("ping")), len(idle.all("ping"))) == (12, 4)
        call.cancel()

    run(scenario())


def test_a_duplicated_tab_gets_an_id_of_its_own_while_the_first_one_is_there() -> None:
    async def scenario() -> None:
        directory = ticking()
        first, second = FakePage(directory), FakePage(directory)
        first.hello("t1", doc="a", title="Shop")
        second.hello("t1", doc="b", title="Shop")
        (welcome,) = second.all("welcome")
        assert welcome["reason"] == "duplicate"
        assert {tab.id: tab.client_ids for tab in directory.tabs()} == {
            "t1": (first.client_id,),
            welcome["tabId"]: (second.client_id,),
        }

    run(scenario())


def test_a_crashed_tab_gives_its_place_to_the_page_that_comes_after_it() -> None:
    """Its connection may outlive a page by far, so that it still seems to be there."""

    async def scenario() -> None:
        directory = ticking()
        crashed, other = make_shops(directory)
        other.state(1, title="Other")
        crashed.silent = True
        call = directory.start(directory.route("buy", tab="t0"), timeout=None)
        (again,) = make_shops(directory, 1)
        await asyncio.sleep(1)
        assert [w["tabId"] for w in again.all("welcome")] == ["t0"]
        assert crashed.closed is not None
        assert crashed.closed[0] == 4409
        assert [(tab.id, tab.number) for tab in directory.tabs()] == [("t0", 0), ("t1", 1)]
        assert await directory.call("buy", tab="t0") == 0
        with pytest.raises(PageGoneError):
            await call

    run(scenario())


def test_who_holds_a_tab_is_heard_out_when_the_loop_was_blocked() -> None:
    async def scenario() -> None:
        directory = ticking()
        first, second = FakePage(directory), FakePage(directory)
        first.silent = True
        first.hello("t1", doc="a")
        second.hello("t1", doc="b")
        virtual_loop().block(60)
        await settle()
        assert second.all("welcome") == []
        first.say("pong", n=first.all("ping")[0]["n"])
        assert second.all("welcome")[0]["reason"] == "duplicate"
        assert first.closed is None

    run(scenario())


def test_a_page_can_be_called_before_it_is_clear_which_tab_it_is() -> None:
    async def scenario() -> None:
        directory = ticking()
        first, second = FakePage(directory), FakePage(directory, {"buy": echo})
        first.silent = True
        first.hello("t1", doc="a")
        second.hello("t1", doc="b")
        second.register("shop", "buy")
        assert await directory.call("buy") == {"echo": {}}
        await asyncio.sleep(1)
        assert directory.best_of("shop") == "t1"

    run(scenario())


def test_a_page_that_changes_its_mind_while_it_waits_is_where_it_said_last() -> None:
    async def scenario() -> None:
        directory = ticking()
        holder, page = FakePage(directory), FakePage(directory)
        holder.silent = True
        holder.hello("t1", doc="a")
        for tab in ("t1", "t2"):
            page.hello(tab, doc="b")
        await asyncio.sleep(0.5)
        holder.say("pong", n=1)
        await asyncio.sleep(1)
        assert {tab.id for tab in directory.tabs()} == {"t1", "t2"}

    run(scenario())


def test_a_page_that_repeats_itself_while_it_waits_is_welcomed_once() -> None:
    async def scenario() -> None:
        directory = ticking()
        holder, page = FakePage(directory), FakePage(directory)
        holder.silent = True
        holder.hello("t1", doc="a")
        for _ in range(2):
            page.hello("t1", doc="b")
        await asyncio.sleep(0.5)
        holder.say("pong", n=1)
        assert len(page.all("welcome")) == 1

    run(scenario())


# Watching


def test_a_watcher_is_told_at_once_of_every_change_of_a_tab() -> None:
    directory = make_directory()
    told: list[str | None] = []
    stop = directory.watch(told.append)

    def news() -> list[str | None]:
        now = list(dict.fromkeys(told))
        told.clear()
        return now

    page = FakePage(directory)
    assert news() == [page.client_id]
    page.hello("t1")
    assert news() == [page.client_id, "t1"]
    for change in (
        lambda: page.register("shop", "buy"),
        lambda: page.register("shop"),
        lambda: page.state(1, focused=True),
    ):
        change()
        assert news() == ["t1"]
    page.state(1)  # old news
    page.say("pong", n=1)
    assert news() == []
    for change in (
        lambda: page.say("activation", tab={"chromeTabId": 1}, active=True),
        lambda: directory.pin("t1"),
        lambda: setattr(directory, "strict", True),
    ):
        change()
        assert news() == [None]
    page.disconnect()
    assert "t1" in news()
    stop()
    stop()
    FakePage(directory)
    assert news() == []


def test_a_watcher_is_told_what_time_does() -> None:
    async def scenario() -> None:
        directory = ticking()
        page, _ = make_shops(directory)
        told: list[tuple[str | None, str]] = []

        def watch(tab_id: str | None) -> None:
            told.append((tab_id, standing(directory).get("t0", ("forgotten", None))[0]))

        page.silent = True
        directory.watch(watch)
        await asyncio.sleep(60)
        page.disconnect()
        await asyncio.sleep(60)
        told = [news for news in dict.fromkeys(told) if news[0] == "t0"]
        assert [state for _, state in told] == [
            "not responding",
            "reloading",
            "gone",
            "forgotten",
        ]

    run(scenario())


def test_a_watcher_that_raises_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    directory = make_directory()
    told: list[str | None] = []

    def bad(_: object) -> None:
        raise ValueError("watcher")

    directory.watch(bad)
    directory.watch(told.append)
    directory.watch_calls(bad)
    page = FakePage(directory, {"add": echo})
    page.register("todo", "add")
    assert run(directory.call("add")) == {"echo": {}}
    assert told == [page.client_id] * len(told) != []
    assert caplog.text.count("ValueError: watcher") == len(told) + 1


def test_a_watcher_of_calls_is_told_of_each_that_was_sent() -> None:
    directory = make_directory()
    page = FakePage(directory, {"add": echo})
    page.register("todo", "add")
    told: list[tuple[str, CallState]] = []
    stop = directory.watch_calls(lambda call: told.append((call.tool, call.state)))

    async def scenario() -> None:
        await directory.call("add")
        page.handlers = {}
        directory.start(directory.route("add")).cancel()
        with pytest.raises(InvalidArgumentsError):
            await directory.call("add", {"x": float("nan")})
        page.broken = True
        with pytest.raises(PageGoneError):
            await directory.call("add")
        page.broken = False
        stop()
        directory.start(directory.route("add")).cancel()

    run(scenario())
    assert told == [("todo/add", CallState.ANSWERED), ("todo/add", CallState.PENDING)]


# The change signal


def test_the_signal_fires_once_per_quiet_period() -> None:
    directory = make_directory(change_debounce=0.5)
    fired: list[float] = []

    async def scenario() -> None:
        loop = virtual_loop()
        directory.on_change(lambda: fired.append(loop.now))
        page = FakePage(directory)
        started = loop.now
        for number in range(4):
            page.register("todo", f"tool{number}")
            await asyncio.sleep(0.2)
        await asyncio.sleep(5)
        assert len(fired) == 1
        assert fired[0] == pytest.approx(started + 0.6 + 0.5)

    run(scenario())


def test_the_signal_fires_even_if_the_set_never_comes_to_rest() -> None:
    directory = make_directory(change_debounce=0.5)
    fired: list[int] = []

    async def scenario() -> None:
        directory.on_change(lambda: fired.append(1))
        page = FakePage(directory)
        for number in range(100):
            page.register("todo", f"tool{number}")
            await asyncio.sleep(0.1)

    run(scenario())
    assert 3 <= len(fired) <= 10


def test_only_a_net_effect_is_told() -> None:
    directory = make_directory(change_debounce=0.5)
    fired: list[int] = []

    async def scenario() -> None:
        page = FakePage(directory)
        page.register("todo", "add")
        await asyncio.sleep(1)
        directory.on_change(lambda: fired.append(1))
        page.register("todo", "add", hash="another")  # the same set again
        await asyncio.sleep(1)
        page.disconnect()  # a reload that restores it
        await asyncio.sleep(0.2)
        page = FakePage(directory)
        page.register("todo", "add", tab={"chromeTabId": 1})
        await asyncio.sleep(1)
        page.say("activation", tab={"chromeTabId": 1}, active=True)  # where the person looks
        page.state(1, title="Other", focused=True)
        await asyncio.sleep(1)
        assert fired == []
        page.disconnect()
        await asyncio.sleep(1)
        assert fired == [1]

    run(scenario())


def test_a_listener_that_raises_hurts_no_other_and_can_be_unsubscribed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory = make_directory(change_debounce=0)
    fired: list[str] = []

    def bad() -> None:
        fired.append("bad")
        raise ValueError("listener")

    stop_bad = directory.on_change(bad)
    directory.on_change(lambda: fired.append("good"))
    page = FakePage(directory)
    page.register("todo", "add")
    assert fired == ["bad", "good"]
    assert "a listener failed" in caplog.text
    stop_bad()
    stop_bad()
    page.register("todo", "other")
    assert fired == ["bad", "good", "good"]


# Looking


def test_summary_counts_connections_tabs_namespaces_and_tools() -> None:
    directory = make_directory()
    page = FakePage(directory)
    frame = FakePage(directory)
    page.hello("t1")
    frame.hello("t1", doc="frame", top=False)
    page.register("todo", "add", "list")
    frame.register("chart", "draw")
    assert directory.summary() == PageToolSummary(clients=2, tabs=1, namespaces=2, tools=3)


def test_the_change_line_names_every_tool_and_the_active_tab() -> None:
    directory = make_directory()
    assert format_page_tools_changed(directory.list()) == "page tools changed: none registered"
    page = FakePage(directory)
    page.register("todo", "add", "list", tab={"chromeTabId": 1, "title": "My\nTodos"})
    FakePage(directory).register("todo", "add", tab={"chromeTabId": 2})
    page.say("activation", tab={"chromeTabId": 1}, active=True)
    line = format_page_tools_changed(directory.list())
    assert line == "page tools changed: todo/add, todo/list (active tab: My Todos)"


def test_the_change_line_falls_back_to_the_url_of_the_active_tab() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add", url="http://localhost/x", tab={"chromeTabId": 1})
    page.say("activation", tab={"chromeTabId": 1}, active=True)
    assert format_page_tools_changed(directory.list()).endswith("(active tab: http://localhost/x)")


def test_a_list_is_a_snapshot_of_the_callers_own() -> None:
    directory = make_directory()
    page = FakePage(directory)
    page.register("todo", "add")
    rows = directory.list()
    rows.clear()
    assert len(directory.list()) == 1
    page.register("todo", "add", "more")
    assert len(directory.list()[0].tools) == 2


def test_waiting_for_a_tool_ends_when_a_page_declares_it() -> None:
    directory = make_directory()

    async def scenario() -> None:
        waiting = asyncio.create_task(directory.wait_for("add"))
        await settle()
        page = FakePage(directory)
        page.register("todo", "list")
        await settle()
        assert not waiting.done()
        page.register("todo", "add")
        route = await waiting
        assert (route.registration.ns, route.name) == ("todo", "add")

    run(scenario())


def test_waiting_in_vain_says_why() -> None:
    directory = make_directory()

    async def scenario() -> None:
        with pytest.raises(ToolWaitTimeoutError) as raised:
            await directory.wait_for("add", timeout=3)
        assert isinstance(raised.value.problem, NoPageConnectedError)

    run(scenario())


def test_closing_fails_what_is_pending_and_forgets_everyone() -> None:
    directory = make_directory()
    FakePage(directory, {"add": lambda _: NO_REPLY}).register("todo", "add")

    async def scenario() -> None:
        call = directory.start(directory.route("add"))
        directory.close()
        with pytest.raises(PageGoneError):
            await call

    run(scenario())
    assert directory.summary() == PageToolSummary(clients=0, tabs=0, namespaces=0, tools=0)
    assert directory.tabs(all=True) == directory.list_clients() == []


def test_closing_ends_what_is_waited_for() -> None:
    directory = make_directory()

    async def scenario() -> None:
        waiting = asyncio.create_task(directory.wait_for("add"))
        await settle()
        directory.close()
        with pytest.raises(BridgeError, match='stopped while "add" was waited for'):
            await waiting

    run(scenario())


def test_a_connection_that_is_not_there_is_removed_without_a_word() -> None:
    directory = make_directory()
    page = FakePage(directory)
    told: list[str | None] = []
    directory.watch(told.append)
    for _ in range(2):
        page.disconnect()
    directory.remove_connection("nobody")
    assert told == [page.client_id]


def test_nobody_is_the_best_for_what_nobody_declares() -> None:
    directory = make_directory()
    assert directory.best_of("shop") is None
    (page,) = make_shops(directory, 1)
    assert directory.best_of("shop") == "t0"
    page.register("shop")
    assert directory.best_of("shop") is None


def test_a_page_of_the_older_protocol_works_without_hello_or_hash() -> None:
    """The sender of aiui's channel: register, result and activation are all it knows."""
    directory = make_directory()
    page = FakePage(directory)

    def say(**message: Any) -> None:
        directory.handle_client_message(page.client_id, message)

    say(
        v=1,
        type="register",
        ns="morpho",
        active=True,
        tools=[{"name": "report", "description": "State", "inputSchema": {"type": "object"}}],
        tab={"chromeTabId": 3, "windowId": 0, "url": "http://localhost:5173/", "title": "Morpho"},
    )
    say(v=1, type="activation", tab={"chromeTabId": 3, "windowId": 0}, active=True)

    async def scenario() -> Any:
        call = asyncio.create_task(directory.call("report"))
        await settle()
        say(v=1, type="result", callId=page.last_call["callId"], ok=True, value={"ok": 1})
        return await call

    assert run(scenario()) == {"ok": 1}
    assert directory.list()[0].active_tab is True
    assert page.all("rejected") == []


# Cost


def test_neither_calls_nor_messages_get_dearer_with_more_pages() -> None:
    """Counts what is touched, not seconds: registrations looked at while a call is routed."""

    def routing_work(pages: int) -> int:
        directory = make_directory()
        FakePage(directory, {"mine": echo}).register("app", "mine")
        for number in range(pages):
            FakePage(directory).register(f"ns{number}", *[f"tool{number}_{i}" for i in range(5)])
        touched = 0
        index = directory._index
        real = index.__class__.registrations

        def counting(self: Any) -> Any:
            nonlocal touched
            touched += 1
            return real(self)

        index.__class__.registrations = counting  # type: ignore[method-assign]
        try:
            for _ in range(5):
                run(directory.call("mine"))
        finally:
            index.__class__.registrations = real  # type: ignore[method-assign]
        return touched

    assert routing_work(10) == routing_work(200) == 0


def test_a_namespace_too_many_is_rejected_and_those_that_are_there_may_change() -> None:
    directory = PageToolDirectory(change_debounce=0)
    page = FakePage(directory)
    for number in range(MAX_NAMESPACES + 1):
        page.register(f"ns{number}", "tool")
    (fault,) = page.all("rejected")
    assert (fault["code"], fault["path"]) == ("too_large", "ns")
    page.register("ns0", "another")
    assert len(page.all("rejected")) == 1
    assert directory.summary().namespaces == MAX_NAMESPACES
