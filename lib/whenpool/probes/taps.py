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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from whenpool.base.errors import check
from whenpool.models.cells import Cell, LinearCell, later, linear_recurrence
from whenpool.models.encoder import Reading


class Tap(NamedTuple):
    """One call of a recurrence; of a stack of torch's, the call of its top layer.

    `total` takes the gradients at ``wanted``, None where the loss does not depend on one, and returns
    ∂L/∂h_t of every state: for each direction (B, T, H), zeros after the end of a packed text. It raises
    `InputError` where the loss depends on the cell that an LSTM returns beside its states.
    """

    module: nn.Module
    inputs: Tensor  # (B, T, E)
    outputs: Tensor  # (B, T, D), the states of these inputs
    wanted: list[Tensor]
    total: Callable[[list[Any]], list[Tensor]]


@contextmanager
def tapped(model: nn.Module) -> Iterator[list[Tap]]:
    """While inside, every call of a ``nn.LSTM``, ``nn.GRU``, ``nn.RNN`` or `whenpool.models.cells.Cell` in a
    model leaves a `Tap`. The states are what they were; gradients of the recurrences' own parameters are
    not. Raises `InputError` for a module that cannot be looked into."""
    taps: list[Tap] = []
    recurrences: dict[Any, Any] = {}  # each with what runs instead of its forward
    for module in model.modules():
        if isinstance(module, Cell):  # that runs as `whenpool.models.cells` says
            known = type(module).forward in (Cell.forward, LinearCell.forward)
            recurrences[module] = _run_cell
        elif isinstance(module, nn.RNNBase):
            known = type(module) in (nn.LSTM, nn.GRU, nn.RNN) and not module.proj_size
            recurrences[module] = _run
        else:
            known = not isinstance(module, nn.RNNCellBase)
            closed = isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule)
            made = f"{type(module).__name__} was traced, exported or quantised; probe the original"
            check(not (closed or type(module).__module__.startswith("torch.ao.")), made)
        instead = "nn.LSTM, nn.GRU or nn.RNN without projections, or a whenpool.Encoder"
        check(known, f"{type(module).__name__} cannot be probed; use {instead}")
    try:
        for module, run in recurrences.items():
            module.forward = partial(run, module, taps)
        yield taps
    finally:
        for module in recurrences:
            del module.forward


def _run(module: Any, taps: list[Tap], input: Any, hx: Any = None) -> tuple[Any, Any]:  # noqa: A002
    """As the forward of a recurrence of torch's, packed or not, in the way of `whenpool.Encoder`: layer by
    layer, each direction by itself in its order of reading. The top layer leaves a `Tap`."""
    packed, K = isinstance(input, PackedSequence), 2 if module.bidirectional else 1
    if packed:
        words, lengths = pad_packed_sequence(input, batch_first=True)  # (B, T, E), (B,)
    else:
        check(input.dim() == 3, f"a recurrence must read a batch (B, T, E), not {tuple(input.shape)}")
        words = input if module.batch_first else input.transpose(0, 1)
        lengths = torch.full(words.shape[:1], words.shape[1])
    lengths = lengths.to(words.device)
    plan, ends = Reading.of(lengths, words.shape[1], K), []
    for number in range(module.num_layers):
        inputs = words
        halves = [
            _read(module, _weights(module, number, k), x, hx, number * K + k)
            for k, x in enumerate(plan.fed(inputs))
        ]
        words = halves[0].states  # (B, T, H)
        if packed or K == 2:
            words = plan.joined([half.states for half in halves])  # (B, T, D)
        ends += [half.states[torch.arange(len(lengths)), lengths - 1] for half in halves]
    last = torch.stack(ends)  # (layers · K, B, H)
    # what an LSTM's cells are does not follow from its states; that nothing depends on them is checked
    cells = torch.full_like(last, torch.nan, requires_grad=True)
    wanted = [tensor for half in halves for tensor in (half.states, half.wide)]

    def total(grads: list[Tensor | None]) -> list[Tensor]:
        at_cells, *at_wanted = grads
        cell = "the model classifies from the cell that its recurrence returns"
        check(at_cells is None, f"{cell}; let classify take a state from the states of all words")
        pairs = zip(wanted, at_wanted, strict=True)
        known = [torch.zeros_like(of) if grad is None else grad for of, grad in pairs]
        totals = list(map(_total, halves, known[::2], known[1::2]))
        return totals if K == 1 else [totals[0], plan.reversed(totals[1])]

    taps.append(Tap(module, inputs, words, [cells, *wanted], total))
    end = (last, cells) if isinstance(module, nn.LSTM) else last
    if packed:
        in_order = input.sorted_indices is None
        return pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=in_order), end
    return words if module.batch_first else words.transpose(0, 1), end


class Half(NamedTuple):
    """One direction of a layer, in its order of reading."""

    weights: list[Tensor]  # W_ih, W_hh and, where there are any, the two biases
    inputs: Tensor  # (B, T, E)
    wide: Tensor  # (B, T, E + H), or (B, T, E + 2H) of a GRU: the inputs, z and y
    states: Tensor  # (B, T, H)


