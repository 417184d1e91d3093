"""Which runs a profile asks for."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pandas as pd
import pytest
from small_runs import RECORDS

from whenpool.book.report.verdicts import probes_of_either_scale, probes_of_record, published
from whenpool.corpora import load
from whenpool.corpora.published import THESIS_CORPORA
from whenpool.corpora.settings import SETTINGS
from whenpool.fewshot.pretrained import DEFAULT_ENCODER
from whenpool.models.registry import COMPARED, LISTED, THESIS_POOLINGS
from whenpool.runs.kinds.probe import GradientTrace, Probe
from whenpool.runs.kinds.training import TRICKS, Training
from whenpool.runs.plans.chapters import PLANS, plan, thesis_table
from whenpool.runs.request import PROFILES, Choice, corpora_named
from whenpool.runs.run import VECTORS
from whenpool.runs.store import Store


def plan_of_thesis(chapter, choice, place):
    """A plan without the poolings that somebody has added."""
    added = set(COMPARED) - set(THESIS_POOLINGS)
    runs = plan(chapter, choice, place)
    return [run for run in runs if run.training is None or run.training.pooling not in added]


@pytest.fixture
def paper_runs(place):
    return plan_of_thesis("training_to_skip", Choice("paper"), place)


def test_they_are_the_cells_of_the_thesis_by_its_protocol(paper_runs):
    ours = {
        (table, run.length, run.corpus, run.setting, run.size, run.pooling)
        for run in paper_runs
        for table in thesis_table(run)
    }
    columns = ["table", "length", "corpus", "setting", "size", "pooling"]
    theirs = set(published("accuracy")[columns].itertuples(index=False, name=None))
    assert ours == theirs
    free = ("corpus", "setting", "size", "pooling", "length", "seed", "vectors")
    assert {field for run in paper_runs for field in run.changed()} == set(free)
    assert {run.seed for run in paper_runs} == set(range(5))


COUNTS = {
    "corpora": ("45 training",) * 4,
    "gradient_propagation": (
        "6 gradients, 5 trace", "11 gradients, 5 trace", "73 gradients, 30 first_steps, 43 trace",
        "21 gradients, 6 first_steps, 15 trace",
    ),
    "natural_bias": (
        "6 sweep, 2 directions", "6 sweep, 2 directions", "102 sweep, 38 directions, 130 training",
        "26 sweep, 10 directions, 44 training",
    ),
    "training_to_skip": ("20 training", "30 training", "1270 training", "3000 training"),
    "word_importance": ("20 nwi", "20 nwi", "1080 nwi", "130 nwi"),
    "few_shot": ("8 few-shot", "8 few-shot", "120 few-shot", "80 few-shot"),
    "learnability": (
        "20 training, 12 gradients", "20 training, 12 gradients", "60 training, 36 gradients",
        "100 training, 60 gradients",
    ),
    "recurrent_networks": (*["11 training, 22 gradients"] * 2, "15 training", "15 training"),
    "sequence_labelling": ("7 tagging", "14 tagging", "21 tagging", "21 tagging"),
    "other_architectures": (
        *["24 training, 10 sweep, 10 nwi, 3 memory"] * 2, "80 training, 10 sweep, 10 nwi, 9 memory",
        "24 training, 10 sweep, 10 nwi, 3 memory",
    ),
    "regularisation": ("8 training", "8 training", "186 training", "285 training"),
}  # fmt: skip
"""Runs of each chapter in the profiles smoke, quick, compact and paper."""


@pytest.mark.parametrize("chapter", PLANS)
def test_each_chapter_has_its_runs_in_every_profile(chapter, place):
    """A change here is a change of the paper: it is made by hand."""
    for profile, expected in zip(PROFILES, COUNTS[chapter], strict=True):
        runs = plan_of_thesis(chapter, Choice(profile), place)
        kinds = Counter(getattr(run, "probe", "") or run.kind for run in runs)
        assert {f"{count} {kind}" for kind, count in kinds.items()} == set(expected.split(", "))


BUDGETS = {"smoke": (3e5, 1e6), "quick": (25e6, 25e6)}
"""Words that the trainings, and the probes, of one chapter may read, as `Run.cost` counts them."""


@pytest.mark.parametrize("profile", BUDGETS)
def test_small_profiles_need_no_data_and_stay_in_their_budget(profile, place):
    seen = set()
    for chapter in PLANS:
        runs = plan_of_thesis(chapter, Choice(profile), place)
        if chapter == "few_shot":  # timed by the book itself
            assert all(run.corpus.startswith("synthetic") for run in runs)
            continue
        if chapter == "sequence_labelling":
            assert all(run.corpus.startswith("generated") for run in runs)
            assert sum(run.cost for run in runs) < 2e6
            continue
        assert all(run.training.corpus.startswith("synthetic") for run in runs)
        traced = {run.training for run in runs if isinstance(run, GradientTrace)}
        trainings = {run.training for run in runs} - traced - seen  # a trace trains, and costs that
        probes = {run for run in runs if isinstance(run, Probe)} - seen
        for_trainings, for_probes = BUDGETS[profile]
        assert sum(run.cost for run in trainings) < for_trainings
        assert sum(run.cost for run in probes) < for_probes
        seen |= {run.training for run in runs} | probes


def test_a_choice_narrows(place):
    choice = Choice("paper", ("imdb",), sizes=(1000,), settings=("mid",), poolings=("max",), seeds=3)
    runs = plan("training_to_skip", choice, place)
    assert [(run.corpus, run.size, run.setting, run.pooling, run.seed) for run in runs] == [
        ("imdb", 1000, "mid", "max", seed) for seed in range(3)
    ]


def own_file(folder, rows):
    path = folder / "own.csv"
    path.write_text("text,label\n" + "".join(f"word {i},{i % 2}\n" for i in range(rows)))
    return str(path)


def test_names_of_corpora_and_paths_that_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    assert corpora_named("imdb yelp") == ("imdb", "yelp")
    assert corpora_named(None) is None
    path = tmp_path / "my reviews.csv"
    path.touch()
    assert corpora_named([str(path), "imdb"]) == (str(path), "imdb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").touch()
    assert corpora_named("own.csv:text_column=body") == (f"{tmp_path / 'own.csv'}:text_column=body",)


PROBING = ("gradient_propagation", "natural_bias", "word_importance")


@pytest.mark.parametrize("chapter", PROBING)
@pytest.mark.parametrize("profile", ["compact", "paper"])
def test_the_probes_of_both_scales_are_those_that_go_on_record(chapter, profile, place):
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\n")
    runs = [run for run in plan(chapter, Choice(profile), place) if isinstance(run, Probe)]
    rows = pd.DataFrame([run.row() for run in runs]).assign(corpus_complete=True)
    assert probes_of_either_scale(rows).all()
    of_figures = rows[~rows["probe"].eq("first_steps")]
    assert probes_of_record(of_figures).all() == (profile == "paper")


# the compact replication


@pytest.fixture
def compact(place):
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\n")
    return lambda chapter, **more: plan(chapter, Choice("compact", **more), place)


def test_the_compact_replication_is_of_small_models_on_short_texts(compact):
    every = [run for chapter in PLANS for run in compact(chapter)]
    trainings = [run.training for run in every if run.training and run.training.corpus in THESIS_CORPORA]
    trainings = [one for one in trainings if one.hidden_size != 256]  # but where memory is measured
    assert {one.max_words for one in trainings} == {140}
    assert {(one.hidden_size, one.cell) for one in trainings if one.hidden_size != 64} == set()
    assert {one.epochs for one in trainings} == {1, 8, 20, 50}
    of_table = [run for run in compact("training_to_skip") if run.vectors == "glove.6B.100d"]
    assert {run.epochs for run in of_table} == {8}
    assert {run.test for run in of_table if run.corpus == "imdb"} == {2_000}
    assert {run.test for run in of_table if run.corpus != "imdb"} == {None}


@pytest.mark.parametrize("chapter", [name for name in PLANS if name != "learnability"])
def test_what_quick_runs_on_a_published_corpus_is_part_of_the_compact_replication(
    chapter, compact, place
):
    """Except for the tricks, which quick tries on fewer reviews."""
    corpora = None if chapter == "sequence_labelling" else ("imdb",)
    quick = set(plan(chapter, Choice("quick", corpora or ("ud_ewt", "wnut17")), place))
    assert quick <= set(compact(chapter, corpora=corpora))
    assert len(quick) > 10 or chapter == "natural_bias"


def test_trainings_of_record_are_still_planned(place, tmp_path):
    """So that none has to be computed again: those of the thesis's model, padding masked or not."""
    rows = Store(tmp_path, RECORDS).rows("training")
    rows = rows[rows["hidden_size"].eq(256) & rows["epochs"].eq(20) & rows["corpus_complete"].eq(True)]
    recorded = {replace(Training.of_row(row), vectors=VECTORS[0]) for row in rows.to_dict("records")}
    choices = [Choice("paper", masked=masked) for masked in (True, False)]
    runs = {run for choice in choices for name in PLANS for run in plan(name, choice, place)}
    trainings = {run.training for run in runs if run.training}
    assert len(recorded) > 30
    assert recorded - trainings == set()


