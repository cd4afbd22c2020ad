"""The page client in a real browser, against a real bridge, from pages of another origin."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page

from pagetools_ipy import (
    CallCancelledError,
    Image,
    PageGoneError,
    PageToolError,
    ToolNotFoundError,
    ToolResult,
    Tools,
)
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.host import ThreadHost
from pagetools_ipy.page_script import delivery, page_script

from .conftest import Opener, Site, eventually

pytestmark = pytest.mark.browser

LAB = (Path(__file__).parent / "lab.html").read_text("utf-8")


@pytest.fixture
def page(site: Site, bridge: Bridge, open_page: Opener) -> Page:
    opened = open_page(site.add("lab.html", LAB.replace("BRIDGE", bridge.url)))
    eventually(lambda: bridge.host.run(bridge.directory.summary).tools == 17)
    return opened


@pytest.mark.usefixtures("page")
def test_tools_of_a_page_of_another_origin_are_called(tools: Tools) -> None:
    assert tools.add(a=1, b=2).result() == 3
    assert tools.nothing().result() is None
    assert tools.later().result() == "later"
    assert tools.map().result() == [["a", 1]]
    assert tools.odd().result() == {
        "query": [["a", "1"], ["a", "2"]],
        "headers": [["a", "b"]],
        "pattern": "/a/g",
        "view": [2, 3],
        "pixels": {"width": 1, "height": 1, "data": [0, 0, 0, 0]},
        "when": "1970-01-01T00:00:00.000Z",
        "where": "http://localhost/x",
        "error": {"name": "TypeError", "message": "inner"},
    }
    assert tools.unicode(text="ünï \u2028 \ud83d").result().endswith("✓ é 日本 🎉")
    assert tools.surrogate().result() == "x\ud800y"
    assert len(tools.rows(n=10_000).result()) == 10_000


@pytest.mark.usefixtures("page")
def test_failures_keep_the_pages_words(tools: Tools) -> None:
    with pytest.raises(PageToolError) as raised:
        tools.explode().result()
    error = raised.value
    assert (error.name, error.page_message, error.data) == ("RangeError", "too hot", {"heat": 9})
    assert error.stack is not None
    assert "lab.html" in error.stack
    assert (error.tool, error.tab) == ("lab/explode", "lab.html")
    with pytest.raises(PageToolError, match="just text"):
        tools.throwText().result()
    for name in ("cyclic", "bigint", "weak"):
        with pytest.raises(PageToolError, match="not serialisable"):
            tools[name]().result()


@pytest.mark.usefixtures("page")
def test_a_result_over_the_limit_costs_its_call_and_not_the_tab(tools: Tools) -> None:
    assert len(tools.big(mb=8).result()) == 8 * 1024 * 1024
    with pytest.raises(PageToolError, match="too large"):
        tools.big(mb=20).result()
    assert tools.add(a=1, b=1).result() == 2


@pytest.mark.usefixtures("page")
def test_progress_arrives_while_the_tool_runs(tools: Tools) -> None:
    call = tools.steps()
    seen = []
    call.on_change(lambda c: seen.append(c.progress and c.progress.value))
    assert call.result() == "done"
    assert seen[:3] == [1, 2, 3]


def test_cancelling_aborts_the_tool_in_the_page(page: Page, tools: Tools) -> None:
    call = tools.hang()
    call.cancel("not needed any more")
    with pytest.raises(CallCancelledError):
        call.result()
    page.wait_for_function("window.aborted.length === 1")
    assert "not needed any more" in page.evaluate("window.aborted[0]")


@pytest.mark.usefixtures("page")
def test_a_canvas_comes_back_as_an_image(tools: Tools) -> None:
    result = tools.canvas().result()
    assert isinstance(result, ToolResult)
    (image,) = result.images
    assert isinstance(image, Image)
    assert image.data.startswith(b"\x89PNG")


@pytest.mark.usefixtures("page")
def test_a_hundred_calls_at_once_each_get_their_own_answer(tools: Tools) -> None:
    calls = [tools.add(a=i, b=0) for i in range(100)]
    assert [call.result() for call in calls] == list(range(100))


def test_reloading_fails_pending_calls_and_keeps_the_tab(
    page: Page, tools: Tools, bridge: Bridge
) -> None:
    (before,) = bridge.host.run(bridge.directory.tabs)
    call = tools.hang()
    page.reload()
    with pytest.raises(PageGoneError) as raised:
        call.result()
    assert raised.value.sent is True
    eventually(lambda: "add" in tools)
    (after,) = bridge.host.run(bridge.directory.tabs)
    assert after.id == before.id
    assert after.client_ids != before.client_ids


def test_withdrawing_a_namespace_takes_its_tools_away(page: Page, tools: Tools) -> None:
    page.evaluate("window.pagetools.unregister('lab')")
    eventually(lambda: len(tools) == 0)
    page.evaluate("void window.pagetools.register('two', [{name: 'hi', execute: () => 'hello'}])")
    eventually(lambda: "hi" in tools)
    assert tools.hi().result() == "hello"
    with pytest.raises(ToolNotFoundError):
        _ = tools.add


def test_loading_the_script_twice_makes_one_connection(page: Page, bridge: Bridge) -> None:
    page.evaluate(f"import('{bridge.url}/pagetools.js?again')")
    page.wait_for_timeout(300)
    assert bridge.host.run(bridge.directory.summary).clients == 1


def test_a_page_is_back_soon_after_the_bridge_was_restarted(page: Page, bridge: Bridge) -> None:
    port = bridge.port
    bridge.stop()
    page.wait_for_timeout(6000)
    again = Bridge(ThreadHost())
    again.start(port)
    try:
        took = eventually(lambda: again.host.run(again.directory.summary).tools == 17)
        assert took < 2
        assert Tools(lambda: again).add(a=2, b=2).result() == 4
    finally:
        again.stop()


def test_the_script_tag_form_announces_itself(
    site: Site, bridge: Bridge, open_page: Opener
) -> None:
    html = f"""<script>
    const hi = {{name: 'hi', execute: () => 1}};
    addEventListener('pagetools:ready', () => pagetools.register('late', [hi]));
    </script><script type="module" src="{bridge.url}/pagetools.js"></script>"""
    open_page(site.add("tag.html", html))
    tools = Tools(lambda: bridge)
    eventually(lambda: "hi" in tools)
    assert tools.late.hi().result() == 1


def test_a_page_with_aiui_tools_needs_only_the_script(
    site: Site, bridge: Bridge, open_page: Opener
) -> None:
    html = f"""<script>
    let changed = () => {{}};
    const set = {{morpho: [{{name: 'report', description: 'State', run: () => ({{cells: 3}})}}]}};
    window.__AIUI__ = {{v: 1, tools: {{
      list: () => Object.entries(set).map(([ns, tools]) => ({{ns, tools, active: true}})),
      call: async (ns, name, args) => set[ns].find((t) => t.name === name).run(args),
      onChange: (handler) => {{ changed = handler; return () => {{}}; }},
    }}}};
    window.more = () => {{ set.extra = [{{name: 'more', run: (a) => a}}]; changed(); }};
    window.less = () => {{ delete set.morpho; changed(); }};
    </script><script type="module" src="{bridge.url}/pagetools.js"></script>"""
    page = open_page(site.add("aiui.html", html))
    tools = Tools(lambda: bridge)
    eventually(lambda: "report" in tools)
    assert tools.report().result() == {"cells": 3}
    page.evaluate("more()")
    eventually(lambda: "more" in tools)
    assert tools.more(x=1).result() == {"x": 1}
    page.evaluate("less()")
    eventually(lambda: "report" not in tools)


def test_a_page_that_may_not_come_in_is_told_why(bridge: Bridge, open_page: Opener) -> None:
    page = open_page("about:blank")
    code, reason = page.evaluate(
        """(url) => new Promise((done) => {
          const socket = new WebSocket(url);
          socket.onclose = (event) => done([event.code, event.reason]);
        })""",
        f"ws://127.0.0.1:{bridge.port}/tools",
    )
    # Chromium itself keeps opaque origins from loopback; where it does not, the bridge does.
    assert code in (1006, 4403)
    assert code == 1006 or "origin" in reason
    assert bridge.host.run(bridge.directory.summary).clients == 0


def test_the_console_says_why_there_is_no_connection(
    site: Site, bridge: Bridge, open_page: Opener
) -> None:
    said: list[str] = []
    url = site.add("why.html", LAB.replace("BRIDGE", bridge.url))
    page = open_page("about:blank")
    page.on("console", lambda message: said.append(message.text))
    page.goto(url)
    eventually(lambda: bridge.host.run(bridge.directory.summary).clients == 1)
    bridge.stop()
    deadline = time.monotonic() + 5
    while not any("%pagetools start" in text for text in said) and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert any("%pagetools start" in text for text in said), said


class Attached:
    """What the client says that is put into every document of a page."""

    def __init__(self, page: Page, port: int) -> None:
        self.page = page
        self.said: list[dict[str, Any]] = []
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.on("Runtime.bindingCalled", self._hear)
        send = self._session.send
        send("Page.enable")
        send("Runtime.enable")
        send("Runtime.addBinding", {"name": "carry"})
        script = {"source": page_script("carry", "this bridge", port), "runImmediately": True}
        send("Page.addScriptToEvaluateOnNewDocument", script)

    def _hear(self, event: dict[str, Any]) -> None:
        message = json.loads(event["payload"])
        self.said.append({**message, "context": event["executionContextId"]})

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.said if message["type"] == kind]

    def until(self, check: Callable[[], object]) -> None:
        """Let the page go on until ``check()`` is true."""
        deadline = time.monotonic() + 5
        while not check():
            assert time.monotonic() < deadline, self.said
            self.page.wait_for_timeout(10)

    def call(self, context: int, **fields: Any) -> Any:
        """The value that a tool answers."""
        message = {"v": 1, "type": "call", "callId": "k1", "args": {}, **fields}
        expression = delivery("carry", json.dumps(message))
        where = {"expression": expression, "contextId": context}
        self._session.send("Runtime.evaluate", where)
        self.until(lambda: self.of_type("result"))
        return self.of_type("result")[-1]["value"]


REGISTER = "pagetools.register('app', [{name: 'where', execute: () => location.pathname}])"


def test_a_page_that_forbids_all_connections_is_reached_through_its_browser(
    site: Site, open_page: Opener
) -> None:
    attached = Attached(open_page("about:blank"), 9)
    policy = "default-src 'none'; script-src 'unsafe-inline'"
    html = f"""<meta http-equiv="Content-Security-Policy" content="{policy}">
    <script>{REGISTER}</script>"""
    attached.page.goto(site.add("strict.html", html))
    attached.until(lambda: attached.of_type("register"))
    (declared,) = attached.of_type("register")
    assert attached.call(declared["context"], ns="app", name="where") == "/strict.html"


def test_a_frame_that_was_looked_at_before_it_had_its_page_is_reached_as_well(
    site: Site, open_page: Opener
) -> None:
    attached = Attached(open_page("about:blank"), 9)
    site.add("inner.html", f"<script>{REGISTER}</script>")
    looked_at = "<iframe src=inner.html></iframe><script>frames[0].seen = true</script>"
    attached.page.goto(site.add("outer.html", looked_at))
    attached.until(lambda: attached.of_type("register"))
    (declared,) = attached.of_type("register")
    assert attached.page.frames[1].evaluate("window.seen") is True  # the window is still the same
    assert attached.call(declared["context"], ns="app", name="where") == "/inner.html"


def test_a_page_that_is_attached_and_loads_the_script_is_there_once(
    site: Site, bridge: Bridge, open_page: Opener, tools: Tools
) -> None:
    attached = Attached(open_page("about:blank"), bridge.port)
    html = f"""<script>addEventListener('pagetools:ready', () => {REGISTER})</script>
    <script type="module" src="{bridge.url}/pagetools.js"></script>"""
    attached.page.goto(site.add("both.html", html))
    attached.until(lambda: attached.of_type("quiet"))
    assert tools.where().result() == "/both.html"
    assert bridge.host.run(bridge.directory.summary).tabs == 1
    (tab,) = bridge.host.run(bridge.directory.tabs)
    assert attached.of_type("quiet")[0]["tabId"] == tab.id
    attached.said.clear()
    bridge.stop()
    attached.until(lambda: attached.of_type("register"))
    assert attached.of_type("hello")[0]["tab"]["id"] == tab.id
