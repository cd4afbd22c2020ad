"""`Tools` and `PageTool`: pages' tools as attributes, items and callables, with a real bridge."""

from __future__ import annotations

import asyncio
import base64
import copy
import inspect
import keyword
import pydoc
import threading
from typing import Any

import pytest

from pagetools_ipy import (
    AmbiguousToolError,
    BridgeError,
    CallCancelledError,
    CallState,
    CallTimeoutError,
    Image,
    InvalidArgumentsError,
    NoPageConnectedError,
    PageCall,
    PageGoneError,
    PageTool,
    PageToolError,
    TabNotFoundError,
    ToolNotFoundError,
    ToolResult,
    Tools,
    ToolWaitTimeoutError,
    bridge as bridges,
    tabs,
    tools,
)
from pagetools_ipy.bridge import Bridge

from .conftest import DEADLINE, HostedPage, NewPage, Notebook, eventually, interrupt
from .helpers import NO_REPLY, Message, tool

ADD_TODO = tool(
    "add_todo",
    description="Adds a todo to the list.\n\nGive it a title.",
    inputSchema={
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What is to be done"},
            "done": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["title"],
    },
)


def echo(args: Message) -> Message:
    return {"echo": args}


def no_reply(args: Message) -> object:
    return NO_REPLY


@pytest.fixture
def page(new_page: NewPage) -> HostedPage:
    """A todo app that says what it was called with."""
    page = new_page({"add_todo": echo, "clear": echo, "hang": no_reply})
    page.hello("tab-1", title="Todos", url="http://localhost/todos")
    page.register("todo", ADD_TODO, "clear", "hang")
    return page


def two_shops(new_page: NewPage) -> tuple[HostedPage, HostedPage]:
    """Two different apps that both have a tool ``search``."""
    shop = new_page({"search": lambda _: "shop", "buy": echo})
    blog = new_page({"search": lambda _: "blog"})
    shop.hello("tab-1", doc="a", title="Shop", url="http://localhost/shop")
    blog.hello("tab-2", doc="b", title="Blog", url="http://localhost/blog")
    shop.register("shop", "search", "buy")
    blog.register("blog", "search")
    return shop, blog


# Calling


@pytest.mark.usefixtures("page")
def test_a_tool_is_an_attribute_that_is_called_like_a_function() -> None:
    call = tools.add_todo(title="milk", done=True)
    assert isinstance(call, PageCall)
    assert call.result(DEADLINE) == {"echo": {"title": "milk", "done": True}}
    assert call.state is CallState.ANSWERED
    assert (call.tool, call.tab, call.why) == ("todo/add_todo", "Todos", "the only one")


@pytest.mark.usefixtures("page")
@pytest.mark.parametrize(
    "find",
    [
        lambda: tools.add_todo,
        lambda: tools["add_todo"],
        lambda: tools["todo/add_todo"],
        lambda: tools.todo.add_todo,
        lambda: tools.todo["add_todo"],
        lambda: tools.on(ns="todo").add_todo,
        lambda: tools.on("tab-1").add_todo,
        lambda: tools.on("Todos").todo.add_todo,
        lambda: tools.add_todo.on("http://localhost/"),
        lambda: Tools(bridges.current).add_todo,
    ],
)
def test_the_same_tool_is_found_in_every_way(find: Any) -> None:
    found = find()
    assert isinstance(found, PageTool)
    assert found(title="milk").result(DEADLINE) == {"echo": {"title": "milk"}}


@pytest.mark.usefixtures("page")
def test_a_call_is_awaited_from_any_loop() -> None:
    async def cell() -> list[Any]:
        return await asyncio.gather(*(tools.add_todo(title=str(n)) for n in range(50)))

    assert asyncio.run(cell()) == [{"echo": {"title": str(n)}} for n in range(50)]


def test_a_call_is_sent_when_it_is_made_and_only_once(page: HostedPage) -> None:
    call = tools.hang()
    assert page.calls == [("hang", {})]
    assert not call.done()
    page.result(page.last_call["callId"], 42)
    for _ in range(3):
        assert call.result(DEADLINE) == 42
    assert len(page.all("call")) == 1


def test_cancelling_the_awaiting_task_tells_the_page(page: HostedPage) -> None:
    async def cell() -> PageCall:
        call: PageCall = tools.hang()

        async def wait() -> Any:
            return await call

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call

    call = asyncio.run(cell())
    eventually(lambda: page.all("cancel"), "the page is told")
    assert page.all("cancel")[0]["callId"] == call.id
    with pytest.raises(CallCancelledError):
        call.result(DEADLINE)


