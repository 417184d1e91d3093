"""The claims of the thesis: the ledger, the numbers, the verdicts, and that chapters show them."""

import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest

from whenpool import InputError
from whenpool.chapter import Chapter
from whenpool.choice import Choice
from whenpool.plans import PLANS, plan
from whenpool.probing import (
    PROBES,
    GradientProfile,
    GradientTrace,
    PaddingSweep,
    Probe,
    WordImportance,
)
from whenpool.regularisation_plan import TIMED_SEEDS
from whenpool.report import quantities, skip_quantities
from whenpool.report.claims import (
    QUANTITIES,
    READS,
    VERDICTS,
    Claim,
    Decision,
    claims,
    claims_table,
    decide,
    decisions,
)
from whenpool.report.evidence import Evidence
from whenpool.report.gathering import evidence_of
from whenpool.report.verdicts import (
    as_plain,
    memory_of_record,
    of_breadth,
    of_learnability,
    of_record,
    probes_of_breadth,
    probes_of_record,
)
from whenpool.runs import VECTORS, Training
from whenpool.store import Store

ROOT = Path(__file__).parents[1]
LEDGER = claims()
BY_ID = {claim.id: claim for claim in LEDGER}
EMPTY = pd.DataFrame()
NOTHING = Evidence(EMPTY, dict.fromkeys(PROBES, EMPTY))

# the ledger


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: claim.id)
def test_every_claim_says_what_it_claims_and_where(claim):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
    assert re.fullmatch(r"[12]\.\d+(\.\d)?|slides|ours", claim.section)
    assert re.fullmatch(r"(<=|>=|<|>) [-+.e\d]+", claim.rule)
    assert claim.statement.endswith(".")
    assert claim.unit.strip()
    assert claim.quantity in QUANTITIES
    assert (ROOT / "book" / f"{claim.chapter}.md").is_file()
    assert f"- file: book/{claim.chapter}\n" in (ROOT / "_toc.yml").read_text()


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: claim.id)
def test_a_rule_can_fail_and_can_hold(claim):
    threshold = float(claim.rule.split()[1])
    assert claim.satisfied(threshold - 1) != claim.satisfied(threshold + 1)


class Fabricated(Store):
    """Every probe has measured something, the same everywhere."""

    def __init__(self, folder, trainings, probes):
        super().__init__(folder)
        self.trainings_keys, self._probes = trainings["key"], probes

    def measured(self, kind):
        places = [{"position": place, "mean": 1.0} for place in range(1, 101)]
        points = {
            "gradients": places,
            "nwi": places,
            "trace": [{"examples": 64 * i, "ratio": 0.5} for i in range(9)],
            "sweep": [
                {"setting_added": added, "share_added": tenth / 10, "accuracy": 70.0}
                for added in ("left", "mid", "right")
                for tenth in range(10)
            ],
            "memory": [{"words": words, "megabytes": 9.0} for words in (1_000, 2_000, 4_000)],
        }[kind]
        keys = self._probes.loc[self._probes["probe"] == kind, "key"]
        return pd.DataFrame([{"key": key, **point} for key in keys for point in points])

    def histories(self):
        epoch = {"train_loss": 0.1, "attention_accuracy": 70.0, "validation_accuracy": 70.0}
        epoch |= {"seconds": 1.0}
        epochs = [
            epoch | {"epoch": 1, "factor": 0.5, "mass_left": 0.1},
            epoch | {"epoch": 2, "factor": 1.0},
        ]
        return pd.DataFrame([{"key": key, **row} for key in self.trainings_keys for row in epochs])


def with_vectors(run):
    """A small run as it is where word vectors are at hand."""
    if isinstance(run, Probe):
        return replace(run, training=with_vectors(run.training))
    return replace(run, vectors=VECTORS[0])


@pytest.fixture
def all_that_is_planned(place):
    """Evidence from every run that the book plans for IMDb and Amazon, and of few labels for Yahoo, made
    up, with three seeds."""
    choices = [Choice("paper", ("imdb", "amazon"), seeds=3, masked=masked) for masked in (True, False)]
    breadth = {claim.chapter for claim in LEDGER if READS[claim.quantity].startswith("small")}
    others = ("corpora", "few_shot", "sequence_labelling", *breadth)
    names = [name for name in PLANS if name not in others]
    runs = dict.fromkeys(
        run
        for choice in choices
        for name in names
        for run in plan(name, choice, place)
        if name != "learnability" or run.training.corpus == "imdb"
    )
    common = {"corpus_complete": True}
    rows = {"trainings": [], "probes": []}
    small = [run for name in breadth for run in plan(name, Choice("quick", ("imdb",)), place)]
    for number, run in enumerate([*runs, *map(with_vectors, small)]):
        row = {"key": str(number)} | common
        if isinstance(run, Probe):
            rows["probes"].append(row | run.row() | {"ratio_at_95": 0.5, "exponent": 1.5})
        else:
            done = {"test_accuracy": 70.0, "validation_accuracy": 70.0, "device": "cpu", "threads": 1}
            rows["trainings"].append(row | asdict(run) | done)
    trainings, probes = (pd.DataFrame(rows[name]) for name in ("trainings", "probes"))
    few = Choice("paper", ("imdb", "yahoo"), seeds=3)
    result = {"test_accuracy": 70.0, "test_texts": 5_000, "labelled_texts": 20} | common
    few_shots = pd.DataFrame(
        {"key": str(run), "classes": 2 if run.corpus == "imdb" else 10}
        | {"unlabelled_texts": run.unlabelled}
        | asdict(run)
        | result
        for run in plan("few_shot", few, place)
    )
    assert (of_record(as_plain(trainings)) | of_breadth(trainings)).all()
    probed = probes_of_record(probes) | of_learnability(probes) | probes_of_breadth(probes)
    assert (probed | memory_of_record(probes)).all()
    stored = Fabricated(place.store.directory, trainings, probes)
    return evidence_of(stored, trainings, probes, few_shots, tagged(place))


