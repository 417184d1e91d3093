"""Asking for probe runs: what is stored is read, what is missing is computed, weights included."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from conftest import PoolHere
from test_faults import children, needs_proc, wait_for
from test_probing import TINY

from whenpool.base.errors import InputError
from whenpool.book.chapter import Chapter
from whenpool.book.publish import export
from whenpool.book.report.evidence import evidence_of
from whenpool.book.report.verdicts import probes_of_either_scale, probes_of_record
from whenpool.runs.compute import compute, rows_of, standing
from whenpool.runs.engine import Workforce, running
from whenpool.runs.kinds.probe import (
    PROBE_PROTOCOL,
    PROBES,
    DirectionUse,
    FirstSteps,
    GradientProfile,
    GradientTrace,
    PaddingSweep,
    Probe,
    WordImportance,
)
from whenpool.runs.kinds.training import PROTOCOL, Training
from whenpool.runs.request import Choice
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store

OTHER = replace(TINY, pooling="max", setting="mid")
PROFILE = GradientProfile(TINY, texts=8)
TRACE = GradientTrace(OTHER, texts=8, sample=16)
SWEEP = PaddingSweep(TINY, texts=20)
IMPORTANCE = WordImportance(OTHER, texts=4, k=2)
LONGER = replace(
    TINY, corpus="synthetic:train=60,validation=20,test=150,shortest=40,longest=60,density=0.2"
)
MANY = [
    probe
    for training in (LONGER, replace(LONGER, seed=1))
    for probe in (
        GradientProfile(training),
        PaddingSweep(training),
        PaddingSweep(training, texts=140),
        WordImportance(training, k=1),
        WordImportance(training, k=2),
    )
]


@pytest.fixture
def executed(monkeypatch):
    """Runs are executed in this process, which is faster, and noted in their order."""
    order = []

    class Noting(PoolHere):
        def begin(self, task):
            order.extend(job.run for job in task)
            return super().begin(task)

    monkeypatch.setattr(running, "_pool", lambda place, workforce, tasks: Noting(place, workforce))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield order
    torch.set_num_threads(threads)


def ask(runs, place, **options):
    """What was said, and the report."""
    said = []
    report = compute(runs, place, say=said.append, **options)
    return [line for line in said if not line.startswith("note: ")], report


def has_weights(training, place):
    return place.store.weights_file(key(training, place)).exists()


def test_trainings_that_are_missing_are_run_first_and_keep_their_weights(place, executed):
    said, report = ask([PROFILE, SWEEP, IMPORTANCE], place)
    assert said == []
    assert report.done == 5
    assert set(executed[:2]) == {TINY, OTHER}
    assert set(executed[2:]) == {PROFILE, SWEEP, IMPORTANCE}
    assert has_weights(TINY, place)
    assert has_weights(OTHER, place)
    assert list(standing([PROFILE, SWEEP, IMPORTANCE, TINY, OTHER], place).done) == [
        PROFILE, SWEEP, IMPORTANCE, TINY, OTHER,
    ]  # fmt: skip


def test_a_trace_trains_and_stores_the_training_with_weights(place, executed):
    ask([TRACE], place)
    assert executed == [TRACE]
    assert has_weights(OTHER, place)
    assert list(standing([OTHER], place).done) == [OTHER]
    ask([OTHER, IMPORTANCE, TRACE], place)
    assert executed == [TRACE, IMPORTANCE]


def test_what_is_traced_listed_and_probed_is_trained_once(place, executed):
    _, report = ask([TINY, IMPORTANCE, OTHER, PROFILE, TRACE, SWEEP, TINY], place)
    assert executed[0] == TRACE
    assert executed[1] == TINY
    assert set(executed[2:]) == {IMPORTANCE, PROFILE, SWEEP}
    assert report.done == len(executed) == 5


def test_trainings_stored_without_weights_are_run_again_before_probes(place, executed):
    ask([TINY, OTHER], place)
    assert not has_weights(TINY, place)
    ask([PROFILE], place)
    assert executed[2:] == [TINY, PROFILE]  # the other has no probe
    assert has_weights(TINY, place)
    assert not has_weights(OTHER, place)


def test_weights_of_record_are_nowhere_so_the_training_is_run(place, executed, tmp_path):
    ask([TINY], place)
    folder = tmp_path / "records"
    folder.mkdir()
    place.store.rows("training").to_csv(folder / "trainings.csv", index=False)
    elsewhere = replace(place, store=Store(tmp_path / "empty", folder))
    assert list(standing([TINY], elsewhere).done) == [TINY]
    ask([TINY, PROFILE], elsewhere)
    assert executed[1:] == [TINY, PROFILE]


def test_what_is_stored_is_not_run_again_even_where_weights_are_gone(place, executed):
    runs = [PROFILE, TRACE, SWEEP, IMPORTANCE, TINY]
    ask(runs, place)
    place.store.weights_file(key(TINY, place)).unlink()
    done = len(executed)
    said, report = ask(runs, place)
    assert (said, report.done, len(executed)) == ([], 0, done)


def test_weights_are_kept_besides_where_they_are_asked_for(place, executed):
    ask([TINY, IMPORTANCE], place, keep_weights=lambda run: run == TINY)
    assert has_weights(TINY, place)
    ask([TINY, IMPORTANCE], place, keep_weights=lambda run: True)
    assert len(executed) == 3


def test_rows_of_probes_come_in_the_order_asked_for_and_apart_from_trainings(place, executed):
    asked = [SWEEP, IMPORTANCE, TRACE, PROFILE]
    ask(asked, place)
    assert [Probe.of_row(row) for row in rows_of(asked, place).to_dict("records")] == asked
    assert rows_of([OTHER, TINY], place)["pooling"].tolist() == ["max", "last"]
    assert len(place.store.rows("training")) == 2
    assert set(place.store.history("training")["key"]) == {key(TINY, place), key(OTHER, place)}
    kinds = {"gradients": 100, "trace": 1, "sweep": 30, "nwi": 100}
    assert {kind: len(place.store.history("probe", kind)) for kind in kinds} == kinds
    assert set(place.store.history("probe", "nwi")["key"]) == {key(IMPORTANCE, place)}


def test_a_probe_that_fails_is_one_line_and_the_others_go_on(place, executed):
    bad = [replace(IMPORTANCE, shortest=8, longest=9, k=k) for k in (2, 3)]
    said, report = ask([PROFILE, *bad, SWEEP], place)
    reason = "the corpus has no test text of 8 to 9 words"
    assert said == [f"failed: {bad[0]} and 1 others like it: {reason}"]
    assert list(standing([PROFILE, SWEEP, *bad], place).done) == [PROFILE, SWEEP]
    assert set(standing(bad, place).failed) == set(report.failed) == set(bad)


@pytest.mark.parametrize("listed", [True, False])
def test_a_training_that_fails_is_told_once_and_its_probes_with_it(place, executed, listed):
    bad = replace(TINY, size=61)
    probes = [GradientProfile(bad), WordImportance(bad), PROFILE]
    said, report = ask([*([bad] if listed else []), *probes], place)
    assert len(said) == 1
    assert "2 others like it: the corpus has 60 train texts, 61 were asked for" in said[0]
    assert set(report.failed) == {bad, *probes[:2]}
    assert executed.count(bad) == 1
    assert not set(probes[:2]) & set(executed)  # there is nothing to look at
    assert set(standing(probes, place).failed) == set(probes[:2])


def test_a_training_that_diverges_is_told_once_by_its_trace(place, executed):
    bad = replace(TINY, learning_rate=3e38)
    said, report = ask([GradientTrace(bad, texts=4), bad, GradientProfile(bad), SWEEP], place)
    assert len(said) == 1
    assert "the loss became" in said[0]
    assert set(report.failed) == {GradientTrace(bad, texts=4), bad, GradientProfile(bad)}


@pytest.mark.parametrize("damage", ["truncated", "other model"])
def test_damaged_weights_are_named(place, executed, damage):
    ask([TINY, IMPORTANCE], place, keep_weights=lambda run: True)
    file = place.store.weights_file(key(TINY, place))
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        ask([replace(TINY, hidden_size=7)], place, keep_weights=lambda run: True)
        wrong = place.store.weights_file(key(replace(TINY, hidden_size=7), place))
        shutil.copy(wrong, file)
    said, _ = ask([PROFILE, IMPORTANCE], place)
    assert len(said) == 1
    assert said[0].startswith(f"failed: {PROFILE}: {file} does not hold the weights of {TINY}: ")
    assert said[0].endswith("; delete it")
    assert ":;" not in said[0]
    file.unlink()  # as it says
    assert ask([PROFILE], place)[0] == []
    assert list(standing([PROFILE], place).failed) == []


def test_a_probe_whose_filler_is_absent_is_left_out_alone(place, executed, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "whenpool.corpora.sources.CorpusSource.filler_fingerprint",
        lambda source: (_ for _ in ()).throw(InputError("there is no filler here")),
    )
    said, _ = ask([PROFILE, SWEEP], place, skip_absent=lambda run: True)
    assert said == ["1 runs are left out: there is no filler here"]
    assert executed == [TINY, PROFILE]
    with pytest.raises(InputError, match="there is no filler here"):
        compute([PROFILE, SWEEP], place)


def results(store):
    """What must not depend on how the runs were made."""
    trainings = store.rows("training").set_index("key")["test_loss"].to_dict()
    kinds = {kind: store.history("probe", kind) for kind in ("gradients", "sweep", "nwi")}
    values = {kind: rows.sort_values("key", kind="stable") for kind, rows in kinds.items()}
    return trainings, {kind: rows.to_csv(index=False) for kind, rows in values.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A place where one worker has done them all."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "data").mkdir()
    place = Place(Store(folder / "store"), folder / "data", folder / "cache")
    assert compute(MANY, place, Workforce(workers=1)).done == len(MANY) + 2
    return place


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from test_probe_runs import MANY, Path, Place, Store, Workforce, compute
if __name__ == "__main__":
    place = Place(Store(Path({store!r})), Path({data!r}), Path({cache!r}))
    sys.exit(1 if compute(MANY[::-1], place, Workforce(workers=2)).failed else 0)
"""


