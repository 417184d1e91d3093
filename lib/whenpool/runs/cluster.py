"""Workers on the nodes of a Ray cluster. A node executes the runs of a task as any worker does, in a folder
of its own, and sends back what they leave; it needs no store.
"""

import logging
import os
import platform
import socket
import tempfile
from concurrent.futures import Future
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError, StorageError, check
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory, variables
from whenpool.base.version import __version__
from whenpool.runs.run import ENGINE, Place, key
from whenpool.runs.store import Store
from whenpool.runs.workforce import (
    Job,
    Result,
    Task,
    Workforce,
    check_device,
    do,
    prepare_process,
    processors,
    worker_variables,
)


def perform(
    version: str, task: Task, workforce: Workforce, weights: dict[str, bytes], data: Path, cache: Path
) -> Result:
    """Do a task on a node, with the ``weights`` that its runs need, as safetensors by key; it reads the
    sender's folders where it has them too. Raises `InputError` where no other task could be done there."""
    node = f"node {platform.node()}"
    both = f"{node} has whenpool {__version__}, but this machine {version}"
    check(version == __version__, f"{both}; install the same version on both")
    prepare_process()
    ENGINE[0] = "ray"
    if "WHENPOOL_CACHE" not in os.environ and cache.is_dir():
        os.environ["WHENPOOL_CACHE"] = str(cache)  # where fingerprints are looked up
    with tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True) as folder:
        store = Store(Path(folder))
        place = Place(store, data if data.is_dir() else data_directory(), cache_directory())
        if fault := next(filter(None, (_fault(job, place) for job in task)), ""):
            return Result({job.key: f"{node} {fault}" for job in task})
        try:
            check_device(workforce.device)
            for name, content in weights.items():
                write_atomically(store.weights_file(name), content)
            result = do(task, place, workforce.device, workforce.precision)
        except (InputError, StorageError) as error:
            raise InputError(f"{node}: {error}") from None
        files = [(file, store.weights_file(file.stem)) for file in Path(folder).glob("*.json")]
        stored = (
            (file.stem, file.read_bytes(), kept.read_bytes() if kept.exists() else None)
            for file, kept in files
        )
        return result._replace(stored=tuple(stored))


def _fault(job: Job, place: Place) -> str:
    """Why a run is not the same on this node as where it comes from, or ""."""
    try:
        same = key(job.run, place) == job.key
    except InputError as error:
        return f"cannot read what the run needs: {error}"
    advice = f"make {place.data} the same there, or let WHENPOOL_DATA name another folder"
    return "" if same else f"has other data than this machine; {advice}"


class RayPool:
    """As many tasks at a time as the cluster has room for, or ``workforce.workers``; these are shared out
    evenly over its GPUs, one on each where no number is given. See `whenpool.runs.engine.LocalPool`."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        self._place, self._workforce = place, workforce
        self._sent: dict[Future[Any], Any] = {}  # references to results
        self._ours = _connect(workforce)
        import ray

        self._ray = ray
        self._needs = {"CPU": 1.0}  # what a task takes of its node
        if workforce.device.startswith("cuda"):
            gpus = int(ray.cluster_resources().get("GPU", 0))
            if not gpus:
                self.close()
                raise InputError("no node of the Ray cluster has a GPU; use --device cpu")
            self._needs["GPU"] = int(1e4 / ceil((workforce.workers or gpus) / gpus)) / 1e4
        parts = {f"num_{name.lower()}s": part for name, part in self._needs.items()}
        environment = {"env_vars": worker_variables()}
        self._perform = ray.remote(perform).options(max_retries=0, runtime_env=environment, **parts)

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
        files = {name: self._place.store.weights_file(name) for name in needed}
        weights = {name: file.read_bytes() for name, file in files.items() if file.exists()}
        folders = self._place.data.absolute(), self._place.cache.absolute()
        reference = self._perform.remote(__version__, task, self._workforce, weights, *folders)
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
                cannot = f"a node of the Ray cluster cannot load whenpool {__version__}"
                raise InputError(f"{cannot}; install it there as on this machine: {error}") from None
            return Result(death=f"{type(error.cause).__name__}: {' '.join(str(error.cause).split())}")
        except (exceptions.NodeDiedError, exceptions.ObjectLostError):
            return Result(death="")
        except exceptions.RayError as error:
            return Result(death=type(error).__name__)
        for stored in result.stored:
            self._place.store.write(*stored)
        return result

    def close(self) -> None:
        ray = self._ray
        with suppress(ray.exceptions.RayError):  # the cluster may be what was lost
            for reference in (sent := list(self._sent.values())):
                ray.cancel(reference)
            for reference in ray.wait(sent, num_returns=len(sent), timeout=10.0)[1] if sent else ():
                ray.cancel(reference, force=True)  # it did not end by itself, and tidy up
        if self._ours:
            ray.shutdown()


def _connect(workforce: Workforce) -> bool:
    """Be in a cluster: that named, this machine's, or one of it alone; returns whether we connected."""
    address = workforce.address or os.environ.get("RAY_ADDRESS")
    where = f"at {address}" if address else "of this machine"
    with variables({"RAY_USAGE_STATS_ENABLED": "0"}):
        try:
            import ray
        except ModuleNotFoundError:
            raise InputError("engine ray needs Ray: pip install 'whenpool[cluster]'") from None
        if ray.is_initialized():
            return False
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if address not in (None, "", "auto", "local"):  # Ray takes minutes to find out
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=5).close()
            try:
                ray.init(address or "auto", **options)
            except ConnectionError:
                if address:
                    raise
                count = workforce.workers or processors()
                ray.init("local", num_cpus=count, include_dashboard=False, **options)
        except Exception as error:  # of many kinds, some of them plain
            advice = "start one with `ray start --head --port=6379`, and name it as head:6379"
            raise InputError(f"the Ray cluster {where} cannot be used: {error}; {advice}") from None
    return True