def test_an_interrupt_of_a_blocking_call_tells_the_page(page: HostedPage) -> None:
    call = tools.hang(timeout=None)
    with interrupt(), pytest.raises(KeyboardInterrupt):
        call.result()
    eventually(lambda: page.all("cancel"), "the page is told")
    assert page.all("cancel")[0]["reason"] == "interrupted"


def test_running_out_of_time_to_wait_leaves_the_call_as_it_is(page: HostedPage) -> None:
    call = tools.hang()
    with pytest.raises(TimeoutError):
        call.result(0.01)
    assert call.state is CallState.PENDING
    page.result(page.last_call["callId"], "late")
    assert call.result(DEADLINE) == "late"


def test_which_tab_answers_is_decided_at_each_call(page: HostedPage, new_page: NewPage) -> None:
    clear = tools.clear
    assert clear().result(DEADLINE) == {"echo": {}}
    other = new_page({"clear": lambda _: "the other tab"})
    other.hello("tab-2", doc="other", title="Other", focused=True, visible=True)
    other.register("todo", "clear")
    call = clear()
    assert call.result(DEADLINE) == "the other tab"
    assert (call.tab, call.why) == ("Other", "focused of 2")
    other.disconnect()
    assert clear().result(DEADLINE) == {"echo": {}}


def test_a_page_that_goes_away_ends_its_call(page: HostedPage) -> None:
    call = tools.hang()
    page.disconnect()
    with pytest.raises(PageGoneError, match="may have run"):
        call.result(DEADLINE)


def test_a_blocking_call_on_the_bridges_own_thread_is_refused(
    page: HostedPage, bridge: Bridge
) -> None:
    call = tools.hang()
    with pytest.raises(BridgeError, match="await it"):
        bridge.host.run(call.result)
    page.result(page.last_call["callId"], 1)
    assert call.result(DEADLINE) == 1


def test_calls_of_many_threads_at_once_all_get_their_own_answer(page: HostedPage) -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = tools.add_todo(title=str(number)).result(DEADLINE)

    threads = [threading.Thread(target=work, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert found == {n: {"echo": {"title": str(n)}} for n in range(20)}


# Arguments


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "title"),
        ({"title": 3}, "title"),
        ({"title": None}, "title"),
        ({"title": "x", "done": "yes"}, "done"),
        ({"title": "x", "tags": ["a", 1]}, "tags[1]"),
        ({"titel": "x"}, "titel"),
        ({"title": "x", "colour": "red"}, "colour"),
        ({"title": float("nan")}, "title"),
        ({"title": "x", "tags": [float("inf")]}, "tags[0]"),
        ({"title": 2**53}, "title"),
        ({"title": object()}, "title"),
        ({"title": {1: 2}}, "title"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(
    page: HostedPage, arguments: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidArgumentsError) as raised:
        tools.add_todo(**arguments)
    assert raised.value.path == path
    assert raised.value.tool == "todo/add_todo"
    assert page.calls == []


def test_a_misspelt_argument_is_answered_with_the_one_that_was_meant(page: HostedPage) -> None:
    with pytest.raises(InvalidArgumentsError, match='did you mean "title"'):
        tools.add_todo(titel="milk")
    assert page.calls == []


def test_without_validation_the_page_gets_what_it_is_given(page: HostedPage) -> None:
    assert tools.on(validate=False).add_todo(titel=3).result(DEADLINE) == {"echo": {"titel": 3}}
    assert tools.add_todo.on(validate=False)().result(DEADLINE) == {"echo": {}}
    strict = tools.on(validate=False).on(validate=True)
    with pytest.raises(InvalidArgumentsError):
        strict.add_todo(titel=3)


def test_what_json_cannot_carry_is_refused_even_without_validation(page: HostedPage) -> None:
    for value in (float("nan"), 2**60, object(), {1: 2}, {"a": {3}}):
        with pytest.raises(InvalidArgumentsError):
            tools.on(validate=False).add_todo(title=value)
    assert page.calls == []


def test_arguments_go_by_name_only(page: HostedPage) -> None:
    with pytest.raises(TypeError):
        tools.add_todo("milk")
    assert page.calls == []


def test_arguments_may_have_any_name(new_page: NewPage) -> None:
    names = ["self", "name", "tool", "arguments", "class", "user-id", "", "args", "kwargs"]
    page = new_page({"odd": echo})
    page.register(
        "n",
        tool("odd", inputSchema={"type": "object", "properties": {name: {} for name in names}}),
    )
    given = {name: number for number, name in enumerate(names)}
    assert tools.odd(**given).result(DEADLINE) == {"echo": given}


# The keyword timeout


def test_the_keyword_timeout_is_the_calls_deadline_and_is_not_sent(page: HostedPage) -> None:
    call = tools.hang(timeout=0.03)
    with pytest.raises(CallTimeoutError, match="0.03 s"):
        call.result(DEADLINE)
    assert page.calls == [("hang", {})]
    assert page.all("cancel")[0]["callId"] == call.id


def test_the_timeout_is_fifteen_seconds_unless_told_otherwise(page: HostedPage) -> None:
    calls = [
        tools.hang(),
        tools.hang(timeout=3),
        tools.hang(timeout=None),
        tools.on(timeout=7).hang(),
        tools.on(timeout=7).hang(timeout=8),
        tools.on(timeout=7).on(ns="todo").hang(),
        tools.on(timeout=7).on(timeout=None).hang(),
        tools.hang.on(timeout=9)(),
    ]
    assert [call.timeout for call in calls] == [15, 3, None, 7, 8, 7, None, 9]
    for call in calls:
        call.cancel()


def test_a_tool_that_takes_an_argument_called_timeout_gets_it(new_page: NewPage) -> None:
    page = new_page({"wait": echo, "hang": no_reply})
    schema = {"type": "object", "properties": {"timeout": {"type": "string"}}}
    page.register("n", tool("wait", inputSchema=schema), tool("hang", inputSchema=schema))
    call = tools.wait(timeout="long")
    assert call.result(DEADLINE) == {"echo": {"timeout": "long"}}
    assert call.timeout == 15
    with pytest.raises(CallTimeoutError):
        tools.hang.on(timeout=0.03)(timeout="long").result(DEADLINE)
    assert page.last_call["args"] == {"timeout": "long"}


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True, []])
def test_a_timeout_that_is_none_is_refused_before_anything_is_sent(
    page: HostedPage, timeout: Any
) -> None:
    with pytest.raises(InvalidArgumentsError, match="positive number of seconds"):
        tools.hang(timeout=timeout)
    with pytest.raises(InvalidArgumentsError, match="positive number of seconds"):
        tools.on(timeout=timeout)
    with pytest.raises(InvalidArgumentsError, match="positive number of seconds"):
        tools.hang.on(timeout=timeout)
    assert page.calls == []


