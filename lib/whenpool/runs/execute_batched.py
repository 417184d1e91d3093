"""How several trainings are executed at once and stored one by one."""

from collections.abc import Callable, Sequence

from whenpool.base.files import hash_of
from whenpool.runs.execute_training import prepare, recipe_of, store_training
from whenpool.runs.provenance import Company
from whenpool.runs.training_run import Place, Training, key
from whenpool.training.batched import Student, train_together
from whenpool.training.loop import DivergenceError, Outcome


def execute_together(
    runs: Sequence[Training],
    place: Place,
    device: str = "cpu",
    keep_weights: Sequence[bool] | None = None,
    on_epoch: Callable[[int], None] = lambda number: None,
    on_end: Callable[[int, str], None] = lambda number, failure: None,
) -> None:
    """Train several models at once, and store each when it ends, beside how many and which they were.

    Args:
        runs: trainings of one shape without tricks, see `whenpool.training.batched.train_together`.
        keep_weights: of which the weights are wanted.
        on_epoch: told the number of a run of which an epoch has ended.
        on_end: told the number of a run that has ended, and why it failed, or "".

    Raises:
        InputError: for data that cannot be read, too few texts, or models of different shape.
        StorageError: when the store cannot be written.
        torch.OutOfMemoryError: when there are too many models for the device.
    """
    kept = keep_weights or [False] * len(runs)
    group = hash_of(*sorted(key(run, place) for run in runs))[:8]
    prepared = [prepare(run, place) for run in runs]
    students = [
        Student(
            part.model,
            part.dataset,
            recipe_of(run),
            run.seed,
            on_epoch=lambda _, number=number: on_epoch(number),  # type: ignore[misc]
        )
        for number, (run, part) in enumerate(zip(runs, prepared, strict=True))
    ]

    def end(number: int, outcome: Outcome | DivergenceError) -> None:
        if isinstance(outcome, DivergenceError):
            on_end(number, str(outcome))
            return
        company = Company(len(runs), group)
        store_training(runs[number], prepared[number], outcome, place, device, kept[number], company)
        on_end(number, "")

    train_together(students, device, end)
