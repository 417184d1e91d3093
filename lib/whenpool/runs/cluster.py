"""Workers on the nodes of a Ray cluster. A node executes the runs of a task as any worker does, in a folder
of its own, and sends back what they leave; it needs no store.
"""

import logging
import os
import platform
import re
import socket
import tempfile
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError, StorageError, check
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory, variables
from whenpool.base.version import __version__
from whenpool.models.precision import precision
from whenpool.runs.run import ENGINE, Place, key
from whenpool.runs.store import Store, key_of
from whenpool.runs.workforce import (
    WORKER_VARIABLES,
    Job,
    Result,
    Task,
    Workforce,
    check_device,
    do,
    prepare_process,
    processors,
)

_LOOK, _GRACE = 2.0, 10.0  # Seconds between looks at the nodes, and for cancelled tasks to end


@dataclass(frozen=True)
class Order:
    """A task on its way to a node."""

    task: Task
    workforce: Workforce
    identities: dict[str, dict[str, Any]]  # of the runs, as the sender sees them, by key
    weights: dict[str, bytes]  # of the trainings that the runs need, as safetensors, by key
    data: Path  # the sender's folders, which the node reads where it has them too
    cache: Path


def perform(version: str, order: Order) -> Result:
    """Do a task on a node. Raises `InputError` where no other task could be done there."""
    node = f"node {platform.node()}"
    both = f"{node} has whenpool {__version__}, but this machine {version}"
    check(version == __version__, f"{both}; install the same version on both")
    prepare_process()
    ENGINE[0] = "ray"
    if "WHENPOOL_CACHE" not in os.environ and order.cache.is_dir():
        os.environ["WHENPOOL_CACHE"] = str(order.cache)  # where fingerprints are looked up
    data = order.data if order.data.is_dir() else data_directory()
    with tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True) as folder:
        place = Place(Store(Path(folder)), data, cache_directory())
        try:
            check_device(order.workforce.device)
            for name, weights in order.weights.items():
                write_atomically(place.store.weights_file(name), weights)
            faults = {job.key: _fault(job, order, place) for job in order.task}
            able = tuple(job for job in order.task if not faults[job.key])
            with precision(order.workforce.precision):
                result = do(able, place, order.workforce.device) if able else Result()
        except (InputError, StorageError) as error:
            raise InputError(f"{node}: {error}") from None
        stored = []
        # a trace leaves its training as well, which goes first
        files, asked = Path(folder).glob("*.json"), {job.key for job in order.task}
        for file in sorted(files, key=lambda file: file.stem in asked):
            weights_file = place.store.weights_file(file.stem)
            kept = weights_file.read_bytes() if weights_file.exists() else None
            stored.append((file.stem, file.read_bytes(), kept))
        failures = {name: f"{node} {fault}" for name, fault in faults.items() if fault}
        return result._replace(failures=failures | dict(result.failures), stored=tuple(stored))


def _fault(job: Job, order: Order, place: Place) -> str:
    """Why a run is not the same on this node as where it comes from, or ""."""
    expected = order.identities[job.key]["data"]
    try:
        identity = job.run.identity(place)
    except InputError as error:
        return f"cannot read what the run needs: {error}"
    if other := [name for name, value in expected.items() if identity["data"].get(name) != value]:
        advice = f"make {place.data} the same there, or let WHENPOOL_DATA name another folder"
        return f"has another {' and '.join(other)} than this machine; {advice}"
    if key_of(identity) != job.key:
        return "understands the run differently; install the same whenpool there"
    return ""


class RayPool:
    """As many tasks at a time as the cluster has room for, or ``workforce.workers``; these are shared out
    evenly over its GPUs, one on each where no number is given. See `whenpool.runs.engine.LocalPool`."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        self._place, self._workforce = place, workforce
        self._sent: dict[Future[Any], Any] = {}  # references to results
        self._room, self._looked = 0, -_LOOK
        self._ours = _connect(workforce)
        import ray

        self._ray = ray
        self._needs = {"CPU": 1.0}  # what a task takes of its node
        if workforce.device.startswith("cuda"):
            gpus = sum(int(node.get("GPU", 0)) for node in self._nodes())
            if not gpus:
                self.close()
                raise InputError("no node of the Ray cluster has a GPU; use --device cpu")
            sharing = ceil((workforce.workers or gpus) / gpus)
            self._needs["GPU"] = int(1e4 / sharing) / 1e4  # Ray counts in parts of 10,000
        given = {name: os.environ.get(name, value) for name, value in WORKER_VARIABLES.items()}
        self._perform = ray.remote(perform).options(
            max_retries=0,
            runtime_env={"env_vars": given},
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
        try:
            return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        except self._ray.exceptions.RayError as error:
            raise InputError(f"the Ray cluster was lost ({error}); start again to go on") from None

    def submit(self, task: Task) -> Future[Any]:
        needed = {key(job.run.needs, self._place) for job in task if job.run.needs}
        files = {name: self._place.store.weights_file(name) for name in needed}
        order = Order(
            task, self._workforce,
            {job.key: job.run.identity(self._place) for job in task},
            {name: file.read_bytes() for name, file in files.items() if file.exists()},
            self._place.data.absolute(), self._place.cache.absolute(),
        )  # fmt: skip
        reference = self._perform.remote(__version__, order)
        future: Future[Any] = reference.future()
        self._sent[future] = reference
        return future

    def result(self, future: Future[Any]) -> Result:
        """How a task ended. Raises `InputError` where all others would end like it."""
        del self._sent[future]
        exceptions = self._ray.exceptions
        try:
            result: Result = future.result()
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            if "failed to import on the worker" in str(error) or isinstance(error.cause, ImportError):
                address = re.search(r"\bip=([^\s,)]+)", str(error))
                node = address[1] if address else "of the Ray cluster"
                text = f"node {node} cannot load whenpool {__version__}; install it there as on this machine"
                raise InputError(text) from None
            return Result(death=f"{type(error.cause).__name__}: {' '.join(str(error.cause).split())}")
        except (exceptions.NodeDiedError, exceptions.ObjectLostError):
            return Result(death="")
        except exceptions.RayError as error:
            return Result(death=type(error).__name__)
        failures = dict(result.failures)
        for name, content, weights in result.stored:
            try:
                self._place.store.adopt(name, content, weights)
            except StorageError:
                raise
            except InputError as error:
                failures[name] = str(error)
        return result._replace(failures=failures)

    def close(self) -> None:
        ray = self._ray
        with suppress(ray.exceptions.RayError):  # the cluster may be what was lost
            for reference in (sent := list(self._sent.values())):
                ray.cancel(reference)
            if sent:
                _, working = ray.wait(sent, num_returns=len(sent), timeout=_GRACE)
                for reference in working:
                    ray.cancel(reference, force=True)
        if self._ours:
            ray.shutdown()


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
