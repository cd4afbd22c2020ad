"""Pages that know nothing of us, in a browser that is attached to, before they load or after."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pytest

from pagetools_ipy import CallCancelledError, PageToolError

from .test_surfaces import EXACT, LIBRARIES, NPM, ROWS, Runtime

if TYPE_CHECKING:
    from ..cdp import Chromium, Page
    from .person import Person

pytest_plugins = ["tests.e2e.desktop", "tests.e2e.person"]
pytestmark = pytest.mark.browser

TIMES = 5
"""How often each way to open a tab is gone."""
REGISTER = (
    "document.modelContext.registerTool({{name: '{0}', description: 'd', execute: () => '{0}'}})"
)
TOGETHER = 0.7
"""Seconds from the first tool of a page to the last; the timers of a hidden tab take longer."""
LATE = pytest.mark.parametrize("late", [False, True], ids=["first", "late"])
MANY = [f"tool{number}" for number in range(30)]


@pytest.fixture(scope="module")
def chrome(native_chrome: Chromium) -> Chromium:
    return native_chrome


# ---- runtimes, kinds of results, kinds of errors


def kept(runtime: Runtime, browser: str) -> dict[str, object]:
    """What comes of each kind of answer. Errors that a browser hides from pages, it tells us."""
    told = {"error", "thrownText", "rejected"} if browser == "native" else set()
    return EXACT | {name: how for name, how in runtime.lost.items() if name not in told}


async def cancelled(person: Person, page: Page) -> str:
    call = person.tools.waits()
    await person.tools.text()  # by then it runs
    call.cancel()
    with pytest.raises(CallCancelledError):
        await call
    knows = await page.evaluate(
        "new Promise((done) => setTimeout(() => done(window.sawAbort), 50))"
    )
    return "cancelled, and the page knows" if knows else "cancelled"


@pytest.mark.parametrize(("runtime", "browser"), ROWS)
async def test_every_runtime_gives_every_kind_of_answer(
    runtime: Runtime, browser: str, person: Person, plain_chrome: Chromium
) -> None:
    library = LIBRARIES.get(runtime.library, "")
    if not (NPM / library).exists():
        pytest.skip(f"{runtime.library} is not installed: npm ci --prefix tests/npm")
    if browser == "plain":
        person.browser = plain_chrome
    tag = f'<script src="/npm/{library}" defer></script>' if library else ""
    url = person.url("table.html", place=runtime.place, library=tag, before="")
    page = await person.show(url, attach=not runtime.first)
    await person.listed(*EXACT)
    calls = {name: person.tools[name](x="é漢") for name in EXACT if name != "waits"}
    found = {name: await person.outcome(call) for name, call in calls.items()}
    found["waits"] = await cancelled(person, page)
    await page.close()
    assert found == kept(runtime, browser)


async def test_a_call_that_is_cancelled_at_once_leaves_the_page_alone(person: Person) -> None:
    page = await person.show(person.url("page.html", name="a", more="1"), attach=True)
    await person.listed("a", "where", "run", "waits", "soon")
    call = person.tools.run(code="window.ran = true")
    call.cancel()
    with pytest.raises(CallCancelledError):
        await call
    await person.tools.where()  # whatever was on its way has come by now
    assert await page.evaluate("window.ran") is None


async def test_a_page_that_was_there_before_shows_after_a_reload_what_it_did_not_find(
    person: Person,
) -> None:
    url = person.url("table.html", place="navigator", library="", before="")
    await person.show(url, attach=True)
    tab = await person.tab_at(url)
    assert list(tab.tools) == []
    await tab.reload()
    assert sorted(tab.tools) == sorted(EXACT)


async def listed_together(person: Person) -> None:
    await person.until(lambda: len(person.tools) > 0)
    await person.listed(*MANY, seconds=TOGETHER)


@LATE
async def test_the_tools_of_a_page_that_has_many_come_together(late: bool, person: Person) -> None:
    await person.show(person.url("many.html"), attach=late)
    await listed_together(person)
    assert await person.tools.tool29() == 29


async def test_so_they_do_in_a_tab_that_nobody_looks_at(person: Person) -> None:
    await person.attach()
    url = person.url("many.html")
    await person.browser.send("Target.createTarget", url=url, background=True)
    await listed_together(person)
    assert not (await person.tab_at(url)).visible


# ---- forms


async def forms(person: Person, late: bool) -> Page:
    page = await person.show(person.url("forms.html"), attach=late)
    await person.listed("find", "book", "go")
    return page


@LATE
async def test_a_form_that_sends_itself_answers_as_the_page_says(
    late: bool, person: Person
) -> None:
    await forms(person, late)
    given = await person.tools.find(where="sea", size="l", nights=2, quiet=True)
    assert given == {"where": "sea", "size": "l", "nights": "2", "quiet": "on"}
    with pytest.raises(PageToolError, match="Form validation failed: where"):
        await person.tools.find(where="")


@LATE
async def test_a_form_that_leaves_the_page_is_answered_by_the_next_one(
    late: bool, person: Person
) -> None:
    page = await forms(person, late)
    tab = person.tabs["Forms"]
    await page.evaluate(f"document.forms.go.action = {person.url('said.html')!r}")
    assert await tab.go(q="é") == [{"said": "é"}]
    await person.until(lambda: tab.title == "Said")
    assert person.web == [tab]


@LATE
async def test_a_form_waits_for_the_person(late: bool, person: Person) -> None:
    page = await forms(person, late)
    call = person.tools.book(room="7")
    await page.until("document.forms.book.elements.room.value === '7'")
    assert not call.done()
    await page.evaluate("document.getElementById('send').click()")
    assert await call in ([], None)
    await page.until("document.title === 'Left'")


@LATE
async def test_a_form_that_is_reset_or_cancelled_ends_its_call(late: bool, person: Person) -> None:
    page = await forms(person, late)
    call = person.tools.book(room="7")
    await page.until("document.forms.book.elements.room.value === '7'")
    await page.evaluate("document.forms.book.reset()")
    with pytest.raises(PageToolError, match="reset"):
        await call
    call = person.tools.book(room="8")
    await page.until("document.forms.book.elements.room.value === '8'")
    call.cancel()
    with pytest.raises(CallCancelledError):
        await call
    await page.until("!document.querySelector(':tool-form-active')")


# ---- new tabs and windows


async def test_every_new_tab_is_listed(person: Person) -> None:
    opener = await person.show(person.url("page.html", name="opener"))
    await person.attach()
    names: list[str] = []

    def url(**words: str) -> str:
        names.append(f"page{len(names)}")
        return person.url("page.html", name=names[-1], **words)

    link = "Object.assign(document.createElement('a'), {target: '_blank', rel: 'noopener'})"
    for _ in range(TIMES):
        # These find our context where they look for one before they have loaded.
        await opener.evaluate(f"void open({url(legacy='1')!r})")
        legacy = url(legacy="1")
        await opener.evaluate(f"Object.assign({link}, {{href: {legacy!r}}}).click()")
        await person.desktop.duplicator.evaluate(f"void chrome.tabs.create({{url: {url()!r}}})")
        await person.browser.open_unwatched(url())
    await person.listed("opener", *names, seconds=15)
    assert len(person.web) == 1 + len(names)
    for name in names:
        assert await person.tools[name]() == name


FRAME = "const f = document.createElement('iframe'); "
WINDOWS = {
    "its page": "open({here})",
    "another site's page": "open({there})",
    "left at once": "open('about:blank').location = {here}",
    "looked at": "const w = open(); w.seen = w.document.body; w.location = {here}",
    "filled": "const w = open(); w.document.body.append('Wait'); w.location = {here}",
    "written": "const w = open(); w.document.write('Wait'); w.location = {here}",
    "frame looked at": FRAME + "f.src = {here}; document.body.append(f); f.contentWindow.seen = 1",
    "frame filled": (
        FRAME + "document.body.append(f); f.contentDocument.body.append('Wait'); f.src = {here}"
    ),
    "frame written": (
        FRAME + "document.body.append(f); f.contentDocument.write('Wait'); f.src = {here}"
    ),
}


@pytest.mark.parametrize("legacy", [False, True], ids=["", "legacy"])
@pytest.mark.parametrize("way", WINDOWS)
async def test_a_window_that_is_empty_at_first_is_listed_as_its_page_is(
    way: str, legacy: bool, person: Person
) -> None:
    opener = await person.show(person.url("page.html", name="opener"))
    await person.attach()
    names = [f"opened{number}" for number in range(TIMES)]
    for name in names:
        words = {"name": name, **({"legacy": "1"} if legacy else {})}
        here, there = (repr(person.url("page.html", there=t, **words)) for t in (False, True))
        await opener.evaluate(f"{{{WINDOWS[way].format(here=here, there=there)}}} 0")
    await person.listed("opener", *names)
    for name in ("opener", *names):
        assert await person.tools[name]() == name


async def test_a_window_that_is_written_and_stays_so_is_listed(person: Person) -> None:
    opener = await person.show(person.url("page.html", name="opener"))
    await person.attach()
    text = f"<title>Written</title><script>{REGISTER.format('own')}</scr` + `ipt>"
    await opener.evaluate(f"{{const w = open(); w.document.write(`{text}`); w.document.close()}}")
    await person.listed("opener", "own")
    assert await person.tools.own() == "own"


# ---- frames


@LATE
async def test_frames_are_listed_under_their_tab(late: bool, person: Person) -> None:
    noted = 'onload="this.dataset.loaded = true"'

    def frame(name: str, more: str = "", file: str = "page.html", **words: object) -> str:
        url = person.url(file, name=name, **words)  # type: ignore[arg-type]
        return f'<iframe id="{name}" src="{html.escape(url)}" {more} {noted}></iframe>'

    script = f"<script>{REGISTER.format('doc')}</script>"
    markup = [
        frame("same"),
        frame("shown", 'allow="tools"', there=True),
        # The page may see this one as well, and must not list it for the second time.
        frame("shared", 'allow="tools"', "inner.html", there=True, exposed=person.pages.here),
        frame("hidden", there=True),
        frame("foreign", there=True, legacy="1"),
        frame("boxed", 'sandbox="allow-scripts"', legacy="1"),
        f'<iframe id="doc" name="doc" srcdoc="{html.escape(script)}" {noted}></iframe>',
    ]
    if not late:
        await person.attach()
    page = await person.show(person.url("page.html", name="top"))
    await page.evaluate(f"document.body.insertAdjacentHTML('beforeend', {''.join(markup)!r})")
    if late:
        await page.until(
            "[...document.querySelectorAll('iframe')].every((frame) => frame.dataset.loaded)"
        )
        await person.attach()
    legacy = [] if late else ["foreign", "boxed"]
    names = ["top", "same", "shown", "doc", *legacy]
    await person.listed(*names, "shared", "both")
    (tab,) = person.web
    for name in names:
        assert await tab.tools[name]() == name
    assert await tab.shared() == "inner shared"
    assert sorted(person.tools.on(ns=person.pages.here)) == ["doc", "same", "top"]
    await page.evaluate(
        "document.querySelectorAll('#same, #shown, #doc').forEach((f) => f.remove())"
    )
    await person.listed("top", "shared", "both", *legacy)
    await page.evaluate("document.querySelectorAll('iframe').forEach((frame) => frame.remove())")
    await person.listed("top")
    assert person.web == [tab]


async def test_frames_of_another_site_within_such_frames_are_listed(person: Person) -> None:
    page = await person.show(person.url("page.html", name="top"), attach=False)
    insert = "document.body.insertAdjacentHTML('beforeend', `<iframe src='{}'></iframe>`)"
    middle = person.url("page.html", there=True, legacy="1", name="middle")
    await page.evaluate(insert.format(middle))
    await person.listed("top", "middle")
    (target,) = [
        key for key, url in (await person.browser.targets("iframe")).items() if url == middle
    ]
    frame = await person.browser.attach(target)
    await frame.evaluate(insert.format(person.url("page.html", legacy="1", name="inner")))
    await person.listed("top", "middle", "inner")
    (tab,) = person.web
    assert await tab.inner() == "inner"
    await frame.evaluate("document.querySelector('iframe').remove()")
    await person.listed("top", "middle")
    await page.evaluate("document.querySelector('iframe').remove()")
    await person.listed("top")
