"""Browsers that are attached to and started: which, how often, and that nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pagetools_ipy import browsers, endpoints
from pagetools_ipy.attachments import Attachments
from pagetools_ipy.endpoints import Endpoint
from pagetools_ipy.errors import BrowserError
from pagetools_ipy.transports import Link, cdp
from pagetools_ipy.transports.cdp import CdpTransport

from .helpers import run

OF_THE_FAKE = {"options", "has_left", "has_quit", "pages", "made"}


class FakeControl:
    def __init__(self, tab_id: str) -> None:
        self.tab_id = tab_id


class FakeTransport:
    """A browser that is attached to; one on port 1 cannot be."""

    made: list[FakeTransport]

    def __init__(self, endpoint: Endpoint, **options: Any) -> None:
        self.endpoint, self.options = endpoint, options
        self.address = ""
        self.is_over = self.has_left = self.has_quit = False
        self.pages: list[str] = []
        self.made.append(self)

    async def start(self, on_link: Any) -> None:
        if self.endpoint.port == 1:
            raise BrowserError("refused", endpoint=self.endpoint.label)

    async def open(self, url: str) -> FakeControl:
        if "bad" in url:
            raise BrowserError(f"{url} could not be loaded")
        self.pages.append(url)
        return FakeControl(f"tab of {url}")

    def control(self, tab_id: str) -> FakeControl | None:
        return FakeControl(tab_id) if tab_id.removeprefix("tab of ") in self.pages else None

    async def quit(self) -> None:
        self.has_quit = True

    async def close(self) -> None:
        self.leave()

    def leave(self) -> None:
        self.has_left = True


class FakeLaunched:
    """A browser that was started."""

    made: list[FakeLaunched]

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.endpoint = port(40_000 + len(self.made))
        self.is_running = True
        self.headless = bool(options["headless"])
        self.made.append(self)

    @classmethod
    async def launch(cls, **options: Any) -> FakeLaunched:
        return cls(options)

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self.is_running = False


class Port(Endpoint):
    async def resolve(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"


def port(number: int) -> Endpoint:
    return Port(f"port {number}", "127.0.0.1", number)


def test_the_fake_has_nothing_that_the_real_one_lacks() -> None:
    real = CdpTransport(port(1), binding="b", script="")
    own = {name for name in vars(FakeTransport(port(1))) if name not in OF_THE_FAKE}
    assert own <= set(dir(real))
    real.leave()


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTransport, "made", [], raising=False)
    monkeypatch.setattr(FakeLaunched, "made", [], raising=False)
    monkeypatch.setattr(cdp, "CdpTransport", FakeTransport)
    monkeypatch.setattr(browsers, "LaunchedBrowser", FakeLaunched)


async def nobody(_: Link) -> None:
    raise AssertionError("no page came")


def attachments() -> Attachments:
    it = Attachments(nobody)
    it.belong_to(9319, "token")
    return it


def looking_at(monkeypatch: pytest.MonkeyPatch, *found: int) -> list[tuple[object, bool]]:
    """Have browsers be found at these ports; what was asked for is noted."""
    asked: list[tuple[object, bool]] = []

    def parse(where: object, *, remote: bool = False) -> Sequence[Endpoint]:
        asked.append((where, remote))
        return [port(number) for number in found]

    monkeypatch.setattr(endpoints, "parse_endpoint", parse)
    return asked


def test_the_first_browser_that_lets_us_in_is_attached_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        asked = looking_at(monkeypatch, 1, 9222, 9223)
        it = attachments()
        browser = await it.attach("here", remote=True)
        assert browser.endpoint == port(9222)
        assert asked == [("here", True)]
        assert it.attached == [browser]

    run(main())


def test_if_none_lets_us_in_the_first_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        looking_at(monkeypatch, 1)
        it = attachments()
        with pytest.raises(BrowserError, match="refused"):
            await it.attach()
        assert it.attached == []

    run(main())


def test_a_browser_is_attached_to_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        looking_at(monkeypatch, 9222)
        it = attachments()
        first = await it.attach()
        first.address = "ws://127.0.0.1:9222/"
        assert await it.attach() is first
        assert await it.detach() == 1
        assert await it.attach() is not first

    run(main())


def test_the_script_names_the_bridge_and_nobody_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        looking_at(monkeypatch, 9222)
        await attachments().attach()
        options = FakeTransport.made[0].options
        assert "port: 9319" in options["script"]
        assert options["binding"] in options["script"]
        assert "token" not in options["binding"]

    run(main())


def test_pages_are_opened_in_a_browser_that_is_started_for_them() -> None:
    async def main() -> None:
        it = attachments()
        opened = await it.open(["http://a/", "http://b/"], headless=True)
        assert FakeLaunched.made[0].options == {"headless": True, "profile": None}
        assert opened.tab_ids == ["tab of http://a/", "tab of http://b/"]
        assert it.control("tab of http://b/").tab_id == "tab of http://b/"

    run(main())


def test_further_pages_are_opened_in_the_same_browser() -> None:
    async def main() -> None:
        it = attachments()
        first, second = await it.open(["http://a/"]), await it.open(["http://b/"])
        assert first.browser is second.browser
        assert len(FakeLaunched.made) == 1

    run(main())


@pytest.mark.parametrize("options", [{"headless": True}, {"profile": Path("p")}])
def test_a_browser_of_another_kind_is_another_one(options: dict[str, Any]) -> None:
    async def main() -> None:
        it = attachments()
        await it.open(["http://a/"])
        await it.open(["http://b/"], **options)
        assert len(FakeLaunched.made) == 2

    run(main())


@pytest.mark.parametrize("how", ["closed", "crashed"])
def test_a_browser_that_a_person_has_closed_is_replaced(how: str) -> None:
    async def main() -> None:
        it = attachments()
        opened = await it.open(["http://a/"])
        if how == "closed":
            FakeLaunched.made[0].is_running = False
        else:
            FakeTransport.made[0].is_over = True
        assert how == "closed" or it.attached == []
        again = await it.open(["http://b/"])
        assert again.browser is not opened.browser
        assert len(it.attached) == 1

    run(main())


def test_a_page_that_cannot_be_loaded_costs_the_others_nothing() -> None:
    async def main() -> None:
        it = attachments()
        with pytest.raises(BrowserError, match="http://bad/ could not be loaded"):
            await it.open(["http://a/", "http://bad/", "http://b/"])
        assert FakeTransport.made[0].pages == ["http://a/", "http://b/"]

    run(main())


def test_a_browser_that_cannot_be_attached_to_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async def refuse(*_: object) -> None:
            raise BrowserError("no")

        monkeypatch.setattr(FakeTransport, "start", refuse)
        with pytest.raises(BrowserError):
            await attachments().open(["http://a/"])
        assert not FakeLaunched.made[0].is_running

    run(main())


def test_closing_ends_what_was_started_and_detaching_leaves_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        looking_at(monkeypatch, 9222)
        it = attachments()
        theirs = await it.attach()
        await it.open(["http://a/"])
        own = FakeTransport.made[1]
        assert (await it.close(), own.has_quit, own.has_left) == (1, True, True)
        assert it.attached == [theirs]
        assert (await it.detach(), theirs.has_left, theirs.has_quit) == (1, True, False)
        assert (await it.close(), await it.detach()) == (0, 0)

    run(main())


def test_at_the_end_everything_is_left_and_what_was_started_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        looking_at(monkeypatch, 9222)
        it = attachments()
        await it.attach()
        await it.open(["http://a/"])
        it.leave()
        assert [browser.has_left for browser in FakeTransport.made] == [True, True]
        assert not FakeLaunched.made[0].is_running
        assert it.attached == []

    run(main())


def test_a_tab_elsewhere_cannot_be_steered() -> None:
    with pytest.raises(BrowserError, match="`%pagetools attach`"):
        attachments().control("unknown")
