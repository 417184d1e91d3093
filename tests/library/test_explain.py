"""Explanations: what they say of a text, weights shown on its words, and every mistake in one
line."""

import csv
import math
import re
import shlex
from functools import partial

import numpy as np
import pytest
import torch
from called import refused, told
from small_models import BATCH, classifier, close

from whenpool import TextClassifier, load_checkpoint, save_checkpoint
from whenpool.corpora.sources import read_texts
from whenpool.explain.explanation import explain
from whenpool.words import attention_weights, per_word, strip

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
    assert len(found.strips) == 4  # with attention
    assert found.label == checkpoint.predict(["the good film"])[0]


def test_importance_peaks_at_the_word_that_counts(checkpoint):
    found = explain(checkpoint, "The film : a GOOD film", label="pos")
    assert found.words == ("the", "film", "a", "good", "film")  # the tokenizer drops colons
    assert np.argmax(found.importance) == 3
    assert [sum(found.probabilities), sum(found.attention)] == pytest.approx([1, 1])


@pytest.mark.parametrize("words", [1, 60])
def test_words_that_the_model_has_never_seen_do_not_matter(checkpoint, words):
    unknown = explain(checkpoint, " ".join(["unheard"] * words))
    assert (unknown.unknown, unknown.importance) == (("unheard",), (0.0,) * words)


def test_a_long_text_is_cut_as_in_training_and_its_first_thousand_words_are_explained(tmp_path):
    brief = load_checkpoint(made(tmp_path, max_words=3))
    averaging = load_checkpoint(made(tmp_path, "mean"))
    good = ("the",) * 1_000
    for model, text, words, left_out in (
        (brief, "a good film the end", ("a", "good", "film"), 2),
        (averaging, " ".join([*good, "good " * 2_000]), good, 2_000),
    ):
        found, (whole,) = explain(model, text), model.probabilities([text]).tolist()
        assert (found.words, found.left_out) == (words, left_out)
        assert found.probabilities == pytest.approx(whole, abs=1e-6)  # of all that is read


def test_nothing_of_a_text_is_obeyed_by_a_terminal_or_run_by_a_page(tmp_path):
    hostile = "<script>alert(1)</script>"
    checkpoint = load_checkpoint(made(tmp_path, classes=(hostile, "a&b")))
    found = explain(
        checkpoint, f'{hostile} \x1b[31mred\x07 <img src=x onerror="y"> good', label=hostile
    )
    assert not re.search("<script|<img", found._repr_html_())
    assert "&lt;script&gt;" in found._repr_html_()
    assert not {"\x1b", "\x07"} & set(found.text)


def test_the_command_explains_a_text_of_any_origin(tmp_path):
    shown = partial(told, "explain", "--model", str(made(tmp_path)))
    plain, other = (shown("--text", text) for text in ("A good film", "the bad"))
    assert "good(" in plain
    assert shown("--text", "-", input="A good film\n") == plain
    assert "for or against pos" in shown("--text", "A good film", "--label", "pos")
    assert shown("--text", "A good film", "--text", "the bad") == f"{plain}\n{other}"


def test_all_texts_of_a_file_are_explained_as_each_alone(tmp_path):
    (tmp_path / "a.csv").write_text('id,body\n1,"A good film, the end"\n2,\n3,the bad\n')
    model, out = made(tmp_path), tmp_path / "out.csv"
    words = f"--model {model} --file {tmp_path / 'a.csv'} --out {out} --text-column body"
    assert f"2 texts are explained in {out}" in told("explain", *words.split())
    first, empty, last = csv.DictReader(out.open(newline=""))
    assert {**empty} == {"text": "", "answer": "", "probability": "", "words": ""}
    for row, text in ((first, "A good film, the end"), (last, "the bad")):
        found = explain(load_checkpoint(model), text)
        assert (row["text"], row["answer"]) == (text, found.label)
        assert float(row["probability"]) == pytest.approx(max(found.probabilities), abs=5e-4)
        assert row["words"] == repr(strip(found.words, found.effects[found.label]))


@pytest.mark.parametrize("label", ["neg", "pos"])
def test_a_file_is_explained_for_the_class_that_is_asked_for(tmp_path, label):
    (tmp_path / "a.csv").write_text("text\na good film\nthe bad\n")
    model, out = made(tmp_path), tmp_path / "out.csv"
    asked = f"--model {model} --file {tmp_path / 'a.csv'} --out {out} --label {label}"
    told("explain", *asked.split())
    for row in csv.DictReader(out.open(newline="")):
        found = explain(load_checkpoint(model), row["text"])
        assert row["answer"] == found.label
        assert row["words"] == repr(strip(found.words, found.effects[label]))


