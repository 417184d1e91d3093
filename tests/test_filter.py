"""Which runs ``--only`` admits, one line for every mistake in it, and the order of runs."""

import math
import random
from dataclasses import replace
from itertools import groupby, product
from operator import attrgetter, methodcaller

import pytest

from whenpool.base.errors import InputError
from whenpool.corpora.settings import SETTINGS
from whenpool.runs.filter import TABLES, Only, planned
from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import GradientProfile, PaddingSweep
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import PLANS, plan, thesis_table
from whenpool.runs.request import Choice

PAPER = Choice("paper", ("imdb", "yahoo"))
PLAIN = Training("imdb", "mid", 1_000, "last", seed=2)
BERT = FewShot("yahoo", "bert", per_class=3, seed=1)


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        (None, True),
        ("table=1.3", True),
        ("table=1.8+1.6", True),
        ("table=1.5", False),
        ("corpus=imdb", True),
        ("length=long", True),
        ("size=1000", True),
        ("size=01000", True),
        ("setting=left+mid", True),
        ("pooling=last", True),
        ("seed=0+1", False),
        ("labels=10", False),
        (" table = 1.3 , corpus = imdb + yelp ,seed=2", True),
        ("table=1.3,corpus=imdb,seed=1", False),
    ],
)
def test_what_is_admitted(text, admitted):
    assert Only.parse(text).admits(PLAIN) is admitted


def test_a_trick_or_a_start_goes_by_its_name():
    trick = replace(PLAIN, trick="teacher_forcing")
    start, pooled = replace(PLAIN, orthogonal=True), replace(PLAIN, pooling="max", orthogonal=True)
    forget = replace(PLAIN, forget_bias=2.0)
    runs = [PLAIN, trick, start, pooled, forget]

    def admitted(text):
        return [run for run in runs if Only.parse(text).admits(run)]

    assert admitted("pooling=last") == [PLAIN]
    assert admitted("pooling=teacher_forcing") == [trick]
    assert admitted("pooling=orthogonal") == [start, pooled]
    assert admitted("pooling=max+forget 2") == [pooled, forget]


def test_other_kinds_have_what_their_training_has_or_keys_of_their_own():
    sweep = PaddingSweep(PLAIN)
    assert Only.parse("size=1000,setting=mid,pooling=last,seed=2,corpus=imdb").admits(sweep)
    assert not Only.parse("table=1.3").admits(sweep)
    assert Only.parse("table=1.9,system=bert+uda,labels=3,seed=1,corpus=yahoo").admits(BERT)
    for text in ("labels=10", "size=1000", "setting=mid", "pooling=max_attention"):
        assert not Only.parse(text).admits(BERT)
    tagging = Tagging("generated:task=pos", seed=1)
    assert Only.parse("corpus=generated,seed=1").admits(tagging)
    for text in ("seed=0", "size=1000", "length=any"):
        assert not Only.parse(text).admits(tagging)


@pytest.mark.parametrize(
    ("corpus", "names"),
    [
        ("synthetic:density=0.02,longest=30", ["synthetic"]),
        ("/mine/reviews.csv:text_column=a", ["reviews.csv", "/mine/reviews.csv"]),
    ],
)
def test_a_corpus_goes_by_its_name_or_file(corpus, names):
    run = replace(PLAIN, corpus=corpus)
    assert all(Only.parse(f"corpus={name}").admits(run) for name in names)
    assert not Only.parse("corpus=imdb").admits(run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--only '' is not key=value, such as table=1.3,corpus=imdb,size=1000+2000"),
        ("size=1000,2000", "--only '2000' is not key=value, such as table=1.3"),
        ("=imdb", "--only '=imdb' is not key=value"),
        ("copus=imdb", "--only 'copus' is unknown; choose among table, corpus, length, size, setting"),
        ("size=1K", "--only size takes whole numbers such as 1000+2000, not '1K'"),
        ("seed=²", "--only seed takes whole numbers such as 1000+2000, not '²'"),
        ("size=1000+", "--only size is given no value; write table=1.3"),
        ("table=1.7", "--only table=1.7 is unknown; choose among 1.3, 1.4, 1.5, 1.6, 1.8, 1.9, 2.1"),
        (
            "pooling=maximum",
            "--only pooling=maximum is unknown; choose among last, mean, max, attention",
        ),
        ("size=1000,size=2000", "--only size is given twice; several values are joined by +"),
    ],
)
def test_a_mistake_is_one_line(text, message):
    with pytest.raises(InputError) as raised:
        Only.parse(text)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_known_beforehand_says_what_there_is(place):
    def message(text, choice=PAPER, chapters=("training_to_skip",)):
        with pytest.raises(InputError) as raised:
            planned(choice, place, Only.parse(text), chapters)
        return str(raised.value)

    assert message("corpus=imdbb") == (
        "--only corpus=imdbb leaves nothing of training_to_skip: no run has corpus=imdbb; "
        "there are imdb, yahoo"
    )
    assert message("seed=0,size=3000").endswith(
        "no run has size=3000; there are 1000, 2000, 5000, 10000, 20000, 25000"
    )
    assert message("corpus=imdb,size=25000").endswith("no run has all of it at once")
    assert message("system=bert").endswith("no run has system=bert; there are none")
    assert message("table=1.3", Choice("quick")) == (
        "--only table is of the thesis's runs: add --profile paper to it (the profile is quick)"
    )
    assert message("seed=0", chapters=("nothing",)).startswith("chapter 'nothing' needs no runs")


