"""Models for the page "Try it", in a form that a browser reads from disk: one JavaScript file.

Five poolings were trained on the same reviews from the same seed, so they start from the same word
vectors, and training changed these mostly along a few directions. So the file has the first vectors once,
and for each model what training added to them as a matrix of rank `RANK`. A matrix has a scale for each row,
and one printable character for each value, a whole number from -45 to 45.

Letters: V words, E units of an embedding, H units of a state in one direction, C classes.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whenpool.base.files import hash_of, write_atomically
from whenpool.corpora.batches import Batch, Texts, evaluation_batches
from whenpool.corpora.tokens import PADDING_INDEX, UNKNOWN_INDEX
from whenpool.models.registry import COMPARED, LISTED
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.kinds.training import Training, prepare, trained
from whenpool.runs.plans.bases import COMPACT, COMPACT_TEST
from whenpool.runs.run import VECTORS, Place, key

FILE = Path("book", "_static", "try_it", "weights.js")
WORDS = 8_000
SEED = 2
"""Of five seeds the one from which the BiLSTM learnt most: the page is about what hides opinions from it."""
RANK = 2
LARGEST, MIDDLE = 45, 81  # of a value, and the character of 0: all but "\" can stand in a string
_BATCH_WORDS = 20_000


def chosen_runs(seed: int = SEED) -> dict[str, Training]:
    """The trainings that the page has, by the name that it calls them by."""
    base = Training(
        "imdb", "standard", 1_000, "last", seed, test=COMPACT_TEST["imdb"], vectors=VECTORS[0], **COMPACT
    )
    runs = {name: replace(base, pooling=name) for name in COMPARED if name in LISTED}
    return runs | {"chrono": replace(base, forget_bias="chrono")}


def export(
    runs: dict[str, Training],
    place: Place,
    file: Path,
    words: int = WORDS,
    say: Callable[[str], None] = print,
) -> None:
    """Write the models of some trainings on the same texts, before and after training.

    Beside each is the test accuracy of the stored run, and what the form written here reaches on the
    same texts, in which all but the most frequent ``words`` are unknown.

    Raises:
        InputError: where the weights of a training or its data are not here.
    """
    content: dict[str, Any] = {"matrices": {}, "models": {}}
    for name, run in runs.items():
        after, before = trained(run, place), prepare(run, place).model
        stored = place.store.get(key(run, place))
        assert stored is not None  # its weights are here
        first = before.embedding.weight.detach()[:words]
        if "words" not in content:
            content["words"] = " ".join(after.dataset.vocabulary[: len(first)])
            content["vectors"] = _shared(content, first)
        for called, model in ((name, after.model), (f"{name} untrained", before)):
            content["models"][called] = _written(content, model, first) | {"pooling": run.pooling}
            reached = accuracy(read_model(content, called), after.dataset.test)
            content["models"][called]["here"] = reached
        content["models"][name] |= {
            "key": key(run, place),
            "accuracy": stored["result"]["test_accuracy"],
        }
        say("{accuracy:.1f} % stored, {here:.1f} % here: {key}".format(**content["models"][name]))
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    write_atomically(file, f"whenpoolTryIt.weights = {body};\n")


def _written(content: dict[str, Any], model: TextClassifier, first: Tensor) -> dict[str, Any]:
    """A model's part of the content; its matrices are put where those of all models are."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    directions = []
    for layer in ("encoder.layers.0.0", "encoder.layers.0.1"):
        directions.append(
            {
                "input": _shared(content, weights[f"{layer}.weight_ih_l0"]),  # (4H, E)
                "recurrent": _shared(content, weights[f"{layer}.weight_hh_l0"]),  # (4H, H)
                "bias": _numbers(
                    weights[f"{layer}.bias_ih_l0"] + weights[f"{layer}.bias_hh_l0"]
                ),  # (4H,)
            }
        )
    found: dict[str, Any] = {
        "directions": directions,
        "classifier": [_numbers(row) for row in weights["classifier.weight"]],  # C of (2H,)
        "bias": _numbers(weights["classifier.bias"]),
    }
    if "pooling.query" in weights:
        found["query"] = _numbers(weights["pooling.query"])
    change = weights["embedding.weight"][: len(first)] - first  # (V, E)
    if bool(change.any()):
        U, S, W = torch.linalg.svd(change, full_matrices=False)
        found["change"] = [
            _shared(content, (U[:, :RANK] * S[:RANK]).t()),  # (RANK, V)
            _shared(content, W[:RANK]),  # (RANK, E)
        ]
    return found


