"""Tagged sentences as numbers, and batches cut from them.

Letters: N sentences, B of them in a batch, T words of the longest in it, W words of all, F columns.

A word has up to three numbers: that of the word in lower case, that of its `suffix`, and that of its `shape`,
so that a word that no training sentence has is known by its suffix and shape.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import Tensor, nn

from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN_INDEX, Batch, Ragged, Texts
from whenpool.corpora.dataset import Splits
from whenpool.corpora.tagged import Tagged, TaggedCorpus
from whenpool.corpora.tokens import WordVectors, build_vocabulary, start_from

PAD_TAG, UNKNOWN_TAG = -100, -1  # Where no word is; and a tag that no training word has


@dataclass(frozen=True)
class NumberedSentences(Texts):
    """N sentences: of each word a row of F numbers, W rows int32, and as labels the tags (W,) of all words,
    int64, `UNKNOWN_TAG` for those that training has not."""

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """The sentences of these numbers (B,), padded to the longest of them: ids (B, T, F), lengths
        (B,), and as labels the tags (B, T), `PAD_TAG` after each sentence's end."""
        places, is_word, lengths, _ = self.ids.places(indices)
        ids = self.ids.flat[places].long()  # (B, T, F)
        ids = ids.masked_fill(~is_word.unsqueeze(-1), padding_index)
        return Batch(ids, lengths, self.labels[places].masked_fill(~is_word, PAD_TAG))


@dataclass(frozen=True)
class NumberedCorpus(Splits):
    """All splits as numbers: `NumberedSentences` each."""

    tags: tuple[str, ...]  # names, in the order of their numbers
    sizes: tuple[int, ...]  # how many different words, suffixes and shapes there are, F of them
    rare: Tensor  # (words,) bool, those that stand once in the training sentences
    seen: Tensor  # (words,) bool, those that stand there at all
    vectors: Tensor | None  # (words, E) to start from
    later: Tensor  # (W,) bool, for each test word whether only a later one decides its tag
    spelling: Tensor | None = None  # (forms, L), see `whenpool.models.sequence_tagger.Spelling`


def number(
    corpus: TaggedCorpus, with_features: bool = True, vectors: WordVectors | None = None, seed: int = 0,
    with_spelling: bool = False,
) -> NumberedCorpus:  # fmt: skip
    """Number the words and tags of a corpus; ``with_features`` suffix and shape as well, F = 3,
    ``with_spelling`` also the number of the form in which a word is written. Words that have ``vectors``
    are known even where no training sentence has them; the ``seed`` draws those of words that have none."""
    counts = Counter(word.lower() for sentence in corpus.train for word in sentence.words)
    known = set(vectors.words) if vectors else set()
    others = [*corpus.validation, *corpus.test]
    unseen = known & ({word.lower() for s in others for word in s.words} - counts.keys())
    among = counts | dict.fromkeys(sorted(unseen), 1)  # what has no count is left out
    words = build_vocabulary(among, len(among))
    features: list[Any] = [(str.lower, words | {PADDING: UNKNOWN_INDEX})]  # if a text has such a word
    for feature in (suffix, shape) if with_features else ():
        values = sorted({feature(word) for sentence in corpus.train for word in sentence.words})
        features.append((feature, {value: i for i, value in enumerate(values, PADDING_INDEX + 1)}))
    sizes = (len(words), *(len(numbers) + PADDING_INDEX + 1 for _, numbers in features[1:]))
    spelling = None
    if with_spelling:
        forms, spelling = spelled(corpus)
        features.append((str, forms))
    number_of = {tag: place for place, tag in enumerate(corpus.tags)}

    def numbered(sentences: Sequence[Tagged]) -> NumberedSentences:
        words = [word for sentence in sentences for word in sentence.words]
        row_of = {  # a word is looked at once
            word: [numbers.get(feature(word), UNKNOWN_INDEX) for feature, numbers in features]
            for word in set(words)
        }
        rows = torch.tensor([row_of[word] for word in words], dtype=torch.int32)  # (W, F)
        offsets = torch.tensor([0, *accumulate(map(len, sentences))])
        tags = [number_of.get(tag, UNKNOWN_TAG) for sentence in sentences for tag in sentence.tags]
        return NumberedSentences(Ragged(rows, offsets), torch.tensor(tags))

    frequency = torch.tensor([counts.get(word, 0) for word in words])
    return NumberedCorpus(
        **{name: numbered(part) for name, part in corpus.splits.items()}, tags=corpus.tags, sizes=sizes,
        rare=frequency == 1, seen=frequency > 0, vectors=start_from(vectors, words, seed),
        later=torch.tensor([i in s.later for s in corpus.test for i in range(len(s))]),
        spelling=spelling,
    )  # fmt: skip


def spelled(corpus: TaggedCorpus) -> tuple[dict[str, int], Tensor]:
    """The number of each written form of all splits, and their first 20 letters (forms, L): 1 stands for a
    letter that no training word has, 0 for none."""
    letters = sorted({letter for s in corpus.train for word in s.words for letter in word})
    number_of = {letter: place for place, letter in enumerate(letters, 2)}
    forms = sorted({word for part in corpus.splits.values() for s in part for word in s.words})
    rows = [[number_of.get(letter, 1) for letter in form[:20]] for form in forms]
    no_word = [torch.ones(1, dtype=torch.int64)] * (PADDING_INDEX + 1)  # padding and unknown
    table = nn.utils.rnn.pad_sequence([*no_word, *map(torch.tensor, rows)], batch_first=True)
    return {form: place for place, form in enumerate(forms, PADDING_INDEX + 1)}, table


def suffix(word: str) -> str:
    """The last three letters of a word, in lower case: "ing" of "Walking"."""
    return word[-3:].lower()


def shape(word: str) -> str:
    """Upper and lower case, digits and other signs, each run once: "Xx" of "Chicago", "dx" of "1990s"."""
    tests = {"X": str.isupper, "x": str.islower, "d": str.isdigit}
    kinds = (next((kind for kind, holds in tests.items() if holds(letter)), ".") for letter in word)
    return "".join(kind for kind, _ in groupby(kinds))[:8]
