"""How long runs will take on this machine: their words over the words per second of stored runs like them."""

from collections import defaultdict
from collections.abc import Hashable
from statistics import median

import torch

from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run, processor
from whenpool.runs.workforce import Workforce

LIKE = "probe system encoder cell layers bidirectional embedding_size hidden_size trick".split()
"""Runs with the same of these read as many words in a second."""


class Pace:
    """How fast all runs of a place were. Models trained as one batch count only where a workforce does so."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        here = f"cpu: {processor()}"
        if workforce.device.startswith("cuda"):  # the GPU may be elsewhere
            here = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
        batched = (workforce.models_per_batch or 1) > 1
        self._speeds: dict[Hashable, list[float]] = defaultdict(list)
        for name, kind in KINDS.items():
            table = place.store.current(name)
            for row in table.astype(object).where(table.notna(), None).to_dict("records"):
                device, seconds = str(row.get("device")), row.get("seconds") or 0.0
                alike = device.partition(":")[0] == workforce.device.partition(":")[0]
                if seconds > 0 and alike and (batched or (row.get("together") or 1) == 1):
                    run = kind.of_row(row)
                    self._speeds[device == here, _like(run)].append(run.cost / float(seconds))

    def seconds(self, run: Run) -> float | None:
        """What one worker takes for a run; None where nothing like it was run yet."""
        speeds = self._speeds.get((True, _like(run))) or self._speeds.get((False, _like(run)))
        return run.cost / median(speeds) if speeds else None


def _like(run: Run) -> Hashable:
    run = run.shape
    return run.kind, *(getattr(run, name, getattr(run.training, name, None)) for name in LIKE)
