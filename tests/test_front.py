"""The front page: its sentences follow the runs, whichever way, and its counts are the ledger's."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from whenpool.report import front, ledger
from whenpool.report.claims import VERDICTS, Decision, claims
from whenpool.report.evidence import Evidence
from whenpool.report.figures import use_style
from whenpool.report.tricks import GUESSING
from whenpool.runs import Place
from whenpool.store import Store

ROOT = Path(__file__).parents[1]
CLAIMS = claims()
EMPTY = pd.DataFrame()
COMMON = {"corpus": "imdb", "length": "long", "masked": True, "forget_bias": "thesis"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return Place(Store(folder, ROOT / "data" / "results"), folder, folder)


@pytest.fixture(scope="module")
def on_record(place):
    return ledger.evidence_at(place)


def evidence(middle=None, accuracies=None, seeds=3):
    """Made-up runs.

    Args:
        middle: for each model, its gradient in the middle over that at the ends.
        accuracies: for each setting and model, a list of accuracies by seed.
    """
    profiles, trainings = [], []
    for model, ratio in (middle or {}).items():
        norms = np.where((np.arange(100) > 0) & (np.arange(100) < 99), ratio, 1.0)
        for seed in range(seeds):
            row = COMMON | {
                "key": f"{model}{seed}",
                "setting": "standard",
                "pooling": model,
                "seed": seed,
            }
            row |= {"size": 500, "epochs": 1}
            profiles += [row | {"position": i + 1, "mean": value} for i, value in enumerate(norms)]
    for setting, reached in (accuracies or {}).items():
        for model, values in reached.items():
            for seed, value in enumerate(values):
                row = COMMON | {"setting": setting, "pooling": model, "seed": seed, "size": front.SIZE}
                trainings.append(row | {"test_accuracy": value, "majority_accuracy": 50.0})
    measured = dict.fromkeys(("trace", "sweep", "nwi"), EMPTY)
    return Evidence(pd.DataFrame(trainings), measured | {"gradients": pd.DataFrame(profiles)})


def gradients(last, pooled):
    return evidence({"last": last} | dict.fromkeys(front.POOLED, pooled))


def reached(mid, standard, seeds=3, others=None):
    """Runs whose BiLSTM and poolings reach the given accuracies, the same for every seed."""
    settings = {}
    for name, (last, pooled) in {"mid": mid, "standard": standard}.items():
        both = {"last": last} | dict.fromkeys(front.POOLED, pooled) | (others or {}).get(name, {})
        settings[name] = {
            model: value if isinstance(value, list) else [value] * seeds for model, value in both.items()
        }
    return evidence(accuracies=settings)


@pytest.mark.parametrize(
    ("last", "pooled", "lead", "alone", "together"),
    [
        (1e-6, 0.9, "So that", "all but vanishes", "it stays, at 0.9 of it"),
        (0.1, 0.9, "So that", "falls", "it stays"),
        (0.9, 0.9, "Not so that", "stays", "it stays"),
        (0.9, 1e-6, "Not so that", "stays", "it all but vanishes, at 10⁻⁶ of it"),
        (0.1, 0.1, "Not so that", "falls", "it falls"),
        (0.1, 8.0, "So that", "falls", "it grows, at 8 of it"),
    ],
)
def test_why_says_which_way_the_gradient_goes(last, pooled, lead, alone, together):
    text = front.why(gradients(last, pooled))
    assert f"**Why?** {lead} learning reaches" in text
    assert f"without pooling {alone} on its way" in text
    assert f"with pooling {together}" in text
    assert "so far" not in text


def test_seeds_that_disagree_are_said_to():
    assert front.fate({0: 0.1, 1: 0.5}) == "falls for some seeds only"
    assert front.direction({0: 1.0, 1: 2.0}) == 1
    assert front.direction({0: -1.0, 1: -2.0}) == -1
    assert front.direction({0: -1.0, 1: 2.0}) == front.direction({0: 0.0, 1: 2.0}) == 0


@pytest.mark.parametrize(
    ("mid", "standard", "expected"),
    [
        (
            (50, 75),
            (72, 80),
            ["Above all when what decides", "guesses (50.0 %)", "25.0 points above it"],
        ),
        ((70, 75), (72, 90), ["Above all when nothing", "is right (70.0 %)", "5.0 points above it"]),
        ((70, 60), (72, 80), ["Above all when nothing", "10.0 points below it", "8.0 points above it"]),
        ((70, 75), (72, 77), ["In no setting clearly more", "at 72.0 %"]),
        ((80, 60), (80, 50), ["Above all when what", "20.0 points below it", "30.0 points below it"]),
    ],
)
def test_when_says_which_way_accuracies_go(mid, standard, expected):
    text = front.when(reached(mid, standard))
    for part in expected:
        assert part in text


def test_when_seeds_disagree_on_a_gap_it_says_from_where_to_where():
    found = reached((50, 75), (72, 80), others={"standard": {"last": [70.0, 82.0, 75.0]}})
    assert "the weakest pooling between 2.0 points below it and 10.0 above" in front.when(found)


def test_a_model_guesses_up_to_the_margin_of_the_chapters():
    assert front.is_guessing(reached((50 + GUESSING, 75), (72, 80)), "last", "mid")
    assert not front.is_guessing(reached((50.1 + GUESSING, 75), (72, 80)), "last", "mid")
    assert not front.is_guessing(evidence(), "last", "mid")


@pytest.mark.parametrize(
    ("mid", "standard", "expected"),
    [
        (
            {"max": 90},
            {"max": 91},
            "MaxPool has the highest mean in both, 90.0 and 91.0 %, for each seed.",
        ),
        ({"last": 90}, {"last": 91}, "BiLSTM has the highest mean in both, 90.0 and 91.0 %, for each"),
        (
            {"max": 90},
            {"mean": 91},
            "In the middle MaxPool has the highest mean, 90.0 %, and on reviews as",
        ),
        (
            {"max": [90, 90, 60]},
            {"max": 91},
            "in both, 80.0 and 91.0 %, for each seed in the latter alone",
        ),
        ({"max": 90}, {"max": [99, 99, 60]}, "for each seed in the former alone"),
        ({"max": [90, 90, 60]}, {"max": [99, 99, 60]}, "though not for each seed"),
    ],
)
def test_which_names_the_leader(mid, standard, expected):
    assert expected in front.which(
        reached((50, 75), (72, 80), others={"mid": mid, "standard": standard})
    )


def test_when_compares_seeds_that_both_settings_have():
    """The third seed of mid has no other side: it neither decides nor counts in a mean."""
    mid = {"last": [50.0, 52.0, 99.0]} | dict.fromkeys(front.POOLED, (75.0, 77.0, 10.0))
    standard = {"last": [72.0, 74.0]} | dict.fromkeys(front.POOLED, (80.0, 82.0))
    text = front.when(evidence(accuracies={"mid": mid, "standard": standard}))
    assert "Above all when what decides" in text
    assert "(51.0 %)" in text
    assert "25.0 points above it" in text
    assert "(so far 2 seeds)" in text


def test_settings_without_a_common_seed_say_nothing():
    found = reached((50, 75), (72, 80))
    runs = found.trainings
    apart = runs["seed"].where(runs["setting"] == "mid", runs["seed"] + 10)
    moved = Evidence(runs.assign(seed=apart), found.measured)
    assert front.when(moved) == "**When?** No runs of record say it yet."
    by_model = runs["seed"].where(runs["pooling"] == "max", runs["seed"] + 10)
    moved = Evidence(runs.assign(seed=by_model), found.measured)
    assert front.which(moved) == "**Which?** No runs of record say it yet."


def test_the_leader_is_that_of_the_seeds_that_all_models_have():
    everyone = dict.fromkeys(front.MODELS, (70.0,))
    mid = everyone | {"max": [80.0, 10.0], "mean": [75.0, 99.0]}
    text = front.which(evidence(accuracies={"mid": mid, "standard": everyone | {"max": [90.0]}}))
    assert (
        "MaxPool has the highest mean in both, 80.0 and 90.0 %, for each seed (so far 1 seed)." in text
    )


def test_few_seeds_are_said_to_be_few():
    assert "(so far 2 seeds)" in front.when(reached((50, 75), (72, 80), seeds=2))
    assert "(so far 1 seed)" in front.when(reached((50, 75), (72, 80), seeds=1))


def test_without_runs_nothing_is_said():
    for sentence in front.answers(evidence()).paragraphs:
        assert sentence.endswith("No runs of record say it yet.")
    assert front.profiles_of(evidence()).empty
    assert "no runs yet" in front.provenance(evidence())
    assert front.draw_front(evidence()).axes


def test_the_sentences_have_the_numbers_of_the_record(on_record):
    why, when, which = front.answers(on_record).paragraphs
    runs = on_record.trainings
    mine = runs[(runs["size"] == 1000) & (runs["corpus"] == "imdb") & runs["masked"].astype(bool)]
    means = mine.groupby(["setting", "pooling"])["test_accuracy"].mean()
    for setting in front.SETTINGS:
        assert f"{means[setting, 'last']:.1f} %" in when
        assert f"{means[setting].max():.1f}" in which
    assert re.search(r"to \S+ to \S+ of what it is at the ends", why)


def test_small_and_synthetic_runs_are_not_evidence(on_record):
    for runs in (front.profiles_of(on_record).drop_duplicates("key"), front.accuracies_of(on_record)):
        assert set(runs["corpus"]) == {"imdb"}
        assert set(runs["hidden_size"]) == {256}
        assert runs["corpus_complete"].all()


# the counts


def test_the_counts_are_those_of_the_ledger_and_of_the_command(on_record, place):
    decided = ledger.ledger(on_record)
    (line,) = front.verdict_line(decided).paragraphs
    printed = json.loads(ledger.written(place, "json"))["claims"]
    of_thesis = [row for row in printed if row["section"] != "ours"]
    verdicts = [row["verdict"] for row in of_thesis if row["scale"] == "thesis"]
    link = r'href="ledger.html#verdict=([\w+]+)&amp;source=thesis&amp;scale=thesis">(\d+)</a>'
    linked = dict(re.findall(link, line))
    assert {name.replace("+", " "): int(count) for name, count in linked.items()} == Counter(verdicts)
    assert f'#source=thesis&amp;scale=thesis">{len(verdicts)}</a> claims' in line
    assert len(verdicts) < len(printed)


def test_a_notebook_has_no_roles_and_no_links_to_a_page_that_is_not_there(on_record):
    shown = [front.answers(on_record), front.verdict_line(ledger.ledger(on_record))]
    for sentences in shown:
        bundle = sentences._repr_mimebundle_()
        for form in ("text/html", "text/plain"):
            assert "ledger.html" not in bundle[form]
        assert not re.search(r"\{doc\}|`|\*\*|&lt;|href", bundle["text/html"])
        assert bundle["text/html"].count("<p>") == len(sentences.paragraphs)
    assert "<b>Why?</b> " in shown[0]._repr_mimebundle_()["text/html"]
    assert "ledger.html#" in shown[1]._repr_mimebundle_()["text/markdown"]


def test_a_count_says_what_it_counts():
    decided = [Decision(claim, {}, VERDICTS[i % 2]) for i, claim in enumerate(CLAIMS[:3])]
    (line,) = front.verdict_line(decided).paragraphs
    assert '#verdict=holds&amp;source=thesis&amp;scale=thesis">2</a> hold and ' in line
    assert '#verdict=does+not+hold&amp;source=thesis&amp;scale=thesis">1</a> does not hold.' in line
    small = replace(CLAIMS[0], scale="small")
    with_small = [*decided, Decision(small, {}, "not run")]
    assert front.verdict_line(with_small).paragraphs == (line,)
    (more,) = front.verdict_line([*decided, Decision(small, {}, "holds")]).paragraphs
    assert more.startswith(line)
    assert re.search(r'#source=thesis&amp;scale=small">1</a> more is decided on small models', more)
    for verdict in VERDICTS:
        (alone,) = front.verdict_line([Decision(CLAIMS[0], {}, verdict)]).paragraphs
        assert re.search(r">1</a> (holds|does not hold|is undecided|was not run)( so far)?\.$", alone)


# the figure and the page


def test_the_figure_draws_every_model_twice(on_record):
    figure = front.draw_front(on_record)
    left, right = figure.axes
    assert len(left.lines) == len(front.MODELS)
    assert left.get_yscale() == "log"
    assert [label.get_text() for label in right.get_yticklabels()] == [
        "BiLSTM", "MeanPool", "MaxPool", "Att", "MaxAtt",
    ]  # fmt: skip


def test_the_figure_is_light(on_record, tmp_path):
    import matplotlib.pyplot as plt

    with plt.rc_context():
        use_style()
        plt.rcParams |= {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
        front.draw_front(on_record).savefig(tmp_path / "front.svg")
    assert (tmp_path / "front.svg").stat().st_size < 22_000


def test_the_page_types_no_number_of_ours():
    """What stands before the first heading comes from runs."""
    text = (ROOT / "book" / "index.md").read_text()
    above = re.sub(r"^```.*?^```", "", text.split("\n# ")[1].split("\n## ")[0], flags=re.S | re.M)
    assert above.split("\n", 1)[1].strip() == ""
    for call in ("front.answers(evidence)", "front.draw_front(evidence)", "front.provenance(evidence)"):
        assert call in text
    assert "front.verdict_line(ledger.ledger(evidence))" in text
