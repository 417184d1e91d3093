"""Few-shot runs: which texts they read, other versions of unlabelled ones, what is stored and refused; and
the tables of "Learning under limited data", on invented runs."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from whenpool import InputError
from whenpool.corpora.corpus import Corpus, Split
from whenpool.fewshot.pretrained import MINILM
from whenpool.fewshot.selection import TfIdfReplacement, load_paraphrases, select
from whenpool.runs.compute import compute
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS, UNLABELLED, FewShot, read
from whenpool.runs.run import key

CORPUS = "synthetic:density=0.2,longest=14,shortest=8,test=30,train=80,validation=20"
SMALL = {
    "per_class": 2, "validation": 6, "test": 12, "max_tokens": 10, "steps": 4, "looks": 2,
    "batch_size": 2, "encoder": MINILM, "hidden_size": 4, "unlabelled": 30, "unlabelled_batch": 2,
    "topics": 4, "pretraining": 6,
}  # fmt: skip
RUNS = {system: FewShot(CORPUS, system, **SMALL) for system in (*SYSTEMS, *CONTRAST)}
TINY = RUNS["bert"]
TOLD = "the film is a dull film and the plot is thin", "the plot of the play is a joy", "a joy of a film"
SENTENCES = [text.split() for text in (*TOLD, "the end")]


def item(text, *paraphrases):
    return json.dumps({"text": text, "paraphrases": paraphrases})


GOOD = [item("One film.", "a", "b", "c"), item("Ünder\ntwo lines", "d", "e"), item("three", "f", "g")]


@pytest.fixture(scope="module")
def executed(shared):
    for run in RUNS.values():
        run.execute(shared)
    return shared


@pytest.mark.parametrize("seed", range(2))
def test_fewer_labels_are_part_of_more_and_a_seed_changes_the_labelled_texts_alone(seed):
    split = Split([f"other {number}" for number in range(4)], [0, 1, 0, 1])
    train = Split([f"text {number}" for number in range(100)], [0, 1, 0, 0, 1] * 20)
    corpus = Corpus(train, split, split, ("a", "b"), name="mine")
    few, more = (select(corpus, count, seed, 30, validation=2, test=3) for count in (3, 12))
    assert set(few.labelled.texts) < set(more.labelled.texts)
    for chosen, count in ((few, 3), (more, 12)):
        assert [chosen.labelled.labels.count(label) for label in (0, 1)] == [count, count]
        for text, label in chosen.labelled:
            assert train.labels[train.texts.index(text)] == label
        assert len(chosen.unlabelled) == len(set(chosen.unlabelled)) == 30
        assert not set(chosen.unlabelled) & set(chosen.labelled.texts)
    assert few.unlabelled == more.unlabelled
    assert select(corpus, 3, seed, 30, validation=2, test=3) == few
    other = select(corpus, 3, seed + 1, validation=2, test=3)
    assert set(few.labelled.texts) != set(other.labelled.texts)
    assert (few.validation, few.test) == (other.validation, other.test) == (split[:2], split[:3])


def test_every_system_leaves_a_row_that_gives_its_run_back(executed):
    table = executed.store.current("few-shot")
    assert set(table["system"]) == set(RUNS)
    counts = ["labelled_texts", "validation_texts", "test_texts", "steps_done"]
    assert (table[counts] == [4, 6, 12, 4]).all(axis=None)
    for row in table.to_dict("records"):
        run = RUNS[row["system"]]
        assert key(FewShot.of_row(row), executed) == row["key"] == key(run, executed)
        assert (
            (row["unlabelled_texts"] > 0) == (run.system in UNLABELLED) == (row["unlabelled_read"] > 0)
        )
        assert (row["encoder_parameters"] > 20e6) == run.has_encoder
        assert (row["parameters"] > 20e6) == (run.system in ("bert", "tmix", "uda", "mixtext"))


def test_what_a_run_needs_and_lacks_is_named(shared, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    run = replace(TINY, encoder="nobody/no-such-encoder")
    with pytest.raises(InputError, match="encoder 'nobody/no-such-encoder'"):
        compute([run], shared, say=lambda line: None)
    with pytest.raises(InputError, match="needs unlabelled texts, but all training texts"):
        replace(RUNS["uda"], corpus=CORPUS.replace("train=80", "train=4")).execute(shared)


def test_paraphrases_take_the_place_of_replaced_words(shared, tmp_path):
    _, chosen = read(RUNS["uda"], shared)
    file = tmp_path / "some.jsonl"
    run = replace(RUNS["uda"], paraphrases=str(file))
    file.write_text(item("another", "a text"))
    with pytest.raises(InputError, match=r"some\.jsonl"):
        run.execute(shared)
    file.write_text("\n".join(item(text, text.upper(), "other") for text in chosen.unlabelled))
    row = shared.store.get(run.execute(shared))
    assert row["identity"]["run"]["paraphrases"] == row["run"]["paraphrases"] == "some.jsonl"
    assert row["identity"]["data"]["paraphrases"]


def idf(word):
    return math.log(len(SENTENCES) / sum(word in text for text in SENTENCES))


@pytest.mark.parametrize("p", [0.1, 0.7, 1.0])
def test_words_go_the_likelier_the_less_they_say_about_their_text(p):
    replacement = TfIdfReplacement(SENTENCES, p)
    for text in SENTENCES:
        scores = np.array([text.count(word) / len(text) * idf(word) for word in text])
        room = scores.max() - scores
        expected = np.minimum(p * room / room.mean(), 1)
        assert replacement.probabilities(text) == pytest.approx(expected, abs=1e-12)


def paraphrased(folder, lines, texts):
    file = folder / "paraphrases.jsonl"
    file.write_text("\n".join(lines))
    return load_paraphrases(file, texts)


def test_paraphrases_come_in_the_order_of_the_texts_and_as_many_of_each(tmp_path):
    found = paraphrased(tmp_path, [*GOOD, "", "  "], ["three", "Ünder\ntwo lines", "One film.", "three"])
    assert found == [["f", "g"], ["d", "e"], ["a", "b"], ["f", "g"]]


@pytest.mark.parametrize("line", ["no json", '{"text": "three"}', item("  ", "f"), item("three")])
def test_a_line_that_cannot_be_used_is_named_with_its_number(tmp_path, line):
    with pytest.raises(InputError, match=r"paraphrases.jsonl, line 3: expected {\"text\""):
        paraphrased(tmp_path, [GOOD[0], "", line], ["One film."])
