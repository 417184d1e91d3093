"""A trained classifier in a folder: its weights as safetensors, all else as JSON.

Loading one runs no code of its own, and makes nothing of a size that only its JSON names: the weights'
header is held against it first.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from whenpool.corpora.tokens import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, tokenize
from whenpool.models.encoder import CELLS
from whenpool.models.pooling import POOLINGS
from whenpool.models.text_classifier import TextClassifier, make_encoder
from whenpool.models.transformer import HEADS, TRANSFORMER, TransformerEncoder

WEIGHTS_FILE, FACTS_FILE = "model.safetensors", "model.json"
LARGEST_JSON = 256 * 2**20
"""Bytes of a `FACTS_FILE` that is read at all."""
_BATCH_WORDS = 32_768

Scalar = str | int | float | bool | None


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


FORMAT, VERSION = "whenpool-checkpoint", 1
TOKENIZER = "basic_english"
_LARGEST = 2**20

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Facts:
    """All of a checkpoint but its weights.

    Attributes:
        where: what a mistake is told to be in.
        model: arguments of `whenpool.TextClassifier`, besides the sizes that follow from the rest.
        weights: SHA-256 of the file of weights.
        max_words: so many of a text's first words are read; None: all.
    """

    where: str
    model: dict[str, Any]
    vocabulary: tuple[str, ...]
    classes: tuple[str, ...]
    about: dict[str, Scalar]
    weights: str
    max_words: int | None

    @classmethod
    def read(cls, where: str, facts: Any) -> "Facts":
        """Raises `InputError` for a field that is missing or not what it should be."""
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise InputError(f"{where}: format is not {FORMAT!r}, so it is not a checkpoint of ours")
        if facts.get("version") != VERSION or isinstance(facts.get("version"), bool):
            raise InputError(
                f"{where}: version is {facts.get('version')!r:.40}, and this whenpool reads "
                f"{VERSION}: use the whenpool that saved it"
            )
        fields = _Fields(where, facts)
        fields.one_of("tokenizer", (TOKENIZER,))
        vocabulary = fields.names("vocabulary")
        if vocabulary[:2] != (UNKNOWN, PADDING):
            raise InputError(f"{where}: vocabulary must begin with {UNKNOWN!r}, {PADDING!r}")
        return cls(
            where,
            _checked_arguments(_Fields(where, fields.of("model", dict, "an object"), "model.")),
            vocabulary,
            fields.names("classes"),
            _about(_Fields(where, fields.of("about", dict, "an object"), "about.")),
            fields.of("weights", str, "a SHA-256", lambda value: len(value) == 64),
            fields.limit("max_words"),
        )

    def build(self, shapes: Shapes, where: str) -> TextClassifier:
        """The model described, untrained, once weights of these shapes are found to be its own.

        Nothing is made of a size that the weights do not have.

        Raises:
            InputError: where they differ, naming the tensor.
        """
        self._check_sizes(shapes, where)
        with torch.random.fork_rng(devices=[]):
            model = TextClassifier(
                len(self.vocabulary), len(self.classes), **self.model, forget_bias=None
            )
        _compare({name: tuple(v.shape) for name, v in model.state_dict().items()}, shapes, where)
        return model

    def _check_sizes(self, shapes: Shapes, where: str) -> None:
        """Everything but the pooling, whose size follows from the encoder's."""
        rows = (*shapes.get("embedding.weight", ()), 0)[0]
        if rows != len(self.vocabulary):
            raise InputError(
                f"{where}: embedding.weight has {rows:,} rows, and the vocabulary "
                f"{len(self.vocabulary):,} words"
            )
        outputs = (*shapes.get("classifier.weight", ()), 0)[0]
        if outputs != len(self.classes):
            raise InputError(
                f"{where}: classifier.weight has {outputs:,} rows, and there are "
                f"{len(self.classes):,} classes"
            )
        sizes = ("cell", "layers", "bidirectional")
        try:
            with torch.device("meta"):  # no memory for numbers
                encoder = make_encoder(
                    self.model["embedding_size"],
                    self.model["hidden_size"],
                    **{name: self.model[name] for name in sizes},
                )
        except InputError as error:  # a cell that cannot have these sizes
            raise InputError(f"{self.where}: {error}") from None
        wanted = {f"encoder.{name}": tuple(v.shape) for name, v in encoder.state_dict().items()}
        wanted["embedding.weight"] = (rows, encoder.input_size)
        wanted["classifier.weight"] = (outputs, encoder.output_size)
        wanted["classifier.bias"] = (outputs,)
        has = {name: shape for name, shape in shapes.items() if not name.startswith("pooling.")}
        _compare(wanted, has, where)


