"""`SequenceTagger` against plain modules of torch: a training step, forward, backward and Adam.

The sentences have between 3/4 T and T words. The plain tagger reads padding as if it were words,
right to left before the words themselves.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.timing import compare
from whenpool import SequenceTagger

B, E, H, C, V = 32, 150, 128, 17, 16_000


class Plain(nn.Module):
    """nn.Embedding, nn.LSTM and nn.Linear."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, E)
        self.lstm = nn.LSTM(E, H, bidirectional=True, batch_first=True)
        self.classifier = nn.Linear(2 * H, C)

    def loss(self, ids: Tensor, tags: Tensor) -> Tensor:
        logits = self.classifier(self.lstm(self.embedding(ids))[0])  # (B, T, C)
        return functional.cross_entropy(logits.transpose(1, 2), tags)


def main() -> None:
    print(
        f"A training step of a tagger, B={B}, E={E}, H={H}, {V:,} words, lengths between "
        "3/4 T and T"
    )
    print(f"{'T':>5}{'ours, s':>15}{'plain, s':>15}{'ours/plain':>15}")
    for T, rounds in ((15, 9), (30, 9), (60, 7)):
        times = measure(T, rounds)
        ours, plain = times["ours"], times["plain"]
        print(f"{T:5}{ours:15.4f}{plain:15.4f}{ours / plain:15.2f}")


def measure(T: int, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    ids, tags = torch.randint(2, V, (B, T)), torch.randint(C, (B, T))
    lengths = torch.randint(T * 3 // 4, T + 1, (B,))
    lengths[0] = T
    ours, plain = SequenceTagger(V, C, embedding_size=E, hidden_size=H), Plain()
    theirs = tags.masked_fill(torch.arange(T) >= lengths.unsqueeze(1), -100)

    def stepping(model: nn.Module, loss):
        optimizer = torch.optim.Adam(model.parameters(), fused=True)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            loss().backward()
            optimizer.step()

        return step

    return compare(
        {
            "ours": stepping(ours, lambda: ours.loss(ids, lengths, tags)),
            "plain": stepping(plain, lambda: plain.loss(ids, theirs)),
        },
        rounds,
    )
