"""Tables and figures of gradient propagation, natural bias and word importance, on small frames."""

import csv
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from whenpool.book.report import probes
from whenpool.book.report.figures import COLOURS, use_style
from whenpool.book.report.skip import settings_of
from whenpool.book.report.tables import POOLING_NAMES
from whenpool.corpora.settings import SETTINGS, SHARE, compose, filler_lengths

mpl.use("agg")
ROOT = Path(__file__).parents[1]
NONE_YET = [{"": "no such runs yet"}]
NO_RUNS = pd.DataFrame(columns=["key"])


@pytest.fixture(autouse=True)
def style():
    use_style()
    yield
    plt.close("all")
    mpl.rcdefaults()
    mpl.use("agg")


def frame(runs):
    """Rows of runs, each a configuration and its points, in no order."""
    rows = [
        {"key": f"k{number}", "seed": 0, **run, **point}
        for number, (run, points) in enumerate(runs)
        for point in points
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def profile(values):
    return [{"position": place, "mean": value} for place, value in enumerate(values, 1)]


def lines(axes):
    """Label, x and y of each line that has a label."""
    return {
        line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def says_nothing_yet(figure):
    figure.canvas.draw()
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts] == ["no such runs yet"] and not axes.lines


# gradient propagation


def shaped(first, last, middle):
    return profile([first, *[50.0] * 48, middle, middle, *[50.0] * 48, last])


START = {"epochs": 1, "forget_bias": "thesis"}
PROFILES = probes.with_model(
    frame(
        [
            ({"pooling": "max", **START}, shaped(2.0, 2.0, 1.0)),
            ({"pooling": "last", **START}, shaped(1.0, 3.0, 2e-6)),
            ({"pooling": "last", **START, "seed": 1}, shaped(3.0, 5.0, 4e-6)),
            ({"pooling": "last", **START, "forget_bias": "low"}, shaped(1.0, 1.0, 1e-12)),
            ({"pooling": "last", **START, "epochs": 20}, shaped(7.0, 7.0, 7.0)),
        ]
    )
)


def test_models_are_poolings_and_the_one_with_low_gates():
    assert PROFILES.groupby("key")["model"].unique().map(list).tolist() == [
        ["max"], ["last"], ["last"], ["low"], ["last"],
    ]  # fmt: skip
    assert "model" in probes.with_model(NO_RUNS)


def test_profiles_at_the_start_and_at_the_end_are_told_apart():
    assert set(probes.at_start(PROFILES)["key"]) == {"k0", "k1", "k2", "k3"}
    assert set(probes.at_end(PROFILES)["key"]) == {"k4"}
    assert probes.at_start(NO_RUNS).empty
    assert probes.at_end(NO_RUNS).empty


def test_levels_are_those_of_the_mean_profile():
    table = probes.level_table(probes.at_start(PROFILES))
    assert table.to_dict("records") == [
        {"model": "BiLSTM", "first and last word": "3.0e+00", "middle": "3.0e-06",
         "middle / ends": "1.0e-06", "seeds": "2"},
        {"model": "MaxPool", "first and last word": "2.0e+00", "middle": "1.0e+00",
         "middle / ends": "5.0e-01", "seeds": "1"},
        {"model": "BiLSTM_LowF", "first and last word": "1.0e+00", "middle": "1.0e-12",
         "middle / ends": "1.0e-12", "seeds": "1"},
    ]  # fmt: skip
    assert probes.level_table(probes.with_model(NO_RUNS)).to_dict("records") == NONE_YET


def test_a_line_for_each_model_over_the_position():
    figure = probes.draw_profiles(probes.at_start(PROFILES))
    figure.canvas.draw()
    (axes,) = figure.axes
    found = lines(axes)
    assert list(found) == legend(figure) == ["BiLSTM", "MaxPool", "BiLSTM, low forget gate"]
    x, y = found["BiLSTM"]
    assert x == list(range(1, 101))
    assert y == pytest.approx([2.0, *[50.0] * 48, 3e-6, 3e-6, *[50.0] * 48, 4.0])  # of two seeds
    assert found["MaxPool"][1][49] == 1.0
    assert axes.get_yscale() == "log"
    looks = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert looks["BiLSTM, low forget gate"] == (COLOURS["last"], "--")
    assert looks["BiLSTM"] == (COLOURS["last"], "-")


def traced(ratios, validation=70.0):
    return [
        {
            "examples": n,
            "ratio": ratio,
            "train_accuracy": 50 + n / 640,
            "validation_accuracy": validation,
        }
        for n, ratio in ratios.items()
    ]


def of_run(pooling, size, at_95, validation, at_start=0.5, examples=640.0, **changes):
    return {
        "pooling": pooling, "size": size, "ratio_at_95": at_95, "ratio_at_start": at_start,
        "examples_at_95": examples, "validation_accuracy_of_run": validation,
    } | changes  # fmt: skip


TRACES = frame(
    [
        (of_run("last", 1000, 0.01, 60.0), traced({0: 0.5, 640: 0.125})),
        (of_run("last", 1000, 0.03, 70.0, 0.25, 1280.0, seed=1), traced({0: 0.25, 640: 0.375}, 80.0)),
        (of_run("max", 1000, np.nan, 78.0, examples=np.nan), traced({0: 1.0, 640: 2.0})),
        (of_run("max", 500, 0.4, 66.6), traced({0: 1.5, 640: 2.5})),
        (of_run("mean", 1000, 0.9, 75.0), traced({0: 1.25, 640: 1.75})),
    ]
)
ENDED = probes.one_row_a_run(TRACES)


def test_a_trace_gives_one_row_with_the_accuracy_of_its_best_epoch():
    assert sorted(ENDED["key"]) == ["k0", "k1", "k2", "k3", "k4"]
    best = ENDED.set_index("key")["validation_accuracy"].to_dict()
    assert best == {"k0": 60.0, "k1": 70.0, "k2": 78.0, "k3": 66.6, "k4": 75.0}
    assert probes.one_row_a_run(NO_RUNS).empty


@pytest.mark.parametrize("traces", [NO_RUNS, ENDED], ids=["without runs", "with runs"])
def test_table_1_2_shows_the_thesis_and_the_slides_everywhere(traces):
    with open(ROOT / "data" / "paper" / "vanishing.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    table = probes.ratio_table(traces)
    sizes = ["1K", "5K", "20K"]
    assert list(table) == ["pooling", *(f"{k} {n}" for k in ("ratio", "validation, %") for n in sizes)]
    assert table["pooling"].tolist() == [POOLING_NAMES[name] for name in list(POOLING_NAMES)[:5]]
    table = table.set_index("pooling")
    for row in rows:
        column = f"{int(row['size']) // 1000}K"
        ratio = table.loc[POOLING_NAMES[row["pooling"]], f"ratio {column}"].split("<br>")[-1]
        thesis, slides = ratio.removesuffix(")").split(" (")
        assert float(thesis if row["source"] == "thesis" else slides) == float(row["ratio"])
        accuracy = table.loc[POOLING_NAMES[row["pooling"]], f"validation, % {column}"]
        assert accuracy.split("<br>")[-1] == row["validation_accuracy"]
    ours = table.map(lambda text: "**" in text).sum().sum()
    assert ours == (0 if traces is NO_RUNS else 5)  # last and mean twice, max but once


def test_ours_stand_above_with_the_number_of_seeds():
    table = probes.ratio_table(ENDED).set_index("pooling")
    assert table.loc["BiLSTM", "ratio 1K"] == "**0.02 (2)**<br>0.0003 (0.005)"
    assert table.loc["BiLSTM", "validation, % 1K"] == "**65.0 (2)**<br>64.9"
    assert table.loc["MaxPool", "ratio 1K"] == "0.43 (0.4)"  # 95 % was not reached
    assert table.loc["MaxPool", "validation, % 1K"] == "**78.0 (1)**<br>78.0"
    assert table.loc["MeanPool", "ratio 1K"] == "**0.9 (1)**<br>1.09 (2.5)"
    assert table.loc["BiLSTM", "ratio 20K"] == "0.06 (0.06)"
    never = ENDED.drop(columns="ratio_at_95")
    assert probes.ratio_table(never).set_index("pooling").loc["BiLSTM", "ratio 1K"].startswith("0.0003")


def test_own_runs_have_a_table_with_the_start():
    table = probes.own_ratio_table(ENDED.sort_values("key"))
    assert table.to_dict("records") == [
        {"pooling": "BiLSTM", "texts": "1K", "at start": "0.38", "at 95 %": "0.02 (2)",
         "after texts": "960", "validation, %": "65.0 (2)"},
        {"pooling": "MaxPool", "texts": "1K", "at start": "0.5", "at 95 %": "not reached",
         "after texts": "", "validation, %": "78.0 (1)"},
        {"pooling": "MaxPool", "texts": "500", "at start": "0.5", "at 95 %": "0.4 (1)",
         "after texts": "640", "validation, %": "66.6 (1)"},
        {"pooling": "MeanPool", "texts": "1K", "at start": "0.5", "at 95 %": "0.9 (1)",
         "after texts": "640", "validation, %": "75.0 (1)"},
    ]  # fmt: skip
    for empty in (NO_RUNS, ENDED.head(0)):
        assert probes.own_ratio_table(empty).to_dict("records") == NONE_YET


def test_traces_are_drawn_over_batches_of_64_a_column_for_each_size():
    figure = probes.draw_traces(TRACES)
    figure.canvas.draw()
    first, second, below_first, below_second = figure.axes
    assert [axes.get_title() for axes in (first, second)] == ["500 training texts", "1K training texts"]
    assert lines(first) == {"MaxPool": ([0.0, 10.0], [1.5, 2.5])}
    found = lines(second)
    assert list(found) == ["BiLSTM", "MeanPool", "MaxPool"]
    assert found["BiLSTM"] == ([0.0, 10.0], [0.375, 0.25])  # of two seeds
    assert found["MeanPool"] == ([0.0, 10.0], [1.25, 1.75])
    assert first.get_yscale() == second.get_yscale() == "log"
    bilstm = [line for line in below_second.lines if line.get_color() == COLOURS["last"]]
    drawn = {line.get_linestyle(): list(line.get_ydata()) for line in bilstm}
    assert drawn == {"-": [75.0, 75.0], "--": [50.0, 51.0]}
    assert len(below_first.lines) == 2
    assert len(below_second.lines) == 6


def test_every_line_is_in_the_legend_even_if_it_is_not_in_the_first_panel():
    assert set(legend(probes.draw_traces(TRACES))) == {"BiLSTM", "MeanPool", "MaxPool"}
    late = SWEEPS[(SWEEPS["setting_added"] != "left") | (SWEEPS["pooling"] == "max")]
    assert sorted(legend(probes.draw_sweeps(late))) == ["BiLSTM", "MaxPool"]
    measured = IMPORTANCE[(IMPORTANCE["setting"] != "standard") | (IMPORTANCE["pooling"] == "max")]
    figure = probes.draw_importance(measured, ["standard", "mid"])
    assert sorted(legend(figure)) == ["BiLSTM", "MaxPool"]


# natural bias


def swept(left=(80, 76), mid=(80, 55), right=(80, 66), shares=(0.0, 0.1 * 7)):
    return [
        {"setting_added": added, "share_added": share, "accuracy": float(value)}
        for added, values in (("left", left), ("mid", mid), ("right", right))
        for share, value in zip(shares, values, strict=True)
    ]


def trained(pooling, size=1000, masked=True, **changes):
    return {"pooling": pooling, "size": size, "masked": masked, **changes}


SWEEPS = frame(
    [
        (trained("max"), swept((82, 81), (82, 80), (82, 79))),
        (trained("last"), swept()),
        (trained("last", seed=1), swept((90, 84), (90, 60), (90, 64))),
        (trained("last", masked=False), swept((70, 69), (70, 68), (70, 30))),
        (trained("last", size=5000), swept((88, 88), (88, 87), (88, 86))),
    ]
)
MASKED = SWEEPS[SWEEPS["masked"]]
AT_1K = MASKED[MASKED["size"] == 1000]


def test_sweeps_are_chosen_by_padding_pooling_and_size():
    assert set(probes.masked(SWEEPS)["key"]) == {"k0", "k1", "k2", "k4"}
    assert set(probes.of_pooling(SWEEPS, "max")["key"]) == {"k0"}
    assert set(probes.largest_whole(MASKED)["key"]) == {"k0", "k1", "k2"}  # 5K has one pooling alone
    both = pd.concat([MASKED, MASKED[MASKED["pooling"] == "max"].assign(size=5000, key="k5")])
    assert set(probes.largest_whole(both)["key"]) == {"k4", "k5"}
    assert probes.masked(NO_RUNS).empty
    assert probes.of_pooling(NO_RUNS, "max").empty
    assert probes.largest_whole(NO_RUNS).empty


def test_losses_are_differences_of_means():
    assert probes.loss_table(AT_1K).to_dict("records") == [
        {"pooling": "BiLSTM", "no filler, %": "85.0", "text left, points": "-5.0",
         "text mid, points": "-27.5", "text right, points": "-20.0"},
        {"pooling": "MaxPool", "no filler, %": "82.0", "text left, points": "-1.0",
         "text mid, points": "-2.0", "text right, points": "-3.0"},
    ]  # fmt: skip
    assert probes.loss_table(NO_RUNS).to_dict("records") == NONE_YET


def test_what_padding_does_in_training():
    rows = [
        ("imdb", "last", "left", True, 1000, 70.0), ("imdb", "last", "left", True, 1000, 72.0),
        ("imdb", "last", "right", True, 1000, 66.0), ("imdb", "last", "left", False, 1000, 80.0),
        ("imdb", "last", "mid", False, 1000, 1.0), ("imdb", "max", "left", True, 1000, 2.0),
        ("imdb", "last", "left", True, 2000, 3.0), ("yelp", "last", "left", True, 1000, 4.0),
        ("yelp", "last", "left", True, 500, 5.0),
    ]  # fmt: skip
    names = ["corpus", "pooling", "setting", "masked", "size", "test_accuracy"]
    sides = probes.trained_sides(pd.DataFrame(rows, columns=names))
    assert sides["test_accuracy"].tolist() == [70.0, 72.0, 66.0, 80.0]
    assert probes.trained_table(sides).to_dict("records") == [
        {"padding": "masked", "text left": "71.0 (2)", "text right": "66.0 (1)"},
        {"padding": "let in", "text left": "80.0 (1)", "text right": "not run"},
    ]
    for empty in (probes.trained_sides(NO_RUNS), sides.head(0)):
        assert probes.trained_table(empty).to_dict("records") == [
            {"padding": "masked", "text left": "not run", "text right": "not run"},
            {"padding": "let in", "text left": "not run", "text right": "not run"},
        ]


def test_a_panel_for_each_place_and_a_line_for_each_pooling():
    figure = probes.draw_sweeps(AT_1K)
    figure.canvas.draw()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["text kept left", "text kept in the middle", "text kept right"]
    assert [list(lines(axes)) for axes in figure.axes] == [["BiLSTM", "MaxPool"]] * 3
    shares, accuracies = lines(figure.axes[1])["BiLSTM"]
    assert shares == pytest.approx([0.0, 70.0])
    assert accuracies == [85.0, 57.5]  # of two seeds
    assert lines(figure.axes[2])["MaxPool"][1] == [82.0, 79.0]
    assert legend(figure) == ["BiLSTM", "MaxPool"]
    alone = probes.draw_sweeps(AT_1K[AT_1K["setting_added"] == "right"])
    assert [axes.get_title() for axes in alone.axes] == ["text kept right"]


def test_lines_of_a_sweep_by_size_and_by_padding():
    bilstm = MASKED[MASKED["pooling"] == "last"]
    by_size = probes.draw_sweeps(bilstm, by="size")
    assert {name: y for name, (_, y) in lines(by_size.axes[0]).items()} == {
        "1K training texts": [85.0, 80.0],
        "5K training texts": [88.0, 88.0],
    }
    colours = [line.get_color() for line in by_size.axes[0].lines]
    assert not np.array_equal(*colours)
    pair = SWEEPS[(SWEEPS["pooling"] == "last") & (SWEEPS["size"] == 1000)]
    by_padding = probes.draw_sweeps(pair, by="masked")
    assert {name: y for name, (_, y) in lines(by_padding.axes[2]).items()} == {
        "padding masked": [85.0, 65.0],
        "padding let in": [70.0, 30.0],
    }
    assert [line.get_linestyle() for line in by_padding.axes[2].lines] == ["-", "--"]


def test_one_text_among_filler_has_a_line_for_each_model():
    answers = pd.DataFrame(
        [("max", 0.0, 0.9), ("last", 0.0, 0.8), ("max", 0.5, 0.7), ("last", 0.5, 0.1)],
        columns=["pooling", "share", "probability"],
    )
    figure = probes.draw_answers(answers)
    figure.canvas.draw()
    assert lines(figure.axes[0]) == {
        "BiLSTM": ([0.0, 50.0], [0.8, 0.1]),
        "MaxPool": ([0.0, 50.0], [0.9, 0.7]),
    }
    assert legend(figure) == ["BiLSTM", "MaxPool"]
    chance = [line for line in figure.axes[0].lines if line.get_label().startswith("_")]
    assert [list(line.get_ydata()) for line in chance] == [[0.5, 0.5]]


# word importance


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [0.3, SHARE, 0.9])
@pytest.mark.parametrize("words", [30, 301, 5000])
def test_the_text_stands_where_it_is_composed(setting, share, words):
    left, right = filler_lengths(words, setting, share)
    total = left + words + right
    low, high = probes.text_span(setting, 0.0 if setting == "standard" else share)
    assert low * total == pytest.approx(left, abs=1)
    assert high * total == pytest.approx(left + words, abs=1)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [0.3, SHARE, 0.9])
