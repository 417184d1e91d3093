"""The four settings of "Training to skip unimportant words" (thesis §1.8.1, Figure 1.5).

In a setting other than "standard", encyclopedic sentences surround the text, so that the words
that matter stand only in one place:

=========  ==============================
standard   original
left       original, filler
mid        filler, original, filler
right      filler, original
=========  ==============================
"""

import hashlib
import re
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, TypeVar

from whenpool.base.errors import check, check_known
from whenpool.base.files import json_lines, lines_of

__all__ = ["SETTINGS", "SHARE", "compose"]
SETTINGS = ("standard", "left", "mid", "right")
SHARE = 0.66  # The part of all words that is filler (§1.8.1)
Word = TypeVar("Word")


def compose(
    words: Sequence[Word],
    filler: Iterable[Sequence[Word]],
    setting: str,
    share: float = SHARE,
    rng: Any = None,
) -> list[Word]:
    """Surround a text with filler, the original kept in one piece where the setting says. Raises
    `InputError` for an unknown setting, a share outside [0, 1), a text or sentence that is one
    string, or filler that runs out.

    Args:
        words: the original, as words (or as their numbers).
        filler: sentences, taken whole and in order; the last one on each side of the original is
            cut, so that the result has ``len(words) / (1 - share)`` words, rounded.
        share: filler's part of all words of the result, in [0, 1).
        rng: tosses for the side that gets the odd word in "mid"; without it, the right side.

    Examples:
        >>> filler = iter([["the", "river"], ["is", "long", "and", "blue"]])
        >>> " ".join(compose(["what", "a", "film"], filler, "mid", share=0.5))
        'the what a film is long'
    """
    check(
        not isinstance(words, str), "words must be a list of words, not one string; split it first"
    )
    sides, sentences = [], map(_not_a_string, filler)
    for count in filler_lengths(len(words), setting, share, rng):
        taken = list(islice(chain.from_iterable(sentences), count))  # the last one is cut
        few = f"the filler has {len(taken)} words left, not {count}; give more sentences"
        check(len(taken) == count, few)
        sides.append(taken)
    left, right = sides
    return [*left, *words, *right]


def _not_a_string(sentence: Sequence[Word]) -> Sequence[Word]:
    check(
        not isinstance(sentence, str),
        "a sentence of filler must be a list of words, not one string; split it",
    )
    return sentence


def filler_lengths(
    words: int, setting: str, share: float = SHARE, rng: Any = None
) -> tuple[int, int]:
    """Filler words left and right of a text of so many words. Raises `InputError` as `compose`."""
    check_known("setting", setting, SETTINGS)
    check(0 <= share < 1, f"share, the filler's part of all words, must be in [0, 1), not {share}")
    total = 0 if setting == "standard" else round(words * share / (1 - share))
    left = {"left": 0, "right": total}.get(setting, total // 2)
    if setting == "mid" and total % 2 and rng is not None and rng.random() < 0.5:
        left += 1
    return left, total - left


# Where the sentences may lie under the data directory
FILES = (
    "wiki_sentences.jsonl.gz",
    "wiki_sentences.jsonl",
    "wiki_sentences.txt",
    "wiki_sentences.txt.gz",
    "wikitext-103-raw/wiki.train.raw",
)
SHARES = {"train": 0.5, "validation": 0.2, "test": 0.3}  # The part of the articles for each split


def find_filler(directory: Path) -> Path:
    """The file of filler sentences; raises `InputError` when there is none."""
    there = [directory / name for name in FILES if (directory / name).is_file()]
    check(
        there,
        f"{directory} has no filler sentences: run `whenpool data fetch wikitext`, or put "
        f"{FILES[2]} there, with a sentence on each line and an empty line between articles",
    )
    return there[0]


def load_filler(path: Path) -> dict[str, list[str]]:
    """Sentences for each split, from articles that no other split draws from."""
    sentences: dict[str, list[str]] = {split: [] for split in SHARES}
    lists, borders = [*sentences.values()], [*accumulate(SHARES.values())]
    for article, sentence in _sentences(path):
        share = int.from_bytes(hashlib.sha256(article.encode()).digest()[:4]) / 2**32
        lists[bisect(borders, share)].append(sentence)
    for split, chosen in sentences.items():
        check(chosen, f"{path} has too few articles: none is left for {split} texts; add some")
    return sentences


def _sentences(path: Path) -> Iterator[tuple[str, str]]:
    """The article and text of each sentence, from JSON lines, WikiText's raw format, or a sentence
    a line."""
    if ".jsonl" in path.name:
        expected = '{"sentence": ..., "title": ...}'
        for where, row in json_lines(path, expected):
            check({"title", "sentence"} <= row.keys(), f"{where}: expected {expected}")
            title, sentence = (
                str(row[key]).encode("utf-8", "replace") for key in ("title", "sentence")
            )
            yield title.decode(), sentence.decode()
    elif path.suffix == ".raw":
        yield from islice(_wikitext(path), 200_000)  # it holds millions; so many are enough
    else:  # without empty lines between articles, each sentence is its own article
        lines = [line.strip() for line in "".join(lines_of(path)).strip().splitlines()]
        article, each_alone = 0, "" not in lines
        for line in lines:
            if line:
                yield str(article), line
            article += each_alone or not line


def _wikitext(path: Path) -> Iterator[tuple[str, str]]:
    """`` = Title = `` opens an article, a line is a paragraph."""
    title = ""
    for line in lines_of(path):
        if heading := re.fullmatch(r"= ([^=].*?) =", line.strip()):
            title = heading[1]
        elif line.strip() and not line.startswith(" = "):
            for sentence in line.strip().removesuffix(" .").split(" . "):
                yield title, re.sub(r" @(.)@ ", r"\1", sentence) + " ."
