"""Pages that were not written for us: what every runtime makes of every kind of answer.

The libraries come from npm, unchanged; where they are not installed, their rows are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from pagetools_ipy import CallCancelledError, PageToolError, ToolResult, Tools
from pagetools_ipy.bridge import Bridge

from ..cdp import Chromium, Page, chromium
from .conftest import eventually

if TYPE_CHECKING:
    from .desktop import Loop

pytest_plugins = ["tests.e2e.desktop"]
pytestmark = pytest.mark.browser

PAGES = Path(__file__).parent / "surfaces"
NPM = Path(__file__).parents[1] / "npm" / "node_modules"
LIBRARIES = {
    "polyfill 5": "@mcp-b/webmcp-polyfill/dist/index.iife.js",
    "global 5": "@mcp-b/global/dist/index.iife.js",
    "global 4": "global-4/dist/index.iife.js",
    "global 2": "global-2/dist/index.iife.js",
}
TYPES = {".html": "text/html", ".js": "text/javascript"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        is_page = not parts.path.startswith("/npm/")
        file = PAGES / parts.path[1:] if is_page else NPM / parts.path.removeprefix("/npm/")
        if file.suffix not in TYPES or not file.is_file():
            self.send_error(404)
            return
        text = file.read_text("utf-8")
        if file.suffix == ".html":
            text = Template(text).safe_substitute(dict(parse_qsl(parts.query)))
        self.send_response(200)
        self.send_header("Content-Type", f"{TYPES[file.suffix]}; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Where the pages are."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def native(loop: Loop) -> Iterator[Chromium]:
    """A browser with WebMCP."""
    launched = chromium("--enable-features=WebMCPTesting")
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def plain(loop: Loop) -> Iterator[Chromium]:
    """A browser without."""
    launched = chromium()
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


class Opened:
    """A page with our script, and what can be done with it from here."""

    def __init__(self, loop: Loop, page: Page, tools: Tools) -> None:
        self._loop = loop
        self._page = page
        self.tools = tools

    def evaluate(self, expression: str) -> Any:
        return self._loop.run(self._page.evaluate(expression))

    def until(self, expression: str) -> Any:
        return self._loop.run(self._page.until(expression))

    def close(self) -> None:
        self._loop.run(self._page.close())

    def listed(self, *names: str) -> None:
        """Wait until these tools can be called, and no others."""
        eventually(lambda: sorted(self.tools) == sorted(names))


Opener = Callable[..., Opened]


@pytest.fixture
def open_in(loop: Loop, port: int, bridge: Bridge) -> Iterator[Opener]:
    """Open a page in a browser, with our script in front of its own, or after everything."""
    opened: list[Opened] = []
    script = f"{bridge.url}/pagetools.js"
    loaded = "location.protocol === 'http:' && document.readyState === 'complete'"

    def open_page(browser: Chromium, file: str, *, first: bool = True, **words: str) -> Opened:
        origin = f"http://127.0.0.1:{port}"
        tag = f'<script type="module" src="{script}"></script>' if first else ""
        query = {"before": tag, "origin": origin, "other": f"http://localhost:{port}", **words}
        page = Opened(
            loop,
            loop.run(browser.open(f"{origin}/{file}?{urlencode(query)}")),
            Tools(lambda: bridge),
        )
        opened.append(page)
        page.until(loaded)
        if not first:
            page.evaluate(f"import('{script}').then(() => true)")
        return page

    yield open_page
    for page in opened:
        page.close()


# ---- runtimes, kinds of results, kinds of errors

EXACT = {
    "text": "just text",
    "digits": "42",
    "object": {"a": 1, "é": "café"},
    "array": [1, 2],
    "number": 3,
    "content": ("hi", {"n": 1}),
    "nothing": None,
    "null": None,
    "big": {"text": "é漢" * 50_000},
    "latin": {"text": "é" * 1000},
    "arguments": {"x": "é漢"},
    "isError": "error: bad",
    "error": "RangeError: too far",
    "thrownText": "Error: plain words",
    "rejected": "Error: undefined",
    "waits": "cancelled, and the page knows",
}
"""What each tool of ``tools.js`` gives when nothing is lost."""
UNTOLD = {"waits": "cancelled"}
"""Where what is in front of the tool hands no signal on."""
FROM_TEXT = {"digits": 42}
"""Where results come as text: text that reads like a number becomes one."""
HIDDEN = "UnknownError: the tool failed, and the browser hides the page's error"
LATE = {**FROM_TEXT, "error": HIDDEN, "thrownText": HIDDEN, "rejected": HIDDEN}
"""Where only the browser has the functions."""
LATE_POLYFILL = {**LATE, **UNTOLD, "error": "UnknownError: too far"}


@dataclass(frozen=True)
class Runtime:
    """Where a page's tools are, and what is lost of their answers on the way."""

    place: str
    library: str = ""
    browsers: tuple[str, ...] = ("native", "plain")
    first: bool = True
    lost: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.place, self.library, "" if self.first else "late")))


