"""Recurrent cells as the formulas that they are: what they share, and those that torch lacks.

A step reads the words x_t of all texts of a batch and the state s_{t-1}, and returns s_t (Goldberg
2017, chapters 14 and 15). book/recurrent_networks.md writes out those that torch has.
"""

# Letters: B texts, T words of the longest, E units of an input, H units of a state.

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, softplus

from whenpool.base.errors import check

__all__ = [
    "LRU",
    "SSM",
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
        steps = self.unroll(inputs)
        return torch.stack([*map(self.output, steps)], dim=1), steps[-1]

    def unroll(self, inputs: Tensor) -> list[Any]:
        """(B, T, E) -> T states as `step` returns them."""
        state, steps = self.start(inputs), []
        for word in inputs.unbind(1):  # (B, E)
            state = self.step(word, state)
            steps.append(state)
        return steps

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
    """h_t = a_t ⊙ h_{t-1} + b_t from h_0 = 0, for all words: (B, T, H) each, real or complex ->
    (B, T, H); or, from the last word to the first, h_t = a_t ⊙ h_{t+1} + b_t.

    A processor goes from word to word, which is faster there; a GPU takes an associative scan of
    some log₂ T steps, as Orvieto et al. (2023). The gradient is such a recurrence too, in the other
    direction, and has a gradient itself.

    Examples:
        >>> half = torch.full((1, 3, 1), 0.5)
        >>> linear_recurrence(half, torch.ones(1, 3, 1)).flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    return _LinearRecurrence.apply(a, b, from_the_end)


def steps(a: Tensor, b: Tensor, from_the_end: bool = False) -> Tensor:
    """`linear_recurrence` word by word."""
    state, states = b.new_zeros(()).expand_as(b[:, 0]), []
    words = list(zip(a.unbind(1), b.unbind(1), strict=True))
    for kept, added in reversed(words) if from_the_end else words:
        state = torch.addcmul(added, kept, state)
        states.append(state)
    return torch.stack(states[::-1] if from_the_end else states, dim=1)


def scan(a: Tensor, b: Tensor, from_the_end: bool = False) -> Tensor:
    """`linear_recurrence` by halves: two words are one step, with a_2 a_1 and a_2 b_1 + b_2. A scan
    of half as many steps gives every second state, and one step from each the others, so that the
    cost grows with T. Nothing is divided."""
    if from_the_end:
        return scan(a.flip(1), b.flip(1)).flip(1)
    T = b.shape[1]
    if T == 1:
        return b.clone()  # autograd takes no input for an output
    kept, added = a[:, 1::2], b[:, 1::2]
    second = scan(kept * a[:, : T - 1 : 2], torch.addcmul(added, kept, b[:, : T - 1 : 2]))
    before = earlier(second, T % 2)  # the state before each first
    states = torch.empty_like(b)
    states[:, ::2] = torch.addcmul(b[:, ::2], a[:, ::2], before)
    states[:, 1::2] = second
    return states


class _LinearRecurrence(torch.autograd.Function):
    """∂L/∂b_t = ∂L/∂h_t from above + a*_{t+1} ⊙ ∂L/∂b_{t+1}, and ∂L/∂a_t = ∂L/∂b_t ⊙ h*_{t-1};
    the star is the complex conjugate."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor, from_the_end: bool) -> Tensor:
        return (steps if b.device.type == "cpu" else scan)(a, b, from_the_end)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.from_the_end = inputs[2]

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, Tensor, None]:
        a, states = ctx.saved_tensors
        ahead, behind = (earlier, later) if ctx.from_the_end else (later, earlier)
        at_b = linear_recurrence(ahead(a).conj(), above, not ctx.from_the_end)
        return at_b * behind(states).conj(), at_b, None


def later(values: Tensor) -> Tensor:
    """At each word of (B, T, H) what stands at the next one, and zero at the last."""
    return pad(values[:, 1:], (0, 0, 0, 1))


def earlier(values: Tensor, more: int = 0) -> Tensor:
    """At each word of (B, T, H) what stands at the one before, and zero at the first; with one word
    ``more`` the last one's as well."""
    return pad(values, (0, 0, 1, more - 1))


