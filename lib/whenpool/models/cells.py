"""Recurrent cells as the formulas that they are: what they share, and those that torch lacks.

A step reads the words x_t of all texts of a batch and the state s_{t-1}, and returns s_t (Goldberg
2017, chapters 14 and 15). book/recurrent_networks.md writes out those that torch has.
"""

# Letters: B texts, T words of the longest, E units of an input, H units of a state.

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, softplus

from whenpool.base.errors import check

__all__ = [
    "Cell",
    "LinearCell",
    "MinGRU",
    "MinLSTM",
    "PrototypeLSTM",
    "Sum",
    "TanhSum",
    "linear_recurrence",
]


class Cell(nn.Module):
    """What the cells have in common: s_t = R(s_{t-1}, x_t) for one word after another.

    It is made with E and H; texts come first, as with ``batch_first=True`` of torch's.

    Examples:
        >>> class Leaky(Cell):
        ...     def step(self, x, s):
        ...         (proposal,) = self.words(x)
        ...         return 0.9 * s + proposal
        >>> Leaky(4, 3)(torch.randn(2, 7, 4))[0].shape
        torch.Size([2, 7, 3])
    """

    gates = 1  # how many rows of blocks the weights have, one for each gate and the proposal

    def __init__(self, input_size: int, hidden_size: int, batch_first: bool = True) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.add_weights()
        for parameter in self.parameters():  # as torch starts its recurrences
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def add_weights(self) -> None:
        """One row of blocks a gate: W^x (gates·H, E), W^s (gates·H, H), and a bias for each."""
        rows = self.gates * self.hidden_size
        self.weight_ih_l0 = nn.Parameter(torch.empty(rows, self.input_size))
        self.weight_hh_l0 = nn.Parameter(torch.empty(rows, self.hidden_size))
        self.bias_ih_l0 = nn.Parameter(torch.empty(rows))
        self.bias_hh_l0 = nn.Parameter(torch.empty(rows))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        """(B, T, E) -> the states (B, T, H), and the last state as `step` returns it."""
        states, last = self.unroll(inputs)
        return torch.stack(states, dim=1), last

    def unroll(self, inputs: Tensor) -> tuple[list[Tensor], Any]:
        """(B, T, E) -> T states (B, H), and the last one as `step` returns it."""
        state, states = self.start(inputs), []
        for word in inputs.unbind(1):  # (B, E)
            state = self.step(word, state)
            states.append(self.output(state))
        return states, state

    def start(self, inputs: Tensor) -> Any:
        """s_0: zeros, (B, H)."""
        return inputs.new_zeros(len(inputs), self.hidden_size)

    def step(self, x: Tensor, s: Any) -> Any:
        """x_t (B, E) and s_{t-1} (B, H) -> s_t (B, H)."""
        raise NotImplementedError

    def output(self, state: Any) -> Tensor:
        """What of a state is passed on as y_t, (B, H)."""
        return state

    def words(self, x: Tensor) -> tuple[Tensor, ...]:
        """W^x x_t + b of each gate, (B, H) each."""
        return linear(x, self.weight_ih_l0, self.bias_ih_l0).chunk(self.gates, dim=-1)

    def memory(self, s: Tensor) -> tuple[Tensor, ...]:
        """W^s s_{t-1} + b of each gate, (B, H) each."""
        return linear(s, self.weight_hh_l0, self.bias_hh_l0).chunk(self.gates, dim=-1)

    def both(self, x: Tensor, s: Tensor) -> list[Tensor]:
        """W^x x_t + W^s s_{t-1} + b of each gate, (B, H) each; b is the sum of two vectors."""
        return [word + state for word, state in zip(self.words(x), self.memory(s), strict=True)]


class Sum(Cell):
    """The slides' first suggestion: s_t = s_{t-1} + x_t, which learns nothing and forgets the
    order.
    Raises `InputError` when E is not H."""

    def add_weights(self) -> None:
        check(
            self.input_size == self.hidden_size,
            f"cell {type(self).__name__} adds words to its state, so input_size={self.input_size}"
            f" (the embedding_size of a classifier) must equal "
            f"hidden_size={self.hidden_size}; with several layers set bidirectional=False",
        )

    def step(self, x: Tensor, s: Tensor) -> Tensor:
        return s + x