def tagged(place):
    """The tagging runs that the book plans for real corpora, made up."""
    measured = {
        "test_accuracy": 90.0, "entity_f1": 30.0, "entities_boundary": 5, "entities_predicted": 20,
        "gradient_evenness": 0.9, "gradient_reach": 0.1, "train_texts": 9, "corpus_complete": True,
    }  # fmt: skip
    asked = Choice("quick", ("ud_ewt", "wnut17"), seeds=3)
    runs = [replace(run, vectors=VECTORS[0]) for run in plan("sequence_labelling", asked, place)]
    return pd.DataFrame({"key": str(run)} | asdict(run) | measured for run in runs)


def test_every_claim_can_be_decided_by_runs_that_the_book_plans(all_that_is_planned):
    """A model, size, share or place that no run has would leave a claim "not run" for ever."""
    read = [claim for claim in LEDGER if READS[claim.quantity] != "networks"]
    seeds = {claim.id: list(decide(claim, all_that_is_planned).values) for claim in read}
    timed = {claim.id for claim in read if claim.quantity == "epoch_time_ratio"}
    assert seeds == {claim.id: list(TIMED_SEEDS) if claim.id in timed else [0, 1, 2] for claim in read}


def cells_of(chapter):
    text = (ROOT / "book" / f"{chapter}.md").read_text()
    return re.findall(r"^```\{code-cell\}.*?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("chapter", sorted({claim.chapter for claim in LEDGER}))
def test_a_chapter_shows_all_its_claims(chapter):
    code = "\n".join(cells_of(chapter))
    assert f'open_chapter("{chapter}", ' in code
    (name,) = re.findall(r"^(\w+) = chapter\.claims\(\)$", code, re.MULTILINE)
    assert re.search(rf"claims\.claims_table\({name}\b", code)
    reads = {READS[claim.quantity] for claim in LEDGER if claim.chapter == chapter}
    assert (f"chapter.evidence_runs({name})" in code) == (reads != {"networks"})


def test_no_chapter_shows_claims_that_are_not_in_the_ledger():
    pages = [path.stem for path in (ROOT / "book").glob("*.md")]
    showing = {page for page in pages if "chapter.claims()" in "\n".join(cells_of(page))}
    assert showing == {claim.chapter for claim in LEDGER}
    for page in pages:
        glued = re.findall(
            r"\b(?:claim|measured)_([a-z0-9-]+)`", (ROOT / "book" / f"{page}.md").read_text()
        )
        assert {name for name in glued if name not in BY_ID} == set()


WHOLE = """
- id: first
  chapter: natural_bias
  section: "1.7"
  statement: A statement.
  quantity: accuracy_gap
  with: {size: 1000, setting: standard}
  rule: ">= 10"
  unit: points
"""


def test_a_ledger_is_read_from_a_file(tmp_path):
    file = tmp_path / "claims.yml"
    file.write_text(
        WHOLE + WHOLE.replace("first", "second").replace("  with: {", "  with: {choose: max, ")
    )
    first, second = claims(file)
    assert first.written == second.written == "before"
    assert (first.id, first.rule, first.arguments) == (
        "first", ">= 10", {"size": 1000, "setting": "standard"},
    )  # fmt: skip
    assert second.arguments["choose"] == "max"
    file.write_text(WHOLE + "  written: later\n")
    assert [claim.written for claim in claims(file)] == ["later"]
    file.write_text("# nothing yet\n")
    assert claims(file) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("{size: 1000, setting: standard}", "{size: 1000", "is not YAML: .*line 8"),
        ("quantity: accuracy_gap", "quantity: acuracy_gap", "'first' names an unknown .* 'acuracy_gap'"),
        ("quantity: accuracy_gap", "quantity: [a]", r"'first' has quantity: \['a'\], which is no text"),
        ('">= 10"', '"at least 10"', "'first' has the rule 'at least 10'; write one like '>= 10'"),
        ('">= 10"', '">=10"', "'first' has the rule '>=10'; write"),
        ('">= 10"', '"≥ 10"', "'first' has the rule '≥ 10'; write"),
        ('">= 10"', '">= ten"', "'first' has the rule '>= ten'; write"),
        ('">= 10"', '""', "'first' has the rule ''; write"),
        ('">= 10"', "10", "'first' has rule: 10, which is no text; put it in quotes"),
        ('"1.7"', "1.10", "'first' has section: 1.1, which is no text"),
        ("  unit: points\n", "", "'first' is not whole: .*'unit'"),
        ("- id: first\n ", "-", "'without id' is not whole: .*'id'"),
        (
            "unit: points",
            "unit: points\n  written: soon",
            "'first' has written: soon; write one of before, later",
        ),
        ("unit: points", "unit: points\n  written: 2020-01-01", "'first' has written: .*no text"),
        (
            "unit: points",
            "unit: points\n  scale: tiny",
            "'first' has scale: tiny; write one of thesis, small",
        ),
        (
            "unit: points",
            "unit: points\n  scale: small",
            "'first' has scale: small; what accuracy_gap reads is thesis",
        ),
        ("unit: points", "unity: points", "'first' is not whole: .*'unity'"),
        ("size: 1000, ", "", "'first' does not fit accuracy_gap: .*'size'"),
        ("size: 1000", "sizes: 1000", "'first' does not fit accuracy_gap: .*'sizes'"),
        ("{size: 1000, setting: standard}", "[1000]", "'first' does not fit accuracy_gap: .*mapping"),
        ("setting: standard", "setting: mid, choose: mean", "'first' does not fit accuracy_gap: 'mean'"),
        (WHOLE, WHOLE + WHOLE, "the claim 'first' stands there twice"),
        (WHOLE, "- first\n", "'first' is no claim"),
        (WHOLE, "first: second\n", "is not a list of claims"),
        (WHOLE, "- a: \x07", "is not YAML"),
    ],
)
def test_what_is_wrong_with_a_claim_is_told_in_one_line(tmp_path, before, after, message):
    file = tmp_path / "claims.yml"
    assert before in WHOLE
    file.write_text(WHOLE.replace(before, after))
    with pytest.raises(InputError, match=message) as told:
        claims(file)
    assert str(file) in str(told.value)
    assert "\n" not in str(told.value)


