"""What the figures of "Sequence labelling" are drawn from, and what they call taggers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

READS = {True: "both directions", False: "left to right"}
"""What figures call taggers that read both ways, and others."""


def model_name(cell: str, bidirectional: bool) -> str:
    """What a page calls a tagger."""
    cells = {"lstm": "LSTM", "gru": "GRU", "elman": "Elman"}
    return f"{cells.get(cell, cell)}, {READS[bidirectional]}"


def task_name(corpus: str) -> str:
    """What is tagged in the embedded corpus, in a word."""
    return "parts of speech" if "task=pos" in corpus else "entities"


def later_words(runs: "DataFrame") -> "DataFrame":
    """Accuracy on the words whose tag only a later word decides, and on all others.

    Args:
        runs: from `whenpool.book.report.tagging_rules.arranged`; those with such words count, and none that
            were trained in another encoding than the file's.

    Returns:
        Columns ``tagger``, ``reads``, ``seed``, ``words`` and ``accuracy``.
    """
    runs = runs[runs["later_accuracy"].notna() & runs["encoding"].isna()]
    share = runs["later_words"] / runs["test_words"]
    others = (runs["test_accuracy"] - share * runs["later_accuracy"]) / (1 - share)
    ways = runs["bidirectional"].eq(True)
    taggers = [
        f"{task_name(corpus)}: {model_name(cell, way)}"
        for corpus, cell, way in zip(runs["corpus"], runs["cell"], ways, strict=True)
    ]
    shown = runs[["seed"]].assign(tagger=taggers, reads=ways.map(READS))
    shown = shown.assign(
        **{"decided by a later word": runs["later_accuracy"], "all other words": others}
    )
    return shown.melt(["tagger", "reads", "seed"], var_name="words", value_name="accuracy")


def along_sentences(points: "DataFrame") -> "DataFrame":
    """Gradients along sentences: of the sum of all words' losses, and of the middle word's; the mean
    over runs.

    Args:
        points: rows of `Store.tagging_gradients` with a column ``bidirectional``.

    Returns:
        Columns ``reads``, ``stage``, ``place`` (from 0 to 1), ``loss`` and ``gradient``, empty where
        nothing flows.
    """
    told = points.assign(reads=points["bidirectional"].eq(True).map(READS))
    losses = {"mean": "every word's loss", "single": "the middle word's loss"}
    if told.empty:
        return told
    means = told.groupby(["reads", "stage", "position"])[list(losses)].mean().reset_index()
    longest = means.groupby(["reads", "stage"])["position"].transform("max").clip(lower=1)
    means = means.rename(columns=losses).assign(place=means["position"] / longest)
    lines = means.melt(["reads", "stage", "place"], list(losses.values()), "loss", "gradient")
    return lines.assign(gradient=lines["gradient"].where(lines["gradient"] > 0))
