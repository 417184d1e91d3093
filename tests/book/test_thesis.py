"""The thesis's tables as data, the verdicts on ours beside them, and the tables that show both;
figures on phones and on dark pages."""

import html
import math
import re
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import seaborn as sns
from called import refused
from made_up import run, trained
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from small_runs import record

from paper.chapter import Chapter
from paper.figures import drawn_twice
from paper.pages import tabling, thesis
from paper.pages.finish import parted, with_dark_colours
from paper.pages.tabling import above_bag_of_words, bag_of_words, literal, times_smaller_between
from paper.pages.thesis import by_source, judged
from paper.runs.compute import runs_of_file
from paper.runs.kinds.training import Training
from paper.runs.request import Request
from paper.tables import CaptionedTable
from paper.verdicts.claims import Finding
from paper.verdicts.results import Runs, with_model

CELL = {"corpus": "imdb", "length": "long", "setting": "mid", "size": 1000, "pooling": "max"}
PLAIN = {"forget_bias": "thesis", "orthogonal": False}
PLAIN |= dict.fromkeys(("trick", "strength", "divergence"))
COLUMNS = [*trained([0.0], **CELL | PLAIN)[0]]  # also of no runs
PUBLISHED = pd.Series(CELL | {"table": "1.6", "mean": 80.0, "std": 0.5})
COMPACT = {"hidden_size": 64, "epochs": 8, "max_words": 140, "test": 2_000}


def runs(accuracies, **changes):
    return with_model(pd.DataFrame(trained(accuracies, **CELL | PLAIN | changes), columns=COLUMNS))


def judge(ours, corpus="imdb"):
    """What is beside the published cell."""
    return judged(ours, pd.DataFrame([PUBLISHED]).assign(corpus=corpus)).iloc[0]


@pytest.mark.parametrize(
    "accuracies, verdict",
    [
        ([80.0, 80.5, 79.5], "reproduced"),
        ([82.0, 82.2, 81.8], "reproduced"),
        ([70.0, 70.5, 69.5], "differs"),
        ([90.0, 90.5, 89.5], "differs"),
        ([75.0, 80.0, 85.0], "undecided"),
        ([83.0, 83.5, 82.5], "undecided"),  # the interval holds 3 points
        ([80.0, 80.1], "so far"),
        ([], "not run"),
    ],
)
def test_the_rule(accuracies, verdict):
    cell = judge(runs(accuracies))
    assert (cell["verdict"], cell["n"]) == (verdict, len(accuracies))
    if accuracies:
        assert cell["ours"] == pytest.approx(np.mean(accuracies))


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 64},
        {"masked": False},
        {"forget_bias": "low"},
        {"test": 2000},
        {"vectors": None},
        {"corpus_complete": False},
        {"trick": "penalty_attention"},
        {"orthogonal": True},
        {"forget_bias": 2.0},
    ],
)
def test_another_protocol_or_a_part_of_a_corpus_is_not_judged(change):
    cell = judge(runs([80.0, 80.1, 79.9], **change))
    assert (cell["verdict"], cell["n"], cell["keys"], cell["compact"]) == ("not run", 0, (), "")


OTHER = runs([60.0, 61.0, 62.0, 63.0], vectors="wiki-reviews.100d")


@pytest.mark.parametrize(
    "ours, verdict, n, mean",
    [
        # runs from other vectors are pilots and never mixed with others
        (pd.concat([OTHER, runs([80.0, 80.2])]), "pilot", 4, 61.5),
        (pd.concat([OTHER, runs([80.0, 80.2, 79.8])]), "reproduced", 3, 80.0),
        # a seed counts once
        (pd.concat([runs([50.0, 50.2, 49.8]), runs([80.0, 80.2, 79.8])]), "reproduced", 3, 80.0),
    ],
)
def test_runs_of_one_kind_count_and_each_seed_once(ours, verdict, n, mean):
    cell = judge(ours)
    assert (cell["verdict"], cell["n"], cell["ours"]) == (verdict, n, pytest.approx(mean))


@pytest.mark.parametrize(
    "accuracies, change, text",
    [
        ([70.0, 71.0, 72.0], {}, "71.0 ± 1.0 (3)"),
        ([70.0], {}, "70.0 (1)"),
        ([70.0, 71.0, 72.0], {"corpus_complete": False}, "71.0 ± 1.0 (3)*"),
        ([70.0], {"test": None}, ""),
        ([70.0], {"vectors": "wiki-reviews.100d"}, ""),
        ([70.0], {"vectors": None}, ""),
        ([70.0], {"epochs": 20}, ""),
        ([70.0], {"forget_bias": "chrono"}, ""),
        ([70.0], {"corpus": "yelp"}, ""),
        ([70.0], {"corpus": "yelp", "test": None}, "70.0 (1)"),
    ],
)
def test_the_compact_replication_stands_beside_and_is_never_judged(accuracies, change, text):
    small, corpus = runs(accuracies, **COMPACT | change), change.get("corpus", "imdb")
    cell = judge(small, corpus)
    assert (cell["verdict"], cell["n"], cell["compact"]) == ("not run", 0, text)
    assert set(cell["keys"]) == (set(small["key"]) if text else set())
    both = judge(pd.concat([small, runs([80.0, 80.5, 79.5], corpus=corpus)]), corpus)
    assert (both["verdict"], both["compact"]) == ("reproduced", text)
    assert both["keys"][3:] == cell["keys"]


