"""The user's own texts: read, looked over, and written down in the one form that runs read."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import write_atomically
from whenpool.corpora.corpus import Raw, shuffled
from whenpool.corpora.sources import FEWEST, SUFFIXES, check_classes, read_own
from whenpool.corpora.tokens import tokenize, without_spaces
from whenpool.explain.checkpoint import TOKENIZERS, without_tags
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COMPARED

LETTERS = 100  # Of a text so many are kept for each word that is read: more is no word


@dataclass(frozen=True)
class Wish:
    """What to diagnose, and how thoroughly."""

    path: Path  # a .csv, .tsv or .jsonl file
    text_column: str
    label_column: str
    poolings: tuple[str, ...] = COMPARED
    seeds: int = 1
    epochs: int = 6
    limit: int = 2_000  # about so many texts, at most
    words: int | None = None  # so many first words of a text are read; None: as many as memory admits
    vectors: str | None = None  # a file or a name of vectors, or "random"; None: the first of `VECTORS`
    characters: bool = False  # whether each character is read as a word
    drop_classes_below: int = 1  # classes of fewer different texts are left out
    folder: Path | None = None  # for the report, the models and the runs; None: named after the file
    data: Path | None = None  # of filler sentences and vectors; None: as `whenpool.base.paths` says

    def __post_init__(self) -> None:
        for pooling in self.poolings:
            check_known("pooling", pooling, POOLINGS)
        several = 0 < len(set(self.poolings)) == len(self.poolings)
        check(several, f"poolings must be different ones of {', '.join(POOLINGS)}")
        there = self.data is None or self.data.is_dir()
        check(there, f"data folder {self.data} does not exist; check --data, or leave it out")

    @property
    def output(self) -> Path:
        """The file's stem and "-diagnosis"; with its suffix where another input shares the stem."""
        others = (self.path.with_suffix(suffix) for suffix in SUFFIXES)
        shared = any(other != self.path and other.is_file() for other in others)
        return self.folder or Path(f"{self.path.name if shared else self.path.stem}-diagnosis")

    @property
    def command(self) -> str:
        """What makes the same again, with what is not left to its default."""
        parts = ["whenpool", "diagnose", str(self.path)]
        for field in fields(self)[1:]:
            if (value := getattr(self, field.name)) != field.default:
                parts.append(f"--{'output' if field.name == 'folder' else field.name.replace('_', '-')}")
                if value is not True:
                    parts.append(",".join(value) if isinstance(value, tuple) else str(value))
        return shlex.join(parts)


@dataclass(frozen=True)
class Survey:
    """What a file of labelled texts holds, and what of it is used. Lengths are words and punctuation marks of
    the texts used, as the models count them, before they are cut."""

    wish: Wish
    file: Path  # the texts that are used, as `whenpool.corpora` reads them
    rows: int  # rows with a text and a label
    gaps: tuple[str, ...]  # what was said of the rows without
    repeated: int  # rows whose text stood there before, as far as it is read
    several: int  # texts that came with several labels, of which the first counts
    dropped: dict[str, int]  # different texts of each class that was left out as too rare
    unused: int  # other texts beyond the number that was asked for
    tagged: int  # rows with HTML tags
    classes: dict[str, int]  # texts used of each class, from frequent to rare
    shortest: int
    middle: float  # the median
    longest: int
    words: int  # how many of a text's first words are read
    cut: int  # texts used that have more
    tokenizer: str  # a name in `whenpool.explain.checkpoint.TOKENIZERS`

    @property
    def texts(self) -> int:
        return sum(self.classes.values())

    @property
    def much_cut(self) -> bool:
        """Whether more than a tenth of the texts is cut, so that nobody can say where their evidence is."""
        return self.cut > 0.1 * self.texts

    @property
    def notes(self) -> list[str]:
        """What was cut, changed and left out, a sentence each."""
        notes = []
        if self.cut:
            cut = _count(self.cut, "text", "is")
            notes.append(f"{cut} longer than {self.words} words and cut there.")
        if self.gaps:
            left = _count(len(self.gaps), "row", "was")
            notes.append(f"{left} left out, without words or a label (the first: {self.gaps[0]}).")
        if self.repeated:
            note = "repeated text counts once" if self.repeated == 1 else "repeated texts count once"
            if self.cut:
                note += " (texts that differ only after the cut count as one)"
            if self.several:
                note += f"; {self.several} have several labels, of which the first counts"
            notes.append(f"{self.repeated:,} {note}.")
        if self.dropped:
            names = ", ".join(f"{name} ({count})" for name, count in list(self.dropped.items())[:10])
            more = ", …" if len(self.dropped) > 10 else ""
            left = _count(len(self.dropped), "rare class", "was")
            notes.append(f"{left} left out with its texts: {names}{more}.")
        if self.unused:
            notes.append(f"{_count(self.unused, 'more text', 'was')} left out to save time (--limit).")
        if self.tagged:
            notes.append(f"HTML tags were removed from {_count(self.tagged, 'row')}.")
        if self.tokenizer == "characters":
            notes.append("Each character is read as a word (--characters).")
        return notes


