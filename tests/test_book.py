"""From sources to pages, in a small copy of the clone."""

import re
import shutil
from pathlib import Path

import pytest

from whenpool import InputError
from whenpool.base.errors import BookError
from whenpool.book.build import Builder
from whenpool.runs.engine import Report, Workforce
from whenpool.runs.plans.chapters import PLANS, plan
from whenpool.runs.request import Choice
from whenpool.runs.run import Place
from whenpool.runs.store import Store

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.xdist_group("book")  # one process builds the whole book, once
HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A chapter

"""


def clone(folder, chapters=None):
    """A folder that looks like a clone; `chapters` replace the book's."""
    for part in ("paper", "results"):
        shutil.copytree(ROOT / "data" / part, folder / "data" / part)
    (folder / "lib" / "whenpool").mkdir(parents=True)
    shutil.copy(ROOT / "_config.yml", folder)
    if chapters is None:
        shutil.copytree(ROOT / "book", folder / "book")
        shutil.copy(ROOT / "_toc.yml", folder)
    else:
        (folder / "book").mkdir()
        shutil.copytree(ROOT / "book" / "_static", folder / "book" / "_static")
        shutil.copy(ROOT / "book" / "references.bib", folder / "book")
        for name, text in chapters.items():
            (folder / "book" / f"{name}.md").write_text(text)
        root, *others = chapters
        lines = ["format: jb-book", f"root: book/{root}", "chapters:"]
        lines += [f"- file: book/{name}" for name in others]
        (folder / "_toc.yml").write_text("\n".join(lines if others else lines[:2]))
    return folder


def builder(folder, said, profile="smoke"):
    data, store, cache = (folder / "data" / name for name in ("corpora", "runs/smoke", "cache"))
    return Builder(
        folder,
        Choice(profile),
        Place(Store(store), data, cache),
        workforce=Workforce(workers=1),
        say=said.append,
    )


def text_of(folder, chapter):
    page = (folder / "_build" / "smoke" / "_build" / "html" / "book" / f"{chapter}.html").read_text()
    article = page[page.index("<article") : page.index("</article>")]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", article))


def test_the_whole_book_is_built_away_from_the_published_place(built):
    folder, page, said = built
    assert page == folder / "_build" / "smoke" / "_build" / "html" / "index.html"
    assert page.exists()
    assert not (folder / "_build" / "html").exists()
    assert any(line.startswith("[1/") for line in said)
    assert any("The book was built in" in line for line in said)


def test_runs_were_stored_and_a_second_build_computes_none(built):
    folder, _, _ = built
    runs = {
        file: file.stat().st_mtime_ns for file in (folder / "data" / "runs" / "smoke").glob("*.json")
    }
    choice, place = Choice("smoke"), builder(folder, []).place
    wanted = {run for chapter in PLANS for run in plan(chapter, choice, place)}
    assert len(runs) == len(wanted | {run.training for run in wanted if run.training})
    builder(folder, []).build(["training_to_skip"])
    assert {file: file.stat().st_mtime_ns for file in runs} == runs


def test_figures_and_tables_are_numbered_and_referred_to(built):
    text = text_of(built[0], "training_to_skip")
    assert re.search(r"Figure \d+ +The four settings", text)
    assert re.search(r"Table \d+ +Test accuracy in %", text)
    assert re.search(r"Figure \d+ +and +Table \d+ +illustrate", text)
    assert "Provenance: 20 runs; corpus synthetic;" in text


def test_all_tables_of_the_thesis_are_shown(built):
    text = text_of(built[0], "training_to_skip")
    for table in ("1.3", "1.4", "1.5", "1.6", "1.8"):
        assert f"Table {table} of the thesis" in text
    for value in ("64.7 ± 2.3", "5.3 ± 0.3", "24.2 ± 0.9", "59.0 ± 0.2"):
        assert value in text


def test_injected_parameters_stay_off_the_page_and_none_names_a_folder(built):
    folder = built[0]
    text = text_of(folder, "training_to_skip")
    assert text.count("profile =") == 1
    assert "# Parameters" not in text
    for source in (folder / "_build" / "smoke" / "_build" / "html").rglob("*"):
        if source.suffix in (".html", ".ipynb", ".txt", ".js") and "book" in source.parts:
            assert str(folder) not in source.read_text(), source


