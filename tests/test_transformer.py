"""The Transformer against its formulas written slowly, and against torch's."""

import math

import pytest
import torch
from torch import nn

from whenpool import InputError, TextClassifier, TransformerEncoder
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import POOLINGS
from whenpool.models.transformer import sinusoids
from whenpool.probes import gradient_norms, nwi

LENGTHS = torch.tensor([9, 4, 1, 7])
CLOSE = {"rtol": 0, "atol": 1e-12}


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return torch.randn(4, 9, 5, dtype=torch.float64)


def encoder(**options):
    torch.manual_seed(2)
    made = TransformerEncoder(5, 6, layers=2, heads=3, **options).double().eval()
    with torch.no_grad():  # norms and biases that are not one and zero
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def slowly(made, text, causal=False):
    """One text (n, E), word by word and head by head, by the formulas of the article."""
    n, D = len(text), made.output_size
    F = D // made.heads
    states = []
    for t, word in enumerate(text):
        place = [
            (math.sin if unit % 2 == 0 else math.cos)(t / 10_000 ** (2 * (unit // 2) / D))
            for unit in range(D)
        ]
        states.append(made.into.weight @ word + made.into.bias + torch.tensor(place).double())
    for layer in made.layers:
        read = [layer.attention_norm(state) for state in states] if layer.norm == "pre" else states
        asked = [layer.asked.weight @ state + layer.asked.bias for state in read]
        found = []
        for t in range(n):
            heads = []
            for head in range(made.heads):
                units = slice(head * F, (head + 1) * F)
                seen = range(t + 1) if causal else range(n)
                scores = [asked[t][:D][units] @ asked[s][D : 2 * D][units] / F**0.5 for s in seen]
                total = sum(score.exp() for score in scores)
                values = [asked[s][2 * D :][units] for s in seen]
                heads.append(sum(a.exp() / total * v for a, v in zip(scores, values, strict=True)))
            found.append(layer.joined.weight @ torch.cat(heads) + layer.joined.bias)
        states = [state + add for state, add in zip(states, found, strict=True)]
        if layer.norm == "post":
            states = [layer.attention_norm(state) for state in states]
        read = [layer.wide_norm(state) for state in states] if layer.norm == "pre" else states
        wide = [(layer.wide.weight @ state + layer.wide.bias).clamp(min=0) for state in read]
        added = [layer.narrow.weight @ units + layer.narrow.bias for units in wide]
        states = [state + add for state, add in zip(states, added, strict=True)]
        if layer.norm == "post":
            states = [layer.wide_norm(state) for state in states]
    return torch.stack([made.last_norm(state) for state in states])


@pytest.mark.parametrize("attention", ["fused", "plain"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_equals_the_formulas(attention, norm, bidirectional, inputs):
    made = encoder(attention=attention, norm=norm, bidirectional=bidirectional)
    longer = torch.cat([inputs, torch.full((4, 3, 5), 1e6, dtype=torch.float64)], dim=1)
    states = made(longer, LENGTHS)
    assert states.shape == (4, 12, made.output_size)
    for text, n in enumerate(LENGTHS.tolist()):
        expected = slowly(made, inputs[text, :n], causal=not bidirectional)
        torch.testing.assert_close(states[text, :n], expected, **CLOSE)
        assert not states[text, n:].any()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_equals_torch_with_its_weights(norm, inputs):
    made = encoder(norm=norm, dropout=0.0).train()
    layer = nn.TransformerEncoderLayer(12, 3, 48, 0.0, batch_first=True, norm_first=norm == "pre")
    module = nn.TransformerEncoder(layer, 2, nn.LayerNorm(12) if norm == "pre" else None).double()
    made.load_torch(module)
    padding = ~word_mask(LENGTHS, 9)

    def gradients(states):
        made.zero_grad()
        (states * torch.arange(12.0)).sum().backward()
        return made.into.weight.grad.clone()

    theirs = module(made.into(inputs) + sinusoids(9, 12), src_key_padding_mask=padding)
    theirs = theirs.masked_fill(padding.unsqueeze(-1), 0)
    torch.testing.assert_close(made(inputs, LENGTHS), theirs, **CLOSE)
    ours, wanted = gradients(made(inputs, LENGTHS)), gradients(theirs)
    torch.testing.assert_close(ours, wanted, rtol=1e-10, atol=1e-10)


def test_long_texts_have_positions_of_their_own():
    made = TransformerEncoder(5, 4).eval()
    words = torch.zeros(1, 4_500, 5)
    with torch.inference_mode():  # the table that is made here is used by training below
        states = made(words, torch.tensor([4_500]))
    assert torch.isfinite(states).all()
    table = sinusoids(4_500, 8)
    assert len(torch.unique(table, dim=0)) == 4_500
    made(words[:, :600], torch.tensor([600])).sum().backward()
    assert made.into.weight.grad is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"heads": 5}, "heads=5 do not divide the 12 units"),
        ({"heads": 0}, "at least 1"),
        ({"attention": "sparse"}, "attention 'sparse' is unknown"),
        ({"norm": "none"}, "norm 'none' is unknown"),
        ({"dropout": 1.0}, r"a rate in \[0, 1\)"),
    ],
)
def test_a_mistake_is_named(given, said):
    with pytest.raises(InputError, match=said):
        TransformerEncoder(5, 6, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"forget_bias": 1.0}, "forget_bias=1.0"), ({"forget_bias": "chrono"}, "forget_bias='chrono'"),
        ({"orthogonal": True}, "orthogonal=True"), ({"drop_connect": 0.2}, "drop_connect=0.2"),
        ({"masked": False}, "masked=False"), ({"hidden_size": 3}, "heads=4 do not divide the 6 units"),
    ],
)  # fmt: skip
def test_a_classifier_says_what_a_transformer_lacks(given, said):
    with pytest.raises(InputError, match=said):
        TextClassifier(30, 2, cell="transformer", **({"hidden_size": 8} | given))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_pooling_and_probe_works_on_it(pooling, bidirectional):
    torch.manual_seed(0)
    model = TextClassifier(30, 2, pooling, "transformer", 6, 8, 2, bidirectional)
    ids, lengths, labels = torch.randint(30, (3, 12)), torch.tensor([12, 5, 7]), torch.tensor([0, 1, 1])
    norms = gradient_norms(model, ids, lengths, labels)
    states = model.eval().encode(model.embed(ids), lengths).detach().requires_grad_()
    loss = nn.functional.cross_entropy(model.classify(states, lengths), labels, reduction="sum")
    direct = torch.autograd.grad(loss, states)[0].norm(dim=-1)
    words = word_mask(lengths, 12)
    torch.testing.assert_close(norms[words], direct[words], rtol=1e-4, atol=1e-9)
    importance = nwi(model, ids, lengths, labels, k=2, unknown_index=0, points=5)
    assert importance.shape == (3, 5)
    assert importance.min() >= 0
    assert importance.max() <= 1