# Names


def test_a_name_that_is_no_identifier_has_an_attribute_all_the_same(new_page: NewPage) -> None:
    page = new_page({"cart.add": echo, "list-items": echo, "größe": echo})
    page.register("my-shop", "cart.add", "list-items", "größe")
    for found in (
        tools["cart.add"],
        tools.cart_add,
        tools.list_items,
        tools.größe,
        tools.my_shop.cart_add,
        tools["my-shop/cart.add"],
        tools.on(ns="my-shop")["cart.add"],
    ):
        assert found().result(DEADLINE) == {"echo": {}}
    assert [name for name, _ in page.calls][:3] == ["cart.add", "cart.add", "list-items"]


def test_an_exact_name_wins_over_one_that_only_reads_like_it(new_page: NewPage) -> None:
    page = new_page({"cart.add": lambda _: "dot", "cart_add": lambda _: "underscore"})
    page.register("n", "cart.add", "cart_add")
    assert tools.cart_add().result(DEADLINE) == "underscore"
    assert tools["cart.add"]().result(DEADLINE) == "dot"


def test_a_tool_wins_over_a_namespace_of_the_same_name(new_page: NewPage) -> None:
    page = new_page({"search": lambda _: "tool"})
    page.register("search", "search", "other")
    assert tools.search().result(DEADLINE) == "tool"


@pytest.mark.parametrize(
    "name",
    ["_private", "__class__", "__len__", "_repr_html_", "_ipython_display_", "getdoc", "mro"],
)
def test_names_that_belong_to_python_are_only_had_as_items(new_page: NewPage, name: str) -> None:
    page = new_page({name: lambda _: "the page's"})
    page.register("n", name, "plain")
    assert not isinstance(getattr(tools, name, None), PageTool)
    assert name not in dir(tools)
    assert page.calls == []
    assert tools[name]().result(DEADLINE) == "the page's"
    assert name in tools


@pytest.mark.parametrize("name", ["on", "wait_for", "registrations"])
def test_names_that_tools_itself_uses_are_only_had_as_items(new_page: NewPage, name: str) -> None:
    page = new_page({name: lambda _: "the page's"})
    page.register("n", name)
    assert not isinstance(getattr(tools, name), PageTool)
    assert tools[name]().result(DEADLINE) == "the page's"
    assert dir(tools).count(name) == 1


