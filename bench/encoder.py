"""`Encoder` against `nn.LSTM`: a training step, forward and backward."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bench.timing import compare
from whenpool import Encoder

B, E, H = 32, 100, 256


def main() -> None:
    print(f"A training step, B={B}, E={E}, H={H}, lengths between 3/4 T and T")
    heads = ("ours, s", "unmasked, s", "packed, s", "ours/unmasked", "packed/ours")
    print(f"{'T':>5}" + "".join(f"{head:>15}" for head in heads))
    for T, rounds in ((60, 7), (240, 5), (720, 2)):
        times = measure(T, rounds)
        ours, unmasked, packed = times["ours"], times["unmasked"], times["packed"]
        figures = (ours, unmasked, packed, ours / unmasked, packed / ours)
        print(f"{T:5}" + "".join(f"{figure:15.2f}" for figure in figures))


def measure(T: int, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    inputs = torch.randn(B, T, E, requires_grad=True)
    lengths = torch.randint(T * 3 // 4, T + 1, (B,)).sort(descending=True).values
    lengths[0] = T
    ours = Encoder(E, H)
    theirs = nn.LSTM(E, H, bidirectional=True, batch_first=True)

    def step(states: Tensor) -> None:
        states.sum().backward()

    def packed() -> Tensor:
        sequence = pack_padded_sequence(inputs, lengths, batch_first=True)
        return pad_packed_sequence(theirs(sequence)[0], batch_first=True)[0]

    return compare(
        {
            "ours": lambda: step(ours(inputs, lengths)),
            "unmasked": lambda: step(theirs(inputs)[0]),
            "packed": lambda: step(packed()),
        },
        rounds,
    )
