"""Explanations: what they say of a text, how they are shown, and every mistake in one line."""

import io
import json
import math
import subprocess
import sys

import pytest
import torch

from whenpool import InputError, TextClassifier, load_checkpoint, save_checkpoint
from whenpool.cli import main
from whenpool.explain import explanation as explaining
from whenpool.explain.explanation import as_html, as_json, as_text, explain
from whenpool.probes import window_importance

WORDS = ["<unk>", "<pad>", "a", "good", "bad", "film", "the"]


def made(folder, pooling="max_attention", classes=("neg", "pos"), **about):
    """A model that finds "good" in a text, by hand: the first unit of a state follows that word."""
    torch.manual_seed(0)
    model = TextClassifier(len(WORDS), len(classes), pooling, embedding_size=4, hidden_size=3)
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.embedding.weight[3, 0] = 9.0
    return save_checkpoint(folder / "model", model, WORDS, classes, **about)


@pytest.fixture
def checkpoint(tmp_path):
    return load_checkpoint(made(tmp_path))


def test_what_speaks_for_and_against_each_class_is_its_change_of_log_probability(tmp_path):
    checkpoint = load_checkpoint(made(tmp_path, classes=("neg", "so", "pos")))
    found = explain(checkpoint, "the good film")
    whole = checkpoint.probabilities(["the good film"])[0].log()
    without = checkpoint.probabilities(["the unheard film"])[0].log()
    effects = [found.effects[name][1] for name in checkpoint.classes]
    assert effects == pytest.approx((whole - without).tolist(), abs=1e-6)
    assert min(effects) < 0 < max(effects)
    assert found.strips[0].title.endswith(f" {found.predicted}")
    assert len(found.strips) == 4
    said = json.loads(as_json([found]))[0]["words"][1]
    assert list(said["effects"].values()) == effects
    assert said["importance"] == abs(said["effects"][found.label])


def test_importance_is_that_of_the_probe_and_peaks_at_the_word_that_counts(checkpoint):
    found = explain(checkpoint, "The film : a GOOD film", label="pos")
    assert found.words == ("the", "film", "a", "good", "film")  # the tokenizer drops colons
    ids, lengths = checkpoint.encode(["The film : a GOOD film"])
    delta = window_importance(checkpoint.model, ids, lengths, torch.tensor([1]), k=1)[0]
    assert found.importance == pytest.approx(delta.tolist())
    assert max(range(5), key=lambda place: found.importance[place]) == 3
    assert sum(found.probabilities) == pytest.approx(1)
    assert sum(found.attention) == pytest.approx(1)
    assert found.k == 1
    assert found.notes == ()


@pytest.mark.parametrize(
    ("words", "k", "used", "unweighted", "note"),
    [
        (1, None, 1, 0, ""),
        (4, 3, 3, 1, ""),
        (4, 9, 4, 0, "The text has 4 words, fewer than k=9: it is one window."),
        (23, None, 2, 1, ""),
        (60, None, 5, 0, ""),
    ],
)
def test_short_texts_get_short_windows(checkpoint, words, k, used, unweighted, note):
    found = explain(checkpoint, " ".join(["good"] * words), k=k)
    assert found.k == used
    assert sum(map(math.isnan, found.importance)) == unweighted
    assert found.notes == ((note,) if note else ())


def test_unknown_words_are_told_and_change_nothing(checkpoint):
    found = explain(checkpoint, "quite unknown , quite")
    assert found.unknown == ("quite", "unknown", ",")
    assert set(found.importance) == {0.0}
    assert "knows none of these words" in found.notes[0]
    assert "quite unknown" in as_text(found, colour=True).replace("(0.00)", "")
    assert explain(checkpoint, "quite good").unknown == ("quite",)


def test_long_texts_are_cut_as_in_training(tmp_path, checkpoint, monkeypatch):
    brief = load_checkpoint(made(tmp_path, max_words=3))
    found = explain(brief, "a good film the end")
    assert found.words == ("a", "good", "film")
    assert found.notes == ("The first 3 of 5 words are read, as in its training.",)
    (said,) = brief.probabilities(["a good film the end"]).tolist()  # of the same words
    assert found.probabilities == pytest.approx(said, abs=1e-6)
    assert found.predicted == brief.predict(["a good film the end"])[0]
    monkeypatch.setattr(explaining, "LONGEST", 4)
    assert explain(checkpoint, "a a a a a").notes == (
        "The first 4 of 5 words are read, to end in time; `predict` reads all.",
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the text has no words"),
        (" \n\t", {}, "the text has no words"),
        ("good", {"label": "fine"}, "no class 'fine'; it has 'neg', 'pos'"),
        ("good", {"k": 0}, "k, the words of a window, must be at least 1"),
    ],
)
def test_what_cannot_be_explained_is_told(checkpoint, text, options, message):
    with pytest.raises(InputError, match=message):
        explain(checkpoint, text, **options)


