"""The tabs of a browser that is attached to, through all that happens to them and to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pagetools_ipy import BrowserError, PageGoneError, Tools
from pagetools_ipy.bridge import Bridge
from pagetools_ipy.host import ThreadHost

from ..cdp import chromium
from ..kernel.kernels import free_port

if TYPE_CHECKING:
    from ..cdp import Chromium, Page
    from .person import Person

pytest_plugins = ["tests.e2e.desktop", "tests.e2e.person"]
pytestmark = pytest.mark.browser

TIMES = 3
PLAIN_TABS = 47
ALL = ["a", "run", "soon", "waits", "where"]
"""The tools of a page with more than one."""
LAST_WORD = 2.5
"""Seconds within which a call ends whose page has gone."""
LATE = pytest.mark.parametrize("late", [False, True], ids=["first", "late"])


@pytest.fixture(scope="module")
def chrome(native_chrome: Chromium) -> Chromium:
    return native_chrome


def url_of(person: Person, **words: Any) -> str:
    return person.url("page.html", name="a", more="1", **words)


# ---- one tab, one identifier


async def test_a_tab_keeps_its_id_wherever_it_goes(person: Person) -> None:
    url, next_url, other = (url_of(person, **w) for w in ({}, {"n": "2"}, {"there": True}))
    page = await person.show(url, attach=True)
    most_tabs, tab = person.most_tabs, await person.tab_at(url)

    async def is_at(where: str) -> str:
        await person.until(lambda: (tab.url, tab.state.value) == (where, "connected"))
        await person.until(lambda: "where" in tab.tools)
        assert person.web == [tab]
        await page.until(f"location.href === {where!r} && document.readyState === 'complete'")
        document = await tab.where()
        assert document == await page.evaluate("documentId")
        return str(document)

    documents = {await is_at(url)}
    for _ in range(TIMES):
        await tab.reload()
        documents.add(await is_at(url))
    assert len(documents) == 1 + TIMES
    for where in (next_url, other):
        before = await is_at(url)
        await tab.navigate(where)
        after = await is_at(where)
        # Out of the browser's cache, from the same process or another one.
        await page.go(-1)
        assert await is_at(url) == before
        await page.go(+1)
        assert await is_at(where) == after
        await page.go(-1)
    for where in (url, other):
        await tab.navigate(where)
        await person.detach()
        assert tab.frames == ()
        await person.attach()
        await is_at(where)
    assert most_tabs() == 1


async def test_a_tab_keeps_its_id_when_the_bridge_is_another_one(person: Person) -> None:
    url = url_of(person)
    await person.show(url, attach=True)
    tab = await person.tab_at(url)
    async with person.desktop.restarted_bridge():
        try:
            await person.attach()
            await person.listed(*ALL)
            assert person.web == [tab]
            assert await tab.a() == "a"
        finally:
            person.bridge.browsers.leave()


@LATE
async def test_a_page_that_reaches_the_bridge_by_itself_as_well_is_one_tab(
    late: bool, person: Person
) -> None:
    names = ["who", "where", "was_prerendered", "run", "spin", "shop_only"]
    url = person.url("app.html", bridge=person.bridge.url, ns="shop", name="Shop")
    most_tabs = person.most_tabs
    page = await person.show(url, attach=late)
    await person.listed(*names)
    tab = await person.tab_at(url)

    async def is_there(dialled: str) -> None:
        await page.until(f"pagetools.status().state === '{dialled}'")
        await person.listed(*names)
        assert await tab.who() == "Shop"
        assert person.web == [tab]

    for _ in range(TIMES):
        await tab.reload()
        await is_there("open")
    await person.detach()
    await is_there("open")
    await person.attach()
    await is_there("open")
    await page.evaluate("pagetools.disconnect()")
    await is_there("closed")
    await page.evaluate("pagetools.connect()")
    await is_there("open")
    assert most_tabs() == 1


async def test_calls_are_answered_while_a_page_begins_to_reach_the_bridge_by_itself(
    person: Person,
) -> None:
    page = await person.show(url_of(person), attach=False)
    await person.listed(*ALL)
    most_tabs, (tab,) = person.most_tabs, person.web
    document = await tab.where()
    load = f"import('{person.bridge.url}/pagetools.js')"
    connect = f"{load}.then(() => pagetools.connect({{port: {person.bridge.port}}}))"
    for _ in range(TIMES):
        calls = [tab.soon(ms=200), *(tab.where() for _ in range(3))]
        await page.evaluate(f"{connect}.then(() => 0)")
        await page.until("pagetools.status().state === 'open'")
        calls.append(tab.where())
        assert [await call for call in calls] == [document] * 5
        dialled = tab.client_ids
        await page.evaluate("pagetools.disconnect()")
        await person.until(lambda gone=dialled: tab.client_ids != gone)  # type: ignore[misc]
        await person.listed(*ALL)
    assert person.web == [tab]
    assert most_tabs() == 1


# ---- many tabs, and some that do not answer


async def test_tabs_that_do_not_answer_are_told_and_hold_up_no_other(
    person: Person, record_property: Callable[[str, object], None]
) -> None:
    names = [f"tab{number}" for number in range(PLAIN_TABS)]
    for name in names:
        await person.browser.open_unwatched(person.url("page.html", name=name))
    urls = {n: person.url("page.html", name=n) for n in ("frozen", "talking", "away")}
    pages = {name: await person.show(url) for name, url in urls.items()}
    await person.browser.open()
    await pages["frozen"].send("Page.setWebLifecycleState", state="frozen")
    await pages["talking"].send("Page.enable")
    await pages["talking"].evaluate("void setTimeout(() => alert('Hello'))")
    discard = f"discard('{pages['away'].target_id}')"
    discarded = await person.desktop.duplicator.evaluate(discard)
    # A discarded tab has no client whose listing could be waited for before.

    began = time.monotonic()
    attaching = asyncio.create_task(person.attach())
    await person.listed(*names, seconds=10)
    record_property("listed after", round(time.monotonic() - began, 2))
    await attaching
    record_property("attached after", round(time.monotonic() - began, 2))

    def standing(name: str) -> str:
        views = person.bridge.host.run(lambda: person.bridge.directory.tabs(all=True))
        return next((view.standing for view in views if view.url == urls[name]), "")

    await person.until(lambda: "frozen" in standing("frozen"))
    assert standing("talking").startswith("not responding: a dialog,")
    assert standing("away").startswith("asleep: the browser has put the page out of memory")

    with pytest.raises(BrowserError, match=r"in the browser's window, or leave it with \.reload"):
        await person.tabs[urls["talking"]].answer_dialog()
    await pages["talking"].send("Page.handleJavaScriptDialog", accept=True)
    await person.listed(*names, "talking")
    await person.desktop.duplicator.evaluate(f"activate('{discarded}')")
    await person.listed(*names, "talking", "away")
    await pages["frozen"].send("Page.setWebLifecycleState", state="active")
    await person.listed(*names, "talking", "away", "frozen")


async def test_a_dialog_that_a_tool_brings_up_is_told_and_answered(person: Person) -> None:
    page = await person.show(url_of(person), attach=False)
    await person.listed(*ALL)
    (tab,) = person.web
    call = tab.run(code="window.sure = confirm('Are you sure?')")
    await person.until(lambda: tab.blocked)
    assert tab.blocked == "confirm shows: Are you sure?"
    assert not call.done()
    await tab.answer_dialog(False)
    await call
    assert (tab.blocked, await page.evaluate("sure")) == ("", False)
    with pytest.raises(BrowserError, match="No dialog is showing"):
        await tab.answer_dialog()


async def test_a_page_that_was_held_before_is_let_go_by_a_reload(person: Person) -> None:
    url = url_of(person)
    page = await person.show(url)
    await page.evaluate("void setTimeout(() => alert('Hello'))")
    await person.attach()
    tab = await person.tab_at(url)
    assert "dialog" in tab.blocked
    await tab.reload()
    await person.listed(*ALL)
    assert tab.blocked == ""


async def crash(page: Page, _: Person) -> None:
    await page.crash()


async def reload(page: Page, _: Person) -> None:
    await page.send("Page.reload")


async def leave(page: Page, person: Person) -> None:
    await page.send("Page.navigate", url=url_of(person, there=True))


async def close(page: Page, _: Person) -> None:
    await page.close()


@LATE
@pytest.mark.parametrize("end", [crash, reload, leave, close])
async def test_a_call_whose_page_goes_ends(
    end: Callable[[Page, Person], Awaitable[None]], late: bool, person: Person
) -> None:
    page = await person.show(url_of(person), attach=late)
    await person.listed(*ALL)
    (tab,) = person.web
    call = tab.waits(timeout=None)
    await tab.where()  # by then it runs
    began = time.monotonic()
    await end(page, person)
    with pytest.raises(PageGoneError):
        await call
    took = time.monotonic() - began
    # Of a page that goes on to another one, the browser may have a last word.
    assert took < LAST_WORD
    if end is crash:
        await person.until(lambda: tab.blocked == "the page crashed; reload it")
        with pytest.raises(BrowserError, match="the page crashed"):
            await tab.screenshot()
        await tab.reload()
    if end is not close:
        await person.listed(*ALL)
        assert await tab.a() == "a"


# ---- what a busy page costs


async def test_a_loop_of_registrations_costs_little_and_no_other_tab_notices(
    person: Person, record_property: Callable[[str, object], None]
) -> None:
    still = person.url("page.html", name="still")
    await person.show(still, attach=False)
    await person.tab_at(still)
    page = await person.show(person.url("churn.html"))
    await person.listed("still", "churning")
    tab, directory = person.tabs["Churn"], person.bridge.directory
    told: list[tuple[str | None, float]] = []
    stop = person.bridge.host.run(
        lambda: directory.watch(lambda tab_id: told.append((tab_id, time.monotonic())))
    )
    rounds, used, began = await page.evaluate("rounds"), time.process_time(), time.monotonic()
    await page.until(f"rounds > {rounds + 2500}", 20)
    took = time.monotonic() - began
    load = (time.process_time() - used) / took
    stop()
    record_property("changes a second", round(2500 / took))
    record_property("CPU", round(load, 3))
    assert load < 0.15
    assert {tab_id for tab_id, _ in told} == {tab.id}
    times = [at for _, at in told]
    assert max(sum(at <= other < at + 0.9 for other in times) for at in times) <= 4
    assert await person.tools.churning() == "still here"


# ---- the browser


async def test_two_notebooks_are_attached_to_one_browser(person: Person) -> None:
    other = Bridge(ThreadHost())
    other.start(0)
    tools = Tools(lambda: other)
    names = [*ALL, "b"]
    try:
        await person.show(url_of(person))
        await asyncio.gather(person.attach(), person.attach(other))
        await person.show(person.url("page.html", name="b", legacy="1"))
        await person.listed(*names)
        await person.listed(*names, tools=tools)
        mine, theirs = person.tools.soon(ms=300), tools.soon(ms=300)
        await other.host.relay(other.browsers.detach())
        assert await mine == await person.tools.where()
        with pytest.raises(PageGoneError):
            await theirs
        await person.show(person.url("page.html", name="c", legacy="1"))
        await person.listed(*names, "c")
        await person.attach(other)
        await person.listed(*names, "c", tools=tools)
        await person.detach()
        assert await tools.c() == "c"
        assert await tools.b() == "b"
    finally:
        other.stop()


async def test_a_browser_that_is_restarted_is_found_again(person: Person, tmp_path: Path) -> None:
    port, url = free_port(), url_of(person)
    args = ["--enable-features=WebMCPTesting", f"--remote-debugging-port={port}"]
    args.append(f"--user-data-dir={tmp_path / 'profile'}")
    async with chromium(*args) as browser:
        await browser.open(url)
        transport = await person.bridge.host.relay(person.bridge.browsers.attach(port))
        await person.listed(*ALL)
        call = person.tools.waits(timeout=None)
        await person.tools.where()
        await asyncio.gather(browser.send("Browser.crash"), return_exceptions=True)
        with pytest.raises(PageGoneError):
            await call
        assert transport.standing.startswith("Waiting for Chrom")
    async with chromium(*args) as browser:
        await browser.open(url)
        await person.listed(*ALL, seconds=10)
        assert await person.tools.a() == "a"
        assert transport.standing.startswith("Attached to Chrom")


async def test_what_cannot_be_attached_to_is_said(person: Person) -> None:
    browsers, relay = person.bridge.browsers, person.bridge.host.relay

    async def problem(where: object) -> str:
        with pytest.raises(BrowserError) as caught:
            await relay(browsers.attach(where))
        return str(caught.value)

    for far in ("example.com:9222", "http://10.0.0.1:9222", "0.0.0.0:9222"):
        assert "is not this machine" in await problem(far)
    port = free_port()
    assert f"nothing listens on port {port}; start the browser with" in await problem(port)
    assert "/json/version" in await problem(person.bridge.port)
    await person.attach()
    (browser,) = browsers.attached
    assert await relay(browsers.attach(person.browser.address)) is browser
    assert browsers.attached == [browser]
