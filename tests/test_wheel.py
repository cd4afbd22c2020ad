"""What pip installs: everything the extension serves and loads, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pagetools_ipy.transports.websocket import FILES

ROOT = Path(__file__).parent.parent

CODE = """
from IPython.core.interactiveshell import InteractiveShell
import pagetools_ipy, urllib.request
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "pagetools_ipy")
shell.run_line_magic("pagetools", "start --port 0")
from pagetools_ipy import bridge
url = bridge.current().url
for path in ("/pagetools.js", "/demo"):
    assert len(urllib.request.urlopen(url + path).read()) > 1000
shell.run_line_magic("pagetools", "stop")
print(pagetools_ipy.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_served_files_and_the_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"pagetools_ipy/static/{name}" for name in FILES.values()} <= names
    assert "pagetools_ipy/py.typed" in names
    assert {name.partition("/")[0] for name in names if not name.startswith("pagetools_ipy-")} == {
        "pagetools_ipy"
    }


def test_the_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {"PYTHONPATH": str(tmp_path / "site"), "IPYTHONDIR": str(tmp_path), "PATH": ""}
    run = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].startswith(str(tmp_path / "site"))
