"""A target of a browser: what its pages and the browser tell becomes what links say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pagetools_ipy.devtools import DevTools
from pagetools_ipy.errors import BrowserError
from pagetools_ipy.limits import MAX_MESSAGE_BYTES
from pagetools_ipy.transports.cdp_documents import (
    CHANGE_OVER_SECONDS,
    LAST_WORD_SECONDS,
    TabOfTargets,
)
from pagetools_ipy.transports.cdp_link import Document
from pagetools_ipy.transports.cdp_target import (
    CRASHED,
    DISCARDED,
    FROZEN,
    HELD,
    SETUP_SECONDS,
    STAND_IN_AFTER,
    Target,
)

from .fake_browser import BINDING, SILENT, FakeBrowser
from .helpers import run, settle

Json = dict[str, Any]

SETUP = [
    "Page.enable",
    "Runtime.enable",
    "Runtime.addBinding",
    "Page.addScriptToEvaluateOnNewDocument",
]


class FakeLink:
    """The bridge's end of a link: notes what it is fed."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.fed: list[Json] = []
        self.ended = False
        self.is_full = False

    def feed(self, raw: Json, size: int = 0) -> None:
        assert not self.ended
        if self.is_full:
            self.end()
            self.document.closed(self, 4429, "too much")  # type: ignore[arg-type]
        else:
            self.fed.append(raw)

    def end(self) -> None:
        self.ended = True

    def all(self, kind: str) -> list[Json]:
        return [raw for raw in self.fed if raw["type"] == kind]


class Scene:
    """A tab with session ``s1`` in a scripted browser."""

    def __init__(self, browser: FakeBrowser, devtools: DevTools, **info: Any) -> None:
        self.browser = browser
        self.links: list[FakeLink] = []
        self.tab = TabOfTargets("t1")
        about = {"targetId": "t1", "type": "page", "url": "http://shop/", "title": "Shop"}
        self.target = Target(
            devtools,
            "s1",
            {**about, **info},
            self.tab,
            self._make_link,  # type: ignore[arg-type]
            is_taken=lambda tab_id: tab_id == "of another tab",
            binding=BINDING,
            script="the client",
        )

    def _make_link(self, document: Document) -> FakeLink:
        self.links.append(FakeLink(document))
        return self.links[-1]

    def deliver(self, message: Json, link: int = -1) -> None:
        """Have the bridge say something over a link."""
        self.links[link].document.deliver(message)

    async def page(self, number: int = 1, of: str = "t1", **hello: Any) -> FakeLink:
        """A document comes, and its client says hello."""
        self.browser.context("s1", number, of)
        tab = {"id": hello.pop("tab_id", "stored"), "docId": f"d{number}"}
        self.browser.page_says("s1", number, {"type": "hello", "tab": tab, **hello})
        await settle()
        return self.links[-1]

    async def says(self, message: object, number: int = 1) -> None:
        self.browser.page_says("s1", number, message)
        await settle()

    async def event(self, method: str, **params: Any) -> None:
        self.browser.event(method, params, "s1")
        await settle()


@asynccontextmanager
async def scene(
    *, silent: tuple[str, ...] = (), paused: bool = False, **info: Any
) -> AsyncIterator[Scene]:
    browser = FakeBrowser()
    for method in silent:
        browser.answers[method] = lambda _: SILENT
    it: list[Scene] = []
    devtools = DevTools(browser, lambda method, params, _: it[0].target.on_event(method, params))
    listening = asyncio.create_task(devtools.listen())
    it.append(Scene(browser, devtools, **info))
    it[0].target.set_up(paused)
    await settle()
    yield it[0]
    it[0].target.close()
    browser.leave()
    await listening


def methods(it: Scene) -> Iterator[str]:
    return (command["method"] for command in it.browser.sent)


# Getting in


def test_the_client_is_set_up_before_a_paused_page_goes_on() -> None:
    async def main() -> None:
        async with scene(paused=True) as it:
            order = list(methods(it))
            assert [method for method in order if method in SETUP] == SETUP
            assert order.index("Runtime.runIfWaitingForDebugger") > order.index(SETUP[-1])
            script = it.browser.commands("Page.addScriptToEvaluateOnNewDocument")[0]
            assert script == {"source": "the client", "runImmediately": True}
            assert it.browser.commands("Runtime.addBinding") == [{"name": BINDING}]

    run(main())


