"""Filler sentences, and texts composed with them."""

import gzip
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenpool import InputError
from whenpool.corpora.settings import SETTINGS, FillerStream, compose, find_filler, load_filler


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


# sentences


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
