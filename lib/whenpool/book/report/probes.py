"""What the figures and tables of gradient propagation, natural positional bias and word importance show
(thesis §1.5 to §1.9).

Rows are what a probe measured beside the configuration of its model, a row for each point.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from whenpool.book.report.accuracies import NOTHING_YET, in_order
from whenpool.book.report.skip import CORPUS_NAMES
from whenpool.book.report.tables import POOLING_NAMES, grid, size_text
from whenpool.book.report.verdicts import column, published
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import PALETTE as POOLING_PALETTE

LOW = "BiLSTM_LowF"
"""The BiLSTM whose forget gates start low."""
PALETTE = POOLING_PALETTE | {LOW: POOLING_PALETTE["BiLSTM"]}
DASHES = dict.fromkeys(PALETTE, "") | {LOW: (4, 1.5)}
LOSS_AT = 0.7
"""The share of filler at which losses are compared."""


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``model`` as figures call it, the pooling or `LOW`, and ``texts``, what was learnt from:
    corpus and length of text where there are several, and the training size. Both are in order.
    """
    if rows.empty:
        return rows.assign(model=[], texts=[])
    several = len(rows[["corpus", "length"]].drop_duplicates()) > 1
    runs = rows.drop_duplicates("key").sort_values(["corpus", "length", "size"])
    texts = {run.key: _texts(run, several) for run in runs.itertuples()}
    models = rows["pooling"].map(POOLING_NAMES).mask(rows["forget_bias"] == "low", LOW)
    drawn = rows.assign(
        model=pd.Categorical(models, list(PALETTE)),
        texts=pd.Categorical(rows["key"].map(texts), list(dict.fromkeys(texts.values()))),
    )
    drawn["model"] = drawn["model"].cat.remove_unused_categories()
    return drawn


def _texts(run: Any, several: bool) -> str:
    size = f"{size_text(run.size)} training texts"
    name = Path(CORPUS_NAMES.get(run.corpus, run.corpus.split(":")[0])).name
    name = name.replace("$", r"\$") + (
        ", short" if run.length == "short" else ""
    )  # $ would begin a formula
    return f"{name}, {size}" if several else size


# gradient propagation


def at_start(profiles: pd.DataFrame) -> pd.DataFrame:
    """The gradient profiles of models that have seen their training texts once (Figure 1.2a)."""
    return profiles[profiles["epochs"] == 1] if len(profiles) else profiles


def at_end(profiles: pd.DataFrame) -> pd.DataFrame:
    """Those of models at their best epoch of a whole training."""
    return profiles[profiles["epochs"] > 1] if len(profiles) else profiles


def level_table(profiles: pd.DataFrame) -> pd.DataFrame:
    """Mean gradient norm at the ends and in the middle of a text, a row for each model."""
    if profiles.empty:
        return NOTHING_YET
    rows = []
    for model, found in profiles.groupby("model", observed=True):
        profile = found.groupby("position")["mean"].mean().to_numpy()
        ends, middle = (profile[0] + profile[-1]) / 2, profile[49:51].mean()
        levels = {"first and last word": ends, "middle": middle, "middle / ends": middle / ends}
        row = {"model": model} | {name: f"{level:.1e}" for name, level in levels.items()}
        rows.append(row | {"seeds": str(found["seed"].nunique())})
    return pd.DataFrame(rows)


def one_row_a_run(traces: pd.DataFrame) -> pd.DataFrame:
    """The numbers of each trace, from the rows that it measured beside them."""
    if traces.empty:
        return traces
    best = {"validation_accuracy": traces["validation_accuracy_of_run"]}
    return traces.assign(**best).drop_duplicates("key")


def ratio_table(traces: pd.DataFrame) -> pd.DataFrame:
    """Table 1.2: the vanishing ratio where training accuracy reaches 95 %, and the best validation
    accuracy, ours above the thesis's and the slides'."""
    numbers = published("vanishing").set_index(["source", "pooling", "size"])
    ratios, cells = [], []
    for (pooling, size), row in numbers.loc["thesis"].iterrows():
        own = (
            traces[(traces["pooling"] == pooling) & (traces["size"] == size)] if len(traces) else traces
        )
        slides = numbers.loc[("slides", pooling, size), "ratio"]
        place = {"pooling": pooling, "size": size}
        ratio = _above(_mean(own, "ratio_at_95", ".2g"), f"{row['ratio']:g} ({slides:g})")
        ratios.append(place | {"kind": "ratio", "text": ratio})
        best = _above(_mean(own, "validation_accuracy", ".1f"), f"{row['validation_accuracy']:.1f}")
        cells.append(place | {"kind": "validation, %", "text": best})
    return grid(pd.DataFrame(ratios + cells), ["pooling"], ["kind", "size"], lambda row: row["text"])