def test_a_table_is_a_directive_for_the_book_and_html_for_a_notebook():
    link = '<a href="ledger.html#a">a</a>: x'
    frame = pd.DataFrame({"a": ["**1**<br>2"], "b": ["see `nwi`"], "c": [link]})
    table = CaptionedTable(
        frame, "Of <things>.", "tab-x", "From runs.", "x < y ({ref}`the rule <v>`)."
    )
    bundle = table._repr_mimebundle_()
    assert bundle["text/markdown"].startswith(":::{table} Of <things>.\n:name: tab-x\n\n| a ")
    assert ":::{div} provenance\nFrom runs.\n:::" in bundle["text/markdown"]
    shown = ["Of &lt;things", "<b>1</b><br>2", "<code>nwi</code>", "<td>a: x</td>", "y (the rule)."]
    assert [part for part in shown if part not in bundle["text/html"]] == []


def test_how_many_times_smaller_is_a_rounded_number_with_its_range():
    def said(times, least, most):
        return times_smaller_between(Finding("holds", 1 / times, 1 / most, 1 / least, 5))

    assert said(630, 405, 980) == "600 (95 % interval 400 to 1,000, n = 5)"
    assert said(59e6, 5.8e6, 580e6) == "60 million (95 % interval 6 to 600 million, n = 5)"


def test_no_mean_is_taken_over_the_corpora_of_a_request():
    rows = [run(seed=n, test_accuracy=60.0, majority_accuracy=50.0) for n in range(3)]
    runs = pd.DataFrame([{**row, "scale": "A"} for row in rows])
    assert "scale" not in tabling.accuracy_table(runs, ["pooling"])
    several = pd.concat([runs, runs.assign(scale="B", test_accuracy=90.0, majority_accuracy=20.0)])
    table = tabling.accuracy_table(several, ["pooling"])
    cells = sorted(zip(table["scale"].replace("", None).ffill(), table["standard"], strict=True))
    assert cells == [("A", "50.0"), ("A", "60.0 ± 0.0 (3)"), ("B", "20.0"), ("B", "90.0 ± 0.0 (3)")]


def test_a_distance_to_the_bag_of_words_has_an_interval_over_seeds():
    bag = bag_of_words("thesis", 1_000, "standard")
    rows = pd.DataFrame({"seed": [0, 1, 2], "value": [bag + 1, bag + 2, bag + 3]})
    noted = "2 (95 % interval −0.48 to 4.5, n = 3, thesis's scale)"
    assert above_bag_of_words(rows, "thesis", 1_000, "standard") == noted
    below = above_bag_of_words(rows, "thesis", 1_000, "standard", sign=-1)
    assert below.startswith("−2 (95 % interval −4.5 to 0.48")


def test_a_hostile_name_is_shown_and_is_no_markup():
    hostile = "<script>x</script>| {ref}`a <b>` `c` **d** $e$ <!-- [f](g) &lt; ~~h~~ :::\n# i"
    name, shown = " ".join(hostile.split()), literal(hostile)
    bundle = CaptionedTable(pd.DataFrame({"a": [shown]}), "A.", "tab-x", shown)._repr_mimebundle_()
    parser = create_md_parser(MdParserConfig(), RendererHTML)
    for page in bundle["text/html"], parser.render(bundle["text/markdown"]):
        assert "<script" not in page
        assert html.unescape(page).count(name) == 2  # in the cell and below the table
    assert name in bundle["text/plain"]


def test_each_source_of_numbers_has_a_line_of_its_own():
    published = pd.DataFrame([dict(PUBLISHED), dict(PUBLISHED) | {"pooling": "last", "mean": 50.0}])
    cells = judged(pd.concat([runs([80.0, 80.5, 79.5]), runs([70.0], **COMPACT)]), published)
    chance = cells.head(1).assign(pooling="majority class", text="50.1")
    lines = by_source(pd.concat([cells, chance]), ["pooling"])
    assert lines[["pooling", "source", "text"]].to_numpy().tolist() == [
        ["max", "thesis", "80.0 ± 0.5"],
        ["max", "ours", "**80.0 ± 0.5 (3)** ✓"],
        ["max", "compact", "70.0 (1)"],
        ["last", "thesis", "50.0 ± 0.5"],
        ["majority class", "", "50.1"],
    ]


