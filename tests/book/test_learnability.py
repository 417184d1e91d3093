"""Training a model without pooling (§2.2): curricula, teacher forcing, penalty and dropout
attention (§2.2.5, §2.2.6), gradient-directed gradients (§2.2.7), another start, and what is stored
of it: against loops over words, finite differences, and each other."""

import math

import pytest
import small_models as small
import torch
from called import elsewhere, refused
from small_models import (
    BATCH,
    INDICES,
    LENGTHS,
    PADDING,
    both_ways,
    classifier,
    close,
    gradients,
    model_of,
    numbered,
)
from torch.nn.functional import cross_entropy, pad

from paper import tricks
from whenpool import Encoder, TextClassifier
from whenpool.corpora.batches import Batch, Ragged, Texts
from whenpool.training.loop import Objective, Recipe, evaluate, train

by_divergence = pytest.mark.parametrize("divergence", tricks.DIVERGENCES)
ROWS = [small.ids_of(torch.tensor([n]), n, seed=n)[0].tolist() for n in (7, 2, 5, 1, 9, 3, 4)]
TEXTS = Texts(Ragged.of(ROWS), torch.arange(7) % small.CLASSES)
PADDED = BATCH._replace(ids=pad(BATCH.ids, (0, 5), value=PADDING))


@pytest.mark.parametrize(
    "epochs, up, down",
    [
        (1, [1], [1]),
        (3, [0, 1, 1], [1, 0, 0]),
        (8, [0, 1 / 16, 4 / 16, 9 / 16, 1, 1, 1, 1], [1, 3 / 4, 2 / 4, 1 / 4, 0, 0, 0, 0]),
    ],
)
def test_each_trick_has_its_curriculum_and_only_its_end_may_be_best(epochs, up, down):
    """It takes half of the epochs, whatever their number."""
    for epoch, rise in enumerate(up):
        assert tricks.falling(epoch, epochs) == pytest.approx(down[epoch])
        for objective, power in (
            (tricks.PenaltyAttention(epochs), 4),
            (tricks.DropoutAttention(epochs), 2),
        ):
            objective.start_epoch(epoch)
            assert objective.factor == pytest.approx(rise ** (power / 2))
            assert objective.eligible == (rise == 1)


def last_and_largest(model, text):
    """[→h_n ; ←h_1] and the maximum over the words, of one text alone."""
    with torch.no_grad():
        states, _ = small.recurrence(model)(model.embedding.weight[text.long()])  # (n, D)
    half = states.shape[1] // 2
    return torch.cat([states[-1, :half], states[0, half:]]), states.amax(0)


@pytest.mark.parametrize("words", [1, 10_000])  # that the teacher reads at a time
def test_teacher_forcing_is_the_mean_squared_error_over_texts_and_units(words, monkeypatch):
    monkeypatch.setattr(tricks, "EVALUATION_WORDS", words)
    model, teacher = classifier(seed=1).float(), classifier("max", seed=2).float()
    objective = tricks.TeacherForcing(teacher)
    objective.begin(model, TEXTS)
    assert teacher.training
    indices = torch.tensor([4, 0, 6])
    loss, logits = objective.loss(model, TEXTS.batch(indices, PADDING), indices)
    texts = [TEXTS.ids.row(index) for index in indices.tolist()]
    mine = torch.stack([last_and_largest(model, text)[0] for text in texts])  # (3, 10)
    theirs = torch.stack([last_and_largest(teacher, text)[1] for text in texts])
    close(logits, teacher.classifier(mine), atol=1e-5)
    assert loss.item() == pytest.approx((mine - theirs).square().mean().item(), rel=1e-5)


@pytest.mark.parametrize("cell, gates", [("lstm", 4), ("gru", 3), ("elman", 1)])
def test_recurrent_weights_of_each_gate_can_start_orthogonal(cell, gates):
    made = []
    for orthogonal in (True, False):
        torch.manual_seed(0)
        made.append(Encoder(5, 7, cell, 2, orthogonal=orthogonal).double())
    for (name, own), plain in zip(made[0].named_parameters(), made[1].parameters(), strict=True):
        if "weight_hh" in name:
            for Q in own.chunk(gates):  # each (H, H)
                close(Q @ Q.T, torch.eye(7).double(), atol=1e-6)
        else:
            assert torch.equal(own, plain)


@torch.no_grad()
def attended(model, text):
    """Logits, and for each direction α_n and Σ α_t over all other words (§2.2.5)."""
    states, _ = small.recurrence(model)(model.embedding.weight[text])  # (n, D)
    embedding, last, others = [], [], []
    for direction, h in enumerate(states.chunk(model.encoder.directions, dim=1)):
        end = 0 if direction else len(h) - 1
        weights = (h @ h[end] / h.norm(dim=1)).softmax(0)
        embedding.append(weights @ h)
        last.append(weights[end])
        others.append(torch.cat([weights[:end], weights[end + 1 :]]).sum())
    return model.classifier(torch.cat(embedding)), torch.stack(last), torch.stack(others)


