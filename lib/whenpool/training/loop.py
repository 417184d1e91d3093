"""Training by the protocol of the thesis (§1.4.2): what is minimised, the loop, and how a model is
judged.

Letters: B texts, T words of the longest, C classes.
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora import batches
from whenpool.corpora.batches import PADDING_INDEX, Batch, Splits, Texts

EVALUATION_WORDS = 32_768  # Padded words of an evaluation batch on a processor
Accuracy = Callable[[nn.Module], float]  # Of a model on the validation texts, in %
Learnt = tuple[
    Tensor, Tensor
]  # The loss of a batch, averaged over its texts, and the logits (B, C)
State = dict[
    str, Any
]  # All that a training goes on from after an epoch, as if it had not been stopped


@dataclass(frozen=True)
class Score:
    """Mean cross-entropy and accuracy, in %, over some texts."""

    loss: float
    accuracy: float


class Objective:
    """Cross-entropy of the model as it is: the thesis's (§1.4.2), and what others start from. A
    training calls `begin` once, `start_epoch` before each epoch, `backward` on each batch, and
    after the last one `evaluate` and `end_epoch`. The model maps ids (B, T) and lengths (B,) to
    logits."""

    per_word = False  # whether the loss is averaged over words instead of texts
    chosen_by = (
        ""  # the measure of `end_epoch` that chooses the best epoch; else validation accuracy
    )
    eligible = True  # whether the weights of this epoch may be chosen as the best

    def begin(self, model: Any, texts: Texts) -> None:
        """Get ready to train a model on some texts; both are on the device."""

    def start_epoch(self, epoch: int) -> None:
        """Get ready for an epoch, counted from 0."""

    def backward(self, model: Any, batch: Batch, indices: Tensor) -> Learnt:
        """Add a batch's gradients to those of the parameters; ``indices`` (B,) number its texts."""
        loss, logits = self.loss(model, batch, indices)
        loss.backward()
        return loss.detach(), logits.detach()

    def loss(self, model: Any, batch: Batch, indices: Tensor) -> Learnt:
        """The loss of a batch, averaged over its texts, and the logits (B, C)."""
        logits = model(batch.ids, batch.lengths)
        return functional.cross_entropy(logits, batch.labels), logits

    def evaluate(self, model: Any, texts: Texts) -> Score:
        """How the model does on validation or test texts, as it will be used."""
        return evaluate(model, texts)

    def end_epoch(self, model: Any, accuracy: Accuracy) -> dict[str, float]:
        """What was measured in this epoch besides, by name."""
        return {}


