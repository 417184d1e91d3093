"""The gradient probe on the cells that torch lacks, against a loop of their steps in float64."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from whenpool import InputError, TextClassifier
from whenpool.models.cells import GRU, LSTM, Elman, MinGRU, SlidesGRU
from whenpool.models.encoder import CELLS, TORCH_CELLS
from whenpool.probes import gradient_norms, nwi, padding_sweep
from whenpool.probes.reuse import can_reuse

IDS = torch.randint(0, 20, (4, 11), generator=torch.Generator().manual_seed(3))
LENGTHS = torch.tensor([11, 4, 1, 7])
LABELS = torch.tensor([0, 2, 1, 2])
OURS = tuple(name for name in CELLS if name not in TORCH_CELLS)


def classifier(cell, pooling="max_attention", layers=1, bidirectional=True, **options):
    torch.manual_seed(0)
    return TextClassifier(20, 3, pooling, cell, 6, 6, layers, bidirectional, **options).double()


def loss_of(model, ids, label, added):
    """The loss of one text, with ``added`` (n, D) put onto the states of the top layer one by one."""
    n, words = len(ids), model.embed(ids).detach()
    for number, layer in enumerate(model.encoder.layers):
        halves = []
        for k, cell in enumerate(layer):
            H, state, states = cell.hidden_size, words.new_zeros(1, cell.hidden_size), [None] * n
            for t in range(n) if k == 0 else reversed(range(n)):
                state = cell.step(words[t : t + 1], state)
                if number == len(model.encoder.layers) - 1:
                    state = state + added[t, k * H : (k + 1) * H]
                states[t] = state[0]
            halves.append(torch.stack(states))
        words = torch.cat(halves, dim=-1)
    logits = model.classify(words.unsqueeze(0), torch.tensor([n]))
    return cross_entropy(logits, label.unsqueeze(0))


def norms_by_loop(model):
    norms = torch.full(IDS.shape, torch.nan).double()
    for b, n in enumerate(LENGTHS.tolist()):
        added = torch.zeros(n, model.encoder.output_size).double().requires_grad_()
        (grad,) = torch.autograd.grad(loss_of(model, IDS[b, :n], LABELS[b], added), added)
        norms[b, :n] = grad.norm(dim=-1)
    return norms


def same(ours, theirs):
    return torch.allclose(ours, theirs, rtol=0, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("cell", OURS)
@pytest.mark.parametrize("pooling", ["last", "max_attention"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_norms_are_those_of_a_loop(cell, pooling, layers, bidirectional):
    if cell in ("sum", "tanh_sum") and layers == 2:
        bidirectional = False
    model = classifier(cell, pooling, layers, bidirectional)
    assert same(gradient_norms(model, IDS, LENGTHS, LABELS), norms_by_loop(model))


def test_the_gradient_of_a_sum_is_the_same_everywhere():
    norms = gradient_norms(classifier("sum", "last", bidirectional=False), IDS, LENGTHS, LABELS)
    assert torch.allclose(norms[0], norms[0, :1].expand(11))


@pytest.mark.parametrize("cell", OURS)
def test_frozen_and_unmasked_models_can_be_looked_into(cell):
    model = classifier(cell, "last")
    norms = gradient_norms(model, IDS, LENGTHS, LABELS)
    assert same(gradient_norms(model.requires_grad_(False), IDS, LENGTHS, LABELS), norms)
    assert not any("forward" in vars(module) for module in model.modules())
    unmasked = gradient_norms(classifier(cell, "last", masked=False), IDS, LENGTHS, LABELS)
    assert same(unmasked[0], norms[0])
    assert (unmasked[1, :4] > 0).all()


class Theirs(nn.Module):
    """A model of somebody else around a cell, which can classify from the final state."""

    def __init__(self, cell, final=False):
        super().__init__()
        torch.manual_seed(1)
        self.table, self.cell, self.out = nn.Embedding(20, 6), cell, nn.Linear(6, 3)
        self.final = final
        self.double()

    def embed(self, ids):
        return self.table(ids)

    def encode(self, embedded, lengths):
        states, last = self.cell(embedded)
        return last.unsqueeze(1) if self.final else states

    def classify(self, states, lengths):
        return self.out(states[:, -1])


@pytest.mark.parametrize(("ours", "torchs"), [(Elman, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_a_readable_cell_has_the_gradients_of_torchs(ours, torchs):
    models = []
    for kind in (ours, torchs):
        torch.manual_seed(5)
        models.append(Theirs(kind(6, 6, batch_first=True)))
    full = torch.full((4,), 11)
    mine, other = (gradient_norms(model, IDS, full, LABELS) for model in models)
    assert same(mine, other)


@pytest.mark.parametrize("kind", [SlidesGRU, MinGRU])
def test_the_final_state_counts_as_the_last_of_all(kind):
    full, norms = torch.full((4,), 11), []
    for final in (False, True):
        torch.manual_seed(5)
        norms.append(gradient_norms(Theirs(kind(6, 6), final), IDS, full, LABELS))
    assert same(norms[0], norms[1])


def test_a_cell_that_runs_otherwise_is_refused():
    class Other(Elman):
        def forward(self, inputs):
            return super().forward(inputs.flip(1))

    with pytest.raises(InputError, match="Other cannot be tapped"):
        gradient_norms(Theirs(Other(6, 6)), IDS, torch.full((4,), 11), LABELS)


def test_a_loss_that_reads_no_state_is_refused():
    class Blind(Theirs):
        def classify(self, states, lengths):
            return self.out(self.table.weight[: len(states)])

    with pytest.raises(InputError, match="does not depend on the states"):
        gradient_norms(Blind(MinGRU(6, 6)), IDS, torch.full((4,), 11), LABELS)


@pytest.mark.parametrize("cell", OURS)
def test_importance_and_sweeps_are_plain(cell):
    model = classifier(cell)
    assert not can_reuse(model)
    profile = nwi(model, IDS, LENGTHS.clamp(min=4), LABELS, k=2, unknown_index=0, points=5)
    assert profile.shape == (4, 5)
    points = padding_sweep(model, [[2, 3, 4, 5]] * 3, [0, 1, 2], [[6, 7]], shares=(0.0, 0.5))
    assert len({point.share for point in points}) == 2
