"""``%pagetools`` in a shell without a kernel: what each verb shows, gives and complains of."""

from __future__ import annotations

import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from pagetools_ipy import BridgeError, CallState, PageCall, bridge as bridges, tabs
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.request import Request, page_address
from pagetools_ipy.transports import websocket
from pagetools_ipy.transports.websocket import bind
from pagetools_ipy.verbs import HELP, VERBS

from .conftest import DEADLINE, HostedPage, NewPage, Notebook, eventually, interrupt
from .helpers import NO_REPLY, Message, tool


def echo(args: Message) -> Message:
    return {"echo": args}


def fail(args: Message) -> Any:
    raise ValueError("sold <out>")


SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What is to be done"},
        "count": {"type": "integer"},
        "done": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "extra": {"type": "object"},
    },
    "required": ["title"],
}


@pytest.fixture
def page(new_page: NewPage) -> HostedPage:
    """A todo app that says what it was called with."""
    page = new_page({"add": echo, "any": echo, "fail": fail, "hang": lambda _: NO_REPLY})
    page.hello("tab-1", title="Todos", url="http://localhost/todos", visible=True)
    page.register(
        "todo",
        tool("add", description="Adds a todo.", inputSchema=SCHEMA),
        "any",
        "fail",
        "hang",
    )
    return page


def echoed(notebook: Notebook, code: str) -> Message:
    """The arguments a call arrived with."""
    value: Message = notebook.value(code)["echo"]
    return value


def complaint(notebook: Notebook, code: str) -> str:
    """The one line that a cell complains with, for errors of ours."""
    output = notebook.run(code)
    assert output.error is not None
    assert output.complaints == ""
    (line,) = output.text.splitlines()
    return line


def usage_error(notebook: Notebook, code: str) -> str:
    """The one line that a cell complains with, when it was typed wrongly."""
    output = notebook.run(code)
    assert (type(output.error).__name__, output.text) == ("UsageError", "")
    (line,) = output.complaints.splitlines()
    return line.removeprefix("UsageError: ")


# start, stop, status


def test_start_says_where_the_bridge_is_and_what_to_do_next(notebook: Notebook) -> None:
    output = notebook.run("%pagetools start --port 0")
    assert output.error is None
    assert output.value is None
    port = bridges.current().port
    assert output.text.splitlines() == [
        f"Bridge at http://127.0.0.1:{port}, on its own thread.",
        "No page is connected: `%pagetools open URL` opens one (or `demo`, to try), "
        "`%pagetools snippet` connects yours.",
    ]


def test_start_takes_the_usual_port_and_passes_over_one_that_is_taken(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bind(0) as taken:
        usual = taken.getsockname()[1]
        monkeypatch.setattr(websocket, "DEFAULT_PORT", usual)
        assert notebook.run("%pagetools start").error is None
        assert usual < bridges.current().port < usual + 10


@pytest.mark.parametrize(
    "again", ["", " --thread", " --port {port}", " --port={port}", " --port 0"]
)
def test_starting_again_shows_how_it_stands(notebook: Notebook, again: str) -> None:
    first = notebook.run("%pagetools start --port 0").text
    running = bridges.current()
    assert notebook.run(f"%pagetools start{again.format(port=running.port)}").text == first
    assert bridges.current() is running


def test_starting_again_on_another_port_says_that_it_runs_already(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    port = bridges.current().port
    assert complaint(notebook, f"%pagetools start --port {port + 1}") == (
        f"BridgeError: the bridge is running on port {port} already; `%pagetools stop` first"
    )


def test_a_start_that_fails_says_why_and_leaves_nothing(notebook: Notebook) -> None:
    threads = set(threading.enumerate())
    with bind(0) as taken:
        port = taken.getsockname()[1]
        line = complaint(notebook, f"%pagetools start --port {port}")
    assert line.startswith(f"BridgeError: port {port} cannot be used")
    assert set(threading.enumerate()) == threads
    assert "not running" in notebook.run("%pagetools status").text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--port", "--port: expected a value, got ''"),
        ("--port http", "--port: expected a value, got 'http'"),
        ("--port=1.5", "--port: expected a value, got '1.5'"),
        ("--kernel --thread", "--thread --kernel: expected one of the two"),
        (
            "--prot 1",
            "--prot: unknown option; there are: --port, --thread, --kernel, --mcpb, --relay",
        ),
        ("--relay", "--relay: expected --mcpb as well"),
    ],
)
def test_options_of_start_that_make_no_sense(notebook: Notebook, options: str, said: str) -> None:
    assert complaint(notebook, f"%pagetools start {options}") == f"InvalidArgumentsError: {said}"
    with pytest.raises(BridgeError):
        bridges.current()


