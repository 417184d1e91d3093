"""One direction of an encoder over texts, and again over the same texts with a window replaced.

What a recurrence has read before a window does not depend on the window. So the texts are read
once, in segments, and the state at the edge of each segment is kept; a text with a window replaced
is read again only from the edge before that window. All windows move on together, a segment at a
time, and join the batch when their segment comes.

Everything is in *reading order*: step 0 is what this direction reads first, so that one code serves
both directions; ``places`` leads back to positions in the text.

Letters: B texts, T words of the longest, S steps of the longest, E units of an input, H units of a
state, k words of a window, L words of a segment (a multiple of k: no window crosses an edge), R
rows, each a text with one window replaced.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

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