@needs_proc
def test_two_workers_of_which_one_is_killed_find_what_one_worker_found(place, tmp_path, undisturbed):
    shutil.copytree(undisturbed.store.directory, place.store.directory)  # the trainings are done
    probes = [place.store.directory / f"{key(probe, place)}.json" for probe in MANY]
    for file in probes:
        file.unlink()
    script = tmp_path / "probes.py"
    script.write_text(
        SCRIPT.format(
            tests=str(Path(__file__).parent), store=str(place.store.directory), data=str(place.data),
            cache=str(place.cache),
        )
    )  # fmt: skip
    parent = subprocess.Popen(
        [sys.executable, script], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )

    def done():
        return sum(file.exists() for file in probes)

    wait_for(lambda: done() >= 1)
    os.kill(children(parent.pid)[0], signal.SIGKILL)
    assert done() < len(probes)
    assert parent.wait(120) == 0
    assert results(place.store) == results(undisturbed.store)
    assert place.store.failures() == {}


KEPT = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
START = replace(KEPT, setting="standard", size=500, epochs=1, test=1000)
MEASURED = {
    GradientProfile(START): [{"position": p, "mean": 0.1 * p, "median": 0.2} for p in (1, 2)],
    GradientTrace(replace(KEPT, setting="standard")): [
        {"examples": n, "ratio": 0.5, "train_accuracy": 50.0, "validation_accuracy": 51.0}
        for n in (0, 128, 1024)
    ],
    PaddingSweep(KEPT): [
        {"setting_added": "mid", "share_added": 0.1 * n, "accuracy": 60.0 - n, "words": 250.5}
        for n in range(3)
    ],
    WordImportance(KEPT, shortest=400, longest=500): [{"position": 1, "mean": 0.5, "std": 0.25}],
}


