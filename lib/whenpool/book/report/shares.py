"""How many cells of each table of the thesis were reproduced, by the rules of its chapters."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whenpool.book.report import few_shot, tricks
from whenpool.book.report.claims import sample_of
from whenpool.book.report.corpora import FIGURES, recorded_statistics
from whenpool.book.report.measures import Runs
from whenpool.book.report.paper import published
from whenpool.book.report.tables import judged
from whenpool.book.report.verdicts import MARKS

NO_RULE = "no rule"
"""Of a cell with a number of ours where the rule for accuracies does not apply."""
JUDGED = ("reproduced", "differs", "undecided")
LEGEND = (
    "Of judged: the share reproduced of the cells that are reproduced, differ or are undecided. No "
    "rule: ours stands beside the thesis's number in its chapter, and the rule is for test accuracies. "
    "Compact: cells with a number of the compact replication beside. "
    "Tables 1.3 and 1.4 repeat cells of the tables after them, so that the rows do not add up."
)
"""What `whenpool.book.report.ledger.shares_frame` shows."""


@dataclass(frozen=True)
class About:
    """What a table of the thesis shows, and where the book does."""

    chapter: str
    shows: str


TABLES = {
    "1.1": About("corpora", "statistics of long texts"),
    "1.2": About("gradient_propagation", "vanishing ratio, validation accuracy"),
    "1.3": About("training_to_skip", "accuracy, long texts, in brief"),
    "1.4": About("training_to_skip", "accuracy, short texts, in brief"),
    "1.5": About("training_to_skip", "accuracy, long texts, Yahoo and Amazon"),
    "1.6": About("training_to_skip", "accuracy, long texts, IMDb and Yelp"),
    "1.7": About("corpora", "statistics of short texts"),
    "1.8": About("training_to_skip", "accuracy, short texts"),
    "1.9": About("few_shot", "accuracy, 10 labels of each class"),
    "2.1": About("learnability", "accuracy with tricks"),
}


@dataclass(frozen=True)
class Share:
    """How a table of the thesis stands.

    Attributes:
        verdicts: how many cells have each verdict of `MARKS`, or `NO_RULE`.
        compact: how many have a number of the compact replication beside.
    """

    table: str
    verdicts: Mapping[str, int]
    compact: int = 0

    @property
    def chapter(self) -> str:
        return TABLES[self.table].chapter

    @property
    def cells(self) -> int:
        return sum(self.verdicts.values())

    @property
    def judged(self) -> int:
        """Cells that runs by the thesis's protocol, three seeds or more, say something about."""
        return sum(self.verdicts.get(name, 0) for name in JUDGED)

    @property
    def of_judged(self) -> float | None:
        """The share reproduced of what was judged, or None where nothing was."""
        return self.verdicts.get("reproduced", 0) / self.judged if self.judged else None

    @property
    def of_all(self) -> float:
        return self.verdicts.get("reproduced", 0) / self.cells

    def row(self) -> dict[str, Any]:
        """The table as plain data."""
        about = TABLES[self.table]
        each = {name: self.verdicts.get(name, 0) for name in (*MARKS, NO_RULE)}
        shares = {"reproduced_of_judged": self.of_judged, "reproduced_of_all": self.of_all}
        named = {"table": self.table, "chapter": about.chapter, "shows": about.shows}
        return named | {"cells": self.cells} | each | shares | {"compact": self.compact}

    def shown(self) -> dict[str, str]:
        """The table as texts for a reader."""
        row = self.row()
        part = "" if self.of_judged is None else _percent(self.of_judged)
        each = {name: str(row[name] or "") for name in (*MARKS, NO_RULE)}
        named = {"table": self.table, "shows": row["shows"], "cells": str(self.cells)}
        first = {"reproduced": each["reproduced"], "of judged": part}
        last = {
            "of all": _percent(self.of_all) if self.judged else "",
            "compact": str(self.compact or ""),
        }
        return named | first | last | each


def shares(runs: Runs) -> list[Share]:
    """All tables of the thesis; a cell can stand in two of them."""
    stored = runs.trainings
    cells = {
        table: judged(stored, rows) for table, rows in published("accuracy").groupby("table", sort=False)
    }
    tricked = tricks.thesis_cells(stored)
    cells["2.1"] = tricked[tricked["table"] == "2.1"]
    cells["1.9"] = few_shot.thesis_cells(runs.few_shots)
    found = {table: Counter(part["verdict"]) for table, part in cells.items()}
    compact = {table: int((part["compact"] != "").sum()) for table, part in cells.items()}
    found["1.2"], compact["1.2"] = _ratios(runs)
    found |= _statistics()
    return [Share(table, found[table], compact.get(table, 0)) for table in TABLES]


def _ratios(runs: Runs) -> tuple[Counter[str], int]:
    """Table 1.2: ratios and validation accuracies, which the rule for test accuracies does not judge; and
    how many the compact replication has."""
    theirs = published("vanishing")
    found: Counter[str] = Counter()
    compact = 0
    for row in theirs[theirs["source"] == "thesis"].itertuples():
        for measure in ("ratio_at_95", "validation_accuracy"):
            wanted = {"model": row.pooling, "size": row.size}
            found.update([_seen(sample_of(runs, measure, "thesis", **wanted) is not None)])
            compact += sample_of(runs, measure, "compact", **wanted) is not None
    return found, compact


def _statistics() -> dict[str, Counter[str]]:
    """Tables 1.1 and 1.7: statistics of corpora, as the record has them."""
    recorded = recorded_statistics()
    seen = set(zip(recorded["corpus"], recorded["length"], strict=True))
    found: dict[str, Counter[str]] = {}
    for row in published("corpora").itertuples():
        ours = _seen((row.corpus, row.length) in seen)
        found.setdefault(str(row.table), Counter()).update([ours] * len(FIGURES))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _seen(ours: bool) -> str:
    return NO_RULE if ours else "not run"
