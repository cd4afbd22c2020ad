"""`Bridge`: its life from start to stop, what it remembers, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
import stat
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

import pagetools_ipy
from pagetools_ipy import (
    BridgeError,
    CallState,
    PageGoneError,
    PageToolsError,
    Tools,
    bridge as bridges,
)
from pagetools_ipy.bridge import Bridge, BridgeState
from pagetools_ipy.host import KernelHost, ThreadHost
from pagetools_ipy.runtime import Memory, Remembered
from pagetools_ipy.transports.websocket import bind

from .conftest import DEADLINE, eventually
from .helpers import Message, tool

ORIGIN = Origin("http://localhost:3000")


class Page:
    """A page whose every step the test takes itself."""

    def __init__(self, port: int, ns: str = "todo", token: str | None = None) -> None:
        offered = ["pagetools.v1", *([f"pagetools.token.{token}"] if token else [])]
        self._life = ExitStack()
        self.socket: ClientConnection = self._life.enter_context(
            connect(
                f"ws://127.0.0.1:{port}/tools",
                origin=None if token else ORIGIN,
                subprotocols=[Subprotocol(p) for p in offered],
                compression=None,
                proxy=None,
                ping_interval=None,
                open_timeout=DEADLINE,
                close_timeout=DEADLINE,
            )
        )
        self.say("register", ns=ns, tools=[tool("add"), tool("hang")])
        assert self.hear()["type"] == "registered"

    def say(self, type: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"v": 1, "type": type, **fields}))

    def hear(self) -> Message:
        message: Message = json.loads(self.socket.recv(DEADLINE))
        return message

    def answer(self) -> None:
        """Answer the next call with its arguments."""
        call = self.hear()
        assert call["type"] == "call"
        self.say("result", callId=call["callId"], ok=True, value=call["args"])

    def ended(self) -> tuple[int, str]:
        """Close code and reason, once the bridge has ended the connection."""
        with suppress(ConnectionClosed):
            while True:
                self.socket.recv(DEADLINE)
        assert self.socket.close_code is not None
        return self.socket.close_code, self.socket.close_reason or ""

    def close(self) -> None:
        self._life.close()


def started(port: int | None = 0, memory: Memory | None = None) -> Bridge:
    bridge = Bridge(ThreadHost(), memory)
    try:
        bridge.start(port)
    except BridgeError:
        bridge.host.close()
        raise
    return bridge


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = started()
    yield bridge
    bridge.stop()


@contextmanager
def nothing_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that threads, sockets and tasks that are made here are gone at the end."""
    gc.collect()
    threads = set(threading.enumerate())
    with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert set(threading.enumerate()) - threads == set()
    assert [str(warning.message) for warning in warned] == []
    # What a loop finds amiss, such as a task that was never awaited.
    assert [r.getMessage() for r in caplog.records if r.name == "asyncio"] == []


def is_free(port: int) -> bool:
    try:
        bind(port).close()
    except BridgeError:
        return False
    return True


# Start and stop


def test_a_started_bridge_serves_pages(bridge: Bridge) -> None:
    with closing(Page(bridge.port)) as page:
        assert [row.ns for row in bridge.host.run(bridge.directory.list)] == ["todo"]
        call = Tools(lambda: bridge).add(title="milk")
        page.answer()
        assert call.result(DEADLINE) == {"title": "milk"}


def test_a_page_that_leaves_is_forgotten(bridge: Bridge) -> None:
    with closing(Page(bridge.port)), closing(Page(bridge.port, "shop")) as other:
        other.socket.socket.shutdown(socket.SHUT_RDWR)  # without a word
        eventually(
            lambda: [r.ns for r in bridge.host.run(bridge.directory.list)] == ["todo"],
            "the page is forgotten",
        )


def test_the_state_goes_from_new_to_running_to_stopped() -> None:
    bridge = Bridge(ThreadHost())
    assert (bridge.state, bridge.port) == (BridgeState.NEW, 0)
    bridge.start(0)
    assert bridge.state is BridgeState.RUNNING
    assert bridge.url == f"http://127.0.0.1:{bridge.port}"
    bridge.stop()
    assert str(bridge.state) == str(BridgeState.STOPPED)


