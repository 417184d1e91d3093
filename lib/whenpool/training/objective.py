"""What a training minimises.

Letters: B texts, T words of the longest, C classes.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from whenpool.corpora.batches import Batch, Texts

Accuracy = Callable[[nn.Module], float]
"""Of a model on the validation texts, in %."""


class Objective:
    """Cross-entropy of the model as it is: the thesis's (§1.4.2), and what others start from.

    A training calls `begin` once, `start_epoch` before each epoch, `backward` on each batch, and
    `end_epoch` after the last. Here the model is any that maps ids (B, T) and lengths (B,) to logits;
    what derives from this may ask for more.
    """

    def begin(self, model: Any, texts: Texts) -> None:
        """Get ready to train a model on some texts; both are on the device."""

    def start_epoch(self, epoch: int) -> None:
        """Get ready for an epoch, counted from 0."""

    def backward(self, model: Any, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Add the gradients of a batch to those of the parameters.

        Args:
            indices: (B,), the numbers of its texts.

        Returns:
            The loss, averaged over the texts, and the logits (B, C), both detached.
        """
        loss, logits = self.loss(model, batch, indices)
        loss.backward()
        return loss.detach(), logits.detach()

    def loss(self, model: Any, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a batch, averaged over its texts, and the logits (B, C)."""
        logits = model(batch.ids, batch.lengths)
        return functional.cross_entropy(logits, batch.labels), logits

    @property
    def eligible(self) -> bool:
        """Whether the weights of this epoch may be chosen as the best."""
        return True

    def end_epoch(self, model: Any, accuracy: Accuracy) -> dict[str, float]:
        """What was measured in this epoch besides, by name."""
        return {}
