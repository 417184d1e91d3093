"""The tables and figures of "Regularisation and tuning" (thesis §1.4.2).

``runs`` are rows of `Store.trainings` of one corpus and size, ``histories`` rows of `Store.histories`.
"""

from typing import TYPE_CHECKING

import numpy as np

from whenpool.models.registry import POOLING_NAMES
from whenpool.runs.plans.regularisation import TIMED_SEEDS
from whenpool.book.report.tables import mean_text
from whenpool.book.report.verdicts import Cell, column
from whenpool.book.report.tables import number_text

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from whenpool.book.report.evidence import Evidence

KINDS = {"drop_connect": "DropConnect", "weight_decay": "weight decay"}
SETTINGS = ("standard", "mid")
TIMES = (
    "Of each model and seed the fastest epoch, validation included. These trainings ran one after "
    "another, with nothing else running. From the lowest to the highest of the seeds."
)
"""What `time_table` shows."""


def on_record(evidence: "Evidence") -> "DataFrame":
    """The small trainings of a bidirectional LSTM of one layer, with whatever regularisation."""
    runs = evidence.small
    if runs is None or runs.empty:
        return evidence.trainings.head(0)
    return runs[(runs["cell"] == "lstm") & (runs["layers"] == 1) & runs["bidirectional"].eq(True)]


def grid_runs(runs: "DataFrame") -> "DataFrame":
    """Those of the two grids: on unmixed texts, not sustained, at the learning rate of the most."""
    if runs.empty:
        return runs
    brief = runs[(runs["setting"] == "standard") & (runs["epochs"] == runs["epochs"].min())]
    return brief[brief["learning_rate"] == brief["learning_rate"].mode().iloc[0]]


def gains(runs: "DataFrame") -> "DataFrame":
    """Points that each regularisation gains over none, by model and seed.

    Returns:
        Columns ``pooling``, ``seed``, ``kind`` (a key of `KINDS`), ``value`` and ``gain``.
    """
    import pandas as pd

    rows = []
    grid = grid_runs(runs)
    for (pooling, seed), own in grid.groupby(["pooling", "seed"]) if len(grid) else ():
        none = own[_plain(own)]["test_accuracy"]
        for kind in KINDS if len(none) else ():
            for _, run in own[own[kind] > 0].iterrows():
                gain = run["test_accuracy"] - none.iloc[-1]
                rows.append((pooling, seed, kind, run[kind], gain))
    return pd.DataFrame(rows, columns=["pooling", "seed", "kind", "value", "gain"])


def gains_table(runs: "DataFrame") -> "DataFrame":
    """A row for each model: test accuracy without regularisation, the regularisation that the
    validation accuracy prefers, the mean over seeds, and its gain; of seeds with the whole grid."""
    import pandas as pd

    rows = []
    grid, found = grid_runs(runs), gains(runs)
    for pooling in _in_order(grid):
        own = grid[grid["pooling"] == pooling]
        ways = own.groupby("seed")["key"].nunique()
        own = own[own["seed"].isin(ways[ways == ways.max()].index)]
        other = own[~_plain(own)]
        if other.empty:
            continue
        means = other.groupby(list(KINDS))["validation_accuracy"].mean()
        best = dict(zip(KINDS, means.idxmax(), strict=True))
        kind = max(best, key=lambda name: best[name])
        mine = (found["pooling"] == pooling) & (found["kind"] == kind) & (found["value"] == best[kind])
        mine &= found["seed"].isin(own["seed"])
        none = own[_plain(own)]
        rows.append(
            {
                "": POOLING_NAMES[pooling],
                "none": _text(none["test_accuracy"]),
                "best by validation": f"{KINDS[kind]} {number_text(best[kind])}",
                "gain": ", ".join(f"{gain:+.1f}" for gain in found[mine].sort_values("seed")["gain"]),
            }
        )
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def rate_runs(runs: "DataFrame") -> "DataFrame":
    """Those that are not regularised, on unmixed texts and not sustained, of seeds that have all the
    learning rates."""
    if runs.empty:
        return runs
    plain = runs[_plain(runs) & (runs["setting"] == "standard")]
    plain = plain[plain["epochs"] == plain["epochs"].min()]
    tried = plain.groupby(["pooling", "seed"])["learning_rate"].transform("nunique")
    return plain[tried == plain["learning_rate"].nunique()]


