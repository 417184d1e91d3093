"""The classifier as a scikit-learn estimator: in pipelines, searches, pickles and folders; and
checkpoints: what is saved comes back, and nothing that is wrong with one goes further than a
line."""

import json
import pickle
from enum import Enum

import numpy as np
import pandas as pd
import pytest
import torch
from called import refused
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from small_models import close

import whenpool
from whenpool import PoolingClassifier, TextClassifier, load_checkpoint, save_checkpoint
from whenpool.corpora.batches import Ragged, Texts
from whenpool.corpora.sources import Reading
from whenpool.explain.checkpoint import FACTS_FILE, WEIGHTS_FILE
from whenpool.explain.diagnosis import survey
from whenpool.models.pooling import LastState
from whenpool.models.transformer import TransformerEncoder
from whenpool.training.loop import Weighted

TEXTS = [
    f"a {one} {thing} indeed" for one in ("fine", "dull") for thing in ("film", "book", "song")
] * 8
LABELS = (["good"] * 3 + ["bad"] * 3) * 8
SMALL = {"epochs": 6, "hidden_size": 8, "embedding_size": 8, "learning_rate": 0.02, "batch_size": 8}


def small(pooling="max_attention", **changes):
    return PoolingClassifier(pooling, **(SMALL | changes))


@pytest.mark.parametrize(
    "words, options",
    [
        (2 + 7 + 36, {"validation_fraction": 0.25}),
        (2 + 7, {"max_words": 4}),
        (2 + 3, {"vocabulary_limit": 3, "cell": "gru"}),
    ],
)
def test_options_reach_the_model_and_texts_that_are_held_out_are_not_learnt_from(words, options):
    texts = [f"{text} w{n}" for n, text in enumerate(TEXTS)]  # the fifth word of each is its own
    made = small("mean", epochs=1, **options).fit(texts, LABELS).checkpoint_
    assert len(made.vocabulary) == words
    assert made.model.encoder.cell == options.get("cell", "lstm")
    assert made.max_words == options.get("max_words")


@pytest.fixture(scope="module")
def fitted():
    return small(seed=1).fit(TEXTS, LABELS)


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "attention", "max_attention"])
def test_it_learns_and_is_the_same_for_the_same_seed(pooling):
    model, again = small(pooling).fit(TEXTS, LABELS), small(pooling).fit(TEXTS, LABELS)
    assert model.score(TEXTS, LABELS) == 1.0
    assert model.classes_.tolist() == ["bad", "good"]
    texts = ["a fine play", "a dull play", "", "words it never saw"]
    chances = model.predict_proba(texts)
    np.testing.assert_array_equal(chances, again.predict_proba(texts))
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-6)
    assert model.predict(texts[:2]).tolist() == ["good", "bad"]
    assert model.predict_proba([]).shape == (0, 2)
    assert 1 <= model.best_epoch_ <= len(model.history_) == 6


def test_words_that_decide_stand_out(fitted):
    found = fitted.explain("a fine film indeed")
    assert found.words[int(np.nanargmax(found.importance))] == "fine"


