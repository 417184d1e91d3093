"""Running many runs. One loop, `work`, takes the runs of a list that nobody has claimed, does them
and stores them.

On one machine several processes go through this loop side by side on one store, whose locks say
what is claimed. On a Ray cluster threads of this process do, see `paper.runs.cluster`. `run_all`
begins these workers and hears what they tell.
"""

import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from paper.corpora.dataset import encode
from paper.memory import give_back_freed_memory, keep_freed_memory
from paper.runs.kinds.training import Training, execute_batched
from paper.runs.run import Place, Run, commit, key
from paper.runs.store import Store
from whenpool.base.devices import check_device, processors
from whenpool.base.errors import InputError, StorageError, check, check_known
from whenpool.models.batched_lstm import models_that_fill
from whenpool.models.precision import PRECISIONS, precision, processor_has_bfloat16

TRIES = 2  # How often a run is begun that was alone with a worker that died
EARLY = 10  # Processes that may die one after another before any has begun a run
WAIT = 0.5  # Seconds between two looks at the clock, and at what others have claimed

VARIABLES = {  # where the user has not set them
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS gives the same bits each time
    # no batch is as long as the last one: pieces of a GPU's memory that can grow are used again
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}
WORKER = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the command that began this process
from paper.runs.engine import begin_work
begin_work()
"""


@dataclass(frozen=True)
class Workforce:
    """What executes runs. It changes no run, and is part of the provenance of each result."""

    engine: str = "local"  # processes on this machine, or "ray", a cluster
    address: str | None = None  # of the Ray cluster; None: this machine's
    workers: int | None = None  # None: one a processor, two a GPU; on a cluster all that fit
    device: str = "cpu"  # or "cuda"
    # of one shape, at once, at most; None: what fills a GPU, or 1
    models_per_batch: int | None = None
    precision: str = "float32"  # a name in `whenpool.models.precision.PRECISIONS`
    until: float | None = None  # `time.monotonic` when all stops

    @classmethod
    def default(cls) -> "Workforce":
        """The one that ``WHENPOOL_ENGINE`` and so on name, for notebooks, which have no options."""
        options: dict[str, Any] = {}
        for name in ("engine", "address", "workers", "device", "models_per_batch", "precision"):
            variable = f"WHENPOOL_{name.upper()}"
            if value := os.environ.get(variable):
                options[name] = value
                if name in ("workers", "models_per_batch"):
                    options[name] = int(value) if value.isdecimal() else 0
                    check(options[name], f"{variable} must be a whole number from 1, not {value!r}")
        return cls(**options)

    def check(self, here: bool = True) -> None:
        """Raises `InputError` for an unknown engine, device or precision, or for a GPU or bfloat16
        that is needed ``here`` and is not."""
        check_known("engine", self.engine, ("local", "ray"))
        unused = self.address and self.engine != "ray"
        check(not unused, "only a Ray cluster has an address; add --engine ray or leave it out")
        check_known("precision", self.precision, PRECISIONS)
        here = here and self.engine == "local"
        check_device(self.device, here)
        lacks = here and (self.precision, self.device) == ("bfloat16", "cpu")
        advice = "this processor has no bfloat16; use --precision float32"
        check(not lacks or processor_has_bfloat16(), advice)

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")

    def devices_and_workers(self) -> tuple[list[str], int]:
        """The devices of this machine that it has, of "cuda" all GPUs, and how many processes work
        on them. At a GPU there are two: one reads texts and makes models while the other trains."""
        devices = [self.device]
        if self.device == "cuda":
            devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        return devices, self.workers or (2 * len(devices) if self.on_gpu else processors())

    def models_at_once(self) -> int:
        """How many models a worker trains together: as many as are asked for, or those that fill a
        GPU together with its other processes. With more, programs of one would wait for those of
        another."""
        fills = self.on_gpu and self.engine == "local"
        if self.models_per_batch or not fills:
            return self.models_per_batch or 1
        devices, workers = self.devices_and_workers()
        return max(1, models_that_fill(self.device) // max(1, workers // len(devices)))


class Job(NamedTuple):
    """A run that is not stored yet."""

    run: Run
    key: str
    keep_weights: bool = False


Task = tuple[Job, ...]  # What a worker does in one go: a run, or several trainings together


class Change(NamedTuple):
    """What a worker is given: ``tasks`` that come first, and runs that it leaves out besides."""

    tasks: Sequence[Task]
    left_out: Collection[str] = ()  # keys

    def of(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks of a worker after this change."""
        parts = (tuple(job for job in task if job.key not in self.left_out) for task in tasks)
        return [*self.tasks, *filter(None, parts)]


