"""Which of several candidates answers a call: one pure rule, stated in full here.

Knows candidates and how to compare where a person looks. Does not know links, calls or time.

1. The caller's narrowing (tab, connection, namespace) has been applied already: every
   candidate given here is one the caller would accept.
2. Candidates of one namespace are one app opened several times: the best ranked one stands
   for it, the others are shadowed. Under the strict policy that is nobody's to decide, unless
   one of them is pinned.
3. Candidates of different namespaces are different tools: if exactly one of them is in a
   pinned tab it answers; of several, or where none is, the only one in an active tab does;
   likewise the only one in a focused tab; else nobody does.

Rank is where the person looks, or looked last: pinned, then active, then focused, then
visible, then last focused, each of the tab as a whole; then, within a tab, the document that
has the keyboard; then last heard from, then the later connection. A page is usually hidden
while its notebook is in front, so "looked at last" decides more often than "looks at now".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from .errors import AmbiguousToolError, Place


class Focus(NamedTuple):
    """What is known of where the person looks, in the order in which it counts.

    Attributes:
        pinned: The person said that this tab is to answer.
        active: A browser-side host says that this is its window's active tab.
        focused: The tab has the keyboard.
        visible: The tab can be seen.
        last_focused_at: When it last had the keyboard, in seconds since the epoch, or 0.
        here: This document of the tab has the keyboard.
        last_synced_at: When it last declared or reported anything, in seconds since the epoch.
        order: Running number of its connection; makes the order total.
    """

    pinned: bool
    active: bool
    focused: bool
    visible: bool
    last_focused_at: float
    here: bool
    last_synced_at: float
    order: int


class Candidate(Place, Protocol):
    """A registration that offers the tool."""

    @property
    def focus(self) -> Focus: ...


C = TypeVar("C", bound=Candidate)


class Choice(NamedTuple, Generic[C]):
    """Who answers, and why in a few words a person understands."""

    candidate: C
    why: str


def choose(name: str, candidates: Sequence[C], *, strict: bool = False) -> Choice[C]:
    """Pick the candidate that answers.

    Args:
        name: Name of the tool, for the error.
        candidates: At least one; their order has no influence.
        strict: Whether one app in several tabs is ambiguous as well.

    Raises:
        AmbiguousToolError: If different tools share the name and none stands out; under the
            strict policy also if the app that answers is open in several tabs, none pinned.
    """
    choice = _choose(name, candidates)
    if strict and not choice.candidate.focus.pinned:
        rivals = [c for c in candidates if c.ns == choice.candidate.ns]
        if len(rivals) > 1:
            reason = "the policy is strict, which picks none of several tabs"
            raise AmbiguousToolError(name, _ranked(rivals), reason=reason)
    return choice


def _choose(name: str, candidates: Sequence[C]) -> Choice[C]:
    winners = _ranked(best_by_namespace(candidates).values())
    if len(winners) == 1:
        return Choice(winners[0], _why(winners[0], candidates))
    in_front = winners
    for attribute in ("pinned", "active", "focused"):
        looked_at = [c for c in in_front if getattr(c.focus, attribute)]
        if len(looked_at) == 1:
            return Choice(looked_at[0], f"in the {attribute} tab, of {len(candidates)}")
        in_front = looked_at or in_front
    raise AmbiguousToolError(name, _ranked(candidates))


def _ranked(candidates: Iterable[C]) -> list[C]:
    return sorted(candidates, key=lambda candidate: candidate.focus, reverse=True)


def _why(winner: Candidate, candidates: Sequence[Candidate]) -> str:
    """Name the first part of the rank in which the winner beats the runner-up."""
    if len(candidates) == 1:
        return "the only one"
    runner_up = max(c.focus for c in candidates if c is not winner)
    words = (
        *("pinned", "active", "focused", "visible", "last focused"),
        *("in the frame with the keyboard", "last heard from", "newest"),
    )
    decisive = next(
        word
        for word, mine, other in zip(words, winner.focus, runner_up, strict=True)
        if mine != other
    )
    return f"{decisive} of {len(candidates)}"


def best_by_namespace(candidates: Iterable[C]) -> dict[str, C]:
    """The candidate that stands for each namespace; the others of it are shadowed."""
    best: dict[str, C] = {}
    for candidate in candidates:
        rival = best.get(candidate.ns)
        if rival is None or candidate.focus > rival.focus:
            best[candidate.ns] = candidate
    return best
