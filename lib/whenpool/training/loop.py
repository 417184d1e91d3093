"""Training by the protocol of the thesis (§1.4.2): what is minimised, the loop, and how a model is
judged.

Letters: B texts, T words of the longest, C classes.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import (
    PADDING_INDEX,
    Batch,
    Splits,
    Texts,
    batches_for,
    training_batches,
)

EVALUATION_WORDS = 32_768  # Padded words of an evaluation batch on a processor
Accuracy = Callable[[nn.Module], float]  # Of a model on the validation texts, in %
Learnt = tuple[Tensor, Tensor]
"""The loss of a batch, averaged over its texts, and the logits (B, C)."""
State = dict[str, Any]
"""All that a training goes on from after an epoch, as if it had not been stopped."""


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
    # the measure of `end_epoch` that chooses the best epoch; else validation accuracy
    chosen_by = ""
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
def answers(
    model: nn.Module, texts: Texts, padding_index: int = PADDING_INDEX, words: int | None = None
) -> Iterator[tuple[Tensor, Batch, Tensor]]:
    """Of each batch, of so many padded ``words``, the numbers of its texts (B,), the batch, and the
    logits in evaluation mode."""
    was_training = model.training
    model.eval()
    words = words or evaluation_words(texts.labels.device)
    for indices in batches_for(model, texts.ids.lengths, words):
        batch = texts.batch(indices, padding_index)
        yield indices, batch, model(batch.ids, batch.lengths)
    model.train(was_training)


@torch.inference_mode()
def evaluate(model: nn.Module, texts: Texts, *how: int, weights: Tensor | None = None) -> Score:
    """Loss and accuracy over labelled texts, each of which counts as its weight (N,) says, by
    default 1; ``how`` as for `answers`."""
    # in float64, so that ties between epochs are ties
    sums = torch.zeros(2, dtype=torch.float64, device=texts.labels.device)
    for indices, batch, logits in answers(model, texts, *how):
        losses = functional.cross_entropy(logits, batch.labels, reduction="none")
        measured = torch.stack([losses, logits.argmax(1) == batch.labels]).double()  # (2, B)
        sums += (measured if weights is None else measured * weights[indices].to(sums)).sum(1)
    loss, right = sums.tolist()
    return Score(loss / len(texts), 100 * right / len(texts))


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
        return evaluate(model, texts, weights=self.judged)


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; the defaults are the thesis's."""

    epochs: int = 20
    batch_size: int = 32
    learning_rate: float = 2e-3  # Adam's
    weight_decay: float = 0.0  # Adam's, an l2 penalty
    passes: int = 1  # over the training texts in an epoch, which ends with a validation
    # whether the validation loss decides among equal epochs; else the first wins
    by_loss: bool = False
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

    def __reduce__(self) -> tuple[Any, ...]:  # from another process
        return type(self), (str(self), self.left)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy on the processor."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def adam(parameters: Iterable[Any], recipe: Recipe) -> torch.optim.Adam:
    return torch.optim.Adam(
        parameters, recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )


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
    # called after each epoch; the next step changes some tensors
    save: Callable[[State], None] | None = None


KEPT = ("best", "weights", "highest", "seconds")  # Of a training, in its `State`


