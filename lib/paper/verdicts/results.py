"""Finished runs and the thesis's numbers as tidy tables; means over seeds and their intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series
from scipy.special import stdtrit  # scipy.stats, which has the t quantile too, loads long

from paper.runs.kinds import KINDS
from paper.runs.kinds.probe import PROBES, Probe
from paper.runs.kinds.training import Training
from paper.runs.plans import COMPACT
from paper.runs.run import Place
from paper.runs.store import NO_FOLDER, Store, recorded_columns
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root
from whenpool.corpora.tokens import VECTORS
from whenpool.models.encoder import STARTS

Selection = dict[str, Any]
"""Values of columns, see `has`."""
_NAMES = """cell layers bidirectional hidden_size embedding_size forget_bias epochs batch_size
    learning_rate weight_decay clip drop_connect share masked max_words test"""
_DEFAULTS = {column.name: column.default for column in Training.columns()}
THESIS_MODEL: Selection = {name: _DEFAULTS[name] for name in _NAMES.split()}
"""The thesis's model and training (§1.4.2)."""
PLAIN = {name: value for name, value in THESIS_MODEL.items() if name not in ("test", "forget_bias")}
PLAIN |= {"vectors": VECTORS[0], "corpus": "imdb", "length": "long", "setting": "standard"}
SCALES: dict[str, Selection] = {"thesis": PLAIN, "compact": PLAIN | COMPACT}
"""What a run has at each scale where nothing else is asked for: the thesis's BiLSTM and training,
or the compact replication, which reduces them as `paper.runs.plans.COMPACT` says; on long, plain
reviews."""


class Runs:
    """The finished runs of a place as tables, each read once, with all columns of their kind."""

    def __init__(self, place: Place | None) -> None:
        self.store = place.store if place else Store(NO_FOLDER)
        self.tables: dict[Any, DataFrame] = {}
        self.numbers: dict[str, Numbers] = {}  # see `paper.verdicts.measures.numbers`

    def table(self, what: Any) -> DataFrame:
        """A row for each run of a kind, "training", "few-shot", "tagging" or "probe"; for each
        epoch of trainings, "epochs"; for each point that probes of a kind measured, such as
        "trace"; or what a function makes of these tables."""
        if what not in self.tables:
            self.tables[what] = what(self) if callable(what) else self._read(what)
        return self.tables[what]

    def _read(self, what: str) -> DataFrame:
        if what == "epochs":
            return self.store.history("training")
        if what in PROBES:
            probes, points = self.table("probe"), self.store.history("probe", what)
            runs = probes[probes["probe"] == what].dropna(axis=1, how="all")
            if len(runs):  # a column that both have is the point's
                points = points.merge(runs, on="key", suffixes=("", "_of_run"))
            columns = recorded_columns(f"{Probe.table}_{what}")
            return points.reindex(columns=[*dict.fromkeys([*points, *columns, *probes])])
        rows = self.store.current(what)
        rows = rows.assign(began=began(rows))
        if "pooling" in rows:
            rows = with_model(rows)
            rows["clip"] = column(rows, "clip").astype(float)  # which older probes do not have
        if "size" not in rows:  # few-shot runs and taggers call what they learn from by other names
            rows["size"] = rows.get("labelled_texts", rows.get("train_texts"))
        if "vectors" not in rows or what == "few-shot":  # of which most read no word vectors
            return rows
        return rows.assign(vectors=rows["vectors"].astype(object).fillna("random"))

    def as_usual(self, rows: DataFrame, selection: Selection) -> Series:
        """Which rows were measured as those on record are, see `has`."""
        return has(rows, selection)

    def of(self, keys: Iterable[str]) -> DataFrame:
        """The runs with some keys, a row each, with their kind."""
        wanted = {*keys}
        tables = ((kind, self.table(kind)) for kind in KINDS)
        parts = [rows[rows["key"].isin(wanted)].assign(kind=kind) for kind, rows in tables]
        return pd.concat([part for part in parts if len(part)] or parts[:1])


class Numbers:
    """A table looked up by the values of several columns, thousands of times: pandas is too slow
    for it."""

    def __init__(self, rows: DataFrame) -> None:
        self.rows = rows
        self._columns: dict[str, list[Any]] = {}
        self._positions: dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]] = {}

    def column(self, name: str) -> list[Any]:
        """The values of a column, None for empty ones and where there is no such column."""
        if name not in self._columns:
            values = column(self.rows, name).astype(object)
            self._columns[name] = values.where(values.notna(), None).tolist()
        return self._columns[name]

    def positions(self, selection: Selection) -> Sequence[int]:
        """Which rows have these values, None for an empty one, ``...`` for any."""
        values = {name: value for name, value in selection.items() if value is not ...}
        names = tuple(values)
        if names not in self._positions:
            index = self._positions[names] = {}
            for position, row in enumerate(zip(*map(self.column, names), strict=True)):
                index.setdefault(row, []).append(position)
        return self._positions[names].get(tuple(values.values()), [])


SPECIAL = {
    "held": "{} held",
    "through": "through {}",
    "backward": "{}",
    "shuffled": "shuffled labels",
    "draw": "draw {:g}",
    "fresh": "fresh filler",
}
"""What the name of a model says of fields that few trainings have."""
_BACKWARD = {"open": "open memory", "even": "even gradient"}
VARYING = (
    "pooling",
    "forget_bias",
    "orthogonal",
    "trick",
    "input_bias",
    "chrono_words",
    *SPECIAL,
)
"""The fields of a training that `variant_of` names."""


