"""One of `whenpool.probes` on the model that one training leaves: what it is, and what it measures.

Letters: N texts, P points of a profile.
"""

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from paper.corpora.dataset import Dataset
from paper.faithfulness import WINDOW, faithfulness
from paper.runs.kinds.training import (
    EVALUATION,
    Prepared,
    Training,
    majority_accuracy,
    prepare,
    trained,
)
from paper.runs.run import Facts, Place, Run, key, provenance
from whenpool.base.devices import seeded
from whenpool.base.errors import check
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX, Texts, batches_for
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import POOLINGS
from whenpool.models.transformer import TRANSFORMER
from whenpool.probes import (
    gradient_norms,
    gradient_profile,
    nwi,
    padding_sweep,
    step_megabytes,
    vanishing_ratio,
)
from whenpool.probes.protocol import evaluating
from whenpool.training.loop import evaluate, evaluation_words

PROBE_PROTOCOL = 1  # Raised by hand when the meaning of a probe's result changes
POINTS = 100  # Positions of a profile (§1.5, Algorithm 1)
VALLEY_POINTS = 50  # The same of each look of `Valleys`
GRADIENT_WORDS = 16_384  # Padded words, on a processor, of a batch whose gradients are looked at
SATURATED = 95.0  # The training accuracy, in %, at which Table 1.2 reads the vanishing ratio
Rows = list[Facts]  # What a probe measures, a row each
Measured = tuple[Facts, Rows]  # The numbers of a probe run, and its rows


@dataclass(frozen=True)
class Probe(Run):
    """What all probe runs share."""

    training: Training = field()

    kind, table, protocol = "probe", "probes", Training.protocol
    probe: ClassVar[str]  # which one it is, a key of `PROBES`
    effort: ClassVar[float] = 1.0  # what a word of a text costs, beside a step of training on it
    on_trained: ClassVar[bool] = True  # whether it reads the weights that the training leaves
    order = ("probe", *Training.order)

    @property
    def needs(self) -> Training | None:
        """The training whose weights it reads."""
        return self.training if self.on_trained and not getattr(self, "untrained", False) else None

    @property
    def cost(self) -> float:
        return self.effort * getattr(self, "texts", self.training.size) * self.training.words

    @property
    def shape(self) -> Self:
        return replace(self, training=self.training.shape)

    @classmethod
    def columns(cls) -> list[Field[Any]]:
        """Without those of its training."""
        return [column for column in fields(cls) if column.name != "training"]

    def changed(self) -> Facts:
        return {"probe": self.probe, **super().changed(), **self.training.changed()}

    def identity(self, place: Place) -> Facts:
        """The identity of the training, and what the probe does with it."""
        training = self.training.identity(place)
        probe = {name: v for name, v in self.changed().items() if name not in training["run"]}
        return training | {"probe": probe | {"protocol": PROBE_PROTOCOL}}

    def row(self) -> Facts:
        return {"probe": self.probe, **super().row(), **self.training.row()}

    @classmethod
    def of_row(cls, row: Any) -> "Probe":
        probe = PROBES[row["probe"]]
        return probe(Training.of_row(row), **probe.options_of(row))

    @classmethod
    def is_current(cls, rows: Any) -> Any:
        current = rows["probe"].isin(PROBES) & (rows["probe_protocol"] == PROBE_PROTOCOL)
        return current & (rows["protocol"] == Training.protocol)

    @classmethod
    def points_of(cls, history: str, row: Facts) -> Rows:
        """All that a probe of this name has measured."""
        return row["history"] if row["run"].get("probe") == history else []

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        """What the probe finds on a model, trained where the probe needs it."""
        raise NotImplementedError

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        self.identity(place)  # which says what cannot be measured before any work is done
        read = trained if self.needs == self.training else prepare
        prepared = read(self.training, place)
        started = time.perf_counter()  # texts are read for several runs
        prepared.model.to(device)
        numbers, rows = self.look(prepared, place, device)
        about = {
            "training": key(self.training, place),
            "probe_protocol": PROBE_PROTOCOL,
            "corpus_complete": prepared.encoded.complete,
            "corpus_notes": " ".join(prepared.encoded.notes),
            "seconds": time.perf_counter() - started,
        }
        return self.put(place, about | numbers, provenance(device), rows)

    def look(self, prepared: Prepared, place: Place, device: str) -> Measured:
        return self.measure(prepared.model, prepared.dataset)


