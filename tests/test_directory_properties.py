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
CHROME_TABS = st.sampled_from([1, 2])
PAUSES = st.sampled_from([0.1, 0.3, 0.7])
TIMEOUTS = st.sampled_from([0.55, 2.05, None])
"""No sum of pauses is a timeout: which of two things at one instant is first is not promised."""

QUIET = 3.0
"""Longer than any quiet period the change signal waits for."""


@dataclass(eq=False)
class Link:
    """What should be known of a connection."""

    page: FakePage
    order: int
    tab: str
    synced_at: float
    doc: str | None = None
    top: bool = True
    seq: int = -1
    chrome_tab: int | None = None
    visible: bool = False
    focused: bool = False
    focused_at: float = 0.0
    declared: dict[str, list[str]] = field(default_factory=dict)
    gone: bool = False

    def look(self, seen: dict[str, bool], now: float) -> None:
        if self.focused or seen["focused"]:
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
        return (
            self.active(link),
            link.focused,
            link.visible,
            link.focused_at,
            link.synced_at,
            link.order,
        )

    def lose(self, link: Link) -> None:
        """What should follow when a connection goes."""
        link.gone = True
        self.links.remove(link)
        self.departed.append(link)
        self.fronts = {w: front for w, front in self.fronts.items() if front[1] is not link}
        for sent in self.sent:
            if sent.link is link and sent.state is CallState.PENDING:
                sent.state = CallState.GONE

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
        self.links.append(Link(page, self.connected, page.client_id, self.loop.now))

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
        tab=st.sampled_from(["t1", "t2"]),
        doc=st.sampled_from(["d1", "d2", "d3"]),
        top=st.booleans(),
        seen=SEEN,
    )
    def hello(self, which: int, tab: str, doc: str, top: bool, seen: dict[str, bool]) -> None:
        link = self.link(which)
        others = [o for o in self.links if o is not link and o.tab == tab and o.doc is not None]
        duplicate = any(o.doc != doc and o.top and top for o in others)
        self.do(lambda: link.page.hello(tab, doc=doc, top=top, **seen))
        for other in others:
            if other.doc == doc:
                assert other.page.closed is not None
                assert other.page.closed[0] == 4409
                self.lose(other)
        welcome = link.page.all("welcome")[-1]
        assert welcome["clientId"] == link.page.client_id
        assert welcome.get("reason") == ("duplicate" if duplicate else None)
        if duplicate:
            assert welcome["tabId"] not in {"t1", "t2", *(o.tab for o in self.links)}
        else:
            assert welcome["tabId"] == tab
        link.tab, link.doc, link.top = welcome["tabId"], doc, top
        link.look(seen, self.loop.now)

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
    @rule(which=WHICH, seq=st.integers(0, 20), seen=SEEN)
    def state(self, which: int, seq: int, seen: dict[str, bool]) -> None:
        link = self.link(which)
        self.do(lambda: link.page.state(seq, **seen))
        if seq <= link.seq:
            self.ignored["stale state"] += 1
        else:
            link.seq = seq
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
        try:
            route = self.directory.route(name, **narrowing)
        except PageToolsError as problem:
            self._check_refusal(problem, scope, best)
            return
        assert route.name == name
        chosen = route.registration.ns
        assert route.registration.client_id == best[chosen].page.client_id
        assert len(best) == 1 or self.active(best[chosen]) or best[chosen].focused
        call = self.do(lambda: self.directory.start(route, {"n": 1}, timeout=timeout))
        due = None if timeout is None else self.loop.now + timeout
        sent = Sent(call, best[chosen], due)
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

    def _check_refusal(
        self, problem: PageToolsError, scope: list[Link], best: dict[str, Link]
    ) -> None:
        if not self.links:
            assert isinstance(problem, NoPageConnectedError)
        elif any(link.gone for link in scope):
            assert isinstance(problem, TabNotFoundError)
        elif not best:
            assert isinstance(problem, ToolNotFoundError)
        else:
            assert isinstance(problem, AmbiguousToolError)
            assert len(best) > 1
            assert sum(self.active(link) for link in best.values()) != 1

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

    @rule(seconds=PAUSES)
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

    @invariant()
    def tabs_hold_their_documents_the_main_one_first(self) -> None:
        expected: dict[str, list[Link]] = {}
        for link in sorted(self.links, key=lambda link: (not link.top, link.order)):
            expected.setdefault(link.tab, []).append(link)
        tabs = self.directory.tabs()
        assert {tab.id: list(tab.client_ids) for tab in tabs} == {
            tab: [link.page.client_id for link in links] for tab, links in expected.items()
        }
        assert len(tabs) == len(expected)
        for tab in tabs:
            assert tab.focused == any(link.focused for link in expected[tab.id])
            assert tab.active == any(self.active(link) for link in expected[tab.id])

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
            connection = self.directory._index.connections[link.page.client_id]
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
        self.do(self.directory.close)
        for link in tuple(self.links):
            self.lose(link)
        self.every_call_ends_once_and_in_the_right_way()
        self.nothing_is_pending_for_connections_that_have_gone()
        assert self.directory.summary().clients == 0
        self.loop.close()


TestDirectory = DirectoryMachine.TestCase
TestDirectory.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
