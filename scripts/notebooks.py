"""The notebooks that the launch buttons open: made from the chapters, without outputs, committed.

``python scripts/notebooks.py`` writes ``book/<name>.ipynb`` beside each chapter with code, always
the same bytes. With ``--check`` it only says which differ.
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

from paper.pages.freshness import is_notebook, text_digest

ROOT = Path(__file__).parents[1]
_ROLE = re.compile(r"\{([a-z]+(?::[a-z]+)?)\}(`+)(.+?)\2", re.DOTALL)
_DIRECTIVE = re.compile(  # kind, title, body
    r"^(?::{3,}|`{3,}) *\{([\w:-]+)\} *([^\n]*)\n(?::[\w-]+:[^\n]*\n)*(.*?)^(?::{3,}|`{3,})\n?",
    re.MULTILINE | re.DOTALL,
)
_FIGURE = re.compile(
    r"^```\{figure\} +(\S+)\n---\n(.*?)\n---\n(.*?)\n```$", re.MULTILINE | re.DOTALL
)
_TABLE = re.compile(r'"(tab-[\w-]+)"')
_HEADING = re.compile(r"^\(([\w-]+)\)=\s*\n+#+ +(.+)$", re.MULTILINE)
FIRST_CELL = r"""# On Colab: fetch the repository and what is missing.
# Anywhere: use the GPU if there is one.
import hashlib, os, subprocess, sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

source = os.environ.get("WHENPOOL_REPOSITORY", "{url}")
here = Path.cwd().resolve()
try:
    import google.colab
except ImportError:
    on_colab = False
else:
    on_colab = True
package = None if on_colab else find_spec("whenpool")  # pip install -e leads to a clone
there = Path(package.origin).resolve().parents if package else ()
root = next((p for p in (here, *here.parents, *there) if (p / "_toc.yml").exists()), None)
if on_colab and root is None:
    root = here / "whenpool"
    if not root.exists():
        clone = ["git", "clone", "--depth", "1", "--branch", "{branch}", source, str(root)]
        subprocess.run(clone, check=True)
    kept = Path("kept.txt")  # what Colab brings stays as it is
    kept.write_text("".join(f"{{p}}=={{version(p)}}\n" for p in ("torch", "numpy")))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--use-pep517", "-c", str(kept)]
    subprocess.run([*pip, "-e", str(root), "-e", f"{{root}}/lib/paper{extras}"], check=True)
if root is None:
    raise SystemExit(f"no clone of the book is around {{here}}; start in one: papermill --cwd book")
os.chdir(root / "book")
try:  # installed now, and seen without a new start
    import paper
except ImportError:
    sys.path.insert(0, str(root / "lib"))
text = Path("{name}.md")  # what this notebook was made from
digest = hashlib.sha256(text.read_text("utf-8").encode()).hexdigest() if text.exists() else ""
if digest != "{digest}":
    print("This notebook is older than its text; run scripts/notebooks.py, or execute the text:")
    print("{command}")

import torch

