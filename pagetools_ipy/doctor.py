"""``%pagetools doctor``: collects what is known of pages and browsers, and shows what it means.

Knows where the facts are. Does not know what they mean (`diagnosis`, and in pages
``examination.js``).
"""

from __future__ import annotations

import asyncio
import html
import http.client
import re
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlsplit

from .diagnosis import (
    Finding,
    is_secure,
    judge_bridge,
    judge_browser,
    judge_neighbours,
    judge_port,
    judge_refusals,
    judge_tab,
    judge_tabs,
    judge_visit,
)
from .errors import BridgeError, BrowserError
from .host import ThreadHost
from .request import Request, one_word, page_address, show, the_bridge
from .text import shorten
from .views import TabState, TabView

if TYPE_CHECKING:
    from .bridge import Bridge

NEIGHBOUR_SECONDS = 0.5
"""How long whoever has a port may take to say whether it is a bridge."""

MAX_TOLD = 30
"""How many findings are taken from a page."""

MAX_TEXT = 600
"""How much of a finding is shown."""

MARKS = {"ok": "✓", "note": "•", "problem": "✗"}
_WORDS = {"ok": "fine", "note": "note", "problem": "problem"}
_CODE = re.compile(r"`([^`]+)`")
_EXPORT = re.compile(r"^export (?=(async )?function\b)", re.MULTILINE)


def doctor(request: Request) -> None:
    """Say why a page or a browser is not there, and what to do about it."""
    word, _ = one_word(request.line, {})
    try:
        bridge = the_bridge()
    except BridgeError:
        bridge = None
    findings = _survey(bridge) if not word else _about(bridge, page_address(request, word))
    found = _wait(bridge, _listed(findings))
    show(findings_text(found), findings_html(found))


async def _listed(findings: AsyncIterator[Finding]) -> list[Finding]:
    return [finding async for finding in findings]


def _wait(bridge: Bridge | None, coroutine: Coroutine[Any, Any, list[Finding]]) -> list[Finding]:
    if bridge is not None:
        return bridge.host.block_on(coroutine)
    host = ThreadHost()
    try:
        return host.block_on(coroutine)
    finally:
        host.close()


# All there is


async def _survey(bridge: Bridge | None) -> AsyncIterator[Finding]:
    for finding in _of_bridge(bridge):
        yield finding
    async for finding in _of_neighbours(bridge):
        yield finding
    if bridge is None:
        return
    now = time.time()
    for finding in judge_tabs(bridge.directory.tabs(), now):
        yield finding
    for finding in judge_refusals(bridge.refusals, now):
        yield finding
    for finding in await _of_browsers(bridge):
        yield finding
    for finding in await _of_debugging_ports(bridge):
        yield finding


def _of_bridge(bridge: Bridge | None) -> Iterable[Finding]:
    if bridge is None:
        return judge_bridge("", "")
    is_kernels = bridge.host.name == "kernel"
    return judge_bridge(bridge.url, "in the kernel's loop" if is_kernels else "on its own thread")


async def _of_neighbours(bridge: Bridge | None) -> AsyncIterator[Finding]:
    from .transports import websocket

    usual = range(websocket.DEFAULT_PORT, websocket.DEFAULT_PORT + websocket.PORTS_TRIED)
    others = [port for port in usual if bridge is None or port != bridge.port]
    answers = await asyncio.gather(*(asyncio.to_thread(_is_bridge, port) for port in others))
    taken = {
        port: is_bridge
        for port, is_bridge in zip(others, answers, strict=True)
        if is_bridge is not None
    }
    for finding in judge_neighbours(taken, len(usual), is_running=bridge is not None):
        yield finding


