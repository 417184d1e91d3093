"""A browser without a window, for what only a browser can do: print the book, and look at it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whenpool.base.errors import InputError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSER = "WHENPOOL_BROWSER"
"""Names another browser than the Chromium on the path."""


def find_browser() -> str | None:
    """Where a Chromium of this machine is, or None."""
    names = (os.environ.get(BROWSER), "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, filter(None, names))), None)


@contextmanager
def opened_browser() -> "Iterator[Browser]":
    """A browser that is closed in the end.

    Raises:
        InputError: where there is none, or the package that drives it is missing.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise InputError("this needs the package playwright: pip install -e '.[print]'") from None
    executable = find_browser()
    if not executable:
        raise InputError(f"there is no Chromium here; install one, or name it in {BROWSER}")
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
