"""The gradient probe against a loop over words in float64, finite differences, and its
invariances."""

import copy
import re
from functools import partial
from itertools import product

import pytest
import torch
from called import refused
from small_models import (
    BATCH,
    LABELS,
    LENGTHS,
    both_ways,
    close,
    norms_at,
    states_by_loop,
    texts_of,
)
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from whenpool import POOLINGS, TextClassifier, save_checkpoint
from whenpool.models.cells import CELLS, TORCH_CELLS, Cell
from whenpool.probes import (
    gradient_norms,
    gradient_profile,
    step_megabytes,
    vanishing_ratio,
    window_importance,
)

IDS = BATCH.ids


def classifier(
    pooling="max_attention", cell="lstm", layers=1, bidirectional=True, units=5, **options
):
    torch.manual_seed(0)
    return TextClassifier(20, 3, pooling, cell, 6, units, layers, bidirectional, **options).double()


def norms_by_loop(model):
    norms = torch.full(IDS.shape, torch.nan).double()
    for b, text in enumerate(texts_of(BATCH)):
        states, halves = states_by_loop(model.encoder, model.embed(text))
        logits = model.classify(states.unsqueeze(0), LENGTHS[b : b + 1])
        norms[b, : len(text)] = norms_at(halves, cross_entropy(logits, LABELS[b : b + 1]))
    return norms


def norms_of(model):
    return gradient_norms(model, *BATCH)


same = partial(close, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize(
    "pooling, cell, layers",
    [*product(POOLINGS, TORCH_CELLS, [1]), *product(["last", "max_attention"], CELLS, [1, 2])],
)
@both_ways
def test_norms_are_those_of_a_loop_over_the_top_layer(pooling, cell, layers, bidirectional):
    if cell in ("sum", "tanh_sum") and layers == 2:
        bidirectional = False
    model = classifier(pooling, cell, layers, bidirectional, units=6)
    norms = gradient_norms(model, torch.cat([IDS, IDS.new_full((4, 3), 7)], dim=1), LENGTHS, LABELS)
    same(norms[:, :7], norms_by_loop(model))
    assert norms[:, 7:].isnan().all()


@pytest.mark.parametrize("cell", ["lstm", "gru", "mingru"])
def test_of_a_model_that_reads_padding_norms_are_those_of_a_loop_over_padding(cell):
    model = classifier("mean", cell, masked=False)
    for b, norms in enumerate(norms_of(model)):
        n, row = int(LENGTHS[b]), slice(b, b + 1)
        states, halves = states_by_loop(model.encoder, model.embed(IDS[b]))
        loss = cross_entropy(model.classify(states[None], LENGTHS[row]), LABELS[row])
        same(norms[:n], norms_at(halves, loss)[0, :n])


def test_float32_keeps_what_is_far_below_its_squares():
    model = classifier("last").float()
    with torch.no_grad():
        model.classifier.weight *= 1e-25
    norms = norms_of(model)
    assert norms.dtype == torch.float32
    assert (norms[0] > 0).all()


def test_the_model_is_left_as_it_was():
    model = classifier("max", drop_connect=0.5)
    model.classifier.eval()
    before, random = copy.deepcopy(model), torch.random.get_rng_state()
    norms = norms_of(model)
    assert torch.equal(random, torch.random.get_rng_state())
    modes = ([part.training for part in of.modules()] for of in (model, before))
    assert next(modes) == next(modes)
    assert not any("forward" in vars(part) for part in model.modules())
    close(model.state_dict(), before.state_dict(), atol=0)
    assert all(parameter.grad is None for parameter in model.parameters())
    same(norms, norms_of(model.eval()))


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
        packed = pack_padded_sequence(
            embedded, lengths, batch_first=self.first, enforce_sorted=False
        )
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]

    def classify(self, states, lengths):
        return self.out(
            torch.stack([own[:n].mean(0) for own, n in zip(states, lengths, strict=True)])
        )

    def as_ours(self, cell):
        rnn = self.rnn
        ours = TextClassifier(20, 3, "mean", cell, 6, 5, rnn.num_layers, rnn.bidirectional).double()
        vector_to_parameters(parameters_to_vector(self.parameters()), ours.parameters())
        return ours


