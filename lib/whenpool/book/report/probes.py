"""What the figures and tables of gradient propagation, natural positional bias and word importance show
(thesis §1.5 to §1.9), and what trained models make of one text. Rows are points that a probe measured, beside
the configuration of its model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from whenpool.book.report.tables import CORPUS_NAMES, POOLING_NAMES, size_text
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.corpora.dataset import Dataset
from whenpool.corpora.settings import compose
from whenpool.models.registry import PALETTE as POOLING_PALETTE
from whenpool.probes import window_importance
from whenpool.runs.kinds.training import Prepared

LOW = "BiLSTM_LowF"  # The BiLSTM whose forget gates start low
PALETTE = POOLING_PALETTE | {LOW: POOLING_PALETTE["BiLSTM"]}
DASHES = dict.fromkeys(PALETTE, "") | {LOW: (4, 1.5)}


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
    name = name.replace("$", r"\$")  # which would begin a formula
    return f"{name}{', short' * (run.length == 'short')}, {size}" if several else size


def largest_whole(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of the largest training size for which the most poolings were run."""
    if rows.empty:
        return rows
    poolings = rows.groupby("size")["pooling"].nunique()
    return rows[rows["size"] == poolings[poolings == poolings.max()].index.max()]


def where_the_text_stands(setting: str, share: float, points: int = 100) -> Any:
    """Which of the positions of a profile, (points,) bool, lie in the original text by construction (§1.8.1)
    where filler has a ``share`` of all words."""
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


SHARES = (0.0, 0.3, 0.5, 0.7, 0.8, 0.9)
SHORTEST = 10  # Words of a text that is shown, so that it has windows


@dataclass(frozen=True)
class Shown:
    """A test text, and the models that read it."""

    models: Mapping[str, Prepared]  # by pooling, trained on the same unmixed texts
    number: int  # of the text among the test texts

    @property
    def dataset(self) -> Dataset:
        return next(iter(self.models.values())).dataset

    @property
    def ids(self) -> Tensor:
        """Numbers of its words, (1, T)."""
        return self.dataset.test.ids.row(self.number).long().unsqueeze(0)

    @property
    def label(self) -> int:
        return int(self.dataset.test.labels[self.number])

    @property
    def words(self) -> list[str]:
        """As the vocabulary of the models knows them."""
        return [self.dataset.vocabulary[word] for word in self.ids[0].tolist()]

    def opening(self, count: int, letters: int) -> list[str]:
        """Its first words, as many as have so few letters together."""
        words = self.words[:count]
        while len(" ".join(words)) > letters:
            words.pop()
        return words

    def importance(self, pooling: str, k: int, first: int | None = None) -> Tensor:
        """|Δ log P| of each window of k of its words, or of its first words, by one model. -> (W,)"""
        ids, label = self.ids[:, :first], torch.tensor([self.label])
        lengths = torch.tensor([ids.shape[1]])
        model = self.models[pooling].model
        return window_importance(model, ids, lengths, label, k=k, unknown_index=UNKNOWN_INDEX)[0]

    def hidden_opinion(self, shares: Iterable[float] = SHARES) -> pd.DataFrame:
        """The ``probability`` of the right class as the text disappears in the middle of filler, by
        ``pooling`` and ``share``."""
        filler = self.dataset.test_filler
        sentences = filler.to_lists() if filler is not None else []
        rows = []
        for share in shares:
            text = compose(self.ids[0].tolist(), cycle(sentences), "mid", share)
            for pooling, prepared in self.models.items():
                rows.append((pooling, share, float(_answer(prepared, text)[self.label])))
        return pd.DataFrame(rows, columns=["pooling", "share", "probability"])


def understood(models: Mapping[str, Prepared]) -> Shown | None:
    """The shortest test text, of `SHORTEST` words or more, that every model classifies rightly, or
    None."""
    if not models:
        return None
    lengths = next(iter(models.values())).dataset.test.ids.lengths
    for number in torch.argsort(lengths, stable=True)[(lengths < SHORTEST).sum() :].tolist():
        shown = Shown(models, number)
        words, label = shown.ids[0].tolist(), shown.label
        if all(_answer(prepared, words).argmax() == label for prepared in models.values()):
            return shown
    return None


@torch.inference_mode()
def _answer(prepared: Prepared, words: Sequence[int]) -> Tensor:
    """The probability of each class, (C,)."""
    prepared.model.eval()
    logits = prepared.model(torch.tensor([list(words)]), torch.tensor([len(words)]))
    return logits.softmax(-1)[0]
