"""Files of tagged words: what is read, what is refused, and how entities are counted."""

import gzip
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whenpool import InputError
from whenpool.corpora import tagged
from whenpool.corpora.tagged import Tagged, entities, entity_scores, find_tagged, read_tagged

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
TAGS = st.lists(TAG, max_size=9)
PAIRS = st.lists(st.lists(st.tuples(TAG, TAG), max_size=9), min_size=1, max_size=4)
ONE = ("one.conll", "Fred B-PER\n")


def written(tmp_path, name, text):
    file = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return file


@pytest.mark.parametrize(("name", "end"), [("a.conllu", "\n"), ("a.conllu.gz", "")])
def test_conllu_is_read_as_universal_dependencies_defines_it(tmp_path, name, end):
    first = Tagged(("I", "do", "n't"), ("PRON", "AUX", "PART"))
    sentences = read_tagged(written(tmp_path, name, CONLLU + end))
    assert sentences == [first, Tagged(("Yes",), ("INTJ",))]


@pytest.mark.parametrize("name", ["a.conll", "a.txt.gz"])
@pytest.mark.parametrize("text", [
    COLUMNS.replace(" ", "\t").replace("\n\n", "\n\t\n"),  # as WNUT's training file
    "\ufeff" + COLUMNS.replace("\n", "\r\n"),
    "-DOCSTART- -X-\n\n" + COLUMNS,
    COLUMNS.replace(" ", " NN x "),  # as CoNLL 2003: the first column and the last
])  # fmt: skip
def test_columns_are_words_and_tags(tmp_path, name, text):
    sentences = read_tagged(written(tmp_path, name, text))
    assert [*map(list, sentences)] == [[("Fred", "B-PER"), ("showed", "O")], [("Sue", "B-PER")]]


@settings(derandomize=True)
@given(TAGS)
def test_entities_are_those_of_seqeval(tags):
    from seqeval.metrics.sequence_labeling import get_entities

    theirs = [tagged.Entity(kind, start, last + 1) for kind, start, last in get_entities(tags)]
    assert entities(tags) == theirs


@settings(derandomize=True, max_examples=60)
@given(PAIRS)
def test_scores_are_those_of_seqeval_and_agree_with_the_counts(pairs):
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as theirs

    true, answers = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    scores = entity_scores(true, answers)
    overall = theirs(true, answers, average="micro", zero_division=0)[:3]
    rates = [scores[f"entity_{name}"] for name in ("precision", "recall", "f1")]
    assert rates == pytest.approx([100 * float(rate) for rate in overall])
    kinds = ("right", "boundary", "mistyped", "spurious")
    assert sum(scores[f"entities_{kind}"] for kind in kinds) == scores["entities_predicted"]
    *_, f1, support = theirs(true, answers, zero_division=0)
    of_types = [100 * float(value) for value, count in zip(f1, support, strict=True) if count]
    types = sorted({e.type for tags in true for e in entities(tags)})
    assert [entity_scores(true, answers, kind)["entity_f1"] for kind in types] == pytest.approx(of_types)


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


@pytest.mark.parametrize(("file", "text", "name", "says"), [
    ("a.conll", "Fred B-PER\nshowed\n", "{}", "a.conll, line 2 has not a word and its tag"),
    ("a.conll", "a O\n\nb\t\n", "{}", "a.conll, line 3 has not a word and its tag"),
    ("a.conll", "\n \n\t\n", "{}", "a.conll has no sentence"),
    ("a.conll", b"a O\nb\xff O\n", "{}", "a.conll, line 2 is not UTF-8 text"),
    ("a.conllu", "1\tI\tPRON\n", "{}", "a.conllu, line 1 has not ten columns"),
    (*ONE, "nowhere.conllu", "'nowhere.conllu': nowhere.conllu is not in .; give generated, ud_ewt"),
    (*ONE, "generated:task=ner", "task 'ner' is unknown; choose one of entities, pos"),
    (*ONE, "ud_ewt", "en_ewt-ud-train.conllu is not in"),
    (*ONE, "{}:dev=a", "one.conll cannot have the options dev; a file takes dev= and test=, or none"),
    (*ONE, "{}:dev=pos.conll,test=pos.conll", "the tag 'NOUN' is not O, B-TYPE or I-TYPE"),
    (*ONE, "{}", "one.conll has 1 sentences, too few for three splits"),
])  # fmt: skip
def test_what_cannot_be_read_is_named_by_its_line(tmp_path, file, text, name, says):
    path = tmp_path / file
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    written(tmp_path, "pos.conll", "Oh O\nFred NOUN\n")
    with pytest.raises(InputError, match=re.escape(says)):
        find_tagged(name.format(path), tmp_path)


def test_a_corpus_of_tagged_words_is_known_by_its_name():
    assert all(map(tagged.is_tagged, ("generated:task=pos", "wnut17", "a.conllu:dev=b,test=c")))
    assert not any(
        map(tagged.is_tagged, ("synthetic:classes=10", "imdb", "a.csv:text_column=b", "b.tsv"))
    )


@pytest.mark.parametrize("name", tagged.PUBLISHED)
def test_published_corpora_are_whole_and_in_iob2(name, real_data):
    corpus = find_tagged(name, real_data)
    assert (corpus.complete, corpus.notes, corpus.has_entities) == (True, (), name == "wnut17")
    if corpus.has_entities:
        sentences = [sentence for part in corpus.splits.values() for sentence in part]
        assert all(s.tags[e.start].startswith("B-") for s in sentences for e in entities(s.tags))
    else:
        assert sum(len(sentence.words) for sentence in corpus.train) == 204_577
