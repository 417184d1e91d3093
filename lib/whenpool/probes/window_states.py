"""The states of a batch of texts with every window replaced in turn, never held in full.

Each direction has its own half. Before the edge from which a window is read again the states are
those of the text itself, shared by all windows; behind it they are the window's own. Scores and
weighted sums of all windows against the shared states are one matrix product.

Letters: B texts, W windows, T words of the longest, H units of a state of one direction, R = B x W
rows.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from whenpool.probes.reading import Piece, peak


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
