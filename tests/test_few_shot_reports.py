"""The tables, figures and word strips of "Learning under limited data", on invented runs."""

import csv
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from whenpool.book.report import few_shot
from whenpool.book.report.verdicts import MARKS
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.runs.kinds.few_shot import SYSTEMS, UNLABELLED, FewShot

PAPER = Path(__file__).parents[1] / "data" / "paper" / "few_shot.csv"


def invented(system, accuracy=60.0, *, result=None, **changes):
    """A row of `Store.rows` of a run that nobody made, by default of MiniLM on IMDb."""
    values = {"encoder": MINILM, "test": 1_000, "corpus": "imdb", "unlabelled": 5_000} | changes
    run = FewShot(system=system, **values)
    reads = run.unlabelled if system in UNLABELLED else 0
    row = asdict(run) | {
        "key": "-".join(map(str, asdict(run).values())), "protocol": 1, "test_accuracy": accuracy,
        "test_loss": 0.5, "validation_accuracy": accuracy, "best_epoch": 1, "majority_accuracy": 50.5,
        "steps_done": run.steps, "classes": 2, "corpus_complete": True,
        "labelled_texts": 2 * run.per_class, "unlabelled_texts": reads, "unlabelled_read": reads // 5,
        "validation_texts": 100, "test_texts": run.test or 24_000, "test_cut": 300,
        "tokens_read": None if system == "vampire" else run.max_tokens,
        "parameters": 1_315_330, "encoder_parameters": 22_713_216 if run.has_encoder else 0,
        "seconds": 75.0, "commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02",
    }  # fmt: skip
    row["encoder"] = run.encoder if run.has_encoder else None
    return row | (result or {})


THESIS = {
    "encoder": DEFAULT_ENCODER, "test": None, "max_tokens": 512, "unlabelled": 10_000, "steps": 20_000,
}  # fmt: skip


def table(*rows):
    return pd.DataFrame(rows)


def seeds(system, accuracies, **changes):
    return [invented(system, value, seed=seed, **changes) for seed, value in enumerate(accuracies)]


def empty(place):
    return place.store.rows("few-shot")


def numbers():
    with open(PAPER, newline="") as file:
        return {(row["model"], row["corpus"]): float(row["accuracy"]) for row in csv.DictReader(file)}


NUMBERS = numbers()


KINDS = [  # of the thesis's kind, on a whole corpus
    ("max_attention", {}, {}, (True, True)),
    ("max_attention", {"encoder": MINILM}, {}, (False, True)),
    ("max_attention", {"test": 1_000}, {}, (False, True)),
    ("max_attention", {"max_tokens": 256}, {}, (False, True)),
    ("max_attention", {"hidden_size": 64}, {}, (False, True)),
    ("max_attention", {"length": "long"}, {}, (False, False)),
    ("max_attention", {"corpus": "synthetic"}, {}, (False, False)),
    ("max_attention", {}, {"corpus_complete": False}, (False, False)),
    ("bert", {"max_tokens": 256}, {}, (True, True)),
    ("bert", {"max_tokens": 128}, {}, (False, True)),
    ("uda", {"unlabelled": 9_999}, {}, (False, True)),
    ("mixtext", {"corpus": "yahoo", "unlabelled": 50_000}, {"classes": 10}, (True, True)),
    ("vampire", {}, {}, (True, True)),  # it has no encoder
    ("uda", {"steps": 19_999}, {}, (False, True)),
    ("bert", {"steps": 999}, {}, (False, True)),
    ("mixtext", {}, {"unlabelled_texts": 9_999}, (False, True)),
]


@pytest.mark.parametrize(("system", "changes", "result", "expected"), KINDS, ids=str)
def test_of_which_kind_a_run_is(system, changes, result, expected):
    others = [invented("bert", encoder="some/other"), invented("last_words", vectors="glove")]
    runs = few_shot.arranged(table(*others, invented(system, 1.0, **THESIS | changes, result=result)))
    found = [kind(runs)[runs["test_accuracy"] == 1.0].item() for kind in (
        few_shot.follows_thesis, few_shot.on_whole_corpus
    )]  # fmt: skip
    assert found == list(expected)


