"""What the plans of several chapters share: profiles, corpora, sizes, seeds, and the scale of the
compact replication. `paper.chapters` has a plan for each chapter.

Most plans take a training of the profile, see `Study.bases`, and vary its fields, see `each`.
"""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from paper.corpora.statistics import statistics_of
from paper.corpora.tagged import GENERATED
from paper.runs.kinds import Probe, Tagging, Training
from paper.runs.kinds.training import grammar_of
from paper.runs.request import Request
from paper.runs.run import Place
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.tokens import VECTORS, find_vectors
from whenpool.models.registry import COMPARED, LISTED_CELLS

Options = dict[str, Any]  # Values of some fields of a run
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Options by which runs differ; plans.toml explains them."""
COMPACT: Options = TABLES["compact"]
COMPACT_TEST: dict[str, int] = TABLES["compact_test"]
COMPACT_SIZES: dict[str, list[int]] = TABLES["compact_sizes"]
SEEDS = 5
SEEDS_FROM = 20  # Seeds of what claims of 2026-11-27 decide: runs with lower ones began before
# With more texts than a thousand or two: accuracies differ less, and it takes longer
FEWER_SEEDS = 3
WITH_AND_WITHOUT = ("last", "max_attention")  # Without pooling, and with
SAYING_MOST = ("standard", "mid")  # The settings that say most


@dataclass(frozen=True)
class Study:
    """What a reader asks for, and where its data lie: what a plan chooses runs by."""

    request: Request
    place: Place

    def but(self, **changes: Any) -> "Study":
        """The same with another request."""
        return replace(self, request=replace(self.request, **changes))

    @property
    def compact(self) -> bool:
        """Whether it is the compact replication."""
        return self.request.profile == "compact"

    @property
    def paper(self) -> bool:
        """Whether it is the thesis's scale."""
        return self.request.profile == "paper"

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings that are compared."""
        return self.request.poolings or COMPARED

    @property
    def vectors(self) -> str:
        """The word vectors that are here, or the thesis's."""
        return find_vectors(self.place.data) or VECTORS[0]

    def base(self, corpus: str, length: str, size: int) -> Training:
        """A run of the profile, with its setting, pooling and seed still to be filled in."""
        request = self.request
        split = PUBLICATIONS[corpus].sizes.get(length) if corpus in PUBLICATIONS else None
        if split and not request.sizes:  # an added corpus may be smaller than the thesis's
            size = min(size, split.train)
        run = Training(corpus, "standard", size, "max_attention", length=length)
        if grammar := grammar_of(corpus):
            run = replace(run, validation=min(250, grammar.validation), **TABLES["embedded"])
        elif self.paper:
            run = replace(run, vectors=self.vectors)
        else:
            test, vectors = COMPACT_TEST.get(corpus), find_vectors(self.place.data)
            run = replace(run, vectors=vectors, test=test, **COMPACT)
        cell = request.cell or run.cell  # some add words to their state, and have as many units
        units = run.embedding_size if LISTED_CELLS[cell].adds else run.hidden_size
        layers = request.layers or run.layers
        return replace(run, cell=cell, hidden_size=units, layers=layers, masked=request.masked)

    def sizes(self, corpus: str) -> dict[str, Sequence[int]]:
        """Training sizes by length of text."""
        chosen = self.request.sizes
        if corpus not in PUBLICATIONS:
            source, grammar = find(corpus, self.place.data), grammar_of(corpus)
            texts = grammar.train if grammar else statistics_of(source, "any")["train_size"]
            return {"any": chosen or (min(500, texts),)}
        if self.request.profile == "quick":
            return {"long": chosen or (1_000,)}
        usual = {"long": COMPACT_SIZES.get(corpus, (1_000, 2_000)), "short": (1_000, 2_000, 5_000)}
        sizes: dict[str, Sequence[int]] = {}
        for length, split in PUBLICATIONS[corpus].sizes.items():
            sizes[length] = chosen or usual[length]
            if self.paper:
                every = [min(size, split.train) for size in (1_000, 2_000, 5_000, 10_000, 25_000)]
                sizes[length] = [size for size in every if size in (chosen or every)]
        return sizes

    def bases(
        self, sizes: Sequence[int] = (1_000,), corpora: tuple[str, ...] = ("imdb",)
    ) -> Iterator[Training]:
        """The run of the profile on each corpus, length of text and size. With ``sizes``, which are
        those of IMDb at both scales, short texts are left out."""
        for corpus in self.request.corpora_or(*corpora):
            for length, usual in self.sizes(corpus).items():
                if sizes and length == "short":
                    continue
                if sizes and self.request.is_whole and corpus in PUBLICATIONS:
                    first_alone = self.compact and corpus not in COMPACT_SIZES
                    usual = self.request.sizes or ((1_000,) if first_alone else sizes)
                for size in usual:
                    yield self.base(corpus, length, size)

    def seeds(self, compact: int = FEWER_SEEDS, paper: int = SEEDS) -> range:
        """The seeds that a reader asks for, else those of the profile; "quick" has one."""
        by_profile = {"compact": compact, "paper": paper}
        return range(self.request.seeds or by_profile.get(self.request.profile, 1))

    def later_seeds(self, paper: int = SEEDS) -> list[int]:
        """As many from `SEEDS_FROM` on."""
        return [SEEDS_FROM + seed for seed in self.seeds(SEEDS, paper)]

    def seeded(self, run: Training, paper: int = 1) -> Iterator[Training]:
        """A training with its seeds, by its size in the compact replication."""
        few_texts = run.size <= (2_000 if run.corpus == "imdb" else 1_000)
        return each(run, seed=self.seeds(SEEDS if few_texts else FEWER_SEEDS, paper))


def each(run: Training, *options: Options, **values: Iterable[Any]) -> Iterator[Training]:
    """A training with each combination of some values of its fields, of which the last changes
    first; or with some ``options`` at a time."""
    for chosen in product(*values.values()):
        for option in options or ({},):
            yield replace(run, **dict(zip(values, chosen, strict=True)), **option)


def smoke_sized(run: Any, request: Request) -> Any:
    """A run of the profile "quick" so small that it takes a second."""
    smoke = TABLES["smoke"] | {"vectors": None}
    changes = {name: value for name, value in smoke.items() if getattr(run, name, None) is not None}
    if isinstance(run, Probe):
        changes["training"] = smoke_sized(run.training, request)
    elif isinstance(run, Training):
        changes["size"] = run.size if request.sizes else min(run.size, 40)
        changes["test"] = min(40, grammar.test) if (grammar := grammar_of(run.corpus)) else None
    elif isinstance(run, Tagging) and run.corpus == GENERATED:
        changes["corpus"] = f"{GENERATED}:train=40,validation=20,test=20"
    return replace(run, **changes)
