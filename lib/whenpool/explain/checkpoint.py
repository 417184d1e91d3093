"""A trained classifier in a folder, its weights as safetensors and all else as JSON, so that
loading runs no code of its own; and why it says what it says: how much each word of a text
mattered.

Letters: N texts, C classes, T words of the longest text.
"""

import csv
import hashlib
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from whenpool import __version__
from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import write_atomically
from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.tokens import strings, tokenize
from whenpool.models.pooling import POOLINGS, StraightThrough
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import inside
from whenpool.probes.word_importance import occlusion, rounding_error
from whenpool.training.loop import answers
from whenpool.words import WordStrip, attention_weights, strip, strips

WEIGHTS_FILE, FACTS_FILE = "model.safetensors", "model.json"
FORMAT, VERSION = "whenpool-checkpoint", 1
LONGEST = 1_000  # Words of a text that are explained
_TAG = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(f"(?!<(?:unk|pad)>)(?:{_TAG.pattern})", _TAG.flags)
TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "basic_english": tokenize,
    "untagged": lambda text: tokenize(_TAG.sub(" ", text)),
    "without_markup": lambda text: tokenize(_MARKUP.sub(" ", html.unescape(text))),
}
"""How a model reads a text: its words and punctuation marks; the same without HTML tags, as older
models do; or without tags and with the letters that entities such as ``&amp;`` stand for."""
READS = "without_markup"  # how texts of the user are read, by `diagnose` and by the estimator
Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained classifier with its vocabulary: texts in, classes out. Raises `InputError` where
    they do not fit each other.

    Attributes:
        model: in evaluation mode, on the CPU.
        vocabulary: the words by number, ``<unk>`` and ``<pad>`` first.
        classes: names of the labels, in the order of the logits.
        about: where it comes from, such as its test accuracy.
        max_words: how many words from the start of a text are read, as in its training; None: all.
        tokenizer: a name in `TOKENIZERS`.

    Examples:
        >>> model = TextClassifier(4, classes=2, embedding_size=8, hidden_size=16)
        >>> words, classes = ("<unk>", "<pad>", "good", "bad"), ("negative", "positive")
        >>> checkpoint = Checkpoint(model.eval(), words, classes)
        >>> checkpoint.probabilities(["a good film", "bad"]).shape
        torch.Size([2, 2])
    """

    model: TextClassifier
    vocabulary: tuple[str, ...]
    classes: tuple[str, ...]
    about: dict[str, Scalar] = field(default_factory=dict)
    max_words: int | None = None
    tokenizer: str = "basic_english"

    def __post_init__(self) -> None:
        _check_names(
            self.vocabulary, self.classes, self.max_words, self.tokenizer, "the checkpoint"
        )
        has = self.model.embedding.num_embeddings, self.model.classifier.out_features
        named = len(self.vocabulary), len(self.classes)
        texts = [f"{words} words and {classes} classes" for words, classes in (has, named)]
        check(has == named, f"the model has {texts[0]}, but the checkpoint names {texts[1]}")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: n for n, word in enumerate(self.vocabulary)} | {PADDING: UNKNOWN_INDEX}

    def number(self, word: str) -> int:
        """The row of the embedding that stands for a word, known or not."""
        return self._numbers.get(word, UNKNOWN_INDEX)

    def words(self, text: str) -> list[str]:
        """What the model reads of a text: its first lower-case words and punctuation marks."""
        return TOKENIZERS[self.tokenizer](text)[: self.max_words]

    def encode(self, texts: Iterable[str]) -> tuple[Tensor, Tensor]:
        """N texts -> ids (N, T) int64, right-padded, and lengths (N,). Raises `InputError` for no
        texts, one string instead of several, or a text without words."""
        numbered = self._numbered(texts)
        return numbered.batch(torch.arange(len(numbered)), PADDING_INDEX)[:2]

    @torch.inference_mode()
    def probabilities(self, texts: Iterable[str]) -> Tensor:
        """N texts -> (N, C), each row sums to 1; see `encode` for what it raises."""
        numbered = self._numbered(texts)
        rows = torch.empty(len(numbered), len(self.classes))
        for part, _, logits in answers(self.model, numbered):
            rows[part] = logits.softmax(1)
        return rows

    def predict(self, texts: Iterable[str]) -> list[str]:
        """The likeliest class of each text; see `encode` for what it raises."""
        return [self.classes[place] for place in self.probabilities(texts).argmax(1).tolist()]

    def _numbered(self, texts: Iterable[str]) -> Texts:
        rows = [[self.number(word) for word in self.words(text)] for text in strings(texts)]
        check(rows, "there are no texts; give at least one")
        if [] in rows:
            raise InputError(f"text {rows.index([])} has no words; leave it out")
        return Texts(Ragged.of(rows), torch.zeros(len(rows), dtype=torch.int64))


def save_checkpoint(
    folder: str | Path,
    model: TextClassifier,
    vocabulary: Sequence[str] | Mapping[str, int],
    classes: Sequence[str],
    max_words: int | None = None,
    tokenizer: str = "basic_english",
    **about: Scalar,
) -> Path:
    """Write a classifier into a folder, which is made; returns the folder. The arguments are those
    of `Checkpoint`; ``about`` holds plain values such as ``test_accuracy=81.5``. The vocabulary is
    a list, or a mapping to numbers as `whenpool.corpora.tokens.build_vocabulary` makes it. Raises
    `InputError` for another model than a `whenpool.TextClassifier`, a vocabulary or classes that do
    not fit it, ``max_words`` below 1, or a folder that cannot be written; see `load_checkpoint` for
    an example."""
    folder = Path(folder)
    usual = type(model) is TextClassifier  # a subclass may compute something else
    wrapped = f"{type(model).__name__}; {inside(model)}".rstrip("; ")
    check(usual, f"only a whenpool.TextClassifier can be saved, not {wrapped}")
    plain = all(isinstance(value, Tensor) for value in model.state_dict().values())
    advice = "save it as it was before, and quantise what you load"
    check(plain, f"a quantised model cannot be saved; {advice}")
    given = isinstance(model.embedding, nn.Embedding)
    check(given, "a model of an encoder's states has no vocabulary; save its state_dict")
    if isinstance(vocabulary, Mapping):
        by_number = {number: word for word, number in vocabulary.items()}
        complete = by_number.keys() == {*range(len(vocabulary))}
        check(complete, "vocabulary must number its words 0, 1, 2, ...")
        vocabulary = [by_number[number] for number in range(len(vocabulary))]
    state = model.state_dict().items()
    tensors = {name: value.detach().to("cpu", torch.float32).contiguous() for name, value in state}
    weights = safetensors.torch.save(tensors)
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "whenpool": __version__,
        "tokenizer": tokenizer,
        "weights": hashlib.sha256(weights).hexdigest(),
        "model": _arguments(model),
        "classes": list(classes),
        "max_words": max_words,
        "about": about,
        "vocabulary": list(vocabulary),
    }
    text = json.dumps(facts, ensure_ascii=False, indent=1, default=_plain)
    _made(json.loads(text), tensors, "the checkpoint")  # so that it can be read again
    write_atomically(folder / WEIGHTS_FILE, weights)
    write_atomically(folder / FACTS_FILE, text)
    return folder


def _plain(value: Any) -> Any:
    """A number of numpy's or torch's as Python's."""
    single = getattr(value, "shape", None) == ()
    check(single, f"what is kept about a model must be plain values, not {type(value).__name__}")
    return value.item()


