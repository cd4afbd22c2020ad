"""How a pending call draws itself under its cell: once, then as often as is good, then its end."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pagetools_ipy import PageCall, live, tools
from pagetools_ipy.bridge import Bridge

from .conftest import DEADLINE, HostedPage, NewPage, Notebook
from .helpers import NO_REPLY, Clock

Bundle = dict[str, Any]

CELL = contextvars.ContextVar("CELL", default="none")


class Screen:
    """Takes the place of IPython's display and keeps what is drawn on it."""

    def __init__(self) -> None:
        self.drawn: list[Bundle] = []
        self.updates: list[Bundle] = []
        self.contexts: list[str] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.is_broken = False

    def display(self, bundle: Bundle, *, raw: bool, display_id: bool) -> Screen:
        assert raw
        assert display_id
        self.drawn.append(bundle)
        self.meanwhile()
        return self

    def update(self, bundle: Bundle, *, raw: bool) -> None:
        assert raw
        if self.is_broken:
            raise ConnectionError("no front end")
        self.updates.append(bundle)
        self.contexts.append(CELL.get())

    @property
    def last(self) -> str:
        text: str = (self.updates or self.drawn)[-1]["text/plain"]
        return text


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    monkeypatch.setattr(live, "display", screen.display)
    return screen


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that redrawing goes by."""
    clock = Clock()
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def in_notebook(bridge: Bridge, notebook: Notebook) -> Notebook:
    """A shell that takes itself for a kernel's."""
    notebook.shell.kernel = object()
    live.show_calls(notebook.shell)
    notebook.run("from pagetools_ipy import tools")
    return notebook


@pytest.fixture
def page(new_page: NewPage) -> HostedPage:
    page = new_page({"hang": lambda _: NO_REPLY, "now": lambda _: 42})
    page.hello("tab-1", title="Todos")
    page.register("todo", "hang", "now")
    return page


def hang(notebook: Notebook) -> PageCall:
    """Run a cell that ends in a call without an answer."""
    output = notebook.run("tools.hang(timeout=None)")
    assert output.error is None
    assert isinstance(output.value, PageCall)
    return output.value


def progress(page: HostedPage, call: PageCall, done: float, message: str = "") -> None:
    page.say("progress", callId=call.id, progress=done, total=10, message=message)


def test_a_call_is_drawn_once_and_its_end_is_drawn_over_it(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    call = hang(in_notebook)
    (drawn,) = screen.drawn
    assert set(drawn) == {"text/plain", "text/html"}
    assert "todo/hang" in drawn["text/plain"]
    assert "pending" in drawn["text/plain"]
    assert "<progress" in drawn["text/html"]
    assert screen.updates == []
    page.result(call.id, "done at last")
    (update,) = screen.updates
    assert "done at last" in update["text/plain"]
    assert "done at last" in update["text/html"]
    assert "<progress" not in update["text/html"]
    assert len(screen.drawn) == 1


def test_progress_is_drawn_at_most_ten_times_a_second(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    call = hang(in_notebook)
    for step in range(100):
        clock.now += 0.0125
        progress(page, call, step / 10)
    assert len(screen.updates) == 12  # in 1.25 s
    assert all("pending" in update["text/plain"] for update in screen.updates)
    call.cancel()
    page.say("pong", n=1)  # so that the bridge's thread has done all that came before
    assert len(screen.updates) == 13


def test_the_end_is_drawn_at_once_however_soon_it_comes(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    call = hang(in_notebook)
    clock.now += live.REDRAW_EVERY
    progress(page, call, 1, "one")
    progress(page, call, 2, "two")
    page.result(call.id, error={"name": "RangeError", "message": "too <many>"})
    first, end = screen.updates
    assert "1/10 one" in first["text/plain"]
    assert "failed" in end["text/plain"]
    assert "too <many>" in end["text/plain"]
    assert "too &lt;many&gt;" in end["text/html"]
    assert "<many>" not in end["text/html"]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda page, call: page.result(call.id, 3), "3 after"),
        (lambda page, call: page.result(call.id, error="no"), "failed, todo/hang"),
        (lambda page, call: page.disconnect(), "gone, todo/hang"),
        (lambda page, call: (call.cancel(), page.say("pong", n=1)), "cancelled, todo/hang"),
    ],
)
def test_every_end_is_drawn_and_nothing_after_it(
    in_notebook: Notebook,
    page: HostedPage,
    screen: Screen,
    clock: Clock,
    end: Callable[[HostedPage, PageCall], object],
    said: str,
) -> None:
    call = hang(in_notebook)
    end(page, call)
    assert said in screen.last
    count = len(screen.updates)
    clock.now += 10
    page.say("progress", callId=call.id, progress=1)
    page.result(call.id, "late")
    assert len(screen.updates) == count == 1


