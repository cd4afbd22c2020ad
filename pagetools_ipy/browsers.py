"""The person's browser: found, started and ended.

Knows its program, process and profile. Does not know the protocol it is steered with, or pages.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import browser_guard
from .browser_guard import kill_group, remove_folder
from .endpoints import Endpoint, parse_endpoint
from .errors import BrowserError
from .text import brief, listing, shorten

CHOICE = "PAGETOOLS_BROWSER"
"""Environment variable that says which browser to use."""

LAUNCH_SECONDS = 30.0
"""How long a browser may take to listen."""

END_SECONDS = browser_guard.QUIT_SECONDS + 3 * browser_guard.REST_SECONDS
"""How long its guard may take to end it."""

_VERSION_SECONDS = 20.0

_NAMES = (
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "/snap/bin/chromium",
    "chromium-browser",
    "microsoft-edge",
    "microsoft-edge-stable",
    "brave-browser",
    "google-chrome-beta",
    "google-chrome-unstable",
    "microsoft-edge-beta",
    "microsoft-edge-dev",
)
_MACOS = (
    "Google Chrome",
    "Chromium",
    "Microsoft Edge",
    "Brave Browser",
    "Google Chrome Beta",
    "Google Chrome Canary",
)
_WINDOWS = (
    "Google/Chrome/Application/chrome.exe",
    "Chromium/Application/chrome.exe",
    "Microsoft/Edge/Application/msedge.exe",
    "BraveSoftware/Brave-Browser/Application/brave.exe",
    "Google/Chrome Beta/Application/chrome.exe",
    "Google/Chrome SxS/Application/chrome.exe",
)

_FEATURES = "WebMCPTesting,WebMCP"
_ENABLE = "--enable-features="
_SWITCHES = (
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-crash-restore-bubble",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A profile that is kept is left as readable to the person's own browser as it was.
_TEMPORARY_SWITCHES = ("--password-store=basic", "--use-mock-keychain")

_PREFIX = "pagetools-browser-"
_LONGEST_PARENT = 35
"""Up to here a socket of Chromium's, in a folder of its own within ours, has a path short enough
for an address; with a longer one Chromium does not start."""

_LOG_PREFIX = re.compile(r"^\[[^]]*\] *")


def find_browser() -> str:
    """Path of a browser that runs: the one `PAGETOOLS_BROWSER` names, or else the first found.

    Raises:
        BrowserError: If there is none.
    """
    if asked := os.environ.get(CHOICE):
        program = shutil.which(os.path.expanduser(asked))
        if program is None or not _runs(program):
            raise BrowserError(
                f"{CHOICE} is {brief(asked)}, which does not run; set it to the path of Chrome, "
                "Chromium or Edge, or unset it"
            )
        return program
    home = Path(os.path.expanduser("~"))
    broken = []
    for program in installed_browsers(sys.platform, home, os.environ):
        if _runs(program):
            return program
        broken.append(program)
    there = f" ({listing(broken)}: there, but it does not run)" if broken else ""
    raise BrowserError(
        f"no browser found{there}; install Google Chrome, Chromium or Microsoft Edge, or set "
        f"{CHOICE} to the path of one"
    )


def installed_browsers(platform: str, home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Paths of the browsers that are where browsers usually are, best first."""
    if platform == "win32":
        names = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
        roots = [environ[name] for name in names if environ.get(name)]
        places = [Path(root, name) for name in _WINDOWS for root in roots]
        yield from (str(path) for path in places if path.is_file())
        return
    if platform == "darwin":
        for name in _MACOS:
            for root in (Path("/Applications"), home / "Applications"):
                path = root / f"{name}.app" / "Contents" / "MacOS" / name
                if path.is_file():
                    yield str(path)
    yield from filter(None, (shutil.which(name, path=environ.get("PATH")) for name in _NAMES))


