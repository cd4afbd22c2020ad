"""Loading the extension costs nothing: what is heavy is imported when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from .conftest import NewKernel
from .kernels import HOSTS, free_port

pytestmark = pytest.mark.kernel

HEAVY = (
    "anywidget",
    "ipywidgets",
    "jsonschema_rs",
    "mcp",
    "msgspec",
    "nest_asyncio2",
    "pandas",
    "websockets",
    "yaml",
)


def test_loading_the_extension_imports_nothing_heavy(new_kernel: NewKernel) -> None:
    kernel = new_kernel()
    kernel.run("import sys\nbefore = set(sys.modules)")
    kernel.run("%load_ext pagetools_ipy")
    assert kernel.value(f"sorted((set(sys.modules) - before) & set({HEAVY!r}))") == []
    assert kernel.value("sorted(m for m in sys.modules if m == 'pagetools_ipy')") != []


def test_importing_the_package_imports_nothing_but_itself() -> None:
    code = (
        "import sys; before = set(sys.modules); import pagetools_ipy\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert ast.literal_eval(said.stdout) == ["pagetools_ipy"]


@pytest.mark.parametrize("where", HOSTS)
def test_nothing_is_patched_before_the_first_blocking_call(
    new_kernel: NewKernel, where: str
) -> None:
    kernel = new_kernel()
    kernel.load()
    kernel.start_bridge(where, free_port())
    kernel.run("%pagetools status\n%pagetools tabs\n%pagetools snippet")
    assert kernel.value("import sys\n'nest_asyncio2' in sys.modules") is False
