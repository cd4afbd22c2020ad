"""Which tab is in front of each window, as hosts on the browser's side report it.

Knows identifiers of tabs and windows, as opaque values, and who reported them.
"""

from __future__ import annotations

from collections.abc import Hashable

MAX_WINDOWS = 256
"""How many windows are kept, the latest ones; nobody has as many open."""


class ActiveTabs:
    """Which tab is in front in each window, as browser-side hosts report it.

    A report lives as long as the connection that made it.
    """

    def __init__(self) -> None:
        self._front: dict[Hashable, tuple[Hashable, str]] = {}
        self._window_of: dict[Hashable, Hashable] = {}

    def __contains__(self, tab: Hashable) -> bool:
        return tab in self._window_of

    def activate(self, tab: Hashable, window: Hashable, reporter: str) -> None:
        """Note that ``tab`` came to the front of ``window``; it leaves any other window."""
        self.deactivate(tab)
        before = self._front.get(window)
        if before is not None:
            del self._window_of[before[0]]
        elif len(self._front) >= MAX_WINDOWS:
            self.deactivate(next(iter(self._front.values()))[0])
        self._front[window] = (tab, reporter)
        self._window_of[tab] = window

    def deactivate(self, tab: Hashable) -> None:
        """Note that ``tab`` is not in front. Says nothing of the tab that is, so late news of
        a tab that had been replaced already has no effect."""
        if tab in self._window_of:
            del self._front[self._window_of.pop(tab)]

    def forget(self, reporter: str) -> bool:
        """Drop what ``reporter`` said; whether that was anything."""
        reported = [tab for tab, who in self._front.values() if who == reporter]
        for tab in reported:
            self.deactivate(tab)
        return bool(reported)
