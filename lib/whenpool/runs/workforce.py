"""What executes runs: a `Workforce`, the tasks that it is given, and what a worker does with one."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from whenpool.base.errors import InputError, StorageError, check, check_known
from whenpool.base.memory import give_back_freed_memory, keep_freed_memory
from whenpool.models.precision import PRECISIONS, precision, processor_has_bfloat16
from whenpool.runs.kinds.training import execute_batched
from whenpool.runs.run import Place, Run, commit

OPTIONS = ("engine", "address", "workers", "device", "models_per_batch", "precision")
VARIABLES = {  # where the user has not set them
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # cuBLAS gives the same bits each time
    # no batch is as long as the last one: pieces of a GPU's memory that can grow are used again
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
}


@dataclass(frozen=True)
class Workforce:
    """What executes runs. It changes no run, and is part of the provenance of each result."""

    engine: str = "local"  # processes on this machine, or "ray", a cluster
    address: str | None = None  # of the Ray cluster; None: this machine's, or one of it alone
    workers: int | None = None  # None: one a processor, two a GPU; on a cluster all that fit
    device: str = "cpu"  # or "cuda"
    models_per_batch: int | None = None  # of one shape, trained as one batch, at most; None: 1
    precision: str = "float32"  # a name in `whenpool.models.precision.PRECISIONS`
    until: float | None = None  # `time.monotonic` when all stops

    @classmethod
    def default(cls) -> "Workforce":
        """The one that ``WHENPOOL_ENGINE`` and so on name, for notebooks, which have no options."""
        options: dict[str, Any] = {}
        for name in OPTIONS:
            if value := os.environ.get(variable := f"WHENPOOL_{name.upper()}"):
                options[name] = value
                if name in ("workers", "models_per_batch"):
                    right = value.isdecimal() and int(value) >= 1
                    check(right, f"{variable} must be a whole number from 1, not {value!r}")
                    options[name] = int(value)
        return cls(**options)

    def variables(self) -> dict[str, str]:
        """The environment that `default` reads, for the processes that are started."""
        options = {name: getattr(self, name) for name in OPTIONS}
        return {f"WHENPOOL_{name.upper()}": str(v) for name, v in options.items() if v is not None}

    def check(self, here: bool = True) -> None:
        """Raises `InputError` for an unknown engine, device or precision, or for a GPU or bfloat16 that is
        needed ``here`` and is not."""
        check_known("engine", self.engine, ("local", "ray"))
        alone = "only a Ray cluster has an address; add --engine ray or leave it out"
        check(self.engine == "ray" or not self.address, alone)
        check_known("precision", self.precision, PRECISIONS)
        here = here and self.engine == "local"
        check_device(self.device, here)
        rounds = here and (self.precision, self.device) == ("bfloat16", "cpu")
        lacks = "this processor has no bfloat16; use --precision float32"
        check(not rounds or processor_has_bfloat16(), lacks)


def check_device(device: str, here: bool = True) -> None:
    """Raises `InputError` for an unknown device, or for CUDA that is needed ``here`` and is not."""
    on_gpu = re.fullmatch(r"cuda(:\d+)?", device)
    check(on_gpu or device == "cpu", f"device {device!r} is unknown; choose cpu or cuda")
    there = not (on_gpu and here) or torch.cuda.is_available()
    check(there, "device cuda was asked for, but torch sees no GPU; use --device cpu")


def processors() -> int:
    """How many processors this process may use, which a container can limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Job(NamedTuple):
    """A run that is not stored yet."""

    run: Run
    key: str
    keep_weights: bool = False


Task = tuple[Job, ...]  # What one worker does in one go: a run, or several trainings together


class Result(NamedTuple):
    """How a task ended, beside the runs that it has stored."""

    failures: Mapping[str, str] = {}  # why runs have failed, by key
    death: str | None = None  # what became of its process, "" where that says nothing of the runs
    stored: tuple[tuple[str, bytes, bytes | None], ...] = ()  # elsewhere: keys, files, weights if kept


def do(task: Task, place: Place, device: str, precision_name: str = "float32") -> Result:
    """Execute and store the runs of a task. What is left of several is tried again in smaller tasks."""
    failures: dict[str, str] = {}  # by key, "" for none

    def end(number: int, failure: str) -> None:
        failures[task[number].key] = failure

    try:
        with precision(precision_name):
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
        if len(task) == 1:
            reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            if isinstance(error, torch.OutOfMemoryError):
                reason = "the GPU has too little memory; free some, or use --device cpu"
            end(0, " ".join(reason.split()))
    give_back_freed_memory()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return Result({name: failure for name, failure in failures.items() if failure})


def set_up() -> None:
    """What every process does before its first task."""
    torch.set_num_threads(1)  # so that a result does not depend on how many workers there are
    keep_freed_memory()
    commit()  # of the code that this process has loaded, asked for before anything can change
