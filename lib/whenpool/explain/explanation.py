"""Why a classifier says what it says: its classes, and how much each word of a text mattered.

Letters: C classes, T words of a text, k words of a window.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from jinja2 import Environment, PackageLoader

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import lines_of
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.explain.checkpoint import TOKENIZERS, Checkpoint, strings
from whenpool.explain.words import WordStrip, attention_weights, per_word, strip, strips
from whenpool.probes.word_importance import occlusion, rounding_error

LONGEST = 2_000
"""Words that are read of a text, where the checkpoint sets no limit: more would take too long."""
SHADES, BLUES = (None, 223, 216, 209, 202), (None, 195, 153, 117, 75)
"""Backgrounds of a terminal with 256 colours, for words of rising weight for and against a class; text on
them is black."""


@dataclass(frozen=True)
class Explanation:
    """What a classifier makes of one text. Its ``effects`` are for each class T numbers: by how many
    nats its log-probability falls when the word's window is replaced, above zero where the words speak
    for the class; NaN for the words after the last full window."""

    words: tuple[str, ...]  # T words, as the model reads them
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]  # C numbers in the order of the classes
    predicted: str  # the likeliest class
    label: str  # the class that importance is about
    k: int  # words that were replaced at once
    effects: dict[str, tuple[float, ...]]
    attention: tuple[float, ...] | None  # T weights of the pooling; None where all are the same
    unknown: tuple[str, ...]  # words that the model has never seen, each once
    notes: tuple[str, ...]  # what a reader should know, a sentence each

    @property
    def importance(self) -> tuple[float, ...]:
        """Of each word to ``label``: the size of its effect, T numbers."""
        return tuple(map(abs, self.effects[self.label]))

    @property
    def strips(self) -> list[WordStrip]:
        """What speaks for and against the label and the four likeliest others; and attention."""
        likely = [name for name, _ in self.by_probability if name != self.label]
        rows = []
        for name in [self.label, *(likely[:4] if len(likely) > 1 else [])]:
            of = name if len(name) <= 24 else name[:24] + "…"
            rows.append(strip(self.words, self.effects[name], f"for (+) or against (-) {of}"))
        return rows + ([strip(self.words, self.attention, "attention")] if self.attention else [])

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
        remarks = [
            "A number above zero speaks for the class: its log-probability falls by that number when unknown "
            "words replace the words. A number below zero speaks against the class. So a negation that turns "
            "the next word around has the opposite sign of that word."
        ]
        if self.k > 1:
            remarks.append(f"Words are replaced {self.k} at a time.")
        if rest := len(self.words) % self.k:
            last = "The last word has" if rest == 1 else f"The last {rest} words have"
            remarks.append(f"{last} no number, since they do not fill a window.")
        if self.unknown:
            some = ", ".join(map(_printable, self.unknown[:10]))
            more = " …" if len(self.unknown) > 10 else ""
            remarks.append(f"Words that the model does not know: {some}{more}.")
        return [*remarks, *self.notes]


def explain(
    checkpoint: Checkpoint, text: str, label: str | None = None, k: int | None = None
) -> Explanation:
    """Predict the class of a text, and say how much each word mattered to ``label``, by default the
    likeliest class. ``k`` is the words of a window, by default 5 (§1.9.3), and fewer in a text that has less
    than 10 such windows. Raises `InputError` for a text without words, or an unknown class."""
    if label is not None:
        check_known("class", label, checkpoint.classes)
    check(k is None or k >= 1, f"k, the words of a window, must be at least 1, not {k}")
    strings([text])  # raises for what is no string
    words, whole = checkpoint.words(text), len(TOKENIZERS[checkpoint.tokenizer](text))
    notes = list[str]()
    check(words, "the text has no words; give at least one")
    if checkpoint.max_words is None and whole > LONGEST:
        words = words[:LONGEST]
        notes.append(
            f"Only the first {LONGEST:,} of {whole:,} words are read, to save time; `predict` reads all."
        )
    elif len(words) < whole:
        notes.append(f"Only the first {len(words):,} of {whole:,} words are read, as in training.")
    if k is not None and k > len(words):
        notes.append(f"The text has {len(words)} words, fewer than k={k}, so it is one window.")
    k = max(1, min(k or min(5, len(words) // 10), len(words)))
    unknown = tuple(dict.fromkeys(word for word in words if not checkpoint.knows(word)))
    if all(word in unknown for word in words):
        notes.append("The model knows none of these words, so it says the same of any unknown words.")
    model, classes = checkpoint.model, checkpoint.classes
    ids = torch.tensor([[checkpoint.number(word) for word in words]])
    lengths = torch.tensor([len(words)])
    with torch.inference_mode():
        probabilities = model(ids, lengths)[0].double().softmax(0)
    predicted = classes[int(probabilities.argmax())]
    plain, changes = occlusion(model, ids, lengths, k, UNKNOWN_INDEX)  # (1, C), (1, W, C)
    noise = rounding_error(model, plain[0])[:, 0]  # (C,)
    kept = torch.where(changes[0].abs() > noise, -changes[0], 0.0)  # (W, C)
    effects = {name: tuple(per_word(kept[:, c], len(words), k)) for c, name in enumerate(classes)}
    attention = None
    try:
        weights = attention_weights(model, ids, lengths)[0]
    except InputError:
        notes.append("The pooling of this model has no weights for words.")
    else:
        if len(words) > 1 and weights.max() - weights.min() <= 1e-5 * weights.max():
            notes.append("The pooling of this model weighs all words alike.")
        else:
            attention = tuple(weights.tolist())
    return Explanation(
        tuple(words), classes, tuple(probabilities.tolist()), predicted,
        predicted if label is None else label, k, effects, attention, unknown, tuple(notes),
    )  # fmt: skip


def in_file(path: Path) -> list[str]:
    """The texts of a file, one a line; empty lines are left out. Raises `InputError` for a table."""
    table = path.suffix.lower() in (".csv", ".tsv", ".jsonl")
    check(not table, f"{path} is a table; give a file with a text on each line")
    texts = [line.rstrip("\r\n") for line in lines_of(path) if line.strip()]
    check(texts, f"{path} has no text; write one on each line")
    return texts


def as_text(explanations: Sequence[Explanation], colour: bool = False) -> str:
    """For a terminal: in colour, or with each weight, as a part of the largest, in brackets."""
    parts = []
    for explanation in explanations:
        lines = [explanation.verdict]
        width = max(len(_printable(name)) for name in explanation.classes)
        for name, p in explanation.by_probability:
            lines.append(f"  {_printable(name):{width}}  {p:6.1%}  {'█' * round(30 * p)}")
        for row in explanation.strips:
            unit = "" if colour or row.title == "attention" else f" (1.00 is {row.scale:.2g} nats)"
            words = " ".join(_shown_words(row, colour))
            lines += ["", f"{_printable(row.title)}{unit}:", words]
        parts.append("\n".join([*lines, "", *explanation.remarks]).rstrip() + "\n")
    return "\n".join(parts)


def _shown_words(row: WordStrip, colour: bool) -> Iterator[str]:
    for word, weight in zip(map(_printable, row.words), row.weights, strict=True):
        share = 0.0 if math.isnan(weight) or not row.scale else weight / row.scale
        level = round(abs(share) * (len(SHADES) - 1))
        if colour and level:
            yield click.style(word, fg=16, bg=(BLUES if share < 0 else SHADES)[level])
        elif not colour and abs(share) >= 0.005:
            yield f"{word}({share:{'' if row.title == 'attention' else '+'}.2f})"
        else:
            yield word


def as_json(explanations: Sequence[Explanation]) -> str:
    """A list with an object for each text; a word without importance has null."""

    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    rows = []
    for e in explanations:
        words = [
            {
                "word": word,
                "importance": number(e.importance[place]),
                "effects": {name: number(effects[place]) for name, effects in e.effects.items()},
                "attention": e.attention and e.attention[place],
                "known": word not in e.unknown,
            }
            for place, word in enumerate(e.words)
        ]
        probabilities = dict(zip(e.classes, e.probabilities, strict=True))
        facts = {"predicted": e.predicted, "label": e.label, "probabilities": probabilities, "k": e.k}
        rows.append(facts | {"words": words, "notes": list(e.notes)})
    return json.dumps(rows, indent=1) + "\n"  # in ASCII, which every terminal can show


def as_html(explanations: Sequence[Explanation]) -> str:
    """A page that needs nothing beside itself; what texts and names hold is shown, never run."""
    templates = Environment(loader=PackageLoader("whenpool.explain", ""), autoescape=True)
    return templates.get_template("explanation.html").render(explanations=explanations, strips=strips)


def _printable(word: str) -> str:
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in word)
