"""A pretrained encoder under a classifier; TMix, UDA and MixText: what each minimises, and what it
would be without its defining step (§1.10). The encoder is one of `transformers`, as small as can
be."""

from functools import partial

import numpy as np
import pytest
import torch
from called import refused
from scipy.special import log_softmax, rel_entr, softmax
from small_models import BATCH, CLASSES, INDICES, LABELS, LENGTHS, WORDS, close, texts_of
from torch import nn

from paper.fewshot.fine_tuning import UDA, FineTuned, MixText, TMix, draw_mix, find_layers
from whenpool.corpora.batches import Ragged

PARTNER = torch.tensor([2, 3, 1, 0])
IDS, TEXTS = BATCH.ids, texts_of(BATCH)
transformers = pytest.importorskip("transformers")


def fine_tuned(name="bert"):
    """An encoder with random weights, large ones, so that tokens heed each other."""
    family, _, attention = name.partition(" ")
    config = transformers.AutoConfig.for_model(
        family,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        vocab_size=WORDS,
        max_position_embeddings=40,
    )
    torch.manual_seed(0)
    options = {"attn_implementation": attention} if attention else {}
    encoder = transformers.AutoModel.from_config(config, **options)
    with torch.no_grad():
        for part, parameter in encoder.named_parameters():
            if "norm" not in part.lower():
                parameter *= 10
    return FineTuned(encoder, 8, CLASSES).double().eval()


def classified(model, states):
    """The classifier written out, for one text of (n, E)."""
    first, _, second = model.head
    hidden = torch.tanh(first.weight @ (states.sum(0) / len(states)) + first.bias)
    return second.weight @ hidden + second.bias


def read(model, text, layers=None):
    """What the first layers of an encoder make of one text alone, unpadded: (n, E)."""
    return through(
        find_layers(model.encoder)[:layers], model.encoder.embeddings(text.unsqueeze(0))
    )[0]


def through(blocks, states):
    for block in blocks:
        out = block(states, None)
        states = out[0] if isinstance(out, tuple) else out
    return states


def interpolated(text, other, share):
    """Token by token, a text that has ended counts as 0."""
    mixture = text.new_zeros(max(len(text), len(other)), text.shape[1])
    mixture[: len(text)] += share * text
    mixture[: len(other)] += (1 - share) * other
    return mixture


def mixed_alone(model, text, other, share, layer):
    """TMix of two texts, each read alone."""
    mixture = interpolated(read(model, text, layer), read(model, other, layer), share)
    return classified(model, through(find_layers(model.encoder)[layer:], mixture.unsqueeze(0))[0])


@pytest.mark.parametrize("name, layer", [("bert sdpa", 1), ("bert eager", 3), ("distilbert", 1)])
@torch.no_grad()
def test_texts_are_classified_by_the_mean_over_their_tokens_and_mixed_behind_a_layer(name, layer):
    model = fine_tuned(name)
    expected = torch.stack([classified(model, read(model, text)) for text in TEXTS])
    longer = nn.functional.pad(IDS, (0, 3)).masked_fill(
        torch.arange(10) >= LENGTHS.unsqueeze(1), 17
    )
    close(model(longer, LENGTHS), expected, atol=1e-9)
    pairs = zip(TEXTS, PARTNER.tolist(), strict=True)
    expected = torch.stack([mixed_alone(model, text, TEXTS[j], 0.6, layer) for text, j in pairs])
    logits = model.mixed(IDS, LENGTHS, PARTNER, 0.6, layer)
    close(logits, expected, atol=1e-9)


def test_layers_that_cannot_be_mixed_are_named():
    model = fine_tuned()
    model.encoder.more = nn.ModuleList([nn.Identity()] * 3)
    refused("TMix and MixText .* BertModel .* choose", model.mixed, IDS, LENGTHS, PARTNER, 0.6, 1)
    model(IDS, LENGTHS)  # fine-tuning needs no layers


ONE_HOT = np.eye(CLASSES)
COUNTS = [(5, 3, 9, 2), (4, 3, 8, 6), (6, 1, 7, 2)]
"""Tokens of four unlabelled texts, and of two versions of each."""
DRAWN = torch.Generator().manual_seed(0)
VERSIONS = [[torch.randint(2, WORDS, (n,), generator=DRAWN) for n in counts] for counts in COUNTS]
ORIGINAL, VERSION, OTHER = (Ragged.of(row.tolist() for row in version) for version in VERSIONS)
UNLABELLED, ONE_VERSION = (ORIGINAL, VERSION, OTHER), (ORIGINAL, VERSION)

MODEL = fine_tuned()
"""Its predictions differ much from text to text, some sure and some not."""
with torch.no_grad():
    for parameter in MODEL.head.parameters():
        parameter *= 8


def logits_of(text):
    return classified(MODEL, read(MODEL, text)).detach().numpy()


def drawn_mix(seed, alpha, texts):
    return draw_mix(np.random.default_rng(seed), alpha, texts, MODEL.encoder, IDS.device)


