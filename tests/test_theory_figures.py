"""The figures of the chapter on theory, on rows made by hand and on small networks."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from whenpool.book.report import theory_figures
from whenpool.book.report.figures import COLOURS, use_style
from whenpool.book.report.tables import POOLING_NAMES
from whenpool.theory import comparison

mpl.use("agg")
KINDS = theory_figures.KINDS
SEEDS = [("expected", None), ("independent", None), ("measured", 0), ("measured", 1)]


@pytest.fixture(autouse=True)
def style():
    use_style()
    yield
    plt.close("all")
    mpl.rcdefaults()
    mpl.use("agg")


def rows(**axes):
    """A row for each kind and seed at each point; the factor is made of all of them."""
    points = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
    found = [points.assign(kind=kind, seed=seed, k=k) for k, (kind, seed) in enumerate(SEEDS)]
    frame = pd.concat(found, ignore_index=True)
    frame["factor"] = 0.3 + 0.1 * frame["k"] + 0.001 * np.arange(len(frame))
    return frame.sample(frac=1, random_state=0)  # in no order


def lines(axes):
    return {line.get_label(): line for line in axes.lines if not str(line.get_label()).startswith("_")}


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def fits(figure):
    """Nothing written lies outside, and no two panels' titles overlap."""
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    inside = all(b.x0 >= -1 and b.x1 <= width + 1 and b.y0 >= -1 and b.y1 <= height + 1 for b in boxes)
    titles = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    apart = not any(a.overlaps(b) for k, a in enumerate(titles) for b in titles[k + 1 :])
    return inside and apart


def test_factors_over_size_have_a_panel_for_each_model():
    frame = rows(model=["one", "another", "third"], hidden_size=[8, 64, 16])
    figure = theory_figures.draw_shrinkage_factors(frame)
    assert [axes.get_title() for axes in figure.axes] == list(frame["model"].unique())
    for axes in figure.axes:
        found = lines(axes)
        assert list(found) == [KINDS[kind] for kind in ("expected", "independent", "measured")]
        own = frame[frame["model"] == axes.get_title()].sort_values("hidden_size")
        for kind, label in KINDS.items():
            part = own[own["kind"] == kind]
            assert list(found[label].get_xdata()) == list(part["hidden_size"])
            assert sorted(found[label].get_ydata()) == sorted(part["factor"])
        assert any(set(line.get_ydata()) == {1} for line in axes.lines)  # where nothing shrinks
    assert found[KINDS["measured"]].get_linestyle() == "None"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["8", "16", "64"]
    assert legend(figure) == list(found)
    assert fits(figure)


def test_curves_are_logarithmic_and_measured_at_every_other_distance():
    frame = comparison.curves(6, 2, 8, input_size=4)
    figure = theory_figures.draw_shrinkage_curves(frame)
    assert [axes.get_title() for axes in figure.axes] == list(comparison.MODELS)
    axes = figure.axes[1]
    assert axes.get_yscale() == "log"
    found = lines(axes)
    own = frame[frame["model"] == axes.get_title()]
    for kind, label in KINDS.items():
        part = own[own["kind"] == kind]
        if kind == "measured":
            part = part[part["distance"].isin([0, 2, 4, 6, 8])]
        np.testing.assert_array_equal(found[label].get_xydata(), part[["distance", "norm"]])
    assert fits(figure)


def test_forget_biases_have_a_panel_for_each_variance():
    frame = rows(input_variance=[0.1, 1.0], forget_bias=[0.0, 2.0, 1.0])
    figure = theory_figures.draw_forget_biases(frame)
    titles = [axes.get_title() for axes in figure.axes]
    assert sorted(titles) == ["input variance 0.1", "input variance 1"]
    for axes in figure.axes:
        own = frame[frame["input_variance"] == float(axes.get_title().split()[-1])]
        expected = own[own["kind"] == "expected"].sort_values("forget_bias")
        line = lines(axes)["expected"]
        np.testing.assert_array_equal(line.get_xydata(), expected[["forget_bias", "factor"]])
    assert fits(figure)


def test_changes_are_drawn_beside_what_is_expected():
    changes = list(comparison.CHANGES)
    frame = rows(model=["one", "another"], change=changes).sort_values("k", kind="stable")
    frame.loc[frame["kind"] == "expected", "factor"] = 0.5
    figure = theory_figures.draw_changes(frame)
    (axes,) = figure.axes
    models = [text.get_text() for text in axes.get_yticklabels()]
    assert models == list(frame["model"].unique())
    measured = frame[frame["kind"] == "measured"]
    for row, model in enumerate(models):
        for change in changes:
            part = measured[(measured["model"] == model) & (measured["change"] == change)]
            points = [line.get_xydata() for line in axes.lines if line.get_label() == change]
            (x, y) = points[row][0]
            assert x == pytest.approx(part["factor"].mean())
            assert abs(y - row) < 0.4
    expected = [line for line in axes.lines if line.get_label() == "expected as assumed"]
    assert [set(line.get_xdata()) for line in expected] == [{0.5}, {0.5}]
    assert sorted(legend(figure)) == sorted(["expected as assumed", *changes])
    looks = {(line.get_marker(), line.get_color()) for line in axes.lines if line.get_marker() != "None"}
    assert len(looks) == len(changes)
    assert fits(figure)


def test_gains_are_drawn_in_the_colours_of_the_poolings_and_zeros_are_not():
    frame = comparison.direct_gains(12, 8)
    figure = theory_figures.draw_direct_gains(frame)
    (axes,) = figure.axes
    found = lines(axes)
    assert legend(figure) == [*list(POOLING_NAMES.values())[:5], "BiLSTM, with its recurrence"]
    for pooling, name in list(POOLING_NAMES.items())[:5]:
        own = frame[(frame["pooling"] == pooling) & (frame["gain"] > 0)]
        np.testing.assert_array_equal(found[name].get_xydata(), own[["position", "gain"]])
        assert found[name].get_color() == COLOURS[pooling]
    assert list(found["BiLSTM"].get_xdata()) == [1, 12]
    gaps = {name for name, line in found.items() if line.get_linestyle() == "None"}
    assert gaps == {"BiLSTM", "MaxPool"}  # no line bridges words that get nothing
    assert axes.get_yscale() == "log"
    assert fits(figure)


def test_looks_are_told_apart_by_more_than_colour():
    looks = theory_figures.LOOKS.values()
    assert len({(look["ls"], look.get("marker")) for look in looks}) == len(looks)


def test_the_table_has_a_row_for_each_model_in_order():
    frame = comparison.factors_by_size((4, 6), 3, 1, 4, input_size=3)
    table = theory_figures.factor_table(frame, 6)
    assert list(table["model"]) == list(comparison.MODELS)
    own = frame[(frame["model"] == "GRU") & (frame["hidden_size"] == 6)]
    measured = own[own["kind"] == "measured"]["factor"]
    row = table.set_index("model").loc["GRU"]
    assert row["measured"] == f"{measured.mean():.3f} ± {measured.std():.3f} (3)"
    assert row["expected"] == f"{own[own['kind'] == 'expected']['factor'].item():.3f}"
    assert row["independent steps"] == f"{own[own['kind'] == 'independent']['factor'].item():.3f}"
