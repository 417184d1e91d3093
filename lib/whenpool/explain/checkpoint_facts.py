"""What a checkpoint's JSON says, checked field by field before anything is made of it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from whenpool.base.errors import InputError
from whenpool.corpora.tokens import PADDING, PADDING_INDEX, UNKNOWN
from whenpool.models.encoder import CELLS
from whenpool.models.pooling import POOLINGS
from whenpool.models.text_classifier import TextClassifier, make_encoder
from whenpool.models.transformer import TRANSFORMER

FORMAT, VERSION = "whenpool-checkpoint", 1
TOKENIZER = "basic_english"
_LARGEST = 2**20

Scalar = str | int | float | bool | None
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
            _arguments(_Fields(where, fields.of("model", dict, "an object"), "model.")),
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


def _arguments(fields: "_Fields") -> dict[str, Any]:
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
