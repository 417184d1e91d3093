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

from whenpool.base.errors import InputError, check
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory, variables
from whenpool.base.version import __version__
from whenpool.runs.engine import VARIABLES, Result, Task, Workforce, check_device, do, set_up
from whenpool.runs.run import ENGINE, Place, key
from whenpool.runs.store import Store


def perform(
    version: str, task: Task, workforce: Workforce, weights: dict[str, bytes], data: Path, cache: Path
) -> Result:
    """Do a task on a node, with the ``weights`` that its runs need, as safetensors by key; it reads the
    sender's folders where it has them too. Raises `InputError` where no other task could be done there."""
    node = f"node {platform.node()}"
    both = f"{node} has whenpool {__version__}, but this machine {version}"
    check(version == __version__, f"{both}; install the same version on both")
    set_up()
    ENGINE[0] = "ray"
    if "WHENPOOL_CACHE" not in os.environ and cache.is_dir():
        os.environ["WHENPOOL_CACHE"] = str(cache)  # where fingerprints are looked up
    with tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True) as folder:
        store = Store(Path(folder))
        place = Place(store, data if data.is_dir() else data_directory(), cache_directory())
        for job in task:  # each must be the same here as where it comes from
            try:
                advice = f"make {place.data} the same there, or let WHENPOOL_DATA name another folder"
                other = f"has other data than this machine; {advice}" * (key(job.run, place) != job.key)
            except InputError as error:
                other = f"cannot read what the run needs: {error}"
            if other:
                return Result({each.key: f"{node} {other}" for each in task})
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
        self._perform = ray.remote(perform).options(
            num_cpus=1, num_gpus=self._needs.get("GPU"), max_retries=0,
            runtime_env={"env_vars": {n: os.environ.get(n, v) for n, v in VARIABLES.items()}},
        )  # fmt: skip

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
        reference = self._perform.remote(__version__, task, self._workforce, weights, *folders)
        self._sent[future := reference.future()] = reference
        return future

    def result(self, future: Future[Any]) -> Result:
        """How a task ended. Raises `InputError` where all others would end like it."""
        del self._sent[future]
        try:
            result: Result = future.result()
        except self._ray.exceptions.RayTaskError as error:  # no run's own, which `do` reports
            if isinstance(error.cause, InputError):
                raise InputError(str(error.cause)) from None
            advice = f"install whenpool {__version__} there as on this machine"
            raise InputError(f"a node of the Ray cluster cannot work ({error}); {advice}") from None
        except self._ray.exceptions.RayError as error:
            return Result(death=type(error).__name__)
        for stored in result.stored:
            self._place.store.write(*stored)
        return result

    def close(self) -> None:
        with suppress(self._ray.exceptions.RayError):  # the cluster may be what was lost
            for reference in (sent := list(self._sent.values())):
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
        raise InputError("engine ray needs Ray: pip install 'whenpool[cluster]'") from None
    if ray.is_initialized():
        return False
    try:
        with variables({"RAY_USAGE_STATS_ENABLED": "0"}):
            if address not in ("auto", "local"):  # Ray takes minutes to find out
                host, _, port = address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # of many kinds, some of them plain
        where = "of this machine" if address == "auto" else f"at {address}"
        advice = "start one with `ray start --head --port=6379`, and name it as head:6379"
        raise InputError(f"the Ray cluster {where} cannot be used: {error}; {advice}") from None
    return True
