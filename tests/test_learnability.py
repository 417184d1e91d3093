"""Training a model without pooling (§2.2): curricula, teacher forcing, penalty and dropout attention (§2.2.5,
§2.2.6), another start, and what is stored of it."""

import math

import pytest
import torch
from small_models import (
    BATCH,
    CLASSES,
    INDICES,
    LABELS,
    LENGTHS,
    PADDING,
    WORDS,
    classifier,
    dot,
    gradients,
    ids_of,
    rearranged,
    recurrence,
    slope,
    softmax,
    texts_of,
)
from small_runs import STUDENT, TEACHER, result_of

from whenpool import Encoder, InputError
from whenpool.corpora.batches import Ragged, Texts
from whenpool.learnability import AttentionForm, DropoutAttention, PenaltyAttention, TeacherForcing
from whenpool.learnability import teacher_forcing as forcing
from whenpool.learnability.last_attention import falling, rising
from whenpool.learnability.teacher_forcing import sentence_embeddings
from whenpool.runs.kinds.training import trained
from whenpool.training.loop import Objective, evaluate


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


def attended(model, text):
    """Logits, and for each direction α_n and Σ α_t over all other words (§2.2.5)."""
    module, directions = recurrence(model), model.encoder.directions
    with torch.no_grad():
        states = module(model.embedding.weight[text].unsqueeze(0))[0][0]  # (n, D)
    embedding, last, others = [], [], []
    for direction, half in enumerate(states.chunk(directions, dim=1)):
        words = half.tolist()
        end = len(words) - 1 if direction == 0 else 0
        weights = softmax([dot(h, words[end]) / math.sqrt(dot(h, h)) for h in words])
        embedding += [dot(weights, unit) for unit in zip(*words, strict=True)]
        last.append(weights[end])
        others.append(sum(w for t, w in enumerate(weights) if t != end))
    rows = zip(model.classifier.weight.tolist(), model.classifier.bias.tolist(), strict=True)
    return [dot(row, embedding) + bias for row, bias in rows], last, others


def penalised(model, batch, factor):
    """ℓ = -y_p^y + log Σ exp(y_p^j) + λ Σ α_t / α_n, averaged over the texts."""
    losses = []
    for text, label in zip(texts_of(batch), batch.labels.tolist(), strict=True):
        logits, last, others = attended(model, text)
        penalties = [rest / end for rest, end in zip(others, last, strict=True)]
        entropy = -logits[label] + math.log(sum(math.exp(value) for value in logits))
        losses.append(entropy + factor * sum(penalties) / len(penalties))
    return sum(losses) / len(losses)


def at(objective, factor):
    objective.factor = factor
    return objective


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0])
def test_penalty_attention_is_its_formula(cell, layers, bidirectional, factor):
    model = classifier("last", cell, layers, bidirectional)
    loss, logits = at(PenaltyAttention(20), factor).loss(model, BATCH, INDICES)
    assert loss.item() == pytest.approx(penalised(model, BATCH, factor), rel=1e-12)
    expected = [attended(model, text)[0] for text in texts_of(BATCH)]
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)


