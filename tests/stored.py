"""Puts finished runs into a store without computing them."""

import math
from dataclasses import asdict

from whenpool.runs.kinds.probe import PROBE_PROTOCOL
from whenpool.runs.kinds.training import PROTOCOL

PROVENANCE = {"commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02T03:04:05"}


def put_training(place, run, accuracy=70.0, history=(), complete=True, **result):
    """Returns its key; an accuracy that is no number is that of a training that diverged."""
    identity = {"run": run.changed(), "data": {"corpus": complete}, "protocol": PROTOCOL}
    values = {"diverged": math.isnan(accuracy)} if run.trick else {}
    values |= {
        "test_accuracy": accuracy, "validation_accuracy": accuracy, "majority_accuracy": 50.0,
        "corpus_complete": complete, "seconds": 1.0,
    }  # fmt: skip
    epochs = [{"epoch": number, **epoch} for number, epoch in enumerate(history, 1)]
    return place.store.put(identity, asdict(run), values | result, PROVENANCE, epochs)


def put_probe(place, probe, points=(), complete=True):
    """Returns its key."""
    identity = {
        "run": probe.training.changed(), "data": {"corpus": "c"}, "protocol": PROTOCOL,
        "probe": probe.changed() | {"protocol": PROBE_PROTOCOL},
    }  # fmt: skip
    values = {"training": "t", "probe_protocol": PROBE_PROTOCOL, "corpus_complete": complete}
    return place.store.put(identity, probe.row(), values | {"seconds": 1.0}, PROVENANCE, points)
