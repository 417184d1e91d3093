"""Files of tagged words: what is read, what is refused, and how entities are encoded."""

import gzip
import re

import pytest
from fuzzing import hold, inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from whenpool import InputError
from whenpool.corpora import tagged
from whenpool.corpora.tagged import Tagged, convert, entities, find_tagged, read_tagged

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
    first = Tagged(("I", "do", "n't"), ("PRON", "AUX", "PART"), 3)
    found = read_tagged(written(tmp_path, name, CONLLU + end))
    assert found == [first, Tagged(("Yes",), ("INTJ",), 10)]
    assert read_tagged(tmp_path / name, "xpos")[0].tags == ("PRP", "VBP", "RB")


@pytest.mark.parametrize("name", ["a.conll", "emerging.test.annotated", "a.txt.gz"])
@pytest.mark.parametrize("text", [
    COLUMNS,
    COLUMNS.replace(" ", "\t").replace("\n\n", "\n\t\n"),  # as WNUT's training file
    COLUMNS.replace("\n", "\r\n"),
    "\ufeff" + COLUMNS,
    "-DOCSTART- -X-\n\n" + COLUMNS,
    COLUMNS.replace(" ", " NN x "),  # as CoNLL 2003: the first column and the last
])  # fmt: skip
def test_columns_are_words_and_tags(tmp_path, name, text):
    found = read_tagged(written(tmp_path, name, text))
    assert [*map(list, found)] == [[("Fred", "B-PER"), ("showed", "O")], [("Sue", "B-PER")]]


@pytest.mark.parametrize(("parser", "valid"), [("conllu", CONLLU), ("columns", COLUMNS)])
def test_whatever_is_in_a_file_it_is_read_or_refused_in_a_line(tmp_path, parser, valid):
    def parse(data):
        found = read_tagged(written(tmp_path, f"a.{parser}", data))
        assert found
        for sentence in found:
            assert len(sentence.words) == len(sentence.tags) > 0
            assert all(word.strip() and tag.strip() for word, tag in sentence)

    parse(valid.encode())
    hold(parser, inputs(valid.encode(), valid.replace(" ", "\t").encode()), parse, f"a.{parser}")


@settings(derandomize=True)
@given(TAGS)
def test_entities_are_those_of_seqeval(tags):
    from seqeval.metrics.sequence_labeling import get_entities

    theirs = [tagged.Entity(kind, start, last + 1) for kind, start, last in get_entities(tags)]
    assert entities(tags) == theirs


@settings(derandomize=True)
@given(TAGS, st.sampled_from(["iob1", "iob2"]))
def test_iob1_and_iob2_keep_every_entity(tags, encoding):
    converted = convert(tags, encoding)
    assert entities(converted) == entities(tags)
    assert convert(converted, encoding) == converted
    name = tagged.encoding_of([converted]).name
    assert name == encoding or not any(tag.startswith("B") for tag in converted) or name == "iob2"


def test_the_slides_example_in_each_encoding():
    iob2 = ["B-PER", "O", "B-PER", "B-PER", "I-PER", "O"]
    iob1 = ["I-PER", "O", "I-PER", "B-PER", "I-PER", "O"]
    assert (convert(iob1, "iob2"), convert(iob2, "iob1")) == (iob2, iob1)
    assert convert(iob1, "io") == ["I-PER", "O", "I-PER", "I-PER", "I-PER", "O"]
    for tag, target, said in (
        ("B-PER", "bio", "encoding 'bio' is unknown"),
        ("E-PER", "io", "tag 'E-PER'"),
    ):
        with pytest.raises(InputError, match=said):
            convert([tag], target)


@pytest.mark.parametrize(("tags", "name", "inside"), [
    (["B-PER", "I-PER", "B-PER"], "iob2", 0), (["I-PER", "B-PER"], "iob1", 1),
    (["I-PER", "O", "I-ORG"], "io", 2), (["I-PER", "O", "B-ORG"], "mixed", 1), (["O"], "iob2", 0),
])  # fmt: skip
def test_encodings_are_told_apart(tags, name, inside):
    found = tagged.encoding_of([tags])
    assert (found.name, found.begun_inside, found.entities) == (name, inside, len(entities(tags)))


@settings(derandomize=True, max_examples=60)
@given(PAIRS, st.booleans())
def test_scores_are_those_of_seqeval_and_agree_with_the_counts(pairs, strict):
    from seqeval.metrics import sequence_labeling, v1
    from seqeval.scheme import IOB2

    true, said = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    scores = tagged.entity_scores(true, said, strict)
    module, options = (v1, {"scheme": IOB2}) if strict else (sequence_labeling, {})
    options |= {"average": "micro", "zero_division": 0}
    theirs = module.precision_recall_fscore_support(true, said, **options)
    found = scores.precision, scores.recall, scores.f1
    assert found == pytest.approx([100 * value for value in theirs[:3]])
    assert scores.right + scores.boundary + scores.mistyped + scores.spurious == scores.predicted
    assert scores.precision == pytest.approx(100 * scores.right / max(scores.predicted, 1))
    assert scores.recall == pytest.approx(100 * scores.right / max(scores.true, 1))


def test_a_boundary_error_counts_twice_and_nothing_once():
    bank, person = ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"], ["B-PER", "O"]
    answers = ["O", *bank[:3], "O"], ["O"] * 5
    late, none = (tagged.entity_scores([bank, person], [said, person]) for said in answers)
    assert (late.boundary, late.missed, none.boundary, none.missed) == (1, 0, 0, 1)
    assert (late.f1, none.f1) == pytest.approx((50, 200 / 3))


