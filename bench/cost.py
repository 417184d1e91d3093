"""What a step of models trained together should cost on an H200, without one, beside what was
measured.

A step takes the time loops (words of the longest text, times the measured microseconds of a word; a
processor of the GPU executes one program of a loop at a time, of whatever process), the operations
besides (counted here, each 8.2 µs, which is what the groups of the old kernels have in common),
products of matrices, and the bytes of the batch, read or written some three times. Nothing overlaps
in this model, and processes share all but their operations.
"""

from math import ceil

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from whenpool import TextClassifier
from whenpool.corpora.batches import Ragged, Splits, Texts
from whenpool.models.batched_lstm import place_bytes
from whenpool.models.registry import COMPARED
from whenpool.training.batched import train_together
from whenpool.training.loop import Recipe, Student

PROCESSORS, LAUNCH, BANDWIDTH = 132, 8.2e-6, 3.5e12
EVALUATION_BYTES = 19e3  # Of a place, counted; see bench/README.md
WORD = {"float32": 92e-6, "bfloat16": 70e-6}  # Of one model by cuDNN, both directions
LOOPS = {"bfloat16": (47.8e-6, 93e-6)}
"""Of a word, all recurrences of a group, forward and backward: blocks of 16 texts, and of 32."""
FORWARD = {"bfloat16": (20e-6, 42e-6)}
PRODUCTS = {"bfloat16": 400e12}  # Operations a second
PLAIN, MID, MID_1K = (321, 9_301), (911, 27_916), (1_054, 27_843)
"""Words of the longest text of a batch of 32, and of all, on IMDb."""
MEASURED = {  # Models, precision, and operations of the code of that day; words a second
    ("alone", 1, "float32", 295): 0.33e6,
    ("alone", 1, "bfloat16", 295): 0.37e6,
    ("old kernels", 6, "bfloat16", 1_259): 1.40e6,
    ("old kernels", 10, "bfloat16", 2_063): 1.96e6,
}
TOGETHER = 19, 625, 2.25, 125.0
"""Two processes, 1,000 reviews in filler: models of each, steps, texts that are evaluated (20 times
1,000 and 25,000) for each that is learnt from, and seconds."""


def main() -> None:
    for (how, models, name, operations), measured in MEASURED.items():
        longest, words = PLAIN
        word = WORD[name] if how == "alone" else LOOPS[name][1]
        predicted = models * words / (longest * word + operations * LAUNCH)
        print(
            f"{how}, {models:2} models, {name}: {predicted / 1e6:.2f} million words/s predicted, "
            f"{measured / 1e6:.2f} measured"
        )
    models, steps, evaluated, measured = TOGETHER
    both = seconds_of(models, "bfloat16", MID_1K, operations_of(models), 2, evaluated)
    print(
        f"2 x {models} models, bfloat16, 1,000 reviews in filler: {steps * sum(both):.0f} "
        "s predicted, "
        f"{measured:.0f} measured"
    )
    print(
        "10,000 reviews in filler, processes x models, million words/s without and with evaluation:"
    )
    for processes, models in ((1, 10), (1, 20), (1, 33), (2, 16), (2, 19), (2, 33)):
        operations, words = operations_of(models), processes * models * MID[1]
        for name in LOOPS:
            step, evaluation = seconds_of(models, name, MID, operations, processes)
            print(
                f"{processes} x {models} models, {operations} operations, {name}: "
                f"{words / step / 1e6:.1f}, {words / (step + evaluation) / 1e6:.1f}"
            )


def seconds_of(
    models: int,
    name: str,
    sizes: tuple[int, int],
    operations: int,
    processes: int = 1,
    evaluated: float = 0.5,
) -> tuple[float, float]:
    """Seconds in which each of some processes makes a step, and those of the evaluation for each
    step, by default of half as many validation texts as training texts, as with 10,000 reviews."""
    (longest, words), every, bits = sizes, processes * models, 2 if name == "bfloat16" else 4
    loops = longest * _word(LOOPS[name], 2 * every, 32)
    # multiplications of a word, weights' gradients too
    units = 2 * (2 * 256 * 4 * 256 + 3 * 100 * 4 * 256)
    multiplied = every * words * 2 * units / PRODUCTS[name]
    traffic = 3 * every * words * place_bytes(100, 512, 1, bits) / BANDWIDTH
    texts = 2**20 / (models * words / 32)  # of each model in a batch of an evaluation
    read = evaluated * words / texts * _word(FORWARD[name], 2 * every, texts)
    looked = evaluated * every * words * EVALUATION_BYTES / BANDWIDTH
    return loops + operations * LAUNCH + multiplied + traffic, read + looked


def _word(seconds: tuple[float, float], recurrences: int, texts: float) -> float:
    """Of a word of all recurrences, in the better of blocks of 16 and of 32 texts."""
    return min(
        waves(recurrences, texts, 16) * seconds[0], waves(recurrences, texts, 32) * seconds[1]
    )


def waves(recurrences: int, texts: float, block: int) -> int:
    """How many programs each processor has to execute one after the other."""
    return ceil(recurrences * ceil(texts / block) / PROCESSORS)


def operations_of(models: int) -> int:
    """Of a step beside the time loops: those of texts of one word more, subtracted."""

    def counted(steps: int, words: int) -> int:
        ids = torch.randint(2, 100, (32 * steps, words)).tolist()
        texts = Texts(Ragged.of(ids), torch.zeros(len(ids), dtype=torch.int64))
        made = [
            TextClassifier(100, 2, COMPARED[n % 5], embedding_size=8, hidden_size=8)
            for n in range(models)
        ]
        data = Splits(texts, texts.first(32), texts.first(32))
        with _Operations() as count:
            train_together(
                [Student(m, data, Recipe(epochs=1), 0) for m in made], "cpu", lambda n, end: None
            )
        return count.number

    a_step = {words: (counted(4, words) - counted(2, words)) // 2 for words in (2, 4)}
    return 2 * a_step[2] - a_step[4]


class _Operations(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.number += not func.is_view
        return func(*args, **(kwargs or {}))