@pytest.mark.parametrize(
    "narrow", [{"corpora": ("yelp",)}, {"corpora": ("yahoo",), "sizes": (1000,)}, {"corpora": ("own",)}]
)
@pytest.mark.parametrize("chapter", PLANS)
def test_what_is_asked_for_by_name_has_runs_in_every_chapter(chapter, narrow, place, tmp_path):
    """Also where the thesis has no figure: the book needs all chapters."""
    if narrow["corpora"] == ("own",):
        narrow = {"corpora": (own_file(tmp_path, 50),)}
    runs = plan(chapter, Choice("paper", **narrow), place)
    if chapter in PROBING:
        assert {run.training.corpus for run in runs} == set(narrow["corpora"])


@pytest.mark.parametrize("corpora", [None, ("imdb",)])
@pytest.mark.parametrize("chapter", PLANS)
def test_a_narrow_choice_leaves_runs_in_every_chapter(chapter, corpora, place):
    """The status of all chapters, and the book, need some."""
    for setting, pooling in product(SETTINGS, LISTED):
        choice = Choice("quick", corpora, settings=(setting,), poolings=(pooling,), seeds=1)
        assert plan(chapter, choice, place)


THESIS = Training("imdb", "mid", 10_000, "last", vectors="glove.6B.100d")


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
    assert thesis_table(replace(THESIS, **changes)) == tables


def test_a_small_file_is_asked_for_no_more_labels_than_it_has(place, tmp_path):
    rows = [f"text number {n},{'ab'[n % 2]}" for n in range(40)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]))
    file = tmp_path / "mine.csv"
    (count,) = {run.per_class for run in plan("few_shot", Choice(corpora=(str(file),)), place)}
    corpus = load(file)
    assert count < 10
    assert min(corpus.train.labels.count(label) for label in (0, 1)) > count


def test_a_reader_chooses_encoder_labels_systems_unlabelled_texts_and_paraphrases(place, tmp_path):
    file = tmp_path / "p.jsonl"
    file.touch()
    choice = Choice(
        "quick", ("imdb",), encoder="x", labels=(5,), systems=("bert", "uda", "vampire"), seeds=2,
        unlabelled=77, paraphrases=str(file),
    )  # fmt: skip
    asked = plan("few_shot", choice, place)
    assert len(asked) == 6
    for run in asked:
        assert run.per_class == 5
        assert run.encoder == ("x" if run.system != "vampire" else DEFAULT_ENCODER)
        assert run.unlabelled == (77 if run.system != "bert" else 10_000)
        assert run.paraphrases == (str(file) if run.system == "uda" else None)
