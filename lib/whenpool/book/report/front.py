"""The front page: why and when to pool, one figure and three sentences, made from finished runs.

Words that say which way a number points are chosen by the numbers: with other runs the sentences read
otherwise. They are of the thesis's scale once three seeds of all five models are there, before that of the
compact replication, and say which.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whenpool.models.registry import COLOURS, POOLING_NAMES
from whenpool.book.report.claims import SEEDS_NEEDED, Decision, Sample, estimate, sample_of
from whenpool.book.report.ledger import SCALE_NAMES, counts, ledger_link, of_the_thesis
from whenpool.book.report.measures import SCALES, Runs
from whenpool.book.report.provenance import provenance_line
from whenpool.book.report.tables import Sentences
from whenpool.book.report.tricks import GUESSING
from whenpool.book.report.tables import number_text, together

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SIZE = 1_000
"""Training texts of the accuracies."""
POOLED = ("mean", "max", "attention", "max_attention")
MODELS = ("last", *POOLED)
SETTINGS = ("standard", "mid")
_EARLY = "early_middle_to_ends"
_VERBS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("is undecided", "are undecided"),
    "so far holds": ("holds so far", "hold so far"),
    "so far does not hold": ("does not hold so far", "do not hold so far"),
    "not run": ("was not run", "were not run"),
}
_SCALE_TEXT = {
    "thesis": "at the thesis's scale",
    "compact": "in the compact replication: 64 units, 8 epochs, reviews cut at 140 words",
}


def scale_shown(runs: Runs) -> str:
    """The scale that the page shows: the thesis's once three seeds of all models are there."""
    found = [_accuracy(runs, "thesis", model, setting) for model in MODELS for setting in SETTINGS]
    found += [sample_of(runs, _EARLY, "thesis", model=model) for model in MODELS]
    return "thesis" if all(one and one.n >= SEEDS_NEEDED for one in found) else "compact"


def answers(runs: Runs) -> Sentences:
    """Why, when and which: the three sentences."""
    scale = scale_shown(runs)
    return Sentences((why(runs, scale), when(runs, scale), which(runs, scale)))


def why(runs: Runs, scale: str) -> str:
    """How much of the gradient reaches the middle of a text, without pooling and with it."""
    last = sample_of(runs, _EARLY, scale, model="last")
    pooled = [found for name in POOLED if (found := sample_of(runs, _EARLY, scale, model=name))]
    if not last or len(pooled) < len(POOLED):
        return "**Why?** No runs say it yet."
    least = math.exp(min(found.mean for found in pooled))
    alone, others = _fate(math.exp(last.mean)), _fate(least)
    helps = alone in (_VANISHES, _FALLS) and others == _STAYS
    return (
        f"**Why?** {'So that' if helps else 'Not so that'} learning reaches the middle of a text. After 500 "
        f"reviews the gradient of a BiLSTM without pooling {alone} on its way there, to "
        f"{number_text(math.exp(last.mean))} of what it is at the ends; with pooling it {others}, at "
        f"{number_text(least)} of it or more{_seeds(last, *pooled)}."
    )


_VANISHES, _FALLS, _STAYS = "all but vanishes", "falls", "stays"


def _fate(ratio: float) -> str:
    """What becomes of a gradient on its way to the middle: middle over ends."""
    return _VANISHES if ratio <= 0.01 else _FALLS if ratio < 0.2 else _STAYS


def when(runs: Runs, scale: str) -> str:
    """Where pooling gains most: with the text in the middle of filler, or without any."""
    alone = {setting: _accuracy(runs, scale, "last", setting) for setting in SETTINGS}
    weakest = {setting: _extreme(runs, scale, setting, POOLED, min) for setting in SETTINGS}
    known = [found for found in (*alone.values(), *weakest.values()) if found]
    if len(known) < 4:
        return "**When?** No runs say it yet."
    plain, mid, weak_plain, weak_mid = known
    _, low, high = estimate([(1, weak_mid), (-1, mid), (-1, weak_plain), (1, plain)])
    if low > 0:
        told = "Above all when what decides stands in the middle of other text"
    elif high < 0:
        told = "Above all when nothing stands around what decides"
    else:
        told = "In no setting clearly more than in the other"
    chance = sample_of(runs, "above_chance", scale, model="last", size=SIZE, setting="mid")
    verb = "guesses" if chance and chance.mean <= GUESSING else "is right"
    return (
        f"**When?** {told}: there, with {SIZE:,} IMDb reviews to learn from, the BiLSTM {verb} "
        f"({mid.mean:.0f} %) and the weakest pooling is {_gap(weak_mid, mid)}. On reviews as they are it is "
        f"at {plain.mean:.0f} %, and the weakest pooling {_gap(weak_plain, plain)}{_seeds(*known)}."
    )


