"""Tasks: what a worker does with one, and how they are handed out until all have ended, or time is up. Where
workers are is a *pool*'s business: `whenpool.runs.engine.local` or `whenpool.runs.engine.on_ray`.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from whenpool.base.errors import InputError, StorageError
from whenpool.base.memory import give_back_freed_memory
from whenpool.runs.kinds.training import Training, execute_batched
from whenpool.runs.run import Place, Run

_POLL = 0.5  # Seconds between two looks at what another command is doing


class Job(NamedTuple):
    """A run that is not stored yet."""

    run: Run
    key: str
    keep_weights: bool = False


Task = tuple[Job, ...]  # What one worker does in one go: a run, or several trainings together


class Message(NamedTuple):
    """Of one run: "begun", an "epoch" of it ended, "done" or "failed". Of a worker: a "note", "stopped"
    (nothing can be stored), "idle" or "died"."""

    kind: str
    key: str = ""
    text: str = ""


Told = tuple[Hashable, str, str, str]  # A worker, and the kind, key and text of its message
Expected = Callable[[Run], float | None]  # The seconds that a run takes, where something is known


@dataclass
class Report:
    """How a list of runs ended."""

    done: int = 0  # here
    failed: dict[Run, str] = field(default_factory=dict)  # with the reason
    shared: int = 0  # done by another command on the same store
    left: int = 0  # not begun, or stopped, since time was up
    notes: list[str] = field(default_factory=list)  # sentences on the corpora, and how results were made

    def add(self, more: "Report") -> None:
        """Count another list of runs as well."""
        self.done += more.done
        self.shared += more.shared
        self.left += more.left
        self.failed |= more.failed
        self.notes = list(dict.fromkeys([*self.notes, *more.notes]))


def tasks_of(jobs: Sequence[Job], models_per_batch: int) -> list[Task]:
    """Tasks, most informative first. Up to ``models_per_batch`` trainings form one: they differ in pooling
    and the place of the filler alone, so their batches have the same lengths and share their padding."""
    groups: list[list[Job]] = []
    filling: dict[Run, list[Job]] = {}  # the last group of each shape
    for job in sorted(jobs, key=lambda job: job.run.rank()):
        run = shape = job.run
        if isinstance(run, Training) and run.cell == "lstm" and not (run.trick or run.drop_connect):
            where = "standard" if run.setting == "standard" else "mid"
            shape = replace(run, pooling="max", setting=where, forget_bias="thesis", orthogonal=False)
        group = filling.get(shape)
        if group is None or len(group) >= models_per_batch:
            group = filling[shape] = []
            groups.append(group)
        group.append(job)
    return [tuple(group) for group in groups]


def halves(task: Task) -> list[Task]:
    """A task cut in two where that is possible: what is tried when it was too much."""
    middle = (len(task) + 1) // 2
    return [part for part in (task[:middle], task[middle:]) if part]


# what a worker does


class DeviceLostError(RuntimeError):
    """A GPU that computes nothing more for this process: another one may try again."""


def do(task: Task, place: Place, device: str, say: Callable[[Message], None]) -> None:
    """Execute and store the runs of a task, half at a time if they are too much for a GPU's memory."""
    for job in task:
        say(Message("begun", job.key))
    open_jobs = {job.key: job for job in task}

    def ended(job: Job, failure: str = "") -> None:
        del open_jobs[job.key]
        say(Message("failed" if failure else "done", job.key, failure))

    again: list[Task] = []
    try:
        if len(task) == 1:
            job = task[0]
            job.run.execute(place, device, job.keep_weights, lambda: say(Message("epoch", job.key)))
            ended(job)
        else:
            runs: Any = [job.run for job in task]
            kept = [job.keep_weights for job in task]
            told = lambda number: say(Message("epoch", task[number].key))  # noqa: E731
            execute_batched(runs, place, device, kept, told, lambda n, why: ended(task[n], why))
    except StorageError as error:
        say(Message("stopped", text=str(error)))
    except Exception as error:  # a run that fails must not stop the others
        # cuBLAS and cuDNN, and a card that others fill as well, report a full memory in other ways
        signs = ("CUDA error: out of memory", "ALLOC_FAILED")
        full = isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in signs)
        # torch has the other error since 2.8
        if not full and isinstance(error, getattr(torch, "AcceleratorError", ())):
            raise DeviceLostError(str(error)) from None
        rest = tuple(open_jobs.values())
        if full and len(task) > 1:
            many = f"{len(task)} models together did not fit into the GPU's memory"
            say(Message("note", text=f"{many}; half as many were trained together instead."))
            again = halves(rest) if len(rest) == len(task) else [rest]
        elif full:
            ended(task[0], "the GPU has too little memory; free some, or use --device cpu")
        elif len(task) > 1:  # each reports its own fault
            again = [(job,) for job in rest]
        else:
            reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            ended(task[0], " ".join(reason.split()))
    # not while the error is handled: it holds on to the models that were too many
    give_back_freed_memory()
    if again and torch.cuda.is_available():
        torch.cuda.empty_cache()
    for part in again:
        do(part, place, device, say)


