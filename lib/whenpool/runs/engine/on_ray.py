"""Workers that are on the nodes of a Ray cluster. A node executes the runs of a task as any worker does, in
a folder of its own, and sends back what they leave while it works; it needs no store.
"""

import logging
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import torch
from tqdm import tqdm

from whenpool.base.errors import InputError, StorageError, check
from whenpool.base.files import write_atomically
from whenpool.base.memory import keep_freed_memory
from whenpool.base.paths import cache_directory, data_directory, variables
from whenpool.base.version import __version__
from whenpool.models.precision import precision
from whenpool.runs.engine import Workforce, check_device, processors
from whenpool.runs.engine.crew import Message, Task, Told, do
from whenpool.runs.engine.local import WORKER_VARIABLES
from whenpool.runs.run import ENGINE, Place, commit, key
from whenpool.runs.store import Store, key_of

# Seconds between looks at the nodes, until a line says that none works, and for cancelled tasks to end
_LOOK, _PATIENCE, _GRACE = 2.0, 60.0, 3.0


@dataclass(frozen=True)
class Order:
    """A task on its way to a node."""

    task: Task
    workforce: Workforce
    identities: dict[str, dict[str, Any]]  # of the runs, as the sender sees them, by key
    weights: dict[str, bytes]  # of the trainings that the runs need, as safetensors, by key
    data: Path  # the sender's folders, which the node reads where it has them too
    cache: Path


Letter = tuple[Message, tuple[tuple[str, bytes, bytes | None], ...]]
"""What a node says, and of each run that was stored since: its key, its file, and its weights if kept."""


def perform(version: str, order: Order) -> Iterator[Letter]:
    """Do a task, and say how it goes; the order of another version of the library is refused."""
    if version != __version__:
        both = f"{platform.node()} has whenpool {__version__}, but this machine {version}"
        yield Message("stopped", text=f"node {both}; install the same version on both"), ()
        return
    letters = SimpleQueue[Letter | BaseException | None]()
    with tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True) as folder:
        Thread(target=_work, args=(order, Path(folder), letters.put), daemon=True).start()
        try:
            while True:
                try:
                    letter = letters.get(timeout=0.2)  # Ray can cancel a process only while it is awake
                except Empty:
                    continue
                if letter is None:
                    return
                if isinstance(letter, BaseException):
                    raise letter
                yield letter
        except KeyboardInterrupt:  # cancelled, and the thread would work on
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(1)


def _work(order: Order, folder: Path, send: Callable[[Any], None]) -> None:
    """Send letters, and None at the end; an exception that is no failure of a run is sent as it is."""
    torch.set_num_threads(1)
    keep_freed_memory()
    commit()  # of the code that this process has loaded, asked for before anything can change
    ENGINE[0] = "ray"
    try:
        with precision(order.workforce.precision):
            # data and cache are read at the sender's paths where this node has them, else at its own
            if "WHENPOOL_CACHE" not in os.environ and order.cache.is_dir():
                os.environ["WHENPOOL_CACHE"] = str(order.cache)  # where fingerprints are looked up
            data = order.data if order.data.is_dir() else data_directory()
            _do(order, Place(Store(folder), data, cache_directory()), send)
    except BaseException as error:
        send(error)
    send(None)


