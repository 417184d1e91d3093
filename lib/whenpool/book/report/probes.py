"""What the figures and tables of gradient propagation, natural positional bias and word importance show (thesis §1.5 to §1.9)."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from whenpool.book.report.verdicts import published
from whenpool.book.report.tables import POOLING_NAMES, grid, size_text
from whenpool.book.report.tables import POOLING_NAMES
from typing import TYPE_CHECKING, Any
import numpy as np
from whenpool.corpora.settings import SETTINGS
from collections.abc import Iterable, Sequence
from pathlib import Path
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from whenpool.models.registry import COLOURS, MARKERS
from whenpool.book.report.figures import (
    CHANCE_COLOUR,
    finish,
    legend_of,
    make_panels,
    nothing_yet,
)
from whenpool.book.report.skip import CORPUS_NAMES
from whenpool.book.report.tables import POOLING_NAMES, size_text

if TYPE_CHECKING:
    from pandas import DataFrame
    from pandas import DataFrame, Series



LOW = "low"
"""The model BiLSTM_LowF, beside the names of poolings."""


def with_model(rows: "DataFrame") -> "DataFrame":
    """The same rows with a column ``model``: the pooling, or `LOW`."""
    if rows.empty:
        return rows.assign(model=[])
    return rows.assign(model=rows["pooling"].mask(rows["forget_bias"] == "low", LOW))


def at_start(profiles: "DataFrame") -> "DataFrame":
    """The gradient profiles of models that have seen their training texts once (Figure 1.2a)."""
    return profiles[profiles["epochs"] == 1] if len(profiles) else profiles


def at_end(profiles: "DataFrame") -> "DataFrame":
    """Those of models at their best epoch of a whole training."""
    return profiles[profiles["epochs"] > 1] if len(profiles) else profiles


def one_row_a_run(traces: "DataFrame") -> "DataFrame":
    """The numbers of each trace, from the rows that it measured beside them."""
    if traces.empty:
        return traces
    best = {"validation_accuracy": traces["validation_accuracy_of_run"]}
    return traces.assign(**best).drop_duplicates("key")


def level_table(profiles: "DataFrame") -> "DataFrame":
    """Mean gradient norm at the ends and in the middle of a text, a row for each model."""
    import pandas as pd

    names = {**POOLING_NAMES, LOW: "BiLSTM_LowF"}
    rows = []
    for model in names:
        found = profiles[profiles["model"] == model]
        if found.empty:
            continue
        profile = found.groupby("position")["mean"].mean().to_numpy()
        ends, middle = (profile[0] + profile[-1]) / 2, profile[49:51].mean()
        rows.append(
            {
                "model": names[model],
                "first and last word": f"{ends:.1e}",
                "middle": f"{middle:.1e}",
                "middle / ends": f"{middle / ends:.1e}",
                "seeds": str(found["seed"].nunique()),
            }
        )
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def ratio_table(traces: "DataFrame") -> "DataFrame":
    """Table 1.2: the vanishing ratio where training accuracy reaches 95 %, and the best validation
    accuracy, ours above the thesis's and the slides'.

    Args:
        traces: rows of `Store.probes` of the kind "trace".
    """
    theirs = published("vanishing")
    cells = []
    for _, row in theirs[theirs["source"] == "thesis"].iterrows():
        same = (theirs["pooling"] == row["pooling"]) & (theirs["size"] == row["size"])
        slides = theirs[same & (theirs["source"] == "slides")].iloc[0]
        ours = traces
        if len(traces):
            ours = traces[(traces["pooling"] == row["pooling"]) & (traces["size"] == row["size"])]
        thesis = f"{row['ratio']:g} ({slides['ratio']:g})"
        named = {"pooling": row["pooling"], "size": row["size"]}
        cells.append(named | {"kind": "ratio", "text": _above(_ratios(ours), thesis)})
        validation = f"{row['validation_accuracy']:.1f}"
        cells.append(named | {"kind": "validation, %", "text": _above(_validation(ours), validation)})
    import pandas as pd

    table = pd.DataFrame(cells).sort_values("kind", kind="stable")
    return grid(table, ["pooling"], ["kind", "size"], lambda row: row["text"])


def own_ratio_table(traces: "DataFrame") -> "DataFrame":
    """The same for runs that have no cell in the thesis, with the ratio before training."""
    import pandas as pd

    if traces.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    rows = []
    for (size, pooling), found in traces.groupby(["size", "pooling"], sort=False):
        reached = found.get("examples_at_95", pd.Series(dtype=float)).dropna()
        rows.append(
            {
                "pooling": POOLING_NAMES[str(pooling)],
                "texts": size_text(size),
                "at start": f"{found['ratio_at_start'].mean():.2g}",
                "at 95 %": _ratios(found) or "not reached",
                "after texts": f"{reached.mean():,.0f}" if len(reached) else "",
                "validation, %": _validation(found),
            }
        )
    return pd.DataFrame(rows)


def _ratios(found: "DataFrame") -> str:
    if found.empty or "ratio_at_95" not in found:
        return ""
    return _mean(found["ratio_at_95"].dropna().tolist(), lambda value: f"{value:.2g}")


def _validation(found: "DataFrame") -> str:
    if found.empty:
        return ""
    return _mean(found["validation_accuracy"].tolist(), lambda value: f"{value:.1f}")


def _mean(values: Sequence[float], write: Callable[[float], str]) -> str:
    if not values:
        return ""
    return f"{write(sum(values) / len(values))} ({len(values)})"


def _above(ours: str, theirs: str) -> str:
    return f"**{ours}**<br>{theirs}" if ours else theirs


LOSS_AT = 0.7
"""The share of filler at which losses are compared."""


def masked(sweeps: "DataFrame") -> "DataFrame":
    """The sweeps of models whose padding is masked."""
    return sweeps[sweeps["masked"].astype(bool)] if len(sweeps) else sweeps


def of_pooling(sweeps: "DataFrame", pooling: str) -> "DataFrame":
    """Those of one pooling."""
    return sweeps[sweeps["pooling"] == pooling] if len(sweeps) else sweeps


def both_ways(sweeps: "DataFrame") -> "DataFrame":
    """Those of the BiLSTM that were run with padding masked and with padding let in: sizes and seeds
    that both have."""
    bilstm = of_pooling(sweeps, "last")
    if bilstm.empty:
        return bilstm
    ways = bilstm.groupby(["size", "seed"])["masked"].transform("nunique")
    return bilstm[ways == 2]


def smallest(sweeps: "DataFrame") -> "DataFrame":
    """Those of the smallest training size."""
    return sweeps[sweeps["size"] == sweeps["size"].min()] if len(sweeps) else sweeps


def largest_whole(sweeps: "DataFrame") -> "DataFrame":
    """Those of the largest training size for which the most poolings were run."""
    if sweeps.empty:
        return sweeps
    poolings = sweeps.groupby("size")["pooling"].nunique()
    return sweeps[sweeps["size"] == poolings[poolings == poolings.max()].index.max()]


def loss_table(sweeps: "DataFrame") -> "DataFrame":
    """Accuracy without filler, and the points lost with much of it, by where the text is kept."""
    import pandas as pd

    rows = []
    for pooling, name in POOLING_NAMES.items():
        found = sweeps[sweeps["pooling"] == pooling] if len(sweeps) else sweeps
        if found.empty:
            continue
        means = found.groupby(["setting_added", found["share_added"].round(3)])["accuracy"].mean()
        row = {"pooling": name, "no filler, %": f"{means['left', 0.0]:.1f}"}
        for place in ("left", "mid", "right"):
            row[f"text {place}, points"] = f"{means[place, LOSS_AT] - means[place, 0.0]:+.1f}"
        rows.append(row)
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def trained_sides(trainings: "DataFrame") -> "DataFrame":
    """The BiLSTM's trainings on IMDb with the text on the left, or on the right, of the filler, at
    the smallest size."""
    if trainings.empty:
        return trainings
    bilstm = trainings[(trainings["corpus"] == "imdb") & (trainings["pooling"] == "last")]
    sides = bilstm[bilstm["setting"].isin(["left", "right"])]
    return sides[sides["size"] == sides["size"].min()]


def trained_table(sides: "DataFrame") -> "DataFrame":
    """Test accuracy of the BiLSTM trained on either side, with padding masked and let in.

    Args:
        sides: from `trained_sides`.
    """
    import pandas as pd

    rows = []
    for is_masked, name in ((True, "masked"), (False, "let in")):
        row = {"padding": name}
        for side in ("left", "right"):
            chosen = sides
            if len(sides):
                chosen = sides[(sides["masked"] == is_masked) & (sides["setting"] == side)]
            count = len(chosen)
            row[f"text {side}"] = (
                f"{chosen['test_accuracy'].mean():.1f} ({count})" if count else "not run"
            )
        rows.append(row)
    return pd.DataFrame(rows)


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which of the positions of a profile lie in the original text, by construction (§1.8.1).

    Args:
        setting: "standard", "left", "mid" or "right".
        share: filler's part of all words.

    Returns:
        (points,) bool
    """
    place = np.linspace(0, 1, points)
    low, high = text_span(setting, share)
    return (place >= low) & (place <= high)


