"""A notebook in a front end, used the way a person uses one."""

from __future__ import annotations

from playwright.sync_api import Browser, Locator, Page


class Notebook:
    """An open notebook whose code cells are run one by one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.cells = page.locator(".jp-Notebook .jp-CodeCell")
        self.run_count = 0

    def start(self) -> Locator:
        """Start the next cell; returns its output."""
        if self.run_count == 0:
            self._start_first()
        else:
            self.cells.nth(self.run_count).locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")
        self.run_count += 1
        return self.cells.nth(self.run_count - 1).locator(".jp-Cell-outputWrapper")

    def _start_first(self) -> None:
        # A front drops what is run before its kernel is connected, and shows no sign of either.
        first = self.cells.first
        for _ in range(30):
            # JupyterLab asks which kernel is meant when its own had not come back after a reload.
            for button in self.page.locator("dialog .jp-mod-accept").all():
                button.click()
            first.locator(".cm-content").click()
            self.page.keyboard.press("Shift+Enter")
            self.page.wait_for_timeout(1000)
            if "[ ]" not in first.locator(".jp-InputPrompt").inner_text():
                return
        raise AssertionError("the first cell did not start")

    def run(self) -> Locator:
        """Run the next code cell to its end; returns its output."""
        output = self.start()
        self.ended()
        return output

    def ended(self) -> None:
        prompt = self.cells.nth(self.run_count - 1).locator(".jp-InputPrompt")
        prompt.get_by_text(f"[{self.run_count}]:").wait_for(timeout=30_000)

    def stop_button(self) -> None:
        # Both fronts: the toolbar's button, which carries the command that it runs.
        self.page.locator(
            '[data-command="notebook:interrupt-kernel"], '
            'jp-button[data-command*="interrupt"], [title^="Interrupt"]'
        ).first.click()


def open_notebook(browser: Browser, url: str) -> Notebook:
    """Open a notebook and wait until its kernel is there."""
    page = browser.new_context(viewport={"width": 1100, "height": 1000}).new_page()
    page.goto(url)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    page.get_by_text("Idle").first.wait_for(state="attached", timeout=60_000)
    return Notebook(page)
