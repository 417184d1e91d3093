"""Sequence labelling: corpora of tagged words, published ones, files in CoNLL-U or in columns of words and
tags, and an embedded one, sentences of a small grammar of our own.

An entity is a run of words of one type. In *IO* each of its words has ``I-TYPE``, so two entities of one type
that touch become one. *IOB1* writes ``B-TYPE`` on the first word of an entity only where one of the same type
ends right before, *IOB2* (BIO) on the first word of every entity. `entities` reads all three as conlleval and
``seqeval`` do: an ``I-`` after ``O``, or after another type, begins an entity.

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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os.path import isfile
from pathlib import Path
from typing import Any, NamedTuple

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import code_fingerprint, fingerprint, hash_of, lines_of, remembered
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

    Examples:
        >>> list(Tagged(("Fred", "showed"), ("B-PER", "O")))
        [('Fred', 'B-PER'), ('showed', 'O')]
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int = 0  #: where it begins in its file, counted from 1; 0 outside of a file
    later: tuple[int, ...] = ()  #: places of words whose tag only a later word decides, if known

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each word with its tag."""
        return zip(self.words, self.tags, strict=True)


@dataclass(frozen=True)
class TaggedCorpus:
    """Sentences for training, validation and test.

    Examples:
        >>> fred = Tagged(("Fred", "showed"), ("B-PER", "O"))
        >>> TaggedCorpus([fred], [fred], [fred], entities=True).tags
        ('B-PER', 'O')
    """

    train: Sequence[Tagged]
    validation: Sequence[Tagged]
    test: Sequence[Tagged]
    entities: bool  #: whether tags mark entities, by one of `ENCODINGS`
    name: str = ""
    complete: bool = False  #: whether it is the whole of a published corpus
    notes: tuple[str, ...] = ()  #: what a reader of results should know, a sentence each

    @property
    def splits(self) -> dict[str, Sequence[Tagged]]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def tags(self) -> tuple[str, ...]:
        """Of the training sentences, in alphabetical order."""
        return tuple(sorted({tag for sentence in self.train for tag in sentence.tags}))


COLUMNS = {"upos": 3, "xpos": 4}  # Those of CoNLL-U that are read as tags, counted from 0


def _is_conllu(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".conllu")


def read_tagged(path: str | Path, column: str = "upos") -> list[Tagged]:
    """The sentences of a file. Raises `InputError` for a file that is missing or not UTF-8, a line
    without word or tag or with another number of columns, named by its number, or a file without
    sentences.

    Args:
        path: ``.conllu`` is read as CoNLL-U, anything else as columns; ``.gz`` is unpacked.
        column: "upos" or "xpos", of CoNLL-U alone.

    Examples:
        >>> from pathlib import Path; import tempfile
        >>> file = Path(tempfile.mkdtemp(), "two.tsv")
        >>> _ = file.write_text("Fred B-PER\\nshowed O\\n\\nSue B-PER\\n")
        >>> [sentence.words for sentence in read_tagged(file)]
        [('Fred', 'showed'), ('Sue',)]
    """
    path = Path(path)
    check_known("column", column, COLUMNS)
    is_conllu = _is_conllu(path)
    found: list[Tagged] = []
    sentence: list[tuple[int, str, str]] = []  # for each word its line, the word, and its tag
    first, width = 0, 0  # the first line with words, and its number of columns
    for number, line in enumerate(chain(lines_of(path), [""]), 1):
        where, cells = f"{path}, line {number}", line.rstrip("\r\n").split("\t")
        if not line.strip() or (line.startswith("-DOCSTART-") and not is_conllu):
            if sentence:
                lines, words, tags = zip(*sentence, strict=True)
                found.append(Tagged(words, tags, lines[0]))
                sentence = []
            continue
        if is_conllu:
            if line.startswith("#"):
                continue
            check(len(cells) == 10, f"{where} has {len(cells)} columns; CoNLL-U needs 10, split by tabs")
            if re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0]):  # several words in one, or one left out
                continue
            if cells[0] != str(len(sentence) + 1):
                wrong = f"the word has the number {cells[0]!r:.40} instead of {len(sentence) + 1}"
                mend = "number the words of a sentence from 1, and put a blank line between sentences"
                raise InputError(f"{where}: {wrong}; {mend}")
            word, tag = cells[1].strip(), cells[COLUMNS[column]].strip()
        else:
            cells = cells if "\t" in line else line.split()
            check(len(cells) >= 2, f"{where}: the word has no tag; write a word and its tag")
            first, width = first or number, width or len(cells)
            if len(cells) != width:
                odd = f"{where} has {len(cells)} columns, but line {first} has {width}"
                raise InputError(f"{odd}; give each line as many")
            word, tag = cells[0].strip(), cells[-1].strip()
        if not word or not tag or (is_conllu and tag == "_"):
            missing = "tag" if word else "word"
            raise InputError(f"{where}: the {missing} is missing; write a word and its tag")
        sentence.append((number, word, tag))
    check(found, f"{path} has no sentence; write a word and its tag on each line")
    return found