RUNTIMES = [
    Runtime("document"),
    Runtime("document", browsers=("native",), first=False, lost=LATE),
    Runtime("navigator"),
    Runtime("provide"),
    Runtime("three"),
    Runtime("document", "polyfill 5"),
    Runtime("document", "polyfill 5", ("native",), first=False, lost=LATE),
    Runtime("document", "polyfill 5", ("plain",), first=False, lost=LATE_POLYFILL),
    Runtime("document", "global 5", lost=UNTOLD),
    Runtime("document", "global 5", ("native",), first=False, lost=LATE | UNTOLD),
    Runtime("document", "global 5", ("plain",), first=False, lost=LATE_POLYFILL),
    Runtime("document", "global 4"),
    Runtime("document", "global 4", ("native",), first=False, lost=LATE),
    Runtime("document", "global 4", ("plain",), first=False, lost=UNTOLD),
    Runtime("navigator", "global 2"),
    Runtime("navigator", "global 2", first=False, lost=FROM_TEXT | UNTOLD),
    Runtime("page", lost=UNTOLD),
    Runtime("page", first=False, lost=UNTOLD),
    Runtime("testing", first=False, lost=UNTOLD),
    Runtime("agent", first=False, lost=UNTOLD),
    Runtime("aiui", first=False, lost=UNTOLD),
]
ROWS = [
    pytest.param(runtime, browser, id=f"{runtime} in {browser}")
    for runtime in RUNTIMES
    for browser in runtime.browsers
]


def outcome(page: Opened, name: str) -> object:
    """What a call of a tool ends with; of content blocks, the text and what is structured."""
    try:
        value = page.tools[name](x="é漢").result()
    except PageToolError as error:
        if isinstance(error.data, ToolResult):
            return f"error: {error.data.text}"
        # What follows is the way to see what is hidden.
        return f"{error.name}: {error.page_message}".split(";")[0]
    return (value.text, value.structured) if isinstance(value, ToolResult) else value


def cancelled(page: Opened) -> str:
    call = page.tools.waits()
    call.cancel()
    with pytest.raises(CallCancelledError):
        call.result()
    knows = page.evaluate("new Promise((done) => setTimeout(() => done(window.sawAbort), 50))")
    return "cancelled, and the page knows" if knows else "cancelled"


@pytest.mark.parametrize(("runtime", "browser"), ROWS)
def test_every_runtime_gives_every_kind_of_answer(
    runtime: Runtime, browser: str, open_in: Opener, request: pytest.FixtureRequest
) -> None:
    library = ""
    if runtime.library:
        if not (NPM / LIBRARIES[runtime.library]).is_file():
            pytest.skip(f"{runtime.library} is not installed: npm ci --prefix tests/npm")
        library = f'<script src="/npm/{LIBRARIES[runtime.library]}" defer></script>'
    page = open_in(
        request.getfixturevalue(browser),
        "table.html",
        first=runtime.first,
        library=library,
        place=runtime.place,
    )
    page.listed(*EXACT)
    schema = page.tools.text.input_schema
    assert schema is not None
    assert schema["properties"]["x"]["description"] == "é漢"
    found = {name: outcome(page, name) for name in EXACT if name != "waits"}
    found["waits"] = cancelled(page)
    assert found == {**EXACT, **runtime.lost}


# ---- pages as sites write them


def test_the_tools_of_a_route_come_and_go_with_it(native: Chromium, open_in: Opener) -> None:
    page = open_in(native, "spa.html")
    page.listed("shop.search", "shop.open")
    assert page.tools["shop.search"](q="tea").result() == "found tea"
    assert page.tools["shop.open"]().result() == "opened"
    page.listed("shop.buy", "shop.close")
    # It withdraws itself while it runs.
    assert page.tools["shop.close"]().result() == "closed"
    page.listed("shop.search", "shop.open")


