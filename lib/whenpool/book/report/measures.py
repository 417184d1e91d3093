"""The numbers that claims are about: of each finished run one, or several with what they were measured at.

A measure is a table with a row for each number: the configuration of its run (columns of
`whenpool.runs.store.Store.rows`; ``model`` is what `whenpool.runs.kinds.training.variant_of` calls it),
``value``, ``seed``, ``key``, ``began``, and ``validation_accuracy`` where there is one.
`whenpool.book.report.claims` selects rows from it.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from inspect import signature
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from whenpool.base.errors import check_known
from whenpool.base.files import hash_of
from whenpool.base.paths import project_root
from whenpool.book.report.few_shot import READ_BY_ENCODER, STEPS
from whenpool.book.report.probes import ends_and_middle, where_the_text_stands
from whenpool.book.report.tricks import cost_of_ending, mass_before_the_end, mean_squared_error
from whenpool.book.report.verdicts import (
    RUNS_PER_CELL,
    SEEDS_NEEDED,
    THESIS_MODEL,
    Sample,
    has,
    published,
)
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.models.registry import THESIS_POOLINGS
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import SATURATED, DirectionUse, PaddingSweep, Probe, WordImportance
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import Training, variant_of, with_model
from whenpool.runs.plans import (
    COMPACT,
    COMPACT_TEST,
    GATES,
    SEEDS_FROM,
    SHARES,
    SMALL_TAGGERS,
    START_OPTIONS,
    TIMED_SEEDS,
)
from whenpool.runs.run import VECTORS, Place
from whenpool.runs.store import NO_FOLDER, Store
from whenpool.theory import constructions, lattice, shrinkage

Row = Mapping[str, Any]
Rows = Callable[..., DataFrame]
_MODEL = {name: value for name, value in THESIS_MODEL.items() if name not in ("test", "forget_bias")}
_MODEL |= {"vectors": VECTORS[0], "corpus": "imdb", "length": "long", "setting": "standard"}
SCALES: dict[str, dict[str, Any]] = {"thesis": _MODEL, "compact": _MODEL | COMPACT}
"""What a run has at each scale where a claim does not say otherwise: the thesis's BiLSTM and training
(§1.4.2), or the compact replication, which reduces them as `whenpool.runs.plans.COMPACT` says; on long,
plain IMDb reviews."""
USED = {own.name for kind in (Training, FewShot, Tagging) for own in fields(kind)}
USED |= set("model value key began corpus_complete validation_accuracy added share_added".split())
USED |= {"readout", "predictor", "scale", "attention", "network", "input_variance"}
"""Columns that claims select by and read."""


READS: dict[str, str] = {}
"""What this process has asked of the finished runs, as JSON, with a hash of the answer. The build asks again,
and executes a chapter anew where an answer has changed; see `whenpool.book.fresh`."""


def note(query: Any, answer: Iterable[str]) -> None:
    """Remember a query, a list that JSON can hold but for ``...``, and its answer, such as keys of runs."""
    asked = json.dumps(
        query, sort_keys=True, default=lambda value: "..." if value is ... else str(value)
    )
    READS[asked] = hash_of(*sorted({*answer}))


class Runs:
    """The finished runs of a place as tables, each read once, with all columns of their kind."""

    def __init__(self, place: Place | None) -> None:
        self.store = place.store if place else Store(NO_FOLDER)
        self._tables: dict[Any, Any] = {}

    trainings = cached_property(lambda self: self._rows("training"))
    probes = cached_property(lambda self: self._rows("probe"))
    few_shots = cached_property(lambda self: self._rows("few-shot"))
    taggings = cached_property(lambda self: self._rows("tagging"))
    epochs = cached_property(lambda self: self.store.history("training"))

    def points(self, kind: str) -> DataFrame:
        """What the probe runs of one kind measured, a row for each point, beside their configuration."""
        if kind not in self._tables:
            found = self.store.measured_on(self.probes, kind)
            names = [*found, *f"{Probe.histories[kind]} {Probe.points}".split(), *self.probes]
            self._tables[kind] = found.reindex(columns=[*dict.fromkeys(names)])
        return self._tables[kind]

    def numbers(self, measure: str, **options: Any) -> "Numbers":
        """All numbers of a measure with its options."""
        name = (measure, tuple(sorted(options.items())))
        if name not in self._tables:
            rows = MEASURES[measure].rows(self, **options)
            self._tables[name] = Numbers(rows[[column for column in rows if column in USED]])
        return self._tables[name]

    def table(self, what: str) -> DataFrame:
        """A row for each run of a kind in `whenpool.runs.kinds.KINDS`, or for each point that probes of a
        kind in `whenpool.runs.kinds.probe.PROBES` measured."""
        names = {
            "training": "trainings",
            "probe": "probes",
            "few-shot": "few_shots",
            "tagging": "taggings",
        }
        if what in KINDS and what not in names:
            return self.store.current(what)
        return getattr(self, names[what]) if what in names else self.points(what)

    def select(self, what: str, scale: str | Sequence[str] | None = None, **selection: Any) -> DataFrame:
        """The rows of a `table` whose columns have the values of a scale in `SCALES`, or of one of several,
        and of ``selection``: a value, a list of them, or ``...`` for any. Raises `InputError` for an unknown
        column."""
        rows = self.table(what)
        for name in selection:
            check_known("column", name, sorted(rows))
        scales = [scale] if isinstance(scale, str) else scale or ()
        chosen = pd.Series(not scales, index=rows.index, dtype=bool)
        for name in scales:
            check_known("scale", name, SCALES)
            fixed = SCALES[name].items()
            chosen |= has(rows, {k: v for k, v in fixed if k in rows and k not in selection})
        for name, value in selection.items():
            if value is not ...:
                values = value if isinstance(value, list | tuple) else [value]
                chosen &= rows[name].isin(values) | (rows[name].isna() & (None in values))
        note([what, scale, selection], rows.loc[chosen, "key"])
        return rows[chosen]

    def of(self, keys: set[str]) -> DataFrame:
        """The runs with some keys, a row each, for their provenance."""
        tables = (self.trainings, self.probes, self.few_shots, self.taggings)
        parts = [part for rows in tables if len(part := rows[rows["key"].isin(keys)])]
        return pd.concat(parts or [self.trainings.head(0)])

    def _rows(self, kind: str) -> DataFrame:
        rows = self.store.current(kind)
        ended = pd.to_datetime(rows["finished"], utc=True, format="ISO8601")
        rows = rows.assign(began=ended - pd.to_timedelta(rows["seconds"].fillna(0), unit="s"))
        if "pooling" in rows:
            rows = with_model(rows)
        if "size" not in rows:  # few-shot runs and taggers call what they learn from by other names
            rows["size"] = rows["labelled_texts" if kind == "few-shot" else "train_texts"]
        if kind == "few-shot":  # of which most read no word vectors
            return rows
        return rows.assign(vectors=rows["vectors"].astype(object).fillna("random"))


class Numbers:
    """A table looked up by the values of several columns, thousands of times: pandas is too slow for it."""

    def __init__(self, rows: DataFrame) -> None:
        plain = rows.astype(object).where(rows.notna(), None)
        self.columns: dict[str, list[Any]] = {name: plain[name].tolist() for name in plain}
        self.rows = rows
        self._places: dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]] = {}

    def places(self, selection: Row) -> Sequence[int]:
        """Which rows have these values, None for an empty one; a column without values may be missing."""
        names = tuple(name for name in selection if name in self.columns)
        if any(value is not None and name not in self.columns for name, value in selection.items()):
            return []
        if not names:
            return range(len(self.rows))
        if names not in self._places:
            found = self._places[names] = {}
            for place, values in enumerate(zip(*(self.columns[name] for name in names), strict=True)):
                found.setdefault(values, []).append(place)
        return self._places[names].get(tuple(selection[name] for name in names), [])


@dataclass(frozen=True)
class Measure:
    """How one number of a run is read."""

    rows: Rows  # gives the table of all numbers, see the module; options by name
    ratio: bool = False  # whether it is one, compared on a log scale
    # what a run has where a claim does not say otherwise, by scale
    fixed: Mapping[str, Row] = field(default_factory=lambda: SCALES)
    # the thesis's own number of a selection, from its tables
    published: Callable[[Row], Sample | None] = lambda selection: None
    drawn: bool = False  # whether it needs no stored runs
    exact: bool = False  # whether one number is all there is: nothing in it is drawn at random
    most: float | None = None  # the most that it can be, where rules are near to it


def _values(table: str, select: Rows, read: Callable[..., Series]) -> Rows:
    """The selected rows of a table, a name of `Runs` or a kind of probe, that have a value, with it."""

    def values(runs: Runs, **options: Any) -> DataFrame:
        found = select(getattr(runs, table) if hasattr(Runs, table) else runs.points(table))
        if found.empty:
            signature(read).bind(found, **options)  # which raises `TypeError` for options of no use
            return found
        return found.assign(value=read(found, **options)).dropna(subset=["value"])

    return values


def _tested(rows: DataFrame) -> DataFrame:
    """Those that were tested on as many texts as their scale says, with the λ that is in use."""
    wanted = rows["corpus"].map(COMPACT_TEST).where(rows["max_words"].eq(COMPACT["max_words"]))
    rows = rows[(rows["test"].isna() & wanted.isna()) | (rows["test"] == wanted)]
    for name in ("strength", "divergence"):
        rows = rows[rows[name].isna() | rows[name].eq(getattr(Training, name))]
    return rows.dropna(subset=["test_accuracy"])


def _by_epochs(read: Callable[[DataFrame], Series], timed: bool = False) -> Rows:
    """What ``read`` gives by key of epochs; ``timed``: of trainings with nothing else running."""

    def values(runs: Runs) -> DataFrame:
        found = _tested(runs.trainings)
        if timed:
            alone = found["together"].fillna(1).eq(1) & found["threads"].fillna(1).eq(1)
            found = found[found["seed"].isin(TIMED_SEEDS) & alone]
        epochs = runs.epochs[runs.epochs["key"].isin(found["key"])]
        epochs = epochs.reindex(columns=["key", *Training.points.split()])  # what no run has is empty
        return found.assign(value=found["key"].map(read(epochs))).dropna(subset=["value"])

    return values


def _gain_after_saturation(epochs: DataFrame) -> Series:
    """Validation accuracy of the best epoch after the first with `SATURATED` accuracy, minus that one's."""
    ordered = epochs.sort_values(["key", "epoch"])
    late = ordered[(ordered["train_accuracy"] >= SATURATED).groupby(ordered["key"]).cummax()]
    return late.groupby("key")["validation_accuracy"].agg(lambda own: own.iloc[1:].max() - own.iloc[0])


