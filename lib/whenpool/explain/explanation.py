"""Why a classifier says what it says: its classes, and how much each word of a text mattered.

Letters: C classes, T words of a text, k words of a window.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click
import torch

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Batch
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


SHADES = (None, 223, 216, 209, 202)
"""Backgrounds of a terminal with 256 colours, for words of rising weight; text on them is black."""


def as_text(explanation: Explanation, colour: bool) -> str:
    """For a terminal: in colour, or with the weights in brackets."""
    lines = [_verdict(explanation)]
    width = max(len(_printable(name)) for name in explanation.classes)
    for name, p in _by_probability(explanation):
        lines.append(f"  {_printable(name):{width}}  {p:6.1%}  {'█' * round(30 * p)}")
    for row in explanation.strips:
        shown = map(_coloured if colour else _bracketed, row.words, _shares(row))
        lines += ["", f"{_printable(row.title)}:", " ".join(shown)]
    lines += ["", *_remarks(explanation)]
    return "\n".join(lines).rstrip() + "\n"


def as_json(explanations: Sequence[Explanation]) -> str:
    """A list with an object for each text; a word without importance has null."""
    rows = []
    for e in explanations:
        weights = e.attention or [math.nan] * len(e.words)
        words = [
            {"word": word, "importance": _number(delta), "attention": _number(weight)}
            | {"known": word not in e.unknown}
            for word, delta, weight in zip(e.words, e.importance, weights, strict=True)
        ]
        probabilities = dict(zip(e.classes, e.probabilities, strict=True))
        facts = {"predicted": e.predicted, "label": e.label, "probabilities": probabilities, "k": e.k}
        rows.append(facts | {"words": words, "notes": list(e.notes)})
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def as_html(explanations: Sequence[Explanation]) -> str:
    """A page that needs nothing beside itself; what texts and names hold is shown, never run."""
    parts = []
    for number, e in enumerate(explanations, 1):
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{p:.1%}</td></tr>'
            for name, p in _by_probability(e)
        )
        remarks = "".join(f"<p>{escape(line)}</p>" for line in _remarks(e))
        parts.append(
            f"<section><h2>Text {number}: {escape(_verdict(e))}</h2>{strips(e.strips).html}"
            f'<table><thead><tr><th scope="col">class</th><th scope="col">probability</th></tr></thead>'
            f"<tbody>{rows}</tbody></table>{remarks}</section>"
        )
    return _PAGE.replace("{body}", "\n".join(parts))


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What mattered to the classifier</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; overflow-wrap: anywhere; margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0; border-bottom: 1px solid #8888 }
</style>
</head>
<body>
<main>
<h1>What mattered to the classifier</h1>
<p>Importance: by how many nats the log-probability of the class moves, up or down, when a window of
words is replaced by unknown ones. Attention: the weight that the pooling gives to a word.</p>
{body}
</main>
</body>
</html>
"""


def _verdict(e: Explanation) -> str:
    p = e.probabilities[e.classes.index(e.predicted)]
    return f"{_printable(e.predicted)} ({p:.1%})"


def _by_probability(e: Explanation) -> list[tuple[str, float]]:
    return sorted(zip(e.classes, e.probabilities, strict=True), key=lambda pair: -pair[1])


def _remarks(e: Explanation) -> list[str]:
    rest = len(e.words) % e.k
    remarks = ["Importance says how far the class's log-probability moves, up or down."]
    remarks += [f"It is that of windows of {e.k} words." if e.k > 1 else ""]
    if rest:
        last = "The last word stands" if rest == 1 else f"The last {rest} words stand"
        remarks.append(f"{last} behind the last full window, without importance.")
    if e.unknown:
        some = ", ".join(map(_printable, e.unknown[:10])) + (" …" if len(e.unknown) > 10 else "")
        remarks.append(f"Words that the model does not know: {some}.")
    return [line for line in (*remarks, *e.notes) if line]


def _shares(row: WordStrip) -> list[float]:
    """Weights as parts of the largest one, NaN where there is none."""
    return [value / row.scale if row.scale else min(value, 0.0) for value in row.weights]


def _coloured(word: str, share: float) -> str:
    level = 0 if math.isnan(share) else min(round(share * (len(SHADES) - 1)), len(SHADES) - 1)
    return click.style(_printable(word), fg=16, bg=SHADES[level]) if level else _printable(word)


def _bracketed(word: str, share: float) -> str:
    return _printable(word) + ("" if math.isnan(share) or share < 0.005 else f"({share:.2f})")


def _printable(word: str) -> str:
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in word)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
