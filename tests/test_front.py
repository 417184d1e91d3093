"""The front page: its sentences follow the runs, whichever way, and its counts are the ledger's."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import gradients, measured, run, runs, trained

from whenpool.book.report import front
from whenpool.book.report.claims import VERDICTS, Decision, Finding, claims
from whenpool.book.report.measures import Runs

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
        (1e-6, 0.9, "So that", "is 10⁻⁶ there", "it is 0.9 of it"),
        (0.9, 0.9, "Not so that", "is 0.9 there", "it is 0.9 of it"),
        (0.9, 1e-6, "Not so that", "is 0.9 there", "it is 10⁻⁶ of it"),
        (0.1, 0.1, "Not so that", "is 0.1 there", "it is 0.1 of it"),
        (0.1, 8.0, "So that", "is 0.1 there", "it is 8.0 of it"),
    ],
)
def test_why_says_whether_pooling_brings_the_gradient_to_the_middle(last, pooled, lead, alone, together):
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
    assert "is 0.001 there of what it is at the ends" in text
    assert "it is 0.4 of it or more (so far 2 seeds)" in text


@pytest.mark.parametrize(
    ("mid", "standard", "expected"),
    [
        ((50, 75), (72, 80), "Above all when what decides"),
        ((70, 75), (72, 90), "Above all when nothing"),
        ((70, 75), (72, 77), "In no setting clearly more"),
        ((80, 60), (80, 50), "Above all when what"),
    ],
)
def test_when_says_where_the_weakest_pooling_gains_most(mid, standard, expected):
    mid, standard = both(*mid, max=mid[1] - 1), both(*standard, mean=standard[1] - 1)
    text = front.when(made(mid=mid, standard=standard), "compact")
    assert expected in text
    assert f"right in {mid['last']} % of all cases and the weakest pooling in {mid['max']} %" in text
    assert f"these are {standard['last']} % and {standard['mean']} %" in text


def test_when_is_sure_of_nothing_that_seeds_differ_in():
    wide = both(50, 90, mean=[50.0, 60.0, 70.0])
    text = front.when(made(mid=wide, standard=both(70, 90, max=75)), "compact")
    assert "In no setting clearly more" in text


@pytest.mark.parametrize(
    ("mid", "standard", "expected"),
    [
        (
            {"max": 90}, {"mean": 91},
            "those of MaxPool in the middle (90.0 %) and MeanPool on reviews as they are (91.0 %). The lead "
            "over all others is clear in the middle and on reviews as they are. See",
        ),
        ({"max": [99, 81, 81]}, {"max": 91}, "clear on reviews as they are. See"),
        ({"max": 90}, {"max": [99, 81, 81]}, "clear in the middle. See"),
        ({"max": [90.0]}, {"max": [90.0]}, "clear in neither (so far 1 seed). See"),
    ],
)  # fmt: skip
def test_which_names_the_leader_and_whether_it_is_ahead_for_sure(mid, standard, expected):
    found = made(mid=both(50, 80, **mid), standard=both(70, 80, **standard))
    assert expected in front.which(found, "compact")


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
    assert re.search(r"is \S+ there of what it is at the ends", why)
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
    total = '<a href="ledger.html#source=thesis">3</a>'
    assert line.startswith(f"Our verdicts on the {total} claims that we read in the thesis")
    assert 'holds <a href="ledger.html#verdict=holds&amp;source=thesis">2</a>' in line
    assert 'does not hold <a href="ledger.html#verdict=does+not+hold&amp;source=thesis">1</a>;' in line
    assert line.endswith('not run <a href="ledger.html#compact=not+run&amp;source=thesis">3</a>.')
    ours = replace(decided[0], claim=replace(CLAIMS[0], section="ours"))
    assert front.verdict_line([*decided, ours]).paragraphs == (line,)


# the figure and the page


def test_the_figure_draws_every_model_twice():
    whole = made(both(0.01, 0.9), both(50, 75), both(72, 80))
    left, right = front.draw_front(whole).axes
    assert len(left.lines) == len(front.MODELS)
    names = [label.get_text() for label in right.get_yticklabels()]
    drawn = {line.get_ydata()[0]: line.get_xdata() for line in right.lines[:-1:4]}
    assert {names[place]: [round(x) for x in values] for place, values in drawn.items()} == {
        "BiLSTM": [72, 50], "MeanPool": [80, 75], "MaxPool": [80, 75], "Att": [80, 75], "MaxAtt": [80, 75],
    }  # fmt: skip
    assert right.lines[-1].get_xdata()[0] == pytest.approx(50)  # chance
    lacking = made(both(0.01, 0.9), both(50, 75), {"last": 72})
    assert len(front.draw_front(lacking).axes) == 1
