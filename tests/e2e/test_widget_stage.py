"""The widget in a real browser, without a notebook: a scripted kernel stands behind it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .conftest import Site

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
HOSTILE = "<img src=x onerror=document.title='owned'><b>x</b>\u202egnp.\u200f" + "long" * 2000

# Counts what the widget hangs on the window and the document, and the timers that are due.
COUNTING = """
window.due = new Set();
const {setTimeout: set, clearTimeout: clear} = window;
window.setTimeout = (run, ms, ...rest) => {
  const id = set(() => { due.delete(id); run(...rest); }, ms);
  due.add(id);
  return id;
};
window.clearTimeout = (id) => { due.delete(id); clear(id); };
window.documentListeners = 0;
const add = document.addEventListener.bind(document);
document.addEventListener = (type, listener, options) => {
  documentListeners += 1;
  options?.signal?.addEventListener('abort', () => { documentListeners -= 1; });
  add(type, listener, options);
};
"""

Stage = Callable[..., Page]


@pytest.fixture(scope="module")
def stage_url() -> Iterator[str]:
    server = Site(ROOT)
    yield f"{server.url}/tests/e2e/widget_stage.html"
    server.close()


@pytest.fixture
def stage(browser: Browser, stage_url: str) -> Iterator[Stage]:
    """Opens the stage with a scene; what the console has to say in the meantime fails the test."""
    context = browser.new_context(viewport={"width": 900, "height": 800})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.add_init_script(COUNTING)
    said: list[str] = []

    def opened(scene: str, width: int = 900, theme: str = "light") -> Page:
        page = context.new_page()
        page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(f"{stage_url}?scene={scene}&theme={theme}")
        page.wait_for_function("window.ready")
        return page

    yield opened
    context.close()
    assert said == []


def cards(page: Page) -> Locator:
    return page.locator(".pt-card")


def open_card(page: Page, number: int = 0) -> Locator:
    card = cards(page).nth(number)
    card.locator(".pt-opener").click()
    card.locator(".pt-tool").first.wait_for()
    return card


def open_form(page: Page, tool: str) -> Locator:
    open_card(page)
    page.get_by_role("button", name=f"Call {tool}…").click()
    return page.get_by_role("form", name=f"Call {tool}")


def press_call(form: Locator) -> None:
    form.get_by_role("button", name="Call", exact=True).click()


def sent(page: Page, kind: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = page.evaluate("(kind) => model.sentOf(kind)", kind)
    return messages


def drawn(page: Page) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def delta(page: Page, fields: str) -> None:
    page.evaluate(f"model.delta({fields})")
    drawn(page)


def test_tabs_are_shown_as_python_numbers_them_and_as_the_person_left_them(stage: Stage) -> None:
    page = stage("busy")
    first, second, third, fourth, gone = (cards(page).nth(n) for n in range(5))
    for card, texts in (
        (first, ["tabs[0]", "To-do list", "localhost:5173", "focused", "answers calls to todo"]),
        (second, ["tabs[1]", "3 frames", "visible", "pinned", "funnel"]),
        (third, ["tabs[2]", "hidden · looked at 2 min ago", "shadowed by tabs[0]"]),
        (fourth, ["tabs[3]", "reloading", "looked at 2 h ago"]),
        (gone, ["Dashboard", "gone"]),
    ):
        for text in texts:
            expect(card).to_contain_text(text)
    title = second.locator(".pt-title")
    assert title.evaluate("(node) => node.scrollWidth > node.clientWidth")
    assert title.text_content() in (title.get_attribute("title") or "")
    expect(page.locator(".pt-head")).to_contain_text("listening on 127.0.0.1:9319")
    expect(page.locator(".pt-head")).to_contain_text("4 tabs, 17 tools")


def test_a_card_asks_for_its_tools_when_it_is_opened(stage: Stage) -> None:
    page = stage("busy")
    assert page.locator(".pt-tool").count() == 0
    assert sent(page, "tools") == []
    card = open_card(page)
    expect(card.locator(".pt-opener")).to_have_attribute("aria-expanded", "true")
    assert [message["tab"] for message in sent(page, "tools")] == ["todo-1"]
    tools = card.locator(".pt-tool")
    expect(tools.nth(0)).to_contain_text("title: string required")
    expect(tools.nth(1)).to_contain_text("read-only")
    expect(tools.nth(2)).to_contain_text("destructive")
    words = tools.nth(3).locator(".pt-desc")
    folded = words.evaluate("(node) => node.clientHeight")
    tools.nth(3).get_by_role("button", name="more").click()
    assert words.evaluate("(node) => node.clientHeight") > folded
    assert not tools.nth(0).get_by_role("button", name="more").is_visible()


def test_a_tool_is_called_with_what_the_form_holds(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "add_todo")
    form.get_by_label("title").fill("buy milk")
    form.get_by_label("tags").fill('["home"]')
    form.get_by_label("title").press("Enter")
    expect(form).to_contain_text("Answered in 14 ms")
    expect(form).to_contain_text("'title': 'buy milk'")
    (call,) = sent(page, "call")
    assert (call["tab"], call["ns"], call["name"]) == ("todo-1", "todo", "add_todo")
    assert call["args"] == {"title": "buy milk", "tags": ["home"]}
    form.get_by_role("button", name="Copy the cell").click()
    expect(form.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("await tools.add_todo(title=")


def test_help_and_errors_stand_at_their_field(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "add_todo")
    expect(form.get_by_label("title")).to_have_accessible_description("What has to be done.")
    form.get_by_label("tags").fill("[home]")
    press_call(form)
    expect(form.get_by_label("title")).to_be_focused()
    expect(form.get_by_label("title")).to_have_attribute("aria-invalid", "true")
    expect(form.get_by_label("tags")).to_have_accessible_description(re.compile("^Not JSON"))
    form.get_by_label("title").fill("x")
    expect(form.get_by_label("title")).to_have_attribute("aria-invalid", "false")
    assert sent(page, "call") == []


def test_arguments_can_be_written_as_json(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "add_todo")
    form.get_by_label("title").fill("milk")
    form.get_by_role("button", name="As JSON").click()
    area = form.get_by_label("arguments")
    assert '"title": "milk"' in area.input_value()
    area.fill('{"title": 5, "unknown": null}')
    press_call(form)
    expect(form).to_contain_text("Answered")
    assert sent(page, "call")[0]["args"] == {"title": 5, "unknown": None}


def test_a_destructive_tool_asks_twice(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "clear_todos")
    press_call(form)
    sure = form.get_by_role("button", name="This tool says it is destructive: call anyway")
    expect(sure).to_be_visible()
    assert sent(page, "call") == []
    sure.click()
    expect(form).to_contain_text("Answered")
    assert len(sent(page, "call")) == 1


def test_a_call_on_its_way_shows_progress_and_can_be_cancelled(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "export_todos")
    form.get_by_label("format").select_option("csv")
    press_call(form)
    cancel = form.get_by_role("button", name="Cancel")
    cancel.click()  # before the kernel has said which call it is
    assert sent(page, "cancel") == []
    page.evaluate("model.reply(model.sentOf('call')[0], {started: 'c1'})")
    assert [message["id"] for message in sent(page, "cancel")] == ["c1"]
    progress = "{done: 3, total: 4, message: 'nearly'}"
    pending = f"{{state: 'pending', ms: null, progress: {progress}}}"
    delta(page, f"{{calls: [kit.call('c1', {pending})]}}")
    expect(form.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "75")
    expect(form).to_contain_text("3 of 4 · nearly")
    form.get_by_label("limit").press("Enter")
    assert len(sent(page, "call")) == 1
    cancel.focus()
    page.evaluate("model.reply(model.sentOf('call')[0], {ok: false, error: 'cancelled', ms: 5})")
    expect(form).to_contain_text("Failed in 5 ms")
    expect(form.get_by_role("button", name="Call", exact=True)).to_be_focused()


def test_images_are_shown_only_when_they_are_image_data(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "list_todos")
    press_call(form)
    expect(form.locator("img")).to_have_count(1)
    assert (form.locator("img").get_attribute("src") or "").startswith("data:image/png;base64,")


def test_what_is_being_typed_survives_every_update(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "add_todo")
    field = form.get_by_label("title")
    field.fill("buy milk")
    field.evaluate("(node) => { node.setSelectionRange(2, 5); window.typed = node; }")
    for change in (
        "{tabs: {'todo-1': {title: 'Other', focused: false, lookedAt: 1}}}",
        "{tabs: {a: kit.tab('a', {number: 0}), 'todo-1': {number: 1}}, order: ['a', 'todo-1']}",
        "{tabs: {b: kit.tab('b', {number: 2})}, order: ['b', 'todo-1', 'a']}",
        "{tabs: {'todo-1': {apps: [{ns: 'todo', tools: ['add_todo', 'new']}]}}}",
        "{removed: ['a'], order: ['todo-1', 'b'], answers: {todo: 'b'}, pinned: 'b'}",
        "{calls: [kit.call('x')]}",
    ):
        delta(page, change)
        expect(field).to_be_focused()
        assert field.evaluate(
            "(node) => [node === typed, node.value, node.selectionStart, node.selectionEnd]"
        ) == [True, "buy milk", 2, 5]
    expect(cards(page).locator(".pt-title")).to_have_text(["Other", "Page b"])


def test_cards_come_in_the_kernels_order(stage: Stage) -> None:
    page = stage("busy")
    ids = ["gone-1", "todo-3", "todo-1", "shop-1", "todo-2"]
    page.get_by_role("button", name="Pin tabs[2]").focus()
    delta(page, f"{{order: {ids}}}")
    assert cards(page).locator(".pt-host").all_text_contents() == [
        "localhost:3000",
        "localhost:4000",
        "localhost:5173",
        "shop.localhost:8000",
        "localhost:5173",
    ]
    expect(page.get_by_role("button", name="Pin tabs[2]")).to_be_focused()


def test_a_changed_schema_keeps_what_was_typed_where_the_argument_is_still_there(
    stage: Stage,
) -> None:
    page = stage("one")
    form = open_form(page, "add_todo")
    form.get_by_label("title").fill("buy milk")
    page.evaluate("""() => {
      model.hold.add('tools');
      model.delta({tabs: {'todo-1': {apps: [{ns: 'todo', tools: ['add_todo']}]}}});
    }""")
    drawn(page)
    page.evaluate("""() => model.reply(model.sentOf('tools').at(-1), {tools: [kit.tool(
      'todo', 'add_todo', 'Changed', {title: {type: 'string'}, extra: {type: 'integer'}})]})""")
    expect(form.get_by_label("extra")).to_be_visible()
    expect(form.get_by_label("title")).to_have_value("buy milk")


def test_an_update_of_one_tab_touches_no_other_card(stage: Stage) -> None:
    page = stage("many")
    page.evaluate("""() => {
      window.touched = new Set();
      const observer = new MutationObserver((records) => {
        for (const {target} of records) {
          const card = (target.closest ? target : target.parentElement).closest('.pt-card');
          touched.add(card?.querySelector('.pt-number').textContent);
        }
      });
      const what = {subtree: true, childList: true, attributes: true, characterData: true};
      observer.observe(document.querySelector('.pt-cards'), what);
    }""")
    delta(page, "{tabs: {'todo-7': {focused: true, visible: true}}}")
    assert page.evaluate("[...touched]") == ["tabs[7]"]


def test_a_hundred_tabs_are_drawn_at_once_and_a_change_of_focus_within_frames(stage: Stage) -> None:
    page = stage("many")
    # The time that the widget takes itself: how soon a frame comes is the machine's affair.
    took = page.evaluate("""async () => {
      const begun = await window.begin(kit.SCENES.many());
      const started = performance.now();
      const view = await begun.view();
      const first = performance.now() - started;
      const draws = [];
      const frame = window.requestAnimationFrame.bind(window);
      window.requestAnimationFrame = (run) => frame(() => {
        const at = performance.now();
        run();
        draws.push(performance.now() - at);
      });
      for (let n = 0; n < 20; n++) {
        begun.model.delta({tabs: {[`todo-${n}`]: {focused: true}}});
        await new Promise((done) => frame(() => setTimeout(done)));
      }
      const nodes = view.el.querySelectorAll('*').length;
      return {first, draws: draws.sort((a, b) => a - b), nodes};
    }""")
    assert len(took["draws"]) == 20
    assert took["nodes"] < 100 * 40
    assert took["first"] < 1000
    assert took["draws"][10] < 30


def test_two_views_of_one_model_show_the_same_and_are_used_apart(stage: Stage) -> None:
    page = stage("busy")
    page.evaluate("async () => { window.second = await begun.view(); }")
    one, two = page.locator(".pagetools").nth(0), page.locator(".pagetools").nth(1)
    one.get_by_label("Search tabs and tools").fill("funnel")
    expect(one.locator(".pt-card:visible")).to_have_count(1)
    expect(two.locator(".pt-card:visible")).to_have_count(5)
    delta(page, "{tabs: {'todo-1': {title: 'Renamed'}}}")
    expect(one.locator(".pt-title").first).to_have_text("Renamed")
    expect(two.locator(".pt-title").first).to_have_text("Renamed")
    page.evaluate("first.remove()")
    expect(page.locator(".pagetools")).to_have_count(1)
    delta(page, "{tabs: {'todo-1': {title: 'Again'}}}")
    expect(page.locator(".pt-title").first).to_have_text("Again")


def test_a_view_that_is_drawn_later_starts_from_what_is_known_by_then(stage: Stage) -> None:
    page = stage("one")
    delta(page, "{tabs: {'todo-1': {title: 'Renamed'}}}")
    page.evaluate("async () => { window.second = await begun.view(); }")
    expect(page.locator(".pagetools").nth(1).locator(".pt-title")).to_have_text("Renamed")


def test_a_search_narrows_tabs_and_tools_and_is_left_with_escape(stage: Stage) -> None:
    page = stage("one")
    assert not page.get_by_label("Search tabs and tools").is_visible()
    page = stage("busy")
    box = page.get_by_label("Search tabs and tools")
    open_card(page)
    box.fill("export")
    visible = page.locator(".pt-card:visible")
    expect(visible).to_have_count(3)
    expect(visible.first.locator(".pt-tool:visible")).to_have_count(1)
    expect(visible.nth(1).locator(".pt-app:visible")).to_have_count(1)
    expect(page.locator(".pt-search")).to_contain_text("3 tools in 3 tabs")
    box.fill("no such thing")
    expect(page.locator(".pt-search")).to_contain_text("nothing found")
    box.press("Escape")
    expect(visible).to_have_count(5)
    expect(box).to_be_focused()
    box.fill("thrown away")  # known only from the description, now that the card was open
    expect(visible).to_have_count(1)


def test_everything_can_be_done_with_the_keyboard_and_no_key_reaches_the_notebook(
    stage: Stage,
) -> None:
    page = stage("one")
    page.evaluate("""() => {
      window.leaked = [];
      document.addEventListener('keydown', (event) => leaked.push(event.key));
    }""")
    keys = page.keyboard
    page.get_by_role("button", name="Connect a page").focus()
    keys.press("Tab")
    expect(page.locator(".pt-opener")).to_be_focused()
    keys.press("Enter")
    page.locator(".pt-tool").first.wait_for()
    keys.press("Tab")
    expect(page.get_by_role("button", name="Pin tabs[0]")).to_be_focused()
    keys.press("Enter")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.get_by_label("title")).to_be_focused()
    assert page.get_by_label("title").evaluate("(node) => getComputedStyle(node).outlineWidth") == (
        "2px"
    )
    keys.type("dd/x")
    keys.press("Enter")
    expect(page.get_by_role("form")).to_contain_text("'title': 'dd/x'")
    call = page.get_by_role("button", name="Call", exact=True)
    for _ in range(10):  # a date has several stops
        keys.press("Tab")
        if call.evaluate("(node) => node === document.activeElement"):
            break
    expect(call).to_be_focused()
    assert [message["tab"] for message in sent(page, "pin")] == ["todo-1"]
    assert page.evaluate("leaked") == []
    # Notebook 7 asks the focused element itself, before the widget sees the key.
    open_to_keys = page.locator(".pagetools, .pagetools *").evaluate_all("""(nodes) => nodes.filter(
      (node) => (node.tabIndex >= 0 || node.hasAttribute('tabindex'))
        && !node.hasAttribute('data-lm-suppress-shortcuts')
    ).map((node) => node.className)""")
    assert open_to_keys == []


def test_focus_stays_in_the_widget_when_what_had_it_goes_away(stage: Stage) -> None:
    page = stage("busy")
    open_card(page)
    page.get_by_role("button", name="Call add_todo…").click()
    page.get_by_label("title").fill("dd")
    delta(page, "{removed: ['todo-1']}")
    expect(page.locator(".pagetools")).to_be_focused()
    page.get_by_role("button", name="Cancel todo/export_todos").focus()
    delta(page, "{calls: [kit.call('c9', {tool: 'todo/export_todos', startedAt: Date.now()})]}")
    expect(page.locator(".pagetools")).to_be_focused()


@pytest.mark.parametrize("scene", ["stopped", "empty", "busy", "many"])
def test_it_fits_into_320_pixels(stage: Stage, scene: str) -> None:
    page = stage(scene, width=320)
    if scene == "busy":
        form = open_form(page, "export_todos")
        press_call(form)
    page.wait_for_timeout(100)
    wide = page.evaluate("""() => [...document.querySelectorAll('.pagetools *')].filter(
      (node) => node.checkVisibility() && node.getBoundingClientRect().right > innerWidth
        && !node.closest('.pt-unseen, pre, .pt-fill, .pt-title, .pt-call')
    ).map((node) => node.className)""")
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_hostile_text_is_only_text(stage: Stage) -> None:
    page = stage("empty", width=600)
    page.evaluate(
        """(bad) => {
      model.hold.add('tools');
      model.delta({
        tabs: {bad: kit.tab('bad', {
          title: bad, url: 'javascript:' + bad, host: bad, letter: '<', state: bad,
          apps: [{ns: bad, tools: [bad]}],
        })},
        calls: [kit.call('c', {tool: bad, tab: bad, state: bad, note: bad})],
      });
    }""",
        HOSTILE,
    )
    cards(page).locator(".pt-opener").click()
    page.wait_for_function("model.sentOf('tools').length")
    page.evaluate(
        """(bad) => model.reply(model.sentOf('tools')[0], {tools: [{
        ...kit.tool(bad, bad, bad, {[bad]: {type: bad, description: bad, default: bad}}, [bad]),
        title: bad, params: [{name: bad, type: bad, required: true, description: bad}],
    }]})""",
        HOSTILE,
    )
    page.locator(".pt-tool-head button").click()
    expect(page.locator(".pt-form")).to_be_visible()
    assert page.locator(".pagetools :is(img, b, script, a, iframe)").count() == 0
    assert page.title() == "The widget without a notebook"
    assert page.evaluate("document.documentElement.scrollWidth") <= 600
    head = cards(page).locator(".pt-card-head").bounding_box()
    assert head is not None
    assert head["height"] < 120


def test_when_nothing_is_connected_it_says_why_and_what_to_do(stage: Stage) -> None:
    page = stage("stopped")
    expect(page.locator(".pt-empty")).to_contain_text("The bridge is not running")
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "%pagetools start"
    delta(page, "{bridge: kit.bridge}")
    expect(page.locator(".pt-empty")).to_contain_text("No page is connected yet")
    expect(page.locator(".pt-way")).to_have_count(5)
    expect(page.locator(".pt-empty")).to_contain_text('<script type="module"')
    delta(page, "{tabs: {a: kit.tab('a')}}")
    expect(page.locator(".pt-empty")).to_be_hidden()
    page.get_by_role("button", name="Connect a page").click()
    expect(page.locator(".pt-connect .pt-way")).to_have_count(5)
    assert len(sent(page, "snippet")) == 1
    expect(page.get_by_role("status").last).to_contain_text("Page a connected")


def test_calls_are_listed_with_their_outcome_in_words(stage: Stage) -> None:
    page = stage("busy")
    rows = page.locator(".pt-call")
    expect(rows).to_have_count(7)
    texts = ("42 of 100", "", "answered", "failed", "timed out", "page gone", "cancelled")
    for row, text in zip(rows.all(), texts, strict=True):
        expect(row).to_contain_text(text)
    page.get_by_role("button", name="show all 7").click()
    expect(rows).to_have_count(9)
    page.get_by_role("button", name="Cancel shop/search").click()
    expect(rows.nth(1)).to_contain_text("Cancelling…")
    assert [message["id"] for message in sent(page, "cancel")] == ["c8"]


def test_time_goes_on_only_while_something_is_on_its_way_and_in_sight(stage: Stage) -> None:
    page = stage("busy")
    time = page.locator(".pt-call .pt-time").first
    before = time.inner_text()
    expect(time).not_to_have_text(before)
    page.evaluate("first.el.remove()")
    page.wait_for_function("due.size === 0")
    page.evaluate("document.body.append(first.el)")
    before = time.inner_text()
    expect(time).not_to_have_text(before)


def test_a_kernel_that_takes_its_time_is_said_to(stage: Stage) -> None:
    page = stage("one")
    page.evaluate("model.hold.add('tools')")
    cards(page).locator(".pt-opener").click()
    expect(page.get_by_text("waiting for the kernel…")).to_be_visible()
    page.evaluate("model.reply(model.sentOf('tools')[0], {error: 'The page is asleep'})")
    expect(page.get_by_text("waiting for the kernel…")).to_be_hidden()
    expect(page.locator(".pt-note")).to_contain_text("The page is asleep")
    page.evaluate("model.hold.clear()")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".pt-tool")).to_have_count(4)


def test_after_a_restart_of_the_kernel_it_is_grey_and_says_what_to_run(stage: Stage) -> None:
    page = stage("one")
    form = open_form(page, "export_todos")
    form.get_by_label("format").select_option("csv")
    press_call(form)
    page.evaluate("model.restartKernel()")
    expect(page.get_by_role("alert")).to_contain_text("The kernel was restarted: run")
    expect(page.get_by_role("alert")).to_contain_text("%pagetools start")
    assert page.locator(".pt-content").evaluate("(node) => node.inert")
    expect(page.locator(".pt-running")).to_be_hidden()
    page.get_by_role("button", name="Copy the command").last.click()


def test_motion_is_left_out_for_those_who_do_not_want_it(stage: Stage) -> None:
    page = stage("busy")
    animation = "(node) => getComputedStyle(node).animationName"
    assert page.locator(".pt-icon-dots").first.evaluate(animation) != "none"
    page.emulate_media(reduced_motion="reduce")
    assert page.locator(".pt-icon-dots").first.evaluate(animation) == "none"


def test_nothing_is_left_of_a_view_that_is_removed(stage: Stage) -> None:
    page = stage("busy")
    form = open_form(page, "add_todo")
    form.get_by_label("title").fill("x")
    form.get_by_label("title").press("Enter")
    page.evaluate("first.remove()")
    assert page.locator(".pagetools").count() == 0
    page.evaluate("begun.destroy()")
    assert page.evaluate("[due.size, documentListeners, model.listeners.size]") == [0, 0, 0]
    page.evaluate("model.delta({pinned: null})")
