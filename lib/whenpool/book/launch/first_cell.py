"""The cell that every launched notebook begins with."""

from typing import Any

_CELL = """\
# On Colab: fetch the repository and what is missing. Anywhere: use the GPU if there is one.
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
    kept.write_text("".join(f"{{p}}=={{version(p)}}\\n" for p in ("torch", "numpy")))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--use-pep517", "-c", str(kept)]
    subprocess.run([*pip, "-e", f"{{root}}[{extras}]"], check=True)
if root is not None:
    sys.path.insert(0, str(root / "lib"))
    os.chdir(root / "book")

import torch

os.environ.setdefault("WHENPOOL_DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
"""


def first_cell(chapter: Any, repository: dict[str, str]) -> str:
    """The cell for one chapter.

    Args:
        chapter: the notebook, whose imports say which extras it needs.
        repository: ``url`` and ``branch``; ``WHENPOOL_REPOSITORY`` names another address.
    """
    code = "\n".join(cell.source for cell in chapter.cells if cell.cell_type == "code")
    needs = {"whenpool.fewshot": ",fewshot,minilm", "whenpool.corpora.tagged": ",tagging"}
    extras = "notebook" + "".join(extra for name, extra in needs.items() if name in code)
    return _CELL.format(extras=extras, **repository).rstrip("\n")
