"""The figures of "Learning under limited data" that show runs (thesis §1.10)."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.few_shot_run import CONTRAST, SYSTEMS, UNLABELLED
from whenpool.report.few_shot import NAMES
from whenpool.report.figures import CHANCE_COLOUR, COLOURS, TRICK_COLOURS, legend_of, nothing_yet

if TYPE_CHECKING:
    from pandas import DataFrame

LOOKS: dict[str, dict[str, Any]] = {
    "vampire": {"color": TRICK_COLOURS["gradient_directed"], "marker": "p"},
    "bert": {"color": TRICK_COLOURS["teacher_forcing"], "marker": "s"},
    "tmix": {"color": COLOURS["attention"], "marker": "D"},
    "max_attention": {"color": COLOURS["max_attention"], "marker": "o"},
    "uda": {"color": COLOURS["max"], "marker": "^"},
    "mixtext": {"color": COLOURS["last_attention"], "marker": "v"},
    "last_words": {"color": COLOURS["last"], "marker": "s", "ls": "--"},
    "max_attention_words": {"color": COLOURS["max_attention"], "marker": "o", "ls": "--"},
}
"""How each system looks: max-attention and the BiLSTM as in the whole book, dashed on word vectors."""
PANELS = {
    "no unlabelled texts": [name for name in (*SYSTEMS, *CONTRAST) if name not in UNLABELLED],
    "with unlabelled texts": [name for name in SYSTEMS if name in UNLABELLED] + ["max_attention"],
}
"""What is compared in each panel; MaxAtt stands in both."""
GUESSING = "guessing"


def draw_accuracy(runs: "DataFrame") -> Figure:
    """Test accuracy of each system: along the number of labels where there are several, else in a row
    each.

    Args:
        runs: from `whenpool.report.few_shot_rules.arranged`; those of the first corpus are drawn.
    """
    if runs.empty:
        return nothing_yet()
    runs = runs[runs["corpus"] == runs["corpus"].iloc[0]]
    return draw_over_labels(runs) if runs["per_class"].nunique() > 1 else draw_systems(runs)


def draw_over_labels(runs: "DataFrame") -> Figure:
    """Test accuracy over labelled texts of each class, a line for the mean of each system over seeds and
    a point for each seed; a panel without and one with unlabelled texts.

    Args:
        runs: of one corpus.
    """
    figure, panels = plt.subplots(1, 2, figsize=(7, 3.9), sharex=True, sharey=True)
    counts = sorted(int(count) for count in set(runs["per_class"]))
    for axes, (title, systems) in zip(panels, PANELS.items(), strict=True):
        shown = [name for name in systems if name in set(runs["system"])]
        for place, system in enumerate(shown):
            own, look = runs[runs["system"] == system], LOOKS[system]
            aside = 1.035 ** (place - (len(shown) - 1) / 2)  # so that points of systems lie side by side
            means = own.groupby("per_class")["test_accuracy"].mean()
            axes.plot(
                means.index * aside, means, lw=2.6 if system == "max_attention" else 1.6, ms=5,
                markeredgecolor="white", mew=0.6, label=NAMES[system], zorder=3, **look,
            )  # fmt: skip
            axes.scatter(
                own["per_class"] * aside, own["test_accuracy"], s=9, color=look["color"], alpha=0.45,
                lw=0, zorder=2,
            )  # fmt: skip
        _guessing(axes, runs)
        axes.set_xscale("log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.set(title=title, xlabel="labelled texts of each class")
    panels[0].set_ylabel("test accuracy, %")
    handles, labels = legend_of(panels)
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_systems(runs: "DataFrame") -> Figure:
    """Test accuracy with one number of labels: a row for each system, a point for each seed, a line at
    their mean.

    Args:
        runs: of one corpus and number of labels.
    """
    systems = [name for name in NAMES if name in set(runs["system"])]
    figure, axes = plt.subplots(figsize=(7, 0.9 + 0.34 * len(systems)))
    for place, system in enumerate(systems):
        values, look = runs.loc[runs["system"] == system, "test_accuracy"], LOOKS[system]
        axes.plot(
            values, [place] * len(values), look["marker"], color=look["color"], ms=8,
            zorder=3, mfc="white" if system in CONTRAST else look["color"],
            mec=look["color"] if system in CONTRAST else "white",
        )  # fmt: skip
        axes.vlines(values.mean(), place - 0.32, place + 0.32, color=look["color"], lw=1.6)
    level = runs["majority_accuracy"].mean()
    axes.axvline(level, color=CHANCE_COLOUR, ls=":", lw=1.2, zorder=1)
    axes.annotate(
        GUESSING, (level, 1), xycoords=("data", "axes fraction"), xytext=(0, 3), ha="center",
        textcoords="offset points", color=CHANCE_COLOUR, fontsize="small",
    )  # fmt: skip
    axes.set_yticks(range(len(systems)), [NAMES[system] for system in systems])
    axes.set_ylim(len(systems) - 0.4, -0.6)
    axes.set_xlabel("test accuracy, %")
    axes.grid(axis="y", visible=False)
    return figure


def _guessing(axes: Axes, runs: "DataFrame") -> None:
    axes.axhline(
        runs["majority_accuracy"].mean(), color=CHANCE_COLOUR, ls=":", lw=1.2, zorder=1, label=GUESSING
    )