def test_a_bridge_is_started_once(bridge: Bridge) -> None:
    with pytest.raises(BridgeError, match="running; make a new one"):
        bridge.start(0)
    bridge.stop()
    with pytest.raises(BridgeError, match="stopped; make a new one"):
        bridge.start(0)


def test_stopping_is_idempotent_and_frees_the_port_at_once() -> None:
    bridge = started()
    for _ in range(3):
        bridge.stop()
        assert is_free(bridge.port)


def test_a_bridge_that_was_never_started_can_be_stopped() -> None:
    bridge = Bridge(ThreadHost())
    bridge.stop()
    assert bridge.state is BridgeState.NEW
    bridge.host.close()


def test_the_same_port_can_be_had_again_at_once_with_pages_on_it() -> None:
    bridge = started()
    port = bridge.port
    for _ in range(5):
        with closing(Page(port)) as page:
            bridge.stop()
            bridge = started(port)
            assert page.ended() == (1001, "the bridge was stopped")
    assert bridge.port == port
    bridge.stop()


def test_a_port_that_cannot_be_had_leaves_the_bridge_new() -> None:
    with bind(0) as taken:
        port = taken.getsockname()[1]
        bridge = Bridge(ThreadHost())
        with pytest.raises(BridgeError, match=f"port {port} cannot be used"):
            bridge.start(port)
    assert bridge.state is BridgeState.NEW
    bridge.start(port)
    bridge.stop()


def test_the_repr_says_where_it_is_and_not_the_token(tmp_path: Path) -> None:
    token = "s" * 40
    bridge = Bridge(ThreadHost())
    assert repr(bridge) == "<Bridge new, http://127.0.0.1:0, thread host>"
    bridge.start(0)
    bridge._token = token
    assert repr(bridge) == f"<Bridge running, http://127.0.0.1:{bridge.port}, thread host>"
    bridge.stop()
    assert "stopped" in repr(bridge)
    assert token not in repr(Remembered(1, token))


# The one of the process


@pytest.fixture
def no_bridge() -> Iterator[None]:
    bridges.stop()
    yield
    bridges.stop()


@pytest.mark.usefixtures("no_bridge")
def test_the_process_has_one_bridge_and_says_on_which_port() -> None:
    running = bridges.start(ThreadHost(), port=0)
    assert bridges.current() is running
    second = ThreadHost()
    with pytest.raises(BridgeError, match=f"running on port {running.port} already"):
        bridges.start(second, port=0)
    second.close()
    assert bridges.current() is running
    assert running.state is BridgeState.RUNNING


@pytest.mark.usefixtures("no_bridge")
def test_without_a_bridge_the_error_says_how_to_start_one() -> None:
    with pytest.raises(BridgeError, match="%pagetools start"):
        bridges.current()
    running = bridges.start(ThreadHost(), port=0)
    running.stop()
    with pytest.raises(BridgeError, match="%pagetools start"):
        bridges.current()
    bridges.start(ThreadHost(), port=running.port)


@pytest.mark.usefixtures("no_bridge")
def test_stopping_the_process_bridge_is_idempotent() -> None:
    bridges.stop()
    running = bridges.start(ThreadHost(), port=0)
    for _ in range(2):
        bridges.stop()
        assert running.state is BridgeState.STOPPED


@pytest.mark.usefixtures("no_bridge")
def test_a_start_that_failed_leaves_no_bridge_behind() -> None:
    with bind(0) as taken:
        host = ThreadHost()
        with pytest.raises(BridgeError):
            bridges.start(host, port=taken.getsockname()[1])
        host.close()
    with pytest.raises(BridgeError, match="not running"):
        bridges.current()


# Memory


@pytest.fixture
def runtime_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's runtime directory, with the connection files of two kernels."""
    directory = tmp_path / "runtime"
    directory.mkdir()
    for number in (1, 2):
        (directory / f"kernel-{number}.json").write_text("{}")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(directory))
    return directory