def _is_bridge(port: int) -> bool | None:
    """Whether it is a bridge that has a port; None if nobody has it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=NEIGHBOUR_SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().read(100) == b"pagetools bridge\n"
    except ConnectionRefusedError:
        return None
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def _of_browsers(bridge: Bridge) -> list[Finding]:
    found: list[Finding] = []
    for browser in bridge.browsers.attached:
        tab_ids = await asyncio.to_thread(browser.tab_ids)
        frames = [frame for view in bridge.directory.glance(tab_ids) for frame in view.frames]
        # Other pages have no WebMCP of the browser, whether it is on or off.
        runtimes = {frame.webmcp for frame in frames if frame.webmcp and is_secure(frame.url)}
        label, product = browser.endpoint.label, browser.product
        found += judge_browser(label, product, browser.is_attached, runtimes)
    return found


async def _of_debugging_ports(bridge: Bridge) -> list[Finding]:
    from .arguments import quote_word
    from .endpoints import parse_endpoint

    attached = {(b.endpoint.host, b.endpoint.port) for b in bridge.browsers.attached}
    known = set(attached)
    found = []
    for endpoint in await asyncio.to_thread(parse_endpoint):
        place = (endpoint.host, endpoint.port)
        if place in known:
            continue
        known.add(place)
        try:
            await endpoint.resolve()
            problem = ""
        except BrowserError as failure:
            problem = str(failure)
        if problem and attached:
            continue  # where one is attached to, nobody misses another
        target = endpoint.port if endpoint.profile is None else quote_word(str(endpoint.profile))
        found.append(judge_port(endpoint.label, str(target), problem))
    return found


# One page


async def _about(bridge: Bridge | None, url: str) -> AsyncIterator[Finding]:
    if bridge is None:
        for finding in _of_bridge(None):
            yield finding
    views = [] if bridge is None else [v for v in bridge.directory.tabs() if _shows(v, url)]
    for view in views:
        yield judge_tab(view, time.time())
        if bridge is not None and view.state is TabState.CONNECTED:
            for finding in await _of_page(bridge, view):
                yield finding
    if any(view.state is not TabState.GONE for view in views):
        return
    if bridge is not None:
        yield Finding(
            "problem",
            f"No tab that is connected shows {shorten(url)}.",
            "Open it in a browser, unless it is; below is what its server's answer tells",
        )
    for finding in await _of_server(bridge, url):
        yield finding


def _shows(view: TabView, url: str) -> bool:
    return urlsplit(view.url)[:2] == urlsplit(url)[:2] and view.url.startswith(url)


async def _of_page(bridge: Bridge, view: TabView) -> list[Finding]:
    """What the page itself tells, where its browser lets us ask."""
    try:
        control = await asyncio.to_thread(bridge.browsers.control, view.id)
    except BrowserError:
        return []
    try:
        told = await control.probe(_examination())
    except BrowserError as problem:
        return [Finding("note", f"It cannot be examined: {problem}.")]
    return [_as_finding(item) for item in told[:MAX_TOLD]] if isinstance(told, list) else []


def _as_finding(told: object) -> Finding:
    """A finding that comes out of a page, where anything may come from."""
    said = told if isinstance(told, dict) else {}
    what, next = (shorten(str(said.get(key, "")), MAX_TEXT) for key in ("what", "next"))
    match said.get("standing"):
        case "ok":
            return Finding("ok", what, next)
        case "problem":
            return Finding("problem", what, next)
    return Finding("note", what, next)


@cache
def _examination() -> str:
    """The examination, as an expression."""
    text = (resources.files("pagetools_ipy") / "static" / "examination.js").read_text("utf-8")
    return f"(async () => {{\n{_EXPORT.sub('', text)}\nreturn examine(globalThis, null);\n}})()"


async def _of_server(bridge: Bridge | None, url: str) -> list[Finding]:
    from .transports.websocket import DEFAULT_PORT
    from .visits import VISIT_SECONDS, fetch

    if urlsplit(url).scheme not in ("http", "https"):
        return [
            Finding(
                "problem",
                f"{shorten(url)} is not served over http: or https:, so its page has no origin, "
                "and the bridge lets it in with the token only.",
                "Serve it from localhost, such as with `python -m http.server`",
            ),
            _past_all_this(url),
        ]
    try:
        visit = await asyncio.wait_for(asyncio.to_thread(fetch, url), VISIT_SECONDS + 1)
    except TimeoutError:
        return [_unreachable(url, f"no answer within {VISIT_SECONDS:g} s")]
    except URLError as problem:
        return [_unreachable(url, str(problem.reason))]
    except (OSError, ValueError) as problem:
        return [_unreachable(url, str(problem))]
    found = list(judge_visit(visit, url, DEFAULT_PORT if bridge is None else bridge.port))
    if bridge is not None:
        its = [r for r in bridge.refusals if r.origin == visit.origin]
        found += judge_refusals(its, time.time())
    return [*found, _past_all_this(url)]


def _past_all_this(url: str) -> Finding:
    return Finding(
        "note",
        "None of this keeps out a page in a browser that is attached to.",
        f"`%pagetools open {shorten(url, 200)}` opens it in one; for your own browser see "
        "`%pagetools attach`",
    )


def _unreachable(url: str, why: str) -> Finding:
    return Finding(
        "problem",
        f"{shorten(url)} cannot be reached from here: {shorten(why)}.",
        "Is the address right, and does its server run? A browser may still reach what is behind "
        "a proxy or has a certificate that only it trusts",
    )


# Showing


def findings_text(findings: Iterable[Finding]) -> str:
    """Findings as lines: what was found, and below it what to do."""
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.standing]} {shorten(finding.what, MAX_TEXT)}")
        if finding.next:
            lines.append(f"    {shorten(finding.next, MAX_TEXT)}")
    return "\n".join(lines)


def findings_html(findings: Iterable[Finding]) -> str:
    """Findings as an HTML table."""
    left = " style='text-align:left;vertical-align:top'"
    rows = "".join(
        f"<tr><td{left} title='{_WORDS[finding.standing]}'>{MARKS[finding.standing]}</td>"
        f"<td{left}>{_html(finding.what)}</td><td{left}>{_html(finding.next)}</td></tr>"
        for finding in findings
    )
    head = "".join(f"<th{left}>{name}</th>" for name in ("", "found", "what to do"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(shorten(text, MAX_TEXT)))
