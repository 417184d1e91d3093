"""Training a model without pooling (§2.2): curriculum, teacher forcing, and another start."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from whenpool import Encoder, InputError, TextClassifier
from whenpool.corpora.batches import Batch, Ragged, Texts
from whenpool.learnability import DropoutAttention, PenaltyAttention, TeacherForcing
from whenpool.learnability import teacher_forcing as forcing
from whenpool.learnability.last_attention import falling, rising
from whenpool.learnability.teacher_forcing import sentence_embeddings

PADDING, WORDS, CLASSES = 1, 20, 3
LENGTHS = torch.tensor([7, 4, 1, 2])
LABELS = torch.tensor([0, 2, 1, 2])
INDICES = torch.arange(4)


def ids_of(lengths=LENGTHS, longest=7, seed=3):
    ids = torch.randint(2, WORDS, (len(lengths), longest), generator=torch.Generator().manual_seed(seed))
    return ids.masked_fill(torch.arange(longest) >= lengths.unsqueeze(1), PADDING)


BATCH = Batch(ids_of(), LENGTHS, LABELS)


def classifier(pooling="last", cell="lstm", layers=1, bidirectional=True, classes=CLASSES, seed=0):
    """With large weights, so that states and attention differ much from word to word."""
    torch.manual_seed(seed)
    model = TextClassifier(
        WORDS, classes, pooling, cell, 6, 5, layers, bidirectional, padding_index=PADDING
    ).double()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter *= 2
    return model


def recurrence(model):
    """Torch's own with the weights of a model's encoder, for one text at a time, unpadded."""
    of_text = model.encoder.layers[0][0]
    module = type(of_text)(
        of_text.input_size, of_text.hidden_size, len(model.encoder.layers), batch_first=True,
        bidirectional=model.encoder.directions == 2, dtype=model.embedding.weight.dtype,
    )  # fmt: skip
    with torch.no_grad():
        for mine, theirs in zip(module.parameters(), model.encoder.parameters(), strict=True):
            mine.copy_(theirs)
    return module


def texts_of(batch):
    return [ids[:n] for ids, n in zip(batch.ids, batch.lengths.tolist(), strict=True)]


def gradients(model, objective, batch=BATCH, indices=INDICES):
    model.zero_grad()
    objective.backward(model, batch, indices)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def rearranged(batch, order, pads):
    """Other places in the batch, and more padding behind."""
    more = batch.ids.new_full((len(order), pads), PADDING)
    ids = torch.cat([batch.ids[order], more], dim=1)
    return Batch(ids, batch.lengths[order], batch.labels[order])


def slope(model, name, place, function, step=1e-6):
    """The derivative of a function of the model with respect to one of its parameters."""
    parameter, values = dict(model.named_parameters())[name], []
    for sign in (1, -1):
        with torch.no_grad():
            parameter[place] += sign * step
        values.append(function())
        with torch.no_grad():
            parameter[place] -= sign * step
    return (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize("power", [4, 2])
def test_factors_rise_over_the_first_ten_of_twenty_epochs_and_stay_at_one(power):
    expected = [(e / 10) ** power for e in range(10)] + [1.0] * 10
    assert [rising(e, 20, power) for e in range(20)] == pytest.approx(expected, rel=1e-15)
    assert rising(0, 20, power) == 0
    assert {rising(e, 20, power) for e in range(10, 20)} == {1.0}


@pytest.mark.parametrize(
    ("epochs", "up", "down"),
    [
        (1, [1], [1]),
        (2, [0, 1], [1, 0]),
        (3, [0, 1, 1], [1, 0, 0]),
        (6, [0, 1 / 9, 4 / 9, 1, 1, 1], [1, 2 / 3, 1 / 3, 0, 0, 0]),
        (8, [0, 1 / 16, 4 / 16, 9 / 16, 1, 1, 1, 1], [1, 3 / 4, 2 / 4, 1 / 4, 0, 0, 0, 0]),
    ],
)
def test_half_of_the_epochs_whatever_their_number(epochs, up, down):
    assert [rising(e, epochs, 2) for e in range(epochs)] == pytest.approx(up)
    assert [falling(e, epochs) for e in range(epochs)] == pytest.approx(down)


def test_the_strength_of_gradient_direction_falls_evenly():
    expected = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1] + [0] * 10
    assert [falling(e, 20) for e in range(20)] == pytest.approx(expected)


@pytest.mark.parametrize("curve", [lambda e, n: rising(e, n, 2), falling])
@pytest.mark.parametrize("epoch", [-1, 6])
def test_epochs_are_counted_from_zero(curve, epoch):
    with pytest.raises(InputError, match=f"epoch {epoch} is not one of 6, counted from 0"):
        curve(epoch, 6)


@pytest.mark.parametrize(("objective", "power"), [(PenaltyAttention(20), 4), (DropoutAttention(20), 2)])
def test_each_trick_has_its_curriculum_and_only_its_end_may_be_best(objective, power):
    for epoch in range(20):
        objective.start_epoch(epoch)
        assert objective.factor == pytest.approx(min(1, epoch / 10) ** power)
        assert objective.eligible == (epoch >= 10)


def some_texts(lengths=(7, 2, 5, 1, 9, 3, 4)):
    """Neither from short to long nor from long to short."""
    generator = torch.Generator().manual_seed(5)
    rows = [torch.randint(2, WORDS, (n,), generator=generator).tolist() for n in lengths]
    return Texts(Ragged.of(rows), torch.arange(len(rows)) % CLASSES)


TEXTS = some_texts()


def last_and_largest(model, text):
    """[→h_n ; ←h_1] and the maximum over the words, of one text alone."""
    with torch.no_grad():
        states = recurrence(model)(model.embedding.weight[text.long()].unsqueeze(0))[0][0]  # (n, D)
    half = states.shape[1] // 2
    return states[-1, :half].tolist() + states[0, half:].tolist(), states.max(0).values.tolist()


def student_and_teacher():
    return classifier(seed=1).float(), classifier("max", seed=2).float()


def test_teacher_forcing_is_the_mean_squared_error_over_texts_and_units():
    model, teacher = student_and_teacher()
    objective = TeacherForcing(teacher)
    objective.begin(model, TEXTS)
    indices = torch.tensor([4, 0, 6])
    loss, logits = objective.loss(model, TEXTS.batch(indices, PADDING), indices)
    squares = []
    for row, index in enumerate(indices.tolist()):
        text = TEXTS.ids.row(index)
        mine, theirs = last_and_largest(model, text)[0], last_and_largest(teacher, text)[1]
        squares += [(a - b) ** 2 for a, b in zip(mine, theirs, strict=True)]
        by_teacher = teacher.classifier(torch.tensor(mine))
        torch.testing.assert_close(logits[row], by_teacher, rtol=0, atol=1e-5)
    assert loss.item() == pytest.approx(sum(squares) / len(squares), rel=1e-5)
    assert len(squares) == 3 * 10


@pytest.mark.parametrize("words", [1, 12, 10_000])
def test_embeddings_come_in_the_order_of_the_texts(words, monkeypatch):
    monkeypatch.setattr(forcing, "TEACHER_WORDS", words)
    teacher = classifier("max").float()
    expected = [last_and_largest(teacher, TEXTS.ids.row(i))[1] for i in range(len(TEXTS))]
    found = sentence_embeddings(teacher, TEXTS)
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-6)
    assert not found.requires_grad
    assert teacher.training


def test_only_the_reading_learns_and_the_teacher_reads_each_text_once(monkeypatch):
    model, teacher = student_and_teacher()
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    read, encode = [], teacher.encode
    monkeypatch.setattr(
        teacher, "encode", lambda x, lengths: read.append(len(lengths)) or encode(x, lengths)
    )
    objective = TeacherForcing(teacher)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=0.1)
    objective.begin(model, TEXTS)
    started = {name: p.detach().clone() for name, p in model.named_parameters()}
    for epoch in range(3):
        objective.start_epoch(epoch)
        for indices in torch.arange(len(TEXTS)).split(3):
            optimizer.zero_grad()
            objective.backward(model, TEXTS.batch(indices, PADDING), indices)
            optimizer.step()
    assert sum(read) == len(TEXTS)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, started[name]) == name.startswith("classifier")
    assert not any(parameter.requires_grad for parameter in model.classifier.parameters())
    assert torch.equal(model.classifier.weight, before["classifier.weight"])
    assert torch.equal(model.classifier.bias, before["classifier.bias"])
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())


def test_a_student_that_is_its_teacher_has_nothing_to_learn():
    """Of a text of one word, the last state is the largest."""
    teacher = classifier("max").float()
    model = classifier().float()
    model.load_state_dict(teacher.state_dict())
    one = replace(TEXTS, ids=Ragged.of([[5], [9]]), labels=torch.tensor([0, 1]))
    objective = TeacherForcing(teacher)
    objective.begin(model, one)
    indices = torch.tensor([1, 0])
    assert objective.loss(model, one.batch(indices, PADDING), indices)[0].item() < 1e-12


@pytest.mark.parametrize(
    "student", [classifier(classes=2), classifier(bidirectional=False)], ids=["classes", "units"]
)
def test_a_teacher_that_does_not_fit_is_named(student):
    with pytest.raises(InputError, match=r"the teacher's classifier is \(3, 10\), classes by units"):
        TeacherForcing(classifier("max")).begin(student, TEXTS)


@pytest.mark.parametrize(("cell", "gates"), [("lstm", 4), ("gru", 3), ("elman", 1)])
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_weights_of_each_gate_can_start_orthogonal(cell, gates, layers):
    H = 7
    torch.manual_seed(0)
    encoder = Encoder(5, H, cell, layers, orthogonal=True)
    torch.manual_seed(0)
    plain = Encoder(5, H, cell, layers)
    recurrent = [name for name, _ in encoder.named_parameters() if "weight_hh" in name]
    assert len(recurrent) == 2 * layers
    for name, parameter in encoder.named_parameters():
        if name not in recurrent:
            assert torch.equal(parameter, plain.get_parameter(name))
            continue
        for gate in range(gates):
            Q = parameter[gate * H : (gate + 1) * H].double()
            torch.testing.assert_close(Q @ Q.T, torch.eye(H).double(), rtol=0, atol=1e-6)
        assert parameter.shape == (gates * H, H)
    first = encoder.get_parameter(recurrent[0])[:H]
    assert not any(  # each gate and each direction has its own
        torch.allclose(first, other, atol=1e-3)
        for name in recurrent
        for number, other in enumerate(encoder.get_parameter(name).split(H))
        if (name, number) != (recurrent[0], 0)
    )


def test_an_orthogonal_start_keeps_the_forget_bias():
    encoder = Encoder(5, 4, forget_bias=1.0, orthogonal=True)
    for module in encoder.layers[0]:
        assert isinstance(module, nn.LSTM)
        assert ((module.bias_ih_l0 + module.bias_hh_l0)[4:8] == 1).all()