class TanhSum(Sum):
    """The slides' second suggestion: s_t = tanh(s_{t-1} + x_t + b), bounded, with no weights but
    b."""

    def add_weights(self) -> None:
        super().add_weights()
        self.bias_l0 = nn.Parameter(torch.empty(self.hidden_size))

    def step(self, x: Tensor, s: Tensor) -> Tensor:
        return torch.tanh(s + x + self.bias_l0)


class PrototypeLSTM(Cell):
    """The slides' step between Elman and LSTM: soft gates, and one state for memory and output.

    The blocks of its weights are the first three of an LSTM's: i, f, the proposal.
    """

    gates = 3

    def step(self, x: Tensor, s: Tensor) -> Tensor:
        at_i, at_f, at_s = self.both(x, s)
        i = torch.sigmoid(at_i)  # what to write
        f = torch.sigmoid(at_f)  # what to keep
        proposal = torch.tanh(at_s)
        return s * f + proposal * i


def linear_recurrence(a: Tensor, b: Tensor, from_the_end: bool = False) -> Tensor:
    """h_t = a_t ⊙ h_{t-1} + b_t from h_0 = 0, for all words: (B, T, H) each -> (B, T, H); or, from
    the last word to the first, h_t = a_t ⊙ h_{t+1} + b_t.

    Examples:
        >>> half = torch.full((1, 3, 1), 0.5)
        >>> linear_recurrence(half, torch.ones(1, 3, 1)).flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    state, states = b.new_zeros(()).expand(len(b), b.shape[2]), []
    words = list(zip(a.unbind(1), b.unbind(1), strict=True))
    for kept, added in reversed(words) if from_the_end else words:
        state = torch.addcmul(added, kept, state)
        states.append(state)
    return torch.stack(states[::-1] if from_the_end else states, dim=1)


def later(values: Tensor) -> Tensor:
    """At each word of (B, T, H) what stands at the next one, and zero at the last."""
    return pad(values[:, 1:], (0, 0, 0, 1))


class LinearCell(Cell):
    """What minGRU and minLSTM have in common: `terms` of all words at once, then one linear
    recurrence."""

    def add_weights(self) -> None:
        """As of other cells, without W^s and its bias."""
        super().add_weights()
        del self.weight_hh_l0, self.bias_hh_l0

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
        """W x + b of each gate, (..., H) each, at least in float32: bfloat16 holds no sums of many
        words."""
        sums = linear(x, self.weight_ih_l0, self.bias_ih_l0)
        return sums.to(torch.promote_types(sums.dtype, torch.float32)).chunk(self.gates, dim=-1)


class MinGRU(LinearCell):
    """A GRU whose gate and proposal do not look at the state (Feng et al. 2024).

    h_t = (1 - z_t) ⊙ h_{t-1} + z_t ⊙ h̃_t, with z_t = σ(W^z x_t + b^z) and h̃_t = W^h x_t + b^h.
    The blocks of its weights: z, the proposal.
    """

    gates = 2

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at_z, proposal = self.words(x)
        z = torch.sigmoid(at_z)
        return 1 - z, z * proposal


class MinLSTM(LinearCell):
    """An LSTM whose gates do not look at the state, and are made to sum to one (Feng et al. 2024).

    h_t = f'_t ⊙ h_{t-1} + i'_t ⊙ h̃_t with f' = f / (f + i) and i' = i / (f + i), f_t = σ(W^f x_t +
    b^f), i_t = σ(W^i x_t + b^i) and h̃_t = W^h x_t + b^h. The blocks of its weights: f, i, the
    proposal.
    """

    gates = 3

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at_f, at_i, proposal = self.words(x)
        # f / (f + i) = σ(log f - log i), also where both are nearly zero
        kept = torch.sigmoid(softplus(-at_i) - softplus(-at_f))
        return kept, (1 - kept) * proposal


TORCH_CELLS: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}
"""The recurrent cells that torch has; "elman" is the thesis's basic RNN with tanh (§1.3.1)."""

CELLS: dict[str, type[nn.Module]] = TORCH_CELLS | {
    "prototype": PrototypeLSTM,
    "sum": Sum,
    "tanh_sum": TanhSum,
    "mingru": MinGRU,
    "minlstm": MinLSTM,
}
"""Every recurrent cell by name."""
