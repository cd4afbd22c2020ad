"""Which calls a kernel would wait for in vain: those that have its own notebook run code in it.

Knows Jupyter's list of running servers. Does not know tabs or calls.

A cell that awaits such a tool keeps the kernel busy, the tool waits for the kernel to be free,
and neither ever comes to its end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

_HERE = ("localhost", "127.0.0.1", "::1")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DOES = frozenset("run rerun execute exec eval evaluate restart interrupt shutdown kill".split())
_WITH = frozenset("cell cells code kernel notebook all python selected selection".split())

WHY = (
    "the page is this kernel's own notebook, and the tool would have the kernel run code or "
    "restart while it waits for the tool; call it from another kernel, or do it by hand"
)


class OwnFrontEnd:
    """The pages that show notebooks of the server which this kernel belongs to.

    Args:
        runtime_dir: Where servers say that they run; None asks Jupyter.
        server_pid: Process that started the kernel; None asks the environment.
    """

    def __init__(self, runtime_dir: Path | None = None, server_pid: int | None = None) -> None:
        self._runtime_dir = runtime_dir
        self._server_pid = server_pid

    def refuses(self, url: str, name: str) -> str:
        """Why a call is not to be made; empty where it may be.

        Args:
            url: Address of the tab that would answer.
            name: Name of the tool.
        """
        words = {word.lower() for word in _WORD.findall(name)}
        is_risky = bool(words & _DOES) and bool(words & _WITH)
        return WHY if is_risky and any(_lies_in(url, base) for base in self._addresses) else ""

    @cached_property
    def _addresses(self) -> list[str]:
        return list(self._servers())

    def _servers(self) -> Iterator[str]:
        parent = str(self._server_pid or os.environ.get("JPY_PARENT_PID", ""))
        if not parent:
            return
        if self._runtime_dir is None:
            from jupyter_core.paths import jupyter_runtime_dir

            self._runtime_dir = Path(jupyter_runtime_dir())
        for path in self._runtime_dir.glob("jpserver-*.json"):
            try:
                server = json.loads(path.read_text(encoding="utf-8"))
                if str(server["pid"]) == parent:
                    yield str(server["url"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # being written, or not a server's


def _lies_in(url: str, base: str) -> bool:
    try:
        page, server = urlsplit(url), urlsplit(base)
        ports = page.port, server.port
    except ValueError:
        return False
    is_same_host = page.hostname == server.hostname or {page.hostname, server.hostname} <= {*_HERE}
    path = server.path.rstrip("/") + "/"
    return is_same_host and ports[0] == ports[1] and f"{page.path}/".startswith(path)
