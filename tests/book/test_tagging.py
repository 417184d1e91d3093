"""Files of tagged words: what is read, what is refused, and how entities are counted; taggers: the
model, what gradients do in it; and tagging runs."""

import gzip
import re

import pytest
import torch
from called import refused
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import both_ways, close, norms_at, states_by_loop
from torch.nn.functional import cross_entropy, pad

from paper.chapters import plan
from paper.corpora import tagged
from paper.corpora.tagged import Tagged, entities, entity_scores, find_tagged, read_tagged
from paper.pages.progress import outcome_table
from paper.runs.compute import standing
from paper.runs.kinds.tagging import Tagging
from paper.runs.request import Request
from whenpool import SequenceTagger
from whenpool.models.sequence_tagger import Spelling
from whenpool.probes import tagging_gradient_norms

CONLLU = """\
# sent_id = 1
# text = I don't know.
1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_
3.1\tknow\tknow\tVERB\tVB\t_\t_\t_\t_\t_

# sent_id = 2
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""
COLUMNS = "Fred B-PER\nshowed O\n\nSue B-PER\n"
TAG = st.sampled_from(["O", "B-PER", "I-PER", "B-ORG", "I-ORG"])
ONE = ("one.conll", "Fred B-PER\n")
GUESSES = ("right", "boundary", "mistyped", "spurious")


def written(tmp_path, name, text):
    file = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return file


@pytest.mark.parametrize("name, end", [("a.conllu", "\n"), ("a.conllu.gz", "")])
def test_conllu_is_read_as_universal_dependencies_defines_it(tmp_path, name, end):
    first = Tagged(("I", "do", "n't"), ("PRON", "AUX", "PART"))
    sentences = read_tagged(written(tmp_path, name, CONLLU + end))
    assert sentences == [first, Tagged(("Yes",), ("INTJ",))]


@pytest.mark.parametrize("name", ["a.conll", "a.txt.gz"])
@pytest.mark.parametrize(
    "text",
    [
        COLUMNS.replace(" ", "\t").replace("\n\n", "\n\t\n"),  # as WNUT's training file
        "\ufeff" + COLUMNS.replace("\n", "\r\n"),
        "-DOCSTART- -X-\n\n" + COLUMNS,
        COLUMNS.replace(" ", " NN x "),  # as CoNLL 2003: the first column and the last
    ],
)
def test_columns_are_words_and_tags(tmp_path, name, text):
    sentences = read_tagged(written(tmp_path, name, text))
    assert [*map(list, sentences)] == [[("Fred", "B-PER"), ("showed", "O")], [("Sue", "B-PER")]]


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.lists(st.tuples(TAG, TAG), max_size=9), min_size=1, max_size=4))
def test_scores_are_those_of_seqeval_and_agree_with_the_counts(pairs):
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as theirs

    true, answers = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    scores = entity_scores(true, answers)
    overall = theirs(true, answers, average="micro", zero_division=0)[:3]
    rates = [scores[f"entity_{name}"] for name in ("precision", "recall", "f1")]
    assert rates == pytest.approx([100 * float(rate) for rate in overall])
    assert sum(scores[f"entities_{kind}"] for kind in GUESSES) == scores["entities_predicted"]


def test_a_file_alone_is_split_and_others_may_be_named(tmp_path):
    many = "\n\n".join(f"word{number} O\nFred I-PER" for number in range(60))
    file = written(tmp_path, "mine.conll", many)
    corpus = find_tagged(str(file), tmp_path)
    assert sum(map(len, corpus.splits.values())) == 60
    assert (len(corpus.train) > 30, corpus.has_entities, corpus.complete) == (True, True, False)
    assert corpus.notes == ("mine.conll was split by a hash of each sentence.",)
    for name in ("dev", "test"):
        written(tmp_path, f"{name}.conll", "Sue B-PER\nHuang I-PER\n\nSue I-PER\n")
    corpus = find_tagged(f"{file}:dev=dev.conll,test=test.conll", tmp_path)
    assert [len(part) for part in corpus.splits.values()] == [60, 2, 2]
    assert corpus.notes == ()


@pytest.mark.parametrize(
    "file, text, name, says",
    [
        ("a.conll", "Fred B-PER\nshowed\n", "{}", "a.conll, line 2 has not a word and its tag"),
        ("a.conll", "\n \n\t\n", "{}", "a.conll has no sentence"),
        ("a.conll", b"a O\nb\xff O\n", "{}", "a.conll, line 2 is not UTF-8 text"),
        ("a.conllu", "1\tI\tPRON\n", "{}", "a.conllu, line 1 has not ten columns"),
        (
            *ONE,
            "nowhere.conllu",
            "'nowhere.conllu': nowhere.conllu is not in .; give generated, ud_ewt",
        ),
        (*ONE, "generated:task=ner", "task 'ner' is unknown; choose one of entities, pos"),
        (*ONE, "ud_ewt", "en_ewt-ud-train.conllu is not in"),
        (
            *ONE,
            "{}:dev=pos.conll,test=pos.conll",
            "is not O, B-TYPE or I-TYPE; of other schemes write S-",
        ),
        (*ONE, "{}", "one.conll has 1 sentences, too few for three splits"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(tmp_path, file, text, name, says):
    path = tmp_path / file
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    written(tmp_path, "pos.conll", "Oh O\nFred NOUN\n")
    refused(re.escape(says), find_tagged, name.format(path), tmp_path)


@pytest.mark.parametrize("name", tagged.PUBLISHED)
def test_published_corpora_are_whole_and_in_iob2(name, real_data):
    corpus = find_tagged(name, real_data)
    assert (corpus.complete, corpus.notes, corpus.has_entities) == (True, (), name == "wnut17")
    if corpus.has_entities:
        sentences = [sentence for part in corpus.splits.values() for sentence in part]
        assert all(s.tags[e.start].startswith("B-") for s in sentences for e in entities(s.tags))
    else:
        assert sum(len(sentence.words) for sentence in corpus.train) == 204_577


LENGTHS = torch.tensor([7, 4, 1])


def tagger(**given):
    torch.manual_seed(0)
    sizes = {"embedding_size": 6, "hidden_size": 5, "feature_size": 3} | given
    return SequenceTagger(30, 4, **sizes).double()


def batch():
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 20, (3, 7), generator=generator)
    return ids, LENGTHS, torch.randint(4, (3, 7), generator=generator)


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
@both_ways
def test_padding_and_other_texts_change_nothing(cell, bidirectional):
    model = tagger(cell=cell, bidirectional=bidirectional)
    ids, lengths, tags = batch()
    wider, total = pad(ids, (0, 5), value=9), 0
    logits = model(wider, lengths)
    for row, n in enumerate(lengths.tolist()):
        alone = model(ids[row : row + 1, :n], lengths[row : row + 1])[0]
        close(alone, logits[row, :n])
        total += cross_entropy(alone, tags[row, :n], reduction="sum")
    close(model.loss(wider, lengths, pad(tags, (0, 5))), total / 12)


@pytest.mark.parametrize("cell, bidirectional", [("elman", False), ("lstm", True)])
@pytest.mark.parametrize("word", [None, 3])
def test_gradients_are_those_of_a_loop_over_words(cell, bidirectional, word):
    model = tagger(cell=cell, bidirectional=bidirectional)
    (ids, _, tags), lengths = batch(), torch.tensor([7, 4, 5])
    words = None if word is None else torch.full((3,), word)
    norms = tagging_gradient_norms(model, ids, lengths, tags, words)
    for row, n in enumerate(lengths.tolist()):
        states, halves = states_by_loop(model.encoder, model.embed(ids[row : row + 1, :n])[0])
        losses = cross_entropy(model.classifier(states), tags[row, :n], reduction="none")
        expected = norms_at(halves, losses.sum() if word is None else losses[word])[0]
        close(norms[row, :n], expected, atol=1e-300, rtol=1e-9)
        assert norms[row, n:].isnan().all()


def test_letters_are_read_as_a_loop_over_words_reads_them():
    letters = torch.tensor([[1, 0, 0, 0], [1, 0, 0, 0], [2, 3, 0, 0], [3, 2, 4, 2]])
    torch.manual_seed(0)
    read = Spelling(letters, filters=5, letter_size=6).double()
    forms = torch.tensor([[2, 3, 2], [3, 0, 0]])
    weight, bias = read.convolution.weight, read.convolution.bias
    for value, form in zip(read(forms).flatten(0, 1), forms.flatten(), strict=True):
        word = pad(
            read.embedding.weight[letters[form][letters[form] > 0]], (0, 0, 1, 1)
        )  # (n + 2, 6)
        seen = [(weight * window).sum((1, 2)) for window in word.unfold(0, 3, 1)]  # each (6, 3)
        close(value, bias + torch.stack(seen).amax(0))


def test_files_of_the_readers_own_are_planned_trained_and_noted(place, tmp_path):
    text = "\n\n".join(f"word{number} O\nFred I-PER\nSue B-PER" for number in range(60))
    (tmp_path / "mine.conll").write_text(text)
    (tmp_path / "test.conll").write_text("Fred I-PER\nParis I-LOC\n")
    assert standing([Tagging("ud_ewt")], place).absent
    file = f"{tmp_path / 'mine.conll'}:dev=test.conll,test=test.conll"
    runs = plan("sequence_labelling", Request("smoke", (file,)), place)
    assert [(run.bidirectional, run.filters) for run in runs] == [(True, 0), (False, 0), (True, 50)]
    result, _, with_filters = (place.store.get(run.execute(place))["result"] for run in runs)
    assert with_filters["parameters"] > result["parameters"]
    assert result["majority_accuracy"] < result["lexicon_accuracy"]
    assert sum(result[f"entities_{kind}"] for kind in GUESSES) == result["entities_predicted"]
    head, *lines = outcome_table(runs, place).splitlines()
    assert head.endswith("F1 in %")
    assert all(re.search(r" \d+\.\d \(1\) +\d+\.\d \(1\)$", line) for line in lines)
