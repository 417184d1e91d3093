"""What makes a probe run this one, and how it comes back from a table."""

from dataclasses import fields, replace

import pandas as pd
import pytest

from whenpool import InputError
from whenpool.runs.kinds.probe import (
    PROBE_PROTOCOL,
    PROBES,
    DirectionUse,
    FirstSteps,
    GradientProfile,
    GradientTrace,
    MemoryUse,
    PaddingSweep,
    WordImportance,
)
from whenpool.runs.kinds.training import Training
from whenpool.runs.rows import probe_of
from whenpool.runs.run import key
from whenpool.runs.store import Store

TINY = Training(
    "synthetic:train=60,validation=20,test=40,shortest=10,longest=20,density=0.2",
    "standard", 60, "last", length="any", embedding_size=8, hidden_size=6, epochs=2,
)  # fmt: skip
KINDS = list(PROBES.values())
OF_TEXTS = [kind for kind in KINDS if kind is not MemoryUse]  # which measures texts of any words
OTHER = {(MemoryUse, "longest"): 96, (MemoryUse, "attention"): "plain"}
"""Other values of fields where 7 is none."""


def own_fields(kind):
    return [field for field in fields(kind) if field.name != "training"]


EVERY_FIELD = [
    pytest.param(kind, field.name, id=f"{kind.kind} {field.name}")
    for kind in KINDS
    for field in own_fields(kind)
]


def by_name(kind):
    return pytest.mark.parametrize("kind", kind, ids=lambda kind: kind.kind)


def test_defaults_of_a_probe_never_change():
    """Fields at their default do not enter the key: another default would give old probe runs another
    meaning. New fields go below."""
    assert {
        name: {field.name: field.default for field in own_fields(kind)} for name, kind in PROBES.items()
    } == {
        "gradients": {"texts": 500, "untrained": False},
        "trace": {"texts": 64, "sample": 256},
        "sweep": {"texts": 1000},
        "nwi": {"texts": 200, "k": 5, "shortest": None, "longest": None},
        "memory": {"longest": 4000, "halvings": 4, "attention": "fused"},
        "first_steps": {"texts": 500},
        "directions": {"texts": 1000},
    }


@by_name(KINDS)
def test_no_option_has_the_name_of_a_field_of_the_training(kind):
    """A row and an identity hold both, side by side."""
    taken = {field.name for field in fields(Training)} | {"probe", "protocol"}
    assert not taken & {field.name for field in own_fields(kind)}


@pytest.mark.parametrize(("kind", "name"), EVERY_FIELD)
def test_the_key_depends_on_every_field(place, kind, name):
    probe = kind(TINY if kind is DirectionUse else replace(TINY, cell="transformer"))
    value = OTHER.get((kind, name), 7)
    other = replace(probe, **{name: value})
    assert key(other, place) != key(probe, place)
    assert other.changed() == probe.changed() | {name: value}


@by_name(KINDS)
def test_the_key_depends_on_the_training_and_on_nothing_else(place, kind):
    trainings = [
        TINY,
        replace(TINY, seed=1),
        replace(TINY, pooling="max"),
        replace(TINY, setting="mid"),
        replace(TINY, masked=False),
        replace(TINY, corpus="synthetic:train=60,validation=20,test=41"),
    ]
    assert len({key(kind(training), place) for training in trainings}) == len(trainings)
    options = TINY.corpus.partition(":")[2].split(",")
    rewritten = replace(TINY, corpus=f"synthetic:{','.join(reversed(options))}")
    assert key(kind(rewritten), place) == key(kind(TINY), place)


@by_name(KINDS)
def test_what_is_at_its_default_does_not_enter_the_key(place, kind):
    spelled_out = kind(**{"training": TINY} | {field.name: field.default for field in own_fields(kind)})
    assert key(spelled_out, place) == key(kind(TINY), place)
    identity, training = kind(TINY).identity(place), TINY.identity(place)
    assert identity["probe"] == {"probe": kind.kind, "protocol": PROBE_PROTOCOL}
    assert (identity["run"], identity["protocol"]) == (training["run"], training["protocol"])


