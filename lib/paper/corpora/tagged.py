"""Sequence labelling: sentences of tagged words, from a published corpus, a file of the user's own,
or a small grammar of our own.

An entity is a run of words of one type. In BIO (IOB2) its first word has the tag ``B-TYPE``, the
others ``I-TYPE``, and words outside have ``O``. `entities` reads tags as conlleval and seqeval do:
an ``I-`` after ``O``, or after another type, begins an entity.
"""

import hashlib
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from os.path import isfile
from pathlib import Path
from typing import NamedTuple

from whenpool.base.errors import check, check_known
from whenpool.base.files import hash_of, lines_of
from whenpool.corpora.corpus import SPLITS
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import SUFFIXES, checked, label_of, parsed, suffix_of
from whenpool.corpora.synthetic import lists_of


@dataclass(frozen=True)
class Tagged:
    """A sentence: as many words as tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    later: tuple[int, ...] = ()  #: places of words whose tag only a later word decides, if known

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each word with its tag."""
        return zip(self.words, self.tags, strict=True)


@dataclass(frozen=True)
class TaggedCorpus:
    """Sentences for training, validation and test."""

    label: str  #: name and options, without the folder of a file
    train: Sequence[Tagged]
    validation: Sequence[Tagged]
    test: Sequence[Tagged]
    complete: bool = False  #: whether it is the whole of a published corpus
    notes: tuple[str, ...] = ()  #: what a reader of results should know, a sentence each

    @property
    def splits(self) -> dict[str, Sequence[Tagged]]:
        return {name: getattr(self, name) for name in SPLITS}

    @property
    def has_entities(self) -> bool:
        """Whether tags mark entities; else they are parts of speech, for example."""
        return any(tag[:2] in ("B-", "I-") for sentence in self.train for tag in sentence.tags)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the words and tags of all splits."""
        texts = []
        for split, sentences in self.splits.items():
            texts.append(f"{split} {len(sentences)}")
            texts += ["\t".join(part) for each in sentences for part in (each.words, each.tags)]
        return hash_of(*texts)


# Files


def read_tagged(path: Path) -> list[Tagged]:
    """The sentences of a file: ``.conllu`` is read as CoNLL-U, with the universal part of speech as
    the tag, anything else as columns, the word first and its tag last, an empty line between
    sentences; ``.gz`` is unpacked. Raises `InputError` for a file that cannot be read, or a line
    without a word and its tag."""
    is_conllu = path.name.lower().removesuffix(".gz").endswith(".conllu")
    form = "ten columns of CoNLL-U, with a word and its tag" if is_conllu else "a word and its tag"
    sentences: list[list[tuple[str, str]]] = [[]]
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip() or (line.startswith("-DOCSTART-") and not is_conllu):
            sentences.append([])
        elif not (
            is_conllu and re.match(r"#|\d+[-.]\d+\t", line)
        ):  # a comment, or no word of its own
            mark = "\t" if is_conllu or "\t" in line else " +"  # no-break spaces belong to a word
            cells = re.split(mark, line.strip(" \t\r\n"))
            fits = len(cells) == 10 if is_conllu else len(cells) > 1
            word, tag = (cells[1], cells[3]) if is_conllu and fits else (cells[0], cells[-1])
            named = word.strip() and tag.strip() not in ("", "_" if is_conllu else "")
            check(fits and named, f"{path}, line {number} has not {form}")
            sentences[-1].append((word.strip(), tag.strip()))
    check(any(sentences), f"{path} has no sentence; write a word and its tag on each line")
    return [Tagged(*zip(*rows, strict=True)) for rows in sentences if rows]


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CLAUSES, PUBLISHED = _TABLES["clauses"], _TABLES["published"]
GENERATED = "generated"


def find_tagged(name: str, data: Path) -> TaggedCorpus:
    """The corpus "generated", "ud_ewt", "wnut17", or that of a file; ``data`` is the folder of the
    published ones. Options follow a colon: ``generated:task=pos``,
    ``a.conllu:dev=b.conllu,test=c.conllu`` with files of one folder; a file alone is split by a
    hash of each sentence: 80 % train, 10 % validation, 10 % test.
    Raises `InputError` for an unknown name or option, or files that are missing or cannot be
    read."""
    name, options = parsed(name)
    if name == GENERATED:
        chosen = checked(SentenceGrammar, options, "generated corpus")
        return replace(make_tagged(SentenceGrammar(**dict(chosen))), label=label_of(name, chosen))
    allowed: tuple[set[str], ...] = (set(),)
    if name in PUBLISHED:
        folder = data / name if (data / name).is_dir() else data
        files = [folder / file for file in PUBLISHED[name]]
    else:
        allowed = set(), {"dev", "test"}
        path = Path(name).expanduser()
        files = [path, *(path.with_name(file) for _, file in sorted(options.items()))]
    takes = f"{name} takes no options, and a file of your own dev= and test= together"
    check({*options} in allowed, takes)
    paths = tuple(file if isfile(file) else Path(f"{file}.gz") for file in files)
    for file, path in zip(files, paths, strict=True):
        lacks = f"tagged corpus {name!r:.200}: {file.name} is not in {file.parent}"
        advice = f"give {GENERATED}, {' or '.join(PUBLISHED)} with --data, or the path of a file"
        check(isfile(path), f"{lacks}; {advice}")
    label = label_of(name, tuple(sorted(options.items())))
    return _load(name, label, paths, tuple(path.stat().st_mtime_ns for path in paths))


@lru_cache(maxsize=4)  # runs of one corpus follow each other
def _load(name: str, label: str, paths: tuple[Path, ...], changed: tuple[int, ...]) -> TaggedCorpus:
    """The corpus of some files. Raises `InputError` also for tags of which some are entities."""
    parts, notes = [*map(read_tagged, paths)], tuple[str, ...]()
    if len(parts) == 1:  # a hash keeps what is repeated on one side
        (sentences,), parts = parts, [[], [], []]
        for sentence in sentences:
            digest = hashlib.sha256("\t".join(sentence.words).encode()).digest()
            parts[{0: 1, 1: 2}.get(int.from_bytes(digest[:8]) % 10, 0)].append(sentence)
        few = f"{paths[0]} has {len(sentences)} sentences, too few for three splits"
        check(all(parts), f"{few}; add some, or name files with dev= and test=")
        notes = (f"{paths[0].name} was split by a hash of each sentence.",)
    complete = [*map(len, parts)] == [*PUBLISHED.get(name, {}).values()]
    train, validation, test = parts
    corpus = TaggedCorpus(label, train, validation, test, complete, notes)
    if corpus.has_entities:
        for tag in sorted({tag for part in parts for sentence in part for tag in sentence.tags}):
            other = f"{label}: the tag {tag!r:.60} is not O, B-TYPE or I-TYPE"
            check(
                _is_iob(tag), f"{other}; of other schemes write S- or U- as B-, and E- or L- as I-"
            )
    return corpus


def is_tagged(name: str) -> bool:
    """Whether a corpus is one of tagged words, by its name."""
    name = name if isfile(name) else name.partition(":")[0]
    return not (name in ("synthetic", *PUBLICATIONS) or suffix_of(name) in SUFFIXES)


# The grammar


@dataclass(frozen=True)
class SentenceGrammar:
    """The parameters of the small grammar that makes tagged sentences."""

    task: str = "entities"  #: "entities", tagged in BIO, or "pos", parts of speech
    clauses: int = 4  #: most clauses of a sentence; all numbers from 1 on are equally likely
    train: int = 1_000  #: sentences of each split
    validation: int = 200
    test: int = 400
    seed: int = 0  #: another seed gives other sentences by the same rules

    def __post_init__(self) -> None:
        check_known("task", self.task, CLAUSES)
        smallest = min(self.clauses, self.train, self.validation, self.test)
        check(smallest >= 1, "clauses, train, validation and test must be at least 1 each")


def make_tagged(grammar: SentenceGrammar) -> TaggedCorpus:
    """Make sentences by a small grammar, for training, validation and test."""
    has_entities = grammar.task == "entities"

    def sentences(split: str) -> Iterator[Tagged]:
        rng = random.Random(f"{grammar.seed} {grammar.task} {split}")
        lists = lists_of(_TABLES["words"])
        if split == "train":  # which never has the last quarter of the names
            for kind in ("first", "last", "city"):
                lists[kind] = lists[kind][: len(lists[kind]) * 3 // 4]
        for _ in range(getattr(grammar, split)):
            words, tags, later = list[str](), list[str](), list[int]()
            for number in range(rng.randint(1, grammar.clauses)):
                template = ("and/CCONJ/O " if number else "") + rng.choice(CLAUSES[grammar.task])
                for piece in template.split():  # word/part/entity, and * if a later word decides
                    word, part, entity = piece.removesuffix("*").split("/")
                    if word == "{number}":
                        word = str(rng.randint(2, 999))
                    elif word.startswith("{"):
                        word = rng.choice(lists[word[1:-1]])
                    later += [len(words)] * piece.endswith("*")
                    words.append(word)
                    tags.append(entity if has_entities else part)
            yield Tagged((*words, "."), (*tags, "O" if has_entities else "PUNCT"), tuple(later))

    notes = ("Sentences made by a small grammar.",)
    train, validation, test = (list(sentences(split)) for split in SPLITS)
    return TaggedCorpus(GENERATED, train, validation, test, notes=notes)


# Entities

COUNTED = ("true", "predicted", "right", "boundary", "mistyped", "spurious", "missed")


class Entity(NamedTuple):
    """A run of words of one type in a sentence."""

    type: str  #: such as "PER"
    start: int  #: its first word, counted from 0
    stop: int  #: the word after its last one


def _is_iob(tag: str) -> bool:
    return bool(re.fullmatch("O|[BI]-.+", tag))


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, from left to right. Raises `InputError` for a tag that is none
    of "O", "B-TYPE" and "I-TYPE"."""
    ended: list[Entity] = []
    kind, start = "", 0  # of the entity that is open; no type where none is
    for place, tag in enumerate((*tags, "O")):
        check(_is_iob(tag), f"the tag {tag!r:.60} is not O, B-TYPE or I-TYPE")
        if tag[0] == "I" and tag[2:] == kind:
            continue
        if kind:
            ended.append(Entity(kind, start, place))
        kind, start = tag[2:], place
    return ended


