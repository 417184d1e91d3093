"""A pretrained encoder with a classifier on top, all of it trained, and TMix in it (thesis §1.10).

BERT, TMix, UDA (Xie et al. 2020) and MixText (Chen et al. 2020) of Table 1.9 are this one model
under different objectives. The classifier is that of Chen et al. (§5.3): the mean over the tokens,
a layer of 128 units with tanh, a linear one; padding never matters, other than in their released
code.

Letters: N texts, B labelled ones in a batch, U unlabelled ones, K augmented versions of each, T
tokens of the longest, E units of a token's embedding, C classes.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import check
from whenpool.corpora.batches import PADDING_INDEX, Batch, Ragged, Texts
from whenpool.models.encoder import word_mask
from whenpool.training.loop import Accuracy, Learnt, Objective

HEAD_SIZE = 128


class FineTuned(nn.Module):
    """Texts in, logits of C ``classes`` out, through an encoder of `transformers`, which is trained
    in place: called with ``input_ids`` and ``attention_mask`` it answers with a
    ``last_hidden_state`` (B, T, E), of which E is the ``size``.

    Examples:
        >>> encoder = load_encoder("sentence-transformers/all-MiniLM-L6-v2")
        >>> model = FineTuned(encoder.model, encoder.size, classes=2)
        >>> model(torch.tensor([[101, 2054, 102]]), torch.tensor([3])).shape
        torch.Size([1, 2])
    """

    def __init__(self, encoder: nn.Module, size: int, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(
            nn.Linear(size, HEAD_SIZE), nn.Tanh(), nn.Linear(HEAD_SIZE, classes)
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T) int64 token numbers, right-padded with any token, and (B,) lengths -> (B, C)
        logits."""
        return self._classify(self._encode(ids, lengths), lengths)

    def mixed(
        self, ids: Tensor, lengths: Tensor, partner: Tensor, share: float, layer: int
    ) -> Tensor:
        """Logits (B, C) of interpolated texts: TMix (Chen et al. 2020, §3).

        The layers from 1 to ``layer`` read each text alone. The state of a token t of text i then
        becomes λ · h_i,t + (1 - λ) · h_j,t, with λ the ``share`` and j the ``partner`` (B,) of i in
        this batch, and the layers above read that. A text that has ended counts as 0; the mixture
        is as long as the longer text, in attention and in the mean.
        """
        layers = find_layers(self.encoder)
        is_word = word_mask(lengths, ids.shape[1]).unsqueeze(2)  # (B, T, 1)
        # of two right-padded texts the longer one's mask is the union of both
        itself = torch.arange(len(ids), device=ids.device)
        longest = torch.where(lengths[partner] > lengths, partner, itself)  # (B,)

        # a layer's output is its hidden states, alone or first in a tuple
        def mix(module: nn.Module, args: Any, output: Any) -> Any:
            first, *more = output if isinstance(output, tuple) else (output,)
            mixture = share * (first * is_word) + (1 - share) * (first * is_word)[partner]
            return (mixture, *more) if isinstance(output, tuple) else mixture

        # an attention mask has a row for each text and two or four dimensions, hidden states have
        # three
        def of_longest(value: Any) -> Any:
            is_mask = isinstance(value, Tensor) and value.dim() in (2, 4) and len(value) == len(ids)
            return value[longest] if is_mask else value

        def merge_masks(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return tuple(map(of_longest, args)), {
                n: of_longest(value) for n, value in kwargs.items()
            }

        with ExitStack() as hooks:
            hooks.callback(layers[layer - 1].register_forward_hook(mix).remove)
            for above in layers[layer:]:
                hooks.callback(
                    above.register_forward_pre_hook(merge_masks, with_kwargs=True).remove
                )
            states = self._encode(ids, lengths)
        return self._classify(states, lengths[longest])

    def _encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        mask = word_mask(lengths, ids.shape[1]).long()
        return self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # (B, T, E)

    def _classify(self, states: Tensor, lengths: Tensor) -> Tensor:
        mask = word_mask(lengths, states.shape[1]).unsqueeze(2)  # (B, T, 1)
        return self.head((states * mask).sum(1) / lengths.unsqueeze(1))


def find_layers(encoder: nn.Module) -> nn.ModuleList:
    """The list of an encoder's layers: the only list as long as its configuration says."""
    depth = getattr(getattr(encoder, "config", None), "num_hidden_layers", None)
    lists = (module for module in encoder.modules() if isinstance(module, nn.ModuleList))
    fitting = [module for module in lists if len(module) == depth]
    check(
        len(fitting) == 1,
        f"TMix and MixText mix after a layer, but {type(encoder).__name__} has no list of its "
        "layers; choose an encoder like BERT, RoBERTa, DistilBERT or MPNet",
    )
    return fitting[0]


class Mix(NamedTuple):
    """How the texts of a batch are interpolated."""

    share: float  # λ, at least 1/2, so that a mixture is mostly the text itself
    layer: int  # after which states are mixed, counted from 1
    partner: Tensor  # (B,), the other text of each, which may be itself

    def of(self, targets: Tensor) -> Tensor:
        """The distributions over classes (B, C) of the mixtures."""
        return self.share * targets + (1 - self.share) * targets[self.partner]


def draw_mix(
    random: np.random.Generator, alpha: float, texts: int, encoder: nn.Module, device: torch.device
) -> Mix:
    """For a batch of B ``texts`` λ = max(λ', 1 - λ') with λ' ~ Beta(α, α), a layer, and
    partners."""
    share = float(random.beta(alpha, alpha))  # torch's Beta takes no generator
    depth = len(find_layers(encoder))
    # layers as high up as those of BERT-base that Chen et al. mix (§3)
    layer = int(random.choice(sorted({math.ceil(m * depth / 12) for m in (7, 9, 12)})))
    partner = torch.from_numpy(random.permutation(texts)).to(device)
    return Mix(max(share, 1 - share), layer, partner)


class TMix(Objective):
    """Cross-entropy between the prediction on mixtures and their mixed labels (`draw_mix`);
    ``alpha`` of the Beta distribution is 2 in the command that Chen et al. (2020) released."""

    def __init__(self, seed: int, alpha: float = 2.0) -> None:
        self.alpha, self._random = alpha, np.random.default_rng(seed)

    def loss(self, model: FineTuned, batch: Batch, indices: Tensor) -> Learnt:
        mix = draw_mix(self._random, self.alpha, len(batch.labels), model.encoder, batch.ids.device)
        logits = model.mixed(batch.ids, batch.lengths, mix.partner, mix.share, mix.layer)
        targets = functional.one_hot(batch.labels, logits.shape[1]).to(logits.dtype)
        return functional.cross_entropy(logits, mix.of(targets)), logits


def stack(batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """The ids of several batches as one, padded to the longest text of all, and their lengths."""
    longest = max(batch.ids.shape[1] for batch in batches)
    ids = (
        functional.pad(b.ids, (0, longest - b.ids.shape[1]), value=PADDING_INDEX) for b in batches
    )
    return torch.cat(list(ids)), torch.cat([batch.lengths for batch in batches])


@dataclass(eq=False)
class SemiSupervised(Objective):
    """Learns from labelled texts and, in each step, from the next unlabelled ones."""

    # N texts, then K ≥ 1 augmented versions of each, as numbers of tokens
    unlabelled: Sequence[Ragged]
    classes: int  # C
    steps: int  # batches of labelled texts in the whole training
    seed: int  # of the order of the unlabelled texts, and of every other random choice
    batch_size: int = 8  # unlabelled texts in a batch, U
    temperature: float = 1.0  # below 1 sharpens the predictions that are to be reached
    measured: ClassVar[Sequence[str]]  # what each step notes; an epoch ends with their means

    def __post_init__(self) -> None:
        self._generator = torch.Generator().manual_seed(self.seed)
        self._random = np.random.default_rng(self.seed)
        self._rounds = self._texts_in_turn()
        self._step, self._values = 0, list[tuple[Tensor, ...]]()

    def _texts_in_turn(self) -> Iterator[int]:
        """Numbers of unlabelled texts in random order, all of them before any comes again."""
        while True:
            yield from torch.randperm(len(self.unlabelled[0]), generator=self._generator).tolist()

    @property
    def progress(self) -> float:
        """Which part of the training is over, from 0 to 1."""
        return min(1.0, self._step / self.steps)

    def next_texts(self, device: torch.device) -> list[Batch]:
        """The next U texts: the originals, then each of their K versions; all labels are 0."""
        drawn = torch.tensor(list(islice(self._rounds, self.batch_size)))
        no_labels = torch.zeros(1, dtype=torch.int64).expand(len(self.unlabelled[0]))
        batches = (Texts(ids, no_labels).batch(drawn, PADDING_INDEX) for ids in self.unlabelled)
        return [Batch(*(part.to(device) for part in batch)) for batch in batches]

    def start_epoch(self, epoch: int) -> None:
        self._values = []

    def end_step(self, *values: Tensor) -> None:
        """Count a step and keep what was ``measured`` in it."""
        self._step += 1
        self._values.append(tuple(value.detach() for value in values))

    def end_epoch(self, model: Any, accuracy: Accuracy) -> dict[str, float]:
        """The means of what was ``measured`` in the steps of this epoch."""
        means = [torch.stack(values).mean().item() for values in zip(*self._values, strict=True)]
        return dict(zip(self.measured, means, strict=True)) if means else {}


@dataclass(eq=False)
class UDA(SemiSupervised):
    """Cross-entropy on labelled texts, annealed, and consistency on unlabelled ones, with one of
    their K versions drawn for each batch. Temperature τ and ``confidence`` β, below which an
    unlabelled text teaches nothing, are the paper's for CIFAR-10 (§2.4), which names none for
    texts; the annealing is linear."""

    temperature: float = 0.4
    confidence: float = 0.8
    measured = "left_out", "confident", "consistency"
    """The share of labelled texts left out, that of unlabelled ones predicted with confidence, and
    the consistency loss."""

    @property
    def threshold(self) -> float:
        """η_t of the next step. Labelled texts whose class is more probable are left out."""
        return self.progress * (1 - 1 / self.classes) + 1 / self.classes

    def loss(self, model: nn.Module, batch: Batch, indices: Tensor) -> Learnt:
        original, *augmented = self.next_texts(batch.ids.device)
        version = int(torch.randint(len(augmented), (), generator=self._generator))
        with torch.no_grad():  # with dropout, as in the released code
            goal = model(original.ids, original.lengths)  # (U, C)
        together = stack([batch, augmented[version]])
        labelled, noised = model(*together).split([len(batch.labels), self.batch_size])

        losses = functional.cross_entropy(labelled, batch.labels, reduction="none")  # (B,)
        kept = (-losses.detach()).exp() <= self.threshold  # the probability of the class itself
        supervised = (losses * kept).sum() / kept.sum().clamp(min=1)

        # KL(goal, sharpened ‖ prediction on the version) of each confident text, averaged over all
        # (§2.4)
        confident = goal.softmax(1).amax(1) > self.confidence  # (U,)
        target = (goal / self.temperature).softmax(1)
        each = functional.kl_div(noised.log_softmax(1), target, reduction="none")  # (U, C)
        divergence = each.sum(1)  # (U,)
        consistency = (divergence * confident).mean()
        self.end_step(1 - kept.float().mean(), confident.float().mean(), consistency)
        return supervised + consistency, labelled


@dataclass(eq=False)
class MixText(SemiSupervised):
    """Cross-entropy on mixtures with labelled texts, KL on those with unlabelled ones, and a
    margin.

    1. An unlabelled text and its augmented versions share a guessed label: the mean of what the
       model predicts for them, sharpened. No gradient goes through it.
    2. All texts of the step are mixed with each other by TMix, their labels likewise. A mixture
       counts to the kind of the text that is its larger part.
    3. Predictions on the unlabelled texts themselves, not mixed, should be confident:
       max(0, γ - ‖p‖²), γ the ``margin``, is above 0 for a p that is too even.

    The losses on unlabelled texts grow in evenly over the training, as in the released code, whose
    command for 10 labels per class has this ``alpha`` of TMix; the temperature is the paper's for
    Yahoo (§5.3).
    """

    temperature: float = 0.5
    alpha: float = 16.0
    margin: float = 0.7
    measured = "supervised", "consistency", "margin", "confidence"
    """The three losses, and the mean largest probability of the guessed
    labels."""

    def loss(self, model: FineTuned, batch: Batch, indices: Tensor) -> Learnt:
        B, device = len(batch.labels), batch.ids.device
        texts = self.next_texts(device)
        plain = model(texts[0].ids, texts[0].lengths).softmax(1)  # (U, C)
        with torch.no_grad():  # the guess: the mean to the power of 1 / T, normalised again (§4)
            predictions = [plain, *(model(v.ids, v.lengths).softmax(1) for v in texts[1:])]
            mean = torch.stack(predictions).sum(0) / len(predictions)
            guessed = (mean.log() / self.temperature).softmax(1)  # (U, C)

        union = stack([batch, *texts])
        labels = functional.one_hot(batch.labels, self.classes).to(guessed.dtype)
        targets = torch.cat([labels, *[guessed] * len(texts)])
        mix = draw_mix(self._random, self.alpha, len(targets), model.encoder, device)
        logits = model.mixed(*union, mix.partner, mix.share, mix.layer)
        targets = mix.of(targets)

        supervised = functional.cross_entropy(logits[:B], targets[:B])
        divergence = functional.kl_div(
            logits[B:].log_softmax(1), targets[B:], reduction="batchmean"
        )
        evenness = (self.margin - plain.square().sum(1)).clamp(min=0).mean()
        loss = supervised + self.progress * (divergence + evenness)
        self.end_step(supervised, divergence, evenness, guessed.amax(1).mean())
        return loss, logits[:B]
