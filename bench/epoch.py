"""An epoch of 1K texts against a plain PyTorch loop that does not mask.

The plain loop is what one would write by hand: batches of similar length, padded on the right, an
unpacked bidirectional `nn.LSTM`, Adam. Where IMDb and word vectors are in WHENPOOL_DATA it reads
them, else the embedded corpus.
"""

import torch
from torch import nn
from torch.nn import functional

from bench.timing import compare
from paper.corpora.dataset import Dataset, encode, make_dataset
from paper.runs.kinds.training import Training
from paper.runs.run import Place
from whenpool import TextClassifier
from whenpool.base.errors import InputError
from whenpool.corpora.batches import PADDING_INDEX, training_batches
from whenpool.training.loop import Recipe, train

POOLINGS = ("last", "max", "max_attention")
LEARNING_RATE = 2e-3


def main() -> None:
    name, dataset = load()
    words = int(dataset.train.ids.lengths.sum())
    print(f"An epoch of {len(dataset.train)} texts of {name}, {words:,} words, H=256")
    print(f"{'pooling':>14}{'ours, s':>10}{'plain, s':>10}{'ours/plain':>12}{'words/s':>10}")
    for pooling in POOLINGS:
        times = compare(
            {"ours": ours(dataset, pooling), "plain": plain(dataset, pooling)}, rounds=2
        )
        mine, theirs = times["ours"], times["plain"]
        print(f"{pooling:>14}{mine:10.1f}{theirs:10.1f}{mine / theirs:12.2f}{words / mine:10.0f}")


def load(setting: str = "standard") -> tuple[str, Dataset]:
    place = Place.default()
    few = {"size": 1000, "validation": 1, "test": 1, "setting": setting}
    for name, length in (("imdb", "long"), ("synthetic", "any")):
        try:
            source = place.source(Training(name, "standard", 1000, "max"))
        except InputError:
            continue
        return name, make_dataset(encode(source, length, place.cache), **few)
    raise AssertionError("the embedded corpus is always there")


def ours(dataset: Dataset, pooling: str):
    torch.manual_seed(0)
    model = TextClassifier(len(dataset.vocabulary), 2, pooling, padding_index=PADDING_INDEX)
    once = Recipe(epochs=1, learning_rate=LEARNING_RATE)
    return lambda: train(model, dataset, once, seed=0)  # one text is validated and one tested


class Plain(nn.Module):
    """The same model without any masking."""

    def __init__(self, vocabulary: int, pooling: str) -> None:
        super().__init__()
        self.pooling = pooling
        self.embedding = nn.Embedding(vocabulary, 100, padding_idx=PADDING_INDEX)
        self.lstm = nn.LSTM(100, 256, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(512, 2)

    def forward(self, ids):
        states, (last, _) = self.lstm(self.embedding(ids))
        if self.pooling == "last":
            return self.classifier(torch.cat([last[0], last[1]], dim=-1))
        largest = states.max(dim=1).values
        if self.pooling == "max":
            return self.classifier(largest)
        scores = (functional.normalize(states, dim=-1) @ largest.unsqueeze(-1)).squeeze(-1)
        weights = scores.softmax(dim=1).unsqueeze(1)
        return self.classifier((weights @ states).squeeze(1))


def plain(dataset: Dataset, pooling: str):
    torch.manual_seed(0)
    model = Plain(len(dataset.vocabulary), pooling)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    rows = [dataset.train.ids.row(i).long() for i in range(len(dataset.train))]
    labels = dataset.train.labels

    def epoch() -> None:
        order = torch.Generator().manual_seed(0)
        for indices in training_batches(dataset.train.ids.lengths, 32, order):
            texts = [rows[i] for i in indices.tolist()]
            ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PADDING_INDEX)
            loss = functional.cross_entropy(model(ids), labels[indices])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch
