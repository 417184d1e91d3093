"""From texts to batches: words, vocabularies and vectors, composed texts as numbers, rows of a length."""

import gzip
import random
from collections import Counter

import pytest
import torch
import torchtext.vocab
from hypothesis import given
from hypothesis import strategies as st

from whenpool import InputError, corpora
from whenpool.corpora.batches import Ragged, Texts, evaluation_batches, training_batches
from whenpool.corpora.dataset import encode, make_dataset
from whenpool.corpora.settings import FillerStream, compose
from whenpool.corpora.tokens import WordVectors, build_vocabulary, load_vectors, tokenize

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


def test_filler_that_is_used_up_is_begun_anew_and_counted(source, tmp_path, monkeypatch):
    few = {split: ["one two three four"] * 3 for split in ("train", "validation", "test")}
    monkeypatch.setattr(corpora.CorpusSource, "load_filler", lambda self: few)
    encoded = encode(source, "any", tmp_path / "other")
    dataset = make_dataset(encoded, size=40, setting="left")
    used = sum(-(-round(len(tokenize(t)) * 0.66 / 0.34) // 4) for t in source.load().train.texts)
    assert dataset.filler_passes["train"] == -(-used // 3)


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


@pytest.fixture
def vector_file(tmp_path):
    path = tmp_path / "small.3d.txt"
    path.write_text("good 1.0 2.0 3.0\nbad -1.0 0.5 0.0\n")
    return path


def test_tokens_are_lower_case_words_and_marks():
    assert tokenize("Well, it's GOOD!<br />Really?") == "well , it ' s good ! really ?".split()


def test_the_vocabulary_is_torchtexts(vector_file, tmp_path):
    draw = random.Random(0)
    counts = Counter("".join(draw.choices("abcé", k=draw.randrange(1, 4))) for _ in range(300))
    counts |= {"good": 3, "<pad>": 7, "never": 0}
    vectors, generator = load_vectors(vector_file, tmp_path), torch.Generator().manual_seed(1)
    found = build_vocabulary(counts, 40, vectors, generator)
    expected = torchtext.vocab.Vocab(counts, max_size=40, specials=("<unk>", "<pad>"))
    row_of = {word: row for row, word in enumerate(vectors.words)}
    generator.manual_seed(1)
    expected.set_vectors(row_of, vectors.matrix, 3, lambda row: row.normal_(generator=generator))
    assert found.itos == expected.itos
    assert found.stoi == dict(expected.stoi)
    assert torch.equal(found.vectors, expected.vectors)


def test_vectors_may_be_gzipped_and_are_cached_without_pickles(vector_file, tmp_path):
    zipped = tmp_path / "small.3d.txt.gz"
    zipped.write_bytes(gzip.compress(vector_file.read_bytes()))
    cache = tmp_path / "cache"
    first, second = load_vectors(zipped, cache), load_vectors(zipped, cache)
    assert first.words == second.words == ["good", "bad"]
    assert first.size == 3
    assert torch.equal(first.matrix, second.matrix)
    assert {file.suffix for file in (cache / "vectors").iterdir()} == {".txt", ".safetensors"}
    vector_file.write_text("other 1 2 3 4\n")
    again = load_vectors(vector_file, cache)  # a file that was replaced is read anew
    assert (again.words, again.size) == (["other"], 4)


@pytest.mark.parametrize("content", ["good 1 2 3\nbad 1 2\n", "good one two three\n", ""])
def test_unreadable_vectors_are_named_in_one_line(tmp_path, content):
    path = tmp_path / "broken.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=r"word vectors .*broken.txt cannot be read") as error:
        load_vectors(path, tmp_path)
    assert "\n" not in str(error.value)


def test_reads_the_true_beginning_of_glove(real_data, tmp_path):
    vectors = load_vectors(real_data / "vectors" / "glove.6B.100d.first2717.txt.gz", tmp_path)
    assert vectors.words[:3] == ["the", ",", "."]
    assert vectors.matrix.shape == (2717, 100)
    assert vectors.matrix[0, 0].item() == pytest.approx(-0.038194)


def test_poolings_and_seeds_share_texts_and_have_vectors_of_their_own(encoded):
    vectors = WordVectors(["the"], torch.ones(1, 3))
    first, again, other = (make_dataset(encoded, size=40, vectors=vectors, seed=n) for n in (0, 0, 1))
    assert first.train.ids.flat is other.train.ids.flat
    assert torch.equal(first.vectors, again.vectors)
    assert not torch.equal(first.vectors, other.vectors)
    assert make_dataset(encoded, size=40).vectors is None


ROWS = [[5, 6, 7], [8], [9, 10]]


def test_rows_come_back_and_a_batch_is_padded_on_the_right():
    ragged = Ragged.of(ROWS)
    assert ragged.to_lists() == [ragged.row(i).tolist() for i in range(3)] == ROWS
    assert ragged.lengths.tolist() == [3, 1, 2]
    assert ragged.first(2).to_lists() == ROWS[:2]
    assert len(Ragged.of([])) == 0
    texts = Texts(ragged, torch.tensor([0, 1, 2]))
    batch = texts.batch(torch.tensor([1, 0, 2]), padding_index=1)
    assert batch.ids.tolist() == [[8, 1, 1], [5, 6, 7], [9, 10, 1]]
    assert batch.lengths.tolist() == [1, 3, 2]
    assert batch.labels.tolist() == [1, 0, 2]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=400), st.integers(1, 40), st.integers(0, 3))
def test_training_batches_hold_every_text_once_and_depend_on_the_seed_alone(lengths, batch_size, seed):
    first, again = (
        training_batches(torch.tensor(lengths), batch_size, torch.Generator().manual_seed(seed))
        for _ in range(2)
    )
    assert sorted(torch.cat(first).tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= batch_size for batch in first)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_texts_of_a_batch_are_of_similar_length_and_batches_come_in_no_order():
    batches = training_batches(torch.arange(1, 3201), 32, torch.Generator().manual_seed(0))
    assert all(batch.max() - batch.min() == 31 for batch in batches)
    firsts = [int(batch.min()) for batch in batches]
    assert firsts != sorted(firsts)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(1, 2000))
def test_evaluation_batches_hold_every_text_once_within_the_budget(lengths, words):
    lengths = torch.tensor(lengths)
    batches = list(evaluation_batches(lengths, words))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= words
