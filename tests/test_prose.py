"""What the pages say in words is what the claims say in numbers, and their cells fit the library."""

import ast
import re
from contextlib import suppress
from importlib import import_module

import pytest
from check_pages import as_python

from whenpool.base.paths import project_root

PAGES = sorted((project_root() / "book").glob("*.md"))
SAID = re.compile(r"^% (holds|fails): (.+)$", re.MULTILINE)
VERDICT = {"holds": "holds", "fails": "does not hold"}


def test_sentences_that_rest_on_claims_agree_with_their_verdicts(decided):
    """A line ``% holds: id`` or ``% fails: id`` above a sentence names the claims it rests on."""
    found = {decision.claim.id: decision.best.verdict for decision in decided}
    said = [(page.stem, *match) for page in PAGES for match in SAID.findall(page.read_text())]
    assert said
    wrong = [
        f"{page}: {name} is said as {VERDICT[kind]!r}, and is {found[name]!r}"
        for page, kind, names in said
        for name in names.split()
        if found[name] != VERDICT[kind]
    ]
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_uses_what_the_library_has(page):
    """Each name that it imports, and each attribute of a module."""
    tree = ast.parse(as_python(page.read_text()))
    used, modules = [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whenpool"):
            for name in node.names:
                with suppress(ImportError):
                    modules[name.asname or name.name] = import_module(f"{node.module}.{name.name}")
                used.append((import_module(node.module), name.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used += [(modules[node.value.id], node.attr)] if node.value.id in modules else []
    assert not [f"{module.__name__}.{name}" for module, name in used if not hasattr(module, name)]
