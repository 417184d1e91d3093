"""Ragged rows and the batches cut from them."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from whenpool.corpora.batches import Ragged, Texts, evaluation_batches, training_batches

ROWS = [[5, 6, 7], [8], [9, 10]]


def test_ragged_rows_come_back():
    ragged = Ragged.of(ROWS)
    assert len(ragged) == 3
    assert [ragged.row(i).tolist() for i in range(3)] == ROWS
    assert ragged.lengths.tolist() == [3, 1, 2]
    assert [ragged.first(2).row(i).tolist() for i in range(2)] == ROWS[:2]
    assert len(Ragged.of([])) == 0


def test_a_batch_is_padded_on_the_right():
    texts = Texts(Ragged.of(ROWS), torch.tensor([0, 1, 2]))
    batch = texts.batch(torch.tensor([1, 0, 2]), padding_index=1)
    assert batch.ids.tolist() == [[8, 1, 1], [5, 6, 7], [9, 10, 1]]
    assert batch.lengths.tolist() == [1, 3, 2]
    assert batch.labels.tolist() == [1, 0, 2]


@given(st.lists(st.integers(1, 500), min_size=1, max_size=400), st.integers(1, 40), st.integers(0, 3))
def test_training_batches_hold_every_text_once_and_depend_on_the_seed_alone(lengths, batch_size, seed):
    lengths = torch.tensor(lengths)

    def batches():
        return training_batches(lengths, batch_size, torch.Generator().manual_seed(seed))

    indices = torch.cat(batches())
    assert sorted(indices.tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= batch_size for batch in batches())
    assert all(torch.equal(a, b) for a, b in zip(batches(), batches(), strict=True))


def test_texts_of_a_batch_are_of_similar_length_and_batches_come_in_no_order():
    lengths = torch.arange(1, 3201)
    batches = training_batches(lengths, 32, torch.Generator().manual_seed(0))
    assert all(lengths[batch].max() - lengths[batch].min() == 31 for batch in batches)
    firsts = [int(lengths[batch].min()) for batch in batches]
    assert firsts != sorted(firsts)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(1, 2000))
def test_evaluation_batches_hold_every_text_once_within_the_budget(lengths, words):
    lengths = torch.tensor(lengths)
    batches = list(evaluation_batches(lengths, words))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= words


def test_evaluation_batches_are_as_large_as_the_budget_allows():
    sizes = [len(batch) for batch in evaluation_batches(torch.full((10,), 4), 16)]
    assert sizes == [4, 4, 2]
