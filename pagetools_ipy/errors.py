"""Every exception of the package, its stable code, its sentence and its one line in a notebook.

Knows no module but `text`.

    PageToolsError
    ├── BridgeError             the bridge is not running, or could not start or stop
    ├── NoPageConnectedError    the bridge runs, but no page is connected
    ├── ToolNotFoundError       nothing connected offers this tool
    ├── ToolWaitTimeoutError    a tool that was waited for did not come (also a TimeoutError)
    ├── AmbiguousToolError      several pages offer it and none stands out
    ├── TabNotFoundError        the tab or connection asked for is not there
    ├── InvalidArgumentsError   the arguments do not fit the tool; nothing was sent
    ├── CallTimeoutError        no answer in time (also a TimeoutError)
    ├── ResultTimeoutError      result(timeout) waited long enough (also a TimeoutError)
    ├── PageGoneError           the page went away before it answered
    ├── CallCancelledError      the call was cancelled before it was answered
    ├── PageToolError           the tool itself failed in the page
    ├── CallRefusedError        the call was not made, for the reason it gives
    ├── BrowserError            a browser could not be found, started, reached or steered
    └── MessageError            a page sent something that is not in the protocol

Constructors take data, ``__str__`` writes the sentence, so that a program reads attributes
and a person reads one line that ends in what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from .text import brief, listing, shorten

__all__ = [
    "AmbiguousToolError",
    "BridgeError",
    "BrowserError",
    "CallCancelledError",
    "CallRefusedError",
    "CallTimeoutError",
    "InvalidArgumentsError",
    "MessageError",
    "NoPageConnectedError",
    "PageGoneError",
    "PageToolError",
    "PageToolsError",
    "ResultTimeoutError",
    "TabNotFoundError",
    "ToolNotFoundError",
    "ToolWaitTimeoutError",
]


class PageToolsError(Exception):
    """Base of every error this package raises."""

    code: ClassVar[str] = "page_tools_error"
    """Stable identifier for programs, unlike the sentence."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors take data, not the arguments that Exception would repeat.
        state = dict(self.__dict__)
        if isinstance(self, AttributeError):
            state["name"] = self.name  # which Python keeps outside the dictionary
        return _revive, (type(self), self.args, state)

    def _render_traceback_(self) -> list[str]:
        # IPython asks the exception itself before it formats a traceback; subclassing
        # UsageError would not help, since IPython tests for that class by identity.
        return [f"{type(self).__name__}: {self}"]


def _revive(
    kind: type[PageToolsError], args: tuple[Any, ...], state: dict[str, Any]
) -> PageToolsError:
    error = kind.__new__(kind)
    error.args = args
    for name, value in state.items():
        setattr(error, name, value)
    return error


class BridgeError(PageToolsError):
    """The bridge is not running, or could not do what was asked of it as a whole.

    Attributes:
        port: TCP port the problem is about, if any.
    """

    code = "bridge"

    def __init__(self, problem: str, *, port: int | None = None) -> None:
        super().__init__(problem)
        self.port = port


class NoPageConnectedError(PageToolsError):
    """No page is connected to the running bridge."""

    code = "no_page_connected"

    def __str__(self) -> str:
        return (
            "no page is connected; `%pagetools open URL` opens one, `%pagetools snippet` connects "
            "yours"
        )


class ToolNotFoundError(PageToolsError, AttributeError, KeyError):
    """No connected page, or none in the narrowed scope, offers this tool.

    It is what ``tools.name`` and ``tools["name"]`` raise, hence its other two bases.

    Attributes:
        name: Tool that was asked for.
        available: Names that exist in that scope, at most 200.
        total: How many names exist in that scope.
        scope: Where was looked, such as ``in tab "Shop"``; empty for everywhere.
    """

    code = "tool_not_found"
    name: str

    def __init__(
        self, name: str, available: Sequence[str], *, total: int | None = None, scope: str = ""
    ) -> None:
        super().__init__(name)
        self.name = name
        self.available = tuple(available)
        self.total = len(self.available) if total is None else total
        self.scope = scope

    @property
    def close(self) -> list[str]:
        """Existing names that look like the one asked for, best first."""
        return difflib.get_close_matches(self.name, self.available, n=3)

    def __str__(self) -> str:
        where = f" {self.scope}" if self.scope else ""
        asked = f'no tool "{shorten(self.name)}"{where}'
        if not self.available:
            return f"{asked}: no tool is declared there; `%pagetools tabs` shows what is connected"
        hint = " or ".join(f'"{name}"' for name in self.close)
        return (
            asked
            + (f"; did you mean {hint}?" if hint else ";")
            + f" Available: {listing(self.available, self.total)}"
        )


