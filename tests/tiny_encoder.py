"""An encoder like those of `transformers`, as small as can be, and TMix in it one text at a time."""

from types import SimpleNamespace

import torch
from torch import nn

from whenpool.fewshot.fine_tuning import FineTuned

PADDING, TOKENS, CLASSES, SIZE = 1, 30, 3, 6
LENGTHS = torch.tensor([7, 4, 1, 5])
PARTNER = torch.tensor([2, 3, 1, 0])


def ids_of(lengths=LENGTHS, padding=PADDING, more=0, tokens=TOKENS, seed=3):
    """The same tokens for the same lengths, whatever is padded with."""
    longest = int(lengths.max())
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, tokens, (len(lengths), longest), generator=generator)
    ids = nn.functional.pad(ids, (0, more))
    return ids.masked_fill(torch.arange(longest + more) >= lengths.unsqueeze(1), padding)


IDS = ids_of()


class TinyLayer(nn.Module):
    """Attention that takes its mask in one of the ways that encoders of `transformers` know."""

    def __init__(self, style):
        super().__init__()
        self.style = style
        self.query, self.value = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def forward(self, states, mask=None, *, attention_mask=None):
        mask = attention_mask if mask is None else mask
        scores = self.query(states) @ states.transpose(1, 2)  # (B, T, T)
        if mask is not None and mask.is_floating_point():
            scores = scores + mask.squeeze(1)
        elif mask is not None:
            keys = mask[:, 0] if mask.dim() == 4 else mask[:, None].bool()
            scores = scores.masked_fill(~keys, -torch.inf)
        states = torch.tanh(2 * self.value(scores.softmax(2) @ states) + states)
        return (states, scores) if self.style == "tuple" else states


class TinyEncoder(nn.Module):
    """Like an encoder of `transformers`, without its size."""

    def __init__(self, layers=3, style="bool"):
        super().__init__()
        self.config = SimpleNamespace(num_hidden_layers=layers)
        self.style = style
        self.embeddings = nn.Embedding(TOKENS, SIZE)
        self.places = nn.Embedding(40, SIZE)
        self.blocks = nn.ModuleList(TinyLayer(style) for _ in range(layers))
        self.others = nn.ModuleList([nn.Identity()] * (layers + 1))

    def forward(self, input_ids, attention_mask):
        states = self.start(input_ids)
        mask = attention_mask[:, None, None, :].bool()  # (B, 1, 1, T)
        if self.style == "additive":
            mask = torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, -1e9)
        if self.style == "flat":
            mask = attention_mask
        if attention_mask.all():
            mask = None
        for block in self.blocks:
            out = block(states, attention_mask=mask) if self.style == "keyword" else block(states, mask)
            states = out[0] if self.style == "tuple" else out
        return SimpleNamespace(last_hidden_state=states)

    def start(self, ids):
        return self.embeddings(ids) + self.places.weight[: ids.shape[1]]


STYLES = ["bool", "additive", "flat", "keyword", "tuple"]


def tiny(style="bool", layers=3, classes=CLASSES, seed=0):
    torch.manual_seed(seed)
    return FineTuned(TinyEncoder(layers, style), SIZE, classes).double()


def classified(model, states):
    """The classifier written out, for one text of (n, E)."""
    first, _, second = model.head
    hidden = torch.tanh(first.weight @ (states.sum(0) / len(states)) + first.bias)
    return second.weight @ hidden + second.bias


def read(model, text, layers=None):
    """What the first layers of a tiny encoder make of one text alone, unpadded: (n, E)."""
    states = model.encoder.start(text.unsqueeze(0))
    return through(model.encoder.blocks[:layers], states)


def through(blocks, states):
    for block in blocks:
        out = block(states)
        states = out[0] if isinstance(out, tuple) else out
    return states.squeeze(0)


def interpolated(own, other, share):
    """Token by token, a text that has ended counts as 0."""
    mixture = torch.zeros(max(len(own), len(other)), own.shape[1], dtype=own.dtype)
    for t in range(len(mixture)):
        if t < len(own):
            mixture[t] += share * own[t]
        if t < len(other):
            mixture[t] += (1 - share) * other[t]
    return mixture


def mixed_alone(model, text, other, share, layer):
    """TMix of two texts by a tiny encoder, each read alone."""
    mixture = interpolated(read(model, text, layer), read(model, other, layer), share)
    return classified(model, through(model.encoder.blocks[layer:], mixture.unsqueeze(0)))


def texts_of(ids=IDS, lengths=LENGTHS):
    return [row[:n] for row, n in zip(ids, lengths.tolist(), strict=True)]
