"""Running many runs. `run_all` gives tasks to workers, one each at a time, until all runs have
ended.

Workers are processes of this machine (`Processes`), or nodes of a Ray cluster
(`paper.runs.cluster`). Locks in the store say which runs this command is at, so that several
commands share the work.
"""

import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from multiprocessing import Pipe
from multiprocessing.connection import Connection
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
EARLY = 10  # Processes that may die one after another before they are ready for a task
WAIT = 0.5  # Seconds between two looks at the clock, and at what other commands have locked

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


class WorkerDiedError(Exception):
    """A worker was lost, as the message says, with its task or before it was ready for one."""

    def __init__(self, reason: str, was_ready: bool = True) -> None:
        super().__init__(reason)
        self.was_ready = was_ready


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
    asked: dict[str, Job] = {}
    for run in dict.fromkeys(runs):
        name = key(run, place)  # equal copies of a file have the same
        wanted = keep_weights(run) or (name in asked and asked[name].keep_weights)
        asked[name] = Job(run, name, wanted)
    jobs = [job for job in asked.values() if not place.store.has(job.key, job.keep_weights)]
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
        _Execution(tasks, place.store, crew, report, label).follow(until)
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
    groups: list[list[Job]] = []
    last: dict[Run, list[Job]] = {}  # the last group of each shape
    for job in sorted(jobs, key=lambda job: job.run.rank()):
        group = last.get(alike := _shape(job.run, on_gpu))
        if group is None or len(group) >= size:
            groups.append(group := [])
            last[alike] = group
        group.append(job)
    return [tuple(group) for group in groups]


def _shape(run: Run, on_gpu: bool) -> Run:
    """What the trainings of one task have in common; any other run as it is."""
    if not isinstance(run, Training) or run.cell != "lstm" or not run.masked:
        return run
    if run.trick or run.drop_connect or run.fresh:
        return run
    where = "standard" if run.setting == "standard" and not on_gpu else "mid"
    seed = 0 if on_gpu else run.seed
    start: dict[str, Any] = {"forget_bias": "thesis", "input_bias": None, "chrono_words": 400}
    return replace(run, pooling="max", setting=where, seed=seed, orthogonal=False, **start)


# the loop


