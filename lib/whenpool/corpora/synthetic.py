"""The embedded corpus: reviews from a small grammar of our own, deterministic by seed."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice

from whenpool.base.errors import InputError
from whenpool.corpora.corpus import Corpus, Split


def lists_of(text: str) -> dict[str, list[str]]:
    """Words by kind, from lines such as ``kind: word word``, which indented lines continue."""
    lists: dict[str, list[str]] = {}
    for line in text.strip().splitlines():
        kind, _, words = line.rpartition(":")
        lists.setdefault(kind or [*lists][-1], []).extend(words.split())
    return lists


MOODS = lists_of("""
praise: wonderful delightful superb charming brilliant gripping moving splendid excellent graceful
    touching inspired lovely masterful radiant refreshing satisfying stunning sublime thrilling
    triumphant vivid warm witty magical flawless enchanting dazzling memorable generous
blame: awful dreadful clumsy tedious boring dull shallow lifeless lazy messy painful pointless
    ridiculous sloppy stale terrible tiresome ugly unbearable wooden annoying bland careless confusing
    cheap disappointing forgettable hollow insulting wretched
""")

TOPICS = lists_of("""
animals: feline canine feathered furry hoofed nocturnal migratory domesticated clawed amphibian
cooking: roasted peppery sauteed buttery marinated crusty simmered savoury caramelised doughy
gardens: leafy potted blossoming thorny composted budding pruned perennial mossy rooted
machines: geared hydraulic motorised welded greased riveted mechanical electric threaded cranked
medicine: clinical surgical feverish chronic prescribed contagious dental diagnosed numbing sterile
money: taxed invested indebted mortgaged salaried fiscal profitable audited insured leased
music: melodic orchestral acoustic rhythmic choral harmonic improvised tuneful syncopated amplified
seas: tidal coastal salty nautical briny anchored seaworthy submerged coral stormy
space: lunar orbital stellar galactic cosmic interplanetary solar weightless astronomical celestial
sports: athletic sprinting defensive undefeated championship goalkeeping refereed amateur olympic relay
""")

NEUTRAL_WORDS = lists_of("""
modifier: small second early usual local former large recent quiet whole single common longer plain
    nearby separate simple regular narrow round central upper wooden familiar actual average empty
    double open heavy
thing: part scene room chapter day street story table box hour door page evening voice side week moment
    paper window corner question number road letter name hand place morning shelf picture line chair
    friend afternoon floor trip piece bag desk house
person: brother neighbour sister teacher cousin stranger driver doctor clerk uncle visitor writer guest
    boy woman student owner waiter officer girl
did: saw took found kept brought left followed opened noticed carried reached mentioned moved bought
    watched counted held turned showed used
time: yesterday later then again today afterwards once meanwhile twice finally
""")

REVIEW_FRAMES = (
    "the {modifier} {thing} was on the {modifier} {thing} .",
    "{time} the {modifier} {person} {did} a {modifier} {thing} .",
    "my {person} {did} the {modifier} {thing} before the {modifier} {thing} .",
    "there was a {modifier} {thing} in every {modifier} {thing} .",
    "we {did} it {time} , with a {modifier} {person} and a {modifier} {thing} .",
    "it had a {modifier} {thing} , and the {person} {did} that {modifier} {thing} {time} .",
    "after the {modifier} {thing} i {did} one {modifier} {thing} .",
    "a {modifier} {person} {did} us near the {modifier} {thing} .",
)

ENCYCLOPEDIA_WORDS = lists_of("""
place: velmora asten kirrow dunmere halvik torrada ostwick brenna lisova quarrel marnby eskedal pelluna
    sarvik odmoor trellin vashta corvale ninfield ulverby
surname: harlow vedder okafor lindqvist marchetti sato petrov alvarado nkemelu brandt castellan
    dufresne ishikawa kowal lorentz mbeki norwood oduya pereira rasmussen
thing: river bridge province parish railway canal fortress cathedral district valley harbour lighthouse
    monastery observatory theatre quarry reservoir village plateau museum
direction: north south east west northeast southwest
role: engineer botanist bishop senator painter geologist admiral composer surveyor historian astronomer
    merchant architect governor chemist
