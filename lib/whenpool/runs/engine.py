"""Running many runs: one loop hands tasks to processes of this machine, or to a Ray cluster, as a `Workforce`
says, until all have ended or time is up.
"""

import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from whenpool.base.errors import InputError, StorageError, check_known
from whenpool.base.memory import give_back_freed_memory, keep_freed_memory
from whenpool.base.paths import variables
from whenpool.models.precision import PRECISIONS, precision, processor_has_bfloat16
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.training import Training, execute_batched
from whenpool.runs.run import Place, Run, commit, key

TRIES = 2  # How often a run is begun that was alone with a process that died
WAIT = 0.5  # Seconds between two looks at the tasks, the clock, and what another command is doing
WORKER_VARIABLES = {  # where the user has not set them
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS gives the same bits each time; read when torch is loaded
    # no batch is as long as the last one: pieces of a GPU's memory that can grow are used again
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}


@dataclass(frozen=True)
class Workforce:
    """What executes runs. It changes no run, and is part of the provenance of each result."""

    engine: str = "local"  # processes on this machine, or "ray", a cluster
    address: str | None = None  # of the Ray cluster; None: this machine's, or one of it alone
    workers: int | None = None  # None: one a processor, two a GPU; on a cluster all that fit
    device: str = "cpu"  # or "cuda"
    models_per_batch: int | None = None  # of one shape, trained as one batch, at most; None: 1
    precision: str = "float32"  # a name in `whenpool.models.precision.PRECISIONS`
    until: float | None = None  # `time.monotonic` when all stops; what would end later is not begun

    @classmethod
    def default(cls) -> "Workforce":
        """The one that ``WHENPOOL_ENGINE`` and so on name, for notebooks, which have no options."""
        given: dict[str, Any] = {}
        for name in ("engine", "address", "workers", "device", "models_per_batch", "precision"):
            if value := os.environ.get(variable := f"WHENPOOL_{name.upper()}"):
                count = name in ("workers", "models_per_batch")
                if count and not (value.isdecimal() and int(value) >= 1):
                    raise InputError(f"{variable} must be a whole number from 1, not {value!r}")
                given[name] = int(value) if count else value
        return cls(**given)

    def variables(self) -> dict[str, str]:
        """The environment that `default` reads, for the processes that are started."""
        given = {name: value for name, value in asdict(self).items() if name != "until"}
        return {f"WHENPOOL_{name.upper()}": str(v) for name, v in given.items() if v is not None}

    def check(self, here: bool = True) -> None:
        """Raises `InputError` for an unknown engine, device or precision, or for a GPU or bfloat16 that is
        needed ``here`` and is not."""
        check_known("engine", self.engine, ("local", "ray"))
        if self.address and self.engine != "ray":
            raise InputError("only a Ray cluster has an address; add --engine ray or leave it out")
        here = here and self.engine == "local"
        check_device(self.device, here)
        check_known("precision", self.precision, PRECISIONS)
        rounds = self.precision == "bfloat16" and self.device == "cpu"
        if here and rounds and not processor_has_bfloat16():
            raise InputError("this processor has no bfloat16; use --precision float32")


def check_device(device: str, here: bool = True) -> None:
    """Raises `InputError` for an unknown device, or for CUDA that is needed ``here`` and is not."""
    if re.fullmatch(r"cuda(:\d+)?", device):
        if here and not torch.cuda.is_available():
            raise InputError("device cuda was asked for, but torch sees no GPU; use --device cpu")
    elif device != "cpu":
        raise InputError(f"device {device!r} is unknown; choose cpu or cuda")


