"""Taggers: the model, its training, what gradients do in it, the sentences it is tried on; and tagging runs:
what is planned, executed, stored, recorded, shown, and decided by them."""

import math
import re
from dataclasses import asdict, fields, replace

import pandas as pd
import pytest
import torch
from made_up import AFTER, runs
from torch.nn.functional import cross_entropy

from whenpool import InputError, SequenceTagger
from whenpool.book.progress import outcome_table
from whenpool.book.publish import export
from whenpool.book.report.claims import by_runs, claims
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX
from whenpool.corpora.numbering import UNKNOWN_TAG, number, shape, spelled, suffix
from whenpool.corpora.tagged import SentenceGrammar, Tagged, TaggedCorpus, make_tagged
from whenpool.corpora.tokens import WordVectors
from whenpool.models.sequence_tagger import Spelling
from whenpool.probes import tagging_gradient_norms
from whenpool.runs.compute import standing
from whenpool.runs.engine import read_ahead
from whenpool.runs.kinds.tagging import PLACES, TAGGING_PROTOCOL, Tagging
from whenpool.runs.plans.chapters import SMALL_TAGGERS, plan
from whenpool.runs.request import Choice
from whenpool.runs.run import VECTORS, Place, key
from whenpool.runs.store import Store, key_of
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


def corpus(train, test, entities=False):
    def read(texts):
        return [Tagged(*zip(*(word.split("/") for word in text.split()), strict=True)) for text in texts]

    return TaggedCorpus(read(train), read(test), read(test), entities)


def test_words_are_known_by_themselves_their_suffix_and_their_shape():
    numbered = number(corpus(["The/D walking/V 12/N the/D"], ["talking/V Zork/X the/D"]))
    train, test = numbered.train.ids.flat.tolist(), numbered.test.ids.flat.tolist()
    assert train[0][0] == train[3][0]  # in lower case
    assert train[0][2] != train[3][2]  # but for the shape
    assert test[0][0] == UNKNOWN_INDEX
    assert test[0][1:] == [train[1][1], train[1][2]]
    assert test[1] == [UNKNOWN_INDEX, UNKNOWN_INDEX, train[0][2]]
    assert min(min(row) for row in train) > PADDING_INDEX
    verb, determiner = map(numbered.tags.index, "VD")
    assert numbered.test.labels.tolist() == [verb, UNKNOWN_TAG, determiner]
    assert numbered.rare.sum() == 2
    assert numbered.seen.sum() == 3
    assert (suffix("Walking"), shape("McDonald's"), shape("3.14")) == ("ing", "XxXx.x", "d.d")


