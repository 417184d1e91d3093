"""Looks at the built pages: all there, whole, linked, and not smoke-sized."""

import csv
import json
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

ROOT = Path(__file__).parents[1]
HTML = ROOT / "_build" / "html"


def main() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])]
    problems = [problem for file in files for problem in check(file)]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"{len(files)} pages are whole")


def check(file: str):
    page = HTML / f"{file}.html"
    if not page.is_file():
        yield f"{file}: not built"
        return
    text = page.read_text("utf-8")
    if "Traceback (most recent call last)" in text:
        yield f"{file}: a cell failed"
    if number := re.search(r"np\.(int|float)\d+\([^)]*\)", text):
        yield f"{file}: {number[0]} stands where a number should"
    if "site-packages" in text:
        yield f"{file}: a cell shows a warning of some package"
    for link in re.findall(r'(?:href|src)="([^"]+)"', text):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or not parts.path:
            continue
        target = (page.parent / unquote(parts.path)).resolve()
        if not target.exists():
            yield f"{file}: {link} leads nowhere"
    notebook = ROOT / "_build" / "stage" / f"{file}.ipynb"
    if not notebook.is_file():
        return
    parameters = json.loads(notebook.read_text())["metadata"]["papermill"]["parameters"]
    if parameters.get("profile") == "smoke":
        yield f"{file}: smoke-sized runs stand in the published book"
    yield from doors(file, text)
    for name in re.findall(r"name: (fig-[\w-]+)", (ROOT / f"{file}.md").read_text()):
        if f'id="{name}"' not in text:
            yield f"{file}: figure {name} is not there"


def doors(file: str, text: str):
    """What is wrong with the lines below figures: data, runs and notebook are there."""
    for line in re.findall(r'<div class="provenance docutils">(.*?)</div>', text, re.DOTALL):
        files = [HTML / "book" / link for link in re.findall(r'href="([^"]+\.csv)"', line)]
        if not files:
            continue  # nothing was run for it
        *rows, runs = ([*csv.DictReader(each.open(encoding="utf-8"))] for each in files)
        keys = {row["key"] for row in runs}
        if not keys or not {row["key"] for part in rows for row in part if row.get("key")} <= keys:
            yield f"{file}: {files[0].name} has rows of runs that {files[-1].name} lacks"
        notebook = re.search(r'/blob/\w+/([\w/]+\.ipynb)"', line)
        if not notebook or not (ROOT / notebook[1]).is_file():
            yield f"{file}: below {files[0].stem} no notebook is linked"


if __name__ == "__main__":
    main()
