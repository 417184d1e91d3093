"""Simple classifiers of the same texts, by scikit-learn: where one does as well, no network is needed."""

import time
from collections.abc import Sequence
from functools import partial
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
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler
    except ModuleNotFoundError:
        return {}
    words_and_pairs = TfidfVectorizer(
        tokenizer=str.split, token_pattern=None, lowercase=False, ngram_range=(1, 2), sublinear_tf=True
    )
    ways: dict[str, Any] = {"tfidf": words_and_pairs}
    if vectors is not None:
        means = FunctionTransformer(partial(_means, vectors=vectors))
        ways["vectors"] = make_pipeline(means, StandardScaler())
    train, validation, test = corpus.train, corpus.validation, corpus.test
    found = {}
    for name, features in ways.items():
        started = time.perf_counter()
        read = features.fit_transform(train.texts)
        models = [LogisticRegression(C=C, max_iter=2_000).fit(read, train.labels) for C in STRENGTHS]
        held_out = features.transform(validation.texts)
        scores = [model.score(held_out, validation.labels) for model in models]
        best = models[scores.index(max(scores))]
        right = best.predict(features.transform(test.texts)) == np.asarray(test.labels)
        found[name] = right.astype(float), time.perf_counter() - started
    return found


def _means(texts: Sequence[str], vectors: WordVectors) -> np.ndarray:
    """The mean vector of each text, (N, E): 0 for a text without a word that has one."""
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = [[row_of[word] for word in text.split() if word in row_of] for text in texts]
    none = np.zeros(vectors.size)
    return np.stack([vectors.matrix[row].numpy().mean(0) if row else none for row in rows])
