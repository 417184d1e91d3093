"""The chapters on recurrent cells and other architectures: their plans and claims; other models elsewhere."""

from dataclasses import asdict, replace

import pandas as pd
import pytest
from made_up import runs, trained

from whenpool import InputError
from whenpool.book.report.claims import by_runs, claims
from whenpool.book.report.verdicts import memory_of_record, of_breadth, of_record
from whenpool.models.cells import CELLS
from whenpool.models.registry import LISTED_CELLS
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.kinds.probe import MemoryUse, PaddingSweep, Probe
from whenpool.runs.kinds.training import TRICKS, Training
from whenpool.runs.plans import base_run, with_cell
from whenpool.runs.plans.chapters import plan, thesis_table
from whenpool.runs.plans.networks import COMPARED_CELLS, FAMILY
from whenpool.runs.request import Choice
from whenpool.runs.run import key

NAME = "recurrent_networks"
RUN = Training("imdb", "standard", 1_000, "last", vectors="wiki-reviews.100d")


def trainings(*runs, **more):
    """Rows as the store has them."""
    rows = [
        {"key": str(n), "test_accuracy": 70.0 + n, "encoder_parameters": 100.0} for n in range(len(runs))
    ]
    rows = [row | asdict(run) | more for row, run in zip(rows, runs, strict=True)]
    return pd.DataFrame(rows)


def test_every_cell_is_trained_from_left_to_right_and_looked_into(place):
    runs = plan(NAME, Choice(), place)
    own = [run for run in runs if isinstance(run, Training)]
    chain = [run for run in own if not run.bidirectional and run.forget_bias == "thesis"]
    assert [run.cell for run in chain] == list(FAMILY)
    assert {run.pooling for run in own} == {"last"}
    assert [(r.layers, r.bidirectional) for r in own[-2:]] == [(1, True), (2, True)]
    probes = [run for run in runs if isinstance(run, Probe)]
    assert {(p.training, p.untrained) for p in probes} == {(r, u) for r in own for u in (True, False)}
    assert {run.cell for run in own} == set(CELLS)


def test_on_reviews_it_is_what_the_claims_are_about(place):
    runs = plan(NAME, Choice("quick", ("imdb",)), place)
    assert len(runs) == 15
    rows = trainings(*(replace(run, vectors="wiki-reviews.100d") for run in runs), corpus_complete=True)
    assert of_breadth(rows).all()
    assert not of_record(rows).any()
    models = set(zip(rows["cell"], rows["layers"], strict=True))
    assert models == {*((cell, 1) for cell in COMPARED_CELLS), ("lstm", 2)}


@pytest.mark.parametrize(
    "chapter", ["training_to_skip", "gradient_propagation", "natural_bias", "corpora"]
)
def test_any_chapter_can_be_run_with_another_model(chapter, place):
    usual = plan(chapter, Choice(), place)
    runs = plan(chapter, Choice(cell="gru", layers=2), place)
    assert {(run.training.cell, run.training.layers) for run in runs} == {("gru", 2)}
    low = [run for run in usual if run.training.forget_bias == "low"]  # which a GRU has not
    assert len(runs) == len(usual) - len(low)
    assert not {key(run, place) for run in runs} & {key(run, place) for run in usual}


def test_starts_that_a_cell_lacks_are_left_out(place):
    for cell, starts in {"lstm": 3, "gru": 1, "mingru": 0}.items():
        runs = plan("learnability", Choice(cell=cell, settings=("standard",)), place)
        trained_runs = [run for run in runs if isinstance(run, Training)]
        others = [run for run in trained_runs if run.variant in ("orthogonal", "chrono", "forget 2")]
        assert len(others) == starts
        for run in runs:
            run.training.identity(place)


def test_a_transformer_is_asked_for_no_trick_and_lets_no_padding_in(place):
    tricked = plan("learnability", Choice(cell="transformer"), place)
    assert {run.training.trick for run in tricked} == {None}
    runs = plan("natural_bias", Choice(cell="transformer"), place)
    assert runs
    assert all(run.training.masked for run in runs)


