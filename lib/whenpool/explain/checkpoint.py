"""A trained classifier in a folder: its weights as safetensors, all else as JSON.

Loading one runs no code of its own, and makes nothing of a size that only its JSON names: that is first
compared with the weights' header.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from whenpool.base.errors import InputError, check
from whenpool.base.files import write_atomically
from whenpool.base.version import __version__
from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.tokens import tokenize
from whenpool.models.pooling import POOLINGS
from whenpool.models.text_classifier import TextClassifier
from whenpool.models.transformer import HEADS, TransformerEncoder
from whenpool.training.loop import answers

WEIGHTS_FILE, FACTS_FILE = "model.safetensors", "model.json"
FORMAT, VERSION = "whenpool-checkpoint", 1
_TAGS = (
    "a abbr article aside b big blockquote body br center cite code dd del details div dl dt em figure font "
    "footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins label li link main meta nav "
    "ol p pre q s script section small span strike strong style sub sup table tbody td th thead title tr "
    "tt u ul video"
).replace(" ", "|")
_TAG = re.compile(rf"</?(?:{_TAGS})(?:\s[^<>]*)?/?>|<!--.*?-->", re.IGNORECASE | re.DOTALL)


def without_tags(text: str) -> str:
    """A text with a space in the place of each HTML tag."""
    return _TAG.sub(" ", text)


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "basic_english": tokenize,
    "untagged": lambda text: tokenize(without_tags(text)),
    "characters": lambda text: tokenize(" ".join(without_tags(text))),
}
"""How a model reads a text: its words and punctuation marks, the same without HTML tags, or without them
each character as a word."""
Scalar = str | int | float | bool | None
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained classifier with its vocabulary: texts in, classes out.

    Attributes:
        model: in evaluation mode, on the CPU.
        vocabulary: the words by number, ``<unk>`` and ``<pad>`` first.
        classes: names of the labels, in the order of the logits.
        about: where it comes from, such as its test accuracy.
        max_words: so many of a text's first words are read, as in its training; None: all.
        tokenizer: a name in `TOKENIZERS`.

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
    tokenizer: str = "basic_english"

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: n for n, word in enumerate(self.vocabulary)} | {PADDING: UNKNOWN_INDEX}

    def knows(self, word: str) -> bool:
        """Whether the model has a vector of its own for a word."""
        return self.number(word) != UNKNOWN_INDEX

    def number(self, word: str) -> int:
        """The row of the embedding that stands for a word, known or not."""
        return self._numbers.get(word, UNKNOWN_INDEX)

    def words(self, text: str) -> list[str]:
        """What the model reads of a text: its first lower-case words and punctuation marks."""
        return TOKENIZERS[self.tokenizer](text)[: self.max_words]

    def encode(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """N texts -> ids (N, T) int64, right-padded, and lengths (N,). Raises `InputError` for no texts, one
        string instead of several, or a text without words."""
        return self._numbered(texts).batch(torch.arange(len(texts)), PADDING_INDEX)[:2]

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """N texts -> (N, C), each row sums to 1; see `encode` for what it raises."""
        found = torch.empty(len(texts), len(self.classes))
        for part, _, logits in answers(self.model, self._numbered(texts)):
            found[part] = logits.softmax(1)
        return found

    def predict(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text; see `encode` for what it raises."""
        return [self.classes[place] for place in self.probabilities(texts).argmax(1).tolist()]

    def _numbered(self, texts: Sequence[str]) -> Texts:
        rows = [[self.number(word) for word in self.words(text)] for text in strings(texts)]
        check(rows, "there are no texts; give at least one")
        if [] in rows:
            raise InputError(f"text {rows.index([])} has no words; leave it out")
        return Texts(Ragged.of(rows), torch.zeros(len(texts), dtype=torch.int64))


def strings(texts: Iterable[str]) -> list[str]:
    """Raises `InputError` for one string instead of several, a table, or what is no string."""
    check(not isinstance(texts, str), "texts must be a list, not one string; give [text]")
    flat = not isinstance(texts, Mapping) and getattr(texts, "ndim", 1) == 1
    check(flat, "texts must be a list or one column; of a table give table['text']")
    found = list(texts)
    for place, text in enumerate(found):
        check(isinstance(text, str), f"text {place} must be a string, not {type(text).__name__}")
    return found


