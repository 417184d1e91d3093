"""Occlusion of a `whenpool.TextClassifier` at about half its price: states that stay are not computed.

What a recurrence has read before a window does not depend on the window. So the texts are read
once, in segments, and the state at the edge of each segment is kept; a text with a window replaced
is read again only from the edge before that window. All windows move on together, a segment at a
time, and join the batch when their segment comes. Each direction does so in its own *reading order*:
step 0 is what it reads first, and ``places`` leads back to positions in the text.

Pooling never copies the states that windows share: scores and weighted sums of all windows against
them are one matrix product.

Letters: B texts, W windows, T words of the longest, S steps of the longest, E units of an input, H
units of a state of one direction, D units of both, k words of a window, L words of a segment (a
multiple of k: no window crosses an edge), R rows, each a text with one window replaced.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whenpool.models import pooling
from whenpool.models.encoder import TORCH_CELLS, Encoder, word_mask
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import check_labels, log_probability

State = tuple[Tensor, ...]
"""(R, H) each: (h, c) of an LSTM, (h,) of the other cells."""


class Piece(NamedTuple):
    """The states of some rows in one segment."""

    rows: Tensor
    """(R',) int64, numbers of the rows."""
    places: Tensor
    """(R', ≤ L) int64, positions in the text; T behind a row's last step."""
    states: Tensor
    """(R', ≤ L, H)"""
    ragged: bool
    """Whether there are steps behind a row's last one."""


class Reading:
    """What one direction reads of a batch of texts, all of it kept.

    Attributes:
        steps: (B,) int64 on the CPU: the steps of each text that lie in segments.
        shared: (B, T + 1, H), the states by position in the text; zeros where there is no word.
        edges: the state of every text at each edge, (edges, B, H) each.
        peaks: the largest value of each unit up to each edge, (edges, B, H).
    """

    def __init__(self, recurrence: nn.RNNBase, embedded: Tensor, segment: int) -> None:
        self.recurrence: Any = recurrence
        self.segment = segment
        self._embedded = embedded
        B, T, _ = embedded.shape
        H = recurrence.hidden_size
        self.shared = embedded.new_zeros(B, T + 1, H)
        names = 2 if isinstance(recurrence, nn.LSTM) else 1
        self._start: State = tuple(embedded.new_zeros(B, H) for _ in range(names))
        self._peak = embedded.new_full((B, H), torch.finfo(embedded.dtype).min)

    @classmethod
    def left_to_right(
        cls, recurrence: nn.RNNBase, embedded: Tensor, lengths: Tensor, segment: int
    ) -> "Reading":
        """(B, T, E) and (B,) lengths on the CPU."""
        reading = cls(recurrence, embedded, segment)
        reading._read(torch.arange(int(lengths.max())).expand(len(lengths), -1), lengths)
        return reading

    @classmethod
    def right_to_left(
        cls, recurrence: nn.RNNBase, embedded: Tensor, lengths: Tensor, covered: Tensor, segment: int
    ) -> "Reading":
        """As above; segments begin behind the last full window, before them the rest is read.

        Args:
            covered: (B,) on the CPU, how many words of each text lie in full windows, at least 1.
        """
        reading = cls(recurrence, embedded, segment)
        reading._read_rest(lengths, covered)
        step = torch.arange(int(covered.max())).unsqueeze(0)  # (1, S)
        reading._read(covered.unsqueeze(1) - 1 - step, covered)
        return reading

    def again(self, texts: Tensor, windows: Tensor, k: int, unknown: Tensor) -> Iterator[Piece]:
        """The texts with a window replaced, each from the edge before its window.

        Args:
            texts: (R,) int64 on the CPU, the text of each row.
            windows: (R,) int64 on the CPU, the number of its window in reading order.
            unknown: (E,), what stands in the window.
        """
        first = windows * k // self.segment  # (R,)
        state = tuple(part[first, texts] for part in self.edges)
        yield from self._segments(texts, first, state, windows * k, k, unknown)

    def _read(self, places: Tensor, steps: Tensor) -> None:
        B, T, _ = self._embedded.shape
        device = self._embedded.device
        self.steps = steps
        behind = torch.arange(places.shape[1]) >= steps.unsqueeze(1)  # (B, S)
        self.places = places.masked_fill(behind, T).to(device)
        every = torch.arange(B, device=device).unsqueeze(1)  # (B, 1)
        self.inputs = self._embedded[every, self.places.clamp(max=T - 1)]  # (B, S, E)
        state, largest = self._start, self._peak
        edges, peaks = [tuple(part.clone() for part in state)], [largest.clone()]
        for piece in self._segments(torch.arange(B), torch.zeros(B, dtype=torch.int64), state):
            self.shared[piece.rows.unsqueeze(1), piece.places] = piece.states
            largest[piece.rows] = torch.maximum(largest[piece.rows], peak(piece, T))
            edges.append(tuple(part.clone() for part in state))
            peaks.append(largest.clone())
        self.edges: State = tuple(torch.stack(parts) for parts in zip(*edges, strict=True))
        self.peaks = torch.stack(peaks)
        self.shared[:, T] = 0.0  # what steps behind the end have left there

    def _read_rest(self, lengths: Tensor, covered: Tensor) -> None:
        """The few words behind the last full window, whose number differs from text to text.

        Packing them is slow but gives an LSTM's cell state at each text's own end.
        """
        rest = lengths - covered  # (B,)
        some = rest.nonzero().squeeze(1)
        if not len(some):
            return
        device, T = self._embedded.device, self._embedded.shape[1]
        step = torch.arange(int(rest.max()))
        places = (lengths[some].unsqueeze(1) - 1 - step).clamp(min=0)
        places = torch.where(step < rest[some].unsqueeze(1), places, T).to(device)
        rows = some.to(device).unsqueeze(1)
        inputs = self._embedded[rows, places.clamp(max=T - 1)]
        packed = pack_padded_sequence(inputs, rest[some], batch_first=True, enforce_sorted=False)
        states, last = self.recurrence(packed)
        states = pad_packed_sequence(states, batch_first=True)[0]
        self.shared[rows, places] = states
        last = last if isinstance(last, tuple) else (last,)
        for start, end in zip(self._start, last, strict=True):
            start[rows[:, 0]] = end.squeeze(0)
        self._peak[rows[:, 0]] = peak(Piece(rows[:, 0], places, states, True), T)

    def _segments(
        self,
        texts: Tensor,
        first: Tensor,
        state: State,
        hidden_from: Tensor | None = None,
        k: int = 0,
        unknown: Tensor | None = None,
    ) -> Iterator[Piece]:
        """Runs rows from their first segment on to their end; ``state`` is kept up to date."""
        device, L = self.inputs.device, self.segment
        steps = self.steps[texts]  # (R,)
        for segment in range(int(first.min()), -(-int(steps.max()) // L)):
            begin = segment * L
            active = ((first <= segment) & (steps > begin)).nonzero().squeeze(1)
            width = min(L, int(steps[active].max()) - begin)
            rows, of = active.to(device), texts[active].to(device)
            inputs = self.inputs[of, begin : begin + width]  # (R', width, E)
            if hidden_from is not None and unknown is not None:
                start = hidden_from[active].unsqueeze(1) - begin  # (R', 1)
                step = torch.arange(width)
                hidden = ((step >= start) & (step < start + k)).to(device)
                inputs = torch.where(hidden.unsqueeze(-1), unknown, inputs)
            states, new = self._run(inputs, tuple(part[rows] for part in state))
            for part, value in zip(state, new, strict=True):
                part[rows] = value
            ragged = bool((steps[active] < begin + width).any())
            yield Piece(rows, self.places[of, begin : begin + width], states, ragged)

    def _run(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        given = tuple(part.unsqueeze(0) for part in state)
        states, new = self.recurrence(inputs, given if len(given) == 2 else given[0])
        new = new if isinstance(new, tuple) else (new,)
        return states, tuple(part.squeeze(0) for part in new)


def peak(piece: Piece, T: int) -> Tensor:
    """The largest value of each unit over a piece's steps, (R', H)."""
    states = piece.states
    if piece.ragged:
        lowest = torch.finfo(states.dtype).min
        states = states.masked_fill((piece.places == T).unsqueeze(-1), lowest)
    return states.amax(dim=1)


class HalfStates:
    """One direction's states of R texts.

    Args:
        shared: (B, T, H), the states of the texts themselves; zeros behind their ends.
        own: (B, W, T) bool, where a row's states are its own.
        peaks: (B, W, H), the largest value of each unit over the shared part.
        final: (B,), the place of the state that has read the whole text.
        pieces: the own states, each in just one of them; rows that are in none have no window.
    """

    def __init__(
        self, shared: Tensor, own: Tensor, peaks: Tensor, final: Tensor, pieces: list[Piece]
    ) -> None:
        self.shared, self.own, self.peaks, self.final, self.pieces = shared, own, peaks, final, pieces

    def last(self) -> Tensor:
        """The state that has read the whole text, always a window's own -> (B, W, H)."""
        result = torch.zeros_like(self.peaks.flatten(0, 1))  # (R, H)
        final = self.final.unsqueeze(1).expand(self.peaks.shape[:2]).flatten()  # (R,)
        for piece in self.pieces:
            here = piece.places == final[piece.rows].unsqueeze(1)  # (R', L)
            step = here.int().argmax(1)
            found = piece.states[torch.arange(len(step), device=step.device), step]  # (R', H)
            result[piece.rows] = torch.where(here.any(1, keepdim=True), found, result[piece.rows])
        return result.view_as(self.peaks)

    def maxima(self) -> Tensor:
        """max_t h_t, unit by unit -> (B, W, H)."""
        result = self.peaks.flatten(0, 1).clone()  # (R, H)
        for piece in self.pieces:
            largest = peak(piece, self.own.shape[-1])
            result[piece.rows] = torch.maximum(result[piece.rows], largest)
        return result.view_as(self.peaks)

    def products(self, queries: Tensor) -> Tensor:
        """h_t·q, with a query (B, W, H) for each row -> (B, W, T)."""
        columns = queries.flatten(0, 1).unsqueeze(-1)  # (R, H, 1)
        return self._over_words(
            torch.bmm(queries, self.shared.transpose(1, 2)),
            lambda piece: torch.bmm(piece.states, columns[piece.rows]).squeeze(-1),
        )

    def norms(self) -> Tensor:
        """‖h_t‖ -> (B, W, T)."""
        return self._over_words(
            torch.linalg.vector_norm(self.shared, dim=-1).unsqueeze(1).expand(self.own.shape),
            lambda piece: torch.linalg.vector_norm(piece.states, dim=-1),
        )

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Σ_t w_t h_t, with weights (B, W, T) -> (B, W, H)."""
        total = torch.bmm(weights.masked_fill(self.own, 0.0), self.shared)  # (B, W, H)
        flat, sums = pad(weights, (0, 1)).flatten(0, 1), total.flatten(0, 1)
        for piece in self.pieces:
            own = flat[piece.rows.unsqueeze(1), piece.places].unsqueeze(1)  # (R', 1, L)
            sums[piece.rows] += torch.bmm(own, piece.states).squeeze(1)
        return sums.view_as(total)

    def _over_words(self, shared: Tensor, own: Callable[[Piece], Tensor]) -> Tensor:
        """(B, W, T) values of the shared states, those of the own states written over them."""
        values = pad(shared, (0, 1)).flatten(0, 1)  # (R, T + 1): steps behind the end go to column T
        for piece in self.pieces:
            values[piece.rows.unsqueeze(1), piece.places] = own(piece)
        return values.view(*self.own.shape[:2], -1)[:, :, :-1]


SEGMENTS, SEGMENT = 25, 10
"""Into how many segments a text is cut, and their fewest words, about.

Shorter ones cost more calls, longer ones read more words in vain.
"""


Halves = Sequence[HalfStates]


def _last(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    return torch.cat([half.last() for half in halves], dim=-1)


def _mean(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    like = halves[0]
    words = mask.to(like.shared.dtype)  # (B, 1, T)
    return _weighted_sum((words / words.sum(-1, keepdim=True)).expand(like.own.shape), halves)


def _max(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    return torch.cat([half.maxima() for half in halves], dim=-1)


def _attention(module: Any, halves: Halves, mask: Tensor) -> Tensor:
    queries = [
        query.expand(half.peaks.shape)
        for half, query in zip(halves, module.query.chunk(len(halves)), strict=True)
    ]
    return _weighted_sum(_softmax_over_words(_products(halves, queries), mask), halves)


def _max_attention(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    products = _products(halves, [half.maxima() for half in halves])
    norms = [half.norms() for half in halves]
    norm = torch.hypot(*norms) if len(norms) == 2 else norms[0]  # ‖h‖² = ‖→h‖² + ‖←h‖²
    return _weighted_sum(_softmax_over_words(_over(products, norm), mask), halves)


def _last_attention(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    parts = []
    for half in halves:
        scores = _over(half.products(half.last()), half.norms())
        parts.append(half.weighted_sum(_softmax_over_words(scores, mask)))
    return torch.cat(parts, dim=-1)


SPLIT_POOLINGS: dict[type, Callable[[Any, Halves, Tensor], Tensor]] = {
    pooling.LastState: _last,
    pooling.MeanPool: _mean,
    pooling.MaxPool: _max,
    pooling.Attention: _attention,
    pooling.MaxAttention: _max_attention,
    pooling.LastAttention: _last_attention,
}
"""By the exact class: (pooling, halves, mask (B, 1, T)) -> (B, W, D). A subclass is none of them."""


def _products(halves: Halves, queries: Sequence[Tensor]) -> Tensor:
    first, *second = [half.products(q) for half, q in zip(halves, queries, strict=True)]
    return first.add_(second[0]) if second else first  # (B, W, T)


def _over(products: Tensor, norms: Tensor) -> Tensor:
    return products / norms.clamp(min=torch.finfo(norms.dtype).tiny)


def _softmax_over_words(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask


def _weighted_sum(weights: Tensor, halves: Halves) -> Tensor:
    return torch.cat([half.weighted_sum(weights) for half in halves], dim=-1)


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
