"""The front page: its numbers are those of the runs, and its counts the ledger's."""

import html
import re
from dataclasses import replace

from clones import ROOT
from made_up import LEDGER, gradients, measured, run, runs, trained

from whenpool.book import ledger
from whenpool.book.claims import VERDICTS, Decision, Finding
from whenpool.book.results import Runs

CLAIMS = [claim for claim in LEDGER if claim.of_thesis]


def made(middle=(), seeds=3, scale="compact", **reached):
    """Made-up runs of each model: its gradient in the middle over that at the ends, or a list by seed; and
    by setting its mean accuracy, or a list by seed."""
    profiles, trainings = [], []
    for model, ratios in dict(middle).items():
        for seed, ratio in enumerate(ratios if isinstance(ratios, list) else [ratios] * seeds):
            row = run(model, seed, scale, size=500, epochs=1)
            profiles += measured(row, gradients(2.0, 2.0, (2 * ratio, 2 * ratio)))
    for setting, means in reached.items():
        for model, mean in means.items():
            own = mean if isinstance(mean, list) else [mean - 0.5, mean, mean + 0.5][:seeds]
            trainings += trained(own, scale, model=model, setting=setting)
    return runs(trainings, gradients=profiles)


def both(last, pooled, **others):
    """The BiLSTM and the poolings, the same for each but the others."""
    return {"last": last} | dict.fromkeys(front.POOLED, pooled) | others


def test_the_page_names_the_numbers_of_the_runs():
    whole = made(
        {"last": [1e-2, 1e-4, 1e-3], "mean": 0.9, "max": 0.4, "attention": 0.8, "max_attention": 0.7},
        mid=both(50, 75, max=65, chrono=73), standard=both(70, 80, mean=74, chrono=75),
    )  # fmt: skip
    gradients_drawn, accuracies_drawn = front.draw_front(whole).axes
    models = ["BiLSTM", "MeanPool", "MaxPool", "Att", "MaxAtt", "BiLSTM, chrono", "bag of words"]
    assert [label.get_text() for label in accuracies_drawn.get_yticklabels()] == models
    assert len(gradients_drawn.lines) == 5
    facts = front.facts(whole)
    assert facts.items() >= {
        "gradient_last": "1,000",  # one over the geometric mean
        "gradient_pooled": "40",
        "mid_last": "50", "mid_weakest": "65", "mid_best": "75", "mid_gain": "15",
        "mid_max_attention": "75", "mid_chrono": "73", "standard_last": "70", "standard_gain": "4",
    }.items()  # fmt: skip
    assert facts["scale"].startswith("in the compact replication")


def test_small_ratios_are_said_as_one_says_them():
    said = [figures.times_smaller(ratio) for ratio in (2.7e-8, 7.5e-7, 1e-3, float("nan"))]
    assert said == ["37 million", "1.3 million", "1,000", "?"]


def test_the_page_shows_the_thesiss_scale_once_three_seeds_of_all_are_there():
    def scale(seeds=3, **others):
        settings = {"mid": both(50, 75, **others), "standard": both(72, 80)}
        return front.shown(made(both(0.1, 0.9), **settings, seeds=seeds, scale="thesis"))[0]

    assert (scale(), scale(2), scale(max=[70, 71])) == ("thesis", "compact", "compact")
    assert front.shown(Runs(None))[0] == "compact"
    assert front.shown(made(mid=both(50, 75), standard=both(72, 80), scale="thesis"))[0] == "compact"


def test_the_page_has_the_numbers_of_the_record(recorded):
    facts = front.facts(recorded)
    page = (ROOT / "book" / "index.md").read_text()
    glued = {*re.findall(r"\{glue:text\}`(\w+)`", page)}
    assert not [name for name in glued & facts.keys() if facts[name] == "?"]
    assert all(f'glue("{name}"' in page for name in glued - facts.keys() if not name.startswith("bag"))
    line = front.provenance(recorded)
    begins = r"Provenance of the first figure: \d+ runs; corpus imdb; 500, 1,000 training texts; "
    assert re.match(begins, line)
    assert facts["scale"] in line
    readme = html.unescape((ROOT / "book" / "_static" / "front.svg").read_text())
    assert "; ".join(map(" ".join, facts.items())) in readme, "run python scripts/front_figure.py"


def test_bars_count_the_claims_of_the_thesis_at_each_scale():
    decided = [
        Decision(claim, {"thesis": Finding(VERDICTS[i % 2]), "compact": Finding("not run")})
        for i, claim in enumerate(CLAIMS[:3])
    ]
    ours = replace(decided[0], claim=replace(CLAIMS[0], section="ours"))
    shown = front.VerdictBars([*decided, ours])._repr_mimebundle_()
    scales = "at the thesis's scale: 2 hold, 1 does not hold; in the compact replication: 3 not run"
    assert shown["text/plain"] == f"3 claims; {scales}"
    bars = r'style="flex-grow:(\d+)" title="[^"]+" href="ledger.html#([^"]+)&amp;source=thesis"'
    drawn = [("2", "verdict=holds"), ("1", "verdict=does+not+hold"), ("3", "compact=not+run")]
    assert re.findall(bars, shown["text/markdown"]) == drawn
    assert "ledger.html" not in shown["text/html"]  # which is not beside a notebook
    assert "Grey: not run (for lack of data: 0). " in shown["text/markdown"]
    blocked = Decision(replace(CLAIMS[0], needs="a corpus"), {"thesis": Finding("not run")})
    shown = front.VerdictBars([*decided, blocked])._repr_mimebundle_()
    assert "Grey: not run (for lack of data: 1). " in shown["text/markdown"]


def test_each_finding_has_a_badge_with_its_scale_and_seeds(recorded, decided):
    badges = front.badges(recorded, decided)
    page = (ROOT / "book" / "index.md").read_text()
    assert sorted(re.findall(r"\{glue:any\}`(\w+)`", page)) == sorted(badges)
    for badge in badges.values():
        scale = "MiniLM" if badge.decision.claim.chapter == "few_shot" else "(compact|thesis's scale)"
        assert re.fullmatch(rf"{scale}, \d+ seeds", str(badge))
        assert f"#claim-{badge.decision.claim.id}" in badge._repr_mimebundle_()["text/html"]
    assert str(front.Badge(Decision(CLAIMS[0], {}), "thesis")) == "not run yet"
