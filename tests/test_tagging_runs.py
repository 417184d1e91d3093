"""Tagging runs: what is planned, executed, stored, recorded, shown, and decided by them."""

import re
from dataclasses import asdict, fields, replace

import pandas as pd
import pytest
from made_up import AFTER, runs

from whenpool import InputError
from whenpool.book.progress import outcome_table
from whenpool.book.publish import export
from whenpool.book.report.claims import by_runs, claims
from whenpool.runs.compute import standing
from whenpool.runs.engine import read_ahead
from whenpool.runs.kinds.tagging import PLACES, TAGGING_PROTOCOL, Tagging
from whenpool.runs.plans.chapters import SMALL_TAGGERS, plan
from whenpool.runs.request import Choice
from whenpool.runs.run import VECTORS, Place, key
from whenpool.runs.store import Store, key_of

TINY = Tagging(
    "generated:train=40,validation=12,test=20,clauses=2", embedding_size=6, hidden_size=5,
    feature_size=3, epochs=2, learning_rate=1e-2, profiled=4,
)  # fmt: skip
RUNS = [
    TINY,
    replace(TINY, bidirectional=False),
    replace(TINY, encoding="io"),
    replace(TINY, cell="elman", features=False),
    replace(TINY, corpus=TINY.corpus + ",task=pos"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagging")
    return Place(Store(folder / "store"), folder / "data", folder / "cache")


@pytest.fixture(scope="module")
def executed(place):
    for run in RUNS:
        run.execute(place)
    return place


def test_every_run_leaves_a_row_that_gives_it_back(executed):
    table = executed.store.current("tagging")
    assert len(table) == len(RUNS)
    for row in table.to_dict("records"):
        run = Tagging.of_row(row)
        assert run in RUNS
        assert key(run, executed) == row["key"]
        assert 0 <= row["test_accuracy"] <= 100
        assert (row["train_texts"], row["validation_texts"], row["test_texts"]) == (40, 12, 20)
        assert row["later_words"] > 0
        assert row["unseen_words"] > 0
        assert row["majority_accuracy"] < row["lexicon_accuracy"] < 100
        assert (row["entity_f1"] == row["entity_f1"]) == row["entities"] == ("pos" not in run.corpus)
        kinds = ("right", "boundary", "mistyped", "spurious")
        if row["entities"]:
            assert sum(row[f"entities_{kind}"] for kind in kinds) == row["entities_predicted"]
    assert all(executed.store.rows(kind).empty for kind in ("training", "probe", "few-shot"))


def test_epochs_and_gradients_are_stored_apart(executed):
    epochs, places = executed.store.history("tagging"), executed.store.history("tagging", "gradients")
    assert executed.store.history("training").empty
    assert executed.store.history("few-shot").empty
    assert epochs.groupby("key").size().eq(2).all()
    assert epochs["train_loss"].notna().all()
    assert "position" not in epochs
    assert places.groupby(["key", "stage"]).size().eq(PLACES).all()
    one_way = places[places["key"] == key(RUNS[1], executed)]
    behind = one_way[one_way["position"] >= PLACES * 2 // 3]
    assert behind["single"].eq(0).all()
    assert behind["mean"].gt(0).all()


def test_what_cannot_be_trained_is_told(place):
    with pytest.raises(InputError, match=r"generated mark no entities .* leave encoding out"):
        replace(TINY, corpus=TINY.corpus + ",task=pos", encoding="io").execute(place)
    with pytest.raises(InputError, match="cell 'rnn' is unknown; choose one of lstm"):
        replace(TINY, cell="rnn").execute(place)
    with pytest.raises(InputError, match="word vectors none.txt are not in"):
        replace(TINY, vectors="none").execute(place)
    assert standing([replace(TINY, corpus="ud_ewt")], place).absent


def test_files_of_the_readers_own_are_planned_trained_and_noted(place, tmp_path):
    text = "\n\n".join(f"word{number} O\nFred I-PER\nSue B-PER" for number in range(60))
    (tmp_path / "mine.conll").write_text(text)
    (tmp_path / "test.conll").write_text("Fred I-PER\nParis I-LOC\n")
    file = f"{tmp_path / 'mine.conll'}:dev=test.conll,test=test.conll"
    runs = plan("sequence_labelling", Choice("smoke", (file,)), place)
    assert [(run.bidirectional, run.filters) for run in runs] == [(True, 0), (False, 0), (True, 50)]
    assert [run.cost for run in runs] == [180.0] * 3  # a line of the file is a word, and one epoch
    rows = [place.store.get(run.execute(place)) for run in runs]
    row = rows[0]
    assert rows[2]["result"]["parameters"] > row["result"]["parameters"]
    for line in outcome_table(runs, place).splitlines()[1:]:
        assert re.search(r" F1 in % +\d+\.\d +1 +LOC \d+\.\d, PER \d+\.\d$", line)
    assert row["result"]["corpus_notes"] == (
        "mine.conll is IOB1: 60 of its 120 entities begin with I-, which are read as entities. "
        "1 test words have a tag that no training word has: they count as errors."
    )
    assert " ".join(read_ahead(runs, place)) == row["result"]["corpus_notes"]  # told before any work


# records


def made_up(corpus, **values):
    """A row of `Store.rows` of a run that nobody made."""
    given = {"vectors": "wiki-reviews.100d"} | SMALL_TAGGERS[corpus]
    result = {
        "test_accuracy": 93.0, "unseen_accuracy": 70.0, "majority_accuracy": 20.0,
        "corpus_complete": True,
        "lexicon_accuracy": 80.0, "entities": corpus == "wnut17", "train_texts": 100, "seconds": 60.0,
        "finished": "2026-01-01", "device": "cpu: x", "torch": "2.13", "commit": "abc", "protocol": 1,
        "gradient_evenness": 0.9, "gradient_reach": 1e-5,
    }  # fmt: skip
    if corpus == "wnut17":
        result |= {"entity_precision": 40.0, "entity_recall": 20.0, "entity_f1": 26.7}
        result |= {"entities_true": 100, "entities_predicted": 50, "entities_right": 20}
        result |= {"entities_boundary": 10, "entities_mistyped": 5, "entities_spurious": 15}
        result |= {"entities_missed": 60}
    names = {field.name for field in fields(Tagging)}
    run = Tagging(corpus, **given | {k: v for k, v in values.items() if k in names})
    return {"key": key_of(asdict(run))} | asdict(run) | result | values


def record():
    rows = []
    for seed in range(3):
        rows += [made_up("ud_ewt", seed=seed, test_accuracy=95.0 + seed / 10)]
        rows += [made_up("ud_ewt", seed=seed, bidirectional=False, test_accuracy=93.5)]
        rows += [made_up("wnut17", seed=seed, entity_f1=26.0 + seed)]
        rows += [made_up("wnut17", seed=seed, encoding="io", entity_f1=25.5 + seed)]
        rows += [made_up("wnut17", seed=seed, bidirectional=False, entity_f1=21.0)]
    return pd.DataFrame(rows)


def test_runs_of_record_are_written_once_and_read_without_their_data(executed, tmp_path):
    assert export("tagging", executed, tmp_path / "out") == 0
    row = executed.store.get(key(TINY, executed))
    run = Tagging("wnut17", vectors="wiki-reviews.100d", **SMALL_TAGGERS["wnut17"])
    data = {"corpus": "a", "vectors": "b"}
    identity = {"run": run.changed(), "data": data, "protocol": TAGGING_PROTOCOL}
    result = row["result"] | {"corpus_complete": True}
    place = Place(Store(tmp_path / "store"), tmp_path, tmp_path)
    name = place.store.put(identity, asdict(run), result, row["provenance"], row["history"])
    assert export("tagging", place, tmp_path / "out") == 1
    written = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert set(written) == {f"taggings{name}.csv" for name in ("", "_history", "_gradients", "_types")}
    again = Place(Store(tmp_path / "empty", tmp_path / "out"), tmp_path, tmp_path)
    assert standing([run], again).elsewhere == {run}
    assert list(again.store.rows("tagging")["key"]) == [name]
    assert len(again.store.history("tagging")) == 2
    assert len(again.store.history("tagging", "gradients")) == 2 * PLACES
    assert export("tagging", again, tmp_path / "out") == 1
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == written


# what is decided and shown


def test_claims_are_decided_by_runs_of_three_seeds():
    own = [claim for claim in claims() if claim.chapter == "sequence_labelling"]
    assert {claim.scales for claim in own} == {("compact",)}
    rows = record().assign(began=AFTER, corpus_complete=True, vectors=VECTORS[0])
    found = {claim.id: by_runs(claim, runs(taggings=rows), "compact") for claim in own}
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        found, "holds"
    ) | {
        "encodings-differ-little": "undecided"  # 26 to 28 against 25.5 to 27.5
    }
    assert {name: round(finding.value, 6) for name, finding in found.items()} | {
        "both-directions-help-pos": 1.6, "both-directions-help-entities": 6, "encodings-differ-little": 0.5,
        "boundary-errors-are-common": 20, "accuracy-over-words-flatters": 66,
    } == {name: round(finding.value, 6) for name, finding in found.items()}  # fmt: skip
    few = runs(taggings=rows[rows["seed"] < 2])
    assert {by_runs(claim, few, "compact").verdict[:7] for claim in own} == {"so far "}