def test_a_sum_has_states_as_large_as_words(place):
    base = base_run("synthetic", "any", 500, Choice(cell="sum"), place)
    assert base.hidden_size == base.embedding_size
    assert with_cell(RUN, "tanh_sum").hidden_size == 100
    assert with_cell(RUN, "gru", 3) == replace(RUN, cell="gru", layers=3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cell": "rnn"}, "cell 'rnn' is unknown; choose one of lstm, gru, elman"),
        ({"layers": 0}, "layers is how many"),
        ({"cell": "sum"}, "embedding_size=100 must equal hidden_size=256"),
        ({"cell": "sum", "hidden_size": 100, "layers": 2}, "layers=1 or bidirectional=False"),
        ({"cell": "gru", "forget_bias": 1.0}, "lacks a forget gate"),
        ({"cell": "mingru", "orthogonal": True}, "lacks recurrent weights that could be orthogonal"),
        ({"cell": "mingru", "drop_connect": 0.3}, "lacks recurrent weights for drop_connect"),
        ({"cell": "transformer", "masked": False}, "lacks a recurrence that padding could enter"),
        ({"cell": "transformer", "trick": TRICKS[0]}, "choose another cell"),
    ],
    ids=str,
)
def test_a_model_that_cannot_be_is_named_before_any_work(wrong, message, place):
    run = replace(Training("synthetic", "standard", 500, "last"), **wrong)
    with pytest.raises(InputError, match=message):
        run.identity(place)


def test_other_models_stand_in_no_table_and_are_no_reference_runs(place):
    usual = next(iter(plan("training_to_skip", Choice("paper", ("imdb",)), place)))
    assert thesis_table(usual)
    for changes in ({"cell": "gru"}, {"layers": 2}, {"weight_decay": 1e-4}):
        other = replace(usual, **changes)
        assert not thesis_table(other)
        rows = trainings(usual, other, corpus_complete=True)
        assert of_record(rows).tolist() == [True, False]


def test_every_cell_is_listed_and_the_facts_are_the_cells():
    assert set(LISTED_CELLS) == {*CELLS, "transformer"}
    for name, kind in CELLS.items():
        weights = dict(kind(6, 6, batch_first=True).named_parameters())
        assert LISTED_CELLS[name].remembers == ("weight_hh_l0" in weights)
        with_bias = LISTED_CELLS[name].forgets
        assert with_bias == (name in ("lstm", "prototype"))
        if with_bias:
            TextClassifier(9, 2, "last", name, 6, 6, forget_bias=1.0)
    assert len({listed.colour for listed in LISTED_CELLS.values()}) == len(LISTED_CELLS)


@pytest.mark.parametrize(("chapter", "layers"), [("other_architectures", 1), ("recurrent_networks", 2)])
def test_these_chapters_compare_cells_whatever_is_asked_for(chapter, layers, place):
    usual = plan(chapter, Choice(), place)
    for cell in ("gru", "sum", "transformer"):
        assert plan(chapter, Choice(cell=cell), place) == usual
    assert plan(chapter, Choice(cell="gru", layers=layers), place) == usual


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


def test_only_the_width_and_lengths_of_the_thesis_are_reference_runs():
    whole = MemoryUse(replace(RUN, pooling="max_attention", cell="transformer"), attention="plain")
    others = [replace(whole.training, **one) for one in ({"hidden_size": 64}, {"corpus": "synthetic"})]
    probes = [whole, replace(whole, longest=500), *map(MemoryUse, others), PaddingSweep(whole.training)]
    rows = [probe.row() | {"corpus_complete": True} for probe in probes]
    rows = pd.DataFrame([*rows, rows[0] | {"corpus_complete": False}])
    assert memory_of_record(rows).tolist() == [True, *[False] * 5]
    assert not memory_of_record(rows.drop(columns="longest")).any()
