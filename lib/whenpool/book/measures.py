"""The numbers that claims are about: of each finished run one, or several with what they were measured at.

A measure is a table with a row for each number: the configuration of its run (columns of
`whenpool.runs.store.Store.rows`; ``model`` is what `whenpool.runs.kinds.training.variant_of` calls it),
``value``, ``seed``, ``key``, ``began``, and ``validation_accuracy`` where there is one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame, Series

from whenpool.base.errors import check_known
from whenpool.book.results import (
    PLAIN,
    SCALES,
    THESIS_MODEL,
    Numbers,
    Runs,
    Sample,
    has,
    note,
    published,
)
from whenpool.corpora.corpus import LENGTHS
from whenpool.corpora.settings import SETTINGS
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.models.registry import LISTED, THESIS_POOLINGS
from whenpool.runs import plans
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.few_shot import CONTRAST, READ_BY_ENCODER, SYSTEMS, FewShot
from whenpool.runs.kinds.probe import PROBES, SATURATED, DirectionUse, PaddingSweep, WordImportance
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import TRICKS, Training, variant_of
from whenpool.runs.run import VECTORS
from whenpool.theory import constructions, lattice, shrinkage

SEEDS_NEEDED = 3  # for a verdict
RUNS_PER_CELL = 5  # Seeds behind each mean and standard deviation of the thesis (§1.4.2)
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in plans.PAPER.items()}
"""The steps that each system with few labels takes at the thesis's scale."""
GATED = tuple(f"forget {v:g}, input {-v:g}" for v in plans.GATES)
STARTS = tuple(variant_of("last", **start) for start in plans.START_OPTIONS)
"""Every start that is compared, as `whenpool.runs.kinds.training.variant_of` calls it."""
_STARTS = [variant_of("last", **start) for start in (*plans.OTHER_STARTS, *plans.START_OPTIONS)]
CHOICES: dict[str, Sequence[str]] = {
    "length": LENGTHS,
    "setting": SETTINGS,
    "model": (*LISTED, *TRICKS, "low", *(start.split(", ")[0] for start in _STARTS)),
    "system": (*SYSTEMS, *CONTRAST),
}
"""The values of columns that do not take any; a model may have more behind a comma."""
Read = Callable[[DataFrame], Any]


@dataclass(frozen=True)
class Measure:
    """How one number of a run is read."""

    rows: Callable[[Runs], DataFrame]  # gives the table of all numbers, see the module
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
        usual = self.fixed["thesis"]
        numbers = _usual_beside(self.theirs, tuple(usual.items()))
        for place in numbers.places({**usual, **selection}):
            mean, std, n = numbers.rows[["mean", "std", "n"]].iloc[place]
            return Sample(mean, std, int(n))
        return None


@lru_cache
def _usual_beside(theirs: Callable[[], DataFrame], usual: tuple[tuple[str, Any], ...]) -> Numbers:
    """The thesis's numbers, with what is usual of its models beside."""
    rows = theirs()
    return Numbers(rows.assign(**{name: value for name, value in usual if name not in rows}))


def _measure(table: str, read: str | Read, select: Read = lambda rows: rows, **more: Any) -> Measure:
    """Of the selected rows of a `Runs.table`; ``read`` gives their values, or is an expression of columns."""

    def values(runs: Runs) -> DataFrame:
        rows = select(runs.table(table))
        if rows.empty:
            return rows
        value = rows.eval(read) if isinstance(read, str) else read(rows)
        return rows.assign(value=value).dropna(subset=["value"])

    return Measure(values, **more)


def _each(read: Callable[[DataFrame], float], order: str = "position") -> Read:
    """One number of each run, which ``read`` gives of its points, in their order; for the first of these."""

    def numbers(points: DataFrame) -> Series:
        runs = points.sort_values(order).groupby("key")
        return points.drop_duplicates("key")["key"].map({key: read(each) for key, each in runs})

    return numbers


