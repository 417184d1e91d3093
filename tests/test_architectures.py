"""The chapter "Other architectures": its plan, its tables and figures, and what decides its claims."""

from dataclasses import replace

import pandas as pd
import pytest
from made_up import runs, trained

from whenpool.book.report.claims import by_runs, claims
from whenpool.book.report.verdicts import SMALL_MODEL, memory_of_record
from whenpool.models.registry import LISTED_CELLS
from whenpool.runs.kinds.probe import MemoryUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import plan
from whenpool.runs.plans.networks import ARCHITECTURES, MEMORY_WORDS, TRANSFORMER_RATE, TRIED
from whenpool.runs.request import Choice


def run(cell, pooling, setting="standard", seed=0, test=70.0, validation=None, **other):
    """A row of a small model, as a reference run has it."""
    return {
        **SMALL_MODEL, "corpus": "imdb", "length": "long", "size": 1_000, "corpus_complete": True,
        "vectors": "glove.6B.100d", "validation": None, "key": f"{cell}{pooling}{setting}{seed}{other}",
        "cell": cell, "pooling": pooling, "setting": setting, "seed": seed, "test_accuracy": test,
        "validation_accuracy": test if validation is None else validation, "majority_accuracy": 50.0,
        "encoder_parameters": 84_992,
    } | other  # fmt: skip


# the plan


def test_every_architecture_is_run_with_pooling_and_without(place):
    runs = plan("other_architectures", Choice("quick"), place)
    trainings = [one for one in runs if isinstance(one, Training)]
    for cell in ARCHITECTURES:
        for pooling in ("last", "max_attention"):
            own = [one for one in trainings if one.cell == cell and one.pooling == pooling]
            assert {one.setting for one in own} == {"standard", "mid"}
            for kind in (PaddingSweep, WordImportance):
                probed = [one.training for one in runs if isinstance(one, kind)]
                assert own[0] in probed
    assert set(ARCHITECTURES) <= set(LISTED_CELLS)
    rates = {one.learning_rate for one in trainings if one.cell == "transformer"}
    assert rates == {TRANSFORMER_RATE}


def test_memory_is_measured_at_the_width_of_the_thesis(place):
    runs = plan("other_architectures", Choice("quick"), place)
    memory = [one for one in runs if isinstance(one, MemoryUse)]
    ways = {("lstm", "fused"), ("transformer", "plain"), ("transformer", "fused")}
    assert {(one.training.cell, one.attention) for one in memory} == ways
    assert {one.training.hidden_size for one in memory} == {256}
    assert {one.words[-1] for one in memory} == {MEMORY_WORDS}
    small = plan("other_architectures", Choice("smoke"), place)
    assert max(one.words[-1] for one in small if isinstance(one, MemoryUse)) < 100


@pytest.mark.parametrize("cell", ["gru", "sum", "transformer"])
def test_the_chapter_compares_cells_whatever_is_asked_for(cell, place):
    usual = plan("other_architectures", Choice("quick"), place)
    assert plan("other_architectures", Choice("quick", cell=cell), place) == usual


def test_reference_runs_have_three_seeds_all_settings_once_and_what_was_tried(place):
    runs = plan("other_architectures", Choice("quick", ("imdb",)), place)
    trainings = [one for one in runs if isinstance(one, Training)]
    assert {one.seed for one in trainings} == {0, 1, 2}
    whole = {one.cell for one in trainings if one.setting == "left"}
    assert whole == {"lstm", "transformer"}
    plain = next(
        one for one in trainings
        if one.cell == "transformer" and one.pooling == "max_attention" and one.setting == "standard"
    )  # fmt: skip
    assert all(replace(plain, **way) in trainings for way in TRIED)


# what decides


CLAIMS = {claim.id: claim for claim in claims() if claim.chapter == "other_architectures"}


def told(name, **accuracies):
    """What a claim comes to: accuracies of three seeds, by cell and pooling."""
    rows = [
        row
        for model, values in accuracies.items()
        for cell, pooling in [model.split("_", 1)]
        for setting in ("standard", "mid")
        for row in trained(values, "compact", cell=cell, model=pooling, setting=setting)
    ]
    found = by_runs(CLAIMS[name], runs(rows), "compact")
    return found.verdict, round(found.value, 6)


def test_the_best_transformer_is_the_one_whose_validation_is_best():
    best = {"transformer_last": [60, 61, 62], "transformer_mean": [61, 62, 63]}
    best |= {"transformer_max": [63, 64, 65], "transformer_max_attention": [50, 51, 52]}
    lstm = {"lstm_last": [55, 56, 57], "lstm_max_attention": [70, 71, 72]}
    assert told("transformer-below-max-attention", **best, **lstm) == ("holds", 7)
    assert told("transformer-gap-at-least", **best, **lstm) == ("holds", 7)
    assert told("transformer-gap-at-most", **best, **lstm) == ("holds", 7)
    assert told("transformer-gap-at-most", **best | {"transformer_max": [61, 64, 67]}, **lstm) == (
        "undecided", 7,
    )  # fmt: skip
    assert told("transformer-performs-poorly", **best, **lstm) == ("does not hold", -8)
    assert told("max-attention-remedies-transformers", **best) == ("does not hold", -11)
    best.pop("transformer_max")
    assert told("transformer-below-max-attention", **best, **lstm)[0] == "not run"


def test_every_recurrence_must_gain():
    gains = {"gru": 20, "elman": 4, "mingru": 9}
    models = {f"{cell}_max_attention": [60 + gain] * 3 for cell, gain in gains.items()}
    models |= {f"{cell}_last": [60] * 3 for cell in gains}
    assert told("max-attention-helps-every-recurrence", **models) == ("holds", 4)


def memory(cell="transformer", attention="plain", seed=0, **other):
    found = {
        **run(cell, "max_attention", seed=seed), "hidden_size": 256, "probe": "memory",
        "longest": 4_000, "attention": attention, "exponent": 1.75, "words": 4_000, "megabytes": 900.0,
    }  # fmt: skip
    return found | other


def test_only_the_width_and_lengths_of_the_thesis_are_reference_runs():
    rows = pd.DataFrame(
        [
            memory(),
            memory(hidden_size=64),
            memory(longest=500),
            memory(corpus="synthetic"),
            memory(corpus_complete=False),
            memory(probe="sweep"),
        ]
    )
    assert memory_of_record(rows).tolist() == [True, False, False, False, False, False]
    assert not memory_of_record(rows.drop(columns="longest")).any()
