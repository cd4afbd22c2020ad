"""Starting, stopping, loading and unloading."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from .conftest import NewKernel, NewPage
from .kernels import FLAGS, Kernel, free_port, is_free
from .waiting import eventually

pytestmark = pytest.mark.kernel

DEFAULT_PORTS = range(9319, 9329)


@pytest.fixture(autouse=True)
def stopped(kernel: Kernel) -> None:
    """Every test of this module begins with the extension loaded and no bridge."""
    kernel.run("%load_ext pagetools_ipy\n%pagetools stop")


@contextmanager
def taken(port: int) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", port)):
        yield


# Starting and stopping


def test_starting_twice_keeps_the_bridge_its_port_and_its_pages(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    port = kernel.start_bridge(host, free_port())
    page = new_page(port)
    assert kernel.start_bridge(host) == port
    assert kernel.start_bridge(host, port) == port
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert page.is_open


def test_starting_on_another_port_while_it_runs_is_an_error_that_names_its_port(
    kernel: Kernel, host: str
) -> None:
    port = kernel.start_bridge(host, free_port())
    cell = kernel.fail(f"%pagetools start --port {free_port()} {FLAGS[host]}")
    assert cell.ename == "BridgeError"
    assert str(port) in cell.evalue
    assert kernel.bridge_port() == port


def test_stopping_closes_pages_and_frees_the_port_at_once(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    port = kernel.start_bridge(host, free_port())
    page = new_page(port)
    kernel.run("%pagetools stop")
    assert is_free(port)
    code, reason = page.wait_closed()
    assert code == 1001
    assert reason


def test_stopping_twice_is_no_error(kernel: Kernel, host: str) -> None:
    kernel.start_bridge(host, free_port())
    kernel.run("%pagetools stop\n%pagetools stop")


def test_stopping_ends_pending_calls(kernel: Kernel, host: str, new_page: NewPage) -> None:
    new_page(kernel.start_bridge(host, free_port()))
    kernel.run("call = tools.hang(timeout=None)")
    kernel.run("%pagetools stop")
    assert kernel.fail("await call").ename == "PageGoneError"


def test_stopping_ends_a_call_that_a_cell_awaits(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    page = new_page(kernel.start_bridge(host, free_port()))
    cell = kernel.submit(
        "import asyncio\n"
        "from pagetools_ipy import bridge\n"
        "asyncio.get_running_loop().call_later(0.3, bridge.stop)\n"
        "await tools.hang(timeout=None)"
    )
    page.wait_for("call")
    kernel.wait(cell)
    assert cell.ename == "PageGoneError"


def test_a_stopped_bridge_starts_again_at_once_on_its_port(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    port = kernel.start_bridge(host, free_port())
    redialing = new_page(port, redial=True)
    for _ in range(5):
        kernel.run(f"%pagetools stop\n%pagetools start --port {port} {FLAGS[host]}")
        redialing.wait_for("registered")
    assert kernel.value("await tools.add(a=1, b=2)") == 3


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
def test_starting_and_stopping_many_times_leaves_nothing_behind(kernel: Kernel, host: str) -> None:
    port = free_port()
    cycle = f"%pagetools start --port {port} {FLAGS[host]}\n%pagetools stop\n"
    count = (
        "import asyncio, threading, os\n"
        "[len(os.listdir('/proc/self/fd')), threading.active_count(), len(asyncio.all_tasks())]"
    )
    kernel.run(cycle * 2)
    before = kernel.value(count)
    kernel.run(cycle * 20)

    def is_level() -> bool:
        return all(now <= then for now, then in zip(kernel.value(count), before, strict=True))

    # ipykernel keeps a socket for each thread that sent something, for ten seconds after its end.
    eventually(is_level, f"files, threads, tasks: {before}", timeout=25)


def test_the_bridge_can_move_to_the_other_host(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    other = {"kernel": "thread", "thread": "kernel"}[host]
    port = kernel.start_bridge(host, free_port())
    redialing = new_page(port, redial=True)
    kernel.run("%pagetools stop")
    assert kernel.start_bridge(other, port) == port
    redialing.wait_for("registered")
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert kernel.value("%pagetools call add a=1 b=2") == 3


def test_the_status_says_what_runs_and_who_is_connected(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    assert "not running" in kernel.run("%pagetools status").stdout
    port = kernel.start_bridge(host, free_port())
    alone = kernel.run("%pagetools status").stdout
    assert f"http://127.0.0.1:{port}" in alone
    assert {"kernel": "kernel's loop", "thread": "own thread"}[host] in alone
    assert "No page is connected" in alone
    new_page(port)
    new_page(port, ns="other")
    assert "2 tabs connected" in kernel.run("%pagetools status").stdout
    kernel.run("%pagetools stop")
    assert "not running" in kernel.run("%pagetools status").stdout


# Ports


def test_a_taken_port_is_an_error_that_names_it(kernel: Kernel, host: str) -> None:
    port = free_port()
    with taken(port):
        cell = kernel.fail(f"%pagetools start --port {port} {FLAGS[host]}")
        assert cell.ename == "BridgeError"
        assert str(port) in cell.evalue
        assert "not running" in kernel.run("%pagetools status").stdout
    assert kernel.start_bridge(host, port) == port


def test_a_taken_port_can_be_caught_with_its_number(kernel: Kernel, host: str) -> None:
    port = free_port()
    kernel.run("import pagetools_ipy")
    with taken(port):
        kernel.run(
            f"try:\n    %pagetools start --port {port} {FLAGS[host]}\n"
            "except pagetools_ipy.BridgeError as problem:\n    caught = problem.port"
        )
    assert kernel.value("caught") == port


@contextmanager
def default_ports(kernel: Kernel, first: int) -> Iterator[None]:
    """Have the default ports begin elsewhere, where nobody else's bridge can be in the way."""
    place = "import pagetools_ipy.transports.websocket as _w\n_w.DEFAULT_PORT"
    kernel.run(f"{place} = {first}")
    try:
        yield
    finally:
        kernel.run(f"%pagetools stop\n{place} = {DEFAULT_PORTS[0]}")


