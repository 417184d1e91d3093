"""``--only``: which runs it admits, and one line for every mistake."""

from dataclasses import replace

import pytest

from whenpool.base.errors import InputError
from whenpool.runs.filter import TABLES, Only, each_once, planned
from whenpool.runs.kinds.few_shot import FewShot
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
        ("corpus=yelp+yahoo", False),
        ("length=long", True),
        ("length=short", False),
        ("size=1000", True),
        ("size=01000", True),
        ("size=2000+5000", False),
        ("setting=left+mid", True),
        ("setting=standard", False),
        ("pooling=last", True),
        ("pooling=max", False),
        ("seed=2", True),
        ("seed=0+1", False),
        ("system=bert", False),
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


def test_few_shot_runs_have_systems_and_labels_but_no_size():
    assert Only.parse("table=1.9,system=bert+uda,labels=3,seed=1,corpus=yahoo").admits(BERT)
    assert not Only.parse("labels=10").admits(BERT)
    for key in ("size=1000", "setting=mid", "pooling=max_attention"):
        assert not Only.parse(key).admits(BERT)


@pytest.mark.parametrize(
    "corpus",
    ["synthetic:density=0.02,longest=30", "/mine/reviews.csv", "/mine/reviews.csv:text_column=a"],
)
def test_a_corpus_goes_by_its_name_or_file(corpus):
    run = replace(PLAIN, corpus=corpus)
    name = "synthetic" if corpus.startswith("synthetic") else "reviews.csv"
    assert Only.parse(f"corpus={name}").admits(run)
    assert not Only.parse("corpus=imdb").admits(run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--only '' is not key=value, such as table=1.3,corpus=imdb,size=1000+2000"),
        ("imdb", "--only 'imdb' is not key=value, such as table=1.3"),
        ("size=1000,2000", "--only '2000' is not key=value, such as table=1.3"),
        ("=imdb", "--only '=imdb' is not key=value"),
        ("copus=imdb", "--only 'copus' is unknown; choose among table, corpus, length, size, setting"),
        ("size=1K", "--only size takes whole numbers such as 1000+2000, not '1K'"),
        ("size=-1", "--only size takes whole numbers such as 1000+2000, not '-1'"),
        ("seed=first", "--only seed takes whole numbers"),
        ("labels=few", "--only labels takes whole numbers"),
        ("seed=²", "--only seed takes whole numbers such as 1000+2000, not '²'"),
        ("size=1000+", "--only size is given no value; write table=1.3"),
        ("corpus=", "--only corpus is given no value"),
        ("table=1.7", "--only table=1.7 is unknown; choose among 1.3, 1.4, 1.5, 1.6, 1.8, 1.9, 2.1"),
        ("setting=centre", "--only setting=centre is unknown; choose among standard, left, mid, right"),
        ("length=medium", "--only length=medium is unknown; choose among long, short, any"),
        ("system=gpt", "--only system=gpt is unknown; choose among vampire, bert"),
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


def test_each_table_of_the_thesis_has_its_runs(place):
    choice = Choice("paper")
    everything = [run for chapter in PLANS for run in plan(chapter, choice, place)]
    assert {table for run in everything for table in thesis_table(run)} == set(TABLES)
    for table in TABLES:
        found = each_once(planned(choice, place, Only.parse(f"table={table}")))
        assert found
        assert set(found) == {run for run in everything if table in thesis_table(run)}
    assert len(each_once(planned(choice, place, Only.parse("table=1.5+1.6")))) == 2_000
    assert len(each_once(planned(choice, place, Only.parse("table=1.8")))) == 1_000