def text_span(setting: str, share: float) -> tuple[float, float]:
    """Where the original text begins and ends, as parts of the whole."""
    return {
        "standard": (0.0, 1.0),
        "left": (0.0, 1 - share),
        "mid": (share / 2, 1 - share / 2),
        "right": (share, 1.0),
    }[setting]


def ends_and_middle(profile: Any) -> tuple[float, float]:
    """Mean NWI of both outer tenths together, and of the middle fifth, of (100,) positions."""
    return (profile[:10].mean() + profile[90:].mean()) / 2, profile[40:60].mean()


def importance_table(measured: "DataFrame") -> "DataFrame":
    """Mean NWI where the text stands, and where the filler stands, by setting (rows) and pooling.

    Args:
        measured: rows of the probe "nwi" beside the configuration of their training.
    """
    import pandas as pd

    from whenpool.book.report.tables import POOLING_NAMES, grid

    if measured.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    cells = []
    for (setting, pooling), rows in measured.groupby(["setting", "pooling"], sort=False):
        profile = rows.groupby("position")["mean"].mean().to_numpy()
        inside = where_the_text_stands(str(setting), rows["share"].iloc[0], len(profile))
        ends, middle = ends_and_middle(profile)
        text = f"{ends:.2f} / {middle:.2f}"
        if setting != "standard":
            text = f"{profile[inside].mean():.2f} / {profile[~inside].mean():.2f}"
        cells.append({"setting": setting, "pooling": pooling, "text": text})
    order = [*POOLING_NAMES, *SETTINGS]
    table = pd.DataFrame(cells).sort_values(["pooling", "setting"], key=lambda c: c.map(order.index))
    return grid(table, ["pooling"], ["setting"], lambda row: row["text"])