GENERATED = "generated"
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CLAUSES = _TABLES["clauses"]


@dataclass(frozen=True)
class SentenceGrammar:
    """The parameters of the small grammar that makes tagged sentences.

    Examples:
        >>> sentence = make_tagged(SentenceGrammar("pos", train=20)).train[0]
        >>> sentence.words[-1], sentence.tags[-1]
        ('.', 'PUNCT')
    """

    task: str = "entities"  #: "entities", tagged in IOB2, or "pos", parts of speech
    clauses: int = 4  #: most clauses of a sentence; all numbers from 1 on are equally likely
    train: int = 1_000  #: sentences for training
    validation: int = 200  #: sentences for validation
    test: int = 400  #: sentences for testing
    seed: int = 0  #: another seed gives other sentences by the same rules

    def __post_init__(self) -> None:
        check_known("task", self.task, CLAUSES)
        if min(self.clauses, self.train, self.validation, self.test) < 1:
            raise InputError("clauses, train, validation and test must be at least 1 each")


def make_tagged(grammar: SentenceGrammar) -> TaggedCorpus:
    """Make sentences by a small grammar, for training, validation and test.

    Examples:
        >>> corpus = make_tagged(SentenceGrammar(train=3, validation=1, test=1))
        >>> len(corpus.train), corpus.entities
        (3, True)
    """
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
                    if piece.endswith("*"):
                        later.append(len(words))
                    words.append(word)
                    tags.append(entity if has_entities else part)
            end = "O" if has_entities else "PUNCT"
            yield Tagged((*words, "."), (*tags, end), later=tuple(later))

    train, validation, test = (list(sentences(split)) for split in ("train", "validation", "test"))
    note = "Sentences made by a small grammar."
    return TaggedCorpus(train, validation, test, has_entities, GENERATED, notes=(note,))


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
        """As that of a `whenpool.corpora.CorpusSource`."""
        return label_of(self.name, self.options)

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
                    where = f"{path}, sentence at line {sentence.line}"
                    raise InputError(f"{where}, {error}: write entities in IO, IOB1 or IOB2") from None
            encoding = encoding_of(sentence.tags for sentence in part)
            if encoding.begun_inside and encoding.name != "io":
                notes.append(
                    f"{path.name} is {'IOB1' if encoding.name == 'iob1' else 'of mixed encodings'}: "
                    f"{encoding.begun_inside:,} of its {encoding.entities:,} entities begin with I-, "
                    "which are read as entities."
                )
        if len(parts) == 1:  # split by a hash of the words: a repeated sentence stays on one side
            split: dict[str, list[Tagged]] = {"train": [], "validation": [], "test": []}
            for sentence in parts[0]:
                digest = hashlib.sha256("\t".join(sentence.words).encode()).digest()
                tenth = int.from_bytes(digest[:8]) % 10
                split[{0: "validation", 1: "test"}.get(tenth, "train")].append(sentence)
            if empty := [name for name, part in split.items() if not part]:
                few = f"{self.paths[0]} has only {len(parts[0])} sentences, of which none is for {empty[0]}"
                raise InputError(f"{few}; add some, or name files with dev= and test=")
            parts = list(split.values())
            notes.append(f"{self.paths[0].name} was split by a hash of each sentence.")
        whole = [*map(len, parts)] == [*PUBLISHED.get(self.name, {}).values()]
        train, validation, test = parts
        return TaggedCorpus(train, validation, test, has_entities, self.label, whole, tuple(notes))

    def fingerprint(self) -> str:
        """A hash of the words and tags of all splits."""

        def compute() -> str:
            texts = []
            for split, sentences in self.load().splits.items():
                texts.append(f"{split} {len(sentences)}")
                for sentence in sentences:
                    texts += ["\t".join(sentence.words), "\t".join(sentence.tags)]
            return hash_of(*texts)

        origin = (*map(fingerprint, self.paths), repr(self.options))
        return remembered(hash_of("tagged", *origin, code_fingerprint(Path(__file__).parent)), compute)


