"""Other versions of unlabelled texts: replaced words, and paraphrases from a file (§1.10)."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from whenpool import InputError
from whenpool.fewshot.selection import TfIdfReplacement, load_paraphrases

TEXTS = [
    "the film is a dull film and the plot is thin".split(),
    "the plot of the play is a joy".split(),
    "a joy of a film".split(),
    "the end".split(),
]


def idf(word):
    return math.log(len(TEXTS) / sum(word in text for text in TEXTS))


def tf_idf(word, text):
    return text.count(word) / len(text) * idf(word)


@pytest.mark.parametrize("p", [0.1, 0.7, 1.0])
def test_words_go_the_likelier_the_less_they_say_about_their_text(p):
    replacement = TfIdfReplacement(TEXTS, p)
    for text in TEXTS:
        largest = max(tf_idf(word, text) for word in text)
        mean = sum(largest - tf_idf(word, text) for word in text) / len(text)
        expected = [min(p * (largest - tf_idf(word, text)) / mean, 1) for word in text]
        assert replacement.probabilities(text) == pytest.approx(expected, abs=1e-12)
    found = replacement.probabilities(TEXTS[0])
    assert found.min() == 0
    assert found[TEXTS[0].index("a")] >= found[TEXTS[0].index("the")] > 0


def test_what_comes_says_little_about_any_text():
    frequency = Counter(word for text in TEXTS for word in text)
    scores = {word: n * idf(word) for word, n in frequency.items()}
    room = {word: max(scores.values()) - score for word, score in scores.items()}
    expected = {word: value / sum(room.values()) for word, value in room.items()}
    replacement, random = TfIdfReplacement(TEXTS, 1.0), np.random.default_rng(0)
    certain = [i for i, p in enumerate(replacement.probabilities(TEXTS[0])) if p == 1]
    assert certain
    came = Counter[str]()
    for _ in range(20_000):
        version = replacement.replace(TEXTS[0], random)
        came.update(version[i] for i in certain)
    for word in expected:
        assert came[word] / came.total() == pytest.approx(expected[word], abs=0.01)
    assert expected["film"] == 0
    assert expected["a"] > expected["end"] > expected["the"] > 0.05


@pytest.mark.parametrize("text", [["film"], ["thin", "dull"], [], ["new", "words"]])
def test_a_text_whose_words_are_alike_stays(text):
    version = TfIdfReplacement(TEXTS, 1.0).replace(text, np.random.default_rng(0))
    assert version == text


def test_a_text_is_augmented_by_seed_and_place_alone():
    texts = [" ".join(text) for text in TEXTS]
    replacement = TfIdfReplacement(TEXTS)
    versions = replacement.augment(texts, 5)
    assert versions == replacement.augment(texts, 5)
    assert versions[2] == replacement.augment(["another", "text", texts[2]], 5)[2]
    assert versions != replacement.augment(texts, 6)
    twice = replacement.augment([texts[0]] * 20, 5)
    assert len(set(twice)) > 10
    vocabulary = {word for text in TEXTS for word in text}
    assert {word for version in versions for word in version.split(" ")} <= vocabulary
    for version, text in zip(versions, TEXTS, strict=True):
        assert len(version.split(" ")) == len(text)


@pytest.mark.parametrize(
    ("texts", "p", "message"),
    [
        (TEXTS, 1.1, "p is the mean probability of a replacement, from 0 to 1, not 1.1"),
        (TEXTS, math.nan, "p is the mean probability of a replacement, from 0 to 1, not nan"),
        ([[]], 0.7, "word replacement counts words first, and the texts have none"),
    ],
)
def test_what_nothing_can_be_replaced_by_is_named(texts, p, message):
    with pytest.raises(InputError, match=message):
        TfIdfReplacement(texts, p)


# --- paraphrases ---


def item(text, *paraphrases):
    return json.dumps({"text": text, "paraphrases": list(paraphrases)})


GOOD = [item("One film.", "a", "b", "c"), item("Ünder\ntwo lines", "d", "e"), item("three", "f", "g")]


def paraphrased(folder, lines, texts):
    file = folder / "paraphrases.jsonl"
    file.write_text("\n".join(lines))
    return load_paraphrases(file, texts)


def test_paraphrases_come_in_the_order_of_the_texts_and_as_many_of_each(tmp_path):
    found = paraphrased(tmp_path, [*GOOD, "", "  "], ["three", "Ünder\ntwo lines", "One film.", "three"])
    assert found == [["f", "g"], ["d", "e"], ["a", "b"], ["f", "g"]]
    assert paraphrased(tmp_path, GOOD, ["One film."]) == [["a", "b", "c"]]
    assert paraphrased(tmp_path, GOOD, []) == []


EXPECTED = (
    'expected {"text": "...", "paraphrases": ["...", ...]}, with at least one paraphrase, and nothing'
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", EXPECTED),
        ('["three", ["f"]]', EXPECTED),
        ('{"text": "three"}', EXPECTED),
        ('{"text": 3, "paraphrases": ["f"]}', EXPECTED),
        ('{"text": "three", "paraphrases": "f"}', EXPECTED),
        (item("  ", "f"), EXPECTED),
        (item("three"), EXPECTED),
        (item("three", "f", " "), EXPECTED),
        (item("three", 5), EXPECTED),
        ("[" * 100_000, EXPECTED),
        (
            GOOD[0],
            "the text of an earlier line again, 'One film.'; put all paraphrases of a text into one",
        ),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_number(tmp_path, line, message):
    with pytest.raises(InputError) as error:
        paraphrased(tmp_path, [GOOD[0], "", line], ["One film."])
    assert f"paraphrases.jsonl, line 3: {message}" in str(error.value)


def test_texts_without_paraphrases_are_counted_and_the_first_is_shown(tmp_path):
    with pytest.raises(InputError) as error:
        paraphrased(tmp_path, GOOD, ["three", "four " * 30, "five", "One film."])
    assert str(error.value).endswith(
        "paraphrases do not match: 2 of 4 unlabelled texts have none, the first is "
        f"'{('four ' * 30)[:59]}…'; add a line for each, with the very same text"
    )
    with pytest.raises(InputError, match=r"paraphrases .*nothing\.jsonl are not there; give a file of"):
        load_paraphrases(tmp_path / "nothing.jsonl", ["three"])
