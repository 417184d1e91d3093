"""The ledger of claims and tables, the command that prints it, its page, and prose to agree with it."""

import csv
import html
import io
import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from click.testing import CliRunner

from whenpool import InputError
from whenpool.cli import cli, main
from whenpool.report import claims as deciding
from whenpool.report import few_shot, gradients, ledger, ledger_page, shares, skip, tricks
from whenpool.report.claims import SCALES, VERDICTS, Claim, Decision, claims
from whenpool.report.paper import FILES, published
from whenpool.report.shares import NO_RULE, TABLES, Share
from whenpool.report.verdicts import MARKS
from whenpool.rows import current_few_shots, current_trainings
from whenpool.runs import Place
from whenpool.store import Store

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
CLAIMS = claims()
BY_ID = {claim.id: claim for claim in CLAIMS}
CHAPTERS = sorted({claim.chapter for claim in CLAIMS})
SMALL_CLAIM = Claim("a", "theory", "1.4.2", "A.", "largest_change", "> 0", "%", scale="small")


@pytest.fixture(scope="module")
def on_record(tmp_path_factory):
    """The runs of record alone."""
    folder = tmp_path_factory.mktemp("runs")
    return Place(Store(folder, ROOT / "data" / "results"), folder, folder)


@pytest.fixture(scope="module")
def evidence(on_record):
    return ledger.evidence_at(on_record)


@pytest.fixture(scope="module")
def decided(evidence):
    return ledger.ledger(evidence)


@pytest.fixture(scope="module")
def printed(on_record):
    """What `whenpool claims --format json` prints of the same runs."""
    return json.loads(ledger.written(on_record, "json"))


# the data


def test_the_ledger_has_every_claim_once_with_the_verdict_of_its_chapter(decided, evidence):
    assert [decision.claim for decision in decided] == CLAIMS
    assert decided == deciding.decisions(evidence)
    assert sum(ledger.counts(decided).values()) == len(CLAIMS)
    assert ledger.counts(decided) == {v: [d.verdict for d in decided].count(v) for v in VERDICTS}


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


def test_a_claim_without_evidence_links_to_its_page():
    claim = Claim("a", "theory", "2.1", "A.", "largest_change", "< 0", "%")
    assert ledger.link_of(claim) == "theory.html"


def test_a_title_is_the_heading_of_the_page():
    for chapter in CHAPTERS:
        assert f"\n# {ledger.title_of(chapter)}\n" in (BOOK / f"{chapter}.md").read_text()
    assert ledger.title_of("no-such-page") == "no-such-page"


# the tables of the thesis


def test_every_table_of_the_thesis_has_its_share(on_record, evidence):
    found = shares.shares(on_record, evidence)
    published_tables = {table for name in FILES for table in published(name)["table"]}
    assert {share.table for share in found} == published_tables == set(TABLES)
    for name in ("accuracy", "few_shot", "learnability"):
        for table, rows in published(name).groupby("table"):
            (share,) = (share for share in found if share.table == table)
            assert share.cells == len(rows)
            assert NO_RULE not in share.verdicts


def test_shares_are_those_of_the_chapters(on_record, evidence):
    found = {share.table: share for share in shares.shares(on_record, evidence)}
    stored = current_trainings(on_record)
    cells = skip.judged_cells(skip.record_runs(stored))
    said = skip.facts(cells, skip.record_runs(stored))
    for verdict in shares.JUDGED:
        summed = sum(found[table].verdicts.get(verdict, 0) for table in ("1.5", "1.6", "1.8"))
        assert summed == said[verdict]
    few = Counter(few_shot.thesis_cells(current_few_shots(on_record))["verdict"])
    assert found["1.9"].verdicts == few
    lines = gradients.ratio_table(
        gradients.one_row_a_run(evidence.on_imdb("trace", masked=True))
    )  # ours are in bold
    assert found["1.2"].verdicts[NO_RULE] == lines.map(lambda text: "**" in text).to_numpy().sum()


