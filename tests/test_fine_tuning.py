"""A pretrained encoder under a classifier; TMix, UDA and MixText: what each minimises, and what it would
be without its defining step (§1.10). The encoder is like those of `transformers`, as small as can be."""

import math
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_models import softmax
from torch import nn

from whenpool import InputError
from whenpool.corpora.batches import Batch, Ragged
from whenpool.fewshot.fine_tuning import FineTuned, MixDraws, TMix, find_layers, mix_layers
from whenpool.fewshot.semi_supervised import UDA, MixText, Unlabelled, rounds

PADDING, TOKENS, CLASSES, SIZE = 1, 30, 3, 6
LENGTHS = torch.tensor([7, 4, 1, 5])
PARTNER = torch.tensor([2, 3, 1, 0])


def ids_of(lengths=LENGTHS, padding=PADDING, more=0, tokens=TOKENS, seed=3):
    """The same tokens for the same lengths, whatever is padded with."""
    longest = int(lengths.max())
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, tokens, (len(lengths), longest), generator=generator)
    ids = nn.functional.pad(ids, (0, more))
    return ids.masked_fill(torch.arange(longest + more) >= lengths.unsqueeze(1), padding)


IDS = ids_of()


class TinyLayer(nn.Module):
    """Attention and a nonlinearity."""

    def __init__(self):
        super().__init__()
        self.query, self.value = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, states, mask=None):
        scores = self.query(states) @ states.transpose(1, 2)  # (B, T, T)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, 0], -torch.inf)
        return torch.tanh(2 * self.value(scores.softmax(2) @ states) + states)


class TinyEncoder(nn.Module):
    """Like an encoder of `transformers`, without its size."""

    def __init__(self, layers=3):
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=layers)
        self.embeddings = nn.Embedding(TOKENS, SIZE)
        self.places = nn.Embedding(40, SIZE)
        self.blocks = nn.ModuleList(TinyLayer() for _ in range(layers))
        self.others = nn.ModuleList([nn.Identity()] * (layers + 1))

    def forward(self, input_ids, attention_mask):
        states = self.start(input_ids)
        mask = None if attention_mask.all() else attention_mask[:, None, None].bool()  # (B, 1, 1, T)
        for block in self.blocks:
            states = block(states, mask)
        return SimpleNamespace(last_hidden_state=states)

    def start(self, ids):
        return self.embeddings(ids) + self.places.weight[: ids.shape[1]]


def tiny(layers=3):
    torch.manual_seed(0)
    return FineTuned(TinyEncoder(layers), SIZE, CLASSES).double()


def classified(model, states):
    """The classifier written out, for one text of (n, E)."""
    first, _, second = model.head
    hidden = torch.tanh(first.weight @ (states.sum(0) / len(states)) + first.bias)
    return second.weight @ hidden + second.bias


def read(model, text, layers=None):
    """What the first layers of a tiny encoder make of one text alone, unpadded: (n, E)."""
    states = model.encoder.start(text.unsqueeze(0))
    return through(model.encoder.blocks[:layers], states)


def through(blocks, states):
    for block in blocks:
        states = block(states)
    return states.squeeze(0)


def interpolated(own, other, share):
    """Token by token, a text that has ended counts as 0."""
    mixture = torch.zeros(max(len(own), len(other)), own.shape[1], dtype=own.dtype)
    for t in range(len(mixture)):
        if t < len(own):
            mixture[t] += share * own[t]
        if t < len(other):
            mixture[t] += (1 - share) * other[t]
    return mixture


def mixed_alone(model, text, other, share, layer):
    """TMix of two texts by a tiny encoder, each read alone."""
    mixture = interpolated(read(model, text, layer), read(model, other, layer), share)
    return classified(model, through(model.encoder.blocks[layer:], mixture.unsqueeze(0)))


def texts_of(ids=IDS, lengths=LENGTHS):
    return [row[:n] for row, n in zip(ids, lengths.tolist(), strict=True)]


