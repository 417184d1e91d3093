"""The front page: why and when to pool, one figure and three sentences, made from finished runs.

They are of the thesis's scale once three seeds of all five models are there, before that of the compact
replication, and say which.
"""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from whenpool.book.report.claims import SEEDS_NEEDED, Decision, Sample, estimate, sample_of
from whenpool.book.report.figures import CHANCE_COLOUR, nothing_yet
from whenpool.book.report.ledger import counts, ledger_link, of_the_thesis
from whenpool.book.report.measures import SCALES, Runs
from whenpool.book.report.tables import Sentences, number_text, provenance_line, together
from whenpool.models.registry import COLOURS, POOLING_NAMES

SIZE = 1_000
"""Training texts of the accuracies."""
POOLED = ("mean", "max", "attention", "max_attention")
MODELS = ("last", *POOLED)
SETTINGS = {"standard": "on reviews as they are", "mid": "in the middle"}
REACHES = 0.2
"""The gradient in the middle, over that at the ends, below which learning does not reach the middle."""
_SCALE_TEXT = {
    "thesis": "at the thesis's scale",
    "compact": "in the compact replication: 64 units, 8 epochs, reviews cut at 140 words",
}


def accuracies(runs: Runs, scale: str, setting: str) -> dict[str, Sample]:
    """Test accuracies of the models in one setting; empty unless all were run."""
    return _of_all(runs, "accuracy", scale, size=SIZE, setting=setting)


def gradients(runs: Runs, scale: str) -> dict[str, Sample]:
    """The same of the logarithm of the gradient in the middle over that at the ends."""
    return _of_all(runs, "early_middle_to_ends", scale)


def _of_all(runs: Runs, measure: str, scale: str, **selection: Any) -> dict[str, Sample]:
    found = {model: sample_of(runs, measure, scale, model=model, **selection) for model in MODELS}
    return {model: one for model, one in found.items() if one} if all(found.values()) else {}


def scale_shown(runs: Runs) -> str:
    """The scale that the page shows: the thesis's once three seeds of all models are there."""
    of_thesis = [accuracies(runs, "thesis", setting) for setting in SETTINGS]
    of_thesis.append(gradients(runs, "thesis"))
    whole = all(found and _fewest(*found.values()) >= SEEDS_NEEDED for found in of_thesis)
    return "thesis" if whole else "compact"


def answers(runs: Runs) -> Sentences:
    """Why, when and which: the three sentences."""
    scale = scale_shown(runs)
    return Sentences((why(runs, scale), when(runs, scale), which(runs, scale)))


def why(runs: Runs, scale: str) -> str:
    """How much of the gradient reaches the middle of a text, without pooling and with it."""
    found = gradients(runs, scale)
    if not found:
        return "**Why?** No runs say it yet."
    last, least = math.exp(found["last"].mean), math.exp(min(found[name].mean for name in POOLED))
    helps = last < REACHES <= least
    return (
        f"**Why?** {'So that' if helps else 'Not so that'} learning reaches the middle of a text. After 500 "
        f"reviews the gradient of a BiLSTM without pooling is {number_text(last)} there of what it is at the "
        f"ends; with pooling it is {number_text(least)} of it or more{_seeds(*found.values())}."
    )


def when(runs: Runs, scale: str) -> str:
    """Where pooling gains most: with the text in the middle of filler, or without any."""
    plain, mid = (accuracies(runs, scale, setting) for setting in SETTINGS)
    if not plain or not mid:
        return "**When?** No runs say it yet."
    weak_plain, weak_mid = (
        min((own[m] for m in POOLED), key=lambda one: one.mean) for own in (plain, mid)
    )
    _, low, high = estimate([(1, weak_mid), (-1, mid["last"]), (-1, weak_plain), (1, plain["last"])])
    told = "In no setting clearly more than in the other"
    if low > 0:
        told = "Above all when what decides stands in the middle of other text"
    elif high < 0:
        told = "Above all when nothing stands around what decides"
    return (
        f"**When?** {told}: there, with {SIZE:,} IMDb reviews to learn from, the BiLSTM is right in "
        f"{mid['last'].mean:.0f} % of all cases and the weakest pooling in {weak_mid.mean:.0f} %. On reviews "
        f"as they are these are {plain['last'].mean:.0f} % and {weak_plain.mean:.0f} %"
        f"{_seeds(*plain.values(), *mid.values())}."
    )


def which(runs: Runs, scale: str) -> str:
    """Which model has the highest mean in each of the two settings, and whether it is ahead for sure."""
    told, sure, leaders = [], [], []
    for setting, where in SETTINGS.items():
        found = accuracies(runs, scale, setting)
        if not found:
            return "**Which?** No runs say it yet."
        best = max(found, key=lambda name: found[name].mean)
        leaders.append(found[best])
        told.append(f"{POOLING_NAMES[best]} {where} ({found[best].mean:.1f} %)")
        rivals = [one for name, one in found.items() if name != best]
        if all(estimate([(1, found[best]), (-1, one)])[1] > 0 for one in rivals):
            sure.append(where)
    return (
        f"**Which?** The highest means are those of {together(told[::-1])}. The lead over all others is "
        f"clear {together(sure[::-1]) or 'in neither'}{_seeds(*leaders)}. "
        "See {doc}`the advice <which_pooling>`."
    )


