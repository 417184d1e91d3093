"""Four ways to train an LSTM without pooling that leave the model as it is (thesis §2.2).

Each is an `whenpool.training.loop.Objective`: it says what is minimised and how that changes over
the epochs. The model that is trained has no pooling, and it is validated and tested as it is: its
last states, forward →h_n and backward ←h_1, classify the text.

===================  ======  ===================================================================
teacher forcing      §2.2.4  its embedding follows that of a trained max-pooled model
penalty attention    §2.2.5  it attends at first, and attending to other states costs more and more
dropout attention    §2.2.6  it attends at first, and other states are dropped more and more often
gradient-directed    §2.2.7  gradients spread evenly over the words at first, less and less so
===================  ======  ===================================================================
"""

# Letters: B texts, N texts of the training set, T words of the longest, n words of one text, E
# units of an embedding, D units of a state (both directions together), C classes.

import warnings
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import check, check_known
from whenpool.corpora.batches import PADDING_INDEX, Batch, Texts, batches_for
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import LastAttention, LastState
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import evaluating
from whenpool.training.loop import EVALUATION_WORDS, Accuracy, Learnt, Objective

__all__ = [
    "AttentionForm",
    "DropoutAttention",
    "GradientDirected",
    "PenaltyAttention",
    "TeacherForcing",
]

# How far the word that moves most is moved, in units of its embedding: see bench/README.md
STEP = 1e-3
LEAST = 1e-12  # Below this, shares and lengths count as zero: no logarithm or division of less
UNDERFLOW = 1e-30  # The smallest probability of error by which gradients are divided
DIVERGENCES = ("forward", "reverse")


