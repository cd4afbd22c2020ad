"""A real Jupyter server on a free loopback port, apart from whatever the machine has set up."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat

# Nothing pops up over the page, and all cells are drawn whether they are in view or not.
SETTINGS = {
    "apputils-extension/notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "notebook-extension/tracker": {"windowingMode": "none"},
}


def write_notebook(path: Path, cells: list[str]) -> None:
    """Write a notebook of code cells for the Python that runs this."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
        cells=[nbformat.v4.new_code_cell(source) for source in cells],  # type: ignore[no-untyped-call]
        metadata={"kernelspec": kernel},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


@contextmanager
def jupyter_server(notebooks: Path, home: Path) -> Iterator[str]:
    """Serve a folder; JupyterLab under ``/lab`` and ``/doc``, Notebook under ``/notebooks``.

    Args:
        notebooks: The folder.
        home: Where the server keeps its settings and its runtime files.

    Yields:
        The server's URL; there is no token.
    """
    for name, settings in SETTINGS.items():
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
        _wait_until_served(f"{url}/api", server)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def _wait_until_served(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            urllib.request.urlopen(url).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the Jupyter server did not start")
