"""A trained classifier in a folder: its weights as safetensors, all else as JSON.

Loading one runs no code of its own, and makes nothing of a size that only its JSON names: the weights'
header is held against it first.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.base.version import __version__
from whenpool.corpora.batches import Ragged, Texts, batches_for
from whenpool.corpora.tokens import PADDING_INDEX, UNKNOWN_INDEX, tokenize
from whenpool.explain.checkpoint_facts import FORMAT, TOKENIZER, VERSION, Facts, Scalar
from whenpool.models.pooling import POOLINGS
from whenpool.models.text_classifier import TextClassifier
from whenpool.models.transformer import HEADS, TransformerEncoder

WEIGHTS_FILE, FACTS_FILE = "model.safetensors", "model.json"
LARGEST_JSON = 256 * 2**20
"""Bytes of a `FACTS_FILE` that is read at all."""
_BATCH_WORDS = 32_768


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A classifier that can be given texts.

    Attributes:
        model: in evaluation mode, on the processor.
        vocabulary: the words by number, ``<unk>`` and ``<pad>`` first.
        classes: names of the labels, in the order of the logits.
        about: where it comes from, such as its test accuracy.
        max_words: so many of a text's first words are read, as in its training; None: all.

    Examples:
        >>> model = TextClassifier(4, classes=2, embedding_size=8, hidden_size=16)
        >>> words, classes = ("<unk>", "<pad>", "good", "bad"), ("negative", "positive")
        >>> checkpoint = Checkpoint(model.eval(), words, classes)
        >>> checkpoint.probabilities(["a good film", "bad"]).shape
        torch.Size([2, 2])
    """

    model: TextClassifier
    vocabulary: tuple[str, ...]
    classes: tuple[str, ...]
    about: dict[str, Scalar] = field(default_factory=dict)
    max_words: int | None = None

    def __post_init__(self) -> None:
        numbers = {word: number for number, word in enumerate(self.vocabulary)}
        object.__setattr__(self, "_numbers", numbers)

    def knows(self, word: str) -> bool:
        """Whether the model has a vector of its own for a word."""
        return word in self._numbers  # type: ignore[attr-defined]

    def number(self, word: str) -> int:
        """The row of the embedding that stands for a word, known or not."""
        return self._numbers.get(word, UNKNOWN_INDEX)  # type: ignore[attr-defined]

    def words(self, text: str) -> list[str]:
        """What the model reads of a text: its first lower-case words and punctuation marks."""
        return tokenize(text)[: self.max_words]

    def encode(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """N texts -> ids (N, T) int64, right-padded, and lengths (N,).

        Raises:
            InputError: for no texts, one string instead of several, or a text without words.
        """
        batch = self._numbered(texts).batch(torch.arange(len(texts)), PADDING_INDEX)
        return batch.ids, batch.lengths

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """N texts -> (N, C), each row sums to 1; see `encode` for what it raises."""
        numbered = self._numbered(texts)
        found = torch.empty(len(texts), len(self.classes))
        for part in batches_for(self.model, numbered.ids.lengths, _BATCH_WORDS):
            batch = numbered.batch(part, PADDING_INDEX)
            found[part] = self.model(batch.ids, batch.lengths).softmax(1)
        return found

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text; see `encode` for what it raises."""
        return [self.classes[place] for place in self.probabilities(texts).argmax(1).tolist()]

    def _numbered(self, texts: Sequence[str]) -> Texts:
        if isinstance(texts, str):
            raise InputError("texts are a list, not one string: give [text]")
        if not texts:
            raise InputError("there are no texts: give at least one")
        split = [self.words(text) for text in texts]
        for place, words in enumerate(split):
            if not words:
                raise InputError(f"text {place} has no words: leave it out")
        rows = Ragged.of([self.number(word) for word in words] for words in split)
        return Texts(rows, torch.zeros(len(texts), dtype=torch.int64))


def save_checkpoint(
    folder: str | Path,
    model: TextClassifier,
    vocabulary: Sequence[str],
    classes: Sequence[str],
    max_words: int | None = None,
    **about: Scalar,
) -> Path:
    """Write a classifier into a folder, which is made; returns the folder.

    Args:
        vocabulary: the words by number, ``<unk>`` and ``<pad>`` first, as
            `whenpool.corpora.tokens.build_vocabulary` makes it.
        classes: names of the labels, in the order of the logits.
        max_words: so many of a text's first words are read, if it was so in training; None: all.
        about: where the model comes from, plain values such as ``test_accuracy=81.5``.

    Raises:
        InputError: for another model than a `whenpool.TextClassifier`, a vocabulary or classes that do
            not fit it, ``max_words`` below 1, weights that are not finite, or a folder that cannot be
            written.

    Examples:
        >>> import tempfile
        >>> model = TextClassifier(4, classes=2, embedding_size=8, hidden_size=16)
        >>> words, classes = ("<unk>", "<pad>", "good", "bad"), ("negative", "positive")
        >>> folder = save_checkpoint(tempfile.mkdtemp(), model, words, classes, test_accuracy=81.5)
        >>> sorted(path.name for path in folder.iterdir())
        ['model.json', 'model.safetensors']
    """
    folder = Path(folder)
    if not isinstance(model, TextClassifier):
        raise InputError(f"a checkpoint holds a whenpool.TextClassifier, not {type(model).__name__}")
    tensors = {
        name: value.detach().to("cpu", torch.float32).contiguous()
        for name, value in model.state_dict().items()
    }
    _check_finite(tensors, "the model")
    weights = safetensors.torch.save(tensors)
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "whenpool": __version__,
        "tokenizer": TOKENIZER,
        "weights": hashlib.sha256(weights).hexdigest(),
        "model": _arguments(model),
        "classes": list(classes),
        "max_words": max_words,
        "about": about,
        "vocabulary": list(vocabulary),
    }
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    Facts.read("the checkpoint", facts).build(shapes, "the model")  # so that it can be read again
    write_atomically(folder / WEIGHTS_FILE, weights)
    write_atomically(folder / FACTS_FILE, json.dumps(facts, ensure_ascii=False, indent=1))
    return folder


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Read what `save_checkpoint` has written.

    Raises:
        InputError: for files that are missing, damaged, of another format, or do not fit each other:
            the line names the file and what is wrong in it.

    Examples:
        >>> import tempfile
        >>> model = TextClassifier(4, classes=2, embedding_size=8, hidden_size=16)
        >>> words, classes = ("<unk>", "<pad>", "good", "bad"), ("negative", "positive")
        >>> folder = save_checkpoint(tempfile.mkdtemp(), model, words, classes, test_accuracy=81.5)
        >>> load_checkpoint(folder).about
        {'test_accuracy': 81.5}
    """
    folder = Path(folder)
    facts_file, weights_file = folder / FACTS_FILE, folder / WEIGHTS_FILE
    for file in (facts_file, weights_file):
        if not file.is_file():
            raise InputError(f"{folder} is not a checkpoint: {file.name} is not there")
    facts = Facts.read(str(facts_file), _json(facts_file))
    try:
        weights = weights_file.read_bytes()
        shapes = _shapes(weights_file)
        model = facts.build(shapes, str(weights_file))
        if hashlib.sha256(weights).hexdigest() != facts.weights:
            raise InputError(
                f"{weights_file} is damaged, or belongs to another {FACTS_FILE}: save again"
            )
        tensors = safetensors.torch.load(weights)
    except safetensors.SafetensorError as error:
        raise InputError(f"{weights_file} is damaged: {error!s:.200}; save it again") from None
    except OSError as error:
        raise InputError(f"{weights_file} cannot be read: {error.strerror or error}") from None
    _check_finite(tensors, str(weights_file))
    model.load_state_dict(tensors)
    return Checkpoint(model.eval(), facts.vocabulary, facts.classes, facts.about, facts.max_words)


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Of the tensors in a file, by its header; raises `InputError` for other than float32."""
    shapes = {}
    with safetensors.safe_open(file, "pt") as header:
        for name in header.keys():  # noqa: SIM118
            part = header.get_slice(name)
            if part.get_dtype() != "F32":
                raise InputError(f"{file}: {name:.100} is {part.get_dtype()}; a checkpoint's are F32")
            shapes[name] = tuple(part.get_shape())
    return shapes


def _arguments(model: TextClassifier) -> dict[str, Any]:
    """What the constructor is given to make a model of this shape; how it started is no part of it."""
    names = [name for name, kind in POOLINGS.items() if type(model.pooling) is kind]
    if not names:
        raise InputError(f"pooling {type(model.pooling).__name__} is not in whenpool.POOLINGS")
    encoder = model.encoder
    if isinstance(encoder, TransformerEncoder) and (encoder.heads, encoder.norm) != (HEADS, "pre"):
        raise InputError(
            f"a checkpoint's Transformer has {HEADS} heads and norm 'pre', as TextClassifier makes it, "
            f"not {encoder.heads} and {encoder.norm!r}"
        )
    return {
        "pooling": names[0],
        "cell": encoder.cell,
        "embedding_size": encoder.input_size,
        "hidden_size": encoder.hidden_size,
        "layers": len(encoder.layers),
        "bidirectional": encoder.directions == 2,
        "padding_index": model.embedding.padding_idx,
        "drop_connect": encoder.drop_connect,
        "masked": model.masked,
    }


def _check_finite(tensors: Mapping[str, Tensor], where: str) -> None:
    for name, value in tensors.items():
        if not bool(torch.isfinite(value).all()):
            raise InputError(f"{where}: {name} holds numbers that are not finite")


def _json(file: Path) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number")

    try:
        if file.stat().st_size > LARGEST_JSON:
            raise InputError(f"{file} is larger than {LARGEST_JSON // 2**20} MB, which none of ours is")
        return json.loads(file.read_bytes().decode("utf-8"), parse_constant=refuse)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise InputError(f"{file} is not JSON of a checkpoint: too many brackets") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} is damaged or not JSON: {error!s:.100}") from None
