"""A Chromium for the browser tests and the demo: found on this machine, or else installed.

Only `ensure_browser` installs anything: the browser, and on a bare Debian the one library without
which Playwright cannot start to drive it. As a program it prints the path of the browser, and
nothing else, on standard output. The path is kept nowhere: finding it again is quick.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from playwright import async_api, sync_api

NAMES = (
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "chromium-browser",
    "microsoft-edge",
    "microsoft-edge-stable",
)
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
APT_INSTALL = ["apt-get", "install", "-y"]

LAUNCH_ARGS = [
    # Chromium's sandbox refuses to start for root; for everybody else it stays on.
    *(["--no-sandbox"] if IS_ROOT else []),
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


class BrowserNotFoundError(RuntimeError):
    """No browser that runs; the message says what was tried and what a person can do."""


def find_browser() -> str | None:
    """Return the path of a browser that runs, or None. Never installs.

    Raises:
        BrowserNotFoundError: `PAGETOOLS_BROWSER` is set and does not run: a choice that somebody
            made is not replaced by another browser without a word.
    """
    asked = os.environ.get("PAGETOOLS_BROWSER")
    if asked:
        path = shutil.which(asked)
        if path is None or not _runs(path):
            raise BrowserNotFoundError(f"PAGETOOLS_BROWSER is {asked!r}, which does not run.")
        return path
    return next((path for path in _candidates() if _runs(path)), None)


def ensure_browser() -> str:
    """Return the path of a browser that runs, installing what is missing.

    Raises:
        BrowserNotFoundError: there is none and no way of installing one worked, or Playwright
            does not run here.
    """
    _ensure_driver()
    if path := find_browser():
        return path
    report = [
        "No browser found. Install Google Chrome or Chromium, or set PAGETOOLS_BROWSER to its path."
    ]
    for intent, command in _installers():
        failure = _install(intent, command)
        if path := find_browser():
            return path
        report.append(f"  {intent}: {failure or 'what it installed does not run'}")
    raise BrowserNotFoundError("\n".join(report))


@overload
def launch(playwright: sync_api.Playwright, **options: Any) -> sync_api.Browser: ...
@overload
def launch(
    playwright: async_api.Playwright, **options: Any
) -> Coroutine[Any, Any, async_api.Browser]: ...
def launch(playwright: sync_api.Playwright | async_api.Playwright, **options: Any) -> Any:
    """Launch a headless browser with `LAUNCH_ARGS`; `options` go to Playwright, `args` are added.

    Raises:
        BrowserNotFoundError: there is no browser; nothing is installed here, as a test run must
            not change the machine behind a person's back.
    """
    path = find_browser()
    if path is None:
        raise BrowserNotFoundError("No browser found. Run: python tests/browser.py")
    args = [*LAUNCH_ARGS, *options.pop("args", [])]
    options = {"headless": True, "executable_path": path, **options}
    return playwright.chromium.launch(args=args, **options)


def _candidates() -> Iterator[str]:
    yield from filter(None, map(shutil.which, NAMES))
    if _driver() is None:
        return
    # A process of its own: Playwright's sync API refuses to start inside a running event loop.
    script = (
        "from playwright.sync_api import sync_playwright\n"
        "with sync_playwright() as playwright: print(playwright.chromium.executable_path)"
    )
    command = [sys.executable, "-c", script]
    own = subprocess.run(command, check=False, capture_output=True, encoding="utf-8")
    yield from filter(os.path.exists, own.stdout.splitlines())


def _runs(path: str) -> bool:
    # Ubuntu's chromium-browser is a stub that asks for snap: being there is not enough.
    try:
        shown = subprocess.run([path, "--version"], check=False, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return shown.returncode == 0 and bool(shown.stdout.strip())


def _driver() -> Path | None:
    """The node that Playwright brings along, and without which it does nothing."""
    spec = importlib.util.find_spec("playwright")
    return Path(spec.origin).parent / "driver/node" if spec and spec.origin else None


def _ensure_driver() -> None:
    driver = _driver()
    if driver is None or not driver.exists() or _runs(str(driver)):
        return
    if _can_apt():
        _install("installing libatomic1 with apt-get, for Playwright", [*APT_INSTALL, "libatomic1"])
    if not _runs(str(driver)):
        raise BrowserNotFoundError(f"Playwright's {driver} does not run. Is libatomic1 installed?")


def _can_apt() -> bool:
    return IS_ROOT and shutil.which("apt-get") is not None


def _installers() -> Iterator[tuple[str, list[str]]]:
    if _can_apt():
        yield "installing Chromium with apt-get", [*APT_INSTALL, "chromium"]
    if _driver() is not None:
        flags = ["--with-deps"] if IS_ROOT else []
        install = [sys.executable, "-m", "playwright", "install", *flags, "chromium"]
        yield "downloading Playwright's Chromium", install


def _install(intent: str, command: list[str]) -> str | None:
    """Say `intent` and run `command`; if it fails, return the last line that it said."""
    print(f"browser: {intent}", file=sys.stderr)
    if command[0] == "apt-get":
        # A failure here says nothing yet: an old list may still know the package.
        _run(["apt-get", "update"])
    done = _run(command)
    if done.returncode == 0:
        return None
    said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return said[-1] if said else f"exit status {done.returncode}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )


if __name__ == "__main__":
    try:
        print(ensure_browser())
    except BrowserNotFoundError as error:
        sys.exit(f"browser: {error}")