SEPARATOR_COLOUR = "#b2182b"


def groups_of(rows: "DataFrame") -> list[tuple[str, "DataFrame"]]:
    """Rows of one corpus, length of text and training size each, with a title that tells them apart;
    none where there is but one group."""
    differ = [n for n in ("corpus", "length", "size") if n in rows and rows[n].nunique() > 1]
    if not differ:
        return [("", rows)]
    several = differ != ["size"]
    return [(_title(part.iloc[0], several), part) for _, part in rows.groupby(differ, sort=False)]


def draw_profiles(profiles: "DataFrame") -> Figure:
    """Gradient norm over the position in the text, on a logarithmic scale, a line for each model.

    Args:
        profiles: rows of the probe "gradients" with a column ``model``; the mean over seeds is drawn,
            a panel for each corpus and training size.
    """
    if profiles.empty:
        return nothing_yet()
    groups = groups_of(profiles)
    figure, column = plt.subplots(
        len(groups), figsize=(6.6, 3.2 * len(groups) + 0.4), sharex=True, squeeze=False
    )
    names = {**POOLING_NAMES, LOW: "BiLSTM, low forget gate"}
    for axes, (title, part) in zip(column.flat, groups, strict=True):
        for model, name in names.items():
            rows = part[part["model"] == model]
            if rows.empty:
                continue
            means = rows.groupby("position")["mean"].mean()
            colour, style = (COLOURS["last"], "--") if model == LOW else (COLOURS[model], "-")
            axes.plot(means.index, means, style, color=colour, label=name)
        axes.set_yscale("log")
        axes.set(ylabel="‖∂L/∂h‖", xlim=(1, 100), title=title)
    column[-1, 0].set_xlabel("position in the text, %")
    _legend(figure, column.flat, columns=3)
    return figure


