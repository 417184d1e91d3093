"""Looking into a fused recurrence: what flows back into each of its states through time.

A fused kernel returns all states at once, so a hook on them sees only the part of a gradient that
comes from above, not the part that comes through the next state. But a state enters the next step
through a matrix product, h_t W_hhᵀ, just as the input does. A second input z_t that is zero and has
the weights W_hh changes nothing, and its gradient is ∂L/∂z_t = W_hhᵀ ∂L/∂gates_t: what flows back
into h_{t-1}. So, for an LSTM or a basic RNN,

    ∂L/∂h_t = (∂L/∂h_t from above) + ∂L/∂z_{t+1}.

A GRU's state enters in two more places, h_t = (1 - u_t) ⊙ n_t + u_t ⊙ h_{t-1} with
n_t = tanh(W_in x_t + b_in + r_t ⊙ (W_hn h_{t-1} + b_hn)). Here z_t gets only the weights of the gates
r and u; a third input y_t enters n_t alone, with the identity, so that ∂L/∂y_t is the gradient at n_t
before its tanh. The rest is the recursion, from the last word to the first,

    ∂L/∂h_t = (from above) + ∂L/∂z_{t+1} + W_hnᵀ (r_{t+1} ⊙ ∂L/∂y_{t+1}) + u_{t+1} ⊙ ∂L/∂h_{t+1}.

Letters: B texts, T words of the longest, E units of an input, H units of a state, K directions.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from whenpool.base.errors import InputError
from whenpool.models.cells import Cell, LinearCell, earlier, later, linear_recurrence

_TAPPED = (nn.LSTM, nn.GRU, nn.RNN)
AnyTap = Any  # A `Tap` or a `CellTap`: module, inputs, outputs, wanted and total


@dataclass
class Tap:
    """One call of a recurrence of torch's; the top layer of a stack."""

    module: nn.RNNBase
    weights: list[list[Tensor]]  # for each direction W_ih, W_hh and, where there are any, the two biases
    inputs: Tensor  # (B, T, E), or the data of a packed sequence
    wide: Tensor  # ``inputs`` and behind them the zero inputs z (and y)
    outputs: Tensor  # the states, beside ``inputs``
    last: Tensor  # the final state, (K, B, H)
    packed: PackedSequence | None  # where ``inputs`` came packed, how

    @property
    def wanted(self) -> list[Tensor]:
        """The tensors whose gradients `total` needs."""
        return [self.outputs, self.wide, self.last]

    def total(self, grads: Sequence[Any]) -> list[Tensor]:
        """∂L/∂h_t of every state: for each direction (B, T, H), zeros behind the end of a packed text.

        Args:
            grads: at ``wanted``; None where the loss does not depend on one. May be overwritten.

        Raises `InputError` where the loss depends on the final state as it is returned beside the
        others.
        """
        above, through, last = grads
        if last is not None:
            raise InputError(
                "the model classifies from the final state that its recurrence returns beside the "
                "states; let classify take it from the states"
            )
        through = torch.zeros_like(self.wide) if through is None else through
        above = self._padded(above)
        through = self._padded(through)[..., self.inputs.shape[-1] :]
        K = len(self.weights)
        parts = zip(above.chunk(K, dim=-1), through.chunk(K, dim=-1), strict=True)
        if isinstance(self.module, nn.GRU):
            return [self._gru(k, own, *extra.chunk(2, dim=-1)) for k, (own, extra) in enumerate(parts)]
        return [_add_next(own, extra, backward=k == 1) for k, (own, extra) in enumerate(parts)]

    def _gru(self, k: int, above: Tensor, through: Tensor, candidate: Tensor) -> Tensor:
        H, backward = self.module.hidden_size, k == 1
        following = earlier if backward else later  # what stands at the position that is read next
        W_ih, W_hh, *biases = self.weights[k]
        b_ih, b_hh = biases or (W_ih.new_zeros(3 * H), W_hh.new_zeros(3 * H))
        states = self._padded(self.outputs.detach())[..., k * H : (k + 1) * H]
        inputs = following(self._padded(self.inputs.detach()))  # x_{t+1} beside h_t
        gates = slice(0, 2 * H)  # torch's order: r, u, n
        at_gates = inputs @ W_ih[gates].T + b_ih[gates] + states @ W_hh[gates].T + b_hh[gates]
        reset, update = at_gates.sigmoid().chunk(2, dim=-1)  # r_{t+1}, u_{t+1}
        local = above + following(through) + (reset * following(candidate)) @ W_hh[2 * H :]
        return linear_recurrence(update, local, from_the_end=not backward)

    def _padded(self, values: Tensor) -> Tensor:
        if self.packed is None:
            return values
        again = self.packed._replace(data=values)
        return pad_packed_sequence(again, batch_first=True)[0]