def _largest_fall(epochs: DataFrame) -> Series:
    """Points of validation accuracy lost from one epoch to the next, the most of a run."""
    ordered = epochs.sort_values(["key", "epoch"])
    steps = ordered.groupby("key")["validation_accuracy"].diff()
    return (-steps).groupby(ordered["key"]).max().clip(lower=0)


def _by_run(kind: str, select: Rows, read: Callable[..., float], order: str = "position") -> Rows:
    """One number of each probe run of a kind, which ``read`` gives of its points, in their order."""

    def values(points: DataFrame, **options: Any) -> Series:
        numbers = {key: read(own, **options) for key, own in points.sort_values(order).groupby("key")}
        return points.drop_duplicates("key")["key"].map(numbers)

    return _values(kind, select, values)


def _early(read: Callable[[Any], float], kind: str = "gradients") -> Measure:
    """Of the gradients of the model that one epoch on the first 500 texts leaves (§1.5)."""
    early = {"size": 500, "epochs": 1}
    rows = _by_run(
        kind,
        lambda points: points[has(points, early) & ~points["untrained"].eq(True)],
        lambda own: read(own["mean"].to_numpy()),
    )
    return Measure(rows, True, fixed={name: fixed | early for name, fixed in SCALES.items()})


def _middle_to_ends(profile: Any) -> float:
    return float(profile[49:51].mean() / profile[[0, -1]].mean())


