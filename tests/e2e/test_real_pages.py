"""Whole pages in the style of real sites, opened as they are, in each way a page gets in.

Each lists its tools within a second of its load, answers a harmless call, and sees nothing of us.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pagetools_ipy import PageToolError, ToolResult, Tools
from pagetools_ipy.bridge import Bridge

from ..cdp import Chromium, Page, chromium
from .conftest import Site, eventually

if TYPE_CHECKING:
    from .desktop import Loop

pytest_plugins = ["tests.e2e.desktop"]
pytestmark = pytest.mark.browser

PAGES = Path(__file__).parent / "real"
LOADED = "document.readyState === 'complete' && typeof seen === 'object'"
WITHIN = 1.0
"""Seconds from a page's load to its tools; the machine's own time comes on top of it."""
SLACK = 1.5

Call = tuple[str, dict[str, Any], object]


class Real(NamedTuple):
    """What is expected of a page.

    Attributes:
        tools: Names of its tools.
        calls: Of some of them: name, arguments, and what they end with.
        ways: How it gets in.
        step: What a person does there, as JavaScript.
    """

    tools: list[str]
    calls: list[Call]
    ways: tuple[str, ...] = ("script", "import", "attached before", "attached after")
    step: str = ""


FIRST = ("script", "attached before")
ATTACHED = ("attached before", "attached after")
ORDER = {"id": "7", "name": "Sencha", "args": ["é"], "timeout": 3, "type": "", "format": "abc"}
REAL = {
    "shop": Real(
        ["shop.cart.add", "shop-total", "sum"],
        [
            ("shop.cart.add", ORDER, {"count": 1, "order": ORDER}),
            ("shop-total", {}, {"ok": False, "error": "panier fermé"}),
            ("sum", {}, 1),
        ],
    ),
    "validators": Real(
        ["validator", "shape", "inside", "empty", "missing", "banana"],
        [(name, {"city": "Rome"}, "sun in Rome") for name in ("validator", "shape", "missing")],
    ),
    "legacy": Real(
        ["notes/open", "notes_save"],
        [
            ("notes/open", {"name": "é"}, "opened é"),
            ("notes_save", {"name": "b"}, "text: saved b"),
        ],
        ways=FIRST,
    ),
    "shim": Real(
        ["player/play song", "player/stop"],
        [
            ("player/play song", {"title": "Ode"}, "text: playing Ode"),
            ("player/stop", {}, "error: nothing plays"),
        ],
    ),
    "assistant": Real(
        ["abfahrten"],
        [("abfahrten", {"bahnhof": "Köln"}, [{"von": "Köln", "nach": "München", "gleis": 7}])],
    ),
    "strict": Real(["balance"], [("balance", {}, 'text: {"EUR": 12.5}')], ways=ATTACHED),
    "hardened": Real(["sign"], [("sign", {"text": "a"}, {"signed": "a", "aborted": False})]),
    "flights": Real(
        ["search.flights"],
        [
            (
                "search.flights",
                {"day": "2030-01-31"},
                {"from": "BER", "to": "OSL", "day": "2030-01-31"},
            )
        ],
    ),
    "game": Real(
        ["move", "give_up"],
        [("move", {"to": "e4"}, "moved to e4"), ("give_up", {}, "the game is over")],
        step="document.querySelector('button').click()",
    ),
    "names": Real(
        ["calendar.add"],
        [("calendar.add", {"day": 1, "title": "tea"}, {"day": 1, "title": "tea"})],
    ),
    "catalogue": Real(
        [f"shelf_{shelf}" for shelf in range(60)],
        [("shelf_59", {"größe": "XL"}, {"shelf": 59, "größe": "XL"})],
    ),
    "preview": Real(["render"], [("render", {"text": "# tea"}, "<h1>tea</h1>")]),
    "rewritten": Real(["app.version"], [("app.version", {}, "v2")]),
}
ROWS = [
    pytest.param(name, way, id=f"{name}, {way}") for name, real in REAL.items() for way in real.ways
]


@pytest.fixture(scope="module")
def browser(loop: Loop) -> Iterator[Chromium]:
    launched = chromium("--enable-features=WebMCPTesting")
    yield loop.run(launched.__aenter__())
    loop.run(launched.__aexit__(None, None, None))


@pytest.fixture
def attach(loop: Loop, browser: Chromium, bridge: Bridge) -> Callable[[], None]:
    def attach() -> None:
        loop.run(bridge.host.relay(bridge.browsers.attach(browser.address)))

    return attach


Opener = Callable[..., Page]


@pytest.fixture
def open_real(loop: Loop, browser: Chromium, site: Site) -> Iterator[Opener]:
    """Open one of the pages, with a text in front of all that it has."""
    opened: list[Page] = []

    def open_real(name: str, before: str = "") -> Page:
        text = (PAGES / f"{name}.html").read_text("utf-8")
        (site.folder / f"{name}.html").write_text(
            text.replace("<head>", f"<head>{before}", 1), "utf-8"
        )
        page: Page = loop.run(browser.open(f"{site.url}/{name}.html"))
        opened.append(page)
        loop.run(page.until(LOADED))
        return page

    yield open_real
    for page in opened:
        loop.run(page.close())


def outcome(call: Callable[[], object]) -> object:
    try:
        value = call()
    except PageToolError as error:
        text = error.data.text if isinstance(error.data, ToolResult) else error.page_message
        return f"error: {text}"
    if isinstance(value, ToolResult):
        return value.structured if value.structured is not None else f"text: {value.text}"
    return value


@pytest.mark.parametrize(("name", "way"), ROWS)
def test_a_page_is_usable_as_it_is(
    name: str,
    way: str,
    loop: Loop,
    bridge: Bridge,
    tools: Tools,
    open_real: Opener,
    attach: Callable[[], None],
) -> None:
    real = REAL[name]
    script = f"{bridge.url}/pagetools.js"
    if way == "attached before":
        attach()
    page = open_real(
        name, f'<script type="module" src="{script}"></script>' if way == "script" else ""
    )
    loaded = time.monotonic()
    if way == "attached after":
        attach()
    if way == "import":
        loop.run(page.evaluate(f"import('{script}').then(() => true)"))
    if real.step:
        loop.run(page.evaluate(f"{real.step}; true"))
    eventually(lambda: sorted(tools) == sorted(real.tools), 5)
    assert time.monotonic() - loaded < WITHIN + SLACK
    found = [outcome(tools[tool](**args).result) for tool, args, _ in real.calls]
    assert found == [expected for _, _, expected in real.calls]


@pytest.mark.parametrize("name", [name for name, real in REAL.items() if name != "legacy"])
def test_a_page_sees_nothing_of_us(
    name: str, loop: Loop, open_real: Opener, attach: Callable[[], None]
) -> None:
    alone = loop.run(open_real(name).evaluate("seen"))
    attach()
    assert loop.run(open_real(name).evaluate("seen")) == alone


def test_a_page_is_told_of_calls_as_by_the_browser(
    loop: Loop, tools: Tools, open_real: Opener, attach: Callable[[], None]
) -> None:
    attach()
    page = open_real("game")
    loop.run(page.evaluate("begin()"))
    eventually(lambda: "move" in tools)
    assert tools.move(to="e4").result() == "moved to e4"
    assert loop.run(page.evaluate("document.title")) == "agent: move"
    assert tools["give_up"]().result() == "the game is over"
    eventually(lambda: list(tools) == [])
