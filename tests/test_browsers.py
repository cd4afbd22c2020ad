"""`browsers`: which one is taken, how it starts and ends; with programs that stand in for it."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pagetools_ipy import browser_guard, browsers
from pagetools_ipy.browsers import LaunchedBrowser, find_browser, installed_browsers
from pagetools_ipy.errors import BrowserError

from .conftest import eventually

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-ins are shell scripts")

LISTENS = 'echo "DevTools listening on ws://127.0.0.1:9/devtools/browser/1" >&2; exec sleep 100'
NewProgram = Callable[..., Path]


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a browser, and with a folder of its own for temporary files."""
    del tmp_path  # is made where temporary files usually are
    monkeypatch.delenv("PAGETOOLS_BROWSER", raising=False)
    monkeypatch.setattr(browsers, "installed_browsers", lambda *_: iter(()))
    # Not below tmp_path, which is too long for Chromium's socket.
    monkeypatch.setattr(tempfile, "tempdir", tempfile.mkdtemp(dir="/tmp"))
    yield
    assert os.listdir(tempfile.tempdir) == [], "something was left behind"
    os.rmdir(tempfile.tempdir)


@pytest.fixture
def program(tmp_path: Path) -> NewProgram:
    """Writes a program that tells its version, and else does what it is told."""

    def write(name: str, does: str = LISTENS, *, version: str = "echo Chromium 156") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {version}; exit; fi\n{does}\n')
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def browser(program: NewProgram, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a program the person's browser."""

    def choose(does: str) -> Path:
        path = program("browser", does)
        monkeypatch.setenv("PAGETOOLS_BROWSER", str(path))
        return path

    return choose


def launch(**options: object) -> LaunchedBrowser:
    return asyncio.run(LaunchedBrowser.launch(**options))  # type: ignore[arg-type]


def fails(**options: object) -> str:
    with pytest.raises(BrowserError) as caught:
        launch(**options)
    return str(caught.value)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestFinding:
    def test_the_one_that_is_chosen_is_taken(
        self, program: NewProgram, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen = program("my browser")
        monkeypatch.setenv("PAGETOOLS_BROWSER", str(chosen))
        assert find_browser() == str(chosen)

    @pytest.mark.parametrize("version", ["exit 1", "true"])
    def test_a_choice_that_does_not_run_is_told_and_not_replaced(
        self, program: NewProgram, monkeypatch: pytest.MonkeyPatch, version: str
    ) -> None:
        monkeypatch.setattr(browsers, "installed_browsers", lambda *_: iter([program("good")]))
        for choice in (program("bad", version=version), "no-such-program"):
            monkeypatch.setenv("PAGETOOLS_BROWSER", str(choice))
            with pytest.raises(BrowserError, match="PAGETOOLS_BROWSER is .*, which does not run"):
                find_browser()

    def test_a_stub_is_passed_over(
        self, program: NewProgram, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stub = program("chromium-browser", version="echo install the snap >&2; exit 1")
        edge = program("microsoft-edge")
        found = [str(stub), str(edge)]
        monkeypatch.setattr(browsers, "installed_browsers", lambda *_: iter(found))
        assert find_browser() == str(edge)
        found.pop()
        with pytest.raises(BrowserError, match=f"{stub}: there, but it does not run"):
            find_browser()

    def test_without_any_it_says_what_to_install(self) -> None:
        with pytest.raises(BrowserError, match="install Google Chrome, .* PAGETOOLS_BROWSER"):
            find_browser()

    def test_linux_has_them_on_the_path_chrome_before_chromium(
        self, program: NewProgram, tmp_path: Path
    ) -> None:
        chromium, chrome = program("chromium"), program("google-chrome")
        found = list(installed_browsers("linux", tmp_path, {"PATH": str(tmp_path)}))
        assert found[:2] == [str(chrome), str(chromium)]

    def test_macos_has_them_among_the_applications(
        self, program: NewProgram, tmp_path: Path
    ) -> None:
        edge = program("Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge")
        assert str(edge) in installed_browsers("darwin", tmp_path, {"PATH": ""})

    def test_windows_has_them_among_the_programs(self, program: NewProgram, tmp_path: Path) -> None:
        edge = program("x86/Microsoft/Edge/Application/msedge.exe")
        chrome = program("local/Google/Chrome/Application/chrome.exe")
        environ = {
            "PROGRAMFILES(X86)": str(edge.parents[3]),
            "LOCALAPPDATA": str(chrome.parents[3]),
        }
        assert list(installed_browsers("win32", tmp_path, environ)) == [str(chrome), str(edge)]


class TestStarting:
    def test_it_is_there_once_it_listens(self, browser: Callable[[str], Path]) -> None:
        browser(LISTENS)
        launched = launch()
        try:
            assert launched.is_running
            assert is_alive(launched.pid)
            assert launched.endpoint.label == "port 9"
            assert launched.endpoint.path == "/devtools/browser/1"
            assert stat.S_IMODE(launched.profile.parent.stat().st_mode) == 0o700
        finally:
            launched.close_now()
        assert not launched.is_running
        assert not is_alive(launched.pid)

    def test_it_ends_once_however_often_it_is_ended(self, browser: Callable[[str], Path]) -> None:
        browser(LISTENS)

        async def main() -> LaunchedBrowser:
            launched = await LaunchedBrowser.launch()
            await asyncio.gather(launched.close(), launched.close())
            return launched

        launched = asyncio.run(main())
        launched.close_now()
        assert not is_alive(launched.pid)

    def test_one_that_the_person_ends_leaves_nothing_either(
        self, browser: Callable[[str], Path]
    ) -> None:
        browser(LISTENS)
        launched = launch()
        os.kill(launched.pid, 9)
        eventually(lambda: not launched.is_running, "its guard has ended")
        assert not launched.profile.parent.exists()
        launched.close_now()

    def test_what_it_started_ends_with_it(
        self, browser: Callable[[str], Path], tmp_path: Path
    ) -> None:
        browser(f"sleep 100 & echo $! > {tmp_path}/child; {LISTENS}")
        launched = launch()
        child = int((tmp_path / "child").read_text())
        assert is_alive(child)
        launched.close_now()
        assert not is_alive(child)

    @pytest.mark.parametrize("args", [[], ["--enable-features=Mine", "--lang=de"]])
    def test_the_switches_come_along_features_in_one(
        self, browser: Callable[[str], Path], tmp_path: Path, args: list[str]
    ) -> None:
        browser(f'printf "%s\\n" "$@" > {tmp_path}/switches; {LISTENS}')
        launched = launch(args=args, headless=True)
        launched.close_now()
        switches = (tmp_path / "switches").read_text().splitlines()
        features = [switch for switch in switches if switch.startswith("--enable-features=")]
        mine = ",Mine" if args else ""
        assert features == [f"--enable-features=WebMCPTesting,WebMCP{mine}"]
        assert {"--remote-debugging-port=0", "--headless=new", *args[1:]} <= {*switches}
        assert f"--user-data-dir={launched.profile}" in switches
        assert switches[-1] == "about:blank" or switches[-1] in args

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
    @pytest.mark.parametrize("display", ["DISPLAY", "WAYLAND_DISPLAY", ""])
    def test_it_shows_a_window_where_there_is_a_display(
        self, browser: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, display: str
    ) -> None:
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        if display:
            monkeypatch.setenv(display, ":7")
        browser(LISTENS)
        launched = launch()
        launched.close_now()
        assert launched.headless is not bool(display)

    def test_what_it_says_when_it_ends_at_once_is_told(
        self, browser: Callable[[str], Path]
    ) -> None:
        path = browser("echo '[1:2:ERROR:x11.cc(7)] Missing X server' >&2; exit 1")
        problem = fails()
        assert problem.startswith(f"{path} ended at once, saying: Missing X server; ")
        assert "PAGETOOLS_BROWSER" in problem

    def test_a_program_that_cannot_be_run_is_told(
        self, program: NewProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(browsers, "find_browser", lambda: str(tmp_path / "gone"))
        assert "No such file or directory" in fails()

    def test_one_that_never_listens_is_ended(
        self, browser: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(browsers, "LAUNCH_SECONDS", 0.2)
        browser(f"echo $$ > {tmp_path}/pid; echo waiting >&2; exec sleep 100")
        problem = fails()
        assert "did not open its debugging port within 0.2 s, saying: waiting" in problem
        assert not is_alive(int((tmp_path / "pid").read_text()))

    def test_one_whose_start_is_interrupted_is_ended(
        self, browser: Callable[[str], Path], tmp_path: Path
    ) -> None:
        started = tmp_path / "pid"
        browser(f"echo $$ > {started}.new; mv {started}.new {started}; exec sleep 100")

        async def main() -> None:
            launching = asyncio.create_task(LaunchedBrowser.launch())
            await asyncio.to_thread(eventually, started.exists, "it has started")
            launching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await launching

        asyncio.run(main())
        assert not is_alive(int(started.read_text()))

    def test_one_whose_guard_was_killed_is_ended_all_the_same(
        self, browser: Callable[[str], Path]
    ) -> None:
        browser(LISTENS)
        launched = launch()
        launched._guard._process.kill()
        launched._guard._process.wait()
        assert is_alive(launched.pid)
        launched.close_now()
        eventually(lambda: not is_alive(launched.pid) or is_zombie(launched.pid), "it has ended")


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has asked how: where process 1 does not."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.startswith("Z")


class TestKeptProfiles:
    def test_one_is_made_if_missing_and_stays(
        self, browser: Callable[[str], Path], tmp_path: Path
    ) -> None:
        browser(LISTENS)
        profile = tmp_path / "profiles" / "mine"
        launched = launch(profile=profile)
        launched.close_now()
        assert launched.profile == profile
        assert profile.is_dir()

    def test_a_path_that_cannot_be_a_folder_is_told(
        self, browser: Callable[[str], Path], tmp_path: Path
    ) -> None:
        browser(LISTENS)
        (tmp_path / "file").touch()
        problem = fails(profile=tmp_path / "file")
        assert f"cannot use {tmp_path / 'file'} as a profile: File exists; expected a" in problem

    def test_the_lock_of_a_browser_that_died_is_nothing(
        self, browser: Callable[[str], Path], tmp_path: Path
    ) -> None:
        browser(LISTENS)
        (tmp_path / "SingletonLock").symlink_to(f"{os.uname().nodename}-{os.getpid()}")
        (tmp_path / "SingletonSocket").symlink_to(tmp_path / "gone")
        launch(profile=tmp_path).close_now()


class TestTheGuardsLastResorts:
    def test_a_browser_that_does_not_quit_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(browser_guard, "QUIT_SECONDS", 0.05)
        stubborn = subprocess.Popen(
            ["/bin/sh", "-c", "trap '' INT; echo ready; while :; do sleep 100; done"],
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert stubborn.stdout is not None
        with stubborn.stdout as stdout:
            stdout.readline()
        browser_guard._end(stubborn)
        browser_guard.kill_group(stubborn.pid)
        assert stubborn.wait() == -9

    def test_a_folder_that_stays_is_left_after_a_while(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(browser_guard, "REST_SECONDS", 0.1)
        monkeypatch.setattr(browser_guard.shutil, "rmtree", lambda *_, **__: None)
        started = time.monotonic()
        browser_guard.remove_folder(str(tmp_path))
        assert time.monotonic() - started < 2
        assert tmp_path.exists()

    def test_a_long_folder_for_temporary_files_is_not_used(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        long = tmp_path / ("t" * 60)
        long.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(long))
            folder = browsers._new_folder("/usr/bin/chromium")
        folder.rmdir()
        assert folder.parent == (Path("/tmp") if sys.platform == "linux" else long)
