"""The public names are there, load lazily, and are the same objects as in their modules."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pagetools_ipy
from pagetools_ipy import errors


def test_every_public_name_is_there_and_documented() -> None:
    for name in pagetools_ipy.__all__:
        value = getattr(pagetools_ipy, name)
        assert value.__doc__, name
    assert len(set(pagetools_ipy.__all__)) == len(pagetools_ipy.__all__)


def test_the_list_of_names_is_what_can_be_imported() -> None:
    assert set(pagetools_ipy.__all__) == set(pagetools_ipy._MODULES) | set(errors.__all__)
    assert set(pagetools_ipy.__all__) <= set(dir(pagetools_ipy))


def test_names_are_those_of_their_modules() -> None:
    for name, module in pagetools_ipy._MODULES.items():
        defined = getattr(importlib.import_module(module, "pagetools_ipy"), name)
        assert getattr(pagetools_ipy, name) is defined


def test_every_error_class_is_exported() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, errors.PageToolsError)
        and not name.startswith("_")
    }
    assert classes == set(errors.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(pagetools_ipy, "nothing_of_the_kind")


def test_importing_and_loading_bring_in_no_third_party_package() -> None:
    code = """
import sys, IPython.core.completer, IPython.core.interactiveshell
import IPython.core.magic, IPython.display
before = set(sys.modules)
import pagetools_ipy, pagetools_ipy.magics, pagetools_ipy.live, pagetools_ipy.completion
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(n for n in new if n not in sys.stdlib_module_names))
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.strip() == "['pagetools_ipy']"


def test_the_page_client_is_of_the_same_version() -> None:
    static = Path(pagetools_ipy.__file__).parent / "static"
    script = (static / "pagetools" / "client.js").read_text("utf-8")
    assert f"const VERSION = '{pagetools_ipy.__version__}';" in script
