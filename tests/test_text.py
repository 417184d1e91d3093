"""Vocabularies and word vectors by torchtext."""

import gzip
import pickle
import ssl

import pytest
import torch

from whenpool import InputError
from whenpool.corpora.tokens import (
    PADDING_INDEX,
    UNKNOWN_INDEX,
    build_vocabulary,
    load_vectors,
    tokenize,
)


@pytest.fixture
def vector_file(tmp_path):
    path = tmp_path / "small.3d.txt"
    path.write_text("good 1.0 2.0 3.0\nbad -1.0 0.5 0.0\n")
    return path


def test_tokens_are_lower_case_words_and_marks():
    assert tokenize("Well, it's GOOD!<br />Really?") == [
        "well",
        ",",
        "it",
        "'",
        "s",
        "good",
        "!",
        "really",
        "?",
    ]


def test_vocabulary_goes_from_frequent_to_rare_and_is_capped():
    vocabulary = build_vocabulary({"rare": 1, "b": 2, "a": 2, "the": 9, "<pad>": 50}, limit=3)
    assert vocabulary.itos == ["<unk>", "<pad>", "the", "a", "b"]
    assert vocabulary.stoi["<unk>"] == UNKNOWN_INDEX
    assert vocabulary.stoi["<pad>"] == PADDING_INDEX
    assert vocabulary.stoi["rare"] == UNKNOWN_INDEX


def test_known_words_get_their_vector_and_others_a_normal_one(vector_file, tmp_path):
    vectors = load_vectors(vector_file, tmp_path)
    counts = {"good": 3, "new": 2} | {f"w{i}": 1 for i in range(2000)}

    def build(seed):
        generator = torch.Generator().manual_seed(seed)
        return build_vocabulary(counts, vectors=vectors, generator=generator)

    vocabulary = build(0)
    rows = vocabulary.vectors
    assert rows[vocabulary.stoi["good"]].tolist() == [1.0, 2.0, 3.0]
    drawn = torch.cat([rows[:2], rows[3:]])
    assert drawn.mean().item() == pytest.approx(0, abs=0.06)
    assert drawn.std().item() == pytest.approx(1, abs=0.06)
    assert torch.equal(build(0).vectors, rows)
    assert not torch.equal(build(1).vectors, rows)


def test_vectors_may_be_gzipped_and_are_cached_without_pickles(vector_file, tmp_path):
    zipped = tmp_path / "small.3d.txt.gz"
    zipped.write_bytes(gzip.compress(vector_file.read_bytes()))
    cache = tmp_path / "cache"
    first, second = load_vectors(zipped, cache), load_vectors(zipped, cache)
    assert first.words == second.words == ["good", "bad"]
    assert first.size == 3
    assert torch.equal(first.matrix, second.matrix)
    for file in cache.rglob("*"):
        if file.is_file():
            with pytest.raises(
                (pickle.UnpicklingError, ValueError, EOFError, AttributeError, ImportError)
            ):
                pickle.loads(file.read_bytes())


def test_a_replaced_file_is_read_anew(vector_file, tmp_path):
    load_vectors(vector_file, tmp_path)
    vector_file.write_text("other 1 2 3 4\n")
    again = load_vectors(vector_file, tmp_path)
    assert (again.words, again.size) == (["other"], 4)


def test_reading_vectors_leaves_certificates_checked(vector_file, tmp_path):
    before = ssl._create_default_https_context
    load_vectors(vector_file, tmp_path)
    assert ssl._create_default_https_context is before


@pytest.mark.parametrize("content", ["good 1 2 3\nbad 1 2\n", "good one two three\n", ""])
def test_unreadable_vectors_are_named_in_one_line(tmp_path, content):
    path = tmp_path / "broken.txt"
    path.write_text(content)
    with pytest.raises(InputError, match=r"word vectors .*broken.txt cannot be read") as error:
        load_vectors(path, tmp_path)
    assert "\n" not in str(error.value)


def test_missing_vectors_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none.txt are not there"):
        load_vectors(tmp_path / "none.txt", tmp_path)


def test_reads_the_true_beginning_of_glove(real_data, tmp_path):
    vectors = load_vectors(real_data / "vectors" / "glove.6B.100d.first2717.txt.gz", tmp_path)
    assert vectors.words[:3] == ["the", ",", "."]
    assert vectors.matrix.shape == (2717, 100)
    assert vectors.matrix[0, 0].item() == pytest.approx(-0.038194)
