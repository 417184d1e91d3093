"""Results must not change while PROTOCOL stays the same.

When this fails, either a refactoring changed results by accident, or the meaning of a result
changed on purpose: then raise PROTOCOL in ``whenpool.runs`` and run ``tests/make_golden.py``.
"""

import json
from dataclasses import fields

import pytest
from make_golden import FILE, RUNS, results

from whenpool.pooling import POOLINGS
from whenpool.runs import PROTOCOL, Training

GOLDEN = json.loads(FILE.read_text())


def test_golden_results_belong_to_this_protocol():
    assert GOLDEN["protocol"] == PROTOCOL, "PROTOCOL was raised: run tests/make_golden.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return results(tmp_path_factory.mktemp("golden"))


def test_every_pooling_has_a_golden_run():
    assert {run.pooling for run in RUNS.values()} == set(POOLINGS)


@pytest.mark.parametrize("name", RUNS)
def test_results_are_those_of_this_protocol(found, name):
    golden = GOLDEN["runs"][name]
    assert found[name]["test_loss"] == pytest.approx(golden["test_loss"], rel=1e-3)
    assert found[name]["train_loss"] == pytest.approx(golden["train_loss"], rel=1e-3)
    assert found[name]["best_epoch"] == golden["best_epoch"]
    assert found[name]["vocabulary"] == golden["vocabulary"]


def test_defaults_of_a_training_never_change():
    """Fields at their default do not enter the key: another default would give old runs another
    meaning. New fields go below."""
    required = ("corpus", "setting", "size", "pooling")
    assert {f.name: f.default for f in fields(Training) if f.name not in required} == {
        "seed": 0,
        "length": "long",
        "share": 0.66,
        "max_words": None,
        "validation": None,
        "test": None,
        "vectors": None,
        "cell": "lstm",
        "layers": 1,
        "bidirectional": True,
        "embedding_size": 100,
        "hidden_size": 256,
        "forget_bias": "thesis",
        "drop_connect": 0.0,
        "masked": True,
        "epochs": 20,
        "batch_size": 32,
        "learning_rate": 2e-3,
        "weight_decay": 0.0,
    }  # fmt: skip
