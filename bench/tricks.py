"""A training step of each trick against a plain one, and how far estimated gradients are off.

A step is what the training loop does: gradients of a batch, then Adam. Teacher forcing has the
teacher's embeddings from before; what they take once is told as a share of an epoch. The error of
gradient-directed training is that of the gradient of ℓ₂, of all parameters together, against the
exact one in float64.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from bench.timing import compare
from paper.tricks import (
    DIVERGENCES,
    DropoutAttention,
    GradientDirected,
    PenaltyAttention,
    TeacherForcing,
    estimated_backward,
    exact_backward,
    sentence_embeddings,
)
from whenpool import TextClassifier
from whenpool.corpora.batches import PADDING_INDEX, Ragged, Texts
from whenpool.training.loop import Objective

B, T, E, CLASSES, WORDS = 32, 240, 100, 2, 5_000
LONG = 740
"""Words of a review with two thirds of filler, of the thesis's size."""
EPOCHS = 20
STEPS = (1e-1, 1e-2, 1e-3, 1e-4)
"""How far the word that is moved most is moved, see `estimated_backward`."""
FEW, TRAINED = 4, 20
"""Texts for the errors, and training steps on them."""


def main() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker has
    print(f"A step of a BiLSTM without pooling, B={B}, T={T}, E={E}, one thread; relative to plain")
    for H, rounds in ((256, 3), (64, 5)):
        times = measure(H, rounds)
        plain = times.pop("plain")
        print(f"H={H}: plain {plain:.3f} s")
        for name, seconds in times.items():
            print(f"{name:>40}{seconds / plain:8.2f}")
        share = embedding_share(H, rounds, plain)
        print(f"{'embeddings of the teacher, of an epoch':>40}{share:8.2f}")
    print(f"\nRelative error of the gradient of ℓ₂, {FEW} texts, by step")
    heads = ("exact, float32", *(f"{step:g}" for step in STEPS))
    print(f"{'':>40}" + "".join(f"{head:>16}" for head in heads))
    for H, words in ((256, T), (64, T), (64, LONG)):
        for divergence in DIVERGENCES:
            for when, found in errors(H, divergence, words).items():
                head = f"{divergence}, H={H}, {words} words, {when}"
                print(f"{head:>40}" + "".join(f"{error:16.1e}" for error in found))
    torch.set_num_threads(threads)


def measure(H: int, rounds: int) -> dict[str, float]:
    texts = some_texts(B)
    objectives = {
        "plain": Objective(),
        "penalty attention": PenaltyAttention(EPOCHS),
        "dropout attention": DropoutAttention(EPOCHS),
        "teacher forcing": TeacherForcing(classifier(H, "max")),
        "gradient-directed, by differences": GradientDirected(EPOCHS),
        "gradient-directed, exact": GradientDirected(EPOCHS, divergence="reverse"),
    }
    steps = {}
    for name, objective in objectives.items():
        model = classifier(H)
        objective.begin(model, texts)
        objective.start_epoch(EPOCHS // 4)  # all factors are between 0 and 1
        steps[name] = stepper(model, objective, texts)
    return compare(steps, rounds)


def embedding_share(H: int, rounds: int, plain: float) -> float:
    """What the teacher's embeddings of a training set take, of a plain epoch."""
    batches = 8
    teacher, texts = classifier(H, "max"), some_texts(batches * B)
    return (
        compare({"all": lambda: sentence_embeddings(teacher, texts)}, rounds)["all"]
        / batches
        / plain
    )


def errors(H: int, divergence: str, words: int) -> dict[str, list[float]]:
    """Of the exact gradients in float32, then of the estimates by step; before training and
    after."""
    model, texts = classifier(H), some_texts(FEW, words)
    found = {"at the start": errors_of(model, texts, divergence)}
    step = stepper(model, GradientDirected(EPOCHS, divergence=divergence), texts)
    for _ in range(TRAINED):
        step()
    return found | {f"after {TRAINED} steps": errors_of(model, texts, divergence)}


def errors_of(model: TextClassifier, texts: Texts, divergence: str) -> list[float]:
    batch = texts.batch(torch.arange(len(texts)), PADDING_INDEX)
    double = copy.deepcopy(model).double()

    def gradient(model: TextClassifier, way: Callable[..., object], **options: float) -> Tensor:
        """Of ℓ₂ alone: that of ℓ₁ is the same in both ways and exact."""
        parts = []
        for factor in (1.0, 0.0):
            model.zero_grad()
            way(model, batch, factor, divergence, **options)
            parts.append(torch.cat([p.grad.double().flatten() for p in model.parameters()]))
        return parts[0] - parts[1]

    exact = gradient(double, exact_backward)
    ours = [gradient(model, exact_backward)]
    ours += [gradient(model, estimated_backward, step=step) for step in STEPS]
    return [((mine - exact).norm() / exact.norm()).item() for mine in ours]


def classifier(H: int, pooling: str = "last") -> TextClassifier:
    torch.manual_seed(0)
    return TextClassifier(
        WORDS, CLASSES, pooling, embedding_size=E, hidden_size=H, padding_index=PADDING_INDEX
    )


def some_texts(count: int, words: int = T) -> Texts:
    """Of three quarters of that many words and more."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(words * 3 // 4, words + 1, (count,), generator=generator)
    rows = [torch.randint(2, WORDS, (n,), generator=generator).tolist() for n in lengths.tolist()]
    return Texts(Ragged.of(rows), torch.randint(0, CLASSES, (count,), generator=generator))


def stepper(model: TextClassifier, objective: Objective, texts: Texts) -> Callable[[], None]:
    """A training step on some texts."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    indices = torch.arange(len(texts))
    batch = texts.batch(indices, PADDING_INDEX)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        objective.backward(model, batch, indices)
        optimizer.step()

    return step