def test_the_positions_of_a_profile_are_told_apart_as_the_words_are(setting, share):
    text = compose(["text"] * 3000, iter([["filler"] * 7] * 9000), setting, share)
    places = np.linspace(0, len(text) - 1, 100).round().astype(int)
    expected = [text[place] == "text" for place in places]
    found = probes.where_the_text_stands(setting, share)
    assert found.shape == (100,)
    assert (found != expected).sum() <= (setting != "standard") + (setting == "mid")  # at a border
    ten = probes.where_the_text_stands("left", 0.5, points=10)
    assert ten.tolist() == [True] * 5 + [False] * 5


def measured(pooling, setting, values, **changes):
    return {"pooling": pooling, "setting": setting, "share": SHARE, **changes}, profile(values)


def ends_and_middle(left, right, middle):
    return [left] * 10 + [9.0] * 30 + [middle] * 20 + [9.0] * 30 + [right] * 10


def inside(start, stop, text, filler):
    return [text if start <= place < stop else filler for place in range(100)]


IMPORTANCE = frame(
    [
        measured("max", "mid", inside(33, 67, 0.5, 0.25)),
        measured("max", "standard", ends_and_middle(0.5, 0.5, 0.25)),
        measured("last", "mid", inside(33, 67, 0.125, 0.25)),
        measured("last", "standard", ends_and_middle(0.75, 0.25, 0.125)),
        measured("last", "standard", ends_and_middle(0.25, 0.25, 0.125), seed=1),
        measured("last", "left", inside(0, 34, 0.5, 0.125)),
        measured("last", "right", inside(66, 100, 0.5, 0.0)),
    ]
)


