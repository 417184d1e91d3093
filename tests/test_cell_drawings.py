"""Drawings of one step of each cell, and of recurrences over a sequence."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from drawn import check_words
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from whenpool import InputError
from whenpool.report.cell_drawings import (
    GATE,
    GATED,
    MEMORY,
    PROPOSAL,
    draw_gate_functions,
    draw_gated_cell,
    draw_plain_cells,
)
from whenpool.report.chain_drawings import draw_bidirectional, draw_stacked, draw_unrolled

mpl.use("agg")
DRAWINGS = {
    "plain": draw_plain_cells,
    "unrolled": draw_unrolled,
    "bidirectional": draw_bidirectional,
    "stacked": draw_stacked,
    **{cell: lambda cell=cell: draw_gated_cell(cell) for cell in GATED},
}


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def patches(figure, kind, colour=None):
    found = [p for axes in figure.axes for p in axes.patches if type(p) is kind]
    return [p for p in found if colour in (None, to_hex(p.get_facecolor()))]


def written(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_large_and_stay_inside_and_apart(name):
    check_words(DRAWINGS[name]())


@pytest.mark.parametrize(
    ("cell", "gates", "names"),
    [
        ("prototype", 2, {"$f_t$", "$i_t$", r"$\tilde s_t$", "$s_{t-1}$", "$s_t$"}),
        ("lstm", 3, {"$f_t$", "$i_t$", "$o_t$", r"$\tilde c_t$", "$c_{t-1}$", "$h_{t-1}$", "$h_t$"}),
        ("gru", 2, {"$z_t$", "$r_t$", "1 –", r"$\tilde s_t$", "$s_{t-1}$"}),
        ("mingru", 1, {"$z_t$", "1 –", r"$\tilde s_t$", "$s_{t-1}$"}),
    ],
)
def test_a_cell_has_its_gates_and_what_reads_the_state(cell, gates, names):
    figure = draw_gated_cell(cell)
    assert len(patches(figure, FancyBboxPatch, GATE)) == gates
    assert names <= set(written(figure))
    assert written(figure).count("+") == 1
    (memory,) = patches(figure, FancyArrowPatch, MEMORY)
    reads = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "o"]
    dots = sum(len(line.get_ydata()) for line in reads)
    # each gate and proposal reads the word; all read the state but where nothing does; a GRU's proposal
    # reads it through its gate
    assert dots == {"prototype": 6, "lstm": 8, "gru": 6, "mingru": 2}[cell]
    assert memory.get_linewidth() > 2


def test_another_cell_has_no_drawing():
    with pytest.raises(InputError, match="no drawing of 'elman'; choose one of prototype"):
        draw_gated_cell("elman")


def test_the_plain_cells_differ_by_what_is_learnt():
    figure = draw_plain_cells()
    assert [len([p for p in axes.patches if type(p) is FancyBboxPatch]) for axes in figure.axes] == [
        0,
        1,
        3,
    ]
    assert len(patches(figure, Circle)) == 3
    assert len(patches(figure, FancyBboxPatch, PROPOSAL)) == 2


def test_a_hard_gate_has_no_slope():
    gate, slope = draw_gate_functions().axes
    hard, soft = slope.lines
    assert (hard.get_ydata() == 0).all()
    assert soft.get_ydata().max() == pytest.approx(0.25)
    assert set(gate.lines[0].get_ydata()) == {0.0, 1.0}


def test_unrolled_it_is_the_same_step_for_every_word():
    texts = written(draw_unrolled())
    assert texts.count("$R$") == texts.count("$O$") == 5  # the loop, and four words
    assert {f"$s_{t}$" for t in range(5)} <= set(texts)


def test_the_second_direction_runs_backwards():
    figure = draw_bidirectional()
    along = patches(figure, FancyArrowPatch, MEMORY)
    ways = [arrow._posA_posB[1][0] - arrow._posA_posB[0][0] > 0 for arrow in along]
    assert (ways.count(True), ways.count(False)) == (3, 3)


def test_a_deep_network_has_both_directions_in_each_layer():
    one_way, both = draw_stacked().axes
    texts = [[text.get_text() for text in axes.texts] for axes in (one_way, both)]
    assert [(t.count("$R$"), t.count("$R'$")) for t in texts] == [(6, 0), (6, 6)]