def record_probe(place, probe, rows=(), complete=True, protocol=PROTOCOL, probe_protocol=PROBE_PROTOCOL):
    """Put a finished probe run into the store without computing it."""
    identity = {
        "run": probe.training.changed(), "data": {"corpus": "c"}, "protocol": protocol,
        "probe": probe.changed() | {"protocol": probe_protocol},
    }  # fmt: skip
    values = {
        "training": "t", "probe_protocol": probe_protocol, "corpus_complete": complete, "seconds": 1.0,
    }  # fmt: skip
    provenance = {"commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02T03:04:05"}
    return place.store.put(identity, probe.row(), values, provenance, rows)


def on_record(place, tmp_path):
    """The place with its finished probes put on record, and an empty store."""
    folder = tmp_path / "results"
    export("probe", place, folder)
    return Place(Store(tmp_path / "empty", folder), place.data, place.cache), folder


def test_probes_of_record_and_what_they_measured_read_back(place, tmp_path):
    keys = {probe: record_probe(place, probe, rows) for probe, rows in MEASURED.items()}
    record_probe(place, PaddingSweep(TINY), [{"setting_added": "mid", "share_added": 0.5}])
    elsewhere, folder = on_record(place, tmp_path)
    assert {file.name for file in folder.iterdir()} == {
        "probes.csv", "probes_gradients.csv", "probes_trace.csv", "probes_sweep.csv", "probes_nwi.csv",
    }  # fmt: skip
    table = elsewhere.store.current("probe")
    assert {Probe.of_row(row): row["key"] for row in table.to_dict("records")} == keys
    assert set(table["commit"]) == {"abc"}
    for probe, rows in MEASURED.items():
        expected = pd.DataFrame([{"key": keys[probe], **row} for row in rows])
        pd.testing.assert_frame_equal(elsewhere.store.history("probe", probe.probe), expected)
    assert len(elsewhere.store.rows("training")) == 0
    assert elsewhere.store.keys() == set(keys.values())


