"""What ``%pagetools VERB`` does: each a thin layer over what Python code can call too.

Knows IPython's shell and display. Loads everything else when a verb needs it, so that
``%load_ext`` costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from . import browser_verbs
from .errors import BridgeError, InvalidArgumentsError
from .request import Request, only_options, show, the_bridge
from .text import count, stopped_in_one_line

if TYPE_CHECKING:
    from .bridge import Bridge
    from .host import Host

HELP = """\
%pagetools                                          the live panel: tabs, tools, calls
%pagetools start [--port N] [--thread | --kernel]   start the bridge and show the panel
                 [--mcpb [--relay]]                 ... also for MCP-B embeds (and relays)
%pagetools stop                                     stop it and free its port
%pagetools status                                   what runs, and what is connected
%pagetools tabs                                     connected tabs
%pagetools pin TAB                                  have this tab answer before all others
%pagetools unpin                                    let where you look decide again
%pagetools strict [on|off]                          ask rather than pick one of several tabs
%pagetools tools [--tab TAB] [--ns NS]              tools that can be called
%pagetools call NAME [key=value ...]                call one, wait, give its value
%pagetools wait NAME [--timeout S]                  wait until a page offers a tool
%pagetools attach [PORT|URL|DIR] [--remote]         list the tabs of a running browser
%pagetools detach                                   leave it
%pagetools open URL... [--headless] [--profile DIR] start a browser with these pages
%pagetools close                                    end it
%pagetools doctor [URL]                             why a page or a browser is not there
%pagetools snippet                                  what to put into a page to connect it
%pagetools demo                                     a page to try things on
%pagetools help                                     this

call takes   title="buy milk"     text, typed by the tool's schema
             tags:='["a", "b"]'   JSON
             rows=$records        a Python variable
options      --tab TAB  --ns NS  --client-id ID  --strict
             --timeout S (or none)  --no-validate