def _compare(wanted: Shapes, has: Shapes, where: str) -> None:
    for name in sorted(wanted.keys() | has.keys()):
        if wanted.get(name) != has.get(name):
            found = f"has the shape {has[name]}" if name in has else "is not there"
            need = f"it is {wanted[name]}" if name in wanted else "there is none"
            raise InputError(f"{where}: {name:.100} {found}; in the model described {need}")


def _checked_arguments(fields: "_Fields") -> dict[str, Any]:
    known: dict[str, Callable[[str], Any]] = {
        "pooling": lambda name: fields.one_of(name, tuple(POOLINGS)),
        "cell": lambda name: fields.one_of(name, (*CELLS, TRANSFORMER)),
        "embedding_size": lambda name: fields.count(name, _LARGEST),
        "hidden_size": lambda name: fields.count(name, _LARGEST),
        "layers": lambda name: fields.count(name, 64),
        "bidirectional": lambda name: fields.of(name, bool, "true or false"),
        "padding_index": lambda name: fields.one_of(name, (PADDING_INDEX, None)),
        "drop_connect": fields.rate,
        "masked": lambda name: fields.of(name, bool, "true or false"),
    }
    for name in fields.facts:
        if name not in known:
            raise InputError(f"{fields.where}: model.{name:.60} is not known to this version")
    return {name: read(name) for name, read in known.items()}


def _about(fields: "_Fields") -> dict[str, Scalar]:
    for name, value in fields.facts.items():
        finite = not isinstance(value, float) or math.isfinite(value)
        if not isinstance(value, str | int | float | bool | None) or not finite:
            raise InputError(f"{fields.where}: about.{name:.60} is not a plain value")
        fields.check_text(name, "about")
        fields.check_text(value if isinstance(value, str) else "", f"about.{name:.60}")
    return fields.facts


@dataclass(frozen=True)
class _Fields:
    """The fields of one object; every mistake names the file and the field."""

    where: str
    facts: dict[str, Any]
    prefix: str = field(default="")

    def of(
        self, name: str, kind: type, what: str, holds: Callable[[Any], bool] = lambda value: True
    ) -> Any:
        value = self.facts.get(name)
        if type(value) is not kind or not holds(value):
            raise self._wrong(name, what)
        return value

    def count(self, name: str, largest: int) -> int:
        what = f"a whole number from 1 to {largest:,}"
        return self.of(name, int, what, lambda value: 1 <= value <= largest)

    def limit(self, name: str) -> int | None:
        """A count of at least 1, or none; the field itself must be there."""
        value = self.facts.get(name, 0)
        if value is not None and (type(value) is not int or value < 1):
            raise self._wrong(name, "a whole number from 1, or null")
        return value

    def rate(self, name: str) -> float:
        value = self.facts.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise self._wrong(name, "a rate in [0, 1)")
        return float(value)

    def one_of(self, name: str, known: tuple[Any, ...]) -> Any:
        value = self.facts.get(name, "")
        if isinstance(value, bool | float | list | dict) or value not in known:
            raise self._wrong(name, "one of " + ", ".join(map(str, known)))
        return value

    def names(self, name: str) -> tuple[str, ...]:
        values = self.of(name, list, "a list of at least two words", lambda value: len(value) > 1)
        for place, value in enumerate(values):
            if not isinstance(value, str) or not value:
                raise InputError(f"{self.where}: {name}[{place}] is not a word but {value!r:.60}")
            self.check_text(value, f"{name}[{place}]")
        word, times = Counter(values).most_common(1)[0]
        if times > 1:
            raise InputError(f"{self.where}: {name} has {word!r:.60} {times} times")
        return tuple(values)

    def check_text(self, text: str, name: str) -> None:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(f"{self.where}: {name} is not Unicode text") from None

    def _wrong(self, name: str, what: str) -> InputError:
        value = f"{self.facts[name]!r:.60}" if name in self.facts else "missing"
        return InputError(f"{self.where}: {self.prefix}{name} is {what}, and here {value}")
