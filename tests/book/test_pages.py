"""The built book in a real browser, from disk, at the width of a desk and of a phone.

Looks at the pages in ``WHENPOOL_PAGES``, or at the whole book built from smoke-sized runs.
"""

import re

import pytest
from browsing import DESKTOP, PHONE, bytes_loaded, looked_at, needs_browser, on_every_screen
from clones import PAGES, ROOT

FRONT_PAGE_BYTES = 450_000  # with all that it loads, compressed
TOUCH = "e => e.dispatchEvent(new PointerEvent('click', {cancelable: true, pointerType: 'touch'}))"
DRAWN = (
    "[...document.querySelectorAll('article picture img')].every(i => i.complete && i.clientWidth)"
)


@pytest.fixture(scope="session")
def html(request):
    needs_browser()
    return request.getfixturevalue("pages")


@pytest.fixture
def opened(html, chromium):
    """Opens a page by its name, see `looked_at`."""
    return lambda name, *how, **more: looked_at(chromium, html / f"{name}.html", *how, **more)


@on_every_screen
@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_a_page_is_whole_fits_the_screen_and_axe_finds_nothing_serious(opened, name, size, scheme):
    with opened(name, size, scheme, axe=True) as page:
        images = page.eval_on_selector_all(
            "article img",
            "all => all.map(i => [i.getAttribute('alt'), i.complete && i.naturalWidth])",
        )
        assert all(alt and width for alt, width in images), images
        source = (ROOT / f"{name}.md").read_text() if name != "search" else ""
        for figure in re.findall(r"^\s*name: (fig-[\w-]+)", source, re.MULTILINE):
            assert page.locator(f"#{figure} img").count() == 1, figure
        formulas = page.locator("article .math").count()
        assert formulas == page.locator("article .math mjx-container").count()
        assert page.locator("mjx-merror").count() == 0


def test_the_search_finds_max_attention(opened):
    with opened("search", query="?q=max-attention") as page:
        page.wait_for_selector("#search-results li a")
        page.get_by_text(
            "Search finished"
        ).wait_for()  # until then the list grows, and a click may miss
        found = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
        assert all("/book/" in link for link in found)
        page.locator("#search-results li a").first.press("Enter")
        page.wait_for_url("**/book/**")
        assert "max-attention" in page.text_content("article").lower()  # it may be folded


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_slider_shows_how_models_lose_the_middle_while_they_learn(opened, size):
    with opened("book/last_state", size) as page:
        slider, output = page.locator("#learning input"), page.locator("#learning output")
        ratios = page.locator("#learning td:nth-child(2)")
        lines = page.locator("#learning polyline").first
        before = [output.inner_text(), ratios.all_inner_texts(), lines.get_attribute("points")]
        assert before[0] == "none, before training"
        slider.focus()
        page.keyboard.press("End")
        after = [output.inner_text(), ratios.all_inner_texts(), lines.get_attribute("points")]
        assert int(after[0].replace(",", "")) > 0  # texts
        assert all(one != other for one, other in zip(before, after, strict=True))
        assert slider.get_attribute("aria-valuetext") == after[0]


def test_five_models_lose_a_review_one_after_the_other_as_filler_grows(opened):
    with opened(PAGES[0]) as page:
        slider, says = page.locator("#hero input"), page.locator("#hero tbody td:last-child")
        words = page.locator("#hero .hero-text")
        slider.focus()
        page.keyboard.press("Home")  # which also stops what plays by itself
        read, short = says.all_inner_texts(), len(words.inner_text())
        page.keyboard.press("End")
        assert set(read) == {"negative ✓"}
        assert [text == "negative ✓" for text in says.all_inner_texts()] == [False] * 4 + [True]
        assert len(words.inner_text()) > 5 * short
        assert slider.get_attribute("aria-valuetext") == "90 % filler"
        assert not page.locator("#fig-hero img").is_visible()  # the still picture, for print


COUNTED = """window.going = new Set();
for (const [name, change] of [["setInterval", "add"], ["clearInterval", "delete"]]) {
    const usual = window[name];
    window[name] = (...given) => {
        const made = usual(...given);
        going[change](made ?? given[0]);
        return made;
    };
}"""


