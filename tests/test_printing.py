"""The book as one PDF and its article as another, and what of the pages goes into them."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from browsing import needs_browser
from clones import ROOT
from pypdf import PdfReader

from whenpool import InputError
from whenpool.book import printing
from whenpool.book.printing import assembled, chapters_of, print_book


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
    html = clone / "_build" / "html"
    front, *others = (chapter for chapter in chapters_of(clone, html) if chapter.name != printing.PAPER)
    return assembled(clone, html, front, others, [7] * len(others))


@pytest.fixture(scope="module")
def paper(clone):
    html = clone / "_build" / "html"
    pages = {chapter.name: chapter for chapter in chapters_of(clone, html)}
    return assembled(clone, html, printing.by_itself(pages[printing.PAPER], pages[printing.WORKS]), [])


def test_every_anchor_stands_once_and_every_link_within_the_book_finds_one(together):
    anchors = re.findall(r'\bid="([^"]+)"', together)
    assert len(anchors) == len(set(anchors)) > 100
    assert all(file.startswith("file://") for file in re.findall(r'src="([^"]+)"', together))
    assert set(re.findall(r'href="#([^"]+)"', together)) <= {*anchors, "index--"}


def test_chapters_follow_the_contents_and_what_cannot_be_used_on_paper_is_gone(together):
    titles = re.findall(r'<section class="chapter" id="[^"]+">.*?<h2>([^<]+)', together, re.DOTALL)
    assert titles == re.findall(r"<span>([^<]+)</span><span class=\"number\">7</span>", together)
    assert (titles[-1], together.count("<h1>")) == ("Bibliography", 1)
    assert not re.search("headerlink|ledger-filters|<button|above-input", together)


def printed(clone, **options):
    needs_browser()
    with ThreadPoolExecutor(1) as other:  # a thread drives one browser, and this one's may be at work
        return other.submit(print_book, clone, **options).result()


def test_the_pdf_has_outline_page_numbers_and_text(clone):
    assert printed(clone) == clone / "_build" / printing.NAME
    reader = PdfReader(clone / "_build" / printing.NAME)
    assert len(reader.pages) > 40
    contents = next(text for page in reader.pages if "Contents" in (text := page.extract_text()))
    number = int(re.search(r"Word importance\D*(\d+)", contents)[1])
    text = reader.pages[number - 1].extract_text()
    assert re.search(rf"Word importance.*{number}\s*\Z", text, re.DOTALL)
    assert reader.outline
    assert not (clone / "_build" / "print.html").exists()


def test_a_page_that_is_not_built_is_named(clone, tmp_path):
    with pytest.raises(InputError, match="there is no book yet; run make book"):
        print_book(tmp_path)
    folder = shutil.copytree(clone, tmp_path / "clone")
    page, toc = folder / "_build" / "html" / "book" / "theory.html", folder / "_toc.yml"
    page.unlink()
    with pytest.raises(InputError, match=r"theory\.html is not built; run make book"):
        print_book(folder)
    page.write_text("<html></html>")
    with pytest.raises(InputError, match=r"theory\.html is not a page of the book; run make book"):
        print_book(folder)
    toc.write_text("root: book/index\nparts:\n- chapters:\n  - file: book/bibliography\n")
    with pytest.raises(InputError, match="the paper needs book/article and"):
        print_book(folder, paper=True)


def test_without_a_browser_it_is_said_how_to_get_one(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="no Chromium was found; install one, or name it"):
        printing.opened_browser().__enter__()


def test_the_paper_counts_its_own_figures_and_lists_the_works_that_it_cites(paper):
    for kind, count in {"Figure": 5, "Table": 3}.items():
        captions = re.findall(rf'caption-number">{kind} (\d+) <', paper)
        assert captions == [str(number) for number in range(1, count + 1)]
        assert set(re.findall(rf'std-numref">{kind} (\d+)<', paper)) == set(captions)
    anchors = re.findall(r'\bid="([^"]+)"', paper)
    assert len(anchors) == len(set(anchors))
    links = re.findall(r'href="#([^"]+)"', paper)
    assert set(links) <= set(anchors)
    works = re.findall(r'class="citation" id="([^"]+)"', paper)
    assert 5 < len(works) == len({link for link in links if link.startswith("bibliography--id")})
    assert not re.search(r"cell_input|>\?<|>no (?:run|number)<|no such runs yet|\bnan\b", paper)


def test_the_paper_has_twelve_pages_at_most_and_all_of_it_is_on_them(clone, paper, chromium):
    target = printed(clone, paper=True)
    assert target == clone / "_build" / printing.PAPER_NAME
    pages = [page.extract_text() for page in PdfReader(target).pages]
    assert 6 <= len(pages) <= 12
    text = "\n".join(pages)
    for part in ("The paper run again", "Abstract", "References", "Neural Computation"):
        assert part in text
    captions = re.findall(r"^(?:Figure|Table) \d", text, re.MULTILINE)
    assert {*captions} == {*(f"Figure {n}" for n in range(1, 6)), *(f"Table {n}" for n in range(1, 4))}
    assert "whenpool pdf" not in text  # what only the page says
    file = clone / "_build" / "paper.html"
    file.write_text(paper, "utf-8")
    page = chromium.new_page(viewport={"width": 643, "height": 900})
    page.emulate_media(media="print")
    page.goto(file.as_uri())
    wider = page.evaluate(
        "() => [...document.querySelectorAll('table, img, pre')].filter(e => "
        "e.getBoundingClientRect().right > 1 + "
        "document.querySelector('header').getBoundingClientRect().right).map(e => e.id || e.alt)"
    )
    page.close()
    assert wider == []
