"""The publishers' formats: small archives of our own, and the real ones where they are."""

import csv
import gzip
import io
import json
import tarfile
from dataclasses import replace

import pytest

from whenpool import InputError, corpora
from whenpool.corpora import published
from whenpool.corpora.corpus import SplitSizes

WORDS = "word " * 101


def add(archive, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def make_imdb(folder, reviews=12, note="not a review"):
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        add(archive, "aclImdb/README", note.encode())
        add(archive, "aclImdb/train/unsup/0_0.txt", b"no label")
        for part in ("train", "test"):
            for label in ("neg", "pos"):
                for i in range(reviews):
                    text = f"{WORDS}{part} {label} {i}".encode()
                    add(archive, f"aclImdb/{part}/{label}/{i}_{i % 10}.txt", text)


def make_zhang(folder, name, rows):
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL).writerows(rows)
    with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
        add(archive, f"{name}/train.csv", lines.getvalue().encode())
        add(archive, f"{name}/test.csv", lines.getvalue().replace("word ", "term ").encode())


@pytest.fixture(autouse=True)
def filler(tmp_path):
    (tmp_path / "wiki_sentences.txt").write_text("a fact .\n" * 50)


def test_imdb(tmp_path):
    make_imdb(tmp_path)
    corpus = corpora.load("imdb", tmp_path)
    assert corpus.classes == ("neg", "pos")
    assert len(corpus.train) == 24
    assert all(" train " in text for text in corpus.train.texts)
    assert all(" test " in text for text in corpus.validation.texts + corpus.test.texts)
    for text, label in corpus.train:
        assert corpus.classes[label] in text
    assert not corpus.complete
    assert "hold 48 texts, not all that their publisher gives" in corpus.notes[1]


def test_yelp(tmp_path):
    rows = [(1 + i % 2, f'{WORDS}line\\nbreak \\"quoted\\" {i}') for i in range(40)]
    make_zhang(tmp_path, "yelp_review_polarity_csv", rows)
    corpus = corpora.load("yelp", tmp_path)
    assert corpus.classes == ("negative", "positive")
    text, label = corpus.train[0]
    assert 'line break "quoted"' in text
    assert label == int(text.split()[-1]) % 2


def test_yahoo_reads_the_answer_alone(tmp_path):
    rows = [(1 + i % 10, "title", "question", f"{WORDS}{i}") for i in range(100)]
    make_zhang(tmp_path, "yahoo_answers_csv", rows)
    corpus = corpora.load("yahoo", tmp_path)
    assert set(corpus.classes) == set(published.YAHOO_TOPICS)
    text, label = corpus.train[0]
    assert "title" not in text
    assert corpus.classes[label] == published.YAHOO_TOPICS[int(text.split()[-1]) % 10]


def write_amazon(folder, category, lines):
    (folder / "amazon").mkdir(exist_ok=True)
    with gzip.open(folder / "amazon" / f"{category}_5.json.gz", "wt") as file:
        file.write("\n".join(lines))


def test_amazon(tmp_path, monkeypatch):
    for category in ("Books", "Software"):
        lines = [json.dumps({"reviewText": f"{WORDS}{category} {i}", "overall": 5}) for i in range(30)]
        lines += [json.dumps({"overall": 5}), json.dumps({"reviewText": "w " * 501})]
        write_amazon(tmp_path, category, lines)
    corpus = corpora.load("amazon", tmp_path)
    assert corpus.classes == ("Books", "Software")
    assert len(corpus.train) + len(corpus.validation) + len(corpus.test) in range(57, 61)
    assert all(corpus.classes[label] in text for text, label in corpus.train)
    monkeypatch.setattr(published, "AMAZON_REVIEWS_READ", 12)
    corpus = corpora.load("amazon", tmp_path)
    assert len(corpus.train) + len(corpus.validation) + len(corpus.test) in range(21, 25)


@pytest.mark.parametrize(
    ("texts", "sizes", "complete"),
    [
        (48, SplitSizes(24, 12, 12), True),
        (49, SplitSizes(24, 12, 12), False),  # a file is missing some
        (48, SplitSizes(30, 12, 12), False),  # too few are long enough
    ],
)
def test_a_whole_corpus_is_told_from_a_part(tmp_path, monkeypatch, texts, sizes, complete):
    make_imdb(tmp_path)
    whole = replace(published.PUBLICATIONS["imdb"], texts=texts, sizes={"long": sizes})
    monkeypatch.setitem(published.PUBLICATIONS, "imdb", whole)
    corpus = corpora.load("imdb", tmp_path)
    assert corpus.complete is complete
    assert ("not all that their publisher gives" in " ".join(corpus.notes)) is not complete


