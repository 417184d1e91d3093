"""Tables and figures of gradient propagation, natural bias and word importance, on small frames."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up import profile

from whenpool.book.report import probes
from whenpool.book.report.tables import POOLING_NAMES
from whenpool.corpora.settings import SETTINGS, SHARE, compose, filler_lengths

ROOT = Path(__file__).parents[1]
NONE_YET = [{"": "no such runs yet"}]
NO_RUNS = pd.DataFrame(columns=["key"])
RUN = {"seed": 0, "corpus": "imdb", "length": "long", "size": 1000, "forget_bias": "thesis"}


def frame(runs):
    """Rows of runs, each a configuration and its points, in no order."""
    rows = [
        {"key": f"k{number}", **RUN, **run, **point}
        for number, (run, points) in enumerate(runs)
        for point in points
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


# what figures call models and texts


def test_models_are_poolings_and_the_one_with_low_gates_and_texts_are_told_apart():
    runs = [
        ({"pooling": "max"}, [{}]),
        ({"pooling": "last", "forget_bias": "low", "size": 500}, [{}]),
        ({"pooling": "last"}, [{}]),
    ]
    drawn = probes.named(frame(runs)).set_index("key")
    assert drawn["model"].to_dict() == {"k0": "MaxPool", "k1": probes.LOW, "k2": "BiLSTM"}
    assert list(drawn["model"].cat.categories) == ["BiLSTM", "MaxPool", probes.LOW]
    assert list(drawn["texts"].cat.categories) == ["500 training texts", "1K training texts"]
    own = ({"pooling": "max", "corpus": "/data/my $ texts.csv:text_column=a", "length": "short"}, [{}])
    several = probes.named(frame([*runs, own])).set_index("key")["texts"]
    assert several["k2"] == "IMDb, 1K training texts"
    assert several["k3"] == r"my \$ texts.csv, short, 1K training texts"
    assert {"model", "texts"} <= set(probes.named(NO_RUNS))


# gradient propagation


def shaped(first, last, middle):
    return profile([first, *[50.0] * 48, middle, middle, *[50.0] * 48, last])


PROFILES = probes.named(
    frame(
        [
            ({"pooling": "max", "epochs": 1}, shaped(2.0, 2.0, 1.0)),
            ({"pooling": "last", "epochs": 1}, shaped(1.0, 3.0, 2e-6)),
            ({"pooling": "last", "epochs": 1, "seed": 1}, shaped(3.0, 5.0, 4e-6)),
            ({"pooling": "last", "epochs": 1, "forget_bias": "low"}, shaped(1.0, 1.0, 1e-12)),
            ({"pooling": "last", "epochs": 20}, shaped(7.0, 7.0, 7.0)),
        ]
    )
)


def test_levels_are_those_of_the_mean_profile_at_the_start():
    assert set(probes.at_end(PROFILES)["key"]) == {"k4"}
    start = probes.at_start(PROFILES)
    assert probes.level_table(start).to_dict("records") == [
        {"model": "BiLSTM", "first and last word": "3.0e+00", "middle": "3.0e-06",
         "middle / ends": "1.0e-06", "seeds": "2"},
        {"model": "MaxPool", "first and last word": "2.0e+00", "middle": "1.0e+00",
         "middle / ends": "5.0e-01", "seeds": "1"},
        {"model": "BiLSTM_LowF", "first and last word": "1.0e+00", "middle": "1.0e-12",
         "middle / ends": "1.0e-12", "seeds": "1"},
    ]  # fmt: skip


def of_run(pooling, size, at_95, validation, at_start=0.5, examples=640.0, **changes):
    run = {
        "pooling": pooling, "size": size, "ratio_at_95": at_95, "ratio_at_start": at_start,
        "examples_at_95": examples, "validation_accuracy_of_run": validation,
    } | changes  # fmt: skip
    return run, [{"examples": seen, "validation_accuracy": 99.0} for seen in (0, 640)]


ENDED = probes.one_row_a_run(
    frame(
        [
            of_run("last", 1000, 0.01, 60.0),
            of_run("last", 1000, 0.03, 70.0, 0.25, 1280.0, seed=1),
            of_run("max", 1000, np.nan, 78.0, examples=np.nan),
            of_run("max", 500, 0.4, 66.6),
            of_run("mean", 1000, 0.9, 75.0),
        ]
    )
)


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
    assert table.loc["MeanPool", "ratio 1K"] == "**0.9 (1)**<br>1.09 (2.5)"
    never = ENDED.drop(columns="ratio_at_95")
    assert probes.ratio_table(never).set_index("pooling").loc["BiLSTM", "ratio 1K"].startswith("0.0003")


def test_own_runs_have_a_table_with_the_start():
    table = probes.own_ratio_table(ENDED.sort_values("key"))
    assert table.to_numpy().tolist() == [
        ["BiLSTM", "1K", "0.38", "0.02 (2)", "960", "65.0 (2)"],
        ["MaxPool", "1K", "0.5", "not reached", "", "78.0 (1)"],
        ["MaxPool", "500", "0.5", "0.4 (1)", "640", "66.6 (1)"],
        ["MeanPool", "1K", "0.5", "0.9 (1)", "640", "75.0 (1)"],
    ]


# natural bias


def swept(left=(80, 76), mid=(80, 55), right=(80, 66), shares=(0.0, 0.1 * 7)):
    return [
        {"setting_added": added, "share_added": share, "accuracy": float(value)}
        for added, values in (("left", left), ("mid", mid), ("right", right))
        for share, value in zip(shares, values, strict=True)
    ]


SWEEPS = frame(
    [
        ({"pooling": "max", "masked": True}, swept((82, 81), (82, 80), (82, 79))),
        ({"pooling": "last", "masked": True}, swept()),
        ({"pooling": "last", "masked": True, "seed": 1}, swept((90, 84), (90, 60), (90, 64))),
        ({"pooling": "last", "masked": False}, swept((70, 69), (70, 68), (70, 30))),
        ({"pooling": "last", "masked": True, "size": 5000}, swept((88, 88), (88, 87), (88, 86))),
    ]
)


def test_losses_are_differences_of_means_at_the_largest_size_with_all_poolings():
    masked = probes.largest_whole(SWEEPS[SWEEPS["masked"]])
    assert set(masked["key"]) == {"k0", "k1", "k2"}  # 5K has one pooling alone
    assert probes.loss_table(masked).to_dict("records") == [
        {"pooling": "BiLSTM", "no filler, %": "85.0", "text left, points": "-5.0",
         "text mid, points": "-27.5", "text right, points": "-20.0"},
        {"pooling": "MaxPool", "no filler, %": "82.0", "text left, points": "-1.0",
         "text mid, points": "-2.0", "text right, points": "-3.0"},
    ]  # fmt: skip


def test_padding_is_compared_on_the_sizes_and_seeds_that_both_have():
    pair = probes.both_ways(SWEEPS)
    assert {(row.key, row.padding) for row in pair.itertuples()} == {("k1", "masked"), ("k3", "let in")}
    assert probes.both_ways(SWEEPS[SWEEPS["masked"]]).empty


def test_what_padding_does_in_training():
    rows = [
        ("imdb", "last", "left", True, 1000, 70.0), ("imdb", "last", "left", True, 1000, 72.0),
        ("imdb", "last", "right", True, 1000, 66.0), ("imdb", "last", "left", False, 1000, 80.0),
        ("imdb", "last", "mid", False, 1000, 1.0), ("imdb", "max", "left", True, 1000, 2.0),
        ("imdb", "last", "left", True, 2000, 3.0), ("yelp", "last", "left", True, 500, 5.0),
    ]  # fmt: skip
    names = ["corpus", "pooling", "setting", "masked", "size", "test_accuracy"]
    sides = probes.trained_sides(pd.DataFrame(rows, columns=names))
    table = [["masked", "71.0 (2)", "66.0 (1)"], ["let in", "80.0 (1)", "not run"]]
    assert probes.trained_table(sides).to_numpy().tolist() == table
    nothing = probes.trained_table(probes.trained_sides(NO_RUNS)).drop(columns="padding")
    assert set(nothing.to_numpy().flatten()) == {"not run"}


# word importance


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [0.3, SHARE, 0.9])
def test_the_text_stands_where_it_is_composed(setting, share):
    for words in (30, 5000):
        left, right = filler_lengths(words, setting, share)
        total = left + words + right
        low, high = probes.text_span(setting, 0.0 if setting == "standard" else share)
        assert low * total == pytest.approx(left, abs=1)
        assert high * total == pytest.approx(left + words, abs=1)
    text = compose(["text"] * 3000, iter([["filler"] * 7] * 9000), setting, share)
    places = np.linspace(0, len(text) - 1, 100).round().astype(int)
    expected = [text[place] == "text" for place in places]
    found = probes.where_the_text_stands(setting, share)
    assert found.shape == (100,)
    assert (found != expected).sum() <= (setting != "standard") + (setting == "mid")  # at a border


def importance(pooling, setting, values, **changes):
    return {"pooling": pooling, "setting": setting, "share": SHARE, **changes}, profile(values)


def ends_and_middle(left, right, middle):
    return [left] * 10 + [9.0] * 30 + [middle] * 20 + [9.0] * 30 + [right] * 10


def inside(start, stop, text, filler):
    return [text if start <= place < stop else filler for place in range(100)]


def test_importance_of_text_and_filler_by_setting():
    measured = frame(
        [
            importance("max", "mid", inside(33, 67, 0.5, 0.25)),
            importance("max", "standard", ends_and_middle(0.5, 0.5, 0.25)),
            importance("last", "mid", inside(33, 67, 0.125, 0.25)),
            importance("last", "standard", ends_and_middle(0.75, 0.25, 0.125)),
            importance("last", "standard", ends_and_middle(0.25, 0.25, 0.125), seed=1),
            importance("last", "left", inside(0, 34, 0.5, 0.125)),
            importance("last", "right", inside(66, 100, 0.5, 0.0)),
        ]
    )
    table = probes.importance_table(measured)
    assert list(table) == ["pooling", *SETTINGS]
    assert table.to_numpy().tolist() == [
        ["BiLSTM", "0.38 / 0.12", "0.50 / 0.12", "0.12 / 0.25", "0.50 / 0.00"],
        ["MaxPool", "0.50 / 0.25", "", "0.50 / 0.25", ""],
    ]


@pytest.mark.parametrize("rows", [NO_RUNS, ENDED.head(0)], ids=["no columns", "no rows"])
def test_without_runs_every_table_says_so(rows):
    for choose in (probes.at_start, probes.at_end, probes.both_ways, probes.largest_whole):
        assert choose(rows).empty
    for table in (
        probes.level_table,
        probes.own_ratio_table,
        probes.loss_table,
        probes.importance_table,
    ):
        assert table(rows).to_dict("records") == NONE_YET
