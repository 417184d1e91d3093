"""The book as one PDF, or its article as another, printed by a browser without a window."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import matplotlib
import yaml
from jinja2 import Environment

from whenpool.base.errors import InputError, check
from whenpool.runs.run import commit

if TYPE_CHECKING:  # the packages of the extra "print"
    from bs4 import Tag
    from playwright.sync_api import Browser, Page

BROWSER = "WHENPOOL_BROWSER"  # Names another browser than the Chromium on the path


def find_browser() -> str | None:
    """Where a Chromium of this machine is, or None."""
    names = (os.environ.get(BROWSER), "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, filter(None, names))), None)


@contextmanager
def opened_browser() -> "Iterator[Browser]":
    """A browser that is closed in the end."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise InputError("printing needs the package playwright: pip install -e '.[print]'") from None
    executable = find_browser()
    if not executable:
        raise InputError(f"no Chromium was found; install one, or name it in {BROWSER}")
    with sync_playwright() as playwright:
        # The pages are our own, and containers lack what the sandbox needs.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def wait_for_formulas(page: "Page") -> None:
    """Wait until the formulas of a page are typeset."""
    page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise")


NAME = "whenpool.pdf"
PAPER_NAME = "whenpool-paper.pdf"
PAPER, WORKS = "book/article", "book/bibliography"
"""The page that is printed by itself, and the one with the works that it cites."""
_FOOTER = (
    '<div style="width: 100%; text-align: center; font: 8pt serif; color: #555">'
    '<span class="pageNumber"></span></div>'
)
_OF_NO_USE = ".headerlink, .ledger-filters, script, style, button, details.hide.above-input"
_FIT = """() => {
  const available = document.querySelector("header").clientWidth;
  for (const wide of document.querySelectorAll("table, pre")) {
    if (wide.scrollWidth > available + 1) wide.style.zoom = available / wide.scrollWidth;
  }
}"""


class Chapter(NamedTuple):
    """One page of the book, in a part of the contents, whose anchors and files fit into one long page."""

    name: str
    title: str
    part: str
    article: "Tag"


def print_book(root: Path, paper: bool = False) -> Path:
    """Print the built pages of a clone but its article, or with ``paper`` the article alone; returns the
    PDF. Raises `InputError` when no book is built, or there is no browser."""
    from pypdf import PdfReader

    html, together = root / "_build" / "html", root / "_build" / "print.html"
    check((html / "index.html").exists(), "there is no book yet; run make book")
    target = root / "_build" / (PAPER_NAME if paper else NAME)
    pages = {chapter.name: chapter for chapter in chapters_of(root, html)}
    if not paper:
        front, *others = (chapter for name, chapter in pages.items() if name != PAPER)
    elif {PAPER, WORKS} <= set(pages):
        front, others = by_itself(pages[PAPER], pages[WORKS]), []
    else:
        raise InputError(f"the paper needs {PAPER} and {WORKS}; add them to _toc.yml")
    with opened_browser() as browser:
        # as wide as A4 without its margins, in the pixels of CSS
        page = browser.new_page(viewport={"width": 643, "height": 900})
        page.emulate_media(media="print")
        numbers: Sequence[int] = ()
        for _ in range(2):  # the numbers of pages are known once the text is broken into pages
            together.write_text(assembled(root, html, front, others, numbers), "utf-8")
            page.goto(together.as_uri(), wait_until="load")
            wait_for_formulas(page)
            page.evaluate(_FIT)
            page.pdf(
                path=target, format="A4",
                margin={"top": "22mm", "bottom": "20mm", "left": "20mm", "right": "20mm"},
                print_background=True, display_header_footer=True, header_template="<span></span>",
                footer_template=_FOOTER, tagged=True, outline=True,
            )  # fmt: skip
            reader = PdfReader(target)
            places = [reader.named_destinations[f"/{_anchor(chapter.name)}"] for chapter in others]
            numbers = [(reader.get_destination_page_number(place) or 0) + 1 for place in places]
    together.unlink()
    return target


