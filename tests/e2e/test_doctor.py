"""The doctor against real browsers: what keeps pages away, from within and from the notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from threading import Thread
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from pagetools_ipy import bridge as bridges
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.host import ThreadHost

from ..browser import LAUNCH_ARGS, find_browser
from ..conftest import Notebook
from .conftest import Opener, eventually

pytestmark = pytest.mark.browser

HOST = "app.example"
"""A name that the browsers of these tests find here and take for one of the internet."""

EXAMINATION = (resources.files("pagetools_ipy") / "static" / "examination.js").read_text("utf-8")


class _Handler(BaseHTTPRequestHandler):
    """Answers with the HTML and the headers that the query gives."""

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        html = query.pop("html", "")
        self.send_response(200)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **query}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>Page</title>{html}".encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Where pages are."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    """The process's bridge, which is the one that a notebook asks."""
    bridges.stop()
    yield bridges.start(ThreadHost(), port=0)
    bridges.stop()


Starter = Callable[..., Page]


@pytest.fixture
def start(browser: Browser) -> Iterator[Starter]:
    """Opens an empty tab in a browser that is started with some switches."""
    started: list[Browser] = []

    def start_browser(*switches: str) -> Page:
        launched = browser.browser_type.launch(
            executable_path=find_browser(), args=[*LAUNCH_ARGS, *switches]
        )
        started.append(launched)
        return launched.new_page()

    yield start_browser
    for launched in started:
        launched.close()


def address(port: int, host: str = "localhost", **given: str) -> str:
    return f"http://{host}:{port}/?{urlencode(given)}"


def console(page: Page, bridge: Bridge) -> str:
    """What a page's console shows of the doctor that the page loads."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.evaluate(f"import('{bridge.url}/doctor.js?' + Math.random()).then(() => true)")
    return "\n".join(line for line in said if line.startswith("pagetools: "))


def examined(page: Page, bridge: Bridge) -> str:
    """What is found in a page that may not load the doctor."""
    script = EXAMINATION.replace("\nexport ", "\n")
    found = page.evaluate(
        f"(async () => {{ {script}; return examine(window, '{bridge.url}'); }})()"
    )
    return "\n".join(f"{f['standing']}: {f['what']} {f['next']}" for f in found)


def doctor(notebook: Notebook, line: str = "") -> str:
    output = notebook.run(f"%pagetools doctor {line}")
    assert output.error is None, output.text
    text: str = output.displays[0]["text/plain"]
    return text


# From within the page


def test_a_page_of_this_machine_is_let_in_and_misses_the_client(
    bridge: Bridge, open_page: Opener, port: int
) -> None:
    text = console(open_page(address(port)), bridge)
    host = f"127.0.0.1:{bridge.port}"
    assert f"✓ The bridge on {host} answers and lets this page in." in text
    assert "Our client is not on this page." in text
    assert "no place where pages declare tools" in text
    assert bridge.host.run(bridge.directory.tabs) == []


def test_a_page_that_is_connected_is_fine(bridge: Bridge, open_page: Opener, port: int) -> None:
    page = open_page(address(port))
    page.evaluate(f"import('{bridge.url}/pagetools.js').then(() => true)")
    page.evaluate("void pagetools.register('shop', [{name: 'buy', execute: () => 1}])")
    eventually(lambda: page.evaluate("pagetools.status().state === 'open'"))
    text = console(page, bridge)
    assert f"✓ This page is connected to the bridge on 127.0.0.1:{bridge.port}." in text
    assert "✓ It declares tools of shop." in text
    assert "✗" not in text


def test_a_page_whose_policy_keeps_it_away_is_told_what_to_add(
    bridge: Bridge, open_page: Opener, port: int, notebook: Notebook
) -> None:
    policy = {"Content-Security-Policy": "connect-src 'self'"}
    page = open_page(address(port, **policy))
    text = console(page, bridge)
    assert "✗ This page's Content-Security-Policy keeps it from" in text
    assert f"Add ws://127.0.0.1:{bridge.port} and {bridge.url} to its connect-src" in text
    text = doctor(notebook, page.url)
    assert "does not let it connect to this bridge: connect-src 'self'." in text
    mended = f"connect-src ws://127.0.0.1:{bridge.port} {bridge.url}"
    page.goto(address(port, **{"Content-Security-Policy": mended}))
    assert "lets this page in" in console(page, bridge)
    assert "Its Content-Security-Policy" not in doctor(notebook, page.url)


def test_a_bridge_that_is_gone_is_told(bridge: Bridge, open_page: Opener, port: int) -> None:
    page = open_page(address(port))
    url = bridge.url
    bridge.stop()
    assert f"problem: No bridge answers on {url[7:]}" in examined(page, bridge)


def test_a_wrong_token_is_told_on_both_sides(
    bridge: Bridge, open_page: Opener, port: int, notebook: Notebook
) -> None:
    page = open_page(address(port))
    page.evaluate(f"import('{bridge.url}/pagetools.js').then(() => true)")
    page.evaluate("pagetools.connect({token: 'wrong'})")
    eventually(lambda: page.evaluate("pagetools.status().state === 'closed'"))
    text = console(page, bridge)
    assert "✗ The client on this page is not connected: the bridge closed the connection: " in text
    assert "4401" in text
    assert f"✗ http://localhost:{port} was refused 1 time" in doctor(notebook)


# Pages from elsewhere


def elsewhere(bridge: Bridge, port: int) -> list[str]:
    """Switches with which `HOST` is the pages' server, and is on the internet."""
    return [
        f"--host-resolver-rules=MAP {HOST} 127.0.0.1",
        f"--ip-address-space-overrides=127.0.0.1:{port}=public,127.0.0.1:{bridge.port}=loopback",
    ]


