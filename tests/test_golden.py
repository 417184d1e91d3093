"""Results must not change while PROTOCOL, PROBE_PROTOCOL, FEW_SHOT_PROTOCOL and TAGGING_PROTOCOL stay
the same.

When this fails, either a refactoring changed results by accident, or the meaning of a result
changed on purpose: then raise PROTOCOL in ``whenpool.runs.kinds.training``, or PROBE_PROTOCOL in
``whenpool.runs.kinds.probe`` for probe runs alone, FEW_SHOT_PROTOCOL in ``whenpool.runs.kinds.few_shot`` for
few-shot runs, TAGGING_PROTOCOL in ``whenpool.runs.kinds.tagging`` for taggers, and run
``tests/make_golden.py``.
"""

import json

import pytest
from make_golden import FEW_SHOTS, FILE, PROBES, PROTOCOLS, RUNS, TAGGINGS, results

from whenpool.models.pooling import POOLINGS
from whenpool.runs.kinds import probe as probing
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS
from whenpool.runs.kinds.training import TRICKS

GOLDEN = json.loads(FILE.read_text())


def test_golden_results_belong_to_this_protocol_and_are_of_every_pooling_trick_probe_and_system():
    for name, number in PROTOCOLS.items():
        assert GOLDEN[name] == number, f"{name.upper()} was raised: run tests/make_golden.py"
    assert {run.pooling for run in RUNS.values()} == set(POOLINGS)
    assert {run.trick for run in RUNS.values()} == {None, *TRICKS}
    assert {probe.probe for probe in PROBES.values()} == set(probing.PROBES)
    assert {run.system for run in FEW_SHOTS.values()} == {*SYSTEMS, *CONTRAST}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return results(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", RUNS)
def test_results_are_those_of_this_protocol(found, name):
    golden, run = GOLDEN["runs"][name], found["runs"][name]
    assert run["test_loss"] == pytest.approx(golden["test_loss"], rel=1e-3)
    assert run["train_loss"] == pytest.approx(golden["train_loss"], rel=1e-3)
    assert run["best_epoch"] == golden["best_epoch"]
    assert run["vocabulary"] == golden["vocabulary"]
    assert run.get("train_losses", []) == pytest.approx(golden.get("train_losses", []), rel=1e-3)


@pytest.mark.parametrize("name", PROBES)
def test_probes_find_what_they_found_under_this_protocol(found, name):
    golden, probe = GOLDEN["probes"][name], found["probes"][name]
    assert len(probe["rows"]) == len(golden["rows"])
    both = zip([probe["result"], *probe["rows"]], [golden["result"], *golden["rows"]], strict=True)
    for ours, theirs in both:
        assert ours.keys() == theirs.keys()
        for column, value in theirs.items():
            if "accuracy" in column:
                # in %: one text of the smallest sample, 20, may be on the other side of a border elsewhere
                assert ours[column] == pytest.approx(value, abs=100 / 20 + 0.01), column
            elif isinstance(value, float):
                assert ours[column] == pytest.approx(value, rel=1e-2, abs=2e-4), column
            else:
                assert ours[column] == value, column


@pytest.mark.parametrize("name", FEW_SHOTS)
def test_few_shot_runs_come_to_what_they_came_to_under_this_protocol(found, name):
    golden, run = GOLDEN["few_shots"][name], found["few_shots"][name]
    assert len(run["looks"]) == len(golden["looks"])
    both = zip([run["result"], *run["looks"]], [golden["result"], *golden["looks"]], strict=True)
    for ours, theirs in both:
        assert ours == pytest.approx(theirs, rel=1e-2, abs=2e-3)


@pytest.mark.parametrize("name", TAGGINGS)
def test_taggings_come_to_what_they_came_to_under_this_protocol(found, name):
    golden, run = GOLDEN["taggings"][name], found["taggings"][name]
    assert run["result"] == pytest.approx(golden["result"], rel=1e-2)
    assert run["train_losses"] == pytest.approx(golden["train_losses"], rel=1e-2)
    for ours, theirs in zip(run["gradients"], golden["gradients"], strict=True):
        assert ours == pytest.approx(theirs, rel=3e-2, abs=1e-6)
