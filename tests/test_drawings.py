"""Drawings that explain word importance and the paths of gradients."""

import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from whenpool import InputError
from whenpool.report.drawings import FONT, SIGNAL, WIDTH, draw_gradient_paths, draw_nwi

mpl.use("agg")
WORDS = "the plot is thin but the two leads are wonderful !".split()
IMPORTANCE = [0.1, 0.4, 0.2, 0.05, 1.25]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def words_by_line(axes):
    lines = {}
    for text in axes.texts:
        lines.setdefault(round(text.get_position()[1], 2), []).append(text)
    return [
        [t.get_text() for t in sorted(line, key=lambda t: t.get_position()[0])]
        for line in lines.values()
    ]


def test_nwi_shows_the_text_and_three_windows_replaced():
    figure = draw_nwi(WORDS, IMPORTANCE, 2)
    axes, _ = figure.axes
    lines = words_by_line(axes)
    assert lines.count(WORDS) == 1
    for t in (0, 2, 4):
        replaced = [*WORDS[: 2 * t], "UNK", "UNK", *WORDS[2 * t + 2 :]]
        assert lines.count(replaced) == 1
    assert sum(line.count("UNK") for line in lines) == 6


def test_nwi_draws_the_numbers_it_is_given():
    figure = draw_nwi([*WORDS, "and", "so"], [*IMPORTANCE, 0.3, math.nan], 2)
    axes, profile = figure.axes
    bars = [p for p in axes.patches if isinstance(p, Rectangle)]
    heights = np.array([bar.get_height() for bar in bars])
    importance = np.array([*IMPORTANCE, 0.3])
    np.testing.assert_allclose(heights / heights.max(), importance / 1.25)
    written = {text.get_text() for text in axes.texts}
    assert {"0.1", "0.4", "0.2", "0.05", "1.2", "0.3"} <= written
    line, marks = profile.lines
    expected = (importance - 0.05) / 1.25
    np.testing.assert_allclose(marks.get_ydata(), expected)
    at = np.linspace(0, 5, 100)
    np.testing.assert_allclose(line.get_ydata(), np.interp(at, np.arange(6), expected), atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_nwi_keeps_words_apart_and_inside(k):
    words = ["a", "I", *WORDS[:8]]
    figure = draw_nwi(words, np.linspace(0, 1, len(words) // k), k)
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    assert width / figure.dpi == WIDTH
    texts = [text for axes in figure.axes for text in axes.texts]
    boxes = [text.get_window_extent() for text in texts]
    assert all(text.get_fontsize() >= 9 for text in texts)
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


@pytest.mark.parametrize("importance", [[0.0, 0.0], [0.5, 0.5]])
def test_nwi_of_windows_that_matter_alike_is_flat(importance):
    profile = draw_nwi(WORDS[:4], importance, 2).axes[1]
    assert not np.any(profile.lines[0].get_ydata())


def test_nwi_of_a_single_window():
    assert draw_nwi(WORDS[:3], [0.7], 2).axes[1].lines[1].get_ydata().tolist() == [0]


@pytest.mark.parametrize(
    ("words", "importance", "k", "message"),
    [
        (WORDS, IMPORTANCE, 0, "not k=0"),
        (WORDS, [], 12, "a text of 11 words has no window of k=12"),
        (WORDS, IMPORTANCE[:4], 2, "11 words have 5 full windows of 2, not 4"),
        (WORDS, [*IMPORTANCE, 1.0], 2, "11 words have 5 full windows of 2, not 6"),
        (WORDS, [-0.1, *IMPORTANCE[1:]], 2, "finite and not negative"),
        (WORDS, [math.inf, *IMPORTANCE[1:]], 2, "finite and not negative"),
        (
            WORDS * 3,
            [0.1] * 16,
            2,
            r"the text takes \d+\.\d inches, the drawing has 7: choose a shorter",
        ),
    ],
)
def test_nwi_refuses_what_does_not_fit(words, importance, k, message):
    with pytest.raises(InputError, match=message):
        draw_nwi(words, importance, k)
    assert not plt.get_fignums()


def test_the_loss_reaches_two_states_or_all():
    figure = draw_gradient_paths()
    assert figure.get_size_inches()[0] == WIDTH
    lit, direct = [], []
    for axes in figure.axes:
        circles = [p for p in axes.patches if isinstance(p, Circle)]
        arrows = [p for p in axes.patches if isinstance(p, FancyArrowPatch)]
        lit.append([mpl.colors.to_hex(c.get_facecolor()) == SIGNAL for c in circles])
        direct.append(sum(mpl.colors.to_hex(a.get_facecolor()) == SIGNAL for a in arrows))
        assert len(arrows) - direct[-1] == 8  # between neighbours, both ways
        assert all(text.get_fontsize() >= FONT for text in axes.texts)
    assert lit == [[True, False, False, True], [True] * 4]
    assert direct == [2, 5]
