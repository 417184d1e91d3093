"""Which runs the chapter on regularisation and tuning draws from (thesis §1.4.2)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import COMPARED, LISTED_CELLS
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.bases import SEEDS, base_run, each, sizes_of
from whenpool.runs.request import Choice
from whenpool.runs.run import Place

MASK_RATES = (0.1, 0.3, 0.5)
DECAYS = (1e-3, 1e-4, 1e-6, 1e-8)
LEARNING_RATES = (1e-3, 2e-3, 5e-3)
SUSTAINED = 50
"""Epochs of the longest training that the thesis speaks of."""
SUSTAINED_RATE = 0.3
"""DropConnect's rate there: the middle one of three."""
TIMED_SEEDS = (5, 6, 7)
"""Of trainings that are there to be timed, all poolings one after another with nothing else running."""

Changes = dict[str, Any]

GRID: tuple[Changes, ...] = (
    {},
    *({"drop_connect": rate} for rate in MASK_RATES),
    *({"weight_decay": decay} for decay in DECAYS),
)
"""The two grids of the thesis's footnotes, and what they are held against."""
_SMALL_GRID: tuple[Changes, ...] = ({}, {"drop_connect": 0.3}, {"weight_decay": 1e-4})
_BOTH = ("last", "max_attention")


def regularised(choice: Choice, place: Place) -> Iterable[Training]:
    """The grids, the learning rates and the sustained trainings, without DropConnect where a cell that
    the reader asks for has no recurrent weights."""
    remembers = LISTED_CELLS[choice.cell or Training.cell].remembers
    paper, smoke = choice.profile == "paper", choice.profile == "smoke"
    for corpus in choice.corpora or (("imdb",) if paper else choice.corpus_names):
        published = corpus in PUBLICATIONS
        sizes = {"long": choice.sizes or (1_000,)} if published else sizes_of(corpus, choice, place)
        published = published and not smoke
        seeds = choice.seeds or (SEEDS if paper else 3 if published else 1)
        for length, size in ((length, size) for length, own in sizes.items() for size in own):
            base = replace(base_run(corpus, length, size, choice, place), masked=choice.masked)
            for plain in each(base, seed=range(seeds)):
                runs = _whole(plain, choice) if published else _brief(plain, choice, smoke)
                yield from (run for run in runs if remembers or not run.drop_connect)
            if published and not (paper or choice.seeds) and "standard" in (choice.settings or SETTINGS):
                yield from each(base, seed=TIMED_SEEDS, pooling=choice.poolings or COMPARED)


def _whole(plain: Training, choice: Choice) -> Iterable[Training]:
    """What decides claims: on unmixed texts, and without pooling in the middle of filler. Of other
    settings the plain model."""
    settings, poolings = choice.settings or ("standard", "mid"), choice.poolings or COMPARED
    both = [name for name in _BOTH if name in poolings]
    if "standard" in settings:
        for pooled in each(plain, pooling=poolings):
            yield from (replace(pooled, **changes) for changes in GRID)
        yield from each(plain, pooling=poolings, learning_rate=LEARNING_RATES)
        yield from each(plain, pooling=both, epochs=[SUSTAINED], drop_connect=(0.0, SUSTAINED_RATE))
    for mixed in each(plain, setting=settings):
        yield from each(mixed, pooling=choice.poolings or _BOTH)
        if mixed.setting == "mid" and "last" in both:
            yield replace(mixed, pooling="last", epochs=SUSTAINED, drop_connect=SUSTAINED_RATE)


def _brief(plain: Training, choice: Choice, smoke: bool) -> Iterable[Training]:
    """On the embedded corpus, or a file of the reader's own: what two processors do in a minute, on
    unmixed texts whatever settings are asked for."""
    for pooled in each(plain, pooling=choice.poolings or _BOTH):
        yield from (replace(pooled, **changes) for changes in _SMALL_GRID)
    epochs, rates = [2 if smoke else 20], [SUSTAINED_RATE]
    yield from each(plain, pooling=choice.poolings or _BOTH, epochs=epochs, drop_connect=rates)