def _fewest(*samples: Sample) -> int:
    return min(sample.n for sample in samples)


def _seeds(*samples: Sample) -> str:
    """A caution where there are fewer seeds than a verdict needs."""
    fewest = _fewest(*samples)
    return f" (so far {fewest} seed{'s' if fewest > 1 else ''})" if fewest < SEEDS_NEEDED else ""


def verdict_line(decided: Sequence[Decision]) -> Sentences:
    """How many claims of the thesis have which verdict at each scale, each number a link to them."""
    own = of_the_thesis(decided)
    told = []
    for scale, key in (("thesis", "verdict"), ("compact", "compact")):
        parts = [
            f"{name} {ledger_link(count, **{key: name}, source='thesis')}"
            for name, count in counts(own, scale).items()
            if count
        ]
        told.append(f"{_SCALE_TEXT[scale].partition(':')[0]}, {together(parts)}")
    total = ledger_link(len(own), source="thesis")
    first = f"Our verdicts on the {total} claims that we read in the thesis, its blog post and slides"
    return Sentences((f"{first}: {'; '.join(told)}.",))


def profiles_of(runs: Runs, scale: str) -> pd.DataFrame:
    """The gradient profiles that the figure draws: after the first 500 reviews, seen once."""
    points = runs.points("gradients")
    for name, value in (SCALES[scale] | {"epochs": 1, "size": 500}).items():
        if len(points):
            points = points[points[name].isna() if value is None else points[name] == value]
    return points[points["model"].isin(MODELS)] if len(points) else points


def provenance(runs: Runs) -> str:
    """Where the figure and the sentences come from, in a line."""
    scale = scale_shown(runs)
    profiles = profiles_of(runs, scale)
    keys = set(profiles["key"]) if len(profiles) else set()
    for setting in SETTINGS:
        keys |= {key for sample in accuracies(runs, scale, setting).values() for key in sample.keys}
    return f"{provenance_line(runs.of(keys)).rstrip('.')}; {_SCALE_TEXT[scale]}."


def draw_front(runs: Runs) -> Figure:
    """Left, why: the gradient over the positions of a text. Right, when: accuracies in both settings.

    Dots are lines of no length: a marker takes far more bytes of a page.
    """
    scale = scale_shown(runs)
    profiles = profiles_of(runs, scale)
    plain, mid = (accuracies(runs, scale, setting) for setting in SETTINGS)
    if not plain or not mid or not gradients(runs, scale):
        return nothing_yet()
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.7, 2.5), width_ratios=(1, 1.1))
    means = profiles.groupby(["model", "position"])["mean"].mean()
    for place, model in reversed([*enumerate(MODELS)]):
        left.plot(means[model].iloc[:: 3 if model == "last" else 9], color=COLOURS[model], lw=2)
        values = [plain[model].mean, mid[model].mean]
        right.plot(values, [place, place], color=COLOURS[model], lw=2)
        dots = [(values[0], 9, COLOURS[model]), (values[1], 9, COLOURS[model]), (values[1], 5, "w")]
        for value, width, colour in dots:
            right.plot([value] * 2, [place] * 2, color=colour, lw=width, solid_capstyle="round")
    beside = {"textcoords": "offset points", "va": "center"}
    left.annotate("BiLSTM", (62, means["last"].iloc[61]), xytext=(9, -4), **beside)
    highest = max(means[model].iloc[49] for model in POOLED)
    left.annotate("with pooling", (50, highest), xytext=(0, 9), ha="center", **beside)
    left.set(yscale="log", xlabel="position in the text, %", xlim=(1, 100), xticks=(1, 50, 100))
    left.set_yticks([1e-6, 1e-4, 1e-2], ["10⁻⁶", "10⁻⁴", "10⁻²"])
    left.set_title("Why: ‖∂L/∂h‖, 500 reviews", loc="left", fontweight="bold")
    above = sample_of(runs, "above_chance", scale, model="last", size=SIZE, setting="mid")
    right.axvline(mid["last"].mean - (above.mean if above else 0.0), color=CHANCE_COLOUR, ls=":", lw=1.5)
    right.annotate(
        "chance", (right.lines[-1].get_xdata()[0], 4), xytext=(4, 0), color="#5c5c5c", **beside
    )
    right.annotate("in filler", (mid["last"].mean, 0), xytext=(7, -9), **beside)
    right.annotate("as it is", (plain["last"].mean, 0), xytext=(-7, -9), ha="right", **beside)
    right.set_yticks(range(len(MODELS)), [POOLING_NAMES[model] for model in MODELS])
    right.grid(False, axis="y")
    right.set(xlabel="test accuracy, %", ylim=(4.6, -0.6))
    right.set_title(f"When: IMDb, {SIZE:,} reviews", loc="left", fontweight="bold")
    return figure