def rising(epoch: int, epochs: int, power: float) -> float:
    """min(1, (epoch / m)^power), where m is half of the epochs (§2.2.5, §2.2.6)."""
    return min(1.0, (epoch / (epochs // 2)) ** power) if epochs > 1 else 1.0


def falling(epoch: int, epochs: int) -> float:
    """max(0, 1 - epoch / m), where m is half of the epochs: "reduced with time" (§2.2.7)."""
    return max(0.0, 1 - epoch / max(1, epochs // 2))


class TeacherForcing(Objective):
    """ℓ = ‖s(x) - s'(x)‖² / D: the embedding s of the model follows s', the teacher's, whose
    classifier it has. The ``teacher`` is trained, with max-pooling in the thesis; its sizes are the
    model's.

    Examples:
        >>> from whenpool.corpora.batches import Ragged, Texts
        >>> texts = Texts(Ragged.of([[5, 6, 7], [8, 9]]), torch.tensor([0, 1]))
        >>> teacher, model = (whenpool.TextClassifier(50, 2, name) for name in ("max", "last"))
        >>> objective = TeacherForcing(teacher)
        >>> objective.begin(model, texts)
        >>> objective.loss(model, texts.batch(torch.arange(2), 1), torch.arange(2))[0].shape
        torch.Size([])
    """

    def __init__(self, teacher: TextClassifier) -> None:
        self.teacher = teacher
        self._targets = torch.empty(0)

    def begin(self, model: TextClassifier, texts: Texts) -> None:
        shape, of_teacher = (of.classifier.weight.shape for of in (model, self.teacher))
        sizes = (
            f"the teacher has (C, D) = {tuple(of_teacher)}, the model {tuple(shape)}; give one size"
        )
        check(shape == of_teacher, sizes)
        model.classifier.load_state_dict(self.teacher.classifier.state_dict())
        model.classifier.requires_grad_(False)
        self._targets = sentence_embeddings(self.teacher.to(texts.labels.device), texts)

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> Learnt:
        states = model.encode(model.embed(batch.ids), batch.lengths)
        embedding = model.pool(states, batch.lengths)[0]  # (B, D)
        target = self._targets[indices.to(self._targets.device)]
        return functional.mse_loss(embedding, target), model.classifier(embedding)


@torch.no_grad()
def sentence_embeddings(model: TextClassifier, texts: Texts) -> Tensor:
    """What a model's pooling makes of each text: (N, D)."""
    embeddings = torch.empty(len(texts), model.encoder.output_size, device=texts.labels.device)
    with evaluating(model):
        for indices in batches_for(model, texts.ids.lengths, EVALUATION_WORDS):
            batch = texts.batch(indices, PADDING_INDEX)
            states = model.encode(model.embed(batch.ids), batch.lengths)
            embeddings[indices] = model.pool(states, batch.lengths)[0]
    return embeddings


class Attended(NamedTuple):
    """What attention made of a batch, with a column for each direction."""

    logits: Tensor  # (B, C)
    last: Tensor  # (B, 1 or 2), α_n, the attention on a direction's own last state
    others: Tensor  # (B, 1 or 2), Σ α_t over all other words


class AttentionForm(nn.Module):
    """The same model, which has pooling "last", with `LastAttention` instead of its last states;
    both share all weights. ``drop`` is the probability p that the score of a state other than the
    last is dropped before the softmax (§2.2.6), drawn for each text, word and direction from
    torch's generator. Raises `InputError` for a model with another pooling.

    Examples:
        >>> model = whenpool.TextClassifier(50, 2, "last", embedding_size=8, hidden_size=16)
        >>> attended = AttentionForm(model).attend(torch.randint(50, (2, 9)), torch.tensor([9, 6]))
        >>> torch.allclose(attended.last + attended.others, torch.ones(2, 2))
        True
    """

    def __init__(self, model: TextClassifier, drop: float = 0.0) -> None:
        super().__init__()
        check(
            isinstance(model.pooling, LastState),
            'the model must not have a pooling; make it with pooling="last"',
        )
        self.model, self.drop, self._masses = model, drop, list[Tensor]()
        self.attention = LastAttention(bidirectional=model.encoder.directions == 2)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """(B, T), (B,) -> logits (B, C)."""
        attended = self.attend(ids, lengths)
        self._masses.append(attended.others.mean(1))
        return attended.logits

    def attend(self, ids: Tensor, lengths: Tensor) -> Attended:
        """(B, T), (B,) -> logits, and the attention on last and other states."""
        states = self.model.encode(self.model.embed(ids), lengths)  # (B, T, D)
        mask = word_mask(lengths, ids.shape[1])
        word = torch.arange(ids.shape[1], device=lengths.device).expand_as(mask)
        ends = [word == lengths.unsqueeze(1) - 1, word == 0][: self.model.encoder.directions]
        kept = None
        if self.drop:
            drawn = (torch.rand(mask.shape, device=mask.device) for _ in ends)
            kept = [mask & (end | (d >= self.drop)) for end, d in zip(ends, drawn, strict=True)]
        weights = self.attention.direction_weights(states, mask, kept)
        both = list(zip(weights, ends, strict=True))
        last = torch.stack([(w * end).sum(1) for w, end in both], dim=1)
        others = torch.stack([(w * ~end).sum(1) for w, end in both], dim=1)
        return Attended(self.model.classifier(self.attention.embed(states, weights)), last, others)

    @property
    def mass_left(self) -> float:
        """The mean attention on other states, over all texts and directions that `forward` has
        read."""
        return torch.cat(self._masses).mean().item()


class LastAttentionObjective(Objective):
    """What penalty and dropout attention share: the model attends while it is trained."""

    power: float  # η of the curriculum

    def __init__(self, epochs: int) -> None:
        self.epochs, self.factor = epochs, 0.0

    def start_epoch(self, epoch: int) -> None:
        self.factor = rising(epoch, self.epochs, self.power)
        self.eligible = self.factor == 1  # the curriculum has come to its end

    def end_epoch(self, model: TextClassifier, accuracy: Accuracy) -> dict[str, float]:
        """The factor, the validation accuracy with attention, and the attention on other states."""
        form = AttentionForm(model)
        measures = {"factor": self.factor, "attention_accuracy": accuracy(form)}
        return measures | {"mass_left": form.mass_left}


class DropoutAttention(LastAttentionObjective):
    """Cross-entropy of last-attention whose scores of states other than the last are dropped before
    the softmax, each with probability p = min(1, (epoch / m)²), where m is half of the ``epochs``
    (§2.2.6).

    Examples:
        >>> [PenaltyAttention(20).factor, DropoutAttention(20).factor, GradientDirected(20).factor]
        [0.0, 0.0, 0.3]
    """

    power = 2.0

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> Learnt:
        if self.factor == 1:  # all is dropped: what is left is the model without attention
            return super().loss(model, batch, indices)
        logits = AttentionForm(model, drop=self.factor)(batch.ids, batch.lengths)
        return functional.cross_entropy(logits, batch.labels), logits


class PenaltyAttention(LastAttentionObjective):
    """ℓ = cross-entropy + λ Σ_{t<n} α_t / α_n, with λ = min(1, (epoch / m)⁴), where m is half of
    the ``epochs`` (§2.2.5). α is the attention of `whenpool.models.pooling.LastAttention`; the
    penalty is the mean over directions and over the texts of a batch."""

    power = 4.0

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> Learnt:
        logits, last, others = AttentionForm(model).attend(batch.ids, batch.lengths)
        penalty = (others / last).mean()  # last is the largest weight, so at least 1 / n
        return functional.cross_entropy(logits, batch.labels) + self.factor * penalty, logits


class GradientDirected(Objective):
    """ℓ = ℓ₁ + λ ℓ₂: ℓ₁ is the cross-entropy, ℓ₂ the KL between the norms of ∂ℓ₁/∂x over the words,
    which sum to 1, and the uniform distribution; λ = strength max(0, 1 - epoch / m), where m is
    half of the epochs.

    Learning from ℓ₂ takes second derivatives through the recurrence: `estimated_backward`, or where
    the ``divergence`` is "reverse", KL(uniform ‖ norms), `exact_backward`. Raises `InputError` for
    another divergence. ``strength`` is λ of the first of the ``epochs``."""

    def __init__(self, epochs: int, strength: float = 0.3, divergence: str = "forward") -> None:
        check_known("divergence", divergence, DIVERGENCES)
        self.epochs, self.strength, self.divergence = epochs, strength, divergence
        self.factor, self._unevenness = strength, list[Tensor]()

    def start_epoch(self, epoch: int) -> None:
        self.factor = self.strength * falling(epoch, self.epochs)
        self._unevenness = []

    def backward(self, model: TextClassifier, batch: Batch, indices: Tensor) -> Learnt:
        if not self.factor:
            return super().backward(model, batch, indices)
        way = exact_backward if self.divergence == "reverse" else estimated_backward
        loss, uneven, logits = way(model, batch, self.factor, self.divergence)
        self._unevenness.append(uneven.mean())
        return loss + self.factor * uneven.mean(), logits

    def end_epoch(self, model: TextClassifier, accuracy: Accuracy) -> dict[str, float]:
        """λ of this epoch, and the mean divergence where it was looked at."""
        seen = self._unevenness
        more = {"divergence": torch.stack(seen).mean().item()} if seen else {}
        return {"factor": self.factor} | more


def unevenness(gradients: Tensor, lengths: Tensor, divergence: str) -> Tensor:
    """KL, (B,) in nats, between the norms of gradients (B, T, E) over the words of a text, which
    sum to 1, and the uniform distribution: ``forward`` Σ p_t log(n p_t), ``reverse`` -1/n Σ log(n
    p_t)."""
    mask = word_mask(lengths, gradients.shape[1])
    # the scale of a text drops out; without it squares of small numbers would be zero in float32
    scale = (
        gradients.detach().abs().amax((1, 2), keepdim=True).clamp(min=torch.finfo(torch.float).tiny)
    )
    norms = torch.linalg.vector_norm(gradients / scale, dim=-1) * mask  # (B, T)
    shares = norms / norms.sum(1, keepdim=True).clamp(min=LEAST)
    n = lengths.unsqueeze(1)
    logs = torch.log(n * shares + LEAST)
    return ((shares if divergence == "forward" else mask / -n) * logs).sum(1)


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """log P(label) - log P(not label): (B, C), (B,) -> (B,). Its gradient at the words is that of
    the cross-entropy but for a factor a text, -1 / P(not label), so that both spread alike over the
    words; but it does not flatten out once a text is classified with confidence."""
    is_label = functional.one_hot(labels, logits.shape[1]).bool()
    rest = logits.masked_fill(is_label, -torch.inf).logsumexp(1)
    return logits.gather(1, labels.unsqueeze(1)).squeeze(1) - rest


def exact_backward(
    model: TextClassifier, batch: Batch, factor: float, divergence: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Add the gradients of ℓ₁ + λ ℓ₂, λ the factor, to those of the parameters by differentiating
    twice: ℓ₁ averaged over the texts, ℓ₂ of each text (B,), and the logits (B, C), all detached."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about an accelerator that nobody asked for
        # without the fused kernels that cannot be differentiated twice, or only slowly
        with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
            words, logits, odds = _read(model, batch)
            (gradients,) = torch.autograd.grad(odds.sum(), words, create_graph=True)
            uneven = unevenness(gradients, batch.lengths, divergence)
            loss = functional.softplus(-odds).mean()  # the cross-entropy
            (loss + factor * uneven.mean()).backward()
    return loss.detach(), uneven.detach(), logits.detach()


def estimated_backward(
    model: TextClassifier, batch: Batch, factor: float, divergence: str, step: float = STEP
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by central differences, with the gradients of ℓ₁ exact and those of ℓ₂ estimated.

    With g = ∂ℓ₁/∂x and v = ∂ℓ₂/∂g, held fixed, the order of derivatives may be changed: ∂ℓ₂/∂θ =
    ∂/∂θ (v·g) = d/dε ∂ℓ₁/∂θ (x + εv), for which two plain gradients do. It is off by O(ε²) and by
    rounding (bench/README.md). Each text is moved along its v until its word that is moved most
    went ``step``.
    """
    B = len(batch.lengths)
    words, logits, odds = _read(model, batch)
    words.retain_grad()
    wrong = (-odds).detach().sigmoid().clamp(min=UNDERFLOW)  # P(not label)
    (-wrong / B * odds).sum().backward()  # the gradient of the cross-entropy
    assert words.grad is not None
    gradients = (words.grad * (-B / wrong)[:, None, None]).requires_grad_()  # of the odds
    uneven = unevenness(gradients, batch.lengths, divergence)
    (v,) = torch.autograd.grad(uneven.sum(), gradients)
    longest = torch.linalg.vector_norm(v, dim=-1).amax(1).clamp(min=LEAST)  # (B,)
    moved = v * (step / longest)[:, None, None]

    words, twice = model.embed(batch.ids), batch.lengths.repeat(2)
    states = model.encode(torch.cat([words + moved, words - moved]), twice)
    ahead, behind = log_odds(model.classify(states, twice), batch.labels.repeat(2)).split(B)
    slope = (ahead - behind) * longest / (2 * step)  # its gradient is that of ℓ₂
    (factor * slope.mean()).backward()
    return functional.softplus(-odds.detach()).mean(), uneven.detach(), logits.detach()


def _read(model: TextClassifier, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The embeddings (B, T, E), which have a gradient even where they do not learn, logits and
    odds."""
    words = model.embed(batch.ids)
    words = words if words.requires_grad else words.detach().requires_grad_()
    logits = model.classify(model.encode(words, batch.lengths), batch.lengths)
    return words, logits, log_odds(logits, batch.labels)
