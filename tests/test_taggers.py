"""Taggers: the model, its training, what gradients do in it, and the sentences it is tried on."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from whenpool import InputError, SequenceTagger
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX
from whenpool.corpora.numbering import UNKNOWN_TAG, number, shape, spelled, suffix
from whenpool.corpora.tagged import SentenceGrammar, Tagged, TaggedCorpus, make_tagged
from whenpool.corpora.tokens import WordVectors
from whenpool.models.sequence_tagger import Spelling
from whenpool.probes import tagging_gradient_norms
from whenpool.training.loop import DivergenceError, Recipe
from whenpool.training.taggers import label, train_tagger

LENGTHS = torch.tensor([7, 4, 1])


def tagger(**given):
    torch.manual_seed(0)
    sizes = {"embedding_size": 6, "hidden_size": 5, "feature_size": 3} | given
    return SequenceTagger(30, 4, **sizes).double()


def batch(features=0):
    generator = torch.Generator().manual_seed(1)
    shape = (3, 7, 1 + features) if features else (3, 7)
    ids = torch.randint(2, 20, shape, generator=generator)
    return ids, LENGTHS, torch.randint(4, (3, 7), generator=generator)


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_padding_and_the_order_of_a_batch_change_nothing(cell, bidirectional):
    model = tagger(cell=cell, bidirectional=bidirectional)
    ids, lengths, tags = batch()
    logits, loss = model(ids, lengths), model.loss(ids, lengths, tags)
    wider = torch.cat([ids, torch.full((3, 5), 9)], 1)
    wider_tags = torch.cat([tags, torch.zeros(3, 5, dtype=torch.int64)], 1)
    assert torch.allclose(model.loss(wider, lengths, wider_tags), loss)
    order = torch.tensor([2, 0, 1])
    assert torch.allclose(model.loss(ids[order], lengths[order], tags[order]), loss)
    again = model(ids[order], lengths[order])
    alone = [model(ids[row : row + 1, :n], lengths[row : row + 1]) for row, n in enumerate([7, 4, 1])]
    for row, n in enumerate([7, 4, 1]):
        torch.testing.assert_close(alone[row][0], logits[row, :n])
        torch.testing.assert_close(again[order.tolist().index(row), :n], logits[row, :n])
    words = [
        cross_entropy(one[0], tags[row, : one.shape[1]]) * one.shape[1] for row, one in enumerate(alone)
    ]
    torch.testing.assert_close(loss, sum(words) / 12)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dropout": 1.0}, "dropout is a rate in"),
        ({"embedding_size": 0}, "are at least 1 each"),
        ({"vectors": torch.zeros(3, 6)}, "the shape .3, 6., the model's embedding .30, 6."),
        ({"cell": "none"}, "cell 'none' is unknown"),
    ],
)  # fmt: skip
def test_a_tagger_that_cannot_be_is_refused(given, says):
    with pytest.raises(InputError, match=says):
        tagger(**given)


# gradients


def one_by_one(model, ids, length, tags, word):
    """‖∂L/∂h_t‖ by a change of each state that is carried on, in float64: the recurrence by hand."""
    inputs = model.embed(ids[:length].unsqueeze(0))[0]
    (cell,) = model.encoder.layers[0]
    states, h = [], torch.zeros(1, model.encoder.hidden_size, dtype=torch.float64)
    for x in inputs:
        gates = cell.weight_ih_l0 @ x + cell.bias_ih_l0 + cell.weight_hh_l0 @ h[0] + cell.bias_hh_l0
        h = torch.tanh(gates).unsqueeze(0)
        h.retain_grad()
        states.append(h)
    losses = cross_entropy(model.classifier(torch.cat(states)), tags[:length], reduction="none")
    (losses.sum() if word is None else losses[word]).backward()
    norms = [0.0 if h.grad is None else float(h.grad.norm()) for h in states]
    model.zero_grad()
    return norms


@pytest.mark.parametrize("word", [None, 3])
def test_gradients_are_those_of_a_loop_by_hand(word):
    model = tagger(cell="elman", bidirectional=False)
    ids, _, tags = batch()
    lengths = torch.tensor([7, 4, 5])
    words = None if word is None else torch.full((3,), word)
    norms = tagging_gradient_norms(model, ids, lengths, tags, words)
    for row, n in enumerate(lengths.tolist()):
        expected = one_by_one(model, ids[row], n, tags[row], word)
        assert norms[row, :n].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert norms[row, n:].isnan().all()
        assert word is None or norms[row, word + 1 : n].eq(0).all()  # no way back from the future


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda i, n, t: (i, n, t[:, :3]), "tags have the shape"),
        (lambda i, n, t: (i, n + 1, t), "text 0 has the length 8; lengths are between 1 and 7"),
        (lambda i, n, t: (i, n[:2], t), "a batch of 3 texts needs 3 lengths"),
        (lambda i, n, t: (i, n, t + 4), "the model has 4"),
        (lambda i, n, t: (i, n, t, n), "counts from 0"),
        (lambda i, n, t: (i[0], n, t), r"ids are \(B, T\)"),
    ],
)
def test_batches_that_do_not_fit_are_refused(change, says):
    with pytest.raises(InputError, match=says):
        tagging_gradient_norms(tagger(), *change(*batch()))


# numbers


def corpus(train, test, entities=False):
    def read(texts):
        return [Tagged(*zip(*(word.split("/") for word in text.split()), strict=True)) for text in texts]

    return TaggedCorpus(read(train), read(test), read(test), entities)


def test_words_are_known_by_themselves_their_suffix_and_their_shape():
    numbered = number(corpus(["The/D walking/V 12/N the/D"], ["talking/V Zork/X the/D"]))
    train, test = numbered.train.ids.tolist(), numbered.test.ids.tolist()
    assert train[0][0] == train[3][0]  # in lower case
    assert train[0][2] != train[3][2]  # but for the shape
    assert test[0][0] == UNKNOWN_INDEX
    assert test[0][1:] == [train[1][1], train[1][2]]
    assert test[1] == [UNKNOWN_INDEX, UNKNOWN_INDEX, train[0][2]]
    assert min(min(row) for row in train) > PADDING_INDEX
    assert numbered.test.tags.tolist() == [
        numbered.tags.index("V"),
        UNKNOWN_TAG,
        numbered.tags.index("D"),
    ]
    assert numbered.rare.sum() == 2
    assert numbered.seen.sum() == 3
    assert (suffix("Walking"), shape("McDonald's"), shape("3.14")) == ("ing", "XxXx.x", "d.d")


def test_a_word_with_a_vector_is_known_though_training_lacks_it():
    vectors = WordVectors(["talking", "nowhere"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    numbered = number(corpus(["walking/V"], ["talking/V zork/V"]), False, vectors)
    ids = numbered.test.ids[:, 0]
    assert numbered.vectors[ids[0]].tolist() == [1.0, 2.0]
    assert ids[1] == UNKNOWN_INDEX
    assert len(numbered.vectors) == 4  # none for what no sentence has
    assert not numbered.seen[ids[0]]
    assert not numbered.rare[ids[0]]


# training

SMALL = SentenceGrammar(train=300, validation=40, test=150, clauses=2)


def small_tagger(numbered):
    words, *features = numbered.sizes
    return SequenceTagger(words, len(numbered.tags), features=features, hidden_size=8)


def trained(bidirectional, grammar=SMALL, **recipe):
    numbered = number(make_tagged(grammar))
    torch.manual_seed(0)
    model = SequenceTagger(
        numbered.sizes[0], len(numbered.tags), "lstm", 16, 24, 1, bidirectional,
        padding_index=PADDING_INDEX, features=numbered.sizes[1:], feature_size=6,
    )  # fmt: skip
    outcome = train_tagger(model, numbered, Recipe(**({"epochs": 6, "learning_rate": 1e-2} | recipe)), 0)
    return model, numbered, outcome


@pytest.mark.parametrize("task", ["entities", "pos"])
def test_only_who_reads_both_ways_knows_what_a_later_word_decides(task):
    grammar = SentenceGrammar(task, train=400, validation=40, test=200, clauses=2)
    found = {}
    for way in (True, False):
        model, numbered, outcome = trained(way, grammar)
        right = label(model, numbered.test).tags == numbered.test.tags
        found[way] = float(right[numbered.later].float().mean())
        assert outcome.test.accuracy == pytest.approx(100 * float(right.float().mean()))
        assert float(right[~numbered.later].float().mean()) > 0.9
    assert found[True] > 0.95
    assert 0.3 < found[False] < 0.7  # between two that are as likely


def test_the_best_epoch_is_kept_and_the_same_seed_gives_the_same():
    first, second = (trained(True, epochs=3) for _ in range(2))
    assert first[2].test == second[2].test
    best = first[2].history[first[2].best_epoch - 1].validation_accuracy
    assert best == max(epoch.validation_accuracy for epoch in first[2].history)
    assert label(first[0], first[1].validation).score.accuracy == best


def test_the_best_epoch_may_be_chosen_by_entities():
    numbered = number(make_tagged(SMALL))
    scores = iter([50.0, 20.0, 40.0])
    model = small_tagger(numbered)
    judge = lambda said: {"validation_entity_f1": next(scores)}  # noqa: E731
    outcome = train_tagger(model, numbered, Recipe(epochs=3), 0, judge=judge)
    assert outcome.best_epoch == 1
    assert [row["validation_entity_f1"] for row in outcome.history_rows()] == [50.0, 20.0, 40.0]


def test_a_tag_of_test_sentences_alone_is_an_error():
    numbered = number(corpus(["a/D b/V"] * 40, ["a/D b/V", "a/D b/X"]))
    model = small_tagger(numbered)
    outcome = train_tagger(model, numbered, Recipe(epochs=8, learning_rate=1e-2), 0)
    assert outcome.test.accuracy == 75
    assert math.isfinite(outcome.test.loss)


def test_a_loss_that_diverges_is_told():
    numbered = number(make_tagged(SMALL))
    model = small_tagger(numbered)
    with torch.no_grad():
        model.classifier.bias.fill_(math.nan)
    with pytest.raises(DivergenceError, match="the loss became nan in epoch 1"):
        train_tagger(model, numbered, Recipe(epochs=2), 0)


# generated sentences


@pytest.mark.parametrize("task", ["entities", "pos"])
def test_generated_sentences_are_those_of_their_seed(task):
    grammar = SentenceGrammar(task, train=60, validation=10, test=30)
    assert make_tagged(grammar) == make_tagged(grammar)
    assert make_tagged(grammar).train != make_tagged(SentenceGrammar(task, train=60, seed=1)).train
    corpus = make_tagged(grammar)
    assert [len(part) for part in corpus.splits.values()] == [60, 10, 30]
    assert {tag for part in corpus.splits.values() for s in part for tag in s.tags} == set(corpus.tags)
    assert all(s.words[-1] == "." for s in corpus.train)
    if task == "entities":
        assert all(tag[0] in "BIO" for tag in corpus.tags)
    names = {word for s in corpus.train for word in s.words}
    assert "Viktor" not in names
    assert any("Viktor" in s.words for s in make_tagged(SentenceGrammar()).test)


def test_letters_are_read_as_a_loop_over_words_reads_them():
    letters = torch.tensor([[1, 0, 0, 0], [1, 0, 0, 0], [2, 3, 0, 0], [3, 2, 4, 2]])
    torch.manual_seed(0)
    read = Spelling(letters, filters=5, letter_size=6).double()
    forms = torch.tensor([[2, 3, 2], [3, 0, 0]])
    weight, bias = read.convolution.weight, read.convolution.bias
    for row, sentence in zip(read(forms), forms.tolist(), strict=True):
        for value, form in zip(row, sentence, strict=True):
            rows = [read.embedding.weight[n] for n in letters[form].tolist() if n]
            around = [torch.zeros(6).double(), *rows, torch.zeros(6).double()]
            windows = (around[place : place + 3] for place in range(len(rows)))
            seen = [
                bias + sum(weight[:, :, i] @ letter for i, letter in enumerate(part)) for part in windows
            ]
            torch.testing.assert_close(value, torch.stack(seen).amax(0))


def test_a_tagger_learns_from_letters_alone():
    """Words that training has not, of which the first letter decides the tag."""

    def sentences(start, count):
        names = [f"{letter}{number}" for number in range(start, start + count) for letter in "ab"]
        return [Tagged((name,), (name[0].upper(),)) for name in names]

    corpus = TaggedCorpus(sentences(100, 60), sentences(200, 20), sentences(300, 20), entities=False)
    accuracies = []
    for spelling in (False, True):
        numbered = number(corpus, with_features=False, with_spelling=spelling)
        torch.manual_seed(0)
        model = SequenceTagger(
            numbered.sizes[0], 2, embedding_size=6, hidden_size=5, spelling=numbered.spelling, filters=8
        )
        accuracies.append(train_tagger(model, numbered, Recipe(10, 8, 1e-2), 0).test.accuracy)
    assert accuracies[0] < 80
    assert accuracies[1] == 100


def test_forms_of_all_splits_have_letters_and_unknown_ones_are_told_apart_from_padding():
    corpus = TaggedCorpus(
        [Tagged(("Aa",), ("X",))],
        [Tagged(("ab",), ("X",))],
        [Tagged(("A" * 30,), ("X",))],
        entities=False,
    )
    forms, letters = spelled(corpus)
    assert list(forms) == ["A" * 30, "Aa", "ab"]
    assert letters[forms["Aa"]].tolist() == [2, 3] + [0] * 18
    assert letters[forms["ab"]].tolist() == [3, 1] + [0] * 18
    assert letters[forms["A" * 30]].tolist() == [2] * 20
    with pytest.raises(InputError, match="each written form has at least one letter"):
        Spelling(torch.zeros(2, 3, dtype=torch.int64), 5)
