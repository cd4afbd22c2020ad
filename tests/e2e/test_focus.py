"""Where the person looks, and which tab answers because of it, in real windows.

"The notebook" is a page without tools: while somebody works in it, it hides the page they work on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pagetools_ipy import AmbiguousToolError, TabNotFoundError, heartbeat

if TYPE_CHECKING:
    from pagetools_ipy.browser_tabs import Tab

    from ..cdp import Page
    from .desktop import Desktop

pytest_plugins = ["tests.e2e.desktop"]
pytestmark = pytest.mark.browser

QUIET = 0.7
"""Seconds after which listeners would have been told of a change."""


async def open_both(desktop: Desktop) -> tuple[Page, Page]:
    """Two tabs of one app in one window, the second one in front."""
    return await desktop.open("A"), await desktop.open("B")


async def look_at(desktop: Desktop, page: Page) -> Tab:
    """Bring a page to the front of its window."""
    await page.activate()
    tab = await desktop.tab(page)
    await desktop.until(lambda: tab.focused and tab.visible)
    return tab


async def look_at_notebook(desktop: Desktop, *tabs: Tab) -> Page:
    """Open a notebook in front of these tabs."""
    notebook = await desktop.open_notebook()
    await desktop.until(lambda: not any(tab.visible or tab.focused for tab in tabs))
    return notebook


async def test_the_tab_looked_at_last_answers_while_the_notebook_hides_it(
    desktop: Desktop,
) -> None:
    pages = await open_both(desktop)
    for page, name in zip(pages, "AB", strict=True):
        tab = await look_at(desktop, page)
        notebook = await look_at_notebook(desktop, tab)
        assert desktop.tabs.focused is None
        assert desktop.tabs.last == tab
        call = desktop.tools.who()
        assert await call == name
        assert call.why == "last focused of 2"
        assert call.client_id in tab.client_ids
        await notebook.close()


async def test_a_tab_beside_the_notebooks_window_answers_before_one_behind_it(
    desktop: Desktop,
) -> None:
    hidden, shown = await open_both(desktop)
    await look_at(desktop, hidden)
    tab = await look_at(desktop, shown)
    await desktop.open_notebook(new_window=True)
    assert tab.visible
    assert not (await desktop.tab(hidden)).visible
    assert desktop.tabs.last == tab
    assert await desktop.tools.who() == "B"


async def test_focus_marks_move_from_tab_to_tab(desktop: Desktop) -> None:
    first, second = await open_both(desktop)
    for page, other in [(first, second), (second, first), (first, second)]:
        tab, behind = await look_at(desktop, page), await desktop.tab(other)
        await desktop.until(lambda: not behind.visible)  # noqa: B023
        assert (tab.visible, tab.focused) == (True, True)
        assert (behind.visible, behind.focused) == (False, False)
        assert desktop.tabs.focused == desktop.tabs.last == tab


async def test_of_two_windows_the_one_that_was_turned_to_last_answers(desktop: Desktop) -> None:
    windows = [await desktop.open(name, new_window=True) for name in "AB"]
    for page, name in zip(windows, "AB", strict=True):
        notebook = await desktop.opened_by(page, "void open('about:blank')")
        tab = await desktop.tab(page)
        await desktop.until(lambda: not tab.visible)  # noqa: B023
        await notebook.close()
        await desktop.until(lambda: tab.focused and tab.visible)  # noqa: B023
        assert desktop.tabs.focused == tab
        assert await desktop.tools.who() == name


@pytest.mark.parametrize("last", ["A", "B"])
async def test_of_two_windows_the_one_that_was_turned_from_last_answers(
    desktop: Desktop, last: str
) -> None:
    pages = {name: await desktop.open(name, new_window=True) for name in "AB"}
    for name in sorted(pages, key=last.__eq__):
        tab = await desktop.tab(pages[name])
        await desktop.opened_by(pages[name], "void open('about:blank')")
        await desktop.until(lambda: not tab.visible)  # noqa: B023
    assert desktop.tabs.last == tab
    assert await desktop.tools.who() == last


async def test_a_minimized_window_is_not_looked_at(desktop: Desktop) -> None:
    pages = {name: await desktop.open(name, new_window=True) for name in "AB"}
    tab = await desktop.tab(pages["B"])
    assert await desktop.tools.who() == "B"
    await pages["B"].set_window("minimized")
    await desktop.until(lambda: not tab.visible and not tab.focused)
    assert await desktop.tools.who() == "A"
    await pages["B"].set_window("normal")
    await desktop.until(lambda: tab.visible and tab.focused)
    assert await desktop.tools.who() == "B"


async def test_a_click_into_a_foreign_frame_takes_no_focus_from_the_tab(
    desktop: Desktop,
) -> None:
    page = await desktop.open()
    tab = await look_at(desktop, page)
    await page.evaluate(
        f"""new Promise((loaded) => {{
          addEventListener('blur', () => window.blurred = true);
          const style = 'position: fixed; inset: 0; width: 100vw; height: 100vh';
          const settings = {{src: '{desktop.url("plain.html", origin=1)}', style, onload: loaded}};
          document.body.append(Object.assign(document.createElement('iframe'), settings));
        }})"""
    )
    await page.click(50, 50)
    await page.until("window.blurred")
    await page.evaluate("void (document.title = 'afterwards')")
    await desktop.until(lambda: tab.title == "afterwards")
    assert tab.focused
    assert desktop.tabs.focused == tab


async def test_the_other_tabs_of_an_app_are_shadowed(desktop: Desktop) -> None:
    pages = await open_both(desktop)
    for page in pages:
        tab = await look_at(desktop, page)
        rows = desktop.tools.registrations()
        assert {row.tab.id: row.shadowed for row in rows} == {
            each.id: each != tab for each in desktop.tabs
        }
        assert len(rows) == 2


async def test_of_different_apps_with_one_tool_the_focused_one_answers(desktop: Desktop) -> None:
    first, second = await desktop.open("A", ns="shop"), await desktop.open("B", ns="todo")
    for page, other, name in [(first, second, "A"), (second, first, "B")]:
        await look_at(desktop, page)
        behind = await desktop.tab(other)
        await desktop.until(lambda: not behind.focused)  # noqa: B023
        call = desktop.tools.who()
        assert await call == name
        assert call.why == "in the focused tab, of 2"


async def test_of_different_apps_behind_the_notebook_none_answers_unasked(
    desktop: Desktop,
) -> None:
    pages = [await desktop.open("A", ns="shop"), await desktop.open("B", ns="todo")]
    tabs = [await desktop.tab(page) for page in pages]
    await look_at_notebook(desktop, *tabs)
    with pytest.raises(AmbiguousToolError):
        _ = desktop.tools.who
    assert await desktop.tools.shop_only() == "shop"
    assert await desktop.tools.todo.who() == "B"
    assert await tabs[0].who() == "A"


async def test_a_hidden_page_that_reloads_itself_was_still_looked_at_last(
    desktop: Desktop,
) -> None:
    second, first = await open_both(desktop)
    behind, tab = await desktop.tab(second), await look_at(desktop, first)
    await look_at_notebook(desktop, tab)
    looked_at = tab.last_focused_at
    for reloading, page in [(behind, second), (tab, first), (behind, second)]:
        documents = reloading.client_ids
        await reloading.run(code="location.reload()")
        await desktop.until(lambda: reloading.client_ids not in ((), documents))  # noqa: B023
        assert await desktop.tab(page) == reloading
        assert desktop.tabs.last == tab
        assert await desktop.tools.who() == "B"
    assert tab.last_focused_at == pytest.approx(looked_at, abs=0.05)


async def test_a_restarted_bridge_knows_which_tab_was_looked_at_last(desktop: Desktop) -> None:
    first, second = await open_both(desktop)
    tabs = [await look_at(desktop, second), await look_at(desktop, first)]
    await look_at_notebook(desktop, *tabs)
    async with desktop.restarted_bridge():
        assert [await desktop.tab(page) for page in (second, first)] == tabs
        assert desktop.tabs.last == tabs[1]
        assert 0 < tabs[0].last_focused_at < tabs[1].last_focused_at
        assert await desktop.tools.who() == "A"


async def test_a_pinned_tab_answers_until_it_is_unpinned(desktop: Desktop) -> None:
    first, second = await open_both(desktop)
    pinned, tab = await desktop.tab(first), await look_at(desktop, second)
    assert await desktop.tools.who() == "B"
    pinned.pin()
    assert desktop.tabs.pinned == pinned
    call = desktop.tools.who()
    assert await call == "A"
    assert call.why == "pinned of 2"
    desktop.site.pause = 1.5
    await first.send("Page.reload")
    await desktop.until(lambda: pinned.state.value == "reloading")
    with pytest.raises(TabNotFoundError):
        desktop.tools.who()
    await desktop.tab(first)
    assert await desktop.tools.who() == "A"
    desktop.tabs.unpin()
    assert desktop.tabs.pinned is None
    assert await desktop.tools.who() == "B"
    assert desktop.tabs.last == tab


async def test_under_the_strict_policy_no_tab_of_an_app_is_picked(desktop: Desktop) -> None:
    first, _ = await open_both(desktop)
    tab = await desktop.tab(first)
    with pytest.raises(AmbiguousToolError):
        desktop.tools.on(strict=True).who()
    assert await desktop.tools.on(tab, strict=True).who() == "A"
    assert await desktop.tools.who() == "B"


@pytest.mark.parametrize("behind", ["the app", "the notebook", "its window"])
async def test_a_title_that_keeps_changing_in_the_background_draws_no_calls(
    desktop: Desktop, behind: str
) -> None:
    first = await desktop.open("A")
    second = await desktop.open("B", new_window=behind == "its window")
    noisy, tab = await desktop.tab(first), await look_at(desktop, second)
    if behind == "the notebook":
        await look_at_notebook(desktop, tab)
    for title in (f"({count}) new messages" for count in range(5)):
        await noisy.run(code=f"document.title = '{title}'")
        await desktop.until(lambda: noisy.title == title)  # noqa: B023
        assert await desktop.tools.who() == "B"
    assert desktop.tabs.last == tab


async def test_where_the_person_looks_is_no_change_of_tools(desktop: Desktop) -> None:
    pages = await open_both(desktop)
    await asyncio.sleep(QUIET)
    told: list[str] = []
    directory = desktop.bridge.directory
    desktop.bridge.host.run(lambda: directory.on_change(lambda: told.append("changed")))
    for page in (*pages, *pages):
        tab = await look_at(desktop, page)
    await look_at_notebook(desktop, tab)
    await asyncio.sleep(QUIET)
    assert told == []
    await pages[0].evaluate("pagetools.unregister('shop')")
    await pages[1].evaluate("pagetools.unregister('shop')")
    await desktop.until(lambda: told == ["changed"])


async def test_a_handle_to_a_closed_tab_reaches_no_other_one(desktop: Desktop) -> None:
    first, second = await open_both(desktop)
    closed, tab = await desktop.tab(first), await desktop.tab(second)
    await first.close()
    for state in ("reloading", "gone"):
        await desktop.until(lambda: closed.state.value == state)  # noqa: B023
        with pytest.raises(TabNotFoundError):
            closed.who()
        with pytest.raises(TabNotFoundError):
            desktop.tools.on(closed.id).who()
    assert list(desktop.tabs) == [tab]
    assert await desktop.tools.who() == "B"


async def test_a_tab_that_reloads_slowly_keeps_its_place(desktop: Desktop) -> None:
    first, second = await open_both(desktop)
    tabs = [await desktop.tab(page) for page in (first, second)]
    desktop.site.pause = 1.5
    await first.send("Page.reload")
    await desktop.until(lambda: tabs[0].state.value == "reloading")
    assert list(desktop.tabs) == tabs
    assert await desktop.tools.who() == "B"
    with pytest.raises(TabNotFoundError):
        tabs[0].who()
    await desktop.until(lambda: tabs[0].state.value == "connected")
    assert list(desktop.tabs) == tabs


async def test_a_page_that_is_busy_does_not_respond_until_it_is_done(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "ROUND", 0.1)
    tab = await desktop.tab(await desktop.open())
    call = tab.spin(ms=1500)
    await desktop.until(lambda: tab.state.value == "not responding")
    assert list(desktop.tabs) == [tab]
    assert not call.done()
    assert await call == "done"
    await desktop.until(lambda: tab.state.value == "connected")
