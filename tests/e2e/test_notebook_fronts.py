"""The notebook as a person has it: JupyterLab and Notebook 7 in a browser, with the demo page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ..jupyter import jupyter_server, write_notebook
from .fronts import Notebook, open_notebook

pytestmark = [pytest.mark.browser, pytest.mark.kernel]

CELLS = [
    "%load_ext pagetools_ipy\n%pagetools start\n%pagetools demo",
    'from pagetools_ipy import tools\nawait tools.add_todo(title="buy milk")',
    "await tools.chart_image()",
    'call = tools.import_todos(titles=["flour", "yeast"], delay_ms=300)\ncall',
    "await tools.wait_forever(timeout=None)",
    "%pagetools call wait_forever --timeout none",
    "await tools.echo(value='<img src=x onerror=document.title=1>')",
    "await tools.add_todo(titel='typo')",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("jupyter")
    for front in ("lab", "notebook"):
        write_notebook(home / "notebooks" / f"{front}.ipynb", CELLS)
    with jupyter_server(home / "notebooks", Path(home)) as url:
        yield url


@pytest.mark.parametrize(
    "path", ["doc/tree/lab.ipynb", "notebooks/notebook.ipynb"], ids=["lab", "notebook"]
)
def test_a_person_drives_the_demo_page_from_a_notebook(
    server: str, browser: Browser, path: str
) -> None:
    notebook = open_notebook(browser, f"{server}/{path}")
    try:
        drive(notebook)
    finally:
        notebook.page.context.close()


def drive(notebook: Notebook) -> None:
    shown = notebook.run()
    frame = shown.frame_locator("iframe")
    frame.get_by_text("Last calls").wait_for()

    assert "'title': 'buy milk'" in notebook.run().inner_text()
    frame.get_by_text("buy milk").first.wait_for()

    image = notebook.run().locator("img")
    assert image.evaluate("(img) => img.complete && img.naturalWidth > 100")

    live = notebook.run()
    live.locator("progress").wait_for(timeout=5_000)
    live.get_by_text("✓").wait_for(timeout=10_000)  # kept up with the call after its cell ended
    assert "'added': 2" in live.inner_text()

    for expected in ("CancelledError", "KeyboardInterrupt"):
        output = notebook.start()
        frame.get_by_text("wait_forever").first.wait_for()
        notebook.page.wait_for_timeout(500)
        pressed = time.monotonic()
        notebook.stop_button()
        notebook.ended()
        assert time.monotonic() - pressed < 3
        text = output.inner_text()
        assert expected in text
        assert "Traceback" not in text

    hostile = notebook.run()
    assert "<img src=x" in hostile.inner_text()
    assert hostile.locator("img").count() == 0

    assert 'did you mean "title"?' in notebook.run().inner_text()