def test_a_page_that_runs_already_is_not_told_to_go_on() -> None:
    async def main() -> None:
        async with scene() as it:
            assert "Runtime.runIfWaitingForDebugger" not in methods(it)

    run(main())


def test_frames_with_a_process_of_their_own_are_attached_to_as_well() -> None:
    async def main() -> None:
        async with scene() as it:
            assert it.browser.commands("Target.setAutoAttach", "s1")[0]["autoAttach"] is True

    run(main())


# What pages say


def test_a_client_that_says_hello_has_a_link() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page(client={"name": "pagetools.js"})
            assert link.fed == [
                {
                    "type": "hello",
                    "tab": {"id": "stored", "docId": "d1"},
                    "client": {"name": "pagetools.js", "via": "debugger"},
                    "frame": {"top": True},
                }
            ]
            assert it.target.settled.is_set()

    run(main())


def test_what_a_client_says_before_hello_goes_nowhere() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.context("s1", 1, "t1")
            await it.says({"type": "register", "ns": "n", "tools": []})
            assert it.links == []

    run(main())


def test_the_tab_keeps_its_identifier_wherever_it_goes() -> None:
    async def main() -> None:
        async with scene() as it:
            first = await it.page(1, tab_id="stored here")
            await it.event("Runtime.executionContextsCleared")
            second = await it.page(2, tab_id="stored there")
            assert first.ended
            assert second.fed[0]["tab"]["id"] == "stored here"

    run(main())


def test_another_address_before_the_client_speaks_does_not_name_the_tab() -> None:
    async def main() -> None:
        async with scene() as it:
            it.target.on_info({"targetId": "t1", "type": "page", "title": "", "url": "u"})
            assert (await it.page(tab_id="stored")).fed[0]["tab"]["id"] == "stored"

    run(main())


def test_the_bridge_may_give_the_tab_another_identifier() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page(1)
            it.deliver({"type": "welcome", "tabId": "given", "clientId": "c"})
            await it.event("Runtime.executionContextsCleared")
            assert (await it.page(2)).fed[0]["tab"]["id"] == "given"

    run(main())


def test_a_frame_is_in_the_tab_and_not_its_page() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page(1)
            frame = await it.page(2, "f2", tab_id="of the frame", frame={"top": True})
            assert frame.fed[0]["tab"]["id"] == "stored"
            assert frame.fed[0]["frame"]["top"] is False

    run(main())


def test_documents_speak_over_links_of_their_own() -> None:
    async def main() -> None:
        async with scene() as it:
            page, frame = await it.page(1), await it.page(2, "f2")
            await it.says({"type": "pong", "n": 1}, 1)
            await it.says({"type": "pong", "n": 2}, 2)
            assert (page.all("pong"), frame.all("pong")) == (
                [{"type": "pong", "n": 1}],
                [{"type": "pong", "n": 2}],
            )

    run(main())


def test_a_removed_frame_ends_its_link_and_no_other() -> None:
    async def main() -> None:
        async with scene() as it:
            page, frame = await it.page(1), await it.page(2, "f2")
            await it.event("Runtime.executionContextDestroyed", executionContextId=2)
            assert (page.ended, frame.ended) == (False, True)

    run(main())


def test_worlds_of_extensions_and_other_bindings_are_left_alone() -> None:
    async def main() -> None:
        async with scene() as it:
            world = {"id": 5, "uniqueId": "u", "auxData": {"isDefault": False, "frameId": "t1"}}
            await it.event("Runtime.executionContextCreated", context=world)
            await it.says({"type": "hello", "tab": {"id": "x"}}, 5)
            it.browser.context("s1", 1, "t1")
            hello = {"name": "other", "payload": '{"type":"hello"}', "executionContextId": 1}
            await it.event("Runtime.bindingCalled", **hello)
            assert it.links == []

    run(main())


def test_what_is_not_json_is_refused_and_costs_nothing_else() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            junk = {"name": BINDING, "payload": "{", "executionContextId": 1}
            await it.event("Runtime.bindingCalled", **junk)
            assert it.browser.delivered("s1")[-1]["type"] == "rejected"
            await it.says([1, "no object"])
            await it.says({"type": "pong", "n": 1})
            assert link.fed[1:] == [[1, "no object"], {"type": "pong", "n": 1}]
            assert not link.ended

    run(main())


