"""Steers one tab through its browser's debugging port.

Knows the commands and what can go wrong with them. Does not know tools.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from contextlib import suppress

from ..devtools import FOREVER, CommandError, DevTools, Json
from ..errors import BrowserError
from ..host import ThreadHost
from ..results import Image
from ..text import shorten
from .cdp_target import HELD, Target

SCREENSHOT_SECONDS = 15.0
VISIBLE_SECONDS = 1.0
LOOK_SECONDS = 0.2
"""How often to look whether a dialog holds a page that is being loaded."""
PROBE_SECONDS = 5.0


class TargetControl:
    """Steers a tab; see `PageControl`.

    Args:
        host: The thread that talks to the browser.
        devtools: The browser.
        target: The tab.
        pages: Gives all tabs of the browser.
    """

    def __init__(
        self,
        host: ThreadHost,
        devtools: DevTools,
        target: Target,
        pages: Callable[[], list[Target]],
    ) -> None:
        self._pages = pages
        self._host = host
        self._devtools = devtools
        self._target = target

    @property
    def tab_id(self) -> str:
        """Our identifier of the tab."""
        return self._target.tab.id

    async def navigate(self, url: str, timeout: float | None) -> None:
        """See `PageControl.navigate`."""
        await self._host.relay(self._loading(url, "Page.navigate", {"url": url}, timeout))

    async def reload(self, timeout: float | None) -> None:
        """See `PageControl.reload`."""
        await self._host.relay(self._loading("the page", "Page.reload", {}, timeout))

    async def _loading(self, what: str, method: str, params: Json, timeout: float | None) -> None:
        load = self._target.loading.expect()
        try:
            async with asyncio.timeout(timeout):
                reply = await self._send(method, params, timeout)
                if problem := reply.get("errorText"):
                    raise BrowserError(problem)
                if method == "Page.reload" or "loaderId" in reply:
                    await self._until(load)
        except BrowserError as problem:
            raise BrowserError(f"{shorten(what, 200)} could not be loaded: {problem}") from None
        except TimeoutError:
            raise BrowserError(
                f"{shorten(what, 200)} was not loaded within {timeout:g} s{self._why}; grant more "
                "with timeout="
            ) from None

    async def _until(self, load: asyncio.Future[None]) -> None:
        """Wait for a page to be loaded, unless something is known to hold it."""
        while not load.done():
            await asyncio.wait([load], timeout=LOOK_SECONDS)
            if self._target.has_dialog and not load.done():
                raise BrowserError(f"{self._target.blocked}; `answer_dialog()` of its tab goes on")
            # Of a page that was held, the browser may tell too late to tell that it is loaded.
            if self._target.loading.has_committed and not load.done():
                if await self._says("document.readyState", self._target) == "complete":
                    return
        load.result()

    async def show(self, url: str, seconds: float) -> None:
        """Go to a page and wait until it is loaded, or shows a dialog, or time is up.

        Raises:
            BrowserError: If it cannot be loaded at all.
        """
        load = self._target.loading.expect()
        reply = await self._send("Page.navigate", {"url": url}, seconds)
        if problem := reply.get("errorText"):
            raise BrowserError(f"{shorten(url, 200)} could not be loaded: {problem}")
        with suppress(BrowserError, TimeoutError):
            async with asyncio.timeout(seconds):
                await self._until(load)

    async def screenshot(self, *, full_page: bool) -> Image:
        """See `PageControl.screenshot`."""
        picture = {"format": "png", "captureBeyondViewport": full_page}
        reply = await self._host.relay(self._capture(picture))
        return Image(base64.b64decode(reply["data"]), "image/png")

    async def _capture(self, picture: Json) -> Json:
        # Browsers draw a tab that is hidden late or never, so it comes to the front for the time.
        before = await self._in_front_of_it()
        if before is not None:
            await self._send("Page.bringToFront", {}, VISIBLE_SECONDS)
        try:
            return await self._send("Page.captureScreenshot", picture, SCREENSHOT_SECONDS)
        finally:
            if before:
                self._devtools.send("Target.activateTarget", {"targetId": before})

    async def _in_front_of_it(self) -> str | None:
        """The browser's name for the tab that hides it; empty if that is none that is known, None
        if it can be seen."""
        if await self._is_visible(self._target):
            return None
        window = await self._window_of(self._target)
        for other in self._pages():
            in_window = other is not self._target and await self._window_of(other) == window
            if in_window and await self._is_visible(other):
                return str(other.info["targetId"])
        return ""

    async def _is_visible(self, target: Target) -> bool:
        return await self._says("document.visibilityState", target) == "visible"

    async def _says(self, expression: str, target: Target) -> object:
        question = {"expression": expression, "returnByValue": True}
        asked = self._devtools.send(
            "Runtime.evaluate", question, target.session, deadline=VISIBLE_SECONDS
        )
        try:
            value: object = (await asked)["result"].get("value")
        except CommandError:
            return None
        return value

    async def _window_of(self, target: Target) -> object:
        asked = {"targetId": target.info["targetId"]}
        try:
            return (await self._devtools.send("Browser.getWindowForTarget", asked))["windowId"]
        except CommandError:
            return None

    async def answer_dialog(self, accept: bool, text: str | None) -> None:
        """See `PageControl.answer_dialog`."""
        if self._target.blocked == HELD:
            raise BrowserError(
                f"{HELD}, and did so when the browser was attached to; answer such a dialog in the "
                "browser's window, or leave it with .reload()"
            )
        answer = {"accept": accept, **({} if text is None else {"promptText": text})}
        await self._host.relay(self._send("Page.handleJavaScriptDialog", answer, 5.0))

    async def probe(self, expression: str) -> object:
        """What an expression of ours gives in the page, as JSON has it; see `PageControl.probe`."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        reply = await self._host.relay(self._send("Runtime.evaluate", asked, PROBE_SECONDS))
        if "exceptionDetails" in reply:
            thrown = reply["exceptionDetails"].get("exception", {}).get("description", "an error")
            raise BrowserError(f"the page answers with {shorten(str(thrown), 200)}")
        return reply["result"].get("value")

    async def _send(self, method: str, params: Json, timeout: float | None) -> Json:
        seconds = FOREVER if timeout is None else timeout + 1
        try:
            return await self._devtools.send(method, params, self._target.session, deadline=seconds)
        except CommandError as problem:
            raise BrowserError(f"{problem}{self._why}") from None

    @property
    def _why(self) -> str:
        return f" ({self._target.blocked})" if self._target.blocked else ""