def variant_of(pooling: str, **options: Any) -> str:
    """The name that shows what sets a training apart, which is made from its fields and never read
    back: its trick or pooling, and what is special about its start, by which alone a model without
    pooling goes: "orthogonal", "chrono", "low", "forget 2" or "forget 5, input -5"; then
    `SPECIAL` ones. Empty values (None, NaN) are those of older runs."""
    values = {n: v for n, v in options.items() if v is not None and v == v and v is not False}
    base, forget_bias = values.get("trick", pooling), values.get("forget_bias", "thesis")
    starts = ["orthogonal"] if values.get("orthogonal") else []
    if forget_bias in STARTS:
        words = values.get("chrono_words", 400)
        starts.append(forget_bias if words == 400 else f"{forget_bias} {words:g}")
    elif forget_bias != "thesis":
        starts.append(f"forget {float(forget_bias):g}")
    if "input_bias" in values:
        starts.append(f"input {float(values['input_bias']):g}")
    parts = starts if starts and base == "last" else [base, *starts]
    values["backward"] = _BACKWARD.get(values.get("backward", ""))
    more = [text.format(values[name]) for name, text in SPECIAL.items() if values.get(name)]
    return ", ".join([*parts, *more])


def with_model(rows: DataFrame) -> DataFrame:
    """Rows of trainings, or probes of some, with a column ``model``, see `variant_of`."""
    varying = rows[[name for name in VARYING if name in rows]].to_dict("records")
    return rows.assign(model=[variant_of(**values) for values in varying])


def has(rows: DataFrame, selection: Selection) -> Series:
    """Which rows have some values in their columns: a value, one of a list, None for an empty one,
    or ``...`` for any."""
    chosen = Series(True, index=rows.index)
    for name, value in selection.items():
        if value is not ...:
            values = value if isinstance(value, list | tuple) else [value]
            chosen &= rows[name].isin(values) | (rows[name].isna() & (None in values))
    return chosen


def began(rows: DataFrame) -> Series:
    """When runs began. Of one whose beginning is not on record, it is taken from its seconds, and
    of models that were trained together from those of all."""
    times = [column(rows, name) for name in ("started", "finished")]
    started, ended = (pd.to_datetime(each, utc=True, format="ISO8601") for each in times)
    seconds = rows["seconds"].fillna(0) * column(rows, "together").astype(float).fillna(1)
    worked_out = ended - pd.to_timedelta(seconds, unit="s")
    return worked_out.where(started.isna(), started.astype(worked_out.dtype))


def column(rows: DataFrame, name: str) -> Series:
    """A column of some rows, empty where they are older than what it says."""
    return rows[name] if name in rows else Series(None, index=rows.index, dtype=object)


def paper_file(name: str) -> Path:
    """A file of ``data/paper``; raises `InputError` outside a clone of the book."""
    root = project_root()
    if root is None:
        raise InputError(
            "the thesis's numbers are in the repository; run this inside a clone of it"
        )
    return root / "data" / "paper" / name


def published(name: str) -> DataFrame:
    """A file of the thesis's numbers, a row each, such as "accuracy"; ``table`` says in which
    table."""
    return _read_once(paper_file(f"{name}.csv")).copy()


@cache
def _read_once(file: Path) -> DataFrame:
    return pd.read_csv(file, dtype={"table": str})


@dataclass(frozen=True)
class Sample:
    """A number over the seeds of one model, or its logarithm: mean and standard deviation (n -
    1)."""

    mean: float
    std: float
    n: int
    keys: tuple[str, ...] = ()  # of the runs; none for what the thesis published
    whole: bool = True  # whether all runs read the whole corpus of its publisher
    values: Mapping[int, float] = field(default_factory=dict, compare=False)  # by seed

    @classmethod
    def of(
        cls, values: Mapping[int, float], keys: tuple[str, ...] = (), whole: bool = True
    ) -> "Sample":
        """From the value of each seed."""
        numbers = np.array([*values.values()])
        std = float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan
        return cls(float(numbers.mean()), std, len(numbers), keys, whole, values)

    def without(self, seed: int) -> "Sample":
        """The same without a seed; unchanged where that is all there is, or is not there."""
        rest = {other: value for other, value in self.values.items() if other != seed}
        return Sample.of(rest, self.keys, self.whole) if rest else self


def spread(terms: Sequence[tuple[int, Sample]]) -> tuple[float, float]:
    """The standard error of a sum of means, each with its sign, and its degrees of freedom: n - 1
    of one mean, Welch's of a difference, Satterthwaite's of more. NaN where a deviation is missing,
    0 where nothing varies."""
    if any(sample.n < 2 or np.isnan(sample.std) for _, sample in terms):
        return np.nan, np.nan
    shares = [sample.std**2 / sample.n for _, sample in terms]
    if not sum(shares):
        return 0.0, np.inf
    each = zip(shares, terms, strict=True)
    freedom = sum(shares) ** 2 / sum(share**2 / (sample.n - 1) for share, (_, sample) in each)
    return sum(shares) ** 0.5, freedom


def estimate(
    terms: Sequence[tuple[int, Sample]], level: float = 0.95
) -> tuple[float, float, float]:
    """A sum of means and its t interval at a level (value, low, high), NaN as `spread` has it."""
    value = sum(sign * sample.mean for sign, sample in terms)
    error, freedom = spread(terms)
    reach = float(stdtrit(freedom, (1 + level) / 2)) * error if error else error
    return value, value - reach, value + reach
