"""Runs the examples in docstrings of public names."""

import doctest
import importlib
import inspect

PREAMBLE = "import torch, whenpool\nfrom whenpool import *"


def public(module):
    """What a module says that it offers, by name, and can be called."""
    found = importlib.import_module(module)
    offered = {name: getattr(found, name) for name in found.__all__}
    return {name: thing for name, thing in offered.items() if callable(thing)}


def run_example(module, name):
    """Run the example of a name, or of its base class, or one of another name that shows it."""
    names, failures = {}, []
    exec(PREAMBLE.replace("from whenpool", f"from {module}"), names)
    offered = public(module)
    own = [
        inspect.getdoc(kind) or "" for kind in getattr(offered[name], "__mro__", [offered[name]])
    ]
    others = [inspect.getdoc(other) or "" for other in offered.values()]
    shown = [doc for doc in others if name in doc.partition("Examples:")[2]]
    doc = next((doc for doc in own + shown if ">>>" in doc), "")
    test = doctest.DocTestParser().get_doctest(doc, names, f"{module}.{name}", None, 0)
    assert test.examples, f"{name} has no example: add a section Examples to its docstring"
    assert len(test.examples) <= 7
    run = doctest.DocTestRunner().run(test, out=failures.append)
    assert run.failed == 0, "".join(failures)
