"""Encoders of today (§1.3.3, §1.11.1): what the chapter runs and measures."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pandas import DataFrame

from paper.chapters.shared import Measure
from paper.runs.kinds.frozen import DRAWS, Frozen
from paper.runs.kinds.probe import (
    GradientProfile,
    MemoryUse,
    PaddingSweep,
    UntrainedStates,
    WordImportance,
)
from paper.runs.kinds.training import Training
from paper.runs.plans import SAYING_MOST, TABLES, WITH_AND_WITHOUT, Options, Study, each
from paper.runs.run import Run
from paper.verdicts.results import PLAIN, Runs
from whenpool.corpora.settings import SETTINGS
from whenpool.models.transformer import TRANSFORMER

ARCHITECTURES = ("lstm", "gru", "elman", "mingru", TRANSFORMER)  # The thesis's first
TRANSFORMER_RATE = 2e-3  # Chosen by validation accuracy, see `TRIED`: the thesis's own
TRIED: list[Options] = TABLES["tried"]
TODAY = ("mingru", "ssm", "lru")  # Recurrences of today, the gates of which do not read the state
# Runs of minGRU and the Transformer with lower ones are older than rules
TODAY_SEEDS = range(5, 10)
READ = ("imdb", "yelp", "amazon")  # By ready encoders
IN_ALL_SETTINGS = (("lstm", "last"), ("lstm", "max_attention"), (TRANSFORMER, "max_attention"))
"""Which cells and poolings are run in all four settings, once, in the compact replication."""


def plan(study: Study) -> Iterable[Run]:
    """Training to skip, natural bias and word importance of other cells and of the Transformer,
    each without pooling and with, whatever cell the reader asks for; and the memory that a step
    takes; and what ready encoders make of reviews in filler."""
    request = study.request
    yield from plan_pretrained(study)
    study = study.but(cell=None, masked=True)
    compact, seeds = study.compact, study.seeds(paper=1)
    # texts of a sweep, and of word importance
    swept, explained = (1_000, 200) if study.paper else (100, 60)
    for base in study.bases():
        for run in each(base, seed=seeds, cell=ARCHITECTURES):
            poolings: tuple[str, ...] = WITH_AND_WITHOUT
            if run.cell == TRANSFORMER:
                run = replace(run, learning_rate=TRANSFORMER_RATE)
                poolings = ("last", "mean", "max", "max_attention")
            for pooled in each(run, pooling=request.poolings or poolings):
                settings: tuple[str, ...] = SAYING_MOST
                if compact and run.seed == 0 and (run.cell, pooled.pooling) in IN_ALL_SETTINGS:
                    settings = SETTINGS
                elif compact and run.seed and pooled.pooling == "max":
                    settings = ("standard",)  # decides nothing in mid
                yield from each(pooled, setting=request.settings or settings)
                if run.seed == 0 and pooled.pooling in WITH_AND_WITHOUT:
                    yield PaddingSweep(pooled, texts=swept)
                    yield WordImportance(pooled, texts=explained)
        if compact:
            transformer = replace(base, cell=TRANSFORMER, learning_rate=TRANSFORMER_RATE)
            yield from each(transformer, *TRIED)
            seeds_of_today = TODAY_SEEDS[: request.seeds]
            for run in each(base, seed=seeds_of_today):
                yield from _of_today(run, request.settings or SAYING_MOST, request.poolings)
        # the memory at the thesis's width, whatever the profile
        width = {name: PLAIN[name] for name in ("hidden_size", "embedding_size")}
        for run in each(replace(base, **width), seed=seeds):
            yield MemoryUse(run)
            for attention in ("plain", "fused"):
                yield MemoryUse(replace(run, cell=TRANSFORMER), attention=attention)


def _of_today(
    run: Training, settings: Sequence[str], poolings: Sequence[str] | None
) -> Iterator[Run]:
    """With one seed: recurrences of today, and Transformers that read one token or the mean, causal
    ones as wide as those that read both ways; what the recurrences hold before training, and their
    gradients after 500 reviews."""
    transformer = replace(run, cell=TRANSFORMER, learning_rate=TRANSFORMER_RATE)
    causal = replace(transformer, bidirectional=False, hidden_size=2 * run.hidden_size)
    ways = [replace(run, cell=cell) for cell in reversed(TODAY)]
    compared = [(way, ("last", "max_attention", "mean")) for way in (*ways, causal)]
    for setting in reversed(settings):
        for way, usual in (*compared, (transformer, ("cls", "mean"))):
            yield from each(way, setting=[setting], pooling=poolings or usual)
    first = {"setting": settings[:1], "size": [500], "epochs": [1], "test": [1_000]}
    many: Options = {"setting": settings[-1:]}
    if run.corpus == "imdb":  # others may have fewer texts
        many |= {"size": [4_000], "validation": [2_000], "test": [2_000]}
    for way in ways:
        yield from map(UntrainedStates, each(way, pooling=(poolings or ["last"])[:1], **many))
        yield from map(GradientProfile, each(way, pooling=poolings or WITH_AND_WITHOUT, **first))


def memory(runs: Runs) -> DataFrame:
    """The exponent by which memory grows with the words of a text."""
    rows = runs.table("probe")
    return rows[rows["probe"].eq("memory") & runs.as_usual(rows, {"longest": 4_000})]


# Memory depends on shapes alone: one run is enough.
_SHAPE = {name: PLAIN[name] for name in ("hidden_size", "embedding_size", "layers", "corpus")}
MEASURES = {"memory_exponent": Measure(memory, "exponent", fixed={"thesis": _SHAPE}, exact=True)}


# Pretrained: what ready encoders make of reviews in filler, which no encoder of ours is compared
# with. It is a scale of its own.


def plan_pretrained(study: Study) -> Iterable[Run]:
    """Draws of reviews that MiniLM reads as it is."""
    if study.compact:
        for corpus in study.request.corpora_or(*READ):
            for draw in study.seeds(DRAWS)[:DRAWS]:
                yield Frozen(corpus, draw)


def readings(runs: Runs) -> DataFrame:
    """A row for each accuracy of a classifier on what an encoder made of a draw of reviews: by
    pooling, reader, place in filler and its share, and words of a passage."""
    points = runs.store.history(Frozen.kind, "accuracies")
    columns = ["key", "pooling", "reader", "setting", "share", "passage", "accuracy"]
    return points.reindex(columns=columns).merge(runs.table(Frozen.kind), on="key")


_USUAL = {"encoder": Frozen.encoder, "reader": "plain", "passage": None}
_USUAL |= {name: getattr(Frozen, name) for name in ("texts", "test", "words")}
MEASURES["read_accuracy"] = Measure(readings, "accuracy", fixed={"pretrained": _USUAL}, paired=True)