def once(chapters):
    return list(dict.fromkeys(run for runs in chapters.values() for run in runs))


def test_each_table_of_the_thesis_has_its_runs(place):
    choice = Choice("paper")
    everything = [run for chapter in PLANS for run in plan(chapter, choice, place)]
    assert {table for run in everything for table in thesis_table(run)} == set(TABLES)
    for table in TABLES:
        found = once(planned(choice, place, Only.parse(f"table={table}")))
        assert found
        assert set(found) == {run for run in everything if table in thesis_table(run)}
    assert len(once(planned(choice, place, Only.parse("table=1.5+1.6")))) == 2_000
    assert len(once(planned(choice, place, Only.parse("table=1.8")))) == 1_000


# the order of runs: wherever a list is cut, what stands before is a whole, thinner grid

POOLINGS = ("last", "mean", "max", "attention", "max_attention")
rank = methodcaller("rank")
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
    return shuffled(runs), sides


def shuffled(runs):
    return random.Random(len(runs)).sample(runs, len(runs))


@pytest.mark.parametrize("number", range(8))
def test_each_part_of_a_random_grid_is_whole_before_the_next_begins(number):
    runs, sides = grid_of(random.Random(number))
    ordered = sorted(runs, key=rank)
    for depth in range(1, len(LEVELS) + 1):
        outer = LEVELS[:depth]
        blocks = [(values, len(list(block))) for values, block in groupby(ordered, attrgetter(*outer))]
        assert len(blocks) == len({values for values, _ in blocks})  # none is taken up again
        inner = len(runs) // math.prod(len(sides[name]) for name in outer)
        assert {count for _, count in blocks} == {inner}


def test_probes_and_variants_stand_behind_their_training():
    first = replace(PLAIN, pooling="max")
    later = replace(PLAIN, pooling="attention")
    expected = [first, GradientProfile(first), PaddingSweep(first), later]
    assert sorted(shuffled(expected), key=rank) == expected
    trick, start = replace(PLAIN, trick="teacher_forcing"), replace(PLAIN, orthogonal=True)
    unmasked, own = replace(PLAIN, masked=False), replace(PLAIN, corpus="/mine/reviews.csv")
    expected = [PLAIN, unmasked, replace(PLAIN, pooling="max_attention"), trick, start, own]
    assert sorted(shuffled(expected), key=rank) == expected


def test_few_shot_runs_go_by_seed_then_labels_then_system():
    every = product((0, 1), (10, 1, 100), ("imdb", "yahoo"), ("bert", "max_attention_words"))
    expected = [
        FewShot(corpus, system, per_class=labels, seed=seed)  # ten labels are the thesis's
        for seed, labels, corpus, system in every
    ]
    assert sorted(shuffled(expected), key=rank) == expected


@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
def test_runs_of_every_chapter_can_be_ordered_together(profile, place):
    runs = [run for chapter in PLANS for run in plan(chapter, Choice(profile), place)]
    ordered = sorted(runs, key=rank)
    assert sorted(shuffled(runs), key=rank) == ordered  # whatever the order before
