"""A kind of run of a contributor's own, as CONTRIBUTING says: one file."""

import random
from dataclasses import dataclass
from typing import ClassVar

from paper.runs.kinds import KINDS
from paper.runs.run import Run, provenance


@dataclass(frozen=True)
class CoinToss(Run):
    """So many tosses of a coin."""

    corpus: str = "coins"
    seed: int = 0
    tosses: int = 10
    epochs: int = 2

    kind: ClassVar[str] = "coin"
    table: ClassVar[str] = "coins"

    @property
    def cost(self):
        return float(self.tosses)

    def identity(self, place):
        return {"run": self.changed() | {"kind": self.kind}, "data": {}, "protocol": self.protocol}

    def execute(self, place, device="cpu", keep_weights=False):
        chance, rows = random.Random(self.seed), []
        for epoch in range(self.epochs):
            heads = sum(chance.random() < 0.5 for _ in range(self.tosses))
            rows.append({"epoch": epoch + 1, "heads": heads})
        return self.put(place, {"heads": heads, "seconds": 0.1}, provenance(device), rows)


KINDS[CoinToss.kind] = CoinToss
