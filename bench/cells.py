"""A training step of the cells that torch lacks against `nn.LSTM`."""

import torch
from torch import nn

from bench.timing import compare
from whenpool.models import cells
from whenpool.models.cells import LRU, SSM, MinGRU, MinLSTM

B, E = 32, 100
KINDS = {
    "nn.LSTM": nn.LSTM,
    "nn.GRU": nn.GRU,
    "nn.RNN": nn.RNN,
    "minGRU": MinGRU,
    "minLSTM": MinLSTM,
    "SSM": SSM,
    "LRU": LRU,
    "PrototypeLSTM": cells.PrototypeLSTM,
}


def main() -> None:
    shapes = ((240, 256, 5), (140, 64, 7))
    print(
        f"A training step of one direction, B={B}, E={E}, forward and backward: ms, times nn.LSTM's"
    )
    print(f"{'':>15}" + "".join(f"{f'T={T}, H={H}':>20}" for T, H, _ in shapes))
    found = [measure(T, H, rounds) for T, H, rounds in shapes]
    for name in KINDS:
        told = [
            f"{1e3 * times[name]:10.1f}{times[name] / times['nn.LSTM']:10.2f}" for times in found
        ]
        print(f"{name:>15}" + "".join(told))


def measure(T: int, H: int, rounds: int) -> dict[str, float]:
    """Seconds of each, T words a text and H units."""
    torch.manual_seed(0)
    inputs = torch.randn(B, T, E, requires_grad=True)
    modules = {name: kind(E, H, batch_first=True) for name, kind in KINDS.items()}
    return compare(
        {name: lambda m=module: m(inputs)[0].sum().backward() for name, module in modules.items()},
        rounds,
    )