def test_mathematics_fonts_and_scripts_come_from_the_pages_themselves(built):
    folder = built[0]
    pages = (folder / "_build" / "smoke" / "_build" / "html" / "book").glob("*.html")
    for page in pages:
        loads = re.findall(
            r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)\"", page.read_text()
        )
        assert loads == [], page


def test_the_status_page_lists_chapters_and_versions(built):
    text = text_of(built[0], "status")
    for word in ("training_to_skip", "corpora", "protocol of runs", "torchtext 0.6.0", "smoke"):
        assert word in text


def test_a_failing_chapter_is_named_with_its_cell(tmp_path):
    text = HEAD + "```{code-cell} ipython3\nvalue = 1\n```\n\n```{code-cell} ipython3\nvalue / 0\n```\n"
    folder = clone(tmp_path, {"broken": text})
    with pytest.raises(
        BookError, match=r"chapter broken, cell 3 \(value / 0\): ZeroDivisionError: division"
    ):
        builder(folder, []).build()
    assert not (folder / "_build" / "smoke" / "_build" / "html").exists()


def test_a_broken_reference_fails_the_build_and_is_told(tmp_path):
    folder = clone(tmp_path, {"index": "# Front\n\nSee {ref}`nowhere`.\n"})
    with pytest.raises(BookError, match=r"could not be rendered(?s:.*)nowhere"):
        builder(folder, []).build()


def test_one_chapter_can_be_executed_alone(tmp_path):
    cell = "```{{code-cell}} ipython3\nprint('{}')\n```\n"
    folder = clone(
        tmp_path, {"index": HEAD + cell.format("first"), "other": HEAD + cell.format("first")}
    )
    builder(folder, []).build()
    for name in ("index", "other"):
        (folder / "book" / f"{name}.md").write_text(HEAD + cell.format("second"))
    said = []
    builder(folder, said).build(["other"])
    assert [line for line in said if line.startswith("[")] == ["[1/1] other"]
    assert "second" in text_of(folder, "other")
    assert "second" not in text_of(folder, "index")
    with pytest.raises(InputError, match="there is no chapter 'others'; the book has index, other"):
        builder(folder, []).build(["others"])


def test_other_parameters_reach_the_chapter(tmp_path):
    cells = (
        '```{code-cell} ipython3\n:tags: [parameters]\nprofile = "quick"\n```\n\n'
        "```{code-cell} ipython3\nprint('profile is', profile)\n```\n"
    )
    folder = clone(tmp_path, {"index": HEAD + cells})
    builder(folder, []).build()
    assert "profile is smoke" in text_of(folder, "index")


def test_the_page_shows_the_parameters_it_was_built_with(built):
    text = text_of(built[0], "training_to_skip")
    assert 'profile = "smoke" # or' in text
    assert 'profile = "quick"' not in text


def test_failed_runs_fail_the_build_after_the_pages_are_there(built, monkeypatch):
    folder, page, _ = built
    build = builder(folder, [])
    monkeypatch.setattr("whenpool.book.build.compute", lambda *_, **__: Report(failed={1: "no luck"}))
    with pytest.raises(BookError, match="1 runs failed; the pages show the others"):
        build.build(["corpora"])
    assert page.exists()


def test_a_page_that_left_the_contents_leaves_the_book(tmp_path):
    folder = clone(tmp_path, {"index": "# Front\n", "other": "# Other\n"})
    builder(folder, []).build()
    html = folder / "_build" / "smoke" / "_build" / "html" / "book"
    assert (html / "other.html").exists()
    (folder / "_toc.yml").write_text("format: jb-book\nroot: book/index\n")
    builder(folder, []).build()
    assert not (html / "other.html").exists()


def test_missing_data_are_told_before_anything_is_executed(tmp_path):
    folder = clone(tmp_path)
    said = []
    build = builder(folder, said)
    asked = Builder(folder, Choice("quick", ("imdb",)), build.place, say=said.append)
    with pytest.raises(InputError, match=r"aclImdb_v1.tar.gz is not in"):
        asked.build()
    assert said == []
    assert not (folder / "_build").exists()