def test_unknown_names_are_attribute_and_key_errors(page: HostedPage) -> None:
    assert not hasattr(tools, "nothing")
    assert getattr(tools, "nothing", 42) == 42
    assert not hasattr(tools.todo, "nothing")
    with pytest.raises(AttributeError):
        tools._nothing  # noqa: B018
    with pytest.raises(ToolNotFoundError, match='did you mean "add_todo"'):
        tools.add_tod  # noqa: B018
    with pytest.raises(KeyError):
        tools["nothing"]
    with pytest.raises(ToolNotFoundError, match='in namespace "todo"'):
        tools.todo.nothing  # noqa: B018
    assert page.calls == []


def test_an_ambiguous_name_lists_who_offers_it_and_how_to_choose(new_page: NewPage) -> None:
    two_shops(new_page)
    with pytest.raises(AmbiguousToolError, match=r"shop/search.*blog/search|blog/search.*shop"):
        tools["search"]
    assert tools.shop.search().result(DEADLINE) == "shop"
    assert tools["blog/search"]().result(DEADLINE) == "blog"


def test_tools_can_be_copied(page: HostedPage) -> None:
    assert copy.copy(tools.todo).clear().result(DEADLINE) == {"echo": {}}
    assert copy.copy(tools.clear)().result(DEADLINE) == {"echo": {}}
    assert len(page.calls) == 2


# Narrowing


def test_narrowing_by_tab_namespace_and_connection(new_page: NewPage, bridge: Bridge) -> None:
    shop, _ = two_shops(new_page)
    (shop_tab, _) = bridge.host.run(bridge.directory.tabs)
    for narrowed in (
        tools.on("tab-1"),
        tools.on("Shop"),
        tools.on("http://localhost/shop"),
        tools.on(0),
        tools.on(shop_tab),
        tools.on(shop.client_id),
        tools.on(ns="shop"),
        tools.on(client_id=shop.client_id),
        tools.on("tab-1", ns="shop", client_id=shop.client_id),
        tools.on("tab-1").on(ns="shop"),
        tools.shop,
    ):
        assert narrowed.search().result(DEADLINE) == "shop"
        assert set(narrowed) == {"search", "buy"}
        assert len(narrowed) == 2


def test_a_text_that_fits_several_tabs_narrows_to_all_of_them(new_page: NewPage) -> None:
    for number in range(3):
        page = new_page({"search": lambda _, number=number: number})
        page.hello(f"tab-{number}", doc=str(number), title="Shop" if number < 2 else "Blog")
        page.register("shop", "search", f"only_{number}")
    shop = tools.on("Shop")
    assert set(shop) == {"search", "only_0", "only_1"}
    assert shop.search().result(DEADLINE) == 1
    assert tools.search().result(DEADLINE) == 2
    assert tools.on(client_id="tab-0").search().result(DEADLINE) == 0
    assert set(tools.on(client_id="tab-0")) == {"search", "only_0"}


def test_a_tab_narrows_to_itself(new_page: NewPage) -> None:
    two_shops(new_page)
    shop, blog = tabs
    assert tools.on(shop).search().result(DEADLINE) == "shop"
    assert tools.on(blog).search().result(DEADLINE) == "blog"
    assert shop.search().result(DEADLINE) == "shop"
    assert set(blog.tools) == set(tools.on("tab-2"))


def test_strictness_is_the_policys_unless_it_is_given(new_page: NewPage, bridge: Bridge) -> None:
    for number in range(2):
        page = new_page({"search": lambda _, number=number: number})
        page.hello(f"tab-{number}", doc=str(number), title="Shop")
        page.register("shop", "search")
    search = tools.search

    def ask() -> list[object]:
        answers: list[object] = []
        for strict in (None, True, False):
            for call in (lambda s: tools.on(strict=s).search(), lambda s: search.on(strict=s)()):
                try:
                    answers.append(call(strict).result(DEADLINE))
                except AmbiguousToolError:
                    answers.append("?")
        return answers

    assert ask() == [1, 1, "?", "?", 1, 1]
    bridge.directory.strict = True
    with pytest.raises(AmbiguousToolError, match="policy is strict"):
        search()
    assert tools.on("tab-0").search().result(DEADLINE) == 0
    search = tools.on(strict=False).search
    assert ask() == ["?", "?", "?", "?", 1, 1]
    tabs[0].pin()
    assert ask() == [0, 0, 0, 0, 0, 0]


def test_while_a_pinned_tab_is_away_only_narrowed_calls_are_made(new_page: NewPage) -> None:
    first, _ = two_shops(new_page)
    search = tools.shop.search
    tabs["Shop"].pin()
    assert tools.search().result(DEADLINE) == "shop"
    first.disconnect()
    for attempt in (search, lambda: tools.search, lambda: tools.blog.search):
        with pytest.raises(TabNotFoundError) as raised:
            attempt()
        assert raised.value.pinned
    assert tools.on("tab-2").search().result(DEADLINE) == "blog"
    tabs.unpin()
    assert tools.search().result(DEADLINE) == "blog"


