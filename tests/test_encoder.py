"""The encoder against torch's recurrences on packed input, its precision, and the classifier on it."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whenpool import POOLINGS, Encoder, InputError, SequenceTagger, TextClassifier, TransformerEncoder
from whenpool.models.cells import TORCH_CELLS
from whenpool.models.precision import precision, precision_used, product_precision
from whenpool.runs.run import provenance

LENGTHS = torch.tensor([9, 4, 1, 7])


def packed(module, inputs, lengths):
    packed_input = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(module(packed_input)[0], batch_first=True)[0]


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return torch.randn(4, 9, 5, dtype=torch.float64)


@pytest.mark.parametrize(("cell", "torch_class"), TORCH_CELLS.items())
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_equals_torch_on_packed_input(cell, torch_class, layers, bidirectional, inputs):
    torch.manual_seed(3)
    module = torch_class(5, 6, layers, bidirectional=bidirectional, batch_first=True).double()
    torch.manual_seed(3)  # the same seed gives the same weights
    encoder = Encoder(5, 6, cell, layers, bidirectional).double()
    ours, theirs = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()
    states, expected = encoder(ours, LENGTHS), packed(module, theirs, LENGTHS)
    assert states.shape == (4, 9, encoder.output_size)
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-14)
    weight = torch.randn_like(states)
    (states * weight).sum().backward()
    (expected * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-13)
    for mine, other in zip(encoder.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=1e-12)


def test_second_derivatives_are_those_of_finite_differences():
    torch.manual_seed(4)
    encoder = Encoder(2, 2).double()
    texts = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradgradcheck(lambda x: encoder(x, torch.tensor([3, 2])), (texts,))


def test_weights_of_torch_are_taken_over_and_unmasked_it_is_torch_on_padded_input(inputs):
    module = nn.LSTM(5, 6, bidirectional=True, batch_first=True).double()
    encoder = Encoder(5, 6, masked=False).double().load_torch(module)
    torch.testing.assert_close(encoder(inputs, LENGTHS), module(inputs)[0], rtol=0, atol=1e-14)
    with pytest.raises(InputError, match="another cell, size or number of layers"):
        encoder.load_torch(nn.GRU(5, 6, bidirectional=True))


def test_low_and_chrono_forget_biases_have_their_distributions():
    torch.manual_seed(0)
    low = Encoder(5, 400, forget_bias="low").layers[0][0]
    for bias in (low.bias_ih_l0, low.bias_hh_l0):
        assert bias[400:800].abs().max() <= 1 / 20
        assert bias[400:800].std().item() == pytest.approx(1 / 20 / 3**0.5, rel=0.1)
    chrono = Encoder(5, 400, forget_bias="chrono", chrono_words=101).layers[0][0]
    total = chrono.bias_ih_l0 + chrono.bias_hh_l0
    memory = total[400:800].exp()
    assert memory.min() >= 1
    assert memory.max() <= 100
    assert memory.mean().item() == pytest.approx(50.5, rel=0.1)
    torch.testing.assert_close(total[:400], -total[400:800])


def test_drop_connect_drops_recurrent_weights_in_training_only(inputs):
    encoder = Encoder(5, 6, drop_connect=0.5).double()
    plain = Encoder(5, 6).double()
    plain.load_state_dict(encoder.state_dict())
    expected = plain(inputs, LENGTHS)
    encoder.eval()
    torch.testing.assert_close(encoder(inputs, LENGTHS), expected)
    encoder.train()
    torch.manual_seed(0)
    dropped = encoder(inputs, LENGTHS)
    assert not torch.allclose(dropped[:, 1:3], expected[:, 1:3])
    last = LENGTHS - 1  # where no step has been taken, recurrent weights cannot matter
    rows = torch.arange(4)
    torch.testing.assert_close(dropped[:, 0, :6], expected[:, 0, :6])
    torch.testing.assert_close(dropped[rows, last, 6:], expected[rows, last, 6:])
    dropped.sum().backward()
    unused = (encoder.layers[0][0].weight_hh_l0.grad == 0).double().mean()
    assert unused.item() == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cell": "lstmm"}, "cell 'lstmm' is unknown; choose one of lstm, gru, elman"),
        ({"cell": "gru", "forget_bias": 1.0}, "a forget bias needs a forget gate"),
        ({"forget_bias": "high"}, "forget_bias 'high' is unknown; give a number, 'low' or 'chrono'"),
        ({"layers": 0}, "layers=0 and hidden_size=6 must be at least 1"),
        ({"drop_connect": 1.0}, r"drop_connect is a rate in \[0, 1\), not 1.0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        Encoder(5, 6, **arguments)


@pytest.mark.parametrize("kind", [Encoder, TransformerEncoder])
@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (torch.tensor([4]), "a batch of 4 texts needs 4 lengths, not"),
        (torch.tensor(4), "a batch of 4 texts needs 4 lengths, not"),
        (torch.ones(4, 9), "needs 4 lengths, not .4, 9.; an encoder takes a mask as mask=mask"),
        (torch.tensor([10, 1, 1, 1]), "a text of 10 words in a batch of 9 positions"),
        (torch.tensor([9, 9, 0, 9]), "text 2 has no words: leave it out, or give it one unknown word"),
        ([9, 9, 9, 9], r"lengths are a tensor \(B,\), not a list: torch.tensor"),
        (None, "lengths are missing: say how many words each text has"),
    ],
    ids=str,
)
def test_lengths_that_do_not_fit_are_named(kind, inputs, lengths, message):
    with pytest.raises(InputError, match=message):
        kind(5, 6).double()(inputs, lengths)
    with pytest.raises(InputError, match="the batch has no words, T = 0"):
        kind(5, 6).double()(inputs[:, :0], LENGTHS)


@pytest.mark.parametrize("kind", [Encoder, TransformerEncoder])
def test_texts_padded_on_the_left_need_a_mask(kind, inputs):
    words = torch.arange(9) < LENGTHS.unsqueeze(1)
    inputs = inputs * words.unsqueeze(-1)
    left, mask = torch.zeros_like(inputs), words.flip(1)
    left[mask] = inputs[words]
    encoder = kind(5, 6).double().eval()
    with pytest.raises(InputError, match="texts are padded on the left: pad on the right, or"):
        encoder(left, LENGTHS)
    with pytest.raises(InputError, match=r"the mask is \(4, 8\), not \(B, T\) = \(4, 9\)"):
        encoder(left, mask=mask[:, 1:])
    states = encoder(left, mask=mask)
    torch.testing.assert_close(states[mask], encoder(inputs, LENGTHS)[words])
    assert not states[~mask].any()


TWO = torch.tensor([9, 5])


@pytest.fixture
def two_texts_encoder():
    torch.manual_seed(0)
    return Encoder(6, 8)


def test_bfloat16_is_near_float32_and_gives_float32_states(two_texts_encoder):
    inputs = torch.randn(2, 9, 6, requires_grad=True)
    exact = two_texts_encoder(inputs, TWO)
    with precision("bfloat16"):
        rounded = two_texts_encoder(inputs, TWO)
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 2e-2
    (gradient,) = torch.autograd.grad(rounded.sum(), inputs)
    assert gradient.dtype == torch.float32
    assert torch.equal(two_texts_encoder(inputs, TWO), exact)  # afterwards as before


def test_on_a_gpu_weights_and_inputs_are_rounded_without_autocast(two_texts_encoder, monkeypatch):
    """As cuDNN's recurrences need it; the arithmetic is tried here on a processor."""
    inputs = torch.randn(2, 9, 6)
    exact, seen = two_texts_encoder(inputs, TWO), []
    monkeypatch.setattr("whenpool.models.recorded.cast_on_gpu", lambda device: True)
    for module in two_texts_encoder.modules():
        if isinstance(module, torch.nn.LSTM):
            module.register_forward_pre_hook(lambda _, fed: seen.append(fed[0].dtype))
    rounded = two_texts_encoder(inputs, TWO)
    assert seen == [torch.bfloat16] * 2
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 2e-2
    rounded.sum().backward()
    assert {parameter.grad.dtype for parameter in two_texts_encoder.parameters()} == {torch.float32}


