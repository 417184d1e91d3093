"""Sequence labelling: corpora of tagged words, published ones, files in CoNLL-U or in columns of words and
tags, and an embedded one, sentences of a small grammar of our own.

Examples:
    >>> from whenpool.corpora.tagged import convert
    >>> convert(["I-PER", "B-PER", "I-PER", "O"], "iob2")
    ['B-PER', 'B-PER', 'I-PER', 'O']
"""

import hashlib
import os
import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from os.path import isfile
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError
from whenpool.base.files import code_fingerprint, fingerprint, hash_of, lines_of, remembered
from whenpool.corpora.entities import (
    Encoding,
    Entity,
    EntityScores,
    convert,
    encoding_of,
    entities,
    entity_scores,
)
from whenpool.corpora.own import SUFFIXES
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import checked, label_of, parsed
from whenpool.corpora.synthetic import lists_of

__all__ = [
    "Encoding", "Entity", "EntityScores", "SentenceGrammar", "Tagged", "TaggedCorpus", "convert",
    "encoding_of", "entities", "entity_scores", "find_tagged", "make_tagged", "read_tagged",
]  # fmt: skip


@dataclass(frozen=True)
class Tagged:
    """A sentence: as many words as tags.

    Attributes:
        line: where it begins in its file, counted from 1; 0 outside of a file.
        later: places of the words whose tag only a later word decides, as far as that is known.

    Examples:
        >>> list(Tagged(("Fred", "showed"), ("B-PER", "O")))
        [('Fred', 'B-PER'), ('showed', 'O')]
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int = 0
    later: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each word with its tag."""
        return zip(self.words, self.tags, strict=True)


@dataclass(frozen=True)
class TaggedCorpus:
    """Sentences for training, validation and test.

    Attributes:
        entities: whether tags mark entities, by an encoding of `whenpool.corpora.entities`.
        complete: whether it is the whole of a published corpus.
        notes: what a reader of results should know, a sentence each.

    Examples:
        >>> fred = Tagged(("Fred", "showed"), ("B-PER", "O"))
        >>> TaggedCorpus([fred], [fred], [fred], entities=True).tags
        ('B-PER', 'O')
    """

    train: Sequence[Tagged]
    validation: Sequence[Tagged]
    test: Sequence[Tagged]
    entities: bool
    name: str = ""
    complete: bool = False
    notes: tuple[str, ...] = ()

    @property
    def splits(self) -> dict[str, Sequence[Tagged]]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def tags(self) -> tuple[str, ...]:
        """Of the training sentences, in alphabetical order."""
        return tuple(sorted({tag for sentence in self.train for tag in sentence.tags}))


_HERE = Path(__file__).parent
COLUMNS = {"upos": 3, "xpos": 4}
"""The columns of CoNLL-U that are read as tags, counted from 0."""
Row = tuple[int, str, str] | None
"""The number of a line, its word and its tag; None between two sentences."""


def _is_conllu(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".conllu")


def read_tagged(path: str | Path, column: str = "upos") -> list[Tagged]:
    """The sentences of a file.

    Args:
        path: ``.conllu`` is read as CoNLL-U, anything else as columns; ``.gz`` is unpacked.
        column: "upos" or "xpos", of CoNLL-U alone.

    Raises:
        InputError: for a file that is missing or not UTF-8, a line without word or tag or with another
            number of columns, named by its number, or a file without sentences.

    Examples:
        >>> from pathlib import Path; import tempfile
        >>> file = Path(tempfile.mkdtemp(), "two.tsv")
        >>> _ = file.write_text("Fred B-PER\\nshowed O\\n\\nSue B-PER\\n")
        >>> [sentence.words for sentence in read_tagged(file)]
        [('Fred', 'showed'), ('Sue',)]
    """
    path = Path(path)
    if column not in COLUMNS:
        raise InputError(f"column {column!r} is unknown; choose one of {', '.join(COLUMNS)}")
    if not isfile(path):
        raise InputError(f"file of tagged words {path} is not there")
    rows = _conllu(path, COLUMNS[column]) if _is_conllu(path) else _columns(path)
    found = []
    for _, group in groupby(rows, key=bool):
        sentence = [row for row in group if row]
        for line, word, tag in sentence:
            if not (word and tag):
                missing = "tag" if word else "word"
                raise InputError(f"{path}, line {line}: the {missing} is missing; every word has a tag")
        if sentence:
            lines, words, tags = zip(*sentence, strict=True)
            found.append(Tagged(words, tags, lines[0]))
    if not found:
        raise InputError(f"{path} has no sentence: a line must be a word and its tag")
    return found


