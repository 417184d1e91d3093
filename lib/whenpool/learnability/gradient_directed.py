"""Gradient-directed gradients (thesis §2.2.7).

ℓ = ℓ₁ + λ ℓ₂: ℓ₁ is the cross-entropy, and ℓ₂ says how unevenly its gradient is spread over the
words. Learning from ℓ₂ takes second derivatives through the recurrence, in one of two ways:

- *exact*: automatic differentiation of the gradient itself, without fused kernels, which cannot be
  differentiated twice on every device.
- *differences*: with g = ∂ℓ₁/∂x and v = ∂ℓ₂/∂g, held fixed, the order of derivatives may be
  changed: ∂ℓ₂/∂θ = ∂/∂θ (v·g) = d/dε ∂ℓ₁/∂θ (x + εv). A central difference over ε needs two plain
  gradients, which any fused kernel gives. It is off by O(ε²) and by rounding (bench/README.md). With
  ``reverse`` v is largest at the words that matter least, where rounding drowns the difference.

Letters: B texts, T words of the longest, E units of an embedding, C classes, n words of one text.
"""

import math
import warnings

import torch
from torch import Tensor
from torch.nn.functional import softplus

from whenpool.base.errors import InputError, check_known
from whenpool.corpora.batches import Batch
from whenpool.learnability.last_attention import falling
from whenpool.models.encoder import word_mask
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import Accuracy, Objective

STEP = 1e-3
"""How far the word that is moved most is moved, in units of its embedding: see bench/README.md."""
LEAST = 1e-12  # Below this, shares and lengths count as zero: no logarithm or division of less
UNDERFLOW = 1e-30  # The smallest probability of error by which gradients are divided
DIVERGENCES = ("forward", "reverse")


class GradientDirected(Objective):
    """ℓ = ℓ₁ + λ KL between the norms of ∂ℓ₁/∂x over the words, which sum to 1, and the uniform
    distribution; λ = strength (1 - epoch / 10), then 0.

    Args:
        epochs: of the whole training.
        strength: λ of the first epoch.
        divergence: "forward", KL(norms ‖ uniform), or "reverse", KL(uniform ‖ norms).
        exact: differentiate twice instead of taking differences; with "reverse" always.

    Raises:
        InputError: for an unknown divergence, a strength below 0, or epochs below 1.

    Examples:
        >>> objective = GradientDirected(epochs=20)
        >>> objective.start_epoch(5)
        >>> objective.factor
        0.15
    """

    def __init__(
        self, epochs: int, strength: float = 0.3, divergence: str = "forward", exact: bool = False
    ) -> None:
        check_known("divergence", divergence, DIVERGENCES)
        if epochs < 1:
            raise InputError(f"a training has at least one epoch, not {epochs}")
        if not 0 <= strength < math.inf:
            raise InputError(f"strength is λ of the first epoch, at least 0, not {strength}")
        self.epochs, self.strength, self.divergence = epochs, strength, divergence
        self.exact = exact or divergence == "reverse"
        self.factor = strength
        self._found: list[Tensor] = []

    def start_epoch(self, epoch: int) -> None:
        self.factor = self.strength * falling(epoch, self.epochs)
        self._found = []

    def backward(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        if not self.factor:
            return super().backward(model, batch, indices)
        way = exact_backward if self.exact else estimated_backward
        loss, unevenness, logits = way(model, batch, self.factor, self.divergence)
        self._found.append(unevenness.mean())
        return loss + self.factor * unevenness.mean(), logits

    def end_epoch(self, model: TextClassifier, accuracy: Accuracy) -> dict[str, float]:
        """λ of this epoch, and the mean divergence where it was looked at."""
        found = {"divergence": torch.stack(self._found).mean().item()} if self._found else {}
        return {"factor": self.factor, **found}


def unevenness(gradients: Tensor, lengths: Tensor, divergence: str) -> Tensor:
    """KL, (B,) in nats, between the norms of gradients (B, T, E) over the words of a text, which sum to
    1, and the uniform distribution: ``forward`` Σ p_t log(n p_t), ``reverse`` -1/n Σ log(n p_t)."""
    mask = word_mask(lengths, gradients.shape[1])
    # the scale of a text drops out; without it squares of small numbers would be zero in float32
    scale = gradients.detach().abs().amax((1, 2), keepdim=True).clamp(min=torch.finfo(torch.float).tiny)
    norms = torch.linalg.vector_norm(gradients / scale, dim=-1) * mask  # (B, T)
    shares = norms / norms.sum(1, keepdim=True).clamp(min=LEAST)
    n = lengths.unsqueeze(1)
    logs = torch.log(n * shares + LEAST)
    return ((shares if divergence == "forward" else mask / -n) * logs).sum(1)


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """log P(label) - log P(not label): (B, C), (B,) -> (B,).

    Its gradient with respect to the words is that of the cross-entropy but for one factor a text,
    -1 / P(not label), so that both spread alike over the words; but it does not flatten out once a
    text is classified with confidence.
    """
    is_label = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    others = logits.masked_fill(is_label, -torch.inf).logsumexp(1)
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1) - others


