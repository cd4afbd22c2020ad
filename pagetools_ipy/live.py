"""How a call that is on its way shows itself: a line under its cell that keeps up with it.

Knows IPython's displays. Does not know what a call is about.
"""

from __future__ import annotations

import contextvars
import time
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

if TYPE_CHECKING:
    from .calls import PageCall

REDRAW_EVERY = 0.1
"""Shortest time in seconds between two drawings of one call."""

_CALL_TYPE = ("pagetools_ipy.calls", "PageCall")


def show_calls(shell: InteractiveShell) -> None:
    """Have calls drawn live in a notebook; a terminal shows their repr."""
    if getattr(shell, "kernel", None) is not None:
        _formatter(shell).for_type_by_name(*_CALL_TYPE, _draw)


def hide_calls(shell: InteractiveShell) -> None:
    """Undo `show_calls`."""
    formatter = _formatter(shell)
    formatter.deferred_printers.pop(_CALL_TYPE, None)
    for kind in [k for k, drawn in formatter.type_printers.items() if drawn is _draw]:
        formatter.pop(kind)


def _formatter(shell: InteractiveShell) -> Any:
    assert shell.display_formatter is not None
    return shell.display_formatter.ipython_display_formatter


def _draw(call: PageCall) -> None:
    was_done = call.done()
    handle = display(_bundle(call), raw=True, display_id=True)
    # Updates come from the bridge's own context; this one says which cell they belong to.
    cell = contextvars.copy_context()
    drawn_at = time.monotonic()

    def redraw(call: PageCall) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if call.done() or now - drawn_at >= REDRAW_EVERY:
            drawn_at = now
            cell.copy().run(handle.update, _bundle(call), raw=True)

    if not was_done:
        call.on_change(redraw)


def _bundle(call: PageCall) -> dict[str, Any]:
    return {"text/plain": repr(call), "text/html": call._repr_html_()}
