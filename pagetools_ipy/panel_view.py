"""What the panel shows, as plain JSON made from snapshots.

Knows snapshots of tabs and calls. Does not know where they come from, or how they are sent.
Names only: what takes more room is asked for when it is looked at.
"""

from __future__ import annotations

import itertools
import json
import reprlib
from typing import Any
from urllib.parse import urlsplit

from .calls import CallState, PageCall
from .errors import PageToolError
from .messages import ToolDescriptor
from .results import Image, ToolResult
from .schema import InputSchema, describe_parameters
from .text import clean, shorten
from .views import TabView

Json = dict[str, Any]


class _Brief(reprlib.Repr):
    def repr_dict(self, value: dict[Any, Any], level: int) -> str:
        """In the order of the keys, unlike the library's."""
        if level <= 0:
            return "{...}"
        shown = [
            f"{self.repr1(key, level - 1)}: {self.repr1(item, level - 1)}"
            for key, item in itertools.islice(value.items(), self.maxdict)
        ]
        return f"{{{', '.join(shown + ['...'] * (len(value) > self.maxdict))}}}"


_BRIEF = _Brief()
_BRIEF.maxlevel, _BRIEF.maxstring, _BRIEF.maxother = 3, 80, 120
"""Looks at the beginning of a value only: it may be of many megabytes."""

MAX_NOTE_CHARS = 160
MAX_VALUE_CHARS = 20_000
MAX_IMAGE_BYTES = 2 * 1024 * 1024
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def tab_state(tab: TabView) -> Json:
    """One tab."""
    host = _host(tab.url)
    return {
        "id": tab.id,
        "title": tab.title,
        "url": tab.url,
        "host": host,
        "letter": _letter(tab.title or host),
        "number": tab.number,
        "visible": tab.visible,
        "focused": tab.focused,
        "active": tab.active,
        "state": tab.state.value,
        "blocked": tab.blocked,
        "lookedAt": int(tab.last_focused_at * 1000),
        "frames": len(tab.frames),
        "apps": [
            # The digest has a front end ask again for what it knows of the tools.
            {"ns": app.ns, "tools": list(app.tools), "digest": app.digest}
            for app in tab.apps
        ],
    }


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:  # such as an unclosed bracket of an IPv6 address
        return ""


def _letter(text: str) -> str:
    return next((char.upper() for char in text if char.isalnum()), "•")


def call_state(call: PageCall, started_at: float) -> Json:
    """One call, which was sent at ``started_at``, in seconds since the epoch."""
    step = call.progress
    return {
        "id": call.id,
        "tool": call.tool,
        "tab": call.tab,
        "tabId": call.tab_id,
        "state": call.state.value,
        "startedAt": int(started_at * 1000),
        "ms": round(call.duration * 1000, 1) if call.done() else None,
        "progress": step and {"done": step.progress, "total": step.total, "message": step.message},
        "note": _note(call),
    }


def _note(call: PageCall) -> str:
    if call.state is CallState.PENDING:
        return ""
    if call.error is not None:
        return shorten(_words(call.error), MAX_NOTE_CHARS)
    value = call.result()
    if isinstance(value, ToolResult) and not (value.structured is None and value.images):
        value = value.text if value.structured is None else value.structured
    return shorten(_BRIEF.repr(value), MAX_NOTE_CHARS)


def _words(error: BaseException) -> str:
    """What went wrong; which tool it was in which tab is shown beside it."""
    if isinstance(error, PageToolError):
        return f"{error.name}: {error.page_message}"
    return str(error)


def tool_details(ns: str, tool: ToolDescriptor) -> Json:
    """One tool with all that its form needs."""
    hints, parameters = tool.annotations or {}, describe_parameters(InputSchema(tool.input_schema))
    return {
        "ns": ns,
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "readOnly": hints.get("readOnlyHint") is True,
        "destructive": hints.get("destructiveHint") is True,
        "schema": tool.input_schema,
        "params": [parameter._asdict() for parameter in parameters],
    }


def outcome(call: PageCall) -> Json:
    """How a finished call ended, with as much of its value as can be looked at."""
    shown: Json = {"ms": round(call.duration * 1000, 1)}
    if call.error is not None:
        return {**shown, "ok": False, "error": shorten(_words(call.error), 1000)}
    text, images = _preview(call.result())
    return {**shown, "ok": True, "value": clean(text, MAX_VALUE_CHARS), "images": images}


def _preview(value: Any) -> tuple[str, list[str]]:
    match value:
        case ToolResult():
            images = [image for image in map(_data_url, value.images) if image]
            structured = "" if value.structured is None else _json(value.structured)
            return structured or value.text or ("" if images else repr(value)), images
        case None:
            return "None", []
        case str():
            return value, []
        case _:
            return _json(value), []


def _json(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _data_url(image: Image) -> str | None:
    if image.mime_type in _IMAGES and len(image.data) <= MAX_IMAGE_BYTES:
        return image.as_url()
    return None


def apply(state: Json, delta: Json, shown_calls: int) -> Json:
    """The state after a message about changes; both stay as they are.

    Of the calls, those on their way and the last ``shown_calls`` others are kept.
    """
    replaced: Json = {key: delta[key] for key in ("seq", "bridge", "pinned") if key in delta}
    after = {**state, **replaced}
    removed = delta.get("removed", ())
    tabs: dict[str, Json] = {t["id"]: t for t in state["tabs"] if t["id"] not in removed}
    for key, fields in delta.get("tabs", {}).items():
        tabs[key] = {**tabs.get(key, {}), **fields}
    after["tabs"] = [tabs[key] for key in delta.get("order", list(tabs))]
    answers = {**state["answers"], **delta.get("answers", {})}
    after["answers"] = {ns: tab for ns, tab in answers.items() if tab is not None}
    shown = [*state["calls"], *delta.get("calls", [])]
    calls: dict[str, Json] = {call["id"]: call for call in shown}
    newest_first = sorted(calls.values(), key=lambda call: call["startedAt"], reverse=True)
    over = [call["id"] for call in newest_first if call["state"] != "pending"][shown_calls:]
    after["calls"] = [call for call in newest_first if call["id"] not in over]
    return after


def changes(before: Json, after: Json) -> Json:
    """The fields of ``after`` that are not so in ``before``."""
    return {key: value for key, value in after.items() if before.get(key, ...) != value}
