"""The tables and figures of "Regularisation and tuning" (thesis §1.4.2).

``runs`` are rows of `Store.rows` of one corpus and size, ``histories`` rows of `Store.history`.
"""

import pandas as pd

from whenpool.book.report.accuracies import NOTHING_YET, in_order, settings_of, spread
from whenpool.book.report.evidence import Evidence
from whenpool.book.report.tables import number_text
from whenpool.book.report.verdicts import column
from whenpool.models.registry import POOLING_NAMES
from whenpool.runs.plans.networks import TIMED_SEEDS

KINDS = {"drop_connect": "DropConnect", "weight_decay": "weight decay"}
TIMES = (
    "Of each model and seed the fastest epoch, validation included. These trainings ran one after "
    "another, with nothing else running. From the lowest to the highest of the seeds."
)
"""What `time_table` shows."""


def on_record(evidence: Evidence) -> pd.DataFrame:
    """The small trainings of a bidirectional LSTM of one layer, with whatever regularisation."""
    runs = evidence.small
    if runs is None or runs.empty:
        return evidence.trainings.head(0)
    return runs[(runs["cell"] == "lstm") & (runs["layers"] == 1) & runs["bidirectional"].eq(True)]


def _brief(runs: pd.DataFrame) -> pd.DataFrame:
    """Those on unmixed texts that were not sustained, by pooling."""
    if runs.empty:
        return runs
    brief = runs[(runs["setting"] == "standard") & (runs["epochs"] == runs["epochs"].min())]
    return in_order(brief, pooling=POOLING_NAMES)


def _plain(runs: pd.DataFrame) -> pd.Series:
    return (runs["drop_connect"] == 0) & (runs["weight_decay"] == 0)


def grid_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Those of the two grids: on unmixed texts, not sustained, at the learning rate of the most."""
    brief = _brief(runs)
    return brief[brief["learning_rate"].isin(brief["learning_rate"].mode()[:1])] if len(runs) else runs


def gains(runs: pd.DataFrame) -> pd.DataFrame:
    """Points that each regularisation gains over none, by model and seed.

    Returns:
        Columns ``pooling``, ``seed``, ``kind`` (a key of `KINDS`), ``value`` and ``gain``, and those of
        the run.
    """
    grid = grid_runs(runs)
    if grid.empty:
        return pd.DataFrame(columns=["pooling", "seed", "kind", "value", "gain"])
    none = grid[_plain(grid)].drop_duplicates(["pooling", "seed"], keep="last")
    others = grid[~_plain(grid)].merge(
        none[["pooling", "seed", "test_accuracy"]], on=["pooling", "seed"], suffixes=("", "_of_none")
    )
    kinds = others[list(KINDS)].idxmax(axis=1)  # one of both is 0
    gain = others["test_accuracy"] - others["test_accuracy_of_none"]
    return others.assign(kind=kinds, value=others[list(KINDS)].max(axis=1), gain=gain)


def gains_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each model: test accuracy without regularisation, the regularisation that the
    validation accuracy prefers, the mean over seeds, and its gain; of seeds with the whole grid."""
    grid, found = grid_runs(runs), gains(runs)
    rows = []
    for pooling, own in found.groupby("pooling", sort=False):
        ways = own.groupby("seed")["key"].nunique()
        own = own[own["seed"].isin(ways[ways == ways.max()].index)].sort_values("seed")
        way = own.groupby(list(KINDS))["validation_accuracy"].mean().idxmax()
        best = own[(own[list(KINDS)] == list(way)).all(axis=1)]
        none = grid[_plain(grid) & (grid["pooling"] == pooling) & grid["seed"].isin(own["seed"])]
        rows.append(
            {
                "": POOLING_NAMES[pooling],
                "none": spread(none["test_accuracy"]),
                "best by validation": f"{KINDS[best['kind'].iloc[0]]} {number_text(max(way))}",
                "gain": ", ".join(best["gain"].map("{:+.1f}".format)),
            }
        )
    return pd.DataFrame(rows) if rows else NOTHING_YET