def test_importance_of_text_and_filler_by_setting():
    table = probes.importance_table(IMPORTANCE.sort_values("key"))
    assert list(table) == ["pooling", *SETTINGS]
    assert table.to_dict("records") == [
        {"pooling": "BiLSTM", "standard": "0.38 / 0.12", "left": "0.50 / 0.12",
         "mid": "0.12 / 0.25", "right": "0.50 / 0.00"},
        {"pooling": "MaxPool", "standard": "0.50 / 0.25", "left": "", "mid": "0.50 / 0.25",
         "right": ""},
    ]  # fmt: skip
    assert probes.importance_table(NO_RUNS).to_dict("records") == NONE_YET


def test_a_panel_for_each_setting_and_separators_where_filler_begins():
    settings = settings_of(IMPORTANCE)
    assert settings == list(SETTINGS)
    figure = probes.draw_importance(IMPORTANCE, settings)
    figure.canvas.draw()
    borders = {}
    for axes in figure.axes:
        separators = [x for x in axes.lines if x.get_color() == probes.SEPARATOR_COLOUR]
        borders[axes.get_title()] = [line.get_xdata()[0] for line in separators]
    left, right = filler_lengths(10_000, "mid", SHARE)
    words = 10_000 + left + right
    by_words = {
        "standard": [],
        "left": [10_000],
        "mid": [left, left + 10_000],
        "right": [words - 10_000],
    }
    for setting, expected in by_words.items():
        at = [1 + 99 * place / words for place in expected]  # the first position is 1, the last 100
        assert borders[setting] == pytest.approx(at, abs=0.02)
    assert [list(lines(axes)) for axes in figure.axes] == [
        ["BiLSTM", "MaxPool"], ["BiLSTM"], ["BiLSTM", "MaxPool"], ["BiLSTM"],
    ]  # fmt: skip
    x, y = lines(figure.axes[0])["BiLSTM"]
    assert x == list(range(1, 101))
    assert y == pytest.approx(ends_and_middle(0.5, 0.25, 0.125))  # of two seeds
    assert lines(figure.axes[2])["MaxPool"][1] == pytest.approx(inside(33, 67, 0.5, 0.25))


