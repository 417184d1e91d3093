"""What the last state holds: starts of a BiLSTM without pooling, what their untrained states hold,
the ratio of gradients on held-out texts while they learn, and what they reach; and reading and
learning exchanged."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame, Series

from paper.chapters.shared import Measure, epochs, scales_with, trainings, with_numbers
from paper.runs.kinds import Training
from paper.runs.kinds.probe import GradientTrace, StatesCourse, UntrainedStates, Valleys
from paper.runs.plans import (
    FEWER_SEEDS,
    SAYING_MOST,
    SEEDS,
    SEEDS_FROM,
    TABLES,
    Options,
    Study,
    each,
)
from paper.runs.run import Run
from paper.verdicts.results import (
    PLAIN,
    THESIS_MODEL,
    Runs,
    column,
    has,
    variant_of,
    with_model,
)
from whenpool.base.errors import check
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import THESIS_POOLINGS

# What it runs.

_TABLES = TABLES["starts"]
START_OPTIONS: list[Options] = _TABLES["usual"]
"""What each start changes about a BiLSTM without pooling, whose forget bias sums to 1."""
GATED_OPTIONS = [start for start in START_OPTIONS if "input_bias" in start]
_CHRONO: Options = {"forget_bias": "chrono"}
_BEST_GATED: Options = {"forget_bias": 6.5, "input_bias": -6.5}  # by validation, with 1,000
_POOLED: Options = {"pooling": "max_attention"}
SHARES = (0.0, 0.33, 0.8, 0.9, 0.95)  # Filler's part of a text, beside the usual
DRAWS = 5
LATER_SEEDS = range(SEEDS_FROM + 5, SEEDS_FROM + 8)  # They decide claims of 2026-11-29
# Of claims registered anew, and of later ones
UNUSED_SEEDS = range(SEEDS_FROM + 10, SEEDS_FROM + 15)
OTHER_CELLS = ("gru", "elman", "mingru")
_THEMSELVES = ("last", "max", "max_attention", "mean")  # Beside models that exchange


def plan(study: Study) -> Iterator[Run]:
    """By what decides first: states of untrained models, trained ones of each start, then the
    rest."""
    request = study.request
    for base in study.but(masked=True).bases():
        plain = replace(base, pooling="last")
        if request.is_whole and base.corpus == "imdb":
            yield from _whole(plain, study)
            continue
        for middle in each(plain, setting=["mid"], seed=study.seeds()):
            for run in each(middle, *_TABLES["brief"]):
                yield from (UntrainedStates(run), run)
    usual = study.compact and not request.corpora and not request.cell
    if usual and 1_000 in (request.sizes or (1_000,)):
        elsewhere = study.but(corpora=("yelp", "amazon"), sizes=(1_000,), masked=True)
        values: dict[str, Any] = {"setting": ["mid"], "epochs": [20], "seed": study.later_seeds()}
        for base in elsewhere.bases():
            yield from each(base, *_TABLES["elsewhere"], _POOLED, **values)


def _whole(plain: Training, study: Study) -> Iterator[Run]:
    """All that the claims of the chapter ask for, on IMDb, at either scale."""
    request = study.request
    compact, sizes = study.compact, request.sizes or (1_000, 10_000)
    seeds, middle = study.later_seeds(paper=3), replace(plain, setting="mid")
    cells = OTHER_CELLS if compact and not request.cell else ()
    watch: Options = {"texts": 200, "until": 3_000}  # gradients of held-out texts
    watch |= {"shortest": 350, "longest": 412} if compact else {"shortest": 700, "longest": 900}
    yield from _untrained(plain, study, cells)
    if 1_000 in sizes:
        for run in each(plain, seed=seeds):
            yield from each(run, *GATED_OPTIONS, _POOLED)
        yield from _starts_in_filler(each(middle, seed=seeds), watch)
        if not request.seeds:
            yield from each(middle, _CHRONO, _BEST_GATED, seed=LATER_SEEDS)
        if not compact and not request.seeds:
            # two claims are younger than the runs of the first seeds
            for run in each(middle, seed=range(SEEDS_FROM + 3, SEEDS_FROM + 6), forget_bias=[5.0]):
                yield from (GradientTrace(run, **watch), run)
        for run in each(middle, epochs=[20], seed=seeds):  # as many as the thesis's at either scale
            yield from each(run, *_TABLES["through"], *_TABLES["only_reading"])
            yield from each(run, pooling=_THEMSELVES if compact else ("max",))
            if compact:
                yield from each(run, *_TABLES["alike"])
                yield from each(run, *_TABLES["elsewhere"], cell=(run.cell, *cells))
        yield from _exchanges_controlled(replace(plain, epochs=20), seeds, compact)
        for run in each(middle, draw=range(1, DRAWS + 1)):
            yield from each(run, {}, _CHRONO, _POOLED, _BEST_GATED)
        for run in each(middle, seed=seeds):
            yield from each(run, *_TABLES["fresh"], fresh=[True])
        if compact:
            for run in each(middle, seed=seeds, share=SHARES):
                yield from each(run, *GATED_OPTIONS)
            for run in each(middle, *_TABLES["seen_learning"], seed=seeds[:1]):
                yield Valleys(run, **watch)
    if 10_000 in sizes:
        gated = GATED_OPTIONS if compact else [_BEST_GATED]
        for run in each(middle, size=[10_000], seed=seeds[:3]):
            yield from each(run, *gated, _POOLED, _CHRONO)
    if 1_000 in sizes and not request.seeds:
        yield from () if compact else _registered_anew(plain, watch)
        unused = UNUSED_SEEDS[: SEEDS if compact else FEWER_SEEDS]
        for run in each(middle, *START_OPTIONS, seed=unused):
            yield from (UntrainedStates(_many(run)), GradientTrace(run, **watch), run)


def _untrained(plain: Training, study: Study, cells: Sequence[str]) -> Iterator[Run]:
    """What the untrained states of each start hold, and those of other cells."""
    plain, seeds = _many(plain), study.later_seeds()
    for run in each(plain, setting=SETTINGS, seed=seeds):
        if run.setting == "mid" or run.seed == SEEDS_FROM:  # elsewhere they decide nothing
            yield from map(UntrainedStates, each(run, *START_OPTIONS))
    middle, later = replace(plain, setting="mid"), () if study.request.seeds else LATER_SEEDS
    for run in each(middle, size=[1_000], seed=[*seeds, *later]):
        yield from map(UntrainedStates, each(run, {}, _CHRONO, _BEST_GATED))
    yield from map(UntrainedStates, each(middle, {}, _CHRONO, seed=seeds, cell=cells))


def _many(run: Training) -> Training:
    """A training on as many texts as untrained states are read from."""
    return replace(run, size=4_000, validation=2_000, test=2_000 if run.max_words else 5_000)


def _starts_in_filler(runs: Iterable[Training], watch: Options) -> Iterator[Run]:
    """Each start, trained and watched; MaxPool and MaxAtt that start with chrono; and MaxAtt as
    usual."""
    for run in runs:
        for start in (*START_OPTIONS, *_TABLES["beside"]):
            to_the_end = {"until": None} if start in START_OPTIONS[:2] else {}
            watched = replace(run, **start)
            yield from (GradientTrace(watched, **watch | to_the_end), watched)
        yield from each(run, pooling=("max", "max_attention"), forget_bias=["chrono"])
        yield replace(run, **_POOLED)


def _exchanges_controlled(plain: Training, seeds: Sequence[int], compact: bool) -> Iterator[Run]:
    """What else an exchange may do than to bring gradient: it is tried on plain reviews; a model
    gets its own gradient, but as much of it in the middle; the states are read while they learn;
    and steps are of other sizes."""
    yield from each(plain, *_TABLES["exchanged_on_plain"], seed=seeds)
    middle = replace(plain, setting="mid")
    for run in each(middle, seed=seeds):
        yield from each(run, *_TABLES["backward"])
        yield StatesCourse(replace(run, through="max"), until=run.epochs * run.size)
    if compact:
        steps = {"learning_rate": _TABLES["learning_rates"], "clip": (*_TABLES["clips"], None)}
        yield from each(middle, **steps, seed=LATER_SEEDS[: len(seeds)])


def _registered_anew(plain: Training, watch: Options) -> Iterator[Run]:
    """What was undecided at the thesis's scale, once more with seeds that nothing has used; and
    whether the poolings are level."""
    for run in each(plain, seed=UNUSED_SEEDS):
        middle = replace(run, setting="mid")
        yield from each(middle, {"held": "encoder"}, {"through": "last"}, pooling=["max_attention"])
        yield replace(middle, pooling="mean", held="encoder")
        yield from each(run, _BEST_GATED, _POOLED)
        yield GradientTrace(replace(middle, **_CHRONO), **watch)
        yield from each(run, setting=SAYING_MOST, pooling=THESIS_POOLINGS[1:])


# What it measures.

EARLY = 3_000  # Texts learnt from: the course of a ratio is judged up to there
# What the last state holds, unless fewer texts are asked for
HELD = {"readout": "last", "size": 4_000}
FEWEST_STARTS = 14  # That an agreement is computed over
LEARNS = 60.0  # The test accuracy in %, of two classes, from which on a start has learnt
STARTS = tuple(variant_of("last", **start) for start in START_OPTIONS)
"""Every start that is compared, as `paper.verdicts.results.variant_of` calls it."""
GATED = tuple(variant_of("last", **start) for start in GATED_OPTIONS)
# What runs compared agree in
_ALIKE = [*PLAIN, "seed", "data_corpus", "data_filler", "data_vectors"]


def draws(runs: Runs) -> DataFrame:
    """Trainings on other draws of texts; the draw takes the place of the seed."""
    rows = runs.table(trainings)
    rows = rows[rows["draw"].fillna(0) > 0]
    return with_model(rows.assign(seed=rows["draw"], draw=None))


def last_epoch(runs: Runs) -> DataFrame:
    """The training accuracy that the last epoch ends with."""
    accuracies = runs.table(epochs).groupby("key")["train_accuracy"]
    return with_numbers(runs.table(trainings), value=accuracies.last())


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


def held_out_looks(runs: Runs) -> DataFrame:
    """Those of traces at held-out texts; a ratio that float32 rounds to 0 counts as its smallest
    number. Whether labels were shuffled is a column of its own, and no part of a model's name."""
    looks = runs.table("trace")
    looks = looks[looks["median_ratio"].notna()]
    names = with_model(looks.drop_duplicates("key").assign(shuffled=None)).set_index("key")
    return looks.assign(
        median_ratio=looks["median_ratio"].clip(lower=np.finfo(np.float32).tiny),
        model=looks["key"].map(names["model"]),
        shuffled=looks["shuffled"].eq(True),
    )


