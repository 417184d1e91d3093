"""What a run is, and how one is executed."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from whenpool.corpora import CorpusSource, find
from whenpool.corpora.corpus import check_length
from whenpool.errors import InputError
from whenpool.files import fingerprint
from whenpool.places import cache_directory, data_directory, project_root, store_directory
from whenpool.provenance import provenance
from whenpool.settings import SHARE, check_setting
from whenpool.store import Store, key_of

PROTOCOL = 1
"""Raised by hand when the meaning of a result changes, so that older results are not read as new."""

VECTORS = ("glove.6B.100d", "wiki-reviews.100d")
"""Word vectors that the paper's protocol looks for, best first (§1.4.2)."""


@dataclass(frozen=True)
class Training:
    """One training and the test of its best epoch. The defaults are the thesis's (§1.4.2).

    A default must never change: fields at their default do not enter the key, so that a field
    added later leaves older runs valid.
    """

    corpus: str  # a name for `whenpool.corpora.load`
    setting: str  # "standard", "left", "mid" or "right" (§1.8)
    size: int  # training texts
    pooling: str  # a name in `whenpool.POOLINGS`
    seed: int = 0  # of initialisation and order of batches
    length: str = "long"  # of the original texts: "long", "short" or "any"
    share: float = SHARE  # filler's part of all words
    max_words: int | None = None  # cuts each original text before composing
    validation: int | None = None  # texts; None: as many as training texts
    test: int | None = None  # texts; None: all
    vectors: str | None = None  # name of a file of word vectors, or None: random ones
    cell: str = "lstm"  # "lstm", "gru" or "elman"
    layers: int = 1
    bidirectional: bool = True
    embedding_size: int = 100
    hidden_size: int = 256  # per direction
    forget_bias: float | str | None = "thesis"  # see `whenpool.TextClassifier`
    drop_connect: float = 0.0
    masked: bool = True  # False: padding enters, as in the authors' code
    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 2e-3
    weight_decay: float = 0.0

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}

    @property
    def cost(self) -> float:
        """Words read in training, roughly: what one run takes beside another."""
        words = 250 if self.max_words is None else min(self.max_words, 250)
        words = 40 if self.length == "short" else words
        return self.size * self.epochs * words / (1 if self.setting == "standard" else 1 - self.share)

    def __str__(self) -> str:
        words = [self.corpus, self.length, self.setting, str(self.size), self.pooling]
        return " ".join(words) + ("" if self.masked else " unmasked") + f" seed {self.seed}"


@dataclass(frozen=True)
class Place:
    """Where runs find their data and leave their results."""

    store: Store
    data: Path
    cache: Path

    @classmethod
    def default(
        cls, data: Path | None = None, store: Path | None = None, smoke: bool = False
    ) -> "Place":
        """The folders that the environment or the clone names, see `whenpool.places`.

        Runs of the profile "smoke" lie apart, where nothing that is published reads them.
        """
        directory = store or store_directory()
        if smoke:
            return cls(Store(directory / "smoke"), data or data_directory(), cache_directory())
        root = project_root()
        records = root / "data" / "results" if root else None
        return cls(Store(directory, records), data or data_directory(), cache_directory())

    def source(self, run: Training) -> CorpusSource:
        return find(run.corpus, self.data)

    def vectors_file(self, name: str) -> Path:
        """Raises `InputError` when the vectors are not there."""
        for suffix in (".txt", ".txt.gz"):
            for folder in (self.data, self.data / "vectors"):
                if (folder / f"{name}{suffix}").is_file():
                    return folder / f"{name}{suffix}"
        raise InputError(
            f"word vectors {name}.txt are not in {self.data}; `whenpool data fetch glove` brings GloVe's"
        )


def find_vectors(place: Place) -> str | None:
    """The first of `VECTORS` that is there."""
    for name in VECTORS:
        try:
            place.vectors_file(name)
        except InputError:
            continue
        return name
    return None