def draw_traces(traces: "DataFrame") -> Figure:
    """The vanishing ratio over training, above the accuracies, a column for each corpus and size.

    Args:
        traces: rows of the probe "trace"; the mean over seeds is drawn.
    """
    if traces.empty:
        return nothing_yet()
    groups = groups_of(traces.sort_values("size", kind="stable"))
    width = 3.4 * max(len(groups), 2)
    figure, grid = plt.subplots(
        2, len(groups), figsize=(width, 5.2), sharex="col", sharey="row", squeeze=False
    )
    for column, (title, part) in enumerate(groups):
        above, below = grid[0, column], grid[1, column]
        for pooling, name in POOLING_NAMES.items():
            rows = part[part["pooling"] == pooling]
            if rows.empty:
                continue
            means = rows.groupby("examples")[["ratio", "train_accuracy", "validation_accuracy"]].mean()
            batches, colour = means.index / 64, COLOURS[pooling]
            above.plot(batches, means["ratio"], color=colour, label=name)
            below.plot(batches, means["validation_accuracy"], color=colour)
            below.plot(batches, means["train_accuracy"], "--", color=colour, lw=0.9)
        above.set_yscale("log")
        above.set_title(title or _title(part.iloc[0], several=False))
        below.set_xlabel("batches of 64 texts")
    grid[0, 0].set_ylabel("vanishing ratio")
    grid[1, 0].set_ylabel("accuracy, %")
    _legend(figure, grid[0])
    return figure


