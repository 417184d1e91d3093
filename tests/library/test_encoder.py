"""The encoder against torch's recurrences on packed input, its precision, the classifier on it, and
the Transformer against its formulas written slowly and against torch's."""

from functools import partial

import numpy as np
import pytest
import torch
from called import refused
from small_models import both_ways, close
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whenpool import Encoder, SequenceTagger, TextClassifier, TransformerEncoder
from whenpool.models import batched_lstm
from whenpool.models.cells import CELLS, TORCH_CELLS
from whenpool.models.encoder import word_mask

LENGTHS = torch.tensor([9, 4, 1, 7])
LACKED = {"forget_bias": "chrono", "orthogonal": True, "drop_connect": 0.2, "masked": False}
LACKED |= {"backward": "even"}
without_recurrence = partial(TextClassifier, cell="transformer", hidden_size=8)


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return torch.randn(4, 9, 5, dtype=torch.float64)


@pytest.mark.parametrize("cell, torch_class", TORCH_CELLS.items())
@pytest.mark.parametrize("layers", [1, 2])
@both_ways
def test_equals_torch_on_packed_input(cell, torch_class, layers, bidirectional, inputs):
    torch.manual_seed(3)
    module = torch_class(5, 6, layers, bidirectional=bidirectional, batch_first=True).double()
    torch.manual_seed(3)  # the same seed gives the same weights
    encoder = Encoder(5, 6, cell, layers, bidirectional).double()
    ours, theirs = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()
    packed = pack_padded_sequence(theirs, LENGTHS, batch_first=True, enforce_sorted=False)
    states, (expected, _) = encoder(ours, LENGTHS), pad_packed_sequence(module(packed)[0], True)
    close(states, expected, atol=1e-14)
    weight = torch.randn_like(states)
    found = torch.autograd.grad((states * weight).sum(), (ours, *encoder.parameters()))
    wanted = torch.autograd.grad((expected * weight).sum(), (theirs, *module.parameters()))
    close(found, wanted, atol=1e-12)


def biases(encoder):
    """The sums of both bias vectors of the first direction, by gate: an LSTM's are i, f, g, o."""
    module = encoder.layers[0][0]
    total = sum(bias.detach() for name, bias in module.named_parameters() if "bias" in name)
    return total.split(module.hidden_size)


def started(H=400, cell="lstm", **options):
    torch.manual_seed(3)
    return biases(Encoder(4, H, cell, **options))


def test_starts_set_the_gates_that_they_name_and_no_others():
    usual, chrono = started(), started(forget_bias="chrono", chrono_words=101)
    v = np.log(400.0)  # a number of numpy
    both = started(forget_bias=v, input_bias=-v)
    assert [gate.unique().item() for gate in both[:2]] == pytest.approx([-v, v])
    assert torch.equal(chrono[0], -chrono[1])
    for part, gate, other in (("forget", 1, 0), ("input", 0, 1)):
        alone = started(forget_bias=f"chrono {part}", chrono_words=101)
        assert torch.equal(alone[gate], chrono[gate])
        assert torch.equal(alone[other], usual[other])
    for start in (both, chrono):
        assert all(torch.equal(start[gate], usual[gate]) for gate in (2, 3))
    gates = ("lstm", 1, 1), ("gru", 1, 1), ("mingru", 0, -1)  # what keeps; of the last what writes
    for cell, gate, sign in gates:
        start = started(cell=cell, forget_bias="chrono", chrono_words=101)
        memory = (sign * start[gate]).exp()
        assert 1 <= memory.min() < 10 < 90 < memory.max() <= 100
    assert started(forget_bias="low")[1].abs().max() <= 2 / 400**0.5
    for pooling in ("last", "max"):  # that of the thesis
        forget = biases(TextClassifier(9, 2, pooling, hidden_size=16).encoder)[1]
        assert (forget == 1).all() == (pooling == "last")


