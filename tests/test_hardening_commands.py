"""Bad input at the command line: one line on the error stream, exit code 2, never a traceback."""

import os
import re
import sys

import pytest

from whenpool import TextClassifier, cli, save_checkpoint

BAD_FILES = {
    "empty.csv": b"",
    "nul.csv": b"text,label\n\x00,1\n",
    "binary.csv": os.urandom(2_000),
    "one.csv": b"text,label\na,1\n",
    "quote.csv": b'text,label\n"never ends,1\n',
    "utf16.csv": "text,label\na,1\n".encode("utf-16"),
    "deep.jsonl": b"[" * 100_000,
    "nan.jsonl": b'{"text": NaN, "label": NaN}\n',
    "lines.jsonl": b'{"text": "a", "label": "b"}\r\r\n[1]\n',
    "long.csv": b"text,label\n" + b"x" * 20_000_000 + b",1\n",
    "a\nb.csv": b"x",
}
BAD_FACTS = {"none": None, "deep": b"[" * 100_000, "nan": b'{"format": NaN}', "bytes": b"\xff"}
LONG = "x" * 5_000
DIGITS = "9" * 5_000
NAMES = [
    *BAD_FILES, "nowhere.csv", f"{LONG}.csv", "~nobody/x.csv", "\x1b[31m.csv", "nothing", "imdb:a=b",
    "synthetic:", "synthetic:x", "synthetic:classes=3", "synthetic:density=nan", "synthetic:train=-1",
    "synthetic:train=1e9999", f"synthetic:seed={DIGITS}", "{0.__class__}", "%s",
    "one.csv:text_column=label",
]  # fmt: skip
ONLY = [
    "", "x", "=", "size=", "size=x", "size=1,size=2", "size=٣", "size=-1", f"size={DIGITS}", "table=9.9",
    "table=1.3", "a=b", "pooling=<b>", "corpus=\x1b[31m", "," * 1_000, "seed=1++2",
]  # fmt: skip
GOOD = ["explain", "--model", "good"]
COMMANDS = [
    *(["diagnose", name] for name in [*BAD_FILES, "nowhere.csv", "folder.csv", f"{LONG}.csv", "\x1b.csv"]),
    *(["run", "--profile", "smoke", "--corpus", name.replace("\n", "-")] for name in NAMES),
    *(["run", "--only", text] for text in ONLY),
    *(["explain", "--model", name, "--text", "a"] for name in (*BAD_FACTS, "nowhere", "one.csv", LONG)),
    *([*GOOD, "--text", text] for text in ("", " \n ")),
    *([*GOOD, "--file", name] for name in ("binary.csv", "empty.csv")),
    GOOD, [*GOOD, "--text", "a", "--label", "\x1b[31m"], [*GOOD, "--text", "a", "--k", DIGITS],
    ["claims", "--chapter", "x\ny"], ["claims", "--verdict", "<b>"], ["claims", "--format", "xml"],
    ["run", "--data", "one.csv"], ["run", "--sizes", DIGITS], ["run", "--profile", "<b>"],
    ["run", "--deadline", "NaT"], ["run", "--deadline", "1" + "0" * 400 + "h"],
    ["run", "--poolings", "a\nb"], ["run", "--paraphrases", LONG], ["run", "--device", "\x1b"],
    ["run", "--encoder", LONG, "--chapter", "few_shot"], ["run", "--chapter", "../x"],
    ["run", "--encoder", "~nobody/x", "--chapter", "few_shot"],
    ["data", "--data", "one.csv"], ["data", "fetch", "../x"],
    ["compare", "nowhere", LONG], ["check", "--profile", "\x1b"],
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that are not what their names say."""
    folder = tmp_path_factory.mktemp("here")
    for name, content in BAD_FILES.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    model = TextClassifier(3, classes=2, embedding_size=4, hidden_size=4)
    for name, content in {"good": None, **BAD_FACTS}.items():
        facts = (
            save_checkpoint(folder / name, model, ("<unk>", "<pad>", "a"), ("no", "yes")) / "model.json"
        )
        if name != "good":
            facts.unlink()
            if content:
                facts.write_bytes(content)
    return folder


def shown(words):
    return " ".join(words)[:60].encode("unicode_escape").decode()


@pytest.mark.parametrize("words", COMMANDS, ids=shown)
def test_a_mistake_is_one_line_and_exit_code_2(folder, monkeypatch, capsys, words):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["whenpool", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert end.value.code == 2, err + out
    assert err.startswith("whenpool: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert len(err) < 2_100
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", err)
