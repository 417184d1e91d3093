"""How long runs will take on this machine, from those that were stored.

An estimate rests on the stored runs that are most like the asked one: first of the same shape, seed
apart; then on texts, with networks and poolings less and less like it, in proportion to the work.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

import torch

from whenpool.runs.engine import Workforce
from whenpool.runs.kinds import KINDS
from whenpool.runs.provenance import processor
from whenpool.runs.run import Place, Run

HERE, ALONE, OTHER_PRECISION, OTHER_MACHINE = range(4)
"""How far away runs were made: as asked; one by one though several at once are asked for; on this
machine in another precision; on another machine."""
_NEAR = 4
"""So many rungs hold runs of the same network: another machine's of these say more than this one's of
another network."""


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
        for row, run in (one for name in KINDS for one in _finished(place, name)):
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
        rungs = list(enumerate(run.alike()))
        for near in (True, False):
            for distance, groups in sorted(self._groups.items()):
                for number, (group, work) in rungs[:_NEAR] if near else rungs[_NEAR:]:
                    if found := groups.get(group):
                        return Estimate(
                            work * median(one.seconds / done for done, one in found),
                            tuple(one.key for _, one in found),
                            tuple(sorted({one.device for _, one in found})),
                            distance,
                            number == 0,
                        )
        return None

    @cached_property
    def _groups(self) -> dict[int, dict[Hashable, list[tuple[float, Observation]]]]:
        """The runs that are alike, with their work, by distance."""
        found: Any = defaultdict(lambda: defaultdict(list))
        for one in self.seen:
            for group, work in one.run.alike():
                found[one.distance][group].append((work, one))
        return found


def together_takes(seconds: Iterable[float], workers: int) -> float:
    """What runs take side by side: no less than the longest."""
    every = list(seconds)
    return max(sum(every) / workers, max(every, default=0.0))


def _finished(place: Place, kind: str) -> Iterator[tuple[dict[str, Any], Run]]:
    """The runs under this version's protocol, with their rows."""
    table = place.store.current(kind)
    for row in table.astype(object).where(table.notna(), None).to_dict("records"):
        yield row, KINDS[kind].of_row(row)


def _device_name(device: str) -> str | None:
    """What the rows of runs made here call the device; None for a GPU that is not here."""
    if not device.startswith("cuda"):
        return f"cpu: {processor()}"
    return f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else None
