"""Texts of different lengths in one flat tensor, and batches of similar length cut from it.

Letters: N texts, B of them in a batch, T words of the longest in the batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

UNKNOWN, PADDING = "<unk>", "<pad>"
UNKNOWN_INDEX, PADDING_INDEX = 0, 1  # The first two words of each vocabulary, and their numbers


class Batch(NamedTuple):
    """Word numbers (B, T), right-padded; lengths (B,) and labels (B,); all int64."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Ragged:
    """N rows of whole numbers, stored one after the other."""

    flat: Tensor  # all values
    offsets: Tensor  # (N + 1,), row i is flat[offsets[i]:offsets[i + 1]]

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Ragged":
        pieces = [np.asarray(row, dtype=np.int32) for row in rows]
        offsets = np.cumsum([0, *map(len, pieces)])
        flat = np.concatenate([np.zeros(0, dtype=np.int32), *pieces])
        return cls(torch.from_numpy(flat), torch.from_numpy(offsets))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, index: int) -> Tensor:
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    def first(self, count: int, start: int = 0) -> "Ragged":
        """The first rows from a ``start`` on, or all where there are fewer."""
        offsets = self.offsets[start : start + count + 1]
        return Ragged(self.flat[offsets[0] : offsets[-1]], offsets - offsets[0])

    @cached_property
    def lengths(self) -> Tensor:
        """(N,) int64; asked for in every step."""
        return self.offsets.diff()

    def places(self, indices: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where the rows of these numbers (B,) stand, padded to the longest: on the device of the
        values places in ``flat`` (B, T), whether there is a value (B, T), the lengths (B,), and the
        indices."""
        device, lengths = self.flat.device, self.lengths[indices]
        position = torch.arange(int(lengths.max()), device=device).unsqueeze(0)  # (1, T)
        facts = torch.stack([self.offsets[indices], lengths, indices])
        # from pinned memory, so that nothing waits for what is computed there
        if device.type == "cuda":
            facts = facts.pin_memory().to(device, non_blocking=True)
        starts, lengths, indices = facts
        is_there = position < lengths.unsqueeze(1)  # (B, T)
        return torch.where(is_there, starts.unsqueeze(1) + position, 0), is_there, lengths, indices

    def to_lists(self) -> list[list[int]]:
        flat, offsets = self.flat.tolist(), self.offsets.tolist()
        return [flat[start:stop] for start, stop in pairwise(offsets)]


@dataclass(frozen=True)
class Texts:
    """N labelled texts as numbers of words."""

    ids: Ragged
    labels: Tensor
    _copies: dict[str, Self] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int, start: int = 0) -> "Texts":
        """The first texts from a ``start`` on, or all where there are fewer."""
        return replace(
            self, ids=self.ids.first(count, start), labels=self.labels[start : start + count]
        )

    def take(self, indices: Tensor) -> "Texts":
        """The texts with these indices."""
        rows = (self.ids.row(index).tolist() for index in indices.tolist())
        return replace(self, ids=Ragged.of(rows), labels=self.labels[indices])

    def to(self, device: torch.device | str) -> Self:
        """The same with words and labels on a device, one copy for all who ask; lengths stay on the
        CPU."""
        device = torch.device(device)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        if str(device) not in self._copies:
            ids = Ragged(self.ids.flat.to(device), self.ids.offsets)
            self._copies[str(device)] = replace(self, ids=ids, labels=self.labels.to(device))
        return self._copies[str(device)]

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """The texts with these indices, padded to the longest of them."""
        places, is_word, lengths, indices = self.ids.places(indices)
        ids = self.ids.flat[places].long().masked_fill(~is_word, padding_index)  # (B, T)
        return Batch(ids, lengths, self.labels[indices])


@dataclass(frozen=True)
class Splits:
    """The texts of one training."""

    train: Texts
    validation: Texts
    test: Texts


def training_batches(lengths: Tensor, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Numbers of the texts (N,) of each batch of one epoch, as torchtext's ``BucketIterator`` has
    them."""
    shuffled = torch.randperm(len(lengths), generator=generator)
    batches: list[Tensor] = []
    for pool in shuffled.split(100 * batch_size):  # sorted by length, then cut into batches
        batches += pool[torch.argsort(lengths[pool], stable=True)].split(batch_size)
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


def evaluation_batches(lengths: Tensor, words: int) -> Iterator[Tensor]:
    """Numbers of all texts from short to long, as many in a batch as fit into ``words`` when
    padded."""
    order = torch.argsort(lengths, stable=True)
    sizes, start = lengths[order].tolist(), 0
    for stop in range(1, len(sizes) + 1):
        if stop == len(sizes) or (stop + 1 - start) * sizes[stop] > words:
            yield order[start:stop]
            start = stop


def batches_for(model: object, lengths: Tensor, words: int) -> Iterator[Tensor]:
    """As `evaluation_batches`; 32 at a time for a model that reads padding, as the thesis trains
    (§1.4.2)."""
    if getattr(model, "masked", True):
        return evaluation_batches(lengths, words)
    return iter(torch.argsort(lengths, stable=True).split(32))