def which(runs: Runs, scale: str) -> str:
    """Which model has the highest mean in each of the two settings, and whether it is ahead for sure."""
    found = {}
    for setting in SETTINGS:
        reached = {name: one for name in MODELS if (one := _accuracy(runs, scale, name, setting))}
        if len(reached) < len(MODELS):
            return "**Which?** No runs say it yet."
        best = max(reached, key=lambda name: reached[name].mean)
        gaps = [
            estimate([(1, reached[best]), (-1, one)])[1] for name, one in reached.items() if name != best
        ]
        found[setting] = best, reached[best], all(low > 0 for low in gaps)
    (unmixed, plain, plain_sure), (mid, mixed, mid_sure) = found.values()
    if unmixed == mid:
        told = (
            f"{POOLING_NAMES[mid]} has the highest mean in both, {mixed.mean:.1f} and {plain.mean:.1f} %"
        )
    else:
        told = (
            f"In the middle {POOLING_NAMES[mid]} has the highest mean, {mixed.mean:.1f} %, and on reviews as "
            f"they are {POOLING_NAMES[unmixed]}, {plain.mean:.1f} %"
        )
    sure = {
        (True, True): ", each clearly ahead of all others",
        (False, False): ", neither clearly ahead of all others",
        (True, False): ", clearly ahead of all others on reviews as they are alone",
        (False, True): ", clearly ahead of all others in the middle alone",
    }[plain_sure, mid_sure]
    return f"**Which?** {told}{sure}{_seeds(plain, mixed)}. See {{doc}}`the advice <which_pooling>`."


def verdict_line(decided: Sequence[Decision]) -> Sentences:
    """How many claims of the thesis have which verdict at each scale, each number a link to them."""
    own = of_the_thesis(decided)
    total = ledger_link(len(own), source="thesis")
    told = [f"Of the {total} claims that we read in the thesis, its blog post and slides:"]
    for scale, key in (("thesis", "verdict"), ("compact", "compact")):
        found = {name: count for name, count in counts(own, scale).items() if count}
        parts = [
            f"{ledger_link(n, **{key: name}, source='thesis')} {_VERBS[name][n != 1]}"
            for name, n in found.items()
        ]
        told.append(f"{SCALE_NAMES[scale]}, {together(parts)}" + (";" if scale == "thesis" else "."))
    return Sentences((" ".join(told),))


def profiles_of(runs: Runs, scale: str) -> "DataFrame":
    """The gradient profiles that the figure draws: after the first 500 reviews, seen once."""
    points = runs.points("gradients")
    wanted = SCALES[scale] | {"epochs": 1, "size": 500}
    for name, value in wanted.items():
        if points.empty:
            return points
        points = points[points[name].isna() if value is None else points[name] == value]
    return points[points["model"].isin(MODELS)]


def provenance(runs: Runs) -> str:
    """Where the figure and the sentences come from, in a line."""
    scale = scale_shown(runs)
    samples = [_accuracy(runs, scale, model, setting) for model in MODELS for setting in SETTINGS]
    keys = {key for sample in samples if sample for key in sample.keys}
    profiles = profiles_of(runs, scale)
    keys |= set(profiles["key"]) if len(profiles) else set()
    return f"{provenance_line(runs.of(keys)).rstrip('.')}; {_SCALE_TEXT[scale]}."


