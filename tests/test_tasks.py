"""How an engine cuts its work into tasks, and what becomes of them."""

import time
import weakref
from dataclasses import replace

import pytest
import torch
from conftest import PoolHere
from test_engine import GRID, SMALL, fresh, results

from whenpool import InputError
from whenpool.base.errors import StorageError
from whenpool.runs.engine import Workforce, run_all, running, tasks
from whenpool.runs.engine.tasks import Claims, halves, outstanding, tasks_of
from whenpool.runs.filter import informative
from whenpool.runs.kinds.probe import GradientProfile
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import key
from whenpool.runs.store import Store


@pytest.fixture
def here(monkeypatch):
    """The pools that were made, all of this process."""
    made = []

    def pool(place, workforce, tasks):
        made.append(PoolHere(place, workforce))
        return made[-1]

    monkeypatch.setattr(running, "_pool", pool)
    return made


def jobs(runs, place):
    return outstanding(runs, place, lambda run: False)


def test_the_most_informative_runs_come_first(place):
    tasks = tasks_of(jobs(GRID[::-1], place), 1)
    runs = [job.run for (job,) in tasks]
    assert runs == sorted(GRID, key=informative)
    assert [run.seed for run in runs] == [0] * 4 + [1] * 4


def test_trainings_of_one_cell_are_grouped_and_others_stay_alone(place):
    alone = [
        replace(SMALL, cell="gru"),
        replace(SMALL, drop_connect=0.1),
        replace(SMALL, pooling="last", trick="penalty_attention"),
        GradientProfile(SMALL),
    ]
    tasks = tasks_of(jobs([*GRID, *alone], place), 3)
    assert sorted(len(task) for task in tasks) == [1] * 6 + [3, 3]
    for task in tasks:
        assert len({job.run.training.setting for job in task}) == 1
    assert sum(len(task) for task in tasks) == len(GRID) + len(alone)


def test_sizes_and_recipes_are_not_mixed(place):
    others = [replace(SMALL, size=20), replace(SMALL, epochs=1), replace(SMALL, hidden_size=5)]
    assert [len(task) for task in tasks_of(jobs([SMALL, *others], place), 4)] == [1] * 4


def test_halves():
    assert halves((1, 2, 3)) == [(1, 2), (3,)]
    assert halves((1,)) == [(1,)]
    assert halves(()) == []


def test_trained_together_the_results_are_the_same_but_for_rounding(place, here):
    one, several = fresh(place, "one"), fresh(place, "several")
    run_all(GRID, one)
    report = run_all(GRID, several, Workforce(together=3))
    assert (report.done, report.failed) == (len(GRID), {})
    assert sorted(len(task) for task in here[1].tasks) == [1, 1, 3, 3]
    alone, company = results(one.store), results(several.store)
    assert alone.keys() == company.keys()
    for name, row in alone.items():
        assert company[name]["test_loss"] == pytest.approx(row["test_loss"], rel=1e-4)
    assert several.store.rows("training")["together"].value_counts().to_dict() == {3: 6, 1: 2}


