"""Running many runs: one loop hands tasks to processes of this machine, or to a Ray cluster, as a `Workforce`
says, until all have ended or time is up.
"""

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from whenpool.base.errors import InputError
from whenpool.base.paths import variables
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import Place, Run, key
from whenpool.runs.workforce import VARIABLES, Job, Result, Task, Workforce, do, processors, set_up

TRIES = 2  # How often a run is begun that was alone with a process that died
WAIT = 0.5  # Seconds between two looks at the tasks, the clock, and what another command is doing


@dataclass
class Report:
    """How some lists of runs ended."""

    done: int = 0  # here
    failed: dict[Run, str] = field(default_factory=dict)  # with the reason
    shared: int = 0  # done by another command on the same store
    left: int = 0  # not begun, or stopped, since time was up


def run_all(
    runs: Sequence[Run], place: Place, workforce: Workforce | None = None,
    keep_weights: Callable[[Run], bool] = lambda run: False, label: str = "runs",
    report: Report | None = None,
) -> Report:  # fmt: skip
    """Execute the runs that are not stored yet, by seed; each is stored when it ends. A worker that dies is
    replaced and its task tried again; several commands on one store share the work.

    Args:
        keep_weights: the runs whose weights are wanted; those stored without are run again.
        report: of earlier lists, which these runs are added to.

    Raises:
        InputError: for data that are missing, a store that cannot be written, or no such workforce.
        KeyboardInterrupt: on ctrl-C, after the workers were stopped; what is finished is stored.
    """
    workforce, report = workforce or Workforce.default(), report or Report()
    every = {name: Job(run, name, keep_weights(run)) for run in runs for name in [key(run, place)]}
    jobs = [job for job in every.values() if not place.store.has(job.key, job.keep_weights)]
    if not jobs:
        return report
    workforce.check()
    place.store.check_writable()
    if workforce.until is not None and time.monotonic() >= workforce.until:
        report.left += len(jobs)
        return report
    for kind in KINDS.values():
        if of_kind := [job.run for job in jobs if isinstance(job.run, kind)]:
            kind.read_ahead(of_kind, place)
    tasks = tasks_of(jobs, workforce.models_per_batch or 1)
    _Loop(place, pool_of(place, workforce, len(tasks)), report, workforce.until).work(tasks, label)
    return report


def tasks_of(jobs: Sequence[Job], models_per_batch: int) -> list[Task]:
    """Tasks, by seed. Up to ``models_per_batch`` trainings form one: they differ in pooling and the place of
    the filler alone, so their batches have the same lengths and share their padding."""
    groups: list[list[Job]] = []
    filling: dict[Run, list[Job]] = {}  # the last group of each shape
    for job in sorted(jobs, key=lambda job: job.run.rank()):
        run = shape = job.run
        if (
            isinstance(run, Training)
            and run.cell == "lstm"
            and not (run.trick or run.drop_connect or run.fresh)
        ):
            where = "standard" if run.setting == "standard" else "mid"
            shape = replace(run, pooling="max", setting=where, forget_bias="thesis", orthogonal=False)
        group = filling.get(shape)
        if group is None or len(group) >= models_per_batch:
            group = filling[shape] = []
            groups.append(group)
        group.append(job)
    return [tuple(group) for group in groups]


def pool_of(place: Place, workforce: Workforce, tasks: int) -> Any:
    """What does the tasks: it says whether it has room, takes a task, and gives its `Result`."""
    if workforce.engine == "ray":
        from whenpool.runs.cluster import RayPool

        return RayPool(place, workforce)
    devices = [workforce.device]
    if workforce.device == "cuda":  # all of this machine's
        devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    # two for each GPU: one reads texts and makes models while the other trains
    wanted = workforce.workers or (processors() if devices == ["cpu"] else 2 * len(devices))
    return LocalPool(place, workforce, min(wanted, tasks), devices)


# processes of this machine


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
    tqdm.set_lock(threading.RLock())  # one between processes would be left behind when this one ends
    set_up()


class LocalPool:
    """Up to ``size`` processes of this machine, begun as they are needed, which take turns in the devices.
    Each has an executor of its own: where several share one, the death of a process ends the tasks of all."""

    def __init__(self, place: Place, workforce: Workforce, size: int, devices: Sequence[str]) -> None:
        self._place, self._precision = place, workforce.precision
        self.size, self.devices = size, cycle(devices)
        self._idle: list[_Worker] = []
        self._busy: dict[Future[Any], _Worker] = {}
        self._works = False  # whether a process has ended a task

    def has_room(self) -> bool:
        return len(self._busy) < self.size

    def submit(self, task: Task) -> Future[Any]:
        while True:
            worker = self._idle.pop() if self._idle else _Worker(next(self.devices))
            try:
                future = worker.submit(do, task, self._place, worker.device, self._precision)
            except BrokenProcessPool:  # it has died while it was idle
                worker.stop()
                continue
            self._busy[future] = worker
            return future

    def result(self, future: Future[Any]) -> Result:
        """How a task ended. Raises `InputError` where all others would end like it."""
        worker = self._busy.pop(future)
        if isinstance(future.exception(), BrokenProcessPool):
            worker.stop()
            if worker.process.exitcode == 1 and not self._works:  # an error of Python's
                raise InputError("a process could not start; its error is above")
            return Result(death=f"exit code {worker.process.exitcode}")
        self._works = True
        self._idle.append(worker)
        result: Result = future.result()
        return result

    def close(self) -> None:
        for worker in [*self._idle, *self._busy.values()]:
            worker.stop()