def test_a_call_that_is_done_already_is_drawn_once(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    output = in_notebook.run("tools.now()")
    assert output.value.result(DEADLINE) == 42
    (drawn,) = screen.drawn
    assert "42 after" in drawn["text/plain"]
    assert screen.updates == []


def test_an_answer_that_comes_while_the_call_is_being_drawn_is_drawn_too(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    screen.meanwhile = lambda: page.result(page.last_call["callId"], "quick")
    call = hang(in_notebook)
    assert call.done()
    assert "quick" in screen.last


def test_what_a_page_says_is_drawn_as_text(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    page.state(1, title="<img src=x onerror=alert(1)>")
    call = hang(in_notebook)
    clock.now += 1
    progress(page, call, 1, "<script>alert(1)</script>")
    page.result(call.id, "<script>alert(2)</script>")
    for bundle in (*screen.drawn, *screen.updates):
        assert "<script" not in bundle["text/html"]
        assert "<img" not in bundle["text/html"]
    assert "&lt;script&gt;alert(1)" in screen.updates[0]["text/html"]
    assert "&lt;script&gt;alert(2)" in screen.updates[1]["text/html"]


def test_several_calls_are_drawn_apart(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    first, second = hang(in_notebook), hang(in_notebook)
    assert len(screen.drawn) == 2
    page.result(second.id, "second")
    page.result(first.id, "first")
    assert ["second" in screen.updates[0]["text/plain"], "first" in screen.last] == [True, True]


def test_updates_are_sent_from_within_the_cell_that_drew(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    in_notebook.shell.user_ns["CELL"] = CELL
    call = in_notebook.run("CELL.set('this cell')\ntools.hang(timeout=None)").value
    CELL.set("another cell")
    clock.now += 1
    progress(page, call, 1)
    page.result(call.id, 1)
    assert screen.contexts == ["this cell", "this cell"]
    CELL.set("none")


def test_a_display_that_fails_does_not_hurt_the_call(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    call = hang(in_notebook)
    screen.is_broken = True
    clock.now += 1
    progress(page, call, 1)
    page.result(call.id, 42)
    assert call.result(DEADLINE) == 42
    assert page.calls == [("hang", {})]


def test_showing_twice_draws_once(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    live.show_calls(in_notebook.shell)
    hang(in_notebook)
    live.show_calls(in_notebook.shell)
    call = hang(in_notebook)
    assert len(screen.drawn) == 2
    page.result(call.id, 1)
    assert len(screen.updates) == 1


@pytest.mark.parametrize("drawn_before", [True, False])
def test_hiding_goes_back_to_the_repr(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock, drawn_before: bool
) -> None:
    if drawn_before:
        hang(in_notebook)
    live.hide_calls(in_notebook.shell)
    live.hide_calls(in_notebook.shell)
    output = in_notebook.run("tools.hang(timeout=None)")
    assert "<PageCall todo/hang" in output.text
    assert len(screen.drawn) == drawn_before


def test_unloading_hides_calls(
    in_notebook: Notebook, page: HostedPage, screen: Screen, clock: Clock
) -> None:
    call = tools.hang(timeout=None)
    in_notebook.shell.user_ns["call"] = call
    in_notebook.run("%unload_ext pagetools_ipy")
    assert "<PageCall todo/hang" in in_notebook.run("call").text
    assert screen.drawn == []


def test_in_a_terminal_a_call_is_its_repr(
    notebook: Notebook, page: HostedPage, screen: Screen
) -> None:
    notebook.run("from pagetools_ipy import tools")
    output = notebook.run("tools.hang(timeout=None)")
    assert '<PageCall todo/hang in "Todos" (the only one): pending' in output.text
    assert screen.drawn == []