def test_a_ledger_that_is_not_there_is_told_in_one_line(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"the claims .*/none.yml cannot be read: No such file"):
        claims(tmp_path / "none.yml")
    (tmp_path / "latin.yml").write_bytes("- id: ü".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.yml is not YAML"):
        claims(tmp_path / "latin.yml")
    monkeypatch.setattr("whenpool.report.claims.project_root", lambda: None)
    with pytest.raises(InputError, match="the clone of the book"):
        claims()


# the numbers

POOLED = ("mean", "max", "attention", "max_attention")


def of(model, seed=0, **changes):
    pooling, bias = ("last", "low") if model == "low" else (model, "thesis")
    base = {
        "corpus": "imdb", "length": "long", "setting": "standard", "size": 1000, "pooling": pooling,
        "forget_bias": bias, "masked": True, "epochs": 20, "share": 0.66, "seed": seed,
    }  # fmt: skip
    run = base | changes
    return {"shortest": 50 if run["length"] == "short" else 400} | run


def frame(runs):
    """Rows of runs, each a configuration and its points, in no order."""
    rows = [
        {"key": f"k{number}", **run, **point}
        for number, (run, points) in enumerate(runs)
        for point in points
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def profile(values):
    return [{"position": place, "mean": value} for place, value in enumerate(values, 1)]


def gradients(first, last, low, high):
    """Of the first and last word, and the two in the middle."""
    return profile([first, *[50.0] * 48, low, high, *[50.0] * 48, last])


def importance(left, right, middle):
    return profile([left] * 10 + [90.0] * 30 + [middle] * 20 + [90.0] * 30 + [right] * 10)


def inside(start, stop, text, filler):
    """Positions from start to stop, counted from 0, are the text."""
    return profile([text if start <= place < stop else filler for place in range(100)])


def traced(ratios, at_95):
    return [{"examples": n, "ratio": ratio, "ratio_at_95": at_95} for n, ratio in ratios.items()]


def swept(**accuracies):
    """left_8=76: accuracy with the text left and 80 % filler."""
    return [
        {"setting_added": added, "share_added": int(tenth) * 0.1, "accuracy": float(value)}
        for name, value in accuracies.items()
        for added, tenth in [name.split("_")]
    ]


EARLY = {"size": 500, "epochs": 1}
TABLES = {
    "gradients": frame(
        [
            (of("last", 0, **EARLY), gradients(2.0, 4.0, 0.2, 0.4)),
            (of("last", 1, **EARLY), gradients(1.0, 1.0, 0.5, 0.5)),
            (of("low", 0, **EARLY), gradients(2.0, 2.0, 0.001, 0.003)),
            (of("mean", 0, **EARLY), gradients(5.0, 5.0, 4.0, 4.0)),
            (of("mean", 1, **EARLY), gradients(5.0, 5.0, 4.5, 4.5)),
            (of("max", 0, **EARLY), gradients(2.0, 2.0, 3.0, 3.0)),
            (of("max", 1, **EARLY), gradients(5.0, 5.0, 3.0, 3.0)),
        ]
    ),
    "trace": frame(
        [
            (of("last", 0), traced({0: 0.02, 1000: 0.01, 3000: 0.04}, 0.03)),
            (of("last", 1), traced({0: 0.5, 1000: 0.25, 3000: 0.1}, math.nan)),
            (of("last", 0, size=20_000), traced({0: 0.02, 500: 0.7}, 0.6)),
            (of("mean", 0), traced({0: 0.9, 1000: 0.3, 3000: 1.2}, 0.6)),
            (of("mean", 1), traced({0: 0.7, 1000: 0.8}, 0.5)),
            (of("max", 0), traced({0: 0.4, 1000: 0.5}, 0.3)),
            (of("max", 1), traced({0: 0.9, 1000: 0.2}, 0.25)),
        ]
    ),
    "sweep": frame(
        [
            (
                of("last"),
                swept(
                    left_0=80, left_7=77, left_8=76, mid_0=80, mid_7=55, mid_8=52,
                    right_0=80, right_7=66, right_8=60,
                ),
            ),
            (of("last", masked=False), swept(left_0=80, left_8=70, right_0=80, right_8=30)),
            (of("max"), swept(mid_0=82, mid_7=80)),
            (of("attention"), swept(mid_0=84, mid_7=76)),
            (of("mean"), swept(mid_0=79, mid_7=65)),
        ]
    ),
    "nwi": frame(
        [
            (of("last"), importance(2.0, 4.0, 1.5)),
            (of("mean"), importance(1.0, 1.0, 1.0)),
            (of("max"), importance(4.0, 2.0, 2.0)),
            (of("last", corpus="amazon", length="short", size=10_000), importance(6.0, 6.0, 2.0)),
            (of("last", setting="mid"), inside(33, 67, 0.5, 1.0)),
            (of("mean", setting="mid"), inside(33, 67, 3.0, 1.0)),
            (of("max", setting="mid"), inside(33, 67, 4.0, 2.0)),
            (of("last", setting="left"), inside(0, 34, 3.0, 1.5)),
            (of("last", setting="right"), inside(66, 100, 1.0, 4.0)),
            (of("last", shortest=None), importance(90.0, 90.0, 1.0)),  # of other lengths of text
        ]
    ),
}  # fmt: skip
TRAININGS = frame(
    [
        (of(model, seed), [{"test_accuracy": value}])
        for model, values in {
            "last": (60.0, 70.0), "mean": (75.0, 71.0), "max": (80.0, 74.0),
            "attention": (78.0, 79.0), "max_attention": (82.0, 81.0),
        }.items()
        for seed, value in enumerate(values)
    ]
    + [
        (of("last", seed, setting=setting, masked=masked), [{"test_accuracy": value}])
        for seed, setting, masked, value in [
            (0, "left", True, 66.0), (0, "right", True, 64.0),
            (0, "left", False, 80.0), (0, "right", False, 58.0),
            (1, "left", True, 66.0), (1, "right", True, 64.0), (1, "left", False, 80.0),
            (0, "mid", True, 55.0), (0, "mid", False, 51.0),
        ]
    ]
    + [
        (
            of("last", corpus="amazon", length="short", size=10_000, setting="mid"),
            [{"test_accuracy": 30.0}],
        )
    ]
)  # fmt: skip
EVIDENCE = Evidence(TRAININGS, TABLES)

EXAMPLES = [
    ("early_level", {"model": "last", "place": "middle"}, {0: 0.3, 1: 0.5}),
    ("early_level", {"model": "last", "place": "ends"}, {0: 3.0, 1: 1.0}),
    ("early_middle_to_ends", {"models": ["last"]}, {0: 0.1, 1: 0.5}),
    ("early_middle_to_ends", {"models": ["last"], "relative_to": "low"}, {0: 100.0}),
    ("early_middle_to_ends", {"models": ["mean", "max"]}, {0: 0.8, 1: 0.6}),
    ("early_middle_to_ends", {"models": ["mean", "max"], "choose": "max"}, {0: 1.5, 1: 0.9}),
    ("ratio_at_95", {"size": 1000, "model": "last"}, {0: 0.03}),
    ("ratio_at_95", {"size": 1000, "model": "last", "relative_to": ["mean", "max"]}, {0: 0.1}),
    ("ratio_after", {"size": 1000, "model": "last", "examples": 1900}, {0: 0.01, 1: 0.25}),
    ("ratio_after", {"size": 1000, "model": "last", "examples": 2100}, {0: 0.04, 1: 0.1}),
    ("ratio_growth", {"model": "last", "sizes": [1000, 20_000]}, {0: 20.0}),
    ("lowest_ratio", {"size": 1000, "models": ["mean", "max"]}, {0: 0.3, 1: 0.2}),
    ("ratio_recovery", {"size": 1000, "model": "last"}, {0: 2.0, 1: 0.2}),
    ("accuracy_gap", {"size": 1000, "setting": "standard"}, {0: 15.0, 1: 1.0}),
    ("accuracy_gap", {"size": 1000, "setting": "standard", "choose": "max"}, {0: 22.0, 1: 11.0}),
    ("trained_accuracy", {"size": 1000, "model": "last", "setting": "mid"}, {0: 55.0}),
    (
        "trained_accuracy",
        {"size": 10_000, "model": "last", "setting": "mid", "corpus": "amazon", "length": "short"},
        {0: 30.0},
    ),
    (
        "trained_lead",
        {"size": 1000, "model": "max_attention", "setting": "standard"},
        {0: 2.0, 1: 2.0},
    ),
    ("trained_lead", {"size": 1000, "model": "max", "setting": "standard"}, {0: -2.0, 1: -7.0}),
    ("trained_lead", {"size": 1000, "model": "last", "setting": "standard"}, {0: -22.0, 1: -11.0}),
    ("trained_both_ends_against_one", {"size": 1000, "model": "last"}, {0: 9.0}),
    ("sweep_drop", {"size": 1000, "model": "last", "added": "left", "share": 0.8}, {0: 4.0}),
    ("sweep_drop", {"size": 1000, "model": "last", "added": "mid", "share": 0.7}, {0: 25.0}),
    ("sweep_drop", {"size": 1000, "model": "last", "added": "worst", "share": 0.8}, {0: 28.0}),
    (
        "sweep_drop",
        {"size": 1000, "model": "last", "added": "left", "share": 0.8, "masked": False},
        {0: 10.0},
    ),
    ("sweep_asymmetry", {"size": 1000, "model": "last", "share": 0.8}, {0: 16.0}),
    ("asymmetry_by_padding", {"size": 1000, "model": "last", "share": 0.8}, {0: 24.0}),
    ("trained_asymmetry_by_padding", {"size": 1000, "model": "last"}, {0: 20.0}),
    ("both_ends_against_one", {"size": 1000, "model": "last", "share": 0.7}, {0: 11.0}),
    (
        "sweep_advantage",
        {"size": 1000, "models": ["max", "attention"], "added": "mid", "share": 0.7},
        {0: 17.0},
    ),
    (
        "sweep_advantage",
        {"size": 1000, "models": ["max", "attention"], "added": "mid", "share": 0.7, "against": "mean"},
        {0: 6.0},
    ),
    ("importance_ends_to_middle", {"size": 1000, "setting": "standard", "models": ["last"]}, {0: 2.0}),
    (
        "importance_ends_to_middle",
        {"size": 1000, "setting": "standard", "models": ["mean", "max"], "choose": "max"},
        {0: 1.5},
    ),
    (
        "importance_ends_to_middle",
        {"models": ["last"], "size": 10_000, "setting": "standard", "corpus": "amazon"}
        | {"length": "short"},
        {0: 3.0},
    ),
    ("importance_text_to_filler", {"size": 1000, "setting": "mid", "models": ["last"]}, {0: 0.5}),
    ("importance_text_to_filler", {"size": 1000, "setting": "left", "models": ["last"]}, {0: 2.0}),
    ("importance_text_to_filler", {"size": 1000, "setting": "right", "models": ["last"]}, {0: 0.25}),
    ("importance_text_to_filler", {"size": 1000, "setting": "mid", "models": ["mean", "max"]}, {0: 2.0}),
    (
        "importance_text_to_filler",
        {"size": 1000, "setting": "mid", "models": ["mean", "max"], "choose": "max"},
        {0: 3.0},
    ),
]  # fmt: skip
BY_EXAMPLE = pytest.mark.parametrize(("name", "arguments", "expected"), EXAMPLES)


@BY_EXAMPLE
def test_a_quantity_is_what_was_computed_by_hand(name, arguments, expected):
    assert QUANTITIES[name](EVIDENCE, **arguments) == pytest.approx(expected)


def disturbed(table, *changes):
    """With rows of other runs, whose numbers are all different."""
    numbers = ["mean", "ratio", "ratio_at_95", "accuracy", "test_accuracy"]
    found = {name: 7.3 * table[name] - 1.1 for name in numbers if name in table}
    others = [table.assign(**found, **change, key=table["key"] + str(change)) for change in changes]
    return pd.concat([*others, table, *others])


@BY_EXAMPLE
def test_other_runs_do_not_change_it(name, arguments, expected):
    others = [
        {"corpus": "yelp"}, {"length": "any"}, {"size": 77}, {"forget_bias": "high"},
        {"pooling": "last_attention"},
    ]  # fmt: skip
    extra = {"gradients": [{"epochs": 20}], "sweep": [{"setting": "right"}]}
    extra |= {kind: [*extra.get(kind, []), {"masked": False}] for kind in ("gradients", "trace", "nwi")}
    tables = {
        kind: disturbed(table, *others, *extra.get(kind, [])).reset_index(drop=True)
        for kind, table in TABLES.items()
    }
    found = QUANTITIES[name](Evidence(disturbed(TRAININGS, *others), tables), **arguments)
    assert found == pytest.approx(expected)


def test_every_quantity_has_an_example_and_a_claim():
    here = quantities.QUANTITIES | skip_quantities.QUANTITIES
    assert {name for name, _, _ in EXAMPLES} == set(here)
    assert {claim.quantity for claim in LEDGER} == set(QUANTITIES)
    takes_evidence = {
        name
        for name, value in (vars(quantities) | vars(skip_quantities)).items()
        if callable(value) and getattr(value, "__annotations__", {}).get("evidence") is Evidence
    }
    own = {name for name in takes_evidence if not name.startswith("_")}
    assert own == set(here)


@BY_EXAMPLE
def test_a_quantity_reads_nothing_but_what_it_is_said_to_read(name, arguments, expected):
    """`Chapter.evidence_runs` names the runs behind a verdict by it."""
    if READS[name] == "trainings":
        only = Evidence(TRAININGS, {})
    else:
        only = Evidence(None, {READS[name]: TABLES[READS[name]]})
    assert QUANTITIES[name](only, **arguments) == pytest.approx(expected)


@BY_EXAMPLE
def test_without_runs_there_is_no_number(name, arguments, expected):
    assert QUANTITIES[name](NOTHING, **arguments) == {}
    tables = {kind: table.head(0) for kind, table in TABLES.items()}
    assert QUANTITIES[name](Evidence(TRAININGS.head(0), tables), **arguments) == {}


def test_where_no_training_was_fitted_there_is_no_ratio_at_95():
    """The column is not there at all then, see `Store.measured_on`."""
    tables = TABLES | {"trace": TABLES["trace"].drop(columns="ratio_at_95")}
    assert QUANTITIES["ratio_at_95"](Evidence(EMPTY, tables), 1000, "last") == {}


def test_a_share_that_was_not_swept_has_no_number():
    arguments = {"size": 1000, "model": "last", "added": "left"}
    assert QUANTITIES["sweep_drop"](EVIDENCE, share=0.5, **arguments) == {}
    assert QUANTITIES["sweep_drop"](EVIDENCE, share=0.7, **arguments) == pytest.approx({0: 3.0})


# verdicts


def gaps(values):
    """Evidence in which the poolings are so many points above the BiLSTM, a seed each."""
    runs = []
    for seed, value in enumerate(values):
        runs.append((of("last", seed), [{"test_accuracy": 50.0}]))
        runs += [(of(name, seed), [{"test_accuracy": 50.0 + value}]) for name in POOLED]
    return Evidence(frame(runs) if runs else EMPTY, {})


GAP = Claim(
    "gap", "natural_bias", "1.7", "A gap.", "accuracy_gap", ">= 10", "points",
    {"size": 1000, "setting": "standard"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([12.0, 11.0, 10.0], "holds"),
        ([12.0, 11.0, 10.0, 30.0, 20.0], "holds"),
        ([9.0, -3.0, 9.9], "does not hold"),
        ([12.0, 9.0, 12.0], "undecided"),
        ([9.0, 12.0], "undecided"),
        ([12.0, 12.0], "so far holds"),
        ([12.0], "so far holds"),
        ([9.0, 9.0], "so far does not hold"),
        ([], "not run"),
        ([math.nan, math.nan, math.nan], "not run"),
        ([math.nan, 12.0, 12.0], "so far holds"),
        ([math.nan, 12.0, 12.0, 12.0], "holds"),
        ([math.inf, 12.0, 12.0], "holds"),
    ],
)
def test_a_claim_holds_where_it_holds_for_every_one_of_three_seeds(values, verdict):
    decision = decide(GAP, gaps(values))
    assert decision.verdict == verdict
    assert verdict in VERDICTS
    counted = {seed: value for seed, value in enumerate(values) if not math.isnan(value)}
    assert decision.values == pytest.approx(counted)


@pytest.mark.parametrize(
    ("rule", "holds"), [("<= 2", [1, 2]), (">= 2", [2, 3]), ("< 2", [1]), ("> 2", [3]), ("<= 2e-5", [])]
)
def test_the_rules(rule, holds):
    claim = replace(GAP, rule=rule)
    assert [value for value in (1, 2, 3) if claim.satisfied(value)] == holds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e-4, "3·10⁻⁴"), (1.26e-15, "1.3·10⁻¹⁵"), (-2.5e-7, "-2.5·10⁻⁷"), (1e-5, "10⁻⁵"),
        (12_345.0, "1.2·10⁴"), (1234.0, "1234"), (100.0, "100"), (12.34, "12.3"), (1.0, "1"),
        (-7.06, "-7.1"), (0.0123, "0.0123"), (0.0, "0"), (math.inf, "∞"),
    ],
)  # fmt: skip
def test_numbers_are_written_for_people(value, text):
    assert Decision(GAP, {0: value}, "so far holds").measured == text


