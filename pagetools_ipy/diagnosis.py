"""Why a page or a browser is not there: facts in, findings in plain words out.

Knows what keeps pages and browsers away, and what a person can do about it. Does not know how
the facts are come by (`doctor`), nor how findings are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from .text import count, listing, shorten
from .transports.loopback import is_loopback_origin
from .transports.websocket import BAD_TOKEN
from .views import TabState, TabView
from .visits import Policy, Visit, allows, origin_of, policies

if TYPE_CHECKING:
    from .transports.loopback import Refusal

HELLO_SECONDS = 5.0
"""How long a connection may take to say which page it is."""

Standing = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        standing: How bad it is.
        what: What was found.
        next: What to do about it; may be empty.
    """

    standing: Standing
    what: str
    next: str = ""


Findings = Iterator[Finding]

# The bridge and its neighbours


def judge_bridge(url: str, place: str) -> Findings:
    """Where the bridge is; ``url`` is empty where none is running."""
    if url:
        yield Finding(
            "ok",
            f"The bridge runs at {url}, {place}.",
            f"{url}/doctor examines the browser in which it is opened",
        )
    else:
        yield Finding(
            "problem",
            "The bridge is not running, so no page can connect.",
            "`%pagetools start` starts it; pages that were connected come back by themselves",
        )


def judge_neighbours(neighbours: Mapping[int, bool], tried: int, *, is_running: bool) -> Findings:
    """Who else has the ports that bridges take.

    Args:
        neighbours: By port, whether it is another bridge that has it.
        tried: How many ports bridges try.
        is_running: Whether our bridge has a port.
    """
    for port, is_bridge in neighbours.items():
        if is_bridge:
            yield Finding(
                "note",
                f"Port {port} has the bridge of another notebook.",
                f"A page whose script comes from 127.0.0.1:{port} is connected there; to have it "
                "here load the script that `%pagetools snippet` shows",
            )
        elif not is_running:
            yield Finding(
                "note",
                f"Port {port} is taken by another program.",
                "`%pagetools start` takes the next one that is free",
            )
    if not is_running and len(neighbours) == tried:
        yield Finding(
            "problem",
            f"All {tried} ports that a bridge tries are taken.",
            "`%pagetools start --port N` takes another one",
        )


# Tabs


def judge_tabs(views: Sequence[TabView], now: float) -> Findings:
    """How every tab stands, at the time ``now``."""
    if not views:
        yield Finding(
            "note",
            "No page is connected.",
            "`%pagetools open URL` opens one in a browser, `%pagetools snippet` shows what connects"
            " one of yours, `%pagetools doctor URL` says why one is not there",
        )
    for view in views:
        yield judge_tab(view, now)


def judge_tab(view: TabView, now: float) -> Finding:
    """How a tab stands."""
    name = f'"{shorten(view.label, 60)}"'
    match view.state:
        case TabState.RELOADING:
            return Finding(
                "note",
                f"{name} has just left.",
                "If it reloads it is back in a moment: look again",
            )
        case TabState.GONE:
            return Finding(
                "note", f"{name} is gone: it was closed, or shows another page.", "Open it again"
            )
        case TabState.ASLEEP:
            why = view.blocked or "the browser has put its page aside"
            return _held("note", name, "asleep", why, "Look at the tab: that wakes it")
        case TabState.NOT_RESPONDING:
            why = view.blocked or "a dialog, the debugger or a long computation may hold its page"
            return _held(
                "problem",
                name,
                "not responding",
                why,
                "Look at the tab: close its dialog, resume its debugger, or reload it",
            )
    if _is_nameless(view):
        if now - view.connected_at < HELLO_SECONDS:
            return Finding("note", "A page is connecting.", "Look again in a moment")
        return Finding(
            "problem",
            f"A connection has not said which page it is for {_ago(now - view.connected_at)}.",
            "Is it a program, or a page that speaks another protocol? What the bridge serves as "
            "pagetools.js says it at once",
        )
    if view.apps:
        shown = listing((app.ns for app in view.apps), len(view.apps), 60)
        return Finding(
            "ok", f"{name} is connected, with {count(len(view.tools), 'tool')} of {shown}."
        )
    return _without_tools(name, view)


def _held(standing: Standing, name: str, state: str, why: str, next: str) -> Finding:
    # What a browser tells is often followed by what helps.
    what, _, helps = why.partition("; ")
    return Finding(standing, f"{name} is {state}: {what}.", helps[:1].upper() + helps[1:] or next)


def _is_nameless(view: TabView) -> bool:
    return view.id in view.client_ids and not view.url and not view.apps


