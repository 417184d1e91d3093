"""A training and the test of its best epoch: what it is, how it is executed, alone or several at
once."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from paper.corpora.dataset import Dataset, EncodedCorpus, encode, make_dataset, refiller
from paper.memory import give_back_freed_memory
from paper.runs.run import Facts, Place, Run, key, provenance
from paper.runs.store import Store
from paper.tricks import DropoutAttention, GradientDirected, PenaltyAttention, TeacherForcing
from whenpool.base.devices import seeded
from whenpool.base.errors import InputError, StorageError, check, check_known
from whenpool.base.files import code_fingerprint, hash_of, write_atomically
from whenpool.corpora import find
from whenpool.corpora.batches import PADDING_INDEX, Ragged, Texts
from whenpool.corpora.corpus import SPLITS, VALIDATION_LIMIT
from whenpool.corpora.settings import SHARE
from whenpool.corpora.synthetic import Grammar
from whenpool.models.batched_lstm import kernels_on
from whenpool.models.registry import LISTED_CELLS
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.batched import train_together
from whenpool.training.loop import (
    DivergenceError,
    Objective,
    Outcome,
    Recipe,
    State,
    Student,
    train,
)

PROTOCOL = 1  # Raised by hand when the meaning of a result changes, so that older ones do not count
TRICKS = ("teacher_forcing", "penalty_attention", "dropout_attention", "gradient_directed")  # §2.2
HELD = {"W_hh": ("weight_hh",), "encoder": ("embedding.", "encoder.")}  # Parts of names of weights
TEST_TEXTS = 10_000  # As many as a corpus has, roughly
# What reading a word costs without learning from it, beside a step of training on it
EVALUATION = 1 / 3


@cache
def grammar_of(corpus: str) -> Grammar | None:
    """The grammar of an embedded corpus, None for others."""
    if corpus.partition(":")[0] != "synthetic":
        return None
    return Grammar(**dict(find(corpus, Path()).options))


@dataclass(frozen=True)
class ModelSpec:
    """A `whenpool.TextClassifier`, apart from its words and classes."""

    pooling: str  # a name in `whenpool.POOLINGS`
    cell: str = "lstm"  # a name in `whenpool.models.cells.CELLS`, or "transformer"
    layers: int = 1
    bidirectional: bool = True
    embedding_size: int = 100
    hidden_size: int = 256  # per direction
    forget_bias: float | str | None = "thesis"  # see `whenpool.TextClassifier`
    input_bias: float | None = None  # see `whenpool.Encoder`
    chrono_words: int = 400  # T of the start "chrono"
    orthogonal: bool = False  # recurrent weights at the start
    drop_connect: float = 0.0
    masked: bool = True  # False: padding enters
    # the pooling through which the gradient flows back, None: ``pooling``
    through: str | None = None
    backward: str | None = None  # another way back through the cells, see `whenpool.Encoder`

    @property
    def options(self) -> Facts:
        """What `whenpool.TextClassifier` is given."""
        return {column.name: getattr(self, column.name) for column in fields(ModelSpec)}

    def make(self, words: int, classes: int, vectors: Tensor | None = None) -> TextClassifier:
        """The model before training, drawn from torch's generator."""
        return TextClassifier(
            words, classes, padding_index=PADDING_INDEX, vectors=vectors, **self.options
        )


def scores_of(outcome: Any, labels: Any = None) -> Facts:
    """What every training stores of its outcome; with test labels how often the commonest is
    right."""
    scores = {
        "test_accuracy": outcome.test.accuracy,
        "test_loss": outcome.test.loss,
        "validation_accuracy": outcome.validation_accuracy,
        "best_epoch": outcome.best_epoch,
    }
    if labels is not None:
        scores["majority_accuracy"] = majority_accuracy(labels)
    return scores


def majority_accuracy(labels: Tensor) -> float:
    """How often the commonest label is right, in %."""
    return 100 * int(labels.bincount().max()) / len(labels)


@dataclass(frozen=True)
class ByPlace(Run):
    """What a training is given by place; its other fields are given by name."""

    corpus: str  # a name for `whenpool.corpora.load`
    setting: str  # "standard", "left", "mid" or "right" (§1.8)
    size: int  # training texts
    pooling: str
    seed: int = 0  # of initialisation and order of batches


