"""Composing texts with filler."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whenpool import InputError
from whenpool.corpora.settings import SETTINGS, compose


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
    where = {
        "standard": left == right == 0,
        "left": left == 0,
        "right": right == 0,
        "mid": abs(left - right) <= 1,
    }
    assert where[setting]


def test_sentences_are_taken_whole_and_the_last_one_of_each_side_is_cut():
    composed = compose(original(5), sentences(), "mid", share=2 / 3)
    assert composed == [
        "f0", "f1", "f2", "f3", "f4", "w0", "w1", "w2", "w3", "w4", "f6", "f7", "f8", "f9", "f10",
    ]  # fmt: skip


def test_two_thirds_of_the_words_are_filler_by_default():
    composed = compose(original(340), sentences(), "right")
    assert sum(word.startswith("f") for word in composed) / len(composed) == pytest.approx(0.66)


@pytest.mark.parametrize("make_rng", [random.Random, np.random.default_rng])
def test_a_coin_decides_the_side_of_the_odd_word(make_rng):
    rng = make_rng(0)
    starts = {compose(original(1), sentences(), "mid", 0.75, rng).index("w0") for _ in range(50)}
    assert starts == {1, 2}


def test_numbers_can_be_composed_as_well():
    assert compose([1, 2], iter([[7, 8], [9]]), "left", 0.5) == [1, 2, 7, 8]


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


def test_filler_that_runs_out_is_said():
    with pytest.raises(InputError, match="the filler ran out: 10 words were asked for, 2 were left"):
        compose(original(10), iter([["a", "b"]]), "left", 0.5)