class ToolWaitTimeoutError(PageToolsError, TimeoutError):
    """A tool that was waited for did not come.

    Attributes:
        name: Tool that was waited for.
        timeout: Seconds that were waited.
        problem: Why a call would fail now.
    """

    code = "tool_wait_timeout"

    def __init__(self, name: str, timeout: float, problem: PageToolsError) -> None:
        super().__init__(name)
        self.name = name
        self.timeout = timeout
        self.problem = problem

    def __str__(self) -> str:
        return f'"{shorten(self.name)}" did not come within {self.timeout:g} s: {self.problem}'


class Place(Protocol):
    """What a sentence says of a candidate: where the tool is."""

    @property
    def client_id(self) -> str: ...
    @property
    def ns(self) -> str: ...
    @property
    def label(self) -> str: ...


class AmbiguousToolError(PageToolsError):
    """Several different tools share the name and none is where the person looks.

    Attributes:
        name: Tool that was asked for.
        candidates: Everything that offers it, with ``client_id``, ``ns``, ``label``, best first.
        reason: Why none of them was picked.
    """

    code = "ambiguous_tool"

    def __init__(
        self,
        name: str,
        candidates: Sequence[Place],
        *,
        reason: str = "none of them is the tab you look at",
    ) -> None:
        super().__init__(name)
        self.name = name
        self.candidates = tuple(candidates)
        self.reason = reason

    def __str__(self) -> str:
        places = (
            f'{shorten(c.ns, 40)}/{shorten(self.name, 40)} in "{shorten(c.label, 60)}" '
            f"(client {shorten(c.client_id, 40)})"
            for c in self.candidates
        )
        return (
            f'"{shorten(self.name)}" is offered {len(self.candidates):,} times and {self.reason}: '
            f"{listing(places, len(self.candidates), 220)}; "
            "narrow it with ns=, tab= or client_id=, in a notebook tools.<namespace>.<name> or "
            "tools.on(tab).<name>"
        )


class TabNotFoundError(PageToolsError, LookupError):
    """The tab or connection a call was addressed to is not there (any more).

    Attributes:
        selector: What was asked for; of a tab that is known, its title or URL.
        live: Identifiers of the tabs that are there, each with its title or URL; at most 200.
        total: How many tabs are there.
        state: Where the tab stands if it is known, such as ``reloading``; else empty.
        pinned: Whether it was meant because it is pinned.
    """

    code = "tab_not_found"

    def __init__(
        self,
        selector: object,
        live: Mapping[str, str],
        *,
        total: int | None = None,
        state: str = "",
        pinned: bool = False,
    ) -> None:
        super().__init__(selector)
        self.selector = selector
        self.live = dict(live)
        self.total = len(self.live) if total is None else total
        self.state = state
        self.pinned = pinned

    def __str__(self) -> str:
        asked = brief(self.selector)
        problem = f"no tab {asked}"
        if self.state:
            which = "the pinned tab" if self.pinned else "tab"
            problem = f"{which} {asked} is {self.state}"
            if self.pinned:
                problem += " (`%pagetools unpin` lets others answer)"
        shown = (f'{key} "{shorten(label)}"' for key, label in self.live.items())
        alive = listing(shown, self.total) if self.live else "none"
        return f"{problem}; live tabs: {alive}"


class InvalidArgumentsError(PageToolsError, ValueError):
    """The arguments do not fit the tool. Nothing was sent to the page.

    Attributes:
        tool: Tool they were meant for, as ``ns/name``; empty when not known yet.
        path: Place of the fault within the arguments, such as ``items[2].price``; empty for
            the arguments as a whole.
        problem: What was expected and what came.
    """

    code = "invalid_arguments"

    def __init__(self, problem: str, *, path: str = "", tool: str = "") -> None:
        super().__init__(problem)
        self.tool = tool
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        tool = f"{shorten(self.tool)}: " if self.tool else ""
        path = f"{shorten(self.path)}: " if self.path else ""
        return f"{tool}{path}{shorten(self.problem, 600)}"


class _CallError(PageToolsError):
    """What the errors about a call that got no answer have in common.

    Attributes:
        tool: Tool that was called, as ``ns/name``.
        tab: Title or URL of the tab it was sent to.
        partial: Last partial result the page had sent, or None.
    """

    def __init__(self, tool: str, tab: str) -> None:
        super().__init__(tool)  # one argument: with two, OSError would take them for errno
        self.tool = tool
        self.tab = tab
        self.partial: Any = None

    @property
    def _place(self) -> str:
        return f'{shorten(self.tool)} in "{shorten(self.tab)}"'


