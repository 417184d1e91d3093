"""Dropout attention (thesis §2.2.6)."""

from torch import Tensor
from torch.nn import functional

from whenpool.corpora.batches import Batch
from whenpool.learnability.last_attention import AttentionForm, LastAttentionObjective
from whenpool.models.text_classifier import TextClassifier


class DropoutAttention(LastAttentionObjective):
    """Cross-entropy of last-attention whose scores of states other than the last are dropped before
    the softmax, each with probability p = min(1, (epoch / 10)²).

    Args:
        epochs: of the whole training.
        power: η.

    Examples:
        >>> from whenpool.corpora.batches import Batch
        >>> model = whenpool.TextClassifier(50, 2, "last", embedding_size=8, hidden_size=16)
        >>> batch = Batch(torch.randint(50, (2, 9)), torch.tensor([9, 6]), torch.tensor([0, 1]))
        >>> objective = DropoutAttention(epochs=20)
        >>> objective.start_epoch(0)
        >>> objective.backward(model, batch, torch.arange(2))[1].shape  # logits
        torch.Size([2, 2])
    """

    def __init__(self, epochs: int, power: float = 2.0) -> None:
        super().__init__(epochs, power)

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        if self.factor == 1:  # all is dropped: what is left is the model without attention
            return super().loss(model, batch, indices)
        logits = AttentionForm(model, drop=self.factor)(batch.ids, batch.lengths)
        return functional.cross_entropy(logits, batch.labels), logits