SEEN = """() => new Promise(done => new IntersectionObserver(
    ([entry]) => entry.isIntersecting && done(), { threshold: 0.6 }
).observe(document.querySelector("#hero")))"""


def test_the_first_figure_that_a_reader_plays_can_be_paused_when_it_comes_into_sight(
    html, chromium
):
    context = chromium.new_context(
        viewport={"width": 1280, "height": 150}
    )  # it plays when 60 % show
    page = context.new_page()
    page.add_init_script(COUNTED)
    page.goto((html / f"{PAGES[0]}.html").as_uri())
    button = page.locator("#hero button")
    button.click()
    page.set_viewport_size({"width": 1280, "height": 1200})
    page.locator("#hero").scroll_into_view_if_needed()
    page.evaluate(SEEN)
    assert (button.inner_text(), page.evaluate("going.size")) == ("Pause", 1)
    button.click()
    assert (button.inner_text(), page.evaluate("going.size")) == ("Play", 0)
    context.close()


def test_a_phone_gets_the_narrow_layout_of_figures_which_need_no_scrolling(opened):
    code = """all => all.map(i => [i.currentSrc, i.clientWidth / i.naturalWidth,
        i.getBoundingClientRect().right <= innerWidth])"""
    for size, end in ((PHONE, "-phone.svg"), (DESKTOP, ".svg")):
        with opened("book/training_to_skip", size) as page:
            page.eval_on_selector_all("details", "all => all.forEach(fold => fold.open = true)")
            page.wait_for_function(f"() => {DRAWN}")
            figures = page.eval_on_selector_all("article .cell_output figure picture img", code)
        assert len(figures) > 1
        for source, scale, inside in figures:
            assert source.endswith(end)
            assert (scale > 0.85, inside, "-phone" in source) == (True, True, size is PHONE)


def test_the_front_page_is_light(html, chromium):
    loaded = bytes_loaded(chromium, html / f"{PAGES[0]}.html")
    assert sum(loaded.values()) < FRONT_PAGE_BYTES, sorted(
        loaded.items(), key=lambda item: -item[1]
    )[:8]


def test_a_term_says_what_it_means_by_mouse_keyboard_and_touch(opened):
    with opened("book/training_to_skip", PHONE) as page:
        term, box = page.locator("a[data-definition]").first, page.get_by_role("tooltip")
        for show, hide in (
            (term.hover, lambda: page.mouse.move(0, 0)),
            (term.focus, lambda: page.keyboard.press("Escape")),
            (lambda: term.evaluate(TOUCH), lambda: page.keyboard.press("Escape")),
        ):
            page.wait_for_function("() => document.getElementById('definition').hidden")
            show()
            assert box.inner_text() == term.get_attribute("data-definition") != ""
            assert term.get_attribute("aria-describedby") == "definition"
            hide()


def test_the_ledger_filters_and_sorts(opened):
    with opened("book/ledger") as page:
        page.locator("#ledger-waiting > summary").click()
        visible = page.locator(".ledger tbody tr:visible")
        everything = page.locator(".ledger tbody tr").count()
        assert visible.count() == everything > 40
        page.get_by_label("Chapter").select_option("natural_bias")
        page.get_by_label("Thesis's scale").select_option("not run")
        assert 0 < visible.count() < everything
        assert all("not run" in row for row in visible.all_inner_texts())
        for label in ("Thesis's scale", "Chapter"):
            page.get_by_label(label).select_option("")
        assert visible.count() == everything
        page.get_by_label("Chapter").select_option("natural_bias")
        kept = visible.count()
        page.evaluate("""() => new Promise(done => {
            addEventListener("hashchange", () => setTimeout(done));
            location.hash = "#ledger-runs"; // another place on the page
        })""")
        assert (visible.count(), page.get_by_label("Chapter").input_value()) == (
            kept,
            "natural_bias",
        )
        page.get_by_label("Chapter").select_option("")
        page.locator("#ledger-waiting > summary").click()
        page.get_by_role("button", name=re.compile("claim", re.I)).first.focus()
        page.keyboard.press("Enter")
        first = visible.all_inner_texts()
        page.keyboard.press("Enter")
        assert visible.all_inner_texts() == first[::-1]