def _without_tools(name: str, view: TabView) -> Finding:
    runtimes = {frame.webmcp for frame in view.frames}
    next = "Do they come later, or after signing in? If not, the page has to declare some"
    if "native" in runtimes:
        why = "the browser's own WebMCP is there, and has no tool of the page"
        next = (
            "Do they come later, or after signing in? Does the browser refuse them, which its "
            "console tells: a Permissions-Policy with tools=(), a frame without "
            'allow="tools", names with other characters than letters, digits, "_", "-" and "."?'
        )
    elif "polyfill" in runtimes:
        why = "it brings a WebMCP of its own, and registers nothing with it"
    elif "own" in runtimes:
        why = "it looks for none of the places where pages register tools"
        next = (
            "A page that was open before the browser was attached to may have looked too early: "
            "reload it. If that does not help, the page has to declare some"
        )
    else:
        why = "there is no WebMCP in it"
        next = "`%pagetools snippet` shows how a page declares tools"
    return Finding("note", f"{name} is connected and declares no tools: {why}.", next)


# Browsers


def judge_browser(label: str, product: str, is_attached: bool, runtimes: set[str]) -> Findings:
    """How a browser stands that was attached to.

    Args:
        label: Where its debugging port is.
        product: What it calls itself.
        is_attached: Whether it is there now.
        runtimes: Whose WebMCP its pages have; see `FrameView.webmcp`.
    """
    name = f"{shorten(product.replace('/', ' ', 1), 60) or 'the browser'} on {label}"
    if not is_attached:
        yield Finding(
            "problem",
            f"{name[0].upper()}{name[1:]} has gone.",
            "Start it again with the same debugging port: its tabs come back by themselves",
        )
        return
    yield Finding("ok", f"Attached to {name}.")
    if runtimes and "native" not in runtimes:
        yield Finding(
            "note",
            f"The WebMCP of {name} is off, so its pages get one from here.",
            "Reload tabs that were open before. To have the browser's own, start it with "
            "--enable-features=WebMCP",
        )


def judge_port(label: str, target: str, problem: str) -> Finding:
    """A debugging port that is not attached to.

    Args:
        label: What a person calls it.
        target: What `%pagetools attach` takes for it.
        problem: Why it cannot be attached to; empty where it can.
    """
    if not problem:
        return Finding(
            "note",
            f"A browser that is not attached to listens on {label}.",
            f"`%pagetools attach {target}` lists its tabs",
        )
    what, _, next = problem.partition("; ")
    return Finding("note", f"No browser to attach to: {what}.", next[:1].upper() + next[1:])


# Pages that were refused


_OTHER_TOKEN = (
    "It may be the token of another notebook, or one from before a restart: give the page this "
    "bridge's"
)
_ELSEWHERE = (
    "If the page is yours, have it in a browser that is attached to, where it needs no token: "
    "`%pagetools open URL`, `%pagetools attach`"
)


def judge_refusals(refusals: Sequence[Refusal], now: float) -> Findings:
    """Which pages were not let in, the last one first."""
    times = Counter((refusal.origin, refusal.code) for refusal in refusals)
    for refusal in reversed(refusals):
        often = times.pop((refusal.origin, refusal.code), 0)
        if not often:
            continue
        is_named = refusal.origin not in ("", "null")
        who = shorten(refusal.origin, 80) if is_named else "A page without an origin"
        yield Finding(
            "problem",
            f"{who} was refused {count(often, 'time')}, last {_ago(now - refusal.at)} ago: "
            f"{shorten(refusal.reason)} ({refusal.code}).",
            _OTHER_TOKEN if refusal.code == BAD_TOKEN else _ELSEWHERE,
        )


def _ago(seconds: float) -> str:
    if seconds < 100:
        return f"{max(0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


# A page that is not there


def is_secure(url: str) -> bool:
    """Whether browsers take a page for a secure context."""
    return url.startswith("https:") or is_loopback_origin(origin_of(url))


def judge_visit(visit: Visit, asked: str, port: int) -> Findings:
    """What of a page's answer keeps it from a bridge.

    Args:
        visit: The answer.
        asked: The address that was asked for.
        port: The bridge's port.
    """
    if visit.status >= 400:
        yield Finding(
            "problem",
            f"Its server answers with HTTP {visit.status}.",
            "Is the address right? What follows is of that answer; a page behind a login is not "
            "seen from here",
        )
    elif urlsplit(visit.url)[:3] != urlsplit(asked)[:3]:
        yield Finding(
            "note",
            f"Its server sends to {shorten(visit.url)}.",
            "What follows is of that page; one behind a login is not seen from here",
        )
    yield from _judge_origin(visit)
    yield from _judge_policies(visit, port)
    yield from _judge_html(visit, port)


