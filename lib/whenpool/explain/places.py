"""Where in filler a model loses one's own texts: who is right, text by text, by place and share.

Letters: N texts, F folds, or 1 where all folds read the same.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from pandas import DataFrame

from whenpool.corpora.sources import FEWEST
from whenpool.explain.scores import PLACES, PROBED, Task, is_uneven
from whenpool.probes.position import SHARES, accuracy_interval, mean_interval, surrounded

YOURS = {2 / 3: "a third of the text is", 1 / 3: "two thirds of the text are"}
PLAIN, FILLER = "plain texts", "texts in filler"  # What a model learnt from
BY = ["pooling", "learnt", "setting", "share"]
Read = dict[tuple[str, float], tuple[np.ndarray, Any]]
"""By place and share of filler the numbers of the texts that are read there, and the texts, or by
pooling what a model reads of them, (F, N, ...)."""
Fit = Callable[[str, np.ndarray, np.ndarray], Any]
"""From a pooling, what is read of some texts, and their labels, to a fitted model."""


def probed(labels: np.ndarray) -> np.ndarray:
    """The texts that are read in filler: of each class as many as its share, and no fewer than the
    rarest one has; equally many where the classes are uneven."""
    names = pd.Series(labels)
    counts = names.value_counts()
    quota = (counts * min(1, PROBED / len(names))).clip(lower=FEWEST)
    if is_uneven(labels):
        quota[:] = min(counts.min(), PROBED // len(counts))
    return np.flatnonzero(names.groupby(names).cumcount() < names.map(quota))


def in_filler(
    texts: np.ndarray,
    some: np.ndarray,
    filler: Sequence[str],
    fits: Callable[[list[str]], Any],
) -> tuple[Read, list[str]]:
    """Some of the texts in filler, those that fit in each place, and a note on those that do not. A
    share at which few fit is left out."""
    read, notes = Read(), list[str]()
    for share in SHARES[1:]:
        mixed = {place: surrounded(texts[some], filler, place, share) for place in PLACES}
        fit = np.flatnonzero(np.all([fits(in_place) for in_place in mixed.values()], axis=0))
        few = len(fit) < 3 * FEWEST
        if left := len(some) - len(fit):
            notes.append(
                f"With {100 * share:.0f} % filler, {left:,} of {len(some):,} texts are longer than "
                f"it reads, and were left out there{', with the whole share' if few else ''}."
            )
        for place, in_place in () if few else mixed.items():
            read[place, share] = some[fit], np.array([in_place[text] for text in fit], object)
    return read, notes


def of_fold(read: np.ndarray, fold: int) -> np.ndarray:
    """What a fold reads (N, ...), of all that is read (F, N, ...)."""
    return read[fold % len(read)]


def crossed(
    task: Task, fit: Fit, read: Read, plain: np.ndarray, pooling: str
) -> tuple[np.ndarray, DataFrame, Any]:
    """What models say that learnt from plain texts, each of the texts of another fold, (N,), and
    who is right in filler, see `answered`; and the model of the first fold."""
    jobs = (delayed(_of_fold)(task, fit, read, plain, pooling, n) for n in range(len(task.folds)))
    models, named, answers = zip(*Parallel(task.workers)(jobs), strict=True)
    said = np.empty_like(task.labels)
    for (_, test), names in zip(task.folds, named, strict=True):
        said[test] = names
    return said, pd.concat(answers), models[0]


def _of_fold(
    task: Task, fit: Fit, read: Read, plain: np.ndarray, pooling: str, fold: int
) -> tuple[Any, np.ndarray, DataFrame]:
    """The model of the first fold, or None; what that of a fold says of the plain texts that it
    tests; and its answers."""
    (train, test), texts = task.folds[fold], of_fold(plain, fold)
    model = fit(pooling, texts[train], task.labels[train])
    answers = answered(task, model, read, fold, pooling, PLAIN)
    return None if fold else model, model.predict(texts[test]), answers


def answered(task: Task, model: Any, read: Read, fold: int, pooling: str, learnt: str) -> DataFrame:
    """Whether a model is right, a row for each text that its fold tests and each place and share
    where it is read."""
    parts = list[DataFrame]()
    for (place, share), (rows, made) in read.items():
        is_tested = np.isin(rows, task.folds[fold][1])
        if is_tested.any():
            texts = rows[is_tested]
            said = model.predict(of_fold(made[pooling], fold)[is_tested])
            cell = dict(zip(BY, (pooling, learnt, place, share), strict=True))
            parts.append(DataFrame({"text": texts, "right": said == task.labels[texts]} | cell))
    return pd.concat(parts)


def learnt_in_filler(task: Task, fit: Fit, read: Read, pooling: str) -> DataFrame:
    """The same of models that learnt from texts in filler, for each share from all places at
    once."""
    answers = [DataFrame()]
    for share in {share for _, share in read if share}:
        cells = {(place, share): read[place, share] for place in PLACES}
        rows = np.concatenate([texts for texts, _ in cells.values()])
        # the places of a text side by side, so that a regression's own folds part few of them
        order = rows.argsort(kind="stable")
        rows = rows[order]
        for fold, (train, _) in enumerate(task.folds):
            X = np.concatenate([of_fold(made[pooling], fold) for _, made in cells.values()])[order]
            learns = np.isin(rows, train)
            if len({*task.labels[rows[learns]]}) < 2:  # long texts of a class do not fit
                continue
            model = fit(pooling, X[learns], task.labels[rows[learns]])
            answers.append(answered(task, model, cells, fold, pooling, FILLER))
    return pd.concat(answers)


def places_of(answers: DataFrame) -> DataFrame:
    """The accuracy, with its interval, of each pooling and model by place and share."""
    rows = []
    for cell, right in answers.groupby(BY, sort=False)["right"]:
        facts = [*cell, len(right), *accuracy_interval(right.to_numpy(float))]
        rows.append(dict(zip([*BY, "texts", "accuracy", "low", "high"], facts, strict=True)))
    return DataFrame(rows)


def advise(name: str, answers: DataFrame, long: int) -> tuple[list[str], dict[str, Any]]:
    """Sentences on what a pooling loses in filler, text by text, and whether to cut texts into
    passages; and the numbers. ``answers``: see `answered`."""
    share = next((share for share in YOURS if (answers["share"] == share).any()), None)
    if share is None:
        return ["Too few texts fit in with filler around them to say where they are lost."], {}
    points = 100 * answers.pivot(index="text", columns=BY[1:], values="right").astype(float)
    three = points[PLAIN].xs(share, axis=1, level="share")  # by place
    mean = three.mean(axis=1)
    differences = [points[PLAIN, "left", 0.0] - mean, three["left"] - three["right"]]
    if (FILLER, "left", share) in points:
        differences.append(points[FILLER].xs(share, axis=1, level="share").mean(axis=1) - mean)
    lost, ends, *won = (mean_interval(each.dropna().to_numpy()) for each in differences)
    places, yours = ("end", "start") if ends[0] > 0 else ("start", "end"), YOURS[share]
    said = "{:.0f} points ({:.0f} to {:.0f})".format
    if lost[1] > 0:
        first = f"{name} loses {said(*lost)} when {yours} yours; "
        if ends[1] > 0 or ends[2] < 0:
            least, most = sorted(map(abs, ends[1:]))
            first += "{} more at the {} than at the {}.".format(
                said(abs(ends[0]), least, most), *places
            )
        else:
            first += "start and end differ no more than by chance."
    else:
        first = f"No loss is certain when {yours} yours: {said(*lost)}."
    why = f"{long:,} of your texts are longer than it reads" if long else "filler costs accuracy"
    sentences = [first, "Nothing here asks for cutting texts into passages."]
    if long or lost[1] > 0:
        sentences[1] = f"Try to cut long texts into passages before they are read: {why}."
    for gain in won:
        mend = "wins back" if gain[1] > 0 else "is not surely better:"
        sentences.append(f"A classifier that learns from texts in filler {mend} {said(*gain)}.")
    return sentences, {"share": share, "points": lost, "end_over_start": ends, "won_in_filler": won}


def cells_table(places: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Accuracies by place and share, as texts."""
    intervals = places[["accuracy", "low", "high"]].to_numpy()
    cells = DataFrame(
        {
            "pooling": places["pooling"].map(names),
            "learnt from": places["learnt"],
            "filler": places["share"].map("{:.0%}".format),
            "texts": places["texts"],
            "place": places["setting"].map({"left": "start", "mid": "middle", "right": "end"}),
            "said": ["{:.1f} ({:.1f} to {:.1f})".format(*each) for each in intervals],
        }
    )
    by_place = cells.set_index([*cells][:5])["said"].unstack(sort=False)
    return by_place.reset_index().rename_axis(columns=None)
