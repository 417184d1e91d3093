"""What the pages say in words is what the claims say in numbers, and their cells fit the
library."""

import ast
import re
from contextlib import suppress
from importlib import import_module
from itertools import cycle

import pytest
import torch
from check_pages import as_python
from clones import ROOT, sentences_of

from paper.pages import thesis, try_it
from paper.runs.kinds.training import TRICKS
from paper.verdicts.measures import results
from paper.verdicts.results import published
from whenpool.models.registry import COMPARED
from whenpool.probes import window_importance
from whenpool.settings import compose

PAGES = sorted((ROOT / "book").glob("*.md"))
SAID = re.compile(r"^% (holds|fails|undecided): (.+)$", re.MULTILINE)
VERDICT = {"holds": "holds", "fails": "does not hold", "undecided": "undecided"}


def test_sentences_that_rest_on_claims_agree_with_their_verdicts(decided):
    """A line such as ``% holds: id`` or ``% undecided: id@compact`` above a sentence names the
    claims that it rests on, at the best scale that has a verdict or at the one named."""
    found = {decision.claim.id: decision.best.verdict for decision in decided}
    for decision in decided:
        found |= {f"{decision.claim.id}@{scale}": one.verdict for scale, one in decision.at.items()}
    said = [(page.stem, *match) for page in PAGES for match in SAID.findall(page.read_text())]
    assert said
    told = {(page, name): VERDICT[kind] for page, kind, names in said for name in names.split()}
    assert told == {(page, name): found[name] for page, name in told}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_uses_what_the_library_has(page):
    tree = ast.parse(as_python(page.read_text()))
    used, modules = [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whenpool"):
            for name in node.names:
                with suppress(ImportError):
                    modules[name.asname or name.name] = import_module(f"{node.module}.{name.name}")
                used.append((import_module(node.module), name.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in modules:
            used.append((modules[ast.unparse(node.value)], node.attr))
    assert not [f"{module.__name__}.{name}" for module, name in used if not hasattr(module, name)]


def filler_costs_two_models_most(means):
    asked = {"model": list(COMPARED), "size": [1_000, 10_000], "added": "mid", "share_added": 0.7}
    left = means("swept_accuracy", ["size", "model"], **asked).unstack()
    return all(set(own.nsmallest(2).index) == {"last", "mean"} for _, own in left.iterrows())


def chrono_alone_is_as_good(means):
    others = ["forget 2", *TRICKS]
    found = means(size=1_000, setting="mid", model=["chrono", "max_attention", *others])
    near = found > found["max_attention"] - 3
    return near["chrono"] and not near[others].any()


def padding_turns_the_model(means):
    asked = {"size": 1_000, "model": "last", "share_added": 0.8, "masked": [True, False]}
    left = means("sweep_asymmetry", "masked", "thesis", **asked)
    return left[True] < 0 < left[False]


@pytest.mark.parametrize(
    "finding, is_so",
    [
        ("the BiLSTM and MeanPool have the lowest means", filler_costs_two_models_most),
        ("In the middle of filler chrono is level with MaxAtt", chrono_alone_is_as_good),
        ("turns a BiLSTM from the end of a text towards its beginning", padding_turns_the_model),
    ],
)
def test_findings_in_words_are_what_the_runs_say(finding, is_so, recorded):
    def means(measure="accuracy", by="model", scale="compact", **asked):
        return results(recorded, measure, scale, **asked).groupby(by)["value"].mean()

    assert any(finding in sentences_of(page.stem) for page in PAGES)
    assert is_so(means)


def test_our_accuracies_are_higher_wherever_they_differ_as_the_page_says(recorded):
    evidence = thesis.reference_runs(recorded.table("training"))
    places = evidence[["corpus", "length", "setting", "size", "pooling"]].drop_duplicates()
    cells = published("accuracy").query("table in ('1.5', '1.6', '1.8')").merge(places)
    cells = thesis.judged(evidence, cells)
    apart = cells[cells["verdict"] == "differs"]
    assert len(apart)
    lower = apart[apart["ours"] < apart["mean"]]
    assert lower[["pooling", "setting", "size"]].to_numpy().tolist() == [["last", "left", 1_000]]


def test_three_models_that_were_trained_in_filler_find_the_review_in_it():
    page = try_it.on_page("mid")
    review, label = page.reviews[try_it.THREAD]
    text = compose(review, cycle(page.filler), "mid", 0.66)

    def sure(name, words):
        with torch.inference_mode():
            logits = page.models[name](page.ids(words), torch.tensor([len(words)]))
        return float(logits.softmax(1)[0, label])

    found = {name: sure(name, text) for name in COMPARED}
    clear = {name for name, value in found.items() if value > 0.8}
    assert clear == {"max", "attention", "max_attention"}
    assert found["mean"] < 0.5
    assert abs(found["last"] - sure("last", review)) < 0.05


@pytest.fixture(scope="module")
def thread():
    """The models that read no filler in training, and the book's review with its label."""
    page = try_it.on_page()
    return page, *page.reviews[try_it.THREAD]


def test_models_find_the_review_where_the_page_says(thread):
    page, review, label = thread
    source = sentences_of("natural_bias")
    found = {name: [] for name in COMPARED}
    for place in ("standard", "left", "mid", "right"):
        text = compose(review, cycle(page.filler), place, share=0.66)
        for name in COMPARED:
            odds = page.models[name](page.ids(text), torch.tensor([len(text)])).softmax(1)
            found[name].append(bool(odds[0, label] > 0.5))
    assert [name for name in COMPARED if all(found[name])] == ["max"]
    assert "Only MaxPool finds it in every place." in source
    assert found["last"] == [True, False, False, True]
    assert "The BiLSTM finds it only where it ends the text" in source


def test_the_words_that_matter_most_are_those_of_the_page(thread):
    page, review, label = thread
    source = sentences_of("word_importance")
    text = compose(review, cycle(page.filler), "mid", share=0.66)
    asked = page.ids(text), torch.tensor([len(text)])
    most = {}
    for name in ("max_attention", "last"):
        moved = window_importance(page.models[name], *asked, torch.tensor([label]), k=5)[0]
        window = 5 * int(moved.argmax())
        most[name] = " ".join(text[window : window + 5]).removesuffix(" ,")
        assert page.models[name](*asked).softmax(1)[0, label] < 0.5
    told = "To MaxAtt the words *{max_attention}* matter most, to the BiLSTM *{last}*, which"
    assert told.format(**most) + " are filler." in source
    assert most["max_attention"] in " ".join(review)
    assert most["last"] not in " ".join(review)
    assert "Both now call the review positive" in source
