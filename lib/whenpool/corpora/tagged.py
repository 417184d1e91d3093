"""Sequence labelling: sentences of tagged words, from a published corpus, a file of the user's own, or a
small grammar of our own.

An entity is a run of words of one type. In BIO (IOB2) its first word has the tag ``B-TYPE``, the others
``I-TYPE``, and words outside have ``O``. `entities` reads tags as conlleval and seqeval do: an ``I-`` after
``O``, or after another type, begins an entity.
"""

import hashlib
import os
import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from os.path import isfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from whenpool.base.errors import check, check_known
from whenpool.base.files import code_fingerprint, fingerprint, hash_of, lines_of, remembered
from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN_INDEX, Batch, Ragged, Splits, Texts
from whenpool.corpora.corpus import SPLITS
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import SUFFIXES, checked, label_of, parsed
from whenpool.corpora.synthetic import lists_of
from whenpool.corpora.tokens import WordVectors, build_vocabulary, start_from

BIO = re.compile("O|[BI]-.+")


@dataclass(frozen=True)
class Tagged:
    """A sentence: as many words as tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    later: tuple[int, ...] = ()  #: places of words whose tag only a later word decides, if known

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Each word with its tag."""
        return zip(self.words, self.tags, strict=True)


@dataclass(frozen=True)
class TaggedCorpus:
    """Sentences for training, validation and test."""

    train: Sequence[Tagged]
    validation: Sequence[Tagged]
    test: Sequence[Tagged]
    entities: bool  #: whether tags mark entities
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


# Files


def read_tagged(path: str | Path) -> list[Tagged]:
    """The sentences of a file: ``.conllu`` is read as CoNLL-U, with the universal part of speech as the tag,
    anything else as columns, the word first and its tag last, an empty line between sentences; ``.gz`` is
    unpacked. Raises `InputError` for a file that cannot be read, or a line without a word and its tag."""
    path = Path(path)
    is_conllu = path.name.lower().removesuffix(".gz").endswith(".conllu")
    sentences: list[list[tuple[str, str]]] = [[]]
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip() or (line.startswith("-DOCSTART-") and not is_conllu):
            sentences.append([])
        elif not (is_conllu and re.match(r"#|\d+[-.]\d+\t", line)):  # a comment, or no word of its own
            cells = line.strip().split("\t" if is_conllu or "\t" in line else None)
            fits = len(cells) == 10 if is_conllu else len(cells) > 1
            form = "ten columns of CoNLL-U" if is_conllu else "a word and its tag"
            check(fits, f"{path}, line {number} has not {form}")
            word, tag = (cells[1], cells[3]) if is_conllu else (cells[0], cells[-1])
            missing = not word.strip() or tag.strip() in ("", "_" if is_conllu else "")
            check(not missing, f"{path}, line {number}: a word or its tag is missing")
            sentences[-1].append((word.strip(), tag.strip()))
    check(any(sentences), f"{path} has no sentence; write a word and its tag on each line")
    return [Tagged(*zip(*rows, strict=True)) for rows in sentences if rows]


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
GENERATED = "generated"