def test_a_hello_without_a_tab_reaches_the_bridge_to_be_refused() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.context("s1", 1, "t1")
            await it.says({"type": "hello", "tab": 7, "frame": []})
            assert it.links[0].fed[0]["tab"] == 7

    run(main())


# What the bridge says


def test_a_message_goes_to_its_document_and_no_later_one() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            it.deliver({"type": "registered", "ns": 'a"b\u2028', "hash": "h"})
            asked = it.browser.commands("Runtime.evaluate", "s1")[-1]
            assert asked["uniqueContextId"] == "s1.1"
            assert it.browser.delivered("s1")[-1]["ns"] == 'a"b\u2028'
            await it.event("Runtime.executionContextsCleared")
            sent = len(it.browser.sent)
            it.deliver({"type": "cancel", "callId": "c", "reason": ""}, 0)
            assert len(it.browser.sent) == sent

    run(main())


def test_a_call_is_made_as_if_the_person_had_clicked() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            for kind in ("registered", "call"):
                it.deliver({"type": kind, "callId": "c", "ns": "n"})
            asked = it.browser.commands("Runtime.evaluate", "s1")[-2:]
            assert [command["userGesture"] for command in asked] == [False, True]

    run(main())


def test_a_closed_link_is_told_to_the_client() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            link.document.closed(link, 4409, "another one")  # type: ignore[arg-type]
            told = it.browser.delivered("s1")[-1]
            assert told == {"v": 1, "type": "closed", "code": 4409, "reason": "another one"}

    run(main())


def test_a_ping_is_answered_by_a_page_that_runs() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            it.deliver({"type": "ping", "n": 7})
            await settle()
            assert link.all("pong") == [{"type": "pong", "n": 7}]

    run(main())


def test_a_ping_is_not_answered_by_a_page_that_does_not() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            it.browser.answers["Runtime.evaluate"] = lambda _: SILENT
            it.deliver({"type": "ping", "n": 7})
            await asyncio.sleep(100)
            assert link.all("pong") == []

    run(main())


# Pages that do not speak for themselves


def test_a_page_without_a_client_is_spoken_for() -> None:
    async def main() -> None:
        async with scene(url="chrome://settings/", title="Settings") as it:
            await asyncio.sleep(STAND_IN_AFTER + 0.1)
            assert it.target.settled.is_set()
            hello = it.links[0].fed[0]
            assert (hello["tab"]["id"], hello["tab"]["title"]) == ("t1", "Settings")
            it.deliver({"type": "ping", "n": 3})
            assert it.links[0].all("pong") == [{"type": "pong", "n": 3}]

    run(main())


def test_another_title_of_a_page_without_a_client_is_told() -> None:
    async def main() -> None:
        async with scene() as it:
            await asyncio.sleep(1)
            it.target.on_info({"targetId": "t1", "type": "page", "title": "New", "url": "u"})
            assert it.links[0].all("hello")[-1]["tab"]["title"] == "New"

    run(main())


def test_a_client_that_speaks_late_takes_over() -> None:
    async def main() -> None:
        async with scene() as it:
            await asyncio.sleep(1)
            link = await it.page()
            assert it.links[0].ended
            assert link.fed[0]["tab"]["id"] == "t1"  # the one it was listed under already

    run(main())


def test_frames_are_not_spoken_for() -> None:
    async def main() -> None:
        async with scene(type="iframe", targetId="f1") as it:
            await asyncio.sleep(10)
            assert it.links == []
            assert it.target.settled.is_set()

    run(main())


def test_a_held_page_is_listed_with_the_reason_until_it_lets_us_in() -> None:
    async def main() -> None:
        async with scene(silent=(*SETUP, "Target.setAutoAttach")) as it:
            await asyncio.sleep(SETUP_SECONDS + 0.1)
            assert it.target.settled.is_set()
            assert it.links[0].all("blocked")[-1] == {
                "type": "blocked",
                "reason": HELD,
                "asleep": False,
            }
            it.deliver({"type": "ping", "n": 3})
            assert it.links[0].all("pong") == []
            for command in it.browser.sent:
                it.browser.say({"id": command["id"], "result": {}})
            await settle()
            assert it.links[0].all("blocked")[-1]["reason"] == ""

    run(main())


