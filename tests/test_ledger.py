"""The ledger of claims and tables, the command that prints it, and its page."""

import csv
import html
import io
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner
from clones import ROOT
from front_figure import drawn
from made_up import LEDGER

from whenpool.book import figures, ledger, thesis
from whenpool.book.claims import VERDICTS, Claim, Decision, Finding
from whenpool.book.results import Runs
from whenpool.cli import cli

OF_THESIS = [claim for claim in LEDGER if claim.of_thesis]
NONE = Runs(None).table("training")
FULL_TABLES = [("1.6", "imdb"), ("1.6", "yelp")]
FULL_TABLES += [(table, name) for table in ("1.5", "1.8") for name in ("yahoo", "amazon")]
CLAIM = Claim(
    "a", "theory", "2.1", datetime(2026, 1, 2, 3, tzinfo=UTC), "A <b>.", "accuracy", "< 0", '"%"', "tab-a",
    compact={"rule": "< 1", "of": {"size": [1_000, 2_000]}, "why": "it is small"},
)  # fmt: skip
LARGE = Finding("undecided", -0.5, -2.0, 1.5, 3, keys=("x",))
SMALL = Finding("so far holds", 0.5, n=1, part=True)
DECISION = Decision(CLAIM, {"thesis": LARGE, "compact": SMALL}, {"thesis": Finding("holds", -9.0, n=2)})
ENDLESS = Decision(replace(CLAIM, id="b", section="ours", needs="<i>", scales=("thesis",)),
                   {"thesis": Finding("holds", math.inf, math.inf, math.inf, 1)},
                   thesis=Finding("so far holds", -1.5, n=1))  # fmt: skip


def plain_json(text):
    """Which has no NaN and no Infinity: those are no JSON."""
    return json.loads(text, parse_constant=pytest.fail)


def test_the_evidence_of_a_claim_is_a_figure_or_table_of_its_chapter():
    calls = {
        "thesis.trick_table(": [thesis.trick_table(NONE).name],
        "(thesis_table(": [f"tab-thesis-{t.replace('.', '-')}-{c}" for t, c in FULL_TABLES],
    }
    for chapter in {claim.chapter for claim in LEDGER}:
        text = (ROOT / "book" / f"{chapter}.md").read_text()
        labels = {*re.findall(r'"(tab-[\w-]+)",', text), *re.findall(r"name: (fig-[\w-]+)$", text, re.M)}
        labels.update(*(names for call, names in calls.items() if call in text))
        assert {claim.evidence for claim in LEDGER if claim.chapter == chapter} <= labels


def test_what_was_not_run_has_no_number_and_what_is_infinite_is_json():
    rows = [*map(ledger.row_of, [DECISION, ENDLESS, replace(DECISION, at={}, pilots={})])]
    rows = plain_json(json.dumps(rows, default=dict))
    assert rows[0].items() >= {
        "id": "a", "chapter": "theory", "section": "2.1", "statement": "A <b>.", "unit": '"%"',
        "registered": "2026-01-02", "registered_at": "2026-01-02T03:00:00+00:00", "rule": "< 0",
        "contradiction": "", "remark": "", "needs": "", "evidence": "book/theory.html#tab-a",
        "thesis": None}.items()  # fmt: skip
    assert rows[0]["reduced"] == CLAIM.compact
    assert rows[0]["verdict"] == {"verdict": "undecided", "value": -0.5, "interval": [-2.0, 1.5], "n": 3}
    part = {"verdict": "so far holds", "value": 0.5, "interval": None, "n": 1, "part_of_corpus": True}
    assert rows[0]["compact"] == part
    assert rows[0]["pilots"] == {"thesis": {"verdict": "holds", "value": -9.0, "interval": None, "n": 2}}
    assert rows[1]["verdict"] == {"verdict": "holds", "value": None, "interval": None, "n": 1}
    assert (rows[1]["compact"], rows[1]["thesis"]["value"]) == (None, -1.5)
    assert (rows[2]["verdict"], rows[2]["compact"], rows[2]["pilots"]) == (None, None, {})


def run(*arguments):
    return CliRunner().invoke(cli, ["claims", *arguments], catch_exceptions=False).output


