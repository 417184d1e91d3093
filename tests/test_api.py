"""The pages "Reference": each public name is on one, says what it must, and has an example that runs."""

import doctest
import importlib
import inspect
import re

import pytest
import torch
import yaml
from clones import ROOT

PAGES = {page.stem: page.read_text("utf-8") for page in sorted((ROOT / "book").glob("api*.md"))}
PAGE = "".join(PAGES.values())
ROOMS = re.findall(r"automodule:: ([\w.]+)", PAGE)
LEAST = {"whenpool", "whenpool.probes", "whenpool.settings", "whenpool.learnability", "whenpool.fewshot"}
FROM_THE_THESIS = ("whenpool.probes", "whenpool.learnability", "whenpool.fewshot", "whenpool.settings")


def public(room):
    """What a room offers: classes and functions by name."""
    module = importlib.import_module(room)
    found = {name: getattr(module, name) for name in module.__all__}
    return {name: thing for name, thing in found.items() if callable(thing)}


NAMES = [(room, name) for room in ROOMS for name in public(room)]
PARAMETERS = [pytest.param(room, name, id=f"{room}.{name}") for room, name in NAMES]


def test_the_page_has_every_room():
    assert LEAST | {"whenpool.corpora", "whenpool.words"} <= set(ROOMS)
    assert len(ROOMS) == len(set(ROOMS))


@pytest.mark.parametrize(("room", "name"), PARAMETERS)
def test_the_docstring_says_what_a_user_needs(room, name):
    thing = public(room)[name]
    doc = inspect.getdoc(thing) or ""
    assert doc, f"{name} has no docstring"
    assert ">>> " in doc, f"{name} has no example: add a section Examples to its docstring"
    if inspect.isfunction(thing):
        takes = [parameter.annotation for parameter in inspect.signature(thing).parameters.values()]
        if torch.Tensor in takes:
            assert re.search(r"\([BN](, \w+)*,?\)", doc), f"{name} takes tensors: say their shapes"
        if "raise InputError" in inspect.getsource(thing):
            assert re.search("Raises:?\\s+`?InputError", doc), f"{name} refuses something: say what"


@pytest.mark.parametrize("room", FROM_THE_THESIS)
def test_what_comes_from_the_thesis_names_its_section(room):
    by_home = {}
    for thing in public(room).values():
        by_home.setdefault(thing.__module__, []).append(inspect.getdoc(thing) or "")
    for home, docs in by_home.items():
        named = importlib.import_module(home).__doc__ or ""
        assert "§" in named or all("§" in doc for doc in docs), home


@pytest.mark.parametrize(("room", "name"), PARAMETERS)
def test_the_example_runs(room, name):
    """After the two lines that the page begins with, and nothing else."""
    preamble = "import torch, whenpool\nfrom whenpool import *"
    assert preamble in PAGE
    names = {}
    exec(preamble.replace("from whenpool", f"from {room}"), names)
    doc = inspect.getdoc(public(room)[name])
    test = doctest.DocTestParser().get_doctest(doc, names, f"{room}.{name}", None, 0)
    assert test.examples
    assert len(test.examples) <= 7
    said = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """The pages by themselves, rendered with the extensions and options of the book; warnings are errors."""
    from sphinx.application import Sphinx

    folder = tmp_path_factory.mktemp("api")
    for name, text in PAGES.items():
        (folder / f"{name}.md").write_text(text)
    (folder / "index.md").write_text("# All\n\n```{toctree}\n" + "\n".join(PAGES) + "\n```\n")
    book = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]
    own = {key: value for key, value in book["config"].items() if re.match("autodoc|napoleon", key)}
    extensions = ["myst_parser", *(name for name in book["extra_extensions"] if "." in name)]
    Sphinx(
        folder, None, folder / "html", folder / "trees", "html",
        {"extensions": extensions, "myst_enable_extensions": ["dollarmath"], **own},
        status=None, warningiserror=True,
    ).build()  # fmt: skip
    return "".join((folder / "html" / f"{name}.html").read_text() for name in PAGES)


def test_the_tables_have_every_public_name():
    listed = re.findall(r"^   ~([\w.]+)$", PAGE, re.MULTILINE)
    elsewhere = {"whenpool.corpora.Corpus", "whenpool.corpora.load"}  # in the first table
    constants = {"whenpool.POOLINGS", "whenpool.__version__"}
    assert {f"{room}.{name}" for room, name in NAMES} - elsewhere - constants <= set(listed)
    assert len(listed) == len(set(listed))


def test_every_public_name_is_on_the_page_with_its_signature(rendered):
    anchors = set(re.findall(r'<dt class="sig[^"]*" id="([\w.]+)"', rendered))
    shown = {anchor.rpartition(".")[2] for anchor in anchors}
    assert [f"{room}.{name}" for room, name in NAMES if name not in shown] == []
    assert "whenpool.models.pooling.POOLINGS" in anchors
    signature = re.search(r'id="whenpool.probes.nwi".*?</dt>', rendered, re.DOTALL)[0]
    assert "max_megabytes" in signature
    assert rendered.count("Raises") > 20
    assert "&gt;&gt;&gt;" in rendered