def with_filler(place, *sentences):
    """A file of texts, with Wikipedia sentences beside it."""
    path = place.data / "own.csv"
    path.write_text("text,label\n" + "".join(f"word {i},{i % 2}\n" for i in range(50)))
    lines = [f"sentence number {number} is filler" for number in range(60)]
    (place.data / "wiki_sentences.txt").write_text("\n".join([*sentences, *lines]))
    return replace(TINY, corpus=str(path), size=20)


def test_the_key_of_a_sweep_alone_depends_on_filler_that_the_training_has_not_read(place):
    before = {run: key(run, place) for run in (kind(with_filler(place)) for kind in KINDS)}
    with_filler(place, "another sentence that comes first")
    changed = {type(run) for run, name in before.items() if key(run, place) != name}
    assert changed == {PaddingSweep}


def test_the_key_depends_on_filler_that_the_training_has_read(place):
    mixed = replace(with_filler(place), setting="mid")
    before = {kind: key(kind(mixed), place) for kind in KINDS}
    with_filler(place, "another sentence that comes first")
    assert all(key(kind(mixed), place) != name for kind, name in before.items())


@by_name(KINDS)
def test_absent_data_are_named(place, kind):
    with pytest.raises(InputError, match="aclImdb_v1.tar.gz is not in"):
        key(kind(replace(TINY, corpus="imdb", length="long")), place)


ASKED = [
    GradientProfile(TINY),
    GradientProfile(replace(TINY, forget_bias="low", max_words=9, vectors="glove.6B.100d"), texts=8),
    GradientTrace(replace(TINY, forget_bias=2.0), sample=16),
    PaddingSweep(replace(TINY, masked=False, forget_bias=None), texts=10),
    WordImportance(TINY),
    WordImportance(TINY, k=3, shortest=50),
    WordImportance(TINY, longest=60),
    WordImportance(replace(TINY, setting="mid", test=20), texts=4, k=2, shortest=50, longest=60),
    MemoryUse(replace(TINY, cell="transformer"), longest=96, attention="plain"),
    MemoryUse(TINY),
    FirstSteps(replace(TINY, orthogonal=True), texts=20),
    DirectionUse(TINY),
]


def test_the_configuration_can_be_read_back_from_a_row(tmp_path):
    """Rows of all kinds stand in one table, whose numbers become fractions and whose None NaN."""
    store = Store(tmp_path / "store")
    for number, probe in enumerate(ASKED):
        store.put({"number": number}, probe.row(), {"probe_protocol": PROBE_PROTOCOL}, {})
    table = store.probes()
    assert len(table) == len(ASKED)
    table.to_csv(tmp_path / "probes.csv", index=False)
    for rows in (table, pd.read_csv(tmp_path / "probes.csv")):
        found = [probe_of(row) for row in rows.to_dict("records")]
        assert set(found) == set(ASKED)
        exact = {repr(probe) for probe in ASKED}  # 5.0 would be equal to 5, and give another key
        assert {repr(probe) for probe in found} == exact


@pytest.mark.parametrize("change", [{"bidirectional": False}, {"cell": "transformer"}])
def test_of_a_model_of_one_direction_none_can_be_left_out(place, change):
    with pytest.raises(InputError, match=" reads in one direction: there is none to leave out"):
        key(DirectionUse(replace(TINY, **change)), place)
    assert key(DirectionUse(replace(TINY, cell="gru")), place)


def test_what_trains_a_model_itself_needs_none():
    """`GradientTrace` and `FirstSteps` begin with the model as a training begins with it."""
    needs = {kind: kind(TINY).needs for kind in KINDS}
    assert {kind for kind, run in needs.items() if run is None} == {GradientTrace, FirstSteps, MemoryUse}
    assert set(needs.values()) == {None, TINY}


@by_name(OF_TEXTS)
def test_cost_grows_with_texts_and_with_their_length(kind):
    """It decides which of many runs begins first."""
    long = replace(TINY, length="long")
    assert kind(long, texts=200).cost > kind(long, texts=100).cost > 0
    assert kind(long, texts=100).cost > kind(replace(TINY, length="short"), texts=100).cost
