"""Take the pictures in docs/images: a notebook in a real JupyterLab, with the demo page.

    python docs/screenshots.py

Starts a JupyterLab of its own on a free port and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page, async_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"

CELLS = [
    "%load_ext pagetools_ipy\n%pagetools start\n%pagetools demo",
    'from pagetools_ipy import tools\n\nawait tools.add_todo(title="buy milk", priority="high")',
    "%pagetools call complete_todo id=1",
    'call = tools.import_todos(titles=["flour", "yeast", "salt"])\ncall',
    'await tools.add_todo(titel="olive oil")',
]


async def run_cells(page: Page) -> None:
    """Run the open notebook's cells one after the other, as a person does."""
    await page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    for number in range(1, len(CELLS) + 1):
        await page.keyboard.press("Shift+Enter")
        prompt = page.locator(".jp-CodeCell .jp-InputPrompt").nth(number - 1)
        await prompt.get_by_text(f"[{number}]:").wait_for(timeout=60_000)
        await page.wait_for_timeout(1500)  # let the page connect, or the call go on


async def take(home: Path, name: str) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    launch = importlib.import_module("browser").launch
    jupyter = importlib.import_module("jupyter")
    jupyter.write_notebook(home / "notebooks" / "todo.ipynb", CELLS)
    with jupyter.jupyter_server(home / "notebooks", home) as url:
        async with async_playwright() as playwright, await launch(playwright) as browser:
            page = await browser.new_page(viewport={"width": 1040, "height": 1190})
            await page.goto(f"{url}/doc/tree/todo.ipynb")
            await page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
            await page.get_by_text("Idle").first.wait_for(state="attached", timeout=60_000)
            await run_cells(page)
            await page.keyboard.press("Escape")
            await page.evaluate(
                """() => {
                  for (const box of document.querySelectorAll('.jp-NotebookPanel *')) {
                    if (box.scrollTop) box.scrollTop = 0;
                  }
                }"""
            )
            await page.wait_for_timeout(500)
            await page.screenshot(path=IMAGES / name)


async def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pagetools-docs-") as home:
        await take(Path(home), "quickstart.png")


if __name__ == "__main__":
    asyncio.run(main())
