"""Call the tools of web pages open in a browser from a notebook, as Python awaitables.

    %load_ext pagetools_ipy
    %pagetools start
    from pagetools_ipy import tools
    await tools.add_todo(title="buy milk")

Neither this nor ``%load_ext`` loads a third-party package: names are imported from their
modules when they are first used.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from .errors import *  # noqa: F403
from .errors import __all__ as _errors

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .bridge import start, stop
    from .browser_tabs import Tab, Tabs, list_clients, tabs
    from .browsing import attach, close_browsers, detach, open_browser
    from .callables import PageTool, Tools, tools
    from .calls import CallState, PageCall
    from .directory import PageToolDirectory
    from .results import Image, ToolResult
    from .views import PageToolRegistration, TabState, format_page_tools_changed

__version__ = "0.1.0"

_MODULES = {
    "CallState": ".calls",
    "Image": ".results",
    "PageCall": ".calls",
    "PageTool": ".callables",
    "PageToolDirectory": ".directory",
    "PageToolRegistration": ".views",
    "Tab": ".browser_tabs",
    "TabState": ".views",
    "Tabs": ".browser_tabs",
    "ToolResult": ".results",
    "Tools": ".callables",
    "attach": ".browsing",
    "close_browsers": ".browsing",
    "detach": ".browsing",
    "format_page_tools_changed": ".views",
    "list_clients": ".browser_tabs",
    "open_browser": ".browsing",
    "start": ".bridge",
    "stop": ".bridge",
    "tabs": ".browser_tabs",
    "tools": ".callables",
}

__all__ = [
    "CallState",
    "Image",
    "PageCall",
    "PageTool",
    "PageToolDirectory",
    "PageToolRegistration",
    "Tab",
    "TabState",
    "Tabs",
    "ToolResult",
    "Tools",
    "attach",
    "close_browsers",
    "detach",
    "format_page_tools_changed",
    "list_clients",
    "open_browser",
    "start",
    "stop",
    "tabs",
    "tools",
]
__all__ += _errors

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%pagetools`` to a shell. Called by ``%load_ext pagetools_ipy``; idempotent."""
    from .magics import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take ``%pagetools`` away again and stop the bridge. Called by ``%unload_ext``."""
    from .magics import unload

    unload(shell)
