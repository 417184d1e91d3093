"""Files of the user's own: what is read of them, and what is said of those that cannot be."""

import gzip
import json
import re
import sys
from collections import Counter

import pandas as pd
import pytest
from called import refused

from whenpool import InputError, load
from whenpool.corpora.sources import Reading, read_own
from whenpool.explain.diagnosis import survey

ROWS = [(f"text {i}, quite; long", "yes" if i % 3 else "no") for i in range(60)]


def written(path, rows=ROWS, delimiter=",", header=("text", "label"), encoding="utf-8"):
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in (header, *rows)]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


def looked_at(path, limit=1_000, words=200):
    return survey(path, Reading(), limit, words)


@pytest.mark.parametrize(
    "delimiter, encoding", [(",", "utf-8-sig"), (";", "utf-8"), ("\t", "utf-8"), ("|", "utf-8")]
)
def test_any_common_way_of_writing_a_table_is_read(tmp_path, delimiter, encoding):
    path = written(tmp_path / "a.csv", delimiter=delimiter, encoding=encoding)
    assert [(text, label) for text, label, _ in read_own(path, Reading())[0]] == ROWS
    corpus = load(str(path))
    assert (corpus.classes, [*map(len, corpus.splits.values())]) == (("no", "yes"), [24, 8, 8])


def test_formats_and_columns_may_be_others(tmp_path, monkeypatch):
    tsv = written(tmp_path / "A.TSV", delimiter="\t")
    jsonl = tmp_path / "a.jsonl.gz"
    lines = [json.dumps({"text": t, "label": y}) for t, y in ROWS]
    with gzip.open(jsonl, "wt") as stream:  # the label of a first row may be missing
        stream.write("\ufeff" + "\n\n".join(['{"text": "x"}', *lines]))
    read, gaps, _ = read_own(jsonl, Reading())
    assert (read, len(gaps)) == (read_own(tsv, Reading())[0], 1)
    named = written(tmp_path / "b.csv", header=("body", "stars"))
    expected = load(named, text_column="body", label_column="stars")
    assert load(f"{named}:text_column=body,label_column=stars") == expected
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("~/A.TSV").splits == load(tsv).splits == expected.splits


LINES = [f"{text}\t{label}" for text, label in ROWS]
OPENS, CLOSES = '"Great film\tyes', 'A film of 3"\tno'


def test_rows_that_quotes_would_join_do_not_vanish(tmp_path):
    path, lines = tmp_path / "a.tsv", [*LINES[:10], OPENS, *LINES[11:13], CLOSES, *LINES[14:]]
    path.write_text("\n".join(["text\tlabel", *lines]))
    note = "Quotes are read as letters, since they would make one row of lines 12 to 15."
    read, _, notes = read_own(path, Reading())
    assert (len(read), read[10][:2], notes) == (60, ('"Great film', "yes"), [note])
    assert note in looked_at(path)[1]
    assert note in load(path).notes
    # so that both are wrong
    path.write_text("\n".join(["text\tlabel", *lines, "a line without a label"]))
    note = "1 rows span several lines between quotes, with '\\t' in them: lines 12 to 15."
    assert note in looked_at(path)[1]


@pytest.mark.parametrize("suffix, mark", [(".csv", ","), (".csv", ";"), (".tsv", "\t")])
def test_texts_of_several_lines_are_read_and_told(tmp_path, suffix, mark):
    text = f"Dull{mark} no\nplot{mark} {mark}\n\nyes"  # of which a line has more than a row
    rows = [(text, "no"), *ROWS, (f"{mark}fine\n", "yes")]
    read, _, [note] = read_own(written(tmp_path / f"a{suffix}", rows, mark), Reading())
    assert [row[:2] for row in read] == rows
    assert re.match(r"2 rows span several lines between quotes, .*: lines 2 to 5, 66 to 67\.", note)


@pytest.mark.parametrize(
    "name, content, text",
    [
        ("a.csv", b"sep=;\ntext;label\nA, b;x\n", "A, b"),
        ("a.csv", b'\n \n# made by hand, in May\n\ntext,label\n"A, b",x\n', "A, b"),
        ("a.csv", 'text,label\n"A, b",x\n'.encode("utf-16"), "A, b"),
        ("a.csv", gzip.compress(b'text,label\n"A, b",x\n', mtime=0), "A, b"),
        ("a.csv", b'text,label\n"He said ""no"", and\n\nleft",x\n', 'He said "no", and\n\nleft'),
        ("a.tsv", b'text\tlabel\n"Great" film\tx\n', '"Great" film'),
        ("a.tsv", b'text\tlabel\n"He said ""no"""\tx\n', 'He said "no"'),
    ],
)
def test_a_table_is_read_as_other_programs_write_it(tmp_path, name, content, text):
    """Its header may stand lower, it may be packed or of another encoding, and have quotes."""
    (tmp_path / name).write_bytes(content)
    assert read_own(tmp_path / name, Reading())[0] == [(text, "x", "")]


