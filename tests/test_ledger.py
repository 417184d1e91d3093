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
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from click.testing import CliRunner

from whenpool.book.report import claims as deciding
from whenpool.book.report import few_shot, ledger, tables, tricks
from whenpool.book.report.claims import VERDICTS, Claim, Decision, Finding, claims
from whenpool.book.report.ledger import NO_RULE
from whenpool.book.report.measures import MEASURES, SCALES, Runs
from whenpool.book.report.verdicts import FILES, MARKS, published
from whenpool.cli import cli, main

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
CLAIMS = claims()
FULL_TABLES = [("1.6", "imdb"), ("1.6", "yelp")]
FULL_TABLES += [(table, name) for table in ("1.5", "1.8") for name in ("yahoo", "amazon")]
CLAIM = Claim(
    "a", "theory", "2.1", datetime(2026, 1, 2, 3, tzinfo=UTC), "A <b>.", "accuracy", "< 0", '"%"', "tab-a",
    compact={"rule": "< 1", "of": {"size": [1_000, 2_000]}, "why": "it is small"},
)  # fmt: skip
LARGE = Finding("undecided", -0.5, -2.0, 1.5, 3, keys=("x",))
SMALL = Finding("so far holds", 0.5, n=1, part=True)
DECISION = Decision(CLAIM, {"thesis": LARGE, "compact": SMALL}, {"thesis": Finding("holds", -9.0, n=2)})
ENDLESS = Decision(replace(CLAIM, id="b", section="ours", scales=("thesis",)),
                   {"thesis": Finding("holds", math.inf, math.inf, math.inf, 1)},
                   thesis=Finding("so far holds", -1.5, n=1))  # fmt: skip


@pytest.fixture(scope="module")
def printed(on_record):
    """What `whenpool claims --format json` prints of the reference runs."""
    return plain_json(ledger.written(on_record, "json"))


