"""Kinds of runs: their keys, their configurations in tables, and that a new one is one file and one
line."""

from dataclasses import MISSING, replace

import pandas as pd
import pytest
import torch
from called import refused
from fifth_kind import CoinToss
from small_runs import RECORDS, TINY

from paper import chapters
from paper.chapter import Chapter
from paper.commands import planned_runs
from paper.runs.compute import Pace, compute, standing
from paper.runs.engine import Workforce
from paper.runs.kinds import FewShot, Probe, Tagging, Training
from paper.runs.kinds.few_shot import CONTRAST, SYSTEMS, USED_BY
from paper.runs.kinds.probe import PROBES, PaddingSweep
from paper.runs.kinds.training import TRICKS
from paper.runs.request import Request
from paper.runs.run import Place, key, provenance
from paper.runs.store import Store, key_of
from paper.verdicts.record import export

RUNS = [CoinToss(seed=seed, tosses=100) for seed in range(3)]


def test_a_fifth_kind_is_planned_executed_stored_resumed_published_and_shown(
    tmp_path, here, monkeypatch
):
    monkeypatch.setitem(chapters.PLANS, "coins", lambda study: RUNS[: study.request.seeds])
    place = Place(Store(tmp_path / "store", tmp_path / "records"), tmp_path, tmp_path)
    assert planned_runs(Request(seeds=2), place, ("coins",))[0] == {"coins": RUNS[:2]}

    first = compute(RUNS[:2], place, say=print)
    again = compute(RUNS, place, say=print)
    assert (first.done, again.done, again.failed) == (2, 1, {})
    assert list(standing(RUNS, place).done) == RUNS
    assert Pace(place, Workforce()).seconds(RUNS[0]) == pytest.approx(0.1)

    table = Chapter("coins", Request(), place).results("coin").sort_values("seed")
    assert table["key"].tolist() == [key(run, place) for run in RUNS]
    assert [CoinToss.of_row(row) for row in table.to_dict("records")] == RUNS
    tosses = place.store.history("coin").groupby("key")["heads"].last()
    assert tosses.to_dict() == table.set_index("key")["heads"].to_dict()

    folder = tmp_path / "records"
    assert export("coin", place, folder) == 3
    assert sorted(file.name for file in folder.iterdir()) == ["coins.csv", "coins_history.csv"]
    elsewhere = Place(Store(tmp_path / "other", folder), tmp_path, tmp_path)
    assert compute(RUNS, elsewhere, say=print).done == 0
    assert elsewhere.store.rows("coin").set_index("key")["heads"].to_dict() == tosses.to_dict()


DEFAULTS = {  # of what need not be given
    kind: {own.name: own.default for own in kind.columns() if own.default is not MISSING}
    for kind in (Training, FewShot, Tagging, *PROBES.values())
}


def named(kind):
    return getattr(kind, "probe", "") or kind.kind


@pytest.mark.parametrize("kind", PROBES.values(), ids=named)
def test_the_key_of_a_probe_depends_on_its_training_and_on_what_is_not_at_its_default(place, kind):
    changes = [{}, {"seed": 1}, {"pooling": "max"}, {"setting": "mid"}]
    changes += [{"trick": trick} for trick in TRICKS]
    trainings = [replace(TINY, **change) for change in changes]
    runs = [*trainings, *map(kind, trainings)]
    assert len({key(run, place) for run in runs}) == len(runs)
    assert key(kind(TINY, **DEFAULTS[kind]), place) == key(kind(TINY), place)
    taken = {own.name for own in Training.columns()} | {"probe", "protocol"}
    assert not taken & set(DEFAULTS[kind])  # a row and an identity hold both, side by side


def test_fields_that_a_few_shot_system_does_not_use_do_not_enter_its_key(place):
    for name, systems in USED_BY.items():
        runs = [FewShot("synthetic", system, **{name: "x"}) for system in (*SYSTEMS, *CONTRAST)]
        assert {run.system for run in runs if name in run.changed()} == set(systems)


