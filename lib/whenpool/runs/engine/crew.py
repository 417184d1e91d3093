"""Hands tasks to workers until all are done, have failed, or time is up.

Where the workers are, and how they are reached, is a *pool*'s business: processes of this machine
(`whenpool.runs.engine.local`) or a cluster (`whenpool.runs.engine.on_ray`).
"""

import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from tqdm import tqdm

from whenpool.base.errors import InputError
from whenpool.runs.engine.tasks import Claims, Job, Report, Task, halves
from whenpool.runs.run import Place, Run

_POLL = 0.5
"""Seconds between two looks at what another command is doing."""

Told = tuple[Hashable, str, str, str]
"""A worker, and the kind, key and text of its message, see `whenpool.runs.engine.tasks.Message`."""


class Pool(Protocol):
    """Workers, each of which does one task at a time."""

    tries: int
    """How often a run is begun whose worker dies."""

    def has_room(self) -> bool:
        """Whether a worker is idle, or can be had."""

    def begin(self, task: Task) -> Hashable:
        """Hand a task to a worker, and return what it goes by in messages."""

    def listen(self, seconds: float | None) -> list[Told]:
        """Wait for messages of workers, for some time at most. The last one of a worker is "idle" or
        "died"."""

    def close(self) -> None:
        """Stop all workers, whatever they are at."""


class Crew:
    """One list of tasks, and the pool that does them.

    Args:
        seconds: the time that a run is expected to take, if anything is known of it.
        until: the `time.monotonic` at which everything stops.
    """

    def __init__(
        self,
        place: Place,
        pool: Pool,
        label: str,
        seconds: Callable[[Run], float | None],
        until: float | None,
    ) -> None:
        self._place, self._pool, self._label = place, pool, label
        self._seconds, self._until = seconds, until
        self._started = time.time()
        self._claims = Claims(place.store.directory)
        self._queue: deque[Task] = deque()
        self._busy: dict[Hashable, dict[str, Job]] = {}  # what each worker has still to end
        self._elsewhere: list[Job] = []  # claimed by another command
        self._tries: dict[str, int] = {}
        self._told: dict[str, int] = {}  # epochs of a run that are in the bar
        self._report = Report()

    def work(self, tasks: Sequence[Task]) -> Report:
        """Do it, and return what came of it.

        Raises:
            InputError: when nothing can be stored any more.
        """
        self._queue.extend(tasks)
        jobs = [job for task in tasks for job in task]
        with tqdm(
            total=sum(job.run.cost for job in jobs),
            desc=f"{self._label}: 0/{len(jobs)}",
            bar_format="{desc} |{bar:20}| {percentage:3.0f}% {elapsed} elapsed, {remaining} left",
            mininterval=0.5,
        ) as self._bar:
            try:
                while (self._queue or self._busy or self._elsewhere) and not self._time_is_up():
                    self._hand_out()
                    self._listen()
                    self._look_elsewhere()
                    self._describe(len(jobs))
                open_tasks = [*self._busy.values(), *self._queue, self._elsewhere]
                self._report.left += sum(map(len, open_tasks))
                self._describe(len(jobs))
                if not self._report.left:
                    self._bar.n = self._bar.total
                self._bar.refresh()
            finally:
                self._pool.close()
                self._claims.release_all()
        return self._report

    def _describe(self, count: int) -> None:
        report = self._report
        ended = report.done + report.shared + len(report.failed)
        self._bar.set_description_str(f"{self._label}: {ended}/{count}", refresh=False)

    def _hand_out(self) -> None:
        while self._queue and self._pool.has_room():
            task = self._claimed(self._queue.popleft())
            if task:
                worker = self._pool.begin(task)
                self._busy[worker] = {job.key: job for job in task}

    def _claimed(self, task: Task) -> Task:
        """What of a task is left to do here: there is time for it, and nobody else is at it."""
        ours: list[Job] = []
        expected = 0.0
        for job in task:
            seconds = self._seconds(job.run) or 0.0
            if self._until is not None and time.monotonic() + expected + seconds > self._until:
                self._report.left += 1
            elif not self._claims.take(job.key):
                self._elsewhere.append(job)
            elif not self._ended_elsewhere(job):
                expected += seconds
                ours.append(job)
        return tuple(ours)

    def _ended_elsewhere(self, job: Job) -> bool:
        """Whether another command has stored a run that is claimed now, or has just seen it fail."""
        if self._place.store.has(job.key, job.keep_weights):
            ours = job.key in self._tries  # its worker died before it could say so
            self._report.done += ours
            self._report.shared += not ours
            self._tell(job, job.run.epochs)
        elif job.key not in self._tries and (
            message := self._place.store.failure(job.key, since=self._started)
        ):
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
        seconds = _POLL if self._elsewhere else None
        if self._until is not None:
            left = max(self._until - time.monotonic(), 0)
            seconds = min(seconds or left, left)
        for worker, kind, key, text in self._pool.listen(seconds):
            if kind == "stopped":
                raise InputError(text)
            if kind == "note":
                self._report.notes.append(text)
            elif kind == "idle" and not self._busy[worker]:
                del self._busy[worker]
            elif kind in ("idle", "died"):
                self._retry(tuple(self._busy.pop(worker).values()), text)
            elif kind == "begun":
                self._tell(self._busy[worker][key], 0)
            elif kind == "epoch":
                self._tell(self._busy[worker][key], self._told.get(key, 0) + 1)
            else:
                job = self._busy[worker].pop(key)
                self._tell(job, job.run.epochs)
                self._end(job, text if kind == "failed" else None)

    def _tell(self, job: Job, epochs: int) -> None:
        """Move the bar to so many epochs of a run."""
        before = self._told.get(job.key, 0)
        self._told[job.key] = epochs
        part = job.run.cost / job.run.epochs * (epochs - before)
        self._bar.update(min(part, self._bar.total - self._bar.n))  # a sum of rounded parts

    def _retry(self, task: Task, what: str) -> None:
        """Try what a worker was at when it died again: half of it at a time, since it may have been too
        much for the memory. Only who was alone with it can be blamed."""
        for job in task:
            self._tell(job, 0)
            self._tries.setdefault(job.key, 0)
        if len(task) > 1:
            self._queue.extendleft(reversed(halves(task)))
            return
        for job in task:
            self._tries[job.key] += 1
            if self._tries[job.key] < self._pool.tries:
                self._queue.appendleft(task)
            else:
                self._end(job, f"its process died {self._pool.tries} times{what}; out of memory?")

    def _end(self, job: Job, failure: str | None) -> None:
        if failure is None:
            self._report.done += 1
        else:
            self._report.failed[job.run] = failure
            self._place.store.fail(job.key, job.run.changed(), failure)
        self._claims.release(job.key)

    def _look_elsewhere(self) -> None:
        """Take over what another command has let go without ending it."""
        for job in list(self._elsewhere):
            if not self._claims.take(job.key):
                continue
            if not self._ended_elsewhere(job):  # its command was stopped
                self._queue.append((job,))
            self._elsewhere.remove(job)

    def _time_is_up(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until
