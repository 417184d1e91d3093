"""The numbers that claims are about: of each finished run one, or several with what they were
measured at.

A measure is a column of one of a few tables, which have a row for each number or set of numbers:
the configuration of the run (columns of `paper.runs.store.Store.rows`; ``model`` is what
`paper.verdicts.results.variant_of` calls it), ``seed``, ``key`` and ``began``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from paper import theory
from paper.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from paper.runs import plans
from paper.runs.kinds import KINDS
from paper.runs.kinds.few_shot import CONTRAST, READ_BY_ENCODER, SYSTEMS, FewShot
from paper.runs.kinds.probe import PROBES, SATURATED, DirectionUse, PaddingSweep, WordImportance
from paper.runs.kinds.tagging import Tagging
from paper.runs.kinds.training import TRICKS, Training
from paper.runs.store import recorded_columns
from paper.verdicts.results import (
    PLAIN,
    SCALES,
    THESIS_MODEL,
    Numbers,
    Runs,
    Sample,
    column,
    has,
    note,
    published,
    variant_of,
)
from whenpool.base.errors import check, check_known
from whenpool.corpora.corpus import LENGTHS
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.tokens import VECTORS
from whenpool.models.registry import LISTED, THESIS_POOLINGS

SEEDS_NEEDED = 3  # for a verdict
RUNS_PER_CELL = 5  # Seeds behind each mean and standard deviation of the thesis (§1.4.2)
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in plans.PAPER.items()}
"""The steps that each system with few labels takes at the thesis's scale."""
GATED = tuple(f"forget {v:g}, input {-v:g}" for v in plans.GATES)
STARTS = tuple(variant_of("last", **start) for start in plans.START_OPTIONS)
"""Every start that is compared, as `paper.verdicts.results.variant_of` calls it."""
CHOICES: dict[str, Sequence[str]] = {
    "length": LENGTHS,
    "setting": SETTINGS,
    "model": (*LISTED, *TRICKS, "low", "chrono", "orthogonal", "forget", "input"),
    "system": (*SYSTEMS, *CONTRAST),
}
"""The values of columns that do not take any; a model may have more behind a comma or a space."""
LAMBDA_IN_USE = {name: [None, getattr(Training, name)] for name in ("strength", "divergence")}
"""The strength of gradient-directed training and the divergence that it lowers; other trainings
have none."""
_EARLY = {"size": 500, "epochs": 1}
SEEN = {"thesis": 12_800, "compact": 8_000}  # Texts learnt from: when claims look at a trace


@dataclass(frozen=True)
class Measure:
    """How one number of a run is read."""

    rows: Callable[[Runs], DataFrame]  # gives the table, see the module
    column: str = "value"  # of the numbers in it
    ratio: bool = False  # whether it is one, compared on a log scale
    # what a run has where a claim does not say otherwise, by scale
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: SCALES)
    theirs: Callable[[], DataFrame] | None = None  # the thesis's: what they are of, mean, std and n
    drawn: bool = False  # whether it needs no stored runs
    exact: bool = False  # whether one number is all there is: nothing in it is drawn at random
    most: float | None = None  # the most that it can be, where rules are near to it

    def published(self, selection: Mapping[str, Any]) -> Sample | None:
        """The thesis's own number, from its tables."""
        if self.theirs is None:
            return None
        rows, usual = self.theirs(), self.fixed["thesis"]
        asked = {name: value for name, value in selection.items() if name in rows}
        there = rows[has(rows, asked)][["mean", "std", "n"]]
        if there.empty or any(usual.get(n) != v for n, v in selection.items() if n not in rows):
            return None
        mean, std, n = there.iloc[0]
        return Sample(mean, std, int(n))


def _with(points: DataFrame, numbers: Mapping[str, Series]) -> DataFrame:
    """The first row of each run, with numbers by its key."""
    rows = points.drop_duplicates("key")
    return rows.assign(**{name: rows["key"].map(values) for name, values in numbers.items()})


# Trainings, and their epochs.