def put_all(place, accuracies, **changes):
    run = Training("imdb", "mid", 10_000, "last", vectors="glove.6B.100d")
    for seed, accuracy in enumerate(accuracies):
        one = replace(run, seed=seed, **changes)
        diverged = {"diverged": math.isnan(accuracy)} if one.trick else {}
        record(place, one, accuracy=accuracy, majority_accuracy=50.0, **diverged)


def test_a_seed_that_diverged_has_no_part_in_a_verdict(place):
    put_all(place, [80.0, math.nan, 80.5, math.nan, 81.0], trick="gradient_directed")
    put_all(place, [math.nan] * 3, trick="penalty_attention")
    cells = thesis.trick_cells(Runs(place).table("training")).set_index(["variant", "setting"])
    cell = cells.loc[("gradient_directed", "mid")]
    assert (cell["n"], cell["ours"], cell["verdict"]) == (3, 80.5, "reproduced")
    assert cells.loc[("penalty_attention", "mid"), "verdict"] == "not run"


def test_below_a_figure_are_its_rows_its_runs_and_how_to_repeat_them(place, tmp_path, monkeypatch):
    put_all(place, [80.0, 81.0])
    rows, chapter = (
        place.store.current("training"),
        Chapter("natural_bias", Request("quick"), place),
    )
    assert chapter.provenance(rows.head(0), "fig-x").line == "No runs yet."
    assert chapter.provenance(rows, "fig-x").line.startswith("2 runs, the last of 20")
    assert not Path("rows").exists()  # a notebook that is opened by itself
    (tmp_path / "_config.yml").write_text("repository:\n  url: https://github.com/me/mine\n")
    (tmp_path / "book").mkdir()
    monkeypatch.chdir(tmp_path / "book")
    monkeypatch.setenv("WHENPOOL_COMPUTED", "1")
    only_runs = chapter.provenance(rows, "fig-y").line
    assert "fig-y-runs.csv" in only_runs
    assert "fig-y.csv" not in only_runs
    line = chapter.provenance(rows.assign(point=0.5), "fig-x").line
    assert "/github/me/mine/blob/" in line
    assert "/book/natural_bias.ipynb)" in line
    data = pd.read_csv("rows/fig-x.csv")
    assert data["key"].tolist() == rows["key"].tolist()
    assert data["point"].tolist() == [0.5, 0.5]
    assert "torch" not in data
    expected = [Training.of_row(row) for row in rows.to_dict("records")]
    assert runs_of_file(Path("rows/fig-x-runs.csv")) == expected
    for text, reason in {
        "key,seed\n1,2\n": "KeyError: 'kind'",
        "kind,corpus,seed\nrun,imdb,0\n": "KeyError: 'run'",
        "kind,corpus,seed\ntraining,imdb,0\n": "KeyError: 'setting'",
        "kind,corpus,seed,setting,size,pooling\ntraining,imdb,x,mid,9,max\n": "invalid .*'x'",
    }.items():
        Path("runs.csv").write_text(text)
        refused(
            f"runs.csv is no file of runs .*{reason}.*; take one", runs_of_file, Path("runs.csv")
        )


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def size_of(svg):
    return [
        float(x) for x in re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()[::-1]
    ]


def test_a_drawing_carries_its_narrow_layout_which_is_narrower_and_has_the_same_words():
    places = [(column, x, x) for column in range(4) for x in range(3)]
    frame = pd.DataFrame(places, columns=["column", "x", "y"]).assign(kind="one")
    panels = sns.relplot(frame, x="x", y="y", col="column", hue="kind", kind="line", height=2)
    wide, narrow = parted(drawn_twice(panels.figure))
    assert size_of(wide)[1] > 500 > 280 > size_of(narrow)[1] > 240
    assert size_of(narrow)[0] > size_of(wide)[0]
    for svg in (wide, narrow):
        assert svg.index("</svg>") == len(svg.rstrip()) - len("</svg>")
        assert "<!-- column = 3 -->" in svg
        assert "<!-- one -->" in svg


def test_on_a_dark_page_light_and_dark_change_places_and_colours_stay():
    svg = (
        '<svg><rect style="fill: #ffffff"/><path style="stroke: #262626"/><path '
        'fill="#e8a612"/></svg>'
    )
    dark = with_dark_colours(svg)
    assert "--ffffff:#000000;" in dark
    assert "--262626:#d9d9d9;" in dark
    assert '<path fill="#e8a612"/>' in dark
