"""Checkpoints: what is saved comes back, and nothing that is wrong with one goes further than a line."""

import json

import pytest
import safetensors.torch
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


ENDLESS = small()
ENDLESS.classifier.bias.data[0] = torch.inf


@pytest.fixture
def folder(tmp_path):
    return save_checkpoint(tmp_path / "model", small(), WORDS, CLASSES, test_accuracy=81.5, made="here")


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("options", [
    {}, {"cell": "gru"}, {"cell": "elman", "layers": 3},
    {"cell": "tanh_sum", "embedding_size": 6, "hidden_size": 6}, {"cell": "mingru", "layers": 2},
    {"bidirectional": False, "drop_connect": 0.25}, {"masked": False},
    {"forget_bias": "chrono", "orthogonal": True},
    {"cell": "transformer", "embedding_size": 6, "hidden_size": 8, "layers": 2},
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


@pytest.mark.parametrize("most", [None, 2])
def test_texts_are_read_and_cut_as_in_training(tmp_path, most):
    expected = {"basic_english": "<b>ab</b> c", "untagged": "ab c", "characters": "a b c"}
    for tokenizer, read in expected.items():
        found = load_checkpoint(save_checkpoint(tmp_path, small(), WORDS, CLASSES, most, tokenizer))
        assert (found.max_words, found.words("<b>Ab</b> C")) == (most, read.split()[:most])


def test_texts_that_cannot_be_read_are_named(folder):
    given = ("a film", "a list, not one string"), ([], "no texts"), (["a", " "], "text 1 has no words")
    for texts, message in given:
        with pytest.raises(InputError, match=message):
            load_checkpoint(folder).predict(texts)


@pytest.mark.parametrize(("change", "message"), [
    ({"model": torch.nn.Linear(2, 2)}, "only a whenpool.TextClassifier can be saved, not Linear"),
    ({"model": Other(7, 3)}, "only a whenpool.TextClassifier can be saved, not Other"),
    ({"model": ENDLESS}, "classifier.bias has numbers that are not finite"),
    ({"vocabulary": WORDS[:-1]}, "embedding.weight has 7 rows, but vocabulary 6 entries"),
    ({"classes": ["a", 1]}, r"classes\[1\] must be a word, not 1"),
    ({"seconds": float("nan")}, "about.seconds must be a text, .* not nan"),
    ({"max_words": True}, "max_words must be a whole number or null, not True"),
])  # fmt: skip
def test_what_could_not_be_read_again_is_not_saved(tmp_path, change, message):
    given = {"model": small(), "vocabulary": WORDS, "classes": CLASSES} | change
    with pytest.raises(InputError, match=message):
        save_checkpoint(tmp_path / "model", **given)
    assert not (tmp_path / "model").exists()


def rewritten(folder, change):
    file = folder / FACTS_FILE
    if isinstance(change, bytes):
        return file.write_bytes(change)
    facts, (name, *value) = json.loads(file.read_text()), change
    place = facts["model"] if name.startswith("model.") else facts
    place.pop(name.removeprefix("model."), None)
    place |= {name.removeprefix("model."): one for one in value}
    return file.write_text(json.dumps(facts))


@pytest.mark.parametrize(("change", "message"), [
    (b'{"format": "when', "model.json is damaged"), (b"\xff\xfe{}", "model.json is damaged"),
    (b"[" * 200_000, "model.json is damaged"),
    (("format", "pickle"), "format is not 'whenpool-checkpoint'"),
    (("version", True), "version is True, but this whenpool reads 1"),
    (("tokenizer", "spacy"), "tokenizer must be basic_english or untagged or characters, not 'spacy'"),
    (("weights", 7), "weights must be a text, not 7"),
    (("model", []), r"model must be an object, not \[\]"),
    (("model.pooling", "median"), "pooling 'median' is unknown; choose one of last"),
    (("model.cell",), "model.cell must be a text, not missing"),
    (("model.cell", "gru"), "encoder.layers.0.0.*shape"),
    (("model.cell", "sum"), "model.json: cell Sum adds words to its state"),
    (("model.hidden_size", 3.0), r"model.hidden_size must be a whole number, not 3\.0"),
    (("model.hidden_size", 2**20), "model.safetensors: .*, but the model described has"),
    (("model.hidden_size", 10**400), "model.hidden_size must be a whole number from 1 to 1,048,576"),
    (("model.layers", 64), r"is not there, but the model described has"),
    (("model.masked", None), "model.masked must be true or false, not None"),
    (("model.padding_index", 7), "model.padding_index must be 1 or null, not 7"),
    (("model.__class__", "os.system"), "model.__class__ is unknown; use the whenpool that"),
    (("classes", ["a"]), r"classes must be a list of at least two words, not \['a'\]"),
    (("classes", ["a", "b", "c"]), "classifier.weight has 2 rows, but classes 3 entries"),
    (("vocabulary", WORDS[::-1]), "vocabulary must be '<unk>', '<pad>' and words, not"),
    (("vocabulary", [*WORDS[:-1], "a"]), r"a list of different words, not \['a', 'a'\]"),
    (("vocabulary", [*WORDS[:-1], "\ud800"]), "has half of a character in it"),
    (("about", {"a": {}}), "about.a must be a text, number"),
    (("max_words", -1), "max_words must be a whole number from 1, or null, not -1"),
], ids=lambda given: str(given)[:60])  # fmt: skip
def test_a_field_that_is_wrong_is_named_with_its_file(folder, change, message):
    rewritten(folder, change)
    with pytest.raises(InputError, match=message) as error:
        load_checkpoint(folder)
    assert str(folder) in str(error.value)
    assert len(str(error.value)) < 500


def test_weights_that_are_damaged_are_told(folder):
    file = folder / WEIGHTS_FILE
    whole = file.read_bytes()
    changed = whole[:-1] + bytes([whole[-1] ^ 1])
    for broken in (b"", whole[:7], whole[:-1], whole[:100], b"\xff" * 64, whole + b"\0", changed):
        file.write_bytes(broken)
        with pytest.raises(InputError, match=r"model\.safetensors (is damaged|does not belong)"):
            load_checkpoint(folder)


@pytest.mark.parametrize(("tensors", "message"), [
    ({}, "embedding.weight has 0 rows"),
    ({"embedding.weight": torch.zeros(7, 4, dtype=torch.float64)}, "must be F32, not F64"),
    ({"extra": torch.zeros(1)}, r"extra has the shape \(1,\), but the model described has none"),
    ({"classifier.bias": torch.ones(2)}, "does not belong to its"),
])  # fmt: skip
def test_other_tensors_are_told_by_name(folder, tensors, message):
    kept = {name: value.contiguous() for name, value in small().state_dict().items() if tensors}
    safetensors.torch.save_file(kept | tensors, folder / WEIGHTS_FILE)
    with pytest.raises(InputError, match=message):
        load_checkpoint(folder)


def test_saving_again_replaces_and_what_is_mixed_or_missing_is_named(tmp_path, folder):
    other = save_checkpoint(tmp_path / "other", small("attention"), WORDS, CLASSES)
    (folder / FACTS_FILE).write_bytes((other / FACTS_FILE).read_bytes())
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_checkpoint(folder)
    save_checkpoint(folder, small("mean"), WORDS, CLASSES)
    assert load_checkpoint(folder).model.pooling.__class__ is POOLINGS["mean"]
    assert sorted(file.name for file in folder.iterdir()) == [FACTS_FILE, WEIGHTS_FILE]
    for name in (WEIGHTS_FILE, FACTS_FILE):
        (folder / name).unlink()
        with pytest.raises(InputError, match=f"is not the folder of a saved model: it has no {name}"):
            load_checkpoint(folder)
