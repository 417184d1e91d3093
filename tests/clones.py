"""Small copies of the clone, and the book built in them."""

import re
import shutil
import tomllib
from pathlib import Path

import yaml
from called import CAPTURED as CAPTURED

from paper.pages.builder import Asked, Builder
from paper.runs.engine import Workforce
from paper.runs.request import Request
from paper.runs.run import Place
from paper.runs.store import Store

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = [TOC["root"], *(c["file"] for part in TOC["parts"] for c in part["chapters"])]
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


def code_cell(code):
    return f"```{{code-cell}} ipython3\n{code}\n```\n\n"


def source_of(page):
    return (ROOT / "book" / f"{page}.md").read_text("utf-8")


def sentences_of(page):
    """The text of a page in one line, wherever it was broken."""
    return " ".join(source_of(page).split())


def defined(page, pattern, names):
    """These names, and what a page defines in the places that the pattern finds."""
    for code in re.findall(pattern, source_of(page), re.M | re.S):
        exec(code, names)
    return names


def clone(folder, chapters=None):
    """A folder that looks like a clone; `chapters` replace the book's."""
    for part in ("paper", "results"):
        shutil.copytree(ROOT / "data" / part, folder / "data" / part)
    (folder / "lib" / "whenpool").mkdir(parents=True)
    (folder / "scripts").symlink_to(ROOT / "scripts")
    shutil.copy(ROOT / "_config.yml", folder)
    if chapters is None:
        shutil.copytree(ROOT / "book", folder / "book")
        shutil.copy(ROOT / "_toc.yml", folder)
        return folder
    shutil.copytree(ROOT / "book" / "_static", folder / "book" / "_static")
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    for name, text in chapters.items():
        (folder / "book" / f"{name}.md").write_text(text)
    root, *others = chapters
    lines = ["format: jb-book", f"root: book/{root}", *["chapters:"] * bool(others)]
    (folder / "_toc.yml").write_text(
        "\n".join([*lines, *(f"- file: book/{name}" for name in others)])
    )
    return folder


def place_of(folder):
    """Where smoke-sized runs of a clone lie."""
    data, store, cache = (folder / "data" / name for name in ("corpora", "runs/smoke", "cache"))
    return Place(Store(store), data, cache)


def builder(folder, said):
    """Builds the book of a clone from smoke-sized runs, and says what it does to a list."""
    asked = Asked(Request("smoke"), place_of(folder), Workforce(workers=1))
    return Builder(folder, asked, said.append)


def first_page(stage, output):
    """In the place of pages."""
    (page := output / "_build" / "html" / "index.html").parent.mkdir(exist_ok=True)
    page.touch()
    return page