def draw_front(runs: Runs) -> "Figure":
    """Left, why: the gradient over the positions of a text. Right, when: accuracies in both settings."""
    import matplotlib.pyplot as plt

    from whenpool.book.report.figures import CHANCE_COLOUR
    from whenpool.book.report.probes import nothing_yet

    scale = scale_shown(runs)
    profiles = profiles_of(runs, scale)
    reached = {(m, s): _accuracy(runs, scale, m, s) for m in MODELS for s in SETTINGS}
    if profiles.empty or not all(reached.values()) or set(MODELS) - set(profiles["model"]):
        return nothing_yet()
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.7, 2.5), width_ratios=(1, 1.1))
    means = profiles.groupby(["model", "position"])["mean"].mean()
    for model in MODELS[::-1]:
        left.plot(means[model].iloc[:: 3 if model == "last" else 9], color=COLOURS[model], lw=2)
    left.set_yscale("log")
    beside = {"textcoords": "offset points", "va": "center"}
    left.annotate("BiLSTM", (62, means["last"].iloc[61]), xytext=(9, -4), **beside)
    highest = max(means[model].iloc[49] for model in POOLED)
    left.annotate("with pooling", (50, highest), xytext=(0, 9), ha="center", **beside)
    left.set_yticks([1e-6, 1e-4, 1e-2], ["10⁻⁶", "10⁻⁴", "10⁻²"])
    left.set(xlabel="position in the text, %", xlim=(1, 100), xticks=(1, 50, 100))
    left.set_title("Why: ‖∂L/∂h‖, 500 reviews", loc="left", fontweight="bold")
    dot = {"solid_capstyle": "round"}  # a line of no length: a marker takes far more bytes of a page
    for place, model in enumerate(MODELS):
        plain, mid = (reached[model, name].mean for name in SETTINGS)  # type: ignore[union-attr]
        right.plot([plain, mid], [place, place], color=COLOURS[model], lw=2)
        for value, width, colour in (
            (plain, 9, COLOURS[model]),
            (mid, 9, COLOURS[model]),
            (mid, 5, "w"),
        ):
            right.plot([value, value], [place, place], color=colour, lw=width, **dot)
    first_plain, first_mid = (reached["last", name].mean for name in SETTINGS)  # type: ignore[union-attr]
    above = sample_of(runs, "above_chance", scale, model="last", size=SIZE, setting="mid")
    chance = first_mid - (above.mean if above else 0.0)
    right.axvline(chance, color=CHANCE_COLOUR, ls=":", lw=1.5)
    right.annotate("chance", (chance, 4), xytext=(4, 0), color="#5c5c5c", **beside)
    right.annotate("in filler", (first_mid, 0), xytext=(7, -9), **beside)
    right.annotate("as it is", (first_plain, 0), xytext=(-7, -9), ha="right", **beside)
    right.set_yticks(range(len(MODELS)), [POOLING_NAMES[model] for model in MODELS])
    right.grid(False, axis="y")
    right.set(xlabel="test accuracy, %", ylim=(4.6, -0.6))
    right.set_title(f"When: IMDb, {SIZE:,} reviews", loc="left", fontweight="bold")
    return figure


def _accuracy(runs: Runs, scale: str, model: str, setting: str) -> Sample | None:
    return sample_of(runs, "accuracy", scale, model=model, size=SIZE, setting=setting)


def _extreme(runs: Runs, scale: str, setting: str, models: Sequence[str], pick: Any) -> Sample | None:
    """The model with the lowest or highest mean of several, where all were run."""
    found = [one for name in models if (one := _accuracy(runs, scale, name, setting))]
    return pick(found, key=lambda one: one.mean) if len(found) == len(models) else None


def _gap(one: Sample, other: Sample) -> str:
    """The difference of two means, as one says it."""
    value = one.mean - other.mean
    if abs(value) < 0.5:
        return "as good"
    return f"about {abs(value):.0f} points {'above' if value > 0 else 'below'} it"


def _seeds(*samples: Sample) -> str:
    """A caution where there are fewer seeds than a verdict needs."""
    fewest = min(sample.n for sample in samples)
    return f" (so far {fewest} seed{'s' if fewest > 1 else ''})" if fewest < SEEDS_NEEDED else ""
