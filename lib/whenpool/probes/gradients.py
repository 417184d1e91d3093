"""How much each state of a text moves the loss: the gradient probe (thesis §1.5).

Letters: B texts, T words of the longest, D units of a state, C classes, n words of one text.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from whenpool.base.errors import InputError, check
from whenpool.models.cells import Cell
from whenpool.models.encoder import Encoder, word_mask
from whenpool.models.sequence_tagger import tagging_loss
from whenpool.probes.protocol import check_labels, check_steps, checked_batch, evaluating, interpolate
from whenpool.probes.taps import Tap, tapped


def gradient_norms(model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
    """‖∂L/∂h_t‖ of every text and word: the *total* gradient, direct and through the recurrence.

    L is the cross-entropy of the text itself, not divided by B. The left-to-right and the right-to-left
    state of one word count as one vector; of a stack, the states of the top layer. The recurrence is the
    one that the model calls last: a `whenpool.Encoder`, one of `whenpool.models.cells`, or a ``nn.LSTM``,
    ``nn.GRU`` or ``nn.RNN``, packed or not. A model that has none, such as a Transformer, has no path
    through later states of the same layer: its gradient is that at the states that ``encode`` returns. A
    recurrence that is written in another way, as a loop, cannot be seen: its norms would be the direct
    part alone. Raises `InputError` for a model without the three steps, with another module for its
    recurrence, or a compiled, traced or quantised one, or without a state for each word, or for a bad batch.

    Args:
        model: offers ``embed``, ``encode`` and ``classify``, see `whenpool.probes`. It is probed in
            evaluation mode; its parameters' ``grad`` stay as they are.
        ids: (B, T) int64, right-padded.
        lengths: (B,), words of each text.
        labels: (B,) int64.

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
    """‖∂L/∂h_mid‖ / ‖∂L/∂h_end‖ of each text, (B,): the lower, the more the gradient vanishes (§1.5).

    *mid* is the word ⌊n/2⌋, counted from 0, and *end* the first word (footnote 3; the caption of Figure
    1.3 has the ratio upside down). It takes norms (B, T) from `gradient_norms` and lengths (B,). Raises
    `InputError` when lengths are not B, or not between 1 and T.

    Examples:
        >>> vanishing_ratio(torch.tensor([[4.0, 1.0, 4.0]]), torch.tensor([3]))
        tensor([0.2500])
    """
    lengths = _checked_lengths(norms, lengths)
    middle = norms.gather(1, (lengths // 2).unsqueeze(1)).squeeze(1)
    return middle / norms[:, 0]


def gradient_profile(norms: Tensor, lengths: Tensor, points: int = 100) -> Tensor:
    """The norms (B, T) of each text, of ``lengths`` (B,), read at ``points`` places from its first to its
    last word: (B, points) (§1.5). Raises `InputError` when lengths are not B, or not between 1 and T.

    Examples:
        >>> gradient_profile(torch.tensor([[4.0, 1.0, 4.0]]), torch.tensor([3]), points=5)
        tensor([[4.0000, 2.5000, 1.0000, 2.5000, 4.0000]])
    """
    lengths = _checked_lengths(norms, lengths)
    return interpolate(norms, lengths, points)


def tagging_gradient_norms(
    model: nn.Module, ids: Tensor, lengths: Tensor, tags: Tensor, word: Tensor | None = None
) -> Tensor:
    """‖∂L/∂h_t‖ of every sentence and word of a tagger: the *total* gradient, as for `gradient_norms`.

    L is the sum of the cross-entropies of all words of the sentence, or that of one word alone. Raises
    `InputError` for a model without the three steps, or a batch that does not fit it.

    Args:
        model: as for `gradient_norms`, with logits (B, T, C), such as `whenpool.SequenceTagger`.
        ids: (B, T) or (B, T, F) int64, right-padded.
        lengths: (B,), words of each sentence.
        tags: (B, T) int64; a negative one has no loss.
        word: (B,), counted from 0: the one word whose loss L is; default: all.

    Returns:
        (B, T), NaN after the end of each sentence.

    Examples:
        >>> model = whenpool.SequenceTagger(50, tags=4, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> tagging_gradient_norms(model, ids, lengths, torch.randint(4, (2, 40))).shape
        torch.Size([2, 40])
    """
    check_steps(model, "tagging_gradient_norms")
    lengths = checked_batch(model, ids[..., 0] if ids.dim() == 3 else ids, lengths)[1]
    if tags.shape != ids.shape[:2]:
        raise InputError(f"tags must be (B, T) = {tuple(ids.shape[:2])}, not {tuple(tags.shape)}")
    counted = tags
    if word is not None:
        if word.shape != lengths.shape or bool(((word < 0) | (word >= lengths)).any()):
            raise InputError("word must be (B,), with a place in each sentence, counted from 0")
        others = torch.arange(ids.shape[1], device=tags.device) != word.unsqueeze(1)
        counted = tags.masked_fill(others, -1)

    def loss(logits: Tensor) -> Tensor:
        check(logits.dim() == 3, f"{type(model).__name__} gives no logits per word; use gradient_norms")
        if bool((tags >= logits.shape[-1]).any()):
            raise InputError(f"tags must be below the model's {logits.shape[-1]}, not {int(tags.max())}")
        return tagging_loss(logits, lengths, counted, "sum")

    return _total_norms(model, ids, lengths, loss)


def _total_norms(
    model: Any, ids: Tensor, lengths: Tensor, loss_of: Callable[[Tensor], Tensor]
) -> Tensor:
    """‖∂L/∂h_t‖, (B, T), of the loss that logits have; NaN after the end of each text."""
    name = type(model).__name__
    with tapped(model) as taps, evaluating(model), torch.inference_mode(False), torch.enable_grad():
        states = model.encode(model.embed(ids).detach(), lengths)
        kind = type(states).__name__
        check(kind == "Tensor", f"{name}.encode returned a {kind}; return the states (B, T, D) alone")
        _check_steps(model, states.shape[:2], ids, lengths)
        if not states.requires_grad:  # nothing before the classifier learns
            states = states.detach().requires_grad_()
        loss = loss_of(model.classify(states, lengths))
        _check_all_called(model, taps, loss)
        encoders = (module for module in model.modules() if isinstance(module, Encoder))
        encoder = next((e for e in encoders if taps and taps[-1].module in e.layers[-1]), None)
        used = _top(model, taps, encoder)
        wanted = [tensor for tap in used for tensor in tap.wanted] or [states]
        grads = iter(torch.autograd.grad(loss, wanted, allow_unused=bool(used)))
    totals = [] if used else [next(grads)]
    for tap in used:
        at_wanted = [next(grads) for _ in tap.wanted]
        unused = (
            f"{name}: the loss does not depend on the states of the recurrence that encode calls last"
        )
        check(any(g is not None for g in at_wanted), f"{unused}; return them from encode")
        totals += tap.total(at_wanted)
    halves = [_norms(total) for total in totals]  # (B, T) of each direction
    if encoder and len(halves) == 2:  # the second direction has read each text in reverse
        plan = encoder.reading(lengths, states.shape[1])
        halves[1] = plan.reversed(halves[1].unsqueeze(-1)).squeeze(-1)
    norms = torch.hypot(*halves) if len(halves) == 2 else halves[0]
    _check_steps(model, norms.shape, ids, lengths)
    norms = pad(norms, (0, ids.shape[1] - norms.shape[1]))  # fewer where packed
    return norms.masked_fill(~word_mask(lengths, ids.shape[1]), torch.nan)


def _top(model: nn.Module, taps: list[Tap], encoder: Encoder | None) -> list[Tap]:
    """The taps of the recurrence that was called last: none, one, or the two directions of an Encoder."""
    if encoder:
        by_module = {tap.module: tap for tap in taps}  # a module's last call
        return [by_module[getattr(module, "_orig_mod", module)] for module in encoder.layers[-1]]
    for other in taps[:-1]:
        last = taps[-1].inputs
        reached = last.requires_grad and torch.autograd.grad(
            last.sum(), other.outputs, retain_graph=True, allow_unused=True
        )
        if not reached or reached[0] is None:
            two = f"{type(model).__name__} reads its input with two separate recurrences, whose states"
            raise InputError(f"{two} cannot be matched; use one bidirectional one or a whenpool.Encoder")
    return taps[-1:]


def _check_all_called(model: nn.Module, taps: list[Tap], loss: Tensor) -> None:
    """Raises `InputError` for a recurrence on which the loss depends though no call of it left a tap."""
    called = {tap.module for tap in taps}
    for module in model.modules():
        if isinstance(module, nn.RNNBase | Cell) and module not in called:
            weights = [parameter for parameter in module.parameters() if parameter.requires_grad]
            grads = weights and torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
            runs = f"{type(model).__name__} runs its {type(module).__name__} without calling it"
            compiled = f"{runs}, as torch.compile does; probe the model as it was before"
            check(weights and all(grad is None for grad in grads), compiled)


def _check_steps(model: nn.Module, shape: tuple[int, ...], ids: Tensor, lengths: Tensor) -> None:
    """Raises `InputError` unless there is a state for each word, up to the longest text or its padding."""
    steps = f"{shape[1]} states of {shape[0]} texts for ids of the shape {tuple(ids.shape[:2])}"
    fits = shape[0] == len(ids) and shape[1] in (int(lengths.max()), ids.shape[1])
    check(fits, f"{type(model).__name__}.encode makes {steps}; make one for each word")


def _norms(gradients: Tensor) -> Tensor:
    """(B, T, ·) -> (B, T); scaled before it is squared, since squares of 1e-20 are zero in float32."""
    peak = torch.linalg.vector_norm(gradients, torch.inf, dim=-1, keepdim=True)
    scaled = gradients / peak.clamp(min=torch.finfo(peak.dtype).tiny)
    return torch.linalg.vector_norm(scaled, dim=-1) * peak.squeeze(-1)


def _checked_lengths(norms: Tensor, lengths: Tensor) -> Tensor:
    (B, T), lengths = norms.shape, torch.as_tensor(lengths, device=norms.device)
    if lengths.shape != (B,) or bool(((lengths < 1) | (lengths > T)).any()):
        raise InputError(f"norms of {B} texts need {B} lengths between 1 and {T}")
    return lengths.long()
