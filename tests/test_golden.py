"""Results must not change while the protocols of `whenpool.runs.kinds` stay the same.

When this fails, either a refactoring changed results by accident, or the meaning of a result changed on
purpose: then raise the PROTOCOL of that kind of run, and run ``tests/make_golden.py``.
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


CLOSE = {  # by kind of run, and for a name in it
    "runs": {"rel": 1e-3}, "probes": {"rel": 1e-2, "abs": 2e-4}, "few_shots": {"rel": 1e-2, "abs": 2e-3},
    "taggings": {"rel": 1e-2}, "gradients": {"rel": 3e-2, "abs": 1e-6},
    # in %: one text of the smallest sample, 20, may be on the other side of a border elsewhere
    "accuracy": {"rel": 0, "abs": 100 / 20 + 0.01},
}  # fmt: skip


def check(ours, theirs, kind, name=""):
    """Whatever is in it: numbers are close, and all else is the same."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), name
        for key in theirs:
            check(ours[key], theirs[key], key if key in CLOSE else kind, key)
    elif isinstance(theirs, list):
        for one, other in zip(ours, theirs, strict=True):
            check(one, other, kind, name)
    elif isinstance(theirs, float) or kind in ("few_shots", "taggings"):
        how = "accuracy" if "accuracy" in name and kind == "probes" else kind
        assert ours == pytest.approx(theirs, **CLOSE[how]), name
    else:
        assert ours == theirs, name


KINDS = {"runs": RUNS, "probes": PROBES, "few_shots": FEW_SHOTS, "taggings": TAGGINGS}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, own in KINDS.items() for name in own])
def test_results_are_those_of_this_protocol(found, kind, name):
    check(found[kind][name], GOLDEN[kind][name], kind)