def tested(rows: DataFrame) -> DataFrame:
    """Those that were tested on as many texts as their scale says, with the λ that is in use."""
    compact = rows["max_words"].eq(plans.COMPACT["max_words"])
    wanted = rows["corpus"].map(plans.COMPACT_TEST).where(compact)
    other = ~rows["corpus"].isin(plans.THESIS_CORPORA)  # whose scale says nothing
    rows = rows[(rows["test"].isna() & wanted.isna()) | (rows["test"] == wanted) | other]
    return rows[has(rows, LAMBDA_IN_USE)].dropna(subset=["test_accuracy"])


def tested_trainings(runs: Runs) -> DataFrame:
    """A row for each that was."""
    return tested(runs.table("training"))


def trainings(runs: Runs) -> DataFrame:
    """The same, with more numbers."""
    rows, epochs = runs.table(tested_trainings), runs.table("epochs")
    epochs = epochs.reindex(columns=recorded_columns("trainings_history")).sort_values(
        ["key", "epoch"]
    )
    each = epochs.groupby("key")
    late = epochs[(epochs["train_accuracy"] >= SATURATED).groupby(epochs["key"]).cummax()]
    late = late.groupby("key")["validation_accuracy"]
    attending, ended = (
        epochs[some].groupby("key") for some in (epochs.factor < 1, epochs.factor == 1)
    )
    numbers = {
        "last_train_accuracy": each["train_accuracy"].last(),
        "epoch_seconds": each["seconds"].min(),
        # the best after the first epoch with `SATURATED` accuracy, minus that one
        "gain_after_saturation": late.agg(lambda values: values.iloc[1:].max() - values.iloc[0]),
        # points lost from one epoch to the next
        "largest_fall": each["validation_accuracy"].agg(
            lambda values: -min(values.diff().min(), 0)
        ),
        "teacher_error": each["train_loss"].min(),
        # on states other than the last, just before attention goes, and the points that this costs
        "attention_left": attending["mass_left"].last(),
        "ending_cost": attending["attention_accuracy"].last()
        - ended["validation_accuracy"].first(),
    }
    rows = _with(rows, numbers)
    alone = has(rows, {"together": [None, 1], "threads": [None, 1], "seed": [*plans.TIMED_SEEDS]})
    return rows.assign(
        above_chance=rows["test_accuracy"] - rows["majority_accuracy"],
        epoch_seconds=rows["epoch_seconds"].where(alone),  # with nothing else running
    )


def draws(runs: Runs) -> DataFrame:
    """Trainings on other draws of texts; the draw takes the place of the seed."""
    rows = runs.table(tested_trainings)
    rows = rows[rows["draw"].fillna(0) > 0]
    model = rows["model"].astype(str).str.replace(r",? ?draw \d+$", "", regex=True)
    return rows.assign(seed=rows["draw"], model=model)


def _highest_mean(runs: Runs) -> DataFrame:
    """In how many % of the cases of Tables 1.3 and 1.4, those with three seeds of all five models,
    MaxAtt has the highest mean: a number over all runs, and one over later seeds alone once they
    fill every case."""
    trained = runs.table(tested_trainings)
    trained = trained[has(trained, {"model": list(THESIS_POOLINGS), "masked": True})]
    case = ["corpus", "length", "setting", "size"]
    cases = published("accuracy").query("table in ('1.3', '1.4')")[case].drop_duplicates()
    trained, rows = trained.merge(cases, on=case), []
    for fixed, later in product(SCALES.values(), (False, True)):
        model = {name: value for name, value in fixed.items() if name not in case}
        some = trained[has(trained, model) & (trained["seed"].ge(plans.SEEDS_FROM) | (not later))]
        some = some.drop_duplicates([*case, "model", "seed"], keep="last")
        cells = some.groupby([*case, "model"])["test_accuracy"].agg(["mean", "count"]).unstack()
        full = cells[cells["count"].fillna(0).min(axis=1) >= SEEDS_NEEDED] if len(cells) else cells
        if len(full) == len(cases) or (len(full) and not later):
            value = 100 * full["mean"].idxmax(axis=1).eq("max_attention").mean()
            row = {"model": "max_attention", "seed": int(later), "value": value}
            rows.append(some.iloc[0].to_dict() | fixed | row | {"began": some["began"].min()})
    return DataFrame(rows)


# Probes.


