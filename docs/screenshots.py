"""Take the pictures in docs/images: notebooks in a real JupyterLab, with real tabs beside them.

    python docs/screenshots.py [NAME ...]

Starts a JupyterLab of its own on a free port and leaves nothing behind. Names are those of the
pictures, without ``.png``; all of them by default.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Locator, Page, async_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
THEME = "@jupyterlab/apputils-extension/themes.jupyterlab-settings"

# An automated browser gives every page the focus at all times.
SCRIPTED_FOCUS = """
let looked = false;
document.hasFocus = () => looked;
Object.defineProperty(document, 'visibilityState', {get: () => (looked ? 'visible' : 'hidden')});
window.lookAt = (now) => { looked = now; dispatchEvent(new Event(now ? 'focus' : 'blur')); };
"""

QUICKSTART = [
    "%load_ext pagetools_ipy\n%pagetools start\n%pagetools demo",
    'from pagetools_ipy import tools, tabs\n\nawait tools.add_todo(title="buy milk")',
    "%pagetools call complete_todo id=1",
    'call = tools.import_todos(titles=["flour", "yeast", "salt"])\ncall',
    'await tools.add_todo(titel="olive oil")',
]
PANEL = [
    "%load_ext pagetools_ipy\n%pagetools start",
    "from pagetools_ipy import tabs\n"
    'tabs["Groceries"].import_todos(titles=["salt"] * 40, delay_ms=1000);\n'
    'await tabs["Holiday"].list_todos();\n'
    'try: await tabs["Holiday"].explode(message="no oven here")\n'
    "except Exception: pass",
]


class Notebook:
    """An open notebook."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.panel = page.locator(".pagetools").first

    async def run(self, number: int) -> None:
        """Run a cell; a front end drops what comes before its kernel is connected."""
        prompt = self.page.locator(".jp-CodeCell .jp-InputPrompt").nth(number)
        while "[ ]" in await prompt.inner_text():
            await self.page.locator(".jp-CodeCell .cm-content").nth(number).click()
            await self.page.keyboard.press("Shift+Enter")
            await self.page.wait_for_timeout(1000)
        await prompt.get_by_text(f"[{number + 1}]:").wait_for(timeout=60_000)

    async def open_tab(self, title: str, host: str = "127.0.0.1") -> Page:
        """Open the demo page beside the notebook."""
        found = re.search(r"127\.0\.0\.1:(\d+)", await self.panel.inner_text())
        assert found
        tab = await self.page.context.new_page()
        await tab.add_init_script(SCRIPTED_FOCUS)
        await tab.goto(f"http://{host}:{found[1]}/demo")
        await tab.evaluate("(title) => { document.title = title; }", title)
        await self.panel.get_by_text(title).first.wait_for()
        return tab

    async def rest(self) -> None:
        """Leave the cells alone, so that no cursor or toolbar is in the picture."""
        await self.page.keyboard.press("Escape")
        await self.page.mouse.move(0, 0)
        await self.page.wait_for_timeout(500)


@asynccontextmanager
async def notebook(cells: list[str], size: tuple[int, int], theme: str) -> AsyncIterator[Notebook]:
    """A notebook in a JupyterLab of its own."""
    sys.path.insert(0, str(ROOT / "tests"))
    launch = importlib.import_module("browser").launch
    jupyter = importlib.import_module("jupyter")
    with tempfile.TemporaryDirectory(prefix="pagetools-docs-") as folder:
        home = Path(folder)
        settings = home / "settings" / THEME
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"theme": theme}), encoding="utf-8")
        jupyter.write_notebook(home / "notebooks" / "todo.ipynb", cells)
        with jupyter.jupyter_server(home / "notebooks", home) as url:
            async with async_playwright() as playwright, await launch(playwright) as browser:
                window = await browser.new_context(
                    viewport={"width": size[0], "height": size[1]}, device_scale_factor=1.5
                )
                page = await window.new_page()
                await page.goto(f"{url}/doc/tree/todo.ipynb")
                await page.locator(".jp-CodeCell").first.wait_for(timeout=60_000)
                await page.get_by_text("Idle").first.wait_for(state="attached", timeout=60_000)
                yield Notebook(page)


async def take(what: Page | Locator, name: str) -> None:
    await what.screenshot(path=IMAGES / f"{name}.png")


async def quickstart(name: str) -> None:
    async with notebook(QUICKSTART, (1040, 1300), "JupyterLab Light") as opened:
        for number in range(len(QUICKSTART)):
            await opened.run(number)
            await opened.page.wait_for_timeout(1500)  # let the page connect, or the call go on
        await opened.rest()
        await opened.page.evaluate(
            """() => {
              for (const box of document.querySelectorAll('.jp-NotebookPanel *')) {
                if (box.scrollTop) box.scrollTop = 0;
              }
            }"""
        )
        await take(opened.page, name)


async def empty(name: str) -> None:
    async with notebook(PANEL, (900, 700), "JupyterLab Light") as opened:
        await opened.run(0)
        await opened.rest()
        await take(opened.panel, name)


async def tabs(name: str, theme: str) -> None:
    async with notebook(PANEL, (900, 900), theme) as opened:
        await opened.run(0)
        await opened.open_tab("Holiday")
        groceries = await opened.open_tab("Groceries")
        await opened.open_tab("Groceries, staging", "localhost")
        await groceries.evaluate("lookAt(true)")
        await opened.panel.locator("[data-mark=focused]").wait_for()
        await opened.rest()
        await take(opened.panel, name)


async def busy(name: str) -> None:
    async with notebook(PANEL, (900, 1500), "JupyterLab Light") as opened:
        await opened.run(0)
        await opened.open_tab("Holiday")
        groceries = await opened.open_tab("Groceries")
        await groceries.evaluate("lookAt(true)")
        await groceries.evaluate("lookAt(false)")
        await opened.run(1)
        await opened.panel.get_by_role("searchbox").fill("add")
        card = opened.panel.locator(".pt-card").filter(has_text="Groceries")
        await card.locator(".pt-opener").click()
        await card.get_by_role("button", name="Call add_todo…").click()
        form = card.get_by_role("form", name="Call add_todo")
        await form.get_by_label("title").fill("buy milk")
        await opened.page.keyboard.press("Enter")
        await form.get_by_text("Answered in").wait_for()
        await opened.page.wait_for_timeout(2500)
        await opened.rest()
        await take(opened.panel, name)


PICTURES: dict[str, Callable[[str], Awaitable[None]]] = {
    "quickstart": quickstart,
    "panel-empty": empty,
    "panel-light": lambda name: tabs(name, "JupyterLab Light"),
    "panel-dark": lambda name: tabs(name, "JupyterLab Dark"),
    "panel-busy": busy,
}


async def main(names: list[str]) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        await PICTURES[name](name)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