def test_an_encoding_and_a_column_that_begins_like_a_comment_may_be_named(tmp_path):
    rows = [(f"café n° {i}", "où" if i % 2 else "là") for i in range(60)]
    path = written(tmp_path / "a.csv", rows, header=("#text", "label"), encoding="cp1252")
    corpus = load(f"{path}:text_column=#text,encoding=cp1252")
    assert (corpus.classes, len(corpus.train)) == (("là", "où"), 36)
    assert {*corpus.train.texts} < {text for text, _ in rows}
    path.write_bytes('sep=,\ntext,label\n"A, b",x\n'.encode("utf-16-be"))
    assert read_own(path, Reading(encoding="utf-16-be"))[0] == [("A, b", "x", "")]


@pytest.mark.parametrize(
    "content",
    [
        '[{"text": "a", "label": 1}, {"text": "b", "label": null}]',
        '{"text": "a", "label": 1}\n{"text": "b", "label": null}',
        '{"text": {"0": "a", "1": "b"}, "label": {"0": 1, "1": null}}',
    ],
)
def test_json_may_be_a_list_lines_or_columns(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    read, gaps, _ = read_own(tmp_path / "a.json", Reading())
    assert (read, len(gaps)) == ([("a", "1", "")], 1)
    (tmp_path / "a.json").write_text("[1]")
    refused(
        "entry 1: expected a JSON object with 'text', not 1",
        read_own,
        tmp_path / "a.json",
        Reading(),
    )


SHEET = [
    ["Reviews", "", ""],
    ["text", "label", "more"],
    ["None", 1, 2.5],
    [7, "n/a", ""],
    [7, True, 1],
]
EXPECTED = ([("None", "1", ""), ("7", "True", "")], 1)


def test_a_sheet_of_excel_is_read_below_its_title(tmp_path):
    path = tmp_path / "a.xlsx"
    sheets = {"notes": pd.DataFrame([["by hand"]]), "texts": pd.DataFrame(SHEET, dtype=object)}
    with pd.ExcelWriter(path) as workbook:
        for name, sheet in sheets.items():
            sheet.to_excel(workbook, sheet_name=name, header=False, index=False)
    read, gaps, _ = read_own(path, Reading())
    assert (read, len(gaps)) == EXPECTED
    assert "row 4: column 'label' holds nothing: 'n/a'" in gaps[0]
    refused("no column 'body'; name one of .'by hand'", read_own, path, Reading("body"))


@pytest.mark.parametrize("suffix, package", [(".xlsx", "openpyxl"), (".parquet", "pyarrow")])
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, suffix, package):
    for name in (package, "fastparquet"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / f"a{suffix}").touch()
    refused(
        f"needs a package: pip install {package}; or save",
        read_own,
        tmp_path / f"a{suffix}",
        Reading(),
    )