def gradients(runs: Runs, kind: str = "gradients") -> DataFrame:
    """Of the model that one epoch on the first 500 texts leaves (§1.5): the norm in the middle,
    also divided by that at the ends."""
    points = runs.table(kind)
    points = points[runs.as_usual(points, _EARLY) & ~points["untrained"].eq(True)]
    wide = points.pivot_table("mean", "key", "position").reindex(columns=range(1, 101))
    middle, ends = wide[[50, 51]].mean(axis=1), wide[[1, 100]].mean(axis=1)
    return _with(points, {"middle": middle, "middle_to_ends": middle / ends})


def traces(runs: Runs) -> DataFrame:
    """What was seen while a training went on, also at the look nearest to a number of texts learnt
    from, the column ``examples``; not where the training ended long before."""
    looks = runs.table("trace").sort_values("examples")
    seen = looks["max_words"].isna().map({True: SEEN["thesis"], False: SEEN["compact"]})
    each, ratios = looks.groupby("key"), looks.groupby("key")["ratio"]
    at_95 = looks[looks["train_accuracy"] >= SATURATED].groupby("key")
    there = each["examples"].transform("max") >= 0.9 * seen  # it looks at each tenth more
    apart = (looks["examples"] - seen).abs()[there].sort_values(kind="stable")
    near = looks.loc[apart.index].groupby("key")
    numbers = {
        "ratio_at_95": at_95["ratio"].first(),
        "band_ratio_at_95": at_95["band_ratio"].first(),
        "ratio_after": near["ratio"].first(),
        "train_accuracy_after": near["train_accuracy"].first(),
        # A twentieth of the looks are lower; the lowest of all is an extreme that grows with their
        # number.
        "low_ratio": ratios.quantile(0.05),
        "ratio_recovery": ratios.last() / ratios.first(),
    }
    return _with(looks.assign(examples=seen), numbers)


def sweeps(runs: Runs) -> DataFrame:
    """A row for each share of filler and place of the text: its accuracy and what that lost. The
    row of the middle also compares left with right, and the lower of these with the middle."""
    points = runs.table("sweep")
    points = points[runs.as_usual(points, {"texts": [None, PaddingSweep.texts]})]
    points = points.assign(
        added=points["setting_added"], share_added=points["share_added"].round(3)
    )
    if points.empty:
        return points
    start = points[points["share_added"] == 0].set_index(["key", "added"])["accuracy"]
    sides = points.pivot_table("accuracy", ["key", "share_added"], "added")
    sides = sides.reindex(columns=["left", "mid", "right"]).assign(added="mid").reset_index()
    sides["asymmetry"] = sides["left"] - sides["right"]
    sides["both_ends_cost"] = sides[["left", "right"]].min(axis=1) - sides["mid"]
    sides = sides.drop(columns=["left", "mid", "right"])
    points = points.merge(sides, "left", ["key", "share_added", "added"])
    points = points.join(start.rename("start"), on=["key", "added"])
    return points.assign(loss=points["start"] - points["accuracy"])


def text_span(setting: str, share: float) -> tuple[float, float]:
    """Where the original text begins and ends, as parts of the whole (§1.8.1)."""
    share = 0.0 if setting == "standard" else share
    start = share * {"mid": 0.5, "right": 1.0}.get(setting, 0.0)
    return start, start + 1 - share


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which positions of a profile, (points,) bool, lie in the original text."""
    return Series(np.linspace(0, 1, points)).between(*text_span(setting, share)).to_numpy()


def ends_and_middle(profile: Any) -> tuple[float, float]:
    """Mean word importance of both outer tenths together, and of the middle fifth, of (100,)
    positions."""
    return (profile[:10].mean() + profile[90:].mean()) / 2, profile[40:60].mean()


def importance(runs: Runs) -> DataFrame:
    """Word importance, at the thesis's scale of texts as long as in its figures."""
    points = runs.table("nwi").sort_values("position")
    bins = points["length"].map({"long": 400, "short": 50}).where(points["max_words"].isna())
    given = points["shortest"].astype(float)
    alike = (given == bins) | (given.isna() & bins.isna())
    points, numbers = (
        points[alike & runs.as_usual(points, {"texts": [None, WordImportance.texts]})],
        {},
    )
    end = np.isin(np.arange(100), [*range(5), *range(95, 100)])
    for key, each in points.groupby("key"):
        profile, (setting, share) = each["mean"].to_numpy(), each[["setting", "share"]].iloc[0]
        numbers[key] = {"ends_to_middle": np.divide(*ends_and_middle(profile))}
        if setting != "standard":
            text = where_the_text_stands(setting, share)
            # Algorithm 1 has subtracted each text's own minimum; by the authors' code it is that of
            # the mean.
            for name, of in (("text_to_filler", profile), ("by_code", profile - profile.min())):
                numbers[key][name] = np.divide(of[text].mean(), max(of[~text].mean(), 1e-300))
            numbers[key]["end_peaks"] = profile[end & ~text].mean() / profile[~text & ~end].mean()
    columns = ["ends_to_middle", "text_to_filler", "by_code", "end_peaks"]
    table = DataFrame.from_dict(numbers, "index", columns=columns)
    return _with(points, dict(table.items()))


