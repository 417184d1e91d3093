"""Encoding, composing and renumbering."""

import pytest
import torch

from whenpool import InputError, corpora
from whenpool.corpora.dataset import encode, make_dataset
from whenpool.corpora.settings import FillerStream, compose
from whenpool.corpora.tokens import tokenize

SPEC = "synthetic:train=40,validation=20,test=30,shortest=8,longest=12"


@pytest.fixture
def source():
    return corpora.find(SPEC)


@pytest.fixture
def encoded(source, tmp_path):
    return encode(source, "any", tmp_path / "cache")


def words(texts, index, vocabulary):
    return [vocabulary[number] for number in texts.ids.row(index).tolist()]


def test_standard_texts_come_back_word_by_word(source, encoded):
    corpus = source.load()
    dataset = make_dataset(encoded, size=40)
    for index, (text, label) in enumerate(corpus.train):
        assert words(dataset.train, index, dataset.vocabulary) == tokenize(text)
        assert dataset.train.labels[index] == label
    assert len(dataset.validation) == 20
    assert len(dataset.test) == 30
    assert dataset.filler_passes == {"train": 0, "validation": 0, "test": 0}


@pytest.mark.parametrize("setting", ["left", "mid", "right"])
def test_composed_texts_are_what_compose_gives(source, encoded, setting):
    corpus, filler = source.load(), source.load_filler()
    dataset = make_dataset(encoded, size=40, setting=setting)
    stream = FillerStream([tokenize(sentence) for sentence in filler["train"]], "train filler")
    for index, (text, _) in enumerate(corpus.train):
        expected = compose(tokenize(text), stream, setting)
        assert words(dataset.train, index, dataset.vocabulary) == expected


def test_unseen_words_of_other_splits_are_unknown(source, encoded):
    corpus = source.load()
    dataset = make_dataset(encoded, size=3, validation=5)
    known = {word for text in corpus.train.texts[:3] for word in tokenize(text)}
    assert set(dataset.vocabulary) == known | {"<unk>", "<pad>"}
    for index in range(30):
        expected = [word if word in known else "<unk>" for word in tokenize(corpus.test[index].text)]
        assert words(dataset.test, index, dataset.vocabulary) == expected


def test_smaller_training_sets_are_part_of_larger_ones_filler_included(encoded):
    small, large = (make_dataset(encoded, size=n, setting="mid") for n in (10, 40))
    for index in range(10):
        assert words(small.train, index, small.vocabulary) == words(large.train, index, large.vocabulary)


def test_a_seed_changes_no_text(encoded):
    first, second = (make_dataset(encoded, size=10, setting="mid", seed=seed) for seed in (0, 1))
    assert torch.equal(first.train.ids.flat, second.train.ids.flat)
    assert torch.equal(first.test.ids.flat, second.test.ids.flat)


def test_filler_that_is_used_up_is_begun_anew_and_counted(source, tmp_path, monkeypatch):
    few = {split: ["one two three four"] * 3 for split in ("train", "validation", "test")}
    monkeypatch.setattr(corpora.CorpusSource, "load_filler", lambda self: few)
    encoded = encode(source, "any", tmp_path / "other")
    dataset = make_dataset(encoded, size=40, setting="left")
    used = sum(-(-round(len(tokenize(t)) * 0.66 / 0.34) // 4) for t in source.load().train.texts)
    assert dataset.filler_passes["train"] == -(-used // 3)


def test_texts_can_be_cut_before_composing(source, encoded):
    dataset = make_dataset(encoded, size=10, setting="right", max_words=4)
    text = tokenize(source.load().train[0].text)
    assert words(dataset.train, 0, dataset.vocabulary)[-4:] == text[:4]
    assert dataset.train.ids.lengths.tolist() == [4 + round(4 * 0.66 / 0.34)] * 10


def test_encoding_is_read_back_from_the_cache(source, tmp_path, monkeypatch):
    first = encode(source, "any", tmp_path / "c")
    encode.cache_clear()
    monkeypatch.setattr(corpora.CorpusSource, "load", lambda *_: pytest.fail("encoded twice"))
    second = encode(source, "any", tmp_path / "c")
    assert second.words == first.words
    assert torch.equal(second.texts["test"].ids.flat, first.texts["test"].ids.flat)
    assert second.classes == first.classes


def test_a_text_without_tokens_is_one_unknown_word(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("text,label\n" + "".join(f"word {i},{i % 2}\n" for i in range(20)) + ";,0\n;:,1\n")
    encoded = encode(corpora.find(str(path), tmp_path), "any", tmp_path)
    lengths = torch.cat([texts.ids.lengths for texts in encoded.texts.values()])
    assert lengths.min() == 1
    assert sum(len(texts) for texts in encoded.texts.values()) == 22


def test_without_filler_the_standard_setting_still_works(tmp_path, monkeypatch):
    def none_there(self):
        raise InputError("no filler sentences")

    monkeypatch.setattr(corpora.CorpusSource, "filler_fingerprint", none_there)
    encoded = encode(corpora.find(SPEC), "any", tmp_path / "none")
    assert len(make_dataset(encoded, size=5).train) == 5
    with pytest.raises(InputError, match="setting 'mid' needs filler sentences"):
        make_dataset(encoded, size=5, setting="mid")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"size": 41}, "the corpus has 40 train texts, 41 were asked for"),
        ({"size": 0}, "0 were asked for"),
        ({"size": 4, "validation": 21}, "20 validation texts, 21 were asked for"),
        ({"size": 4, "test": 31}, "30 test texts, 31 were asked for"),
        ({"size": 4, "setting": "centre"}, "setting 'centre' is unknown"),
    ],
)
def test_more_than_there_is_is_named(encoded, asked, message):
    with pytest.raises(InputError, match=message):
        make_dataset(encoded, **asked)
