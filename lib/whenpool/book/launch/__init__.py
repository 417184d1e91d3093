"""The notebooks that the launch buttons open: made from the chapters, without outputs, committed.

``python -m whenpool.book.launch`` writes ``book/<name>.ipynb`` beside each chapter with code, and ``--check``
only says which differ. The same chapter gives the same bytes at any time.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from whenpool.book.launch.first_cell import first_cell
from whenpool.book.launch.plain import Plain
from whenpool.book.launch.repository import configured
from whenpool.book.notebooks import is_notebook

__all__ = ["made", "stale", "write"]
_HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}


def chapters(root: Path) -> list[Path]:
    """The chapters of a clone that have code, by name."""
    return [path for path in sorted((root / "book").glob("*.md")) if is_notebook(path)]


def made(chapter: Path, root: Path) -> str:
    """The notebook of a chapter, as the text of its file.

    Args:
        chapter: ``book/<name>.md``.
        root: the clone, whose ``_config.yml`` says where Colab finds it.
    """
    source = jupytext.read(chapter)
    plain = Plain.of(root / "book", chapter)
    cells: list[Any] = [new_code_cell(first_cell(source, configured(root)))]
    for cell in source.cells:
        if cell.cell_type == "markdown":
            if text := plain.markdown(cell.source):
                cells.append(new_markdown_cell(text))
            continue
        for name in plain.tables_in(cell.source):
            cells.append(new_markdown_cell(f"**{plain.label(name)}**"))
        cells.append(new_code_cell(cell.source, metadata=_shown(cell.metadata)))
        if figure := cell.metadata.get("mystnb", {}).get("figure"):
            caption = plain.markdown(figure["caption"])
            cells.append(new_markdown_cell(f"**{plain.label(figure['name'])}.** {caption}"))
    _name(cells)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n"


def stale(root: Path) -> list[Path]:
    """The notebooks that are not what their chapters give now, missing or left over ones included."""
    wanted = {path.with_suffix(".ipynb"): path for path in chapters(root)}
    differ = [
        notebook
        for notebook, chapter in wanted.items()
        if not notebook.exists() or notebook.read_text("utf-8") != made(chapter, root)
    ]
    return differ + [path for path in sorted((root / "book").glob("*.ipynb")) if path not in wanted]


def write(root: Path) -> list[Path]:
    """Bring the notebooks of a clone up to date; returns those that were not."""
    changed = stale(root)
    for notebook in changed:
        chapter = notebook.with_suffix(".md")
        if chapter.exists() and is_notebook(chapter):
            notebook.write_text(made(chapter, root), "utf-8")
        else:
            notebook.unlink()
    return changed


def _shown(metadata: dict[str, Any]) -> dict[str, Any]:
    """Tags, and code that the page hides hidden in Jupyter and Colab too."""
    tags = list(metadata.get("tags", []))
    hidden = {"jupyter": {"source_hidden": True}, "cellView": "form"} if _HIDDEN & set(tags) else {}
    return hidden | ({"tags": tags} if tags else {})


def _name(cells: list[Any]) -> None:
    """An id for each cell that depends on what it says alone, so that few of them change."""
    seen: Counter[str] = Counter()
    for cell in cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[digest] += 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
