"""Where in filler a model loses one's own texts: who is right, text by text, by place and share.

Letters: N texts, M rows, each a text and one way to read it, F folds, or 1 where all folds read the
same.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from pandas import DataFrame

from whenpool.corpora.sources import FEWEST
from whenpool.explain.scores import PLACES, Task
from whenpool.probes.position import SHARES, accuracy_interval, mean_interval, surrounded

PROBED = 300  # Test texts that are read among filler
YOURS = {2 / 3: "a third of the text is", 1 / 3: "two thirds of the text are"}
PLAIN, FILLER = "plain texts", "texts in filler"  # What a model learnt from
BY = ["pooling", "learnt", "setting", "share"]


def first_of_each(labels: pd.Series, most: int, equally: bool = False) -> pd.Series:
    """Whether each text is among the first of its class: of ``most`` texts each class has its
    share, and at least `FEWEST`; or equally many of each, no more than the rarest one has."""
    counts = labels.value_counts()
    quota = (counts * min(1, most / len(labels))).astype(int).clip(lower=FEWEST)
    if equally:
        quota[:] = min(counts.min(), most // len(counts))
    return labels.groupby(labels).cumcount() < labels.map(quota)


def in_filler(
    texts: np.ndarray, some: np.ndarray, filler: Sequence[str], fits: Callable[[list[str]], Any]
) -> tuple[DataFrame, list[str]]:
    """M rows: all texts as they are, which stand in each place, and some in filler, those that fit
    in each place; the number of the "text", its "setting", the "share" of filler and what is
    "read". And a note on those that do not fit. A share at which few fit is left out."""
    everywhere = [[*PLACES]] * len(texts)
    plain = {"text": np.arange(len(texts)), "setting": everywhere, "share": 0.0, "read": texts}
    rows, notes = [DataFrame(plain)], list[str]()
    for share in SHARES[1:]:
        mixed = {place: surrounded(texts[some], filler, place, share) for place in PLACES}
        fit = np.all([fits(in_place) for in_place in mixed.values()], axis=0)
        few = fit.sum() < 3 * FEWEST
        if left := len(some) - fit.sum():
            notes.append(
                f"With {100 * share:.0f} % filler, {left:,} of {len(some):,} texts are longer than "
                f"it reads, and were left out there{', with the whole share' if few else ''}."
            )
        for place, in_place in () if few else mixed.items():
            cell = {"text": some, "setting": place, "share": share, "read": in_place}
            rows.append(DataFrame(cell)[fit])
    return pd.concat(rows, ignore_index=True), notes


def answered(
    task: Task, reader: Any, pooling: str, learnt: str, rows: DataFrame
) -> tuple[Any, DataFrame]:
    """What models say of the texts of another fold than those that they learnt from, a row for each
    text and place; and the model of the first fold. They learn from the rows with the least filler,
    which ``learnt`` describes. The ``rows`` are those of the reader, or a part of them."""
    fit, read = reader.fit, reader.read[pooling]  # (F, M, ...); an encoder stays in this process

    def of_fold(
        X: np.ndarray, train: np.ndarray, test: np.ndarray, is_first: bool
    ) -> tuple[Any, DataFrame]:
        lesson = rows.query("share == share.min() and text in @train")
        # the places of a text side by side, so that a regression's own folds part few of them
        lesson = lesson.sort_values("text", kind="stable")
        tested, labels = rows.query("text in @test"), task.labels[lesson["text"]]
        if len({*labels}) < 2 or tested.empty:  # long texts of a class, or a fold, do not fit
            return None, tested[:0]
        model = fit(task, pooling, X[lesson.index], labels)
        said = model.predict(X[tested.index])
        answers = tested.assign(said=said, right=said == task.labels[tested["text"]])
        return model if is_first else None, answers

    jobs = (
        delayed(of_fold)(read[number % len(read)], *fold, number == 0)
        for number, fold in enumerate(task.folds)
    )
    models, answers = zip(*Parallel(task.workers)(jobs), strict=True)
    return models[0], pd.concat(answers).assign(pooling=pooling, learnt=learnt).explode("setting")


def places_of(answers: DataFrame) -> DataFrame:
    """The accuracy, with its interval, of each pooling and model by place and share."""
    each = answers.groupby(BY, sort=False)["right"]
    rows = [[*cell, len(right), *accuracy_interval(right.to_numpy(float))] for cell, right in each]
    return DataFrame(rows, columns=[*BY, "texts", "accuracy", "low", "high"])


def advise(name: str, answers: DataFrame, long: int) -> tuple[list[str], dict[str, Any]]:
    """Sentences on what a pooling loses in filler, text by text, and whether to cut texts into
    passages; and the numbers. ``answers``: see `answered`."""
    share = next((share for share in YOURS if share in {*answers["share"]}), None)
    if share is None:
        return ["Too few texts fit in with filler around them to say where they are lost."], {}
    points = 100 * answers.pivot(index="text", columns=BY[1:], values="right").astype(float)
    three = points.xs(share, axis=1, level="share")  # by what a model learnt from, and by place
    mean = three[PLAIN].mean(axis=1)
    differences = [points[PLAIN, "mid", 0.0] - mean, three[PLAIN, "left"] - three[PLAIN, "right"]]
    if FILLER in three:
        differences.append(three[FILLER].mean(axis=1) - mean)
    lost, ends, *won = (mean_interval(each.dropna().to_numpy()) for each in differences)
    said = "{:.0f} points ({:.0f} to {:.0f})".format
    first = f"No loss is certain when {YOURS[share]} yours: {said(*lost)}."
    if lost[1] > 0:
        more = "start and end differ no more than by chance"
        if ends[1] > 0 or ends[2] < 0:
            least, most = sorted(map(abs, ends[1:]))
            worst, best = ("end", "start") if ends[0] > 0 else ("start", "end")
            more = f"{said(abs(ends[0]), least, most)} more at the {worst} than at the {best}"
        first = f"{name} loses {said(*lost)} when {YOURS[share]} yours; {more}."
    passages = "Nothing here asks for cutting texts into passages."
    if long or lost[1] > 0:
        longer = f"{long:,} of your texts are longer than it reads"
        why = longer if long else "filler costs accuracy"
        passages = f"Try to cut long texts into passages before they are read: {why}."
    mends = (
        f"A classifier that learns from texts in filler "
        f"{'wins back' if gain[1] > 0 else 'is not surely better:'} {said(*gain)}."
        for gain in won
    )
    numbers = {"share": share, "points": lost, "end_over_start": ends, "won_in_filler": won}
    return [first, passages, *mends], numbers