def _runs(program: str) -> bool:
    # Ubuntu's chromium-browser is a stub that asks for snap: being there is not enough.
    if sys.platform == "win32":
        return True  # where asking for the version opens a window
    try:
        shown = subprocess.run(
            [program, "--version"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return shown.returncode == 0 and bool(shown.stdout.strip())


@dataclass(frozen=True, eq=False)
class LaunchedBrowser:
    """A browser that was started from here, and ends with this process at the latest.

    Attributes:
        endpoint: Its debugging port.
        pid: Its process.
        profile: Folder of its profile.
        headless: Whether it shows no window.
    """

    endpoint: Endpoint
    pid: int
    profile: Path
    headless: bool
    _guard: _Guard = field(repr=False)

    @classmethod
    async def launch(
        cls,
        *,
        headless: bool | None = None,
        profile: Path | None = None,
        args: Sequence[str] = (),
    ) -> LaunchedBrowser:
        """Start a browser with one empty page.

        Args:
            headless: Whether it shows no window; None means where there is no display.
            profile: Folder of a profile to use and keep, made if it is not there; None makes one
                that goes with the browser.
            args: Switches to start it with besides our own.

        Raises:
            BrowserError: If there is no browser, it does not start, or the profile is in use.
        """
        program = await asyncio.to_thread(find_browser)
        kept = None if profile is None else _claim(profile)
        is_headless = not _has_display() if headless is None else headless
        folder = _new_folder(program)
        own = kept or folder / "profile"
        switches = _switches(own, is_temporary=not kept, headless=is_headless, args=args)
        guard = _Guard(folder, [program, *switches, "about:blank"])
        report = await guard.report(LAUNCH_SECONDS)
        if report["is_late"] or "address" not in report:
            raise BrowserError(_why_not(program, report, kept))
        (endpoint,) = parse_endpoint(report["address"])
        return cls(endpoint, report["pid"], own, is_headless, guard)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet, by itself or otherwise."""
        return self._guard.is_running

    async def close(self) -> None:
        """End it; its processes, and its profile unless it is to be kept, are gone then."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """The same for code that cannot await. Idempotent, and from any thread."""
        self._guard.end(self.pid)


class _Guard:
    """The process that runs a browser and cleans up after it; see `browser_guard`.

    Args:
        folder: Goes when the browser ends.
        command: Starts the browser.

    Raises:
        BrowserError: If it cannot be started.
    """

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self._folder = str(folder)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", browser_guard.__file__, self._folder, *command],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # An interrupt is for the cell that runs, not for the browser.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as problem:
            remove_folder(self._folder)
            raise BrowserError(f"cannot start a process for the browser: {problem}") from None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def report(self, seconds: float) -> dict[str, Any]:
        """What it has to say, once; ``is_late`` if it had to be told to end before it said it.

        If this is cancelled, it is told to end as well.
        """
        heard: concurrent.futures.Future[bytes] = concurrent.futures.Future()
        # No thread of a pool: those are waited for when Python ends.
        threading.Thread(target=self._hear, args=(heard,), daemon=True).start()
        waiting = asyncio.wrap_future(heard)
        is_late = True
        try:
            await asyncio.wait({waiting}, timeout=seconds)
            is_late = not waiting.done()
        finally:
            if is_late:
                await asyncio.to_thread(self.end)
        report = _read(await waiting) | {"is_late": is_late}
        if "address" not in report:
            await asyncio.to_thread(self.end)
        return report

    def _hear(self, heard: concurrent.futures.Future[bytes]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            line = stdout.readline()
        with suppress(concurrent.futures.InvalidStateError):  # the wait was cancelled
            heard.set_result(line)

    def end(self, pid: int | None = None) -> None:
        """Have it end the browser, and wait until that is done; see to it if the guard does not.

        Args:
            pid: The browser's process, if known.
        """
        assert self._process.stdin is not None
        with suppress(OSError, ValueError), self._process.stdin as stdin:
            stdin.write(b"\n")
        try:
            is_done = self._process.wait(END_SECONDS) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            is_done = False
        if not is_done:
            if pid is not None:
                kill_group(pid)
            remove_folder(self._folder)


def _switches(
    profile: Path, *, is_temporary: bool, headless: bool, args: Sequence[str]
) -> Iterator[str]:
    yield from _SWITCHES
    yield f"--user-data-dir={profile}"
    # Of several such switches a browser heeds the last one only.
    asked = [arg.removeprefix(_ENABLE) for arg in args if arg.startswith(_ENABLE)]
    yield _ENABLE + ",".join([_FEATURES, *asked])
    if is_temporary:
        yield from _TEMPORARY_SWITCHES
    if headless:
        yield "--headless=new"
    if sys.platform == "linux" and os.geteuid() == 0:
        yield "--no-sandbox"  # with which it refuses to start for root
    yield from (arg for arg in args if not arg.startswith(_ENABLE))


def _has_display() -> bool:
    if sys.platform != "linux":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _new_folder(program: str) -> Path:
    """Make a folder that only this person, and the browser, can read."""
    parent = Path(tempfile.gettempdir())
    if Path(program).parts[:2] == (os.sep, "snap"):
        # A snap sees another /tmp than we do.
        shared = Path.home() / "snap" / Path(program).name / "common"
        parent = shared if shared.is_dir() else parent
    elif sys.platform == "linux" and len(str(parent)) > _LONGEST_PARENT:
        parent = Path("/tmp")
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))


def _claim(profile: Path) -> Path:
    """Make the folder of a profile to be kept, unless it is there.

    Raises:
        BrowserError: If it cannot be made, or a browser uses it.
    """
    profile = profile.expanduser().absolute()
    try:
        profile.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise BrowserError(
            f"cannot use {shorten(str(profile))} as a profile: {problem.strerror}; expected a "
            "folder, or a path at which one can be made"
        ) from None
    if _is_in_use(profile):
        raise BrowserError(_in_use(profile))
    return profile


def _in_use(profile: Path) -> str:
    shown = shorten(str(profile))
    return (
        f"a browser that is running uses the profile {shown}; close it or choose another folder, "
        f"or, if it has a debugging port, `%pagetools attach {shown}`"
    )


def _is_in_use(profile: Path) -> bool:
    """Whether a browser answers at the profile's socket; a lock alone may be a dead browser's."""
    if sys.platform == "win32":
        return False  # the browser finds out
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(os.readlink(profile / "SingletonSocket"))
        return True
    return False


def _read(line: bytes) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(line)
    except ValueError:
        report = {"said": []}  # it was killed
    return report


def _why_not(program: str, report: Mapping[str, Any], kept: Path | None) -> str:
    """Why a browser did not start, as far as it can be told."""
    if kept is not None and _is_in_use(kept):
        return _in_use(kept)  # by one that was started meanwhile
    problem = "ended at once"
    if report["is_late"]:
        problem = f"did not open its debugging port within {LAUNCH_SECONDS:g} s"
    lines = [_LOG_PREFIX.sub("", line) for line in report.get("said", ())]
    # A desktop's bus is missing in every container, and never the reason.
    told = [line for line in lines if line and "the bus" not in line]
    words = f", saying: {shorten(' / '.join(told), 600)}" if told else ""
    return (
        f"{shorten(program)} {problem}{words}; see whether it starts by hand, or set {CHOICE} to "
        "the path of another browser"
    )
