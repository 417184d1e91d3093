"""What a diagnosis concludes from its findings: no more than chance allows, and no less."""

import numpy as np
import pytest

from whenpool.book.report.advice import Advice
from whenpool.explain.diagnosis.findings import (
    Findings,
    Score,
    differences,
    evidence_place,
    evidence_sentence,
    interval_of,
    learnt_among,
)
from whenpool.explain.diagnosis.verdict import advice_on, verdict_on


def score(pooling, right, total=400, first=0, seeds=(0.0,)):
    """A pooling that gets some texts right, from the ``first`` on.

    Args:
        seeds: by how many points each seed differs from that.
    """
    hits = np.zeros(total)
    hits[first : first + right] = 1
    reached = tuple(100 * right / total + points for points in seeds)
    return Score(pooling, reached, *interval_of(hits), hits, 1.0)


def findings(*scores, simple=(), sweeps=None, test=400, majority=50.0, filler="", swept=300):
    rows = {
        pooling: [{"accuracy": value, "share_added": 0.5, "setting_added": "left"}]
        for pooling, value in (sweeps or {}).items()
    }
    return Findings(
        tuple(sorted(scores, key=lambda s: -s.accuracy)), tuple(simple), {}, majority, 1_200, test, test,
        {}, {}, rows, {}, {}, swept, filler, "unknown", (),
    )  # fmt: skip


def test_a_clear_winner_is_taken():
    verdict = verdict_on(findings(score("max", 340), score("last", 240)))
    assert verdict.pooling == "max"
    assert verdict.title == "Take MaxPool (max)"
    assert "25.0 points behind" in verdict.sentences[0]


def test_what_may_be_chance_is_called_so_and_filler_decides():
    sweeps = {"max": 60.0, "mean": 61.0, "last": 90.0}
    found = findings(score("max", 330), score("mean", 328), score("last", 250), sweeps=sweeps)
    close, far = found.differences
    assert (close.pooling, close.may_be_chance) == ("mean", True)
    assert (far.pooling, far.may_be_chance) == ("last", False)
    verdict = verdict_on(found)
    assert verdict.pooling == "mean"
    assert "may be chance" in verdict.sentences[0]
    assert "Less accurate beyond chance: BiLSTM." in verdict.sentences
    assert (
        "MeanPool does best on the texts as they are (82.0 %) and with filler of invented words around "
        "them (61.0 % on average) taken together." in verdict.sentences[1]
    )
    slightly = findings(score("max", 330), score("mean", 320), sweeps={"max": 60.0, "mean": 62.0})
    assert verdict_on(slightly).pooling == "max"  # 2.5 points count for more than 2 under filler
    assert "any may do" in verdict_on(findings(score("max", 330), score("mean", 330))).title


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (390, "more than MaxPool"),
        (340, "as many as MaxPool"),
        (336, "not clearly fewer than"),
        (250, ""),
    ],
)
def test_a_baseline_that_wins_or_ties_is_recommended_first(right, said):
    simple = [score("tfidf", right), score("vectors", 240)]
    verdict = verdict_on(findings(score("max", 340), score("last", 240), simple=simple))
    assert verdict.pooling == "max"
    assert verdict.title == ("Use TF-IDF with logistic regression" if said else "Take MaxPool (max)")
    if said:
        assert said in verdict.sentences[0]
        assert verdict.sentences[1].endswith("Take MaxPool (max).")


def test_a_baseline_that_has_not_learnt_is_not_recommended():
    found = findings(score("max", 215), score("last", 200), simple=[score("tfidf", 216)])
    assert verdict_on(found).title == "No pooling learnt enough to be recommended"


def test_nothing_is_recommended_where_nothing_was_learnt_or_texts_are_few():
    poor = verdict_on(findings(score("max", 220), score("last", 200)))
    assert (poor.pooling, poor.title) == ("", "No pooling learnt enough to be recommended")
    few = verdict_on(findings(score("max", 20, 20), score("last", 1, 20), test=20))
    assert (few.pooling, few.title) == ("", "Too few texts to recommend a pooling")
    assert "give 160 or more" in few.sentences[0]


