"""Models trained as one batch of models: trained words per second, for 1, 5, 20 and 33 at once.

An epoch of max-attention models on texts of the lengths of IMDb's reviews with filler (on a
processor without, cut at 140 words), or of the embedded corpus where IMDb is not here. Models of
one seed read texts of the same lengths in every step, those of several seeds do not. They are
compared with the same models one after another with `nn.LSTM`; on a GPU in each precision, for
which Triton has kernels where these are right. First, what takes the time of the
largest group.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from bench.epoch import load
from bench.timing import compare
from whenpool import TextClassifier
from whenpool.corpora.batches import Ragged, Splits, Texts
from whenpool.models.precision import PRECISIONS, precision
from whenpool.models.registry import COMPARED
from whenpool.training.batched import train_together
from whenpool.training.loop import Recipe, Student, train

WORDS, TEXTS = 10_000, 32 * 4


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name, dataset = load("mid" if device == "cuda" else "standard")
    lengths = dataset.train.ids.lengths[:TEXTS]
    lengths = lengths if device == "cuda" else lengths.clamp(max=140)
    texts = Texts(Ragged.of([range(2, 2 + n) for n in lengths]), torch.arange(len(lengths)) % 2)
    print(shares(device, 256, 33 if device == "cuda" else 5, texts))
    for H in (64, 256):
        print(f"H={H}, lengths of {name}, millions of trained words a second:")
        for count in (1, 5, 20, 33) if device == "cuda" else (1, 5):
            speeds = measure(device, H, count, texts, lengths)
            print(f"{count:3} models" + "".join(f"{n:>17}:{v:6.3f}" for n, v in speeds.items()))


def shares(device: str, H: int, count: int, texts: Texts) -> str:
    """A table of what takes most of the time of models with all poolings, an epoch and two
    evaluations."""

    def run() -> None:
        models = [TextClassifier(WORDS, 2, COMPARED[n % 5], hidden_size=H) for n in range(count)]
        data, recipe = Splits(texts, texts, texts), Recipe(epochs=1)
        with precision(PRECISIONS[-1] if device == "cuda" else "float32"):
            train_together(
                [Student(m, data, recipe, 0) for m in models], device, lambda number, end: None
            )

    run()  # kernels are compiled
    with profile(activities=[getattr(ProfilerActivity, device.upper())]) as seen:
        run()
    by, averages = f"self_{device}_time_total", seen.key_averages()
    return str(averages.table(sort_by=by, row_limit=20, max_name_column_width=70))


def measure(device: str, H: int, count: int, texts: Texts, lengths: Tensor) -> dict[str, float]:
    """Of each way, the few texts that are validated and tested not counted."""
    models = [TextClassifier(WORDS, 2, hidden_size=H, padding_index=1) for _ in range(count)]
    data = Splits(texts, texts.first(1), texts.first(1))

    def students(seeds: bool = False) -> list[Student]:
        return [Student(m, data, Recipe(epochs=1), n * seeds) for n, m in enumerate(models)]

    def together(name: str, seeds: bool = False) -> None:
        with precision(name):
            train_together(students(seeds), device, lambda number, end: None)

    def one_by_one() -> None:
        for student in students():
            train(student.model, data, student.recipe, 0, device)

    names = PRECISIONS if device == "cuda" else PRECISIONS[:1]
    ways: dict[str, Callable[[], None]] = {"one by one": one_by_one}
    ways |= {f"together {name}": partial(together, name) for name in names}
    if count > 1:
        ways["mixed seeds"] = partial(together, names[-1], True)
    seconds = compare(ways, rounds=3)
    return {name: count * int(lengths.sum()) / seconds[name] / 1e6 for name in ways}
