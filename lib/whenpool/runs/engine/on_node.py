"""What a node of a cluster does with a task.

It executes the runs as any worker does, in a folder of their own that goes when the task ends, and
sends what they leave back while it works: a node needs no store.
"""

import os
import platform
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from whenpool.base.errors import InputError, StorageError
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.base.version import __version__
from whenpool.runs.engine.tasks import Job, Task
from whenpool.runs.engine.work import Message, do
from whenpool.runs.engine.workforce import Workforce, check_device
from whenpool.runs.store import Store, key_of
from whenpool.runs.training_run import Place

_AWAKE = 0.2
"""Seconds: Ray's cancellation reaches a process only while it is not asleep."""


@dataclass(frozen=True)
class Order:
    """A task on its way to a node.

    Attributes:
        identities: of the runs, as the sender sees them, by key.
        weights: of the trainings that the runs need, as safetensors, by key.
        data, cache: the sender's folders, which the node reads where it has them too.
    """

    task: Task
    workforce: Workforce
    identities: dict[str, dict[str, Any]]
    weights: dict[str, bytes]
    data: Path
    cache: Path


@dataclass(frozen=True)
class Stored:
    """A finished run on its way back: its file as it was stored, and its weights if they were kept."""

    key: str
    content: bytes
    weights: bytes | None


Letter = tuple[Message, tuple[Stored, ...]]
"""What a node says, and the runs that were stored since it last said something."""


def perform(version: str, order: Order) -> Iterator[Letter]:
    """Do a task, and tell how it goes while it is done.

    Args:
        version: the sender's; another one's order might not be understood.
    """
    if version != __version__:
        text = f"node {platform.node()} has whenpool {__version__}, this machine {version}"
        yield Message("stopped", text=f"{text}: install the same version on both"), ()
        return
    letters: SimpleQueue[Letter | BaseException | None] = SimpleQueue()
    folder = tempfile.TemporaryDirectory(prefix="whenpool-", ignore_cleanup_errors=True)
    with folder:
        Thread(target=_work, args=(order, Path(folder.name), letters.put), daemon=True).start()
        try:
            while (letter := _next(letters)) is not None:
                if isinstance(letter, BaseException):
                    raise letter
                yield letter
        except KeyboardInterrupt:  # cancelled, and the thread would work on
            folder.cleanup()
            os._exit(1)


def _next(letters: "SimpleQueue[Letter | BaseException | None]") -> Letter | BaseException | None:
    while True:
        try:
            return letters.get(timeout=_AWAKE)
        except Empty:
            continue


def _work(order: Order, folder: Path, send: Callable[[Letter | BaseException | None], None]) -> None:
    """Send letters, at the end None; what is no run's failure is sent as the exception that it is."""
    import torch

    from whenpool.models.precision import precision
    from whenpool.runs.provenance import commit, engine_is

    torch.set_num_threads(1)
    commit()  # of the code that this process has loaded, asked for before anything can change
    engine_is("ray")
    try:
        with precision(order.workforce.precision):
            _do(order, Place(Store(folder), *_folders(order)), send)
    except BaseException as error:
        send(error)
    send(None)


def _folders(order: Order) -> tuple[Path, Path]:
    """Where this node finds data and cache: at the sender's paths where it has them, else its own."""
    if "WHENPOOL_CACHE" not in os.environ and order.cache.is_dir():
        os.environ["WHENPOOL_CACHE"] = str(order.cache)  # fingerprints are looked up there as well
    return order.data if order.data.is_dir() else data_directory(), cache_directory()


def _do(order: Order, place: Place, send: Callable[[Letter], None]) -> None:
    store, node = place.store, platform.node()
    sent: set[str] = set()

    def say(message: Message) -> None:
        new = []
        if message.kind == "done":
            for file in sorted(
                store.directory.glob("*.json"), key=lambda file: file.stem == message.key
            ):
                if file.stem not in sent:  # a trace leaves its training as well, which goes first
                    sent.add(file.stem)
                    weights = store.weights_file(file.stem)
                    kept = weights.read_bytes() if weights.exists() else None
                    new.append(Stored(file.stem, file.read_bytes(), kept))
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
        if reason := _unlike(job, place, order.identities[job.key]):
            say(Message("failed", job.key, f"node {node} {reason}"))
        else:
            able.append(job)
    if able:
        do(tuple(able), place, order.workforce.device, say)


def _unlike(job: Job, place: Place, expected: dict[str, Any]) -> str:
    """Why a run would be another one on this node, or ""."""
    try:
        identity = job.run.identity(place)
    except InputError as error:
        return f"cannot read what the run needs: {error}"
    if key_of(identity) == job.key:
        return ""
    data = expected["data"]
    other = [name for name in data if identity["data"].get(name) != data[name]]
    if not other:
        return "takes the run for another: install the same whenpool there"
    return (
        f"has another {' and '.join(other)} than this machine: make {place.data} the same there, or let "
        "its WHENPOOL_DATA name a folder that is"
    )
