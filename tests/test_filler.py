"""Filler sentences: formats, splits by article, the endless stream."""

import gzip
import itertools
import json

import pytest

from whenpool import InputError
from whenpool.corpora.settings import FillerStream, find_filler, load_filler


def articles(count=60, sentences=3):
    return [(f"article {a}", f"fact {s} of {a} .") for a in range(count) for s in range(sentences)]


def check_splits(found):
    assert set(found) == {"train", "validation", "test"}
    number = {split: {sentence.split()[-2] for sentence in found[split]} for split in found}
    assert not number["train"] & number["validation"] | number["train"] & number["test"]
    assert sum(map(len, found.values())) == 180
    assert all(found.values())


def test_json_lines_with_titles(tmp_path):
    path = tmp_path / "wiki_sentences.jsonl.gz"
    lines = "\n".join(json.dumps({"sentence": s, "title": t}) for t, s in articles())
    path.write_bytes(gzip.compress(lines.encode()))
    assert find_filler(tmp_path) == path
    check_splits(load_filler(path))


def test_plain_text_with_empty_lines_between_articles(tmp_path):
    path = tmp_path / "wiki_sentences.txt"
    groups = itertools.groupby(articles(), key=lambda pair: pair[0])
    path.write_text("\n\n".join("\n".join(s for _, s in group) for _, group in groups))
    check_splits(load_filler(path))


def test_plain_text_without_empty_lines_takes_each_line_for_an_article(tmp_path):
    path = tmp_path / "wiki_sentences.txt"
    path.write_text("\n".join(s for _, s in articles()) + "\n\n")
    found = load_filler(path)
    assert sum(map(len, found.values())) == 180
    assert all(found.values())


def test_wikitext(tmp_path):
    path = tmp_path / "wiki.train.raw"
    path.write_text(
        "".join(
            f" \n = Town {a} = \n \n It lies @-@ somewhere near {a} . "
            f"It has 1 @,@ 000 people in {a} . \n \n"
            f" = = History = = \n \n Town was built in {a} . \n"
            for a in range(60)
        )
    )
    found = load_filler(path)
    check_splits(found)
    everything = set().union(*found.values())
    assert "It lies-somewhere near 7 ." in everything
    assert "It has 1,000 people in 7 ." in everything
    assert not any("=" in sentence for sentence in everything)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("wiki_sentences.jsonl", b'{"sentence": "x", "title": "y"}\n{"text": 1}', "line 2: expected"),
        ("wiki_sentences.jsonl", b"{", "line 1: expected"),
        ("wiki_sentences.jsonl.gz", b"not gzip", "cannot be read: Not a gzipped file"),
        ("wiki_sentences.txt", b"\xff\xfe", "cannot be read"),
        ("wiki_sentences.txt", b"one fact .", "too few articles: none is left for the"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_filler(tmp_path / name)


def test_the_stream_is_endless_shuffled_anew_and_counts():
    sentences = [[number] for number in range(5)]
    stream = FillerStream(sentences, "seed")
    first = [next(stream)[0] for _ in range(5)]
    second = [next(stream)[0] for _ in range(5)]
    assert sorted(first) == sorted(second) == list(range(5))
    assert first != second
    assert stream.passes == 2
    again = FillerStream(sentences, "seed")
    assert [next(again)[0] for _ in range(10)] == first + second


def test_real_filler_has_its_four_million_words(real_data):
    found = load_filler(find_filler(real_data))
    assert sum(map(len, found.values())) == 200_000
    words = {split: sum(len(s.split()) for s in sentences) for split, sentences in found.items()}
    total = sum(words.values())
    assert words["train"] / total == pytest.approx(0.5, abs=0.02)
    assert words["test"] / total == pytest.approx(0.3, abs=0.02)
