"""The tables and figures of "Learnability tricks", on runs that were put into a store."""

import math
from dataclasses import asdict, replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from small_runs import record_probe

from whenpool.book.report import tricks
from whenpool.book.report.figures import use_style
from whenpool.runs.kinds.probe import GradientProfile
from whenpool.runs.kinds.training import PROTOCOL, TRICKS, Training

mpl.use("agg")
THESIS = Training("imdb", "mid", 10_000, "last", vectors="glove.6B.100d")
SMALL = replace(THESIS, size=1000, hidden_size=64, epochs=8, max_words=140, test=2000)
CHANGES = {
    "last": {},
    "max": {"pooling": "max"},
    **{trick: {"trick": trick} for trick in TRICKS},
    "max_attention": {"pooling": "max_attention"},
    "forget 2": {"forget_bias": 2.0},
    "chrono": {"forget_bias": "chrono"},
    "orthogonal": {"orthogonal": True},
}
NEW_COLUMNS = ["orthogonal", "trick", "strength", "divergence", "diverged"]
NONE_YET = [{"": "no such runs yet"}]
DIVERGED = math.nan


@pytest.fixture(autouse=True)
def style():
    use_style()
    yield
    plt.close("all")
    mpl.rcdefaults()
    mpl.use("agg")


def of(variant, setting="mid", seed=0, base=SMALL, **changes):
    return replace(base, setting=setting, seed=seed, **(CHANGES[variant] | changes))


def put(place, run, accuracy=70.0, history=(), complete=True, **result):
    """Store a finished run without training it; returns its key."""
    identity = {"run": run.changed(), "data": {"corpus": complete}, "protocol": PROTOCOL}
    values = {"diverged": math.isnan(accuracy)} if run.trick else {}
    values |= {
        "test_accuracy": accuracy, "validation_accuracy": accuracy, "majority_accuracy": 50.0,
        "corpus_complete": complete, "seconds": 1.0,
    }  # fmt: skip
    provenance = {"commit": "abc", "device": "cpu", "torch": "2", "finished": "2026-01-02"}
    epochs = [{"epoch": number, **epoch} for number, epoch in enumerate(history, 1)]
    return place.store.put(identity, asdict(run), values | result, provenance, epochs)


def put_all(place, variant, setting, accuracies, base=SMALL, **result):
    for seed, accuracy in enumerate(accuracies):
        put(place, of(variant, setting, seed, base), accuracy, **result)


def attending(factors, masses, with_attention, without):
    """Epochs of penalty or dropout attention."""
    names = ("factor", "mass_left", "attention_accuracy", "validation_accuracy")
    columns = zip(factors, masses, with_attention, without, strict=True)
    return [dict(zip(names, epoch, strict=True)) for epoch in columns]


def runs_of(place):
    return tricks.with_variant(place.store.trainings())


def records(table):
    return table.to_dict("records")


# variants


def test_runs_are_named_and_come_in_the_order_of_the_table(place):
    for seed in (1, 0):
        for variant in reversed(CHANGES):
            put(place, of(variant, seed=seed))
    runs = runs_of(place)
    assert runs["variant"].tolist() == [name for name in tricks.VARIANTS for _ in (0, 1)]
    assert runs["seed"].tolist() == [0, 1] * len(CHANGES)
    assert list(CHANGES) == list(tricks.VARIANTS)
    assert set(runs) == {*place.store.trainings(), "variant"}


LEFT_OUT = [
    {"trick": "gradient_directed", "strength": 1.0},
    {"setting": "left"},
    {"setting": "right"},
    {"pooling": "mean"},
    {"pooling": "attention"},
    {"forget_bias": "low"},
    {"forget_bias": 1.5},
    {"trick": "gradient_directed", "divergence": "reverse"},
    {"trick": "teacher_forcing", "forget_bias": 2.0},
    {"pooling": "max", "forget_bias": 2.0},
    {"pooling": "max", "orthogonal": True},
]


@pytest.mark.parametrize("changes", LEFT_OUT, ids=str)
def test_other_settings_poolings_and_options_are_left_out(place, changes):
    put(place, replace(SMALL, **changes))
    assert len(runs_of(place)) == 0
    kept = put(place, of("gradient_directed"))
    assert runs_of(place)["key"].tolist() == [kept]


