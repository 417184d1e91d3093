"""TMix, UDA and MixText: what each minimises, and what it would be without its defining step (§1.10)."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from small_models import softmax
from tiny_encoder import (
    CLASSES,
    IDS,
    LENGTHS,
    PADDING,
    classified,
    ids_of,
    mixed_alone,
    read,
    texts_of,
    tiny,
)

from whenpool import InputError
from whenpool.corpora.batches import Batch, Ragged
from whenpool.fewshot.fine_tuning import MixDraws, TMix
from whenpool.fewshot.semi_supervised import UDA, MixText, Unlabelled, rounds

LABELS = torch.tensor([0, 2, 1, 2])
INDICES = torch.arange(4)
BATCH = Batch(IDS, LENGTHS, LABELS)
COUNTS = [(5, 3, 9, 2), (4, 3, 8, 6), (6, 1, 7, 2)]
"""Tokens of four unlabelled texts, and of two versions of each."""


def rows(counts, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(2, 30, (n,), generator=generator) for n in counts]


VERSIONS = [rows(counts, seed) for seed, counts in enumerate(COUNTS)]
UNLABELLED = Unlabelled(
    Ragged.of(row.tolist() for row in VERSIONS[0]),
    tuple(Ragged.of(row.tolist() for row in version) for version in VERSIONS[1:]),
)
VERSION = UNLABELLED.augmented[0]
ONE_VERSION = Unlabelled(UNLABELLED.original, (VERSION,))


def confident_model(style="bool"):
    """Its predictions differ much from text to text, some sure and some not."""
    model = tiny(style)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter *= 6
    return model


MODEL = confident_model()


def logits_of(text, model=MODEL):
    """Of one text alone."""
    return classified(model, read(model, text)).tolist()


def divergence(p, q):
    """KL(p ‖ q)."""
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def cross_entropy(p, q):
    return -sum(a * math.log(b) for a, b in zip(p, q, strict=True) if a > 0)


def one_hot(label):
    return [float(label == c) for c in range(CLASSES)]


# --- TMix ---


@pytest.mark.parametrize("seed", range(3))
def test_tmix_is_the_cross_entropy_of_mixtures_and_mixed_labels(seed):
    loss, logits = TMix(seed).loss(MODEL, BATCH, INDICES)
    share, layer, partner = MixDraws(seed, 2.0).draw(4, MODEL.encoder, IDS.device)
    assert sorted(partner.tolist()) == [0, 1, 2, 3]
    texts, losses = texts_of(), []
    for i, j in enumerate(partner.tolist()):
        expected = mixed_alone(MODEL, texts[i], texts[j], share, layer)
        torch.testing.assert_close(logits[i], expected, rtol=0, atol=1e-12)
        labels = zip(one_hot(LABELS[i]), one_hot(LABELS[j]), strict=True)
        target = [share * own + (1 - share) * other for own, other in labels]
        losses.append(cross_entropy(target, softmax(expected.tolist())))
    assert loss.item() == pytest.approx(sum(losses) / 4, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.4, 2.0, 16.0])
def test_shares_are_the_larger_part_of_a_beta_draw(alpha):
    draws, encoder = MixDraws(0, alpha), tiny(layers=12).encoder
    mixes = [draws.draw(5, encoder, IDS.device) for _ in range(3000)]
    shares = np.array([mix.share for mix in mixes])
    assert shares.min() >= 0.5
    assert shares.max() <= 1
    second_moment = (shares - 0.5) ** 2  # that of a Beta around its mean, which folding leaves alone
    assert second_moment.mean() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)
    layers = [mix.layer for mix in mixes]
    for layer in (7, 9, 12):
        assert layers.count(layer) == pytest.approx(1000, abs=120)
    partners = torch.stack([mix.partner for mix in mixes])
    assert (partners.sort(1).values == torch.arange(5)).all()
    assert (partners == torch.arange(5)).double().mean().item() == pytest.approx(0.2, abs=0.02)


# --- unlabelled texts ---


def test_a_batch_holds_the_originals_and_then_each_version():
    indices = torch.tensor([2, 0])
    batches = UNLABELLED.batch(indices, 17)
    assert [tuple(batch.ids.shape) for batch in batches] == [(2, 9), (2, 8), (2, 7)]
    for batch, version in zip(batches, VERSIONS, strict=True):
        for ids, n, index in zip(batch.ids, batch.lengths.tolist(), indices.tolist(), strict=True):
            assert ids[:n].tolist() == version[index].tolist()
            assert (ids[n:] == 17).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Unlabelled(Ragged.of([]), ()), "there are no unlabelled texts; give some"),
        (lambda: Unlabelled(UNLABELLED.original, ()), "the unlabelled texts have no augmented version"),
        (
            lambda: Unlabelled(UNLABELLED.original, (VERSION, VERSION.first(3))),
            "augmented version 2 has 3 texts for 4 unlabelled ones; give one for each",
        ),
        (lambda: UDA(UNLABELLED, 3, 0, 0), "steps is above 0, not 0"),
        (lambda: MixText(UNLABELLED, 3, 9, 0, temperature=0.0), "temperature is above 0, not 0.0"),
        (lambda: UDA(UNLABELLED, 3, 9, 0, schedule="sine"), "schedule 'sine' is unknown; choose one of"),
        (lambda: TMix(0, alpha=0.0), "alpha is the parameter of a Beta distribution, above 0, not 0.0"),
        (
            lambda: MixText(UNLABELLED, 3, 9, 0, weights=(1, 1)),
            "weights are 3 numbers from 0, not all 0",
        ),
        (lambda: MixText(UNLABELLED, 3, 9, 0, weights=(0, 0, 0)), "of a text and of each augmented"),
    ],
)
def test_what_cannot_be_learnt_from_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()


# --- UDA ---


def uda(unlabelled=ONE_VERSION, steps=20, seed=0, **settings):
    """All four unlabelled texts in each step."""
    return UDA(unlabelled, CLASSES, steps, seed, **{"batch_size": 4} | settings)


def annealed_by_hand(threshold):
    losses = []
    for text, label in zip(texts_of(), LABELS.tolist(), strict=True):
        p = softmax(logits_of(text))[label]
        if p <= threshold:
            losses.append(-math.log(p))
    return (sum(losses) / len(losses) if losses else 0.0), 1 - len(losses) / 4


def consistency_by_hand(temperature, confidence, version=1):
    total, sure = 0.0, 0
    for text, other in zip(VERSIONS[0], VERSIONS[version], strict=True):
        goal = logits_of(text)
        if max(softmax(goal)) > confidence:
            sure += 1
            total += divergence(softmax(goal, temperature), softmax(logits_of(other)))
    return total / 4, sure / 4


SURE = sorted(max(softmax(logits_of(text))) for text in VERSIONS[0])
BETWEEN = (SURE[1] + SURE[2]) / 2
"""A confidence that two of the four texts exceed."""


@pytest.mark.parametrize("step", [0, 7, 19, 20, 30])
@pytest.mark.parametrize(("temperature", "confidence"), [(1.0, 0.0), (0.4, BETWEEN), (0.7, 0.999)])
def test_uda_is_annealed_cross_entropy_and_consistency(step, temperature, confidence):
    objective = uda(temperature=temperature, confidence=confidence, weight=1.3)
    for _ in range(step):
        objective.end_step()
    objective.start_epoch(0)
    threshold = min(1, step / 20) * 2 / 3 + 1 / 3
    loss, logits = objective.loss(MODEL, BATCH, INDICES)
    supervised, left_out = annealed_by_hand(threshold)
    consistent, sure = consistency_by_hand(temperature, confidence)
    assert loss.item() == pytest.approx(supervised + 1.3 * consistent, rel=1e-10)
    torch.testing.assert_close(logits, MODEL(IDS, LENGTHS), rtol=0, atol=1e-12)
    assert objective.end_epoch(MODEL, None) == pytest.approx(
        {"left_out": left_out, "confident": sure, "consistency": consistent}
    )


@pytest.mark.parametrize(
    ("schedule", "curve"),
    [
        ("log", lambda part: 1 - math.exp(-5 * part)),
        ("linear", lambda part: part),
        ("exp", lambda part: math.exp(5 * (part - 1))),
    ],
)
@pytest.mark.parametrize("classes", [2, 10])
def test_the_ceiling_rises_from_chance_to_certainty(schedule, curve, classes):
    objective = UDA(ONE_VERSION, classes, 8, 0, schedule=schedule)
    found = []
    for _ in range(10):
        found.append(objective.threshold)
        objective.end_step()
    parts = [min(1, step / 8) for step in range(10)]
    assert found == pytest.approx([1 / classes + (1 - 1 / classes) * curve(part) for part in parts])
    assert found == sorted(found)


def test_the_prediction_on_the_text_itself_is_not_taught():
    """The gradient is that of the cross-entropy with fixed predictions on the texts themselves."""
    model = confident_model()
    objective = uda(confidence=0.0, temperature=1.0, weight=1e6)  # the labelled texts weigh little
    with torch.no_grad():
        goal = [model(text[None], torch.tensor([len(text)])).softmax(1) for text in VERSIONS[0]]
    loss = sum(
        -(p * model(text[None], torch.tensor([len(text)])).log_softmax(1)).sum()
        for p, text in zip(goal, VERSIONS[1], strict=True)
    )
    weights = list(model.parameters())
    by_hand = torch.autograd.grad(1e6 * loss / 4, weights, allow_unused=True)
    found = torch.autograd.grad(objective.loss(model, BATCH, INDICES)[0], weights, allow_unused=True)
    for gradient, expected in zip(found, by_hand, strict=True):
        assert (gradient is None) == (expected is None)
        assert expected is None or (gradient - expected).abs().max() < 1e-4 * expected.abs().max()


# --- MixText ---


def mixtext(unlabelled=UNLABELLED, steps=20, seed=0, done=20, **settings):
    """All four unlabelled texts in each step, after so many steps."""
    objective = MixText(unlabelled, CLASSES, steps, seed, **{"batch_size": 4} | settings)
    for _ in range(done):
        objective.end_step()
    objective.start_epoch(0)
    return objective


def guessed_by_hand(temperature, weights):
    labels = []
    for texts in zip(*VERSIONS, strict=True):
        predictions = np.array([softmax(logits_of(text)) for text in texts])
        powers = np.average(predictions, axis=0, weights=weights) ** (1 / temperature)
        labels.append((powers / powers.sum()).tolist())
    return labels


def mixtext_by_hand(seed, alpha, temperature, weights, margin):
    """The three losses, text by text."""
    order = list(islice(rounds(4, torch.Generator().manual_seed(seed)), 4))
    guesses = guessed_by_hand(temperature, weights)
    texts = texts_of() + [version[i] for version in VERSIONS for i in order]
    targets = [one_hot(label) for label in LABELS] + [guesses[i] for i in order] * 3
    share, layer, partner = MixDraws(seed, alpha).draw(16, MODEL.encoder, IDS.device)
    losses = []
    for i, j in enumerate(partner.tolist()):
        pairs = zip(targets[i], targets[j], strict=True)
        target = [share * own + (1 - share) * other for own, other in pairs]
        predicted = softmax(mixed_alone(MODEL, texts[i], texts[j], share, layer).tolist())
        losses.append((cross_entropy if i < 4 else divergence)(target, predicted))
    norms = [sum(p * p for p in softmax(logits_of(text))) for text in VERSIONS[0]]
    even = sum(max(0.0, margin - norm) for norm in norms) / 4
    confidence = sum(max(label) for label in guesses) / 4
    return sum(losses[:4]) / 4, sum(losses[4:]) / 12, even, confidence


@pytest.mark.parametrize(
    ("seed", "temperature", "weights", "margin"),
    [(0, 0.5, (1, 1, 1), 0.7), (1, 1.0, (1, 0, 0), 0.9), (2, 0.3, (2, 1, 0.5), 0.5)],
)
@pytest.mark.parametrize("done", [0, 5, 20, 33])
def test_mixtext_is_mixed_labels_mixed_guesses_and_a_margin(seed, temperature, weights, margin, done):
    objective = mixtext(
        seed=seed, done=done, temperature=temperature, weights=weights, margin=margin, weight=1.3,
        margin_weight=0.6,
    )  # fmt: skip
    loss, logits = objective.loss(MODEL, BATCH, INDICES)
    expected = mixtext_by_hand(seed, 16.0, temperature, weights, margin)
    supervised, consistent, even, _ = expected
    grown = min(1, done / 20)
    assert loss.item() == pytest.approx(supervised + grown * (1.3 * consistent + 0.6 * even), rel=1e-10)
    names = "supervised", "consistency", "margin", "confidence"
    assert objective.end_epoch(MODEL, None) == pytest.approx(dict(zip(names, expected, strict=True)))
    assert logits.shape == (4, CLASSES)


@pytest.mark.parametrize("system", [uda, mixtext])
def test_all_texts_come_before_any_comes_again_and_alike_for_the_same_seed(system):
    drawn = list(islice(rounds(10, torch.Generator().manual_seed(3)), 30))
    assert [sorted(drawn[start : start + 10]) for start in (0, 10, 20)] == [list(range(10))] * 3
    assert drawn[:10] != drawn[10:20]
    runs = []
    for seed in (1, 1, 2):
        objective = system(UNLABELLED, seed=seed, batch_size=3)
        runs.append([objective.loss(MODEL, BATCH, INDICES)[0].item() for _ in range(4)])
    assert runs[0] == runs[1] != runs[2]


# --- all of them ---


@pytest.mark.parametrize("system", ["tmix", "uda", "mixtext"])
def test_padding_does_not_matter_nor_the_order_where_nothing_is_mixed(system):
    """Of the unlabelled texts too: the same system reads more padding behind the labelled ones."""
    order = torch.tensor([2, 0, 3, 1]) if system == "uda" else torch.arange(4)

    def loss(ids, lengths, labels):
        objective = {"tmix": TMix(0), "uda": uda(confidence=0.1), "mixtext": mixtext()}[system]
        return objective.loss(MODEL, Batch(ids, lengths, labels), INDICES)[0].item()

    expected = loss(IDS, LENGTHS, LABELS)
    more = ids_of(padding=PADDING + 5, more=6)
    assert loss(more[order], LENGTHS[order], LABELS[order]) == pytest.approx(expected, rel=1e-10)