def find_tagged(name: str, data: Path) -> TaggedSource:
    """Resolve the name of a tagged corpus, with its options, to its source. Raises `InputError` for an
    unknown name or option, or files that are not there.

    Args:
        name: "generated", "ud_ewt", "wnut17", or a file (see `read_tagged`), which alone is split by a
            hash of each sentence: 80 % training, 10 % validation, 10 % test. Options follow a
            colon: ``generated:task=pos``, ``ud_ewt:column=xpos``,
            ``train.conllu:dev=dev.conllu,test=test.conllu`` with files of the same folder.
        data: the folder of published corpora.

    Examples:
        >>> from pathlib import Path
        >>> find_tagged("generated:task=pos", Path()).label
        'generated:task=pos'
    """
    name, given = parsed(name)
    if name == GENERATED:
        return TaggedSource(name, checked(SentenceGrammar, given, "generated corpus"))
    if unknown := given.keys() - ({"column"} if name in PUBLISHED else {"column", "dev", "test"}):
        raise InputError(f"the tagged corpus {name} has no option {min(unknown)!r:.60}; leave it out")
    check_known("column", given.get("column", "upos"), COLUMNS)
    if "column" in given and not _is_conllu(Path(next(iter(PUBLISHED.get(name, [name]))))):
        raise InputError(f"{name}: only a .conllu file takes the option column; leave it out")
    paths = []
    for file in PUBLISHED.get(name, ()):
        places = [folder / f"{file}{end}" for folder in (data / name, data) for end in ("", ".gz")]
        found = next(filter(isfile, places), None)
        if found is None:
            advice = "put it there, or name the folder above with --data or WHENPOOL_DATA"
            raise InputError(f"tagged corpus {name!r}: {file} is not in {data / name}; {advice}")
        paths.append(found)
    if name not in PUBLISHED:
        path = Path(os.path.expanduser(name))
        if not isfile(path):
            choices = f"{GENERATED}, {', '.join(PUBLISHED)}, or give the path of a file of tagged words"
            raise InputError(f"tagged corpus {name!r:.200} is unknown; choose one of {choices}")
        if ("dev" in given) != ("test" in given):
            raise InputError(f"{path}: give both dev= and test=, or neither to have it split")
        paths = [path, *(path.with_name(given[key]) for key in ("dev", "test") if key in given)]
        for other in paths[1:]:
            check(isfile(other), f"{other} does not exist; dev= and test= name files beside {path.name}")
    return TaggedSource(name, tuple(sorted(given.items())), tuple(paths))


def is_tagged(name: str) -> bool:
    """Whether a corpus is one of tagged words; a ``.tsv`` of texts begins with the names of its columns."""
    name, _, options = name.partition(":") if not isfile(Path(name)) else (name, "", "")
    path = Path(name)
    if path.suffix.lower() == ".tsv" and isfile(path):
        header = {cell.strip() for cell in next(lines_of(path), "").split("\t")}
        return "_column=" not in options and not {"text", "label"} <= header
    return not (name == "synthetic" or name in PUBLICATIONS or path.suffix.lower() in SUFFIXES)