@pytest.mark.parametrize("padding", [0, 1, 17])
def test_a_text_is_classified_by_the_mean_over_its_own_tokens(padding):
    model = tiny()
    expected = torch.stack([classified(model, read(model, text)) for text in texts_of()])
    found = model(ids_of(padding=padding, more=3), LENGTHS)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert found.shape == (4, CLASSES)


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("partner", [[2, 3, 1, 0], [1, 1, 0, 3]])
def test_hidden_states_of_two_texts_are_mixed_behind_a_layer(layer, partner):
    model, texts = tiny(), texts_of()
    expected = [mixed_alone(model, texts[i], texts[j], 0.7, layer) for i, j in enumerate(partner)]
    found = model.mixed(ids_of(padding=0, more=2), LENGTHS, torch.tensor(partner), 0.7, layer)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_a_layer_that_is_not_there_is_named(layer):
    with pytest.raises(InputError, match=f"layer {layer} is not one of 3, counted from 1"):
        tiny().mixed(IDS, LENGTHS, PARTNER, 0.6, layer)


def test_an_encoder_whose_layers_cannot_be_told_is_named():
    model = tiny()
    assert find_layers(model.encoder) is model.encoder.blocks
    model.encoder.more = nn.ModuleList([nn.Identity()] * 3)
    with pytest.raises(InputError, match="TinyEncoder: TMix and MixText .* one list of 3; choose"):
        model.mixed(IDS, LENGTHS, PARTNER, 0.6, 1)
    model(IDS, LENGTHS)  # fine-tuning needs no layers
    with pytest.raises(InputError, match="Linear: .* one list of a known number; choose an encoder"):
        find_layers(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("layers", "drawn"), [(12, (7, 9, 12)), (24, (14, 18, 24)), (6, (4, 5, 6)), (2, (2,)), (1, (1,))]
)
def test_layers_to_mix_behind_are_as_high_up_as_in_bert_base(layers, drawn):
    assert mix_layers(layers) == drawn


SIZES = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 16}
DISTILLED = {"dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 16}


def small(family, attention=None, **more):
    """An encoder with random weights, large ones, so that tokens heed each other."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": TOKENS, "max_position_embeddings": 40, **more}
    sizes |= DISTILLED if family == "distilbert" else SIZES
    config = transformers.AutoConfig.for_model(family, **sizes)
    torch.manual_seed(0)
    options = {"attn_implementation": attention} if attention else {}
    encoder = transformers.AutoModel.from_config(config, **options)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if "norm" not in name.lower():
                parameter *= 10
    return FineTuned(encoder, 8, CLASSES).double().eval()


@pytest.mark.parametrize(
    ("family", "attention"),
    [
        ("bert", "sdpa"), ("bert", "eager"), ("roberta", None), ("distilbert", None), ("electra", None),
        ("mpnet", None), ("deberta-v2", None),
    ],
)  # fmt: skip
@torch.no_grad()
def test_encoders_of_transformers_mix_alike(family, attention):
    """Against the same encoder that reads, as if it was one long text, a mixture put in by hand."""
    model = small(family, attention)
    layers = find_layers(model.encoder)

    def hidden(text, layer, put=None):
        """What stands behind a layer and the last, of one unpadded text."""
        kept = []

        def look(module, args, out):
            states = out[0] if isinstance(out, tuple) else out
            kept.append(states[0])
            if put is None:
                return None
            return (put[None], *out[1:]) if isinstance(out, tuple) else put[None]

        handle = layers[layer - 1].register_forward_hook(look)
        last = model.encoder(input_ids=text[None], attention_mask=torch.ones(1, len(text)).long())
        handle.remove()
        return kept[0], last.last_hidden_state[0]

    texts = texts_of()
    for layer in (1, 2, 3):
        expected = []
        for i, j in enumerate(PARTNER.tolist()):
            mixture = interpolated(hidden(texts[i], layer)[0], hidden(texts[j], layer)[0], 0.6)
            longest = max(texts[i], texts[j], key=len)
            expected.append(classified(model, hidden(longest, layer, mixture)[1]))
        found = model.mixed(IDS, LENGTHS, PARTNER, 0.6, layer)
        torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-9)


def test_an_encoder_that_shares_one_layer_cannot_be_mixed():
    with pytest.raises(InputError, match="AlbertModel: TMix and MixText mix behind one of"):
        small("albert", embedding_size=8).mixed(IDS, LENGTHS, PARTNER, 0.6, 1)


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


def confident_model():
    """Its predictions differ much from text to text, some sure and some not."""
    model = tiny()
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