@dataclass(frozen=True)
class Training(Recipe, ModelSpec, ByPlace):
    """One training and the test of its best epoch: a recipe, a model and their data. The defaults
    are the thesis's (§1.4.2): ``Training("imdb", "mid", 1_000, "max", epochs=8)``."""

    kind, table, protocol = "training", "trainings", PROTOCOL
    order = ("corpus", "length", "size", "setting", "masked", "pooling", "seed", "key")

    length: str = "long"  # of the original texts: "long", "short" or "any"
    share: float = SHARE  # filler's part of all words
    max_words: int | None = None  # cuts each original text before composing
    validation: int | None = None  # texts; None: as many as training texts
    test: int | None = None  # texts; None: all
    vectors: str | None = None  # name of a file of word vectors, or None: random ones
    draw: int = 0  # which training texts: the first of the corpus, or later, see `make_dataset`
    fresh: bool = False  # whether the filler of the training texts is drawn anew in every epoch
    shuffled: bool = False  # whether the labels of the training texts are shuffled
    held: str | None = None  # what is not trained: "W_hh", or "encoder", its words' vectors as well
    trick: str | None = None  # one of `TRICKS`
    strength: float = 0.3  # of "gradient_directed": λ of the first epoch
    divergence: str = "forward"  # of "gradient_directed", see `paper.tricks`
    passes: int = field(default=1, init=False)  # of a recipe, which no training changes
    by_loss: bool = field(default=False, init=False)

    @classmethod
    def columns(cls) -> list[Field[Any]]:
        """Those that it is given."""
        return [column for column in fields(cls) if column.init]

    @property
    def training(self) -> "Training":  # type: ignore[override]
        return self

    @property
    def fault(self) -> str:
        """Why it cannot be trained, or ""."""
        try:
            self.check()
        except InputError as error:
            return str(error)
        return ""

    def check(self) -> None:
        """Raises `InputError` where there is no such model: not each cell has gates, for
        example."""
        if self.held:
            check_known("held", self.held, HELD)
        if self.trick:
            check_known("trick", self.trick, TRICKS)
            options = {"fresh": self.fresh, "through": self.through, "backward": self.backward}
            for name, value in options.items():
                advice = f"{name} cannot be combined with {self.trick}; leave out one of them"
                check(not value, advice)
        for name, value in self.values("size epochs batch_size max_words validation test").items():
            check(value is None or value >= 1, f"{name} must be at least 1, not {value}")
        check(self.clip is None or self.clip > 0, f"clip must be above 0, not {self.clip}")
        other = f"through must be another pooling than {self.pooling!r}; leave it out"
        check(self.through != self.pooling, other)
        _check_model(ModelSpec(**self.options), self.trick)

    @property
    def needs(self) -> "Training | None":
        """The training of the teacher (§2.2.4): a max-pooled model as the thesis trains it."""
        if self.trick != "teacher_forcing":
            return None
        return replace(self, pooling="max", forget_bias="thesis", orthogonal=False, trick=None)

    @property
    def words(self) -> float:
        """The words of a text in its setting, roughly."""
        words: float = 40 if self.length == "short" else 250
        if grammar := grammar_of(self.corpus):
            words = (grammar.shortest + grammar.longest) / 2
        words = min(self.max_words or words, words)
        return words / (1 if self.setting == "standard" else 1 - self.share)

    @property
    def cost(self) -> float:
        """Gradient-directed steps take three times as much, in half of the epochs."""
        learnt = (2 if self.trick == "gradient_directed" else 1) * self.size * self.epochs
        validation = min(self.validation or self.size, VALIDATION_LIMIT)
        read = self.epochs * validation + (self.test or TEST_TEXTS)
        return self.words * (learnt + EVALUATION * read)

    def identity(self, place: Place) -> Facts:
        self.check()
        source = place.source(self)
        data = {"corpus": source.fingerprint(self.length)}
        if self.setting != "standard":
            data["filler"] = source.filler_fingerprint()
        return self.identified(place, source.label, **data)

    def execute(
        self,
        place: Place,
        device: str = "cpu",
        keep_weights: bool = False,
        prepared: "Prepared | None" = None,
        watch: Callable[[int], None] | None = None,
    ) -> str:
        """As `Run.execute`; a loss that diverges is a result where a trick is tried. A training
        that was stopped goes on, except one with a ``watch`` (see `train`), since what was seen is
        lost."""
        name = key(self, place)  # raises for what cannot be trained before any work is done
        start = prepared or prepare(self, place)
        unfinished = Unfinished(place.store, [name], device, anew=watch is not None)
        with seeded(self.seed, device):
            torch.random.set_rng_state(start.random)  # the processor goes on from the model's start
            try:
                outcome = train(
                    start.model,
                    start.dataset,
                    self,
                    self.seed,
                    device,
                    watch=watch,
                    objective=_objective(self, place, start),
                    saved=unfinished.states[0],
                    save=None if watch else partial(unfinished.save, 0),
                )
            except DivergenceError as error:
                if not self.trick:
                    unfinished.remove(0)
                    raise
                outcome = error.left  # that some seeds diverge is part of what §2.2.7 finds
        if not (watch and place.store.has(name)):  # what another command has stored stays
            start.store(self, outcome, place, keep_weights, unfinished.provenance())
        unfinished.remove(0)
        return name


