"""What CONTRIBUTING.md says of adding a pooling and a corpus, done word for word to a copy."""

import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from clones import CAPTURED, ROOT

from whenpool.runs.plans import PLANS, plan
from whenpool.runs.request import Request
from whenpool.runs.run import key

COMPARING = ("gradient_propagation", "natural_bias", "training_to_skip", "word_importance")
"""The chapters whose tables and figures list poolings."""
EXECUTE = """
import json, sys
from pathlib import Path
from whenpool.book.build import execute
name, parameters = sys.argv[1], json.loads(sys.argv[2])
target = Path("executed", f"{name}.ipynb").resolve()
target.parent.mkdir(exist_ok=True)
execute(Path("book", f"{name}.md"), target, parameters)
"""
PLANNED = """
import json
from whenpool.runs.request import Request
from whenpool.runs.plans import PLANS, plan
from whenpool.runs.run import Place, key
place, found = Place.default(), {}
for profile in ("smoke", "quick"):
    for chapter in PLANS:
        runs = plan(chapter, Request(profile), place)
        found[f"{profile} {chapter}"] = [
            [key(run, place), run.training.pooling if run.training else ""] for run in runs
        ]
print(json.dumps(found))
"""


def blocks(heading):
    """The Python under a heading of CONTRIBUTING.md."""
    sections = re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.MULTILINE)
    [section] = [section for section in sections if section.startswith(heading)]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def insert(file, before, text):
    """Put a text before the first line that begins so."""
    source = file.read_text("utf-8")
    place = re.search(f"^{re.escape(before)}", source, re.MULTILINE).start()
    file.write_text(source[:place] + text + source[place:], "utf-8")


def insert_line(file, table, line):
    """Put a line at the end of a dictionary."""
    assert line.count("\n") == 1
    source = file.read_text("utf-8")
    end = source.index("\n}", source.index(f"\n{table}")) + 1
    file.write_text(source[:end] + line + source[end:], "utf-8")


def copied(folder):
    for name in ("lib", "book", "data/paper", "data/results"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_toc.yml", "_config.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def python(folder, code, *arguments):
    names = {"WHENPOOL_DATA": "corpora", "WHENPOOL_STORE": "runs", "WHENPOOL_CACHE": "cache"}
    variables = {name: str(folder / value) for name, value in (names | {"PYTHONPATH": "lib"}).items()}
    command, variables["WHENPOOL_WORKERS"] = [sys.executable, "-c", code, *arguments], "1"
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, **CAPTURED)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def outputs(folder, chapter, **parameters):
    """A chapter's tables and figures in the smoke profile: Markdown, and SVG."""
    python(folder, EXECUTE, chapter, json.dumps({"profile": "smoke", **parameters}))
    notebook = nbformat.read(folder / "executed" / f"{chapter}.ipynb", as_version=4)
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    tables = [data["text/markdown"] for data in shown if "text/markdown" in data]
    return tables, [data["image/svg+xml"] for data in shown if "image/svg+xml" in data]


@pytest.fixture(scope="module")
def with_pooling(tmp_path_factory):
    """A copy to which the pooling of CONTRIBUTING.md was added, and nothing else."""
    folder = copied(tmp_path_factory.mktemp("pooling"))
    one_class, line, _ = blocks("Add a pooling")
    library = folder / "lib" / "whenpool"
    insert(library / "models" / "pooling.py", "POOLINGS:", one_class + "\n\n")
    insert_line(library / "models" / "registry.py", "LISTED", line)
    return folder


def test_a_pooling_is_in_every_plan_and_no_stored_run_changes_its_key(with_pooling, place):
    for name, runs in json.loads(python(with_pooling, PLANNED)).items():
        profile, chapter = name.split()
        before = [key(run, place) for run in plan(chapter, Request(profile), place)]
        assert [name_of for name_of, pooling in runs if pooling != "min"] == before
        like_max = [pooling for _, pooling in runs if pooling == "max"] if chapter in COMPARING else []
        assert len(runs) - len(before) == len(like_max), name
    assert set(COMPARING) <= set(PLANS)


def test_a_pooling_is_in_the_tables_and_figures_of_a_chapter(with_pooling):
    tables, figures = outputs(with_pooling, "training_to_skip")
    assert any(re.search(r"\| *MinPool", table) for table in tables)
    assert any("MinPool" in figure for figure in figures)
