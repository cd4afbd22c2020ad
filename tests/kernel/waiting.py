"""Waiting for something to become true, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_EVERY = 0.01


def eventually(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    """Poll until ``condition()`` is true.

    Raises:
        AssertionError: If it is not within ``timeout`` seconds, naming ``what``.
    """
    give_up_at = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > give_up_at:
            raise AssertionError(f"not within {timeout:g} s: {what}")
        time.sleep(POLL_EVERY)
