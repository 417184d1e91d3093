"""The memory of a training step: what is counted, how it grows, and how it is stored."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from whenpool import InputError, TextClassifier
from whenpool.probes import step_megabytes
from whenpool.runs.kinds.probe import MemoryUse, Probe, growth
from whenpool.runs.kinds.training import Training

BASE = Training(
    "synthetic:train=40,validation=10,test=10,shortest=5,longest=9", "standard", 30, "max_attention",
    length="any", embedding_size=6, hidden_size=8,
)  # fmt: skip


class Known(nn.Module):
    """Holds what can be told by hand: the logits are means of squares of a table's rows."""

    def __init__(self, units):
        super().__init__()
        self.table = nn.Parameter(torch.randn(10, units))

    def forward(self, ids, lengths):
        return self.table[ids].square().mean(1)[:, :2]


def step(model, words):
    ids = torch.arange(words)[None] % 10
    return step_megabytes(model, ids, torch.tensor([words]), torch.tensor([1]))


def test_counts_what_is_alive_together_and_no_more():
    words, units = 4_000, 50
    rows = words * units * 4 / 1e6  # MB of one (1, T, D)
    found = step(Known(units), words)
    assert found >= 2 * rows  # the rows and their squares
    assert found <= 5.1 * rows  # the rows, and their gradient in the four steps that torch takes to it


def test_is_the_same_every_time_and_leaves_the_model_alone():
    torch.manual_seed(0)
    model = TextClassifier(10, 2, cell="transformer", embedding_size=6, hidden_size=8).eval()
    model.classifier.bias.grad = torch.ones(2)
    state = torch.random.get_rng_state()
    assert step(model, 50) == step(model, 50)
    assert not model.training
    assert torch.equal(model.classifier.bias.grad, torch.ones(2))
    assert model.embedding.weight.grad is None
    assert torch.equal(torch.random.get_rng_state(), state)


def test_scores_that_are_kept_grow_with_the_square_and_nothing_else_does():
    def exponent(cell, attention="fused"):
        model = TextClassifier(10, 2, cell=cell, embedding_size=6, hidden_size=8)
        if attention == "plain":
            model.encoder.attention = attention
        words = (512, 1_024, 2_048)
        return growth([{"words": n, "megabytes": step(model, n)} for n in words])

    assert exponent("transformer", "plain") > 1.9
    assert exponent("transformer") < 1.1
    assert exponent("lstm") < 1.1


def test_a_run_is_stored_with_its_rows(place):
    probe = MemoryUse(replace(BASE, cell="transformer"), longest=64, halvings=2, attention="plain")
    assert probe.needs is None
    probe.execute(place)
    probes = place.store.current("probe")
    assert Probe.of_row(probes.iloc[0]) == probe
    measured = place.store.measured_on(probes, "memory")
    assert measured["words"].tolist() == [16, 32, 64]
    assert (measured["megabytes"] > 0).all()
    assert measured["exponent"].iloc[0] == pytest.approx(growth(measured.to_dict("records")))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"attention": "plain"}, "attention='plain' is of a Transformer"),
        ({"attention": "sparse", "training": replace(BASE, cell="transformer")}, "is unknown; choose"),
        ({"longest": 4, "halvings": 3}, "longest=4 cannot be halved 3 times"),
        ({"halvings": 0}, "give at least one halving"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(place, given, said):
    with pytest.raises(InputError, match=said):
        MemoryUse(**({"training": BASE} | given)).identity(place)
