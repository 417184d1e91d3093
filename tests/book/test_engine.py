"""Running many runs: on processes of this machine, cut into tasks, and what becomes of these."""

import re
import time
import weakref
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from called import refused
from conftest import Crews
from small_runs import GRID, SMALL, fresh, has_weights, result_of, same, stored

from paper.corpora.dataset import encode
from paper.runs import engine
from paper.runs.engine import Job, Locks, WorkerDiedError, Workforce, run_all, tasks_of
from paper.runs.kinds import FewShot
from paper.runs.kinds.probe import GradientProfile
from paper.runs.run import key
from paper.runs.store import Store
from whenpool.base.errors import StorageError

BAD = replace(SMALL, size=1000)
TOO_MANY = "the corpus has 60 train texts, but 1,000 were asked for; choose fewer"
DIVERGING = replace(SMALL, learning_rate=3e38)
PAIRED = [replace(run, setting="right") if run.setting == "standard" else run for run in GRID]
"""Four of each seed can be trained together."""


def test_results_are_stored_once_and_do_not_depend_on_the_number_of_workers(place, monkeypatch):
    one = fresh(place, "one")
    report = run_all([BAD, *GRID], place, Workforce(workers=2))
    assert (report.done, report.failed) == (len(GRID), {BAD: TOO_MANY})
    assert place.store.keys() == {key(run, place) for run in GRID}
    files = stored(place)
    Crews.put(monkeypatch)
    assert run_all(GRID, place).done == 0
    assert stored(place) == files
    run_all(GRID[::-1], one)
    assert same(GRID, one, place)


def test_equal_copies_of_a_corpus_are_read_once(place, here):
    runs = []
    for name in ("first", "second"):
        file = place.data / name / "reviews.csv"
        file.parent.mkdir()
        rows = [f"{word} text {number},{word}" for word in ("good", "bad") for number in range(40)]
        file.write_text("\n".join(["text,label", *rows]))
        runs.append(replace(SMALL, corpus=str(file), size=20))
    assert len({key(run, place) for run in runs}) == 1
    report = run_all(runs, place)
    assert (report.done, report.failed) == (1, {})


@pytest.mark.parametrize("together", [1, 4])
def test_a_run_that_fails_is_reported_and_the_others_go_on(place, here, together):
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\nof 4 5 6\n")
    faults = dict.fromkeys((BAD, replace(BAD, pooling="mean")), TOO_MANY)
    faults |= {
        DIVERGING: "the loss became",
        replace(SMALL, vectors="glove.6B.100d"): "have the shape",
    }
    report = run_all([*faults, *GRID], place, Workforce(models_per_batch=together))
    assert (report.done, report.failed.keys()) == (len(GRID), faults.keys())
    assert all(reason in report.failed[run] for run, reason in faults.items())
    refused(
        r"found no word vectors nowhere, .*fetch glove",
        run_all,
        [replace(SMALL, vectors="nowhere")],
        place,
    )


def test_a_result_says_in_which_precision_it_was_computed(place, here, monkeypatch):
    """Less than float32 is for recurrences."""
    monkeypatch.setattr(engine, "processor_has_bfloat16", lambda: True)
    transformer = replace(SMALL, cell="transformer", pooling="mean")
    starts = ("thesis", 2.0, "low", "chrono", 5.0)
    used, started = [], [replace(SMALL, pooling="last", forget_bias=start) for start in starts]
    monkeypatch.setattr(engine, "precision", lambda name: used.append(name) or nullcontext())
    run_all([*started, transformer], place, Workforce(precision="bfloat16"))
    assert used == ["bfloat16"] * 3 + ["float32"] * 3
    assert GradientProfile(started[-1]).long_memory
    assert not GradientProfile(transformer).recurrent
    assert not FewShot("imdb", "bert").recurrent
    assert FewShot("imdb", "max_attention").recurrent


