"""Unlabelled texts with augmented versions, and what all that learns from them shares (thesis §1.10).

Letters: N texts, K augmented versions of each, U texts in a batch, T tokens of the longest, C classes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Ragged, Texts
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.training.objective import Accuracy, Objective


class Padded(NamedTuple):
    ids: Tensor
    """(U, T) int64, right-padded."""
    lengths: Tensor
    """(U,) int64."""


@dataclass(frozen=True)
class Unlabelled:
    """N texts and K ≥ 1 augmented versions of each, as numbers of tokens.

    Raises:
        InputError: where there are none, or one version has another number of texts.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> texts = Unlabelled(Ragged.of([[5, 6], [7]]), (Ragged.of([[6, 5], [8]]),))
        >>> [padded.ids.shape for padded in texts.batch(torch.arange(2), padding_index=0)]
        [torch.Size([2, 2]), torch.Size([2, 2])]
    """

    original: Ragged
    augmented: tuple[Ragged, ...]

    def __post_init__(self) -> None:
        if not len(self.original):
            raise InputError("there are no unlabelled texts; give some, or choose a system without them")
        if not self.augmented:
            raise InputError("the unlabelled texts have no augmented version; give at least one")
        for number, version in enumerate(self.augmented, start=1):
            if len(version) != len(self.original):
                raise InputError(
                    f"augmented version {number} has {len(version):,} texts for {len(self.original):,} "
                    "unlabelled ones; give one for each"
                )

    def __len__(self) -> int:
        return len(self.original)

    def batch(
        self, indices: Tensor, padding_index: int, device: torch.device | str = "cpu"
    ) -> list[Padded]:
        """The texts of these numbers (U,): the originals, then each of their K versions."""
        no_labels = torch.zeros(1, dtype=torch.int64).expand(len(self))
        batches = [
            Texts(version, no_labels).batch(indices, padding_index)
            for version in (self.original, *self.augmented)
        ]
        return [Padded(batch.ids.to(device), batch.lengths.to(device)) for batch in batches]


class Rounds:
    """Numbers of texts in random order, all of them before any comes again.

    Args:
        texts: N.
        generator: shuffles each round anew.
    """

    def __init__(self, texts: int, generator: torch.Generator) -> None:
        self.texts, self.generator = texts, generator
        self._left = torch.empty(0, dtype=torch.int64)

    def draw(self, count: int) -> Tensor:
        """The next numbers: (count,) int64."""
        while len(self._left) < count:
            self._left = torch.cat([self._left, torch.randperm(self.texts, generator=self.generator)])
        drawn, self._left = self._left[:count], self._left[count:]
        return drawn


def stack(batches: Sequence[Padded], padding_index: int) -> Padded:
    """Several batches as one, padded to the longest text of all."""
    longest = max(batch.ids.shape[1] for batch in batches)
    wide = [functional.pad(ids, (0, longest - ids.shape[1]), value=padding_index) for ids, _ in batches]
    return Padded(torch.cat(wide), torch.cat([batch.lengths for batch in batches]))


class SemiSupervised(Objective):
    """Learns from labelled texts and, in each step, from the next few unlabelled ones.

    Args:
        unlabelled: read in rounds.
        classes: C.
        steps: batches of labelled texts in the whole training.
        seed: of the order of the unlabelled texts, and of what else is drawn.
        batch_size: U.
        temperature: of the sharpening of predictions; 1 leaves them as they are.
        weight: of the loss on unlabelled texts.

    Raises:
        InputError: for a number out of range.
    """

    measured: tuple[str, ...] = ()
    """Names of what a step leaves in ``_found``."""

    def __init__(
        self,
        unlabelled: Unlabelled,
        classes: int,
        steps: int,
        seed: int,
        batch_size: int,
        temperature: float,
        weight: float,
    ) -> None:
        for name, least, number in (("classes", 2, classes), ("steps", 1, steps)):
            if number < least:
                raise InputError(f"{name} is at least {least}, not {number}")
        if batch_size < 1:
            raise InputError(f"batch_size, of unlabelled texts, is at least 1, not {batch_size}")
        if not 0 < temperature < math.inf:
            raise InputError(f"temperature is above 0, not {temperature}")
        if not 0 <= weight < math.inf:
            raise InputError(f"weight is at least 0, not {weight}")
        self.unlabelled, self.classes, self.steps = unlabelled, classes, steps
        self.batch_size, self.temperature, self.weight = batch_size, temperature, weight
        self._generator = torch.Generator().manual_seed(seed)
        self._rounds = Rounds(len(unlabelled), self._generator)
        self._step = 0
        self._found: list[tuple[Tensor, ...]] = []

    @property
    def progress(self) -> float:
        """Which part of the training is over, from 0 to 1."""
        return min(1.0, self._step / self.steps)

    def next_texts(self, device: torch.device) -> list[Padded]:
        """The next U texts: the originals, then each of their K versions."""
        return self.unlabelled.batch(self._rounds.draw(self.batch_size), PADDING_INDEX, device)

    def start_epoch(self, epoch: int) -> None:
        self._found = []

    def end_step(self, *found: Tensor) -> None:
        """Count a step and keep what was ``measured`` in it."""
        self._step += 1
        self._found.append(tuple(value.detach() for value in found))

    def end_epoch(self, model: Any, accuracy: Accuracy) -> dict[str, float]:
        """The means over the steps of this epoch."""
        means = [torch.stack(values).mean().item() for values in zip(*self._found, strict=True)]
        return dict(zip(self.measured, means, strict=True)) if means else {}