def faithful(runs: Runs) -> DataFrame:
    """By method, what the words that matter most are to a prediction: in points of its
    probability."""
    rows = runs.table("faithfulness")
    names = ("confidence", "without", "kept")
    confidence, without, kept = (100 * column(rows, name).astype(float) for name in names)
    return rows.assign(comprehensiveness=confidence - without, sufficiency=kept)


def probes(runs: Runs) -> DataFrame:
    """What each direction is used for, and how memory grows."""
    rows = runs.table("probe")
    used = rows["probe"].eq("directions")
    used &= runs.as_usual(rows, {"texts": [None, DirectionUse.texts]})
    grown = rows["probe"].eq("memory") & runs.as_usual(rows, {"longest": 4_000})
    gap = (rows["accuracy_forward"] - rows["accuracy_backward"]).where(used)
    return rows.assign(direction_gap=gap, memory_exponent=rows["exponent"].where(grown))


# Few labels, and tagging.


def few_shot_scale(rows: DataFrame) -> Series:
    """Of runs with few labels: at the thesis's scale systems start from its encoder, read all
    texts, as many tokens as it did, and take its steps; the compact replication starts from
    MiniLM."""
    reads = rows["system"].isin(READ_BY_ENCODER)
    bert, mini = (~reads | (rows["encoder"] == name) for name in (DEFAULT_ENCODER, MINILM))
    whole = rows["test"].isna() & (rows["steps"] >= rows["system"].map(STEPS))
    whole &= rows["max_tokens"] >= np.where(rows["system"] == "max_attention", 512, 256)
    return Series(
        np.select([mini & ~whole, bert & whole], ["compact", "thesis"], "other"), rows.index
    )


def few_labels(runs: Runs) -> DataFrame:
    """Of texts of any length."""
    rows = runs.table("few-shot")
    return rows.assign(scale=few_shot_scale(rows))[rows["length"] == "any"]


def taggers(runs: Runs) -> DataFrame:
    """Taggers of one layer, trained for as many epochs as the compact settings of their corpus
    say."""
    rows = runs.table("tagging")
    wanted = {name: settings["epochs"] for name, settings in plans.SMALL_TAGGERS.items()}
    usual = rows["epochs"].eq(rows["corpus"].map(wanted))
    usual &= has(rows, {"layers": 1, "filters": [None, 0]})
    return rows[usual].assign(
        boundary_share=100 * rows["entities_boundary"] / rows["entities_predicted"],
        accuracy_above_f1=rows["test_accuracy"] - rows["entity_f1"],
        encoding=rows["encoding"].astype(object).fillna("own"),
    )


# What the last state holds: starts of a BiLSTM without pooling, what their untrained states hold,
# the ratio of gradients on held-out texts while they learn, and what they reach.

EARLY = 3_000  # Texts learnt from: the course of a ratio is judged up to there
HELD = {
    "readout": "last",
    "size": 4_000,
}  # What the last state holds, unless fewer texts are asked for
FEWEST_STARTS = 14  # That an agreement is computed over
LEARNS = 60.0  # The test accuracy in %, of two classes, from which on a start has learnt
_ALIKE = [*PLAIN, "seed"]  # What runs compared agree in


def states(runs: Runs) -> DataFrame:
    """What untrained states hold."""
    rows = runs.table("states")
    return rows.assign(value=rows["accuracy"] - rows["majority_accuracy"])


