"""How much each window of words matters to a prediction: normalised word importance (thesis §1.9).

For a masked `whenpool.TextClassifier` of one layer with a cell of torch's it costs about half: what
a recurrence has read before a window does not depend on the window. So a text is read in segments,
and with a window replaced it is read again only from the segment in which the window begins, with
the state that the text itself has there. The rows of a text move on together, a segment at a time,
and join when their segment comes.

Letters: B texts, T words of the longest, n words of one text, k words of a window, W windows of the
longest text, R rows, each a text with a window replaced, L words of a segment, C classes, H
units of a state of one direction.
"""

import math
from bisect import bisect_left
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from whenpool.base.errors import InputError, check
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.models.cells import TORCH_CELLS
from whenpool.models.encoder import Encoder
from whenpool.models.precision import precision_used
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import check_labels, checked_batch, evaluating, interpolate

ROUNDING = 64  # Importances that differ by fewer rounding errors than this are equal
SEGMENTS, SEGMENT = 12, 10
"""Into how many segments a text is cut, and the fewest words of one: shorter segments cost more
calls, longer ones read more words in vain."""


def nwi(
    model: nn.Module,
    ids: Tensor,
    lengths: Tensor,
    labels: Tensor,
    k: int = 5,
    unknown_index: int = UNKNOWN_INDEX,
    points: int = 100,
    max_megabytes: float = 512.0,
) -> Tensor:
    """Normalised word importance by position, Algorithm 1 of the thesis (§1.9.3).

    δ_t is the importance of the t-th window, see `window_importance`. A text's profile is δ divided
    by its maximum, less the minimum of these quotients, read by linear interpolation at ``points``
    places from the first window to the last; so it lies in [0, 1]. It is 0 throughout where all
    windows matter alike up to rounding, or there is only one. Raises `InputError` as
    `window_importance`.

    Args:
        model: maps ids (B, T) and lengths (B,) to logits (B, C). For a masked
            `whenpool.TextClassifier` of one layer with an LSTM, GRU or Elman cell about half of the
            states are reused. It is probed in evaluation mode.
        ids, lengths: (B, T) int64, right-padded; (B,), words of each text, at least ``k``.
        labels: (B,) int64, the classes whose probability is watched.
        k: words that are replaced at once.
        unknown_index: the number of the word put in their place: ``<unk>`` of whenpool's
            vocabularies, or what yours calls unknown or masked; in other vocabularies 0 is often
            padding.
        points: places at which a profile is read, at least 1.
        max_megabytes: about how much memory the windows that are computed at once may take.

    Returns:
        (B, points), in [0, 1]

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> nwi(model, ids, lengths, torch.tensor([0, 1]), k=5).shape
        torch.Size([2, 100])
        >>> window_importance(model, ids, lengths, torch.tensor([0, 1]), k=5).shape
        torch.Size([2, 8])
    """
    plain, importance = _of_labels(model, ids, lengths, labels, k, unknown_index, max_megabytes)
    largest = importance.nan_to_num(-torch.inf).amax(1, keepdim=True)
    smallest = importance.nan_to_num(torch.inf).amin(1, keepdim=True)
    scale = torch.where(largest - smallest > rounding_error(model, plain), largest, torch.inf)
    windows = torch.as_tensor(lengths) // int(k)
    return interpolate((importance - smallest) / scale, windows, points).to(_dtype(model))


def window_importance(
    model: nn.Module,
    ids: Tensor,
    lengths: Tensor,
    labels: Tensor,
    k: int = 5,
    unknown_index: int = UNKNOWN_INDEX,
    max_megabytes: float = 512.0,
    reuse: bool = True,
) -> Tensor:
    """How much log P(y | text) changes, up or down, when a window of k words is replaced: (B, W),
    in nats, NaN after the last full window of each text. A text of n words has ⌊n/k⌋ windows, and
    up to k - 1 words after the last one are never replaced. The arguments are those of `nwi`;
    without ``reuse`` every text is read in full, whatever the model. Raises `InputError` for what
    does not fit."""
    how = (k, unknown_index, max_megabytes, reuse)
    return _of_labels(model, ids, lengths, labels, *how)[1].to(_dtype(model))


def _of_labels(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor, *how: Any
) -> tuple[Tensor, Tensor]:
    """log P(y | text), (B,), and how much it changes with each window, (B, W); float64."""
    labels = checked_batch(model, ids, lengths, labels)[2]
    plain, changes = occlusion(model, ids, lengths, *how)
    check_labels(labels, plain)
    text = torch.arange(len(labels), device=labels.device)
    return plain[text, labels], changes[text, :, labels].abs()