def test_a_pooling_without_weights_says_so(tmp_path):
    found = explain(load_checkpoint(made(tmp_path, "max")), "a good film")
    assert found.attention is None
    assert "gives words no weights" in as_text(found, colour=False)
    assert {word["attention"] for word in json.loads(as_json([found]))[0]["words"]} == {None}


def test_text_is_coloured_or_has_its_weights_in_brackets(checkpoint):
    found = explain(checkpoint, "the good film")
    assert "good(-1.00)" in as_text(found, colour=False)
    assert "\x1b" not in as_text(found, colour=False)
    assert "\x1b[38;5;16m\x1b[48;5;75mgood\x1b[0m" in as_text(found, colour=True)
    assert "px dashed" in as_html([found])
    other = explain(checkpoint, "the good film", "neg")
    assert "good(+1.00)" in as_text(other, colour=False)
    assert "\x1b[38;5;16m\x1b[48;5;202mgood\x1b[0m" in as_text(other, colour=True)


def test_nothing_of_a_text_is_obeyed_by_a_terminal_or_run_by_a_page(tmp_path):
    hostile = "<script>alert(1)</script>"
    checkpoint = load_checkpoint(made(tmp_path, classes=(hostile, "a&b")))
    found = explain(checkpoint, f'{hostile} \x1b[31mred\x07 <img src=x onerror="y"> good', label=hostile)
    page = as_html([found])
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in as_text(found, colour=False)
    assert "\x07" not in as_text(found, colour=True)


def whenpool(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "whenpool", *words], capture_output=True, check=False, **options
    )


def test_the_command_explains_texts_of_every_origin(tmp_path):
    model = str(made(tmp_path))
    shown = whenpool("explain", "--model", model, "--text", "A good film")
    assert shown.returncode == 0, shown.stderr
    assert b"good(-1.00)" in shown.stdout  # a pipe takes no colour
    piped = whenpool("explain", "--model", model, "--text", "-", input=b"A good film\n")
    assert piped.stdout == shown.stdout
    file = tmp_path / "texts.txt"
    file.write_text("\ufeffA good film\n\nthe bad film\n", encoding="utf-8")
    out = tmp_path / "found.json"
    words = ["--file", str(file), "--format", "json", "--output", str(out), "--label", "pos", "--k", "2"]
    assert whenpool("explain", "--model", model, *words).returncode == 0
    rows = json.loads(out.read_text("utf-8"))
    assert [[word["word"] for word in row["words"]] for row in rows] == [
        ["a", "good", "film"],
        ["the", "bad", "film"],
    ]
    assert {(row["label"], row["k"]) for row in rows} == {("pos", 2)}
    assert rows[0]["words"][2]["importance"] is None


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        ([], b"", 'give either --text "..." or --file FILE'),
        (["--text", "a", "--file", "x"], b"", "give either"),
        (["--text", ""], b"", "--text: the text has no words"),
        (["--text", "-"], b"caf\xe9", "standard input is not UTF-8 text (byte 3)"),
        (["--text", "a", "--label", "x"], b"", "--label: the model has no class 'x'; it has 'neg',"),
        (["--text", "a", "--k", "0"], b"", "0 is not in the range"),
        (["--file", "nowhere.txt"], b"", "nowhere.txt cannot be read: No such file"),
        (["--file", "latin.txt"], b"", "latin.txt, line 1: not UTF-8 text (byte 0xe9"),
        (["--file", "empty.txt"], b"", "empty.txt has no text"),
        (["--file", "quote.txt"], b"", 'quote.txt, text 2: the text has no words'),
        (["--text", "a", "--model", "."], b"", ". is not a checkpoint: model.json is not there"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, words, given, message):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_bytes(b"\n \n")
    (tmp_path / "quote.txt").write_bytes(b'good\n"\n')  # which the tokenizer drops
    model = [] if "--model" in words else ["--model", str(made(tmp_path))]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["whenpool", "explain", *model, *words])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("whenpool: ")
    assert (end.value.code, said.count("\n")) == (2, 1)
