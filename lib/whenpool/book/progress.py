"""How far runs are, and how long the rest will take: ``whenpool status`` and ``run --dry-run``."""

import time
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapreplace
from typing import NamedTuple

import pandas as pd
from pandas import DataFrame

from whenpool.book.report.tables import corpus_name, duration
from whenpool.runs.compute import standing, weights_needed
from whenpool.runs.engine import Workforce
from whenpool.runs.engine.local import processors
from whenpool.runs.estimates import ALONE, OTHER_MACHINE, OTHER_PRECISION, Estimate, Pace, together_takes
from whenpool.runs.filter import informative
from whenpool.runs.kinds.probe import GradientTrace
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.chapters import thesis_table
from whenpool.runs.request import Choice
from whenpool.runs.run import Place, Run, key

ALL, NEEDED = "all, each once", "trainings they need"
"""The last rows: every run, and those that nobody asked for whose weights a probe or student reads."""
_ELSEWHERE = {
    ALONE: "the times of {} runs are those of runs made one by one; none like them was made together",
    OTHER_PRECISION: "the times of {} runs are those of another precision on this machine",
    OTHER_MACHINE: "nothing like {} runs was run on this machine: their times are those of {}",
}


class Progress(NamedTuple):
    """How far some runs are."""

    table: DataFrame
    notes: list[str]
    """What lacks its data, failed or was set aside, a line each."""
    times: list[str]
    """What the times rest on, a line each."""


def status_table(
    chapters: Mapping[str, Sequence[Run]], choice: Choice, place: Place, workforce: Workforce
) -> Progress:
    """How far the runs of some chapters are, per table of the thesis or chapter; nothing is computed.

    "time left" is for what can be computed here and is missing, those that failed among it, and "time
    of all" for everything, whether it is done or lacks its data, both by the workforce. "?" stands for
    runs like which none was done yet.

    Args:
        chapters: runs by chapter, see `whenpool.runs.filter.planned`.
    """
    groups = _groups(chapters, choice)
    every = list(dict.fromkeys(run for runs in groups.values() for run in runs))
    found = standing(every, place)
    missing, failed = set(found.missing), set(found.failed)
    again = _trained_again(found.missing, place)
    if again:
        groups[NEEDED] = again
    groups[ALL] = list(dict.fromkeys([*every, *again]))
    pace = Pace.measured(place, workforce)
    expected = {run: pace.estimate(run) for run in groups[ALL]}
    workers = _workers(workforce)
    rows = []
    for name, runs in groups.items():
        left = missing.union(again) if name in (NEEDED, ALL) else missing
        undone = [run for run in runs if run in left]
        rows.append(
            {
                "runs of": name,
                "done": sum(run in found.done and run not in left for run in runs),
                "missing": sum(run not in failed for run in undone),
                "failed": sum(run in failed for run in runs),
                "no data": sum(run in found.absent for run in runs),
                "all": len(runs),
                "time left": _time(undone, expected, workers),
                "time of all": _time(runs, expected, workers),
            }
        )
    notes = [*found.set_aside, *dict.fromkeys(found.absent.values())]
    notes += [f"failed: {run}: {message}" for run, message in found.failed.items()]
    times = _about_times(expected, workers, workforce)
    if workforce.until is not None:
        time_left = workforce.until - time.monotonic()
        times.append(_what_fits(sorted(undone, key=informative), expected, workers, time_left))
    return Progress(DataFrame(rows), notes, times)


def _workers(workforce: Workforce) -> int:
    """How many runs are executed side by side; a cluster elsewhere has at least one."""
    if workforce.workers:
        return workforce.workers
    return 1 if workforce.device.startswith("cuda") or workforce.address else processors()


def _groups(chapters: Mapping[str, Sequence[Run]], choice: Choice) -> dict[str, list[Run]]:
    """Runs by table of the thesis, or chapter where they stand in none, in this order."""
    groups: dict[str, dict[Run, None]] = {}  # a run can stand in several
    for chapter, runs in chapters.items():
        for run in runs:
            tables = thesis_table(run) if choice.profile == "paper" else ()
            for name in [f"Table {table}" for table in tables] or [chapter]:
                groups.setdefault(name, {})[run] = None
    return {name: list(runs) for name, runs in sorted(groups.items())}


