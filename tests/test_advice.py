"""Which pooling for which task: the advice, the claims it rests on, and what runs make of it."""

from itertools import product

import pytest
from made_up import LEDGER

from whenpool import InputError
from whenpool.book import advice
from whenpool.book.advice import Advice, advice_for, entries, support, with_verdicts
from whenpool.book.results import Runs


@pytest.fixture(scope="module")
def every():
    """All advice, whose files take a second to read."""
    return entries()


@pytest.fixture
def nothing_run(monkeypatch, every):
    monkeypatch.setattr(advice, "Runs", lambda place: Runs(None))
    monkeypatch.setattr(advice, "entries", lambda: every)
    monkeypatch.setattr(advice, "claims", lambda: LEDGER)


def test_there_is_advice_for_any_texts(nothing_run, every):
    for given in product([12.5, 99.5, 100, 240.3], [10, 100, 500, 1_000, 4_999, 20_000], advice.WHERE):
        found = advice_for(*given)
        assert all(each.words or each.texts or each.where for each in found)
        assert {verdict for each in found for verdict in each.verdicts} == {"not run"}, given
        assert {support(each) for each in found} == {"untested"}


@pytest.mark.parametrize(("name", "given", "other"), [
    ("pool-long-texts", (100, 1_000), (99.9, 1_000)), ("pool-short-texts", (99.9, 1_000), (100, 1_000)),
    ("few-labels", (200, 100), (200, 101)), ("much-data", (200, 10_000), (200, 9_999)),
    ("pool-the-middle", (200, 1_000, "middle"), (200, 1_000, "unknown")),
    ("last-state-at-the-start", (200, 1_000, "start"), (200, 1_000, "everywhere")),
])  # fmt: skip
def test_advice_depends_on_length_data_and_place(nothing_run, name, given, other):
    assert name in {each.id for each in advice_for(*given)} - {each.id for each in advice_for(*other)}


def test_verdicts_are_those_of_the_ledger(every, recorded, decided):
    told = {decision.claim.id: decision.in_short for decision in decided}
    for each in with_verdicts(every, recorded):
        assert each.verdicts == [told[name] for name in each.claims]


@pytest.mark.parametrize(("verdicts", "expected"), [
    (["holds", "holds"], "supported"), (["holds", "so far holds"], "supported so far"),
    (["holds", "not run"], "supported in part"),
    (["so far holds", "does not hold"], "supported in part"),
    (["so far does not hold", "not run"], "contradicted"),
    (["does not hold", "undecided"], "contradicted"), (["undecided", "not run"], "undecided"),
    (["not run"], "untested"), (["holds (compact)", "holds"], "supported"),
    (["does not hold (compact)", "not run"], "contradicted"),
])  # fmt: skip
def test_what_verdicts_come_to(verdicts, expected):
    assert support(Advice("a", "Do.", tuple("ab"[: len(verdicts)]), tuple(verdicts))) == expected


@pytest.mark.parametrize("given", [(-1, 10), (10, -1), (float("nan"), 10), (10, 10, "left")])
def test_what_cannot_be_is_told(given):
    with pytest.raises(InputError, match="not|choose one of unknown, everywhere, start, middle, end"):
        advice_for(*given)
