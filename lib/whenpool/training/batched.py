"""Several models of one shape trained at once, as one batch of models.

Each takes the steps that it would take alone, on batches of its own; only the recurrences of a step, and
on a GPU those of an evaluation, are computed together (`whenpool.models.batched_lstm`), so that results
equal those of `whenpool.training.loop.train` but for the order of sums.
"""

import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import PADDING_INDEX, Batch, Texts, batches_for
from whenpool.models.batched_lstm import run_together
from whenpool.models.encoder import Encoder, encode_all
from whenpool.models.text_classifier import TextClassifier
from whenpool.training import loop


def train_together(
    students: Sequence[loop.Student],
    device: str = "cpu",
    on_end: Callable[[int, loop.Outcome | loop.DivergenceError], None] | None = None,
) -> list[loop.Outcome | loop.DivergenceError]:
    """Train several models by cross-entropy, each as if it were alone; gives for each its outcome, or what
    `train` would have raised for it. They may differ in pooling, start, data, number of texts and epochs;
    seconds of an outcome are its share of the time of all. ``on_end`` is told the number of each student
    that ends, and its outcome or error, at once. Raises `InputError` unless all are LSTMs of one shape
    without DropConnect, and `torch.OutOfMemoryError`."""
    encoders = [student.model.encoder for student in students]
    shapes = {encoder.shape for encoder in encoders if isinstance(encoder, Encoder)}
    if len(shapes) > 1:
        unlike = sorted(map(str, shapes))
        raise InputError(f"only models of one shape are trained together, not {unlike}")
    if any(encoder.cell != "lstm" or encoder.drop_connect for encoder in encoders):
        raise InputError("only LSTMs without DropConnect are trained together; train others alone")
    ended: dict[int, loop.Outcome | loop.DivergenceError] = {}
    active = {number: _Training(student, device) for number, student in enumerate(students)}
    while active:
        for number, training in list(active.items()):
            end = training.go_on()
            if end is not None:
                ended[number] = end
                del active[number]
                if on_end:
                    on_end(number, end)
        for kind, together in ((Texts, _evaluate), (tuple, _step)):
            if asking := [training for training in active.values() if isinstance(training.asked, kind)]:
                started = time.perf_counter()
                together(asking)
                share = (time.perf_counter() - started) / len(asking)
                for training in asking:
                    training.seconds += share
    return [ended[number] for number in range(len(students))]


class _Training:
    """One of them: what it asks for, what it is answered, and the seconds that it took."""

    def __init__(self, student: loop.Student, device: str) -> None:
        self.model: TextClassifier = student.model
        self.asked: Any = None  # a batch and the numbers of its texts, or texts to be evaluated
        self.answer: loop.Learnt | loop.Score | None = None
        self.seconds, self._entered = 0.0, 0.0
        self._steps = loop.training_steps(student, device, loop.Objective(), clock=self._clock)

    def _clock(self) -> float:
        """Read inside its steps alone: what they took, and its share of those made together."""
        return self.seconds + time.perf_counter() - self._entered

    def go_on(self) -> loop.Outcome | loop.DivergenceError | None:
        """Up to what it asks for next; or its outcome or error when there is nothing."""
        self._entered = time.perf_counter()
        try:
            self.asked = self._steps.send(self.answer)
        except StopIteration as end:
            return end.value
        except loop.DivergenceError as error:
            return error
        finally:
            self.seconds = self._clock()
        return None


def _logits(models: Sequence[TextClassifier], batches: Sequence[Batch]) -> list[Tensor]:
    """What each model says of its batch, (B, C) each, from recurrences that are computed together."""
    encoders = [model.encoder for model in models if isinstance(model.encoder, Encoder)]  # all
    embedded = [model.embed(batch.ids) for model, batch in zip(models, batches, strict=True)]
    states = encode_all(encoders, embedded, [batch.lengths for batch in batches], run_together)
    each = zip(models, states, batches, strict=True)
    return [model.classify(of, batch.lengths) for model, of, batch in each]


def _step(trainings: Sequence[_Training]) -> None:
    """The backward pass of one batch of each."""
    batches = [training.asked[0] for training in trainings]
    found = _logits([training.model for training in trainings], batches)
    losses = [functional.cross_entropy(own, b.labels) for own, b in zip(found, batches, strict=True)]
    torch.autograd.backward(losses)
    for training, loss, logits in zip(trainings, losses, found, strict=True):
        training.answer = loss.detach(), logits.detach()


def _evaluate(trainings: Sequence[_Training]) -> None:
    """The score of each on the texts that it asks for. One model keeps a processor busy; a GPU takes the time
    steps of several at once, if their texts are equally long, so that nothing is padded for others."""
    alike: dict[Any, list[_Training]] = {}
    for training in trainings:
        texts, model = training.asked, training.model
        if texts.labels.device.type == "cpu":
            training.answer = loop.evaluate(model, texts)
        else:
            alike.setdefault((model.masked, tuple(texts.ids.lengths.tolist())), []).append(training)
    for group in alike.values():
        evaluate_together(group)


@torch.inference_mode()
def evaluate_together(trainings: Sequence[_Training]) -> None:
    """As `whenpool.training.loop.evaluate` of each, but for the order of sums."""
    device = trainings[0].asked.labels.device
    words, plans = loop.evaluation_words(device, len(trainings)), []
    for training in trainings:
        training.model.eval()
        plans.append(batches_for(training.model, training.asked.ids.lengths, words))
    sums = torch.zeros(2, len(trainings), dtype=torch.float64, device=device)  # losses, right answers
    for batches_of in zip_longest(*plans):
        there = [number for number, indices in enumerate(batches_of) if indices is not None]
        batches = [trainings[n].asked.batch(batches_of[n], PADDING_INDEX) for n in there]
        found = _logits([trainings[n].model for n in there], batches)
        for number, batch, logits in zip(there, batches, found, strict=True):
            sums[0, number] += functional.cross_entropy(logits, batch.labels, reduction="sum")
            sums[1, number] += (logits.argmax(1) == batch.labels).sum()
    for training, (loss, right) in zip(trainings, sums.t().tolist(), strict=True):
        training.model.train()
        count = len(training.asked)
        training.answer = loop.Score(loss / count, 100 * right / count)
