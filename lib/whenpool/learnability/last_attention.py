"""A model without pooling, read by last-attention (thesis §2.2.5, Figure 2.1).

Letters: B texts, T words of the longest, D units of a state (both directions together), C classes.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whenpool.base.errors import InputError
from whenpool.learnability.curriculum import check_epochs, rising
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import LastAttention, LastState
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.objective import Accuracy, Objective


class Attended(NamedTuple):
    """What attention made of a batch; the masses have a column for each direction.

    Attributes:
        logits: (B, C).
        last: (B, 1 or 2), α_n, the attention on a direction's own last state.
        others: (B, 1 or 2), Σ α_t over all other words.
    """

    logits: Tensor
    last: Tensor
    others: Tensor


class AttentionForm(nn.Module):
    """The same model with `LastAttention` where it has its last states; it shares all weights.

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
        self.model, self.drop = model, drop
        self.attention = LastAttention(bidirectional=model.encoder.directions == 2)
        self._masses: list[Tensor] = []

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T), (B,) -> logits (B, C)."""
        attended = self.attend(ids, lengths)
        self._masses.append(attended.others.mean(1))
        return attended.logits

    def attend(self, ids: Tensor, lengths: Tensor) -> Attended:
        """(B, T), (B,) -> logits and masses."""
        states = self.model.encode(self.model.embed(ids), lengths)  # (B, T, D)
        mask = word_mask(lengths, ids.shape[1])
        ends = self._ends(lengths, ids.shape[1])
        kept = [mask & (end | self._spared(end)) for end in ends] if self.drop else None
        weights = self.attention.direction_weights(states, mask, kept)
        last = torch.stack([(w * end).sum(1) for w, end in zip(weights, ends, strict=True)], dim=1)
        others = torch.stack([(w * ~end).sum(1) for w, end in zip(weights, ends, strict=True)], dim=1)
        return Attended(self.model.classifier(self.attention.embed(states, weights)), last, others)

    @property
    def mass_left(self) -> float:
        """The mean attention on states other than the last, over all texts and directions that
        `forward` has read."""
        return torch.cat(self._masses).mean().item()

    def _ends(self, lengths: Tensor, longest: int) -> list[Tensor]:
        """Where each direction has its last state, (B, T) each."""
        places = torch.arange(longest, device=lengths.device).expand(len(lengths), -1)
        return [places == lengths.unsqueeze(1) - 1, places == 0][: self.model.encoder.directions]

    def _spared(self, like: Tensor) -> Tensor:
        return torch.rand(like.shape, device=like.device) >= self.drop


class LastAttentionObjective(Objective):
    """What penalty and dropout attention share: the model attends while it is trained, and what it
    would be worth with its attention is told beside what it is worth without.

    Args:
        epochs: of the whole training.
        power: η of the curriculum.

    Raises:
        InputError: for epochs below 1, or a power that is not above 0.
    """

    def __init__(self, epochs: int, power: float) -> None:
        check_epochs(epochs)
        if not 0 < power < math.inf:
            raise InputError(f"power is η of the curriculum, above 0, not {power}")
        self.epochs, self.power = epochs, power
        self.factor = 0.0

    def start_epoch(self, epoch: int) -> None:
        self.factor = rising(epoch, self.epochs, self.power)

    @property
    def eligible(self) -> bool:
        """From the epoch on in which the curriculum has come to its end."""
        return self.factor == 1

    def end_epoch(self, model: TextClassifier, accuracy: Accuracy) -> dict[str, float]:
        """The factor of this epoch, the validation accuracy with attention, nothing dropped, and the
        attention that is left on other states."""
        form = AttentionForm(model)
        with_attention = accuracy(form)
        return {
            "factor": self.factor,
            "attention_accuracy": with_attention,
            "mass_left": form.mass_left,
        }
