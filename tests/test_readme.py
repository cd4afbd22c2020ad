"""The README's tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pagetools_ipy import errors, limits, messages, verbs
from pagetools_ipy.presence import SUPERSEDED
from pagetools_ipy.transports import websocket

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def rows(head: str) -> list[list[str]]:
    """Cells of the table whose first line begins with ``| head``."""
    start = README.index(f"| {head} ")
    table = README[start:].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table[2:]]


def test_every_verb_is_in_the_readme_and_in_the_help() -> None:
    listed = [re.match(r"`%pagetools (\w+)", row[0]) for row in rows("verb")]
    assert [match[1] for match in listed if match] == list(verbs.VERBS)
    assert re.findall(r"^%pagetools (\w+)", verbs.HELP, re.MULTILINE) == list(verbs.VERBS)


def test_every_error_is_in_the_readme_with_its_code_and_attributes() -> None:
    listed = {
        row[0].strip("`"): (row[1].strip("`"), row[3].strip("`").split()) for row in rows("error")
    }
    assert set(listed) == set(errors.__all__) - {"PageToolsError"}
    for name, (code, attributes) in listed.items():
        cls = getattr(errors, name)
        assert cls.code == code
        documented = "".join(c.__doc__ or "" for c in cls.__mro__[:3])
        for attribute in attributes:
            assert hasattr(cls, attribute) or f"{attribute}:" in documented, (name, attribute)


def test_every_message_is_in_the_readme_with_its_fields() -> None:
    pages = {row[0].strip("`* "): row[1] for row in rows("page → bridge")}
    bridges = {row[0].strip("`* "): row[1] for row in rows("bridge → page")}
    assert set(pages) == set(messages.PAGE_MESSAGES)
    for name, message in messages.PAGE_MESSAGES.items():
        assert_fields(message, pages[name])
    assert set(bridges) == {m.__struct_config__.tag for m in messages.BRIDGE_MESSAGES}
    for message in messages.BRIDGE_MESSAGES:
        assert_fields(message, bridges[str(message.__struct_config__.tag)])


def assert_fields(message: type[msgspec.Struct], text: str) -> None:
    for field in message.__struct_encode_fields__:
        assert re.search(rf"`{field}\b", text), (message, field)


def test_every_limit_is_in_the_readme_with_its_value() -> None:
    listed = {row[0].strip("`"): int(row[1]) for row in rows("limit")}
    assert listed == {
        name: value for name, value in vars(limits).items() if name.startswith("MAX_")
    }


def test_the_close_codes_are_those_of_the_code() -> None:
    listed = {int(row[0]) for row in rows("close code")}
    assert listed == {websocket.BAD_TOKEN, websocket.BAD_ORIGIN, SUPERSEDED, websocket.FLOOD}


def test_the_pictures_exist() -> None:
    pictures = re.findall(r'!\[[^]]*]\(([^)]+)\)|(?:src|srcset)="(docs/[^"]+)"', README)
    assert len(pictures) >= 4
    for path in (markdown or html for markdown, html in pictures):
        assert (Path(__file__).parent.parent / path).is_file()
