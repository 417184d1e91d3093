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
from torch.nn.functional import pad
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from whenpool.base.errors import check
from whenpool.models.cells import Cell, LinearCell, earlier, later, linear_recurrence


class Tap(NamedTuple):
    """One call of a recurrence; of a stack of torch's, the call of its top layer.

    `total` takes the gradients at ``wanted``, None where the loss does not depend on one, and returns
    ∂L/∂h_t of every state: for each direction (B, T, H), zeros after the end of a packed text. It raises
    `InputError` where the loss depends on the final state as it is returned beside the others.
    """

    module: nn.Module
    inputs: Tensor  # (B, T, E), or the data of a packed sequence
    outputs: Tensor  # the states, beside ``inputs``
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
    """As the forward of a recurrence of torch's; its top layer leaves a `Tap`."""
    packed = isinstance(input, PackedSequence)
    check(packed or input.dim() == 3, "a recurrence must read a batch (B, T, E)")
    words = input if packed or module.batch_first else input.transpose(0, 1)
    K, ends = 2 if module.bidirectional else 1, []
    for number in range(module.num_layers):
        rows = slice(number * K, (number + 1) * K)  # of the initial state, (layers · K, B, H) or a pair
        start = tuple(part[rows] for part in hx) if isinstance(hx, tuple) else hx
        start = start[rows] if isinstance(start, Tensor) else start
        if number < module.num_layers - 1:
            words, end = _layer(module, number)(words, start)
        else:
            tap, end = _run_top(module, words, start)
            taps.append(tap)
        ends.append(end if isinstance(end, tuple) else (end,))
    last = tuple(map(torch.cat, zip(*ends, strict=True)))
    if packed:
        states = input._replace(data=tap.outputs)
    else:
        states = tap.outputs if module.batch_first else tap.outputs.transpose(0, 1)
    return states, last if len(last) == 2 else last[0]


def _run_top(module: Any, inputs: Tensor | PackedSequence, start: Any) -> tuple[Tap, Any]:
    """Run the top layer with the extra inputs z (and y) behind its inputs, all zero."""
    packed = inputs if isinstance(inputs, PackedSequence) else None
    data = inputs.data if isinstance(inputs, PackedSequence) else inputs
    weights = _layer_weights(module, module.num_layers - 1)
    is_gru, E, H, K = isinstance(module, nn.GRU), data.shape[-1], module.hidden_size, len(weights)
    width = 2 * H if is_gru else H  # of a direction's extra inputs
    wide = data.new_zeros(*data.shape[:-1], E + K * width)
    wide[..., :E] = data.detach()
    wide.requires_grad_()
    augmented = _layer(module, module.num_layers - 1, extra=K * width)
    for k, (W_ih, W_hh, *_) in enumerate(_layer_weights(augmented, 0)):
        into = W_ih[:, E + k * width : E + (k + 1) * width]  # a view: the columns of this direction
        if is_gru:
            into[: 2 * H, :H] = W_hh[: 2 * H]
            into[2 * H :, H:] = torch.eye(H, dtype=W_hh.dtype, device=W_hh.device)
        else:
            into.copy_(W_hh)
    outputs, end = augmented(wide if packed is None else packed._replace(data=wide), start)
    states = outputs if packed is None else outputs.data

    def padded(values: Tensor) -> Tensor:
        if packed is None:
            return values
        return pad_packed_sequence(packed._replace(data=values), batch_first=True)[0]

    def total(grads: list[Any]) -> list[Tensor]:
        above, through, at_end = grads
        final = "the model classifies from the final state that its recurrence returns"
        check(at_end is None, f"{final}; let classify take that state from the states of all words")
        above = padded(above).chunk(K, dim=-1)  # (B, T, H) each
        through = padded(through)[..., E:].chunk(K, dim=-1)  # (B, T, H), or (B, T, 2H) of a GRU
        if not is_gru:
            return [_add_next(above[k], through[k], k == 1) for k in range(K)]
        words, hidden = padded(data.detach()), padded(states.detach()).chunk(K, dim=-1)
        return [_gru(weights[k], words, hidden[k], above[k], through[k], k == 1) for k in range(K)]

    last = end[0] if isinstance(end, tuple) else end  # (K, B, H)
    return Tap(module, data, states, [states, wide, last], total), end


def _add_next(above: Tensor, through: Tensor, backward: bool) -> Tensor:
    """∂L/∂h_t of one direction, (B, T, H): what comes from above, and ∂L/∂z of the word that is read next."""
    return above + (earlier if backward else later)(through)


def _gru(
    weights: list[Tensor], words: Tensor, states: Tensor, above: Tensor, extra: Tensor, backward: bool
) -> Tensor:
    """∂L/∂h_t of one direction, (B, T, H), by the recursion above; ``extra`` is ∂L/∂z_t beside ∂L/∂y_t."""
    H = states.shape[-1]
    following = earlier if backward else later  # shifts to the position that is read next
    W_ih, W_hh, *biases = weights
    b_ih, b_hh = biases or (W_ih.new_zeros(3 * H), W_hh.new_zeros(3 * H))
    through, candidate = extra.chunk(2, dim=-1)
    gates = slice(0, 2 * H)  # torch's order: r, u, n
    # x_{t+1} beside h_t
    at_gates = following(words) @ W_ih[gates].T + b_ih[gates] + states @ W_hh[gates].T + b_hh[gates]
    reset, update = at_gates.sigmoid().chunk(2, dim=-1)  # r_{t+1}, u_{t+1}
    local = above + following(through) + (reset * following(candidate)) @ W_hh[2 * H :]
    return linear_recurrence(update, local, from_the_end=not backward)


def _layer(module: Any, number: int, extra: int = 0) -> Any:
    """A layer of a recurrence by itself, with so many ``extra`` inputs of weight 0 behind the others. It
    learns nothing, and is in training mode, without which cuDNN gives no gradient, but without dropout."""
    weights = _layer_weights(module, number)
    E, W_hh = weights[0][0].shape[1], weights[0][1]
    names = ["bias", "bidirectional"] + ["nonlinearity"] * isinstance(module, nn.RNN)
    options: dict[str, Any] = {name: getattr(module, name) for name in names}
    options |= {"batch_first": True, "dtype": W_hh.dtype, "device": "meta"}  # where nothing is drawn
    layer = type(module)(E + extra, module.hidden_size, **options)
    layer = layer.to_empty(device=W_hh.device).requires_grad_(False)
    for copies, originals in zip(_layer_weights(layer, 0), weights, strict=True):
        for copy, weight in zip(copies, originals, strict=True):
            copy.copy_(pad(weight, (0, extra)) if weight is originals[0] else weight)
    return layer


def _layer_weights(module: Any, layer: int) -> list[list[Tensor]]:
    """For each direction W_ih, W_hh and, where there are any, the two biases."""
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if module.bias else [])]
    endings = ("", "_reverse") if module.bidirectional else ("",)
    return [[getattr(module, f"{name}_l{layer}{end}").detach() for name in names] for end in endings]


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
