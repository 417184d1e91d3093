"""Files of the user's own: what is read of them, and what is said of those that cannot be."""

import gzip
import json
import re
from collections import Counter

import pytest

from whenpool import InputError, load
from whenpool.corpora.sources import read_own
from whenpool.explain.diagnosis import survey

ROWS = [(f"text {i}, quite; long", "yes" if i % 3 else "no") for i in range(60)]


def written(path, rows=ROWS, delimiter=",", header=("text", "label"), encoding="utf-8"):
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in (header, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def looked_at(path, text="text", label="label", limit=1_000, words=200):
    return survey(path, text, label, limit=limit, words=words)


@pytest.mark.parametrize(
    ("delimiter", "encoding"), [(",", "utf-8-sig"), (";", "utf-8"), ("\t", "utf-8"), ("|", "utf-8")]
)
def test_any_common_way_of_writing_a_table_is_read(tmp_path, delimiter, encoding):
    path = written(tmp_path / "a.csv", delimiter=delimiter, encoding=encoding)
    assert [(text, label) for text, label, _ in read_own(path, "text", "label")[0]] == ROWS
    corpus = load(str(path))
    assert (corpus.classes, [*map(len, corpus.splits.values())]) == (("no", "yes"), [24, 8, 8])


def test_formats_and_columns_may_be_others(tmp_path, monkeypatch):
    tsv = written(tmp_path / "A.TSV", delimiter="\t")
    jsonl = tmp_path / "a.jsonl.gz"
    lines = [json.dumps({"text": t, "label": y}) for t, y in ROWS]
    with gzip.open(jsonl, "wt") as stream:  # the label of a first row may be missing
        stream.write("\ufeff" + "\n\n".join(['{"text": "x"}', *lines]))
    read, gaps = read_own(jsonl, "text", "label")
    assert (read, len(gaps)) == (read_own(tsv, "text", "label")[0], 1)
    named = written(tmp_path / "b.csv", header=("body", "stars"))
    expected = load(named, text_column="body", label_column="stars")
    assert load(f"{named}:text_column=body,label_column=stars") == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("~/A.TSV").splits == load(tsv).splits == expected.splits


@pytest.mark.parametrize(("suffix", "content", "text"), [
    (".csv", '"He said ""no"", and\n\nleft",good\n"C:",bad\n', 'He said "no", and\n\nleft'),
    (".tsv", '"Great" film\tgood\nFine\tbad\n', '"Great" film'),
    (".tsv", '"He said ""no"""\tgood\nFine\tbad\n', 'He said "no"'),
])  # fmt: skip
def test_quotes_are_read_as_other_programs_write_them(tmp_path, suffix, content, text):
    path = tmp_path / f"a{suffix}"
    path.write_text(f"text{',' if suffix == '.csv' else chr(9)}label\n{content}")
    assert read_own(path, "text", "label")[0][0][:2] == (text, "good")


@pytest.mark.parametrize(("content", "message"), [
    ("", "has no header; write the names"),
    ("body,stars\nx,1\n", "no column 'text'; name one of .*'body', 'stars'.*, as a.csv:text_column="),
    ("text,label\nx,1\na, b,1\n", "line 3: the line has 3 fields, but the header has 2; put fields"),
    ('text,label\nx,1\n"never ends,2\nx,1\n', "line 3: a quote is not closed"),
    ("text,label\nx,1\nx,2\n", "there is one class, '1'; give texts"),
    ("text,label\n" + f"x,{'y' * 5_000}\n" + "z,1\n", "class 'yyy.* of 2 classes has 1 different texts"),
    ("text,label\n这部电影很好看我喜欢它,1\n", "no spaces between words; add them with a segmenter"),
    (b"text,label\nfine,1\ncaf\xe9,1\n", "line 3 is not UTF-8 text .byte 0xe9 after 'caf'.; save it as"),
    ('{"text": "x", "label": 1}\n{"text": "x"\n', "line 2: expected a JSON object"),
    ('{"text": "x", "label": {}}', "'text' must hold a text, and 'label' a word or a number, not 'x' and {}"),
    ('{"text": "x", "label": 1}\n{"text": "y", "label": 1.0}', "labels '1' and '1.0' are one number"),
    ('{"text": "x", "label": NaN}', "no row has a text and a label; .*line 1: column 'label' is empty"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_in_a_line(tmp_path, content, message):
    data = content if isinstance(content, bytes) else content.encode()
    path = tmp_path / ("a.jsonl" if data[:1] in (b"{", b"[") else "a.csv")
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        looked_at(path, words=2)
    assert path.name in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(("options", "message"), [
    ({"label_column": "more"}, "no row has a text and a label; .*a.csv, line 2: column 'more' is empty"),
    ({"label_column": "text"}, "text and label are both in column 'text'; name two"),
    ({"colour": "red"}, "option of .*a.csv .colour. is unknown; choose one of text_column"),
])  # fmt: skip
def test_gaps_and_wrong_options_of_a_corpus_are_named(tmp_path, options, message):
    (tmp_path / "a.csv").write_text("text,label,more\ngood,1\n,0\n")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "a.csv", **options)


def test_what_is_left_out_is_counted(tmp_path):
    gaps = [("", "yes"), (" ", "no"), ("a text", "")]
    again = [ROWS[0], (ROWS[1][0], "no")]
    found, notes = looked_at(written(tmp_path / "a.csv", [*ROWS, *gaps, *again]), words=2)
    assert Counter(found["label"]) == {"yes": 40, "no": 20}
    for note in ("60 texts are longer than 2 words", "3 rows were left out, .*line 62",
                 "2 rows repeat a text", "1 texts have several labels"):  # fmt: skip
        assert re.search(note, " ".join(notes))


def test_a_limit_keeps_shares_and_does_not_depend_on_the_order(tmp_path):
    counts = {"1": 400, "2": 100, "3": 12}
    rows = [(f"{label} {i}", label) for label, count in counts.items() for i in range(count)]
    found, notes = looked_at(written(tmp_path / "a.csv", rows), limit=100)
    assert Counter(found["label"]) == {"1": 78, "2": 19, "3": 10}
    assert f"{512 - 107} more texts were left out to save time (--limit)." in notes
    again, _ = looked_at(written(tmp_path / "a.csv", rows[::-1]), limit=100)
    assert set(again["text"]) == set(found["text"])
