"""`panel_view`: what the panel shows, made from snapshots."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pagetools_ipy import panel_view as view
from pagetools_ipy.directory import PageToolDirectory
from pagetools_ipy.messages import ToolDescriptor
from pagetools_ipy.results import Image, ToolResult, from_page
from pagetools_ipy.views import App, FrameView, TabState, TabView

from .helpers import NO_REPLY, FakePage, run, settle


def tab(**fields: Any) -> TabView:
    known: dict[str, Any] = {
        "id": "t1",
        "number": 0,
        "state": TabState.CONNECTED,
        "blocked": "",
        "title": "Shop",
        "url": "http://localhost:5173/cart?x=1",
        "visible": True,
        "focused": False,
        "active": False,
        "pinned": False,
        "last_focused_at": 12.5,
        "connected_at": 1.0,
        "frames": (FrameView("c1", "", "", True, True, False, ("shop",)),),
        "apps": (App("shop", ("buy", "search"), "01234567"),),
    }
    return TabView(**{**known, **fields})


def test_a_tab_is_shown_with_names_only() -> None:
    assert view.tab_state(tab()) == {
        "id": "t1",
        "title": "Shop",
        "url": "http://localhost:5173/cart?x=1",
        "host": "localhost:5173",
        "letter": "S",
        "number": 0,
        "visible": True,
        "focused": False,
        "active": False,
        "state": "connected",
        "blocked": "",
        "lookedAt": 12500,
        "frames": 1,
        "apps": [{"ns": "shop", "tools": ["buy", "search"], "digest": "01234567"}],
    }


@pytest.mark.parametrize(
    ("fields", "letter"),
    [
        ({"title": "«élan»"}, "É"),
        ({"title": ""}, "L"),
        ({"title": "!!!"}, "•"),
        ({"title": "", "url": ""}, "•"),
        ({"title": "", "url": "http://[::1"}, "•"),
        ({"title": "7 days"}, "7"),
    ],
)
def test_a_letter_stands_for_the_icon(fields: dict[str, Any], letter: str) -> None:
    assert view.tab_state(tab(**fields))["letter"] == letter


def test_a_tool_is_shown_with_its_arguments_and_what_it_says_of_itself() -> None:
    schema = {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "What to look for"},
            "n": {"type": "integer", "default": 10},
        },
        "required": ["q"],
    }
    tool = ToolDescriptor("search", "Search", schema, None, {"readOnlyHint": True}, "Search it")
    assert view.tool_details("shop", tool) == {
        "ns": "shop",
        "name": "search",
        "title": "Search it",
        "description": "Search",
        "readOnly": True,
        "destructive": False,
        "schema": schema,
        "params": [
            {
                "name": "q",
                "type": "str",
                "required": True,
                "default": None,
                "description": "What to look for",
            },
            {"name": "n", "type": "int", "required": False, "default": "10", "description": ""},
        ],
    }


def test_hints_that_are_no_booleans_say_nothing() -> None:
    tool = ToolDescriptor("wipe", annotations={"readOnlyHint": "yes", "destructiveHint": 1})
    details = view.tool_details("shop", tool)
    assert (details["readOnly"], details["destructive"]) == (False, False)


TEXT = {"type": "text", "text": "hi"}
PNG = base64.b64encode(b"png").decode()


def image(kind: str) -> dict[str, str]:
    return {"type": "image", "data": PNG, "mimeType": kind}


VALUES: list[tuple[Any, str, int]] = [
    (None, "None", 0),
    ("plain text", "plain text", 0),
    ({"a": [1, "é"]}, '{\n  "a": [\n    1,\n    "é"\n  ]\n}', 0),
    ({"content": [{"type": "text", "text": "hi"}]}, "hi", 0),
    ({"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}, "", 1),
    ({"content": [{"type": "image", "data": PNG, "mimeType": "image/svg+xml"}]}, "<ToolResult", 0),
    (
        {"content": [{"type": "text", "text": "hi"}], "structuredContent": {"n": 1}},
        '{\n  "n": 1',
        0,
    ),
]


@pytest.mark.parametrize(("value", "text", "images"), VALUES)
def test_a_value_is_shown_as_text_and_images(value: Any, text: str, images: int) -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        page = FakePage(directory, {"get": lambda args: value})
        page.register("shop", "get")
        call = directory.start(directory.route("get"), decode=from_page)
        shown = view.outcome(call)
        assert shown["ok"] is True
        assert shown["value"].startswith(text)
        assert len(shown["images"]) == images
        assert all(url.startswith("data:image/png;base64,") for url in shown["images"])

    run(scenario())


def test_an_image_that_is_too_large_or_could_hold_a_script_is_not_shown() -> None:
    result = ToolResult(())
    assert view._preview(result) == ("<ToolResult 0 blocks>", [])
    assert view._data_url(Image(b"x", "image/svg+xml")) is None
    assert view._data_url(Image(b"x" * (view.MAX_IMAGE_BYTES + 1), "image/png")) is None
    assert view._data_url(Image(b"x", "image/png")) is not None


def test_a_long_value_is_cut_and_a_failure_is_one_line() -> None:
    def fail(args: object) -> object:
        raise ValueError("first\nsecond " + "x" * 3000)

    async def scenario() -> None:
        directory = PageToolDirectory()
        page = FakePage(directory, {"long": lambda args: "x" * 50_000, "fail": fail})
        page.register("shop", "long", "fail")
        long = directory.start(directory.route("long"))
        assert len(view.outcome(long)["value"]) == view.MAX_VALUE_CHARS
        assert len(view.call_state(long, 5.0)["note"]) <= view.MAX_NOTE_CHARS
        failed = view.outcome(directory.start(directory.route("fail")))
        assert failed["ok"] is False
        assert "\n" not in failed["error"]
        assert len(failed["error"]) <= 1000

    run(scenario())


def test_a_call_is_shown_from_its_beginning_to_its_end() -> None:
    async def scenario() -> None:
        directory = PageToolDirectory()
        page = FakePage(directory, {"buy": lambda args: NO_REPLY})
        page.hello("t1", title="Shop")
        page.register("shop", "buy")
        call = directory.start(directory.route("buy"))
        begun = view.call_state(call, 5.0)
        assert begun == {
            "id": call.id,
            "tool": "shop/buy",
            "tab": "Shop",
            "tabId": "t1",
            "state": "pending",
            "startedAt": 5000,
            "ms": None,
            "progress": None,
            "note": "",
        }
        page.say("progress", callId=call.id, progress=1, total=4, message="first")
        await settle()
        progress = view.call_state(call, 5.0)["progress"]
        assert progress == {"done": 1, "total": 4, "message": "first"}
        page.result(call.id, {"ok": [1, 2]})
        ended = view.call_state(call, 5.0)
        assert (ended["state"], ended["note"]) == ("answered", "{'ok': [1, 2]}")
        assert isinstance(ended["ms"], float)

    run(scenario())


EMPTY: view.Json = {
    "seq": 0,
    "bridge": {"state": "running"},
    "tabs": [],
    "answers": {},
    "pinned": None,
    "calls": [],
}


def call(number: int, state: str = "answered") -> view.Json:
    return {"id": f"c{number}", "state": state, "startedAt": number}


def test_a_message_makes_one_state_of_another_and_changes_neither() -> None:
    one = {"id": "a", "title": "A", "focused": True}
    state = view.apply(EMPTY, {"seq": 1, "tabs": {"a": one}, "answers": {"shop": "a"}}, 2)
    assert EMPTY["tabs"] == []
    delta = {
        "seq": 2,
        "tabs": {"a": {"focused": False}, "b": {"id": "b", "title": "B"}},
        "order": ["b", "a"],
        "answers": {"shop": None, "blog": "b"},
        "pinned": "b",
    }
    after = view.apply(state, delta, 2)
    assert after["tabs"] == [
        {"id": "b", "title": "B"},
        {"id": "a", "title": "A", "focused": False},
    ]
    assert (after["seq"], after["answers"], after["pinned"]) == (2, {"blog": "b"}, "b")
    assert state["tabs"] == [one]
    gone = view.apply(after, {"seq": 3, "removed": ["b"], "order": ["a"], "pinned": None}, 2)
    assert [tab["id"] for tab in gone["tabs"]] == ["a"]


def test_calls_on_their_way_and_the_last_finished_ones_are_kept() -> None:
    first = [call(1, "pending"), *(call(n) for n in range(2, 6))]
    state = view.apply(EMPTY, {"seq": 1, "calls": first}, 2)
    assert [c["id"] for c in state["calls"]] == ["c5", "c4", "c1"]
    state = view.apply(state, {"seq": 2, "calls": [call(1), call(6, "pending")]}, 2)
    assert [c["id"] for c in state["calls"]] == ["c6", "c5", "c4"]


def test_only_what_differs_is_a_change() -> None:
    before = {"a": 1, "b": None, "c": [1]}
    assert view.changes(before, {"a": 1, "b": None, "c": [2]}) == {"c": [2]}
    assert view.changes({}, before) == before
    assert view.changes(before, dict(before)) == {}
