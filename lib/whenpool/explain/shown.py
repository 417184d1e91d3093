"""Explanations as they are shown: in a terminal, as a page, and as JSON."""

import json
import math
from collections.abc import Sequence
from html import escape

import click

from whenpool.explain.explanation import Explanation
from whenpool.explain.words import WordStrip, strips

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
