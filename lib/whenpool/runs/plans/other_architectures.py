"""Which runs the chapter "Other architectures" draws from (thesis §1.3.3, §1.11.1)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.settings import SETTINGS
from whenpool.runs.kinds.probe import MemoryUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.plans.bases import base_run, each, sizes_of
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
    for corpus in choice.corpora or ("imdb" if choice.profile == "paper" else EMBEDDED_CORPUS,):
        published = corpus in PUBLICATIONS
        recorded = published and choice.profile == "quick"
        seeds = choice.seeds or (3 if recorded else 1)
        for length, sizes in sizes_of(corpus, choice, place).items():
            if length == "short":
                continue
            base = base_run(corpus, length, sizes[0], choice, place)
            transformer = replace(base, cell="transformer", learning_rate=TRANSFORMER_RATE)
            for own in each(base, seed=range(seeds), cell=ARCHITECTURES):
                attentive = own.cell == "transformer"
                own = replace(transformer, seed=own.seed) if attentive else own
                for pooled in each(
                    own, pooling=choice.poolings or (_ATTENTIVE if attentive else _POOLINGS)
                ):
                    yield from each(pooled, setting=choice.settings or _settings(pooled, recorded))
                    if own.seed == 0 and pooled.pooling in _POOLINGS:
                        yield PaddingSweep(pooled, texts=texts["sweep"])
                        yield WordImportance(pooled, texts=texts["nwi"])
            if recorded:
                yield from (replace(transformer, **tried) for tried in TRIED)
            yield from _memory(base, seeds, choice)


def _settings(run: Training, recorded: bool) -> tuple[str, ...]:
    """The two that say most; all four, once, for what the thesis compares, where runs are of record."""
    first = recorded and run.seed == 0
    if first and (run.cell, run.pooling) in _IN_ALL_SETTINGS:
        return SETTINGS
    if recorded and run.pooling == "max" and not first:
        return ("standard",)  # decides nothing in mid
    return ("standard", "mid")


def _memory(base: Training, seeds: int, choice: Choice) -> Iterable[MemoryUse]:
    """At the thesis's width, whatever the profile; seeds differ in the weights, which no memory does."""
    smoke = choice.profile == "smoke"
    words: dict[str, Any] = {"longest": 64, "halvings": 2} if smoke else {"longest": MEMORY_WORDS}
    wide = replace(base, pooling="max_attention")
    if not smoke:
        wide = replace(wide, hidden_size=Training.hidden_size, embedding_size=Training.embedding_size)
    for own in each(wide, seed=range(seeds)):
        yield MemoryUse(own, **words)
        for attention in ("plain", "fused"):
            yield MemoryUse(replace(own, cell="transformer"), **words, attention=attention)
