"""What an engine has to do, cut into tasks, and what came of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout

from whenpool.base.errors import InputError, StorageError
from whenpool.runs.filter import informative
from whenpool.runs.kinds.training import Training, execute_together
from whenpool.runs.run import Place, Run, key


@dataclass(frozen=True)
class Job:
    """A run that is not stored yet."""

    run: Run
    key: str
    keep_weights: bool = False


Task = tuple[Job, ...]
"""What one worker does in one go: a run, or several trainings together."""


@dataclass
class Report:
    """What came of a list of runs."""

    done: int = 0
    failed: dict[Run, str] = field(default_factory=dict)
    shared: int = 0
    """Done meanwhile by another command on the same store."""
    left: int = 0
    """Not begun, or stopped, since time was up."""
    notes: list[str] = field(default_factory=list)
    """What a reader of results should know of the corpora and of how they were made, a sentence each."""

    def add(self, other: "Report") -> None:
        """Take over what came of other runs."""
        self.done += other.done
        self.shared += other.shared
        self.left += other.left
        self.failed.update(other.failed)
        self.notes = list(dict.fromkeys([*self.notes, *other.notes]))


def outstanding(runs: Iterable[Run], place: Place, keep_weights: Callable[[Run], bool]) -> list[Job]:
    """The runs that are not stored, or whose weights are wanted and not here; none twice."""
    jobs = {}
    for run in runs:
        job = Job(run, key(run, place), keep_weights(run))
        if not place.store.has(job.key, job.keep_weights):
            jobs[job.key] = job
    return list(jobs.values())


def tasks_of(jobs: Sequence[Job], together: int) -> list[Task]:
    """Most informative first, so that one can stop at any time; trainings that may be done together
    stand in one task, as many as are wanted.

    Where several models are trained together, a run that is less informative goes with the first that
    is of its cell: seeds and poolings of one corpus, size and setting.
    """
    groups: list[list[Job]] = []
    open_groups: dict[Training | None, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: informative(job.run)):
        cell = _cell(job.run)
        group = open_groups.get(cell)
        if cell is None or group is None or len(group) >= together:
            group = open_groups[cell] = []
            groups.append(group)
        group.append(job)
    return [tuple(group) for group in groups]


def halves(task: Task) -> list[Task]:
    """A task cut in two, or as it is where that is not possible: what is tried when it was too much."""
    middle = (len(task) + 1) // 2
    return [part for part in (task[:middle], task[middle:]) if part]


def _cell(run: Run) -> Training | None:
    """What trainings done together have in common, or None for runs that are done alone."""
    if not isinstance(run, Training) or run.trick or run.cell != "lstm" or run.drop_connect:
        return None
    return replace(run, pooling="max", seed=0, forget_bias=Training.forget_bias, orthogonal=False)


class Claims:
    """The claims of one command on a store."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self._held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Claim a run; whether that was possible, or it was ours already."""
        if key in self._held:
            return True
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder / f"{key}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return False
        self._held[key] = lock
        return True

    def release(self, key: str) -> None:
        """Let go of a run that is stored or has failed.

        The file goes first: who opened it before and gets the lock now looks into the store next, and
        finds what was done.
        """
        lock = self._held.pop(key)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    def release_all(self) -> None:
        """Let go of what was not ended. The files stay: of two that wait for one, each could otherwise
        get a lock on a file of its own."""
        while self._held:
            self._held.popitem()[1].release()


class Message(NamedTuple):
    """What is told of a run: that it was begun, an epoch of it ended, it is "done", it "failed"; or of
    all: a "note", that nothing can be stored ("stopped"), that the worker is "idle" or has "died"."""

    kind: str
    key: str = ""
    text: str = ""


def do(task: Task, place: Place, device: str, say: Callable[[Message], None]) -> None:
    """Execute and store the runs of a task, and say how it goes.

    Several that are too much for the memory of a GPU are tried again, half of them at a time.

    Raises:
        DeviceLostError: when the GPU can no longer be used by this process.
    """
    for job in task:
        say(Message("begun", job.key))
    open_jobs = {job.key: job for job in task}

    def ended(job: Job, kind: str, text: str = "") -> None:
        del open_jobs[job.key]
        say(Message(kind, job.key, text))

    again: list[Task] = []
    try:
        if len(task) == 1:
            job = task[0]
            job.run.execute(place, device, job.keep_weights, lambda: say(Message("epoch", job.key)))
            ended(job, "done")
        else:
            runs: Any = [job.run for job in task]
            kept = [job.keep_weights for job in task]

            def on_end(number: int, failure: str) -> None:
                ended(task[number], "failed" if failure else "done", failure)

            def on_epoch(number: int) -> None:
                say(Message("epoch", task[number].key))

            execute_together(runs, place, device, kept, on_epoch, on_end)
    except StorageError as error:
        say(Message("stopped", text=str(error)))
    except Exception as error:  # a run that fails must not stop the others
        if _is_broken(error):
            raise DeviceLostError(str(error)) from None
        rest = tuple(open_jobs.values())
        if _is_out_of_memory(error) and len(task) > 1:
            many = f"{len(task)} models at once were too much for the memory of the GPU"
            say(Message("note", text=f"{many}; half as many were trained at a time instead."))
            again = halves(rest) if len(rest) == len(task) else [rest]
        elif _is_out_of_memory(error):
            told = "the GPU has too little memory for it; free some, or use --device cpu"
            ended(task[0], "failed", told)
        elif len(task) > 1:  # each says what is wrong with itself
            again = [(job,) for job in rest]
        else:
            told = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            ended(task[0], "failed", " ".join(told.split()))
    # not while the error is handled: it holds on to the models that were too many
    if again and torch.cuda.is_available():
        torch.cuda.empty_cache()
    for part in again:
        do(part, place, device, say)


class DeviceLostError(RuntimeError):
    """A GPU that computes nothing more for this process: another one may try again."""


def _is_out_of_memory(error: Exception) -> bool:
    """cuBLAS and cuDNN, and a card that others fill as well, say so in words of their own."""
    told = ("CUDA error: out of memory", "ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in told)


def _is_broken(error: Exception) -> bool:
    kind = getattr(torch, "AcceleratorError", ())  # torch has it since 2.8
    return isinstance(error, kind) and not _is_out_of_memory(error)
