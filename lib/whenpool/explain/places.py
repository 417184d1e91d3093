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
WHOLE = "mid", 0.0  # Where all texts are read, without filler
BY = ["pooling", "learnt", "setting", "share"]
Cell = tuple[np.ndarray, Any]
"""Numbers of texts, and the texts, or by pooling what a model reads of them, (F, N, ...)."""
Read = dict[tuple[str, float], Cell]
"""By place and share of filler the texts that are read there."""
Fit = Callable[[Task, str, np.ndarray, np.ndarray], Any]
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
    """All texts as they are, and some in filler, those that fit in each place; and a note on those
    that do not. A share at which few fit is left out."""
    read, notes = Read({WHOLE: (np.arange(len(texts)), texts)}), list[str]()
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


def answered(
    task: Task, fit: Fit, pooling: str, learnt: str, lesson: Sequence[Cell], read: Read
) -> tuple[Any, DataFrame]:
    """What models say of the texts of another fold than those that they learnt from, a row for each
    text and cell where it is read, texts without filler in each place; and the model of the first
    fold. ``lesson``: the cells that they learn from, which ``learnt`` describes."""
    jobs = (delayed(_of_fold)(task, fit, pooling, lesson, read, n) for n in range(len(task.folds)))
    models, answers = zip(*Parallel(task.workers)(jobs), strict=True)
    return models[0], pd.concat(answers).assign(pooling=pooling, learnt=learnt)


def _of_fold(
    task: Task, fit: Fit, pooling: str, lesson: Sequence[Cell], read: Read, fold: int
) -> tuple[Any, DataFrame]:
    """The model of the first fold, or None, and what that of a fold says."""

    def of_fold(made: Any) -> np.ndarray:
        return np.asarray(made[pooling][fold % len(made[pooling])])  # (N, ...)

    train, test = task.folds[fold]
    rows = np.concatenate([texts for texts, _ in lesson])
    # the places of a text side by side, so that a regression's own folds part few of them
    order = rows.argsort(kind="stable")
    order = order[np.isin(rows[order], train)]
    labels, answers = task.labels[rows[order]], [DataFrame()]
    if len({*labels}) < 2:  # long texts of a class do not fit
        return None, *answers
    X = np.concatenate([of_fold(made) for _, made in lesson])[order]
    model = fit(task, pooling, X, labels)
    for (place, share), (texts, made) in read.items():
        is_tested = np.isin(texts, test)
        if is_tested.any():
            said, tested = model.predict(of_fold(made)[is_tested]), texts[is_tested]
            cell = {"text": tested, "said": said, "right": said == task.labels[tested]}
            for setting in [place] if share else PLACES:
                answers.append(DataFrame(cell | {"setting": setting, "share": share}))
    return None if fold else model, pd.concat(answers)


def learnt_in_filler(task: Task, fit: Fit, read: Read, pooling: str) -> DataFrame:
    """What models say that learnt from texts in filler, for each share from all places at once."""
    answers = [DataFrame()]
    for share in {share for _, share in read if share}:
        cells = {(place, share): read[place, share] for place in PLACES}
        answers.append(answered(task, fit, pooling, FILLER, [*cells.values()], cells)[1])
    return pd.concat(answers)


def places_of(answers: DataFrame) -> DataFrame:
    """The accuracy, with its interval, of each pooling and model by place and share."""
    each = answers.groupby(BY, sort=False)["right"]
    rows = [[*cell, len(right), *accuracy_interval(right.to_numpy(float))] for cell, right in each]
    return DataFrame(rows, columns=[*BY, "texts", "accuracy", "low", "high"])


def advise(name: str, answers: DataFrame, long: int) -> tuple[list[str], dict[str, Any]]:
    """Sentences on what a pooling loses in filler, text by text, and whether to cut texts into
    passages; and the numbers. ``answers``: see `answered`."""
    share = next((share for share in YOURS if (answers["share"] == share).any()), None)
    if share is None:
        return ["Too few texts fit in with filler around them to say where they are lost."], {}
    points = 100 * answers.pivot(index="text", columns=BY[1:], values="right").astype(float)
    three = points[PLAIN].xs(share, axis=1, level="share")  # by place
    mean = three.mean(axis=1)
    differences = [points[PLAIN, *WHOLE] - mean, three["left"] - three["right"]]
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
    said = map("{accuracy:.1f} ({low:.1f} to {high:.1f})".format_map, places.to_dict("records"))
    cells = DataFrame(
        {
            "pooling": places["pooling"].map(names),
            "learnt from": places["learnt"],
            "filler": places["share"].map("{:.0%}".format),
            "texts": places["texts"],
            "place": places["setting"].map({"left": "start", "mid": "middle", "right": "end"}),
            "said": [*said],
        }
    )
    by_place = cells.set_index([*cells][:5])["said"].unstack(sort=False)
    return by_place.reset_index().rename_axis(columns=None)