def test_products_of_recurrences_alone_take_tf32_and_all_is_set_back():
    matmul = torch.backends.cuda.matmul
    assert provenance("cpu")["precision"] == "float32"
    assert not torch.backends.cudnn.allow_tf32  # which torch itself would take
    with precision("tf32"):
        assert torch.backends.cudnn.allow_tf32
        assert provenance("cpu")["precision"] == "tf32"
        assert not matmul.allow_tf32
        with product_precision():
            assert matmul.allow_tf32
        assert not matmul.allow_tf32
    assert precision_used() == "float32"
    assert not torch.backends.cudnn.allow_tf32
    with product_precision():
        assert not matmul.allow_tf32
    message = "precision 'fp8' is unknown; choose one of float32, tf32"
    with pytest.raises(InputError, match=message), precision("fp8"):
        pass


IDS = torch.tensor([[2, 3, 4, 5], [6, 7, 1, 1], [8, 1, 1, 1]])
THREE = torch.tensor([4, 2, 1])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_logits_do_not_depend_on_other_texts_order_or_padding(pooling, bidirectional, layers):
    torch.manual_seed(0)
    model = TextClassifier(
        9, 2, pooling, embedding_size=5, hidden_size=4, layers=layers, bidirectional=bidirectional,
        padding_index=1,
    ).double()  # fmt: skip
    expected = model(IDS, THREE)
    assert expected.shape == (3, 2)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(model(IDS[order], THREE[order]), expected[order])
    padded = torch.cat([IDS, torch.full((3, 5), 7)], dim=1)  # whatever stands there
    torch.testing.assert_close(model(padded, THREE), expected)
    for row, length in enumerate(THREE):
        alone = model(IDS[row : row + 1, :length], length.unsqueeze(0))
        torch.testing.assert_close(alone, expected[row : row + 1])


