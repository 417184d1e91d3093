"""What probe runs measure, against small models whose answers are known, and loops by hand;
accuracy as filler is added at test time, and the memory of a training step."""

import copy
from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pandas as pd
import pytest
import torch
from called import refused
from small_runs import TINY, fresh, left_by
from torch import nn

from paper.runs.kinds import probe as kinds
from paper.runs.kinds.training import prepare
from whenpool import POOLINGS, TextClassifier
from whenpool.corpora.batches import PADDING_INDEX
from whenpool.corpora.settings import compose
from whenpool.probes import gradient_norms, gradient_profile, padding_sweep, step_megabytes
from whenpool.training.loop import evaluate

TRACED = replace(TINY, corpus=TINY.corpus.replace("train=60", "train=136"), size=136, batch_size=8)


def test_the_ratio_is_a_quotient_of_means_and_a_profile_the_mean_and_the_median(shared):
    """Over texts, of the word in the middle and the first one; not a mean of quotients. A trace
    also has that of the places 45 to 54 of 100 over the first, of the mean profile."""
    prepared = prepare(TINY, shared)
    batch = prepared.dataset.train.first(9).batch(torch.arange(9), PADDING_INDEX)
    norms, lengths = gradient_norms(prepared.model, *batch), batch.lengths
    profiles = gradient_profile(norms, lengths).numpy()
    middle = [row[n // 2].item() for row, n in zip(norms, lengths.tolist(), strict=True)]
    result, rows = kinds.GradientProfile(TINY, texts=9).measure(prepared.model, prepared.dataset)
    (look,) = kinds.GradientTrace(TINY, texts=9).see(prepared.model, prepared.dataset)
    assert look["ratio"] == pytest.approx(np.mean(middle) / norms[:, 0].mean().item(), rel=1e-4)
    mean, found = profiles.mean(0), pd.DataFrame(rows)
    assert look["band_ratio"] == pytest.approx(mean[45:55].mean() / mean[0], rel=1e-4)
    assert (result, found["position"].tolist()) == ({"texts_probed": 9}, list(range(1, 101)))
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-4)
    # of an odd number of texts: of an even one torch takes the lower of the two in the middle
    np.testing.assert_allclose(found["median"], np.median(profiles, axis=0), rtol=1e-4)


@pytest.mark.parametrize(
    "options", [{"drop_connect": 0.5}, {"cell": "gru", "masked": False, "pooling": "max"}], ids=str
)
def test_a_trace_leaves_the_training_as_it_is_without_one(place, options):
    training = replace(TRACED, **options)
    alone = fresh(place, "alone")
    name = training.execute(alone, keep_weights=True)
    before = torch.random.get_rng_state()
    traced = kinds.GradientTrace(training, texts=8, sample=16).execute(place)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert left_by(training, place) == left_by(training, alone)
    row = place.store.get(traced)
    assert [look["examples"] for look in row["history"]] == [0, 128, 256]
    assert (
        len({look["ratio"] for look in row["history"]}) == 3
    )  # it did look at a model that learns
    assert row["result"]["training"] == name


def test_first_steps_are_those_of_a_plain_loop_over_single_texts(shared):
    """Each text is looked at before the model learns from it; Adam, in the order that the seed
    draws."""
    training = replace(TINY, learning_rate=0.05, weight_decay=0.01, seed=3)
    prepared = prepare(training, shared)
    result, rows = kinds.FirstSteps(training, texts=9).measure(prepared.model, prepared.dataset)
    model = prepare(training, shared).model
    texts = prepared.dataset.train.first(9)
    torch.manual_seed(training.seed)
    order, profiles = torch.randperm(9), []
    rates = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    adam = torch.optim.Adam(model.parameters(), **rates)
    for number in order.split(1):
        ids, length, label = texts.batch(number, PADDING_INDEX)
        profiles.append(
            gradient_profile(gradient_norms(model, ids, length, label), length)[0].numpy()
        )
        adam.zero_grad()
        nn.functional.cross_entropy(model(ids, length), label).backward()
        adam.step()
    mean = np.mean(profiles, axis=0)
    assert [row["position"] for row in rows] == list(range(1, 101))
    assert [row["mean"] for row in rows] == pytest.approx(mean.tolist(), rel=1e-3)
    assert result == {"texts_probed": 9}


@pytest.mark.parametrize("pooling", ["last", "max_attention", "mean"])
def test_of_each_direction_alone_the_other_half_of_the_embedding_is_zero(shared, pooling):
    """Against a classifier whose weights of the other half are zero."""
    training = replace(TINY, pooling=pooling)
    prepared, units = prepare(training, shared), training.hidden_size
    model, texts, seen = prepared.model, prepared.dataset.test.first(30), []
    watch = model.classifier.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad(), watch:
        evaluate(model, texts)
        mean = torch.cat(seen).mean(0)[:units]  # so that half is undecided
        model.classifier.bias.copy_(-model.classifier.weight[:, :units] @ mean)
    result, rows = kinds.DirectionUse(training, texts=30).measure(model, prepared.dataset)
    halves = {"both": slice(0), "forward": slice(units, None), "backward": slice(units)}
    expected = {}
    for name, zeros in halves.items():
        halved = copy.deepcopy(model)
        halved.classifier.weight.data[:, zeros] = 0
        expected[name] = evaluate(halved, texts).accuracy
    assert {row["direction"]: row["accuracy"] for row in rows} == expected
    assert result == {"texts_probed": 30} | {f"accuracy_{name}": v for name, v in expected.items()}
    assert expected["forward"] != expected["backward"]
    assert not model.classifier._forward_pre_hooks


WORDS = 40
DRAW = torch.Generator().manual_seed(0)
TEXTS = [torch.randint(10, WORDS, (n,), generator=DRAW).tolist() for n in (7, 3, 12, 1, 30, 9, 20)]
LABELS = [0, 1, 2, 1, 0, 2, 1]
FILLER = [[2, 3, 4], [5, 6], [7, 8, 9, 2, 3], [4]]


def swept(pooling="mean", bias=0.1):
    torch.manual_seed(1)
    model = TextClassifier(
        WORDS, 3, pooling, embedding_size=5, hidden_size=4, padding_index=1
    ).double()
    torch.nn.init.constant_(model.classifier.bias, bias)
    return model


def by_hand(model, setting, share):
    """One text at a time, as the definition reads: accuracy, loss and words."""
    stream, found = cycle(FILLER), []
    for text, label in zip(TEXTS, LABELS, strict=True):
        whole = compose(text, stream, setting, share)
        logits = model(torch.tensor([whole]), torch.tensor([len(whole)]))[0].detach()
        found.append((100 * (logits.argmax() == label), -logits.log_softmax(0)[label], len(whole)))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_agrees_with_one_text_at_a_time(pooling):
    model = swept(pooling)
    points = padding_sweep(model, TEXTS, LABELS, FILLER, shares=(0, 0.3, 0.66), max_words=64)
    model.eval()
    asked = product(("left", "mid", "right"), (0, 0.3, 0.66))
    for point, (setting, share) in zip(points, asked, strict=True):
        assert (point.setting, point.share) == (setting, share)
        assert (point.accuracy, point.loss, point.words) == pytest.approx(
            by_hand(model, setting, share)
        )


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"texts": [], "labels": []}, "there is no text; give"),
        ({"labels": [0, 1, 1]}, r"2 texts need 2 labels, not \(3,\)"),
        ({"labels": [0.9, 1]}, "labels must be whole numbers"),
        ({"labels": ["a", "b"]}, "labels must be whole numbers"),
        ({"texts": [[3], [99]]}, "ids have the word 99, but the model knows"),
        ({"filler": []}, "there is no filler sentence"),
        ({"shares": (0.5, 1.0)}, r"in \[0, 1\), not 1.0"),
        (
            {"settings": ("left", "top")},
            "swept setting 'top' is unknown; choose one of left, mid, right",
        ),
        ({"model": swept(bias=torch.nan)}, "TextClassifier gives logits that are no numbers"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(changes, message):
    given = {"model": swept(), "texts": [[3, 4], [5]], "labels": [0, 1], "filler": FILLER}
    refused(message, padding_sweep, **given | changes)
    assert given["model"].training


@pytest.mark.parametrize(
    "cell, plain", [("transformer", True), ("transformer", False), ("lstm", False)]
)
def test_scores_that_are_kept_grow_with_the_square_and_nothing_else_does(cell, plain):
    model = TextClassifier(10, 2, cell=cell, embedding_size=6, hidden_size=8)
    if plain:
        model.encoder.attention = "plain"
    taken = []
    for words in (512, 1_024, 2_048):
        text = torch.arange(words)[None] % 10, torch.tensor([words]), torch.tensor([1])
        taken.append({"words": words, "megabytes": step_megabytes(model, *text)})
    assert kinds.growth(taken) > 1.9 if plain else kinds.growth(taken) < 1.1