def processors() -> int:
    """How many processors this process may use, which a container can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Report:
    """How some lists of runs ended."""

    done: int = 0  # here
    failed: dict[Run, str] = field(default_factory=dict)  # with the reason
    shared: int = 0  # done by another command on the same store
    left: int = 0  # not begun, or stopped, since time was up
    notes: list[str] = field(default_factory=list)  # sentences on the corpora, and how results were made


class Job(NamedTuple):
    """A run that is not stored yet."""

    run: Run
    key: str
    keep_weights: bool = False


Task = tuple[Job, ...]  # What one worker does in one go: a run, or several trainings together


class Result(NamedTuple):
    """How a task ended, beside the runs that it has stored."""

    failures: Mapping[str, str] = {}  # why runs have failed, by key
    note: str = ""  # a sentence for the report
    death: str | None = None  # what became of its process, "" where that says nothing of the runs
    stored: tuple[tuple[str, bytes, bytes | None], ...] = ()  # elsewhere: keys, files, weights if kept


def run_all(
    runs: Sequence[Run], place: Place, workforce: Workforce | None = None, *,
    keep_weights: Callable[[Run], bool] = lambda run: False, label: str = "runs",
    seconds: Callable[[Run], float | None] = lambda run: None, report: Report | None = None,
) -> Report:  # fmt: skip
    """Execute the runs that are not stored yet, most informative first; each is stored when its task ends. A
    worker that dies is replaced and its task tried again; several commands on one store share the work.

    Args:
        keep_weights: the runs whose weights are wanted; those stored without are run again.
        seconds: that a run is expected to take, None if nothing is known; for a workforce with a deadline.
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
    here = workforce.device if workforce.engine == "local" else "cpu"  # a cluster's GPUs are elsewhere
    for kind in KINDS.values():
        if of_kind := [job.run for job in jobs if isinstance(job.run, kind)]:
            report.notes += kind.read_ahead(of_kind, place, here)
    tasks = tasks_of(jobs, workforce.models_per_batch or 1)
    pool = _pool(place, workforce, len(tasks))
    _Loop(place, pool, report, seconds, workforce.until).work(tasks, label)
    report.notes = list(dict.fromkeys(report.notes))
    return report


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


def _pool(place: Place, workforce: Workforce, tasks: int) -> Any:
    if workforce.engine == "ray":
        from whenpool.runs.cluster import RayPool

        return RayPool(place, workforce)
    devices = [workforce.device]
    if workforce.device == "cuda":  # all of this machine's
        devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    # two for each GPU: one reads texts and makes models while the other trains
    wanted = workforce.workers or (processors() if devices == ["cpu"] else 2 * len(devices))
    return LocalPool(place, workforce, min(wanted, tasks), devices)


# what a worker does


def do(task: Task, place: Place, device: str, advance: Callable[[float], None]) -> Result:
    """Execute and store the runs of a task; ``advance`` is called with the cost of each epoch that ends."""
    failures: dict[str, str] = {}
    note = ""

    def epoch_of(job: Job) -> None:
        advance(job.run.cost / job.run.epochs)

    def end(number: int, failure: str) -> None:
        if failure:
            failures[task[number].key] = failure

    try:
        if len(task) == 1:
            job = task[0]
            job.run.execute(place, device, job.keep_weights, lambda: epoch_of(job))
        else:
            runs: Any = [job.run for job in task]
            kept = [job.keep_weights for job in task]
            execute_batched(runs, place, device, kept, lambda number: epoch_of(task[number]), end)
    except StorageError:  # no other run could be stored
        raise
    except Exception as error:  # a run that fails must not stop the others
        # cuBLAS and cuDNN, and a card that others fill as well, report a full memory in other ways
        signs = ("CUDA error: out of memory", "ALLOC_FAILED")
        full = isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in signs)
        # torch has the other error since 2.8: the GPU computes nothing more for this process
        if not full and isinstance(error, getattr(torch, "AcceleratorError", ())):
            os._exit(1)
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        if full and len(task) > 1:
            note = f"{len(task)} models together did not fit into the GPU's memory; "
            note += "half as many were trained together instead."
        elif full:
            end(0, "the GPU has too little memory; free some, or use --device cpu")
        elif len(task) == 1:  # of several each is to report its fault by itself
            end(0, " ".join(reason.split()))
    give_back_freed_memory()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return Result(failures, note)


