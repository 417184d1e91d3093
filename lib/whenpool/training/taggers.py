"""Training and testing a tagger.

Letters: B sentences, T words of the longest, F columns of numbers of a word, C tags.
"""

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whenpool.corpora.batches import evaluation_batches, training_batches
from whenpool.corpora.tagged.numbering import NumberedCorpus, NumberedSentences
from whenpool.corpora.tokens import UNKNOWN_INDEX
from whenpool.models.sequence_tagger import SequenceTagger, tagging_loss
from whenpool.training.loop import (
    EVALUATION_WORDS,
    DivergenceError,
    Epoch,
    Outcome,
    Recipe,
    Score,
)

CLIP = 5.0
"""The largest norm of a step's gradient."""


class Labelled(NamedTuple):
    """What a tagger says of some sentences.

    Attributes:
        score: mean cross-entropy over words whose tag it knows, and accuracy over all words.
        tags: (W,) int64 on the CPU, of each word, in the order of the sentences.
    """

    score: Score
    tags: Tensor


def train_tagger(
    model: SequenceTagger,
    corpus: NumberedCorpus,
    recipe: Recipe,
    seed: int,
    device: str = "cpu",
    unknown_rate: float = 0.5,
    judge: Callable[[Labelled], dict[str, float]] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Outcome:
    """Train a tagger, keep the weights of the best validation epoch, and test those.

    Args:
        seed: of the order of batches; what dropout drops, and which words become unknown, is drawn from
            torch's global generator.
        unknown_rate: how often a word that stands once in the training sentences is read as unknown, so
            that the row of unknown words learns something.
        judge: given what the model says of the validation sentences, returns what else is to be noted
            of the epoch; by "validation_entity_f1", where it is among it, the best epoch is chosen
            instead of by accuracy.
        on_epoch: called after each epoch.

    Raises:
        DivergenceError: when the loss becomes infinite or not a number.
    """
    started = time.perf_counter()
    model.to(device)
    train, validation = corpus.train.to(device), corpus.validation.to(device)
    rare = corpus.rare.to(device)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    order = torch.Generator().manual_seed(seed)
    history: list[Epoch] = []
    weights, best, chosen = dict[str, Tensor](), 0, -math.inf

    def outcome(test: Score) -> Outcome:
        words = len(corpus.train.tags) * len(history)
        return Outcome(history, best + 1, test, weights, time.perf_counter() - started, words)

    for number in range(1, recipe.epochs + 1):
        epoch_started = time.perf_counter()
        learnt = _epoch(model, train, optimizer, recipe, order, rare, unknown_rate)
        said = label(model, validation)
        more = judge(said) if judge else {}
        judged, seconds = said.score, time.perf_counter() - epoch_started
        history.append(
            Epoch(number, learnt.loss, learnt.accuracy, judged.loss, judged.accuracy, seconds, more)
        )
        if not (math.isfinite(learnt.loss) and math.isfinite(judged.loss)):
            weights = _copy(model)
            raise DivergenceError(
                f"the loss became {learnt.loss} in epoch {number}; lower the learning rate or choose "
                "another seed",
                outcome(Score(math.nan, math.nan)),
            )
        if (value := more.get("validation_entity_f1", judged.accuracy)) > chosen:
            chosen, best, weights = value, number - 1, _copy(model)
        if on_epoch:
            on_epoch(history[-1])
    model.load_state_dict(weights)
    return outcome(label(model, corpus.test.to(device)).score)


@torch.inference_mode()
def label(model: SequenceTagger, sentences: NumberedSentences) -> Labelled:
    """Tag sentences, and hold the tags against theirs."""
    was_training = model.training
    model.eval()
    found = torch.empty_like(sentences.tags)
    starts = sentences.starts
    loss = torch.zeros((), dtype=torch.float64, device=found.device)
    for indices in evaluation_batches(sentences.lengths, EVALUATION_WORDS):
        batch = sentences.batch(indices)
        logits = model(batch.ids, batch.lengths)  # (B, T, C)
        loss += tagging_loss(logits, batch.lengths, batch.tags, "sum")
        position = torch.arange(logits.shape[1], device=found.device)
        is_word = position < batch.lengths.unsqueeze(1)  # (B, T)
        places = (starts[indices].to(found.device).unsqueeze(1) + position)[is_word]
        found[places] = logits.argmax(-1)[is_word]
    model.train(was_training)
    known = (sentences.tags >= 0).sum().item()
    right = (found == sentences.tags).sum().item()
    score = Score(loss.item() / max(known, 1), 100 * right / len(found))
    return Labelled(score, found.cpu())


def _epoch(
    model: SequenceTagger,
    train: NumberedSentences,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    order: torch.Generator,
    rare: Tensor,
    unknown_rate: float,
) -> Score:
    model.train()
    device = train.tags.device
    loss_sum = torch.zeros((), dtype=torch.float64, device=device)
    right = torch.zeros((), dtype=torch.int64, device=device)
    for indices in training_batches(train.lengths, recipe.batch_size, order):
        batch = train.batch(indices)
        words = batch.ids[..., 0]  # (B, T)
        unknown = rare[words] & (torch.rand(words.shape, device=device) < unknown_rate)
        ids = torch.cat(
            [words.masked_fill(unknown, UNKNOWN_INDEX).unsqueeze(-1), batch.ids[..., 1:]], dim=-1
        )  # (B, T, F)
        optimizer.zero_grad(set_to_none=True)
        logits = model(ids, batch.lengths)  # (B, T, C)
        loss = tagging_loss(logits, batch.lengths, batch.tags)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        # read only after the epoch: no waiting in a step
        loss_sum += loss.detach() * batch.lengths.sum()
        right += (logits.detach().argmax(-1) == batch.tags).sum()
    words_read = len(train.tags)
    return Score(loss_sum.item() / words_read, 100 * right.item() / words_read)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
