"""Reference runs: which finished runs are published, and what comes back from the files; pairs of
the same training, and the rule on precision that rests on them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from called import refused
from safetensors.torch import load_file, save
from small_runs import SMALL, TINY, fresh, on_record, record

from paper.chapter import Chapter
from paper.runs.compute import standing
from paper.runs.kinds import probe as kinds
from paper.runs.kinds.probe import (
    GradientProfile,
    GradientTrace,
    PaddingSweep,
    Probe,
    WordImportance,
)
from paper.runs.kinds.training import PROTOCOL, Training
from paper.runs.request import Request
from paper.runs.run import Place
from paper.runs.store import Store
from paper.verdicts.compare import compare, put_on_record
from paper.verdicts.record import admitted, export, read_comparisons

KEPT = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
START = replace(KEPT, setting="standard", size=500, epochs=1, test=1000)
MEASURED = {
    GradientProfile(START): [{"position": p, "mean": 0.1 * p, "median": 0.2} for p in (1, 2)],
    GradientTrace(replace(KEPT, setting="standard")): [
        {"examples": n, "ratio": 0.5} for n in (0, 128)
    ],
    PaddingSweep(KEPT): [
        {"setting_added": "mid", "share_added": 0.1 * n, "accuracy": 60.0 - n} for n in range(3)
    ],
    WordImportance(KEPT, shortest=400, longest=500): [{"position": 1, "mean": 0.5, "std": 0.25}],
}


def test_the_record_holds_whole_published_corpora_only_and_reads_back(place):
    record(place, KEPT, [{"epoch": 1, "validation_accuracy": 50.0}])
    record(place, replace(KEPT, corpus="yelp"), complete=False)
    record(place, replace(KEPT, hidden_size=64, epochs=8))
    record(place, SMALL)
    elsewhere = on_record(place)
    rows = elsewhere.store.current("training")
    assert [Training.of_row(row) for row in rows.to_dict("records")] == [KEPT]
    assert rows.loc[0, ["test_accuracy", "commit", "protocol"]].tolist() == [70.0, "abc", PROTOCOL]
    assert elsewhere.store.history("training")["validation_accuracy"].tolist() == [50.0]
    record(elsewhere, replace(KEPT, masked=False))  # the authors' way as well; nothing is lost
    assert export("training", elsewhere, elsewhere.store.published) == 2


def test_probes_of_record_read_back_lose_nothing_and_a_local_run_takes_precedence(place, tmp_path):
    keys = {probe: record(place, probe, rows) for probe, rows in MEASURED.items()}
    record(place, PaddingSweep(TINY), [{"setting_added": "mid", "share_added": 0.5}])
    elsewhere = on_record(place, "probe")
    store, folder, sweep = elsewhere.store, elsewhere.store.published, PaddingSweep(KEPT)
    table = store.current("probe")
    assert {Probe.of_row(row): row["key"] for row in table.to_dict("records")} == keys
    for probe, rows in MEASURED.items():
        expected = pd.DataFrame([{"key": keys[probe], **row} for row in rows])
        pd.testing.assert_frame_equal(store.history("probe", probe.probe), expected)
    new = record(elsewhere, replace(sweep, training=replace(KEPT, seed=1)), MEASURED[sweep])
    assert export("probe", elsewhere, folder) == 5
    again = Store(tmp_path / "empty again", folder)
    assert again.history("probe", "sweep").groupby("key").size().tolist() == [3, 3]
    assert (again.has(new), again.has(new, with_weights=True)) == (True, False)
    point = MEASURED[sweep][0] | {"accuracy": 1.0}
    local = record(replace(place, store=again), sweep, [point], complete=False)
    rows = again.history("probe", "sweep")
    assert rows[rows["key"] == local]["accuracy"].tolist() == [1.0]
    table = again.rows("probe").set_index("key")["corpus_complete"]
    assert table.to_dict() == dict.fromkeys([*keys.values(), new], True) | {local: False}


def test_runs_on_other_data_do_not_count_beside_published_ones(place):
    runs = [replace(KEPT, vectors="glove.6B.100d", seed=seed) for seed in range(3)]
    for run in runs:
        record(place, run, accuracy=70.0 + run.seed)
    here = on_record(place)
    for run in runs:
        record(here, run, accuracy=70.0 + run.seed)  # computed again
        for other in "abdefgh":  # whose keys come before and after
            data = {"data": {"corpus": other}, "protocol": PROTOCOL}
            record(here, run, accuracy=10.0, identity=data | {"run": run.changed()})
    asked = {"model": "max", "setting": "mid", "size": 1_000}
    finding = Chapter("natural_bias", Request(), here).finding("accuracy", "thesis", asked)
    assert (finding.value, finding.n) == (71, 3)


def test_runs_of_another_protocol_count_nowhere(place, tmp_path):
    record(place, SMALL)
    place.store.put({"run": {}, "data": {}, "protocol": PROTOCOL + 1}, {}, {}, {})
    probe, folder = PaddingSweep(KEPT), tmp_path / "results"
    record(place, probe, probe_protocol=kinds.PROBE_PROTOCOL + 1)
    record(place, probe, protocol=PROTOCOL + 1)
    assert len(place.store.rows("probe")) == 2
    assert [len(place.store.current(kind)) for kind in ("training", "probe")] == [1, 0]
    assert export("probe", place, folder) == 0
    assert not folder.exists()
    folder.mkdir()
    place.store.rows("probe").to_csv(folder / "probes.csv", index=False)
    elsewhere = replace(place, store=Store(tmp_path / "empty", folder))
    assert list(standing([probe], elsewhere).absent) == [probe]


EXACT = {"device": "cuda: H100", "precision": "float32"}
FAST = EXACT | {"precision": "bfloat16"}


@pytest.fixture
def stores(tmp_path):
    return [Place(Store(tmp_path / name), tmp_path, tmp_path) for name in ("one", "two")]


def put_pairs(stores, differences, run=SMALL, first=None, second=None):
    """The same trainings in both stores, of other seeds, and so many points apart; compares
    them."""
    for seed, difference in enumerate(differences):
        one, loss = replace(run, seed=seed), 0.5 - difference / 10
        record(stores[0], one, made=first, test_loss=0.5)
        record(stores[1], one, accuracy=70.0 + difference, made=second, test_loss=loss)
    return compare(*(place.store for place in stores))


def test_a_real_cell_run_twice_is_identical_and_one_weight_is_enough_to_tell(place):
    second = fresh(place, "again")
    for where in (place, second):
        for run in (SMALL, replace(SMALL, seed=1)):
            run.execute(where, keep_weights=True)
    cell = compare(place.store, second.store).loc[0]
    assert cell[["pairs", "identical", "with_weights"]].tolist() == [2, 2, 2]
    assert cell[["mean_difference", "largest_loss", "largest_weight"]].tolist() == [0, 0, 0]
    file = sorted(second.store.directory.glob("*.safetensors"))[0]
    weights = load_file(file)
    next(iter(weights.values())).view(-1)[0] += 0.25
    file.write_bytes(save(weights))
    cell = compare(place.store, second.store).loc[0]
    assert cell[["identical", "largest_weight"]].tolist() == [1, pytest.approx(0.25)]


def test_differences_and_largest_by_hand(stores):
    standard = (0.5, -0.25, 1.0)
    record(stores[0], replace(SMALL, seed=9))  # in one store alone
    cells = put_pairs(stores, standard, replace(SMALL, setting="standard"))
    cell = cells.iloc[0]
    assert cell[["pairs", "identical", "with_weights"]].tolist() == [3, 0, 0]
    assert cell["mean_difference"] == pytest.approx(np.mean(standard))
    assert cell[["largest_accuracy", "largest_loss"]].tolist() == pytest.approx([1.0, 0.1])
    assert cell["std_difference"] == pytest.approx(np.std(standard, ddof=1))


@pytest.mark.parametrize(
    "count, difference, allowed",
    [
        (25, 0.29, True),
        (25, -0.29, True),
        (24, 0.0, False),
        (25, 0.31, False),
        (25, -0.31, False),
    ],
)
def test_the_rule_on_precision(stores, count, difference, allowed):
    cells = put_pairs(stores, [difference] * count, KEPT, EXACT, FAST)
    where = {"device": ["cuda: H100", "cpu"], "together": 1}
    runs = pd.DataFrame({"precision": ["bfloat16", "float32"], **where})
    for change in (
        {"hidden_size": 64},
        {"epochs": 8},
        {"corpus": "synthetic"},
        {"together_other": 5},
    ):
        assert not admitted(runs, cells.assign(**change))[0][0]
    assert admitted(runs, cells)[0].tolist() == [allowed, True]
    assert admitted(runs, read_comparisons(None))[0].tolist() == [False, True]


def test_runs_in_another_precision_wait_for_their_pairs(stores, place, tmp_path):
    said, folder = [], tmp_path / "results"
    record(place, KEPT, made=EXACT)
    record(place, replace(KEPT, seed=1), made=FAST)
    assert export("training", place, folder, said.append) == 1
    assert said[0].startswith("1 runs are left out: bfloat16 on cuda needs 25 pairs with float32")
    put_on_record(put_pairs(stores, [0.1] * 25, KEPT, EXACT, FAST), folder)
    assert export("training", place, folder, said.append) == 2
    assert len(said) == 1  # nothing more
    recorded = pd.read_csv(folder / "trainings.csv")
    assert sorted(recorded["precision"]) == ["bfloat16", "float32"]
    fewer = read_comparisons(folder).assign(pairs=5)
    refused("the record has more pairs of 1 of these cells", put_on_record, fewer, folder)
