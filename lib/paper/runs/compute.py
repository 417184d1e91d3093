"""Asking for runs: what is stored is read, what is missing is computed, and how long that takes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pandas as pd
import torch

from paper.fewshot.pretrained import locate
from paper.runs.engine import Report, Workforce, run_all
from paper.runs.kinds import KINDS, FewShot, Training
from paper.runs.run import Place, Run, key, processor
from whenpool.base.errors import InputError, StorageError, check
from whenpool.corpora.tokens import VECTORS


@dataclass(frozen=True)
class Standing:
    """How far a list of runs is."""

    done: dict[Run, str] = field(default_factory=dict)  # the key of each finished run
    # of these, published ones whose data are not here
    elsewhere: set[Run] = field(default_factory=set)
    missing: list[Run] = field(default_factory=list)  # what can be computed here
    # what cannot, and why: its data are not here
    absent: dict[Run, str] = field(default_factory=dict)


def standing(runs: Iterable[Run], place: Place) -> Standing:
    """Look every run up; a published one of its shape counts where its data are not here."""
    stand, keys = Standing(), place.store.keys()
    published: dict[Run, str] = {}
    for run in runs:
        try:
            name = key(run, place)
        except StorageError:
            raise
        except InputError as error:
            published = published or _published_by_shape(place)
            if run.shape not in published:
                stand.absent[run] = str(error)
                continue
            name = published[run.shape]
            stand.elsewhere.add(run)
        if name in keys:
            stand.done[run] = name
        else:
            stand.missing.append(run)
    return stand


def compute(
    runs: Sequence[Run],
    place: Place,
    workforce: Workforce | None = None,
    *,
    skip_absent: Callable[[Run], bool] = lambda run: False,
    keep_weights: bool = False,
    label: str = "runs",
    say: Callable[[str], None] = print,
) -> Report:
    """Compute the runs that are missing, and the trainings whose weights they need; see `run_all`.
    Raises `InputError` when data are not here, or all runs failed.

    Args:
        skip_absent: the runs that are left out where their data are not here, instead of raising.
        keep_weights: whether trainings that are stored without their weights are run again.
        say: called with what is noteworthy, left out, damaged or failed, a line each.
    """
    before = standing(runs, place)
    lacking = {run.encoder for run in before.absent if isinstance(run, FewShot) and run.has_encoder}
    for name in lacking:  # they are downloaded; where that fails, the runs lack their data
        with suppress(InputError):
            locate(name, download=True)
    before = standing(runs, place) if lacking else before
    for run, reason in before.absent.items():
        check(skip_absent(run), reason)
    for reason, count in Counter(before.absent.values()).items():
        say(f"{count} runs are left out: {reason}")
    for line in place.store.damaged:
        say(line)
    asked = [*before.done, *before.missing]
    kept = [  # trainings whose weights are to be here
        run
        for run in asked
        if keep_weights and isinstance(run, Training) and run not in before.elsewhere
    ]
    todo = [*before.missing, *(run for run in kept if not has_weights(run, place))]
    kept += weights_needed(todo, place)
    todo, report = list(dict.fromkeys([*todo, *kept])), Report()
    for phase in sorted({run.phase for run in todo}):
        ready = []
        for run in (run for run in todo if run.phase == phase):
            if run.needs in report.failed:  # there is no model to look at, or to learn from
                report.failed[run] = report.failed[run.needs]
            else:
                ready.append(run)
        run_all(ready, place, workforce, set(kept).__contains__, label, report)
    rows = (place.store.get(key(run, place)) for run in before.missing)
    notes = {row["result"].get("corpus_notes"): None for row in rows if row}
    for note in filter(None, notes):
        say(f"note: {note}")
    alike = Counter(report.failed.values())
    first = {message: run for run, message in reversed(report.failed.items())}
    for message, count in alike.items():
        others = f" and {count - 1} others like it" if count > 1 else ""
        say(f"failed: {first[message]}{others}: {message}")
    some = report.done or report.shared or report.left or before.done
    if report.failed and not some:
        raise InputError(f"all {len(report.failed)} runs failed: {next(iter(alike))}")
    return report


def weights_needed(missing: Iterable[Run], place: Place) -> list[Training]:
    """The trainings whose weights some runs need, and those that these need where they are not
    here."""
    needed, asked = set[Training](), [run.needs for run in missing]
    while asked:
        run = asked.pop()
        if run is not None and run not in needed:
            needed.add(run)
            asked += [] if has_weights(run, place) else [run.needs]
    return sorted(needed, key=str)


def has_weights(run: Run, place: Place) -> bool:
    """Whether a run is stored here with its weights."""
    return place.store.has(key(run, place), with_weights=True)


def runs_of_file(file: Path) -> list[Run]:
    """The runs of a CSV file as the book has it under its figures: a row each, with its kind and
    what else it is. Raises `InputError` for another file."""
    try:
        rows = pd.read_csv(file, dtype={"key": str}).to_dict("records")
        runs = [KINDS[row["kind"]].of_row(row) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        advice = "take one that is below a figure of the book"
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise InputError(f"{file} is no file of runs ({reason}); {advice}") from None
    return list(dict.fromkeys(runs))


def rows_of(runs: Sequence[Run], place: Place) -> pd.DataFrame:
    """The rows of the finished ones among some runs of one kind, in their order."""
    keys = list(dict.fromkeys(standing(runs, place).done.values()))
    table = place.store.rows(runs[0].kind) if runs else pd.DataFrame(columns=["key"])
    return table.set_index("key", drop=False).loc[keys].reset_index(drop=True)


def _published_by_shape(place: Place) -> dict[Run, str]:
    """Keys of the published runs under the protocols of this version, by their shape."""
    keys: dict[Run, str] = {}
    order = {name: rank for rank, name in enumerate(VECTORS)}
    for kind in KINDS.values():
        rows = place.store.read_published(kind.table)
        if "vectors" in rows:  # no part of a shape: the first of `VECTORS` stands for the others
            rows = rows.sort_values("vectors", key=lambda names: names.map(order), kind="stable")
        for row in rows[kind.is_current(rows)].to_dict("records") if len(rows) else ():
            keys.setdefault(kind.of_row(row).shape, row["key"])
    return keys


# how long runs will take on this machine: their words over the words per second of runs like them

LIKE = "probe system encoder cell layers bidirectional embedding_size hidden_size trick".split()
"""Runs with the same of these read as many words in a second."""


class Pace:
    """How fast all runs of a place were. Models trained as one batch count only where a workforce
    does so."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        device, here = "cpu", f"cpu: {processor()}"
        if workforce.on_gpu:  # it may be elsewhere
            device = "cuda"
            here = f"cuda: {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
        fills = workforce.on_gpu and workforce.engine == "local"  # with several models at once
        batched = (workforce.models_per_batch or 1 + fills) > 1
        self._speeds: dict[Hashable, list[float]] = defaultdict(list)
        for name, kind in KINDS.items():
            rows = place.store.current(name)
            alike = rows["device"].astype(str).str.startswith(f"{device}:")
            alone = batched | ~rows["together"].astype(float).gt(1)
            for row in rows[alike & alone & rows["seconds"].astype(float).gt(0)].to_dict("records"):
                run = kind.of_row(row)
                self._speeds[row["device"] == here, _like(run)].append(run.cost / row["seconds"])

    def seconds(self, run: Run) -> float | None:
        """What one worker takes for a run; None where nothing like it was run yet."""
        speeds = self._speeds.get((True, _like(run))) or self._speeds.get((False, _like(run)))
        return run.cost / median(speeds) if speeds else None


def _like(run: Run) -> Hashable:
    run = run.shape
    return run.kind, *(getattr(run, name, getattr(run.about, name, None)) for name in LIKE)
