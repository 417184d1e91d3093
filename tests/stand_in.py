"""Run by `test_export.py`: training steps on a device that is not the processor.

It is a stand-in of torch's, whose tensors have shapes alone. It raises where tensors of two devices
meet, and where a step reads a value back from its device.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from whenpool import POOLINGS, SequenceTagger, TextClassifier
from whenpool.corpora.batches import Batch
from whenpool.models.precision import precision
from whenpool.training.loop import Objective

try:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend as stand_in
except ImportError:
    pytest.skip("this torch has no stand-in for a device", allow_module_level=True)

B, T, CLASSES = 4, 6, 3
CELLS = ("elman", "prototype", "mingru", "minlstm", "ssm", "lru", "transformer")
"""But for torch's GRU, which fails in the stand-in."""
OPTIONS = [
    *({"pooling": pooling} for pooling in POOLINGS),
    *({"cell": cell} for cell in CELLS),
    {"masked": False},
    {"drop_connect": 0.3},
    {"layers": 2},
    {"bidirectional": False},
    {"forget_bias": "chrono"},
    {"orthogonal": True},
]
stand_in("npy")


@pytest.fixture(autouse=True)
def _device(monkeypatch):
    monkeypatch.setattr(torch.nn.RNNBase, "flatten_parameters", lambda self: None)
    with FakeTensorMode(), torch.device("npy"):
        yield


def batch(shape=(B,)):
    ids, lengths = torch.empty(B, T, dtype=torch.int64), torch.empty(B, dtype=torch.int64)
    return Batch(ids, lengths, torch.empty(shape, dtype=torch.int64))


def classifier(pooling="last", cell="lstm", **options):
    return TextClassifier(50, CLASSES, pooling, cell, 8, 16, **options)


def step(model, objective=None):
    """One training step as `whenpool.training.loop` makes it."""
    objective = objective or Objective()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    loss, logits = objective.backward(model, batch(), torch.arange(B))
    assert {loss.device.type, logits.device.type} == {"npy"}
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(gradient.device.type == "npy" for gradient in gradients)
    optimizer.step()


def test_the_stand_in_notices_what_it_is_for():
    here, there = torch.ones(3), torch.ones(3, device="cpu")
    with pytest.raises(RuntimeError, match="on the same device"):
        here + there
    with pytest.raises(DataDependentOutputException):
        here.sum().item()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_model_learns_there(options):
    step(classifier(**options))


def test_a_model_learns_there_in_lower_precision():
    with precision("bfloat16"):
        step(classifier("max_attention", layers=2))


def test_a_tagger_learns_there():
    ids, lengths, tags = batch((B, T))
    loss = SequenceTagger(50, 5, embedding_size=8, hidden_size=16).loss(ids, lengths, tags)
    loss.backward()
    assert loss.device.type == "npy"
