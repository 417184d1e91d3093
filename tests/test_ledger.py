"""The ledger of claims and tables, the command that prints it, its page, and prose to agree with it."""

import csv
import html
import io
import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from click.testing import CliRunner

from whenpool import InputError
from whenpool.book.chapter import Chapter
from whenpool.book.report import claims as deciding
from whenpool.book.report import few_shot, front, ledger, skip, tricks
from whenpool.book.report.claims import SEEDS_NEEDED, VERDICTS, Claim, Decision, Finding, Rule, claims
from whenpool.book.report.ledger import NO_RULE, TABLES, Share
from whenpool.book.report.measures import MEASURES, SCALES, Runs
from whenpool.book.report.verdicts import FILES, MARKS, published
from whenpool.cli import cli, main
from whenpool.runs.request import Choice
from whenpool.runs.rows import current_few_shots, current_trainings

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
CLAIMS = claims()
BY_ID = {claim.id: claim for claim in CLAIMS}
CHAPTERS = sorted({claim.chapter for claim in CLAIMS})
CLAIM = Claim(
    "a", "theory", "2.1", datetime(2026, 1, 2, 3, tzinfo=UTC), "A <b>.", "accuracy", "< 0", '"%"', "tab-a",
    compact={"rule": "< 1", "of": {"size": [1_000, 2_000]}, "why": "it is small"},
)  # fmt: skip
LARGE, SMALL = (
    Finding("undecided", -0.5, -2.0, 1.5, 3, keys=("x",)),
    Finding("so far holds", 0.5, n=1, part=True),
)
DECISION = Decision(CLAIM, {"thesis": LARGE, "compact": SMALL}, {"thesis": Finding("holds", -9.0, n=2)})
ENDLESS = Decision(replace(CLAIM, id="b", section="ours", scales=("thesis",)),
                   {"thesis": Finding("holds", math.inf, math.inf, math.inf, 1)},
                   thesis=Finding("so far holds", -1.5, n=1))  # fmt: skip


@pytest.fixture(scope="module")
def printed(on_record):
    """What `whenpool claims --format json` prints of the runs of record."""
    return plain_json(ledger.written(on_record, "json"))


def plain_json(text):
    """Which has no NaN and no Infinity: those are no JSON."""

    def refuse(name):
        raise AssertionError(name)

    return json.loads(text, parse_constant=refuse)


# the data


def test_the_ledger_has_every_claim_once_with_the_verdict_of_its_chapter(decided, recorded):
    assert [decision.claim for decision in decided] == CLAIMS
    assert list(map(ledger.row_of, decided)) == list(map(ledger.row_of, ledger.ledger(recorded)))
    for scale in SCALES:
        own = [decision.at[scale].verdict for decision in decided if scale in decision.at]
        assert ledger.counts(decided, scale) == {verdict: own.count(verdict) for verdict in VERDICTS}
        assert len(own) == sum(scale in claim.scales for claim in CLAIMS)


def labels_of(chapter):
    """The figures and tables of a page; some tables of the thesis bring their own names."""
    text = (BOOK / f"{chapter}.md").read_text()
    found = {a or b for a, b in re.findall(r'"(tab-[\w-]+)",|name: (fig-[\w-]+)$', text, re.MULTILINE)}
    for call, table in (
        ("few_shot.thesis_table(", few_shot.thesis_table(pd.DataFrame())),
        ("tricks.thesis_table(", tricks.thesis_table(pd.DataFrame())),
    ):
        found |= {table.name} if call in text else set()
    if "skip.full_table(" in text:
        found |= {f"tab-thesis-{table.replace('.', '-')}-{name}" for table, name in skip.FULL_TABLES}
    return found


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_evidence_of_a_claim_is_a_figure_or_table_of_its_chapter(claim):
    assert claim.evidence in labels_of(claim.chapter)
    assert ledger.link_of(claim) == f"{claim.chapter}.html#{claim.evidence}"


def test_a_title_is_the_heading_of_the_page():
    for chapter in CHAPTERS:
        assert f"\n# {ledger.title_of(chapter)}\n" in (BOOK / f"{chapter}.md").read_text()
    assert ledger.title_of("no-such-page") == "no-such-page"


# the tables of the thesis


