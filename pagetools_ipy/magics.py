"""``%pagetools``: the magic itself, and what comes and goes with the extension.

Knows IPython. Does not know what a verb does.
"""

from __future__ import annotations

from collections import ChainMap
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)

from .errors import BridgeError
from .request import Request
from .verbs import VERBS, show_panel


@magics_class
class PageToolsMagics(Magics):
    """Holds ``%pagetools`` for one shell."""

    @no_var_expand  # a `$5` in an argument is text; `=$name` is read by us, as an object
    @needs_local_scope  # `=$name` within a function means the function's variable
    @output_can_be_silenced
    @line_cell_magic
    def pagetools(
        self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> Any:
        """Call the tools of web pages that are open in a browser; `%pagetools help` says how."""
        verb, rest = (*line.strip().removesuffix(";").split(None, 1), "", "")[:2]
        function = VERBS.get(verb) if verb else show_panel
        if function is None:
            raise UsageError(f"no verb {verb!r}; there are: {', '.join(VERBS)}")
        if cell is not None and verb != "call":
            raise UsageError("only `%%pagetools call NAME` takes a cell")
        assert self.shell is not None
        request = Request(
            self.shell, rest.strip(), cell, ChainMap(local_ns or {}, self.shell.user_ns)
        )
        return function(request)


_left_behind: WeakKeyDictionary[InteractiveShell, tuple[int, str]] = WeakKeyDictionary()
"""What `unload` leaves for a `load` in the same cell, which is what ``%reload_ext`` is: the
cell's number, and the verb that brings the bridge back to its port."""


def load(shell: InteractiveShell) -> None:
    """Add ``%pagetools``, its completion and the live display of calls to a shell."""
    from .completion import install
    from .live import show_calls

    shell.register_magics(PageToolsMagics)
    install(shell, VERBS)
    show_calls(shell)
    cell, verb = _left_behind.pop(shell, (-1, ""))
    if cell == shell.execution_count:
        shell.run_line_magic("pagetools", verb)


def unload(shell: InteractiveShell) -> None:
    """Undo `load` and stop the bridge."""
    from . import bridge
    from .completion import uninstall
    from .live import hide_calls

    with suppress(BridgeError):
        running = bridge.current()
        embeds = " --mcpb" if running.mcpb_port else ""
        verb = f"start --port {running.port} --{running.host.name}{embeds}"
        _left_behind[shell] = (shell.execution_count, verb)
    bridge.stop()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("pagetools", None)
    shell.magics_manager.registry.pop("PageToolsMagics", None)
    uninstall(shell)
    hide_calls(shell)
