"""What the chapter "What theory says" shows of how a gradient shrinks, expected and measured (§2.1.3).

Letters: H units of a state, T words.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.models.registry import COLOURS, MARKERS
from whenpool.book.report.figures import CHANCE_COLOUR, legend_of
from whenpool.book.report.tables import POOLING_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

LOOKS: dict[str, dict[str, Any]] = {
    "measured": {"color": "#000000", "ls": "", "marker": "o", "ms": 3.2, "alpha": 0.55, "zorder": 3},
    "expected": {"color": "#d55e00", "ls": "-", "lw": 1.8, "zorder": 2},
    "independent": {"color": "#0072b2", "ls": "--", "lw": 1.3, "zorder": 1},
}
KINDS = {
    "measured": "measured",
    "expected": "expected",
    "independent": "expected, had each step its own weights",
}
_CHANGE_LOOKS = {
    "as assumed": ("o", "#000000"),
    "one word, repeated": ("s", "#56b4e9"),
    "orthogonal, same size": ("D", "#009e73"),
    "orthogonal, as `Encoder`": ("d", "#002d5a"),
    "symmetric weights": ("^", "#0072b2"),
    "weights of mean 1/H": ("v", "#e69f00"),
    "weights twice as large": ("P", "#cc79a7"),
}


def draw_shrinkage_curves(rows: "DataFrame", every: int = 2) -> Figure:
    """The gradient norm over the distance from the last state, a panel for each model.

    Args:
        rows: of `whenpool.theory.comparison.curves`; what was measured is drawn for each seed.
        every: at which distances what was measured is drawn.
    """
    figure, panels = _panels(rows["model"].unique())
    for model, axes in panels.items():
        for kind, part in rows[rows["model"] == model].groupby("kind"):
            shown = part[part["distance"] % every == 0] if kind == "measured" else part
            axes.plot(shown["distance"], shown["norm"], label=KINDS[str(kind)], **LOOKS[str(kind)])
        axes.set_yscale("log")
    _finish(figure, list(panels.values()), "gradient norm, relative", "steps from the last state")
    return figure


def draw_shrinkage_factors(rows: "DataFrame") -> Figure:
    """The factor per step over the units of a state, a panel for each model, a point for each seed.

    Args:
        rows: of `whenpool.theory.comparison.factors_by_size`.
    """
    figure, panels = _panels(rows["model"].unique())
    sizes = sorted(rows["hidden_size"].unique())
    for model, axes in panels.items():
        _draw_factors(axes, rows[rows["model"] == model], "hidden_size")
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
    _finish(figure, list(panels.values()), "factor per step", "units of a state, H")
    return figure


def draw_forget_biases(rows: "DataFrame") -> Figure:
    """The factor per step of an LSTM over its forget bias, a panel for each variance of the inputs.

    Args:
        rows: of `whenpool.theory.comparison.factors_by_forget_bias`.
    """
    variances = rows["input_variance"].unique()
    figure, grid = plt.subplots(1, len(variances), figsize=(7.4, 3.2), sharey=True, squeeze=False)
    for axes, variance in zip(grid[0], variances, strict=True):
        _draw_factors(axes, rows[rows["input_variance"] == variance], "forget_bias")
        axes.set_title(f"input variance {variance:g}")
        axes.set_xlabel("forget bias")
    grid[0, 0].set_ylabel("factor per step")
    _legend(figure, grid[0])
    return figure


def draw_changes(rows: "DataFrame") -> Figure:
    """The factor per step where an assumption does not hold, a row for each model.

    Args:
        rows: of `whenpool.theory.comparison.factors_by_change`; the mean over seeds is drawn.
    """
    models = list(rows["model"].unique())
    figure, axes = plt.subplots(figsize=(7.0, 4.2))
    means = rows.groupby(["model", "change", "kind"])["factor"].mean()
    changes = list(rows["change"].unique())
    for row, model in enumerate(models):
        expected = means[model, changes[0], "expected"]
        axes.plot(
            [expected, expected], [row - 0.4, row + 0.4], color=LOOKS["expected"]["color"], lw=2.2,
            label="expected as assumed",
        )  # fmt: skip
        for place, change in enumerate(changes):
            marker, colour = _CHANGE_LOOKS[change]
            height = row + 0.62 * (place / (len(changes) - 1) - 0.5)
            axes.plot(
                means[model, change, "measured"], height, marker, color=colour, ms=6, ls="",
                markeredgecolor="white", markeredgewidth=0.5, zorder=3, label=change,
            )  # fmt: skip
    axes.axvline(1, color=CHANCE_COLOUR, ls=":", lw=1.2)
    axes.set_yticks(range(len(models)), models)
    axes.set_ylim(len(models) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("factor per step")
    _legend(figure, [axes], columns=3)
    return figure


def draw_direct_gains(rows: "DataFrame") -> Figure:
    """How much of a gradient each word gets, by pooling; zeros are not drawn.

    Args:
        rows: of `whenpool.theory.comparison.direct_gains`.
    """
    figure, axes = plt.subplots(figsize=(6.8, 3.6))
    for pooling, name in POOLING_NAMES.items():
        own = rows[rows["pooling"] == pooling]
        found = own[own["gain"] > 0]
        if len(found):
            axes.plot(
                found["position"], found["gain"], MARKERS[pooling], ms=4, color=COLOURS[pooling],
                ls="-" if len(found) == len(own) else "", lw=0.9, label=name, clip_on=False, zorder=3,
            )  # fmt: skip
    through = rows[rows["pooling"] == "recurrence"]
    axes.plot(
        through["position"], through["gain"], color=COLOURS["last"], ls="--", lw=1.2,
        label="BiLSTM, with its recurrence",
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set(xlabel="position in the text, words", ylabel="‖∂s/∂h‖ / √D")
    axes.set_xlim(1, through["position"].max())
    _legend(figure, [axes], columns=3)
    return figure


def factor_table(rows: "DataFrame", hidden_size: int) -> "DataFrame":
    """Expected and measured factor per step of each model at one size, a row each.

    Args:
        rows: of `whenpool.theory.comparison.factors_by_size`.
        hidden_size: H, one of those in ``rows``.
    """
    import pandas as pd

    found = []
    for model, part in rows[rows["hidden_size"] == hidden_size].groupby("model", sort=False):
        factors = {kind: own["factor"] for kind, own in part.groupby("kind")}
        measured = factors["measured"]
        found.append(
            {
                "model": model,
                "independent steps": f"{factors['independent'].item():.3f}",
                "expected": f"{factors['expected'].item():.3f}",
                "measured": f"{measured.mean():.3f} ± {measured.std():.3f} ({len(measured)})",
            }
        )
    return pd.DataFrame(found)


def _panels(names: Sequence[str]) -> tuple[Figure, dict[str, Axes]]:
    """Two abreast, which stay legible on a phone, and low, so that six fit on a page."""
    rows = -(-len(names) // 2)
    figure, grid = plt.subplots(
        rows, 2, figsize=(6.8, 1.9 * rows + 0.7), sharex=True, sharey=True, squeeze=False
    )
    for axes in grid.flat[len(names) :]:
        axes.remove()
    panels = dict(zip(names, grid.flat, strict=False))
    for name, axes in panels.items():
        axes.set_title(name)
    return figure, panels


def _draw_factors(axes: Axes, rows: "DataFrame", over: str) -> None:
    for kind, part in rows.groupby("kind"):
        ordered = part.sort_values(over)
        axes.plot(ordered[over], ordered["factor"], label=KINDS[str(kind)], **LOOKS[str(kind)])
    axes.axhline(1, color=CHANCE_COLOUR, ls=":", lw=1.2)


def _finish(figure: Figure, panels: Sequence[Axes], vertical: str, horizontal: str) -> None:
    figure.supylabel(vertical, fontsize="medium")
    for axes in panels[-2:]:
        axes.set_xlabel(horizontal)
    _legend(figure, panels)


def _legend(figure: Figure, panels: Sequence[Axes], columns: int = 3) -> None:
    handles, labels = legend_of(panels)
    ncols = min(len(labels), columns)
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