def test_every_table_of_the_thesis_has_its_share(recorded):
    found = ledger.shares(recorded)
    published_tables = {table for name in FILES for table in published(name)["table"]}
    assert {share.table for share in found} == published_tables == set(TABLES)
    for name in ("accuracy", "few_shot", "learnability"):
        for table, rows in published(name).groupby("table"):
            (share,) = (share for share in found if share.table == table)
            assert share.cells == len(rows)
            assert NO_RULE not in share.verdicts


def test_shares_are_those_of_the_chapters(on_record, recorded):
    found = {share.table: share for share in ledger.shares(recorded)}
    stored = current_trainings(on_record)
    cells = skip.judged_cells(skip.record_runs(stored))
    said = skip.facts(cells, skip.record_runs(stored))
    for verdict in ledger.JUDGED:
        summed = sum(found[table].verdicts.get(verdict, 0) for table in ("1.5", "1.6", "1.8"))
        assert summed == said[verdict]
    few = Counter(few_shot.thesis_cells(current_few_shots(on_record))["verdict"])
    assert found["1.9"].verdicts == few
    tricked = tricks.thesis_cells(stored)
    assert found["2.1"].verdicts == Counter(tricked[tricked["table"] == "2.1"]["verdict"])


def test_without_runs_nothing_of_a_table_is_judged():
    nothing = Runs(None)
    for share in ledger.shares(nothing):
        assert set(share.verdicts) <= {"not run", NO_RULE}
        assert (share.of_judged, share.of_all, share.compact) == (None, 0, 0)
        assert share.shown()["of judged"] == share.shown()["of all"] == share.shown()["compact"] == ""
    not_run = ledger.ledger(nothing, verdict="not run")
    assert [d.claim for d in not_run] == [c for c in CLAIMS if not MEASURES[c.measure].drawn]


def test_the_share_is_of_what_was_judged_and_of_all():
    verdicts = {"reproduced": 3, "differs": 1, "undecided": 2, "so far": 3, "pilot": 1, "not run": 20}
    share = Share("1.6", verdicts, 7)
    assert (share.cells, share.judged) == (30, 6)
    assert (share.of_judged, share.of_all) == (0.5, 0.1)
    assert share.row()["reproduced_of_judged"] == 0.5
    assert (share.shown()["of judged"], share.shown()["compact"]) == ("50.0 %", "7")
    assert sum(share.row()[name] for name in (*MARKS, NO_RULE)) == 30


# the command


def test_the_command_prints_a_list_with_an_object_for_each_claim(decided, printed):
    assert [row["id"] for row in printed] == [claim.id for claim in CLAIMS]
    for row, decision in zip(printed, decided, strict=True):
        claim = decision.claim
        assert row["statement"] == claim.statement
        assert row["registered"] == claim.registered.date().isoformat()
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["registered"])
        assert datetime.fromisoformat(row["registered_at"]) == claim.registered
        assert row["evidence"] == f"book/{claim.chapter}.html#{claim.evidence}"
        told = {"verdict": decision.at.get("thesis"), "compact": decision.at.get("compact")}
        for name, finding in (told | {"thesis": decision.thesis}).items():
            assert (row[name] is None) == (finding is None)
            if finding:
                check_finding(row[name], finding)
        assert set(row["pilots"]) == {scale for scale, one in decision.pilots.items() if one.n}
        assert (row["contradiction"], row["needs"]) == (claim.contradiction, claim.needs)


def check_finding(data, finding):
    """An object with a verdict, its value, its interval and n, that follow from each other."""
    assert set(data) - {"part_of_corpus"} == {"verdict", "value", "interval", "n"}
    assert (data["verdict"], data["n"]) == (finding.verdict, finding.n)
    assert data.get("part_of_corpus", False) == finding.part
    if not finding.n:
        assert (data["value"], data["interval"], data["verdict"]) == (None, None, "not run")
    elif math.isfinite(finding.value):
        assert data["value"] == finding.value
        if data["interval"]:
            assert data["interval"] == [finding.low, finding.high]
            assert data["interval"][0] <= data["value"] <= data["interval"][1]