def test_narrowing_again_changes_only_what_is_given(new_page: NewPage) -> None:
    two_shops(new_page)
    assert tools.on(ns="shop").on(ns="blog").search().result(DEADLINE) == "blog"
    assert tools.on("tab-1").on("tab-2").search().result(DEADLINE) == "blog"
    assert set(tools.on("tab-2").on(None)) == {"search", "buy"}
    assert set(tools.on(ns="blog").on(ns=None)) == {"search", "buy"}
    assert tools.on("tab-2").on(timeout=3).search().timeout == 3
    assert tools.on("tab-2").on(timeout=3).search().result(DEADLINE) == "blog"
    with pytest.raises(ToolNotFoundError):
        tools.on("tab-1").on(ns="blog").search  # noqa: B018


def test_narrowing_one_tool_changes_no_other(new_page: NewPage) -> None:
    two_shops(new_page)
    search = tools.shop.search
    assert search.on(ns="blog")().result(DEADLINE) == "blog"
    assert search.on("tab-2", ns=None)().result(DEADLINE) == "blog"
    assert search().result(DEADLINE) == "shop"


def test_a_handle_to_a_tab_that_is_gone_never_goes_to_another(
    new_page: NewPage, bridge: Bridge
) -> None:
    first, second = (new_page({"search": echo}) for _ in range(2))
    first.hello("tab-1", doc="a", title="Shop")
    second.hello("tab-2", doc="b", title="Shop")
    for page in (first, second):
        page.register("shop", "search")
    (tab, _) = bridge.host.run(bridge.directory.tabs)
    narrowed = [tools.on(tab), tools.on("tab-1"), tools.on(client_id=first.client_id)]
    handles = [scope.search for scope in narrowed]
    first.disconnect()
    for handle in handles:
        with pytest.raises(TabNotFoundError, match='tab-2 "Shop"|Shop'):
            handle()
    for scope in narrowed:
        with pytest.raises(TabNotFoundError):
            scope.search  # noqa: B018
        assert list(scope) == []
        assert dir(scope) == ["on", "registrations", "wait_for"]
    assert second.calls == []


def test_a_tab_that_comes_back_answers_to_its_old_handle(new_page: NewPage) -> None:
    page = new_page({"search": echo})
    page.hello("tab-1", doc="a")
    page.register("shop", "search")
    search = tools.on("tab-1").search
    page.disconnect()
    with pytest.raises((TabNotFoundError, NoPageConnectedError)):
        search()
    again = new_page({"search": lambda _: "again"})
    again.hello("tab-1", doc="b")
    again.register("shop", "search")
    assert search().result(DEADLINE) == "again"


# Looking


def test_looking_lists_names_aliases_and_namespaces(new_page: NewPage) -> None:
    page = new_page()
    page.register("my-shop", "cart.add", "search", "on", "_hidden", "getdoc")
    assert dir(tools) == ["cart_add", "my_shop", "on", "registrations", "search", "wait_for"]
    assert dir(tools.my_shop) == ["cart_add", "on", "registrations", "search", "wait_for"]
    assert list(tools) == ["cart.add", "search", "on", "_hidden", "getdoc"]
    assert tools._ipython_key_completions_() == list(tools)
    assert len(tools) == 5
    assert "cart.add" in tools
    assert "cart_add" not in tools
    assert 3 not in tools


def test_what_dir_offers_can_be_typed_after_a_dot(new_page: NewPage) -> None:
    new_page().register("n", "import", "class", "2d-plot", "x²", "a b", "größe", "plain")
    for name in dir(tools):
        assert name.isidentifier(), name
        assert not keyword.iskeyword(name), name
        assert getattr(tools, name) is not None, name


def test_a_tool_of_several_tabs_is_listed_once(new_page: NewPage) -> None:
    for number in range(3):
        page = new_page()
        page.hello(f"tab-{number}", doc=str(number))
        page.register("shop", "search")
    assert list(tools) == ["search"]
    assert len(tools.registrations()) == 3


def test_looking_calls_nothing(page: HostedPage) -> None:
    before = len(page.received)
    ways: list[Any] = [dir, repr, bool, callable, inspect.getdoc, pydoc.render_doc]
    for look in [*ways, list, len]:
        look(tools)
        look(tools.todo)
    for look in [*ways, inspect.signature]:
        look(tools.add_todo)
    assert len(page.received) == before


