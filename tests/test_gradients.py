"""The gradient probe against a loop over words in float64, finite differences, and its invariances."""

import copy
import re
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whenpool import POOLINGS, InputError, TextClassifier
from whenpool.models.cells import CELLS, TORCH_CELLS, Cell
from whenpool.probes import gradient_norms, gradient_profile, vanishing_ratio

IDS = torch.randint(0, 20, (4, 11), generator=torch.Generator().manual_seed(3))
LENGTHS = torch.tensor([11, 4, 1, 7])
LABELS = torch.tensor([0, 2, 1, 2])


def classifier(pooling="max_attention", cell="lstm", layers=1, bidirectional=True, units=5, **options):
    torch.manual_seed(0)
    return TextClassifier(20, 3, pooling, cell, 6, units, layers, bidirectional, **options).double()


def step(module, word, state):
    """One word, (1, E), through a recurrence: (h, c) -> (h, c), (1, H) each."""
    if isinstance(module, Cell):
        return module.step(word, state[0]), state[1]
    if isinstance(module, nn.LSTM):
        return module(word, state)[1]
    return module(word, state[0])[1], state[1]


def loss_of(model, ids, label, added):
    """The loss of one text, with ``added`` (n, D) put onto the states of the top layer one by one."""
    n, words = len(ids), model.embed(ids).detach()
    for number, layer in enumerate(model.encoder.layers):
        halves = []
        for k, module in enumerate(layer):
            H = module.hidden_size
            state, states = tuple(torch.zeros(2, 1, H).double()), [None] * n
            for t in range(n) if k == 0 else reversed(range(n)):
                h, c = step(module, words[t : t + 1], state)
                if number == len(model.encoder.layers) - 1:
                    h = h + added[t, k * H : (k + 1) * H]
                state, states[t] = (h, c), h
            halves.append(torch.cat(states))
        words = torch.cat(halves, dim=-1)
    return cross_entropy(model.classify(words.unsqueeze(0), torch.tensor([n])), label.unsqueeze(0))


def norms_by_loop(model):
    norms = torch.full(IDS.shape, torch.nan).double()
    for b, n in enumerate(LENGTHS.tolist()):
        added = torch.zeros(n, model.encoder.output_size).double().requires_grad_()
        (grad,) = torch.autograd.grad(loss_of(model, IDS[b, :n], LABELS[b], added), added)
        norms[b, :n] = grad.norm(dim=-1)
    return norms


def same(ours, theirs):
    return torch.allclose(ours, theirs, rtol=0, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize(("pooling", "cell", "layers"), [
    *product(POOLINGS, TORCH_CELLS, [1]), *product(["last", "max_attention"], CELLS, [1, 2]),
])  # fmt: skip
@pytest.mark.parametrize("bidirectional", [True, False])
def test_norms_are_those_of_a_loop_over_the_top_layer(pooling, cell, layers, bidirectional):
    if cell in ("sum", "tanh_sum") and layers == 2:
        bidirectional = False
    model = classifier(pooling, cell, layers, bidirectional, units=6)
    norms = gradient_norms(model, torch.cat([IDS, IDS.new_full((4, 3), 7)], dim=1), LENGTHS, LABELS)
    assert same(norms[:, :11], norms_by_loop(model))
    assert norms[:, 11:].isnan().all()
    assert same(gradient_norms(model, IDS[1:2, :4], LENGTHS[1:2], LABELS[1:2]), norms[1:2, :4])  # alone


def test_float32_keeps_what_is_far_below_its_squares():
    model = classifier("last").float()
    with torch.no_grad():
        model.classifier.weight *= 1e-25
    norms = gradient_norms(model, IDS, LENGTHS, LABELS)
    assert norms.dtype == torch.float32
    assert (norms[0] > 0).all()


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training):
    model = classifier("max", drop_connect=0.5).train(training)
    model.classifier.eval()
    before, random = copy.deepcopy(model), torch.random.get_rng_state()
    norms = gradient_norms(model, IDS, LENGTHS, LABELS)
    assert torch.equal(random, torch.random.get_rng_state())
    assert [part.training for part in model.modules()] == [part.training for part in before.modules()]
    assert not any("forward" in vars(part) for part in model.modules())
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert same(norms, gradient_norms(model.eval(), IDS, LENGTHS, LABELS))


class Theirs(nn.Module):
    """A model of somebody else, who wraps ``nn.LSTM`` in the three steps."""

    def __init__(self, kind=nn.LSTM, layers=1, bidirectional=True, first=True):
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(20, 6)
        self.rnn = kind(6, 5, layers, bidirectional=bidirectional, batch_first=first)
        self.out = nn.Linear(5 * (1 + bidirectional), 3)
        self.first = first
        self.double()

    def embed(self, ids):
        return self.table(ids)

    def encode(self, embedded, lengths):
        if not self.first:
            embedded = embedded.transpose(0, 1)
        packed = pack_padded_sequence(embedded, lengths, batch_first=self.first, enforce_sorted=False)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]

    def classify(self, states, lengths):
        return self.out(torch.stack([own[:n].mean(0) for own, n in zip(states, lengths, strict=True)]))

    def as_ours(self, cell):
        rnn = self.rnn
        ours = TextClassifier(20, 3, "mean", cell, 6, 5, rnn.num_layers, rnn.bidirectional).double()
        own = [*self.table.parameters(), *rnn.parameters(), *self.out.parameters()]
        theirs = (ours.embedding, ours.encoder, ours.classifier)
        for given, taken in zip(own, (p for part in theirs for p in part.parameters()), strict=True):
            taken.data = given.data
        return ours