def test_what_did_not_learn_is_not_recommended_however_it_does_under_filler():
    """100 test texts: 62 % is more than the 50 of the most frequent class, and 52 % is not."""
    sweeps = {"max": 50.0, "mean": 62.0}
    scores = score("max", 66, 100), score("mean", 52, 100, first=30)
    found = findings(*scores, sweeps=sweeps, test=100)
    assert [one.pooling for one in found.near] == ["max", "mean"]
    assert [one.pooling for one in found.learnt] == [one.pooling for one in found.tied] == ["max"]
    verdict = verdict_on(found)
    assert (verdict.pooling, verdict.title) == ("max", "Take MaxPool (max)")
    assert (
        "Not clearly above the most frequent class: MeanPool; but that MaxPool is ahead may be chance."
        in verdict.sentences
    )
    assert not any("keeps" in sentence for sentence in verdict.sentences)


@pytest.mark.parametrize(("lead", "chance"), [(5, True), (6, False), (7, False)])
def test_one_training_each_is_compared_by_the_exact_sign_test(lead, chance):
    """Alone right on n texts, never alone wrong: p = 2^(1 - n), below 5 % from n = 6 on."""
    found = findings(score("max", 300 + lead), score("mean", 300))
    assert [one.may_be_chance for one in found.differences] == [chance]


def test_filler_decides_only_among_those_that_were_tested_with_it():
    verdict = verdict_on(
        findings(score("max", 330), score("mean", 328), sweeps={"mean": 70.0}, filler="wikitext-2")
    )
    assert verdict.pooling == "max"
    assert (
        "Filler decides nothing among them, since MaxPool could not be tested with it."
        in verdict.sentences
    )
    whole = {"max": 0.0, "mean": 70.0}
    assert verdict_on(findings(score("max", 330), score("mean", 328), sweeps=whole)).pooling == "mean"


@pytest.mark.parametrize(
    ("sweeps", "filler", "said"),
    [
        ({"max": 70.0, "mean": 70.1}, "wikitext-2", ""),
        ({"max": 70.0, "mean": 77.0}, "wikitext-2", ""),  # two standard errors are 7.2 points
        ({"max": 70.0, "mean": 78.0}, "wikitext-2", "When filler is added around the texts, MeanPool"),
        ({"max": 70.0, "mean": 78.0}, "", "When filler of invented words is added"),
        ({"max": 78.0, "mean": 70.0}, "wikitext-2", "It also keeps most accuracy when filler is added"),
        ({"max": 70.0, "last": 90.0}, "wikitext-2", ""),  # which has not learnt
        ({"mean": 90.0}, "wikitext-2", ""),
    ],
)
def test_what_filler_tells_is_told_beyond_chance_alone(sweeps, filler, said):
    verdict = verdict_on(
        findings(score("max", 340), score("mean", 250), score("last", 200), sweeps=sweeps, filler=filler)
    )
    assert verdict.pooling == "max"
    told = [sentence for sentence in verdict.sentences if "filler" in sentence]
    assert len(told) == bool(said)
    assert all(said in sentence for sentence in told)


def test_the_number_of_trainings_is_part_of_the_verdict():
    def last(*seeds):
        one, other = score("max", 340, seeds=seeds), score("mean", 240, seeds=seeds)
        return verdict_on(findings(one, other)).sentences[-1]

    assert last(0.0).startswith("One training of each pooling cannot tell")
    assert last(1.0, -1.0).startswith("Two trainings of each pooling cannot tell")
    assert "--seeds" not in last(1.0, 0.0, -1.0)


