"""Runs, numbers and Table 2.1 of "Learnability tricks" (thesis §2.2): ``stored`` and ``runs`` are rows of
`Store.rows`, ``epochs`` of `Store.history`."""

import pandas as pd

from whenpool.book.report.tables import CaptionedTable, beside_thesis, in_order, judged
from whenpool.book.report.verdicts import as_plain, column, finished, published
from whenpool.runs.kinds.training import Training, with_model

VARIANTS = {
    "last": "BiLSTM",
    "max": "MaxPool",
    "teacher_forcing": "Teacher forcing",
    "penalty_attention": "Penalty attention",
    "dropout_attention": "Dropout attention",
    "gradient_directed": "Gradient-directed",
    "max_attention": "MaxAtt",
    "forget 2": "BiLSTM, forget bias 2",
    "chrono": "BiLSTM, chrono start",
    "orthogonal": "BiLSTM, orthogonal start",
}
"""What this chapter compares, in the order of Table 2.1, and how it calls it."""
SETTINGS = ("standard", "mid")


def with_variant(runs: pd.DataFrame) -> pd.DataFrame:
    """Those of the runs that have this chapter's settings and variants and the λ that is in use, in the order
    of `VARIANTS`, with a column ``variant``, see `whenpool.runs.kinds.training.variant_of`."""
    if runs.empty:
        return runs.assign(variant=[], setting=[])
    runs = runs.assign(variant=with_model(runs)["model"])
    as_chosen = column(runs, "strength").eq(Training.strength)
    as_chosen &= column(runs, "divergence").eq(Training.divergence)
    runs = runs[as_chosen | column(runs, "trick").ne("gradient_directed")]
    return in_order(runs.sort_values("seed", kind="stable"), variant=VARIANTS, setting=SETTINGS)


def mean_squared_error(epochs: pd.DataFrame) -> pd.Series:
    """Of teacher forcing, the lowest of all epochs, by run."""
    return epochs.groupby("key")["train_loss"].min()


def mass_left(epochs: pd.DataFrame) -> pd.Series:
    """The attention on states other than the last in the last epoch, nothing dropped, by run."""
    return epochs.sort_values("epoch").groupby("key")["mass_left"].last()


def mass_before_the_end(epochs: pd.DataFrame) -> pd.Series:
    """The same in the last epoch before the factor reaches 1: while it was still of use, by run."""
    return mass_left(epochs[epochs["factor"] < 1])


def cost_of_ending(epochs: pd.DataFrame) -> pd.Series:
    """Points of validation accuracy lost when attention goes, as the factor reaches 1, by run."""
    ordered = epochs.sort_values("epoch")
    before = ordered[ordered["factor"] < 1].groupby("key")["attention_accuracy"].last()
    after = ordered[ordered["factor"] == 1].groupby("key")["validation_accuracy"].first()
    return (before - after).dropna()


def thesis_cells(stored: pd.DataFrame) -> pd.DataFrame:
    """The cells of Table 2.1, one number each, and MaxAtt's of Table 1.3 beside, with ours and verdicts."""
    best = published("accuracy").query(
        "table == '1.3' and corpus == 'imdb' and size == 10_000 and pooling == 'max_attention' "
        f"and setting in {SETTINGS}"
    )
    table = published("learnability").rename(columns={"method": "pooling", "accuracy": "mean"})
    cells = pd.concat([table.assign(length="long", std=float("nan")), best], ignore_index=True)
    stored = as_plain(finished(with_variant(stored)))
    stored = stored.assign(pooling=stored["variant"])
    found = judged(stored, cells.fillna({"std": 0.0}))
    return found.assign(std=cells["std"]).rename(columns={"pooling": "variant"})


def thesis_table(stored: pd.DataFrame) -> CaptionedTable:
    """Table 2.1 with ours beside."""
    caption = "Table 2.1 of the thesis, IMDb, 10K training texts: test accuracy in %."
    cells, heads = thesis_cells(stored), {"variant": VARIANTS.get}
    return beside_thesis(cells, stored, ["variant"], ["setting"], caption, "tab-thesis-2-1", heads)
