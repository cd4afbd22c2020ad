"""Whether the page that a tab was told to load has been loaded.

Knows three events of a target. Does not know what it loads.
"""

from __future__ import annotations

import asyncio

from ..errors import BrowserError


class Loading:
    """The loading of a tab's next document, where somebody waits for it.

    Attributes:
        has_committed: Whether the tab has another document since.
    """

    def __init__(self) -> None:
        self._outcome: asyncio.Future[None] | None = None
        self.has_committed = False

    def expect(self) -> asyncio.Future[None]:
        """A future of the next document's being loaded, which fails with a `BrowserError`."""
        self.fail("it was told to load another page")
        outcome = self._outcome = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.has_committed = False
        return outcome

    def committed(self) -> None:
        """The tab has another document."""
        self.has_committed = True

    def loaded(self) -> None:
        """A document is loaded: the one before may have been on its way as well."""
        if self._outcome is not None and self.has_committed and not self._outcome.done():
            self._outcome.set_result(None)

    def fail(self, why: str) -> None:
        """Nothing will be loaded any more."""
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(BrowserError(why))