def test_each_verdict_follows_from_its_interval_and_number_of_seeds(decided):
    """Once more, from what is printed alone."""
    checked = Counter()
    for decision in decided:
        for scale, finding in (*decision.at.items(), *decision.pilots.items()):
            row = finding.as_data()
            if row["n"] and row["interval"]:
                rule = Rule.parse(decision.claim.at(scale).rule)
                one = row["n"] < SEEDS_NEEDED and not MEASURES[decision.claim.measure].exact
                ends = [row["value"]] * 2 if one else row["interval"]
                assert row["verdict"] == f"{'so far ' if one else ''}{rule.verdict(*ends)}"
                checked[row["verdict"]] += 1
    assert len(checked) > 2


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
    assert re.search(r"^\d+ claims; thesis's scale: \d+ ", text, re.MULTILINE)
    assert re.search(r"^ 1\.2 .*vanishing ratio", text, re.MULTILINE)
    assert not re.search(r"^ 1\.6 ", text, re.MULTILINE)
    assert not re.search(
        r"^ 1\.2 ", run("--chapter", "gradient_propagation", "--verdict", "not run"), re.M
    )
    line = ledger.as_text([DECISION], []).splitlines()[2]
    assert line.split() == ["a", "2.1", "<", "0", *"undecided -0.5 (-2 to 1.5) n=3".split(),
                            *"so far holds 0.5 n=1".split()]  # fmt: skip


def test_what_we_claim_ourselves_is_counted_apart(decided):
    thesis = ledger.of_the_thesis(decided)
    ours = [decision for decision in decided if decision not in thesis]
    assert {decision.claim.section for decision in ours} == {"ours"}
    assert ledger.summary(decided).startswith(f"{len(decided)} claims ({len(ours)} of them ours); ")
    assert ledger.summary(thesis).startswith(f"{len(thesis)} claims; ")
    assert ledger.summary([DECISION, ENDLESS]) == (
        "2 claims (1 of them ours); thesis's scale: 1 holds, 1 undecided; compact: 1 so far holds"
    )
    assert ledger.summary([]) == "0 claims"


def test_a_chapter_with_tables_and_without_claims_is_known(recorded, monkeypatch):
    others = [claim for claim in CLAIMS if claim.chapter != "training_to_skip"]
    monkeypatch.setattr("whenpool.book.report.ledger.claims", lambda: others)
    monkeypatch.setattr("whenpool.book.report.claims.claims", lambda: others)
    assert ledger.ledger(recorded, "training_to_skip") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--chapter", "few-shot"], "no chapter 'few-shot'; choose one of gradient_propagation, "),
        (["--verdict", "true"], "no verdict 'true'; choose one of holds, does not hold, "),
        (["--format", "yaml"], "no format 'yaml'; choose one of table, json, csv"),
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


# the page


def parsed(decided):
    """The table as a tree: it is well-formed, whatever a claim says."""
    text = ledger.ledger_html(decided).replace(" hidden>", ' hidden="">')
    return ElementTree.fromstring(text.replace('autocomplete="off">', 'autocomplete="off"/>'))


def test_every_claim_has_a_row_that_can_be_linked_to(decided):
    tree = parsed(decided)
    heads = ["".join(cell.itertext()) for cell in tree.find(".//thead/tr")]
    assert heads == list(ledger.COLUMNS)
    rows = tree.findall(".//tbody/tr")
    assert [row.get("id") for row in rows] == [f"claim-{claim.id}" for claim in CLAIMS]
    for row, decision in zip(rows, decided, strict=True):
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


def test_what_sorts_by_a_verdict_has_its_place(decided):
    for row, decision in zip(parsed(decided).findall(".//tbody/tr"), decided, strict=True):
        for cell, scale in ((row[2], "thesis"), (row[3], "compact")):
            verdict = (*VERDICTS, "")[int(cell.get("data-sort"))]
            assert verdict == decision.verdict(scale)


def test_every_verdict_has_a_sign_besides_its_words():
    assert set(ledger.MARKS) == {*VERDICTS, ""}
    assert all(ledger.MARKS[verdict] for verdict in VERDICTS)


def test_filters_have_labels_and_offer_what_there_is(decided):
    form = parsed(decided).find(".//form")
    assert form.get("hidden") is not None  # until the script that works them is there
    fields = {field.get("name"): field for field in form.findall(".//label//*[@name]")}
    assert set(fields) == {"chapter", "verdict", "compact", "source", "text"}
    for name, values in (
        ("chapter", CHAPTERS),
        ("verdict", {d.verdict("thesis") for d in decided} - {""}),
        ("compact", {d.verdict("compact") for d in decided} - {""}),
        ("source", ["thesis", "ours"]),
    ):
        offered = [option.get("value") for option in fields[name]]
        assert offered[0] == ""
        assert sorted(offered[1:]) == sorted(values)
    assert form.find(".//output").get("aria-live") == "polite"


