"""The tables of the chapter "Corpora" (thesis §1.4.1, §1.8.5)."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from whenpool.base.errors import InputError
from whenpool.book.report.tables import literal
from whenpool.book.report.verdicts import published
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import statistics_of
from whenpool.runs.run import Place

STATISTICS_OF_RECORD = "corpora.csv"
FIGURES = ("classes", "average_length", "max_length", "train_size", "test_size")
"""What the tables of corpora give of each."""


def measured(place: Place) -> pd.DataFrame:
    """Statistics of the thesis's corpora; ``source`` is "here", "record", or why there are none."""
    record = recorded_statistics().set_index(["corpus", "length"]).to_dict("index")
    rows = []
    for corpus, length in published("corpora")[["corpus", "length"]].itertuples(index=False):
        found: dict[Any, Any] = record.get((corpus, length), {})
        source = "record" if found else "no files here"
        if PUBLICATIONS[corpus].find(place.data) is not None:
            try:
                found, source = statistics_of(find(corpus, place.data), length), "here"
            except InputError:
                found, source = {}, "cannot be read"
        rows.append({"corpus": corpus, "length": length, **found, "source": source})
    return pd.DataFrame(rows)


def corpora_table(place: Place, others: Iterable[str] = ()) -> pd.DataFrame:
    """Tables 1.1 and 1.7: the thesis's figures, and ours where the files were seen."""
    heads = dict(zip(FIGURES, ("classes", "mean length", "longest", "train", "test"), strict=True))

    def text(figure: str, value: Any) -> str:
        return f"{value:,.{1 if figure == 'average_length' else 0}f}"

    rows = []
    theirs, ours = published("corpora"), measured(place)
    for (_, paper), (_, mine) in zip(theirs.iterrows(), ours.iterrows(), strict=True):
        seen = mine["source"] in ("here", "record")
        line = {"corpus": f"{paper['corpus']}, {paper['length']}"}
        for name, head in heads.items():
            own = f"**{text(name, mine[name])}**<br>" if seen else ""
            line[head] = own + text(name, paper[name])
        files = "complete" if seen and mine["complete"] else "a part or stand-in"
        rows.append(line | {"files": files if seen else mine["source"]})
    for name in others:
        corpus = find(name, place.data)
        found = statistics_of(corpus, "any")
        figures = {head: f"**{text(figure, found[figure])}**" for figure, head in heads.items()}
        rows.append({"corpus": literal(corpus.label), **figures, "files": "not the thesis's"})
    return pd.DataFrame(rows)


def recorded_statistics() -> pd.DataFrame:
    """The published statistics of whole corpora, a row for each corpus and length."""
    found = Place.default().store.read_record("corpora")
    return found if "corpus" in found else found.assign(corpus=[], length=[])
