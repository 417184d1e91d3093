"""How long runs will take on this machine: as the stored runs most like them, in proportion to the work."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any, NamedTuple

import torch

from whenpool.runs.engine import Workforce
from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run, processor

HERE, ALONE, OTHER_PRECISION, OTHER_MACHINE = range(4)
"""How far away runs were made: as asked; not together though asked so; in another precision; elsewhere."""


class Observation(NamedTuple):
    """A stored run, and the seconds that it took."""

    run: Run
    seconds: float
    distance: int


class Estimate(NamedTuple):
    """The seconds that a run will take, and how far away the runs were made that say so."""

    seconds: float
    distance: int


@dataclass(frozen=True)
class Pace:
    """How fast runs are, judged by those that are stored."""

    seen: Sequence[Observation] = ()

    @classmethod
    def measured(cls, place: Place, workforce: Workforce) -> "Pace":
        """From all runs of a place. Models trained as one batch count only where a workforce does so."""
        here = f"cpu: {processor()}"
        if workforce.device.startswith("cuda"):  # the GPU may be elsewhere
            here = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
        batched = (workforce.models_per_batch or 1) > 1
        seen = []
        for kind in KINDS:
            table = place.store.current(kind)
            for row in table.astype(object).where(table.notna(), None).to_dict("records"):
                seconds, device = row.get("seconds") or 0.0, str(row.get("device"))
                shared = (row.get("together") or 1) > 1
                alike = device.partition(":")[0] == workforce.device.partition(":")[0]
                if not (seconds > 0 and alike) or (shared and not batched):
                    continue
                distance = (
                    OTHER_MACHINE if device != here
                    else OTHER_PRECISION if (row.get("precision") or "float32") != workforce.precision
                    else ALONE if batched and not shared
                    else HERE
                )  # fmt: skip
                seen.append(Observation(KINDS[kind].of_row(row), float(seconds), distance))
        return cls(seen)

    def seconds(self, run: Run) -> float | None:
        """The seconds that one worker takes, see `estimate`."""
        found = self.estimate(run)
        return found.seconds if found else None

    def estimate(self, run: Run) -> Estimate | None:
        """What one worker takes; None where nothing comparable was run yet."""
        rungs = list(run.alike())
        # the first four rungs hold the most similar runs: another machine's of these say more than this
        # one's of the others, of which a few could mislead
        for part, fewest in ((rungs[:4], 1), (rungs[4:], 5), (rungs[4:], 1)):
            for distance, groups in sorted(self._groups.items()):
                for group, work in part:
                    if len(found := groups.get(group, [])) >= fewest:
                        return Estimate(work * median(found), distance)
        return None

    @cached_property
    def _groups(self) -> dict[int, dict[Hashable, list[float]]]:
        """The seconds for a unit of work, by distance and group of runs."""
        found: Any = defaultdict(lambda: defaultdict(list))
        for one in self.seen:
            for group, work in one.run.alike():
                found[one.distance][group].append(one.seconds / work)
        return found
