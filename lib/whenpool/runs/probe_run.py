"""What a probe run is: one of `whenpool.probes` on the model that one training leaves.

It is asked for, stored and looked up as a training is, and has the training's identity in its own.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from whenpool.base.errors import InputError
from whenpool.runs.training_run import Place, Training

PROBE_PROTOCOL = 1
"""Raised by hand when the meaning of a probe's result changes."""


@dataclass(frozen=True)
class Probe:
    """What all probe runs share. As with `Training`, a default must never change."""

    training: Training

    kind: ClassVar[str] = ""

    @property
    def needs(self) -> Training | None:
        """The training whose weights it reads."""
        return self.training

    @property
    def epochs(self) -> int:
        return 1

    @property
    def cost(self) -> float:
        """Words read, as `Training.cost` counts them; a factor says what reading a word costs beside
        a step of training on it, as measured once."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """The probe's own fields."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "training"}

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default, the training's among them."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "training"}
        defaults = {f.name: f.default for f in fields(self)}
        return {
            "probe": self.kind,
            **{name: value for name, value in own.items() if value != defaults[name]},
            **self.training.changed(),
        }

    def identity(self, place: Place) -> dict[str, Any]:
        """What makes a probe run this one, see `whenpool.runs.training_run.Run`."""
        training = self.training.identity(place)
        mine = {name: v for name, v in self.changed().items() if name not in training["run"]}
        return training | {"probe": mine | {"protocol": PROBE_PROTOCOL}}

    def row(self) -> dict[str, Any]:
        """Kind, options and the training's configuration, as they are stored."""
        return {"probe": self.kind, **self.options(), **asdict(self.training)}

    @property
    def _words(self) -> float:
        """Words of a text in its setting, roughly."""
        return self.training.cost / self.training.size / self.training.epochs

    def __str__(self) -> str:
        return f"{self.kind} of {self.training}"


@dataclass(frozen=True)
class GradientProfile(Probe):
    """Gradient norms over the words of the first training texts (§1.5, Figure 1.2a)."""

    texts: int = 500
    untrained: bool = False  # of the model as the training begins with it

    kind: ClassVar[str] = "gradients"

    @property
    def needs(self) -> Training | None:
        return None if self.untrained else self.training

    @property
    def cost(self) -> float:
        return 1.6 * self.texts * self._words


@dataclass(frozen=True)
class FirstSteps(Probe):
    """Gradient norms over the words while a model learns from its first texts, one text a step: the mean
    over the steps, as the authors' code has Figure 1.2a. `GradientProfile` looks at the model that a
    training by batches leaves.
    """

    texts: int = 500

    kind: ClassVar[str] = "first_steps"

    @property
    def needs(self) -> Training | None:
        return None

    @property
    def cost(self) -> float:
        return 4.0 * self.texts * self._words


@dataclass(frozen=True)
class GradientTrace(Probe):
    """The vanishing ratio while the training goes on (Figures 1.2b, 1.2c and 1.3, Table 1.2).

    The training is done on the way and stored with its weights.
    """

    texts: int = 64  # training texts for the ratio
    sample: int = 256  # training, and validation texts, for the accuracies

    kind: ClassVar[str] = "trace"

    @property
    def needs(self) -> Training | None:
        """That of its training, which it does itself."""
        return self.training.needs

    @property
    def epochs(self) -> int:
        return self.training.epochs

    @property
    def cost(self) -> float:
        looks = 45  # of a training on 1K texts
        return self.training.cost + looks * (1.6 * self.texts + 0.6 * self.sample) * self._words


@dataclass(frozen=True)
class PaddingSweep(Probe):
    """Accuracy as filler is added to the first test texts (Figures 1.4, 1.6 and 1.7)."""

    texts: int = 1_000

    kind: ClassVar[str] = "sweep"

    def identity(self, place: Place) -> dict[str, Any]:
        """With the filler that is added, whatever the training read."""
        identity = super().identity(place)
        filler = place.source(self.training).filler_fingerprint()
        return identity | {"data": identity["data"] | {"filler": filler}}

    @property
    def cost(self) -> float:
        read = 3 * 29  # times all words: places, and the sum of 1 / (1 - share) over the shares
        return 0.3 * read * self.texts * self._words


@dataclass(frozen=True)
class WordImportance(Probe):
    """NWI of the first test texts of some length (Figures 1.9 to 1.11)."""

    texts: int = 200
    k: int = 5  # words of a window
    shortest: int | None = None  # words of the composed text; None: any that has a window
    longest: int | None = None

    kind: ClassVar[str] = "nwi"

    @property
    def cost(self) -> float:
        words = (self.shortest + self.longest) / 2 if self.shortest and self.longest else self._words
        return 0.2 * self.texts * words * words / self.k


@dataclass(frozen=True)
class DirectionUse(Probe):
    """Accuracy when either direction's half of each text's embedding is replaced by zeros (§1.7.4)."""

    texts: int = 1_000

    kind: ClassVar[str] = "directions"

    @property
    def cost(self) -> float:
        return 1.0 * self.texts * self._words

    def identity(self, place: Place) -> dict[str, Any]:
        """As `Probe.identity`; raises `InputError` also for a model that reads in one direction."""
        if not self.training.bidirectional or self.training.cell == "transformer":
            raise InputError(f"{self.training} reads in one direction: there is none to leave out")
        return super().identity(place)


@dataclass(frozen=True)
class MemoryUse(Probe):
    """What the tensors of a training step on one text hold at most, as texts grow (§1.3.3, §1.11.1).

    The model is not trained. Texts have ``longest`` words, half of them, and so on.
    """

    longest: int = 4_000
    halvings: int = 4
    attention: str = "fused"  # of a Transformer, see `whenpool.TransformerEncoder`

    kind: ClassVar[str] = "memory"

    @property
    def needs(self) -> Training | None:
        return None

    @property
    def cost(self) -> float:
        return 4.0 * self.longest

    @property
    def words(self) -> list[int]:
        """Of each text, shortest first."""
        return [self.longest >> halving for halving in reversed(range(self.halvings + 1))]

    def identity(self, place: Place) -> dict[str, Any]:
        """As `Probe.identity`; raises `InputError` also for lengths or an attention that do not fit."""
        if self.attention != "fused" and self.training.cell != "transformer":
            raise InputError(
                f"attention={self.attention!r} is of a Transformer; leave it out for cell "
                f"{self.training.cell!r}"
            )
        if self.attention not in ("fused", "plain"):
            raise InputError(f"attention {self.attention!r} is unknown; choose fused or plain")
        if self.halvings < 1 or self.words[0] < 1:
            raise InputError(
                f"longest={self.longest} cannot be halved {self.halvings} times: "
                "give at least one halving, and a text that leaves a word"
            )
        return super().identity(place)


PROBES: dict[str, type[Probe]] = {
    probe.kind: probe
    for probe in (
        GradientProfile,
        GradientTrace,
        PaddingSweep,
        WordImportance,
        MemoryUse,
        FirstSteps,
        DirectionUse,
    )
}
"""Every probe run by its kind."""
