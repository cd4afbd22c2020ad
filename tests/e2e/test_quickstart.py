"""The notebook of the README runs from its first cell to its last."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.browser, pytest.mark.kernel]


def test_the_quickstart_runs_and_shows_what_it_promises() -> None:
    run = subprocess.run(
        [sys.executable, "notebooks/run.py", "notebooks/quickstart.ipynb"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    for said in (
        r"Bridge at http://127\.0\.0\.1:\d+, in the kernel's loop",
        r"Opened in .+ on port \d+: 1 tab, 11 tools\.",
        r"pagetools demo +http://127\.0\.0\.1:\d+/demo",
        r"todo/add_todo +title, \[priority\], \[tags\]",
        r"'title': 'buy milk', 'priority': 'high'",
        r"added number \d+",
        r"4 added; the last report was: 4/4",
        r"<Image image/png, [\d,]+ bytes>",
        r"Error: the oven is cold",
        r"did not answer within 1 s",
    ):
        assert re.search(said, run.stdout), said
    executed = nbformat.read(ROOT / "build" / "quickstart.ipynb", 4)  # type: ignore[no-untyped-call]
    kinds = [o.output_type for c in executed.cells for o in c.get("outputs", [])]
    assert "error" not in kinds
    html = (ROOT / "build" / "quickstart.html").read_text("utf-8")
    assert "data:image/png;base64," in html


def test_the_notebook_in_the_repository_has_no_outputs_and_is_short() -> None:
    path = ROOT / "notebooks" / "quickstart.ipynb"
    notebook = nbformat.read(path, 4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) < 10
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