def test_seeds_that_spread_more_than_texts_widen_the_interval():
    def found(spread):
        seeds = (-spread, 0.0, spread)
        (one,) = differences([score("max", 300, seeds=seeds), score("mean", 280, seeds=seeds)])
        return one

    calm, wild = found(0.1), found(10.0)
    assert calm.points == wild.points == pytest.approx(5)
    assert not calm.may_be_chance
    assert wild.may_be_chance
    low, high = wild.interval
    assert (high - low) / 2 == pytest.approx(1.966 * np.hypot(10, 10) / np.sqrt(3), rel=1e-3)


FIVE = ("last", "mean", "max", "attention", "max_attention")


def equally_good(texts, chance):
    """400 times the scores of five that are right on each text with the same probability."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        right = (rng.random((5, texts)) < chance).astype(float)
        yield [
            Score(name, (100 * hits.mean(),), 0, 100, hits, 1.0)
            for name, hits in zip(FIVE, right, strict=True)
        ]


def test_what_only_guesses_has_seldom_learnt():
    """Five that guess at 100 texts: in 1 of 8 trials one is above its own 95 % interval."""
    wrong = sum(bool(learnt_among(scores, 50.0)) for scores in equally_good(100, 0.5))
    assert wrong <= 20  # at most 2.5 % of 400 are expected


def test_intervals_of_differences_cover_the_truth_as_often_as_they_say():
    missed = 0
    for scores in equally_good(300, 0.7):
        missed += not all(one.may_be_chance for one in findings(*scores, test=300).differences)
    assert 1 <= missed <= 30  # 5 % of 400 are 20, and exact tests in Bonferroni's way find fewer


@pytest.mark.parametrize(
    ("thirds", "where"),
    [
        ([(0.5, 0.2, 0.2), (0.6, 0.3, 0.3)], "start"),
        ([(0.2, 0.5, 0.3)], "middle"),
        ([(0.2, 0.2, 0.5)], "end"),
        ([(0.4, 0.42, 0.41)], "everywhere"),
        ([(0.5, 0.2, 0.2), (0.2, 0.2, 0.5)], "unknown"),
        ([(0.4, 0.4, 0.2)], "unknown"),
        ([], "unknown"),
    ],
)
def test_the_place_of_the_evidence_is_told_only_where_it_is_clear(thirds, where):
    results = [dict(zip(("left", "middle", "right"), part, strict=True)) for part in thirds]
    assert evidence_place(results) == where


@pytest.mark.parametrize(
    ("where", "judges", "cut", "said"),
    [
        ("unknown", (), False, "there is none here."),
        (
            "unknown",
            ("MaxPool",),
            False,
            "MaxPool, the one model with a pooling that has learnt, singles",
        ),
        ("start", ("MaxPool",), False, "words at the start of the texts matter most."),
        ("middle", ("MaxPool", "Att"), True, "agree: words in the middle of the words that are read"),
    ],
)
def test_what_is_said_of_the_place_names_who_says_it(where, judges, cut, said):
    assert said in evidence_sentence(where, judges, cut)


def test_advice_is_that_of_the_book_and_none_outside_of_it(tmp_path, monkeypatch):
    told = advice_on(200.0, 1_200, "unknown")
    assert all(one.text and one.support and one.claims for one in told)
    assert told
    import whenpool.book.report.advice

    given = [
        Advice("a", "Good.", ("c",), ("holds",)),
        Advice("b", "Bad.", ("d", "e"), ("does not hold", "undecided")),
        Advice("f", "Unknown.", ("g",), ("not run",)),
        Advice("h", "So far.", ("i", "j"), ("so far holds", "not run")),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(whenpool.book.report.advice, "advice_for", lambda *_: given)
        given = advice_on(200.0, 1_200, "unknown")
    assert [(one.text, one.claims) for one in given] == [
        ("Good.", (("c", "holds"),)),
        ("So far.", (("i", "so far holds"),)),
    ]
    monkeypatch.setattr(whenpool.book.report.advice, "project_root", lambda: None)
    assert advice_on(200.0, 1_200, "unknown") == []
