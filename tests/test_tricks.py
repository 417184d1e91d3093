"""The tables and figures of "Learnability tricks", Table 2.1, and what is kept of their runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from small_runs import record_run as put

from record import at_a_scale
from whenpool.book import results, thesis
from whenpool.runs.kinds.training import TRICKS, Training

THESIS = Training("imdb", "mid", 10_000, "last", vectors="glove.6B.100d")
COMPACT = {"hidden_size": 64, "epochs": 8, "max_words": 140, "test": 2000}
SMALL = replace(THESIS, size=1000, **COMPACT)
CHANGES = {
    "last": {}, "max": {"pooling": "max"}, **{trick: {"trick": trick} for trick in TRICKS},
    "max_attention": {"pooling": "max_attention"}, "forget 2": {"forget_bias": 2.0},
    "chrono": {"forget_bias": "chrono"}, "orthogonal": {"orthogonal": True},
}  # fmt: skip
KINDS = {  # r: a reference run, p: plain, k: kept
    "rpk": [
        {}, {"pooling": "max"}, {"setting": "standard", "size": 1000}, {"pooling": "mean"},
        {"setting": "left"}, {"masked": False}, {"corpus": "yelp"},
    ],
    "k": [
        *({"trick": trick} for trick in TRICKS), COMPACT | {"trick": "penalty_attention"},
        {"orthogonal": True}, {"forget_bias": 2.0}, {"forget_bias": "chrono"},
        {"pooling": "max", "forget_bias": 2.0}, {"test": 2000, "trick": "dropout_attention"},
    ],
    "pk": [
        COMPACT, COMPACT | {"share": 0.5}, COMPACT | {"cell": "gru"},
        {"forget_bias": "low"}, COMPACT | {"test": None}, COMPACT | {"setting": "right"},
        COMPACT | {"vectors": None}, COMPACT | {"corpus": "yahoo", "length": "short"},
    ],
    "p": [{"vectors": None}],
    "": [{"hidden_size": 64, "trick": "dropout_attention"}],
}  # fmt: skip
EACH = [(one, kinds) for kinds, runs in KINDS.items() for one in runs]
NUMBERS = results.published("learnability").set_index(["method", "setting"])["accuracy"].to_dict()
IMDB = "table == '1.3' and corpus == 'imdb' and size == 10_000 and pooling == 'max_attention'"
PUBLISHED = results.published("accuracy").query(IMDB).itertuples()
BEST = {row.setting: f"{row.mean:.1f} ± {row.std:.1f}" for row in PUBLISHED}


def of(variant, setting="mid", seed=0, base=SMALL, **changes):
    return replace(base, setting=setting, seed=seed, **(CHANGES[variant] | changes))


def put_all(place, variant, setting, accuracies, base=SMALL):
    for seed, accuracy in enumerate(accuracies):
        put(place, of(variant, setting, seed, base), accuracy)


@pytest.mark.parametrize(("changes", "expected"), EACH, ids=str)
def test_of_which_kind_a_run_is(place, changes, expected):
    put(place, of("teacher_forcing", seed=8))  # other rows, so that columns are mixed
    put(place, of("forget 2", seed=9))
    key = put(place, replace(THESIS, **changes))
    table = place.store.current("training")
    kinds = {"r": thesis.is_reference, "p": thesis.is_plain, "k": at_a_scale}
    kinds_there = {name for name, kind in kinds.items() if kind(table)[table["key"] == key].item()}
    assert kinds_there == set(expected)
    part, compact = table.assign(corpus_complete=False), set(COMPACT) <= set(changes)
    assert not thesis.is_reference(part).any()
    assert at_a_scale(part)[part["key"] == key].item() == ("k" in expected and compact)


def thesis_cells(place):
    return thesis.trick_cells(place.store.current("training")).set_index(["variant", "setting"])


def test_table_2_1_without_runs_has_the_numbers_of_the_thesis_alone(place):
    table = thesis.trick_table(place.store.current("training"))
    expected = [
        [thesis.VARIANTS[name], "thesis", *(f"{NUMBERS[name, s]:.1f}" for s in ("standard", "mid"))]
        for name in ("last", "max", *TRICKS)
    ]
    expected += [["MaxAtt", "thesis", BEST["standard"], BEST["mid"]]]
    assert len(NUMBERS) == 12
    assert table.frame.to_numpy().tolist() == expected
    assert table.provenance == "Provenance: the thesis alone; none of it has been run here."
    put(place, of("last"))
    put(place, of("last", base=THESIS, corpus="yelp"))
    assert thesis.trick_table(place.store.current("training")).frame.equals(table.frame)


@pytest.mark.parametrize("variant", ["last", *TRICKS])
@pytest.mark.parametrize(("changes", "seeds", "verdict"), [
    ({}, 3, "reproduced"), ({}, 2, "so far"), ({"vectors": "wiki-reviews.100d"}, 3, "pilot"),
])  # fmt: skip
def test_ours_stand_below_with_a_verdict(place, variant, changes, seeds, verdict):
    number = NUMBERS[variant, "mid"]
    ours = [number + 0.5 + spread for spread in (-0.2, 0.0, 0.2)[:seeds]]
    put_all(place, variant, "mid", ours, base=replace(THESIS, **changes))
    put(place, of(variant, "mid", 5, THESIS, size=5000), 1.0)
    table = thesis.trick_table(place.store.current("training"))
    spread = "0.2" if seeds == 3 else "0.1"
    text = f"**{np.mean(ours):.1f} ± {spread} ({seeds})** {thesis.MARKS[verdict]}"
    place_of_ours = table.frame["mid"].tolist().index(text)
    assert table.frame["source"].tolist()[place_of_ours - 1 : place_of_ours + 1] == ["thesis", "ours"]
    assert table.frame["mid"][place_of_ours - 1] == f"{number:.1f}"
    assert f"{seeds} runs; corpus imdb; 10,000 training texts" in table.provenance


def test_max_attention_is_judged_by_the_interval_of_table_1_3(place):
    mean, std = map(float, BEST["standard"].split(" ± "))
    put_all(place, "max_attention", "standard", [mean - 0.5, mean, mean + 0.5], base=THESIS)
    cell = thesis_cells(place).loc[("max_attention", "standard")]
    assert (cell["verdict"], cell["n"], cell["table"], cell["std"]) == ("reproduced", 3, "1.3", std)
    texts = thesis.trick_table(place.store.current("training")).frame["standard"].tolist()
    assert texts[-2:] == [BEST["standard"], f"**{mean:.1f} ± 0.5 (3)** ✓"]


def test_a_seed_that_diverged_has_no_part_in_a_verdict(place):
    put_all(place, "gradient_directed", "mid", [80.0, math.nan, 80.5, math.nan, 81.0], base=THESIS)
    put_all(place, "penalty_attention", "mid", [math.nan] * 3, base=THESIS)
    cells = thesis_cells(place)
    cell = cells.loc[("gradient_directed", "mid")]
    assert (cell["n"], cell["ours"], cell["verdict"]) == (3, 80.5, "reproduced")
    assert cells.loc[("penalty_attention", "mid"), "verdict"] == "not run"
