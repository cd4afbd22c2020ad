"""A Chromium driven over the bare DevTools protocol: real focus, real visibility, real page cache.

Knows the browser's process and the protocol's envelope. Does not know what is tested. Playwright
would be in the way: it fakes the focus of every page, keeps every page visible and switches the
back/forward cache off.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from .browser import LAUNCH_ARGS, BrowserNotFoundError, find_browser

DEADLINE = 10.0
"""Seconds within which the browser answers a command."""

ATTEMPT = 1.0
LAUNCH_DEADLINE = 60.0
QUIT_DEADLINE = 10.0
LISTENING = b"DevTools listening on "


class ProtocolError(Exception):
    """The browser refused a command or did not answer it, or the target it was for has gone."""


class Chromium:
    """The browser: its targets, and commands for itself and for them.

    Attributes:
        path: The program that runs.
        address: Where it listens, ``ws://`` and so on.
    """

    def __init__(self, path: str, socket: ClientConnection, address: str = "") -> None:
        self.path = path
        self.address = address
        self._socket = socket
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def send(self, method: str, *, session: str | None = None, **params: Any) -> Any:
        """Send a command and return what it gave.

        Raises:
            ProtocolError: The browser refused it, or did not answer in time.
        """
        number = next(self._ids)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        command = {"id": number, "method": method, "params": params}
        try:
            await self._socket.send(
                json.dumps(command | ({"sessionId": session} if session else {}))
            )
            async with asyncio.timeout(DEADLINE):
                answer = await reply
        finally:
            del self._replies[number]
        if "error" in answer:
            raise ProtocolError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    async def listen(self) -> None:
        """Hand out answers until the browser goes away."""
        with suppress(ConnectionClosed):
            async for text in self._socket:
                message = json.loads(text)
                reply = self._replies.get(message.get("id"))
                if reply is not None and not reply.done():
                    reply.set_result(message)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(ProtocolError("the browser went away"))

    async def open(self, url: str = "about:blank", *, new_window: bool = False) -> Page:
        """Open a tab in front of the others of the last used window, or in a window of its own."""
        return await self.attach(await self.open_unwatched(url, new_window=new_window))

    async def open_unwatched(self, url: str = "about:blank", *, new_window: bool = False) -> str:
        """The same without a session of its own: what a debugger sees, Chromium does not prerender.

        Returns:
            The target's id.
        """
        created = await self.send("Target.createTarget", url=url, newWindow=new_window)
        return created["targetId"]

    async def attach(self, target_id: str) -> Page:
        """Open a session with a target."""
        attached = await self.send("Target.attachToTarget", targetId=target_id, flatten=True)
        return Page(self, target_id, attached["sessionId"])

    async def targets(self, kind: str = "page") -> dict[str, str]:
        """URL of each target of one kind, by target id."""
        found = (await self.send("Target.getTargets"))["targetInfos"]
        return {target["targetId"]: target["url"] for target in found if target["type"] == kind}

    async def close_all(self) -> None:
        """Close every tab but a new empty one, without which the browser would end."""
        old = await self.targets()
        await self.open_unwatched()
        for target_id in old:
            with suppress(ProtocolError):  # it closed by itself
                await self.send("Target.closeTarget", targetId=target_id)


class Page:
    """One target with a session; the session outlives the documents in it."""

    def __init__(self, browser: Chromium, target_id: str, session: str) -> None:
        self.browser = browser
        self.target_id = target_id
        self._session = session

    async def send(self, method: str, **params: Any) -> Any:
        """Send this target a command; raises as `Chromium.send`."""
        return await self.browser.send(method, session=self._session, **params)

    async def evaluate(self, expression: str) -> Any:
        """Evaluate JavaScript as if a person had just clicked; a promise is awaited.

        Raises:
            ProtocolError: It threw; or the document went away meanwhile.
        """
        given = await self.send(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if problem := given.get("exceptionDetails"):
            thrown = problem.get("exception", {}).get("description", problem["text"])
            raise ProtocolError(f"{expression}: {thrown}")
        return given["result"].get("value")

    async def until(self, expression: str, seconds: float = DEADLINE) -> Any:
        """Evaluate again and again until the value is truthy, through loads and reloads.

        Raises:
            AssertionError: It did not become truthy in time.
        """
        give_up_at = time.monotonic() + seconds
        seen: object = None
        while time.monotonic() < give_up_at:
            try:
                # What is asked of a document that is just leaving may never be answered.
                async with asyncio.timeout(ATTEMPT):
                    if value := await self.evaluate(expression):
                        return value
                seen = value
            except (ProtocolError, TimeoutError) as problem:
                seen = repr(problem)
            await asyncio.sleep(0.01)
        raise AssertionError(f"not within {seconds:g} s: {expression}; at last: {seen}")

    async def activate(self) -> None:
        """Bring the tab to the front of its window."""
        await self.browser.send("Target.activateTarget", targetId=self.target_id)

    async def set_window(self, state: str) -> None:
        """Make its window ``normal``, ``minimized`` or ``maximized``."""
        window = await self.browser.send("Browser.getWindowForTarget", targetId=self.target_id)
        await self.browser.send(
            "Browser.setWindowBounds", windowId=window["windowId"], bounds={"windowState": state}
        )

    async def click(self, x: float, y: float) -> None:
        """Press and release the mouse there."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def go(self, steps: int) -> None:
        """Go back (negative) or forward in the tab's history."""
        history = await self.send("Page.getNavigationHistory")
        entry = history["entries"][history["currentIndex"] + steps]
        await self.send("Page.navigateToHistoryEntry", entryId=entry["id"])

    async def crash(self) -> None:
        """Kill the process that renders it. The command is never answered."""
        with suppress(TimeoutError, ProtocolError):
            async with asyncio.timeout(0.2):
                await self.send("Page.crash")

    async def close(self) -> None:
        await self.browser.send("Target.closeTarget", targetId=self.target_id)


@asynccontextmanager
async def chromium(*args: str) -> AsyncIterator[Chromium]:
    """A headless browser with a profile of its own; both are gone at the end.

    Args:
        args: Command line switches beside `LAUNCH_ARGS`.

    Raises:
        BrowserNotFoundError: There is none, or it does not start.
    """
    path = find_browser()
    if path is None:
        raise BrowserNotFoundError("No browser found. Run: python tests/browser.py")
    with tempfile.TemporaryDirectory(prefix="pagetools-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            path,
            *LAUNCH_ARGS,
            "--headless=new",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            *args,
            "about:blank",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            address = await _address(process)
            assert process.stderr is not None
            drain = asyncio.create_task(process.stderr.read())  # a full pipe would stop the browser
            async with connect(address, max_size=None, ping_interval=None) as socket:
                browser = Chromium(path, socket, address)
                listening = asyncio.create_task(browser.listen())
                try:
                    yield browser
                finally:
                    with suppress(ProtocolError, ConnectionClosed):
                        await browser.send("Browser.close")
            await listening
            await drain
        finally:
            await _end(process)


async def _address(process: asyncio.subprocess.Process) -> str:
    """The WebSocket address that the browser prints once it listens."""
    said: list[bytes] = []
    assert process.stderr is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(LAUNCH_DEADLINE):
            async for line in process.stderr:
                if line.startswith(LISTENING):
                    return line.removeprefix(LISTENING).decode().strip()
                said.append(line)
    raise BrowserNotFoundError(f"It does not start: {b''.join(said[-5:]).decode(errors='replace')}")


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(QUIT_DEADLINE):
            await process.wait()
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
        await process.wait()
