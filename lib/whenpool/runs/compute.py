"""Asking for runs: what is stored is read, what is missing is computed."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import pandas as pd

from whenpool.base.errors import InputError
from whenpool.fewshot.pretrained import locate
from whenpool.runs.engine import Report, Workforce, run_all
from whenpool.runs.kinds import KINDS, FewShot, Training
from whenpool.runs.run import Place, Run, key


@dataclass(frozen=True)
class Standing:
    """How far a list of runs is."""

    done: dict[Run, str]  # the key of each finished run
    elsewhere: set[Run]  # those among them that are published, while their data are not here
    missing: list[Run]  # what can be computed here
    absent: dict[Run, str]  # what cannot, and why: its data are not here
    failed: dict[Run, str]  # the message of each missing one that was tried
    set_aside: list[str]  # a line for each stored file that could not be counted


def standing(runs: Iterable[Run], place: Place) -> Standing:
    """Look every run up; a published one of its shape counts where its data are not here."""
    keys, failures = place.store.keys(), place.store.failures()
    recorded = cache(lambda: _recorded_by_shape(place))
    found = Standing({}, set(), [], {}, {}, place.store.set_aside)
    for run in runs:
        try:
            name = key(run, place)
        except InputError as error:
            if run.shape in recorded():
                found.done[run] = recorded()[run.shape]
                found.elsewhere.add(run)
            else:
                found.absent[run] = str(error)
            continue
        if name in keys:
            found.done[run] = name
        else:
            found.missing.append(run)
            if name in failures:
                found.failed[run] = failures[name]
    return found


def compute(
    runs: Sequence[Run], place: Place, workforce: Workforce | None = None, *,
    skip_absent: Callable[[Run], bool] = lambda run: False,
    keep_weights: Callable[[Run], bool] = lambda run: False, label: str = "runs",
    say: Callable[[str], None] = print, seconds: Callable[[Run], float | None] = lambda run: None,
) -> Report:  # fmt: skip
    """Compute the runs that are missing, and the trainings whose weights they need; see `run_all`. Raises
    `InputError` when data are not here, or all runs failed.

    Args:
        skip_absent: the runs that are left out where their data are not here, instead of raising.
        say: called with what is noteworthy, left out, set aside or failed, a line each.
    """
    # encoders that are not here are downloaded; where that fails, the runs lack their data
    waiting = [run for run in runs if isinstance(run, FewShot) and run.has_encoder]
    recorded = _recorded_by_shape(place) if waiting else {}
    for name in {run.encoder for run in waiting if run.shape not in recorded}:
        with suppress(InputError):
            locate(name, download=True)
    before = standing(runs, place)
    for run, reason in before.absent.items():
        if not skip_absent(run):
            raise InputError(reason)
    for reason, count in Counter(before.absent.values()).items():
        say(f"{count} runs are left out: {reason}")
    for line in before.set_aside:
        say(line)
    wanted = [run for run in runs if run not in before.absent and run not in before.elsewhere]
    missing = set(before.missing)
    kept = [run for run in wanted if isinstance(run, Training) and keep_weights(run)]
    again = [run for run in kept if not _has_weights(run, place)]
    needed = weights_needed([*before.missing, *again], place)
    keeping = {*needed, *kept}
    phases: dict[tuple[int, str], list[Run]] = defaultdict(list)
    for run in dict.fromkeys([*wanted, *needed]):
        phases[run.phase].append(run)
    report = Report()
    for (_, name), part in sorted(phases.items()):
        ready = []
        for run in part:
            if run in missing and run.needs and run.needs in report.failed:
                # there is no model to look at, or to learn from
                report.failed[run] = report.failed[run.needs]
                place.store.fail(key(run, place), run.changed(), report.failed[run])
            elif report.left and run.needs and not _has_weights(run.needs, place):
                report.left += run in missing  # what it needs was left, for want of time
            else:
                ready.append(run)
        told = label if name == "trainings" else f"{label} ({name})"
        kept_of = keeping.__contains__
        report.add(run_all(ready, place, workforce, keep_weights=kept_of, label=told, seconds=seconds))
    for note in report.notes:
        say(f"note: {note}")
    alike: dict[str, list[Run]] = defaultdict(list)
    for run, message in report.failed.items():
        alike[message].append(run)
    for message, (run, *others) in alike.items():
        more = f" and {len(others)} others like it" if others else ""
        say(f"failed: {run}{more}: {message}")
    if report.failed and not (report.done or report.shared or report.left or before.done):
        raise InputError(f"all {len(report.failed)} runs failed: {next(iter(report.failed.values()))}")
    return report


def weights_needed(missing: Iterable[Run], place: Place) -> list[Training]:
    """The trainings whose weights some runs need, and those that these need where they are not here."""
    needed: dict[Training, None] = {}
    for run in missing:
        need = run.needs
        while need and need not in needed:
            needed[need] = None
            need = None if _has_weights(need, place) else need.needs
    return sorted(needed, key=str)


def _has_weights(run: Training, place: Place) -> bool:
    return place.store.has(key(run, place), with_weights=True)


def rows_of(runs: Sequence[Run], place: Place) -> pd.DataFrame:
    """The rows of the finished ones among some runs of one kind, in their order."""
    keys = list(dict.fromkeys(standing(runs, place).done.values()))
    table = place.store.rows(runs[0].kind) if runs else pd.DataFrame(columns=["key"])
    return table.set_index("key", drop=False).loc[keys].reset_index(drop=True)


def _recorded_by_shape(place: Place) -> dict[Run, str]:
    """Keys of the published runs under the protocols of this version, by their shape."""
    found: dict[Run, str] = {}
    for kind in KINDS.values():
        rows = place.store.read_published(kind.table)
        for row in rows[kind.is_current(rows)].to_dict("records") if len(rows) else ():
            found[kind.of_row(row).shape] = row["key"]
    return found
