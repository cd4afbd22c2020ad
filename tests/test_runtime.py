"""`runtime`: port and token survive a restart of the kernel, readable by their owner only."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from pagetools_ipy.runtime import Memory, Remembered

TOKEN = "t" * 43


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's runtime directory, which does not exist yet."""
    folder = tmp_path / "run" / "jupyter"
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder))
    return folder


def test_what_is_kept_is_recalled_by_the_next_kernel_of_the_same_key(folder: Path) -> None:
    Memory("kernel-1").keep(Remembered(9321, TOKEN))
    assert Memory("kernel-1").recall() == Remembered(9321, TOKEN)
    assert Memory("kernel-1").path == folder / "pagetools-kernel-1.json"


def test_each_key_has_a_memory_of_its_own(folder: Path) -> None:
    Memory("kernel-1").keep(Remembered(9321, TOKEN))
    other = Memory("kernel-2").recall()
    assert other.port is None
    assert other.token != TOKEN


def test_keeping_again_replaces_what_was_kept(folder: Path) -> None:
    memory = Memory("k")
    memory.keep(Remembered(9321, TOKEN))
    memory.keep(Remembered(9322, "u" * 43))
    assert memory.recall() == Remembered(9322, "u" * 43)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_only_the_owner_can_read_the_file(folder: Path) -> None:
    memory = Memory("k")
    memory.keep(Remembered(9321, TOKEN))
    assert memory.path is not None
    assert stat.S_IMODE(memory.path.stat().st_mode) == 0o600


def test_what_is_forgotten_is_gone(folder: Path) -> None:
    memory = Memory("k")
    memory.keep(Remembered(9321, TOKEN))
    memory.forget()
    memory.forget()
    assert list(folder.iterdir()) == []
    assert memory.recall().port is None


def test_what_kernels_left_that_will_not_come_back_is_removed(folder: Path) -> None:
    """A kernel that can be restarted has its connection file beside it."""
    folder.mkdir(parents=True)
    for name in ("kernel-alive.json", "pagetools-other.txt", "other.json"):
        (folder / name).write_text("{}")
    for key in ("kernel-alive", "kernel-gone"):
        Memory(key).keep(Remembered(9321, TOKEN))
    Memory("kernel-new").keep(Remembered(9322, TOKEN))
    assert sorted(path.name for path in folder.iterdir()) == [
        "kernel-alive.json",
        "other.json",
        "pagetools-kernel-alive.json",
        "pagetools-kernel-new.json",
        "pagetools-other.txt",
    ]


def test_what_cannot_be_removed_does_not_keep_anything_from_being_kept(folder: Path) -> None:
    (folder / "pagetools-stuck.json").mkdir(parents=True)
    Memory("k").keep(Remembered(9321, TOKEN))
    assert Memory("k").recall() == Remembered(9321, TOKEN)


def test_without_a_file_there_is_a_new_token_each_time(folder: Path) -> None:
    first, second = Memory("k").recall(), Memory("k").recall()
    assert first.port is second.port is None
    assert first.token != second.token
    assert len(first.token) == 43  # 256 bits
    assert not folder.exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"x"',
        "{}",
        json.dumps({"port": 9321}),
        json.dumps({"token": TOKEN}),
        json.dumps({"port": None, "token": TOKEN}),
        json.dumps({"port": "9321", "token": TOKEN}),
        json.dumps({"port": 9321, "token": None}),
        json.dumps({"port": 9321, "token": "short"}),
        json.dumps({"port": 9321, "token": ["t"] * 43}),
        "\x00\x01",
    ],
)
def test_a_damaged_file_counts_as_none(folder: Path, content: str) -> None:
    memory = Memory("k")
    assert memory.path is not None
    folder.mkdir(parents=True)
    memory.path.write_text(content)
    found = memory.recall()
    assert found.port is None
    assert len(found.token) == 43


def test_a_file_that_is_no_text_counts_as_none(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "pagetools-k.json").write_bytes(b"\xff\xfe\x80")
    assert Memory("k").recall().port is None


def test_where_nothing_can_be_read_or_written_there_is_no_memory(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "pagetools-k.json").mkdir()
    memory = Memory("k")
    memory.keep(Remembered(9321, TOKEN))
    assert memory.recall().port is None


def test_where_there_can_be_no_folder_there_is_no_memory(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file in its place")
    memory = Memory("k")
    memory.keep(Remembered(9321, TOKEN))
    assert memory.recall().port is None


def test_without_a_key_nothing_is_kept(folder: Path) -> None:
    memory = Memory(None)
    assert memory.path is None
    memory.keep(Remembered(9321, TOKEN))
    memory.forget()
    assert memory.recall().port is None
    assert not folder.exists()


def test_the_token_stays_out_of_logs() -> None:
    assert repr(Remembered(9321, TOKEN)) == "Remembered(port=9321)"
    assert TOKEN not in f"{Remembered(9321, TOKEN)} {[Remembered(None, TOKEN)]}"
