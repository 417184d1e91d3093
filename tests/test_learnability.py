"""Training a model without pooling (§2.2): curriculum, teacher forcing, and another start."""

import pytest
import torch
from small_models import CLASSES, PADDING, WORDS, classifier, recurrence

from whenpool import Encoder, InputError
from whenpool.corpora.batches import Ragged, Texts
from whenpool.learnability import DropoutAttention, PenaltyAttention, TeacherForcing
from whenpool.learnability import teacher_forcing as forcing
from whenpool.learnability.last_attention import falling, rising
from whenpool.learnability.teacher_forcing import sentence_embeddings


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