def test_unmasked_models_read_their_padding():
    model = TextClassifier(9, 2, "mean", embedding_size=5, hidden_size=4, masked=False)
    padded = torch.cat([IDS, torch.ones(3, 5, dtype=torch.long)], dim=1)
    assert not torch.allclose(model(padded, THREE), model(IDS, THREE))
    weights = model.pool(model.encode(model.embed(IDS), THREE), THREE)[1]
    assert (weights == 0.25).all()


def test_the_forget_bias_of_the_thesis():
    for pooling in ("last", "max"):
        recurrence = TextClassifier(9, 2, pooling, hidden_size=16).encoder.layers[0][0]
        total = (recurrence.bias_ih_l0 + recurrence.bias_hh_l0)[16:32]
        assert (total == 1).all() if pooling == "last" else total.std() > 0


def test_vectors_start_the_embedding_and_must_fit():
    vectors = torch.randn(9, 5)
    model = TextClassifier(9, 2, embedding_size=5, hidden_size=4, vectors=vectors, padding_index=1)
    assert torch.equal(model.embed(IDS)[0, 0], vectors[2])
    assert model.embedding.weight.requires_grad
    message = r"word vectors have the shape \(9, 5\), the model's embedding \(9, 6\)"
    with pytest.raises(InputError, match=message):
        TextClassifier(9, 2, embedding_size=6, hidden_size=4, vectors=vectors)


def test_what_a_model_cannot_read_is_named():
    with pytest.raises(InputError, match="pooling 'maximum' is unknown; choose one of last, mean, max"):
        TextClassifier(9, 2, "maximum")
    for model in (TextClassifier(9, 2, hidden_size=4), SequenceTagger(9, 2, hidden_size=4)):
        with pytest.raises(InputError, match="lengths are missing"):
            model(IDS)
    model = TextClassifier(9, 2, embedding_size=5, vectors=torch.randn(9, 5), padding_index=1)
    with pytest.raises(InputError, match="texts are padded on the left: pad them on the right"):
        model(IDS.flip(1), THREE)
