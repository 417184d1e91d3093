"""The tables of "Recurrent networks from scratch" and of "What theory says"."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from whenpool.runs.plans.recurrent_networks import COMPARED_CELLS, FAMILY
from whenpool.models.registry import LISTED_CELLS
from whenpool.book.report.verdicts import SMALL_MODEL, has, of_breadth, of_one_kind
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame



_RANKS: dict[str, Callable[[Any], Any]] = {
    "layers": lambda column: column,
    "bidirectional": lambda column: column.astype(bool),
    "cell": lambda column: column.map(FAMILY.index),
    "forget_bias": lambda column: column.notna(),
}
"""What a chapter's models are ordered by: the slides' order of cells."""

FLOOR = 1e-12
"""Below this a line ends: float32 keeps no more of a sum."""


def model_title(cell: str, layers: int, bidirectional: bool, forget_bias: Any = "thesis") -> str:
    """What a recurrence is called: "LSTM" for one direction, "BiLSTM" for both, "BiLSTM, 2 layers".

    Args:
        forget_bias: None, or what a table leaves empty, is torch's initialisation.
    """
    name = LISTED_CELLS[cell].title
    title = f"Bi{name}" if bidirectional else name
    parts = [title, f"{layers} layers"] if layers > 1 else [title]
    given = forget_bias is not None and forget_bias == forget_bias
    parts += ["no forget bias"] if LISTED_CELLS[cell].forgets and not given else []
    return ", ".join(parts)


def with_title(rows: "DataFrame") -> "DataFrame":
    """The same rows with a column ``model``, see `model_title`, in the order of the chapter."""
    columns = ["cell", "layers", "bidirectional", "forget_bias"]
    if rows.empty:
        return rows.assign(model=[])
    titles = [model_title(c, int(n), bool(b), f) for c, n, b, f in rows[columns].itertuples(index=False)]
    order = ["layers", "bidirectional", "cell", "forget_bias"]
    return rows.assign(model=titles).sort_values(
        order, key=lambda column: _RANKS[column.name](column), kind="stable"
    )


def one_way(rows: "DataFrame") -> "DataFrame":
    """The models of one layer that read from left to right."""
    return rows[~rows["bidirectional"].astype(bool) & (rows["layers"] == 1)] if len(rows) else rows


def directions(rows: "DataFrame") -> "DataFrame":
    """LSTMs with a forget bias, whichever way and however many layers they have."""
    return rows[(rows["cell"] == "lstm") & rows["forget_bias"].notna()] if len(rows) else rows


def relative_profiles(profiles: "DataFrame") -> "DataFrame":
    """‖∂L/∂h_t‖ over the text relative to the last word's, the mean over runs.

    Args:
        profiles: what `whenpool.runs.kinds.probe.GradientProfile` measured on models without pooling.

    Returns:
        Columns ``model``, ``cell``, ``variant`` (the number of the model among those of its cell),
        ``stage`` (``before training`` or ``after training``), ``place`` (%) and ``gradient``, empty
        below `FLOOR`; models in the order of the chapter.
    """
    if profiles.empty:
        return profiles
    stages = profiles["untrained"].eq(True).map({True: "before training", False: "after training"})
    named = with_title(profiles.assign(stage=stages))
    means = named.groupby(["model", "cell", "stage", "position"], sort=False)["mean"].mean()
    points = means.rename("gradient").reset_index().sort_values("position", kind="stable")
    lines = points.groupby(["model", "stage"])
    relative = points["gradient"] / lines["gradient"].transform("last")
    place = 100 * lines.cumcount() / (lines["gradient"].transform("size") - 1).clip(lower=1)
    models = named.drop_duplicates("model")
    variants = dict(zip(models["model"], models.groupby("cell").cumcount(), strict=True))
    points = points.assign(
        gradient=relative.where(relative > FLOOR), place=place, variant=points["model"].map(variants)
    )
    order = models["model"].tolist()
    return points.sort_values("model", key=lambda names: names.map(order.index), kind="stable")


def family_table(runs: "DataFrame", profiles: "DataFrame") -> "DataFrame":
    """A row for each model: what it learnt, how large it is, and what reaches its first word.

    Args:
        runs: trainings.
        profiles: what `whenpool.runs.kinds.probe.GradientProfile` measured on them, untrained and trained.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    reach = first_to_last(profiles)
    rows = []
    for model, found in with_title(runs).groupby("model", sort=False):
        rows.append(
            {
                "model": model,
                "test accuracy, %": f"{found['test_accuracy'].mean():.1f}",
                "weights": f"{int(found['encoder_parameters'].iloc[0]):,}",
                "first / last before": _power(reach.get((model, True))),
                "after training": _power(reach.get((model, False))),
                "seeds": str(found["seed"].nunique()),
            }
        )
    return pd.DataFrame(rows)


def first_to_last(profiles: "DataFrame") -> dict[tuple[str, bool], float]:
    """The gradient at the first word over that at the last, by model and whether it is untrained."""
    if profiles.empty:
        return {}
    found = {}
    named = with_title(profiles.assign(untrained=profiles["untrained"].eq(True)))
    for (model, untrained), rows in named.groupby(["model", "untrained"], sort=False):
        mean = rows.groupby("position")["mean"].mean()
        found[model, untrained] = float(mean.iloc[0] / mean.iloc[-1])
    return found


def on_reviews(stored: "DataFrame") -> "DataFrame":
    """The small models on the whole of IMDb that the claims of the chapter are about."""
    if stored.empty:
        return stored
    small = of_one_kind(stored[of_breadth(stored)])
    wanted = {name: value for name, value in SMALL_MODEL.items() if name not in ("cell", "layers")}
    plain = has(small, wanted | {"pooling": "last", "setting": "standard"})
    deep = (small["cell"] == "lstm") & (small["layers"] == 2)
    known = small["cell"].isin(COMPARED_CELLS) & (small["layers"] == 1)
    return small[plain & (deep | known)].reset_index(drop=True)


def reviews_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy of each of those models over its seeds."""
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    rows = []
    for model, found in with_title(runs).groupby("model", sort=False):
        accuracy = found["test_accuracy"]
        spread = f" ± {accuracy.std():.1f}" if len(accuracy) > 1 else ""
        rows.append(
            {
                "model": model,
                "test accuracy, %": f"{accuracy.mean():.1f}{spread}",
                "weights": f"{int(found['encoder_parameters'].iloc[0]):,}",
                "seeds": str(found["seed"].nunique()),
            }
        )
    return pd.DataFrame(rows)


def _power(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


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
