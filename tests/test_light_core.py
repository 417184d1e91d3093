"""``pip install whenpool`` brings torch, numpy and safetensors: enough for models, probes and checkpoints."""

import subprocess
import sys
import tomllib

import pytest
from clones import ROOT
from packaging.requirements import Requirement

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    Requirement(line).name.replace("-", "_")
    for lines in PROJECT["optional-dependencies"].values()
    for line in lines
} - {"whenpool", "torch", "filelock", "jinja2"}  # torch brings the last two
WITHOUT = f"""
import builtins

plainly = builtins.__import__

def without(name, globals=None, locals=None, fromlist=(), level=0):
    if level == 0 and name.split(".")[0] in {EXTRAS | {"yaml", "ray", "sklearn"}!r}:
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])
    return plainly(name, globals, locals, fromlist, level)

builtins.__import__ = without
"""
WORKS = """
import tempfile, torch, whenpool
from whenpool import probes

ids, lengths, labels = torch.randint(2, 50, (2, 40)), torch.tensor([40, 25]), torch.tensor([0, 1])
for name in whenpool.POOLINGS:
    model = whenpool.TextClassifier(50, 2, name, embedding_size=8, hidden_size=4)
    assert probes.gradient_norms(model, ids, lengths, labels).shape == (2, 40)
    assert probes.nwi(model, ids, lengths, labels, k=5, unknown_index=0).shape == (2, 100)
probes.padding_sweep(model, ids.tolist(), [0, 1], [[3, 4, 5]], shares=[0.5])
tagger = whenpool.SequenceTagger(50, 3, embedding_size=8, hidden_size=4)
assert tagger(ids, lengths).shape == (2, 40, 3)
words = ["<unk>", "<pad>", *(f"word{i}" for i in range(48))]
with tempfile.TemporaryDirectory() as folder:
    whenpool.save_checkpoint(folder, model, words, ["bad", "good"])
    assert list(whenpool.load_checkpoint(folder).vocabulary) == words
import whenpool.training.loop, whenpool.training.batched, whenpool.learnability, whenpool.corpora.dataset
"""


def python(code):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False, cwd=ROOT
    )


def test_the_core_is_torch_numpy_and_safetensors():
    assert {Requirement(line).name for line in PROJECT["dependencies"]} == {
        "torch",
        "numpy",
        "safetensors",
    }


def test_models_probes_checkpoints_and_training_need_no_more():
    done = python(WORKS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from whenpool.corpora.tokens import tokenize; tokenize('a')", "pip install 'whenpool[runs]'"),
        ("import whenpool; whenpool.PoolingClassifier", "pip install 'whenpool[sklearn]'"),
        ("import whenpool; whenpool.SentencePooling", "pip install 'whenpool[sentence_transformers]'"),
        ("import whenpool.chapter", "pip install 'whenpool[notebook]'"),
        ("import whenpool.cli", "whenpool: the command needs click: pip install 'whenpool[runs]'"),
    ],
)
def test_what_is_missing_is_one_line_that_names_the_extra(code, message):
    done = python(code)
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]
