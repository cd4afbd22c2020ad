"""``%pagetools``: the notebook's verbs, each a thin layer over what Python code can call too.

Knows IPython. Loads everything else when a verb needs it, so that ``%load_ext`` costs nothing.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
    output_can_be_silenced,
)
from IPython.display import display

from .errors import BridgeError, InvalidArgumentsError
from .text import stopped_in_one_line

if TYPE_CHECKING:
    from .bridge import Bridge
    from .host import Host

HELP = """\
%pagetools start [--port N] [--thread | --kernel]   start the bridge
%pagetools stop                                     stop it and free its port
%pagetools status                                   what runs, and what is connected
%pagetools tabs                                     connected tabs
%pagetools tools [--tab TAB] [--ns NS]              tools that can be called
%pagetools call NAME [key=value ...]                call one, wait, give its value
%pagetools wait NAME [--timeout S]                  wait until a page offers a tool
%pagetools snippet                                  what to put into a page to connect it
%pagetools demo                                     a page to try things on
%pagetools help                                     this

call takes   title="buy milk"     text, typed by the tool's schema
             tags:='["a", "b"]'   JSON
             rows=$records        a Python variable
options      --tab TAB  --ns NS  --client-id ID  --timeout S (or none)  --no-validate
%%pagetools call NAME takes the arguments from the cell, as JSON or YAML.
x = %pagetools call NAME ... gives the value to x."""


class Request(NamedTuple):
    """What a verb is given.

    Attributes:
        shell: The shell it was typed in.
        line: What follows the verb.
        cell: The cell's text, for a cell magic.
        variables: Python variables that ``$name`` may refer to.
    """

    shell: InteractiveShell
    line: str = ""
    cell: str | None = None
    variables: Mapping[str, Any] = {}


@magics_class
class PageToolsMagics(Magics):
    """Holds ``%pagetools`` for one shell."""

    @no_var_expand  # a `$5` in an argument is text; `=$name` is read by us, as an object
    @needs_local_scope  # `=$name` within a function means the function's variable
    @output_can_be_silenced
    @line_cell_magic
    def pagetools(
        self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> Any:
        """Call the tools of web pages that are open in a browser; `%pagetools help` says how."""
        verb, rest = (*line.strip().removesuffix(";").split(None, 1), "", "")[:2]
        function = VERBS.get(verb or "status")
        if function is None:
            raise UsageError(f"no verb {verb!r}; there are: {', '.join(VERBS)}")
        if cell is not None and verb != "call":
            raise UsageError("only `%%pagetools call NAME` takes a cell")
        assert self.shell is not None
        request = Request(
            self.shell, rest.strip(), cell, ChainMap(local_ns or {}, self.shell.user_ns)
        )
        return function(request)


def _start(request: Request) -> None:
    from . import bridge
    from .runtime import Memory

    options = _only_options(request.line, {"port": int, "thread": None, "kernel": None})
    try:
        running = bridge.current()
    except BridgeError:
        bridge.start(
            _host(request.shell, options),
            port=options.get("port"),
            memory=Memory(_kernel_id(request.shell)),
        )
    else:
        other = {"thread", "kernel"} & set(options) - {running.host.name}
        if other:
            raise BridgeError(
                f"the bridge has a {running.host.name} host already; `%pagetools stop` first",
                port=running.port,
            )
        if options.get("port", 0) not in (0, running.port):
            raise BridgeError(
                f"the bridge is running on port {running.port} already; `%pagetools stop` first"
            )
    _status(Request(request.shell))


def _host(shell: InteractiveShell, options: dict[str, Any]) -> Host:
    from .host import KernelHost, ThreadHost

    kernel = getattr(shell, "kernel", None)
    if "thread" in options and "kernel" in options:
        raise InvalidArgumentsError("expected one of the two", path="--thread --kernel")
    if "thread" in options or (kernel is None and "kernel" not in options):
        return ThreadHost()
    if kernel is None:
        raise BridgeError("there is no kernel here whose loop could be used; leave --kernel out")
    # The main shell's loop, whichever thread this runs on: cells of a subshell have another.
    return KernelHost(kernel.io_loop.asyncio_loop)


def _kernel_id(shell: InteractiveShell) -> str | None:
    """What stays the same when this kernel restarts."""
    if getattr(shell, "kernel", None) is None:
        return None
    from ipykernel.connect import get_connection_file

    try:
        return Path(get_connection_file()).stem
    except RuntimeError:  # a kernel without a connection file, such as an embedded one
        return None


def _stop(request: Request) -> None:
    from . import bridge

    _only_options(request.line, {})
    bridge.stop()
    print("The bridge is stopped.")


def _status(request: Request) -> None:
    from . import bridge

    _only_options(request.line, {})
    try:
        running = bridge.current()
    except BridgeError as problem:
        print(str(problem)[0].upper() + str(problem)[1:] + ".")
        return
    counts = running.host.run(running.directory.summary)
    place = "in the kernel's loop" if running.host.name == "kernel" else "on its own thread"
    print(f"Bridge at {running.url}, {place}.")
    if counts.clients:
        print(
            f"{_count(counts.clients, 'page')} connected, {_count(counts.tools, 'tool')} in "
            f"{_count(counts.namespaces, 'namespace')}."
        )
    else:
        print(
            "No page is connected: `%pagetools demo` shows one to try, `%pagetools snippet` "
            "connects yours."
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _tabs(request: Request) -> None:
    from .tables import tabs_html, tabs_text

    _only_options(request.line, {})
    running = _running()
    tabs = running.host.run(running.directory.tabs)
    _show(tabs_text(tabs), tabs_html(tabs))


def _tools(request: Request) -> None:
    from .callables import tools
    from .tables import tools_html, tools_text

    options = _only_options(request.line, {"tab": str, "ns": str})
    _running()
    rows = tools.on(**options).registrations()
    _show(tools_text(rows), tools_html(rows))


def _show(text: str, html: str) -> None:
    display({"text/plain": text, "text/html": html}, raw=True)


def _call(request: Request) -> Any:
    from .arguments import Options, bind_arguments, read_body, read_word, split_arguments
    from .callables import tools

    options = Options(
        {"tab": str, "ns": str, "client-id": str, "timeout": _seconds, "no-validate": None}
    )
    name, position = read_word(request.line, options.read(request.line, 0))
    if not name:
        raise UsageError("which tool? `%pagetools call NAME key=value`, `%pagetools tools` lists")
    typed = split_arguments(request.line[position:], options)
    chosen = {key.replace("-", "_"): value for key, value in options.values.items()}
    if chosen.pop("no_validate", False):
        chosen["validate"] = False
    tool = tools.on(**chosen)[name]
    args = bind_arguments(typed, tool.schema, request.variables)
    if request.cell is not None:
        args = {**read_body(request.cell, request.variables), **args}

    async def call() -> Any:
        return await tool(**args)

    # Called within the wait: an interrupt at any moment then either comes before the page
    # was sent anything, or reaches it as a cancel.
    with stopped_in_one_line(f"{tool.full_name} was interrupted; its page was told to stop"):
        return _running().host.block_on(call())


def _seconds(text: str) -> float | None:
    return None if text.lower() == "none" else float(text)


def _wait(request: Request) -> None:
    from .arguments import Options, read_word

    options = Options({"timeout": _seconds, "tab": str, "ns": str})
    name, position = read_word(request.line, options.read(request.line, 0))
    if not name or request.line[options.read(request.line, position) :]:
        raise UsageError("`%pagetools wait NAME [--timeout S]`")
    timeout = options.values.pop("timeout", 30.0)
    running = _running()
    waiting = running.directory.wait_for(name, timeout=timeout, **options.values)
    with stopped_in_one_line(f'"{name}" is not waited for any more'):
        route = running.host.block_on(waiting)
    print(f'"{route.registration.ns}/{route.name}" is there, in "{route.registration.label}".')


def _snippet(request: Request) -> None:
    _only_options(request.line, {})
    script = f"{_running().url}/pagetools.js"
    load = f"const s=document.createElement('script');s.type='module';s.src='{script}'"
    print(
        f'In the page:\n  <script type="module" src="{script}"></script>\n\n'
        f"As a bookmark:\n  javascript:(()=>{{{load};document.head.append(s)}})()\n\n"
        f"In the browser's console:\n  await import('{script}')\n\n"
        "Then, in the page:\n"
        "  pagetools.register('shop', [{name: 'search', description: 'Search the shop',\n"
        "    inputSchema: {type: 'object', properties: {q: {type: 'string'}}, required: ['q']},\n"
        "    execute: async ({q}) => ({hits: await search(q)})}])"
    )


def _demo(request: Request) -> None:
    _only_options(request.line, {})
    url = f"{_running().url}/demo"
    frame = (
        f'<div><iframe src="{url}" title="pagetools demo" width="100%" height="460" '
        'style="border:0" allow="loopback-network"></iframe></div>'
    )
    _show(f"Open {url} in a browser.", frame)


def _help(request: Request) -> None:
    print(HELP)


def _running() -> Bridge:
    from . import bridge

    return bridge.current()


def _only_options(line: str, kinds: dict[str, Callable[[str], Any] | None]) -> dict[str, Any]:
    from .arguments import Options

    options = Options(kinds)
    end = options.read(line, 0)
    if line[end:]:
        raise UsageError(f"unexpected {line[end:]!r}; `%pagetools help` shows what there is")
    return options.values


VERBS: dict[str, Callable[[Request], Any]] = {
    "start": _start,
    "stop": _stop,
    "status": _status,
    "tabs": _tabs,
    "tools": _tools,
    "call": _call,
    "wait": _wait,
    "snippet": _snippet,
    "demo": _demo,
    "help": _help,
}


_left_behind: WeakKeyDictionary[InteractiveShell, tuple[int, str]] = WeakKeyDictionary()
"""What `unload` leaves for a `load` in the same cell, which is what ``%reload_ext`` is: the
cell's number, and the verb that brings the bridge back to its port."""


def load(shell: InteractiveShell) -> None:
    """Add ``%pagetools``, its completion and the live display of calls to a shell."""
    from .completion import install
    from .live import show_calls

    shell.register_magics(PageToolsMagics)
    install(shell, VERBS)
    show_calls(shell)
    cell, verb = _left_behind.pop(shell, (-1, ""))
    if cell == shell.execution_count:
        shell.run_line_magic("pagetools", verb)


def unload(shell: InteractiveShell) -> None:
    """Undo `load` and stop the bridge."""
    from . import bridge
    from .completion import uninstall
    from .live import hide_calls

    with suppress(BridgeError):
        running = bridge.current()
        verb = f"start --port {running.port} --{running.host.name}"
        _left_behind[shell] = (shell.execution_count, verb)
    bridge.stop()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("pagetools", None)
    shell.magics_manager.registry.pop("PageToolsMagics", None)
    uninstall(shell)
    hide_calls(shell)