def _looks(read: Callable[..., float]) -> Rows:
    """Of what a trace saw while a training went on, in the order in which it looked."""
    return _by_run("trace", lambda looks: looks, read, "examples")


def _ratio_at_95(looks: DataFrame, column: str = "ratio") -> float:
    reached = looks[looks["train_accuracy"] >= SATURATED]
    return float(reached[column].iloc[0]) if len(reached) else np.nan


def _nearest(column: str) -> Rows:
    """At the look nearest to a number of texts learnt from; none where the training ended long before."""

    def read(looks: DataFrame, examples: int) -> float:
        if looks["examples"].max() < 0.9 * examples:  # it looks whenever the number has grown by a tenth
            return np.nan
        return float(looks.loc[(looks["examples"] - examples).abs().idxmin(), column])

    return _looks(read)


def _looked_at(rows: DataFrame, texts: int) -> DataFrame:
    """The probes that looked at as many texts as claims are about."""
    return rows[rows["texts"].fillna(texts).eq(texts)]


def _swept(points: DataFrame) -> DataFrame:
    """A row for each share of filler and place of the text: its accuracy, and that without filler."""
    points = _looked_at(points, PaddingSweep.texts)
    points = points.assign(added=points["setting_added"], share_added=points["share_added"].round(3))
    start = points[points["share_added"] == 0].set_index(["key", "added"])["accuracy"]
    return points.join(start.rename("start"), on=["key", "added"])