# who hands tasks out


class Claims:
    """The claims of one command on a store."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self._held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Claim a run; returns whether it is ours now."""
        if key not in self._held:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._folder / f"{key}.lock")
            try:
                lock.acquire(blocking=False)
            except Timeout:
                return False
            self._held[key] = lock
        return True

    def release(self, key: str) -> None:
        """Let go of a run. The file goes first: who has opened it sees it without a name, and begins anew."""
        lock = self._held.pop(key)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    def release_all(self) -> None:
        for name in list(self._held):
            self.release(name)


class Pool(Protocol):
    """Workers, each of which does one task at a time."""

    tries: int  # how often a run is begun if its worker dies

    def has_room(self) -> bool:
        """Whether a worker is idle, or can be had."""

    def begin(self, task: Task) -> Hashable:
        """Hand a task to a worker, and return what it goes by in messages."""

    def listen(self, seconds: float | None) -> list[Told]:
        """Wait for messages; the last one of a worker is "idle" or "died"."""

    def close(self) -> None:
        """Stop all workers, whatever they are doing."""


class _LogLines(tqdm):
    """A bar for a log file, which shows each state of it as a line."""

    def display(self, *_: Any, **__: Any) -> None:
        print(self, file=sys.stderr, flush=True)


class Crew:
    """One list of tasks, and the pool that does them; see `whenpool.runs.engine`."""

    def __init__(
        self, place: Place, pool: Pool, label: str, seconds: Expected, until: float | None
    ) -> None:
        self._place, self._pool, self._label = place, pool, label
        self._seconds, self._until = seconds, math.inf if until is None else until
        self._started = time.time()
        self._claims = Claims(place.store.directory)
        self._queue = deque[Task]()
        self._busy: dict[Hashable, dict[str, Job]] = {}  # what each worker has still to end
        self._elsewhere: list[Job] = []  # claimed by another command
        self._tries: dict[str, int] = {}
        self._told: dict[str, int] = {}  # epochs of a run that are in the bar
        self._report = Report()

    def work(self, tasks: Sequence[Task]) -> Report:
        """Do all tasks, and report. Raises `InputError` when nothing can be stored any more."""
        self._queue.extend(tasks)
        jobs = [job for task in tasks for job in task]
        in_place = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__
        with (tqdm if in_place else _LogLines)(
            total=sum(job.run.cost for job in jobs),
            desc=f"{self._label}: 0/{len(jobs)}",
            bar_format="{desc} |{bar:20}| {percentage:3.0f}% {elapsed} elapsed, {remaining} left",
            leave=in_place,
            miniters=0,  # time alone decides when a state is shown
            mininterval=0.5 if in_place else 60.0,
        ) as self._bar:
            try:
                while (self._queue or self._busy or self._elsewhere) and time.monotonic() < self._until:
                    while self._queue and self._pool.has_room():
                        if task := self._claimed(self._queue.popleft()):
                            self._busy[self._pool.begin(task)] = {job.key: job for job in task}
                    self._listen()
                    for job in list(self._elsewhere):  # what another command has let go
                        if self._claims.take(job.key):
                            self._elsewhere.remove(job)
                            if not self._ended_elsewhere(job):  # it was stopped
                                self._queue.append((job,))
                    ended = self._report.done + self._report.shared + len(self._report.failed)
                    self._bar.set_description_str(f"{self._label}: {ended}/{len(jobs)}", refresh=False)
                self._report.left += sum(map(len, [*self._busy.values(), *self._queue, self._elsewhere]))
                if not self._report.left:
                    self._bar.n = self._bar.total
            finally:
                self._pool.close()
                self._claims.release_all()
        return self._report

    def _claimed(self, task: Task) -> Task:
        """The part of a task that there is time for, and that nobody else does."""
        ours: list[Job] = []
        expected = 0.0
        for job in task:
            seconds = self._seconds(job.run) or 0.0
            if time.monotonic() + expected + seconds > self._until:
                self._report.left += 1
            elif not self._claims.take(job.key):
                self._elsewhere.append(job)
            elif not self._ended_elsewhere(job):
                expected += seconds
                ours.append(job)
        return tuple(ours)

    def _ended_elsewhere(self, job: Job) -> bool:
        """Whether another command has stored a run that is claimed now, or seen it fail."""
        store, tried = self._place.store, job.key in self._tries
        if store.has(job.key, job.keep_weights):
            self._report.done += tried  # its worker died before it could say so
            self._report.shared += not tried
            self._show(job, job.run.epochs)
        elif not tried and (message := store.failure(job.key, since=self._started)):
            self._report.failed[job.run] = message
        else:
            return False
        self._claims.release(job.key)
        return True

    def _listen(self) -> None:
        if not self._busy:
            if self._elsewhere:
                time.sleep(_POLL)
            return
        seconds = min(_POLL if self._elsewhere else math.inf, max(self._until - time.monotonic(), 0))
        for worker, kind, name, text in self._pool.listen(None if seconds == math.inf else seconds):
            if kind == "stopped":
                raise InputError(text)
            if kind == "note":
                self._report.notes.append(text)
            elif kind in ("idle", "died"):
                if unfinished := tuple(self._busy.pop(worker).values()):
                    self._retry(unfinished, text)
            elif kind == "begun":
                self._show(self._busy[worker][name], 0)
            elif kind == "epoch":
                self._show(self._busy[worker][name], self._told.get(name, 0) + 1)
            else:
                self._end(self._busy[worker].pop(name), text)

    def _show(self, job: Job, epochs: int) -> None:
        """Move the bar to so many epochs of a run."""
        before = self._told.get(job.key, 0)
        self._told[job.key] = epochs
        part = job.run.cost / job.run.epochs * (epochs - before)
        self._bar.update(min(part, self._bar.total - self._bar.n))  # a sum of rounded parts

    def _retry(self, task: Task, what: str) -> None:
        """Try what a worker was at when it died again: half of it at a time, since it may have been too much
        for the memory. Only a run that was alone with it can be blamed."""
        for job in task:
            self._show(job, 0)
            self._tries.setdefault(job.key, 0)
        if len(task) > 1:
            self._queue.extendleft(reversed(halves(task)))
            return
        (job,) = task
        self._tries[job.key] += 1
        if self._tries[job.key] < self._pool.tries:
            self._queue.appendleft(task)
        else:
            self._end(job, f"its process died {self._pool.tries} times{what}; it may need more memory")

    def _end(self, job: Job, failure: str) -> None:
        self._show(job, job.run.epochs)
        if failure:
            self._report.failed[job.run] = failure
            self._place.store.fail(job.key, job.run.changed(), failure)
        else:
            self._report.done += 1
        self._claims.release(job.key)