class Progress:
    """How far the training of a `Student` has come: its epochs, its best weights, and what it goes
    on from when it was stopped. `train` and `whenpool.training.batched.train_together` say what
    happens when."""

    def __init__(
        self, student: Student, device: str, objective: Objective, optimizer: torch.optim.Optimizer
    ) -> None:
        model, dataset = student.model.to(device), student.dataset
        self.student, self.objective, self.optimizer = student, objective, optimizer
        self.device = torch.device(device)
        self.texts, self.validation = dataset.train.to(device), dataset.validation.to(device)
        objective.begin(model, self.texts)
        self.order = torch.Generator().manual_seed(student.seed)
        self.history: list[Epoch] = []
        self.best, self.weights, self.highest = 0, dict[str, Tensor](), -math.inf
        self.seconds, self._clock = 0.0, time.perf_counter()
        if student.saved:
            self._go_on_from(student.saved)

    @property
    def test(self) -> Texts:
        return self.student.dataset.test.to(self.device)

    @property
    def is_complete(self) -> bool:
        return len(self.history) >= self.student.recipe.epochs

    def pass_time(self, share: float = 1.0) -> None:
        """Count the time since the last call, or a share of it."""
        now = time.perf_counter()
        self.seconds += share * (now - self._clock)
        self._clock = now

    def start_epoch(self) -> list[Tensor]:
        """Get ready for the next epoch: the numbers of the texts of each of its batches."""
        recipe = self.student.recipe
        self.objective.start_epoch(len(self.history))
        self.student.model.train()
        self._seconds_before = self.seconds
        # read only after the epoch: no waiting in a step
        self._loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self._right = torch.zeros((), dtype=torch.float64, device=self.device)
        batches: list[Tensor] = []
        for _ in range(recipe.passes):
            batches += training_batches(self.texts.ids.lengths, recipe.batch_size, self.order)
        return batches

    def count(self, loss: Tensor, right: Tensor, texts: int) -> None:
        """Note how a step went: the mean loss of its texts, and how many answers were right."""
        self._loss += loss * texts
        self._right += right

    def end_epoch(self, score: Score, measures: dict[str, float]) -> None:
        """Note how the model does on the validation texts, keep its weights if they are the best,
        and save all. Raises `DivergenceError`."""
        student, model = self.student, self.student.model
        count = student.recipe.passes * len(self.texts.labels)
        train_loss, train_accuracy = self._loss.item() / count, 100 * self._right.item() / count
        seconds = self.seconds - self._seconds_before
        number = len(self.history) + 1
        losses = train_loss, train_accuracy, score.loss, score.accuracy
        self.history.append(Epoch(number, *losses, seconds, measures))
        for value in (train_loss, score.loss):
            if not math.isfinite(value):
                advice = "lower the learning rate or choose another seed"
                self.weights = weights_of(model)
                left = self.outcome(Score(math.nan, math.nan))
                raise DivergenceError(f"the loss became {value} in epoch {number}; {advice}", left)

        chosen_by = measures.get(self.objective.chosen_by, score.accuracy)
        value = chosen_by - 1e-6 * student.recipe.by_loss * score.loss
        if self.objective.eligible and value > self.highest:
            self.best, self.weights, self.highest = number - 1, weights_of(model), value
        if student.save:
            student.save(self._state())

    def take_best(self) -> None:
        """Give the model the weights of the best epoch, or of the last where the objective let
        none be chosen."""
        if not self.weights:
            self.best, self.weights = len(self.history) - 1, weights_of(self.student.model)
        self.student.model.load_state_dict(self.weights)

    def outcome(self, test: Score) -> Outcome:
        passes = self.student.recipe.passes * len(self.history)
        words = int(self.texts.ids.lengths.sum()) * passes
        return Outcome(self.history, self.best + 1, test, self.weights, self.seconds, words)

    def _state(self) -> State:
        on_gpu = self.device.type == "cuda"
        return {
            "model": self.student.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "order": self.order.get_state(),
            "random": torch.get_rng_state(),
            "random_on_gpu": torch.cuda.get_rng_state(self.device) if on_gpu else None,
            "history": [asdict(epoch) for epoch in self.history],
            **{name: getattr(self, name) for name in KEPT},
        }

    def _go_on_from(self, state: State) -> None:
        self.student.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.order.set_state(state["order"])
        torch.set_rng_state(state["random"])
        if state["random_on_gpu"] is not None:
            torch.cuda.set_rng_state(state["random_on_gpu"], self.device)
        self.history = [Epoch(**epoch) for epoch in state["history"]]
        for name in KEPT:
            setattr(self, name, state[name])


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
    optimizer = adam(parameters or model.parameters(), recipe)
    learning = [weights for group in optimizer.param_groups for weights in group["params"]]
    student = Student(model, dataset, recipe, seed, saved, save)
    progress = Progress(student, device, objective, optimizer)
    texts, validation = progress.texts, progress.validation
    seen = 0  # texts that were learnt from

    def look() -> None:
        if watch:
            progress.pass_time()
            watch(seen)
            progress.pass_time(share=0.0)

    look()
    while not progress.is_complete:
        for indices in progress.start_epoch():
            batch = texts.batch(indices, PADDING_INDEX)
            optimizer.zero_grad(set_to_none=True)
            loss, logits = objective.backward(model, batch, indices)
            clip(learning, recipe)
            optimizer.step()
            weight = batch.lengths.sum() / len(indices) if objective.per_word else 1
            right = (logits.argmax(-1) == batch.labels).sum()
            progress.count(loss * weight, right, len(indices))
            seen += len(indices)
            look()
        score = objective.evaluate(model, validation)
        measures = objective.end_epoch(model, lambda other: evaluate(other, validation).accuracy)
        progress.pass_time()
        progress.end_epoch(score, measures)
    progress.take_best()
    test = objective.evaluate(model, progress.test)
    progress.pass_time()
    return progress.outcome(test)
