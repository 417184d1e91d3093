"""For ``make lint``: what ruff finds in cells of chapters, and phrases that are not plain
English."""

import re
import subprocess
import sys
from pathlib import Path

from notebooks import chapters

ROOT = Path(__file__).parents[1]
IGNORED = (
    "B007",  # for epoch in range(epochs)
    "B018",  # a cell ends with what it shows
    "B023",  # a lambda is called within its own turn of the loop
    "E402",
    "I001",  # imports are where a reader needs them
    "E731",  # a short lambda under the sentence that it proves
    "RET503",  # a function that draws returns early where there is nothing to draw
    "RUF059",  # figure, axes = plt.subplots()
    "S101",
    "W391",
)
"""What ruff does not look for in cells."""
_CODE = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?:---\n.*?^---\n|(?::[^\n]*\n)*)(?P<code>.*?)^```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


def as_python(chapter: str) -> str:
    """The code of a chapter with every other line emptied, so that a line keeps its number."""
    code, end = "", 0
    for cell in _CODE.finditer(chapter):
        code += "\n" * chapter.count("\n", end, cell.start("code")) + cell["code"]
        end = cell.end("code")
    return code


def lint(chapter: Path, root: Path) -> str:
    """What ruff says of a chapter's cells, a finding a line; nothing when there is none."""
    # cells are not formatted, so that lines may be longer
    options = (
        f"check --quiet --output-format concise --extension md:python --ignore {','.join(IGNORED)} "
        "--config lint.pycodestyle.max-line-length=110 --config builtins=['display'] "
        f"--stdin-filename {chapter.relative_to(root)} -"
    )
    command = [sys.executable, "-m", "ruff", *options.split()]
    source = as_python(chapter.read_text("utf-8"))
    done = subprocess.run(
        command, cwd=root, input=source, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


_PRIVATE = re.compile(
    r"\b(of\s+record|held\s+against|what\s+came\s+of\s+it|the\s+mend|let(?:s|ting)?(?:\s\w+)?\s+in|tells|told|"
    r"company|b(?:ears?|orne)(?:\s\w+)?\s+out|what\s+only|leans?\s+on|lives|stands?(?!-|\s+for)|comes?\s+of)\b",
    re.IGNORECASE,
)
"""Phrases that only those who wrote the book understand at once."""
_NO_PROSE = re.compile(
    r"^(`{3,})(?!\{(?:figure|admonition|glossary|table)).*?^\1 *$|(`+)(?!`).+?\2"
    r"|^(?:---\n.*?\n---|%[^\n]*)$",
    re.MULTILINE | re.DOTALL,
)
_LOST = re.compile(r"^[ \t]*%(?! (?:holds|fails|undecided): )", re.MULTILINE)
"""What begins a comment by mistake, and so ends a paragraph."""
_WORDS_OF_A_FIGURE = re.compile(r"^ *(?:caption|alt): [^\n]*$", re.MULTILINE)


def wording(page: Path, root: Path) -> str:
    """The private phrases in the prose of a page, captions included, and lines that are not shown,
    each with its line."""
    text = page.read_text("utf-8")

    def without_code(block: re.Match[str]) -> str:
        kept = [line if _WORDS_OF_A_FIGURE.match(line) else "" for line in block[0].split("\n")]
        return "\n".join(kept)

    prose = _NO_PROSE.sub(without_code, text)
    prose_and_comments = _CODE.sub(without_code, text)
    lines = ""
    for phrase in _PRIVATE.finditer(prose):
        line = prose.count("\n", 0, phrase.start()) + 1
        words = " ".join(phrase[0].split())
        lines += f"{page.relative_to(root)}:{line}: say {words!r} in plain English\n"
    for lost in _LOST.finditer(prose_and_comments):
        line = prose_and_comments.count("\n", 0, lost.start()) + 1
        lines += f"{page.relative_to(root)}:{line}: a line that begins with % is not shown\n"
    return lines


def main() -> int:
    """Say what is wrong; the exit code is 1 when something is."""
    pages = [
        *sorted((ROOT / "book").glob("[!.]*.md")),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    lines = [lint(chapter, ROOT) for chapter in chapters(ROOT)] + [
        wording(page, ROOT) for page in pages
    ]
    print("".join(lines), end="")
    return 1 if any(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
