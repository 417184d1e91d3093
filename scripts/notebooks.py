"""The notebooks that the launch buttons open: made from the chapters, without outputs, committed.

``python scripts/notebooks.py`` writes ``book/<name>.ipynb`` beside each chapter with code, always the same
bytes. With ``--check`` it only says which differ.
"""

import hashlib
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pybtex.database import parse_file

from whenpool.book.build import is_notebook

ROOT = Path(__file__).parents[1]
_ROLE = re.compile(r"\{(?P<role>[a-z]+(?::[a-z]+)?)\}(?P<tick>`+)(?P<text>.+?)(?P=tick)", re.DOTALL)
_TITLED = re.compile(r"(?P<title>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)
_DIRECTIVE = re.compile(
    r"^(?P<indent> *)(?P<fence>:{3,}|`{3,}) *\{(?P<kind>[\w:-]+)\} *(?P<title>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=indent)(?P=fence) *(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LABEL = re.compile(r"^\((?P<label>[\w-]+)\)=\s*\n+#+ +(?P<heading>.+)$", re.MULTILINE)
_FIGURE = re.compile(
    r"^```\{figure\} +(?P<file>\S+)\n---\n(?P<options>.*?)\n---\n(?P<caption>.*?)\n```$",
    re.MULTILINE | re.DOTALL,
)
_TABLE = re.compile(r'"(tab-[\w-]+)"')
_DROPPED = {"bibliography", "toctree", "contents", "raw"}
_BOXES = {
    "admonition", "note", "tip", "hint", "important", "warning", "caution", "attention", "danger",
    "error", "seealso", "dropdown", "margin", "sidebar",
}  # fmt: skip
"""Directives that become quotes."""
_CELL = r"""# On Colab: fetch the repository and what is missing. Anywhere: use the GPU if there is one.
import os, subprocess, sys
from importlib.metadata import version
from pathlib import Path

source = os.environ.get("WHENPOOL_REPOSITORY", "{url}")
here = Path.cwd().resolve()
root = next((p for p in (here, *here.parents) if (p / "_toc.yml").exists()), None)
try:
    import google.colab
except ImportError:
    on_colab = False
else:
    on_colab = True
if on_colab and root is None:
    root = here / "whenpool"
    if not root.exists():
        clone = ["git", "clone", "--depth", "1", "--branch", "{branch}", source, str(root)]
        subprocess.run(clone, check=True)
    kept = Path("kept.txt")  # what Colab brings stays as it is
    kept.write_text("".join(f"{{p}}=={{version(p)}}\n" for p in ("torch", "numpy")))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--use-pep517", "-c", str(kept)]
    subprocess.run([*pip, "-e", f"{{root}}[{extras}]"], check=True)
if root is not None:
    sys.path.insert(0, str(root / "lib"))
    os.chdir(root / "book")

import torch

os.environ.setdefault("WHENPOOL_DEVICE", "cuda" if torch.cuda.is_available() else "cpu")"""
"""What a notebook begins with."""


@dataclass(frozen=True)
class Plain:
    """Turns the text of one chapter into Markdown that needs no book."""

    labels: dict[str, str]  # of the chapter's figures and tables: "Figure 2", by name
    headings: dict[str, str]  # of the whole book, by label
    pages: dict[str, tuple[str, bool]]  # title and whether it is a notebook, by file name
    authors: dict[str, tuple[str, str]]  # "Maini et al." and "2020", by key of the bibliography

    @classmethod
    def of(cls, chapter: Path, cells: list[Any]) -> "Plain":
        """With what the cells of a chapter, the pages and the bibliography beside it say."""
        figures: list[str] = []
        tables: list[str] = []
        for cell in cells:
            if figure := cell.metadata.get("mystnb", {}).get("figure"):
                figures.append(figure["name"])
            if cell.cell_type == "code":
                tables += _TABLE.findall(cell.source)
            else:
                found = _FIGURE.finditer(cell.source)
                figures += [yaml.safe_load(figure["options"])["name"] for figure in found]
        labels = {
            name: f"{kind} {number}"
            for kind, names in (("Figure", figures), ("Table", tables))
            for number, name in enumerate(dict.fromkeys(names), 1)
        }
        headings: dict[str, str] = {}
        pages: dict[str, tuple[str, bool]] = {}
        for path in sorted(chapter.parent.glob("*.md")):
            text = path.read_text("utf-8")
            title = re.search(r"^# +(.+)$", text, re.MULTILINE)
            pages[path.stem] = title[1] if title else path.stem, is_notebook(path)
            headings |= {found["label"]: found["heading"] for found in _LABEL.finditer(text)}
        authors = {}
        for key, entry in parse_file(str(chapter.with_name("references.bib"))).entries.items():
            people = [" ".join(person.last_names) for person in entry.persons.get("author", [])] or [key]
            named = f"{people[0]} et al." if len(people) > 2 else " and ".join(people)
            authors[key] = re.sub(r"[{}]", "", named), entry.fields.get("year", "n. d.")
        return cls(labels, headings, pages, authors)

    def label(self, name: str) -> str:
        """What a figure or table of the chapter is called."""
        return self.labels.get(name, "the figure" if name.startswith("fig-") else "the table")

    def markdown(self, text: str) -> str:
        """The text of a cell without anything that only the book's pages understand."""
        text = re.sub(r"^\([\w-]+\)=\n?|^%.*\n?|^\+\+\+.*\n?", "", text, flags=re.MULTILINE)
        text = re.sub(r"(\$\$) *\([\w-]+\)$", r"\1", text, flags=re.MULTILINE)
        text = _FIGURE.sub(self._figure, text)
        return _ROLE.sub(self._role, _DIRECTIVE.sub(_plain_directive, text)).strip()

    def _figure(self, found: re.Match[str]) -> str:
        options = yaml.safe_load(found["options"])
        image = f"![{options['alt']}]({found['file']})"
        return f"{image}\n\n**{self.label(options['name'])}.** {found['caption']}"

    def _role(self, found: re.Match[str]) -> str:
        titled = _TITLED.fullmatch(found["text"])
        title, target = (titled["title"], titled["target"]) if titled else ("", found["text"])
        name, code = self.pages.get(Path(target).name, (target, False))
        works = [self.authors.get(key.strip(), (key.strip(), "n. d.")) for key in target.split(",")]
        write: dict[str, str] = {
            "numref": self.label(target),
            "doc": f"[{title or name}]({target}{'.ipynb' if code else '.md'})",
            "ref": title or f"“{self.headings.get(target, target)}”",
            "eq": "the equation",
            "glue:text": f"`{target.partition(':')[0]}`",
            "cite:p": f"({'; '.join(', '.join(work) for work in works)})",
            "cite:t": ", ".join(f"{who} ({year})" for who, year in works),
            "math": f"${target}$",
            "term": title or target,
        }
        return write.get(found["role"], title or f"`{target}`")


def _plain_directive(found: re.Match[str]) -> str:
    """An admonition becomes a quote under a bold title; other directives leave what they hold."""
    if found["kind"] in _DROPPED:
        return ""
    if found["kind"] == "literalinclude":
        return f"[{found['title']}]({found['title']})\n"
    text = re.sub(r"\A(?:[ \t]*:[\w-]+:.*\n)+", "", found["body"])  # without options
    if found["kind"] == "math":
        return f"$$\n{text}$$\n"
    text = _DIRECTIVE.sub(_plain_directive, text).removesuffix("\n")
    if found["title"]:
        text = f"**{found['title']}**\n\n{text}"
    if found["kind"] in _BOXES:
        text = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    return f"{text}\n"


def chapters(root: Path) -> list[Path]:
    """The chapters of a clone that have code, by name."""
    return [path for path in sorted((root / "book").glob("*.md")) if is_notebook(path)]


def made(chapter: Path, root: Path) -> str:
    """The notebook of a chapter, ``book/<name>.md`` of a clone, as the text of its file. ``_config.yml`` says
    where Colab finds the repository; ``WHENPOOL_REPOSITORY`` names another address."""
    source = jupytext.read(chapter).cells
    plain = Plain.of(chapter, source)
    code = "\n".join(cell.source for cell in source if cell.cell_type == "code")
    needs = {"whenpool.fewshot": ",fewshot,minilm"}
    extras = "notebook" + "".join(extra for name, extra in needs.items() if name in code)
    first = _CELL.format(extras=extras, **configured(root))
    cells: list[Any] = [new_code_cell(first)]
    for cell in source:
        if cell.cell_type == "markdown":
            if text := plain.markdown(cell.source):
                cells.append(new_markdown_cell(text))
            continue
        for name in _TABLE.findall(cell.source):
            cells.append(new_markdown_cell(f"**{plain.label(name)}**"))
        tags = cell.metadata.get("tags", [])
        shown: dict[str, Any] = {"tags": tags} if tags else {}
        if {"hide-input", "remove-input", "hide-cell", "remove-cell"} & set(tags):
            shown |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
        cells.append(new_code_cell(cell.source, metadata=shown))
        if figure := cell.metadata.get("mystnb", {}).get("figure"):
            caption = plain.markdown(figure["caption"])
            cells.append(new_markdown_cell(f"**{plain.label(figure['name'])}.** {caption}"))
    seen: Counter[str] = Counter()
    for cell in cells:  # an id depends on what its cell says alone, so that few of them change
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n"


def configured(root: Path) -> dict[str, str]:
    """The entry ``repository`` of a clone's ``_config.yml``: ``url`` and ``branch``."""
    return yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]


def stale(root: Path) -> dict[Path, str]:
    """The notebooks that are not what their chapters give now, each with what its chapter gives: nothing
    where there is no such chapter."""
    wanted = {path.with_suffix(".ipynb"): made(path, root) for path in chapters(root)}
    there = {path: path.read_text("utf-8") for path in sorted((root / "book").glob("*.ipynb"))}
    return {
        path: wanted.get(path, "")
        for path in dict.fromkeys([*wanted, *there])
        if wanted.get(path) != there.get(path)
    }


def write(root: Path) -> list[Path]:
    """Bring the notebooks of a clone up to date; returns those that were not."""
    changed = stale(root)
    for notebook, text in changed.items():
        if text:
            notebook.write_text(text, "utf-8")
        else:
            notebook.unlink()
    return list(changed)


def main(root: Path = ROOT) -> int:
    """Write the notebooks, or only say what is wrong; the exit code is 1 when something is."""
    if "--check" in sys.argv[1:]:
        wrong = stale(root)
        for path in wrong:
            print(f"{path.relative_to(root)} does not match its chapter; run scripts/notebooks.py")
        return 1 if wrong else 0
    changed = write(root)
    for path in changed:
        print(f"{path.relative_to(root)} was {'written' if path.exists() else 'removed'}")
    if not changed:
        print("the notebooks are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
