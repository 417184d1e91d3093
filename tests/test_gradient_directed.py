"""Gradient-directed gradients (§2.2.7) against loops, finite differences and each other."""

import math

import pytest
import torch
from small_models import (
    BATCH,
    INDICES,
    LENGTHS,
    PADDING,
    classifier,
    gradients,
    ids_of,
    rearranged,
    recurrence,
    slope,
    texts_of,
)
from torch.nn.functional import cross_entropy

from whenpool import InputError, TextClassifier
from whenpool.corpora.batches import Batch
from whenpool.learnability import GradientDirected
from whenpool.learnability.gradient_directed import (
    DIVERGENCES,
    estimated_backward,
    exact_backward,
    log_odds,
    unevenness,
)
from whenpool.training.loop import Objective

WAYS = [exact_backward, estimated_backward]


def divergence_of(norms, divergence):
    """Of one text, by its definition: norms of its words as a list."""
    n, p = len(norms), [norm / sum(norms) for norm in norms]
    if divergence == "forward":
        return sum(share * math.log(share / (1 / n)) for share in p)
    return sum(1 / n * math.log(1 / n / share) for share in p)


def some_gradients(lengths=LENGTHS, spread=3.0):
    """(B, T, E), whose norms differ by orders of magnitude, zeros behind the end."""
    torch.manual_seed(0)
    T = int(lengths.max())
    sizes = torch.exp(spread * torch.randn(len(lengths), T, 1, dtype=torch.float64))
    values = torch.randn(len(lengths), T, 6, dtype=torch.float64) * sizes
    return values.masked_fill((torch.arange(T) >= lengths.unsqueeze(1)).unsqueeze(-1), 0.0)


def by_divergence(function):
    return pytest.mark.parametrize("divergence", DIVERGENCES)(function)


@by_divergence
def test_unevenness_is_the_divergence_of_a_loop_over_words(divergence):
    values = some_gradients()
    found = unevenness(values, LENGTHS, divergence)
    for text, n in enumerate(LENGTHS.tolist()):
        norms = [math.sqrt(sum(x * x for x in word)) for word in values[text, :n].tolist()]
        assert found[text].item() == pytest.approx(divergence_of(norms, divergence), rel=1e-6, abs=1e-11)
    assert abs(found[2].item()) < 1e-11  # one word cannot be uneven
    assert found[0] > 0.5


@by_divergence
def test_its_gradient_is_that_of_finite_differences(divergence):
    values = some_gradients(spread=0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda g: unevenness(g, LENGTHS, divergence), values)


@pytest.mark.parametrize("classes", [2, 5])
def test_log_odds_spread_over_the_words_as_the_cross_entropy_does(classes):
    model = classifier(classes=classes)
    labels = torch.tensor([0, 1, 1, classes - 1])
    words = model.embed(BATCH.ids).detach().requires_grad_()
    logits = model.classify(model.encode(words, LENGTHS), LENGTHS)
    odds, losses = log_odds(logits, labels), cross_entropy(logits, labels, reduction="none")
    p = logits.softmax(1)[INDICES, labels]
    torch.testing.assert_close(odds, (p / (1 - p)).log())
    (of_odds,) = torch.autograd.grad(odds.sum(), words, retain_graph=True)
    (of_loss,) = torch.autograd.grad(losses.sum(), words)
    wrong = (1 - p)[:, None, None]
    torch.testing.assert_close(of_loss, -wrong * of_odds, rtol=1e-10, atol=1e-15)
    assert of_loss.abs().amax((1, 2)).min() > 0


def total_loss(model, batch, factor, divergence):
    """ℓ₁ + λ ℓ₂ averaged over the texts, from the cross-entropy of one text after the other as torch's
    own recurrence reads it."""
    module, half, total = recurrence(model), model.encoder.output_size // 2, 0.0
    for text, label in zip(texts_of(batch), batch.labels, strict=True):
        words = model.embedding.weight[text].detach().unsqueeze(0).requires_grad_()  # (1, n, E)
        states = module(words)[0][0]  # (n, D)
        ends = torch.cat([states[-1, :half], states[0, half:]])
        last = ends if model.encoder.directions == 2 else states[-1]
        loss = cross_entropy(model.classifier(last).unsqueeze(0), label.unsqueeze(0))
        (grad,) = torch.autograd.grad(loss, words)
        norms = [math.sqrt(sum(x * x for x in word)) for word in grad[0].tolist()]
        total += loss.item() + factor * divergence_of(norms, divergence)
    return total / len(batch.lengths)


def found_by(way, model, factor, divergence, batch=BATCH, **options):
    """Gradients by name, and what was returned."""
    model.zero_grad()
    returned = way(model, batch, factor, divergence, **options)
    return {name: p.grad.clone() for name, p in model.named_parameters()}, returned


def error(ours, exact):
    """Relative, of all parameters together."""
    difference = sum((ours[name].double() - exact[name].double()).square().sum() for name in exact)
    return (difference / sum(exact[name].double().square().sum() for name in exact)).sqrt().item()


