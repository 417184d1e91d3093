"""Engines run many runs: on this machine's processors or GPUs, or on a cluster, as a `Workforce` says."""

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from whenpool.base.errors import InputError, check_known
from whenpool.models.precision import PRECISIONS, processor_has_bfloat16
from whenpool.runs.engine.crew import Crew, Job, Pool, Report, tasks_of
from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run, key

__all__ = ["Report", "Workforce", "check_device", "processors", "run_all"]


@dataclass(frozen=True)
class Workforce:
    """What executes runs. It changes no run, and is part of the provenance of each result."""

    engine: str = "local"  # processes on this machine, or "ray", a cluster
    address: str | None = None  # of the Ray cluster; None: this machine's, or one of it alone
    workers: int | None = None  # None: one a processor, two a GPU; on a cluster all that fit
    device: str = "cpu"  # or "cuda"
    models_per_batch: int | None = None  # of one shape, trained as one batch, at most; None: 1
    precision: str = "float32"  # a name in `whenpool.models.precision.PRECISIONS`
    until: float | None = None  # `time.monotonic` when all stops; what would end later is not begun

    @classmethod
    def default(cls) -> "Workforce":
        """The one that ``WHENPOOL_ENGINE`` and so on name, for notebooks, which have no options."""
        given: dict[str, Any] = {}
        for name in ("engine", "address", "workers", "device", "models_per_batch", "precision"):
            if value := os.environ.get(variable := f"WHENPOOL_{name.upper()}"):
                count = name in ("workers", "models_per_batch")
                if count and not (value.isdecimal() and int(value) >= 1):
                    raise InputError(f"{variable} must be a whole number from 1, not {value!r}")
                given[name] = int(value) if count else value
        return cls(**given)

    def variables(self) -> dict[str, str]:
        """The environment that `default` reads, for the processes that are started."""
        given = {name: value for name, value in asdict(self).items() if name != "until"}
        return {f"WHENPOOL_{name.upper()}": str(v) for name, v in given.items() if v is not None}

    def check(self, here: bool = True) -> None:
        """Raises `InputError` for an unknown engine, device or precision, or for a GPU or bfloat16 that is
        needed ``here`` and is not."""
        check_known("engine", self.engine, ("local", "ray"))
        if self.address and self.engine != "ray":
            raise InputError("only a Ray cluster has an address; add --engine ray or leave it out")
        here = here and self.engine == "local"
        check_device(self.device, here)
        check_known("precision", self.precision, PRECISIONS)
        rounds = self.precision == "bfloat16" and self.device == "cpu"
        if here and rounds and not processor_has_bfloat16():
            raise InputError("this processor has no bfloat16; use --precision float32")


def check_device(device: str, here: bool = True) -> None:
    """Raises `InputError` for an unknown device, or for CUDA that is needed ``here`` and is not."""
    if re.fullmatch(r"cuda(:\d+)?", device):
        if here and not torch.cuda.is_available():
            raise InputError("device cuda was asked for, but torch sees no GPU; use --device cpu")
    elif device != "cpu":
        raise InputError(f"device {device!r} is unknown; choose cpu or cuda")


def processors() -> int:
    """How many processors this process may use, which a container can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    runs: Sequence[Run], place: Place, workforce: Workforce | None = None, *,
    keep_weights: Callable[[Run], bool] = lambda run: False, label: str = "runs",
    seconds: Callable[[Run], float | None] = lambda run: None,
) -> Report:  # fmt: skip
    """Execute the runs that are not stored yet, most informative first; each is stored the moment it ends. A
    worker that dies is replaced and its run tried again; several commands on one store share the work.

    Args:
        keep_weights: the runs whose weights are wanted; those stored without are run again.
        seconds: that a run is expected to take, None if nothing is known; for a workforce with a deadline.

    Raises:
        InputError: for data that are missing, a store that cannot be written, or no such workforce.
        KeyboardInterrupt: on ctrl-C, after the workers were stopped; what is finished is stored.
    """
    workforce = workforce or Workforce.default()
    every = {name: Job(run, name, keep_weights(run)) for run in runs for name in [key(run, place)]}
    jobs = [job for job in every.values() if not place.store.has(job.key, job.keep_weights)]
    if not jobs:
        return Report()
    workforce.check()
    place.store.check_writable()
    if workforce.until is not None and time.monotonic() >= workforce.until:
        return Report(left=len(jobs))
    here = workforce.device if workforce.engine == "local" else "cpu"  # a cluster's GPUs are elsewhere
    notes: list[str] = []
    for kind in KINDS.values():
        if own := [job.run for job in jobs if isinstance(job.run, kind)]:
            notes += kind.read_ahead(own, place, here)
    tasks = tasks_of(jobs, workforce.models_per_batch or 1)
    pool = _pool(place, workforce, len(tasks))
    report = Crew(place, pool, label, seconds, workforce.until).work(tasks)
    report.notes = list(dict.fromkeys([*notes, *report.notes]))
    return report


def _pool(place: Place, workforce: Workforce, tasks: int) -> Pool:
    if workforce.engine == "ray":
        from whenpool.runs.engine.on_ray import RayPool

        return RayPool(place, workforce)
    from whenpool.runs.engine.local import LocalPool

    devices = [workforce.device]
    if workforce.device == "cuda":  # all of this machine's
        devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    # two for each GPU: one reads texts and makes models while the other trains
    wanted = workforce.workers or (processors() if devices == ["cpu"] else 2 * len(devices))
    return LocalPool(place, workforce, min(wanted, tasks), devices)
