"""Learning from unlabelled texts: UDA (Xie et al. 2020) and MixText (Chen et al. 2020); thesis §1.10.

A text and its augmented version should be classified alike, whatever its label. UDA leaves out labelled
texts that are known well already, so that they are not learnt by heart; MixText mixes labelled,
unlabelled and augmented texts by TMix.

Letters: N texts, B labelled ones in a batch, U unlabelled ones, K augmented versions of each, T tokens
of the longest, C classes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import PADDING_INDEX, Batch, Ragged, Texts
from whenpool.fewshot.fine_tuning import FineTuned, MixDraws
from whenpool.training.loop import Accuracy, Objective


@dataclass(frozen=True)
class Unlabelled:
    """N texts and K ≥ 1 augmented versions of each, as numbers of tokens. Raises `InputError` where there are
    none, or one version has another number of texts.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> texts = Unlabelled(Ragged.of([[5, 6], [7]]), (Ragged.of([[6, 5], [8]]),))
        >>> [batch.ids.shape for batch in texts.batch(torch.arange(2), padding_index=0)]
        [torch.Size([2, 2]), torch.Size([2, 2])]
    """

    original: Ragged
    augmented: tuple[Ragged, ...]

    def __post_init__(self) -> None:
        texts, versions = len(self.original), [len(version) for version in self.augmented]
        if not texts:
            raise InputError("there are no unlabelled texts; give some, or choose a system without them")
        if set(versions) != {texts}:
            raise InputError(
                f"{texts:,} unlabelled texts have augmented versions of {versions} texts; give at least one "
                "version, with one text for each"
            )

    def batch(self, indices: Tensor, padding_index: int) -> list[Batch]:
        """The texts of these numbers (U,): the originals, then each of their K versions; all labels are 0."""
        no_labels = torch.zeros(1, dtype=torch.int64).expand(len(self.original))
        versions = (Texts(ids, no_labels) for ids in (self.original, *self.augmented))
        return [texts.batch(indices, padding_index) for texts in versions]


def rounds(texts: int, generator: torch.Generator) -> Iterator[int]:
    """Numbers of texts in random order, all of them before any comes again."""
    while True:
        yield from torch.randperm(texts, generator=generator).tolist()


def stack(batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """The ids of several batches as one, padded to the longest text of all, and their lengths."""
    longest = max(batch.ids.shape[1] for batch in batches)
    ids = (functional.pad(b.ids, (0, longest - b.ids.shape[1]), value=PADDING_INDEX) for b in batches)
    return torch.cat(list(ids)), torch.cat([batch.lengths for batch in batches])


@dataclass(eq=False)
class SemiSupervised(Objective):
    """Learns from labelled texts and, in each step, from the next few unlabelled ones; for its arguments
    see `UDA`."""

    unlabelled: Unlabelled
    classes: int
    steps: int
    seed: int
    batch_size: int = 8
    temperature: float = 1.0
    weight: float = 1.0
    measured: ClassVar[Sequence[str]]  # what each step notes; an epoch ends with their means

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "temperature"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise InputError(f"{name} is above 0, not {value}")
        self._generator = torch.Generator().manual_seed(self.seed)
        self._rounds = rounds(len(self.unlabelled.original), self._generator)
        self._step = 0
        self._found: list[tuple[Tensor, ...]] = []

    @property
    def progress(self) -> float:
        """Which part of the training is over, from 0 to 1."""
        return min(1.0, self._step / self.steps)

    def next_texts(self, device: torch.device) -> list[Batch]:
        """The next U texts: the originals, then each of their K versions."""
        drawn = torch.tensor(list(islice(self._rounds, self.batch_size)))
        batches = self.unlabelled.batch(drawn, PADDING_INDEX)
        return [Batch(*(part.to(device) for part in batch)) for batch in batches]

    def start_epoch(self, epoch: int) -> None:
        self._found = []

    def end_step(self, *found: Tensor) -> None:
        """Count a step and keep what was ``measured`` in it."""
        self._step += 1
        self._found.append(tuple(value.detach() for value in found))

    def end_epoch(self, model: Any, accuracy: Accuracy) -> dict[str, float]:
        """The means of what was ``measured`` in the steps of this epoch."""
        means = [torch.stack(values).mean().item() for values in zip(*self._found, strict=True)]
        return dict(zip(self.measured, means, strict=True)) if means else {}


@dataclass(eq=False)
class UDA(SemiSupervised):
    """Cross-entropy on labelled texts, annealed, and consistency on unlabelled ones.

    The released scripts for BERT-base use neither masking nor sharpening; the defaults of both are
    the paper's for CIFAR-10 (§2.4), which names none for texts. ``weight`` is the paper's, and
    the linear annealing the scripts'.

    Args:
        unlabelled: with K augmented versions, one of which is drawn for each batch.
        classes: how many there are, C.
        steps: T, batches of labelled texts in the whole training.
        seed: of the order of the unlabelled texts, and of what else is drawn.
        batch_size: unlabelled texts in a batch, U.
        temperature: τ of the prediction that is to be reached, below 1 to sharpen it.
        confidence: β; unlabelled texts with a lower largest probability teach nothing.
        weight: λ of the consistency.

    Raises:
        InputError: for a number out of range.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> texts = Unlabelled(Ragged.of([[5, 6], [7]]), (Ragged.of([[6, 5], [8]]),))
        >>> UDA(texts, classes=2, steps=10, seed=0).classes
        2
    """

    temperature: float = 0.4
    confidence: float = 0.8
    measured = "left_out", "confident", "consistency"
    """The share of labelled texts left out, that of unlabelled ones predicted with confidence, and the
    consistency loss before its weight."""

    @property
    def threshold(self) -> float:
        """η_t of the next step: labelled texts whose class is more probable are left out."""
        return self.progress * (1 - 1 / self.classes) + 1 / self.classes

    def loss(self, model: nn.Module, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        original, *augmented = self.next_texts(batch.ids.device)
        version = int(torch.randint(len(augmented), (), generator=self._generator))
        with torch.no_grad():  # with dropout, as in the released code
            goal = model(original.ids, original.lengths)  # (U, C)
        together = stack([batch, augmented[version]])
        labelled, noised = model(*together).split([len(batch.labels), self.batch_size])

        losses = functional.cross_entropy(labelled, batch.labels, reduction="none")  # (B,)
        kept = (-losses.detach()).exp() <= self.threshold  # the probability of the class itself
        supervised = (losses * kept).sum() / kept.sum().clamp(min=1)

        # KL(goal, sharpened ‖ prediction on the version) of each confident text, averaged over all (§2.4)
        confident = goal.softmax(1).amax(1) > self.confidence  # (U,)
        target = (goal / self.temperature).softmax(1)
        divergence = functional.kl_div(noised.log_softmax(1), target, reduction="none").sum(1)  # (U,)
        consistency = (divergence * confident).mean()
        self.end_step(1 - kept.float().mean(), confident.float().mean(), consistency)
        return supervised + self.weight * consistency, labelled


@dataclass(eq=False)
class MixText(SemiSupervised):
    """Cross-entropy on mixtures with labelled texts, KL on those with unlabelled ones, and a margin.

    1. An unlabelled text and its augmented versions share one guessed label: the mean of what the
       model predicts for them, sharpened. No gradient goes through it. The paper weights them by the
       quality of the translations; the released code reads the text alone.
    2. All texts of the step are mixed with each other by TMix, their labels likewise. A mixture
       counts to the kind of the text that is its larger part.
    3. Predictions on the unlabelled texts themselves, not mixed, should be confident:
       max(0, γ - ‖p‖²) is above 0 for a p that is too even. Squared norms run from 1 / C to 1.

    The losses on unlabelled texts grow in evenly over the training, as in the released code. Its own
    margin, max(0, H(p) - γ) with the entropy H, has weight 0 there; of two classes H is at most
    ln 2 < 0.7, so that it would always be 0.

    Args:
        unlabelled, classes, steps, seed: as for `UDA`; all versions are read in a step.
        batch_size: U, 8 in the paper, with 4 labelled ones (§5.3).
        temperature: T of the sharpening, 0.5 in the paper for Yahoo and 1, none, for IMDb (§5.3).
        alpha: of TMix; 16 in the command released for 10 labels per class.
        weight: of the KL.
        margin: γ; 0.7 is that of the released code, for its own margin.
        margin_weight: of the margin.

    Raises:
        InputError: for a number out of range.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> texts = Unlabelled(Ragged.of([[5, 6], [7]]), (Ragged.of([[6, 5], [8]]),))
        >>> MixText(texts, classes=2, steps=10, seed=0).weight
        1.0
    """

    temperature: float = 0.5
    alpha: float = 16.0
    margin: float = 0.7
    margin_weight: float = 1.0
    measured = "supervised", "consistency", "margin", "confidence"
    """The three losses before their weights, and the mean largest probability of the guessed labels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draws = MixDraws(self.seed, self.alpha)

    def loss(self, model: FineTuned, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        B, device = len(batch.labels), batch.ids.device
        texts = self.next_texts(device)
        with torch.set_grad_enabled(self.margin_weight > 0 and torch.is_grad_enabled()):
            plain = model(texts[0].ids, texts[0].lengths).softmax(1)  # (U, C)
        with torch.no_grad():  # the guess: the mean to the power of 1 / T, normalised again (§4)
            predictions = [plain, *(model(v.ids, v.lengths).softmax(1) for v in texts[1:])]
            mean = torch.stack(predictions).sum(0) / len(predictions)
            guessed = (mean.log() / self.temperature).softmax(1)  # (U, C)

        union = stack([batch, *texts])
        labels = functional.one_hot(batch.labels, self.classes).to(guessed.dtype)
        targets = torch.cat([labels, *[guessed] * len(texts)])
        mix = self._draws.draw(len(targets), model.encoder, device)
        logits = model.mixed(*union, mix.partner, mix.share, mix.layer)
        targets = mix.of(targets)

        supervised = functional.cross_entropy(logits[:B], targets[:B])
        divergence = functional.kl_div(logits[B:].log_softmax(1), targets[B:], reduction="batchmean")
        evenness = (self.margin - plain.square().sum(1)).clamp(min=0).mean()
        more = self.weight * divergence + self.margin_weight * evenness
        loss = supervised + self.progress * more
        self.end_step(supervised, divergence, evenness, guessed.amax(1).mean())
        return loss, logits[:B]
