"""The numbers that claims are about: of each finished run one, or several with what they were measured at.

A measure is a table with a row for each number: the configuration of its run (columns of
`whenpool.runs.store.Store.rows`; ``model`` is what `whenpool.book.results.variant_of` calls it),
``value``, ``seed``, ``key``, ``began``, and ``validation_accuracy`` where there is one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from whenpool.base.paths import project_root
from whenpool.book.results import (
    PLAIN,
    SCALES,
    THESIS_MODEL,
    Numbers,
    Runs,
    Sample,
    has,
    published,
    variant_of,
)
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.models.registry import THESIS_POOLINGS
from whenpool.runs import plans
from whenpool.runs.kinds.few_shot import READ_BY_ENCODER, FewShot
from whenpool.runs.kinds.probe import SATURATED, DirectionUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import VECTORS
from whenpool.runs.store import recorded_columns
from whenpool.theory import constructions, lattice, shrinkage

Row = Mapping[str, Any]
Rows = Callable[..., DataFrame]
SEEDS_NEEDED = 3  # for a verdict
RUNS_PER_CELL = 5  # Seeds behind each mean and standard deviation of the thesis (§1.4.2)
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in plans.PAPER.items()}
"""The steps that each system with few labels takes at the thesis's scale."""
USED = {item.name for kind in (Training, FewShot, Tagging) for item in fields(kind)}
USED |= set("model value key began corpus_complete validation_accuracy added share_added".split())
USED |= {"readout", "predictor", "scale", "attention", "network", "input_variance"}
"""Columns that claims select by and read."""


@dataclass(frozen=True)
class Measure:
    """How one number of a run is read."""

    rows: Rows  # gives the table of all numbers, see the module; options by name
    ratio: bool = False  # whether it is one, compared on a log scale
    # what a run has where a claim does not say otherwise, by scale
    fixed: Mapping[str, Row] = field(default_factory=lambda: SCALES)
    theirs: Callable[[], DataFrame] | None = (
        None  # the thesis's numbers: what they are of, mean, std and n
    )
    drawn: bool = False  # whether it needs no stored runs
    exact: bool = False  # whether one number is all there is: nothing in it is drawn at random
    most: float | None = None  # the most that it can be, where rules are near to it

    def published(self, selection: Row) -> Sample | None:
        """The thesis's own number, from its tables; ``with_tricks``: rather from that of chapter 2."""
        if self.theirs is None:
            return None
        numbers, usual = _numbers_of(self.theirs, project_root()), self.fixed["thesis"]
        selection = {"with_tricks": False, **selection}
        other = selection.keys() - numbers.columns.keys() - {"with_tricks"}
        if any(usual.get(name) != selection[name] for name in other):
            return None
        of = {name: selection.get(name) for name in numbers.columns if name not in ("mean", "std", "n")}
        for place in numbers.places(of):
            mean, std, n = (numbers.columns[name][place] for name in ("mean", "std", "n"))
            return Sample(mean, np.nan if std is None else std, n)
        return None


@lru_cache
def _numbers_of(theirs: Callable[[], DataFrame], root: Path | None) -> Numbers:
    """The thesis's numbers in the clone at a root."""
    return Numbers(theirs())


