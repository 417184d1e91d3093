"""The front page: its sentences follow the runs, whichever way, and its counts are the ledger's."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import gradients, measured, run, runs, trained

from whenpool.book.report import front
from whenpool.book.report.claims import VERDICTS, Decision, Finding, claims
from whenpool.book.report.figures import use_style
from whenpool.book.report.measures import Runs
from whenpool.book.report.tricks import GUESSING

ROOT = Path(__file__).parents[1]
CLAIMS = [claim for claim in claims() if claim.of_thesis]
SPREAD = (-0.5, 0.0, 0.5)


def made(middle=(), mid=(), standard=(), seeds=3, scale="compact"):
    """Made-up runs.

    Args:
        middle: for each model, its gradient in the middle over that at the ends.
        mid, standard: for each model its mean accuracy, or a list by seed.
    """
    profiles = [
        point
        for model, ratio in dict(middle).items()
        for seed in range(seeds)
        for point in measured(
            run(model, seed, scale, size=500, epochs=1), gradients(2.0, 2.0, (2 * ratio, 2 * ratio))
        )
    ]
    trainings = [
        row
        for setting, reached in {"mid": mid, "standard": standard}.items()
        for model, values in dict(reached).items()
        for row in trained(
            values if isinstance(values, list) else [values + off for off in SPREAD[:seeds]],
            scale, model=model, setting=setting,
        )
    ]  # fmt: skip
    return runs(trainings, gradients=profiles)


def both(last, pooled, **others):
    """The BiLSTM and the poolings, the same for each but the others."""
    return {"last": last} | dict.fromkeys(front.POOLED, pooled) | others


@pytest.mark.parametrize(
    ("last", "pooled", "lead", "alone", "together"),
    [
        (
            1e-6,
            0.9,
            "So that",
            "all but vanishes on its way there, to 10⁻⁶ of",
            "it stays, at 0.9 of it",
        ),
        (0.1, 0.9, "So that", "falls", "it stays"),
        (0.9, 0.9, "Not so that", "stays", "it stays"),
        (0.9, 1e-6, "Not so that", "stays", "it all but vanishes, at 10⁻⁶ of it"),
        (0.1, 0.1, "Not so that", "falls", "it falls"),
        (0.1, 8.0, "So that", "falls", "it stays, at 8.0 of it"),
    ],
)
def test_why_says_which_way_the_gradient_goes(last, pooled, lead, alone, together):
    text = front.why(made(both(last, pooled)), "compact")
    assert f"**Why?** {lead} learning reaches" in text
    assert f"without pooling {alone}" in text
    assert f"with pooling {together}" in text
    assert "so far" not in text


def test_why_has_the_geometric_mean_over_seeds_and_the_weakest_pooling():
    profiles = [
        measured(run("last", seed, "compact", size=500, epochs=1), gradients(1.0, 1.0, (ratio, ratio)))
        for seed, ratio in enumerate((1e-2, 1e-4))
    ]
    pooled = made({"mean": 0.9, "max": 0.4, "attention": 0.8, "max_attention": 0.7})
    points = [*pooled.points("gradients").to_dict("records"), *(p for part in profiles for p in part)]
    text = front.why(runs(gradients=points), "compact")
    assert "to 0.001 of what it is at the ends" in text
    assert "at 0.4 of it or more (so far 2 seeds)" in text


@pytest.mark.parametrize(
    ("mid", "standard", "expected"),
    [
        ((50, 75), (72, 80), ["Above all when what decides", "guesses (50 %)", "25 points above it"]),
        ((70, 75), (72, 90), ["Above all when nothing", "is right (70 %)", "5 points above it"]),
        ((70, 60), (72, 80), ["Above all when nothing", "10 points below it", "8 points above it"]),
        ((70, 75), (72, 77), ["In no setting clearly more", "at 72 %"]),
        ((70, 75), (72, 77.2), ["In no setting clearly more"]),
        ((80, 60), (80, 50), ["Above all when what", "20 points below it", "30 points below it"]),
        ((70, 70.2), (72, 90), ["is right (70 %) and the weakest pooling is as good"]),
    ],
)
def test_when_says_which_way_accuracies_go(mid, standard, expected):
    text = front.when(made(mid=both(*mid), standard=both(*standard)), "compact")
    for part in expected:
        assert part in text


def test_when_is_about_the_weakest_pooling_of_each_setting():
    mid = both(50, 90, mean=60)
    text = front.when(made(mid=mid, standard=both(70, 90, max=75)), "compact")
    assert "weakest pooling is about 10 points above it" in text
    assert "weakest pooling about 5 points above it" in text
    wide = both(50, 90, mean=[50.0, 60.0, 70.0])  # whose mean is the same, and whose interval is not
    assert "In no setting clearly more" in front.when(
        made(mid=wide, standard=both(70, 90, max=75)), "compact"
    )


@pytest.mark.parametrize(("above", "guesses"), [(GUESSING, True), (GUESSING + 0.1, False)])
def test_guessing_is_as_chapter_two_has_it(above, guesses):
    text = front.when(made(mid=both([50 + above], 80), standard=both(70, 80)), "compact")
    assert ("guesses (" in text) == guesses


@pytest.mark.parametrize(
    ("mid", "standard", "expected"),
    [
        (
            {"max": 90},
            {"max": 91},
            "MaxPool has the highest mean in both, 90.0 and 91.0 %, each clearly",
        ),
        (
            {"max": 90},
            {"mean": 91},
            "In the middle MaxPool has the highest mean, 90.0 %, and on reviews as they are MeanPool, 91.0 %",
        ),
        ({"max": [99, 81, 81]}, {"max": 91}, "clearly ahead of all others on reviews as they are alone"),
        ({"max": 90}, {"max": [99, 81, 81]}, "clearly ahead of all others in the middle alone"),
        ({"max": [99, 81, 81]}, {"max": [99, 81, 81]}, "neither clearly ahead of all others"),
        ({"max": [90.0]}, {"max": [90.0]}, "neither clearly ahead of all others (so far 1 seed)"),
    ],
)
def test_which_names_the_leader_and_whether_it_is_ahead_for_sure(mid, standard, expected):
    found = made(mid=both(50, 80, **mid), standard=both(70, 80, **standard))
    assert expected in front.which(found, "compact")


def test_few_seeds_are_said_to_be_few():
    for seeds, expected in ((2, "(so far 2 seeds)"), (1, "(so far 1 seed)")):
        assert expected in front.when(
            made(mid=both(50, 75), standard=both(72, 80), seeds=seeds), "compact"
        )


def test_the_page_shows_the_thesiss_scale_once_three_seeds_of_all_are_there():
    def scale(seeds=3, **others):
        settings = {"mid": both(50, 75, **others), "standard": both(72, 80)}
        return front.scale_shown(made(both(0.1, 0.9), **settings, seeds=seeds, scale="thesis"))

    assert (scale(), scale(2), scale(max=[70, 71])) == ("thesis", "compact", "compact")
    assert front.scale_shown(Runs(None)) == "compact"
    without = made(mid=both(50, 75), standard=both(72, 80), scale="thesis")
    assert front.scale_shown(without) == "compact"


def test_the_scales_are_never_mixed():
    large = made(both(0.9, 0.9), both(90, 90), both(90, 90), scale="thesis")
    for sentence in (front.why, front.when, front.which):
        assert sentence(large, "compact").endswith("No runs say it yet.")
        assert not sentence(large, "thesis").endswith("No runs say it yet.")


def test_without_runs_nothing_is_said():
    for sentence in front.answers(Runs(None)).paragraphs:
        assert sentence.endswith("No runs say it yet.")
    assert front.profiles_of(Runs(None), "compact").empty
    assert "no runs yet" in front.provenance(Runs(None))
    assert front.draw_front(Runs(None)).axes


def test_the_sentences_have_the_numbers_of_the_record(recorded):
    """Read from the table of trainings alone."""
    scale = front.scale_shown(recorded)
    rows = recorded.trainings
    large = {"hidden_size": 256, "epochs": 20}
    wanted = (
        large if scale == "thesis" else {"hidden_size": 64, "epochs": 8, "max_words": 140, "test": 2_000}
    )
    wanted |= {"size": 1_000, "corpus": "imdb", "length": "long", "masked": True, "vectors": "glove.6B.100d",
               "cell": "lstm", "weight_decay": 0, "drop_connect": 0, "learning_rate": 2e-3, "layers": 1,
               "bidirectional": True}  # fmt: skip
    for name, value in wanted.items():
        rows = rows[rows[name] == value]
    means = rows[rows["model"].isin(front.MODELS)].groupby(["setting", "model"])["test_accuracy"].mean()
    why, when, which = front.answers(recorded).paragraphs
    assert re.search(r"to \S+ of what it is at the ends", why)
    for setting in front.SETTINGS:
        assert f"{means[setting, 'last']:.0f} %" in when
        assert f"{means[setting].max():.1f}" in which
    line = front.provenance(recorded)
    assert re.match(r"Provenance: \d+ runs; corpus imdb; 500, 1,000 training texts; ", line)
    assert ("at the thesis's scale" in line) == (scale == "thesis")


# the counts


def test_a_notebook_has_no_roles_and_no_links_to_a_page_that_is_not_there(recorded, decided):
    shown = [front.answers(recorded), front.verdict_line(decided)]
    for sentences in shown:
        bundle = sentences._repr_mimebundle_()
        for form in ("text/html", "text/plain"):
            assert "ledger.html" not in bundle[form]
        assert not re.search(r"\{doc\}|`|\*\*|&lt;|href", bundle["text/html"])
        assert bundle["text/html"].count("<p>") == len(sentences.paragraphs)
    assert "<b>Why?</b> " in shown[0]._repr_mimebundle_()["text/html"]
    assert "ledger.html#" in shown[1]._repr_mimebundle_()["text/markdown"]


def test_a_count_says_what_it_counts_at_each_scale():
    decided = [
        Decision(claim, {"thesis": Finding(VERDICTS[i % 2]), "compact": Finding("not run")})
        for i, claim in enumerate(CLAIMS[:3])
    ]
    (line,) = front.verdict_line(decided).paragraphs
    assert line.startswith('Of the <a href="ledger.html#source=thesis">3</a> claims that we read')
    assert '#verdict=holds&amp;source=thesis">2</a> hold and ' in line
    assert '#verdict=does+not+hold&amp;source=thesis">1</a> does not hold;' in line
    assert line.endswith(
        'compact, <a href="ledger.html#compact=not+run&amp;source=thesis">3</a> were not run.'
    )
    ours = replace(decided[0], claim=replace(CLAIMS[0], section="ours"))
    assert front.verdict_line([*decided, ours]).paragraphs == (line,)
    for verdict in VERDICTS:
        (alone,) = front.verdict_line([Decision(CLAIMS[0], {"compact": Finding(verdict)})]).paragraphs
        assert re.search(r">1</a> (holds|does not hold|is undecided|was not run)( so far)?\.$", alone)


# the figure and the page


def test_the_figure_draws_every_model_twice():
    whole = made(both(0.01, 0.9), both(50, 75), both(72, 80))
    left, right = front.draw_front(whole).axes
    assert len(left.lines) == len(front.MODELS)
    assert left.get_yscale() == "log"
    assert [label.get_text() for label in right.get_yticklabels()] == [
        "BiLSTM", "MeanPool", "MaxPool", "Att", "MaxAtt",
    ]  # fmt: skip
    assert [round(right.lines[4 * n].get_xdata()[1]) for n in range(5)] == [50, 75, 75, 75, 75]
    assert right.lines[-1].get_xdata()[0] == pytest.approx(50)  # chance
    lacking = made(both(0.01, 0.9), both(50, 75), {"last": 72})
    assert len(front.draw_front(lacking).axes) == 1


def test_the_figure_is_light(recorded, tmp_path):
    import matplotlib.pyplot as plt

    with plt.rc_context():
        use_style()
        plt.rcParams |= {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
        front.draw_front(recorded).savefig(tmp_path / "front.svg")
    assert (tmp_path / "front.svg").stat().st_size < 22_000


def test_the_page_types_no_number_of_ours():
    """What stands before the first heading comes from runs."""
    text = (ROOT / "book" / "index.md").read_text()
    above = re.sub(r"^```.*?^```", "", text.split("\n# ")[1].split("\n## ")[0], flags=re.S | re.M)
    assert above.split("\n", 1)[1].strip() == ""
    for call in ("front.answers(runs)", "front.draw_front(runs)", "front.provenance(runs)"):
        assert call in text
    assert "front.verdict_line(ledger.ledger(runs))" in text