def rate_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Those that are not regularised, on unmixed texts and not sustained, of seeds that have all the
    learning rates."""
    if runs.empty:
        return runs
    plain = _brief(runs)[_plain(_brief(runs))]
    tried = plain.groupby(["pooling", "seed"])["learning_rate"].transform("nunique")
    return plain[tried == plain["learning_rate"].nunique()]


def rates_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Validation accuracy by model and learning rate, nothing regularised; the highest mean of a model
    in bold."""
    runs = rate_runs(runs)
    if runs.empty:
        return NOTHING_YET
    cells = runs.groupby(["pooling", "learning_rate"], sort=False)["validation_accuracy"]
    texts, means = cells.agg(spread), cells.mean()
    highest = means == means.groupby("pooling").transform("max")
    wide = texts.mask(highest, "**" + texts + "**").unstack(sort=False).sort_index(axis=1).fillna("")
    wide = wide.rename(POOLING_NAMES).rename(columns="{:g}".format)
    return wide.rename_axis(index="", columns=None).reset_index()


def sustained(runs: pd.DataFrame) -> pd.DataFrame:
    """The longest trainings among some, where there are such."""
    if runs.empty or runs["epochs"].nunique() < 2:
        return runs.head(0)
    return runs[runs["epochs"] == runs["epochs"].max()]


def sustained_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of the longest trainings, with the brief ones beside, by setting and DropConnect."""
    long = sustained(runs)
    if long.empty:
        return NOTHING_YET
    mine = runs["pooling"].isin(long["pooling"]) & runs["drop_connect"].isin(
        [0.0, *long["drop_connect"]]
    )
    mine &= (runs["weight_decay"] == 0) & (runs["learning_rate"] == long["learning_rate"].iloc[0])
    shown = in_order(runs[mine].sort_values(["epochs", "drop_connect"]), pooling=POOLING_NAMES)
    shown = shown.assign(drop_connect=shown["drop_connect"].map("{:g}".format).replace("0", "none"))
    rows = ["pooling", "epochs", "drop_connect"]
    texts = shown.groupby([*rows, "setting"], sort=False)["test_accuracy"].agg(spread)
    wide = texts.unstack().reindex(
        pd.MultiIndex.from_frame(shown[rows].drop_duplicates()), columns=settings_of(shown)
    )
    wide = wide.fillna("").rename(POOLING_NAMES).rename_axis(columns=None).reset_index()
    return wide.rename(columns={"pooling": "", "drop_connect": "DropConnect"})


def sustained_epochs(runs: pd.DataFrame, histories: pd.DataFrame) -> pd.DataFrame:
    """The epochs of the longest trainings on unmixed texts.

    Returns:
        Columns ``pooling``, ``drop_connect``, ``regularised`` (as written in a title), ``seed``,
        ``epoch``, ``texts`` (``training`` or ``validation``) and ``accuracy``, by ``drop_connect``.
    """
    long = sustained(runs)
    if long.empty:
        return long
    long = long[long["setting"] == "standard"].sort_values("drop_connect", kind="stable")
    told = [f"DropConnect {rate:g}" if rate else "not regularised" for rate in long["drop_connect"]]
    long = long.assign(regularised=told)[["key", "pooling", "drop_connect", "regularised", "seed"]]
    epochs = long.merge(histories, on="key").rename(
        columns={"validation_accuracy": "validation", "train_accuracy": "training"}
    )
    kept = ["pooling", "drop_connect", "regularised", "seed", "epoch"]
    return epochs.melt(kept, ["validation", "training"], "texts", "accuracy")


def timed_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Those whose epochs can be compared: plain ones of `TIMED_SEEDS`, each trained by itself, on the
    device and with the threads that the most had."""
    runs = grid_runs(runs)
    if runs.empty:
        return runs
    alone = ~(column(runs, "together").fillna(1).astype(float) > 1)
    runs = runs[alone & _plain(runs) & runs["seed"].isin(TIMED_SEEDS)]
    for name in ("device", "threads"):
        runs = runs[runs[name].isin(runs[name].mode()[:1])]
    return runs


def time_table(runs: pd.DataFrame, histories: pd.DataFrame) -> pd.DataFrame:
    """Seconds of the fastest epoch of each model, and relative to the fastest model of the seed."""
    timed = timed_runs(runs)
    if timed.empty:
        return NOTHING_YET
    epochs = timed[["key", "pooling", "seed"]].merge(histories[["key", "seconds"]], on="key")
    seconds = epochs.groupby(["pooling", "seed"], sort=False)["seconds"].min()
    relative = seconds / seconds.groupby("seed").transform("min")
    return pd.DataFrame(
        {
            "": POOLING_NAMES[pooling],
            "seconds": _range(own, ".1f"),
            "relative": _range(relative[pooling], ".2f"),
        }
        for pooling, own in seconds.groupby("pooling", sort=False)
    )


def _range(values: pd.Series, style: str) -> str:
    return " to ".join(dict.fromkeys(f"{end:{style}}" for end in (values.min(), values.max())))
