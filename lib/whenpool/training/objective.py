"""What a training minimises, and how a model is judged.

Letters: B texts, T words of the longest, C classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.corpora.batches import PADDING_INDEX, Batch, Texts, batches_for

EVALUATION_WORDS = 32_768  # Padded words of an evaluation batch
Accuracy = Callable[[nn.Module], float]  # Of a model on the validation texts, in %
Learnt = tuple[Tensor, Tensor]  # The loss of a batch, averaged over its texts, and the logits (B, C)


@dataclass(frozen=True)
class Score:
    """Mean cross-entropy and accuracy, in %, over some texts."""

    loss: float
    accuracy: float


class Objective:
    """Cross-entropy of the model as it is: the thesis's (§1.4.2), and what others start from.

    A training calls `begin` once, `start_epoch` before each epoch, `backward` on each batch, and after the
    last one `evaluate` and `end_epoch`. Here the model is any that maps ids (B, T) and lengths (B,) to
    logits; what derives from this may ask for more.

    Attributes:
        per_word: whether the loss is averaged over words instead of texts.
        chosen_by: the measure of `end_epoch` whose highest value makes the best epoch; where there is
            none of this name it is the validation accuracy.
        eligible: whether the weights of this epoch may be chosen as the best.
    """

    per_word = False
    chosen_by = ""

    @property
    def eligible(self) -> bool:
        return True

    def begin(self, model: Any, texts: Texts) -> None:
        """Get ready to train a model on some texts; both are on the device."""

    def start_epoch(self, epoch: int) -> None:
        """Get ready for an epoch, counted from 0."""

    def backward(self, model: Any, batch: Batch, indices: Tensor) -> Learnt:
        """Add the gradients of a batch to those of the parameters; what is returned is detached.

        Args:
            indices: (B,), the numbers of its texts.
        """
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


@torch.inference_mode()
def evaluate(model: nn.Module, texts: Texts) -> Score:
    """Loss and accuracy over labelled texts, as many at once as `EVALUATION_WORDS` allow; a model whose
    ``masked`` is False gets 32, as the authors', since there padding matters."""
    was_training = model.training
    model.eval()
    loss = torch.zeros((), dtype=torch.float64, device=texts.labels.device)
    right = torch.zeros((), dtype=torch.int64, device=texts.labels.device)
    for indices in batches_for(model, texts.ids.lengths, EVALUATION_WORDS):
        batch = texts.batch(indices, PADDING_INDEX)
        logits = model(batch.ids, batch.lengths)  # (B, C)
        loss += functional.cross_entropy(logits, batch.labels, reduction="sum")
        right += (logits.argmax(1) == batch.labels).sum()
    model.train(was_training)
    return Score(loss.item() / len(texts), 100 * right.item() / len(texts))
