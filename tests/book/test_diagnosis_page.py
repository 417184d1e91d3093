"""The page of a diagnosis in a browser."""

import pytest
from browsing import looked_at, on_every_screen
from pandas import DataFrame

from whenpool import load
from whenpool.explain.diagnosis import diagnose


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnosis")
    corpus = load("synthetic:train=80,validation=20,test=20,shortest=8,longest=14")
    rows = [(text, label) for split in corpus.splits.values() for text, label in split]
    DataFrame(rows, columns=["text", "label"]).to_csv(folder / "own.csv", index=False)
    how = {"poolings": ("last", "max_attention"), "epochs": 1, "workers": 1, "vectors": "random"}
    return diagnose(folder / "own.csv", **how, output=folder / "out", data=folder, say=str).report


@pytest.mark.slow
@on_every_screen
def test_the_page_is_for_everyone_and_every_screen(report, chromium, size, scheme):
    with looked_at(chromium, report, size, scheme, axe=True):
        pass