def draw_sweeps(sweeps: "DataFrame", by: str = "pooling") -> Figure:
    """Accuracy over the share of filler, a panel for each place of the text.

    Args:
        sweeps: rows of the probe "sweep"; the mean over seeds is drawn, a row of panels for each
            corpus and training size, unless ``by`` tells sizes apart.
        by: the column that tells the lines apart, "pooling", "size" or "masked".
    """
    if sweeps.empty:
        return nothing_yet()
    places = [place for place in ("left", "mid", "right") if place in set(sweeps["setting_added"])]
    groups = [("", sweeps)] if by == "size" else groups_of(sweeps)
    figure, grid = plt.subplots(
        len(groups), len(places), figsize=(7.4, 2.7 * len(groups) + 0.5), sharex=True, sharey="row",
        squeeze=False,
    )  # fmt: skip
    for row, (title, part) in zip(grid, groups, strict=True):
        for axes, place in zip(row, places, strict=True):
            rows = part[part["setting_added"] == place]
            for value, label, look in _lines(rows, by):
                means = rows[rows[by] == value].groupby("share_added")["accuracy"].mean()
                axes.plot(100 * means.index, means, label=label, **look)
            axes.set_title(f"text kept {'in the middle' if place == 'mid' else place}")
        row[0].set_ylabel(f"{title}\ntest accuracy, %" if title else "test accuracy, %")
    grid[-1][len(places) // 2].set_xlabel("filler, % of all words")
    _legend(figure, grid.flat)
    return figure


def draw_importance(measured: "DataFrame", settings: Sequence[str]) -> Figure:
    """NWI over the position in the text, a panel for each setting, a line for each pooling.

    Red lines stand where the text ends and the filler begins, by construction.

    Args:
        measured: rows of the probe "nwi"; the mean over seeds is drawn, in panels of their own for
            each corpus and training size.
    """
    if measured.empty or not settings:
        return nothing_yet()
    shown = [
        (f"{title}, {setting}" if title else setting, setting, part[part["setting"] == setting])
        for title, part in groups_of(measured)
        for setting in settings
        if setting in set(part["setting"])
    ]
    figure, found = make_panels(len(shown))
    for axes, (title, setting, rows) in zip(found, shown, strict=True):
        for pooling, name in POOLING_NAMES.items():
            own = rows[rows["pooling"] == pooling]
            if len(own):
                means = own.groupby("position")["mean"].mean()
                axes.plot(means.index, means, color=COLOURS[pooling], label=name, lw=1.3)
        for border in text_span(setting, rows["share"].iloc[0]):
            if 0 < border < 1:
                axes.axvline(1 + 99 * border, color=SEPARATOR_COLOUR, lw=1.4)
        axes.set_title(title)
        axes.set(xlim=(1, 100), ylim=(0, None))
    finish(figure, found, "normalised word importance", "position in the text, %")
    return figure


def draw_answers(answers: "DataFrame") -> Figure:
    """The probability of the right class over the share of filler around one text, a line a model.

    Args:
        answers: columns ``pooling``, ``share`` and ``probability``; no rows where no model is here.
    """
    if answers.empty:
        return nothing_yet()
    figure, axes = plt.subplots(figsize=(6.2, 3.2))
    for pooling, name in POOLING_NAMES.items():
        rows = answers[answers["pooling"] == pooling]
        if len(rows):
            axes.plot(
                100 * rows["share"], rows["probability"], marker=MARKERS[pooling], ms=5,
                color=COLOURS[pooling], label=name,
            )  # fmt: skip
    axes.axhline(0.5, color=CHANCE_COLOUR, ls=":", lw=1.2)
    axes.set(xlabel="filler, % of all words", ylabel="probability of the right class", ylim=(0, 1.02))
    _legend(figure, [axes])
    return figure


def _title(row: "Series", several: bool) -> str:
    """The training size of a run, and where there are several its corpus and length of text."""
    size = f"{size_text(row['size'])} training texts"
    if not several:
        return size
    name = Path(CORPUS_NAMES.get(row["corpus"], str(row["corpus"]).split(":")[0])).name
    name = name.replace("$", r"\$")  # which would begin a formula
    return f"{name}{', short' if row['length'] == 'short' else ''}, {size}"


def _lines(rows: "DataFrame", by: str) -> list[tuple[object, str, dict[str, object]]]:
    """What tells the lines of a sweep apart: value, label and look."""
    found = set(rows[by])
    if by == "pooling":
        return [
            (p, name, {"color": COLOURS[p], "marker": MARKERS[p], "ms": 4})
            for p, name in POOLING_NAMES.items()
            if p in found
        ]
    if by == "masked":
        looks = {True: ("padding masked", "-"), False: ("padding let in", "--")}
        return [
            (value, label, {"color": COLOURS["last"], "ls": style})
            for value, (label, style) in looks.items()
            if value in found
        ]
    shades = sns.color_palette("viridis_r", len(found))
    values = sorted(found)
    return [
        (value, f"{size_text(value)} training texts", {"color": shade, "marker": "o", "ms": 4})
        for value, shade in zip(values, np.array(shades), strict=True)
    ]


def _legend(figure: Figure, panels: Iterable[Axes], columns: int = 5) -> None:
    handles, labels = legend_of(panels)
    ncols = min(len(labels), columns)
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, frameon=False)
