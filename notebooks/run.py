"""Run a notebook as a person would: a real kernel, and a real browser for the pages it opens.

    python notebooks/run.py notebooks/quickstart.ipynb

Prints each code cell and, while it runs, what it says; then saves the executed notebook and a
self-contained HTML copy under build/. Exit status: 1 when a cell failed, 130 when stopped.
The browser is what `%pagetools open` in the notebook starts.
"""

import asyncio
import importlib
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
# These parts of the stock template load scripts from the network; the copy does without.
ONLINE = ("html_head_js", "jupyter_widgets", "html_head_js_mathjax", "html_head_js_mermaidjs")
OFFLINE = "".join(f"{{% block {name} %}}{{% endblock {name} %}}" for name in ONLINE)


class Runner(NotebookClient):
    """Says what the cells say as soon as they say it, updates of a display included."""

    def process_message(self, *args: Any) -> NotebookNode | None:
        output = super().process_message(*args)
        msg = args[0]
        if shown := msg["content"] if msg["msg_type"] == "update_display_data" else output:
            plain = shown.get("data", {}).get("text/plain", "")
            say(shown.get("text") or "\n".join(shown.get("traceback", [plain])) + "\n")
        return output


async def execute(nb: NotebookNode, folder: Path) -> int:
    """Run all cells of `nb`, put their outputs into it, and return the exit status."""
    # With no folders to look in, "python3" is this interpreter, whatever else is installed.
    kernel = AsyncKernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    await kernel.start_kernel(cwd=str(folder), extra_arguments=["--log-level=ERROR"])
    # Cell by cell, since nbclient's own loop takes the signals and kills the kernel in mid-cell.
    runner = Runner(nb, km=kernel, timeout=120)
    try:
        await runner.async_start_new_kernel_client()
        for index, cell in enumerate(nb.cells):
            if cell.cell_type == "code":
                say("\n" + textwrap.indent(cell.source, "    ") + "\n", faint=True)
                await runner.async_execute_cell(cell, index, runner.code_cells_executed + 1)
        status = 0
    except CellExecutionError:
        status = 1
    except (CellTimeoutError, DeadKernelError, asyncio.CancelledError) as error:
        # Ctrl-C cancels the task, and nbclient takes a cancelled wait for a dead kernel.
        task = asyncio.current_task()
        status = 130 if task and task.cancelling() else 1
        say("\nStopped.\n" if status == 130 else f"\n{error}\n")
        # A busy kernel hears no request to shut down, and one that prints its traceback breaks off.
        await kernel.interrupt_kernel()
        await asyncio.sleep(0.5)
    finally:
        await kernel.shutdown_kernel()
        if runner.kc:
            runner.kc.stop_channels()
    return status


async def main(path: Path) -> int:
    nb = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    sys.path.insert(0, str(ROOT / "tests"))
    # Where there is no browser but the one that the tests have brought, it is that one.
    if path_of_browser := importlib.import_module("browser").find_browser():
        os.environ.setdefault("PAGETOOLS_BROWSER", path_of_browser)
    status = await execute(nb, path.parent)
    target = ROOT / "build" / path.name
    target.parent.mkdir(exist_ok=True)
    nbformat.write(nb, target)  # type: ignore[no-untyped-call]
    nb.metadata.pop("widgets", None)
    exporter = HTMLExporter(raw_template=f"{{% extends 'lab/index.html.j2' %}}{OFFLINE}")  # type: ignore[no-untyped-call]
    page, _ = exporter.from_notebook_node(nb, {"metadata": {"name": path.stem}})
    target.with_suffix(".html").write_text(page, encoding="utf-8")
    say(f"\n{target}\n{target.with_suffix('.html')}\n")
    return status


def say(text: str, *, faint: bool = False) -> None:
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    elif faint:
        text = f"\x1b[2m{text}\x1b[0m"
    print(text, end="", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python notebooks/run.py NOTEBOOK")
    try:
        sys.exit(asyncio.run(main(Path(sys.argv[1]).resolve())))
    except KeyboardInterrupt:
        sys.exit(130)
