"""The embedded tagged corpus: sentences of a little grammar of our own, deterministic by seed.

A sentence joins some clauses by "and". A clause is a template of ``word/tag/entity``: the part of
speech by the names of Universal Dependencies, then the entity. A star marks words whose tag only a
*later* word decides: both continuations are as likely, and nothing before tells them apart. So whoever
reads from left to right alone can but guess there.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from whenpool.base.errors import InputError
from whenpool.corpora.tagged.sentences import Tagged, TaggedCorpus

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
    sizes = {"train": grammar.train, "validation": grammar.validation, "test": grammar.test}
    train, validation, test = (_sentences(grammar, split, size) for split, size in sizes.items())
    note = "Sentences made by a small grammar."
    is_entities = grammar.task == "entities"
    return TaggedCorpus(train, validation, test, is_entities, "generated", notes=(note,))


def _sentences(grammar: SentenceGrammar, split: str, size: int) -> list[Tagged]:
    rng = random.Random(f"{grammar.seed} {grammar.task} {split}")
    words = {kind: text.split() for kind, text in (WORDS | UNITS).items()}
    if split == "train":
        for kind in NAMES:
            words[kind] = words[kind][: len(words[kind]) * 3 // 4]
    return [_sentence(grammar, words, rng) for _ in range(size)]


def _sentence(grammar: SentenceGrammar, words: dict[str, list[str]], rng: random.Random) -> Tagged:
    tokens: list[Token] = []
    for number in range(rng.randint(1, grammar.clauses)):
        tokens += [_AND] if number else []
        tokens += _clause(rng.choice(CLAUSES[grammar.task]), words, rng)
    tokens.append(_STOP)
    column = 2 if grammar.task == "entities" else 1
    return Tagged(
        tuple(token[0] for token in tokens),
        tuple(str(token[column]) for token in tokens),
        later=tuple(place for place, token in enumerate(tokens) if token[3]),
    )


def _clause(template: str, words: dict[str, list[str]], rng: random.Random) -> Iterator[Token]:
    for piece in template.split():
        word, pos, entity = piece.removesuffix("*").split("/")
        if word.startswith("{"):
            kind = word[1:-1]
            word = str(rng.randint(2, 999)) if kind == "number" else rng.choice(words[kind])
        yield word, pos, entity, piece.endswith("*")