def test_start_listens_for_embeds_when_asked(notebook: Notebook) -> None:
    said = notebook.run("%pagetools start --port 0 --mcpb").text
    port = bridges.current().mcpb_port
    assert 9333 <= port <= 9345
    assert f"Pages with an MCP-B embed find the bridge at port {port}" in said
    notebook.run("%pagetools start --mcpb")
    assert bridges.current().mcpb_port == port
    notebook.run("%pagetools stop")


def test_without_being_asked_nobody_listens_for_embeds(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    assert bridges.current().mcpb_port == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("open", "which page? `%pagetools open URL`"),
        ("open --headless", "which page? `%pagetools open URL`"),
        ("attach 1 2", "unexpected '2'; `%pagetools help` shows what there is"),
        ("close now", "unexpected 'now'; `%pagetools help` shows what there is"),
        ("detach 1", "unexpected '1'; `%pagetools help` shows what there is"),
    ],
)
def test_verbs_about_browsers_say_what_they_take(notebook: Notebook, line: str, said: str) -> None:
    notebook.run("%pagetools start --port 0")
    assert usage_error(notebook, f"%pagetools {line}") == said


def test_an_option_of_attach_that_there_is_not_is_named(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    said = "InvalidArgumentsError: --far: unknown option; there are: --remote"
    assert complaint(notebook, "%pagetools attach --far") == said


@pytest.mark.parametrize("verb", ["attach", "open localhost", "close", "detach"])
def test_verbs_about_browsers_need_a_bridge(notebook: Notebook, verb: str) -> None:
    assert complaint(notebook, f"%pagetools {verb}").startswith("BridgeError: ")


def test_without_browsers_there_is_nothing_to_end_or_leave(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    assert notebook.run("%pagetools close").text == "No browser was started.\n"
    assert notebook.run("%pagetools detach").text == "No browser was attached to.\n"


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("localhost:5173", "http://localhost:5173"),
        ("127.0.0.1:8000/a?b", "http://127.0.0.1:8000/a?b"),
        ("shop.localhost", "http://shop.localhost"),
        ("shop.example/cart", "https://shop.example/cart"),
        ("http://shop.example", "http://shop.example"),
        ("about:blank", "about:blank"),
        ("data:text/html,x", "data:text/html,x"),
        ("$page", "http://from.a.variable/"),
        ("demo", "demo"),
    ],
)
def test_what_is_opened_is_read_as_an_address_bar_would(
    notebook: Notebook, typed: str, url: str
) -> None:
    notebook.run("%pagetools start --port 0")
    if url == "demo":
        url = f"{bridges.current().url}/demo"
    request = Request(notebook.shell, variables={"page": "http://from.a.variable/"})
    assert page_address(request, typed) == url


def test_a_file_is_opened_by_its_path(notebook: Notebook, tmp_path: Path) -> None:
    page = tmp_path / "my page.html"
    page.write_text("hello", encoding="utf-8")
    request = Request(notebook.shell)
    assert page_address(request, str(page)) == page.as_uri()


def test_without_a_kernel_there_is_no_kernel_host(notebook: Notebook) -> None:
    line = complaint(notebook, "%pagetools start --kernel")
    assert line.startswith("BridgeError: there is no kernel here")


