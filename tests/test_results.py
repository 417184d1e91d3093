"""Asking for runs: what is stored is read, what is missing is computed."""

from dataclasses import asdict, replace

import pandas as pd
import pytest

from whenpool import InputError
from whenpool.book.publish import export_runs, export_statistics
from whenpool.book.report import corpora as reports
from whenpool.runs.compute import compute, rows_of, standing
from whenpool.runs.engine import Workforce
from whenpool.runs.kinds.training import PROTOCOL, Training
from whenpool.runs.plans.chapters import plan
from whenpool.runs.request import Choice
from whenpool.runs.rows import current_trainings, training_of
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store

SMALL = Training(
    "synthetic:train=60,validation=20,test=30,shortest=10,longest=14", "standard", 30, "max",
    length="any", embedding_size=8, hidden_size=6, epochs=2,
)  # fmt: skip
GRID = [SMALL, replace(SMALL, seed=1), replace(SMALL, setting="mid"), replace(SMALL, pooling="last")]
ONE = Workforce(workers=1)


def record_run(place, run, complete=True, **result):
    """Put a finished run into the store without training it."""
    identity = {"run": run.changed(), "data": {"corpus": "c"}, "protocol": PROTOCOL}
    values = {"test_accuracy": 70.0, "corpus_complete": complete, "seconds": 1.0} | result
    provenance = {"commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02T03:04:05"}
    history = [{"epoch": 1, "train_accuracy": 60.0, "validation_accuracy": 50.0}]
    return place.store.put(identity, asdict(run), values, provenance, history)


def on_record(place):
    """The place with its finished runs put on record, and an empty store."""
    folder = place.store.directory.with_name("results")
    export_runs(place, folder)
    return Place(Store(place.store.directory.with_name("empty"), folder), place.data, place.cache)


def obtain(runs, place, workforce=None, **options):
    compute(runs, place, workforce, **options)
    return rows_of(runs, place)


def test_missing_runs_are_computed_and_rows_come_in_the_order_asked_for(place):
    first = obtain(GRID[:2], place, ONE)
    assert len(first) == 2
    said = []
    obtain(GRID[:2], place, ONE, say=said.append)
    assert said == []
    again = obtain([GRID[2], *GRID[:2]], place, ONE)
    assert again["seed"].tolist() == [GRID[2].seed, GRID[0].seed, GRID[1].seed]
    assert again["setting"].tolist() == [run.setting for run in (GRID[2], GRID[0], GRID[1])]


def test_the_configuration_can_be_read_back_from_a_row(place, tmp_path):
    runs = [
        SMALL,
        replace(SMALL, max_words=9, forget_bias="low", vectors=None, masked=False, test=20),
        replace(SMALL, forget_bias=2.0),
        replace(SMALL, forget_bias=None),
    ]
    for run in runs:
        record_run(place, run)
    table = place.store.trainings()
    assert {training_of(row) for _, row in table.iterrows()} == set(runs)
    table.to_csv(tmp_path / "t.csv", index=False)
    assert {training_of(row) for _, row in pd.read_csv(tmp_path / "t.csv").iterrows()} == set(runs)


def test_standing_tells_done_missing_failed_and_absent(place):
    obtain(GRID[:1], place, ONE)
    place.store.fail(key(GRID[1], place), {}, "no luck")
    absent = replace(SMALL, corpus="imdb", length="long")
    found = standing([*GRID[:3], absent], place)
    assert list(found.done) == GRID[:1]
    assert found.missing == GRID[1:3]
    assert found.failed == {GRID[1]: "no luck"}
    assert "aclImdb_v1.tar.gz is not in" in found.absent[absent]


def test_where_data_are_absent_a_run_of_record_counts(place):
    run = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
    record_run(place, run)
    place = on_record(place)
    asked = replace(run, vectors="glove.6B.100d")
    other = replace(asked, seed=1)
    found = standing([asked, other], place)
    assert list(found.done) == [asked]
    assert list(found.absent) == [other]
    said = []
    rows = obtain([asked, other], place, skip_absent=lambda run: True, say=said.append)
    assert rows["seed"].tolist() == [0]
    assert said[0].startswith("1 runs are left out: corpus 'imdb'")
    with pytest.raises(InputError, match="aclImdb"):
        compute([asked, other], place)


