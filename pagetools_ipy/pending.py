"""Calls that are on their way to pages: sent, answered, expired, cancelled or lost.

Knows connections and calls. Does not know how a tool was found or what else a page says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from . import messages
from .calls import CallState, PageCall, Step, Target, block_thread, cancelled, timed_out
from .changes import Listeners
from .connections import Connection
from .deadlines import Deadlines
from .errors import (
    CallRefusedError,
    InvalidArgumentsError,
    MessageError,
    PageGoneError,
    PageToolError,
)
from .index import Route
from .limits import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    check_arguments,
    check_timeout,
)
from .messages import PageError, Progress, Result
from .text import clean

Sender = Callable[[Connection, messages.BridgeMessage], bool]
"""Sends a message to a connection; says whether it could be handed over."""


class PendingCalls:
    """Every call that has no outcome yet.

    Args:
        send: Sends a message to a connection.
        new_id: Makes identifiers of calls.
        ignored: Counts answers that had no effect, by reason.
    """

    def __init__(self, send: Sender, new_id: Callable[[], str], ignored: Counter[str]) -> None:
        self._send = send
        self._new_id = new_id
        self._ignored = ignored
        self._calls: dict[str, tuple[Connection, PageCall]] = {}
        self._deadlines = Deadlines(self._expire)
        self.watchers: Listeners[[PageCall]] = Listeners()
        self.block: Callable[[PageCall, float | None], None] = block_thread
        self.refuses: Callable[[str, str], str] = lambda url, name: ""

    def __len__(self) -> int:
        return len(self._calls)

    def start(
        self,
        route: Route,
        args: dict[str, Any] | None,
        timeout: float | None,
        decode: Callable[[Any], Any] | None,
        validate: bool,
    ) -> PageCall:
        """Send a call; see `PageToolDirectory.start`."""
        registration, why = route.choice
        connection = registration.connection
        if reason := self.refuses(connection.tab.url, route.name):
            tool = f"{registration.ns}/{route.name}"
            raise CallRefusedError(tool, connection.tab.label, reason)
        call = PageCall(
            self._new_id(),
            Target(
                client_id=connection.client_id,
                ns=registration.ns,
                name=route.name,
                tab=connection.tab.label,
                tab_id=connection.tab.id,
                why=why,
            ),
            _checked(route, args, validate),
            timeout=check_timeout(timeout),
            cancel=self._stop,
            decode=decode,
            block=self.block,
        )
        # Noted before it is sent: a page within this process may answer while we send.
        self._calls[call.id] = (connection, call)
        connection.pending[call.id] = call
        message = messages.Call(call.id, registration.ns, route.name, call.args)
        if connection.gone or not self._send(connection, message):
            self._forget(connection, call)
            raise PageGoneError(call.tool, call.tab, sent=False)
        if not call.done():
            self._deadlines.add(call)
        self.watchers.tell(call)
        return call

    # What pages say

    def answer(self, connection: Connection, result: Result) -> None:
        """Settle the call a page answers; an answer to anything else is counted."""
        call = connection.pending.get(result.call_id)
        if call is None:
            self._ignored[self._why_ignored(connection, result.call_id)] += 1
        elif result.ok:
            self._end(connection, call, CallState.ANSWERED, result.value)
        else:
            self._fail(connection, call, result.page_error())

    def _why_ignored(self, connection: Connection, call_id: str) -> str:
        if call_id in connection.ended:
            return "late result" if connection.ended[call_id] else "duplicate result"
        return "foreign result" if call_id in self._calls else "stray result"

    def unreadable(self, connection: Connection, raw: object, problem: MessageError) -> None:
        """A result that cannot be read must not leave its call hanging until the deadline."""
        if not isinstance(raw, dict) or raw.get("type") != "result":
            return
        call_id = raw.get("callId")
        call = connection.pending.get(call_id) if isinstance(call_id, str) else None
        if call is not None:
            text = f"the page sent a result that is not in the protocol: {problem}"
            self._fail(connection, call, PageError(name="MessageError", message=text))

    def progress(self, connection: Connection, message: Progress) -> None:
        """Note how far a tool is; after the end, keep a partial result."""
        call = connection.pending.get(message.call_id) or connection.ended.get(message.call_id)
        if call is None:
            self._ignored["stray progress"] += 1
            return
        text = message.message and clean(message.message, MAX_TITLE_CHARS)
        call.advance(Step(message.progress, message.total, text, message.value))

    def lose(self, connection: Connection, why: str) -> None:
        """End everything that a connection, gone now, still owed."""
        for call in tuple(connection.pending.values()):
            error = PageGoneError(call.tool, call.tab, sent=True, why=why)
            self._end(connection, call, CallState.GONE, error)

    # Ends

    def _fail(self, connection: Connection, call: PageCall, error: PageError) -> None:
        failure = PageToolError(
            clean(error.message, MAX_DESCRIPTION_CHARS) or "(no message)",
            name=clean(error.name, MAX_NAME_CHARS),
            stack=error.stack,
            data=error.data,
            tool=call.tool,
            tab=call.tab,
        )
        self._end(connection, call, CallState.FAILED, failure)

    def _expire(self, call: PageCall) -> None:
        self._stop(call, CallState.TIMED_OUT, f"no answer within {call.timeout:g} s")

    def _stop(self, call: PageCall, state: CallState, reason: str) -> None:
        """End a call from this side and tell its page."""
        if call.id not in self._calls:
            return
        connection, _ = self._calls[call.id]
        late = state is CallState.TIMED_OUT
        error = timed_out(call, connection.tab.blocked) if late else cancelled(call, reason)
        self._end(connection, call, state, error)
        self._send(connection, messages.Cancel(call.id, reason))

    def _end(self, connection: Connection, call: PageCall, state: CallState, outcome: Any) -> None:
        self._forget(connection, call)
        # What was given up on may still report; of the others only the id is remembered.
        given_up = state in (CallState.TIMED_OUT, CallState.CANCELLED)
        connection.remember(call.id, call if given_up else None)
        call.settle(state, outcome)

    def _forget(self, connection: Connection, call: PageCall) -> None:
        connection.pending.pop(call.id, None)
        self._calls.pop(call.id, None)


def _checked(route: Route, args: dict[str, Any] | None, validate: bool) -> dict[str, Any]:
    """Arguments that may be sent, or the error that says what is wrong with them."""
    try:
        checked = check_arguments(args)
        if validate:
            route.schema.bind(checked)
            route.schema.validate(checked)
    except InvalidArgumentsError as problem:
        problem.tool = f"{route.registration.ns}/{route.name}"
        raise
    return checked
