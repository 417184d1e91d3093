"""Where an encoder of texts loses what it reads, on encoders whose answer is known."""

import numpy as np
import pytest
import torch
from called import refused
from scipy.stats import t

from whenpool.probes import position_profile
from whenpool.probes.position import accuracy_interval, mean_interval, surrounded

D = 64
FILLER = ["the river is long", "the hill is high and green"]
TEXTS = [f"{word} one {word} two {n} {n % 7}" for n in range(20) for word in ("good", "bad")]
LABELS = ["good", "bad"] * 20


def of_word(word):
    return np.random.default_rng([*word.encode()]).standard_normal(D)


def mean_of_words(texts, read=None):
    return np.stack([np.mean([*map(of_word, text.split()[:read])], axis=0) for text in texts])


def forgets_the_end(texts):
    """Reads six words, as many as a text has."""
    return mean_of_words(texts, 6)


def by_place(points):
    return {(point.setting, round(point.share, 2)): point for point in points}


def test_a_mean_of_words_loses_the_same_in_each_place_and_as_much_as_there_is_filler():
    found = by_place(position_profile(mean_of_words, TEXTS, ["river"]))
    plain, river = mean_of_words(TEXTS), of_word("river")
    for (_, share), point in found.items():
        exact = {0.0: 0.0, 0.33: 1 / 3, 0.67: 2 / 3, 0.8: 0.8}[share]
        mixed = (1 - exact) * plain + exact * river
        lengths = np.linalg.norm(plain, axis=1) * np.linalg.norm(mixed, axis=1)
        assert point.value == pytest.approx(((plain * mixed).sum(1) / lengths).mean())
        assert point.low <= point.value <= point.high


def test_what_an_encoder_does_not_read_is_lost_at_the_end_alone():
    cosines = by_place(position_profile(forgets_the_end, TEXTS, FILLER))
    right = by_place(position_profile(forgets_the_end, TEXTS, FILLER, LABELS))
    for share in (0.33, 0.67, 0.8):
        assert cosines["left", share].value == pytest.approx(1)
        assert right["left", share].value == 100
    assert cosines["right", 0.8].high < 0.5
    assert right["right", 0.8].low < 50 < right["right", 0.8].high
    # what one knows of 40 right answers of 40
    assert right["left", 0.8].low == pytest.approx(91.2, abs=0.1)


def test_each_text_stays_as_it_was_and_filler_goes_on_from_text_to_text():
    texts = ["what  a\nfilm", "two words"]
    assert surrounded(texts, FILLER, "mid", 0.5) == [
        "the what  a\nfilm the hill",
        "the two words the",
    ]
    assert surrounded(texts, FILLER, "left", 0.5)[0] == "what  a\nfilm the river is"


def test_any_embedding_will_do_and_plain_texts_are_read_once():
    calls = []

    def embed(texts):
        calls.append(texts)
        return torch.tensor(mean_of_words(texts), requires_grad=True)

    points = position_profile(embed, TEXTS, FILLER, LABELS, shares=[0, 0.5], settings=["left"])
    assert [len(calls), calls[0]] == [2, TEXTS]
    assert points[0].value == 100
    halves = [{"good": 0.5, "bad": 1.5}[label] for label in LABELS]  # as stars have
    assert position_profile(embed, TEXTS, FILLER, halves, [0.5], ["left"]) == points[1:]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 10, 100])
def test_intervals_are_students_and_wilsons(count):
    values = np.random.default_rng(0).standard_normal(count)
    half = t.ppf(0.975, count - 1) * values.std(ddof=1) / count**0.5
    mean, low, high = mean_interval(values)
    assert (mean, mean - low, high - mean) == pytest.approx((values.mean(), half, half), rel=0.01)
    assert accuracy_interval(np.ones(count))[2] == pytest.approx(100)
    assert accuracy_interval(np.arange(10) < 3) == pytest.approx((30, 10.78, 60.32), abs=0.01)


@pytest.mark.parametrize(
    "message, change",
    {
        "texts must be a list of strings": {"texts": "a text"},
        r"texts\[1\] must be a string with a word": {"texts": ["a", " "]},
        "there is one text": {"texts": ["a"], "labels": None},
        "filler is empty": {"filler": []},
        "40 texts need 40 labels": {"labels": LABELS[1:]},
        "only one class": {"labels": ["good"] * 40},
        r"labels\[2\] is None": {"labels": ["good", "bad", None, "bad"] * 10},
        r"labels\[1\] is missing": {"labels": [0, float("nan")] * 20},
        r"labels\[1\] is nan": {"labels": ["good", float("nan")] * 20},
        "class rare has 1 texts": {"labels": ["rare", *["good"] * 39]},
        "share": {"shares": [1.0]},
        "swept setting 'top' is unknown": {"settings": ["top"]},
        r"must give \(40, D\) numbers, not \(3, 4\)": {"embed": lambda texts: torch.ones(3, 4)},
        "NaN": {"embed": lambda texts: np.full((40, 2), np.nan)},
        "must give .N, D. numbers": {"embed": lambda texts: [*"ab"]},
    }.items(),
)
def test_what_does_not_fit_is_one_line(change, message):
    given = {"embed": mean_of_words, "texts": TEXTS, "filler": FILLER, "labels": LABELS} | change
    refused(message, position_profile, **given)
