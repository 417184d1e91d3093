"""Statistics of the thesis's corpora, here and on record (§1.4.1, §1.8.5)."""

from typing import Any

import pandas as pd

from whenpool.base.errors import InputError
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


def recorded_statistics() -> pd.DataFrame:
    """The published statistics of whole corpora, a row for each corpus and length."""
    found = Place.default().store.read_published("corpora")
    return found if "corpus" in found else found.assign(corpus=[], length=[])