@contextmanager
def tapped(model: nn.Module) -> Iterator[list[AnyTap]]:
    """While inside, every call of a ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` in a model leaves a `Tap`, and
    every call of a `whenpool.models.cells.Cell` a `CellTap`.

    The states are what they were; gradients of the recurrences' own parameters are not.

    Raises `InputError` for a recurrence that cannot be tapped.
    """
    taps: list[AnyTap] = []
    recurrences: dict[Any, Any] = {}  # each with its own forward
    for module in model.modules():
        if isinstance(module, Cell):  # that runs as `whenpool.models.cells` says
            known = type(module).forward in (Cell.forward, LinearCell.forward)
            recurrences[module] = _recording_cell(module, taps)
        elif isinstance(module, nn.RNNBase):
            known = type(module) in _TAPPED and not module.proj_size
            recurrences[module] = _recording(module, taps)
        else:
            known = not isinstance(module, nn.RNNCellBase)
        if not known:
            raise InputError(
                f"{type(module).__name__} cannot be tapped: only nn.LSTM, nn.GRU and nn.RNN without "
                "projections, and the cells of whenpool.Encoder can"
            )
    try:
        for module, recording in recurrences.items():
            module.forward = recording
        yield taps
    finally:
        for module in recurrences:
            del module.forward


def _recording(module: Any, taps: list[AnyTap]) -> Any:
    def forward(input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:  # noqa: A002
        inputs: Any = input
        if isinstance(input, Tensor):
            if input.dim() != 3:
                raise InputError(f"a recurrence needs a batch (B, T, E), not {tuple(input.shape)}")
            inputs = input if module.batch_first else input.transpose(0, 1)
        below = (module.num_layers - 1) * (2 if module.bidirectional else 1)
        lower_end = None
        if below:
            lower = _like(module, module.input_size, module.num_layers - 1)
            lower.load_state_dict(module.state_dict(), strict=False)  # but for the top layer's
            inputs, lower_end = lower(inputs, _part(hx, slice(0, below)))
        tap, end = _run_top(module, inputs, _part(hx, slice(below, None)))
        taps.append(tap)
        outputs: Any = tap.outputs
        if isinstance(input, PackedSequence):
            outputs = input._replace(data=outputs)
        elif not module.batch_first:
            outputs = outputs.transpose(0, 1)
        if isinstance(lower_end, tuple):
            end = tuple(torch.cat(pair) for pair in zip(lower_end, end, strict=True))
        elif lower_end is not None:
            end = torch.cat([lower_end, end])
        return outputs, end

    return forward


def _run_top(module: Any, inputs: Tensor | PackedSequence, start: Any) -> tuple[Tap, Any]:
    """Run the top layer with the extra inputs."""
    packed = inputs if isinstance(inputs, PackedSequence) else None
    data = inputs.data if isinstance(inputs, PackedSequence) else inputs
    weights = _layer_weights(module, module.num_layers - 1)
    E, H, K = data.shape[-1], module.hidden_size, len(weights)
    width = 2 * H if isinstance(module, nn.GRU) else H  # of a direction's extra inputs
    wide = data.new_zeros(*data.shape[:-1], E + K * width)
    wide[..., :E] = data.detach()
    wide.requires_grad_()
    augmented = _like(module, E + K * width, layers=1)
    for k, (own, (W_ih, W_hh, *biases)) in enumerate(
        zip(_layer_weights(augmented, 0), weights, strict=True)
    ):
        own[0].zero_()
        own[0][:, :E] = W_ih
        into = own[0][:, E + k * width : E + (k + 1) * width]  # a view: the direction's own columns
        if isinstance(module, nn.GRU):
            into[: 2 * H, :H] = W_hh[: 2 * H]
            into[2 * H :, H:] = torch.eye(H, dtype=W_hh.dtype, device=W_hh.device)
        else:
            into.copy_(W_hh)
        for mine, theirs in zip(own[1:], (W_hh, *biases), strict=True):
            mine.copy_(theirs)
    outputs, end = augmented(wide if packed is None else packed._replace(data=wide), start)
    states = outputs if packed is None else outputs.data
    last = end[0] if isinstance(end, tuple) else end
    return Tap(module, weights, data, wide, states, last, packed), end


def _like(module: Any, input_size: int, layers: int) -> Any:
    """A recurrence of the same kind and place that learns nothing; in training mode, without which
    cuDNN gives no gradient, and without dropout."""
    weight = module.weight_hh_l0
    options = {name: getattr(module, name) for name in ("bias", "bidirectional")}
    if isinstance(module, nn.RNN):
        options["nonlinearity"] = module.nonlinearity
    options |= {"batch_first": True, "dtype": weight.dtype, "device": "meta"}  # where nothing is drawn
    made = type(module)(input_size, module.hidden_size, layers, **options)
    return made.to_empty(device=weight.device).requires_grad_(False)


def _layer_weights(module: Any, layer: int) -> list[list[Tensor]]:
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if module.bias else [])]
    endings = ("", "_reverse") if module.bidirectional else ("",)
    return [
        [getattr(module, f"{name}_l{layer}{ending}").detach() for name in names] for ending in endings
    ]