def test_what_a_claim_says_is_escaped():
    claim = replace(CLAIM, statement="<script>x</script> & y.", needs="<i>", compact={})
    text = ledger.ledger_html([replace(DECISION, claim=claim)])
    assert "<script>" not in text
    assert "<i>" not in text
    assert html.escape("<script>x</script> & y.") in text
    assert "&quot;%&quot; &lt; 0" in text


def test_the_script_needs_nothing_and_names_what_the_page_has(decided):
    script = (BOOK / "_static" / "ledger.js").read_text()
    page = ledger.ledger_html(decided)
    for name in re.findall(r'getElementById\("([\w-]+)"\)', script):
        assert f'id="{name}"' in page
    for name in re.search(r"const \{ (.*) \} = form.elements", script)[1].split(", "):
        assert f'name="{name}"' in page
    for name in re.findall(r"row\.dataset\.(\w+)", script):
        assert f"data-{name}=" in page
    assert not re.search(r"https?:|import |require\(|innerHTML|eval", script)
    assert '<script defer src="../_static/ledger.js"></script>' in (BOOK / "ledger.md").read_text()


def test_page_command_front_page_and_chapters_tell_the_same(
    decided, printed, recorded, on_record, monkeypatch
):
    for name, key in (("thesis", "verdict"), ("compact", "compact")):
        counted = Counter(row[key]["verdict"] for row in printed if row[key])
        rows = parsed(decided).findall(".//tbody/tr")
        assert Counter(row.get(f"data-{key}") for row in rows) - Counter({"": len(rows)}) == counted
        assert Counter(ledger.counts(decided, name)) == counted
        own = Counter(row[key]["verdict"] for row in printed if row[key] and row["section"] != "ours")
        (line,) = front.verdict_line(decided).paragraphs
        linked = re.findall(rf'href="ledger.html#{key}=([\w+]+)&amp;source=thesis">(\d+)</a>', line)
        assert {verdict.replace("+", " "): int(count) for verdict, count in linked} == own
    glued = {}
    monkeypatch.setattr("whenpool.book.chapter.glue", glued.__setitem__)
    chapter = Chapter("learnability", Choice("quick"), on_record)
    chapter.__dict__["finished"] = recorded
    assert [ledger.row_of(d) for d in chapter.claims()] == [
        ledger.row_of(d) for d in decided if d.claim.chapter == "learnability"
    ]
    for row in printed:
        if row["chapter"] == "learnability":
            large, small = row["verdict"], row["compact"]
            told = large["verdict"] if large["n"] or not small["n"] else f"{small['verdict']} (compact)"
            assert glued[f"claim_{row['id']}"] == told


# prose and ledger agree

_ROLE = re.compile(r"\{[\w:]+\}`[^`]*`")
_GLUED = re.compile(r"\{glue:text\}`(?:claim|measured)_([a-z0-9-]+)`")
_JUDGEMENT = re.compile(
    r"\b(?:holds?(?: so far)?|does not hold|do not hold|is (?:true|false|right|wrong|undecided)|"
    r"(?:is|are|was|were) (?:confirmed|refuted|borne out|reproduced))\b"
)
_DEFINED = re.compile(r"\*(?:holds|does not hold)\* when\b")
_CLAIM = re.compile(
    r"\b(?:claims?|verdicts?|(?:thesis|thesis's|paper's|slides') (?:statement|\w+ claim))\b"
)
_NUMBER = re.compile(r"(?<![\w.§])[-−]?\d+(?:\.\d+)?(?![\w.]*\w)")


