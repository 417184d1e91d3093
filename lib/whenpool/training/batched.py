"""Several models of one shape trained at once, as one batch of models.

Each takes the steps that it would take alone, on batches of its own; only the recurrences of a step are
computed together (`whenpool.models.batched_lstm`), so that results equal those of
`whenpool.training.loop.train` but for the order of sums.
"""

import time
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.models.batched_lstm import run_together
from whenpool.models.encoder import Encoder, encode_all
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import DivergenceError, Learnt, Objective, Outcome, Student, training_steps


def train_together(
    students: Sequence[Student],
    device: str = "cpu",
    on_end: Callable[[int, Outcome | DivergenceError], None] | None = None,
) -> list[Outcome | DivergenceError]:
    """Train several models by cross-entropy, each as if it were alone.

    They may differ in pooling, start, data, number of texts and epochs; seconds of an outcome are its
    share of the time of all.

    Args:
        device: where to train; the models are moved there.
        on_end: told the number of each student that ends, and its outcome or error, at once.

    Returns:
        For each its outcome, or what `train` would have raised for it.

    Raises:
        InputError: unless all are LSTMs of one shape without DropConnect.
        torch.OutOfMemoryError: when there are too many models for the device.
    """
    encoders = [student.model.encoder for student in students]
    shapes = {encoder.shape for encoder in encoders if isinstance(encoder, Encoder)}
    if len(shapes) > 1:
        raise InputError(
            f"only models of one shape are trained together, not {sorted(map(str, shapes))}"
        )
    if any(encoder.cell != "lstm" or encoder.drop_connect for encoder in encoders):
        raise InputError("only LSTMs without DropConnect are trained together; train others alone")
    ended: dict[int, Outcome | DivergenceError] = {}
    active = {number: _Training(student, device) for number, student in enumerate(students)}
    while active:
        for number, training in list(active.items()):
            end = training.go_on()
            if end is not None:
                ended[number] = end
                del active[number]
                if on_end:
                    on_end(number, end)
        if active:
            _step(list(active.values()))
    return [ended[number] for number in range(len(students))]


class _Training:
    """One of them: its steps, where it stands, and the seconds that it took."""

    def __init__(self, student: Student, device: str) -> None:
        self.model: TextClassifier = student.model
        self.batch: Batch
        self.learnt: Learnt | None = None
        self.seconds, self._entered = 0.0, 0.0
        self._steps = training_steps(student, device, Objective(), clock=self._clock)

    def _clock(self) -> float:
        """Read inside its steps alone: what they took, and its share of those made together."""
        return self.seconds + time.perf_counter() - self._entered

    def go_on(self) -> Outcome | DivergenceError | None:
        """Up to its next batch; or its outcome or error when there is none."""
        self._entered = time.perf_counter()
        try:
            self.batch, _ = self._steps.send(self.learnt)
        except StopIteration as end:
            return end.value
        except DivergenceError as error:
            return error
        finally:
            self.seconds = self._clock()
        return None


def _step(trainings: Sequence[_Training]) -> None:
    """The backward pass of one batch of each."""
    started = time.perf_counter()
    encoders = [t.model.encoder for t in trainings if isinstance(t.model.encoder, Encoder)]  # all
    embedded = [t.model.embed(t.batch.ids) for t in trainings]
    states = encode_all(encoders, embedded, [t.batch.lengths for t in trainings], run_together)
    losses = []
    for training, of in zip(trainings, states, strict=True):
        logits = training.model.classify(of, training.batch.lengths)
        losses.append(functional.cross_entropy(logits, training.batch.labels))
        training.learnt = (losses[-1].detach(), logits.detach())
    torch.autograd.backward(losses)
    share = (time.perf_counter() - started) / len(trainings)
    for training in trainings:
        training.seconds += share
