"""Running many runs: one loop hands tasks to processes of this machine, or to a Ray cluster, as a
`Workforce` says, until all have ended or time is up.
"""

import logging
import math
import multiprocessing
import os
import platform
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from paper.corpora.dataset import encode
from paper.memory import give_back_freed_memory, keep_freed_memory
from paper.runs.kinds.training import Training, execute_batched
from paper.runs.run import ENGINE, Place, Run, commit, key
from paper.runs.store import Store
from whenpool.base.devices import check_device, processors
from whenpool.base.errors import InputError, StorageError, check, check_known
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.models.batched_lstm import models_that_fill
from whenpool.models.precision import PRECISIONS, precision, processor_has_bfloat16

TRIES = 2  # How often a run is begun that was alone with a process that died
WAIT = 0.5  # Seconds between two looks at the tasks, the clock, and what another command is doing


VARIABLES = {  # where the user has not set them
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS gives the same bits each time
    # no batch is as long as the last one: pieces of a GPU's memory that can grow are used again
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}


@dataclass(frozen=True)
class Workforce:
    """What executes runs. It changes no run, and is part of the provenance of each result."""

    engine: str = "local"  # processes on this machine, or "ray", a cluster
    address: str | None = None  # of the Ray cluster; None: this machine's
    workers: int | None = None  # None: one a processor, two a GPU; on a cluster all that fit
    device: str = "cpu"  # or "cuda"
    models_per_batch: int | None = (
        None  # of one shape, at once, at most; None: what fills a GPU, or 1
    )
    precision: str = "float32"  # a name in `whenpool.models.precision.PRECISIONS`
    until: float | None = None  # `time.monotonic` when all stops

    @classmethod
    def default(cls) -> "Workforce":
        """The one that ``WHENPOOL_ENGINE`` and so on name, for notebooks, which have no options."""
        options: dict[str, Any] = {}
        for name in ("engine", "address", "workers", "device", "models_per_batch", "precision"):
            if value := os.environ.get(variable := f"WHENPOOL_{name.upper()}"):
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
        if here and (self.precision, self.device) == ("bfloat16", "cpu"):
            check(
                processor_has_bfloat16(), "this processor has no bfloat16; use --precision float32"
            )


class Job(NamedTuple):
    """A run that is not stored yet."""

    run: Run
    key: str
    keep_weights: bool = False


Task = tuple[Job, ...]  # What one worker does in one go: a run, or several trainings together


class Result(NamedTuple):
    """How a task ended, beside the runs that it has stored."""

    failures: Mapping[str, str] = {}  # why runs have failed, by key
    death: str | None = None  # what became of its process
    stored: tuple[
        tuple[str, bytes, bytes | None], ...
    ] = ()  # elsewhere: keys, files, weights if kept


def do(task: Task, place: Place, device: str, precision_name: str = "float32") -> Result:
    """Execute and store the runs of a task. What is left of several is tried again in smaller
    tasks."""
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
    except StorageError:  # no other run could be stored
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
    return Result(failures)


def set_up() -> None:
    """What every process does before its first task."""
    torch.set_num_threads(1)  # so that a result does not depend on how many workers there are
    keep_freed_memory()
    commit()  # of the code that this process has loaded, asked for before anything can change


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
    every = {name: Job(run, name, keep_weights(run)) for run in runs for name in [key(run, place)]}
    jobs = [job for job in every.values() if not place.store.has(job.key, job.keep_weights)]
    if not jobs:
        return report
    workforce.check()
    place.store.check_writable()
    if workforce.until is not None and time.monotonic() >= workforce.until:
        report.left += len(jobs)
        return report
    reads: list[Any] = [
        job.run.training or job.run for job in jobs
    ]  # what several share is read once
    for name in {getattr(run, "vectors", None) for run in reads}:
        place.vectors(name)
    for source, length in {(place.source(run), run.length) for run in reads if run.training}:
        encode(source, length, place.cache)
    tasks = tasks_of(jobs, models_at_once(workforce), workforce.device.startswith("cuda"))
    _Loop(place, pool_of(place, workforce, len(tasks)), report, workforce.until).work(tasks, label)
    return report