def kept_in(directory: Path) -> list[str]:
    """Names of the files that bridges keep there."""
    return sorted(path.name for path in directory.glob("pagetools-*"))


def path_of(memory: Memory) -> Path:
    assert memory.path is not None
    return memory.path


def die(bridge: Bridge) -> None:
    """Stop a bridge and leave the file it keeps, as a process does that is killed."""
    path = path_of(bridge._memory)
    kept = path.read_bytes()
    bridge.stop()
    path.write_bytes(kept)


def test_port_and_token_survive_a_kernel_that_is_killed(runtime_dir: Path) -> None:
    first = started(None, Memory("kernel-1"))
    port, token = first.port, first._token
    die(first)
    second = started(None, Memory("kernel-1"))
    try:
        assert (second.port, second._token) == (port, token)
        with closing(Page(port, token=token)) as page:
            call = Tools(lambda: second).add()
            page.answer()
            assert call.result(DEADLINE) == {}
    finally:
        second.stop()


LEAVES = """
import sys
from pagetools_ipy import bridge
from pagetools_ipy.host import ThreadHost
from pagetools_ipy.runtime import Memory

print(bridge.start(ThreadHost(), port=0, memory=Memory("kernel-1")).port, flush=True)
sys.stdin.read()
"""


def test_port_and_token_survive_a_kernel_that_exits_politely(runtime_dir: Path) -> None:
    kernel = subprocess.Popen(
        [sys.executable, "-c", LEAVES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with kernel:
        assert kernel.stdout is not None
        assert kernel.stdin is not None
        port = int(kernel.stdout.readline())
        kept = Memory("kernel-1").recall()
        with closing(Page(port)) as page:
            kernel.stdin.close()
            assert page.ended() == (1001, "the bridge was stopped")
    assert kernel.returncode == 0
    again = started(None, Memory("kernel-1"))
    assert (again.port, again._token) == (port, kept.token)
    again.stop()


def test_what_is_kept_is_readable_by_its_owner_only(runtime_dir: Path) -> None:
    bridge = started(memory=Memory("kernel-1"))
    assert kept_in(runtime_dir) == ["pagetools-kernel-1.json"]
    file = path_of(bridge._memory)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"port": bridge.port, "token": bridge._token}
    bridge.stop()


def test_a_file_that_others_could_read_is_closed_to_them(runtime_dir: Path) -> None:
    path = path_of(Memory("kernel-1"))
    path.write_text(json.dumps({"port": None, "token": "t" * 40}))
    path.chmod(0o644)
    bridge = started(memory=Memory("kernel-1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    bridge.stop()


def test_a_stop_forgets_and_the_next_start_has_another_token(runtime_dir: Path) -> None:
    first = started(memory=Memory("kernel-1"))
    first.stop()
    assert kept_in(runtime_dir) == []
    second = started(memory=Memory("kernel-1"))
    assert second._token != first._token
    second.stop()


def test_tokens_cannot_be_guessed(runtime_dir: Path) -> None:
    tokens = {Memory(None).recall().token for _ in range(20)}
    assert len(tokens) == 20
    assert min(len(token) for token in tokens) >= 43  # 256 bit


def test_kernels_do_not_share_what_they_keep(runtime_dir: Path) -> None:
    one, other = started(memory=Memory("kernel-1")), started(memory=Memory("kernel-2"))
    assert kept_in(runtime_dir) == ["pagetools-kernel-1.json", "pagetools-kernel-2.json"]
    assert one._token != other._token
    one.stop()
    assert Memory("kernel-2").recall() == Remembered(other.port, other._token)
    other.stop()


def test_without_a_key_nothing_is_written(runtime_dir: Path) -> None:
    bridge = started(memory=Memory(None))
    assert kept_in(runtime_dir) == []
    bridge.stop()


def test_the_directory_is_made_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter" / "runtime"))
    bridge = started(memory=Memory("kernel-1"))
    assert kept_in(tmp_path / "jupyter" / "runtime") == ["pagetools-kernel-1.json"]
    bridge.stop()


def test_what_kernels_left_that_are_gone_is_removed(runtime_dir: Path) -> None:
    die(started(memory=Memory("kernel-1")))
    die(started(memory=Memory("kernel-2")))
    (runtime_dir / "kernel-1.json").unlink()
    bridge = started(memory=Memory("kernel-2"))
    assert kept_in(runtime_dir) == ["pagetools-kernel-2.json"]
    assert (runtime_dir / "kernel-2.json").exists()
    bridge.stop()


TOKEN = "t" * 40


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"port": "9319", "token": "%s"}' % TOKEN.encode(),
        b'{"port": 1.5, "token": "%s"}' % TOKEN.encode(),
        b'{"port": 9319}',
        b'{"port": 9319, "token": null}',
        b'{"port": 9319, "token": "short"}',
        b'{"port": 70000, "token": "%s"}' % TOKEN.encode(),
        b'{"port": -1, "token": "%s"}' % TOKEN.encode(),
    ],
)
def test_a_damaged_file_keeps_no_bridge_from_starting(runtime_dir: Path, content: bytes) -> None:
    path = path_of(Memory("kernel-1"))
    path.write_bytes(content)
    bridge = started(None, Memory("kernel-1"))
    assert bridge.port > 0
    assert len(bridge._token) >= 32
    assert json.loads(path.read_text()) == {"port": bridge.port, "token": bridge._token}
    bridge.stop()