def _conllu(path: Path, column: int) -> Iterator[Row]:
    expected = 1
    for number, line in enumerate(lines_of(path), 1):
        where, cells = f"{path}, line {number}", line.rstrip("\r\n").split("\t")
        if not line.strip():
            expected = 1
            yield None
        elif line.startswith("#"):
            continue
        elif len(cells) != 10:
            raise InputError(f"{where}: {len(cells)} columns, CoNLL-U has 10, separated by tabs")
        elif re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0]):  # several words in one, or one left out
            continue
        elif cells[0] != str(expected):
            raise InputError(
                f"{where}: word {cells[0]!r:.40} where number {expected} should stand; number the words "
                "of a sentence 1, 2, 3, ..., and put a blank line between sentences"
            )
        else:
            expected += 1
            yield number, cells[1].strip(), "" if cells[column] == "_" else cells[column].strip()


def _columns(path: Path) -> Iterator[Row]:
    width, first = 0, 0
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            yield None
            continue
        cells = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
        if len(cells) < 2:
            raise InputError(f"{path}, line {number}: a word without a tag; write both, or a blank line")
        width, first = width or len(cells), first or number
        if len(cells) != width:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, line {first} has {width}; give each line "
                "as many"
            )
        yield number, cells[0].strip(), cells[-1].strip()


GENERATED = "generated"
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
WORDS, CLAUSES = lists_of(_TABLES["words"]), _TABLES["clauses"]
NAMES = ("first", "last", "city")
"""Kinds of words of which the last quarter never stands in a training sentence."""


@dataclass(frozen=True)
class SentenceGrammar:
    """The parameters of the embedded tagged corpus.

    Attributes:
        task: "entities" (in IOB2) or "pos": which templates, and which of their tags.
        clauses: of a sentence at most; from one on each number is as likely.
        train: sentences.
        validation: sentences.
        test: sentences.
        seed: another seed gives other sentences by the same rules.

    Examples:
        >>> sentence = make_tagged(SentenceGrammar("pos", train=20)).train[0]
        >>> sentence.words[-1], sentence.tags[-1]
        ('.', 'PUNCT')
    """

    task: str = "entities"
    clauses: int = 4
    train: int = 1_000
    validation: int = 200
    test: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        if self.task not in CLAUSES:
            raise InputError(f"task {self.task!r} is unknown; choose one of {', '.join(CLAUSES)}")
        if min(self.clauses, self.train, self.validation, self.test) < 1:
            raise InputError("clauses, train, validation and test are at least 1 each")


