"""The text classifier and its three steps."""

import pytest
import torch

from whenpool import POOLINGS, InputError, TextClassifier

IDS = torch.tensor([[2, 3, 4, 5], [6, 7, 1, 1], [8, 1, 1, 1]])
LENGTHS = torch.tensor([4, 2, 1])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
def test_the_three_steps_are_the_model(pooling, cell):
    model = TextClassifier(9, 3, pooling, cell, embedding_size=5, hidden_size=4, padding_index=1)
    logits = model(IDS, LENGTHS)
    assert logits.shape == (3, 3)
    states = model.encode(model.embed(IDS), LENGTHS)
    assert states.shape == (3, 4, 8)
    torch.testing.assert_close(model.classify(states, LENGTHS), logits)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_logits_do_not_depend_on_company_order_or_padding(pooling, bidirectional, layers):
    torch.manual_seed(0)
    model = TextClassifier(
        9, 2, pooling, embedding_size=5, hidden_size=4, layers=layers, bidirectional=bidirectional,
        padding_index=1,
    ).double()  # fmt: skip
    expected = model(IDS, LENGTHS)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(model(IDS[order], LENGTHS[order]), expected[order])
    padded = torch.cat([IDS, torch.full((3, 5), 7)], dim=1)  # whatever stands there
    torch.testing.assert_close(model(padded, LENGTHS), expected)
    for row, length in enumerate(LENGTHS):
        alone = model(IDS[row : row + 1, :length], length.unsqueeze(0))
        torch.testing.assert_close(alone, expected[row : row + 1])


def test_unmasked_models_read_their_padding():
    model = TextClassifier(9, 2, "mean", embedding_size=5, hidden_size=4, masked=False)
    padded = torch.cat([IDS, torch.ones(3, 5, dtype=torch.long)], dim=1)
    assert not torch.allclose(model(padded, LENGTHS), model(IDS, LENGTHS))
    weights = model.pool(model.encode(model.embed(IDS), LENGTHS), LENGTHS)[1]
    assert (weights == 0.25).all()


@pytest.mark.parametrize(("pooling", "expected"), [("last", 1.0), ("max", None)])
def test_the_forget_bias_of_the_thesis(pooling, expected):
    model = TextClassifier(9, 2, pooling, hidden_size=16)
    recurrence = model.encoder.layers[0][0]
    total = (recurrence.bias_ih_l0 + recurrence.bias_hh_l0)[16:32]
    if expected is None:
        assert total.std() > 0
    else:
        assert (total == expected).all()


def test_vectors_start_the_embedding_and_must_fit():
    vectors = torch.randn(9, 5)
    model = TextClassifier(9, 2, embedding_size=5, hidden_size=4, vectors=vectors, padding_index=1)
    assert torch.equal(model.embed(IDS)[0, 0], vectors[2])
    assert model.embedding.weight.requires_grad
    with pytest.raises(
        InputError, match=r"word vectors have the shape \(9, 5\), the model's embedding \(9, 6\)"
    ):
        TextClassifier(9, 2, embedding_size=6, hidden_size=4, vectors=vectors)


def test_an_unknown_pooling_is_named():
    with pytest.raises(InputError, match="pooling 'maximum' is unknown; choose one of last, mean, max"):
        TextClassifier(9, 2, "maximum")