def test_a_word_with_a_vector_is_known_though_training_lacks_it():
    vectors = WordVectors(["talking", "nowhere"], torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    numbered = number(corpus(["walking/V"], ["talking/V zork/V"]), False, vectors)
    ids = numbered.test.ids.flat[:, 0]
    assert numbered.vectors[ids[0]].tolist() == [1.0, 2.0]
    assert ids[1] == UNKNOWN_INDEX
    assert len(numbered.vectors) == 4  # none for what no sentence has
    assert not numbered.seen[ids[0]]
    assert not numbered.rare[ids[0]]


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
        right = label(model, numbered.test).tags == numbered.test.labels
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
    splits = ([Tagged((word,), ("X",))] for word in ("Aa", "ab", "A" * 30))
    corpus = TaggedCorpus(*splits, entities=False)
    forms, letters = spelled(corpus)
    assert letters[forms["Aa"]].tolist() == [2, 3] + [0] * 18
    assert letters[forms["ab"]].tolist() == [3, 1] + [0] * 18
    assert letters[forms["A" * 30]].tolist() == [2] * 20
    with pytest.raises(InputError, match="each written form has at least one letter"):
        Spelling(torch.zeros(2, 3, dtype=torch.int64), 5)


TINY = Tagging(
    "generated:train=40,validation=12,test=20,clauses=2", embedding_size=6, hidden_size=5,
    feature_size=3, epochs=2, learning_rate=1e-2, profiled=4,
)  # fmt: skip
RUNS = [
    TINY,
    replace(TINY, bidirectional=False),
    replace(TINY, encoding="io"),
    replace(TINY, cell="elman", features=False),
    replace(TINY, corpus=TINY.corpus + ",task=pos"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagging")
    return Place(Store(folder / "store"), folder / "data", folder / "cache")


@pytest.fixture(scope="module")
def executed(place):
    for run in RUNS:
        run.execute(place)
    return place


def test_every_run_leaves_a_row_that_gives_it_back(executed):
    table = executed.store.current("tagging")
    assert len(table) == len(RUNS)
    for row in table.to_dict("records"):
        run = Tagging.of_row(row)
        assert run in RUNS
        assert key(run, executed) == row["key"]
        assert 0 <= row["test_accuracy"] <= 100
        assert (row["train_texts"], row["validation_texts"], row["test_texts"]) == (40, 12, 20)
        assert row["later_words"] > 0
        assert row["unseen_words"] > 0
        assert row["majority_accuracy"] < row["lexicon_accuracy"] < 100
        assert (row["entity_f1"] == row["entity_f1"]) == row["entities"] == ("pos" not in run.corpus)
        kinds = ("right", "boundary", "mistyped", "spurious")
        if row["entities"]:
            assert sum(row[f"entities_{kind}"] for kind in kinds) == row["entities_predicted"]
    assert all(executed.store.rows(kind).empty for kind in ("training", "probe", "few-shot"))


def test_epochs_and_gradients_are_stored_apart(executed):
    epochs, places = executed.store.history("tagging"), executed.store.history("tagging", "gradients")
    assert executed.store.history("training").empty
    assert executed.store.history("few-shot").empty
    assert epochs.groupby("key").size().eq(2).all()
    assert epochs["train_loss"].notna().all()
    assert "position" not in epochs
    assert places.groupby(["key", "stage"]).size().eq(PLACES).all()
    one_way = places[places["key"] == key(RUNS[1], executed)]
    behind = one_way[one_way["position"] >= PLACES * 2 // 3]
    assert behind["single"].eq(0).all()
    assert behind["mean"].gt(0).all()


def test_what_cannot_be_trained_is_told(place):
    with pytest.raises(InputError, match=r"generated mark no entities .* leave encoding out"):
        replace(TINY, corpus=TINY.corpus + ",task=pos", encoding="io").execute(place)
    with pytest.raises(InputError, match="cell 'rnn' is unknown; choose one of lstm"):
        replace(TINY, cell="rnn").execute(place)
    with pytest.raises(InputError, match="word vectors none.txt are not in"):
        replace(TINY, vectors="none").execute(place)
    assert standing([replace(TINY, corpus="ud_ewt")], place).absent


def test_files_of_the_readers_own_are_planned_trained_and_noted(place, tmp_path):
    text = "\n\n".join(f"word{number} O\nFred I-PER\nSue B-PER" for number in range(60))
    (tmp_path / "mine.conll").write_text(text)
    (tmp_path / "test.conll").write_text("Fred I-PER\nParis I-LOC\n")
    file = f"{tmp_path / 'mine.conll'}:dev=test.conll,test=test.conll"
    runs = plan("sequence_labelling", Choice("smoke", (file,)), place)
    assert [(run.bidirectional, run.filters) for run in runs] == [(True, 0), (False, 0), (True, 50)]
    assert [run.cost for run in runs] == [180.0] * 3  # a line of the file is a word, and one epoch
    rows = [place.store.get(run.execute(place)) for run in runs]
    row = rows[0]
    assert rows[2]["result"]["parameters"] > row["result"]["parameters"]
    for line in outcome_table(runs, place).splitlines()[1:]:
        assert re.search(r" F1 in % +\d+\.\d +1 +LOC \d+\.\d, PER \d+\.\d$", line)
    assert row["result"]["corpus_notes"] == (
        "mine.conll is IOB1: 60 of its 120 entities begin with I-, which are read as entities. "
        "1 test words have a tag that no training word has: they count as errors."
    )
    assert " ".join(read_ahead(runs, place)) == row["result"]["corpus_notes"]  # told before any work


def made_up(corpus, **values):
    """A row of `Store.rows` of a run that nobody made."""
    names = {field.name for field in fields(Tagging)}
    changes = {name: value for name, value in values.items() if name in names}
    run = Tagging(corpus, **({"vectors": VECTORS[0]} | SMALL_TAGGERS[corpus] | changes))
    result = {"test_accuracy": 93.0, "gradient_evenness": 0.9, "gradient_reach": 1e-5}
    if corpus == "wnut17":
        result |= {"entities_predicted": 50, "entities_boundary": 10}
    about = {"key": key_of(asdict(run)), "began": AFTER, "corpus_complete": True}
    return about | asdict(run) | result | values


def record():
    rows = []
    for seed in range(3):
        rows += [made_up("ud_ewt", seed=seed, test_accuracy=95.0 + seed / 10)]
        rows += [made_up("ud_ewt", seed=seed, bidirectional=False, test_accuracy=93.5)]
        rows += [made_up("wnut17", seed=seed, entity_f1=26.0 + seed)]
        rows += [made_up("wnut17", seed=seed, encoding="io", entity_f1=25.5 + seed)]
        rows += [made_up("wnut17", seed=seed, bidirectional=False, entity_f1=21.0)]
    return pd.DataFrame(rows)


def test_runs_of_record_are_written_once_and_read_without_their_data(executed, tmp_path):
    assert export("tagging", executed, tmp_path / "out") == 0
    row = executed.store.get(key(TINY, executed))
    run = Tagging("wnut17", vectors="wiki-reviews.100d", **SMALL_TAGGERS["wnut17"])
    data = {"corpus": "a", "vectors": "b"}
    identity = {"run": run.changed(), "data": data, "protocol": TAGGING_PROTOCOL}
    result = row["result"] | {"corpus_complete": True}
    place = Place(Store(tmp_path / "store"), tmp_path, tmp_path)
    name = place.store.put(identity, asdict(run), result, row["provenance"], row["history"])
    assert export("tagging", place, tmp_path / "out") == 1
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert written == {f"taggings{name}.csv" for name in ("", "_history", "_gradients", "_types")}
    again = Place(Store(tmp_path / "empty", tmp_path / "out"), tmp_path, tmp_path)
    assert standing([run], again).elsewhere == {run}
    assert list(again.store.rows("tagging")["key"]) == [name]


def test_claims_are_decided_by_runs_of_three_seeds():
    own = [claim for claim in claims() if claim.chapter == "sequence_labelling"]
    assert {claim.scales for claim in own} == {("compact",)}
    rows = record()
    found = {claim.id: by_runs(claim, runs(taggings=rows), "compact") for claim in own}
    undecided = {"encodings-differ-little": "undecided"}  # 26 to 28 against 25.5 to 27.5
    verdicts = {name: finding.verdict for name, finding in found.items()}
    assert verdicts == dict.fromkeys(found, "holds") | undecided
    assert {name: round(finding.value, 6) for name, finding in found.items()} | {
        "both-directions-help-pos": 1.6, "both-directions-help-entities": 6, "encodings-differ-little": 0.5,
        "boundary-errors-are-common": 20, "accuracy-over-words-flatters": 66,
    } == {name: round(finding.value, 6) for name, finding in found.items()}  # fmt: skip
    few = runs(taggings=rows[rows["seed"] < 2])
    assert {by_runs(claim, few, "compact").verdict[:7] for claim in own} == {"so far "}
