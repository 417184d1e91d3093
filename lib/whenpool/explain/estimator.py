"""A text classifier with a pooling of your choice, as a scikit-learn estimator."""

import json
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, fields
from enum import Enum
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d

from whenpool.base.devices import check_device, seeded
from whenpool.base.errors import InputError, check, check_known
from whenpool.base.paths import cache_directory
from whenpool.corpora import tokens
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN, Splits, Texts
from whenpool.explain.checkpoint import (
    READS,
    TOKENIZERS,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import Recipe, Weighted, train

if TYPE_CHECKING:
    from whenpool.explain.explanation import Explanation


@dataclass(eq=False, repr=False)
class PoolingClassifier(ClassifierMixin, BaseEstimator):
    """The model of the thesis as a scikit-learn estimator (§1.3). It keeps the weights of the epoch
    with the best validation accuracy (§1.4.2); if epochs tie, of the one with the lowest validation
    loss. HTML tags are no part of a text, and its entities are read as the letters that they stand
    for.

    Args:
        pooling: a name in `whenpool.POOLINGS`; "last" is the BiLSTM without pooling.
        cell: "lstm", "gru", "elman" and others, see `whenpool.TextClassifier`.
        forget_bias: how the gates start, see there; without pooling try "chrono".
        embedding_size, hidden_size: numbers of a word's vector, if random; units per direction.
        epochs, batch_size, learning_rate: of training.
        class_weight: a dict of a positive number for each class, 1 for those that it leaves out;
            "balanced": all classes count alike, whatever their texts; None: all texts count alike.
            It weighs the loss of a text and, as scikit-learn's classifiers that stop early do, the
            accuracy and loss that choose the epoch.
        vectors: a file of word vectors in GloVe's text format, maybe gzipped; None: random ones.
        vocabulary_limit: the most frequent words that get a vector.
        max_words: how many words from the start of a text are read; None: all.
        tokenizer: how a text becomes words, a name in `whenpool.explain.checkpoint.TOKENIZERS`;
            "spaces" for texts that are cut into words already.
        validation_fraction: part of the texts that is held out to choose the epoch.
        seed: of initialisation, order of batches and the texts that are held out.
        device: "cpu" or "cuda".

    Attributes:
        classes_: (C,) the labels, sorted.
        checkpoint_: the trained model with its vocabulary, a `whenpool.Checkpoint`.
        history_: a dict for each epoch, see `whenpool.training.loop.Epoch`; not after `load`.
        best_epoch_: the epoch, from 1, whose weights are kept; not after `load`.

    Examples:
        >>> texts = ["a fine film", "a dull film", "fine music", "dull music"] * 5
        >>> labels = ["good", "bad", "good", "bad"] * 5
        >>> model = PoolingClassifier("max_attention", hidden_size=16, learning_rate=0.02)
        >>> model = model.fit(texts, labels)
        >>> model.predict(["a fine book"]).tolist()
        ['good']
    """

    # none of these is metadata that a pipeline would have to route, as it does sample_weight; so
    # scikit-learn adds no methods for it
    __metadata_request__fit = dict.fromkeys(("texts", "labels", "validation"), UNUSED)
    __metadata_request__predict = {"texts": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"texts": UNUSED}  # noqa: RUF012

    pooling: str = "max_attention"
    _: KW_ONLY
    cell: str = "lstm"
    forget_bias: float | str | None = "thesis"
    embedding_size: int = 100
    hidden_size: int = 64
    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 2e-3
    class_weight: dict[Any, float] | str | None = None
    vectors: str | Path | None = None
    vocabulary_limit: int = tokens.VOCABULARY_LIMIT
    max_words: int | None = None
    tokenizer: str = READS
    validation_fraction: float = 0.1
    seed: int = 0
    device: str = "cpu"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.input_tags.one_d_array, tags.no_validation = True, True
        return tags

    def fit(
        self,
        texts: Iterable[str],
        labels: Iterable[Any],
        validation: tuple[Iterable[str], Iterable[Any]] | None = None,
        *,
        sample_weight: Any = None,
    ) -> Self:
        """Train on N texts and their labels, which may be of any type that can be sorted. Raises
        `InputError` for texts or labels that cannot be used, or a parameter out of its range.
        ``validation``, texts and labels, chooses the epoch; without it a part of the texts is held
        out, and where there are too few, the training texts choose, with a warning.
        ``sample_weight``, N numbers, multiplies the weights of the classes, also where a part of
        the texts chooses the epoch; each of the ``validation`` texts has the weight of its class
        alone. A text of weight 0 counts as one that is not there."""
        self._check_parameters()
        words, of_texts = self._pairs(texts, labels)
        weights = _checked_weights(sample_weight, len(words))  # (N,)
        rows = weights.nonzero()[0]
        words, of_texts, weights = _taken(words, rows), of_texts[rows], weights[rows]
        try:
            self.classes_, targets = np.unique(of_texts, return_inverse=True)
        except TypeError:  # of an `Enum`, for example
            raise InputError(
                f"labels of the type {type(of_texts[0]).__name__} have no order"
                "; give words or numbers, as [y.name for y in labels]"
            ) from None
        check(len(self.classes_) >= 2, "there is only one class; give labels of at least two")
        of_class = self._class_weights(of_texts)  # (C,)
        weights *= of_class[targets]
        if validation is not None:
            held_words, named = self._pairs(*validation, "validation ")
            check(
                np.isin(named, self.classes_).all(),
                "validation has a class without training texts; leave it out",
            )
            held = np.searchsorted(self.classes_, named)
            judging = of_class[held]
        else:
            learnt, apart = self._held_out(targets)
            held_words, held, judging = _taken(words, apart), targets[apart], weights[apart]
            words, targets, weights = _taken(words, learnt), targets[learnt], weights[learnt]
        vectors = None
        if self.vectors:
            vectors = tokens.load_vectors(Path(self.vectors), cache_directory())
        vocabulary = tokens.build_vocabulary(Counter(chain(*words)), int(self.vocabulary_limit))
        train_texts = Texts(tokens.number(words, vocabulary), torch.tensor(targets))
        judged = Texts(tokens.number(held_words, vocabulary), torch.tensor(held))
        # a search may give numpy's numbers
        seed, start = int(self.seed), cast(Any, self.forget_bias)
        with seeded(seed, self.device):
            model = TextClassifier(
                len(vocabulary),
                len(self.classes_),
                self.pooling,
                self.cell,
                vectors.size if vectors else int(self.embedding_size),
                int(self.hidden_size),
                forget_bias=float(start) if isinstance(start, Real) else start,
                padding_index=PADDING_INDEX,
                vectors=tokens.start_from(vectors, vocabulary, seed),
            )
            objective = None
            if self.class_weight is not None or sample_weight is not None:
                objective = Weighted(torch.from_numpy(weights), torch.from_numpy(judging))
            sizes = int(self.epochs), int(self.batch_size)
            recipe = Recipe(*sizes, self.learning_rate, by_loss=True)
            splits = Splits(train_texts, judged, judged)
            outcome = train(model, splits, recipe, seed, self.device, objective=objective)
        names, limit = tuple(map(str, self.classes_)), self.max_words and int(self.max_words)
        self.checkpoint_ = Checkpoint(
            model.cpu().eval(), tuple(vocabulary), names, {}, limit, self.tokenizer
        )
        self.history_, self.best_epoch_ = outcome.history_rows(), outcome.best_epoch
        return self

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """N texts -> (N, C), each row sums to 1; a text without words counts as one unknown
        word."""
        check_is_fitted(self, "checkpoint_")
        read = [text if self.checkpoint_.words(text) else UNKNOWN for text in tokens.strings(texts)]
        if not read:
            return np.zeros((0, len(self.classes_)))
        return self.checkpoint_.probabilities(read).numpy()

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """N texts -> (N,) labels, the likeliest of each."""
        places = self.predict_proba(texts).argmax(1)  # raises where it is not fitted
        return self.classes_[places]

    def explain(self, text: str, label: Any = None) -> "Explanation":
        """How much each word of a text mattered to a label, by default the likeliest."""
        from whenpool.explain.explanation import explain

        check_is_fitted(self, "checkpoint_")
        if label in (classes := self.classes_.tolist()):  # 1 is 1.0, and True
            label = self.checkpoint_.classes[classes.index(label)]
        return explain(self.checkpoint_, text, None if label is None else str(label))

    def save(self, folder: str | Path) -> Path:
        """Write the trained classifier into a folder, as a checkpoint: safetensors and JSON, no
        pickle.
        Raises `InputError` for labels that are neither strings nor numbers."""
        check_is_fitted(self, "checkpoint_")
        made, kinds = self.checkpoint_, {type(label).__name__ for label in self.classes_.tolist()}
        for kind in kinds - {"str", "int", "float", "bool"}:
            raise InputError(
                f"labels of the type {kind} cannot be saved; train with strings or numbers"
            )
        facts = self.get_params() | {"labels": self.classes_.tolist()}
        if isinstance(self.class_weight, dict):  # whose names keys of JSON, all words, could not be
            facts["class_weight"] = [*self.class_weight.items()]
        kept = json.dumps(facts, default=lambda v: v.item() if hasattr(v, "item") else str(v))
        parts = made.model, made.vocabulary, made.classes, made.max_words, made.tokenizer
        return save_checkpoint(folder, *parts, estimator=kept)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A classifier that `save` wrote. Raises `InputError` for a folder that holds none."""
        made = load_checkpoint(folder)
        other = f"{folder} is not a saved PoolingClassifier; use whenpool.load_checkpoint"
        check("estimator" in made.about, other)
        facts = json.loads(str(made.about["estimator"]))
        labels = np.asarray(facts.pop("labels"))
        if isinstance(weights := facts.get("class_weight"), list):
            facts["class_weight"] = dict(weights)
        facts.setdefault("tokenizer", made.tokenizer)  # of an older classifier
        classifier = cls(**facts)
        classifier.classes_, classifier.checkpoint_ = labels, made
        return classifier

    def _check_parameters(self) -> None:
        """Raises `InputError` for a parameter out of its range; grids of a search give numpy's
        numbers."""
        for field in fields(self):
            value, least = getattr(self, field.name), int(field.name != "seed")
            if field.type is int or (field.name == "max_words" and value is not None):
                check(
                    isinstance(value, Integral) and int(value) >= least,
                    f"{field.name} must be a whole number from {least}, not {value!r}",
                )
        for name in ("validation_fraction", "learning_rate"):
            part: Any = getattr(self, name)
            fits = isinstance(part, Real) and 0 < part < 1  # type: ignore[operator]
            check(fits, f"{name} must be a number between 0 and 1, not {part!r}")
        check(
            self.vectors is None or isinstance(self.vectors, str | Path),
            f"vectors must be the path of a file or None, not a {type(self.vectors).__name__}",
        )
        start = self.forget_bias
        check(
            start is None or isinstance(start, str | Real),
            f"forget_bias must be a number, a name or None, not {start!r}",
        )
        check_known("tokenizer", self.tokenizer, TOKENIZERS)
        check_device(str(self.device))

    def _class_weights(self, labels: np.ndarray) -> np.ndarray:
        """(C,) what ``class_weight`` says; raises `InputError` for what it cannot be."""
        weights, names = self.class_weight, self.classes_.tolist()
        if isinstance(weights, dict):
            unknown = [name for name in weights if name not in names]
            check(
                not unknown,
                f"class_weight has {unknown!r:.60}, no classes; choose from {names!r:.300}",
            )
            check(
                all(isinstance(of, Real) and 0 < of < np.inf for of in weights.values()),
                f"class_weight must be positive numbers, not {[*weights.values()]!r:.60}",
            )
            # scikit-learn rounds the names
            return np.array([float(weights.get(name, 1)) for name in names])
        check(
            weights is None or weights == "balanced",
            f'class_weight must be "balanced", a dict or None, not {weights!r:.60}',
        )
        return compute_class_weight(weights, classes=self.classes_, y=labels)

    def _held_out(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows to train on, and those that choose the epoch: the same where there are too
        few."""
        rows, sizes = np.arange(len(targets)), np.bincount(targets)
        count = max(round(self.validation_fraction * len(rows)), len(sizes))
        if len(rows) < max(5 * len(sizes), 2 * count):
            few = "too few texts to hold some out: the training texts choose the epoch"
            warnings.warn(few, stacklevel=3)
            return rows, rows
        alone = sizes[targets] == 1  # the only text of its class is learnt from
        how = {"test_size": count, "random_state": int(self.seed), "stratify": targets[~alone]}
        learnt, held_out = train_test_split(rows[~alone], **how)
        return np.append(learnt, rows[alone]), held_out

    def _pairs(
        self, texts: Iterable[str], labels: Iterable[Any], which: str = ""
    ) -> tuple[list[list[str]], np.ndarray]:
        """The words of each text, and the labels. Raises `InputError` where they are not N of
        each."""
        listed = tokens.strings(texts)
        check(
            not tokens.without_spaces(listed),
            "the texts have no spaces between words; add them with a segmenter",
        )
        words = [TOKENIZERS[self.tokenizer](text)[: self.max_words] or [UNKNOWN] for text in listed]
        try:
            plain = pd.Series | pd.Index | pd.api.extensions.ExtensionArray
            table = hasattr(labels, "shape") and not isinstance(labels, plain)
            column = pd.Series(column_or_1d(labels) if table else list(labels))
        except ValueError as error:
            raise InputError(
                f"labels must be one class for each text, as one column: {error}"
            ) from None
        many = [row for row, label in enumerate(column) if pd.api.types.is_list_like(label)]
        check(
            not many,
            f"labels {many[:3]} are no single class; give "
            "one class for each text; for several use MultiLabelBinarizer and OneVsRestClassifier",
        )
        missing = [row for row, label in enumerate(column) if pd.isna(label) or label == ""]
        check(not missing, f"labels {missing[:3]} are missing; leave their texts out")
        kinds = {isinstance(label, str) for label in column}
        check(
            len(kinds) < 2, "some labels are words and others are not; write all of them as words"
        )
        regression = column.dtype.kind == "f" and column.nunique() > max(20, len(column) / 2)
        check(not regression, "labels must be classes; these numbers are nearly all different")
        counts = f"there are {len(words)} {which}texts and {len(column)} labels; give one for each"
        check(len(words) == len(column) > 0, counts)
        # of a class C(str, Enum) numpy would keep "C.A" instead of the value, cut to the value's
        # length
        values = [
            v.value if isinstance(v, Enum) and isinstance(v, str | int) else v for v in column
        ]
        return words, np.asarray(values)


def _taken(texts: list[list[str]], rows: np.ndarray) -> list[list[str]]:
    return [texts[row] for row in rows]


def _checked_weights(sample_weight: Any, texts: int) -> np.ndarray:
    """(N,) of as many ``texts``; raises `InputError` for what cannot weigh them."""
    try:
        rows = np.empty((texts, 1))
        weights = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must be a number from 0 for each text: {error}") from None
    check(weights.any(), "no text has a weight above 0; give some texts a larger sample_weight")
    return weights