def _part(start: Any, rows: slice) -> Any:
    """Some layers of an initial state, (layers·K, B, H) or a pair of them."""
    if start is None:
        return None
    return tuple(s[rows] for s in start) if isinstance(start, tuple) else start[rows]


def _add_next(values: Tensor, more: Tensor, backward: bool) -> Tensor:
    """``values`` plus, in place, what stands in ``more`` at the position that is read after it."""
    if backward:
        values[:, 1:] += more[:, :-1]
    else:
        values[:, :-1] += more[:, 1:]
    return values


@dataclass
class CellTap:
    """One call of a cell, with inputs (B, T, E), outputs (B, T, H), and in ``wanted`` the tensors whose
    gradients are the total ones: T states (B, H), or one (B, T, H)."""

    module: nn.Module
    inputs: Tensor
    outputs: Tensor
    wanted: list[Tensor]

    def total(self, grads: Sequence[Tensor | None]) -> list[Tensor]:
        """As `Tap.total`, of one direction."""
        pairs = zip(self.wanted, grads, strict=True)
        known = [torch.zeros_like(of) if grad is None else grad for of, grad in pairs]
        return known if isinstance(self.module, LinearCell) else [torch.stack(known, dim=1)]


def _recording_cell(module: Any, taps: list[Any]) -> Any:
    """A ``forward`` for a cell that does what its own does, and leaves a `CellTap`."""

    def forward(inputs: Tensor) -> tuple[Tensor, Any]:
        if inputs.dim() != 3:
            raise InputError(f"a recurrence needs a batch (B, T, E), not {tuple(inputs.shape)}")
        if not inputs.requires_grad:  # so that every state has a gradient, of cells without weights too
            inputs = inputs.detach().requires_grad_()
        if isinstance(module, LinearCell):
            kept, added = module.terms(inputs)
            states, wanted = linear_recurrence(kept, added), [added]
            last: Any = states[:, -1]
        else:
            wanted, last = module.unroll(inputs)
            states = torch.stack(wanted, dim=1)
        taps.append(CellTap(module, inputs, states, wanted))
        return states, last

    return forward
