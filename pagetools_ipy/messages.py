"""The wire vocabulary, version 1: what pages and the bridge say to each other.

Knows the messages, how to read them strictly and how to write them. Does not know who sent
one, what it refers to, or what carried it.

A message is a JSON object with a ``type`` and a version ``v`` (1 when missing). What a page
sends is parsed into frozen types; every fault names its place, like
``tools[1].name: expected string, got number``. Fields nobody knows are ignored, so that newer
pages can talk to older bridges.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

import msgspec

from .errors import MessageError
from .limits import MAX_DESCRIPTION_CHARS, MAX_TITLE_CHARS, MAX_TOOLS, check_name, check_tree
from .text import brief, clean, kind_of

VERSION = 1


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of everything on the wire: immutable, camelCase outside, snake_case inside."""


class ToolDescriptor(_Wire, frozen=True):
    """A tool as its page declares it; the function stays in the page."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    title: str | None = None


class HelloTab(_Wire, frozen=True):
    """Which document is calling, in which tab, and what the person sees of it.

    ``last_focused_ago`` is in milliseconds: how long ago the document had the keyboard.
    """

    id: str
    doc_id: str = ""
    url: str = ""
    title: str = ""
    visible: bool = False
    focused: bool = False
    last_focused_ago: float | None = None


class HelloFrame(_Wire, frozen=True):
    top: bool = True


class HelloClient(_Wire, frozen=True):
    """What speaks for the page.

    ``webmcp`` tells whose WebMCP the page has: ``native``, ``polyfill``, ``own`` (the client's)
    or ``none``; ``via`` what carries its messages, where it is no socket of the page's own.
    """

    name: str = ""
    version: str = ""
    webmcp: str = ""
    via: str = ""


class TabHint(_Wire, frozen=True):
    """What a browser-side host knows of the tab a registration comes from."""

    chrome_tab_id: int | str | None = None
    window_id: int | str | None = None
    target_id: str | None = None
    url: str | None = None
    title: str | None = None


class ActivatedTab(_Wire, frozen=True):
    chrome_tab_id: int | str
    window_id: int | str | None = None


class Source(_Wire, frozen=True):
    """Where the page's source code lies, when it says so."""

    root: str | None = None


class PageError(_Wire, frozen=True):
    """Why a tool failed, in the page's words."""

    name: str = "Error"
    message: str = ""
    stack: str | None = None
    data: Any = None


class Hello(_Wire, frozen=True, tag="hello"):
    tab: HelloTab
    frame: HelloFrame = HelloFrame()
    client: HelloClient = HelloClient()


class Register(_Wire, frozen=True, tag="register"):
    """The full tool set of one namespace; an empty one withdraws the namespace.

    ``tools`` stays raw here: `parse_tools` reads them one by one, so that a bad tool costs
    itself only.
    """

    ns: str
    tools: list[Any]
    hash: str | None = None
    url: str | None = None
    tab: TabHint | None = None
    source: Source | None = None


class State(_Wire, frozen=True, tag="state"):
    """What the person sees of a document; ``asleep`` before it is frozen or put aside."""

    seq: int
    url: str
    title: str
    visible: bool
    focused: bool
    asleep: bool = False


class Blocked(_Wire, frozen=True, tag="blocked"):
    """Why a page cannot answer now, from a host in the browser; empty when it can again.

    ``asleep`` says that its page is frozen, or out of memory until somebody looks at it.
    """

    reason: str
    asleep: bool = False


class Activation(_Wire, frozen=True, tag="activation"):
    tab: ActivatedTab
    active: bool


class Result(_Wire, frozen=True, tag="result"):
    call_id: str
    ok: bool
    value: Any = None
    error: Any = None

    def page_error(self) -> PageError:
        """The failure in one form, whether the page sent a string, an object or nothing."""
        match self.error:
            case str(text):
                return PageError(message=text)
            case dict(fields):
                text_of = {k: _text(fields.get(k)) for k in ("name", "message", "stack")}
                return PageError(
                    name=text_of["name"] or "Error",
                    message=text_of["message"],
                    stack=text_of["stack"] or None,
                    data=fields.get("data"),
                )
            case None:
                return PageError(message="the page gave no reason")
            case other:
                return PageError(message=_text(other))


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else brief(value)


class Progress(_Wire, frozen=True, tag="progress"):
    """How far a running tool says it is.

    ``progress`` and ``total`` are in the tool's own unit; ``value`` is a partial result.
    """

    call_id: str
    progress: float
    total: float | None = None
    message: str | None = None
    value: Any = None


class Pong(_Wire, frozen=True, tag="pong"):
    n: int


M = TypeVar("M", bound=_Wire)

PageMessage: TypeAlias = Hello | Register | State | Blocked | Activation | Result | Progress | Pong

PAGE_MESSAGES: dict[str, type[PageMessage]] = {
    "hello": Hello,
    "register": Register,
    "state": State,
    "blocked": Blocked,
    "activation": Activation,
    "result": Result,
    "progress": Progress,
    "pong": Pong,
}


class Welcome(_Wire, frozen=True, tag="welcome"):
    client_id: str
    tab_id: str
    max_bytes: int
    reason: str | None = None


class Registered(_Wire, frozen=True, tag="registered"):
    ns: str
    hash: str


class Rejected(_Wire, frozen=True, tag="rejected"):
    code: str
    message: str
    path: str


class Call(_Wire, frozen=True, tag="call"):
    call_id: str
    ns: str
    name: str
    args: dict[str, Any]


class Cancel(_Wire, frozen=True, tag="cancel"):
    call_id: str
    reason: str


class Ping(_Wire, frozen=True, tag="ping"):
    n: int


BridgeMessage: TypeAlias = Welcome | Registered | Rejected | Call | Cancel | Ping

BRIDGE_MESSAGES: tuple[type[BridgeMessage], ...] = (
    Welcome,
    Registered,
    Rejected,
    Call,
    Cancel,
    Ping,
)


# Reading


def parse(raw: object) -> PageMessage | None:
    """Read a page's message, already decoded from JSON.

    Returns:
        The message, or None when its type is not one this version knows.

    Raises:
        MessageError: If it is not an object with a type, is of another version, or a field
            is missing or of the wrong type.
    """
    if not isinstance(raw, dict):
        raise MessageError(f"expected a message object, got {kind_of(raw)}", reason="type")
    version = raw.get("v", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise MessageError(
            f"expected version {VERSION}, got {brief(version)}", path="v", reason="version"
        )
    name = raw.get("type")
    if not isinstance(name, str):
        raise MessageError(f"expected string, got {kind_of(name)}", path="type", reason="type")
    message_type = PAGE_MESSAGES.get(name)
    if message_type is None:
        return None
    return _convert(raw, message_type, "")


def _convert(raw: object, kind: type[M], path: str) -> M:
    try:
        try:
            return msgspec.convert(raw, type=kind)
        except UnicodeEncodeError:  # a lone surrogate where msgspec looks at text
            return msgspec.convert(_without_surrogates(raw), type=kind)
    except msgspec.ValidationError as problem:
        raise _located(problem, path) from None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _without_surrogates(raw: object, levels: int = 2) -> object:
    """Take them out of a message's own fields, which lie on two levels, not of what it carries."""
    if isinstance(raw, str):
        return _SURROGATE.sub("\ufffd", raw)
    if not isinstance(raw, dict) or not levels:
        return raw
    return {
        _SURROGATE.sub("\ufffd", key): item
        if key in ("value", "error")
        else _without_surrogates(item, levels - 1)
        for key, item in raw.items()
        if isinstance(key, str)
    }


def parse_tools(raw_tools: list[Any]) -> tuple[tuple[ToolDescriptor, ...], list[MessageError]]:
    """Read the tools of a registration one by one.

    Returns:
        The tools that can be offered, in order, and what was wrong with the others.
    """
    tools: dict[str, ToolDescriptor] = {}
    positions: dict[str, int] = {}
    problems: list[MessageError] = []
    for position, raw in enumerate(raw_tools[:MAX_TOOLS]):
        path = f"tools[{position}]"
        try:
            tool = _parse_tool(raw, path)
            if tool.name in tools:
                raise MessageError(
                    f'"{tool.name}" is declared by tools[{positions[tool.name]}] already; '
                    "names are unique within a namespace",
                    path=f"{path}.name",
                    reason="duplicate",
                )
        except MessageError as problem:
            problems.append(problem)
        else:
            tools[tool.name] = tool
            positions[tool.name] = position
    if len(raw_tools) > MAX_TOOLS:
        problems.append(
            MessageError(
                f"expected at most {MAX_TOOLS} tools, got {len(raw_tools):,}; the rest is left out",
                path="tools",
                reason="too_large",
            )
        )
    return tuple(tools.values()), problems


def _parse_tool(raw: object, path: str) -> ToolDescriptor:
    tool = _convert(raw, ToolDescriptor, path)
    check_name(tool.name, f"{path}.name")
    for key, tree in (
        ("inputSchema", tool.input_schema),
        ("outputSchema", tool.output_schema),
        ("annotations", tool.annotations),
    ):
        if tree is not None:
            check_tree(tree, f"{path}.{key}")
    return msgspec.structs.replace(
        tool,
        description=clean(tool.description, MAX_DESCRIPTION_CHARS),
        title=tool.title and clean(tool.title, MAX_TITLE_CHARS),
    )


def digest(tools: Iterable[ToolDescriptor]) -> str:
    """Fingerprint of a tool set: SHA-256 over its canonical JSON, 64 hexadecimal digits.

    The same tools give the same digest in whatever order their keys come; the order of the
    tools counts.
    """
    canonical = json.dumps(
        [msgspec.to_builtins(tool) for tool in tools], sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


_EXPECTED = re.compile(r"^(?P<text>.*?)(?: - at `(?P<path>[^`]+)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(\w+)`")
_JSON_NAMES = {"str": "string", "int": "number", "float": "number", "bool": "boolean"}


def _located(problem: msgspec.ValidationError, prefix: str) -> MessageError:
    """Turn msgspec's words into ours, with one path from the message's root."""
    found = _EXPECTED.match(str(problem))
    assert found is not None
    path = prefix + (found["path"] or "$").removeprefix("$")
    text = found["text"]
    if missing := _MISSING.match(text):
        return MessageError("missing", path=f"{path}.{missing[1]}".lstrip("."))
    names = _JSON_NAMES
    if "got `float`" in text:  # "expected number, got number" would help nobody
        names = {**names, "int": "whole number", "float": "fraction"}
    words = re.sub(
        r"`([^`]+)`", lambda m: " or ".join(names.get(w, w) for w in m[1].split(" | ")), text
    )
    return MessageError(words[:1].lower() + words[1:], path=path.lstrip("."))


# Writing


def dump(message: BridgeMessage) -> dict[str, Any]:
    """Turn a message into the plain object that goes on the wire."""
    plain: dict[str, Any] = {"v": VERSION, "type": type(message).__struct_config__.tag}
    for attribute, key in _fields(type(message)):
        value = getattr(message, attribute)
        if value is not None:
            plain[key] = value
    return plain


@functools.cache
def _fields(message_type: type[BridgeMessage]) -> tuple[tuple[str, str], ...]:
    """Attribute and wire name of each field."""
    return tuple(
        zip(message_type.__struct_fields__, message_type.__struct_encode_fields__, strict=True)
    )
