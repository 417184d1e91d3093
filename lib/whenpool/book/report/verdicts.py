"""Whether a cell of the thesis's tables was reproduced, by a rule fixed before the runs.

A verdict needs three seeds of the same protocol: the corpus in full, the same classes, training size, hidden
units, epochs and word vectors. The 95 % Welch interval of the difference of means decides: wholly within ±3
points is *reproduced*, wholly outside *differs*, anything else *undecided*. Runs from other vectors are
*pilots*. The number of the compact replication is beside each cell and is never judged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series
from scipy.special import stdtrit  # of `scipy.stats`, which takes long to load, the t quantile alone

from whenpool.base.errors import InputError
from whenpool.base.paths import project_root
from whenpool.base.tables import Columns, checked_table
from whenpool.corpora.published import THESIS_CORPORA
from whenpool.corpora.tagged import PUBLISHED
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import with_model
from whenpool.runs.plans import COMPACT, COMPACT_TEST, LARGE_TAGGERS, LETTERS, SMALL_TAGGERS
from whenpool.runs.run import VECTORS

COLUMNS = {
    name: Columns(f"table {names} {numbers}", numbers=numbers)
    for name, names, numbers in (
        ("accuracy", "length corpus setting pooling", "size mean std"),
        ("corpora", "length corpus", "classes average_length max_length train_size test_size"),
        ("vanishing", "source pooling", "size ratio validation_accuracy"),
        ("few_shot", "model corpus", "accuracy"),
        ("learnability", "method corpus setting", "size accuracy"),
    )
}
RUNS_PER_CELL = 5  # Seeds behind each mean and standard deviation of the thesis (§1.4.2)
MARGIN = 3.0  # Points of accuracy
SEEDS_NEEDED = 3
THESIS_MODEL: dict[str, Any] = {
    "cell": "lstm", "layers": 1, "bidirectional": True, "hidden_size": 256, "embedding_size": 100,
    "forget_bias": "thesis", "epochs": 20, "batch_size": 32, "learning_rate": 2e-3, "weight_decay": 0,
    "drop_connect": 0, "share": 0.66, "masked": True, "max_words": None, "test": None,
}  # fmt: skip
"""The thesis's model and training (§1.4.2)."""
SMALL_MODEL = THESIS_MODEL | COMPACT | {"test": 2_000}  # Those of the quick profile on published corpora
OTHER_BIASES = ("2.0", 2.0, "chrono")
"""Forget biases that chapter 2 gives the model without pooling (§2.2.2)."""
MARKS = {"reproduced": "✓", "differs": "✗", "undecided": "?", "so far": "…", "pilot": "~", "not run": ""}
"""Each verdict with its mark: "so far" has fewer than three seeds, a pilot has other word vectors than the
thesis's."""
NOT_RUN: dict[str, Any] = {"ours": np.nan, "ours_std": np.nan, "n": 0, "verdict": "not run"}
NOT_RUN |= {"keys": (), "compact": ""}
"""What is beside a published cell of which there are no runs, see `cell_of`."""


def paper_file(name: str, what: str) -> Path:
    """A file of ``data/paper``; raises `InputError` outside a clone of the book."""
    root = project_root()
    if root is None:
        raise InputError(f"{what} in the book's repository; run this inside a clone of it")
    return root / "data" / "paper" / name


def published(name: str) -> DataFrame:
    """The rows of one of `COLUMNS`, a number of the thesis each; ``table`` says in which table."""
    file = paper_file(f"{name}.csv", "the thesis's numbers are")
    return _read(file, name, file.stat().st_mtime_ns if file.is_file() else 0).copy()


@lru_cache
def _read(file: Path, name: str, changed: int) -> DataFrame:
    return checked_table(file, "the thesis's numbers", COLUMNS[name], table=str)


