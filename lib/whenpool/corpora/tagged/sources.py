"""Tagged corpora by name, the embedded one among them: sentences of a small grammar of our own."""

import hashlib
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError
from whenpool.base.files import code_fingerprint, fingerprint, hash_of, is_file, lines_of, remembered
from whenpool.corpora.own import SUFFIXES
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import checked, label_of, parsed
from whenpool.corpora.tagged.entities import check_entities, encoding_of, mark_entities
from whenpool.corpora.tagged.reading import COLUMNS, Tagged, TaggedCorpus, is_conllu, read_tagged

TASKS = ("entities", "pos")
_AND = ("and", "CCONJ", "O", False)
_STOP = (".", "PUNCT", "O", False)

WORDS = {
    "first": (
        "Fred Sue Mengqiu Anna Omar Lena Ravi Maria Ivan Chen Nadia Peter Aisha Jonas Mina Carlos "
        "Petra Hugo Salma Viktor"
    ),
    "last": (
        "Huang Wilkie Murdoch Okeshott Windsor Guofang Silva Novak Tanaka Weber Haddad Costa Larsen "
        "Dubois Moretti Eriksen"
    ),
    "city": (
        "Chicago Delhi Lagos Turin Oslo Lima Cairo Quito Perth Hanoi Tampere Leipzig Porto Cork Basel "
        "Riga"
    ),
    "either": "Lincoln Washington Chester Austin Sydney Paris Jackson Florence",
    "measure": "length range extent reach span",
    "both": "back light right present front",
    "thing": "door box wall page seat garden window table",
    "state": "cold wet new old broken clean",
    "did": "broke hurt fell shone moved",
    "trade": "earnings losses plans results",
    "object": "painting house letter boat song",
}
"""Kinds of words; of names, ``NAMES``, the last quarter never stands in a training sentence."""
NAMES = ("first", "last", "city")
UNITS = {"TIME": "hours minutes days weeks", "SPACE": "metres miles inches feet"}

_MEASURED = "the/DET/O {measure}/NOUN/B-%s* is/AUX/O {number}/NUM/B-%s* {unit}/NOUN/I-%s"
CLAUSES = {
    "entities": (
        *(_MEASURED.replace("%s", kind).replace("{unit}", f"{{{kind}}}") for kind in UNITS),
        "{either}/PROPN/B-PER* said/VERB/O so/ADV/O",
        "{either}/PROPN/B-LOC* is/AUX/O a/DET/O town/NOUN/O",
        "{first}/PROPN/B-PER showed/VERB/O {first}/PROPN/B-PER {first}/PROPN/B-PER {last}/PROPN/I-PER "
        "'s/PART/O {state}/ADJ/O {object}/NOUN/O",
        "{first}/PROPN/B-PER {last}/PROPN/I-PER went/VERB/O to/ADP/O {city}/PROPN/B-LOC",
        "First/PROPN/B-ORG Bank/PROPN/I-ORG of/ADP/I-ORG {city}/PROPN/I-ORG announced/VERB/O "
        "{trade}/NOUN/O",
        "at/ADP/O first/ADV/O Bank/PROPN/B-ORG of/ADP/I-ORG {city}/PROPN/I-ORG announced/VERB/O "
        "{trade}/NOUN/O",
    ),
    "pos": (
        "the/DET/O {both}/ADJ/O* {thing}/NOUN/O {did}/VERB/O",
        "the/DET/O {both}/NOUN/O* {did}/VERB/O",
        "it/PRON/O is/AUX/O on/ADP/O my/PRON/O back/NOUN/O",
        "they/PRON/O win/VERB/O the/DET/O voters/NOUN/O back/ADV/O",
        "{first}/PROPN/B-PER promised/VERB/O to/PART/O back/VERB/O the/DET/O bill/NOUN/O",
        "{first}/PROPN/B-PER went/VERB/O to/ADP/O {city}/PROPN/B-LOC",
        "the/DET/O {thing}/NOUN/O is/AUX/O {state}/ADJ/O",
    ),
}
"""Templates by task, each as likely as any other of it."""

