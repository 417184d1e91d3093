"""The claims of the thesis: the ledger, the rules, the verdicts, and that chapters show them."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from called import refused
from hypothesis import given
from hypothesis import strategies as st
from made_up import BEFORE, LEDGER, run, runs, table_of, trained, valued
from scipy import stats

from paper.chapter import Chapter
from paper.runs.request import Request
from paper.verdicts import claims
from paper.verdicts.claims import Claim, Decision, Finding, Rule, by_runs, decide, estimate
from paper.verdicts.measures import MEASURES
from paper.verdicts.results import Sample

groups = st.lists(
    st.floats(-50, 50).map(lambda value: round(value, 2)), min_size=2, max_size=6
).filter(lambda values: np.std(values) > 1e-3)
WHOLE = """
- id: first
  chapter: natural_bias
  section: "1.7"
  registered: "2026-01-02T03:04:05+02:00"
  statement: A statement.
  measure: tagging_entity_f1
  of: {model: last}
  rule: ">= 10"
  unit: points
  evidence: fig-a
"""
LEVEL = Claim(
    "level",
    "natural_bias",
    "1.7",
    datetime(2026, 1, 1, tzinfo=UTC),
    "A level.",
    "accuracy",
    ">= 60",
    "%",
    "fig-a",
    of={"model": "last"},
)
GAP = replace(LEVEL, id="gap", rule=">= 10", of={"model": "max"}, against={"model": "last"})
RATIO = replace(LEVEL, measure="ratio_at_95", rule="0.1 to 100")
LEVELS = [
    (">= 60", [61, 62, 63, 62, 62], "holds"),
    (">= 60", [61, 62, 63], "undecided"),  # from 59.5
    ("> 60", [60, 60, 60], "does not hold"),
    (">= 60", [60, 60, 60], "holds"),
    (">= 60", [61], "so far holds"),
    (">= 60", [20, 61], "so far does not hold"),
]
MID = {"setting": "mid"}
WAYS = {
    "of": {"model": "max", "best_of": [{"drop_connect": 0.1}, {"drop_connect": 0.3}]},
    "against": {"best_of": [{}]},
    "rule": "> 0",
}
ONCE_MORE = [
    *valued([80, 81, 82], "max"),
    *valued([70, 70, 70]),
    *valued([70, 71, 72], "max", **MID),
    *valued([64, 65, 66], **MID),
]
BEST = [
    *valued([75, 75, 75], "max", validation_accuracy=60.0),
    *valued([99, 99, 99], "max", drop_connect=0.1, validation_accuracy=70.0),
    *valued([76, 77, 78], "max", drop_connect=0.3, validation_accuracy=71.0),
]
LAST = valued([60.0, 60.1, 60.2])
POOLED = valued([80, 81, 82], "mean") + valued([71, 72, 73], "max")
EACH = {"of": {"model": ["mean", "max", "attention"]}}
COMPARED = [
    *(
        (
            {"of": {"model": "last"}, "against": None, "rule": rule},
            valued(own) + valued([0.0] * 3, "max"),
            (verdict, np.mean(own), len(own), len(own)),
        )
        for rule, own, verdict in LEVELS
    ),
    # a gap has as many seeds as the fewest of what it compares
    ({}, valued([82, 83, 84, 85], "max") + valued([60, 61, 62]), ("holds", 22.5, 3, 7)),
    ({}, valued([82, 83, 84], "max") + valued([60, 61]), ("so far holds", 22.5, 2, 5)),
    ({}, valued([82, 83, 84], "max"), None),
    # of several comparisons the one least in favour decides, by all their runs
    (EACH, LAST + POOLED + valued([90, 91, 92], "attention"), ("undecided", 11.9, 3, 12)),
    (
        EACH | {"rule": "<= 10"},
        LAST + POOLED + valued([90, 91, 92], "attention"),
        ("does not hold", 30.9, 3, 12),
    ),
    (EACH, LAST + POOLED, None),
    # what would be compared with itself, of which the difference is 0, is left out
    (
        {"of": {"model": "mean"}, "against": {"model": ["mean", "max"]}, "rule": "<= -4"},
        valued([70, 70, 70], "mean") + valued([75, 75, 75], "max"),
        ("holds", -5, 3, 6),
    ),
    # of several ways the one that validates best, once all were tried
    (WAYS, BEST, ("undecided", 2, 3, 6)),
    (WAYS, BEST[:6], None),
    # a difference of differences, or of levels
    ({"versus": MID, "rule": "> 0"}, ONCE_MORE, ("holds", (81 - 70) - (71 - 65), 3, 12)),
    (
        {"versus": MID, "rule": "> 0", "of": {"model": "last"}, "against": None},
        ONCE_MORE,
        ("holds", 70 - 65, 3, 6),
    ),
    ({"versus": MID, "rule": "> 0"}, ONCE_MORE[:-3], None),
    # of several a comparison each
    (
        {"versus": {"setting": ["mid", "left"]}, "rule": "<= 20", "of": {"model": "last"}}
        | {"against": None},
        [*ONCE_MORE, *valued([50, 50, 50], setting="left")],
        ("holds", 70 - 50, 3, 9),
    ),
]


def test_the_thesis_satisfies_each_rule_or_is_said_to_contradict_itself():
    for claim in LEDGER:
        assert claim.registered < datetime.now(UTC)
        finding = claims.by_the_thesis(claim)
        fails = finding is not None and finding.verdict in ("does not hold", "so far does not hold")
        assert not fails or claim.contradiction, claim.id
        assert not claim.contradiction or finding.verdict != "holds"
        assert finding is None or (claim.of_thesis and "thesis" in claim.scales)


@pytest.mark.parametrize(
    "before, after, message",
    [
        (WHOLE, WHOLE + WHOLE, "'first'.*: its id occurs twice"),
        ("  unit: points\n", "", "'first'.*: .*'unit'"),
        ("2026-01-02T03:04:05+02:00", "soon", "'first'.*: Invalid isoformat string: 'soon'"),
        ("05+02:00", "05", r"'first'.*: registered needs an offset, such as .*:05\+00:00"),
        ("measure: tagging_entity_f1", "measure: tugging", "measure 'tugging' is unknown"),
        ('">= 10"', '"at least 10"', "'first'.*: "),
        (
            "  unit:",
            "  seeds: {compct: [30]}\n  unit:",
            "scale 'compct' is unknown; choose one of ",
        ),
        (
            "  unit:",
            "  n: 3\n  seeds: [30, 31]\n  unit:",
            "n: 3; name at least as many seeds, such as .*, 32",
        ),
    ],
)
def test_what_is_wrong_with_a_claim_is_told_in_one_line(tmp_path, before, after, message):
    file = tmp_path / "claims.yml"
    file.write_text(WHOLE.replace(before, after))
    assert str(file) in refused(message, claims.claims, file)


@pytest.mark.parametrize(
    "text, interval, verdict",
    [
        (">= 2", (2, 3), "holds"),
        (">= 2", (1.9, 3), "undecided"),
        (">= 2", (1, 2), "undecided"),
        (">= 2", (1, 1.9), "does not hold"),
        ("> 2", (2, 3), "undecided"),
        ("> 2", (1, 2), "does not hold"),
        ("<= 2", (1, 2), "holds"),
        ("< 2", (2, 3), "does not hold"),
        ("< 2e-5", (1e-6, 1e-5), "holds"),
        ("-3 to 3", (-3, 3), "holds"),
        ("-3 to 3", (-9, 9), "undecided"),
        ("-3 to 3", (3, 9), "undecided"),
        ("-3 to 3", (3.1, 9), "does not hold"),
        (">= 2", (math.inf, math.inf), "holds"),
    ],
)
def test_a_rule_holds_where_the_whole_interval_satisfies_it(text, interval, verdict):
    assert Rule.parse(text).verdict(*interval) == verdict


@given(groups, groups, groups, groups)
def test_intervals_are_students_welchs_and_satterthwaites(a, b, c, d):
    level = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    gap = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    shares = [np.var(values, ddof=1) / len(values) for values in (a, b, c, d)]
    each = zip(shares, (a, b, c, d), strict=True)
    freedom = sum(shares) ** 2 / sum(share**2 / (len(own) - 1) for share, own in each)
    samples = (Sample.of(dict(enumerate(own))) for own in (a, b, c, d))
    terms = [*zip((1, -1, -1, 1), samples, strict=True)]
    value = sum(sign * sample.mean for sign, sample in terms)
    both = stats.t(freedom, value, math.sqrt(sum(shares))).interval(0.95)
    found = [*estimate(terms[:1]), *estimate(terms[:2]), *estimate(terms)]
    expected = [np.mean(a), *level, np.mean(a) - np.mean(b), *gap, value, *both]
    assert found == pytest.approx(expected, abs=1e-6)


def found(claim, rows, scale="thesis", **more):
    finding = by_runs(claim, table_of(claim.measure, rows), scale, **more)
    assert finding.verdict in claims.VERDICTS
    return finding


@pytest.mark.parametrize("change, rows, expected", COMPARED)
def test_claims_compare_means_of_models(change, rows, expected):
    finding = found(replace(GAP, **change), rows)
    if expected is None:
        assert finding == Finding()
    else:
        verdict, value, n, keys = expected
        assert (finding.verdict, finding.n, len(finding.keys)) == (verdict, n, keys)
        assert finding.value == pytest.approx(value)


def gaps(*groups, **change):
    """A claim that each of some poolings is 10 points above the BiLSTM, from their test
    accuracies."""
    names = ["mean", "max", "attention"][: len(groups)]
    rows = LAST + [
        row for name, own in zip(names, groups, strict=True) for row in valued(own, name)
    ]
    return found(replace(GAP, of={"model": names}, **change), rows)


def test_each_of_several_comparisons_counts_and_the_one_that_decides_is_shown():
    # The mean least in favour, 11.4, has the interval that is inside: the wide one reaches out.
    firm = gaps([71.4, 71.5, 71.6], [74, 78, 82])
    assert (firm.verdict, firm.value, firm.level) == ("undecided", pytest.approx(17.9), 0.95)
    assert firm.low < 10 < firm.high
    assert gaps([71.4, 71.5, 71.6], [77, 78, 79]).verdict == "holds"
    assert gaps([71.4, 71.5, 71.6], [77, 78, 79]).value == pytest.approx(11.4)
    # One comparison outside at 95 %, not at 98.3 %, is undecided among three, and shown at that
    # level.
    alone, among = gaps([66, 67, 68]), gaps([66, 67, 68], [80, 80.1, 80.2], [80, 80.1, 80.2])
    assert (alone.verdict, alone.level) == ("does not hold", 0.95)
    assert (among.verdict, among.value) == ("undecided", pytest.approx(6.9))
    assert among.level == pytest.approx(1 - 0.05 / 3)
    assert among.high > 10 > alone.high
    # One that is outside at that level decides, however much the others are inside.
    against = gaps([66.9, 67, 67.1], [80, 80.1, 80.2], [60, 80, 100])
    assert (against.verdict, against.value) == ("does not hold", pytest.approx(6.9))
    assert "98.3 % interval" in against.measured
    # With too few seeds of one the means say so far; what others decide against the claim stays
    # decided.
    assert gaps([66.9, 67, 67.1], [80]).verdict == "does not hold"
    assert (gaps([80, 81, 82], [80]).verdict, gaps([80, 81, 82], [64]).verdict) == (
        "so far holds",
        "so far does not hold",
    )


@pytest.mark.parametrize(
    "values, rule, firmness",
    [
        ([80, 80.1, 80.2, 80.3], ">= 10", "firm"),
        ([71.5, 71.6, 71.7, 71.8], ">= 10", "the threshold"),
        ([80, 81, 82, 110], ">= 10", ""),
        ([80, 81, 90], ">= 1", "one seed"),
        ([60, 61, 62, 63], ">= 10", "firm"),
        ([68.5, 68.6, 68.7, 68.8], ">= 10", "the threshold"),
        ([60.05, 60.1, 60.2, 60.1], "-3 to 3", "firm"),
        ([62.5, 62.6, 62.7, 62.6], "-3 to 3", "the threshold and one seed"),
    ],
)
def test_a_firm_verdict_survives_other_thresholds_and_the_loss_of_any_seed(values, rule, firmness):
    finding = gaps(values, rule=rule)
    assert (finding.firmness, finding.verdict == "undecided") == (firmness, not firmness)


@pytest.mark.parametrize(
    "rule, part, measure, moved",
    [
        (">= -4", 0.25, "accuracy", ">= -3"),
        ("-4 to 8", -0.25, "accuracy", "-5.5 to 9.5"),
        ("> 0", 0.25, "accuracy", "> 0"),
        (">= 95", 0.25, "last_train_accuracy", ">= 96.25"),
        ("1e-6 to 1e-2", 0.5, "ratio_at_95", "1e-5 to 1e-3"),
    ],
)
def test_a_threshold_is_moved_by_a_part_of_itself(rule, part, measure, moved):
    found, expected = Rule.parse(rule).moved(part, MEASURES[measure]), Rule.parse(moved)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_ratio_is_compared_by_its_logarithm():
    values = [0.01, 0.1, 10.0]
    finding = found(replace(RATIO, rule="<= 1"), valued(values))
    expected = stats.ttest_1samp(np.log(values), 0).confidence_interval(0.95)
    assert finding.value == pytest.approx(0.01 ** (1 / 3))
    assert np.log([finding.low, finding.high]) == pytest.approx([*expected])
    rows = valued(values) + valued([1e-3, 1e-2, 1.0], "max")
    over = found(replace(RATIO, against={"model": "max"}), rows)
    assert over.value == pytest.approx(10)
    # 0.5 is nearer to an end of the band than 90, but not by the factor
    rows = valued([0.5] * 3, "mean") + valued([90.0] * 3, "max")
    least = found(replace(RATIO, of={"model": ["mean", "max"]}), rows)
    assert least.value == pytest.approx(90)
    # A gradient too small for a float is no reason to stop: the interval is endless.
    finding = found(replace(RATIO, rule="<= 1"), valued([0.0, 1e-15, 1e-14]))
    assert (finding.verdict, finding.as_data()["interval"]) == ("undecided", None)
    assert finding.high > 1e300


def test_what_is_exact_is_decided_by_one_run():
    claim = replace(LEVEL, measure="memory_exponent", rule="<= 1.2", of={"cell": "lstm"})
    finding = found(claim, [run(value=1.1), run(seed=1, value=9.0)])
    assert (finding.verdict, finding.n, finding.measured) == ("holds", 1, "1.1")
    assert finding.value == finding.low == finding.high == 1.1


def test_no_interval_of_a_correlation_reaches_beyond_one_but_that_of_a_difference_may():
    rows = [
        run(seed=seed, value=value, predictor=name)
        for name, values in {"held": (0.6, 0.9, 0.9), "start_ratio": (-0.9, -0.2, -0.6)}.items()
        for seed, value in enumerate(values)
    ]
    claim = replace(LEVEL, measure="rank_agreement", rule=">= 0.8", of={"predictor": "held"})
    assert found(claim, rows).high == 1
    assert found(replace(claim, against={"predictor": "start_ratio"}), rows).high > 1


def test_a_seed_counts_once_and_other_runs_do_not_count():
    others = [
        {"corpus": "yelp"},
        {"length": "short"},
        {"setting": "mid"},
        {"masked": False},
        {"cell": "gru"},
        {"epochs": 8},
        {"hidden_size": 64},
        {"max_words": 140},
        {"vectors": "wiki-reviews.100d"},
        {"weight_decay": 1e-4},
        {"learning_rate": 1e-3},
        {"share": 0.5},
        {"layers": 2},
    ]
    rows = [row for change in others for row in valued([1, 2, 3], **change)]
    rows = [*rows, *valued([64, 65, 66]), *valued([64, 65, 66]), *rows]
    finding = found(replace(LEVEL, of={"model": "last", "size": 1_000}), rows)
    assert (finding.value, finding.n) == (65, 3)


def test_a_part_of_a_corpus_counts_in_the_compact_replication_alone_and_is_marked():
    rows = valued([64, 65, 66], corpus_complete=False)
    small = [
        run(seed=seed, scale="compact", value=65.0, corpus_complete=seed < 2) for seed in range(3)
    ]
    assert found(LEVEL, rows) == found(LEVEL, rows, pilots=True) == Finding()
    finding = found(LEVEL, rows + small, "compact")
    assert (finding.verdict, finding.part) == ("holds", True)
    assert not found(LEVEL, small[:2], "compact").part


def test_runs_that_began_before_the_rule_are_pilots_and_decide_nothing():
    old = valued([64, 65, 66], began=BEFORE)
    new = [row | {"seed": row["seed"] + 9} for row in valued([40, 41, 42])]
    assert found(LEVEL, old + new).value == 41
    assert found(LEVEL, old + new, pilots=True).value == 65
    decision = decide(LEVEL, table_of("accuracy", old))
    assert (decision.in_short, decision.best) == ("not run", Finding())
    assert (decision.pilots["thesis"].verdict, decision.pilots["thesis"].n) == ("holds", 3)
    # begun later
    assert found(replace(LEVEL, registered=BEFORE.to_pydatetime()), old) == Finding()
    # pilots may have been trained from other vectors
    other = {"vectors": "wiki-reviews.100d"}
    rows = valued([64, 65, 66], began=BEFORE, **other) + valued([1, 1, 1], **other)
    assert (found(LEVEL, rows, pilots=True).value, found(LEVEL, rows)) == (65, Finding())
    assert found(replace(LEVEL, of={"vectors": "random"}), rows, pilots=True) == Finding()
    # but not from several in one sample
    both = [*rows, *valued([80, 81], began=BEFORE)]
    assert (found(LEVEL, both, pilots=True).value, found(LEVEL, both, pilots=True).n) == (80.5, 2)


def test_runs_on_other_data_than_the_published_ones_do_not_count():
    data = {"data_filler": "sentences", "data_corpus": "whole"}
    published = valued([64, 65, 66], **data)
    for change in ({"data_filler": "articles"}, {"data_corpus": "half"}, {"data_vectors": "few"}):
        here = valued([50, 50, 50, 50], **data | change)
        for rows, value, n in ((published + here, 65, 3), (here, 50, 4)):
            finding = found(LEVEL, rows)
            assert (finding.value, finding.n) == (value, n)


LOOKED_AT = replace(LEVEL, seeds={"thesis": (1, 3, 5)})


def test_the_seeds_that_a_claim_names_decide_it_and_later_ones_stand_beside_it():
    # seeds 1, 3 and 5 are about 62; with all of them the interval would reach below 60
    made = table_of("accuracy", valued([50, 62, 50, 62.1, 50, 62.2, 50]))
    decision = decide(LOOKED_AT, made)
    assert (decision.at["thesis"].verdict, decision.at["thesis"].n) == ("holds", 3)
    assert decision.at["thesis"].value == pytest.approx(62.1)
    assert (decision.later["thesis"].n, decision.later["thesis"].low < 60) == (7, True)
    # until all are there the verdict is open, and a later seed does not take the place of one
    few = [row for row in valued([50, 62, 50, 62.1, 50, 50, 50]) if row["seed"] != 5]
    assert (found(LOOKED_AT, few).verdict, found(LOOKED_AT, few).n) == ("so far holds", 2)
    # with no other seed nothing stands beside it
    rows = [row for row in valued([0, 62, 0, 62.1, 0, 62.2]) if row["seed"] % 2]
    assert decide(LOOKED_AT, table_of("accuracy", rows)).later == {}


def test_both_sides_of_a_comparison_have_the_same_seeds_and_draws_are_named_likewise():
    claim = replace(GAP, seeds={"thesis": (0, 1, 2)})
    rows = valued([80, 81, 82, 60], "max") + valued([60, 61, 62, 90, 90])
    finding = found(claim, rows)
    assert (finding.value, finding.n) == (20, 3)
    draws = [row | {"seed": row["seed"] + 1} for row in valued([80, 81, 82, 0])]
    by_draw = replace(LEVEL, measure="accuracy_by_draw", seeds={"thesis": (1, 2, 3)})
    assert found(by_draw, draws).value == 81


def test_every_claim_about_runs_names_its_seeds_and_a_claim_registered_anew_has_unused_ones():
    for claim in LEDGER:
        measure = MEASURES[claim.measure]
        counts = [len({*seeds}) for seeds in claim.seeds.values()]
        alike = {*claim.seeds} == {*claim.scales} and min(counts, default=0) >= 3
        assert alike or measure.exact or measure.drawn, claim.id
        if claim.again:
            [first] = [other for other in LEDGER if other.id == claim.again]
            assert (claim.measure, first.again) == (first.measure, "")
            assert min(map(min, claim.seeds.values())) >= 30
    assert len({claim.again for claim in LEDGER if claim.again}) == sum(
        bool(c.again) for c in LEDGER
    )


@pytest.mark.parametrize(
    "groups, rule",
    [
        ([[71.5, 72, 73, 74]], ">= 10"),
        ([[62, 64, 66, 67]], ">= 10"),
        ([[60, 60.5, 61, 62]], "-3 to 3"),
        ([[78, 79, 80], [77, 79, 81]], ">= 10"),
        ([[66, 66.2, 66.1], [90, 91, 92]], ">= 10"),
        ([[69, 71, 73]], ">= 10"),
    ],
)
def test_a_verdict_stands_down_to_its_smallest_level(groups, rule):
    finding, limits = gaps(*groups, rule=rule), Rule.parse(rule)
    tests = [stats.ttest_ind(group, [60.0, 60.1, 60.2], equal_var=False) for group in groups]

    def verdicts(level):  # without a word of ours
        return {limits.verdict(*test.confidence_interval(level)) for test in tests}

    for p, stands in ((finding.p * 1.001, True), (finding.p * 0.999, False)):
        held = verdicts(1 - p) == {"holds"}
        assert (held or "does not hold" in verdicts(1 - p / len(groups))) == stands
    assert (finding.p <= 0.05) == (finding.verdict != "undecided")
    assert math.isnan(found(LEVEL, valued([61, 62])).p)  # not tested yet


def test_p_does_not_depend_on_the_order_of_comparisons_of_which_one_has_a_single_seed():
    against = [66, 66.2, 66.1]
    findings = [gaps(against, [90], rule=">= 10"), gaps([90], against, rule=">= 10")]
    assert [finding.verdict for finding in findings] == ["does not hold"] * 2
    assert findings[0].p == pytest.approx(findings[1].p)
    assert findings[0].p < 0.05


def test_a_verdict_is_told_at_the_thesiss_scale_once_it_is_decided_there():
    large, small = Finding("undecided", 1.0, 0.5, 1.5, 3), Finding("holds", 2.0, n=1, keys=("a",))
    late, early = Finding("so far does not hold", 0.0164, n=1), Finding("so far holds", 1.0, n=2)
    for thesis, compact, short, verb in (
        (large, small, "undecided", "is undecided"),
        (Finding(), small, "holds (compact)", "holds"),
        (Finding(), Finding(), "not run", "has not been tested yet"),
        (Finding(), late, "so far does not hold (compact)", "does not hold so far"),
        # too few seeds at the thesis's scale do not hide what the compact replication has decided
        (early, large, "undecided (compact)", "is undecided"),
        (early, late, "so far holds", "holds so far"),
    ):
        decision = Decision(LEVEL, {"thesis": thesis, "compact": compact})
        said, _, note = decision.as_verb.partition(" (")
        assert (decision.in_short, said) == (short, verb)
        run = decision.best.n
        assert note.endswith(f"claim {LEVEL.id}: {decision.best.verdict})" if run else "")
        assert (bool(note), "compact" in note) == (bool(run), "compact" in short)
    assert (decision.verdict("compact"), Decision(LEVEL, {}).verdict("compact")) == (
        late.verdict,
        "",
    )
    assert late.spoken == "0.016 (n = 1)"
    unrun = Decision(LEVEL, {"compact": Finding()})  # its sentence quotes a scale that it lacks
    assert unrun.spoken(unrun.scale) == "not run"


@pytest.mark.parametrize(
    "what, scale, selection, message",
    [
        ("sweeep", None, {}, "measure or kind 'sweeep' is unknown; choose one of accuracy"),
        ("accuracy", "yours", {}, "scale 'yours' is unknown; choose one of thesis, compact"),
        ("sweep", "huge", {}, "scale 'huge' is unknown; choose"),
        ("accuracy", "compact", {"sise": 1}, "column 'sise' is unknown; choose one of"),
        ("training", "compact", {"sise": 1}, "column 'sise' is unknown; choose one of"),
        ("accuracy", "thesis", {"model": ["max", "mxa"]}, "model 'mxa' is unknown; choose"),
        ("accuracy", "thesis", {"setting": "middle"}, "setting 'middle' is unknown; choose"),
    ],
)
def test_a_mistaken_selection_in_a_chapter_is_an_error_and_no_blank_figure(
    place, what, scale, selection, message
):
    chapter = Chapter("natural_bias", Request("quick"), place)
    refused(re.escape(message), chapter.results, what, scale, **selection)
    assert chapter.results("sweep", "compact").empty  # without runs yet
    assert chapter.results("accuracy", "compact", model="max, chrono", size=77).empty


def test_results_are_the_runs_of_a_scale_unless_a_selection_says_otherwise(place):
    chapter = Chapter("natural_bias", Request("quick"), place)
    rows = [
        *trained([60.0, 61.0]),
        *trained([70.0], model="max", setting="mid"),
        *trained([80.0], scale="compact", model="chrono"),
        *trained([81.0], scale="compact", model="chrono", corpus="yelp"),
    ]
    chapter.__dict__["finished"] = runs(rows)

    def asked(*scale, **selection):
        return chapter.results("training", *scale, **selection)["test_accuracy"].tolist()

    assert asked() == [60, 61, 70, 80, 81]
    assert asked("thesis") == [60, 61]
    assert (
        asked("thesis", setting=["standard", "mid"]) == asked("thesis", setting=...) == [60, 61, 70]
    )
    assert asked("thesis", setting=..., model="max") == [70]
    assert asked("compact") == [80]
    assert asked("compact", corpus=...) == [80, 81]
    assert asked(["thesis", "compact"], corpus=..., setting=...) == [60, 61, 70, 80, 81]
    assert asked("compact", draw=[None, 1]) == [80]
