"""What an engine has to do, cut into tasks, and what came of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from whenpool.runs.priority import informative
from whenpool.runs.training_run import Place, Run, Training, key


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
    open_groups: dict[Training, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: informative(job.run)):
        cell = _cell(job.run) if together > 1 else None
        if cell is None:
            groups.append([job])
            continue
        group = open_groups.get(cell)
        if group is None or len(group) >= together:
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