def exact_backward(
    model: TextClassifier, batch: Batch, factor: float, divergence: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Add the gradients of ℓ₁ + λ ℓ₂, λ the factor, to those of the parameters by differentiating twice.

    Returns:
        ℓ₁ averaged over the texts, ℓ₂ of each text (B,), and the logits (B, C), all detached.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about an accelerator that nobody asked for
        # without the fused kernels that cannot be differentiated twice, or only slowly
        with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
            words, logits, odds = _read(model, batch)
            (gradients,) = torch.autograd.grad(odds.sum(), words, create_graph=True)
            found = unevenness(gradients, batch.lengths, divergence)
            loss = softplus(-odds).mean()  # the cross-entropy
            (loss + factor * found.mean()).backward()
    return loss.detach(), found.detach(), logits.detach()


def estimated_backward(
    model: TextClassifier, batch: Batch, factor: float, divergence: str, step: float = STEP
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by central differences, with the gradients of ℓ₁ exact and those of ℓ₂ estimated.

    Each text is moved along its own v, by so much that its word that is moved most goes ``step``.
    """
    B = len(batch.lengths)
    words, logits, odds = _read(model, batch)
    words.retain_grad()
    wrong = (-odds).detach().sigmoid().clamp(min=UNDERFLOW)  # P(not label)
    (-wrong / B * odds).sum().backward()  # the gradient of the cross-entropy
    assert words.grad is not None
    gradients = (words.grad * (-B / wrong)[:, None, None]).requires_grad_()  # of the odds
    found = unevenness(gradients, batch.lengths, divergence)
    (v,) = torch.autograd.grad(found.sum(), gradients)
    longest = torch.linalg.vector_norm(v, dim=-1).amax(1).clamp(min=LEAST)  # (B,)
    moved = v * (step / longest)[:, None, None]

    words, twice = model.embed(batch.ids), batch.lengths.repeat(2)
    states = model.encode(torch.cat([words + moved, words - moved]), twice)
    ahead, behind = log_odds(model.classify(states, twice), batch.labels.repeat(2)).split(B)
    slope = (ahead - behind) * longest / (2 * step)  # its gradient is that of ℓ₂
    (factor * slope.mean()).backward()
    return softplus(-odds.detach()).mean(), found.detach(), logits.detach()


def _read(model: TextClassifier, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The embeddings (B, T, E), which have a gradient even where they do not learn, logits and odds."""
    words = model.embed(batch.ids)
    words = words if words.requires_grad else words.detach().requires_grad_()
    logits = model.classify(model.encode(words, batch.lengths), batch.lengths)
    return words, logits, log_odds(logits, batch.labels)
