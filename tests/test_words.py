"""Weights shown on the words themselves."""

import math
import re
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle
from outline import Outline

from whenpool import InputError, TextClassifier
from whenpool.explain.words import (
    AGAINST,
    COLOUR,
    DEEPEST,
    attention_weights,
    figure,
    per_word,
    strip,
    strips,
)

mpl.use("agg")
WORDS = ["a", "fine", "film"]


class Page(Outline):
    """With the attributes of each word, and of those that are coloured."""

    @property
    def words(self):
        return [attrs for _, attrs in self.tags if "title" in attrs]

    @property
    def coloured(self):
        return [attrs for attrs in self.words if "background" in attrs.get("style", "")]


def test_what_the_user_wrote_is_escaped():
    words = ["<script>alert(1)</script>", "&", '"', "</span>", "fine"]
    shown = strip(words, range(5), title='"><b onclick="x()">&')
    page = Page(shown.html)
    assert {tag for tag, _ in page.tags} == {"div", "span", "b", "small"}
    assert not any("onclick" in attrs for _, attrs in page.tags)
    assert " ".join(words) in page.text
    assert '"><b onclick="x()">&' in page.text
    assert len(page.words) == 5


def test_depth_and_line_grow_with_the_weight():
    page = Page(strip([*WORDS, "!"], [0.1, 0.4, 0.2, math.nan]).html)
    opacity = [int(re.search(COLOUR + "(..)", w["style"])[1], 16) / 255 for w in page.coloured]
    assert opacity == pytest.approx([DEEPEST / 4, DEEPEST, DEEPEST / 2], abs=0.003)
    assert [re.search(r"(\d+)px solid", w["style"])[1] for w in page.coloured] == ["1", "4", "2"]
    assert [w["title"] for w in page.words] == ["0.1", "0.4", "0.2", "no weight"]


def test_what_is_below_zero_has_a_colour_and_a_line_of_its_own():
    shown = strip(WORDS, [1, -2, 0])
    first, second = Page(shown.html).coloured
    assert f"4px dashed {AGAINST}" in second["style"]
    assert f"2px solid {COLOUR}" in first["style"]
    assert "−2 to 2" in strip(WORDS, [1, -2, 0], "for").html
    assert repr(shown) == "a(1) fine(-2) film(0)"
    assert len(figure(WORDS, [1, -2, 0]).axes[0].patches) == 4


@pytest.mark.parametrize("weights", [[0, 0, 0], [math.nan] * 3, torch.zeros(3), np.zeros((1, 3))])
def test_no_weight_is_no_colour(weights):
    shown = strip(WORDS, weights)
    assert not Page(shown.html).coloured
    assert not [p for p in figure(WORDS, weights).axes[0].patches if isinstance(p, Rectangle)]


def test_strips_stand_one_below_the_other():
    both = strips([strip(WORDS, [1, 2, 3], "MaxAtt"), strip(WORDS, [3, 2, 1], "A longer title")])
    page = Page(both.html)
    groups = [attrs["aria-label"] for _, attrs in page.tags if attrs.get("role") == "group"]
    assert groups == [f"{name}, marked by weight, 0–3" for name in ("MaxAtt", "A longer title")]
    assert len(set(re.findall(r"flex:1 0 ([\d.]+)em", both.html))) == 1
    assert len(page.coloured) == 6
    assert both._repr_html_() == both.html
    assert repr(both) == "MaxAtt: a(1) fine(2) film(3)\nA longer title: a(3) fine(2) film(1)"


@pytest.mark.parametrize(
    ("words", "weights", "scale", "message"),
    [
        ([], [], None, "there are no words to show"),
        ("a fine film", [1, 2, 3], None, "words are a list, not one string"),
        (WORDS, [1, 2], None, "there are 3 words and 2 weights"),
        (WORDS, [1, 0.5, math.inf], None, "word 2, 'film', has the weight inf"),
        (WORDS, [1, 2, 3], 0, "a number above 0, not 0"),
        (WORDS, [1, 2, 3], math.nan, "a number above 0, not nan"),
    ],
)
@pytest.mark.parametrize("show", [strip, figure])
def test_what_cannot_be_shown_is_told_in_one_line(show, words, weights, scale, message):
    with pytest.raises(InputError, match=message):
        show(words, weights, scale=scale)


