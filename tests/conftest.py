"""A bridge on a thread of its own, pages within it, and a shell without a kernel.

What these need is imported when they are used, so that tests of pure modules do not pay for it.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .helpers import FakePage, Message

if TYPE_CHECKING:
    from pagetools_ipy.bridge import Bridge

DEADLINE = 5.0
"""Seconds after which a test gives up on what should come at once."""

Handlers = dict[str, Callable[[Message], Any]]
NewPage = Callable[..., "HostedPage"]


def eventually(condition: Callable[[], object], what: str) -> None:
    """Poll until ``condition()`` is true."""
    give_up_at = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.005)


class HostedPage:
    """A `FakePage` of a running bridge: all it does, it does on the bridge's thread."""

    def __init__(self, bridge: Bridge, handlers: Handlers | None = None) -> None:
        self._run = bridge.host.run
        self._page = self._run(lambda: FakePage(bridge.directory, handlers))
        self.received = self._page.received
        self.client_id = self._page.client_id

    def __getattr__(self, name: str) -> Any:
        def do(*args: Any, **options: Any) -> Any:
            return self._run(lambda: getattr(self._page, name)(*args, **options))

        return do

    def all(self, type: str) -> list[Message]:
        """The messages of one type that came, in order."""
        return self._page.all(type)

    @property
    def last_call(self) -> Message:
        return self._page.last_call

    @property
    def calls(self) -> list[tuple[str, Message]]:
        """Name and arguments of each call that came, in order."""
        return [(call["name"], call["args"]) for call in self.all("call")]


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    """The process's bridge, on a thread of its own."""
    from pagetools_ipy import bridge as bridges
    from pagetools_ipy.host import ThreadHost

    bridges.stop()
    yield bridges.start(ThreadHost(), port=0)
    bridges.stop()


@pytest.fixture
def new_page(bridge: Bridge) -> NewPage:
    """Connects pages to the process's bridge."""

    def connect(handlers: Handlers | None = None) -> HostedPage:
        return HostedPage(bridge, handlers)

    return connect


@dataclass
class Output:
    """What a cell showed, what it gave and how it failed."""

    text: str
    complaints: str
    value: Any
    error: BaseException | None
    displays: list[dict[str, Any]] = field(default_factory=list)


class Notebook:
    """A shell, used the way a person uses one."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    def run(self, code: str) -> Output:
        """Run a cell."""
        from IPython.utils.capture import capture_output

        with capture_output() as captured:
            result = self.shell.run_cell(code)
        return Output(
            captured.stdout,
            captured.stderr,
            result.result,
            result.error_before_exec or result.error_in_exec,
            [output.data for output in captured.outputs],
        )

    def value(self, code: str) -> Any:
        """Run a cell that must not fail and return its value."""
        output = self.run(code)
        assert output.error is None, output.text + output.complaints
        return output.value

    def completions(self, code: str) -> list[str]:
        """What TAB offers at the end of ``code``, as the lines it would make of the last one."""
        from IPython.core.completer import provisionalcompleter

        with provisionalcompleter():
            found = list(self.shell.Completer.completions(code, len(code)))
        return [(code[: c.start] + c.text).rpartition("\n")[2] for c in found]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A shell without a kernel, with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from pagetools_ipy import bridge as bridges

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell puts its own
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config)
    shell.extension_manager.load_extension("pagetools_ipy")
    yield Notebook(shell)
    shell.extension_manager.unload_extension("pagetools_ipy")
    bridges.stop()
    InteractiveShell.clear_instance()


BLOCKING = {"block_on", "block_thread"}
"""Functions of the package in which a thread waits for what a loop is to bring."""


@contextmanager
def interrupt(*, after: threading.Event | None = None) -> Iterator[None]:
    """Interrupt the main thread, as Ctrl-C does, once it blocks on a call or a coroutine.

    Args:
        after: Is waited for before anything else.
    """
    main = threading.main_thread().ident
    assert main is not None

    def is_blocked() -> bool:
        frame: Any = sys._current_frames()[main]
        if frame.f_code.co_name != "wait":
            return False
        while frame is not None and frame.f_code.co_name not in BLOCKING:
            frame = frame.f_back
        return frame is not None

    def send() -> None:
        if after is not None:
            after.wait(DEADLINE)
        try:
            eventually(is_blocked, "the main thread is blocked")
        finally:
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    thread.join(DEADLINE)
