"""Reference runs: which finished runs are published, and what comes back from the files."""

from dataclasses import replace

import pandas as pd
from record import export
from small_runs import SMALL, TINY, on_record, record_probe, record_run

from whenpool.runs.compute import standing
from whenpool.runs.kinds import probe as kinds
from whenpool.runs.kinds.probe import GradientProfile, GradientTrace, PaddingSweep, Probe, WordImportance
from whenpool.runs.kinds.training import PROTOCOL, Training
from whenpool.runs.store import Store

KEPT = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
START = replace(KEPT, setting="standard", size=500, epochs=1, test=1000)
MEASURED = {
    GradientProfile(START): [{"position": p, "mean": 0.1 * p, "median": 0.2} for p in (1, 2)],
    GradientTrace(replace(KEPT, setting="standard")): [{"examples": n, "ratio": 0.5} for n in (0, 128)],
    PaddingSweep(KEPT):
        [{"setting_added": "mid", "share_added": 0.1 * n, "accuracy": 60.0 - n} for n in range(3)],
    WordImportance(KEPT, shortest=400, longest=500): [{"position": 1, "mean": 0.5, "std": 0.25}],
}  # fmt: skip


def test_the_record_holds_whole_published_corpora_only_and_reads_back(place):
    record_run(place, KEPT, history=[{"validation_accuracy": 50.0}])
    record_run(place, replace(KEPT, corpus="yelp"), complete=False)
    record_run(place, replace(KEPT, hidden_size=64, epochs=8))
    record_run(place, SMALL)
    elsewhere = on_record(place)
    rows = elsewhere.store.current("training")
    assert [Training.of_row(row) for row in rows.to_dict("records")] == [KEPT]
    assert rows.loc[0, ["test_accuracy", "commit", "protocol"]].tolist() == [70.0, "abc", PROTOCOL]
    assert elsewhere.store.history("training")["validation_accuracy"].tolist() == [50.0]
    assert export("training", elsewhere, elsewhere.store.published) == 1  # again, and nothing is lost
    record_run(elsewhere, replace(KEPT, masked=False))
    assert export("training", elsewhere, elsewhere.store.published) == 2  # the authors' way as well


def test_probes_of_record_read_back_lose_nothing_and_a_local_run_takes_precedence(place, tmp_path):
    keys = {probe: record_probe(place, probe, rows) for probe, rows in MEASURED.items()}
    record_probe(place, PaddingSweep(TINY), [{"setting_added": "mid", "share_added": 0.5}])
    elsewhere = on_record(place, "probe")
    store, folder, sweep = elsewhere.store, elsewhere.store.published, PaddingSweep(KEPT)
    names = {"probes.csv"} | {f"probes_{kind}.csv" for kind in ("gradients", "trace", "sweep", "nwi")}
    assert {file.name for file in folder.iterdir()} == names
    table = store.current("probe")
    assert {Probe.of_row(row): row["key"] for row in table.to_dict("records")} == keys
    assert set(table["commit"]) == {"abc"}
    for probe, rows in MEASURED.items():
        expected = pd.DataFrame([{"key": keys[probe], **row} for row in rows])
        pd.testing.assert_frame_equal(store.history("probe", probe.probe), expected)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert export("probe", elsewhere, folder) == 4
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    new = record_probe(elsewhere, replace(sweep, training=replace(KEPT, seed=1)), MEASURED[sweep])
    assert export("probe", elsewhere, folder) == 5
    again = Store(tmp_path / "empty again", folder)
    assert again.history("probe", "sweep").groupby("key").size().tolist() == [3, 3]
    assert (again.has(new), again.has(new, with_weights=True)) == (True, False)
    point = MEASURED[sweep][0] | {"accuracy": 1.0}
    local = record_probe(replace(place, store=again), sweep, [point], complete=False)
    rows = again.history("probe", "sweep")
    assert rows[rows["key"] == local]["accuracy"].tolist() == [1.0]
    table = again.rows("probe").set_index("key")["corpus_complete"]
    assert table.to_dict() == dict.fromkeys(again.keys(), True) | {local: False}
    assert len(table) == 5


def test_runs_of_another_protocol_count_nowhere(place, tmp_path):
    record_run(place, SMALL)
    place.store.put({"run": {}, "data": {}, "protocol": PROTOCOL + 1}, {}, {}, {})
    probe, folder = PaddingSweep(KEPT), tmp_path / "results"
    record_probe(place, probe, probe_protocol=kinds.PROBE_PROTOCOL + 1)
    record_probe(place, probe, protocol=PROTOCOL + 1)
    assert len(place.store.rows("probe")) == 2
    assert [len(place.store.current(kind)) for kind in ("training", "probe")] == [1, 0]
    assert export("probe", place, folder) == 0
    assert not folder.exists()
    folder.mkdir()
    place.store.rows("probe").to_csv(folder / "probes.csv", index=False)
    elsewhere = replace(place, store=Store(tmp_path / "empty", folder))
    assert list(standing([probe], elsewhere).absent) == [probe]


def test_what_probes_measured_is_beside_what_they_ran_on(place):
    store, trace = place.store, GradientTrace(replace(KEPT, setting="standard"))
    points = [{"examples": 0, "ratio": 0.5, "texts": 7}, {"examples": 9, "ratio": 0.1, "texts": 7}]
    name = record_probe(place, trace, points)
    record_probe(place, replace(trace, training=replace(trace.training, seed=1)), points)
    for probe in (PaddingSweep(KEPT), WordImportance(KEPT)):
        record_probe(place, probe, [{"position": 1, "mean": 0.5}])
    probes = store.rows("probe")
    assert set(store.measured_on(probes, "trace")["seed"]) == {0, 1}
    rows = store.measured_on(probes[probes["seed"] == 0], "trace")
    expected = {"key": name, "ratio": [0.5, 0.1], "pooling": "max", "texts": 7, "texts_of_run": 64}
    assert rows[list(expected)].equals(pd.DataFrame(expected))
    assert not {"k", "shortest"} & set(rows)  # options of other kinds
    assert store.measured_on(probes, "sweep")["share"].tolist() == [0.66]
