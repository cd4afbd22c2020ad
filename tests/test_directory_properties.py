"""`PageToolDirectory` against a model of it: whatever happens, in whatever order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pagetools_ipy.calls import CallState, PageCall, Step
from pagetools_ipy.claims import PATIENCE
from pagetools_ipy.connections import (
    ASLEEP_SECONDS,
    GONE_SECONDS,
    NEXT_PAGE_SECONDS,
    RELOAD_SECONDS,
)
from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.errors import (
    AmbiguousToolError,
    CallCancelledError,
    CallTimeoutError,
    NoPageConnectedError,
    PageGoneError,
    PageToolError,
    PageToolsError,
    TabNotFoundError,
    ToolNotFoundError,
)
from pagetools_ipy.views import TabState, TabView

from .helpers import FakePage, VirtualLoop, counted_ids, settle, tool

T = TypeVar("T")

ERRORS: dict[CallState, type[PageToolsError]] = {
    CallState.FAILED: PageToolError,
    CallState.TIMED_OUT: CallTimeoutError,
    CallState.GONE: PageGoneError,
    CallState.CANCELLED: CallCancelledError,
}
GIVEN_UP = (CallState.TIMED_OUT, CallState.CANCELLED)

WHICH = st.integers(0, 7)
"""Picks one of however many there are."""

NAMESPACES = st.sampled_from(["shop", "blog", "mail"])
NAMES = st.sampled_from(["buy", "find", "post"])
SEEN = st.fixed_dictionaries({"visible": st.booleans(), "focused": st.booleans()})
UNSEEN = {"visible": False, "focused": False}
CHROME_TABS = st.sampled_from([1, 2])
PAUSES = st.sampled_from([0.1, 0.3, 0.7])
TIMEOUTS = st.sampled_from([0.55, 2.05, None])
"""No sum of pauses is a timeout: which of two things at one instant is first is not promised."""

QUIET = 3.0
"""Longer than any quiet period the change signal waits for."""

LONG = st.sampled_from([GONE_SECONDS + 1, ASLEEP_SECONDS + 1])
"""Longer than a tab is shown that is gone, and that is asleep."""

TAB_IDS = st.sampled_from(["t1", "t2"])
DOCUMENTS = st.sampled_from(["d1", "d2", "d3"])


@dataclass(eq=False)
class Tab:
    """What should be known of a tab."""

    id: str
    order: int
    links: list[Link] = field(default_factory=list)
    focused_at: float = 0.0
    asleep: bool = False
    left_at: float = 0.0
    page_was_seen: bool = False

    @property
    def last_focused_at(self) -> float:
        return max([self.focused_at, *(link.focused_at for link in self.links)])

    @property
    def sorted_links(self) -> list[Link]:
        return sorted(self.links, key=lambda link: (not link.top, link.order))

    def state(self, now: float) -> TabState:
        if self.links:
            return TabState.CONNECTED
        if now - self.left_at < (NEXT_PAGE_SECONDS if self.asleep else RELOAD_SECONDS):
            return TabState.RELOADING
        return TabState.ASLEEP if self.asleep else TabState.GONE

    def is_over(self, now: float) -> bool:
        stays = ASLEEP_SECONDS if self.asleep else GONE_SECONDS
        return not self.links and self.left_at + stays <= now


@dataclass(eq=False)
class Link:
    """What should be known of a connection."""

    page: FakePage
    order: int
    tab: Tab
    synced_at: float
    doc: str | None = None
    top: bool = True
    seq: int = -1
    chrome_tab: int | None = None
    visible: bool = False
    focused: bool = False
    focused_at: float = 0.0
    asleep: bool = False
    declared: dict[str, list[str]] = field(default_factory=dict)
    gone: bool = False

    def look(self, seen: dict[str, bool], now: float) -> None:
        if self.focused != seen["focused"]:
            self.focused_at = now
        self.focused, self.visible = seen["focused"], seen["visible"]
        self.synced_at = now


@dataclass(eq=False)
class Sent:
    """What should be known of a call."""

    call: PageCall
    link: Link
    due: float | None
    state: CallState = CallState.PENDING
    value: Any = None
    partial: Any = None
    outcomes: list[CallState] = field(default_factory=list)

    def note(self, call: PageCall) -> None:
        if call.done():
            self.outcomes.append(call.state)


class DirectoryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.directory = PageToolDirectory(
            now=lambda: self.loop.now, new_id=counted_ids(), change_debounce=0.5
        )
        self.links: list[Link] = []
        self.tabs: dict[str, Tab] = {}
        self.pinned: str | None = None
        self.departed: list[Link] = []
        self.fronts: dict[int, tuple[int, Link]] = {}
        self.sent: list[Sent] = []
        self.ignored: Counter[str] = Counter()
        self.connected = self.numbers = 0
        self.told: Counter[tuple[str, str]] = Counter()
        self.told_for_nothing = 0
        self.directory.on_change(self._hear)

    # Means

    def do(self, function: Callable[[], T]) -> T:
        """Call it on the loop, without time passing."""

        async def on_loop() -> T:
            result = function()
            await settle()
            return result

        return self.loop.run_until_complete(on_loop())

    def contents(self) -> Counter[tuple[str, str]]:
        return Counter((row.ns, row.digest) for row in self.directory.list())

    def _hear(self) -> None:
        now = self.contents()
        self.told_for_nothing += now == self.told
        self.told = now

    def link(self, which: int) -> Link:
        return self.links[which % len(self.links)]

    def call_of(self, which: int) -> Sent:
        return self.sent[which % len(self.sent)]

    def active(self, link: Link) -> bool:
        return any(tab == link.chrome_tab for tab, _ in self.fronts.values())

    def rank(self, link: Link) -> tuple[Any, ...]:
        tab = link.tab
        return (
            tab.id == self.pinned,
            any(self.active(other) for other in tab.links),
            any(other.focused for other in tab.links),
            any(other.visible for other in tab.links),
            tab.last_focused_at,
            link.focused,
            link.synced_at,
            link.order,
        )

    def in_order(self) -> list[Tab]:
        return sorted(self.tabs.values(), key=lambda tab: tab.order)

    def views(self) -> dict[str, TabView]:
        return {view.id: view for view in self.directory.tabs(all=True)}

    def leave(self, link: Link) -> Tab:
        """What should follow when a document leaves its tab."""
        tab = link.tab
        looked_at = self.loop.now if link.focused else link.focused_at
        tab.focused_at = max(tab.focused_at, looked_at)
        tab.links.remove(link)
        if link.top or (not tab.links and not tab.page_was_seen):
            tab.asleep, tab.page_was_seen = link.asleep, link.top
        tab.left_at = self.loop.now
        return tab

    def move(self, link: Link, tab_id: str) -> None:
        """What should follow when a document says which tab it is in."""
        if link.tab.id == tab_id:
            return
        before = self.leave(link)
        if not before.links:
            del self.tabs[before.id]
        link.tab = self.tabs.setdefault(tab_id, Tab(tab_id, before.order))
        link.tab.links.append(link)
        link.tab.page_was_seen = link.tab.page_was_seen and not link.top

    def lose(self, link: Link) -> None:
        """What should follow when a connection goes."""
        link.gone = True
        self.links.remove(link)
        self.departed.append(link)
        self.fronts = {w: front for w, front in self.fronts.items() if front[1] is not link}
        tab = self.leave(link)
        if not tab.links and tab.id == link.page.client_id:
            del self.tabs[tab.id]
        self.age()
        for sent in self.sent:
            if sent.link is link and sent.state is CallState.PENDING:
                sent.state = CallState.GONE

    def age(self) -> None:
        """What time should do to tabs whose page is away."""
        self.tabs = {k: tab for k, tab in self.tabs.items() if not tab.is_over(self.loop.now)}

    # What pages do

    @initialize(tools=st.lists(st.lists(NAMES, min_size=1, max_size=2), min_size=1, max_size=3))
    def begin(self, tools: list[list[str]]) -> None:
        for number, names in enumerate(tools):
            self.connect()
            self.register(number, "shop", names, None)

    @rule()
    def connect(self) -> None:
        page = self.do(lambda: FakePage(self.directory))
        self.connected += 1
        tab = self.tabs[page.client_id] = Tab(page.client_id, self.connected)
        tab.links.append(Link(page, self.connected, tab, self.loop.now))
        self.links += tab.links

    @precondition(lambda self: self.links)
    @rule(which=WHICH)
    def disconnect(self, which: int) -> None:
        link = self.link(which)
        self.do(link.page.disconnect)
        self.do(link.page.disconnect)
        self.lose(link)

    @precondition(lambda self: self.links)
    @rule(
        which=WHICH,
        tab=TAB_IDS,
        doc=DOCUMENTS,
        top=st.booleans(),
        ago=st.sampled_from([None, 0.0, 2500.0]),
        seen=SEEN,
    )
    def hello(
        self, which: int, tab: str, doc: str, top: bool, ago: float | None, seen: dict[str, bool]
    ) -> None:
        link = self.link(which)
        self.do(lambda: link.page.hello(tab, doc=doc, top=top, focused_ago=ago, **seen))
        link.doc, link.top = doc, top
        if ago is not None:
            link.focused_at = max(link.focused_at, self.loop.now - ago / 1000)
        link.look(seen, self.loop.now)
        is_duplicate = self.expect_claim(link, tab)
        welcome = link.page.all("welcome")[-1]
        assert welcome["clientId"] == link.page.client_id
        assert welcome.get("reason") == ("duplicate" if is_duplicate else None)
        if is_duplicate:
            assert welcome["tabId"] not in {"t1", "t2", *self.tabs}
        else:
            assert welcome["tabId"] == tab
        self.move(link, welcome["tabId"])

    def expect_claim(self, link: Link, tab_id: str) -> bool:
        """What should become of the documents of the tab in which one says it is.

        Returns:
            Whether it is another tab in truth, since a document of this one answers.
        """
        tab = self.tabs.get(tab_id)
        for other in () if tab is None else tuple(tab.links):
            if other is link or other.doc is None:
                continue
            if other.doc != link.doc:
                if not (other.top and link.top):
                    continue
                if not other.page.silent:
                    return True
                welcomes = len(link.page.all("welcome"))
                self.pass_time(PATIENCE)
                assert len(link.page.all("welcome")) == welcomes + 1
            assert other.page.closed is not None
            assert other.page.closed[0] == 4409
            self.lose(other)
        return False

    @precondition(lambda self: self.links)
    @rule(which=WHICH)
    def stop_answering(self, which: int) -> None:
        self.link(which).page.silent = True

    @precondition(lambda self: any(link.doc and link.top for link in self.links))
    @rule(which=WHICH, pause=PAUSES)
    def reload(self, which: int, pause: float) -> None:
        """A tab is the same one when its page is back, whatever it was before."""
        greeted = [link for link in self.links if link.doc and link.top]
        link = greeted[which % len(greeted)]
        before = self.views()[link.tab.id]
        self.disconnect(self.links.index(link))
        self.pass_time(pause)
        assert link.tab.id in self.tabs
        self.connect()
        self.hello(len(self.links) - 1, link.tab.id, "d4", True, None, {**UNSEEN})
        after = self.views()[link.tab.id]
        assert after.number == before.number
        assert after.last_focused_at >= before.last_focused_at
        assert after.connected_at == before.connected_at

    @precondition(lambda self: self.links)
    @rule(
        which=WHICH,
        ns=NAMESPACES,
        names=st.lists(NAMES, max_size=4),
        chrome_tab=st.none() | CHROME_TABS,
    )
    def register(self, which: int, ns: str, names: list[str], chrome_tab: int | None) -> None:
        link = self.link(which)
        hint = {} if chrome_tab is None else {"tab": {"chromeTabId": chrome_tab}}
        self.do(lambda: link.page.register(ns, *map(tool, names), **hint))
        assert link.page.all("registered")[-1]["ns"] == ns
        link.synced_at = self.loop.now
        if chrome_tab is not None:
            link.chrome_tab = chrome_tab
        link.declared.pop(ns, None)
        distinct = list(dict.fromkeys(names))
        if distinct:
            link.declared[ns] = distinct
        if len(names) > len(distinct):
            self.ignored["rejected"] += len(names) - len(distinct)

    @precondition(lambda self: self.links)
    @rule(which=WHICH, seq=st.integers(0, 20), seen=SEEN, asleep=st.booleans())
    def state(self, which: int, seq: int, seen: dict[str, bool], asleep: bool) -> None:
        link = self.link(which)
        self.do(lambda: link.page.state(seq, asleep=asleep, **seen))
        if seq <= link.seq:
            self.ignored["stale state"] += 1
        else:
            link.seq, link.asleep = seq, asleep
            link.look(seen, self.loop.now)

    @precondition(lambda self: self.links)
    @rule(which=WHICH, tab=CHROME_TABS, window=st.sampled_from([1, 2]), active=st.booleans())
    def activation(self, which: int, tab: int, window: int, active: bool) -> None:
        link = self.link(which)
        message = {"chromeTabId": tab, "windowId": window}
        self.do(lambda: link.page.say("activation", tab=message, active=active))
        self.fronts = {w: front for w, front in self.fronts.items() if front[0] != tab}
        if active:
            self.fronts[window] = (tab, link)

    @rule(tab=CHROME_TABS, window=st.sampled_from([1, 2]))
    def a_host_comes_and_goes(self, tab: int, window: int) -> None:
        self.connect()
        host = len(self.links) - 1
        self.activation(host, tab, window, True)
        self.tabs_hold_their_documents_the_main_one_first()
        self.disconnect(host)

    @precondition(lambda self: self.links or self.departed)
    @rule(which=WHICH, raw=st.sampled_from([{"type": "hello"}, {"type": "brandNew"}, None, []]))
    def say_nonsense(self, which: int, raw: Any) -> None:
        everyone = self.departed + self.links
        link = everyone[which % len(everyone)]
        client_id = link.page.client_id
        self.do(lambda: self.directory.handle_client_message(client_id, raw))
        why = "unknown type" if raw == {"type": "brandNew"} else "rejected"
        self.ignored["unknown connection" if link.gone else why] += 1

    # Calls

    def _call(self, name: str, timeout: float | None, **narrowing: Any) -> None:
        scope, ns = self.links, narrowing.get("ns")
        if (client_id := narrowing.get("client_id")) is not None:
            scope = [x for x in self.links + self.departed if x.page.client_id == client_id]
        found: dict[str, list[Link]] = {}
        for link in scope:
            for declared_ns, names in link.declared.items():
                if name in names and ns in (None, declared_ns):
                    found.setdefault(declared_ns, []).append(link)
        best = {key: max(links, key=self.rank) for key, links in found.items()}
        winner = self.winner(best)
        try:
            route = self.directory.route(name, **narrowing)
        except PageToolsError as problem:
            self._check_refusal(problem, scope, found, winner, is_narrowed=client_id is not None)
            return
        assert winner is not None
        assert route.name == name
        chosen = route.registration.ns
        assert route.registration.client_id == winner.page.client_id
        assert best[chosen] is winner
        call = self.do(lambda: self.directory.start(route, {"n": 1}, timeout=timeout))
        due = None if timeout is None else self.loop.now + timeout
        sent = Sent(call, winner, due)
        call.on_change(sent.note)
        self.sent.append(sent)

    @rule(name=NAMES, ns=st.none() | NAMESPACES, timeout=TIMEOUTS)
    def call_what_may_be_there(self, name: str, ns: str | None, timeout: float | None) -> None:
        self._call(name, timeout, ns=ns)

    @precondition(lambda self: self.departed)
    @rule(which=WHICH, name=NAMES, timeout=TIMEOUTS)
    def call_who_has_gone(self, which: int, name: str, timeout: float | None) -> None:
        link = self.departed[which % len(self.departed)]
        self._call(name, timeout, client_id=link.page.client_id)

    def _declared(self, which: int) -> tuple[Link, str, str]:
        everything = [
            (link, ns, name)
            for link in self.links
            for ns, names in link.declared.items()
            for name in names
        ]
        return everything[which % len(everything)]

    @precondition(lambda self: any(link.declared for link in self.links))
    @rule(which=st.integers(0, 30), timeout=TIMEOUTS)
    def call_in_a_namespace(self, which: int, timeout: float | None) -> None:
        _, ns, name = self._declared(which)
        self._call(name, timeout, ns=ns)

    @precondition(lambda self: any(link.declared for link in self.links))
    @rule(which=st.integers(0, 30), timeout=TIMEOUTS)
    def call_one_connection(self, which: int, timeout: float | None) -> None:
        link, ns, name = self._declared(which)
        self._call(name, timeout, ns=ns, client_id=link.page.client_id)

    def winner(self, best: dict[str, Link]) -> Link | None:
        """Who should answer, of one for each namespace; None if nobody stands out."""
        links = list(best.values())
        for part in range(3):  # pinned, active, focused
            if len(links) == 1:
                break
            in_front = [link for link in links if self.rank(link)[part]]
            links = in_front or links
        return links[0] if len(links) == 1 else None

    def _check_refusal(
        self,
        problem: PageToolsError,
        scope: list[Link],
        found: dict[str, list[Link]],
        winner: Link | None,
        *,
        is_narrowed: bool,
    ) -> None:
        away = [tab for tab in self.tabs.values() if not tab.links]
        pinned = self.tabs.get(self.pinned or "")
        if self.pinned and not is_narrowed and (pinned is None or not pinned.links):
            assert isinstance(problem, TabNotFoundError)
            assert problem.pinned
        elif not self.links and not (is_narrowed and away):
            assert isinstance(problem, NoPageConnectedError)
        elif any(link.gone for link in scope):
            assert isinstance(problem, TabNotFoundError)
            assert not problem.pinned
        elif not found:
            assert isinstance(problem, ToolNotFoundError)
        else:
            assert isinstance(problem, AmbiguousToolError)
            strict = self.directory.strict and winner and winner.tab.id != self.pinned
            assert winner is None or (strict and max(map(len, found.values())) > 1)

    def _deliver(self, link: Link, function: Callable[[], None]) -> bool:
        """Have a page say something; whether it was heard at all."""
        self.do(function)
        if link.gone:
            self.ignored["unknown connection"] += 1
        return not link.gone

    @precondition(lambda self: self.sent)
    @rule(which=WHICH, ok=st.booleans())
    def answer(self, which: int, ok: bool) -> None:
        sent = self.call_of(which)
        self.numbers += 1
        value, error = (self.numbers, None) if ok else (None, f"failure {self.numbers}")
        page = sent.link.page
        if not self._deliver(sent.link, lambda: page.result(sent.call.id, value, error=error)):
            return
        if sent.state is CallState.PENDING:
            sent.state = CallState.ANSWERED if ok else CallState.FAILED
            sent.value = value
        else:
            self.ignored["late result" if sent.state in GIVEN_UP else "duplicate result"] += 1

    @precondition(lambda self: self.sent and len(self.links) > 1)
    @rule(which=WHICH, by=WHICH)
    def forge(self, which: int, by: int) -> None:
        sent, link = self.call_of(which), self.link(by)
        if link is sent.link:
            return
        self.do(lambda: link.page.result(sent.call.id, "forged"))
        self.do(lambda: link.page.say("progress", callId=sent.call.id, progress=9, value="forged"))
        pending = sent.state is CallState.PENDING
        self.ignored["foreign result" if pending else "stray result"] += 1
        self.ignored["stray progress"] += 1

    @precondition(lambda self: self.sent)
    @rule(which=WHICH)
    def progress(self, which: int) -> None:
        sent = self.call_of(which)
        self.numbers += 1
        number, page = self.numbers, sent.link.page
        fields = {"callId": sent.call.id, "progress": number, "value": number}
        if not self._deliver(sent.link, lambda: page.say("progress", **fields)):
            return
        if sent.state is CallState.PENDING:
            assert sent.call.progress == Step(number, value=number)
            sent.partial = number
        elif sent.state in GIVEN_UP:
            sent.partial = number
        else:
            self.ignored["stray progress"] += 1

    @precondition(lambda self: self.sent)
    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        sent = self.call_of(which)
        self.do(sent.call.cancel)
        if sent.state is CallState.PENDING:
            sent.state = CallState.CANCELLED

    # What the person says

    @precondition(lambda self: self.tabs)
    @rule(which=WHICH)
    def pin(self, which: int) -> None:
        self.pinned = self.in_order()[which % len(self.tabs)].id
        self.do(lambda: self.directory.pin(self.pinned))

    @rule()
    def unpin(self) -> None:
        self.pinned = None
        self.do(lambda: self.directory.pin(None))

    @rule(strict=st.booleans())
    def be_strict(self, strict: bool) -> None:
        self.directory.strict = strict

    # Time

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        for sent in self.sent:
            if (
                sent.state is CallState.PENDING
                and sent.due is not None
                and sent.due <= self.loop.now
            ):
                sent.state = CallState.TIMED_OUT
        self.age()

    @rule(seconds=PAUSES | LONG)
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    @rule()
    def wait_until_quiet(self) -> None:
        self.pass_time(QUIET)
        assert self.told == self.contents()

    # What always holds

    @invariant()
    def what_is_listed_is_what_was_declared(self) -> None:
        expected = [
            (ns, names, link.page.client_id, self.active(link))
            for link in self.links
            for ns, names in link.declared.items()
        ]
        expected.sort(key=lambda row: not row[3])
        rows = self.directory.list()
        assert [
            (row.ns, [t.name for t in row.tools], row.client_id, row.active_tab) for row in rows
        ] == expected
        summary = self.directory.summary()
        assert (summary.clients, summary.namespaces) == (len(self.links), len(rows))
        assert summary.tools == sum(len(names) for _, names, _, _ in expected)

    @invariant()
    def one_of_each_namespace_answers_and_the_others_are_shadowed(self) -> None:
        answering = [(row.ns, row.client_id) for row in self.directory.list() if not row.shadowed]
        best = {
            ns: max((link for link in self.links if ns in link.declared), key=self.rank)
            for ns in {ns for link in self.links for ns in link.declared}
        }
        assert sorted(answering) == sorted((ns, link.page.client_id) for ns, link in best.items())
        for ns, link in best.items():
            assert self.directory.best_of(ns) == link.tab.id

    @invariant()
    def tabs_hold_their_documents_the_main_one_first(self) -> None:
        for tab, view in zip(self.in_order(), self.directory.tabs(all=True), strict=True):
            links = tab.sorted_links
            assert view.id == tab.id
            assert view.client_ids == tuple(link.page.client_id for link in links)
            assert view.visible == any(link.visible for link in links)
            assert view.focused == any(link.focused for link in links)
            assert view.active == any(self.active(link) for link in links)
            assert view.pinned == (tab.id == self.pinned)
            assert view.last_focused_at == tab.last_focused_at
            mute = links and all(link.page.silent for link in links)
            states = {tab.state(self.loop.now)} | ({TabState.NOT_RESPONDING} if mute else set())
            assert view.state in states

    @invariant()
    def tabs_that_can_be_addressed_are_numbered_without_a_gap(self) -> None:
        expected = [
            tab.id
            for tab in self.in_order()
            if tab.links or tab.state(self.loop.now) is TabState.RELOADING
        ]
        tabs = self.directory.tabs()
        assert [(tab.number, tab.id) for tab in tabs] == list(enumerate(expected))
        with_page = [tab for tab in self.in_order() if tab.links]
        assert self.directory.summary().tabs == len(with_page)
        assert [client["id"] for client in self.directory.list_clients()] == [
            tab.id for tab in self.in_order() if tab.links
        ]
        for number, tab_id in enumerate(expected):
            assert self.directory.tab(number).id == self.directory.tab(tab_id).id == tab_id

    @invariant()
    def every_call_ends_once_and_in_the_right_way(self) -> None:
        for sent in self.sent:
            assert sent.call.state is sent.state
            if sent.state is CallState.PENDING:
                assert sent.outcomes == []
                continue
            assert sent.outcomes == [sent.state]
            if sent.state is CallState.ANSWERED:
                assert sent.call.result() == sent.value
                continue
            error = sent.call._outcome.exception()
            assert type(error) is ERRORS[sent.state]
            if sent.state is not CallState.FAILED:
                assert error.partial == sent.partial  # type: ignore[attr-defined]
            if isinstance(error, PageGoneError):
                assert error.sent

    @invariant()
    def nothing_is_pending_for_connections_that_have_gone(self) -> None:
        expected = {s.call.id for s in self.sent if s.state is CallState.PENDING}
        assert set(self.directory._calls._calls) == expected
        for link in self.links:
            connection = self.directory._tabs.connections[link.page.client_id]
            assert set(connection.pending) == {
                s.call.id for s in self.sent if s.link is link and s.call.id in expected
            }

    @invariant()
    def pages_hear_of_each_call_once_and_of_each_given_up_call_once(self) -> None:
        for link in self.links:
            mine = [sent for sent in self.sent if sent.link is link]
            called = [message["callId"] for message in link.page.all("call")]
            stopped = [message["callId"] for message in link.page.all("cancel")]
            assert called == [sent.call.id for sent in mine]
            assert sorted(stopped) == sorted(s.call.id for s in mine if s.state in GIVEN_UP)

    @invariant()
    def what_had_no_effect_is_counted(self) -> None:
        assert self.directory.ignored == self.ignored

    @invariant()
    def nobody_is_told_of_a_change_that_is_none(self) -> None:
        assert self.told_for_nothing == 0

    def teardown(self) -> None:
        try:
            if self.connected % 2:
                self.everybody_leaves()
            self.do(self.directory.close)
            for link in tuple(self.links):
                self.lose(link)
            self.every_call_ends_once_and_in_the_right_way()
            self.nothing_is_pending_for_connections_that_have_gone()
            assert self.directory.summary().clients == 0
            self.pass_time(QUIET)  # deadlines of calls that have ended run out
            self.nothing_is_to_be_done()
        finally:
            self.loop.close()

    def everybody_leaves(self) -> None:
        """And time passes: nothing is left of them."""
        for link in tuple(self.links):
            self.do(link.page.disconnect)
            self.lose(link)
        self.pass_time(ASLEEP_SECONDS + 1)
        assert self.directory.tabs(all=True) == self.directory.list() == []
        index, tabs = self.directory._index, self.directory._tabs
        for left_behind in (
            *(index._by_name, index._by_ns, tabs.connections, tabs.tabs, tabs._left),
            *(tabs.active_tabs._front, tabs.active_tabs._window_of),
        ):
            assert left_behind == {}
        self.nothing_is_to_be_done()

    def nothing_is_to_be_done(self) -> None:
        timers = self.loop._scheduled  # type: ignore[attr-defined]
        assert [timer for timer in timers if not timer.cancelled()] == []
        presence = self.directory._presence
        assert presence._ageing is presence._heartbeat._timer is None
        assert presence._heartbeat._pulses == presence._claims._open == {}
        assert presence._claims._timers == {}


TestDirectory = DirectoryMachine.TestCase
TestDirectory.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