@pytest.mark.parametrize("cell", ["lstm", "gru", "mingru"])
def test_a_state_with_these_gates_is_a_running_mean(cell):
    """f = 1 - 1/T and i = 1/T, once recurrent weights and those into the gates are zero."""
    v, T, proposal = 3.0, 1 + np.exp(3.0), 2 if cell == "lstm" else -1
    gates = {"input_bias": -v} if cell == "lstm" else {}  # the others keep and write by one gate
    encoder = Encoder(1, 1, cell, forget_bias=v, bidirectional=False, **gates).double()
    with torch.no_grad():
        for name, weight in encoder.layers[0][0].named_parameters():
            weight[0 if "weight" in name else proposal :] = 0.0
        encoder.layers[0][0].weight_ih_l0[proposal] = 1.0
    words = torch.randn(1, 60, 1, dtype=torch.float64)
    state = encoder(words, torch.tensor([60]))[0, -1, 0]
    weights = (1 / T) * (1 - 1 / T) ** torch.arange(59, -1, -1, dtype=torch.float64)
    mean = (weights * (words if cell == "mingru" else words.tanh())[0, :, 0]).sum()
    expected = 0.5 * mean.tanh() if cell == "lstm" else mean
    assert state.item() == pytest.approx(expected.item(), rel=1e-9)


def test_drop_connect_drops_recurrent_weights_in_training_only(inputs):
    encoder, plain = Encoder(5, 6, drop_connect=0.5).double(), Encoder(5, 6).double()
    plain.load_state_dict(encoder.state_dict())
    expected = plain(inputs, LENGTHS)
    close(encoder.eval()(inputs, LENGTHS), expected)
    torch.manual_seed(0)
    dropped = encoder.train()(inputs, LENGTHS)
    assert not torch.allclose(dropped[:, 1:3], expected[:, 1:3])
    close(dropped[:, 0, :6], expected[:, 0, :6])  # before the first step
    dropped.sum().backward()
    unused = (encoder.layers[0][0].weight_hh_l0.grad == 0).double().mean()
    assert unused.item() == pytest.approx(0.5, abs=0.2)


def by_loop(way, encoder, inputs, above):
    """Gradients of inputs and weights by autograd through a loop over the words of each text, for
    the gradient ``above`` (B, T, D) of states: what comes back to a state or a cell goes along a
    path of its own, which adds nothing to the values."""
    leaves, total = [inputs.clone().requires_grad_(), *encoder.parameters()], 0.0
    for k, module in enumerate(encoder.layers[0]):
        into, across, *biases = module.parameters()
        H = module.hidden_size
        for b, n in enumerate(LENGTHS.tolist()):
            above_text = above[b, :n, k * H : (k + 1) * H]
            share = above_text.norm(dim=1).mean()
            h = c = torch.zeros(H).double()
            for t in reversed(range(n)) if k else range(n):
                learnt = into @ leaves[0][b, t] + across @ h.detach() + sum(biases)
                passed = across.detach() @ h
                i, f, g, o = (learnt + passed - passed.detach()).split(H)
                kept = f.sigmoid() * (c.detach() if way == "open" else c)
                c = kept + (c - c.detach() if way == "open" else 0) + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                if way == "even":
                    make_even(h, learnt, share)
                total = total + h @ above_text[t]
    return torch.autograd.grad(total, leaves)


def make_even(h, learnt, share):
    """Scale what comes back to ``learnt`` so that the whole gradient of h would have the norm
    ``share``."""
    norms = []
    h.register_hook(lambda grad: norms.append(grad.norm()))
    learnt.register_hook(lambda grad: grad * (share / norms[0] if norms[0] > 0 else 0))


@pytest.mark.parametrize("way", ["open", "even"])
@both_ways
@pytest.mark.parametrize("ends", [True, False])
def test_other_ways_back_are_those_of_a_loop_over_words(
    way, bidirectional, ends, inputs, monkeypatch
):
    """Also where a gradient comes from the last states alone, which leaves others with nothing from
    above."""
    monkeypatch.setattr(batched_lstm, "_STEPS", 4)
    torch.manual_seed(2)
    encoder = Encoder(5, 6, bidirectional=bidirectional, forget_bias=1.0, backward=way).double()
    given = inputs.clone().requires_grad_()
    states, above = encoder(given, LENGTHS), torch.randn(4, 9, encoder.output_size).double()
    close(states, encoder.eval()(inputs, LENGTHS), atol=1e-12)
    if ends:
        last = torch.arange(9) == LENGTHS.unsqueeze(1) - 1
        above[..., :6] *= last.unsqueeze(-1)
        above[:, 1:, 6:] = 0
        above[3] = 0  # of a text with no gradient at all
    found = torch.autograd.grad(states, (given, *encoder.parameters()), above)
    expected = by_loop(way, encoder, inputs, above)
    close(found, expected, atol=1e-12, rtol=1e-10)


