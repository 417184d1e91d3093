"""The book as one PDF, and what of its pages goes into it."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from browsing import needs_browser
from clones import ROOT
from pypdf import PdfReader

from whenpool import InputError
from whenpool.book.printing import NAME, assembled, chapters_of, opened_browser, print_book

pytestmark = pytest.mark.xdist_group("book")


@pytest.fixture(scope="module")
def clone(built, tmp_path_factory):
    """A clone in which the smoke-sized pages stand where the published ones do."""
    folder = tmp_path_factory.mktemp("printed")
    for name in ("_toc.yml", "_config.yml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "book", folder / "book")
    shutil.copytree(built[1].parent, folder / "_build" / "html")
    return folder


@pytest.fixture(scope="module")
def together(clone):
    front, *others = chapters_of(clone, clone / "_build" / "html")
    return assembled(clone, clone / "_build" / "html", front, others, [7] * len(others))


def test_every_anchor_stands_once_and_every_link_within_the_book_finds_one(together):
    anchors = re.findall(r'\bid="([^"]+)"', together)
    assert len(anchors) == len(set(anchors)) > 100
    assert all(file.startswith("file://") for file in re.findall(r'src="([^"]+)"', together))
    links = set(re.findall(r'href="#([^"]+)"', together))
    assert links - set(anchors) - {"index--"} == set()


def test_chapters_follow_the_contents_and_what_cannot_be_used_on_paper_is_gone(together):
    titles = re.findall(r'<section class="chapter" id="[^"]+">.*?<h2>([^<]+)', together, re.DOTALL)
    contents = re.findall(r"<span>([^<]+)</span><span class=\"number\">7</span>", together)
    assert titles == contents
    assert titles[-1] == "Bibliography"
    assert together.count("<h1>") == 1
    for gone in ("headerlink", "ledger-filters", "<button", "above-input"):
        assert gone not in together


def test_the_pdf_has_outline_page_numbers_and_text(clone):
    needs_browser()
    with ThreadPoolExecutor(1) as other:  # a thread drives one browser, and this one's may be at work
        target = other.submit(print_book, clone).result()
    assert target == clone / "_build" / NAME
    reader = PdfReader(target)
    assert len(reader.pages) > 40
    contents = next(text for page in reader.pages if "Contents" in (text := page.extract_text()))
    number = int(re.search(r"Word importance\D*(\d+)", contents)[1])
    text = reader.pages[number - 1].extract_text()
    assert "Word importance" in text
    assert text.rstrip().endswith(str(number))
    assert reader.outline
    assert not (clone / "_build" / "print.html").exists()


def test_a_page_that_is_not_built_is_named(clone, tmp_path):
    with pytest.raises(InputError, match="there is no book yet: run make book"):
        print_book(tmp_path)
    folder = shutil.copytree(clone, tmp_path / "clone")
    page = folder / "_build" / "html" / "book" / "theory.html"
    page.unlink()
    with pytest.raises(InputError, match=r"theory\.html is not built: run make book"):
        print_book(folder)
    page.write_text("<html></html>")
    with pytest.raises(InputError, match=r"theory\.html is no page of the book: run make book"):
        print_book(folder)


def test_without_a_browser_it_is_said_how_to_get_one(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with (
        pytest.raises(InputError, match=r"no Chromium here; install one, or name it"),
        opened_browser(),
    ):
        pass
