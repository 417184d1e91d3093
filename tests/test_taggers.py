"""Taggers: the model, its training, what gradients do in it, the sentences it is tried on; and tagging runs:
what is planned, executed, stored, recorded and shown."""

import re
from dataclasses import replace

import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy, pad

from whenpool import SequenceTagger
from whenpool.book.progress import outcome_table
from whenpool.models.sequence_tagger import Spelling
from whenpool.probes import tagging_gradient_norms
from whenpool.runs.compute import standing
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.plans import plan
from whenpool.runs.request import Request
from whenpool.runs.run import key

LENGTHS = torch.tensor([7, 4, 1])
TINY = Tagging(
    "generated:train=40,validation=12,test=20,clauses=2", embedding_size=6, hidden_size=5,
    feature_size=3, epochs=2, learning_rate=1e-2, profiled=4,
)  # fmt: skip
OTHERS = {"encoding": "io"}, {"cell": "elman", "features": False}, {"corpus": f"{TINY.corpus},task=pos"}
RUNS = [TINY, *(replace(TINY, **one) for one in ({"bidirectional": False}, *OTHERS))]


def tagger(**given):
    torch.manual_seed(0)
    sizes = {"embedding_size": 6, "hidden_size": 5, "feature_size": 3} | given
    return SequenceTagger(30, 4, **sizes).double()


def batch():
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 20, (3, 7), generator=generator)
    return ids, LENGTHS, torch.randint(4, (3, 7), generator=generator)


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_padding_and_the_order_of_a_batch_change_nothing(cell, bidirectional):
    model = tagger(cell=cell, bidirectional=bidirectional)
    ids, lengths, tags = batch()
    order = torch.tensor([2, 0, 1])
    wider, wider_tags = pad(ids, (0, 5), value=9)[order], pad(tags, (0, 5))[order]
    logits, again, total = model(ids, lengths), model(wider, lengths[order]), 0
    for row, n in enumerate(lengths.tolist()):
        alone = model(ids[row : row + 1, :n], lengths[row : row + 1])[0]
        torch.testing.assert_close(alone, logits[row, :n])
        torch.testing.assert_close(alone, again[order.tolist().index(row), :n])
        total += cross_entropy(alone, tags[row, :n], reduction="sum")
    torch.testing.assert_close(model.loss(ids, lengths, tags), total / 12)
    torch.testing.assert_close(model.loss(wider, lengths[order], wider_tags), total / 12)


def one_by_one(model, ids, length, tags, word):
    """‖∂L/∂h_t‖ by a change of each state that is carried on, in float64: the recurrence by hand."""
    (cell,) = model.encoder.layers[0]
    states, h = [], torch.zeros(model.encoder.hidden_size, dtype=torch.float64)
    for x in model.embed(ids[:length].unsqueeze(0))[0]:
        h = torch.tanh(cell.weight_ih_l0 @ x + cell.bias_ih_l0 + cell.weight_hh_l0 @ h + cell.bias_hh_l0)
        states.append(h)
    losses = cross_entropy(model.classifier(torch.stack(states)), tags[:length], reduction="none")
    loss = losses.sum() if word is None else losses[word]
    gradients = torch.autograd.grad(loss, states, allow_unused=True, materialize_grads=True)
    return [gradient.norm().item() for gradient in gradients]


@pytest.mark.parametrize("word", [None, 3])
def test_gradients_are_those_of_a_loop_by_hand(word):
    model = tagger(cell="elman", bidirectional=False)
    (ids, _, tags), lengths = batch(), torch.tensor([7, 4, 5])
    words = None if word is None else torch.full((3,), word)
    norms = tagging_gradient_norms(model, ids, lengths, tags, words)
    for row, n in enumerate(lengths.tolist()):
        expected = one_by_one(model, ids[row], n, tags[row], word)
        assert norms[row, :n].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert norms[row, n:].isnan().all()
        assert word is None or norms[row, word + 1 : n].eq(0).all()  # no way back from the future


def test_letters_are_read_as_a_loop_over_words_reads_them():
    letters = torch.tensor([[1, 0, 0, 0], [1, 0, 0, 0], [2, 3, 0, 0], [3, 2, 4, 2]])
    torch.manual_seed(0)
    read = Spelling(letters, filters=5, letter_size=6).double()
    forms = torch.tensor([[2, 3, 2], [3, 0, 0]])
    weight, bias = read.convolution.weight, read.convolution.bias
    for value, form in zip(read(forms).flatten(0, 1), forms.flatten(), strict=True):
        word = pad(read.embedding.weight[letters[form][letters[form] > 0]], (0, 0, 1, 1))  # (n + 2, 6)
        seen = [(weight * window).sum((1, 2)) for window in word.unfold(0, 3, 1)]  # each (6, 3)
        torch.testing.assert_close(value, bias + torch.stack(seen).amax(0))


@pytest.fixture(scope="module")
def executed(shared):
    for run in RUNS:
        run.execute(shared)
    return shared


def test_every_run_leaves_a_row_that_gives_it_back(executed):
    table = executed.store.current("tagging")
    assert len(table) == len(RUNS)
    for row in table.to_dict("records"):
        run = Tagging.of_row(row)
        assert run in RUNS
        assert key(run, executed) == row["key"]
        assert row["unseen_words"] > 0
        assert row["majority_accuracy"] < row["lexicon_accuracy"] < 100
        assert pd.notna(row["entity_f1"]) == row["entities"] == ("pos" not in run.corpus)
        if row["entities"]:
            kinds = ("right", "boundary", "mistyped", "spurious")
            assert sum(row[f"entities_{kind}"] for kind in kinds) == row["entities_predicted"]
    assert all(executed.store.rows(kind).empty for kind in ("training", "probe", "few-shot"))


def test_files_of_the_readers_own_are_planned_trained_and_noted(place, tmp_path):
    text = "\n\n".join(f"word{number} O\nFred I-PER\nSue B-PER" for number in range(60))
    (tmp_path / "mine.conll").write_text(text)
    (tmp_path / "test.conll").write_text("Fred I-PER\nParis I-LOC\n")
    assert standing([replace(TINY, corpus="ud_ewt")], place).absent
    file = f"{tmp_path / 'mine.conll'}:dev=test.conll,test=test.conll"
    runs = plan("sequence_labelling", Request("smoke", (file,)), place)
    assert [(run.bidirectional, run.filters) for run in runs] == [(True, 0), (False, 0), (True, 50)]
    result, _, with_filters = (place.store.get(run.execute(place))["result"] for run in runs)
    assert with_filters["parameters"] > result["parameters"]
    for line in outcome_table(runs, place).splitlines()[1:]:
        assert re.search(r" F1 in % +\d+\.\d \(1\)$", line)