@pytest.mark.parametrize("cell, kind", TORCH_CELLS.items())
@pytest.mark.parametrize("layers", [1, 2])
@both_ways
@pytest.mark.parametrize("first", [True, False])
def test_a_model_of_somebody_else_on_packed_input(cell, kind, layers, bidirectional, first):
    model = Theirs(kind, layers, bidirectional, first=first)
    theirs = norms_of(model)
    same(theirs, norms_of(model.as_ours(cell)))
    same(gradient_norms(model, IDS[1:], LENGTHS[1:], LABELS[1:]), theirs[1:])  # none is full


def test_other_recurrences_of_a_model_are_an_input_as_any_other():
    """Its words are embedded by one LSTM, and a frozen one adds to them."""
    model, plain = Theirs(), Theirs()
    model.letters, model.frozen = (nn.LSTM(6, 6, batch_first=True).double() for _ in range(2))
    model.embed = lambda ids: model.letters(model.table(ids))[0]
    frozen = torch.no_grad()(lambda embedded: model.frozen(embedded)[0])
    embedded = model.embed(IDS).detach()
    plain.embed = lambda ids: embedded + frozen(embedded)
    model.encode = lambda x, lengths: Theirs.encode(model, x + frozen(x), lengths)
    norms, expected = (norms_of(of) for of in (model, plain))
    same(norms, expected)
    model.encode = lambda x, lengths: torch.no_grad()(Theirs.encode)(model, x, lengths)
    refused("call no recurrence that a gradient comes back through", norms_of, model)


class Loop(Theirs):
    """Its recurrence is a loop over words, in one direction or both."""

    def __init__(self, kind=nn.LSTMCell, bidirectional=True, end=None):
        super().__init__(bidirectional=bidirectional)
        del self.rnn
        self.cells = nn.ModuleList(kind(6, 5) for _ in range(1 + bidirectional)).double()
        self.end = end or partial(torch.stack, dim=1)

    def encode(self, embedded, lengths):
        self.halves = []
        for k, cell in enumerate(self.cells):
            h = c = embedded.new_zeros(len(embedded), 5)
            states = [h] * embedded.shape[1]
            for t in reversed(range(len(states))) if k else range(len(states)):
                h = cell(embedded[:, t], (h, c) if isinstance(cell, nn.LSTMCell) else h)
                h, c = h if isinstance(h, tuple) else (h, c)
                states[t] = h
            self.halves.append(states)
        return torch.cat([self.end(states) for states in self.halves], dim=-1)

    def total(self):
        """The norms by autograd at each state."""
        logits = self.classify(self.encode(self.embed(IDS), LENGTHS), LENGTHS)
        norms = norms_at(self.halves, cross_entropy(logits, LABELS, reduction="sum"))
        return norms.masked_fill(torch.arange(7) >= LENGTHS.unsqueeze(1), torch.nan)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@both_ways
def test_a_loop_over_words_whose_states_are_stacked_has_its_total_gradient(kind, bidirectional):
    model = Loop(kind, bidirectional)
    norms = model.total()
    same(norms_of(model), norms)


def with_encode(encode, kind=Loop):
    """A model whose encode is a function of the model and the vectors of words."""
    model = kind()
    model.encode = lambda embedded, lengths: encode(model, embedded)
    return model


def written(states):
    """What a loop returns that fills a table."""
    table = torch.zeros(len(states[0]), len(states), 5).double()
    for t, h in enumerate(states):
        table[:, t] = h
    return table


def wide(values):
    """(..., 6) -> (..., 10)."""
    return torch.cat([values, values[..., :4]], dim=-1)