def rates_table(runs: "DataFrame") -> "DataFrame":
    """Validation accuracy by model and learning rate, nothing regularised; the highest mean of a model
    in bold."""
    import pandas as pd

    plain = rate_runs(runs)
    if plain.empty:
        return pd.DataFrame([{"": "no such runs yet"}])
    rows = []
    for pooling in _in_order(plain):
        own = plain[plain["pooling"] == pooling].groupby("learning_rate")["validation_accuracy"]
        highest = own.mean().max()
        texts = {rate: _text(values) for rate, values in own}
        rows.append(
            {"": POOLING_NAMES[pooling]}
            | {
                f"{rate:g}": f"**{text}**" if np.isclose(own.mean()[rate], highest) else text
                for rate, text in texts.items()
            }
        )
    return pd.DataFrame(rows).fillna("")


def sustained(runs: "DataFrame") -> "DataFrame":
    """The longest trainings among some, where there are such."""
    if runs.empty or runs["epochs"].nunique() < 2:
        return runs.head(0)
    return runs[runs["epochs"] == runs["epochs"].max()]


def sustained_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy of the longest trainings, with the brief ones beside, by setting and DropConnect."""
    import pandas as pd

    long = sustained(runs)
    if long.empty:
        return pd.DataFrame([{"": "no such runs yet"}])
    rates = sorted(long["drop_connect"].unique())
    mine = runs["pooling"].isin(long["pooling"]) & runs["drop_connect"].isin([0.0, *rates])
    mine &= (runs["weight_decay"] == 0) & (runs["learning_rate"] == long["learning_rate"].iloc[0])
    shown = runs[mine].sort_values(["epochs", "drop_connect"])
    rows = []
    for pooling in _in_order(shown):
        for (epochs, rate), own in shown[shown["pooling"] == pooling].groupby(
            ["epochs", "drop_connect"]
        ):
            texts = {
                setting: _text(part)
                for setting in SETTINGS
                if len(part := own[own["setting"] == setting]["test_accuracy"])
            }
            row = {"": POOLING_NAMES[pooling], "epochs": int(epochs)}
            rows.append(row | {"DropConnect": f"{rate:g}" if rate else "none"} | texts)
    return pd.DataFrame(rows).fillna("")


def sustained_epochs(runs: "DataFrame", histories: "DataFrame") -> "DataFrame":
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


def timed_runs(runs: "DataFrame") -> "DataFrame":
    """Those whose epochs can be compared: plain ones of `TIMED_SEEDS`, each trained by itself, on the
    device and with the threads that the most had."""
    if runs.empty:
        return runs
    alone = ~(column(runs, "together").fillna(1).astype(float) > 1)
    usual = _plain(runs) & (runs["learning_rate"] == runs["learning_rate"].mode().iloc[0])
    runs = runs[alone & usual & (runs["setting"] == "standard") & runs["seed"].isin(TIMED_SEEDS)]
    runs = runs[runs["epochs"] == runs["epochs"].min()]
    for name in ("device", "threads"):
        runs = runs[runs[name].isin(runs[name].mode().iloc[:1])]
    return runs


def fastest_epochs(runs: "DataFrame", histories: "DataFrame") -> "DataFrame":
    """Seconds of the fastest epoch of each model and seed among `timed_runs`.

    Returns:
        Columns ``pooling``, ``seed``, ``seconds``.
    """
    timed = timed_runs(runs)
    if timed.empty:
        return timed.reindex(columns=["pooling", "seed", "seconds"])
    epochs = histories[["key", "seconds"]].merge(timed[["key", "pooling", "seed"]], on="key")
    return epochs.groupby(["pooling", "seed"], as_index=False)["seconds"].min()


def time_table(runs: "DataFrame", histories: "DataFrame") -> "DataFrame":
    """Seconds of the fastest epoch of each model, and relative to the fastest model of the seed."""
    import pandas as pd

    seconds = fastest_epochs(runs, histories)
    if seconds.empty:
        return pd.DataFrame([{"": "no such runs yet"}])
    least = seconds.groupby("seed")["seconds"].transform("min")
    seconds = seconds.assign(relative=seconds["seconds"] / least)
    return pd.DataFrame(
        {
            "": POOLING_NAMES[pooling],
            "seconds": _span(seconds[seconds["pooling"] == pooling]["seconds"], ".1f"),
            "relative": _span(seconds[seconds["pooling"] == pooling]["relative"], ".2f"),
        }
        for pooling in _in_order(seconds)
    )


def _plain(runs: "DataFrame") -> "Series":
    return (runs["drop_connect"] == 0) & (runs["weight_decay"] == 0)


def _in_order(runs: "DataFrame") -> list[str]:
    return [name for name in POOLING_NAMES if len(runs) and name in set(runs["pooling"])]


def _text(values: "Series") -> str:
    return mean_text(Cell(values.mean(), values.std(ddof=1), len(values), ""))


def _span(values: "Series", style: str) -> str:
    low, high = f"{values.min():{style}}", f"{values.max():{style}}"
    return low if low == high else f"{low} to {high}"
