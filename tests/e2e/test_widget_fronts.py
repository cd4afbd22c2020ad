"""The live panel in JupyterLab and Notebook 7, with the quickstart and two real tabs."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ..jupyter import jupyter_server
from .fronts import open_notebook

pytestmark = [pytest.mark.browser, pytest.mark.kernel, pytest.mark.timeout(240)]

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"
FRONTS = {"lab": "doc/tree/lab.ipynb", "notebook": "notebooks/notebook.ipynb"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("jupyter")
    (home / "notebooks").mkdir()
    for front in FRONTS:
        shutil.copy(QUICKSTART, home / "notebooks" / f"{front}.ipynb")
    with jupyter_server(home / "notebooks", home) as url:
        yield url


class Desk:
    """A notebook with its panel, and the tabs beside it.

    Args:
        browser: Where everything is open.
        server: The Jupyter server's URL.
        front: Which front end.
    """

    def __init__(self, browser: Browser, server: str, front: str) -> None:
        self.notebook = open_notebook(browser, f"{server}/{FRONTS[front]}")
        self.tabs: list[Page] = []

    @property
    def panel(self) -> Locator:
        return self.notebook.cells.first.locator(".pagetools")

    def card(self, title: str) -> Locator:
        return self.panel.locator(".pt-card").filter(has_text=title)

    def open_tab(self, title: str) -> Page:
        """Open the demo page in another tab of the notebook's window."""
        found = re.search(r"127\.0\.0\.1:\d+", self.panel.inner_text())
        assert found
        page = self.notebook.page.context.new_page()
        page.add_init_script(SCRIPTED_FOCUS)
        page.goto(f"http://{found[0]}/demo")
        page.evaluate("(title) => { document.title = title; }", title)
        self.tabs.append(page)
        self.notebook.page.bring_to_front()
        return page

    def look_at(self, page: Page | None) -> None:
        """Have one of the tabs in front, or the notebook."""
        for tab in self.tabs:
            tab.evaluate("(now) => lookAt(now)", tab is page)

    def form(self, title: str, tool: str) -> Locator:
        """The opened form of a tool of a tab."""
        card = self.card(title)
        if card.locator(".pt-opener").get_attribute("aria-expanded") != "true":
            card.locator(".pt-opener").click()
        form = card.get_by_role("form", name=f"Call {tool}")
        if not form.is_visible():
            card.get_by_role("button", name=f"Call {tool}…").click()
        return form

    def restart_kernel(self) -> None:
        """Press the toolbar's button and confirm."""
        page = self.notebook.page
        page.get_by_text("Idle").first.wait_for(state="attached", timeout=60_000)
        page.locator(
            '[data-command="kernelmenu:restart"], jp-button[data-command*="restart-kernel"], '
            '[title^="Restart the kernel"]'
        ).first.click()
        page.locator("dialog .jp-mod-accept, .jp-Dialog .jp-mod-warn").last.click()

    def close(self) -> None:
        self.notebook.page.context.close()


# Under Playwright every page has the focus at all times; tests/e2e/test_focus.py has real windows.
SCRIPTED_FOCUS = """
let looked = false;
document.hasFocus = () => looked;
Object.defineProperty(document, 'visibilityState', {get: () => (looked ? 'visible' : 'hidden')});
window.lookAt = (now) => { looked = now; dispatchEvent(new Event(now ? 'focus' : 'blur')); };
"""


@pytest.fixture(params=FRONTS)
def desk(browser: Browser, server: str, request: pytest.FixtureRequest) -> Iterator[Desk]:
    opened = Desk(browser, server, request.param)
    yield opened
    opened.close()


def test_a_person_works_with_the_panel(desk: Desk) -> None:
    desk.notebook.run()
    expect(desk.panel).to_contain_text("listening on 127.0.0.1:")
    expect(desk.panel).to_contain_text("%pagetools open")

    left, right = desk.open_tab("Left"), desk.open_tab("Right")
    tabs_come_with_their_tools(desk)
    focus_marks_move(desk, left, right)
    a_call_by_hand_reaches_its_tab(desk, left, right)
    a_call_can_be_cancelled(desk, right)
    markup_is_text(desk, left)
    the_panel_survives_a_reload(desk)
    the_panel_says_that_the_kernel_was_restarted(desk)


def tabs_come_with_their_tools(desk: Desk) -> None:
    expect(desk.panel.locator(".pt-card")).to_have_count(2)
    expect(desk.card("Left")).to_contain_text("tabs[0]")
    expect(desk.card("Right")).to_contain_text("add_todo")


def focus_marks_move(desk: Desk, left: Page, right: Page) -> None:
    for looked_at, page, other in (("Left", left, "Right"), ("Right", right, "Left")):
        desk.look_at(page)
        expect(desk.card(looked_at)).to_contain_text("focused")
        expect(desk.card(looked_at)).to_contain_text("answers calls to todo")
        expect(desk.card(other)).not_to_contain_text("focused")
        expect(desk.card(other)).to_contain_text("shadowed by")
    desk.look_at(None)
    expect(desk.panel).not_to_contain_text("focused")
    expect(desk.card("Right")).to_contain_text("answers calls to todo")  # looked at last


def a_call_by_hand_reaches_its_tab(desk: Desk, left: Page, right: Page) -> None:
    form = desk.form("Left", "add_todo")
    form.get_by_label("title").fill("by hand")
    desk.notebook.page.keyboard.press("Enter")
    expect(form).to_contain_text("Answered in")
    expect(form).to_contain_text('"title": "by hand"')
    expect(form).to_contain_text('await tabs["Left"].add_todo(title="by hand"')
    left.get_by_text("by hand").first.wait_for()
    assert right.locator("#calls li").count() == 0
    expect(desk.panel.locator(".pt-calls")).to_contain_text("todo/add_todo")


def a_call_can_be_cancelled(desk: Desk, right: Page) -> None:
    form = desk.form("Right", "wait_forever")
    form.get_by_role("button", name="Call", exact=True).click()
    form.get_by_role("button", name="Cancel").click()
    expect(form).to_contain_text("cancelled")
    right.get_by_text("wait_forever").first.wait_for()


def markup_is_text(desk: Desk, left: Page) -> None:
    hostile = "<img src=x onerror=document.title='owned'>"
    left.evaluate("(title) => { document.title = title; }", hostile)
    expect(desk.card(hostile)).to_be_visible()
    assert desk.panel.locator("img").count() == 0
    assert desk.notebook.page.title() != "owned"
    left.evaluate("document.title = 'Left'")


def the_panel_survives_a_reload(desk: Desk) -> None:
    page = desk.notebook.page
    page.get_by_role("button", name="Save and create checkpoint").click()
    page.wait_for_timeout(1500)
    page.reload()
    expect(desk.card("Left")).to_be_visible(timeout=60_000)
    expect(desk.panel.locator(".pt-card")).to_have_count(2)
    began = time.monotonic()
    desk.tabs[0].evaluate("document.title = 'Renamed'")
    expect(desk.card("Renamed")).to_be_visible()
    assert time.monotonic() - began < 2
    desk.tabs[0].evaluate("document.title = 'Left'")


def the_panel_says_that_the_kernel_was_restarted(desk: Desk) -> None:
    desk.restart_kernel()
    expect(desk.panel).to_contain_text("The kernel was restarted", timeout=30_000)
    desk.notebook.run_count = 0
    desk.notebook.page.wait_for_timeout(2000)
    desk.notebook.run()
    expect(desk.card("Left")).to_be_visible(timeout=20_000)  # same port, pages back by themselves
    expect(desk.card("Right")).to_be_visible()