def test_stop_stops_and_may_be_repeated(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    port = bridges.current().port
    for _ in range(2):
        assert notebook.run("%pagetools stop").text == "The bridge is stopped.\n"
        bind(port).close()
    notebook.run(f"%pagetools start --port {port}")
    assert bridges.current().port == port


@pytest.mark.parametrize("line", ["%pagetools status", "%pagetools", "%pagetools   "])
def test_status_without_a_bridge_says_how_to_start_one(notebook: Notebook, line: str) -> None:
    output = notebook.run(line)
    assert output.error is None
    assert output.text == "The bridge is not running; start it with `%pagetools start`.\n"


def test_status_counts_what_is_connected(
    notebook: Notebook, bridge: Bridge, new_page: NewPage
) -> None:
    where = f"Bridge at http://127.0.0.1:{bridge.port}, on its own thread."
    assert notebook.run("%pagetools").text.startswith(f"{where}\nNo page is connected")
    page = new_page()
    page.register("todo", "add")
    assert notebook.run("%pagetools").text.splitlines() == [
        where,
        "1 tab connected, 1 tool in 1 namespace.",
    ]
    new_page().register("shop", "search", "buy")
    page.hello("tab-1")
    frame = new_page()
    frame.hello("tab-1", doc="frame", top=False)
    assert notebook.run("%pagetools status").text.splitlines() == [
        where,
        "2 tabs connected, 3 tools in 2 namespaces.",
    ]


# tabs, tools


def test_tabs_are_listed(notebook: Notebook, page: HostedPage, new_page: NewPage) -> None:
    other = new_page()
    other.hello("tab-2", doc="b", title="A <b>shop</b>", url="http://localhost/shop", focused=True)
    (shown,) = notebook.run("%pagetools tabs").displays
    head, todos, shop = shown["text/plain"].splitlines()
    assert head.split() == ["NO", "TITLE", "URL", "STATE", "TOOLS", "ID"]
    assert todos.split()[:4] == ["0", "Todos", "http://localhost/todos", "visible"]
    assert todos.endswith("todo/add, todo/any, todo/fail, todo/hang  tab-1")
    assert "A <b>shop</b>" in shop
    assert "focused" in shop
    assert "A &lt;b&gt;shop&lt;/b&gt;" in shown["text/html"]
    assert "<b>" not in shown["text/html"]


def test_tools_are_listed_with_what_they_take_and_do(
    notebook: Notebook, page: HostedPage, new_page: NewPage
) -> None:
    new_page().register("shop", tool("search", description="Finds <things>"))
    (shown,) = notebook.run("%pagetools tools").displays
    head, add, *_, search = shown["text/plain"].splitlines()
    assert head.split() == ["TOOL", "TAKES", "DOES", "TAB"]
    assert add.split()[:2] == ["todo/add", "title,"]
    assert "[count]" in add
    assert "Adds a todo." in add
    assert add.endswith("Todos")
    assert search.startswith("shop/search")
    assert "Finds &lt;things&gt;" in shown["text/html"]
    (only,) = notebook.run("%pagetools tools --ns shop").displays
    assert len(only["text/plain"].splitlines()) == 2
    (only,) = notebook.run('%pagetools tools --tab "Todos" --ns todo').displays
    assert len(only["text/plain"].splitlines()) == 5


@pytest.mark.usefixtures("bridge")
def test_where_nothing_is_connected_the_lists_say_so(notebook: Notebook) -> None:
    (shown,) = notebook.run("%pagetools tabs").displays
    assert shown["text/plain"] == "No page is connected."
    (shown,) = notebook.run("%pagetools tools --ns nothing").displays
    assert shown["text/plain"] == "No tools are declared."


@pytest.mark.parametrize(
    "verb",
    [
        *("tabs", "pin 0", "unpin", "strict", "strict off", "tools"),
        *("call add", "wait add", "snippet", "demo"),
    ],
)
def test_verbs_that_need_a_bridge_say_how_to_start_one(notebook: Notebook, verb: str) -> None:
    assert complaint(notebook, f"%pagetools {verb}") == (
        "BridgeError: the bridge is not running; start it with `%pagetools start`"
    )


def test_tabs_that_are_away_are_listed_with_what_became_of_them(
    notebook: Notebook, page: HostedPage, new_page: NewPage
) -> None:
    new_page().hello("tab-2", doc="b", title="Shop")
    page.disconnect()
    (shown,) = notebook.run("%pagetools tabs").displays
    _, todos, shop = shown["text/plain"].splitlines()
    assert todos.split()[:4] == ["0", "Todos", "http://localhost/todos", "reloading"]
    assert shop.split()[:2] == ["1", "Shop"]


# pin, unpin, strict


@pytest.fixture
def other(page: HostedPage, new_page: NewPage) -> HostedPage:
    """The todo app in a second tab, which is looked at."""
    other = new_page({"any": lambda _: "other"})
    other.hello("tab-2", doc="b", title="Other todos", url="http://localhost/b", focused=True)
    other.register("todo", "any")
    return other


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize(
    "selector", ["tab-1", "Todos", '"Todos"', "http://localhost/t", "0", " 'Todos' "]
)
def test_the_pinned_tab_answers_until_it_is_unpinned(notebook: Notebook, selector: str) -> None:
    assert notebook.value("%pagetools call any") == "other"
    assert notebook.run(f"%pagetools pin {selector}").text == (
        '"Todos" answers before all others until `%pagetools unpin`.\n'
    )
    assert notebook.value("%pagetools call any") == {"echo": {}}
    assert tabs.pinned == tabs["tab-1"]
    assert notebook.run("%pagetools unpin").text == (
        "The tab you look at, or looked at last, answers.\n"
    )
    assert notebook.value("%pagetools call any") == "other"


@pytest.mark.usefixtures("bridge")
def test_a_tab_without_a_title_is_pinned_by_its_url(notebook: Notebook, new_page: NewPage) -> None:
    new_page().hello("t", title="", url="http://localhost/x")
    assert notebook.run("%pagetools pin 0").text.startswith('"http://localhost/x" answers')


def test_a_pinned_tab_that_has_gone_is_not_replaced(
    notebook: Notebook, page: HostedPage, other: HostedPage
) -> None:
    notebook.run("%pagetools pin tab-1")
    page.disconnect()
    assert complaint(notebook, "%pagetools call any") == (
        "TabNotFoundError: the pinned tab 'Todos' is reloading (`%pagetools unpin` lets others "
        'answer); live tabs: tab-2 "Other todos"'
    )
    assert notebook.value("%pagetools call any --tab tab-2") == "other"
    assert len(other.calls) == 1


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("selector", ["nope", "7", '"to dos"'])
def test_a_tab_that_is_not_there_cannot_be_pinned(notebook: Notebook, selector: str) -> None:
    line = complaint(notebook, f"%pagetools pin {selector}")
    assert line.startswith(f"TabNotFoundError: no tab {selector.strip(chr(34))!r}; live tabs: ")


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("line", ["pin", "pin  ", "pin a b", "pin 'a' b"])
def test_pin_takes_one_tab(notebook: Notebook, line: str) -> None:
    assert usage_error(notebook, f"%pagetools {line}") == (
        "which tab? `%pagetools pin TAB`, `%pagetools tabs` lists"
    )


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("on", ["strict", "strict on"])
def test_strictness_is_turned_on_and_off(notebook: Notebook, on: str) -> None:
    assert notebook.run(f"%pagetools {on}").text == (
        "An app that is open in several tabs is ambiguous unless one is pinned.\n"
    )
    line = complaint(notebook, "%pagetools call any")
    assert line.startswith('AmbiguousToolError: "any" is offered 2 times and the policy is strict')
    assert notebook.value("%pagetools call any --tab tab-2") == "other"
    assert notebook.run("%pagetools strict off").text == (
        "Of an app in several tabs the one you look at, or looked at last, answers.\n"
    )
    assert notebook.value("%pagetools call any") == "other"


@pytest.mark.usefixtures("other")
def test_one_call_may_be_strict(notebook: Notebook) -> None:
    line = complaint(notebook, "%pagetools call --strict any")
    assert line.startswith("AmbiguousToolError")
    assert notebook.value("%pagetools call any") == "other"
    notebook.run("%pagetools pin tab-1")
    assert echoed(notebook, "%pagetools call any --strict x=1") == {"x": 1}


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("word", ["of", "on off", "ON", "--on"])
def test_strict_takes_on_or_off(notebook: Notebook, word: str) -> None:
    assert usage_error(notebook, f"%pagetools strict {word}") == "`%pagetools strict [on|off]`"


# call


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("typed", "args"),
    [
        ("title=milk", {"title": "milk"}),
        ('title="buy milk"', {"title": "buy milk"}),
        ("title='buy milk' count=3", {"title": "buy milk", "count": 3}),
        ("title=3 done=yes", {"title": "3", "done": True}),
        ("title=$5", {"title": "$5"}),
        ("title={x}", {"title": "{x}"}),
        ('title=a tags:=["b", "c"]', {"title": "a", "tags": ["b", "c"]}),
        ('title=a tags=["b","c"]', {"title": "a", "tags": ["b", "c"]}),
        ('title=a extra={"b": {"c": [1]}}', {"title": "a", "extra": {"b": {"c": [1]}}}),
        ("title=$name tags=$rows", {"title": "milk", "tags": ["x", "y"]}),
        ('title="$name"', {"title": "$name"}),
        ("title=grüße", {"title": "grüße"}),
        ("--ns todo title=a --timeout 5 count=1", {"title": "a", "count": 1}),
        ('title=a --tab "Todos"', {"title": "a"}),
    ],
)
def test_arguments_are_read_as_the_tool_asks_for_them(
    notebook: Notebook, typed: str, args: Message
) -> None:
    notebook.run("name = 'milk'; rows = ['x', 'y']")
    assert echoed(notebook, f"%pagetools call add {typed}") == args


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    "name", ["any", "todo/any", '"any"', "--ns todo any", "--tab tab-1 --ns todo 'any'"]
)
def test_the_name_may_be_written_in_several_ways(notebook: Notebook, name: str) -> None:
    assert echoed(notebook, f"%pagetools call {name} x=1") == {"x": 1}