def early_looks(runs: Runs) -> DataFrame:
    """Of these the early ones of models that learn from true labels."""
    looks = runs.table(held_out_looks)
    return looks[~looks["shuffled"] & looks["examples"].le(EARLY)]


def held_out(runs: Runs) -> DataFrame:
    """The lowest of the first ratios at held-out texts, and the last of those that were followed to
    the end, each divided by the first."""
    looks = runs.table(held_out_looks).sort_values("examples")
    ratios = looks.groupby("key")["median_ratio"]
    last = looks[column(looks, "until").isna()].groupby("key")["median_ratio"].last()
    lowest = looks[looks["examples"] <= EARLY].groupby("key")["median_ratio"].min()
    first = ratios.first()
    return with_numbers(looks, dip=lowest / first, median_recovery=last / first)


def beside(rows: DataFrame, partners: DataFrame, same: Sequence[str]) -> DataFrame:
    """Rows with the columns of their partners, which agree in some, as ``_of_partner``; each began
    when the first of both did."""
    both = rows.merge(partners, on=list(same), suffixes=("", "_of_partner"))
    return both.assign(began=both[["began", "began_of_partner"]].min(axis=1))


def over_chrono(runs: Runs) -> DataFrame:
    """Of each run the smallest quotient of its ratio and chrono's, with its seed, after as many
    texts."""
    looks, same = runs.table(early_looks), [*_ALIKE, "size", "examples"]
    chrono = looks.loc[looks["model"] == "chrono", [*same, "median_ratio", "began"]]
    both = beside(looks, chrono, same)
    both["value"] = both["median_ratio"] / both["median_ratio_of_partner"]
    return both.sort_values("value").drop_duplicates("key").sort_index()