os.environ.setdefault("WHENPOOL_DEVICE", "cuda" if torch.cuda.is_available() else "cpu")"""
"""What a notebook begins with."""
COMMAND = "jupytext --to ipynb --output - book/{name}.md | papermill - mine.ipynb --cwd book"
"""Executes the text of a chapter, whatever notebook lies beside it."""


@dataclass(frozen=True)
class Plain:
    """Turns the text of one chapter into Markdown that needs no book."""

    labels: dict[str, str]  # of the chapter's figures and tables: "Figure 2", by name
    headings: dict[str, str]  # of the whole book, by label
    pages: dict[str, tuple[str, str]]  # title and suffix of the file that is linked, by name
    authors: dict[str, tuple[str, str]]  # "Maini et al." and "2020", by key of the bibliography

    @classmethod
    def of(cls, chapter: Path, cells: list[Any]) -> "Plain":
        """With what the cells of a chapter, the pages and the bibliography beside it say."""
        figures, tables = [], []
        for cell in cells:
            figures += (
                [figure["name"]]
                if (figure := cell.metadata.get("mystnb", {}).get("figure"))
                else []
            )
            if cell.cell_type == "code":
                tables += _TABLE.findall(cell.source)
            else:
                figures += [
                    yaml.safe_load(options)["name"]
                    for _, options, _ in _FIGURE.findall(cell.source)
                ]
        labels = {name: f"Figure {number}" for number, name in enumerate(dict.fromkeys(figures), 1)}
        labels |= {name: f"Table {number}" for number, name in enumerate(dict.fromkeys(tables), 1)}
        headings, pages, authors = {}, {}, {}
        for path in sorted(chapter.parent.glob("[!.]*.md")):
            text = path.read_text("utf-8")
            title = re.search(r"^# +(.+)$", text, re.MULTILINE)
            pages[path.stem] = (
                title[1] if title else path.stem,
                ".ipynb" if is_notebook(path) else ".md",
            )
            headings |= dict(_HEADING.findall(text))
        for key, entry in parse_file(str(chapter.with_name("references.bib"))).entries.items():
            people = [
                " ".join(person.last_names) for person in entry.persons.get("author", [])
            ] or [key]
            names = f"{people[0]} et al." if len(people) > 2 else " and ".join(people)
            authors[key] = re.sub(r"[{}]", "", names), entry.fields.get("year", "n. d.")
        return cls(labels, headings, pages, authors)

    def label(self, name: str) -> str:
        """What a figure or table of the chapter is called."""
        return self.labels.get(name, "the figure" if name.startswith("fig-") else "the table")

    def markdown(self, text: str) -> str:
        """The text of a cell without anything that only the book's pages understand."""
        text = re.sub(r"^\([\w-]+\)=\n?|^%.*\n?|^\+\+\+.*\n?", "", text, flags=re.MULTILINE)
        text = re.sub(r"(\$\$) *\([\w-]+\)$", r"\1", text, flags=re.MULTILINE)
        text = _FIGURE.sub(self._figure, text)
        return _ROLE.sub(self._role, _DIRECTIVE.sub(_directive, text)).strip()

    def _figure(self, match: re.Match[str]) -> str:
        file, options, caption = match.groups()
        values = yaml.safe_load(options)
        return f"![{values['alt']}]({file})\n\n**{self.label(values['name'])}.** {caption}"

    def _role(self, match: re.Match[str]) -> str:
        role, _, text = match.groups()
        title, target = re.fullmatch(r"(?:(.+?)\s*<)?([^<>]+?)>?", text, re.DOTALL).groups()
        page, suffix = self.pages.get(target, (target, ".md"))
        works = [self.authors.get(key.strip(), (key.strip(), "n. d.")) for key in target.split(",")]
        plain = {
            "numref": self.label(target),
            "doc": f"[{title or page}]({target}{suffix})",
            "ref": title or f"“{self.headings.get(target, target)}”",
            "glue:text": f"`{target.partition(':')[0]}`",
            "cite:p": f"({'; '.join(', '.join(work) for work in works)})",
            "cite:t": ", ".join(f"{who} ({year})" for who, year in works),
            "math": f"${target}$",
            "term": title or target,
        }
        return plain.get(role, title or f"`{target}`")


def _directive(match: re.Match[str]) -> str:
    """What a directive holds; an admonition becomes a quote under a bold title."""
    kind, title, body = match.groups()
    if kind in ("bibliography", "raw"):
        return ""
    if kind == "literalinclude":
        return f"[{title}]({title})\n"
    if kind == "admonition":
        lines = f"**{title}**\n\n{body.strip()}".split("\n")
        return "".join(f"> {line}".rstrip() + "\n" for line in lines)
    return body


def chapters(root: Path) -> list[Path]:
    """The chapters of a clone that have code, by name."""
    return [path for path in sorted((root / "book").glob("[!.]*.md")) if is_notebook(path)]


def notebook(chapter: Path, root: Path) -> str:
    """The notebook of a chapter, ``book/<name>.md`` of a clone, as the text of its file.
    ``_config.yml`` says where Colab finds the repository; ``WHENPOOL_REPOSITORY`` names another
    address."""
    source = jupytext.read(chapter).cells
    plain = Plain.of(chapter, source)
    code = "\n".join(cell.source for cell in source if cell.cell_type == "code")
    extras = "[fewshot,minilm]" if "paper.fewshot" in code else ""
    repository = yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]
    facts = {"name": chapter.stem, "digest": text_digest(chapter), "extras": extras, **repository}
    facts["command"] = COMMAND.format(name=chapter.stem)
    cells: list[Any] = [new_code_cell(FIRST_CELL.format(**facts))]
    for cell in source:
        if cell.cell_type == "markdown":
            cells += [new_markdown_cell(text)] if (text := plain.markdown(cell.source)) else []
            continue
        cells += [
            new_markdown_cell(f"**{plain.label(name)}**") for name in _TABLE.findall(cell.source)
        ]
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


def main(root: Path = ROOT, check: bool = False) -> int:
    """Write the notebooks that differ from what their chapters give and remove those without a
    chapter, or only say which; the exit code is 1 when a ``check`` finds some."""
    made = {path.with_suffix(".ipynb"): notebook(path, root) for path in chapters(root)}
    there = {path: path.read_text("utf-8") for path in sorted((root / "book").glob("*.ipynb"))}
    differ = [path for path in made | there if made.get(path) != there.get(path)]
    for path in differ:
        if check:
            print(f"{path.relative_to(root)} does not match its chapter; run scripts/notebooks.py")
        elif path in made:
            path.write_text(made[path], "utf-8")
            print(f"{path.relative_to(root)} was written")
        else:
            path.unlink()
            print(f"{path.relative_to(root)} was removed")
    return int(check and bool(differ))


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
