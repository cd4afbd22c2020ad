"""A kernel does not wait for a tool that would wait for the kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.errors import CallRefusedError
from pagetools_ipy.front_ends import OwnFrontEnd

from .helpers import FakePage, run, settle

LAB = "http://localhost:8888/lab/tree/notebook.ipynb"


def server(folder: Path, pid: int = 77, url: str = "http://localhost:8888/") -> None:
    content = json.dumps({"pid": pid, "url": url, "base_url": "/"})
    (folder / f"jpserver-{pid}.json").write_text(content, encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "run_cell",
        "runCell",
        "run-code",
        "notebook.execute_cells",
        "restart_kernel",
        "RunAllCells",
        "notebook/run/all",
        "interrupt_kernel",
        "execute_python",
    ],
)
def test_a_tool_that_runs_or_restarts_the_own_notebook_is_refused(
    tmp_path: Path, name: str
) -> None:
    server(tmp_path)
    assert "this kernel's own notebook" in OwnFrontEnd(tmp_path, 77).refuses(LAB, name)


@pytest.mark.parametrize(
    "name", ["insert_cell", "list_cells", "run_report", "kernel_status", "read_notebook", "prune"]
)
def test_other_tools_of_the_own_notebook_are_not(tmp_path: Path, name: str) -> None:
    server(tmp_path)
    assert OwnFrontEnd(tmp_path, 77).refuses(LAB, name) == ""


@pytest.mark.parametrize(
    ("url", "base", "is_own"),
    [
        (LAB, "http://localhost:8888/", True),
        ("http://127.0.0.1:8888/lab", "http://localhost:8888/", True),
        ("http://localhost:8889/lab", "http://localhost:8888/", False),
        ("https://shop.example/lab", "http://localhost:8888/", False),
        ("http://localhost:8888/user/ann/lab", "http://localhost:8888/user/ann/", True),
        ("http://localhost:8888/user/ann", "http://localhost:8888/user/ann/", True),
        ("http://localhost:8888/user/anna/lab", "http://localhost:8888/user/ann/", False),
        ("http://[::1/lab", "http://localhost:8888/", False),
        ("", "http://localhost:8888/", False),
    ],
)
def test_the_own_notebook_is_known_by_its_servers_address(
    tmp_path: Path, url: str, base: str, is_own: bool
) -> None:
    server(tmp_path, url=base)
    assert bool(OwnFrontEnd(tmp_path, 77).refuses(url, "run_cell")) is is_own


def test_notebooks_of_other_servers_are_others(tmp_path: Path) -> None:
    server(tmp_path, pid=78)
    assert OwnFrontEnd(tmp_path, 77).refuses(LAB, "run_cell") == ""


def test_files_that_are_no_servers_are_left_alone(tmp_path: Path) -> None:
    for number, text in enumerate(["", "[]", "{}", "null", '{"pid": 77}']):
        (tmp_path / f"jpserver-{number}.json").write_text(text, encoding="utf-8")
    server(tmp_path)
    assert OwnFrontEnd(tmp_path, 77).refuses(LAB, "run_cell")


def test_without_a_server_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server(tmp_path)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    assert OwnFrontEnd(tmp_path).refuses(LAB, "run_cell") == ""
    monkeypatch.setenv("JPY_PARENT_PID", "77")
    assert OwnFrontEnd(tmp_path).refuses(LAB, "run_cell")


def test_a_refused_call_is_not_sent_and_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        server(tmp_path)
        directory = PageToolDirectory()
        directory.refuse_with(OwnFrontEnd(tmp_path, 77).refuses)
        page = FakePage(directory)
        page.hello(url=LAB, title="Lab")
        page.register("jupyter", "run_cell", "list_cells")
        with pytest.raises(CallRefusedError, match='jupyter/run_cell in "Lab" was not called'):
            await directory.call("run_cell", {})
        page.handlers["list_cells"] = lambda _: ["a"]
        assert await directory.call("list_cells", {}) == ["a"]
        await settle()
        assert [call["name"] for call in page.all("call")] == ["list_cells"]

    run(main())
