"""Why a classifier says what it says: its classes, and how much each word of a text mattered.

Letters: C classes, T words of a text, k words of a window.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
from whenpool.corpora.tokens import UNKNOWN_INDEX, tokenize
from whenpool.explain.checkpoint import Checkpoint
from whenpool.explain.words import WordStrip, attention_weights, per_word, strip
from whenpool.probes import window_importance
from whenpool.probes.nwi import ROUNDING
from whenpool.runs.execute_training import Prepared, trained
from whenpool.runs.training_run import Place, Training, key

LONGEST = 2_000
"""Words that are read of a text, where the checkpoint sets no limit: more would take too long."""
ALIKE = 1e-5
"""Weights that differ by no more of the largest are the same for all words."""
WINDOW, WINDOWS = 5, 10
"""Words of a window (§1.9.3), and windows that a text should have before they are made so long."""


@dataclass(frozen=True)
class Explanation:
    """What a classifier makes of one text.

    Attributes:
        words: T words, as the model reads them.
        probabilities: C numbers in the order of ``classes``.
        predicted, label: the likeliest class, and the one that importance is about.
        k: words that were replaced at once.
        importance: T numbers: by how many nats the log-probability of ``label`` moves, up or down, when
            the word's window is replaced; NaN for the words behind the last full window.
        attention: T weights of the pooling, or None where it has none or all are the same.
        unknown: those of the words that the model has never seen, each once.
        notes: what a reader should know, a sentence each.
    """

    words: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    predicted: str
    label: str
    k: int
    importance: tuple[float, ...]
    attention: tuple[float, ...] | None
    unknown: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def strips(self) -> list[WordStrip]:
        """Importance and, where there is one, attention, on the words."""
        of = self.label if len(self.label) <= 24 else self.label[:24] + "…"
        rows = [strip(self.words, self.importance, f"importance for {of}")]
        return rows + ([strip(self.words, self.attention, "attention")] if self.attention else [])


def checkpoint_of(run: Training, place: Place) -> Checkpoint:
    """The model that a finished run left, where its weights were kept.

    Raises:
        InputError: when the weights, or the run's data, are not here.
    """
    return as_checkpoint(run, trained(run, place), place)


def as_checkpoint(run: Training, found: Prepared, place: Place) -> Checkpoint:
    """A trained model as a checkpoint, with what the store says of its run."""
    row = place.store.get(key(run, place))
    result = row["result"] if row else {}
    about = {name: result.get(name) for name in ("test_accuracy", "validation_accuracy", "train_texts")}
    return Checkpoint(
        found.model.eval(),
        tuple(found.dataset.vocabulary),
        found.dataset.classes,
        {"run": str(run), **about},
        run.max_words,
    )


def explain(
    checkpoint: Checkpoint, text: str, label: str | None = None, k: int | None = None
) -> Explanation:
    """Predict the class of a text, and say how much each word mattered to it.

    Args:
        label: the class to explain; default: the likeliest.
        k: words of a window; default: 5, and fewer in a text that has less than 10 such windows. A text
            shorter than a window is one window.

    Raises:
        InputError: for a text without words, a class that the model does not have, or ``k`` below 1.
    """
    check_label(checkpoint, label)
    if k is not None and k < 1:
        raise InputError(f"k, the words of a window, must be at least 1, not {k}")
    words, whole, notes = checkpoint.words(text), len(tokenize(text)), list[str]()
    if not words:
        raise InputError("the text has no words; give one with at least a word")
    if checkpoint.max_words is None and whole > LONGEST:
        words = words[:LONGEST]
        notes.append(
            f"The first {LONGEST:,} of {whole:,} words are read, to end in time; `predict` reads all."
        )
    elif len(words) < whole:
        notes.append(f"The first {len(words):,} of {whole:,} words are read, as in its training.")
    if k is not None and k > len(words):
        notes.append(f"The text has {len(words)} words, fewer than k={k}: it is one window.")
    k = max(1, min(k or min(WINDOW, len(words) // WINDOWS), len(words)))
    unknown = tuple(dict.fromkeys(word for word in words if not checkpoint.knows(word)))
    if all(word in unknown for word in words):
        notes.append(
            "The model knows none of these words: what it says it would say of any unknown words."
        )
    batch = _batch(checkpoint, words)
    model = checkpoint.model
    with torch.inference_mode():
        probabilities = model(batch.ids, batch.lengths)[0].double().softmax(0)
    predicted = int(probabilities.argmax())
    explained = predicted if label is None else checkpoint.classes.index(label)
    importance = window_importance(
        model, batch.ids, batch.lengths, torch.tensor([explained]), k, UNKNOWN_INDEX
    )[0]
    noise = (1 - probabilities[explained]) * torch.finfo(importance.dtype).eps * ROUNDING
    importance = torch.where(importance > noise, importance, 0.0)
    attention = None
    try:
        weights = attention_weights(model, batch.ids, batch.lengths)[0]
    except InputError:
        notes.append("The pooling of this model gives words no weights.")
    else:
        if len(words) > 1 and weights.max() - weights.min() <= ALIKE * weights.max():
            notes.append("The pooling of this model weighs all words alike.")
        else:
            attention = tuple(weights.tolist())
    return Explanation(
        tuple(words),
        checkpoint.classes,
        tuple(probabilities.tolist()),
        checkpoint.classes[predicted],
        checkpoint.classes[explained],
        k,
        tuple(per_word(importance, len(words), k)),
        attention,
        unknown,
        tuple(notes),
    )


def check_label(checkpoint: Checkpoint, label: str | None) -> None:
    """Raises `InputError` for a class that the model does not have; None is any."""
    if label is not None and label not in checkpoint.classes:
        known = ", ".join(map(repr, checkpoint.classes))
        raise InputError(f"the model has no class {label!r}; it has {known}")


def _batch(checkpoint: Checkpoint, words: Sequence[str]) -> Batch:
    ids = torch.tensor([[checkpoint.number(word) for word in words]])
    return Batch(ids, torch.tensor([len(words)]), torch.zeros(1, dtype=torch.int64))


def in_file(path: Path) -> list[str]:
    """The texts of a file, one a line; empty lines are left out.

    Raises:
        InputError: for a file that is missing, no UTF-8, or has no text.
    """
    try:
        lines = re.split(r"\r?\n", path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise InputError(f"{path} has no text; give one a line")
    return texts