def test_exporting_again_loses_nothing_and_adds_what_is_new(place, tmp_path):
    for probe, rows in MEASURED.items():
        record_probe(place, probe, rows)
    elsewhere, folder = on_record(place, tmp_path)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert export("probe", elsewhere, folder) == 4
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    new = record_probe(elsewhere, PaddingSweep(replace(KEPT, seed=1)), MEASURED[PaddingSweep(KEPT)])
    assert export("probe", elsewhere, folder) == 5
    again = Store(tmp_path / "empty again", folder)
    assert again.measured("sweep").groupby("key").size().tolist() == [3, 3]
    assert again.has(new)


def test_a_local_probe_takes_the_place_of_that_of_record(place, tmp_path):
    probe = PaddingSweep(KEPT)
    record_probe(place, probe, MEASURED[probe])
    elsewhere, _ = on_record(place, tmp_path)
    record_probe(elsewhere, probe, [{"setting_added": "mid", "share_added": 0.0, "accuracy": 1.0}])
    assert elsewhere.store.history("probe", "sweep")["accuracy"].tolist() == [1.0]
    assert len(elsewhere.store.rows("probe")) == 1


def test_where_data_are_absent_a_probe_of_record_counts(place, tmp_path, executed):
    for probe, rows in MEASURED.items():
        record_probe(place, probe, rows)
    elsewhere, _ = on_record(place, tmp_path)
    asked = [
        replace(probe, training=replace(probe.training, vectors="glove.6B.100d")) for probe in MEASURED
    ]
    others = [replace(asked[2], texts=9), WordImportance(KEPT), replace(asked[0], training=KEPT)]
    found = standing([*asked, *others], elsewhere)
    assert set(found.done) == found.elsewhere == set(asked)
    assert set(found.absent) == set(others)
    said, report = ask([*asked, *others], elsewhere, skip_absent=lambda run: True)
    assert [line.partition(":")[0] for line in said] == ["3 runs are left out"]
    assert (report.done, executed) == (0, [])
    rows = rows_of([*asked, *others], elsewhere)
    assert rows["probe"].tolist() == ["gradients", "trace", "sweep", "nwi"]


