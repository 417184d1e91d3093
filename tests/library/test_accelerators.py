"""Encoders, poolings and probes against float64 on the processor, on each device that is
here.

`pytest -m cuda` runs those of a GPU, which are skipped where there is none.
"""

import copy
from unittest import mock

import pytest
import torch

from whenpool import POOLINGS, TextClassifier
from whenpool.corpora.batches import Batch
from whenpool.models import pooling as poolings
from whenpool.models.precision import precision, processor_has_bfloat16
from whenpool.probes import gradient_norms, nwi
from whenpool.training.loop import Objective

CELLS = ["lstm", "gru", "elman", "prototype", "mingru", "minlstm", "ssm", "lru", "transformer"]
TOLERANCE = {"float32": 1e-5, "bfloat16": 1e-2}
torch.backends.cudnn.allow_tf32 = False  # what is compared with float64
absent = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
gpu = pytest.param("cuda", marks=[pytest.mark.cuda, absent])
pytestmark = pytest.mark.parametrize("device", ["cpu", gpu])
LENGTHS = torch.tensor([31, 1, 17, 5, 1, 29])
IDS = torch.randint(2, 50, (6, 31), generator=torch.Generator().manual_seed(5))
LABELS = torch.tensor([0, 1, 1, 0, 1, 0])
INDICES = torch.arange(6)


def model(pooling="last", cell="lstm", **options):
    torch.manual_seed(1)
    return TextClassifier(50, 2, pooling, cell, 12, 16, padding_index=1, **options)


def moved(device):
    return Batch(IDS.to(device), LENGTHS.to(device), LABELS.to(device))


def learnt(net, device):
    """The loss, the logits and every gradient of a step, as one vector."""
    loss, logits = Objective().backward(net, moved(device), INDICES)
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    return torch.cat(
        [value.detach().double().cpu().flatten() for value in (loss, logits, *gradients)]
    )


def error(found, exact):
    return (found.double().cpu() - exact).norm() / exact.norm()


def compared(net, device, name):
    """The exact step takes its maxima at the words where the rounded one found them: of two states
    that are nearly equal rounding may prefer the other, and the gradient then goes to another
    word."""
    double, taken = copy.deepcopy(net).double(), []
    largest = poolings._max_over_words

    def noted(states, mask):
        leaf = states.detach().requires_grad_()
        # 1 or 0
        taken.append(torch.autograd.grad(largest(leaf, mask).sum(), leaf)[0].double().cpu())
        return largest(states, mask)

    def same(states, mask):
        values = (states * taken.pop(0)).sum(1)
        assert (largest(states, mask) - values).max() < 2 * TOLERANCE[name]  # each state may be off
        return values

    with precision(name), mock.patch.object(poolings, "_max_over_words", noted):
        found = learnt(net.to(device), device)
    with mock.patch.object(poolings, "_max_over_words", same):
        exact = learnt(double, "cpu")
    assert error(found, exact) < TOLERANCE[name]


@pytest.mark.parametrize("name", TOLERANCE)
@pytest.mark.parametrize(
    "pooling, cell, layers",
    [
        *((pooling, "lstm", 1) for pooling in POOLINGS),
        *(("max_attention", cell, 2) for cell in CELLS),
    ],
)
def test_poolings_and_cells_agree_with_float64(device, pooling, cell, layers, name):
    if name == "bfloat16" and device == "cpu" and not processor_has_bfloat16():
        pytest.skip("this processor has no bfloat16")
    net = model(pooling, cell, layers=layers)
    for module in net.modules():
        module.dropout = 0.0  # of a Transformer: each device draws other numbers
    compared(net, device, name)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_probes_agree_with_float64(device, pooling, cell):
    net = model(pooling, cell)
    exact, here = copy.deepcopy(net).double(), moved(device)
    norms = gradient_norms(net.to(device), *here).nan_to_num()
    assert error(norms, gradient_norms(exact, IDS, LENGTHS, LABELS).nan_to_num()) < 1e-5
    rows = LENGTHS >= 5
    profile = nwi(net, here.ids[rows], here.lengths[rows], here.labels[rows])
    # A profile is a small difference of probabilities divided by its largest: rounding errors grow.
    assert error(profile, nwi(exact, IDS[rows], LENGTHS[rows], LABELS[rows])) < 1e-2


def test_a_step_never_waits_for_the_device(device):
    if device == "cpu":
        pytest.skip("a processor does not compute behind the program's back")
    net = model("max_attention").to(device)
    optimizer, batch = torch.optim.Adam(net.parameters(), fused=True), moved(device)
    Objective().backward(net, batch, INDICES)  # makes what is made once
    torch.cuda.set_sync_debug_mode("error")
    try:
        Objective().backward(net, batch, INDICES)
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
