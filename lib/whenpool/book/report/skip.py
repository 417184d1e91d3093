"""The tables of "Training to skip unimportant words" (thesis §1.8)."""

import pandas as pd

from whenpool.book.report import tables
from whenpool.book.report.tables import MAJORITY, CaptionedTable, judged
from whenpool.book.report.verdicts import of_record, published

FULL_TABLES = (
    ("1.6", "imdb"), ("1.6", "yelp"), ("1.5", "yahoo"), ("1.5", "amazon"), ("1.8", "yahoo"),
    ("1.8", "amazon"),
)  # fmt: skip
CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "amazon": "Amazon", "yelp": "Yelp"}


def judged_cells(evidence: pd.DataFrame) -> pd.DataFrame:
    """All 600 cells of Tables 1.5, 1.6 and 1.8, runs of record beside."""
    return judged(evidence, published("accuracy").query("table in ('1.5', '1.6', '1.8')"))


def record_runs(stored: pd.DataFrame) -> pd.DataFrame:
    """The runs that follow the thesis's protocol on a whole corpus of its."""
    if stored.empty:
        return stored
    return stored[of_record(stored) & stored["masked"].astype(bool)].reset_index(drop=True)


def brief_table(stored: pd.DataFrame, table: str) -> CaptionedTable:
    """Table 1.3 or 1.4 in the thesis's shape: settings and sizes side by side."""
    cells = published("accuracy").query("table == @table")
    kind = "over 100 words" if table == "1.3" else "at most 100 words"
    return tables.beside_thesis(
        _with_majority(cells, stored, "corpus"), stored, ["corpus", "pooling"], ["setting", "size"],
        f"Table {table} of the thesis, texts of {kind}: test accuracy in %.",
        f"tab-thesis-{table.replace('.', '-')}", {"corpus": lambda name: CORPUS_NAMES[name]},
    )  # fmt: skip


def full_table(stored: pd.DataFrame, table: str, corpus: str) -> CaptionedTable:
    """One corpus of Table 1.5, 1.6 or 1.8: settings below each other, sizes side by side."""
    cells = published("accuracy").query("table == @table and corpus == @corpus")
    kind = f"{'at most' if table == '1.8' else 'over'} 100 words"
    return tables.beside_thesis(
        _with_majority(cells, stored, "setting"), stored, ["setting", "pooling"], ["size"],
        f"{CORPUS_NAMES[corpus]} in Table {table} of the thesis, texts of {kind}: test accuracy in %.",
        f"tab-thesis-{table.replace('.', '-')}-{corpus}",
    )  # fmt: skip


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