def test_an_even_gradient_reaches_words_from_which_float32_would_lose_it():
    torch.manual_seed(0)
    encoder = Encoder(3, 4, bidirectional=False, forget_bias=-2.0, backward="even")
    words, above = torch.randn(1, 200, 3, requires_grad=True), torch.zeros(1, 200, 4)
    above[0, -1] = 1e-6
    lengths = torch.tensor([200])
    (found,) = torch.autograd.grad(encoder(words, lengths), words, above)
    (lost,) = torch.autograd.grad(encoder.eval()(words, lengths), words, above)
    assert lost[0, 0].eq(0).all()
    states = encoder.train().double()(words.double(), lengths)
    (exact,) = torch.autograd.grad(states, words, above.double())
    close(found, exact, atol=1e-12, rtol=1e-3)
    assert 1e-11 < found[0, 0].norm() < 1e-7


@pytest.mark.parametrize(
    "kind, arguments, message",
    [
        *(
            (without_recurrence, {name: value}, f"{name}={value!r}")
            for name, value in LACKED.items()
        ),
        (
            TextClassifier,
            {"pooling": "maximum"},
            "'maximum' is unknown; choose one of last, mean, max",
        ),
        (Encoder, {"cell": "lstmm"}, "cell 'lstmm' is unknown; choose one of lstm, gru, elman"),
        (Encoder, {"forget_bias": "high"}, "'high' is unknown; choose one of low, chrono"),
        (Encoder, {"backward": "shut"}, "backward 'shut' is unknown; choose one of open, even"),
        *(
            (Encoder, {"cell": "gru", name: value}, f"{name} needs cell='lstm'; leave it out")
            for name, value in (("backward", "open"), ("input_bias", -1.0))
        ),
        (Encoder, {"layers": 0}, "layers must be at least 1, not 0"),
        (TransformerEncoder, {"heads": 5}, "heads=5 does not divide the 12 units"),
    ],
)
def test_bad_arguments_are_named(kind, arguments, message):
    refused(message, kind, 5, 6, **arguments)


@pytest.mark.parametrize("kind", [Encoder, TransformerEncoder])
@pytest.mark.parametrize(
    "message, lengths",
    {
        "a batch of 4 texts needs 4 lengths, whole numbers, not .4, 9.": torch.ones(4, 9),
        "needs 4 lengths, whole numbers, not .4,. of torch.float32": torch.ones(4),
        "a text has 10 words, but the batch only 9 positions": torch.tensor([10, 1, 1, 1]),
        "text 2 has no words; leave it out, or give it one unknown word": torch.tensor(
            [9, 9, 0, 9]
        ),
        "needs 4 lengths, whole numbers, not .4,. of torch.bool": torch.ones(4, dtype=torch.bool),
        "lengths are missing; give a tensor": None,
        "lengths are no tensor; give a tensor": [9, 9, 9, 9],
    }.items(),
    ids=str,
)
def test_lengths_that_do_not_fit_are_named(kind, inputs, lengths, message):
    refused(message, kind(5, 6).double(), inputs, lengths)
    refused("the batch has no words, T = 0", kind(5, 6).double(), inputs[:, :0], LENGTHS)


