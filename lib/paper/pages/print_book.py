"""The book as one PDF, or its article as another, printed by a browser without a window."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import yaml

from paper.pages.freshness import pages_of
from paper.runs.run import commit
from whenpool.base.errors import check

BROWSER = "WHENPOOL_BROWSER"  # Names another browser than the Chromium on the path
ARTICLE = "article"


def find_browser() -> str | None:
    """Where a Chromium of this machine is, or None."""
    names = (os.environ.get(BROWSER), "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, filter(None, names))), None)


@contextmanager
def opened_browser() -> Iterator[Any]:
    """A browser of Playwright that is closed in the end."""
    from playwright.sync_api import sync_playwright

    executable = find_browser()
    check(executable, f"no Chromium was found; install one, or name it in {BROWSER}")
    with sync_playwright() as playwright:
        # The pages are our own, and containers lack what the sandbox needs.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def wait_for_formulas(page: Any) -> None:
    """Wait until the formulas of a page are typeset."""
    page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise")


def print_book(root: Path, paper: bool = False) -> Path:
    """Print the built pages of a clone but its article, or with ``paper`` the article alone;
    returns the PDF. Raises `InputError` when a page is not built, or there is no browser."""
    from pypdf import PdfWriter

    html, static = root / "_build" / "html", root / "book" / "_static"
    names = [f"book/{name}" for name in pages_of(root) if (name == ARTICLE) == paper]
    for name in names:
        check((html / f"{name}.html").exists(), f"page {name} is not built; run make book")
    author = [
        yaml.safe_load((root / "_config.yml").read_text("utf-8"))["author"],
        f"Commit {commit()}",
    ]
    # the serif that comes with matplotlib, so that a page looks the same on every machine
    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf").as_uri()
    faces = "".join(
        "@font-face "
        f"{{font-family: 'Book Serif'; {style} src: url('{fonts}/STIXGeneral{name}.ttf')}}"
        for name, style in (
            ("", ""),
            ("Italic", "font-style: italic;"),
            ("Bol", "font-weight: 700;"),
            ("BolIta", "font-style: italic; font-weight: 700;"),
        )
    )
    book, works = PdfWriter(), []
    with opened_browser() as browser:
        # as wide as A4 without its margins, in the pixels of CSS
        page = browser.new_page(viewport={"width": 643, "height": 900})
        page.emulate_media(media="print")
        if paper:
            page.goto((html / "book" / "bibliography.html").as_uri())
            works = page.locator("div.citation").evaluate_all(
                "all => all.map(work => work.outerHTML)"
            )
        for name in names:
            page.goto((html / f"{name}.html").as_uri(), wait_until="load")
            page.add_style_tag(path=static / "print.css")
            page.add_style_tag(content=faces)
            page.add_script_tag(path=static / "print.js")
            wait_for_formulas(page)
            if paper:
                page.evaluate("printedByItself", works)
            first = [len(book.pages), author if name == names[0] else None]
            title = page.evaluate("([before, author]) => forPrint(before, author)", first)
            printed = page.pdf(
                prefer_css_page_size=True, print_background=True, tagged=True, outline=True
            )
            book.append(BytesIO(printed), title.partition(" —")[0])
    target = root / "_build" / ("whenpool-paper.pdf" if paper else "whenpool.pdf")
    book.write(target)
    return target
