"""Tab completion after ``%pagetools``, through the completer of a real shell."""

from __future__ import annotations

from typing import Any

import pytest

from pagetools_ipy import bridge as bridges, tools
from pagetools_ipy.verbs import VERBS

from .conftest import HostedPage, NewPage, Notebook
from .helpers import Message, tool


def echo(args: Message) -> Message:
    return {"echo": args}


def takes(*names: str) -> Message:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


@pytest.fixture
def page(new_page: NewPage) -> HostedPage:
    page = new_page({"add_todo": echo, "cart.add": echo, "größe": echo})
    page.hello("tab-1", title="Todos")
    page.register(
        "todo",
        tool("add_todo", inputSchema=takes("title", "tags", "user-id")),
        tool("clear"),
        tool("cart.add", inputSchema=takes("sku")),
        tool("größe"),
    )
    return page


def offered(notebook: Notebook, code: str) -> list[str]:
    """What is offered of ours at the end of ``code``, sorted.

    Where a matcher has nothing to offer IPython asks the others all the same, so what they
    offer of Python's words is left out.
    """
    names = {*VERBS, *tools}
    found = [line for line in notebook.completions(code) if "%pagetools" in line]
    return sorted(line for line in found if line.endswith("=") or line.split()[-1] in names)


PLACES = [
    "{}",
    "x = {}",
    "  {}",
    "1 + 1\n{}",
    "for item in items:\n    {}",
    "for item in items:\n    found = {}",
    "if True:\n    x = {}",
]
"""Where in a cell a magic may stand."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Any:
    """Puts a magic into one of the places of a cell, and gives the line it is in."""

    def put(magic: str) -> tuple[str, str]:
        code = request.param.format(magic)
        return code, code.rpartition("\n")[2].removesuffix(magic)

    return put


def test_verbs_are_offered_wherever_the_magic_stands(notebook: Notebook, place: Any) -> None:
    code, before = place("%pagetools ")
    assert offered(notebook, code) == sorted(f"{before}%pagetools {verb}" for verb in VERBS)
    code, before = place("%pagetools st")
    assert offered(notebook, code) == [
        f"{before}%pagetools {verb}" for verb in ("start", "status", "stop", "strict")
    ]


@pytest.mark.usefixtures("page")
def test_what_can_be_opened_or_examined_is_offered(notebook: Notebook) -> None:
    assert [line for line in notebook.completions("%pagetools open ") if "demo" in line]
    found = notebook.completions("%pagetools doctor http")
    assert any("http" in line for line in found)


@pytest.mark.usefixtures("page")
def test_tools_are_offered_after_call_and_wait(notebook: Notebook, place: Any) -> None:
    for verb in ("call", "wait"):
        code, before = place(f"%pagetools {verb} ")
        assert offered(notebook, code) == [
            f"{before}%pagetools {verb} {name}"
            for name in ("add_todo", "cart.add", "clear", "größe")
        ]
        code, before = place(f"%pagetools {verb} c")
        assert offered(notebook, code) == [
            f"{before}%pagetools {verb} {name}" for name in ("cart.add", "clear")
        ]


@pytest.mark.usefixtures("page")
def test_arguments_are_offered_after_the_tool(notebook: Notebook, place: Any) -> None:
    code, before = place("%pagetools call add_todo ")
    assert offered(notebook, code) == [
        f"{before}%pagetools call add_todo {name}=" for name in ("tags", "title", "user-id")
    ]
    code, before = place("%pagetools call add_todo t")
    assert offered(notebook, code) == [
        f"{before}%pagetools call add_todo {name}=" for name in ("tags", "title")
    ]


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("add_todo title=a ", ["tags=", "user-id="]),
        ('add_todo title="buy milk" ', ["tags=", "user-id="]),
        ("add_todo tags:=[1] ", ["title=", "user-id="]),
        ("add_todo title=a t", ["tags="]),
        ("add_todo title=a tags=b user-id=c ", []),
        ("todo/add_todo ", ["title=", "tags=", "user-id="]),
        ("cart.add ", ["sku="]),
        ("cart.add s", ["sku="]),
        ("clear ", []),
        ("add_todo x", []),
        ("nothing ", []),
    ],
)
def test_only_what_is_left_to_give_is_offered(
    notebook: Notebook, typed: str, left: list[str]
) -> None:
    line = f"%pagetools call {typed}"
    begun = line.rpartition(" ")[0]
    assert offered(notebook, line) == sorted(f"{begun} {name}" for name in left)


@pytest.mark.usefixtures("page")
def test_the_first_line_of_a_cell_magic_is_completed_too(notebook: Notebook) -> None:
    assert notebook.completions("%%pagetools call add_todo ti") == [
        "%%pagetools call add_todo title="
    ]
    assert "%%pagetools call" in notebook.completions("%%pagetools ca")


@pytest.mark.usefixtures("page")
def test_python_names_are_not_mixed_in(notebook: Notebook) -> None:
    notebook.run("title = tags = add_todo = call = 1")
    for line in ("%pagetools ", "%pagetools call a", "%pagetools call add_todo "):
        for offered in notebook.completions(line):
            assert offered.startswith(line)
    assert notebook.completions("%pagetools call add_todo ti") == [
        "%pagetools call add_todo title="
    ]


@pytest.mark.usefixtures("page")
def test_other_lines_are_completed_as_ever(notebook: Notebook) -> None:
    notebook.run("a_name_of_mine = 1")
    assert "a_name_of_mine" in notebook.completions("a_name_of")
    assert "%pagetools" in notebook.completions("%pagetoo")
    assert "x = 1; a_name_of_mine" in notebook.completions("x = 1; a_name_of")
    assert "a_name_of_mine" in notebook.completions("%pagetools call add_todo\na_name_of")
    assert "%pagetoolsets call" not in notebook.completions("%pagetoolsets ca")


@pytest.mark.usefixtures("page")
def test_verbs_that_take_no_words_are_offered_none(notebook: Notebook) -> None:
    for verb in ("stop", "status", "help", "nothing"):
        assert offered(notebook, f"%pagetools {verb} ") == []
    assert offered(notebook, "%pagetools wait add_todo ") == []


def test_without_a_bridge_only_verbs_are_offered(notebook: Notebook) -> None:
    bridges.stop()
    assert notebook.completions("%pagetools ca") == ["%pagetools call"]
    assert offered(notebook, "%pagetools call ") == []
    assert offered(notebook, "%pagetools call add_todo ") == []


def test_completing_calls_nothing(notebook: Notebook, page: HostedPage) -> None:
    before = len(page.received)
    for line in ("", "call ", "call add", "call add_todo ", "call add_todo ti", "wait "):
        notebook.completions(f"%pagetools {line}")
    assert len(page.received) == before


def test_an_ambiguous_name_is_offered_once(notebook: Notebook, new_page: NewPage) -> None:
    for ns in ("shop", "blog"):
        page = new_page()
        page.hello(ns, doc=ns)
        page.register(ns, tool("search", inputSchema=takes(ns)))
    assert notebook.completions("%pagetools call se") == ["%pagetools call search"]
    assert offered(notebook, "%pagetools call search ") == []
    assert notebook.completions("%pagetools call shop/search ") == [
        "%pagetools call shop/search shop="
    ]


def test_new_tools_are_offered_as_soon_as_they_are_there(
    notebook: Notebook, page: HostedPage
) -> None:
    assert offered(notebook, "%pagetools call ne") == []
    page.register("new", "newest")
    assert offered(notebook, "%pagetools call ne") == ["%pagetools call newest"]
    page.register("new")
    assert offered(notebook, "%pagetools call ne") == []


@pytest.mark.parametrize("name", ["two words", "it's", 'say "hi"', "back\\slash", "--odd", "a=b"])
def test_what_is_offered_can_be_called_as_it_stands(
    notebook: Notebook, new_page: NewPage, name: str
) -> None:
    page = new_page({name: echo})
    page.register("n", name)
    (line,) = notebook.completions("%pagetools call ")
    output = notebook.run(line)
    assert output.error is None, output.text
    assert page.calls == [(name, {})]


def test_after_unloading_nothing_is_offered(notebook: Notebook) -> None:
    notebook.run("%unload_ext pagetools_ipy")
    assert "%pagetools start" not in notebook.completions("%pagetools sta")
    notebook.run("%load_ext pagetools_ipy")
    assert "%pagetools start" in notebook.completions("%pagetools sta")


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("before", ["pin", "call --tab", "call add_todo --tab"])
def test_tabs_are_offered_where_one_is_meant(
    notebook: Notebook, new_page: NewPage, before: str
) -> None:
    new_page().hello("tab-2", doc="doc-2", title="My shop")
    lines = sorted(notebook.completions(f"%pagetools {before} "))
    assert lines == [f"%pagetools {before} {tab}" for tab in ('"My shop"', "Todos")]


@pytest.mark.usefixtures("page")
def test_an_option_that_takes_no_value_leaves_the_tool_to_be_named(notebook: Notebook) -> None:
    assert "%pagetools call --strict clear" in offered(notebook, "%pagetools call --strict c")
    words = sorted(notebook.completions("%pagetools strict o"))
    assert words == ["%pagetools strict off", "%pagetools strict on"]
