"""Tagging runs: what is planned, executed, stored, recorded, shown, and decided by them."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from made_up import AFTER, runs

from whenpool import InputError
from whenpool.book.publish import export_taggings
from whenpool.book.report import tagging
from whenpool.book.report.claims import by_runs, claims
from whenpool.book.report.provenance import provenance_line
from whenpool.cli import cli
from whenpool.runs.compute import compute, standing, tagging_rows_of
from whenpool.runs.engine import Workforce
from whenpool.runs.estimates import Pace
from whenpool.runs.execute import execute, read_once
from whenpool.runs.filter import Only
from whenpool.runs.kinds.tagging import PLACES, TAGGING_PROTOCOL, Tagging
from whenpool.runs.plans.chapters import plan
from whenpool.runs.plans.sequence_labelling import SMALL
from whenpool.runs.request import Choice
from whenpool.runs.rows import current_taggings, tagging_of
from whenpool.runs.run import VECTORS, Place, key
from whenpool.runs.store import Store, key_of

RECORDS = Path(__file__).parents[1] / "data" / "results"
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
        execute(run, place)
    return place


def test_every_run_leaves_a_row_that_gives_it_back(executed):
    table = current_taggings(executed)
    assert len(table) == len(RUNS)
    for row in table.to_dict("records"):
        run = tagging_of(row)
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
    for other in ("trainings", "probes", "few_shots"):
        assert getattr(executed.store, other)().empty


def test_epochs_and_gradients_are_stored_apart(executed):
    epochs, places = executed.store.tagging_histories(), executed.store.tagging_gradients()
    assert executed.store.histories().empty
    assert executed.store.few_shot_histories().empty
    assert epochs.groupby("key").size().eq(2).all()
    assert epochs["train_loss"].notna().all()
    assert "position" not in epochs
    assert places.groupby(["key", "stage"]).size().eq(PLACES).all()
    one_way = places[places["key"] == key(RUNS[1], executed)]
    behind = one_way[one_way["position"] >= PLACES * 2 // 3]
    assert behind["single"].eq(0).all()
    assert behind["mean"].gt(0).all()


def test_the_same_run_gives_the_same_again(executed, tmp_path):
    again = replace(executed, store=Store(tmp_path))
    name = execute(TINY, again)
    first, second = (one.store.get(name) for one in (executed, again))
    assert first["result"]["test_loss"] == second["result"]["test_loss"]
    assert [part.get("mean") for part in first["history"]] == [
        part.get("mean") for part in second["history"]
    ]


def test_workers_do_what_is_missing_and_give_the_same(executed, tmp_path):
    mine = replace(executed, store=Store(tmp_path))
    report = compute(RUNS[:2], mine, Workforce(workers=1), say=lambda line: None)
    assert (report.done, report.failed) == (2, {})
    found = tagging_rows_of(RUNS, mine)
    assert list(map(tagging_of, found.to_dict("records"))) == RUNS[:2]
    before = tagging_rows_of(RUNS, executed).set_index("key")["test_loss"]
    assert found.set_index("key")["test_loss"].to_dict() == pytest.approx(before[found["key"]].to_dict())
    assert compute(RUNS[:2], mine, say=lambda line: None).done == 0
    pace = Pace.measured(executed, Workforce(workers=1))
    assert pace.seconds(replace(TINY, seed=9)) > 0
    assert pace.estimate(replace(TINY, epochs=4)).seconds > 0


def test_every_option_has_a_key_of_its_own(place):
    others = {
        "seed": 1, "cell": "gru", "bidirectional": False, "layers": 2, "embedding_size": 7,
        "hidden_size": 6, "features": False, "feature_size": 4, "encoding": "iob1", "dropout": 0.1,
        "unknown_rate": 0.1, "epochs": 3, "batch_size": 3, "learning_rate": 1e-4, "profiled": 3,
    }  # fmt: skip
    assert set(others) == {field.name for field in fields(Tagging)} - {"corpus", "vectors"}
    keys = {key(replace(TINY, **{name: value}), place) for name, value in others.items()}
    assert len(keys | {key(TINY, place)}) == len(others) + 1
    assert TINY.identity(place)["protocol"] == TAGGING_PROTOCOL


def test_defaults_of_a_tagging_run_never_change():
    """Fields at their default do not enter the key. New fields go below."""
    assert {f.name: f.default for f in fields(Tagging) if f.name != "corpus"} == {
        "seed": 0, "cell": "lstm", "bidirectional": True, "layers": 1, "embedding_size": 100,
        "hidden_size": 128, "features": True, "feature_size": 25, "encoding": None, "vectors": None,
        "dropout": 0.3, "unknown_rate": 0.5, "epochs": 8, "batch_size": 32, "learning_rate": 2e-3,
        "profiled": 100,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"encoding": "bio"}, "encoding 'bio' is unknown; choose one of io, iob1, iob2, or None"),
        ({"epochs": 0}, "epochs of a tagging run must be at least 1, not 0"),
        ({"dropout": 1.0}, "dropout of a tagging run is a rate, not 1.0"),
    ],
)
def test_a_run_that_cannot_be_is_refused(change, says):
    with pytest.raises(InputError, match=says):
        replace(TINY, **change)


def test_what_cannot_be_trained_is_told(place):
    with pytest.raises(InputError, match=r"generated mark no entities .* leave encoding out"):
        execute(replace(TINY, corpus=TINY.corpus + ",task=pos", encoding="io"), place)
    with pytest.raises(InputError, match="cell 'rnn' is unknown; choose one of lstm"):
        execute(replace(TINY, cell="rnn"), place)
    with pytest.raises(InputError, match="word vectors none.txt are not in"):
        execute(replace(TINY, vectors="none"), place)
    assert standing([replace(TINY, corpus="ud_ewt")], place).absent


def test_files_of_the_readers_own_are_planned_trained_and_noted(place, tmp_path):
    text = "\n\n".join(f"word{number} O\nFred I-PER\nSue B-PER" for number in range(60))
    (tmp_path / "mine.conll").write_text(text)
    (tmp_path / "test.conll").write_text("Fred I-PER\nParis I-LOC\n")
    file = f"{tmp_path / 'mine.conll'}:dev=test.conll,test=test.conll"
    runs = plan("sequence_labelling", Choice("smoke", (file,)), place)
    assert [(run.bidirectional, run.vectors) for run in runs] == [(True, None), (False, None)]
    row = place.store.get(execute(runs[0], place))
    assert row["result"]["corpus_notes"] == (
        "mine.conll is IOB1: 60 of its 120 entities begin with I-, which are read as entities. "
        "1 test words have a tag that no training word has: they count as errors."
    )
    assert " ".join(read_once(runs, place)) == row["result"]["corpus_notes"]  # told before any work


def test_the_command_line_runs_them_and_names_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("WHENPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WHENPOOL_STORE", str(tmp_path / "store"))
    base = ["run", "--chapter", "sequence_labelling", "--profile", "smoke", "--workers", "1"]
    (tmp_path / "bad.conllu").write_text("1\tI\tPRON\n")
    found = CliRunner().invoke(cli, [*base, "--corpus", str(tmp_path / "bad.conllu")])
    assert isinstance(found.exception, InputError)
    assert "bad.conllu, line 1: 3 columns" in str(found.exception)
    only = ["--only", "corpus=generated", "--corpus", "generated:train=20,validation=12,test=8"]
    found = CliRunner().invoke(cli, [*base, *only, "--dry-run"])
    assert found.exit_code == 0
    assert "sequence_labelling" in found.output


# plans


@pytest.mark.parametrize(
    ("profile", "corpora", "expected"),
    [
        ("quick", None, {"generated", "generated:task=pos"}),
        ("paper", None, {"ud_ewt", "wnut17"}),
        ("quick", ("wnut17",), {"wnut17"}),
        ("quick", ("imdb",), {"generated", "generated:task=pos"}),  # other chapters' texts
        ("paper", ("imdb", "ud_ewt"), {"ud_ewt"}),
    ],
)
def test_corpora_of_texts_leave_the_chapter_its_own(place, profile, corpora, expected):
    runs = plan("sequence_labelling", Choice(profile, corpora), place)
    assert {run.corpus for run in runs} == expected
    assert {run.bidirectional for run in runs} == {True, False}
    assert any(run.encoding == "io" for run in runs) == bool(expected - {"ud_ewt"})
    assert {run.hidden_size for run in runs} == {
        32 if "generated" in expected else 128
    } or profile == "paper"


def test_runs_can_be_picked(place):
    runs = plan("sequence_labelling", Choice(), place)
    assert [run for run in runs if Only.parse("seed=1").admits(run)] == [r for r in runs if r.seed == 1]
    assert all(Only.parse("corpus=generated").admits(run) for run in runs)
    assert not any(Only.parse("size=1000").admits(run) for run in runs)
    assert not any(Only.parse("length=any").admits(run) for run in runs)
    with pytest.raises(InputError, match="tagged corpus 'nowhere.conll' is unknown"):
        plan("sequence_labelling", Choice(corpora=("nowhere.conll",)), place)


# records


def made_up(corpus, **values):
    """A row of `Store.taggings` of a run that nobody made."""
    given = {"vectors": "wiki-reviews.100d"} | SMALL[corpus]
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


def test_only_whole_corpora_by_the_settings_of_the_plan_are_of_record():
    rows = [
        made_up("ud_ewt"), made_up("wnut17", encoding="io"), made_up("wnut17", corpus_complete=False),
        made_up("ud_ewt", hidden_size=64), made_up("ud_ewt", vectors=None),
        made_up("ud_ewt", hidden_size=256, layers=2, epochs=20),
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    assert tagging.of_record(table).tolist() == [True, True, False, False, False, True]
    assert len(tagging.on_record(table)) == 2  # the large one decides nothing
    assert tagging.on_record(table.head(0)).empty


def test_runs_of_record_are_written_once_and_read_without_their_data(executed, tmp_path):
    assert export_taggings(executed, tmp_path / "out") == 0
    row = executed.store.get(key(TINY, executed))
    run = Tagging("wnut17", vectors="wiki-reviews.100d", **SMALL["wnut17"])
    identity = {
        "run": run.changed(),
        "data": {"corpus": "a", "vectors": "b"},
        "protocol": TAGGING_PROTOCOL,
    }
    store = Store(tmp_path / "store")
    name = store.put(
        identity,
        asdict(run),
        row["result"] | {"corpus_complete": True},
        row["provenance"],
        row["history"],
    )
    place = Place(store, tmp_path, tmp_path)
    assert export_taggings(place, tmp_path / "out") == 1
    written = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert set(written) == {"taggings.csv", "taggings_history.csv", "taggings_gradients.csv"}
    again = Place(Store(tmp_path / "empty", tmp_path / "out"), tmp_path, tmp_path)
    assert standing([run], again).elsewhere == {run}
    assert list(again.store.taggings()["key"]) == [name]
    assert len(again.store.tagging_histories()) == 2
    assert len(again.store.tagging_gradients()) == 2 * PLACES
    assert export_taggings(again, tmp_path / "out") == 1
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == written


def test_runs_of_record_still_have_their_keys():
    file = RECORDS / "taggings.csv"
    rows = pd.read_csv(file).to_dict("records") if file.is_file() else []
    for row in rows:
        data = {name[5:]: value for name, value in row.items() if name[:5] == "data_" and value == value}
        run = tagging_of(row).changed()
        assert key_of({"run": run, "data": data, "protocol": row["protocol"]}) == row["key"]


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


def test_tables_say_what_was_measured():
    runs = tagging.arranged(record())
    table = tagging.results_table(runs)
    assert table["tagger"].iloc[0] == "**UD English EWT**"
    assert table["words"].iloc[:3].tolist() == ["", "20.0", "80.0"]
    both = table[table["tagger"] == "LSTM, both directions"]
    assert both["words"].tolist() == ["95.1 ± 0.1 (3)", "93.0 ± 0.0 (3)"]
    assert both["F1"].tolist() == ["", "27.0 ± 1.0 (3)"]
    assert "LSTM, both directions, IO" in set(table["tagger"])
    errors = tagging.errors_table(runs)
    assert errors.iloc[0].tolist()[2:] == ["50", "40 %", "20 %", "10 %", "30 %", "60 %"]
    published = tagging.published_table(tagging.on_record(record()))
    assert published[published["tagger"].str.endswith("**ours**")]["%"].tolist() == [
        "95.1 ± 0.1 (3)",
        "27.0 ± 1.0 (3)",
    ]
    assert {"92.1", "41.86", "40.78"} <= set(published["%"])
    assert "100 training sentences" in provenance_line(runs)


def test_without_runs_tables_say_so_and_figures_have_nothing():
    none = tagging.arranged(pd.DataFrame(columns=["key", "bidirectional", "train_texts"]))
    for table in (tagging.results_table(none), tagging.errors_table(none)):
        assert table.to_dict("records") == [{"": "no such runs yet"}]
    assert "not run yet" in set(tagging.published_table(none)["%"])
    assert tagging.later_words(none).empty
    assert tagging.along_sentences(pd.DataFrame(columns=["bidirectional", "stage"])).empty


def test_the_slides_examples():
    table = tagging.encodings_table()
    assert table["IOB2"].tolist() == ["B-PER", "O", "B-PER", "B-PER", "I-PER", "O", "O", "O"]
    assert table["IO, as the slides write it"].tolist() == "PER O PER PER PER O O O".split()
    bank = tagging.bank_table().set_index("selected")
    assert bank.loc["Bank of Chicago", ["fp", "fn"]].tolist() == ["1", "1"]
    assert bank.loc["nothing", ["fp", "fn"]].tolist() == ["0", "1"]
    assert bank["F1"].tolist() == ["100", "50", "67"]


def test_figures_have_what_was_measured(executed):
    runs = tagging.arranged(current_taggings(executed))
    runs = runs[runs["corpus"].str.startswith("generated")]
    found = tagging.later_words(runs).groupby("words")["accuracy"]
    shown = runs[runs["encoding"].isna()]
    drawn = sorted(found.get_group("decided by a later word"))
    assert drawn == pytest.approx(sorted(shown["later_accuracy"]))
    all_words = shown["later_words"] * shown["later_accuracy"]
    rest = (shown["test_words"] * shown["test_accuracy"] - all_words) / (
        shown["test_words"] - shown["later_words"]
    )
    assert sorted(found.get_group("all other words")) == pytest.approx(sorted(rest))
    points = executed.store.tagging_gradients().merge(runs[["key", "bidirectional"]], on="key")
    lines = tagging.along_sentences(points)
    assert set(lines["reads"]) == {"both directions", "left to right"}
    single = lines.query("reads == 'left to right' and loss == \"the middle word's loss\"")
    assert single[single["place"] == 1]["gradient"].isna().all()  # none comes back from the future


def test_stored_runs_are_plain_json(executed):
    row = json.loads(executed.store._file(key(TINY, executed)).read_text())
    assert executed.store.get(key(TINY, executed)) == row
    assert executed.store.set_aside == []
