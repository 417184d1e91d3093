"""Workers that are tasks of a Ray cluster.

A task of ours is one of Ray's, on one processor, or on one and a part of a GPU. Ray never tries one
again by itself: what became of a task whose process or node has died is the crew's to decide.
"""

import logging
import os
import re
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from tqdm import tqdm

from whenpool.base.errors import InputError, StorageError
from whenpool.base.paths import variables
from whenpool.base.version import __version__
from whenpool.runs.engine.crew import Told
from whenpool.runs.engine.local import WORKER_VARIABLES, processors
from whenpool.runs.engine.on_node import Letter, Order, perform
from whenpool.runs.engine.tasks import Task
from whenpool.runs.engine.workforce import Workforce
from whenpool.runs.training_run import Place, key

_LOOK = 2.0
"""Seconds between two looks at the nodes that there are."""
_PATIENCE = 60.0
"""Seconds without a worker after which it is said that there is none."""
_GRACE = 3.0
"""Seconds that cancelled tasks have to tidy up."""


@dataclass(eq=False)
class _Sent:
    """A task that is on the cluster."""

    stream: Any  # of references to letters
    coming: Any = None  # reference to the next letter, which is not here yet
    since: float = field(default_factory=time.monotonic)
    begun: bool = False


class RayPool:
    """As many tasks at a time as the cluster has room for, or ``workforce.workers``; see
    `whenpool.runs.engine.crew.Pool`.

    On GPUs, ``workforce.workers`` are shared out evenly over those that the cluster has when work
    begins, one on each where no number is given.

    Raises:
        InputError: when Ray is not installed, or there is no cluster that can do it.
    """

    tries = 5  # a node that is lost says nothing about the run

    def __init__(self, place: Place, workforce: Workforce) -> None:
        self._place, self._workforce = place, workforce
        self._sent: list[_Sent] = []
        self._room, self._looked, self._complained = 0, -_LOOK, False
        self._ours = _connect(workforce)
        import ray

        self._ray = ray
        try:
            resources = self._resources()
        except BaseException:
            self.close()
            raise
        self._perform = ray.remote(perform).options(
            num_returns="streaming",
            max_retries=0,
            runtime_env={"env_vars": {k: os.environ.get(k, v) for k, v in WORKER_VARIABLES.items()}},
            **resources,
        )

    def _resources(self) -> dict[str, float]:
        """What a task takes of its node."""
        self._needs = {"CPU": 1.0}
        if self._workforce.device.startswith("cuda"):
            gpus = sum(int(node.get("GPU", 0)) for node in self._nodes())
            if not gpus:
                raise InputError("no node of the Ray cluster has a GPU; use --device cpu")
            sharing = ceil((self._workforce.workers or gpus) / gpus)
            self._needs["GPU"] = int(1e4 / sharing) / 1e4  # Ray counts in parts of 10,000
        return {f"num_{name.lower()}s": part for name, part in self._needs.items()}

    def has_room(self) -> bool:
        """One task is always handed out, to wait in Ray's own queue where no node is left."""
        if time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            self._room = sum(
                min(int(node.get(name, 0) / part) for name, part in self._needs.items())
                for node in self._nodes()
            )
        return len(self._sent) < max(1, min(self._room, self._workforce.workers or self._room))

    def _nodes(self) -> list[dict[str, float]]:
        """What each node that is alive has to give."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def begin(self, task: Task) -> _Sent:
        needed = {key(job.run.needs, self._place) for job in task if job.run.needs}
        files = {name: self._place.store.weights_file(name) for name in needed}
        order = Order(
            task,
            self._workforce,
            {job.key: job.run.identity(self._place) for job in task},
            {name: file.read_bytes() for name, file in files.items() if file.exists()},
            self._place.data.absolute(),
            self._place.cache.absolute(),
        )
        sent = _Sent(self._perform.remote(__version__, order))
        self._sent.append(sent)
        return sent

    def listen(self, seconds: float | None) -> list[Told]:
        """Not longer than `_LOOK`, since nodes come and go."""
        awaited = {sent.coming or sent.stream: sent for sent in self._sent}
        patience = _LOOK if seconds is None else min(seconds, _LOOK)
        try:
            ready, _ = self._ray.wait(list(awaited), timeout=patience)
            if ready:
                ready, _ = self._ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        except self._ray.exceptions.RayError as error:
            raise InputError(f"the Ray cluster was lost: {error}; what is finished is stored") from None
        told = [message for what in ready for message in self._heard(awaited[what])]
        self._complain()
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
                self._place.store.adopt(run.key, run.content, run.weights)
        except StorageError:
            raise
        except InputError as error:
            return [(sent, "failed", message.key, str(error))]
        return [(sent, *message)]

    def _complain(self) -> None:
        """Say, once, that there is nobody to do the work."""
        if self._complained or not self._sent or any(sent.begun for sent in self._sent):
            return
        if time.monotonic() - min(sent.since for sent in self._sent) < _PATIENCE:
            return
        self._complained = True
        nodes = self._nodes()
        found = ", ".join(f"{sum(int(n.get(name, 0)) for n in nodes)} {name}" for name in self._needs)
        line = f"the Ray cluster has begun nothing for {_PATIENCE:.0f} s: its nodes ({found} in all)"
        tqdm.write(f"whenpool: {line} are busy, starting, or gone; waiting for one", file=sys.stderr)

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
    """The last message of a task that Ray says has ended so."""
    from ray import exceptions

    if isinstance(error, exceptions.RayTaskError):
        if "failed to import on the worker" in str(error) or isinstance(error.cause, ImportError):
            node = re.search(r"\bip=([^\s,)]+)", str(error))
            text = f"node {node[1] if node else 'of the Ray cluster'} cannot load whenpool {__version__}"
            return "stopped", "", f"{text}: install it there, as it is on this machine"
        return "died", "", f" ({type(error.cause).__name__}: {' '.join(str(error.cause).split())})"
    reasons = {
        exceptions.OutOfMemoryError: "ended by Ray, since its node was out of memory",
        exceptions.WorkerCrashedError: "killed, or crashed",
        exceptions.NodeDiedError: "its node was lost",
        exceptions.ObjectLostError: "its node was lost",
        exceptions.TaskCancelledError: "cancelled",
    }
    for kind, reason in reasons.items():
        if isinstance(error, kind):
            return "died", "", f" ({reason})"
    return "died", "", f" ({type(error).__name__})"


def _connect(workforce: Workforce) -> bool:
    """Be in a cluster: the one named, one that this machine belongs to, or one of this machine alone.

    Returns:
        Whether it was us who connected, and not who called.
    """
    address = workforce.address or os.environ.get("RAY_ADDRESS")
    if address:
        _check_address(address)
    with variables({"RAY_USAGE_STATS_ENABLED": "0"}):
        try:
            import ray
        except ModuleNotFoundError:
            raise InputError("engine ray needs Ray: pip install 'whenpool[cluster]'") from None
        if ray.is_initialized():
            return False
        _hush()
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
    """Raises `InputError` where nobody answers, for which Ray itself takes minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise InputError(f"the address of a Ray cluster is host:port, such as head:6379, not {address}")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise InputError(
            f"no Ray cluster answers at {address} ({error.strerror or error}); start one with "
            f"`ray start --head --port={port}`, or leave the address out"
        ) from None


def _hush() -> None:
    """Keep what Ray says of each worker that has died off the terminal: the crew tells what matters.

    Ray has no option for it; where the name is gone, its lines are seen again, and nothing else.
    """
    with suppress(ImportError):
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None
