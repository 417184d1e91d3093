"""What "What the last state holds" rests on: starts of gates, parts that are held, draws, shuffled
labels, the states of untrained models, and looks at held-out texts."""

import copy
import itertools
import shutil
from dataclasses import replace

import pytest
import torch
from called import refused
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_runs import TINY, fresh, left_by, result_of

from paper.runs.kinds.probe import (
    PENALTIES,
    GradientTrace,
    StatesCourse,
    UntrainedStates,
    Valleys,
)
from paper.runs.kinds.training import prepare, trained
from paper.runs.run import key
from paper.verdicts.results import PLAIN, Runs, has
from whenpool.corpora.settings import filler_lengths
from whenpool.training.loop import evaluate, train

SMALL = replace(
    TINY,
    corpus=TINY.corpus.replace("train=60", "train=120"),
    setting="mid",
    size=40,
    learning_rate=1e-2,
)
LOOKED = {"texts": 5, "sample": 10, "shortest": 40, "longest": 50}


@pytest.mark.parametrize("held", ["W_hh", "encoder"])
def test_what_is_held_stays_as_it_was_and_the_rest_learns(place, held):
    run = replace(SMALL, held=held)
    run.execute(place, keep_weights=True)
    before, after = (dict(make(run, place).model.named_parameters()) for make in (prepare, trained))
    for name, weights in after.items():
        still = "weight_hh" in name if held == "W_hh" else not name.startswith("classifier")
        assert torch.equal(weights, before[name]) == still, name


def test_draws_share_no_text_and_shuffled_labels_are_the_same_in_another_order(place):
    drawn = [
        prepare(replace(SMALL, setting="standard", draw=draw), place).dataset for draw in (0, 1)
    ]
    words, other = (
        [tuple(own.vocabulary[n] for n in row) for row in own.train.ids.to_lists()] for own in drawn
    )
    assert not {*words} & {*other}
    assert len(other) == len(words) == 40
    refused("120 train texts, but 160 were asked for", prepare, replace(SMALL, draw=3), place)
    plain, mixed = (
        prepare(replace(SMALL, shuffled=own), place).dataset.train for own in (False, True)
    )
    assert torch.equal(plain.ids.flat, mixed.ids.flat)
    assert not torch.equal(plain.labels, mixed.labels)
    assert torch.equal(plain.labels.sort().values, mixed.labels.sort().values)


def test_fresh_filler_is_another_in_every_epoch_and_leaves_text_and_labels(place):
    run, seen = replace(SMALL, fresh=True, epochs=3), []
    start, usual = prepare(run, place), prepare(SMALL, place).dataset.train
    first = start.dataset.train.ids.to_lists()
    assert first == usual.ids.to_lists()

    def watch(texts):
        if texts % run.size == 1 or not texts % run.size:
            seen.append(start.dataset.train.ids.to_lists())

    run.execute(place, prepared=start, watch=watch)
    assert seen[0] == seen[1] == first  # before the first step, and after the first epoch
    assert usual.ids.to_lists() == first  # of other runs
    for before, after in itertools.pairwise([first, *seen[2:]]):
        for old, new in zip(before, after, strict=True):
            left, right = filler_lengths(round(len(old) * (1 - run.share)), "mid", run.share)
            middle = slice(left, len(old) - right)
            assert old[middle] == new[middle]
            assert old[:left] != new[:left]
    assert key(run, place) != key(replace(run, fresh=False), place)


def regressed(model, dataset):
    """The test accuracy of the regression on the last state, the mean and the maximum, text by
    text."""
    splits, found = (dataset.train, dataset.validation, dataset.test), {}
    states = []  # of each split (3, N, D)
    for texts in splits:
        rows = []
        for index in range(len(texts)):
            ids, lengths, _ = texts.batch(torch.tensor([index]), 1)
            h = model.encode(model.embed(ids), lengths)[0].detach()
            ends = torch.cat([h[-1, :6], h[0, 6:]])
            rows.append(torch.stack([ends, h.mean(0), h.max(0).values]))
        states.append(torch.stack(rows, dim=1).numpy())
    for name, *values in zip(("last", "mean", "max"), *states, strict=True):
        train, *others = zip(values, (texts.labels for texts in splits), strict=True)
        scores = []
        for C in PENALTIES:
            regression = LogisticRegression(C=C, max_iter=300)
            model = make_pipeline(StandardScaler(), regression).fit(*train)
            scores.append([model.score(*split) for split in others])
        _, best = max(scores, key=lambda score: score[0])
        found[name] = pytest.approx(100 * best, abs=100 / 40 + 0.01)
    return found