@pytest.mark.filterwarnings("ignore:Can't test estimator")  # of texts there are fewer checks
def test_it_works_in_what_scikit_learn_has(tmp_path):
    check_estimator(small())
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    line = Pipeline([("lower", lower), ("classify", small(epochs=3))])
    assert cross_val_score(line, TEXTS, LABELS, cv=3).mean() > 0.9
    # a search gives numpy's numbers
    grid = {"hidden_size": np.array([4, 8]), "epochs": np.arange(1, 2)}
    grid["forget_bias"] = ["chrono", np.float32(40)]
    search = GridSearchCV(small("last"), grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    gate = search.best_estimator_.checkpoint_.model.encoder.layers[0][0].bias_ih_l0.chunk(4)[1]
    assert (gate.mean() > 30) == (search.best_params_["forget_bias"] == 40)
    again = PoolingClassifier.load(search.best_estimator_.save(tmp_path / "m"))
    assert again.get_params() == search.best_estimator_.get_params()


def test_half_a_character_is_saved_like_others(tmp_path):
    half = "a fine film \ud83d"  # as texts from JSON may have, cut within an emoji
    model = small(epochs=1).fit([half, *TEXTS[1:]], LABELS)
    again = PoolingClassifier.load(model.save(tmp_path / "model")).checkpoint_
    assert "\ud83d" in again.vocabulary == model.checkpoint_.vocabulary


def test_a_class_is_explained_by_any_number_that_equals_it(fitted):
    model = small(epochs=1).fit(TEXTS, [float(label == "good") for label in LABELS])
    assert model.explain(TEXTS[0], 1).label == model.explain(TEXTS[0], 1.0).label == "1.0"


def test_random_states_are_as_before(monkeypatch):
    seeded, before = [], torch.random.get_rng_state()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    small(epochs=1).fit(TEXTS, LABELS)
    assert torch.equal(before, torch.random.get_rng_state())
    assert seeded == []


@pytest.mark.parametrize("labels", [(7, 3), (True, False), (0.5, 1.5), ("é", "x y")], ids=str)
def test_it_is_the_same_from_a_pickle_and_from_a_folder_whatever_the_labels(labels, tmp_path):
    given = pd.Series(labels)[[int(label == "good") for label in LABELS]].convert_dtypes()
    model = small(epochs=2, class_weight={labels[0]: np.float32(2)}).fit(TEXTS, given)
    for again in (
        pickle.loads(pickle.dumps(model)),
        PoolingClassifier.load(model.save(tmp_path / "m")),
    ):
        np.testing.assert_allclose(
            again.predict_proba(TEXTS), model.predict_proba(TEXTS), atol=1e-7
        )
        assert again.get_params() == model.get_params()
        assert again.classes_.tolist() == sorted(labels)
        assert set(again.predict(TEXTS).tolist()) <= set(labels)


def test_given_validation_texts_choose_the_epoch_and_vectors_bring_their_size(tmp_path):
    (tmp_path / "v.txt").write_text("fine 1 0 0\ndull 0 1 0\nfilm 0 0 1\n")
    model = small(vectors=tmp_path / "v.txt").fit(TEXTS, LABELS, validation=(TEXTS[:6], LABELS[:6]))
    ranks = [(-row["validation_accuracy"], row["validation_loss"]) for row in model.history_]
    # of the most accurate ones that of the lowest loss
    assert ranks[model.best_epoch_ - 1] == min(ranks)
    assert model.checkpoint_.model.embedding.weight.shape[1] == 3


def test_markup_is_no_part_of_a_text_whoever_reads_it(tmp_path):
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"<p>R&amp;D {i}<br>&lt;b&gt;,{i % 2}\n" for i in range(20))
    )
    assert {*survey(tmp_path / "a.csv", Reading())[0]["text"]} == {f"r&d {i}" for i in range(20)}
    tagged, plain = "<b class='x'>R&amp;D</b><br />&lt;i&gt;<!-- no --> &quot;", 'R&D "'
    model = small(epochs=1).fit([f"{text} {tagged}" for text in TEXTS], LABELS)
    for reader in (model, PoolingClassifier.load(model.save(tmp_path / "m"))):
        np.testing.assert_array_equal(*map(reader.predict_proba, ([tagged], [plain])))
    assert "class" not in model.checkpoint_.vocabulary
    assert model.checkpoint_.words("<unk> of <p>") == ["<unk>", "of"]


def test_texts_that_are_words_already_are_read_as_they_are(tmp_path):
    cut, options = "<b class= 'x'> Don't", {"epochs": 1, "tokenizer": "spaces"}
    model = small(**options).fit([f"{text} {cut}" for text in TEXTS], LABELS)
    for reader in (model, PoolingClassifier.load(model.save(tmp_path))):
        assert reader.checkpoint_.words(cut) == cut.split()
        assert {*cut.split()} < {*reader.checkpoint_.vocabulary}


def test_a_model_that_was_saved_before_reads_as_it_did(fitted, tmp_path):
    file = fitted.save(tmp_path) / FACTS_FILE
    for name, words in (("basic_english", ["<b>", "r&amp", "d"]), ("untagged", ["r&amp", "d"])):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"tokenizer": name}))
        again = PoolingClassifier.load(PoolingClassifier.load(tmp_path).save(tmp_path / name))
        assert again.checkpoint_.words("<b> R&amp;D") == words


class Tone(Enum):
    good, bad = "good", "bad"


class Word(str, Enum):  # noqa: UP042 # as many write it
    good, bad = "well done", "badly done"


def test_labels_may_be_an_enum_of_words():
    model = small().fit(TEXTS, [Word[label] for label in LABELS])
    assert model.classes_.tolist() == ["badly done", "well done"]
    assert model.predict(["a fine film indeed"])[0] == Word.good


