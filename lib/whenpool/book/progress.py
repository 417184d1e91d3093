"""How far runs are, and how long the rest will take: ``whenpool status`` and ``run --dry-run``."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from heapq import heapreplace
from typing import NamedTuple

from pandas import DataFrame

from whenpool.book.report.tables import duration
from whenpool.book.report.verdicts import column, spread
from whenpool.runs.compute import rows_of, standing, weights_needed
from whenpool.runs.engine import Workforce, processors
from whenpool.runs.estimates import Estimate, Pace
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.probe import GradientTrace
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans import thesis_table
from whenpool.runs.request import Request
from whenpool.runs.run import Place, Run, key

ALL, NEEDED = "all, each once", "trainings they need"
"""The last rows: every run, and those that nobody asked for whose weights a probe or student reads."""
_Expected = Mapping[Run, Estimate | None]


class Progress(NamedTuple):
    """How far some runs are."""

    table: DataFrame
    notes: list[str]  # What lacks its data, failed or is damaged, a line each
    times: list[str]  # What the times rest on, a line each


def status_table(
    chapters: Mapping[str, Sequence[Run]], request: Request, place: Place, workforce: Workforce
) -> Progress:
    """How far the runs of some chapters are, per table of the thesis or chapter. "time left" is for runs
    that are missing or failed, "time of all" for all; "?" means that no run like them was done yet."""
    by_table: dict[str, dict[Run, None]] = {}  # or by chapter, of runs in none; one can be in several
    for chapter, runs in chapters.items():
        for run in runs:
            tables = thesis_table(run) if request.profile == "paper" else ()
            for name in [f"Table {table}" for table in tables] or [chapter]:
                by_table.setdefault(name, {})[run] = None
    groups = {name: list(runs) for name, runs in sorted(by_table.items())}
    every = list(dict.fromkeys(run for runs in groups.values() for run in runs))
    found = standing(every, place)
    missing, failed = set(found.missing), set(found.failed)
    done_then = missing.union(_on_the_way(found.missing))
    again: list[Run] = [  # trainings whose weights the missing runs need and which are not here
        run
        for run in weights_needed(found.missing, place)
        if run not in done_then and not place.store.has(key(run, place), with_weights=True)
    ]
    if again:
        groups[NEEDED] = again
    groups[ALL] = list(dict.fromkeys([*every, *again]))
    pace = Pace.measured(place, workforce)
    expected = {run: pace.estimate(run) for run in groups[ALL]}
    elsewhere = workforce.device.startswith("cuda") or workforce.address  # a cluster has at least one
    workers = workforce.workers or (1 if elsewhere else processors())
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
    notes = [*found.damaged, *dict.fromkeys(found.absent.values())]
    notes += [f"failed: {run}: {message}" for run, message in found.failed.items()]
    times = _about_times(expected, workers, workforce.device)
    if workforce.until is not None:
        time_left = workforce.until - time.monotonic()
        free, fit = [0.0] * workers, 0  # when each worker is, and how many runs will be done by then
        for run in sorted(undone, key=lambda run: run.rank()):
            if (estimate := expected[run]) and free[0] + estimate.seconds <= time_left:
                heapreplace(free, free[0] + estimate.seconds)
                fit += 1
        all_left = f"the {len(undone)} runs that are left"
        times.append(f"About {fit} of {all_left} will be done before the deadline")
    return Progress(DataFrame(rows), notes, times)


ASKED = ("corpus", "size", "setting", "pooling", "system", "per_class")
"""What `outcome_table` says of each run; other parts of a configuration where they vary."""


def outcome_table(runs: Sequence[Run], place: Place) -> str:
    """What came out of finished runs, over the seeds: a table of each kind that has an accuracy or F1."""
    parts = []
    for kind in dict.fromkeys(run.kind for run in runs):
        rows = rows_of([run for run in runs if run.kind == kind], place)
        if rows.empty or "test_accuracy" not in rows:
            continue
        names = [item.name for item in fields(KINDS[kind]) if item.name in rows and item.name != "seed"]
        shown = [name for name in names if name in ASKED or rows[name].nunique(dropna=False) > 1]
        f1 = column(rows, "entity_f1").astype(float)
        rows = rows.assign(
            **{name: rows[name].astype(object).fillna("") for name in shown},
            score=f1.fillna(rows["test_accuracy"]),
            of=f1.isna().map({True: "accuracy in %", False: "F1 in %"}),
        )
        found = rows.groupby([*shown, "of"], sort=False)["score"].agg(spread)
        table = found.rename("mean ± std (n)").reset_index().rename(columns={"of": ""})
        points = place.store.history(kind, "types") if "types" in KINDS[kind].histories else ()
        if "type" in points:
            types = rows.merge(points, on="key")
            f1 = types.groupby([*shown, "of", "type"])["type_f1"].mean()
            of_types = (f1.loc[group] if group in f1 else {} for group in found.index)
            table["by type"] = [
                ", ".join(f"{name} {value:.1f}" for name, value in own.items()) for own in of_types
            ]
        parts.append(table.to_string(index=False))
    return "\n\n".join(parts)


def _on_the_way(runs: Iterable[Run]) -> set[Training]:
    """Trainings that some of the runs do on their way."""
    return {run.training for run in runs if isinstance(run, GradientTrace)}


def _time(runs: Sequence[Run], expected: _Expected, workers: int) -> str:
    """What runs take, in words: "3 min 5 s", "62 days 3 h", "1 h 2 min + ?", "?"."""
    on_the_way = _on_the_way(runs)
    found = [expected[run] for run in runs if run not in on_the_way]
    known = [estimate.seconds for estimate in found if estimate]
    if found and not known:
        return "?"
    seconds = max(sum(known) / workers, *known, 0.0)  # side by side: no less than the longest
    hours = round(seconds / 3600)
    told = duration(seconds)
    if hours >= 48:
        told = f"{hours // 24} days" + (f" {hours % 24} h" if hours % 24 else "")
    return told if len(known) == len(found) else f"{told} + ?"


def _about_times(expected: _Expected, workers: int, device: str) -> list[str]:
    """What the times rest on."""
    known = [estimate for estimate in expected.values() if estimate]
    workers_are = f"{workers} worker{'s' * (workers > 1)} on {device}"
    lines = [f"Times are for {workers_are}, estimated from the most similar runs"] if known else []
    if count := sum(not estimate.here for estimate in known):
        other = "another machine, precision or number of models at once"
        lines.append(f"{count:,} of the times come from {other}")
    if len(known) < len(expected):
        lines.append(f"? means that no similar run is stored ({len(expected) - len(known):,} runs)")
    return lines