def test_a_name_with_spaces_is_written_in_quotes(notebook: Notebook, new_page: NewPage) -> None:
    new_page({"a b": echo}).register("n", "a b")
    assert echoed(notebook, '%pagetools call "a b" x=1') == {"x": 1}


def test_the_value_of_a_call_is_the_cells_and_can_be_assigned(
    notebook: Notebook, page: HostedPage
) -> None:
    output = notebook.run("%pagetools call any x=1")
    assert output.value == {"echo": {"x": 1}}
    assert "{'echo': {'x': 1}}" in output.text
    assert notebook.run("found = %pagetools call any x=2").text == ""
    assert notebook.value("found") == {"echo": {"x": 2}}
    looped = "found = []\nfor n in range(3):\n    v = %pagetools call any x=$n\n    found.append(v)"
    notebook.run(looped)
    assert notebook.value("[f['echo']['x'] for f in found]") == [0, 1, 2]


def test_a_semicolon_keeps_the_value_from_being_shown(notebook: Notebook, page: HostedPage) -> None:
    output = notebook.run("%pagetools call any x=1;")
    assert (output.text, output.error) == ("", None)
    assert page.calls == [("any", {"x": 1})]


def test_call_waits_as_long_as_it_is_told(notebook: Notebook, page: HostedPage) -> None:
    line = complaint(notebook, "%pagetools call hang --timeout 0.03")
    assert line.startswith('CallTimeoutError: todo/hang in "Todos" did not answer within 0.03 s')
    assert page.all("cancel")