def test_without_runs_nothing_of_a_table_is_judged(tmp_path):
    place = Place(Store(tmp_path, None), tmp_path, tmp_path)
    for share in shares.shares(place, ledger.evidence_at(place)):
        assert set(share.verdicts) <= {"not run", NO_RULE}
        assert (share.of_judged, share.of_all) == (None, 0)
        assert share.shown()["of judged"] == share.shown()["of all"] == ""
    assert len(ledger.ledger(ledger.evidence_at(place), verdict="not run")) == sum(
        deciding.READS[claim.quantity] != "networks" for claim in CLAIMS
    )


def test_the_share_is_of_what_was_judged_and_of_all():
    share = Share("1.6", {"reproduced": 3, "differs": 1, "undecided": 2, "indicative": 4, "not run": 20})
    assert (share.cells, share.judged) == (30, 6)
    assert (share.of_judged, share.of_all) == (0.5, 0.1)
    assert share.row()["reproduced_of_judged"] == 0.5
    assert share.shown()["of judged"] == "50.0 %"
    assert sum(share.row()[name] for name in (*MARKS, NO_RULE)) == 30


# the command


def test_the_command_prints_what_the_ledger_has(decided, printed, on_record, evidence):
    assert [row["id"] for row in printed["claims"]] == [claim.id for claim in CLAIMS]
    assert {row["id"]: row["verdict"] for row in printed["claims"]} == {
        decision.claim.id: decision.verdict for decision in decided
    }
    large, small = (ledger.at_scale(decided, scale) for scale in SCALES)
    assert printed["counts"] == {"thesis": ledger.counts(large), "small": ledger.counts(small)}
    assert [row["scale"] for row in printed["claims"]] == [d.claim.scale for d in decided]
    assert printed["tables"] == [share.row() for share in shares.shares(on_record, evidence)]
    for row in printed["claims"]:
        assert len(row["values"]) == row["seeds"]
        assert all(isinstance(value, float | str) for value in row["values"].values())


def test_an_infinite_number_is_json():
    decision = Decision(BY_ID["max-pooling-cannot-represent-everything"], {2: float("inf")}, "holds")
    row = json.loads(ledger.as_json([decision], []))["claims"][0]
    assert row["values"] == {"2": "inf"}
    assert row["measured"] == "∞"


def run(*arguments):
    return CliRunner().invoke(cli, ["claims", *arguments], catch_exceptions=False)


def test_a_chapter_and_a_verdict_narrow_it(decided):
    lines = list(csv.DictReader(io.StringIO(run("--chapter", "few_shot", "--format", "csv").output)))
    assert [line["id"] for line in lines] == [c.id for c in CLAIMS if c.chapter == "few_shot"]
    assert lines[0]["statement"] == CLAIMS[[c.chapter for c in CLAIMS].index("few_shot")].statement
    found = json.loads(
        run("--chapter", "word_importance", "--verdict", "not run", "--format", "json").output
    )
    assert {(row["chapter"], row["verdict"]) for row in found["claims"]} <= {
        ("word_importance", "not run")
    }
    assert found["tables"] == []


def test_a_terminal_sees_chapters_verdicts_counts_and_tables():
    text = run("--chapter", "gradient_propagation").output
    assert text.startswith("Gradient propagation\n")
    for claim in CLAIMS:
        assert (f" {claim.id} " in text) == (claim.chapter == "gradient_propagation")
    assert re.search(r"^\d+ claims: ", text, re.MULTILINE)
    assert re.search(r"^ 1\.2 .*vanishing ratio", text, re.MULTILINE)
    assert not re.search(r"^ 1\.6 ", text, re.MULTILINE)


def test_a_chapter_with_tables_and_without_claims_is_known(evidence, monkeypatch):
    others = [claim for claim in CLAIMS if claim.chapter != "training_to_skip"]
    monkeypatch.setattr("whenpool.report.ledger.claims", lambda: others)
    monkeypatch.setattr("whenpool.report.claims.claims", lambda: others)
    assert ledger.ledger(evidence, "training_to_skip") == []
    assert ledger.summary([]) == "0 claims"


