"""A real browser for tests of the pages: Debian's Chromium, driven by Playwright."""

import gzip
import os
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from paper.pages.print_book import find_browser, wait_for_formulas

DESKTOP, PHONE = (1280, 800), (390, 844)
on_every_screen = pytest.mark.parametrize(
    "size, scheme", [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)


def needs_browser():
    """Skip where there is no browser; ``WHENPOOL_NEEDS_BROWSER`` makes that a failure."""
    if not find_browser():
        reason = "no Chromium was found; install one, or name it in WHENPOOL_BROWSER"
        (pytest.fail if os.environ.get("WHENPOOL_NEEDS_BROWSER") else pytest.skip)(reason)


@contextmanager
def looked_at(browser, file, size=DESKTOP, scheme="light", query="", axe=False):
    """A page from disk, of which its browser must not complain; nor axe-core where it is asked, and
    then it is no wider than the screen.

    A request for anything that is not on disk counts as a complaint.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(600_000)  # of what never happens
    page, complaints = context.new_page(), []

    def requested(request):
        if urlsplit(request.url).scheme not in ("file", "data", "blob"):
            complaints.append(f"asked: {request.url}")

    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
    page.on("request", requested)
    page.goto(Path(file).as_uri() + query, wait_until="load")
    wait_for_formulas(page)
    yield page
    assert not complaints, complaints
    if axe:  # last: it asks for stylesheets that a page from disk may not read
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0, f"the page is {wider} pixels wider than the screen"
        found = violations(page)
        assert not found, found
    context.close()


def bytes_loaded(browser, file):
    """What a page and all that it loads weigh, compressed as a web server sends them."""
    context = browser.new_context()
    page, urls = context.new_page(), set()
    page.on("request", lambda request: urls.add(request.url))
    page.goto(Path(file).as_uri(), wait_until="networkidle")
    context.close()
    paths = {unquote(urlsplit(url).path) for url in urls if urlsplit(url).scheme == "file"}
    return {path: len(gzip.compress(Path(path).read_bytes())) for path in paths}


def violations(page):
    """What axe-core finds that is serious, a line each."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        f"{rule['impact']} {rule['id']}: {node['target']} {node['html'][:120]}"
        for rule in Axe().run(page).response["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
