"""Take the pictures in docs/images: a notebook in a real JupyterLab, with the demo page.

    python docs/screenshots.py

Starts a JupyterLab of its own on a free port and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
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

QUIET = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "application-extension/shell": {"startMode": "single"},
    "notebook-extension/tracker": {"windowingMode": "none"},
}


@contextmanager
def jupyterlab(notebooks: Path, home: Path) -> Iterator[str]:
    """A JupyterLab without token on a free loopback port; gives its URL."""
    for name, settings in QUIET.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    arguments = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token="]
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *arguments, f"--ServerApp.root_dir={notebooks}"],
        env={
            **os.environ,
            "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "IPYTHONDIR": str(home / "ipython"),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_served(f"{url}/api", server)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def wait_until_served(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("JupyterLab did not start")


async def run_cells(page: Page) -> None:
    """Run the open notebook's cells one after the other, as a person does."""
    await page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    for number in range(1, len(CELLS) + 1):
        await page.keyboard.press("Shift+Enter")
        prompt = page.locator(".jp-CodeCell .jp-InputPrompt").nth(number - 1)
        await prompt.get_by_text(f"[{number}]:").wait_for(timeout=60_000)
        await page.wait_for_timeout(1500)  # let the page connect, or the call go on


async def take(home: Path, name: str) -> None:
    notebooks = home / "notebooks"
    notebooks.mkdir()
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]  # type: ignore[no-untyped-call]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
        cells=cells, metadata={"kernelspec": kernel}
    )
    nbformat.write(notebook, notebooks / "todo.ipynb")  # type: ignore[no-untyped-call]
    sys.path.insert(0, str(ROOT / "tests"))
    launch = importlib.import_module("browser").launch
    with jupyterlab(notebooks, home) as url:
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
