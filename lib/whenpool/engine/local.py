"""Runs on N processes of this machine.

Each worker takes one run after the other, stores it when it ends, and computes with one thread, so
that a result does not depend on how many workers there are. A worker that dies is replaced and its
run tried again; when this process dies, the workers stop by themselves.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from tqdm import tqdm

from whenpool.errors import InputError
from whenpool.places import variables
from whenpool.provenance import commit
from whenpool.runs import Place, Run, key

TRIES = 2
"""How often a run is begun whose worker dies."""
_WORKER_VARIABLES = {
    # glibc keeps freed memory instead of asking for it anew in each step: a quarter faster
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    # cuBLAS gives the same bits each time; read when torch is loaded
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
"""For the processes of workers, where the user has not set them."""


@dataclass(frozen=True)
class Job:
    run: Run
    key: str
    keep_weights: bool = False


@dataclass
class Report:
    """What came of a list of runs."""

    done: int = 0
    failed: dict[Run, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What a reader of results should know of the corpora, a sentence each."""


def run_all(
    runs: Sequence[Run],
    place: Place,
    *,
    workers: int | None = None,
    device: str = "cpu",
    keep_weights: Callable[[Run], bool] = lambda run: False,
    label: str = "runs",
) -> Report:
    """Execute the runs that are not stored yet.

    Args:
        workers: processes; default: one a processor, one on a GPU.
        device: "cpu" or "cuda".
        keep_weights: the runs whose weights are wanted; those stored without are run again.
        label: stands before the progress bar.

    Returns:
        How many runs were done now, and what those that failed said.

    Raises:
        InputError: for data that are missing or a store that cannot be written.
        KeyboardInterrupt: on ctrl-C, after the workers were stopped; what is finished is stored.
    """
    jobs = {}
    for run in runs:
        job = Job(run, key(run, place), keep_weights(run))
        if not place.store.has(job.key, job.keep_weights):
            jobs[job.key] = job
    if not jobs:
        return Report()
    check_device(device)
    place.store.check_writable()
    from whenpool.execution import read_once  # loads torch, which is not needed before

    notes = read_once([job.run for job in jobs.values()], place, device)
    wanted = workers or (1 if device.startswith("cuda") else _processors())
    report = _Crew(place, device, min(wanted, len(jobs)), label).work(list(jobs.values()))
    return replace(report, notes=notes)


def _processors() -> int:
    """Those that this process may use, which a container can limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_device(device: str) -> None:
    """Raises `InputError` when CUDA is asked for and is not there, or the device is unknown."""
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise InputError("device cuda was asked for, but torch sees no GPU; use --device cpu")
    elif device != "cpu":
        raise InputError(f"device {device!r} is unknown; choose cpu or cuda")


class _Worker:
    """A process, the connection to it, and the job it is at."""

    def __init__(self, place: Place, device: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(theirs, place, device), daemon=True
        )
        with variables({k: os.environ.get(k, v) for k, v in _WORKER_VARIABLES.items()}):
            self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.epochs = 0

    def give(self, job: Job) -> None:
        self.connection.send(job)
        self.job, self.epochs = job, 0

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.connection.close()


class _Crew:
    """Hands jobs to workers until all are done or have failed."""

    def __init__(self, place: Place, device: str, size: int, label: str) -> None:
        self._place, self._device, self._size = place, device, size
        self._label = label
        self._queue: deque[Job] = deque()
        self._tries: dict[str, int] = {}
        self._report = Report()

    def work(self, jobs: list[Job]) -> Report:
        self._queue.extend(sorted(jobs, key=lambda job: -job.run.cost))  # long ones first
        workers: list[_Worker] = []
        with tqdm(
            total=sum(job.run.cost for job in jobs),
            desc=f"{self._label}: 0/{len(jobs)}",
            bar_format="{desc} |{bar:20}| {percentage:3.0f}% {elapsed} elapsed, {remaining} left",
            mininterval=0.5,
        ) as bar:
            try:
                while self._queue or any(worker.job for worker in workers):
                    while self._queue and len(workers) < self._size:
                        workers.append(_Worker(self._place, self._device))
                    for worker in list(workers):
                        if worker.job is None and self._queue:
                            self._give(worker, workers)
                    self._listen(workers, bar)
                    finished = self._report.done + len(self._report.failed)
                    bar.set_description_str(f"{self._label}: {finished}/{len(jobs)}", refresh=False)
                bar.n = bar.total  # not a sum of rounded parts
                bar.refresh()
            finally:
                for worker in workers:
                    worker.stop()
        return self._report

    def _give(self, worker: _Worker, workers: list[_Worker]) -> None:
        """Hand the next job to an idle worker; one that has died meanwhile is let go."""
        try:
            worker.give(self._queue[0])
        except OSError:
            workers.remove(worker)
            worker.stop()
        else:
            self._queue.popleft()

    def _listen(self, workers: list[_Worker], bar: tqdm) -> None:
        busy = {worker.connection: worker for worker in workers if worker.job}
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]
            assert worker.job is not None
            try:
                kind, message = worker.connection.recv()
            except (EOFError, OSError):
                workers.remove(worker)
                self._retry(worker, bar)
                continue
            epoch_cost = worker.job.run.cost / worker.job.run.epochs
            if kind == "epoch":
                worker.epochs += 1
                bar.update(epoch_cost)
                continue
            bar.update(epoch_cost * (worker.job.run.epochs - worker.epochs))
            if kind == "done":
                self._report.done += 1
            else:
                self._give_up(worker.job, message)
            worker.job = None

    def _retry(self, worker: _Worker, bar: tqdm) -> None:
        job = worker.job
        assert job is not None
        worker.stop()
        bar.update(-job.run.cost / job.run.epochs * worker.epochs)
        self._tries[job.key] = self._tries.get(job.key, 1) + 1
        if self._tries[job.key] <= TRIES:
            self._queue.appendleft(job)
        else:
            code = worker.process.exitcode
            self._give_up(job, f"its process died {TRIES} times (exit code {code}); out of memory?")

    def _give_up(self, job: Job, message: str) -> None:
        self._report.failed[job.run] = message
        self._place.store.fail(job.key, job.run.changed(), message)


def _serve(connection: Connection, place: Place, device: str) -> None:
    """What a worker does: take a run, execute it, say how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    import torch

    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
    torch.set_num_threads(1)
    tqdm.set_lock(threading.RLock())  # one between processes would be left behind when this one ends
    commit()  # of the code that this process has loaded, asked for before anything can change
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            return
        connection.send(_attempt(job, place, device, lambda: connection.send(("epoch", ""))))


def _attempt(job: Job, place: Place, device: str, on_epoch: Callable[[], Any]) -> tuple[str, str]:
    from whenpool.execution import execute

    try:
        execute(job.run, place, device, job.keep_weights, on_epoch)
    except InputError as error:
        return "failed", str(error)
    except Exception as error:  # a run that fails must not stop the others
        return "failed", " ".join(f"{type(error).__name__}: {error}".split())
    return "done", ""
