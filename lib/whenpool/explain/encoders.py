"""Which pooling of a ready encoder's states for one's own texts, and where it loses them.

Letters: N texts, C classes, W windows of word pieces.
"""

from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from pandas import DataFrame
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from whenpool.corpora.sources import FEWEST
from whenpool.explain.frozen import NAMES, FrozenEncoder
from whenpool.explain.scores import PLACES, PROBED, Findings, Score, Task, difference, ranked
from whenpool.probes.position import (
    SHARES,
    accuracy_interval,
    mean_interval,
    regression_on,
    surrounded,
)
from whenpool.words import WordStrip, per_word, strip, strips

YOURS = {2 / 3: "a third of the text is", 1 / 3: "two thirds of the text are"}
EXPLAINED, STRIPS, WINDOWS = 30, 5, 20  # Texts whose words are weighed, are shown; windows of one
PLAIN, FILLER = "plain texts", "texts in filler"  # What a regression learnt from
BY = ["pooling", "learnt", "setting", "share"]
Read = dict[tuple[str, float], tuple[np.ndarray, Any]]
"""By place and share of filler the numbers of the texts that are read there, and the texts, or
their embeddings by pooling."""


def of_encoder(task: Task, encoder: FrozenEncoder) -> Findings:
    """How well a logistic regression on each pooling of an encoder's states does, on texts as they
    are and in filler, and the bag of words and our BiLSTM beside them."""
    some, lengths = _some(task.labels), encoder.pieces(task.raw)[1]
    texts, notes, pieces = in_filler(task, encoder, some)
    long = int((lengths > encoder.longest).sum())
    reads = f"{encoder.name} reads {encoder.longest:,} word pieces; {long:,} texts are longer, and"
    prompt = f" It puts {encoder.prompt!r} before each text." if encoder.prompt else ""
    notes.insert(0, f"{reads} cut.{prompt}")
    task.announce(notes)
    total = pieces + int(lengths.clip(max=encoder.longest).sum())
    with tqdm(total=total, unit=" word pieces", unit_scale=True, desc=encoder.name[-30:]) as bar:
        plain = encoder.embed(task.raw, bar, None, task.labels, task.folds, task.class_weight)
        queries = plain.get("queries")
        read = {
            cell: (rows, encoder.embed(mixed, bar, queries))
            for cell, (rows, mixed) in texts.items()
        }
    unfilled = some, {pooling: plain[pooling][:, some] for pooling in encoder.poolings}
    read |= {(place, 0.0): unfilled for place in PLACES}

    scores, answers = list[Score](), list[DataFrame]()
    for pooling in encoder.poolings:
        said = np.empty_like(task.labels)
        for fold, (train, test) in enumerate(task.folds):
            X = of_fold(plain[pooling], fold)
            model = regression_on(X[train], task.labels[train], task.class_weight)
            said[test] = model.predict(X[test])
            answers.append(answered(task, model, read, fold, pooling, PLAIN))
        mixed = pd.concat(answers).query("pooling == @pooling and share > 0")
        filled = 100 * mixed.groupby(BY)["right"].mean().mean() if len(mixed) else 0.0
        scores.append(Score(pooling, NAMES[pooling], said, task.labels, filled))
        task.say(f"{NAMES[pooling]}: {scores[-1].accuracy:.1f} %")
    folds: Any = {"cv": task.folds, "n_jobs": task.workers}
    said = cross_val_predict(task.classifier, task.texts, task.labels, **folds)
    bilstm = Score("", "BiLSTM with MaxAtt", said, task.labels)

    def finish(shown: Score, simple: Score) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
        learnt = [
            answered(task, model, cells, fold, shown.pooling, FILLER)
            for fold in range(len(task.folds))
            for model, cells in learnt_in_filler(task, read, fold, shown.pooling)
        ]
        places = places_of(pd.concat([*answers, *learnt]))
        own = pd.concat([*answers, *learnt]).query("pooling == @shown.pooling")
        sentences, lost = advise(shown.name, own, long)
        best = ranked(scores)[0]
        gap = difference(best, simple)
        enough = "enough" if gap[1] <= 0 else "not enough"
        ahead = "{:.1f} points ({:.1f} to {:.1f})".format(*gap)
        sentences.append(f"The bag of words is {enough}: {best.name} is ahead by {ahead}.")
        shown_strips, profile = weigh_words(task, encoder, shown.pooling, plain)
        importance: Any = (np.linspace(0, 100, WINDOWS), profile, {})
        page = {
            "encoder": encoder.name,
            "cells": cells_table(places),
            "strips": Markup(shown_strips._repr_html_()),  # noqa: S704
            "importance": {shown.name: importance} if profile else {},
            "probed": len(some),
        }
        numbers = {"encoder": encoder.name, "reads": encoder.longest, "lost": lost}
        numbers |= {"places": places.to_dict("records"), "importance": profile}
        return sentences, page, numbers

    sweep = places_of(pd.concat(answers)).query("pooling != 'own'")
    more = "Give more texts, or another encoder."
    return Findings(scores, sweep, finish, "encoders.html", notes, [bilstm], more)


