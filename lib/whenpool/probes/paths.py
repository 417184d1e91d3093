"""How the gradient gets from a text's embedding straight to each of its states (thesis §1.3.1).

Each function is one formula for ∂s/∂h_t, the way past the recurrence, for one text. Rows of a matrix
belong to the embedding s, columns to the state h_t.

Letters: T words, D units of a state; α_t are the weights of attention.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from whenpool.base.errors import InputError


def last_path(states: Tensor, query: Tensor | None = None) -> Tensor:
    """Only the ends: →h_T, the first half of a state, and ←h_1, the second."""
    T, D = states.shape
    path = states.new_zeros(T, D, D)
    forward, backward = torch.arange(D // 2), torch.arange(D // 2, D)
    path[-1, forward, forward] = 1
    path[0, backward, backward] = 1
    return path


def mean_path(states: Tensor, query: Tensor | None = None) -> Tensor:
    """∂s/∂h_t = I / T, the same for every word."""
    T, D = states.shape
    return torch.eye(D).to(states).expand(T, D, D) / T


def max_path(states: Tensor, query: Tensor | None = None) -> Tensor:
    """∂s^i/∂h_t^i = 1 where t has the largest value of unit i, else 0."""
    return torch.diag_embed(_is_largest(states))


def attention_path(states: Tensor, query: Tensor | None = None) -> Tensor:
    """∂s/∂h_t = α_t (I + (h_t - s) qᵀ), with α = softmax(h·q)."""
    q = _needed(query)
    alpha = (states @ q).softmax(0)
    away = states - alpha @ states  # h_t - s
    identity = torch.eye(len(q)).to(states)
    return alpha[:, None, None] * (identity + away[:, :, None] * q)


def max_attention_path(states: Tensor, query: Tensor | None = None) -> Tensor:
    """∂s/∂h_t = α_t (I + (h_t - s) rᵀ_t) + Σ_j α_j (h_j - s) (ĥ_j ⊙ m_t)ᵀ.

    α = softmax(ĥ·q), ĥ = h/‖h‖, and q is the max-pooled state. By
    r_t = (q - (ĥ_t·q) ĥ_t)/‖h_t‖ a state changes its own score; m_t marks the
    units of q that come from h_t, by which it changes all scores.
    """
    length = states.norm(dim=1, keepdim=True)
    unit, q, m = states / length, states.max(0).values, _is_largest(states)
    alpha = (unit @ q).softmax(0)
    away = states - alpha @ states  # h_t - s
    r = (q - (unit @ q)[:, None] * unit) / length
    identity = torch.eye(len(q)).to(states)
    own = alpha[:, None, None] * (identity + away[:, :, None] * r[:, None])
    through_query = torch.einsum("j,jd,je->de", alpha, away, unit)
    return own + through_query * m[:, None]


DIRECT_PATHS: dict[str, Callable[..., Tensor]] = {
    "last": last_path,
    "mean": mean_path,
    "max": max_path,
    "attention": attention_path,
    "max_attention": max_attention_path,
}
"""The formula of each pooling: (T, D) states and, for attention, the learnt query (D,) -> (T, D, D)."""


def _is_largest(states: Tensor) -> Tensor:
    """(T, D), 1 where a word has the largest value of a unit."""
    return torch.nn.functional.one_hot(states.argmax(0), len(states)).T.to(states)


def _needed(query: Tensor | None) -> Tensor:
    if query is None:
        raise InputError("the path of attention depends on its query: give it, (D,)")
    return query