def test_of_several_configurations_that_with_the_most_seeds_is_shown():
    kept = seeds("bert", [60.0, 61.0], steps=100)
    rows = [*kept, *seeds("bert", [90.0], steps=200), *seeds("bert", [80.0], learning_rate=1e-5)]
    found = few_shot.one_configuration(few_shot.arranged(table(*rows)), ["system"])
    assert found["test_accuracy"].tolist() == [60.0, 61.0]
    more = table(*seeds("bert", [70.0], test=500, steps=900), *seeds("bert", [71.0], steps=200),
                 *seeds("bert", [72.0], steps=300))  # fmt: skip
    found = few_shot.one_configuration(few_shot.arranged(more), ["system"])
    assert found["test_accuracy"].tolist() == [72.0]
    twice = table(*kept, *kept)
    assert len(few_shot.one_configuration(few_shot.arranged(twice), ["system"])) == 2


def test_the_encoder_of_the_most_runs_is_shown_with_what_has_none():
    rows = [*seeds("bert", [60.0, 61.0]), *seeds("uda", [62.0]), invented("vampire", 50.0)]
    rows += [*seeds("tmix", [90.0, 91.0], encoder="some/other"), invented("bert", 92.0, corpus="yahoo")]
    rows += [invented("max_attention_words", 55.0, vectors="glove")]
    found = few_shot.on_record(table(*rows))
    assert found["test_accuracy"].tolist() == [50.0, 60.0, 61.0, 62.0, 55.0]


def test_table_1_9_without_runs_has_the_numbers_of_the_thesis_alone(place):
    shown = few_shot.thesis_table(empty(place))
    assert list(shown.frame) == ["system", "unlabelled text", "source", "Yahoo", "IMDb"]
    expected = [
        [few_shot.NAMES[s], *(f"{NUMBERS[s, corpus]:.1f}" for corpus in ("yahoo", "imdb"))]
        for s in SYSTEMS
    ]
    assert shown.frame[["system", "Yahoo", "IMDb"]].to_numpy().tolist() == expected
    marks = dict(zip(SYSTEMS, shown.frame["unlabelled text"], strict=True))
    assert {name for name, mark in marks.items() if mark != "no"} == set(UNLABELLED)
    assert marks["vampire"] == "in pretraining"
    assert shown.provenance == "Provenance: the thesis alone; none of it has been run here."


@pytest.mark.parametrize(("system", "corpus"), [*((s, "imdb") for s in SYSTEMS), ("uda", "yahoo")])
@pytest.mark.parametrize(
    ("off", "spread", "count", "changes", "result", "verdict"),
    [
        (0.5, 0.2, 3, {}, {}, "reproduced"), (-6.0, 0.2, 3, {}, {}, "differs"),
        (0.0, 3.0, 3, {}, {}, "undecided"), (0.5, 0.2, 2, {}, {}, "so far"),
        (0.5, 0.2, 3, {"test": 1_000}, {}, "pilot"), (0.5, 0.2, 3, {"steps": 128}, {}, "pilot"),
        (0.5, 0.2, 3, {}, {"corpus_complete": False}, "pilot"),
    ],
)  # fmt: skip
def test_ours_stand_below_with_a_verdict(system, corpus, off, spread, count, changes, result, verdict):
    middle = NUMBERS[system, corpus] + off
    values = [middle - spread, middle, middle + spread][:count]
    options = THESIS | {"corpus": corpus, "unlabelled": 50_000} | changes
    result = {"classes": 10} | result
    shown = few_shot.thesis_table(table(*seeds(system, values, result=result, **options)))
    ours = f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f} ({count})"
    text = f"**{ours}** {MARKS[verdict]}"
    name = {"yahoo": "Yahoo", "imdb": "IMDb"}[corpus]
    assert text in shown.frame[name].tolist()
    assert shown.frame.isin([text]).to_numpy().sum() == 1
    assert f"{count} runs; corpus {corpus}; 20 training texts" in shown.provenance
    assert f"{name}: 20 labelled" in shown.legend


def test_runs_of_the_thesis_count_before_others_and_whole_corpora_before_parts():
    rows = [*seeds("tmix", [69.0, 69.3, 69.6], **THESIS), *seeds("tmix", [50.0] * 5)]
    rows += seeds("tmix", [99.0] * 5, per_class=30, **THESIS)
    rows += [*seeds("bert", [60.0]), *seeds("bert", [90.0] * 3, result={"corpus_complete": False})]
    cells = few_shot.thesis_cells(table(*rows)).set_index(["system", "corpus"])
    cell = cells.loc[("tmix", "imdb")]
    assert (cell["verdict"], cell["n"], cell["ours"]) == ("reproduced", 3, pytest.approx(69.3))
    assert cells.loc[("bert", "imdb"), ["verdict", "ours"]].tolist() == ["pilot", 60.0]
