"""Few-shot runs: which texts they read, what is stored, and what they refuse."""

import copy
import json
from dataclasses import replace

import pytest
import torch

from whenpool import InputError, TextClassifier
from whenpool.corpora.batches import Texts
from whenpool.corpora.corpus import Corpus, Split
from whenpool.corpora.dataset import Splits
from whenpool.fewshot import load_encoder
from whenpool.fewshot.pretrained import MINILM
from whenpool.fewshot.selection import select
from whenpool.runs.compute import compute, standing
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS, FewShot, passes_of, read, steps_of
from whenpool.runs.plans.few_shot import LABELS
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store
from whenpool.training.loop import Recipe, train

CORPUS = "synthetic:density=0.2,longest=14,shortest=8,test=30,train=80,validation=20"
SMALL = {
    "per_class": 2, "validation": 6, "test": 12, "max_tokens": 10, "steps": 4, "looks": 2,
    "batch_size": 2, "encoder": MINILM, "hidden_size": 4, "unlabelled": 30, "unlabelled_batch": 2,
    "topics": 4, "pretraining": 6,
}  # fmt: skip
RUNS = {system: FewShot(CORPUS, system, **SMALL) for system in (*SYSTEMS, *CONTRAST)}
TINY = RUNS["bert"]


def corpus_of(labels, classes=("a", "b")):
    texts = [f"text {number}" for number in range(len(labels))]
    split = Split([f"other {number}" for number in range(4)], [0, 1, 0, 1])
    return Corpus(Split(texts, labels), split, split, classes, name="mine")


@pytest.fixture(scope="module")
def executed(shared):
    """A run of every system."""
    for run in RUNS.values():
        run.execute(shared)
    return shared


# which texts


@pytest.mark.parametrize("seed", range(5))
def test_fewer_labels_are_part_of_more_and_unlabelled_texts_stay_the_same(seed):
    corpus = corpus_of([0, 1, 0, 0, 1] * 20)
    few, more = (select(corpus, count, seed, unlabelled=30) for count in (3, 12))
    assert set(few.labelled.texts) < set(more.labelled.texts)
    for chosen, count in ((few, 3), (more, 12)):
        assert [chosen.labelled.labels.count(label) for label in (0, 1)] == [count, count]
        for text, label in chosen.labelled:
            assert corpus.train.labels[corpus.train.texts.index(text)] == label
        assert len(chosen.unlabelled) == len(set(chosen.unlabelled)) == 30
        assert not set(chosen.unlabelled) & set(chosen.labelled.texts)
    assert few.unlabelled == more.unlabelled


def test_another_seed_labels_other_texts_and_tests_on_the_same():
    corpus = corpus_of([0, 1] * 50)
    first, second = (select(corpus, 5, seed, validation=2, test=3) for seed in (0, 1))
    assert set(first.labelled.texts) != set(second.labelled.texts)
    assert first.validation == second.validation == corpus.validation[:2]
    assert first.test == second.test == corpus.test[:3]
    assert select(corpus, 5, 0, validation=2, test=3) == first


# how long they train


