"""The ledger of claims, the command that prints it, the advice (which pooling for which task) and
the figure that rest on it."""

import csv
import html
import io
import json
import math
import re
from dataclasses import replace
from functools import partial
from itertools import product

import matplotlib.pyplot as plt
import pytest
from called import refused
from clones import ROOT, source_of
from conftest import told
from front_figure import drawn, facts_of
from made_up import LEDGER
from pandas import DataFrame

from paper.chapters import PLANS, plan
from paper.pages import advice
from paper.pages.advice import Advice, advice_for, entries, support, with_verdicts
from paper.runs.kinds import Training
from paper.runs.request import Request
from paper.verdicts import ledger
from paper.verdicts.claims import Decision, Finding
from paper.verdicts.results import has, published, with_model


def test_the_evidence_of_a_claim_is_a_figure_or_table_of_its_page():
    places = [claim.shown_at.split(".html#") for claim in LEDGER]
    tables = published("accuracy")[["table", "corpus"]].drop_duplicates().to_numpy()
    by_thesis_table = {f"tab-thesis-{table.replace('.', '-')}-{corpus}" for table, corpus in tables}
    for page in {page for page, _ in places}:
        text = source_of(page)
        labels = {
            *re.findall(r'"(tab-[\w-]+)",', text),
            *re.findall(r"name: (fig-[\w-]+)$", text, re.M),
        }
        named = {name for where, name in places if where == page} - labels
        assert named <= by_thesis_table


@pytest.fixture
def read_once(recorded, decided, monkeypatch):
    """What the command would read and decide anew, which takes seconds."""
    monkeypatch.setattr(ledger, "Runs", lambda place: recorded)
    own = lambda runs, chapter: [d for d in decided if chapter in (None, d.claim.chapter)]  # noqa: E731
    monkeypatch.setattr(ledger, "decisions", own)


def test_a_chapter_and_a_verdict_narrow_it(on_record, read_once):
    lines = csv.DictReader(io.StringIO(told("claims", "--chapter", "few_shot", "--format", "csv")))
    assert [line["id"] for line in lines] == [c.id for c in LEDGER if c.chapter == "few_shot"]
    of_theory = partial(told, "claims", "--chapter", "theory", "--format", "json", "--verdict")
    found = json.loads(of_theory("holds"))
    assert {(row["chapter"], row["verdict"]["verdict"]) for row in found} == {("theory", "holds")}
    assert json.loads(of_theory("not run")) == []
    every = json.loads(ledger.written(on_record, "json"))
    assert [row["id"] for row in every] == [claim.id for claim in LEDGER]


def test_verdicts_are_corrected_for_their_number():
    levels = {"a": 0.001, "b": 0.012, "c": 0.03, "d": 0.02, "e": math.nan, "f": 0.9}
    some = [
        Decision(
            replace(LEDGER[0], id=name),
            {"thesis": Finding("holds" if p < 0.05 else "undecided", p=p)},
        )
        for name, p in levels.items()
    ]
    assert [*ledger.tested(some, "thesis")] == ["a", "b", "d", "c", "f"]
    # Holm: 0.001 of 0.05 / 5, 0.012 of 0.05 / 4, 0.02 above 0.05 / 3, and so the rest
    assert ledger.surviving_holm(some, "thesis") == {"a", "b"}
    # Benjamini and Hochberg: 0.03 is at most 4 / 5 of 0.05
    assert ledger.surviving_fdr(some, "thesis") == {"a", "b", "c", "d"}
    assert ledger.wrong_at_most(some) == pytest.approx(5 * 0.025)
    assert ledger.surviving_holm([], "thesis") == ledger.surviving_fdr([], "thesis") == set()


