"""Runs of the chapters on recurrent networks from scratch, other architectures, and regularisation."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import COMPARED, LISTED_CELLS
from whenpool.runs.kinds.probe import GradientProfile, MemoryUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans import FEWER_SEEDS, SEEDS, base_run, each, long_runs, sizes_of, with_cell
from whenpool.runs.request import Request
from whenpool.runs.run import Place, Run

Changes = dict[str, Any]

# Recurrent networks from scratch (the slides; thesis §1.3.1)


# in the order of the slides, and two later ones; those that are trained on published corpora
FAMILY = ("sum", "tanh_sum", "elman", "prototype", "lstm", "gru", "mingru", "minlstm")
COMPARED_CELLS = ("elman", "prototype", "lstm", "gru")


def recurrent_networks(request: Request, place: Place) -> Iterable[Run]:
    """Every cell without pooling, whatever the reader asks for: from left to right, with the gradients of its
    states, on the embedded corpus or a file of the reader's; on published corpora what claims are about."""
    request = replace(request, cell=None, layers=None)
    texts = {"smoke": 8, "quick": 100, "paper": 500}[request.profile]
    # short texts that say much: cells that are unrolled in Python take a step of it for every word
    short = "synthetic:density=0.2,longest=40,shortest=30,test=500"
    corpora = request.corpora or ("imdb" if request.profile == "paper" else short,)
    for run in long_runs(corpora, request, place):
        published = run.corpus in PUBLICATIONS and request.profile != "smoke"
        base = replace(run, pooling="last", masked=request.masked)
        if request.profile == "quick" and not published:
            base = replace(base, epochs=8)  # in which those that can learn do
        seeds = range(request.seeds or (FEWER_SEEDS if published else 1))
        for seeded in each(base, setting=request.settings or ("standard",), seed=seeds):
            deep = with_cell(seeded, "lstm", layers=2)
            if published:
                yield from (*(with_cell(seeded, cell) for cell in COMPARED_CELLS), deep)
                continue
            one_way = replace(seeded, bidirectional=False)
            family = [with_cell(one_way, cell) for cell in FAMILY]
            # an LSTM as torch starts it, one in both directions, and a deep one
            for own in (*family, replace(one_way, forget_bias=None), seeded, deep):
                yield own
                yield GradientProfile(own, texts, untrained=True)
                yield GradientProfile(own, texts)


# Other architectures (thesis §1.3.3, §1.11.1)

ARCHITECTURES = ("lstm", "gru", "elman", "mingru", "transformer")  # The thesis's first
TRANSFORMER_RATE = 2e-3  # Chosen by validation accuracy, see `TRIED`: the thesis's own
TRIED: tuple[Changes, ...] = (
    {"learning_rate": 5e-4},
    {"learning_rate": 1e-3},
    {"layers": 2, "learning_rate": 1e-3},
    {"epochs": 20},
)
"""Other ways to train the Transformer, on the small models and IMDb."""

_BOTH = ("last", "max_attention")


def architectures(request: Request, place: Place) -> Iterable[Run]:
    """Training to skip, natural bias and word importance of other cells and of the Transformer, each without
    pooling and with, whatever cell the reader asks for; and the memory that a step takes."""
    request = replace(request, cell=None)
    # these are run in all four settings, once
    in_all_settings = ("lstm last", "lstm max_attention", "transformer max_attention")
    # texts of a sweep, and of word importance
    swept, looked_at = {"smoke": (6, 3), "quick": (100, 60), "paper": (1_000, 200)}[request.profile]
    # shorter texts than elsewhere: there are more models, and one looks at all words from each
    medium = "synthetic:density=0.1,longest=70,shortest=50"
    corpora = request.corpora or ("imdb" if request.profile == "paper" else medium,)
    for base in long_runs(corpora, request, place):
        recorded = base.corpus in PUBLICATIONS and request.profile == "quick"
        seeds = range(request.seeds or (FEWER_SEEDS if recorded else 1))
        transformer = replace(base, cell="transformer", learning_rate=TRANSFORMER_RATE)
        for own in each(base, seed=seeds, cell=ARCHITECTURES):
            poolings = request.poolings or _BOTH
            if own.cell == "transformer":
                own = replace(transformer, seed=own.seed)
                poolings = request.poolings or ("last", "mean", "max", "max_attention")
            first = recorded and own.seed == 0
            for pooled in each(own, pooling=poolings):
                settings: tuple[str, ...] = ("standard", "mid")  # which say most
                if first and f"{own.cell} {pooled.pooling}" in in_all_settings:
                    settings = SETTINGS
                elif recorded and pooled.pooling == "max" and not first:
                    settings = ("standard",)  # decides nothing in mid
                yield from each(pooled, setting=request.settings or settings)
                if own.seed == 0 and pooled.pooling in _BOTH:
                    yield PaddingSweep(pooled, texts=swept)
                    yield WordImportance(pooled, texts=looked_at)
        if recorded:
            yield from (replace(transformer, **tried) for tried in TRIED)
        # the memory at the thesis's width, whatever the profile
        words: Changes = {}
        wide: Changes = {"hidden_size": Training.hidden_size, "embedding_size": Training.embedding_size}
        if request.profile == "smoke":
            words, wide = {"longest": 64, "halvings": 2}, {}
        for own in each(replace(base, pooling="max_attention", **wide), seed=seeds):
            yield MemoryUse(own, **words)
            for attention in ("plain", "fused"):
                yield MemoryUse(replace(own, cell="transformer"), **words, attention=attention)