def survey(wish: Wish, words: int) -> Survey:
    """Read the file of a wish, choose about as many of its texts as that says, and write those into its
    folder. Texts are cut first, to the ``words`` that models read of them, so that none is in two splits;
    which are chosen depends on the texts alone; each class keeps its share, and at least `FEWEST` texts."""
    path, column = wish.path, wish.text_column
    tokenizer = "characters" if wish.characters else "untagged"
    gaps = list[str]()
    labels, lengths = dict[str, str](), dict[str, int]()
    several, cut = set[str](), set[str]()
    rows = tagged = 0
    for whole, label, _ in read_own(path, column, wish.label_column, gaps):
        text, length, longer = _read_of(whole, words, tokenizer)
        if not text:
            gaps.append(f"{path}: column {column!r} has no words, but {whole!r:.40}")
            continue
        rows += 1
        tagged += without_tags(whole) != whole
        if labels.setdefault(text, label) != label:
            several.add(text)
        if longer:
            cut.add(text)
        lengths.setdefault(text, length)
    check(labels, "; ".join([f"{path}: no row has a text and a label", *gaps[:1]]))
    if not wish.characters and without_spaces(labels):
        advice = "add them with a segmenter, or read each character as a word with --characters"
        raise InputError(f"{path}: the texts have no spaces between words; {advice}")
    counts = Counter(labels.values())
    dropped = {label: n for label, n in counts.most_common() if n < wish.drop_classes_below}
    kept = {text: label for text, label in labels.items() if label not in dropped}
    counts = Counter(kept.values())
    if len(counts) < 2:
        found = f"one class, {next(iter(counts))!r:.60}" if counts else "no class"
        if dropped:
            found += f" that has {wish.drop_classes_below} texts or more"
        if several:
            found += f" ({len(several)} texts have several labels, of which the first counts)"
        raise InputError(f"{path}: column {wish.label_column!r} has {found}; give at least two")
    try:
        check_classes(counts, path, len(several))
    except InputError as error:
        helps = sum(n >= FEWEST for n in counts.values()) >= 2
        more = f", as --drop-classes-below {FEWEST} does" if helps else ""
        more += f"; only the first {words} words of a text are read (--words)" if cut else ""
        raise InputError(f"{error}{more}") from None
    chosen = _chosen(kept, counts, wish.limit)
    used = sorted(lengths[text] for text in chosen)
    lines = (json.dumps({"text": text, "label": label}) + "\n" for text, label in chosen.items())
    content, file = "".join(lines), wish.output / "texts.jsonl"
    if not (file.is_file() and file.read_bytes() == content.encode()):  # its time is its identity
        write_atomically(file, content)
    return Survey(
        wish=wish, file=file, rows=rows, gaps=tuple(gaps), repeated=rows - len(labels),
        several=len(several), dropped=dropped, unused=len(kept) - len(chosen), tagged=tagged,
        classes=dict(Counter(chosen.values()).most_common()), shortest=used[0], middle=median(used),
        longest=used[-1], words=min(words, used[-1]), cut=sum(text in cut for text in chosen),
        tokenizer=tokenizer,
    )  # fmt: skip


def _count(number: int, one: str, verb: str = "") -> str:
    """Such as "1 row", "1 row was" and "2 rows were"."""
    if number > 1:
        one += "es" if one.endswith("s") else "s"
        verb = {"is": "are", "was": "were"}.get(verb, verb)
    return f"{number:,} {one} {verb}".rstrip()


def _read_of(text: str, words: int, tokenizer: str) -> tuple[str, int, bool]:
    """What models read of a text, how many words it has, and whether it has more than they read."""
    every = TOKENIZERS[tokenizer](text)
    plain = " ".join(text.split())
    read = " ".join(TOKENIZERS[tokenizer](plain[: words * LETTERS])[:words])
    while (again := " ".join(tokenize(read))) != read:  # parts of "<br />" that came to stand together
        read = again
    return read, len(every), len(every) > words or len(plain) > words * LETTERS


def _chosen(labels: Mapping[str, str], counts: Mapping[str, int], limit: int) -> dict[str, str]:
    if len(labels) <= limit:
        return dict(labels)
    left = {label: max(FEWEST, limit * count // len(labels)) for label, count in counts.items()}
    chosen = {}
    for text, label, _ in shuffled((Raw(*pair) for pair in labels.items()), "diagnose"):
        if left[label]:
            left[label] -= 1
            chosen[text] = label
    return chosen
