"""The notebook as a person has it: JupyterLab and Notebook 7 in a browser, with the demo page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from ..jupyter import jupyter_server, write_notebook

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


class Notebook:
    """An open notebook whose cells are run one by one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")
        self.run_count = 0

    def start(self) -> Locator:
        """Start the next cell; returns its output."""
        if self.run_count == 0:
            self._start_first()
        else:
            self.page.keyboard.press("Shift+Enter")
        self.run_count += 1
        return self.cells.nth(self.run_count - 1).locator(".jp-Cell-outputWrapper")

    def _start_first(self) -> None:
        # A front drops what is run before its kernel is connected, and shows no sign of either.
        first = self.cells.first
        for _ in range(30):
            first.locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")
            self.page.wait_for_timeout(1000)
            if "[ ]" not in first.locator(".jp-InputPrompt").inner_text():
                return
        raise AssertionError("the first cell did not start")

    def run(self) -> Locator:
        """Run the next cell to its end; returns its output."""
        output = self.start()
        self.ended()
        return output

    def ended(self) -> None:
        prompt = self.cells.nth(self.run_count - 1).locator(".jp-InputPrompt")
        prompt.get_by_text(f"[{self.run_count}]:").wait_for(timeout=30_000)

    def stop_button(self) -> None:
        # Both fronts: the toolbar's button, which carries the command that it runs.
        self.page.locator(
            '[data-command="notebook:interrupt-kernel"], '
            'jp-button[data-command*="interrupt"], [title^="Interrupt"]'
        ).first.click()


@pytest.mark.parametrize(
    "path", ["doc/tree/lab.ipynb", "notebooks/notebook.ipynb"], ids=["lab", "notebook"]
)
def test_a_person_drives_the_demo_page_from_a_notebook(
    server: str, browser: Browser, path: str
) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    page.goto(f"{server}/{path}")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.get_by_text("Idle").first.wait_for(state="attached", timeout=60_000)
    notebook = Notebook(page)
    try:
        drive(notebook)
    finally:
        page.close()


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
