"""The tables of "Training to skip unimportant words" (thesis §1.8)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whenpool.book.report.tables import literal
from whenpool.book.report.verdicts import published
from whenpool.book.report.provenance import provenance_line
from whenpool.book.report.tables import LEGEND, POOLING_NAMES, CaptionedTable, cell_text, grid, judged, mean_text, wins
from whenpool.book.report.verdicts import Cell, of_record
from whenpool.corpora.settings import SETTINGS

if TYPE_CHECKING:
    from pandas import DataFrame

FULL_TABLES = (
    ("1.6", "imdb"),
    ("1.6", "yelp"),
    ("1.5", "yahoo"),
    ("1.5", "amazon"),
    ("1.8", "yahoo"),
    ("1.8", "amazon"),
)
CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "amazon": "Amazon", "yelp": "Yelp"}
MAJORITY = "majority class"


def settings_of(rows: "DataFrame") -> list[str]:
    """The settings that occur, in the thesis's order."""
    return [setting for setting in SETTINGS if len(rows) and setting in set(rows["setting"])]


def smallest(runs: "DataFrame") -> "DataFrame":
    """The runs of the first corpus and length of text at its smallest training size."""
    if runs.empty:
        return runs
    first = runs[(runs["corpus"] == runs["corpus"].iloc[0]) & (runs["length"] == runs["length"].iloc[0])]
    return first[first["size"] == first["size"].min()]


def accuracy_table(runs: "DataFrame") -> "DataFrame":
    """Mean test accuracy by corpus, size and pooling (rows) and setting (columns)."""
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    runs = runs.assign(corpus=[_text_kind(row) for row in runs[["corpus", "length"]].itertuples(False)])
    cells = []
    keys = ["corpus", "size", "setting"]
    for key, rows in runs.groupby([*keys, "pooling"], sort=False):
        named = dict(zip([*keys, "pooling"], key, strict=True))
        cells.append(named | {"text": _mean(rows["test_accuracy"])})
    for key, rows in runs.groupby(keys, sort=False):
        text = f"{rows['majority_accuracy'].mean():.1f}"
        cells.append(dict(zip(keys, key, strict=True)) | {"pooling": MAJORITY, "text": text})
    orders = {
        "corpus": list(dict.fromkeys(runs["corpus"])),
        "pooling": [*POOLING_NAMES, MAJORITY],
        "setting": list(SETTINGS),
    }
    table = pd.DataFrame(cells).sort_values(
        ["corpus", "size", "pooling", "setting"],
        key=lambda column: column.map(orders[column.name].index) if column.name in orders else column,
    )
    return grid(table, ["corpus", "size", "pooling"], ["setting"], lambda row: row["text"])


def corpus_notes(runs: "DataFrame") -> str:
    """What a reader should know of the corpora of some runs."""
    known = runs["corpus_notes"].dropna() if "corpus_notes" in runs else []
    return " ".join(dict.fromkeys(literal(note) for note in known if note))


def judged_cells(evidence: "DataFrame") -> "DataFrame":
    """All 600 cells of Tables 1.5, 1.6 and 1.8, runs of record beside.

    Args:
        evidence: from `record_runs`.
    """
    accuracy = published("accuracy")
    return judged(evidence, accuracy[accuracy["table"].isin(["1.5", "1.6", "1.8"])])


def record_runs(stored: "DataFrame") -> "DataFrame":
    """The runs that follow the thesis's protocol on a whole corpus of its."""
    if stored.empty:
        return stored
    return stored[of_record(stored) & stored["masked"].astype(bool)].reset_index(drop=True)


def facts(cells: "DataFrame", evidence: "DataFrame") -> dict[str, Any]:
    """The numbers that the text names."""
    verdicts = cells["verdict"].value_counts()
    return {
        "record_runs": len(evidence),
        "record_cells": int((cells["n"] > 0).sum()),
        "all_cells": len(cells),
        **{name: int(verdicts.get(name, 0)) for name in ("reproduced", "differs", "undecided")},
    }


def wins_table(cells: "DataFrame") -> "DataFrame":
    """Columns won by each pooling: the thesis's in its tables and in what we ran, and ours."""
    import pandas as pd

    accuracy = published("accuracy")
    brief = accuracy[accuracy["table"].isin(["1.3", "1.4"])]
    ran = cells.assign(mean=cells["mean"].where(cells["n"] > 0))
    counts = {
        "Tables 1.3, 1.4": wins(brief, "mean"),
        "all tables": wins(cells, "mean"),
        "what we ran": wins(ran, "mean"),
        "ours": wins(cells, "ours"),
    }
    poolings = counts["ours"]["pooling"]
    frame = pd.DataFrame({"pooling": [POOLING_NAMES[name] for name in poolings]})
    for name, counted in counts.items():
        found = counted.set_index("pooling").reindex(poolings, fill_value=0)
        frame[f"{name} ({found['columns'].max()})"] = found["wins"].tolist()
    return frame