def _judge_origin(visit: Visit) -> Findings:
    if is_loopback_origin(visit.origin):
        yield Finding("ok", "It is on this machine, so browser and bridge let it connect.")
        return
    if not is_secure(visit.url):
        yield Finding(
            "problem",
            f"{shorten(visit.origin)} is not a secure context: it has no native WebMCP, and "
            "browsers keep it from this machine.",
            "Serve it over https: or from localhost",
        )
    else:
        yield Finding(
            "note",
            f"The browser asks before it lets {shorten(visit.origin)} reach this machine.",
            'Click Allow in its tab. Where that was declined: "Apps on device" in its site '
            'settings; a frame needs allow="loopback-network"',
        )
    yield Finding(
        "note",
        "It is not on this machine, so the bridge lets it in with the token only.",
        "In a browser that is attached to it needs none",
    )


_BY_NONCE = (
    "Give its script element the policy's nonce: beside 'strict-dynamic' addresses do not count"
)


def _judge_policies(visit: Visit, port: int) -> Findings:
    scheme, host = urlsplit(visit.url).scheme, f"127.0.0.1:{port}"
    for policy in policies(visit):
        name = policy.effective("connect-src")
        if name and not allows(policy.directives[name], f"ws://{host}/tools", scheme):
            yield _forbids(policy, name, "connect-src", f"ws://{host} http://{host}", "connect to")
        name = policy.effective("script-src-elem", "script-src")
        sources = policy.directives[name] if name else []
        is_by_trust = "'strict-dynamic'" in (source.lower() for source in sources)
        if name and (is_by_trust or not allows(sources, f"http://{host}/pagetools.js", scheme)):
            own = "script-src" if name == "default-src" else name
            finding = _forbids(policy, name, own, f"http://{host}", "load a script from")
            yield replace(finding, next=_BY_NONCE) if is_by_trust else finding
    for name in ("tools", "loopback-network"):
        if any(re.search(rf"(^|[,\s]){name}=\(\s*\)", p) for p in visit.all("permissions-policy")):
            what = "WebMCP" if name == "tools" else "reaching this machine"
            yield Finding(
                "problem",
                f"Its Permissions-Policy switches {what} off: {name}=().",
                f"Take {name}=() out of the header",
            )


def _forbids(policy: Policy, name: str, wanted: str, missing: str, what: str) -> Finding:
    has = shorten(" ".join([name, *policy.directives[name]]), 160)
    sources = [source for source in policy.directives[name] if source.lower() != "'none'"]
    full = shorten(" ".join([wanted, *sources, missing]), 300)
    return Finding(
        "problem",
        f"Its Content-Security-Policy ({policy.place}) does not let it {what} this bridge: {has}.",
        f"Add {missing} to {wanted}" if name == wanted else f"Add the directive: {full}",
    )


_CLIENT = re.compile(r"(?:127\.0\.0\.1|localhost):(\d{1,5})/pagetools\.js")
_RUNTIMES = {
    "WebMCP": re.compile(r"\bmodelContext\b"),
    "forms with a toolname": re.compile(r"<form\b[^<>]*\stoolname\b", re.IGNORECASE),
    "MCP-B": re.compile(r"@mcp-b/|webmcp-local-relay|data-webmcp-relay"),
    "window.__AIUI__": re.compile(r"__AIUI__"),
}


def _judge_html(visit: Visit, port: int) -> Findings:
    ports = {int(found[1]) for found in _CLIENT.finditer(visit.html)}
    if port in ports:
        yield Finding("ok", "It loads the client from this bridge.")
    elif ports:
        yield Finding(
            "problem",
            f"It loads the client from port {min(ports)}, and this bridge is on {port}.",
            f"Have it load http://127.0.0.1:{port}/pagetools.js, or start the bridge with "
            f"`%pagetools start --port {min(ports)}`",
        )
    found = [name for name, pattern in _RUNTIMES.items() if pattern.search(visit.html)]
    if found:
        bring = "" if ports else "`%pagetools snippet` shows the script that brings its tools here"
        yield Finding("ok", f"Its HTML speaks of {listing(found)}.", bring)
    if "MCP-B" in found:
        yield Finding(
            "note",
            "Pages with the embed of MCP-B look for their own relay, not for this bridge.",
            "`%pagetools start --mcpb` takes them in as they are",
        )
    elif not found and not ports:
        yield Finding(
            "note",
            "Its HTML neither loads the client nor declares tools; a script of it still may.",
            "`%pagetools snippet` shows what to put into it",
        )