@dataclass(frozen=True)
class Sample:
    """A number over the seeds of one model, or its logarithm: mean and standard deviation (n - 1)."""

    mean: float
    std: float
    n: int
    keys: tuple[str, ...] = ()  # of the runs; none for what the thesis published
    whole: bool = True  # whether all runs read the whole corpus of its publisher
    values: Mapping[int, float] = field(
        default_factory=dict, compare=False
    )  # by seed, where we have them

    @classmethod
    def of(cls, values: Mapping[int, float], keys: tuple[str, ...] = (), whole: bool = True) -> "Sample":
        """From the value of each seed."""
        numbers = np.array([*values.values()])
        std = float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan
        return cls(float(numbers.mean()), std, len(numbers), keys, whole, values)

    def without(self, seed: int) -> "Sample":
        """The same without a seed; unchanged where that is all there is, or is not there."""
        rest = {own: value for own, value in self.values.items() if own != seed}
        return Sample.of(rest, self.keys, self.whole) if rest else self


def estimate(terms: Sequence[tuple[int, Sample]], level: float = 0.95) -> tuple[float, float, float]:
    """A sum of means, each with its sign, and its interval at a level (value, low, high), NaN where a
    deviation is missing: t for one mean, Welch's for a difference, Satterthwaite's degrees of freedom for
    more."""
    value = sum(sign * sample.mean for sign, sample in terms)
    if any(sample.n < 2 or np.isnan(sample.std) for _, sample in terms):
        return value, np.nan, np.nan
    shares = [sample.std**2 / sample.n for _, sample in terms]
    if not sum(shares):
        return value, value, value
    each = zip(shares, terms, strict=True)
    freedom = sum(shares) ** 2 / sum(share**2 / (sample.n - 1) for share, (_, sample) in each)
    reach = float(stdtrit(freedom, (1 + level) / 2)) * sum(shares) ** 0.5
    return value, value - reach, value + reach


def verdict_of(ours: list[float], mean: float, std: float) -> str:
    """What the rule says of our values beside a published mean and standard deviation."""
    if len(ours) < SEEDS_NEEDED:
        return "so far"
    own = Sample(float(np.mean(ours)), float(np.std(ours, ddof=1)), len(ours))
    _, low, high = estimate([(1, own), (-1, Sample(mean, std, RUNS_PER_CELL))])
    if low >= -MARGIN and high <= MARGIN:
        return "reproduced"
    return "differs" if low > MARGIN or high < -MARGIN else "undecided"


def cell_of(runs: DataFrame, verdict: str) -> dict[str, Any]:
    """What is beside a published cell: mean and standard deviation (NaN for one run) of our test accuracies
    in %, the number of runs and their keys, the verdict, one of `MARKS`, and the compact replication."""
    values = runs["test_accuracy"]
    ours = {"ours": values.mean(), "ours_std": values.std(), "n": len(runs), "verdict": verdict}
    return NOT_RUN | ours | {"keys": tuple(runs["key"])}


def mean_text(mean: float, std: float, n: int) -> str:
    """Mean ± standard deviation (n); a single run has no deviation."""
    return f"{mean:.1f} ± {std:.1f} ({n})" if n > 1 else f"{mean:.1f} ({n})"


def spread(values: Series) -> str:
    """The same of the values of several seeds."""
    return mean_text(values.mean(), values.std(), values.count())


def judge(ours: DataFrame, published: Series) -> dict[str, Any]:
    """What is beside a row of ``data/paper/accuracy.csv``, see `cell_of`, from our runs of its cell."""
    cell = NOT_RUN
    used = ours[ours["corpus_complete"].eq(True) & follows_protocol(ours)]
    if len(used):
        thesis = used[used["vectors"] == VECTORS[0]]
        used = thesis if thesis["seed"].nunique() >= SEEDS_NEEDED else used
        used = fullest(used, [name for name in ("vectors", "validation", *THESIS_MODEL) if name in used])
        pilot = (used["vectors"] != VECTORS[0]).any()
        verdict = verdict_of(used["test_accuracy"].tolist(), published["mean"], published["std"])
        cell = cell_of(used, "pilot" if pilot else verdict)
    # Beside them the compact replication, from the thesis's word vectors, one run of each seed.
    wanted = ours["corpus"].map(COMPACT_TEST)
    tested = ours["test"].eq(wanted) | (ours["test"].isna() & wanted.isna())
    model = {name: value for name, value in SMALL_MODEL.items() if name != "test"}
    small = ours[has(ours, model | {"vectors": VECTORS[0]}) & tested & is_plain(ours)]
    small = small.dropna(subset=["test_accuracy"]).drop_duplicates("seed", keep="last")
    if len(small):
        whole = small["corpus_complete"].eq(True).all()  # no part of the corpus, and no stand-in
        text = spread(small["test_accuracy"]) + "*" * (not whole)
        cell = cell | {"compact": text, "keys": (*cell["keys"], *small["key"])}
    return cell


