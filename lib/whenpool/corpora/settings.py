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

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from whenpool.base.errors import InputError

__all__ = ["SETTINGS", "SHARE", "check_setting", "compose", "filler_lengths"]

SETTINGS = ("standard", "left", "mid", "right")
SHARE = 0.66
"""The part of all words that is filler (§1.8.1)."""

Word = TypeVar("Word")


class Coin(Protocol):
    """``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float: ...


def check_setting(setting: str) -> None:
    """Raises `InputError` for a setting that is not one of `SETTINGS`.

    Examples:
        >>> check_setting("mid")
    """
    if setting not in SETTINGS:
        raise InputError(f"setting {setting!r} is unknown; choose one of {', '.join(SETTINGS)}")


def compose(
    words: Sequence[Word],
    filler: Iterable[Sequence[Word]],
    setting: str,
    share: float = SHARE,
    rng: Coin | None = None,
) -> list[Word]:
    """Surround a text with filler, the original kept in one piece where the setting says.

    Args:
        words: the original, as words (or as their numbers).
        filler: sentences, taken whole and in order from this iterator; the last one on each side
            of the original is cut, so that the number of filler words is exact.
        setting: one of `SETTINGS`.
        share: filler's part of all words of the result, in [0, 1).
        rng: tosses for the side that gets the odd word in "mid"; without it, the right side.

    Returns:
        The composed text: ``len(words) / (1 - share)`` words, rounded.

    Raises:
        InputError: for an unknown setting, a share outside [0, 1), or filler that runs out.

    Examples:
        >>> filler = iter([["the", "river"], ["is", "long", "and", "blue"]])
        >>> " ".join(compose(["what", "a", "film"], filler, "mid", share=0.5))
        'the what a film is long'
    """
    left, right = filler_lengths(len(words), setting, share, rng)
    sentences = iter(filler)
    return [*_take(sentences, left), *words, *_take(sentences, right)]


def filler_lengths(
    words: int, setting: str, share: float = SHARE, rng: Coin | None = None
) -> tuple[int, int]:
    """How many filler words stand left and right of a text of so many words.

    Raises:
        InputError: as `compose`.

    Examples:
        >>> filler_lengths(100, "left", share=0.5)
        (0, 100)
    """
    check_setting(setting)
    if not 0 <= share < 1:
        raise InputError(f"share is filler's part of all words, in [0, 1), not {share}")
    if setting == "standard":
        return 0, 0
    total = round(words * share / (1 - share))
    if setting == "left":
        return 0, total
    if setting == "right":
        return total, 0
    half, odd = divmod(total, 2)
    left = half + odd if odd and rng is not None and rng.random() < 0.5 else half
    return left, total - left


def _take(sentences: Iterator[Sequence[Word]], count: int) -> list[Word]:
    taken: list[Word] = []
    while len(taken) < count:
        sentence = next(sentences, None)
        if sentence is None:
            raise InputError(f"the filler ran out: {count} words were asked for, {len(taken)} were left")
        taken.extend(islice(sentence, count - len(taken)))
    return taken
