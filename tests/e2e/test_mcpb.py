"""Pages with the published MCP-B embed in a real browser, and the published relay as a client.

Both come from npm, unchanged; where they are not installed, the tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.server import ServerConnection

from pagetools_ipy import PageGoneError, PageToolError, ToolResult, Tools
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.relay import RelayPeers
from pagetools_ipy.transports import OnLink
from pagetools_ipy.transports.mcpb import McpbTransport
from pagetools_ipy.transports.websocket import bind
from pagetools_ipy.views import TabView

from ..cdp import Chromium, Page, chromium
from ..conftest import HostedPage
from .conftest import eventually

if TYPE_CHECKING:
    from .desktop import Loop

pytest_plugins = ["tests.e2e.desktop"]
pytestmark = pytest.mark.browser

PAGES = Path(__file__).parent / "mcpb"
NPM = Path(__file__).parents[1] / "npm" / "node_modules"
RELAY = NPM / "@mcp-b/webmcp-local-relay/dist"
LIBRARIES = {
    "global 5": "@mcp-b/global/dist/index.iife.js",
    "global 4": "global-4/dist/index.iife.js",
    "global 2": "global-2/dist/index.iife.js",
}
TOOLS = ["content", "fails", "nothing", "object", "text", "waits"]


@pytest.fixture(autouse=True)
def _libraries() -> None:
    if not all((NPM / path).is_file() for path in (*LIBRARIES.values(), RELAY / "cli.js")):
        pytest.skip("the libraries of pages are not installed: npm ci --prefix tests/npm")


# ---- a browser, a site, a bridge that embeds take for their relay


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


class Site:
    """Serves pages with what they bring along; words take the place of ``$words`` in a page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "npm").symlink_to(NPM)
        (folder / "shop.js").symlink_to(PAGES / "shop.js")
        handler = partial(_Handler, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.port = self._server.server_port

    def page(self, name: str, host: str = "127.0.0.1", **words: object) -> str:
        text = Template((PAGES / name).read_text("utf-8")).substitute(words)
        (self._folder / name).write_text(text, "utf-8")
        return f"http://{host}:{self.port}/{name}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    served = Site(tmp_path)
    yield served
    served.close()


@pytest.fixture(scope="module")
def chrome(loop: Loop) -> Iterator[Chromium]:
    """A browser without WebMCP, to which another site is on this machine."""
    launched = chromium("--host-resolver-rules=MAP shop.example 127.0.0.1")
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


class Watched(McpbTransport):
    """Notes how each connection ended."""

    def __init__(self, relays: RelayPeers | None = None, port: int = 0) -> None:
        super().__init__(bind(port), relays=relays and relays.join)
        self.ends: list[tuple[str | None, int | None]] = []

    async def serve(self, connection: ServerConnection, on_link: OnLink) -> None:
        assert connection.request is not None
        await super().serve(connection, on_link)
        self.ends.append((connection.request.headers["Origin"], connection.close_code))


@contextmanager
def serving(bridge: Bridge, transport: Watched) -> Iterator[Watched]:
    def do(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, bridge.host.loop).result(10)

    do(transport.start(bridge._pump))
    yield transport
    do(transport.close())


@pytest.fixture
def relay(bridge: Bridge) -> Iterator[Watched]:
    with serving(bridge, Watched()) as transport:
        yield transport


Opener = Callable[[str], Page]


@pytest.fixture
def open_page(loop: Loop, chrome: Chromium) -> Iterator[Opener]:
    yield lambda url: loop.run(chrome.open(url))
    loop.run(chrome.close_all())


def tabs_of(bridge: Bridge) -> list[TabView]:
    return bridge.host.run(bridge.directory.tabs)


# ---- pages

WRAPPED = {
    "content": ("hi", {"n": 1}),
    "text": "just text",
    "object": ('{"got":"milk"}', {"got": "milk"}),
    "nothing": "undefined",
    "fails": "error: kaboom",
}
ANSWERS = {
    "global 5": {**WRAPPED, "object": {"got": "milk"}, "nothing": None},
    "global 4": {**WRAPPED, "text": ("just text", "just text")},
    "global 2": WRAPPED,
}


def outcome(tools: Tools, name: str) -> object:
    """What a call ends with; of content blocks, the text and what is structured."""
    try:
        value = tools[name](title="milk").result()
    except PageToolError as error:
        return "error: kaboom" if "kaboom" in error.page_message else error
    if not isinstance(value, ToolResult):
        return value
    return value.text if value.structured is None else (value.text, value.structured)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_page_with_the_embed_lists_its_tools_and_answers(
    library: str, relay: Watched, site: Site, open_page: Opener, tools: Tools, bridge: Bridge
) -> None:
    words = {"library": LIBRARIES[library], "embed": "", "port": relay.port}
    url = site.page("shop.html", **words)
    open_page(url)
    eventually(lambda: sorted(tools) == TOOLS)
    (tab,) = tabs_of(bridge)
    assert (tab.title, tab.url) == ("Shop", url)
    assert tab.namespaces == (f"http://127.0.0.1:{site.port}",)
    schema = tools["text"].input_schema
    assert schema is not None
    assert schema["properties"] == {"title": {"type": "string"}}
    assert {name: outcome(tools, name) for name in WRAPPED} == ANSWERS[library]


@pytest.fixture
def shop(relay: Watched, site: Site) -> str:
    """Address of a page with tools."""
    return site.page("shop.html", library=LIBRARIES["global 4"], embed="", port=relay.port)


def test_a_duplicated_tab_is_another_tab(
    shop: str, open_page: Opener, tools: Tools, bridge: Bridge, loop: Loop
) -> None:
    first = open_page(shop)
    eventually(lambda: sorted(tools) == TOOLS)
    loop.run(first.evaluate("window.open(location.href).name"))
    eventually(lambda: len(tabs_of(bridge)) == 2 and all(t.tools for t in tabs_of(bridge)))
    ids = [tab.id for tab in tabs_of(bridge)]
    assert len(set(ids)) == 2
    for tab in ids:
        assert tools.on(tab).object(title="milk").result().structured == {"got": "milk"}


def test_a_page_that_is_closed_during_a_call_fails_it_at_once(
    shop: str, open_page: Opener, tools: Tools, loop: Loop
) -> None:
    page = open_page(shop)
    eventually(lambda: sorted(tools) == TOOLS)
    call = tools.waits()
    loop.run(page.until("window.isWaiting"))
    loop.run(page.close())
    assert eventually(call.done) < 2
    with pytest.raises(PageGoneError) as raised:
        call.result()
    assert raised.value.sent is True


def test_a_reloaded_page_is_the_same_tab(
    shop: str, open_page: Opener, tools: Tools, bridge: Bridge, loop: Loop
) -> None:
    page = open_page(shop)
    eventually(lambda: sorted(tools) == TOOLS)
    (before,) = tabs_of(bridge)
    loop.run(page.send("Page.reload"))
    eventually(lambda: tabs_of(bridge)[0].client_ids not in ((), before.client_ids))
    eventually(lambda: sorted(tools) == TOOLS)
    (after,) = tabs_of(bridge)
    assert after.id == before.id


def test_an_embed_finds_the_bridge_again_after_a_restart(
    shop: str, relay: Watched, open_page: Opener, tools: Tools, bridge: Bridge
) -> None:
    open_page(shop)
    eventually(lambda: sorted(tools) == TOOLS)
    asyncio.run_coroutine_threadsafe(relay.close(), bridge.host.loop).result(10)
    eventually(lambda: not list(tools))
    with serving(bridge, Watched(port=relay.port)):
        eventually(lambda: sorted(tools) == TOOLS)
        assert tools.text().result().text == "just text"


def test_a_page_without_tools_is_listed_all_the_same(
    relay: Watched, site: Site, open_page: Opener, bridge: Bridge
) -> None:
    open_page(site.page("bare.html", port=relay.port))
    eventually(lambda: [tab.title for tab in tabs_of(bridge)] == ["Bare"])


def test_an_embed_of_another_origin_is_marked(
    relay: Watched, site: Site, open_page: Opener, tools: Tools, bridge: Bridge
) -> None:
    embed = f"http://localhost:{site.port}"
    words = {"library": LIBRARIES["global 4"], "embed": embed, "port": relay.port}
    open_page(site.page("shop.html", **words))
    eventually(lambda: sorted(tools) == TOOLS)
    (tab,) = tabs_of(bridge)
    assert tab.title == "Shop (origin unverified)"
    assert tab.namespaces == (f"http://127.0.0.1:{site.port}",)


@pytest.mark.parametrize("embed", ["", "http://shop.example"])
def test_a_page_of_another_machine_is_not_let_in(
    embed: str, relay: Watched, site: Site, open_page: Opener, bridge: Bridge
) -> None:
    theirs = f"http://shop.example:{site.port}"
    words = {
        "library": LIBRARIES["global 4"],
        "embed": embed and theirs,
        "port": relay.port,
    }
    open_page(site.page("shop.html", "127.0.0.1" if embed else "shop.example", **words))
    # It tries again and again.
    eventually(lambda: relay.ends[:2] == [(theirs, 1008)] * 2)
    assert tabs_of(bridge) == []


# ---- the published relay as a client


class Mcp:
    """An MCP client that has started the published relay."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._number = 0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.ask("initialize", **about, clientInfo={"name": "test", "version": "1"})
        self._write({"method": "notifications/initialized"})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                return answer["result"]
        raise AssertionError("the relay has ended")

    def tools(self) -> dict[str, Any]:
        return {tool["name"]: tool for tool in self.ask("tools/list")["tools"]}

    def call(self, name: str, **args: Any) -> Any:
        return self.ask("tools/call", name=name, arguments=args)


@contextmanager
def published_relay(port: int, home: Path) -> Iterator[subprocess.Popen[str]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("the published relay needs node")
    process = subprocess.Popen(
        [node, str(RELAY / "cli.js"), "--port", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "HOME": str(home)},  # where it remembers its port
    )
    with process:
        yield process
        process.terminate()


def test_the_published_relay_joins_and_shows_our_tools(bridge: Bridge, tmp_path: Path) -> None:
    def fail(args: dict[str, Any]) -> None:
        raise ValueError("too hot")

    handlers = {"cart.add": lambda args: {"got": args}, "fail": fail}
    relays = RelayPeers(bridge.directory)
    with (
        serving(bridge, Watched(relays)) as transport,
        published_relay(transport.port, tmp_path) as process,
    ):
        mcp = Mcp(process)
        page = HostedPage(bridge, handlers)
        page.hello("tab-1", title="Shop")
        odd = {"name": "odd", "inputSchema": {"properties": {"x": True}}}
        page.register("shop", "cart.add", "fail", odd)
        eventually(lambda: {"cart_add", "fail", "odd"} <= set(mcp.tools()))
        assert "Does cart.add" in mcp.tools()["cart_add"]["description"]
        assert "Shop" in mcp.tools()["cart_add"]["description"]
        assert mcp.call("cart_add", n=1)["structuredContent"] == {"got": {"n": 1}}
        failed = mcp.call("fail")
        assert failed["isError"] is True
        assert "too hot" in failed["content"][0]["text"]
        listed = mcp.call("webmcp_list_sources")["structuredContent"]
        assert [source["tabId"] for source in listed["sources"]] == ["tab-1"]

        other = HostedPage(bridge, {"fail": lambda args: "other"})
        other.hello("other-tab", doc="doc-2")
        other.register("shop", "fail")
        eventually(lambda: {"fail_tab_", "fail_othe"} <= set(mcp.tools()))
        assert mcp.call("fail_othe")["content"][0]["text"] == "other"
        page.disconnect()
        other.disconnect()
        eventually(lambda: not {"cart_add", "fail_othe"} & set(mcp.tools()))


def test_the_published_relay_is_not_let_in_unless_asked_for(relay: Watched, tmp_path: Path) -> None:
    with published_relay(relay.port, tmp_path) as process:
        _, complaints = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "in use by a non-WebMCP service" in complaints
