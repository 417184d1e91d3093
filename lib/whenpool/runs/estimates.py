"""How long runs will take on this machine, from those that were stored.

An estimate rests on the stored runs that are most like the asked one: first of the same shape, seed
apart; then on texts, with networks and poolings less and less like it, in proportion to the work.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from whenpool.corpora import find
from whenpool.corpora.corpus import VALIDATION_LIMIT
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.synthetic import Grammar
from whenpool.runs.engine import Workforce
from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import Probe
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import Training
from whenpool.runs.provenance import processor
from whenpool.runs.rows import (
    current_few_shots,
    current_probes,
    current_taggings,
    current_trainings,
    few_shot_of,
    probe_of,
    tagging_of,
    training_of,
)
from whenpool.runs.run import Place, Run

if TYPE_CHECKING:
    from pandas import DataFrame

HERE, ALONE, OTHER_PRECISION, OTHER_MACHINE = range(4)
"""How far away runs were made: as asked; one by one though several at once are asked for; on this
machine in another precision; on another machine."""
EVALUATION = 1 / 3
"""What reading a word costs without learning from it, beside a step of training on it."""
_NEAR = 4
"""So many rungs hold runs of the same network: another machine's of these say more than this one's of
another network."""
_GATES = {"lstm": 4, "gru": 3, "elman": 1, "prototype": 3, "mingru": 2, "minlstm": 3}
_PLANNED_WORDS = 250  # that `Training.cost` assumes of a text
_USUAL_TEST_TEXTS = 12_500  # of a published corpus where the thesis has none


class Observation(NamedTuple):
    """A stored run, and the seconds that it took."""

    key: str
    run: Run
    seconds: float
    device: str
    distance: int


@dataclass(frozen=True)
class Estimate:
    """The seconds that a run will take, and what says so.

    Attributes:
        rests_on: keys of stored runs.
        devices: where these were made.
        distance: how far away, `HERE` to `OTHER_MACHINE`.
        same_shape: whether they differ from the run in seed at most.
    """

    seconds: float
    rests_on: tuple[str, ...]
    devices: tuple[str, ...]
    distance: int
    same_shape: bool


@dataclass(frozen=True)
class Pace:
    """How fast runs are, by those that were seen."""

    seen: Sequence[Observation] = ()

    @classmethod
    def measured(cls, place: Place, workforce: Workforce) -> "Pace":
        """From the runs of a place, its runs of record included.

        A run that shared its process with others counts for workforces that train several together
        alone; where these have none, runs made one by one stand in.
        """
        here = _device_name(workforce.device)
        together = (workforce.together or 1) > 1
        seen = []
        for row, run in _stored(place):
            seconds, device = row.get("seconds"), str(row.get("device"))
            if not isinstance(seconds, int | float) or not seconds > 0:  # NaN is neither
                continue
            if device.partition(":")[0] != workforce.device.partition(":")[0]:
                continue
            shared = (row.get("together") or 1) > 1
            if shared and not together:
                continue
            precision = row.get("precision")
            precision = precision if isinstance(precision, str) else "float32"
            distance = (
                OTHER_MACHINE if device != here
                else OTHER_PRECISION if precision != workforce.precision
                else ALONE if together and not shared
                else HERE
            )  # fmt: skip
            seen.append(Observation(row["key"], run, float(seconds), device, distance))
        return cls(seen)

    def seconds(self, run: Run) -> float | None:
        """What one worker takes for a run; None where nothing comparable was run yet."""
        found = self.estimate(run)
        return found.seconds if found else None

    def estimate(self, run: Run) -> Estimate | None:
        """The same, with what it rests on."""
        rungs = list(enumerate(_rungs(run)))
        for near in (True, False):
            for distance, groups in sorted(self._groups.items()):
                for number, (group, work) in rungs[:_NEAR] if near else rungs[_NEAR:]:
                    if found := groups.get(group):
                        return Estimate(
                            work * median(speed for speed, _ in found),
                            tuple(one.key for _, one in found),
                            tuple(sorted({one.device for _, one in found})),
                            distance,
                            number == 0,
                        )
        return None

    @cached_property
    def _groups(self) -> dict[int, dict[Hashable, list[tuple[float, Observation]]]]:
        """Seconds for a unit of work of the runs that are alike, by distance."""
        found: dict[int, dict[Hashable, list[tuple[float, Observation]]]] = {}
        for one in self.seen:
            groups = found.setdefault(one.distance, defaultdict(list))
            for group, work in _rungs(one.run):
                groups[group].append((one.seconds / work, one))
        return {distance: dict(groups) for distance, groups in found.items()}


def together_takes(seconds: Iterable[float], workers: int) -> float:
    """What runs take side by side: no less than the longest."""
    every = list(seconds)
    return max(sum(every) / workers, max(every, default=0.0))


def _rungs(run: Run) -> Iterator[tuple[Hashable, float]]:
    """Groups of runs that are more and more loosely alike, and the work of this one in the unit in
    which those of the group can be compared."""
    work = _work(run)
    if isinstance(run, FewShot):
        encoder = run.shape.encoder if run.has_encoder else ""
        system = run.system, encoder, run.hidden_size
        yield ("the same", replace(run.shape, seed=0)), 1.0
        yield ("system on texts", *system, run.corpus, run.length), work
        yield ("system", *system), work
        yield ("few-shot", encoder), work
        return
    if isinstance(run, Tagging):
        tagger = run.cell, run.layers, run.bidirectional, run.hidden_size
        yield ("the same", replace(run.shape, seed=0)), 1.0
        yield ("tagging", run.corpus, *tagger), work
        yield ("tagging", run.corpus), work
        yield ("tagging", *tagger), work
        yield ("tagging",), work
        return
    training = run.training
    assert isinstance(training, Training)
    shape = replace(training, seed=0, vectors=None)
    texts = training.corpus, training.length, training.setting, training.max_words, training.share
    network = (
        training.cell, training.layers, training.bidirectional, training.embedding_size,
        training.hidden_size,
    )  # fmt: skip
    if isinstance(run, Probe):
        yield ("the same", replace(run, training=shape)), 1.0
        kind = run.kind
    else:
        yield ("the same", shape), 1.0
        kind = "training"
    yield (kind, "on texts with a pooling", texts, network, training.variant), work
    yield (kind, "on texts", texts, network, training.trick), work
    yield (kind, "of a network", network, training.trick), work
    yield (kind, "of any variant", network), work
    scaled = work * _multiply_adds(training)
    yield (kind, "of a cell", training.cell), scaled
    yield ("whatever its kind", training.cell), scaled


def _work(run: Run) -> float:
    """`Run.cost`, and besides the texts that are read without learning: a few for each epoch, and the
    test texts, which outweigh a small training."""
    if isinstance(run, FewShot):
        read = run.looks * run.validation + (run.test or _test_texts(run.corpus, run.length))
        alone = replace(run, system="bert") if run.has_encoder else run  # without unlabelled texts
        return run.cost + EVALUATION * alone.cost / (run.steps * run.batch_size) * read
    if isinstance(run, Tagging):
        return run.cost
    training = run.training
    assert isinstance(training, Training)
    shortness = 1.0
    if training.corpus.partition(":")[0] == "synthetic":  # its texts are as long as it says
        grammar = _grammar(training.corpus)
        shortness = (grammar.shortest + grammar.longest) / 2 / _PLANNED_WORDS
    if not isinstance(run, Training):
        return run.cost * shortness
    words = replace(run, trick=None).cost / run.size / run.epochs
    validation = min(run.validation or run.size, VALIDATION_LIMIT)
    read = run.epochs * validation + (run.test or _test_texts(run.corpus, run.length))
    return (run.cost + EVALUATION * words * read) * shortness


def _test_texts(corpus: str, length: str) -> int:
    if corpus.partition(":")[0] == "synthetic":
        return _grammar(corpus).test
    sizes = PUBLICATIONS[corpus].sizes if corpus in PUBLICATIONS else {}
    return sizes[length].test if length in sizes else _USUAL_TEST_TEXTS


def _grammar(corpus: str) -> Grammar:
    return Grammar(**dict(find(corpus, Path()).options))


def _multiply_adds(training: Training) -> float:
    """Of the encoder's layers, for a word."""
    directions, hidden = 2 if training.bidirectional else 1, training.hidden_size
    if training.cell == "transformer":  # attention itself apart, which grows with the text
        size = directions * hidden
        return float(training.embedding_size * size + 12 * training.layers * size * size)
    sizes = [training.embedding_size] + [directions * hidden] * (training.layers - 1)
    gates = _GATES.get(training.cell, 1)
    return float(sum(directions * gates * hidden * (size + hidden) for size in sizes))


def _stored(place: Place) -> Iterator[tuple[dict[str, Any], Run]]:
    """The finished runs of this version's protocols, with their rows."""

    def rows(table: "DataFrame") -> Iterator[dict[str, Any]]:
        yield from table.astype(object).where(table.notna(), None).to_dict("records")

    yield from ((row, training_of(row)) for row in rows(current_trainings(place)))
    yield from ((row, probe_of(row)) for row in rows(current_probes(place)))
    yield from ((row, few_shot_of(row)) for row in rows(current_few_shots(place)))
    yield from ((row, tagging_of(row)) for row in rows(current_taggings(place)))


def _device_name(device: str) -> str | None:
    """What the rows of runs made here call the device; None for a GPU that is not here."""
    if not device.startswith("cuda"):
        return f"cpu: {processor()}"
    import torch

    return f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else None
