"""Where an encoder of texts loses what it reads, whatever computes the embeddings (thesis §1.7.1).

Letters: N texts, D numbers of an embedding, F folds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle, product
from typing import Any

import numpy as np

from whenpool.base.errors import InputError, check, check_known
from whenpool.corpora.settings import compose, filler_lengths
from whenpool.probes.sweep import SWEPT

SHARES = (0.0, 1 / 3, 2 / 3, 0.8)
FOLDS = 3  # Each text is tested once, by models that learnt from the other two thirds
FEWEST = 5  # Texts of a class: a fold chooses the regularisation by folds of its own


@dataclass(frozen=True)
class PositionPoint:
    """How much an encoder keeps of texts with one share of filler."""

    setting: str  # where the original stands: "left", "mid" or "right"
    share: float  # filler's part of all words, in [0, 1)
    value: float  # mean cosine, in [-1, 1], or accuracy, in %
    low: float  # the ends of its 95 % interval, over the choice of texts
    high: float


def position_profile(
    embed: Callable[[list[str]], Any],
    texts: Sequence[str],
    filler: Iterable[str],
    labels: Sequence[Any] | None = None,
    shares: Sequence[float] = SHARES,
    settings: Sequence[str] = SWEPT,
) -> list[PositionPoint]:
    """How much of a text is still in its embedding when it is surrounded by filler (§1.7.1). Needs
    scipy, and with labels scikit-learn.

    Without labels the cosine between the embedding of a text and that of the same text in filler.
    With labels the accuracy, in filler, of a logistic regression that learnt from plain texts,
    cross-validated: each text is tested once, by a regression that learnt from others. Raises
    `InputError` for what cannot be read or does not fit, naming it. A text that becomes longer than
    the encoder reads is cut by the encoder: choose shares at which texts fit.

    Args:
        embed: any function from a list of N texts to (N, D) numbers, as an array or a tensor:
            ``SentenceTransformer.encode``, an ONNX session, a served model. It is called once for
            the plain texts and once for each pair of a setting and a share.
        texts: N originals, kept as they are; words are what spaces separate.
        filler: sentences, from the first one on, text after text; they start over when they run
            out.
        labels: N classes, of at least `FEWEST` texts each.
        shares: filler's parts of all words; 0 is computed once and reported for each setting.
        settings: where the original stands, see `whenpool.corpora.settings.compose`.

    Returns:
        A `PositionPoint` for each setting and share, settings in the outer loop, both in the order
        given. The interval of a cosine is Student's, that of an accuracy Wilson's.

    Examples:
        >>> def embed(texts):  # counts the letters a, b and c, and so knows no places
        ...     return [[text.count(letter) for letter in "abc"] for text in texts]
        >>> points = position_profile(embed, ["a a", "b b"], ["c c"], shares=[0, 0.5])
        >>> [(point.setting, point.share, round(point.value, 2)) for point in points[:2]]
        [('left', 0, 1.0), ('left', 0.5, 0.71)]
    """
    originals, sentences = _strings("texts", texts), _strings("filler", filler)
    check(len(originals) > 1, "there is one text; an interval over texts needs two or more")
    for setting in settings:
        check_known("swept setting", setting, SWEPT)
        for share in shares:
            filler_lengths(1, setting, share)  # refuses a wrong share before anything is computed
    folds: list[tuple[np.ndarray, np.ndarray]] = []
    classes: np.ndarray = np.empty(0)
    if labels is not None:
        given = np.asarray(labels, object)
        folds = folds_of(given, len(originals))
        classes = np.unique(given, return_inverse=True)[1]
    plain = _embedded(embed, originals)
    models = [regression().fit(plain[train], classes[train]) for train, _ in folds]

    @cache
    def point(setting: str, share: float) -> tuple[float, float, float]:
        mixed = plain
        if share:
            mixed = _embedded(embed, surrounded(originals, sentences, setting, share))
            same = f"embed gave {plain.shape[1]} numbers a text, and then {mixed.shape[1]}"
            check(mixed.shape == plain.shape, same)
        if not folds:
            lengths = np.linalg.norm(plain, axis=1) * np.linalg.norm(mixed, axis=1)
            return mean_interval((plain * mixed).sum(1) / np.where(lengths > 0, lengths, 1))
        tested = zip(models, folds, strict=True)
        right = [model.predict(mixed[test]) == classes[test] for model, (_, test) in tested]
        return accuracy_interval(np.concatenate(right))

    return [
        PositionPoint(setting, share, *point(setting if share else SWEPT[0], share))
        for setting, share in product(settings, shares)
    ]


def surrounded(
    texts: Sequence[str], filler: Sequence[str], setting: str, share: float
) -> list[str]:
    """The texts in filler sentences, see `position_profile`; each is in one piece, as it was."""
    stream = cycle(sentence.split() for sentence in filler)
    # a text counts as many words as it has, and the first of them is all of it
    rows = ([text, *[""] * (len(text.split()) - 1)] for text in texts)
    return [" ".join(filter(None, compose(row, stream, setting, share))) for row in rows]


def folds_of(labels: np.ndarray, texts: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The texts to learn from and to test, F times. Raises `InputError` for too few of a class, or
    labels that are missing or of several types."""
    from sklearn.model_selection import StratifiedKFold

    check(labels.shape == (texts,), f"{texts} texts need {texts} labels, not {labels.shape}")
    try:
        missing = [text for text, label in enumerate(labels.tolist()) if label != label]
        names, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError:
        kinds = [type(label) for label in labels.tolist()]
        odd = next((text for text, kind in enumerate(kinds) if kind is not kinds[0]), 0)
        several = "labels must be all words or all numbers"
        raise InputError(f"{several}, and labels[{odd}] is {labels[odd]!r:.40}") from None
    check(not missing, f"labels{missing[:1]} is missing (NaN); leave out texts without a label")
    check(len(names) > 1, "there is only one class; give labels of at least two")
    rarest = f"class {names[counts.argmin()]!s:.60} has {counts.min()} texts"
    check(counts.min() >= FEWEST, f"{rarest}; each class needs at least {FEWEST}")
    return [*StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(numbers, numbers)]


