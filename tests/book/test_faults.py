"""Disturbing whole commands: kill -9, ctrl-C, two at once, a full disk, a store from elsewhere.

``WHENPOOL_FAULT_TRIES`` says how many times something is killed at a random moment; the default is
5, continuous integration has 20.
"""

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from conftest import empty_place
from small_runs import GRID, alive, children, command, result_of, same, stored, wait_for

from paper.runs.engine import Workforce, run_all

TRIES = int(os.environ.get("WHENPOOL_FAULT_TRIES", "5"))
RUNS = [replace(run, epochs=60) for run in GRID]


def start(place, file, workers=1, together=1):
    """A process that computes `RUNS`, which takes some seconds."""
    runs = "[replace(run, epochs=60) for run in GRID]"
    line = command(place, file, runs, Workforce(workers=workers, models_per_batch=together))
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    return subprocess.Popen(line, start_new_session=True, **said)


def finish(parent):
    """Runs done, done by another command, and failed."""
    said, _ = parent.communicate(timeout=600)
    assert parent.returncode == 0
    return [int(count) for count in said.split()]


@pytest.fixture(scope="module")
def undisturbed(shared, all_here):
    run_all(RUNS, shared)
    return shared


@pytest.mark.parametrize("together", [1, 3])
def test_killed_at_random_moments_no_run_is_lost_or_doubled(tmp_path, undisturbed, together):
    """Parent or worker, again and again, over as many grids as that takes; a third of the tries
    with models trained together."""
    tries = -(-TRIES * (2 if together == 1 else 1) // 3)
    chance, file = random.Random(tries), tmp_path / "grid.py"
    found = []  # how many runs were stored at each kill
    for grid in range(3 * TRIES):
        place = empty_place(tmp_path / str(grid))
        parent = start(place, file, 2, together)
        while len(found) < tries:
            others = disturb(parent, place, chance, found)
            if others is None:
                break  # it was faster: another grid
            if parent.poll() is not None:
                parent.communicate()
                wait_for(lambda pids=others: not any(alive(pid) for pid in pids))
                parent = start(place, file, 2, together)
        failed = finish(parent)[-1]
        if failed:  # a run whose worker was killed twice; the same command tries again
            before = stored(place)
            assert finish(start(place, file, 2, together)) == [failed, 0, 0]
            assert before.items() <= stored(place).items()
        for run in RUNS:  # none is damaged; together: but for what another grouping rounds
            loss = pytest.approx(result_of(run, undisturbed)["test_loss"], rel=1e-2)
            assert result_of(run, place)["test_loss"] == loss
        assert together > 1 or same(RUNS, place, undisturbed)
        assert len(stored(place)) == len(RUNS)
        if len(found) >= tries:
            break
    assert len(found) >= tries
    assert any(0 < count < len(RUNS) for count in found)


def disturb(parent, place, chance, found):
    """Kill the parent or a worker when up to two more runs are stored; the workers that there were,
    or None where the grid is left to end."""
    goal = len(stored(place)) + chance.randint(
        0 if found else 1, 2
    )  # at first in the middle of a grid
    if goal >= len(RUNS):
        return None
    wait_for(
        lambda: parent.poll() is not None or (children(parent.pid) and len(stored(place)) >= goal)
    )
    time.sleep(chance.uniform(0, 0.3))
    others, before = children(parent.pid), stored(place)
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


def test_ctrl_c_stops_the_workers_and_the_same_command_goes_on(place, tmp_path, undisturbed):
    parent = start(place, tmp_path / "grid.py")
    wait_for(lambda: stored(place))
    pids = children(parent.pid)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: parent and workers alike
    assert parent.wait(600) == 130
    assert not any(alive(pid) for pid in pids)
    assert not list(place.store.directory.rglob("*.lock"))
    kept = stored(place)
    run_all(RUNS, place)
    assert kept.items() <= stored(place).items()
    assert same(RUNS, place, undisturbed)


def test_two_commands_on_one_store_share_the_work(place, tmp_path, undisturbed):
    parents = [start(place, tmp_path / f"{name}.py") for name in ("one", "other")]
    found = [finish(parent) for parent in parents]
    assert sum(done for done, _, _ in found) == len(RUNS)  # none done twice
    assert all(done + shared <= len(RUNS) and not failed for done, shared, failed in found)
    assert same(RUNS, place, undisturbed)
