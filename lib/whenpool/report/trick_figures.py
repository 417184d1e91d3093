"""The figures of "Learnability tricks" that show runs (thesis §2.2)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.report.figures import CHANCE_COLOUR, COLOURS, TRICK_COLOURS, legend_of, nothing_yet
from whenpool.report.tricks import SETTINGS, VARIANTS
from whenpool.report.verdicts import column

if TYPE_CHECKING:
    from pandas import DataFrame

LOOKS: dict[str, dict[str, Any]] = {
    **{name: {"color": COLOURS[name]} for name in ("last", "max", "max_attention")},
    **{name: {"color": colour} for name, colour in TRICK_COLOURS.items()},
    "forget 2": {"color": "#000000", "ls": ":"},
    "chrono": {"color": "#767676", "ls": ":"},
    "orthogonal": {"color": "#767676", "ls": "-."},
}
"""How each variant's line looks: other starts are dotted or dashed."""
BEFORE = "before training"
ATTENDING = ("penalty_attention", "dropout_attention")


def draw_learning(epochs: "DataFrame") -> Figure:
    """Validation accuracy over the epochs, without attention, a panel for each setting.

    Args:
        epochs: rows of `Store.histories` with the columns ``setting`` and ``variant``; the mean over
            seeds is drawn.
    """
    settings = _settings(epochs)
    if not settings:
        return nothing_yet()
    figure, panels = _panels(len(settings))
    for axes, setting in zip(panels, settings, strict=True):
        for variant, name in VARIANTS.items():
            rows = _of(epochs, setting, variant)
            if len(rows):
                means = rows.groupby("epoch")["validation_accuracy"].mean()
                axes.plot(means.index, means, label=name, **LOOKS[variant])
        axes.set_title(setting)
        axes.set_xlabel("epoch")
    panels[0].set_ylabel("validation accuracy, %")
    _legend(figure, panels)
    return figure


def draw_ending(epochs: "DataFrame") -> Figure:
    """What happens as attention goes: above, validation accuracy with attention (dashed) and without;
    below, the attention on states other than the last. A column for each setting, and a line where
    the factor reaches 1.

    Args:
        epochs: as for `draw_learning`, with the columns ``factor``, ``attention_accuracy`` and
            ``mass_left``.
    """
    settings = _settings(epochs)
    if not settings or "mass_left" not in epochs or epochs["mass_left"].isna().all():
        return nothing_yet()
    figure, grid = plt.subplots(
        2, len(settings), figsize=(3.5 * max(len(settings), 1.6), 5.0), sharex=True, sharey="row",
        squeeze=False,
    )  # fmt: skip
    for place, setting in enumerate(settings):
        above, below = grid[:, place]
        for variant in ATTENDING:
            rows = _of(epochs, setting, variant)
            if rows.empty:
                continue
            names = ["attention_accuracy", "validation_accuracy", "mass_left", "factor"]
            means = rows.groupby("epoch")[names].mean()
            look = LOOKS[variant]
            above.plot(means.index, means["validation_accuracy"], label=VARIANTS[variant], **look)
            above.plot(means.index, means["attention_accuracy"], "--", lw=1.1, **look)
            below.plot(means.index, means["mass_left"], **look)
            full = means.index[means["factor"] == 1]
            for axes in (above, below) if len(full) else ():
                axes.axvline(full[0], color=CHANCE_COLOUR, ls=":", lw=1.1, zorder=1)
        below.set_yscale("log")
        above.set_title(setting)
        below.set_xlabel("epoch")
    grid[0, 0].set_ylabel("validation accuracy, %")
    grid[1, 0].set_ylabel("attention elsewhere")
    _legend(figure, grid.flat)
    return figure


def draw_trick_profiles(profiles: "DataFrame") -> Figure:
    """Gradient norm over the position in the text, on a logarithmic scale, before training and after
    it, plain or with each trick; a panel for each setting.

    Args:
        profiles: rows of the probe "gradients" with the columns ``variant`` and ``untrained``.
    """
    settings = _settings(profiles)
    if not settings:
        return nothing_yet()
    figure, panels = _panels(len(settings))
    for axes, setting in zip(panels, settings, strict=True):
        own = profiles[profiles["setting"] == setting]
        untrained = column(own, "untrained").eq(True)
        before = own[untrained]
        if len(before):
            means = before.groupby("position")["mean"].mean()
            axes.plot(means.index, means, ls="--", color=CHANCE_COLOUR, label=BEFORE)
        for variant, name in VARIANTS.items():
            rows = _of(own[~untrained], setting, variant)
            if len(rows):
                means = rows.groupby("position")["mean"].mean()
                axes.plot(means.index, means, label=name, **LOOKS[variant])
        axes.set_yscale("log")
        axes.set_title(setting)
        axes.set(xlim=(1, 100), xlabel="position in the text, %")
    panels[0].set_ylabel("‖∂L/∂h‖")
    _legend(figure, panels)
    return figure


def _of(rows: "DataFrame", setting: str, variant: str) -> "DataFrame":
    return rows[(rows["setting"] == setting) & (rows["variant"] == variant)]


def _settings(rows: "DataFrame") -> list[str]:
    return [setting for setting in SETTINGS if len(rows) and setting in set(rows["setting"])]


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure, grid = plt.subplots(
        1, count, figsize=(3.5 * max(count, 1.6), 3.6), sharey=True, squeeze=False
    )
    return figure, list(grid.flat)


def _legend(figure: Figure, panels: Iterable[Axes]) -> None:
    handles, labels = legend_of(panels)
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