def test_rows_that_are_older_than_tricks_are_plain(place):
    names = ["last", "max", "max_attention", "forget 2", "chrono"]
    for variant in (*names, "teacher_forcing"):
        put(place, of(variant))
    table = place.store.trainings()
    older = table[table["trick"].isna()].drop(columns=NEW_COLUMNS)
    assert tricks.with_variant(older)["variant"].tolist() == names
    mixed = pd.concat([older, table[table["trick"].notna()]], ignore_index=True)
    assert tricks.with_variant(mixed)["variant"].tolist() == [*names[:2], "teacher_forcing", *names[2:]]
    assert len(tricks.finished(older)) == len(names)


def test_without_runs_nothing_has_a_name(place):
    empty = place.store.trainings()
    for found in (runs_of(place), tricks.small_runs(empty, 1000)):
        assert found.empty
        assert {"variant", "setting"} <= {*found}
    assert tricks.small_profiles(place.store, place.store.probes(), 1000).empty
    assert tricks.small_title(empty) == "not run yet"
    told = tricks.facts(runs_of(place))
    assert set(told.values()) == {"not run", "none", "0 of 0"}
    assert records(tricks.accuracy_table(runs_of(place))) == NONE_YET
    assert records(tricks.reached_table(runs_of(place), place.store.histories())) == NONE_YET
    assert records(tricks.cost_table(runs_of(place), place.store.histories())) == NONE_YET
    assert records(tricks.strength_table(tricks.tried(empty, 1000))) == NONE_YET


NOT_SMALL = [
    ({"size": 2000}, True),
    ({"corpus": "yelp"}, True),
    ({"corpus": "synthetic"}, True),
    ({}, False),
    ({"hidden_size": 48}, True),
    ({"epochs": 20}, True),
    ({"max_words": None}, True),
    ({"vectors": None}, True),
    ({"share": 0.5}, True),
    ({"hidden_size": 256, "epochs": 20, "max_words": None, "test": None}, True),  # the protocol's
    *(
        (changes, True)
        for changes in ({"cell": "gru"}, {"layers": 2}, {"learning_rate": 1e-3}, {"drop_connect": 0.1})
    ),
]


@pytest.mark.parametrize(("changes", "complete"), NOT_SMALL, ids=str)
@pytest.mark.parametrize("variant", ["last", "dropout_attention"])
def test_small_runs_are_of_one_model_size_and_whole_corpus(place, variant, changes, complete):
    for seed in (0, 1):
        put(place, of(variant, seed=seed, **changes), complete=complete)
    small = put(place, of(variant, "standard"))
    assert tricks.small_runs(place.store.trainings(), 1000)["key"].tolist() == [small]


# accuracies


def test_accuracies_with_who_guessed_and_who_diverged(place):
    cells = {
        ("last", "standard"): [60.0, 62.0, 64.0],
        ("last", "mid"): [50.0, 51.0],
        ("max", "standard"): [80.0],
        ("gradient_directed", "standard"): [52.0, DIVERGED, 54.0],  # guessing: up to 52
        ("gradient_directed", "mid"): [70.0, DIVERGED],
    }
    for (variant, setting), accuracies in cells.items():
        put_all(place, variant, setting, accuracies)
    put(place, of("chrono"), 75.0, majority_accuracy=56.0)
    table = tricks.accuracy_table(runs_of(place))
    assert list(table) == ["variant", "standard", "mid"]
    assert table.to_numpy().tolist() == [
        ["BiLSTM", "62.0 ± 2.0 (3)", "50.5 ± 0.7 (2)<br>2 guessing"],
        ["MaxPool", "80.0 (1)", ""],
        ["Gradient-directed", "53.0 ± 1.4 (2)<br>1 diverged, 1 guessing", "70.0 (1)<br>1 diverged"],
        ["BiLSTM, chrono start", "", "75.0 (1)"],
        ["majority class", "50.0", "51.2"],  # the mean of five
    ]


def test_accuracies_of_one_setting_have_one_column(place):
    put(place, of("max"))
    assert list(tricks.accuracy_table(runs_of(place))) == ["variant", "mid"]


def test_a_trick_all_of_whose_seeds_diverged_has_no_number(place):
    put_all(place, "penalty_attention", "mid", [DIVERGED, DIVERGED])
    assert tricks.accuracy_table(runs_of(place))["mid"].tolist() == ["2 diverged", "50.0"]


# what the curricula came to