def test_the_signature_is_the_tools_own(page: HostedPage) -> None:
    signature = inspect.signature(tools.add_todo)
    assert [p.kind for p in signature.parameters.values()] == [inspect.Parameter.KEYWORD_ONLY] * 3
    assert signature.parameters["title"].default is inspect.Parameter.empty
    assert signature.parameters["title"].annotation is str
    assert signature.parameters["tags"].default == []
    assert str(inspect.signature(tools.clear)) == "(**kwargs)"
    assert page.calls == []


def test_help_shows_the_pages_own_words(page: HostedPage) -> None:
    doc = inspect.getdoc(tools.add_todo)
    assert doc is not None
    assert doc.startswith("Adds a todo to the list.\n\nGive it a title.")
    assert "What is to be done" in doc
    text = pydoc.plain(pydoc.render_doc(tools.add_todo))
    assert "Adds a todo to the list." in text
    assert "What is to be done" in text
    assert page.calls == []


def test_the_repr_is_one_short_line(page: HostedPage) -> None:
    assert repr(tools) == "<Tools: add_todo, clear, hang>"
    shown = repr(tools.add_todo)
    assert shown.startswith("<PageTool add_todo(*, title: str, ")
    assert shown.endswith(": Adds a todo to the list. Give it a title.>")
    page.register("many", *[f"tool_{n}" for n in range(200)], "x" * 128)
    assert repr(tools).endswith(" and 184 more>")
    assert len(repr(tools)) < 1000
    page.register("long", tool("wordy", description="word " * 800))
    assert len(repr(tools.wordy)) < 200


def test_the_html_of_tools_shows_what_pages_say_as_text(new_page: NewPage) -> None:
    page = new_page()
    evil = "<script>alert(1)</script>"
    page.hello("tab-1", title=evil, url="http://localhost/?<b>")
    page.register(
        evil,
        tool(
            f"<img src=x onerror={evil}>",
            description=f"Does {evil} & more",
            inputSchema={"type": "object", "properties": {evil: {"type": "string"}}},
        ),
    )
    shown = tools._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in shown
    assert "<table>" in shown


# Looking as IPython does


def inspected(notebook: Notebook, name: str, level: int = 0) -> str:
    """What Shift-Tab, ``?`` and (at level 1) ``??`` show."""
    shell: Any = notebook.shell
    text: str = shell.object_inspect_mime(name, detail_level=level)["text/plain"]
    return text


def test_ipythons_help_shows_signature_and_words_and_calls_nothing(
    page: HostedPage, notebook: Notebook
) -> None:
    notebook.run("from pagetools_ipy import tools\nadd = tools.add_todo")
    before = len(page.received)
    for name in ("tools.add_todo", "tools.todo.add_todo", "add"):
        for level in (0, 1):
            shown = inspected(notebook, name, level)
            assert "Adds a todo to the list." in shown
            assert "title: str" in shown
    assert "tools of connected pages" in inspected(notebook, "tools")
    assert len(page.received) == before


def test_shift_tab_within_the_brackets_shows_signature_and_words(
    page: HostedPage, notebook: Notebook
) -> None:
    from IPython.utils.tokenutil import token_at_cursor

    notebook.run("from pagetools_ipy import tools")
    for code in ("tools.add_todo(", "x = tools.add_todo(title='a', "):
        name = token_at_cursor(code, len(code))
        assert name == "tools.add_todo"
        assert "What is to be done" in inspected(notebook, name)
    assert page.calls == []


@pytest.mark.parametrize("use_jedi", [True, False])
def test_tab_completes_names_and_keys_and_calls_nothing(
    page: HostedPage, notebook: Notebook, use_jedi: bool
) -> None:
    page.register("my-shop", "cart.add", "cart.clear")
    notebook.run("from pagetools_ipy import tools")
    notebook.shell.Completer.use_jedi = use_jedi
    before = len(page.received)
    assert "tools.add_todo" in notebook.completions("tools.add")
    assert "tools.todo" in notebook.completions("tools.to")
    assert [c for c in notebook.completions("tools['cart.") if "add" in c][:1]
    notebook.run("add = tools.add_todo")
    assert "add(title=" in notebook.completions("add(ti")
    if use_jedi:  # without it, IPython looks at plain names only
        assert "tools.my_shop.cart_add" in notebook.completions("tools.my_shop.ca")
        assert "tools.add_todo(title=" in notebook.completions("tools.add_todo(ti")
    assert len(page.received) == before


def test_tab_and_help_work_where_a_name_is_ambiguous(new_page: NewPage, notebook: Notebook) -> None:
    shop, blog = two_shops(new_page)
    notebook.run("from pagetools_ipy import tools\ngone = tools.on('no such tab')")
    assert "tools.search" in notebook.completions("tools.sea")
    notebook.completions("tools.search(")
    notebook.completions("gone.")
    assert "search" in dir(tools)
    for name in ("tools.search", "gone", "gone.search", "tools.nothing"):
        assert notebook.run(f"{name}?").error is None
    assert shop.calls == blog.calls == []