def test_a_weight_multiplies_the_loss_of_its_text_whatever_its_scale():
    torch.manual_seed(0)
    model = TextClassifier(9, 2, "max", embedding_size=4, hidden_size=3).double()
    texts = Texts(Ragged.of([[2, 3], [4, 5, 6], [7], [8, 2, 5]]), torch.tensor([0, 1, 1, 0]))
    weights, some = torch.tensor([3.0, 1.0, 2.0, 1.0]).double(), torch.tensor([2, 0])
    objective = Weighted(weights * 5, weights / 3)
    loss, _ = objective.backward(model, texts.batch(some, 1), some)
    ids, lengths, labels = texts.batch(torch.arange(4), 1)
    logits = model(ids, lengths)
    losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    shares = weights / weights.mean()
    expected = (shares * losses)[some].mean()
    assert loss.item() == pytest.approx(expected.item())
    found = [parameter.grad for parameter in model.parameters()]
    close(found, [*torch.autograd.grad(expected, [*model.parameters()])])
    score, right = objective.evaluate(model, texts), logits.argmax(1) == labels
    assert score.loss == pytest.approx((shares * losses).mean().item())
    assert score.accuracy == pytest.approx(100 * (shares * right).mean().item())


RARE = [f"{'fine' if n % 20 else 'dull'} film {n % 7}" for n in range(200)]
RARE_LABELS = ["bad" if text.startswith("dull") else "good" for text in RARE]


def test_balanced_weights_are_those_of_texts_of_which_each_class_has_as_many():
    balanced = small(class_weight="balanced", epochs=1).fit(RARE, RARE_LABELS)
    each = np.where(np.array(RARE_LABELS) == "bad", 10, 200 / 380)
    other = small(epochs=1).fit(RARE, RARE_LABELS, sample_weight=each)
    np.testing.assert_allclose(other.predict_proba(RARE), balanced.predict_proba(RARE), rtol=1e-4)


def test_the_epoch_is_chosen_by_weight_and_a_text_of_weight_0_is_not_there():
    texts, labels = ["a fine film", *RARE[:20]], ["odd", *RARE_LABELS[:20]]
    model = small(class_weight={"bad": 19}).fit(
        texts, labels, validation=(RARE, RARE_LABELS), sample_weight=[0] + [1] * 20
    )
    assert model.classes_.tolist() == ["bad", "good"]
    assert "a" not in model.checkpoint_.vocabulary
    kept = model.history_[model.best_epoch_ - 1]["validation_accuracy"]
    weights = np.where(np.array(RARE_LABELS) == "bad", 19, 1)
    assert kept == pytest.approx(100 * model.score(RARE, RARE_LABELS, sample_weight=weights))


def test_weights_go_where_scikit_learn_sends_them():
    weights = np.where(np.arange(len(TEXTS)) % 2, 1.0, 3.0)
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    line = Pipeline([("lower", lower), ("classify", small(epochs=1))])
    how = {"cv": 3, "error_score": "raise", "return_estimator": True}
    before = cross_validate(line, TEXTS, LABELS, params={"classify__sample_weight": weights}, **how)
    with config_context(enable_metadata_routing=True):
        asks = small(epochs=1).set_fit_request(sample_weight=True)
        asks.set_score_request(sample_weight=True)
        line = Pipeline([("lower", lower), ("classify", asks)])
        after = cross_validate(line, TEXTS, LABELS, params={"sample_weight": weights}, **how)
    chances = (
        [fold.predict_proba(TEXTS) for fold in made["estimator"]] for made in (before, after)
    )
    np.testing.assert_array_equal(*chances)


TONES = [Tone[label] for label in LABELS]
TWICE = pd.DataFrame({"a": LABELS, "b": LABELS})
SEGMENTS = ["这部电影很好看", "演员糟糕极了很难看"] * 24


