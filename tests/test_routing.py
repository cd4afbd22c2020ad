"""`routing`: which of several candidates answers, and why."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from pagetools_ipy.errors import AmbiguousToolError
from pagetools_ipy.routing import Focus, best_by_namespace, choose

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True, database=None)


class Page(NamedTuple):
    name: str
    ns: str
    focus: Focus

    @property
    def client_id(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        return f"Page {self.name}"


def page(
    name: str,
    ns: str = "shop",
    *,
    pinned: bool = False,
    active: bool = False,
    focused: bool = False,
    visible: bool = False,
    at: float = 0.0,
    here: bool = False,
    heard: float = 0.0,
    order: int | None = None,
) -> Page:
    place = ord(name[0]) if order is None else order
    return Page(name, ns, Focus(pinned, active, focused, visible, at, here, heard, place))


# One app in several tabs

ONE_APP = [
    ([page("a")], "a", "the only one"),
    ([page("a", active=True)], "a", "the only one"),
    ([page("a", active=True), page("b")], "a", "active of 2"),
    ([page("a"), page("b", active=True)], "b", "active of 2"),
    ([page("a", active=True), page("b", focused=True, visible=True)], "a", "active of 2"),
    ([page("a", focused=True), page("b")], "a", "focused of 2"),
    ([page("a", focused=True), page("b", visible=True, at=9)], "a", "focused of 2"),
    ([page("a", active=True, focused=True), page("b", active=True)], "a", "focused of 2"),
    ([page("a", visible=True), page("b")], "a", "visible of 2"),
    ([page("a", visible=True), page("b", at=9, heard=9)], "a", "visible of 2"),
    ([page("a", visible=True), page("b"), page("c")], "a", "visible of 3"),
    ([page("a", at=2), page("b", at=1)], "a", "last focused of 2"),
    ([page("a", at=2), page("b", heard=9)], "a", "last focused of 2"),
    (
        [page("a", visible=True, at=2), page("b", visible=True, at=1)],
        "a",
        "last focused of 2",
    ),
    ([page("a", heard=2), page("b", heard=1)], "a", "last heard from of 2"),
    ([page("a", at=5, heard=2), page("b", at=5, heard=1)], "a", "last heard from of 2"),
    ([page("a", pinned=True), page("b", active=True, focused=True)], "a", "pinned of 2"),
    (
        [page("a", at=5, here=True), page("b", at=5, heard=9)],
        "a",
        "in the frame with the keyboard of 2",
    ),
    ([page("a"), page("b")], "b", "newest of 2"),
    ([page("a", order=2), page("b", order=1)], "a", "newest of 2"),
    (
        [page("a", active=True, order=2), page("b", active=True, order=1), page("c")],
        "a",
        "newest of 3",
    ),
    # the runner-up says why, not those far behind
    ([page("a", visible=True, at=2), page("b", visible=True), page("c")], "a", "last focused of 3"),
]


@pytest.mark.parametrize(("candidates", "winner", "why"), ONE_APP)
def test_of_one_app_the_tab_the_person_looks_at_or_looked_at_last_answers(
    candidates: list[Page], winner: str, why: str
) -> None:
    for order in (candidates, candidates[::-1]):
        choice = choose("buy", order)
        assert (choice.candidate.name, choice.why) == (winner, why)


# Different apps

DIFFERENT_APPS = [
    ([page("a", active=True), page("b", "blog")], "a", "in the active tab, of 2"),
    (
        [page("a", active=True), page("b", "blog", focused=True)],
        "a",
        "in the active tab, of 2",
    ),
    ([page("a", focused=True), page("b", "blog")], "a", "in the focused tab, of 2"),
    (
        [page("a", pinned=True), page("b", "blog", active=True, focused=True)],
        "a",
        "in the pinned tab, of 2",
    ),
    (
        [page("a", focused=True), page("b", "blog", visible=True, at=9), page("c", "mail")],
        "a",
        "in the focused tab, of 3",
    ),
    # several tabs of one of them
    (
        [page("a", active=True), page("b"), page("c", "blog")],
        "a",
        "in the active tab, of 3",
    ),
    (
        [page("a"), page("b", active=True), page("c", "blog")],
        "b",
        "in the active tab, of 3",
    ),
    (
        [page("a", active=True), page("b", active=True), page("c", "blog")],
        "b",
        "in the active tab, of 3",
    ),
    (
        [page("a", active=True), page("b", active=True, focused=True), page("c", "blog")],
        "b",
        "in the active tab, of 3",
    ),
]


@pytest.mark.parametrize(("candidates", "winner", "why"), DIFFERENT_APPS)
def test_of_different_apps_the_one_in_front_answers(
    candidates: list[Page], winner: str, why: str
) -> None:
    for order in (candidates, candidates[::-1]):
        choice = choose("buy", order)
        assert (choice.candidate.name, choice.why) == (winner, why)


def test_of_different_apps_in_front_of_their_windows_the_focused_one_answers() -> None:
    """Two windows, each with its active tab; the keyboard is in one of them."""
    candidates = [page("a", active=True, focused=True), page("b", "blog", active=True)]
    assert choose("buy", candidates).candidate.name == "a"


@pytest.mark.parametrize(
    "candidates",
    [
        [page("a"), page("b", "blog")],
        [page("a", visible=True), page("b", "blog")],
        [page("a", visible=True, at=9, heard=9), page("b", "blog")],
        [page("a", at=9), page("b", "blog", at=1)],
        [page("a", active=True), page("b", "blog", active=True)],
        [page("a", focused=True), page("b", "blog", focused=True)],
        [
            page("a", active=True, focused=True),
            page("b", "blog", active=True, focused=True),
            page("c", "mail"),
        ],
        [page("a", at=9), page("b", at=8), page("c", "blog")],
    ],
)
def test_of_different_apps_nobody_is_guessed(candidates: list[Page]) -> None:
    """Having been looked at last says which tab of an app is meant, not which app."""
    for order in (candidates, candidates[::-1]):
        with pytest.raises(AmbiguousToolError) as raised:
            choose("buy", order)
        assert raised.value.name == "buy"
        ranked = sorted(candidates, key=lambda c: c.focus, reverse=True)
        assert list(raised.value.candidates) == ranked


# The strict policy


@pytest.mark.parametrize(
    ("candidates", "winner"),
    [
        ([page("a")], "a"),
        ([page("a", pinned=True), page("b", focused=True)], "a"),
        ([page("a", focused=True), page("b", "blog")], "a"),
        ([page("a", focused=True), page("b", "blog"), page("c", "blog")], "a"),
    ],
)
def test_the_strict_policy_lets_answer_who_is_alone_in_its_app_or_pinned(
    candidates: list[Page], winner: str
) -> None:
    for order in (candidates, candidates[::-1]):
        assert choose("buy", order, strict=True).candidate.name == winner


@pytest.mark.parametrize(
    ("candidates", "rivals"),
    [
        ([page("a", focused=True), page("b")], ["a", "b"]),
        ([page("a", active=True), page("b"), page("c", "blog")], ["a", "b"]),
        ([page("a"), page("b", "blog")], ["b", "a"]),
    ],
)
def test_the_strict_policy_picks_none_of_several_tabs(
    candidates: list[Page], rivals: list[str]
) -> None:
    for order in (candidates, candidates[::-1]):
        with pytest.raises(AmbiguousToolError) as raised:
            choose("buy", order, strict=True)
        assert [c.client_id for c in raised.value.candidates] == rivals


def test_the_best_of_each_namespace_stands_for_it() -> None:
    a, b, c = page("a", at=1), page("b"), page("c", "blog")
    assert best_by_namespace([a, b, c]) == {"shop": a, "blog": c}
    assert best_by_namespace([]) == {}


# What must hold for any candidates

TIMES = st.sampled_from([0.0, 1.0, 2.0])
FLAG = st.booleans()
FOCI = st.tuples(FLAG, FLAG, FLAG, FLAG, TIMES, FLAG, TIMES)
CANDIDATES = st.lists(st.tuples(st.sampled_from("xyz"), FOCI), min_size=1, max_size=6).map(
    lambda rows: [Page(str(i), ns, Focus(*focus, i)) for i, (ns, focus) in enumerate(rows)]
)


def winner(candidates: list[Page]) -> Page | None:
    try:
        choice = choose("buy", candidates)
    except AmbiguousToolError:
        return None
    assert choice.candidate in candidates
    assert choice.why
    return choice.candidate


@REPEATABLE
@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_choice_is_the_same_in_whatever_order_candidates_come(
    candidates: list[Page], chance: random.Random
) -> None:
    first = winner(candidates)
    shuffled = candidates[:]
    chance.shuffle(shuffled)
    assert winner(shuffled) == first == winner(candidates)


def test_a_tab_that_closes_takes_no_call_away_also_from_one_the_hosts_do_not_know() -> None:
    """Two browsers report their active tabs; the keyboard is in a third that reports nothing."""
    one, other = page("a", active=True), page("b", "blog", active=True)
    third = page("c", "mail", focused=True)
    first = winner([one, other, third])
    if first is not None:
        assert winner([one, first]) == winner([other, first]) == first


@REPEATABLE
@given(CANDIDATES, st.randoms(use_true_random=False))
def test_who_wins_among_all_wins_among_some(candidates: list[Page], chance: random.Random) -> None:
    """A tab that closes takes no call away from the one that answers."""
    first = winner(candidates)
    if first is not None:
        some = [c for c in candidates if c == first or chance.random() < 0.5]
        assert winner(some) == first


@REPEATABLE
@given(CANDIDATES)
def test_who_answers_is_the_best_of_its_own_namespace(candidates: list[Page]) -> None:
    first = winner(candidates)
    namespaces = {c.ns for c in candidates}
    if len(namespaces) == 1:
        assert first == max(candidates, key=lambda c: c.focus)
    elif first is not None:
        assert first == max((c for c in candidates if c.ns == first.ns), key=lambda c: c.focus)
        assert first.focus.pinned or first.focus.active or first.focus.focused


@REPEATABLE
@given(CANDIDATES)
def test_nobody_is_preferred_who_is_not_looked_at(candidates: list[Page]) -> None:
    if len({c.ns for c in candidates}) > 1 and not any(
        c.focus.pinned or c.focus.active or c.focus.focused for c in candidates
    ):
        assert winner(candidates) is None


@REPEATABLE
@given(CANDIDATES)
def test_the_strict_policy_answers_as_the_other_or_not_at_all(candidates: list[Page]) -> None:
    try:
        strict = choose("buy", candidates, strict=True).candidate
    except AmbiguousToolError:
        return
    assert strict == winner(candidates)
    assert strict.focus.pinned or [c.ns for c in candidates].count(strict.ns) == 1