def test_a_taken_default_port_leads_to_the_next_of_ten(kernel: Kernel, host: str) -> None:
    first = free_port(10)
    with default_ports(kernel, first):
        assert kernel.start_bridge(host) == first
        kernel.run("%pagetools stop")
        with taken(first), taken(first + 1):
            assert kernel.start_bridge(host) == first + 2


def test_ten_taken_default_ports_are_an_error_that_names_them(kernel: Kernel, host: str) -> None:
    first = free_port(10)
    with default_ports(kernel, first), ExitStack() as listeners:
        for port in range(first, first + 10):
            listeners.enter_context(taken(port))
        cell = kernel.fail(f"%pagetools start {FLAGS[host]}")
        assert cell.ename == "BridgeError"
        assert str(first) in cell.evalue
        assert str(first + 9) in cell.evalue


def test_the_default_port_is_the_first_free_one_of_ten_from_9319(kernel: Kernel, host: str) -> None:
    cell = kernel.submit(f"%pagetools start {FLAGS[host]}")
    kernel.wait(cell)
    if cell.ok:
        assert kernel.bridge_port() in DEFAULT_PORTS
    else:  # ten bridges of other notebooks run on this machine
        assert cell.ename == "BridgeError"
        assert "9319 to 9328" in cell.evalue


# The extension


def test_loading_twice_keeps_the_bridge(kernel: Kernel, host: str, new_page: NewPage) -> None:
    port = kernel.start_bridge(host, free_port())
    page = new_page(port)
    kernel.run("%load_ext pagetools_ipy")
    kernel.run("import pagetools_ipy\npagetools_ipy.load_ipython_extension(get_ipython())")
    assert kernel.bridge_port() == port
    assert kernel.value("%pagetools call add a=1 b=2") == 3
    assert page.is_open
    matchers = "[m for m in get_ipython().Completer.custom_matchers if 'pagetools' in m.__module__]"
    assert kernel.value(f"len({matchers})") == 1


