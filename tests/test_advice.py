"""Which pooling for which task: the advice, and what verdicts on the claims it rests on come to."""

from itertools import product

import pytest

from whenpool import InputError
from whenpool.book import advice
from whenpool.book.advice import Advice, advice_for, support


@pytest.fixture
def undecided(monkeypatch):
    """As where no run is stored; deciding every claim anew takes long."""
    monkeypatch.setattr(advice, "with_verdicts", lambda chosen, runs: chosen)


def test_there_is_advice_for_any_texts(undecided):
    for given in product([12.5, 99.5, 100, 240.3], [10, 100, 500, 1_000, 4_999, 20_000], advice.WHERE):
        assert advice_for(*given), given


@pytest.mark.parametrize(("name", "given", "other"), [
    ("pool-long-texts", (100, 1_000), (99.9, 1_000)), ("pool-short-texts", (99.9, 1_000), (100, 1_000)),
    ("few-labels", (200, 100), (200, 101)), ("much-data", (200, 10_000), (200, 9_999)),
    ("pool-the-middle", (200, 1_000, "middle"), (200, 1_000, "unknown")),
    ("last-state-at-the-start", (200, 1_000, "start"), (200, 1_000, "everywhere")),
])  # fmt: skip
def test_advice_depends_on_length_data_and_place(undecided, name, given, other):
    assert name in {each.id for each in advice_for(*given)} - {each.id for each in advice_for(*other)}


@pytest.mark.parametrize(("verdicts", "expected"), [
    (["holds", "holds"], "supported"), (["holds", "so far holds"], "supported so far"),
    (["holds", "not run"], "supported in part"), (["so far does not hold", "not run"], "contradicted"),
    (["undecided", "not run"], "undecided"), (["not run"], "untested"),
    (["holds (compact)", "holds"], "supported"),
])  # fmt: skip
def test_what_verdicts_come_to(verdicts, expected):
    assert support(Advice("a", "Do.", ("a", "b"), tuple(verdicts))) == expected


@pytest.mark.parametrize("given", [(-1, 10), (10, 10, "left")])
def test_what_cannot_be_is_told(given):
    with pytest.raises(InputError, match="not|choose one of unknown, everywhere, start, middle, end"):
        advice_for(*given)