def over_memory(runs: Runs) -> DataFrame:
    """Test accuracy minus that of a logistic regression on the untrained last states of as many
    texts."""
    trained, read = runs.table(trainings), runs.table("states")
    if trained.empty or read.empty:
        return DataFrame()
    same = [*_ALIKE, "size", "model"]
    read = read.loc[read["readout"] == "last", [*same, "accuracy", "began"]]
    both = beside(trained, read, same)
    return both.assign(value=both["test_accuracy"] - both["accuracy"])


def agreement(first: Series, second: Series) -> float:
    """Spearman's correlation; 0 where one of them is the same throughout."""
    both_vary = first.nunique() > 1 and second.nunique() > 1
    return float(first.corr(second, "spearman")) if both_vary else 0.0


def learning_auc(numbers: Series, accuracy: Series) -> float:
    """The area under the ROC curve of the numbers for learning, `LEARNS`; NaN where all do or
    none."""
    learns = accuracy >= LEARNS
    return float(_wins(numbers, learns).mean()) if 0 < learns.mean() < 1 else np.nan


def _wins(numbers: Series, learns: Series) -> Any:
    """Whether the number of each that learns is above that of each that does not, (P, N); 1/2 of
    equals."""
    apart = numbers[learns].to_numpy()[:, None] - numbers[~learns].to_numpy()
    return (np.sign(apart) + 1) / 2


