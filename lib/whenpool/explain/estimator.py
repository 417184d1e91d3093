"""A text classifier with a pooling of your choice, as a scikit-learn estimator."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from whenpool.base.errors import InputError, check
from whenpool.base.paths import cache_directory
from whenpool.corpora import tokens
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.dataset import Splits
from whenpool.explain.checkpoint import Checkpoint, load_checkpoint, save_checkpoint, strings
from whenpool.explain.explanation import Explanation, explain
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import Recipe, train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.model_selection import train_test_split
    from sklearn.utils.metadata_routing import UNUSED
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError:
    raise InputError("PoolingClassifier needs scikit-learn: pip install 'whenpool[sklearn]'") from None


@dataclass(eq=False, repr=False)
class PoolingClassifier(ClassifierMixin, BaseEstimator):
    """The model of the thesis as a scikit-learn estimator (§1.3).

    It is trained by Adam, and keeps the weights of the epoch with the best validation accuracy (§1.4.2).

    Args:
        pooling: a name in `whenpool.POOLINGS`; "last" is the BiLSTM without pooling.
        cell: "lstm", "gru", "elman" and others, see `whenpool.TextClassifier`.
        embedding_size: numbers of a word's vector; word vectors from a file bring their own.
        hidden_size: units per direction.
        epochs, batch_size, learning_rate: of training.
        vectors: a file of word vectors in GloVe's text format, maybe gzipped; None: random ones.
        vocabulary_limit: the most frequent words that get a vector.
        max_words: so many of a text's first words are read; None: all.
        validation_fraction: part of the texts that is held out to choose the epoch, where `fit` is given
            no validation texts.
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

    # none of these is metadata that a pipeline would have to route
    __metadata_request__fit = dict.fromkeys(("texts", "labels", "validation"), UNUSED)
    __metadata_request__predict = {"texts": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"texts": UNUSED}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": UNUSED}  # noqa: RUF012

    pooling: str = "max_attention"
    _: KW_ONLY
    cell: str = "lstm"
    embedding_size: int = 100
    hidden_size: int = 64
    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 2e-3
    vectors: str | Path | None = None
    vocabulary_limit: int = tokens.VOCABULARY_LIMIT
    max_words: int | None = None
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
    ) -> Self:
        """Train on N texts and their labels. Raises `InputError` for texts that are no strings, another
        number of labels, missing ones, fewer than two classes, a class in ``validation`` that the training
        texts do not have, no epochs, a part to hold out that is none, or an unknown pooling or cell.

        Args:
            texts: N strings.
            labels: the N labels, of any type that can be sorted.
            validation: texts and labels that choose the epoch; None: a part of the texts is held out.
        """
        check(self.epochs >= 1, f"epochs must be at least 1, not {self.epochs}")
        share = self.validation_fraction
        check(0 < share < 1, f"validation_fraction must be between 0 and 1, not {share}")
        words, listed = self._words(texts), list(labels)
        lost = next((n for n, label in enumerate(listed) if label is None or label != label), None)
        check(lost is None, f"label {lost} is missing; leave its text out")
        given = np.asarray(listed)
        if len(words) != len(given):
            raise InputError(f"there are {len(words)} texts and {len(given)} labels; give one for each")
        self.classes_, targets = np.unique(given, return_inverse=True)
        check(len(self.classes_) >= 2, "there is only one class; give labels of at least two")
        if validation is not None:
            held_words, named = self._words(validation[0]), np.asarray(list(validation[1]))
            if not np.isin(named, self.classes_).all():
                raise InputError("validation has a class without training texts; leave it out")
            held = np.searchsorted(self.classes_, named)
        else:
            count = round(share * len(words))
            held_words, held = words, targets  # the same where there are too few
            if min(count, len(words) - count) >= len(self.classes_) and np.bincount(targets).min() > 1:
                words, held_words, targets, held = train_test_split(
                    words, targets, test_size=count, stratify=targets, random_state=self.seed
                )
        vectors = tokens.load_vectors(Path(self.vectors), cache_directory()) if self.vectors else None
        vocabulary = tokens.build_vocabulary(Counter(chain(*words)), self.vocabulary_limit)

        def numbered(texts: list[list[str]], targets: np.ndarray) -> Texts:
            rows = ([vocabulary.get(word, UNKNOWN_INDEX) for word in text] for text in texts)
            return Texts(Ragged.of(rows), torch.tensor(targets))

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = TextClassifier(
                len(vocabulary), len(self.classes_), self.pooling, self.cell,
                vectors.size if vectors else self.embedding_size, self.hidden_size,
                padding_index=PADDING_INDEX, vectors=tokens.start_from(vectors, vocabulary, self.seed),
            )  # fmt: skip
            learnt, judged = numbered(words, targets), numbered(held_words, held)
            recipe = Recipe(self.epochs, self.batch_size, self.learning_rate)
            outcome = train(model, Splits(learnt, judged, judged), recipe, self.seed, self.device)
        names = tuple(map(str, self.classes_))
        model = model.cpu().eval()
        self.checkpoint_ = Checkpoint(model, tuple(vocabulary), names, {}, self.max_words)
        self.history_, self.best_epoch_ = outcome.history_rows(), outcome.best_epoch
        return self

    def predict_proba(self, texts: Iterable[str]) -> np.ndarray:
        """N texts -> (N, C), each row sums to 1; a text without words counts as one unknown word."""
        check_is_fitted(self, "checkpoint_")
        read = [text if self.checkpoint_.words(text) else UNKNOWN for text in strings(texts)]
        if not read:
            return np.zeros((0, len(self.classes_)))
        return self.checkpoint_.probabilities(read).numpy()

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """N texts -> (N,) labels, the likeliest of each."""
        places = self.predict_proba(texts).argmax(1)  # raises where it is not fitted
        return self.classes_[places]

    def explain(self, text: str, label: Any = None) -> Explanation:
        """How much each word of a text mattered to a label, by default the likeliest; see
        `whenpool.explain.explanation.explain`."""
        check_is_fitted(self, "checkpoint_")
        return explain(self.checkpoint_, text, None if label is None else str(label))

    def save(self, folder: str | Path) -> Path:
        """Write the trained classifier into a folder, as a checkpoint: safetensors and JSON, no pickle."""
        check_is_fitted(self, "checkpoint_")
        found = self.checkpoint_
        parts = (found.model, found.vocabulary, found.classes, found.max_words)
        own = {"vectors": self.vectors and str(self.vectors), "labels": self.classes_.dtype.str}
        return save_checkpoint(folder, *parts, estimator=json.dumps(self.get_params() | own))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A classifier that `save` wrote. Raises `InputError` for a folder that holds none."""
        found = load_checkpoint(folder)
        try:
            about = json.loads(str(found.about["estimator"]))
            labels = np.dtype(about.pop("labels"))
            self = cls(**about)
            names = [name == "True" if labels.kind == "b" else name for name in found.classes]
            self.classes_ = np.asarray(names, labels)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder} is not a saved PoolingClassifier: {error!s:.200}") from None
        self.checkpoint_ = found
        return self

    def _words(self, texts: Iterable[str]) -> list[list[str]]:
        return [tokens.tokenize(text)[: self.max_words] or [UNKNOWN] for text in strings(texts)]