def in_io(tags: Sequence[str]) -> list[str]:
    """The tags of a sentence in IO, where the border between two entities of one type is lost."""
    return [re.sub("^B-", "I-", tag) for tag in tags]


def entity_scores(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Scores of the tags of some sentences together (micro-averaged), as conlleval and seqeval
    count: "entity_precision", "entity_recall" and "entity_f1" in %, and how many are
    "entities_true" and so on. A predicted one is "right" when its first word, its
    last word and its type are. Of the others "boundary" overlap a true entity in other borders,
    "mistyped" have its borders and another type, and "spurious" overlap none; "missed" are true
    ones that none overlaps."""
    counts = Counter(dict.fromkeys(COUNTED, 0))
    for tags, answer in zip(true, predicted, strict=True):
        expected, answered = entities(tags), entities(answer)
        judged = [_judged(entity, expected) for entity in answered]
        missed = [_judged(entity, answered) for entity in expected].count("spurious")
        counts.update(judged, true=len(expected), predicted=len(answered), missed=missed)
    precision, recall = (100 * counts["right"] / max(counts[of], 1) for of in ("predicted", "true"))
    f1 = 2 * precision * recall / max(precision + recall, 1e-9)
    rates = {"entity_precision": precision, "entity_recall": recall, "entity_f1": f1}
    return rates | {f"entities_{name}": count for name, count in counts.items()}


def _judged(entity: Entity, expected: Sequence[Entity]) -> str:
    """What a predicted entity is, compared with the true ones of its sentence."""
    if entity in expected:
        return "right"
    if any(entity[1:] == true[1:] for true in expected):
        return "mistyped"
    overlaps = any(entity.start < true.stop and true.start < entity.stop for true in expected)
    return "boundary" if overlaps else "spurious"