def _some(labels: np.ndarray) -> np.ndarray:
    """The texts that are read in filler: of each class as many as its share, and no fewer than the
    rarest one has."""
    names = pd.Series(labels)
    share = min(1, PROBED / len(names))
    quota = (names.map(names.value_counts()) * share).clip(lower=FEWEST)
    return np.flatnonzero(names.groupby(names).cumcount() < quota)


def in_filler(task: Task, encoder: FrozenEncoder, some: np.ndarray) -> tuple[Read, list[str], int]:
    """Those of some texts that the encoder reads to the end in filler, the same in each place, a
    note on those that it does not, and how many word pieces these are. A share at which few fit is
    left out."""
    read, notes, pieces = Read(), list[str](), 0
    for share in SHARES[1:]:
        mixed = {place: surrounded(task.raw[some], task.filler, place, share) for place in PLACES}
        lengths = np.stack([encoder.pieces(texts)[1] for texts in mixed.values()])
        fit = np.flatnonzero((lengths <= encoder.longest).all(0))
        few = len(fit) < 3 * FEWEST
        if left := len(some) - len(fit):
            notes.append(
                f"With {100 * share:.0f} % filler, {left:,} of {len(some):,} texts are longer than "
                f"it reads, and were left out there{', with the whole share' if few else ''}."
            )
        if not few:
            pieces += int(lengths[:, fit].sum())
            for place, texts in mixed.items():
                read[place, share] = some[fit], [texts[text] for text in fit]
    return read, notes, pieces


def of_fold(embeddings: np.ndarray, fold: int) -> np.ndarray:
    """The embeddings (N, D) of a fold among those of all (F, N, D), or of the only one there is."""
    return embeddings[fold % len(embeddings)]


def answered(task: Task, model: Any, read: Read, fold: int, pooling: str, learnt: str) -> DataFrame:
    """Whether a regression is right, a row for each text that the fold tests and each place and
    share where it is read."""
    parts = list[DataFrame]()
    for (place, share), (rows, made) in read.items():
        is_tested = np.isin(rows, task.folds[fold][1])
        if is_tested.any():
            texts = rows[is_tested]
            said = model.predict(of_fold(made[pooling], fold)[is_tested])
            cell = dict(zip(BY, (pooling, learnt, place, share), strict=True))
            parts.append(DataFrame({"text": texts, "right": said == task.labels[texts]} | cell))
    return pd.concat(parts)


def learnt_in_filler(task: Task, read: Read, fold: int, pooling: str) -> Any:
    """For each share a regression that learnt from texts in filler, in all three places at once,
    and what is read at this share."""
    for share in dict.fromkeys(share for _, share in read if share):
        cells = {(place, share): read[place, share] for place in PLACES}
        rows = np.concatenate([texts for texts, _ in cells.values()])
        X = np.concatenate([of_fold(made[pooling], fold) for _, made in cells.values()])
        learns = np.isin(rows, task.folds[fold][0])
        yield regression_on(X[learns], task.labels[rows[learns]], task.class_weight), cells