# Regularisation and tuning (thesis §1.4.2)

MASK_RATES = (0.1, 0.3, 0.5)
DECAYS = (1e-3, 1e-4, 1e-6, 1e-8)
LEARNING_RATES = (1e-3, 2e-3, 5e-3)
SUSTAINED = 50  # Epochs of the longest training that the thesis speaks of
SUSTAINED_RATE = 0.3  # DropConnect's rate there: the middle one of three
TIMED_SEEDS = (5, 6, 7)  # Of trainings to be timed, all poolings in turn with nothing else running
GRID: tuple[Changes, ...] = (
    {},
    *({"drop_connect": rate} for rate in MASK_RATES),
    *({"weight_decay": decay} for decay in DECAYS),
)
"""The two grids of the thesis's footnotes, and the plain training beside them."""


def regularised(request: Request, place: Place) -> Iterable[Training]:
    """The grids, learning rates and sustained trainings, DropConnect where there are recurrent weights."""
    remembers = LISTED_CELLS[request.cell or Training.cell].remembers
    paper, smoke = request.profile == "paper", request.profile == "smoke"
    for corpus in request.corpora or (("imdb",) if paper else request.corpus_names):
        published = corpus in PUBLICATIONS
        sizes = {"long": request.sizes or (1_000,)} if published else sizes_of(corpus, request, place)
        published = published and not smoke
        seeds = request.seeds or (SEEDS if paper else 3 if published else 1)
        timed = published and not (paper or request.seeds)
        for length, size in ((length, size) for length, own in sizes.items() for size in own):
            base = replace(base_run(corpus, length, size, request, place), masked=request.masked)
            for plain in each(base, seed=range(seeds)):
                runs = _whole(plain, request) if published else _brief(plain, request, smoke)
                yield from (run for run in runs if remembers or not run.drop_connect)
            if timed and "standard" in (request.settings or SETTINGS):
                yield from each(base, seed=TIMED_SEEDS, pooling=request.poolings or COMPARED)


def _whole(plain: Training, request: Request) -> Iterable[Training]:
    """What decides claims: plain texts, and of other settings models without pooling."""
    settings, poolings = request.settings or ("standard", "mid"), request.poolings or COMPARED
    both = [name for name in _BOTH if name in poolings]
    if "standard" in settings:
        for pooled in each(plain, pooling=poolings):
            yield from (replace(pooled, **changes) for changes in GRID)
        yield from each(plain, pooling=poolings, learning_rate=LEARNING_RATES)
        yield from each(plain, pooling=both, epochs=[SUSTAINED], drop_connect=(0.0, SUSTAINED_RATE))
    for mixed in each(plain, setting=settings):
        yield from each(mixed, pooling=request.poolings or _BOTH)
        if mixed.setting == "mid" and "last" in both:
            yield replace(mixed, pooling="last", epochs=SUSTAINED, drop_connect=SUSTAINED_RATE)


def _brief(plain: Training, request: Request, smoke: bool) -> Iterable[Training]:
    """What two processors do in a minute, on plain texts whatever settings are asked for."""
    poolings, epochs = request.poolings or _BOTH, [2 if smoke else 20]
    for pooled in each(plain, pooling=poolings):
        yield from (pooled, replace(pooled, drop_connect=0.3), replace(pooled, weight_decay=1e-4))
    yield from each(plain, pooling=poolings, epochs=epochs, drop_connect=[SUSTAINED_RATE])
