"""VAMPIRE (thesis §1.10.2) against slow copies of its formulas, and what each of its steps is for."""

import copy
import math
import random

import numpy as np
import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import pad, softplus
from torch.nn.utils.rnn import pad_sequence

from whenpool import InputError
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.dataset import Splits
from whenpool.fewshot.vampire import BagOfWordsVAE, VampireClassifier, bag_vocabulary, pretrain
from whenpool.training.loop import Recipe, train

WORDS = 7
ROWS = [[2, 3, 3, 8], [5], [0, 4, 4, 4, 2, 6], [7, 8], [0]]
TEXTS = Ragged.of(ROWS)
LENGTHS = TEXTS.lengths


IDS = pad_sequence([torch.tensor(row) for row in ROWS], batch_first=True, padding_value=PADDING_INDEX)


def counted(rows, words):
    """The bags, one word at a time."""
    bag = torch.zeros(len(rows), words, dtype=torch.float64)
    for row, numbers in enumerate(rows):
        for number in numbers:
            if number not in (UNKNOWN_INDEX, PADDING_INDEX):
                bag[row, number - 2] += 1
    return bag


def small_vae(topics=3):
    torch.manual_seed(0)
    return BagOfWordsVAE(torch.arange(1.0, WORDS + 1), topics).double()


def generator(seed):
    return torch.Generator().manual_seed(seed)


def test_a_vocabulary_has_frequent_words_first():
    texts = ["fish fish swim 1990 !", "fish jump !", "birds swim jump !", "the birds fly !"] * 3
    texts += ["swim swim", "a b c d e f g h i", "k l m n", "o p q r"]
    # 16 texts: each of these is in 3 to 8; "1990" and "!" hold no letter, the rest is too rare
    vocabulary = bag_vocabulary(texts)
    assert vocabulary.words == ("fish", "swim", "birds", "jump", "fly", "the")
    assert vocabulary.counts.tolist() == [9, 8, 6, 6, 3, 3]
    assert bag_vocabulary(texts, limit=3).words == ("fish", "swim", "birds")

    few = bag_vocabulary(["Fish swim .", "Fish swim", "fish swim", "a", "b", "c"])
    assert few.words == ("fish", "swim")
    rows = few.number(["Swim, FISH, swim!", "birds", ""]).to_lists()
    assert rows == [[3, 2, 3], [UNKNOWN_INDEX], [UNKNOWN_INDEX]]
    with pytest.raises(InputError, match="5 unlabelled texts have 0 words .* more texts"):
        bag_vocabulary(["always the same"] * 5)


def slow_elbo(vae, bag, noise, training):
    """Reconstruction and divergence, text by text, from the weights by name."""
    weights = dict(vae.named_parameters())

    def linear(name, states):
        return weights[f"{name}.weight"] @ states + weights[f"{name}.bias"]

    thetas, kls = [], []
    for counts, epsilon in zip(bag, noise, strict=True):
        hidden = softplus(linear("layers.1", softplus(linear("layers.0", torch.log(1 + counts)))))
        mean, sigma = linear("mean", hidden), linear("log_variance", hidden).exp().sqrt()
        powers = (mean + sigma * epsilon).exp()
        thetas.append(powers / powers.sum())
        kls.append(kl_divergence(Normal(mean, sigma), Normal(0.0, 1.0)).sum())
    scores = torch.stack(thetas) @ weights["decoder.weight"].T
    if training:
        centre, spread = scores.mean(0), scores.var(0, unbiased=False)
    else:
        centre, spread = vae.norm.running_mean, vae.norm.running_var
    scores = (scores - centre) / (spread + 1e-3).sqrt() + weights["norm.bias"]
    powers = torch.arange(1.0, vae.words + 1) * scores.exp()  # how often each word occurs
    probabilities = powers / powers.sum(1, keepdim=True)
    return (bag * probabilities.log()).sum(1), torch.stack(kls)


@pytest.mark.parametrize("training", [True, False])
def test_the_bound_is_its_formula(training):
    vae = small_vae().train(training)
    bag = counted(ROWS, WORDS)
    noise = torch.randn(len(ROWS), 3, generator=generator(4)).double()
    bound = vae.elbo(bag, generator(4))
    torch.testing.assert_close(bound, slow_elbo(vae, bag, noise, training), rtol=1e-6, atol=1e-6)
    assert bound[0][4] == 0  # no word to explain


