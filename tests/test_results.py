"""`results`: what a page returned, as a value and as what a notebook shows of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pagetools_ipy.errors import PageToolError
from pagetools_ipy.results import Image, ToolResult, from_page

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 1500
Block = dict[str, Any]


def text(words: Any) -> Block:
    return {"type": "text", "text": words}


def image(data: bytes = PNG, kind: str = "image/png") -> Block:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": kind}


def result(*blocks: Block, **fields: Any) -> ToolResult:
    found = from_page({"content": list(blocks), **fields})
    assert isinstance(found, ToolResult)
    return found


# Which values are results of blocks


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        1.5,
        "",
        "Error: sold out",
        [],
        [text("a")],
        {},
        {"ok": False, "error": "sold out"},
        {"status": "error"},
        {"success": False},
        {"isError": True},
        {"structuredContent": {"a": 1}},
        {"content": "words"},
        {"content": None},
        {"content": []},
        {"content": [], "isError": True},
        {"content": {"type": "text"}},
        {"content": ["words"]},
        {"content": [text("a"), "words"]},
        {"content": [text("a"), {"text": "no type"}]},
        {"content": [{"type": 3}]},
        {"content": [{"type": None}]},
    ],
)
def test_plain_json_stays_as_it_is(value: object) -> None:
    assert from_page(value) is value


def test_blocks_become_a_result_that_keeps_them() -> None:
    blocks = [text("a"), {"type": "brandNew", "x": [1]}, image()]
    found = result(*blocks, structuredContent={"n": 1}, other=3)
    assert found.blocks == tuple(blocks)
    assert found.structured == {"n": 1}
    assert found.is_error is False


@pytest.mark.parametrize("flag", [False, None, 0, 1, "true"])
def test_only_true_marks_an_error(flag: object) -> None:
    assert result(text("a"), isError=flag).is_error is False


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([text("sold out")], "sold out"),
        ([text("one"), image(), text("two")], "one\ntwo"),
        ([text("\x1b[31mred\u202e")], "red"),
        ([text("x" * 3000)], "x" * 1999 + "…"),
        ([text("")], "(no message)"),
        ([text(None)], "(no message)"),
        ([image()], "(no message)"),
    ],
)
def test_a_result_marked_as_an_error_raises_with_its_words(
    blocks: list[Block], message: str
) -> None:
    with pytest.raises(PageToolError) as raised:
        from_page({"content": blocks, "isError": True, "structuredContent": [1]})
    assert raised.value.page_message == message
    data = raised.value.data
    assert isinstance(data, ToolResult)
    assert (data.blocks, data.structured, data.is_error) == (tuple(blocks), [1], True)


# Values


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (result(text("a"), structuredContent={"n": 1}), {"n": 1}),
        (result(text("a"), structuredContent=0), 0),
        (result(text("a"), structuredContent=None), "a"),
        (result(text("a")), "a"),
        (result(text("a"), text("b")), "a\nb"),
        (result(text("a"), image()), "a"),
        (result(text('{"n": 1}')), '{"n": 1}'),
        (result(image()), Image(PNG, "image/png")),
        (result(text(""), image()), Image(PNG, "image/png")),
        (result(image(), image()), [image(), image()]),
        (result({"type": "audio", "data": "x"}), [{"type": "audio", "data": "x"}]),
        (result(text(3)), [text(3)]),
        (result({"type": "text"}), [{"type": "text"}]),
    ],
)
def test_the_value_is_the_most_telling_part(found: ToolResult, value: object) -> None:
    assert found.value == value


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        {"type": "image", "data": "abc", "mimeType": "image/png"},
        {"type": "image", "data": "QUJD!", "mimeType": "image/png"},
        {"type": "image", "data": "é", "mimeType": "image/png"},
        {"type": "image", "data": "\ud800", "mimeType": "image/png"},
        {"type": "image", "data": [1], "mimeType": "image/png"},
        {"type": "image", "data": None, "mimeType": "image/png"},
        {"type": "image", "data": "", "mimeType": None},
        {"type": "image", "data": ""},
        {"type": "image", "mimeType": "image/png"},
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///x"}},
    ],
)
def test_a_block_that_is_no_readable_image_is_kept_and_not_guessed_at(block: Block) -> None:
    found = result(block)
    assert found.images == []
    assert found.value == [block]
    assert repr(found) == "<ToolResult 1 blocks>"
    assert found._repr_mimebundle_() == {"text/plain": "<ToolResult 1 blocks>"}


# What is shown


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (result(text("buy milk")), "<ToolResult 'buy milk'>"),
        (result(text("a"), structuredContent={"n": 1}), "<ToolResult {'n': 1}, 'a'>"),
        (result(image()), "<ToolResult <Image image/png, 1,508 bytes>>"),
        (
            result(text("a\x1b[31m"), image(b"x", "image/svg+xml")),
            "<ToolResult 'a', <Image image/svg+xml, 1 bytes>>",
        ),
        (result(text("x" * 300)), f"<ToolResult '{'x' * 199}…'>"),
        (
            result(text(""), structuredContent=["y" * 300]),
            f"<ToolResult ['{'y' * 197}…>",
        ),
        (result({"type": "a"}, {"type": "b"}), "<ToolResult 2 blocks>"),
    ],
)
def test_a_result_has_a_short_repr(found: ToolResult, shown: str) -> None:
    assert repr(found) == shown


def test_text_is_shown_as_text_safe_and_bounded() -> None:
    assert result(text("a\n\tb"))._repr_mimebundle_() == {"text/plain": "a\n\tb"}
    assert result(text("\x1b[31m<b>\u202e"))._repr_mimebundle_() == {"text/plain": "<b>"}
    assert result(text("x" * 5000))._repr_mimebundle_() == {"text/plain": "x" * 1999 + "…"}


@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "image/gif"])
def test_an_image_of_a_usual_type_is_shown_by_the_notebook_itself(kind: str) -> None:
    expected = {
        "text/plain": f"<Image {kind}, 1,508 bytes>",
        kind: base64.b64encode(PNG).decode(),
    }
    assert result(image(kind=kind))._repr_mimebundle_() == expected
    assert Image(PNG, kind)._repr_mimebundle_(include=None, exclude=None) == expected


def test_an_image_of_another_type_is_shown_by_an_element_that_runs_nothing() -> None:
    svg = b"<svg onload='alert(1)'/>"
    shown = Image(svg, "image/svg+xml")._repr_mimebundle_()
    data = base64.b64encode(svg).decode()
    assert shown == {
        "text/plain": "<Image image/svg+xml, 24 bytes>",
        "text/html": f'<img src="data:image/svg+xml;base64,{data}" style="max-width:100%">',
    }


@pytest.mark.parametrize(
    "kind",
    [
        'image/png"><script>alert(1)</script>',
        "image/png' onerror='alert(1)",
        "text/html",
        "IMAGE/PNG",
    ],
)
def test_a_hostile_type_is_escaped_and_never_a_type_of_the_notebooks(kind: str) -> None:
    shown = result(image(kind=kind))._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    assert "<script" not in shown["text/html"]
    assert shown["text/html"].count('"') == 4
    assert "'" not in shown["text/html"]


def test_the_type_of_an_image_is_safe_to_show_and_bounded() -> None:
    (found,) = result(image(kind="image/png\x1b[31m\u202e\x00" + "x" * 100)).images
    assert found.mime_type == "image/png" + "x" * 54 + "…"


def test_text_beside_images_is_escaped() -> None:
    shown = result(text("<b>a & b</b>\x1b[0m"), image(b"1"), image(b"2"))._repr_mimebundle_()
    assert shown["text/html"] == (
        "<pre>&lt;b&gt;a &amp; b&lt;/b&gt;</pre>"
        '<img src="data:image/png;base64,MQ==" style="max-width:100%">'
        '<img src="data:image/png;base64,Mg==" style="max-width:100%">'
    )
    assert shown["text/plain"].startswith("<ToolResult '<b>a & b</b>")


def test_several_images_without_text_are_shown_one_after_the_other() -> None:
    shown = result(image(b"1"), image(b"2"))._repr_mimebundle_()
    assert shown["text/html"].startswith("<img ")
    assert shown["text/html"].count("<img ") == 2


def test_results_are_values() -> None:
    assert result(text("a")) == result(text("a"))
    assert Image(b"1", "image/png") == Image(b"1", "image/png")
    with pytest.raises(AttributeError):
        result(text("a")).structured = 1  # type: ignore[misc]