def tested(rows: DataFrame) -> DataFrame:
    """Those that were tested on as many texts as their scale says, with the λ that is in use."""
    compact = rows["max_words"].eq(plans.COMPACT["max_words"])
    wanted = rows["corpus"].map(plans.COMPACT_TEST).where(compact)
    rows = rows[(rows["test"].isna() & wanted.isna()) | (rows["test"] == wanted)]
    for name in ("strength", "divergence"):
        rows = rows[rows[name].isna() | rows[name].eq(getattr(Training, name))]
    return rows.dropna(subset=["test_accuracy"])


_accuracy = partial(_measure, "training", select=tested)


def _timed(rows: DataFrame) -> DataFrame:
    """Trainings with nothing else running."""
    alone = rows["together"].fillna(1).eq(1) & rows["threads"].fillna(1).eq(1)
    return tested(rows[rows["seed"].isin(plans.TIMED_SEEDS) & alone])


def _by_epochs(read: Read, select: Read = tested, **more: Any) -> Measure:
    """What ``read`` gives by key of epochs in order."""

    def values(runs: Runs) -> DataFrame:
        rows, epochs = select(runs.table("training")), runs.table("epochs")
        epochs = epochs[epochs["key"].isin(rows["key"])]
        # what no run has is empty
        epochs = epochs.reindex(columns=["key", *Training.points.split()]).sort_values(["key", "epoch"])
        return rows.assign(value=rows["key"].map(read(epochs))).dropna(subset=["value"])

    return Measure(values, **more)


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


def _early(read: Callable[[Any], float], kind: str = "gradients") -> Measure:
    """Of the gradients of the model that one epoch on the first 500 texts leaves (§1.5)."""
    early = {"size": 500, "epochs": 1}
    return _measure(
        kind,
        _each(lambda points: read(points["mean"].to_numpy())),
        lambda points: points[has(points, early) & ~points["untrained"].eq(True)],
        ratio=True,
        fixed={name: fixed | early for name, fixed in SCALES.items()},
    )


def _middle_to_ends(profile: Any) -> float:
    return float(profile[49:51].mean() / profile[[0, -1]].mean())


def _looks(read: Callable[[Any], float], **more: Any) -> Measure:
    """Of what a trace saw while a training went on, in the order in which it looked."""
    return _measure("trace", _each(read, "examples"), **more)


def _at_95(column: str) -> Callable[[DataFrame], float]:
    """At the first look at which the training has saturated."""
    return lambda looks: looks[column][looks["train_accuracy"] >= SATURATED].head(1).mean()


def _after(column: str, **more: Any) -> Measure:
    """At the look nearest to a number of texts learnt from, ``examples``; none where the training ended long
    before: it looks whenever the number has grown by a tenth."""

    def rows(runs: Runs, seen: int) -> DataFrame:
        def read(looks: DataFrame) -> float:
            nearest = looks.loc[(looks["examples"] - seen).abs().idxmin(), column]
            return float(nearest) if looks["examples"].max() >= 0.9 * seen else np.nan

        return _looks(read).rows(runs).assign(examples=seen)

    return Measure(lambda runs: pd.concat(rows(runs, seen) for seen in (12_800, 8_000)), **more)


def _swept(points: DataFrame) -> DataFrame:
    """A row for each share of filler and place of the text: its accuracy, and that without filler."""
    points = points[points["texts"].fillna(PaddingSweep.texts).eq(PaddingSweep.texts)]
    points = points.assign(added=points["setting_added"], share_added=points["share_added"].round(3))
    start = points[points["share_added"] == 0].set_index(["key", "added"])["accuracy"]
    return points.join(start.rename("start"), on=["key", "added"])


_sweep = partial(_measure, "sweep", select=_swept)