class Told(NamedTuple):
    """What a worker tells."""

    begun: tuple[str, ...] = ()  # keys of the task that it does now
    ended: Mapping[str, str] = {}  # keys of runs that it has done or found stored: why they failed


@dataclass
class Report:
    """How some lists of runs ended."""

    done: int = 0  # here
    failed: dict[Run, str] = field(default_factory=dict)  # with the reason
    shared: int = 0  # done by another command on the same store
    left: int = 0  # not begun, or stopped, since time was up


def run_all(
    runs: Sequence[Run],
    place: Place,
    workforce: Workforce | None = None,
    keep_weights: Callable[[Run], bool] = lambda run: False,
    label: str = "runs",
    report: Report | None = None,
) -> Report:
    """Execute the runs that are not stored yet, by seed; each is stored when it ends. A worker that
    dies is replaced and its task tried again; several commands on one store share the work.

    Args:
        keep_weights: the runs whose weights are wanted; those stored without are run again.
        report: of earlier lists, which these runs are added to.

    Raises:
        InputError: for data that are missing, a store that cannot be written, or no such workforce.
        KeyboardInterrupt: on ctrl-C, after the workers were stopped; what is finished is stored.
    """
    workforce, report = workforce or Workforce.default(), report or Report()
    asked = [Job(run, key(run, place), keep_weights(run)) for run in dict.fromkeys(runs)]
    jobs = [job for job in asked if not place.store.has(job.key, job.keep_weights)]
    if not jobs:
        return report
    workforce.check()
    place.store.check_writable()
    until = math.inf if workforce.until is None else workforce.until
    if time.monotonic() >= until:
        report.left += len(jobs)
        return report
    read_once([job.run for job in jobs], place)
    tasks = tasks_of(jobs, workforce.models_at_once(), workforce.on_gpu)
    crew = crew_of(place, workforce)
    try:
        _Watch(tasks, place.store, crew, report, label).follow(until)
    finally:
        crew.close()
    return report


def read_once(runs: Sequence[Run], place: Place) -> None:
    """Read what several runs share, before each worker would."""
    trainings = [run.training for run in runs if run.training]
    for name in {getattr(run.about, "vectors", None) for run in runs}:
        place.vectors(name)
    for source, length in {(place.source(run), run.length) for run in trainings}:
        encode(source, length, place.cache)


# what is done together


def tasks_of(jobs: Sequence[Job], size: int, on_gpu: bool = False) -> list[Task]:
    """Tasks, by seed. Up to ``size`` trainings form one: they differ in pooling, start and the
    place of the filler alone, so that their batches have the same lengths and share their padding.
    On a GPU, where a recurrence ends with its own texts, plain texts go with them, since their
    batches have the same order, and so do other seeds where one does not fill it."""
    tasks: list[Task] = [(job,) for job in sorted(jobs, key=lambda job: job.run.rank())]
    tasks = _grouped(tasks, size, lambda run: _shape(run, on_gpu))
    if on_gpu:
        tasks = _grouped(tasks, size, lambda run: _shape(run, on_gpu, any_seed=True))
    return tasks