@dataclass(frozen=True)
class TaggedSource:
    """Where tagged sentences come from; nothing is read before it is asked for."""

    name: str  # "generated", one of `PUBLISHED`, or the path of a file
    options: tuple[tuple[str, Any], ...]  # of the `SentenceGrammar`, or dev and test of a file
    paths: tuple[Path, ...] = ()  # of training, validation and test, or of one file that is split

    @property
    def label(self) -> str:
        """As that of a `whenpool.corpora.CorpusSource`."""
        return label_of(self.name, self.options)

    def load(self) -> TaggedCorpus:
        """The corpus. Raises `InputError` for files that cannot be read, or tags that are partly entities."""
        if not self.paths:
            return make_tagged(SentenceGrammar(**dict(self.options)))
        parts = [read_tagged(path) for path in self.paths]
        notes: tuple[str, ...] = ()
        tags = {tag for part in parts for sentence in part for tag in sentence.tags}
        has_entities = any(tag.startswith(("B-", "I-")) for tag in tags)
        for tag in sorted(tags) if has_entities else ():  # a part of speech, or a tag of IOBES
            check(BIO.fullmatch(tag), f"{self.name}: the tag {tag!r:.60} is not O, B-TYPE or I-TYPE")
        if len(parts) == 1:  # a hash keeps what is repeated on one side: 80 %, 10 % and 10 %
            (sentences,), parts = parts, [[], [], []]
            for sentence in sentences:
                digest = hashlib.sha256("\t".join(sentence.words).encode()).digest()
                parts[{0: 1, 1: 2}.get(int.from_bytes(digest[:8]) % 10, 0)].append(sentence)
            few = f"{self.paths[0]} has {len(sentences)} sentences, too few for three splits"
            check(all(parts), f"{few}; add some, or name files with dev= and test=")
            notes = (f"{self.paths[0].name} was split by a hash of each sentence.",)
        complete = [*map(len, parts)] == [*PUBLISHED.get(self.name, {}).values()]
        train, validation, test = parts
        return TaggedCorpus(train, validation, test, has_entities, self.label, complete, notes)

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
    """Resolve "generated", "ud_ewt", "wnut17" or the path of a file to its source; ``data`` is the folder of
    published corpora. Options follow a colon: ``generated:task=pos``, ``a.conllu:dev=b.conllu,test=c.conllu``
    with files of the same folder; a file alone is split by a hash of each sentence: 80 % training, 10 %
    validation, 10 % test. Raises `InputError` for an unknown name or option, or files that are not there."""
    name, given = parsed(name)
    if name == GENERATED:
        return TaggedSource(name, checked(SentenceGrammar, given, "generated corpus"))
    path = Path(os.path.expanduser(name))
    wanted = [path, *(path.with_name(given[key]) for key in ("dev", "test") if key in given)]
    advice = f"give {GENERATED}, {', '.join(PUBLISHED)}, or the path of a file of tagged words"
    if name in PUBLISHED:
        wanted = [data / name / file for file in PUBLISHED[name]]
        advice = "put it there, or name the folder above with --data or WHENPOOL_DATA"
    fits = set(given) in (set(), set() if name in PUBLISHED else {"dev", "test"})
    wrong = f"{name} cannot have the options {', '.join(given)}"
    check(fits, f"{wrong}; a file takes both dev= and test=, or none")
    paths = []
    for file in wanted:
        places = [file, data / file.name] if name in PUBLISHED else [file]
        there = [p for place in places for p in (place, Path(f"{place}.gz")) if isfile(p)]
        check(there, f"tagged corpus {name!r:.200}: {file.name} is not in {file.parent}; {advice}")
        paths.append(there[0])
    return TaggedSource(name, tuple(sorted(given.items())), tuple(paths))


def is_tagged(name: str) -> bool:
    """Whether a corpus is one of tagged words; a ``.tsv`` of texts begins with the names of its columns."""
    name, _, options = name.partition(":") if not isfile(name) else (name, "", "")
    path = Path(name)
    if path.suffix.lower() == ".tsv" and isfile(path):
        header = {cell.strip() for cell in next(lines_of(path), "").split("\t")}
        return "_column=" not in options and not {"text", "label"} <= header
    return not (name == "synthetic" or name in PUBLICATIONS or path.suffix.lower() in SUFFIXES)


# The grammar

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CLAUSES = _TABLES["clauses"]


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

    train, validation, test = (list(sentences(split)) for split in SPLITS)
    notes = ("Sentences made by a small grammar.",)
    return TaggedCorpus(train, validation, test, has_entities, GENERATED, notes=notes)


# Entities


