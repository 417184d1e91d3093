"""A trained classifier in a folder, its weights as safetensors and all else as JSON, so that
loading runs no code of its own.

Letters: N texts, C classes, T words of the longest text.
"""

import hashlib
import html
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from whenpool import __version__
from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import write_atomically
from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.tokens import strings, tokenize
from whenpool.models.pooling import TOKEN_POOLINGS, StraightThrough
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import answers

WEIGHTS_FILE, FACTS_FILE = "model.safetensors", "model.json"
FORMAT, VERSION = "whenpool-checkpoint", 1
_TAG = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(f"(?!<(?:unk|pad)>)(?:{_TAG.pattern})", _TAG.flags)
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "basic_english": tokenize,
    "untagged": lambda text: tokenize(_TAG.sub(" ", text)),
    "without_markup": lambda text: tokenize(_MARKUP.sub(" ", html.unescape(text))),
    "spaces": str.split,
}
"""How a model reads a text: its words and punctuation marks; the same without HTML tags, as older
models do; or without tags and with the letters that entities such as ``&amp;`` stand for; or what
stands between spaces."""
READS = "without_markup"  # how texts of the user are read, by `diagnose` and by the estimator
Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained classifier with its vocabulary: texts in, classes out. Raises `InputError` where
    they do not fit each other.

    Attributes:
        model: in evaluation mode, on the CPU.
        vocabulary: the words by number, ``<unk>`` and ``<pad>`` first.
        classes: names of the labels, in the order of the logits.
        about: where it comes from, such as its test accuracy.
        max_words: how many words from the start of a text are read, as in its training; None: all.
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

    def __post_init__(self) -> None:
        words, classes, limit = self.vocabulary, self.classes, self.max_words
        start = f"vocabulary must begin with {UNKNOWN} and {PADDING}"
        check([*words[:2]] == [UNKNOWN, PADDING], start)
        for name, names in (("vocabulary", words), ("classes", classes)):
            check(
                len({*names}) == len(names) > 1 and {*map(type, names)} == {str},
                f"{name} must be a list of at least two different strings",
            )
        check_known("tokenizer", self.tokenizer, TOKENIZERS)
        whole = type(limit) is int and limit >= 1
        check(limit is None or whole, f"max_words must be at least 1, or null, not {limit}")
        has = self.model.embedding.num_embeddings, self.model.classifier.out_features
        check(
            has == (len(words), len(classes)),
            f"the model has {has[0]} words and {has[1]} classes, but the checkpoint names "
            f"{len(words)} words and {len(classes)} classes",
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: n for n, word in enumerate(self.vocabulary)} | {PADDING: UNKNOWN_INDEX}

    def number(self, word: str) -> int:
        """The row of the embedding that stands for a word, known or not."""
        return self._numbers.get(word, UNKNOWN_INDEX)

    def words(self, text: str) -> list[str]:
        """The first words that the model reads of a text, cut as its tokenizer says."""
        return TOKENIZERS[self.tokenizer](text)[: self.max_words]

    def encode(self, texts: Iterable[str]) -> tuple[Tensor, Tensor]:
        """N texts -> ids (N, T) int64, right-padded, and lengths (N,). Raises `InputError` for no
        texts, one string instead of several, or a text without words."""
        numbered = self._numbered(texts)
        return numbered.batch(torch.arange(len(numbered)), PADDING_INDEX)[:2]

    @torch.inference_mode()
    def probabilities(self, texts: Iterable[str]) -> Tensor:
        """N texts -> (N, C), each row sums to 1; see `encode` for what it raises."""
        numbered = self._numbered(texts)
        rows = torch.empty(len(numbered), len(self.classes))
        for part, _, logits in answers(self.model, numbered):
            rows[part] = logits.softmax(1)
        return rows

    def predict(self, texts: Iterable[str]) -> list[str]:
        """The likeliest class of each text; see `encode` for what it raises."""
        return [self.classes[number] for number in self.probabilities(texts).argmax(1).tolist()]

    def _numbered(self, texts: Iterable[str]) -> Texts:
        rows = [[self.number(word) for word in self.words(text)] for text in strings(texts)]
        check(rows, "there are no texts; give at least one")
        if [] in rows:
            raise InputError(f"text {rows.index([])} has no words; leave it out")
        return Texts(Ragged.of(rows), torch.zeros(len(rows), dtype=torch.int64))