def test_call_without_a_timeout_is_ended_by_an_interrupt(
    notebook: Notebook, new_page: NewPage
) -> None:
    called = threading.Event()

    def hang(args: Message) -> object:
        called.set()
        return NO_REPLY

    page = new_page({"hang": hang})
    page.register("todo", "hang")
    with interrupt(after=called):
        line = complaint(notebook, "%pagetools call hang --timeout none")
    assert line == "KeyboardInterrupt: todo/hang was interrupted; its page was told to stop"
    eventually(lambda: page.all("cancel"), "the page is told")


def test_without_validation_anything_is_sent(notebook: Notebook, page: HostedPage) -> None:
    assert echoed(notebook, "%pagetools call add --no-validate x=1") == {"x": 1}
    assert complaint(notebook, "%pagetools call add x=1").startswith("InvalidArgumentsError")
    assert len(page.calls) == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("add", "todo/add: title: missing; the tool takes title, [count]"),
        ("add title=a count=many", "count: expected integer, got 'many'"),
        ("add title=a titel=b", 'todo/add: titel: unknown argument; did you mean "title"?'),
        ("add milk", "expected name=value, got 'milk'"),
        ('add title="milk', 'title: the quote " is not closed'),
        ("add title=a title=b", "title: given twice"),
        ("add title=a tags:=[1,", "tags: expected JSON"),
        ("add title=a tags:=[1]", "todo/add: tags[0]: expected string, got number 1"),
        ("add title=$nothing", "title: no variable $nothing"),
        ("add title=a --colour red", "--colour: unknown option; there are: --tab, --ns"),
        ("add title=a --timeout soon", "--timeout: expected a value, got 'soon'"),
        ("add title=a --timeout 0", "timeout: expected a positive number of seconds"),
        ("add title=a count=9007199254740993", "expected an integer up to 2**53 - 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_one_line(
    notebook: Notebook, page: HostedPage, typed: str, said: str
) -> None:
    line = complaint(notebook, f"%pagetools call {typed}")
    assert line.startswith("InvalidArgumentsError: ")
    assert said in line
    assert page.calls == []