PENALTY = attending(
    (0.0, 0.25, 1.0, 1.0), (0.4, 0.01, 1e-3, 1e-4), (60.0, 70.0, 69.0, 68.0), (50.0, 55.0, 66.0, 67.0)
)
AGAIN = attending((0.0, 0.25, 1.0), (0.5, 0.02, 1e-3), (60.0, 71.0, 80.0), (50.0, 51.0, 68.0))
FULL_AT_ONCE = attending((1.0, 1.0), (3e-3, 4e-3), (70.0, 71.0), (60.0, 61.0))
NEVER_FULL = attending((0.0, 0.5), (0.3, 0.2), (60.0, 65.0), (50.0, 52.0))
TEACHER = [{"train_loss": loss, "factor": math.nan} for loss in (0.5, 0.125, 0.25)]
DIRECTED = [
    {"factor": 0.3, "divergence": 0.75}, {"factor": 0.15, "divergence": 0.5}, {"factor": 0.0}
]  # fmt: skip


def test_what_is_read_from_epochs_is_read_for_each_run(place):
    histories = {"whole": PENALTY, "again": AGAIN, "full": FULL_AT_ONCE, "never": NEVER_FULL}
    names = {}
    for seed, (name, history) in enumerate(histories.items()):
        names[put(place, of("penalty_attention", seed=seed), history=history)] = name
    names[put(place, of("last"), history=[{"validation_accuracy": 50.0}])] = "plain"
    names[put(place, of("teacher_forcing"), history=TEACHER)] = "teacher"
    epochs = place.store.histories()[::-1]  # they may come in any order

    def known(values):
        return {names[key]: value for key, value in values.dropna().items()}

    before = {"whole": 0.01, "again": 0.02, "never": 0.2}
    assert known(tricks.mass_before_the_end(epochs)) == before
    last = {"whole": 1e-4, "again": 1e-3, "full": 4e-3, "never": 0.2}
    assert known(tricks.mass_left(epochs)) == last
    assert known(tricks.cost_of_ending(epochs)) == {"whole": 4.0, "again": 3.0}
    assert known(tricks.mean_squared_error(epochs)) == {"teacher": 0.125}


def test_a_table_says_what_each_trick_came_to(place):
    put(place, of("gradient_directed"), history=DIRECTED)
    put(place, of("gradient_directed", seed=1), history=[{"factor": 0.3, "divergence": 0.25}])
    put(place, of("penalty_attention"), history=PENALTY)
    put(place, of("penalty_attention", seed=1), history=AGAIN)
    put(place, of("dropout_attention"), history=NEVER_FULL)
    put(place, of("teacher_forcing"), history=TEACHER)
    put(place, of("teacher_forcing", "standard"), history=TEACHER)
    put(place, of("teacher_forcing", "standard", 1), history=[{"train_loss": 2e-6}])
    put(place, of("max"), history=[{"train_loss": 1.0}])
    expected = [
        {"": "Teacher forcing", "setting": "mid", "came to": "mean squared error 0.12", "seeds": 1},
        {"": "Teacher forcing", "setting": "standard",
         "came to": "mean squared error 2e-06 to 0.12", "seeds": 2},
        {"": "Penalty attention", "setting": "mid",
         "came to": "attention left 0.01 to 0.02 → 0.0001 to 0.001<br>points lost +3.5", "seeds": 2},
        {"": "Dropout attention", "setting": "mid", "came to": "attention left 0.2 → 0.2",
         "seeds": 1},
        {"": "Gradient-directed", "setting": "mid", "came to": "divergence 0.50 → 0.38 nats",
         "seeds": 2},
    ]  # fmt: skip
    found = records(tricks.reached_table(runs_of(place), place.store.histories()))
    order = list(tricks.VARIANTS.values())
    found.sort(key=lambda row: (order.index(row[""]), row["setting"]))
    assert found == expected


def test_a_trick_that_diverged_in_its_first_epoch_has_an_empty_cell(place):
    put(place, of("teacher_forcing"), DIVERGED, history=[{"train_loss": DIVERGED}])
    table = tricks.reached_table(runs_of(place), place.store.histories())
    assert table["came to"].tolist() == [""]


def test_settings_of_a_trick_come_in_the_order_of_the_other_tables(place):
    for trick in TRICKS:
        for setting in tricks.SETTINGS:
            put(place, of(trick, setting), history=DIRECTED + PENALTY + TEACHER)
    table = tricks.reached_table(runs_of(place), place.store.histories())
    assert table["setting"].tolist() == ["standard", "mid"] * 4


def test_settings_of_strengths_come_in_that_order_too(place):
    for setting in tricks.SETTINGS:
        put(place, of("gradient_directed", setting))
    stored = place.store.trainings().sort_values("setting")  # as keys may have it
    assert list(tricks.strength_table(tricks.tried(stored, 1000)))[2:] == ["standard", "mid"]