def fullest(runs: DataFrame, varied: list[str], *then: str) -> DataFrame:
    """Of configurations that differ in ``varied`` the one with the most seeds, then the largest values."""
    groups = [own for _, own in runs.groupby(varied, dropna=False, sort=False)]
    largest = max(groups, key=lambda own: [own["seed"].nunique(), *own[list(then)].max().tolist()])
    return largest.drop_duplicates("seed", keep="last")


def has(runs: DataFrame, configuration: dict[str, Any]) -> Series:
    """Which runs have some values in their columns; None is an empty one."""
    found = pd.Series(True, index=runs.index)
    for name, value in configuration.items():
        found &= runs[name].isna() if value is None else runs[name] == value
    return found


def column(runs: DataFrame, name: str) -> Series:
    """A column of some runs, empty where the runs are older than what it says."""
    return runs[name] if name in runs else pd.Series(None, index=runs.index, dtype=object)


def follows_protocol(runs: DataFrame) -> Series:
    """Which runs have the thesis's model and training (§1.4.2), padding masked."""
    return has(runs, THESIS_MODEL) & runs["vectors"].notna() & is_plain(runs)


def is_plain(runs: DataFrame) -> Series:
    """Which runs have no trick and no other start than those of the thesis's first chapter."""
    model = with_model(runs)["model"]
    return model.eq(runs["pooling"]) | model.eq("low")


def as_plain(runs: DataFrame) -> DataFrame:
    """Runs of chapter 2 as if they were of chapter 1: models without pooling lose trick and start (§2.2)."""
    last = runs["pooling"] == "last"
    return runs.assign(
        trick=runs["trick"].where(~last, None),
        orthogonal=runs["orthogonal"].eq(True) & ~last,
        forget_bias=runs["forget_bias"].mask(last & runs["forget_bias"].isin(OTHER_BIASES), "thesis"),
    )


def of_one_kind(runs: DataFrame) -> DataFrame:
    """Those of one kind of word vectors, since numbers of two kinds are not compared: the thesis's, once they
    have at least half as many runs as the most frequent kind, before that one."""
    counts = runs["vectors"].value_counts()
    enough = counts.get(VECTORS[0], 0) >= counts.max() / 2
    return runs[runs["vectors"] == (VECTORS[0] if enough else counts.idxmax())] if len(runs) else runs


def is_reference(runs: DataFrame) -> Series:
    """Which runs follow the protocol on a whole corpus of the thesis's, with padding masked or not."""
    return runs["corpus_complete"].eq(True) & follows_protocol(runs.assign(masked=True))


def of_either_scale(runs: DataFrame) -> Series:
    """Which runs have the thesis's model and training on a whole corpus of its, or the compact replication's
    on any part of it; with padding masked or not, any start, trick and vectors."""
    same = THESIS_MODEL.keys() - {"masked", "forget_bias", "test"} - COMPACT.keys()
    base = has(runs, {name: THESIS_MODEL[name] for name in same}) & runs["corpus"].isin(THESIS_CORPORA)
    large = has(runs, {name: THESIS_MODEL[name] for name in COMPACT} | {"corpus_complete": True})
    return base & ((large & runs["vectors"].notna()) | has(runs, COMPACT))