def test_a_port_taken_meanwhile_is_replaced_and_the_token_kept(runtime_dir: Path) -> None:
    first = started(memory=Memory("kernel-1"))
    port, token = first.port, first._token
    die(first)
    with bind(port):
        second = started(None, Memory("kernel-1"))
        assert second.port != port
        assert second._token == token
        assert Memory("kernel-1").recall() == Remembered(second.port, token)
        second.stop()


def test_a_port_that_is_asked_for_wins_over_the_one_that_is_kept(runtime_dir: Path) -> None:
    first = started(memory=Memory("kernel-1"))
    port, token = first.port, first._token
    die(first)
    with bind(0) as other:
        wanted = other.getsockname()[1]
    second = started(wanted, Memory("kernel-1"))
    assert (second.port, second._token) == (wanted, token)
    assert wanted != port
    second.stop()


def test_where_nothing_can_be_written_the_bridge_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a file"
    file.write_text("not a directory")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(file / "runtime"))
    bridge = started(memory=Memory("kernel-1"))
    try:
        with closing(Page(bridge.port)):
            pass
    finally:
        try:
            bridge.stop()
        finally:
            bridge.host.close()
    assert is_free(bridge.port)


# What stop does to what is on its way


def test_pending_calls_end_as_gone_when_the_bridge_stops(bridge: Bridge) -> None:
    with closing(Page(bridge.port)) as page:
        tools = Tools(lambda: bridge)
        calls = [tools.hang(), tools.hang(timeout=None), tools.add()]
        for _ in calls:
            page.hear()
        bridge.stop()
        for call in calls:
            assert call.state is CallState.GONE
            with pytest.raises(PageGoneError) as raised:
                call.result(0)
            assert raised.value.sent
        assert page.ended() == (1001, "the bridge was stopped")


def test_a_cell_that_awaits_a_call_is_told_when_the_bridge_stops(bridge: Bridge) -> None:
    async def cell() -> None:
        call = Tools(lambda: bridge).hang(timeout=None)
        threading.Thread(target=bridge.stop).start()
        await asyncio.wait_for(call._wait(), DEADLINE)

    with closing(Page(bridge.port)), pytest.raises(PageGoneError):
        asyncio.run(cell())


def test_who_waits_for_a_tool_is_told_when_the_bridge_stops(bridge: Bridge) -> None:
    async def cell() -> None:
        waiting = asyncio.ensure_future(Tools(lambda: bridge).wait_for("nothing", timeout=None))
        await asyncio.to_thread(
            eventually, lambda: bridge.directory._pulse, "somebody waits for a tool"
        )
        stopping = threading.Thread(target=bridge.stop)
        stopping.start()
        try:
            await asyncio.wait_for(waiting, DEADLINE)
        finally:
            await asyncio.to_thread(stopping.join)

    with pytest.raises(PageToolsError):
        asyncio.run(cell())


