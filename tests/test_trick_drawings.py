"""Drawings that explain last attention, dropout attention and the curricula."""

import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from drawn import check_words
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from whenpool import InputError
from whenpool.report.drawings import FONT, QUIET, WIDTH
from whenpool.report.trick_drawings import (
    ATTENTION,
    CHAIN,
    DROPPED,
    GREY,
    SCORES,
    THICKEST,
    draw_curricula,
    draw_dropout_attention,
    draw_last_attention,
)

mpl.use("agg")
CURVES = {"penalty": [0.0, 0.1, 1.0, 1.0], "dropout": [0.0, 0.3, 1.0, 1.0]}


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def artists(axes, kind, colour=None):
    """Artists of one kind (and face colour) from left to right."""
    found = [p for p in axes.patches if type(p) is kind]
    found = [p for p in found if colour in (None, to_hex(p.get_facecolor()))]
    return sorted(found, key=lambda p: middle(p)[0])


def middle(artist):
    box = extent(artist)
    return ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)


def extent(artist):
    """The box around an artist, in inches of its panel."""
    return artist.get_path().transformed(artist.get_patch_transform()).get_extents()


def panels(figure):
    return [axes for axes in figure.axes if artists(axes, Circle)]


def written(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("draw", [draw_last_attention, draw_dropout_attention])
def test_words_are_large_and_stay_inside_and_apart(draw):
    check_words(draw())


def test_each_state_is_compared_with_the_last():
    figure = draw_last_attention()
    assert len(panels(figure)) == 2
    for axes in panels(figure):
        states = artists(axes, Circle)
        assert [to_hex(c.get_facecolor()) for c in states] == [QUIET] * 3 + [ATTENTION]
        places = [middle(state)[0] for state in states]
        texts = written(axes)
        for name, place in zip("123n", places, strict=True):
            column = [t for t in axes.texts if math.isclose(t.get_position()[0], place)]
            column.sort(key=lambda t: t.get_position()[1])
            assert [t.get_text() for t in column][:3] == [
                f"$x_{{{name}}}$", f"$h_{{{name}}}$", rf"$\hat h_{name} \cdot q$"
            ]  # fmt: skip
        assert {"softmax", "$q$"} <= {*texts}
        query = axes.lines[0]  # from the last state to every score
        assert query.get_xdata()[0] == pytest.approx(places[-1], abs=0.2)
        assert query.get_xdata()[-1] == pytest.approx(places[0])
        up = [a for a in artists(axes, FancyArrowPatch, GREY) if extent(a).height > extent(a).width]
        assert len(up) == 12  # from the words, from the states, to softmax
        along = len(artists(axes, FancyArrowPatch, GREY)) - len(up)
        assert along == 4  # between neighbours, what is left out being one


def test_bars_and_arrows_are_in_proportion_to_the_weights():
    left, right = panels(draw_last_attention())
    powers = [math.exp(score) for score in SCORES]
    weights = [power / sum(powers) for place, power in enumerate(powers) if place != 3]
    assert max(SCORES) == SCORES[-1]  # no state is more like the query than the query
    bars, arrows = artists(left, Rectangle), artists(left, FancyArrowPatch, ATTENTION)
    (one,) = artists(right, Rectangle)
    heights = np.array([bar.get_height() for bar in bars])
    np.testing.assert_allclose(heights / one.get_height(), weights)
    np.testing.assert_allclose([arrow.get_linewidth() / THICKEST for arrow in arrows], weights)
    (embedding,) = (box for box in artists(left, FancyBboxPatch) if middle(box)[1] > 3.5)
    for bar, arrow in zip(bars, arrows, strict=True):
        assert bar.get_y() + bar.get_height() < extent(arrow).y0 + 0.1
        assert extent(arrow).y1 == pytest.approx(extent(embedding).y0, abs=0.05)


def test_at_the_end_all_mass_is_on_the_last_state():
    left, right = panels(draw_last_attention())
    (bar,), (arrow,) = artists(right, Rectangle), artists(right, FancyArrowPatch, ATTENTION)
    assert middle(bar)[0] == pytest.approx(middle(artists(right, Circle)[-1])[0])
    assert arrow.get_linewidth() == THICKEST
    assert written(right).count("0") == 3
    assert "0" not in written(left)
    assert r"$s_\mathrm{emb} = \Sigma_t\,\alpha_t h_t$" in written(left)
    assert r"$s_\mathrm{emb} = h_n$" in written(right)
    assert {"λ = 0", "attention wherever it likes"} <= {*written(left)}
    assert {"λ = 1", "what is left"} <= {*written(right)}


def test_gates_are_dropped_and_the_way_back_grows():
    found = panels(draw_dropout_attention())
    assert [len(dropped) for dropped in DROPPED.values()] == [0, 3, 5]
    ways = [1, 3, 6]  # states between the embedding and h_1, both ends of the chain counted
    for axes, (title, dropped), way in zip(found, DROPPED.items(), ways, strict=True):
        texts, states = written(axes), artists(axes, Circle)
        assert title in texts
        assert texts.count("×") == len(dropped)
        gates = [g for g in artists(axes, FancyBboxPatch) if extent(g).width < 0.5]
        assert len(gates) == len(states) - 1 == 5
        crosses = [t.get_position()[0] for t in axes.texts if t.get_text() == "×"]
        for gate, state in zip(gates, states, strict=False):
            assert middle(gate)[0] == pytest.approx(middle(state)[0])
            shut = any(math.isclose(middle(gate)[0], cross) for cross in crosses)
            assert to_hex(gate.get_facecolor()) == ("#ffffff" if shut else ATTENTION)
        lit = [to_hex(c.get_facecolor()) == CHAIN for c in states]
        assert lit == [True] * way + [False] * (6 - way)
    assert r"$s_\mathrm{emb} = h_n$" in written(found[-1])
    assert sum(r"$s_\mathrm{emb} = \Sigma_t\,\alpha_t h_t$" in written(axes) for axes in found) == 2


def test_the_last_state_has_no_gate_and_all_others_may_lose_their_way():
    for axes, dropped in zip(panels(draw_dropout_attention()), DROPPED.values(), strict=True):
        states = artists(axes, Circle)
        upward = [a for a in axes.patches if type(a) is FancyArrowPatch and extent(a).y1 > 1.3]
        ends = sorted(middle(a)[0] for a in upward)
        connected = [s for s in states if any(math.isclose(middle(s)[0], e) for e in ends)]
        assert len(upward) == len(connected) == 6 - len(dropped)
        assert connected[-1] is states[-1]
        (first,) = [a for a in upward if to_hex(a.get_facecolor()) == CHAIN]
        assert math.isclose(middle(first)[0], ends[0])
        steps = [a for a in artists(axes, FancyArrowPatch, CHAIN) if a is not first]
        assert all(middle(step)[0] < middle(first)[0] for step in steps)
        assert len(axes.lines) == len(dropped)  # dotted where the connection was
        assert len(artists(axes, FancyArrowPatch, GREY)) + len(steps) == 6 + 6  # words, recurrence


def test_whole_chain_is_highlighted_at_the_end():
    chain = [len(artists(axes, FancyArrowPatch, CHAIN)) for axes in panels(draw_dropout_attention())]
    assert chain == [1, 3, 7]  # one into the embedding, the others from state to state


def test_curricula_draw_the_curves_they_are_given():
    figure = draw_curricula(CURVES, range(2, 4), {"penalty": "penalty, $λ$"})
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["penalty, $λ$", "dropout"]
    for line, values in zip(axes.lines, CURVES.values(), strict=True):
        assert list(line.get_xdata()) == [0, 1, 2, 3]
        assert list(line.get_ydata()) == values
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.lines}
    assert len(looks) == 2
    (band,) = axes.patches
    assert (band.get_x(), band.get_width()) == (1.5, 2)