def test_a_page_out_of_memory_is_asleep() -> None:
    async def main() -> None:
        async with scene(silent=tuple(SETUP)) as it:
            await asyncio.sleep(SETUP_SECONDS + 0.1)
            told = it.links[0].all("blocked")[-1]
            assert (told["reason"], told["asleep"]) == (DISCARDED, True)

    run(main())


def silent_but(it: Scene, expression: str) -> None:
    """Have the page answer one question only."""
    it.browser.answers["Runtime.evaluate"] = lambda command: (
        {} if command["params"]["expression"] == expression else SILENT
    )


def test_a_page_that_answers_and_does_nothing_by_itself_is_frozen_until_it_does() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            silent_but(it, "0")
            await it.says({"type": "bye", "asleep": True})
            await it.says({"type": "hello", "tab": {"id": "stored"}})
            await asyncio.sleep(SETUP_SECONDS + 0.1)
            link = it.links[-1]
            assert link.all("blocked")[-1]["reason"] == FROZEN
            for command in it.browser.sent:
                it.browser.say({"id": command["id"], "result": {}})
            await settle()
            assert link.all("blocked")[-1]["reason"] == ""

    run(main())


def test_a_page_that_is_busy_at_first_is_held_until_it_runs() -> None:
    async def main() -> None:
        async with scene(silent=("Runtime.evaluate",)) as it:
            link = await it.page()
            await asyncio.sleep(SETUP_SECONDS + 0.1)
            assert it.target.settled.is_set()
            assert link.all("blocked")[-1]["reason"] == HELD
            for command in it.browser.sent:
                it.browser.say({"id": command["id"], "result": {}})
            await settle()
            assert link.all("blocked")[-1]["reason"] == ""

    run(main())


def test_a_dialog_is_told_with_its_text_and_that_it_is_closed() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            await it.event("Page.javascriptDialogOpening", type="confirm", message="Sure?\x1b[31m")
            await it.event("Page.javascriptDialogClosed", result=True)
            reasons = [told["reason"] for told in link.all("blocked")]
            assert reasons == ["confirm shows: Sure?", ""]

    run(main())


def test_a_crash_ends_the_links_and_says_so() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            await it.event("Inspector.targetCrashed")
            assert link.ended
            assert it.links[-1].all("blocked")[-1]["reason"] == CRASHED
            assert it.links[-1].fed[0]["tab"]["id"] == "stored"

    run(main())


def test_a_page_that_reaches_the_bridge_itself_is_not_there_twice() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            await it.says({"type": "quiet", "tabId": "by socket"})
            await asyncio.sleep(CHANGE_OVER_SECONDS)
            assert link.ended
            assert it.tab.id == "by socket"
            await asyncio.sleep(10)
            assert len(it.links) == 1
            assert (await it.page()).fed[0]["tab"]["id"] == "by socket"

    run(main())


def test_a_page_that_is_put_aside_ends_its_link_and_may_come_back() -> None:
    async def main() -> None:
        async with scene() as it:
            first = await it.page()
            await it.says({"type": "bye", "asleep": True})
            assert first.ended
            await it.says({"type": "hello", "tab": {"id": "stored"}})
            assert not it.links[-1].ended
            await it.says({"type": "pong", "n": 1})
            assert it.links[-1].all("pong")

    run(main())


def test_a_page_that_goes_quiet_still_answers_what_it_was_asked() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            await it.says({"type": "register", "ns": "n", "tools": []})
            it.deliver({"type": "call", "callId": "c1", "ns": "n", "name": "t", "args": {}})
            await it.says({"type": "quiet", "tabId": "stored"})
            await asyncio.sleep(CHANGE_OVER_SECONDS)
            assert not link.ended
            assert link.all("hello")[-1]["frame"] == {"top": False}
            assert link.all("register")[-1] == {"type": "register", "ns": "n", "tools": []}
            await it.says({"type": "result", "callId": "c1", "ok": True, "value": 1})
            assert link.all("result")
            assert link.ended

    run(main())


def test_a_page_that_claims_the_identifier_of_another_tab_does_not_get_it() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            await it.says({"type": "quiet", "tabId": "of another tab"})
            await asyncio.sleep(CHANGE_OVER_SECONDS)
            assert it.tab.id == "stored"

    run(main())