def brief_table(stored: "DataFrame", table: str) -> CaptionedTable:
    """Table 1.3 or 1.4 in the thesis's shape: settings and sizes side by side."""
    accuracy = published("accuracy")
    cells = judged(stored, accuracy[accuracy["table"] == table])
    shown = _with_majority(cells, stored, "corpus")
    frame = grid(shown, ["corpus", "pooling"], ["setting", "size"], cell_text, {"corpus": _corpus_name})
    kind = "over 100 words" if table == "1.3" else "at most 100 words"
    caption = f"Table {table} of the thesis, texts of {kind}: test accuracy in %."
    name = f"tab-thesis-{table.replace('.', '-')}"
    return CaptionedTable(frame, caption, name, _line(stored, cells), LEGEND)


def full_table(stored: "DataFrame", table: str, corpus: str) -> CaptionedTable:
    """One corpus of Table 1.5, 1.6 or 1.8: settings below each other, sizes side by side."""
    accuracy = published("accuracy")
    cells = judged(stored, accuracy[(accuracy["table"] == table) & (accuracy["corpus"] == corpus)])
    shown = _with_majority(cells, stored, "setting")
    frame = grid(shown, ["setting", "pooling"], ["size"], cell_text)
    kind = "at most" if table == "1.8" else "over"
    caption = (
        f"{CORPUS_NAMES[corpus]} in Table {table} of the thesis, texts of {kind} 100 words: "
        "test accuracy in %."
    )
    name = f"tab-thesis-{table.replace('.', '-')}-{corpus}"
    return CaptionedTable(frame, caption, name, _line(stored, cells), LEGEND)


def masking_runs(stored: "DataFrame") -> "DataFrame":
    """Runs of record with padding let in, and those that differ from them in masking alone."""
    if stored.empty:
        return stored
    open_runs = stored[of_record(stored) & ~stored["masked"].astype(bool)]
    keys = ["corpus", "length", "setting", "size", "pooling", "seed", "vectors"]
    wanted = set(map(tuple, open_runs[keys].to_numpy()))
    masked = record_runs(stored)
    masked = masked[[tuple(row) in wanted for row in masked[keys].to_numpy()]]
    import pandas as pd

    return pd.concat([masked, open_runs], ignore_index=True)


def masking_table(pairs: "DataFrame") -> "DataFrame":
    """Poolings (rows) by settings (columns): accuracy masked → with padding let in."""
    import pandas as pd

    if pairs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    cells = []
    for (setting, pooling), rows in pairs.groupby(["setting", "pooling"]):
        by_mask = rows.groupby(rows["masked"].astype(bool))["test_accuracy"].mean()
        both = {True, False} <= set(by_mask.index)
        text = f"{by_mask[True]:.1f} → {by_mask[False]:.1f}" if both else ""
        cells.append({"setting": setting, "pooling": pooling, "text": text})
    order = list(POOLING_NAMES)
    table = pd.DataFrame(cells).sort_values("pooling", key=lambda c: c.map(order.index))
    laid = grid(table, ["pooling"], ["setting"], lambda row: row["text"])
    return laid[["pooling", *settings_of(table)]]


def _line(stored: "DataFrame", cells: "DataFrame") -> str:
    """The provenance of the runs that the cells show."""
    shown = {key for keys in cells["keys"] for key in keys}
    runs = stored[stored["key"].isin(shown)] if shown else stored.head(0)
    return provenance_line(runs, "the thesis alone; none of it has been run here")


def _with_majority(cells: "DataFrame", stored: "DataFrame", block: str) -> "DataFrame":
    """The cells, and below each block what guessing the majority class gives where that is known."""
    import pandas as pd

    keys = ["corpus", "length", "setting", "size"]
    evidence = record_runs(stored)
    known = evidence.groupby(keys)["majority_accuracy"].first().to_dict() if len(evidence) else {}
    parts = []
    for _, rows in cells.groupby(block, sort=False):
        chance = rows[keys].drop_duplicates()
        texts = [f"{known[key]:.1f}" if key in known else "" for key in chance.itertuples(False, None)]
        parts.append(rows)
        if any(texts):
            parts.append(chance.assign(pooling=MAJORITY, text=texts))
    return pd.concat(parts, ignore_index=True)


def _text_kind(run: Any) -> str:
    """The corpus as a table names it, with the length of its texts where that was chosen."""
    name = Path(run.corpus).name if run.corpus.endswith((".csv", ".jsonl")) else run.corpus
    return name if run.length == "any" else f"{name}, {run.length}"


def _mean(values: Sequence[float]) -> str:
    import pandas as pd

    series = pd.Series(values)
    return mean_text(Cell(series.mean(), series.std(ddof=1), len(series), ""))


def _corpus_name(name: Any) -> str:
    return CORPUS_NAMES.get(str(name), str(name))