def test_probes_of_another_protocol_count_nowhere(place, tmp_path):
    probe = PaddingSweep(KEPT)
    record_probe(place, probe, probe_protocol=PROBE_PROTOCOL + 1)
    record_probe(place, probe, protocol=PROTOCOL + 1)
    assert len(place.store.rows("probe")) == 2
    assert len(place.store.current("probe")) == 0
    folder = tmp_path / "results"
    assert export("probe", place, folder) == 0
    folder.mkdir(exist_ok=True)
    place.store.rows("probe").to_csv(folder / "probes.csv", index=False)
    elsewhere = replace(place, store=Store(tmp_path / "empty", folder))
    assert list(standing([probe], elsewhere).absent) == [probe]


def test_trainings_and_probes_are_put_on_record_apart(place, tmp_path):
    record_probe(place, PaddingSweep(KEPT))
    assert export("training", place, tmp_path / "results") == 0
    assert not (tmp_path / "results").exists()
    assert export("probe", replace(place, store=Store(tmp_path / "nothing")), tmp_path / "results") == 0
    assert not (tmp_path / "results").exists()


COMPACT = {"max_words": 140, "hidden_size": 64, "epochs": 8}
LOW = {"pooling": "last", "forget_bias": "low"}
KINDS = [  # figures of the thesis's scale draw it; it is published; also on a part of a corpus
    ("dp", PaddingSweep(KEPT)),
    ("dp", PaddingSweep(replace(KEPT, masked=False))),
    ("dp", DirectionUse(KEPT)),
    ("dp", WordImportance(KEPT, shortest=50, longest=60, k=3)),
    ("dp", GradientTrace(KEPT)),
    ("dp", GradientProfile(KEPT)),
    ("dp", GradientProfile(START)),
    ("dp", GradientProfile(replace(START, masked=False, test=None))),
    ("dp", GradientProfile(replace(START, **LOW))),
    ("p", FirstSteps(replace(START, **LOW))),
    ("p", PaddingSweep(START)),
    ("p", GradientTrace(START)),
    ("p", GradientProfile(replace(START, forget_bias="low"))),
    ("p", GradientProfile(replace(START, forget_bias=None))),
    ("p", GradientProfile(replace(KEPT, **LOW))),
    ("p", GradientTrace(replace(KEPT, pooling="last", trick="dropout_attention"))),
    ("p", PaddingSweep(replace(KEPT, test=1000))),
    ("p", WordImportance(replace(KEPT, forget_bias="chrono"))),
    ("", GradientProfile(replace(START, size=400))),
    ("", GradientProfile(replace(START, epochs=2))),
    ("", GradientProfile(replace(START, hidden_size=64))),
    ("", GradientProfile(replace(KEPT, epochs=1))),
    ("", PaddingSweep(replace(KEPT, epochs=8))),
    ("", PaddingSweep(replace(KEPT, max_words=140))),
    ("", PaddingSweep(replace(KEPT, vectors=None))),
    ("", PaddingSweep(replace(KEPT, corpus="synthetic", length="any"))),
    ("", WordImportance(replace(KEPT, cell="gru"))),
    ("", WordImportance(replace(KEPT, share=0.5))),
    ("pc", PaddingSweep(replace(KEPT, **COMPACT))),
    ("pc", PaddingSweep(replace(KEPT, **COMPACT, vectors=None, test=2_000))),
    ("pc", FirstSteps(replace(START, max_words=140, hidden_size=64))),
    ("", FirstSteps(replace(START, max_words=140))),
    ("", PaddingSweep(replace(KEPT, **COMPACT, cell="gru"))),
]


@pytest.mark.parametrize(("expected", "probe"), KINDS)
def test_of_which_kind_a_probe_is(place, expected, probe):
    record_probe(place, probe)
    record_probe(place, PaddingSweep(replace(KEPT, seed=9)))  # another row, so that columns are mixed
    table = place.store.rows("probe")
    asked = [Probe.of_row(row) == probe for row in table.to_dict("records")]
    part = table.assign(corpus_complete=False)
    corpus = table["corpus"].ne("synthetic")  # which is never complete
    found = {"d": probes_of_record(table) & corpus, "p": probes_of_either_scale(table)}
    found |= {"c": probes_of_either_scale(part)}
    assert {name for name, kind in found.items() if kind[asked].item()} == set(expected)
    assert not probes_of_record(part).any()


