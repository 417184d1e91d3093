"""The publishers' files: read from small archives of our own, and the real ones where they are."""

import gzip
import json
from collections import Counter

import pytest
from archives import WORDS, make_imdb, make_zhang
from called import refused

from whenpool import corpora
from whenpool.corpora import published
from whenpool.corpora.corpus import has_length


def test_imdb(tmp_path):
    make_imdb(tmp_path)
    corpus = corpora.load("imdb", tmp_path)
    assert (corpus.classes, len(corpus.train), corpus.complete) == (("neg", "pos"), 24, False)
    assert all(f" train {corpus.classes[label]} " in text for text, label in corpus.train)
    assert all(" test " in text for text in corpus.validation.texts + corpus.test.texts)
    assert "hold 48 texts, fewer than the publisher's" in corpus.notes[0]
    refused(
        "has no filler sentences: .*`whenpool data fetch wikitext`",
        corpora.find("imdb", tmp_path).load_filler,
    )
    path = tmp_path / "aclImdb_v1.tar.gz"
    path.write_bytes(path.read_bytes()[:500])
    refused(
        r"Imdb_v1.tar.gz is damaged .*`whenpool data fetch imdb`", corpora.load, "imdb", tmp_path
    )


def test_yelp_is_read_as_its_publisher_writes_it(tmp_path):
    rows = [(1 + n % 2, f'{WORDS}\\n{n} \\"so\\"') for n in range(60)]
    make_zhang(tmp_path, "yelp_review_polarity_csv", rows)
    corpus = corpora.load("yelp", tmp_path)
    assert corpus.classes == ("negative", "positive")
    for text, label in corpus.train:
        *_, number, end = text.split(" ")
        assert (int(number) % 2, end) == (label, '"so"')
    found = [has_length("w " * n, length) for length in ("long", "short") for n in (100, 101)]
    assert found == [False, True, True, False]


def test_amazon(tmp_path, monkeypatch):
    def write(category, *lines):
        file = tmp_path / "amazon" / f"{category}_5.json.gz"
        file.write_bytes(gzip.compress("\n".join(lines).encode()))

    (tmp_path / "amazon").mkdir()
    for category in ("Books", "Software"):
        texts = [*(f"{WORDS}{category} {i}" for i in range(30)), "w " * 501]
        write(category, *(json.dumps({"reviewText": text}) for text in texts), '{"overall": 5}')
    corpus = corpora.load("amazon", tmp_path)
    assert corpus.classes == ("Books", "Software")
    assert sum(map(len, corpus.splits.values())) in range(57, 61)
    assert all(corpus.classes[label] in text for text, label in corpus.train)
    monkeypatch.setattr(published, "AMAZON_REVIEWS_READ", 12)
    assert len(corpora.load("amazon", tmp_path).train) in range(10, 25)
    write("Books", '{"reviewText": "x"}', "{broken")
    refused(r"Books_5.json.gz, line 2: expected a JSON object", corpora.load, "amazon", tmp_path)


@pytest.mark.parametrize(
    "name, classes, length",
    [
        ("imdb", 2, "long"),
        ("yelp", 2, "long"),
        ("yahoo", 10, "long"),
        ("amazon", 13, "long"),
        ("amazon", 13, "short"),
    ],
)
def test_real_corpora_are_read_balanced_and_marked(real_data, name, classes, length):
    corpus = corpora.load(name, real_data, length)
    assert (len(corpus.classes), corpus.complete) == (classes, name == "imdb")
    splits = corpus.splits.values()
    counts = Counter(label for split in splits for label in split.labels)
    texts = {text for split in splits for text in split.texts}
    assert len(texts) == counts.total()
    if name == "imdb":  # Table 1.1
        assert [len(split) for split in splits] == [20_000, 5_000, 9_800]
        assert max(len(text.split()) for text in texts) == 2470
    else:
        assert max(counts.values()) - min(counts.values()) <= 3  # but for the rounding of splits