def some_places(parameter):
    """Where the gradient is largest, and where it is of middle size."""
    order = parameter.grad.abs().flatten().argsort(descending=True)
    nonzero = order[: int(parameter.grad.count_nonzero())]
    places = (nonzero[0], nonzero[len(nonzero) // 2])
    return [tuple(int(i) for i in torch.unravel_index(place, parameter.shape)) for place in places]


@by_divergence
@pytest.mark.parametrize(
    ("cell", "layers", "bidirectional"),
    [("lstm", 1, True), ("lstm", 1, False), ("lstm", 2, True), ("gru", 1, True), ("elman", 1, True)],
)
def test_gradients_are_those_of_finite_differences(divergence, cell, layers, bidirectional):
    model, factor = classifier("last", cell, layers, bidirectional), 0.7
    estimate, estimated = found_by(estimated_backward, model, factor, divergence)
    found, exact = found_by(exact_backward, model, factor, divergence)
    assert error(estimate, found) < 1e-5
    for one, other in zip(estimated, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    loss, uneven, _ = exact

    def expected():
        return total_loss(model, BATCH, factor, divergence)

    assert (loss + factor * uneven.mean()).item() == pytest.approx(expected(), rel=1e-8)
    for name, parameter in model.named_parameters():
        for place in some_places(parameter):
            by_steps = slope(model, name, place, expected, step=1e-5)
            assert found[name][place].item() == pytest.approx(by_steps, rel=1e-4, abs=1e-7), name


@by_divergence
def test_their_error_shrinks_with_the_square_of_the_step(divergence):
    model = classifier()
    exact, _ = found_by(exact_backward, model, 0.7, divergence)
    large, small = (
        error(found_by(estimated_backward, model, 0.7, divergence, step=step)[0], exact)
        for step in (3e-2, 3e-3)
    )
    assert 80 < large / small < 120


@by_divergence
def test_in_float32_also_where_gradients_vanish(divergence):
    """Before training the middle of a text has a millionth of the gradient of its ends (§1.5)."""
    torch.manual_seed(0)
    lengths = torch.tensor([120, 100])
    batch = Batch(ids_of(lengths, 120), lengths, torch.tensor([0, 1]))
    model = TextClassifier(20, 2, "last", embedding_size=20, hidden_size=64, padding_index=PADDING)
    found = gradients(model, GradientDirected(20, 1.0, divergence), batch)
    exact, _ = found_by(exact_backward, model.double(), 1.0, divergence, batch)
    assert error(found, exact) < 2e-2


@pytest.mark.parametrize("way", WAYS)
@by_divergence
def test_padding_and_other_texts_change_nothing_and_pads_are_not_trained(way, divergence):
    model = classifier()
    expected, (loss, uneven, logits) = found_by(way, model, 0.7, divergence)
    order = torch.tensor([2, 0, 3, 1])
    found, others = found_by(way, model, 0.7, divergence, rearranged(BATCH, order, 5))
    for mine, theirs in zip(others, (loss, uneven[order], logits[order]), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
    assert error(found, expected) < 1e-9
    for grads in (found, expected):
        assert (grads["embedding.weight"][PADDING] == 0).all()
        assert grads["embedding.weight"].abs().sum() > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("odds", [30, 80, 1000])
def test_texts_classified_with_great_confidence_are_still_directed(way, odds):
    """The gradient of their cross-entropy vanishes, that of the divergence does not."""
    model = classifier(classes=2).float()
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([odds, 0.0]))
    batch = BATCH._replace(labels=torch.zeros(4, dtype=torch.long))
    found, _ = found_by(way, model, 1.0, "forward", batch)
    exact, _ = found_by(exact_backward, model.double(), 1.0, "forward", batch)
    assert error(found, exact) < 1e-2


@pytest.mark.parametrize("exact", [True, False])
def test_once_the_factor_is_zero_training_is_plain_to_the_bit(exact):
    model, objective = classifier().float(), GradientDirected(20, exact=exact)
    objective.start_epoch(10)
    found, expected = gradients(model, objective), gradients(model, Objective())
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert objective.end_epoch(model, lambda form: 0.0) == {"factor": 0.0}


@pytest.mark.parametrize("exact", [True, False])
@by_divergence
def test_an_epoch_tells_factor_and_divergence_and_returns_the_whole_loss(exact, divergence):
    model, objective = classifier(), GradientDirected(20, 0.5, divergence, exact)
    objective.start_epoch(2)
    parts = [rearranged(BATCH, torch.tensor(part), 0) for part in ([0, 3], [1])]
    losses = [objective.backward(model, part, INDICES)[0] for part in parts]
    for part, loss in zip(parts, losses, strict=True):
        assert not loss.requires_grad
        assert loss.item() == pytest.approx(total_loss(model, part, 0.4, divergence), rel=1e-8)
    only = [total_loss(model, p, 1.0, divergence) - total_loss(model, p, 0.0, divergence) for p in parts]
    told = objective.end_epoch(model, lambda form: 0.0)
    assert told == {"factor": 0.4, "divergence": pytest.approx(sum(only) / 2, rel=1e-7)}
    objective.start_epoch(3)
    objective.backward(model, parts[1], INDICES)
    assert objective.end_epoch(model, lambda form: 0.0)["divergence"] == pytest.approx(only[1], rel=1e-7)
    assert objective.eligible


def test_an_unknown_divergence_is_named():
    with pytest.raises(InputError, match="divergence 'KL' is unknown; choose forward or reverse"):
        GradientDirected(20, divergence="KL")