def test_nearly_every_claim_has_compact_runs_or_they_are_planned(decided, place):
    """A model, size or place that no planned run has would leave a claim "not run" for ever."""
    compact = [d for d in decided if "compact" in d.at]
    waiting = [d.claim for d in compact if not (d.at["compact"].n or d.pilots["compact"].n)]
    runs = [run.training or run for name in PLANS for run in plan(name, Request("compact"), place)]
    planned = with_model(DataFrame(run.row() for run in runs if isinstance(run, Training)))

    def is_planned(claim, selection):
        model, seeds = selection.get("model", "last"), claim.seeds["compact"]
        if claim.measure == "accuracy_by_draw":  # the draw is a part of the name of a model
            return {f"{model}, draw {draw}" for draw in seeds} <= {*planned["model"]}
        narrowing = ("size", "setting", "epochs", "clip", "learning_rate")
        asked = {name: selection[name] for name in narrowing if name in selection}
        return {*seeds} <= {*planned[has(planned, asked | {"model": model})]["seed"]}

    asked = [
        (claim, selection | way)
        for claim in waiting
        for terms in claim.at("compact").comparisons("compact")
        for _, selection in terms
        for way in selection.get("best_of", [{}])
    ]
    without = {claim.id for claim, selection in asked if not is_planned(claim, selection)}
    assert len(without) <= 3, without


def test_verdicts_of_advice_are_those_of_the_ledger(recorded, decided):
    told = {decision.claim.id: decision.in_short for decision in decided}
    for each in with_verdicts(entries(), recorded):
        assert each.verdicts == [told[name] for name in each.claims]


def test_a_terminal_sees_chapters_verdicts_counts_and_tables(read_once):
    text = told("claims", "--chapter", "gradient_propagation")
    assert {claim.chapter for claim in LEDGER if f"{claim.id} " in text} == {"gradient_propagation"}
    line = "^low-forget-gates-vanish +1.5 +<= 1e-9 +so far holds 10⁻¹⁵ n=1 "
    assert re.search(line, text, re.MULTILINE)


def test_the_front_page_and_the_readmes_figure_agree():
    with plt.rc_context():
        page = drawn()
    drawing = html.unescape((ROOT / "book" / "_static" / "front.svg").read_text())
    assert facts_of(page) in drawing, "run python scripts/front_figure.py"
    lost = page["answers"].lt(0.5).idxmax()
    assert 0 < lost["last"] < lost["max_attention"] < lost["attention"]
    assert page["answers"]["max"].min() > 0.5


@pytest.fixture
def undecided(monkeypatch):
    """As where no run is stored; deciding every claim anew takes long."""
    monkeypatch.setattr(advice, "with_verdicts", lambda chosen, runs: chosen)


@pytest.mark.parametrize(
    "name, given, other",
    [
        ("pool-long-texts", (100, 1_000), (99.9, 1_000)),
        ("pool-short-texts", (99.9, 1_000), (100, 1_000)),
        ("few-labels", (200, 100), (200, 101)),
        ("much-data", (200, 10_000), (200, 9_999)),
        ("pool-the-middle", (200, 1_000, "middle"), (200, 1_000, "unknown")),
        ("last-state-at-the-start", (200, 1_000, "start"), (200, 1_000, "everywhere")),
    ],
)
def test_advice_depends_on_length_data_and_place(undecided, name, given, other):
    assert name in {each.id for each in advice_for(*given)} - {
        each.id for each in advice_for(*other)
    }


@pytest.mark.parametrize(
    "verdicts, expected",
    [
        (["holds", "holds"], "supported"),
        (["holds", "so far holds"], "supported so far"),
        (["holds", "not run"], "supported in part"),
        (["so far does not hold", "not run"], "contradicted"),
        (["undecided", "not run"], "undecided"),
        (["not run"], "untested"),
        (["holds (compact)", "holds"], "supported"),
        (["holds (pretrained)"], "supported"),
        (["not tested: other encoder (compact)", "not run"], "tested otherwise"),
    ],
)
def test_what_verdicts_come_to(verdicts, expected):
    assert support(Advice("a", "Do.", ("a", "b"), tuple(verdicts))) == expected


def test_the_first_advice_for_any_texts_is_a_bag_of_words(undecided):
    for given in product(
        [12.5, 99.5, 100, 240.3], [10, 100, 500, 1_000, 4_999, 20_000], advice.WHERE
    ):
        first = advice_for(*given)[0]
        assert (first.id, support(first)) == ("bag-of-words-first", "measured")


@pytest.mark.parametrize("given", [(-1, 10), (10, 10, "left")])
def test_what_cannot_be_is_told(given):
    refused("not|choose one of unknown, everywhere, start, middle, end", advice_for, *given)
