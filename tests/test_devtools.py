"""Commands to a browser: one answer each, a deadline each, nobody waits for another."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pagetools_ipy.devtools import CommandError, DevTools
from pagetools_ipy.errors import BrowserError

from .fake_browser import REFUSED, SILENT, FakeBrowser
from .helpers import run, settle

Events = list[tuple[str, dict[str, Any], str]]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[FakeBrowser, DevTools, Events]]:
    browser, events = FakeBrowser(), Events()
    devtools = DevTools(browser, lambda *event: events.append(event))
    listening = asyncio.create_task(devtools.listen())
    yield browser, devtools, events
    browser.leave()
    await listening


def test_a_command_gives_what_the_browser_answers() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Page.navigate"] = lambda c: {"asked": c["params"], "n": c["id"]}
            reply = await devtools.send("Page.navigate", {"url": "http://x/"}, "s1")
            assert reply["asked"] == {"url": "http://x/"}
            assert browser.sent[0]["sessionId"] == "s1"

    run(main())


def test_a_command_for_the_browser_names_no_session() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            await devtools.send("Browser.getVersion")
            assert "sessionId" not in browser.sent[0]

    run(main())


def test_a_refused_command_says_which_and_why() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Page.reload"] = lambda _: REFUSED
            with pytest.raises(BrowserError, match=r"Page\.reload: no such thing") as caught:
                await devtools.send("Page.reload")
            assert isinstance(caught.value, CommandError)
            assert not caught.value.is_late

    run(main())


def test_each_command_has_its_own_deadline() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Runtime.evaluate"] = lambda _: SILENT
            held = devtools.send("Runtime.evaluate", session="held", deadline=5)
            assert await devtools.send("Page.enable", session="other") == {}
            with pytest.raises(CommandError, match="no answer within 5 s") as caught:
                await held
            assert caught.value.is_late

    run(main())


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Slow"] = lambda _: SILENT
            with pytest.raises(CommandError):
                await devtools.send("Slow", deadline=1)
            browser.say({"id": browser.sent[0]["id"], "result": {}})
            assert await devtools.send("Next") == {}

    run(main())


def test_answers_may_come_in_any_order() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Ask"] = lambda _: SILENT
            first, second = devtools.send("Ask"), devtools.send("Ask")
            browser.say({"id": browser.sent[1]["id"], "result": {"n": 2}})
            browser.say({"id": browser.sent[0]["id"], "result": {"n": 1}})
            assert (await first, await second) == ({"n": 1}, {"n": 2})

    run(main())


def test_when_the_browser_goes_every_command_fails_at_once() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Ask"] = lambda _: SILENT
            waiting = devtools.send("Ask", deadline=1000)
            browser.leave()
            with pytest.raises(CommandError, match="the browser has gone"):
                await waiting
            with pytest.raises(CommandError, match="the browser has gone"):
                await devtools.send("Next")

    run(main())


def test_events_come_in_order_with_their_session() -> None:
    async def main() -> None:
        async with connected() as (browser, _, events):
            browser.event("Page.loadEventFired", {"timestamp": 1}, "s1")
            browser.event("Target.targetDestroyed", {"targetId": "t"})
            await settle()
            assert events == [
                ("Page.loadEventFired", {"timestamp": 1}, "s1"),
                ("Target.targetDestroyed", {"targetId": "t"}, ""),
            ]

    run(main())


def test_what_pages_write_to_their_consoles_is_not_even_read() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, events):
            browser._said.put_nowait('{"method":"Runtime.consoleAPICalled","params":{not even JSON')
            assert await devtools.send("Next") == {}
            assert events == []

    run(main())


def test_lone_surrogates_survive_both_ways() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, _):
            browser.answers["Echo"] = lambda c: c["params"]
            assert await devtools.send("Echo", {"text": "a\ud800b"}) == {"text": "a\ud800b"}

    run(main())


def test_a_command_that_nobody_awaits_may_fail() -> None:
    async def main() -> None:
        reported: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        async with connected() as (browser, devtools, _):
            browser.answers["Ask"] = lambda _: REFUSED
            devtools.send("Ask")
            await settle()
            devtools.send("Ask").cancel()
            await settle()
        gc.collect()
        assert reported == []

    run(main())


def test_what_cannot_be_taken_in_costs_nothing_else() -> None:
    async def main() -> None:
        async with connected() as (browser, devtools, events):
            for text in ("{", "[]", "{}", '{"method":"Page.x"}', '{"id":[]}'):
                browser._said.put_nowait(text)
            assert await devtools.send("Next") == {}
            assert events == []

    run(main())