def test_mistakes_in_a_workforce_are_named_before_work_begins(place, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(engine, "processor_has_bfloat16", lambda: False)
    for asked, message in {
        Workforce("slurm"): "engine 'slurm' is unknown; choose one of local, ray",
        Workforce(address="head:6379"): "only a Ray cluster has an address; add --engine ray",
        Workforce(precision="half"): "precision 'half' is unknown; choose one of float32",
        Workforce(device="tpu"): "device 'tpu' is unknown; choose cpu or cuda",
        Workforce(device="cuda"): "device cuda was asked for, but torch sees no GPU",
        Workforce(precision="bfloat16"): "this processor has no bfloat16; use --precision float32",
    }.items():
        refused(message, run_all, [SMALL], place, asked)
    assert not place.store.directory.exists()


def test_notebooks_take_the_workforce_from_the_environment(monkeypatch):
    for name, value in {"ENGINE": "ray", "ADDRESS": "head:6379", "WORKERS": "3"}.items():
        monkeypatch.setenv(f"WHENPOOL_{name}", value)
    assert Workforce.default() == Workforce("ray", "head:6379", 3)
    for value in ("none", "0"):
        monkeypatch.setenv("WHENPOOL_WORKERS", value)
        refused(f"_WORKERS must be a whole number from 1, not '{value}'", Workforce.default)


def test_the_processes_of_a_gpu_fill_it_together(monkeypatch):
    monkeypatch.setattr(engine, "models_that_fill", lambda device: 33)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for options, models in (
        ({}, 1),
        ({"device": "cuda:1"}, 16),
        ({"device": "cuda", "workers": 8}, 8),
        ({"device": "cuda", "workers": 200}, 1),
        ({"device": "cuda", "engine": "ray"}, 1),
        ({"device": "cuda", "models_per_batch": 5}, 5),
    ):
        assert Workforce(**options).models_at_once() == models, options


def test_trained_together_the_results_are_the_same_but_for_rounding(place, here):
    one, several = fresh(place, "one"), fresh(place, "several")
    run_all(PAIRED, one)
    kept, three = PAIRED[0], Workforce(models_per_batch=3)
    report = run_all(PAIRED, several, three, keep_weights=lambda run: run == kept)
    assert (report.done, report.failed) == (len(PAIRED), {})
    assert sorted(map(len, here[1])) == [1, 1, 3, 3]
    for run in PAIRED:
        loss = result_of(run, one)["test_loss"]
        assert result_of(run, several)["test_loss"] == pytest.approx(loss, rel=1e-4)
    assert [run for run in PAIRED if has_weights(run, several)] == [kept]
    made = several.store.rows("training").groupby("group")["together"].agg(list).tolist()
    assert sorted(made) == [[1, 1], [3, 3, 3], [3, 3, 3]]


def test_too_little_memory_halves_the_batch_of_models(place, here, monkeypatch):
    tried, models = [], weakref.WeakSet()
    execute_batched = engine.execute_batched

    def limited(runs, *args):
        assert not models  # those that were too many are gone
        tried.append(len(runs))
        if len(runs) > 2:
            model = torch.nn.Identity()
            models.add(model)
            raise torch.OutOfMemoryError("CUDA out of memory")
        execute_batched(runs, *args)

    monkeypatch.setattr(engine, "execute_batched", limited)
    report = run_all(PAIRED, place, Workforce(models_per_batch=4))
    assert (tried, report.done, report.failed) == ([4, 2, 2] * 2, 8, {})


def test_only_who_was_alone_with_a_worker_is_blamed_for_its_death(place, here):
    deadly = min(PAIRED, key=lambda run: run.rank())

    def die(task):
        if any(job.run == deadly for job in task):
            raise WorkerDiedError("exit code -9")

    here.before = die
    report = run_all(PAIRED, place, Workforce(models_per_batch=4))
    assert report.done == len(PAIRED) - 1
    assert report.failed == {
        deadly: "its process died 2 times (exit code -9); it may need more memory"
    }
    sizes = [len(task) for task in here[0] if any(job.run == deadly for job in task)]
    assert sizes == [4, 2, 1, 1]


@pytest.mark.parametrize(
    "begins, message",
    [
        ("raise SystemExit(1)", "a process could not start; its error is above"),
        ("import os; os.kill(os.getpid(), 9)", "no process could begin a run, .* exit code -9"),
        (
            "import resource as r, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "r.setrlimit(r.RLIMIT_FSIZE, (2_000, 2_000))" + engine.WORKER,
            "cannot write .*; free space or unlock its folder; finished work is kept",
        ),
    ],
)
def test_what_no_process_could_do_better_stops_all(place, monkeypatch, begins, message):
    encode(place.source(SMALL), SMALL.length, place.cache)
    monkeypatch.setattr(engine, "WORKER", begins)
    refused(message, run_all, GRID, place, Workforce(workers=1))
    assert place.store.keys() == set()


def test_on_a_gpu_other_settings_and_seeds_fill_a_task():
    jobs = [Job(run, str(number)) for number, run in enumerate(GRID)]
    probe = Job(GradientProfile(SMALL), "probe")
    for size, on_gpu, sizes in (
        (1, True, [1] * 9),
        (1, False, [1] * 9),
        (4, False, [2, 2, 1, 2, 2]),
        (4, True, [4, 1, 4]),
        (8, True, [8, 1]),
    ):
        assert [len(task) for task in tasks_of([*jobs, probe], size, on_gpu)] == sizes


def test_when_nothing_can_be_stored_all_stops_and_what_is_finished_stays(place, here, monkeypatch):
    put, kept = Store.put, []

    def full(store, *args, **options):
        if len(kept) == 2:
            raise StorageError("cannot write it: No space left on device; free or unlock the place")
        kept.append(put(store, *args, **options))

    monkeypatch.setattr(Store, "put", full)
    refused("No space left on device; free", run_all, GRID, place)
    assert len(here[0]) == 3
    assert place.store.keys() == set(kept)
    monkeypatch.setattr(Store, "put", put)
    assert run_all(GRID, place).done == len(GRID) - 2


def test_what_another_command_is_at_is_waited_for_and_counted(place, here, capsys):
    other = Locks(place.store.directory)
    waiting, given_up, *_ = sorted(GRID, key=lambda run: run.rank())
    theirs = tuple(Job(run, key(run, place)) for run in (waiting, given_up))
    assert all(map(other.take, theirs))
    elsewhere = fresh(place, "elsewhere")
    run_all([waiting], elsewhere)
    finished = elsewhere.store.directory / f"{key(waiting, place)}.json"

    def meanwhile(task):
        if len(here[0]) == 1:  # the other command ends one run, and is stopped in another
            (place.store.directory / finished.name).write_bytes(finished.read_bytes())
            other.release(*other.held)

    here.before = meanwhile
    report = run_all(GRID, place)
    assert (report.done, report.shared, report.failed) == (len(GRID) - 1, 1, {})
    assert list((place.store.directory / "claims").iterdir()) == []
    bar = capsys.readouterr().err.split("\r")[-1]
    assert re.fullmatch(r"runs \|█+\| 100% \d\d:\d\d elapsed, 00:00 left\s*", bar), bar


def test_at_the_deadline_what_is_unfinished_is_stopped_cleanly_and_then_nothing_is_begun(
    place, monkeypatch
):
    endless = [replace(SMALL, epochs=10**6, seed=seed) for seed in (0, 1)]
    unfinished = place.store.directory / "unfinished"
    at_once = "from paper.runs.kinds import training; training.EVERY = 0.0"
    monkeypatch.setattr(engine, "WORKER", at_once + engine.WORKER)

    def now():
        return 2.0 if any(unfinished.glob("*.pt")) else 0.0  # over once an epoch is saved

    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=now, sleep=time.sleep))
    for until in (0.0, 1.0):
        assert not (place.cache / "encoded").exists()  # at first no corpus is read
        report = run_all(endless, place, Workforce(workers=1, until=until))
        assert (report.done, report.left, report.failed) == (0, 2, {})
    assert place.store.keys() == set()
    assert any(unfinished.glob("*.pt"))