def _do(order: Order, place: Place, send: Callable[[Letter], None]) -> None:
    store, node = place.store, platform.node()
    sent = set[Path]()

    def say(message: Message) -> None:
        new = []
        if message.kind == "done":
            files = set(store.directory.glob("*.json")) - sent
            sent.update(files)
            # a trace leaves its training as well, which goes first
            for file in sorted(files, key=lambda file: file.stem == message.key):
                weights = file.with_suffix(".safetensors")
                kept = weights.read_bytes() if weights.exists() else None
                new.append((file.stem, file.read_bytes(), kept))
        elif message.kind == "stopped":
            message = message._replace(text=f"node {node}: {message.text}")
        send((message, tuple(new)))

    try:
        check_device(order.workforce.device)
        for key, weights in order.weights.items():
            write_atomically(store.weights_file(key), weights)
    except (InputError, StorageError) as error:
        say(Message("stopped", text=str(error)))
        return
    able = []
    for job in order.task:
        expected, reason = order.identities[job.key]["data"], ""
        try:
            identity = job.run.identity(place)
        except InputError as error:
            reason = f"cannot read what the run needs: {error}"
        else:  # whether it is the same run on this node
            other = [name for name, value in expected.items() if identity["data"].get(name) != value]
            if other:
                advice = f"make {place.data} the same there, or let WHENPOOL_DATA name another folder"
                reason = f"has another {' and '.join(other)} than this machine; {advice}"
            elif key_of(identity) != job.key:
                reason = "understands the run differently; install the same whenpool there"
        if reason:
            say(Message("failed", job.key, f"node {node} {reason}"))
        else:
            able.append(job)
    if able:
        do(tuple(able), place, order.workforce.device, say)


@dataclass(eq=False)
class _Sent:
    """A task that is on the cluster."""

    stream: Any  # of references to letters
    coming: Any = None  # reference to the next letter, which is not here yet
    since: float = field(default_factory=time.monotonic)
    begun: bool = False


class RayPool:
    """As many tasks at a time as the cluster has room for, or ``workforce.workers``; these are shared out
    evenly over its GPUs, one on each where no number is given."""

    tries = 5  # a node that is lost says nothing about the run

    def __init__(self, place: Place, workforce: Workforce) -> None:
        self._place, self._workforce = place, workforce
        self._sent: list[_Sent] = []
        self._room, self._looked, self._complained = 0, -_LOOK, False
        self._ours = _connect(workforce)
        import ray

        self._ray = ray
        self._needs = {"CPU": 1.0}  # what a task takes of its node
        if workforce.device.startswith("cuda"):
            try:
                gpus = sum(int(node.get("GPU", 0)) for node in self._nodes())
                check(gpus, "no node of the Ray cluster has a GPU; use --device cpu")
            except BaseException:
                self.close()
                raise
            sharing = ceil((workforce.workers or gpus) / gpus)
            self._needs["GPU"] = int(1e4 / sharing) / 1e4  # Ray counts in parts of 10,000
        self._perform = ray.remote(perform).options(
            num_returns="streaming",
            max_retries=0,
            runtime_env={"env_vars": {k: os.environ.get(k, v) for k, v in WORKER_VARIABLES.items()}},
            **{f"num_{name.lower()}s": part for name, part in self._needs.items()},
        )

    def has_room(self) -> bool:
        if time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            self._room = sum(
                min(int(node.get(name, 0) / part) for name, part in self._needs.items())
                for node in self._nodes()
            )
        # one is always handed out, to wait in Ray's own queue where no node is left
        return len(self._sent) < max(1, min(self._room, self._workforce.workers or self._room))

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def begin(self, task: Task) -> _Sent:
        needed = {key(job.run.needs, self._place) for job in task if job.run.needs}
        files = {name: self._place.store.weights_file(name) for name in needed}
        order = Order(
            task, self._workforce, {job.key: job.run.identity(self._place) for job in task},
            {name: file.read_bytes() for name, file in files.items() if file.exists()},
            self._place.data.absolute(), self._place.cache.absolute(),
        )  # fmt: skip
        sent = _Sent(self._perform.remote(__version__, order))
        self._sent.append(sent)
        return sent

    def listen(self, seconds: float | None) -> list[Told]:
        awaited = {sent.coming or sent.stream: sent for sent in self._sent}
        patience = _LOOK if seconds is None else min(seconds, _LOOK)  # since nodes come and go
        try:
            ready, _ = self._ray.wait(list(awaited), timeout=patience)
            if ready:
                ready, _ = self._ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        except self._ray.exceptions.RayError as error:
            raise InputError(f"the Ray cluster was lost ({error}); start again to go on") from None
        told = [message for what in ready for message in self._heard(awaited[what])]
        if self._sent and not self._complained and not any(sent.begun for sent in self._sent):
            self._complained = time.monotonic() - min(sent.since for sent in self._sent) > _PATIENCE
            if self._complained:  # say once that there is nobody to do the work
                nodes = self._nodes()
                has = {name: sum(int(node.get(name, 0)) for node in nodes) for name in self._needs}
                found = ", ".join(f"{count} {name}" for name, count in has.items())
                line = f"whenpool: waiting for the Ray cluster, which has begun no run for {_PATIENCE:.0f} s:"
                line += f" its nodes ({found} in all) are busy, starting or lost"
                tqdm.write(line, file=sys.stderr)
        return told

    def _heard(self, sent: _Sent) -> list[Told]:
        """What a task says next, if it is here."""
        try:
            if sent.coming is None:
                sent.coming = next(sent.stream)
            if not self._ray.wait([sent.coming], timeout=0)[0]:
                return []
            letter: Letter = self._ray.get(sent.coming)
        except StopIteration:
            self._sent.remove(sent)
            return [(sent, "idle", "", "")]
        except self._ray.exceptions.RayError as error:
            self._sent.remove(sent)
            return [(sent, *_end(error))]
        sent.coming, sent.begun, self._complained = None, True, False
        message, stored = letter
        try:
            for run in stored:
                self._place.store.adopt(*run)
        except StorageError:
            raise
        except InputError as error:
            return [(sent, "failed", message.key, str(error))]
        return [(sent, *message)]

    def close(self) -> None:
        ray = self._ray
        with suppress(ray.exceptions.RayError):  # the cluster may be what was lost
            for sent in self._sent:
                ray.cancel(sent.stream)
            if ended := [sent.stream.completed() for sent in self._sent]:
                _, working = ray.wait(ended, num_returns=len(ended), timeout=_GRACE)
                for task in working:
                    ray.cancel(task, force=True)
        self._sent.clear()
        if self._ours:
            ray.shutdown()