@pytest.mark.parametrize("kind", [Training, Probe, FewShot, Tagging], ids=named)
def test_runs_of_record_still_have_their_keys(kind):
    """Fields at their default do not enter the key: another default would give old runs another
    meaning."""
    rows = pd.read_csv(RECORDS / f"{kind.table}.csv", low_memory=False).to_dict("records")
    for row in rows:
        data = {
            name[5:]: value for name, value in row.items() if name[:5] == "data_" and value == value
        }
        run = kind.of_row(row)
        training = (run.training or run).changed()
        identity = {"run": training, "data": data, "protocol": row["protocol"]}
        if kind is Probe:
            own = {name: value for name, value in run.changed().items() if name not in training}
            identity["probe"] = own | {"protocol": row["probe_protocol"]}
        assert key_of(identity) == row["key"]
    assert len(rows) > 10
    kept = [pd.read_csv(file)["key"] for file in RECORDS.glob(f"{kind.table}_*.csv")]
    assert set(pd.concat(kept)) == {row["key"] for row in rows}
    # of what no run of record has at its default
    given = [DEFAULTS[FewShot][name] for name in ("validation", "test", "steps", "encoder")]
    assert given == [1_000, None, 1_000, "bert-base-uncased"]
    assert (DEFAULTS[Tagging]["filters"], DEFAULTS[Tagging]["vectors"]) == (0, None)


def with_filler(place, *sentences):
    path = place.data / "own.csv"
    path.write_text("text,label\n" + "".join(f"word {i},{i % 2}\n" for i in range(50)))
    lines = [f"sentence number {number} is filler" for number in range(60)]
    (place.data / "wiki_sentences.txt").write_text("\n".join([*sentences, *lines]))
    return replace(TINY, corpus=str(path), size=20)


@pytest.mark.parametrize("setting", ["standard", "mid"])
def test_the_key_depends_on_filler_that_is_read(place, setting):
    """That of a sweep also on filler that the training has not read."""
    training = replace(with_filler(place), setting=setting)
    before = {run: key(run, place) for run in (kind(training) for kind in PROBES.values())}
    with_filler(place, "another sentence that comes first")
    changed = {type(run) for run, name in before.items() if key(run, place) != name}
    assert changed == ({PaddingSweep} if setting == "standard" else {*PROBES.values()})


@pytest.mark.parametrize(
    "message, changes",
    {
        "aclImdb_v1.tar.gz is not in": {"corpus": "imdb", "length": "long"},
        "does not take masked=False": {"cell": "transformer", "masked": False},
        "held 'W_ih' is unknown; choose one of W_hh, encoder": {"held": "W_ih"},
        "through must be another pooling than 'max'": {"pooling": "max", "through": "max"},
        "through 'least'": {"through": "least"},
        "trick 'hope' is unknown; choose one of teacher_forcing": {"trick": "hope"},
        "epochs must be at least 1, not 0": {"epochs": 0},
        "through cannot be combined with penalty_attention": {"through": "max", "trick": TRICKS[1]},
        "clip must be above 0, not 0.0": {"clip": 0.0},
    }.items(),
)
def test_what_a_training_cannot_be_is_one_clear_line_for_its_probes_as_well(
    place, changes, message
):
    run = replace(TINY, **changes)
    for asked in (run, *(kind(run) for kind in PROBES.values())):
        for refuse in (asked.identity, asked.execute):
            refused(message, refuse, place)
    assert place.store.keys() == set()


def test_where_a_result_comes_from_names_the_processor_and_what_torch_uses_of_it():
    made, used = provenance("cpu"), torch.backends.cpu.get_cpu_capability()
    parts = made["processor"].split(", ")
    assert used in parts
    assert parts[-1] in (used, "bfloat16", "AMX")
    assert made["device"].startswith("cpu: ")
