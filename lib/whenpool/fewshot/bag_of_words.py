"""Bags of words: how often a text has each word, whatever their order.

Letters: N texts, B of them in a batch, T words of the longest in the batch, V words of the vocabulary.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Ragged
from whenpool.corpora.tokens import PADDING_INDEX, UNKNOWN_INDEX, tokenize

WORDS = 5_000
"""Words of the largest vocabulary."""
RAREST = 3
"""A word of the vocabulary occurs in at least so many texts."""
SPECIALS = 1 + max(UNKNOWN_INDEX, PADDING_INDEX)
"""The number of the first word; before it are the unknown word and padding."""


@dataclass(frozen=True, eq=False)
class BagVocabulary:
    """V words, from frequent to rare.

    Attributes:
        words: word i has the number i + 2, since 0 is the unknown word and 1 is padding.
        counts: (V,) float32, how often each word occurs in the texts they were taken from.
    """

    words: tuple[str, ...]
    counts: Tensor

    def __len__(self) -> int:
        return len(self.words)

    def number(self, texts: Sequence[str]) -> Ragged:
        """The numbers of the known words of each text; a text without any is one unknown word."""
        rows = (
            [self._numbers[word] for word in tokenize(text) if word in self._numbers] for text in texts
        )
        return Ragged.of(row or [UNKNOWN_INDEX] for row in rows)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: place + SPECIALS for place, word in enumerate(self.words)}


def bag_vocabulary(texts: Sequence[str], limit: int = WORDS) -> BagVocabulary:
    """The most frequent words that can tell texts apart.

    Left out is what has no letter, such as punctuation and numbers, what occurs in more than half of
    the texts, which takes the place of a list of stop words, and what occurs in fewer than 3 of them.

    Args:
        texts: without labels.
        limit: at most so many words.

    Raises:
        InputError: when fewer than two words are left.
    """
    counts, spread = Counter[str](), Counter[str]()
    for text in texts:
        words = Counter(tokenize(text))
        counts.update(words)
        spread.update(words.keys())
    kept = [
        word
        for word, found in spread.items()
        if RAREST <= found <= len(texts) / 2 and any(map(str.isalpha, word))
    ]
    kept = sorted(kept, key=lambda word: (-counts[word], word))[:limit]
    if len(kept) < 2:
        raise InputError(
            f"{len(texts):,} unlabelled texts have {len(kept)} words that occur in at least {RAREST} and"
            " at most half of them, too few to learn topics from; give more texts"
        )
    return BagVocabulary(tuple(kept), torch.tensor([float(counts[word]) for word in kept]))


def bags(ids: Tensor, words: int) -> Tensor:
    """Counts of the words of each text.

    Args:
        ids: (B, T) int64, numbers of a `BagVocabulary`; padding and the unknown word are not counted.
        words: V.

    Returns:
        (B, V) float32.
    """
    counts = torch.zeros(len(ids), SPECIALS + words, device=ids.device)
    ones = torch.ones((), device=ids.device).expand(ids.shape)
    return counts.scatter_add_(1, ids, ones)[:, SPECIALS:]
