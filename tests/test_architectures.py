"""The chapter "Other architectures": its plan, its tables and figures, and what decides its claims."""

from dataclasses import replace

import pandas as pd
import pytest
from made_up import runs, trained

from whenpool.book.report import architectures
from whenpool.book.report.claims import by_runs, claims
from whenpool.book.report.evidence import Evidence
from whenpool.book.report.verdicts import SMALL_MODEL, memory_of_record
from whenpool.models.registry import LISTED_CELLS
from whenpool.runs.kinds.probe import MemoryUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import plan
from whenpool.runs.plans.networks import ARCHITECTURES, MEMORY_WORDS, TRANSFORMER_RATE, TRIED
from whenpool.runs.request import Choice


def run(cell, pooling, setting="standard", seed=0, test=70.0, validation=None, **other):
    """A row of a small model of record."""
    return {
        **SMALL_MODEL, "corpus": "imdb", "length": "long", "size": 1_000, "corpus_complete": True,
        "vectors": "glove.6B.100d", "validation": None, "key": f"{cell}{pooling}{setting}{seed}{other}",
        "cell": cell, "pooling": pooling, "setting": setting, "seed": seed, "test_accuracy": test,
        "validation_accuracy": test if validation is None else validation, "majority_accuracy": 50.0,
        "encoder_parameters": 84_992,
    } | other  # fmt: skip


def evidence(rows):
    return Evidence(pd.DataFrame(), {}, small=pd.DataFrame(rows))


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
    assert {(one.training.cell, one.attention) for one in memory} == set(architectures.MEMORY_NAMES)
    assert {one.training.hidden_size for one in memory} == {256}
    assert {one.words[-1] for one in memory} == {MEMORY_WORDS}
    small = plan("other_architectures", Choice("smoke"), place)
    assert max(one.words[-1] for one in small if isinstance(one, MemoryUse)) < 100


@pytest.mark.parametrize("cell", ["gru", "sum", "transformer"])
def test_the_chapter_compares_cells_whatever_is_asked_for(cell, place):
    usual = plan("other_architectures", Choice("quick"), place)
    assert plan("other_architectures", Choice("quick", cell=cell), place) == usual


def test_runs_of_record_have_three_seeds_all_settings_once_and_what_was_tried(place):
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


def test_only_the_width_and_lengths_of_the_thesis_are_of_record():
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


# what is shown


def test_the_table_and_figures_have_each_cell_and_pooling_in_order():
    rows = [run("transformer", "max", test=80.0), run("lstm", "max_attention", test=75.0)]
    rows += [run("lstm", "last", "mid", test=value, seed=seed) for seed, value in ((0, 50.0), (1, 52.0))]
    table = architectures.accuracy_table(architectures.compared(pd.DataFrame(rows)))
    assert table["cell"].tolist() == ["LSTM", "", "Transformer", "majority class"]
    assert table["pooling"].tolist() == ["none", "MaxAtt", "MaxPool", ""]
    assert table["weights"].tolist() == ["85K", "", "85K", ""]
    assert table["mid"].tolist() == ["51.0 ± 1.4 (2)", "", "", "50.0"]
    assert table["standard"].tolist() == ["", "75.0 (1)", "80.0 (1)", "50.0"]
    drawn = architectures.named(architectures.compared(pd.DataFrame(rows)))
    assert list(drawn["cell"].cat.categories) == ["LSTM", "Transformer"]
    assert list(drawn["pooling"].cat.categories) == ["none", "MaxPool", "MaxAtt"]


def test_small_runs_leave_out_what_is_tuned_and_other_cells():
    rows = [
        run("gru", "last"),
        run("gru", "last", weight_decay=1e-3),
        run("gru", "last", epochs=50),
        run("prototype", "last"),
    ]
    assert architectures.small(pd.DataFrame(rows))["key"].tolist() == [rows[0]["key"]]


def test_what_was_tried_is_told_beside_what_was_chosen():
    rows = [run("transformer", pooling) for pooling in ("last", "max", "max_attention")]
    rows += [run("transformer", "max_attention", **way) for way in TRIED]
    rows.append(run("transformer", "max_attention", learning_rate=7e-3))
    table = architectures.tried_table(architectures.tried(evidence(rows)))
    assert len(table) == 1 + len(TRIED)
    assert "0.007" not in set(table["learning rate"])
    assert {("0.002", "1", "20"), ("0.001", "2", "8")} <= set(
        table[["learning rate", "layers", "epochs"]].itertuples(index=False, name=None)
    )


def test_megabytes_and_exponents_stand_beside_each_other():
    rows = [memory(words=n, megabytes=n / 10.0) for n in (1_000, 2_000)]
    rows += [memory("lstm", "fused", exponent=1.0, words=n, megabytes=n / 50.0) for n in (1_000, 2_000)]
    table = architectures.memory_table(architectures.memory_of(pd.DataFrame(rows)))
    assert table["model"].tolist() == ["BiLSTM", "Transformer, scores kept"]
    assert table["2,000 words"].tolist() == ["40", "200"]
    assert table["exponent"].tolist() == ["1.00", "1.75"]


def test_facts_name_what_was_not_run():
    rows = [run("gru", "last", "mid", test=50.0), run("gru", "max_attention", "mid", test=60.5)]
    found = architectures.facts(pd.DataFrame(rows))
    assert found["gain_gru"] == "+10.5"
    assert found["gain_transformer"] == "not run"
