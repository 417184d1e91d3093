"""Where max-attention looks in texts that were read by a pretrained encoder (thesis §1.10.1)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whenpool.probes.protocol import evaluating
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.explain.words import WordStrip, strip

SHORTEST = 15
"""Word pieces of a text that is shown."""
CLASSES = 4
"""Texts shown at most, one of each class."""
CONTINUES = "##"
"""How WordPiece marks a piece that goes on with a word."""
BEGINS = ("Ġ", "▁")
"""How other tokenizers mark a piece that begins one."""


def chosen(lengths: Tensor, labels: Tensor) -> list[int]:
    """Which texts are shown: of each of the first classes the shortest one of `SHORTEST` word pieces or
    more, the first among equals. -> their numbers, in the order of the classes."""
    found = []
    for label in labels.unique().tolist()[:CLASSES]:
        own = ((labels == label) & (lengths >= SHORTEST)).nonzero().flatten()
        if len(own):
            found.append(int(own[lengths[own].argmin()]))
    return found


def whole_words(
    pieces: Sequence[str], weights: Sequence[float]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Word pieces put together to words, their weights added. Special tokens stay as they are: the model
    reads them, and attends to them.

    Args:
        pieces: tokens of a text, those inside a word marked by "##", or those that begin one by "Ġ" or
            "▁".
        weights: one for each.
    """
    by_beginning = any(piece.startswith(BEGINS) for piece in pieces)
    words: list[str] = []
    sums: list[float] = []
    special = True
    for piece, weight in zip(pieces, weights, strict=True):
        is_special = piece[:1] + piece[-1:] in ("[]", "<>") and len(piece) > 2
        goes_on = not piece.startswith(BEGINS) if by_beginning else piece.startswith(CONTINUES)
        if goes_on and words and not (special or is_special):
            words[-1] += piece.removeprefix(CONTINUES)
            sums[-1] += weight
        else:
            words.append(piece.lstrip("".join(BEGINS)) or piece)
            sums.append(weight)
        special = is_special
    return tuple(words), tuple(sums)


@torch.inference_mode()
def attention_strips(shown: Any) -> list[WordStrip]:
    """A strip for some test texts: the attention of max-attention on their words, and in the title the
    right class, with a cross where the model takes it for another.

    Args:
        shown: what `whenpool.book.chapter.Chapter.few_shot_model` gives, with ``model``, ``texts``,
            ``tokens`` and ``classes``; None where there is no model.
    """
    found: list[WordStrip] = []
    labels = shown.texts.labels if shown else torch.zeros(0)
    for number in chosen(shown.texts.ids.lengths, labels) if shown else ():
        batch = shown.texts.batch(torch.tensor([number]), PADDING_INDEX)
        with evaluating(shown.model):
            states = shown.model.encode(shown.model.embed(batch.ids), batch.lengths)
            weights = shown.model.pool(states, batch.lengths)[1][0].tolist()
            answer = int(shown.model.classify(states, batch.lengths).argmax())
        label = int(labels[number])
        mark = "✓" if answer == label else "✗"
        found.append(
            strip(*whole_words(shown.tokens[number], weights), f"{shown.classes[label]} {mark}")
        )
    return found
