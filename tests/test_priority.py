"""The order of runs: wherever a list is cut, what stands before is a whole, thinner grid."""

import random
from dataclasses import replace
from itertools import groupby, product
from operator import attrgetter

import pytest

from whenpool.corpora.settings import SETTINGS
from whenpool.runs.filter import informative
from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import PROBES, GradientProfile, PaddingSweep
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import PLANS, plan
from whenpool.runs.request import Choice

POOLINGS = ("last", "mean", "max", "attention", "max_attention")
LEVELS = ("seed", "size", "setting", "length", "corpus", "pooling")


def grid_of(rng):
    """Trainings of a random grid, in a random order."""
    sides = {
        "seed": range(rng.randint(1, 3)),
        "size": rng.sample((1_000, 2_000, 5_000, 10_000, 25_000), rng.randint(1, 3)),
        "setting": rng.sample(SETTINGS, rng.randint(1, 4)),
        "length": rng.sample(("long", "short"), rng.randint(1, 2)),
        "corpus": rng.sample(("imdb", "yelp", "yahoo", "amazon"), rng.randint(1, 3)),
        "pooling": rng.sample(POOLINGS, rng.randint(1, 3)),
    }
    runs = [Training(**dict(zip(sides, values, strict=True))) for values in product(*sides.values())]
    rng.shuffle(runs)
    return runs, sides


@pytest.mark.parametrize("number", range(20))
def test_each_part_of_a_random_grid_is_whole_before_the_next_begins(number):
    runs, sides = grid_of(random.Random(number))
    ordered = sorted(runs, key=informative)
    for depth in range(1, len(LEVELS) + 1):
        outer = LEVELS[:depth]
        blocks = [(values, len(list(block))) for values, block in groupby(ordered, attrgetter(*outer))]
        inner = len(runs)
        for name in outer:
            inner //= len(sides[name])
        assert len(blocks) == len({values for values, _ in blocks})  # none is taken up again
        assert {count for _, count in blocks} == {inner}


def test_a_cut_grid_has_every_pooling_equally_often():
    runs, sides = grid_of(random.Random(3))
    ordered, every = sorted(runs, key=informative), len(sides["pooling"])
    for cut in range(0, len(ordered) + 1, every):
        counts = [sum(run.pooling == name for run in ordered[:cut]) for name in sides["pooling"]]
        assert len(set(counts)) == 1


def test_the_order_of_the_paper():
    sizes = (1_000, 2_000, 5_000, 10_000, 25_000)
    runs = [
        Training(corpus, setting, size, pooling, seed)
        for corpus, setting, size, pooling, seed in product(
            ("yelp", "imdb"), SETTINGS, sizes, POOLINGS, range(5)
        )
    ]
    ordered = sorted(runs, key=informative)
    assert [run.corpus for run in ordered[:10]] == ["imdb"] * 5 + ["yelp"] * 5
    assert [run.pooling for run in ordered[:5]] == list(POOLINGS)
    assert list(dict.fromkeys(run.setting for run in ordered)) == ["standard", "mid", "right", "left"]
    assert [run.size for run in ordered] == sorted(run.size for run in runs if run.seed == 0) * 5
    assert [run.seed for run in ordered] == sorted(run.seed for run in runs)


def test_a_probe_stands_behind_its_training():
    training = Training("imdb", "mid", 1_000, "max")
    later = replace(training, pooling="attention")
    runs = [PaddingSweep(training), later, GradientProfile(training), training]
    assert sorted(runs, key=informative) == [
        training, GradientProfile(training), PaddingSweep(training), later,
    ]  # fmt: skip


def test_variants_of_a_training_come_after_the_poolings():
    plain = Training("imdb", "mid", 1_000, "last")
    trick, start = replace(plain, trick="teacher_forcing"), replace(plain, orthogonal=True)
    unmasked, own = replace(plain, masked=False), replace(plain, corpus="/mine/reviews.csv")
    pooled = replace(plain, pooling="max_attention")
    ordered = sorted([own, start, trick, unmasked, pooled, plain], key=informative)
    assert ordered == [plain, unmasked, pooled, trick, start, own]


def test_few_shot_runs_go_by_seed_then_labels_then_system():
    runs = [
        FewShot(corpus, system, per_class=labels, seed=seed)
        for system, seed, labels, corpus in product(
            ("max_attention_words", "bert"), (1, 0), (1, 10, 100), ("yahoo", "imdb")
        )
    ]
    ordered = sorted(runs, key=informative)
    assert [run.seed for run in ordered] == [0] * 12 + [1] * 12
    assert [run.per_class for run in ordered[:12:4]] == [10, 1, 100]  # ten is the thesis's
    assert [(run.corpus, run.system) for run in ordered[:3]] == [
        ("imdb", "bert"), ("imdb", "max_attention_words"), ("yahoo", "bert"),
    ]  # fmt: skip


@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_runs_of_every_chapter_can_be_ordered_together(profile, place):
    choice = Choice(profile)
    runs = [run for chapter in PLANS for run in plan(chapter, choice, place)]
    ordered = sorted(runs, key=informative)
    runs.reverse()
    assert sorted(runs, key=informative) == ordered  # whatever the order before
    assert {getattr(run, "probe", None) for run in ordered} > set(PROBES) - {"first_steps"}
