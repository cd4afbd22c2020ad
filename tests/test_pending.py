"""`pending`: what was sent ends once, and what pages say about it counts only where it belongs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pagetools_ipy.calls import CallState, PageCall
from pagetools_ipy.connections import MAX_ENDED
from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.errors import (
    CallCancelledError,
    CallTimeoutError,
    InvalidArgumentsError,
    PageGoneError,
    PageToolError,
)
from pagetools_ipy.frames import encode

from .helpers import Clock, FakePage, Message, counted_ids, run, settle, tool


def make_directory() -> PageToolDirectory:
    return PageToolDirectory(now=Clock(), new_id=counted_ids())


def make_page(directory: PageToolDirectory, **schema: Any) -> FakePage:
    page = FakePage(directory)
    page.register("shop", tool("buy", inputSchema=schema) if schema else "buy")
    return page


def start(directory: PageToolDirectory, args: Any = None, **options: Any) -> PageCall:
    return directory.start(directory.route("buy"), args, **options)


def pending(directory: PageToolDirectory) -> int:
    """How many calls are pending, having checked that everyone agrees on it."""
    calls = directory._calls
    connections = directory._tabs.connections.values()
    assert len(calls) == sum(len(connection.pending) for connection in connections)
    return len(calls)


# Sending


def test_arguments_are_sent_as_they_are_and_none_as_an_empty_object() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        args = {"name": "x", "timeout": 1, "ns": None, "ü": [{"\ud800": 0.5}]}
        assert start(directory, args).args == args
        assert start(directory).args == {}
        assert [call["args"] for call in page.all("call")] == [args, {}]

    run(scenario())


def test_every_call_has_an_id_of_its_own() -> None:
    directory = PageToolDirectory(now=Clock())
    page = make_page(directory)

    async def scenario() -> None:
        for _ in range(100):
            start(directory)
        assert len({call["callId"] for call in page.all("call")}) == 100

    run(scenario())


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([1], "shop/buy: expected an object of arguments, got array"),
        ({"thing": 1}, "shop/buy: thing: expected string, got number 1"),
        (
            {"thin": "x"},
            'shop/buy: thin: unknown argument; did you mean "thing"? the tool takes thing',
        ),
        ({}, "shop/buy: thing: missing; the tool takes thing"),
        (
            {"thing": float("nan")},
            "shop/buy: thing: expected a finite number, got nan, which JSON cannot carry",
        ),
    ],
)
def test_wrong_arguments_name_the_tool_and_send_nothing(args: Any, text: str) -> None:
    directory = make_directory()
    page = make_page(directory, properties={"thing": {"type": "string"}}, required=["thing"])

    async def scenario() -> None:
        with pytest.raises(InvalidArgumentsError) as raised:
            start(directory, args, validate=True)
        assert (str(raised.value), raised.value.tool) == (text, "shop/buy")
        assert (page.all("call"), pending(directory)) == ([], 0)

    run(scenario())


def test_arguments_are_held_to_the_schema_only_if_asked_for() -> None:
    directory = make_directory()
    page = make_page(directory, properties={"thing": {"type": "string"}}, required=["thing"])

    async def scenario() -> None:
        start(directory, {"other": 1})
        assert page.last_call["args"] == {"other": 1}

    run(scenario())


@pytest.mark.parametrize("value", [1.5, 3, "x"])
@pytest.mark.parametrize("validate", [True, False])
def test_a_value_that_cannot_be_written_is_refused_and_blamed_on_nobody_else(
    value: Any, validate: bool
) -> None:
    """Numbers and texts of numpy and of other libraries are floats and strings by inheritance."""

    class Special(type(value)):  # type: ignore[misc]
        pass

    directory = make_directory()
    sent: list[bytes] = []
    client_id = directory.add_connection(lambda message: sent.append(encode(message)))
    tools = [tool("buy", inputSchema={"properties": {"a": {"type": ["number", "string"]}}})]
    register = {"type": "register", "ns": "shop", "tools": tools}
    directory.handle_client_message(client_id, register)

    async def scenario() -> None:
        refused_at = None
        try:
            start(directory, {"a": Special(value)}, validate=validate)
        except InvalidArgumentsError as problem:
            refused_at = problem.path
        assert refused_at == "a" or b'"call"' in sent[-1]

    run(scenario())


@pytest.mark.parametrize("problem", [ConnectionError("x"), TypeError("x"), RuntimeError("x")])
def test_what_cannot_be_handed_over_leaves_nothing_behind(problem: Exception) -> None:
    directory = make_directory()

    def send(message: Message) -> None:
        raise problem

    client_id = directory.add_connection(send)
    register = {"type": "register", "ns": "shop", "tools": [tool("buy")]}
    directory.handle_client_message(client_id, register)

    async def scenario() -> None:
        with pytest.raises(PageGoneError) as raised:
            start(directory)
        assert (raised.value.sent, raised.value.tool, raised.value.tab) == (
            False,
            "shop/buy",
            client_id,
        )
        assert pending(directory) == 0

    run(scenario())


def test_a_page_that_breaks_while_calls_are_pending_still_ends_them() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        one, two = start(directory), start(directory, timeout=1)
        page.broken = True
        one.cancel()
        assert one.state is CallState.CANCELLED
        await asyncio.sleep(2)
        assert two.state is CallState.TIMED_OUT
        assert pending(directory) == 0

    run(scenario())


def test_a_page_may_go_away_while_a_call_is_being_sent() -> None:
    directory = make_directory()
    client_id = ""

    def send(message: Message) -> None:
        if message["type"] == "call":
            directory.remove_connection(client_id)
            raise ConnectionError

    client_id = directory.add_connection(send)
    register = {"type": "register", "ns": "shop", "tools": [tool("buy")]}
    directory.handle_client_message(client_id, register)

    async def scenario() -> None:
        with pytest.raises(PageGoneError):
            start(directory)
        assert len(directory._calls) == 0

    run(scenario())


# Answers


def test_each_of_many_calls_gets_its_own_answer_in_whatever_order_they_come() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        calls = [start(directory, {"n": number}) for number in range(200)]
        assert pending(directory) == 200
        for sent in reversed(page.all("call")):
            page.result(sent["callId"], sent["args"]["n"])
        assert [await call for call in calls] == list(range(200))
        assert pending(directory) == 0

    run(scenario())


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"ok": False, "error": "x"}])
def test_every_json_value_is_an_answer(value: object) -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.result(call.id, value)
        assert await call == value

    run(scenario())


def test_an_answer_without_a_value_is_none() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.say("result", callId=call.id, ok=True)
        assert await call is None

    run(scenario())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"v": 1, "ok": 1}, "ok: expected boolean, got number"),
        ({"v": 1}, "ok: missing"),
        ({"v": 9, "ok": True}, "v: expected version 1, got 9"),
    ],
)
def test_an_answer_that_cannot_be_read_ends_its_call(fields: Message, text: str) -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        message = {"type": "result", "callId": call.id, **fields}
        directory.handle_client_message(page.client_id, message)
        with pytest.raises(PageToolError) as raised:
            await call
        assert raised.value.name == "MessageError"
        assert raised.value.page_message == (
            f"the page sent a result that is not in the protocol: {text}"
        )
        assert pending(directory) == 0

    run(scenario())


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "result"},
        {"type": "result", "callId": None, "ok": "x"},
        {"type": "result", "callId": ["x"], "ok": True},
        {"type": "result", "callId": {}, "ok": True},
        {"type": "result", "callId": "made up", "ok": "x"},
        {"type": "progress", "callId": "made up", "progress": "x"},
    ],
)
def test_an_answer_to_nothing_that_cannot_be_read_is_only_refused(raw: Message) -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        directory.handle_client_message(page.client_id, raw)
        assert not call.done()
        assert directory.ignored == {"rejected": 1}

    run(scenario())


def test_progress_that_cannot_be_read_does_not_end_its_call() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.say("progress", callId=call.id, progress="half")
        assert not call.done()
        page.result(call.id, 1)
        assert await call == 1

    run(scenario())


def test_a_foreign_answer_that_cannot_be_read_ends_nothing() -> None:
    directory = make_directory()
    make_page(directory)
    other = FakePage(directory)

    async def scenario() -> None:
        call = start(directory)
        other.say("result", callId=call.id, ok="x")
        other.say("progress", callId=call.id, progress=1)
        other.say("result", callId=call.id, ok=False, error="forged")
        assert not call.done()
        assert call.progress is None
        assert directory.ignored == {"rejected": 1, "stray progress": 1, "foreign result": 1}

    run(scenario())


def test_a_failures_words_are_made_safe_and_bounded() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        error = {"name": "\x1b[1mE" + "n" * 300, "message": "\u202eno\n" + "m" * 9000, "stack": "s"}
        page.result(call.id, error=error)
        with pytest.raises(PageToolError) as raised:
            await call
        assert raised.value.name == "E" + "n" * 126 + "…"
        assert raised.value.page_message.startswith("no\nmmm")
        assert len(raised.value.page_message) == 4096
        assert len(str(raised.value)) < 1000

    run(scenario())


def test_an_answer_may_be_made_into_something_else() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory, decode=str.upper)
        page.result(call.id, "words")
        assert await call == "WORDS"

    run(scenario())


# Progress


def test_progress_is_kept_with_its_words_made_safe() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.say("progress", callId=call.id, progress=1)
        assert str(call.progress) == "1"
        page.say("progress", callId=call.id, progress=2, total=4, message="\x1b[1mx" + "y" * 500)
        assert call.progress is not None
        assert call.progress.message == "x" + "y" * 254 + "…"
        assert str(call.progress).startswith("2/4 xyy")

    run(scenario())


def test_progress_does_not_put_off_the_deadline() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory, timeout=2)
        for number in range(5):
            page.say("progress", callId=call.id, progress=number, value=number)
            await asyncio.sleep(0.6)
        with pytest.raises(CallTimeoutError) as raised:
            await call
        assert raised.value.partial == 4

    run(scenario())


@pytest.mark.parametrize("answered", [True, False])
def test_progress_after_an_answer_is_counted_and_dropped(answered: bool) -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.result(call.id, 1, error=None if answered else "no")
        page.say("progress", callId=call.id, progress=1, value=2)
        assert directory.ignored == {"stray progress": 1}

    run(scenario())


# Ends


def test_who_lost_a_page_learns_that_the_call_may_have_run_and_what_was_there() -> None:
    directory = make_directory()
    page = make_page(directory)
    page.hello(title="Shop")

    async def scenario() -> None:
        one, two = start(directory), start(directory)
        page.say("progress", callId=one.id, progress=1, value=["half"])
        page.disconnect()
        for call, partial in ((one, ["half"]), (two, None)):
            with pytest.raises(PageGoneError) as raised:
                await call
            error = raised.value
            assert (error.tool, error.tab, error.sent, error.partial) == (
                "shop/buy",
                "Shop",
                True,
                partial,
            )
        assert len(directory._calls) == 0

    run(scenario())


def test_losing_one_page_touches_no_call_to_another() -> None:
    directory = make_directory()
    page, other = make_page(directory), FakePage(directory)
    other.register("blog", "post")

    async def scenario() -> None:
        call = start(directory)
        lost = directory.start(directory.route("post"))
        other.disconnect()
        await settle()
        assert (call.state, lost.state) == (CallState.PENDING, CallState.GONE)
        page.result(call.id, 1)
        assert await call == 1

    run(scenario())


def test_a_call_outlives_the_declaration_of_its_tool() -> None:
    """A tool may withdraw itself while it runs, and a page may declare anew at any time."""
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.register("shop")
        page.result(call.id, "done")
        assert await call == "done"

    run(scenario())


def test_of_a_cancelled_call_the_page_is_told_once_and_why() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        by_hand, by_default = start(directory), start(directory)
        by_time = start(directory, timeout=1)
        by_hand.cancel("enough")
        by_default.cancel()
        await asyncio.sleep(2)
        for call in (by_hand, by_time, by_default):
            call.cancel("again")
        assert [(m["callId"], m["reason"]) for m in page.all("cancel")] == [
            (by_hand.id, "enough"),
            (by_default.id, "cancelled"),
            (by_time.id, "no answer within 1 s"),
        ]
        with pytest.raises(CallCancelledError):
            await by_hand

    run(scenario())


def test_no_cancel_is_sent_for_a_call_that_has_ended() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory, timeout=1)
        page.result(call.id, 1)
        call.cancel()
        await asyncio.sleep(5)
        assert await call == 1
        assert page.all("cancel") == []

    run(scenario())


def test_a_late_answer_is_told_from_a_made_up_one_only_for_a_while() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        first = start(directory)
        first.cancel()
        for _ in range(MAX_ENDED - 1):
            start(directory).cancel()
        page.result(first.id)
        start(directory).cancel()
        page.result(first.id)
        assert directory.ignored == {"late result": 1, "stray result": 1}

    run(scenario())


def test_the_value_of_an_answered_call_is_not_kept_alive() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        call = start(directory)
        page.result(call.id, {"big": "value"})
        connection = directory._tabs.connections[page.client_id]
        assert connection.ended == {call.id: None}

    run(scenario())


def test_a_listener_that_makes_the_next_call_is_no_problem() -> None:
    directory = make_directory()
    page = make_page(directory)

    async def scenario() -> None:
        calls: list[PageCall] = [start(directory)]
        calls[0].on_change(lambda _: calls.append(start(directory)))
        page.result(calls[0].id, 1)
        page.result(calls[1].id, 2)
        assert [await call for call in calls] == [1, 2]
        last = start(directory)
        last.on_change(lambda _: calls.append(start(directory)))
        page.disconnect()
        assert len(calls) == 2  # nobody is there any more, which is the listener's own problem
        assert last.state is CallState.GONE

    run(scenario())
