"""A restarted kernel gets its port and its pages back."""

from __future__ import annotations

import os
import stat

import pytest

from .conftest import NewKernel, NewPage
from .kernels import FLAGS, HOSTS, Kernel, free_port, is_free

pytestmark = pytest.mark.kernel

EITHER_HOST = pytest.mark.parametrize("where", HOSTS)


@EITHER_HOST
@pytest.mark.parametrize("kill", [False, True], ids=["politely", "killed"])
def test_a_restarted_kernel_takes_its_port_again_and_its_page_comes_back(
    new_kernel: NewKernel, new_page: NewPage, where: str, kill: bool
) -> None:
    kernel = new_kernel()
    kernel.load()
    port = kernel.start_bridge(where, free_port())
    token = kernel.token()
    page = new_page(port, redial=True)
    assert kernel.value("await tools.add(a=1, b=2)") == 3

    kernel.restart(kill=kill)
    kernel.load()
    assert kernel.start_bridge(where) == port
    assert kernel.token() == token
    page.wait_for("registered", timeout=5)
    assert kernel.value("await tools.add(a=1, b=2)") == 3
    assert kernel.value("%pagetools call add a=1 b=2") == 3


@EITHER_HOST
def test_a_page_is_told_when_the_kernel_ends(
    new_kernel: NewKernel, new_page: NewPage, where: str
) -> None:
    kernel = new_kernel()
    kernel.load()
    page = new_page(kernel.start_bridge(where, free_port()))
    kernel.restart(kill=False)
    code, _ = page.wait_closed()
    assert code in ((1001,) if where == "thread" else (1001, 1006))


@EITHER_HOST
def test_a_remembered_port_that_is_taken_meanwhile_gives_way_to_another(
    new_kernel: NewKernel, new_page: NewPage, where: str
) -> None:
    kernel = new_kernel()
    kernel.load()
    port = kernel.start_bridge(where, free_port())
    kernel.restart(kill=True)
    kernel.load()
    other = new_kernel()
    other.load()
    assert other.start_bridge(where, port) == port
    cell = kernel.submit(f"%pagetools start {FLAGS[where]}")
    kernel.wait(cell)
    if cell.ok:
        assert kernel.bridge_port() != port
    else:  # the ten default ports are all in use on this machine
        assert "9319" in cell.evalue


@pytest.fixture
def running(new_kernel: NewKernel) -> Kernel:
    kernel = new_kernel()
    kernel.load()
    return kernel


@EITHER_HOST
def test_the_memory_is_there_while_it_runs_for_its_owner_only_and_gone_after_stop(
    running: Kernel, where: str
) -> None:
    port = running.start_bridge(where, free_port())
    kept = running.memory_file()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.stat().st_uid == os.getuid()
    assert str(port) in kept.read_text()
    running.run("%pagetools stop")
    assert not kept.exists()
    assert is_free(port)


@EITHER_HOST
def test_a_memory_that_cannot_be_read_counts_as_none(running: Kernel, where: str) -> None:
    port = running.start_bridge(where, free_port())
    kept = running.memory_file()
    running.restart(kill=True)
    kept.write_text('{"port": "x"')
    running.load()
    assert running.start_bridge(where, port) == port
    assert len(running.token()) >= 32


LOG_EVERYTHING = """
import io, logging
log = io.StringIO()
for name in ("pagetools_ipy", "websockets", "asyncio"):
    logging.getLogger(name).addHandler(logging.StreamHandler(log))
    logging.getLogger(name).setLevel(logging.DEBUG)
"""


@EITHER_HOST
def test_the_token_is_in_no_output_no_repr_and_no_log(
    running: Kernel, new_page: NewPage, where: str
) -> None:
    running.run(LOG_EVERYTHING)
    port = running.start_bridge(where, free_port())
    token = running.token()
    page = new_page(port, origin="https://elsewhere.example", token=token)
    refused = new_page(port, token=token[::-1], wait=False)
    assert refused.wait_closed()[0] == 4401

    verbs = ("start", "status", "snippet", "tabs", "tools", "demo", "help")
    shown = [running.run(f"%pagetools {verb}") for verb in verbs]
    shown += [running.run("await tools.add(a=1, b=2)"), running.run("tools.add(a=1, b=2)")]
    shown += [
        running.run(
            "from pagetools_ipy import bridge, runtime\n"
            "b = bridge.current()\n"
            "[repr(b), repr(b._memory), repr(b._memory.recall()), repr(b._transport), repr(tools)]"
        )
    ]
    for cell in shown:
        told = f"{cell.stdout}{cell.results}{cell.displays}"
        assert told
        assert token not in told
    assert token not in str(page.received)
    running.run("%pagetools stop")
    log = running.value("log.getvalue()")
    assert len(log) > 100
    assert token not in log
    assert token[::-1] not in log
    assert token not in running.stderr
