"""The engine on a Ray cluster: two nodes, of which one is lost, and what a node does with a
task."""

import logging
import os
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from called import refused
from conftest import empty_place
from small_runs import GRID, SMALL, command, has_weights, left_by, processes, stored, wait_for

from paper.runs import cluster
from paper.runs.cluster import Cluster, perform
from paper.runs.engine import Job, Workforce, run_all
from paper.runs.kinds.probe import GradientProfile, GradientTrace
from paper.runs.run import Place, key
from paper.runs.store import Store

ray = pytest.importorskip("ray")
RUNS = [replace(run, epochs=250) for run in GRID]  # about a second each
KEPT = RUNS[0]
at_work = partial(processes, words="ray::perform")  # processes of some nodes that do a task of ours
RAY = Workforce(engine="ray")


class Nodes:
    """A cluster of two nodes of one processor; the test itself is at the first one."""

    def __init__(self, folder):
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": False}
        self._folder, self.cluster = folder, Cluster(initialize_head=True, head_node_args=head)
        self.second = self.cluster.add_node(num_cpus=1)

    def scratch(self):
        """Folders that tasks have made and not removed."""
        return set(self._folder.glob("whenpool-*"))

    @property
    def raylets(self):
        """The processes that are the nodes, and the parents of their workers."""
        both = (self.cluster.head_node, self.second)
        return [node.all_processes["raylet"][0].process.pid for node in both]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        for variable in ("DATA", "STORE", "CACHE"):  # the nodes' own
            patch.setenv(f"WHENPOOL_{variable}", str(folder / variable.lower()))
        patch.setenv("RAY_TMPDIR", tempfile.gettempdir())  # sockets need a short path
        patch.setenv("TMPDIR", str(folder))
        nodes = Nodes(folder)
        ray.init(nodes.cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        yield nodes
        ray.shutdown()
        nodes.cluster.shutdown()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    place = empty_place(tmp_path_factory.mktemp("undisturbed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHENPOOL_CACHE", str(place.cache))
        run_all(RUNS, place, Workforce(workers=2), keep_weights=lambda run: run == KEPT)
    return place


def same(place, undisturbed):
    return all(left_by(run, place)[0] == left_by(run, undisturbed)[0] for run in RUNS)


def test_a_grid_is_what_the_local_engine_makes_of_it(place, nodes, undisturbed):
    report = run_all(RUNS, place, RAY, keep_weights=lambda run: run == KEPT)
    assert (report.done, report.failed) == (len(RUNS), {})
    assert same(place, undisturbed)
    assert set(place.store.rows("training")["engine"]) == {"ray"}
    assert left_by(KEPT, place) == left_by(KEPT, undisturbed)  # and their weights
    assert [run for run in RUNS if has_weights(run, place)] == [KEPT]
    assert not nodes.scratch()

    probe, trace = GradientProfile(KEPT, texts=5), GradientTrace(replace(SMALL, seed=5), 4, 10)
    assert run_all([probe, trace], place, RAY).done == 2
    of_trace = key(trace.training, place)
    assert place.store.has(of_trace, with_weights=True)
    before = place.store._file(of_trace).read_bytes()
    again = replace(trace, until=32)  # a node does not know that its training is on record
    assert run_all([again], place, RAY).done == 1
    assert place.store._file(of_trace).read_bytes() == before


@pytest.mark.parametrize("lost", ["node", "worker"])
def test_a_lost_node_or_worker_costs_nothing_that_was_finished(place, nodes, undisturbed, lost):
    raylets, before = nodes.raylets[1:] if lost == "node" else nodes.raylets, {}

    def halted():
        """A worker that is stopped in the middle of a task, which therefore cannot end before the
        harm."""
        for worker in at_work(raylets):
            os.kill(worker, signal.SIGSTOP)
            if worker in at_work(raylets):
                return worker
            os.kill(worker, signal.SIGCONT)
        return None

    def harm():
        """Once some runs are stored and there is somebody to do it to."""
        worker = wait_for(lambda: len(stored(place)) >= 2 and halted())
        before.update(stored(place))
        if lost == "node":
            nodes.cluster.remove_node(nodes.second, allow_graceful=False)
        with suppress(ProcessLookupError):  # it may have ended with its node
            os.kill(worker, signal.SIGKILL)

    meanwhile = threading.Thread(target=harm)
    meanwhile.start()
    report = run_all(RUNS, place, RAY)
    meanwhile.join()
    if lost == "node":
        nodes.second = nodes.cluster.add_node(num_cpus=1)
    assert (report.done, report.failed) == (len(RUNS), {})
    assert 2 <= len(before) < len(RUNS)
    assert before.items() <= stored(place).items()
    assert same(place, undisturbed)


def test_a_gpu_that_no_node_has_is_named(place, nodes):
    refused(
        "no node of the Ray cluster has a GPU; use --device cpu",
        Cluster,
        place,
        replace(RAY, device="cuda"),
    )


def test_ctrl_c_stops_cleanly_and_leaves_nothing_on_the_nodes(place, nodes, tmp_path):
    runs = "[replace(run, epochs=2000) for run in GRID]"
    line = command(place, tmp_path / "grid.py", runs, Workforce("ray", nodes.cluster.address))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    parent = subprocess.Popen(line, start_new_session=True, **pipes)
    left = nodes.scratch()  # by the workers that were killed
    wait_for(lambda: parent.poll() is not None or len(nodes.scratch() - left) >= 2)
    assert parent.poll() is None, parent.stderr.read()
    os.killpg(parent.pid, signal.SIGINT)
    said, complained = parent.communicate(timeout=600)
    assert (parent.returncode, said, "Traceback" in complained) == (130, "", False)
    wait_for(lambda: not (nodes.scratch() - left or at_work(nodes.raylets)))


def test_a_cluster_that_is_not_there_is_one_line(place, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    for address in ("127.0.0.1:1", "ray://somewhere", "somewhere"):
        refused(
            f"cluster at {address} cannot be used: .*ray start --head",
            Cluster,
            place,
            replace(RAY, address=address),
        )


def performed(run, place, data=None):
    """What becomes of a run on a node, and why it fails."""
    job = Job(run, key(run, place))
    sent = perform((job,), RAY, {}, data or place.data, place.cache)
    return sent, "".join(sent.failures.values())


def test_a_node_with_other_data_is_named(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    run = replace(SMALL, vectors="glove.6B.100d", embedding_size=3)
    for folder, line in ((here, "the 1 2 3\n"), (there, "the 1 2 4\n")):
        folder.mkdir()
        (folder / "glove.6B.100d.txt").write_text(line)
    place = Place(Store(tmp_path / "store"), here, tmp_path / "cache")
    monkeypatch.setenv("WHENPOOL_DATA", str(there))
    _, message = performed(run, place, tmp_path / "nowhere")
    assert f"has other data than this machine; make {there} the same there" in message
    (there / "glove.6B.100d.txt").unlink()
    _, message = performed(run, place, tmp_path / "nowhere")
    assert "cannot read what the run needs: found no word vectors glove.6B.100d" in message
    sent, message = performed(run, place)  # where the folder is shared
    assert not message
    place.store.write(*sent.stored[0])
    assert place.store.has(key(run, place))


def test_what_fails_on_a_node_is_no_silence(place, monkeypatch):
    lacking = GradientProfile(replace(SMALL, seed=7))
    assert "corpus has 60 train" in performed(replace(SMALL, size=1000), place)[1]
    assert "are not stored" in performed(lacking, place)[1]
    monkeypatch.setattr(cluster, "do", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        performed(SMALL, place)
