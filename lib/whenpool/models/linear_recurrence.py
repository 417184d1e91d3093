"""Recurrences without a product in time: h_t = a_t ⊙ h_{t-1} + b_t, where a and b do not depend on h.

All products can then be made for all words at once, and what is left for one word after another is a
multiplication and an addition: minGRU and minLSTM (Feng et al. 2024), by the formulas of their article.

Letters: B texts, T words of the longest, E units of an input, H units of a state.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, softplus

from whenpool.base.errors import InputError
from whenpool.models.cells import Cell

__all__ = ["LinearCell", "MinGRU", "MinLSTM", "linear_recurrence"]


def linear_recurrence(a: Tensor, b: Tensor) -> Tensor:
    """h_t = a_t ⊙ h_{t-1} + b_t from h_0 = 0, for all words.

    Args:
        a: (B, T, H), what is kept of each unit.
        b: (B, T, H), what is added.

    Returns:
        (B, T, H)

    Raises:
        InputError: where the shapes differ.

    Examples:
        >>> half = torch.full((1, 3, 1), 0.5)
        >>> linear_recurrence(half, torch.ones(1, 3, 1)).flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    if a.shape != b.shape or a.dim() != 3:
        raise InputError(
            f"a linear recurrence needs two tensors (B, T, H), not {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return _Scan.apply(a, b, False)


class _Scan(torch.autograd.Function):
    """The recurrence from the first word to the last, or ``backward`` from the last to the first.

    Its gradient is a recurrence in the other direction, ∂L/∂b_t = ∂L/∂h_t + a_{t+1} ⊙ ∂L/∂b_{t+1}, and
    ∂L/∂a_t = ∂L/∂b_t ⊙ h_{t-1}; only a and h are kept for it.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, backward: bool) -> Tensor:
        states = torch.empty_like(b, memory_format=torch.contiguous_format)
        before: Tensor | None = None
        words = list(zip(a.unbind(1), b.unbind(1), states.unbind(1), strict=True))
        for kept, added, state in reversed(words) if backward else words:
            if before is None:
                state.copy_(added)
            else:
                torch.addcmul(added, kept, before, out=state)
            before = state
        ctx.backward_in_time = backward
        ctx.save_for_backward(a, states)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        a, states = ctx.saved_tensors
        backward = ctx.backward_in_time
        total = _Scan.apply(_earlier(a) if backward else _later(a), grad, not backward)
        return total * (_later(states) if backward else _earlier(states)), total, None


def _earlier(values: Tensor) -> Tensor:
    """At each word of (B, T, H) what stood at the one before, and zero at the first."""
    return pad(values[:, :-1], (0, 0, 1, 0))


def _later(values: Tensor) -> Tensor:
    """At each word of (B, T, H) what stands at the next one, and zero at the last."""
    return pad(values[:, 1:], (0, 0, 0, 1))


class LinearCell(Cell):
    """What minGRU and minLSTM have in common: `terms` of all words at once, then one recurrence.

    Examples:
        >>> class Leaky(LinearCell):
        ...     def terms(self, x):
        ...         (proposal,) = self.words(x)
        ...         return torch.full_like(proposal, 0.9), proposal
        >>> Leaky(4, 3)(torch.randn(2, 7, 4))[0].shape
        torch.Size([2, 7, 3])
    """

    def add_weights(self) -> None:
        """One block a gate, and one for the proposal: W^x (gates·H, E) and a bias; no W^s."""
        rows = self.gates * self.hidden_size
        self.weight_ih_l0 = nn.Parameter(torch.empty(rows, self.input_size))
        self.bias_ih_l0 = nn.Parameter(torch.empty(rows))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, E) -> the states (B, T, H) and the last of them (B, H)."""
        states = linear_recurrence(*self.terms(inputs))
        return states, states[:, -1]

    def step(self, x: Tensor, s: Tensor) -> Tensor:
        kept, added = self.terms(x)
        return kept * s + added

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Words (..., E) -> what each keeps of the state and what it adds to it, (..., H) each."""
        raise NotImplementedError

    def words(self, x: Tensor) -> tuple[Tensor, ...]:
        """At least in float32: sums over hundreds of words do not fit into bfloat16."""
        sums = linear(x, self.weight_ih_l0, self.bias_ih_l0)
        return sums.to(torch.promote_types(sums.dtype, torch.float32)).chunk(self.gates, dim=-1)


class MinGRU(LinearCell):
    """A GRU whose gate and proposal do not look at the state (Feng et al. 2024).

    h_t = (1 - z_t) ⊙ h_{t-1} + z_t ⊙ h̃_t, with z_t = σ(W^z x_t + b^z) and h̃_t = W^h x_t + b^h. The
    blocks of its weights: z, the proposal.

    Examples:
        >>> states, last = MinGRU(4, 3)(torch.randn(2, 7, 4))
        >>> states.shape
        torch.Size([2, 7, 3])
    """

    gates = 2

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at_z, proposal = self.words(x)
        z = torch.sigmoid(at_z)
        return 1 - z, z * proposal


class MinLSTM(LinearCell):
    """An LSTM whose gates do not look at the state, and are made to sum to one (Feng et al. 2024).

    h_t = f'_t ⊙ h_{t-1} + i'_t ⊙ h̃_t with f' = f / (f + i) and i' = i / (f + i), f_t = σ(W^f x_t + b^f),
    i_t = σ(W^i x_t + b^i) and h̃_t = W^h x_t + b^h. The blocks of its weights: f, i, the proposal.

    Examples:
        >>> states, last = MinLSTM(4, 3)(torch.randn(2, 7, 4))
        >>> states.shape
        torch.Size([2, 7, 3])
    """

    gates = 3

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at_f, at_i, proposal = self.words(x)
        # f / (f + i) = σ(log f - log i), also where both are nearly zero
        kept = torch.sigmoid(softplus(-at_i) - softplus(-at_f))
        return kept, (1 - kept) * proposal