def of_learnability(runs: DataFrame) -> Series:
    """Which runs on the whole of IMDb are of Table 2.1's kind (§2.2.8): by the thesis's protocol, or
    with the model of the quick profile, which indicates and decides nothing."""
    kind = has(runs, {"corpus": "imdb", "length": "long", "corpus_complete": True, "masked": True})
    kind &= runs["setting"].isin(["standard", "mid"]) & runs["vectors"].notna()
    kind &= runs["pooling"].isin(["last", "max", "max_attention"])
    plain = as_plain(runs)
    return kind & (has(plain, SMALL_MODEL) | follows_protocol(plain))


def of_breadth(runs: DataFrame) -> Series:
    """Which runs on the whole of IMDb, 1K reviews, have the model of the quick profile but for its cell,
    layers, directions, regularisation, learning rate and epochs (§1.4.2, §1.11)."""
    varied = "cell layers bidirectional hidden_size drop_connect weight_decay learning_rate epochs"
    fixed = {name: value for name, value in SMALL_MODEL.items() if name not in varied.split()}
    fixed |= {"corpus": "imdb", "length": "long", "size": 1_000, "corpus_complete": True}
    # A cell that adds its state to a word vector has the vector's size, 100; a model that goes one way
    # may have the units of both, 128.
    any_size = runs["hidden_size"].isin([64, 100, 128]) & ~runs["cell"].isin(["lstm", "gru", "elman"])
    sized = any_size | (runs["hidden_size"] == SMALL_MODEL["hidden_size"])
    return has(runs, fixed) & runs["vectors"].notna() & is_plain(runs) & sized


def probes_of_breadth(probes: DataFrame) -> Series:
    """Which probe runs looked at such a model, once trained or at the start (§1.5)."""
    start = has(probes, {"probe": "gradients", "epochs": 1, "size": 500})
    usual = {"size": 1_000, "test": SMALL_MODEL["test"]}
    as_trained = probes.assign(**{name: probes[name].mask(start, usual[name]) for name in usual})
    return of_breadth(as_trained) & ~probes["untrained"].eq(True)


def is_memory_reference(probes: DataFrame) -> Series:
    """Which probe runs measured the memory of a training step as the thesis's remark on it asks: untrained
    models of its width, of one layer, on texts of up to 4,000 words (§1.3.3)."""
    same = ("hidden_size", "embedding_size", "layers", "masked", "bidirectional")
    wide = {name: THESIS_MODEL[name] for name in same} | {"probe": "memory", "longest": 4_000}
    return has(probes, wide | {"corpus": "imdb", "corpus_complete": True}) & probes["vectors"].notna()


def probes_of_either_scale(probes: DataFrame) -> Series:
    """Which probe runs looked at such a model, or at one that learnt from its first 500 texts once."""
    early = has(probes, {"epochs": 1, "size": 500})
    usual = probes["max_words"].isna().map({True: THESIS_MODEL["epochs"], False: COMPACT["epochs"]})
    return of_either_scale(probes.assign(epochs=probes["epochs"].mask(early, usual)))


def is_reference_tagging(runs: DataFrame) -> Series:
    """Which tagging runs are on a whole published corpus, compact or of the profile "paper"."""
    kinds: list[dict[str, Any]] = [{}, LARGE_TAGGERS, LETTERS, LARGE_TAGGERS | LETTERS]
    return pd.concat([compact_taggings(runs, more) for more in kinds], axis=1).any(axis=1)


def compact_taggings(runs: DataFrame, more: Mapping[str, Any] | None = None) -> Series:
    """Those with the compact settings of their corpus, or ``more`` instead, apart from what is compared."""
    runs = runs.fillna({"filters": Tagging.filters})  # which older runs lack
    compared = ("corpus", "seed", "cell", "bidirectional", "encoding", "vectors")
    usual = {own.name: own.default for own in fields(Tagging) if own.name not in compared}
    found = runs["corpus_complete"].eq(True) & runs["vectors"].notna()
    own = [{**usual, **SMALL_TAGGERS[name], **(more or {}), "corpus": name} for name in PUBLISHED]
    return found & pd.concat([has(runs, settings) for settings in own], axis=1).any(axis=1)


def finished(runs: DataFrame) -> DataFrame:
    """The runs that did not diverge."""
    return runs[~column(runs, "diverged").eq(True)]