def test_after_reloading_the_bridge_can_be_used_on_the_same_port(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    port = kernel.start_bridge(host, free_port())
    redialing = new_page(port, redial=True)
    for _ in range(2):
        kernel.run("%reload_ext pagetools_ipy")
        assert kernel.start_bridge(host, port) == port
        new_page(port).leave()
    eventually(lambda: redialing.is_open, "the page is back")
    kernel.run("await tools.wait_for('add')")
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert kernel.value("%pagetools call add a=1 b=2") == 3
    assert kernel.value("from pagetools_ipy import tools as t\nawait t.add(a=1, b=2)") == 3
    assert len(kernel.run("tools.add(a=1, b=2)").displays) == 1


SHELL_STATE = """
_ip = get_ipython()
_formatter = _ip.display_formatter.ipython_display_formatter
[
    sorted(_ip.magics_manager.magics['line']),
    sorted(_ip.magics_manager.magics['cell']),
    sorted(_ip.magics_manager.registry),
    [repr(m) for m in _ip.Completer.custom_matchers],
    sorted(map(repr, _formatter.type_printers)),
    sorted(map(repr, _formatter.deferred_printers)),
    sorted((name, len(hooks)) for name, hooks in _ip.events.callbacks.items()),
    len(_ip.input_transformers_post) + len(_ip.input_transformers_cleanup),
    _ip.ast_transformers,
]
"""


def test_unloading_stops_the_bridge_and_leaves_nothing_in_the_shell(
    host: str, new_kernel: NewKernel, new_page: NewPage
) -> None:
    kernel = new_kernel()
    kernel.run("%load_ext storemagic")  # what the shell loads lazily is there then
    before = kernel.value(SHELL_STATE)
    kernel.load()
    assert kernel.value(SHELL_STATE) != before
    port = kernel.start_bridge(host, free_port())
    page = new_page(port)
    kernel.run("tools.add(a=1, b=2)")  # makes the formatter of calls known by its class
    kernel.value("%pagetools call add a=1 b=2")
    kernel.run("%unload_ext pagetools_ipy")
    assert kernel.value(SHELL_STATE) == before
    assert is_free(port)
    assert page.wait_closed()[0] == 1001
    cell = kernel.fail("%pagetools status")
    assert cell.ename == "UsageError"
    assert "`%pagetools` not found" in cell.evalue
    assert kernel.fail("await tools.add(a=1, b=2)").ename == "BridgeError"
    threads = "import threading\n[t.name for t in threading.enumerate() if 'pagetools' in t.name]"
    assert kernel.value(threads) == []
    assert list(kernel.runtime.glob("pagetools-*.json")) == []

    kernel.load()
    assert kernel.start_bridge(host, port) == port
    new_page(port)
    assert kernel.value("%pagetools call add a=1 b=2") == 3


def test_completion_comes_with_the_extension_and_goes_with_it(
    kernel: Kernel, host: str, new_page: NewPage
) -> None:
    new_page(kernel.start_bridge(host, free_port()))

    def complete(text: str) -> list[str]:
        completions = f"get_ipython().Completer.completions({text!r}, {len(text)})"
        provisional = (
            "import warnings\nfrom IPython.core.completer import provisionalcompleter\n"
            f"with provisionalcompleter():\n    found = [c.text for c in {completions}]\n"
        )
        kernel.run(provisional)
        found = kernel.value("found")
        assert isinstance(found, list)
        return found

    assert complete("%pagetools sta") == ["start", "status"]
    assert complete("x = %pagetools call ad") == ["add"]
    assert complete("%pagetools call add a=1 ") == ["b="]
    kernel.run("%unload_ext pagetools_ipy")
    assert "status" not in complete("%pagetools sta")
    kernel.load()
    assert complete("%pagetools sta") == ["start", "status"]