def states_after(runs: Runs) -> DataFrame:
    """What states hold at the last look of a training."""
    looks = runs.table("states_course")
    if looks.empty:
        return looks
    last = looks[looks["examples"].eq(looks.groupby("key")["examples"].transform("max"))]
    return last.assign(value=last["accuracy"] - last["majority_accuracy"])


def _held_out_looks(looks: DataFrame) -> DataFrame:
    """Those at held-out texts; a ratio that float32 rounds to 0 counts as its smallest number.
    Whether labels were shuffled is a column of its own."""
    looks = looks[looks["median_ratio"].notna()]
    return looks.assign(
        median_ratio=looks["median_ratio"].clip(lower=np.finfo(np.float32).tiny),
        model=looks["model"].astype(str).str.replace(", shuffled labels", ""),
        shuffled=looks["shuffled"].eq(True),
    )


def held_out(runs: Runs) -> DataFrame:
    """The lowest of the first ratios at held-out texts, and the last, each divided by the first."""
    looks = _held_out_looks(runs.table("trace")).sort_values("examples")
    ratios = looks.groupby("key")["median_ratio"]
    early = looks[looks["examples"] <= EARLY].groupby("key")["median_ratio"]
    first = ratios.first()
    return _with(looks, {"dip": early.min() / first, "median_recovery": ratios.last() / first})


def _over_chrono(runs: Runs) -> DataFrame:
    """Of each run the smallest quotient of its ratio and chrono's, with its seed, after as many
    texts."""
    looks, same = _held_out_looks(runs.table("trace")), [*_ALIKE, "size", "examples"]
    looks = looks[~looks["shuffled"] & looks["examples"].le(EARLY)]
    chrono = looks[looks["model"] == "chrono"][[*same, "median_ratio", "began"]]
    both = looks.merge(chrono, on=same, suffixes=("", "_of_chrono"))
    both["value"] = both["median_ratio"] / both["median_ratio_of_chrono"]
    both["began"] = both[["began", "began_of_chrono"]].min(axis=1)
    return both.sort_values("value").drop_duplicates("key").sort_index()


def _over_memory(runs: Runs) -> DataFrame:
    """Test accuracy minus that of a logistic regression on the untrained last states of as many
    texts."""
    trained, read = runs.table(tested_trainings), runs.table("states")
    if trained.empty or read.empty:
        return DataFrame()
    same = [*_ALIKE, "size", "model"]
    read = read.loc[read["readout"] == "last", [*same, "accuracy", "began"]]
    both = trained.merge(read, on=same, suffixes=("", "_there"))
    both["value"] = both["test_accuracy"] - both["accuracy"]
    return both.assign(began=both[["began", "began_there"]].min(axis=1))


def _agreement(one: Series, other: Series) -> float:
    """Spearman's correlation; 0 where one of them is the same throughout."""
    return float(one.corr(other, "spearman")) if one.nunique() > 1 < other.nunique() else 0.0


def _auc(one: Series, accuracy: Series) -> float:
    """The area under the ROC curve of one number for learning, `LEARNS`; NaN where all do or
    none."""
    learns = accuracy >= LEARNS
    return float(_wins(one, learns).mean()) if learns.any() and not learns.all() else np.nan


def _wins(one: Series, learns: Series) -> Any:
    """Whether the number of each that learns is above that of each that does not, (P, N); 1/2 of
    equals."""
    apart = one[learns].to_numpy()[:, None] - one[~learns].to_numpy()
    return (np.sign(apart) + 1) / 2


