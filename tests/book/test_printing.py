"""The book as one PDF, and its article as another."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from browsing import needs_browser
from called import refused
from clones import ROOT
from pypdf import PdfReader

from paper.pages import print_book as printing
from paper.pages.print_book import print_book


@pytest.fixture(scope="module")
def clone(pages, tmp_path_factory):
    """A clone in which some pages stand where the published ones do."""
    folder = tmp_path_factory.mktemp("printed")
    for name in ("_toc.yml", "_config.yml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "book", folder / "book")
    shutil.copytree(pages, folder / "_build" / "html")
    return folder


def printed(clone, **options):
    """The PDF, with the text of each page."""
    needs_browser()
    with ThreadPoolExecutor(
        1
    ) as other:  # a thread drives one browser, and this one's may be at work
        reader = PdfReader(other.submit(print_book, clone, **options).result())
    return reader, [page.extract_text() for page in reader.pages]


def test_the_book_has_an_outline_page_numbers_and_links_that_work_on_paper(clone):
    reader, pages = printed(clone)
    titles = [entry.title for entry in reader.outline if not isinstance(entry, list)]
    assert (titles[0], titles[-1]) == ("Why and when should you pool?", "Bibliography")
    assert len(pages) > 40
    for number, text in enumerate(pages, 1):
        assert str(number) in (text.split()[0], text.split()[-1])
    notes = [note.get_object() for page in reader.pages for note in page.get("/Annots") or ()]
    addresses = {note["/A"]["/URI"] for note in notes if "/URI" in note.get("/A", {})}
    assert addresses
    assert all(address.startswith("http") for address in addresses)


def test_the_paper_lists_the_works_that_it_cites_on_twelve_pages(clone):
    _, pages = printed(clone, paper=True)
    assert 6 <= len(pages) <= 12
    text = "\n".join(pages)
    for part in ("The paper run again", "Abstract", "References", "Neural Computation"):
        assert part in text
    cited, works = text.rsplit("References", 1)
    authors = re.findall(r"^[A-Z]\w* (\w+)[,.]", works, re.MULTILINE)  # not a wrapped line
    assert len(authors) >= 5
    assert all(author in cited for author in authors), authors


def test_what_lacks_for_printing_is_named(clone, tmp_path, monkeypatch):
    folder = shutil.copytree(clone, tmp_path / "clone")
    (folder / "_build" / "html" / "book" / "theory.html").unlink()
    refused("page book/theory is not built; run make book", print_book, folder)
    monkeypatch.setenv("PATH", "")
    refused("no Chromium was found; install one, or name it", printing.opened_browser().__enter__)
