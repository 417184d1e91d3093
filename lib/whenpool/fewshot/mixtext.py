"""MixText: TMix over labelled, unlabelled and augmented texts (Chen et al. 2020, §4).

Letters: B labelled texts, U unlabelled ones, K augmented versions of each of those, C classes.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.fewshot.fine_tuning import FineTuned
from whenpool.fewshot.tmix import MixDraws
from whenpool.fewshot.unlabelled import Padded, SemiSupervised, Unlabelled, stack


class MixText(SemiSupervised):
    """Cross-entropy on mixtures with labelled texts, KL on those with unlabelled ones, and a margin.

    1. An unlabelled text and its augmented versions share one guessed label: the weighted mean of
       what the model predicts for them, sharpened. No gradient goes through it.
    2. All texts of the step are mixed with each other by TMix, their labels likewise. A mixture
       counts to the kind of the text that is its larger part.
    3. Predictions on the unlabelled texts themselves, not mixed, should be confident:
       max(0, γ - ‖p‖²) is above 0 for a p that is too even. Squared norms run from 1 / C to 1.

    The losses on unlabelled texts grow in evenly over the training, as in the released code. By
    default the margin there is another, max(0, H(p) - γ) with the entropy H, and its weight is 0; of two
    classes H is at most ln 2 < 0.7, so that it would never say anything.

    Args:
        unlabelled: U of these and all of their versions in a step.
        classes: C.
        steps: batches of labelled texts in the whole training.
        seed: of the order of the unlabelled texts, and of the mixing.
        batch_size: U, 8 in the paper, with 4 labelled ones (§5.3).
        temperature: T of the sharpening, 0.5 in the paper for Yahoo and 1, which sharpens nothing, for
            IMDb (§5.3).
        alpha: of TMix; 16 in the command released for 10 labels per class.
        weight: of the KL.
        margin: γ; 0.7 is that of the released code, for its own margin.
        margin_weight: of the margin.
        weights: of a text and of each of its K versions in the guess; default: all alike. The paper
            sets them by the quality of the translations; the released code guesses from the text
            alone: (1, 0, 0).

    Raises:
        InputError: for weights that do not fit, or a number out of range.

    Examples:
        >>> from whenpool.corpora.batches import Ragged
        >>> texts = Unlabelled(Ragged.of([[5, 6], [7]]), (Ragged.of([[6, 5], [8]]),))
        >>> MixText(texts, classes=2, steps=10, seed=0).weight
        1.0
    """

    measured = "supervised", "consistency", "margin", "confidence"
    """The three losses before their weights, and the mean largest probability of the guessed labels."""

    def __init__(
        self,
        unlabelled: Unlabelled,
        classes: int,
        steps: int,
        seed: int,
        batch_size: int = 8,
        temperature: float = 0.5,
        alpha: float = 16.0,
        weight: float = 1.0,
        margin: float = 0.7,
        margin_weight: float = 1.0,
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__(unlabelled, classes, steps, seed, batch_size, temperature, weight)
        if not 0 <= margin_weight < math.inf:
            raise InputError(f"margin_weight is at least 0, not {margin_weight}")
        versions = 1 + len(unlabelled.augmented)
        self.weights = tuple(weights) if weights is not None else (1.0,) * versions
        fit = len(self.weights) == versions and min(self.weights) >= 0
        if not (fit and 0 < sum(self.weights) < math.inf):
            raise InputError(
                f"weights are {versions} numbers from 0, not all 0: of a text and of each augmented "
                f"version; not {self.weights}"
            )
        self.margin, self.margin_weight = margin, margin_weight
        self._draws = MixDraws(seed, alpha)

    def loss(self, model: FineTuned, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        B, device = len(batch.labels), batch.ids.device
        texts = self.next_texts(device)
        with torch.set_grad_enabled(self.margin_weight > 0 and torch.is_grad_enabled()):
            plain = model(*texts[0]).softmax(1)  # (U, C)
        with torch.no_grad():
            predictions = [plain, *(model(*version).softmax(1) for version in texts[1:])]
            guessed = guess(predictions, self.weights, self.temperature)  # (U, C)

        union = stack([Padded(batch.ids, batch.lengths), *texts], PADDING_INDEX)
        labels = functional.one_hot(batch.labels, self.classes).to(guessed.dtype)
        targets = torch.cat([labels, *[guessed] * len(texts)])
        mix = self._draws.draw(len(targets), model.layers, device)
        logits = model.mixed(*union, mix.partner, mix.share, mix.layer)
        targets = mix.of(targets)

        supervised = functional.cross_entropy(logits[:B], targets[:B])
        divergence = functional.kl_div(logits[B:].log_softmax(1), targets[B:], reduction="batchmean")
        evenness = (self.margin - plain.square().sum(1)).clamp(min=0).mean()
        more = self.weight * divergence + self.margin_weight * evenness
        loss = supervised + self.progress * more
        self.end_step(supervised, divergence, evenness, guessed.amax(1).mean())
        return loss, logits[:B]


def guess(predictions: Sequence[Tensor], weights: Sequence[float], temperature: float) -> Tensor:
    """Labels for unlabelled texts (Chen et al. 2020, §4).

    Args:
        predictions: 1 + K of (U, C), probabilities for the texts and for each of their versions.
        weights: of each.
        temperature: T; the mean is raised to the power of 1 / T and normalised again.

    Returns:
        (U, C).
    """
    weighted = [weight * p for weight, p in zip(weights, predictions, strict=True)]
    mean = torch.stack(weighted).sum(0) / sum(weights)
    return (mean.log() / temperature).softmax(1)
