"""Corpora: selection and splits, the synthetic one, names and fingerprints; texts composed with
filler."""

import gzip
import itertools
import json
import os
import random
import stat
from collections import Counter
from dataclasses import fields, replace

import pytest
from called import refused
from hypothesis import given
from hypothesis import strategies as st

from whenpool import corpora
from whenpool.base.files import fingerprint, write_atomically
from whenpool.corpora.corpus import Raw, SplitSizes, select_and_split
from whenpool.corpora.settings import SETTINGS, compose, find_filler, load_filler
from whenpool.corpora.sources import find
from whenpool.corpora.synthetic import Grammar, encyclopedia, make_corpus

FACTS = {f"article {a}": [f"fact {s} of {a} ." for s in range(3)] for a in range(60)}
JSON = "\n".join(
    json.dumps({"sentence": s, "title": t}) for t, facts in FACTS.items() for s in facts
)
TEXT = "\n\n".join("\n".join(facts) for facts in FACTS.values())
WIKITEXT = "".join(
    f" \n = Town {a} = \n \n fact @-@ one of {a} . It has 1 @,@ 000 of {a} . \n \n"
    f" = = History = = \n \n Town was built of {a} . \n"
    for a in range(60)
)


def raw(count, label, part="", start=0):
    return [Raw(f"text {label} number {i}", label, part) for i in range(start, start + count)]


def splits_of(corpus, *sizes):
    """The texts of each split, which share none."""
    assert sizes == tuple(map(len, corpus.splits.values()))
    splits = [set(split.texts) for split in corpus.splits.values()]
    assert len(set.union(*splits)) == sum(sizes)
    return splits


def test_splits_share_no_text_and_do_not_depend_on_the_order_of_the_file():
    rows, sizes = raw(60, "10") + raw(60, "9"), SplitSizes(train=60, test=30, validation=30)
    # a text that is repeated counts once
    corpus = select_and_split(rows + rows[:30], sizes, "file")
    splits_of(corpus, 60, 30, 30)
    assert select_and_split(rows[::-1], sizes, "file") == corpus
    assert corpus.classes == ("9", "10")  # ordered as numbers
    assert all(f" {corpus.classes[label]} " in text for text, label in corpus.train)
    # each class gives equally many, and splits shrink alike where texts are too few
    corpus = select_and_split(raw(500, "a") + raw(100, "b"), SplitSizes(1_200, 400, 400), "file")
    splits_of(corpus, 120, 40, 40)
    assert sum(sum(split.labels) for split in corpus.splits.values()) == 100
    assert 0.35 < sum(corpus.train.labels) / len(corpus.train) < 0.65  # and each split has both


def test_the_publishers_parts_do_not_mix():
    rows = raw(50, "a", "train") + raw(50, "b", "train")
    rows += raw(40, "a", "test", 1000) + raw(40, "b", "test", 1000)
    rows.append(Raw(rows[-1].text, "b", "train"))  # also in the other part
    train, *others = splits_of(select_and_split(rows, SplitSizes(80, 40, 40), "file"), 80, 40, 40)
    assert all(int(text.split()[-1]) < 1000 for text in train)
    assert all(int(text.split()[-1]) >= 1000 for text in set.union(*others))