Token = tuple[str, str, str, bool]
"""A word, its part of speech, its entity tag, and whether a later word decides them."""


@dataclass(frozen=True)
class SentenceGrammar:
    """The parameters of the embedded tagged corpus.

    Attributes:
        task: "entities" (in IOB2) or "pos": which templates, and which of their tags.
        clauses: of a sentence at most; from one on each number is as likely.
        train, validation, test: sentences.
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
        if self.task not in TASKS:
            raise InputError(f"task {self.task!r} is unknown; choose one of {', '.join(TASKS)}")
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
        lists = {kind: text.split() for kind, text in (WORDS | UNITS).items()}
        for kind in NAMES if split == "train" else ():
            lists[kind] = lists[kind][: len(lists[kind]) * 3 // 4]
        for _ in range(getattr(grammar, split)):
            tokens: list[Token] = []
            for number in range(rng.randint(1, grammar.clauses)):
                tokens += [_AND] if number else []
                tokens += _clause(rng.choice(CLAUSES[grammar.task]), lists, rng)
            tokens.append(_STOP)
            words, parts, kinds, marked = zip(*tokens, strict=True)
            later = tuple(place for place, mark in enumerate(marked) if mark)
            yield Tagged(words, kinds if is_entities else parts, later=later)

    train, validation, test = (list(sentences(split)) for split in ("train", "validation", "test"))
    note = "Sentences made by a small grammar."
    return TaggedCorpus(train, validation, test, is_entities, GENERATED, notes=(note,))


def _clause(template: str, words: dict[str, list[str]], rng: random.Random) -> Iterator[Token]:
    for piece in template.split():
        word, pos, entity = piece.removesuffix("*").split("/")
        if word.startswith("{"):
            kind = word[1:-1]
            word = str(rng.randint(2, 999)) if kind == "number" else rng.choice(words[kind])
        yield word, pos, entity, piece.endswith("*")


GENERATED = "generated"


@dataclass(frozen=True)
class Treebank:
    """A published corpus.

    Attributes:
        folder: where its files may lie inside of the folder of data.
        files: of training, validation and test.
        sentences: how many each of them has.
    """

    folder: str
    files: tuple[str, str, str]
    sentences: tuple[int, int, int]


PUBLISHED = {
    "ud_ewt": Treebank(
        "ud_ewt",
        ("en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu", "en_ewt-ud-test.conllu"),
        (12_544, 2_001, 2_077),
    ),
    "wnut17": Treebank(
        "wnut17",
        ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
        (3_394, 1_009, 1_287),
    ),
}
"""UD English EWT (2.15), and WNUT 2017; each file as it is published, or gzipped."""


@dataclass(frozen=True)
class TaggedSource:
    """Where tagged sentences come from; nothing is read before it is asked for.

    Attributes:
        name: "generated", one of `PUBLISHED`, or the path of a file.
        options: of the `SentenceGrammar`, or ``column``, ``dev`` and ``test`` of a file.
        paths: the files of training, validation and test, or one that is split; none for "generated".
    """

    name: str
    options: tuple[tuple[str, Any], ...]
    paths: tuple[Path, ...] = ()

    @property
    def label(self) -> str:
        """The name and options in one way of writing them, without the folder of a file."""
        known = self.name in (GENERATED, *PUBLISHED)
        return label_of(self.name if known else Path(self.name).name, self.options)

    def load(self) -> TaggedCorpus:
        """The corpus.

        Raises:
            InputError: for files that cannot be read, or tags of entities in none of our encodings.
        """
        if not self.paths:
            return make_tagged(SentenceGrammar(**dict(self.options)))
        column = str(dict(self.options).get("column", "upos"))
        parts = [read_tagged(path, column) for path in self.paths]
        entities = any(map(mark_entities, parts))
        notes = []
        for part, path in zip(parts, self.paths, strict=True) if entities else ():
            check_entities(part, str(path))
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
        whole = self.name in PUBLISHED and tuple(map(len, parts)) == PUBLISHED[self.name].sentences
        train, validation, test = parts
        return TaggedCorpus(train, validation, test, entities, self.label, whole, tuple(notes))

    def fingerprint(self) -> str:
        """A hash of the words and tags of all splits."""
        files = (fingerprint(path) for path in self.paths)
        code = code_fingerprint(Path(__file__).parent)
        identity = hash_of("tagged", *files, repr(self.options), code)
        return remembered(identity, lambda: _hash(self.load()))


def find_tagged(name: str, data: Path) -> TaggedSource:
    """Resolve the name of a tagged corpus, with its options, to its source.

    Args:
        name: "generated", "ud_ewt", "wnut17", or a file (see `read_tagged`), which alone is split by a
            hash of each sentence: 80 % training, 10 % validation, 10 % test. Options stand behind a
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
    bank = PUBLISHED.get(name)
    if "column" in given and not is_conllu(Path(bank.files[0] if bank else name)):
        raise InputError(f"{name}: column= is of CoNLL-U, a file that ends in .conllu; leave it out")
    options = tuple(sorted(given.items()))
    if bank:
        return TaggedSource(
            name, options, tuple(_published_file(bank, file, data) for file in bank.files)
        )
    path = Path(os.path.expanduser(name))
    if not is_file(path):
        raise InputError(
            f"tagged corpus {name!r:.200} is unknown; choose one of "
            f"{', '.join((GENERATED, *PUBLISHED))}, or give the path of a .conllu file or one of columns"
        )
    if ("dev" in given) != ("test" in given):
        raise InputError(f"{path}: give dev= and test= both, or none to have it split")
    others = [path.with_name(given[key]) for key in ("dev", "test") if key in given]
    for other in others:
        if not is_file(other):
            raise InputError(f"{other} is not there; dev= and test= name files beside {path.name}")
    return TaggedSource(name, options, (path, *others))