def test_a_file_that_is_gone_is_not_replaced_by_a_like_run(place, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("text,label\n" + "".join(f"word {i},{i % 2}\n" for i in range(50)))
    run = replace(SMALL, corpus=str(path), size=20, validation=None, test=None)
    assert len(obtain([run], place, ONE)) == 1
    path.unlink()
    assert list(standing([run], place).absent) == [run]


def test_stored_runs_without_weights_are_run_again_where_weights_are_wanted(place):
    obtain(GRID[:1], place, ONE)
    assert compute(GRID[:1], place, ONE, keep_weights=lambda run: True).done == 1
    assert place.store.weights_file(key(GRID[0], place)).exists()


def test_when_all_fail_the_reason_is_told(place):
    said = []
    with pytest.raises(InputError, match="all 2 runs failed; the corpus has 60 train texts"):
        compute([replace(SMALL, size=61, seed=s) for s in (0, 1)], place, ONE, say=said.append)
    assert len([line for line in said if line.startswith("failed")]) == 1
    assert "and 1 others like it" in said[-1]


def test_runs_of_another_protocol_are_not_current(place):
    identity = {"run": {}, "data": {}, "protocol": PROTOCOL + 1}
    place.store.put(identity, {}, {}, {})
    record_run(place, SMALL)
    assert len(current_trainings(place)) == 1


def test_the_record_holds_whole_published_corpora_only_and_reads_back(place, tmp_path):
    kept = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
    record_run(place, kept)
    record_run(place, replace(kept, corpus="yelp"), complete=False)
    record_run(place, replace(kept, hidden_size=64, epochs=8))
    record_run(place, SMALL)
    folder = tmp_path / "results"
    assert export_runs(place, folder) == 1
    elsewhere = Place(Store(tmp_path / "empty", folder), place.data, place.cache)
    rows = current_trainings(elsewhere)
    assert [training_of(row) for _, row in rows.iterrows()] == [kept]
    assert rows.loc[0, ["test_accuracy", "commit", "protocol"]].tolist() == [70.0, "abc", PROTOCOL]
    assert elsewhere.store.histories()["validation_accuracy"].tolist() == [50.0]
    assert export_runs(elsewhere, folder) == 1  # exporting again loses nothing
    record_run(elsewhere, replace(kept, masked=False))
    assert export_runs(elsewhere, folder) == 2  # the authors' way is on record as well


def test_statistics_of_whole_corpora_are_put_on_record(place, tmp_path, monkeypatch):
    known = {"corpus": ["imdb", "yelp"], "length": "long", "classes": 2, "complete": [True, False]}
    known = pd.DataFrame(known | {"source": "here"})
    monkeypatch.setattr("whenpool.book.publish.measured", lambda place: known)
    assert export_statistics(place, tmp_path) == 1
    assert pd.read_csv(tmp_path / reports.STATISTICS_OF_RECORD)["corpus"].tolist() == ["imdb"]


def evidence(place, wanted):
    """The runs of the chapter on corpora that a test wants, with made-up accuracies."""
    runs = [run for run in plan("corpora", Choice("quick"), place) if wanted(run)]
    for number, run in enumerate(runs):
        record_run(place, run, test_accuracy=60.0 + number)
    return reports.with_grammar(place.store.trainings())


def test_a_gain_needs_the_model_without_pooling(place):
    """Pages are made from few runs too, as a deadline leaves them."""
    runs = evidence(place, lambda run: run.pooling == "max")
    assert set(reports.evidence_table(runs)["gain"]) == {""}
    assert set(reports.evidence_facts(runs).values()) == {"–"}
    assert reports.evidence_table(runs.head(0))["classes"].tolist() == ["not run yet"]
    assert set(reports.evidence_facts(runs.head(0)).values()) == {"–"}
    both = evidence(place, lambda run: run.pooling == "last" and "density=0.02" in run.corpus)
    assert set(reports.evidence_table(both)["gain"].map(bool)) == {False, True}
    assert reports.evidence_facts(both)["least_density"] == "2"