def test_a_table_has_a_row_for_each_claim():
    slides = replace(GAP, section="slides", rule="< 2e-5", unit="something")
    decided = [
        decide(GAP, gaps([12.0, 11.0, 10.5])),
        decide(slides, gaps([12.34])),
        decide(GAP, NOTHING),
    ]
    assert claims_table(decided).to_dict("records") == [
        {"claim": "A gap. (§1.7)", "rule": "points ≥ 10", "ours": "12, 11, 10.5",
         "verdict": "**holds** (3)"},
        {"claim": "A gap. (slides)", "rule": "something < 2·10⁻⁵", "ours": "12.3",
         "verdict": "**so far does not hold** (1)"},
        {"claim": "A gap. (§1.7)", "rule": "points ≥ 10", "ours": "", "verdict": "**not run**"},
    ]  # fmt: skip


def test_the_ledger_is_decided_in_its_order_and_by_chapter():
    assert [d.claim for d in decisions(NOTHING)] == LEDGER
    assert {d.verdict for d in decisions(NOTHING)} == {"not run"}
    chosen = [d.claim.id for d in decisions(EVIDENCE, "gradient_propagation")]
    assert chosen == [claim.id for claim in LEDGER if claim.chapter == "gradient_propagation"]
    verdicts = {d.claim.id: d.verdict for d in decisions(EVIDENCE)}
    assert verdicts["gap-with-1k"] == "undecided"  # 15 and 1 points
    assert verdicts["ratio-tiny-at-95-with-1k"] == "so far does not hold"  # 0.03
    assert verdicts["more-data-more-gradient"] == "so far holds"  # 20 times
    assert verdicts["robust-poolings"] == "not run"  # 10K