def test_strengths_are_compared_on_one_seed_of_small_runs(place):
    put(place, of("last"), 99.0)
    put(place, of("gradient_directed", seed=1), 99.0)
    put(place, of("gradient_directed", size=2000), 99.0)
    put(place, of("gradient_directed", base=replace(THESIS, size=1000)), 99.0)
    for strength, mid, standard in ((10.0, 51.0, 80.0), (0.3, 70.25, 81.0), (0.01, 60.0, None)):
        put(place, of("gradient_directed", strength=strength), 1.0, validation_accuracy=mid)
        if standard:
            run = of("gradient_directed", "standard", strength=strength)
            put(place, run, 1.0, validation_accuracy=standard)
    reverse = of("gradient_directed", strength=0.1, divergence="reverse")
    put(place, reverse, 1.0, validation_accuracy=55.0)
    table = tricks.strength_table(tricks.tried(place.store.trainings(), 1000))
    names = ["divergence", "λ of the first epoch", "standard", "mid"]
    assert table[names].to_numpy().tolist() == [
        ["forward", "0.01", "", "60.0"], ["", "0.3", "81.0", "70.2"], ["", "10", "80.0", "51.0"],
        ["reverse", "0.1", "", "55.0"],
    ]  # fmt: skip
    assert records(tricks.strength_table(tricks.tried(place.store.trainings(), 500))) == NONE_YET


def test_a_strength_that_diverged_has_no_accuracy(place):
    put(place, of("gradient_directed", strength=10.0), DIVERGED, validation_accuracy=90.0)
    table = tricks.strength_table(tricks.tried(place.store.trainings(), 1000))
    assert table["mid"].tolist() == ["diverged"]


def test_costs_are_ratios_of_means_over_epochs_whose_fastest_seed_counts(place):
    seconds = {
        ("last", "mid", 0): (2.0, 6.0, 9.0),  # with the next: 2, 4, 9
        ("last", "mid", 1): (4.0, 5.0),
        ("dropout_attention", "mid", 0): (6.0, 100.0),  # with the next: 6, 9
        ("dropout_attention", "mid", 1): (70.0, 9.0),
        ("chrono", "mid", 0): (7.0, 4.0, 20.0),  # another start is plain as well
        ("max", "standard", 0): (5.0,),  # nothing plain beside it
    }
    for (variant, setting, seed), times in seconds.items():
        put(place, of(variant, setting, seed), history=[{"seconds": time} for time in times])
    put(place, of("last", size=2000), history=[{"seconds": 1.0}])
    small = tricks.small_runs(place.store.trainings(), 1000)
    assert records(tricks.cost_table(small, place.store.histories())) == [
        {"": "Plain training, any start", "standard": "", "mid": "1.00"},
        {"": "MaxPool", "standard": "", "mid": ""},
        {"": "Dropout attention", "standard": "", "mid": "1.50"},
    ]


def test_what_the_text_says_is_that_of_the_best(place):
    cells = {
        ("last", "mid"): [50.0, 51.0],
        ("teacher_forcing", "mid"): [80.0, DIVERGED],
        ("dropout_attention", "mid"): [70.0, 76.0],
        ("gradient_directed", "mid"): [51.0, 52.0, 60.0, DIVERGED],
        ("chrono", "mid"): [77.0],
        ("orthogonal", "mid"): [55.0],
        ("forget 2", "standard"): [66.0],
        ("max_attention", "standard"): [88.0, 89.0],
        ("max", "mid"): [99.0],
    }
    for (variant, setting), accuracies in cells.items():
        put_all(place, variant, setting, accuracies)
    assert tricks.facts(runs_of(place)) == {
        "mid_plain": "50.5", "mid_plain_name": "BiLSTM",
        "mid_trick": "80.0", "mid_trick_name": "Teacher forcing",
        "mid_start": "77.0", "mid_start_name": "BiLSTM, chrono start",
        "mid_teacher": "99.0", "mid_teacher_name": "MaxPool",
        "mid_best": "not run", "mid_best_name": "none",
        "mid_plain_diverged": "0 of 2", "mid_plain_guessing": "2 of 2",
        "mid_directed_diverged": "1 of 4", "mid_directed_guessing": "2 of 4",
        "standard_plain": "not run", "standard_plain_name": "none",
        "standard_trick": "not run", "standard_trick_name": "none",
        "standard_start": "66.0", "standard_start_name": "BiLSTM, forget bias 2",
        "standard_best": "88.5", "standard_best_name": "MaxAtt",
        "standard_teacher": "not run", "standard_teacher_name": "none",
        "standard_plain_diverged": "0 of 0", "standard_plain_guessing": "0 of 0",
        "standard_directed_diverged": "0 of 0", "standard_directed_guessing": "0 of 0",
    }  # fmt: skip
    assert tricks.small_title(runs_of(place)) == (
        "1K training texts of up to 140 words before filler is added, 64 units a direction, 8 epochs"
    )


