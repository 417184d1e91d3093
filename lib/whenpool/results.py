"""Asking for runs: what is stored is read, what is missing is computed."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from whenpool.engine import Report, run_all
from whenpool.errors import InputError
from whenpool.plans import PLANS, Choice, plan, thesis_table
from whenpool.runs import PROTOCOL, Place, Training, key

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Standing:
    """How far a list of runs is.

    Attributes:
        done: key of each finished run.
        elsewhere: those among them that are on record, while their data are not here.
        missing: runs that can be computed here.
        absent: runs that cannot, and why: their data are not here.
        failed: what the missing ones that were tried said.
        set_aside: a line for each stored file that could not be counted.
    """

    done: dict[Training, str]
    elsewhere: set[Training]
    missing: list[Training]
    absent: dict[Training, str]
    failed: dict[Training, str]
    set_aside: list[str]


def standing(runs: Iterable[Training], place: Place) -> Standing:
    """Look every run up, without computing anything.

    Where the data of a run are not here, a run of record of the same configuration counts, whatever
    its vectors.
    """
    keys, failures = place.store.keys(), place.store.failures()
    recorded: dict[Training, str] | None = None
    found = Standing({}, set(), [], {}, {}, place.store.set_aside)
    for run in runs:
        try:
            name = key(run, place)
        except InputError as error:
            if recorded is None:
                recorded = _recorded_by_shape(place)
            if _shape(run) in recorded:
                found.done[run] = recorded[_shape(run)]
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
    runs: Sequence[Training],
    place: Place,
    *,
    workers: int | None = None,
    device: str = "cpu",
    skip_absent: bool = False,
    keep_weights: Callable[[Training], bool] = lambda run: False,
    label: str = "runs",
    say: Callable[[str], None] = print,
) -> Report:
    """Compute the runs that are missing.

    Args:
        skip_absent: leave out runs whose data are not here, with a line for each reason, instead
            of raising.
        workers, device, keep_weights, label: see `whenpool.engine.run_all`.
        say: told what is noteworthy, left out, set aside or failed, a line each.

    Raises:
        InputError: when data are not here, or all runs failed.
    """
    before = standing(runs, place)
    if before.absent and not skip_absent:
        raise InputError(next(iter(before.absent.values())))
    for reason, count in Counter(before.absent.values()).items():
        say(f"{count} runs are left out: {reason}")
    for line in before.set_aside:
        say(line)
    wanted = [run for run in runs if run not in before.absent and run not in before.elsewhere]
    report = run_all(
        wanted, place, workers=workers, device=device, keep_weights=keep_weights, label=label
    )
    for note in report.notes:
        say(f"note: {note}")
    for message, count in Counter(report.failed.values()).items():
        run = next(run for run, said in report.failed.items() if said == message)
        more = f" and {count - 1} others like it" if count > 1 else ""
        say(f"failed: {run}{more}: {message}")
    if report.failed and not report.done and not before.done:
        raise InputError(f"all {len(report.failed)} runs failed; {next(iter(report.failed.values()))}")
    return report


def rows_of(runs: Sequence[Training], place: Place) -> "DataFrame":
    """The rows of `Store.trainings` of the finished ones among some runs, in their order."""
    done = standing(runs, place).done
    table = place.store.trainings().set_index("key", drop=False)
    return table.loc[list(dict.fromkeys(done.values()))].reset_index(drop=True)


def current_trainings(place: Place) -> "DataFrame":
    """All finished runs under the protocol of this version."""
    table = place.store.trainings()
    return table[table["protocol"] == PROTOCOL].reset_index(drop=True) if len(table) else table


def training_of(row: Any) -> Training:
    """The configuration of a row of `Store.trainings`."""
    values: dict[str, Any] = {}
    for field in fields(Training):
        value = row[field.name]
        if value != value or value is None:  # NaN stands for None in tables
            value = None
        elif isinstance(field.default, int | float):
            value = type(field.default)(value)
        values[field.name] = value
    for name in ("max_words", "validation", "test", "size"):
        values[name] = None if values[name] is None else int(values[name])
    values["forget_bias"] = _number_or_word(values["forget_bias"])
    return Training(**values)


def status_table(choice: Choice, place: Place) -> tuple["DataFrame", list[str]]:
    """How far the runs of a choice are, per chapter and table of the thesis, and what to know."""
    import pandas as pd

    groups: dict[str, list[Training]] = {}
    for chapter in PLANS:
        for run in plan(chapter, choice, place):
            tables = thesis_table(run) if choice.profile == "paper" else ()
            for name in [f"Table {table}" for table in tables] or [chapter]:
                groups.setdefault(name, []).append(run)
    every = list(dict.fromkeys(run for runs in groups.values() for run in runs))
    found = standing(every, place)
    missing, failed = set(found.missing), set(found.failed)
    rows = [
        {
            "runs of": name,
            "done": sum(run in found.done for run in runs),
            "missing": sum(run in missing - failed for run in runs),
            "failed": sum(run in failed for run in runs),
            "no data": sum(run in found.absent for run in runs),
            "all": len(runs),
        }
        for name, runs in [*sorted(groups.items()), ("all, each once", every)]
    ]
    notes = [*found.set_aside, *dict.fromkeys(found.absent.values())]
    notes += [f"failed: {run}: {message}" for run, message in found.failed.items()]
    return pd.DataFrame(rows), notes


def _recorded_by_shape(place: Place) -> dict[Training, str]:
    """Runs of record by configuration, vectors left out."""
    rows = place.store.recorded.to_dict("records")
    return {_shape(training_of(row)): row["key"] for row in rows if row["protocol"] == PROTOCOL}


def _shape(run: Training) -> Training:
    return replace(run, vectors=None)


def _number_or_word(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