def _values(
    table: str, read: Callable[..., Series], select: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> Rows:
    """The selected rows of a `Runs.table` that have a value, with it."""

    def values(runs: Runs, **options: Any) -> DataFrame:
        rows = select(runs.table(table))
        if rows.empty:
            return rows
        return rows.assign(value=read(rows, **options)).dropna(subset=["value"])

    return values


def _tested(rows: DataFrame) -> DataFrame:
    """Those that were tested on as many texts as their scale says, with the λ that is in use."""
    compact = rows["max_words"].eq(plans.COMPACT["max_words"])
    wanted = rows["corpus"].map(plans.COMPACT_TEST).where(compact)
    rows = rows[(rows["test"].isna() & wanted.isna()) | (rows["test"] == wanted)]
    for name in ("strength", "divergence"):
        rows = rows[rows[name].isna() | rows[name].eq(getattr(Training, name))]
    return rows.dropna(subset=["test_accuracy"])


def _accuracy(read: Callable[[DataFrame], Series]) -> Rows:
    """Of trainings."""
    return _values("training", read, _tested)


def _by_epochs(read: Callable[[DataFrame], Series], timed: bool = False) -> Rows:
    """What ``read`` gives by key of epochs in order; ``timed``: of trainings with nothing else running."""

    def values(runs: Runs) -> DataFrame:
        rows = _tested(runs.table("training"))
        if timed:
            alone = rows["together"].fillna(1).eq(1) & rows["threads"].fillna(1).eq(1)
            rows = rows[rows["seed"].isin(plans.TIMED_SEEDS) & alone]
        epochs = runs.table("epochs")
        epochs = epochs[epochs["key"].isin(rows["key"])]
        # what no run has is empty
        epochs = epochs.reindex(columns=recorded_columns("trainings_history"))
        epochs = epochs.sort_values(["key", "epoch"])
        return rows.assign(value=rows["key"].map(read(epochs))).dropna(subset=["value"])

    return values


def _gain_after_saturation(epochs: DataFrame) -> Series:
    """Validation accuracy of the best epoch after the first with `SATURATED` accuracy, minus that one's."""
    late = epochs[(epochs["train_accuracy"] >= SATURATED).groupby(epochs["key"]).cummax()]
    return late.groupby("key")["validation_accuracy"].agg(
        lambda each: each.iloc[1:].max() - each.iloc[0]
    )


def _largest_fall(epochs: DataFrame) -> Series:
    """Points of validation accuracy lost from one epoch to the next, the most of a run."""
    steps = epochs.groupby("key")["validation_accuracy"].diff()
    return (-steps).groupby(epochs["key"]).max().clip(lower=0)


def mean_squared_error(epochs: DataFrame) -> Series:
    """Of teacher forcing, the lowest of all epochs, by run."""
    return epochs.groupby("key")["train_loss"].min()


def mass_left(epochs: DataFrame) -> Series:
    """The attention on states other than the last in the last epoch, nothing dropped, by run."""
    return epochs.sort_values("epoch").groupby("key")["mass_left"].last()


def mass_before_the_end(epochs: DataFrame) -> Series:
    """The same in the last epoch before the factor reaches 1: while it was still of use, by run."""
    return mass_left(epochs[epochs["factor"] < 1])


def cost_of_ending(epochs: DataFrame) -> Series:
    """Points of validation accuracy lost when attention goes, as the factor reaches 1, by run."""
    ordered = epochs.sort_values("epoch")
    before = ordered[ordered["factor"] < 1].groupby("key")["attention_accuracy"].last()
    after = ordered[ordered["factor"] == 1].groupby("key")["validation_accuracy"].first()
    return (before - after).dropna()


def _by_run(
    kind: str, read: Callable[..., float], order: str = "position",
    select: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> Rows:  # fmt: skip
    """One number of each probe run of a kind, which ``read`` gives of its points, in their order."""

    def values(points: DataFrame, **options: Any) -> Series:
        numbers = {key: read(each, **options) for key, each in points.sort_values(order).groupby("key")}
        return points.drop_duplicates("key")["key"].map(numbers)

    return _values(kind, values, select)


def _early(read: Callable[[Any], float], kind: str = "gradients") -> Measure:
    """Of the gradients of the model that one epoch on the first 500 texts leaves (§1.5)."""
    early = {"size": 500, "epochs": 1}
    rows = _by_run(
        kind,
        lambda points: read(points["mean"].to_numpy()),
        select=lambda points: points[has(points, early) & ~points["untrained"].eq(True)],
    )
    return Measure(rows, True, fixed={name: fixed | early for name, fixed in SCALES.items()})


def _middle_to_ends(profile: Any) -> float:
    return float(profile[49:51].mean() / profile[[0, -1]].mean())


def _looks(read: Callable[..., float]) -> Rows:
    """Of what a trace saw while a training went on, in the order in which it looked."""
    return _by_run("trace", read, "examples")


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
        numbers = read(swept.pivot_table("accuracy", place, "added")).rename("value")
        return swept[swept["added"] == "mid"].join(numbers, on=place)["value"]

    return _values("sweep", values, _swept)


def text_span(setting: str, share: float) -> tuple[float, float]:
    """Where the original text begins and ends, as parts of the whole (§1.8.1)."""
    return {
        "standard": (0.0, 1.0),
        "left": (0.0, 1 - share),
        "mid": (share / 2, 1 - share / 2),
        "right": (share, 1.0),
    }[setting]


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which positions of a profile, (points,) bool, lie in the original text."""
    return Series(np.linspace(0, 1, points)).between(*text_span(setting, share)).to_numpy()


def ends_and_middle(profile: Any) -> tuple[float, float]:
    """Mean word importance of both outer tenths together, and of the middle fifth, of (100,) positions."""
    return (profile[:10].mean() + profile[90:].mean()) / 2, profile[40:60].mean()


def _importance(read: Callable[..., float], mixed: bool = False) -> Measure:
    """Word importance, at the thesis's scale on texts as long as in its figures; ``mixed``: among filler,
    where ``read`` is given the profile and which positions are filler."""

    def profiles(points: DataFrame) -> DataFrame:
        points = _looked_at(points[~(mixed & points["setting"].eq("standard"))], WordImportance.texts)
        bins = points["length"].map({"long": 400, "short": 50}).where(points["max_words"].isna())
        given = points["shortest"].astype(float)
        return points[(given == bins) | (given.isna() & bins.isna())]

    def number(points: DataFrame, **options: Any) -> float:
        profile = points["mean"].to_numpy()
        if not mixed:
            return read(profile)
        setting, share = points[["setting", "share"]].iloc[0]
        return float(read(profile, ~where_the_text_stands(setting, share, len(profile)), **options))

    return Measure(_by_run("nwi", number, select=profiles), ratio=True)


def _text_to_filler(profile: Any, filler: Any, minimum: str = "text") -> Any:
    """Algorithm 1 has subtracted each text's own minimum; by the authors' code it is that of the mean."""
    profile = profile - profile.min() if minimum == "curve" else profile
    return profile[~filler].mean() / profile[filler].mean()


def _end_peaks(profile: Any, filler: Any) -> Any:
    ends = np.zeros(len(profile), bool)
    ends[[*range(5), *range(-5, 0)]] = True
    return profile[ends & filler].mean() / profile[filler & ~ends].mean()


def few_shot_scale(rows: DataFrame) -> Series:
    """Of runs with few labels: at the thesis's scale systems start from its encoder, read all texts, as many
    tokens as it did, and take its steps; the compact replication starts from MiniLM."""
    reads = rows["system"].isin(READ_BY_ENCODER)
    bert, mini = (~reads | (rows["encoder"] == name) for name in (DEFAULT_ENCODER, MINILM))
    whole = rows["test"].isna() & (rows["steps"] >= rows["system"].map(STEPS))
    whole &= rows["max_tokens"] >= np.where(rows["system"] == "max_attention", 512, 256)
    return Series(np.select([mini & ~whole, bert & whole], ["compact", "thesis"], "other"), rows.index)


def _few_shot(rows: DataFrame) -> DataFrame:
    return rows.assign(scale=few_shot_scale(rows))[rows["length"] == "any"]


def _tagged(rows: DataFrame) -> DataFrame:
    """Taggers of one layer, trained for as many epochs as the compact settings of their corpus say."""
    rows = rows.assign(
        boundary_share=100 * rows["entities_boundary"] / rows["entities_predicted"],
        accuracy_above_f1=rows["test_accuracy"] - rows["entity_f1"],
        encoding=rows["encoding"].astype(object).fillna("own"),
    )
    wanted = {name: settings["epochs"] for name, settings in plans.SMALL_TAGGERS.items()}
    usual = (rows["layers"] == 1) & rows["filters"].fillna(0).eq(0)
    return rows[(rows["epochs"] == rows["corpus"].map(wanted)) & usual]


# What the last state holds: starts of a BiLSTM without pooling, what their untrained states hold, the ratio
# of gradients on held-out texts while they learn, and what they reach.

EARLY = 3_000  # Texts learnt from: the course of a ratio is judged up to there
FEWEST_STARTS = 14  # That an agreement of ranks is computed over
GATED = tuple(f"forget {v:g}, input {-v:g}" for v in plans.GATES)
STARTS = tuple(variant_of("last", **start) for start in plans.START_OPTIONS)
"""Every start that is compared, as `whenpool.book.results.variant_of` calls it."""
_ALIKE = [*PLAIN, "seed"]  # What runs compared agree in


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
        return _held_out_looks(looks.assign(model=model, shuffled=looks["shuffled"].eq(True)))

    fixed = {name: scale | {"shuffled": False} for name, scale in SCALES.items()}
    return Measure(_by_run("trace", read, "examples", select), ratio=True, fixed=fixed)


def _over_chrono(runs: Runs) -> DataFrame:
    """Of each run the smallest quotient of its ratio and chrono's, with its seed, after as many texts."""
    looks = _early_looks(_held_out_looks(runs.table("trace")))
    same = [*_ALIKE, "size", "examples"]
    chrono = looks[looks["model"] == "chrono"][[*same, "median_ratio", "began"]]
    both = looks.merge(chrono, on=same, suffixes=("", "_of_chrono"))
    least = (both["median_ratio"] / both["median_ratio_of_chrono"]).groupby(both["key"]).min()
    rows = both.drop_duplicates("key")
    return rows.assign(
        value=rows["key"].map(least), began=rows[["began", "began_of_chrono"]].min(axis=1)
    )


def _rank_agreement(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `STARTS` of one seed, of test accuracy with what the untrained last
    state holds ("held"), or with the ratio before training or its lowest ("start_ratio", "lowest_ratio")."""
    trained = _tested(runs.table("training"))
    usual = trained["share"].eq(THESIS_MODEL["share"]) & trained["size"].eq(1_000)
    trained = trained[trained["model"].isin(STARTS) & usual]
    states = runs.table("states").query("readout == 'last'")
    looks = _held_out_looks(runs.table("trace")).sort_values("examples")
    looked, by_key = looks.drop_duplicates("key"), looks.groupby("key")["median_ratio"]
    lowest = _early_looks(looks).groupby("key")["median_ratio"].min()
    predictors = {
        "held": states.assign(predicts=states["accuracy"]),
        "start_ratio": looked.assign(predicts=looked["key"].map(by_key.first())),
        "lowest_ratio": looked.assign(predicts=looked["key"].map(lowest)),
    }
    rows = []
    for predictor, table in predictors.items():
        if table.empty:
            continue
        there = table[[*_ALIKE, "model", "began", "predicts"]]
        both = trained.merge(there, on=[*_ALIKE, "model"], suffixes=("", "_there"))
        for _, group in both.groupby(_ALIKE, dropna=False):
            if group["model"].nunique() >= FEWEST_STARTS:
                ranks = group.drop_duplicates("model")[["predicts", "test_accuracy"]].rank()
                began = min(group["began"].min(), group["began_there"].min())
                row = group.iloc[0].to_dict() | {"model": "last", "began": began, "predictor": predictor}
                rows.append(row | {"value": ranks["predicts"].corr(ranks["test_accuracy"])})
    return DataFrame(rows)


def _reach(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `GATED` starts of one seed, of v with the largest share of filler at
    which a review in the middle is still learnt: at least 10 points above chance."""
    trained = _tested(runs.table("training"))
    mid = has(trained, {"size": 1_000, "setting": "mid"})
    trained = trained[trained["model"].isin(GATED) & mid]
    rows = []
    for _, group in trained.groupby([name for name in _ALIKE if name != "share"], dropna=False):
        above = group[group["test_accuracy"] - group["majority_accuracy"] >= 10]
        learnt = above.groupby("model")["share"].max()
        if group.groupby("model")["share"].nunique().reindex(GATED).eq(len(plans.SHARES) + 1).all():
            ranks = learnt.reindex(GATED).fillna(-1).rank().reset_index(drop=True)
            value = ranks.corr(Series(range(len(GATED)))) if ranks.nunique() > 1 else 0.0
            row = group[group["share"] == THESIS_MODEL["share"]].iloc[0].to_dict()
            rows.append(row | {"model": "last", "began": group["began"].min(), "value": value})
    return DataFrame(rows)


def _by_draw(runs: Runs) -> DataFrame:
    """Test accuracies of trainings on other draws of texts; the draw takes the place of the seed."""
    rows = _tested(runs.table("training"))
    rows = rows[rows["draw"].fillna(0) > 0]
    model = rows["model"].astype(str).str.replace(r",? ?draw \d+$", "", regex=True)
    return rows.assign(value=rows["test_accuracy"], seed=rows["draw"], model=model)


def _highest_mean(runs: Runs) -> DataFrame:
    """In how many % of the cases of Tables 1.3 and 1.4, those with three seeds of all five models, MaxAtt has
    the highest mean: a number over all runs, and one over later seeds alone once they fill every case."""
    trained = _tested(runs.table("training"))
    trained = trained[trained["model"].isin(THESIS_POOLINGS) & trained["masked"].eq(True)]
    case = ["corpus", "length", "setting", "size"]
    cases = published("accuracy").query("table in ('1.3', '1.4')")[case].drop_duplicates()
    trained, rows = trained.merge(cases, on=case), []
    for fixed, later in product(SCALES.values(), (False, True)):
        model = {name: value for name, value in fixed.items() if name not in case}
        some = trained[has(trained, model) & (trained["seed"].ge(plans.SEEDS_FROM) | (not later))]
        some = some.drop_duplicates([*case, "model", "seed"], keep="last")
        cells = some.groupby([*case, "model"])["test_accuracy"].agg(["mean", "count"]).unstack()
        cells = cells[cells["count"].fillna(0).min(axis=1) >= SEEDS_NEEDED] if len(cells) else cells
        if len(cells) == len(cases) or (len(cells) and not later):
            best = cells["mean"].idxmax(axis=1).eq("max_attention").mean()
            row = (
                some.iloc[0].to_dict() | fixed | {"model": "max_attention", "began": some["began"].min()}
            )
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


# The thesis's own numbers.


def _their_accuracy() -> DataFrame:
    """Of all tables of chapter 1; where tricks are compared, first those of Table 2.1."""
    usual = published("accuracy").rename(columns={"pooling": "model"}).assign(n=RUNS_PER_CELL)
    tricks = published("learnability").rename(columns={"method": "model", "accuracy": "mean"})
    tricks = tricks.assign(length="long", std=np.nan, n=1, with_tricks=True)
    rows = pd.concat([tricks, *(usual.assign(with_tricks=either) for either in (True, False))])
    return rows[["corpus", "length", "setting", "size", "model", "with_tricks", "mean", "std", "n"]]


def _their_lead() -> DataFrame:
    rows, largest_class = _their_accuracy(), {"imdb": 50.0, "yelp": 50.0, "yahoo": 12.0, "amazon": 5.0}
    return rows.assign(mean=rows["mean"] - rows["corpus"].map(largest_class))  # in % (§1.8.2)


def _single(file: str, column: str, change: Callable[[Any], Any] = np.asarray, **fixed: Any) -> Any:
    """Reads single numbers from a column of a file of ``data/paper``."""

    def rows() -> DataFrame:
        table = published(file).rename(columns={"pooling": "model"}).assign(std=np.nan, n=1, **fixed)
        if file == "few_shot":
            table = table.rename(columns={"model": "system"})
        table = table[table["source"] == "thesis"] if "source" in table else table
        names = [name for name in ("model", "system", "corpus", "size", *fixed) if name in table]
        return table.assign(mean=change(table[column]))[[*dict.fromkeys(names), "mean", "std", "n"]]

    return rows


_LONG: dict[str, Any] = {"corpus": "imdb", "length": "long", "setting": "standard"}
_FEW = {name: {"corpus": "imdb", "per_class": FewShot.per_class, "scale": name} for name in SCALES}
_TAGGERS = {"bidirectional": True, "encoding": "own", "cell": "lstm", "vectors": VECTORS[0]}
_TAGGERS |= {"hidden_size": Tagging.hidden_size}
_WIDE = {name: PLAIN[name] for name in ("hidden_size", "embedding_size", "layers", "corpus")}
MEASURES: dict[str, Measure] = {
    "accuracy": Measure(_accuracy(lambda rows: rows.test_accuracy), theirs=_their_accuracy),
    "above_chance": Measure(
        _accuracy(lambda rows: rows.test_accuracy - rows.majority_accuracy), theirs=_their_lead
    ),
    "validation_accuracy": Measure(
        _accuracy(lambda rows: rows.validation_accuracy),
        theirs=_single("vanishing", "validation_accuracy", **_LONG),
    ),
    "epoch_seconds": Measure(
        _by_epochs(lambda epochs: epochs.groupby("key")["seconds"].min(), timed=True), ratio=True
    ),
    "gain_after_saturation": Measure(_by_epochs(_gain_after_saturation)),
    "largest_fall": Measure(_by_epochs(_largest_fall)),
    "teacher_error": Measure(_by_epochs(mean_squared_error), ratio=True),
    "attention_left": Measure(_by_epochs(mass_before_the_end), ratio=True),
    "ending_cost": Measure(_by_epochs(cost_of_ending)),
    "early_gradient": _early(lambda profile: float(profile[49:51].mean())),
    "early_middle_to_ends": _early(_middle_to_ends),
    "first_middle_to_ends": _early(_middle_to_ends, "first_steps"),
    "ratio_at_95": Measure(
        _looks(_ratio_at_95), ratio=True, theirs=_single("vanishing", "ratio", np.log, **_LONG)
    ),
    "ratio_after": Measure(_nearest("ratio"), ratio=True),
    "train_accuracy_after": Measure(_nearest("train_accuracy"), most=100.0),
    # A twentieth of the looks are lower; the lowest of all is an extreme that grows with their number.
    "low_ratio": Measure(_looks(lambda looks: looks.ratio.quantile(0.05)), ratio=True),
    "ratio_recovery": Measure(_looks(lambda looks: looks.ratio.iloc[-1] / looks.ratio.iloc[0]), ratio=True),
    "held": Measure(
        _values("states", lambda points: points.accuracy - points.majority_accuracy),
        fixed={name: fixed | {"size": 4_000} for name, fixed in SCALES.items()},
    ),
    "dip": _held_out(lambda looks: _early_looks(looks).median_ratio.min() / looks.median_ratio.iloc[0]),
    "median_recovery": _held_out(lambda looks: looks.median_ratio.iloc[-1] / looks.median_ratio.iloc[0]),
    "ratio_over_chrono": Measure(_over_chrono, ratio=True),
    "rank_agreement": Measure(_rank_agreement, most=1.0),
    "reach": Measure(_reach, most=1.0),
    "accuracy_by_draw": Measure(_by_draw),
    "last_train_accuracy": Measure(
        _by_epochs(lambda epochs: epochs.groupby("key")["train_accuracy"].last()), most=100.0
    ),
    "highest_mean": Measure(_highest_mean, exact=True),
    "swept_accuracy": Measure(_values("sweep", lambda swept: swept.accuracy, _swept)),
    "swept_loss": Measure(_values("sweep", lambda swept: swept.start - swept.accuracy, _swept)),
    "sweep_asymmetry": Measure(_sides(lambda sides: sides.left - sides.right)),
    "both_ends_cost": Measure(_sides(lambda sides: sides[["left", "right"]].min(axis=1) - sides.mid)),
    "direction_gap": Measure(
        _values(
            "probe",
            lambda rows: rows.accuracy_forward - rows.accuracy_backward,
            lambda rows: _looked_at(rows[rows.probe == "directions"], DirectionUse.texts),
        )
    ),
    "ends_to_middle": _importance(lambda profile: np.divide(*ends_and_middle(profile))),
    "text_to_filler": _importance(_text_to_filler, mixed=True),
    "end_peaks": _importance(_end_peaks, mixed=True),
    "few_shot_accuracy": Measure(
        _values("few-shot", lambda rows: rows.test_accuracy, _few_shot), fixed=_FEW,
        theirs=_single("few_shot", "accuracy"),
    ),
    "tagging": Measure(
        _values("tagging", lambda rows, column: rows[column], _tagged), fixed={"compact": _TAGGERS}
    ),
    # Memory depends on shapes alone: one run is enough.
    "memory_exponent": Measure(
        _values(
            "probe",
            lambda rows: rows.exponent.where(rows.longest == 4_000),
            lambda rows: rows[rows.probe == "memory"],
        ),
        fixed={"thesis": _WIDE},
        exact=True,
    ),
    "step_change": Measure(_step_change, fixed={"thesis": {"input_variance": 1.0}}, drawn=True),
    "construction_error": Measure(
        lambda runs: DataFrame([{"seed": 0, "value": constructions.largest_error()}]),
        fixed={"thesis": {}}, drawn=True, exact=True,
    ),
    "parity_reach": Measure(_parity_reach, fixed={"thesis": {}}, drawn=True, exact=True),
}  # fmt: skip
"""Every measure that ``data/paper/claims.yml`` may name."""


def numbers(runs: Runs, measure: str, **options: Any) -> Numbers:
    """All numbers of a measure with its options, read once."""
    name = (measure, *sorted(options.items()))
    if name not in runs.numbers:
        rows = MEASURES[measure].rows(runs, **options)
        runs.numbers[name] = Numbers(rows[[column for column in rows if column in USED]])
    return runs.numbers[name]
