"""Kinds of runs: what each says of itself, and that a new one is one file and one line."""

import json

import pandas as pd
import pytest
from fifth_kind import CoinToss

from whenpool.book.chapter import Chapter
from whenpool.book.publish import export
from whenpool.runs.compute import compute, standing
from whenpool.runs.engine import Workforce
from whenpool.runs.estimates import Pace
from whenpool.runs.filter import Only, planned
from whenpool.runs.kinds import KINDS
from whenpool.runs.plans import chapters
from whenpool.runs.request import Choice
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store, kind_of

RUNS = [CoinToss(seed=seed, tosses=100) for seed in range(3)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setitem(chapters.PLANS, "coins", lambda choice, place: RUNS[: choice.seeds])
    return Place(Store(tmp_path / "store", tmp_path / "records"), tmp_path, tmp_path)


def test_a_fifth_kind_is_planned_executed_stored_resumed_published_and_shown(place, tmp_path):
    assert planned(Choice(seeds=2), place, Only(), ["coins"]) == {"coins": RUNS[:2]}
    assert planned(Choice(), place, Only.parse("seed=1"), ["coins"]) == {"coins": RUNS[1:2]}

    first = compute(RUNS[:2], place, Workforce(workers=1), say=print)
    again = compute(RUNS, place, Workforce(workers=1), say=print)
    assert (first.done, again.done, again.failed) == (2, 1, {})
    assert list(standing(RUNS, place).done) == RUNS
    assert Pace.measured(place, Workforce()).seconds(RUNS[0]) == pytest.approx(0.1)

    table = Chapter("coins", Choice(), place).rows("coin")
    assert table["key"].tolist() == [key(run, place) for run in RUNS]
    assert [CoinToss.of_row(row) for row in table.to_dict("records")] == RUNS
    assert table["heads"].between(25, 75).all()
    tosses = place.store.history("coin").groupby("key")["heads"].last()
    assert tosses.to_dict() == table.set_index("key")["heads"].to_dict()

    folder = tmp_path / "records"
    assert export("coin", place, folder) == 3
    assert sorted(file.name for file in folder.iterdir()) == ["coins.csv", "coins_history.csv"]
    elsewhere = Place(Store(tmp_path / "other", folder), tmp_path, tmp_path)
    assert compute(RUNS, elsewhere, say=print).done == 0
    pd.testing.assert_frame_equal(
        elsewhere.store.rows("coin").set_index("key").sort_index()[["seed", "heads"]],
        table.set_index("key").sort_index()[["seed", "heads"]],
    )
    damaged = (folder / "coins.csv").read_text().replace(str(table["heads"][0]), "many", 1)
    (folder / "coins.csv").write_text(damaged)
    with pytest.raises(ValueError, match=r"coins\.csv, row \d, column .*many"):
        Store(tmp_path / "other", folder).rows("coin")


def test_a_stored_file_says_its_kind_and_older_ones_are_told_apart(place):
    name = RUNS[0].execute(place)
    file = place.store.directory / f"{name}.json"
    row = json.loads(file.read_text())
    assert row["kind"] == "coin"
    assert {kind: kind_of({"run": {mark: 1}}) for kind, mark in (
        ("training", "pooling"), ("probe", "probe"), ("few-shot", "system"), ("tagging", "encoding"),
    )} == {kind: kind for kind in KINDS if kind != "coin"}  # fmt: skip
    file.write_text(json.dumps(row | {"kind": "dice"}))
    assert place.store.get(name) is None
    assert "its kind 'dice' is unknown" in place.store.set_aside[0]


@pytest.mark.parametrize("kind", ["training", "probe", "few-shot", "tagging"])
def test_the_columns_of_record_are_those_of_the_kind(kind):
    about = KINDS[kind]
    columns = about.columns()
    assert {"key", "protocol"} < columns.required
    assert not columns.numbers & columns.flags
    for history in about.histories:
        assert about.point_columns(history).required > {"key"}