class CallTimeoutError(_CallError, TimeoutError):
    """The page did not answer in time; it was told to stop.

    Attributes:
        timeout: Seconds that were granted, counted while the bridge's loop was running.
        why: What keeps the page from answering, where that is known; else empty.
    """

    code = "call_timeout"

    def __init__(self, tool: str, tab: str, timeout: float, why: str = "") -> None:
        super().__init__(tool, tab)
        self.timeout = timeout
        self.why = why

    def __str__(self) -> str:
        late = f"{self._place} did not answer within {self.timeout:g} s and was told to stop"
        if self.why:
            return f"{late}: {shorten(self.why, 400)}"
        return f"{late}; grant more with timeout= (None waits for ever)"


class ResultTimeoutError(_CallError, TimeoutError):
    """``PageCall.result(timeout)`` waited as long as it was told to; the call goes on.

    Attributes:
        timeout: Seconds that were waited.
    """

    code = "result_timeout"

    def __init__(self, tool: str, tab: str, timeout: float) -> None:
        super().__init__(tool, tab)
        self.timeout = timeout

    def __str__(self) -> str:
        return f"{self._place} is still running after {self.timeout:g} s; ask again, or cancel it"


class PageGoneError(_CallError):
    """The page went away (closed, reloaded, crashed) before it answered.

    Attributes:
        sent: Whether the call had been handed to the page. If so it may have run, wholly or
            in part; it is never repeated on its own.
        why: What happened.
    """

    code = "page_gone"

    def __init__(self, tool: str, tab: str, *, sent: bool, why: str = "the page went away") -> None:
        super().__init__(tool, tab)
        self.sent = sent
        self.why = why

    def __str__(self) -> str:
        ran = (
            "the call had been sent and may have run, so check before you repeat it"
            if self.sent
            else "nothing was sent"
        )
        return f"{self._place}: {self.why} before it answered; {ran}"


class CallCancelledError(_CallError):
    """The call was cancelled before it was answered; the page was told to stop.

    Attributes:
        reason: Who or what cancelled it.
    """

    code = "call_cancelled"

    def __init__(self, tool: str, tab: str, reason: str) -> None:
        super().__init__(tool, tab)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self._place} was cancelled: {shorten(self.reason)}"


class PageToolError(PageToolsError):
    """The tool failed in the page.

    Attributes:
        name: Name of the page's error, such as ``TypeError``.
        page_message: The page's own words.
        stack: The page's stack, or None.
        data: Whatever the page attached, or None.
        tool: Tool that failed, as ``ns/name``.
        tab: Title or URL of the tab it ran in.
    """

    code = "page_tool"

    def __init__(
        self,
        page_message: str,
        *,
        name: str = "Error",
        stack: str | None = None,
        data: Any = None,
        tool: str = "",
        tab: str = "",
    ) -> None:
        super().__init__(page_message)
        self.name = name
        self.page_message = page_message
        self.stack = stack
        self.data = data
        self.tool = tool
        self.tab = tab

    def __str__(self) -> str:
        place = f'{shorten(self.tool)} in "{shorten(self.tab)}": ' if self.tool else ""
        return f"{place}{shorten(self.name)}: {shorten(self.page_message, 600)}"


class CallRefusedError(PageToolsError):
    """The call was not made. Nothing was sent to the page.

    Attributes:
        tool: Tool it was meant for, as ``ns/name``.
        tab: Title or URL of its tab.
        reason: Why, and what can be done.
    """

    code = "call_refused"

    def __init__(self, tool: str, tab: str, reason: str) -> None:
        super().__init__(tool)
        self.tool = tool
        self.tab = tab
        self.reason = reason

    def __str__(self) -> str:
        place = f'{shorten(self.tool)} in "{shorten(self.tab)}"'
        return f"{place} was not called: {shorten(self.reason, 400)}"


class BrowserError(PageToolsError):
    """A browser could not be found, started, reached or steered.

    Attributes:
        problem: What went wrong, and what to do.
        endpoint: Where it was looked for or reached, such as ``port 9222``; may be empty.
    """

    code = "browser"

    def __init__(self, problem: str, *, endpoint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.endpoint = endpoint

    def __str__(self) -> str:
        return shorten(self.problem, 600)


class MessageError(PageToolsError):
    """A page's message, or a part of it, is not in the protocol.

    Attributes:
        reason: Stable word sent to the page as ``rejected.code``: ``json``, ``binary``,
            ``type``, ``version``, ``invalid``, ``duplicate`` or ``too_large``.
        path: Place of the fault, such as ``tools[1].name``; empty for the whole message.
        problem: What was expected and what came.
    """

    code = "message"

    def __init__(self, problem: str, *, path: str = "", reason: str = "invalid") -> None:
        super().__init__(problem)
        self.reason = reason
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem
