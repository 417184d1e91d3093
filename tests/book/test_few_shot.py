"""Few-shot runs: which texts they read, other versions of unlabelled ones, what is stored and
refused; and VAMPIRE (thesis §1.10.2) against slow copies of its formulas."""

import copy
import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from called import refused
from small_models import close
from test_golden import FEW_SHOTS
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import pad, softplus
from torch.nn.utils.rnn import pad_sequence

from paper.fewshot.selection import TfIdfReplacement, load_paraphrases, select
from paper.fewshot.vampire import BagOfWordsVAE, BagVocabulary, VampireClassifier, pretrain
from paper.runs.kinds.few_shot import read
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX, Ragged
from whenpool.corpora.corpus import Corpus, Split

UDA = FEW_SHOTS["uda"]
TOLD = (
    "the film is a dull film and the plot is thin",
    "the plot of the play is a joy",
    "a joy of a film",
)
SENTENCES = [text.split() for text in (*TOLD, "the end")]


def item(text, *paraphrases):
    return json.dumps({"text": text, "paraphrases": paraphrases})


GOOD = [
    item("One film.", "a", "b", "c"),
    item("Ünder\ntwo lines", "d", "e"),
    item("three", "f", "g"),
]


def test_fewer_labels_are_part_of_more_and_a_seed_changes_the_labelled_texts_alone():
    split = Split([f"other {number}" for number in range(4)], [0, 1, 0, 1])
    train = Split([f"text {number}" for number in range(100)], [0, 1, 0, 0, 1] * 20)
    corpus = Corpus(train, split, split, ("a", "b"), name="mine")
    few, more, other = (
        select(corpus, count, seed, 30, validation=2, test=3)
        for count, seed in ((3, 0), (12, 0), (3, 1))
    )
    assert Counter(more.labelled.labels) == {0: 12, 1: 12}
    assert {*few.labelled} < {*more.labelled} < {*train}
    assert len({*few.unlabelled} - {*more.labelled.texts}) == 30
    assert few.unlabelled == more.unlabelled
    assert {*few.labelled.texts} != {*other.labelled.texts}
    for chosen in (few, other):
        assert Counter(chosen.labelled.labels) == {0: 3, 1: 3}
        assert (chosen.validation, chosen.test) == (split[:2], split[:3])


def test_a_run_that_needs_unlabelled_texts_and_has_none_says_so(shared):
    refused(
        "needs unlabelled texts, but all training texts",
        replace(UDA, corpus=UDA.corpus.replace("train=80", "train=6")).execute,
        shared,
    )


def test_paraphrases_take_the_place_of_replaced_words(shared, tmp_path):
    _, chosen = read(UDA, shared)
    file = tmp_path / "some.jsonl"
    run = replace(UDA, paraphrases=str(file))
    file.write_text(item("another", "a text"))
    refused(r"some\.jsonl", run.execute, shared)
    file.write_text("\n".join(item(text, text.upper(), "other") for text in chosen.unlabelled))
    row = shared.store.get(run.execute(shared))
    assert row["identity"]["run"]["paraphrases"] == row["run"]["paraphrases"] == "some.jsonl"
    assert row["identity"]["data"]["paraphrases"]


@pytest.mark.parametrize("p", [0.1, 0.7, 1.0])
def test_words_go_the_likelier_the_less_they_say_about_their_text(p):
    replacement, N = TfIdfReplacement(SENTENCES, p), len(SENTENCES)
    for text in SENTENCES:
        idf = [math.log(N / sum(word in other for other in SENTENCES)) for word in text]
        scores = np.array([text.count(word) / len(text) for word in text]) * idf
        room = scores.max() - scores
        expected = np.minimum(p * room / room.mean(), 1)
        assert replacement.probabilities(text) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("line", ["no json", '{"text": "three"}', item("three")])
def test_paraphrases_are_as_many_of_each_text_and_lines_that_have_none_are_named(tmp_path, line):
    file = tmp_path / "paraphrases.jsonl"
    file.write_text("\n".join([*GOOD, "", "  "]))
    found = load_paraphrases(file, ["three", "Ünder\ntwo lines", "One film.", "three"])
    assert found == [["f", "g"], ["d", "e"], ["a", "b"], ["f", "g"]]
    file.write_text("\n".join([GOOD[0], "", line]))
    refused(r"paraphrases.jsonl, line 3: expected {\"text\"", load_paraphrases, file, ["One film."])


WORDS = 7
ROWS = [[2, 3, 3, 8], [5], [0, 4, 4, 4, 2, 6], [7, 8], [0]]
TEXTS = Ragged.of(ROWS)


def counted(rows):
    return torch.tensor([[row.count(2 + word) for word in range(WORDS)] for row in rows]).double()


def small_vae(topics=3):
    torch.manual_seed(0)
    return BagOfWordsVAE(torch.arange(1.0, WORDS + 1), topics).double()


def test_a_vocabulary_has_frequent_words_first():
    texts = ["fish fish swim 1990 !", "fish jump !", "birds swim jump !", "the birds fly !"] * 3
    texts += ["swim swim", "a b c d e f g h i", "k l m n", "o p q r"]
    # 16 texts: each of these is in 3 to 8; "1990" and "!" hold no letter, the rest is too rare
    vocabulary = BagVocabulary(texts)
    assert [*vocabulary.numbers] == ["fish", "swim", "birds", "jump", "fly", "the"]
    assert vocabulary.counts.tolist() == [9, 8, 6, 6, 3, 3]
    few = BagVocabulary(["Fish swim .", "Fish swim", "fish swim", "a", "b", "c"])
    rows = few.number(["Swim, FISH, swim!", "birds", ""]).to_lists()
    assert rows == [[3, 2, 3], [UNKNOWN_INDEX], [UNKNOWN_INDEX]]
    refused(
        "5 unlabelled texts are too few .* 0 words .* more texts",
        BagVocabulary,
        ["always the same"] * 5,
    )


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


def test_in_evaluation_the_bound_is_its_formula():
    vae, bag = small_vae().eval(), counted(ROWS)
    noise = torch.randn(len(ROWS), 3, generator=torch.manual_seed(4)).double()
    bound = vae.elbo(bag, torch.manual_seed(4))
    close(bound, slow_elbo(vae, bag, noise, training=False), atol=1e-6, rtol=1e-6)
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
        close(vae.get_parameter(name), parameter, atol=1e-5, rtol=1e-4)


def test_the_mixture_is_its_formula():
    vae = small_vae(topics=8)
    pretrain(vae, TEXTS, 6, batch_size=2)  # so that running statistics are not those of the start
    model = VampireClassifier(vae.float(), 2, hidden=4).double().eval()
    weights = torch.tensor([0.3, -1.0, 0.7]).double()
    model.mixing.data.copy_(weights)
    model.scale.data.fill_(1.7)
    ids = pad_sequence([torch.tensor(row) for row in ROWS], True, PADDING_INDEX)
    found = model(pad(ids, (0, 3), value=PADDING_INDEX), TEXTS.lengths)
    for row, logits in zip(ROWS, found, strict=True):  # each alone
        mixed = 0.0
        for (layer,), share in zip(
            model.vae.features(counted([row])), weights.softmax(0), strict=True
        ):
            centred = layer - layer.mean()
            mixed += 1.7 * share * centred / (centred.square().mean() + 1e-5).sqrt()
        close(logits, model.classifier(mixed))
