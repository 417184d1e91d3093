"""How long runs will take on this machine: their words over the words per second of stored runs like them."""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import median

import torch

from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run, processor
from whenpool.runs.workforce import Workforce


@dataclass(frozen=True)
class Pace:
    """How fast runs are: words per second, by kind and network, whether a run was made on this device."""

    speeds: dict[tuple[bool, str, Hashable], list[float]]

    @classmethod
    def measured(cls, place: Place, workforce: Workforce) -> "Pace":
        """From all runs of a place. Models trained as one batch count only where a workforce does so."""
        here = f"cpu: {processor()}"
        if workforce.device.startswith("cuda"):  # the GPU may be elsewhere
            here = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
        batched = (workforce.models_per_batch or 1) > 1
        speeds: dict[tuple[bool, str, Hashable], list[float]] = defaultdict(list)
        for name, kind in KINDS.items():
            table = place.store.current(name)
            for row in table.astype(object).where(table.notna(), None).to_dict("records"):
                device, seconds = str(row.get("device")), row.get("seconds") or 0.0
                alike = device.partition(":")[0] == workforce.device.partition(":")[0]
                if seconds > 0 and alike and (batched or (row.get("together") or 1) == 1):
                    run = kind.of_row(row)
                    speeds[device == here, name, network_of(run)].append(run.cost / float(seconds))
        return cls(dict(speeds))

    def seconds(self, run: Run) -> float | None:
        """What one worker takes for a run; None where nothing like it was run yet."""
        for here in (True, False):
            if speeds := self.speeds.get((here, run.kind, network_of(run))):
                return run.cost / median(speeds)
        return None


def network_of(run: Run) -> tuple[Hashable, ...]:
    """Runs of one kind and one network read as many words in a second."""
    names = "system encoder cell layers bidirectional embedding_size hidden_size trick".split()
    about = run.shape.training or run.shape
    return getattr(run, "probe", ""), *(getattr(about, name, None) for name in names)
