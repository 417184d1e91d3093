"""The section "See it happen" of a chapter runs by itself, agrees with the library, and draws its figure."""

import re

import jupytext
import matplotlib.pyplot as plt
import numpy as np
import pytest
from clones import ROOT

CHAPTERS = ("gradient_propagation", "training_to_skip", "natural_bias")
WRONG = [  # a change that makes the formula another one
    ("gradient_propagation", "o.sigmoid() * c.tanh()", "o.sigmoid() * c"),
    ("gradient_propagation", "x.flip(0))[::-1]", "x.flip(0))"),
    ("training_to_skip", "normalize(states, dim=2)", "states"),
    ("training_to_skip", "~mask, -torch.inf).softmax", "mask, -torch.inf).softmax"),
    ("natural_bias", "p / (1 - p)", "p"),
    ("natural_bias", '"right": total', '"right": 0'),
]


def section(chapter):
    """The parameters and imports of a chapter as code, the cells of the section, and its text."""
    setup, cells, text, inside = [], [], "", False
    for cell in jupytext.read(ROOT / "book" / f"{chapter}.md").cells:
        if cell.cell_type == "code":
            title = cell.metadata.get("mystnb", {}).get("code_prompt_show")
            if inside:
                cells.append(cell)
            elif title in ("Parameters", "Imports"):
                setup.append(cell.source)
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            inside = part.startswith("## See it happen") if part.startswith("## ") else inside
            text += part if inside else ""
    return setup, cells, text


def execute(chapter, monkeypatch, change=("", "")):
    """Run the section on few short texts, with a change of its code; returns the figures that it shows."""
    setup, cells, _ = section(chapter)
    names, figures = {}, []

    def show():
        figures.append(plt.gcf())
        plt.close()

    monkeypatch.setattr(plt, "show", show)
    code = [re.sub(r"\b(test|shortest|longest)=\d+", r"\1=10", cell.source) for cell in cells]
    assert any(change[0] in source for source in code)
    with plt.rc_context():
        for source in setup:
            exec(source, names)
        names["texts"] = 40  # instead of hundreds
        for source in code:
            exec(source.replace(*change) if change[0] else source, names)
    return figures


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_section_is_short_and_visible_and_names_what_to_change(chapter):
    _, cells, text = section(chapter)
    assert 0 < sum(len(cell.source.splitlines()) for cell in cells) <= 60
    assert not [cell.metadata.get("tags") for cell in cells if cell.metadata.get("tags")]
    assert 2 <= len(re.findall("^- ", text.partition("**Change one line")[2], re.MULTILINE)) <= 3
    code = "\n".join(cell.source for cell in cells)
    for line in ("for epoch in range", "backward()", "optimizer.step()", "plt.show()"):
        assert line in code


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_section_runs_and_draws_its_figure(chapter, monkeypatch):
    figures = execute(chapter, monkeypatch)
    assert len(figures) == 1
    assert all(axes.get_xlabel() for axes in figures[0].axes)
    assert figures[0].axes[0].get_ylabel()
    assert any(axes.get_legend() for axes in figures[0].axes)
    for axes in figures[0].axes:
        assert len(axes.lines) > 1
        assert all(np.isfinite(np.asarray(line.get_ydata(), float)).all() for line in axes.lines)


@pytest.mark.parametrize(("chapter", "right", "wrong"), WRONG)
def test_the_section_notices_another_formula_than_the_librarys(chapter, right, wrong, monkeypatch):
    with pytest.raises(AssertionError):
        execute(chapter, monkeypatch, (right, wrong))
