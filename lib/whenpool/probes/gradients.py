"""How much each state of a text moves the loss: the gradient probe (thesis §1.5).

A fused recurrence returns all states at once, so a hook on them sees only the part of a gradient
that comes from above, not the part that comes through the next state. But a state enters the next
step through a matrix product, h_t W_hhᵀ, just as the input does. A second input z_t that is zero
and has the weights W_hh changes nothing, and its gradient is ∂L/∂z_t = W_hhᵀ ∂L/∂gates_t: what
flows back into h_{t-1}. So, for an LSTM or a basic RNN,

    ∂L/∂h_t = (∂L/∂h_t from above) + ∂L/∂z_{t+1}.

A GRU's state enters in two more places, h_t = (1 - u_t) ⊙ n_t + u_t ⊙ h_{t-1} with
n_t = tanh(W_in x_t + b_in + r_t ⊙ (W_hn h_{t-1} + b_hn)). Here z_t gets only the weights of the
gates r and u; a third input y_t enters n_t alone, with the identity, so that ∂L/∂y_t is the
gradient at n_t before its tanh. The rest is the recursion, from the last word to the first,

    ∂L/∂h_t = (from above) + ∂L/∂z_{t+1} + W_hnᵀ (r_{t+1} ⊙ ∂L/∂y_{t+1}) + u_{t+1} ⊙ ∂L/∂h_{t+1}.

Letters: B texts, T words of the longest, E units of an input, H units of a state of one direction,
D units of a state, K directions, C classes, n words of one text.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils._pytree import tree_leaves, tree_map_only

from whenpool.base.errors import check
from whenpool.models.cells import Cell, LinearCell, later, linear_recurrence
from whenpool.models.encoder import Encoder, Reading, word_mask
from whenpool.models.sequence_tagger import tagging_loss
from whenpool.probes.protocol import (
    check_float,
    check_labels,
    check_steps,
    checked_batch,
    evaluating,
    interpolate,
    whole_numbers,
)


def gradient_norms(model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
    """‖∂L/∂h_t‖ of every text and word: the *total* gradient, direct and through the recurrence.

    L is the cross-entropy of the text itself, not divided by B. The left-to-right and the
    right-to-left state of a word count as one vector; of a stack, the states of the top layer. Of a
    cell that returns something else than its state, an SSM or LRU, h_t is the recurrent state, of
    which y_t is read: (H·N,) of an SSM, and of an LRU 2H real numbers. The recurrence is the last
    that ``encode`` or ``classify`` calls: a `whenpool.Encoder`, one of `whenpool.models.cells`, or
    torch's LSTM, GRU or RNN, packed or not; or else a loop over words whose states, each of which
    goes into the next step, ``encode`` returns as ``torch.stack(states, dim=1)``, or two directions
    of it in ``torch.cat``. A model that has none, such as a Transformer, has no path through later
    states of the same layer: its gradient is that at the states that ``encode`` returns. A probe
    warns of a custom ``autograd.Function``, since it would not see a recurrence inside. Raises
    `InputError` for any other loop, two recurrences that read the same words beside each other,
    states in another order than the recurrence has read texts or words, a quantised model, and a
    model or batch that it cannot read.

    Args:
        model: offers ``embed``, ``encode`` and ``classify``, see `whenpool.probes`. It is probed in
            evaluation mode; its parameters' ``grad`` stay as they are.
        ids, lengths, labels: (B, T) int64, right-padded; (B,), words of each text; (B,) int64.

    Returns:
        (B, T), NaN after the end of each text.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> gradient_norms(model, ids, lengths, torch.tensor([0, 1])).shape
        torch.Size([2, 40])
    """
    check_steps(model, "gradient_norms")
    ids, lengths, labels = checked_batch(model, ids, lengths, labels)

    def loss(logits: Tensor) -> Tensor:
        check_labels(labels, logits)
        return cross_entropy(logits, labels, reduction="sum")

    return _total_norms(model, ids, lengths, loss)


def vanishing_ratio(norms: Tensor, lengths: Tensor) -> Tensor:
    """‖∂L/∂h_mid‖ / ‖∂L/∂h_end‖ of each text, (B,): the lower, the more the gradient vanishes
    (§1.5).

    *mid* is the word ⌊n/2⌋, counted from 0, and *end* the first word (footnote 3; the caption of
    Figure 1.3 has the ratio upside down). It takes norms (B, T) from `gradient_norms` and lengths
    (B,). Raises `InputError` when lengths are not B, or not between 1 and T.

    Examples:
        >>> vanishing_ratio(torch.tensor([[4.0, 1.0, 4.0]]), torch.tensor([3]))
        tensor([0.2500])
    """
    lengths = _checked_lengths(norms, lengths)
    return norms.gather(1, (lengths // 2).unsqueeze(1)).squeeze(1) / norms[:, 0]


def gradient_profile(norms: Tensor, lengths: Tensor, points: int = 100) -> Tensor:
    """The norms (B, T) of each text, of ``lengths`` (B,), read at ``points`` places from its first
    to its last word: (B, points) (§1.5). Raises `InputError` when lengths are not B, or not between
    1 and T.

    Examples:
        >>> gradient_profile(torch.tensor([[4.0, 1.0, 4.0]]), torch.tensor([3]), points=5)
        tensor([[4.0000, 2.5000, 1.0000, 2.5000, 4.0000]])
    """
    return interpolate(norms, _checked_lengths(norms, lengths), points)


def tagging_gradient_norms(
    model: nn.Module, ids: Tensor, lengths: Tensor, tags: Tensor, word: Tensor | None = None
) -> Tensor:
    """‖∂L/∂h_t‖ of every sentence and word of a tagger, (B, T): the *total* gradient, as
    `gradient_norms`.

    L is the sum of the cross-entropies of all words of the sentence, or that of one word alone.
    Raises `InputError` for a model without the three steps, or a batch that does not fit it.

    Args:
        model: as for `gradient_norms`, with logits (B, T, C), such as `whenpool.SequenceTagger`.
        ids, lengths: (B, T) or (B, T, F) int64, right-padded; (B,), words of each sentence.
        tags: (B, T) int64; a negative tag has no loss.
        word: (B,), counted from 0: the word whose loss L is; default: all.

    Examples:
        >>> model = whenpool.SequenceTagger(50, tags=4, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> tagging_gradient_norms(model, ids, lengths, torch.randint(4, (2, 40))).shape
        torch.Size([2, 40])
    """
    check_steps(model, "tagging_gradient_norms")
    ids, tags = torch.as_tensor(ids), whole_numbers("tags", tags).long()
    lengths = checked_batch(model, ids[..., 0] if ids.dim() == 3 else ids, lengths)[1]
    shape = tuple(ids.shape[:2])
    check(tags.shape == shape, f"tags must be (B, T) = {shape}, not {tuple(tags.shape)}")
    counted = tags
    if word is not None:
        word = whole_numbers("word", word).to(lengths.device)
        check(
            word.shape == lengths.shape and bool(((word >= 0) & (word < lengths)).all()),
            "word must be (B,), with a place in each sentence, counted from 0",
        )
        elsewhere = torch.arange(ids.shape[1], device=tags.device) != word.unsqueeze(1)
        counted = tags.masked_fill(elsewhere, -1)

    def loss(logits: Tensor) -> Tensor:
        check(
            logits.dim() == 3,
            f"{type(model).__name__} gives no logits per word; use gradient_norms",
        )
        C = logits.shape[-1]
        check(bool((tags < C).all()), f"tags must be below the model's {C}, not {int(tags.max())}")
        return tagging_loss(logits, lengths, counted, "sum")

    return _total_norms(model, ids, lengths, loss)


def _total_norms(
    model: Any, ids: Tensor, lengths: Tensor, loss_of: Callable[[Tensor], Tensor]
) -> Tensor:
    """‖∂L/∂h_t‖, (B, T), of the loss that logits have; NaN after the end of each text."""
    name = type(model).__name__
    check_float(model)
    with tapped(model) as taps, evaluating(model), torch.inference_mode(False), torch.enable_grad():
        longest_text = ids[lengths.argmax(), : int(lengths.max())]
        by_word = _reads_word_by_word(model, taps, longest_text)
        taps.clear()
        embedded = _leaf(model.embed(ids))
        before = len(taps)  # a recurrence over letters, say, is a part of the embedding
        states = model.encode(embedded.clone(), lengths)  # which may write into it
        kind = type(states).__name__
        alone = f"{name}.encode returned a {kind}; return the states (B, T, D) alone"
        check(kind == "Tensor", alone)
        (B, T), shape, longest = states.shape[:2], tuple(ids.shape[:2]), int(lengths.max())
        steps = f"{name}.encode makes {T} states of {B} texts for ids of the shape {shape}"
        # up to the longest text, or its padding
        is_each_word = len(ids) == B and T in (longest, shape[1])
        check(is_each_word, f"{steps}; make one for each word")
        made, states = states, states if states.requires_grad else _leaf(states)
        loss = loss_of(model.classify(states, lengths))
        # one that is frozen under no_grad is an input as any other
        called = [tap for tap in taps[before:] if tap.has_gradient]
        embedding = {tap.module for tap in taps[:before]}
        rest = [
            m for m in model.modules() if isinstance(m, Cell | nn.RNNBase) and m not in embedding
        ]
        check(
            called or not rest,
            f"encode and classify of {name} call no recurrence that a gradient comes back "
            "through; delete what is not used, or probe the model as it was before torch.compile, "
            "no_grad and checkpoint(use_reentrant=True)",
        )
        begin = get_gradient_edge(embedded).node if embedded.requires_grad else None
        check(
            called or (made.requires_grad and begin in [None, *_graph(made)]),
            f"no gradient comes back to the words through encode of {name}, so a probe cannot "
            "look in; leave out no_grad, detach and other runtimes; freeze weights by "
            "requires_grad_(False)",
        )
        cells = "; a probe cannot see a model that reads the last cell of an LSTM, c_n"
        check(loss.isfinite(), f"the loss of {name} is {loss.item()}{cells * bool(called)}")
        used, encoder = _top(model, called)
        check(
            _keeps_order(model, taps, longest_text, used, encoder),
            f"encode of {name} returns states in another order than its recurrence reads texts or "
            "words; pack with enforce_sorted=False, and read backwards with bidirectional=True",
        )
        if by_word and _mixes(states, [tap.outputs for tap in used] or [embedded], lengths):
            used = [] if used else _stacked(states, states.grad_fn)
            check(
                used and all(_flows(states, tap) for tap in used),
                f"encode of {name} computes word by word, and a probe cannot see which states "
                "depend on others; use nn.LSTM, nn.GRU, nn.RNN or a whenpool.Encoder, or return "
                "torch.stack(states, dim=1) of the states that go into the next steps",
            )
        used = used or [Tap(model, embedded, states, [states], list)]
        wanted = [point for tap in used for point in tap.wanted]
        grads = dict(zip(wanted, _grads(loss, wanted), strict=True))
    totals: list[Tensor] = []  # (B, T, ·) of each direction
    for tap in used:
        check(
            any(grads[point] is not None for point in tap.wanted),
            f"the loss of {name} has no gradient at the states of the recurrence that encode calls "
            "last; return them from encode, and leave out no_grad and detach",
        )
        totals += tap.total(
            [torch.zeros_like(at) if grads[at] is None else grads[at] for at in tap.wanted]
        )
    if encoder and len(totals) == 2:  # the second direction has read each text in reverse
        totals[1] = encoder.reading(lengths, T).reversed(totals[1])
    gradients = torch.cat(totals, dim=-1)
    texts, T = gradients.shape[:2]
    steps = f"{name} calls last a recurrence over {T} steps of {texts} sequences"
    is_each_word = texts == B and T in (longest, shape[1])
    check(is_each_word, f"{steps}; it must read each word of each text")
    # (1e-25)² is 0 in float32
    exact = torch.linalg.vector_norm(gradients, dim=-1, dtype=torch.float64)
    norms = pad(exact.to(gradients.dtype), (0, shape[1] - T))  # fewer where packed
    return norms.masked_fill(~word_mask(lengths, shape[1]), torch.nan)


class Tap(NamedTuple):
    """One call of a recurrence; of a stack of torch's, the call of its top layer; or a loop."""

    module: nn.Module
    inputs: Tensor  # (B, T, E)
    outputs: Tensor  # (B, T, D), the states of these inputs
    wanted: list[Any]  # at which gradients are needed
    total: Callable[[list[Tensor]], list[Tensor]]
    """From them ∂L/∂h_t of every state: for each direction (B, T, H), zeros after a packed text's
    end."""

    @property
    def has_gradient(self) -> bool:
        """Whether gradients come back to its states."""
        return all(point.requires_grad for point in [self.outputs, *self.wanted])


def _top(model: nn.Module, taps: list[Tap]) -> tuple[list[Tap], Encoder | None]:
    """The taps of the recurrence that was called last: none, one, or the two directions of an
    Encoder, and the Encoder."""
    used, name = taps[-1:], type(model).__name__
    encoders = (module for module in model.modules() if isinstance(module, Encoder))
    encoder = next((e for e in encoders if used and used[0].module in e.layers[-1]), None)
    if encoder:
        by_module = {tap.module: tap for tap in taps}  # a module's last call
        used = [by_module[module] for module in encoder.layers[-1]]
    for other in taps:
        is_used = any(other is tap for tap in used)
        check(
            is_used or _grads(used[-1].inputs.sum(), [other.outputs])[0] is not None,
            f"{name} reads its input with two separate recurrences, whose states cannot be matched"
            "; use one bidirectional one or a whenpool.Encoder",
        )
    return used, encoder


# Whether what is tapped is what flows


def _leaf(values: Tensor) -> Tensor:
    """The same values, at which a graph begins; what embed returns may also be word numbers. Raises
    `InputError` for more than one tensor."""
    kind = type(values).__name__
    check(isinstance(values, Tensor), f"embed returned a {kind}; return one tensor (B, T, E)")
    return values.detach().requires_grad_(values.is_floating_point())


def _grads(of: Tensor, at: Sequence[Any]) -> Sequence[Tensor | None]:
    """The gradients of a value at some places of its graph, which is kept; None where it has
    none."""
    if not of.requires_grad:
        return [None] * len(at)
    return torch.autograd.grad(of, at, retain_graph=True, allow_unused=True)


def _graph(of: Tensor, below: Iterable[Any] = ()) -> list[Any]:
    """The nodes of autograd's graph that a tensor comes from, down to those ``below``."""
    waiting: list[Any] = [get_gradient_edge(of).node] if of.requires_grad else []
    seen, nodes = {None, *below}, []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            nodes.append(node)
            waiting += [each for each, _ in node.next_functions]
    return nodes


def _reads_word_by_word(model: Any, taps: list[Tap], text: Tensor) -> bool:
    """Whether encode reads a text (n,) in a loop that is not tapped: its graph above the
    recurrences depends on how many words there are. Refuses what has no gradient, and warns of what
    cannot be looked into."""
    sizes = []
    for T in (3, 4, 5):  # a scan takes as many steps for 3 as for 4, or for 4 as for 5
        try:
            embedded = _leaf(model.embed(text[torch.arange(T) % len(text)].unsqueeze(0)))
            before = len(taps)
            states = model.encode(embedded.clone(), torch.tensor([T], device=text.device))
            nodes = _graph(states, [tap.outputs.grad_fn for tap in taps[before:]])
        except Exception:  # it reads no text of this length, as a loop may
            return True
        sizes.append(len(nodes))
    names = {node.name() for node in nodes}
    check(
        not any("NotImplemented" in name for name in names),
        f"encode of {type(model).__name__} calls a kernel that has no gradient, as of quantised "
        "layers; take the model as it was before it was quantised",
    )
    custom = {type(node).__name__ for node in nodes if isinstance(node, BackwardCFunction)}
    if custom:
        warnings.warn(
            f"encode of {type(model).__name__} calls {', '.join(sorted(custom))}, which a probe "
            "cannot look into: if it is a recurrence, norms are of the direct gradient",
            stacklevel=4,
        )
    # torch's kernels without a module
    return len({*sizes}) > 1 or any("Rnn" in name for name in names)


def _keeps_order(
    model: Any, taps: list[Tap], text: Tensor, used: list[Tap], encoder: Encoder | None
) -> bool:
    """Whether encode makes the states of each text from what the recurrence that is used returns
    for the same text, and its first word not from later states than its last word. Three short
    texts show it."""
    lengths = torch.tensor([7, 9, 8], device=text.device)
    ids = text[torch.arange(9) % len(text)].repeat(3, *[1] * text.dim())
    try:
        embedded = _leaf(model.embed(ids))
        before = len(taps)
        states = model.encode(embedded.clone(), lengths)
    except Exception:  # it reads no text of this length
        return True
    latest = {tap.module: tap for tap in taps[before:] if tap.has_gradient}
    for tap in filter(None, (latest.get(tap.module) for tap in used)):
        if states is tap.outputs or len(tap.outputs) != 3:  # another check says that
            continue
        weights = torch.arange(states.numel(), device=states.device).cos()
        weighted = states * weights.view_as(states).to(states.dtype)  # so that no sum cancels

        def sources(of: Tensor, tap: Tap = tap) -> Tensor:
            """Which states of the recurrence something depends on, (3, T)."""
            grad = _grads(of.sum(), [tap.outputs])[0]
            grad = torch.zeros_like(tap.outputs) if grad is None else grad
            return grad.flatten(2).any(2)

        for number, n in enumerate(lengths.tolist()):
            of_text = sources(weighted[number, :n])
            of_text[number] = False
            if of_text.any():
                return False
        first, last = (sources(weighted[1, word])[1].nonzero() for word in (0, 8))
        from_the_end = encoder and tap.module is not encoder.layers[-1][0]
        if len(first) and len(last) and first.min() > last.max() and not from_the_end:
            return False
    return True


def _mixes(states: Tensor, read: list[Tensor], lengths: Tensor) -> bool:
    """Whether the first or the last state of the longest text depends on several words of what is
    read."""
    row = int(lengths.argmax())
    if not all(of.requires_grad for of in read):
        return True
    for t in (0, int(lengths[row]) - 1):
        grads = filter(torch.is_tensor, _grads(states[row, t].sum(), read))
        if any(grad[row].flatten(1).any(1).sum() > 1 for grad in grads):
            return True
    return False


def _stacked(states: Tensor, node: Any) -> list[Tap]:
    """The loops, one for each direction, whose steps ``torch.stack`` has joined to states (B, T,
    D); none where they were joined otherwise."""
    steps, axis = node.next_functions, getattr(node, "_saved_dim", None)  # -1 is kept as 2**64 - 1
    if node.name() == "CatBackward0" and axis in (2, 2**64 - 1):
        halves = [_stacked(states, half) if half else [] for half, _ in steps]
        return [tap for half in halves for tap in half] if all(halves) else []
    joined = node.name() == "StackBackward0" and axis in (1, 2**64 - 2)
    if not joined or len(steps) != states.shape[1] or any(step is None for step, _ in steps):
        return []
    edges = [GradientEdge(*step) for step in steps]
    return [Tap(node, states, states, edges, lambda grads: [torch.stack(grads, dim=1)])]


def _flows(states: Tensor, loop: Tap) -> bool:
    """Whether states depend on each other through these steps: each has more than its direct
    gradient, 1."""
    grads = torch.autograd.grad(states.sum(), loop.wanted, retain_graph=True)
    return any(bool((grad != 1).any()) for grad in grads)


def _checked_lengths(norms: Tensor, lengths: Tensor) -> Tensor:
    (B, T), lengths = norms.shape, torch.as_tensor(lengths, device=norms.device)
    check(
        lengths.shape == (B,) and bool(((lengths >= 1) & (lengths <= T)).all()),
        f"norms of {B} texts need {B} lengths between 1 and {T}",
    )
    return lengths.long()


@contextmanager
def tapped(model: nn.Module) -> Iterator[list[Tap]]:
    """While inside, every call of a ``nn.LSTM``, ``nn.GRU``, ``nn.RNN`` or
    `whenpool.models.cells.Cell` in a model leaves a `Tap`. The states are what they were; gradients
    of the recurrences' own parameters are not. Raises `InputError` for a module that cannot be
    looked into."""
    taps: list[Tap] = []
    recurrences: dict[Any, Any] = {}  # each with what runs instead of its forward
    for module in model.modules():
        can_be_probed = not isinstance(module, torch.jit.ScriptModule)
        if isinstance(module, Cell):  # that runs as `whenpool.models.cells` says
            can_be_probed = type(module).forward in (Cell.forward, LinearCell.forward)
            recurrences[module] = _run_cell
        elif isinstance(module, nn.RNNBase):
            can_be_probed = type(module) in (nn.LSTM, nn.GRU, nn.RNN) and not module.proj_size
            recurrences[module] = _run
        instead = "use nn.LSTM, nn.GRU or nn.RNN without projections, or a whenpool.Encoder"
        if module in recurrences and "forward" in vars(module):  # as hooks do
            can_be_probed, instead = False, "take away what stands in for its forward"
        check(can_be_probed, f"{type(module).__name__} cannot be probed; {instead}")
    try:
        for module, run in recurrences.items():
            module.forward = partial(run, module, taps)
        yield taps
    finally:
        for module in recurrences:
            del module.forward


def _run(module: Any, taps: list[Tap], input: Any, hx: Any = None) -> tuple[Any, Any]:  # noqa: A002
    """As the forward of a recurrence of torch's, direction by direction; the top layer leaves a
    `Tap`."""
    packed, K = isinstance(input, PackedSequence), 2 if module.bidirectional else 1
    if packed:
        words, lengths = pad_packed_sequence(input, batch_first=True)  # (B, T, E), (B,)
    else:
        check(
            input.dim() == 3, f"a recurrence must read a batch (B, T, E), not {tuple(input.shape)}"
        )
        words = input if module.batch_first else input.transpose(0, 1)
        lengths = torch.full(words.shape[:1], words.shape[1])
    lengths = lengths.to(words.device)
    plan, ends = Reading.of(lengths, words.shape[1], K), []
    for number in range(module.num_layers):
        inputs = words
        halves = [_read(module, number, k, x, hx) for k, x in enumerate(plan.fed(inputs))]
        words = plan.joined([half.states for half in halves])  # (B, T, D)
        ends += [half.states[torch.arange(len(lengths)), lengths - 1] for half in halves]
    last: Any = torch.stack(ends)  # (layers · K, B, H)

    def total(grads: list[Tensor]) -> list[Tensor]:
        totals = []
        for half, above, at_wide in zip(halves, grads[::2], grads[1::2], strict=True):
            extra = at_wide[..., half.inputs.shape[-1] :]  # ∂L/∂z_t, and of a GRU ∂L/∂y_t
            is_gru = isinstance(module, nn.GRU)
            totals.append(_gru(half, above, extra) if is_gru else above + later(extra))
        return totals if K == 1 else [totals[0], plan.reversed(totals[1])]

    wanted = [tensor for half in halves for tensor in (half.states, half.wide)]
    taps.append(Tap(module, inputs, words, wanted, total))
    if isinstance(module, nn.LSTM):  # what its cells are does not follow from its states
        last = last, torch.full_like(last, torch.nan)
    if packed:
        packing: dict[str, Any] = {
            "batch_first": True,
            "enforce_sorted": input.sorted_indices is None,
        }
        return pack_padded_sequence(words, lengths.cpu(), **packing), last
    return words if module.batch_first else words.transpose(0, 1), last


class Half(NamedTuple):
    """One direction of a layer, in its order of reading."""

    weights: list[Tensor]  # W_ih, W_hh and, where there are any, the two biases
    inputs: Tensor  # (B, T, E)
    wide: Tensor  # (B, T, E + H), or (B, T, E + 2H) of a GRU: the inputs, z and y
    states: Tensor  # (B, T, H)


def _read(module: Any, number: int, k: int, inputs: Tensor, hx: Any) -> Half:
    """Run the k-th direction of a layer with extra inputs z (and y), all zero, from its part of
    ``hx``."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if module.bias else 2]
    weights = [getattr(module, f"{name}_l{number}{'_reverse' * k}").detach() for name in names]
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
    # where nothing is drawn
    layer: Any = type(module)(E + into.shape[1], H, device="meta", **options)
    layer = layer.to_empty(device=W_hh.device).requires_grad_(False)
    wider = (torch.cat([W_ih, into], 1), *weights[1:])
    for parameter, weight in zip(layer.parameters(), wider, strict=True):
        parameter.copy_(weight)
    zeros = inputs.new_zeros(*inputs.shape[:2], into.shape[1])
    wide = torch.cat([inputs.detach(), zeros], -1).requires_grad_()
    position = number * (2 if module.bidirectional else 1) + k
    start = tree_map_only(Tensor, lambda part: part[position : position + 1], hx)
    return Half(weights, inputs.detach(), wide, layer(wide, start)[0])


def _gru(half: Half, above: Tensor, extra: Tensor) -> Tensor:
    """∂L/∂h_t of a GRU, (B, T, H), by the recursion above; ``extra`` is ∂L/∂z_t beside ∂L/∂y_t."""
    states = half.states.detach()
    H = states.shape[-1]
    W_ih, W_hh, *biases = half.weights
    b_ih, b_hh = biases or (W_ih.new_zeros(3 * H), W_hh.new_zeros(3 * H))
    through, candidate = extra.chunk(2, dim=-1)
    gates = slice(0, 2 * H)  # torch's order: r, u, n
    # x_{t+1} beside h_t
    at_gates = (
        later(half.inputs) @ W_ih[gates].T + b_ih[gates] + states @ W_hh[gates].T + b_hh[gates]
    )
    reset, update = at_gates.sigmoid().chunk(2, dim=-1)  # r_{t+1}, u_{t+1}
    local = above + later(through) + (reset * later(candidate)) @ W_hh[2 * H :]
    return linear_recurrence(update, local, from_the_end=True)


def _run_cell(module: Any, taps: list[Tap], inputs: Tensor) -> tuple[Tensor, Any]:
    """As the forward of a cell, which leaves a `Tap`. In a linear cell what is ``wanted`` is the
    gradient from above at its recurrent states, which may be others than it returns."""
    if not inputs.requires_grad:  # so that every state has a gradient, of cells without weights too
        inputs = inputs.detach().requires_grad_()
    if not isinstance(module, LinearCell):
        steps = module.unroll(inputs)
        each = [*map(module.output, steps)]
        states = torch.stack(each, dim=1)
        wanted = steps if isinstance(steps[0], Tensor) else each  # of an LSTM h_t, and not c_t
        parts = tree_leaves(steps[0])
        a_part = wanted is steps or any(each[0] is part for part in parts)
        check(a_part, f"{type(module).__name__} returns none of the parts of its state; return one")
        taps.append(Tap(module, inputs, states, wanted, lambda grads: [torch.stack(grads, dim=1)]))
        return states, steps[-1]
    kept, added = module.terms(inputs)
    states = linear_recurrence(kept, added)
    ahead = later(kept.detach()).conj()  # what h_{t+1} keeps of h_t

    def total(grads: list[Tensor]) -> list[Tensor]:
        gradients = linear_recurrence(ahead, grads[0], from_the_end=True)
        # of a complex number those of its parts
        return [torch.view_as_real(gradients).flatten(2) if kept.is_complex() else gradients]

    outputs = module.read(states, inputs)
    taps.append(Tap(module, inputs, outputs, [states], total))
    return outputs, states[:, -1]
