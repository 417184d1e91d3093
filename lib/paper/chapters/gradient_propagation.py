"""Gradient propagation (§1.5): what the chapter runs and measures."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from pandas import DataFrame

from paper.chapters.shared import (
    Measure,
    epochs,
    scales_with,
    thesis_numbers,
    trainings,
    with_numbers,
)
from paper.runs.kinds.probe import (
    SATURATED,
    FirstSteps,
    GradientProfile,
    GradientTrace,
    Probe,
)
from paper.runs.plans import SEEDS_FROM, Study, each
from paper.verdicts.results import Runs
from whenpool.corpora.published import PUBLICATIONS

SEEN = {"thesis": 12_800, "compact": 8_000}  # Texts learnt from: when claims look at a trace
EARLY = {"size": 500, "epochs": 1}  # What an early model has learnt from


def plan(study: Study) -> Iterable[Probe]:
    """The gradients of early models, and of training as it goes on, by the sizes of Table 1.2."""
    poolings, paper = study.poolings, study.paper
    starts = [*((pooling, "thesis") for pooling in poolings), ("last", "low"), ("last", "chrono")]
    for plain in study.bases((1_000, 5_000 if paper else 10_000, 20_000)):
        for base in study.seeded(plain):
            # 1,000 test texts say enough of a first epoch
            test = 1_000 if base.corpus in PUBLICATIONS else None
            first = replace(base, size=min(500, base.size), epochs=1, test=test)
            for pooling, forget_bias in starts:
                early = replace(first, pooling=pooling, forget_bias=forget_bias)
                yield GradientProfile(early)
                if base.size == 1_000:
                    yield FirstSteps(early)
            if base.size == 1_000:
                later = replace(first, pooling="last", masked=False, seed=SEEDS_FROM + base.seed)
                yield GradientProfile(later)
            brief = not paper and base.size > 10_000
            for training in each(base, pooling=("last",) if brief else poolings):
                yield GradientTrace(training)
                yield GradientProfile(training)


def early_gradients(runs: Runs, kind: str = "gradients") -> DataFrame:
    """Of the model that one epoch on the first 500 texts leaves: the norm in the middle, also
    divided by that at the ends."""
    points = runs.table(kind)
    points = points[runs.as_usual(points, EARLY) & ~points["untrained"].eq(True)]
    wide = points.pivot_table("mean", "key", "position").reindex(columns=range(1, 101))
    middle, ends = wide[[50, 51]].mean(axis=1), wide[[1, 100]].mean(axis=1)
    return with_numbers(points, middle=middle, middle_to_ends=middle / ends)


def traces(runs: Runs) -> DataFrame:
    """What was seen while a training went on, also at the look nearest to a number of texts learnt
    from, the column ``examples``; not where the training ended long before."""
    looks = runs.table("trace").sort_values("examples")
    seen = looks["max_words"].isna().map({True: SEEN["thesis"], False: SEEN["compact"]})
    each, ratios = looks.groupby("key"), looks.groupby("key")["ratio"]
    at_95 = looks[looks["train_accuracy"] >= SATURATED].groupby("key")
    lasted = each["examples"].transform("max") >= 0.9 * seen  # it looks at each tenth more
    apart = (looks["examples"] - seen).abs()[lasted].sort_values(kind="stable")
    near = looks.loc[apart.index].groupby("key")
    return with_numbers(
        looks.assign(examples=seen),
        ratio_at_95=at_95["ratio"].first(),
        band_ratio_at_95=at_95["band_ratio"].first(),
        ratio_after=near["ratio"].first(),
        train_accuracy_after=near["train_accuracy"].first(),
        # A twentieth of the looks are lower; the lowest of all is an extreme that grows with their
        # number.
        low_ratio=ratios.quantile(0.05),
        ratio_recovery=ratios.last() / ratios.first(),
    )


def saturated(runs: Runs) -> DataFrame:
    """The best validation accuracy after the first epoch with `SATURATED` training accuracy, minus
    that one."""
    history = runs.table(epochs)
    reached = (history["train_accuracy"] >= SATURATED).groupby(history["key"]).cummax()
    late = history[reached]
    first = late.drop_duplicates("key").set_index("key")["validation_accuracy"]
    later = late[late.duplicated("key")].groupby("key")["validation_accuracy"]
    return with_numbers(runs.table(trainings), value=later.max() - first)


_of_early = partial(Measure, ratio=True, fixed=scales_with(**EARLY))
_thesis_ratio = partial(thesis_numbers, "vanishing", "ratio", ratio=True)
MEASURES = {
    "gain_after_saturation": Measure(saturated),
    "early_gradient": _of_early(early_gradients, "middle"),
    "early_middle_to_ends": _of_early(early_gradients, "middle_to_ends"),
    "first_middle_to_ends": _of_early(
        partial(early_gradients, kind="first_steps"), "middle_to_ends"
    ),
    "ratio_at_95": Measure(traces, "ratio_at_95", True, thesis=_thesis_ratio),
    "band_ratio_at_95": Measure(traces, "band_ratio_at_95", True, thesis=_thesis_ratio),
    "ratio_after": Measure(traces, "ratio_after", True),
    "train_accuracy_after": Measure(traces, "train_accuracy_after", most=100.0),
    "low_ratio": Measure(traces, "low_ratio", True),
    "ratio_recovery": Measure(traces, "ratio_recovery", True),
}
