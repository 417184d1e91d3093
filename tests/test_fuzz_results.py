"""Whatever is in a file of results, claims or weights, or an option: read, or refused in a line."""

import io
from pathlib import Path

import pandas as pd
import pytest
from made_up import LEDGER

from whenpool import InputError
from whenpool.book.chapter import Chapter
from whenpool.book.claims import decide
from whenpool.book.results import Runs
from whenpool.book.tables import provenance_line
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.probe import PROBES
from whenpool.runs.request import Request
from whenpool.runs.run import Place
from whenpool.runs.store import Store

RESULTS = Path(__file__).parents[1] / "data" / "results"
OF_KIND = tuple(kind.table for kind in KINDS.values())
RECORDS = sorted(file.name for file in RESULTS.glob("*.csv") if file.name.startswith(OF_KIND))


@pytest.fixture
def few_results(tmp_path):
    """The first rows of each published file, and what reads them with one file's content in its place."""
    records = tmp_path / "records"
    records.mkdir()
    valid = {name: b"".join((RESULTS / name).open("rb").readlines()[:7]) for name in RECORDS}
    some = [claim for claim in LEDGER if claim.chapter != "theory"][::9]

    def read(name, content):
        for other, rows in (valid | {name: content}).items():
            (records / other).write_bytes(rows)
        place = Place(Store(tmp_path / "store", records), tmp_path, tmp_path)
        for kind, own in KINDS.items():
            rows = place.store.current(kind)
            assert all("key" in place.store.history(kind, history) for history in own.histories)
            assert all(str(own.of_row(row)) for row in rows.to_dict("records"))
            if kind in ("training", "probe"):
                assert provenance_line(rows).startswith("Provenance")
        chapter = Chapter("regularisation", Request("paper"), place)
        for kind in PROBES:
            chapter.results(kind, "compact")
        runs = Runs(place)
        assert all(decide(claim, runs).in_short for claim in some)

    return valid, read


def test_reference_runs_that_are_older_than_a_column_are_read(few_results):
    valid, read = few_results
    rows = pd.read_csv(io.BytesIO(valid["trainings.csv"]), dtype=str)
    read(
        "trainings.csv",
        rows.drop(columns=["orthogonal", "trick", "together"]).to_csv(index=False).encode(),
    )


def test_a_file_of_record_that_is_none_is_told(tmp_path):
    (tmp_path / "trainings.csv").write_text("")
    with pytest.raises(InputError, match=r"reference runs .*trainings.csv cannot be read"):
        Store(tmp_path, tmp_path).rows("training")