@pytest.mark.parametrize("classes", [2, 10])
def test_synthetic_texts_keep_their_parameters_and_are_balanced_and_deterministic(classes):
    grammar = Grammar(classes, shortest=30, longest=40, density=0.1, agreement=0.75, train=400)
    corpus = make_corpus(grammar)
    options = {field.name: getattr(grammar, field.name) for field in fields(grammar)}
    assert find("synthetic", options=options).load("long") == corpus  # a training's own default
    splits_of(corpus, 400, 500, 1_000)
    assert Counter(corpus.train.labels) == dict.fromkeys(range(classes), 400 // classes)
    lengths = [len(text.split()) for text in corpus.train.texts]
    assert (min(lengths), max(lengths)) == (30, 40)
    evidence = {word: name for name, words in grammar.evidence.items() for word in words}
    words = [(word, label) for text, label in corpus.train for word in text.split()]
    speaks = [evidence[word] == corpus.classes[label] for word, label in words if word in evidence]
    assert len(speaks) / sum(lengths) == pytest.approx(0.1, abs=0.01)
    assert sum(speaks) / len(speaks) == pytest.approx(0.75, abs=0.03)
    assert make_corpus(replace(grammar, seed=1)).train != corpus.train
    assert len(evidence) == sum(map(len, grammar.evidence.values()))  # each speaks for one class
    # and no filler has any
    assert evidence.keys().isdisjoint(" ".join(encyclopedia("train")).split())


def test_a_file_is_written_whole_with_the_rights_of_the_user_and_a_pipe_at_once(tmp_path):
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "own", "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    refused("cannot write .*Is a directory", write_atomically, tmp_path, "a")
    assert {file.name for file in tmp_path.iterdir()} == {"own", "pipe"}


def test_a_file_in_the_place_of_another_has_its_own_fingerprint(tmp_path):
    """Also where it has the size and the date of the other."""
    first, second = tmp_path / "a", tmp_path / "b"
    for file in (first, second):
        file.write_text(file.name)
        os.utime(file, (0, 0))
    before = fingerprint(first)
    second.replace(first)
    assert fingerprint(first) != before


def test_filler_that_is_parsed_otherwise_has_another_fingerprint(tmp_path):
    (tmp_path / "own.csv").write_text("text,label\na,b\n")
    lines, prints = " = Title {0} = \n a fact {0} . another {0} . \n", set()
    for name in ("wiki_sentences.txt", "wikitext-103-raw/wiki.train.raw"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(map(lines.format, range(90))))
        prints.add(find(str(tmp_path / "own.csv"), tmp_path).filler_fingerprint())
        file.unlink()
    assert len(prints) == 2


def test_fingerprints_and_filler_of_a_file_follow_its_texts(tmp_path):
    rows = [f"text {i},{'yes' if i % 2 else 'no'}" for i in range(40)]

    def source(*rows, name="own.csv"):
        (tmp_path / name).write_text("\n".join(["text,label", *rows]))
        return corpora.find(str(tmp_path / name), tmp_path)

    first = source(*rows).fingerprint("any")
    assert source(*rows[::-1]).fingerprint("any") == first  # another order of rows selects the same
    assert source(*rows, name="other.csv").fingerprint("any") == first
    assert source("text 0,yes", *rows[1:]).fingerprint("any") != first
    # where there is no Wikipedia
    assert source(*rows).load_filler()["train"] == encyclopedia("train")
    (tmp_path / "wiki_sentences.txt").write_text("a fact .\n" * 50)
    assert set(source(*rows).load_filler()["train"]) == {"a fact ."}


def sentences():
    """Endless sentences of three words that count up."""
    return ([f"f{start + place}" for place in range(3)] for start in itertools.count(step=3))


ORIGINAL = [f"w{number}" for number in range(200)]


@given(
    st.integers(1, 200),
    st.sampled_from(SETTINGS),
    st.floats(0, 0.95),
    st.none() | st.integers(0, 5),
)
def test_the_original_stays_in_one_piece_and_filler_has_its_share(n, setting, share, seed):
    rng = None if seed is None else random.Random(seed)
    composed = compose(ORIGINAL[:n], sentences(), setting, share, rng)
    expected = 0 if setting == "standard" else round(n * share / (1 - share))
    left = composed.index("w0")
    right = len(composed) - left - n
    assert left + right == expected
    assert composed[left : left + n] == ORIGINAL[:n]
    assert left == {"left": 0, "right": expected}.get(setting, left)
    assert abs(left - right) <= 1 or setting != "mid"
    assert composed[:left] == [f"f{number}" for number in range(left)]


@pytest.mark.parametrize(
    "call, given, message",
    [
        (
            select_and_split,
            (raw(9, "a"), SplitSizes(6, 2), "file"),
            "file: only class 'a' was found; .* two",
        ),
        (
            select_and_split,
            (raw(1, "a") + raw(1, "b"), SplitSizes(6, 2), "file"),
            "file: 2 usable .* too few",
        ),
        (
            select_and_split,
            (raw(9, "a", "train") + raw(9, "b", "test"), SplitSizes(6, 2), "file"),
            "file: only class '.' was found in its part 't",
        ),
        (corpora.load, ("synthetic:classes=3",), "2 or 10 classes, not 3"),
        (
            corpora.load,
            ("synthetic:colour=red",),
            "'colour' is unknown; choose one of classes, shortest",
        ),
        (corpora.load, ("synthetic", None, "short"), "length selects no generated texts; set sh"),
        (
            corpora.load,
            ("imdbb",),
            "corpus 'imdbb' is unknown; choose one of synthetic, imdb, yahoo, amazon, y",
        ),
        (corpora.load, ("nowhere.csv",), "corpus file nowhere.csv does not exist"),
        (
            compose,
            (["a"], sentences(), "middle", 0.5),
            "setting 'middle' is unknown; choose one of standard, l",
        ),
        (
            compose,
            (["a"], sentences(), "mid", 1.0),
            r"share, .* words, must be in \[0, 1\), not 1.0",
        ),
        (
            compose,
            (ORIGINAL[:10], [["a", "b"]], "left", 0.5),
            "the filler has 2 words left, not 10",
        ),
        (
            compose,
            ("what a film", [["a", "b"]], "left", 0.5),
            "words must be a list of words, not one string",
        ),
        (
            compose,
            (["film"], ["a b"], "left", 0.5),
            "a sentence of filler must be a list of words, not one",
        ),
    ],
)
def test_what_cannot_be_loaded_split_or_composed_is_named(call, given, message):
    refused(message, call, *given)


@pytest.mark.parametrize(
    "name, content, example",
    [
        ("wiki_sentences.jsonl.gz", gzip.compress(JSON.encode(), mtime=0), "fact 1 of 7 ."),
        ("wiki_sentences.txt", TEXT.encode(), "fact 2 of 7 ."),
        ("wikitext-103-raw/wiki.train.raw", WIKITEXT.encode(), "It has 1,000 of 7 ."),
    ],
)
def test_sentences_of_an_article_are_of_one_split(tmp_path, name, content, example):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert find_filler(tmp_path) == path
    filler = load_filler(path)
    numbers = [{sentence.split()[-2] for sentence in sentences} for sentences in filler.values()]
    assert sum(map(len, numbers)) == len(set.union(*numbers)) == 60
    everything = [*itertools.chain(*filler.values())]
    assert (len(everything), example in everything) == (180, True)
    assert "=" not in "".join(everything)
