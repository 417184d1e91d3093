"""Corpora: selection and splits, the synthetic one, names and fingerprints; texts composed with filler."""

import gzip
import itertools
import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenpool import InputError, corpora
from whenpool.corpora.corpus import Raw, SplitSizes, has_length, select_and_split
from whenpool.corpora.settings import SETTINGS, FillerStream, compose, find_filler, load_filler
from whenpool.corpora.sources import statistics_of
from whenpool.corpora.synthetic import Grammar, encyclopedia, make_corpus


def raw(count, label, part="", start=0):
    return [Raw(f"text {label} number {i}", label, part) for i in range(start, start + count)]


def sizes_of(corpus):
    return [len(split) for split in (corpus.train, corpus.validation, corpus.test)]


def disjoint_texts(corpus):
    """The texts of each split, which share none."""
    splits = [set(split.texts) for split in (corpus.train, corpus.validation, corpus.test)]
    assert len(set.union(*splits)) == sum(map(len, splits))
    return splits


@pytest.mark.parametrize(
    ("words", "length", "longest", "kept"),
    [
        (100, "long", None, False), (101, "long", None, True), (500, "long", 500, True),
        (501, "long", 500, False), (100, "short", None, True), (101, "short", None, False),
        (0, "short", None, False), (0, "any", None, False), (1, "any", None, True),
    ],
)  # fmt: skip
def test_lengths(words, length, longest, kept):
    assert has_length(" w" * words, length, longest) is kept


def test_splits_share_no_text_and_do_not_depend_on_the_order_of_the_file():
    rows = raw(60, "a") + raw(60, "b")
    sizes = SplitSizes(train=60, test=30, validation=30)
    corpus = select_and_split(rows + rows[:30], sizes, "file")  # a text that is repeated counts once
    assert sizes_of(corpus) == [60, 30, 30]
    disjoint_texts(corpus)
    assert select_and_split(rows[::-1], sizes, "file") == corpus
    assert corpus.classes == ("a", "b")
    assert all(f" {corpus.classes[label]} " in text for text, label in corpus.train)


def test_each_class_gives_equally_many_and_splits_shrink_alike_where_texts_are_too_few():
    corpus = select_and_split(raw(500, "a") + raw(100, "b"), SplitSizes(1_200, 400, 400), "file")
    assert sizes_of(corpus) == [120, 40, 40]
    labels = corpus.train.labels + corpus.validation.labels + corpus.test.labels
    assert Counter(labels) == {0: 100, 1: 100}
    assert 0.35 < sum(corpus.train.labels) / len(corpus.train) < 0.65  # and each split has both


def test_the_publishers_parts_do_not_mix():
    rows = raw(50, "a", "train") + raw(50, "b", "train")
    rows += raw(40, "a", "test", 1000) + raw(40, "b", "test", 1000)
    rows.append(Raw(rows[-1].text, "b", "train"))  # also in the other part
    corpus = select_and_split(rows, SplitSizes(80, 40, 40), "file")
    train, validation, test = disjoint_texts(corpus)
    assert all(int(text.split()[-1]) < 1000 for text in train)
    assert all(int(text.split()[-1]) >= 1000 for text in validation | test)
    assert sizes_of(corpus) == [80, 40, 40]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (raw(9, "a"), "file: only class 'a' was found; classification needs at least two classes"),
        ([], "file: no usable text was found"),
        (raw(1, "a") + raw(1, "b"), "file: 2 usable texts are too few"),
    ],
)
def test_unusable_corpora_are_named(rows, message):
    with pytest.raises(InputError, match=message):
        select_and_split(rows, SplitSizes(6, 2, 2), "file")


def test_numeric_labels_are_ordered_as_numbers():
    rows = [row for label in ("10", "9", "1") for row in raw(10, label)]
    assert select_and_split(rows, SplitSizes(10, 5, 5), "file").classes == ("1", "9", "10")


def test_synthetic_texts_keep_their_parameters():
    grammar = Grammar(shortest=30, longest=40, density=0.1, agreement=0.75, train=400)
    corpus = make_corpus(grammar)
    lengths = [len(text.split()) for text in corpus.train.texts]
    assert (min(lengths), max(lengths)) == (30, 40)
    evidence = {word: name for name, found in grammar.evidence.items() for word in found}
    speaks = [
        evidence[word] == corpus.classes[label]
        for text, label in corpus.train
        for word in text.split()
        if word in evidence
    ]
    assert len(speaks) / sum(lengths) == pytest.approx(0.1, abs=0.01)
    assert sum(speaks) / len(speaks) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("classes", [2, 10])
