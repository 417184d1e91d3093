"""Which texts a few-shot run reads, and which of them with their labels (thesis §1.10)."""

import random
from dataclasses import dataclass

from whenpool.base.errors import InputError
from whenpool.corpora import Corpus
from whenpool.corpora.corpus import Split


@dataclass(frozen=True)
class Selection:
    """The texts of one run.

    Attributes:
        labelled: equally many of each class.
        unlabelled: other training texts, without their labels.
        validation: the same for every seed.
        test: likewise.

    Examples:
        >>> corpus = whenpool.load("synthetic:train=60,validation=20,test=40")
        >>> len(select(corpus, per_class=3, seed=0).labelled)
        6
    """

    labelled: Split
    unlabelled: list[str]
    validation: Split
    test: Split


def select(
    corpus: Corpus,
    per_class: int,
    seed: int,
    unlabelled: int = 0,
    validation: int | None = None,
    test: int | None = None,
) -> Selection:
    """Draw the texts of a run.

    A seed puts the training texts into one order. The first of each class are labelled, so that
    fewer labels are part of more, and the last are the unlabelled ones, the same for any number of
    labels where there are enough. Systems with the same seed read the same texts.

    Args:
        per_class: labelled texts of each class.
        unlabelled: how many of the others, or all where there are fewer.
        validation, test: the first so many of their splits, or all where there are fewer or None is
            given.

    Raises:
        InputError: for a class with fewer training texts than asked for.

    Examples:
        >>> corpus = whenpool.load("synthetic:train=60,validation=20,test=40")
        >>> selection = select(corpus, per_class=3, seed=0, unlabelled=10)
        >>> len(selection.labelled), len(selection.unlabelled)
        (6, 10)
    """
    order = list(range(len(corpus.train)))
    random.Random(f"few-shot {seed}").shuffle(order)
    of_class: list[list[int]] = [[] for _ in corpus.classes]
    for index in order:
        own = of_class[corpus.train.labels[index]]
        if len(own) < per_class:
            own.append(index)
    for name, own in zip(corpus.classes, of_class, strict=True):
        if len(own) < per_class:
            raise InputError(
                f"corpus {corpus.name or 'given'}: class {name!r} has {len(own)} training texts, "
                f"{per_class} per class were asked for; ask for fewer labels, or add texts"
            )
    labelled = {index for own in of_class for index in own}
    others = [index for index in reversed(order) if index not in labelled]
    chosen = [index for index in order if index in labelled]
    return Selection(
        Split([corpus.train.texts[i] for i in chosen], [corpus.train.labels[i] for i in chosen]),
        [corpus.train.texts[i] for i in others[:unlabelled]],
        corpus.validation[: validation or len(corpus.validation)],
        corpus.test[: test or len(corpus.test)],
    )