def test_a_file_that_is_not_the_publishers_is_noted(tmp_path):
    make_imdb(tmp_path)
    assert (
        "aclImdb_v1.tar.gz is not the publisher's file (sha256"
        in corpora.load("imdb", tmp_path).notes[0]
    )


def test_fingerprints_are_of_the_selected_texts_not_of_the_file(tmp_path):
    def fingerprint(reviews, note):
        folder = tmp_path / note
        folder.mkdir()
        make_imdb(folder, reviews, note)
        return corpora.find("imdb", folder).fingerprint("long")

    first = fingerprint(12, "one")
    assert fingerprint(12, "another archive of the same") == first
    assert fingerprint(13, "more") != first


def test_short_texts_are_another_corpus(tmp_path):
    rows = [(1 + i % 2, f"short {i}") for i in range(40)] + [(1, WORDS)]
    make_zhang(tmp_path, "yelp_review_polarity_csv", rows)
    corpus = corpora.load("yelp", tmp_path, length="short")
    assert all(text.startswith("short") for text in corpus.train.texts)
    with pytest.raises(InputError, match="length 'tiny' is unknown; choose one of long, short, any"):
        corpora.load("yelp", tmp_path, length="tiny")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("good", WORDS)], "train.csv, row 1: expected a class number and 2 columns"),
        ([(1, WORDS), (2,)], "train.csv, row 2: expected a class number and 2 columns, found 1 columns"),
        ([(3, WORDS)], "train.csv, row 1: there is no class 3"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, message):
    make_zhang(tmp_path, "yelp_review_polarity_csv", rows)
    with pytest.raises(InputError, match=message):
        corpora.load("yelp", tmp_path)


def test_a_bad_line_of_amazon_is_named(tmp_path):
    write_amazon(tmp_path, "Books", ['{"reviewText": "x"}', "{broken"])
    with pytest.raises(InputError, match=r"Books_5.json.gz, line 2: not a JSON object"):
        corpora.load("amazon", tmp_path)


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_a_damaged_archive_is_named_with_the_mend(tmp_path, damage):
    make_imdb(tmp_path, reviews=200)
    path = tmp_path / "aclImdb_v1.tar.gz"
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "noise": b"noise" * 99, "empty": b""}[damage])
    with pytest.raises(
        InputError, match=r"aclImdb_v1.tar.gz is damaged .*`whenpool data fetch imdb`"
    ) as error:
        corpora.load("imdb", tmp_path)
    assert "\n" not in str(error.value)


def test_an_archive_without_the_tables_is_named(tmp_path):
    with tarfile.open(tmp_path / "yelp_review_polarity_csv.tgz", "w:gz") as archive:
        add(archive, "readme.txt", b"nothing else")
    with pytest.raises(InputError, match="holds no train.csv; it is not the publisher's archive"):
        corpora.load("yelp", tmp_path)


def test_a_missing_corpus_is_named_with_the_mend(tmp_path):
    with pytest.raises(InputError, match=r"aclImdb_v1.tar.gz is not in .*`whenpool data fetch imdb`"):
        corpora.load("imdb", tmp_path)


def test_missing_filler_is_named_with_the_mend(tmp_path):
    make_imdb(tmp_path)
    (tmp_path / "wiki_sentences.txt").unlink()
    assert len(corpora.load("imdb", tmp_path).train) == 24  # which needs none
    with pytest.raises(InputError, match="no filler sentences in .*`whenpool data fetch wikitext`"):
        corpora.find("imdb", tmp_path).load_filler()


# the real ones


def test_real_imdb_is_complete_and_has_the_length_of_table_1_1(real_data):
    corpus = corpora.load("imdb", real_data)
    assert corpus.complete
    assert [len(s) for s in (corpus.train, corpus.validation, corpus.test)] == [20_000, 5_000, 9_800]
    lengths = [
        len(text.split()) for s in (corpus.train, corpus.validation, corpus.test) for text in s.texts
    ]
    assert max(lengths) == 2470
    assert min(lengths) == 101


@pytest.mark.parametrize(
    ("name", "classes", "length"),
    [("yelp", 2, "long"), ("yahoo", 10, "long"), ("amazon", 13, "long"), ("amazon", 13, "short")],
)
def test_real_parts_are_read_balanced_and_marked(real_data, name, classes, length):
    corpus = corpora.load(name, real_data, length)
    assert len(corpus.classes) == classes
    assert not corpus.complete
    labels = corpus.train.labels + corpus.validation.labels + corpus.test.labels
    counts = [labels.count(number) for number in range(classes)]
    assert max(counts) - min(counts) <= 3  # equally many, but for the rounding of splits
    texts = set(corpus.train.texts) | set(corpus.validation.texts) | set(corpus.test.texts)
    assert len(texts) == len(labels)
