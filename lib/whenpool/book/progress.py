"""How far runs are, and how long the rest will take: ``whenpool status`` and ``run --dry-run``."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

import pandas as pd

from whenpool.book.results import column
from whenpool.book.tables import duration, spread
from whenpool.runs.compute import Pace, has_weights, rows_of, standing, weights_needed
from whenpool.runs.engine import Workforce, processors
from whenpool.runs.kinds import KINDS
from whenpool.runs.run import Place, Run

ALL = "all, each once"  # The last row
ASKED = ("corpus", "size", "setting", "pooling", "system", "per_class")
"""What `outcome_table` says of each run; other parts of a configuration where they vary."""


class Progress(NamedTuple):
    """How far some runs are."""

    table: pd.DataFrame
    notes: list[str]  # What lacks its data, a line each
    times: list[str]  # What the times rest on, a line each


def status_table(chapters: Mapping[str, Sequence[Run]], place: Place, workforce: Workforce) -> Progress:
    """How far the runs of some chapters are. "time left" is for runs that are missing, "time of all" for
    all; "?" means that no run like them was done yet."""
    every = dict.fromkeys(run for runs in chapters.values() for run in runs)
    stand, pace = standing(every, place), Pace(place, workforce)
    done, missing, absent = map(set, (stand.done, stand.missing, stand.absent))
    seconds = {run: pace.seconds(run) for run in every}
    elsewhere = workforce.device.startswith("cuda") or workforce.address  # a cluster has at least one
    workers = workforce.workers or (1 if elsewhere else processors())
    rows = [
        {
            "runs of": name,
            "done": len(group & done), "missing": len(group & missing), "no data": len(group & absent),
            "all": len(group), "time left": _time([seconds[run] for run in group & missing], workers),
            "time of all": _time([seconds[run] for run in group], workers),
        }
        for name, group in ((name, set(runs)) for name, runs in [*sorted(chapters.items()), (ALL, every)])
    ]  # fmt: skip
    lines = []
    needed = (run for run in weights_needed(stand.missing, place) if run not in missing)
    if again := [run for run in needed if not has_weights(run, place)]:
        took = _time([pace.seconds(run) for run in again], workers)
        lines.append(f"{len(again)} trainings whose weights these runs need come on top: {took}")
    if any(seconds.values()):
        workers_are = f"{workers} worker{'s' * (workers > 1)} on {workforce.device}"
        lines.append(f"Times are for {workers_are}, estimated from the most similar runs")
    if unknown := sum(value is None for value in seconds.values()):
        lines.append(f"? means that no similar run is stored ({unknown:,} runs)")
    return Progress(pd.DataFrame(rows), [*dict.fromkeys(stand.absent.values())], lines)


def _time(seconds: Sequence[float | None], workers: int) -> str:
    """What runs take, in words: "3 min 5 s", "62 days 3 h", "1 h 2 min + ?", "?"."""
    known = [value for value in seconds if value is not None]
    if seconds and not known:
        return "?"
    total = max(sum(known) / workers, *known, 0.0)  # side by side: no less than the longest
    days, hours = divmod(round(total / 3600), 24)
    words = f"{days} days" + (f" {hours} h" if hours else "") if days >= 2 else duration(total)
    return words if len(known) == len(seconds) else f"{words} + ?"


def outcome_table(runs: Sequence[Run], place: Place) -> str:
    """What came out of finished runs, over the seeds: a table of each kind that has an accuracy or F1."""
    parts = []
    for kind in dict.fromkeys(run.kind for run in runs):
        rows = rows_of([run for run in runs if run.kind == kind], place)
        if rows.empty or "test_accuracy" not in rows:
            continue
        names = [item.name for item in fields(KINDS[kind]) if item.name in rows and item.name != "seed"]
        shown = [name for name in names if name in ASKED or rows[name].nunique(dropna=False) > 1]
        rows[shown] = rows[shown].astype(object).fillna("")
        f1 = column(rows, "entity_f1").astype(float)
        rows["score"] = f1.fillna(rows["test_accuracy"])
        rows[""] = f1.isna().map({True: "accuracy in %", False: "F1 in %"})
        scores = rows.groupby([*shown, ""], sort=False)["score"].agg(spread)
        parts.append(scores.rename("mean ± std (n)").reset_index().to_string(index=False))
    return "\n\n".join(parts)
