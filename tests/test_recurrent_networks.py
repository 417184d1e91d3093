"""The chapter on recurrent cells: its plan, tables and figure; and other models elsewhere."""

from dataclasses import asdict, replace

import pandas as pd
import pytest

from whenpool import InputError
from whenpool.book.report.tables import provenance_line
from whenpool.book.report.verdicts import of_breadth, of_record
from whenpool.models.cells import CELLS
from whenpool.models.registry import LISTED_CELLS
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.kinds.probe import Probe
from whenpool.runs.kinds.training import Training
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


# the plan


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


def test_the_chapter_compares_cells_whatever_is_asked_for(place):
    assert plan(NAME, Choice(cell="gru", layers=2), place) == plan(NAME, Choice(), place)


# another cell, and more layers, in any chapter


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


def test_defaults_leave_the_keys_of_stored_runs_as_they_are(place):
    base = base_run("synthetic", "any", 500, Choice(), place)
    asked = base_run("synthetic", "any", 500, Choice(cell="lstm", layers=1), place)
    assert key(base, place) == key(asked, place)
    assert not {"cell", "layers"} & base.changed().keys()


def test_starts_that_a_cell_lacks_are_left_out(place):
    for cell, starts in {"lstm": 3, "gru": 1, "mingru": 0}.items():
        runs = plan("learnability", Choice(cell=cell, settings=("standard",)), place)
        other = [
            r
            for r in runs
            if isinstance(r, Training) and r.variant in ("orthogonal", "chrono", "forget 2")
        ]
        assert len(other) == starts
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
    ],
    ids=str,
)
def test_a_model_that_cannot_be_is_named_before_any_work(wrong, message, place):
    run = replace(Training("synthetic", "standard", 500, "last"), **wrong)
    with pytest.raises(InputError, match=message):
        run.identity(place)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cell": "rnn"}, "choose one of lstm"),
        ({"layers": 65}, "layers is how many, from 1 to 64, not 65"),
    ],
)
def test_a_choice_that_makes_no_sense_is_one_line(wrong, message):
    with pytest.raises(InputError, match=message):
        Choice(**wrong)


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


def test_provenance_says_which_model_it_was():
    facts = {"device": "cpu: x", "torch": "2", "commit": "abc", "seconds": 1.0, "finished": "2026-01-01"}
    assert "cell" not in provenance_line(trainings(RUN, **facts))
    line = provenance_line(trainings(RUN, replace(RUN, cell="gru", layers=2), **facts))
    assert "cell LSTM, GRU of 2 layers;" in line
