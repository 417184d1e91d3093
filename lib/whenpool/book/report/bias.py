"""What the figures and tables of natural positional bias show (thesis §1.7)."""

from typing import TYPE_CHECKING

from whenpool.book.report.tables import POOLING_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

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
