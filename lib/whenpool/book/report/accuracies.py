"""Tables of accuracies, which several chapters share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd

from whenpool.book.report.provenance import provenance_line
from whenpool.book.report.tables import LEGEND, CaptionedTable, cell_text, grid, mean_text
from whenpool.book.report.verdicts import Cell
from whenpool.corpora.settings import SETTINGS

NOTHING_YET = pd.DataFrame({"": ["no such runs yet"]})
"""The table where no runs are there that could fill it."""
MAJORITY = "majority class"
"""What the row is called that says how often guessing is right."""

Heads = dict[str, Any]
"""For a column, what writes its values."""


def spread(values: pd.Series) -> str:
    """Mean ± standard deviation (number of seeds)."""
    return mean_text(Cell(values.mean(), values.std(ddof=1), len(values), ""))


def in_order(rows: pd.DataFrame, **orders: Iterable[Any]) -> pd.DataFrame:
    """The rows whose columns have one of the values that are given, sorted by these as they are given."""
    if rows.empty:
        return rows
    places = {name: {value: at for at, value in enumerate(order)} for name, order in orders.items()}
    kept = rows[rows[list(orders)].isin({name: list(own) for name, own in places.items()}).all(axis=1)]
    return kept.sort_values(list(orders), key=lambda own: own.map(places[own.name]), kind="stable")


def settings_of(rows: pd.DataFrame) -> list[str]:
    """The settings that occur, in the thesis's order."""
    return [setting for setting in SETTINGS if len(rows) and setting in set(rows["setting"])]


def accuracy_table(
    runs: pd.DataFrame,
    rows: Sequence[str],
    columns: Sequence[str] = ("setting",),
    heads: Heads | None = None,
    text: Callable[[pd.DataFrame], str] = lambda runs: spread(runs["test_accuracy"]),
    outer: int = 0,
) -> pd.DataFrame:
    """Test accuracies by some columns of runs, and below them how often guessing is right.

    Args:
        runs: in the order that the rows of the table shall have.
        rows, columns: the columns of ``runs`` whose values name the rows and columns of the table.
        heads: how such a value is written, see `whenpool.book.report.tables.grid`.
        text: writes the cell of some runs.
        outer: for how many of ``rows`` guessing has a row for each of their values.
    """
    if runs.empty:
        return NOTHING_YET
    columns, blocks = list(columns), list(rows[:outer])
    order = {"setting": SETTINGS.index}
    places = runs[columns].drop_duplicates().sort_values(
        columns, key=lambda own: own.map(order[own.name]) if own.name in order else own
    )  # fmt: skip
    first = runs[list(rows)].iloc[0].to_dict()
    cells = [first | place | {"text": ""} for place in places.to_dict("records")]
    for _, block in runs.groupby(blocks, sort=False) if blocks else [((), runs)]:
        names = [*rows, *columns]
        for key, own in block.groupby(names, sort=False):
            cells.append(dict(zip(names, key, strict=True)) | {"text": text(own)})
        guessing = dict.fromkeys(rows, "") | {rows[outer]: MAJORITY}
        for key, own in block.groupby([*blocks, *columns], sort=False):
            place = dict(zip([*blocks, *columns], key, strict=True))
            cells.append(guessing | place | {"text": f"{own['majority_accuracy'].mean():.1f}"})
    return grid(pd.DataFrame(cells), rows, columns, lambda cell: cell["text"], heads)


def beside_thesis(
    cells: pd.DataFrame,
    stored: pd.DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    name: str,
    heads: Heads | None = None,
    legend: str = LEGEND,
) -> CaptionedTable:
    """A table of the thesis with ours in its cells, and where ours come from.

    Args:
        cells: as `whenpool.book.report.tables.judged` gives them; those without a deviation of the
            thesis are written without it.
        stored: what they were judged by.
        rows, columns, heads: as for `whenpool.book.report.tables.grid`.
    """
    shown = {key for keys in cells["keys"].dropna() for key in keys}
    runs = stored[stored["key"].isin(shown)] if shown else stored.head(0)
    line = provenance_line(runs, "the thesis alone; none of it has been run here")
    frame = grid(cells, rows, columns, lambda cell: cell_text(cell).replace(" ± nan", ""), heads)
    return CaptionedTable(frame, caption, name, line, legend)