# what is of record, and the evidence made of it

THESIS = Training("imdb", "standard", 1000, "last", vectors="wiki-reviews.100d")
FIRST = replace(THESIS, size=500, epochs=1, test=1000)


@pytest.mark.parametrize("complete", [True, False])
def test_which_probes_are_of_record(complete):
    low = {"forget_bias": "low"}
    expected = {
        GradientProfile(FIRST): True,
        GradientProfile(replace(FIRST, test=None)): True,
        GradientProfile(replace(FIRST, masked=False)): True,
        GradientProfile(replace(FIRST, **low)): True,
        GradientProfile(replace(FIRST, **low, pooling="max")): False,
        GradientProfile(replace(FIRST, forget_bias=None)): False,
        GradientProfile(replace(FIRST, hidden_size=64)): False,
        GradientProfile(replace(FIRST, vectors=None)): False,
        GradientProfile(replace(FIRST, max_words=140)): False,
        GradientProfile(replace(FIRST, size=1000)): False,
        GradientProfile(replace(FIRST, epochs=2)): False,
        GradientProfile(THESIS): True,
        GradientProfile(replace(THESIS, **low)): False,
        GradientProfile(replace(THESIS, test=1000)): False,
        GradientTrace(FIRST): False,
        GradientTrace(THESIS): True,
        GradientTrace(replace(THESIS, **low)): False,
        PaddingSweep(FIRST): False,
        PaddingSweep(THESIS): True,
        PaddingSweep(replace(THESIS, masked=False)): True,
        PaddingSweep(replace(THESIS, epochs=8)): False,
        WordImportance(replace(THESIS, setting="mid")): True,
        WordImportance(replace(THESIS, setting="mid", share=0.5)): False,
    }
    rows = pd.DataFrame([probe.row() | {"corpus_complete": complete} for probe in expected])
    found = dict(zip(expected, probes_of_record(rows).tolist(), strict=True))
    assert found == {probe: complete and wanted for probe, wanted in expected.items()}


