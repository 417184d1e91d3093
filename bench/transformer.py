"""`TransformerEncoder` against `nn.TransformerEncoder`: a training step, forward and backward."""

import copy

import torch
from torch import Tensor, nn

from bench.timing import compare
from whenpool import TransformerEncoder
from whenpool.models.encoder import word_mask

B, E, LAYERS, HEADS = 32, 100, 1, 4
RATE = 0.1  # of dropout


def main() -> None:
    print(
        f"A training step, B={B}, E={E}, {LAYERS} layer, {HEADS} heads, lengths between 3/4 T and T"
    )
    heads = ("ours, s", "plain, s", "torch's, s", "ours/torch's", "as it comes, s")
    print(f"{'H':>5}{'T':>5}" + "".join(f"{head:>15}" for head in heads))
    for H, T, rounds in ((64, 140, 7), (64, 410, 5), (256, 140, 5), (256, 410, 3)):
        times = measure(H, T, rounds)
        ours, plain, theirs = times["ours"], times["plain"], times["torch's"]
        figures = (ours, plain, theirs, ours / theirs, times["as it comes"])
        print(f"{H:5}{T:5}" + "".join(f"{figure:15.2f}" for figure in figures))


def measure(H: int, T: int, rounds: int) -> dict[str, float]:
    """Seconds a step; torch's has the same linear map and positions before its layers, and drops
    what ours drops; as it comes it drops attention as well."""
    torch.manual_seed(0)
    inputs = torch.randn(B, T, E, requires_grad=True)
    lengths = torch.randint(T * 3 // 4, T + 1, (B,))
    ours = TransformerEncoder(E, H, LAYERS, HEADS, dropout=RATE)
    plain = TransformerEncoder(E, H, LAYERS, HEADS, attention="plain", dropout=RATE)
    D = ours.output_size
    layer = nn.TransformerEncoderLayer(D, HEADS, 4 * D, RATE, batch_first=True, norm_first=True)
    as_it_comes = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D), enable_nested_tensor=False)
    theirs = copy.deepcopy(as_it_comes)
    for own in theirs.layers:
        own.self_attn.dropout = 0.0
    padding = ~word_mask(lengths, T)

    def torchs(module: nn.Module) -> Tensor:
        states = ours.into(inputs) + ours._places(T, inputs.device)
        return module(states, src_key_padding_mask=padding)

    def step(states: Tensor) -> None:
        states.sum().backward()

    return compare(
        {
            "ours": lambda: step(ours(inputs, lengths)),
            "plain": lambda: step(plain(inputs, lengths)),
            "torch's": lambda: step(torchs(theirs)),
            "as it comes": lambda: step(torchs(as_it_comes)),
        },
        rounds,
    )