def test_a_call_to_a_stopped_bridge_says_so(bridge: Bridge) -> None:
    with closing(Page(bridge.port)):
        add = Tools(lambda: bridge).add
    bridge.stop()
    with pytest.raises((BridgeError, RuntimeError)):
        add()


# One page's faults


def test_a_page_that_breaks_the_pump_drops_only_itself(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handle = bridge.directory.handle_client_message

    def fail(client_id: str, raw: object) -> None:
        if isinstance(raw, dict) and raw.get("type") == "bomb":
            raise ZeroDivisionError("a bug of ours")
        handle(client_id, raw)

    monkeypatch.setattr(bridge.directory, "handle_client_message", fail)
    with closing(Page(bridge.port)) as good, closing(Page(bridge.port, "bad")) as bad:
        call = Tools(lambda: bridge).on(ns="bad").hang()
        bad.hear()
        bad.say("bomb")
        bad.ended()
        with pytest.raises(PageGoneError):
            call.result(DEADLINE)
        assert [row.ns for row in bridge.host.run(bridge.directory.list)] == ["todo"]
        call = Tools(lambda: bridge).add(n=1)
        good.answer()
        assert call.result(DEADLINE) == {"n": 1}
        with closing(Page(bridge.port, "late")):
            assert bridge.host.run(bridge.directory.summary).clients == 2
    assert "was dropped" in caplog.text


def test_a_document_that_connects_again_ends_its_old_connection(bridge: Bridge) -> None:
    def greet(page: Page) -> None:
        page.say("hello", tab={"id": "tab-1", "docId": "doc-1"}, frame={"top": True})
        assert page.hear()["type"] == "welcome"

    with closing(Page(bridge.port)) as old, closing(Page(bridge.port)) as new:
        greet(old)
        greet(new)
        assert old.ended()[0] == 4409
        assert bridge.host.run(bridge.directory.summary).clients == 1
        call = Tools(lambda: bridge).add(n=1)
        new.answer()
        assert call.result(DEADLINE) == {"n": 1}


# What is left


def whole_life() -> weakref.ref[Bridge]:
    """A bridge with pages and a pending call, from start to stop."""
    bridge = started()
    pages = [Page(bridge.port, f"ns-{number}") for number in range(5)]
    call = Tools(lambda: bridge).on(ns="ns-0").hang()
    pages[0].hear()
    bridge.stop()
    assert bridge.host.loop.is_closed()
    assert is_free(bridge.port)
    for page in pages:
        assert page.ended() == (1001, "the bridge was stopped")
        page.close()
    with pytest.raises(PageGoneError):
        call.result(0)
    return weakref.ref(bridge)


def test_nothing_is_left_of_a_stopped_bridge(caplog: pytest.LogCaptureFixture) -> None:
    with nothing_left(caplog):
        bridge = whole_life()
        gc.collect()
        assert bridge() is None


def test_nothing_is_left_of_a_bridge_that_is_stopped_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with nothing_left(caplog):
        for _ in range(20):
            bridge = started()
            bridge.stop()
            assert is_free(bridge.port)


def test_a_connection_that_says_nothing_does_not_hold_up_the_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Browsers open such connections ahead of need.
    with nothing_left(caplog):
        bridge = started()
        with socket.create_connection(("127.0.0.1", bridge.port)), closing(Page(bridge.port)):
            began = time.monotonic()
            bridge.stop()
            took = time.monotonic() - began
    assert took < 2


# In the kernel's loop


def in_kernel(cell: Callable[[KernelHost], Awaitable[None]]) -> None:
    async def main() -> None:
        await cell(KernelHost(asyncio.get_running_loop()))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


async def until(condition: Callable[[], object], what: str) -> None:
    give_up_at = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {DEADLINE:g} s: {what}"
        await asyncio.sleep(0.005)


async def tasks_ended() -> None:
    await until(lambda: len(asyncio.all_tasks()) == 1, "all tasks have ended")


def test_a_bridge_lives_in_the_kernels_loop_and_leaves_it_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def cell(host: KernelHost) -> None:
        bridge = Bridge(host)
        bridge.start(0)
        assert repr(bridge) == f"<Bridge running, http://127.0.0.1:{bridge.port}, kernel host>"
        url = f"ws://127.0.0.1:{bridge.port}/tools"
        async with connect_async(url, origin=ORIGIN, compression=None, proxy=None) as page:
            await page.send(json.dumps({"type": "register", "ns": "a", "tools": [tool("add")]}))
            assert json.loads(await page.recv())["type"] == "registered"
            call = Tools(lambda: bridge).add(n=1)
            message = json.loads(await page.recv())
            answer = {"type": "result", "callId": message["callId"], "ok": True, "value": 2}
            await page.send(json.dumps(answer))
            assert await call == 2
            pending = Tools(lambda: bridge).add(n=1)
            bridge.stop()
            assert is_free(bridge.port)
            with pytest.raises(PageGoneError):
                await pending
            await asyncio.wait_for(page.wait_closed(), DEADLINE)
            assert (page.close_code, page.close_reason) == (1001, "the bridge was stopped")
        await tasks_ended()

    with nothing_left(caplog):
        in_kernel(cell)


def test_a_bridge_may_be_stopped_in_the_cell_that_started_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def cell(host: KernelHost) -> None:
        bridge = Bridge(host)
        bridge.start(0)
        bridge.stop()
        assert is_free(bridge.port)
        again = Bridge(host)
        again.start(bridge.port)
        again.stop()
        await tasks_ended()

    with nothing_left(caplog):
        in_kernel(cell)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_bridge_may_be_stopped_while_it_begins_to_serve(
    caplog: pytest.LogCaptureFixture, steps: int
) -> None:
    async def cell(host: KernelHost) -> None:
        bridge = Bridge(host)
        bridge.start(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        bridge.stop()
        assert is_free(bridge.port)
        await tasks_ended()

    with nothing_left(caplog):
        in_kernel(cell)


def test_the_same_port_can_be_had_again_in_the_same_cell() -> None:
    async def cell(host: KernelHost) -> None:
        bridge = Bridge(host)
        bridge.start(0)
        url = f"ws://127.0.0.1:{bridge.port}/tools"
        async with connect_async(url, origin=ORIGIN, proxy=None) as old:
            bridge.stop()
            again = Bridge(host)
            again.start(bridge.port)
            async with connect_async(url, origin=ORIGIN, proxy=None) as new:
                await asyncio.wait_for(old.wait_closed(), DEADLINE)
                await new.send("{")
                assert json.loads(await new.recv())["type"] == "rejected"
            again.stop()
        await tasks_ended()

    in_kernel(cell)


def test_who_waits_for_a_tool_in_the_kernel_is_told_when_the_bridge_stops() -> None:
    async def cell(host: KernelHost) -> None:
        bridge = Bridge(host)
        bridge.start(0)
        waiting = asyncio.ensure_future(Tools(lambda: bridge).wait_for("nothing", timeout=None))
        await until(lambda: bridge.directory._pulse, "somebody waits for a tool")
        bridge.stop()
        with pytest.raises(PageToolsError):
            await asyncio.wait_for(waiting, 1)
        await tasks_ended()

    in_kernel(cell)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_file_descriptors_do_not_add_up() -> None:
    def count() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def cycle() -> None:
        bridge = started()
        with closing(Page(bridge.port)) as page:
            bridge.stop()
            page.ended()

    cycle()
    before = count()
    for _ in range(10):
        cycle()
    assert count() <= before


def test_a_script_starts_and_stops_the_bridge_itself() -> None:
    running = pagetools_ipy.start(port=0)
    try:
        assert bridges.current() is running
        assert running.host.name == "thread"
    finally:
        pagetools_ipy.stop()
    with pytest.raises(BridgeError):
        bridges.current()
