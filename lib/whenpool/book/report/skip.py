"""The tables of "Training to skip unimportant words" (thesis §1.8)."""

from pathlib import Path
from typing import Any

import pandas as pd

from whenpool.book.report import accuracies
from whenpool.book.report.accuracies import MAJORITY, NOTHING_YET, in_order, settings_of
from whenpool.book.report.tables import POOLING_NAMES, CaptionedTable, judged, literal, wins
from whenpool.book.report.verdicts import of_record, published

FULL_TABLES = (
    ("1.6", "imdb"), ("1.6", "yelp"), ("1.5", "yahoo"), ("1.5", "amazon"), ("1.8", "yahoo"),
    ("1.8", "amazon"),
)  # fmt: skip
CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "amazon": "Amazon", "yelp": "Yelp"}


def smallest(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the first corpus and length of text at its smallest training size."""
    if runs.empty:
        return runs
    first = runs[(runs["corpus"] == runs["corpus"].iloc[0]) & (runs["length"] == runs["length"].iloc[0])]
    return first[first["size"] == first["size"].min()]


def accuracy_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean test accuracy by corpus, size and pooling (rows) and setting (columns)."""
    if runs.empty:
        return NOTHING_YET
    named = runs.assign(corpus=[_corpus_and_length(row) for row in runs.itertuples()])
    named = in_order(
        named, corpus=dict.fromkeys(named["corpus"]), size=sorted(set(named["size"])),
        pooling=POOLING_NAMES, setting=settings_of(named),
    )  # fmt: skip
    return accuracies.accuracy_table(named, ["corpus", "size", "pooling"], outer=2)


def corpus_notes(runs: pd.DataFrame) -> str:
    """What a reader should know of the corpora of some runs."""
    known = runs["corpus_notes"].dropna() if "corpus_notes" in runs else []
    return " ".join(dict.fromkeys(literal(note) for note in known if note))


def judged_cells(evidence: pd.DataFrame) -> pd.DataFrame:
    """All 600 cells of Tables 1.5, 1.6 and 1.8, runs of record beside."""
    return judged(evidence, published("accuracy").query("table in ('1.5', '1.6', '1.8')"))


def record_runs(stored: pd.DataFrame) -> pd.DataFrame:
    """The runs that follow the thesis's protocol on a whole corpus of its."""
    if stored.empty:
        return stored
    return stored[of_record(stored) & stored["masked"].astype(bool)].reset_index(drop=True)


def facts(cells: pd.DataFrame, evidence: pd.DataFrame) -> dict[str, int]:
    """The numbers that the text names."""
    verdicts = cells["verdict"].value_counts()
    counted = {name: int(verdicts.get(name, 0)) for name in ("reproduced", "differs", "undecided")}
    ran = int((cells["n"] > 0).sum())
    return {"record_runs": len(evidence), "record_cells": ran, "all_cells": len(cells)} | counted


def wins_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Columns won by each pooling: the thesis's in its tables and in what we ran, and ours."""
    ran = cells.assign(mean=cells["mean"].where(cells["n"] > 0))
    counts = {
        "Tables 1.3, 1.4": wins(published("accuracy").query("table in ('1.3', '1.4')"), "mean"),
        "all tables": wins(cells, "mean"),
        "what we ran": wins(ran, "mean"),
        "ours": wins(cells, "ours"),
    }
    frame = pd.DataFrame(
        {
            f"{name} ({own['columns'].max()})": own.set_index("pooling")["wins"]
            for name, own in counts.items()
        }
    )
    frame = frame.reindex(counts["ours"]["pooling"]).fillna(0).astype(int)
    return frame.rename(POOLING_NAMES).rename_axis("pooling").reset_index()


def brief_table(stored: pd.DataFrame, table: str) -> CaptionedTable:
    """Table 1.3 or 1.4 in the thesis's shape: settings and sizes side by side."""
    cells = published("accuracy").query("table == @table")
    kind = "over 100 words" if table == "1.3" else "at most 100 words"
    return accuracies.beside_thesis(
        _with_majority(cells, stored, "corpus"), stored, ["corpus", "pooling"], ["setting", "size"],
        f"Table {table} of the thesis, texts of {kind}: test accuracy in %.",
        f"tab-thesis-{table.replace('.', '-')}", {"corpus": lambda name: CORPUS_NAMES[name]},
    )  # fmt: skip


def full_table(stored: pd.DataFrame, table: str, corpus: str) -> CaptionedTable:
    """One corpus of Table 1.5, 1.6 or 1.8: settings below each other, sizes side by side."""
    cells = published("accuracy").query("table == @table and corpus == @corpus")
    kind = f"{'at most' if table == '1.8' else 'over'} 100 words"
    return accuracies.beside_thesis(
        _with_majority(cells, stored, "setting"), stored, ["setting", "pooling"], ["size"],
        f"{CORPUS_NAMES[corpus]} in Table {table} of the thesis, texts of {kind}: test accuracy in %.",
        f"tab-thesis-{table.replace('.', '-')}-{corpus}",
    )  # fmt: skip


def masking_runs(stored: pd.DataFrame) -> pd.DataFrame:
    """Runs of record with padding let in, and those that differ from them in masking alone."""
    if stored.empty:
        return stored
    keys = ["corpus", "length", "setting", "size", "pooling", "seed", "vectors"]
    let_in = stored[of_record(stored) & ~stored["masked"].astype(bool)]
    masked = record_runs(stored).merge(let_in[keys].drop_duplicates(), on=keys)
    return pd.concat([masked, let_in], ignore_index=True)


def masking_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """Poolings (rows) by settings (columns): accuracy masked → with padding let in."""
    if pairs.empty:
        return NOTHING_YET
    own = in_order(pairs.assign(masked=pairs["masked"].astype(bool)), pooling=POOLING_NAMES)
    means = own.pivot_table("test_accuracy", ["pooling", "setting"], "masked", sort=False)
    means = means.reindex(columns=[True, False]).dropna()
    texts = [f"{masked:.1f} → {let_in:.1f}" for masked, let_in in means.to_numpy()]
    wide = means.assign(text=texts)["text"].unstack(sort=False)[settings_of(means.reset_index())]
    return wide.fillna("").rename(POOLING_NAMES).rename_axis(columns=None).reset_index()


def _with_majority(cells: pd.DataFrame, stored: pd.DataFrame, block: str) -> pd.DataFrame:
    """Published cells with ours, and below each block how often guessing is right where that is known."""
    keys = ["corpus", "length", "setting", "size"]
    evidence = record_runs(stored)
    known = evidence.groupby(keys)["majority_accuracy"].first().to_dict() if len(evidence) else {}
    parts = []
    for _, rows in judged(stored, cells).groupby(block, sort=False):
        chance = rows[keys].drop_duplicates()
        texts = [f"{known[key]:.1f}" if key in known else "" for key in chance.itertuples(False, None)]
        parts += [rows, chance.assign(pooling=MAJORITY, text=texts)] if any(texts) else [rows]
    return pd.concat(parts, ignore_index=True)


def _corpus_and_length(run: Any) -> str:
    """The corpus as a table names it, with the length of its texts where that was chosen."""
    name = Path(run.corpus).name if run.corpus.endswith((".csv", ".jsonl")) else run.corpus
    return name if run.length == "any" else f"{name}, {run.length}"
