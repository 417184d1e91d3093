"""One text and what models of a few units make of it; names of models and texts in figures of probes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from whenpool.book.chapter import Chapter
from whenpool.book.report import probes
from whenpool.book.report.probes import SHARES, SHORTEST, Shown, understood
from whenpool.corpora.batches import Ragged, Texts
from whenpool.corpora.dataset import Dataset
from whenpool.corpora.settings import SETTINGS, SHARE, compose, filler_lengths
from whenpool.probes import window_importance
from whenpool.runs.kinds.probe import GradientTrace, PaddingSweep
from whenpool.runs.kinds.training import Prepared, Training, prepare, trained
from whenpool.runs.request import Choice

TINY = Training(
    "synthetic:train=60,validation=20,test=40,shortest=12,longest=20,density=0.2", "standard", 60,
    "last", length="any", embedding_size=8, hidden_size=6, epochs=2, learning_rate=0.02,
)  # fmt: skip
LEARNT = replace(
    TINY, corpus=TINY.corpus.replace("train=60", "train=150").replace("density", "agreement=1,density"),
    size=150, epochs=6,
)  # fmt: skip
POOLINGS = ("last", "mean", "max", "attention", "max_attention")


@pytest.fixture(scope="module")
def models(shared):
    """One of each pooling that has learnt something; the labels of the shortest texts are wrong."""
    found = {}
    for pooling in POOLINGS:
        run = replace(LEARNT, pooling=pooling)
        run.execute(shared, keep_weights=True)
        found[pooling] = trained(run, shared)
    dataset = found["max"].dataset
    labels = dataset.test.labels.clone()
    labels[torch.argsort(dataset.test.ids.lengths, stable=True)[:4]] ^= 1
    mislabelled = replace(dataset, test=Texts(dataset.test.ids, labels))
    return {pooling: replace(prepared, dataset=mislabelled) for pooling, prepared in found.items()}


def probability(prepared, words, label):
    """Of a class, from the logits, in a batch of its own."""
    with torch.no_grad():
        logits = prepared.model.eval()(torch.tensor([words]), torch.tensor([len(words)]))[0].double()
    return float(logits[label].exp() / logits.exp().sum())


def row_of(prepared, number):
    return prepared.dataset.test.ids.row(number).tolist()


class Sure(nn.Module):
    """Gives class 1 to texts that begin with word 3, else class 0; its opposite does the contrary."""

    def __init__(self, opposite=False):
        super().__init__()
        self.opposite = opposite

    def forward(self, ids, lengths):
        first = (ids[:, 0] == 3) != self.opposite
        return torch.stack([torch.where(first, -2.0, 2.0), torch.where(first, 2.0, -2.0)], dim=1)


def hand_made(rows, labels, model, filler=None):
    texts = Texts(Ragged.of(rows), torch.tensor(labels))
    words = ["<unk>", "<pad>", "two", "three", "four"]
    sentences = Ragged.of(filler) if filler else None
    dataset = Dataset(texts, texts, texts, words, None, ("a", "b"), {}, sentences)
    return Prepared(None, dataset, model, torch.zeros(1))


LONG = [3] * SHORTEST


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        ([[*LONG, 2, 2], [4, *LONG], [*LONG, 2], [*LONG, 4]], 2),  # 1 is misread, 3 as long
        ([[3], [3, 2, 4], LONG[1:], [*LONG, 2], LONG], 4),  # a text of a word or two has no window
        ([[3], LONG[1:]], None),
    ],
)
def test_the_first_of_the_shortest_texts_with_a_window_is_understood(rows, number):
    one = hand_made(rows, [1] * len(rows), Sure())
    found = understood({"max": one})
    assert (found and found.number) == number
    assert understood({"max": one, "last": replace(one, model=Sure(opposite=True))}) is None
    assert understood({}) is None


def composed_by_hand(words, sentences, share):
    """Filler from the first sentence on, half of it before the text, the odd word behind it."""
    count = round(len(words) * share / (1 - share))
    flat = [word for sentence in sentences for word in sentence]
    assert len(flat) >= count + max(map(len, sentences))
    taken, used, before = [], 0, count // 2
    while len(taken) < before:
        taken += sentences[used][: before - len(taken)]
        used += 1
    behind = [word for sentence in sentences[used:] for word in sentence]  # what was cut is not taken up
    return [*taken, *words, *behind[: count - before]]


def test_a_hidden_opinion_is_that_on_the_text_composed_by_hand(models):
    models["max"].model.train()  # nothing is dropped all the same
    shown = understood(models)
    answers = shown.hidden_opinion()
    assert sorted(zip(answers["share"], answers["pooling"], strict=True)) == sorted(
        (share, name) for share in SHARES for name in POOLINGS
    )
    for row in answers.itertuples():
        prepared = models[row.pooling]
        filler = prepared.dataset.test_filler.to_lists()
        text = composed_by_hand(row_of(prepared, shown.number), filler, row.share)
        assert row.probability == pytest.approx(probability(prepared, text, shown.label), rel=1e-5)
    assert answers.groupby("pooling")["probability"].std().gt(1e-4).sum() >= 3
    assert not models["max"].model.training


def test_filler_is_begun_anew_for_each_share_and_starts_over_when_it_runs_out():
    """A model that tells whether the first word is a 3, and filler that is shorter than asked for."""
    prepared = hand_made([[2] * 10], [1], Sure(), filler=[[3, 4], [4]])
    answers = Shown({"max": prepared}, 0).hidden_opinion(shares=(0.0, 0.5, 0.9))
    sure = 1 / (1 + np.exp(-4))
    assert answers["probability"].tolist() == pytest.approx([1 - sure, sure, sure])


def test_the_words_are_those_of_the_text(models):
    shown = understood(models)
    vocabulary = models["max"].dataset.vocabulary
    assert [vocabulary.index(word) for word in shown.words] == row_of(models["max"], shown.number)
    assert shown.opening(7, letters=500) == shown.words[:7]
    assert shown.opening(500, letters=5000) == shown.words
    few = shown.opening(7, letters=12)
    assert len(" ".join(few)) <= 12 < len(" ".join(shown.words[: len(few) + 1]))
    words = torch.tensor([row_of(models["max"], shown.number)[:10]])
    expected = window_importance(
        models["max"].model, words, torch.tensor([10]), torch.tensor([shown.label]), 5
    )
    assert shown.importance("max", 5, 10)[:2].tolist() == pytest.approx(expected[0].tolist(), rel=1e-3)


@pytest.fixture(scope="module")
def finished(shared):
    """Trainings whose weights are kept, and one whose are not."""
    runs = [replace(TINY, pooling=pooling) for pooling in ("max_attention", "last")]
    runs += [replace(TINY, size=40), replace(TINY, seed=1), replace(TINY, setting="mid")]
    runs += [replace(TINY, pooling="max", masked=False)]
    for run in runs:
        run.execute(shared, keep_weights=True)
    replace(TINY, pooling="max").execute(shared)
    return shared


def chapter_of(place, *runs):
    chapter = Chapter("natural_bias", Choice("smoke"), place)
    chapter.__dict__["runs"] = list(runs)
    return chapter


def test_a_chapter_has_the_models_of_its_first_corpus_and_size_whose_weights_are_here(finished):
    chapter = chapter_of(
        finished,
        replace(TINY, pooling="attention"),  # not probed
        PaddingSweep(replace(TINY, setting="mid")),
        PaddingSweep(replace(TINY, seed=1)),
        PaddingSweep(replace(TINY, pooling="max_attention")),
        GradientTrace(replace(TINY, pooling="max_attention")),
        PaddingSweep(TINY),
        PaddingSweep(replace(TINY, size=40)),
        PaddingSweep(replace(TINY, pooling="max")),  # without weights
        PaddingSweep(replace(TINY, pooling="max", masked=False)),
    )
    found = chapter.models()
    assert list(found) == ["last", "max_attention"]
    for pooling, prepared in found.items():
        untrained = prepare(replace(TINY, pooling=pooling), finished)
        assert type(prepared.model.pooling) is type(untrained.model.pooling)
        accuracy = finished.store.rows("training").query(
            "pooling == @pooling and setting == 'standard' and size == 60 and seed == 0"
        )["test_accuracy"]
        labels = prepared.dataset.test.labels.tolist()
        right = [probability(prepared, row_of(prepared, i), y) > 0.5 for i, y in enumerate(labels)]
        assert 100 * np.mean(right) == pytest.approx(accuracy.item(), abs=0.01)


NO_RUNS = pd.DataFrame(columns=["key"])
RUN = {"seed": 0, "corpus": "imdb", "length": "long", "size": 1000, "forget_bias": "thesis"}


def frame(runs):
    """Rows of runs, each a configuration and its points, in no order."""
    rows = [
        {"key": f"k{number}", **RUN, **run, **point}
        for number, (run, points) in enumerate(runs)
        for point in points
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def test_models_are_poolings_and_the_one_with_low_gates_and_texts_are_told_apart():
    runs = [
        ({"pooling": "max"}, [{}]),
        ({"pooling": "last", "forget_bias": "low", "size": 500}, [{}]),
        ({"pooling": "last"}, [{}]),
    ]
    drawn = probes.named(frame(runs)).set_index("key")
    assert drawn["model"].to_dict() == {"k0": "MaxPool", "k1": probes.LOW, "k2": "BiLSTM"}
    assert list(drawn["model"].cat.categories) == ["BiLSTM", "MaxPool", probes.LOW]
    assert list(drawn["texts"].cat.categories) == ["500 training texts", "1K training texts"]
    own = ({"pooling": "max", "corpus": "/data/my $ texts.csv:text_column=a", "length": "short"}, [{}])
    several = probes.named(frame([*runs, own])).set_index("key")["texts"]
    assert several["k2"] == "IMDb, 1K training texts"
    assert several["k3"] == r"my \$ texts.csv, short, 1K training texts"
    assert {"model", "texts"} <= set(probes.named(NO_RUNS))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [0.3, SHARE, 0.9])
def test_the_text_stands_where_it_is_composed(setting, share):
    for words in (30, 5000):
        left, right = filler_lengths(words, setting, share)
        total = left + words + right
        low, high = probes.text_span(setting, 0.0 if setting == "standard" else share)
        assert low * total == pytest.approx(left, abs=1)
        assert high * total == pytest.approx(left + words, abs=1)
    text = compose(["text"] * 3000, iter([["filler"] * 7] * 9000), setting, share)
    places = np.linspace(0, len(text) - 1, 100).round().astype(int)
    expected = [text[place] == "text" for place in places]
    found = probes.where_the_text_stands(setting, share)
    assert found.shape == (100,)
    assert (found != expected).sum() <= (setting != "standard") + (setting == "mid")  # at a border
