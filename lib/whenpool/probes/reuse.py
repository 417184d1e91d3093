"""Occlusion of a `whenpool.TextClassifier` at about half its price: states that stay are not computed.

Replacing a window leaves the left-to-right states before it and the right-to-left states behind it
as they are. The log-probabilities are those of plain occlusion, up to rounding.

Letters: B texts, T words of the longest, n words of one text, k words of a window, W windows of the
longest text, L words of a segment, H units of a state of one direction, E units of an embedding.
"""

from collections.abc import Iterator
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from whenpool.models.encoder import TORCH_CELLS, Encoder, word_mask
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import check_labels, log_probability
from whenpool.probes.reading import Reading
from whenpool.probes.split_pooling import SPLIT_POOLINGS
from whenpool.probes.window_states import HalfStates

SEGMENTS, SEGMENT = 25, 10
"""Into how many segments a text is cut, and their fewest words, about.

Shorter ones cost more calls, longer ones read more words in vain.
"""
ROWS = 512
"""Windows in a batch at most: more make no step faster."""
HOLES = 1.5
"""What a process holds for a byte in use, measured: tensors of many sizes leave holes between them."""
STEPS = ("forward", "embed", "encode", "classify", "pool")


def can_reuse(model: nn.Module) -> TypeGuard[TextClassifier]:
    """Whether a model is one whose states are known to split: if in doubt, no.

    It is a masked `TextClassifier` of one layer of torch's, with one of this library's poolings, none of
    whose steps is overridden and none of whose parts is replaced, wrapped or hooked (hooks on the
    recurrences themselves are fine, they are called).
    """
    if not isinstance(model, TextClassifier) or not model.masked:
        return False
    if any(
        getattr(getattr(model, s), "__func__", None) is not getattr(TextClassifier, s) for s in STEPS
    ):
        return False
    parts = (model.embedding, model.encoder, model.pooling)
    if type(model.embedding) is not nn.Embedding or type(model.encoder) is not Encoder:
        return False
    if any(part._forward_hooks or part._forward_pre_hooks for part in (model, *parts)):
        return False
    recurrences = model.encoder._recurrences()
    return (
        model.encoder.masked
        and len(model.encoder.layers) == 1
        and all(type(recurrence) in TORCH_CELLS.values() for recurrence in recurrences)
        and type(model.pooling) in SPLIT_POOLINGS
        and model.pooling.bidirectional == (len(recurrences) == 2)
    )


