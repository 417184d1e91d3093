"""What the figures and tables of gradient propagation, natural positional bias and word importance show
(thesis §1.5 to §1.9). Rows are points that a probe measured, beside the configuration of its model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from whenpool.book.report.tables import CORPUS_NAMES, POOLING_NAMES, size_text
from whenpool.models.registry import PALETTE as POOLING_PALETTE

LOW = "BiLSTM_LowF"  # The BiLSTM whose forget gates start low
STARTS = {"low": LOW, "chrono": "BiLSTM, chrono"}  # It and another, by what runs call their models
PALETTE = POOLING_PALETTE | {LOW: POOLING_PALETTE["BiLSTM"]}


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``model`` as figures call it, the pooling or `LOW`, and ``texts``, what was learnt from:
    corpus and length of text where there are several, and the training size. Both are in order."""
    if rows.empty:
        return rows.assign(model=[], texts=[])
    several = len(rows[["corpus", "length"]].drop_duplicates()) > 1
    texts = {}
    for run in rows.drop_duplicates("key").sort_values(["corpus", "length", "size"]).itertuples():
        texts[run.key] = f"{size_text(run.size)} training texts"
        if several:
            name = Path(CORPUS_NAMES.get(run.corpus, run.corpus.split(":")[0])).name
            name = name.replace("$", r"\$")  # which would begin a formula
            texts[run.key] = f"{name}{', short' * (run.length == 'short')}, {texts[run.key]}"
    models = rows["pooling"].map(POOLING_NAMES).mask(rows["forget_bias"] == "low", LOW)
    drawn = rows.assign(
        model=pd.Categorical(models, list(PALETTE)),
        texts=pd.Categorical(rows["key"].map(texts), list(dict.fromkeys(texts.values()))),
    )
    drawn["model"] = drawn["model"].cat.remove_unused_categories()
    return drawn


def course(traces: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The mean course of the trainings that agree in the columns ``by``. They were looked at after different
    numbers of texts; so each is interpolated at the same ones, ``examples``, from 100 on to where the first
    training ends. The mean of the vanishing ``ratio`` is geometric, that of accuracies arithmetic."""
    if traces.empty:
        return traces
    measured, found = ["ratio", "train_accuracy", "validation_accuracy"], []
    traces = traces.assign(ratio=np.log(traces["ratio"]), log=np.log(traces["examples"].clip(lower=1)))
    for values, own in traces.groupby(list(by), observed=True):
        runs = [run.sort_values("log") for _, run in own.groupby("key")]
        last = max(min(run["examples"].max() for run in runs), 1)  # a short one is looked at once, at 0
        at = np.log(np.geomspace(min(100, last / 2), last, 60))
        each = [[np.interp(at, run["log"], run[name]) for name in measured] for run in runs]
        means = pd.DataFrame(np.mean(each, axis=0).T, columns=measured).assign(examples=np.exp(at))
        found.append(means.assign(ratio=np.exp(means["ratio"]), **dict(zip(by, values, strict=True))))
    return pd.concat(found)


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which positions of a profile, (points,) bool, lie in the original text (§1.8.1)."""
    low, high = text_span(setting, share)
    return pd.Series(np.linspace(0, 1, points)).between(low, high).to_numpy()


def text_span(setting: str, share: float) -> tuple[float, float]:
    """Where the original text begins and ends, as parts of the whole."""
    return {
        "standard": (0.0, 1.0),
        "left": (0.0, 1 - share),
        "mid": (share / 2, 1 - share / 2),
        "right": (share, 1.0),
    }[setting]


def geometric_means(rows: pd.DataFrame) -> pd.Series:
    """Of the values of a measure, as `whenpool.book.chapter.Chapter.reference` gives them, by model."""
    return np.exp(np.log(rows["value"]).groupby(rows["model"]).mean())


def ends_and_middle(profile: Any) -> tuple[float, float]:
    """Mean NWI of both outer tenths together, and of the middle fifth, of (100,) positions."""
    return (profile[:10].mean() + profile[90:].mean()) / 2, profile[40:60].mean()
