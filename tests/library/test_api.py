"""Public names: each is on a page "Reference" and used in an example; and what must not be
needed."""

import doctest
import importlib
import inspect
import re
import subprocess
import sys

import pytest
from clones import CAPTURED, PROJECT, ROOT
from packaging.requirements import Requirement

PAGE = "".join(page.read_text("utf-8") for page in sorted((ROOT / "book").glob("api*.md")))
ROOMS = re.findall(r"automodule:: ([\w.]+)", PAGE)
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
import paper.tricks, paper.corpora.dataset
"""


def public(room):
    module = importlib.import_module(room)
    found = {name: getattr(module, name) for name in module.__all__}
    return {name: thing for name, thing in found.items() if callable(thing)}


NAMES = [(room, name) for room in ROOMS for name in public(room)]


@pytest.mark.parametrize(("room", "name"), NAMES, ids=map(".".join, NAMES))
def test_the_example_runs(room, name):
    preamble, names, said = "import torch, whenpool\nfrom whenpool import *", {}, []
    assert preamble in PAGE
    exec(preamble.replace("from whenpool", f"from {room}"), names)
    thing = public(room)[name]
    docs = [inspect.getdoc(kind) or "" for kind in getattr(thing, "__mro__", [thing])]
    others = [inspect.getdoc(other) or "" for other in public(room).values()]
    docs += [doc for doc in others if name in doc.partition("Examples:")[2]]
    doc = next(
        (doc for doc in docs if ">>>" in doc), ""
    )  # its own, of its base class or another name
    test = doctest.DocTestParser().get_doctest(doc, names, f"{room}.{name}", None, 0)
    assert test.examples, f"{name} has no example: add a section Examples to its docstring"
    assert len(test.examples) <= 7
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_every_public_name_is_in_a_table_once():
    """`test_book.py` looks at the pages."""
    assert {"whenpool", "whenpool.corpora", "whenpool.words", "whenpool.probes"} <= set(ROOMS)
    listed = re.findall(r"^   ~([\w.]+)$", PAGE, re.MULTILINE)
    elsewhere = {"whenpool.corpora.Corpus", "whenpool.corpora.load"}  # in the first table
    constants = {"whenpool.POOLINGS", "whenpool.__version__"}
    assert {f"{room}.{name}" for room, name in NAMES} - elsewhere - constants <= set(listed)
    assert len(listed) == len(set(listed))


def python(code):
    return subprocess.run([sys.executable, "-c", WITHOUT + code], cwd=ROOT, **CAPTURED)


def test_the_core_is_torch_numpy_and_safetensors_and_models_and_training_need_no_more():
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    assert core == {"torch", "numpy", "safetensors"}
    assert (ROOT / "lib" / "whenpool" / "py.typed").is_file()  # types that a user's mypy sees
    done = python(WORKS)
    assert done.returncode == 0, done.stderr


MISSING = {
    "from whenpool.corpora.tokens import tokenize; tokenize('a')": "pip install 'whenpool[texts]'",
    "whenpool.PoolingClassifier": "pip install 'whenpool[sklearn]'",
    "whenpool.SentencePooling": "pip install 'whenpool[sentence_transformers]'",
    "import paper.chapter": "pip install 'whenpool[notebook]'",
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
    lines = python(TOLD).stdout.splitlines()
    for line, message in zip(lines, MISSING.values(), strict=True):
        assert message in line
