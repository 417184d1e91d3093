"""Several models of one shape trained at once, as one batch of models.

Each takes the steps that it would take alone, on batches of its own; only the recurrences of a step are
computed together (`whenpool.models.batched_lstm`), so that results equal those of
`whenpool.training.loop.train` but for the order of sums.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch, Texts
from whenpool.models.batched_lstm import encode_together
from whenpool.models.text_classifier import TextClassifier
from whenpool.training import loop

End = loop.Outcome | loop.DivergenceError  # Of a training alone: what `train` returns, or raises


def train_together(
    students: Sequence[loop.Student], device: str, on_end: Callable[[int, End], None]
) -> None:
    """Train several models by cross-entropy, each as if it were alone; ``on_end`` is called at once with the
    number of each student that ends, and its outcome or error. They may differ in pooling, start, data,
    number of texts and epochs; seconds of an outcome are its share of the time of all. Raises `InputError`
    unless all are LSTMs of one shape without DropConnect, and `torch.OutOfMemoryError`."""
    encoders = [student.model.encoder for student in students]
    if any(encoder.cell != "lstm" or encoder.drop_connect for encoder in encoders):
        raise InputError("only LSTMs without DropConnect can train together; train others alone")
    shapes = {(e.input_size, e.hidden_size, len(e.layers), e.directions) for e in encoders}
    if len(shapes) > 1:
        unlike = f"{sorted(shapes)} (E, H, layers, directions)"
        raise InputError(f"models trained together must have one shape, not {unlike}")
    active = {number: _Training(student, device) for number, student in enumerate(students)}
    while active:
        for number, training in list(active.items()):
            end = training.go_on()
            if end is not None:
                del active[number]
                on_end(number, end)
        if active:
            started = time.perf_counter()
            _step([*active.values()])
            share = (time.perf_counter() - started) / len(active)
            for training in active.values():
                training.seconds += share


class _Training:
    """A training: the batch that it asks to learn from next, the answer, and the seconds that it took."""

    def __init__(self, student: loop.Student, device: str) -> None:
        self.model: TextClassifier = student.model
        self.question: Any = None  # a batch and the numbers of its texts
        self.answer: loop.Learnt | None = None
        self.seconds, self._entered = 0.0, 0.0
        self._steps = loop.training_steps(student, device, loop.Objective(), clock=self._clock)

    def _clock(self) -> float:
        """Read inside its steps alone: what they took, and its share of those made together."""
        return self.seconds + time.perf_counter() - self._entered

    def go_on(self) -> End | None:
        """Up to the batch that it asks for next; or its outcome or error when there is none."""
        self._entered = time.perf_counter()
        try:
            self.question = self._steps.send(self.answer)
            while isinstance(self.question, Texts):
                self.question = self._steps.send(loop.evaluate(self.model, self.question))
        except StopIteration as end:
            return end.value
        except loop.DivergenceError as error:
            return error
        finally:
            self.seconds = self._clock()
        return None


def _step(trainings: Sequence[_Training]) -> None:
    """The backward pass of one batch of each, whose recurrences are computed together."""
    models = [training.model for training in trainings]
    batches: list[Batch] = [training.question[0] for training in trainings]
    encoders: list[Any] = [model.encoder for model in models]
    embedded = [model.embed(batch.ids) for model, batch in zip(models, batches, strict=True)]
    states = encode_together(encoders, embedded, [batch.lengths for batch in batches])
    losses = []
    for training, of, batch in zip(trainings, states, batches, strict=True):
        logits = training.model.classify(of, batch.lengths)  # (B, C)
        losses.append(functional.cross_entropy(logits, batch.labels))
        training.answer = losses[-1].detach(), logits.detach()
    torch.autograd.backward(losses)