def _end(error: Exception) -> tuple[str, str, str]:
    """The last message of a task that has ended with an error of Ray's."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):
        if "failed to import on the worker" in str(error) or isinstance(error.cause, ImportError):
            node = re.search(r"\bip=([^\s,)]+)", str(error))
            text = f"node {node[1] if node else 'of the Ray cluster'} cannot load whenpool {__version__}"
            return "stopped", "", f"{text}; install it there as on this machine"
        return "died", "", f" ({type(error.cause).__name__}: {' '.join(str(error.cause).split())})"
    lost = isinstance(error, exceptions.NodeDiedError | exceptions.ObjectLostError)
    return "died", "", f" ({'its node was lost' if lost else type(error).__name__})"


def _connect(workforce: Workforce) -> bool:
    """Be in a cluster: that named, this machine's, or one of it alone; returns whether we connected."""
    address = workforce.address or os.environ.get("RAY_ADDRESS")
    if address not in (None, "", "auto", "local"):
        _check_address(address)
    with variables({"RAY_USAGE_STATS_ENABLED": "0"}):
        try:
            import ray
        except ModuleNotFoundError:
            raise InputError("engine ray needs Ray: pip install 'whenpool[cluster]'") from None
        if ray.is_initialized():
            return False
        with suppress(ImportError):
            from ray._private import worker

            # the crew reports a dead worker, about which Ray prints lines as well; it has no option for it
            worker.print_to_stdstream = lambda *_, **__: None
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            try:
                ray.init(address or "auto", **options)
            except ConnectionError:
                if address:
                    raise
                count = workforce.workers or processors()
                ray.init("local", num_cpus=count, include_dashboard=False, **options)
        except Exception as error:  # of many kinds, some of them plain
            where = f"at {address}" if address else "of this machine"
            raise InputError(f"the Ray cluster {where} cannot be used: {error}") from None
    return True


def _check_address(address: str) -> None:
    """Raises `InputError` where nobody answers, which Ray itself takes minutes to find out."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(f"a Ray cluster's address must be host:port, such as head:6379, not {address}")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        none = f"no Ray cluster answers at {address} ({error.strerror or error})"
        mend = f"start one with `ray start --head --port={port}`, or leave the address out"
        raise InputError(f"{none}; {mend}") from None
