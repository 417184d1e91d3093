"""Last-attention: a model without pooling, read by attention, and two tricks that wean it (§2.2.5,
§2.2.6).

Letters: B texts, T words of the longest, D units of a state (both directions together), C classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import LastAttention, LastState
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import Accuracy, Objective


def rising(epoch: int, epochs: int, power: float) -> float:
    """min(1, (epoch / m)^power), where m is half of the epochs (§2.2.5, §2.2.6); the higher the power η,
    the slower the beginning.

    Of the thesis's 20 epochs, counted from 0, the last ten are at 1.
    """
    return min(1.0, (epoch / (epochs // 2)) ** power) if epochs > 1 else 1.0


def falling(epoch: int, epochs: int) -> float:
    """max(0, 1 - epoch / m), where m is half of the epochs: "reduced with time" (§2.2.7)."""
    return max(0.0, 1 - epoch / max(1, epochs // 2))


class Attended(NamedTuple):
    """What attention made of a batch, with a column for each direction."""

    logits: Tensor  # (B, C)
    last: Tensor  # (B, 1 or 2), α_n, the attention on a direction's own last state
    others: Tensor  # (B, 1 or 2), Σ α_t over all other words


class AttentionForm(nn.Module):
    """The same model with `LastAttention` instead of its last states. Both share all weights.

    Args:
        model: a `TextClassifier` with pooling "last".
        drop: the probability p that the score of a state other than the last is dropped before
            the softmax (§2.2.6), drawn for each text, word and direction from torch's generator.

    Raises:
        InputError: for a model with another pooling.

    Examples:
        >>> model = whenpool.TextClassifier(50, 2, "last", embedding_size=8, hidden_size=16)
        >>> attended = AttentionForm(model).attend(torch.randint(50, (2, 9)), torch.tensor([9, 6]))
        >>> torch.allclose(attended.last + attended.others, torch.ones(2, 2))
        True
    """

    def __init__(self, model: TextClassifier, drop: float = 0.0) -> None:
        super().__init__()
        if not isinstance(model.pooling, LastState):
            raise InputError('the model has a pooling of its own; make it with pooling="last"')
        self.model, self.drop, self._masses = model, drop, list[Tensor]()
        self.attention = LastAttention(bidirectional=model.encoder.directions == 2)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T), (B,) -> logits (B, C)."""
        attended = self.attend(ids, lengths)
        self._masses.append(attended.others.mean(1))
        return attended.logits

    def attend(self, ids: Tensor, lengths: Tensor) -> Attended:
        """(B, T), (B,) -> logits, and the attention on last and other states."""
        states = self.model.encode(self.model.embed(ids), lengths)  # (B, T, D)
        mask = word_mask(lengths, ids.shape[1])
        place = torch.arange(ids.shape[1], device=lengths.device).expand_as(mask)
        ends = [place == lengths.unsqueeze(1) - 1, place == 0][: self.model.encoder.directions]
        kept = None
        if self.drop:
            drawn = (torch.rand(mask.shape, device=mask.device) for _ in ends)
            kept = [mask & (end | (d >= self.drop)) for end, d in zip(ends, drawn, strict=True)]
        weights = self.attention.direction_weights(states, mask, kept)
        both = list(zip(weights, ends, strict=True))
        last = torch.stack([(w * end).sum(1) for w, end in both], dim=1)
        others = torch.stack([(w * ~end).sum(1) for w, end in both], dim=1)
        return Attended(self.model.classifier(self.attention.embed(states, weights)), last, others)

    @property
    def mass_left(self) -> float:
        """The mean attention on other states, over all texts and directions that `forward` has read."""
        return torch.cat(self._masses).mean().item()


class LastAttentionObjective(Objective):
    """What penalty and dropout attention share: the model attends while it is trained. Raises `InputError`
    for epochs below 1."""

    power: float  # η of the curriculum

    def __init__(self, epochs: int) -> None:
        if epochs < 1:
            raise InputError(f"a training has at least one epoch, not {epochs}")
        self.epochs = epochs
        self.factor = 0.0

    def start_epoch(self, epoch: int) -> None:
        self.factor = rising(epoch, self.epochs, self.power)

    @property
    def eligible(self) -> bool:
        """From the epoch on in which the curriculum has come to its end."""
        return self.factor == 1

    def end_epoch(self, model: TextClassifier, accuracy: Accuracy) -> dict[str, float]:
        """The factor of this epoch, the validation accuracy with attention, and what attention is left
        on other states."""
        form = AttentionForm(model)
        found = {"factor": self.factor, "attention_accuracy": accuracy(form)}
        return found | {"mass_left": form.mass_left}


class DropoutAttention(LastAttentionObjective):
    """Cross-entropy of last-attention whose scores of states other than the last are dropped before
    the softmax, each with probability p = min(1, (epoch / 10)²); ``power`` is η, here 2.

    Examples:
        >>> objective = DropoutAttention(epochs=20)
        >>> objective.start_epoch(5)
        >>> objective.factor
        0.25
    """

    power = 2.0

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        if self.factor == 1:  # all is dropped: what is left is the model without attention
            return super().loss(model, batch, indices)
        logits = AttentionForm(model, drop=self.factor)(batch.ids, batch.lengths)
        return functional.cross_entropy(logits, batch.labels), logits


class PenaltyAttention(LastAttentionObjective):
    """ℓ = cross-entropy + λ Σ_{t<n} α_t / α_n, with λ = (epoch / 10)⁴, then 1; ``power`` is η, here 4.

    α is the attention of `whenpool.models.pooling.LastAttention`; of two directions the mean of the two
    penalties counts, and of a batch the mean over its texts.

    Examples:
        >>> objective = PenaltyAttention(epochs=20)
        >>> objective.start_epoch(5)
        >>> objective.factor
        0.0625
    """

    power = 4.0

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        logits, last, others = AttentionForm(model).attend(batch.ids, batch.lengths)
        penalty = (others / last).mean()  # last is the largest weight, so at least 1 / n
        return functional.cross_entropy(logits, batch.labels) + self.factor * penalty, logits