def own_ratio_table(traces: pd.DataFrame) -> pd.DataFrame:
    """The same for runs that have no cell in the thesis, with the ratio before training."""
    if traces.empty:
        return NOTHING_YET
    rows = []
    for (size, pooling), found in traces.groupby(["size", "pooling"], sort=False):
        reached = column(found, "examples_at_95").dropna()
        rows.append(
            {
                "pooling": POOLING_NAMES[pooling],
                "texts": size_text(size),
                "at start": f"{found['ratio_at_start'].mean():.2g}",
                "at 95 %": _mean(found, "ratio_at_95", ".2g") or "not reached",
                "after texts": f"{reached.mean():,.0f}" if len(reached) else "",
                "validation, %": _mean(found, "validation_accuracy", ".1f"),
            }
        )
    return pd.DataFrame(rows)


def _mean(runs: pd.DataFrame, name: str, style: str) -> str:
    """The mean of a column (number of seeds), where any run has it."""
    values = column(runs, name).dropna()
    return f"{values.mean():{style}} ({len(values)})" if len(values) else ""


def _above(ours: str, theirs: str) -> str:
    return f"**{ours}**<br>{theirs}" if ours else theirs


# natural positional bias


def both_ways(sweeps: pd.DataFrame) -> pd.DataFrame:
    """Those of the BiLSTM that were run with padding masked and with padding let in: of the smallest size
    that has both, the seeds that both have; with a column ``padding``."""
    if sweeps.empty:
        return sweeps
    bilstm = sweeps[sweeps["pooling"] == "last"]
    both = bilstm[bilstm.groupby(["size", "seed"])["masked"].transform("nunique") == 2]
    padding = both["masked"].map({True: "masked", False: "let in"})
    return both.assign(padding=padding)[both["size"] == both["size"].min()]


def largest_whole(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of the largest training size for which the most poolings were run."""
    if rows.empty:
        return rows
    poolings = rows.groupby("size")["pooling"].nunique()
    return rows[rows["size"] == poolings[poolings == poolings.max()].index.max()]


def loss_table(sweeps: pd.DataFrame) -> pd.DataFrame:
    """Accuracy without filler, and the points lost with much of it, by where the text is kept."""
    if sweeps.empty:
        return NOTHING_YET
    shares = sweeps.assign(share=sweeps["share_added"].round(3))
    means = in_order(shares, pooling=POOLING_NAMES).pivot_table(
        "accuracy", "pooling", ["setting_added", "share"], sort=False
    )
    table = pd.DataFrame({"no filler, %": means["left", 0.0].map("{:.1f}".format)})
    for place in ("left", "mid", "right"):
        lost = means[place, LOSS_AT] - means[place, 0.0]
        table[f"text {place}, points"] = lost.map("{:+.1f}".format)
    return table.rename(POOLING_NAMES).reset_index()


def trained_sides(trainings: pd.DataFrame) -> pd.DataFrame:
    """The BiLSTM's trainings on IMDb with the text on the left, or on the right, of the filler, at
    the smallest size."""
    if trainings.empty:
        return trainings
    bilstm = trainings[(trainings["corpus"] == "imdb") & (trainings["pooling"] == "last")]
    sides = bilstm[bilstm["setting"].isin(["left", "right"])]
    return sides[sides["size"] == sides["size"].min()]


def trained_table(sides: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of the BiLSTM trained on either side, with padding masked and let in."""
    rows = []
    for masked, name in ((True, "masked"), (False, "let in")):
        row = {"padding": name}
        for side in ("left", "right"):
            own = (
                sides[(sides["masked"] == masked) & (sides["setting"] == side)] if len(sides) else sides
            )
            row[f"text {side}"] = _mean(own, "test_accuracy", ".1f") or "not run"
        rows.append(row)
    return pd.DataFrame(rows)


# word importance


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


def importance_table(measured: pd.DataFrame) -> pd.DataFrame:
    """Mean NWI where the text stands, and where the filler stands, by setting (columns) and pooling; of
    unmixed texts that of the ends and of the middle."""
    if measured.empty:
        return NOTHING_YET
    cells = []
    ordered = in_order(measured, pooling=POOLING_NAMES, setting=SETTINGS)
    for (pooling, setting), rows in ordered.groupby(["pooling", "setting"], sort=False):
        profile = rows.groupby("position")["mean"].mean().to_numpy()
        one, other = ends_and_middle(profile)
        if setting != "standard":
            inside = where_the_text_stands(setting, rows["share"].iloc[0], len(profile))
            one, other = profile[inside].mean(), profile[~inside].mean()
        cells.append({"setting": setting, "pooling": pooling, "text": f"{one:.2f} / {other:.2f}"})
    return grid(pd.DataFrame(cells), ["pooling"], ["setting"], lambda row: row["text"])