def save_checkpoint(
    folder: str | Path,
    model: TextClassifier,
    vocabulary: Sequence[str],
    classes: Sequence[str],
    max_words: int | None = None,
    tokenizer: str = "basic_english",
    **about: Scalar,
) -> Path:
    """Write a classifier into a folder, which is made; returns the folder. Raises `InputError` for
    another model than a `whenpool.TextClassifier`, a vocabulary or classes that do not fit it,
    ``max_words`` below 1, weights that are not finite, or a folder that cannot be written.

    Args:
        vocabulary: the words by number, ``<unk>`` and ``<pad>`` first, as
            `whenpool.corpora.tokens.build_vocabulary` makes it.
        classes: names of the labels, in the order of the logits.
        max_words: so many of a text's first words are read, if it was so in training; None: all.
        tokenizer: a name in `TOKENIZERS`.
        about: where the model comes from, plain values such as ``test_accuracy=81.5``.

    Examples:
        >>> import tempfile
        >>> model = TextClassifier(4, classes=2, embedding_size=8, hidden_size=16)
        >>> words, classes = ("<unk>", "<pad>", "good", "bad"), ("negative", "positive")
        >>> folder = save_checkpoint(tempfile.mkdtemp(), model, words, classes, test_accuracy=81.5)
        >>> sorted(path.name for path in folder.iterdir())
        ['model.json', 'model.safetensors']
    """
    folder = Path(folder)
    own = type(model) is TextClassifier  # a subclass may compute something else
    check(own, f"only a whenpool.TextClassifier can be saved, not {type(model).__name__}")
    state = model.state_dict().items()
    tensors = {name: value.detach().to("cpu", torch.float32).contiguous() for name, value in state}
    _check_finite(tensors, "the model")
    weights = safetensors.torch.save(tensors)
    facts = {
        "format": FORMAT, "version": VERSION, "whenpool": __version__, "tokenizer": tokenizer,
        "weights": hashlib.sha256(weights).hexdigest(), "model": _arguments(model),
        "classes": list(classes), "max_words": max_words, "about": about, "vocabulary": list(vocabulary),
    }  # fmt: skip
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    _check_facts(facts, "the checkpoint")  # so that it can be read again
    _outline(facts, "the checkpoint", shapes, "the model")
    write_atomically(folder / WEIGHTS_FILE, weights)
    write_atomically(folder / FACTS_FILE, json.dumps(facts, ensure_ascii=False, indent=1))
    return folder


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Read what `save_checkpoint` has written. Raises `InputError` for files that are missing, damaged,
    of another format, or do not fit each other: the line names the file and what is wrong in it.

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
        check(file.is_file(), f"{folder} is not the folder of a saved model: it has no {file.name}")
    try:
        facts = json.loads(facts_file.read_bytes().decode("utf-8"))
        weights = weights_file.read_bytes()
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{facts_file} is damaged ({error!s:.100}); save the model again") from None
    _check_facts(facts, str(facts_file))
    try:
        shapes = {}
        with safetensors.safe_open(weights_file, "pt") as header:
            for name in header.keys():  # noqa: SIM118
                part = header.get_slice(name)
                if (kind := part.get_dtype()) != "F32":
                    raise InputError(f"{weights_file}: {name:.100} must be F32, not {kind}")
                shapes[name] = tuple(part.get_shape())
        outline = _outline(facts, str(facts_file), shapes, str(weights_file))
        if hashlib.sha256(weights).hexdigest() != facts["weights"]:
            raise InputError(f"{weights_file} does not belong to its {FACTS_FILE}; save the model again")
        tensors = safetensors.torch.load(weights)
    except safetensors.SafetensorError as error:
        raise InputError(f"{weights_file} is damaged ({error!s:.200}); save the model again") from None
    _check_finite(tensors, str(weights_file))
    model = outline.to_empty(device="cpu")
    model.load_state_dict(tensors)
    words, classes = tuple(facts["vocabulary"]), tuple(facts["classes"])
    more = facts["about"], facts["max_words"], facts["tokenizer"]
    return Checkpoint(model.eval(), words, classes, *more)


def _arguments(model: TextClassifier) -> dict[str, Any]:
    """What the constructor is given to make a model of this shape; how it started is no part of it."""
    names = [name for name, kind in POOLINGS.items() if type(model.pooling) is kind]
    check(names, f"pooling {type(model.pooling).__name__} is not in whenpool.POOLINGS; take one")
    encoder = model.encoder
    if isinstance(encoder, TransformerEncoder) and encoder.heads != HEADS:
        raise InputError(f"a saved Transformer must have {HEADS} heads, not {encoder.heads}")
    return {
        "pooling": names[0], "cell": encoder.cell, "embedding_size": encoder.input_size,
        "hidden_size": encoder.hidden_size, "layers": len(encoder.layers),
        "bidirectional": encoder.directions == 2, "padding_index": model.embedding.padding_idx,
        "drop_connect": encoder.drop_connect, "masked": model.masked,
    }  # fmt: skip


def _check_finite(tensors: Mapping[str, Tensor], where: str) -> None:
    for name, value in tensors.items():
        check(bool(torch.isfinite(value).all()), f"{where}: {name} has numbers that are not finite")