def test_untrained_states_are_read_by_the_regression_that_validates_best(place):
    probe = UntrainedStates(replace(SMALL, size=80, forget_bias=2.0))
    prepared = prepare(probe.training, place)
    found, rows = probe.measure(prepared.model, prepared.dataset)
    expected = regressed(prepared.model.eval(), prepared.dataset)
    assert {row["readout"]: row["accuracy"] for row in rows} == expected
    assert {name: found[f"accuracy_{name}"] for name in expected} == expected
    assert found["majority_accuracy"] == 50


def test_a_course_reads_the_states_of_the_model_as_it_is_then(place):
    run = replace(SMALL, through="max", epochs=5, drop_connect=0.2)
    row, seen, start = place.store.get(StatesCourse(run).execute(place)), {}, prepare(run, place)

    def watch(texts):
        if texts % run.size:
            return
        model = copy.deepcopy(start.model).eval()
        seen[texts] = regressed(model, start.dataset) | {
            "own": evaluate(model, start.dataset.test).accuracy
        }

    run.execute(fresh(place, "again"), prepared=start, watch=watch)
    assert [look["examples"] // run.size for look in row["history"][::2]] == [0, 1, 2, 4, 5]
    for look in row["history"]:
        expected = seen[look["examples"]]
        assert look["accuracy"] == expected[look["readout"]]
        assert look["own_accuracy"] == expected["own"]
    last = {f"accuracy_{look['readout']}": look["accuracy"] for look in row["history"][-2:]}
    assert last.items() <= row["result"].items()


def test_held_out_texts_of_a_length_that_none_has_are_named(place):
    refused(
        "no test text has 900 to 990 words",
        GradientTrace(SMALL, shortest=900, longest=990).execute,
        place,
    )


@pytest.mark.parametrize("kind", [GradientTrace, Valleys, StatesCourse])
def test_a_trace_of_a_training_on_record_repeats_it_up_to_the_last_look(place, kind, monkeypatch):
    probe, seen = kind(replace(SMALL, epochs=6), until=150, **LOOKED), []
    whole = fresh(place, "whole")
    probe.execute(whole)
    before = place.store.get(probe.training.execute(place))  # without weights, as a published one

    def counted(*arguments, watch, **options):
        return train(*arguments, watch=lambda n: (seen.append(n), watch(n)), **options)

    monkeypatch.setattr("paper.runs.kinds.training.train", counted)
    probe.execute(place)
    assert 150 <= max(seen) < 150 + probe.training.batch_size < 6 * probe.training.size
    assert left_by(probe, place) == left_by(probe, whole)
    assert len(left_by(probe, place)[0]) > 2
    assert place.store.get(key(probe.training, place)) == before
    assert result_of(probe, place)["seconds"] > 0


def test_a_training_that_another_command_stores_meanwhile_stays_as_it_is(place, monkeypatch):
    probe, other = GradientTrace(SMALL, **LOOKED), fresh(place, "other")
    probe.training.execute(other)
    (stored,) = other.store.directory.glob("*.json")

    def interrupted(*arguments, **options):
        outcome = train(*arguments, **options)
        place.store.directory.mkdir(exist_ok=True)
        shutil.copy(stored, place.store.directory)  # as another command would
        return outcome

    monkeypatch.setattr("paper.runs.kinds.training.train", interrupted)
    probe.execute(place)
    assert (place.store.directory / stored.name).read_bytes() == stored.read_bytes()
    assert place.store.has(key(probe, place))


def test_other_ways_back_and_clipped_steps_are_other_runs_with_other_names(place):
    changes = [{}, {"backward": "open"}, {"backward": "even"}, {"clip": 0.25}, {"through": "max"}]
    runs = [replace(SMALL, **change) for change in changes]
    for run in runs:
        run.execute(place)
    rows = Runs(place).table("training").set_index("key").loc[[key(run, place) for run in runs]]
    names = ["", ", open memory", ", even gradient", "", ", through max"]
    assert rows["model"].tolist() == [f"last{name}" for name in names]
    usual = has(rows, {"model": "last", "clip": PLAIN["clip"]})
    assert usual.tolist() == [True, *[False] * 4]