def test_errors_are_one_line_and_stay_ordinary_exceptions(
    notebook: Notebook, page: HostedPage, new_page: NewPage
) -> None:
    page.register("other", "any")
    new_page().hello("tab-2", doc="b", title="Empty")
    for code, line in (
        ("nothing", 'ToolNotFoundError: no tool "nothing"'),
        ("ad", 'ToolNotFoundError: no tool "ad"; did you mean "add"?'),
        ("add --tab nowhere title=a", "TabNotFoundError: no tab 'nowhere'; live tabs: tab-1"),
        ("add --tab Empty title=a", 'ToolNotFoundError: no tool "add" in tab "Empty"'),
        ("any", 'AmbiguousToolError: "any" is offered 2 times'),
        ("fail", 'PageToolError: todo/fail in "Todos": ValueError: sold <out>'),
    ):
        assert complaint(notebook, f"%pagetools call {code}").startswith(line)
    kind = "import pagetools_ipy as p\ntry:\n    %pagetools call fail\n"
    assert notebook.value(f"{kind}except p.PageToolError as e:\n    kept = e\nkept.name") == (
        "ValueError"
    )


@pytest.mark.usefixtures("page")
def test_errors_of_python_code_are_one_line_too(notebook: Notebook) -> None:
    notebook.run("from pagetools_ipy import tools")
    assert complaint(notebook, "tools.nothing").startswith("ToolNotFoundError: no tool")
    assert complaint(notebook, "await tools.fail()").startswith("PageToolError: todo/fail")
    assert complaint(notebook, "tools.add()").startswith("InvalidArgumentsError: todo/add: title")


@pytest.mark.usefixtures("bridge")
def test_a_call_without_a_page_says_how_to_connect_one(notebook: Notebook) -> None:
    line = complaint(notebook, "%pagetools call add title=a")
    assert line.startswith("NoPageConnectedError: no page is connected; `%pagetools open URL`")


@pytest.mark.usefixtures("bridge")
def test_a_call_without_a_name_says_how_to_call(notebook: Notebook) -> None:
    assert usage_error(notebook, "%pagetools call").startswith("which tool?")
    assert usage_error(notebook, "%pagetools call --ns todo").startswith("which tool?")


@pytest.mark.usefixtures("page")
def test_a_call_can_be_awaited_in_a_cell(notebook: Notebook) -> None:
    notebook.run("from pagetools_ipy import tools")
    assert echoed(notebook, "await tools.any(x=1)") == {"x": 1}


# %%pagetools call


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    ("body", "args"),
    [
        ('{"title": "a", "tags": ["b"]}', {"title": "a", "tags": ["b"]}),
        ("title: a\ntags:\n  - b\n  - c", {"title": "a", "tags": ["b", "c"]}),
        ("title: a\ncount: 3\ndone: true", {"title": "a", "count": 3, "done": True}),
        ("{title: a, count: 3}", {"title": "a", "count": 3}),
        ("title: $name\ntags: $rows", {"title": "milk", "tags": ["x", "y"]}),
        ("# a comment\ntitle: |\n  two\n  lines\n", {"title": "two\nlines\n"}),
        ('{"title": "$5 and more"}', {"title": "$5 and more"}),
    ],
)
def test_a_cell_gives_arguments_as_json_or_yaml(
    notebook: Notebook, body: str, args: Message
) -> None:
    notebook.run("name = 'milk'; rows = ['x', 'y']")
    assert echoed(notebook, f"%%pagetools call add\n{body}") == args


@pytest.mark.usefixtures("page")
def test_what_the_line_says_wins_over_the_cell(notebook: Notebook) -> None:
    found = echoed(notebook, "%%pagetools call add --timeout 5 title=line\ntitle: cell\ncount: 3")
    assert found == {"title": "line", "count": 3}


@pytest.mark.usefixtures("page")
def test_an_empty_cell_gives_no_arguments(notebook: Notebook) -> None:
    assert echoed(notebook, "%%pagetools call any\n\n") == {}
    assert echoed(notebook, "%%pagetools call any\n# only a comment") == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"title": ', "expected JSON or YAML in the cell"),
        ('{"title": NaN}', "InvalidArgumentsError"),
        ("title: [a", "expected JSON or YAML in the cell"),
        ("- a\n- b", "expected arguments by name in the cell, got array"),
        ("just text", "expected arguments by name in the cell, got string"),
        ("3", "expected arguments by name in the cell, got number"),
        ("title: $nothing", "title: no variable $nothing"),
        ("title: 3", "todo/add: title: expected string, got number 3"),
        ("title: 2026-11-30", "InvalidArgumentsError"),
        ("1: a\ntitle: b", "InvalidArgumentsError"),
        ("title: !!python/object:os.system x", "expected JSON or YAML in the cell"),
    ],
)
def test_a_cell_that_makes_no_sense_is_refused_and_nothing_is_sent(
    notebook: Notebook, page: HostedPage, body: str, said: str
) -> None:
    output = notebook.run(f"%%pagetools call add\n{body}")
    assert type(output.error).__name__ == "InvalidArgumentsError"
    assert said in output.text
    assert "Traceback" not in output.text
    assert page.calls == []


