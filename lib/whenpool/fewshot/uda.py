"""Unsupervised data augmentation (Xie et al. 2020, "UDA").

A text and its augmented version should be classified alike, whatever its label: that is learnt from
unlabelled texts. Of the few labelled ones, those that are known well already are left out at first,
so that they are not learnt by heart.

Letters: B labelled texts, U unlabelled ones, C classes.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.fewshot.unlabelled import Padded, SemiSupervised, Unlabelled, stack

SCHEDULES: dict[str, Callable[[float], float]] = {
    "log": lambda done: 1 - math.exp(-5 * done),
    "linear": lambda done: done,
    "exp": lambda done: math.exp(5 * (done - 1)),
}
"""Of the annealing, by name: a_t as a function of t / T (Appendix A.1)."""


class UDA(SemiSupervised):
    """Cross-entropy on labelled texts, annealed, and consistency on unlabelled ones.

    The released scripts for BERT-base use neither masking nor sharpening; the defaults of both are
    the paper's for CIFAR-10 (§2.4), which names none for texts. ``weight`` is the paper's, and
    "linear" the scripts'.

    Args:
        unlabelled: with K augmented versions, one of which is drawn for each batch.
        classes: C.
        steps: T, batches of labelled texts in the whole training.
        seed: of the order of the unlabelled texts, and of the versions drawn.
        batch_size: U.
        temperature: τ of the prediction that is to be reached, below 1 to sharpen it.
        confidence: β; unlabelled texts with a lower largest probability teach nothing.
        weight: λ of the consistency.
        schedule: of the annealing, one of `SCHEDULES`.

    Raises:
        InputError: for an unknown schedule, or a number out of range.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> texts = Unlabelled(Ragged.of([[5, 6], [7]]), (Ragged.of([[6, 5], [8]]),))
        >>> UDA(texts, classes=2, steps=10, seed=0).classes
        2
    """

    measured = "left_out", "confident", "consistency"
    """The share of labelled texts left out, that of unlabelled ones predicted with confidence, and the
    consistency loss before its weight."""

    def __init__(
        self,
        unlabelled: Unlabelled,
        classes: int,
        steps: int,
        seed: int,
        batch_size: int = 8,
        temperature: float = 0.4,
        confidence: float = 0.8,
        weight: float = 1.0,
        schedule: str = "linear",
    ) -> None:
        if schedule not in SCHEDULES:
            raise InputError(f"schedule {schedule!r} is unknown; choose one of {', '.join(SCHEDULES)}")
        super().__init__(unlabelled, classes, steps, seed, batch_size, temperature, weight)
        if not 0 <= confidence < 1:
            raise InputError(f"confidence is a probability below 1, not {confidence}")
        self.confidence, self.schedule = confidence, schedule

    @property
    def threshold(self) -> float:
        """η_t of the next step: labelled texts whose class is more probable are left out."""
        released = SCHEDULES[self.schedule](self.progress)
        return released * (1 - 1 / self.classes) + 1 / self.classes

    def loss(self, model: nn.Module, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        original, *augmented = self.next_texts(batch.ids.device)
        version = int(torch.randint(len(augmented), (), generator=self._generator))
        with torch.no_grad():  # with dropout, as in the released code
            goal = model(*original)  # (U, C)
        together = stack([Padded(batch.ids, batch.lengths), augmented[version]], PADDING_INDEX)
        logits = model(*together)
        labelled, noised = logits.split([len(batch.labels), self.batch_size])

        losses = functional.cross_entropy(labelled, batch.labels, reduction="none")  # (B,)
        kept = (-losses.detach()).exp() <= self.threshold  # the probability of the class itself
        supervised = (losses * kept).sum() / kept.sum().clamp(min=1)
        divergence, confident = consistency(goal, noised, self.temperature, self.confidence)
        self.end_step(1 - kept.float().mean(), confident.float().mean(), divergence)
        return supervised + self.weight * divergence, labelled


def consistency(
    goal: Tensor, logits: Tensor, temperature: float, confidence: float
) -> tuple[Tensor, Tensor]:
    """KL(softmax(goal / τ) ‖ softmax(logits)) of each text that is predicted with confidence,
    averaged over all (Xie et al. 2020, §2.4).

    Their cross-entropy differs from it by what no gradient reaches.

    Args:
        goal: (U, C) logits on the texts themselves, without gradient.
        logits: (U, C) on their augmented versions.

    Returns:
        The mean, and which texts counted (U,).
    """
    confident = goal.softmax(1).amax(1) > confidence
    target = (goal / temperature).softmax(1)
    divergence = functional.kl_div(logits.log_softmax(1), target, reduction="none").sum(1)  # (U,)
    return (divergence * confident).mean(), confident
