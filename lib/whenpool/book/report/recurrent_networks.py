"""The tables and the figure of "Recurrent networks from scratch"."""

from typing import Any

import pandas as pd

from whenpool.book.report.accuracies import NOTHING_YET
from whenpool.book.report.verdicts import SMALL_MODEL, has, of_breadth, of_one_kind
from whenpool.models.registry import LISTED_CELLS
from whenpool.runs.plans.networks import COMPARED_CELLS, FAMILY

FLOOR = 1e-12
"""Below this a line ends: float32 keeps no more of a sum."""


def model_title(cell: str, layers: int, bidirectional: bool, forget_bias: Any = "thesis") -> str:
    """What a recurrence is called: "LSTM" for one direction, "BiLSTM" for both, "BiLSTM, 2 layers".

    Args:
        forget_bias: None, or what a table leaves empty, is torch's initialisation.
    """
    listed = LISTED_CELLS[cell]
    title = f"Bi{listed.title}" if bidirectional else listed.title
    title += f", {layers} layers" if layers > 1 else ""
    return title + (", no forget bias" if listed.forgets and pd.isna(forget_bias) else "")


def with_title(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows with a column ``model``, see `model_title`, in the order of the chapter: that of the
    slides, one direction before both, one layer before several."""
    columns = ["layers", "bidirectional", "cell", "forget_bias"]
    if rows.empty:
        return rows.assign(model=[])
    titles = [model_title(c, int(n), bool(b), f) for n, b, c, f in rows[columns].itertuples(index=False)]
    ranks = {"bidirectional": bool, "cell": FAMILY.index, "forget_bias": pd.notna, "layers": int}
    return rows.assign(model=titles).sort_values(
        columns, key=lambda own: own.map(ranks[own.name]), kind="stable"
    )


def relative_profiles(profiles: pd.DataFrame) -> pd.DataFrame:
    """‖∂L/∂h_t‖ over the text relative to the last word's, the mean over runs.

    Args:
        profiles: what `whenpool.runs.kinds.probe.GradientProfile` measured on models without pooling.

    Returns:
        Columns ``model``, ``cell``, ``layers``, ``bidirectional``, ``stage`` (``before training`` or
        ``after training``), ``place`` (%) and ``gradient``, empty below `FLOOR`; models in the order of
        the chapter.
    """
    keys = ["model", "cell", "layers", "bidirectional", "stage"]
    if profiles.empty:
        return pd.DataFrame(columns=[*keys, "place", "gradient"])
    stages = profiles["untrained"].eq(True).map({True: "before training", False: "after training"})
    named = with_title(profiles.assign(stage=stages))
    means = named.sort_values("position", kind="stable").groupby([*keys, "position"], sort=False)["mean"]
    points = means.mean().rename("gradient").reset_index()
    lines = points.groupby(["model", "stage"])
    relative = points["gradient"] / lines["gradient"].transform("last")
    steps = (lines["gradient"].transform("size") - 1).clip(lower=1)
    points = points.assign(
        gradient=relative.where(relative > FLOOR), place=100 * lines.cumcount() / steps
    )
    order = list(dict.fromkeys(named["model"]))
    return points.sort_values("model", key=lambda own: own.map(order.index), kind="stable")


def on_reviews(stored: pd.DataFrame) -> pd.DataFrame:
    """The small models on the whole of IMDb that the claims of the chapter are about."""
    if stored.empty:
        return stored
    runs = of_one_kind(stored[of_breadth(stored)])
    wanted = {name: value for name, value in SMALL_MODEL.items() if name not in ("cell", "layers")}
    plain = has(runs, wanted | {"pooling": "last", "setting": "standard"})
    deep = (runs["cell"] == "lstm") & (runs["layers"] == 2)
    known = runs["cell"].isin(COMPARED_CELLS) & (runs["layers"] == 1)
    return runs[plain & (deep | known)].reset_index(drop=True)


def model_table(runs: pd.DataFrame, profiles: pd.DataFrame | None = None) -> pd.DataFrame:
    """A row for each model: test accuracy, weights, seeds; and what reaches its first word, where its
    gradients were measured."""
    if runs.empty:
        return NOTHING_YET
    reach = {} if profiles is None or profiles.empty else _first_to_last(profiles)
    rows = []
    for model, found in with_title(runs).groupby("model", sort=False):
        accuracy = found["test_accuracy"]
        spread = f" ± {accuracy.std():.1f}" if len(accuracy) > 1 else ""
        row = {"model": model, "test accuracy, %": f"{accuracy.mean():.1f}{spread}"}
        row["weights"] = f"{int(found['encoder_parameters'].iloc[0]):,}"
        if profiles is not None:
            row["first / last before"] = reach.get((model, True), "")
            row["after training"] = reach.get((model, False), "")
        rows.append(row | {"seeds": str(found["seed"].nunique())})
    return pd.DataFrame(rows)


def _first_to_last(profiles: pd.DataFrame) -> dict[tuple[str, bool], str]:
    """The gradient at the first word over that at the last, by model and whether it is untrained."""
    named = with_title(profiles.assign(untrained=profiles["untrained"].eq(True)))
    means = named.groupby(["model", "untrained", "position"])["mean"].mean()
    lines = means.groupby(["model", "untrained"])
    return (lines.first() / lines.last()).map("{:.1e}".format).to_dict()