@pytest.mark.parametrize(
    "change, said",
    [
        *(
            ({"sample_weight": weights}, "sample_weight must be a number from 0 for each")
            for weights in ([1.0] * 47, [-1.0] + [1.0] * 47, ["a"] * 48)
        ),
        ({"sample_weight": [0.0] * 48}, "no text has a weight above 0|non-zero"),
        ({"class_weight": "even"}, 'class_weight must be "balanced", a dict or None'),
        ({"class_weight": {"god": 2}}, "class_weight has .'god'., no classes; choose"),
        ({"class_weight": {"good": 0}}, "class_weight must be positive numbers, not .0."),
        ({"hidden_size": 8.0}, "hidden_size must be a whole number from 1, not 8.0"),
        ({"seed": -1}, "seed must be a whole number from 0, not -1"),
        ({"max_words": 0}, "max_words must be a whole number from 1, not 0"),
        ({"validation_fraction": 2}, "validation_fraction must be .* between 0 and 1, not 2"),
        ({"learning_rate": "0.1"}, "learning_rate must be .* between 0 and 1, not '0.1'"),
        ({"forget_bias": [1]}, "forget_bias must be a number, a name or None, not .1."),
        (
            {"vectors": {"film": [1.0]}},
            "vectors must be the path of a file or None, not a dict",
        ),
        ({"texts": "one text"}, "not one string"),
        ({"texts": [*TEXTS[:-1], None]}, "text 47 must be a string, not NoneType"),
        ({"texts": pd.DataFrame({"text": TEXTS})}, "of a table give table"),
        ({"texts": SEGMENTS}, "no spaces between words; add them"),
        ({"labels": LABELS[:-1]}, "48 texts and 47 labels"),
        ({"labels": ["good"] * 48}, "only one class"),
        ({"labels": [*LABELS[:-1], None]}, r"labels \[47\] are missing"),
        ({"labels": TONES}, r"Tone have no order; .*\[y.name for y in labels\]"),
        ({"labels": [*LABELS[:-1], 1]}, "some labels are words and others are not"),
        ({"labels": [[label] for label in LABELS]}, "labels .0, 1, 2. are no single class; "),
        ({"labels": TWICE}, "labels must be one class .* as one column"),
        ({"labels": np.linspace(0, 1, 48)}, "these numbers are nearly all different"),
        ({"validation": (["a"], ["fair"])}, "validation has a class"),
        ({"validation": ([], [])}, "there are 0 validation texts"),
        ({"tokenizer": "spacy"}, "tokenizer 'spacy' is unknown; choose one of basic_english"),
    ],
)
def test_what_cannot_be_used_is_told(change, said):
    given, how = {"texts": TEXTS, "labels": LABELS}, {}
    for name, value in change.items():
        (how if hasattr(PoolingClassifier, name) else given)[name] = value
    refused(said, small(**how).fit, **given)


@pytest.mark.parametrize("seed", range(5))
def test_the_only_text_of_a_class_is_never_held_out(seed):
    labels = np.array([0] * 20 + [1] * 20 + [2, 3])
    learnt, held_out = small(seed=seed)._held_out(labels)
    assert sorted([*learnt, *held_out]) == [*range(42)]
    assert {40, 41} <= {*learnt}
    assert np.bincount(labels[held_out]).tolist() == [2, 2]  # of the others as many


def test_without_a_gpu_or_a_fit_it_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused('torch sees no GPU; use .*device="cpu"', small(device="cuda").fit, TEXTS, LABELS)
    refused("nowhere", PoolingClassifier.load, "/nowhere")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        small().predict(TEXTS)


WORDS = ["<unk>", "<pad>", "a", "good", "bad", "film", "<script>"]
CLASSES = ["neg", "pos"]
READ = ["A good film", "bad , bad", "nothing it knows of", "a"]


def model_of(pooling="max_attention", **options):
    torch.manual_seed(0)
    options = {"embedding_size": 4, "hidden_size": 3, "padding_index": 1} | options
    return TextClassifier(len(WORDS), 2, pooling, **options).eval()


class Other(TextClassifier):
    """Computes something else with the same weights."""


@pytest.fixture
def folder(tmp_path):
    accuracy = np.float32(81.5)
    return save_checkpoint(tmp_path / "model", model_of(), WORDS, CLASSES, test_accuracy=accuracy)


@pytest.mark.parametrize(
    "pooling, options",
    [
        *((pooling, {}) for pooling in whenpool.POOLINGS),
        ("attention", {"cell": "elman", "layers": 3}),
        ("max", {"cell": "mingru", "layers": 2}),
        ("last", {"cell": "ssm"}),
        ("mean", {"cell": "lru", "bidirectional": False}),
        ("cls", {"cell": "transformer", "embedding_size": 6, "hidden_size": 8}),
        ("last", {"cell": "tanh_sum", "embedding_size": 6, "hidden_size": 6}),
        ("last_attention", {"bidirectional": False, "drop_connect": 0.25}),
        ("mean", {"masked": False}),
        ("last", {"forget_bias": "chrono", "orthogonal": True}),
        ("last", {"through": "attention"}),
        ("attention", {"cell": "transformer", "embedding_size": 6, "hidden_size": 8, "layers": 2}),
    ],
    ids=str,
)
def test_every_kind_of_model_comes_back_the_same(tmp_path, pooling, options):
    model = model_of(pooling, **options)
    numbers = {word: WORDS.index(word) for word in sorted(WORDS)}  # in any order
    folder = save_checkpoint(tmp_path / "one" / "two", model, numbers, CLASSES)
    before = torch.random.get_rng_state()
    found = load_checkpoint(folder)
    assert torch.equal(before, torch.random.get_rng_state())
    ids, lengths = found.encode(READ)
    assert torch.equal(found.model(ids, lengths), model(ids, lengths))
    assert not found.model.training
    assert found.model.encoder.drop_connect == model.encoder.drop_connect
    assert (found.vocabulary, found.classes) == (tuple(WORDS), tuple(CLASSES))