@torch.no_grad()
def occlusion(
    model: Any,
    ids: Tensor,
    lengths: Tensor,
    k: int,
    unknown_index: int = UNKNOWN_INDEX,
    max_megabytes: float = 512.0,
    reuse: bool = True,
) -> tuple[Tensor, Tensor]:
    """log P(class | text) of each class, (B, C), and by how much it changes, with its sign, when
    each window is replaced, (B, W, C), NaN behind; the arguments are those of `window_importance`
    (§1.9.3).

    The model is called as ``model(ids, lengths)``, with T columns unless its attribute ``masked``
    says that it does not read its padding. In float64, since a sure model's log-probabilities are
    lost in float32.
    """
    ids, lengths, _ = checked_batch(model, ids, lengths)
    check(
        k >= 1 and k == int(k), f"k, the words of a window, must be a whole number from 1, not {k}"
    )
    for text in (lengths < k).nonzero().flatten().tolist():
        raise InputError(
            f"text {text} has {lengths[text]} words, fewer than one window of k={k}"
            f"; leave such texts out, or take k={lengths[text]} or less"
        )
    vocabulary = getattr(getattr(model, "embedding", None), "num_embeddings", math.inf)
    check(
        0 <= unknown_index < vocabulary,
        f"unknown_index is {unknown_index}, but the model's embedding has {vocabulary} rows"
        "; give the number of <unk> in your vocabulary",
    )
    (B, T), cut = ids.shape, getattr(model, "masked", False) is True
    with evaluating(model):
        logits = model(ids, lengths)
        check_labels(ids.new_zeros(B), logits)
        nan = bool(logits.isnan().any())
        check(not nan, f"{type(model).__name__} gives logits that are no numbers (NaN)")
        plain, k = logits.double().log_softmax(-1), int(k)  # (B, C)
        exists = torch.arange(int(lengths.max()) // k, device=ids.device) < (
            lengths // k
        ).unsqueeze(1)
        order = torch.argsort(lengths, descending=True, stable=True)
        text, window = exists[order].nonzero().unbind(1)
        # in bfloat16 what is read from a window on differs from what is read in full
        by_reuse = reuse and can_reuse(model) and precision_used() == "float32"
        text = order[text]
        maps = (m.parameters(False) for m in model.modules() if not isinstance(m, nn.Embedding))
        # numbers that a word is made into
        made = 4 + 2 * sum(p.shape[0] for of in maps for p in of if p.dim() == 2)
        each = 8 * T * made  # bytes that a text takes, about
        rows = max(1, int(min(len(text), max_megabytes * 1e6 / each)))  # that are read at once
        changes = plain.new_full((*exists.shape, plain.shape[1]), torch.nan)  # (B, W, C)
        # of a text, or all windows
        groups = exists[order].sum(1).tolist() if by_reuse else [len(text)]
        pieces = torch.arange(len(text), device=ids.device).split(groups)
        for piece in (part for each in pieces for part in each.split(rows)):
            of, which = text[piece], window[piece]
            words = ids[of, : int(lengths[of[0]]) if cut else T]  # up to the longest of these
            hidden = torch.arange(words.shape[1], device=ids.device) // k == which.unsqueeze(1)
            replaced = words.masked_fill(hidden, unknown_index)
            if by_reuse:
                occluded = occluded_logits(model, words[0], replaced, which * k, k)
            else:
                occluded = model(replaced, lengths[of])
            changes[of, which] = occluded.double().log_softmax(-1) - plain[of]
    return plain, changes


def rounding_error(model: nn.Module, plain: Tensor) -> Tensor:
    """Changes (B, 1) of log P(y | text), (B,), no larger than rounding, which moves log p by up to
    1 - p."""
    return -torch.expm1(plain).unsqueeze(1) * torch.finfo(_dtype(model)).eps * ROUNDING


def _dtype(model: nn.Module) -> torch.dtype:
    """That of the model's parameters."""
    kinds = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(kinds, torch.get_default_dtype())


# Reading a text again from a window on


def can_reuse(model: nn.Module) -> TypeGuard[TextClassifier]:
    """Whether a model's states are known to split: a masked `TextClassifier` of one layer, as it
    was made."""
    if type(model) is not TextClassifier or type(model.encoder) is not Encoder or not model.masked:
        return False
    if type(model.embedding) is not nn.Embedding or type(model.classifier) is not nn.Linear:
        return False  # such as those of a quantised model
    first, *more_layers = model.encoder.layers
    hooked = any(
        part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
        for part in model.modules()
    )
    return not hooked and not more_layers and all(type(of) in TORCH_CELLS.values() for of in first)


def occluded_logits(
    model: TextClassifier, text: Tensor, replaced: Tensor, starts: Tensor, k: int
) -> Tensor:
    """Logits (R, C) of a text (n,) with a window replaced, (R, n), from ``starts`` (R,) on,
    ascending."""
    (R, n), H = replaced.shape, model.encoder.hidden_size
    rows = torch.cat([text.unsqueeze(0), replaced])  # (1 + R, n)
    states = model.classifier.weight.new_empty(1 + R, n, model.encoder.output_size)
    forward, *backward = model.encoder.layers[0]
    _read(model, forward, rows, starts.tolist(), states[..., :H])
    for recurrence in backward:  # which comes to the last window first
        turned, half = (
            torch.cat([rows[:1], replaced.flip(0)]).flip(1),
            states.new_empty(1 + R, n, H),
        )
        _read(model, recurrence, turned, (n - starts - k).flip(0).tolist(), half)
        states[1:, :, H:] = half[1:].flip(0, 1)
    return model.classify(states[1:], torch.full((R,), n, device=text.device))


def _read(
    model: TextClassifier, recurrence: Any, ids: Tensor, firsts: list[int], states: Tensor
) -> None:
    """Fill in the states (1 + R, n, H) of a direction: of a text, and R that differ from ``firsts``
    on."""
    (rows, n, H), before = states.shape, 1
    L, pair = max(SEGMENT, n // SEGMENTS), isinstance(recurrence, nn.LSTM)
    carried = [states.new_zeros(1, rows, H) for _ in range(2 if pair else 1)]  # h, and c of an LSTM
    for start in range(0, n, L):
        # rows whose window begins in this segment or before
        now = 1 + bisect_left(firsts, start + L)
        for part in carried:
            part[:, before:now] = part[:, :1]
        states[before:now, :start] = states[:1, :start]
        state = tuple(part[:, :now].contiguous() for part in carried)
        words = model.embed(ids[:now, start : start + L])
        states[:now, start : start + L], end = recurrence(words, state if pair else state[0])
        for part, value in zip(carried, end if pair else (end,), strict=True):
            part[:, :now] = value
        before = now