# wait


@pytest.mark.usefixtures("page")
def test_wait_says_where_the_tool_is(notebook: Notebook) -> None:
    for name in ("add", "todo/add", '"add"', "add --ns todo", "--tab Todos add --timeout 5"):
        output = notebook.run(f"%pagetools wait {name}")
        assert (output.text, output.error) == ('"todo/add" is there, in "Todos".\n', None)


def test_wait_returns_when_a_page_offers_the_tool(notebook: Notebook, bridge: Bridge) -> None:
    def come() -> None:
        eventually(lambda: bridge.directory._pulse, "somebody waits")
        page = HostedPage(bridge)
        page.hello("tab-1", title="Shop")
        page.register("shop", "search")

    coming = threading.Thread(target=come)
    coming.start()
    output = notebook.run("%pagetools wait search")
    coming.join(DEADLINE)
    assert output.text == '"shop/search" is there, in "Shop".\n'


def test_wait_in_vain_says_what_is_missing(notebook: Notebook, page: HostedPage) -> None:
    line = complaint(notebook, "%pagetools wait search --timeout 0.02")
    assert line.startswith('ToolWaitTimeoutError: "search" did not come within 0.02 s: no tool')


def test_wait_is_ended_by_an_interrupt(notebook: Notebook, bridge: Bridge) -> None:
    with interrupt():
        line = complaint(notebook, "%pagetools wait search --timeout none")
    assert line == 'KeyboardInterrupt: "search" is not waited for any more'
    eventually(lambda: not bridge.directory._pulse, "nobody waits any more")


@pytest.mark.usefixtures("bridge")
@pytest.mark.parametrize("line", ["wait", "wait a b", "wait --timeout 3"])
def test_wait_takes_one_name(notebook: Notebook, line: str) -> None:
    assert usage_error(notebook, f"%pagetools {line}") == "`%pagetools wait NAME [--timeout S]`"


# snippet, demo, help


def test_the_snippet_holds_the_bridges_address_and_no_token(
    notebook: Notebook, bridge: Bridge
) -> None:
    text = notebook.run("%pagetools snippet").text
    script = f"http://127.0.0.1:{bridge.port}/pagetools.js"
    assert f'<script type="module" src="{script}"></script>' in text
    assert f"await import('{script}')" in text
    assert "javascript:" in text
    assert "pagetools.register(" in text
    assert bridge._token not in text


def test_the_demo_is_shown_in_the_notebook_and_linked_to(
    notebook: Notebook, bridge: Bridge
) -> None:
    (shown,) = notebook.run("%pagetools demo").displays
    url = f"http://127.0.0.1:{bridge.port}/demo"
    assert shown["text/plain"] == f"Open {url} in a browser."
    assert f'<iframe src="{url}"' in shown["text/html"]


def test_help_names_every_verb(notebook: Notebook) -> None:
    assert notebook.run("%pagetools help").text == f"{HELP}\n"
    lines = [line.split("  ")[0] for line in HELP.splitlines() if line.startswith("%pagetools ")]
    assert lines[0] == "%pagetools"
    assert sorted(line.split()[1] for line in lines[1:]) == sorted(VERBS)


def test_a_question_mark_after_the_magic_says_where_help_is(notebook: Notebook) -> None:
    output = notebook.run("%pagetools?")
    assert output.error is None
    shown = output.text + "".join(str(display) for display in output.displays)
    assert "%pagetools help" in shown


# Mistakes


def test_an_unknown_verb_is_answered_with_those_there_are(notebook: Notebook) -> None:
    said = usage_error(notebook, "%pagetools strat")
    assert said.startswith("no verb 'strat'; there are: ")
    for verb in VERBS:
        assert verb in said


@pytest.mark.usefixtures("bridge")
@pytest.mark.parametrize(
    "verb", ["start", "stop", "status", "tabs", "unpin", "tools", "snippet", "demo"]
)
def test_words_that_a_verb_does_not_take_are_pointed_out(notebook: Notebook, verb: str) -> None:
    assert usage_error(notebook, f"%pagetools {verb} now") == (
        "unexpected 'now'; `%pagetools help` shows what there is"
    )
    line = complaint(notebook, f"%pagetools {verb} --loud")
    assert line.startswith("InvalidArgumentsError: --loud: unknown option; there are: ")
    bridges.current()  # `stop` was not understood, so it did not stop


