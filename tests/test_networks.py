"""Recurrent cells and other architectures in the place of an LSTM: which runs are planned."""

from whenpool.models.registry import LISTED_CELLS
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans import plan
from whenpool.runs.request import Request
from whenpool.runs.run import key

RUN = Training("imdb", "standard", 1_000, "last", vectors="wiki-reviews.100d")


def test_any_chapter_can_be_run_with_another_model_but_those_that_compare_them(place):
    for chapter in ("training_to_skip", "gradient_propagation", "natural_bias"):
        usual = plan(chapter, Request(), place)
        runs = plan(chapter, Request(cell="gru", layers=2), place)
        assert {(run.training.cell, run.training.layers) for run in runs} == {("gru", 2)}
        gates = [run for run in usual if run.training.forget_bias != "thesis"]  # which a GRU has not
        assert len(runs) == len(usual) - len(gates)
        assert not {key(run, place) for run in runs} & {key(run, place) for run in usual}
    for chapter, layers in (("other_architectures", 1), ("recurrent_networks", 2)):
        usual = plan(chapter, Request(), place)
        for request in (Request(cell="sum"), Request(cell="gru", layers=layers)):
            assert plan(chapter, request, place) == usual


def test_what_a_cell_lacks_is_left_out(place):
    for cell, starts in {"lstm": 3, "gru": 1, "mingru": 0}.items():
        runs = plan("learnability", Request(cell=cell, settings=("standard",)), place)
        trained = [run for run in runs if isinstance(run, Training)]
        assert sum(run.orthogonal or run.forget_bias != "thesis" for run in trained) == starts
        assert all(key(run, place) for run in runs)
    for cell, listed in LISTED_CELLS.items():
        runs = plan("regularisation", Request("quick", ("synthetic",), cell=cell), place)
        assert any(run.drop_connect for run in runs) == listed.remembers or listed.adds
    for chapter, name, only in ("learnability", "trick", None), ("natural_bias", "masked", True):
        runs = plan(chapter, Request(cell="transformer"), place)
        assert {getattr(run.training, name) for run in runs} == {only}
