"""The example of each public name; what must not be needed, and what must not be loaded."""

import tomllib
from importlib import resources
from pathlib import Path

import pytest
from called import python
from examples import public, run_example
from packaging.requirements import Requirement

import whenpool

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = ("", ".corpora", ".models.cells", ".probes", ".settings", ".words")
NAMES = [(f"whenpool{part}", name) for part in MODULES for name in public(f"whenpool{part}")]
EXTRAS = {
    Requirement(line).name.replace("-", "_")
    for lines in PROJECT["optional-dependencies"].values()
    for line in lines
} - {"whenpool", "torch", "filelock", "jinja2"}  # torch brings the last two
WITHOUT = f"import sys; sys.modules |= dict.fromkeys({EXTRAS | {'yaml', 'ray', 'sklearn'}!r})\n"
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
import whenpool.training.loop, whenpool.training.batched
"""


@pytest.mark.parametrize("module, name", NAMES, ids=map(".".join, NAMES))
def test_the_example_runs(module, name):
    run_example(module, name)


def test_the_core_is_torch_numpy_and_safetensors_and_models_and_training_need_no_more():
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert core == {"torch", "numpy", "safetensors"}
    assert resources.files("whenpool").joinpath("py.typed").is_file()  # types for a user's mypy
    done = python(WITHOUT + WORKS, cwd=ROOT)
    assert done.returncode == 0, done.stderr


FITTED = """
classifier = whenpool.PoolingClassifier(epochs=1, hidden_size=4)
classifier.fit(["a fine film", "a dull film"] * 10, ["good", "bad"] * 10).predict(["a film"])
"""
OF_CLASSIFIER = """base.devices base.errors base.files base.paths corpora.batches corpora.tokens
    explain.checkpoint explain.estimator models.cells models.encoder models.pooling models.precision
    models.registry models.text_classifier training.loop"""
LOADED = """
import sys, whenpool
{code}
print(*(name for name in sys.modules if not name.startswith("_")))
"""


def loaded(code):
    """The modules that a new process has loaded after some code."""
    done = python(LOADED.format(code=code))
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_loads_torch_and_numpy_alone():
    others = {"pandas", "sklearn", "scipy", "torchtext", "matplotlib", "click", "jinja2", "triton"}
    assert not others & loaded("whenpool.TextClassifier, whenpool.POOLINGS, whenpool.Encoder")


def test_a_classifier_loads_no_module_that_it_does_not_use():
    modules = {name for name in loaded(FITTED) if name.startswith("whenpool.")}
    used = {f"whenpool.{name}" for name in OF_CLASSIFIER.split()}
    folders = {name.rpartition(".")[0] for name in used}
    assert modules <= used | folders


def test_what_loads_late_is_found_and_nothing_else():
    assert {*whenpool.__all__} <= {*dir(whenpool)}
    for module in (whenpool, whenpool.corpora):
        with pytest.raises(AttributeError, match=f"{module.__name__}. has no attribute .nothing"):
            module.nothing  # noqa: B018


MISSING = {
    "from whenpool.corpora.tokens import tokenize; tokenize('a')": "pip install 'whenpool[texts]'",
    "whenpool.PoolingClassifier": "pip install 'whenpool[sklearn]'",
    "whenpool.SentencePooling": "pip install 'whenpool[sentence_transformers]'",
    "import whenpool.cli": "whenpool: the command needs click: pip install 'whenpool[texts]'",
}
TOLD = f"""
import whenpool
for code in {[*MISSING]}:
    try:
        exec(code)
    except (ImportError, SystemExit, whenpool.InputError) as error:
        print(error)
"""


def test_what_is_missing_is_one_line_that_names_the_extra():
    lines = python(WITHOUT + TOLD, cwd=ROOT).stdout.splitlines()
    for line, message in zip(lines, MISSING.values(), strict=True):
        assert message in line