def _sides(read: Read) -> Measure:
    """Of one model at one share of filler: what its accuracies with the text left, mid and right give."""

    def values(swept: DataFrame) -> Series:
        place = ["key", "share_added"]
        numbers = read(swept.pivot_table("accuracy", place, "added")).rename("value")
        return swept[swept["added"] == "mid"].join(numbers, on=place)["value"]

    return _sweep(values)


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
        usual = points["texts"].fillna(WordImportance.texts).eq(WordImportance.texts)
        points = points[usual & ~(mixed & points["setting"].eq("standard"))]
        bins = points["length"].map({"long": 400, "short": 50}).where(points["max_words"].isna())
        given = points["shortest"].astype(float)
        return points[(given == bins) | (given.isna() & bins.isna())]

    def number(points: DataFrame) -> float:
        profile = points["mean"].to_numpy()
        if not mixed:
            return read(profile)
        setting, share = points[["setting", "share"]].iloc[0]
        return float(read(profile, ~where_the_text_stands(setting, share, len(profile))))

    return _measure("nwi", _each(number), profiles, ratio=True)


def _text_to_filler(profile: Any, filler: Any) -> Any:
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
_ALIKE = [*PLAIN, "seed"]  # What runs compared agree in


def _held_out_looks(looks: DataFrame) -> DataFrame:
    """Those at held-out texts; a ratio that float32 rounds to 0 counts as its smallest number. Whether labels
    were shuffled is a column of its own."""
    looks = looks[looks["median_ratio"].notna()]
    return looks.assign(
        median_ratio=looks["median_ratio"].clip(lower=np.finfo(np.float32).tiny),
        model=looks["model"].astype(str).str.replace(", shuffled labels", ""),
        shuffled=looks["shuffled"].eq(True),
    )


def _held_out(read: Callable[[Series], float]) -> Measure:
    """Of the ratios at held-out texts, by ``examples`` learnt from."""
    fixed = {name: scale | {"shuffled": False} for name, scale in SCALES.items()}
    by_examples = lambda looks: read(looks.set_index("examples")["median_ratio"])  # noqa: E731
    return _looks(by_examples, select=_held_out_looks, ratio=True, fixed=fixed)


def _over_chrono(runs: Runs) -> DataFrame:
    """Of each run the smallest quotient of its ratio and chrono's, with its seed, after as many texts."""
    looks, same = _held_out_looks(runs.table("trace")), [*_ALIKE, "size", "examples"]
    looks = looks[~looks["shuffled"] & looks["examples"].le(EARLY)]
    chrono = looks[looks["model"] == "chrono"][[*same, "median_ratio", "began"]]
    both = looks.merge(chrono, on=same, suffixes=("", "_of_chrono"))
    both["value"] = both["median_ratio"] / both["median_ratio_of_chrono"]
    both["began"] = both[["began", "began_of_chrono"]].min(axis=1)
    return both.sort_values("value").drop_duplicates("key").sort_index()