@pytest.mark.parametrize("verb", ["", "start", "status", "tools", "help"])
def test_only_call_takes_a_cell(notebook: Notebook, verb: str) -> None:
    said = usage_error(notebook, f"%%pagetools {verb}\nx: 1")
    assert said == "only `%%pagetools call NAME` takes a cell"


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize("line", ["call\tany x=1", "  call   any   x=1  ", "call any\tx=1"])
def test_any_space_parts_words(notebook: Notebook, line: str) -> None:
    assert echoed(notebook, f"%pagetools {line}") == {"x": 1}


# Loading and unloading


def test_loading_twice_changes_nothing(notebook: Notebook, page: HostedPage) -> None:
    running = bridges.current()
    matchers = len(notebook.shell.Completer.custom_matchers)
    assert "already loaded" in notebook.run("%load_ext pagetools_ipy").text
    import pagetools_ipy

    pagetools_ipy.load_ipython_extension(notebook.shell)
    assert bridges.current() is running
    assert len(notebook.shell.Completer.custom_matchers) == matchers
    assert echoed(notebook, "%pagetools call any x=1") == {"x": 1}
    assert len(page.calls) == 1


def test_reloading_keeps_the_bridge_where_it_was(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    port = bridges.current().port
    output = notebook.run("%reload_ext pagetools_ipy")
    assert output.error is None
    assert f"Bridge at http://127.0.0.1:{port}," in notebook.run("%pagetools").text


def test_unloading_leaves_nothing_behind(notebook: Notebook) -> None:
    shell = notebook.shell

    def traces() -> dict[str, Any]:
        formatter = shell.display_formatter.ipython_display_formatter
        return {
            "lines": set(shell.magics_manager.magics["line"]),
            "cells": set(shell.magics_manager.magics["cell"]),
            "classes": set(shell.magics_manager.registry),
            "matchers": list(shell.Completer.custom_matchers),
            "printers": set(formatter.type_printers),
            "deferred": set(formatter.deferred_printers),
            "threads": set(threading.enumerate()),
        }

    assert "unload" not in notebook.run("%unload_ext pagetools_ipy").complaints
    before = traces()
    assert "pagetools" not in before["lines"] | before["cells"]
    notebook.run("%load_ext pagetools_ipy")
    assert traces() != before
    notebook.run("%pagetools start --port 0")
    port = bridges.current().port
    notebook.run("%unload_ext pagetools_ipy")
    assert traces() == before
    bind(port).close()
    with pytest.raises(BridgeError):
        bridges.current()
    assert usage_error(notebook, "%pagetools").startswith("Line magic function `%pagetools` not")
    notebook.run("%load_ext pagetools_ipy")
    assert notebook.run("%pagetools help").error is None


def test_unloading_ends_pending_calls(notebook: Notebook, page: HostedPage) -> None:
    notebook.run("from pagetools_ipy import tools")
    call: PageCall = notebook.value("call = tools.hang(timeout=None); call")
    notebook.run("%unload_ext pagetools_ipy")
    assert call.state is CallState.GONE


def test_in_a_terminal_nothing_is_written_to_disk(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    notebook.run("%pagetools start --port 0")
    assert not (tmp_path / "runtime").exists()


def test_a_variable_of_a_function_is_meant_before_one_of_the_notebook(
    notebook: Notebook, page: HostedPage
) -> None:
    code = """
    n = 1
    def call(n):
        value = %pagetools call any n=$n
        return value
    call(5)
    """
    assert echoed(notebook, textwrap.dedent(code)) == {"n": 5}
    assert echoed(notebook, "%pagetools call any n=$n") == {"n": 1}


def test_a_host_that_is_not_the_running_ones_is_refused(notebook: Notebook) -> None:
    notebook.run("%pagetools start --port 0")
    output = notebook.run("%pagetools start --kernel")
    assert isinstance(output.error, BridgeError)
    assert "thread host already" in output.text


def test_a_tab_can_be_given_by_the_number_that_is_shown(
    notebook: Notebook, new_page: NewPage
) -> None:
    for number in range(2):
        page = new_page({"who": lambda _, number=number: number})
        page.hello(f"t{number}", doc=f"d{number}", title="Same")
        page.register("app", "who")
    assert notebook.value("%pagetools call who --tab 0") == 0
    assert notebook.value("%pagetools call who --tab 1") == 1
    output = notebook.run("%pagetools call who --tab 2")
    assert type(output.error).__name__ == "TabNotFoundError"