def auc_by_bootstrap(
    learns: Series, one: Series, other: Series | None = None, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """The area under the ROC curve of one number of each start for whether it learns, or by how
    much it is larger than that of another, and its 95 % interval: as many starts are drawn again
    from those that learn, and from those that do not. Raises `InputError` unless there are some of
    both.

    Examples:
        >>> learns = Series([True, True, False, False])
        >>> auc_by_bootstrap(learns, Series([4, 3, 2, 1]), Series([1, 2, 3, 4]))
        (1.0, 1.0, 1.0)
    """
    learns = learns.astype(bool)
    check(
        learns.any() and not learns.all(), "an AUC needs starts that learn and starts that do not"
    )
    wins = _wins(one, learns) - (0 if other is None else _wins(other, learns))  # (P, N)
    rng, drawn = np.random.default_rng(seed), list[Any]()
    for count in wins.shape:  # how often each is drawn, (resamples, P or N)
        drawn.append(rng.multinomial(count, np.full(count, 1 / count), size=resamples) / count)
    values = ((drawn[0] @ wins) * drawn[1]).sum(1)
    low, high = np.quantile(values, [0.025, 0.975])
    return float(wins.mean()), float(low), float(high)


def _of_starts(runs: Runs, judged: Callable[[Series, Series], float]) -> DataFrame:
    """How well, over the `STARTS` of one seed, test accuracy is predicted by what the untrained
    last state holds ("held"), and by the ratio before training or its lowest ("start_ratio",
    "lowest_ratio")."""
    trained = runs.table(tested_trainings)
    usual = {"share": THESIS_MODEL["share"], "size": 1_000, "model": list(STARTS)}
    trained = trained[has(trained, usual)]
    states, looks = runs.table("states"), _held_out_looks(runs.table("trace"))
    looks = looks[~looks["shuffled"] & looks["examples"].le(EARLY)]
    predictors = {
        "held": states[has(states, HELD)].assign(predicts=states["accuracy"]),
        "start_ratio": looks.assign(predicts=looks["median_ratio"]).sort_values("examples"),
        "lowest_ratio": looks.assign(predicts=looks["median_ratio"]).sort_values("median_ratio"),
    }
    rows = []
    for predictor, table in predictors.items():
        if table.empty:
            continue
        there = table.drop_duplicates("key")[[*_ALIKE, "model", "began", "predicts"]]
        both = trained.merge(there, on=[*_ALIKE, "model"], suffixes=("", "_there"))
        for _, group in both.groupby(_ALIKE, dropna=False):
            if group["model"].nunique() >= FEWEST_STARTS:
                one = group.drop_duplicates("model")
                value = judged(one["predicts"], one["test_accuracy"])
                began = group[["began", "began_there"]].min(axis=None)
                row = {"model": "last", "began": began, "predictor": predictor, "value": value}
                rows.append(group.iloc[0].to_dict() | row)
    return DataFrame(rows)


def _reach(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `GATED` starts of one seed, of v with the largest share of
    filler at which a review in the middle is still learnt: at least 10 points above chance."""
    trained = runs.table(tested_trainings)
    trained = trained[has(trained, {"size": 1_000, "setting": "mid", "model": list(GATED)})]
    above = trained["test_accuracy"] - trained["majority_accuracy"]
    trained["learnt"] = trained["share"].where(above >= 10)
    rows = []
    for _, group in trained.groupby([name for name in _ALIKE if name != "share"], dropna=False):
        starts = group.groupby("model")["share"].nunique().reindex(GATED)
        if starts.eq(len(plans.SHARES) + 1).all():
            learnt = group.groupby("model")["learnt"].max().reindex(GATED).fillna(-1)
            value = _agreement(learnt.reset_index(drop=True), Series(range(len(GATED))))
            row = group[group["share"] == THESIS_MODEL["share"]].iloc[0].to_dict()
            rows.append(row | {"model": "last", "began": group["began"].min(), "value": value})
    return DataFrame(rows)


# Theory, which needs no stored runs: networks are drawn, built or searched.


def _step_changes(_: Runs) -> DataFrame:
    """By how many % the gradient norm changes with each step from the last state, before
    training."""
    drawn = [(name, 128, 1.0, 10, 30) for name in theory.MODELS]
    drawn += [("LSTM, forget bias 1", 256, variance, 20, 50) for variance in (1.0, 0.01)]
    names = ["network", "hidden_size", "input_variance", "first", "last", "seed", "value"]
    changes = ((*each, *pair) for each in drawn for pair in enumerate(theory.step_changes(*each)))
    return DataFrame(changes, columns=names)


def _one(value: Callable[[], float]) -> Measure:
    """What is built or searched."""
    rows = lambda _: DataFrame([{"seed": 0, "value": value()}])  # noqa: E731
    return Measure(rows, fixed={"thesis": {"seed": 0}}, drawn=True, exact=True)


def _parity_reach() -> float:
    """On how many of the texts 1, 11, 111, … the last value of the best machine gives the parity,
    over the number for the best max-pooled machine; the least of units with two, three and four
    values."""
    reach = [theory.longest_parity_of_machines(6, 1, values) for values in (2, 3, 4)]
    return min(last / pooled for pooled, last in reach)


# The thesis's own numbers.


@lru_cache
def _their_accuracy(first: str = "chapter 1") -> DataFrame:
    """Of all tables of chapter 1, and of Table 2.1, which has other numbers for MaxPool than Table
    1.6."""
    usual = published("accuracy").rename(columns={"pooling": "model"}).assign(n=RUNS_PER_CELL)
    tricks = published("learnability").rename(columns={"method": "model", "accuracy": "mean"})
    tricks = tricks.assign(length="long", std=np.nan, n=1)
    return pd.concat([usual, tricks] if first == "chapter 1" else [tricks, usual])


@lru_cache
def _their_lead() -> DataFrame:
    rows, largest_class = (
        _their_accuracy(),
        {"imdb": 50.0, "yelp": 50.0, "yahoo": 12.0, "amazon": 5.0},
    )
    return rows.assign(mean=rows["mean"] - rows["corpus"].map(largest_class))  # in % (§1.8.2)


@lru_cache
def _single(file: str, column: str, ratio: bool = False) -> DataFrame:
    """Single numbers from a column of a file of ``data/paper``, with the names that columns of runs
    have."""
    table = published(file).rename(columns={"pooling": "model", "model": "system"})
    table = table[table["source"] == "thesis"] if "source" in table else table
    return table.assign(mean=np.log(table[column]) if ratio else table[column], std=np.nan, n=1)


_their_ratio = partial(_single, "vanishing", "ratio", ratio=True)
_FEW = {name: {"corpus": "imdb", "per_class": FewShot.per_class, "scale": name} for name in SCALES}
_TAGGERS = {"bidirectional": True, "encoding": "own", "cell": "lstm", "vectors": VECTORS[0]}
_TAGGERS |= {"hidden_size": Tagging.hidden_size}
_TAGGED = (
    "test_accuracy entity_f1 boundary_share accuracy_above_f1 gradient_evenness gradient_reach"
)
_WIDE = {name: PLAIN[name] for name in ("hidden_size", "embedding_size", "layers", "corpus")}


def _fixed(**more: Any) -> dict[str, Any]:
    return {name: scale | more for name, scale in SCALES.items()}


MEASURES: dict[str, Measure] = {
    "accuracy": Measure(trainings, "test_accuracy", theirs=_their_accuracy),
    "trick_accuracy": Measure(
        trainings, "test_accuracy", theirs=partial(_their_accuracy, "Table 2.1")
    ),
    "above_chance": Measure(trainings, "above_chance", theirs=_their_lead),
    "validation_accuracy": Measure(
        trainings,
        "validation_accuracy",
        theirs=partial(_single, "vanishing", "validation_accuracy"),
    ),
    "accuracy_by_draw": Measure(draws, "test_accuracy"),
    "highest_mean": Measure(_highest_mean, exact=True),
    "epoch_seconds": Measure(trainings, "epoch_seconds", ratio=True),
    "last_train_accuracy": Measure(trainings, "last_train_accuracy", most=100.0),
    "gain_after_saturation": Measure(trainings, "gain_after_saturation"),
    "largest_fall": Measure(trainings, "largest_fall"),
    "teacher_error": Measure(trainings, "teacher_error", ratio=True),
    "attention_left": Measure(trainings, "attention_left", ratio=True),
    "ending_cost": Measure(trainings, "ending_cost"),
    "early_gradient": Measure(gradients, "middle", True, _fixed(**_EARLY)),
    "early_middle_to_ends": Measure(gradients, "middle_to_ends", True, _fixed(**_EARLY)),
    "first_middle_to_ends": Measure(
        partial(gradients, kind="first_steps"), "middle_to_ends", True, _fixed(**_EARLY)
    ),
    "ratio_at_95": Measure(traces, "ratio_at_95", True, theirs=_their_ratio),
    "band_ratio_at_95": Measure(traces, "band_ratio_at_95", True, theirs=_their_ratio),
    "ratio_after": Measure(traces, "ratio_after", True),
    "train_accuracy_after": Measure(traces, "train_accuracy_after", most=100.0),
    "low_ratio": Measure(traces, "low_ratio", True),
    "ratio_recovery": Measure(traces, "ratio_recovery", True),
    "held": Measure(states, fixed=_fixed(size=HELD["size"])),
    "held_after": Measure(states_after),
    "over_memory": Measure(_over_memory),
    "dip": Measure(held_out, "dip", True, _fixed(shuffled=False)),
    "median_recovery": Measure(held_out, "median_recovery", True, _fixed(shuffled=False)),
    "ratio_over_chrono": Measure(_over_chrono, ratio=True),
    "rank_agreement": Measure(partial(_of_starts, judged=_agreement), most=1.0),
    "learning_auc": Measure(partial(_of_starts, judged=_auc), most=1.0),
    "reach": Measure(_reach, most=1.0),
    "swept_accuracy": Measure(sweeps, "accuracy"),
    "swept_loss": Measure(sweeps, "loss"),
    "sweep_asymmetry": Measure(sweeps, "asymmetry"),
    "both_ends_cost": Measure(sweeps, "both_ends_cost"),
    "direction_gap": Measure(probes, "direction_gap"),
    "ends_to_middle": Measure(importance, "ends_to_middle", True),
    "text_to_filler": Measure(importance, "text_to_filler", True),
    "text_to_filler_by_code": Measure(importance, "by_code", True),
    "end_peaks": Measure(importance, "end_peaks", True),
    "comprehensiveness": Measure(faithful, "comprehensiveness"),
    "sufficiency": Measure(faithful, "sufficiency"),
    "rank_agreement_with_nwi": Measure(faithful, "agreement", most=1.0),
    "seconds_of_importance": Measure(faithful, "seconds", ratio=True),
    "few_shot_accuracy": Measure(
        few_labels, "test_accuracy", fixed=_FEW, theirs=partial(_single, "few_shot", "accuracy")
    ),
    **{
        f"tagging_{name}": Measure(taggers, name, fixed={"compact": _TAGGERS})
        for name in _TAGGED.split()
    },
    # Memory depends on shapes alone: one run is enough.
    "memory_exponent": Measure(probes, "memory_exponent", fixed={"thesis": _WIDE}, exact=True),
    "step_change": Measure(
        _step_changes, fixed={"thesis": {"input_variance": 1.0, "hidden_size": 128}}, drawn=True
    ),
    "construction_error": _one(theory.largest_error),
    "parity_reach": _one(_parity_reach),
}
"""Every measure that ``data/paper/claims.yml`` may name."""


def numbers(runs: Runs, measure: str) -> Numbers:
    """All numbers of a measure, read once."""
    if measure not in runs.numbers:
        about = MEASURES[measure]
        rows = runs.table(about.rows)
        if len(rows):
            rows = rows.assign(value=rows[about.column]).dropna(subset=["value"])
        runs.numbers[measure] = Numbers(rows)
    return runs.numbers[measure]


def results(
    runs: Runs, what: str, scale: str | Sequence[str] | None = None, **selection: Any
) -> DataFrame:
    """The numbers of a measure, or the rows of a `Runs.table`, whose columns have the values of a
    scale, or of one of several, and of ``selection``, see `paper.verdicts.results.has`. It
    remembers the question, see `note`. Raises `InputError` for what there is not, naming those
    there are."""
    check_known("measure or kind", what, (*MEASURES, *KINDS, *PROBES))
    scales = MEASURES[what].fixed if what in MEASURES else SCALES
    rows = numbers(runs, what).rows if what in MEASURES else runs.table(what)
    for name, value in selection.items():
        check_known("column", name, sorted(rows) or [name])
        for choice in value if isinstance(value, list | tuple) else [value]:
            if name in CHOICES and isinstance(choice, str):
                check_known(name, re.split("[, ]", choice)[0], CHOICES[name])
    given = {name: value for name, value in selection.items() if name in rows}
    chosen = Series(not scale, index=rows.index, dtype=bool)
    for name in [scale] if isinstance(scale, str) else scale or ():
        check_known("scale", name, scales)
        fixed = {k: v for k, v in scales[name].items() if k in rows and k not in selection}
        chosen |= has(rows, fixed)
    rows = rows[chosen & has(rows, given)]
    note([what, scale, selection], rows.get("key", ()))
    return rows
