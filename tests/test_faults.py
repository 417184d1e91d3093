"""Disturbing whole commands: kill -9, ctrl-C, two at once, a full disk, a store from elsewhere.

``WHENPOOL_FAULT_TRIES`` says how many times something is killed at a random moment; the default is 5,
continuous integration has 50.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from test_engine import GRID, SMALL, results

from whenpool.runs.compute import standing
from whenpool.runs.engine import Workforce, run_all
from whenpool.runs.run import Place
from whenpool.runs.store import Store

TRIES = int(os.environ.get("WHENPOOL_FAULT_TRIES", "5"))
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
pytestmark = needs_proc

RUNS = [replace(run, epochs=120) for run in GRID]
SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
sys.path.insert(0, {tests!r})
from test_faults import RUNS, Path, Place, Store, Workforce, run_all
if __name__ == "__main__":
    place = Place(Store(Path({store!r})), Path({data!r}), Path({cache!r}))
    try:
        report = run_all(RUNS, place, Workforce(workers=2, together={together}))
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        sys.exit(str(error))
    print(report.done, report.shared, len(report.failed))
"""


def script(place, folder, together=1):
    file = Path(folder) / "grid.py"
    file.write_text(
        SCRIPT.format(
            tests=str(Path(__file__).parent), store=str(place.store.directory), data=str(place.data),
            cache=str(place.cache), together=together,
        )
    )  # fmt: skip
    return [sys.executable, str(file)]


def start(place, folder, together=1):
    """A parent process that runs a grid which takes some seconds."""
    return subprocess.Popen(
        script(place, folder, together), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )  # fmt: skip


def finish(parent):
    """Runs done, done by another command, and failed."""
    said, _ = parent.communicate(timeout=120)
    assert parent.returncode == 0
    return [int(count) for count in said.split()]


def children(pid):
    """Worker processes of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = status.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z" and b"spawn_main" in command:
            found.append(int(status.parent.name))
    return found


def wait_for(condition, seconds=150):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def stored(place):
    """When each finished run was written."""
    return {file: file.stat().st_mtime_ns for file in place.store.directory.glob("*.json")}


@pytest.fixture(scope="module")
def undisturbed(shared):
    run_all(RUNS, shared, Workforce(workers=2))
    return results(shared.store)


def check_results(place, undisturbed, together):
    found = results(place.store)
    if together == 1:
        assert found == undisturbed  # bit for bit
        return
    assert found.keys() == undisturbed.keys()
    for name, row in undisturbed.items():  # what another grouping makes of rounding in 20 epochs
        assert found[name]["test_loss"] == pytest.approx(row["test_loss"], rel=1e-2)


@pytest.mark.parametrize("together", [1, 3])
def test_killed_at_random_moments_no_run_is_lost_or_doubled(tmp_path, undisturbed, together):
    """Parent or worker, again and again, over as many grids as that takes; half as many tries with
    models trained together."""
    tries = TRIES if together == 1 else -(-TRIES // 2)
    chance = random.Random(tries)
    found = []  # how many runs were stored at each kill
    for grid in range(3 * TRIES):
        folder = tmp_path / str(grid)
        (folder / "data").mkdir(parents=True)
        place = Place(Store(folder / "store"), folder / "data", tmp_path / "cache")
        parent = start(place, folder, together)
        while len(found) < tries:
            others = disturb(parent, place, chance, found)
            if others is None:
                break  # it was faster: another grid
            if parent.poll() is not None:
                parent.communicate()
                wait_for(lambda pids=others: not any(alive(pid) for pid in pids))
                parent = start(place, folder, together)
        failed = finish(parent)[-1]
        if failed:  # a run whose worker was killed twice; the same command tries again
            before = stored(place)
            assert finish(start(place, folder, together)) == [failed, 0, 0]
            assert before.items() <= stored(place).items()
        check_results(place, undisturbed, together)
        assert place.store.set_aside == []
        assert place.store.failures() == {}
        if len(found) >= tries:
            break
    print("stored when something was killed:", found)
    assert len(found) >= tries
    assert any(0 < count < len(RUNS) for count in found)


def disturb(parent, place, chance, found):
    """Kill the parent or a worker when up to two more runs are stored; the workers that there were, or
    None where the grid is left to end."""
    goal = len(stored(place)) + chance.randint(0 if found else 1, 2)  # at first in the middle of a grid
    if goal >= len(RUNS):
        return None
    wait_for(lambda: parent.poll() is not None or (children(parent.pid) and len(stored(place)) >= goal))
    time.sleep(chance.uniform(0, 0.3))
    others = children(parent.pid)
    before = stored(place)
    if parent.poll() is not None or not others:
        return None
    victim = chance.choice([parent.pid, *others])
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
        found.append(len(before))
    if victim == parent.pid:
        parent.wait()
    assert before.items() <= stored(place).items()
    return others


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(place, tmp_path, undisturbed):
    parent = start(place, tmp_path)
    wait_for(lambda: stored(place))
    pids = children(parent.pid)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: parent and workers alike
    assert parent.wait(30) == 130
    assert not any(alive(pid) for pid in pids)
    kept = stored(place)
    finish(start(place, tmp_path))
    assert kept.items() <= stored(place).items()
    check_results(place, undisturbed, 1)


def test_two_commands_on_one_store_share_the_work(place, tmp_path, undisturbed):
    (tmp_path / "other").mkdir()
    parents = [start(place, tmp_path), start(place, tmp_path / "other")]
    (done, shared, failed), (others, others_shared, others_failed) = map(finish, parents)
    assert done + others == len(RUNS)  # none done twice
    assert (failed, others_failed) == (0, 0)
    assert done + shared <= len(RUNS)
    assert others + others_shared <= len(RUNS)
    check_results(place, undisturbed, 1)


def test_on_a_full_disk_one_line_says_so_and_what_is_finished_stays(place, tmp_path, undisturbed):
    disk = place.store.directory
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=32k none {disk} && "
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount + "true"], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    kept = tmp_path / "kept"
    command = " ".join(script(place, tmp_path))
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{mount} {command}; said=$?; cp -r {disk} {kept}; exit $said"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left on device; free or unlock the place, what is finished stays" in done.stderr
    after = Place(Store(kept), place.data, place.cache)
    finished = results(after.store)
    assert 0 < len(finished) < len(RUNS)
    assert finished.items() <= undisturbed.items()
    assert finish(start(after, tmp_path))[0] == len(RUNS) - len(finished)
    check_results(after, undisturbed, 1)


def test_a_store_copied_from_another_machine_counts(place, tmp_path):
    texts = "text,label\n" + "".join(f"word{i % 7} and word{i % 5} again,{i % 2}\n" for i in range(90))
    here, there = tmp_path / "here", tmp_path / "there"
    found = {}
    for folder in (here, there):
        folder.mkdir()
        (folder / "reviews.csv").write_text(texts)
        run = replace(SMALL, corpus=str(folder / "reviews.csv"), epochs=1, size=10, validation=5, test=5)
        found[folder] = run, Place(Store(folder / "store"), folder, folder / "cache")
    run, source = found[here]
    assert run_all([run], source, Workforce(workers=1)).done == 1
    shutil.copytree(here / "store", there / "store")
    run, target = found[there]
    assert list(standing([run], target).done) == [run]
    assert run_all([run], target).done == 0
    assert asdict(run)["corpus"] != source.store.rows("training")["corpus"][0]
