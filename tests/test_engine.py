"""Running many runs on processes of this machine, undisturbed and disturbed."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from whenpool import InputError
from whenpool.engine import run_all
from whenpool.engine.local import Job, _Crew
from whenpool.runs import Place, Training, key
from whenpool.store import Store

SMALL = Training(
    "synthetic:train=60,validation=20,test=30,shortest=10,longest=14", "standard", 30, "max",
    length="any", embedding_size=8, hidden_size=6, epochs=2,
)  # fmt: skip
GRID = [
    replace(SMALL, pooling=pooling, setting=setting, seed=seed)
    for pooling in ("last", "max_attention")
    for setting in ("standard", "mid")
    for seed in (0, 1)
]


def results(store):
    """What must not depend on how the runs were made."""
    table = store.trainings().set_index("key").sort_index()
    return table[["test_accuracy", "test_loss", "validation_accuracy", "best_epoch"]].to_dict("index")


def fresh(place, name):
    return Place(Store(place.store.directory.with_name(name)), place.data, place.cache)


def test_runs_are_stored_and_not_run_twice(place):
    report = run_all(GRID, place, workers=2)
    assert (report.done, report.failed) == (len(GRID), {})
    assert place.store.keys() == {key(run, place) for run in GRID}
    files = {file: file.stat().st_mtime_ns for file in place.store.directory.glob("*.json")}
    assert run_all(GRID, place, workers=2).done == 0
    assert {file: file.stat().st_mtime_ns for file in files} == files


def test_results_do_not_depend_on_the_number_of_workers(place):
    one, two = fresh(place, "one"), fresh(place, "two")
    run_all(GRID, one, workers=1)
    run_all(GRID[::-1], two, workers=2)
    assert results(one.store) == results(two.store)


def test_weights_are_kept_for_the_runs_that_name_them(place):
    import safetensors.torch

    run_all(GRID[:2], place, workers=1)
    wanted = GRID[0]
    assert run_all(GRID[:2], place, workers=1, keep_weights=lambda run: run == wanted).done == 1
    weights = safetensors.torch.load_file(place.store.weights_file(key(wanted, place)))
    assert weights["encoder.layers.0.0.weight_hh_l0"].shape == (24, 6)
    assert not place.store.weights_file(key(GRID[1], place)).exists()


def test_a_run_that_fails_is_reported_and_the_others_go_on(place):
    bad = replace(SMALL, size=1000)
    diverging = replace(SMALL, learning_rate=3e38)
    report = run_all([bad, SMALL, diverging], place, workers=2)
    assert report.done == 1
    assert report.failed[bad] == "the corpus has 60 train texts, 1,000 were asked for; choose fewer"
    assert "the loss became" in report.failed[diverging]
    assert place.store.failures()[key(bad, place)] == report.failed[bad]


def test_missing_cuda_is_named(place):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="device cuda was asked for, but torch sees no GPU"):
        run_all([SMALL], place, device="cuda")
    with pytest.raises(InputError, match="device 'tpu' is unknown; choose cpu or cuda"):
        run_all([SMALL], place, device="tpu")


def test_vectors_of_another_width_are_named(place):
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\nof 4 5 6\n")
    report = run_all([replace(SMALL, vectors="glove.6B.100d")], place, workers=1)
    assert "have 3 numbers, the model's embedding 8" in next(iter(report.failed.values()))
    with pytest.raises(InputError, match=r"word vectors nowhere.txt are not in .*fetch glove"):
        run_all([replace(SMALL, vectors="nowhere")], place, workers=1)


def test_notes_on_the_corpora_are_told(place):
    assert run_all([SMALL], place, workers=1).notes == ["Texts made by a small grammar."]


def test_an_idle_worker_that_has_died_is_let_go(place):
    crew = _Crew(place, "cpu", 1, "runs")
    crew._queue.append(Job(SMALL, key(SMALL, place)))

    class Dead:
        stopped = False

        def give(self, job):
            raise BrokenPipeError

        def stop(self):
            self.stopped = True

    worker = Dead()
    workers = [worker]
    crew._give(worker, workers)
    assert workers == []
    assert worker.stopped
    assert len(crew._queue) == 1  # the job waits for another worker


SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
sys.path.insert(0, {tests!r})
from test_engine import GRID, run_all, Place, Store, Path
if __name__ == "__main__":
    runs = [g.__class__(**{{**vars(g), "epochs": 40}}) for g in GRID]
    place = Place(Store(Path({store!r})), Path({data!r}), Path({cache!r}))
    try:
        report = run_all(runs, place, workers=2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(1 if report.failed else 0)
"""


def start(place, folder):
    """A parent process that runs a grid which takes some seconds."""
    script = Path(folder) / "grid.py"
    script.write_text(
        SCRIPT.format(
            tests=str(Path(__file__).parent), store=str(place.store.directory), data=str(place.data),
            cache=str(place.cache),
        )
    )  # fmt: skip
    return subprocess.Popen([sys.executable, script], stderr=subprocess.DEVNULL, start_new_session=True)


def children(pid):
    """Worker processes of a process (Linux)."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = status.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and b"spawn_main" in command:
            found.append(int(status.parent.name))
    return found


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def stored(place):
    return len(list(place.store.directory.glob("*.json")))


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "data").mkdir()
    place = Place(Store(folder / "store"), folder / "data", folder / "cache")
    assert start(place, folder).wait(120) == 0
    return results(place.store)


@needs_proc
def test_a_killed_worker_is_replaced_and_its_run_done_again(place, tmp_path, undisturbed):
    parent = start(place, tmp_path)
    wait_for(lambda: stored(place) >= 1)
    os.kill(children(parent.pid)[0], signal.SIGKILL)
    assert parent.wait(120) == 0
    assert results(place.store) == undisturbed


@needs_proc
def test_after_a_killed_parent_workers_stop_and_the_same_command_goes_on(place, tmp_path, undisturbed):
    parent = start(place, tmp_path)
    wait_for(lambda: stored(place) >= 2)
    workers = children(parent.pid)
    assert workers
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    kept = {file: file.stat().st_mtime_ns for file in place.store.directory.glob("*.json")}
    assert 2 <= len(kept) < len(undisturbed)
    assert results(place.store).items() <= undisturbed.items()
    assert start(place, tmp_path).wait(120) == 0
    assert results(place.store) == undisturbed
    assert all(file.stat().st_mtime_ns == when for file, when in kept.items())  # none done twice


@needs_proc
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(place, tmp_path, undisturbed):
    parent = start(place, tmp_path)
    wait_for(lambda: stored(place) >= 1)
    workers = children(parent.pid)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: parent and workers alike
    assert parent.wait(30) == 130
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    kept = stored(place)
    assert kept >= 1
    assert start(place, tmp_path).wait(120) == 0
    assert results(place.store) == undisturbed