def tuned(features: Any, strengths: Sequence[float], class_weight: Any = None) -> Any:
    """Some features and a logistic regression on them, still to be fitted; folds of what it learns
    from choose its regularisation, by accuracy, or with ``class_weight="balanced"`` by macro F1."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    logistic = LogisticRegression(max_iter=2_000, class_weight=class_weight)
    measure = "f1_macro" if class_weight else "accuracy"
    model = make_pipeline(features, logistic)
    return GridSearchCV(model, {"logisticregression__C": strengths}, scoring=measure, cv=FOLDS)


def regression(class_weight: Any = None) -> Any:
    """The same on embeddings (N, D)."""
    from sklearn.preprocessing import StandardScaler

    return tuned(StandardScaler(), [0.001, 0.01, 0.1, 1.0], class_weight)


def mean_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """The mean of N numbers and the ends of its interval, Student's."""
    from scipy.stats import sem, t

    mean, half = float(values.mean()), t.isf((1 - level) / 2, len(values) - 1) * sem(values)
    return mean, mean - half, mean + half


def accuracy_interval(right: np.ndarray) -> tuple[float, float, float]:
    """The accuracy of N answers in %, and the ends of its 95 % interval, Wilson's, which is none of
    a point where all are right."""
    from scipy.stats import binomtest

    found = binomtest(int(right.sum()), len(right))
    low, high = found.proportion_ci(method="wilson")
    return 100 * found.statistic, 100 * low, 100 * high


def _strings(name: str, rows: Iterable[str]) -> list[str]:
    check(not isinstance(rows, str), f"{name} must be a list of strings, not one string")
    found = list(rows)
    check(found, f"{name} is empty; give at least one")
    for number, row in enumerate(found):
        usable = isinstance(row, str) and row.split()
        check(usable, f"{name}[{number}] must be a string with a word, not {row!r:.40}")
    return found


def _embedded(embed: Callable[[list[str]], Any], texts: list[str]) -> np.ndarray:
    """The embeddings (N, D) in float64; raises `InputError` for what are none."""
    made = embed(list(texts))
    made = made.detach().cpu().double().numpy() if hasattr(made, "detach") else made
    try:
        embeddings = np.asarray(made, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"embed must give (N, D) numbers, not {made!r:.60}") from None
    shape, N = embeddings.shape, len(texts)
    check(len(shape) == 2 and shape[0] == N, f"embed must give ({N}, D) numbers, not {shape}")
    check(np.isfinite(embeddings).all(), "embed gave numbers that are infinite or none (NaN)")
    return embeddings