def sentences(text):
    """The sentences and clauses of a chapter's prose: no cells, formulas, headings or front matter."""
    text = re.sub(r"\A---\n.*?\n---\n|^```.*?^```|\$\$.*?\$\$|^#.*?$", "\n\n", text, flags=re.S | re.M)
    text = re.sub(r"\$[^$\n]+\$", "x", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", text):
        yield from re.split(r"(?<=[.;?!])\s+", " ".join(paragraph.split()))


def known_numbers(claim):
    """What numbers a sentence on a claim may have: of its statement, unit, rule and selections."""
    given = (claim.options, claim.of, claim.against, claim.versus, claim.compact, claim.published)
    words = " ".join([claim.statement, claim.unit, claim.rule, *map(str, given)])
    found = {float(number.replace("−", "-")) for number in re.findall(r"[-−]?\d+(?:\.\d+)?", words)}
    return found | {100 * number for number in found}


def contradictions(text, chapter):
    """What in a chapter's prose could disagree with the ledger: a claim of another chapter, a verdict on
    a claim that was typed, and beside glued ones a verdict or a number that was."""
    for sentence in sentences(text):
        glued, bare = _GLUED.findall(sentence), _DEFINED.sub(" ", _ROLE.sub(" ", sentence))
        bare = re.sub(r"(?<=\d),(?=\d{3}\b)", "", bare)
        for name in glued:
            if name not in BY_ID or BY_ID[name].chapter != chapter:
                yield f"{name} is no claim of this chapter: {sentence}"
        typed = _JUDGEMENT.search(bare)
        if typed and (glued or _CLAIM.search(bare)):
            yield f"{typed[0]!r} was typed: {sentence}"
        known = set().union(*(known_numbers(BY_ID[name]) for name in glued if name in BY_ID))
        for number in _NUMBER.findall(bare) if glued else []:
            if float(number.replace("−", "-")) not in known:
                yield f"{number} was typed: {sentence}"


PAGES = sorted(path.stem for path in BOOK.glob("*.md"))


@pytest.mark.parametrize("chapter", PAGES)
def test_no_prose_says_of_a_claim_what_the_ledger_may_not(chapter):
    assert list(contradictions((BOOK / f"{chapter}.md").read_text(), chapter)) == []


@pytest.mark.parametrize(
    ("prose", "found"),
    [
        ("The claim holds.", 1),
        ("The claim *holds*.", 1),
        ("A claim *holds* when it does, and *does not hold* when it does not.", 0),
        ("With 1,000 texts: {glue:text}`claim_gap-with-1k`.", 0),
        ("With 3,000 texts: {glue:text}`claim_gap-with-1k`.", 1),
        ("So the thesis's statement holds: each factor is small.", 1),
        ("All claims of the slides are confirmed.", 1),
        ("The gap, {glue:text}`claim_gap-with-1k`, which is refuted.", 1),
        ("The gap is 0.7 points, {glue:text}`claim_gap-with-1k`.", 1),
        ("The gap is −1.9 points ({glue:text}`claim_gap-with-1k`).", 1),
        ("*The gap with 1K texts*, {glue:text}`claim_gap-with-1k`: 12 points or more.", 0),
        ("Of 1000 texts: {glue:text}`measured_gap-with-1k` points.", 0),
        ("{glue:text}`claim_one-chain-dominates-1k`", 1),
        ("{glue:text}`claim_no-such-claim`", 1),
        ("What holds a maximum holds it. A state that is right.", 0),
        ("```\nthe claim holds\n```", 0),
    ],
)
def test_a_typed_verdict_or_number_is_found(prose, found):
    assert len(list(contradictions(f"---\n---\n\n{prose}\n", "gradient_propagation"))) == found


def test_every_chapter_shows_its_claims_in_a_table_that_the_ledger_can_link_to():
    """`tests/test_claims.py` holds the table to the claims; here it has a name."""
    for chapter in CHAPTERS:
        assert any(label.startswith("tab-claims-") for label in labels_of(chapter))


def test_the_page_shows_the_whole_ledger():
    text = (BOOK / "ledger.md").read_text()
    assert "decided = ledger.ledger(runs)\n" in text
    assert "ledger.LedgerTable(decided)\n" in text
    assert list(contradictions(text, "ledger")) == []


def test_a_page_with_claims_is_among_those_that_are_read():
    assert set(CHAPTERS) <= set(PAGES)


def test_an_unknown_chapter_or_verdict_is_told():
    with pytest.raises(InputError, match="no verdict 'maybe'"):
        ledger.ledger(Runs(None), verdict="maybe")
    with pytest.raises(InputError, match="no chapter 'status'"):
        ledger.ledger(Runs(None), "status")