def is_tagged(name: str) -> bool:
    """Whether a corpus by its name is one of tagged words, and not of labelled texts. A ``.tsv`` may
    hold either: one of texts begins with the names of its columns."""
    name, _, options = name.partition(":") if not is_file(Path(name)) else (name, "", "")
    path = Path(name)
    if path.suffix.lower() == ".tsv" and is_file(path):
        header = {cell.strip() for cell in next(lines_of(path), "").split("\t")}
        return "_column=" not in options and not {"text", "label"} <= header
    return not (name == "synthetic" or name in PUBLICATIONS or path.suffix.lower() in SUFFIXES)


def _published_file(bank: Treebank, file: str, data: Path) -> Path:
    for folder in (data / bank.folder, data):
        for suffix in ("", ".gz"):
            if is_file(folder / f"{file}{suffix}"):
                return folder / f"{file}{suffix}"
    raise InputError(
        f"tagged corpus {bank.folder!r}: {file} is not in {data / bank.folder}; put the publisher's "
        "files there, or name the folder above with DATA= or WHENPOOL_DATA"
    )


def _split(sentences: Sequence[Tagged], path: Path) -> list[list[Tagged]]:
    """80, 10 and 10 % by a hash of the words, so that a sentence that is repeated stays on one side."""
    parts: dict[str, list[Tagged]] = {"train": [], "validation": [], "test": []}
    for sentence in sentences:
        digest = hashlib.sha256("\t".join(sentence.words).encode()).digest()
        tenth = int.from_bytes(digest[:8]) % 10
        parts[("validation", "test")[tenth] if tenth < 2 else "train"].append(sentence)
    for name, part in parts.items():
        if not part:
            raise InputError(
                f"{path} has {len(sentences)} sentences, of which none falls to {name}; give more, or "
                "name files with dev= and test="
            )
    return list(parts.values())


def _hash(corpus: TaggedCorpus) -> str:
    parts = []
    for split, sentences in corpus.splits.items():
        parts.append(f"{split} {len(sentences)}")
        for sentence in sentences:
            parts += ["\t".join(sentence.words), "\t".join(sentence.tags)]
    return hash_of(*parts)
