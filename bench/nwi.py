"""Normalised word importance with reuse of states against plain occlusion.

Both are exact and batch their windows. Plain occlusion gets the memory with which it was fastest.
"""

import torch

from bench.timing import compare
from whenpool import TextClassifier
from whenpool.probes import window_importance

PLAIN_MEGABYTES = 128.0
BASE = {"B": 4, "T": 400, "H": 256, "k": 5}
OTHERS = {"T": (100, 200, 800), "B": (1, 16), "H": (64, 128), "k": (3, 10)}


def main() -> None:
    heads = "pooling,B,T,H,k,reuse,plain,plain/reuse,importance,difference".split(",")
    print("".join(f"{head:>14}" if i in (0, 7) else f"{head:>11}" for i, head in enumerate(heads)))
    for pooling in ("max_attention", "mean", "last"):
        measure(pooling, rounds=3, **BASE)
    for letter, values in OTHERS.items():
        for value in values:
            measure("max_attention", rounds=2, **BASE | {letter: value})


def measure(pooling: str, rounds: int, B: int, T: int, H: int, k: int) -> None:
    """Prints a line; importance is the largest of all windows, difference that of the two ways."""
    torch.manual_seed(0)
    model = TextClassifier(1000, 2, pooling, hidden_size=H)
    texts = torch.randint(1, 1000, (B, T)), torch.full((B,), T), torch.zeros(B, dtype=torch.long)

    def reuse():
        return window_importance(model, *texts, k)

    def plain():
        return window_importance(model, *texts, k, max_megabytes=PLAIN_MEGABYTES, reuse=False)

    difference = (reuse() - plain()).abs().max().item()
    times = compare({"reuse": reuse, "plain": plain}, rounds)
    ratio = times["plain"] / times["reuse"]
    print(
        f"{pooling:>14}{B:11}{T:11}{H:11}{k:11}{times['reuse']:11.2f}{times['plain']:11.2f}{ratio:14.2f}"
        f"{reuse().max().item():11.1e}{difference:11.1e}"
    )
