"""The front page: why and when to pool, one figure and three sentences, made from runs of record.

Words that say which way a number points are chosen by the numbers: with other runs the sentences read
otherwise.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from whenpool.registry import COLOURS, POOLING_NAMES
from whenpool.report.claims import Decision
from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.ledger import counts, of_the_thesis, on_small_models
from whenpool.report.ledger_page import thesis_link
from whenpool.report.provenance import provenance_line
from whenpool.report.quantities import POOLED, accuracy_gap, early_middle_to_ends, minus
from whenpool.report.sentences import Sentences
from whenpool.report.tricks import GUESSING
from whenpool.report.verdicts import SEEDS_NEEDED
from whenpool.report.wording import number_text, together

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SIZE = 1_000
"""Training texts of the accuracies: what was run on IMDb with three seeds."""
MODELS = ("last", *POOLED)
SETTINGS = ("standard", "mid")
_VERBS = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "undecided": ("is undecided", "are undecided"),
    "so far holds": ("holds so far", "hold so far"),
    "so far does not hold": ("does not hold so far", "do not hold so far"),
    "not run": ("was not run", "were not run"),
}


def answers(evidence: Evidence) -> Sentences:
    """Why, when and which: the three sentences."""
    return Sentences((why(evidence), when(evidence), which(evidence)))


def why(evidence: Evidence) -> str:
    """How much of the gradient reaches the middle of a text, without pooling and with it."""
    last = early_middle_to_ends(evidence, ["last"])
    pooled = early_middle_to_ends(evidence, POOLED, choose="min")
    if not last or not pooled:
        return "**Why?** No runs of record say it yet."
    alone, together = fate(last), fate(pooled)
    helps = alone in (_VANISHES, _FALLS) and together in (_STAYS, _GROWS)
    least = number_text(min(pooled.values()))
    lead = "So that" if helps else "Not so that"
    return (
        f"**Why?** {lead} learning reaches the middle of a text. After 500 reviews the gradient of a "
        f"BiLSTM without pooling {alone} on its way there, to {_span(last)} of what it is at the ends; "
        f"with pooling it {together}, at {least} of it or more{_seeds(last, pooled)}."
    )


_VANISHES, _FALLS, _STAYS, _GROWS = "all but vanishes", "falls", "stays", "grows"


def fate(ratios: PerSeed) -> str:
    """What becomes of a gradient on its way to the middle, for every seed.

    Args:
        ratios: middle over ends.
    """
    values = ratios.values()
    if max(values) <= 0.01:
        return _VANISHES
    if max(values) < 0.2:
        return _FALLS
    if min(values) >= 0.2:
        return _GROWS if min(values) > 5 else _STAYS
    return "falls for some seeds only"


def when(evidence: Evidence) -> str:
    """Where pooling gains most: with the text in the middle of filler, or without any."""
    gaps = dict(zip(SETTINGS, paired([accuracy_gap(evidence, SIZE, s) for s in SETTINGS]), strict=True))
    if not all(gaps.values()):
        return "**When?** No runs of record say it yet."
    more = direction(minus(gaps["mid"], gaps["standard"]))
    told = {
        1: "Above all when what decides stands in the middle of other text",
        -1: "Above all when nothing stands around what decides",
        0: "In no setting clearly more than in the other",
    }[more]
    alone = {s: evidence.accuracies("last", size=SIZE, setting=s) for s in SETTINGS}
    unmixed, mid = (fmean(alone[s][seed] for seed in gaps[s]) for s in SETTINGS)
    verb = "guesses" if is_guessing(evidence, "last", "mid") else "is right"
    return (
        f"**When?** {told}: there, with {SIZE:,} IMDb reviews to learn from, the BiLSTM {verb} "
        f"({mid:.1f} %) and the weakest pooling is {_gap(gaps['mid'])}. On reviews as they are it is at "
        f"{unmixed:.1f} %, and the weakest pooling {_gap(gaps['standard'])}{_seeds(*gaps.values())}."
    )


def paired(parts: Sequence[PerSeed]) -> list[PerSeed]:
    """Several numbers for the seeds that all of them have."""
    seeds = sorted(set.intersection(*map(set, parts)))
    return [{seed: part[seed] for seed in seeds} for part in parts]


def direction(differences: PerSeed) -> int:
    """1 where every seed says more, -1 where every seed says less, else 0; there is a seed at least."""
    values = differences.values()
    return 1 if min(values) > 0 else -1 if max(values) < 0 else 0


def is_guessing(evidence: Evidence, model: str, setting: str) -> bool:
    """Whether every seed is within `GUESSING` points of the largest class."""
    reached = evidence.accuracies(model, size=SIZE, setting=setting)
    chance = _chance(evidence)
    return bool(reached) and chance is not None and max(reached.values()) <= chance + GUESSING


def which(evidence: Evidence) -> str:
    """Which model has the highest mean in each of the two settings."""
    found = [leader for name in SETTINGS if (leader := _leader(evidence, name))]
    if len(found) < len(SETTINGS):
        return "**Which?** No runs of record say it yet."
    (unmixed, unmixed_mean, unmixed_all), (mid, mid_mean, mid_all) = (
        (name, fmean(reached.values()), for_all) for name, reached, for_all in found
    )
    if unmixed == mid:
        told = (
            f"{POOLING_NAMES[mid]} has the highest mean in both, {mid_mean:.1f} and {unmixed_mean:.1f} %"
        )
    else:
        told = (
            f"In the middle {POOLING_NAMES[mid]} has the highest mean, {mid_mean:.1f} %, and on reviews "
            f"as they are {POOLING_NAMES[unmixed]}, {unmixed_mean:.1f} %"
        )
    always = {
        (True, True): ", for each seed",
        (False, False): ", though not for each seed",
        (True, False): ", for each seed in the latter alone",
        (False, True): ", for each seed in the former alone",
    }[unmixed_all, mid_all]
    few = _seeds(*(reached for _, reached, _ in found))
    return f"**Which?** {told}{always}{few}. See {{doc}}`the advice <which_pooling>`."


def verdict_line(decided: Sequence[Decision]) -> Sentences:
    """How many claims of the thesis have which verdict, each number a link to them in the ledger."""
    of_thesis, small = of_the_thesis(decided), on_small_models(decided)
    found = {name: count for name, count in counts(of_thesis).items() if count}
    parts = [f"{thesis_link(n, name)} {_VERBS[name][n != 1]}" for name, n in found.items()]
    total = thesis_link(len(of_thesis))
    told = f"Of the {total} claims that we read in the thesis and its slides, {together(parts)}."
    run = [decision for decision in small if decision.verdict != "not run"]
    if run:
        link = thesis_link(len(run), scale="small")
        told += f" {link} more {'is' if len(run) == 1 else 'are'} decided on small models alone."
    return Sentences((told,))


def profiles_of(evidence: Evidence) -> "DataFrame":
    """The gradient profiles that the figure draws: after the first 500 reviews, seen once."""
    rows = evidence.on_imdb("gradients", masked=True)
    if rows.empty:
        return rows
    start = (rows["epochs"] == 1) & (rows["size"] == 500) & (rows["forget_bias"] != "low")
    return rows[start & rows["pooling"].isin(MODELS) & (rows["setting"] == "standard")]


def accuracies_of(evidence: Evidence) -> "DataFrame":
    """The trainings that the figure draws, in both settings."""
    runs = evidence.trainings
    if runs.empty:
        return runs
    mine = (runs["corpus"] == "imdb") & (runs["length"] == "long") & (runs["size"] == SIZE)
    plain = mine & runs["masked"].astype(bool) & (runs["forget_bias"] == "thesis")
    return runs[plain & runs["setting"].isin(SETTINGS) & runs["pooling"].isin(MODELS)]


def provenance(evidence: Evidence) -> str:
    """Where the figure and the sentences come from, in a line."""
    import pandas as pd

    parts = [profiles_of(evidence).drop_duplicates("key"), accuracies_of(evidence)]
    return provenance_line(
        pd.concat([part for part in parts if len(part)] or [evidence.trainings.head(0)])
    )


def draw_front(evidence: Evidence) -> "Figure":
    """Left, why: the gradient over the positions of a text. Right, when: accuracies in both settings."""
    import matplotlib.pyplot as plt

    from whenpool.report.figures import CHANCE_COLOUR
    from whenpool.report.probe_figures import nothing_yet

    profiles, runs = profiles_of(evidence), accuracies_of(evidence)
    if profiles.empty or runs.empty:
        return nothing_yet()
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.7, 2.5), width_ratios=(1, 1.1))
    means = profiles.groupby(["pooling", "position"])["mean"].mean()
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
    accuracies = runs.groupby(["pooling", "setting"])["test_accuracy"].mean().unstack()
    dot = {"solid_capstyle": "round"}  # a line of no length: a marker takes far more bytes of a page
    for place, model in enumerate(MODELS):
        plain, mid = (accuracies.loc[model, name] for name in SETTINGS)
        right.plot([plain, mid], [place, place], color=COLOURS[model], lw=2)
        for value, width, colour in (
            (plain, 9, COLOURS[model]),
            (mid, 9, COLOURS[model]),
            (mid, 5, "w"),
        ):
            right.plot([value, value], [place, place], color=colour, lw=width, **dot)
    chance = _chance(evidence)
    right.axvline(chance, color=CHANCE_COLOUR, ls=":", lw=1.5)
    right.annotate("chance", (chance, 4), xytext=(4, 0), color="#5c5c5c", **beside)
    first = accuracies.loc[MODELS[0]]
    right.annotate("in filler", (first["mid"], 0), xytext=(7, -9), **beside)
    right.annotate("as it is", (first["standard"], 0), xytext=(-7, -9), ha="right", **beside)
    right.set_yticks(range(len(MODELS)), [POOLING_NAMES[model] for model in MODELS])
    right.grid(False, axis="y")
    right.set(xlabel="test accuracy, %", ylim=(4.6, -0.6))
    right.set_title(f"When: IMDb, {SIZE:,} reviews", loc="left", fontweight="bold")
    return figure


def _leader(evidence: Evidence, setting: str) -> tuple[str, PerSeed, bool] | None:
    """The model with the highest mean over the seeds that all have, its accuracies, and whether it leads
    for each of those seeds."""
    parts = paired([evidence.accuracies(name, size=SIZE, setting=setting) for name in MODELS])
    reached = dict(zip(MODELS, parts, strict=True))
    if not all(parts):
        return None
    best = max(reached, key=lambda name: fmean(reached[name].values()))
    others = [minus(reached[best], reached[name]) for name in MODELS if name != best]
    return best, reached[best], all(direction(part) == 1 for part in others)


def _chance(evidence: Evidence) -> float | None:
    runs = accuracies_of(evidence)
    return float(runs["majority_accuracy"].mean()) if len(runs) else None


def _gap(gaps: PerSeed) -> str:
    """The difference to the BiLSTM, over seeds."""
    low, high = min(gaps.values()), max(gaps.values())
    if direction(gaps) == 0:
        return f"between {-low:.1f} points below it and {high:.1f} above"
    low, high = sorted((abs(low), abs(high)))
    span = f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
    return f"{span} points {'above' if direction(gaps) == 1 else 'below'} it"


def _span(values: PerSeed) -> str:
    low, high = (number_text(choose(values.values())) for choose in (min, max))
    return low if low == high else f"{low} to {high}"


def _seeds(*parts: PerSeed) -> str:
    """A caution where there are fewer seeds than a verdict needs."""
    fewest = min(map(len, parts))
    return f" (so far {fewest} seed{'s' if fewest > 1 else ''})" if fewest < SEEDS_NEEDED else ""