def test_too_little_memory_halves_the_batch_of_models_and_says_so(place, here, monkeypatch):
    tried = []
    execute_together = tasks.execute_together

    def limited(runs, *args, **options):
        tried.append(len(runs))
        if len(runs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        execute_together(runs, *args, **options)

    monkeypatch.setattr(tasks, "execute_together", limited)
    report = run_all(GRID, place, Workforce(together=4))
    assert tried == [4, 2, 2] * 2
    assert (report.done, report.failed) == (8, {})
    assert report.notes[-1] == (
        "4 models at once were too much for the memory of the GPU; half as many were trained at a time "
        "instead."
    )


def test_the_models_that_were_too_many_are_gone_when_fewer_are_tried(place, here, monkeypatch):
    class Model:
        pass

    left = []
    execute_together = tasks.execute_together

    def limited(runs, *args, **options):
        assert not [model for model in left if model() is not None]
        if len(runs) > 2:
            model = Model()
            left.append(weakref.ref(model))
            raise RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")
        execute_together(runs, *args, **options)

    monkeypatch.setattr(tasks, "execute_together", limited)
    assert run_all(GRID, place, Workforce(together=4)).done == 8
    assert len(left) == 2


def test_only_who_was_alone_with_a_worker_is_blamed_for_its_death(place, here, monkeypatch):
    poisonous = sorted(GRID, key=informative)[0]

    class Deadly(PoolHere):
        def listen(self, seconds):
            if any(job.run == poisonous for job in self._waiting[0]):
                return [(self._waiting.pop(0), "died", "", " (exit code -9)")]
            return super().listen(seconds)

    pools = []

    def pool(place, workforce, tasks):
        pools.append(Deadly(place, workforce))
        return pools[-1]

    monkeypatch.setattr(running, "_pool", pool)
    report = run_all(GRID, place, Workforce(together=4))
    assert report.done == len(GRID) - 1
    assert report.failed == {poisonous: "its process died 2 times (exit code -9); out of memory?"}
    sizes = [len(task) for task in pools[0].tasks if any(job.run == poisonous for job in task)]
    assert sizes == [4, 2, 1, 1]


def test_a_gpu_that_is_lost_ends_the_worker_and_not_the_run(place, monkeypatch):
    lost = getattr(torch, "AcceleratorError", None)
    if lost is None:
        pytest.skip("this torch has no error for it")
    error = lost("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr(Training, "execute", lambda *args: (_ for _ in ()).throw(error))
    told = []
    with pytest.raises(tasks.DeviceLostError, match="illegal memory access"):
        tasks.do((jobs([SMALL], place)[0],), place, "cpu", told.append)
    assert [message.kind for message in told] == ["begun"]


def test_workers_take_turns_in_the_gpus_of_the_machine(place, monkeypatch):
    from whenpool.runs.engine import local

    given = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(local, "_Worker", lambda place, workforce: given.append(workforce.device))
    pool = running._pool(place, Workforce(device="cuda", workers=3), 10)
    for _ in range(3):
        pool._another()
    assert given == ["cuda:0", "cuda:1", "cuda:0"]
    assert running._pool(place, Workforce(device="cuda"), 10)._size == 2


def test_what_does_not_fit_is_cut_from_a_group(place, here):
    until = time.monotonic() + 300
    report = run_all(GRID, place, Workforce(together=4, until=until), seconds=lambda run: 110.0)
    assert [len(task) for task in here[0].tasks] == [2, 2]
    assert (report.done, report.left) == (4, 4)


def test_a_run_that_is_too_much_alone_fails_and_the_others_go_on(place, here, monkeypatch):
    execute = Training.execute

    def limited(run, *args):
        if run.pooling == "last":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return execute(run, *args)

    monkeypatch.setattr(Training, "execute", limited)
    report = run_all(GRID, place)
    assert report.done == 4
    assert set(report.failed.values()) == {
        "the GPU has too little memory for it; free some, or use --device cpu"
    }


def test_what_is_wrong_with_one_of_a_group_is_said_of_that_one(place, here):
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\nof 4 5 6\n")
    runs = [replace(SMALL, size=1000, seed=seed) for seed in (0, 1)]
    diverging = replace(SMALL, learning_rate=3e38)
    report = run_all([*runs, *GRID, diverging], place, Workforce(together=4))
    assert report.done == len(GRID)
    assert {report.failed[run] for run in runs} == {
        "the corpus has 60 train texts, 1,000 were asked for; choose fewer"
    }
    assert "the loss became" in report.failed[diverging]


def test_when_nothing_can_be_stored_all_stops_and_what_is_finished_stays(place, here, monkeypatch):
    put, stored = Store.put, []

    def full(store, *args, **options):
        if len(stored) == 2:
            raise StorageError("cannot write it: No space left on device; free or unlock the place")
        stored.append(put(store, *args, **options))

    monkeypatch.setattr(Store, "put", full)
    with pytest.raises(InputError, match="No space left on device; free"):
        run_all(GRID, place)
    assert here[0].closed
    assert len(here[0].tasks) == 3
    assert place.store.keys() == set(stored)
    assert place.store.failures() == {}
    monkeypatch.setattr(Store, "put", put)
    assert run_all(GRID, place).done == len(GRID) - 2


def test_what_another_command_is_at_is_waited_for_and_counted(place, here, monkeypatch):
    other = Claims(place.store.directory)
    waiting, given_up, failing = sorted(GRID, key=informative)[:3]
    for run in (waiting, given_up, failing):
        assert other.take(key(run, place))
    elsewhere = fresh(place, "elsewhere")
    run_all([waiting], elsewhere)
    finished = elsewhere.store.directory / f"{key(waiting, place)}.json"

    class Meanwhile(PoolHere):
        def begin(self, task):
            if not self.tasks:  # the other command ends one run, is stopped in another, fails a third
                (place.store.directory / finished.name).write_bytes(finished.read_bytes())
                place.store.fail(key(failing, place), failing.changed(), "it went wrong")
                other.release_all()
            return super().begin(task)

    monkeypatch.setattr(running, "_pool", lambda place, workforce, tasks: Meanwhile(place, workforce))
    report = run_all(GRID, place)
    assert (report.done, report.shared) == (len(GRID) - 2, 1)
    assert report.failed == {failing: "it went wrong"}
    assert len(place.store.keys()) == len(GRID) - 1
    assert list((place.store.directory / "claims").iterdir()) == []


def test_a_claim_is_one_commands(tmp_path):
    one, other = Claims(tmp_path), Claims(tmp_path)
    assert one.take("a")
    assert one.take("a")  # ours already
    assert not other.take("a")
    assert other.take("b")
    one.release("a")
    assert other.take("a")
    other.release_all()
    assert one.take("b")


def test_what_does_not_fit_before_the_deadline_is_left_out(place, here):
    slow = {run: 1000.0 if run.setting == "mid" else 0.01 for run in GRID}
    until = time.monotonic() + 300
    report = run_all(GRID, place, Workforce(until=until), seconds=slow.get)
    assert (report.done, report.left, report.failed) == (4, 4, {})
    assert {run.setting for run in GRID if place.store.has(key(run, place))} == {"standard"}


def test_after_the_deadline_nothing_is_begun(place, here):
    report = run_all(GRID, place, Workforce(until=time.monotonic() - 1))
    assert (report.done, report.left) == (0, len(GRID))
    assert here == []  # and no worker asked for
    assert not (place.cache / "encoded").exists()  # nor a corpus read


def test_at_the_deadline_what_is_unfinished_is_stopped_cleanly(place):
    endless = [replace(SMALL, epochs=10**6, seed=seed) for seed in (0, 1)]
    started = time.monotonic()
    report = run_all(endless, place, Workforce(workers=1, until=started + 6))
    assert time.monotonic() - started < 30
    assert (report.done, report.left, report.failed) == (0, 2, {})
    assert place.store.keys() == set()
    assert place.store.failures() == {}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WORKERS", "none", "WHENPOOL_WORKERS is a number, at least 1, not 'none'"),
        ("TOGETHER", "0", "WHENPOOL_TOGETHER is a number, at least 1, not '0'"),
    ],
)
def test_mistakes_in_the_environment_are_named(monkeypatch, name, value, message):
    monkeypatch.setenv(f"WHENPOOL_{name}", value)
    with pytest.raises(InputError, match=message):
        Workforce.default()


def test_notebooks_take_the_workforce_from_the_environment(monkeypatch):
    for name, value in {"ENGINE": "ray", "ADDRESS": "head:6379", "WORKERS": "3"}.items():
        monkeypatch.setenv(f"WHENPOOL_{name}", value)
    assert Workforce.default() == Workforce("ray", "head:6379", 3)


@pytest.mark.parametrize(
    ("workforce", "message"),
    [
        (Workforce("slurm"), "engine 'slurm' is unknown; choose one of local, ray"),
        (Workforce(address="head:6379"), "an address is of a Ray cluster: choose --engine ray"),
        (Workforce(precision="half"), "precision 'half' is unknown; choose one of float32"),
    ],
)
def test_mistakes_in_a_workforce_are_named_before_work_begins(place, workforce, message):
    with pytest.raises(InputError, match=message):
        run_all([SMALL], place, workforce)
    assert not place.store.directory.exists()