@dataclass(frozen=True)
class GradientProfile(Probe):
    """Gradient norms over the words of the first training texts (§1.5, Figure 1.2a)."""

    texts: int = 500
    untrained: bool = False  # of the model as the training begins with it

    probe, effort = "gradients", 1.6

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        norms, lengths = _norms(model, dataset.train.first(self.texts))
        profiles = gradient_profile(norms, lengths, POINTS)  # (N, P)
        rows = _rows(mean=profiles.mean(0), median=profiles.median(0).values)
        return {"texts_probed": len(lengths)}, rows


@dataclass(frozen=True)
class Course(Probe):
    """What is measured while the training goes on. It is done on the way and stored with its
    weights; one that is on record, whatever device computed it, is repeated up to the last look,
    and stays as it is."""

    texts: int = 64  # that are looked at
    sample: int = 256  # training, and validation texts, for the accuracies
    # where these are given, the first test texts of so many words are looked at
    shortest: int | None = None
    longest: int | None = None
    until: int | None = None  # the last look is after so many texts; None: when the training ends

    effort = 180.0  # of some 45 looks

    @property
    def needs(self) -> Training | None:
        return self.training.needs

    @property
    def cost(self) -> float:
        return self.training.cost + super().cost

    @property
    def phase(self) -> float:
        """Before the trainings: its own is done by then."""
        return self.training.phase - 0.5

    def is_due(self, seen: int, last: float) -> bool:
        """Whether it is time for a look, after so many texts; ``last`` is when the last one was."""
        raise NotImplementedError

    def see(self, model: Any, dataset: Dataset) -> Rows:
        """The rows of one look."""
        raise NotImplementedError

    def numbers(self, rows: Rows, dataset: Dataset) -> Facts:
        """What is stored beside the rows of all looks."""
        return {}

    def look(self, prepared: Prepared, place: Place, device: str) -> Measured:
        """Train and look on the way; the training is stored first."""
        model, dataset = prepared.model, prepared.dataset
        end = self.until or self.training.size * self.training.epochs
        repeated = place.store.has(key(self.training, place))
        rows, last = Rows(), -math.inf

        def watch(seen: int) -> None:
            nonlocal last
            if seen <= end and self.is_due(seen, last):
                rows.extend({"examples": seen} | row for row in self.see(model, dataset))
                last = seen
            if repeated and seen >= end:
                raise _LookedEnoughError

        with suppress(_LookedEnoughError):
            self.training.execute(place, device, True, prepared, watch)
        return self.numbers(rows, dataset), rows


class _LookedEnoughError(Exception):
    """Ends a training that is on record."""