def save_checkpoint(
    folder: str | Path,
    model: TextClassifier,
    vocabulary: Sequence[str] | Mapping[str, int],
    classes: Sequence[str],
    max_words: int | None = None,
    tokenizer: str = "basic_english",
    **about: Scalar,
) -> Path:
    """Write a classifier into a folder, which is made; returns the folder. The arguments are those
    of `Checkpoint`; ``about`` holds plain values such as ``test_accuracy=81.5``. The vocabulary is
    a list, or a mapping to numbers as `whenpool.corpora.tokens.build_vocabulary` makes it. Raises
    `InputError` for another model than a `whenpool.TextClassifier`, a vocabulary or classes that do
    not fit it, ``max_words`` below 1, or a folder that cannot be written; see `load_checkpoint` for
    an example."""
    folder = Path(folder)
    if type(model) is not TextClassifier:  # a subclass may compute something else
        from whenpool.probes.protocol import inside

        wrapped = f"{type(model).__name__}; {inside(model)}".rstrip("; ")
        raise InputError(f"only a whenpool.TextClassifier can be saved, not {wrapped}")
    check(
        all(isinstance(value, Tensor) for value in model.state_dict().values()),
        "a quantised model cannot be saved; save it as it was before, and quantise what you load",
    )
    check(
        isinstance(model.embedding, nn.Embedding),
        "a model of an encoder's states has no vocabulary; save its state_dict",
    )
    if isinstance(vocabulary, Mapping):
        by_number = {number: word for word, number in vocabulary.items()}
        check(
            by_number.keys() == {*range(len(vocabulary))},
            "vocabulary must number its words 0, 1, 2, ...",
        )
        vocabulary = [by_number[number] for number in range(len(vocabulary))]
    state = model.state_dict().items()
    tensors = {name: value.detach().to("cpu", torch.float32).contiguous() for name, value in state}
    weights = safetensors.torch.save(tensors)
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "whenpool": __version__,
        "tokenizer": tokenizer,
        "weights": hashlib.sha256(weights).hexdigest(),
        "model": _arguments(model),
        "classes": list(classes),
        "max_words": max_words,
        "about": about,
        "vocabulary": list(vocabulary),
    }
    # in ASCII, which also holds halves of characters, as texts from JSON may have
    text = json.dumps(facts, indent=1, default=_plain)
    # so that it can be read again
    again = _made(json.loads(text), tensors, Path("the checkpoint")).model.encoder
    heads, usual = (getattr(encoder, "heads", None) for encoder in (model.encoder, again))
    check(heads == usual, f"a saved Transformer has {usual} heads, not {heads}; make it so")
    write_atomically(folder / WEIGHTS_FILE, weights)
    write_atomically(folder / FACTS_FILE, text)
    return folder


def _plain(value: Any) -> Any:
    """A number of numpy's or torch's as Python's."""
    check(
        getattr(value, "shape", None) == (),
        f"what is kept about a model must be plain values, not {type(value).__name__}",
    )
    return value.item()


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Read what `save_checkpoint` has written. Raises `InputError` for files that are missing,
    damaged, of another format, or do not fit each other.

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
        facts, weights = json.loads(facts_file.read_text("utf-8")), weights_file.read_bytes()
        check(
            (facts["format"], facts["version"]) == (FORMAT, VERSION),
            f"{facts_file}: another whenpool saved it, which can load it",
        )
        check(
            hashlib.sha256(weights).hexdigest() == facts["weights"],
            f"{weights_file} does not belong to its {FACTS_FILE}; save the model again",
        )
        return _made(facts, safetensors.torch.load(weights), facts_file)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder} is damaged ({type(error).__name__}: {error!s:.200}); save the model again"
        ) from None


def _arguments(model: TextClassifier) -> dict[str, Any]:
    """What the constructor is given to make a model of this shape; how it started is no part of
    it."""
    pooling = model.pooling
    exchanged = isinstance(pooling, StraightThrough)
    parts = (pooling.read, pooling.learn) if exchanged else (pooling, None)
    names: dict[Any, str | None] = {kind: name for name, kind in TOKEN_POOLINGS.items()}
    names[type(None)] = None
    part: Any
    for part in parts:
        other = f"pooling {type(part).__name__} is not in whenpool.POOLINGS; take one"
        check(type(part) in names, other)
        two = model.encoder.directions == 2
        alike = part is None or part.bidirectional is two
        check(alike, f"the encoder has bidirectional={two}; make {type(part).__name__} with it")
    read, learn = (names[type(part)] for part in parts)
    encoder = model.encoder
    return {
        "pooling": read,
        "through": learn,
        "cell": encoder.cell,
        "embedding_size": encoder.input_size,
        "hidden_size": encoder.hidden_size,
        "layers": len(encoder.layers),
        "bidirectional": encoder.directions == 2,
        "masked": model.masked,
        "padding_index": model.embedding.padding_idx,
        "drop_connect": encoder.drop_connect,
    }


def _made(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], file: Path) -> Checkpoint:
    """What the facts of a file describe, with its weights. Raises `InputError` where they do not
    fit."""
    words, classes = tuple(facts["vocabulary"]), tuple(facts["classes"])
    try:
        with torch.random.fork_rng(devices=[]):
            model = TextClassifier(len(words), len(classes), **facts["model"], forget_bias=None)
        model.load_state_dict(tensors)
        more = facts["about"], facts["max_words"], facts["tokenizer"]
        return Checkpoint(model.eval(), words, classes, *more)
    except (TypeError, ValueError, RuntimeError) as error:  # unknown names, or other shapes
        raise InputError(f"{file} does not describe the weights: {error!s:.400}") from None
