"""What figures of probes call models and texts, and where the text stands among filler."""

import numpy as np
import pandas as pd
import pytest

from whenpool.book.report import probes
from whenpool.corpora.settings import SETTINGS, SHARE, compose, filler_lengths

RUN = {"seed": 0, "corpus": "imdb", "length": "long", "size": 1000, "forget_bias": "thesis"}


def frame(runs):
    """Rows of runs, each a configuration, in no order."""
    rows = [{"key": f"k{number}", **RUN, **run} for number, run in enumerate(runs)]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def test_models_are_poolings_and_the_one_with_low_gates_and_texts_are_told_apart():
    runs = [
        {"pooling": "max"},
        {"pooling": "last", "forget_bias": "low", "size": 500},
        {"pooling": "last"},
    ]
    drawn = probes.named(frame(runs)).set_index("key")
    assert drawn["model"].to_dict() == {"k0": "MaxPool", "k1": probes.LOW, "k2": "BiLSTM"}
    assert list(drawn["model"].cat.categories) == ["BiLSTM", "MaxPool", probes.LOW]
    assert list(drawn["texts"].cat.categories) == ["500 training texts", "1K training texts"]
    own = {"pooling": "max", "corpus": "/data/my $ texts.csv:text_column=a", "length": "short"}
    several = probes.named(frame([*runs, own])).set_index("key")["texts"]
    assert several["k2"] == "IMDb, 1K training texts"
    assert several["k3"] == r"my \$ texts.csv, short, 1K training texts"
    assert {"model", "texts"} <= set(probes.named(pd.DataFrame(columns=["key"])))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [0.3, SHARE, 0.9])
def test_the_text_stands_where_it_is_composed(setting, share):
    for words in (30, 5000):
        left, right = filler_lengths(words, setting, share)
        total = left + words + right
        low, high = probes.text_span(setting, 0.0 if setting == "standard" else share)
        assert low * total == pytest.approx(left, abs=1)
        assert high * total == pytest.approx(left + words, abs=1)
    text = np.array(compose(["text"] * 3000, iter([["filler"] * 7] * 9000), setting, share))
    expected = text[np.linspace(0, len(text) - 1, 100).round().astype(int)] == "text"
    found = probes.where_the_text_stands(setting, share)
    assert (found != expected).sum() <= (setting != "standard") + (setting == "mid")  # at a border
