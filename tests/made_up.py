"""The ledger, and finished runs that were made up, as `paper.verdicts.results.Runs` holds them."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd

from paper.chapters.last_state import START_OPTIONS, STARTS
from paper.runs.plans import COMPACT_TEST
from paper.verdicts.claims import claims
from paper.verdicts.results import SCALES, Numbers, Runs

LEDGER = claims()
"""Read once, since it takes a second."""
EMPTY = Runs(None)
BEFORE = pd.Timestamp(datetime(2020, 1, 1, tzinfo=UTC))
AFTER = pd.Timestamp(datetime(2100, 1, 1, tzinfo=UTC))
"""When runs begin: before the rule of any claim was registered, and after."""
NO_MORE = {"corpus_complete": True, "began": AFTER}


OPTIONS = dict(zip(STARTS, START_OPTIONS, strict=True))
"""What sets a BiLSTM without pooling apart, by its name."""


def run(model="last", seed=0, scale="thesis", **changes):
    """The row of a run, in all that is not named a scale's model on 1K unmixed IMDb reviews."""
    row = {"model": model, "seed": seed, "size": 1_000, **SCALES[scale], **NO_MORE}
    row |= {"pooling": "last" if model in OPTIONS else model} | OPTIONS.get(model, {}) | changes
    row = {"test": COMPACT_TEST.get(row["corpus"]) if scale == "compact" else None} | row
    return {"key": " ".join(f"{name}={value}" for name, value in row.items())} | row


def trained(accuracies, scale="thesis", **changes):
    """A row for each seed: a model's test accuracies, which its validation accuracies equal where
    they are not given."""
    return [
        {"validation_accuracy": own, "majority_accuracy": 50.0}
        | run(seed=seed, scale=scale, test_accuracy=own, **changes)
        for seed, own in enumerate(accuracies)
    ]


def measured(points, **changes):
    """What a probe `run` measured: a row for each point, in another order."""
    return [run(**changes) | point for point in points[::-1]]


def profile(values):
    assert len(values) == 100
    return [{"position": place, "mean": value} for place, value in enumerate(values, 1)]


def gradients(first=1.0, last=1.0, middle=(1.0, 1.0)):
    """Of the first and last position, and both in the middle."""
    return profile([first, *[50.0] * 48, *middle, *[50.0] * 48, last])


def importance(text, filler, inside, ends=None):
    """Of the text and the filler, and where that is given of the five positions at each end."""
    values = np.where(np.isin(np.arange(100), inside), text, filler).astype(float)
    if ends is not None:
        values[[*range(5), *range(95, 100)]] = ends
    return profile(list(values))


def runs(trainings=(), epochs=(), probes=(), few_shots=(), taggings=(), **points):
    """All of them; ``points`` are rows of `measured`, by kind of probe."""
    made, named = Runs(None), {"training": trainings, "probe": probes, "few-shot": few_shots}
    for name, rows in {**named, "tagging": taggings, **points}.items():
        rows = pd.DataFrame(rows)
        columns = EMPTY.table(name)  # each that such a table has
        made.tables[name] = rows.reindex(columns=[*dict.fromkeys([*rows, *columns])])
    made.tables["epochs"] = pd.DataFrame(epochs)
    return made


def table_of(measure, rows):
    """Runs of which a measure has such a table: rows of `run` with a ``value`` each."""
    made = runs()
    made.numbers[measure] = Numbers(pd.DataFrame(rows))
    return made


def valued(values, model="last", **changes):
    """A row for each seed with its value."""
    return [run(model, seed, value=value, **changes) for seed, value in enumerate(values)]