def test_a_file_alone_is_split_and_others_may_be_named(tmp_path):
    many = "\n\n".join(f"word{number} O\nFred I-PER" for number in range(60))
    file = written(tmp_path, "mine.conll", many)
    corpus = find_tagged(str(file), tmp_path).load()
    assert sum(map(len, corpus.splits.values())) == 60
    assert (len(corpus.train) > 30, corpus.entities, corpus.complete) == (True, True, False)
    assert corpus.notes == ("mine.conll was split by a hash of each sentence.",)
    for name in ("dev", "test"):
        written(tmp_path, f"{name}.conll", "Sue B-PER\nHuang I-PER\n\nSue I-PER\n")
    source = find_tagged(f"{file}:dev=dev.conll,test=test.conll", tmp_path)
    corpus = source.load()
    assert [len(part) for part in corpus.splits.values()] == [60, 2, 2]
    mixed = "mixed encodings: 1 of its 2 entities begin with I-, which are read as entities."
    assert corpus.notes[0] == f"dev.conll is of {mixed}"
    before = source.fingerprint()
    written(tmp_path, "test.conll", "Sue B-PER\n\nOmar B-PER\n")
    assert source.fingerprint() != before


@pytest.mark.parametrize(("file", "text", "name", "says"), [
    ("a.conll", "Fred B-PER\nshowed\n", "{}", "a.conll, line 2: the word has no tag"),
    ("a.conll", "Fred B-PER\nshowed VBD O\n", "{}", "a.conll, line 2 has 3 columns, but line 1 has 2"),
    ("a.conll", "a O\n\nb\t\n", "{}", "a.conll, line 3: the tag is missing"),
    ("a.conll", "\tO\n", "{}", "a.conll, line 1: the word is missing"),
    ("a.conll", "\n \n\t\n", "{}", "a.conll has no sentence"),
    ("a.conll", b"a O\nb\xff O\n", "{}", "a.conll, line 2 is not UTF-8 text (byte 0xff"),
    ("a.conllu", "1\tI\tPRON\n", "{}", "a.conllu, line 1 has 3 columns; CoNLL-U needs 10"),
    ("a.conllu", "2" + "\tx" * 9, "{}", "a.conllu, line 1: the word has the number '2' instead of 1"),
    ("a.conllu", "1\tI\tI\t_" + "\tx" * 6, "{}", "a.conllu, line 1: the tag is missing"),
    ("a.conll.gz", gzip.compress(COLUMNS.encode(), mtime=0)[:-12], "{}", "a.conll.gz cannot be read"),
    (*ONE, "nowhere.conllu", "tagged corpus 'nowhere.conllu' is unknown; choose one of generated"),
    (*ONE, "generated:word=1", "has no option 'word'; choose one of task, clauses"),
    (*ONE, "generated:task=ner", "task 'ner' is unknown; choose one of entities, pos"),
    (*ONE, "ud_ewt", "en_ewt-ud-train.conllu is not in"),
    (*ONE, "ud_ewt:task=pos", "the tagged corpus ud_ewt has no option 'task'"),
    (*ONE, "{}:dev=a,test=b", "a does not exist; dev= and test= name files beside one.conll"),
    (*ONE, "{}:column=lemma", "column 'lemma' is unknown; choose one of upos, xpos"),
    (*ONE, "{}:column=xpos", "one.conll: only a .conllu file takes the option column"),
    (*ONE, "{}:dev=pos.conll,test=pos.conll", "pos.conll, sentence at line 1, word 2: the tag 'NOUN' is"),
    (*ONE, "{}", "one.conll has only 1 sentences, of which none is for"),
])  # fmt: skip
def test_what_cannot_be_read_is_named_by_its_line(tmp_path, file, text, name, says):
    path = tmp_path / file
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    written(tmp_path, "pos.conll", "Oh O\nFred NOUN\n")
    with pytest.raises(InputError, match=re.escape(says)):
        find_tagged(name.format(path), tmp_path).load()


def test_a_table_separated_by_tabs_is_of_texts_where_it_names_its_columns(tmp_path):
    words = written(tmp_path, "words.tsv", "Fred\tB-PER\nshowed\tO\n\nSue\tB-PER\n")
    texts = written(tmp_path, "texts.tsv", "label\ttext\n1\tFred showed Sue\n")
    other = f"{written(tmp_path, 'other.tsv', CONLLU)}:text_column=body,label_column=sense"
    named = ("generated:task=pos", "wnut17", "ud_ewt:column=xpos", "a.conllu")
    assert all(map(tagged.is_tagged, (*named, str(words), f"{words}:dev=a.tsv,test=b.tsv")))
    untagged = ("synthetic:classes=10", "imdb", "a.csv:text_column=b", "b.jsonl", str(texts), other)
    assert not any(map(tagged.is_tagged, untagged))


@pytest.mark.parametrize("name", tagged.PUBLISHED)
def test_published_corpora_are_whole_and_in_iob2(name, real_data):
    corpus = find_tagged(name, real_data).load()
    assert (corpus.complete, corpus.notes, corpus.entities) == (True, (), name == "wnut17")
    if corpus.entities:
        assert len({tag[2:] for tag in corpus.tags} - {""}) == 6
        for part in corpus.splits.values():
            assert tagged.encoding_of(sentence.tags for sentence in part).name == "iob2"
    else:
        assert len(corpus.tags) == 17
        assert sum(map(len, corpus.train)) == 204_577
