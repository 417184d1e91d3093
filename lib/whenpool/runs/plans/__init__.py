"""Which runs each chapter needs; here what all plans start from: corpora, sizes, seeds and models."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import statistics_of
from whenpool.models.registry import LISTED_CELLS
from whenpool.runs.kinds.training import Training, grammar_of
from whenpool.runs.request import Request
from whenpool.runs.run import VECTORS, Place, find_vectors

SEEDS = 5
SEEDS_FROM = 20  # Seeds of what claims of 2026-11-27 decide: runs with lower ones began before
COMPACT: dict[str, Any] = {"max_words": 140, "hidden_size": 64, "epochs": 8}
"""The compact replication: what is reduced of the thesis. "quick" trains fewer such models."""
COMPACT_TEST = {"imdb": 2_000}  # Test texts of the compact replication; of other corpora all
COMPACT_SIZES = {"imdb": (1_000, 2_000, 5_000, 10_000)}  # Its training texts; for others see `sizes_of`
FEWER_SEEDS = 3  # With more texts than a thousand or two: accuracies differ less, and it takes longer


def standard_runs(
    corpus: str, sizes: Sequence[int], request: Request, place: Place
) -> Iterator[Training]:
    """Trainings on plain texts, by size and seed; ``sizes`` are of "compact" and "paper"."""
    compact = request.profile == "compact"
    for length, own in sizes_of(corpus, request, place).items():
        if request.profile in ("compact", "paper") and corpus in PUBLICATIONS:
            if length != "long":
                continue
            own = request.sizes or (sizes if corpus in COMPACT_SIZES or not compact else (1_000,))
        for size in own:
            seeds = request.seeds or (seeds_of(corpus, size, "standard", request) if compact else 1)
            base = replace(base_run(corpus, length, size, request, place), masked=request.masked)
            yield from each(base, seed=range(seeds))


def each(run: Training, **values: Iterable[Any]) -> Iterator[Training]:
    """A training with each combination of some values of its fields, of which the last changes first."""
    for chosen in product(*values.values()):
        yield replace(run, **dict(zip(values, chosen, strict=True)))


def long_runs(corpora: Iterable[str], request: Request, place: Place) -> Iterator[Training]:
    """The run of the profile on the first size of each corpus, short texts apart."""
    for corpus in corpora:
        for length, sizes in sizes_of(corpus, request, place).items():
            if length != "short":
                yield base_run(corpus, length, sizes[0], request, place)


def with_cell(run: Training, cell: str, layers: int = 1) -> Training:
    """A run with another cell: where a cell adds words to its state, with as many units as they have."""
    hidden_size = run.embedding_size if LISTED_CELLS[cell].adds else run.hidden_size
    return replace(run, cell=cell, layers=layers, hidden_size=hidden_size)


def base_run(corpus: str, length: str, size: int, request: Request, place: Place) -> Training:
    """A run of the profile, with its setting, pooling and seed still to be filled in."""
    run = Training(corpus, "standard", size, "max_attention", length=length)
    grammar = grammar_of(corpus)
    if request.profile == "smoke":
        run = replace(run, embedding_size=8, hidden_size=8, epochs=1)
        if grammar:
            run = replace(run, validation=min(20, grammar.validation), test=min(40, grammar.test))
    elif grammar:
        run = replace(run, embedding_size=50, hidden_size=48, epochs=6, learning_rate=5e-3)
        run = replace(run, validation=min(250, grammar.validation))
    elif request.profile == "paper":
        run = replace(run, vectors=find_vectors(place) or VECTORS[0])
    else:
        run = replace(run, vectors=find_vectors(place), test=COMPACT_TEST.get(corpus), **COMPACT)
    return with_cell(run, request.cell or run.cell, request.layers or run.layers)


def sizes_of(corpus: str, request: Request, place: Place) -> dict[str, Sequence[int]]:
    """Training sizes by length of text."""
    if corpus not in PUBLICATIONS:
        source, grammar = find(corpus, place.data), grammar_of(corpus)
        if request.sizes:
            return {"any": request.sizes}
        texts = grammar.train if grammar else statistics_of(source, "any")["train_size"]
        return {"any": (min(40 if request.profile == "smoke" else 500, texts),)}
    published = PUBLICATIONS[corpus].sizes
    if request.profile == "compact":
        own = {"long": COMPACT_SIZES.get(corpus, (1_000, 2_000)), "short": (1_000, 2_000, 5_000)}
        return {length: request.sizes or own[length] for length in published}
    if request.profile != "paper":
        return {"long": request.sizes or (1_000,)}
    found: dict[str, Sequence[int]] = {}
    for length, split in published.items():
        every = [min(size, split.train) for size in (1_000, 2_000, 5_000, 10_000, 25_000)]
        found[length] = [size for size in every if size in (request.sizes or every)]
    return found


def seeds_of(corpus: str, size: int, setting: str, request: Request) -> int:
    """How many seeds a setting is trained from, unless the reader says it."""
    if request.profile == "paper":
        return SEEDS
    if request.profile == "compact":
        return SEEDS if size <= (2_000 if corpus == "imdb" else 1_000) else FEWER_SEEDS
    return 2 if setting in ("standard", "mid") and request.profile == "quick" else 1