def models_at_once(workforce: Workforce) -> int:
    """How many models a process trains together: as many as are asked for, or those that fill a GPU
    together with its other processes. With more, programs of one would wait for those of
    another."""
    fills = workforce.device.startswith("cuda") and workforce.engine == "local"
    if workforce.models_per_batch or not fills:
        return workforce.models_per_batch or 1
    devices, workers = devices_and_workers(workforce)
    return max(1, models_that_fill(workforce.device) // max(1, workers // len(devices)))


def devices_and_workers(workforce: Workforce) -> tuple[list[str], int]:
    """The devices of this machine that it has, of "cuda" all GPUs, and how many processes work on
    them."""
    devices = [workforce.device]
    if workforce.device == "cuda":
        devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return devices, workforce.workers or (processors() if devices == ["cpu"] else 2 * len(devices))


def tasks_of(jobs: Sequence[Job], size: int, on_gpu: bool = False) -> list[Task]:
    """Tasks, by seed. Up to ``size`` trainings form one: they differ in pooling, start and the
    place of the filler alone, so that their batches have the same lengths and share their padding.
    On a GPU, where a recurrence ends with its own texts, plain texts go with them, since their
    batches have the same order, and so do other seeds where one does not fill it."""

    tasks: list[Task] = [(job,) for job in sorted(jobs, key=lambda job: job.run.rank())]
    for any_seed in (False, True)[: 1 + on_gpu]:
        groups: list[list[Job]] = []
        filling: dict[Run, list[Job]] = {}  # the last group of each shape
        for task in tasks:
            alike = _shape(task[0].run, on_gpu, any_seed)
            if alike not in filling or len(filling[alike]) + len(task) > size:
                filling[alike] = []
                groups.append(filling[alike])
            filling[alike] += task
        tasks = [tuple(group) for group in groups]
    return tasks


def _shape(run: Run, on_gpu: bool, any_seed: bool) -> Run:
    """What the trainings of one task have in common; any other run as it is."""
    if not isinstance(run, Training) or run.cell != "lstm" or not run.masked:
        return run
    if run.trick or run.drop_connect or run.fresh:
        return run
    where = "standard" if run.setting == "standard" and not on_gpu else "mid"
    start: dict[str, Any] = {"forget_bias": "thesis", "input_bias": None, "chrono_words": 400}
    seed = 0 if any_seed else run.seed
    return replace(run, pooling="max", setting=where, orthogonal=False, seed=seed, **start)


def pool_of(place: Place, workforce: Workforce, tasks: int) -> Any:
    """What does the tasks: it says whether it has room, takes a task, and gives its `Result`."""
    return (
        RayPool(place, workforce)
        if workforce.engine == "ray"
        else LocalPool(place, workforce, tasks)
    )


# processes of this machine


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
    tqdm.set_lock(
        threading.RLock()
    )  # one between processes would be left behind when this one ends
    set_up()


class Worker(NamedTuple):
    """A process that does one task at a time. Each has an executor of its own: where several share
    one, the death of a process ends the tasks of all."""

    executor: ProcessPoolExecutor
    process: Any
    device: str

    @classmethod
    def begun(cls, device: str) -> "Worker":
        executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        # the process does not hear ctrl-C, not even while it imports: we do
        resource_tracker.ensure_running()  # which would let it hear again where it starts
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with patch.dict(os.environ, VARIABLES | os.environ):
                executor.submit(int)  # it starts with its first task
            (process,) = executor._processes.values()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return cls(executor, process, device)

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.executor.shutdown()


class LocalPool:
    """Processes of this machine, no more than ``tasks``, begun as they are needed. They take turns
    in the GPUs, two at each: one reads texts and makes models while the other trains."""

    def __init__(self, place: Place, workforce: Workforce, tasks: int) -> None:
        self._place, self._precision = place, workforce.precision
        devices, size = devices_and_workers(workforce)
        self._size, self._devices = min(size, tasks), cycle(devices)
        self._idle: list[Worker] = []
        self._busy: dict[Future[Any], Worker] = {}
        self._works = False  # whether a process has ended a task

    def has_room(self) -> bool:
        return len(self._busy) < self._size

    def submit(self, task: Task) -> Future[Any]:
        while True:
            worker = self._idle.pop() if self._idle else Worker.begun(next(self._devices))
            try:
                future = worker.executor.submit(
                    do, task, self._place, worker.device, self._precision
                )
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


# nodes of a Ray cluster, which need no store: they send back what runs leave


def perform(
    task: Task, workforce: Workforce, weights: dict[str, bytes], data: Path, cache: Path
) -> Result:
    """Do a task on a node, in a folder of its own, with the ``weights`` that its runs need, as
    safetensors by key; it reads the sender's folders where it has them too. Raises `InputError`
    where no other task could be done there."""
    node = f"node {platform.node()}"
    set_up()
    ENGINE[0] = "ray"
    if "WHENPOOL_CACHE" not in os.environ and cache.is_dir():
        os.environ["WHENPOOL_CACHE"] = str(cache)  # where fingerprints are looked up
    with tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True) as folder:
        store = Store(Path(folder))
        place = Place(store, data if data.is_dir() else data_directory(), cache_directory())
        advice = f"make {place.data} the same there, or let WHENPOOL_DATA name another folder"
        try:  # each run must be the same here as where it comes from
            same = all(key(job.run, place) == job.key for job in task)
            fault = "" if same else f"has other data than this machine; {advice}"
        except InputError as error:
            fault = f"cannot read what the run needs: {error}"
        if fault:
            return Result({job.key: f"{node} {fault}" for job in task})
        try:
            check_device(workforce.device)
            for name, content in weights.items():
                write_atomically(store.weights_file(name), content)
            result = do(task, place, workforce.device, workforce.precision)
        except InputError as error:  # such as a disk that is full
            raise InputError(f"{node}: {error}") from None
        rows = [(file.stem, file.read_bytes()) for file in Path(folder).glob("*.json")]
        kept = {file.stem: file.read_bytes() for file in Path(folder).glob("*.safetensors")}
        return result._replace(stored=tuple((name, row, kept.get(name)) for name, row in rows))


