"""What pages declare: registers of tools taken in, and the change of the whole set told.

Knows the message and the index. Does not know tabs, focus or calls.
"""

from __future__ import annotations

from collections.abc import Callable

from . import messages
from .changes import ChangeSignal
from .connections import Connection, Registration
from .errors import MessageError
from .index import ToolIndex
from .limits import MAX_NAMESPACES, check_name
from .messages import BridgeMessage, Register, Registered


class Declarations:
    """Keeps the index true to what pages declare.

    Args:
        index: The tools.
        signal: Is told of each tool set that comes or goes.
        send: Sends a message to a page.
        reject: Tells a page what is wrong with what it sent.
        now: Clock, in seconds since the epoch.
    """

    def __init__(
        self,
        index: ToolIndex,
        signal: ChangeSignal,
        *,
        send: Callable[[Connection, BridgeMessage], object],
        reject: Callable[[Connection, MessageError], None],
        now: Callable[[], float],
    ) -> None:
        self._index = index
        self._signal = signal
        self._send = send
        self._reject = reject
        self._now = now

    def take(self, connection: Connection, message: Register) -> None:
        """Take in all tools of a namespace, in place of those it had.

        A tool that is not sound is rejected and costs itself only.
        """
        try:
            check_name(message.ns, "ns")
            _check_room(connection, message.ns)
        except MessageError as problem:
            self._reject(connection, problem)
            return
        tools, problems = messages.parse_tools(message.tools)
        for fault in problems:
            self._reject(connection, fault)
        now = self._now()
        connection.note(message, now)
        new = Registration(connection, message, tools, now) if tools else None
        old = self._index.declare(connection, message.ns, new)
        digest = new.digest if new else messages.digest(())
        self._send(connection, Registered(message.ns, message.hash or digest))
        gone = [old.content] if old else []
        come = [new.content] if new else []
        if gone != come:
            self._signal.replace(gone, come)

    def left(self, connection: Connection) -> None:
        """Note that a connection is gone, and its tools with it."""
        self._signal.replace([r.content for r in connection.registrations.values()], ())


def _check_room(connection: Connection, ns: str) -> None:
    if ns not in connection.registrations and len(connection.registrations) >= MAX_NAMESPACES:
        raise MessageError(
            f"expected at most {MAX_NAMESPACES} namespaces, got more", path="ns", reason="too_large"
        )
