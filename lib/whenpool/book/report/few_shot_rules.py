"""Which few-shot runs count for what, and whether Table 1.9 was reproduced (thesis §1.10).

Table 1.9 has one number a cell, without deviation or number of runs, so the rule of
`whenpool.book.report.verdicts` holds with the deviation 0: the 95 % t-interval of our mean is held against
that number alone. A verdict needs three seeds, bert-base-uncased where texts are read by an encoder, and
the whole corpus with all its test texts; MaxAtt reads 512 tokens as in the thesis, the others 256, and
what reads unlabelled texts has 5,000 of each class, both as in Chen et al. (2020); and all make at least
the steps of the profile "paper".
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from whenpool.runs.plans.few_shot import PAPER, PAPER_UNLABELLED
from whenpool.runs.few_shot_run import CONTRAST, READ_BY_ENCODER, SYSTEMS, UNLABELLED, FewShot
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.book.report.verdicts import Cell, column, verdict_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

PER_CLASS = 10
"""Labelled texts of each class in Table 1.9."""
TOKENS = {"max_attention": 512}
OTHER_TOKENS = 256
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in PAPER.items()}
CORPORA = ("yahoo", "imdb")
_COLUMNS = (
    "key", *(field.name for field in fields(FewShot)), "test_accuracy", "majority_accuracy",
    "corpus_complete", "classes", "labelled_texts", "unlabelled_texts", "unlabelled_read",
    "validation_texts", "test_texts", "test_cut", "tokens_read", "steps_done", "parameters",
    "encoder_parameters",
    "seconds", "finished", "device", "torch", "commit",
)  # fmt: skip


def arranged(runs: "DataFrame") -> "DataFrame":
    """Some runs in the order of Table 1.9, then by labels and seed. ``size`` is the number of labelled
    texts, as training texts are elsewhere, and what a record is too old to tell is empty.

    Args:
        runs: rows of `Store.few_shots`.
    """
    order = [*SYSTEMS, *CONTRAST]
    missing = [name for name in _COLUMNS if name not in runs]
    runs = runs.assign(**{name: column(runs, name) for name in missing})
    runs = runs.assign(size=runs["labelled_texts"], encoder=_encoders(runs))
    return runs[runs["system"].isin(order)].sort_values(
        ["system", "per_class", "seed"],
        key=lambda values: values.map(order.index) if values.name == "system" else values,
        kind="stable",
    )


def follows_thesis(runs: "DataFrame") -> "Series":
    """Which runs are of Table 1.9's kind, whatever their number of labels."""
    system = runs["system"]
    encoder = ~system.isin(READ_BY_ENCODER) | (runs["encoder"] == DEFAULT_ENCODER)
    tokens = runs["max_tokens"] >= system.map(TOKENS).fillna(OTHER_TOKENS)
    enough = runs["unlabelled_texts"] >= PAPER_UNLABELLED * runs["classes"]
    pool = ~system.isin(UNLABELLED) | enough
    steps = runs["steps"] >= system.map(STEPS)
    units = (system != "max_attention") | (runs["hidden_size"] == FewShot.hidden_size)
    return on_whole_corpus(runs) & runs["test"].isna() & encoder & tokens & pool & steps & units


def on_whole_corpus(runs: "DataFrame") -> "Series":
    """Which runs are on a whole corpus of Table 1.9, texts of any length."""
    whole = runs["corpus_complete"].eq(True) & (runs["length"] == "any")
    return whole & runs["corpus"].isin(CORPORA)


def of_thesis(stored: "DataFrame") -> "DataFrame":
    """The runs that decide claims on Table 1.9, of each system one configuration."""
    runs = arranged(stored)
    return one_configuration(runs[follows_thesis(runs)], ["corpus", "system", "per_class"])


def indicating(stored: "DataFrame", encoder: str = MINILM) -> "DataFrame":
    """The runs on whole corpora that indicate what another encoder would say, the same way."""
    runs = arranged(stored)
    read = runs["encoder"].isna() | (runs["encoder"] == encoder)
    return one_configuration(runs[on_whole_corpus(runs) & read], ["corpus", "system", "per_class"])


def on_record(stored: "DataFrame", corpus: str = "imdb") -> "DataFrame":
    """What is shown of a whole corpus: the runs with the encoder that the most runs have."""
    runs = arranged(stored)
    runs = runs[on_whole_corpus(runs) & (runs["corpus"] == corpus)]
    encoders = runs["encoder"].mode()
    return indicating(runs, encoders.iloc[0] if len(encoders) else MINILM)


def one_configuration(runs: "DataFrame", by: Sequence[str]) -> "DataFrame":
    """In each group of some runs those of one configuration: that with the most seeds, then the most
    test texts, then the most steps; each seed once.

    Args:
        by: columns that tell the groups apart.
    """
    import pandas as pd

    if runs.empty:
        return runs
    kept = [_fullest(part) for _, part in runs.groupby(list(by), sort=False, dropna=False)]
    return pd.concat(kept)


def judge_few_shot(ours: "DataFrame", number: float) -> Cell:
    """The verdict on one cell of Table 1.9.

    Args:
        ours: from `arranged`, of the cell's corpus and system.
        number: the cell's, in %.
    """
    ours = ours[(ours["per_class"] == PER_CLASS) & (ours["length"] == "any")]
    if ours.empty:
        return Cell(np.nan, np.nan, 0, "not run")
    whole, thesis = ours["corpus_complete"].eq(True), follows_thesis(ours)
    if thesis.any():
        used = _fullest(ours[thesis])
        verdict = verdict_of(used["test_accuracy"].tolist(), number, 0.0)
    elif whole.any():
        used, verdict = _fullest(ours[whole]), "pilot"
    else:
        used, verdict = _fullest(ours), "pilot"
    values = used["test_accuracy"]
    return Cell(values.mean(), values.std(ddof=1), len(used), verdict, tuple(used["key"]))


def _fullest(runs: "DataFrame") -> "DataFrame":
    varied = [field.name for field in fields(FewShot) if field.name != "seed"]
    groups = [part for _, part in runs.groupby(varied, dropna=False, sort=False)]
    largest = max(
        groups, key=lambda part: (part["seed"].nunique(), part["test_texts"].max(), part["steps"].max())
    )
    return largest.drop_duplicates("seed", keep="last")


def _encoders(runs: "DataFrame") -> "Series":
    """The encoder where texts are read by one."""
    return runs["encoder"].where(runs["system"].isin(READ_BY_ENCODER), None)
