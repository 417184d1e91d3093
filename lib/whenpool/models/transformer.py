"""A Transformer encoder in the place of a recurrence (Vaswani et al. 2017; thesis §1.3.3, §1.11.1).

It is called as `whenpool.Encoder` is and starts from random weights, so that a classifier, every
pooling and every probe can be given the one or the other. In a recurrence a state learns of a word
far away through all states between; here every state looks at every word itself.

Letters: B texts, T words of the longest, E units of an input, D units of a state, F of a head: D
over the number of heads.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import pad

from whenpool.base.errors import check, check_known
from whenpool.models.encoder import check_lengths, word_mask
from whenpool.models.pooling import is_true

TRANSFORMER = "transformer"  # What stands for it where a cell is named


def plain_attention(
    queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, causal: bool
) -> Tensor:
    """Attention by its formula, (B, heads, T, F) each: it holds a score for every two words.
    ``allowed`` (B, 1, 1, T) bool are the words that may be looked at; where ``causal`` a word looks
    at no later one."""
    F = queries.shape[-1]
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(F)  # (B, heads, T, T)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if causal:
        later = torch.ones_like(scores[0, 0]).triu(1).bool()  # (T, T)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ values


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None, causal: bool
) -> Tensor:
    """Attention by torch's kernel, block by block, which keeps no scores; shapes as in
    `plain_attention`."""
    return functional.scaled_dot_product_attention(queries, keys, values, allowed, is_causal=causal)


ATTENTIONS: dict[str, Callable[..., Tensor]] = {"fused": fused_attention, "plain": plain_attention}
"""Ways to compute the same attention, by name."""


def sinusoids(words: int, size: int) -> Tensor:
    """The place of each word as numbers that are added to its state (Vaswani et al. 2017, §3.5): T
    and D -> (T, D) float32. Unit 2i of word t is sin(t / 10,000^(2i / D)), unit 2i + 1 the cosine.

    Examples:
        >>> sinusoids(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    position = torch.arange(words, dtype=torch.float64).unsqueeze(1)  # (T, 1)
    pair = torch.arange(0, size, 2, dtype=torch.float64)  # (⌈D/2⌉,)
    angle = position * torch.exp(-pair / size * math.log(10_000))  # (T, ⌈D/2⌉)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1)  # (T, ⌈D/2⌉, 2)
    return waves.flatten(1)[:, :size].float()


class TransformerEncoder(nn.Module):
    """A Transformer that returns one state for each word, and zeros after the end of each text.

    Each layer is self-attention and two linear maps with a ReLU between, each added to what it was
    given; a linear map brings the input to D units, and sinusoids say where a word stands. The
    input of a layer is normalised (*pre-norm*, Xiong et al. 2020), which needs no warm-up of the
    learning rate. Weights start as Xavier's uniform ones, biases at zero. Raises `InputError` for
    heads that do not divide D.

    Args:
        input_size, hidden_size: E; half of D, or D where not ``bidirectional``.
        layers, heads: how many layers are stacked; heads of attention, which divide D.
        bidirectional: False: *causal*, no word sees a later one, as a recurrence from left to
            right.
        attention: "fused", torch's kernel, or "plain", which is the formula and holds T x T scores.
        dropout: rate at which what a layer adds is dropped in training, and what goes into the
            first.
        cls: whether a token that is learnt stands before each text, [CLS] (Devlin et al. 2019). Its
            state comes first, so that there are T + 1.

    Examples:
        >>> encoder = TransformerEncoder(input_size=100, hidden_size=256, layers=2, heads=8)
        >>> encoder(torch.randn(2, 7, 100), torch.tensor([7, 4])).shape
        torch.Size([2, 7, 512])
    """

    cell = TRANSFORMER
    drop_connect = 0.0
    masked = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int = 1,
        heads: int = 4,
        bidirectional: bool = True,
        attention: str = "fused",
        *,
        dropout: float = 0.1,
        cls: bool = False,
    ) -> None:
        super().__init__()
        check(bidirectional or not cls, "a first token sees no word unless bidirectional=True")
        directions = 2 if bidirectional else 1
        size = hidden_size * directions
        check(
            min(input_size, hidden_size, layers, heads) >= 1,
            f"input_size={input_size}, hidden_size={hidden_size}, layers={layers}, heads={heads}"
            " must be at least 1 each",
        )
        check_known("attention", attention, ATTENTIONS)
        check(
            size % heads == 0,
            f"heads={heads} does not divide the {size} units of a state"
            "; choose another hidden_size or heads",
        )
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, size
        self.directions, self.heads, self.attention = directions, heads, attention
        self.dropout = dropout
        self.into = nn.Linear(input_size, size)
        self.layers: Any = nn.ModuleList(_Layer(size, heads, dropout) for _ in range(layers))
        self.last_norm = nn.LayerNorm(size)
        for name, weight in self.named_parameters():
            if "norm" not in name:
                nn.init.xavier_uniform_(weight) if weight.dim() == 2 else nn.init.zeros_(weight)
        self.cls = nn.Parameter(torch.randn(size)) if cls else None  # as torch starts embeddings
        self._table: Tensor | None = None  # follows from T and D: no part of the weights

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """As of `whenpool.Encoder`: (B, T, E) and (B,) lengths -> (B, T, D), zeros after each
        end."""
        check_lengths(inputs, lengths)
        assert lengths is not None
        T, causal, compiling = inputs.shape[1], self.directions == 1, torch.compiler.is_compiling()
        words = pad(word_mask(lengths, T), (int(self.cls is not None), 0), value=True)  # (B, T)
        allowed = None if causal else words[:, None, None]  # padding is later than every word
        if is_true((lengths == T).all()):
            allowed = None
        attend = ATTENTIONS[self.attention]
        places = sinusoids(T, self.output_size) if compiling else self._places(T, inputs.device)
        states = self.into(inputs) + places.to(inputs)  # (B, T, D)
        if self.cls is not None:
            states = torch.cat([self.cls.expand(len(states), 1, -1), states], dim=1)
        states = functional.dropout(states, self.dropout, self.training)
        for layer in self.layers:
            states = layer(states, lambda q, k, v: attend(q, k, v, allowed, causal))
        return self.last_norm(states) * words.unsqueeze(-1)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_table": None}  # a copy makes its own

    def _places(self, words: int, device: torch.device) -> Tensor:
        """`sinusoids` (T, D) from a table that grows with the longest text, since numbers of
        `step_megabytes` count its whole."""
        table = self._table  # which another thread may exchange
        if table is None or len(table) < words or table.device != device:
            with torch.inference_mode(False):  # so that training may use it later
                longest = max(512, 2 ** math.ceil(math.log2(words)))
                table = self._table = sinusoids(longest, self.output_size).to(device)
        return table[:words]


class _Layer(nn.Module):
    """Self-attention and two linear maps, each added to what it was given."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.asked = nn.Linear(size, 3 * size)  # queries, keys and values of all heads
        self.joined = nn.Linear(size, size)
        self.wide = nn.Linear(size, 4 * size)  # as in Vaswani et al.
        self.narrow = nn.Linear(4 * size, size)
        self.attention_norm = nn.LayerNorm(size)
        self.wide_norm = nn.LayerNorm(size)

    def forward(self, states: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        B, T, D = states.shape
        drop = partial(functional.dropout, p=self.dropout, training=self.training)
        parts = self.asked(self.attention_norm(states)).view(B, T, 3, self.heads, D // self.heads)
        # queries, keys, values: each (B, heads, T, F)
        attended = attend(*parts.permute(2, 0, 3, 1, 4))
        states = states + drop(self.joined(attended.transpose(1, 2).reshape(B, T, D)))
        return states + drop(self.narrow(self.wide(self.wide_norm(states)).relu()))