def _sides(read: Callable[[DataFrame], Series]) -> Rows:
    """Of one model at one share of filler: what its accuracies with the text left, mid and right give."""

    def values(swept: DataFrame) -> Series:
        place = ["key", "share_added"]
        found = read(swept.pivot_table("accuracy", place, "added")).rename("value")
        return swept[swept["added"] == "mid"].join(found, on=place)["value"]

    return _values("sweep", _swept, values)


def _importance(read: Callable[..., float], mixed: bool = False) -> Measure:
    """Word importance, at the thesis's scale on texts as long as in its figures; ``mixed``: among filler."""

    def profiles(points: DataFrame) -> DataFrame:
        points = _looked_at(points[~(mixed & points["setting"].eq("standard"))], WordImportance.texts)
        bins = points["length"].map({"long": 400, "short": 50})
        bins = bins.where(points["max_words"].isna())
        given = points["shortest"].astype(float)
        return points[(given == bins) | (given.isna() & bins.isna())]

    return Measure(_by_run("nwi", profiles, read), ratio=True)


def _text_to_filler(points: DataFrame, minimum: str = "text") -> float:
    """Algorithm 1 has subtracted each text's own minimum; by the authors' code it is that of the mean."""
    profile, filler = points["mean"].to_numpy(), _filler(points)
    if minimum == "curve":
        profile = profile - profile.min()
    return float(profile[~filler].mean() / profile[filler].mean())


def _end_peaks(points: DataFrame) -> float:
    profile, filler = points["mean"].to_numpy(), _filler(points)
    ends = np.zeros(len(profile), bool)
    ends[[*range(5), *range(-5, 0)]] = True
    return float(profile[ends & filler].mean() / profile[filler & ~ends].mean())


def _filler(points: DataFrame) -> Any:
    """At which positions there is filler."""
    return ~where_the_text_stands(points["setting"].iloc[0], points["share"].iloc[0], len(points))


def _few_shot(rows: DataFrame) -> DataFrame:
    """At the thesis's scale systems start from its encoder and take its steps, else from MiniLM."""
    reads = rows["system"].isin(READ_BY_ENCODER)
    bert, mini = (~reads | (rows["encoder"] == name) for name in (DEFAULT_ENCODER, MINILM))
    whole = rows["test"].isna() & (rows["steps"] >= rows["system"].map(STEPS))
    rows = rows.assign(scale=np.where(bert & whole, "thesis", "other"))
    rows.loc[mini & ~whole, "scale"] = "compact"
    return rows[rows["length"] == "any"]