def put(store, run, points=(), complete=True, **result):
    row = run.row() if isinstance(run, Probe) else asdict(run)
    identity = {"row": row, "complete": complete}
    values = {"corpus_complete": complete} | result
    provenance = {"commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02", "seconds": 1}
    return store.put(identity, row, values, provenance, points)


@pytest.fixture
def store(place):
    return place.store


def test_what_probes_measured_stands_beside_what_they_ran_on(store):
    points = [{"examples": 0, "ratio": 0.5, "validation_accuracy": 40.0}, {"examples": 9, "ratio": 0.1}]
    trace = put(store, GradientTrace(THESIS), points, validation_accuracy=77.0, ratio_at_95=None)
    put(store, GradientTrace(replace(THESIS, seed=1)), points)
    put(store, PaddingSweep(THESIS), [{"setting_added": "mid", "share_added": 0.5, "accuracy": 1.0}])
    put(store, WordImportance(THESIS), profile([1.0]))
    probes = store.probes()
    assert set(store.measured_on(probes, "trace")["seed"]) == {0, 1}
    assert "k" not in store.measured_on(probes, "trace")  # an option of another kind
    rows = store.measured_on(probes[probes["seed"] == 0], "trace")
    assert rows["key"].tolist() == [trace] * 2
    assert rows["ratio"].tolist() == [0.5, 0.1]
    assert rows["pooling"].tolist() == ["last"] * 2
    assert rows["validation_accuracy"].iloc[0] == 40.0
    assert rows["validation_accuracy_of_run"].tolist() == [77.0] * 2
    assert "ratio_at_95" not in rows  # nowhere known
    assert store.measured_on(probes, "sweep")["share"].tolist() == [0.66]