# figures


def epochs_of(place):
    """As the chapter makes them."""
    return place.store.histories().merge(runs_of(place)[["key", "setting", "variant"]], on="key")


def validated(*accuracies):
    return [{"validation_accuracy": accuracy} for accuracy in accuracies]


def test_looks_tell_all_variants_apart():
    names = [tricks.BEFORE, *tricks.VARIANTS.values()]
    assert list(tricks.PALETTE) == list(tricks.DASHES) == names
    assert len({(tricks.PALETTE[name], tricks.DASHES[name]) for name in names}) == len(names)


def test_epochs_are_named_in_the_order_of_the_table(place):
    put(place, of("orthogonal"), history=validated(50.0, 52.0))
    put(place, of("last"), history=validated(50.0, 60.0, 70.0))
    put(place, of("max", "standard"), history=validated(80.0, 84.0))
    drawn = tricks.named(epochs_of(place))
    assert list(drawn["setting"].cat.categories) == ["standard", "mid"]
    assert list(drawn["variant"].cat.categories) == ["BiLSTM", "MaxPool", "BiLSTM, orthogonal start"]
    assert len(drawn) == 7


def test_the_ending_is_of_what_attends(place):
    put(place, of("penalty_attention"), history=PENALTY)
    put(place, of("dropout_attention", "standard"), history=NEVER_FULL)
    put(place, of("last"), history=validated(*[50.0] * 4))
    drawn = tricks.ending(epochs_of(place))
    assert list(drawn["variant"].cat.categories) == ["Penalty attention", "Dropout attention"]
    assert drawn[drawn["setting"] == "mid"]["validation_accuracy"].tolist() == [50.0, 55.0, 66.0, 67.0]


def test_profiles_before_training_are_of_all_seeds(place):
    def look(variant, value, untrained=False, **where):
        probe = GradientProfile(of(variant, **where), untrained=untrained)
        record_probe(place, probe, [{"position": 2, "mean": value}, {"position": 1, "mean": 8.0}])

    look("last", 1.0, untrained=True)
    look("last", 3.0, untrained=True, seed=1)
    look("last", 0.25)
    look("dropout_attention", 0.5)
    look("dropout_attention", 1.5, seed=1)
    look("dropout_attention", 9.0, setting="standard")
    look("dropout_attention", 99.0, size=2000)
    look("dropout_attention", 99.0, setting="left")
    look("gradient_directed", 99.0, strength=1.0)
    look("last", 99.0, base=replace(THESIS, size=1000))
    profiles = tricks.small_profiles(place.store, place.store.probes(), 1000)
    drawn = tricks.named(profiles).groupby(["setting", "variant", "position"], observed=True)
    assert drawn["mean"].mean().to_dict() == {
        ("standard", "Dropout attention", 1): 8.0, ("standard", "Dropout attention", 2): 9.0,
        ("mid", "before training", 1): 8.0, ("mid", "before training", 2): 2.0,
        ("mid", "BiLSTM", 1): 8.0, ("mid", "BiLSTM", 2): 0.25,
        ("mid", "Dropout attention", 1): 8.0, ("mid", "Dropout attention", 2): 1.0,
    }  # fmt: skip


def test_profiles_that_are_older_than_the_untrained_ones_are_drawn(place):
    record_probe(place, GradientProfile(of("last")), [{"position": 1, "mean": 0.5}])
    probes = place.store.probes().drop(columns=["untrained", *NEW_COLUMNS[:-1]])
    drawn = tricks.named(tricks.small_profiles(place.store, probes, 1000))
    assert drawn[["variant", "mean"]].to_numpy().tolist() == [["BiLSTM", 0.5]]


def test_where_nothing_is_known_nothing_is_drawn(place):
    assert epochs_of(place).empty
    assert tricks.ending(epochs_of(place)).empty
    assert tricks.small_profiles(place.store, place.store.probes(), 1000).empty
    put(place, of("last"), history=validated(50.0))
    older = epochs_of(place)
    assert {"factor", "mass_left"}.isdisjoint(older)
    assert tricks.ending(older).empty
    assert tricks.named(older)["validation_accuracy"].tolist() == [50.0]