def places_of(answers: DataFrame) -> DataFrame:
    """The accuracy, with its interval, of each pooling and regression by place and share."""
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
    three, among = (
        DataFrame({place: points[learnt, place, share] for place in PLACES})
        for learnt in (PLAIN, FILLER)
    )
    mean = three.mean(axis=1)
    losses = points[PLAIN, "left", 0.0] - mean, three["left"] - three["right"]
    gains = among.mean(axis=1) - mean
    lost, ends, won = (mean_interval(each.dropna().to_numpy()) for each in (*losses, gains))
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
    cut = f"Try to cut long texts into passages before you embed them: {why}."
    mend = "wins back" if won[1] > 0 else "is not surely better:"
    return [
        first,
        cut if long or lost[1] > 0 else "There is no need to cut texts into passages.",
        f"A classifier that learns from texts in filler {mend} {said(*won)}.",
    ], {"share": share, "points": lost, "end_over_start": ends, "won_in_filler": won}


def cells_table(places: DataFrame) -> DataFrame:
    """Accuracies by place and share, as texts."""
    intervals = places[["accuracy", "low", "high"]].to_numpy()
    cells = DataFrame(
        {
            "pooling": places["pooling"].map(NAMES),
            "learnt from": places["learnt"],
            "filler": places["share"].map("{:.0%}".format),
            "texts": places["texts"],
            "place": places["setting"].map({"left": "start", "mid": "middle", "right": "end"}),
            "said": ["{:.1f} ({:.1f} to {:.1f})".format(*each) for each in intervals],
        }
    )
    by_place = cells.set_index([*cells][:5])["said"].unstack(sort=False)
    return by_place.reset_index().rename_axis(columns=None)


def weigh_words(
    task: Task, encoder: FrozenEncoder, pooling: str, plain: dict[str, np.ndarray]
) -> tuple[Any, list[float]]:
    """Strips of a few texts, and the mean profile of word importance over the positions of a text
    (§1.9.3), by a regression that learnt from the other folds: how much the logarithm of the
    answer's probability falls when a window of word pieces is replaced by the unknown one."""
    train, test = task.folds[0]
    logistic = LogisticRegression(C=0.01, max_iter=2_000, class_weight=task.class_weight)
    regression = make_pipeline(StandardScaler(), logistic)
    regression.fit(plain[pooling][0][train], task.labels[train])
    words, queries = encoder.model.tokenizer, plain.get("queries")
    numbers = words.unk_token_id, words.mask_token_id, words.eos_token_id, 0
    unknown = next(number for number in numbers if number is not None)
    shown, profiles = list[WordStrip](), list[np.ndarray]()
    for text in test[:EXPLAINED]:
        row, start = encoder.pieces([task.raw[text]])[0][0], encoder.before
        ids = row[start : len(row) - encoder.after]
        k = max(2, -(-len(ids) // WINDOWS))  # word pieces of a window
        W = len(ids) // k
        if W < 2:
            continue
        begins = range(start, start + W * k, k)
        replaced = [[*row[:begin], *[unknown] * k, *row[begin + k :]] for begin in begins]
        # rows of one length stay in their order
        read = encoder.read([row, *replaced], queries)
        log_p = regression.predict_log_proba(
            np.concatenate([made[pooling][0] for *_, made in read])
        )
        answer = log_p[0].argmax()
        support = log_p[0, answer] - log_p[1:, answer]  # (W,)
        weights = np.abs(support) / max(np.abs(support).max(), 1e-12)
        profiles.append(np.interp(np.linspace(0, W - 1, WINDOWS), np.arange(W), weights))
        if len(shown) < STRIPS:
            said = f"{regression.classes_[answer]} (is {task.labels[text]})"
            pieces = [words.decode([number]) for number in ids]
            shown.append(strip(pieces, per_word(support, len(ids), k), said))
    return strips(shown), np.mean(profiles, axis=0).tolist() if profiles else []
