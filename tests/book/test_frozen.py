"""What a draw of reviews says of a ready encoder: its texts, its rows, and means that are compared
draw by draw."""

from dataclasses import replace

import numpy as np
import pytest

from paper.chapters.encoders_of_today import readings
from paper.runs.kinds.frozen import CELLS, DRAWS, PASSAGES, PLAIN, Frozen, draw, passages
from paper.verdicts.claims import Finding, paired
from paper.verdicts.results import Runs, Sample
from whenpool import InputError, load
from whenpool.corpora import find

pytest.importorskip("sentence_transformers")
from whenpool.explain.frozen import load_encoder

RUN = Frozen("synthetic:train=120,validation=40,test=60", texts=20, test=8, words=8)


class Counting:
    """An encoder of which a word is a piece, and which reads so many."""

    longest = 30

    def pieces(self, texts):
        return [], np.array([len(text.split()) for text in texts])


def test_no_text_is_in_two_draws_or_read_in_part():
    corpus, filler = load(RUN.corpus), find(RUN.corpus).load_filler()
    drawn = [draw(replace(RUN, seed=seed), corpus, filler, Counting()) for seed in range(DRAWS)]
    for each in drawn:
        assert np.bincount(each.labels).tolist() == [10, 10]
        assert np.bincount(each.answers).tolist() == [4, 4]
        for versions in [*each.train, *each.test]:
            assert versions.keys() == set(CELLS)
            assert all(versions[PLAIN] in text for text in versions.values())
            assert {len(text.split()) for text in versions.values()} == {8, 12, 24}
    tested = [versions[PLAIN] for each in drawn for versions in each.test]
    learnt = [versions[PLAIN] for each in drawn for versions in each.train]
    assert len({*tested}) == len(tested)
    assert not {*tested} & {*learnt}
    assert len({*learnt}) == len(learnt) - sum(each.before for each in drawn)
    again = draw(RUN, corpus, filler, Counting())
    assert [*map(hash, map(str, again.train))] == [*map(hash, map(str, drawn[0].train))]


def test_a_passage_has_so_many_words_and_the_last_what_is_left():
    assert passages("a b c d e", 2) == ["a b", "c d", "e"]


def test_a_run_has_a_row_for_each_pooling_reader_and_cell(place, tmp_path):
    from test_pretrained import saved

    folder = saved(tmp_path / "tiny", longest=64)
    run = replace(RUN, encoder=str(folder))
    assert load_encoder(str(folder), ()).longest >= 30
    run.execute(place)
    rows = readings(Runs(place))
    learnt = rows[rows["reader"] != "passages"]
    assert len(learnt) == 7 * 2 * len(CELLS)
    assert rows["accuracy"].between(0, 100).all()
    cut = rows[rows["reader"] == "passages"]
    assert set(cut["passage"]) == set(PASSAGES)
    # a text of 24 words is one passage
    mean = learnt.query("pooling == 'mean' and reader == 'plain'").set_index(["setting", "share"])
    same = cut.query("pooling == 'mean' and passage == 40").set_index(["setting", "share"])
    assert same["accuracy"].eq(mean["accuracy"].reindex(same.index)).all()


def test_there_are_so_many_draws(place):
    with pytest.raises(InputError, match="there are 5 draws, from 0, but not 5"):
        replace(RUN, seed=5).execute(place)


def test_what_draws_share_does_not_widen_the_interval_of_a_difference():
    values = {seed: 60.0 + 10 * seed for seed in range(5)}
    one = Sample.of(values, ("a",))
    other = Sample.of({seed: value - 3 - 0.1 * seed for seed, value in values.items()}, ("b",))
    (pair,) = paired([(1, one), (-1, other)])
    assert pair[1].values == pytest.approx({seed: 3 + 0.1 * seed for seed in range(5)})
    assert pair[1].keys == ("a", "b")
    finding = Finding.of(pair)
    assert finding.low > 2.9
    assert Finding.of((1, one), (-1, other)).low < 0
    assert paired([(1, one), (-1, None)]) == [(1, one), (-1, None)]