# Waiting


def test_waiting_for_a_tool_that_is_there_gives_it_at_once(page: HostedPage) -> None:
    for name in ("add_todo", "todo/add_todo"):
        found = asyncio.run(tools.wait_for(name))
        assert "title" in inspect.signature(found).parameters
        assert found(title="milk").result(DEADLINE) == {"echo": {"title": "milk"}}
    assert len(page.calls) == 2


@pytest.mark.parametrize("name", ["search", "shop/search"])
def test_waiting_ends_when_a_page_offers_the_tool(new_page: NewPage, name: str) -> None:
    async def cell() -> PageTool:
        waiting = asyncio.ensure_future(tools.wait_for(name, timeout=DEADLINE))
        await asyncio.sleep(0)
        page = new_page({"search": echo})
        page.register("other", "something")
        await asyncio.sleep(0.01)
        assert not waiting.done()
        page.register("shop", "search")
        return await waiting

    assert asyncio.run(cell())().result(DEADLINE) == {"echo": {}}


def test_waiting_keeps_to_what_was_narrowed_down(page: HostedPage, new_page: NewPage) -> None:
    narrowed = tools.on("tab-2", ns="todo")
    with pytest.raises(ToolWaitTimeoutError):
        asyncio.run(narrowed.wait_for("clear", timeout=0.02))
    other = new_page({"clear": lambda _: "the other tab"})
    other.hello("tab-2", doc="other")
    other.register("todo", "clear")
    found = asyncio.run(narrowed.wait_for("clear", timeout=DEADLINE))
    assert found().result(DEADLINE) == "the other tab"
    assert page.calls == []


@pytest.mark.usefixtures("bridge")
def test_waiting_in_vain_says_what_was_waited_for_and_what_was_wrong() -> None:
    with pytest.raises(ToolWaitTimeoutError) as raised:
        asyncio.run(tools.wait_for("search", timeout=0.02))
    assert isinstance(raised.value, TimeoutError)
    assert isinstance(raised.value.problem, NoPageConnectedError)
    assert str(raised.value).startswith('"search" did not come within 0.02 s: no page is connected')


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5"])
@pytest.mark.usefixtures("bridge")
def test_waiting_takes_only_a_timeout_that_is_one(timeout: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="positive number of seconds"):
        asyncio.run(tools.wait_for("search", timeout=timeout))


def test_waiting_that_is_cancelled_leaves_nothing_behind(bridge: Bridge) -> None:
    async def cell() -> None:
        waiting = asyncio.ensure_future(tools.wait_for("search", timeout=None))
        while not bridge.directory._pulse:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cell())
    eventually(lambda: not bridge.directory._pulse, "nobody waits any more")


# Results


def returning(new_page: NewPage, value: Any) -> Any:
    """What a tool's result becomes that the page returns as ``value``."""
    page = new_page({"look": lambda _: value})
    page.hello("tab-1", title="Lab")
    page.register("lab", "look")
    return tools.look().result(DEADLINE)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, "text", [], [1, None], {}, {"content": "text"}, {"content": []}],
)
def test_json_comes_as_it_is(new_page: NewPage, value: Any) -> None:
    assert returning(new_page, value) == value


def test_content_blocks_come_as_one_result(new_page: NewPage) -> None:
    blocks = [{"type": "text", "text": "two"}, {"type": "text", "text": "lines"}]
    result = returning(new_page, {"content": blocks, "structuredContent": {"n": 2}})
    assert isinstance(result, ToolResult)
    assert (result.text, result.structured, result.value) == ("two\nlines", {"n": 2}, {"n": 2})


def test_images_are_decoded(new_page: NewPage) -> None:
    data = b"\x89PNG\r\n\x1a\nnot really"
    block = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode()}
    result = returning(new_page, {"content": [block]})
    assert result.images == [Image(data, "image/png")]
    assert result.value == Image(data, "image/png")
    assert result._repr_mimebundle_()["image/png"] == block["data"]


def test_content_that_is_an_error_is_raised_with_tool_and_tab(new_page: NewPage) -> None:
    content = [{"type": "text", "text": "out of \x1b[31mstock"}]
    with pytest.raises(PageToolError) as raised:
        returning(new_page, {"content": content, "isError": True})
    assert (raised.value.tool, raised.value.tab) == ("lab/look", "Lab")
    assert raised.value.page_message == "out of stock"
    assert isinstance(raised.value.data, ToolResult)