# what probes measured, beside what they ran on


def test_what_probes_measured_stands_beside_what_they_ran_on(place):
    store, trace = place.store, GradientTrace(replace(KEPT, setting="standard"))
    points = [{"examples": 0, "ratio": 0.5, "texts": 7}, {"examples": 9, "ratio": 0.1, "texts": 7}]
    name = record_probe(place, trace, points)
    record_probe(place, replace(trace, training=replace(trace.training, seed=1)), points)
    record_probe(place, PaddingSweep(KEPT), MEASURED[PaddingSweep(KEPT)])
    record_probe(place, WordImportance(KEPT), MEASURED[WordImportance(KEPT, shortest=400, longest=500)])
    probes = store.rows("probe")
    assert set(store.measured_on(probes, "trace")["seed"]) == {0, 1}
    assert "k" not in store.measured_on(probes, "trace")  # an option of another kind
    rows = store.measured_on(probes[probes["seed"] == 0], "trace")
    assert rows["key"].tolist() == [name] * 2
    assert rows["ratio"].tolist() == [0.5, 0.1]
    assert rows["pooling"].tolist() == ["max"] * 2
    assert (rows["texts"].tolist(), rows["texts_of_run"].tolist()) == ([7] * 2, [64] * 2)
    assert "shortest" not in rows  # nowhere known
    assert store.measured_on(probes, "sweep")["share"].tolist() == [0.66] * 3


def test_a_kind_without_runs_measured_nothing(place):
    """While another kind has some, and where a kind has some but not of these."""
    for probe in (GradientTrace(KEPT), PaddingSweep(KEPT)):
        record_probe(place, probe, [{"examples": 0, "ratio": 0.5}])
    probes = place.store.rows("probe")
    traces = probes[probes["probe"] == "trace"]
    for kind in ("sweep", "nwi"):
        rows = place.store.measured_on(traces, kind)
        assert rows.empty
        assert "key" in rows
    assert place.store.measured_on(probes.head(0), "trace").empty
    assert Store(place.store.directory / "none").measured_on(pd.DataFrame(), "trace").empty


def test_figures_of_record_draw_runs_of_record_alone_and_of_one_kind_of_vectors(place):
    def keys(kind):
        found = evidence_of(place.store)
        assert set(found.measured) == set(PROBES)
        return set(found.measured[kind].get("key", ()))

    assert not any(keys(kind) for kind in PROBES)
    points = MEASURED[GradientProfile(START)]
    seeds = [replace(START, seed=seed) for seed in range(5)]
    kept = {record_probe(place, GradientProfile(start), points) for start in seeds[:2]}
    record_probe(place, GradientProfile(replace(seeds[2], hidden_size=64)), points)
    record_probe(place, GradientProfile(seeds[3]), points, complete=False)
    other = [replace(start, vectors="glove.6B.100d") for start in seeds[:3]]
    glove = {record_probe(place, GradientProfile(other[0]), points)}
    trace = record_probe(place, GradientTrace(replace(KEPT, vectors="glove.6B.100d")), points)
    assert keys("gradients") == kept
    assert keys("trace") == {trace}  # the only one of its kind
    glove |= {record_probe(place, GradientProfile(start), points) for start in other[1:]}
    assert keys("gradients") == glove


def test_what_a_chapter_measured_is_that_of_its_own_probes(place):
    for seed, accuracy in enumerate((1.0, 2.0)):
        point = {"setting_added": "mid", "share_added": 0.5, "accuracy": accuracy}
        record_probe(place, PaddingSweep(replace(KEPT, seed=seed)), [point])
    probes = place.store.rows("probe").query("seed == 1")
    chapter = Chapter("natural_bias", Choice("smoke"), place)
    assert chapter.measured(probes, "sweep")["accuracy"].tolist() == [2.0]
    assert chapter.measured(probes, "nwi").empty
