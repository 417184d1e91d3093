"""Training and testing a tagger.

Letters: B sentences, T words of the longest, F columns of numbers of a word, C tags.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whenpool.corpora.batches import UNKNOWN_INDEX, Batch, Texts
from whenpool.models.sequence_tagger import SequenceTagger, tagging_loss
from whenpool.training import loop


class Labelled(NamedTuple):
    """A tagger's answer for some sentences."""

    score: loop.Score  # mean cross-entropy over words whose tag it knows, and accuracy over all words
    tags: Tensor  # (W,) int64 on the CPU, of each word, in the order of the sentences


Judge = Callable[[Labelled], dict[str, float]]


@torch.inference_mode()
def label(model: SequenceTagger, sentences: Texts) -> Labelled:
    """Tag `whenpool.corpora.tagged.NumberedSentences`, and compare the tags with theirs."""
    tags = torch.empty_like(sentences.labels)
    loss = torch.zeros((), dtype=torch.float64, device=tags.device)
    for indices, batch, logits in loop.answers(model, sentences):  # (B, T, C)
        loss += tagging_loss(logits, batch.lengths, batch.labels, "sum")
        places, is_word, *_ = sentences.ids.places(indices)  # (B, T)
        tags[places[is_word]] = logits.argmax(-1)[is_word]
    known = (sentences.labels >= 0).sum().item()
    right = (tags == sentences.labels).sum().item()
    score = loop.Score(loss.item() / max(known, 1), 100 * right / len(tags))
    return Labelled(score, tags.cpu())


class TaggingObjective(loop.Objective):
    """Cross-entropy over words, with gradients clipped. Words that are ``rare`` (words,) bool in training are
    read as unknown at the ``unknown_rate``. ``judge`` gives measures of each epoch by name, from the answers
    for the validation sentences; "validation_entity_f1" among them chooses the best epoch, not accuracy."""

    per_word = True
    chosen_by = "validation_entity_f1"

    def __init__(self, rare: Tensor, unknown_rate: float, judge: Judge = lambda labelled: {}) -> None:
        self.rare, self.unknown_rate, self.judge = rare, unknown_rate, judge
        self.labelled: Labelled

    def backward(self, model: nn.Module, batch: Batch, indices: Tensor) -> loop.Learnt:
        learnt = super().backward(model, batch, indices)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        return learnt

    def loss(self, model: nn.Module, batch: Batch, indices: Tensor) -> loop.Learnt:
        ids = batch.ids.clone()  # (B, T, F)
        words = ids[..., 0]
        unknown = torch.rand(words.shape, device=ids.device) < self.unknown_rate
        words[self.rare[words] & unknown] = UNKNOWN_INDEX
        logits = model(ids, batch.lengths)  # (B, T, C)
        return tagging_loss(logits, batch.lengths, batch.labels), logits

    def evaluate(self, model: SequenceTagger, texts: Texts) -> loop.Score:
        self.labelled = label(model, texts)
        return self.labelled.score

    def end_epoch(self, model: nn.Module, accuracy: loop.Accuracy) -> dict[str, float]:
        return self.judge(self.labelled)
