"""Where a figure or table comes from, in a line."""

from collections.abc import Iterable
from typing import Any

from pandas import DataFrame

from whenpool.book.report.tables import corpus_name, literal
from whenpool.models.registry import LISTED_CELLS


def provenance_line(runs: DataFrame, nothing: str = "no runs yet") -> str:
    """Number of runs, corpus, cells and layers where they are not the thesis's, device, precision where
    it is not float32, commit, computing time and date of the newest.

    Args:
        runs: rows of `Store.rows`.
        nothing: what to say when there are none.
    """
    if runs.empty:
        return f"Provenance: {nothing}."
    corpora = sorted({corpus_name(str(name).split(":")[0]) for name in runs["corpus"]})
    parts = [
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}",
        f"corpus {_listed(corpora)}",
        f"{_listed(f'{int(size):,}' for size in sorted(set(runs['size'])))} training "
        f"{'sentences' if 'unseen_accuracy' in runs else 'texts'}",
        *_models(runs),
        *_named(runs, "encoder", "vectors", "filler"),
        _listed(map(literal, runs["device"])),
        *_precisions(runs),
        f"torch {_listed(runs['torch'])}",
        f"commit {_listed(str(value) or 'unknown' for value in runs['commit'].fillna(''))}",
        *_reuse(runs),
        f"{duration(runs['seconds'].sum())} of computing",
        f"finished {str(runs['finished'].max())[:10]}",
    ]
    return "Provenance: " + "; ".join(parts) + "."


def _named(runs: DataFrame, *columns: str) -> list[str]:
    """What stands in some columns, where anything does."""
    known = {name: runs[name].dropna() for name in columns if name in runs}
    return [f"{name} {_listed(map(literal, values))}" for name, values in known.items() if len(values)]


def _models(runs: DataFrame) -> list[str]:
    """The cells and numbers of layers, where they are not one layer of LSTMs."""
    columns = ["cell", "layers"]
    if not set(columns) <= set(runs):
        return []
    kinds = runs[columns].dropna().drop_duplicates().itertuples(index=False, name=None)
    titles = [
        LISTED_CELLS[cell].title + (f" of {int(layers)} layers" if layers > 1 else "")
        for cell, layers in kinds
    ]
    return [f"cell {_listed(titles)}"] if set(titles) - {LISTED_CELLS["lstm"].title} else []


def _precisions(runs: DataFrame) -> list[str]:
    """The precisions that are not float32, each with the number of runs if they are not all."""
    counts = runs["precision"].value_counts() if "precision" in runs else {}
    return [
        f"computed in {name}" if count == len(runs) else f"{count} runs computed in {name}"
        for name, count in counts.items()
        if name != "float32"
    ]


def _reuse(runs: DataFrame) -> list[str]:
    """How often the filler sentences of a split had to be begun anew, if that was needed."""
    columns = [name for name in runs if str(name).startswith("filler_passes")]
    most = runs[columns].max().max() if columns else 0
    return [f"filler sentences used up to {int(most)} times"] if most > 1 else []


def duration(seconds: float) -> str:
    """Seconds in the two largest units: "2 h 5 min", "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))