def test_a_kind_without_runs_measured_nothing(store):
    """While another kind has some, and where a kind has some but not of these."""
    put(store, GradientTrace(THESIS), [{"examples": 0, "ratio": 0.5}])
    put(store, PaddingSweep(THESIS), [{"setting_added": "mid", "share_added": 0.5, "accuracy": 1.0}])
    probes = store.probes()
    traces = probes[probes["probe"] == "trace"]
    for kind in ("sweep", "nwi"):
        rows = store.measured_on(traces, kind)
        assert rows.empty
        assert "key" in rows
    assert store.measured_on(probes.head(0), "trace").empty
    assert Store(store.directory / "none").measured_on(EMPTY, "trace").empty


def test_evidence_is_made_of_runs_of_record_alone(store):
    put(store, THESIS, test_accuracy=60.0)
    put(store, replace(THESIS, hidden_size=64, seed=1), test_accuracy=61.0)
    put(store, replace(THESIS, seed=2), complete=False, test_accuracy=62.0)
    points = gradients(2.0, 4.0, 0.2, 0.4)
    put(store, GradientProfile(FIRST), points)
    put(store, GradientProfile(replace(FIRST, hidden_size=64, seed=1)), points)
    put(store, GradientProfile(replace(FIRST, seed=2)), points, complete=False)
    evidence = evidence_of(store, store.trainings(), store.probes())
    assert set(evidence.measured) == set(PROBES)
    assert evidence.accuracies("last", size=1000, setting="standard") == {0: 60.0}
    level = QUANTITIES["early_level"](evidence, "last", "middle")
    assert level == pytest.approx({0: 0.3})
    assert all(evidence.measured[kind].empty for kind in PROBES if kind != "gradients")


