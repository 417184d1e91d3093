"""Explanations: what they say of a text, weights shown on its words, and every mistake in one line."""

import io
import json
import math
import re
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from outline import outline

from whenpool import InputError, TextClassifier, load_checkpoint, save_checkpoint
from whenpool.cli import cli, main
from whenpool.explain import explanation as explaining
from whenpool.explain.explanation import as_html, as_json, as_text, explain
from whenpool.explain.words import AGAINST, COLOUR, attention_weights, per_word, strip, strips
from whenpool.probes import window_importance

mpl.use("agg")
WORDS = ["<unk>", "<pad>", "a", "good", "bad", "film", "the"]
SHOWN = ["a", "fine", "film"]


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
    effects = {name: found.effects[name][1] for name in checkpoint.classes}
    assert [*effects.values()] == pytest.approx((whole - without).tolist(), abs=1e-6)
    assert min(effects.values()) < 0 < max(effects.values())
    assert len(found.strips) == 4  # with attention
    said = json.loads(as_json([found]))[0]["words"][1]
    assert (said["effects"], said["importance"]) == (effects, abs(effects[found.label]))


def test_importance_is_that_of_the_probe_and_peaks_at_the_word_that_counts(checkpoint):
    found = explain(checkpoint, "The film : a GOOD film", label="pos")
    assert found.words == ("the", "film", "a", "good", "film")  # the tokenizer drops colons
    given = checkpoint.encode(["The film : a GOOD film"])
    delta = window_importance(checkpoint.model, *given, torch.tensor([1]), k=1)[0]
    assert found.importance == pytest.approx(delta.tolist())
    assert np.argmax(found.importance) == 3
    assert [sum(found.probabilities), sum(found.attention)] == pytest.approx([1, 1])
    assert (found.k, found.notes) == (1, ())


@pytest.mark.parametrize(("words", "k", "used", "unweighted"), [
    (1, None, 1, 0), (4, 3, 3, 1), (4, 9, 4, 0), (23, None, 2, 1), (60, None, 5, 0),
])  # fmt: skip
def test_short_texts_get_short_windows(checkpoint, words, k, used, unweighted):
    found = explain(checkpoint, " ".join(["good"] * words), k=k)
    assert (found.k, bool(found.notes)) == (used, k == 9)  # one window of fewer words
    assert sum(map(math.isnan, found.importance)) == unweighted


def test_unknown_words_are_told_and_change_nothing(checkpoint):
    found = explain(checkpoint, "quite unknown , quite")
    assert found.unknown == ("quite", "unknown", ",")
    assert set(found.importance) == {0.0}
    assert "knows none of these words" in found.notes[0]
    assert "quite unknown" in as_text([found], colour=True).replace("(0.00)", "")
    assert explain(checkpoint, "quite good").unknown == ("quite",)


def test_long_texts_are_cut_as_in_training(tmp_path, checkpoint, monkeypatch):
    brief = load_checkpoint(made(tmp_path, max_words=3))
    found = explain(brief, "a good film the end")
    assert found.words == ("a", "good", "film")
    assert found.notes == ("Only the first 3 of 5 words are read, as in training.",)
    (said,) = brief.probabilities(["a good film the end"]).tolist()  # of the same words
    assert found.probabilities == pytest.approx(said, abs=1e-6)
    monkeypatch.setattr(explaining, "LONGEST", 4)
    (note,) = explain(checkpoint, "a a a a a").notes
    assert note == "Only the first 4 of 5 words are read, to save time; `predict` reads all."


def test_a_pooling_without_weights_says_so(tmp_path):
    found = explain(load_checkpoint(made(tmp_path, "max")), "a good film")
    assert "has no weights for words" in as_text([found])
    assert {word["attention"] for word in json.loads(as_json([found]))[0]["words"]} == {None}