def test_a_rule_that_was_written_later_is_marked(decided):
    for row in json.loads(run("--format", "json").output)["claims"]:
        assert row["written"] == BY_ID[row["id"]].written
    lines = csv.DictReader(io.StringIO(run("--format", "csv").output))
    assert {line["id"] for line in lines if line["written"] == "later"} == {
        claim.id for claim in CLAIMS if claim.written == "later"
    }
    text = ledger.as_text(decided, [])
    for line in text.splitlines():
        name = next((claim for claim in CLAIMS if f" {claim.id} " in line), None)
        if name:
            assert (f" {ledger.LATER}" in line) == (name.written == "later")
    assert text.endswith(ledger.LEGEND)
    before = [decision for decision in decided if decision.claim.written == "before"]
    assert ledger.LATER not in ledger.as_text(before, [])
    assert ledger.later(decided) == len(decided) - len(before) > 0


def test_what_we_claim_ourselves_is_counted_apart(decided):
    large = ledger.at_scale(decided, "thesis")
    ours = [d for d in large if d.claim.section == "ours"]
    thesis = ledger.of_the_thesis(decided)
    assert [d for d in large if d not in thesis] == ours != []
    assert ledger.summary(decided).startswith(f"{len(large)} claims ({len(ours)} of them ours): ")
    assert ledger.summary(thesis).startswith(f"{len(thesis)} claims: ")


def test_small_models_are_marked_and_counted_apart():
    small = [Decision(SMALL_CLAIM, {0: 1.0}, "so far holds")]
    of_thesis = [Decision(CLAIMS[0], {0: 1.0}, "so far holds")]
    assert ledger.of_the_thesis(small) == []
    assert ledger.on_small_models(small + of_thesis) == small
    assert ledger.summary(of_thesis + small) == (
        "1 claims: 1 so far holds; 1 on small models: 1 so far holds"
    )
    text = ledger.as_text(of_thesis + small, [])
    assert text.count("so far holds (small models) ") == 1
    assert deciding.claims_table(small)["verdict"][0] == "**so far holds** (1)<br>small models"
    assert "small" not in deciding.claims_table(of_thesis)["verdict"][0]
    (line,) = csv.DictReader(io.StringIO(ledger.as_csv(small)))
    assert (line["verdict"], line["scale"]) == ("so far holds", "small")
    row = parsed(small).find(".//tbody/tr")
    assert row.get("data-scale") == "small"
    assert "".join(row[1].itertext()) == "✓ so far holds (small models)"


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
    import subprocess
    import sys

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
    text = ledger_page.ledger_html(decided).replace(" hidden>", ' hidden="">')
    return ElementTree.fromstring(text.replace('autocomplete="off">', 'autocomplete="off"/>'))


def test_every_claim_has_a_row_that_can_be_linked_to(decided):
    rows = parsed(decided).findall(".//tbody/tr")
    assert [row.get("id") for row in rows] == [f"claim-{claim.id}" for claim in CLAIMS]
    for row, decision in zip(rows, decided, strict=True):
        claim, text = decision.claim, ["".join(cell.itertext()) for cell in row]
        assert len(text) == len(ledger_page.COLUMNS)
        assert text[0] == f"{claim.statement} {claim.id}"
        assert text[1] == f"{ledger_page.MARKS[decision.verdict]} {decision.told}"
        assert row.get("data-scale") == claim.scale
        assert text[2] == decision.measured
        assert row.get("data-chapter") == claim.chapter
        assert row.get("data-verdict") == decision.verdict
        assert (row.get("data-source") == "ours") == (claim.section == "ours" == text[5])
        assert text[4].endswith(ledger.LATER) == (claim.written == "later")
        assert row.findall(".//a")[-1].get("href") == ledger.link_of(claim)


def test_what_sorts_by_a_number_has_one(decided):
    for row, decision in zip(parsed(decided).findall(".//tbody/tr"), decided, strict=True):
        key = row[2].get("data-sort")
        assert key == "" if not decision.values else float(key) == ledger.middle_of(decision)
        assert VERDICTS[int(row[1].get("data-sort"))] == decision.verdict


def test_every_verdict_has_a_sign_besides_its_words():
    assert set(ledger_page.MARKS) == set(VERDICTS)