def test_the_separator_stands_between_text_and_filler():
    """The line falls between the positions that `importance_table` counts as text and as filler."""
    for setting in ("left", "mid", "right"):
        figure = probes.draw_importance(IMPORTANCE, [setting])
        found = probes.where_the_text_stands(setting, SHARE)
        changes = 1 + np.flatnonzero(found[1:] != found[:-1])  # the last position before each
        separators = [
            line.get_xdata()[0]
            for line in figure.axes[0].lines
            if line.get_color() == probes.SEPARATOR_COLOUR
        ]
        assert len(separators) == len(changes)
        assert all(before <= x <= before + 1 for before, x in zip(changes, separators, strict=True))


@pytest.mark.parametrize(
    "draw",
    [
        probes.draw_profiles,
        probes.draw_traces,
        probes.draw_sweeps,
        lambda rows: probes.draw_sweeps(rows, by="size"),
        lambda rows: probes.draw_importance(rows, settings_of(rows)),
        probes.draw_answers,
    ],
)
@pytest.mark.parametrize("rows", [NO_RUNS, TRACES.head(0)], ids=["no columns", "no rows"])
def test_without_runs_a_figure_says_so(draw, rows):
    assert says_nothing_yet(draw(rows))


def test_padding_is_compared_on_the_sizes_and_seeds_that_both_have():
    rows = pd.DataFrame(
        [("last", 1000, 0, True), ("last", 1000, 0, False), ("last", 1000, 1, True),
         ("last", 5000, 0, True), ("max", 1000, 0, True), ("max", 1000, 0, False)],
        columns=["pooling", "size", "seed", "masked"],
    )  # fmt: skip
    assert probes.both_ways(rows).index.tolist() == [0, 1]
    assert probes.both_ways(rows.head(0)).empty
    assert probes.both_ways(rows[rows["masked"]]).empty