def _read(module: Any, weights: list[Tensor], inputs: Tensor, hx: Any, number: int) -> Half:
    """Run one direction of a layer with the extra inputs z (and y), all zero. ``hx`` are the states to start
    from, (layers · K, B, H) or a pair of them or None, of which this direction has the ``number``."""
    W_ih, W_hh, *_ = weights
    E, H = inputs.shape[-1], module.hidden_size
    into = W_hh  # the weights of z
    if isinstance(module, nn.GRU):
        into = W_hh.new_zeros(3 * H, 2 * H)
        into[: 2 * H, :H] = W_hh[: 2 * H]
        into[2 * H :, H:] = torch.eye(H, dtype=W_hh.dtype, device=W_hh.device)
    # a module that learns nothing, in training mode, without which cuDNN gives no gradient
    options: dict[str, Any] = {"bias": module.bias, "batch_first": True, "dtype": W_hh.dtype}
    options |= {"nonlinearity": module.nonlinearity} if isinstance(module, nn.RNN) else {}
    layer: Any = type(module)(E + into.shape[1], H, device="meta", **options)  # where nothing is drawn
    layer = layer.to_empty(device=W_hh.device).requires_grad_(False)
    for parameter, weight in zip(
        layer.parameters(), (torch.cat([W_ih, into], 1), *weights[1:]), strict=True
    ):
        parameter.copy_(weight)
    zeros = inputs.new_zeros(*inputs.shape[:2], into.shape[1])
    wide = torch.cat([inputs.detach(), zeros], -1).requires_grad_()
    start = tuple(part[number : number + 1] for part in hx) if isinstance(hx, tuple) else hx
    start = start[number : number + 1] if isinstance(start, Tensor) else start
    return Half(weights, inputs.detach(), wide, layer(wide, start)[0])


def _total(half: Half, above: Tensor, at_wide: Tensor) -> Tensor:
    """∂L/∂h_t of a direction, (B, T, H), from the gradients at its states and at its wide inputs."""
    E, H = half.inputs.shape[-1], half.states.shape[-1]
    extra = at_wide[..., E:]  # (B, T, H), or (B, T, 2H) of a GRU
    return _add_next(above, extra) if extra.shape[-1] == H else _gru(half, above, extra)


def _add_next(above: Tensor, through: Tensor) -> Tensor:
    """∂L/∂h_t, (B, T, H): what comes from above, and ∂L/∂z of the word that is read next."""
    return above + later(through)


def _gru(half: Half, above: Tensor, extra: Tensor) -> Tensor:
    """∂L/∂h_t, (B, T, H), by the recursion above; ``extra`` is ∂L/∂z_t beside ∂L/∂y_t."""
    states = half.states.detach()
    H = states.shape[-1]
    W_ih, W_hh, *biases = half.weights
    b_ih, b_hh = biases or (W_ih.new_zeros(3 * H), W_hh.new_zeros(3 * H))
    through, candidate = extra.chunk(2, dim=-1)
    gates = slice(0, 2 * H)  # torch's order: r, u, n
    # x_{t+1} beside h_t
    at_gates = later(half.inputs) @ W_ih[gates].T + b_ih[gates] + states @ W_hh[gates].T + b_hh[gates]
    reset, update = at_gates.sigmoid().chunk(2, dim=-1)  # r_{t+1}, u_{t+1}
    local = above + later(through) + (reset * later(candidate)) @ W_hh[2 * H :]
    return linear_recurrence(update, local, from_the_end=True)


def _weights(module: Any, layer: int, direction: int) -> list[Tensor]:
    """W_ih, W_hh and, where there are any, the two biases of a direction of a layer."""
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if module.bias else [])]
    ending = f"_l{layer}" + "_reverse" * direction
    return [getattr(module, name + ending).detach() for name in names]


def _run_cell(module: Any, taps: list[Tap], inputs: Tensor) -> tuple[Tensor, Any]:
    """As the forward of a cell, which leaves a `Tap`: the gradients at what is ``wanted``, T states (B, H)
    or all that a linear cell adds (B, T, H), are the total ones."""
    check(inputs.dim() == 3, f"a recurrence must read a batch (B, T, E), not {tuple(inputs.shape)}")
    if not inputs.requires_grad:  # so that every state has a gradient, of cells without weights too
        inputs = inputs.detach().requires_grad_()
    linear = isinstance(module, LinearCell)
    if linear:
        kept, added = module.terms(inputs)
        states, wanted = linear_recurrence(kept, added), [added]
        last: Any = states[:, -1]
    else:
        wanted, last = module.unroll(inputs)
        states = torch.stack(wanted, dim=1)

    def total(grads: list[Tensor | None]) -> list[Tensor]:
        pairs = zip(wanted, grads, strict=True)
        known = [torch.zeros_like(of) if grad is None else grad for of, grad in pairs]
        return known if linear else [torch.stack(known, dim=1)]

    taps.append(Tap(module, inputs, states, wanted, total))
    return states, last
