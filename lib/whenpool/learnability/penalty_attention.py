"""Penalty attention (thesis §2.2.5, after Pruthi et al. 2020)."""

from torch import Tensor
from torch.nn import functional

from whenpool.corpora.batches import Batch
from whenpool.learnability.last_attention import AttentionForm, LastAttentionObjective
from whenpool.models.text_classifier import TextClassifier


class PenaltyAttention(LastAttentionObjective):
    """ℓ = cross-entropy + λ Σ_{t<n} α_t / α_n, with λ = (epoch / 10)⁴, then 1.

    α is the attention of `whenpool.models.pooling.LastAttention`; of two directions the mean of the two
    penalties counts, and of a batch the mean over its texts.

    Args:
        epochs: of the whole training.
        power: η.

    Examples:
        >>> from whenpool.corpora.batches import Batch
        >>> model = whenpool.TextClassifier(50, 2, "last", embedding_size=8, hidden_size=16)
        >>> batch = Batch(torch.randint(50, (2, 9)), torch.tensor([9, 6]), torch.tensor([0, 1]))
        >>> objective = PenaltyAttention(epochs=20)
        >>> objective.start_epoch(0)
        >>> objective.backward(model, batch, torch.arange(2))[1].shape  # logits
        torch.Size([2, 2])
    """

    def __init__(self, epochs: int, power: float = 4.0) -> None:
        super().__init__(epochs, power)

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        logits, last, others = AttentionForm(model).attend(batch.ids, batch.lengths)
        penalty = (others / last).mean()  # last is the largest weight, so at least 1 / n
        return functional.cross_entropy(logits, batch.labels) + self.factor * penalty, logits
