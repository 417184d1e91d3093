"""From the states of all words to one embedding of the text (thesis §1.3, §2.2.5).

Every pooling is a plain module with one constructor and one signature::

    pool = MaxAttention()
    embedding, weights = pool(states, mask)

- ``states``: (B, T, D), one state a word; any number of usual size may stand where there is no
word.
- ``mask``: (B, T), True (or 1) on words, False (or 0) on padding, which may be on either side. Of a
  ``key_padding_mask`` of torch's take ``~mask``, of an additive mask ``mask == 0``.
- ``embedding``: (B, D).
- ``weights``: (B, T), non-negative, summing to 1 over the words of a text, or None where the
  pooling is not a weighted sum of states.

Letters: B texts, T words of the longest, D units of a state (both directions together).
"""

import torch
from torch import Tensor, nn

from whenpool.base.errors import InputError, check
from whenpool.models.registry import LISTED


class Pooling(nn.Module):
    """The base class of all poolings.

    Args:
        size: D, the units of a state. Needed only where something is learnt.
        bidirectional: whether the first half of D is a left-to-right state and the second half
            a right-to-left one. Matters only to poolings that ask for a "last" state.

    Examples:
        >>> class First(Pooling):
        ...     def pool(self, states, mask):
        ...         return states[:, 0], None
        >>> First()(torch.ones(2, 3, 4), torch.ones(2, 3))[0].shape
        torch.Size([2, 4])
    """

    def __init__(self, size: int | None = None, bidirectional: bool = True) -> None:
        super().__init__()
        self.size = size
        self.bidirectional = bidirectional

    def forward(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """(B, T, D) states, (B, T) mask -> (B, D) embedding, (B, T) weights or None.

        Raises `InputError` when the shapes do not fit, or a mask on a processor is not of 0 and 1.
        """
        both = isinstance(states, Tensor) and isinstance(mask, Tensor)
        if not both or states.dim() != 3 or mask.shape != states.shape[:2]:
            raise InputError(
                "states must be (B, T, D) and the mask a tensor (B, T), not "
                f"{_shape_of(states)} and {_shape_of(mask)}"
            )
        T, D = states.shape[1:]
        check(
            T, "the states are of no words, T = 0; give each text at least one, even an unknown one"
        )
        if self.size is not None and self.size != D:
            named = f"{type(self).__name__}({self.size})"
            raise InputError(f"{named} cannot pool states of {D} units")
        if mask.dtype != torch.bool:
            check(
                not is_true(((mask != 0) & (mask != 1)).any()),
                "a mask must be 1 on words and 0 on padding; of an additive mask take mask == 0",
            )
        return self.pool(states, mask.to(torch.bool))

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """What a pooling does, on a mask of True and False."""
        raise NotImplementedError


class LastState(Pooling):
    """No pooling: each direction's state after its last word, [→h_n ; ←h_1] (§1.3.1).

    Examples:
        >>> states = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]])  # (1, 3, 2)
        >>> LastState()(states, torch.tensor([[True, True, False]]))
        (tensor([[ 2., 10.]]), None)
        >>> MaxPool()(states, torch.tensor([[True, True, False]]))
        (tensor([[ 2., 20.]]), None)
        >>> MeanPool()(states, torch.tensor([[True, True, False]]))
        (tensor([[ 1.5000, 15.0000]]), tensor([[0.5000, 0.5000, 0.0000]]))
    """

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        return _last_states(states, mask, self.bidirectional), None


class FirstToken(Pooling):
    """The state of the first token, where many encoders have [CLS] (Devlin et al. 2019)."""

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        first = mask.int().argmax(1)  # (B,)
        return states[torch.arange(len(first), device=first.device), first], None


class MeanPool(Pooling):
    """The mean of the states (§1.3.1)."""

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        words = mask.to(states.dtype)  # (B, T), so that a division is as exact as the states
        weights = words / words.sum(1, keepdim=True).clamp(min=1)
        return _weighted_sum(weights, states), weights


class MaxPool(Pooling):
    """The largest value of each unit over the words (§1.3.1). Where several words share it, one of
    them receives the gradient, as in the thesis's case distinction for ∂s_emb/∂h_t."""

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, None]:
        return _max_over_words(states, mask), None


class Attention(Pooling):
    """Luong attention with one learnt query for the whole corpus (§1.3.1). Raises `InputError`
    without a size, since the query has D entries: ``Attention(D)``."""

    def __init__(self, size: int | None = None, bidirectional: bool = True) -> None:
        super().__init__(size, bidirectional)
        if size is None:
            raise InputError("attention learns a query; give it the size of a state, size=D")
        self.query = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.query, -(size**-0.5), size**-0.5)  # as nn.Linear(D, 1) starts

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        weights = softmax_over_words(states @ self.query.to(states.dtype), mask)
        return _weighted_sum(weights, states), weights


class MaxAttention(Pooling):
    """Attention whose query is the max-pooled state of the text itself (§1.3.2).

    Examples:
        >>> states = torch.eye(2).unsqueeze(0)  # (1, 2, 2): two words that matter alike
        >>> MaxAttention()(states, torch.ones(1, 2))
        (tensor([[0.5000, 0.5000]]), tensor([[0.5000, 0.5000]]))
    """

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        query = _max_over_words(states, mask)  # (B, D)
        weights = softmax_over_words(_cosine_like_scores(states, query), mask)
        return _weighted_sum(weights, states), weights