kind: species genus family order tribe lineage
creature: beetle moss orchid snail heron lichen moth fern sedge perch
material: granite timber limestone iron brick sandstone copper slate clay basalt
event: treaty flood census election siege fire famine merger earthquake strike
""")

ENCYCLOPEDIA_FRAMES = (
    "{place} is a {thing} in the {direction} of {place} , with {number} inhabitants in {number} .",
    "the {thing} of {place} was built of {material} between {number} and {number} .",
    "{surname} was a {role} who was born in {place} in {number} .",
    "the {creature} is a {kind} found {direction} of the {thing} of {place} .",
    "after the {event} of {number} the {thing} passed to the {role} {surname} .",
    "in {number} the {thing} between {place} and {place} was closed .",
    "its {direction} part belongs to the {thing} of {place} .",
    "the {event} of {place} ended in {number} , under the {role} {surname} .",
    "{place} lies {number} kilometres {direction} of {place} .",
    "the {kind} was described by {surname} in {number} .",
)


@dataclass(frozen=True)
class Grammar:
    """The parameters of the synthetic corpus."""

    classes: int = 2  # 2 moods or 10 topics
    shortest: int = 101  # words of a text, uniform from the shortest to the longest
    longest: int = 140
    density: float = 0.05  # the part of all words that is evidence, at most 0.2
    agreement: float = 0.8  # how often a word of evidence speaks for the text's class; else for another
    train: int = 2_000  # texts of each split
    validation: int = 500
    test: int = 1_000
    seed: int = 0  # another seed gives other texts by the same rules

    def __post_init__(self) -> None:
        if self.classes not in (2, 10):
            raise InputError(f"the synthetic corpus has classes=2 or classes=10, not {self.classes}")
        if not 1 <= self.shortest <= self.longest:
            raise InputError(f"shortest={self.shortest} and longest={self.longest} bound no length")
        if not 0 <= self.density <= 0.2:
            raise InputError(f"density is a part of all words in [0, 0.2], not {self.density}")
        if not 0 <= self.agreement <= 1:
            raise InputError(f"agreement is a probability, not {self.agreement}")
        if min(self.train, self.validation, self.test) < 1:
            raise InputError("train, validation and test need at least one text each")

    @property
    def evidence(self) -> dict[str, list[str]]:
        """The words that speak for each class."""
        return MOODS if self.classes == 2 else TOPICS


def make_corpus(grammar: Grammar) -> Corpus:
    """Texts of all splits, classes taking turns so that they are balanced."""
    evidence, classes = grammar.evidence, tuple(grammar.evidence)
    words = sum(len(frame.split()) for frame in REVIEW_FRAMES)
    slots = sum(frame.count("{modifier}") for frame in REVIEW_FRAMES)
    evidence_rate = grammar.density * words / slots

    def split(which: str, size: int) -> Split:
        rng = random.Random(f"{grammar.seed} {which}")
        labels = [index % len(classes) for index in range(size)]
        rng.shuffle(labels)
        pick = _weighted_picker(NEUTRAL_WORDS, rng)

        def word(kind: str, label: str) -> str:
            if kind != "modifier" or rng.random() >= evidence_rate:
                return pick(kind)
            if rng.random() >= grammar.agreement:
                label = rng.choice([other for other in classes if other != label])
            return rng.choice(evidence[label])

        def review(label: str) -> str:
            length = rng.randint(grammar.shortest, grammar.longest)
            frames = (rng.choice(REVIEW_FRAMES) for _ in count())
            pieces = (_fill(frame, lambda kind: word(kind, label), rng) for frame in frames)
            return _with_articles(" ".join(islice(chain.from_iterable(pieces), length)))

        return Split([review(classes[label]) for label in labels], labels)

    train, validation, test = (
        split(which, getattr(grammar, which)) for which in ("train", "validation", "test")
    )
    note = "Texts made by a small grammar."
    return Corpus(train, validation, test, classes, "synthetic", notes=(note,))


def encyclopedia(split: str) -> list[str]:
    """4,000 declarative sentences about places and people that do not exist, others for each split."""
    rng = random.Random(f"0 encyclopedia {split}")
    pick = _weighted_picker(ENCYCLOPEDIA_WORDS, rng)
    frames = (rng.choice(ENCYCLOPEDIA_FRAMES) for _ in range(4_000))
    return [_with_articles(" ".join(_fill(frame, pick, rng))) for frame in frames]


def _with_articles(text: str) -> str:
    """ "a" becomes "an" before a vowel."""
    return re.sub(r"\ba (?=[aeiou])", "an ", text)


def _weighted_picker(lists: dict[str, list[str]], rng: random.Random):
    """Draws a word of a kind, early ones of its list more often, as in natural text (Zipf)."""
    weights = {
        kind: list(accumulate(1 / (rank + 2) for rank in range(len(words))))
        for kind, words in lists.items()
    }
    return lambda kind: rng.choices(lists[kind], cum_weights=weights[kind])[0]


def _fill(frame: str, pick, rng: random.Random) -> Iterator[str]:
    """The words of a frame, ``{kind}`` replaced by a word of that kind, ``{number}`` by digits."""
    for word in frame.split():
        if word.startswith("{"):
            kind, _, rest = word[1:].partition("}")
            yield (str(rng.randint(2, 1999)) if kind == "number" else pick(kind)) + rest
        else:
            yield word