class _Worker:
    """An executor of one process."""

    process: Any = None

    def __init__(self, device: str) -> None:
        self.device = device
        self._executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)

    def submit(self, *call: Any) -> Future[Any]:
        if self.process:
            return self._executor.submit(*call)
        others = multiprocessing.active_children()
        # the process does not hear ctrl-C, not even while it imports: we do
        resource_tracker.ensure_running()  # which would let it hear again where it starts
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with variables({n: os.environ.get(n, v) for n, v in VARIABLES.items()}):
                future = self._executor.submit(*call)
            (self.process,) = set(multiprocessing.active_children()) - set(others)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return future

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.join()
        self._executor.shutdown()


# who hands tasks out


class Locks:
    """The runs of a store that one command computes, so that others leave them alone."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self._held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Lock a run; returns whether it is ours now."""
        if key not in self._held:
            lock = FileLock(self._folder / f"{key}.lock")
            with suppress(Timeout):
                lock.acquire(blocking=False)
                self._held[key] = lock
        return key in self._held

    def release(self, key: str) -> None:
        """Let go of a run. The file goes first: who has opened it sees it without a name, and begins anew."""
        lock = self._held.pop(key)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()

    def release_all(self) -> None:
        for name in list(self._held):
            self.release(name)


class _Loop:
    """One list of tasks, and the pool that does them."""

    def __init__(self, place: Place, pool: Any, report: Report, until: float | None) -> None:
        self._store, self._pool, self._report = place.store, pool, report
        self._until = math.inf if until is None else until
        self._locks = Locks(place.store.directory)
        self._queue = deque[Task]()
        self._deaths = Counter[str]()  # of processes with which a run was alone

    def work(self, tasks: Sequence[Task], label: str) -> None:
        """Do all tasks. Raises `InputError` when nothing can be stored any more."""
        self._queue.extend(tasks)
        working: dict[Future[Any], Task] = {}
        jobs = [job for task in tasks for job in task]
        layout = f"{label} |{{bar:20}}| {{percentage:3.0f}}% {{elapsed}} elapsed, {{remaining}} left"
        live = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__
        pace = {"miniters": 0, "mininterval": 0.5 if live else 60.0}  # a line a minute in a file
        self._bar = tqdm(total=sum(job.run.cost for job in jobs), bar_format=layout, **pace)
        try:
            while (self._queue or working) and time.monotonic() < self._until:
                for _ in range(len(self._queue)):
                    if not self._pool.has_room():
                        break
                    if task := self._ours(self._queue.popleft()):
                        working[self._pool.submit(task)] = task
                pause = max(0.0, min(WAIT, self._until - time.monotonic()))
                for future in wait(working, pause, FIRST_COMPLETED).done:
                    self._settle(working.pop(future), self._pool.result(future))
                if self._queue and not working:  # other commands are at the rest
                    time.sleep(pause)
                self._bar.update(0)  # the time goes on
            self._report.left += sum(map(len, [*working.values(), *self._queue]))
        finally:
            self._bar.close()
            self._pool.close()
            self._locks.release_all()

    def _ours(self, task: Task) -> Task:
        """The part of a task that nobody else does or has done; what others do waits at the end."""
        locked = [job for job in task if self._locks.take(job.key)]
        self._queue.extend((job,) for job in task if job not in locked)
        done = [job for job in locked if self._store.has(job.key, job.keep_weights)]
        self._report.shared += len(done)
        for job in done:
            self._end(job)
        return tuple(job for job in locked if job not in done)

    def _settle(self, task: Task, result: Result) -> None:
        """Count the runs of a task that has ended. What is left of it is tried again, half of it at a time,
        since it may have been too much for the memory; a run is blamed when it was alone each time."""
        alone, rest = len(task) == 1, []
        for job in task:
            if job.key in result.failures:
                self._fail(job, result.failures[job.key])
            elif (alone and result.death is None) or self._store.has(job.key, job.keep_weights):
                self._report.done += 1
                self._end(job)
            else:
                rest.append(job)
        self._deaths[task[0].key] += alone and bool(result.death)
        if rest and self._deaths[task[0].key] >= TRIES:
            times = f"its process died {TRIES} times ({result.death})"
            self._fail(task[0], f"{times}; it may need more memory")
            return
        middle = (len(rest) + 1) // 2
        self._queue.extendleft(tuple(half) for half in (rest[middle:], rest[:middle]) if half)

    def _fail(self, job: Job, message: str) -> None:
        self._report.failed[job.run] = message
        self._end(job)

    def _end(self, job: Job) -> None:
        self._bar.update(job.run.cost)
        self._locks.release(job.key)
