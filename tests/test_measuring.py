"""What probe runs measure, against small models whose answers are known, and loops by hand."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from small_runs import TINY
from torch import nn

from whenpool.corpora.batches import PADDING_INDEX, Ragged, Texts
from whenpool.corpora.dataset import Dataset
from whenpool.probes import gradient_norms, gradient_profile, nwi, padding_sweep
from whenpool.runs.kinds import probe as kinds
from whenpool.runs.kinds.probe import DirectionUse, GradientProfile, PaddingSweep, Tracer, WordImportance
from whenpool.runs.kinds.training import prepare, trained
from whenpool.training.loop import evaluate

TRACED = replace(TINY, corpus=TINY.corpus.replace("train=60", "train=136"), size=136, batch_size=8)


@pytest.fixture(scope="module")
def plain(shared):
    """Texts of 10 to 20 words and a model that has learnt nothing."""
    prepared = prepare(TINY, shared)
    return prepared.model, prepared.dataset


def dataset_of(rows, labels):
    texts = Texts(Ragged.of(rows), torch.tensor(labels))
    return Dataset(texts, texts, texts, ["<unk>", "<pad>"], None, ("0", "1"), {}, None)


class Known(nn.Module):
    """The gradient at a word of a text of n words is WEIGHTS[n], up to a factor that is the same for
    all: the states are zero, so that both classes get one half."""

    WEIGHTS = {2: [1.0, 3.0], 4: [2.0, 0.0, 4.0, 0.0], 5: [1.0, 0.0, 5.0, 0.0, 0.0]}  # noqa: RUF012

    def __init__(self, masked=True):
        super().__init__()
        self.masked, self.batches = masked, []
        self.scale = nn.Parameter(torch.ones(1))

    def embed(self, ids):
        return torch.zeros(*ids.shape, 1)

    def encode(self, embedded, lengths):
        self.batches.append(lengths.tolist())
        return embedded * 1.0

    def classify(self, states, lengths):
        weights = [torch.tensor(self.WEIGHTS.get(n, [1.0] * n)) for n in lengths.tolist()]
        score = [w @ row[: len(w), 0] for w, row in zip(weights, states, strict=True)]
        score = self.scale * torch.stack(score)
        return torch.stack([score, -score], dim=1)

    def forward(self, ids, lengths):
        return self.classify(self.encode(self.embed(ids), lengths), lengths)


def test_the_ratio_is_a_quotient_of_means_and_a_profile_the_mean_and_the_median_at_100_places():
    """Word ⌊n/2⌋, counted from 0, over the first: (4 + 3 + 5) / (2 + 1 + 1); not (2 + 3 + 5) / 3. A trace
    also has that of the places 45 to 54 of 100 over the first, of the mean profile."""
    texts, places = dataset_of([[2] * 4, [3] * 2, [4] * 5], [0, 1, 1]), np.linspace(0, 1, 100)
    profiles = [np.interp(places, np.linspace(0, 1, n), Known.WEIGHTS[n]) for n in (4, 2, 5)]
    result, rows = GradientProfile(TINY).measure(Known(), texts)
    tracer = Tracer(kinds.GradientTrace(TINY, texts=3), Known(), texts)
    tracer(0)
    assert result["ratio"] == pytest.approx(3.0) == tracer.rows[0]["ratio"]
    assert result["texts_probed"] == 3
    mean, median = np.mean(profiles, axis=0), np.median(profiles, axis=0)
    assert tracer.rows[0]["band_ratio"] == pytest.approx(mean[45:55].mean() / mean[0], rel=1e-4)
    assert abs(tracer.rows[0]["band_ratio"] - 3) > 0.1
    factor, found = rows[0]["mean"] / mean[0], pd.DataFrame(rows)
    assert found["position"].tolist() == list(range(1, 101))
    np.testing.assert_allclose(found[["mean", "median"]].T, [factor * mean, factor * median], rtol=1e-4)
    in_the_middle = (mean[49] + mean[50]) / (mean[0] + mean[99])
    assert result["middle_to_ends"] == pytest.approx(in_the_middle, rel=1e-4)


@pytest.mark.parametrize(("step", "last", "expected"), [
    (32, 2_000, [*range(0, 1_281, 128), 1_408, 1_568, 1_728, 1_920]),
    (100, 1_700, [0, 200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600]),
    (1, 300, [0, 128, 256]),
])  # fmt: skip
def test_a_trace_looks_after_128_texts_and_later_when_a_tenth_has_come(plain, step, last, expected):
    model, dataset = plain
    tracer = Tracer(kinds.GradientTrace(TINY, texts=2, sample=2), model, dataset)
    for seen in range(0, last + 1, step):
        tracer(seen)
    assert [row["examples"] for row in tracer.rows] == expected
    looks = [(0, 0.5, 50.0), (128, 0.4, 94.9), (256, 0.3, 95.0), (384, 0.2, 99.0)]  # what it comes to
    rows = [dict(zip(("examples", "ratio", "train_accuracy"), look, strict=True)) for look in looks]
    for tracer.rows, ratio, examples in ((rows[:2], None, None), (rows, 0.3, 256)):
        found = {"ratio_at_start": 0.5, "ratio_at_95": ratio, "examples_at_95": examples}
        assert tracer.result() == found


@pytest.mark.parametrize(
    "options", [{"drop_connect": 0.5}, {"cell": "gru", "masked": False, "pooling": "max"}], ids=str
)
def test_a_trace_leaves_the_training_as_it_is_without_one(place, options):
    training = replace(TRACED, **options)
    alone = replace(place, store=type(place.store)(place.store.directory.with_name("alone")))
    name = training.execute(alone, keep_weights=True)
    before = torch.random.get_rng_state()
    traced = kinds.GradientTrace(training, texts=8, sample=16).execute(place)
    assert torch.equal(torch.random.get_rng_state(), before)

    def left(store):
        row = store.get(name)
        parts = [{**part, "seconds": 0} for part in (row["result"], *row["history"])]
        return parts, store.weights_file(name).read_bytes()

    assert left(place.store) == left(alone.store)
    row = place.store.get(traced)
    assert [look["examples"] for look in row["history"]] == [0, 128, 256]
    assert len({look["ratio"] for look in row["history"]}) == 3  # it did look at a model that learns
    assert row["result"]["training"] == name


def test_a_sweep_has_a_row_for_each_setting_and_share_and_takes_the_test_filler(shared):
    """Of a model that has learnt something, so that filler can change what it says."""
    corpus = "synthetic:train=120,validation=40,test=60,shortest=10,longest=20,density=0.2,agreement=1"
    training = replace(TINY, corpus=corpus, size=120, pooling="mean", learning_rate=3e-2, epochs=6)
    training.execute(shared, keep_weights=True)
    prepared = trained(training, shared)
    model, dataset = prepared.model, prepared.dataset
    result, rows = PaddingSweep(TINY, texts=40).measure(model, dataset)
    assert result == {"texts_probed": 40}
    assert len({row["accuracy"] for row in rows}) > 5
    texts, filler = dataset.test.first(40), dataset.test_filler.to_lists()
    points = padding_sweep(model, texts.ids.to_lists(), texts.labels, filler)
    found = pd.DataFrame(rows)[["setting_added", "share_added", "accuracy", "words"]].to_numpy().tolist()
    assert found == [[point.setting, point.share, point.accuracy, point.words] for point in points]
    assert len(rows) == 3 * 10


def test_importance_is_that_of_the_first_test_texts_of_some_composed_length(shared):
    prepared = prepare(replace(TINY, setting="mid"), shared)
    model, dataset = prepared.model, prepared.dataset
    lengths = dataset.test.ids.lengths.tolist()
    shortest, longest = sorted(lengths)[8], sorted(lengths)[-8]
    chosen = [number for number, n in enumerate(lengths) if shortest <= n <= longest][:11]
    assert chosen != list(range(11))  # some of the first are passed over
    assert [lengths[number] for number in chosen] != sorted(lengths[number] for number in chosen)
    probe = WordImportance(TINY, texts=11, k=2, shortest=shortest, longest=longest)
    result, rows = probe.measure(model, dataset)
    alone = (dataset.test.batch(torch.tensor([number]), PADDING_INDEX) for number in chosen)
    profiles = [nwi(model, *batch, k=2)[0].double().numpy() for batch in alone]
    assert result["texts_probed"] == 11
    found, deviation = pd.DataFrame(rows), np.std(profiles, axis=0)
    assert found["position"].tolist() == list(range(1, 101))
    expected = [np.mean(profiles, axis=0), deviation]
    np.testing.assert_allclose(found[["mean", "std"]].T, expected, atol=2e-3)
    for name, third in (("left", slice(0, 34)), ("middle", slice(34, 67)), ("right", slice(67, 100))):
        assert result[name] == pytest.approx(found["mean"].iloc[third].mean(), rel=1e-5)
    assert deviation.max() > 0.1


def test_first_steps_are_those_of_a_plain_loop_over_single_texts(shared):
    """Each text is looked at before the model learns from it; Adam, in the order that the seed draws."""
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
        profiles.append(gradient_profile(gradient_norms(model, ids, length, label), length)[0].numpy())
        adam.zero_grad()
        nn.functional.cross_entropy(model(ids, length), label).backward()
        adam.step()
    mean = np.mean(profiles, axis=0)
    assert [row["position"] for row in rows] == list(range(1, 101))
    assert [row["mean"] for row in rows] == pytest.approx(mean.tolist(), rel=1e-3)
    assert result["texts_probed"] == 9
    assert result["middle_to_ends"] == pytest.approx(mean[49:51].mean() / mean[[0, 99]].mean(), rel=1e-3)


@pytest.mark.parametrize("pooling", ["last", "max_attention", "mean"])
def test_of_each_direction_alone_the_other_half_of_the_embedding_is_zero(shared, pooling):
    """Against a classifier whose weights of the other half are zero, text by text; what classifies by
    one direction alone is told from what does not."""
    training = replace(TINY, pooling=pooling)
    prepared = prepare(training, shared)
    model, dataset = prepared.model, prepared.dataset
    texts, units, seen = dataset.test.first(30), training.hidden_size, []
    watch = model.classifier.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad(), watch:
        evaluate(model, texts)
        mean = torch.cat(seen).mean(0)[:units]  # so that half is undecided
        model.classifier.bias.copy_(-model.classifier.weight[:, :units] @ mean)
    result, rows = DirectionUse(training, texts=30).measure(model, dataset)
    expected = {}
    for name, zeros in (("both", []), ("forward", range(units, 2 * units)), ("backward", range(units))):
        halved, right = copy.deepcopy(model).eval(), 0
        with torch.no_grad():
            halved.classifier.weight[:, list(zeros)] = 0
            for number in range(30):
                ids, length, label = texts.batch(torch.tensor([number]), PADDING_INDEX)
                right += int(halved(ids, length).argmax()) == int(label)
        expected[name] = pytest.approx(100 * right / 30)
    assert {row["direction"]: row["accuracy"] for row in rows} == expected
    assert result == {"texts_probed": 30} | {f"accuracy_{name}": v for name, v in expected.items()}
    assert rows[1]["accuracy"] != rows[2]["accuracy"]
    assert not model.classifier._forward_pre_hooks
    assert DirectionUse(training, texts=30).measure(model, dataset) == (result, rows)
