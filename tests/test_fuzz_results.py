"""Whatever is in a file of results, claims or weights, or an option: read, or refused in a line."""

import io
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from fuzzing import hold, inputs, words
from made_up import LEDGER

from whenpool import InputError, TextClassifier, load_checkpoint, save_checkpoint
from whenpool.book.chapter import Chapter, open_chapter
from whenpool.book.report.claims import decide
from whenpool.book.report.measures import Runs
from whenpool.book.report.tables import provenance_line
from whenpool.explain.checkpoint import FACTS_FILE, WEIGHTS_FILE
from whenpool.runs.filter import Only
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.probe import PROBES
from whenpool.runs.request import Request
from whenpool.runs.run import Place
from whenpool.runs.store import Store

RESULTS = Path(__file__).parents[1] / "data" / "results"
OF_KIND = tuple(kind.table for kind in KINDS.values())
RECORDS = sorted(file.name for file in RESULTS.glob("*.csv") if file.name.startswith(OF_KIND))


@pytest.fixture
def few_results(tmp_path):
    """The first rows of each published file, and what reads them with one file's content in its place."""
    records = tmp_path / "records"
    records.mkdir()
    valid = {name: b"".join((RESULTS / name).open("rb").readlines()[:7]) for name in RECORDS}
    some = [claim for claim in LEDGER if claim.chapter != "theory"][::9]

    def read(name, content):
        for other, rows in (valid | {name: content}).items():
            (records / other).write_bytes(rows)
        place = Place(Store(tmp_path / "store", records), tmp_path, tmp_path)
        for kind, own in KINDS.items():
            rows = place.store.current(kind)
            assert all("key" in place.store.history(kind, history) for history in own.histories)
            assert all(str(own.of_row(row)) for row in rows.to_dict("records"))
            if kind in ("training", "probe"):
                assert provenance_line(rows).startswith("Provenance")
        chapter = Chapter("regularisation", Request("paper"), place)
        for kind in PROBES:
            chapter.on_imdb(kind)
        chapter.small_trainings()
        runs = Runs(place)
        assert all(decide(claim, runs).told for claim in some)

    return valid, read


def test_reference_runs_that_are_older_than_a_column_are_read(few_results):
    valid, read = few_results
    rows = pd.read_csv(io.BytesIO(valid["trainings.csv"]), dtype=str)
    read(
        "trainings.csv",
        rows.drop(columns=["orthogonal", "trick", "together"]).to_csv(index=False).encode(),
    )


def test_a_file_of_record_that_is_none_is_told(tmp_path):
    (tmp_path / "trainings.csv").write_text("")
    with pytest.raises(InputError, match=r"reference runs .*trainings.csv cannot be read"):
        Store(tmp_path, tmp_path).rows("training")


def test_stored_runs(tmp_path):
    run = {"corpus": "imdb", "setting": "mid", "size": 100, "pooling": "max", "seed": 0, "masked": True}
    store = Store(tmp_path / "store")
    history = [{"epoch": 1, "validation_accuracy": 50.5}, {"epoch": 2, "validation_accuracy": None}]
    result, made = {"test_accuracy": 61.5, "corpus_complete": False}, {"device": "cpu: x", "commit": "c"}
    key = store.put({"run": run, "data": {"corpus": "a"}, "protocol": 1}, run, result, made, history)
    file = tmp_path / "store" / f"{key}.json"
    valid = file.read_bytes()

    def parse(data):
        file.write_bytes(data)
        looked = Store(tmp_path / "store")
        trainings, epochs = looked.rows("training"), looked.history("training")
        if looked.damaged:
            assert trainings.empty
            raise InputError(looked.damaged[0].replace(str(tmp_path), ""))
        assert trainings["key"].tolist() == [key]
        assert set(epochs.get("key", [])) <= {key}

    hold("stored run", inputs(valid), parse, key)


@pytest.mark.parametrize(("name", "file"), [("json", FACTS_FILE), ("weights", WEIGHTS_FILE)])
def test_checkpoints(tmp_path, name, file):
    model = TextClassifier(5, classes=2, embedding_size=4, hidden_size=4, pooling="attention")
    words = ("<unk>", "<pad>", "good", "bad", "film")
    checkpoint = save_checkpoint(tmp_path / "model", model, words, ("no", "yes"))
    valid = (checkpoint / file).read_bytes()

    def parse(data):
        folder = tmp_path / "read"
        shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
        (folder / file).write_bytes(data)
        found = load_checkpoint(folder).probabilities(["a good film"])
        assert found.shape == (1, 2)
        assert bool(torch.isfinite(found).all())

    parse(valid)
    hold(f"checkpoint {name}", inputs(valid), parse, str(tmp_path / "read"), expect_good=name == "json")


def test_the_option_only():
    valid = "table=1.3,corpus=imdb,size=1000+2000", "pooling=max+last,seed=0,length=long", "system=bert"

    def parse(text):
        only = Only.parse(text)
        assert only == Only.parse(str(only)) != Only()

    hold("only", words(*valid), parse, "--only")


def test_parameters_of_chapters():
    def parse(text):
        open_chapter("training_to_skip", corpus=text, data=None)
        Request(profile=text)

    hold("parameters", words("imdb", 'a "quoted" name.csv'), parse, "", expect_good=False)
