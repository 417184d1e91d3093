"""What probe runs measure, against small models whose answers are known, and loops by hand."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from small_runs import TINY
from torch import nn

from whenpool import InputError
from whenpool.corpora.batches import PADDING_INDEX, Ragged, Texts
from whenpool.corpora.dataset import Dataset
from whenpool.probes import gradient_norms, gradient_profile, nwi, padding_sweep
from whenpool.runs.kinds.probe import (
    DirectionUse,
    FirstSteps,
    GradientProfile,
    GradientTrace,
    PaddingSweep,
    Tracer,
    WordImportance,
)
from whenpool.runs.kinds.training import prepare, trained
from whenpool.training.loop import evaluate

MIXED = replace(TINY, setting="mid")


@pytest.fixture(scope="module")
def plain(shared):
    """Texts of 10 to 20 words and a model that has learnt nothing."""
    prepared = prepare(TINY, shared)
    return prepared.model, prepared.dataset


@pytest.fixture(scope="module")
def mixed(shared):
    """The same texts among filler."""
    prepared = prepare(MIXED, shared)
    return prepared.model, prepared.dataset


@pytest.fixture(scope="module")
def learnt(shared):
    """A model that has learnt something, so that filler can change what it says."""
    corpus = "synthetic:train=120,validation=40,test=60,shortest=10,longest=20,density=0.2,agreement=1"
    training = replace(TINY, corpus=corpus, size=120, pooling="mean", learning_rate=3e-2, epochs=6)
    training.execute(shared, keep_weights=True)
    prepared = trained(training, shared)
    return prepared.model, prepared.dataset


def texts_of(rows, labels):
    return Texts(Ragged.of(rows), torch.tensor(labels))


def dataset_of(texts):
    """One that has the same texts for everything."""
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
        weights = torch.zeros(states.shape[:2])
        for row, n in enumerate(lengths.tolist()):
            weights[row, :n] = torch.tensor(self.WEIGHTS.get(n, [1.0] * n))
        score = self.scale * (weights * states.squeeze(-1)).sum(1)
        return torch.stack([score, -score], dim=1)

    def forward(self, ids, lengths):
        return self.classify(self.encode(self.embed(ids), lengths), lengths)


KNOWN_TEXTS = texts_of([[2] * 4, [3] * 2, [4] * 5], [0, 1, 1])
PROFILES = np.stack(
    [np.interp(np.linspace(0, 1, 100), np.linspace(0, 1, n), Known.WEIGHTS[n]) for n in (4, 2, 5)]
)


def test_the_ratio_is_a_quotient_of_means():
    """Word ⌊n/2⌋, counted from 0, over the first: (4 + 3 + 5) / (2 + 1 + 1); not (2 + 3 + 5) / 3. A trace
    also has that of the places 45 to 54 of 100 over the first, of the mean profile."""
    dataset = dataset_of(KNOWN_TEXTS)
    result, _ = GradientProfile(TINY).measure(Known(), dataset)
    tracer = Tracer(GradientTrace(TINY, texts=3), Known(), dataset)
    tracer(0)
    assert result["ratio"] == pytest.approx(3.0) == tracer.rows[0]["ratio"]
    assert result["texts_probed"] == 3
    profile = PROFILES.sum(0)
    expected = sum(profile[place] for place in range(45, 55)) / 10 / profile[0]
    assert tracer.rows[0]["band_ratio"] == pytest.approx(expected, rel=1e-4)
    assert abs(tracer.rows[0]["band_ratio"] - tracer.rows[0]["ratio"]) > 0.1


def test_a_profile_is_the_mean_and_the_median_at_100_places():
    result, rows = GradientProfile(TINY).measure(Known(), dataset_of(KNOWN_TEXTS))
    mean, median = PROFILES.mean(0), np.median(PROFILES, axis=0)
    factor = rows[0]["mean"] / mean[0]
    assert factor > 0
    assert [row["position"] for row in rows] == list(range(1, 101))
    assert [row["mean"] for row in rows] == pytest.approx(list(factor * mean), rel=1e-4)
    assert [row["median"] for row in rows] == pytest.approx(list(factor * median), rel=1e-4)
    in_the_middle = (mean[49] + mean[50]) / (mean[0] + mean[99])
    assert result["middle_to_ends"] == pytest.approx(in_the_middle, rel=1e-4)


def test_batches_of_gradients_are_as_in_training_where_padding_matters():
    """32 texts of similar length; where it does not, as many as fit."""
    lengths = [3 + number % 7 for number in range(70)]
    dataset = dataset_of(texts_of([[2] * n for n in lengths], [0] * 70))
    masked, unmasked = Known(), Known(masked=False)
    for model in (masked, unmasked):
        GradientProfile(TINY).measure(model, dataset)
    assert masked.batches == [sorted(lengths)]
    ordered = sorted(lengths)
    assert unmasked.batches == [ordered[:32], ordered[32:64], ordered[64:]]


@pytest.mark.parametrize(
    ("step", "last", "expected"),
    [
        (32, 2_000, [*range(0, 1_281, 128), 1_408, 1_568, 1_728, 1_920]),
        (100, 1_700, [0, 200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600]),
        (1, 300, [0, 128, 256]),
    ],
)
def test_a_trace_looks_after_128_texts_and_later_when_a_tenth_has_come(plain, step, last, expected):
    model, dataset = plain
    tracer = Tracer(GradientTrace(TINY, texts=2, sample=2), model, dataset)
    for seen in range(0, last + 1, step):
        tracer(seen)
    assert [row["examples"] for row in tracer.rows] == expected


def test_what_a_trace_comes_to():
    def look(examples, ratio, accuracy):
        return {"examples": examples, "ratio": ratio, "train_accuracy": accuracy}

    tracer = Tracer(GradientTrace(TINY), Known(), dataset_of(KNOWN_TEXTS))
    tracer.rows = [look(0, 0.5, 50.0), look(128, 0.4, 94.9)]
    assert tracer.result() == {"ratio_at_start": 0.5, "ratio_at_95": None, "examples_at_95": None}
    tracer.rows += [look(256, 0.3, 95.0), look(384, 0.2, 99.0)]
    assert tracer.result() == {"ratio_at_start": 0.5, "ratio_at_95": 0.3, "examples_at_95": 256}


TRACED = replace(TINY, corpus=TINY.corpus.replace("train=60", "train=136"), size=136, batch_size=8)


@pytest.mark.parametrize(
    "options",
    [{}, {"drop_connect": 0.5}, {"cell": "gru", "masked": False, "pooling": "max"}],
    ids=["plain", "drop_connect", "gru, unmasked"],
)
def test_a_trace_leaves_the_training_as_it_is_without_one(place, options):
    training = replace(TRACED, **options)
    alone = replace(place, store=type(place.store)(place.store.directory.with_name("alone")))
    name = training.execute(alone, keep_weights=True)
    before = torch.random.get_rng_state()
    probe = GradientTrace(training, texts=8, sample=16)
    traced = probe.execute(place)
    assert torch.equal(torch.random.get_rng_state(), before)

    expected, found = alone.store.get(name), place.store.get(name)
    for row in (expected, found):
        row["result"].pop("seconds")
        for epoch in row["history"]:
            epoch.pop("seconds")
    assert found["result"] == expected["result"]
    assert found["history"] == expected["history"]
    one, other = (
        safetensors.torch.load_file(folder.store.weights_file(name)) for folder in (alone, place)
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[part], other[part]) for part in one)

    row = place.store.get(traced)
    assert [look["examples"] for look in row["history"]] == [0, 128, 256]
    assert len({look["ratio"] for look in row["history"]}) == 3  # it did look at a model that learns
    assert row["result"]["training"] == name
    assert row["result"]["validation_accuracy"] == found["result"]["validation_accuracy"]


def test_a_sweep_has_a_row_for_each_setting_and_share_and_takes_the_test_filler(learnt):
    model, dataset = learnt
    result, rows = PaddingSweep(TINY, texts=40).measure(model, dataset)
    assert result == {"texts_probed": 40}
    shares = [share / 10 for share in range(10)]
    assert [(row["setting_added"], row["share_added"]) for row in rows] == [
        (setting, share) for setting in ("left", "mid", "right") for share in shares
    ]
    assert len({row["accuracy"] for row in rows}) > 5
    texts, filler = dataset.test.first(40), dataset.test_filler.to_lists()
    points = padding_sweep(model, texts.ids.to_lists(), texts.labels, filler)
    assert [(row["accuracy"], row["words"]) for row in rows] == [(p.accuracy, p.words) for p in points]


def test_without_filler_a_sweep_says_what_it_needs(plain):
    model, dataset = plain
    with pytest.raises(InputError, match="a padding sweep needs filler sentences"):
        PaddingSweep(TINY).measure(model, replace(dataset, test_filler=None))


def importance_by_hand(model, dataset, numbers, k):
    """Profiles (N, 100), each text alone."""
    profiles = []
    for number in numbers:
        batch = dataset.test.batch(torch.tensor([number]), PADDING_INDEX)
        profiles.append(nwi(model, batch.ids, batch.lengths, batch.labels, k=k))
    return torch.cat(profiles).double()


@pytest.mark.parametrize("which", ["plain", "mixed"])
def test_importance_is_that_of_the_first_test_texts_of_some_composed_length(which, request):
    model, dataset = request.getfixturevalue(which)
    lengths = dataset.test.ids.lengths.tolist()
    shortest, longest = sorted(lengths)[8], sorted(lengths)[-8]
    fitting = [number for number, n in enumerate(lengths) if shortest <= n <= longest]
    chosen = fitting[:11]
    assert chosen != list(range(11))  # some of the first are passed over
    assert [lengths[number] for number in chosen] != sorted(lengths[number] for number in chosen)
    probe = WordImportance(TINY, texts=11, k=2, shortest=shortest, longest=longest)
    result, rows = probe.measure(model, dataset)
    profiles = importance_by_hand(model, dataset, chosen, k=2)
    assert result["texts_probed"] == 11
    assert [row["position"] for row in rows] == list(range(1, 101))
    mean, deviation = profiles.mean(0), profiles.std(0, correction=0)
    assert [row["mean"] for row in rows] == pytest.approx(mean.tolist(), abs=2e-3)
    assert [row["std"] for row in rows] == pytest.approx(deviation.tolist(), abs=2e-3)
    means = [row["mean"] for row in rows]
    for name, third in (("left", means[:34]), ("middle", means[34:67]), ("right", means[67:])):
        assert result[name] == pytest.approx(sum(third) / len(third), rel=1e-5)
    assert deviation.max() > 0.1


def test_a_probe_leaves_model_and_generator_as_they_were(plain):
    model, dataset = plain
    steps = torch.random.get_rng_state()
    FirstSteps(TINY, texts=3).measure(copy.deepcopy(model), dataset)  # which trains it
    assert torch.equal(torch.random.get_rng_state(), steps)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = torch.random.get_rng_state()
    probes = (GradientProfile(TINY, texts=5), PaddingSweep(TINY, texts=3), WordImportance(TINY, texts=3))
    for probe in probes:
        first = probe.measure(model, dataset)
        assert probe.measure(model, dataset) == first
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "change", [{}, {"pooling": "max", "masked": False, "weight_decay": 0.01, "seed": 3}]
)
def test_first_steps_are_those_of_a_plain_loop_over_single_texts(shared, change):
    """Each text is looked at before the model learns from it; Adam, in the order that the seed draws."""
    training = replace(TINY, learning_rate=0.05, **change)
    prepared = prepare(training, shared)
    result, rows = FirstSteps(training, texts=9).measure(prepared.model, prepared.dataset)
    model = prepare(training, shared).model
    texts = prepared.dataset.train.first(9)
    torch.manual_seed(training.seed)
    order = torch.randperm(9).tolist()
    adam = torch.optim.Adam(
        model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    profiles = []
    for number in order:
        ids = torch.tensor([texts.ids.to_lists()[number]])
        length, label = torch.tensor([ids.shape[1]]), texts.labels[number : number + 1]
        profiles.append(gradient_profile(gradient_norms(model, ids, length, label), length)[0].numpy())
        adam.zero_grad()
        torch.nn.functional.cross_entropy(model(ids, length), label).backward()
        adam.step()
    mean = np.mean(profiles, axis=0)
    assert [row["position"] for row in rows] == list(range(1, 101))
    assert [row["mean"] for row in rows] == pytest.approx(mean.tolist(), rel=1e-3)
    assert result["texts_probed"] == 9
    assert result["middle_to_ends"] == pytest.approx(mean[49:51].mean() / mean[[0, 99]].mean(), rel=1e-3)
    profile, _ = GradientProfile(training, texts=9).measure(
        prepare(training, shared).model, prepared.dataset
    )
    assert abs(profile["middle_to_ends"] - result["middle_to_ends"]) > 1e-4  # it has learnt meanwhile


@pytest.mark.parametrize("pooling", ["last", "max_attention", "mean"])
def test_of_each_direction_alone_the_other_half_of_the_embedding_is_zero(shared, pooling):
    """Against a classifier whose weights of the other half are zero, text by text; what classifies by
    one direction alone is told from what does not."""
    training = replace(TINY, pooling=pooling)
    prepared = prepare(training, shared)
    model, dataset = prepared.model, prepared.dataset
    texts, units, seen = dataset.test.first(30), training.hidden_size, []
    with (
        torch.no_grad(),
        model.classifier.register_forward_pre_hook(lambda _, given: seen.append(given[0])),
    ):
        evaluate(model, texts)
        mean = torch.cat(seen).mean(0)[:units]
        # so that half is undecided
        model.classifier.bias.copy_(-model.classifier.weight[:, :units] @ mean)
    result, rows = DirectionUse(training, texts=30).measure(model, dataset)
    expected = {}
    for name, zeros in (("both", []), ("forward", range(units, 2 * units)), ("backward", range(units))):
        halved = copy.deepcopy(model).eval()
        with torch.no_grad():
            halved.classifier.weight[:, list(zeros)] = 0
            right = [
                int(halved(torch.tensor([ids]), torch.tensor([len(ids)])).argmax()) == label
                for ids, label in zip(texts.ids.to_lists(), texts.labels.tolist(), strict=True)
            ]
        expected[name] = pytest.approx(100 * sum(right) / 30)
    assert {row["direction"]: row["accuracy"] for row in rows} == expected
    assert result == {"texts_probed": 30} | {f"accuracy_{name}": v for name, v in expected.items()}
    assert rows[1]["accuracy"] != rows[2]["accuracy"]
    assert not model.classifier._forward_pre_hooks
    assert DirectionUse(training, texts=30).measure(model, dataset) == (result, rows)
