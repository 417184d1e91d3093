"""Which runs a profile asks for."""

from collections import Counter

import pytest

from whenpool import InputError
from whenpool.choice import Choice, corpora_named
from whenpool.plans import PLANS, plan, thesis_table
from whenpool.report.paper import published


@pytest.fixture
def paper_runs(place):
    return plan("training_to_skip", Choice("paper"), place)


def test_the_paper_is_three_thousand_trainings(paper_runs):
    assert len(paper_runs) == len(set(paper_runs)) == 3000
    assert Counter(run.length for run in paper_runs) == {"long": 2000, "short": 1000}
    tables = Counter(table for run in paper_runs for table in thesis_table(run))
    assert tables == {"1.3": 900, "1.4": 200, "1.5": 1000, "1.6": 1000, "1.8": 1000}


def test_they_are_the_cells_of_the_thesis(paper_runs):
    ours = {
        (table, run.length, run.corpus, run.setting, run.size, run.pooling)
        for run in paper_runs
        for table in thesis_table(run)
    }
    columns = ["table", "length", "corpus", "setting", "size", "pooling"]
    theirs = set(published("accuracy")[columns].itertuples(index=False, name=None))
    assert ours == theirs


def test_they_follow_the_protocol_of_the_thesis(paper_runs):
    for run in paper_runs:
        assert (run.hidden_size, run.embedding_size, run.layers, run.cell) == (256, 100, 1, "lstm")
        assert (run.epochs, run.batch_size, run.learning_rate) == (20, 32, 2e-3)
        assert run.vectors
        assert run.max_words is None
        assert run.masked
    assert {run.seed for run in paper_runs} == set(range(5))


@pytest.mark.parametrize("profile", ["smoke", "quick"])
def test_small_profiles_need_no_data_and_stay_in_their_budget(profile, place):
    for chapter in PLANS:
        runs = plan(chapter, Choice(profile), place)
        assert all(run.corpus.startswith("synthetic") for run in runs)
        words = sum(
            run.size * run.epochs * 120 / (1 if run.setting == "standard" else 1 - run.share)
            for run in runs
        )
        assert words < 25e6 * 1.02


def test_quick_has_two_seeds_where_the_question_is(place):
    runs = plan("training_to_skip", Choice("quick"), place)
    seeds = Counter((run.setting, run.pooling) for run in runs)
    assert {seeds[setting, "last"] for setting in ("standard", "mid")} == {2}
    assert {seeds[setting, "last"] for setting in ("left", "right")} == {1}


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


def test_own_files_and_quick_real_corpora(place, tmp_path):
    run = plan("training_to_skip", Choice("quick", (own_file(tmp_path, 1000),)), place)[0]
    assert (run.length, run.size, run.vectors) == ("any", 500, None)
    run = plan("training_to_skip", Choice("quick", (own_file(tmp_path, 50),)), place)[0]
    assert run.size == 30
    run = plan("training_to_skip", Choice("quick", ("imdb",)), place)[0]
    assert (run.length, run.size, run.max_words, run.hidden_size) == ("long", 1000, 140, 64)
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\n")
    assert plan("training_to_skip", Choice("quick", ("imdb",)), place)[0].vectors == "glove.6B.100d"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "quik"}, "profile 'quik' is unknown; choose one of smoke, quick, paper"),
        ({"settings": ("centre",)}, "setting 'centre' is unknown; choose one of standard, left"),
        ({"poolings": ("maximum",)}, "pooling 'maximum' is unknown; choose one of last, mean"),
        ({"seeds": 0}, "seeds is how many, at least 1, not 0"),
        ({"sizes": (0,)}, "sizes are numbers of training texts, not 0"),
    ],
)
def test_bad_choices_are_named(options, message):
    with pytest.raises(InputError, match=message):
        Choice(**options)


def test_unknown_chapters_are_named(place):
    with pytest.raises(InputError, match="chapter 'indx' needs no runs; those that do are corpora"):
        plan("indx", Choice(), place)


def test_several_corpora_are_separated_by_spaces_and_a_path_may_hold_some(tmp_path):
    assert corpora_named("imdb yelp") == ("imdb", "yelp")
    assert corpora_named(None) is None
    path = tmp_path / "my reviews.csv"
    path.write_text("")
    assert corpora_named(str(path)) == (str(path),)
    assert corpora_named([str(path), "imdb"]) == (str(path), "imdb")


def test_paths_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").write_text("")
    expected = (f"{tmp_path / 'own.csv'}:text_column=body",)
    assert corpora_named("own.csv:text_column=body") == expected


def test_sizes_that_a_profile_does_not_have_are_named(place):
    with pytest.raises(InputError, match="no runs with 3000 training texts; imdb has 1000, 2000"):
        plan("training_to_skip", Choice("paper", ("imdb",), sizes=(3000,)), place)


def test_unmasked_runs_stand_in_no_table_of_the_thesis(place):
    runs = plan("training_to_skip", Choice("paper", ("imdb",), sizes=(1000,), masked=False), place)
    assert len(runs) == 100
    assert not any(run.masked for run in runs)
    assert {thesis_table(run) for run in runs} == {()}
    synthetic = plan("training_to_skip", Choice("paper", ("synthetic",)), place)
    assert {thesis_table(run) for run in synthetic} == {()}
