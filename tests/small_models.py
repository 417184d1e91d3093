"""Small models, batches and corpora, and what they are by torch's own modules, one text at a
time."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain

import pytest
import torch
from torch.nn import LSTM

from whenpool import TextClassifier, load
from whenpool.corpora.batches import PADDING_INDEX, Batch, Splits, Texts
from whenpool.corpora.tokens import build_vocabulary, number, tokenize
from whenpool.models.cells import Cell, LinearCell

SPEC = "synthetic:train=120,validation=60,test=80,shortest=8,longest=14,density=0.2,agreement=1"


@dataclass(frozen=True)
class Numbered(Splits):
    """The splits of a corpus as numbers of words."""

    vocabulary: dict[str, int]


def numbered(spec=SPEC):
    corpus = load(spec)
    words = {name: [*map(tokenize, split.texts)] for name, split in corpus.splits.items()}
    vocabulary = build_vocabulary(Counter(chain(*words["train"])))
    texts = {
        name: Texts(number(words[name], vocabulary), torch.tensor(split.labels))
        for name, split in corpus.splits.items()
    }
    return Numbered(**texts, vocabulary=vocabulary)


def model_of(dataset, pooling="max_attention", seed=0, **options):
    torch.manual_seed(seed)
    return TextClassifier(
        len(dataset.vocabulary),
        2,
        pooling,
        embedding_size=12,
        hidden_size=8,
        padding_index=PADDING_INDEX,
        **options,
    )


both_ways = pytest.mark.parametrize("bidirectional", [True, False])
PADDING, WORDS, CLASSES = 1, 20, 3
LENGTHS = torch.tensor([7, 4, 1, 2])
LABELS = torch.tensor([0, 2, 1, 2])
INDICES = torch.arange(4)


def ids_of(lengths=LENGTHS, longest=7, seed=3):
    ids = torch.randint(
        2, WORDS, (len(lengths), longest), generator=torch.Generator().manual_seed(seed)
    )
    return ids.masked_fill(torch.arange(longest) >= lengths.unsqueeze(1), PADDING)


BATCH = Batch(ids_of(), LENGTHS, LABELS)


def classifier(pooling="last", cell="lstm", layers=1, bidirectional=True, classes=CLASSES, seed=0):
    """With large weights, so that states and attention differ much from word to word."""
    torch.manual_seed(seed)
    sizes = WORDS, classes, pooling, cell, 6, 5, layers, bidirectional
    model = TextClassifier(*sizes, padding_index=PADDING).double()
    for parameter in model.encoder.parameters():
        parameter.data *= 2
    return model


def recurrence(model):
    """Torch's own with the weights of a model's encoder, for one text at a time, unpadded."""
    of_text = model.encoder.layers[0][0]
    module = type(of_text)(
        of_text.input_size,
        of_text.hidden_size,
        len(model.encoder.layers),
        batch_first=True,
        bidirectional=model.encoder.directions == 2,
        dtype=model.embedding.weight.dtype,
    )
    for mine, theirs in zip(module.parameters(), model.encoder.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    return module


def states_by_loop(encoder, words):
    """The states (n, D) of one text (n, E), made word by word, and those of each direction of the
    top layer as a list of (1, H)."""
    for layer in encoder.layers:
        halves, outputs, n = [], [], len(words)
        for k, module in enumerate(layer):
            is_linear = isinstance(module, LinearCell)
            size = 1 if is_linear else module.hidden_size  # of a zero for states of any size
            h = c = torch.zeros(1, size, dtype=words.dtype)
            states = [h] * n
            for t in reversed(range(n)) if k else range(n):
                word = words[t : t + 1]
                if isinstance(module, Cell):
                    h = module.step(word, h)
                elif isinstance(module, LSTM):
                    _, (h, c) = module(word, (h, c))
                else:
                    h = module(word, h)[1]
                states[t] = h
            halves.append(states)
            joined = torch.cat(states)
            outputs.append(module.read(joined, words) if is_linear else joined)
        words = torch.cat(outputs, dim=-1)
    return words, halves


def norms_at(halves, loss):
    """The norms of a loss's gradients, by autograd, at the states of each direction, a tensor for
    each word."""
    how = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    grads = [torch.stack(torch.autograd.grad(loss, states, **how), dim=-2) for states in halves]
    return torch.cat(grads, dim=-1).norm(dim=-1)


def close(*both, **tolerance):
    """Raises where two tensors, or two collections of them, differ by more than a tolerance;
    where none is given, by more than rounding."""
    if tolerance:
        tolerance = {"atol": 0.0, "rtol": 0.0} | tolerance
    torch.testing.assert_close(*both, **tolerance)


def texts_of(batch):
    return [ids[:n] for ids, n in zip(batch.ids, batch.lengths.tolist(), strict=True)]


def gradients(model, objective, batch=BATCH, indices=INDICES):
    model.zero_grad()
    objective.backward(model, batch, indices)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def slope(model, name, place, function, step):
    """The derivative of a function of the model with respect to one of its parameters."""
    parameter, values = dict(model.named_parameters())[name].data, []
    for sign in (1, -1):
        parameter[place] += sign * step
        values.append(function())
        parameter[place] -= sign * step
    return (values[0] - values[1]) / (2 * step)