class Entity(NamedTuple):
    """A run of words of one type in a sentence."""

    type: str  #: such as "PER"
    start: int  #: its first word, counted from 0
    stop: int  #: the word after its last one


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, from left to right. Raises `InputError` for a tag that is none of "O",
    "B-TYPE" and "I-TYPE"."""
    ended: list[Entity] = []
    kind, start = "", 0  # of the entity that is open; no type where none is
    for place, tag in enumerate((*tags, "O")):
        check(BIO.fullmatch(tag), f"word {place + 1}: the tag {tag!r:.60} is not O, B-TYPE or I-TYPE")
        if tag[0] == "I" and tag[2:] == kind:
            continue
        if kind:
            ended.append(Entity(kind, start, place))
        kind, start = tag[2:], place
    return ended


def in_io(tags: Sequence[str]) -> list[str]:
    """The tags of a sentence in IO, where the border between two entities of one type is lost."""
    return [re.sub("^B-", "I-", tag) for tag in tags]


COUNTED = ("true", "predicted", "right", "boundary", "mistyped", "spurious", "missed")


@dataclass(frozen=True)
class EntityScores:
    """The entities that a tagger predicted, compared with the true ones; the three scores in %. An entity is
    right when its first word, its last word and its type are. Of the others ``boundary`` overlap a true
    entity in other borders, ``mistyped`` have its borders and another type, and ``spurious`` overlap none;
    ``missed`` are true ones that none overlaps. ``by_type`` has the F1 of each type of true entities."""

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


def entity_scores(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> EntityScores:
    """Scores of the tags of some sentences together (micro-averaged), as conlleval and seqeval count."""
    by_type = defaultdict[str, Counter[str]](Counter)
    for tags, answer in zip(true, predicted, strict=True):
        expected, given = entities(tags), entities(answer)
        for entity in given:
            by_type[entity.type].update(["predicted", _kind(entity, expected)])
        for entity in expected:
            missed = _kind(entity, given) == "spurious"
            by_type[entity.type].update(["true", "missed"] if missed else ["true"])
    total = sum(by_type.values(), Counter[str]())
    f1 = {kind: _rates(of_type)[2] for kind, of_type in sorted(by_type.items()) if of_type["true"]}
    return EntityScores(*_rates(total), by_type=f1, **{name: total[name] for name in COUNTED})


def _rates(counts: Mapping[str, int]) -> tuple[float, float, float]:
    """Precision, recall and F1 in %, 0 where there is nothing to divide by."""
    precision, recall = (counts["right"] / max(counts[of], 1) for of in ("predicted", "true"))
    f1 = 2 * precision * recall / (precision + recall) if counts["right"] else 0.0
    return 100 * precision, 100 * recall, 100 * f1


def _kind(entity: Entity, others: Sequence[Entity]) -> str:
    """What a predicted entity is, compared with the true ones of its sentence."""
    if entity in others:
        return "right"
    if any(entity[1:] == other[1:] for other in others):
        return "mistyped"
    overlaps = any(entity.start < other.stop and other.start < entity.stop for other in others)
    return "boundary" if overlaps else "spurious"


# Sentences as numbers. Letters: N sentences, B of them in a batch, T words of the longest in it, W words of
# all, F numbers of a word: of the word in lower case, of its suffix, and of its shape, by which a word is
# known that no training sentence has.

NO_TAG = -100  # Where no word is, or a tag that no training word has


@dataclass(frozen=True)
class NumberedSentences(Texts):
    """N sentences: of each word F numbers, (W, F) int32, and as labels the tags (W,) int64 or `NO_TAG`."""

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """Sentences (B,) as ids (B, T, F), lengths (B,), and tags (B, T), `NO_TAG` after each end."""
        places, is_word, lengths, _ = self.ids.places(indices)
        ids = self.ids.flat[places].long().masked_fill(~is_word.unsqueeze(-1), padding_index)
        return Batch(ids, lengths, self.labels[places].masked_fill(~is_word, NO_TAG))


@dataclass(frozen=True)
class NumberedCorpus(Splits):
    """All splits as numbers: `NumberedSentences` each."""

    tags: tuple[str, ...]  # names, in the order of their numbers
    sizes: tuple[int, ...]  # how many different words, suffixes and shapes there are, F of them
    rare: Tensor  # (words,) bool, those that stand once in the training sentences
    seen: Tensor  # (words,) bool, those that stand there at all
    vectors: Tensor | None  # (words, E) to start from
    later: Tensor  # (W,) bool, for each test word whether only a later one decides its tag
    spelling: Tensor | None = None  # (forms, L), see `whenpool.models.sequence_tagger.Spelling`


def number(
    corpus: TaggedCorpus, with_features: bool = True, vectors: WordVectors | None = None, seed: int = 0,
    with_spelling: bool = False,
) -> NumberedCorpus:  # fmt: skip
    """Number the words and tags of a corpus; ``with_features`` suffix and shape as well, ``with_spelling``
    also the written form of a word. Words that have ``vectors`` are known even where no training sentence
    has them; the ``seed`` draws those of words that have none."""
    written = {name: [w for s in part for w in s.words] for name, part in corpus.splits.items()}
    counts = Counter(map(str.lower, written["train"]))
    others = {word.lower() for word in written["validation"] + written["test"]} - counts.keys()
    unseen = sorted(others & set(vectors.words)) if vectors else []
    among = counts | dict.fromkeys(unseen, 1)  # what has no count is left out
    words = build_vocabulary(among, len(among))
    features: list[Any] = [(str.lower, words | {PADDING: UNKNOWN_INDEX})]  # if a text has such a word
    for feature in (suffix, shape) if with_features else ():
        values = sorted({feature(word) for word in written["train"]})
        features.append((feature, {value: i for i, value in enumerate(values, PADDING_INDEX + 1)}))
    sizes = (len(words), *(len(numbers) + PADDING_INDEX + 1 for _, numbers in features[1:]))
    spelling = None
    if with_spelling:  # the number of each form of all splits, and its first 20 letters
        forms = sorted({word for of_split in written.values() for word in of_split})
        letters = sorted({letter for word in written["train"] for letter in word})
        number_of_letter = {letter: place for place, letter in enumerate(letters, 2)}
        rows = [[number_of_letter.get(letter, 1) for letter in form[:20]] for form in forms]
        rows = [[1]] * (PADDING_INDEX + 1) + rows  # padding and unknown
        spelling = nn.utils.rnn.pad_sequence([*map(torch.tensor, rows)], batch_first=True)
        features.append((str, {form: place for place, form in enumerate(forms, PADDING_INDEX + 1)}))
    number_of = {tag: place for place, tag in enumerate(corpus.tags)}

    def numbered(split: str, sentences: Sequence[Tagged]) -> NumberedSentences:
        row_of = {  # a word is looked at once
            word: [numbers.get(feature(word), UNKNOWN_INDEX) for feature, numbers in features]
            for word in set(written[split])
        }
        rows = torch.tensor([row_of[word] for word in written[split]], dtype=torch.int32)  # (W, F)
        offsets = torch.tensor([0, *accumulate(map(len, sentences))])
        tags = [number_of.get(tag, NO_TAG) for sentence in sentences for tag in sentence.tags]
        return NumberedSentences(Ragged(rows, offsets), torch.tensor(tags))

    frequency = torch.tensor([counts.get(word, 0) for word in words])
    return NumberedCorpus(
        **{name: numbered(name, part) for name, part in corpus.splits.items()}, tags=corpus.tags,
        sizes=sizes, rare=frequency == 1, seen=frequency > 0, vectors=start_from(vectors, words, seed),
        later=torch.tensor([i in s.later for s in corpus.test for i in range(len(s))]),
        spelling=spelling,
    )  # fmt: skip


def suffix(word: str) -> str:
    """The last three letters of a word, in lower case: "ing" of "Walking"."""
    return word[-3:].lower()


def shape(word: str) -> str:
    """Upper and lower case, digits and other signs, each run once: "Xx" of "Chicago", "dx" of "1990s"."""
    tests = {"X": str.isupper, "x": str.islower, "d": str.isdigit}
    kinds = (next((kind for kind, holds in tests.items() if holds(letter)), ".") for letter in word)
    return "".join(kind for kind, _ in groupby(kinds))[:8]