def identity_of(run: Training, place: Place) -> dict[str, Any]:
    """What makes a run this run: configuration, data, protocol.

    Raises:
        InputError: for an unknown corpus, setting or length, or data that are not there.
    """
    check_setting(run.setting)
    check_length(run.length)
    source = place.source(run)
    data = {"corpus": source.fingerprint(run.length)}
    if run.setting != "standard":
        data["filler"] = source.filler_fingerprint()
    if run.vectors:
        data["vectors"] = fingerprint(place.vectors_file(run.vectors))
    return {"run": run.changed() | {"corpus": source.label}, "data": data, "protocol": PROTOCOL}


def key(run: Training, place: Place) -> str:
    """The key under which a run is stored."""
    return key_of(identity_of(run, place))


def execute(
    run: Training,
    place: Place,
    device: str = "cpu",
    keep_weights: bool = False,
    on_epoch: Callable[[], None] | None = None,
) -> str:
    """Train, test and store one run; returns its key.

    Raises:
        InputError: for data that cannot be read, too few texts, or a loss that diverges.
    """
    import safetensors.torch
    import torch

    from whenpool.dataset import encode, make_dataset
    from whenpool.models import TextClassifier
    from whenpool.text import PADDING_INDEX, load_vectors
    from whenpool.training import Recipe, train

    identity = identity_of(run, place)
    encoded = encode(place.source(run), run.length, place.cache)
    vectors = load_vectors(place.vectors_file(run.vectors), place.cache) if run.vectors else None
    if vectors and vectors.size != run.embedding_size:
        raise InputError(
            f"word vectors {run.vectors} have {vectors.size} numbers, "
            f"the model's embedding {run.embedding_size}: choose others or set embedding_size"
        )
    dataset = make_dataset(
        encoded,
        size=run.size,
        setting=run.setting,
        share=run.share,
        validation=run.validation,
        test=run.test,
        max_words=run.max_words,
        vectors=vectors,
        seed=run.seed,
    )
    with torch.random.fork_rng():
        torch.manual_seed(run.seed)
        model = TextClassifier(
            len(dataset.vocabulary),
            len(dataset.classes),
            run.pooling,
            run.cell,
            run.embedding_size,
            run.hidden_size,
            run.layers,
            run.bidirectional,
            run.forget_bias,  # type: ignore[arg-type]
            PADDING_INDEX,
            vectors=dataset.vectors,
            drop_connect=run.drop_connect,
            masked=run.masked,
        )
        recipe = Recipe(run.epochs, run.batch_size, run.learning_rate, run.weight_decay)
        outcome = train(
            model, dataset, recipe, run.seed, device, on_epoch=lambda _: on_epoch() if on_epoch else None
        )
    labels = dataset.test.labels
    result = {
        "test_accuracy": outcome.test.accuracy,
        "test_loss": outcome.test.loss,
        "validation_accuracy": outcome.validation_accuracy,
        "best_epoch": outcome.best_epoch,
        "majority_accuracy": 100 * int(labels.bincount().max()) / len(labels),
        "classes": len(dataset.classes),
        "corpus_complete": encoded.complete,
        "train_texts": len(dataset.train),
        "validation_texts": len(dataset.validation),
        "test_texts": len(dataset.test),
        "vocabulary": len(dataset.vocabulary),
        "parameters": sum(p.numel() for p in model.parameters()),
        "encoder_parameters": sum(p.numel() for p in model.encoder.parameters()),
        "train_words": outcome.words,
        "filler_passes_train": dataset.filler_passes["train"],
        "filler_passes_validation": dataset.filler_passes["validation"],
        "filler_passes_test": dataset.filler_passes["test"],
        "filler": place.source(run).filler_name if run.setting != "standard" else None,
        "corpus_notes": " ".join(encoded.notes),
        "seconds": outcome.seconds,
    }
    weights = safetensors.torch.save(outcome.weights) if keep_weights else None
    return place.store.put(
        identity, asdict(run), result, provenance(device), outcome.history_rows(), weights
    )