def test_filters_have_labels_and_offer_what_there_is(decided):
    form = parsed(decided).find(".//form")
    assert form.get("hidden") is not None  # until the script that works them is there
    fields = {field.get("name"): field for field in form.findall(".//label//*[@name]")}
    assert set(fields) == {"chapter", "verdict", "source", "scale", "text"}
    for name, values in (
        ("chapter", CHAPTERS),
        ("verdict", {d.verdict for d in decided}),
        ("source", ["thesis", "ours"]),
        ("scale", SCALES),
    ):
        offered = [option.get("value") for option in fields[name]]
        assert offered[0] == ""
        assert set(offered[1:]) == set(values)
    assert form.find(".//output").get("aria-live") == "polite"


def test_what_a_claim_says_is_escaped():
    claim = Claim("a", "theory", "2.1", "<script>x</script> & y.", "largest_change", "< 0", '"%"')
    text = ledger_page.ledger_html([Decision(claim, {0: -1.0}, "holds")])
    assert "<script>" not in text
    assert html.escape("<script>x</script> & y.") in text
    assert "&quot;%&quot; &lt; 0" in text


def test_the_script_needs_nothing_and_names_what_the_page_has(decided):
    script = (BOOK / "_static" / "ledger.js").read_text()
    page = ledger_page.ledger_html(decided)
    for name in re.findall(r'getElementById\("([\w-]+)"\)', script):
        assert f'id="{name}"' in page
    for name in re.search(r"const \{ (.*) \} = form.elements", script)[1].split(", "):
        assert f'name="{name}"' in page
    assert not re.search(r"https?:|import |require\(|innerHTML|eval", script)
    assert '<script defer src="../_static/ledger.js"></script>' in (BOOK / "ledger.md").read_text()


# prose and ledger agree

_ROLE = re.compile(r"\{[\w:]+\}`[^`]*`")
_GLUED = re.compile(r"\{glue:text\}`(?:claim|measured)_([a-z0-9-]+)`")
_JUDGEMENT = re.compile(
    r"\b(?:holds?(?: so far)?|does not hold|do not hold|is (?:true|false|right|wrong|undecided)|"
    r"(?:is|are|was|were) (?:confirmed|refuted|borne out|reproduced))\b"
)
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
    """What numbers a sentence on a claim may have: of its statement, unit, rule and arguments."""
    words = " ".join([claim.statement, claim.unit, claim.rule, *map(str, claim.arguments.values())])
    found = {float(number.replace("−", "-")) for number in re.findall(r"[-−]?\d+(?:\.\d+)?", words)}
    return found | {100 * number for number in found}


def contradictions(text, chapter):
    """What in a chapter's prose could disagree with the ledger: a claim of another chapter, a verdict on
    a claim that was typed, and beside glued ones a verdict or a number that was."""
    for sentence in sentences(text):
        glued, bare = _GLUED.findall(sentence), _ROLE.sub(" ", sentence)
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
        ("So the thesis's statement holds: each factor is small.", 1),
        ("All claims of the slides are confirmed.", 1),
        ("The gap, {glue:text}`claim_gap-with-1k`, which is refuted.", 1),
        ("The gap is 0.7 points, {glue:text}`claim_gap-with-1k`.", 1),
        ("The gap is −1.9 points ({glue:text}`claim_gap-with-1k`).", 1),
        ("*The gap with 1K texts*, {glue:text}`claim_gap-with-1k`: 13 to 14 points.", 0),
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
    assert "decided = ledger.ledger(evidence)\n" in text
    assert "ledger_page.LedgerTable(decided)\n" in text
    assert list(contradictions(text, "ledger")) == []


def test_a_page_with_claims_is_among_those_that_are_read():
    assert set(CHAPTERS) <= set(PAGES)


def test_an_unknown_chapter_or_verdict_is_told(evidence):
    with pytest.raises(InputError, match="no verdict 'maybe'"):
        ledger.ledger(evidence, verdict="maybe")
    with pytest.raises(InputError, match="no chapter 'status'"):
        ledger.ledger(evidence, "status")