def test_a_dialog_of_a_page_that_reaches_the_bridge_itself_is_told_in_its_place() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            await it.says({"type": "quiet", "tabId": "by socket"})
            await asyncio.sleep(CHANGE_OVER_SECONDS)
            await it.event("Page.javascriptDialogOpening", type="alert", message="Hi")
            told = it.links[-1]
            assert told.fed[0]["tab"]["id"] == "by socket"
            assert told.fed[0]["frame"]["top"] is False
            assert told.all("blocked")[-1]["reason"] == "alert shows: Hi"
            await it.event("Page.javascriptDialogClosed", result=True)
            assert told.ended

    run(main())


def test_a_page_that_follows_one_which_reached_the_bridge_itself_is_listed() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            await it.says({"type": "quiet", "tabId": "by socket"})
            await asyncio.sleep(CHANGE_OVER_SECONDS)
            await it.event("Runtime.executionContextsCleared")
            it.browser.context("s1", 2, "t1")
            await asyncio.sleep(STAND_IN_AFTER + 0.1)
            assert it.links[-1].fed[0]["tab"]["id"] == "by socket"

    run(main())


def test_a_page_that_says_too_much_costs_the_others_nothing() -> None:
    async def main() -> None:
        async with scene() as it:
            page, frame = await it.page(1), await it.page(2, "f2")
            await it.says({"type": "register", "ns": "n", "tools": []}, 2)
            frame.is_full = True
            await it.says({"type": "quiet", "tabId": "x"}, 2)
            await asyncio.sleep(CHANGE_OVER_SECONDS)
            assert it.browser.delivered("s1")[-1]["type"] == "closed"
            await it.event("Runtime.executionContextsCleared")
            assert page.ended

    run(main())


def test_a_page_whose_link_the_bridge_has_ended_is_spoken_for_until_it_is_back() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            link.document.closed(link, 4429, "too much")  # type: ignore[arg-type]
            await asyncio.sleep(STAND_IN_AFTER + 0.1)
            assert it.links[-1] is not link
            await it.says({"type": "hello", "tab": {"id": "stored"}})
            assert it.links[-2].ended

    run(main())


def test_the_end_of_an_old_link_is_not_that_of_the_new_one() -> None:
    async def main() -> None:
        async with scene() as it:
            old = await it.page()
            await it.says({"type": "bye", "asleep": False})
            await it.says({"type": "hello", "tab": {"id": "stored"}})
            old.document.closed(old, 4409, "late")  # type: ignore[arg-type]
            await it.says({"type": "pong", "n": 1})
            assert it.links[-1].all("pong")

    run(main())


def test_what_is_larger_than_a_message_may_be_is_refused_unread() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await it.page()
            await it.says({"type": "pong", "n": 1, "x": "x" * MAX_MESSAGE_BYTES})
            told = it.browser.delivered("s1")[-1]
            assert (told["type"], told["code"]) == ("rejected", "too_large")
            assert link.all("pong") == []

    run(main())


# Loading


def test_a_page_is_loaded_when_its_document_is_and_not_the_one_before() -> None:
    async def main() -> None:
        async with scene() as it:
            load = it.target.loading.expect()
            await it.event("Page.loadEventFired", timestamp=1)
            assert not load.done()
            await it.event("Page.frameNavigated", frame={"id": "f2"})
            await it.event("Page.loadEventFired", timestamp=2)
            assert not load.done()
            await it.event("Page.frameNavigated", frame={"id": "t1"})
            await it.event("Page.loadEventFired", timestamp=3)
            await load

    run(main())


@pytest.mark.parametrize(
    ("what", "why"),
    [("crash", "the page crashed"), ("close", "the tab has gone"), ("load", "another page")],
)
def test_whoever_waits_for_a_page_learns_that_it_will_not_come(what: str, why: str) -> None:
    async def main() -> None:
        async with scene() as it:
            load = it.target.loading.expect()
            if what == "crash":
                await it.event("Inspector.targetCrashed")
            elif what == "close":
                it.target.close()
            else:
                it.target.loading.expect()
            with pytest.raises(BrowserError, match=why):
                await load

    run(main())


# Tools whose function only the browser has


async def native_call(it: Scene) -> FakeLink:
    it.browser.answers["WebMCP.invokeTool"] = lambda _: {"invocationId": "i1"}
    link = await it.page()
    await it.says({"type": "register", "ns": "http://shop", "tools": []})
    it.deliver({"type": "call", "callId": "c1", "ns": "http://shop", "name": "book", "args": {}})
    await it.says({"type": "native", "callId": "c1", "name": "book", "args": {"room": 1}})
    return link