def exact(values: Tensor) -> Tensor:
    """The values at least in float32."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class LinearCell(Cell):
    """What cells have in common whose gates do not look at the state: `terms` of all words at once,
    one linear recurrence, and what is `read` from its states, which may have more units."""

    def add_weights(self) -> None:
        """As of other cells, without W^s and its bias."""
        super().add_weights()
        del self.weight_hh_l0, self.bias_hh_l0

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, E) -> what is read at each word (B, T, H), and the last state."""
        states = linear_recurrence(*self.terms(inputs))
        return self.read(states, inputs), states[:, -1]

    def step(self, x: Tensor, s: Tensor) -> Tensor:
        """x_t (B, E) and s_{t-1}, as large as `terms` -> s_t."""
        kept, added = self.terms(x)
        return kept * s + added

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Words (..., E) -> what each keeps of the state and what it adds to it, as large as the
        state each."""
        raise NotImplementedError

    def read(self, states: Tensor, x: Tensor) -> Tensor:
        """States after words (..., E) -> what is passed on, (..., H): here the states."""
        return states

    def words(self, x: Tensor) -> tuple[Tensor, ...]:
        """W x + b of each gate, (..., H) each, at least in float32: bfloat16 holds no sums of many
        words."""
        return exact(linear(x, self.weight_ih_l0, self.bias_ih_l0)).chunk(self.gates, dim=-1)


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


class SSM(LinearCell):
    """A diagonal state-space layer whose steps depend on the word, the S6 of Mamba (Gu and Dao
    2023), without Mamba's convolution and gate around it.

    Each unit has `N` states: h_t = exp(Δ_t A) ⊙ h_{t-1} + Δ_t B_t u_t and y_t = C_tᵀ h_t + D u_t.
    Input u_t, step Δ_t = softplus(W^Δ x_t + b^Δ), both (H,), and B_t, C_t, both (N,), are of the
    word. A starts at -1, ..., -N, as S4D-Real, and steps at 0.001 to 0.1, evenly on a logarithmic
    scale, so that the n-th state of a unit begins to forget after 10 / n to 1,000 / n words.
    """

    gates = 1
    N = 4

    def __init__(self, input_size: int, hidden_size: int, batch_first: bool = True) -> None:
        super().__init__(input_size, hidden_size, batch_first)
        with torch.no_grad():
            step = torch.empty(hidden_size).uniform_(math.log(1e-3), math.log(0.1)).exp()
            # the inverse of softplus
            self.bias_ih_l0[hidden_size : 2 * hidden_size] = step + (-torch.expm1(-step)).log()
            self.log_A.copy_(torch.arange(1, self.N + 1).log())
            self.D.fill_(1)

    def add_weights(self) -> None:
        """Rows of u, Δ, B and C, with a bias; log(-A) (H, N), and D (H,)."""
        rows = 2 * (self.hidden_size + self.N)
        self.weight_ih_l0 = nn.Parameter(torch.empty(rows, self.input_size))
        self.bias_ih_l0 = nn.Parameter(torch.empty(rows))
        self.log_A = nn.Parameter(torch.empty(self.hidden_size, self.N))
        self.D = nn.Parameter(torch.empty(self.hidden_size))

    def words(self, x: Tensor) -> tuple[Tensor, ...]:
        """u, W^Δ x + b^Δ, B and C."""
        (every,) = super().words(x)
        return every.split([self.hidden_size] * 2 + [self.N] * 2, dim=-1)

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u, at_step, B, _ = self.words(x)
        step = softplus(at_step)
        kept = torch.exp(-step.unsqueeze(-1) * exact(self.log_A).exp())  # (..., H, N)
        added = (step * u).unsqueeze(-1) * B.unsqueeze(-2)
        return kept.flatten(-2), added.flatten(-2)

    def read(self, states: Tensor, x: Tensor) -> Tensor:
        u, _, _, C = self.words(x)
        of_units = states.unflatten(-1, (self.hidden_size, self.N))
        return (of_units @ C.unsqueeze(-1)).squeeze(-1) + self.D * u


class LRU(LinearCell):
    """A linear recurrent unit (Orvieto et al. 2023): complex states that turn and fade alike at
    each word.

    h_t = λ ⊙ h_{t-1} + γ ⊙ B x_t with λ = exp(-exp(ν) + i exp(θ)), and y_t = Re(C h_t) + D x_t; B
    and C are complex, D is a matrix because x and y may differ in size. λ starts evenly on the ring
    between the radii 0.9 and 0.999 and the phases 0 and π/10, a narrow slice as the paper takes for
    long texts, and γ at √(1 - r²) for the radius r, so that states begin as large as the words.
    """

    gates = 2
    bias_ih_l0: Any = None

    def __init__(self, input_size: int, hidden_size: int, batch_first: bool = True) -> None:
        super().__init__(input_size, hidden_size, batch_first)
        with torch.no_grad():
            squared = torch.empty(hidden_size).uniform_(0.9**2, 0.999**2)  # |λ|²
            self.nu.copy_((-squared.log() / 2).log())
            self.theta.uniform_(0, math.pi / 10).log_()
            self.log_gamma.copy_((1 - squared).log() / 2)
            for weight, size in (
                (self.weight_ih_l0, 2 * input_size),
                (self.weight_out, hidden_size),
                (self.D, input_size),
            ):
                weight.normal_(std=size**-0.5)

    def add_weights(self) -> None:
        """B, its real rows and then its imaginary ones; C, a column of either kind for each state;
        D; ν, θ and log γ (H,)."""
        E, H = self.input_size, self.hidden_size
        self.weight_ih_l0 = nn.Parameter(torch.empty(2 * H, E))
        self.weight_out = nn.Parameter(torch.empty(H, 2 * H))
        self.D = nn.Parameter(torch.empty(H, E))
        self.nu, self.theta, self.log_gamma = (nn.Parameter(torch.empty(H)) for _ in range(3))

    def terms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        added = self.log_gamma.exp() * torch.complex(*self.words(x))
        turn = torch.polar((-exact(self.nu).exp()).exp(), exact(self.theta).exp())  # λ
        return turn.expand_as(added), added

    def read(self, states: Tensor, x: Tensor) -> Tensor:
        parts = torch.cat([states.real, -states.imag], dim=-1)
        return linear(parts.to(x.dtype), self.weight_out) + linear(x, self.D)


TORCH_CELLS: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}
"""The recurrent cells that torch has; "elman" is the thesis's basic RNN with tanh (§1.3.1)."""

CELLS: dict[str, type[nn.Module]] = TORCH_CELLS | {
    "prototype": PrototypeLSTM,
    "sum": Sum,
    "tanh_sum": TanhSum,
    "mingru": MinGRU,
    "minlstm": MinLSTM,
    "ssm": SSM,
    "lru": LRU,
}
"""Every recurrent cell by name."""