def plain_json(text):
    """Which has no NaN and no Infinity: those are no JSON."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


def labels_of(chapter):
    """The figures and tables of a page; some tables of the thesis bring their own names."""
    text = (BOOK / f"{chapter}.md").read_text()
    found = {a or b for a, b in re.findall(r'"(tab-[\w-]+)",|name: (fig-[\w-]+)$', text, re.MULTILINE)}
    for call, table in (
        ("few_shot.thesis_table(", few_shot.thesis_table(pd.DataFrame())),
        ("tricks.thesis_table(", tricks.thesis_table(pd.DataFrame())),
    ):
        found |= {table.name} if call in text else set()
    if "tables.thesis_table(" in text:
        found |= {tables.thesis_table(pd.DataFrame(), *each).name for each in FULL_TABLES}
    return found


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_evidence_of_a_claim_is_a_figure_or_table_of_its_chapter(claim):
    assert claim.evidence in labels_of(claim.chapter)
    assert ledger.link_of(claim) == f"{claim.chapter}.html#{claim.evidence}"


def test_shares_are_those_of_the_chapters(on_record, recorded):
    found = ledger.shares(recorded).set_index("table")
    assert set(found.index) == {table for name in FILES for table in published(name)["table"]}
    for name in ("accuracy", "few_shot", "learnability"):
        for table, rows in published(name).groupby("table"):
            assert (found.loc[table, "cells"], found.loc[table, NO_RULE]) == (len(rows), 0)
    stored = on_record.store.current("training")
    cells = tables.judged(
        tables.record_runs(stored), published("accuracy").query("table in ['1.5', '1.6', '1.8']")
    )
    for verdict in ledger.JUDGED:
        full = found.loc[["1.5", "1.6", "1.8"], verdict]
        assert full.sum() == (cells["verdict"] == verdict).sum()
    tricked = tricks.thesis_cells(stored)
    for table, cells in (
        ("1.9", few_shot.thesis_cells(on_record.store.current("few-shot"))),
        ("2.1", tricked[tricked["table"] == "2.1"]),
    ):
        counted = cells["verdict"].value_counts().to_dict()
        assert {verdict: count for verdict in MARKS if (count := found.loc[table, verdict])} == counted


def test_without_runs_nothing_of_a_table_is_judged():
    found = ledger.shares(Runs(None))
    assert (found["cells"] == found["not run"] + found[NO_RULE]).all()
    assert found[["judged", "compact"]].to_numpy().sum() == 0
    assert set(ledger.shares_frame(found)[["of judged", "of all", "compact"]].to_numpy().ravel()) == {""}
    not_run = ledger.ledger(Runs(None), verdict="not run")
    assert [d.claim for d in not_run] == [c for c in CLAIMS if not MEASURES[c.measure].drawn]


def test_the_share_is_of_what_was_judged_and_of_all():
    verdicts = {"reproduced": 3, "differs": 1, "undecided": 2, "so far": 3, "pilot": 1, "not run": 20}
    row = {"table": "1.6", "shows": "", "cells": 30, NO_RULE: 0, "compact": 7, "judged": 6} | verdicts
    shown = ledger.shares_frame(pd.DataFrame([row])).iloc[0]
    assert shown[["of judged", "of all", "compact", NO_RULE]].tolist() == ["50.0 %", "10.0 %", "7", ""]


def test_the_command_prints_a_list_with_an_object_for_each_claim(decided, printed):
    assert [row["id"] for row in printed] == [claim.id for claim in CLAIMS]
    for row, decision in zip(printed, decided, strict=True):
        claim = decision.claim
        assert datetime.fromisoformat(row["registered_at"]) == claim.registered
        assert row["registered"] == claim.registered.date().isoformat()
        assert row["evidence"] == f"book/{claim.chapter}.html#{claim.evidence}"
        told = {"verdict": decision.at.get("thesis"), "compact": decision.at.get("compact")}
        for name, finding in (told | {"thesis": decision.thesis}).items():
            assert row[name] == (finding and finding.as_data())
        assert set(row["pilots"]) == {scale for scale, one in decision.pilots.items() if one.n}
        for name in ("statement", "contradiction", "needs", "remark", "rule", "unit", "section"):
            assert row[name] == getattr(claim, name)


def test_what_was_not_run_has_no_number_and_what_is_infinite_is_json():
    rows = plain_json(ledger.as_json([DECISION, ENDLESS, replace(DECISION, at={}, pilots={})]))
    assert rows[0]["verdict"] == {"verdict": "undecided", "value": -0.5, "interval": [-2.0, 1.5], "n": 3}
    assert rows[0]["compact"] == {
        "verdict": "so far holds", "value": 0.5, "interval": None, "n": 1, "part_of_corpus": True,
    }  # fmt: skip
    assert rows[0]["pilots"] == {
        "thesis": {"verdict": "holds", "value": -9.0, "interval": None, "n": 2}
    }  # fmt: skip
    assert rows[0]["thesis"] is None
    assert rows[0]["reduced"] == dict(CLAIM.compact)
    assert rows[1]["verdict"] == {"verdict": "holds", "value": None, "interval": None, "n": 1}
    assert (rows[1]["compact"], rows[1]["thesis"]["value"]) == (None, -1.5)
    assert (rows[2]["verdict"], rows[2]["compact"], rows[2]["pilots"]) == (None, None, {})


def lines_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_line_of_csv_has_the_numbers_of_the_object(printed, decided):
    for line, row in zip(lines_of(ledger.as_csv(decided)), printed, strict=True):
        assert (line["id"], line["registered"], line["statement"]) == (
            row["id"], row["registered"], row["statement"],
        )  # fmt: skip
        for name in ("verdict", "compact", "thesis"):
            data = row[name] or {"verdict": "", "value": None, "interval": None, "n": ""}
            assert (line[name], line[f"{name}_n"]) == (data["verdict"], str(data["n"]))
            numbers = [data["value"], *(data["interval"] or (None, None))]
            shown = [line[f"{name}_{part}"] for part in ("value", "low", "high")]
            assert shown == ["" if number is None else str(number) for number in numbers]
    assert ledger.as_csv([]) == "id"


def run(*arguments):
    return CliRunner().invoke(cli, ["claims", *arguments], catch_exceptions=False).output


def test_a_chapter_and_a_verdict_narrow_it():
    lines = lines_of(run("--chapter", "few_shot", "--format", "csv"))
    assert [line["id"] for line in lines] == [c.id for c in CLAIMS if c.chapter == "few_shot"]
    found = plain_json(run("--chapter", "theory", "--verdict", "holds", "--format", "json"))
    assert found
    assert {(row["chapter"], row["verdict"]["verdict"]) for row in found} == {("theory", "holds")}
    assert plain_json(run("--chapter", "theory", "--verdict", "not run", "--format", "json")) == []


def test_a_verdict_is_looked_for_at_either_scale(monkeypatch):
    monkeypatch.setattr(ledger, "decisions", lambda runs, chapter: [DECISION, ENDLESS])
    for verdict, expected in (
        ("undecided", "a"),
        ("so far holds", "a"),
        ("holds", "b"),
        ("not run", ""),
    ):
        assert [d.claim.id for d in ledger.ledger(Runs(None), verdict=verdict)] == list(expected)


def test_a_terminal_sees_chapters_verdicts_counts_and_tables():
    text = run("--chapter", "gradient_propagation")
    assert text.startswith("Gradient propagation\n")
    for claim in CLAIMS:
        assert (f" {claim.id} " in text) == (claim.chapter == "gradient_propagation")
    assert re.search(r"^ 1\.2 .*vanishing ratio", text, re.MULTILINE)
    assert not re.search(r"^ 1\.6 ", text, re.MULTILINE)
    line = ledger.as_text([DECISION]).splitlines()[2]
    assert line.split() == ["a", "2.1", "<", "0", *"undecided -0.5 (-2 to 1.5) n=3".split(),
                            *"so far holds 0.5 n=1".split()]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--chapter", "few-shot"],
            "chapter 'few-shot' is unknown; choose one of gradient_propagation, ",
        ),
        (["--verdict", "true"], "verdict 'true' is unknown; choose one of holds, does not hold, "),
        (["--format", "yaml"], "format 'yaml' is unknown; choose one of table, json, csv"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_choices(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["whenpool", "claims", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_it_needs_none_of_what_only_the_book_needs():
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'seaborn', 'jupytext', 'papermill', 'tabulate', 'myst_nb'):\n"
        "    sys.modules[name] = None\n"
        "from whenpool.cli import cli\n"
        "cli(['claims', '--chapter', 'few_shot'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "max-attention-competitive-imdb" in done.stdout


def parsed(decided):
    """The table as a tree: it is well-formed, whatever a claim says."""
    text = ledger.ledger_html(decided).replace(" hidden>", ' hidden="">')
    return ElementTree.fromstring(text.replace('autocomplete="off">', 'autocomplete="off"/>'))


def test_every_claim_has_a_row_that_can_be_linked_to(decided):
    tree = parsed(decided)
    heads = ["".join(cell.itertext()) for cell in tree.find(".//thead/tr")]
    assert heads[:6] == ["Claim", "The thesis", "Thesis's scale", "Compact", "Rule", "Registered"]
    rows = tree.findall(".//tbody/tr")
    idle = [d for d in decided if {d.verdict(scale) for scale in SCALES} <= {"not run", ""}]
    assert tree.findall(".//details//tbody/tr") == rows[len(rows) - len(idle) :]
    for row, decision in zip(rows, [*(d for d in decided if d not in idle), *idle], strict=True):
        assert row.get("id") == f"claim-{decision.claim.id}"
        claim = decision.claim
        text = dict(zip(heads, ("".join(cell.itertext()) for cell in row), strict=True))
        assert text["Claim"].startswith(f"{claim.statement} {claim.id}")
        for note in (claim.contradiction, claim.remark, claim.needs):
            assert note in text["Claim"]
        assert text["Registered"] == claim.registered.date().isoformat()
        assert deciding.rule_text(claim.rule) in text["Rule"]
        for name, scale in (("Thesis's scale", "thesis"), ("Compact", "compact")):
            check_cell(text[name], decision.at.get(scale), decision.pilots.get(scale))
        check_cell(text["The thesis"], decision.thesis)
        places = [int(row[place].get("data-sort")) for place in (2, 3)]
        assert [(*VERDICTS, "")[place] for place in places] == list(map(decision.verdict, SCALES))
        assert row.get("data-chapter") == claim.chapter
        assert (row.get("data-verdict"), row.get("data-compact")) == (
            decision.verdict("thesis"), decision.verdict("compact"),
        )  # fmt: skip
        assert (row.get("data-source") == "ours") == (claim.section == "ours" == text["Source"])
        assert row.findall(".//a")[-1].get("href") == ledger.link_of(claim)


def check_cell(text, finding, pilots=None):
    """The mark, the verdict, its numbers, and in small type the pilots."""
    verdict = finding.verdict if finding else ""
    expected = f"{ledger.MARKS[verdict]} {verdict}"
    if finding and finding.n:
        expected += f"{finding.measured}, n = {finding.n}" + "part of the corpus" * finding.part
    if pilots and pilots.n:
        expected += f"pilots: {pilots.measured}, n = {pilots.n}"
    assert text == expected


def test_a_row_says_what_the_compact_replication_changes():
    (row,) = parsed([DECISION]).findall(".//tbody/tr")
    text = ["".join(cell.itertext()) for cell in row]
    assert text[4] == '"%" < 0. Compact: < 1, size 1,000, 2,000, since it is small'
    assert text[3] == "✓ so far holds0.5, n = 1part of the corpus"
    assert text[2] == "? undecided-0.5 (-2 to 1.5), n = 3pilots: -9, n = 2"
    (alone,) = parsed([ENDLESS]).findall(".//tbody/tr")
    assert [alone[3].get("data-sort"), "".join(alone[3].itertext()).strip()] == ["6", ""]
    assert "Compact" not in "".join(alone[4].itertext())


def test_what_a_claim_says_is_escaped():
    claim = replace(CLAIM, statement="<script>x</script> & y.", needs="<i>", compact={})
    text = ledger.ledger_html([replace(DECISION, claim=claim)])
    assert "<script>" not in text
    assert "<i>" not in text
    assert html.escape("<script>x</script> & y.") in text
    assert '"%' not in text
