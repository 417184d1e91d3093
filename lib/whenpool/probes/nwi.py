"""How much each window of words matters to a prediction: normalised word importance (thesis §1.9).

Letters: B texts, T words of the longest, n words of one text, k words of a window, W windows of the
longest text, C classes.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from whenpool.base.errors import InputError, check
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.models.cells import Cell
from whenpool.probes.protocol import check_labels, checked_batch, evaluating, interpolate
from whenpool.probes.reuse import can_reuse, occluded_logits, rows_that_fit

ROUNDING = 64  # Importances that differ by fewer rounding errors than this are equal


def nwi(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor, k: int = 5,
    unknown_index: int = UNKNOWN_INDEX, points: int = 100, max_megabytes: float = 512.0,
) -> Tensor:  # fmt: skip
    """Normalised word importance by position, Algorithm 1 of the thesis (§1.9.3).

    δ_t is the importance of the t-th window, see `window_importance`. A text's profile is δ divided by
    its maximum, less the minimum of these quotients, read by linear interpolation at ``points`` places
    from the first window to the last. So it lies in [0, 1]. Where all windows matter alike up to
    rounding, or there is only one, it is 0 throughout. Raises `InputError` as `window_importance`, and
    for fewer than one point.

    Args:
        model: maps ids (B, T) and lengths (B,) to logits (B, C). For a `whenpool.TextClassifier` of one
            layer about half of the states are reused. It is probed in evaluation mode.
        ids: (B, T) int64, right-padded.
        lengths: (B,), words of each text, at least ``k``.
        labels: (B,) int64, the classes whose probability is watched.
        k: words that are replaced at once.
        unknown_index: the number of the word put in their place: 0, ``<unk>`` in this library's
            vocabularies; with another vocabulary, pass its own.
        points: places at which a profile is read, at least 1.
        max_megabytes: about how much memory the windows that are computed at once may take.

    Returns:
        (B, points), in [0, 1]

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> nwi(model, ids, lengths, torch.tensor([0, 1]), k=5).shape
        torch.Size([2, 100])
    """
    check(points >= 1, f"points must be at least 1, not {points}")
    plain, importance = _of_labels(model, ids, lengths, labels, k, unknown_index, max_megabytes)
    largest = importance.nan_to_num(-torch.inf).amax(1, keepdim=True)
    smallest = importance.nan_to_num(torch.inf).amin(1, keepdim=True)
    scale = torch.where(largest - smallest > rounding_error(model, plain), largest, torch.inf)
    return interpolate((importance - smallest) / scale, lengths // k, points).to(_dtype(model))


def window_importance(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor, k: int = 5,
    unknown_index: int = UNKNOWN_INDEX, max_megabytes: float = 512.0, reuse: bool = True,
) -> Tensor:  # fmt: skip
    """How much log P(y | text) changes, up or down, when a window of k words is replaced: (B, W), in nats,
    NaN after the last full window of each text.

    Windows do not overlap: a text of n words has ⌊n/k⌋, and up to k - 1 words after the last one are
    never replaced. The arguments are those of `nwi`; without ``reuse`` every text is read in full,
    whatever the model. Raises `InputError` for a text shorter than ``k``, ``k`` below 1, or a word or
    batch that does not fit.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> window_importance(model, ids, lengths, torch.tensor([0, 1]), k=5).shape
        torch.Size([2, 8])
    """
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
    model: Any, ids: Tensor, lengths: Tensor, k: int, unknown_index: int = UNKNOWN_INDEX,
    max_megabytes: float = 512.0, reuse: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """log P(class | text) of each class, (B, C), and by how much it changes, with its sign, when each window
    is replaced, (B, W, C), NaN behind; the arguments are those of `window_importance` (§1.9.3).

    The model is called as ``model(ids, lengths)``, always with T columns, since it may read its padding;
    a model that says it does not, by its attribute ``masked``, gets no more than it needs. In float64,
    since a sure model's log-probabilities are lost in float32 beside its logits.
    """
    ids, lengths, _ = checked_batch(model, ids, lengths)
    _check(model, lengths, k, unknown_index, max_megabytes)
    (B, T), cut = ids.shape, getattr(model, "masked", False) is True
    with evaluating(model):
        logits, made = _counted(model, ids, lengths)
        check_labels(ids.new_zeros(B), logits)
        plain = logits.double().log_softmax(-1)  # (B, C)
        exists = torch.arange(int(lengths.max()) // k, device=ids.device) < (lengths // k).unsqueeze(1)
        order = torch.argsort(lengths, descending=True, stable=True)
        text, window = exists[order].nonzero().unbind(1)
        text = order[text]
        by_reuse, max_bytes = reuse and can_reuse(model), max_megabytes * 1e6
        each = made / B + 4 * T * ids.element_size()  # bytes that a text takes
        fit = rows_that_fit(model, T, max_bytes) if by_reuse else max_bytes / each
        rows = max(1, int(min(len(text), fit)))  # texts with a window replaced that are read at once
        changes = plain.new_full((*exists.shape, plain.shape[1]), torch.nan)  # (B, W, C)
        for of, which in zip(text.split(rows), window.split(rows), strict=True):
            words = ids[:, : int(lengths[of[0]])] if cut else ids  # up to the longest of these
            if by_reuse:
                occluded = occluded_logits(model, words, lengths, of, which, k, unknown_index)
            else:
                hidden = torch.arange(words.shape[1], device=ids.device) // k == which.unsqueeze(1)
                occluded = model(words[of].masked_fill(hidden, unknown_index), lengths[of])
            changes[of, which] = occluded.double().log_softmax(-1) - plain[of]
    return plain, changes


def rounding_error(model: nn.Module, plain: Tensor) -> Tensor:
    """Changes (B, 1) of log P(y | text), (B,), that are no more than rounding: an error of the logits moves
    log p by up to 1 - p of itself."""
    return -torch.expm1(plain).unsqueeze(1) * torch.finfo(_dtype(model)).eps * ROUNDING


def _check(model: nn.Module, lengths: Tensor, k: int, unknown_index: int, max_megabytes: float) -> None:
    check(k >= 1, f"k, the words of a window, must be at least 1, not {k}")
    for text in (lengths < k).nonzero().flatten().tolist():
        n = int(lengths[text])
        short = f"text {text} has {n} words, fewer than one window of k={k}"
        raise InputError(f"{short}; leave such texts out, or take k={n} or less")
    check(max_megabytes > 0, f"max_megabytes must be above 0, not {max_megabytes}")
    rows = getattr(getattr(model, "embedding", None), "num_embeddings", None)
    if unknown_index < 0 or (rows is not None and unknown_index >= rows):
        known = "" if rows is None else f"; the model's embedding has {rows} rows, 0 to {rows - 1}"
        wrong = f"unknown_index is {unknown_index}, which is not a word{known}"
        raise InputError(f"{wrong}; give the number of <unk> in your vocabulary")


def _dtype(model: nn.Module) -> torch.dtype:
    """That of the model's parameters."""
    kinds = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(kinds, torch.get_default_dtype())


def _counted(model: nn.Module, ids: Tensor, lengths: Tensor) -> tuple[Tensor, float]:
    """Logits, and the bytes that the parts of the model put out: at least what it needs at once."""
    sizes = []

    def add(module: nn.Module, _: Any, output: Any) -> None:
        size = sum(v.nbytes for v in tree_leaves(output) if isinstance(v, Tensor))
        # a recurrence also holds its gates, which are up to four times its states
        sizes.append(size * (6 if isinstance(module, nn.RNNBase | Cell) else 2))

    hooks = [module.register_forward_hook(add) for module in model.modules()]
    try:
        return model(ids, lengths), sum(sizes)
    finally:
        for hook in hooks:
            hook.remove()
