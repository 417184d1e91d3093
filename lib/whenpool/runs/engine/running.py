"""Executing many runs with whatever workforce there is."""

import time
from collections.abc import Callable, Sequence

import torch

from whenpool.runs.engine.crew import Crew, Pool
from whenpool.runs.engine.local import LocalPool, processors
from whenpool.runs.engine.tasks import Report, outstanding, tasks_of
from whenpool.runs.engine.workforce import Workforce
from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run


def run_all(
    runs: Sequence[Run],
    place: Place,
    workforce: Workforce | None = None,
    *,
    keep_weights: Callable[[Run], bool] = lambda run: False,
    label: str = "runs",
    seconds: Callable[[Run], float | None] = lambda run: None,
) -> Report:
    """Execute the runs that are not stored yet, most informative first.

    Each is stored the moment it ends. A worker that dies is replaced and its run tried again; several
    commands on one store share the work.

    Args:
        workforce: who does it, and how; default: `Workforce.default`.
        keep_weights: the runs whose weights are wanted; those stored without are run again.
        label: stands before the progress bar.
        seconds: what a run is expected to take, where there is a time at which everything stops.

    Returns:
        How many runs were done now, and what those that failed said.

    Raises:
        InputError: for data that are missing, a store that cannot be written, or a workforce that is
            not to be had.
        KeyboardInterrupt: on ctrl-C, after the workers were stopped; what is finished is stored.
    """
    workforce = workforce or Workforce.default()
    jobs = outstanding(runs, place, keep_weights)
    if not jobs:
        return Report()
    workforce.check()
    place.store.check_writable()
    if workforce.until is not None and time.monotonic() >= workforce.until:
        return Report(left=len(jobs))
    here = workforce.device if workforce.engine == "local" else "cpu"  # a cluster's GPUs are elsewhere
    notes = read_ahead([job.run for job in jobs], place, here)
    tasks = tasks_of(jobs, workforce.together or 1)
    pool = _pool(place, workforce, len(tasks))
    report = Crew(place, pool, label, seconds, workforce.until).work(tasks)
    report.notes = list(dict.fromkeys([*notes, *report.notes]))
    return report


def read_ahead(runs: Sequence[Run], place: Place, device: str = "cpu") -> list[str]:
    """Read what several runs share, before workers start that would each do it; returns notes on their
    corpora, a sentence each."""
    notes: list[str] = []
    for kind in KINDS.values():
        if own := [run for run in runs if isinstance(run, kind)]:
            notes += kind.read_ahead(own, place, device)
    return list(dict.fromkeys(notes))


def _pool(place: Place, workforce: Workforce, tasks: int) -> Pool:
    if workforce.engine == "ray":
        from whenpool.runs.engine.on_ray import RayPool

        return RayPool(place, workforce)
    devices = [workforce.device]
    if workforce.device == "cuda":  # all of this machine's
        devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    wanted = workforce.workers or (processors() if devices == ["cpu"] else len(devices))
    return LocalPool(place, workforce, min(wanted, tasks), devices)