class LocalPool:
    """Up to ``size`` processes of this machine, begun as they are needed, which take turns in the devices.
    Each computes with one thread, so that a result does not depend on how many there are. The loop asks a
    pool whether it has room, submits tasks, and asks for their results and for the progress of the others."""

    def __init__(self, place: Place, workforce: Workforce, size: int, devices: Sequence[str]) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker loads the script
            raise InputError('a script must start runs under `if __name__ == "__main__":`')
        self._place, self._workforce, self.size = place, workforce, size
        self.devices = cycle(devices)
        self._workers: list[_Worker] = []
        self._busy: dict[Future[Any], _Worker] = {}

    def has_room(self) -> bool:
        return len(self._busy) < self.size

    def submit(self, task: Task) -> Future[Any]:
        while True:
            idle = [worker for worker in self._workers if worker not in self._busy.values()]
            if not idle:
                idle = [_Worker(self._place, replace(self._workforce, device=next(self.devices)))]
                self._workers += idle
            try:
                future = idle[0].submit(task)
            except BrokenProcessPool:  # it has died while it was idle
                self._stop(idle[0])
                continue
            self._busy[future] = idle[0]
            return future

    def result(self, future: Future[Any]) -> Result:
        """How a task ended. Raises `InputError` where all others would end like it."""
        worker = self._busy.pop(future)
        if isinstance(future.exception(), BrokenProcessPool):
            self._stop(worker)
            code, has_begun = worker.process.exitcode, worker.progress.value >= 0
            if code == 1 and not has_begun:  # an error of Python's, which others would have, too
                raise InputError("a process could not start; its error is above")
            return Result(death=f"exit code {code}")
        result: Result = future.result()
        return result

    def progress(self) -> float:
        """The cost of what is done of the tasks that have not ended."""
        return sum(max(worker.progress.value, 0.0) for worker in self._busy.values())

    def close(self) -> None:
        for worker in list(self._workers):
            self._stop(worker)

    def _stop(self, worker: "_Worker") -> None:
        worker.stop()
        self._workers.remove(worker)


class _Worker:
    """An executor of one process: where several share one, the death of a process ends the tasks of all."""

    process: Any = None

    def __init__(self, place: Place, workforce: Workforce) -> None:
        context = multiprocessing.get_context("spawn")
        self.progress = context.Value("d", -1.0, lock=False)  # of its task; below 0: it has begun none
        given = place, workforce, self.progress
        self._executor = ProcessPoolExecutor(1, context, _begin, given)

    def submit(self, task: Task) -> Future[Any]:
        if self.process:
            return self._executor.submit(_do, task)
        others = multiprocessing.active_children()
        given = {name: os.environ.get(name, value) for name, value in WORKER_VARIABLES.items()}
        # the process does not hear ctrl-C, not even while it imports: we do
        resource_tracker.ensure_running()  # which would let it hear again where it starts
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with variables(given):
                future = self._executor.submit(_do, task)
            (self.process,) = set(multiprocessing.active_children()) - set(others)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return future

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.join()
        self._executor.shutdown()


_given: tuple[Place, Workforce, Any]  # In a worker: where and how it works, and its progress


def _begin(*given: Any) -> None:
    global _given
    _given = given
    given[-1].value = 0.0
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
    tqdm.set_lock(threading.RLock())  # one between processes would be left behind when this one ends
    prepare_process()


def prepare_process() -> None:
    """What every process does before its first task."""
    torch.set_num_threads(1)
    keep_freed_memory()
    commit()  # of the code that this process has loaded, asked for before anything can change


def _do(task: Task) -> Result:
    place, workforce, progress = _given
    progress.value = 0.0

    def advance(cost: float) -> None:
        progress.value += cost

    with precision(workforce.precision):
        return do(task, place, workforce.device, advance)


# who hands tasks out


class Locks:
    """The runs of a store that one command computes, so that others leave them alone."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self._held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Lock a run; returns whether it is ours now."""
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