def test_there_is_no_evidence_in_an_empty_store(store):
    evidence = evidence_of(store, store.trainings(), store.probes())
    assert {d.verdict for d in decisions(replace(evidence, live=False))} == {"not run"}


def test_runs_from_two_kinds_of_vectors_are_not_mixed(store):
    """Where a reader's own runs with GloVe stand beside runs of record."""
    own = {"vectors": "glove.6B.100d"}
    for seed in (0, 1):
        put(store, replace(THESIS, seed=seed), test_accuracy=60.0)
        put(store, GradientProfile(replace(FIRST, seed=seed)), gradients(2.0, 4.0, 0.2, 0.4))
    put(store, replace(THESIS, **own), test_accuracy=90.0)
    put(store, GradientProfile(replace(FIRST, **own)), gradients(9.0, 9.0, 9.0, 9.0))
    put(store, GradientProfile(replace(FIRST, seed=2, **own)), gradients(9.0, 9.0, 9.0, 9.0))
    put(store, GradientTrace(replace(THESIS, **own)), traced({0: 0.5, 64: 0.25}, 0.25))
    evidence = evidence_of(store, store.trainings(), store.probes())
    assert evidence.accuracies("last", size=1000, setting="standard") == {0: 60.0, 1: 60.0}
    trace = QUANTITIES["ratio_at_95"](evidence, 1000, "last")
    assert trace == {0: 0.25}  # the only one of its kind
    put(store, GradientProfile(replace(FIRST, seed=1, **own)), gradients(9.0, 9.0, 9.0, 9.0))
    evidence = evidence_of(store, store.trainings(), store.probes())
    level = QUANTITIES["early_level"](evidence, "last", "middle")
    assert level == pytest.approx({0: 9.0, 1: 9.0, 2: 9.0})


def opened(place, name, **known):
    chapter = Chapter(name, Choice("smoke"), place)
    chapter.__dict__.update(known)
    return chapter


def test_a_chapter_glues_its_verdicts_and_names_the_runs_behind_them(place, monkeypatch):
    glued = {}
    monkeypatch.setattr("whenpool.chapter.glue", glued.__setitem__)
    chapter = opened(place, "gradient_propagation", evidence=EVIDENCE)
    decided = chapter.claims()
    own = [claim.id for claim in LEDGER if claim.chapter == "gradient_propagation"]
    assert set(glued) == {f"{kind}_{name}" for kind in ("claim", "measured") for name in own}
    assert glued["claim_more-data-more-gradient"] == "so far holds"
    assert glued["measured_more-data-more-gradient"] == "20"
    assert glued["measured_pooled-gradients-are-flat"] == "no run"  # attention is missing
    runs = chapter.evidence_runs(decided)
    keys = {kind: set(TABLES[kind]["key"]) for kind in ("gradients", "trace")}
    assert len(runs) == len(keys["gradients"]) + len(keys["trace"]) + len(TRAININGS)
    traces = [d for d in decided if d.claim.quantity == "ratio_growth"]
    assert set(chapter.evidence_runs(traces)["key"]) == keys["trace"]
    assert len(chapter.evidence_runs(traces)) == len(keys["trace"])
    assert chapter.evidence_runs([d for d in decided if d.verdict == "not run"]).empty


def test_where_nothing_was_run_no_run_is_named(place, monkeypatch):
    monkeypatch.setattr("whenpool.chapter.glue", lambda name, value: None)
    chapter = opened(place, "natural_bias")
    runs = chapter.evidence_runs(chapter.claims())
    assert runs.empty
    assert chapter.provenance(runs).line == "Provenance: no runs yet."


def test_what_a_chapter_measured_is_that_of_its_own_probes(place):
    point = {"setting_added": "mid", "share_added": 0.5, "accuracy": 1.0}
    put(place.store, PaddingSweep(THESIS), [point])
    put(place.store, PaddingSweep(replace(THESIS, seed=1)), [point | {"accuracy": 2.0}])
    probes = place.store.probes().query("seed == 1")
    chapter = opened(place, "natural_bias")
    assert chapter.measured(probes, "sweep")["accuracy"].tolist() == [2.0]
    assert chapter.measured(probes, "nwi").empty
