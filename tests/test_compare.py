"""The same trainings in two stores, and the rule on precision that rests on such pairs."""

import importlib
import re
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
import torch
from record import admitted, export, read_comparisons
from safetensors.torch import load_file, save
from small_runs import SMALL

from whenpool.runs.kinds.training import PROTOCOL, Training
from whenpool.runs.run import Place
from whenpool.runs.store import Store

script = importlib.import_module("compare")
compare = script.compare
PAPER = Training("imdb", "mid", 1000, "max", vectors="wiki-reviews.100d")
EXACT = {"device": "cuda: H100", "precision": "float32"}
FAST = EXACT | {"precision": "bfloat16"}


def put(store, run=SMALL, accuracy=70.0, loss=0.5, weights=None, epochs=(50.0,), **provenance):
    identity = {"run": run.changed(), "data": {"corpus": "c"}, "protocol": PROTOCOL}
    best, seconds = int(np.argmax(epochs)), float(np.random.default_rng().random())
    result = {
        "test_accuracy": accuracy, "test_loss": loss, "validation_accuracy": epochs[best],
        "best_epoch": 1 + best, "corpus_complete": True, "seconds": seconds,  # never the same twice
    }  # fmt: skip
    where = {"commit": "abc", "device": "cpu: A", "torch": "2", "finished": "2026-01-02T03:04:05"}
    history = [
        {"epoch": n, "validation_accuracy": own, "seconds": seconds} for n, own in enumerate(epochs, 1)
    ]
    data = None if weights is None else save({"w": torch.tensor(weights)})
    return store.put(identity, asdict(run), result, where | provenance, history, data)


@pytest.fixture
def stores(tmp_path):
    return Store(tmp_path / "one"), Store(tmp_path / "two")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def put_pairs(stores, differences, run=SMALL, first=None, second=None):
    """The same trainings in both stores, of other seeds, and so many points apart; compares them."""
    for seed, difference in enumerate(differences):
        put(stores[0], replace(run, seed=seed), 70.0, **first or {})
        put(stores[1], replace(run, seed=seed), 70.0 + difference, 0.5 - difference / 10, **second or {})
    return compare(*stores)


def publish(store, folder, say=print):
    return export("training", Place(store, folder.parent, folder.parent), folder, say)


def test_a_real_cell_run_twice_is_identical_and_one_weight_is_enough_to_tell(place):
    second = Place(Store(place.store.directory.with_name("again")), place.data, place.cache)
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
    put_pairs(stores, standard, replace(SMALL, setting="standard"))
    put(stores[0], replace(SMALL, seed=9))  # in one store alone
    cell = compare(*stores).iloc[0]
    assert cell[["pairs", "identical", "with_weights"]].tolist() == [3, 0, 0]
    assert cell["mean_difference"] == pytest.approx(np.mean(standard))
    assert cell[["largest_accuracy", "largest_loss"]].tolist() == pytest.approx([1.0, 0.1])
    assert cell["std_difference"] == pytest.approx(np.std(standard, ddof=1))


def test_the_script_prints_a_table_and_publishes_it(stores, folder, capsys):
    for store in stores:
        put(store, weights=[1.0])
    words = [str(store.directory) for store in stores]
    assert script.main(words) == 0
    assert re.search(r"identical +1", capsys.readouterr().out)
    script.main([*words, "--record", "--results", str(folder)])
    assert f"1 rows were written into {folder}/comparisons.csv" in capsys.readouterr().out
    assert len(read_comparisons(folder)) == 1


@pytest.mark.parametrize(("count", "difference", "allowed"), [
    (25, 0.29, True), (25, -0.29, True), (24, 0.0, False), (25, 0.31, False), (25, -0.31, False),
])  # fmt: skip
def test_the_rule_on_precision(stores, count, difference, allowed):
    cells = put_pairs(stores, [difference] * count, PAPER, EXACT, FAST)
    where = {"device": ["cuda: H100", "cpu"], "together": 1}
    runs = pd.DataFrame({"precision": ["bfloat16", "float32"], **where})
    for change in ({"hidden_size": 64}, {"epochs": 8}, {"corpus": "synthetic"}, {"together_other": 5}):
        assert not admitted(runs, cells.assign(**change))[0][0]
    assert admitted(runs, cells)[0].tolist() == [allowed, True]
    assert admitted(runs, read_comparisons(None))[0].tolist() == [False, True]


def test_runs_in_another_precision_wait_for_their_pairs(stores, tmp_path, folder):
    said, fast = [], Store(tmp_path / "fast", folder)
    put(fast, PAPER, **EXACT)
    put(fast, replace(PAPER, seed=1), **FAST)
    assert publish(fast, folder, said.append) == 1
    assert said[0].startswith("1 runs are left out: bfloat16 on cuda needs 25 pairs with float32")
    script.put_on_record(put_pairs(stores, [0.1] * 25, PAPER, EXACT, FAST), folder)
    assert publish(fast, folder, said.append) == 2
    assert len(said) == 1  # nothing more
    recorded = pd.read_csv(folder / "trainings.csv")
    assert sorted(recorded["precision"]) == ["bfloat16", "float32"]