def _grouped(tasks: Sequence[Task], size: int, shape: Callable[[Run], Run]) -> list[Task]:
    """Tasks of one shape put together, up to ``size`` runs each."""
    groups: list[list[Job]] = []
    last: dict[Run, list[Job]] = {}  # the last group of each shape
    for task in tasks:
        group = last.get(alike := shape(task[0].run))
        if group is None or len(group) + len(task) > size:
            groups.append(group := [])
            last[alike] = group
        group += task
    return [tuple(group) for group in groups]


def _shape(run: Run, on_gpu: bool, any_seed: bool = False) -> Run:
    """What the trainings of one task have in common; any other run as it is."""
    if not isinstance(run, Training) or run.cell != "lstm" or not run.masked:
        return run
    if run.trick or run.drop_connect or run.fresh:
        return run
    where = "standard" if run.setting == "standard" and not on_gpu else "mid"
    seed = 0 if any_seed else run.seed
    start: dict[str, Any] = {"forget_bias": "thesis", "input_bias": None, "chrono_words": 400}
    return replace(run, pooling="max", setting=where, seed=seed, orthogonal=False, **start)


def _halves(jobs: Sequence[Job]) -> list[Task]:
    """Some runs in two tasks, since they may have been too much for the memory."""
    middle = (len(jobs) + 1) // 2
    return [tuple(half) for half in (jobs[:middle], jobs[middle:]) if half]


# the loop


