"""How long runs will take on this machine: their words over the words per second of stored runs like them."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import torch

from whenpool.runs.engine import Workforce
from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run, processor


class Estimate(NamedTuple):
    """The seconds that a run will take, and whether runs say so that were made here, as is asked."""

    seconds: float
    here: bool


@dataclass(frozen=True)
class Pace:
    """How fast runs are, judged by those that are stored: speeds by group of runs, made here or not."""

    speeds: dict[tuple[bool, Hashable], list[float]] = field(default_factory=dict)

    @classmethod
    def measured(cls, place: Place, workforce: Workforce) -> "Pace":
        """From all runs of a place. Models trained as one batch count only where a workforce does so."""
        here = f"cpu: {processor()}"
        if workforce.device.startswith("cuda"):  # the GPU may be elsewhere
            here = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
        batched = (workforce.models_per_batch or 1) > 1
        speeds: dict[tuple[bool, Hashable], list[float]] = defaultdict(list)
        for kind in KINDS:
            table = place.store.current(kind)
            for row in table.astype(object).where(table.notna(), None).to_dict("records"):
                seconds, device = row.get("seconds") or 0.0, str(row.get("device"))
                shared = (row.get("together") or 1) > 1
                alike = device.partition(":")[0] == workforce.device.partition(":")[0]
                if not (seconds > 0 and alike) or (shared and not batched):
                    continue
                as_asked = (
                    row.get("precision") or "float32"
                ) == workforce.precision and shared == batched
                for group, work in KINDS[kind].of_row(row).speeds():
                    speeds[device == here and as_asked, group].append(work / float(seconds))
        return cls(dict(speeds))

    def seconds(self, run: Run) -> float | None:
        """The seconds that one worker takes, see `estimate`."""
        estimate = self.estimate(run)
        return estimate.seconds if estimate else None

    def estimate(self, run: Run) -> Estimate | None:
        """What one worker takes, by runs of the same network, else of its cell; None where nothing
        comparable was run yet."""
        for group, work in run.speeds():
            for here in (True, False):
                if speeds := self.speeds.get((here, group)):
                    return Estimate(work / median(speeds), here)
        return None
