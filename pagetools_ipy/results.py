"""What a page returned, as a Python value that shows itself in a notebook.

Knows JSON values and MCP content blocks (modelcontextprotocol.io, "Tool Result"). Does not
know calls or displays: a value says what it looks like, whoever shows it.

JSON stays plain Python. Content blocks become a `ToolResult`; a block that is not understood
is kept in `ToolResult.blocks` and never guessed at.
"""

from __future__ import annotations

import base64
import binascii
import html
from dataclasses import dataclass
from typing import Any

from .errors import PageToolError
from .text import clean, shorten

MAX_SHOWN_CHARS = 2000
_NATIVE_IMAGES = ("image/png", "image/jpeg", "image/gif")
"""Image types that notebooks show from a MIME bundle; others go through an ``img`` element."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image a tool returned.

    Attributes:
        data: The encoded image.
        mime_type: Its type, such as ``image/png``.
    """

    data: bytes
    mime_type: str

    def __repr__(self) -> str:
        return f"<Image {self.mime_type}, {len(self.data):,} bytes>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        if self.mime_type in _NATIVE_IMAGES:
            return {"text/plain": repr(self), self.mime_type: _base64(self.data)}
        return {"text/plain": repr(self), "text/html": self.as_html()}

    def as_url(self) -> str:
        """A ``data:`` address that holds the image."""
        return f"data:{self.mime_type};base64,{_base64(self.data)}"

    def as_html(self) -> str:
        """An ``img`` element that holds the image. Scripts in an SVG do not run in one."""
        return f'<img src="{html.escape(self.as_url(), quote=True)}" style="max-width:100%">'


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result made of MCP content blocks.

    Attributes:
        blocks: The blocks as they came.
        structured: ``structuredContent``, when there was any, else None.
        is_error: Whether the tool marked it as an error.
    """

    blocks: tuple[dict[str, Any], ...]
    structured: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, a line break between two."""
        texts = (b.get("text") for b in self.blocks if b.get("type") == "text")
        return "\n".join(text for text in texts if isinstance(text, str))

    @property
    def images(self) -> list[Image]:
        """The image blocks that can be decoded."""
        images = (_image(block) for block in self.blocks)
        return [image for image in images if image is not None]

    @property
    def value(self) -> Any:
        """The structured content, else the text, else the only image, else the blocks."""
        if self.structured is not None:
            return self.structured
        if self.text:
            return self.text
        images = self.images
        return images[0] if len(images) == 1 else list(self.blocks)

    def __repr__(self) -> str:
        parts = [shorten(repr(self.structured), 200)] if self.structured is not None else []
        parts += [repr(shorten(self.text, 200))] if self.text else []
        parts += [repr(image) for image in self.images]
        return f"<ToolResult {', '.join(parts) or f'{len(self.blocks)} blocks'}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        images = self.images
        if not images:
            return {"text/plain": clean(self.text, MAX_SHOWN_CHARS) or repr(self)}
        if len(images) == 1 and not self.text:
            return images[0]._repr_mimebundle_()
        text = html.escape(clean(self.text, MAX_SHOWN_CHARS))
        shown = f"<pre>{text}</pre>" if text else ""
        return {
            "text/plain": repr(self),
            "text/html": shown + "".join(image.as_html() for image in images),
        }


def from_page(value: Any) -> Any:
    """Turn what a page returned into what the caller gets.

    Raises:
        PageToolError: If the result consists of content blocks and is marked as an error.
    """
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, list) or not content or not all(map(_is_block, content)):
        return value
    result = ToolResult(
        tuple(content), value.get("structuredContent"), value.get("isError") is True
    )
    if result.is_error:
        raise PageToolError(clean(result.text, MAX_SHOWN_CHARS) or "(no message)", data=result)
    return result


def _is_block(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str)


def _image(block: dict[str, Any]) -> Image | None:
    data, kind = block.get("data"), block.get("mimeType")
    if block["type"] != "image" or not isinstance(data, str) or not isinstance(kind, str):
        return None
    try:
        return Image(base64.b64decode(data, validate=True), clean(kind, 64))
    except (binascii.Error, ValueError):
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
