"""What a tagging run is: one training of a sequence tagger, and the test of its best epoch."""

from dataclasses import dataclass, fields, replace
from typing import Any

from whenpool.base.errors import InputError
from whenpool.base.files import fingerprint
from whenpool.corpora.tagged.encodings import ENCODINGS
from whenpool.corpora.tagged.sources import TaggedSource, find_tagged
from whenpool.runs.training_run import Place, Training

TAGGING_PROTOCOL = 1
"""Raised by hand when the meaning of a tagging result changes."""

_WORDS = {"ud_ewt": 204_577, "wnut17": 62_730}
_ASSUMED_WORDS = 15_000
"""Training words of other corpora."""
_COUNTS = ("layers", "embedding_size", "hidden_size", "epochs", "batch_size")


@dataclass(frozen=True)
class Tagging:
    """One tagger trained on the sentences of a corpus.

    As with `Training`, a default must never change.
    """

    corpus: str  # a name for `whenpool.corpora.tagged.find_tagged`
    seed: int = 0  # of initialisation, dropout and the order of batches
    cell: str = "lstm"  # a name in `whenpool.models.encoder.CELLS`
    bidirectional: bool = True
    layers: int = 1
    embedding_size: int = 100  # of a word
    hidden_size: int = 128  # per direction
    features: bool = True  # whether the tagger sees suffix and shape of a word besides
    feature_size: int = 25  # of each
    encoding: str | None = None  # "io", "iob1" or "iob2" to train in; None: the file's own
    vectors: str | None = None  # name of a file of word vectors, or None: random ones
    dropout: float = 0.3  # of inputs and states
    unknown_rate: float = 0.5  # how often a word that stands once in training is read as unknown
    epochs: int = 8
    batch_size: int = 32  # sentences
    learning_rate: float = 2e-3  # Adam's
    profiled: int = 100  # validation sentences whose gradients are measured, the longest

    def __post_init__(self) -> None:
        if self.encoding not in (None, *ENCODINGS):
            raise InputError(
                f"encoding {self.encoding!r} is unknown; choose one of {', '.join(ENCODINGS)}, or None"
            )
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name} of a tagging run must be at least 1, not {getattr(self, name)}"
                )
        for name, high in (("dropout", 1.0), ("unknown_rate", 1.0 + 1e-9)):
            if not 0 <= getattr(self, name) < high:
                raise InputError(f"{name} of a tagging run is a rate, not {getattr(self, name)}")

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}

    @property
    def training(self) -> None:
        """It is not a `Training`: see `Run`."""
        return

    @property
    def needs(self) -> Training | None:
        """Nothing."""
        return None

    @property
    def cost(self) -> float:
        """Words read in training, roughly, as `Training.cost` has it."""
        return float(self.epochs * _WORDS.get(self.corpus.partition(":")[0], _ASSUMED_WORDS))

    @property
    def shape(self) -> "Tagging":
        """The run without its vectors."""
        return replace(self, vectors=None)

    def source(self, place: Place) -> TaggedSource:
        """Raises `InputError` for an unknown corpus, or files that are not there."""
        return find_tagged(self.corpus, place.data)

    def identity(self, place: Place) -> dict[str, Any]:
        """What makes a run this run: configuration, data, protocol.

        Raises:
            InputError: for data that are not here.
        """
        source = self.source(place)
        data = {"corpus": source.fingerprint()}
        if self.vectors:
            data["vectors"] = fingerprint(place.vectors_file(self.vectors))
        own = self.changed() | {"corpus": source.label}
        return {"run": own, "data": data, "protocol": TAGGING_PROTOCOL}

    def __str__(self) -> str:
        direction = "bidirectional" if self.bidirectional else "left to right"
        encoding = f" {self.encoding}" if self.encoding else ""
        return f"{self.corpus} tagging {self.cell} {direction}{encoding} seed {self.seed}"
