"""The thesis's numbers as data, and what the thesis says of them."""

import pytest

from whenpool.book.report.verdicts import FILES, published

CELL = ["length", "corpus", "setting", "size", "pooling"]


@pytest.fixture(scope="module")
def accuracy():
    return published("accuracy")


def test_every_cell_is_there_once(accuracy):
    assert list(accuracy) == ["table", *CELL, "mean", "std"]
    counts = accuracy["table"].value_counts().to_dict()
    assert counts == {"1.3": 180, "1.4": 40, "1.5": 200, "1.6": 200, "1.8": 200}
    assert not accuracy.duplicated(["table", *CELL]).any()
    assert accuracy["mean"].between(0, 100).all()


def test_the_short_tables_repeat_the_full_ones(accuracy):
    """Tables 1.3 and 1.4 are parts of 1.5, 1.6 and 1.8."""
    brief = accuracy[accuracy["table"].isin(["1.3", "1.4"])]
    full = accuracy[~accuracy["table"].isin(["1.3", "1.4"])]
    both = brief.merge(full, on=CELL, suffixes=("", "_full"))
    assert len(both) == len(brief) == 220
    assert (both["mean"] == both["mean_full"]).all()
    assert (both["std"] == both["std_full"]).all()


def test_max_attention_wins_as_often_as_the_thesis_says(accuracy):
    """§1.8.2: MaxAtt best in about 80 % of the columns of Tables 1.3 and 1.4, Att in 18 %."""
    brief = accuracy[accuracy["table"].isin(["1.3", "1.4"])]
    means = brief.pivot(index=["table", *CELL[:-1]], columns="pooling", values="mean")
    best = means.eq(means.max(axis=1), axis=0).sum()
    assert len(means) == 44
    assert (best["max_attention"], best["attention"]) == (35, 8)


def test_what_the_text_says_of_single_cells(accuracy):
    def mean(table, corpus, setting, size, pooling):
        row = accuracy.query(
            "table == @table and corpus == @corpus and setting == @setting and size == @size "
            "and pooling == @pooling"
        )
        return row["mean"].item()

    assert mean("1.5", "amazon", "mid", 25_000, "last") == 7.8  # §1.8.5
    assert mean("1.8", "amazon", "mid", 25_000, "last") == 51.5  # §1.8.5
    for corpus, chance in (("imdb", 50), ("yahoo", 12), ("amazon", 5), ("yelp", 50)):  # §1.8.2
        table = "1.5" if corpus in ("yahoo", "amazon") else "1.6"
        assert mean(table, corpus, "mid", 1000, "last") == pytest.approx(chance, abs=1)


def test_table_2_1_repeats_the_bilstm_of_table_1_3(accuracy):
    learnability = published("learnability")
    row = learnability.query("method == 'last'").set_index("setting")["accuracy"]
    cells = accuracy.query("table == '1.3' and corpus == 'imdb' and size == 10000 and pooling == 'last'")
    means = cells.set_index("setting")["mean"]
    assert row["standard"] == means["standard"] == 86.6
    assert row["mid"] == pytest.approx(means["mid"], abs=0.2)
    assert len(learnability) == 12


def test_table_1_2_in_both_versions():
    vanishing = published("vanishing")
    assert vanishing.groupby("source").size().to_dict() == {"slides": 15, "thesis": 15}
    last = vanishing.query("pooling == 'last' and size == 1000").set_index("source")["ratio"]
    assert last.to_dict() == {"thesis": 3e-4, "slides": 5e-3}
    both = vanishing.pivot_table(
        index=["pooling", "size"], columns="source", values="validation_accuracy"
    )
    assert (both["slides"] == both["thesis"]).all()


def test_the_other_tables():
    corpora = published("corpora").set_index(["table", "corpus"])
    assert corpora.loc[("1.1", "imdb"), "max_length"] == 2470
    assert len(corpora) == 6
    few = published("few_shot")
    assert len(few) == 12
    best = few.query("unlabelled == 'no'").groupby("corpus")["accuracy"].idxmax()
    assert set(few.loc[best, "model"]) == {"max_attention"}  # §1.10.3
    assert set(FILES) == {"accuracy", "corpora", "vanishing", "few_shot", "learnability"}