def _trained_again(missing: Sequence[Run], place: Place) -> list[Run]:
    """Trainings beside the missing runs, whose weights these need and which are not here."""
    on_the_way = _on_the_way(missing)
    return [
        run
        for run in weights_needed(missing, place)
        if run not in missing
        and run not in on_the_way
        and not place.store.has(key(run, place), with_weights=True)
    ]


def _on_the_way(runs: Iterable[Run]) -> set[Training]:
    """Trainings that some of the runs do on their way."""
    return {run.training for run in runs if isinstance(run, GradientTrace)}


def _time(runs: Sequence[Run], expected: Mapping[Run, Estimate | None], workers: int) -> str:
    """What runs take, in words."""
    on_the_way = _on_the_way(runs)
    found = [expected[run] for run in runs if run not in on_the_way]
    known = [estimate.seconds for estimate in found if estimate]
    told = _span(together_takes(known, workers)) if known or not found else ""
    return told if len(known) == len(found) else f"{told} + ?".removeprefix(" + ")


def _span(seconds: float) -> str:
    """A time in its two largest units, days included: "62 days 3 h"."""
    hours = round(seconds / 3600)
    if hours < 48:
        return duration(seconds)
    return f"{hours // 24} days {hours % 24} h" if hours % 24 else f"{hours // 24} days"


def _about_times(
    expected: Mapping[Run, Estimate | None], workers: int, workforce: Workforce
) -> list[str]:
    """What the times rest on."""
    known = [estimate for estimate in expected.values() if estimate]
    lines = []
    if known:
        stored = {name for estimate in known for name in estimate.rests_on}
        same = sum(estimate.same_shape for estimate in known)
        plural = "s" if workers > 1 else ""
        lines.append(
            f"Times are for {workers} worker{plural} on {workforce.device} and rest on {len(stored)} "
            f"stored runs: {same} of the {len(expected)} runs have their like among these, seed apart; "
            "the times of the others are in proportion to their work"
        )
    for distance, line in _ELSEWHERE.items():
        those = [estimate for estimate in known if estimate.distance == distance]
        if those:
            devices = sorted({device for estimate in those for device in estimate.devices})
            lines.append(line.format(len(those), ", ".join(devices)))
    if len(known) < len(expected):
        lines.append(f"?: nothing like {len(expected) - len(known)} runs was run yet")
    return lines


def _what_fits(
    runs: Sequence[Run], expected: Mapping[Run, Estimate | None], workers: int, seconds: float
) -> str:
    """How many of the runs, taken in their order, will be done in some seconds."""
    free = [0.0] * workers  # when each worker is
    fit = 0
    for run in runs:
        if (estimate := expected[run]) and free[0] + estimate.seconds <= seconds:
            heapreplace(free, free[0] + estimate.seconds)
            fit += 1
    return f"About {fit} of the {len(runs)} runs that are left will be done before the deadline"


def runs_table(place: Place) -> DataFrame:
    """Finished runs by kind, corpus, device and protocol."""
    store = place.store
    parts = [
        store.rows("training").assign(probe="training"),
        store.rows("probe"),
        store.rows("few-shot").assign(probe="few-shot"),
        store.rows("tagging").assign(probe="tagging"),
    ]
    if not any(len(part) for part in parts):
        return DataFrame({"runs": [0]})
    columns = ["key", "probe", "corpus", "device", "precision", "protocol", "seconds", "finished"]
    runs = pd.concat([part[columns] for part in parts if len(part)]).rename(columns={"probe": "kind"})
    runs = runs.assign(corpus=[corpus_name(str(name).split(":")[0]) for name in runs["corpus"]])
    grouped = runs.groupby(["kind", "corpus", "device", "precision", "protocol"], sort=False)
    table = grouped.agg(runs=("key", "size"), computing=("seconds", "sum"), newest=("finished", "max"))
    table["computing"] = table["computing"].map(duration)
    table["newest"] = table["newest"].str[:10]
    return table.reset_index()
