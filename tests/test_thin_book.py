"""Pages from few runs, as a deadline leaves them."""

import pytest
from test_book import clone
from test_compare import put

from whenpool.book.build import execute
from whenpool.book.report import corpora as reports
from whenpool.runs.plans.chapters import plan
from whenpool.runs.request import Choice


def table_of(store, place, wanted):
    """The runs of the chapter on corpora that a test wants, with made-up accuracies."""
    runs = [run for run in plan("corpora", Choice("quick"), place) if wanted(run)]
    for number, run in enumerate(runs):
        put(store, run, 60.0 + number)
    return reports.with_grammar(store.trainings())


@pytest.fixture
def none(place):
    return table_of(place.store, place, lambda run: run.pooling == "max").head(0)


def test_without_runs_the_page_on_evidence_says_so(none):
    assert reports.evidence_table(none)["classes"].tolist() == ["not run yet"]
    assert set(reports.evidence_facts(none).values()) == {"–"}
    assert reports.plain(none).empty


def test_a_gain_needs_the_model_without_pooling(place):
    runs = table_of(place.store, place, lambda run: run.pooling == "max")
    table = reports.evidence_table(runs)
    assert set(table["gain"]) == {""}
    assert set(reports.evidence_facts(runs).values()) == {"–"}
    sparse = "density=0.02"
    both = table_of(place.store, place, lambda run: run.pooling == "last" and sparse in run.corpus)
    table = reports.evidence_table(both)
    assert sorted(set(table["gain"].map(bool))) == [False, True]
    assert reports.evidence_facts(both)["least_density"] == "2"


def test_the_chapter_on_natural_bias_needs_no_corpus(tmp_path):
    """In the paper's profile without any run of this machine: what is of record is shown."""
    folder = clone(tmp_path)
    environment = {
        "WHENPOOL_DATA": str(tmp_path / "none"),
        "WHENPOOL_STORE": str(tmp_path / "runs"),
        "WHENPOOL_CACHE": str(tmp_path / "cache"),
        "WHENPOOL_COMPUTED": "1",
    }
    target = folder / "book" / "natural_bias.ipynb"
    execute(folder / "book" / "natural_bias.md", target, {"profile": "paper"}, environment)
    assert target.exists()
