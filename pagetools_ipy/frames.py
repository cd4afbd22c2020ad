"""Text frames: JSON as it goes over a socket, and what JSON alone does not settle.

Knows plain values and bytes. Does not know what a message means.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from .errors import MessageError
from .text import shorten


def decode(frame: str | bytes) -> object:
    """Read one frame into plain Python values.

    Args:
        frame: A JSON text; bytes stand for a binary frame, which the protocol does not have.

    Raises:
        MessageError: If the frame is binary, is not JSON, or is nested too deeply to read.
    """
    if isinstance(frame, bytes):
        raise MessageError("expected a text frame, got a binary one", reason="binary")
    try:
        return msgspec.json.decode(frame)
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass  # msgspec refuses lone surrogates, which JSON.stringify does send
    except RecursionError:
        raise MessageError("expected JSON, got one nested too deeply", reason="json") from None
    try:
        return json.loads(frame, parse_constant=refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as problem:
        raise MessageError(f"expected JSON: {shorten(str(problem))}", reason="json") from None


def refuse_constant(name: str) -> object:
    """Refuse NaN and Infinity, which Python would read and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{shorten(text, 40)} is beyond what a number can be")
    return value


def encode(message: dict[str, Any]) -> bytes:
    """Write a message as UTF-8 JSON.

    Lone surrogates are escaped: a WebSocket library would close the connection over them.
    """
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode("ascii")
