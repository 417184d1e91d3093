"""Simple classifiers of the same texts, by scikit-learn: where one does as well, no network is needed."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whenpool.corpora.corpus import Corpus
from whenpool.corpora.tokens import WordVectors

BASELINES = {
    "tfidf": "TF-IDF with logistic regression",
    "vectors": "mean of the word vectors with logistic regression",
}
"""Their names in sentences."""
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Values of C, of which the validation texts choose one."""


def baselines(corpus: Corpus, vectors: WordVectors | None) -> dict[str, tuple[np.ndarray, float]]:
    """Which test texts each baseline puts into their class, (N,) of 0 and 1, and its seconds; none without
    scikit-learn, and no mean of vectors without pretrained ones.

    Args:
        corpus: texts as runs read them, words separated by spaces.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import StandardScaler
    except ModuleNotFoundError:
        return {}
    parts = (corpus.train, corpus.validation, corpus.test)

    def by_tfidf() -> list[Any]:
        words = TfidfVectorizer(
            tokenizer=str.split,
            token_pattern=None,
            lowercase=False,
            ngram_range=(1, 2),
            sublinear_tf=True,
        )
        words.fit(parts[0].texts)
        return [words.transform(part.texts) for part in parts]

    def by_vectors() -> list[Any]:
        assert vectors is not None
        row_of = {word: row for row, word in enumerate(vectors.words)}
        means = []
        for part in parts:
            rows = [[row_of[word] for word in text.split() if word in row_of] for text in part.texts]
            none = np.zeros(vectors.size)
            means.append(
                np.stack([vectors.matrix[row].numpy().mean(0) if row else none for row in rows])
            )
        scaler = StandardScaler().fit(means[0])
        return [scaler.transform(mean) for mean in means]

    labels = [np.asarray(part.labels) for part in parts]
    ways: dict[str, Callable[[], list[Any]]] = {"tfidf": by_tfidf}
    if vectors is not None:
        ways["vectors"] = by_vectors
    found = {}
    for name, features in ways.items():
        started = time.perf_counter()
        right = _right(features(), labels)
        found[name] = right, time.perf_counter() - started
    return found


def _right(features: Sequence[Any], labels: Sequence[np.ndarray]) -> np.ndarray:
    """Of the test texts, by the logistic regression that is best on the validation texts."""
    from sklearn.linear_model import LogisticRegression

    (train, validation, test), (known, chosen_by, wanted) = features, labels
    models = [LogisticRegression(C=C, max_iter=2_000).fit(train, known) for C in STRENGTHS]
    best = max(models, key=lambda model: model.score(validation, chosen_by))
    return (best.predict(test) == wanted).astype(float)
