"""VAMPIRE (thesis §1.10.2) against slow copies of its formulas, and what each of its steps is for."""

import copy

import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import pad, softplus
from torch.nn.utils.rnn import pad_sequence

from whenpool import InputError
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX, Ragged
from whenpool.fewshot.vampire import BagOfWordsVAE, VampireClassifier, bag_vocabulary, pretrain

WORDS = 7
ROWS = [[2, 3, 3, 8], [5], [0, 4, 4, 4, 2, 6], [7, 8], [0]]
TEXTS, LABELS = Ragged.of(ROWS), torch.tensor([0, 1, 0, 1, 1])


def counted(rows):
    return torch.tensor([[row.count(2 + word) for word in range(WORDS)] for row in rows]).double()


def small_vae(topics=3):
    torch.manual_seed(0)
    return BagOfWordsVAE(torch.arange(1.0, WORDS + 1), topics).double()


def used_vae():
    """Whose running statistics are no longer those it began with."""
    vae = small_vae(topics=8)
    pretrain(vae, TEXTS, 6, batch_size=2)
    return vae.float()


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
    with pytest.raises(InputError, match="5 unlabelled texts are too few .* 0 words .* more texts"):
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
    return (bag * (powers / powers.sum(1, keepdim=True)).log()).sum(1), torch.stack(kls)


@pytest.mark.parametrize("training", [True, False])
def test_the_bound_is_its_formula(training):
    vae, bag = small_vae().train(training), counted(ROWS)
    noise = torch.randn(len(ROWS), 3, generator=torch.Generator().manual_seed(4)).double()
    bound = vae.elbo(bag, torch.Generator().manual_seed(4))
    torch.testing.assert_close(bound, slow_elbo(vae, bag, noise, training), rtol=1e-6, atol=1e-6)
    assert bound[0][4] == 0  # no word to explain


def test_pretraining_is_its_formula():
    """Adam on β KL - log p(bag | θ), with each part by the slow copy."""
    vae, steps = small_vae(), 6
    copied = copy.deepcopy(vae)
    pretrain(vae, TEXTS, steps, batch_size=2, learning_rate=0.1, seed=3)

    draws, bag = torch.Generator().manual_seed(3), counted(ROWS)
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
    for name, parameter in copied.named_parameters():
        torch.testing.assert_close(vae.get_parameter(name), parameter, rtol=1e-4, atol=1e-5)


def test_the_mixture_is_its_formula():
    model = VampireClassifier(used_vae(), 2, hidden=4).double().eval()
    weights = torch.tensor([0.3, -1.0, 0.7]).double()
    model.mixing.data.copy_(weights)
    model.scale.data.fill_(1.7)
    ids = pad_sequence([torch.tensor(row) for row in ROWS], True, PADDING_INDEX)
    found = model(pad(ids, (0, 3), value=PADDING_INDEX), TEXTS.lengths)
    for row, logits in zip(ROWS, found, strict=True):  # each alone
        mixed = 0.0
        for (layer,), share in zip(model.vae.features(counted([row])), weights.softmax(0), strict=True):
            centred = layer - layer.mean()
            mixed += 1.7 * share * centred / (centred.square().mean() + 1e-5).sqrt()
        torch.testing.assert_close(logits, model.classifier(mixed))


def test_what_cannot_be_learnt_from_is_told():
    with pytest.raises(InputError, match="no longer a number after . steps"):
        pretrain(small_vae(), Ragged.of(ROWS), steps=5, learning_rate=1e30)