_FIELDS: dict[str, tuple[type, ...]] = {
    "format": (str,), "version": (int,), "whenpool": (str,), "tokenizer": (str,), "weights": (str,),
    "model": (dict,), "classes": (list,), "max_words": (int, NoneType), "about": (dict,),
    "vocabulary": (list,), "model.pooling": (str,), "model.cell": (str,), "model.embedding_size": (int,),
    "model.hidden_size": (int,), "model.layers": (int,), "model.bidirectional": (bool,),
    "model.padding_index": (int, NoneType), "model.drop_connect": (float, int), "model.masked": (bool,),
}  # fmt: skip
_CALLED = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object",
    list: "a list", NoneType: "null",
}  # fmt: skip


def _check_facts(facts: Any, where: str) -> None:
    """Raises `InputError` for a field that is missing or not what it should be."""
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise InputError(f"{where}: format is not {FORMAT!r}, so whenpool did not save it")
    if (type(facts.get("version")), facts.get("version")) != (int, VERSION):
        found = f"{facts.get('version')!r:.40}, but this whenpool reads {VERSION}"
        raise InputError(f"{where}: version is {found}; use the whenpool that saved it")
    model = facts.get("model")
    inner = {f"model.{name}": value for name, value in model.items()} if isinstance(model, dict) else {}
    given = facts | inner  # fields of the model by names such as model.layers
    for name in given.keys() - _FIELDS.keys() | {name for name in facts if "." in name}:
        raise InputError(f"{where}: {name:.60} is unknown; use the whenpool that saved it")
    for name, allowed in _FIELDS.items():
        if name not in given or type(given[name]) not in allowed:
            here = f"{given[name]!r:.60}" if name in given else "missing"
            called = " or ".join(_CALLED[kind] for kind in allowed)
            raise InputError(f"{where}: {name} must be {called}, not {here}")

    def need(holds: bool, name: str, value: Any, what: str) -> None:
        if not holds:
            raise InputError(f"{where}: {name} must be {what}, not {value!r:.60}")

    limit, words, padding = given["max_words"], given["vocabulary"], given["model.padding_index"]
    need(facts["tokenizer"] in TOKENIZERS, "tokenizer", facts["tokenizer"], " or ".join(TOKENIZERS))
    need(limit is None or limit >= 1, "max_words", limit, "a whole number from 1, or null")
    need(padding in (PADDING_INDEX, None), "model.padding_index", padding, f"{PADDING_INDEX} or null")
    for part, largest in (("embedding_size", 2**20), ("hidden_size", 2**20), ("layers", 64)):
        size = given[f"model.{part}"]
        need(1 <= size <= largest, f"model.{part}", size, f"a whole number from 1 to {largest:,}")
    for name, value in facts["about"].items():
        plain = isinstance(value, str | int | float | bool | None) and value not in (math.inf, -math.inf)
        need(plain and value == value, f"about.{name:.60}", value, "a text, number, true, false or null")
    need(words[:2] == [UNKNOWN, PADDING], "vocabulary", words[:2], f"{UNKNOWN!r}, {PADDING!r} and words")
    for name in ("classes", "vocabulary"):
        need(len(facts[name]) > 1, name, facts[name], "a list of at least two words")
        for place, word in enumerate(facts[name]):
            need(isinstance(word, str) and word != "", f"{name}[{place}]", word, "a word")
        word, times = Counter(facts[name]).most_common(1)[0]
        need(times == 1, name, [word, word], "a list of different words")
    try:  # a lone surrogate is valid JSON, and no file can hold it
        json.dumps(facts, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where} has half of a character in it: {error!s:.100}") from None


class _NothingDrawn(TorchFunctionMode):
    """Leaves out the random numbers of modules on "meta", for which torch loads its compiler: a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_"):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def _outline(facts: dict[str, Any], where: str, shapes: Shapes, weights: str) -> TextClassifier:
    """The model that checked facts describe, without memory for its numbers."""
    words, classes = len(facts["vocabulary"]), len(facts["classes"])
    sizes = {"embedding.weight": ("vocabulary", words), "classifier.weight": ("classes", classes)}
    for tensor, (name, size) in sizes.items():
        if (rows := (*shapes.get(tensor, ()), 0)[0]) != size:
            raise InputError(f"{weights}: {tensor} has {rows:,} rows, but {name} {size:,} entries")
    try:
        with torch.device("meta"), _NothingDrawn():
            model = TextClassifier(words, classes, **facts["model"], forget_bias=None)
    except InputError as error:  # a name that is unknown, or a cell that cannot have these sizes
        raise InputError(f"{where}: {error}") from None
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    for name in sorted(wanted.keys() | shapes.keys()):
        if wanted.get(name) != shapes.get(name):
            found = f"has the shape {shapes[name]}" if name in shapes else "is not there"
            need = f"has {wanted[name]}" if name in wanted else "has none"
            raise InputError(f"{weights}: {name:.100} {found}, but the model described {need}")
    return model
