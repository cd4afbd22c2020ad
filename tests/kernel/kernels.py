"""A real IPython kernel that touches nothing of the machine, and the cells it runs."""

from __future__ import annotations

import ast
import json
import math
import os
import random
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

HOSTS = ("kernel", "thread")
FLAGS = {"kernel": "", "thread": "--thread"}
START_TIMEOUT = 60.0
SETTLED_AFTER = 0.13
"""Seconds from the sending of a call until its cell waits for the answer, at the most."""

CELL_TIMEOUT = 30.0
INTERRUPTED = ("KeyboardInterrupt", "CancelledError")
"""How an interrupted cell ends: the one when it blocks, the other when it awaits."""

Message = dict[str, Any]


def free_port(count: int = 1) -> int:
    """The first of ``count`` ports in a row that nobody listens on.

    Below the range from which the system hands out ports of its own accord.
    """
    for _ in range(100):
        first = random.randrange(20000, 30000)
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise AssertionError("no free port")


def is_free(port: int) -> bool:
    """Whether a bridge could listen there."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def private_environment(directory: Path) -> dict[str, str]:
    """Environment of a process that keeps its Jupyter and IPython files in ``directory``."""
    places = {
        "JUPYTER_RUNTIME_DIR": directory / "runtime",
        "JUPYTER_DATA_DIR": directory / "data",
        "JUPYTER_CONFIG_DIR": directory / "config",
        "IPYTHONDIR": directory / "ipython",
    }
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    quiet = {"PYDEVD_DISABLE_FILE_VALIDATION": "1"}  # else debugpy may warn at any time
    return {**os.environ, **quiet, **{name: str(place) for name, place in places.items()}}


@dataclass
class Cell:
    """One execution and what the front end was told of it."""

    id: str
    code: str
    reply: Message | None = None
    replied_at: float = 0.0
    idle: bool = False
    stdout: str = ""
    errors: list[Message] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    displays: list[Message] = field(default_factory=list)
    updates: list[Message] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.reply is not None and self.idle

    @property
    def ok(self) -> bool:
        return self.reply is not None and self.reply["status"] == "ok"

    @property
    def ename(self) -> str:
        """Class of the error that ended the cell; also where the front end is not told of it."""
        assert self.reply is not None
        return str(self.reply["ename"])

    @property
    def evalue(self) -> str:
        assert self.reply is not None
        return str(self.reply["evalue"])

    @property
    def traceback(self) -> list[str]:
        """What the front end shows of the error."""
        (error,) = self.errors
        assert error["ename"] == self.ename
        assert error["evalue"] == self.evalue
        return list(error["traceback"])

    @property
    def value(self) -> Any:
        """The value shown below the cell, when it is a Python literal."""
        return ast.literal_eval(self.results[-1]["data"]["text/plain"])


class Kernel:
    """A kernel with a front end.

    Args:
        directory: Empty place for everything it writes.
    """

    def __init__(self, directory: Path) -> None:
        self.environment = private_environment(directory)
        self.runtime = directory / "runtime"
        self.stderr = ""
        self.comm_messages: list[Message] = []
        self._cells: dict[str, Cell] = {}
        self._controls: dict[str, Message] = {}
        self._log = (directory / "kernel.log").open("w")
        self.manager = KernelManager(
            kernel_name="private",
            kernel_spec_manager=_kernel_specs(directory),
            connection_file=str(self.runtime / "kernel-private.json"),
        )
        self.manager.start_kernel(
            env=self.environment, cwd=str(directory), stdout=self._log, stderr=self._log
        )
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels(stdin=False, hb=False)
        self._wait_until_up()

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self._log.close()

    def _wait_until_up(self) -> None:
        """Ask until the kernel answers and the broadcast channel is known to be read."""
        give_up_at = time.monotonic() + START_TIMEOUT
        while time.monotonic() < give_up_at:
            cell = self.submit("None")
            self.pump(0.5, cell)
            if cell.done:
                return
        raise AssertionError("the kernel does not start")

    # Cells

    def submit(self, code: str, subshell: str | None = None) -> Cell:
        """Send a cell and do not wait for it."""
        message = self.client.session.msg(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": False,
            },
        )
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        cell = Cell(message["header"]["msg_id"], code)
        self._cells[cell.id] = cell
        self.client.shell_channel.send(message)
        return cell

    def wait(self, *cells: Cell, timeout: float = CELL_TIMEOUT) -> None:
        """Wait until cells have ended, well or not."""
        give_up_at = time.monotonic() + timeout
        for cell in cells:
            self.pump(give_up_at - time.monotonic(), cell)
            assert cell.done, f"did not end within {timeout:g} s: {cell.code}"

    def finish(self, *cells: Cell, timeout: float = CELL_TIMEOUT) -> None:
        """Wait until cells have ended well."""
        self.wait(*cells, timeout=timeout)
        for cell in cells:
            assert cell.ok, f"{cell.code}\n" + "\n".join(cell.traceback)

    def run(self, code: str, timeout: float = CELL_TIMEOUT, subshell: str | None = None) -> Cell:
        """Run a cell that ends well."""
        cell = self.submit(code, subshell)
        self.finish(cell, timeout=timeout)
        return cell

    def fail(self, code: str, timeout: float = CELL_TIMEOUT) -> Cell:
        """Run a cell that ends in an error."""
        cell = self.submit(code)
        self.wait(cell, timeout=timeout)
        assert not cell.ok, f"did not fail: {code}"
        return cell

    def value(self, expression: str, subshell: str | None = None) -> Any:
        """Value of the last expression of a cell, a Python literal."""
        return self.run(expression, subshell=subshell).value

    def wait_for_output(self, cell: Cell, text: str, timeout: float = CELL_TIMEOUT) -> None:
        """Wait until a running cell has printed something."""
        give_up_at = time.monotonic() + timeout
        while text not in cell.stdout:
            assert time.monotonic() < give_up_at, f"{text!r} was not printed: {cell}"
            self.pump(0.01)

    def pump(self, seconds: float, until: Cell | None = None) -> None:
        """Read what the kernel sends, until a cell has ended or the time is up."""
        channels = [self.client.shell_channel, self.client.iopub_channel]
        channels.append(self.client.control_channel)
        poller = zmq.Poller()
        for channel in channels:
            poller.register(channel.socket, zmq.POLLIN)
        give_up_at = time.monotonic() + seconds
        while until is None or not until.done:
            rest = give_up_at - time.monotonic()
            ready = dict(poller.poll(max(0, math.ceil(rest * 1000))))
            for channel in channels:
                if channel.socket in ready:
                    self._receive(channel.get_msg(timeout=0))
            if not ready and rest <= 0:
                return

    def _receive(self, message: Message) -> None:
        kind, content = message["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id", "")
        cell = self._cells.get(parent) or Cell(parent, "")
        match kind:
            case "execute_reply":
                cell.reply, cell.replied_at = content, time.monotonic()
            case "status" if content["execution_state"] == "idle":
                cell.idle = True
            case "stream" if content["name"] == "stdout":
                cell.stdout += content["text"]
            case "stream":
                self.stderr += content["text"]
            case "error":
                cell.errors.append(content)
            case "execute_result":
                cell.results.append(content)
            case "display_data":
                cell.displays.append(content)
            case "update_display_data":
                cell.updates.append(content)
            case "comm_open" | "comm_msg" | "comm_close":
                self.comm_messages.append(message)
            case "create_subshell_reply" | "delete_subshell_reply":
                self._controls[parent] = content

    # Beside cells

    def send(self, kind: str, content: Message) -> None:
        """Send a message on the shell channel, as a widget's front end does."""
        self.client.shell_channel.send(self.client.session.msg(kind, content))

    def ask_control(self, kind: str, content: Message) -> Message:
        """Send a request on the control channel and return what it is answered."""
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        give_up_at = time.monotonic() + CELL_TIMEOUT
        while message["header"]["msg_id"] not in self._controls:
            assert time.monotonic() < give_up_at, f"no answer to {kind}"
            self.pump(0.05)
        return self._controls[message["header"]["msg_id"]]

    def interrupt(self, after: float = SETTLED_AFTER) -> float:
        """Do what the stop button does, ``after`` seconds from now.

        Returns:
            When it was done, by the monotonic clock.
        """
        self.pump(after)
        self.manager.interrupt_kernel()
        return time.monotonic()

    def restart(self, *, kill: bool) -> None:
        """Restart, asking the kernel to end or killing it."""
        self.manager.restart_kernel(now=kill)
        self._cells.clear()
        self._wait_until_up()

    # The product

    def load(self) -> None:
        self.run("%load_ext pagetools_ipy")
        self.run("from pagetools_ipy import tools")

    def start_bridge(self, host: str, port: int | None = None) -> int:
        """Start the bridge if it does not run, and return its port."""
        where = "" if port is None else f"--port {port}"
        self.run(f"%pagetools start {where} {FLAGS[host]}")
        return self.bridge_port()

    def bridge_port(self) -> int:
        port = self.value("from pagetools_ipy import bridge as _b; _b.current().port")
        assert isinstance(port, int)
        return port

    def memory_file(self) -> Path:
        """Where the kernel keeps its port and token."""
        (path,) = self.runtime.glob("pagetools-*.json")
        return path

    def token(self) -> str:
        return str(json.loads(self.memory_file().read_text())["token"])


def _kernel_specs(directory: Path) -> KernelSpecManager:
    """Knows one kernel, that of the current interpreter, whatever is installed."""
    spec = directory / "specs" / "private" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Private", "language": "python"}))
    return KernelSpecManager(kernel_dirs=[str(spec.parent.parent)], ensure_native_kernel=False)
