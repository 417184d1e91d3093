"""The paper in one file, book/minimal.py, does what the library does, and runs by itself."""

import ast
import random
import subprocess
import sys

import minimal
import pytest
from clones import CAPTURED, ROOT
from small_models import BATCH, CLASSES, LABELS, WORDS, close, texts_of

from whenpool import TextClassifier
from whenpool.corpora.batches import Ragged, Splits, Texts
from whenpool.models.registry import THESIS_POOLINGS
from whenpool.probes import gradient_norms
from whenpool.settings import SETTINGS, compose
from whenpool.training.loop import Recipe, train

FILE = ROOT / "book" / "minimal.py"
TINY = ["--size", "20", "--units", "4", "--epochs", "1"]


def twins(pooling):
    """The file's model and the library's, in float64, with the same weights."""
    ours = minimal.Model(WORDS, CLASSES, pooling, units=4, size=6).double()
    theirs = TextClassifier(WORDS, CLASSES, pooling, embedding_size=6, hidden_size=4).double()
    theirs.load_state_dict({name: ours.state_dict()[own] for name, own in named(theirs).items()})
    return ours, theirs


def named(theirs):
    """The names of the library's weights, and what the file calls them."""
    names = theirs.state_dict()
    return {
        n: n.replace("encoder.layers.0", "lstms").replace("pooling.query", "query") for n in names
    }


@pytest.mark.parametrize("pooling", THESIS_POOLINGS)
def test_gradient_norms_are_those_of_the_probe(pooling):
    ours, theirs = twins(pooling)
    found, expected = minimal.gradient_norms(ours, *BATCH), gradient_norms(theirs, *BATCH)
    close(found, expected.nan_to_num(), atol=1e-14, rtol=1e-9)
    assert not [p for p in ours.parameters() if p.grad is not None]


@pytest.mark.parametrize("pooling", THESIS_POOLINGS)
def test_an_epoch_of_one_step_is_that_of_the_library(pooling, capsys):
    ours, theirs = twins(pooling)
    rows = [text.tolist() for text in texts_of(BATCH)]
    texts = Texts(Ragged.of(rows), LABELS)
    train(theirs, Splits(texts, texts, texts), Recipe(epochs=1), seed=0)
    pairs = [*zip(rows, LABELS.tolist(), strict=True)]
    minimal.train(ours, pairs, pairs, epochs=1, rate=2e-3, rng=random.Random(0))
    for name, own in named(theirs).items():
        close(ours.state_dict()[own], theirs.state_dict()[name], atol=1e-10)
    assert capsys.readouterr().out.startswith("epoch  1: training loss ")


@pytest.mark.parametrize("setting", SETTINGS)
def test_composed_texts_are_those_of_the_library(setting):
    rng = random.Random(0)
    for words in range(1, 60, 7):
        text, sentences = ["word"] * words, [[f"{n}"] * rng.randint(1, 9) for n in range(200)]
        assert minimal.compose(text, iter(sentences), setting) == compose(text, sentences, setting)


def test_it_needs_torch_numpy_and_python_alone():
    nodes = list(ast.walk(ast.parse(FILE.read_text("utf-8"))))
    names = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {name.partition(".")[0] for name in names}
    assert packages <= {"torch", "numpy", *sys.stdlib_module_names}


def test_the_command_runs_from_anywhere(tmp_path):
    command = [sys.executable, FILE, "--pooling", "last", "--setting", "right", *TINY]
    done = subprocess.run(command, cwd=tmp_path, **CAPTURED)
    assert (done.returncode, done.stderr) == (0, "")
    first, test, before, after = done.stdout.splitlines()
    assert first.startswith("epoch  1: ")
    assert test.startswith("last in right: test ")
    for line in (before, after):
        assert "first 1.0e+00  middle " in line


def test_it_reads_a_table_of_texts_and_labels(tmp_path, capsys):
    rows = [f'{n},"A {("fine", "dull", "long")[n % 3]} film, no {n}",{n % 3}\n' for n in range(30)]
    (tmp_path / "own.csv").write_text("".join(["number,text,label\n", *rows, "31,,1\n"]))
    tested = minimal.main(["--texts", str(tmp_path / "own.csv"), "--setting", "mid", *TINY])
    assert 0 <= tested <= 100
    training, validation, test = minimal.read(tmp_path / "own.csv", 20, random.Random(0))
    assert [len(training), len(validation), len(test)] == [18, 6, 6]
    assert {label for _, label in training + validation + test} == {0, 1, 2}
    assert capsys.readouterr().out.count("epoch") == 1


@pytest.mark.parametrize(
    "text, said",
    [
        (None, r"own.csv cannot be read: .*No such file or directory.*"),
        (b"text,stars\nfine,5\n", r"own.csv has no column 'label'"),
        (b"text,label\nfine,1\n\ndull\n", r"own.csv is too small: 1 texts of 1 classes"),
    ],
)
def test_a_bad_table_is_one_line(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "own.csv").write_bytes(text)
    with pytest.raises(SystemExit, match=f"^minimal.py: {said}$"):
        minimal.main(["--texts", "own.csv"])