def test_the_browser_makes_such_a_call_and_the_page_seems_to_answer() -> None:
    async def main() -> None:
        async with scene() as it:
            link = await native_call(it)
            asked = it.browser.commands("WebMCP.invokeTool", "s1")
            assert asked == [{"frameId": "t1", "toolName": "book", "input": {"room": 1}}]
            await it.event(
                "WebMCP.toolResponded", invocationId="i1", status="Completed", output="ok"
            )
            assert link.all("result") == [
                {"type": "result", "callId": "c1", "ok": True, "value": "ok"}
            ]

    run(main())


def test_a_cancel_of_such_a_call_goes_to_the_browser() -> None:
    async def main() -> None:
        async with scene() as it:
            await native_call(it)
            before = len(it.browser.delivered("s1"))
            it.deliver({"type": "cancel", "callId": "c1", "reason": "enough"})
            assert it.browser.commands("WebMCP.cancelInvocation") == [{"invocationId": "i1"}]
            assert len(it.browser.delivered("s1")) == before

    run(main())


def test_such_a_call_that_is_cancelled_before_the_page_comes_to_it_is_not_made() -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            it.deliver({"type": "call", "callId": "c1", "ns": "n", "name": "book", "args": {}})
            it.deliver({"type": "cancel", "callId": "c1", "reason": "enough"})
            await it.says({"type": "native", "callId": "c1", "name": "book", "args": {}})
            assert it.browser.commands("WebMCP.invokeTool", "s1") == []

    run(main())


def test_a_call_that_navigates_is_given_the_browsers_last_word() -> None:
    async def main() -> None:
        async with scene() as it:
            old = await native_call(it)
            await it.event("Runtime.executionContextsCleared")
            new = await it.page(2)
            assert not old.ended
            assert old.all("hello")[-1]["frame"]["top"] is False
            assert old.all("register")[-1] == {"type": "register", "ns": "http://shop", "tools": []}
            await it.event(
                "WebMCP.toolResponded", invocationId="i1", status="Completed", output=[{"a": 1}]
            )
            assert old.all("result")[0]["value"] == [{"a": 1}]
            assert (old.ended, new.ended) == (True, False)

    run(main())


def test_an_answer_that_a_reload_swallowed_is_not_waited_for_long() -> None:
    async def main() -> None:
        async with scene() as it:
            old = await native_call(it)
            await it.event("Runtime.executionContextsCleared")
            await asyncio.sleep(LAST_WORD_SECONDS - 0.1)
            assert not old.ended
            await asyncio.sleep(0.2)
            assert old.ended
            assert old.all("result") == []

    run(main())


def test_a_call_that_the_browser_has_not_taken_yet_does_not_reach_the_next_document() -> None:
    async def main() -> None:
        async with scene() as it:
            it.browser.answers["WebMCP.enable"] = lambda _: SILENT
            old = await native_call(it)
            await it.event("Runtime.executionContextsCleared")
            assert old.ended
            enabling = next(c for c in it.browser.sent if c["method"] == "WebMCP.enable")
            it.browser.say({"id": enabling["id"], "result": {}})
            await settle()
            assert it.browser.commands("WebMCP.invokeTool") == []

    run(main())


def test_a_call_is_made_once_however_often_the_page_asks_for_it() -> None:
    async def main() -> None:
        async with scene() as it:
            await native_call(it)
            await it.says({"type": "native", "callId": "c1", "name": "book", "args": {}})
            await it.says({"type": "native", "callId": "never asked", "name": "book", "args": {}})
            assert len(it.browser.commands("WebMCP.invokeTool")) == 1

    run(main())


@pytest.mark.parametrize("message", [{}, {"callId": 1, "name": "n"}, {"callId": "c", "name": 1}])
def test_a_native_call_that_is_none_is_left_alone(message: Json) -> None:
    async def main() -> None:
        async with scene() as it:
            await it.page()
            await it.says({"type": "native", **message})
            assert it.browser.commands("WebMCP.invokeTool") == []

    run(main())


# Ends


def test_when_the_target_goes_every_link_ends() -> None:
    async def main() -> None:
        async with scene() as it:
            links = [await it.page(1), await it.page(2, "f2")]
            it.target.close()
            assert all(link.ended for link in links)

    run(main())