@pytest.fixture
def read_once(recorded, decided, monkeypatch):
    """What the command would read and decide anew, which takes seconds."""
    monkeypatch.setattr(ledger, "Runs", lambda place: recorded)
    own = lambda runs, chapter: [d for d in decided if chapter in (None, d.claim.chapter)]  # noqa: E731
    monkeypatch.setattr(ledger, "decisions", own)


def test_a_chapter_and_a_verdict_narrow_it(on_record, read_once):
    lines = csv.DictReader(io.StringIO(run("--chapter", "few_shot", "--format", "csv")))
    assert [line["id"] for line in lines] == [c.id for c in LEDGER if c.chapter == "few_shot"]
    found = plain_json(run("--chapter", "theory", "--verdict", "holds", "--format", "json"))
    assert {(row["chapter"], row["verdict"]["verdict"]) for row in found} == {("theory", "holds")}
    assert plain_json(run("--chapter", "theory", "--verdict", "not run", "--format", "json")) == []
    every = plain_json(ledger.written(on_record, "json"))
    assert [row["id"] for row in every] == [claim.id for claim in LEDGER]


def test_a_terminal_sees_chapters_verdicts_counts_and_tables(read_once):
    text = run("--chapter", "gradient")  # a short name
    assert {claim.chapter for claim in LEDGER if f"{claim.id} " in text} == {"gradient_propagation"}
    line = ledger.as_text([DECISION]).splitlines()[1]
    assert line.split() == "a 2.1 < 0 undecided −0.5 (−2 to 1.5) n=3 so far holds 0.5 n=1".split()


@pytest.mark.parametrize(("option", "given", "message"), [
    ("chapter", "nothing", "must be one of gradient_propagation, "),
    ("verdict", "true", "is unknown; choose one of holds, does not hold, "),
    ("format", "yaml", "is unknown; choose one of table, json, csv"),
])  # fmt: skip
def test_a_mistake_is_one_line_that_names_the_choices(option, given, message, mistake):
    assert f"{option} {given!r} {message}" in mistake("claims", f"--{option}", given)


def test_it_needs_none_of_what_only_the_book_needs():
    absent = "matplotlib seaborn jupytext papermill tabulate myst_nb".split()
    code = f"import sys; sys.modules |= dict.fromkeys({absent}); from whenpool.cli import cli; cli()"
    command = [sys.executable, "-c", code, "claims", "--chapter", "few_shot"]
    assert "max-attention-competitive-imdb" in subprocess.check_output(command, text=True, cwd=ROOT)


def test_bars_count_the_claims_of_the_thesis_at_each_scale():
    at = [{"thesis": Finding(VERDICTS[i % 2]), "compact": Finding("not run")} for i in range(3)]
    decided = [Decision(claim, each) for claim, each in zip(OF_THESIS, at, strict=False)]
    ours = replace(decided[0], claim=replace(OF_THESIS[0], section="ours"))
    shown = ledger.VerdictBars([*decided, ours])._repr_mimebundle_()
    scales = "at the thesis's scale: 2 hold, 1 does not hold; in the compact replication: 3 not run"
    assert shown["text/plain"] == f"3 claims; {scales}"
    bars = r'style="flex-grow:(\d+)" title="[^"]+" href="ledger.html#([^"]+)&amp;source=thesis"'
    drawn_bars = [("2", "verdict=holds"), ("1", "verdict=does+not+hold"), ("3", "compact=not+run")]
    assert re.findall(bars, shown["text/markdown"]) == drawn_bars


def test_the_front_page_and_the_readmes_figure_have_the_numbers_of_the_record():
    with plt.rc_context():
        page = drawn()
    drawing = html.unescape((ROOT / "book" / "_static" / "front.svg").read_text())
    facts = "; ".join(map(" ".join, page["facts"].items()))
    assert facts in drawing, "run python scripts/front_figure.py"
    last, chrono = (page["facts"][f"mid_{name}"] for name in ("last", "chrono"))
    assert float(last) < 52 < 65 < float(chrono)


def test_small_ratios_are_said_as_one_says_them():
    texts = [figures.times_smaller(ratio) for ratio in (2.7e-8, 7.5e-7, 1e-3, float("nan"))]
    assert texts == ["37 million", "1.3 million", "1,000", "?"]
