"""The runs of "What the last state holds": starts of a BiLSTM without pooling, what their untrained states
hold, how their gradients change while they learn, and what they reach."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from whenpool.runs.kinds.probe import GradientTrace, UntrainedStates
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans import SEEDS, SEEDS_FROM, base_run, sizes_of
from whenpool.runs.request import Request
from whenpool.runs.run import Place, Run

GATES = (2.0, 3.5, 5.0, 6.5, 8.0)  # v of a start with forget bias v and input bias -v
START_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    *({"forget_bias": value} for value in (2.0, 3.0, 5.0, "low")),
    *({"forget_bias": "chrono", "chrono_words": words} for words in (100, 400, 1_000, 3_000)),
    *({"forget_bias": v, "input_bias": -v} for v in GATES),
    *({"forget_bias": f"chrono {part}"} for part in ("forget", "input")),
)
"""What each start changes about a BiLSTM without pooling, whose forget bias sums to 1."""
SHARES = (0.0, 0.33, 0.8, 0.9, 0.95)  # Filler's part of a text, beside the usual
DRAWS = 5


def last_state(request: Request, place: Place) -> Iterable[Run]:
    """By what decides first: states of untrained models, trained ones of each start, then the rest."""
    whole = request.profile in ("compact", "paper") and request.cell in (None, Training.cell)
    for corpus in request.corpora or (("imdb",) if whole else request.corpus_names):
        for length, sizes in sizes_of(corpus, request, place).items():
            if length != "short":
                base = replace(base_run(corpus, length, sizes[0], request, place), pooling="last")
                yield from _whole(base, request) if whole and corpus == "imdb" else _brief(base, request)


def _brief(base: Training, request: Request) -> Iterator[Run]:
    """Untrained states of some starts, each trained once, in the middle of filler."""
    base = replace(base, setting="mid")
    starts = [START_OPTIONS[number] for number in (1, 3, 6, 11)] if base.cell == Training.cell else [{}]
    for seed, start in product(range(request.seeds or 1), starts):
        run = replace(base, seed=seed, **start)
        yield UntrainedStates(run)
        yield run


def _whole(base: Training, request: Request) -> Iterator[Run]:
    """All that the claims of the chapter ask for, on IMDb, at either scale."""
    compact = base.max_words is not None
    seeds = range(SEEDS_FROM, SEEDS_FROM + (request.seeds or (SEEDS if compact else 3)))
    settings, sizes = (
        request.settings or ("mid", "standard", "left", "right"),
        request.sizes or (1_000, 10_000),
    )
    untrained: dict[str, Any] = {"size": 4_000, "validation": 2_000, "test": 2_000 if compact else 5_000}
    for setting, seed, start in product(settings, seeds, START_OPTIONS):
        if setting == "mid" or seed == SEEDS_FROM:  # elsewhere they are shown, and decide nothing
            yield UntrainedStates(replace(base, **untrained, setting=setting, seed=seed, **start))
    gates: list[dict[str, Any]] = [{"forget_bias": v, "input_bias": -v} for v in GATES]
    pooled = replace(base, pooling="max_attention")
    if "standard" in settings and 1_000 in sizes:
        for seed, start in product(seeds, gates):
            yield replace(base, setting="standard", seed=seed, **start)
        yield from (replace(pooled, setting="standard", seed=seed) for seed in seeds)
    if "mid" in settings:
        middle, pooled = replace(base, setting="mid"), replace(pooled, setting="mid")
        if 1_000 in sizes:
            yield from _in_the_middle(middle, pooled, seeds, gates)
        for seed in seeds[:3] if 10_000 in sizes else ():
            for start in [*gates, {"forget_bias": "chrono"}]:
                yield replace(middle, size=10_000, seed=seed, **start)
            yield replace(pooled, size=10_000, seed=seed)


def _in_the_middle(
    middle: Training, pooled: Training, seeds: Iterable[int], gates: list[dict[str, Any]]
) -> Iterator[Run]:
    """Trainings on 1K reviews in the middle of filler, whose gradients are watched on held-out texts."""
    compact = middle.max_words is not None
    shortest, longest = (350, 412) if compact else (700, 900)

    def watched(run: Training, until: int | None = 3_000) -> Iterator[Run]:
        yield GradientTrace(run, texts=200, shortest=shortest, longest=longest, until=until)
        yield run  # which the trace has trained

    for seed in seeds:
        here = replace(middle, seed=seed)
        yield replace(pooled, seed=seed)
        for start in START_OPTIONS:  # sums of 1 and 2 up to the end
            yield from watched(replace(here, **start), None if start in START_OPTIONS[:2] else 3_000)
        yield from watched(replace(here, forget_bias=5.0, held="W_hh"))
        for start in (*START_OPTIONS[:2], {"forget_bias": "chrono"}):
            yield from watched(replace(here, shuffled=True, **start))
        for pooling in ("max", "max_attention"):
            yield replace(here, pooling=pooling, forget_bias="chrono")
    for draw, run in product(
        range(1, DRAWS + 1), (middle, replace(middle, forget_bias="chrono"), pooled)
    ):
        yield replace(run, draw=draw)
    for seed, share, start in product(seeds if compact else (), SHARES, gates):
        yield replace(middle, seed=seed, share=share, **start)
