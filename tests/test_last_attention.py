"""Penalty and dropout attention (§2.2.5, §2.2.6), each against its formula word by word."""

import math

import pytest
import torch
from small_models import (
    BATCH,
    INDICES,
    LABELS,
    LENGTHS,
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

from whenpool import InputError
from whenpool.learnability import AttentionForm, DropoutAttention, PenaltyAttention
from whenpool.training.loop import Objective


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
