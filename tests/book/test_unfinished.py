"""Trainings that are stopped at a random moment, alone and together, and go on to the same bits."""

import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from conftest import empty_place
from small_runs import SMALL, left_by

from paper.runs.kinds import training
from paper.runs.kinds.training import execute_batched
from paper.runs.run import key
from paper.verdicts.results import began
from whenpool.base.errors import StorageError
from whenpool.corpora.batches import Texts

LONGER = replace(SMALL, epochs=6, batch_size=8)
LEARNT = ("dropout_attention", "teacher_forcing", "gradient_directed")
ALONE = {trick: replace(LONGER, pooling="last", trick=trick) for trick in LEARNT}
ALONE["drop_connect"] = replace(
    LONGER, drop_connect=0.3
)  # draws from torch's generator in each step
GROUP = [
    replace(LONGER, pooling=pooling, seed=seed) for pooling in ("last", "max") for seed in (0, 1)
]


class StoppedError(Exception):
    """As a kill: nothing is tidied up."""


@pytest.fixture
def read(monkeypatch):
    """How many batches models have read, and at which of them all stops."""
    count, batch = {"read": 0, "stop": None}, Texts.batch
    monkeypatch.setattr(training, "EVERY", 0.0)

    def counted(texts, *which):
        count["read"] += 1
        if count["read"] == count["stop"]:
            raise StoppedError
        return batch(texts, *which)

    monkeypatch.setattr(Texts, "batch", counted)
    return count


def stopped(read, stop, execute):
    """Whether it was stopped before it reads so many batches."""
    read.update(read=0, stop=stop)
    with suppress(StoppedError):
        execute()
        return False
    return True


def left(place):
    return sorted(file.name for file in (place.store.directory / "unfinished").glob("*"))


def found(run, place):
    row = place.store.get(key(run, place))
    return left_by(run, place), row["provenance"]["together"]


def forget(run, place):
    place.store.directory.joinpath(f"{key(run, place)}.json").unlink()


@pytest.mark.parametrize(
    "runs", [*([run] for run in ALONE.values()), GROUP], ids=[*ALONE, "together"]
)
def test_what_is_stopped_goes_on_to_the_same_bits(place, tmp_path, read, runs):
    apart = empty_place(tmp_path / "apart")

    def execute(where):
        if len(runs) > 1:
            execute_batched(runs, where, "cpu", [True] * len(runs))
        else:
            runs[0].execute(where, keep_weights=True)

    if runs[0].needs:
        for where in (place, apart):
            runs[0].needs.execute(where, keep_weights=True)
    assert not stopped(read, None, lambda: execute(place))
    whole, chance = read["read"], random.Random(3)
    for first, last in ((whole // 3, whole // 2), (whole // 4, whole // 3)):
        assert stopped(read, chance.randint(first, last), lambda: execute(apart))
        assert left(apart)
    assert not stopped(read, None, lambda: execute(apart))
    assert read["read"] < whole  # the rest alone
    assert [found(run, apart) for run in runs] == [found(run, place) for run in runs]
    assert left(apart) == left(place) == []


def test_the_start_is_on_record_and_a_watched_training_takes_nothing_over(place, read, monkeypatch):
    early, late = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
    monkeypatch.setattr(training, "datetime", Mock(now=lambda zone: early))
    assert stopped(read, 12, lambda: execute_batched(GROUP, place, "cpu", [False] * 4))
    monkeypatch.setattr(training, "datetime", Mock(now=lambda zone: late))
    read.update(read=0, stop=None)
    GROUP[0].execute(place)
    GROUP[1].execute(place, watch=lambda seen: None)
    made = [place.store.get(key(run, place))["provenance"] for run in GROUP[:2]]
    assert [each["together"] for each in made] == [4, 1]
    assert [each["started"] for each in made] == [early.isoformat(), late.isoformat()]
    rows = place.store.current("training")
    assert sorted(began(rows)) == [early, late]
    older = rows.assign(started=None, seconds=10.0, finished="2026-01-03T00:01:00+00:00")
    assert {early_by.second for early_by in began(older)} == {20, 50}  # of four together, of one


def test_a_part_of_a_group_goes_on_from_its_epoch(place, read):
    execute_batched(GROUP[:2], place, "cpu", [False] * 2)
    whole = read["read"]
    for run in GROUP[:2]:
        forget(run, place)
    assert stopped(read, whole * 2 // 3, lambda: execute_batched(GROUP, place, "cpu", [False] * 4))
    read.update(read=0, stop=None)
    execute_batched(GROUP[:2], place, "cpu", [False] * 2)
    assert read["read"] < 0.75 * whole


@pytest.mark.parametrize("what", ["version", "damaged", "full", "gone"])
def test_what_cannot_be_used_is_ignored_and_the_training_begins_anew(
    place, read, monkeypatch, what
):
    LONGER.execute(place)
    whole, result = read["read"], found(LONGER, place)
    forget(LONGER, place)
    if what == "full":
        full = Mock(side_effect=StorageError("No space left on device"))
        monkeypatch.setattr(training, "write_atomically", full)
    assert stopped(read, whole // 2, lambda: LONGER.execute(place))
    if what == "version":
        monkeypatch.setattr(training, "CODE", "another")
    if what == "gone":  # since the folder was listed
        (file,) = (place.store.directory / "unfinished").glob("*.pt")
        file.unlink()
        file.symlink_to("nowhere")
    if what == "damaged":
        (file,) = (place.store.directory / "unfinished").glob("*.pt")
        file.write_bytes(file.read_bytes()[:-1000])
    assert not stopped(read, None, lambda: LONGER.execute(place))
    assert read["read"] == whole
    assert (found(LONGER, place), left(place)) == (result, [])
