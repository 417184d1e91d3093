"""Why a classifier says what it says: its classes, and how much each word of a text mattered.

Letters: C classes, T words of a text, k words of a window.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from jinja2 import Environment, PackageLoader

from whenpool.base.errors import InputError
from whenpool.base.files import lines_of
from whenpool.corpora.tokens import UNKNOWN_INDEX, tokenize
from whenpool.explain.checkpoint import Checkpoint
from whenpool.explain.words import WordStrip, attention_weights, per_word, strip, strips
from whenpool.probes import window_importance
from whenpool.probes.nwi import ROUNDING
from whenpool.runs.kinds.training import Prepared, Training, trained
from whenpool.runs.run import Place, key

LONGEST = 2_000
"""Words that are read of a text, where the checkpoint sets no limit: more would take too long."""
ALIKE = 1e-5
"""Weights that differ by no more of the largest are the same for all words."""
WINDOW, WINDOWS = 5, 10
"""Words of a window (§1.9.3), and windows that a text should have before they are made so long."""
SHADES = (None, 223, 216, 209, 202)
"""Backgrounds of a terminal with 256 colours, for words of rising weight; text on them is black."""


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

    @property
    def strips_html(self) -> str:
        return strips(self.strips).html

    @property
    def by_probability(self) -> list[tuple[str, float]]:
        """The classes, the likeliest first."""
        return sorted(zip(self.classes, self.probabilities, strict=True), key=lambda pair: -pair[1])

    @property
    def verdict(self) -> str:
        return f"{_printable(self.predicted)} ({max(self.probabilities):.1%})"

    @property
    def remarks(self) -> list[str]:
        """What a reader should know of the numbers, and the notes."""
        remarks = ["Importance says how far the class's log-probability moves, up or down."]
        if self.k > 1:
            remarks.append(f"It is that of windows of {self.k} words.")
        if rest := len(self.words) % self.k:
            last = "The last word stands" if rest == 1 else f"The last {rest} words stand"
            remarks.append(f"{last} behind the last full window, without importance.")
        if self.unknown:
            some = ", ".join(map(_printable, self.unknown[:10]))
            more = " …" if len(self.unknown) > 10 else ""
            remarks.append(f"Words that the model does not know: {some}{more}.")
        return [*remarks, *self.notes]


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
    model, classes = checkpoint.model, checkpoint.classes
    ids = torch.tensor([[checkpoint.number(word) for word in words]])
    lengths = torch.tensor([len(words)])
    with torch.inference_mode():
        probabilities = model(ids, lengths)[0].double().softmax(0)
    predicted = int(probabilities.argmax())
    explained = predicted if label is None else classes.index(label)
    importance = window_importance(model, ids, lengths, torch.tensor([explained]), k, UNKNOWN_INDEX)[0]
    noise = (1 - probabilities[explained]) * torch.finfo(importance.dtype).eps * ROUNDING
    importance = torch.where(importance > noise, importance, 0.0)
    attention = None
    try:
        weights = attention_weights(model, ids, lengths)[0]
    except InputError:
        notes.append("The pooling of this model gives words no weights.")
    else:
        if len(words) > 1 and weights.max() - weights.min() <= ALIKE * weights.max():
            notes.append("The pooling of this model weighs all words alike.")
        else:
            attention = tuple(weights.tolist())
    return Explanation(
        tuple(words),
        classes,
        tuple(probabilities.tolist()),
        classes[predicted],
        classes[explained],
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


def in_file(path: Path) -> list[str]:
    """The texts of a file, one a line; empty lines are left out.

    Raises:
        InputError: for a file that is missing, no UTF-8, or has no text.
    """
    texts = [line.rstrip("\r\n") for line in lines_of(path) if line.strip()]
    if not texts:
        raise InputError(f"{path} has no text; give one a line")
    return texts


def as_text(explanation: Explanation, colour: bool) -> str:
    """For a terminal: in colour, or with the weights in brackets."""
    lines = [explanation.verdict]
    width = max(len(_printable(name)) for name in explanation.classes)
    for name, p in explanation.by_probability:
        lines.append(f"  {_printable(name):{width}}  {p:6.1%}  {'█' * round(30 * p)}")
    for row in explanation.strips:
        scale = row.scale or math.inf
        shown = (_shown(*pair, scale, colour) for pair in zip(row.words, row.weights, strict=True))
        lines += ["", f"{_printable(row.title)}:", " ".join(shown)]
    return "\n".join([*lines, "", *explanation.remarks]).rstrip() + "\n"


def as_json(explanations: Sequence[Explanation]) -> str:
    """A list with an object for each text; a word without importance has null."""

    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    rows = []
    for e in explanations:
        weights = e.attention or [math.nan] * len(e.words)
        words = [
            {"word": word, "importance": number(delta), "attention": number(weight)}
            | {"known": word not in e.unknown}
            for word, delta, weight in zip(e.words, e.importance, weights, strict=True)
        ]
        probabilities = dict(zip(e.classes, e.probabilities, strict=True))
        facts = {"predicted": e.predicted, "label": e.label, "probabilities": probabilities, "k": e.k}
        rows.append(facts | {"words": words, "notes": list(e.notes)})
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def as_html(explanations: Sequence[Explanation]) -> str:
    """A page that needs nothing beside itself; what texts and names hold is shown, never run."""
    templates = Environment(loader=PackageLoader("whenpool.explain", ""), autoescape=True)
    return templates.get_template("explanation.html").render(explanations=explanations)


def _shown(word: str, weight: float, scale: float, colour: bool) -> str:
    """A word of a terminal with its part of the largest weight; NaN and 0 are not shown."""
    share = 0.0 if math.isnan(weight) else min(weight / scale, 1.0)
    if not colour:
        return _printable(word) + (f"({share:.2f})" if share >= 0.005 else "")
    level = round(share * (len(SHADES) - 1))
    return click.style(_printable(word), fg=16, bg=SHADES[level]) if level else _printable(word)


def _printable(word: str) -> str:
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in word)
