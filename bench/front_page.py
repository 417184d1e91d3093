"""Time and weight of built pages in Chromium, from disk; build the book first."""

import statistics
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from paper.pages.print_book import opened_browser, wait_for_formulas

PAGES = Path("_build/html/book")
TIMES = 7


def main() -> None:
    files = [PAGES / "index.html", *sorted(PAGES.glob("[!i]*.html"))]
    with opened_browser() as browser:
        for file in files:
            seconds, weight = zip(*(_open(browser, file) for _ in range(TIMES)), strict=True)
            median, slowest = statistics.median(seconds), max(seconds)
            print(
                f"{file.stem:24}{median:7.2f} s (at most {slowest:.2f}) {weight[0] / 1e3:8.0f} KB"
            )


def _open(browser, file: Path) -> tuple[float, int]:
    """Seconds until a page has loaded and its formulas are typeset, in a new profile, and its
    bytes."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page, urls = context.new_page(), set()
    page.on("request", lambda request: urls.add(urlsplit(request.url).path))
    started = time.perf_counter()
    page.goto(file.resolve().as_uri(), wait_until="load")
    wait_for_formulas(page)
    seconds = time.perf_counter() - started
    context.close()
    return seconds, sum(Path(unquote(path)).stat().st_size for path in urls)
