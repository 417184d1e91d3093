"""The numbers that claims are about: each measure on made-up runs, against numbers worked out by
hand; and what figures of probes call models and texts, and where the text stands among filler."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from called import refused
from made_up import LEDGER, gradients, importance, measured, profile, run, runs, trained

from paper import theory
from paper.chapters import gradient_propagation, word_importance
from paper.chapters.few_shot import STEPS
from paper.chapters.last_state import GATED, STARTS, auc_by_bootstrap, learning_auc
from paper.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from paper.pages import drawing
from paper.runs.kinds.few_shot import SYSTEMS
from paper.verdicts.measures import MEASURES, numbers
from paper.verdicts.results import Runs, Sample
from whenpool.corpora.settings import SETTINGS, SHARE, compose
from whenpool.models.registry import THESIS_POOLINGS

NONE = math.nan
TEXT_IN_THE_MIDDLE = range(33, 67)  # of 100 positions, 66 % of them filler
EARLY = {"size": 500, "epochs": 1}


def values(name, made, *by):
    rows = numbers(made, name).rows
    return rows.set_index([*by] or "seed")["value"].to_dict() if len(rows) else {}


def with_epochs(*histories):
    """Trainings with the epochs that are given, each a table of columns."""
    trainings = trained([70.0] * len(histories))
    epochs = [
        {"key": row["key"], "epoch": number} | one
        for row, history in zip(trainings, histories, strict=True)
        for number, one in reversed([*enumerate(pd.DataFrame(history).to_dict("records"), 1)])
    ]
    return runs(trainings, [*epochs, {**epochs[0], "key": "another"}])


def traced(seed, rows):
    names = ["examples", "ratio", "band_ratio", "train_accuracy"]
    return measured(pd.DataFrame(rows, columns=names).to_dict("records"), seed=seed)


def found(setting, *args, seed=0):
    return measured(importance(*args), seed=seed, setting=setting, shortest=400)


def tagged(seed, **changes):
    row = {
        "corpus": "wnut17",
        "epochs": 16,
        "layers": 1,
        "encoding": None,
        "entities_boundary": 5,
        "entities_predicted": 20,
        "entity_f1": 30.0,
        "test_accuracy": 92.0,
        "gradient_reach": NONE,
    }
    return row | changes | {"seed": seed}


TAGGINGS = [
    tagged(0),
    tagged(1, encoding="io", entity_f1=20.0),
    tagged(2, corpus="ud_ewt", epochs=8, gradient_reach=0.5),
    tagged(90, epochs=8),
    tagged(91, corpus="ud_ewt"),
    tagged(92, layers=2),
]


def rated(accuracy, majority=50.0, validation=NONE, **changes):
    scores = {"test_accuracy": accuracy, "majority_accuracy": majority}
    return run(validation_accuracy=validation, **scores, **changes)


TRAININGS = [
    rated(60.0, 51.0, 61.0),
    rated(62.0, 50.0, 60.0, seed=1, strength=0.3, divergence="forward"),
    rated(63.0, 50.5, 64.0, seed=2, scale="compact"),
    rated(9.0, 8.0, 7.0, seed=3, scale="compact", corpus="yahoo"),
    # tested on other texts than those of the scale, diverged, and with another λ than the one in
    # use
    rated(1.0, seed=90, test=2_000),
    rated(1.0, seed=91, scale="compact", test=None),
    rated(1.0, seed=92, scale="compact", corpus="yahoo", test=2_000),
    rated(NONE, seed=93),
    rated(1.0, seed=94, strength=10.0, divergence="forward"),
    rated(1.0, seed=95, strength=0.3, divergence="reverse"),
]
BY_EPOCHS = [
    (
        "gain_after_saturation",
        [
            # from the first epoch at 95 %, whatever comes of the training accuracy later
            {"train_accuracy": [90, 95, 99, 93], "validation_accuracy": [85, 71, 74, 80]},
            {"train_accuracy": [96, 97, 98], "validation_accuracy": [75, 70, 73]},
            {"train_accuracy": [90, 94.9], "validation_accuracy": [70, 80]},  # never
            {"train_accuracy": [90, 95], "validation_accuracy": [70, 80]},  # at the end alone
        ],
        {0: 9, 1: -2},
    ),
    (
        "largest_fall",
        [
            {"validation_accuracy": [70, 80, 74, 76, 73]},
            {"validation_accuracy": [60, 61, 62]},
            {"validation_accuracy": [60]},  # from which there is no next
        ],
        {0: 6, 1: 0},
    ),
    (
        "teacher_error",
        [{"train_loss": [0.5, 1e-6, 2e-6]}, {"train_loss": [0.25]}],
        {0: 1e-6, 1: 0.25},
    ),
    (
        "attention_left",
        [{"factor": [0.0, 0.5, 1.0, 1.0], "mass_left": [0.9, 0.2, 0.1, 0.0]}],
        {0: 0.2},
    ),
    (
        "ending_cost",
        [
            {
                "factor": [0.5, 0.9, 1.0, 1.0],
                "attention_accuracy": [60, 81, 50, 40],
                "validation_accuracy": [1, 2, 71, 90],
            },
            {"factor": [0.5, 0.9], "attention_accuracy": [60, 81], "validation_accuracy": [1, 2]},
        ],
        {0: 10},
    ),
]
TIMES = [{"seconds": each} for each in (*[[0.1]] * 5, [3.0, 2.0, 9.0], [5.0])]
"""Of which the seeds from 5 on are there to be timed: the fastest epoch counts."""
LOOKS = [
    (0, 0.02, 0.5, 50.0),
    (128, 0.01, 0.4, 94.9),
    (256, 0.03, 0.6, 95.0),
    (384, 0.5, 0.7, 90.0),
]
MANY = [(128 * place, 1 + 37 * place % 21, 0.0, 50.0) for place in range(21)]  # the ratios 1 to 21
TRACED = [*traced(0, LOOKS), *traced(1, LOOKS[:2]), *traced(2, MANY)]
GRADIENTS = [
    *measured(gradients(2.0, 4.0, (0.2, 0.4)), seed=0, **EARLY),
    *measured(gradients(1.0, 1.0, (0.5, 0.5)), seed=1, untrained=False, **EARLY),
    *measured(gradients(), seed=90, untrained=True, **EARLY),
    *measured(gradients(), seed=91, size=500),
    *measured(gradients(), seed=92, epochs=1),
]
PLACES = {
    "left": (80, 77, 76),
    "mid": (80, 55, 52),
    "right": (80, 66, 60),
}  # by 0, 70 and 80 % filler
SWEPT = [
    run(seed=seed) | {"setting_added": place, "share_added": share, "accuracy": accuracy}
    for seed, places in enumerate([PLACES, {"mid": (90, 70, 60), "left": (90, 80, 85)}])
    for place, accuracies in places.items()
    for share, accuracy in zip((0.0, 0.1 * 7, 0.1 * 8), accuracies, strict=True)
]
ENDS = [2.0] * 10 + [9.0] * 30 + [1.5] * 20 + [9.0] * 30 + [4.0] * 10
NWI = [
    *measured(profile(ENDS), seed=0, shortest=400),
    *measured(
        profile([3.0] * 40 + [2.0] * 20 + [5.0] * 40), seed=1, scale="compact", shortest=NONE
    ),
    *measured(profile([1.0] * 100), seed=2, length="short", shortest=50),
    # of other lengths than the figures
    *measured(profile([7.0] * 100), seed=90, shortest=NONE),
    *measured(profile([7.0] * 100), seed=91, shortest=50),
    *measured(profile([7.0] * 100), seed=92, scale="compact", shortest=400),
]
FOUND = [
    *found("mid", 3.0, 1.5, TEXT_IN_THE_MIDDLE),
    *found("left", 4.0, 1.0, range(34), seed=1),
    *found("right", 1.0, 4.0, range(66, 100), seed=2),
    *found("standard", 3.0, 1.0, range(50), seed=90),  # which has no filler
]
PEAKS = [
    *found("mid", 3.0, 2.0, TEXT_IN_THE_MIDDLE, 6.0),
    *found("left", 3.0, 2.0, range(34), 6.0, seed=1),  # the left end is text
    *found("standard", 3.0, 2.0, [], 6.0, seed=90),
]
DIRECTIONS = [
    run(seed=0, probe="directions", accuracy_forward=70.0, accuracy_backward=62.5),
    run(seed=1, probe="directions", accuracy_forward=50.0, accuracy_backward=55.0),
    run(seed=90, probe="sweep"),
]
MEMORY = [
    run(seed=0, probe="memory", longest=4_000, exponent=1.75),
    run(seed=90, probe="memory", longest=500, exponent=9.0),
    run(seed=91, probe="sweep", longest=4_000, exponent=9.0),
]
MID = {"setting": "mid"}
HELD_OUT = ("examples", "median_ratio", "ratio", "train_accuracy")
COURSE = [
    (0, 0.2, 0.0, 50.0),
    (128, 0.01, 0.0, 60.0),
    (3_072, 1e-9, 0.0, 99.0),
    (6_000, 0.6, 0.0, 99.0),
]


def course(model, seed, factor=1.0, **changes):
    rows = pd.DataFrame(COURSE, columns=HELD_OUT).assign(
        median_ratio=lambda own: own.median_ratio * factor
    )
    return measured(rows.to_dict("records"), model=model, seed=seed, **MID, **changes)


WATCHED = [
    *course("last", 0),
    *course("chrono", 0, 2.0),
    *course("last", 1, shuffled=True),
    *traced(90, LOOKS),  # which looked at training texts
]
STATES = [
    run(seed=seed, readout=readout, accuracy=accuracy, majority_accuracy=51.0, size=4_000)
    for seed, readout, accuracy in ((0, "last", 52.0), (1, "mean", 71.0))
]
RANKED = {  # what each start holds and reaches: the last two change places
    model: (50.0 + place, {14: 65.5, 15: 64.5}.get(place, 50.0 + place))
    for place, model in enumerate(STARTS)
}
AGREEING = runs(
    [
        rated(reached, model=model, seed=seed, **MID)
        for seed in range(2)
        for model, (_, reached) in [*RANKED.items()][: 16 if seed == 0 else 13]
    ],
    states=[
        run(model, seed, readout="last", accuracy=accuracy, size=size, **MID)
        for seed in range(2)
        for model, (held, _) in RANKED.items()
        for size, accuracy in ((1_000, 0.0), (4_000, held))
    ],
    trace=[look for place, model in enumerate(STARTS) for look in course(model, 0, 1.0 + place)],
)
REACHING = runs(
    [
        rated(
            75.0 if place + (seed == 1) >= at else 55.0, model=model, seed=seed, share=share, **MID
        )
        for seed in range(2)
        for place, model in enumerate(GATED)
        for at, share in enumerate((0.0, 0.33, 0.66, 0.8, 0.9, 0.95))
        if (seed, share) != (1, 0.95)
    ]
)
DRAWN = runs(
    [
        rated(60.0, draw=2),
        rated(1.0, model="chrono", draw=0),
        rated(70.0, model="chrono", seed=5, draw=1),
    ]
)
CELLS = runs(
    [
        rated(60.0 + (model == best) + seed, model=model, seed=seed, size=size, setting=setting)
        for size, setting, best in (
            (1_000, "standard", "mean"),
            (2_000, "mid", "max_attention"),
            (5_000, "mid", "max_attention"),
        )  # of which Table 1.3 has no cell
        for model in THESIS_POOLINGS
        for seed in range(3)
    ]
)
READ = runs(
    [rated(70.0 + seed, model="chrono", seed=seed) for seed in range(4)],
    states=[
        run(model, seed, readout=readout, accuracy=60.0, size=size)
        for seed, model, readout, size in (
            (0, "chrono", "last", 1_000),
            (1, "chrono", "mean", 1_000),
            (2, "chrono", "last", 4_000),
            (3, "last", "last", 1_000),
        )
    ],
)
READ_IN_TRAINING = [
    look
    for seed, ends in enumerate((74.0, 65.0))
    for look in measured(
        [
            {"examples": 0, "accuracy": 90.0},
            {"examples": 2_000, "accuracy": ends},
            {"examples": 1_000, "accuracy": 51.0},
        ],
        model="last, through max",
        seed=seed,
        majority_accuracy=50.0,
        readout="last",
    )
]
BY_HAND = [
    ("held", runs(states=STATES), {0: 1.0, 1: 20.0}),
    ("over_memory", READ, {0: 10.0}),
    ("held_after", runs(states_course=READ_IN_TRAINING), {0: 24.0, 1: 15.0}),
    ("dip", runs(trace=WATCHED), {0: 0.05, 1: 0.05}),
    ("median_recovery", runs(trace=WATCHED), {0: 3.0, 1: 3.0}),
    ("median_recovery", runs(trace=[look | {"until": 3_000} for look in WATCHED]), {}),
    ("reach", REACHING, {0: 1.0}),  # the other seed lacks a share
    ("accuracy_by_draw", DRAWN, {1: 70.0, 2: 60.0}),
    ("last_train_accuracy", with_epochs({"train_accuracy": [99.0, 96.0]}), {0: 96.0}),
    ("highest_mean", CELLS, {0: 50.0}),
    ("accuracy", runs(TRAININGS), {0: 60, 1: 62, 2: 63, 3: 9}),
    ("validation_accuracy", runs(TRAININGS), {0: 61, 1: 60, 2: 64, 3: 7}),
    ("above_chance", runs(TRAININGS), {0: 9, 1: 12, 2: 12.5, 3: 1}),
    *((name, with_epochs(*histories), expected) for name, histories, expected in BY_EPOCHS),
    ("epoch_seconds", with_epochs(*TIMES), {5: 2.0, 6: 5.0}),
    ("early_gradient", runs(gradients=GRADIENTS), {0: 0.3, 1: 0.5}),
    ("early_middle_to_ends", runs(gradients=GRADIENTS), {0: 0.1, 1: 0.5}),
    ("first_middle_to_ends", runs(first_steps=GRADIENTS), {0: 0.1, 1: 0.5}),
    ("first_middle_to_ends", runs(gradients=GRADIENTS), {}),
    ("ratio_at_95", runs(trace=TRACED), {0: 0.03}),
    ("band_ratio_at_95", runs(trace=TRACED), {0: 0.6}),
    ("low_ratio", runs(trace=TRACED), {0: 0.0115, 1: 0.0105, 2: 2}),
    ("ratio_recovery", runs(trace=TRACED), {0: 25, 1: 0.5, 2: 6}),
    ("direction_gap", runs(probes=DIRECTIONS), {0: 7.5, 1: -5}),
    ("ends_to_middle", runs(nwi=NWI), {0: 2, 1: 2, 2: 1}),
    ("text_to_filler", runs(nwi=FOUND), {0: 2, 1: 4, 2: 0.25}),
    ("end_peaks", runs(nwi=PEAKS), {0: 3, 1: 3}),
    ("memory_exponent", runs(probes=MEMORY), {0: 1.75}),
    ("tagging_entity_f1", runs(taggings=TAGGINGS), {0: 30, 1: 20, 2: 30}),
    ("tagging_boundary_share", runs(taggings=TAGGINGS), {0: 25, 1: 25, 2: 25}),
    ("tagging_accuracy_above_f1", runs(taggings=TAGGINGS), {0: 62, 1: 72, 2: 62}),
    ("tagging_gradient_reach", runs(taggings=TAGGINGS), {2: 0.5}),
]
ELSEWHERE = [{"size": 3_000}, {"cell": "gru"}]
"""Models of which Tables 1.3 and 2.1 have no number."""
PLAIN = {"corpus": "imdb", "length": "long", "setting": "standard", "size": 1_000, "model": "last"}


@pytest.mark.parametrize("name, made, expected", BY_HAND)
def test_numbers_are_those_worked_out_by_hand(name, made, expected):
    assert values(name, made) == pytest.approx(expected)


@pytest.mark.parametrize(
    "seen, ratios",
    [
        (193, {0: 0.03, 2: 12}),
        (191, {0: 0.01, 2: 17}),
        (426, {0: 0.5, 2: 7}),
        (427, {2: 7}),  # it ended at 384, which is less than nine tenths
    ],
)
def test_a_trace_is_read_at_the_look_nearest_to_a_number_of_texts(monkeypatch, seen, ratios):
    monkeypatch.setattr(gradient_propagation, "SEEN", {"thesis": seen, "compact": 1})
    made = runs(trace=TRACED)
    assert values("ratio_after", made) == ratios
    accuracies = {0: {193: 95, 191: 94.9, 426: 90}.get(seen), 2: 50}
    assert values("train_accuracy_after", made) == {seed: accuracies[seed] for seed in ratios}
    assert set(numbers(made, "ratio_after").rows["examples"]) == {seen}


def test_starts_are_ranked_by_what_they_hold_and_by_their_ratios():
    rows = MEASURES["rank_agreement"].rows(AGREEING).set_index("predictor")["value"]
    swapped = 1 - 6 * 2 / (16 * (16**2 - 1))  # two neighbours of 16 in the other order
    assert rows.to_dict() == pytest.approx(
        dict.fromkeys(("held", "start_ratio", "lowest_ratio"), swapped)
    )
    over = MEASURES["ratio_over_chrono"].rows(runs(trace=WATCHED)).set_index("model")["value"]
    assert over.to_dict() == pytest.approx({"last": 0.5, "chrono": 1.0})


def test_the_area_under_a_curve_counts_pairs_of_starts():
    rows = MEASURES["learning_auc"].rows(AGREEING).set_index("predictor")["value"]
    assert rows.to_dict() == dict.fromkeys(("held", "start_ratio", "lowest_ratio"), 1.0)
    one, accuracy = pd.Series([1.0, 2.0, 2.0, 4.0]), pd.Series([50.0, 60.0, 59.9, 70.0])
    assert learning_auc(one, accuracy) == (1 + 0.5 + 1 + 1) / 4
    assert math.isnan(learning_auc(one, accuracy + 10))
    assert math.isnan(learning_auc(one, accuracy - 11))
    learns = accuracy >= 60
    assert auc_by_bootstrap(learns, one)[0] == 0.875
    refused("starts that learn and starts that do not", auc_by_bootstrap, learns | True, one)


def test_an_interval_of_areas_is_that_of_starts_drawn_one_by_one():
    rng = np.random.default_rng(1)
    learns = pd.Series(np.arange(16) % 3 == 0)
    numbers = pd.Series(rng.normal(size=16).round(1) + learns)

    def area(drawn):
        pairs = [(numbers[p], numbers[n]) for p in drawn[0] for n in drawn[1]]
        return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)

    classes = [np.flatnonzero(learns == which) for which in (True, False)]
    values = []
    for _ in range(1_500):
        drawn = [rng.choice(own, len(own)) for own in classes]
        values.append(area(drawn))
    expected = area(classes), *np.quantile(values, [0.025, 0.975])
    assert auc_by_bootstrap(learns, numbers) == pytest.approx(expected, abs=0.04)
    assert auc_by_bootstrap(learns, numbers) == auc_by_bootstrap(learns, numbers)


def test_by_the_authors_code_the_minimum_of_the_mean_curve_is_subtracted():
    """Of [5 and 1, filler 2 and 1] the minimum is 1: mean 2 over mean 0.5."""
    curve = [
        (5.0 if place in TEXT_IN_THE_MIDDLE else 2.0) if place % 2 else 1.0 for place in range(100)
    ]
    made = runs(nwi=measured(profile(curve), setting="mid", shortest=400))
    assert values("text_to_filler_by_code", made) == {0: pytest.approx(4.0)}
    assert values("text_to_filler", made) == {0: pytest.approx(2.0)}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("swept_accuracy", {(0, "left", 0.7): 77, (0, "mid", 0.0): 80, (1, "mid", 0.8): 60}),
        ("swept_loss", {(0, "left", 0.7): 3, (0, "mid", 0.0): 0, (1, "mid", 0.8): 30}),
        ("sweep_asymmetry", {(0, "mid", 0.7): 11, (0, "mid", 0.8): 16}),
        ("both_ends_cost", {(0, "mid", 0.7): 11, (0, "mid", 0.8): 8, (1, "mid", 0.8): 25}),
    ],
)
def test_sweeps_tell_what_was_worked_out_by_hand(name, expected):
    """The second run has no text on the right, so that there is no side to compare the left
    with."""
    every = values(name, runs(sweep=SWEPT), "seed", "added", "share_added")
    assert {place: every[place] for place in expected} == expected
    assert ((1, "mid", 0.8) in every) == (name != "sweep_asymmetry")


def few(system, encoder=DEFAULT_ENCODER, **changes):
    row = {
        "system": system,
        "encoder": encoder,
        "steps": STEPS[system],
        "test": None,
        "length": "any",
    }
    row["max_tokens"] = 512 if system == "max_attention" else 256
    return row | {"test_accuracy": 70.0} | changes


@pytest.mark.parametrize("system", SYSTEMS)
def test_which_few_shot_runs_are_of_which_scale(system):
    rows = [
        few(system),
        few(system, test=1_000),
        few(system, steps=STEPS[system] - 1),
        few(system, MINILM),
        few(system, MINILM, test=1_000, steps=9),
        few(system, "some/other"),
    ]
    found = numbers(runs(few_shots=rows), "few_shot_accuracy").rows
    # VAMPIRE reads no encoder, so that whole runs of its are of the thesis's scale with any
    part, whole = ("compact", "thesis") if system == "vampire" else ("other", "other")
    assert found["scale"].tolist() == ["thesis", part, part, whole, "compact", whole]
    assert set(found["value"]) == {70.0}
    longer = runs(few_shots=[few(system, length="long"), few(system)])
    assert len(numbers(longer, "few_shot_accuracy").rows) == 1


def test_the_change_of_a_step_is_that_of_networks_drawn_one_by_one():
    cell, bias = theory.MODELS["GRU"]
    curves = (theory.measured_shrinkage(cell, 6, 100, bias, 1.0, 5, seed) for seed in range(5))
    expected = [100 * (theory.factor_of(curve, 2, 5) - 1) for curve in curves]
    assert theory.step_changes("GRU", 6, 1.0, 2, 5) == pytest.approx(expected)


def test_without_runs_there_is_no_number_and_every_measure_is_claimed_somewhere():
    nothing = Runs(None)
    for name, measure in MEASURES.items():
        assert measure.drawn or numbers(nothing, name).rows.empty
    assert {claim.measure for claim in LEDGER} == set(MEASURES)


@pytest.mark.parametrize(
    "name, changes, expected",
    [
        ("trick_accuracy", {}, Sample(64.7, 2.3, 5)),  # Table 2.1 is of 10K
        ("trick_accuracy", {"size": 10_000}, Sample(86.6, NONE, 1)),
        ("accuracy", {"size": 10_000}, Sample(86.6, 0.8, 5)),
        *(("accuracy", one, None) for one in ELSEWHERE),
        ("accuracy", {"cell": "lstm", "epochs": 20, "max_words": None}, Sample(64.7, 2.3, 5)),
        ("above_chance", {"setting": "mid"}, Sample(49.6 - 50, 0.7, 5)),
        ("above_chance", {"corpus": "yahoo", "setting": "mid"}, Sample(12.7 - 12, 1.1, 5)),
        ("validation_accuracy", {}, Sample(64.9, NONE, 1)),
        ("validation_accuracy", {"setting": "mid"}, None),
        ("ratio_at_95", {}, Sample(math.log(3e-4), NONE, 1)),
        ("ratio_at_95", {"size": 7}, None),
        ("swept_accuracy", {}, None),
    ],
)
def test_the_thesiss_numbers_are_those_of_its_tables(name, changes, expected):
    tmix = MEASURES["few_shot_accuracy"].published({"system": "tmix", "corpus": "imdb"})
    assert (tmix.mean, tmix.n) == (69.3, 1)
    found = MEASURES[name].published(PLAIN | changes)
    assert (found is None) == (expected is None)
    if expected:
        ours, theirs = ((one.mean, one.std, one.n) for one in (found, expected))
        assert ours == pytest.approx(theirs, nan_ok=True)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [0.3, SHARE, 0.9])
def test_the_text_stands_where_it_is_composed(setting, share):
    text = np.array(compose(["text"] * 3000, iter([["filler"] * 7] * 9000), setting, share))
    expected = text[np.linspace(0, len(text) - 1, 100).round().astype(int)] == "text"
    found = word_importance.where_the_text_stands(setting, share)
    assert (found != expected).sum() <= (setting != "standard") + (setting == "mid")  # at a border


def test_a_course_is_a_mean_over_runs_that_were_looked_at_at_other_times():
    looks = {  # ratios that are powers of the texts learnt from, so that interpolation is exact
        "a": ([0, 50, 200, 900, 1_000], 1.0),
        "b": ([0, 120, 400, 800], 3.0),  # ends first
    }
    rows = [
        {
            "key": key,
            "model": "last",
            "examples": seen,
            "ratio": max(seen, 1.0) ** power,
            "train_accuracy": power,
            "validation_accuracy": 10 * power,
        }
        for key, (places, power) in looks.items()
        for seen in reversed(places)
    ]
    found = drawing.course(pd.DataFrame(rows), ["model"])
    assert found["examples"].iloc[[0, -1]].tolist() == pytest.approx([100, 800])
    assert found["examples"].is_monotonic_increasing
    np.testing.assert_allclose(found["ratio"], found["examples"] ** 2)  # the geometric mean
    assert found["train_accuracy"].tolist() == pytest.approx([2.0] * len(found))
    assert found["validation_accuracy"].tolist() == pytest.approx([20.0] * len(found))
    assert set(found["model"]) == {"last"}


def test_the_map_of_gains_is_of_the_weakest_pooling_and_hatched_without_it():
    models = {"last": 50, "mean": 60, "max": 70, "attention": 80, "max_attention": 90}
    rows = pd.DataFrame(
        {"model": model, "value": value, "size": size, "share": 0.66, "setting": setting}
        for size, setting in ((1_000, "standard"), (1_000, "mid"), (2_000, "mid"))
        for model, value in models.items()
        if (model, size) != ("max_attention", 2_000)
    )
    gains = drawing.weakest_gains(rows)
    assert [*gains.index] == [*drawing.MAP_SHARES]
    assert gains.loc[[0, 0.66], 1_000].tolist() == [10, 10]
    assert gains.count().sum() == 2
    axes = plt.figure().add_subplot()
    drawing.draw_gains(axes, gains)
    assert [text.get_text() for text in axes.texts] == ["+10", "+10"]
    assert sum(patch.get_hatch() is not None for patch in axes.patches) == gains.size - 2
    plt.close()
