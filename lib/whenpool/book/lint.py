"""``python -m whenpool.book.lint``: ruff on the cells of the chapters, by the chapters' own lines."""

import re
import subprocess
import sys
from pathlib import Path

from whenpool.base.paths import project_root
from whenpool.book.launch import chapters

IGNORED = (
    "B018",  # a cell ends with what it shows
    "B023",  # a lambda is called within its own turn of the loop
    "E402", "I001",  # imports stand where a reader needs them
    "E731",  # a short lambda under the sentence that it proves
    "RET503",  # a function that draws returns early where there is nothing to draw
    "RUF059",  # figure, axes = plt.subplots()
    "S101", "W391",
)  # fmt: skip
_CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n|(?::[^\n]*\n)*)(?P<code>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def as_python(chapter: str) -> str:
    """The code of a chapter with every other line emptied, so that a line keeps its number."""
    found, end = "", 0
    for cell in _CELL.finditer(chapter):
        found += "\n" * chapter.count("\n", end, cell.start("code")) + cell["code"]
        end = cell.end("code")
    return found


def lint(chapter: Path, root: Path) -> str:
    """What ruff says of a chapter's cells, a finding a line; nothing when there is none."""
    name = str(chapter.relative_to(root))
    command = [
        sys.executable, "-m", "ruff", "check", "--quiet", "--output-format", "concise",
        "--extension", "md:python", "--ignore", ",".join(IGNORED), "--config", "builtins = ['display']",
        "--stdin-filename", name, "-",
    ]  # fmt: skip
    source = as_python(chapter.read_text("utf-8"))
    done = subprocess.run(command, cwd=root, input=source, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main() -> int:
    """Lint every chapter; the exit code is 1 where something was found."""
    root = project_root()
    if root is None:
        print("the chapters are in the repository: run this inside a clone", file=sys.stderr)
        return 2
    said = "".join(lint(chapter, root) for chapter in chapters(root))
    print(said, end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