%%pagetools call NAME takes the arguments from the cell, as JSON or YAML.
x = %pagetools call NAME ... gives the value to x."""


def _start(request: Request) -> None:
    from . import bridge
    from .runtime import Memory

    kinds: dict[str, Any] = {"port": int, "thread": None, "kernel": None}
    kinds |= {"mcpb": None, "relay": None}
    options = only_options(request.line, kinds)
    with_embeds = options.pop("mcpb", False)
    with_relays = options.pop("relay", False)
    if with_relays and not with_embeds:
        raise InvalidArgumentsError("expected --mcpb as well", path="--relay")
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
    if with_embeds:
        _serve_embeds(with_relays)
    show_panel(Request(request.shell))


def _serve_embeds(with_relays: bool) -> None:
    from .transports.mcpb import FIRST_PORT

    port = the_bridge().serve_embeds(relays=with_relays)
    late = "" if port == FIRST_PORT else f"; they first ask what has {FIRST_PORT}"
    print(f"Pages with an MCP-B embed find the bridge at port {port}{late}.")


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

    only_options(request.line, {})
    bridge.stop()
    print("The bridge is stopped.")


def show_panel(request: Request) -> None:
    """Show the live panel; where there is no notebook to show it in, the status in words."""
    from . import bridge

    try:
        running = bridge.current()
    except BridgeError:
        running = None
    if running is None or getattr(request.shell, "kernel", None) is None:
        _status(request)
        return
    data, metadata = running.widget._repr_mimebundle_()
    display({**data, "text/plain": _status_text(running)}, metadata=metadata, raw=True)


def _status(request: Request) -> None:
    from . import bridge

    only_options(request.line, {})
    try:
        print(_status_text(bridge.current()))
    except BridgeError as problem:
        print(str(problem)[0].upper() + str(problem)[1:] + ".")


def _status_text(running: Bridge) -> str:
    counts = running.host.run(running.directory.summary)
    place = "in the kernel's loop" if running.host.name == "kernel" else "on its own thread"
    where = f"Bridge at {running.url}, {place}."
    if running.mcpb_port:
        where += f"\nMCP-B embeds find it at port {running.mcpb_port}."
    for browser in running.browsers.attached:
        where += f"\n{browser.standing}."
    if not counts.clients:
        return (
            f"{where}\nNo page is connected: `%pagetools open URL` opens one (or `demo`, to try), "
            "`%pagetools snippet` connects yours."
        )
    return (
        f"{where}\n{count(counts.tabs, 'tab')} connected, {count(counts.tools, 'tool')} in "
        f"{count(counts.namespaces, 'namespace')}."
    )


def _tabs(request: Request) -> None:
    from .browser_tabs import tabs

    only_options(request.line, {})
    the_bridge()
    show(repr(tabs), tabs._repr_html_())


def _pin(request: Request) -> None:
    from .arguments import read_word
    from .browser_tabs import tabs

    selector, end = read_word(request.line, 0)
    if not selector or request.line[end:].strip():
        raise UsageError("which tab? `%pagetools pin TAB`, `%pagetools tabs` lists")
    tab = tabs[selector]
    tab.pin()
    print(f'"{tab.title or tab.url}" answers before all others until `%pagetools unpin`.')


def _unpin(request: Request) -> None:
    from .browser_tabs import tabs

    only_options(request.line, {})
    tabs.unpin()
    print("The tab you look at, or looked at last, answers.")


def _strict(request: Request) -> None:
    word = request.line or "on"
    if word not in ("on", "off"):
        raise UsageError("`%pagetools strict [on|off]`")
    running = the_bridge()

    def decide() -> None:
        running.directory.strict = word == "on"

    running.host.run(decide)
    print(
        "An app that is open in several tabs is ambiguous unless one is pinned."
        if word == "on"
        else "Of an app in several tabs the one you look at, or looked at last, answers."
    )


def _tools(request: Request) -> None:
    from .callables import tools
    from .tables import tools_html, tools_text

    options = only_options(request.line, {"tab": str, "ns": str})
    the_bridge()
    rows = tools.on(**options).registrations()
    show(tools_text(rows), tools_html(rows))


def _call(request: Request) -> Any:
    from .arguments import Options, bind_arguments, read_body, read_word, split_arguments
    from .callables import tools

    options = Options(
        {
            **{"tab": str, "ns": str, "client-id": str, "strict": None},
            **{"timeout": _seconds, "no-validate": None},
        }
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
        return the_bridge().host.block_on(call())


def _seconds(text: str) -> float | None:
    return None if text.lower() == "none" else float(text)


def _wait(request: Request) -> None:
    from .arguments import Options, read_word

    options = Options({"timeout": _seconds, "tab": str, "ns": str})
    name, position = read_word(request.line, options.read(request.line, 0))
    if not name or request.line[options.read(request.line, position) :]:
        raise UsageError("`%pagetools wait NAME [--timeout S]`")
    timeout = options.values.pop("timeout", 30.0)
    running = the_bridge()
    waiting = running.directory.wait_for(name, timeout=timeout, **options.values)
    with stopped_in_one_line(f'"{name}" is not waited for any more'):
        route = running.host.block_on(waiting)
    print(f'"{route.registration.ns}/{route.name}" is there, in "{route.registration.label}".')


def _snippet(request: Request) -> None:
    from .cells import DECLARE, page_snippets

    only_options(request.line, {})
    for title, text in (*page_snippets(the_bridge().url), DECLARE):
        print(f"{title}:\n  " + text.replace("\n", "\n  ") + "\n")


def _demo(request: Request) -> None:
    only_options(request.line, {})
    url = f"{the_bridge().url}/demo"
    frame = (
        f'<div><iframe src="{url}" title="pagetools demo" width="100%" height="460" '
        'style="border:0" allow="loopback-network"></iframe></div>'
    )
    show(f"Open {url} in a browser.", frame)


def _doctor(request: Request) -> None:
    from .doctor import doctor

    doctor(request)


def _help(request: Request) -> None:
    print(HELP)


VERBS: dict[str, Callable[[Request], Any]] = {
    "start": _start,
    "stop": _stop,
    "status": _status,
    "tabs": _tabs,
    "pin": _pin,
    "unpin": _unpin,
    "strict": _strict,
    "tools": _tools,
    "call": _call,
    "wait": _wait,
    "attach": browser_verbs.attach,
    "detach": browser_verbs.detach,
    "open": browser_verbs.open_pages,
    "close": browser_verbs.close,
    "doctor": _doctor,
    "snippet": _snippet,
    "demo": _demo,
    "help": _help,
}
