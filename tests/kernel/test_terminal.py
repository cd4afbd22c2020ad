"""IPython in a terminal: no kernel, so the bridge lives on a thread and serves at the prompt."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import NewPage
from .kernels import SETTLED_AFTER, free_port, private_environment
from .waiting import eventually

pytestmark = pytest.mark.kernel

IPYTHON = [sys.executable, "-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=NoColor"]
IPYTHON += ["--HistoryManager.enabled=False"]


class Terminal:
    """An IPython that reads what is typed from a pipe."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [*IPYTHON, "--simple-prompt"],
            env=private_environment(directory),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self.said = ""
        self._heard = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while text := self.process.stdout.read(1):
            self.said += text

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def expect(self, text: str, timeout: float = 30.0) -> None:
        """Wait until it says something after what was waited for before."""
        try:
            eventually(lambda: text in self.said[self._heard :], repr(text), timeout)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; the terminal says:\n{self.said}") from None
        self._heard = self.said.index(text, self._heard) + len(text)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        finally:
            self.process.kill()
            self.process.wait(timeout=10)
            self._reader.join(timeout=5)
            self.process.stdout.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def test_the_bridge_serves_at_the_prompt_and_calls_work(
    terminal: Terminal, new_page: NewPage
) -> None:
    port = free_port()
    terminal.type("%load_ext pagetools_ipy")
    terminal.type(f"%pagetools start --port {port}")
    terminal.expect(f"http://127.0.0.1:{port}, on its own thread")
    terminal.expect("In [")
    page = new_page(port)
    assert page.all("welcome")
    terminal.type("%pagetools call add a=1 b=2")
    terminal.expect("Out[3]: 3")
    terminal.type("x = %pagetools call add a=20 b=22")
    terminal.type("x")
    terminal.expect("Out[5]: 42")
    terminal.type("from pagetools_ipy import tools")
    terminal.type("await tools.soon()")
    terminal.expect("Out[7]: 'late'")
    terminal.type("tools.add(a=2, b=2)")
    terminal.expect("<PageCall demo/add")
    terminal.type("%pagetools call fail")
    terminal.expect("PageToolError: demo/fail")
    terminal.type("%pagetools stop")
    assert page.wait_closed()[0] == 1001


def test_an_interrupt_at_the_prompt_ends_the_call_and_not_the_session(
    terminal: Terminal, new_page: NewPage
) -> None:
    port = free_port()
    terminal.type("%load_ext pagetools_ipy")
    terminal.type(f"%pagetools start --port {port}")
    terminal.expect("own thread")
    page = new_page(port)
    for code in ("%pagetools call hang --timeout none", "from pagetools_ipy import tools"):
        terminal.type(code)
    page.wait_for("call")
    time.sleep(SETTLED_AFTER)
    terminal.process.send_signal(signal.SIGINT)
    page.wait_for("cancel")
    terminal.expect("KeyboardInterrupt: demo/hang was interrupted")
    terminal.type("await tools.add(a=1, b=2)")
    terminal.expect("Out[5]: 3")
    assert page.is_open


def test_leaving_ends_the_bridge_politely(terminal: Terminal, new_page: NewPage) -> None:
    port = free_port()
    terminal.type("%load_ext pagetools_ipy")
    terminal.type(f"%pagetools start --port {port}")
    terminal.expect("own thread")
    page = new_page(port)
    terminal.type("exit()")
    assert terminal.process.wait(timeout=20) == 0
    assert page.wait_closed()[0] == 1001
    assert "Traceback" not in terminal.said


def test_a_script_run_by_ipython_can_start_and_stop(tmp_path: Path) -> None:
    lines = [
        "%load_ext pagetools_ipy",
        f"%pagetools start --port {free_port()}",
        "%pagetools status",
        "%pagetools stop",
        "%unload_ext pagetools_ipy",
    ]
    said = subprocess.run(
        [*IPYTHON, "-c", "\n".join(lines)],
        env=private_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("on its own thread") == 2
    assert "The bridge is stopped." in said.stdout
    assert said.stderr == ""


def test_the_kernel_host_is_refused_where_there_is_no_kernel(tmp_path: Path) -> None:
    said = subprocess.run(
        [*IPYTHON, "-c", "%load_ext pagetools_ipy\n%pagetools start --kernel"],
        env=private_environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "BridgeError: there is no kernel here" in said.stdout + said.stderr
