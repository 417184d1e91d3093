"""TMix: cross-entropy of interpolated texts (Chen et al. 2020, §3).

Letters: B texts, C classes.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.fewshot.fine_tuning import FineTuned, mix_layers
from whenpool.training.objective import Objective


class Mix(NamedTuple):
    """How the texts of a batch are interpolated.

    Attributes:
        share: λ, at least 1/2, so that a mixture is mostly the text itself.
        layer: after which layer, counted from 1.
        partner: (B,), whom each text is mixed with; it may be itself.
    """

    share: float
    layer: int
    partner: Tensor

    def of(self, targets: Tensor) -> Tensor:
        """The distributions over classes (B, C) of the mixtures."""
        return self.share * targets + (1 - self.share) * targets[self.partner]


class MixDraws:
    """Draws λ = max(λ', 1 - λ') with λ' ~ Beta(α, α), a layer, and partners: one of each for a batch.

    Args:
        seed: of these draws.
        alpha: α; the larger, the closer λ is to 1/2.

    Raises:
        InputError: for an α that is not above 0.
    """

    def __init__(self, seed: int, alpha: float) -> None:
        if not 0 < alpha < np.inf:
            raise InputError(f"alpha is the parameter of a Beta distribution, above 0, not {alpha}")
        self.alpha = alpha
        self._random = np.random.default_rng(seed)  # torch's Beta takes no generator

    def draw(self, texts: int, layers: int, device: torch.device) -> Mix:
        """For a batch of B texts and an encoder of so many layers."""
        share = float(self._random.beta(self.alpha, self.alpha))
        layer = int(self._random.choice(mix_layers(layers)))
        partner = torch.from_numpy(self._random.permutation(texts)).to(device)
        return Mix(max(share, 1 - share), layer, partner)


class TMix(Objective):
    """Cross-entropy between the prediction on mixtures and their mixed labels.

    The logits are those of the mixtures; of each its own text is the larger part.

    Args:
        seed: of the draws.
        alpha: 2 in the command that Chen et al. released with their code, where "2 or 16" is their
            advice below 100 labels per class (§5.3).

    Examples:
        >>> from whenpool.corpora.batches import Batch
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> model = FineTuned(encoder.model, encoder.size, classes=2)
        >>> batch = Batch(torch.randint(999, (2, 5)), torch.tensor([5, 3]), torch.tensor([0, 1]))
        >>> TMix(seed=0).loss(model, batch, torch.arange(2))[1].shape
        torch.Size([2, 2])
    """

    def __init__(self, seed: int, alpha: float = 2.0) -> None:
        self._draws = MixDraws(seed, alpha)

    def loss(self, model: FineTuned, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        mix = self._draws.draw(len(batch.labels), model.layers, batch.ids.device)
        logits = model.mixed(batch.ids, batch.lengths, mix.partner, mix.share, mix.layer)
        targets = functional.one_hot(batch.labels, logits.shape[1]).to(logits.dtype)
        return functional.cross_entropy(logits, mix.of(targets)), logits