def auc_by_bootstrap(learns: Series, numbers: Series) -> tuple[float, float, float]:
    """The area under the ROC curve of one number of each start for whether it learns, and its 95 %
    interval: as many starts are drawn again from those that learn, and from those that do not.
    Raises `InputError` unless there are some of both.

    Examples:
        >>> auc_by_bootstrap(Series([True, True, False, False]), Series([4, 3, 2, 1]))
        (1.0, 1.0, 1.0)
    """
    learns = learns.astype(bool)
    check(0 < learns.mean() < 1, "an AUC needs starts that learn and starts that do not")
    wins = _wins(numbers, learns)  # (P, N)
    rng = np.random.default_rng(0)
    # how often each is drawn, (resamples, P or N)
    positive, negative = (
        rng.multinomial(count, np.full(count, 1 / count), size=10_000) / count
        for count in wins.shape
    )
    low, high = np.quantile(((positive @ wins) * negative).sum(1), [0.025, 0.975])
    return float(wins.mean()), float(low), float(high)


def of_starts(runs: Runs, judged: Callable[[Series, Series], float]) -> DataFrame:
    """How well, over the `STARTS` of one seed, test accuracy is predicted by what the untrained
    last state holds ("held"), and by the ratio before training or its lowest ("start_ratio",
    "lowest_ratio")."""
    trained, held = runs.table(trainings), runs.table("states")
    usual = {"share": THESIS_MODEL["share"], "size": 1_000, "model": list(STARTS)}
    trained, same = trained[has(trained, usual)], [*_ALIKE, "model"]
    ratios = runs.table(early_looks).rename(columns={"median_ratio": "predicts"})
    predictors = {
        "held": held[has(held, HELD)].rename(columns={"accuracy": "predicts"}),
        "start_ratio": ratios.sort_values("examples"),
        "lowest_ratio": ratios.sort_values("predicts"),
    }
    rows = []
    for predictor, table in predictors.items():
        if table.empty:
            continue
        predicted = table.drop_duplicates("key")[[*same, "began", "predicts"]]
        for _, group in beside(trained, predicted, same).groupby(_ALIKE, dropna=False):
            starts = group.drop_duplicates("model")
            if len(starts) >= FEWEST_STARTS:
                value = judged(starts["predicts"], starts["test_accuracy"])
                number = {"model": "last", "predictor": predictor, "value": value}
                number["began"] = group["began"].min()
                rows.append(group.iloc[0].to_dict() | number)
    return DataFrame(rows)


def reach(runs: Runs) -> DataFrame:
    """Spearman's correlation, over the `GATED` starts of one seed, of v with the largest share of
    filler at which a review in the middle is still learnt: at least 10 points above chance."""
    trained = runs.table(trainings)
    trained = trained[has(trained, {"size": 1_000, "setting": "mid", "model": list(GATED)})]
    trained = trained.assign(learnt=trained["share"].where(trained["above_chance"] >= 10))
    rows = []
    for _, group in trained.groupby([name for name in _ALIKE if name != "share"], dropna=False):
        by_start = group.groupby("model")
        if by_start["share"].nunique().reindex(GATED).eq(len(SHARES) + 1).all():
            learnt = by_start["learnt"].max().reindex(GATED).fillna(-1)
            value = agreement(learnt.reset_index(drop=True), Series(range(len(GATED))))
            row = group[group["share"] == THESIS_MODEL["share"]].iloc[0].to_dict()
            rows.append(row | {"model": "last", "began": group["began"].min(), "value": value})
    return DataFrame(rows)


_UNSHUFFLED = scales_with(shuffled=False)
MEASURES = {
    "accuracy_by_draw": Measure(draws, "test_accuracy"),
    "last_train_accuracy": Measure(last_epoch, most=100.0),
    "held": Measure(states, fixed=scales_with(size=HELD["size"])),
    "held_after": Measure(states_after),
    "over_memory": Measure(over_memory),
    "dip": Measure(held_out, "dip", True, _UNSHUFFLED),
    "median_recovery": Measure(held_out, "median_recovery", True, _UNSHUFFLED),
    "ratio_over_chrono": Measure(over_chrono, ratio=True),
    "rank_agreement": Measure(partial(of_starts, judged=agreement), most=1.0),
    "learning_auc": Measure(partial(of_starts, judged=learning_auc), most=1.0),
    "reach": Measure(reach, most=1.0),
}
