"""Packed data: the same keys and results where neither archives nor torchtext are."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from archives import make_imdb
from called import refused
from small_runs import SMALL, left_by

from paper.chapter import planned
from paper.runs.compute import compute
from paper.runs.kinds.probe import PaddingSweep
from paper.runs.kinds.tagging import Tagging
from paper.runs.pack import pack, those_packed
from paper.runs.request import Request
from paper.runs.run import Place, key
from paper.runs.store import Store

VECTORS = {
    word: [0.1 * place] * 8 for place, word in enumerate(["word", "train", "river", "unread"])
}
TRAINING = replace(SMALL, corpus="imdb", length="long", size=12, test=8, vectors="small.8d")


@pytest.fixture
def place(place):
    make_imdb(place.data, reviews=15)
    sentences = [{"title": f"{n}", "sentence": f"the river number {n} is long"} for n in range(80)]
    (place.data / "wiki_sentences.jsonl").write_text("\n".join(map(json.dumps, sentences)))
    rows = [" ".join([word, *map(str, row)]) for word, row in VECTORS.items()]
    (place.data / "small.8d.txt").write_text("\n".join(rows))
    return place


def test_a_packed_run_has_the_key_and_the_result_of_the_same_run_on_the_archives(
    place, here, tmp_path
):
    in_filler = replace(TRAINING, setting="mid")
    runs = [TRAINING, in_filler, PaddingSweep(in_filler), replace(TRAINING, size=7, draw=1)]
    compute(runs, place)
    assert list(pack([*runs, Tagging("ud_ewt")], place, tmp_path / "packed")) == [
        "1 runs are left out: only trainings and probes are packed",
        "imdb, long: 14 train, 10 validation, 8 test texts",
        "small.8d.txt: 3 of 4 words",
    ]
    for file in ("aclImdb_v1.tar.gz", "wiki_sentences.jsonl", "small.8d.txt"):
        assert (tmp_path / "packed" / file).stat().st_size < 200
    packed = Place(Store(tmp_path / "store"), tmp_path / "packed", tmp_path / "packed" / "cache")
    compute(runs, packed)
    for run in runs:
        assert key(run, packed) == key(run, place)
        assert left_by(run, packed) == left_by(run, place)


def test_a_packed_folder_serves_what_was_packed_into_it_and_is_not_packed_again(place, tmp_path):
    folder = tmp_path / "packed"
    assert list(pack([TRAINING, PaddingSweep(TRAINING)], place, folder))
    there = Place(Store(tmp_path / "store"), folder, folder / "cache")
    larger = [replace(TRAINING, test=None), replace(TRAINING, size=14)]  # would find too few texts
    others = [TRAINING, replace(TRAINING, pooling="last", seed=7), PaddingSweep(TRAINING)]
    asked = [*larger, PaddingSweep(larger[0]), Tagging("ud_ewt"), *others]
    assert those_packed(asked, there) == others
    assert those_packed(asked, place) == asked  # which is not packed
    refused("is packed already; pack all that is needed at once", list, pack(larger, place, folder))


def test_what_a_figure_or_a_chapter_asks_for_is_left_out_where_it_was_not_packed(
    place, tmp_path, monkeypatch, mistake
):
    folder, store = tmp_path / "packed", tmp_path / "there"
    assert list(pack([TRAINING], place, folder))
    rows = pd.DataFrame([{"kind": "training", **replace(TRAINING, test=None).row()}])
    rows.to_csv(tmp_path / "runs.csv", index=False)
    monkeypatch.delenv("WHENPOOL_CACHE", raising=False)
    asked = f"run --redo {tmp_path / 'runs.csv'} --packed {folder} --store {store}".split()
    assert "none of the runs of" in mistake(*asked)
    twice = mistake(*asked, "--data", str(tmp_path))
    assert "--packed FOLDER takes the place of --data" in twice
    there = Place(Store(store), folder, folder / "cache")
    request = Request.of("paper", ["imdb"], {"sizes": (12,), "seeds": 1})
    assert planned("natural_bias", request, place)
    assert planned("natural_bias", request, there) == []


def test_what_cannot_be_packed_or_opened_is_told(place, tmp_path):
    place = replace(place, cache=tmp_path / "there" / "cache")
    for folder in (place.data, tmp_path / "there"):
        refused("holds the data or the cache themselves", list, pack([TRAINING], place, folder))
    refused(
        "there are no data to pack; choose other runs",
        list,
        pack([Tagging("ud_ewt")], place, tmp_path / "packed"),
    )