@cache
def _check_model(model: ModelSpec, trick: str | None) -> None:
    """Raises `InputError` where a model cannot be made, or not be trained with a trick."""
    with torch.random.fork_rng(devices=[]):
        model.make(2, 2)
    recurrent = LISTED_CELLS[model.cell].recurrent
    check(recurrent or not trick, f"{trick} needs a recurrent cell, not {model.cell}")


@dataclass(frozen=True)
class Prepared:
    """What a training starts from."""

    encoded: EncodedCorpus
    dataset: Dataset
    model: TextClassifier
    random: Tensor  # state of torch's generator with the model made; DropConnect draws from it

    def store(
        self, run: Training, outcome: Outcome, place: Place, keep_weights: bool, made: Any
    ) -> None:
        """Store the finished training; ``made`` is its provenance."""
        encoded, dataset, model = self.encoded, self.dataset, self.model
        trick = {"diverged": math.isnan(outcome.test.loss)} if run.trick else {}
        result: Facts = trick | {
            **scores_of(outcome, dataset.test.labels),
            "classes": len(dataset.classes),
            "corpus_complete": encoded.complete,
            **{f"{split}_texts": len(getattr(dataset, split)) for split in SPLITS},
            "vocabulary": len(dataset.vocabulary),
            "parameters": sum(p.numel() for p in model.parameters()),
            "encoder_parameters": sum(p.numel() for p in model.encoder.parameters()),
            "train_words": outcome.words,
            **{f"filler_passes_{name}": passes for name, passes in dataset.filler_passes.items()},
            "filler": place.source(run).filler_name if run.setting != "standard" else None,
            "corpus_notes": " ".join(encoded.notes),
            "seconds": outcome.seconds,
        }
        weights = outcome.weights if keep_weights else None
        run.put(place, result, made, outcome.history_rows(), weights)


def prepare(run: Training, place: Place) -> Prepared:
    """A training's texts, and its model before training."""
    encoded = encode(place.source(run), run.length, place.cache)
    read = run.values("size setting share validation test max_words seed draw")
    dataset = make_dataset(encoded, vectors=place.vectors(run.vectors), **read)
    if run.shuffled:
        order = torch.randperm(run.size, generator=torch.Generator().manual_seed(run.seed))
        dataset = replace(dataset, train=replace(dataset.train, labels=dataset.train.labels[order]))
    if run.fresh:  # other runs share the words, which change here
        ids = Ragged(dataset.train.ids.flat.clone(), dataset.train.ids.offsets)
        dataset = replace(dataset, train=replace(dataset.train, ids=ids))
    with seeded(run.seed):
        model = run.make(len(dataset.vocabulary), len(dataset.classes), dataset.vectors)
        for name, weights in model.named_parameters():
            weights.requires_grad_(not any(part in name for part in HELD.get(run.held or "", ())))
        return Prepared(encoded, dataset, model, torch.random.get_rng_state())


def trained(run: Training, place: Place) -> Prepared:
    """As `prepare`, the model with the weights of its best epoch."""
    prepared, file = prepare(run, place), place.store.weights_file(key(run, place))
    check(file.exists(), f"the weights of {run} are not stored; run it again with --keep-weights")
    prepared.model.load_state_dict(safetensors.torch.load_file(file))
    return prepared


class FreshFiller(Objective):
    """The thesis's objective on texts whose filler is another in every epoch."""

    def __init__(self, words_of: Callable[[int], Tensor]) -> None:
        self._words_of = words_of

    def begin(self, model: Any, texts: Texts) -> None:
        self._texts = texts

    def start_epoch(self, epoch: int) -> None:
        if epoch:
            self._texts.ids.flat.copy_(self._words_of(epoch))


def _objective(run: Training, place: Place, start: Prepared) -> Objective:
    if run.trick == "penalty_attention":
        return PenaltyAttention(run.epochs)
    if run.trick == "dropout_attention":
        return DropoutAttention(run.epochs)
    if run.trick == "gradient_directed":
        return GradientDirected(run.epochs, run.strength, run.divergence)
    if run.needs:
        return TeacherForcing(trained(run.needs, place).model)
    if run.fresh:
        options = run.values("size setting share max_words draw")
        return FreshFiller(refiller(start.encoded, start.dataset, **options))
    return Objective()