def test_a_classifier_starts_from_vectors_that_fit_and_needs_lengths():
    ids, vectors = torch.tensor([[2, 3, 4, 5], [6, 7, 1, 1], [8, 1, 1, 1]]), torch.randn(9, 5)
    of_shape = r"the shape \(9, 4\), but the embedding needs \(9, 5\)"
    of_dict = r"must be a tensor \(9, 5\), not a dict; of a dict of words"
    for kind in (TextClassifier, SequenceTagger):
        made = partial(kind, 9, 2, embedding_size=5, hidden_size=4, padding_index=1)
        model = made(vectors=vectors)
        assert torch.equal(model.embed(ids)[0, 0], vectors[2])
        refused("lengths are missing", model, ids)
        for bad, message in ((vectors[:, :4], of_shape), ({"film": vectors[0]}, of_dict)):
            refused(message, made, vectors=bad)


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:RNN module weights")
@pytest.mark.parametrize("cell", [*CELLS, "transformer"])
def test_gradients_of_each_text_by_vmap_are_those_of_the_text_alone(cell):
    torch.manual_seed(0)
    model = TextClassifier(9, 2, "last", cell, 4, 4).double().eval()
    ids, labels = torch.randint(9, (4, 9)), torch.tensor([0, 1, 1, 0])

    def loss(weights, words, length, label):
        batch = words.unsqueeze(0), length.unsqueeze(0)
        return nn.functional.cross_entropy(functional_call(model, weights, batch)[0], label)

    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    of_texts = vmap(grad(loss), (None, 0, 0, 0))(weights, ids, LENGTHS, labels)
    for text, n in enumerate(LENGTHS.tolist()):
        model.zero_grad()
        loss(dict(model.named_parameters()), ids[text, :n], LENGTHS[text], labels[text]).backward()
        for name, weight in model.named_parameters():
            close(of_texts[name][text], weight.grad)
    if cell in TORCH_CELLS:
        refused(
            "torch.vmap has no rule for .* give the model the whole batch",
            vmap(loss, (None, 0, 0, 0)),
            weights,
            ids,
            LENGTHS,
            labels,
        )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("attention", ["fused", "plain"])
@pytest.mark.parametrize("bidirectional, cls", [(True, False), (True, True), (False, False)])
def test_the_transformer_equals_torch_with_its_weights(attention, bidirectional, cls, inputs):
    options = {"attention": attention, "bidirectional": bidirectional, "dropout": 0.0, "cls": cls}
    made = TransformerEncoder(5, 6, layers=2, heads=3, **options).double()
    D = made.output_size
    layer = nn.TransformerEncoderLayer(D, 3, 4 * D, 0.0, batch_first=True, norm_first=True)
    module = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D)).double()
    for parameter in module.parameters():  # norms and biases that are not one and zero
        parameter.data += 0.1 * torch.randn_like(parameter)
    own = [*made.layers.parameters(), *made.last_norm.parameters()]
    vector_to_parameters(parameters_to_vector(module.parameters()), own)
    longer = torch.cat([inputs, torch.full((4, 3, 5), 1e6, dtype=torch.float64)], dim=1)
    padding, later = (
        ~word_mask(LENGTHS + cls, 12 + cls),
        torch.ones(12, 12, dtype=torch.bool).triu(1),
    )
    angles = torch.arange(12.0).double()[:, None] / 10_000 ** (torch.arange(0, D, 2).double() / D)
    places = torch.stack([angles.sin(), angles.cos()], dim=2).reshape(12, D).float()
    mask = None if bidirectional else later
    words = made.into(longer) + places
    if cls:
        words = torch.cat([made.cls.expand(4, 1, D), words], dim=1)
    theirs = module(words, mask=mask, src_key_padding_mask=padding)
    both = made(longer, LENGTHS), theirs.masked_fill(padding.unsqueeze(-1), 0)
    close(*both, atol=1e-12)
    sums = ((states * torch.arange(D)).sum() for states in both)
    gradients = (torch.autograd.grad(total, made.into.weight) for total in sums)
    close(*gradients, atol=1e-9, rtol=1e-10)


def test_a_classifier_reads_the_token_before_the_words():
    model = without_recurrence(30, 2, "cls", embedding_size=6).double().eval()
    ids = torch.arange(18).view(2, 9)
    states = model.encode(model.embed(ids), torch.tensor([9, 4]))
    assert states.shape == (2, 10, 16)
    read = model.pool(states, torch.tensor([9, 4]))[0]
    torch.testing.assert_close(read, states[:, 0], rtol=0, atol=0)
    torch.testing.assert_close(model(ids[1:, :4], torch.tensor([4])), model.classifier(read[1:]))
    for wrong in ({"cell": "lstm"}, {"bidirectional": False}):
        message = "needs cell='transformer'|sees no word unless"
        refused(message, TextClassifier, 30, 2, "cls", **{"cell": "transformer"} | wrong)


def test_a_causal_transformer_without_pooling_reads_its_last_word():
    model = without_recurrence(30, 2, "last", embedding_size=6, bidirectional=False).eval()
    ids, lengths = torch.arange(18).view(2, 9), torch.tensor([9, 4])
    states = model.encode(model.embed(ids), lengths)
    assert torch.equal(model.pool(states, lengths)[0], states[[0, 1], lengths - 1])