def penalised(model, batch, factor):
    """ℓ = -y_p^y + log Σ exp(y_p^j) + λ Σ α_t / α_n, averaged over the texts."""
    total = 0.0
    for text, label in zip(small.texts_of(batch), batch.labels, strict=True):
        logits, last, others = attended(model, text)
        total += (logits.logsumexp(0) - logits[label] + factor * (others / last).mean()).item()
    return total / len(batch.lengths)


def check_by_steps(model, found, function):
    """Gradients of each parameter by finite differences: the largest, and one of middle size."""
    for name, gradient in found.items():
        nonzero = gradient.abs().flatten().argsort(descending=True)[: int(gradient.count_nonzero())]
        for where in (nonzero[0], nonzero[len(nonzero) // 2]):
            place = tuple(int(i) for i in torch.unravel_index(where, gradient.shape))
            expected = small.slope(model, name, place, function, step=1e-5)
            assert gradient[place].item() == pytest.approx(expected, rel=1e-4, abs=1e-7), name


@pytest.mark.parametrize(
    "cell, layers, bidirectional",
    [
        ("lstm", 1, True),
        ("lstm", 1, False),
        ("lstm", 2, True),
        ("gru", 1, True),
        ("elman", 2, False),
    ],
)
@pytest.mark.parametrize("factor", [0.0, 0.3])
def test_penalty_attention_is_its_formula(cell, layers, bidirectional, factor):
    model = classifier("last", cell, layers, bidirectional)
    objective = tricks.PenaltyAttention(20)
    objective.factor = factor
    loss, logits = objective.loss(model, PADDED, INDICES)
    assert loss.item() == pytest.approx(penalised(model, BATCH, factor), rel=1e-12)
    expected = torch.stack([attended(model, text)[0] for text in small.texts_of(BATCH)])
    close(logits, expected, atol=1e-12)
    if factor == 0.3 and layers == 1:
        check_by_steps(model, gradients(model, objective), lambda: penalised(model, BATCH, factor))


def watched(form, ids, lengths):
    """The words that each direction keeps, and their weights."""
    seen, weigh = [], form.attention.direction_weights

    def weigh_and_tell(states, mask, kept=None):
        weights = weigh(states, mask, kept)
        seen.extend(zip(kept or [mask] * len(weights), weights, strict=True))
        return weights

    form.attention.direction_weights = weigh_and_tell
    form(ids, lengths)
    return seen


@both_ways
@pytest.mark.parametrize(
    "objective",
    [
        tricks.DropoutAttention(20),
        tricks.GradientDirected(20),
        tricks.GradientDirected(20, divergence="reverse"),
    ],
)
def test_at_the_end_of_a_curriculum_it_is_the_plain_model_to_the_bit(objective, bidirectional):
    model = classifier(bidirectional=bidirectional).float()
    objective.start_epoch(10)
    both = ([*o.loss(model, BATCH, INDICES), gradients(model, o)] for o in (objective, Objective()))
    close(*both, atol=0)
    if isinstance(objective, tricks.GradientDirected):
        assert objective.end_epoch(model, lambda form: 0.0) == {"factor": 0.0}


def test_what_is_dropped_has_no_weight_and_the_rest_is_renormalised():
    torch.manual_seed(0)
    lengths = torch.randint(1, 9, (40,))
    ids, model = small.ids_of(lengths, 9), classifier()
    every, seen = (watched(tricks.AttentionForm(model, p), ids, lengths) for p in (0, 0.5))
    for direction, (kept, weights) in enumerate(seen):
        whole = every[direction][1]
        assert (weights[~kept] == 0).all()
        assert (weights[kept] > 0).all()
        renormalised = whole * kept / (whole * kept).sum(1, keepdim=True)
        close(weights, renormalised, atol=1e-15, rtol=1e-12)
        assert kept[
            torch.arange(40), 0 if direction else lengths - 1
        ].all()  # the last is never dropped
        assert not kept[torch.arange(9) >= lengths.unsqueeze(1)].any()  # and no pad is attended to


def test_what_cannot_be_learnt_is_named():
    for objective in (tricks.PenaltyAttention(20), tricks.DropoutAttention(20)):
        refused(
            'must not have a pooling; make it with pooling="last"',
            objective.loss,
            classifier("max"),
            BATCH,
            INDICES,
        )
    refused(
        "divergence 'KL' is unknown; choose one of forward, reverse",
        tricks.GradientDirected,
        20,
        divergence="KL",
    )


def divergence_of(norms, divergence):
    """Of one text, by its definition: norms of its words as a list."""
    n, p = len(norms), [norm / sum(norms) for norm in norms]
    if divergence == "forward":
        return sum(share * math.log(share / (1 / n)) for share in p)
    return sum(1 / n * math.log(1 / n / share) for share in p)


def total_loss(model, batch, factor, divergence):
    """ℓ₁ + λ ℓ₂ averaged over the texts, from the cross-entropy of one text after the other as
    torch's own recurrence reads it."""
    module, half, total = small.recurrence(model), model.encoder.output_size // 2, 0.0
    for text, label in zip(small.texts_of(batch), batch.labels, strict=True):
        words = model.embedding.weight[text].detach().requires_grad_()  # (n, E)
        states, _ = module(words)  # (n, D)
        ends = torch.cat([states[-1, :half], states[0, half:]])
        last = ends if model.encoder.directions == 2 else states[-1]
        loss = cross_entropy(model.classifier(last).unsqueeze(0), label.unsqueeze(0))
        (grad,) = torch.autograd.grad(loss, words)
        total += loss.item() + factor * divergence_of(grad.norm(dim=1).tolist(), divergence)
    return total / len(batch.lengths)


def found_by(way, model, factor, divergence, batch=BATCH, **options):
    """Gradients by name, and what was returned."""
    model.zero_grad()
    returned = way(model, batch, factor, divergence, **options)
    return {name: p.grad.clone() for name, p in model.named_parameters()}, returned


def error(ours, exact):
    difference = sum((ours[name].double() - exact[name].double()).square().sum() for name in exact)
    return (difference / sum(exact[name].double().square().sum() for name in exact)).sqrt().item()


@by_divergence
@pytest.mark.parametrize(
    "of",
    [
        ("lstm", 1, True),
        ("lstm", 1, False),
        ("lstm", 2, True),
        ("gru", 1, True),
        ("elman", 1, True),
    ],
)
def test_gradients_are_those_of_finite_differences(divergence, of):
    model, factor = classifier("last", *of), 0.7
    estimate, estimated = found_by(tricks.estimated_backward, model, factor, divergence, PADDED)
    found, exact = found_by(tricks.exact_backward, model, factor, divergence, PADDED)
    assert error(estimate, found) < 1e-5
    close(estimated, exact, atol=1e-12, rtol=1e-10)
    loss, uneven, logits = exact
    close(logits, model(BATCH.ids, LENGTHS))

    def expected():
        return total_loss(model, BATCH, factor, divergence)

    assert (loss + factor * uneven.mean()).item() == pytest.approx(expected(), rel=1e-8)
    check_by_steps(model, found, expected)
    for grads in (found, estimate):
        assert (grads["embedding.weight"][PADDING] == 0).all()


@by_divergence
def test_in_float32_also_where_gradients_vanish(divergence):
    """Before training the middle of a text has a millionth of the gradient of its ends (§1.5)."""
    torch.manual_seed(0)
    lengths = torch.tensor([120, 100])
    batch = Batch(small.ids_of(lengths, 120), lengths, torch.tensor([0, 1]))
    model = TextClassifier(20, 2, "last", embedding_size=20, hidden_size=64, padding_index=PADDING)
    found = gradients(model, tricks.GradientDirected(20, 1.0, divergence), batch)
    exact, _ = found_by(tricks.exact_backward, model.double(), 1.0, divergence, batch)
    assert error(found, exact) < 2e-2


RECIPE = Recipe(epochs=4, learning_rate=1e-2)
TRICKS = {
    "penalty_attention": lambda dataset: tricks.PenaltyAttention(RECIPE.epochs),
    "dropout_attention": lambda dataset: tricks.DropoutAttention(RECIPE.epochs),
    "gradient_directed": lambda dataset: tricks.GradientDirected(RECIPE.epochs, strength=0.8),
    "teacher_forcing": lambda dataset: tricks.TeacherForcing(model_of(dataset, "max", seed=3)),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_is_validated_as_it_will_be_used_and_leaves_an_ordinary_lstm(trick):
    dataset = numbered()
    model, judged = model_of(dataset, "last"), []
    names = set(model.state_dict())

    def judge(_):
        with_attention = evaluate(tricks.AttentionForm(model), dataset.validation).accuracy
        judged.append((evaluate(model, dataset.validation), with_attention))

    outcome = train(model, dataset, RECIPE, 0, objective=TRICKS[trick](dataset), save=judge)
    assert set(outcome.weights) == names  # nothing was added
    model.load_state_dict(outcome.weights)
    assert outcome.test == evaluate(model, dataset.test)
    for epoch, (plain, with_attention) in zip(outcome.history, judged, strict=True):
        assert (epoch.validation_loss, epoch.validation_accuracy) == (plain.loss, plain.accuracy)
        if trick.endswith("attention"):
            assert epoch.more["attention_accuracy"] == with_attention
    if trick.endswith("attention"):  # else the two could not be told apart
        assert any(plain.accuracy != attended for plain, attended in judged)


def test_every_trick_learns_on_a_device_that_is_not_the_processor():
    elsewhere("stand_in_of_tricks.py", tests=3)