def test_nothing_of_a_text_is_obeyed_by_a_terminal_or_run_by_a_page(tmp_path):
    hostile = "<script>alert(1)</script>"
    checkpoint = load_checkpoint(made(tmp_path, classes=(hostile, "a&b")))
    found = explain(checkpoint, f'{hostile} \x1b[31mred\x07 <img src=x onerror="y"> good', label=hostile)
    page = as_html([found])
    assert not re.search("<script|<img", page)
    assert "&lt;script&gt;" in page
    plain, coloured = (as_text([found], colour) for colour in (False, True))
    assert "good(+1.00)" in plain
    assert f" (1.00 is {max(map(abs, found.importance)):.2g} nats):" in plain
    assert "\x1b" not in plain
    assert "\x1b[38;5;16m\x1b[48;5;" in coloured
    assert "\x07" not in coloured


def test_the_command_explains_texts_of_every_origin(tmp_path):
    model = str(made(tmp_path))

    def shown(*words, **options):
        done = CliRunner().invoke(cli, ["explain", "--model", model, *words], **options)
        assert done.exit_code == 0, done.output
        return done.stdout

    plain = shown("--text", "A good film")
    assert "good(-1.00)" in plain  # a pipe takes no colour
    assert shown("--text", "-", input="A good film\n") == plain
    file, out = tmp_path / "texts.txt", tmp_path / "found.json"
    file.write_text("\ufeffA good film\n\nthe bad film\n", encoding="utf-8")
    shown(*f"--file {file} --format json --output {out} --label pos --k 2".split())
    rows = json.loads(out.read_text("utf-8"))
    found = [(" ".join(word["word"] for word in row["words"]), row["label"], row["k"]) for row in rows]
    assert found == [("a good film", "pos", 2), ("the bad film", "pos", 2)]
    assert rows[0]["words"][2]["importance"] is None
    shown("--text", "A good film", "--output", str(out))  # its name says which format
    assert json.loads(out.read_text("utf-8"))[0]["label"] == "pos"


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "koi8-r", "utf-8"])
def test_commands_print_whatever_the_encoding_of_the_output(tmp_path, monkeypatch, encoding):
    def printed(*words):
        out = io.TextIOWrapper(io.BytesIO(), encoding)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "argv", ["whenpool", *words])
        main()
        out.flush()
        return out.buffer.getvalue().decode(encoding)

    monkeypatch.setattr("whenpool.book.ledger.written", lambda *_: "3.6·10⁻⁶ −0.5 ✗")
    expected = "3.6·10⁻⁶ −0.5 ✗".encode(encoding, "backslashreplace").decode(encoding)
    assert printed("claims") == f"{expected}\n"
    words = ("explain", "--model", str(made(tmp_path)), "--text", "a good 映画 \U0001f600")
    assert re.search("%  (█|\\\\u2588)+\n", shown := printed(*words))
    assert ("映画" in shown) == (encoding == "utf-8")
    (row,) = json.loads(printed(*words, "--format", "json"))
    assert [word["word"] for word in row["words"]] == ["a", "good", "映画", "\U0001f600"]


@pytest.mark.parametrize(("words", "message"), [
    ([], 'give either --text "..." or --file FILE'),
    (["--text", ""], "--text: the text has no words"),
    (["--text", "-"], "standard input is not UTF-8 text (byte 3)"),
    (["--text", "a", "--label", "x"], "--label 'x' is unknown; choose one of neg, pos"),
    (["--text", "a", "--k", "0"], "0 is not in the range"),
    (["--file", "nowhere.txt"], "nowhere.txt cannot be read: No such file"),
    (["--file", "latin.txt"], "latin.txt, line 1 is not UTF-8 text (byte 0xe9"),
    (["--file", "empty.txt"], "empty.txt has no text"),
    (["--file", "quote.txt"], "quote.txt, text 2: the text has no words"),
    (["--text", "a", "--model", "."], ". is not the folder of a saved model: it has no model.json"),
])  # fmt: skip
def test_mistakes_are_one_line(tmp_path, monkeypatch, mistake, words, message):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_bytes(b"\n \n")
    (tmp_path / "quote.txt").write_bytes(b'good\n"\n')  # which the tokenizer drops
    model = [] if "--model" in words else ["--model", str(made(tmp_path))]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    assert message in mistake("explain", *model, *words)