def _tagged(rows: DataFrame) -> DataFrame:
    """Taggers of one layer, trained for as many epochs as the compact settings of their corpus say."""
    rows = rows.assign(
        boundary_share=100 * rows["entities_boundary"] / rows["entities_predicted"],
        accuracy_above_f1=rows["test_accuracy"] - rows["entity_f1"],
        encoding=rows["encoding"].astype(object).fillna("own"),
    )
    wanted = {name: settings["epochs"] for name, settings in SMALL_TAGGERS.items()}
    usual = (rows["layers"] == 1) & rows["filters"].fillna(0).eq(0)
    return rows[(rows["epochs"] == rows["corpus"].map(wanted)) & usual]


# What the last state holds: starts of a BiLSTM without pooling, what their untrained states hold, the ratio
# of gradients on held-out texts while they learn, and what they reach.

EARLY = 3_000  # Texts learnt from: the course of a ratio is judged up to there
FEWEST_STARTS = 14  # That an agreement of ranks is computed over
GATED = tuple(f"forget {v:g}, input {-v:g}" for v in GATES)
STARTS = tuple(variant_of("last", **start) for start in START_OPTIONS)
"""Every start that is compared, as `whenpool.runs.kinds.training.variant_of` calls it."""
_ALIKE = [*_MODEL, "seed"]  # What runs compared agree in


def _held_out_looks(looks: DataFrame) -> DataFrame:
    """Those at held-out texts; a ratio that float32 rounds to 0 counts as its smallest number."""
    looks = looks[looks["median_ratio"].notna()]
    return looks.assign(median_ratio=looks["median_ratio"].clip(lower=np.finfo(np.float32).tiny))


def _early_looks(looks: DataFrame) -> DataFrame:
    """Those while the first `EARLY` texts are learnt from."""
    return looks[looks["examples"] <= EARLY]


def _held_out(read: Callable[[DataFrame], float]) -> Measure:
    """Of the looks at held-out texts; whether labels were shuffled is a column of its own."""

    def select(looks: DataFrame) -> DataFrame:
        model = looks["model"].astype(str).str.replace(", shuffled labels", "")
        looks = looks.assign(model=model, shuffled=looks["shuffled"].eq(True))
        return _held_out_looks(looks)

    fixed = {name: own | {"shuffled": False} for name, own in SCALES.items()}
    return Measure(_by_run("trace", select, read, "examples"), ratio=True, fixed=fixed)


def _over_chrono(runs: Runs) -> DataFrame:
    """Of each run the smallest quotient of its ratio and chrono's, with its seed, after as many texts."""
    looks = _early_looks(_held_out_looks(runs.points("trace")))
    same = [*_ALIKE, "size", "examples"]
    chrono = looks[looks["model"] == "chrono"][[*same, "median_ratio", "began"]]
    both = looks.merge(chrono, on=same, suffixes=("", "_of_chrono"))
    least = (both["median_ratio"] / both["median_ratio_of_chrono"]).groupby(both["key"]).min()
    found = both.drop_duplicates("key")
    return found.assign(
        value=found["key"].map(least), began=found[["began", "began_of_chrono"]].min(axis=1)
    )