def every_second(model, embedded):
    """Its recurrence reads every second word; there is a state for each word all the same."""
    states = model.rnn(embedded[:, ::2])[0].repeat_interleave(2, dim=1)
    return states[:, : embedded.shape[1]]


def from_cells(model, embedded):
    """It begins with the last cell of an LSTM."""
    return model.rnn(embedded, model.rnn(embedded)[1])[0]


def fused(model, embedded):
    """Torch's kernel of an LSTM without its module: in float32 one step of autograd's graph."""
    weights = [torch.randn(40, size) for size in (6, 10)]
    start = (embedded.new_zeros(1, len(embedded), 10),) * 2
    return torch._VF.lstm(embedded, start, weights, False, 1, 0.0, False, False, True)[0]


def above(model, embedded):
    """Sums over the states of a recurrence, word by word."""
    states = model.rnn(embedded)[0].unbind(1)
    return torch.stack([sum(states[: t + 1]) for t in range(len(states))], dim=1)


def scanned(model, embedded):
    """Sums over all words before in log₂ T steps, as many for 7 words as for 8."""
    states, step = wide(embedded), 1
    while step < states.shape[1]:
        earlier = nn.functional.pad(states[:, :-step], (0, 0, step, 0))
        states, step = states + 0.5**step * earlier, 2 * step
    return states


def sorted_by_length(model, embedded, lengths):
    """As texts were packed before ``enforce_sorted=False``."""
    ordered, order = lengths.sort(descending=True)
    packed = pack_padded_sequence(embedded[order], ordered, batch_first=True)
    return pad_packed_sequence(model.rnn(packed)[0], batch_first=True)[0][order.argsort()]


def side_by_side(model, embedded):
    """Reads the words with one Encoder twice, differently."""
    return model.encoder(embedded, LENGTHS) + model.encoder(2 * embedded, LENGTHS)


def checkpointed(model, embedded):
    return checkpoint(model.rnn, embedded, use_reentrant=True)[0]


def not_of_torch(model, embedded):
    return wide(torch.from_numpy(embedded.detach().numpy().cumsum(1)))


two_embeddings = with_encode(lambda model, both: model.rnn(both[0])[0], Theirs)
two_embeddings.embed = lambda ids: (two_embeddings.table(ids), ids)
WORD_BY_WORD = "computes word by word, and a probe cannot see which states depend on others"
NO_WAY_BACK = "no gradient comes back to the words through encode of Loop"
quantizable = partial(Theirs, torch.ao.nn.quantizable.LSTM)


@pytest.mark.parametrize(
    "model, words",
    [
        (Loop(end=written), WORD_BY_WORD),
        (Loop(end=lambda states: torch.stack([h.clone() for h in states], 1)), WORD_BY_WORD),
        (with_encode(fused).float(), WORD_BY_WORD),
        (with_encode(above, Theirs), WORD_BY_WORD),
        (with_encode(scanned), WORD_BY_WORD),
        (with_encode(lambda model, x: model.rnn(x)[0], quantizable).float(), WORD_BY_WORD),
        (with_encode(not_of_torch), NO_WAY_BACK),
    ],
)
def test_a_recurrence_that_cannot_be_seen_is_refused(model, words):
    refused(words, norms_of, model)


def test_states_in_another_order_than_they_were_read_are_refused():
    one_way = Theirs(bidirectional=False)
    one_way.encode = lambda embedded, lengths: one_way.rnn(embedded.flip(1))[0].flip(1)
    by_length = Theirs()
    by_length.encode = partial(sorted_by_length, by_length)
    flat = Theirs(bidirectional=False)
    flat.encode = lambda embedded, lengths: flat.rnn(embedded.flip(1))[0].flip(1)
    flat.embed = lambda ids: flat.table(ids.view(-1)).view(*ids.shape, 6)
    for model in (one_way, by_length, flat):
        refused("returns states in another order", norms_of, model)