# How tags mark entities: from one encoding to another, and scores of those found

ENCODINGS = ("io", "iob1", "iob2")
OUTSIDE = "O"


class Entity(NamedTuple):
    """An entity is a run of words of one type in a sentence.

    Examples:
        >>> Entity("PER", 3, 5) in entities(["O", "O", "O", "B-PER", "I-PER"])
        True
    """

    type: str  #: such as "PER"
    start: int  #: its first word, counted from 0
    stop: int  #: the word after its last one


class Encoding(NamedTuple):
    """How the tags of some sentences mark entities. Where several encodings fit, it is the first of iob2,
    iob1, io.

    Examples:
        >>> encoding_of([["B-PER", "I-PER", "O"]]).name
        'iob2'
    """

    name: str  #: one of `ENCODINGS`, or "mixed"
    entities: int  #: how many entities the sentences have
    begun_inside: int  #: how many of them begin with ``I-``


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, from left to right. Raises `InputError` for a tag that is none of "O",
    "B-TYPE" and "I-TYPE".

    Examples:
        >>> entities(["B-PER", "O", "I-ORG", "I-ORG"])
        [Entity(type='PER', start=0, stop=1), Entity(type='ORG', start=2, stop=4)]
    """
    found: list[Entity] = []
    kind, start = "", 0
    for place, tag in enumerate((*tags, OUTSIDE)):
        type_ = tag[2:]
        if tag != OUTSIDE and not (type_ and tag.startswith(("B-", "I-"))):
            raise InputError(f"word {place + 1}: the tag {tag!r:.60} is not O, B-TYPE or I-TYPE")
        if kind and (tag[0] != "I" or type_ != kind):
            found.append(Entity(kind, start, place))
            kind = ""
        if type_ and not kind:
            kind, start = type_, place
    return found


def convert(tags: Sequence[str], target: str) -> list[str]:
    """The tags of one sentence in another of the `ENCODINGS`; their own is found out. Raises `InputError` for
    an unknown encoding, or a tag that is none of them.

    Examples:
        >>> convert(["I-PER", "I-PER", "B-PER", "O"], "iob2")  # from IOB1
        ['B-PER', 'I-PER', 'B-PER', 'O']
        >>> convert(["B-PER", "I-PER", "B-PER", "O"], "io")  # the border between two is lost
        ['I-PER', 'I-PER', 'I-PER', 'O']
    """
    check_known("encoding", target, ENCODINGS)
    written = _in_iob2(entities(tags), len(tags))
    for entity, touches in _with_touching(tags):
        if target == "io" or (target == "iob1" and not touches):
            written[entity.start] = f"I-{entity.type}"
    return written


def _in_iob2(found: Iterable[Entity], words: int) -> list[str]:
    """The tags of a sentence of so many words."""
    tags = [OUTSIDE] * words
    for kind, start, stop in found:
        tags[start:stop] = [f"B-{kind}", *[f"I-{kind}"] * (stop - start - 1)]
    return tags


def encoding_of(sentences: Iterable[Sequence[str]]) -> Encoding:
    """Which encoding the tags of some sentences have: "mixed" when some entities begin with ``I-`` as in IOB1
    and others, which touch none of their type, with ``B-`` as in IOB2. Raises `InputError` for a tag that is
    none of the encodings'.

    Examples:
        >>> encoding_of([["I-PER", "O", "I-PER", "B-PER"]])
        Encoding(name='iob1', entities=3, begun_inside=2)
    """
    seen: Counter[str] = Counter()
    for tags in sentences:
        for entity, touches in _with_touching(tags):
            inside = tags[entity.start].startswith("I")
            seen["inside" if inside else "needed" if touches else "begun"] += 1
    name = "mixed" if seen["begun"] else "iob1" if seen["needed"] else "io"
    return Encoding(name if seen["inside"] else "iob2", seen.total(), seen["inside"])


def _with_touching(tags: Sequence[str]) -> Iterator[tuple[Entity, bool]]:
    """Each entity, and whether one of the same type ends right before it."""
    before = Entity("", 0, 0)
    for entity in entities(tags):
        yield entity, (before.type, before.stop) == (entity.type, entity.start)
        before = entity


COUNTED = ("true", "predicted", "right", "boundary", "mistyped", "spurious", "missed")


@dataclass(frozen=True)
class EntityScores:
    """The entities that a tagger found, compared with the true ones; the three scores in %.

    An entity is right when its first word, its last word and its type are. Of those that are wrong,
    ``boundary`` overlap a true entity in other borders, whatever its type, ``mistyped`` have the
    borders of one and another type, and ``spurious`` overlap none; ``missed`` are the true ones that no
    predicted one overlaps. ``by_type`` has the F1 of each type that a true entity has.

    Examples:
        >>> found = entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "B-ORG"]])
        >>> found.recall, found.mistyped
        (50.0, 1)
    """

    precision: float
    recall: float
    f1: float
    true: int
    predicted: int
    right: int
    boundary: int
    mistyped: int
    spurious: int
    missed: int
    by_type: Mapping[str, float] = field(default_factory=dict)


def entity_scores(
    true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], strict: bool = False
) -> EntityScores:
    """Scores of some sentences together (micro-averaged), by ``seqeval``. Raises `InputError` for other
    numbers of sentences or words, a tag that is none, or without seqeval.

    Args:
        true, predicted: tags of each sentence, in any encoding, not necessarily the same: a tagger that was
            trained in IO is compared with the true entities.
        strict: read entities as ``seqeval``'s ``mode="strict"`` with IOB2 does: what does not begin with
            ``B-`` is none. By default an ``I-`` may begin one, as for conlleval.

    Examples:
        >>> true = [["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]]  # First Bank of Chicago announced
        >>> cut = [["O", "B-ORG", "I-ORG", "I-ORG", "O"]]  # Bank of Chicago
        >>> scores = entity_scores(true, cut)
        >>> scores.f1, scores.boundary
        (0.0, 1)
    """
    try:
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    except ImportError:
        raise InputError("entity scores need seqeval: pip install 'whenpool[tagging]'") from None
    check(len(true) == len(predicted), f"{len(predicted)} sentences were tagged, but {len(true)} given")
    counts = Counter(dict.fromkeys(COUNTED, 0))
    written: tuple[list[list[str]], list[list[str]]] = [], []  # in IOB2, which seqeval reads in one way
    for number, pair in enumerate(zip(true, predicted, strict=True), 1):
        words = len(pair[0])
        check(len(pair[1]) == words, f"sentence {number} has {words} words, but {len(pair[1])} tags")
        there, found = (
            [entity for entity in entities(tags) if not strict or tags[entity.start].startswith("B")]
            for tags in pair
        )
        counts.update(_kind(entity, there) for entity in found)
        missed = sum(_kind(entity, found) == "spurious" for entity in there)
        counts.update(true=len(there), predicted=len(found), missed=missed)
        written[0].append(_in_iob2(there, words))
        written[1].append(_in_iob2(found, words))
    *overall, _ = precision_recall_fscore_support(*written, average="micro", zero_division=0)
    precision, recall, f1 = (100 * float(value) for value in overall)
    types = sorted({tag[2:] for tags in chain(*written) for tag in tags if tag != OUTSIDE})
    *_, of_types, support = precision_recall_fscore_support(*written, zero_division=0)
    rows = zip(types, of_types, support, strict=True)
    by_type = {name: 100 * float(value) for name, value, count in rows if count}
    return EntityScores(precision, recall, f1, **counts, by_type=by_type)


def _kind(entity: Entity, others: Sequence[Entity]) -> str:
    if entity in others:
        return "right"
    if any((entity.start, entity.stop) == (other.start, other.stop) for other in others):
        return "mistyped"
    overlaps = any(entity.start < other.stop and other.start < entity.stop for other in others)
    return "boundary" if overlaps else "spurious"
