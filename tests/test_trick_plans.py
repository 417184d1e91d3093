"""Which runs "Learnability tricks" asks for (§2.2), and where they must not count."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_verdicts import PUBLISHED, runs

from whenpool.book.report.verdicts import follows_protocol, judge, of_record, probes_of_record
from whenpool.runs.kinds.probe import GradientProfile, Probe
from whenpool.runs.kinds.training import TRICKS, Training
from whenpool.runs.plans.chapters import TRIED, needed, plan, thesis_table
from whenpool.runs.request import Choice

VARIANTS = {
    "last", "max", "max_attention", *TRICKS, "forget 2", "chrono", "orthogonal",
}  # fmt: skip
PROFILED = {"last", *TRICKS}


@pytest.mark.parametrize(
    ("profile", "corpus", "sizes", "seeds"),
    [("smoke", "synthetic", {40}, 1), ("quick", "synthetic", {500}, 1), ("paper", "imdb", {10_000}, 5)],
)
def test_the_chapter_asks_for_every_variant_in_both_settings(profile, corpus, sizes, seeds, place):
    asked = plan("learnability", Choice(profile), place)
    trainings = [run for run in asked if isinstance(run, Training)]
    cells = Counter((run.variant, run.setting, run.seed) for run in trainings)
    assert cells == {
        (variant, setting, seed): 1
        for variant in VARIANTS
        for setting in ("standard", "mid")
        for seed in range(seeds)
    }
    assert {run.corpus for run in trainings} == {corpus}
    assert {run.size for run in trainings} == sizes
    probes = [run for run in asked if isinstance(run, Probe)]
    assert {type(probe) for probe in probes} == {GradientProfile}
    looked_at = Counter((p.training.variant, p.training.setting, p.untrained) for p in probes)
    assert looked_at == {
        (variant, setting, untrained): seeds
        for setting in ("standard", "mid")
        for variant, untrained in [("last", True), *((name, False) for name in PROFILED)]
    }
    assert len(asked) == len(trainings) + len(probes) == len(set(asked))


def test_the_paper_trains_by_the_protocol_of_the_thesis_without_pooling(place):
    for run in plan("learnability", Choice("paper"), place):
        training = run.training
        assert (training.hidden_size, training.embedding_size, training.epochs) == (256, 100, 20)
        assert (training.batch_size, training.learning_rate, training.length) == (32, 2e-3, "long")
        assert training.vectors
        assert training.masked
        if training.variant not in ("max", "max_attention"):
            assert training.pooling == "last"


def test_a_choice_narrows_the_chapter(place):
    choice = Choice("paper", ("yahoo",), sizes=(2_000,), settings=("mid",), seeds=2, masked=False)
    asked = plan("learnability", choice, place)
    trainings = [run for run in asked if isinstance(run, Training)]
    assert {(run.corpus, run.size, run.setting) for run in trainings} == {("yahoo", 2_000, "mid")}
    assert Counter(run.variant for run in trainings) == dict.fromkeys(VARIANTS, 2)
    assert all(run.training.masked for run in asked)  # a trick cannot be trained otherwise


def test_a_small_model_on_a_published_corpus_tries_other_strengths_once(place):
    asked = plan("learnability", Choice("quick", ("imdb",), seeds=2), place)
    directed = [run for run in asked if isinstance(run, Training) and run.trick == "gradient_directed"]
    tried = Counter((run.setting, run.seed, run.strength, run.divergence) for run in directed)
    others = [(options["strength"], options.get("divergence", "forward")) for options in TRIED]
    ours = (Training.strength, Training.divergence)
    assert tried == {
        (setting, seed, *options): 1
        for setting in ("standard", "mid")
        for seed, found in ((0, (ours, *others)), (1, (ours,)))
        for options in found
    }
    assert ours not in others
    assert {divergence for _, divergence in others} == {"forward", "reverse"}
    plain = [run for run in asked if isinstance(run, Training) and run not in directed]
    assert Counter(run.variant for run in plain) == dict.fromkeys(VARIANTS - {"gradient_directed"}, 4)


@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_teachers_are_among_the_trainings_whose_weights_are_needed(profile, place):
    choice = Choice(profile)
    asked = plan("learnability", choice, place)
    teachers = {run.needs for run in asked if isinstance(run, Training) and run.needs}
    settings, seeds = 2, 5 if profile == "paper" else 1
    assert len(teachers) == settings * seeds
    assert teachers <= needed(choice, place)
    assert teachers <= set(asked)  # each stands in Table 2.1 itself
    students = {probe.training for probe in asked if isinstance(probe, GradientProfile)}
    assert students <= needed(choice, place)


PAPER = Training("imdb", "mid", 10_000, "last", vectors="glove.6B.100d")


@pytest.mark.parametrize(
    ("changes", "tables"),
    [
        ({}, ("1.3", "1.6")),
        *(({"trick": trick}, ("2.1",)) for trick in TRICKS),
        ({"trick": TRICKS[0], "setting": "standard"}, ("2.1",)),
        ({"orthogonal": True}, ()),
        ({"forget_bias": 2.0}, ()),
        ({"forget_bias": "chrono"}, ()),
        ({"trick": TRICKS[0], "corpus": "synthetic"}, ()),
    ],
)
def test_where_a_run_stands_in_the_thesis(changes, tables):
    assert thesis_table(replace(PAPER, **changes)) == tables


OTHERS = [
    *({"trick": trick, "orthogonal": False} for trick in TRICKS),
    {"trick": None, "orthogonal": True},
]
STARTS = [{"forget_bias": 2.0}, {"forget_bias": "2.0"}, {"forget_bias": "chrono"}]
GOOD = [80.0, 80.5, 79.5]


@pytest.mark.parametrize("change", OTHERS)
@pytest.mark.parametrize("size", [{}, {"hidden_size": 64}])
def test_a_trick_or_orthogonal_start_is_never_judged_as_the_model_without(change, size):
    tricks = runs([90.0] * 4, **change, **size)
    assert judge(tricks, PUBLISHED).verdict == "not run"
    for mixed in (pd.concat([tricks, runs(GOOD, **size)]), pd.concat([runs(GOOD, **size), tricks])):
        cell, alone = judge(mixed, PUBLISHED), judge(runs(GOOD, **size), PUBLISHED)
        assert cell == alone  # plain rows there lack the new columns


@pytest.mark.parametrize("change", STARTS)
def test_another_forget_bias_is_not_judged_beside_the_thesiss(change):
    mixed = pd.concat([runs([90.0] * 4, **change), runs(GOOD)])
    assert judge(mixed, PUBLISHED) == judge(runs(GOOD), PUBLISHED)


@pytest.mark.parametrize("change", STARTS)
def test_runs_of_another_size_stand_in_no_cell(change):
    small = runs(GOOD, hidden_size=64)
    mixed = pd.concat([runs([90.0] * 4, hidden_size=64, **change), small])
    assert judge(mixed, PUBLISHED).verdict == "not run"
    assert judge(mixed, PUBLISHED).compact == ""  # nor are they the compact replication


@pytest.mark.parametrize("change", [*OTHERS, *STARTS])
def test_neither_follows_the_protocol_nor_is_of_record(change):
    other, plain = runs([80.0], **change), runs([80.0])
    assert follows_protocol(pd.concat([other, plain])).tolist() == [False, True]
    assert of_record(pd.concat([other, plain])).tolist() == [False, True]
    written = plain.assign(trick=np.nan, orthogonal=np.nan)  # as a table with newer rows has older ones
    assert of_record(pd.concat([other, written])).tolist() == [False, True]
    written = plain.assign(trick=None, orthogonal=False)
    assert of_record(pd.concat([other, written])).tolist() == [False, True]


def test_probes_of_tricks_other_starts_and_untrained_models_are_not_of_the_first_chapter():
    probes = [
        GradientProfile(PAPER),
        replace(GradientProfile(PAPER), untrained=True),
        *(GradientProfile(replace(PAPER, trick=trick)) for trick in TRICKS),
        *(GradientProfile(replace(PAPER, **start)) for start in (OTHERS[-1], *STARTS)),
    ]
    rows = pd.DataFrame([probe.row() for probe in probes]).assign(corpus_complete=True)
    assert probes_of_record(rows).tolist() == [True] + [False] * (len(probes) - 1)
    older = rows.drop(columns=["untrained", "trick", "orthogonal"]).head(1)
    assert probes_of_record(older).tolist() == [True]
    mixed = pd.concat([older, rows.tail(1)])
    assert probes_of_record(mixed).tolist() == [True, False]