def make_tagged(grammar: SentenceGrammar) -> TaggedCorpus:
    """The sentences of all splits.

    Examples:
        >>> corpus = make_tagged(SentenceGrammar(train=3, validation=1, test=1))
        >>> len(corpus.train), corpus.entities
        (3, True)
    """
    is_entities = grammar.task == "entities"

    def sentences(split: str) -> Iterator[Tagged]:
        rng = random.Random(f"{grammar.seed} {grammar.task} {split}")
        lists = dict(WORDS)
        for kind in NAMES if split == "train" else ():
            lists[kind] = lists[kind][: len(lists[kind]) * 3 // 4]
        for _ in range(getattr(grammar, split)):
            tokens = []
            for number in range(rng.randint(1, grammar.clauses)):
                template = ("and/CCONJ/O " if number else "") + rng.choice(CLAUSES[grammar.task])
                tokens += [_token(piece, lists, rng) for piece in template.split()]
            words, parts, kinds, marked = zip(*tokens, (".", "PUNCT", "O", False), strict=True)
            later = tuple(place for place, mark in enumerate(marked) if mark)
            yield Tagged(words, kinds if is_entities else parts, later=later)

    train, validation, test = (list(sentences(split)) for split in ("train", "validation", "test"))
    note = "Sentences made by a small grammar."
    return TaggedCorpus(train, validation, test, is_entities, GENERATED, notes=(note,))


def _token(piece: str, words: dict[str, list[str]], rng: random.Random) -> tuple[str, str, str, bool]:
    """From a piece of a template: a word, both its tags, and whether a later word decides them."""
    word, part_of_speech, entity = piece.removesuffix("*").split("/")
    if word.startswith("{"):
        kind = word[1:-1]
        word = str(rng.randint(2, 999)) if kind == "number" else rng.choice(words[kind])
    return word, part_of_speech, entity, piece.endswith("*")


PUBLISHED = {
    "ud_ewt": {
        "en_ewt-ud-train.conllu": 12_544, "en_ewt-ud-dev.conllu": 2_001, "en_ewt-ud-test.conllu": 2_077,
    },
    "wnut17": {
        "wnut17train.conll": 3_394, "emerging.dev.conll": 1_009, "emerging.test.annotated": 1_287,
    },
}  # fmt: skip
"""UD English EWT (2.15), and WNUT 2017: files of training, validation and test, with their numbers of
sentences; each file as it is published, or gzipped, in a folder of the corpus's name or above."""


@dataclass(frozen=True)
class TaggedSource:
    """Where tagged sentences come from; nothing is read before it is asked for."""

    name: str  # "generated", one of `PUBLISHED`, or the path of a file
    options: tuple[tuple[str, Any], ...]  # of the `SentenceGrammar`, or column, dev and test of a file
    paths: tuple[Path, ...] = ()  # of training, validation and test, or of one file that is split

    @property
    def label(self) -> str:
        """The name and options in one way of writing them, without the folder of a file."""
        known = self.name in (GENERATED, *PUBLISHED)
        return label_of(self.name if known else Path(self.name).name, self.options)

    def load(self) -> TaggedCorpus:
        """The corpus; raises `InputError` for files that cannot be read, and tags in no known encoding."""
        if not self.paths:
            return make_tagged(SentenceGrammar(**dict(self.options)))
        column = str(dict(self.options).get("column", "upos"))
        parts = [read_tagged(path, column) for path in self.paths]
        tags = {tag for part in parts for sentence in part for tag in sentence.tags}
        has_entities = any(tag.startswith(("B-", "I-")) for tag in tags)
        notes = []
        for part, path in zip(parts, self.paths, strict=True) if has_entities else ():
            for sentence in part:
                try:
                    entities(sentence.tags)
                except InputError as error:  # a tag of IOBES, or a part of speech
                    raise InputError(
                        f"{path}, sentence at line {sentence.line}, {error}, which others are; write "
                        "entities in IO, IOB1 or IOB2"
                    ) from None
            encoding = encoding_of(sentence.tags for sentence in part)
            if encoding.begun_inside and encoding.name != "io":
                notes.append(
                    f"{path.name} is {'IOB1' if encoding.name == 'iob1' else 'of mixed encodings'}: "
                    f"{encoding.begun_inside:,} of its {encoding.entities:,} entities begin with I-, "
                    "which are read as entities."
                )
        if len(parts) == 1:
            parts = _split(parts[0], self.paths[0])
            notes.append(f"{self.paths[0].name} was split by a hash of each sentence.")
        whole = [*map(len, parts)] == [*PUBLISHED.get(self.name, {}).values()]
        train, validation, test = parts
        return TaggedCorpus(train, validation, test, has_entities, self.label, whole, tuple(notes))

    def fingerprint(self) -> str:
        """A hash of the words and tags of all splits."""
        files = (fingerprint(path) for path in self.paths)
        identity = hash_of("tagged", *files, repr(self.options), code_fingerprint(_HERE))

        def compute() -> str:
            texts = []
            for split, sentences in self.load().splits.items():
                texts.append(f"{split} {len(sentences)}")
                for sentence in sentences:
                    texts += ["\t".join(sentence.words), "\t".join(sentence.tags)]
            return hash_of(*texts)

        return remembered(identity, compute)


def find_tagged(name: str, data: Path) -> TaggedSource:
    """Resolve the name of a tagged corpus, with its options, to its source.

    Args:
        name: "generated", "ud_ewt", "wnut17", or a file (see `read_tagged`), which alone is split by a
            hash of each sentence: 80 % training, 10 % validation, 10 % test. Options follow a
            colon: ``generated:task=pos``, ``ud_ewt:column=xpos``,
            ``train.conllu:dev=dev.conllu,test=test.conllu`` with files of the same folder.
        data: the folder of published corpora.

    Raises:
        InputError: for an unknown name or option, or files that are not there.

    Examples:
        >>> from pathlib import Path
        >>> find_tagged("generated:task=pos", Path()).label
        'generated:task=pos'
    """
    name, given = parsed(name)
    if name == GENERATED:
        return TaggedSource(name, checked(SentenceGrammar, given, "generated corpus"))
    if unknown := set(given) - {"column", *(() if name in PUBLISHED else ("dev", "test"))}:
        raise InputError(f"the tagged corpus {name} has no option {min(unknown)!r:.60}")
    if given.get("column", "upos") not in COLUMNS:
        raise InputError(f"column={given['column']} is unknown; choose one of {', '.join(COLUMNS)}")
    if "column" in given and not _is_conllu(Path(next(iter(PUBLISHED.get(name, [name]))))):
        raise InputError(f"{name}: column= is of CoNLL-U, a file that ends in .conllu; leave it out")
    options = tuple(sorted(given.items()))
    if name in PUBLISHED:
        files = tuple(_published_file(data, name, file) for file in PUBLISHED[name])
        return TaggedSource(name, options, files)
    path = Path(os.path.expanduser(name))
    if not isfile(path):
        raise InputError(
            f"tagged corpus {name!r:.200} is unknown; choose one of "
            f"{', '.join((GENERATED, *PUBLISHED))}, or give the path of a .conllu file or one of columns"
        )
    if ("dev" in given) != ("test" in given):
        raise InputError(f"{path}: give dev= and test= both, or none to have it split")
    others = [path.with_name(given[key]) for key in ("dev", "test") if key in given]
    for other in others:
        if not isfile(other):
            raise InputError(f"{other} is not there; dev= and test= name files beside {path.name}")
    return TaggedSource(name, options, (path, *others))


def is_tagged(name: str) -> bool:
    """Whether a corpus by its name is one of tagged words, and not of labelled texts. A ``.tsv`` may
    hold either: one of texts begins with the names of its columns."""
    name, _, options = name.partition(":") if not isfile(Path(name)) else (name, "", "")
    path = Path(name)
    if path.suffix.lower() == ".tsv" and isfile(path):
        header = {cell.strip() for cell in next(lines_of(path), "").split("\t")}
        return "_column=" not in options and not {"text", "label"} <= header
    return not (name == "synthetic" or name in PUBLICATIONS or path.suffix.lower() in SUFFIXES)


def _published_file(data: Path, corpus: str, file: str) -> Path:
    for folder in (data / corpus, data):
        for suffix in ("", ".gz"):
            if isfile(folder / f"{file}{suffix}"):
                return folder / f"{file}{suffix}"
    raise InputError(
        f"tagged corpus {corpus!r}: {file} is not in {data / corpus}; put the publisher's files there, or "
        "name the folder above with DATA= or WHENPOOL_DATA"
    )


def _split(sentences: Sequence[Tagged], path: Path) -> list[list[Tagged]]:
    """80, 10 and 10 % by a hash of the words, so that a sentence that is repeated stays on one side."""
    parts: dict[str, list[Tagged]] = {"train": [], "validation": [], "test": []}
    for sentence in sentences:
        digest = hashlib.sha256("\t".join(sentence.words).encode()).digest()
        tenth = int.from_bytes(digest[:8]) % 10
        parts[{0: "validation", 1: "test"}.get(tenth, "train")].append(sentence)
    for name, part in parts.items():
        if not part:
            raise InputError(
                f"{path} has {len(sentences)} sentences, of which none falls to {name}; give more, or "
                "name files with dev= and test="
            )
    return list(parts.values())
