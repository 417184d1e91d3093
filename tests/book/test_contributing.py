"""What CONTRIBUTING.md says of adding a pooling and a corpus, done word for word to a copy."""

import json
import os
import re
import shutil

import matplotlib.pyplot as plt
import nbformat
import pytest
import seaborn as sns
from called import python
from clones import ROOT

from paper.chapter import glue, open_chapter
from paper.chapters import PLANS, plan
from paper.runs.request import Request
from paper.runs.run import key

COMPARING = ("gradient_propagation", "natural_bias", "training_to_skip", "word_importance")
"""The chapters whose tables and figures list poolings."""
EXECUTE = """
from pathlib import Path
from paper.pages.builder import execute
executed = Path("book/executed.ipynb").resolve()
execute(Path("book/word_importance.md"), executed, {"profile": "smoke"})
"""
PLANNED = """
import json
from paper.runs.request import Request
from paper.chapters import PLANS, plan
from paper.runs.run import Place, key
place, found = Place.default(), {}
for profile in ("smoke", "quick"):
    for chapter in PLANS:
        runs = plan(chapter, Request(profile), place)
        found[f"{profile} {chapter}"] = [
            [key(run, place), run.training.pooling if run.training else ""] for run in runs
        ]
print(json.dumps(found))
"""

SIZES = """
import json
from whenpool.corpora import load
from paper.runs.request import Request
from paper.chapters import PLANS, plan
from paper.runs.run import Place
assert len(load("hotels", length="long").train) == 800
place = Place.default()
plans = {profile: [plan(chapter, Request(profile, ("hotels",)), place) for chapter in PLANS]
         for profile in ("quick", "compact", "paper")}
assert all(map(all, plans.values()))
print(json.dumps({profile: [run.training.size for runs in each for run in runs if run.training]
                  for profile, each in plans.items()}))
"""


def blocks(heading):
    """The Python under a heading of CONTRIBUTING.md."""
    sections = re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.MULTILINE)
    [section] = [section for section in sections if section.startswith(heading)]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def insert(file, after, before, text):
    """Put a text before the first line that begins so after one that begins as ``after`` does."""
    source = file.read_text("utf-8")
    place = source.index(f"\n{before}", source.index(f"\n{after}")) + 1
    file.write_text(source[:place] + text + source[place:], "utf-8")


def run(folder, code):
    names = {"WHENPOOL_DATA": "corpora", "WHENPOOL_STORE": "runs", "WHENPOOL_CACHE": "cache"}
    variables = {name: str(folder / value) for name, value in names.items()}
    variables["PYTHONPATH"] = os.pathsep.join(str(folder / part) for part in ("lib", "scripts"))
    variables["WHENPOOL_WORKERS"] = "1"
    done = python(code, cwd=folder, env=os.environ | variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def with_pooling(tmp_path_factory):
    """A copy to which the pooling of CONTRIBUTING.md was added, and nothing else."""
    folder = tmp_path_factory.mktemp("pooling")
    for name in ("lib", "scripts", "book", "data/paper", "data/results"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_toc.yml", "_config.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    one_class, line, _ = blocks("Add a pooling")
    insert(folder / "lib/whenpool/models/pooling.py", "", "POOLINGS:", one_class + "\n\n")
    insert(folder / "lib/whenpool/models/registry.py", "LISTED", "}", line)
    return folder


def test_the_figure_to_copy_is_drawn_from_the_record(monkeypatch):
    guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = guide.split("### Add a figure")[1].partition("\n### ")[0]
    header = r"\{code-cell\} ipython3\n(?:---\n.*?\n---|:tags: .*?)\n|python\n"
    drawing, provenance, number = re.findall(rf"^```(?:{header})(.*?)```", section, re.M | re.S)
    monkeypatch.chdir(ROOT / "book")
    names = {"chapter": open_chapter("natural_bias"), "plt": plt, "sns": sns, "glue": glue}
    exec(f"from whenpool.models.registry import *\n{drawing}\n{provenance}", names)
    models = [label.get_text() for label in plt.gca().get_yticklabels()]
    assert models == ["BiLSTM", "MeanPool", "MaxPool", "Att", "MaxAtt"]
    glued = []
    exec(number, names | {"glue": lambda *what: glued.append(what)})
    assert dict(glued)["mid_best"] in models
    assert 50 < float(dict(glued)["mid_highest"]) < 100
    plt.close("all")


def test_a_pooling_is_in_every_plan_and_no_stored_run_changes_its_key(with_pooling, place):
    for name, runs in json.loads(run(with_pooling, PLANNED)).items():
        profile, chapter = name.split()
        before = [key(run, place) for run in plan(chapter, Request(profile), place)]
        assert [name_of for name_of, pooling in runs if pooling != "min"] == before
        like_max = (
            [pooling for _, pooling in runs if pooling == "max"] if chapter in COMPARING else []
        )
        assert len(runs) - len(before) == len(like_max), name
    assert set(COMPARING) <= set(PLANS)


def test_a_corpus_is_in_every_plan_with_no_more_texts_than_it_has(with_pooling):
    reader, line = blocks("Add a corpus")
    published = with_pooling / "lib/whenpool/corpora/published.py"
    before = published.read_text("utf-8")
    insert(published, "", "PUBLICATIONS:", reader + "\n\n")
    insert(published, "PUBLICATIONS", "}", line)
    (with_pooling / "corpora").mkdir(exist_ok=True)
    rows = (f"{1 + n % 5}\t{f'hotel {n} ' * 60}\n" for n in range(3_000))
    (with_pooling / "corpora" / "hotels.tsv").write_text("".join(rows), "utf-8")
    for profile, sizes in json.loads(run(with_pooling, SIZES)).items():
        assert 0 < min(sizes) <= max(sizes) <= 800, profile
    published.write_text(before, "utf-8")


def test_a_pooling_is_in_the_tables_and_figures_of_a_chapter(with_pooling):
    run(with_pooling, EXECUTE)
    notebook = nbformat.read(with_pooling / "book" / "executed.ipynb", as_version=4)
    shown = [
        output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])
    ]
    assert any(re.search(r"\| *MinPool", data.get("text/markdown", "")) for data in shown)
    assert any("MinPool" in data.get("image/svg+xml", "") for data in shown)
