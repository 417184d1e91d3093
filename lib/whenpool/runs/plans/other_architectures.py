"""Which runs the chapter "Other architectures" draws from (thesis §1.3.3, §1.11.1)."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.settings import SETTINGS
from whenpool.runs.kinds.probe import MemoryUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.bases import base_run, sizes_of
from whenpool.runs.request import Choice
from whenpool.runs.run import Place, Run

ARCHITECTURES = ("lstm", "gru", "elman", "mingru", "transformer")
"""The cells that are compared, the thesis's first."""
TRANSFORMER_RATE = 2e-3
"""The Transformer's learning rate, chosen by validation accuracy, see `TRIED`: the thesis's own."""
TRIED: tuple[dict[str, Any], ...] = (
    {"learning_rate": 5e-4},
    {"learning_rate": 1e-3},
    {"layers": 2, "learning_rate": 1e-3},
    {"epochs": 20},
)
"""Other ways to train the Transformer, on the small models and IMDb: what ours is held against."""
EMBEDDED_CORPUS = "synthetic:density=0.1,longest=70,shortest=50"
"""Shorter texts than other chapters have: there are more models to train, and one looks at all words
from each."""
MEMORY_WORDS = 4_000  # of the longest of the thesis's texts (§1.3.3)
_POOLINGS = ("last", "max_attention")
_ATTENTIVE = ("last", "mean", "max", "max_attention")
_IN_ALL_SETTINGS = (("lstm", "last"), ("lstm", "max_attention"), ("transformer", "max_attention"))
_PROBED: dict[str, dict[str, Any]] = {  # texts of a sweep, and of word importance
    "smoke": {"sweep": 6, "nwi": 3},
    "quick": {"sweep": 100, "nwi": 60},
    "paper": {"sweep": 1_000, "nwi": 200},
}


def architectures(choice: Choice, place: Place) -> Iterable[Run]:
    """Training to skip, natural bias and word importance of other cells and of the Transformer, each
    without pooling and with; and the memory that a step takes.

    A cell that the reader asks for changes nothing: the chapter compares them.
    """
    choice = replace(choice, cell=None)
    texts = _PROBED[choice.profile]
    for corpus in choice.corpora or (_default(choice),):
        published = corpus in PUBLICATIONS
        recorded = published and choice.profile == "quick"
        seeds = choice.seeds or (3 if recorded else 1)
        for length, sizes in sizes_of(corpus, choice, place).items():
            if length == "short":
                continue
            base = base_run(corpus, length, sizes[0], choice, place)
            for seed, cell in product(range(seeds), ARCHITECTURES):
                own = _of_cell(base, cell, seed)
                for pooling in choice.poolings or _poolings_of(cell):
                    pooled = replace(own, pooling=pooling)
                    for setting in choice.settings or _settings(own, pooling, recorded):
                        yield replace(pooled, setting=setting)
                    if seed == 0 and pooling in _POOLINGS:
                        yield PaddingSweep(pooled, texts=texts["sweep"])
                        yield WordImportance(pooled, texts=texts["nwi"])
            if recorded:
                for tried in TRIED:
                    yield replace(_of_cell(base, "transformer", 0), **tried)
            yield from _memory(base, seeds, choice)


def _default(choice: Choice) -> str:
    """The profile's corpus: the embedded one, or the first of the thesis's."""
    return "imdb" if choice.profile == "paper" else EMBEDDED_CORPUS


def _of_cell(base: Training, cell: str, seed: int) -> Training:
    rate = TRANSFORMER_RATE if cell == "transformer" else base.learning_rate
    return replace(base, cell=cell, seed=seed, learning_rate=rate)


def _poolings_of(cell: str) -> tuple[str, ...]:
    return _ATTENTIVE if cell == "transformer" else _POOLINGS


def _settings(run: Training, pooling: str, recorded: bool) -> tuple[str, ...]:
    """The two that say most; all four, once, for what the thesis compares, where runs are of record."""
    first = recorded and run.seed == 0
    if first and (run.cell, pooling) in _IN_ALL_SETTINGS:
        return SETTINGS
    if recorded and pooling == "max" and not first:
        return ("standard",)  # decides nothing in mid
    return ("standard", "mid")


def _memory(base: Training, seeds: int, choice: Choice) -> Iterable[MemoryUse]:
    """At the thesis's width, whatever the profile; seeds differ in the weights, which no memory does."""
    smoke = choice.profile == "smoke"
    words: dict[str, Any] = {"longest": 64, "halvings": 2} if smoke else {"longest": MEMORY_WORDS}
    wide = replace(base, pooling="max_attention")
    if not smoke:
        wide = replace(wide, hidden_size=Training.hidden_size, embedding_size=Training.embedding_size)
    for seed in range(seeds):
        own = replace(wide, seed=seed)
        yield MemoryUse(own, **words)
        for attention in ("plain", "fused"):
            yield MemoryUse(replace(own, cell="transformer"), **words, attention=attention)
