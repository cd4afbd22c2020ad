"""The running service: owns host, transport and directory, from start to stop.

Knows the parts and their lifecycle. Does not know notebooks.

There is at most one bridge in a process. It is kept here, in a submodule, so that reloading
the extension does not lose it.
"""

from __future__ import annotations

import asyncio
import atexit
import enum
import logging
from typing import TYPE_CHECKING, Any

from .attachments import Attachments
from .directory import PageToolDirectory
from .errors import BridgeError
from .front_ends import OwnFrontEnd
from .panel import Panel
from .runtime import Memory, Remembered

if TYPE_CHECKING:
    from .host import Host
    from .transports import Link
    from .transports.loopback import LoopbackServer, Refusal
    from .transports.mcpb import McpbTransport
    from .transports.websocket import WebSocketTransport
    from .widget import PanelWidget

_logger = logging.getLogger(__name__)


class BridgeState(enum.Enum):
    """Where a bridge stands. It is started once and stopped once."""

    NEW = "new"  # made, owns nothing yet
    RUNNING = "running"  # owns its port; pages can connect
    STOPPED = "stopped"  # owns nothing any more


class Bridge:
    """Listens for pages and keeps their tools.

    Args:
        host: The loop to live in.
        memory: Keeps port and token over a restart of the kernel.

    Attributes:
        directory: Who is connected and what they declare. To be used on the host's loop only.
        host: The loop it lives in.
        state: Where it stands, a `BridgeState`.
        port: The port it listens on; 0 before it was started.
        browsers: The browsers it is attached to. Its coroutines are for the host's loop.
    """

    def __init__(self, host: Host, memory: Memory | None = None) -> None:
        self.host = host
        self.directory = PageToolDirectory()
        self.directory.block_with(host.block)
        self.directory.refuse_with(OwnFrontEnd().refuses)
        self.state = BridgeState.NEW
        self.port = 0
        self.browsers = Attachments(self._pump)
        self._memory = memory or Memory(None)
        self._token = ""
        self._mcpb_port: int | None = None
        self._transport: WebSocketTransport | None = None
        self._embeds: McpbTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._panel = Panel(host, self.directory, self._facts)
        self._widget: PanelWidget | None = None

    def _facts(self) -> dict[str, Any]:
        """What the panel says of the bridge."""
        return {
            "state": self.state.value,
            "port": self.port,
            "url": self.url,
            "host": self.host.name,
            "strict": self.directory.strict,
        }

    @property
    def refusals(self) -> list[Refusal]:
        """The pages that were not let in lately, the last ones."""
        return [refusal for server in self._servers for refusal in server.refusals]

    @property
    def _servers(self) -> list[LoopbackServer]:
        return [server for server in (self._transport, self._embeds) if server is not None]

    @property
    def has_widget(self) -> bool:
        """Whether its panel has been shown."""
        return self._widget is not None

    @property
    def widget(self) -> PanelWidget:
        """The live panel, to be shown in a notebook any number of times."""
        if self._widget is None:
            from .widget import PanelWidget

            widget = PanelWidget(self._panel)
            self.host.run(self._panel.open)  # which may fail, where a cell blocks the loop
            self._widget = widget
        return self._widget

    def take_widget(self, widget: PanelWidget) -> None:
        """Go on in the widget of a bridge that was stopped, wherever it is displayed."""
        widget.show(self._panel)
        self.host.run(self._panel.open)
        self._widget = widget

    @property
    def url(self) -> str:
        """Where pages find it, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def __repr__(self) -> str:
        return f"<Bridge {self.state.value}, {self.url}, {self.host.name} host>"

    def start(self, port: int | None = None) -> None:
        """Take the port and begin to serve.

        Args:
            port: Exactly this one; None takes the one had before a restart of the kernel if it
                is free, else the first free one of ten from 9319 on.

        Raises:
            BridgeError: If the port cannot be had, or the bridge was started before.
        """
        from .transports.websocket import WebSocketTransport, bind

        if self.state is not BridgeState.NEW:
            raise BridgeError(f"the bridge is {self.state.value}; make a new one to start again")
        remembered = self._memory.recall()
        try:
            listener = bind(remembered.port if port is None else port)
        except BridgeError:
            if port is not None or remembered.port is None:
                raise
            listener = bind()
        self._token = remembered.token
        self._transport = transport = WebSocketTransport(listener, self._token)
        self.port = transport.port
        self.browsers.belong_to(self.port, self._token)
        self._remember(remembered.mcpb_port)
        self.state = BridgeState.RUNNING
        self.host.run(lambda: self._spawn(transport))
        atexit.register(self._leave)

    def _remember(self, mcpb_port: int | None) -> None:
        self._mcpb_port = mcpb_port
        self._memory.keep(Remembered(self.port, self._token, mcpb_port))

    @property
    def mcpb_port(self) -> int:
        """The port it listens on for pages that carry an MCP-B embed; 0 if on none."""
        return 0 if self._embeds is None else self._embeds.port

    def serve_embeds(self, *, relays: bool = False) -> int:
        """Listen for pages that carry the embed of ``@mcp-b/webmcp-local-relay`` as well.

        Args:
            relays: Whether MCP-B relays may join and show the tools of all pages to their agents.

        Returns:
            The port: the one had before, or the first free one from 9333 on.

        Raises:
            BridgeError: If the bridge is not running, or no such port can be had.
        """
        from .relay import RelayPeers
        from .transports.mcpb import McpbTransport, bind_mcpb

        if self.state is not BridgeState.RUNNING:
            raise BridgeError(f"the bridge is {self.state.value}; start it first")
        if self._embeds is not None and relays and not self._embeds.lets_relays_in:
            raise BridgeError(
                f"relays are not let in at port {self._embeds.port}; `%pagetools stop` first",
                port=self._embeds.port,
            )
        if self._embeds is None:
            join = RelayPeers(self.directory).join if relays else None
            embeds = self._embeds = McpbTransport(bind_mcpb(self._mcpb_port), relays=join)
            self._remember(embeds.port)
            self.host.run(lambda: self._spawn(embeds))
        return self._embeds.port

    def _spawn(self, transport: LoopbackServer) -> None:
        task = self.host.loop.create_task(transport.start(self._pump), name="pagetools start")
        self._keep(task)

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task until it is done: the loop itself holds tasks weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            _logger.error("%s failed", task.get_name(), exc_info=problem)

    async def _pump(self, link: Link) -> None:
        """Bring one link's messages to the directory, for as long as it lives."""
        client_id = self.directory.add_connection(link.send, link.close)
        try:
            async for raw in link:
                self.directory.handle_client_message(client_id, raw)
        except Exception:
            # Contained: whatever goes wrong with one page must not reach the others.
            _logger.exception("page %s was dropped", client_id)
        finally:
            self.directory.remove_connection(client_id)

    def stop(self) -> None:
        """Let go of pages and port. Pending calls end as `PageGoneError`. Idempotent."""
        if self.state is BridgeState.RUNNING:
            self._memory.forget()
            atexit.unregister(self._leave)
            self._leave()

    def _leave(self) -> None:
        """Stop, but remember the port: a kernel that ends may be on its way to a restart."""
        self.state = BridgeState.STOPPED
        try:
            self.browsers.leave()
        finally:  # also if that is interrupted
            self.host.run(self._end)
            self.host.close()

    def _end(self) -> None:
        for transport in self._servers:
            transport.release_port()
        self.directory.close()
        self._panel.close()
        if self.host.loop.is_running():
            for transport in self._servers:
                closing = self.host.loop.create_task(transport.close(), name="pagetools stop")
                self._keep(closing)


