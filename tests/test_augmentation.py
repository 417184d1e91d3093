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


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_p_that_is_no_probability_is_named(p):
    with pytest.raises(InputError, match="p is the mean probability of a replacement, from 0 to 1, not"):
        TfIdfReplacement(TEXTS, p)


@pytest.mark.parametrize("texts", [[], [[]]])
def test_texts_without_words_are_named(texts):
    with pytest.raises(InputError, match="word replacement counts words first, and the texts have none"):
        TfIdfReplacement(texts)


# --- paraphrases ---


def written(folder, *items, encoding="utf-8"):
    file = folder / "paraphrases.jsonl"
    lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
    file.write_text("\n".join(lines), encoding)
    return file


def item(text, *paraphrases):
    return {"text": text, "paraphrases": list(paraphrases)}


GOOD = [item("One film.", "a", "b", "c"), item("Ünder\ntwo lines", "d", "e"), item("three", "f", "g")]


def test_paraphrases_come_in_the_order_of_the_texts_and_as_many_of_each(tmp_path):
    file = written(tmp_path, *GOOD, "", "  ")
    found = load_paraphrases(file, ["three", "Ünder\ntwo lines", "One film.", "three"])
    assert found == [["f", "g"], ["d", "e"], ["a", "b"], ["f", "g"]]
    assert load_paraphrases(file, ["One film."]) == [["a", "b", "c"]]
    assert load_paraphrases(file, []) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", "not JSON (Expecting value: line 1 column 1 (char 0))"),
        ('["three", ["f"]]', "not an object"),
        ({"paraphrases": ["f"]}, "'text' is missing"),
        ({"text": "three"}, "'paraphrases' is missing"),
        (item("  ", "f"), "'text' is no text, or an empty one"),
        ({"text": 3, "paraphrases": ["f"]}, "'text' is no text, or an empty one"),
        (item("three"), "'paraphrases' is not a list of at least one text, none of them empty"),
        (item("three", "f", " "), "'paraphrases' is not a list of at least one text, none of them"),
        (item("three", 5), "'paraphrases' is not a list of at least one text, none of them empty"),
        ({"text": "three", "paraphrases": "f"}, "'paraphrases' is not a list of at least one text"),
        ("[" * 100_000, "brackets in too many brackets"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_number(tmp_path, line, message):
    file = written(tmp_path, GOOD[0], "", line)
    with pytest.raises(InputError) as error:
        load_paraphrases(file, ["One film."])
    assert str(error.value).startswith(f"{file} line 3: {message}")
    assert str(error.value).endswith('; write {"text": "...", "paraphrases": ["...", ...]}')
    assert "\n" not in str(error.value)


def test_a_text_in_two_lines_is_named_with_both(tmp_path):
    file = written(tmp_path, *GOOD, item("One film.", "z"))
    with pytest.raises(InputError) as error:
        load_paraphrases(file, ["three"])
    assert str(error.value) == (
        f"{file} line 4: the text of line 1 again, 'One film.'; put all paraphrases of a text into one "
        "line"
    )


def test_texts_without_paraphrases_are_counted_and_the_first_is_shown(tmp_path):
    file = written(tmp_path, *GOOD)
    with pytest.raises(InputError) as error:
        load_paraphrases(file, ["three", "four " * 30, "five", "One film."])
    assert str(error.value) == (
        f"{file}: paraphrases do not match: 2 of 4 unlabelled texts have none, the first is "
        f"'{('four ' * 30)[:59]}…'; add a line for each, with the very same text"
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"paraphrases .*nothing\.jsonl are not there; give a file of"):
        load_paraphrases(tmp_path / "nothing.jsonl", ["three"])
    with pytest.raises(InputError, match="paraphrases .* cannot be read: Is a directory"):
        load_paraphrases(tmp_path, ["three"])
    latin = written(tmp_path, json.dumps({"text": "ü"}, ensure_ascii=False), encoding="latin-1")
    with pytest.raises(InputError, match="paraphrases .* are not UTF-8 text; save the file as UTF-8"):
        load_paraphrases(latin, ["three"])