def test_a_file_of_texts_alone_is_read_as_other_programs_write_it(tmp_path):
    for name, content, texts in (
        (
            "a.csv",
            'id,text\n1,"Dear Sir\nI am, yours"\n2,fine\n',
            ["Dear Sir\nI am, yours", "fine"],
        ),
        ("a.tsv", 'id\ttext\n1\t"Great\n2\tof 3"\n', ['"Great', 'of 3"']),
        ("a.jsonl", '{"text": "half \\ud800"}', ["half \ufffd"]),
        (
            "a.json",
            '[{"text": "a"}, {"text": NaN}, {"text": null}, {"text": 5}]',
            ["a", "", "", "5"],
        ),
    ):
        (tmp_path / name).write_text(content)
        assert read_texts(tmp_path / name) == texts


@pytest.mark.parametrize(
    "message, line",
    {
        "give what to explain: --text, or --file and --out": "",
        "give what to explain: --text, or --file and --out, the .csv": f"--file {__file__}",
        "is not a .csv, .tsv, .jsonl": f"--file {__file__} --out a.csv",
        "no column 'text'; name one of ['body'] with --text-column": "--file a.csv --out b.csv",
        "a.csv is the file of the texts; write to another --out": "--file a.csv --out a.csv",
        "b.txt must end with .csv": "--file a.csv --out b.txt",
        "no.csv has no rows; give at least one text": "--file no.csv --out b.csv",
        "the text has no words": "--text ''",
        "class 'x' is unknown; choose one of neg, pos": "--text a --label x",
        ". is not the folder of a saved model: it has no model.json": "--text a --model .",
    }.items(),
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, mistake, message, line):
    model = "" if "--model" in line else f"--model {made(tmp_path)} "
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("body\na film\n")
    (tmp_path / "no.csv").write_text("text\n")
    assert message in mistake("explain", *shlex.split(model + line))


def test_a_word_is_as_deep_as_its_weight_and_blue_and_dashed_where_it_speaks_against():
    page = strip(["for", "against", "none", "half"], [2, -2, math.nan, 1])._repr_html_()
    looks = re.findall(r"background:(#\w+);border-bottom:(\d)px (\w+) .*?>(\w+)<", page)
    assert looks == [
        ("#d55e0080", "4", "solid", "for"),
        ("#0072b280", "4", "dashed", "against"),
        ("#d55e0040", "2", "solid", "half"),
    ]
    assert '<span title="no weight">none</span>' in page


def test_windows_are_spread_over_their_words():
    np.testing.assert_equal(per_word([1, 2], 7, 3), [1, 1, 1, 2, 2, 2, math.nan])
    np.testing.assert_equal(per_word(torch.tensor([1.0, 2.0, math.nan]), 4, 2), [1, 1, 2, 2])
    np.testing.assert_equal(per_word([], 2, 3), [math.nan] * 2)


@pytest.mark.parametrize(
    "call, given, message",
    [
        (strip, ([], []), "there are 0 words"),
        (strip, ("a fine film", [1, 2, 3]), "words must be a list, not one string"),
        (strip, (["a", "fine", "film"], [1, 2]), "there are 3 words and 2 weights"),
        (per_word, ([1], 4, 2), "4 words need 2 weights for windows of 2, not 1"),
        (
            attention_weights,
            (TextClassifier(9, 2, "max"), torch.ones(1, 2).long(), torch.tensor([2])),
            "MaxPool has no weights for words",
        ),
    ],
)
def test_what_cannot_be_weighted_or_shown_is_told(call, given, message):
    refused(message, call, *given)


@pytest.mark.parametrize("pooling", ["mean", "attention", "max_attention", "last_attention"])
def test_the_attention_of_each_text(pooling):
    model, (ids, lengths, _) = classifier(pooling), BATCH
    weights = attention_weights(model, ids, lengths)
    assert model.training
    assert [len(row) for row in weights] == lengths.tolist()
    assert [row.sum().item() for row in weights] == pytest.approx([1] * 4)
    close(attention_weights(model, ids[1:2, :4], lengths[1:2]), weights[1:2])

    model.pool = model.pooling  # as in the README
    close(attention_weights(model, ids, lengths), weights)