class _Loop:
    """One list of tasks, and the pool that does them."""

    def __init__(
        self, place: Place, pool: Any, report: Report, seconds: Any, until: float | None
    ) -> None:
        self._place, self._pool, self._report = place, pool, report
        self._seconds, self._until = seconds, math.inf if until is None else until
        self._started = time.time()
        self._locks = Locks(place.store.directory)
        self._queue = deque[Task]()
        self._elsewhere: list[Job] = []  # locked by another command
        self._deaths = Counter[str]()  # of processes with which a run was alone
        self._ended, self._cost = 0, 0.0  # how many runs have ended, and their cost

    def work(self, tasks: Sequence[Task], label: str) -> None:
        """Do all tasks. Raises `InputError` when nothing can be stored any more."""
        self._queue.extend(tasks)
        jobs = [job for task in tasks for job in task]
        working: dict[Future[Any], Task] = {}
        in_place = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__
        with tqdm(
            desc=f"{label}: 0/{len(jobs)}",
            total=sum(job.run.cost for job in jobs),
            bar_format="{desc} |{bar:20}| {percentage:3.0f}% {elapsed} elapsed, {remaining} left",
            leave=in_place,
            miniters=0,  # time alone decides when a state is shown
            mininterval=0.5 if in_place else 60.0,
        ) as bar:
            try:
                while (self._queue or working or self._elsewhere) and time.monotonic() < self._until:
                    while self._queue and self._pool.has_room():
                        if task := self._locked(self._queue.popleft()):
                            working[self._pool.submit(task)] = task
                    pause = max(0.0, min(WAIT, self._until - time.monotonic()))
                    for future in wait(working, pause, FIRST_COMPLETED).done:
                        self._settle(working.pop(future), self._pool.result(future))
                    if not working and self._elsewhere:
                        time.sleep(pause)
                    for job in list(self._elsewhere):  # what another command has let go
                        if self._locks.take(job.key):
                            self._elsewhere.remove(job)
                            if not self._ended_elsewhere(job):  # it was stopped
                                self._queue.append((job,))
                    bar.n = min(self._cost + self._pool.progress(), bar.total)
                    bar.set_description_str(f"{label}: {self._ended}/{len(jobs)}", refresh=False)
                    bar.update(0)
                self._report.left += sum(map(len, [*working.values(), *self._queue, self._elsewhere]))
            finally:
                self._pool.close()
                self._locks.release_all()

    def _locked(self, task: Task) -> Task:
        """The part of a task that there is time for, and that nobody else does."""
        ours: list[Job] = []
        expected = 0.0
        for job in task:
            seconds = self._seconds(job.run) or 0.0
            if time.monotonic() + expected + seconds > self._until:
                self._report.left += 1
            elif not self._locks.take(job.key):
                self._elsewhere.append(job)
            elif not self._ended_elsewhere(job):
                expected += seconds
                ours.append(job)
        return tuple(ours)

    def _ended_elsewhere(self, job: Job) -> bool:
        """Whether another command has stored a run that is locked now, or seen it fail."""
        store = self._place.store
        if store.has(job.key, job.keep_weights):
            self._report.shared += 1
        elif message := store.failure(job.key, since=self._started):
            self._report.failed[job.run] = message
        else:
            return False
        self._end(job)
        return True

    def _settle(self, task: Task, result: Result) -> None:
        """Count the runs of a task that has ended. What is left of it is tried again, half of it at a time,
        since it may have been too much for the memory; a run is blamed when it was alone each time."""
        if result.note:
            self._report.notes.append(result.note)
        alone, rest = len(task) == 1, []
        for job in task:
            if job.key in result.failures:
                self._fail(job, result.failures[job.key])
            elif (alone and result.death is None) or self._place.store.has(job.key, job.keep_weights):
                self._report.done += 1
                self._end(job)
            else:
                rest.append(job)
        self._deaths[task[0].key] += alone and bool(result.death)
        if rest and self._deaths[task[0].key] >= TRIES:
            self._fail(
                task[0], f"its process died {TRIES} times ({result.death}); it may need more memory"
            )
            return
        middle = (len(rest) + 1) // 2
        self._queue.extendleft(tuple(half) for half in (rest[middle:], rest[:middle]) if half)

    def _fail(self, job: Job, message: str) -> None:
        self._report.failed[job.run] = message
        self._place.store.fail(job.key, job.run.changed(), message)
        self._end(job)

    def _end(self, job: Job) -> None:
        self._ended += 1
        self._cost += job.run.cost
        self._locks.release(job.key)