@pytest.mark.parametrize("per_class", LABELS)
@pytest.mark.parametrize("classes", [2, 10])
def test_the_number_of_steps_hardly_depends_on_the_number_of_labels(per_class, classes):
    run = replace(TINY, steps=200, looks=5, batch_size=8)
    looks, passes = passes_of(run, per_class * classes)
    per_pass = -(-per_class * classes // 8)
    assert steps_of(run, per_class * classes) == looks * passes * per_pass
    assert abs(looks * passes * per_pass - 200) <= per_pass * passes
    assert 1 <= looks <= 5


def test_passes_between_two_looks_are_an_epoch_of_the_training(shared):
    _, chosen = read(RUNS["last_words"], shared)
    ids, _ = load_encoder(MINILM).tokenize(chosen.labelled.texts, 16)
    own = Texts(ids, torch.tensor(chosen.labelled.labels))

    def steps(recipe):
        torch.manual_seed(0)
        model, seen = TextClassifier(31_000, 2, embedding_size=4, hidden_size=4), []
        return train(model, Splits(own, own, own), recipe, 0, watch=seen.append), seen

    once, seen_once = steps(Recipe(epochs=6, batch_size=2))
    twice, seen_twice = steps(Recipe(epochs=2, batch_size=2, passes=3))
    assert seen_once == seen_twice
    assert (len(once.history), len(twice.history)) == (6, 2)
    assert once.words == twice.words
    for number, epoch in enumerate(twice.history):
        three = once.history[3 * number : 3 * number + 3]
        assert epoch.validation_loss == three[-1].validation_loss
        assert epoch.train_loss == pytest.approx(sum(e.train_loss for e in three) / 3)


# what is stored


def test_every_system_leaves_a_row_that_gives_its_run_back(executed):
    table = executed.store.current("few-shot")
    assert set(table["system"]) == set(RUNS)
    for row in table.to_dict("records"):
        run = RUNS[row["system"]]
        assert key(FewShot.of_row(row), executed) == row["key"] == key(run, executed)
        assert 0 <= row["test_accuracy"] <= 100
        assert (row["labelled_texts"], row["validation_texts"], row["test_texts"]) == (4, 6, 12)
        assert row["steps_done"] == 4
        assert (row["unlabelled_texts"] > 0) == run.reads_unlabelled == (row["unlabelled_read"] > 0)
        assert (row["encoder_parameters"] > 20e6) == run.has_encoder
        assert (row["parameters"] > 20e6) == (run.system in ("bert", "tmix", "uda", "mixtext"))
        assert row["majority_accuracy"] >= 50
    assert executed.store.rows("training").empty
    assert executed.store.rows("probe").empty


# records


def test_runs_of_record_count_where_their_data_are_not(executed, tmp_path):
    table = executed.store.rows("few-shot")
    (tmp_path / "records").mkdir()
    table.assign(corpus="imdb").to_csv(tmp_path / "records" / "few_shots.csv", index=False)
    place = Place(Store(tmp_path / "store", tmp_path / "records"), tmp_path, tmp_path)
    asked = [replace(run, corpus="imdb") for run in RUNS.values()]
    found = standing(asked, place)
    assert found.elsewhere == set(asked)
    for other in ({"paraphrases": "/nowhere/p.jsonl"}, {"replaced": 0.2}, {"seed": 5}):
        assert standing([replace(asked[4], **other)], place).absent


# what is refused


def test_an_encoder_that_is_not_here_is_said_before_any_work(shared, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    run = replace(TINY, encoder="nobody/no-such-encoder")
    with pytest.raises(InputError, match="encoder 'nobody/no-such-encoder'"):
        compute([run], shared, say=lambda line: None)


def test_paraphrases_that_are_not_there_or_do_not_match_are_named(shared, tmp_path):
    run = replace(RUNS["uda"], paraphrases=str(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match=r"paraphrases .*none.jsonl are not there"):
        key(run, shared)
    file = tmp_path / "some.jsonl"
    file.write_text(json.dumps({"text": "another", "paraphrases": ["a text"]}) + "\n")
    with pytest.raises(InputError, match=r"some\.jsonl"):
        replace(run, paraphrases=str(file)).execute(shared)


def test_paraphrases_take_the_place_of_replaced_words(shared, tmp_path):
    _, chosen = read(RUNS["uda"], shared)
    file = tmp_path / "some.jsonl"
    lines = [json.dumps({"text": t, "paraphrases": [t.upper(), "other"]}) for t in chosen.unlabelled]
    file.write_text("\n".join(lines))
    run = replace(RUNS["uda"], paraphrases=str(file))
    row = shared.store.get(run.execute(shared))
    assert row["identity"]["run"]["paraphrases"] == "some.jsonl"
    assert row["identity"]["data"]["paraphrases"]
    assert row["run"]["paraphrases"] == "some.jsonl"


def test_without_unlabelled_texts_a_system_that_needs_them_says_so(shared):
    everything = CORPUS.replace("train=80", "train=4")
    run = replace(RUNS["uda"], corpus=everything)
    with pytest.raises(InputError, match="needs unlabelled texts, and all training texts"):
        run.execute(shared)


def test_a_file_that_was_changed_is_read_anew(shared, tmp_path):
    file = tmp_path / "mine.csv"
    run = replace(RUNS["last_words"], corpus=str(file), per_class=1)
    for word in ("first", "second"):
        rows = [f"{word} text number {n},{'ab'[n % 2]}" for n in range(60)]
        file.write_text("\n".join(["text,label", *rows]))
        _, chosen = read(run, shared)
        assert chosen.labelled.texts[0].startswith(word)


def test_training_leaves_the_shared_encoder_as_it_is(executed):
    before = copy.deepcopy(load_encoder(MINILM).model.state_dict())
    replace(RUNS["uda"], seed=9).execute(executed)
    after = load_encoder(MINILM).model
    assert not after.training
    assert all(torch.equal(before[name], value) for name, value in after.state_dict().items())