@pytest.mark.parametrize(("cell", "kind"), TORCH_CELLS.items())
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_a_model_of_somebody_else_on_packed_input(cell, kind, layers, bidirectional, first):
    model = Theirs(kind, layers, bidirectional, first=first)
    theirs = gradient_norms(model, IDS, LENGTHS, LABELS)
    assert same(theirs, gradient_norms(model.as_ours(cell), IDS, LENGTHS, LABELS))
    assert same(gradient_norms(model, IDS[1:], LENGTHS[1:], LABELS[1:]), theirs[1:])  # none is full


class EverySecond(Theirs):
    """Its recurrence reads every second word; there is a state for each word all the same."""

    def encode(self, embedded, lengths):
        states = self.rnn(embedded[:, ::2])[0].repeat_interleave(2, dim=1)
        return states[:, : embedded.shape[1]]


class OfTheCells(Theirs):
    """It begins with the last cell of an LSTM."""

    def encode(self, embedded, lengths):
        last = self.rnn(embedded)[1]
        return self.rnn(embedded, last)[0]


def test_other_recurrences_of_a_model_are_an_input_as_any_other():
    """Its words are embedded by one LSTM, and a frozen one adds to them, called before or after its own."""
    model, plain = Theirs(), Theirs()
    model.letters, model.frozen = (nn.LSTM(6, 6, batch_first=True).double() for _ in range(2))
    model.embed = lambda ids: model.letters(model.table(ids))[0]
    frozen = torch.no_grad()(lambda embedded: model.frozen(embedded)[0])
    embedded = model.embed(IDS).detach()
    plain.embed = lambda ids: embedded + frozen(embedded)
    expected = gradient_norms(plain, IDS, LENGTHS, LABELS)
    model.encode = lambda x, lengths: Theirs.encode(model, x + frozen(x), lengths)
    assert same(gradient_norms(model, IDS, LENGTHS, LABELS), expected)
    added = frozen(embedded)
    model.encode = lambda x, lengths: [Theirs.encode(model, x + added, lengths), frozen(x)][0]
    assert same(gradient_norms(model, IDS, LENGTHS, LABELS), expected)
    model.encode = lambda x, lengths: torch.no_grad()(Theirs.encode)(model, x, lengths)
    with pytest.raises(InputError, match="call no recurrence that a gradient comes back through"):
        gradient_norms(model, IDS, LENGTHS, LABELS)


def hooked():
    """A model whose recurrence runs something else than it shows."""
    model = Theirs()
    model.rnn.forward = lambda inputs: nn.LSTM.forward(model.rnn, 2 * inputs)
    return model


def test_ratios_are_of_the_middle_word_to_the_first_and_profiles_are_interpolated():
    norms = torch.tensor([[4.0, 9.0, 1.0, 7.0, 5.0], [2.0, 6.0, torch.nan, torch.nan, torch.nan]])
    assert vanishing_ratio(norms, torch.tensor([5, 2])).tolist() == [0.25, 3.0]
    assert vanishing_ratio(norms, [4, 1]).tolist() == [0.25, 1.0]
    norms = torch.tensor([[0.0, 1.0, 4.0], [3.0, 5.0, torch.nan], [2.0, torch.nan, torch.nan]])
    profile = gradient_profile(norms, torch.tensor([3, 2, 1]), 5)
    assert profile.tolist() == [[0, 0.5, 1, 2.5, 4], [3, 3.5, 4, 4.5, 5], [2, 2, 2, 2, 2]]
    assert gradient_profile(norms, torch.tensor([3, 2, 1])).shape == (3, 100)
    assert gradient_profile(torch.ones(1, 268).bfloat16(), torch.tensor([268])).eq(1).all()
    for probe, lengths in product((vanishing_ratio, gradient_profile), ([3], [0, 3])):
        with pytest.raises(InputError, match="norms of 2 texts need 2 lengths"):
            probe(torch.ones(2, 3), torch.tensor(lengths))


@pytest.mark.parametrize(("change", "words"), [
    ({"model": nn.Linear(2, 3)}, "Linear has no embed, encode, classify"),
    ({"model": Theirs(partial(nn.LSTM, proj_size=2))}, "LSTM cannot be probed"),
    ({"ids": IDS + 30}, "but the model knows 20 words"),
    ({"ids": IDS[0]}, "one text is ids.unsqueeze"),
    ({"lengths": LENGTHS[:2]}, "4 texts needs 4 lengths, not (2,)"),
    ({"labels": torch.tensor([0, 3, 1, 2])}, "text 1 has the label 3, but the model has 3 classes"),
    ({"model": TextClassifier(20, 1)}, "logits must be (B, C) of two classes or more, not (4, 1)"),
    ({"labels": LABELS.to("meta")}, "labels are on meta"),
    ({"labels": LABELS / 2}, "labels must be whole numbers, not torch.float32"),
    ({"ids": IDS - 20}, "words are numbers from 0"),
    ({"model": EverySecond()}, "it must read each word of each text"),
    ({"model": OfTheCells()}, "the loss of OfTheCells is nan; a probe cannot see a model that reads the"),
    ({"model": hooked()}, "LSTM cannot be probed; take away what stands in for its forward"),
])  # fmt: skip
def test_bad_input_is_named(change, words):
    given = {"model": classifier(), "ids": IDS, "lengths": LENGTHS, "labels": LABELS} | change
    with pytest.raises(InputError, match=re.escape(words)):
        gradient_norms(**given)