def test_a_parquet_file_is_read(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install pyarrow")
    table = pd.DataFrame(SHEET[2:], columns=SHEET[1]).astype(str)
    table.to_parquet(tmp_path / "a.parquet")
    read, gaps, _ = read_own(tmp_path / "a.parquet", Reading())
    assert (read, len(gaps)) == EXPECTED


UNWANTED = {"Spam": 3, "ham2": 4, "None": 12, "cafe\u0301": 2, "rest": 1}
MIXED = ["spam"] * 30 + ["ham"] * 20 + ["caf\u00e9"] * 11


def test_all_classes_that_are_not_wanted_are_in_one_message(tmp_path):
    labels = MIXED + [label for label, count in UNWANTED.items() for _ in range(count)]
    rows = [(f"text number {i}", label) for i, label in enumerate([*labels, "NaN", "n/a", "null"])]
    path = written(tmp_path / "a.csv", rows)
    for look in (load, looked_at):
        with pytest.raises(InputError) as error:
            look(path)
        for said in (
            "4 of 8 classes are not usable: 'Spam' (3 different texts, like 'spam')",
            "'cafe\u0301' (2 different texts, like 'caf\u00e9')",
            "'ham2' (4 different texts, like 'ham')",
            "'rest' (1 different texts). Add texts, ",
            "give --merge-case to merge spellings and --drop-rare to leave out those of "
            "fewer than 10",
        ):
            assert said in str(error.value)
    corpus = load(f"{path}:merge_case=true,drop_rare=True")
    table, notes = survey(path, Reading(merge_case=True, drop_rare=True))
    assert corpus.classes == ("None", "café", "ham", "spam")
    assert Counter(table["label"]) == {"spam": 33, "ham": 20, "café": 13, "None": 12}
    merged = "5 rows spell their class in a rarer way and were merged: ['Spam', 'cafe\u0301']."
    none = "12 rows are of a class 'None'; empty the field if it means no class."
    assert {merged, none, "5 rows of 2 rare classes were left out."} < {*corpus.notes}
    gaps = "3 rows were left out, without a text or a label; "
    dropped = "5 texts are of 2 rare classes and were left out (--drop-rare)."
    assert {merged, none, dropped} < {*notes}
    assert any(
        note.startswith(gaps) and "column 'label' holds nothing: 'NaN'" in note for note in notes
    )


def test_the_command_reads_as_its_options_say(tmp_path, mistake):
    rows = [(f"café {i}", "Good" if i % 2 else "good") for i in range(60)] + [("là", "bad")]
    path = str(written(tmp_path / "a.csv", rows, encoding="cp1252"))
    assert "is not UTF-8 text" in mistake("diagnose", path)
    said = mistake("diagnose", path, "--encoding", "cp1252", "--merge-case", "--drop-rare")
    assert "a.csv: fewer than two classes have 10 different texts; add texts" in said


@pytest.mark.parametrize(
    "message, content",
    {
        "has no header; write the names": "",
        "no column 'text'; name one of .*'body', 's.*, as a.csv:text_column=": "body,stars\nx,1\n",
        "line 3: the line has 3 fields, but the header has 2; put": "text,label\nx,1\na, b,1\n",
        "line 3: a quote is not closed": 'text,label\nx,1\n"never ends,2\nx,1\n',
        "there is one class, '1'; give texts": "text,label\nx,1\ny,1\n",
        "'1' .1 different texts.; '2' .its texts have another label": "text,label\nx,1\nx,2\n",
        "2 of 2 classes are not usable: 'yyy.* .1 different": "text,label\n"
        + f"x,{'y' * 5_000}\n"
        + "z,1\n",
        "no column 'text'; did you mean 'Text'. Name one of .'Text', 'Label'": "Text,Label\nx,1\n",
        "30 different labels in 30 rows, as a text, an id": "text,label\n"
        + "".join(f"film,{i}\n" for i in range(30)),
        "no spaces between words; add them with a seg": "text,label\n这部电影很好看我喜欢它,1\n",
        "line 1 is binary, or UTF-16 without a mark; save": "text,label\nx,1\n".encode("utf-16-le"),
        "line 3 is not UTF-8 .*0xe9 after 'caf'.; .* cp1252": b"text,label\nfine,1\ncaf\xe9,1\n",
        "line 2: expected a JSON object": '{"text": "x", "label": 1}\n{"text": "x"\n',
        "'text' must hold a text, and 'label' a word .* not 'x' and ": '{"text": "x", "label": {}}',
        "2 of 2 classes .* '1' .1 different texts, like '1.0'.": (
            '{"text": "x", "label": 1}\n{"text": "y", "label": 1.0}'
        ),
        "no row has .*line 1: column 'label' holds nothing: nan": '{"text": "x", "label": NaN}',
    }.items(),
)
def test_a_file_that_cannot_be_used_is_told_in_a_line(tmp_path, content, message):
    data = content if isinstance(content, bytes) else content.encode()
    path = tmp_path / ("a.jsonl" if data[:1] in (b"{", b"[") else "a.csv")
    path.write_bytes(data)
    said = refused(message, looked_at, path, words=2)
    assert path.name in said
    assert len(said) < 600


@pytest.mark.parametrize(
    "message, options",
    {
        "no row has a text and a label; .*a.csv, line 2: column 'more' holds nothing: ''": {
            "label_column": "more"
        },
        "text and label are both in column 'text'; name two": {"label_column": "text"},
        "encoding 'latin-0' is unknown; name one of Python's, such as cp1252": {
            "encoding": "latin-0"
        },
        "option drop_rare of the file .* must be true or false, not 'maybe'": {
            "drop_rare": "maybe"
        },
        "option of the file .*a.csv .colour. is unknown; choose one of text_column": {
            "colour": "red"
        },
    }.items(),
)
def test_gaps_and_wrong_options_of_a_corpus_are_named(tmp_path, options, message):
    (tmp_path / "a.csv").write_text("text,label,more\ngood,1\n,0\n")
    refused(message, load, tmp_path / "a.csv", **options)


def test_what_is_left_out_is_counted(tmp_path):
    gaps = [("", "yes"), (" ", "no"), ("a text", "")]
    again = [ROWS[0], (ROWS[1][0], "no")]
    found, notes = looked_at(written(tmp_path / "a.csv", [*ROWS, *gaps, *again]), words=2)
    assert Counter(found["label"]) == {"yes": 40, "no": 20}
    for note in (
        "60 texts are longer than 2 words",
        "3 rows were left out, .*line 62",
        "2 rows repeat a text",
        "1 texts have several labels",
    ):
        assert re.search(note, " ".join(notes))


def test_a_limit_keeps_shares_and_does_not_depend_on_the_order(tmp_path):
    counts = {"1": 400, "2": 100, "3": 12}
    rows = [(f"{label} {i}", label) for label, count in counts.items() for i in range(count)]
    found, notes = looked_at(written(tmp_path / "a.csv", rows), limit=100)
    assert Counter(found["label"]) == {"1": 78, "2": 19, "3": 10}
    assert f"{512 - 107} more texts were left out to save time (--limit)." in notes
    again, _ = looked_at(written(tmp_path / "a.csv", rows[::-1]), limit=100)
    assert set(again["text"]) == set(found["text"])