def test_texts_are_read_as_in_training_and_classified(folder):
    found = load_checkpoint(folder)
    ids, lengths = found.encode(READ)
    assert ids.tolist() == [[2, 3, 5, 1], [4, 0, 4, 1], [0, 0, 0, 0], [2, 1, 1, 1]]
    assert lengths.tolist() == [3, 3, 4, 1]
    probabilities = found.probabilities(READ)
    close(probabilities, model_of()(ids, lengths).softmax(1))
    assert found.predict(iter(READ)) == [CLASSES[i] for i in probabilities.argmax(1)]
    assert found.about == {"test_accuracy": 81.5}
    for texts, message in (([], "no texts"), (["a", " "], "text 1 has no words")):
        refused(message, found.predict, texts)
    brief = load_checkpoint(save_checkpoint(folder, model_of(), WORDS, CLASSES, 1, "untagged"))
    assert (found.words("<b>Ab</b> C"), brief.words("<b>Ab</b> C")) == (["<b>ab</b>", "c"], ["ab"])


def two_heads():
    model = model_of("mean", cell="transformer", embedding_size=6, hidden_size=8)
    model.encoder = TransformerEncoder(model.encoder.input_size, model.encoder.hidden_size, heads=2)
    return model


def one_way():
    model = model_of()
    model.pooling = LastState(bidirectional=False)
    return model


@pytest.mark.parametrize(
    "message, change",
    {
        "only a whenpool.TextClassifier can be saved, not Other": {"model": Other(7, 3)},
        "does not describe the weights: .*size mismatch for embedding.weight": {
            "vocabulary": WORDS[:-1]
        },
        "a saved Transformer has 4 heads, not 2": {"model": two_heads()},
        "the encoder has bidirectional=True; make LastState with it": {"model": one_way()},
        "vocabulary must begin with <unk> and <pad>": {"vocabulary": WORDS[::-1]},
        "vocabulary must number its words 0, 1, 2": {"vocabulary": dict.fromkeys(WORDS, 0)},
        "must be plain values, not builtin_function_or_method": {"accuracy": CLASSES.copy},
        "classes must be a list of at least two different strings": {"classes": ["a", 1]},
        "max_words must be at least 1, or null, not 0": {"max_words": 0},
        "max_words must be at least 1, or null, not 2.0": {"max_words": 2.0},
        "tokenizer 'spacy' is unknown; choose one of basic_english": {"tokenizer": "spacy"},
    }.items(),
)
def test_what_could_not_be_read_again_is_not_saved(tmp_path, change, message):
    given = {"model": model_of(), "vocabulary": WORDS, "classes": CLASSES} | change
    refused(message, save_checkpoint, tmp_path / "model", **given)
    assert not (tmp_path / "model").exists()
    refused(
        "7 words and 2 classes, but the checkpoint names 6 words",
        whenpool.Checkpoint,
        model_of(),
        WORDS[:-1],
        CLASSES,
    )


@pytest.mark.parametrize(
    "name, change, message",
    [
        (FACTS_FILE, b"\xff\xfe{}", "is damaged"),
        (FACTS_FILE, b"{}", "is damaged .KeyError: 'format'"),
        (FACTS_FILE, {"version": 2}, "model.json: another whenpool saved it"),
        (FACTS_FILE, {"model": {"pooling": "median"}}, "pooling .median. is unknown"),
        (FACTS_FILE, {"classes": ["neg", "pos", "so"]}, "does not describe the .*size mismatch"),
        (WEIGHTS_FILE, b"\0" * 100, "model.safetensors does not belong to its model.json"),
        (WEIGHTS_FILE, None, f"is not the folder of a saved model: it has no {WEIGHTS_FILE}"),
    ],
)
def test_a_file_that_is_wrong_or_missing_is_named(folder, name, change, message):
    file = folder / name
    if change is None:
        file.unlink()
    elif isinstance(change, dict):
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    else:
        file.write_bytes(change)
    assert str(folder) in refused(message, load_checkpoint, folder)
