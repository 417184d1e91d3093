"""Workers that are processes of this machine. Each computes with one thread, so that a result does not depend
on how many there are, and stops by itself when this process dies. A `ProcessPoolExecutor` would not do: when
one of its processes is killed it gives up all of them, and one cannot see whose task that was.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch
from tqdm import tqdm

from whenpool.base.errors import InputError
from whenpool.base.memory import keep_freed_memory
from whenpool.base.paths import variables
from whenpool.models.precision import precision
from whenpool.runs.engine import Workforce
from whenpool.runs.engine.crew import DeviceLostError, Message, Task, Told, do
from whenpool.runs.run import Place, commit

WORKER_VARIABLES = {  # where the user has not set them
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS gives the same bits each time; read when torch is loaded
    # no batch is as long as the last one: pieces of a GPU's memory that can grow are used again
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that are started inside do not hear ctrl-C, not even while they import: the parent does."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would hear it again where it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """A process and the connection to it."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        given = (theirs, place, workforce)
        self.process: BaseProcess = context.Process(target=_serve, args=given, daemon=True)
        self.has_begun = False  # its first run
        with (
            variables({k: os.environ.get(k, v) for k, v in WORKER_VARIABLES.items()}),
            _deaf_to_interrupts(),
        ):
            self.process.start()
        theirs.close()

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()
        self.connection.close()


class LocalPool:
    """Up to ``size`` processes, begun as they are needed, which take turns in the devices."""

    tries = 2

    def __init__(self, place: Place, workforce: Workforce, size: int, devices: Sequence[str]) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker loads the script
            raise InputError('a script must start runs under `if __name__ == "__main__":`')
        self._place, self._workforce, self._size = place, workforce, size
        self._devices = cycle(devices)
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    def has_room(self) -> bool:
        return len(self._busy) < self._size

    def begin(self, task: Task) -> _Worker:
        while True:
            if self._idle:
                worker = self._idle.pop()
            else:
                worker = _Worker(self._place, replace(self._workforce, device=next(self._devices)))
            try:
                worker.connection.send(task)
            except OSError:  # it has died while it was idle
                worker.stop()
                continue
            self._busy.append(worker)
            return worker

    def listen(self, seconds: float | None) -> list[Told]:
        ready = wait([worker.connection for worker in self._busy], seconds)
        return [self._heard(worker) for worker in list(self._busy) if worker.connection in ready]

    def _heard(self, worker: _Worker) -> Told:
        try:
            kind, key, text = worker.connection.recv()
        except (EOFError, OSError):
            self._busy.remove(worker)
            worker.stop()
            code = worker.process.exitcode
            if code == 1 and not worker.has_begun:  # an error of Python's, which others would have, too
                return worker, "stopped", "", "a process could not start; its error is above"
            return worker, "died", "", f" (exit code {code})"
        worker.has_begun = True
        if kind == "idle":
            self._busy.remove(worker)
            self._idle.append(worker)
        return worker, kind, key, text

    def close(self) -> None:
        for worker in (*self._idle, *self._busy):
            worker.stop()


def _serve(connection: Connection, place: Place, workforce: Workforce) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()
    tqdm.set_lock(threading.RLock())  # one between processes would be left behind when this one ends
    commit()  # of the code that this process has loaded, asked for before anything can change
    with precision(workforce.precision):
        while True:
            try:
                task: Task = connection.recv()
            except EOFError:
                return
            try:
                do(task, place, workforce.device, connection.send)
            except DeviceLostError:
                os._exit(1)  # another process has a fresh start
            connection.send(Message("idle"))