def test_tools_that_come_late_are_listed(native: Chromium, open_in: Opener) -> None:
    page = open_in(native, "late.html")
    page.listed()
    eventually(lambda: "late" in page.tools, 10)
    assert page.tools.late().result() == "at last"


def test_a_tool_that_is_replaced_again_and_again_is_one_tool(
    native: Chromium, open_in: Opener
) -> None:
    page = open_in(native, "hmr.html")
    page.listed("count")
    assert page.tools["count"]().result() == 2
    for version in range(3, 8):
        assert page.evaluate("replaced()") == version
        eventually(lambda expected=version: page.tools["count"]().result() == expected)
    page.listed("count")


@pytest.mark.parametrize("first", [True, False])
def test_tools_of_frames_are_listed_under_their_origins(
    first: bool, native: Chromium, open_in: Opener, port: int
) -> None:
    page = open_in(native, "frames.html", first=first)
    page.listed("both", "inner", "shared")
    own, other = (page.tools.on(ns=f"http://{host}:{port}") for host in ("127.0.0.1", "localhost"))
    assert own["both"]().result() == "outer"
    assert own["inner"]().result() == "inner inner"
    # That frame shows all of its tools; the third one shows none.
    assert sorted(other) == ["both", "shared"]
    assert other["shared"]().result() == "inner shared"
    page.evaluate("document.querySelector('iframe').remove()")
    page.listed("both", "shared")


def test_a_loop_of_registrations_leaves_the_tool_in_place(
    native: Chromium, open_in: Opener
) -> None:
    page = open_in(native, "churn.html")
    page.until("window.rounds > 500")
    assert "churning" in page.tools
    assert page.tools.churning().result() == "still here"


# ---- forms

BROWSERS = pytest.mark.parametrize("browser", ["native", "plain"])


@pytest.fixture
def forms(browser: str, open_in: Opener, request: pytest.FixtureRequest) -> Opened:
    """Forms as tools, in a browser that knows them and in one that does not."""
    page = open_in(request.getfixturevalue(browser), "forms.html")
    page.listed("find", "book", "go")
    return page


@BROWSERS
def test_a_form_declares_its_fields(forms: Opened) -> None:
    schema = forms.tools.find.input_schema
    assert schema is not None
    properties = schema["properties"]
    assert {name: part["type"] for name, part in properties.items()} == {
        "where": "string",
        "size": "string",
        "nights": "number",
        "quiet": "boolean",
    }
    assert schema["required"] == ["where"]
    assert properties["size"]["enum"] == ["s", "l"]
    assert (properties["nights"]["minimum"], properties["nights"]["maximum"]) == (1, 9)
    assert properties["nights"]["description"] == "how many nights"
    assert properties["where"]["description"] == "Where"


@BROWSERS
def test_a_form_that_sends_itself_answers_as_the_page_says(forms: Opened) -> None:
    given = forms.tools.find(where="sea", size="l", nights=2, quiet=True).result()
    assert given == {"where": "sea", "size": "l", "nights": "2", "quiet": "on"}
    with pytest.raises(PageToolError, match="Form validation failed: where"):
        forms.tools.find(where="").result()


@BROWSERS
def test_a_form_waits_for_the_person_and_leaving_the_page_answers_it(forms: Opened) -> None:
    call = forms.tools.book(room="7")
    forms.until("document.forms.book.elements.room.value === '7'")
    assert not call.done()
    forms.evaluate("document.getElementById('send').click()")
    assert call.result() is None
    forms.until("document.title === 'Left'")


@BROWSERS
def test_a_form_that_sends_itself_away_is_answered(forms: Opened) -> None:
    assert forms.tools.go(q="x").result() is None


@BROWSERS
def test_a_form_that_is_reset_or_cancelled_ends_its_call(forms: Opened) -> None:
    call = forms.tools.book(room="7")
    forms.until("document.forms.book.elements.room.value === '7'")
    forms.evaluate("document.forms.book.reset()")
    with pytest.raises(PageToolError, match="cancelled by a form reset"):
        call.result()
    call = forms.tools.book(room="8")
    forms.until("document.forms.book.elements.room.value === '8'")
    call.cancel()
    with pytest.raises(CallCancelledError):
        call.result()


@BROWSERS
def test_a_form_that_comes_or_goes_is_followed(forms: Opened) -> None:
    forms.evaluate("document.forms.go.removeAttribute('toolname')")
    forms.listed("find", "book")
    forms.evaluate("document.forms.silent.setAttribute('tooldescription', 'Speaks now')")
    forms.listed("find", "book", "silent")