def styles(shown):
    words = [attrs.get("style", "") for _, attrs in outline(shown.html)[0] if "title" in attrs]
    return [style for style in words if "background" in style]


def test_what_the_user_wrote_is_escaped():
    words = ["<script>alert(1)</script>", "&", '"', "</span>", "fine"]
    title = '"><b onclick="x()">&'
    tags, text = outline(strip(words, range(5), title=title).html)
    assert {tag for tag, _ in tags} == {"div", "span", "b", "small"}
    assert not any("onclick" in attrs for _, attrs in tags)
    assert " ".join(words) in text
    assert title in text


def test_what_is_below_zero_has_a_colour_and_a_line_of_its_own():
    shown = strip(SHOWN, [1, -2, 0])
    first, second = styles(shown)
    assert f"4px dashed {AGAINST}" in second
    assert f"2px solid {COLOUR}" in first
    assert "−2 to 2" in strip(SHOWN, [1, -2, 0], "for").html
    assert repr(shown) == "a(1) fine(-2) film(0)"
    both = strips([shown, shown])
    assert (both._repr_html_(), repr(both)) == (both.html, f"{shown!r}\n{shown!r}")


@pytest.mark.parametrize("weights", [[0, 0, 0], [math.nan] * 3, torch.zeros(3), np.zeros((1, 3))])
def test_no_weight_is_no_colour(weights):
    assert styles(strip(SHOWN, weights)) == []


def test_windows_are_spread_over_their_words():
    np.testing.assert_equal(per_word([1, 2], 7, 3), [1, 1, 1, 2, 2, 2, math.nan])
    np.testing.assert_equal(per_word(torch.tensor([1.0, 2.0, math.nan]), 4, 2), [1, 1, 2, 2])
    np.testing.assert_equal(per_word([], 2, 3), [math.nan] * 2)


@pytest.mark.parametrize(("call", "given", "message"), [
    (strip, ([], []), "there are no words to show"),
    (strip, ("a fine film", [1, 2, 3]), "words must be a list, not one string"),
    (strip, (SHOWN, [1, 2]), "there are 3 words and 2 weights"),
    (strip, (SHOWN, [1, 0.5, math.inf]), "word 2, 'film', has the weight inf"),
    (strip, (SHOWN, [1, 2, 3], "", 0), "must be above 0, not 0"),
    (per_word, ([1], 4, 2), "4 words need 2 weights for windows of 2, not 1"),
    (per_word, ([1], 4, 0), "must be at least 1, not 0"),
    (explaining.in_file, (Path("a.csv"),), "a.csv is a table; give a file with a text on each line"),
    (explain, (None, ["good"]), "text 0 must be a string, not list"),
    (explain, (None, "good", None, 0), "k, the words of a window, must be at least 1"),
    (attention_weights, (TextClassifier(9, 2, "max"), torch.ones(1, 2).long(), torch.tensor([2])),
     "MaxPool has no weights for words"),
])  # fmt: skip
def test_what_cannot_be_weighted_or_shown_is_told(call, given, message):
    with pytest.raises(InputError, match=message):
        call(*given)


@pytest.mark.parametrize("pooling", ["mean", "attention", "max_attention", "last_attention"])
def test_the_attention_of_each_text(pooling):
    ids, lengths = torch.tensor([[2, 3, 4, 5], [6, 7, 1, 1]]), torch.tensor([4, 2])
    model = TextClassifier(9, 2, pooling, embedding_size=5, hidden_size=4).train()
    weights = attention_weights(model, ids, lengths)
    assert model.training
    assert [len(row) for row in weights] == [4, 2]
    assert [row.sum().item() for row in weights] == pytest.approx([1, 1])
    assert not any(row.requires_grad for row in weights)
    torch.testing.assert_close(attention_weights(model, ids[1:, :2], lengths[1:]), weights[1:])