def test_a_public_page_needs_the_browsers_leave_and_then_the_token(
    bridge: Bridge, start: Starter, port: int, notebook: Notebook
) -> None:
    origin = f"http://{HOST}:{port}"
    page = start(*elsewhere(bridge, port), f"--unsafely-treat-insecure-origin-as-secure={origin}")
    page.goto(address(port, HOST))
    text = examined(page, bridge)
    assert "leave to let this page reach" in text or "may not reach apps on this device" in text
    assert "was refused" not in doctor(notebook)
    page.context.grant_permissions(["local-network-access"])
    text = examined(page, bridge)
    assert f"problem: The bridge on 127.0.0.1:{bridge.port} does not let this page in" in text
    assert "(4403)" in text
    assert f"✗ {origin} was refused 1 time" in doctor(notebook)


def test_an_insecure_page_is_told_that_it_is_one(bridge: Bridge, start: Starter, port: int) -> None:
    page = start(*elsewhere(bridge, port))
    page.goto(address(port, HOST))
    text = examined(page, bridge)
    assert f"problem: http://{HOST}:{port} is not a secure context, and browsers keep" in text
    assert "so it has no WebMCP of the browser" in text


# The browser


def test_the_browsers_own_webmcp_is_told_off_or_on(
    bridge: Bridge, open_page: Opener, start: Starter, port: int
) -> None:
    off = console(open_page(address(port)), bridge)
    assert "own WebMCP is off" in off
    page = start("--enable-features=WebMCPTesting")
    tool = "document.modelContext.registerTool({name: 'buy', description: 'x', execute: () => 1})"
    page.goto(address(port, html=f"<script>{tool}</script>"))
    on = console(page, bridge)
    assert "has its own WebMCP, and it is on." in on
    assert "✓ It declares the tools buy." in on
    page.goto(address(port, **{"Permissions-Policy": "tools=()"}))
    assert "✗ Its tools cannot be listed" in console(page, bridge)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_bridges_own_page_shows_what_it_finds_and_how_to_examine_others(
    bridge: Bridge, browser: Browser, port: int, scheme: str
) -> None:
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    page.goto(f"{bridge.url}/doctor")
    page.locator("#findings .ok", has_text="answers and lets this page in").wait_for()
    assert page.locator("#findings .problem").count() == 0
    page.locator("#again").click()
    page.locator("#again:enabled").wait_for()
    assert page.locator("#findings .ok").count() >= 1
    assert bridge.host.run(bridge.directory.tabs) == []
    line = page.locator("#line").inner_text()
    bookmark = page.locator("#bookmark").get_attribute("href")
    assert bookmark is not None
    assert faults == []
    other = context.new_page()
    other.goto(address(port))
    for way in (f"(async () => {{ {line} }})()", bookmark.removeprefix("javascript:")):
        with other.expect_console_message(lambda said: "lets this page in" in said.text):
            other.evaluate(way)
    context.close()


def test_the_bridges_own_page_says_that_the_bridge_has_stopped(
    bridge: Bridge, open_page: Opener
) -> None:
    page = open_page(f"{bridge.url}/doctor")
    page.locator("#findings .ok").first.wait_for()
    bridge.stop()
    page.locator("#again").click()
    page.locator("#findings .problem", has_text="No bridge answers").wait_for()


def test_a_page_in_a_browser_that_is_attached_to_is_examined_from_the_notebook(
    bridge: Bridge, port: int, notebook: Notebook
) -> None:
    url = address(port, html="<p>nothing", **{"Content-Security-Policy": "default-src 'none'"})
    assert notebook.run(f"%pagetools open {url} --headless").error is None
    text = doctor(notebook, f"http://localhost:{port}")
    assert '"Page" is connected and declares no tools' in text
    assert "own WebMCP, and it is on." in text
    assert "• It has document.modelContext" in text
    assert "✓ Attached to Chrome" in doctor(notebook)