def test_what_stands_below_the_recurrence_that_is_probed_may_have_any_order():
    below, plain = Theirs(), Theirs()
    below.other = nn.GRU(6, 6, batch_first=True).double()
    below.encode = lambda embedded, lengths: below.other(embedded.flip(1))[0].flip(1)
    plain.embed = lambda ids: below.encode(below.table(ids), LENGTHS).detach()
    above = lambda states, lengths: Theirs.encode(below, states, lengths)  # noqa: E731
    below.classify = lambda states, lengths: Theirs.classify(below, above(states, lengths), lengths)
    same(norms_of(below), norms_of(plain))


def test_a_model_of_short_texts_is_probed():
    model, places = with_encode(lambda model, x: wide(x + places[: x.shape[1]])), torch.ones(7, 6)
    assert norms_of(model).isfinite().sum() == LENGTHS.sum()


def test_two_readings_of_the_words_are_refused():
    model = classifier()
    model.encode = lambda embedded, lengths: side_by_side(model, embedded)
    refused("reads its input with two separate recurrences", norms_of, model)


class TwiceItsState(Cell):
    """A cell that returns something else than it goes on with."""

    def step(self, x, s):
        return self.both(x, s)[0].tanh()

    def output(self, s):
        return 2 * s


def test_of_a_cell_with_an_output_of_its_own_norms_are_those_of_its_states():
    model = Theirs(bidirectional=False)
    model.rnn = TwiceItsState(6, 5).double()
    model.encode = lambda embedded, lengths: model.rnn(embedded)[0]
    ids, lengths, labels = IDS[:, :3], LENGTHS.clamp(max=3), LABELS
    steps = model.rnn.unroll(model.embed(ids))
    logits = model.classify(2 * torch.stack(steps, 1), lengths)
    expected = norms_at([steps], cross_entropy(logits, labels, reduction="sum"))
    expected[torch.arange(3) >= lengths.unsqueeze(1)] = torch.nan
    same(gradient_norms(model, ids, lengths, labels), expected)

    model.rnn.start = lambda inputs: (inputs.new_zeros(len(inputs), 5),)
    model.rnn.step = lambda x, s: (model.rnn.both(x, s[0])[0].tanh(),)
    model.rnn.output = lambda s: 2 * s[0]
    refused("TwiceItsState returns none of the parts of its state; return one", norms_of, model)


def test_memory_of_a_step_follows_from_the_model_and_the_text_alone():
    model = classifier("mean", "transformer", units=4)
    alone = step_megabytes(model, *BATCH)
    model(IDS.repeat(1, 80), 80 * LENGTHS)
    assert step_megabytes(model, *BATCH) == alone
    frozen = "TextClassifier has no weights to train; they are all frozen"
    refused(frozen, step_megabytes, model.requires_grad_(False), *BATCH)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return 2 * values

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def test_states_that_do_not_depend_on_each_other_have_their_direct_gradient():
    expected = norms_of(with_encode(lambda _, x: wide(2 * x)))
    weight = Loop().out.weight.detach()
    for norms, label, n, ids in zip(expected, LABELS, LENGTHS, IDS, strict=True):
        logits = Loop().classify(wide(2 * Loop().table(ids)).unsqueeze(0), [n])[0]
        at_logits = logits.softmax(0) - torch.nn.functional.one_hot(label, 3)
        same(norms[:n], ((at_logits @ weight).norm() / n).detach().expand(n))
    by_number = with_encode(lambda model, ids: wide(2 * model.table(ids)))
    by_number.embed = lambda ids: ids
    written_into = with_encode(lambda _, x: wide(x.mul_(2)))
    for model in (by_number, written_into):
        same(norms_of(model), expected)
    custom = with_encode(lambda _, x: wide(Doubled.apply(x)))
    with pytest.warns(UserWarning, match="encode of Loop calls DoubledBackward, which a probe"):
        same(norms_of(custom), expected)


