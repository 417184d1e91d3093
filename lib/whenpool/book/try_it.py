"""Models for the page "Try it", in a form that a browser reads from disk: one JavaScript file.

Its models start from the same word vectors, which training changes mostly along a few directions. So the
file has the first vectors once, and what each training added to them as a matrix of rank `RANK`. A matrix has
a scale for each row, and one printable character for each value, a whole number from -45 to 45.

Letters: V words, E units of an embedding, R rows and C columns of a matrix.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whenpool.base.files import hash_of, write_atomically
from whenpool.base.paths import project_root
from whenpool.corpora.batches import PADDING, UNKNOWN_INDEX, Texts
from whenpool.corpora.tokens import tokenize
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.kinds.training import Training, prepare, trained
from whenpool.runs.plans import COMPACT, COMPACT_TEST
from whenpool.runs.run import VECTORS, Place, key
from whenpool.training.loop import evaluate

FILE = Path("book", "_static", "try_it", "weights.js")
POOLINGS = ("last", "mean", "max", "attention", "max_attention")  # those that model.js computes
WORDS = 8_000
SEED = 2
"""Of five seeds the one from which the BiLSTM learnt most: the page is about what hides opinions from it."""
RANK = 2
LARGEST, MIDDLE = 45, 81  # of a value, and the character of 0: a string may hold all of them but "\"


def chosen_runs() -> dict[str, Training]:
    """The trainings that the page has, by the name that it calls them by."""
    compact = COMPACT | {"test": COMPACT_TEST["imdb"], "vectors": VECTORS[0]}
    base = Training("imdb", "standard", 1_000, "last", SEED, **compact)
    runs = {name: replace(base, pooling=name) for name in POOLINGS}
    return runs | {"chrono": replace(base, forget_bias="chrono")}


def export(
    runs: dict[str, Training], place: Place, file: Path, words: int = WORDS,
    say: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Write the models of some trainings on the same texts, before and after training, with the accuracy of
    the stored run, and of what is written, in which all but the most frequent ``words`` are unknown."""
    content: dict[str, Any] = {"matrices": {}, "models": {}}
    for name, run in runs.items():
        after, before = trained(run, place), prepare(run, place).model
        stored = place.store.get(key(run, place))
        assert stored is not None  # its weights are here
        first = before.embedding.weight.detach()[:words]
        if "words" not in content:
            content["words"] = " ".join(after.dataset.vocabulary[: len(first)])
            content["vectors"] = _shared(content, first)
        for label, model in ((name, after.model), (f"{name} untrained", before)):
            content["models"][label] = _written(content, model, first) | {"pooling": run.pooling}
            content["models"][label]["here"] = accuracy(read_model(content, label), after.dataset.test)
        content["models"][name] |= {
            "key": key(run, place),
            "accuracy": stored["result"]["test_accuracy"],
        }
        say("{key}: stored {accuracy:.1f} %, exported {here:.1f} %".format(**content["models"][name]))
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    write_atomically(file, f"whenpoolTryIt.weights = {body};\n")


def _written(content: dict[str, Any], model: TextClassifier, first: Tensor) -> dict[str, Any]:
    """A model's part of the content; large matrices are put where those of all models are."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    change = weights.pop("embedding.weight")[: len(first)] - first  # (V, E)
    state = {  # of up to 1,000 values as numbers
        name: _shared(content, value) if value.numel() > 1_000 else _numbers(value)
        for name, value in weights.items()
    }
    if not bool(change.any()):
        return {"state": state}
    U, S, W = torch.linalg.svd(change, full_matrices=False)
    along, ways = (U[:, :RANK] * S[:RANK]).t(), W[:RANK]  # (RANK, V), (RANK, E)
    return {"state": state, "change": [_shared(content, along), _shared(content, ways)]}


def read_model(content: dict[str, Any], name: str) -> TextClassifier:
    """The model of that name as the page computes with it."""
    written, matrices = content["models"][name], content["matrices"]
    state = {
        weight: unpack(matrices[value]) if isinstance(value, str) else torch.tensor(value)
        for weight, value in written["state"].items()
    }
    vectors = unpack(matrices[content["vectors"]])
    if "change" in written:
        along, ways = (unpack(matrices[matrix]) for matrix in written["change"])
        vectors = vectors + along.t() @ ways
    E, H = vectors.shape[1], state["encoder.layers.0.0.weight_hh_l0"].shape[1]
    classes = len(state["classifier.bias"])
    model = TextClassifier(len(vectors), classes, written["pooling"], embedding_size=E, hidden_size=H)
    model.load_state_dict(state | {"embedding.weight": vectors})
    return model.eval()


@dataclass(frozen=True)
class OnPage:
    """What the page has, for chapters that show how its models read a review."""

    models: Mapping[str, TextClassifier]  # the trained ones, by the name that the page calls them by
    reviews: Mapping[str, tuple[list[str], int]]  # words and class of each, by its title
    filler: Sequence[list[str]]  # sentences, as lists of words
    numbers: Mapping[str, int]  # of the words that the models know

    def ids(self, words: Sequence[str]) -> Tensor:
        """Numbers of the words of one text, (1, T)."""
        return torch.tensor([[self.numbers.get(word, UNKNOWN_INDEX) for word in words]])


def on_page() -> OnPage:
    """Read from the files of the page, in a clone."""
    folder = (project_root() or Path()) / FILE.parent
    scripts = "".join((folder / name).read_text("utf-8") for name in (FILE.name, "examples.js"))
    bodies = re.findall(r"^whenpoolTryIt\.(\w+) = (.+?);$", scripts, re.MULTILINE | re.DOTALL)
    page = {name: json.loads(body) for name, body in bodies}
    content = page["weights"]
    models = [name for name in content["models"] if not name.endswith("untrained")]
    return OnPage(
        {name: read_model(content, name) for name in models},
        {review["title"]: (tokenize(review["text"]), review["label"]) for review in page["examples"]},
        [tokenize(sentence) for sentence in page["filler"]],
        {word: n for n, word in enumerate(content["words"].split(" "))} | {PADDING: UNKNOWN_INDEX},
    )


def accuracy(model: TextClassifier, texts: Texts) -> float:
    """In %, words that the model does not have being unknown."""
    unknown = texts.ids.flat >= model.embedding.num_embeddings
    ids = replace(texts.ids, flat=texts.ids.flat.masked_fill(unknown, UNKNOWN_INDEX))
    return evaluate(model, replace(texts, ids=ids)).accuracy


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


def _numbers(values: Tensor) -> list[Any]:
    if values.dim() > 1:
        return [_numbers(row) for row in values]
    return [float(f"{value:.4g}") for value in values.tolist()]
