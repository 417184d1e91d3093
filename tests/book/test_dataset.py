"""From texts to batches: words, vocabularies and vectors, composed texts as numbers, rows of a
length."""

import gzip
import random
import struct
from collections import Counter

import pytest
import torch
import torchtext.vocab
from called import refused
from hypothesis import given
from hypothesis import strategies as st

from paper.corpora.dataset import FillerStream, encode, make_dataset
from whenpool import corpora
from whenpool.corpora.batches import (
    PADDING_INDEX,
    UNKNOWN_INDEX,
    evaluation_batches,
    training_batches,
)
from whenpool.corpora.settings import SETTINGS, compose
from whenpool.corpora.tokens import (
    WordVectors,
    build_vocabulary,
    load_vectors,
    start_from,
    tokenize,
)

SOURCE = corpora.find("synthetic:train=40,validation=20,test=30,shortest=8,longest=12")


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    return encode(SOURCE, "any", tmp_path_factory.mktemp("cache"))


def words(texts, index, vocabulary):
    return [vocabulary[number] for number in texts.ids.row(index).tolist()]


@pytest.mark.parametrize("setting", SETTINGS)
def test_texts_are_what_compose_gives_word_by_word(encoded, setting):
    dataset, small = (make_dataset(encoded, size=size, setting=setting) for size in (40, 10))
    stream = FillerStream([*map(tokenize, SOURCE.load_filler()["train"])], "train filler")
    for index, (text, label) in enumerate(SOURCE.load().train):
        expected = compose(tokenize(text), stream, setting)
        assert words(dataset.train, index, dataset.vocabulary) == expected
        assert index >= 10 or words(small.train, index, small.vocabulary) == expected
        assert dataset.train.labels[index] == label
    assert (len(dataset.validation), len(dataset.test)) == (20, 30)
    assert dataset.filler_passes["train"] == stream.passes


def test_what_has_no_words_or_is_written_as_padding_is_unknown(tmp_path):
    path = tmp_path / "own.csv"
    rows = "".join(f"<PAD> word {i} <unk>,{i % 2}\n" for i in range(20))
    path.write_text(f"text,label\n{rows};,0\n;:,1\n")
    dataset = make_dataset(encode(corpora.find(str(path), tmp_path), "any", tmp_path), size=4)
    for texts in (dataset.train, dataset.validation, dataset.test):
        assert not (texts.ids.flat == PADDING_INDEX).any()
        assert {texts.ids.row(row)[0].item() for row in range(len(texts))} == {UNKNOWN_INDEX}


def test_a_file_that_has_changed_is_read_again_by_the_same_source(tmp_path):
    path = tmp_path / "own.csv"
    for word in ("old", "new"):
        path.write_text("text,label\n" + "".join(f"{word} {i},{i % 2}\n" for i in range(20)))
        source = corpora.find(str(path), tmp_path)
        assert word in encode(source, "any", tmp_path).words


def test_the_vocabulary_is_torchtexts():
    draw = random.Random(0)
    counts = Counter("".join(draw.choices("abcé", k=draw.randrange(1, 4))) for _ in range(300))
    counts |= {"good": 3, "<pad>": 7, "never": 0}
    vectors = WordVectors(["good", "bad"], torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]]))
    vocabulary = build_vocabulary(counts, 40)
    expected = torchtext.vocab.Vocab(counts, max_size=40, specials=("<unk>", "<pad>"))
    row_of = {word: row for row, word in enumerate(vectors.words)}
    generator = torch.Generator().manual_seed(1)
    expected.set_vectors(row_of, vectors.matrix, 3, lambda row: row.normal_(generator=generator))
    assert vocabulary == dict(expected.stoi)
    assert list(vocabulary) == expected.itos
    assert torch.equal(start_from(vectors, vocabulary, 1), expected.vectors)
    refused("no word of the texts has a vector", start_from, vectors, ["<unk>", "café"], 1)


@pytest.mark.parametrize("name", ["small.3d.txt.gz", "small.3d.txt"])
def test_vectors_may_be_gzipped_and_are_cached_without_pickles(tmp_path, name):
    path, cache = tmp_path / name, tmp_path / "cache"
    path.write_bytes(gzip.compress(b"good 1.0 2.0 3.0\nbad -1.0 0.5 0.0\n"))
    for _ in range(2):
        vectors = load_vectors(path, cache)
        assert (vectors.words, vectors.size) == (["good", "bad"], 3)
        assert vectors.matrix.tolist() == [[1, 2, 3], [-1, 0.5, 0]]
    assert {file.suffix for file in cache.rglob("*.*")} == {".safetensors"}
    path.write_bytes(gzip.compress(b"other 1 2 3 4\n"))  # a file that was replaced is read anew
    assert load_vectors(path, cache).words == ["other"]
    path.write_bytes(gzip.compress(b"good 1 2 3\n" * 9)[:-9])
    refused(r"word vectors .*small.3d.txt.*; fetch them again$", load_vectors, path, cache)


@pytest.mark.parametrize("first", ["at name@domain.com", ". . .", "2", ","])
def test_a_word_of_published_vectors_may_have_spaces(tmp_path, first):
    (tmp_path / "v.txt").write_text(f"{first} 0.5 -1 2e-3\nto name@domain.com 1 2 3\nword 1 2 3\n")
    vectors = load_vectors(tmp_path / "v.txt", tmp_path)
    assert vectors.words == [first, "to name@domain.com", "word"]
    assert vectors.matrix[0].tolist() == pytest.approx([0.5, -1, 0.002])


BINARY = b"2 2\n" + b"".join(word + struct.pack("<2f", 1, 0.1) for word in (b"good ", b"bad "))


@pytest.mark.parametrize(
    "message, content",
    {
        ": no line has a word and its numbers; fetch them again": b"",
        ", line 2: expected a word and 3 numbers, but found b'bad 1 2": b"good 1 2 3\nbad 1 2\n",
        ", line 3: expected a word and 2 numbers": b"good 1 2\n\nbad 1e39 2\n",
        ", line 2: expected a word and 3 numbers": b"good 1 2 3\nbad 1 2 3 4\n",
        ", line 2: expected a word and 2 numbers": b"good 1 2\n0.5 2\n",
        ".*save UTF-16 as UTF-8": "good 1 2\n".encode("utf-16"),
        ".*write a .bin of word2vec as text, with gensim: KeyedVectors": BINARY,
    }.items(),
)
def test_vectors_that_cannot_be_read_are_told_by_their_line(tmp_path, content, message):
    (tmp_path / "v.txt").write_bytes(content)
    refused(f"^word vectors .*v.txt{message}", load_vectors, tmp_path / "v.txt", tmp_path)


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=400), st.integers(1, 40), st.integers(0, 3)
)
def test_training_batches_hold_every_text_once_and_depend_on_the_seed_alone(
    lengths, batch_size, seed
):
    draws = (torch.Generator().manual_seed(seed) for _ in range(2))
    first, again = (training_batches(torch.tensor(lengths), batch_size, draw) for draw in draws)
    assert sorted(torch.cat(first).tolist()) == list(range(len(lengths)))
    assert max(map(len, first)) <= batch_size
    assert all(map(torch.equal, first, again))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(1, 2000))
def test_evaluation_batches_hold_every_text_once_within_the_budget(lengths, words):
    lengths = torch.tensor(lengths)
    batches = list(evaluation_batches(lengths, words))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= words