@pytest.mark.parametrize("seed", range(3))
def test_tmix_is_the_cross_entropy_of_mixtures_and_mixed_labels(seed):
    loss, logits = TMix(seed).loss(MODEL, BATCH, INDICES)
    share, layer, partner = drawn_mix(seed, 2.0, 4)
    assert sorted(partner.tolist()) == [0, 1, 2, 3]
    losses = []
    for i, j in enumerate(partner.tolist()):
        expected = mixed_alone(MODEL, TEXTS[i], TEXTS[j], share, layer)
        close(logits[i], expected, atol=1e-12)
        target = share * ONE_HOT[LABELS[i]] + (1 - share) * ONE_HOT[LABELS[j]]
        losses.append(-(target * log_softmax(expected.detach().numpy())).sum())
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-12)


def after(system, unlabelled, done=20, seed=0, batch_size=4, **settings):
    """All four unlabelled texts in each step of twenty, of which some are over."""
    objective = system(unlabelled, CLASSES, 20, seed, batch_size, **settings)
    for _ in range(done):
        objective.end_step()
    objective.start_epoch(0)
    return objective


uda, mixtext = partial(after, UDA, ONE_VERSION), partial(after, MixText, UNLABELLED)
SURE = sorted(softmax(logits_of(text)).max() for text in VERSIONS[0])
BETWEEN = (SURE[1] + SURE[2]) / 2
"""A confidence that two of the four texts exceed."""


def uda_by_hand(threshold, temperature, confidence):
    """Both losses, the share of texts left out and that of confident ones, text by text."""
    known = [log_softmax(logits_of(text))[label] for text, label in zip(TEXTS, LABELS, strict=True)]
    learnt = [-p for p in known if np.exp(p) <= threshold]
    divergences, sure = [], []
    for text, other in zip(*VERSIONS[:2], strict=True):
        goal = logits_of(text)
        sure.append(softmax(goal).max() > confidence)
        divergence = rel_entr(softmax(goal / temperature), softmax(logits_of(other))).sum()
        divergences.append(divergence * sure[-1])
    return (
        sum(learnt) / max(1, len(learnt)),
        np.mean(divergences),
        1 - len(learnt) / 4,
        np.mean(sure),
    )


@pytest.mark.parametrize("done", [0, 7, 30])
@pytest.mark.parametrize("temperature, confidence", [(1.0, 0.0), (0.4, BETWEEN), (0.7, 0.999)])
def test_uda_is_annealed_cross_entropy_and_consistency(done, temperature, confidence):
    objective = uda(done=done, temperature=temperature, confidence=confidence)
    loss, logits = objective.loss(MODEL, BATCH, INDICES)
    threshold = min(1, done / 20) * 2 / 3 + 1 / 3
    supervised, consistent, left_out, sure = uda_by_hand(threshold, temperature, confidence)
    assert loss.item() == pytest.approx(supervised + consistent, rel=1e-10)
    close(logits, MODEL(IDS, LENGTHS), atol=1e-12)
    means = {"left_out": left_out, "confident": sure, "consistency": consistent}
    assert objective.end_epoch(MODEL, None) == pytest.approx(means)


def mixtext_by_hand(seed, temperature, margin):
    """The three losses and the confidence, text by text."""
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed)).tolist()
    # (3, 4, C)
    predicted = np.array([[softmax(logits_of(t)) for t in texts] for texts in VERSIONS])
    powers = predicted.mean(0) ** (1 / temperature)
    guesses = powers / powers.sum(1, keepdims=True)  # (4, C)
    texts = [*TEXTS, *(version[i] for version in VERSIONS for i in order)]
    targets = [*ONE_HOT[LABELS], *np.tile(guesses[order], (3, 1))]
    share, layer, partner = drawn_mix(seed, 16.0, 16)
    losses = []
    for i, j in enumerate(partner.tolist()):
        target = share * targets[i] + (1 - share) * targets[j]
        logits = mixed_alone(MODEL, texts[i], texts[j], share, layer).detach().numpy()
        cross_entropy = -(target * log_softmax(logits)).sum()
        losses.append(cross_entropy if i < 4 else rel_entr(target, softmax(logits)).sum())
    even = np.maximum(0, margin - (predicted[0] ** 2).sum(1)).mean()
    return np.mean(losses[:4]), np.mean(losses[4:]), even, guesses.max(1).mean()


@pytest.mark.parametrize("seed, sharpness, margin", [(0, 0.5, 0.7), (1, 1.0, 0.9), (2, 0.3, 0.5)])
@pytest.mark.parametrize("done", [0, 5, 33])
def test_mixtext_is_mixed_labels_mixed_guesses_and_a_margin(seed, sharpness, margin, done):
    objective = mixtext(seed=seed, done=done, temperature=sharpness, margin=margin)
    loss, logits = objective.loss(MODEL, BATCH, INDICES)
    supervised, consistent, even, _ = expected = mixtext_by_hand(seed, sharpness, margin)
    grown = min(1, done / 20)
    assert loss.item() == pytest.approx(supervised + grown * (consistent + even), rel=1e-10)
    names = "supervised", "consistency", "margin", "confidence"
    assert objective.end_epoch(MODEL, None) == pytest.approx(
        dict(zip(names, expected, strict=True))
    )
    assert logits.shape == (4, CLASSES)