def evaluation_words(device: torch.device) -> int:
    """Padded words of an evaluation batch: a GPU is only busy with many, of some 20 KB each."""
    if device.type != "cuda":
        return EVALUATION_WORDS
    return max(EVALUATION_WORDS, min(2**20, torch.cuda.mem_get_info(device)[0] // 20_000))


@torch.inference_mode()
def answers(model: nn.Module, texts: Texts) -> Iterator[tuple[Tensor, Batch, Tensor]]:
    """Of each batch the numbers of its texts (B,), the batch, and the logits in evaluation mode."""
    was_training = model.training
    model.eval()
    for indices in batches.batches_for(
        model, texts.ids.lengths, evaluation_words(texts.labels.device)
    ):
        batch = texts.batch(indices, PADDING_INDEX)
        yield indices, batch, model(batch.ids, batch.lengths)
    model.train(was_training)


@torch.inference_mode()
def evaluate(model: nn.Module, texts: Texts) -> Score:
    """Loss and accuracy over labelled texts."""
    loss = torch.zeros((), dtype=torch.float64, device=texts.labels.device)
    right = torch.zeros((), dtype=torch.int64, device=texts.labels.device)
    for _, batch, logits in answers(model, texts):
        loss += functional.cross_entropy(logits, batch.labels, reduction="sum")
        right += (logits.argmax(1) == batch.labels).sum()
    return Score(loss.item() / len(texts), 100 * right.item() / len(texts))


class Weighted(Objective):
    """Cross-entropy in which each text counts as its weight says: as often as a whole number of
    equal texts. What a training minimises is the mean over all texts by weight, so the scale of the
    weights has no effect.

    Args:
        learnt, judged: (N,) positive numbers, of the texts to learn from and of those that judge
        the model.
    """

    def __init__(self, learnt: Tensor, judged: Tensor) -> None:
        self.learnt, self.judged = learnt / learnt.mean(), judged / judged.mean()

    def loss(self, model: Any, batch: Batch, indices: Tensor) -> Learnt:
        logits = model(batch.ids, batch.lengths)
        losses = functional.cross_entropy(logits, batch.labels, reduction="none")  # (B,)
        return (self.learnt[indices].to(losses) * losses).mean(), logits

    def evaluate(self, model: Any, texts: Texts) -> Score:
        sums = torch.zeros(
            2, dtype=torch.float64
        )  # not rounded more than ties between epochs can bear
        for indices, batch, logits in answers(model, texts):
            losses = functional.cross_entropy(logits, batch.labels, reduction="none")
            measured = (
                torch.stack([losses, logits.argmax(1) == batch.labels]).double().cpu()
            )  # (2, B)
            sums += measured @ self.judged[indices].double()
        loss, right = (sums / len(texts)).tolist()
        return Score(loss, 100 * right)


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; the defaults are the thesis's."""

    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 2e-3  # Adam's
    weight_decay: float = 0.0  # Adam's, an l2 penalty
    passes: int = 1  # over the training texts in an epoch, which ends with a validation
    by_loss: bool = (
        False  # whether the validation loss decides among equal epochs; else the first wins
    )
    clip: float | None = None  # the largest norm of the gradient of all parameters; None: any


@dataclass(frozen=True)
class Epoch:
    """Up to a validation; accuracies in %. Training figures are those of the batches before each
    step."""

    epoch: int  # from 1
    train_loss: float  # what was minimised
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    seconds: float
    more: dict[str, float] = field(default_factory=dict)  # see `Objective.end_epoch`


@dataclass(frozen=True)
class Outcome:
    """A finished training; its best epoch is the first with the highest validation accuracy."""

    history: list[Epoch]
    best_epoch: int  # from 1
    test: Score  # of its weights
    weights: dict[str, Tensor]
    seconds: float  # all together, what ``watch`` took not counted
    words: int  # read in training, padding not counted

    @property
    def validation_accuracy(self) -> float:
        return self.history[self.best_epoch - 1].validation_accuracy

    def history_rows(self) -> list[dict[str, float]]:
        return [row | row.pop("more") for row in map(asdict, self.history)]


class DivergenceError(InputError):
    """The loss is no longer a finite number; ``left`` is the training up to there: its epochs, the
    diverged one included, and the last weights, which are not tested."""

    def __init__(self, message: str, left: Outcome) -> None:
        super().__init__(message)
        self.left = left


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy on the processor."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def clip(parameters: Iterable[Tensor], recipe: Recipe) -> None:
    """Scale the gradient of some parameters down to the largest norm of a recipe."""
    if recipe.clip is not None:
        nn.utils.clip_grad_norm_(parameters, recipe.clip)


@dataclass(frozen=True, eq=False)
class Student:
    """A model to train, and on what; ``saved``, what ``save`` was given, is where it goes on
    from."""

    model: Any  # maps ids (B, T) and lengths (B,) to logits (B, C)
    dataset: Splits
    recipe: Recipe
    seed: int  # of the order of batches; DropConnect draws from torch's global generator
    saved: State | None = None
    save: Callable[[State], None] | None = (
        None  # after each epoch; the next step changes some tensors
    )


def train(
    model: nn.Module,
    dataset: Splits,
    recipe: Recipe,
    seed: int,
    device: str = "cpu",
    watch: Callable[[int], None] | None = None,
    objective: Objective | None = None,
    parameters: Iterable[dict[str, Any]] | None = None,
    saved: State | None = None,
    save: Callable[[State], None] | None = None,
) -> Outcome:
    """Train a `Student` on a device, keep the weights of the best validation epoch, and test those.
    Raises `DivergenceError` when the loss becomes infinite or not a number. ``watch`` is called
    before the first step and after each one with the number of texts learnt from so far, and leaves
    the model as it was; ``parameters`` are groups for the optimiser, by default all of the
    model's."""
    objective = objective or Objective()
    student = Student(model, dataset, recipe, seed, saved, save)
    how: dict[str, Any] = {"weight_decay": recipe.weight_decay, "fused": True}
    optimizer = torch.optim.Adam(parameters or model.parameters(), recipe.learning_rate, **how)
    seen, looked = 0, 0.0  # texts learnt from, and the seconds of ``watch``
    steps = training_steps(
        student, device, objective, optimizer, lambda: time.perf_counter() - looked
    )

    def look() -> None:
        nonlocal looked
        before = time.perf_counter()
        if watch:
            watch(seen)
        looked += time.perf_counter() - before

    answer: Any = None
    try:
        while True:
            question = steps.send(answer)
            if isinstance(question, Texts):
                answer = objective.evaluate(model, question)
                continue
            texts, indices = question
            if not seen:
                look()
            batch = texts.batch(indices, PADDING_INDEX)
            optimizer.zero_grad(set_to_none=True)
            loss, logits = objective.backward(model, batch, indices)
            clip((p for group in optimizer.param_groups for p in group["params"]), recipe)
            optimizer.step()
            seen += len(indices)
            look()
            weight = batch.lengths.sum() / len(indices) if objective.per_word else 1
            answer = loss * weight, (logits.argmax(-1) == batch.labels).sum()
    except StopIteration as end:
        return end.value


def training_steps(
    student: Student,
    device: str,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    clock: Callable[[], float],
) -> Generator[tuple[Texts, Tensor] | Texts, Any, Outcome]:
    """As `train`, but the caller takes the steps and evaluates, so that it can do so for several
    models at once: yields the texts and the numbers (B,) of those in each batch, and is sent the
    loss, averaged over texts, and how many were right, once the optimiser has taken its step;
    yields validation and test texts, and is sent their `Score`; returns the outcome. Differences of
    ``clock`` are the seconds that this training takes."""
    started = clock()
    model, dataset, recipe = student.model, student.dataset, student.recipe
    on_gpu = torch.device(device).type == "cuda"
    model.to(device)
    texts, validation = dataset.train.to(device), dataset.validation.to(device)
    objective.begin(model, texts)
    order = torch.Generator().manual_seed(student.seed)
    history: list[Epoch] = []
    best, weights, highest = 0, dict[str, Tensor](), -math.inf
    if student.saved:
        state = student.saved
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        order.set_state(state["order"])
        torch.set_rng_state(state["random"])
        if on_gpu:
            torch.cuda.set_rng_state(state["random_on_gpu"], device)
        best, weights, highest = state["best"], state["weights"], state["highest"]
        started -= state["seconds"]
        history = [Epoch(**epoch) for epoch in state["history"]]

    def outcome(test: Score, weights: dict[str, Tensor]) -> Outcome:
        words = int(texts.ids.lengths.sum()) * recipe.passes * len(history)
        return Outcome(history, best + 1, test, weights, clock() - started, words)

    for number in range(len(history) + 1, recipe.epochs + 1):
        epoch_started = clock()
        objective.start_epoch(number - 1)
        model.train()
        loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        right = torch.zeros((), dtype=torch.float64, device=device)
        for _ in range(recipe.passes):
            for indices in batches.training_batches(texts.ids.lengths, recipe.batch_size, order):
                loss, hits = yield texts, indices
                # read only after the epoch: no waiting in a step
                loss_sum += loss * len(indices)
                right += hits
        count = recipe.passes * len(texts.labels)
        train_loss, train_accuracy = loss_sum.item() / count, 100 * right.item() / count

        score = yield validation
        more = objective.end_epoch(model, lambda other: evaluate(other, validation).accuracy)
        measured = train_loss, train_accuracy, score.loss, score.accuracy
        history.append(Epoch(number, *measured, clock() - epoch_started, more))
        for value in (train_loss, score.loss):
            if not math.isfinite(value):
                advice = "lower the learning rate or choose another seed"
                left = outcome(Score(math.nan, math.nan), weights_of(model))
                raise DivergenceError(f"the loss became {value} in epoch {number}; {advice}", left)

        value = more.get(objective.chosen_by, score.accuracy) - 1e-6 * recipe.by_loss * score.loss
        if objective.eligible and value > highest:
            best, weights, highest = number - 1, weights_of(model), value
        if student.save:
            student.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "order": order.get_state(),
                    "random": torch.get_rng_state(),
                    "random_on_gpu": torch.cuda.get_rng_state(device) if on_gpu else None,
                    "best": best,
                    "weights": weights,
                    "highest": highest,
                    "seconds": clock() - started,
                    "history": [asdict(epoch) for epoch in history],
                }
            )
    if not weights:  # the objective let no epoch be chosen
        best, weights = recipe.epochs - 1, weights_of(model)
    model.load_state_dict(weights)
    return outcome((yield dataset.test.to(device)), weights)