def load_checkpoint(folder: str | Path) -> Checkpoint:
    """Read what `save_checkpoint` has written. Raises `InputError` for files that are missing,
    damaged, of another format, or do not fit each other.

    Examples:
        >>> import tempfile
        >>> model = TextClassifier(4, classes=2, embedding_size=8, hidden_size=16)
        >>> words, classes = ("<unk>", "<pad>", "good", "bad"), ("negative", "positive")
        >>> folder = save_checkpoint(tempfile.mkdtemp(), model, words, classes, test_accuracy=81.5)
        >>> load_checkpoint(folder).about
        {'test_accuracy': 81.5}
    """
    folder = Path(folder)
    facts_file, weights_file = folder / FACTS_FILE, folder / WEIGHTS_FILE
    for file in (facts_file, weights_file):
        check(file.is_file(), f"{folder} is not the folder of a saved model: it has no {file.name}")
    try:
        facts, weights = json.loads(facts_file.read_text("utf-8")), weights_file.read_bytes()
        known = (facts["format"], facts["version"]) == (FORMAT, VERSION)
        check(known, f"{facts_file}: another whenpool saved it, which can load it")
        fits = hashlib.sha256(weights).hexdigest() == facts["weights"]
        check(fits, f"{weights_file} does not belong to its {FACTS_FILE}; save the model again")
        model = _made(facts, safetensors.torch.load(weights), str(facts_file))
        more = facts["about"], facts["max_words"], facts["tokenizer"]
        return Checkpoint(model, tuple(facts["vocabulary"]), tuple(facts["classes"]), *more)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise InputError(f"{folder} is damaged ({reason}); save the model again") from None


