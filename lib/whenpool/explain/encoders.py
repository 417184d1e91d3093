"""What a ready encoder makes of one's own texts, plain and in filler, and which words count.

Letters: N texts, C classes, W windows of word pieces.
"""

from typing import Any

import numpy as np
from markupsafe import Markup
from pandas import DataFrame
from sklearn.model_selection import cross_val_predict
from tqdm import tqdm

from whenpool.explain.frozen import NAMES, FrozenEncoder
from whenpool.explain.places import FILLER, answered, in_filler
from whenpool.explain.scores import Score, Task, weights_for
from whenpool.probes.position import regression
from whenpool.words import WordStrip, per_word, strip, strips

EXPLAINED, STRIPS, WINDOWS = 30, 5, 20  # Texts whose words are weighed, are shown; windows of one


class EncoderReader:
    """A logistic regression on each pooling of an encoder's states."""

    template, more = "encoders.html", "Give more texts, or another encoder."

    def __init__(self, encoder: FrozenEncoder) -> None:
        self.encoder, self.names = encoder, {name: NAMES[name] for name in encoder.poolings}

    def prepare(self, task: Task, some: np.ndarray) -> None:
        """Rows of all texts, and of some in filler, and their embeddings by each pooling."""
        encoder, lengths = self.encoder, self.encoder.pieces(task.raw)[1]
        fits = lambda texts: encoder.pieces(texts)[1] <= encoder.longest  # noqa: E731
        self.rows, notes = in_filler(task.raw, some, task.filler, fits)
        filled = [[*rows["read"]] for share, rows in self.rows.groupby("share") if share]
        self.long = int((lengths > encoder.longest).sum())
        prompt = f" It puts {encoder.prompt!r} before each text." if encoder.prompt else ""
        task.announce(
            f"{encoder.name} reads {encoder.longest:,} word pieces; {self.long:,} texts are "
            f"longer, and cut.{prompt}",
            *notes,
        )
        mixed = (encoder.pieces(texts)[1].sum() for texts in filled)
        total = int(lengths.clip(max=encoder.longest).sum() + sum(mixed))
        title: Any = {"desc": encoder.name[-30:], "unit": " word pieces", "unit_scale": True}
        with tqdm(total=total, **title) as bar:
            lesson = task.labels, task.folds, weights_for(task.labels)
            made = [encoder.embed(task.raw, bar, None, *lesson)]
            self.queries = made[0].get("queries")
            made += [encoder.embed(texts, bar, self.queries) for texts in filled]
        self.rows = self.rows.drop(columns="read")
        self.read = {name: np.concatenate([part[name] for part in made], 1) for name in self.names}

    @staticmethod
    def fit(task: Task, pooling: str, X: np.ndarray, labels: np.ndarray) -> Any:
        """How a regression learns, whatever the pooling."""
        return regression(weights_for(task.labels)).fit(X, labels)

    def finish(
        self, task: Task, shown: str, models: dict[str, Any]
    ) -> tuple[list[DataFrame], list[Score], dict[str, Any]]:
        """Of the pooling that is shown, answers of regressions that learnt in filler, for each
        share from all places at once; the score of our own model; and what the page has besides."""
        filled = (rows for share, rows in self.rows.groupby("share") if share)
        more = [answered(task, self, shown, FILLER, rows)[1] for rows in filled]
        folds: Any = {"cv": task.folds, "n_jobs": task.workers}
        said = cross_val_predict(task.classifier, task.texts, task.labels, **folds)
        bilstm = Score("", "BiLSTM with MaxAtt", said, task.labels)
        marked, importance = self.weigh_words(task, shown, models[shown])
        facts = {"encoder": self.encoder.name, "reads": self.encoder.longest}
        return more, [bilstm], facts | {"strips": marked, "importance": importance}

    def weigh_words(self, task: Task, pooling: str, model: Any) -> tuple[Markup, list[float]]:
        """Strips of a few texts of the first fold, and the mean profile of word importance over the
        positions of a text (§1.9.3), by the model that learnt from the other folds: how much the
        logarithm of the answer's probability falls when a window of word pieces is replaced by the
        unknown one."""
        encoder, (_, test) = self.encoder, task.folds[0]
        words = encoder.model.tokenizer
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
            read = encoder.read([row, *replaced], self.queries)
            log_p = model.predict_log_proba(np.concatenate([made[pooling][0] for *_, made in read]))
            answer = log_p[0].argmax()
            support = log_p[0, answer] - log_p[1:, answer]  # (W,)
            weights = np.abs(support) / max(np.abs(support).max(), 1e-12)
            profiles.append(np.interp(np.linspace(0, W - 1, WINDOWS), np.arange(W), weights))
            if len(shown) < STRIPS:
                said = f"{model.classes_[answer]} (is {task.labels[text]})"
                pieces = [words.decode([number]) for number in ids]
                shown.append(strip(pieces, per_word(support, len(ids), k), said))
        profile = np.mean(profiles, axis=0).tolist() if profiles else []
        return Markup(strips(shown)._repr_html_()), profile  # noqa: S704
