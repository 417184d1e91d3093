"""Checkpoints: what is saved comes back, and nothing that is wrong with one goes further than a line."""

import json

import pytest
import torch

from whenpool import POOLINGS, InputError, TextClassifier, load_checkpoint, save_checkpoint
from whenpool.explain.checkpoint import FACTS_FILE, WEIGHTS_FILE

WORDS = ["<unk>", "<pad>", "a", "good", "bad", "film", "<script>"]
CLASSES = ["neg", "pos"]
TEXTS = ["A good film", "bad , bad", "nothing it knows of", "a"]


def small(pooling="max_attention", **options):
    torch.manual_seed(0)
    options = {"embedding_size": 4, "hidden_size": 3, "padding_index": 1} | options
    return TextClassifier(len(WORDS), 2, pooling, **options).eval()


class Other(TextClassifier):
    """Computes something else with the same weights."""


@pytest.fixture
def folder(tmp_path):
    return save_checkpoint(tmp_path / "model", small(), WORDS, CLASSES, test_accuracy=81.5, made="here")


@pytest.mark.parametrize(("pooling", "options"), [
    *((pooling, {}) for pooling in POOLINGS),
    ("attention", {"cell": "elman", "layers": 3}), ("max", {"cell": "mingru", "layers": 2}),
    ("last", {"cell": "tanh_sum", "embedding_size": 6, "hidden_size": 6}),
    ("last_attention", {"bidirectional": False, "drop_connect": 0.25}), ("mean", {"masked": False}),
    ("last", {"forget_bias": "chrono", "orthogonal": True}),
    ("attention", {"cell": "transformer", "embedding_size": 6, "hidden_size": 8, "layers": 2}),
], ids=str)  # fmt: skip
def test_every_kind_of_model_comes_back_the_same(tmp_path, pooling, options):
    model = small(pooling, **options)
    folder = save_checkpoint(tmp_path / "one" / "two", model, WORDS, CLASSES)
    before = torch.random.get_rng_state()
    found = load_checkpoint(folder)
    assert torch.equal(before, torch.random.get_rng_state())
    ids, lengths = found.encode(TEXTS)
    assert torch.equal(found.model(ids, lengths), model(ids, lengths))
    assert not found.model.training
    assert found.model.encoder.drop_connect == model.encoder.drop_connect
    assert (found.vocabulary, found.classes) == (tuple(WORDS), tuple(CLASSES))


def test_texts_are_read_as_in_training_and_classified(folder):
    found = load_checkpoint(folder)
    ids, lengths = found.encode(TEXTS)
    assert ids.tolist() == [[2, 3, 5, 1], [4, 0, 4, 1], [0, 0, 0, 0], [2, 1, 1, 1]]
    assert lengths.tolist() == [3, 3, 4, 1]
    probabilities = found.probabilities(TEXTS)
    torch.testing.assert_close(probabilities, small()(ids, lengths).softmax(1))
    assert found.predict(TEXTS) == [CLASSES[i] for i in probabilities.argmax(1)]
    assert found.knows("film")
    assert not found.knows("nothing")
    assert found.about == {"test_accuracy": 81.5, "made": "here"}


@pytest.mark.parametrize(("most", "tokenizer", "words"), [
    (None, "basic_english", ["<b>ab</b>", "c"]), (1, "untagged", ["ab"]),
])  # fmt: skip
def test_texts_are_read_and_cut_as_in_training(tmp_path, most, tokenizer, words):
    found = load_checkpoint(save_checkpoint(tmp_path, small(), WORDS, CLASSES, most, tokenizer))
    assert (found.max_words, found.words("<b>Ab</b> C")) == (most, words)


def test_texts_that_cannot_be_read_are_named(folder):
    given = ("a film", "a list, not one string"), ([], "no texts"), (["a", " "], "text 1 has no words")
    for texts, message in given:
        with pytest.raises(InputError, match=message):
            load_checkpoint(folder).predict(texts)


@pytest.mark.parametrize(("change", "message"), [
    ({"model": Other(7, 3)}, "only a whenpool.TextClassifier can be saved, not Other"),
    ({"vocabulary": WORDS[:-1]}, "does not describe the weights: .*size mismatch for embedding.weight"),
    ({"vocabulary": WORDS[::-1]}, "vocabulary must begin with <unk> and <pad>"),
    ({"classes": ["a", 1]}, "classes must be a list of at least two different words"),
    ({"max_words": 0}, "max_words must be at least 1, or null, not 0"),
    ({"tokenizer": "spacy"}, "tokenizer 'spacy' is unknown; choose one of basic_english"),
])  # fmt: skip
def test_what_could_not_be_read_again_is_not_saved(tmp_path, change, message):
    given = {"model": small(), "vocabulary": WORDS, "classes": CLASSES} | change
    with pytest.raises(InputError, match=message):
        save_checkpoint(tmp_path / "model", **given)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(("change", "message"), [
    (b"\xff\xfe{}", "is damaged"), (b"{}", "is damaged .KeyError: 'format'"),
    ({"version": 2}, "model.json: another whenpool saved it"),
    ({"model": {"pooling": "median"}}, "does not describe the weights: pooling .median. is unknown"),
    ({"model": {"hidden_size": 4}}, "model.json does not describe the weights: .*size mismatch"),
])  # fmt: skip
def test_a_description_that_is_wrong_is_named(folder, change, message):
    file = folder / FACTS_FILE
    if isinstance(change, dict):
        facts = json.loads(file.read_text())
        change = facts | change | {"model": facts["model"] | change.get("model", {})}
    file.write_bytes(change if isinstance(change, bytes) else json.dumps(change).encode())
    with pytest.raises(InputError, match=message) as error:
        load_checkpoint(folder)
    assert str(folder) in str(error.value)


def test_weights_that_are_damaged_or_missing_are_told(folder):
    file = folder / WEIGHTS_FILE
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match=r"model\.safetensors does not belong to its model\.json"):
        load_checkpoint(folder)
    for name in (WEIGHTS_FILE, FACTS_FILE):
        (folder / name).unlink()
        with pytest.raises(InputError, match=f"is not the folder of a saved model: it has no {name}"):
            load_checkpoint(folder)
