"""Files of the user's own: what is read of them, and what is said of those that cannot be."""

import json
import re

import pytest

from whenpool import InputError, load
from whenpool.corpora.sources import read_own
from whenpool.explain.diagnosis import survey

ROWS = [(f"text {i}, quite; long", "yes" if i % 3 else "no") for i in range(60)]
GAPS = "text,label,more\ngood,1\n,0\n"


def written(path, rows=ROWS, delimiter=",", header=("text", "label"), encoding="utf-8"):
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in (header, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def looked_at(path, text="text", label="label", limit=1_000, words=200, **more):
    return survey(path, text, label, limit=limit, words=words, **more)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_any_common_way_of_writing_a_table_is_read(tmp_path, delimiter, encoding):
    path = written(tmp_path / "a.csv", delimiter=delimiter, encoding=encoding)
    assert [(text, label) for text, label, _ in read_own(path, "text", "label")] == ROWS
    corpus = load(str(path))
    assert (corpus.classes, [*map(len, corpus.splits.values())]) == (("no", "yes"), [24, 8, 8])


def test_formats_and_columns_may_be_others(tmp_path, monkeypatch):
    tsv = written(tmp_path / "A.TSV", delimiter="\t")
    jsonl = tmp_path / "a.jsonl"
    jsonl.write_text("\ufeff" + "\n\n".join(json.dumps({"text": t, "label": y}) for t, y in ROWS))
    assert list(read_own(tsv, "text", "label")) == list(read_own(jsonl, "text", "label"))
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
    assert next(iter(read_own(path, "text", "label")))[:2] == (text, "good")


def numbered(label, count):
    return [(f"{label} {i}", label) for i in range(count)]


def texts_of(found):
    return found.texts


def test_what_was_left_out_is_noted(tmp_path):
    rows = numbered("common", 60) + numbered("rare", 12)
    assert load(written(tmp_path / "own.csv", [*rows, rows[0], ("common 1", "rare")])).notes == (
        "own.csv: 24 of 74 rows are used, equally many of each class; "
        "1 texts have several labels, of which the first counts.",
    )


@pytest.mark.parametrize(("content", "message"), [
    ("", "has no header; write the names"),
    ("body,stars\nx,1\n", r"has no column 'text'; name one of \['body', 'stars'\]"),
    ("text,label\nx,1\na, b,1\n", "line 3: the line has 3 fields, but the header has 2; put fields"),
    ('text,label\nx,1\n"never ends,1\nx,2\n', "line 3: unexpected end of data; end each quoted field"),
    ("text,label\nx,1\nx,2\n", "one class, '1' \\(1 texts have several labels, of which the first counts"),
    ("text,label\n" + f"x,{'y' * 5_000}\n" + "z,1\n", "class 'yyy.* of 2 classes has 1 different texts"),
    (b"text,label\nfine,1\ncaf\xe9,1\n", r"line 3 is .* \(byte 0xe9 after 'caf'.*save it as"),
    ('{"text": "x", "label": 1}\n{"text": "x"\n', "line 2: expected a JSON object"),
    ('{"body": "x", "stars": 1}', r"line 1 has no 'text'; its columns are \['body', 'stars'\]"),
    ('{"text": "x", "label": {}}', "'text' must hold a text, and 'label' a word or a number, not 'x' and {}"),
    ('{"text": "x", "label": NaN}', "no row has a text and a label; .*line 1: column 'label' has no label"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_in_a_line(tmp_path, content, message):
    data = content if isinstance(content, bytes) else content.encode()
    path = tmp_path / ("a.jsonl" if data[:1] in (b"{", b"[") else "a.csv")
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        looked_at(path)
    assert path.name in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(("call", "content", "options", "message"), [
    (load, GAPS, {}, "a.csv, line 3: column 'text' has no text"),
    (load, GAPS, {"label_column": "more"}, "a.csv, line 2: column 'more' has no label"),
    (load, GAPS, {"colour": "red"}, "option of .*a.csv .colour. is unknown; choose one of text_column"),
    (load, "text,label\n" + "".join(f"a {i},{i % 2}\n" for i in range(40)), {"length": "long"},
     "a.csv has no long texts"),
    (looked_at, GAPS, {"label": "text"}, "text and label are both in column 'text'; name two"),
    (looked_at, "text,label\n" + "".join(f"b b {i},a\n{i},b\n" for i in range(40)), {"words": 2},
     r"a\.csv: class 'a' of 2 classes has 1 .*--words"),
    (lambda path: looked_at(path.with_name("b.csv")), "", {}, "b.csv cannot be read: No such file"),
    (lambda path: looked_at(path.with_suffix(".xlsx")), "", {}, r"a\.xlsx is not a \.csv, \.tsv or \.jsonl"),
])  # fmt: skip
def test_other_mistakes_are_named(tmp_path, call, content, options, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        call(tmp_path / "a.csv", **options)


def test_what_is_left_out_is_counted(tmp_path):
    gaps = [("", "yes"), (" ", "no"), ("a text", "")]
    again = [ROWS[0], (ROWS[1][0], "no")]
    found = looked_at(written(tmp_path / "a.csv", [*ROWS, *gaps, *again]), words=2)
    assert (found.rows, len(found.texts), found.cut, {*found.lengths}) == (62, 60, 1.0, {5})
    assert found.classes == {"yes": 40, "no": 20}
    notes = " ".join(found.notes)
    for note in ("60 texts are longer than 2 words", "3 rows were left out, without words .*line 62",
                 "2 repeated texts count once", "1 text has several labels, of which"):  # fmt: skip
        assert re.search(note, notes)


def test_texts_without_spaces_are_refused_or_read_by_characters(tmp_path):
    rows = [(f"这部电影很好看我喜欢它{i}", "yes" if i % 2 else "no") for i in range(40)]
    path = written(tmp_path / "a.csv", rows)
    with pytest.raises(InputError, match="no spaces between words.* --characters"):
        looked_at(path)
    found = looked_at(path, characters=True)
    assert (len(found.texts), found.tokenizer, min(found.lengths)) == (40, "characters", 12)
    assert texts_of(found)[0].startswith("这 部 电 影")
    segmented = [(" ".join(text), label) for text, label in rows]
    assert len(looked_at(written(tmp_path / "b.csv", segmented)).texts) == 40


def test_tags_are_removed_and_said(tmp_path):
    rows = [(f"good<br/>film <b class='x'>{i}</b> 1 < 2 <3", "ab"[i % 2]) for i in range(40)]
    found = looked_at(written(tmp_path / "a.csv", rows))
    assert "good film 0 1 < 2 <3" in texts_of(found)
    assert "40 rows had HTML tags, which were removed." in found.notes


def test_rare_classes_are_left_out_when_asked(tmp_path):
    path = written(tmp_path / "a.csv", ROWS + numbered("rare", 9))
    with pytest.raises(InputError, match="--drop-classes-below 10 does"):
        looked_at(path)
    found = looked_at(path, drop_classes_below=10)
    assert found.classes == {"yes": 40, "no": 20}
    assert "1 rare class was left out: rare." in found.notes
    with pytest.raises(InputError, match="has one class, 'yes' that has 30 texts or more"):
        looked_at(path, drop_classes_below=30)
    few = written(tmp_path / "b.csv", numbered("yes", 9) + numbered("no", 40))
    with pytest.raises(InputError, match="merge or leave out rare classes$"):
        looked_at(few)


def test_a_limit_keeps_shares_and_does_not_depend_on_the_order(tmp_path):
    rows = numbered("1", 400) + numbered("2", 100) + numbered("3", 12)
    found = looked_at(written(tmp_path / "a.csv", rows), limit=100)
    assert found.classes == {"1": 78, "2": 19, "3": 10}
    assert f"{512 - 107} more texts were left out to save time (--limit)." in found.notes
    chosen = set(texts_of(found))
    assert set(texts_of(looked_at(written(tmp_path / "a.csv", rows[::-1]), limit=100))) == chosen


def test_texts_are_cut_before_they_are_compared(tmp_path):
    """What differs after the words that are read, or in what the tokenizer drops, is one text."""
    rows = [(f'Text {i}: "x" and {end}', "yes" if i % 2 else "no") for i in range(40) for end in "ab"]
    found = looked_at(written(tmp_path / "a.csv", [(t.replace('"', '""'), y) for t, y in rows]), words=4)
    assert (found.rows, len(found.texts), found.cut) == (80, 40, 1.0)
    assert sorted(texts_of(found)) == sorted(f"text {i} x and" for i in range(40))
    assert len(looked_at(tmp_path / "a.csv", words=5).texts) == 80
