"""Calls that the browser makes for us: outcomes in any order, and what it blurs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pagetools_ipy.devtools import DevTools
from pagetools_ipy.invocations import Invocations

from .fake_browser import REFUSED, SILENT, FakeBrowser
from .helpers import run, settle

Json = dict[str, Any]


class Scene:
    """A session with a scripted browser, and what was answered by call."""

    def __init__(self, browser: FakeBrowser, devtools: DevTools) -> None:
        self.browser = browser
        self.calls = Invocations(devtools, "s1")
        self.answers: dict[str, Json] = {}

    def start(self, call_id: str = "c1", name: str = "search", args: Any = None) -> None:
        self.calls.start(
            call_id, "frame", name, args, lambda answer: self.answers.update({call_id: answer})
        )

    async def respond(self, number: str = "i1", status: str = "Completed", **fields: Any) -> None:
        self.calls.responded({"invocationId": number, "status": status, **fields})
        await settle()


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    browser = FakeBrowser()
    numbers = iter(range(1, 100))
    browser.answers["WebMCP.invokeTool"] = lambda _: {"invocationId": f"i{next(numbers)}"}
    devtools = DevTools(browser, lambda *_: None)
    listening = asyncio.create_task(devtools.listen())
    it = Scene(browser, devtools)
    yield it
    it.calls.close()
    browser.leave()
    await listening


def test_a_call_names_frame_tool_and_input_and_enables_the_domain_once() -> None:
    async def main() -> None:
        async with scene() as it:
            it.start("c1", args={"q": "tea"})
            it.start("c2")
            await settle()
            assert it.browser.commands("WebMCP.enable", "s1") == [{}]
            assert it.browser.commands("WebMCP.invokeTool", "s1") == [
                {"frameId": "frame", "toolName": "search", "input": {"q": "tea"}},
                {"frameId": "frame", "toolName": "search", "input": {}},
            ]

    run(main())


def test_the_browser_is_not_asked_for_its_tools_before_the_first_call() -> None:
    async def main() -> None:
        async with scene() as it:
            await settle()
            assert it.browser.sent == []

    run(main())


def test_an_outcome_answers_its_call_once() -> None:
    async def main() -> None:
        async with scene() as it:
            it.start("c1")
            it.start("c2")
            await settle()
            await it.respond("i2", output={"n": 2})
            await it.respond("i2", output={"n": 3})
            await it.respond("i1", output={"n": 1})
            assert it.answers == {
                "c1": {"ok": True, "value": {"n": 1}},
                "c2": {"ok": True, "value": {"n": 2}},
            }

    run(main())


def test_an_outcome_may_come_before_its_invocation_is_known() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.answers["WebMCP.invokeTool"] = lambda _: SILENT
            it.start()
            await settle()
            await it.respond("i7", output="early")
            asked = it.browser.sent[-1]
            it.browser.say({"id": asked["id"], "result": {"invocationId": "i7"}})
            await settle()
            assert it.answers == {"c1": {"ok": True, "value": "early"}}

    run(main())


def test_outcomes_of_other_clients_calls_are_left_alone() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.respond("theirs", output=1)
            it.start()
            await settle()
            await it.respond("theirs too", output=1)
            assert it.answers == {}

    run(main())


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("undefined", None),
        ("plain", "plain"),
        ({"a": [1]}, {"a": [1]}),
        (3, 3),
        ('{"name":"café"}', {"name": "café"}),
        ("café", "café"),
        ('{"name":"買"}', '{"name":"買"}'),
        (None, None),
    ],
    ids=["undefined", "text", "object", "number", "latin-1 json", "latin-1 text", "cjk", "none"],
)
def test_what_the_browser_blurs_is_made_good(output: Any, value: Any) -> None:
    async def main() -> None:
        async with scene() as it:
            it.start()
            await settle()
            await it.respond(output=output)
            assert it.answers["c1"] == {"ok": True, "value": value}

    run(main())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {
                "errorText": "",
                "exception": {
                    "className": "TypeError",
                    "description": "TypeError: kaboom\n    at http://x/a.js:5:21",
                },
            },
            ("TypeError", "kaboom", "TypeError: kaboom\n    at http://x/a.js:5:21"),
        ),
        (
            {"exception": {"description": "Error: two\nlines\n    at f"}},
            ("Error", "two\nlines", "Error: two\nlines\n    at f"),
        ),
        ({"exception": {"value": "just text"}}, ("Error", "just text", None)),
        ({"exception": {"value": {"code": 4}}}, ("Error", '{"code": 4}', None)),
        ({"exception": {"type": "undefined"}}, ("Error", "undefined", None)),
        ({"errorText": "Form validation failed"}, ("Error", "Form validation failed", None)),
        (
            {"exception": {"className": "Mine", "description": "no colon"}},
            ("Mine", "no colon", None),
        ),
        ({}, ("Error", "the tool failed and the browser gave no reason", None)),
    ],
    ids=["error", "lines", "string", "object", "nothing thrown", "browser", "class", "nothing"],
)
def test_a_failure_has_the_pages_words(fields: Json, error: tuple[str, str, Any]) -> None:
    async def main() -> None:
        async with scene() as it:
            it.start()
            await settle()
            await it.respond(status="Error", **fields)
            name, message, stack = error
            assert it.answers["c1"] == {
                "ok": False,
                "error": {"name": name, "message": message, "stack": stack},
            }

    run(main())


def test_a_call_that_the_page_cancels_is_an_abort() -> None:
    async def main() -> None:
        async with scene() as it:
            it.start()
            await settle()
            await it.respond(status="Canceled")
            assert it.answers["c1"]["error"]["name"] == "AbortError"

    run(main())


def test_a_refused_call_is_answered_with_the_reason() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.answers["WebMCP.invokeTool"] = lambda _: REFUSED
            it.start()
            await settle()
            assert it.answers["c1"]["ok"] is False
            assert "no such thing" in it.answers["c1"]["error"]["message"]
            assert "c1" not in it.calls

    run(main())


def test_cancelling_tells_the_page_and_answers_nothing() -> None:
    async def main() -> None:
        async with scene() as it:
            it.start()
            await settle()
            it.calls.cancel("c1")
            await it.respond(status="Canceled")
            assert it.browser.commands("WebMCP.cancelInvocation") == [{"invocationId": "i1"}]
            assert it.answers == {}

    run(main())


def test_cancelling_before_the_invocation_is_known_tells_the_page_as_soon_as_it_is() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.answers["WebMCP.invokeTool"] = lambda _: SILENT
            it.start()
            await settle()
            it.calls.cancel("c1")
            assert it.browser.commands("WebMCP.cancelInvocation") == []
            asked = it.browser.sent[-1]
            it.browser.say({"id": asked["id"], "result": {"invocationId": "i9"}})
            await settle()
            assert it.browser.commands("WebMCP.cancelInvocation") == [{"invocationId": "i9"}]
            assert it.answers == {}

    run(main())


def test_a_forgotten_call_is_not_answered_and_not_cancelled() -> None:
    async def main() -> None:
        async with scene() as it:
            it.start()
            await settle()
            it.calls.forget("c1")
            it.calls.forget("unknown")
            await it.respond(output=1)
            assert it.answers == {}
            assert it.browser.commands("WebMCP.cancelInvocation") == []

    run(main())


def test_a_domain_that_was_refused_is_asked_for_again() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.answers["WebMCP.enable"] = lambda _: REFUSED
            it.start("c1")
            await settle()
            assert it.answers["c1"]["error"]["name"] == "BrowserError"
            it.browser.answers["WebMCP.enable"] = lambda _: {}
            it.start("c2")
            await settle()
            await it.respond("i1", output=1)
            assert it.answers["c2"]["ok"] is True

    run(main())


@pytest.mark.parametrize("how", ["cancel", "forget"])
def test_a_call_that_is_given_up_before_it_is_made_is_not_made(how: str) -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.answers["WebMCP.enable"] = lambda _: SILENT
            it.start()
            await settle()
            getattr(it.calls, how)("c1")
            it.browser.say({"id": it.browser.sent[0]["id"], "result": {}})
            await settle()
            assert it.browser.commands("WebMCP.invokeTool") == []
            assert it.answers == {}

    run(main())
