"""The embedded corpus: reviews from a small grammar of our own, deterministic by seed; its words
are in synthetic.toml."""

import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice
from pathlib import Path

from whenpool.base.errors import check
from whenpool.corpora.corpus import Corpus, Split


def lists_of(table: dict[str, str]) -> dict[str, list[str]]:
    """The words of each kind, from texts with spaces between them."""
    return {kind: words.split() for kind, words in table.items()}


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MOODS, TOPICS, NEUTRAL_WORDS, ENCYCLOPEDIA_WORDS = (
    lists_of(_TABLES[name]) for name in ("moods", "topics", "neutral_words", "encyclopedia_words")
)
REVIEW_FRAMES, ENCYCLOPEDIA_FRAMES = _TABLES["review_frames"], _TABLES["encyclopedia_frames"]


@dataclass(frozen=True)
class Grammar:
    """The parameters of the synthetic corpus."""

    classes: int = 2  # 2 moods or 10 topics
    shortest: int = 101  # words of a text, uniform from the shortest to the longest
    longest: int = 140
    density: float = 0.05  # the part of all words that is evidence, at most 0.2
    agreement: float = (
        0.8  # how often a word of evidence speaks for the text's class; else for another
    )
    train: int = 2_000  # texts of each split
    validation: int = 500
    test: int = 1_000
    seed: int = 0  # another seed gives other texts by the same rules

    def __post_init__(self) -> None:
        check(
            self.classes in (2, 10), f"the synthetic corpus has 2 or 10 classes, not {self.classes}"
        )
        lengths = f"shortest={self.shortest} must be from 1 to longest={self.longest}"
        check(1 <= self.shortest <= self.longest, lengths)
        check(0 <= self.density <= 0.2, f"density must be in [0, 0.2], not {self.density}")
        check(0 <= self.agreement <= 1, f"agreement must be in [0, 1], not {self.agreement}")
        check(min(self.train, self.validation, self.test) >= 1, "splits need at least 1 text each")

    @property
    def evidence(self) -> dict[str, list[str]]:
        """The words that speak for each class."""
        return MOODS if self.classes == 2 else TOPICS


def make_corpus(grammar: Grammar) -> Corpus:
    """Texts of all splits, classes taking turns so that they are balanced."""
    evidence, classes = grammar.evidence, tuple(grammar.evidence)
    every_frame = " ".join(REVIEW_FRAMES)
    evidence_rate = grammar.density * len(every_frame.split()) / every_frame.count("{modifier}")

    def split(which: str) -> Split:
        rng = random.Random(f"{grammar.seed} {which}")
        labels = [index % len(classes) for index in range(getattr(grammar, which))]
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

    train, validation, test = map(split, ("train", "validation", "test"))
    notes = ("Texts made by a small grammar.",)
    return Corpus(train, validation, test, classes, "synthetic", notes=notes)


def encyclopedia(split: str) -> list[str]:
    """4,000 declarative sentences about places and people that do not exist, others for each
    split."""
    rng = random.Random(f"0 encyclopedia {split}")
    pick = _weighted_picker(ENCYCLOPEDIA_WORDS, rng)
    frames = (rng.choice(ENCYCLOPEDIA_FRAMES) for _ in range(4_000))
    return [_with_articles(" ".join(_fill(frame, pick, rng))) for frame in frames]


def _with_articles(text: str) -> str:
    """ "a" becomes "an" before a vowel."""
    return re.sub(r"\ba (?=[aeiou])", "an ", text)


def _weighted_picker(lists: dict[str, list[str]], rng: random.Random):
    """Draws a word of a kind, early ones of its list more often, as in natural text (Zipf)."""
    sums = {
        kind: [*accumulate(1 / (rank + 2) for rank in range(len(words)))]
        for kind, words in lists.items()
    }
    return lambda kind: rng.choices(lists[kind], cum_weights=sums[kind])[0]


def _fill(frame: str, pick, rng: random.Random) -> Iterator[str]:
    """The words of a frame, ``{kind}`` replaced by a word of that kind, ``{number}`` by digits."""
    for word in frame.split():
        if word.startswith("{"):
            kind, _, rest = word[1:].partition("}")
            yield (str(rng.randint(2, 1999)) if kind == "number" else pick(kind)) + rest
        else:
            yield word