def test_the_page_keeps_its_contrast_on_the_deepest_word():
    """WCAG's contrast of text, at least 4.5, on the backgrounds of the book and of editors."""

    def luminance(colour):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))

    pages = ["#ffffff #222832", "#14181e #ced6dd", "#1f1f1f #cccccc", "#383838 #e3e3e3"]
    for background, ink, colour in ((*page.split(), c) for page in pages for c in (COLOUR, AGAINST)):
        below, text, own = (np.array(mpl.colors.to_rgb(c)) for c in (background, ink, colour))
        values = sorted([luminance(DEEPEST * own + (1 - DEEPEST) * below), luminance(text)])
        assert (values[1] + 0.05) / (values[0] + 0.05) >= 4.5


def test_the_figure_has_every_word_within_its_width():
    words = ["$x_t$", *(f"word{i}" for i in range(60)), "<b>"]
    drawing = figure(words, [math.nan, *range(1, 62)], title="weights of $t$", width=5)
    axes = drawing.axes[0]
    assert [t.get_text() for t in axes.texts] == ["weights of $t$", *words]
    assert len(axes.patches) == 2 * 61  # a box and a bar
    drawing.canvas.draw()
    width, height = drawing.get_size_inches() * drawing.dpi
    boxes = [t.get_window_extent() for t in axes.texts]
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    lines = {}
    for box in boxes[1:]:
        lines.setdefault(round((box.y0 + box.y1) / 2 / 10), []).append(box)
    assert len(lines) > 3
    for line in lines.values():
        assert all(a.x1 < b.x0 for a, b in pairwise(line))


def test_windows_are_spread_over_their_words():
    np.testing.assert_equal(per_word([1, 2], 7, 3), [1, 1, 1, 2, 2, 2, math.nan])
    np.testing.assert_equal(per_word(torch.tensor([1.0, 2.0, math.nan]), 4, 2), [1, 1, 2, 2])
    np.testing.assert_equal(per_word([], 2, 3), [math.nan] * 2)


@pytest.mark.parametrize(
    ("windows", "words", "k", "message"),
    [
        ([1], 4, 2, "4 words have 2 full windows of 2, not 1"),
        ([1, 2, 3], 4, 2, "4 words have 2 full windows of 2, not 3"),
        ([1], 4, 0, "not k=0"),
    ],
)
def test_windows_that_do_not_fit_are_refused(windows, words, k, message):
    with pytest.raises(InputError, match=message):
        per_word(windows, words, k)


IDS, LENGTHS = torch.tensor([[2, 3, 4, 5], [6, 7, 1, 1]]), torch.tensor([4, 2])


@pytest.mark.parametrize("pooling", ["mean", "attention", "max_attention", "last_attention"])
def test_the_attention_of_each_text(pooling):
    model = TextClassifier(9, 2, pooling, embedding_size=5, hidden_size=4).train()
    weights = attention_weights(model, IDS, LENGTHS)
    assert model.training
    assert [len(row) for row in weights] == [4, 2]
    for row in weights:
        assert row.sum() == pytest.approx(1)
        assert not row.requires_grad
    if pooling == "mean":
        assert weights[1].tolist() == [0.5, 0.5]
    alone = attention_weights(model, IDS[1:, :2], LENGTHS[1:])
    torch.testing.assert_close(alone[0], weights[1])


@pytest.mark.parametrize(("pooling", "name"), [("last", "LastState"), ("max", "MaxPool")])
def test_a_pooling_without_weights_is_named(pooling, name):
    model = TextClassifier(9, 2, pooling, embedding_size=5, hidden_size=4)
    with pytest.raises(InputError, match=f"{name} gives words no weights; choose mean, attention"):
        attention_weights(model, IDS, LENGTHS)
