"""Which runs a profile asks for, and their order."""

import re
from dataclasses import replace
from itertools import product
from operator import attrgetter

import pytest
from called import refused
from small_runs import RECORDS

from paper import chapter_named
from paper.chapter import open_chapter
from paper.chapters import PLANS, plan
from paper.runs.kinds.training import Training
from paper.runs.request import PROFILES, Request
from paper.runs.store import Store
from paper.verdicts.results import published
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.tokens import VECTORS
from whenpool.models.registry import COMPARED, LISTED, THESIS_POOLINGS

COUNTS = {
    "gradient_propagation": (17, 161, 45),
    "natural_bias": (8, 293, 100),
    "last_state": (8, 1124, 618),
    "training_to_skip": (20, 1270, 3000),
    "word_importance": (20, 1130, 130),
    "few_shot": (8, 120, 80),
    "learnability": (34, 102, 170),
    "recurrent_networks": (5, 15, 15),
    "sequence_labelling": (3, 21, 21),
    "encoders_of_today": (47, 309, 47),
    "regularisation": (8, 186, 285),
}
"""Runs of each chapter in the profiles quick, compact and paper."""
PROBING = ("gradient_propagation", "natural_bias", "word_importance")


def plan_of_thesis(chapter, request, place):
    """A plan without the poolings that somebody has added."""
    added = set(COMPARED) - set(THESIS_POOLINGS)
    runs = plan(chapter, request, place)
    return [run for run in runs if run.training is None or run.training.pooling not in added]


def test_they_are_the_cells_of_the_thesis_by_its_protocol(place):
    runs = plan_of_thesis("training_to_skip", Request("paper"), place)
    columns = ["length", "corpus", "setting", "size", "pooling"]
    ours = {attrgetter(*columns)(run) for run in runs}
    assert ours == set(published("accuracy")[columns].itertuples(index=False, name=None))
    assert {field for run in runs for field in run.changed()} == {*columns, "seed", "vectors"}
    assert {run.seed for run in runs} == set(range(5))


@pytest.mark.parametrize("chapter", PLANS)
def test_each_chapter_has_its_runs_in_every_profile(chapter, place):
    """A change here is a change of the paper: it is made by hand."""
    counted = [len(plan_of_thesis(chapter, Request(name), place)) for name in PROFILES[1:]]
    assert tuple(counted) == COUNTS[chapter]


def test_trainings_of_record_are_still_planned(place, tmp_path):
    """So that none has to be computed again: those of the thesis's model, padding masked or not."""
    rows = Store(tmp_path, RECORDS).rows("training")
    rows = rows[
        rows["hidden_size"].eq(256) & rows["epochs"].eq(20) & rows["corpus_complete"].eq(True)
    ]
    recorded = {
        replace(Training.of_row(row), vectors=VECTORS[0]) for row in rows.to_dict("records")
    }
    requests = [Request("paper", masked=masked) for masked in (True, False)]
    runs = {run for request in requests for name in PLANS for run in plan(name, request, place)}
    assert len(recorded) > 30
    assert recorded <= {run.training for run in runs}


@pytest.mark.parametrize("chapter", PLANS)
def test_what_is_asked_for_by_name_has_runs_in_every_chapter(chapter, place, tmp_path):
    """Also where the thesis has no figure: the status of all chapters, and the book, need some."""
    own = tmp_path / "own.csv"
    own.write_text("text,label\n" + "".join(f"word {i},{i % 2}\n" for i in range(50)))
    for name, sizes in (("yelp", None), ("yahoo", (1000,)), (str(own), None)):
        runs = plan(chapter, Request("paper", (name,), sizes=sizes), place)
        assert runs, name
        assert chapter not in PROBING or {run.training.corpus for run in runs} == {name}
    for corpora, setting, pooling in product((None, ("imdb",)), SETTINGS, LISTED):
        request = Request("quick", corpora, settings=(setting,), poolings=(pooling,), seeds=1)
        trained = {run.training for run in plan(chapter, request, place)} - {None}
        assert {(run.setting, run.pooling) for run in trained} <= {(setting, pooling)}


def test_any_chapter_can_be_run_with_another_model_but_those_that_compare_them(place):
    for chapter in ("training_to_skip", "gradient_propagation", "natural_bias"):
        usual = plan(chapter, Request(), place)
        runs = plan(chapter, Request(cell="gru", layers=2), place)
        assert {(run.training.cell, run.training.layers) for run in runs} == {("gru", 2)}
        # but for those of gates that a GRU lacks
        assert len(runs) == sum(run.training.forget_bias != "low" for run in usual)
    tagged = [
        plan("sequence_labelling", Request(cell=cell), place) for cell in ("gru", "sum", None)
    ]
    assert [{run.cell for run in runs} for runs in tagged] == [{"gru"}, set(), {"lstm"}]
    runs = plan("last_state", Request("compact", cell="gru"), place)
    assert {(run.training.cell, run.training.corpus) for run in runs} == {("gru", "imdb")}
    few = plan("last_state", Request("compact", sizes=(10_000,)), place)
    assert {run.training.corpus for run in few} == {"imdb"}
    usual = plan("encoders_of_today", Request(), place)
    assert plan("encoders_of_today", Request(cell="gru"), place) == usual


@pytest.mark.parametrize(
    "message, only",
    {
        "sizes must be a list, not 1000": {"sizes": 1_000},
        "sizes must be whole numbers from 1, not ('1K',)": {"sizes": ["1K"]},
        "seeds must be whole numbers from 1, not 0": {"seeds": 0},
        "poolings must be a list, not 'last'": {"poolings": "last"},
        "cell 'rnn' is unknown; choose one of lstm": {"cell": "rnn"},
        "only 'size' is unknown; choose one of sizes, settings, poolings, seeds": {"size": [1_000]},
        """only must be such as {"sizes": [1000]}, not [1000]""": [1_000],
    }.items(),
)
def test_a_mistake_in_what_a_notebook_narrows_is_one_line(only, message):
    refused(rf"\A{re.escape(message)}.*\Z", open_chapter, "training_to_skip", only=only)


def test_a_chapter_has_short_names():
    names = [*PLANS, "theory"]
    for given, meant in {"skip": "training_to_skip", "book/few-shot.md": "few_shot"}.items():
        assert chapter_named(given, names) == meant
    refused("^chapter 'others' is unknown; choose one of grad", chapter_named, "others", names)
    refused("^chapter '_' is ambiguous; choose one of ", chapter_named, "_", names)
