"""The page client as one script, for pages that do not load it themselves."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import resources

import pytest

from pagetools_ipy.page_script import page_script

SCRIPT = page_script('__pagetools_"x', "key", 9319)
MODULES = resources.files("pagetools_ipy") / "static" / "pagetools"


def test_nothing_of_a_module_is_left() -> None:
    assert not re.search(r"^\s*(import|export)\b", SCRIPT, re.MULTILINE)
    assert "import.meta" not in SCRIPT


def test_every_module_that_the_client_imports_is_in_it_once() -> None:
    for module in MODULES.iterdir():
        functions = re.findall(r"^export function (\w+)", module.read_text("utf-8"), re.MULTILINE)
        assert functions, module.name
        for name in functions:
            assert len(re.findall(rf"^function {name}\(", SCRIPT, re.MULTILINE)) == 1, name


def test_no_two_modules_have_a_name_in_common() -> None:
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", SCRIPT, re.MULTILINE)
    assert sorted(names) == sorted(set(names))


def test_words_are_written_as_javascript_strings() -> None:
    assert 'const name = "__pagetools_\\"x";' in SCRIPT
    assert 'key: "key", port: 9319' in SCRIPT


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_it_is_a_script_that_leaves_pages_without_a_binding_alone() -> None:
    code = f"const location = {{ protocol: 'https:' }};\n{SCRIPT}\nconsole.log(true)"
    done = subprocess.run(["node", "-"], input=code, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("true\n", "")
