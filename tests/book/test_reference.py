"""The pages "Reference": each public name is in a table once, and the paper's examples run."""

import re

import pytest
from clones import ROOT
from examples import PREAMBLE, public, run_example

PAGE = "".join(page.read_text("utf-8") for page in sorted((ROOT / "book").glob("api*.md")))
MODULES = re.findall(r"automodule:: ([\w.]+)", PAGE)
NAMES = [(module, name) for module in MODULES for name in public(module)]
OURS = [(module, name) for module, name in NAMES if module.startswith("paper")]


@pytest.mark.parametrize("module, name", OURS, ids=map(".".join, OURS))
def test_the_example_runs(module, name):
    run_example(module, name)


def test_every_public_name_is_in_a_table_once():
    """`test_book.py` looks at the pages."""
    assert PREAMBLE in PAGE
    assert {"whenpool", "whenpool.corpora", "whenpool.words", "whenpool.probes"} <= set(MODULES)
    listed = re.findall(r"^   ~([\w.]+)$", PAGE, re.MULTILINE)
    elsewhere = {"whenpool.corpora.Corpus", "whenpool.corpora.load"}  # in the first table
    constants = {"whenpool.POOLINGS", "whenpool.__version__"}
    assert {f"{module}.{name}" for module, name in NAMES} - elsewhere - constants <= set(listed)
    assert len(listed) == len(set(listed))