def chapters_of(root: Path, html: Path) -> Iterator[Chapter]:
    """The built pages in the order of the contents. Raises `InputError` for a page that is not built."""
    from bs4 import BeautifulSoup

    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    parts = {toc["root"]: ""}
    for part in toc["parts"]:
        parts |= dict.fromkeys((page["file"] for page in part["chapters"]), part.get("caption", ""))
    for name, caption in parts.items():
        file = html / f"{name}.html"
        check(file.exists(), f"{file} is not built; run make book")
        soup = BeautifulSoup(file.read_text("utf-8"), "html.parser")
        article = soup.select_one("article.bd-article")
        heading = article and article.find("h1")
        if not article or not heading:
            raise InputError(f"{file} is not a page of the book; run make book")
        for unused in article.select(_OF_NO_USE):
            unused.decompose()
        for anchored in article.select("[id]"):
            anchored["id"] = _anchor(name, str(anchored["id"]))
        for image in article.select("[src]"):
            image["src"] = (file.parent / str(image["src"])).resolve().as_uri()
        for link in article.select("a[href]"):
            there = urlsplit(str(link["href"]))
            if there.scheme or there.netloc:  # out of the book
                continue
            page = str(Path(name).with_name(Path(there.path).stem)) if there.path else name
            fragment = "" if "=" in there.fragment else there.fragment  # what the ledger should show
            is_here = page == name or (page in parts and page != PAPER)
            link["href"] = f"#{_anchor(page, fragment)}" if is_here else "#"
        title = heading.get_text().strip()
        if caption and name != PAPER:
            for level in reversed(article.find_all(["h1", "h2", "h3", "h4", "h5"])):
                level.name = f"h{int(level.name[1]) + 1}"
        else:  # the front page, and the article: its title is above the whole text
            heading.extract()
        yield Chapter(name, title, caption, article)


def by_itself(article: Chapter, works: Chapter) -> Chapter:
    """The article with figures and tables counted from 1, and of the bibliography what it cites."""
    numbers: dict[str, str] = {}
    for caption in article.article.select(".caption-number"):
        kind = caption.get_text().split()[0]
        before = sum(number.startswith(kind) for number in numbers.values())
        numbers[caption.get_text().strip()] = f"{kind} {before + 1}"
    for named in article.article.select(".caption-number, .std-numref"):
        text = named.get_text()
        named.string = text.replace(text.strip(), numbers.get(text.strip(), text.strip()))
    cited = {link["href"] for link in article.article.select("a[href]")}
    for work in works.article.select("div.citation"):
        if f"#{work['id']}" not in cited:
            work.decompose()
    if heading := works.article.find("h2"):
        heading.string = "References"
    article.article.append(works.article)
    return article


def _anchor(name: str, fragment: str = "") -> str:
    """Two pages may use one anchor, all pages together may not."""
    return f"{Path(name).name}--{fragment}"


def assembled(
    root: Path, html: Path, front: Chapter, others: Sequence[Chapter], numbers: Sequence[int] = ()
) -> str:
    """All chapters as one page, opened by ``front``; ``numbers`` are the pages on which the others begin."""
    static = html / "_static"
    template = Path(__file__).with_name("print.html").read_text("utf-8")
    return Environment(autoescape=True).from_string(template).render(
        front=front, others=others, numbers=numbers, anchor=_anchor, commit=commit(),
        author=yaml.safe_load((root / "_config.yml").read_text("utf-8"))["author"],
        sheets=[*static.glob("pygments.css"), *static.glob("mystnb.*.css"), root / "book/_static/print.css"],
        mathjax=static / "mathjax" / "tex-chtml.js",
        # the serifs that come with matplotlib, so that a page looks the same on every machine
        fonts=Path(matplotlib.get_data_path()) / "fonts" / "ttf",
    )  # fmt: skip
