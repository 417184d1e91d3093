"""Why a classifier says what it says: how much each word of a text mattered.

Letters: N texts, C classes, T words of a text.
"""

import csv
import io
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import write_atomically
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.corpora.tokens import strings
from whenpool.explain.checkpoint import TOKENIZERS, Checkpoint
from whenpool.probes.word_importance import occlusion, rounding_error
from whenpool.words import WordStrip, attention_weights, strip, strips

LONGEST = 1_000  # Words of a text that are explained


@dataclass(frozen=True)
class Explanation:
    """What a classifier makes of one text. Its ``effects`` are for each class T numbers: by how
    many nats its log-probability falls when the word is replaced, above zero where it speaks for
    the class."""

    words: tuple[str, ...]  # T words, as the model reads them
    left_out: (
        int  # words after these, which the model does not read, or which are too many to explain
    )
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]  # C numbers in the order of the classes
    label: str  # the class that importance is about
    effects: dict[str, tuple[float, ...]]
    attention: tuple[float, ...] | None  # T weights of the pooling; None where all are the same
    unknown: tuple[str, ...]  # words that the model has never seen, each once

    @property
    def importance(self) -> tuple[float, ...]:
        """Of each word to ``label``: the size of its effect, T numbers."""
        return tuple(map(abs, self.effects[self.label]))

    @property
    def by_probability(self) -> list[tuple[str, float]]:
        """The classes, the likeliest first."""
        return sorted(zip(self.classes, self.probabilities, strict=True), key=lambda pair: -pair[1])

    @property
    def strips(self) -> list[WordStrip]:
        """What speaks for and against the label and, of several, the four likeliest others; and
        attention."""
        rest = [name for name, _ in self.by_probability if name != self.label]
        shown = [self.label, *(rest[:4] if len(rest) > 1 else [])]
        rows = [strip(self.words, self.effects[name], f"for or against {name}") for name in shown]
        return rows + ([strip(self.words, self.attention, "attention")] if self.attention else [])

    @property
    def text(self) -> str:
        """For a terminal, without what it would obey."""
        width = max(map(len, self.classes))
        how = "when the unknown word replaces the word."
        lines = [
            *(
                f"{name:{width}}  {p:6.1%}  {'█' * round(30 * p)}"
                for name, p in self.by_probability
            ),
            "",
            *map(repr, self.strips),
            "",
            f"A number says how far the log-probability of the class falls {how}",
        ]
        if self.unknown:
            lines.append(f"Words that the model does not know: {', '.join(self.unknown[:10])}.")
        if self.left_out:
            verb = "explained" if len(self.words) == LONGEST else "read"
            lines.append(f"Only the first {len(self.words):,} words are {verb}.")
        return "".join(c if c.isprintable() or c == "\n" else "�" for c in "\n".join(lines))

    def _repr_html_(self) -> str:
        return strips(self.strips)._repr_html_()


def explain(checkpoint: Checkpoint, text: str, label: str | None = None) -> Explanation:
    """Predict the class of a text, and say how much each word mattered to ``label``, by default the
    likeliest class. Single words are replaced: the windows of §1.9.3 name less of what a prediction
    rests on. The prediction is of all words that the model reads. Of a longer text the first 1,000
    are explained, as if the text ended there. Raises `InputError` for a text without words, or an
    unknown class."""
    model, classes = checkpoint.model, checkpoint.classes
    if label is not None:
        check_known("class", label, classes)
    every = TOKENIZERS[checkpoint.tokenizer](*strings([text]))
    check(every, "the text has no words; give at least one")
    probabilities = checkpoint.probabilities([text])[0]  # (C,)
    words = every[: checkpoint.max_words][:LONGEST]
    T, numbers = len(words), [*map(checkpoint.number, words)]
    ids, lengths = torch.tensor([numbers]), torch.tensor([T])
    plain, changes = occlusion(model, ids, lengths, 1, UNKNOWN_INDEX)  # (1, C), (1, T, C)
    noise = rounding_error(model, plain[0])[:, 0]  # (C,)
    kept = torch.where(changes[0].abs() > noise, -changes[0], 0.0)  # (T, C)
    effects = {name: tuple(kept[:, c].tolist()) for c, name in enumerate(classes)}
    attention = None
    with suppress(InputError):  # of a pooling without weights
        weights = attention_weights(model, ids, lengths)[0]
        if T == 1 or weights.max() - weights.min() > 1e-5 * weights.max():
            attention = tuple(weights.tolist())
    return Explanation(
        tuple(words),
        len(every) - T,
        classes,
        tuple(probabilities.tolist()),
        label or classes[int(probabilities.argmax())],
        effects,
        attention,
        tuple(dict.fromkeys(w for w, n in zip(words, numbers, strict=True) if n == UNKNOWN_INDEX)),
    )


def explain_file(
    checkpoint: Checkpoint, file: str | Path, out: str | Path, text_column: str, label: str | None
) -> int:
    """Explain each text of a table into the CSV file ``out``, a row each: the text, the likeliest
    class, its probability, and the words, each with its effect on ``label``, or else that class,
    in brackets; without words a text has no answer. Returns how many texts have one. Raises
    `InputError` as `explain`, for a table that cannot be read, and where ``out`` cannot be
    written."""
    from joblib import Parallel, delayed  # these two a model does without

    from whenpool.corpora.sources import read_texts

    file, out = Path(file), Path(out)
    check(out.suffix == ".csv", f"{out} must end with .csv, as --out explained.csv")
    same = out.resolve() == file.resolve()
    check(not same, f"{out} is the file of the texts; write to another --out")
    texts = read_texts(file, text_column)
    rows = Parallel(-1, prefer="threads")(delayed(_row)(checkpoint, text, label) for text in texts)
    table = io.StringIO()
    csv.writer(table).writerows([("text", "answer", "probability", "words"), *rows])
    write_atomically(out, table.getvalue())
    return sum(bool(words) for *_, words in rows)


def _row(checkpoint: Checkpoint, text: str, label: str | None) -> tuple[str, str, str, str]:
    """See `explain_file`."""
    if not checkpoint.words(text):
        return text, "", "", ""
    why = explain(checkpoint, text, label)
    answer, probability = why.by_probability[0]
    return text, answer, f"{probability:.3f}", repr(strip(why.words, why.effects[why.label]))