class LastAttention(Pooling):
    """Attention whose query is the last state (§2.2.5), each direction with its own.

    Left-to-right states attend with →h_n, right-to-left ones with ←h_1, so that all mass on the
    last state gives exactly what `LastState` gives. The weights returned are the mean of the two
    directions'; `direction_weights` has them one by one.
    """

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        weights = self.direction_weights(states, mask)
        return self.embed(states, weights), torch.stack(weights).mean(0)

    def direction_weights(
        self, states: Tensor, mask: Tensor, kept: list[Tensor] | None = None
    ) -> list[Tensor]:
        """The attention of each direction, (B, T); ``kept``: which words take part, (B, T) bool
        each."""
        directions = 2 if self.bidirectional else 1
        queries = _last_states(states, mask, self.bidirectional).chunk(directions, dim=-1)
        halves = zip(
            states.chunk(directions, dim=-1), queries, kept or [mask] * directions, strict=True
        )
        return [softmax_over_words(_cosine_like_scores(h, q), words) for h, q, words in halves]

    def embed(self, states: Tensor, weights: list[Tensor]) -> Tensor:
        """The embedding (B, D) by the attention of each direction on its own half of the states."""
        halves = states.chunk(len(weights), dim=-1)
        return torch.cat(
            [_weighted_sum(w, h) for w, h in zip(weights, halves, strict=True)], dim=-1
        )


class StraightThrough(Pooling):
    """The embedding and weights of the pooling ``read`` with the gradient of the pooling ``learn``:
    whether a pooling helps by what it reads or by how it learns. Parameters of ``read`` are not
    trained.

    Examples:
        >>> states = torch.tensor([[[1.0], [3.0], [2.0]]], requires_grad=True)  # (1, 3, 1)
        >>> pool = StraightThrough(LastState(bidirectional=False), MaxPool())
        >>> embedding, _ = pool(states, torch.ones(1, 3))
        >>> embedding.item(), torch.autograd.grad(embedding.sum(), states)[0].flatten().tolist()
        (2.0, [0.0, 1.0, 0.0])
    """

    def __init__(self, read: Pooling, learn: Pooling) -> None:
        super().__init__(read.size, read.bidirectional)
        self.read, self.learn = read, learn

    def pool(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        with torch.no_grad():
            embedding, weights = self.read(states, mask)
        if torch.is_grad_enabled():
            path = self.learn(states, mask)[0]  # (B, D)
            embedding = embedding + (path - path.detach())
        return embedding, weights


POOLINGS: dict[str, type[Pooling]] = {
    name: globals()[listed.module] for name, listed in LISTED.items()
}
"""Every pooling by name. A new one needs a class and a line in `whenpool.models.registry`."""
TOKEN_POOLINGS = POOLINGS | {"cls": FirstToken}
"""Those of encoders whose first token may stand for the text."""


def _shape_of(value: object) -> str:
    return f"{tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _last_states(states: Tensor, mask: Tensor, bidirectional: bool) -> Tensor:
    B, T = mask.shape
    rows, position = torch.arange(B, device=mask.device), torch.arange(T, device=mask.device)
    last = ((position + 1) * mask).argmax(1)  # (B,), the last word
    ends = states[rows, last]  # (B, D)
    if bidirectional:
        first = ((T - position) * mask).argmax(1)  # (B,), the first word
        half = states.shape[-1] // 2
        ends = torch.cat([ends[:, :half], states[rows, first, half:]], dim=-1)
    return ends.masked_fill(~mask.any(1, keepdim=True), 0.0)  # a text without words embeds as zeros


def is_true(value: Tensor) -> bool:
    """Whether one truth value is true and can be asked for: not on a GPU, which would be waited
    for, nor in a recorded graph, which holds for other batches too, nor under `torch.vmap`."""
    if value.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    try:
        return bool(value)
    except RuntimeError:  # a tensor without values, or one of `torch.vmap`
        return False


def _max_over_words(states: Tensor, mask: Tensor) -> Tensor:
    if is_true(mask.all()):
        return states.max(dim=1).values  # nothing is padded: no copy of all states to mask
    largest = states.masked_fill(~mask.unsqueeze(-1), -torch.inf).max(dim=1).values  # (B, D)
    # a text without words embeds as zeros
    return largest.masked_fill(~mask.any(1, keepdim=True), 0.0)


def _cosine_like_scores(states: Tensor, query: Tensor) -> Tensor:
    """ĥ_t·q, (B, T), where ĥ_t = h_t/‖h_t‖; to divide the products spares a copy of all states."""
    exact = states.float() if states.dtype == torch.float16 else states
    products = torch.bmm(exact, query.to(exact.dtype).unsqueeze(-1)).squeeze(-1)
    lengths = torch.linalg.vector_norm(exact, dim=-1)
    return (products / lengths.masked_fill(lengths == 0, 1.0)).to(states.dtype)


def softmax_over_words(scores: Tensor, mask: Tensor) -> Tensor:
    # nothing of a text without words, which would give NaN
    hidden = ~mask & mask.any(1, keepdim=True)
    return scores.masked_fill(hidden, -torch.inf).softmax(dim=1) * mask  # (B, T)


def _weighted_sum(weights: Tensor, states: Tensor) -> Tensor:
    return torch.bmm(weights.unsqueeze(1), states).squeeze(1)  # (B, D)