def _rank_agreement(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `STARTS` of one seed, of test accuracy with what the untrained last
    state holds ("held"), or with the ratio before training or its lowest ("start_ratio", "lowest_ratio")."""
    trained = _tested(runs.trainings)
    usual = trained["share"].eq(THESIS_MODEL["share"]) & trained["size"].eq(1_000)
    trained = trained[trained["model"].isin(STARTS) & usual]
    states = runs.points("states").query("readout == 'last'")
    looks = _held_out_looks(runs.points("trace"))
    looks = looks.sort_values("examples")
    by_key = looks.drop_duplicates("key")["key"]
    looked = looks.drop_duplicates("key").assign(
        start_ratio=by_key.map(looks.groupby("key")["median_ratio"].first()),
        lowest_ratio=by_key.map(_early_looks(looks).groupby("key")["median_ratio"].min()),
    )
    predictors = {
        "held": (states, "accuracy"),
        "start_ratio": (looked, ""),
        "lowest_ratio": (looked, ""),
    }
    rows = []
    for predictor, (table, name) in predictors.items():
        if table.empty:
            continue
        there = table.assign(predicts=table[name or predictor])[[*_ALIKE, "model", "began", "predicts"]]
        both = trained.merge(there, on=[*_ALIKE, "model"], suffixes=("", "_there"))
        for _, own in both.groupby(_ALIKE, dropna=False):
            if own["model"].nunique() >= FEWEST_STARTS:
                ranks = own.drop_duplicates("model")[["predicts", "test_accuracy"]].rank()
                value = ranks["predicts"].corr(ranks["test_accuracy"])
                began = min(own["began"].min(), own["began_there"].min())
                row = own.iloc[0].to_dict() | {"model": "last", "began": began}
                rows.append(row | {"predictor": predictor, "value": value})
    return DataFrame(rows)


def _reach(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `GATED` starts of one seed, of v with the largest share of filler at
    which a review in the middle is still learnt: at least 10 points above chance."""
    found = _tested(runs.trainings)
    found = found[found["model"].isin(GATED) & found["size"].eq(1_000) & found["setting"].eq("mid")]
    rows = []
    for _, own in found.groupby([name for name in _ALIKE if name != "share"], dropna=False):
        learnt = (
            own[own["test_accuracy"] - own["majority_accuracy"] >= 10].groupby("model")["share"].max()
        )
        if own.groupby("model")["share"].nunique().reindex(GATED).eq(len(SHARES) + 1).all():
            ranks = learnt.reindex(GATED).fillna(-1).rank().reset_index(drop=True)
            value = ranks.corr(Series(range(len(GATED)))) if ranks.nunique() > 1 else 0.0
            row = own[own["share"] == THESIS_MODEL["share"]].iloc[0].to_dict()
            rows.append(row | {"model": "last", "began": own["began"].min(), "value": value})
    return DataFrame(rows)


def _by_draw(runs: Runs) -> DataFrame:
    """Test accuracies of trainings on other draws of texts; the draw takes the place of the seed."""
    found = _tested(runs.trainings)
    found = found[found["draw"].fillna(0) > 0]
    model = found["model"].astype(str).str.replace(r",? ?draw \d+$", "", regex=True)
    return found.assign(value=found["test_accuracy"], seed=found["draw"], model=model)


def _highest_mean(runs: Runs) -> DataFrame:
    """In how many % of the cases of Tables 1.3 and 1.4, those with three seeds of all five models, MaxAtt has
    the highest mean: a number over all runs, and one over later seeds alone once they fill every case."""
    found = _tested(runs.trainings)
    found = found[found["model"].isin(THESIS_POOLINGS) & found["masked"].eq(True)]
    case = ["corpus", "length", "setting", "size"]
    cases = published("accuracy").query("table in ('1.3', '1.4')")[case].drop_duplicates()
    found, rows = found.merge(cases, on=case), []
    for fixed, later in product(SCALES.values(), (False, True)):
        model = {name: value for name, value in fixed.items() if name not in case}
        own = found[has(found, model) & (found["seed"].ge(SEEDS_FROM) | (not later))]
        own = own.drop_duplicates([*case, "model", "seed"], keep="last")
        cells = own.groupby([*case, "model"])["test_accuracy"].agg(["mean", "count"]).unstack()
        cells = cells[cells["count"].fillna(0).min(axis=1) >= SEEDS_NEEDED] if len(cells) else cells
        if len(cells) == len(cases) or (len(cells) and not later):
            best = cells["mean"].idxmax(axis=1).eq("max_attention").mean()
            row = own.iloc[0].to_dict() | fixed | {"model": "max_attention", "began": own["began"].min()}
            rows.append(row | {"seed": int(later), "value": 100 * best})
    return DataFrame(rows)


# Theory, which needs no stored runs: networks are drawn, built or searched.


def _step_change(runs: Runs, first: int = 10, last: int = 30, hidden_size: int = 128) -> DataFrame:
    """By how many % the gradient norm changes with each step from the last state, before training."""
    # The claim on the size of inputs is of wide networks: one kind, at two sizes of the inputs.
    wide = hidden_size > 128
    return DataFrame(
        {"network": network, "input_variance": variance, "seed": seed, "value": value}
        for network in (["LSTM, forget bias 1"] if wide else shrinkage.MODELS)
        for variance in ((1.0, 0.01) if wide else (1.0,))
        for seed, value in enumerate(shrinkage.step_changes(network, hidden_size, variance, first, last))
    )


def _parity_reach(runs: Runs) -> DataFrame:
    """On how many of the texts 1, 11, 111, … the last value of the best machine gives the parity, over the
    number for the best max-pooled machine; the least of units with two, three and four values."""
    reach = [lattice.longest_parity_of_machines(6, 1, values) for values in (2, 3, 4)]
    return DataFrame([{"seed": 0, "value": min(last / pooled for pooled, last in reach)}])


def _plain(selection: Row) -> bool:
    """Whether a selection is of models that the thesis has tables of: nothing else is changed."""
    named = {"corpus", "length", "setting", "size", "model", "with_tricks"}
    return all(name in named or _MODEL.get(name) == value for name, value in selection.items())


@lru_cache
def _numbers_of(root: Any, table: str) -> Numbers:
    """The thesis's numbers in the clone at a root."""
    return Numbers(published(table))


def _number_of(table: str, name: str, **wanted: Any) -> float | None:
    """A number in the first row of the thesis's numbers with some values."""
    numbers = _numbers_of(project_root(), table)
    found = numbers.places(wanted)
    return numbers.columns[name][found[0]] if found else None


def _published_accuracy(selection: Row) -> Sample | None:
    if not _plain(selection):
        return None
    wanted = {name: selection.get(name) for name in ("corpus", "setting", "size")}
    tricked = _number_of("learnability", "accuracy", method=selection["model"], **wanted)
    if tricked is not None and selection.get("with_tricks"):
        return Sample(tricked, np.nan, 1)
    wanted |= {"pooling": selection["model"], "length": selection["length"]}
    mean, std = (_number_of("accuracy", name, **wanted) for name in ("mean", "std"))
    return None if mean is None or std is None else Sample(mean, std, RUNS_PER_CELL)


def _published_above_chance(selection: Row) -> Sample | None:
    largest_class = {"imdb": 50.0, "yelp": 50.0, "yahoo": 12.0, "amazon": 5.0}  # in % (§1.8.2)
    found = _published_accuracy(selection)
    return found and Sample(found.mean - largest_class[selection["corpus"]], found.std, found.n)


def _of_table_1_2(column: str, change: Callable[[float], float]) -> Callable[[Row], Sample | None]:
    def read(selection: Row) -> Sample | None:
        if not _plain(selection) or selection["setting"] != "standard":
            return None
        wanted = {"source": "thesis", "pooling": selection["model"], "size": selection.get("size")}
        found = _number_of("vanishing", column, **wanted)
        return None if found is None else Sample(change(found), np.nan, 1)

    return read


def _published_few_shot(selection: Row) -> Sample | None:
    found = _number_of("few_shot", "accuracy", model=selection["system"], corpus=selection["corpus"])
    return None if found is None else Sample(found, np.nan, 1)


_FEW = {name: {"corpus": "imdb", "per_class": FewShot.per_class, "scale": name} for name in SCALES}
_TAGGERS = {"bidirectional": True, "encoding": "own", "cell": "lstm", "vectors": VECTORS[0]}
_TAGGERS |= {"hidden_size": Tagging.hidden_size}
_WIDE = {name: _MODEL[name] for name in ("hidden_size", "embedding_size", "layers", "corpus")}
MEASURES: dict[str, Measure] = {
    "accuracy": Measure(
        _values("trainings", _tested, lambda rows: rows.test_accuracy), published=_published_accuracy,
    ),
    "above_chance": Measure(
        _values("trainings", _tested, lambda rows: rows.test_accuracy - rows.majority_accuracy),
        published=_published_above_chance,
    ),
    "validation_accuracy": Measure(
        _values("trainings", _tested, lambda rows: rows.validation_accuracy),
        published=_of_table_1_2("validation_accuracy", float),
    ),
    "epoch_seconds": Measure(
        _by_epochs(lambda epochs: epochs.groupby("key")["seconds"].min(), timed=True), ratio=True,
    ),
    "gain_after_saturation": Measure(_by_epochs(_gain_after_saturation)),
    "largest_fall": Measure(_by_epochs(_largest_fall)),
    "teacher_error": Measure(_by_epochs(mean_squared_error), ratio=True),
    "attention_left": Measure(_by_epochs(mass_before_the_end), ratio=True),
    "ending_cost": Measure(_by_epochs(cost_of_ending)),
    "early_gradient": _early(lambda profile: float(profile[49:51].mean())),
    "early_middle_to_ends": _early(_middle_to_ends),
    "first_middle_to_ends": _early(_middle_to_ends, "first_steps"),
    "ratio_at_95": Measure(_looks(_ratio_at_95), ratio=True, published=_of_table_1_2("ratio", math.log)),
    "ratio_after": Measure(_nearest("ratio"), ratio=True),
    "train_accuracy_after": Measure(_nearest("train_accuracy"), most=100.0),
    # A twentieth of the looks are lower; the lowest of all is an extreme that grows with their number.
    "low_ratio": Measure(_looks(lambda looks: looks.ratio.quantile(0.05)), ratio=True),
    "held": Measure(
        _values("states", lambda points: points, lambda points: points.accuracy - points.majority_accuracy),
        fixed={name: fixed | {"size": 4_000} for name, fixed in SCALES.items()},
    ),
    "dip": _held_out(lambda looks: _early_looks(looks).median_ratio.min() / looks.median_ratio.iloc[0]),
    "median_recovery": _held_out(lambda looks: looks.median_ratio.iloc[-1] / looks.median_ratio.iloc[0]),
    "ratio_over_chrono": Measure(_over_chrono, ratio=True),
    "rank_agreement": Measure(_rank_agreement, most=1.0),
    "reach": Measure(_reach, most=1.0),
    "accuracy_by_draw": Measure(_by_draw),
    "last_train_accuracy": Measure(
        _by_epochs(lambda epochs: epochs.sort_values("epoch").groupby("key")["train_accuracy"].last()),
        most=100.0,
    ),
    "highest_mean": Measure(_highest_mean, exact=True),
    "ratio_recovery": Measure(_looks(lambda looks: looks.ratio.iloc[-1] / looks.ratio.iloc[0]), ratio=True),
    "swept_accuracy": Measure(_values("sweep", _swept, lambda swept: swept.accuracy)),
    "swept_loss": Measure(_values("sweep", _swept, lambda swept: swept.start - swept.accuracy)),
    "sweep_asymmetry": Measure(_sides(lambda sides: sides.left - sides.right)),
    "both_ends_cost": Measure(_sides(lambda sides: sides[["left", "right"]].min(axis=1) - sides.mid)),
    "direction_gap": Measure(_values(
        "probes", lambda rows: _looked_at(rows[rows.probe == "directions"], DirectionUse.texts),
        lambda rows: rows.accuracy_forward - rows.accuracy_backward,
    )),
    "ends_to_middle": _importance(lambda points: np.divide(*ends_and_middle(points["mean"].to_numpy()))),
    "text_to_filler": _importance(_text_to_filler, mixed=True),
    "end_peaks": _importance(_end_peaks, mixed=True),
    "few_shot_accuracy": Measure(
        _values("few_shots", _few_shot, lambda rows: rows.test_accuracy),
        fixed=_FEW, published=_published_few_shot,
    ),
    "tagging": Measure(
        _values("taggings", _tagged, lambda rows, column: rows[column]),
        fixed={"compact": _TAGGERS},
    ),
    # Memory depends on shapes alone: one run is enough.
    "memory_exponent": Measure(
        _values("probes", lambda rows: rows[rows.probe == "memory"],
                lambda rows: rows.exponent.where(rows.longest == 4_000)),
        fixed={"thesis": _WIDE}, exact=True,
    ),
    "step_change": Measure(_step_change, fixed={"thesis": {"input_variance": 1.0}}, drawn=True),
    "construction_error": Measure(
        lambda runs: DataFrame([{"seed": 0, "value": constructions.largest_error()}]),
        fixed={"thesis": {}}, drawn=True, exact=True,
    ),
    "parity_reach": Measure(_parity_reach, fixed={"thesis": {}}, drawn=True, exact=True),
}  # fmt: skip
"""Every measure that ``data/paper/claims.yml`` may name."""