class RayPool:
    """As many tasks at a time as the cluster has room for, or ``workforce.workers``; these are
    shared out evenly over its GPUs, one on each where no number is given. See `LocalPool`."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        self._place, self._workforce = place, workforce
        self._sent: dict[Future[Any], Any] = {}  # references to results, and their tasks
        self._ours = _connect(workforce)
        import ray

        self._ray = ray
        self._needs = {"CPU": 1.0}  # what a task takes of its node
        if workforce.device.startswith("cuda"):
            gpus = int(ray.cluster_resources().get("GPU", 0))
            if not gpus:
                self.close()
                raise InputError("no node of the Ray cluster has a GPU; use --device cpu")
            self._needs["GPU"] = int(1e4 / math.ceil((workforce.workers or gpus) / gpus)) / 1e4
        self._perform = ray.remote(perform).options(
            num_cpus=1,
            num_gpus=self._needs.get("GPU"),
            max_retries=0,
            runtime_env={"env_vars": {n: os.environ.get(n, v) for n, v in VARIABLES.items()}},
        )

    def has_room(self) -> bool:
        try:
            have = self._ray.cluster_resources()
        except self._ray.exceptions.RayError as error:
            raise InputError(f"the Ray cluster was lost ({error}); start again to go on") from None
        room = min(int(have.get(name, 0) / part) for name, part in self._needs.items())
        # one is always handed out, to wait in Ray's own queue where no node is left
        return len(self._sent) < max(1, min(room, self._workforce.workers or room))

    def submit(self, task: Task) -> Future[Any]:
        needed = {key(job.run.needs, self._place) for job in task if job.run.needs}
        files = map(self._place.store.weights_file, needed)
        weights = {file.stem: file.read_bytes() for file in files if file.exists()}
        folders = self._place.data.absolute(), self._place.cache.absolute()
        reference = self._perform.remote(task, self._workforce, weights, *folders)
        self._sent[future := reference.future()] = reference, task
        return future

    def result(self, future: Future[Any]) -> Result:
        """How a task ended. Raises `InputError` where all others would end like it."""
        asked = {job.key for job in self._sent.pop(future)[1]}
        try:
            result: Result = future.result()
        except self._ray.exceptions.RayTaskError as error:  # no run's own, which `do` reports
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            advice = "install the same version of whenpool there as on this machine"
            raise InputError(f"a node of the Ray cluster cannot work ({error}); {advice}") from None
        except self._ray.exceptions.RayError as error:
            return Result(death=type(error).__name__)
        for (
            stored
        ) in result.stored:  # also what a run of the task needs, which may be on record here
            if stored[0] in asked or not self._place.store.has(stored[0]):
                self._place.store.write(*stored)
        return result

    def close(self) -> None:
        with suppress(self._ray.exceptions.RayError):  # the cluster may be what was lost
            for reference in (sent := [reference for reference, _ in self._sent.values()]):
                self._ray.cancel(reference)  # so that it tidies up
            if sent:
                self._ray.wait(sent, num_returns=len(sent), timeout=10.0)
        if self._ours:
            self._ray.shutdown()


def _connect(workforce: Workforce) -> bool:
    """Be in the cluster that is named, or in this machine's; returns whether we connected."""
    address = workforce.address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("engine ray needs Ray: pip install -e 'lib/paper[cluster]'") from None
    if ray.is_initialized():
        return False
    try:
        with patch.dict(os.environ, {"RAY_USAGE_STATS_ENABLED": "0"}):
            if address not in ("auto", "local"):  # Ray takes minutes to find out
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # of many kinds, some of them plain
        where = "of this machine" if address == "auto" else f"at {address}"
        advice = "start one with `ray start --head --port=6379`, and name it as head:6379"
        raise InputError(f"the Ray cluster {where} cannot be used: {error}; {advice}") from None
    return True