def test_curricula_are_read_on_a_phone():
    figure = draw_curricula({"gradients": np.linspace(1, 0, 20)}, range(10, 20))
    (axes,), (legend,) = figure.axes, figure.legends
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == WIDTH
    assert [text.get_text() for text in legend.get_texts()] == [
        "gradients",
        "epochs to choose from where it rises",
    ]
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    texts = [*ticks, *legend.get_texts(), axes.xaxis.label, axes.yaxis.label]
    assert all(text.get_fontsize() >= FONT for text in texts)
    inside = [tick for tick in axes.get_xticks() if 0 <= tick < 20]
    assert inside == [0, 5, 10, 15]


@pytest.mark.parametrize(
    ("curves", "eligible", "labels", "message"),
    [
        ({}, range(1), {}, "curves: give between one and 4, not 0"),
        (dict.fromkeys("abcde", (0.0,)), range(1), {}, "between one and 4, not 5"),
        ({"a": []}, range(1), {}, "the same number of epochs, not {'a': 0}"),
        ({"a": [0, 1], "b": [0]}, range(1), {}, "the same number of epochs, not {'a': 2, 'b': 1}"),
        ({"a": [0, math.nan]}, range(2), {}, "the values of 'a' are not all finite"),
        (CURVES, range(0), {}, r"eligible: give consecutive epochs within range\(0, 4\)"),
        (CURVES, range(0, 4, 2), {}, "consecutive"),
        (CURVES, range(2, 5), {}, r"not range\(2, 5\)"),
        (CURVES, range(-1, 3), {}, r"not range\(-1, 3\)"),
        (CURVES, range(4), {"teacher": "t"}, "labels: no curve is named teacher; choose from"),
    ],
)
def test_curricula_refuse_what_cannot_be_drawn(curves, eligible, labels, message):
    with pytest.raises(InputError, match=message):
        draw_curricula(curves, eligible, labels)
    assert not plt.get_fignums()
