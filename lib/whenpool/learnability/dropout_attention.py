"""Dropout attention (thesis §2.2.6)."""

from torch import Tensor
from torch.nn import functional

from whenpool.batches import Batch
from whenpool.learnability.last_attention import AttentionForm, LastAttentionObjective
from whenpool.models import TextClassifier


class DropoutAttention(LastAttentionObjective):
    """Cross-entropy of last-attention whose scores of states other than the last are dropped before
    the softmax, each with probability p = min(1, (epoch / 10)²).

    Args:
        epochs: of the whole training.
        power: η.
    """

    def __init__(self, epochs: int, power: float = 2.0) -> None:
        super().__init__(epochs, power)

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        if self.factor == 1:  # all is dropped: what is left is the model without attention
            return super().loss(model, batch, indices)
        logits = AttentionForm(model, drop=self.factor)(batch.ids, batch.lengths)
        return functional.cross_entropy(logits, batch.labels), logits