_current: Bridge | None = None
_left: Bridge | None = None
"""The bridge that was stopped last: the next one goes on in its widget."""


def current() -> Bridge:
    """The running bridge.

    Raises:
        BridgeError: If none is running.
    """
    if _current is None or _current.state is not BridgeState.RUNNING:
        raise BridgeError("the bridge is not running; start it with `%pagetools start`")
    return _current


def start(
    host: Host | None = None, *, port: int | None = None, memory: Memory | None = None
) -> Bridge:
    """Start the process's bridge, in a script what ``%pagetools start`` is in a notebook.

    Args:
        host: The loop to live in; a thread of its own by default.
        port: As for `Bridge.start`.
        memory: As for `Bridge`.

    Raises:
        BridgeError: If one is running already, or the port cannot be had.
    """
    global _current, _left
    if _current is not None and _current.state is BridgeState.RUNNING:
        raise BridgeError(f"the bridge is running on port {_current.port} already")
    _left = _current or _left
    if host is None:
        from .host import ThreadHost

        host = ThreadHost()
    bridge = Bridge(host, memory)
    try:
        bridge.start(port)
    except BridgeError:
        host.close()
        raise
    _current = bridge
    if _left is not None and _left.has_widget:
        bridge.take_widget(_left.widget)
    _left = None
    return bridge


def stop() -> None:
    """Stop the process's bridge, if one is running."""
    global _current, _left
    if _current is not None:
        _current.stop()
        _left = _current
    _current = None
