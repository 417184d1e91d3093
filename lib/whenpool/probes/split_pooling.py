"""The poolings of `whenpool.models.pooling` over states that are shared in part, see `HalfStates`.

Letters: B texts, W windows, T words of the longest, H units of a state of one direction, D units of
both.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whenpool.models import pooling
from whenpool.probes.window_states import HalfStates

Halves = Sequence[HalfStates]


def _last(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    return torch.cat([half.last() for half in halves], dim=-1)


def _mean(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    like = halves[0]
    words = mask.to(like.shared.dtype)  # (B, 1, T)
    return _weighted_sum((words / words.sum(-1, keepdim=True)).expand(like.own.shape), halves)


def _max(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    return torch.cat([half.maxima() for half in halves], dim=-1)


def _attention(module: Any, halves: Halves, mask: Tensor) -> Tensor:
    queries = [
        query.expand(half.peaks.shape)
        for half, query in zip(halves, module.query.chunk(len(halves)), strict=True)
    ]
    return _weighted_sum(_softmax_over_words(_products(halves, queries), mask), halves)


def _max_attention(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    products = _products(halves, [half.maxima() for half in halves])
    norms = [half.norms() for half in halves]
    norm = torch.hypot(*norms) if len(norms) == 2 else norms[0]  # ‖h‖² = ‖→h‖² + ‖←h‖²
    return _weighted_sum(_softmax_over_words(_over(products, norm), mask), halves)


def _last_attention(_: Any, halves: Halves, mask: Tensor) -> Tensor:
    parts = []
    for half in halves:
        scores = _over(half.products(half.last()), half.norms())
        parts.append(half.weighted_sum(_softmax_over_words(scores, mask)))
    return torch.cat(parts, dim=-1)


SPLIT_POOLINGS: dict[type, Callable[[Any, Halves, Tensor], Tensor]] = {
    pooling.LastState: _last,
    pooling.MeanPool: _mean,
    pooling.MaxPool: _max,
    pooling.Attention: _attention,
    pooling.MaxAttention: _max_attention,
    pooling.LastAttention: _last_attention,
}
"""By the exact class: (pooling, halves, mask (B, 1, T)) -> (B, W, D). A subclass is none of them."""


def _products(halves: Halves, queries: Sequence[Tensor]) -> Tensor:
    first, *second = [half.products(q) for half, q in zip(halves, queries, strict=True)]
    return first.add_(second[0]) if second else first  # (B, W, T)


def _over(products: Tensor, norms: Tensor) -> Tensor:
    return products / norms.clamp(min=torch.finfo(norms.dtype).tiny)


def _softmax_over_words(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask


def _weighted_sum(weights: Tensor, halves: Halves) -> Tensor:
    return torch.cat([half.weighted_sum(weights) for half in halves], dim=-1)
