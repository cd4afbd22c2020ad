"""The doctor: what is concluded from the facts, how they are collected, what is shown."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from pagetools_ipy import bridge as bridges, endpoints
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.devtools import CommandError
from pagetools_ipy.diagnosis import (
    Finding,
    judge_bridge,
    judge_browser,
    judge_neighbours,
    judge_port,
    judge_refusals,
    judge_tab,
    judge_tabs,
    judge_visit,
)
from pagetools_ipy.doctor import findings_html, findings_text
from pagetools_ipy.errors import BrowserError
from pagetools_ipy.host import ThreadHost
from pagetools_ipy.transports import websocket
from pagetools_ipy.transports.cdp_control import TargetControl
from pagetools_ipy.transports.loopback import Refusal
from pagetools_ipy.transports.websocket import bind
from pagetools_ipy.views import App, FrameView, TabState, TabView
from pagetools_ipy.visits import Visit, allows, fetch, policies

from .conftest import DEADLINE, NewPage, Notebook

PORT = 9319


def said(findings: Any) -> str:
    """Findings in one text, to look for words in."""
    return findings_text(findings)


# The bridge and its neighbours


def test_a_bridge_that_runs_is_fine_and_one_that_does_not_is_to_be_started() -> None:
    (fine,) = judge_bridge("http://127.0.0.1:9319", "on its own thread")
    assert (fine.standing, fine.what) == (
        "ok",
        "The bridge runs at http://127.0.0.1:9319, on its own thread.",
    )
    assert fine.next.startswith("http://127.0.0.1:9319/doctor ")
    (down,) = judge_bridge("", "")
    assert down.standing == "problem"
    assert "`%pagetools start`" in down.next


def test_other_bridges_are_named_as_pages_may_be_connected_there() -> None:
    (note,) = judge_neighbours({9320: True}, 10, is_running=True)
    assert note.what == "Port 9320 has the bridge of another notebook."
    assert "127.0.0.1:9320" in note.next


def test_other_programs_matter_only_while_a_bridge_looks_for_a_port() -> None:
    assert list(judge_neighbours({9320: False}, 10, is_running=True)) == []
    (note,) = judge_neighbours({9320: False}, 10, is_running=False)
    assert (note.standing, note.what) == ("note", "Port 9320 is taken by another program.")
    *_, last = judge_neighbours(dict.fromkeys(range(10), False), 10, is_running=False)
    assert last.standing == "problem"
    assert "--port" in last.next


# Tabs


def frame(webmcp: str = "", **fields: Any) -> FrameView:
    given = {"client_id": "c1", "url": "", "title": "", "namespaces": (), **fields}
    return FrameView(top=True, visible=True, focused=False, webmcp=webmcp, **given)


def tab(state: TabState = TabState.CONNECTED, **fields: Any) -> TabView:
    given = {
        **{"id": "t1", "number": 0, "state": state, "blocked": "", "title": "Shop"},
        **{"url": "http://localhost/", "visible": True, "focused": False, "active": False},
        **{"pinned": False, "last_focused_at": 0.0, "connected_at": 0.0},
        **{"frames": (frame(),), "apps": ()},
        **fields,
    }
    return TabView(**given)


SHOP = App("shop", ("search", "buy"), "d")


@pytest.mark.parametrize(
    ("view", "standing", "what", "next"),
    [
        (tab(apps=(SHOP,)), "ok", "is connected, with 2 tools of shop", "^$"),
        (tab(TabState.RELOADING), "note", "has just left", "look again"),
        (tab(TabState.GONE), "note", "is gone", "Open it again"),
        (tab(TabState.ASLEEP), "note", "is asleep", "Look at the tab"),
        (
            tab(TabState.ASLEEP, blocked="the browser has frozen the page; look at the tab"),
            "note",
            r"is asleep: the browser has frozen the page\.",
            "^Look at the tab$",
        ),
        (tab(TabState.NOT_RESPONDING), "problem", "is not responding", "close its dialog"),
        (
            tab(TabState.NOT_RESPONDING, blocked="alert shows: Hello"),
            "problem",
            "alert shows: Hello",
            "close its dialog",
        ),
        (tab(frames=(frame("native"),)), "note", "browser's own WebMCP is there", "come later"),
        (tab(frames=(frame("polyfill"),)), "note", "a WebMCP of its own", "declare some"),
        (tab(frames=(frame("own"),)), "note", "none of the places", "reload it"),
        (tab(frames=(frame("none"),)), "note", "no WebMCP in it", "snippet"),
        (tab(), "note", "declares no tools", "snippet"),
        (
            tab(id="c1", title="", url=""),
            "problem",
            "not said which page it is for 60 s",
            "program",
        ),
        (tab(id="c1", title="", url="", connected_at=58.0), "note", "is connecting", "moment"),
        (tab(id="c1", title="", url="", apps=(SHOP,)), "ok", "2 tools of shop", "^$"),
    ],
)
def test_each_tab_is_said_to_stand_as_it_does(
    view: TabView, standing: str, what: str, next: str
) -> None:
    found = judge_tab(view, now=60.0)
    assert found.standing == standing
    assert re.search(what, found.what)
    assert re.search(next, found.next)


def test_where_no_page_is_connected_it_is_said_how_one_gets_in() -> None:
    (none,) = judge_tabs([], 0.0)
    assert none.what == "No page is connected."
    assert "`%pagetools open URL`" in none.next


# Browsers


def test_a_browser_with_its_own_webmcp_is_fine() -> None:
    (fine,) = judge_browser("port 9222", "Chrome/156.0", True, {"native", "none"})
    assert fine == Finding("ok", "Attached to Chrome 156.0 on port 9222.")


def test_a_browser_without_the_feature_is_said_to_need_a_switch() -> None:
    _, off = judge_browser("port 9222", "Chrome/156.0", True, {"own", "polyfill"})
    assert "is off" in off.what
    assert "--enable-features=WebMCP" in off.next


def test_a_browser_without_pages_may_have_the_feature_or_not() -> None:
    assert len(list(judge_browser("port 9222", "Chrome/156.0", True, set()))) == 1


def test_a_browser_that_has_gone_is_to_be_started_again() -> None:
    (gone,) = judge_browser("port 9222", "", False, set())
    assert (gone.standing, gone.what) == ("problem", "The browser on port 9222 has gone.")


def test_a_debugging_port_can_be_attached_to_or_is_said_to_refuse() -> None:
    assert "`%pagetools attach 9222`" in judge_port("port 9222", "9222", "").next
    refused = judge_port("port 9222", "9222", "nothing listens on port 9222; start the browser")
    assert refused == Finding(
        "note", "No browser to attach to: nothing listens on port 9222.", "Start the browser"
    )


# Refusals


def test_refused_pages_are_told_once_each_the_last_one_first() -> None:
    refusals = [
        Refusal(10.0, "https://a.example", 4403, "no token"),
        Refusal(20.0, "https://b.example", 4401, "another token"),
        Refusal(50.0, "https://a.example", 4403, "no token"),
        Refusal(5.0, "", 4403, "no origin"),
    ]
    nobody, often, once = judge_refusals(refusals, 60.0)
    assert often.what == "https://a.example was refused 2 times, last 10 s ago: no token (4403)."
    assert "`%pagetools open URL`" in often.next
    assert once.what.startswith("https://b.example was refused 1 time, last 40 s ago")
    assert "token of another notebook" in once.next
    assert nobody.what.startswith("A page without an origin")


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3.0, "0 s ago"), (600.0, "10 min ago"), (7200.0, "2 h ago")]
)
def test_how_long_ago_a_page_was_refused_is_in_words(seconds: float, words: str) -> None:
    (found,) = judge_refusals([Refusal(1000.0, "https://a", 4403, "no")], 1000.0 + seconds)
    assert words in found.what


# A page's server


def visit(
    url: str = "http://localhost:3000/", html: str = "", status: int = 200, **headers: str
) -> Visit:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Visit(url, status, named, html)


def visited(page: Visit) -> str:
    return said(judge_visit(page, page.url, PORT))


WS, SCRIPT = f"ws://127.0.0.1:{PORT}/tools", f"http://127.0.0.1:{PORT}/pagetools.js"


@pytest.mark.parametrize(
    ("source", "connects", "loads"),
    [
        # As Chromium 156 reads them on an http: page.
        ("'self'", False, False),
        ("*", True, True),
        ("ws:", True, False),
        ("http:", False, True),
        ("wss:", False, False),
        ("https:", False, False),
        (f"127.0.0.1:{PORT}", False, True),
        (f"localhost:{PORT}", False, False),
        (f"ws://127.0.0.1:{PORT}", True, False),
        (f"WS://127.0.0.1:{PORT}", True, False),
        (f"http://127.0.0.1:{PORT}", False, True),
        ("ws://127.0.0.1:*", True, False),
        ("127.0.0.1:*", False, True),
        (f"*:{PORT}", False, True),
        (f"ws://127.0.0.1:{PORT}/tools", True, False),
        (f"ws://127.0.0.1:{PORT}/", True, False),
        (f"ws://127.0.0.1:{PORT}/other", False, False),
        (f"ws://*:{PORT}", True, False),
        ("ws://127.0.0.1", False, False),
        ("'none'", False, False),
        ("'sha256-x'", False, False),
    ],
)
def test_sources_are_read_as_browsers_read_them(source: str, connects: bool, loads: bool) -> None:
    assert allows([source], WS, "http") is connects
    assert allows([source], SCRIPT, "http") is loads
    assert allows(["'self'", source], WS, "http") is connects


def test_a_source_without_a_scheme_has_that_of_the_page() -> None:
    assert allows([f"127.0.0.1:{PORT}"], SCRIPT, "http")
    assert not allows([f"127.0.0.1:{PORT}"], SCRIPT, "https")


def test_policies_are_found_in_headers_and_in_the_html() -> None:
    html = """<META content="default-src &#39;self&#39;" HTTP-EQUIV=Content-Security-Policy>
    <meta http-equiv='content-security-policy' content='connect-src ws:; connect-src x'>
    <meta name="description" content="content-security-policy">"""
    page = visit(html=html, content_security_policy="img-src x, script-src y z;; ")
    assert [(p.place, dict(p.directives)) for p in policies(page)] == [
        ("header", {"img-src": ["x"]}),
        ("header", {"script-src": ["y", "z"]}),
        ("meta element", {"default-src": ["'self'"]}),
        ("meta element", {"connect-src": ["ws:"]}),
    ]


def test_a_policy_that_forbids_the_connection_is_quoted_with_what_to_add() -> None:
    text = visited(visit(content_security_policy="connect-src 'self'"))
    assert "(header) does not let it connect to this bridge: connect-src 'self'." in text
    assert f"Add ws://127.0.0.1:{PORT} http://127.0.0.1:{PORT} to connect-src" in text
    assert "load a script" not in text


def test_where_default_src_stands_in_the_directive_to_add_is_written_out() -> None:
    text = visited(visit(content_security_policy="default-src 'none'; script-src *"))
    assert f"Add the directive: connect-src ws://127.0.0.1:{PORT} http://127.0.0.1:{PORT}" in text
    text = visited(visit(content_security_policy="default-src 'self'; connect-src *"))
    assert f"Add the directive: script-src 'self' http://127.0.0.1:{PORT}" in text


def test_a_policy_that_forbids_the_script_is_quoted_too() -> None:
    policy = "script-src-elem 'self' 'nonce-x'; script-src *"
    text = visited(visit(content_security_policy=policy))
    assert "load a script from this bridge: script-src-elem 'self' 'nonce-x'." in text
    assert f"Add http://127.0.0.1:{PORT} to script-src-elem" in text


def test_where_addresses_do_not_count_the_script_needs_the_nonce() -> None:
    text = visited(visit(content_security_policy="script-src http: 'strict-dynamic' 'nonce-x'"))
    assert "Give its script element the policy's nonce" in text


@pytest.mark.parametrize("policy", ["img-src 'none'", "connect-src ws:", "default-src *"])
def test_a_policy_that_lets_the_page_connect_is_not_mentioned(policy: str) -> None:
    assert "Content-Security-Policy" not in visited(visit(content_security_policy=policy))
    only = {"content_security_policy_report_only": "default-src 'none'"}
    assert "Content-Security-Policy" not in visited(visit(**only))


@pytest.mark.parametrize("feature", ["tools", "loopback-network"])
def test_a_feature_that_the_page_switches_off_is_named(feature: str) -> None:
    assert f"{feature}=()" in visited(visit(permissions_policy=f"camera=(), {feature}=( )"))
    assert "Permissions-Policy" not in visited(visit(permissions_policy=f"x-{feature}=()"))
    assert "Permissions-Policy" not in visited(visit(permissions_policy=f"{feature}=(self)"))


def test_a_public_page_is_said_to_need_leave_and_token() -> None:
    text = visited(visit("https://app.example/x"))
    assert "asks before it lets https://app.example reach this machine" in text
    assert "click Allow" in text.replace("Click", "click")
    assert "with the token only" in text


@pytest.mark.parametrize("url", ["http://app.example/", "http://192.168.1.2:80/"])
def test_a_page_that_is_no_secure_context_is_said_to_be_none(url: str) -> None:
    text = visited(visit(url))
    assert "is not a secure context" in text
    assert "https: or from localhost" in text


@pytest.mark.parametrize(
    "url",
    ["http://localhost:3000/", "http://127.0.0.1/", "https://a.localhost/", "http://[::1]:8/"],
)
def test_a_page_of_this_machine_needs_neither(url: str) -> None:
    assert visited(visit(url)).startswith("✓ It is on this machine")


def test_what_the_html_has_is_named() -> None:
    script = '<script type=module src="http://127.0.0.1:9319/pagetools.js"></script>'
    assert "It loads the client from this bridge." in visited(visit(html=script))
    text = visited(visit(html=script.replace("9319", "9320")))
    assert "from port 9320, and this bridge is on 9319" in text
    assert "`%pagetools start --port 9320`" in text
    text = visited(visit(html="<form id=f toolname=add><script>document.modelContext</script>"))
    assert "speaks of WebMCP, forms with a toolname." in text
    text = visited(visit(html='<script src="/@mcp-b/webmcp-local-relay/embed.js"></script>'))
    assert "`%pagetools start --mcpb`" in text
    assert "neither loads the client nor declares tools" in visited(visit(html="<p>toolname</p>"))


def test_an_answer_that_is_not_the_page_is_said_to_be_none() -> None:
    assert "HTTP 404" in visited(visit(status=404))
    page = visit("http://localhost:3000/login")
    assert "sends to http://localhost:3000/login" in said(
        judge_visit(page, "http://localhost:3000/", PORT)
    )
    page = visit("http://localhost:3000/#x")
    assert "sends to" not in said(judge_visit(page, "http://localhost:3000/", PORT))


Serve = Callable[[Callable[[BaseHTTPRequestHandler], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves one page after the other on a port of its own."""
    servers: list[tuple[HTTPServer, threading.Thread]] = []

    def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def page_of(
    html: str, status: int = 200, **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(html.encode())

    return answer


def test_a_page_is_fetched_with_status_headers_and_html(serve: Serve) -> None:
    url = serve(page_of("<p>é", 403, Content_Security_Policy="img-src 'self'"))
    page = fetch(f"{url}/x")
    assert (page.url, page.status, page.html) == (f"{url}/x", 403, "<p>é")
    assert page.all("content-security-policy") == ["img-src 'self'"]


def test_redirects_are_followed_to_pages_only(serve: Serve) -> None:
    there = serve(page_of("there"))
    assert fetch(serve(page_of("", 302, Location=f"{there}/a"))).url == f"{there}/a"
    assert fetch(serve(page_of("here", 302, Location="file:///etc/hostname"))).status == 302


def test_the_environments_proxy_is_not_asked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", serve(page_of("proxy", 502)))
    monkeypatch.delenv("no_proxy", raising=False)
    assert fetch(serve(page_of("page"))).html == "page"


def test_of_a_large_page_only_the_start_is_read(serve: Serve) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        page_of("")(handler)
        try:
            while True:
                handler.wfile.write(b"x" * 65536)
        except OSError:
            pass

    assert len(fetch(serve(endless)).html) == 512 * 1024


def test_what_does_not_speak_http_is_said_not_to() -> None:
    with bind(0) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-x\r\n")
            connection.close()

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(OSError, match="does not speak HTTP"):
            fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()


# What the bridge remembers


def knock(bridge: Bridge, origin: str, *protocols: str) -> tuple[int | None, str]:
    """What a page gets that connects and waits to be told."""
    with (
        connect(
            f"ws://127.0.0.1:{bridge.port}/tools",
            origin=Origin(origin),
            subprotocols=[Subprotocol(protocol) for protocol in protocols],
            proxy=None,
        ) as page,
        suppress(ConnectionClosed),
    ):
        page.recv(DEADLINE)
    return page.close_code, page.close_reason or ""


def refusals(bridge: Bridge) -> list[tuple[str, int]]:
    assert bridge._transport is not None
    return [(refusal.origin, refusal.code) for refusal in bridge.refusals]


def test_who_was_not_let_in_is_remembered_up_to_a_bound(bridge: Bridge) -> None:
    knock(bridge, "https://a.example", "pagetools.v1")
    knock(bridge, "http://localhost", "pagetools.v1", "pagetools.token.wrong")
    assert refusals(bridge) == [("https://a.example", 4403), ("http://localhost", 4401)]
    for _ in range(20):
        knock(bridge, "https://b.example" + "x" * 5000, "pagetools.v1")
    assert {code for _, code in refusals(bridge)} == {4403}
    assert len(refusals(bridge)) == 20
    assert len(refusals(bridge)[0][0]) == 2048


def test_who_only_checks_is_told_and_is_no_tab(bridge: Bridge) -> None:
    came = []
    bridge.host.run(lambda: bridge.directory.watch(came.append))
    assert knock(bridge, "http://localhost", "pagetools.check") == (1000, "this page is let in")
    code, _ = knock(bridge, "https://a.example", "pagetools.check")
    assert code == 4403
    assert came == []


# Showing


def test_findings_are_lines_with_a_mark_and_below_them_what_to_do() -> None:
    findings = [Finding("ok", "Fine."), Finding("problem", "Bad\x1b[31m.", "Mend\nit")]
    assert findings_text(findings) == "✓ Fine.\n✗ Bad.\n    Mend it"


def test_in_notebooks_everything_is_escaped_and_commands_are_code() -> None:
    text = findings_html([Finding("note", "<b>`x`</b>", "`%pagetools open <i>`")])
    assert "&lt;b&gt;<code>x</code>&lt;/b&gt;" in text
    assert "<code>%pagetools open &lt;i&gt;</code>" in text
    assert "<b>" not in text


# What an attached browser is asked


class Devtools:
    """Takes one command and gives an answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def send(self, method: str, params: Any, session: str, *, deadline: float) -> Any:
        assert (method, session) == ("Runtime.evaluate", "s1")
        assert params["returnByValue"]
        assert deadline < 10
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def probed(answer: Any) -> object:
    host = ThreadHost()
    target: Any = SimpleNamespace(session="s1", blocked="alert shows: Hello")
    devtools: Any = Devtools(answer)
    try:
        return asyncio.run(TargetControl(host, devtools, target, list).probe("1 + 1"))
    finally:
        host.close()


def test_a_page_is_asked_for_a_value() -> None:
    assert probed({"result": {"type": "number", "value": 2}}) == 2
    assert probed({"result": {"type": "undefined"}}) is None


def test_a_page_that_throws_or_is_held_is_said_to() -> None:
    thrown = {"exceptionDetails": {"exception": {"description": "Error: no\n  at x"}}}
    with pytest.raises(BrowserError, match="answers with Error: no"):
        probed({"result": {}, **thrown})
    with pytest.raises(BrowserError, match="alert shows: Hello"):
        probed(CommandError("Runtime.evaluate", "no answer", is_late=True))


# The verb


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A machine without other bridges; which browsers it has is for each test to say."""
    found: list[Any] = []
    monkeypatch.setattr(endpoints, "parse_endpoint", lambda: found)
    monkeypatch.setattr(websocket, "PORTS_TRIED", 0)
    return found


def doctor(notebook: Notebook, line: str = "") -> str:
    output = notebook.run(f"%pagetools doctor {line}")
    assert output.error is None, output.text
    (shown,) = output.displays
    assert shown["text/html"].startswith("<table>")
    text: str = shown["text/plain"]
    return text


def test_without_a_bridge_it_says_how_to_start_one(notebook: Notebook) -> None:
    assert doctor(notebook).startswith("✗ The bridge is not running")


def test_it_asks_who_has_the_ports_of_bridges(
    notebook: Notebook, bridge: Bridge, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setattr(websocket, "PORTS_TRIED", 1)
    monkeypatch.setattr(websocket, "DEFAULT_PORT", bridge.port)
    assert "Port" not in doctor(notebook)  # that is ours
    port = int(serve(page_of("pagetools bridge\n")).rpartition(":")[2])
    monkeypatch.setattr(websocket, "DEFAULT_PORT", port)
    assert f"Port {port} has the bridge of another notebook." in doctor(notebook)
    bridges.stop()
    monkeypatch.setattr(websocket, "DEFAULT_PORT", int(serve(page_of("x")).rpartition(":")[2]))
    assert "is taken by another program" in doctor(notebook)


def test_it_tells_tabs_and_refused_pages(
    notebook: Notebook, bridge: Bridge, new_page: NewPage
) -> None:
    page = new_page()
    page.hello("tab-1", title="Todos", url="http://localhost/todos")
    page.register("todo", "add")
    assert bridge._transport is not None
    bridge._transport.refusals.append(Refusal(time.time(), "https://<i>", 4403, "no token"))
    text = doctor(notebook)
    assert f"✓ The bridge runs at {bridge.url}, on its own thread." in text
    assert '✓ "Todos" is connected, with 1 tool of todo.' in text
    assert "✗ https://<i> was refused 1 time" in text


class Port:
    """A debugging port that can be attached to, or a problem with it."""

    host, profile = "127.0.0.1", None

    def __init__(self, port: int, problem: str = "") -> None:
        self.port, self.label, self._problem = port, f"port {port}", problem

    async def resolve(self) -> str:
        if self._problem:
            raise BrowserError(self._problem)
        return "ws://127.0.0.1/"


@pytest.mark.usefixtures("bridge")
def test_it_tells_browsers_that_nobody_attached_to(notebook: Notebook, alone: list[Any]) -> None:
    alone += [Port(9222), Port(9222), Port(9223, "port 9223 hangs; wait")]
    text = doctor(notebook)
    assert text.count("listens on port 9222") == 1
    assert "`%pagetools attach 9222`" in text
    assert "No browser to attach to: port 9223 hangs.\n    Wait" in text


def test_a_page_that_is_there_is_told_by_its_tab_alone(
    notebook: Notebook, new_page: NewPage
) -> None:
    page = new_page()
    page.hello("tab-1", title="Todos", url="http://localhost:1/todos")
    page.register("todo", "add")
    for typed in ("http://localhost:1/", "localhost:1/todos"):
        assert doctor(notebook, typed) == '✓ "Todos" is connected, with 1 tool of todo.'
    assert "No tab that is connected" in doctor(notebook, "http://localhost:1/other")


class Control:
    """A tab of a browser that is attached to, whose page gives an answer to the examination."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def probe(self, expression: str) -> object:
        assert "export" not in expression.replace("exportparts", "")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ([{"standing": "ok", "what": "Fine.", "next": ""}], "✓ Fine."),
        ([{"standing": "problem", "what": "Bad\x1b[2J.", "next": "x"}], "✗ Bad.\n    x"),
        ([{"standing": "<b>", "what": 3}, None], "• 3\n• "),
        ({"not": "a list"}, ""),
        (BrowserError("it is held"), "• It cannot be examined: it is held."),
    ],
)
def test_a_page_in_a_browser_that_is_attached_to_is_asked_itself(
    notebook: Notebook,
    bridge: Bridge,
    new_page: NewPage,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    text: str,
) -> None:
    monkeypatch.setattr(bridge.browsers, "control", lambda _: Control(answer))
    page = new_page()
    page.hello("tab-1", title="Todos", url="http://localhost:1/todos")
    page.register("todo", "add")
    _, _, rest = doctor(notebook, "http://localhost:1/").partition("\n")
    assert rest == text


@pytest.mark.usefixtures("bridge")
def test_a_page_that_is_not_there_is_asked_of_its_server(notebook: Notebook, serve: Serve) -> None:
    url = serve(page_of("<p>", Content_Security_Policy="connect-src 'none'"))
    text = doctor(notebook, url)
    assert text.startswith(f"✗ No tab that is connected shows {url}.")
    assert "does not let it connect to this bridge: connect-src 'none'." in text
    assert f"`%pagetools open {url}`" in text


def test_refusals_of_that_page_are_told_with_it(
    notebook: Notebook, bridge: Bridge, serve: Serve
) -> None:
    url = serve(page_of("<p>"))
    assert bridge._transport is not None
    for origin in (url, "https://other.example"):
        bridge._transport.refusals.append(Refusal(time.time(), origin, 4401, "another token"))
    text = doctor(notebook, url)
    assert f"✗ {url} was refused 1 time" in text
    assert "other.example" not in text


@pytest.mark.usefixtures("bridge")
def test_a_server_that_does_not_answer_is_told(notebook: Notebook) -> None:
    with bind(0) as taken:
        port = taken.getsockname()[1]
    text = doctor(notebook, f"localhost:{port}/x")
    assert f"http://localhost:{port}/x cannot be reached from here: [Errno" in text
    assert "no origin" in doctor(notebook, "file:///tmp/x.html")


def test_without_a_bridge_a_page_is_asked_all_the_same(notebook: Notebook, serve: Serve) -> None:
    text = doctor(notebook, serve(page_of("<p>")))
    assert text.startswith("✗ The bridge is not running")
    assert "It is on this machine" in text


def test_one_page_at_a_time(notebook: Notebook) -> None:
    output = notebook.run("%pagetools doctor one two")
    assert type(output.error).__name__ == "UsageError"


class AttachedBrowser:
    """A browser that is attached to, with these tabs."""

    endpoint, product, is_attached = Port(9222), "Chrome/156.0", True

    def __init__(self, *tab_ids: str) -> None:
        self._tab_ids = frozenset(tab_ids)

    def tab_ids(self) -> frozenset[str]:
        return self._tab_ids


@pytest.mark.parametrize(
    ("url", "is_told"), [("http://app.example/", False), ("http://localhost:3000/", True)]
)
def test_only_pages_that_could_have_it_show_that_a_browsers_webmcp_is_off(
    notebook: Notebook,
    bridge: Bridge,
    new_page: NewPage,
    monkeypatch: pytest.MonkeyPatch,
    alone: list[Any],
    url: str,
    is_told: bool,
) -> None:
    seen = {"id": "tab-1", "docId": "d", "url": url, "title": "", "visible": True, "focused": False}
    client = {"name": "x", "version": "1", "webmcp": "own"}
    new_page().say("hello", tab=seen, frame={"top": True}, client=client)
    attached = [AttachedBrowser("tab-1")]
    monkeypatch.setattr(type(bridge.browsers), "attached", property(lambda _: attached))
    alone += [Port(9222, "is not asked"), Port(9223, "refused; not missed")]
    text = doctor(notebook)
    assert "✓ Attached to Chrome 156.0 on port 9222." in text
    assert ("is off" in text) is is_told
    assert "No browser to attach to" not in text
