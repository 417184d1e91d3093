"""Occlusion by brute force: each window replaced in a text of its own, many texts in a batch.

Letters: B texts, T words of the longest, k words of a window, W windows of the longest text.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whenpool.models.cells import Cell
from whenpool.probes.protocol import check_labels, log_probability


def occluded_log_probabilities(
    model: nn.Module,
    ids: Tensor,
    lengths: Tensor,
    labels: Tensor,
    k: int,
    unknown_index: int,
    max_bytes: float,
) -> tuple[Tensor, Tensor]:
    """log P(label | text) of each text, (B,), and with each window replaced, (B, W), NaN behind.

    The model is called as ``model(ids, lengths)``, always with T columns, since it may read its
    padding; a model that says it does not, by its attribute ``masked``, gets no more than it needs.

    Raises:
        InputError: for a label that the model has no logit for.
    """
    B, T = ids.shape
    with _counting(model) as count:
        logits = model(ids, lengths)
    check_labels(labels, logits)
    cut = getattr(model, "masked", False) is True
    number = torch.arange(int(lengths.max()) // k, device=ids.device)  # (W,)
    exists = number < (lengths // k).unsqueeze(1)  # (B, W)
    order = torch.argsort(lengths, descending=True, stable=True)
    text, window = exists[order].nonzero().unbind(1)
    text = order[text]
    row = count.bytes / B + 4 * T * ids.element_size()
    rows = max(1, int(min(len(text), max_bytes / row)))
    position = torch.arange(T, device=ids.device).unsqueeze(0)  # (1, T)
    result = logits.new_full(exists.shape, torch.nan, dtype=torch.float64)
    for of, which in zip(text.split(rows), window.split(rows), strict=True):
        width = int(lengths[of[0]]) if cut else T
        hidden = position[:, :width] // k == which.unsqueeze(1)  # (R, width)
        occluded = model(ids[of, :width].masked_fill(hidden, unknown_index), lengths[of])
        result[of, which] = log_probability(occluded.double(), labels[of])
    return log_probability(logits.double(), labels), result


class _Count:
    bytes: float = 0.0


@contextmanager
def _counting(model: nn.Module) -> Iterator[_Count]:
    """Counts the bytes that the parts of a model put out, an upper bound of what it needs at once.

    A recurrence also holds its gates, which are up to four times its states.
    """
    count = _Count()

    def add(module: nn.Module, _: Any, output: Any) -> None:
        values = output if isinstance(output, tuple | list) else (output,)
        size = sum(v.numel() * v.element_size() for v in values if isinstance(v, Tensor))
        count.bytes += size * (6 if isinstance(module, nn.RNNBase | Cell) else 2)

    hooks = [module.register_forward_hook(add) for module in model.modules()]
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()