def reused_log_probabilities(
    model: TextClassifier,
    ids: Tensor,
    lengths: Tensor,
    labels: Tensor,
    k: int,
    unknown_index: int,
    max_bytes: float,
) -> tuple[Tensor, Tensor]:
    """log P(label | text) of each text, (B,), and with each window replaced, (B, W), NaN behind.

    Raises:
        InputError: for a label that the model has no logit for.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    back = torch.argsort(order)
    ids, lengths, labels = ids[order], lengths[order], labels[order]
    states = _States(model, ids, lengths.cpu(), k, unknown_index)
    logits = model.classify(states.of_texts(), lengths)
    check_labels(labels[back], logits[back])
    windows = states.windows  # (B,)
    result = logits.new_full((len(ids), int(windows.max())), torch.nan, dtype=torch.float64)
    for texts, span in _portions(states, max_bytes):
        embedding, rows = states.embed_windows(texts, span)  # (R', D), (R', 2)
        text, window = rows.to(ids.device).unbind(1)
        occluded = model.classifier(embedding)
        result[text, window] = log_probability(occluded.double(), labels[text])
    return log_probability(logits.double(), labels)[back], result[back]


class _States:
    """What both directions have read of B texts, sorted from long to short."""

    def __init__(self, model: Any, ids: Tensor, lengths: Tensor, k: int, unknown_index: int) -> None:
        self.pooling, self.k, self.lengths = model.pooling, k, lengths
        self.windows = lengths // k  # (B,)
        longest = int(lengths.max())
        self.segment = -(-max(SEGMENT, longest // SEGMENTS) // k) * k
        self.mask = word_mask(lengths, longest).to(ids.device)  # (B, T)
        embedded = model.embed(ids[:, :longest])  # (B, T, E)
        self.unknown = model.embed(ids.new_full((1, 1), unknown_index))[0, 0]  # (E,)
        forth, *back = model.encoder._recurrences()
        self.readings = [Reading.left_to_right(forth, embedded, lengths, self.segment)]
        for recurrence in back:
            covered = self.windows * k
            self.readings.append(
                Reading.right_to_left(recurrence, embedded, lengths, covered, self.segment)
            )

    def of_texts(self) -> Tensor:
        """The states of the texts themselves, (B, T, D)."""
        return torch.cat([reading.shared[:, :-1] for reading in self.readings], dim=-1)

    def bytes_per_window(self, text: int) -> float:
        """What reading a text again with one window replaced needs at most while it is pooled."""
        n, L = int(self.lengths[text]), self.segment
        H, E = self.readings[0].shared.shape[-1], len(self.unknown)
        kept = (n + 2 * L) * H  # n words in both directions together, and up to the edges
        call = L * (3 * E + 7 * H)  # inputs gathered, replaced and turned; gates and outputs
        words = 12 * (self.mask.shape[1] + 1)  # products, norms, scores, weights and their parts
        vectors = 12 * H  # states carried, queries, embeddings
        return (kept + call + words + vectors) * self.unknown.element_size() * HOLES

    def embed_windows(self, texts: slice, span: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The embedding of each window of some texts, and which text and window it is of.

        Args:
            texts: which of the texts.
            span: from which window on, and before which.
        """
        counts = self.windows[texts]  # (B',)
        T = int(self.lengths[texts].max())
        number = torch.arange(*span).unsqueeze(0)  # (1, W')
        rows = (number < counts.unsqueeze(1)).nonzero()  # (R', 2), text and window, both from 0
        halves = [self._half(reading, texts, number, rows, T) for reading in self.readings]
        pooled = SPLIT_POOLINGS[type(self.pooling)](
            self.pooling, halves, self.mask[texts, :T].unsqueeze(1)
        )  # (B', W', D)
        text, window = rows.to(pooled.device).unbind(1)
        return pooled[text, window], rows + torch.tensor([texts.start, span[0]])

    def _half(self, reading: Reading, texts: slice, number: Tensor, rows: Tensor, T: int) -> HalfStates:
        counts = self.windows[texts].unsqueeze(1)  # (B', 1)
        backward = reading is not self.readings[0]
        k, L, device = self.k, self.segment, self.unknown.device
        turned = (counts - 1 - number).clamp(min=0) if backward else number.expand(len(counts), -1)
        text, window = rows.unbind(1)
        slot = (text * number.shape[1] + window).to(device)
        own_pieces = reading.again(text + texts.start, turned[text, window], k, self.unknown)
        pieces = [  # steps behind the end go to column T of these texts, not of the whole batch
            piece._replace(rows=slot[piece.rows], places=piece.places.clamp(max=T))
            for piece in own_pieces
        ]
        edge = turned * k // L  # (B', W'), the segment that a window lies in
        place = torch.arange(T)
        step = counts * k - 1 - place if backward else place.expand(len(counts), -1)  # (B', T)
        own = step.unsqueeze(1) >= (edge * L).unsqueeze(-1)  # (B', W', T)
        every = torch.arange(texts.start, texts.stop).unsqueeze(1)
        peaks = reading.peaks[edge, every]
        final = torch.zeros_like(counts[:, 0]) if backward else self.lengths[texts] - 1
        return HalfStates(reading.shared[texts, :T], own.to(device), peaks, final.to(device), pieces)


def _portions(states: _States, max_bytes: float) -> Iterator[tuple[slice, tuple[int, int]]]:
    """Texts, and of them windows, that fit into memory together; at least one window."""
    windows = states.windows.tolist()
    start = 0
    while start < len(windows):
        fit = max(1, int(min(ROWS, max_bytes / states.bytes_per_window(start))))
        if windows[start] >= fit:
            for first in range(0, windows[start], fit):
                yield slice(start, start + 1), (first, min(first + fit, windows[start]))
            start += 1
            continue
        stop = min(start + fit // windows[start], len(windows))
        yield slice(start, stop), (0, windows[start])
        start = stop
