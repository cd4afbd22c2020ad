"""A browser's guard: the process that starts it, and ends it with the process it was started for.

Knows processes, one pipe and one folder. Does not know the rest of the package: it is run as a
program of its own, from the standard library alone, so that it starts at once.

A kernel may be killed without a word, and what it had started would live on. The guard's standard
input is a pipe from the kernel. However the kernel ends, the pipe ends, and with it the browser,
all its processes and its folder. On standard output the guard writes one line of JSON:

* ``{"pid": 4321, "address": "ws://..."}`` once the browser listens for debuggers, or
* ``{"said": ["..."]}`` if it has ended before, with the last lines that it wrote.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import IO

QUIT_SECONDS = 5.0
"""How long the browser may take to end by itself once it is asked to."""

REST_SECONDS = 2.0
"""How long what the browser had started may take to end after it."""

KEPT_LINES = 12

LISTENING = b"DevTools listening on "


def main(folder: str, *command: str) -> None:
    """Run a browser until it ends, or until whoever runs this is through with it.

    Args:
        folder: Is removed at the end.
        command: Starts the browser.
    """
    said: deque[str] = deque(maxlen=KEPT_LINES)
    # Also lets the browser hear of them, were they ignored by whoever started all this.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit())
    try:
        _run(folder, command, said)
    finally:
        remove_folder(folder)
        _report(said=list(said))


def _run(folder: str, command: tuple[str, ...], said: deque[str]) -> None:
    try:
        browser = _start(folder, command)
    except OSError as problem:
        said.append(str(problem))
        return
    _in_background(_end_when_told, browser)
    listening = _in_background(_listen, browser, said)
    try:
        browser.wait()
    finally:
        _end(browser)
        kill_group(browser.pid)
        _await_rest()
        listening.join(REST_SECONDS)


def _start(folder: str, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if sys.platform == "linux":
        # Otherwise Chromium leaves something behind in the one that all programs share.
        environment["TMPDIR"] = folder
        _adopt_orphans()
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        process_group=0,
    )


def _adopt_orphans() -> None:
    """Become the parent of what the browser's processes leave, and so learn when that has ended."""
    import ctypes

    set_child_subreaper = 36
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _in_background(function: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=args, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def _listen(browser: subprocess.Popen[bytes], said: deque[str]) -> None:
    """Read all that the browser writes, which it could otherwise not go on to do."""
    assert browser.stderr is not None
    stream: IO[bytes] = browser.stderr
    for line in stream:
        if line.startswith(LISTENING):
            address = line.removeprefix(LISTENING).decode("ascii", "replace").strip()
            _report(pid=browser.pid, address=address)
        said.append(line.decode(errors="replace").strip())


def _report(**what: object) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(1, json.dumps(what).encode() + b"\n")


def _end_when_told(browser: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        os.read(0, 1)
    else:
        import select

        # Processes that were forked from our parent keep the pipe open beyond its end.
        parent = os.getppid()
        while not select.select([0], [], [], 1.0)[0] and os.getppid() == parent:
            pass
    _end(browser)


def _end(browser: subprocess.Popen[bytes]) -> None:
    # At SIGTERM Chromium drops what it has not written yet, such as the last half minute's cookies.
    browser.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGINT)
    try:
        browser.wait(QUIT_SECONDS)
    except subprocess.TimeoutExpired:
        browser.kill()


def kill_group(pid: int) -> None:
    """Kill what is left of the process group that a process was the first of."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _await_rest() -> None:
    if sys.platform == "win32":
        return
    give_up_at = time.monotonic() + REST_SECONDS
    while time.monotonic() < give_up_at:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(0.01)


def remove_folder(folder: str) -> None:
    """Remove a folder and what is in it, even if something is written to it for a moment yet."""
    give_up_at = time.monotonic() + REST_SECONDS
    while os.path.lexists(folder) and time.monotonic() < give_up_at:
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(folder):
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