def read_model(content: dict[str, Any], name: str) -> TextClassifier:
    """The model of that name as the page computes with it."""
    written, matrix = content["models"][name], lambda known: unpack(content["matrices"][known])
    vectors = matrix(content["vectors"])
    if "change" in written:
        along, directions = map(matrix, written["change"])
        vectors = vectors + along.t() @ directions
    recurrent = matrix(written["directions"][0]["recurrent"])
    model = TextClassifier(
        len(vectors), len(written["bias"]), written["pooling"], embedding_size=vectors.shape[1],
        hidden_size=recurrent.shape[1], padding_index=PADDING_INDEX, vectors=vectors,
    )  # fmt: skip
    state = {"classifier.weight": written["classifier"], "classifier.bias": written["bias"]}
    if "query" in written:
        state["pooling.query"] = written["query"]
    for number, direction in enumerate(written["directions"]):
        layer = f"encoder.layers.0.{number}"
        state[f"{layer}.weight_ih_l0"] = matrix(direction["input"])
        state[f"{layer}.weight_hh_l0"] = matrix(direction["recurrent"])
        state[f"{layer}.bias_ih_l0"] = direction["bias"]
        state[f"{layer}.bias_hh_l0"] = [0.0] * len(direction["bias"])
    found = {at: torch.as_tensor(value) for at, value in state.items()}
    model.load_state_dict(found | {"embedding.weight": vectors})
    return model.eval()


def read_file(file: Path) -> dict[str, Any]:
    """What `export` has written."""
    return json.loads(file.read_text("utf-8").partition(" = ")[2].rstrip(";\n"))


@torch.no_grad()
def accuracy(model: TextClassifier, texts: Texts) -> float:
    """In %, words that the model does not have being unknown."""
    known, right = model.embedding.num_embeddings, 0
    for indices in evaluation_batches(texts.ids.lengths, _BATCH_WORDS):
        batch: Batch = texts.batch(indices, PADDING_INDEX)
        ids = batch.ids.masked_fill(batch.ids >= known, UNKNOWN_INDEX)
        right += int((model(ids, batch.lengths).argmax(1) == batch.labels).sum())
    return 100 * right / len(texts)


def pack(matrix: Tensor) -> dict[str, Any]:
    """(R, C) -> a scale for each row, and a character for each value."""
    scales = _numbers(matrix.abs().amax(1) / LARGEST)
    steps = torch.tensor(scales).clamp(min=torch.finfo(matrix.dtype).tiny).unsqueeze(1)
    values = (matrix / steps).round().clamp(-LARGEST, LARGEST).int()
    text = bytes((values + MIDDLE).flatten().tolist()).replace(b"\\", b"#").decode()
    return {"scales": scales, "values": text}


def unpack(packed: dict[str, Any]) -> Tensor:
    """The matrix (R, C) that `pack` was given, to within half a scale."""
    values = torch.tensor(list(packed["values"].replace("#", "\\").encode())) - MIDDLE
    scales = torch.tensor(packed["scales"]).unsqueeze(1)
    return values.view(len(scales), -1) * scales


def _shared(content: dict[str, Any], matrix: Tensor) -> str:
    """The name under which a matrix is in the file; equal ones of different models are there once."""
    packed = pack(matrix)
    name = hash_of(packed["values"], str(packed["scales"]))[:8]
    content["matrices"][name] = packed
    return name


def _numbers(values: Tensor) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]
