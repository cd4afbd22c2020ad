"""Kernels and pages for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .blocks import Blocks, long_blocks
from .kernels import HOSTS, Kernel, free_port
from .page import Page

NewKernel = Callable[[], Kernel]
NewPage = Callable[..., Page]
RecordSeconds = Callable[[str, float], None]


@pytest.fixture(scope="session")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blocks]:
    """Kernels that block for a long time."""
    with long_blocks(tmp_path_factory.mktemp("blocks")) as blocks:
        yield blocks


@pytest.fixture(scope="session", autouse=True)
def _start_what_takes_longest(request: pytest.FixtureRequest) -> None:
    """Begin with `blocks` when any of the tests will look at them."""
    if any("blocks" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("blocks")


@pytest.fixture
def record_seconds(request: pytest.FixtureRequest) -> RecordSeconds:
    """Adds a figure to the report of a test.

    `record_property` would do, but warns when the report is a JUnit file of the usual family.
    """

    def record(name: str, seconds: float) -> None:
        request.node.user_properties.append((name, round(seconds, 3)))

    return record


@pytest.fixture(scope="module", params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    """Where the bridge lives: in the kernel's loop or on a thread of its own."""
    return str(request.param)


@pytest.fixture(scope="module")
def kernel(host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with the extension loaded, one for each module and host."""
    with Kernel(tmp_path_factory.mktemp(f"kernel-{host}")) as kernel:
        kernel.load()
        yield kernel
        kernel.pump(0.1)
        assert kernel.stderr == ""


@pytest.fixture
def new_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewKernel]:
    """Starts a kernel for one test, with nothing loaded."""
    with ExitStack() as kernels:
        yield lambda: kernels.enter_context(Kernel(tmp_path_factory.mktemp("kernel")))


@pytest.fixture
def port(kernel: Kernel, host: str) -> int:
    """Port of the running bridge of `kernel`."""
    running = kernel.run("from pagetools_ipy import bridge as _b; _b._current is not None")
    return kernel.bridge_port() if running.value else kernel.start_bridge(host, free_port())


@pytest.fixture
def new_page() -> Iterator[NewPage]:
    """Opens pages that are closed at the end of the test."""
    pages: list[Page] = []

    def open_page(*args: Any, **options: Any) -> Page:
        pages.append(Page(*args, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.leave()


@pytest.fixture
def page(port: int, new_page: NewPage) -> Page:
    """A page with the usual tools, connected to the bridge of `kernel`."""
    return new_page(port)
