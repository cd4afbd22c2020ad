"""A tab's id, title and URL through all that a person and a browser do to tabs."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from pagetools_ipy import TabNotFoundError

if TYPE_CHECKING:
    from ..cdp import Page
    from .desktop import Desktop

pytest_plugins = ["tests.e2e.desktop"]
pytestmark = pytest.mark.browser

RELOADS = 200
JOURNEYS = 5
COPIES = 5
CALLS = 20
OWN_ID_MS = 300
SOON = 0.5
SETTLED = 0.1
DEADLINE = 5
COPIED = ["duplicated", "opened"]


async def test_an_id_survives_reload_after_reload(desktop: Desktop) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    seen = set(tab.client_ids)
    for _ in range(RELOADS):
        await page.send("Page.reload")
        await desktop.until(lambda: not seen.issuperset(desktop.tabs[0].client_ids))
        assert list(desktop.tabs) == [tab]
        seen.update(desktop.tabs[0].client_ids)
    assert len(seen) == RELOADS + 1


async def test_a_page_in_the_back_forward_cache_is_asleep_and_wakes_as_the_same_tab(
    desktop: Desktop,
) -> None:
    other = await desktop.tab(await desktop.open("Other", new_window=True))
    page = await desktop.open()
    tab, document = await desktop.tab(page), await page.evaluate("documentId")
    await page.send("Page.navigate", url=desktop.url("plain.html"))
    for _ in range(JOURNEYS):
        await desktop.until(lambda: tab.state.value == "asleep")
        assert list(desktop.tabs) == [other]
        assert await desktop.tools.who() == "Other"
        with pytest.raises(TabNotFoundError):
            tab.who()
        await page.until("document.title === 'plain'")
        await page.go(-1)
        assert await desktop.tab(page) == tab
        assert await tab.where() == document
        await page.go(+1)


async def test_a_frozen_page_is_asleep_until_it_is_thawed(desktop: Desktop) -> None:
    page = await desktop.open()
    tab, document = await desktop.tab(page), await page.evaluate("documentId")
    await page.send("Page.setWebLifecycleState", state="frozen")
    await desktop.until(lambda: tab.state.value == "asleep")
    assert len(desktop.tabs) == 0
    with pytest.raises(TabNotFoundError):
        tab.who()
    await page.send("Page.setWebLifecycleState", state="active")
    assert await desktop.tab(page) == tab
    assert await tab.where() == document


async def test_a_page_that_the_cache_does_not_keep_comes_back_with_its_id(
    desktop: Desktop,
) -> None:
    page = await desktop.open()
    tab, document = await desktop.tab(page), await page.evaluate("documentId")
    await page.evaluate("addEventListener('unload', () => {})")
    await page.send("Page.navigate", url=desktop.url("plain.html"))
    await page.until("document.title === 'plain'")
    await page.go(-1)
    assert await desktop.tab(page) == tab
    assert await tab.where() != document


async def test_an_id_survives_a_crash(desktop: Desktop) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    await page.crash()
    await desktop.until(lambda: tab.state.value != "connected")
    await page.send("Page.reload")
    assert await desktop.tab(page) == tab


async def test_ids_survive_a_restart_of_the_bridge(desktop: Desktop) -> None:
    pages = [await desktop.open("A"), await desktop.open("B"), await desktop.open("C")]
    tabs = [await desktop.tab(page) for page in pages]
    async with desktop.restarted_bridge():
        assert [await desktop.tab(page) for page in pages] == tabs
        assert set(desktop.tabs) == set(tabs)


async def test_an_id_survives_being_discarded(desktop: Desktop) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    await desktop.open_notebook()
    discarded = await desktop.duplicator.evaluate(f"discard('{page.target_id}')")
    await desktop.until(lambda: tab.state.value != "connected")
    page = await desktop.browser.attach(
        await desktop.duplicator.evaluate(f"activate('{discarded}')")
    )
    assert await desktop.tab(page) == tab
    assert await page.evaluate("document.wasDiscarded")


async def test_an_id_survives_being_closed_and_reopened(desktop: Desktop) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    await page.close()
    await desktop.until(lambda: tab.state.value != "connected")
    page = await desktop.browser.attach(await desktop.duplicator.evaluate("reopen()"))
    assert await desktop.tab(page) == tab


async def copy(desktop: Desktop, page: Page, how: str) -> Page:
    """Another tab that starts with all that the first one has in its storage."""
    if how == "opened":
        return await desktop.opened_by(page, "void open(location.href)")
    duplicate = await desktop.duplicator.evaluate(f"duplicate('{page.target_id}')")
    return await desktop.browser.attach(duplicate)


@pytest.mark.parametrize("how", COPIED)
async def test_a_copied_tab_has_an_id_of_its_own_at_once(desktop: Desktop, how: str) -> None:
    page = await desktop.open()
    original = await desktop.tab(page)
    tabs, took = {original}, []
    for count in range(2, 2 + COPIES):
        copied = await copy(desktop, page, how)
        tabs.add(await desktop.tab(copied))
        assert len(tabs) == count
        assert await copied.evaluate("inheritedId") == original.id
        took.append(await copied.evaluate("ownIdAfter"))
    assert statistics.median(took) < OWN_ID_MS  # one slow start on a busy machine says nothing
    assert await desktop.tab(page) == original
    assert set(desktop.tabs) == tabs
    mine = await desktop.tab(copied)
    before = mine.client_ids
    await copied.send("Page.reload")
    await desktop.until(lambda: mine.client_ids not in ((), before))
    assert await desktop.tab(copied) == mine


@pytest.mark.parametrize("how", COPIED)
async def test_calls_to_a_tab_and_to_its_copy_reach_the_one_that_was_meant(
    desktop: Desktop, how: str
) -> None:
    page = await desktop.open()
    pages = [page, await copy(desktop, page, how)]
    tabs = [await desktop.tab(each) for each in pages]
    documents = [await each.evaluate("documentId") for each in pages]
    for _ in range(CALLS):
        assert [await tab.where() for tab in tabs] == documents


def append_frame(url: str) -> str:
    """JavaScript that appends a frame."""
    frame = f"Object.assign(document.createElement('iframe'), {{src: '{url}'}})"
    return f"void document.body.append({frame})"


async def test_frames_of_any_origin_are_listed_under_their_tab(desktop: Desktop) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    urls = [desktop.url(origin=n, name=f"Frame {n}", ns=f"frame{n}") for n in range(3)]
    for url in urls:
        await page.evaluate(append_frame(url))
    await desktop.until(lambda: len(tab.namespaces) == 4)
    assert list(desktop.tabs) == [tab]
    assert {frame.url for frame in tab.frames if not frame.top} == set(urls)
    for n in range(3):
        assert await desktop.tools.on(tab, ns=f"frame{n}").who() == f"Frame {n}"

    await page.evaluate("document.querySelector('iframe').remove()")
    await desktop.until(lambda: len(tab.frames) == 3)
    assert list(desktop.tabs) == [tab]


async def test_a_frame_that_came_before_its_page_moves_under_it_and_leaves_no_ghost(
    desktop: Desktop,
) -> None:
    page = await desktop.browser.open(desktop.url("plain.html"))
    await page.until("document.title === 'plain' && document.readyState === 'complete'")
    for origin in range(3):
        await page.evaluate(append_frame(desktop.url(origin=origin, ns=f"frame{origin}")))
    await desktop.until(lambda: desktop.clients == 3)
    await page.evaluate(f"void import('{desktop.bridge.url}/pagetools.js')")
    tab = await desktop.tab(page)
    await desktop.until(lambda: len(tab.frames) == 4)
    assert list(desktop.tabs) == [tab]
    assert desktop.known == [tab.id]


async def test_frames_go_with_their_tab_when_it_is_duplicated(desktop: Desktop) -> None:
    framed = desktop.url("framed.html", frame=desktop.url(ns="inner"))
    page = await desktop.browser.open(framed)
    original = await desktop.tab(page)
    await desktop.until(lambda: len(original.frames) == 2)
    copied = await desktop.tab(await copy(desktop, page, "duplicated"))
    await desktop.until(lambda: len(copied.frames) == 2)
    assert len(original.frames) == 2
    assert list(desktop.tabs) == [original, copied]


async def test_a_sandboxed_frame_leaves_no_ghost(desktop: Desktop) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    refused = await page.evaluate(
        """new Promise((done) => {
          addEventListener('message', ({data}) => done(data));
          const srcdoc = `<script type="module">
            const {status} = await import('BRIDGE/pagetools.js').catch(() => ({}));
            const wait = () => ['connecting', 'open'].includes(status?.().state)
              ? setTimeout(wait, 10) : parent.postMessage('refused', '*');
            wait();
          <\\/script>`;
          const settings = {sandbox: 'allow-scripts', srcdoc};
          document.body.append(Object.assign(document.createElement('iframe'), settings));
        })""".replace("BRIDGE", desktop.bridge.url)
    )
    assert refused == "refused"
    assert list(desktop.tabs) == [tab]
    assert [frame.top for frame in tab.frames] == [True]
    assert desktop.clients == 1


async def prerender(desktop: Desktop, url: str) -> Callable[[str], Awaitable[None]]:
    """Have a page prerendered, by one that has no tools.

    Returns:
        What makes that one go somewhere.
    """
    driver = await desktop.browser.open(desktop.url("plain.html"))
    await desktop.browser.open_unwatched(desktop.url("prerenders.html", url=url))
    await desktop.until(lambda: "/pause.js" in desktop.site.prerendered)
    await asyncio.sleep(SOON)
    assert desktop.clients == 0

    async def visit(url: str) -> None:
        await driver.evaluate(f"new BroadcastChannel('visit').postMessage('{url}')")

    return visit


async def test_a_prerendered_page_is_a_tab_from_when_it_is_shown(desktop: Desktop) -> None:
    url = desktop.url()
    visit = await prerender(desktop, url)
    await visit(url)
    await desktop.tools.wait_for("was_prerendered", timeout=DEADLINE)
    assert await desktop.tools.was_prerendered() is True
    (tab,) = desktop.tabs

    # Nothing that it wrote before it was shown is in its storage.
    (target_id,) = [at for at, its in (await desktop.browser.targets()).items() if its == url]
    page = await desktop.browser.attach(target_id)
    await page.crash()
    await desktop.until(lambda: tab.state.value != "connected")
    await page.send("Page.reload")
    assert await desktop.tab(page) == tab


async def test_a_prerendered_page_that_is_never_shown_is_no_tab(desktop: Desktop) -> None:
    visit = await prerender(desktop, desktop.url())
    elsewhere = desktop.url("plain.html", name="elsewhere")
    await visit(elsewhere)
    await desktop.until(lambda: elsewhere in desktop.site.visited)
    await asyncio.sleep(SOON)
    assert desktop.clients == 0


async def test_a_page_that_its_tab_had_prerendered_takes_its_place_there(
    desktop: Desktop,
) -> None:
    await desktop.browser.open_unwatched(desktop.url(name="First"))
    await desktop.until(lambda: "run" in desktop.tools)
    tab, url = desktop.tabs["First"], desktop.url(name="Second")
    rules = f"{{prerender: [{{urls: ['{url}'], eagerness: 'immediate'}}]}}"
    await tab.run(
        code=f"""
          const rules = {{type: 'speculationrules', text: JSON.stringify({rules})}};
          document.head.append(Object.assign(document.createElement('script'), rules));
        """
    )
    await desktop.until(lambda: "/pause.js" in desktop.site.prerendered)
    await asyncio.sleep(SOON)
    assert desktop.clients == 1
    await tab.run(code=f"location.href = '{url}'")
    await desktop.until(lambda: tab.title == "Second")
    assert list(desktop.tabs) == [tab]
    assert desktop.clients == 1


CHANGES = {
    "url": {
        "history.pushState(null, '', '/one')": "/one",
        "history.replaceState(null, '', '/two')": "/two",
        "location.hash = 'three'": "/two#three",
        "history.back()": "/two",
        "navigation.addEventListener('navigate', (event) => event.intercept(), {once: true});"
        "navigation.navigate('/four')": "/four",
    },
    "title": {
        "document.title = 'one'": "one",
        "document.querySelector('title').firstChild.data = 'two'": "two",
        "document.querySelector('title').replaceWith("
        "Object.assign(document.createElement('title'), {text: 'three'}))": "three",
    },
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("hidden", [False, True], ids=["visible", "hidden"])
@pytest.mark.parametrize("by", ["the page", "a call"])
async def test_what_changes_in_a_page_is_known_at_once(
    desktop: Desktop, what: str, hidden: bool, by: str
) -> None:
    page = await desktop.open()
    tab = await desktop.tab(page)
    if hidden:
        await desktop.open_notebook()
        await page.until("document.visibilityState === 'hidden'")
    for script, value in CHANGES[what].items():
        if by == "a call":
            await tab.run(code=script)
        else:
            await page.evaluate(f"(() => {{ {script} }})()")
        await desktop.until(lambda: getattr(tab, what).endswith(value), SOON)  # noqa: B023
        await asyncio.sleep(SETTLED)