def test_pretraining_is_its_formula():
    """Adam on β KL - log p(bag | θ), with each part by the slow copy."""
    vae, steps = small_vae(), 6
    copied = copy.deepcopy(vae)
    history = pretrain(vae, TEXTS, steps, batch_size=2, learning_rate=0.1, seed=3)

    draws, bag, found = generator(3), counted(ROWS, WORDS), []
    optimizer = torch.optim.Adam([p for p in copied.parameters() if p.requires_grad], lr=0.1)
    for step in range(steps):
        if step % 2 == 0:
            order = torch.randperm(5, generator=draws)
        batch = order[:3] if step % 2 == 0 else order[3:]
        noise = torch.randn(len(batch), 3, generator=draws).double()
        likelihood, kl = slow_elbo(copied, bag[batch], noise, training=True)
        beta = min(1.0, step / (steps / 2))
        optimizer.zero_grad()
        (beta * kl - likelihood).mean().backward()
        optimizer.step()
        found.append((likelihood.sum().item(), kl.sum().item()))
    for name, parameter in copied.named_parameters():
        torch.testing.assert_close(vae.get_parameter(name), parameter, rtol=1e-4, atol=1e-5)
    means = np.array(found).reshape(3, 2, 2).sum(1) / 5  # of each pass
    assert [list(row) for row in history] == [["reconstruction", "kl"]] * 3
    np.testing.assert_allclose([list(row.values()) for row in history], means, rtol=1e-4)


TOPIC_WORDS = 120


def topical(texts, seed):
    """Texts of 20 words of two topics: 65 % are from the half of the words that the topic prefers."""
    rng, rows = random.Random(seed), []
    for text in range(texts):
        weights = [
            0.65 if (word < TOPIC_WORDS // 2) == (text % 2 == 0) else 0.35 for word in range(TOPIC_WORDS)
        ]
        rows.append(rng.choices(range(2, 2 + TOPIC_WORDS), weights, k=20))
    return Texts(Ragged.of(rows), torch.arange(texts) % 2)


@pytest.fixture(scope="module")
def untrained():
    torch.manual_seed(0)
    return BagOfWordsVAE(torch.ones(TOPIC_WORDS), topics=8)


@pytest.fixture(scope="module")
def pretrained(untrained):
    vae = copy.deepcopy(untrained)
    pretrain(vae, topical(1_000, seed=1).ids, 800, 64, learning_rate=5e-3)
    return vae


def classified(vae, seed=0, epochs=40):
    """A classifier that learns from five labels of each topic, and how it does."""
    torch.manual_seed(seed)
    model = VampireClassifier(copy.deepcopy(vae), classes=2, hidden=8, dropout=0.2)
    splits = Splits(topical(10, seed=2), topical(100, seed=3), topical(400, seed=4))
    return model, train(model, splits, Recipe(epochs, 32, 1e-2), seed)


def test_pretraining_separates_topics(pretrained, untrained):
    """Five labels of each are enough with it, and not without."""
    with_it, without = (
        sum(classified(vae, seed)[1].test.accuracy for seed in range(3)) / 3
        for vae in (pretrained, untrained)
    )
    assert with_it > without + 10
    assert with_it > 80


def test_the_mixture_is_its_formula(pretrained):
    model = VampireClassifier(copy.deepcopy(pretrained), 2, hidden=4).double().eval()
    with torch.no_grad():
        model.mixing.copy_(torch.tensor([0.3, -1.0, 0.7]))
        model.scale.fill_(1.7)
    rows = topical(6, seed=9).ids.to_lists()
    mixed = torch.zeros(6, 8, dtype=torch.float64)
    powers = [math.exp(weight) for weight in (0.3, -1.0, 0.7)]
    for layer, power in zip(model.vae.features(counted(rows, TOPIC_WORDS)), powers, strict=True):
        centred = layer - layer.mean(1, keepdim=True)
        normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        mixed += 1.7 * power / sum(powers) * normed
    found = model(torch.tensor(rows), torch.full((6,), 20))
    torch.testing.assert_close(found, model.classifier(mixed))


def test_padding_and_other_texts_change_no_logits(pretrained):
    model = VampireClassifier(copy.deepcopy(pretrained), 3).double().eval()
    expected = model(IDS, LENGTHS)
    assert expected.shape == (5, 3)
    order = torch.tensor([3, 0, 4, 2, 1])
    longer = pad(IDS[order], (0, 3), value=PADDING_INDEX)
    torch.testing.assert_close(model(longer, LENGTHS[order]), expected[order])
    alone = torch.cat([model(IDS[i : i + 1], LENGTHS[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(alone, expected)


def test_the_vae_is_frozen(pretrained):
    model, outcome = classified(pretrained, epochs=3)
    for name, value in pretrained.state_dict().items():
        assert torch.equal(model.vae.state_dict()[name], value), name
        assert torch.equal(outcome.weights[f"vae.{name}"], value), name
    learnt = {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}
    assert learnt == {"mixing", "scale", "classifier"}
    model.train()
    assert model.training
    assert model.classifier.training
    assert not any(module.training for module in model.vae.modules())


@pytest.mark.parametrize(
    ("topics", "rows", "options", "message"),
    [
        (1, ROWS, {}, "at least 2 topics, not 1"),
        (3, [[2, 3]], {}, "at least 2 unlabelled texts, not 1"),
        (3, ROWS, {"learning_rate": 1e30, "steps": 5}, "no longer a number after . steps; lower"),
    ],
)
def test_what_cannot_be_learnt_from_is_told(topics, rows, options, message):
    with pytest.raises(InputError, match=message):
        pretrain(small_vae(topics), Ragged.of(rows), **options)