class Locks:
    """The runs of a store that one worker computes, so that others leave them alone."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self._choosing = FileLock(store / ".claims")  # no two workers share out a task
        self.held: dict[str, FileLock] = {}

    def take(self, task: Task) -> Task:
        """Lock what nobody else has locked of a task; returns what is ours now."""
        with self._choosing:
            return tuple(job for job in task if self._take(job.key))

    def _take(self, key: str) -> bool:
        lock = FileLock(self._folder / f"{key}.lock")
        with suppress(Timeout):
            lock.acquire(blocking=False)
            self.held[key] = lock
        return key in self.held

    def remove_left(self, jobs: Iterable[Job]) -> None:
        """Remove what workers that were stopped have left of their locks."""
        left = (job for job in jobs if (self._folder / f"{job.key}.lock").exists())
        self.release(*(job.key for job in self.take(tuple(left))))

    def release(self, *keys: str) -> None:
        """Let go of some runs. The file goes first: who has opened it sees it without a name, and
        begins anew."""
        for lock in map(self.held.pop, keys):
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


def work(
    news: "queue.SimpleQueue[Change | None]",
    place: Place,
    execute: Callable[[Task], Mapping[str, str]],
    tell: Callable[[Any], None],
) -> None:
    """Do and store what nobody else has claimed of the tasks in the ``news``, until these have a
    None. ``execute`` does a task and returns why runs of it have failed, by key; those that neither
    failed nor are stored are tried again, half of them at a time. ``tell`` is called with each
    `Told`."""
    locks, tasks = Locks(place.store.directory), list[Task]()

    def is_stored(job: Job) -> bool:
        return place.store.has(job.key, job.keep_weights)

    def end(reasons: Mapping[str, str]) -> None:
        if reasons:
            tell(Told(ended=reasons))
        locks.release(*reasons)

    try:
        while True:
            while not news.empty():
                change = news.get()
                if change is None:
                    return
                tasks = change.of(tasks)
            claimed = next(filter(None, map(locks.take, tasks)), ())
            tasks = Change((), locks.held).of(tasks)
            end({job.key: "" for job in claimed if is_stored(job)})
            parts = deque([tuple(job for job in claimed if job.key in locks.held)])
            while parts and (part := parts.popleft()):
                tell(Told(begun=tuple(job.key for job in part)))
                failures, ended = execute(part), {}
                for job in part:
                    if len(part) == 1 or job.key in failures or is_stored(job):
                        ended[job.key] = failures.get(job.key, "")
                end(ended)
                rest = [job for job in part if job.key in locks.held]
                parts.extendleft(reversed(_halves(rest)))
            if not claimed:  # others are at the rest
                time.sleep(WAIT)
    finally:
        locks.release(*locks.held)


def do(task: Task, place: Place, device: str, precision_name: str = "float32") -> dict[str, str]:
    """Execute and store the runs of a task; returns why some have failed, by key. Raises
    `StorageError` when no other run could be stored either."""
    failures: dict[str, str] = {}

    def end(number: int, failure: str) -> None:
        failures.update({task[number].key: failure} if failure else {})

    try:
        # what is computed, which provenance says: a processor has no TF32
        less = task[0].run.recurrent and (device.startswith("cuda") or precision_name == "bfloat16")
        with precision(precision_name if less else "float32"):
            if len(task) == 1:
                task[0].run.execute(place, device, task[0].keep_weights)
            else:
                runs: Any = [job.run for job in task]
                execute_batched(runs, place, device, [job.keep_weights for job in task], end)
    except StorageError:
        raise
    except Exception as error:  # a run that fails must not stop the others
        # torch has this error since 2.8: the GPU computes nothing more for this process
        if isinstance(error, getattr(torch, "AcceleratorError", ())):
            os._exit(70)
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        if isinstance(error, torch.OutOfMemoryError):
            reason = "the GPU has too little memory; free some, or use --device cpu"
        if len(task) == 1:
            end(0, " ".join(reason.split()))
    give_back_freed_memory()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return failures


def set_up() -> None:
    """What every process does before its first task."""
    torch.set_num_threads(1)  # so that a result does not depend on how many workers there are
    keep_freed_memory()
    commit()  # of the code that this process has loaded, asked for before anything can change


class _Watch:
    """Begins the workers of a crew, hears what they tell, and replaces those that die, until all
    runs of some tasks have ended."""

    def __init__(
        self, tasks: Sequence[Task], store: Store, crew: Any, report: Report, label: str
    ) -> None:
        self._tasks, self._store, self._crew, self._report = [*tasks], store, crew, report
        self._open = {job.key: job for task in tasks for job in task}  # what has not ended
        self._workers: dict[Any, tuple[str, ...]] = {}  # and the keys of what each does
        self._deaths = Counter[str]()  # of workers with which a run was alone
        self._early = 0  # workers that have died one after another before they began a run
        self._begun, self._done = set[str](), set[str]()  # keys, of our own workers and of all
        live = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__
        times = "{elapsed} elapsed, {remaining} left"
        self._bar = tqdm(
            total=sum(round(job.run.cost) for job in self._open.values()),
            bar_format=f"{label} |{{bar:20}}| {{percentage:3.0f}}% {times}",
            miniters=0,
            mininterval=0.5 if live else 60.0,  # a line a minute in a file
        )

    def follow(self, until: float) -> None:
        """Raises `InputError` when nothing can be stored any more."""
        try:
            while self._open and (left := until - time.monotonic()) > 0:
                self._begin_workers()
                ready = wait([worker.events for worker in self._workers], min(WAIT, left))
                for worker in [w for w in self._workers if w.events in ready]:
                    if not self._hear(worker):
                        self._replace(worker)
                self._bar.update(0)  # the time goes on
        finally:
            for worker in self._workers:
                worker.stop()
            Locks(self._store.directory).remove_left(self._open.values())
            self._bar.close()
        for worker in self._workers:  # what they have told before they stopped
            self._hear(worker)
        self._report.done += len(self._done & self._begun)
        self._report.shared += len(self._done - self._begun)
        self._report.left += len(self._open)

    def _begin_workers(self) -> None:
        size = min(self._crew.room(), len(self._tasks))
        begun = [self._crew.begin() for _ in range(size - len(self._workers))]
        self._workers |= dict.fromkeys(begun, ())
        self._give(Change(self._tasks), begun)

    def _give(self, change: Change, workers: Iterable[Any]) -> None:
        for worker in workers:
            with suppress(OSError):  # it may have died
                worker.give(change)

    def _change(self, change: Change) -> None:
        self._tasks = change.of(self._tasks)
        self._give(change, self._workers)

    def _hear(self, worker: Any) -> bool:
        """Count what a worker has told; returns whether it may tell more."""
        try:
            while worker.events.poll():
                told = worker.events.recv()
                if isinstance(told, InputError):
                    raise told
                if told.begun:
                    self._workers[worker], self._early = told.begun, 0
                    self._begun.update(told.begun)
                for name, failure in told.ended.items():
                    self._end(name, failure)
        except (EOFError, OSError):
            return False
        return True

    def _end(self, name: str, failure: str = "") -> None:
        job = self._open.pop(name, None)
        if job is None:  # another worker has told it
            return
        if failure:
            self._report.failed[job.run] = failure
        else:
            self._done.add(name)
        self._bar.update(round(job.run.cost))
        self._change(Change((), {name}))

    def _replace(self, worker: Any) -> None:
        """Count the death of a worker. What is left of its task is tried again, half of it at a
        time; a run is blamed when it was alone with its worker each time."""
        begun, death = self._workers.pop(worker), worker.death()
        if not begun:
            check(death != "exit code 1", "a process could not start; its error is above")
            self._early += 1
            check(self._early < EARLY, f"no process could begin a run, the last has {death}")
        rest = []
        for job in (self._open[name] for name in begun if name in self._open):
            if self._store.has(job.key, job.keep_weights):
                self._end(job.key)
            else:
                rest.append(job)
        if len(begun) == 1 and rest:
            name = begun[0]
            self._deaths[name] += 1
            if self._deaths[name] >= TRIES:
                died = f"its process died {TRIES} times ({death})"
                self._end(name, f"{died}; it may need more memory")
                return
        self._change(Change(_halves(rest), {job.key for job in rest}))


class Crew(NamedTuple):
    """Where workers are begun."""

    room: Callable[[], int]  # for how many
    begin: Callable[[], Any]
    close: Callable[[], None] = lambda: None


def crew_of(place: Place, workforce: Workforce) -> Crew:
    """A cluster's, or that of this machine, whose processes take turns in its GPUs."""
    if workforce.engine == "ray":
        from paper.runs.cluster import Cluster, RayWorker  # which has the loop from here

        cluster = Cluster(place, workforce)
        return Crew(cluster.room, lambda: RayWorker(cluster), cluster.close)
    devices, size = workforce.devices_and_workers()
    turns = cycle(devices)
    return Crew(lambda: size, lambda: LocalWorker(place, next(turns), workforce.precision))


# processes of this machine


def begin_work() -> None:
    """What a process of `LocalWorker` does."""
    connection = Connection(int(sys.argv[1]))
    place, device, precision_name = connection.recv()
    news: queue.SimpleQueue[Change | None] = queue.SimpleQueue()

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                news.put(connection.recv())
        os._exit(1)  # the command that began this process has ended

    threading.Thread(target=listen, daemon=True).start()
    # a lock between processes would be left behind when this one is ended
    tqdm.set_lock(threading.RLock())
    set_up()
    try:
        work(news, place, lambda task: do(task, place, device, precision_name), connection.send)
    except InputError as error:
        connection.send(error)


class LocalWorker:
    """A process of this machine in the loop."""

    def __init__(self, place: Place, device: str, precision_name: str) -> None:
        self.events, theirs = Pipe()
        variables = {**VARIABLES, **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-P", "-c", WORKER, str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=variables, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self.events.send((place, device, precision_name))

    def give(self, change: Change) -> None:
        self.events.send(change)

    def death(self) -> str:
        """How it has ended."""
        return f"exit code {self._process.wait()}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
