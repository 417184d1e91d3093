"""A pretrained encoder with a classifier on top, all of it trained, and TMix in it (thesis §1.10).

BERT, TMix, UDA and MixText of Table 1.9 are this one model under different objectives. The
classifier is that of Chen et al. 2020 (MixText, §5.3): the mean over the tokens, a layer of 128 units
with tanh, a linear one. Their released code averages and attends over the padding too; here padding
never matters.

Letters: B texts, T tokens of the longest, E units of a token's embedding, C classes, L layers.
"""

import math
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.models.encoder import word_mask
from whenpool.training.loop import Objective

HEAD_SIZE = 128


class FineTuned(nn.Module):
    """Texts in, logits out, through an encoder of `transformers`, which is trained in place.

    Args:
        encoder: called with the keywords ``input_ids`` and ``attention_mask``, answers with a
            ``last_hidden_state`` (B, T, E).
        size: units of a token's embedding, E.
        classes: how many there are, C.

    Examples:
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> model = FineTuned(encoder.model, encoder.size, classes=2)
        >>> model(torch.tensor([[101, 2054, 102]]), torch.tensor([3])).shape
        torch.Size([1, 2])
    """

    def __init__(self, encoder: nn.Module, size: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(size, HEAD_SIZE), nn.Tanh(), nn.Linear(HEAD_SIZE, classes))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) int64 token numbers, right-padded with any, and (B,) lengths -> (B, C) logits."""
        return self._classify(self._encode(ids, lengths), lengths)

    def mixed(self, ids: Tensor, lengths: Tensor, partner: Tensor, share: float, layer: int) -> Tensor:
        """Logits (B, C) of interpolated texts: TMix (Chen et al. 2020, §3).

        The layers from 1 to ``layer`` read each text alone. The state of a token t of text i then becomes
        λ · h_i,t + (1 - λ) · h_j,t, with λ the ``share`` and j the ``partner`` (B,) of i in this batch,
        and the layers above read that. A text that has ended counts as 0; the mixture is as long as the
        longer text, in attention and in the mean.

        Raises:
            InputError: for a layer that is not there, or an encoder whose layers cannot be found.
        """
        layers = find_layers(self.encoder)
        if not 1 <= layer <= len(layers):
            raise InputError(f"layer {layer} is not one of {len(layers)}, counted from 1")
        is_word = word_mask(lengths, ids.shape[1]).unsqueeze(2)  # (B, T, 1)
        # of two right-padded texts the longer one's mask is the union of both
        own_place = torch.arange(len(ids), device=ids.device)
        longest = torch.where(lengths[partner] > lengths, partner, own_place)  # (B,)

        # Encoders and versions of `transformers` call their layers differently. In all of them a layer's
        # output is its hidden states, alone or first in a tuple, and an attention mask has a row for each
        # text and two or four dimensions, hidden states three. A mask is missing where nothing is padded.
        def mix(module: nn.Module, args: Any, output: Any) -> Any:
            states = output[0] if isinstance(output, tuple) else output
            if states.shape[:2] != ids.shape:
                raise InputError(
                    f"{type(self.encoder).__name__} hands on hidden states of shape "
                    f"{tuple(states.shape)} for {tuple(ids.shape)} tokens: it cannot be mixed; choose "
                    "another encoder"
                )
            own = states * is_word
            mixture = share * own + (1 - share) * own[partner]
            return (mixture, *output[1:]) if isinstance(output, tuple) else mixture

        def of_longest(value: Any) -> Any:
            is_mask = isinstance(value, Tensor) and value.dim() in (2, 4) and len(value) == len(ids)
            return value[longest] if is_mask else value

        def merge_masks(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return tuple(map(of_longest, args)), {
                name: of_longest(value) for name, value in kwargs.items()
            }

        with ExitStack() as hooks:
            hooks.callback(layers[layer - 1].register_forward_hook(mix).remove)
            for above in layers[layer:]:
                hooks.callback(above.register_forward_pre_hook(merge_masks, with_kwargs=True).remove)
            states = self._encode(ids, lengths)
        return self._classify(states, lengths[longest])

    def _encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        mask = word_mask(lengths, ids.shape[1]).long()
        return self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, T, E)

    def _classify(self, states: Tensor, lengths: Tensor) -> Tensor:
        mask = word_mask(lengths, states.shape[1]).unsqueeze(2)  # (B, T, 1)
        return self.head((states * mask).sum(1) / lengths.unsqueeze(1))


def mix_layers(layers: int) -> tuple[int, ...]:
    """The layers that TMix draws from: as high up as those of BERT-base that Chen et al. 2020 mix (§3)."""
    return tuple(sorted({math.ceil(m * layers / 12) for m in (7, 9, 12)}))


def find_layers(encoder: nn.Module) -> nn.ModuleList:
    """The list of an encoder's layers; raises `InputError` where no list, or more than one, has as many
    entries as its configuration says."""
    wanted = getattr(getattr(encoder, "config", None), "num_hidden_layers", None)
    lists = (module for module in encoder.modules() if isinstance(module, nn.ModuleList))
    found = [module for module in lists if len(module) == wanted]
    if len(found) != 1:
        raise InputError(
            f"{type(encoder).__name__}: TMix and MixText mix behind one of the encoder's layers, which "
            f"are not found as one list of {wanted or 'a known number'}; choose an encoder like BERT, "
            "RoBERTa, DistilBERT, ELECTRA or MPNet"
        )
    return found[0]


class Mix(NamedTuple):
    """How the texts of a batch are interpolated."""

    share: float  # λ, at least 1/2, so that a mixture is mostly the text itself
    layer: int  # after which states are mixed, counted from 1
    partner: Tensor  # (B,), the other text of each, which may be itself

    def of(self, targets: Tensor) -> Tensor:
        """The distributions over classes (B, C) of the mixtures."""
        return self.share * targets + (1 - self.share) * targets[self.partner]


class MixDraws:
    """Draws λ = max(λ', 1 - λ') with λ' ~ Beta(α, α), a layer, and partners: one of each for a batch.

    The larger α, the closer λ is to 1/2; raises `InputError` where it is not above 0.
    """

    def __init__(self, seed: int, alpha: float) -> None:
        if not 0 < alpha < np.inf:
            raise InputError(f"alpha is the parameter of a Beta distribution, above 0, not {alpha}")
        self.alpha = alpha
        self._random = np.random.default_rng(seed)  # torch's Beta takes no generator

    def draw(self, texts: int, encoder: nn.Module, device: torch.device) -> Mix:
        """For a batch of B texts; raises `InputError` for an encoder whose layers cannot be found."""
        share = float(self._random.beta(self.alpha, self.alpha))
        layer = int(self._random.choice(mix_layers(len(find_layers(encoder)))))
        partner = torch.from_numpy(self._random.permutation(texts)).to(device)
        return Mix(max(share, 1 - share), layer, partner)


class TMix(Objective):
    """Cross-entropy between the prediction on mixtures and their mixed labels (`MixDraws`).

    ``alpha`` is 2 in the command that Chen et al. released; they advise 2 or 16 below 100 labels per class
    (§5.3).

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
        mix = self._draws.draw(len(batch.labels), model.encoder, batch.ids.device)
        logits = model.mixed(batch.ids, batch.lengths, mix.partner, mix.share, mix.layer)
        targets = functional.one_hot(batch.labels, logits.shape[1]).to(logits.dtype)
        return functional.cross_entropy(logits, mix.of(targets)), logits
