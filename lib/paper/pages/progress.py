"""How far runs are, and how long the rest will take: ``whenpool status`` and ``run --dry-run``."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from paper.runs.compute import Pace, rows_of, standing
from paper.runs.engine import Workforce
from paper.runs.kinds import KINDS
from paper.runs.run import Place, Run
from paper.tables import duration, spread
from whenpool.base.devices import processors

ALL = "all, each once"  # The last row
ASKED = ("corpus", "size", "setting", "pooling", "system", "per_class")
"""What `outcome_table` says of each run; other parts of a configuration where they vary."""

SCORES = {"test_accuracy": "accuracy in %", "entity_f1": "F1 in %"}


class Progress(NamedTuple):
    """How far some runs are."""

    table: pd.DataFrame
    notes: list[str]  # What lacks its data, a line each
    times: list[str]  # What the times rest on, a line each


def status_table(
    chapters: Mapping[str, Sequence[Run]], place: Place, workforce: Workforce
) -> Progress:
    """How far the runs of some chapters are. "time left" is for runs that are missing, "time of
    all" for all; "?" means that no run like them was done yet."""
    every = dict.fromkeys(run for runs in chapters.values() for run in runs)
    stand, pace = standing(every, place), Pace(place, workforce)
    done, missing, absent = map(set, (stand.done, stand.missing, stand.absent))
    seconds = {run: pace.seconds(run) for run in every}
    # a cluster has at least one
    workers = workforce.workers or (1 if workforce.on_gpu or workforce.address else processors())
    rows = []
    for name, runs in [*sorted(chapters.items()), (ALL, every)]:
        group = set(runs)
        counts = {"done": done, "missing": missing, "no data": absent, "all": group}
        times = {"time left": group & missing, "time of all": group}
        rows.append(
            {"runs of": name}
            | {what: len(group & runs) for what, runs in counts.items()}
            | {what: _time([seconds[run] for run in runs], workers) for what, runs in times.items()}
        )
    lines = []
    if any(seconds.values()):
        workers_are = f"{workers} worker{'s' * (workers > 1)} on {workforce.device}"
        lines.append(f"Times are for {workers_are}, estimated from the most similar runs")
    if unknown := sum(value is None for value in seconds.values()):
        lines.append(f"? means that no similar run is stored ({unknown:,} runs)")
    notes = [*place.store.damaged, *dict.fromkeys(stand.absent.values())]
    return Progress(pd.DataFrame(rows), notes, lines)


def _time(seconds: Sequence[float | None], workers: int) -> str:
    """What runs take, in words: "3 min 5 s", "62 days 3 h", "1 h 2 min + ?", "?"."""
    estimates = [value for value in seconds if value is not None]
    if seconds and not estimates:
        return "?"
    total = duration(max(sum(estimates) / workers, *estimates, 0.0))  # no less than the longest
    return total if len(estimates) == len(seconds) else f"{total} + ?"


def outcome_table(runs: Sequence[Run], place: Place) -> str:
    """What came out of finished runs, a table of each kind: mean ± standard deviation (seeds)."""
    parts = []
    for kind in dict.fromkeys(run.kind for run in runs):
        rows = rows_of([run for run in runs if run.kind == kind], place)
        if rows.empty or "test_accuracy" not in rows:
            continue
        names = [
            item.name for item in KINDS[kind].columns() if item.name in rows and item.name != "seed"
        ]
        shown = [name for name in names if name in ASKED or rows[name].nunique(dropna=False) > 1]
        rows[shown] = rows[shown].astype(object).fillna("")
        scores = [name for name in SCORES if name in rows and rows[name].notna().any()]
        table = rows.groupby(shown, sort=False)[scores].agg(spread).rename(columns=SCORES)
        parts.append(table.reset_index().to_string(index=False))
    return "\n\n".join(parts)
