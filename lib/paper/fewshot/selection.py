"""Which texts a few-shot run reads, and which of them with their labels (thesis §1.10)."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whenpool.base.errors import check
from whenpool.base.files import json_lines
from whenpool.corpora import Corpus
from whenpool.corpora.corpus import Split
from whenpool.corpora.tokens import tokenize


@dataclass(frozen=True)
class Selection:
    """The texts of one run, see `select`; those of validation and test are the same for every
    seed."""

    labelled: Split
    unlabelled: list[str]
    validation: Split
    test: Split


def select(
    corpus: Corpus,
    per_class: int,
    seed: int,
    unlabelled: int = 0,
    validation: int | None = None,
    test: int | None = None,
) -> Selection:
    """Draw the texts of a run: ``per_class`` labelled ones of each class, so many ``unlabelled``
    others, and the first of ``validation`` and ``test``; where there are fewer, all.

    A seed puts the training texts into one order. The first of each class are labelled, so that
    fewer labels are part of more, and the last are the unlabelled ones. Systems with the same seed
    read the same texts. Raises `InputError` for a class with fewer training texts than asked for.

    Examples:
        >>> corpus = whenpool.load("synthetic:train=60,validation=20,test=40")
        >>> len(select(corpus, per_class=3, seed=0).labelled)
        6
    """
    train, order = corpus.train, list(range(len(corpus.train)))
    random.Random(f"few-shot {seed}").shuffle(order)
    labelled: set[int] = set()
    for label, name in enumerate(corpus.classes):
        of_class = [index for index in order if train.labels[index] == label]
        check(
            len(of_class) >= per_class,
            f"corpus {corpus.name or 'given'}: class {name!r} has {len(of_class)} training texts, "
            f"but {per_class} per class are needed; choose fewer labels, or add texts",
        )
        labelled.update(of_class[:per_class])
    rest = [index for index in reversed(order) if index not in labelled]
    chosen = [index for index in order if index in labelled]
    return Selection(
        Split([train.texts[i] for i in chosen], [train.labels[i] for i in chosen]),
        [train.texts[i] for i in rest[:unlabelled]],
        corpus.validation[: validation or len(corpus.validation)],
        corpus.test[: test or len(corpus.test)],
    )


class TfIdfReplacement:
    """Words that say little about a text are replaced by words that say little about any (Xie et
    al. 2020, Appendix A.2). A word is the likelier to go, the lower its TF-IDF in the text; what
    comes is drawn from the vocabulary of the N ``texts``, the likelier, the lower its frequency
    times IDF, ln(N / texts with the word). p is the mean probability to be replaced, 0.7 in the
    paper for DBPedia."""

    def __init__(self, texts: Sequence[Sequence[str]], p: float = 0.7) -> None:
        frequency = Counter(word for words in texts for word in words)
        holding = Counter(word for words in texts for word in {*words})
        self.p = p
        self.words = sorted(frequency)
        self._idf = {word: math.log(len(texts) / holding[word]) for word in self.words}
        scores = np.array([frequency[word] * self._idf[word] for word in self.words])  # (V,)
        room = scores.max() - scores
        room = room if room.any() else np.ones_like(room)  # all words may be alike
        self._until = np.cumsum(room) / room.sum()  # (V,), each word's part of 0 to 1 ends here

    def probabilities(self, words: Sequence[str]) -> np.ndarray:
        """Of each word of one of the texts to be replaced, (n,): min(p (C - TFIDF) / Z, 1), C the
        largest, Z the mean of that."""
        count = Counter(words)
        tf_idf = np.array([count[word] / len(words) * self._idf[word] for word in words])
        room = tf_idf.max(initial=0.0) - tf_idf
        return np.minimum(self.p * room / room.mean(), 1.0) if room.any() else np.zeros(len(words))

    def augment(self, texts: Sequence[str], seed: int) -> list[str]:
        """A version of each text, lower-case words with spaces between, by the seed and its place
        alone; a word may be replaced by itself."""
        versions = []
        for number, words in enumerate(map(tokenize, texts)):
            random = np.random.default_rng([seed, number])
            goes = random.random(len(words)) < self.probabilities(words)
            numbers = np.searchsorted(self._until, random.random(int(goes.sum())), side="right")
            come = iter(numbers.clip(max=len(self.words) - 1))  # the end of 1 may be rounded
            pairs = zip(words, goes, strict=True)
            versions.append(
                " ".join(self.words[next(come)] if gone else word for word, gone in pairs)
            )
        return versions


def load_paraphrases(file: Path, texts: Sequence[str]) -> list[list[str]]:
    """Paraphrases of texts, such as back-translations, from a ``file`` with a JSON object a line,
    ``{"text": "...", "paraphrases": ["...", ...]}``: of each text, looked up letter by letter, the
    first K, the smallest number that any of these texts has. Raises `InputError` for a line that
    cannot be used."""
    versions: dict[str, list[str]] = {}
    expected = '{"text": "...", "paraphrases": ["...", ...]} with at least one paraphrase'
    for where, item in json_lines(file, expected):
        listed = item.get("paraphrases")
        texts_of_line = [item.get("text"), *listed] if isinstance(listed, list) else []
        check(
            len(texts_of_line) > 1 and all(isinstance(text, str) for text in texts_of_line),
            f"{where}: expected {expected}",
        )
        versions.setdefault(texts_of_line[0], []).extend(texts_of_line[1:])
    missing = next((text for text in texts if text not in versions), "")
    none = f"{file} has no paraphrases of {missing!r:.60}; add a line with exactly this text"
    check(not missing, none)
    K = min(len(versions[text]) for text in texts)
    return [versions[text][:K] for text in texts]