class Locks:
    """The runs of a store that this command is at, so that others leave them alone."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self.held: dict[str, FileLock] = {}

    def take(self, job: Job) -> bool:
        """Lock a run; returns whether no other command has locked it."""
        lock = FileLock(self._folder / f"{job.key}.lock", blocking=False)
        with suppress(Timeout):
            lock.acquire()
            self.held[job.key] = lock
        return job.key in self.held

    def release(self, *keys: str) -> None:
        """Let go of some runs. The file goes first: who has opened it sees it without a name, and
        begins anew."""
        for lock in map(self.held.pop, keys):
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


class _Execution:
    """Some tasks, and the workers of a crew that do them."""

    def __init__(
        self, tasks: Sequence[Task], store: Store, crew: Any, report: Report, label: str
    ) -> None:
        self._waiting, self._store, self._crew, self._report = deque(tasks), store, crew, report
        self._locks, self._idle = Locks(store.directory), list[Any]()  # workers without a task
        self._running: dict[Future[Any], tuple[Any, Task]] = {}  # workers and what each does
        self._threads = ThreadPoolExecutor(len(tasks))  # one waits for each worker
        self._left = sum(map(len, tasks))  # runs that have not ended
        self._deaths = Counter[str]()  # of workers with which a run was alone
        self._early = 0  # workers that have died one after another before they were ready
        live = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__
        times = "{elapsed} elapsed, {remaining} left"
        self._bar = tqdm(
            total=sum(round(job.run.cost) for task in tasks for job in task),
            bar_format=f"{label} |{{bar:20}}| {{percentage:3.0f}}% {times}",
            miniters=0,
            mininterval=0.5 if live else 60.0,  # a line a minute in a file
        )

    def follow(self, until: float) -> None:
        """Raises `InputError` when nothing can be stored any more."""
        try:
            while self._left and (seconds := until - time.monotonic()) > 0:
                self._begin_tasks()
                if self._running:
                    ended, _ = wait_for(self._running, min(WAIT, seconds), FIRST_COMPLETED)
                    for future in ended:
                        self._end_task(future)
                elif self._waiting:  # other commands are at the rest
                    time.sleep(min(WAIT, seconds))
                self._bar.update(0)  # the time goes on
        finally:
            for worker in (*self._idle, *(worker for worker, _ in self._running.values())):
                worker.stop()
            self._threads.shutdown()
            for job in (job for _, task in self._running.values() for job in task):
                if self._is_stored(job):  # just before its worker was stopped
                    self._report.done += 1
                    self._end(job)
            self._locks.release(*self._locks.held)
            self._bar.close()
        self._report.left += self._left

    def _begin_tasks(self) -> None:
        """Give each worker that has none the next task, of the runs that nobody else is at."""
        elsewhere: list[Task] = []
        room = self._crew.room()
        while self._waiting and len(self._running) < room:
            task = self._waiting.popleft()
            ours = tuple(filter(self._locks.take, task))
            if len(ours) < len(task):
                elsewhere.append(tuple(job for job in task if job not in ours))
            missing = []
            for job in ours:
                if self._is_stored(job):
                    self._report.shared += 1
                    self._end(job)
                else:
                    missing.append(job)
            if missing:
                worker = self._idle.pop() if self._idle else self._crew.begin()
                worker.send(tuple(missing))
                future = self._threads.submit(worker.receive)
                self._running[future] = worker, tuple(missing)
        self._waiting.extendleft(reversed(elsewhere))

    def _end_task(self, future: Future[Any]) -> None:
        """Count what has ended of a task. What neither failed nor is stored is tried again, half of
        it at a time, since it may have been too much for the memory."""
        worker, task = self._running.pop(future)
        failures: Mapping[str, str] = {}
        try:
            failures = future.result()
            self._idle.append(worker)
            self._early = 0
        except WorkerDiedError as death:
            if not death.was_ready:
                self._end_early(death)
            elif len(task) == 1:  # nothing else can be blamed
                self._deaths[task[0].key] += 1
                if self._deaths[task[0].key] >= TRIES:
                    died = f"its process died {TRIES} times ({death})"
                    failures = {task[0].key: f"{died}; it may need more memory"}
        again = []
        for job in task:
            if self._is_stored(job):
                self._report.done += 1
                self._end(job)
            elif job.key in failures:
                self._report.failed[job.run] = failures[job.key]
                self._end(job)
            else:
                again.append(job)
        self._locks.release(*(job.key for job in again))
        middle = (len(again) + 1) // 2
        halves = tuple(again[middle:]), tuple(again[:middle])
        self._waiting.extendleft(filter(None, halves))

    def _end_early(self, death: WorkerDiedError) -> None:
        """Raises `InputError` where no other process could do better."""
        check(str(death) != "exit code 1", "a process could not start; its error is above")
        self._early += 1
        check(self._early < EARLY, f"no process could begin a run, the last has {death}")

    def _is_stored(self, job: Job) -> bool:
        return self._store.has(job.key, job.keep_weights)

    def _end(self, job: Job) -> None:
        self._left -= 1
        self._locks.release(job.key)
        self._bar.update(round(job.run.cost))


def crew_of(place: Place, workforce: Workforce) -> Any:
    """Where workers are begun: a cluster, or this machine. It has ``room`` for so many workers, can
    ``begin`` one, and is closed in the end. A worker gets a task by ``send``; ``receive`` waits for
    why runs of it have failed, by key, and raises `WorkerDiedError`; ``stop`` ends both."""
    if workforce.engine == "ray":
        from paper.runs.cluster import Cluster  # which needs what is here

        return Cluster(place, workforce)
    return Processes(place, workforce)


# what workers do


def do(task: Task, place: Place, device: str, precision_name: str = "float32") -> dict[str, str]:
    """Execute and store the runs of a task; returns why some have failed, by key. Raises
    `StorageError` when no other run could be stored either."""
    failures: dict[str, str] = {}

    def end(number: int, failure: str) -> None:
        failures.update({task[number].key: failure} if failure else {})

    try:
        # on a processor bfloat16 rounds memory cells, too: there long memories stay in float32
        exact = not device.startswith("cuda") and any(job.run.long_memory for job in task)
        less = task[0].run.recurrent and not exact
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


# processes of this machine


def begin_work() -> None:
    """What a process of `LocalWorker` does: one task after another."""
    connection = Connection(int(sys.argv[1]))
    place, device, precision_name = connection.recv()
    tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                tasks.put(connection.recv())
        finally:  # the command that began this process has ended
            os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    # a lock between processes would be left behind when this one is ended
    tqdm.set_lock(threading.RLock())
    set_up()
    connection.send("ready")
    while True:
        try:
            answer: Any = do(tasks.get(), place, device, precision_name)
        except InputError as error:
            answer = error
        connection.send(answer)


class LocalWorker:
    """A process of this machine, see `crew_of`."""

    def __init__(self, place: Place, device: str, precision_name: str) -> None:
        self._connection, theirs = Pipe()
        self._is_ready = False
        variables = {**VARIABLES, **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-P", "-c", WORKER, str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=variables, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self.send((place, device, precision_name))

    def send(self, message: Any) -> None:
        with suppress(OSError):  # it may have died, which `receive` reports
            self._connection.send(message)

    def receive(self) -> Mapping[str, str]:
        try:
            if not self._is_ready:
                self._is_ready = self._connection.recv() == "ready"
            answer = self._connection.recv()
        except (EOFError, OSError):
            death = f"exit code {self._process.wait()}"
            raise WorkerDiedError(death, self._is_ready) from None
        if isinstance(answer, InputError):
            raise answer
        failures: Mapping[str, str] = answer
        return failures

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Processes:
    """This machine, whose processes take turns in its GPUs."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        devices, self._size = workforce.devices_and_workers()
        self._turns = cycle(devices)
        self._place, self._precision = place, workforce.precision

    def room(self) -> int:
        return self._size

    def begin(self) -> LocalWorker:
        return LocalWorker(self._place, next(self._turns), self._precision)

    def close(self) -> None:
        """Its workers have been stopped."""
