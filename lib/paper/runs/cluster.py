"""Workers on a Ray cluster. The nodes need no store; they send back what runs leave."""

import logging
import math
import os
import platform
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from paper.runs.engine import VARIABLES, Task, WorkerDiedError, Workforce, do, set_up
from paper.runs.run import Place, key
from paper.runs.store import Store
from whenpool.base.devices import check_device
from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory


class Sent(NamedTuple):
    """What a node sends back of a task."""

    failures: Mapping[str, str]  # why runs have failed, by key
    stored: Sequence[tuple[str, bytes, bytes | None]] = ()  # keys, files, weights if kept


def perform(
    task: Task, workforce: Workforce, weights: dict[str, bytes], data: Path, cache: Path
) -> Sent:
    """Do a task on a node, in a folder of its own, with the ``weights`` that its runs need, as
    safetensors by key; it reads the sender's folders where it has them too. Raises `InputError`
    where no other task could be done there."""
    node = f"node {platform.node()}"
    set_up()
    if "WHENPOOL_CACHE" not in os.environ and cache.is_dir():
        os.environ["WHENPOOL_CACHE"] = str(cache)  # where fingerprints are looked up
    with tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True) as folder:
        store = Store(Path(folder))
        place = Place(store, data if data.is_dir() else data_directory(), cache_directory(), "ray")
        advice = f"make {place.data} the same there, or let WHENPOOL_DATA name another folder"
        try:  # each run must be the same here as where it comes from
            same = all(key(job.run, place) == job.key for job in task)
            fault = "" if same else f"has other data than this machine; {advice}"
        except InputError as error:
            fault = f"cannot read what the run needs: {error}"
        if fault:
            return Sent({job.key: f"{node} {fault}" for job in task})
        try:
            check_device(workforce.device)
            for name, content in weights.items():
                write_atomically(store.weights_file(name), content)
            failures = do(task, place, workforce.device, workforce.precision)
        except InputError as error:  # such as a disk that is full
            raise InputError(f"{node}: {error}") from None
        rows = [(file.stem, file.read_bytes()) for file in Path(folder).glob("*.json")]
        kept = {file.stem: file.read_bytes() for file in Path(folder).glob("*.safetensors")}
        return Sent(failures, [(name, row, kept.get(name)) for name, row in rows])


class Cluster:
    """A Ray cluster: as many workers as it has room for, or ``workforce.workers``; these are shared
    out evenly over its GPUs, one on each where no number is given."""

    def __init__(self, place: Place, workforce: Workforce) -> None:
        self.place, self._workforce = place, workforce
        self._ours = _connect(workforce)
        import ray

        self.ray = ray
        self._needs = {"CPU": 1.0}  # what a task takes of its node
        if workforce.on_gpu:
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

    def room(self) -> int:
        try:
            have = self.ray.cluster_resources()
        except self.ray.exceptions.RayError as error:
            raise InputError(f"the Ray cluster was lost ({error}); start again to go on") from None
        room = min(int(have.get(name, 0) / part) for name, part in self._needs.items())
        # there is always one, which waits in Ray's own queue where no node is left
        return max(1, min(room, self._workforce.workers or room))

    def begin(self) -> "RayWorker":
        return RayWorker(self)

    def send(self, task: Task) -> Any:
        """Hand a task to Ray; returns the reference to what comes back."""
        needed = {key(job.run.needs, self.place) for job in task if job.run.needs}
        files = map(self.place.store.weights_file, needed)
        weights = {file.stem: file.read_bytes() for file in files if file.exists()}
        folders = self.place.data.absolute(), self.place.cache.absolute()
        return self._perform.remote(task, self._workforce, weights, *folders)

    def close(self) -> None:
        if self._ours:
            self.ray.shutdown()


class RayWorker:
    """Lets any node do a task, see `paper.runs.engine.crew_of`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._reference = cluster, None
        self._task: Task = ()

    def send(self, task: Task) -> None:
        self._task, self._reference = task, self._cluster.send(task)

    def receive(self) -> Mapping[str, str]:
        """Raises `InputError` where all other tasks would end like it."""
        ray, store = self._cluster.ray, self._cluster.place.store
        try:
            sent: Sent = ray.get(self._reference)
        except ray.exceptions.RayTaskError as error:  # no run's own, which `do` reports
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            advice = "install the same version of whenpool there as on this machine"
            raise InputError(f"a node of the Ray cluster cannot work ({error}); {advice}") from None
        except ray.exceptions.RayError as error:
            raise WorkerDiedError(type(error).__name__) from None
        asked = {job.key for job in self._task}
        # also what a run of the task needs, which may be on record here
        for name, content, weights in sent.stored:
            if name in asked or not store.has(name):
                store.write(name, content, weights)
        return sent.failures

    def stop(self) -> None:
        if self._reference is not None:
            with suppress(self._cluster.ray.exceptions.RayError):  # it may be what was lost
                self._cluster.ray.cancel(self._reference)  # so that it tidies up


def _connect(workforce: Workforce) -> bool:
    """Be in the cluster that is named, or in this machine's; returns whether we connected."""
    address = workforce.address or os.environ.get("RAY_ADDRESS") or "auto"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError("engine ray needs Ray: pip install -e 'lib/paper[cluster]'") from None
    if ray.is_initialized():
        return False
    try:
        if address not in ("auto", "local"):  # Ray takes minutes to find out
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=5).close()
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # of many kinds, some of them plain
        where = "of this machine" if address == "auto" else f"at {address}"
        advice = "start one with `ray start --head --port=6379`, and name it as head:6379"
        raise InputError(f"the Ray cluster {where} cannot be used: {error}; {advice}") from None
    return True