def execute_batched(
    runs: Sequence[Training],
    place: Place,
    device: str,
    keep_weights: Sequence[bool],
    on_end: Callable[[int, str], None] = lambda number, failure: None,
) -> None:
    """Train several models of one shape without tricks at once (`whenpool.training.batched`), and
    store each when it ends; those that were stopped go on. ``on_end`` is called with the number of
    a run that has ended, and why it failed, or ""."""
    unfinished = Unfinished(place.store, [key(run, place) for run in runs], device)
    prepared = [prepare(run, place) for run in runs]
    states, save = unfinished.states, unfinished.save
    students = [
        Student(start.model, start.dataset, run, run.seed, states[n], partial(save, n))
        for n, (run, start) in enumerate(zip(runs, prepared, strict=True))
    ]

    def end(number: int, outcome: Outcome | DivergenceError) -> None:
        if not isinstance(outcome, DivergenceError):
            made = unfinished.provenance()
            prepared[number].store(runs[number], outcome, place, keep_weights[number], made)
        unfinished.remove(number)
        on_end(number, str(outcome) if isinstance(outcome, DivergenceError) else "")

    with torch.random.fork_rng(devices=[]):
        train_together(students, device, end)


# trainings that have not ended: what stops one costs a minute and an epoch at most

# Seconds between two saves, at least: of the thesis's model one takes 0.1 s, and 50 MB
EVERY = 60.0
_LIBRARY = Path(__file__).parents[3]
_FILES = sorted([*_LIBRARY.rglob("[!.]*.py"), *_LIBRARY.rglob("[!.]*.toml")])  # no editor's locks
CODE = hash_of(*map(code_fingerprint, _FILES))  # Of the library that this process has loaded


class Unfinished:
    """The last saved epoch of trainings that are trained together, each in a file of its own: they
    go on from it bit for bit as if nothing had stopped them. ``states`` are what they go on from,
    None for those that begin anew, as they do where it cannot be read. What another version of the
    library, another device or another precision has saved is not read: one result would hold
    numbers of two kinds. With ``anew`` all begin anew."""

    def __init__(self, store: Store, keys: Sequence[str], device: str, anew: bool = False) -> None:
        group = hash_of(*sorted(keys))[:8] if len(keys) > 1 else ""
        # how many were trained at once at most, also before they were stopped, and what names those
        # models
        self._device, self._together = device, (len(keys), group)
        self._started = datetime.now(UTC).isoformat(timespec="seconds")  # before any stop
        made = provenance(device, *self._together)
        named = (made[name] for name in ("device", "threads", "torch", "python", "precision"))
        stamp = hash_of(CODE, str(len(keys) > 1 and kernels_on(device)), *map(str, named))[:12]
        self._keys, self._folder = keys, store.directory / "unfinished"
        self._files = [self._folder / f"{key}-{stamp}.pt" for key in keys]
        self._epoch, self._time = 0, time.monotonic()  # of the last save
        self.states: list[State | None] = [None] * len(keys)
        for number, file in enumerate(() if anew else self._files):
            with suppress(Exception):  # of many kinds; a training can always begin anew
                # no code of the file is run
                saved = torch.load(file, "cpu", weights_only=True, mmap=True)
                together, started, self.states[number] = saved
                self._together = max(self._together, together)
                self._started = min(self._started, started)

    def provenance(self) -> Facts:
        """Of a result of these trainings that is ready now."""
        return provenance(self._device, *self._together) | {"started": self._started}

    def remove(self, number: int) -> None:
        """Forget a training that is stored, or has failed, whatever version has saved it."""
        for file in self._folder.glob(f"{self._keys[number]}-*.pt"):
            with suppress(OSError):  # one that stays does no harm
                file.unlink()

    def save(self, number: int, state: State) -> None:
        """Called after each epoch of a training; saves it when it is time to."""
        epoch = len(state["history"])
        if epoch != self._epoch:  # the first one decides for all
            if time.monotonic() - self._time < EVERY:
                return
            self._epoch, self._time = epoch, time.monotonic()
            # now and then: after each epoch it would cost short ones too much
            give_back_freed_memory()
        # copied, since a file has the whole of what a tensor is a view of
        copied = tree_map_only(Tensor, lambda values: values.cpu().clone(), state)
        torch.save((self._together, self._started, copied), buffer := BytesIO())
        with suppress(StorageError):  # the disk may still have room for the result
            write_atomically(self._files[number], buffer.getvalue())