@pytest.mark.filterwarnings(
    "ignore:torch.ao.quantization is dep", "ignore:torch.quantize_per_tensor"
)
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.Linear])
def test_a_quantised_model_has_no_gradients_but_keeps_its_importance(dtype, kind, tmp_path):
    model = classifier("mean", "gru" if kind is nn.GRU else "lstm").float()
    quantised = torch.ao.quantization.quantize_dynamic(model, {kind}, dtype)
    batch = IDS[[0, 3]], LENGTHS[[0, 3]], LABELS[[0, 3]]
    no_gradient = f"has quantised layers without a gradient .{kind.__name__}.; take"
    for probe in (gradient_norms, step_megabytes):
        refused(no_gradient, probe, quantised, *batch)
    importance = (window_importance(each, *batch, k=2) for each in (model, quantised))
    close(*importance, atol=0.02, equal_nan=True)
    refused(
        "a quantised model cannot be saved; save it as it was",
        save_checkpoint,
        tmp_path,
        quantised,
        ["<unk>", "<pad>", *map(str, range(18))],
        "abc",
    )


def test_what_torch_wraps_around_a_model_is_named():
    wrapped = nn.DataParallel(classifier())
    inside = "DataParallel.*; give the model inside it, its .module"
    refused(inside, norms_of, wrapped)
    refused(inside, save_checkpoint, "folder", wrapped, ["<unk>", "<pad>"], "ab")


def test_ratios_are_of_the_middle_word_to_the_first_and_profiles_are_interpolated():
    nan = torch.nan
    norms = torch.tensor([[4.0, 9.0, 1.0], [2.0, 6.0, nan], [2.0, nan, nan]])
    lengths = torch.tensor([3, 2, 1])
    assert vanishing_ratio(norms, lengths).tolist() == [2.25, 3.0, 1.0]
    profile = gradient_profile(norms, lengths, 5)
    assert profile.tolist() == [[4, 6.5, 9, 5, 1], [2, 3, 4, 5, 6], [2, 2, 2, 2, 2]]
    assert gradient_profile(torch.ones(1, 268).bfloat16(), torch.tensor([268])).eq(1).all()
    for probe, wrong in product((vanishing_ratio, gradient_profile), ([3], [0, 3, 3])):
        refused("norms of 3 texts need 3 lengths", probe, norms, torch.tensor(wrong))


@pytest.mark.parametrize(
    "words, change",
    {
        "Linear has no embed, encode, classify": {"model": nn.Linear(2, 3)},
        "LSTM cannot be probed": {"model": Theirs(partial(nn.LSTM, proj_size=2))},
        "but the model knows 20 words": {"ids": IDS + 30},
        "one text is ids.unsqueeze": {"ids": IDS[0]},
        "4 texts needs 4 lengths, not (2,)": {"lengths": LENGTHS[:2]},
        "text 1 has the label 3, but the model has 3 classes": {
            "labels": torch.tensor([0, 3, 1, 2])
        },
        "logits must be (B, C) of two classes or more, not (4, 1)": {
            "model": TextClassifier(20, 1)
        },
        "labels are on meta": {"labels": LABELS.to("meta")},
        "labels must be whole numbers, not torch.float32": {"labels": LABELS / 2},
        "words are numbers from 0": {"ids": IDS - 20},
        "it must read each word of each text": {"model": with_encode(every_second, Theirs)},
        "embed returned a tuple; return one tensor": {"model": two_embeddings},
        "torch.compile, no_grad and checkpoint(use_reentrant=True)": {
            "model": with_encode(checkpointed, Theirs)
        },
        "the loss of Theirs is nan; a probe cannot see a model that reads the": {
            "model": with_encode(from_cells, Theirs)
        },
    }.items(),
)
def test_bad_input_is_named(change, words):
    given = {"model": classifier()} | BATCH._asdict() | change
    refused(re.escape(words), gradient_norms, **given)