# who hands tasks out


class Locks:
    """The runs of a store that one command computes, so that others leave them alone."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "claims"
        self.held: dict[str, FileLock] = {}

    def take(self, key: str) -> bool:
        """Lock a run; returns whether it is ours now."""
        if key not in self.held:
            lock = FileLock(self._folder / f"{key}.lock")
            with suppress(Timeout):
                lock.acquire(blocking=False)
                self.held[key] = lock
        return key in self.held

    def release(self, *keys: str) -> None:
        """Let go of some runs. The file goes first: who has opened it sees it without a name, and
        begins anew."""
        for lock in map(self.held.pop, keys):
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


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
        layout = (
            f"{label} |{{bar:20}}| {{percentage:3.0f}}% {{elapsed}} elapsed, {{remaining}} left"
        )
        live = sys.stderr.isatty() or "ipykernel" in type(sys.stderr).__module__
        pace = {"miniters": 0, "mininterval": 0.5 if live else 60.0}  # a line a minute in a file
        self._bar = tqdm(total=sum(round(job.run.cost) for job in jobs), bar_format=layout, **pace)
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
            self._locks.release(*self._locks.held)

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
        """Count the runs of a task that has ended. What is left of it is tried again, half of it at
        a time, since it may have been too much for the memory; a run is blamed when it was alone
        each time."""
        alone, rest = len(task) == 1, []
        for job in task:
            if job.key in result.failures:
                self._end(job, result.failures[job.key])
            elif (alone and result.death is None) or self._store.has(job.key, job.keep_weights):
                self._report.done += 1
                self._end(job)
            else:
                rest.append(job)
        self._deaths[task[0].key] += alone and result.death is not None
        if rest and self._deaths[task[0].key] >= TRIES:
            died = f"its process died {TRIES} times ({result.death})"
            self._end(task[0], f"{died}; it may need more memory")
            return
        middle = (len(rest) + 1) // 2
        self._queue.extendleft(tuple(half) for half in (rest[middle:], rest[:middle]) if half)

    def _end(self, job: Job, failure: str = "") -> None:
        self._report.failed |= {job.run: failure} if failure else {}
        self._bar.update(round(job.run.cost))
        self._locks.release(job.key)
