"""The models of the page "Try it", in a form that a browser reads from disk: one JavaScript file,
which ``scripts/export_try_it.py`` writes.

Its models start from the same word vectors, which training changes mostly along a few directions.
So the file has the first vectors once, and what each training added to them as a matrix of low
rank. A matrix has a scale for each row, and one printable character for each value, a whole number
from -45 to 45.

Letters: V words, E units of an embedding, R rows and C columns of a matrix.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whenpool.base.paths import project_root
from whenpool.corpora.batches import PADDING, UNKNOWN_INDEX
from whenpool.corpora.tokens import tokenize
from whenpool.models.text_classifier import TextClassifier

FOLDER = Path("book", "_static", "try_it")
THREAD = "The opinion at the end"  # The review that goes through the book, by its title
FILES = {"standard": ("weights.js", "weights"), "mid": ("filler_weights.js", "fillerWeights")}
"""The file, and the name in it, of the models that were trained in each setting."""
LARGEST, MIDDLE = (
    45,
    81,
)  # of a value, and the character of 0: a string may hold all of them but "\"


def read_model(content: dict[str, Any], name: str) -> TextClassifier:
    """The model of that name as the page computes with it."""
    model, matrices = content["models"][name], content["matrices"]
    state = {
        weight: unpack(matrices[value]) if isinstance(value, str) else torch.tensor(value)
        for weight, value in model["state"].items()
    }
    vectors = unpack(matrices[content["vectors"]])
    if "change" in model:
        along, ways = (unpack(matrices[matrix]) for matrix in model["change"])
        vectors = vectors + along.t() @ ways
    E, H = vectors.shape[1], state["encoder.layers.0.0.weight_hh_l0"].shape[1]
    classes = len(state["classifier.bias"])
    read = TextClassifier(len(vectors), classes, model["pooling"], embedding_size=E, hidden_size=H)
    read.load_state_dict(state | {"embedding.weight": vectors})
    return read.eval()


@dataclass(frozen=True)
class OnPage:
    """What the page has, for chapters that show how its models read a review."""

    models: dict[str, TextClassifier]  # the trained ones, by the name that the page calls them by
    facts: dict[str, Any]  # what the file has of each of them
    reviews: dict[str, tuple[list[str], int]]  # words and class of each, by its title
    opinions: dict[str, set[str]]  # of each review, the words that praise or blame
    filler: list[list[str]]  # sentences, as lists of words
    numbers: dict[str, int]  # of the words that the models know

    def ids(self, words: Sequence[str]) -> Tensor:
        """Numbers of the words of one text, (1, T)."""
        return torch.tensor([[self.numbers.get(word, UNKNOWN_INDEX) for word in words]])


def on_page(setting: str = "standard") -> OnPage:
    """Read from the files of the page, in a clone; the models are those trained in a setting."""
    folder, (file, variable) = (project_root() or Path()) / FOLDER, FILES[setting]
    scripts = "".join((folder / name).read_text("utf-8") for name in (file, "examples.js"))
    bodies = re.findall(r"^whenpoolTryIt\.(\w+) = (.+?);$", scripts, re.MULTILINE | re.DOTALL)
    page = {name: json.loads(body) for name, body in bodies}
    content = page[variable]
    models = [name for name in content["models"] if not name.endswith("untrained")]
    return OnPage(
        {name: read_model(content, name) for name in models},
        content["models"],
        {
            review["title"]: (tokenize(review["text"]), review["label"])
            for review in page["examples"]
        },
        {review["title"]: set(review["opinion"].split()) for review in page["examples"]},
        [tokenize(sentence) for sentence in page["filler"]],
        {word: n for n, word in enumerate(content["words"].split(" "))} | {PADDING: UNKNOWN_INDEX},
    )


def unpack(packed: dict[str, Any]) -> Tensor:
    """A matrix (R, C) from a scale for each row, and a character for each value."""
    values = torch.tensor(list(packed["values"].replace("#", "\\").encode())) - MIDDLE
    scales = torch.tensor(packed["scales"]).unsqueeze(1)
    return values.view(len(scales), -1) * scales