def test_padding_and_other_texts_do_not_change_the_penalty():
    model, objective = classifier(), at(PenaltyAttention(20), 0.7)
    expected, logits = objective.loss(model, BATCH, INDICES)
    order = torch.tensor([2, 0, 3, 1])
    loss, rearranged_logits = objective.loss(model, rearranged(BATCH, order, 5), order)
    torch.testing.assert_close(loss, expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(rearranged_logits, logits[order], rtol=0, atol=1e-12)
    alone = [objective.loss(model, rearranged(BATCH, order[i : i + 1], 0), INDICES)[0] for i in range(4)]
    torch.testing.assert_close(torch.stack(alone).mean(), expected, rtol=1e-11, atol=0)


PARAMETERS = [
    ("embedding.weight", (int(BATCH.ids[0, 2]), 3)),
    ("encoder.layers.0.0.weight_ih_l0", (7, 2)),
    ("encoder.layers.0.0.weight_hh_l0", (12, 1)),
    ("encoder.layers.0.1.weight_hh_l0", (3, 4)),
    ("encoder.layers.0.1.bias_hh_l0", (16,)),
    ("classifier.weight", (1, 8)),
]


@pytest.mark.parametrize(("name", "place"), PARAMETERS)
def test_gradients_of_the_penalty_are_those_of_finite_differences(name, place):
    model = classifier()
    found = gradients(model, at(PenaltyAttention(20), 0.7))[name][place].item()
    expected = slope(model, name, place, lambda: penalised(model, BATCH, 0.7))
    assert abs(expected) > 1e-4
    assert found == pytest.approx(expected, rel=1e-6)


def test_what_an_epoch_tells_is_of_the_model_with_attention():
    model = classifier()
    objective = PenaltyAttention(20)
    objective.start_epoch(5)

    def accuracy(form):
        right = form(BATCH.ids, LENGTHS).argmax(1) == LABELS
        return 100 * right.double().mean().item()

    told = objective.end_epoch(model, accuracy)
    logits = torch.tensor([attended(model, text)[0] for text in texts_of(BATCH)])
    masses = torch.tensor([attended(model, text)[2] for text in texts_of(BATCH)])
    assert told["factor"] == 0.5**4
    assert told["attention_accuracy"] == 100 * (logits.argmax(1) == LABELS).double().mean().item()
    assert told["mass_left"] == pytest.approx(masses.mean().item(), rel=1e-6)
    assert set(told) == {"factor", "attention_accuracy", "mass_left"}


def watched(form):
    """The form, and a list in which each direction's kept words and weights will stand."""
    seen, weigh = [], form.attention.direction_weights

    def weigh_and_tell(states, mask, kept=None):
        weights = weigh(states, mask, kept)
        seen.extend(zip(kept or [mask] * len(weights), weights, strict=True))
        return weights

    form.attention.direction_weights = weigh_and_tell
    return form, seen


@pytest.mark.parametrize("bidirectional", [True, False])
def test_with_all_dropped_it_is_the_plain_model_to_the_bit(bidirectional):
    model = classifier(bidirectional=bidirectional).float()
    dropped, plain = at(DropoutAttention(20), 1.0), Objective()
    for mine, theirs in zip(*(o.loss(model, BATCH, INDICES) for o in (dropped, plain)), strict=True):
        assert torch.equal(mine, theirs)
    found, expected = gradients(model, dropped), gradients(model, plain)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)


def test_what_is_dropped_has_no_weight_and_the_rest_is_renormalised():
    torch.manual_seed(0)
    lengths = torch.randint(1, 9, (40,))
    ids, model = ids_of(lengths, 9), classifier()
    full, all_weights = watched(AttentionForm(model))
    full(ids, lengths)
    form, seen = watched(AttentionForm(model, drop=0.5))
    form(ids, lengths)
    for direction, (kept, weights) in enumerate(seen):
        whole = all_weights[direction][1]
        assert (weights[~kept] == 0).all()
        assert (weights[kept] > 0).all()
        renormalised = whole * kept / (whole * kept).sum(1, keepdim=True)
        torch.testing.assert_close(weights, renormalised, rtol=1e-12, atol=1e-15)
        ends = lengths - 1 if direction == 0 else torch.zeros_like(lengths)
        assert kept[torch.arange(40), ends].all()  # the last state is never dropped
        assert not kept[torch.arange(9) >= lengths.unsqueeze(1)].any()  # and no pad is attended to


@pytest.mark.parametrize("objective", [PenaltyAttention(20), DropoutAttention(20)])
def test_a_model_that_pools_is_named(objective):
    with pytest.raises(InputError, match='has a pooling of its own; make it with pooling="last"'):
        objective.loss(classifier("max"), BATCH, INDICES)


def test_a_stored_student_has_the_classifier_of_its_teacher_and_its_own_score(place):
    for run in (TEACHER, STUDENT):
        run.execute(place, keep_weights=True)
    student, teacher = (trained(run, place) for run in (STUDENT, TEACHER))
    theirs = teacher.model.state_dict()
    for name, value in student.model.state_dict().items():
        assert torch.equal(value, theirs[name]) == name.startswith("classifier")
    score = evaluate(student.model, student.dataset.test)
    assert result_of(STUDENT, place)["test_accuracy"] == pytest.approx(score.accuracy)
