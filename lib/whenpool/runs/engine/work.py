"""What a worker does with a task, wherever it is."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from whenpool.base.errors import InputError, StorageError
from whenpool.runs.engine.tasks import Job, Task, halves
from whenpool.runs.execute import execute
from whenpool.runs.execute_batched import execute_together
from whenpool.runs.training_run import Place


class Message(NamedTuple):
    """What is told of a run: that it was begun, an epoch of it ended, it is "done", it "failed"; or of
    all: a "note", that nothing can be stored ("stopped"), that the worker is "idle" or has "died"."""

    kind: str
    key: str = ""
    text: str = ""


def do(task: Task, place: Place, device: str, say: Callable[[Message], None]) -> None:
    """Execute and store the runs of a task, and say how it goes.

    Several that are too much for the memory of a GPU are tried again, half of them at a time.

    Raises:
        DeviceLostError: when the GPU can no longer be used by this process.
    """
    for job in task:
        say(Message("begun", job.key))
    open_jobs = {job.key: job for job in task}

    def ended(job: Job, kind: str, text: str = "") -> None:
        del open_jobs[job.key]
        say(Message(kind, job.key, text))

    again: list[Task] = []
    try:
        if len(task) == 1:
            job = task[0]
            execute(job.run, place, device, job.keep_weights, lambda: say(Message("epoch", job.key)))
            ended(job, "done")
        else:
            execute_together(
                [job.run for job in task],  # type: ignore[misc]
                place,
                device,
                [job.keep_weights for job in task],
                on_epoch=lambda number: say(Message("epoch", task[number].key)),
                on_end=lambda number, failure: ended(
                    task[number], "failed" if failure else "done", failure
                ),
            )
    except StorageError as error:
        say(Message("stopped", text=str(error)))
    except Exception as error:  # a run that fails must not stop the others
        if _is_broken(error):
            raise DeviceLostError(str(error)) from None
        rest = tuple(open_jobs.values())
        if _is_out_of_memory(error) and len(task) > 1:
            say(Message("note", text=_too_much(task)))
            again = halves(rest) if len(rest) == len(task) else [rest]
        elif _is_out_of_memory(error):
            ended(
                task[0], "failed", "the GPU has too little memory for it; free some, or use --device cpu"
            )
        elif len(task) > 1:  # each says what is wrong with itself
            again = [(job,) for job in rest]
        else:
            told = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            ended(task[0], "failed", " ".join(told.split()))
    # not while the error is handled: it holds on to the models that were too many
    if again and torch.cuda.is_available():
        torch.cuda.empty_cache()
    for part in again:
        do(part, place, device, say)


class DeviceLostError(RuntimeError):
    """A GPU that computes nothing more for this process: another one may try again."""


def _is_out_of_memory(error: Exception) -> bool:
    """cuBLAS and cuDNN, and a card that others fill as well, say so in words of their own."""
    told = ("CUDA error: out of memory", "ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in told)


def _is_broken(error: Exception) -> bool:
    kind = getattr(torch, "AcceleratorError", ())  # torch has it since 2.8
    return isinstance(error, kind) and not _is_out_of_memory(error)


def _too_much(task: Task) -> str:
    return (
        f"{len(task)} models at once were too much for the memory of the GPU; half as many were "
        "trained at a time instead."
    )
