"""The tables of "Learning under limited data" (thesis §1.10)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whenpool.runs.few_shot_run import FewShot, passes_of
from whenpool.book.report.few_shot_rules import arranged, judge_few_shot
from whenpool.book.report.literal import corpus_name
from whenpool.book.report.paper import published
from whenpool.book.report.provenance import duration, provenance_line
from whenpool.book.report.skip import MAJORITY
from whenpool.book.report.tables import LEGEND, CaptionedTable, beside, cell_text, grid, mean_text
from whenpool.book.report.verdicts import Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pandas import DataFrame, Series

NAMES = {
    "vampire": "VAMPIRE",
    "bert": "Fine-tuning (BERT)",
    "tmix": "TMix",
    "max_attention": "MaxAtt",
    "uda": "UDA",
    "mixtext": "MixText",
    "last_words": "BiLSTM, word vectors",
    "max_attention_words": "MaxAtt, word vectors",
}
"""How each system is called, in the order of Table 1.9; then those for contrast."""
UNLABELLED_TEXT = {"vampire": "in pretraining", "uda": "yes", "mixtext": "yes"}
"""Which systems read unlabelled texts of the corpus, and when."""
GIVEN = (
    "Unlabelled: the texts in the pool, and how many of them the steps come to at most. Tokens: words, "
    "where there is no encoder. Looks: at the validation texts; the best is tested. Cut: test texts "
    "longer than what is read of them. Parameters: those that labels train, and those of the pretrained "
    "encoder, which MaxAtt leaves as they are. Time: the mean of a seed, all of it."
)
"""What `given_table` shows."""
CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "synthetic": "The embedded corpus"}
_HEADS: "dict[str, Callable[[Hashable], str]]" = {
    "system": lambda name: NAMES.get(str(name), str(name)),
    "per_class": lambda count: f"{count} per class",
    "corpus": lambda name: CORPUS_NAMES.get(str(name), str(name)),
}


def thesis_cells(stored: "DataFrame") -> "DataFrame":
    """The cells of Table 1.9 with ours and verdicts.

    Args:
        stored: rows of `Store.few_shots`.
    """
    numbers = published("few_shot").rename(columns={"model": "system", "accuracy": "mean"})
    runs, cells = arranged(stored), []
    for _, row in numbers.iterrows():
        own = runs[(runs["corpus"] == row["corpus"]) & (runs["system"] == row["system"])]
        cells.append(judge_few_shot(own, row["mean"]))
    return beside(numbers.assign(std=float("nan")), cells)


def thesis_table(stored: "DataFrame") -> CaptionedTable:
    """Table 1.9 with ours beside, what ours are below."""
    cells = thesis_cells(stored)
    shown = {key for keys in cells["keys"] for key in keys}
    runs = arranged(stored)
    runs = runs[runs["key"].isin(shown)] if shown else runs.head(0)
    cells = cells.assign(
        text=[_cell(row) for _, row in cells.iterrows()],
        unlabelled=[UNLABELLED_TEXT.get(system, "no") for system in cells["system"]],
    )
    frame = grid(cells, ["system", "unlabelled"], ["corpus"], lambda row: row["text"], _HEADS)
    return CaptionedTable(
        frame.rename(columns={"unlabelled": "unlabelled text"}),
        "Table 1.9 of the thesis, 10 labelled texts of each class: test accuracy in %.",
        "tab-thesis-1-9",
        provenance_line(runs, "the thesis alone; none of it has been run here"),
        " ".join([LEGEND, *(what_it_is(part) for _, part in runs.groupby("corpus"))]),
    )


def accuracy_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy of each system (rows) by labelled texts of each class, and by corpus where there are
    several (columns): mean ± deviation (seeds), and that of guessing.

    Args:
        runs: from `arranged`, of each system one configuration.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    columns = (["corpus"] if runs["corpus"].nunique() > 1 else []) + ["per_class"]
    ordered = runs.sort_values(columns, kind="stable")
    cells = []
    for (system, *place), rows in runs.groupby(["system", *columns], sort=False):
        values = rows["test_accuracy"]
        text = mean_text(Cell(values.mean(), values.std(ddof=1), len(rows), ""))
        cells.append({"system": system, "text": text} | dict(zip(columns, place, strict=True)))
    for place, rows in ordered.groupby(columns, sort=False):
        guess = f"{rows['majority_accuracy'].mean():.1f}"
        cells.append({"system": MAJORITY, "text": guess} | dict(zip(columns, place, strict=True)))
    frame = grid(pd.DataFrame(cells), ["system"], columns, lambda row: row["text"], _HEADS)
    heads = [" ".join(_HEADS[name](row[name]) for name in columns) for _, row in ordered.iterrows()]
    return frame[["system", *dict.fromkeys(heads)]]


def given_table(runs: "DataFrame") -> "DataFrame":
    """What each system was given: texts, steps, parameters and time, the mean over seeds.

    Args:
        runs: from `arranged`, one corpus and number of labels.
    """
    import pandas as pd

    rows = []
    for system, own in runs.groupby("system", sort=False):
        row = own.iloc[-1]
        pool, read = (int(own[name].max()) for name in ("unlabelled_texts", "unlabelled_read"))
        rows.append(
            {
                "": NAMES[str(system)],
                "read by": encoder_name(row),
                "labelled": _count(row["labelled_texts"]),
                "unlabelled: pool, read": f"{_count(pool)}, {_count(read)}" if pool else "none",
                "tokens a text": _tokens(row["tokens_read"]),
                "test texts cut": f"{100 * own['test_cut'].sum() / own['test_texts'].sum():.0f} %",
                "steps, looks": f"{_count(row['steps_done'])}, {_looks(row)}",
                "parameters: trained, encoder's": _parameters(row),
                "time": duration(own["seconds"].mean()),
            }
        )
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def what_it_is(runs: "DataFrame") -> str:
    """What the runs of one corpus read and were tested on, a sentence for below a table.

    Args:
        runs: from `arranged`.
    """
    if runs.empty:
        return ""
    limits = runs["tokens_read"].dropna()
    own = {name: _span(runs[name]) for name in ("labelled_texts", "validation_texts", "test_texts")}
    encoders = [Path(str(name)).name for name in dict.fromkeys(runs["encoder"].dropna())]
    parts = [
        f"{_HEADS['corpus'](_corpus(runs))}: {own['labelled_texts']} labelled, "
        f"{own['validation_texts']} validation and {own['test_texts']} test texts",
        (f"texts cut at {_span(limits)} tokens" if len(limits) else "whole texts")
        + (f", read by {', '.join(encoders)}" if encoders else ""),
        f"{_span(runs['steps_done'])} steps",
        _pools(runs),
        ""
        if runs["corpus_complete"].eq(True).all()
        else "not the thesis's corpus, a stand-in or a part",
    ]
    return "; ".join(part for part in parts if part) + "."


def encoder_name(row: Any) -> str:
    """What turns the words of a run into vectors: its encoder, word vectors, or a bag of words."""
    if isinstance(row["encoder"], str):
        return Path(row["encoder"]).name
    if row["system"] == "vampire":
        return "bag of words"
    vectors = row.get("vectors")
    return vectors if isinstance(vectors, str) else "random word vectors"


def _pools(runs: "DataFrame") -> str:
    reading = runs[runs["unlabelled_texts"] > 0]
    if reading.empty:
        return ""
    pools = []
    for system, own in reading.groupby("system", sort=False):
        read, pool = _span(own["unlabelled_read"]), _span(own["unlabelled_texts"])
        pools.append(f"{NAMES[str(system)]} at most {read} of {pool}")
    return "unlabelled texts: " + ", ".join(pools)


def _tokens(limit: Any) -> str:
    return "all" if limit is None or limit != limit else _count(limit)


def _looks(row: Any) -> int:
    steps, looks, batch_size = (int(row[name]) for name in ("steps", "looks", "batch_size"))
    run = FewShot(row["corpus"], row["system"], steps=steps, looks=looks, batch_size=batch_size)
    return passes_of(run, int(row["labelled_texts"]))[0]


def _parameters(row: Any) -> str:
    return f"{_size(row['parameters'])}, {_size(row['encoder_parameters'])}"


def _size(count: Any) -> str:
    """22713216 -> 22.7M."""
    number = 0 if count != count else int(count)
    if number >= 100_000:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.0f}K" if number >= 1000 else str(number)


def _span(values: "Series") -> str:
    """One number, or the lowest to the highest."""
    low, high = int(values.min()), int(values.max())
    return _count(low) if low == high else f"{_count(low)} to {_count(high)}"


def _count(number: Any) -> str:
    return f"{int(number):,}"


def _corpus(runs: "DataFrame") -> str:
    return ", ".join(dict.fromkeys(corpus_name(str(name).split(":")[0]) for name in runs["corpus"]))


def _cell(row: Any) -> str:
    """A cell as `cell_text` writes it, but for the deviation that Table 1.9 does not give."""
    return cell_text(row).replace(" ± nan", "")
