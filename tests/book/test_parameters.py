"""What a chapter's parameters ask for is what its figures show."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
from small_runs import record
from test_see_it_happen import parts_of

from paper.chapter import Chapter
from paper.pages.finish import lighten, lighter
from paper.runs.request import Request

KINDS = {"good": "a fine warm film", "bad": "a dull cold film", "so": "a film"}


@pytest.fixture
def reviews(tmp_path):
    """A file of made-up reviews, of three classes."""
    file = tmp_path / "my $ reviews.csv"
    lines = [
        f"{text} number {i} of this year,{name}" for i in range(40) for name, text in KINDS.items()
    ]
    file.write_text("text,label\n" + "\n".join(lines))
    return file


@pytest.fixture
def chapter(place, reviews):
    """A chapter whose request has four finished runs, beside one that nobody asked for."""
    asked = {"sizes": (20, 60), "settings": ("mid",), "poolings": ("last", "max"), "seeds": 1}
    chapter = Chapter("training_to_skip", Request("quick", (str(reviews),), **asked), place)
    assert len(chapter.runs) == 4
    for run in chapter.runs:
        accuracy = run.size + (run.pooling == "max")
        record(place, run, accuracy=accuracy, identity=run.identity(place), majority_accuracy=40.0)
        record(place, replace(run, seed=9), accuracy=0.0)
    return chapter


def test_a_request_is_shown_in_place_of_the_record(chapter):
    asked = {"setting": ["standard", "mid"], "corpus": "imdb"}
    rows = chapter.shown("accuracy", "compact", size=[1_000, 10_000], **asked)
    assert sorted(rows["value"]) == [20, 21, 60, 61]
    assert {*rows["scale"]} == {*chapter.scales} == {"my  reviews.csv"}  # "$" would be mathematics
    assert {*rows["lead"]} == {"my  reviews.csv, "}
    nearest = chapter.shown("training", size=1_000, model="max", **asked)
    assert nearest["test_accuracy"].tolist() == [61]
    assert chapter.chance == 40
    assert chapter.provenance(rows, "fig-x").line.startswith("This execution: 4 runs, the last")
    assert "4 runs on my  reviews.csv, profile quick, sizes 20, 60, set" in chapter.banner.line
    assert chapter.results("accuracy", "compact").empty  # what the text speaks of
    assert "accuracy" not in chapter.spoken("accuracy", "thesis", {"model": "max"})


def test_files_of_one_name_in_two_folders_are_shown_side_by_side(tmp_path, reviews, place):
    other = tmp_path / "other" / reviews.name
    other.parent.mkdir()
    other.write_text(reviews.read_text().replace("good", "fine"))
    asked = {"sizes": (20,), "settings": ("mid",), "poolings": ("last",), "seeds": 1}
    request = Request("quick", (str(reviews), str(other)), **asked)
    chapter = Chapter("training_to_skip", request, place)
    for run in chapter.runs:
        record(place, run, identity=run.identity(place))
    assert [*chapter.usual] == ["my  reviews.csv", "my  reviews.csv (2)"]
    assert len(chapter.requested.keys) == 2


def test_what_a_request_has_no_runs_of_is_one_line(chapter, capsys):
    plain = chapter.shown("accuracy", size=1_000)
    assert not chapter.drawable(plain)
    assert "This execution has no such runs. Another profile has more" in capsys.readouterr().out
    assert chapter.drawable(chapter.shown("accuracy", setting="mid"))
    assert capsys.readouterr().out == ""
    absent = chapter.provenance(plain, "fig-x")
    assert absent.line == "This execution: No runs yet."


@pytest.mark.parametrize("name", ["training_to_skip", "theory"])
def test_without_a_request_or_a_plan_the_record_is_shown(on_record, name):
    profile = "quick" if name == "training_to_skip" else "smoke"
    chapter = Chapter(name, Request(profile), on_record)
    assert chapter.of_record
    assert chapter.scales == {"thesis": "thesis's scale", "compact": "compact"}
    assert chapter.chance == 50
    assert {*chapter.shown("accuracy")["scale"]} == {"thesis", "compact"}


def test_the_banner_of_another_execution_is_moved_to_the_top_of_its_page():
    banner = '<div class="execution admonition note docutils">\n<p>Of this.</p>\n</div>\n'
    headings = '<body><h1>Bias</h1>\n<h1>Bias<a href="#bias">#</a></h1>\n'  # for print, on screen
    page = f"{headings}<p>First.</p>\n<div>\n{banner}</div></body>"
    moved = f"{headings}{banner}<p>First.</p>\n<div>\n</div></body>"
    assert lighter(page) == lighter(moved) == moved


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, lines",
    [("natural_bias", 5), ("gradient_propagation", 6), ("training_to_skip", 5)],
)
def test_the_main_figure_is_of_the_corpus_that_is_asked_for(name, lines, reviews, monkeypatch):
    figures, names = [], {"display": print}
    monkeypatch.setattr(plt, "show", lambda: figures.append(plt.gcf()))
    with plt.rc_context():
        for cell in parts_of(name)[0]:
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", ()):
                names |= {"profile": "smoke", "corpus": str(reviews)}
        main = figures[0]
        words = [axes.get_title() for axes in main.axes]
        words += [text.get_text() for legend in main.legends for text in legend.get_texts()]
        assert any("my  reviews.csv" in text for text in words)
        drawn = {
            line.get_color() for axes in main.axes for line in axes.lines if len(line.get_xdata())
        }
        assert len(drawn) >= lines
        plt.close("all")


def test_the_brackets_of_a_number_become_its_note():
    number = '<p><span class="pasted-text">{}</span> %.</p>'
    noted = lighter(number.format("22 (95 % interval 20 to 24, n = 3)"))
    note = 'tabindex="0" data-definition="95 % interval 20 to 24, n = 3"'
    assert noted == f'<p><a class="noted" {note}>22</a>\u00a0%.</p>'
    of_claim = lighter(number.format("−1 (n = 5, compact, claim a-b: holds)"))
    note = "n = 5, compact. Verdict by our rule: holds. A click leads to the claim."
    link = f'href="ledger.html#claim-a-b" data-definition="{note}"'
    assert f'<a class="noted" {link}>−1</a>' in of_claim
    for text in ("22", "f(x) of a model", "not run"):
        assert number.format(text).replace(" %", "\u00a0%") == lighter(number.format(text))


def test_a_term_shows_its_latest_definition_on_pages_that_were_finished_before(tmp_path):
    glossary = '<dl class="simple glossary"><dt id="term-a">A</dt><dd><p>{} words</p></dd></dl>'
    link = (
        '<a class="reference" href="terms.html#term-a"><span class="xref std std-term">A</span></a>'
    )
    (tmp_path / "page.html").write_text(link)
    for words in ("old", "new"):
        (tmp_path / "terms.html").write_text(glossary.format(words))
        lighten(tmp_path)
        assert f'#term-a" data-definition="{words} words">' in (tmp_path / "page.html").read_text()
