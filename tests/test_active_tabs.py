"""`active_tabs`: which tab is in front of each window, as hosts report it."""

from __future__ import annotations

from pagetools_ipy.active_tabs import ActiveTabs


def test_one_tab_is_in_front_of_each_window() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w1", "host")
    tabs.activate(2, "w2", "host")
    assert [tab in tabs for tab in (1, 2, 3)] == [True, True, False]
    tabs.activate(3, "w1", "host")
    assert [tab in tabs for tab in (1, 2, 3)] == [False, True, True]


def test_a_tab_that_moves_to_another_window_leaves_its_own_without_a_front() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w1", "host")
    tabs.activate(2, "w2", "host")
    tabs.activate(1, "w2", "host")
    assert [tab in tabs for tab in (1, 2)] == [True, False]
    tabs.activate(3, "w1", "host")
    assert [tab in tabs for tab in (1, 2, 3)] == [True, False, True]


def test_late_news_of_a_tab_that_was_replaced_change_nothing() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w", "host")
    tabs.activate(2, "w", "host")
    tabs.deactivate(1)
    tabs.deactivate(7)
    assert 2 in tabs
    tabs.deactivate(2)
    tabs.deactivate(2)
    assert 2 not in tabs


def test_saying_the_same_again_changes_nothing() -> None:
    tabs = ActiveTabs()
    for _ in range(3):
        tabs.activate(1, "w", "host")
    assert 1 in tabs
    tabs.deactivate(1)
    assert 1 not in tabs


def test_what_a_host_said_is_forgotten_with_it_and_what_others_said_is_not() -> None:
    tabs = ActiveTabs()
    tabs.activate(1, "w1", "a")
    tabs.activate(2, "w2", "b")
    tabs.activate(3, "w3", "a")
    tabs.activate(3, "w3", "b")  # the last word counts
    tabs.forget("a")
    tabs.forget("nobody")
    assert [tab in tabs for tab in (1, 2, 3)] == [False, True, True]


def test_windows_and_tabs_may_be_numbers_or_words_or_unknown() -> None:
    tabs = ActiveTabs()
    tabs.activate("tab", None, "host")
    tabs.activate(2**70, 5, "host")
    assert "tab" in tabs
    tabs.activate("other", None, "host")
    assert [tab in tabs for tab in ("tab", "other", 2**70)] == [False, True, True]