def _arguments(model: TextClassifier) -> dict[str, Any]:
    """What the constructor is given to make a model of this shape; how it started is no part of
    it."""
    exchanged = isinstance(model.pooling, StraightThrough)
    read, learn = (model.pooling.read, model.pooling.learn) if exchanged else (model.pooling, None)
    names: dict[Any, str] = {kind: name for name, kind in POOLINGS.items()}
    for part in filter(None, (read, learn)):
        other = f"pooling {type(part).__name__} is not in whenpool.POOLINGS; take one"
        check(type(part) in names, other)
    encoder = model.encoder
    return {
        "pooling": names[type(read)],
        "through": names.get(type(learn)),
        "cell": encoder.cell,
        "embedding_size": encoder.input_size,
        "hidden_size": encoder.hidden_size,
        "layers": len(encoder.layers),
        "bidirectional": encoder.directions == 2,
        "masked": model.masked,
        "padding_index": model.embedding.padding_idx,
        "drop_connect": encoder.drop_connect,
    }


def _made(facts: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> TextClassifier:
    """The model that some facts describe, with its weights; raises `InputError` where they do not
    fit."""
    words, classes = facts["vocabulary"], facts["classes"]
    _check_names(words, classes, facts["max_words"], facts["tokenizer"], where)
    try:
        with torch.random.fork_rng(devices=[]):
            model = TextClassifier(len(words), len(classes), **facts["model"], forget_bias=None)
        model.load_state_dict(tensors)
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ) as error:  # names that are unknown, or other shapes
        raise InputError(f"{where} does not describe the weights: {error!s:.400}") from None
    return model.eval()


def _check_names(
    words: Sequence[str], classes: Sequence[str], limit: int | None, tokenizer: str, where: str
) -> None:
    begins = [*words[:2]] == [UNKNOWN, PADDING]
    check(begins, f"{where}: vocabulary must begin with {UNKNOWN} and {PADDING}")
    for name, names in (("vocabulary", words), ("classes", classes)):
        different = len({*names}) == len(names) > 1 and {*map(type, names)} == {str}
        check(different, f"{where}: {name} must be a list of at least two different strings")
    check_known(f"{where}: tokenizer", tokenizer, TOKENIZERS)
    whole = type(limit) is int and limit >= 1
    check(limit is None or whole, f"{where}: max_words must be at least 1, or null, not {limit}")


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
        others = [name for name, _ in self.by_probability if name != self.label]
        shown = [self.label, *(others[:4] if len(others) > 1 else [])]
        rows = [strip(self.words, self.effects[name], f"for or against {name}") for name in shown]
        return rows + ([strip(self.words, self.attention, "attention")] if self.attention else [])

    @property
    def text(self) -> str:
        """For a terminal, without what it would obey."""
        width = max(map(len, self.classes))
        lines = [
            f"{name:{width}}  {p:6.1%}  {'█' * round(30 * p)}" for name, p in self.by_probability
        ]
        lines += [
            "",
            *map(repr, self.strips),
            "",
            "A number says how far the log-probability "
            "of the class falls when the unknown word replaces the word.",
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
    checkpoint: Checkpoint,
    file: Path,
    out: Path,
    text_column: str = "text",
    label: str | None = None,
) -> int:
    """Explain each text of a table into the CSV file ``out``, a row each: the text, the likeliest
    class, its probability, and the words, each with its effect on ``label``, by default that class,
    in brackets; without words a text has no answer. Returns how many texts have one. Raises
    `InputError` as `explain`, for a table that cannot be read, and where ``out`` cannot be
    written."""
    from joblib import Parallel, delayed  # these two a model does without

    from whenpool.corpora.sources import read_texts

    check(out.suffix == ".csv", f"{out} must end with .csv, as --out explained.csv")
    check(
        out.parent.is_dir(),
        f"folder {out.parent} does not exist; make it, or write to another --out",
    )
    check(
        out.resolve() != file.resolve(), f"{out} is the file of the texts; write to another --out"
    )
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