def test_synthetic_corpora_are_balanced_deterministic_and_disjoint(classes):
    grammar = Grammar(classes=classes, train=200, validation=50, test=50)
    corpus = make_corpus(grammar)
    assert len(corpus.classes) == classes
    assert set(Counter(corpus.train.labels).values()) == {200 // classes}
    assert make_corpus(grammar) == corpus
    assert make_corpus(Grammar(classes=classes, train=200, seed=1)).train != corpus.train
    disjoint_texts(corpus)
    words = [word for found in grammar.evidence.values() for word in found]
    assert len(words) == len(set(words))  # each speaks for one class, and no filler has any
    assert not set(words) & {word for sentence in encyclopedia("train") for word in sentence.split()}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("synthetic:classes=3", "classes=2 or classes=10, not 3"),
        ("synthetic:density=0.5", r"density is a part of all words in \[0, 0.2\], not 0.5"),
        ("synthetic:colour=red", "no option 'colour'; it has classes, shortest"),
        ("synthetic:density=much", "option density='much' of the synthetic corpus is not a number"),
        ("synthetic:density", "corpus 'synthetic:density' is unknown"),
        ("imdbb", "corpus 'imdbb' is unknown; choose one of synthetic, imdb, yahoo, amazon, yelp"),
        ("nowhere.csv", "corpus file nowhere.csv is not there"),
        ("imdb:a=1", "corpus 'imdb' takes no options, a was given"),
    ],
)
def test_bad_names_and_options_are_named(spec, message):
    with pytest.raises(InputError, match=message):
        corpora.load(spec)


def write_csv(path, rows, header="text,label"):
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]), encoding="utf-8")
    return str(path)


ROWS = [(f"text {i}", "yes" if i % 2 else "no") for i in range(40)]


def test_a_label_writes_a_name_in_one_way(tmp_path):
    first, second = "synthetic:density=0.1,classes=10", "synthetic:classes=10,density=0.10"
    assert corpora.find(first).label == corpora.find(second).label == "synthetic:classes=10,density=0.1"
    path = write_csv(tmp_path / "own.csv", ROWS, "body,label")
    assert corpora.find(f"{path}:text_column=body").label == "own.csv:text_column=body"


def test_fingerprints_follow_the_texts(tmp_path):
    def fingerprint(rows, name="own.csv"):
        return corpora.find(write_csv(tmp_path / name, rows)).fingerprint("any")

    first = fingerprint(ROWS)
    assert fingerprint(ROWS[::-1]) == first  # another order of rows selects the same
    assert fingerprint(ROWS, "other.csv") == first
    assert fingerprint([(ROWS[0][0], "yes"), *ROWS[1:]]) != first
    assert fingerprint([("another text", "no"), *ROWS[1:]]) != first


def test_a_fingerprint_is_remembered_until_the_code_changes(monkeypatch):
    source = corpora.find("synthetic:train=5,validation=5,test=5")
    first, other = source.fingerprint("any"), make_corpus(Grammar(train=6))
    monkeypatch.setattr(corpora.CorpusSource, "load", lambda *_: other)
    assert source.fingerprint("any") == first
    monkeypatch.setattr("whenpool.corpora.sources.code_fingerprint", lambda folder: "other code")
    assert source.fingerprint("any") != first


def test_a_file_without_wikipedia_gets_the_encyclopedia(tmp_path):
    source = corpora.find(write_csv(tmp_path / "own.csv", ROWS), tmp_path)
    assert source.load_filler()["train"] == encyclopedia("train")
    (tmp_path / "wiki_sentences.txt").write_text("a fact .\n" * 50)
    assert set(source.load_filler()["train"]) == {"a fact ."}


def test_statistics_count_all_splits():
    source = corpora.find("synthetic:shortest=10,longest=12,train=30,validation=5,test=8")
    found = statistics_of(source, "any")
    assert (found.classes, found.train_size, found.validation_size, found.test_size) == (2, 30, 5, 8)
    assert found.max_length == 12
    assert 10 <= found.average_length <= 12
    assert statistics_of(source, "any") == found  # read back


def sentences():
    """Endless sentences of three words that count up."""
    words = (f"f{number}" for number in itertools.count())
    while True:
        yield list(itertools.islice(words, 3))


def original(n):
    return [f"w{number}" for number in range(n)]


@given(
    n=st.integers(1, 200),
    setting=st.sampled_from(SETTINGS),
    share=st.floats(0, 0.95),
    seed=st.none() | st.integers(0, 5),
)
def test_keeps_the_original_in_one_piece_and_the_share(n, setting, share, seed):
    words = original(n)
    rng = None if seed is None else random.Random(seed)
    composed = compose(words, sentences(), setting, share, rng)
    expected = 0 if setting == "standard" else round(n * share / (1 - share))
    assert len(composed) == n + expected
    start = composed.index("w0")
    assert composed[start : start + n] == words
    filler = composed[:start] + composed[start + n :]
    assert all(word.startswith("f") for word in filler)
    left, right = start, len(composed) - start - n
    assert left == {"left": 0, "right": expected}.get(setting, left)
    assert abs(left - right) <= 1 or setting != "mid"