@dataclass(frozen=True)
class GradientTrace(Course):
    """The vanishing ratio (Figures 1.2b, 1.2c and 1.3, Table 1.2): of the first training texts,
    beside the accuracies, or of test texts, without accuracies."""

    probe = "trace"

    def is_due(self, seen: int, last: float) -> bool:
        """After every 128 texts, when the ratio changes fastest, and from 1,280 texts on when their
        number has grown by a tenth."""
        return seen >= max(last + 128, last * 1.1)

    def see(self, model: Any, dataset: Dataset) -> Rows:
        held_out = self.shortest and self.longest
        texts = dataset.train.first(self.texts)
        if held_out:
            texts = _of_length(dataset.test, self.shortest, self.longest, self.texts)
        norms, lengths = _norms(model, texts)
        profile = gradient_profile(norms, lengths, POINTS).mean(0)  # (P,)
        middle = norms.gather(1, (lengths // 2).unsqueeze(1))
        row = {
            "ratio": (middle.mean() / norms[:, 0].mean()).item(),
            # as the authors' code has it, steadier than a single word: places 45 to 54 over the
            # first
            "band_ratio": (profile[45:55].mean() / profile[0]).item(),
        }
        if held_out:
            ratios = vanishing_ratio(norms, lengths)
            parts = {"lower_quartile": 0.25, "median_ratio": 0.5, "upper_quartile": 0.75}
            return [row | {name: ratios.quantile(part).item() for name, part in parts.items()}]
        for name, split in (("train", dataset.train), ("validation", dataset.validation)):
            sample = split.first(self.sample).to(_device_of(model))
            row[f"{name}_accuracy"] = evaluate(model, sample).accuracy
        return [row]


@dataclass(frozen=True)
class Valleys(Course):
    """Gradient norms over the words of the first test texts of so many words: the median of the
    texts at `VALLEY_POINTS` positions."""

    probe = "valleys"

    def is_due(self, seen: int, last: float) -> bool:
        """After every batch at first, later when the number of texts has grown by a seventh."""
        return seen >= max(last + 32, last * 8 / 7)

    def see(self, model: Any, dataset: Dataset) -> Rows:
        texts = _of_length(dataset.test, self.shortest, self.longest, self.texts)
        profiles = gradient_profile(*_norms(model, texts), VALLEY_POINTS)  # (N, P)
        return _rows(median=profiles.median(0).values)


@dataclass(frozen=True)
class PaddingSweep(Probe):
    """Accuracy as filler is added to the first test texts (Figures 1.4, 1.6 and 1.7)."""

    texts: int = 1_000

    probe = "sweep"
    effort = 0.3 * 3 * 29  # places, and the sum of 1 / (1 - share) over the shares

    def identity(self, place: Place) -> Facts:
        """It includes the filler that is added, whatever the training read."""
        identity = super().identity(place)
        filler = place.source(self.training).filler_fingerprint()
        return identity | {"data": identity["data"] | {"filler": filler}}

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        assert dataset.test_filler is not None  # of which the identity has the fingerprint
        texts = dataset.test.first(self.texts)
        ids, filler = texts.ids.to_lists(), dataset.test_filler.to_lists()
        points = padding_sweep(model, ids, texts.labels, filler, padding_index=PADDING_INDEX)
        named = {"setting": "setting_added", "share": "share_added"}
        rows = pd.DataFrame(points).drop(columns="loss").rename(columns=named)
        return {"texts_probed": len(texts)}, rows.to_dict("records")


@dataclass(frozen=True)
class WordImportance(Probe):
    """NWI of the first test texts of some length (Figures 1.9 to 1.11)."""

    texts: int = 200
    k: int = 5  # words of a window
    shortest: int | None = None  # words of the composed text; None: any that has a window
    longest: int | None = None

    probe, effort = "nwi", 10.0  # as many windows as a fifth of the words

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        texts = _of_length(dataset.test, max(self.shortest or 0, self.k), self.longest, self.texts)
        order, parts = torch.argsort(texts.ids.lengths, stable=True), []
        for part in order.split(8):
            batch = texts.to(_device_of(model)).batch(part, PADDING_INDEX)
            parts.append(
                nwi(model, *batch, k=self.k, unknown_index=UNKNOWN_INDEX, points=POINTS).cpu()
            )
        profiles = torch.cat(parts)  # (N, P)
        rows = _rows(mean=profiles.mean(0), std=profiles.std(0, correction=0))
        return {"texts_probed": len(texts)}, rows


@dataclass(frozen=True)
class Faithfulness(Probe):
    """What a part of the words, those that matter most, is to predictions on the first test texts,
    by word importance and by methods of captum, see `paper.faithfulness`."""

    texts: int = 100

    probe, effort = "faithfulness", 60.0

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        texts = _of_length(dataset.test, WINDOW, None, self.texts)
        rows = faithfulness(model.cpu(), texts, seed=self.training.seed)
        return {"texts_probed": len(texts)}, rows


@dataclass(frozen=True)
class MemoryUse(Probe):
    """What the tensors of a training step on one text hold at most, as texts grow (§1.3.3,
    §1.11.1): texts of ``longest`` words, half of them, and so on. The model is not trained."""

    longest: int = 4_000  # as the longest of the thesis's texts
    halvings: int = 4
    attention: str = "fused"  # of a Transformer, see `whenpool.TransformerEncoder`

    probe, effort, on_trained = "memory", 0.1, False

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        """The texts have arbitrary words: what a step holds depends on their number alone."""
        device = _device_of(model)
        if self.training.cell == TRANSFORMER:
            model.encoder.attention = self.attention
        label = torch.zeros(1, dtype=torch.int64, device=device)
        rows = []
        for words in (self.longest >> halving for halving in reversed(range(self.halvings + 1))):
            ids = torch.arange(words, device=device).unsqueeze(0) % model.embedding.num_embeddings
            length = torch.tensor([words], device=device)
            rows.append({"words": words, "megabytes": step_megabytes(model, ids, length, label)})
        return {"exponent": growth(rows)}, rows


@dataclass(frozen=True)
class FirstSteps(Probe):
    """Gradient norms over the words while a model learns from its first texts, one text a step: the
    mean over the steps, as the authors' code has Figure 1.2a."""

    texts: int = 500

    probe, effort, on_trained = "first_steps", 4.0, False

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        device = _device_of(model)
        rate, decay = self.training.learning_rate, self.training.weight_decay
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay, fused=True)
        texts = dataset.train.first(self.texts).to(device)
        total = torch.zeros(POINTS, dtype=torch.float64)
        with seeded(self.training.seed, device):
            for index in torch.randperm(len(texts)):
                batch = texts.batch(index.unsqueeze(0), PADDING_INDEX)
                norms = gradient_norms(model, *batch)  # before the model learns from it
                total += gradient_profile(norms, batch.lengths, POINTS)[0].double().cpu()
                model.train()
                optimizer.zero_grad(set_to_none=True)
                functional.cross_entropy(model(batch.ids, batch.lengths), batch.labels).backward()
                optimizer.step()
        return {"texts_probed": len(texts)}, _rows(mean=total / len(texts))


@dataclass(frozen=True)
class DirectionUse(Probe):
    """Accuracy when either direction's half of each text's embedding is replaced by zeros
    (§1.7.4)."""

    texts: int = 1_000

    probe = "directions"

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        """The left half of an embedding is of the direction from left to right, for every
        pooling."""
        texts, rows = dataset.test.first(self.texts).to(_device_of(model)), []
        size = model.encoder.output_size
        left = (torch.arange(size, device=texts.labels.device) < size // 2).float()
        parts = {"both": torch.ones_like(left), "forward": left, "backward": 1 - left}
        for name, part in parts.items():
            keep = lambda _, inputs, part=part: inputs[0] * part  # noqa: E731
            with model.classifier.register_forward_pre_hook(keep):
                rows.append({"direction": name, "accuracy": evaluate(model, texts).accuracy})
        return {"texts_probed": len(texts)} | _accuracies(rows, "direction"), rows


@dataclass(frozen=True)
class UntrainedStates(Probe):
    """What the states of a model hold before it is trained: the test accuracy of a logistic
    regression on the last state (of each direction its own), the mean and the maximum of the
    states. It learns from all training texts, and the validation texts choose its penalty."""

    probe, effort, on_trained = "states", 2 * EVALUATION, False

    def measure(self, model: Any, dataset: Dataset) -> Measured:
        rows = _read_by_regression(model, dataset, READOUTS)
        majority = majority_accuracy(dataset.test.labels)
        about = {"texts_probed": len(dataset.train), "majority_accuracy": majority}
        return about | _accuracies(rows, "readout"), rows


@dataclass(frozen=True)
class StatesCourse(Course):
    """What the last state and the mean of the states hold, beside the accuracy of the model itself.
    A logistic regression reads them as in `UntrainedStates`; ``texts`` test texts judge it and the
    model."""

    texts: int = 2_000

    probe, effort = "states_course", 6.0

    def is_due(self, seen: int, last: float) -> bool:
        """Before the first step, after 1, 2, 4, 8 epochs and so on, and after the last."""
        epoch, more = divmod(seen, self.training.size)
        return not more and (epoch == self.training.epochs or epoch.bit_count() < 2)

    def see(self, model: Any, dataset: Dataset) -> Rows:
        dataset = replace(dataset, test=dataset.test.first(self.texts))
        accuracy = evaluate(model, dataset.test.to(_device_of(model))).accuracy
        read = _read_by_regression(model, dataset, READOUTS[:2])
        return [row | {"own_accuracy": accuracy} for row in read]

    def numbers(self, rows: Rows, dataset: Dataset) -> Facts:
        """Those of the last look."""
        labels = dataset.test.labels[: self.texts]
        about = {"texts_probed": len(labels), "majority_accuracy": majority_accuracy(labels)}
        about["own_accuracy"] = rows[-1]["own_accuracy"]
        return about | _accuracies(rows[-2:], "readout")


READOUTS = ("last", "mean", "max")  # Poolings without weights, whose outputs a regression reads
PENALTIES = tuple(10.0**power for power in range(-5, 2))  # C of the regression, the strongest first


def _read_by_regression(model: Any, dataset: Dataset, names: Sequence[str]) -> Rows:
    """A row for each of some `READOUTS` with the test accuracy of a logistic regression on it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    splits = [dataset.train, dataset.validation, dataset.test]
    read = [_readouts(model, texts.to(_device_of(model)), names) for texts in splits]
    labels, rows = [texts.labels.numpy() for texts in splits], Rows()
    for name in names:
        train, validation, test = (of_split[name] for of_split in read)
        ways = (LogisticRegression(C=c, max_iter=300) for c in PENALTIES)
        fitted = [make_pipeline(StandardScaler(), way).fit(train, labels[0]) for way in ways]
        best = max(fitted, key=lambda way: way.score(validation, labels[1]))
        rows.append({"readout": name, "accuracy": 100 * float(best.score(test, labels[2]))})
    return rows


@torch.inference_mode()
def _readouts(model: Any, texts: Texts, names: Sequence[str]) -> Facts:
    """What each of some `READOUTS` makes of every text's states, (N, D)."""
    size = model.encoder.output_size
    outputs = {name: np.zeros((len(texts), size), np.float32) for name in names}
    with evaluating(model):
        for part in batches_for(model, texts.ids.lengths, GRADIENT_WORDS):
            batch = texts.batch(part, PADDING_INDEX)
            states = model.encode(model.embed(batch.ids), batch.lengths)
            mask = word_mask(batch.lengths, states.shape[1])
            for name, rows in outputs.items():
                rows[part.numpy()] = (
                    POOLINGS[name](size, True)(states, mask)[0].float().cpu().numpy()
                )
    return outputs


def _accuracies(rows: Sequence[Facts], name: str) -> dict[str, float]:
    """The accuracies of rows by what a column of this name says."""
    return {f"accuracy_{row[name]}": row["accuracy"] for row in rows}


PROBES: dict[str, type[Probe]] = {
    kind.probe: kind
    for kind in (*Probe.__subclasses__(), *Course.__subclasses__())
    if kind != Course
}
"""Every probe run by its name."""
Probe.histories = dict.fromkeys(PROBES, "")


def _of_length(texts: Texts, shortest: int | None, longest: int | None, count: int) -> Texts:
    """The first texts with so many words; raises `InputError` where there is none."""
    lengths = texts.ids.lengths
    shortest, longest = shortest or 0, longest or int(lengths.max())
    chosen = ((lengths >= shortest) & (lengths <= longest)).nonzero().flatten()[:count]
    check(len(chosen), f"no test text has {shortest} to {longest} words; choose other lengths")
    return texts.take(chosen)


def growth(rows: Sequence[Mapping[str, float]]) -> float:
    """The exponent by which memory grows with words over the two longest doublings, by least
    squares."""
    last = rows[-3:]
    words, megabytes = (np.log([row[name] for row in last]) for name in ("words", "megabytes"))
    return float(np.polyfit(words, megabytes, 1)[0])


def _norms(model: nn.Module, texts: Texts) -> tuple[Tensor, Tensor]:
    """Gradient norms (N, T) of all texts and their lengths (N,), on the CPU."""
    texts, lengths = texts.to(_device_of(model)), texts.ids.lengths
    norms = torch.full((len(texts), int(lengths.max())), torch.nan)
    # a GPU takes as long for few texts as for many; a gradient needs more memory than an evaluation
    words = max(GRADIENT_WORDS, evaluation_words(texts.labels.device) // 4)
    for part in batches_for(model, lengths, words):
        of_part = gradient_norms(model, *texts.batch(part, PADDING_INDEX))
        norms[part, : of_part.shape[1]] = of_part.float().cpu()
    return norms, lengths


def _rows(**columns: Tensor) -> Rows:
    """A row for each position, from columns (P,)."""
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        {"position": n} | dict(zip(columns, row, strict=True)) for n, row in enumerate(values, 1)
    ]


def _device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