def test_what_a_tool_throws_is_raised_with_all_the_page_said(page: HostedPage) -> None:
    call = tools.hang()
    error = {"name": "RangeError", "message": "too many", "stack": "at x.js", "data": {"max": 3}}
    page.result(page.last_call["callId"], error=error)
    with pytest.raises(PageToolError) as raised:
        call.result(DEADLINE)
    problem = raised.value
    assert (problem.name, problem.page_message) == ("RangeError", "too many")
    assert (problem.stack, problem.data) == ("at x.js", {"max": 3})
    assert (problem.tool, problem.tab) == ("todo/hang", "Todos")


def test_progress_is_seen_while_a_call_runs(page: HostedPage) -> None:
    call = tools.hang()
    page.say("progress", callId=call.id, progress=1, total=4, message="counting", value=[1])
    assert call.progress is not None
    assert (call.progress.progress, call.progress.total, call.progress.value) == (1, 4, [1])
    assert "pending" in repr(call)
    assert "1/4 counting" in repr(call)
    call.cancel()
    with pytest.raises(CallCancelledError) as raised:
        call.result(DEADLINE)
    assert raised.value.partial == [1]


def test_a_listener_is_told_of_an_end_that_comes_while_it_is_added(page: HostedPage) -> None:
    call = tools.hang()
    told: list[CallState] = []

    class Slow(list[Any]):
        def append(self, listener: Any) -> None:
            page.result(call.id, 42)  # on the bridge's thread, between looking and adding
            super().append(listener)

    call._listeners = Slow(call._listeners)
    call.on_change(lambda call: told.append(call.state))
    assert told == [CallState.ANSWERED]


# Without a bridge, without a page


@pytest.fixture
def no_bridge() -> None:
    bridges.stop()


@pytest.mark.usefixtures("no_bridge")
def test_without_a_bridge_looking_finds_nothing_and_calling_says_why() -> None:
    assert (list(tools), len(tools), "add" in tools) == ([], 0, False)
    assert tools.registrations() == []
    assert dir(tools) == ["on", "registrations", "wait_for"]
    assert repr(tools) == "<Tools: none; `%pagetools status` says what is connected>"
    assert "No tools" in tools._repr_html_()
    handle = tools.add_todo
    assert repr(handle) == "<PageTool add_todo(...)>"
    for call in (handle, tools["any/thing"], tools.on("Shop").buy, handle.on(ns="x")):
        with pytest.raises(BridgeError, match="%pagetools start"):
            call()
    with pytest.raises(BridgeError, match="%pagetools start"):
        asyncio.run(tools.wait_for("add_todo"))


@pytest.mark.usefixtures("bridge")
def test_without_a_page_looking_finds_nothing_and_calling_says_why() -> None:
    assert (list(tools), len(tools), "add" in tools) == ([], 0, False)
    assert dir(tools) == ["on", "registrations", "wait_for"]
    for call in (tools.add_todo, tools["any/thing"], tools.on("Shop").buy):
        with pytest.raises(NoPageConnectedError, match="%pagetools snippet"):
            call()


def test_a_handle_from_before_the_page_connected_works_afterwards(new_page: NewPage) -> None:
    handle = tools.add_todo
    page = new_page({"add_todo": echo})
    page.register("todo", ADD_TODO)
    assert handle(title="milk").result(DEADLINE) == {"echo": {"title": "milk"}}


@pytest.mark.usefixtures("no_bridge")
@pytest.mark.parametrize("name", ["_private", "__wrapped__", "getdoc", "mro", "_repr_png_"])
def test_what_python_asks_for_is_never_there(name: str) -> None:
    assert not hasattr(tools, name)
    assert not hasattr(tools.on(ns="todo"), name)


def test_a_namespace_is_reached_past_a_tool_of_the_same_name(new_page: NewPage) -> None:
    new_page({"odd": lambda _: "tool", "even": lambda _: "inner"}).register("odd", "odd", "even")
    assert tools.odd().result() == "tool"
    assert tools.odd.even().result() == "inner"
    assert not hasattr(tools.odd, "nothing")
    assert not hasattr(tools.even, "anything")


@pytest.mark.parametrize("narrowing", [{"ns": 5}, {"client_id": 5}])
def test_a_scope_that_is_no_text_is_refused(narrowing: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentsError, match="expected a string, got 5"):
        tools.on(**narrowing)


@pytest.mark.parametrize("name", [5, None, ("a",)])
def test_a_name_that_is_no_text_is_refused(new_page: NewPage, name: Any) -> None:
    new_page().register("n", "x")
    with pytest.raises(InvalidArgumentsError, match="name: expected a string"):
        tools[name]
    assert name not in tools
    assert [] not in tools
