"""The store of finished runs."""

import re

import pytest
from called import python

from paper.runs.store import Store

IDENTITY = {"run": {"corpus": "imdb", "seed": 1}, "data": {"corpus": "abc"}, "protocol": 1}
HISTORY = [{"epoch": 1, "validation_accuracy": 50.0}, {"epoch": 2, "validation_accuracy": 60.0}]


def put(store, seed=1, **options):
    run = IDENTITY["run"] | {"seed": seed}
    result = {"test_accuracy": 60.0 + seed}
    return store.put(IDENTITY | {"run": run}, run, result, {"commit": "c"}, HISTORY, **options)


def test_what_is_put_comes_back(tmp_path):
    store = Store(tmp_path)
    key = put(store, weights=b"weights")
    table = store.rows("training")[["seed", "test_accuracy", "commit", "data_corpus"]]
    assert table.to_numpy().tolist() == [[1, 61.0, "c", "abc"]]
    assert store.weights_file(key).read_bytes() == b"weights"
    assert store.has(key, with_weights=True)
    assert not store.has(put(store, seed=2), with_weights=True)


def test_new_runs_do_not_turn_a_published_column_of_numbers_into_objects(tmp_path):
    """As pandas does where all of them lack it; tables with other columns could then not be
    merged."""
    published = tmp_path / "published"
    published.mkdir()
    (published / "trainings.csv").write_text("key,seed,max_words\nabc,1,140\n")
    store = Store(tmp_path / "store", published)
    store.put(IDENTITY, {"seed": 2, "max_words": None}, {}, {"commit": "c"}, kind="training")
    table = store.rows("training")
    assert (len(table), table["max_words"].dtype) == (2, float)


@pytest.mark.parametrize("content", [b'{"identity": {"run"', b"", b"[1, 2]", b"{}", b"\xff\xfe"])
def test_a_damaged_file_is_named_and_not_counted(tmp_path, content):
    store = Store(tmp_path)
    good, bad = put(store), put(store, seed=2)
    file = tmp_path / f"{bad}.json"
    file.write_bytes(content)
    assert (store.keys(), len(store.rows("training"))) == ({good}, 1)
    said = f"{file} is not counted: it is damaged, or another version of whenpool made it"
    assert store.damaged == [said]
    assert (put(store, seed=2), store.keys()) == (bad, {good, bad})  # the run can be done again
    file.rename(tmp_path / f"{'0' * 20}.json")  # which belongs to another run
    assert store.keys() == {good}


def test_a_page_may_change_a_published_table(tmp_path):
    (tmp_path / "trainings.csv").write_text("key,corpus\na,imdb\n")
    store = Store(tmp_path / "runs", tmp_path)
    table = store.read_published("trainings")
    table["corpus"] = "changed"
    assert store.read_published("trainings")["corpus"].tolist() == ["imdb"]


def test_a_full_disk_is_named_and_leaves_nothing_half_written(tmp_path):
    first = put(Store(tmp_path))
    script = f"""
import resource, signal
from pathlib import Path
from paper.runs.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
Store(Path({str(tmp_path)!r})).put({{"run": 2}}, {{}}, {{"long": "x" * 5000}}, {{}})
"""
    assert re.search("cannot write .*finished work is kept", python(script).stderr)
    assert [file.stem for file in tmp_path.rglob("*")] == [first]