def _rank_agreement(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `STARTS` of one seed, of test accuracy with what the untrained last
    state holds ("held"), or with the ratio before training or its lowest ("start_ratio", "lowest_ratio")."""
    trained = tested(runs.table("training"))
    usual = {"share": THESIS_MODEL["share"], "size": 1_000, "model": list(STARTS)}
    trained = trained[has(trained, usual)]
    states, looks = runs.table("states"), _held_out_looks(runs.table("trace"))
    looks = looks[~looks["shuffled"] & looks["examples"].le(EARLY)]
    predictors = {
        "held": states[states["readout"] == "last"].assign(predicts=states["accuracy"]),
        "start_ratio": looks.assign(predicts=looks["median_ratio"]).sort_values("examples"),
        "lowest_ratio": looks.assign(predicts=looks["median_ratio"]).sort_values("median_ratio"),
    }
    rows = []
    for predictor, table in predictors.items():
        there = table.drop_duplicates("key")[[*_ALIKE, "model", "began", "predicts"]]
        both = trained.merge(there, on=[*_ALIKE, "model"], suffixes=("", "_there"))
        for _, group in both.groupby(_ALIKE, dropna=False):
            if group["model"].nunique() >= FEWEST_STARTS:
                one = group.drop_duplicates("model")
                value = one["predicts"].corr(one["test_accuracy"], "spearman")
                began = group[["began", "began_there"]].min(axis=None)
                row = {"model": "last", "began": began, "predictor": predictor, "value": value}
                rows.append(group.iloc[0].to_dict() | row)
    return DataFrame(rows)


def _reach(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `GATED` starts of one seed, of v with the largest share of filler at
    which a review in the middle is still learnt: at least 10 points above chance."""
    trained = tested(runs.table("training"))
    trained = trained[has(trained, {"size": 1_000, "setting": "mid", "model": list(GATED)})]
    trained["learnt"] = trained["share"].where(
        trained["test_accuracy"] - trained["majority_accuracy"] >= 10
    )
    rows = []
    for _, group in trained.groupby([name for name in _ALIKE if name != "share"], dropna=False):
        starts = group.groupby("model")["share"].nunique().reindex(GATED)
        if starts.eq(len(plans.SHARES) + 1).all():
            learnt = group.groupby("model")["learnt"].max().reindex(GATED).fillna(-1)
            value = learnt.reset_index(drop=True).corr(Series(range(len(GATED))), "spearman")
            row = group[group["share"] == THESIS_MODEL["share"]].iloc[0].to_dict()
            value = 0.0 if np.isnan(value) else value
            rows.append(row | {"model": "last", "began": group["began"].min(), "value": value})
    return DataFrame(rows)


def _draws(rows: DataFrame) -> DataFrame:
    """Trainings on other draws of texts; the draw takes the place of the seed."""
    rows = tested(rows)
    rows = rows[rows["draw"].fillna(0) > 0]
    model = rows["model"].astype(str).str.replace(r",? ?draw \d+$", "", regex=True)
    return rows.assign(seed=rows["draw"], model=model)


def _highest_mean(runs: Runs) -> DataFrame:
    """In how many % of the cases of Tables 1.3 and 1.4, those with three seeds of all five models, MaxAtt has
    the highest mean: a number over all runs, and one over later seeds alone once they fill every case."""
    trained = tested(runs.table("training"))
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


# Theory, which needs no stored runs: networks are drawn, built or searched.


def _step_changes(_: Runs) -> DataFrame:
    """By how many % the gradient norm changes with each step from the last state, before training."""
    drawn = [(name, 128, 1.0, 10, 30) for name in shrinkage.MODELS]
    drawn += [("LSTM, forget bias 1", 256, variance, 20, 50) for variance in (1.0, 0.01)]
    names = ["network", "hidden_size", "input_variance", "first", "last", "seed", "value"]
    changes = ((*each, *pair) for each in drawn for pair in enumerate(shrinkage.step_changes(*each)))
    return DataFrame(changes, columns=names)


def _exact(value: Callable[[], float]) -> Measure:
    """What is built or searched, one number."""
    rows = lambda _: DataFrame([{"seed": 0, "value": value()}])  # noqa: E731
    return Measure(rows, fixed={"thesis": {"seed": 0}}, drawn=True, exact=True)


def _parity_reach() -> float:
    """On how many of the texts 1, 11, 111, … the last value of the best machine gives the parity, over the
    number for the best max-pooled machine; the least of units with two, three and four values."""
    reach = [lattice.longest_parity_of_machines(6, 1, values) for values in (2, 3, 4)]
    return min(last / pooled for pooled, last in reach)


# The thesis's own numbers.


@lru_cache
def _their_accuracy(first: str = "chapter 1") -> DataFrame:
    """Of all tables of chapter 1, and of Table 2.1, which has other numbers for MaxPool than Table 1.6."""
    usual = published("accuracy").rename(columns={"pooling": "model"}).assign(n=RUNS_PER_CELL)
    tricks = published("learnability").rename(columns={"method": "model", "accuracy": "mean"})
    tricks = tricks.assign(length="long", std=np.nan, n=1)
    return pd.concat([usual, tricks] if first == "chapter 1" else [tricks, usual])


@lru_cache
def _their_lead() -> DataFrame:
    rows, largest_class = _their_accuracy(), {"imdb": 50.0, "yelp": 50.0, "yahoo": 12.0, "amazon": 5.0}
    return rows.assign(mean=rows["mean"] - rows["corpus"].map(largest_class))  # in % (§1.8.2)


def _single(file: str, column: str, of: Mapping[str, str], change: Any = np.asarray) -> Any:
    """Reads single numbers from a column of a file of ``data/paper``; ``of``: columns that say of what they
    are, and what runs call these."""

    @lru_cache
    def rows() -> DataFrame:
        table = published(file)
        table = table[table["source"] == "thesis"] if "source" in table else table
        numbers = {"mean": change(table[column]), "std": np.nan, "n": 1}
        return table[[*of]].rename(columns=of).assign(**numbers)

    return rows


_BY_SIZE = {"pooling": "model", "size": "size"}
_their_ratio = _single("vanishing", "ratio", _BY_SIZE, np.log)
_FEW = {name: {"corpus": "imdb", "per_class": FewShot.per_class, "scale": name} for name in SCALES}
_TAGGERS = {"bidirectional": True, "encoding": "own", "cell": "lstm", "vectors": VECTORS[0]}
_TAGGERS |= {"hidden_size": Tagging.hidden_size}
_TAGGED = "test_accuracy entity_f1 boundary_share accuracy_above_f1 gradient_evenness gradient_reach"
_WIDE = {name: PLAIN[name] for name in ("hidden_size", "embedding_size", "layers", "corpus")}
MEASURES: dict[str, Measure] = {
    "accuracy": _accuracy("test_accuracy", theirs=_their_accuracy),
    "trick_accuracy": _accuracy(
        "test_accuracy", theirs=partial(_their_accuracy, "Table 2.1")
    ),
    "above_chance": _accuracy("test_accuracy - majority_accuracy", theirs=_their_lead),
    "validation_accuracy": _accuracy(
        "validation_accuracy", theirs=_single("vanishing", "validation_accuracy", _BY_SIZE)
    ),
    "accuracy_by_draw": _measure("training", "test_accuracy", _draws),
    "highest_mean": Measure(_highest_mean, exact=True),
    "epoch_seconds": _by_epochs(
        lambda epochs: epochs.groupby("key")["seconds"].min(), _timed, ratio=True
    ),
    "last_train_accuracy": _by_epochs(
        lambda epochs: epochs.groupby("key")["train_accuracy"].last(), most=100.0
    ),
    "gain_after_saturation": _by_epochs(_gain_after_saturation),
    "largest_fall": _by_epochs(_largest_fall),
    "teacher_error": _by_epochs(mean_squared_error, ratio=True),
    "attention_left": _by_epochs(mass_before_the_end, ratio=True),
    "ending_cost": _by_epochs(cost_of_ending),
    "early_gradient": _early(lambda profile: float(profile[49:51].mean())),
    "early_middle_to_ends": _early(_middle_to_ends),
    "first_middle_to_ends": _early(_middle_to_ends, "first_steps"),
    "ratio_at_95": _looks(_at_95("ratio"), ratio=True, theirs=_their_ratio),
    "band_ratio_at_95": _looks(_at_95("band_ratio"), ratio=True, theirs=_their_ratio),
    "ratio_after": _after("ratio", ratio=True),
    "train_accuracy_after": _after("train_accuracy", most=100.0),
    # A twentieth of the looks are lower; the lowest of all is an extreme that grows with their number.
    "low_ratio": _looks(lambda looks: looks.ratio.quantile(0.05), ratio=True),
    "ratio_recovery": _looks(lambda looks: looks.ratio.iloc[-1] / looks.ratio.iloc[0], ratio=True),
    "held": _measure(
        "states", "accuracy - majority_accuracy",
        fixed={name: fixed | {"size": 4_000} for name, fixed in SCALES.items()},
    ),
    "dip": _held_out(lambda ratios: ratios[:EARLY].min() / ratios.iloc[0]),
    "median_recovery": _held_out(lambda ratios: ratios.iloc[-1] / ratios.iloc[0]),
    "ratio_over_chrono": Measure(_over_chrono, ratio=True),
    "rank_agreement": Measure(_rank_agreement, most=1.0),
    "reach": Measure(_reach, most=1.0),
    "swept_accuracy": _sweep("accuracy"),
    "swept_loss": _sweep("start - accuracy"),
    "sweep_asymmetry": _sides(lambda sides: sides.left - sides.right),
    "both_ends_cost": _sides(lambda sides: sides[["left", "right"]].min(axis=1) - sides.mid),
    "direction_gap": _measure(
        "probe", "accuracy_forward - accuracy_backward",
        lambda rows: rows[has(rows, {"probe": "directions", "texts": [None, DirectionUse.texts]})],
    ),
    "ends_to_middle": _importance(lambda profile: np.divide(*ends_and_middle(profile))),
    "text_to_filler": _importance(_text_to_filler, mixed=True),
    # Algorithm 1 has subtracted each text's own minimum; by the authors' code it is that of the mean.
    "text_to_filler_by_code": _importance(
        lambda profile, filler: _text_to_filler(profile - profile.min(), filler), mixed=True
    ),
    "end_peaks": _importance(_end_peaks, mixed=True),
    "few_shot_accuracy": _measure(
        "few-shot", "test_accuracy", _few_shot, fixed=_FEW,
        theirs=_single("few_shot", "accuracy", {"model": "system", "corpus": "corpus"}),
    ),
    **{
        f"tagging_{name}": _measure("tagging", name, _tagged, fixed={"compact": _TAGGERS})
        for name in _TAGGED.split()
    },
    # Memory depends on shapes alone: one run is enough.
    "memory_exponent": _measure(
        "probe", "exponent", lambda rows: rows[has(rows, {"probe": "memory", "longest": 4_000})],
        fixed={"thesis": _WIDE}, exact=True,
    ),
    "step_change": Measure(
        _step_changes, fixed={"thesis": {"input_variance": 1.0, "hidden_size": 128}}, drawn=True
    ),
    "construction_error": _exact(constructions.largest_error),
    "parity_reach": _exact(_parity_reach),
}  # fmt: skip
"""Every measure that ``data/paper/claims.yml`` may name."""


def numbers(runs: Runs, measure: str) -> Numbers:
    """All numbers of a measure, read once."""
    if measure not in runs.numbers:
        runs.numbers[measure] = Numbers(MEASURES[measure].rows(runs))
    return runs.numbers[measure]


def results(
    runs: Runs, what: str, scale: str | Sequence[str] | None = None, **selection: Any
) -> DataFrame:
    """The numbers of a measure, or the rows of a `Runs.table`, whose columns have the values of a scale, or
    of one of several, and of ``selection``, see `whenpool.book.results.has`. It remembers the question, see
    `note`. Raises `InputError` for what there is not, naming those there are."""
    check_known("measure or kind", what, (*MEASURES, *KINDS, *PROBES))
    scales = MEASURES[what].fixed if what in MEASURES else SCALES
    rows = numbers(runs, what).rows if what in MEASURES else runs.table(what)
    for name, value in selection.items():
        check_known("column", name, sorted(rows) if len(rows) else [name])
        for choice in value if isinstance(value, list | tuple) else [value]:
            if name in CHOICES and isinstance(choice, str):
                check_known(name, choice.partition(",")[0], CHOICES[name])
    given = {name: value for name, value in selection.items() if name in rows}
    chosen = Series(not scale, index=rows.index, dtype=bool)
    for name in [scale] if isinstance(scale, str) else scale or ():
        check_known("scale", name, scales)
        fixed = {k: v for k, v in scales[name].items() if k in rows and k not in selection}
        chosen |= has(rows, fixed)
    rows = rows[chosen & has(rows, given)]
    note([what, scale, selection], rows.get("key", ()))
    return rows