def test_sentences_are_taken_whole_and_the_last_one_of_each_side_is_cut():
    composed = compose(original(5), sentences(), "mid", share=2 / 3)
    assert composed == [
        "f0", "f1", "f2", "f3", "f4", "w0", "w1", "w2", "w3", "w4", "f6", "f7", "f8", "f9", "f10",
    ]  # fmt: skip


@pytest.mark.parametrize("make_rng", [random.Random, np.random.default_rng])
def test_a_coin_decides_the_side_of_the_odd_word(make_rng):
    rng = make_rng(0)
    starts = {compose(original(1), sentences(), "mid", 0.75, rng).index("w0") for _ in range(50)}
    assert starts == {1, 2}


@pytest.mark.parametrize(
    ("setting", "share", "message"),
    [
        ("middle", 0.5, "setting 'middle' is unknown; choose one of standard, left, mid, right"),
        ("mid", 1.0, r"share is filler's part of all words, in \[0, 1\), not 1.0"),
        ("mid", -0.1, "not -0.1"),
    ],
)
def test_bad_arguments_are_named(setting, share, message):
    with pytest.raises(InputError, match=message):
        compose(["a"], sentences(), setting, share)


def test_filler_that_runs_out_is_named():
    with pytest.raises(InputError, match="the filler ran out: 10 words were asked for, 2 were left"):
        compose(original(10), iter([["a", "b"]]), "left", 0.5)


def articles(count=60, sentences=3):
    return [(f"article {a}", f"fact {s} of {a} .") for a in range(count) for s in range(sentences)]


JSON = "\n".join(json.dumps({"sentence": s, "title": t}) for t, s in articles())
GROUPS = itertools.groupby(articles(), key=lambda pair: pair[0])
TEXT = "\n\n".join("\n".join(s for _, s in group) for _, group in GROUPS)
WIKITEXT = "".join(
    f" \n = Town {a} = \n \n fact @-@ one of {a} . It has 1 @,@ 000 of {a} . \n \n"
    f" = = History = = \n \n Town was built of {a} . \n"
    for a in range(60)
)


@pytest.mark.parametrize(
    ("name", "content", "example"),
    [
        ("wiki_sentences.jsonl.gz", gzip.compress(JSON.encode()), "fact 1 of 7 ."),
        ("wiki_sentences.txt", TEXT.encode(), "fact 2 of 7 ."),
        ("wikitext-103-raw/wiki.train.raw", WIKITEXT.encode(), "It has 1,000 of 7 ."),
    ],
)
def test_sentences_of_an_article_are_of_one_split(tmp_path, name, content, example):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    assert find_filler(tmp_path) == path
    found = load_filler(path)
    assert set(found) == {"train", "validation", "test"}
    numbers = [{sentence.split()[-2] for sentence in sentences} for sentences in found.values()]
    assert sum(map(len, numbers)) == len(set.union(*numbers)) == 60
    everything = [sentence for sentences in found.values() for sentence in sentences]
    assert len(everything) == 180
    assert example in everything
    assert not any("=" in sentence for sentence in everything)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wiki_sentences.jsonl", b'{"sentence": "x", "title": "y"}\n{"text": 1}', "line 2: expected"),
        ("wiki_sentences.jsonl", b"{", "line 1: expected"),
        ("wiki_sentences.jsonl.gz", b"not gzip", "cannot be read: Not a gzipped file"),
        ("wiki_sentences.txt", b"\xff\xfe", "line 1: not UTF-8 text"),
        ("wiki_sentences.txt", b"one fact .", "too few articles: none is left for the"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_filler(tmp_path / name)


def test_the_stream_is_endless_shuffled_anew_and_counts():
    sentences = [[number] for number in range(5)]
    stream = FillerStream(sentences, "seed")
    first = [next(stream)[0] for _ in range(5)]
    second = [next(stream)[0] for _ in range(5)]
    assert sorted(first) == sorted(second) == list(range(5))
    assert first != second
    assert stream.passes == 2
    again = FillerStream(sentences, "seed")
    assert [next(again)[0] for _ in range(10)] == first + second


def test_real_filler_has_its_four_million_words(real_data):
    found = load_filler(find_filler(real_data))
    assert sum(map(len, found.values())) == 200_000
    words = {split: sum(len(s.split()) for s in sentences) for split, sentences in found.items()}
    total = sum(words.values())
    assert words["train"] / total == pytest.approx(0.5, abs=0.02)
    assert words["test"] / total == pytest.approx(0.3, abs=0.02)
